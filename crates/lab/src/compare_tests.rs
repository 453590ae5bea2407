//! Comparisons of simulated devices, whose ratios are known.

use niclab_result::Mark;

use super::*;
use crate::run::resolve;
use crate::simulated::{Bench, Nature, Simulated};
use crate::spec::{GridName, Overrides};

const SMALL: [&str; 3] = ["groups=0", "rules=0,16", "frame=64"];

/// A device with its own name, so with a noise of its own.
fn nature(name: &'static str, plateau_pps: f64) -> Nature {
    Nature { name, plateau_pps, ..Nature::default() }
}

fn executed(nature: Nature, set: &[&str], repeats: u32) -> Bench {
    let mut bench = Bench::new(vec![nature], set, repeats);
    bench.execute();
    bench
}

fn side(bench: &Bench) -> ComparedDevice<'_> {
    let device = &bench.run.devices[0].name;
    ComparedDevice { run: &bench.run, samples: &bench.store.samples, device }
}

fn compared(base: &Bench, other: &Bench) -> Comparison {
    compared_by(base, other, &[])
}

fn compared_by(base: &Bench, other: &Bench, metrics: &[&str]) -> Comparison {
    let metrics = metrics.iter().map(|name| name.to_string()).collect();
    compare(&side(base), &side(other), &CompareOptions { tolerance: 0.05, metrics })
}

fn group<'a>(comparison: &'a Comparison, trial: &str, metric: &str) -> &'a Group {
    let is = |group: &&Group| group.trial == trial && group.metric == metric;
    comparison.groups.iter().find(is).unwrap_or_else(|| panic!("{trial} {metric} is not there"))
}

/// Every point of this metric has this verdict.
#[track_caller]
fn all(comparison: &Comparison, trial: &str, metric: &str, verdict: Verdict) {
    let group = group(comparison, trial, metric);
    assert!(
        !group.rows.is_empty() && group.rows.iter().all(|row| row.verdict == verdict),
        "{group:?}"
    );
}

const LIMITED: Verdict = Verdict::Undecided(UndecidedReason::Marked(Mark::GeneratorLimited));

#[test]
fn a_device_a_fifth_slower_is_worse_and_the_other_way_round_better() {
    let fast = executed(nature("fast", 10e6), &SMALL, 8);
    let slow = executed(nature("slower", 8e6), &SMALL, 8);
    let worse = compared(&fast, &slow);
    all(&worse, "saturate", "throughput_pps", Verdict::Worse);
    let saturate = group(&worse, "saturate", "throughput_pps");
    let (mean, points) = saturate.mean().unwrap();
    assert!((mean - 0.8).abs() < 0.01 && points == saturate.rows.len(), "{mean} of {points}");
    let covers = |row: &&Row| row.interval.is_some_and(|(low, high)| low < 0.8 && 0.8 < high);
    let covered = saturate.rows.iter().filter(covers).count();
    // Of 12 intervals of 95 %, three or more miss in one of fifty draws.
    assert!(5 * covered >= 4 * points && points >= 10, "{covered} of {points}");
    assert!(saturate.rows[0].ratio <= saturate.rows[1].ratio, "the worst first: {saturate:?}");
    let better = compared(&slow, &fast);
    all(&better, "saturate", "throughput_pps", Verdict::Better);
    assert!(saturate.worst() < 0.81 && group(&better, "saturate", "throughput_pps").worst() > 1.2);
}

#[test]
fn a_difference_within_the_tolerance_is_equal_and_an_interval_beyond_it_undecided() {
    let base = executed(nature("base", 10e6), &SMALL, 8);
    let near = executed(nature("nearly", 9.9e6), &SMALL, 8);
    all(&compared(&base, &near), "saturate", "throughput_pps", Verdict::Same);
    let noisy = Nature { noise: 0.3, ..nature("noisily", 9.9e6) };
    let noisy = executed(noisy, &SMALL, 8);
    let wide = Verdict::Undecided(UndecidedReason::Wide);
    all(&compared(&base, &noisy), "saturate", "throughput_pps", wide);
    let few = executed(nature("few", 1e6), &SMALL, 3);
    all(&compared(&base, &few), "saturate", "throughput_pps", Verdict::Worse);
    let comparison = compared(&executed(nature("base", 10e6), &SMALL, 3), &few);
    all(&comparison, "saturate", "throughput_pps", Verdict::Undecided(UndecidedReason::FewRepeats));
    let (mean, _) = group(&comparison, "saturate", "throughput_pps").mean().unwrap();
    assert!((mean - 0.1).abs() < 0.01, "{mean}");
}

#[test]
fn an_interval_is_judged_as_a_whole_and_by_the_better_way() {
    let check = |better, interval, expected| {
        assert_eq!(judge::of_interval(better, interval, 0.05), expected, "{interval:?}");
    };
    let wide = Verdict::Undecided(UndecidedReason::Wide);
    check(Better::Higher, (0.90, 0.949), Verdict::Worse);
    check(Better::Higher, (0.90, 0.951), wide);
    check(Better::Higher, (0.951, 1.049), Verdict::Same);
    check(Better::Higher, (1.051, 3.0), Verdict::Better);
    check(Better::Lower, (0.90, 0.949), Verdict::Better);
    check(Better::Lower, (1.049, 1.2), wide);
    check(Better::Lower, (1.051, f64::INFINITY), Verdict::Worse);
    check(Better::Lower, (0.0, 2.0), wide);
}

#[test]
fn a_throughput_that_the_generator_set_is_no_regression_and_bounds_what_it_can() {
    let limited = |name, generator_pps| Nature { generator_pps, ..nature(name, 20e6) };
    let base = executed(nature("base", 10e6), &SMALL, 8);
    let other = executed(limited("limited", 5e6), &SMALL, 8);
    // The device could do more: this is no regression.
    let comparison = compared(&base, &other);
    all(&comparison, "saturate", "throughput_pps", LIMITED);
    assert_eq!(group(&comparison, "saturate", "throughput_pps").mean(), None);
    // The baseline could have done more still: this is one.
    let slow = executed(nature("slower", 4e6), &SMALL, 8);
    all(&compared(&other, &slow), "saturate", "throughput_pps", Verdict::Worse);
    // More than a baseline that was held back: nobody knows.
    all(&compared(&other, &base), "saturate", "throughput_pps", LIMITED);
    // More, though it was held back.
    let more = executed(limited("held", 15e6), &SMALL, 8);
    all(&compared(&base, &more), "saturate", "throughput_pps", Verdict::Better);
    all(&compared(&other, &more), "saturate", "throughput_pps", LIMITED);
}

#[test]
fn latency_at_another_load_is_worse_at_no_higher_and_better_at_no_lower_load() {
    let of = |name, plateau_pps, latency_ns| {
        executed(Nature { latency_ns, ..nature(name, plateau_pps) }, &SMALL, 8)
    };
    let (base, less) = (of("base", 10e6, 2_000), of("slower", 8e6, 2_000));
    let load = Verdict::Undecided(UndecidedReason::Load);
    all(&compared(&base, &less), "latency", "latency_ns_p50", load);
    let (slow, quick) = (of("all worse", 8e6, 9_000), of("less busy", 8e6, 200));
    all(&compared(&base, &slow), "latency", "latency_ns_p50", Verdict::Worse);
    all(&compared(&slow, &base), "latency", "latency_ns_p50", Verdict::Better);
    all(&compared(&base, &quick), "latency", "latency_ns_p50", load);
    all(&compared(&quick, &base), "latency", "latency_ns_p50", load);
    let equal = of("an equal", 10e6, 2_000);
    all(&compared(&base, &equal), "latency", "latency_ns_p50", Verdict::Same);
}

#[test]
fn points_of_one_side_only_are_listed_with_the_reason() {
    let base = executed(nature("base", 10e6), &SMALL, 4);
    let other = executed(nature("base", 10e6), &["groups=0", "rules=0,64", "frame=64"], 4);
    let comparison = compared(&base, &other);
    let of = |trial: &str, of_base| {
        let is = |m: &&Missing| m.trial == trial && m.of_base == of_base;
        comparison.missing.iter().find(is).unwrap()
    };
    for (of_base, rules) in [(true, 16.0), (false, 64.0)] {
        let missing = of("saturate", of_base);
        assert_eq!(missing.why, MissingReason::NotPlanned);
        let is_there = |point: &Point| point["rules"] == Coordinate::Number(rules);
        assert!(missing.points.iter().all(is_there), "{missing:?}");
    }
    assert!(comparison.lost(&side(&base), &side(&other)).is_empty());
    assert!(!group(&comparison, "saturate", "throughput_pps").rows.is_empty());
}

#[test]
fn a_capability_that_the_same_device_no_longer_has_is_lost() {
    let base = executed(nature("base", 10e6), &SMALL, 4);
    let check = |changed: Nature, is: fn(&MissingReason) -> bool| {
        let other = executed(changed, &SMALL, 4);
        let (base, other) = (side(&base), side(&other));
        let terms = CompareOptions { tolerance: 0.05, metrics: Vec::new() };
        let forth = compare(&base, &other, &terms);
        let lost = forth.lost(&base, &other);
        assert!(lost.iter().any(|missing| is(&missing.why)), "{:?}", forth.missing);
        let named = ComparedDevice { device: "another", ..other };
        assert!(forth.lost(&base, &named).is_empty(), "other devices may do less");
        let back = compare(&other, &base, &terms);
        assert!(!back.missing.is_empty() && back.lost(&other, &base).is_empty());
    };
    let lacks = Nature { not_supported: vec!["latency"], ..nature("base", 10e6) };
    check(lacks, |why| *why == MissingReason::NotSupported("latency".into()));
    let breaks = Nature { trials_max: 1, ..nature("base", 10e6) };
    check(
        breaks,
        |why| matches!(why, MissingReason::Broke(reason) if reason.contains("went away")),
    );
    let small = Nature { capacity: 10, ..nature("base", 10e6) };
    check(
        small,
        |why| matches!(why, MissingReason::Refused(message) if message.contains("group 0 is full")),
    );
}

#[test]
fn a_trial_that_failed_on_a_device_that_works_is_not_lost() {
    let base = executed(nature("base", 10e6), &SMALL, 1);
    let mut other = executed(nature("base", 10e6), &SMALL, 1);
    for sample in other.store.samples.iter_mut().filter(|sample| sample.trial == "light") {
        sample.outcome = Outcome::Failed { reason: "no frame was due".into(), dropped: false };
    }
    let comparison = compared(&base, &other);
    assert_eq!(comparison.missing[0].why, MissingReason::Failed("no frame was due".into()));
    assert!(comparison.lost(&side(&base), &side(&other)).is_empty());
}

#[test]
fn knees_are_compared_by_their_brackets() {
    let of = |name, capacity, knee_rules| {
        executed(Nature { capacity, knee_rules, ..nature(name, 10e6) }, &[], 1)
    };
    let base = of("base", 65_536, 55_705);
    let of_knees = |other: &Bench| {
        let comparison = compared(&base, other);
        let knees = comparison.groups.iter().filter(|group| group.metric == metrics::KNEE);
        let rows = knees.flat_map(|group| &group.rows);
        rows.map(|row| (row.base.clone(), row.other.clone(), row.verdict)).collect::<Vec<_>>()
    };
    let (capacity, throughput) = ("65,536".to_owned(), of_knees(&base)[1].0.clone());
    let none = "none up to 65,536".to_owned();
    let less = of_knees(&of("less", 30_000, 20_000));
    assert_eq!(less[0], (capacity.clone(), "30,000".into(), Verdict::Worse));
    assert_eq!((&less[1].0, less[1].2), (&throughput, Verdict::Worse));
    let more = of_knees(&of("much more", 200_000, u64::MAX));
    assert_eq!(more[0], (capacity, "none up to 131,072".into(), Verdict::Better));
    assert_eq!(more[1], (throughput, none, Verdict::Better));
    let same: Vec<Verdict> = of_knees(&base).into_iter().map(|(.., verdict)| verdict).collect();
    assert_eq!(same[0], Verdict::Same, "an exact bracket");
    let comparison = compared(&base, &base);
    let (low, high) = comparison.groups.last().unwrap().rows[0].interval.unwrap();
    assert!(low < 1.0 && 1.0 < high, "two knees in one bracket may differ: {low} to {high}");
    let chosen = compared_by(&base, &base, &[metrics::KNEE]);
    assert!(chosen.groups.iter().all(|group| group.metric == metrics::KNEE));
    assert!(compared_by(&base, &base, &["loss_ratio"]).groups.iter().all(|group| {
        group.metric == "loss_ratio" && group.rows.iter().all(|row| row.ratio == 1.0)
    }));
}

#[test]
fn batches_are_compared_by_their_length_and_the_time_they_block() {
    let place = ["work=create", "group=0", "batch=10k"];
    let set = [&place[..], &["core=same,distinct", "slice=all", "calls=single"]].concat();
    let of = |operation_ns| {
        let nature = Nature { operation_ns, noise: 0.001, ..nature("base", 10e6) };
        let mut bench = Bench::of("update-batch", vec![nature], &set, 4);
        bench.execute();
        bench
    };
    let comparison = compared(&of(1_000), &of(2_000));
    let took = group(&comparison, "batch", "batch_ns");
    assert!(took.rows.iter().all(|row| row.ratio == 2.0), "{took:?}");
    all(&comparison, "batch", "batch_ns", Verdict::Worse);
    let blocked = group(&comparison, "batch", "blocked_ns");
    let verdicts: Vec<Verdict> = blocked.rows.iter().map(|row| row.verdict).collect();
    assert_eq!(verdicts, [Verdict::Worse, Verdict::Same], "{blocked:?}");
    assert_eq!(blocked.rows[1].ratio, 1.0, "of two zeros");
    assert!(comparison.groups.iter().all(|group| group.trial != "rest"));
}

/// Batches on a device whose noise is small, their samples changed.
fn batches(change: impl Fn(&mut Sample)) -> Bench {
    let set = ["work=create", "group=0", "batch=10k", "core=same", "slice=all", "calls=single"];
    let nature = Nature { noise: 0.001, ..nature("base", 10e6) };
    let mut bench = Bench::of("update-batch", vec![nature], &set, 6);
    bench.execute();
    bench.store.samples.iter_mut().filter(|sample| sample.trial == "batch").for_each(change);
    bench
}

fn set(sample: &mut Sample, metric: &str, value: f64) {
    sample.metrics.get_mut(metric).unwrap().value = value;
}

#[test]
fn a_batch_that_does_not_finish_any_more_is_lost_where_no_stall_explains_it() {
    let base = batches(|_| {});
    let unfinished = |sample: &mut Sample| {
        if sample.repeat == 2 {
            sample.metrics.remove("batch_ns").unwrap();
        }
    };
    let lost = |base: &Bench, other: &Bench| {
        let comparison = compared(base, other);
        let lost = comparison.lost(&side(base), &side(other));
        lost.into_iter().map(|it| (it.metric.clone(), it.why.clone())).collect::<Vec<_>>()
    };
    let other = batches(unfinished);
    assert_eq!(lost(&base, &other), [(Some("batch_ns".into()), MissingReason::NotReached)]);
    assert_eq!(lost(&other, &base), []);
    assert_eq!(lost(&other, &other), [], "what the baseline has not in each repeat is not lost");
    let stalled = batches(|sample| {
        unfinished(sample);
        sample.marks.push(Mark::Disturbed);
    });
    assert_eq!(lost(&base, &stalled), []);
    let never = batches(|sample| drop(sample.metrics.remove("batch_ns")));
    assert_eq!(lost(&base, &never), [(Some("batch_ns".into()), MissingReason::NotReached)]);
    // Only a calm machine shows the time of the device's core.
    let reported = |sample: &mut Sample| {
        let each = niclab_result::Quantity { value: 80.0, unit: "ns".into() };
        sample.metrics.insert(crate::measure::DEVICE_TIME.into(), each);
    };
    let tell = |bench: &mut Bench, is: fn(&Sample) -> bool| {
        let samples = bench.store.samples.iter_mut().filter(|sample| sample.trial == "saturate");
        samples.filter(|sample| is(sample)).for_each(reported);
    };
    let (mut base, mut other) = (batches(|_| {}), batches(|_| {}));
    tell(&mut base, |_| true);
    tell(&mut other, |sample| sample.repeat > 0);
    assert_eq!(lost(&base, &other), []);
}

#[test]
fn fewer_operations_are_worse_and_a_trial_without_any_says_nothing_of_them() {
    let base = batches(|_| {});
    let slow = compared(&base, &batches(|sample| set(sample, "operations_per_s", 1e5)));
    all(&slow, "batch", "operations_per_s", Verdict::Worse);
    all(&slow, "batch", "operations_done", Verdict::Same);
    let fewer = compared(&base, &batches(|sample| set(sample, "operations_done", 9_000.0)));
    all(&fewer, "batch", "operations_done", Verdict::Worse);
    let is_silent = |trial: &str| {
        let is_of = |of: &str, metric: &str| of == trial && metric.starts_with("operations");
        let metric = |missing: &Missing| missing.metric.clone().unwrap_or_default();
        !fewer.groups.iter().any(|group| is_of(&group.trial, &group.metric))
            && !fewer.missing.iter().any(|missing| is_of(&missing.trial, &metric(missing)))
    };
    assert!(is_silent("saturate") && !is_silent("batch"));
    let churn = || {
        let set = ["group=1", "rules=1k", "per_s=0,100k", "core=same", "calls=single"];
        let mut bench = Bench::of("update-rate", vec![nature("base", 10e6)], &set, 4);
        bench.execute();
        bench
    };
    let compared = compared(&churn(), &churn());
    all(&compared, "saturate", "operations_per_s", Verdict::Same);
    assert_eq!(group(&compared, "saturate", "operations_done").rows.len(), 1);
}

#[test]
fn a_time_is_compared_no_finer_than_its_resolution() {
    let blocked = |ns| batches(move |sample| set(sample, "blocked_ns", ns));
    let row = |base, other| {
        let comparison = compared(&blocked(base), &blocked(other));
        let row = &group(&comparison, "batch", "blocked_ns").rows[0];
        (row.ratio, row.verdict)
    };
    assert_eq!(row(0.0, 40e3), (1.0, Verdict::Same));
    assert_eq!(row(0.0, 3e6), (3.0, Verdict::Worse));
    assert_eq!(row(3e6, 0.0), (1.0 / 3.0, Verdict::Better));
    let effects = |effect_ns| {
        let nature = Nature { effect_ns, ..nature("base", 10e6) };
        let mut bench = Bench::of("rule-rate", vec![nature], &[], 4);
        bench.execute();
        bench.store.samples.retain(|sample| sample.trial == "effect");
        bench
    };
    let at_once = effects(0);
    let resolution_ns = at_once.store.samples[0].metrics["effect_resolution_ns"].value;
    let later = compared(&at_once, &effects((resolution_ns / 2.0) as u64));
    all(&later, "effect", "effect_ns_p50", Verdict::Same);
    let late = compared(&at_once, &effects((resolution_ns * 9.0) as u64));
    all(&late, "effect", "effect_ns_p50", Verdict::Worse);
    assert!(group(&late, "effect", "effect_ns_p50").rows.iter().all(|row| row.ratio.is_finite()));
}

#[test]
fn a_run_cut_short_is_no_regression_of_what_both_devices_lack() {
    let lacks = || Nature { not_supported: vec!["frame_size"], ..nature("base", 10e6) };
    let base = executed(lacks(), &SMALL, 1);
    let mut other = Bench::new(vec![lacks()], &SMALL, 1);
    other.host.samples_max = 4;
    other.execute();
    let comparison = compared(&base, &other);
    assert!(comparison.missing.iter().any(|missing| missing.why == MissingReason::NotMeasured));
    assert!(comparison.lost(&side(&base), &side(&other)).is_empty(), "{:?}", comparison.missing);
}

/// The searches of the full grid at one place.
fn searched(nature: Nature) -> Bench {
    let mut bench = Bench::new(vec![Nature { noise: 0.0, ..nature }], &[], 1);
    let set = ["groups=0", "rules=1", "frame=64"].map(|text| text.parse().unwrap());
    let grid = GridName::Full;
    let overrides = Overrides { set: set.into(), repeats: Some(1), grid, ..Overrides::default() };
    let devices = bench.devices.iter().map(Simulated::described).collect();
    let spec = crate::experiments::spec("occupancy").unwrap();
    bench.run = resolve("x", &[spec], &overrides, devices).unwrap();
    bench.execute();
    bench
}

#[test]
fn a_searched_throughput_is_compared_goal_by_goal_by_its_bracket() {
    let base = searched(nature("base", 10e6));
    let goals = [
        ("mlrsearch", "ndr_conditional_pps"),
        ("mlrsearch", "pdr_conditional_pps"),
        ("rfc2544", "rfc_2544_conditional_pps"),
    ];
    let slow = searched(nature("base", 8e6));
    let limited = searched(Nature { generator_pps: 5e6, ..nature("base", 10e6) });
    for (trial, metric) in goals {
        all(&compared(&base, &base), trial, metric, Verdict::Same);
        all(&compared(&base, &slow), trial, metric, Verdict::Worse);
        all(&compared(&slow, &base), trial, metric, Verdict::Better);
        all(&compared(&base, &limited), trial, metric, LIMITED);
    }
    let worse = compared(&base, &slow);
    let row = &group(&worse, "mlrsearch", "ndr_conditional_pps").rows[0];
    let (low, high) = row.interval.unwrap();
    assert!(low < 0.8 && 0.8 < high && high - low < 0.03, "{row:?}");
    // Nothing without loss any more.
    let lossy = searched(Nature { loss_ratio: 0.001, ..nature("base", 10e6) });
    let comparison = compared(&base, &lossy);
    let lost = comparison.lost(&side(&base), &side(&lossy));
    let lost: Vec<&str> = lost.iter().filter_map(|it| it.metric.as_deref()).collect();
    assert_eq!(lost, ["ndr_conditional_pps", "rfc_2544_conditional_pps"]);
    // A goal that the other run did not search is no regression.
    let mut without = searched(nature("base", 10e6));
    for sample in &mut without.store.samples {
        sample.metrics.retain(|name, _| !name.starts_with("pdr_"));
    }
    assert!(compared(&base, &without).lost(&side(&base), &side(&without)).is_empty());
}

#[test]
fn devices_are_paired_by_name_or_where_each_run_has_one() {
    assert_eq!(pairs(&["soft"], &["linux:veth"]), [("soft", "linux:veth")]);
    assert_eq!(pairs(&["soft", "dpdk:a"], &["dpdk:a", "linux:veth"]), [("dpdk:a", "dpdk:a")]);
    assert!(pairs(&["soft", "dpdk:a"], &["linux:veth"]).is_empty());
}

#[test]
fn the_content_of_a_run_is_reported_by_axis() {
    let bench = executed(nature("base", 10e6), &SMALL, 1);
    let contents = contents(&side(&bench));
    let saturate = contents.iter().find(|line| line.starts_with("occupancy saturate: ")).unwrap();
    assert!(saturate.contains("rules=0,16") && saturate.contains("frame=64"), "{saturate}");
    assert_eq!(measured(&bench.run, &bench.store.samples), ["base"]);
    assert!(measured(&bench.run, &[]).is_empty());
}

#[test]
fn a_set_up_of_too_few_rules_for_a_rate_is_nothing_lost() {
    let set = ["groups=0", "rules=2000", "frame=64"];
    let base = executed(nature("one", 10e6), &set, 8);
    let mut other = executed(nature("one", 10e6), &set, 8);
    all(&compared(&base, &other), "setup", "rule_bytes_per_rule", Verdict::Same);
    for sample in other.store.samples.iter_mut().filter(|sample| sample.trial == "setup") {
        sample.metrics.remove("rule_bytes_per_rule");
    }
    let found = compared(&base, &other);
    assert_eq!(found.lost(&side(&base), &side(&other)), Vec::<&Missing>::new());
    for sample in other.store.samples.iter_mut().filter(|sample| sample.trial == "setup") {
        sample.metrics.get_mut("rules_refused").unwrap().value = 1_900.0;
    }
    let found = compared(&base, &other);
    let lost = found.lost(&side(&base), &side(&other));
    assert!(lost.iter().any(|missing| missing.trial == "setup"), "{lost:?}");
}
