//! Results of modelled cards, merged.

use niclab_device::model::{Model, read};
use niclab_result::Summary;

use super::*;
use crate::experiments::application::tests::Servers;
use crate::placement::{Cpu, CpuPath};
use crate::spec::GridName;
use crate::summary::summarize;
use crate::validation::measure;

const PROGRAM: &str = "niclab test";

/// A card's round trips, as a part that was measured there.
fn part(name: &str, card: &str, here: Cpu, experiment: &str) -> MergeInput {
    let device = format!("model:{card}");
    let mut model = Model::new(&device, read(card).unwrap(), 1);
    let measured = measure(&mut model, experiment, GridName::Published, &[], Some(6)).unwrap();
    let placement = Placement { here: Some(here), there: Some(Cpu::Peer), path: Some(CpuPath::On) };
    let latencies = measured.latencies().clone();
    let run = Run { placement, ..measured.run };
    let host = Some(format!("{name}.example"));
    MergeInput { name: name.to_owned(), host, run, samples: measured.samples, latencies }
}

fn two() -> [MergeInput; 2] {
    [
        part("one", "bluefield2", Cpu::Host, "echo-size"),
        part("two", "bluefield2-snic", Cpu::Snic, "echo-size"),
    ]
}

fn summary(merged: &Merged) -> Summary {
    summarize(&merged.run, &merged.samples, &merged.latencies)
}

#[test]
fn two_results_become_one_that_has_all_of_both() {
    let parts = two();
    let merged = merge(PROGRAM, &parts).unwrap();
    let names: Vec<&str> = merged.run.devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["model:bluefield2, host, on-path", "model:bluefield2-snic, SNIC, on-path"]);
    assert_eq!(merged.samples.len(), parts[0].samples.len() + parts[1].samples.len());
    assert!(merged.samples.iter().zip(0..).all(|(sample, order)| sample.order == order));
    let theirs = parts.iter().flat_map(|part| &part.samples);
    for (sample, from) in merged.samples.iter().zip(theirs) {
        assert_eq!((&sample.metrics, &sample.point), (&from.metrics, &from.point));
        let tag = |sample: &Sample| sample.latency_tag.clone();
        assert_eq!(tag(sample).is_some(), tag(from).is_some());
        assert!(tag(sample).is_none_or(|tag| merged.latencies.has(&tag)));
    }
    let again = Run::from_toml(&merged.run.to_toml().unwrap()).unwrap();
    assert_eq!(again, merged.run);
    assert_eq!(again.placement_of(names[1]), parts[1].run.placement);
}

#[test]
fn the_summary_has_the_placements_first_and_every_device() {
    let merged = merge(PROGRAM, &two()).unwrap();
    let summary = summary(&merged);
    assert!(!summary.partial);
    let names: Vec<&str> = summary.experiments.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["placement", "echo-size"]);
    let table = &summary.experiments[0].tables[0];
    // The numbers of the profiles: 3.1 + 4.06 + 16.5 and 3.32 + 2.8 + 16.5 us.
    let cell = &table.rows[0][2];
    assert!(cell.starts_with("23.") && cell.contains(" (22."), "{cell}");
    let found = &summary.findings[0];
    assert_eq!(found.id, "model:bluefield2, host, on-path-placement-udp_echo-client");
    let ids: Vec<&str> = summary.findings.iter().map(|one| one.id.as_str()).collect();
    assert!(ids.contains(&"lesson-snic-cpu") && !ids.contains(&"lesson-on-path"), "{ids:?}");
}

#[test]
fn applications_stand_beside_each_other_by_where_they_ran() {
    let part = |name: &str, here: Cpu, slowness: f64| {
        let mut servers = Servers::new();
        servers.slowness = slowness;
        let measured =
            measure(&mut servers, "memcached", GridName::Published, &[], Some(6)).unwrap();
        let placement =
            Placement { here: Some(here), there: Some(Cpu::Peer), path: Some(CpuPath::On) };
        let latencies = measured.latencies().clone();
        let run = Run { placement, ..measured.run };
        MergeInput { name: name.into(), host: None, run, samples: measured.samples, latencies }
    };
    let merged = merge(PROGRAM, &[part("one", Cpu::Host, 1.0), part("two", Cpu::Snic, 2.0)]);
    let summary = summary(&merged.unwrap());
    let names: Vec<&str> = summary.experiments.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["placement", "memcached"]);
    let table = &summary.experiments[0].tables[0];
    let at = table.columns.iter().position(|column| column == "memcached, 64 B, us").unwrap();
    // As the histogram keeps it.
    assert_eq!([&table.rows[0][at], &table.rows[1][at]], ["40.03 (50.02)", "80.06 (100.03)"]);
    let found = summary.findings.iter().find(|one| one.id.ends_with("placement-memcached-client"));
    let sentence = &found.unwrap().sentence;
    assert!(sentence.contains("2.00 times"), "{sentence}");
}

#[test]
fn a_part_that_was_cut_short_makes_the_whole_partial() {
    let mut parts = two();
    parts[1].samples.pop();
    assert!(summary(&merge(PROGRAM, &parts).unwrap()).partial);
}

#[test]
fn parts_of_different_experiments_and_grids_are_joined() {
    let ledger = part("ledger", "stingray-snic", Cpu::Snic, "echo-ledger");
    let mut short = part("short", "stingray", Cpu::Host, "echo-size");
    let [one, _] = two();
    for experiment in &mut short.run.experiments {
        // Another grid: its trials stand in another order, and one is missing.
        experiment.trials.reverse();
        let last = experiment.trials.len() - 1;
        for visit in &mut experiment.order {
            visit.trials.iter_mut().for_each(|at| *at = last - *at);
        }
    }
    let merged = merge(PROGRAM, &[one, short, ledger]).unwrap();
    let names: Vec<&str> = merged.run.experiments.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["echo-size", "echo-ledger"]);
    assert!(!summary(&merged).partial, "no trial was taken for another");
    let ids: Vec<String> = summary(&merged).findings.into_iter().map(|one| one.id).collect();
    assert!(ids.contains(&"lesson-hardware".to_owned()), "{ids:?}");
}

#[test]
fn merged_results_can_be_merged_again() {
    let [one, two] = two();
    let first = merge(PROGRAM, std::slice::from_ref(&one)).unwrap();
    let (run, samples, latencies) = (first.run, first.samples, first.latencies);
    let first = MergeInput { name: "first".to_owned(), host: None, run, samples, latencies };
    let again = merge(PROGRAM, &[first, two.clone()]).unwrap();
    let at_once = merge(PROGRAM, &[one, two]).unwrap();
    assert_eq!(again.run.devices, at_once.run.devices);
    assert_eq!(again.run.parts, at_once.run.parts);
    assert_eq!(summary(&again).findings, summary(&at_once).findings);
}

#[test]
fn ambiguous_and_empty_results_are_refused() {
    let [one, two] = two();
    let error = |parts: &[MergeInput]| merge(PROGRAM, parts).unwrap_err();
    let same = MergeInput { name: "same".to_owned(), ..one.clone() };
    let message = error(&[one.clone(), same]).to_string();
    assert!(
        message.starts_with("one and same both have `model:bluefield2, host, on-path`"),
        "{message}"
    );

    let mut other = two.clone();
    other.run.schema = 0;
    assert!(matches!(
        error(&[one.clone(), other]),
        MergeError::Schemas { one_schema: 1, other_schema: 0, .. }
    ));
    let empty = MergeInput { samples: Vec::new(), ..two.clone() };
    assert_eq!(error(&[one.clone(), empty]), MergeError::NoRoundTrip { name: "two".to_owned() });

    let mut kind = two;
    kind.run.experiments[0].kind = crate::spec::ExperimentKind::named("ledger").unwrap();
    assert!(matches!(error(&[one, kind]), MergeError::Kinds { .. }));
}

#[test]
fn a_host_is_named_where_something_was_measured_there() {
    let [one, _] = two();
    let mut real = one.clone();
    real.run.devices[0].about.in_virtual_time = false;
    let label = |part: &MergeInput| {
        let device = &part.run.devices[0];
        super::label(part, device, &device.name)
    };
    assert_eq!(label(&real), "one.example, model:bluefield2, host, on-path");
    assert_eq!(label(&one), "model:bluefield2, host, on-path");
}
