//! The house rules, enforced over the files of the repository.
//!
//! `rules` says what they are. `map` reads the tables of `ARCHITECTURE.md`, which several rules
//! go by. `layers` checks which module names which, `links` checks links and the book's contents,
//! and `words` checks words and names of types. `source` reads files. `EXCEPTIONS` lists what may
//! break a rule, with the reason. `baseline.txt` counts offences that are older than their rule,
//! see `ratchet`.
#![forbid(unsafe_code)]

mod claims;
mod layers;
mod links;
mod map;
mod ratchet;
mod rules;
mod setup;
mod source;
mod words;

use std::process::Command;

use map::{Map, covers};
use rules::{Offence, RULES, Rule};
use source::{root, tree};

/// Offences that stay, and why. An entry that excuses nothing fails `no_exception_is_stale`.
struct Exception {
    rule: &'static str,
    path: &'static str,
    /// Part of the offence's text.
    text: &'static str,
    reason: &'static str,
}

const EXCEPTIONS: &[Exception] = &[
    Exception {
        rule: "banned",
        path: "crates/load/src/histogram.rs",
        text: ".expect(\"1 ns to 60 s at three digits is a valid range\")",
        reason: "the bounds are constants, and every test of the histogram passes them",
    },
    Exception {
        rule: "banned",
        path: "crates/device/src/stack.rs",
        text: ".expect(\"headers that follow each other, and fields that keys have\")",
        reason: "there are ten stacks, all constants, and the tests of the module compile each",
    },
    Exception {
        rule: "banned",
        path: "crates/result/src/rows/parquet/pages.rs",
        text: "fn get_next_page(&mut self)",
        reason: "a method of the trait `PageReader` of the crate `parquet`",
    },
];

fn excuses(exception: &Exception, rule: &Rule, offence: &Offence) -> bool {
    exception.rule == rule.name
        && exception.path == offence.path
        && offence.text.contains(exception.text)
}

#[test]
fn the_tree_keeps_the_rules() {
    let Some(files) = tree() else {
        println!("SKIP the_tree_keeps_the_rules: not a git working tree, or git is missing");
        return;
    };
    assert!(files.len() > 10, "only {} files found: the rules were not tested", files.len());
    let mut failures = Vec::new();
    for rule in RULES {
        for offence in (rule.find)(&files) {
            if !EXCEPTIONS.iter().any(|exception| excuses(exception, rule, &offence)) {
                let Offence { path, line, text } = offence;
                failures.push(format!("{path}:{line}: {}: {text}\n    {}", rule.name, rule.remedy));
            }
        }
    }
    assert!(failures.is_empty(), "{} offences:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn no_exception_is_stale() {
    let Some(files) = tree() else {
        println!("SKIP no_exception_is_stale: not a git working tree, or git is missing");
        return;
    };
    for exception in EXCEPTIONS {
        assert!(!exception.reason.is_empty(), "{} has no reason", exception.path);
        let rule = RULES.iter().find(|rule| rule.name == exception.rule).expect("names a rule");
        let used = (rule.find)(&files).iter().any(|offence| excuses(exception, rule, offence));
        assert!(used, "{}: excuses no {}: {}", exception.path, exception.rule, exception.text);
    }
}

#[test]
fn the_map_has_the_crates_and_modules_that_there_are() {
    let Some(files) = tree() else {
        println!("SKIP the_map_has_the_crates_and_modules_that_there_are: no git working tree");
        return;
    };
    let map = Map::read(&files).unwrap_or_else(|error| panic!("ARCHITECTURE.md: {error}"));
    for (module, _) in &map.unsafe_modules {
        let mut named = files.iter().filter(|file| covers(module, &file.path));
        let used = named.any(|file| file.lines.iter().any(|line| line.code.contains("unsafe")));
        assert!(used, "ARCHITECTURE.md: {module} has no unsafe code");
    }
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it was read");
    for (name, _) in &map.crates {
        let manifest = format!("crates/{name}/Cargo.toml");
        assert!(files.iter().any(|file| file.path == manifest), "there is no crate {name}");
        let mut headings = text.lines().filter(|line| line.starts_with("### "));
        let heading = format!("`crates/{name}`");
        assert!(headings.any(|line| line.contains(&heading)), "the code map has no {heading}");
    }
    for layers in &map.layers {
        for module in layers.levels.iter().flatten() {
            let path = format!("{}/{module}", layers.folder);
            let is_there = |file: &source::File| file.path.starts_with(&path);
            assert!(files.iter().any(is_there), "ARCHITECTURE.md: there is no {path}");
        }
    }
}

/// `./test` adds up what the test binaries report; here its sums are put to the test.
#[test]
fn the_test_runner_counts_right() {
    let log = root().join("scripts/testdata/cargo-test.log");
    let mut count = Command::new("awk");
    count.arg("-f").arg(root().join("scripts/count.awk")).arg(log);
    let output = count.output().expect("awk is part of every Debian");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "6 passed, 2 failed, 3 skipped\n");
}
