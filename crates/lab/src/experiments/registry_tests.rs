//! Tests of every line of the registry: files, pages, and tables of metrics.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::*;
use crate::compare::metrics::compared;
use crate::metrics;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_experiment_has_its_file_and_its_page_and_no_file_is_left_over() {
    let chapters = read("docs/SUMMARY.md");
    for (of, one) in registered() {
        let name = one.name;
        assert_eq!(one.text, read(&format!("experiments/{name}.toml")));
        assert_eq!(spec(name).unwrap().kind.of().name(), of.name());
        let page = format!("{}.md", one.page);
        assert!(chapters.contains(&format!("({page})")), "{page} in docs/SUMMARY.md");
        let text = read(&format!("docs/{page}"));
        assert!(text.contains(name), "{name} in docs/{page}");
    }
    let files = fs::read_dir(path("experiments")).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<String> = files
        .filter(|file| file.extension().is_some_and(|end| end == "toml"))
        .map(|file| file.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let mut known: Vec<&str> = names().collect();
    known.sort_unstable();
    assert_eq!(files, known);
}

#[test]
fn every_experiment_has_headlines_and_each_is_compared() {
    for of in ALL {
        let (kind, trials) = (ExperimentKind::named(of.name()).unwrap(), of.trials());
        assert!(trials.iter().any(|trial| !trial.headlines.is_empty()), "{}", of.name());
        for trial in trials {
            let name = format!("{} {}", of.name(), trial.trial);
            let same = trials.iter().filter(|other| other.trial == trial.trial);
            assert_eq!(same.count(), 1, "{name} stands twice");
            for headline in trial.headlines {
                let known = trial.metric(headline);
                let known = known.unwrap_or_else(|| panic!("{headline} in the table of {name}"));
                assert!(known.better.is_some(), "{name}: which way is {headline} better?");
                assert!(compared(kind, trial.trial).contains(headline), "{name}: {headline}");
            }
        }
    }
}

/// Trials of one name differ in what they measure alone: cells and tables look them up by it.
#[test]
fn trials_of_one_name_are_judged_alike_in_every_experiment() {
    let mut all: BTreeMap<&str, (&[&str], bool)> = BTreeMap::new();
    for trial in ALL.iter().flat_map(|of| of.trials()) {
        let judged = (trial.judged_by, trial.is_throughput);
        let known = all.entry(trial.trial).or_insert(judged);
        assert_eq!(*known, judged, "{}", trial.trial);
    }
}

/// Set to any value, this makes the test write the documents that the registry generates.
const WRITE: &str = "NICLAB_WRITE_DOCS";

/// The text with the rows of the one table that has this header replaced.
fn with_table(text: &str, header: &str, rows: &str) -> String {
    assert_eq!(text.matches(header).count(), 1, "not one table has {header}");
    let (before, rest) = text.split_once(header).unwrap();
    let after = rest.split_once("\n\n").map_or("", |(_, after)| after);
    format!("{before}{header}{rows}\n{after}")
}

/// Documents that have tables of all experiments, as they are to be.
fn generated() -> Vec<(&'static str, String)> {
    let (mut of_readme, mut of_files) = (String::new(), String::new());
    for Listing { name, question, devices, page, .. } in list().unwrap() {
        let devices: Vec<String> = devices.iter().map(|device| format!("`{device}`")).collect();
        let devices = devices.join(", ");
        of_readme += &format!("| [`{name}`](docs/{page}.md) | {question} | {devices} |\n");
        of_files += &format!("| [`{name}.toml`]({name}.toml) | {question} |\n");
    }
    let table = |path: &str, header: &str, rows: &str| with_table(&read(path), header, rows);
    let compared = metrics::compared_table();
    let header = "| trial | of | metrics |\n|---|---|---|\n";
    let rows = compared.strip_prefix(header).unwrap();
    vec![
        ("README.md", {
            let header = "| experiment | question | devices |\n|---|---|---|\n";
            table("README.md", header, &of_readme)
        }),
        ("experiments/README.md", {
            table("experiments/README.md", "| file | question |\n|---|---|\n", &of_files)
        }),
        ("docs/compare.md", table("docs/compare.md", header, rows)),
        ("docs/metrics.md", metrics::page()),
    ]
}

#[test]
fn generated_documents_have_the_experiments_that_there_are() {
    let mut stale = Vec::new();
    for (document, text) in generated() {
        if std::env::var_os(WRITE).is_some() {
            fs::write(path(document), &text).unwrap();
        }
        if read(document) != text {
            stale.push(document);
        }
    }
    assert!(stale.is_empty(), "{stale:?}: {WRITE}=1 cargo test -p niclab-lab registry writes them");
}

#[test]
fn a_table_is_replaced_and_nothing_else() {
    let text = "before\n\n| a | b |\n|---|---|\n| old | 1 |\n\nafter\n";
    let new = with_table(text, "| a | b |\n|---|---|\n", "| new | 2 |\n| new | 3 |\n");
    assert_eq!(new, "before\n\n| a | b |\n|---|---|\n| new | 2 |\n| new | 3 |\n\nafter\n");
}
