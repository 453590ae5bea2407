//! Insertions on a simulated device: what it is known to do is found and worded.

use niclab_result::{Outcome, Summary};

use super::*;
use crate::simulated::{Bench, Nature, cell_at as cell, finding_value as value};
use crate::summary::summarize;
use crate::values::Values;

fn measured(nature: Nature, set: &[&str]) -> (Bench, Summary) {
    let mut bench = Bench::of("rule-rate", vec![Nature { noise: 0.0, ..nature }], set, 6);
    bench.execute();
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    (bench, summary)
}

#[test]
fn rates_of_a_known_device_are_found_with_the_first_call_apart() {
    let (_, summary) = measured(Nature::default(), &["stack=eth/ipv4/tcp,vxlan/ipv4/udp"]);
    let table = &summary.experiments[0].tables[0];
    // 1 us each, ten for the first; half of that to destroy.
    let at = |stack| [("group", "1"), ("rules", "16,000"), ("stack", stack), ("actions", "queue")];
    let tcp = at("eth/ipv4/tcp");
    let per_s = 16_000.0 / (16_009.0 * 1e-6);
    let worded = words_of(per_s);
    assert_eq!(
        cell(table, &tcp, "inserts/s (interval)"),
        format!("{worded} ({worded} to {worded})")
    );
    assert_eq!(cell(table, &tcp, "p50"), "1.00 us");
    assert_eq!(cell(table, &tcp, "maximum"), "1.00 us");
    assert_eq!(cell(table, &tcp, "first"), "10.0 us");
    assert_eq!(cell(table, &tcp, "delete p50"), "500 ns");
    assert_eq!(cell(table, &at("vxlan/ipv4/udp"), "p50"), "2.00 us");
    let near = |found: f64, known: f64| (found / known - 1.0).abs() < 0.01;
    assert!(near(value(&summary, "insert-rate-group1"), 1e6));
    assert!(near(value(&summary, "vxlan-group1"), 0.5));
    assert!(near(value(&summary, "actions-group1"), 1.0 / 1.3));
    assert!(near(value(&summary, "deletion-group1"), 2.0));
    // 64,000 rules are behind the knee of group 0.
    assert!(near(value(&summary, "filling-group0"), 0.1));
    assert!(near(value(&summary, "root-insert-group0"), 0.1));
}

fn words_of(value: f64) -> String {
    crate::words::significant(value)
}

#[test]
fn what_more_threads_gain_on_a_known_device_is_found() {
    let set = ["rules=16k", "stack=eth/ipv4/tcp", "actions=queue", "threads=1,2"];
    let (bench, summary) = measured(Nature::default(), &set);
    let table = &summary.experiments[0].tables[0];
    let at = |calls, threads| [("group", "1"), ("calls", calls), ("threads", threads)];
    assert_eq!(cell(table, &at("queue", "1"), "p50"), "1.00 us");
    assert_eq!(table.rows.len(), 2 * 2, "groups and threads");
    assert!((value(&summary, "threads-group1") - 1.5).abs() < 0.01, "{:?}", summary.findings);
    let other = bench.run.experiments[0].trials.iter().filter(|trial| {
        trial.kind == TrialKind::Insert && trial.point["calls"].to_string() != "queue"
    });
    assert_eq!(other.count(), 0, "threads have queues");
}

#[test]
fn more_threads_than_there_are_cores_are_not_supported_and_the_others_are_measured() {
    let set = ["rules=16k", "stack=eth/ipv4/tcp", "actions=queue", "threads=1,2,8"];
    let (bench, _) = measured(Nature::default(), &set);
    let of = |threads: &str| {
        let is = |sample: &&&niclab_result::Sample| sample.point["threads"].to_string() == threads;
        bench.samples("insert").iter().filter(is).map(|sample| &sample.outcome).collect::<Vec<_>>()
    };
    let lacks = |outcome: &&Outcome| matches!(outcome, Outcome::NotSupported { .. });
    let is_measured = |outcome: &&Outcome| **outcome == Outcome::Measured;
    for threads in ["1", "2"] {
        assert_eq!(of(threads).into_iter().filter(is_measured).count(), 12, "of two groups");
    }
    assert!(of("8").iter().all(lacks) && !of("8").is_empty());
}

#[test]
fn rules_that_never_took_effect_are_counted_and_are_no_time() {
    let (bench, summary) = measured(Nature { effect_ns: 10_000_000_000, ..Nature::default() }, &[]);
    let table = &summary.experiments[0].tables[1];
    assert_eq!(cell(table, &[("core", "same")], "never"), "64");
    assert_eq!(bench.samples("effect")[0].metrics["effects"].value, 0.0);
    assert!(summary.findings.iter().all(|found| !found.id.contains("effect")));
}

#[test]
fn the_effect_that_is_told_is_that_of_the_highest_rate() {
    let (_, summary) = measured(Nature::default(), &["per_s=2k,500,1k"]);
    let found = summary.findings.iter().find(|found| found.id == "simulated-effect-same").unwrap();
    assert!(found.sentence.contains("2,000 a second"), "{}", found.sentence);
}

#[test]
fn the_time_to_effect_of_a_known_device_is_found() {
    let (bench, summary) = measured(Nature::default(), &[]);
    let table = &summary.experiments[0].tables[1];
    let at = [("core", "distinct")];
    let found = cell(table, &at, "last frame without it, p50 (interval)");
    assert_eq!(found, "50.0 us (50.0 us to 50.0 us)");
    // A quarter of 10 Mpps over 64 flows.
    assert_eq!(cell(table, &at, "resolution"), "25.6 us");
    assert!((value(&summary, "effect-same") / 50e3 - 1.0).abs() < 0.01);
    let sample = bench.samples("effect")[0];
    assert_eq!(sample.metrics["effects"].value, 64.0);
}

#[test]
fn rules_that_take_effect_at_once_are_told_as_zero() {
    let (_, summary) = measured(Nature { effect_ns: 0, ..Nature::default() }, &[]);
    let table = &summary.experiments[0].tables[1];
    let found = cell(table, &[("core", "same")], "last frame without it, p50 (interval)");
    assert_eq!(found, "0 ns (0 ns to 0 ns)");
    assert_eq!(value(&summary, "effect-same"), 0.0);
}

#[test]
fn what_a_group_refuses_is_data_and_no_rate() {
    let nature = Nature { capacity: 10_000, ..Nature::default() };
    let (_, summary) = measured(nature, &["group=0", "stack=eth/ipv4/tcp", "rules=16k"]);
    let table = &summary.experiments[0].tables[0];
    let at = [("rules", "16,000"), ("calls", "single"), ("actions", "queue")];
    assert_eq!(cell(table, &at, "refused"), "6,000");
    let rates = summary.findings.iter().filter(|finding| finding.id.contains("insert-rate"));
    assert_eq!(rates.count(), 0, "{:?}", summary.findings);
}

#[test]
fn a_device_without_rules_says_so_once() {
    let nature = Nature { not_supported: vec!["rules"], ..Nature::default() };
    let (bench, _) = measured(nature, &[]);
    let told: Vec<_> = bench.store.samples.iter().map(|sample| &sample.outcome).collect();
    let lacks =
        |o: &&&Outcome| matches!(o, Outcome::NotSupported { capability } if capability == "rules");
    assert_eq!(told.iter().filter(lacks).count(), 1, "{told:?}");
    assert!(bench.samples("insert").is_empty());
}

#[test]
fn values_out_of_range_are_refused_with_what_would_be_right() {
    let sweep = crate::experiment::spec("rule-rate").unwrap().reduced.insertion[0].clone();
    let refused = |change: fn(&mut InsertionSweep), reason: &str| {
        let mut sweep = sweep.clone();
        change(&mut sweep);
        let error = places(&sweep).unwrap_err().to_string();
        assert!(error.starts_with(reason), "{error}");
    };
    refused(|s| s.rules = Values::number(0), "rules = 0: use 1 to");
    refused(|s| s.threads = Values::number(65), "threads = 65: use 1 to 64");
    refused(|s| s.stack = Values::parse("mpls").unwrap(), "stack = mpls: eth, eth/ipv4, eth/");
    refused(
        |s| s.actions = Values::parse("drop").unwrap(),
        "actions = drop: queue, mark+queue, mark+set_meta+queue, mark+set_meta+set_tag+queue",
    );
    let effect = crate::experiment::spec("rule-rate").unwrap().reduced.effect[0].clone();
    let many = EffectSweep { rules: Values::number(5_000), ..effect };
    assert_eq!(effects(&many).unwrap_err().to_string(), "rules = 5000: use 1 to 4096");
}
