//! The house rules, enforced over the files of the repository.
//!
//! `rules` says what they are, `layers` which module may name which, `words` which words and type
//! names are allowed, `source` how files are read. `EXCEPTIONS` lists what may break a rule, with
//! the reason. `baseline.txt` counts offences that are older than their rule, see `ratchet`.
#![forbid(unsafe_code)]

mod layers;
mod ratchet;
mod rules;
mod setup;
mod source;
mod words;

use std::process::Command;

use rules::{MAY_KNOW, Offence, RULES, Rule, UNSAFE, covers};
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
    for (path, reason) in UNSAFE {
        let mut named = files.iter().filter(|f| covers(path, &f.path));
        let used = named.any(|f| f.lines.iter().any(|l| l.code.contains("unsafe")));
        assert!(used && !reason.is_empty(), "{path}: nothing unsafe there, or no reason");
    }
}

#[test]
fn every_crate_stands_on_the_map() {
    let Some(files) = tree() else {
        println!("SKIP every_crate_stands_on_the_map: not a git working tree, or git is missing");
        return;
    };
    for file in &files {
        let home = file.path.strip_prefix("crates/").and_then(|p| p.strip_suffix("/Cargo.toml"));
        if let Some(home) = home {
            assert!(MAY_KNOW.iter().any(|(name, _)| *name == home), "{home} is not in MAY_KNOW");
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
