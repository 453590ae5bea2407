//! What holds for every line of the registry: files, pages, and tables of metrics.

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

#[test]
fn the_pages_of_the_metrics_say_what_their_tables_say() {
    let page = metrics::page();
    if fs::read_to_string(path("docs/metrics.md")).ok().as_ref() != Some(&page) {
        let new = std::env::temp_dir().join("niclab-metrics.md");
        fs::write(&new, page).unwrap();
        panic!("docs/metrics.md is not what the tables say: copy {} there", new.display());
    }
    let table = metrics::compared_table();
    assert!(read("docs/compare.md").contains(&table), "docs/compare.md lacks this table:\n{table}");
}
