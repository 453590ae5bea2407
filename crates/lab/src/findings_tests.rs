//! Findings on devices with known behaviour: which appear, their text, and which must not appear.

use niclab_device::model::{Model, read};
use niclab_result::{ExperimentVerdict, Mark};

use super::*;
use crate::experiments::occupancy::spec::Parts;
use crate::measure::DEVICE_TIME;
use crate::run::resolve;
use crate::simulated::{Bench, Nature};
use crate::spec::{GridName, Overrides};
use crate::summary::summarize;
use crate::validation::measure;

/// The findings of the default experiment on one simulated device.
fn found(nature: Nature, repeats: u32) -> Vec<Finding> {
    let mut bench = Bench::new(vec![nature], &[], repeats);
    bench.execute();
    summarize(&bench.run, &bench.store.samples, &bench.store.latencies).findings
}

fn of<'a>(findings: &'a [Finding], id: &str) -> Option<&'a Finding> {
    findings.iter().find(|finding| finding.id == format!("simulated-{id}"))
}

fn sentence<'a>(findings: &'a [Finding], id: &str) -> &'a str {
    of(findings, id).map_or("(none)", |finding| &finding.sentence)
}

#[test]
fn a_card_as_published_is_described_as_the_paper_does() {
    // Group 0 of 65,536 rules, knee at 85 % of it, a tenth of the throughput behind; 10 % a group.
    let findings = found(Nature { noise: 0.01, ..Nature::default() }, 6);
    assert_eq!(sentence(&findings, "capacity-group0"), "Group 0 of simulated holds 65,536 rules.");
    assert_eq!(of(&findings, "capacity-group0").unwrap().interval, None, "it is exact");
    let knee = of(&findings, "knee-group0").unwrap();
    assert!((knee.value.value / 55_705.0 - 1.0).abs() < 0.025, "{knee:?}");
    assert_eq!(knee.interval, None, "a bracket is no interval of confidence");
    assert!(knee.sentence.contains("falls below 80.0 % of its throughput at 5"), "{knee:?}");
    assert!(knee.sentence.contains("% of the 65,536 it holds"), "{knee:?}");
    let full = of(&findings, "full-group0").unwrap();
    assert!((full.value.value - 10.0).abs() < 0.5, "{full:?}");
    let (low, high) = full.interval.unwrap();
    assert!(low <= 10.0 && 10.0 <= high && high - low < 1.0, "{full:?}");
    assert!(full.sentence.starts_with("simulated with 65,536 rules in group 0 reaches "));
    assert!(!full.sentence.contains("interval"), "it stands beside the sentence: {full:?}");
    assert!(full.implication.contains("A full table costs throughput"));
    let maximum = of(&findings, "maximum").unwrap();
    assert!((maximum.value.value / 10e6 - 1.0).abs() < 0.01, "{maximum:?}");
    assert!(maximum.sentence.starts_with("simulated forwards "), "{maximum:?}");
}

#[test]
fn a_table_that_is_flat_from_few_rules_on_says_from_how_many() {
    let implication = |knee_rules| {
        let nature = Nature { knee_rules, behind_share: 0.8, noise: 0.01, ..Nature::default() };
        of(&found(nature, 6), "full-group0").unwrap().implication.clone()
    };
    assert_eq!(
        implication(10_000),
        "From 16,000 rules on, more rules cost almost no more throughput."
    );
    assert_eq!(
        implication(40_000),
        "A full table costs throughput: install only rules that are used.",
        "it is flat where it is nearly full"
    );
}

#[test]
fn a_knee_of_hits_has_a_sentence_of_its_own_and_stands_in_no_figure_of_misses() {
    let found = |knee_rules, generator_pps| {
        let nature = Nature { knee_rules, generator_pps, noise: 0.01, ..Nature::default() };
        let mut bench = Bench::new(vec![nature], &[], 3);
        let mut spec = crate::experiments::spec("occupancy").unwrap();
        let knees = spec.full.of::<Parts>().knee.clone();
        spec.reduced.of_mut::<Parts>().knee = knees;
        spec.reduced.of_mut::<Parts>().knee.retain(|knee| knee.groups == 0);
        let overrides = Overrides { repeats: Some(3), ..Default::default() };
        bench.run = resolve("x", &[spec], &overrides, bench.run.devices.clone()).unwrap();
        bench.execute();
        summarize(&bench.run, &bench.store.samples, &bench.store.latencies)
    };
    let summary = found(30_000, 40e6);
    let hits = of(&summary.findings, "knee-group0-hits").unwrap();
    assert!((hits.value.value / 30_000.0 - 1.0).abs() < 0.03, "{hits:?}");
    let start = "simulated falls below 80.0 % of its throughput with 6,554 rules at ";
    assert!(hits.sentence.starts_with(start), "{hits:?}");
    assert!(hits.sentence.ends_with(", with 100 % of the traffic on rules."), "{hits:?}");
    let misses = of(&summary.findings, "knee-group0").unwrap();
    assert!(!misses.sentence.contains("on rules"), "{misses:?}");
    let figures = &summary.experiments[0].figures;
    let root = figures.iter().find(|f| f.id == "occupancy-throughput-group0-64").unwrap();
    assert_eq!(root.knees.len(), 2, "capacity and throughput of misses: {:?}", root.knees);
    let knees = summary.experiments[0].tables.last().unwrap();
    assert!(knees.rows.iter().any(|row| row[2].ends_with("100 % of the traffic on rules")));
    let summary = found(u64::MAX, 40e6);
    let said = sentence(&summary.findings, "knee-group0-hits");
    assert!(said.contains("with 6,554 rules up to 65,536 rules in group 0 (no knee)"), "{said}");
    let limited = found(u64::MAX, 5e6);
    assert_eq!(sentence(&limited.findings, "knee-group0-hits"), "(none)");
}

#[test]
fn an_interval_of_more_than_a_decade_does_not_tell_how_much() {
    let mut bench = Bench::new(vec![Nature::default()], &[], 6);
    bench.execute();
    // Latencies with a full table scatter by a factor of 32; those with none do not.
    let is_full = |sample: &niclab_result::Sample| {
        sample.trial == "latency" && sample.point["rules"].to_string() == "65536"
    };
    for sample in bench.store.samples.iter_mut().filter(|sample| is_full(sample)) {
        for metric in ["latency_ns_p50", "latency_ns_p99"] {
            let quantity = sample.metrics.get_mut(metric).unwrap();
            quantity.value *= f64::from(2_u32 << sample.repeat);
        }
    }
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    let vague = of(&summary.findings, "latency-p50").unwrap();
    let (low, high) = vague.interval.unwrap();
    assert!(high > 10.0 * low, "{vague:?}");
    assert_eq!(vague.implication, VAGUE);
    assert_ne!(of(&summary.findings, "full-group0").unwrap().implication, VAGUE);
    assert_eq!(summary.experiments[0].verdict, ExperimentVerdict::Answered);

    // An experiment with vague findings alone has no answer.
    bench.store.samples.retain(|sample| ["latency", "saturate"].contains(&sample.trial.as_str()));
    let others = bench.store.samples.iter_mut().filter(|sample| sample.trial == "saturate");
    others.for_each(|sample| sample.metrics.clear());
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    let is_all_vague = summary.findings.iter().all(Finding::is_vague);
    assert!(is_all_vague && summary.findings.len() == 2, "{:#?}", summary.findings);
    let reason = VAGUE.to_owned();
    assert_eq!(summary.experiments[0].verdict, ExperimentVerdict::CannotTell { reason });
}

#[test]
fn the_cost_of_a_chain_is_that_of_its_jumps() {
    let nature = Nature { noise: 0.01, knee_rules: u64::MAX, ..Nature::default() };
    let findings = found(nature, 6);
    let chain = of(&findings, "chain").unwrap();
    assert!((chain.value.value - 100.0 * 0.9f64.powi(15)).abs() < 1.0, "{chain:?}");
    assert!(chain.sentence.contains("1,000,000 rules in 16 chained groups"), "{chain:?}");
    assert!(chain.implication.contains("keep the chain short"));
    let knee = sentence(&findings, "knee-group0");
    assert!(knee.ends_with("up to 65,536 rules in group 0: no knee."), "{knee}");
    let full = of(&findings, "full-group0").unwrap();
    assert!(full.implication.contains("costs almost no throughput"), "{full:?}");
    let memory = sentence(&findings, "rule-memory");
    assert!(memory.starts_with("A five-tuple rule uses 128 B of memory on simulated"), "{memory}");
    let matching = of(&findings, "matching").unwrap();
    assert!((matching.value.value - 100.0).abs() < 2.0, "{matching:?}");
    let latency = of(&findings, "latency-p50").unwrap();
    assert!((latency.value.value - 1.0).abs() < 0.02, "{latency:?}");
    let both = "times as high as with no rule (3.50 us instead of 3.50 us)";
    assert!(latency.sentence.contains(both), "{latency:?}");
}

#[test]
fn a_limit_of_the_generator_is_never_called_the_devices() {
    let findings = found(Nature { generator_pps: 5e6, ..Nature::default() }, 6);
    assert!(sentence(&findings, "maximum").contains("forwards at least 5.00 Mpps"));
    // Behind the knee the device itself is the limit, but the plateau is not known.
    for id in ["full-group0", "frame-size"] {
        assert!(of(&findings, id).is_none(), "{id}: {}", sentence(&findings, id));
    }
    let strong = Nature { generator_pps: 5e6, knee_rules: u64::MAX, ..Nature::default() };
    let findings = found(strong, 6);
    assert!(sentence(&findings, "full-group0").contains("forwards at least 5.00 Mpps"));
    for id in ["knee-group0", "matching", "frame-size"] {
        assert!(of(&findings, id).is_none(), "{id}: {}", sentence(&findings, id));
    }
}

#[test]
fn a_cost_below_the_noise_is_not_reported() {
    let noisy = Nature { noise: 0.6, knee_rules: u64::MAX, group_share: 1.0, ..Nature::default() };
    let findings = found(noisy, 6);
    for id in ["full-group0", "chain", "matching"] {
        assert!(of(&findings, id).is_none(), "{id}: {}", sentence(&findings, id));
    }
    assert!(of(&findings, "maximum").is_some());
}

#[test]
fn too_few_repeats_have_no_interval_and_say_so() {
    let findings = found(Nature::default(), 3);
    let full = of(&findings, "full-group0").unwrap();
    assert_eq!(full.interval, None);
    assert!(full.sentence.contains("3 repeats only"), "{full:?}");
    let single = found(Nature::default(), 1);
    assert!(of(&single, "full-group0").is_none(), "nothing is concluded from one repeat");
    assert!(sentence(&single, "maximum").contains("one repeat only"));
}

#[test]
fn a_device_without_rules_is_described_by_what_it_does() {
    let nature = Nature { not_supported: vec!["rules"], ..Nature::default() };
    let findings = found(nature, 6);
    let ids: Vec<&str> = findings.iter().map(|finding| finding.id.as_str()).collect();
    assert_eq!(ids, ["simulated-maximum", "simulated-frame-size"]);
}

/// A finding of such a value and unit, as near as the noise allows, that says all `parts`.
fn check_cost(findings: &[Finding], id: &str, (value, unit): (f64, &str), parts: [&str; 2]) {
    let cost = of(findings, id).unwrap();
    assert!((cost.value.value - value).abs() < 0.02 * value.abs().max(100.0), "{cost:?}");
    assert_eq!(cost.value.unit, unit, "{cost:?}");
    let (low, high) = cost.interval.unwrap();
    assert!(low <= cost.value.value && cost.value.value <= high, "{cost:?}");
    for part in parts {
        assert!(format!("{} {}", cost.sentence, cost.implication).contains(part), "{cost:?}");
    }
}

#[test]
fn behind_a_slow_generator_the_time_of_the_core_tells_what_a_frame_costs() {
    // 10 Mpps are 100 ns a frame in front of the knee.
    let slow = Nature { generator_pps: 0.8e6, noise: 0.005, tells_idle: true, ..Nature::default() };
    let findings = found(slow.clone(), 6);
    let times = " times as much as with no rule (median of pairs).";
    check_cost(
        &findings,
        "device-time-group0",
        (10.0, "1"),
        ["with 65,536 rules in group 0, ", times],
    );
    let parts = ["with 1,000,000 rules in group 1, ", " times as much as with 16 rules (median"];
    check_cost(&findings, "device-time-group1", (10.0, "1"), parts);
    let even = Nature { knee_rules: u64::MAX, ..slow.clone() };
    let parts = ["in 16 chained groups, 4", "would forward about 2.0"];
    check_cost(&found(even, 6), "device-time-chain", (0.9f64.powi(-15), "1"), parts);
    assert!(of(&findings, "full-group0").is_none(), "the same is not said twice");
    let silent = found(Nature { tells_idle: false, ..slow }, 6);
    assert!(!silent.iter().any(|finding| finding.id.contains("device-time")));
    let fast = found(Nature { tells_idle: true, ..Nature::default() }, 6);
    assert!(!fast.iter().any(|finding| finding.id.contains("device-time")), "throughput tells");
}

#[test]
fn a_cost_whose_interval_holds_none_is_no_finding() {
    let nature = Nature {
        generator_pps: 0.8e6,
        knee_rules: u64::MAX,
        noise: 0.0,
        tells_idle: true,
        ..Nature::default()
    };
    let with = |factors: [f64; 6]| {
        let mut bench = Bench::new(vec![nature.clone()], &[], 6);
        bench.execute();
        scale(&mut bench, |sample| is_of_group0(sample, "65536"), DEVICE_TIME, factors);
        summarize(&bench.run, &bench.store.samples, &bench.store.latencies).findings
    };
    let undecided = with([0.9, 1.4, 1.23, 1.23, 1.3, 0.95]);
    assert!(of(&undecided, "device-time-group0").is_none(), "{undecided:#?}");
    let shown = with([1.2, 1.25, 1.23, 1.23, 1.3, 1.21]);
    let parts = [
        "ns of core time on a 64 B frame with 65,536 rules in group 0, ",
        " % more than with no rule (median of pairs).",
    ];
    check_cost(&shown, "device-time-group0", (23.0, "% more"), parts);
    let none = with([0.98, 1.02, 1.0, 1.0, 1.01, 0.99]);
    let same = " times as much as with no rule (median of pairs).";
    check_cost(&none, "device-time-group0", (1.0, "1"), ["on a 64 B frame", same]);
    let few = found(nature, 3);
    let sentence = sentence(&few, "device-time-group0");
    assert!(sentence.contains("(3 repeats only)"), "{sentence}");
}

/// `true` for a saturating trial of 64 B frames with so many rules in group 0, default rules alone
/// hit.
fn is_of_group0(sample: &niclab_result::Sample, rules: &str) -> bool {
    let at = |axis: &str| sample.point.get(axis).map(ToString::to_string).unwrap_or_default();
    sample.trial == "saturate"
        && (at("groups"), at("rules"), at("match_percent"))
            == ("0".into(), rules.into(), "0".into())
        && (at("frame"), at("flows")) == ("64".into(), "10000".into())
}

/// Multiplies a metric of some samples, repeat by repeat.
fn scale(
    bench: &mut Bench,
    is: impl Fn(&niclab_result::Sample) -> bool,
    metric: &str,
    factors: [f64; 6],
) {
    for sample in bench.store.samples.iter_mut().filter(|sample| is(sample)) {
        let value = sample.metrics.get_mut(metric);
        value.into_iter().for_each(|it| it.value *= factors[sample.repeat as usize]);
    }
}

#[test]
fn at_least_is_the_lower_end_of_the_interval() {
    let strong = Nature { generator_pps: 5e6, knee_rules: u64::MAX, ..Nature::default() };
    let mut bench = Bench::new(vec![strong], &[], 6);
    bench.execute();
    // 7.9 to 37.2 Mpps, 35.8 in the middle.
    let factors = [1.58, 7.16, 7.16, 7.16, 7.3, 7.44];
    for rules in ["0", "65536"] {
        scale(&mut bench, |sample| is_of_group0(sample, rules), "throughput_pps", factors);
    }
    let findings = summarize(&bench.run, &bench.store.samples, &bench.store.latencies).findings;
    for id in ["maximum", "full-group0"] {
        let found = of(&findings, id).unwrap();
        assert!(found.sentence.contains("forwards at least 7.90 Mpps"), "{found:?}");
        assert_eq!(found.value.value, found.interval.unwrap().0, "{found:?}");
    }
}

#[test]
fn the_maximum_is_no_baseline_of_shares_that_do_not_come() {
    let noisy = Nature { noise: 0.6, knee_rules: u64::MAX, group_share: 1.0, ..Nature::default() };
    let findings = found(noisy, 6);
    assert!(of(&findings, "full-group0").is_none());
    let maximum = of(&findings, "maximum").unwrap();
    assert!(!maximum.implication.contains("below"), "{maximum:?}");
}

#[test]
fn the_memory_of_a_rule_is_the_range_that_the_table_has() {
    let mut bench = Bench::new(vec![Nature::default()], &[], 6);
    bench.execute();
    for sample in bench.store.samples.iter_mut().filter(|s| s.trial == crate::runner::SETUP) {
        let rules = sample.point.get("rules").map(ToString::to_string);
        let bytes = match rules.as_deref() {
            Some("16000") => 294.0,
            Some("1000000") => 139.0,
            _ => 200.0,
        };
        let value = sample.metrics.get_mut("rule_bytes_per_rule");
        value.into_iter().for_each(|it| it.value = bytes);
    }
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    let memory = of(&summary.findings, "rule-memory").unwrap();
    let said = "A five-tuple rule uses 139 B (1,000,000 rules installed) to 294 B (16,000 rules \
                installed) of memory on simulated.";
    assert_eq!(memory.sentence, said);
    assert_eq!((memory.value.value, memory.interval), (294.0, None));
}

#[test]
fn all_latencies_of_a_figure_have_one_rate_and_at_two_rates_they_are_no_finding() {
    let mut bench = Bench::new(vec![Nature { noise: 0.0, ..Nature::default() }], &[], 6);
    bench.execute();
    let rates = |trial: &str, is_root: bool| {
        let is_of = |sample: &&&niclab_result::Sample| {
            (sample.point["groups"].to_string() == "0") == is_root
        };
        let of = bench.samples(trial);
        let mut rates: Vec<f64> =
            of.iter().filter(is_of).map(|sample| sample.metrics["planned_pps"].value).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        rates
    };
    // The empty table forwards 10 Mpps, and each further group leaves 0.9 of that.
    assert_eq!(rates("latency", true), [6e6]);
    assert_eq!(rates("light", true).len(), 1);
    let groups = rates("latency", false);
    assert!(groups.len() == 1 && (groups[0] / 1.24e6 - 1.0).abs() < 0.01, "{groups:?}");
    let findings = |bench: &Bench| {
        summarize(&bench.run, &bench.store.samples, &bench.store.latencies).findings
    };
    let told = findings(&bench);
    // Behind the knee a tenth is left: the ring is full.
    let start = "The p50 latency of simulated with 65,536 rules in group 0 is 50.0 times as high \
                 as with no rule (175 us instead of 3.50 us), at 6.00 Mpps (60 % of the maximum)";
    assert!(sentence(&told, "latency-p50").starts_with(start), "{told:#?}");
    let implication = &of(&told, "latency-p50").unwrap().implication;
    assert!(implication.starts_with("The full table does not sustain this rate"), "{implication}");
    // A machine that stalls loses frames whatever the table.
    let mut stalls = Bench::new(vec![Nature { noise: 0.0, ..Nature::default() }], &[], 6);
    stalls.execute();
    let both = |sample: &niclab_result::Sample| sample.trial == "latency";
    for sample in stalls.store.samples.iter_mut().filter(|sample| both(sample)) {
        sample.metrics.get_mut("loss_ratio").unwrap().value = 0.1;
    }
    let told = findings(&stalls);
    let implication = &of(&told, "latency-p50").unwrap().implication;
    assert_eq!(implication, "Include this in a latency budget.");
    // As results of older versions have it: each at a share of its own maximum.
    let is_empty = |sample: &niclab_result::Sample| {
        sample.trial == "latency" && sample.point["rules"].to_string() == "0"
    };
    scale(&mut bench, is_empty, "planned_pps", [10.0; 6]);
    let other = findings(&bench);
    for id in ["latency-p50", "latency-p99"] {
        assert!(of(&other, id).is_none(), "{id}: {}", sentence(&other, id));
    }
}

#[test]
fn devices_are_compared_at_their_own_longest_chain() {
    let bench = Bench::new(vec![Nature::default()], &["frame=64"], 1);
    let (run, device) = (&bench.run.experiments[0], &bench.run.devices[0]);
    let at = |kind: &str, groups: &str, rules: &str| {
        let is_at = |trial: &&crate::run::Trial| {
            let word = |axis: &str| trial.point[axis].to_string();
            trial.kind.name() == kind
                && (word("groups"), word("rules")) == (groups.into(), rules.into())
                && word("match_percent") == "0"
        };
        run.trials.iter().position(|trial| is_at(&trial)).unwrap()
    };
    let (latency, own) = (at("latency", "1", "10000"), at("saturate", "1", "10000"));
    let longest = at("saturate", "16", "16");
    let known = crate::device_samples::DeviceSamples::of(run, device, []);
    assert_eq!(known.base(&run.trials[latency]), Some(longest));
    let mut failed = run_of("occupancy").store.samples.remove(0);
    failed.trial = crate::runner::SETUP.into();
    failed.point = run.trials[longest].point.clone();
    failed.outcome = niclab_result::Outcome::Failed { reason: "no".into(), dropped: false };
    let known = crate::device_samples::DeviceSamples::of(run, device, [&failed]);
    assert_eq!(known.base(&run.trials[latency]), Some(own));
    assert!(known.is_able(&run.trials[latency]) && !known.is_able(&run.trials[longest]));
}

/// The findings of one table whose throughput was searched, and the warnings; saturating trials are
/// made so many times as fast behind the search.
fn searched(factor: f64) -> (Vec<Finding>, Vec<String>) {
    let mut spec = crate::experiments::spec("occupancy").unwrap();
    let searches = spec.full.of::<Parts>().search.clone();
    spec.reduced.of_mut::<Parts>().search = searches;
    let nature = Nature { noise: 0.001, ..Nature::default() };
    let mut bench = Bench::new(vec![nature], &[], 6);
    let set = ["groups=0", "rules=0", "frame=64", "flows=10k", "match_percent=0"];
    let set = set.iter().map(|text| text.parse().unwrap()).collect();
    let overrides = Overrides { repeats: Some(6), set, ..Default::default() };
    bench.run = resolve("x", &[spec], &overrides, bench.run.devices.clone()).unwrap();
    bench.execute();
    scale(&mut bench, |sample| sample.trial == "saturate", "throughput_pps", [factor; 6]);
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    (summary.findings, summary.warnings)
}

#[test]
fn a_search_that_ends_above_the_saturating_load_is_a_warning_and_no_finding() {
    let warned = |warnings: &[String]| {
        warnings.iter().filter(|of| of.contains("end above the saturating throughput")).count()
    };
    let (findings, warnings) = searched(1.0);
    let said = sentence(&findings, "searched-throughput");
    assert!(said.contains("at saturating load") && warned(&warnings) == 0, "{said}: {warnings:?}");
    let (findings, warnings) = searched(0.5);
    assert!(of(&findings, "searched-throughput").is_none(), "{findings:#?}");
    assert_eq!(warned(&warnings), 1, "{warnings:?}");
}

#[test]
fn a_chain_at_its_limit_has_at_most_its_share_of_what_the_generator_sends() {
    let nature = Nature { generator_pps: 5e6, knee_rules: u64::MAX, ..Nature::default() };
    let findings = found(nature, 6);
    let chain = of(&findings, "chain").unwrap();
    assert!((chain.value.value - 200.0 * 0.9f64.powi(15)).abs() < 2.0, "{chain:?}");
    assert!(chain.sentence.contains("chained groups reaches at most 4"), "{chain:?}");
}

#[test]
fn findings_of_every_experiment_name_figures_and_those_that_they_name_are_there() {
    // Of one number there is no figure.
    let bare = ["effect", "rule-memory", "knee-group0-hits"];
    for experiment in of_rules() {
        let bench = run_of(experiment);
        let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
        let figures = &summary.experiments[0].figures;
        for finding in &summary.findings {
            match &finding.figure {
                Some(id) => assert!(figures.iter().any(|figure| figure.id == *id), "{id}"),
                None => assert!(bare.iter().any(|id| finding.id.contains(id)), "{finding:?}"),
            }
        }
    }
}

/// The experiments on rules: the device that is known has one queue, and no hosts.
fn of_rules() -> impl Iterator<Item = &'static str> {
    let has_rules = |name: &&str| {
        let axes = crate::experiments::spec(name).unwrap().kind.of().axes();
        let has = |name: &str| axes.iter().any(|(axis, _)| *axis == name);
        // Rules of an intrusion detection are none of the device.
        has("rules") && !has("engine")
    };
    crate::experiments::names().filter(has_rules)
}

/// A run of this experiment on a known device, small enough for every finding there is.
fn run_of(name: &str) -> Bench {
    let (set, nature): (&[&str], _) = match name {
        "occupancy" => (&[], Nature::default()),
        "update-batch" => (&["batch=10k", "after_ms=150", "duration_ms=50"], Nature::default()),
        "update-rate" => (&["per_s=0,100k"], Nature::default()),
        _ => (&["rules=16k"], Nature::default()),
    };
    let nature = Nature { noise: 0.0, ..nature };
    let mut bench = Bench::of(name, vec![nature], set, 6);
    bench.execute();
    bench
}

/// Those of a run whose samples under load are all marked.
fn of_marked(mut bench: Bench, mark: Mark) -> Vec<Finding> {
    let asks_nothing = [crate::runner::SETUP, crate::runner::search::CAPACITY, "insert"];
    for sample in &mut bench.store.samples {
        if !asks_nothing.contains(&sample.trial.as_str()) && !sample.load.is_null() {
            sample.marks = vec![mark];
        }
    }
    summarize(&bench.run, &bench.store.samples, &bench.store.latencies).findings
}

#[test]
fn counters_that_do_not_add_up_and_stalls_are_no_finding_of_any_experiment() {
    // What hangs on no packet.
    let known = |experiment: &str| match experiment {
        "occupancy" => vec!["capacity-group0", "rule-memory"],
        "rule-rate" => {
            vec!["insert", "filling", "vlan", "ipv6", "vxlan", "gre", "actions", "deletion"]
        }
        "rule-update" => vec!["update-rate", "in-place", "update-transaction"],
        _ => vec![],
    };
    for experiment in of_rules() {
        for mark in [Mark::Unbalanced, Mark::Disturbed] {
            let mut found = of_marked(run_of(experiment), mark);
            let known = known(experiment);
            found.retain(|finding| {
                let id = finding.id.trim_start_matches("simulated-");
                !known.iter().any(|known| id.starts_with(known))
                    && !id.starts_with("root-insert")
                    && !id.starts_with("threads")
            });
            assert_eq!(found, [], "{experiment}, {mark}");
        }
        let sound = run_of(experiment);
        let found = summarize(&sound.run, &sound.store.samples, &sound.store.latencies).findings;
        assert!(found.len() > known(experiment).len(), "{experiment}: {found:?}");
    }
}

/// All other experiments that send frames, on a modelled card.
#[test]
fn neither_are_they_of_experiments_without_rules() {
    // Where frames land hangs on no time.
    let landed = |finding: &Finding| {
        ["followed", "evenness", "popular"].iter().any(|id| finding.id == format!("82599-{id}"))
    };
    let mut with_findings = Vec::new();
    let others = crate::experiments::names().filter(|name| !of_rules().any(|of| of == *name));
    for name in others {
        let mut card = Model::new("82599", read("82599").unwrap(), 1);
        let mut measured = measure(&mut card, name, GridName::Reduced, &[], Some(6)).unwrap();
        let mut trials = measured.run.experiments[0].trials.iter();
        if !trials.any(|trial| trial.load().is_some()) || measured.summary().findings.is_empty() {
            continue;
        }
        with_findings.push(name);
        for mark in [Mark::Unbalanced, Mark::Disturbed] {
            measured.samples.iter_mut().for_each(|sample| sample.marks = vec![mark]);
            let mut found = measured.summary().findings;
            found.retain(|finding| mark == Mark::Unbalanced || !landed(finding));
            assert_eq!(found, [], "{name}, {mark}");
        }
    }
    assert!(with_findings.len() >= 4, "{with_findings:?}");
}

#[test]
fn full_groups_and_chains_have_sentences_of_their_own_for_traffic_on_rules() {
    let set = [
        "groups=0,1,16",
        "rules=6_554,65_536",
        "match_percent=100",
        "hits=rules",
        "frame=64",
        "flows=10k",
    ];
    let nature = Nature { noise: 0.0, ..Nature::default() };
    let mut spec = crate::experiments::spec("occupancy").unwrap();
    let mut bench = Bench::new(vec![nature], &[], 6);
    spec.reduced.of_mut::<Parts>().sweep.retain(|sweep| sweep.hits == crate::spec::Hits::Rules);
    let set = set.iter().filter(|text| !text.starts_with("hits")).map(|text| text.parse().unwrap());
    let overrides = Overrides { repeats: Some(6), set: set.collect(), ..Default::default() };
    bench.run = resolve("x", &[spec], &overrides, bench.run.devices.clone()).unwrap();
    bench.execute();
    let findings = summarize(&bench.run, &bench.store.samples, &bench.store.latencies).findings;
    // Behind the knee of group 0 a tenth is left; each group of a chain leaves nine tenths.
    let full = of(&findings, "full-group0-hits").unwrap();
    assert!((full.value.value - 10.0).abs() < 0.5, "{full:?}");
    assert!(full.sentence.ends_with("of its throughput with 6,554 rules."), "{full:?}");
    let chain = of(&findings, "chain-hits").unwrap();
    assert!(
        chain.sentence.contains("in 16 chained groups and all traffic on rules reaches"),
        "{chain:?}"
    );
    assert!(chain.value.value > 1.0 || chain.value.value < 0.3, "{chain:?}");
}

#[test]
fn every_point_of_a_figure_carries_the_mark_that_a_warning_speaks_of() {
    // The time of the device hangs neither on the generator nor on stalls.
    let is_of_load = |figure: &niclab_result::Figure| !figure.id.contains("device-time");
    for experiment in of_rules() {
        for mark in [Mark::Disturbed, Mark::GeneratorLimited] {
            let mut bench = run_of(experiment);
            let asks_nothing = [crate::runner::SETUP, crate::runner::search::CAPACITY, "insert"];
            for sample in &mut bench.store.samples {
                if !asks_nothing.contains(&sample.trial.as_str()) && !sample.load.is_null() {
                    sample.marks = vec![mark];
                }
            }
            let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
            let figures = summary.experiments[0].figures.iter().filter(|of| is_of_load(of));
            for figure in figures {
                let measured =
                    |of: &&niclab_result::Series| of.origin == niclab_result::Origin::Measured;
                for series in figure.series.iter().filter(measured) {
                    let is_marked = series.points.iter().any(|point| point.marks.contains(&mark));
                    let is_alone = figure.id.contains("group") && experiment == "rule-rate"
                        || figure.id.ends_with("-alone");
                    assert!(is_marked || is_alone, "{mark}: {}: {}", figure.id, series.name);
                }
            }
        }
    }
}
