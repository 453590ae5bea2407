//! Rates of renewal on a simulated device: what it is known to do is found and worded.

use niclab_device::OPERATIONS_PER_S_MAX;
use niclab_result::Summary;

use super::*;
use crate::simulated::{Bench, Nature, cell_of as cell};
use crate::summary::summarize;

/// Six repeats; an operation takes 1 us, so that 100,000 a second take a tenth of the core.
fn measured(set: &[&str]) -> (Bench, Summary) {
    let nature = Nature { noise: 0.0, ..Nature::default() };
    let mut bench = Bench::of("update-rate", vec![nature], &[set, &["calls=single"]].concat(), 6);
    bench.execute();
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    (bench, summary)
}

#[test]
fn each_rate_stands_beside_none_at_full_load_and_for_the_latency() {
    let (bench, _) = measured(&["group=1", "rules=1k", "per_s=100k,200k", "core=same"]);
    let run = &bench.run.experiments[0];
    let of = |kind| run.trials.iter().filter(move |trial| trial.kind == kind);
    assert_eq!((of(TrialKind::Saturate).count(), of(TrialKind::Latency).count()), (3, 3));
    assert_eq!((run.plans.len(), run.setups.len()), (2, 1));
    for trial in of(TrialKind::Latency) {
        let PlannedRate::ShareOf { of, share } = trial.rate else { panic!("{trial:?}") };
        assert_eq!((run.trials[of].plan, share), (None, 0.6), "all latencies at one rate");
    }
    let RuleBlock::FiveTuples { flows, count, .. } = run.setups[0].rules.last().unwrap() else {
        panic!("{:?}", run.setups[0])
    };
    assert_eq!((*count, flows.count), (999, 1_998), "the default rule is the thousandth");
}

#[test]
fn a_device_that_gives_a_known_share_of_its_time_to_rules_is_found_to() {
    let (_, summary) = measured(&["group=1", "rules=1k", "per_s=0,100k", "core=same,distinct"]);
    let table = &summary.experiments[0].tables[0];
    let row = |rate: &str, core: &str| {
        let is = |row: &usize| {
            cell(table, *row, "renewals/s") == rate && cell(table, *row, "core") == core
        };
        (0..table.rows.len()).find(is).unwrap()
    };
    assert_eq!(table.rows.len(), 3, "nothing is renewed by nobody, once");
    assert_eq!(cell(table, row("0", "-"), "against none"), "-");
    let same = row("100,000", "same");
    assert_eq!(cell(table, same, "against none"), "0.900 (0.900 to 0.900)");
    assert_eq!(cell(table, same, "done/s"), "100,000");
    assert_eq!(cell(table, same, "time a renewal"), "1.00 us");
    assert_eq!(cell(table, same, "share of the core"), "10.0 %");
    assert_eq!(cell(table, same, "in effect after, p50"), "5.00 us");
    assert_eq!(cell(table, same, "taken after, p50"), "-", "nobody is asked");
    let distinct = row("100,000", "distinct");
    assert_eq!(cell(table, distinct, "taken after, p50"), "3.00 us");
    assert_eq!(cell(table, distinct, "against none"), "1.00 (1.00 to 1.00)");
    let value = |id: &str| {
        let id = format!("simulated-{id}-group1");
        summary.findings.iter().find(|finding| finding.id == id).unwrap().value.value
    };
    assert!((value("renewal-same") - 0.9).abs() < 1e-6, "{:?}", summary.findings);
    assert!((value("renewal-distinct") - 1.0).abs() < 1e-6);
    let near = |found: f64, known: f64| (found / known - 1.0).abs() < 0.01;
    assert!(near(value("hand-over-distinct"), 5_000.0), "{:?}", summary.findings);
    assert!(summary.findings.iter().all(|finding| !finding.id.contains("ceiling")));
    let figure = &summary.experiments[0].figures[0];
    let ours: Vec<_> = figure.series.iter().filter(|series| !series.published).collect();
    assert_eq!(ours.len(), 2);
    assert!((ours[0].points[0].y - 90.0).abs() < 1e-6, "{:?}", ours[0]);
}

#[test]
fn a_rate_that_is_not_kept_is_told_as_a_ceiling_and_the_kept_one_is_compared() {
    let (_, summary) = measured(&["group=1", "rules=1k", "per_s=0,100k,2M", "core=same"]);
    let find = |id: &str| {
        let id = format!("simulated-{id}-same-group1");
        summary.findings.iter().find(|finding| finding.id == id).unwrap()
    };
    assert_eq!(find("renewal-ceiling").value.value, 900_000.0);
    assert!(find("renewal").sentence.contains("100,000 rules"), "{:?}", find("renewal"));
}

#[test]
fn values_out_of_range_are_refused_with_what_would_be_right() {
    let sweep = crate::experiment::spec("update-rate").unwrap().reduced.renewal[0].clone();
    let refused = |change: fn(&mut RenewalSweep), reason: &str| {
        let mut sweep = sweep.clone();
        change(&mut sweep);
        assert_eq!(places(&sweep, None).unwrap_err().to_string(), reason);
    };
    refused(|s| s.group = Values::number(2), "group = 2: use 0 to 1");
    let most = RULES_MAX / 2;
    refused(|s| s.rules = Values::number(1), &format!("rules = 1: use 2 to {most}"));
    refused(
        |s| s.per_s = Values::number(200_000_000),
        &format!("per_s = 200000000: use 0 to {OPERATIONS_PER_S_MAX}"),
    );
    refused(
        |s| s.per_s = Values::parse("spark").unwrap(),
        "per_s = spark: give a number, or one of hadoop, cache_follower, web_server",
    );
    refused(
        |s| s.calls = Values::parse("transaction").unwrap(),
        "calls = transaction: single, queue",
    );
    let few = enough(20, 300).unwrap_err().to_string();
    assert_eq!(few, "per_s = 20: fewer than 10 in a trial of 300 ms: use --set duration_ms=500");
    assert!(enough(0, 1).is_ok() && enough(20, 500).is_ok());
    let mut preset = sweep.clone();
    preset.per_s = Values::parse("hadoop,web_server").unwrap();
    let rates: Vec<u32> = places(&preset, None).unwrap().iter().map(|one| one.per_s).collect();
    assert_eq!(rates, [4_000, 4_000, 338_000, 338_000], "by both cores");
}
