//! What the READMEs of crates claim about dependencies and unsafe code.

use crate::map::Map;
use crate::rules::{Offence, with_map};
use crate::source::File;

const DEPENDS: &str = "- Depends on: ";
const UNSAFE: &str = "- Unsafe code: ";

/// Claims that nobody checks. The two lines say the same, and are checked.
const UNCHECKED: &[&str] = &["must not know", "may not know", "may know", "knows no", "know no "];

pub fn false_claims(files: &[File]) -> Vec<Offence> {
    with_map(files, |map| {
        let mut found = Vec::new();
        for file in files {
            let home = file.path.strip_prefix("crates/");
            if let Some(home) = home.and_then(|path| path.strip_suffix("/README.md")) {
                found.extend(of_readme(map, home, file));
            }
        }
        found
    })
}

fn of_readme(map: &Map, home: &str, file: &File) -> Vec<Offence> {
    let Some((_, others)) = map.crates.iter().find(|(name, _)| name == home) else {
        return Vec::new();
    };
    let sources = format!("crates/{home}/src/");
    let modules = map.unsafe_modules.iter().filter_map(|(path, _)| path.strip_prefix(&sources));
    let modules =
        modules.map(|path| path.trim_end_matches('/').trim_end_matches(".rs").replace('/', "::"));
    let claims = [
        (DEPENDS, listed(others.iter().cloned(), "no crate of this workspace")),
        (UNSAFE, listed(modules, "none")),
    ];
    let mut found = Vec::new();
    for (claim, truth) in &claims {
        let lines = || file.lines.iter().filter(|line| line.raw.starts_with(claim));
        let right = format!("{claim}{truth}");
        if lines().count() != 1 || !lines().all(|line| line.raw == right) {
            found.push(Offence::of_file(&file.path, format!("write: {right}")));
        }
    }
    for (index, line) in file.lines.iter().enumerate() {
        let is_claim = claims.iter().any(|(claim, _)| line.raw.starts_with(claim));
        let mentions = line.raw.contains("unsafe") && !is_claim;
        if mentions || UNCHECKED.iter().any(|claim| line.raw.contains(claim)) {
            let text = line.raw.trim().to_owned();
            found.push(Offence { path: file.path.clone(), line: index + 1, text });
        }
    }
    found
}

fn listed(names: impl Iterator<Item = String>, nothing: &str) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    format!("{}.", if names.is_empty() { nothing.to_owned() } else { names.join(", ") })
}
