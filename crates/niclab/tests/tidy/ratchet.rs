//! Offences that are counted: `baseline.txt` says how many are left, and a count may only fall.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use crate::rules::Offence;
use crate::source::{File, file, root, tree};
use crate::words::COUNTED;

/// A rule that parts of the tree do not keep yet.
pub struct Ratchet {
    pub name: &'static str,
    /// What to do instead.
    pub remedy: &'static str,
    pub find: fn(&[File]) -> Vec<Counted>,
    /// Trees, each with an offence.
    pub bad: &'static [&'static [(&'static str, &'static str)]],
    /// A tree without one.
    pub good: &'static [(&'static str, &'static str)],
}

/// An offence, and what it is counted under.
#[derive(Debug)]
pub struct Counted {
    pub subject: String,
    pub offence: Offence,
}

impl Counted {
    pub fn new(subject: &str, offence: Offence) -> Counted {
        Counted { subject: subject.to_owned(), offence }
    }
}

/// Area (a crate, or a folder of the root), rule, subject.
type Subject = (String, String, String);

/// How many offences each place may have.
type Baseline = BTreeMap<Subject, usize>;

/// Set to any value, this makes the test write lower counts into the baseline.
const LOWER: &str = "NICLAB_TIDY_LOWER";

fn area(path: &str) -> String {
    let mut parts = path.split('/');
    let area = match (parts.next(), parts.next()) {
        (Some("crates"), Some(name)) => name,
        (Some(folder), Some(_)) => folder,
        _ => "root",
    };
    area.to_owned()
}

fn counts(found: &[(&str, Counted)]) -> Baseline {
    let mut counts = Baseline::new();
    for (rule, Counted { subject, offence }) in found {
        let place = (area(&offence.path), (*rule).to_owned(), subject.clone());
        *counts.entry(place).or_default() += 1;
    }
    counts
}

/// Reads `[area]` lines and below them `rule subject = count`.
fn parse(text: &str) -> Result<Baseline, String> {
    let (mut all, mut area) = (Baseline::new(), None);
    for (index, line) in text.lines().enumerate() {
        let malformed = || format!("line {}: {line}", index + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            area = Some(name.to_owned());
            continue;
        }
        let (what, count) = line.split_once(" = ").ok_or_else(malformed)?;
        let (rule, subject) = what.split_once(' ').ok_or_else(malformed)?;
        let place = (area.clone().ok_or_else(malformed)?, rule.to_owned(), subject.to_owned());
        let count = count.parse().ok().filter(|count| *count > 0).ok_or_else(malformed)?;
        if all.insert(place, count).is_some() {
            return Err(malformed());
        }
    }
    Ok(all)
}

fn written(baseline: &Baseline) -> String {
    let mut text = String::from(
        "# Offences that are left, by crate: `rule subject = count`. A count may only fall.\n\
         # NICLAB_TIDY_LOWER=1 cargo test -p niclab --test tidy    writes the lower counts.\n",
    );
    let mut last = "";
    for ((area, rule, subject), count) in baseline {
        if area != last {
            let _ = writeln!(text, "\n[{area}]");
        }
        last = area;
        let _ = writeln!(text, "{rule} {subject} = {count}");
    }
    text
}

/// The baseline with lower counts where there are fewer offences, and nothing new.
fn lowered(baseline: &Baseline, now: &Baseline) -> Baseline {
    let lower =
        |(place, count): (&Subject, &usize)| Some((place.clone(), *count.min(now.get(place)?)));
    baseline.iter().filter_map(lower).collect()
}

/// Places with more offences than the baseline has, and those with fewer.
fn differing<'a>(baseline: &Baseline, now: &'a Baseline) -> Vec<&'a Subject> {
    let allowed = |place| baseline.get(place).copied().unwrap_or(0);
    now.iter().filter(|(place, count)| **count > allowed(place)).map(|(place, _)| place).collect()
}

fn path() -> PathBuf {
    root().join("crates/niclab/tests/tidy/baseline.txt")
}

#[test]
fn counted_offences_only_become_fewer() {
    let Some(files) = tree() else {
        println!("SKIP counted_offences_only_become_fewer: not a git working tree, or no git");
        return;
    };
    let text = std::fs::read_to_string(path()).expect("baseline.txt stands beside this file");
    let baseline = parse(&text).unwrap_or_else(|error| panic!("baseline.txt: {error}"));
    let each = COUNTED
        .iter()
        .flat_map(|rule| (rule.find)(&files).into_iter().map(|counted| (rule.name, counted)));
    let found: Vec<(&str, Counted)> = each.collect();
    let now = counts(&found);
    if std::env::var_os(LOWER).is_some() {
        std::fs::write(path(), written(&lowered(&baseline, &now))).expect("it was read just now");
        return;
    }
    let mut failures = String::new();
    for place in differing(&baseline, &now) {
        let (home, name, subject) = place;
        let allowed = baseline.get(place).copied().unwrap_or(0);
        let rule = COUNTED.iter().find(|rule| rule.name == name);
        let remedy = rule.map_or("", |rule| rule.remedy);
        let _ =
            writeln!(failures, "{home}: {name} {subject}: {} > {allowed}: {remedy}", now[place]);
        for (_, Counted { offence, .. }) in found.iter().filter(|(rule, counted)| {
            rule == name && counted.subject == *subject && area(&counted.offence.path) == *home
        }) {
            let _ = writeln!(failures, "    {}:{}: {}", offence.path, offence.line, offence.text);
        }
    }
    assert!(failures.is_empty(), "more offences than baseline.txt allows:\n{failures}");
    assert!(
        lowered(&baseline, &now) == baseline,
        "fewer offences than in baseline.txt: run {LOWER}=1 cargo test -p niclab --test tidy"
    );
    assert_eq!(text, written(&baseline), "baseline.txt is not written as {LOWER}=1 writes it");
}

#[test]
fn every_counted_rule_can_fail() {
    let find = |rule: &Ratchet, samples: &[(&str, &str)]| {
        let files: Vec<File> = samples.iter().map(|&(path, text)| file(path, text)).collect();
        (rule.find)(&files)
    };
    for rule in COUNTED {
        for bad in rule.bad {
            assert!(!find(rule, bad).is_empty(), "{}: passes: {bad:?}", rule.name);
        }
        let found = find(rule, rule.good);
        assert!(found.is_empty(), "{}: good sample fails: {found:?}", rule.name);
    }
}

#[test]
fn counts_rise_nowhere_and_fall_by_name() {
    let baseline = parse("[nic]\nword guest = 2\ntype Kind = 1\n").unwrap();
    let now = |text: &str| parse(text).unwrap();
    let differs = |text: &str| !differing(&baseline, &now(text)).is_empty();
    assert!(differs("[nic]\nword guest = 3\n"));
    assert!(differs("[card]\nword guest = 1\n"));
    assert!(!differs("[nic]\nword guest = 2\n"));
    let low = lowered(&baseline, &now("[nic]\nword guest = 1\n[card]\nword bell = 5\n"));
    assert_eq!(low, now("[nic]\nword guest = 1\n"));
    assert_eq!(parse(&written(&baseline)).unwrap(), baseline);
    for malformed in [
        "word guest = 1\n",
        "[nic]\nguest = 1\n",
        "[nic]\nword guest = 0\n",
        "[nic]\nword guest\n",
        "[nic]\nword a = 1\nword a = 1\n",
    ] {
        assert!(parse(malformed).is_err(), "{malformed}");
    }
}
