//! Rule creation on a simulated device with known rates, and the findings from it.

use niclab_result::{Origin, Outcome, Summary};

use super::metrics::INSERT;
use super::spec::{EffectSweep, RuleRateSweep};
use super::trials::{effects, places};
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
    assert!(near(value(&summary, "vxlan-group1"), 50.0));
    assert!(near(value(&summary, "actions-group1"), 100.0 - 100.0 / 1.3));
    assert!(near(value(&summary, "deletion-group1"), 2.0));
    // 64,000 rules are behind the knee of group 0.
    assert!(near(value(&summary, "filling-group0"), 90.0));
    assert!(near(value(&summary, "root-insert-group0"), 90.0));
}

/// Names samples.
type Is = fn(&niclab_result::Sample) -> bool;

fn word(sample: &niclab_result::Sample, axis: &str) -> String {
    sample.point.get(axis).map(ToString::to_string).unwrap_or_default()
}

/// What is implied by a finding, where rates of the cells that `is` names are these multiples of
/// what they are, by repeat.
fn implied(is: Is, by: [f64; 6], id: &str) -> Option<String> {
    let set = [
        "stack=eth/ipv4/tcp,eth/ipv6/tcp,eth/vlan/ipv4/tcp,gre/ipv4/tcp,vxlan/ipv4/udp",
        "rules=1k,16k",
    ];
    let (mut bench, _) = measured(Nature::default(), &set);
    for sample in bench.store.samples.iter_mut().filter(|sample| is(sample)) {
        let value = sample.metrics.get_mut("operations_per_s");
        value.into_iter().for_each(|it| it.value *= by[sample.repeat as usize]);
    }
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    let id = format!("simulated-{id}-group1");
    let found = summary.findings.iter().find(|finding| finding.id == id);
    found.map(|finding| finding.implication.clone())
}

#[test]
fn the_implication_of_a_rate_depends_on_its_ratio() {
    let undecided = [0.2, 4.0, 0.3, 3.0, 0.25, 5.0];
    let no_matter = "The rate is the same for both kinds of headers.";
    let matters = "The rate depends on the headers that a rule matches.";
    let ipv6: Is = |sample| word(sample, "stack") == "eth/ipv6/tcp";
    assert_eq!(implied(ipv6, [1.0; 6], "ipv6").unwrap(), no_matter);
    assert_eq!(implied(ipv6, [0.005; 6], "ipv6").unwrap(), matters);
    assert_eq!(implied(ipv6, undecided, "ipv6"), None);
    let vlan: Is = |sample| word(sample, "stack") == "eth/vlan/ipv4/tcp";
    assert_eq!(implied(vlan, [1.0; 6], "vlan").unwrap(), no_matter);
    // Tunnels take twice as long here.
    assert_eq!(implied(vlan, [1.0; 6], "vxlan-vlan").unwrap(), matters);
    assert_eq!(implied(vlan, [0.5; 6], "vxlan-vlan").unwrap(), no_matter);
    assert_eq!(implied(vlan, undecided, "vxlan-vlan"), None);
    let acted: Is = |sample| word(sample, "actions").contains("set_tag");
    let costs = "The rate depends on the number of actions.";
    assert_eq!(implied(acted, [1.0; 6], "actions").unwrap(), costs);
    let costs_nothing = "More actions do not slow down rule creation.";
    assert_eq!(implied(acted, [1.3; 6], "actions").unwrap(), costs_nothing);
    assert_eq!(implied(acted, undecided, "actions"), None);
    let all: Is = |_| true;
    let deletion = "Destroying rules does not limit rule churn.";
    assert_eq!(implied(all, [1.0; 6], "deletion").unwrap(), deletion);
    let waits = "Destroying the old rules takes most of the time of rule churn.";
    assert_eq!(implied(all, [4.0; 6], "deletion").unwrap(), waits);
    assert_eq!(implied(all, undecided, "deletion"), None);
    let queue: Is = |sample| word(sample, "calls") == "queue";
    let faster = "Use the queue to create many rules at a time.";
    assert_eq!(implied(queue, [2.0; 6], "insert-queue").unwrap(), faster);
    let slower = "Use the queue for calls from other threads, not for speed.";
    assert_eq!(implied(queue, [0.5; 6], "insert-queue").unwrap(), slower);
    assert_eq!(implied(queue, undecided, "insert-queue"), None);
    let many: Is = |sample| word(sample, "rules") == "16000";
    assert_eq!(
        implied(many, [0.5; 6], "filling").unwrap(),
        "Plan with the rate of a full group, not of an empty one."
    );
    assert_eq!(implied(many, undecided, "filling"), None);
}

#[test]
fn an_effect_at_a_rate_that_was_not_kept_or_of_some_of_the_rules_is_no_finding() {
    let of = |metric: &str, factor: f64| {
        let (mut bench, _) = measured(Nature::default(), &[]);
        for sample in bench.store.samples.iter_mut().filter(|sample| sample.trial == "effect") {
            let value = sample.metrics.get_mut(metric);
            value.into_iter().for_each(|it| it.value *= factor);
        }
        let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
        summary.findings.iter().filter(|finding| finding.id.contains("effect")).count()
    };
    assert_eq!(of("operations_per_s", 1.0), 2, "by either core");
    for metric in ["operations_per_s", "operations_done", "effects"] {
        assert_eq!(of(metric, 0.9), 0, "{metric}");
    }
}

#[test]
fn the_published_grid_draws_the_actions_of_the_stack_that_it_measures() {
    let mut spec = crate::experiments::spec("rule-rate").unwrap();
    let mut bench =
        Bench::of("rule-rate", vec![Nature { noise: 0.0, ..Nature::default() }], &[], 3);
    spec.reduced = spec.published.clone();
    let overrides = crate::spec::Overrides { repeats: Some(3), ..Default::default() };
    let devices = bench.run.devices.clone();
    bench.run = crate::run::resolve("x", &[spec], &overrides, devices).unwrap();
    bench.execute();
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    let figures = &summary.experiments[0].figures;
    let actions = figures.iter().find(|figure| figure.id == "rule-rate-group1-actions").unwrap();
    assert_eq!(
        actions.series.iter().filter(|series| series.origin != Origin::Published).count(),
        4
    );
    assert!(actions.series.iter().any(|series| series.origin == Origin::Published));
    assert!((value(&summary, "actions-group1") - (100.0 - 100.0 / 1.3)).abs() < 1.0);
}

fn words_of(value: f64) -> String {
    crate::words::significant(value)
}

#[test]
fn the_gain_of_more_threads_is_found() {
    let set = ["rules=16k", "stack=eth/ipv4/tcp", "actions=queue", "threads=1,2"];
    let (bench, summary) = measured(Nature::default(), &set);
    let table = &summary.experiments[0].tables[0];
    let at = |calls, threads| [("group", "1"), ("calls", calls), ("threads", threads)];
    assert_eq!(cell(table, &at("queue", "1"), "p50"), "1.00 us");
    assert_eq!(table.rows.len(), 2 * 2, "groups and threads");
    assert!((value(&summary, "threads-group1") - 50.0).abs() < 1.0, "{:?}", summary.findings);
    let other = bench.run.experiments[0]
        .trials
        .iter()
        .filter(|trial| trial.kind == INSERT && trial.point["calls"].to_string() != "queue");
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
fn the_effect_that_is_reported_is_that_of_the_highest_rate() {
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
fn refused_rules_are_data_and_give_no_rate() {
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
    let reported: Vec<_> = bench.store.samples.iter().map(|sample| &sample.outcome).collect();
    let lacks =
        |o: &&&Outcome| matches!(o, Outcome::NotSupported { capability } if capability == "rules");
    assert_eq!(reported.iter().filter(lacks).count(), 1, "{reported:?}");
    assert!(bench.samples("insert").is_empty());
}

#[test]
fn values_out_of_range_are_refused_with_what_would_be_right() {
    let sweep = crate::experiments::spec("rule-rate")
        .unwrap()
        .reduced
        .of::<crate::experiments::rule_rate::spec::Parts>()
        .insertion[0]
        .clone();
    let refused = |change: fn(&mut RuleRateSweep), reason: &str| {
        let mut sweep = sweep.clone();
        change(&mut sweep);
        let error = places(&sweep).unwrap_err().to_string();
        assert!(error.starts_with(reason), "{error}");
    };
    refused(|s| s.rules = Values::number(0), "rules = 0: use 1 to");
    refused(|s| s.threads = Values::number(65), "threads = 65: use 1 to 64");
    refused(
        |s| s.stack = Values::parse("mpls").unwrap(),
        "stack = mpls: use one of eth, eth/ipv4, eth/",
    );
    refused(
        |s| s.actions = Values::parse("drop").unwrap(),
        "actions = drop: use one of queue, mark+queue, mark+set_meta+queue, mark+set_meta+set_",
    );
    let effect = crate::experiments::spec("rule-rate")
        .unwrap()
        .reduced
        .of::<crate::experiments::rule_rate::spec::Parts>()
        .effect[0]
        .clone();
    let many = EffectSweep { rules: Values::number(5_000), ..effect };
    assert_eq!(effects(&many).unwrap_err().to_string(), "rules = 5000: use 1 to 4096");
}
