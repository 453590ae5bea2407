//! The tables of `ARCHITECTURE.md`: who may depend on whom, layers, and modules with unsafe code.

use crate::source::File;

const PATH: &str = "ARCHITECTURE.md";

/// What the tables say. A table that is missing or malformed is an error.
#[derive(Debug)]
pub struct Map {
    /// Each crate and the crates of the workspace that it depends on, from the bottom up.
    pub crates: Vec<(String, Vec<String>)>,
    pub layers: Vec<Layers>,
    /// Paths, and why the code there is unsafe; one that ends in `/` stands for all below it.
    pub unsafe_modules: Vec<(String, String)>,
}

/// Modules of a folder, from the bottom up. Those of one level do not name each other. `mod.rs` of
/// the folder itself may name all; nobody else names what it re-exports.
#[derive(Debug)]
pub struct Layers {
    pub folder: String,
    pub levels: Vec<Vec<String>>,
}

impl Map {
    pub fn read(files: &[File]) -> Result<Map, String> {
        let file = files.iter().find(|file| file.path == PATH).ok_or("the file is missing")?;
        let crates =
            each(file, "| crate | depends on |", |name, others| Ok((code(name)?, list(others)?)))?;
        for (index, (name, others)) in crates.iter().enumerate() {
            let is_above = |other: &String| crates[..index].iter().any(|(above, _)| above == other);
            if let Some(other) = others.iter().find(|other| !is_above(other)) {
                return Err(format!("{name} depends on {other}, which has no row above it"));
            }
        }
        let layers = each(file, "| folder | modules from the bottom up |", |folder, levels| {
            let levels = levels.split('<').map(list).collect::<Result<_, _>>()?;
            Ok(Layers { folder: code(folder)?, levels })
        })?;
        let unsafe_modules = each(file, "| module | reason |", |module, reason| match reason {
            "" => Err(format!("no reason: {module}")),
            reason => Ok((code(module)?, reason.to_owned())),
        })?;
        let map = Map { crates, layers, unsafe_modules };
        let names = map.crates.iter().map(|(name, _)| name);
        let folders = map.layers.iter().map(|layers| &layers.folder);
        let modules = map.unsafe_modules.iter().map(|(module, _)| module);
        let mut all: Vec<&String> = names.chain(folders).chain(modules).collect();
        all.sort();
        match all.windows(2).find(|two| two[0] == two[1]) {
            Some(twice) => Err(format!("twice: {}", twice[0])),
            None => Ok(map),
        }
    }

    /// Whether a path is one of the modules with unsafe code.
    pub fn has_unsafe(&self, path: &str) -> bool {
        self.unsafe_modules.iter().any(|(module, _)| covers(module, path))
    }
}

/// Whether `listed` names `path` or, ending in `/`, a directory above it.
pub fn covers(listed: &str, path: &str) -> bool {
    listed == path || listed.ends_with('/') && path.starts_with(listed)
}

/// The rows of the one table that has this header.
fn each<T>(
    file: &File,
    header: &str,
    read: impl Fn(&str, &str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let mut lines = file.lines.iter().map(|line| line.raw.trim());
    lines.find(|line| *line == header).ok_or_else(|| format!("no table has {header}"))?;
    if lines.next() != Some("|---|---|") {
        return Err(format!("no |---|---| below {header}"));
    }
    let mut rows = Vec::new();
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        let cells = line.strip_prefix('|').and_then(|rest| rest.strip_suffix('|'));
        let cells: Vec<&str> = cells.unwrap_or("").split('|').map(str::trim).collect();
        let [first, second] = cells[..] else { return Err(format!("not two columns: {line}")) };
        rows.push(read(first, second)?);
    }
    if rows.is_empty() || lines.any(|line| line == header) {
        return Err(format!("not one table with rows has {header}"));
    }
    Ok(rows)
}

/// Text in backticks.
fn code(text: &str) -> Result<String, String> {
    let inner = text.trim().strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    let inner = inner.filter(|inner| !inner.is_empty() && !inner.contains(['`', ' ']));
    inner.map(str::to_owned).ok_or_else(|| format!("not one name in `code`: {text:?}"))
}

/// Texts in backticks, with commas between; none where there is nothing.
fn list(text: &str) -> Result<Vec<String>, String> {
    match text.trim() {
        "" => Ok(Vec::new()),
        text => text.split(',').map(code).collect(),
    }
}

/// A map for the samples of rules.
pub const SAMPLE: (&str, &str) = (
    PATH,
    "# Architecture\n\n| crate | depends on |\n|---|---|\n| `table` | |\n| `nic` | `table` |\n\n\
     | folder | modules from the bottom up |\n|---|---|\n\
     | `crates/apps/src/kvs` | `protocol` < `store` < `codec` < `transport` |\n\
     | `crates/apps/src/kvs/codec` | `context` < `binary`, `text` < `session` |\n\n\
     | module | reason |\n|---|---|\n| `crates/table/src/grid.rs` | cache lines |\n\
     | `crates/table/src/prune/` | SIMD |\n",
);

#[test]
fn the_map_is_read_or_refused() {
    let read = |text: &str| Map::read(&[crate::source::file(PATH, text)]);
    let map = read(SAMPLE.1).unwrap();
    assert_eq!(map.crates[1], ("nic".to_owned(), vec!["table".to_owned()]));
    assert_eq!(map.layers[1].levels[1], ["binary", "text"]);
    assert!(map.has_unsafe("crates/table/src/prune/a.rs"));
    assert!(!map.has_unsafe("crates/table/src/grid/a.rs"));
    assert!(Map::read(&[]).is_err());
    for (text, by) in [
        ("| crate | depends on |", "| crate | may use |"),
        ("| module | reason |\n|---|---|\n", "| module | reason |\n"),
        ("| folder | modules from the bottom up |", ""),
        ("| `nic` | `table` |", "| nic | `table` |"),
        ("| `nic` | `table` |", "| `nic` | `table` `packet` |"),
        ("| `nic` | `table` |", "| `nic` | `port` |"),
        ("| `nic` | `table` |", "| `nic` |"),
        ("| `nic` | `table` |", "| `nic` | `table` | |"),
        ("| `nic` | `table` |", "| `table` | |"),
        ("| cache lines |", "| |"),
        ("| `table` | |\n| `nic` | `table` |\n", ""),
        ("| SIMD |\n", "| SIMD |\n\n| crate | depends on |\n"),
    ] {
        assert!(SAMPLE.1.contains(text), "{text}");
        let malformed = SAMPLE.1.replace(text, by);
        assert!(read(&malformed).is_err(), "{text} -> {by}");
    }
}
