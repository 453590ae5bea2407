//! Modules that stand on top of each other: a file names its own module and those below it.

use crate::map::{Layers, Map, SAMPLE};
use crate::rules::{Offence, with_map};
use crate::source::{File, Line};

/// Folder, a module below it that it does not name all the same, and why.
const NOT_NAMED: &[(&str, &str, &str)] = &[
    ("crates/apps/src/kvs/store", "kvs::protocol::binary", "a store knows no bytes of the wire"),
    ("crates/apps/src/kvs/store", "kvs::protocol::datagram", "a store knows no bytes of the wire"),
];

pub fn upward_names(files: &[File]) -> Vec<Offence> {
    with_map(files, |map| named_upwards(map, files))
}

fn named_upwards(map: &Map, files: &[File]) -> Vec<Offence> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let layers = map.layers.iter();
        let layers = layers.filter_map(|of| Some((of, below(&of.folder, &file.path)?)));
        let layers: Vec<(&Layers, &str)> = layers.collect();
        if layers.is_empty() {
            continue;
        }
        let mut report = |line: usize, text: String| {
            found.push(Offence { path: file.path.clone(), line: line + 1, text });
        };
        for (of, own) in &layers {
            if level(of, own).is_none() {
                report(0, format!("ARCHITECTURE.md has no layer for {own} in {}", of.folder));
            }
        }
        for (line, path) in named_paths(file) {
            let layers = layers.iter().filter(|(of, own)| !may_name(of, own, &path));
            layers.for_each(|(_, own)| report(line, format!("{own} names {}", path.join("::"))));
            for (folder, module, why) in NOT_NAMED {
                let module: Vec<&str> = module.split("::").collect();
                if below(folder, &file.path).is_some() && path.starts_with(&module) {
                    report(line, format!("{}: {why}", path.join("::")));
                }
            }
        }
    }
    found
}

const EXPERIMENTS: &str = "crates/lab/src/experiments";

/// In the folder of an experiment: a file, and a file beside it that it does not name.
const NOT_BESIDE: &[(&str, &str)] = &[
    ("analysis", "findings"),
    ("analysis", "figures"),
    ("findings", "figures"),
    ("figures", "findings"),
];

/// Experiments that name others, files of one that name what stands above them, and other modules
/// of the lab that name one outside of tests.
pub fn entangled_experiments(files: &[File]) -> Vec<Offence> {
    let of_folder = |file: &File| {
        let (folder, rest) =
            file.path.strip_prefix(EXPERIMENTS)?.strip_prefix('/')?.split_once('/')?;
        let own = rest.split('/').next()?;
        Some((folder.to_owned(), own.trim_end_matches(".rs").to_owned()))
    };
    let folders: Vec<String> = files.iter().filter_map(of_folder).map(|(name, _)| name).collect();
    let is_of_lab = |file: &&File| {
        let is_registry = file.path.strip_prefix(EXPERIMENTS) == Some("/mod.rs");
        file.path.starts_with("crates/lab/src/") && file.path.ends_with(".rs") && !is_registry
    };
    let mut found = Vec::new();
    for file in files.iter().filter(is_of_lab) {
        let of = of_folder(file);
        for (line, path) in named_paths(file) {
            let ["experiments", named, rest @ ..] = &path[..] else { continue };
            let is_one = folders.iter().any(|folder| folder == named);
            let is_named = match &of {
                Some((folder, own)) if named == folder => {
                    rest.first().is_some_and(|to| NOT_BESIDE.contains(&(own.as_str(), to)))
                }
                Some(_) => is_one,
                None => is_one && !file.lines[line].test && !file.path.ends_with("_tests.rs"),
            };
            if is_named {
                let text =
                    format!("{} names {}", module_of(&file.path).join("::"), path.join("::"));
                found.push(Offence { path: file.path.clone(), line: line + 1, text });
            }
        }
    }
    found
}

/// The module of a folder that a file is of; `None` for the folder's own `mod.rs`, and elsewhere.
fn below<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(folder)?.strip_prefix('/')?;
    let module = rest.split('/').next()?;
    let module = module.strip_suffix(".rs").unwrap_or(module);
    (module != "mod").then_some(module)
}

fn level(layers: &Layers, module: &str) -> Option<usize> {
    layers.levels.iter().position(|level| level.iter().any(|name| name == module))
}

fn may_name(layers: &Layers, own: &str, path: &[&str]) -> bool {
    let Some(rest) = path.strip_prefix(&module_of(&layers.folder)[..]) else { return true };
    let Some(named) = rest.first() else { return false };
    *named == own || level(layers, named) < level(layers, own) && level(layers, named).is_some()
}

/// The module that a file or folder is, from the root of its crate.
fn module_of(path: &str) -> Vec<&str> {
    let inside = path.split_once("/src/").map_or("", |(_, inside)| inside);
    let mut module: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
    if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(last)) {
        module.pop();
    }
    module
}

/// What braces hold.
enum Scope<'a> {
    Block,
    Module(&'a str),
    /// The group of a `use`, and what stands before it.
    Group(Vec<&'a str>),
}

/// Paths that begin with `crate`, `self` or `super`, with their lines, from the root of the crate.
fn named_paths(file: &File) -> Vec<(usize, Vec<&str>)> {
    let tokens = tokens(&file.lines);
    let token = |at: usize| tokens.get(at).map_or("", |(_, token)| *token);
    let (mut scopes, mut found, mut at) = (Vec::new(), Vec::new(), 0);
    while at < tokens.len() {
        match token(at) {
            "{" => scopes.push(Scope::Block),
            "}" => drop(scopes.pop()),
            "mod" if token(at + 2) == "{" => {
                scopes.push(Scope::Module(token(at + 1)));
                at += 2;
            }
            word if is_word(word) => {
                let mut path = match scopes.last() {
                    Some(Scope::Group(before)) => before.clone(),
                    _ => Vec::new(),
                };
                let line = tokens[at].0;
                // `pub(in crate::…)` says who may name it, and names nothing.
                let is_visibility = at > 1 && token(at - 1) == "in" && token(at - 2) == "(";
                path.push(word);
                while token(at + 1) == "::" && is_word(token(at + 2)) {
                    at += 2;
                    path.push(token(at));
                }
                if token(at + 1) == "::" && token(at + 2) == "{" {
                    at += 2;
                    scopes.push(Scope::Group(path));
                } else if !is_visibility {
                    found.extend(resolved(&file.path, &scopes, &path).map(|path| (line, path)));
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

fn resolved<'a>(file: &'a str, scopes: &[Scope<'a>], path: &[&'a str]) -> Option<Vec<&'a str>> {
    if !["crate", "self", "super"].contains(path.first()?) || path.len() == 1 {
        return None;
    }
    let mut module = module_of(file);
    module.extend(scopes.iter().filter_map(|scope| match scope {
        Scope::Module(name) => Some(*name),
        _ => None,
    }));
    for part in path {
        match *part {
            "crate" => module.clear(),
            "self" => {}
            "super" => drop(module.pop()),
            name => module.push(name),
        }
    }
    Some(module)
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '*')
}

/// Words, `::`, and all other characters one by one, each with its line.
fn tokens(lines: &[Line]) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let mut rest = line.code.trim_start();
        while let Some(first) = rest.chars().next() {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            let len = match first {
                _ if is_part(first) => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                _ => first.len_utf8(),
            };
            found.push((number, &rest[..len]));
            rest = rest[len..].trim_start();
        }
    }
    found
}

#[test]
fn names_that_lead_upwards_are_found_however_they_are_written() {
    let offences = |path: &str, text: &str| {
        let map = crate::source::file(SAMPLE.0, SAMPLE.1);
        let found = upward_names(&[crate::source::file(path, text), map]);
        found.into_iter().map(|of| (of.line, of.text)).collect::<Vec<_>>()
    };
    let store = "crates/apps/src/kvs/store/log.rs";
    for text in [
        "use crate::kvs::codec::text;",
        "use crate::kvs::{codec::text, protocol};",
        "use crate::{kvs::{protocol::{time, hash}, transport}, service};",
        "use super::super::codec;",
        "fn f() { super::super::codec::f() }",
        "mod a {\n    use super::super::super::codec;\n}",
        "use crate::kvs::protocol::binary::Head;",
        "use crate::kvs::*;",
        "use crate::kvs as all;",
    ] {
        let found = offences(store, text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
    }
    let told = offences(store, "//\nuse super::super::{codec::{self, text}, protocol};");
    assert_eq!(
        told,
        [(2, "store names kvs::codec".to_owned()), (2, "store names kvs::codec::text".to_owned()),]
    );
    for text in [
        "use crate::kvs::{protocol::{time, hash}, store::item};",
        "use super::item;\nmod tests {\n    use super::super::item;\n    use super::*;\n}",
        "use crate::service;\nuse std::codec;",
        "// crate::kvs::codec",
        "pub(in crate::kvs) fn f() {}",
    ] {
        assert_eq!(offences(store, text), [], "{text}");
    }
    let text = "crates/apps/src/kvs/codec/text/mod.rs";
    assert_eq!(offences(text, "use super::binary;").len(), 1);
    assert_eq!(offences(text, "use super::context;\nuse crate::kvs::store;"), []);
    assert_eq!(offences("crates/apps/src/kvs/mod.rs", "use self::codec;"), []);
    assert_eq!(offences("crates/apps/src/kvs/other.rs", "").len(), 1);
}

#[test]
fn experiments_that_name_each_other_are_found() {
    let file = crate::source::file;
    let other = || file("crates/lab/src/experiments/b/mod.rs", "//! b\n");
    let found = |text: &str| {
        let one = file("crates/lab/src/experiments/a/trials.rs", text);
        entangled_experiments(&[one, other()]).len()
    };
    for text in [
        "use crate::experiments::b::analysis::f;",
        "use super::super::b;",
        "fn f() { crate::experiments::b::f() }",
        "#[cfg(test)]\nmod tests {\n    use super::super::super::b::f;\n}",
    ] {
        assert_eq!(found(text), 1, "{text}");
    }
    for text in ["use super::super::built_in;", "use crate::b;", "// crate::experiments::b"] {
        assert_eq!(found(text), 0, "{text}");
    }
    let elsewhere =
        |path: &str, text: &str| entangled_experiments(&[file(path, text), other()]).len();
    let named = "use crate::experiments::b::analysis::f;";
    assert_eq!(elsewhere("crates/lab/src/fit.rs", named), 1);
    assert_eq!(elsewhere("crates/lab/src/fit.rs", &format!("#[cfg(test)]\n{named}")), 0);
    assert_eq!(elsewhere("crates/lab/src/fit_tests.rs", named), 0);
    assert_eq!(elsewhere("crates/lab/src/experiments/mod.rs", "use self::b::B;"), 0);
}
