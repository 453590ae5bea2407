//! Runs on simulated devices, whose every answer is known.

use std::collections::{BTreeMap, BTreeSet};

use niclab_load::{Load, Rate, TraceFrames};
use niclab_result::{Coordinate, Mark};

use super::*;
use crate::experiments;
use crate::experiments::occupancy::spec::Parts;
use crate::knee::SearchResult;
use crate::run::resolve;
use crate::runner::search::{CAPACITY, PLATEAU, PROBE, bracket, is_taken};
use crate::simulated::{ABSENT, Bench, Nature};
use crate::spec::{KneeKind, Overrides, Trace};

fn value(sample: &Sample, metric: &str) -> f64 {
    sample.metrics[metric].value
}

fn number(sample: &Sample, axis: &str) -> f64 {
    match &sample.point[axis] {
        Coordinate::Number(number) => *number,
        Coordinate::Word(word) => panic!("{axis} is {word}"),
    }
}

/// The key of a measurement.
fn key(sample: &Sample) -> String {
    format!("{} {} {} {:?}", sample.device, sample.trial, sample.repeat, sample.point)
}

#[test]
fn every_trial_is_measured_once_and_in_the_order_of_the_run() {
    let mut bench = Bench::new(vec![Nature::default()], &["groups=0,4", "rules=0,1k"], 3);
    assert_eq!(bench.execute(), RunEnd::Complete);
    let trials = bench.run.experiments[0].trials.len() * 3;
    let measured = bench.store.samples.iter().filter(|sample| sample.trial != SETUP);
    assert_eq!(measured.count(), trials);
    let orders: Vec<u64> = bench.store.samples.iter().map(|sample| sample.order).collect();
    assert_eq!(orders, (0..bench.store.samples.len() as u64).collect::<Vec<_>>());
    let times: Vec<u64> = bench.store.samples.iter().map(|sample| sample.time_unix_ns).collect();
    assert!(times.is_sorted());
    assert!((bench.host.done_ratio - 1.0).abs() < 1e-9, "{}", bench.host.done_ratio);
}

#[test]
fn throughput_and_loss_are_those_of_the_device() {
    let nature = Nature { noise: 0.0, loss_ratio: 0.01, ..Nature::default() };
    let mut bench = Bench::new(vec![nature], &["groups=0", "rules=1,65_536", "frame=64"], 1);
    bench.execute();
    for sample in bench.samples("saturate") {
        let able_pps = if number(sample, "rules") > 55_705.0 { 1e6 } else { 10e6 };
        let throughput_pps = value(sample, "throughput_pps");
        assert!((throughput_pps / able_pps - 0.99).abs() < 1e-3, "{throughput_pps}");
        assert!((value(sample, "loss_ratio") - 0.01).abs() < 1e-4);
        assert_eq!(sample.marks, []);
    }
}

#[test]
fn a_rate_that_hangs_on_the_maximum_is_resolved_and_stored() {
    let nature = Nature { noise: 0.0, ..Nature::default() };
    let mut bench = Bench::new(vec![nature], &["groups=0", "rules=1", "frame=64"], 2);
    bench.execute();
    for (trial, share) in [("latency", 0.6), ("light", 0.033333)] {
        let samples = bench.samples(trial);
        assert_eq!(samples.len(), 2);
        for sample in samples {
            let load: Load = serde_json::from_value(sample.load.clone()).unwrap();
            let Rate::Pps(pps) = load.rate else { panic!("{trial} is open loop") };
            assert!((pps / 10e6 - share).abs() < 1e-6, "{trial}: {pps}");
            let p50 = value(sample, "latency_ns_p50");
            assert!((p50 - 3_500.0).abs() <= 3.5, "idle, not queued, to three digits: {p50}");
        }
    }
    assert!(value(bench.samples("saturate")[0], "latency_ns_p50") > 100_000.0, "a full ring");
}

#[test]
fn a_trial_without_a_rate_names_the_failed_repeats_it_needs() {
    let set = ["groups=0", "rules=1", "frame=64"];
    let reasons = |nature: Nature| {
        let mut bench = Bench::new(vec![nature], &set, 2);
        bench.execute();
        let reason = |sample: &Sample| match &sample.outcome {
            Outcome::Failed { reason, .. } => Some(reason.clone()),
            _ => None,
        };
        bench.samples("latency").into_iter().filter_map(reason).collect::<Vec<String>>()
    };
    let share = "no throughput to take a share of: of the `saturate` trial of this point, ";
    // One of the five saturating trials of a repeat sets the rate.
    let interrupted = (1..=5).map(|at| Nature { interrupted: at..at + 1, ..Nature::default() });
    let first_failed: Vec<String> = interrupted.flat_map(reasons).collect();
    let reason = "repeat 1 of 2 failed: simulated was interrupted: the way broke";
    assert_eq!(first_failed, [format!("{share}{reason}")], "the second repeat has a rate");
    let none = "repeat 1 of 2 processed no frame";
    let nothing_came_back = reasons(Nature { loss_ratio: 1.0, ..Nature::default() });
    let both = format!("{none}; repeat 2 of 2 processed no frame");
    assert_eq!(nothing_came_back, [format!("{share}{none}"), format!("{share}{both}")]);
}

#[test]
fn all_repeats_of_a_point_have_the_rate_of_the_first_on_resume_too() {
    let nature = Nature { noise: 0.5, ..Nature::default() };
    let mut bench = Bench::new(vec![nature], &["groups=0", "rules=1", "frame=64"], 4);
    // The second repeat begins in the resumed part.
    bench.host.samples_max = bench.run.experiments[0].trials.len() + 1;
    assert_eq!(bench.execute(), RunEnd::Stopped);
    bench.host.samples_max = usize::MAX;
    bench.host.done_ratio = 0.0;
    assert_eq!(bench.execute(), RunEnd::Complete);
    let mut rates: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for sample in bench.samples("latency").into_iter().chain(bench.samples("light")) {
        let load: Load = serde_json::from_value(sample.load.clone()).unwrap();
        let Rate::Pps(pps) = load.rate else { panic!("{} is open loop", sample.trial) };
        let place = format!("{} {:?}", sample.trial, sample.point);
        rates.entry(place).or_default().push(pps.to_bits());
    }
    assert!(rates.len() >= 2);
    for (place, of) in rates {
        assert_eq!(of.len(), 4, "{place}");
        assert!(of.iter().all(|rate| *rate == of[0]), "{place}: {of:?}");
    }
}

#[test]
fn a_generator_that_is_too_slow_is_marked() {
    let nature = Nature { generator_pps: 5e6, stall_every: 2, ..Nature::default() };
    let mut bench = Bench::new(vec![nature], &["groups=0", "rules=1", "frame=64"], 2);
    bench.execute();
    let marks = |sample: &&Sample| sample.marks.contains(&Mark::GeneratorLimited);
    assert!(bench.samples("saturate").iter().all(marks));
    let disturbed = |sample: &&Sample| sample.marks.contains(&Mark::Disturbed);
    let measured = bench.store.samples.iter().filter(|sample| sample.trial != SETUP);
    let measured: Vec<&Sample> = measured.collect();
    assert_eq!(measured.iter().copied().filter(|s| disturbed(s)).count(), measured.len() / 2);
}

/// Stalls that begin in `stall_share` of the steps: what is shown, and what stands beside it.
fn check_stalls(stall_share: f64) {
    let nature = Nature { noise: 0.0, knee_rules: u64::MAX, stall_share, ..Nature::default() };
    let mut bench = Bench::new(vec![nature], &["groups=0", "rules=0,1,100", "frame=64"], 6);
    bench.execute();
    for (trial, true_pps) in [("saturate", 10e6), ("latency", 6e6)] {
        let samples = bench.samples(trial);
        assert!(samples.len() >= 18);
        let all = |sample: &&Sample| value(sample, "throughput_all_pps") / true_pps;
        let lowest = samples.iter().map(all).fold(1.0, f64::min);
        assert!(lowest < 0.98, "{stall_share} {trial}: {lowest} of the truth with all slices");
        for sample in samples {
            let shown = value(sample, "throughput_pps") / true_pps;
            assert!((shown - 1.0).abs() < 0.01, "{stall_share} {trial}: {shown} of the truth");
            assert!(!sample.marks.contains(&Mark::Disturbed));
            assert!(value(sample, "disturbed_ratio") < 0.8);
        }
    }
}

#[test]
fn stalls_of_the_machine_do_not_show_in_the_throughput() {
    check_stalls(0.000_5);
    check_stalls(0.001_5);
}

#[test]
fn a_device_without_rules_says_so_once_and_the_rest_is_measured() {
    let natures = vec![
        Nature { name: "ruleless", not_supported: vec!["rules"], ..Nature::default() },
        Nature::default(),
    ];
    let mut bench = Bench::new(natures, &["groups=0", "rules=0,1,100", "frame=64"], 2);
    assert_eq!(bench.execute(), RunEnd::Complete);
    let of: Vec<&Sample> =
        bench.store.samples.iter().filter(|sample| sample.device == "ruleless").collect();
    let refused: Vec<_> =
        of.iter().filter(|s| matches!(s.outcome, Outcome::NotSupported { .. })).collect();
    assert_eq!(refused.len(), 1);
    let rules = Outcome::NotSupported { capability: "rules".into() };
    assert_eq!(refused[0].outcome, rules);
    assert!(of.iter().filter(|s| s.outcome == Outcome::Measured).count() >= 6);
    assert_eq!(bench.devices[0].setups, 1, "it is not asked again");
}

#[test]
fn a_device_that_reports_late_that_it_has_no_rules_gets_no_more_rule_trials() {
    let natures = vec![Nature { not_supported: vec!["rules"], ..Nature::default() }];
    let mut bench = Bench::new(natures, &["groups=0,2", "rules=0,1,100", "frame=64"], 2);
    bench.run.devices[0].about.not_supported.clear();
    let specs = [experiments::spec("occupancy").unwrap()];
    let overrides = Overrides { repeats: Some(2), ..Default::default() };
    bench.run = resolve("x", &specs, &overrides, bench.run.devices.clone()).unwrap();
    assert_eq!(bench.execute(), RunEnd::Complete);
    let not_supported = |s: &&Sample| matches!(s.outcome, Outcome::NotSupported { .. });
    assert_eq!(bench.store.samples.iter().filter(not_supported).count(), 1);
    assert!(bench.store.samples.iter().any(|s| s.outcome == Outcome::Measured));
}

#[test]
fn a_device_without_latency_keeps_its_throughput() {
    let natures = vec![Nature { not_supported: vec!["latency"], ..Nature::default() }];
    let mut bench = Bench::new(natures, &["groups=0", "rules=1,2", "frame=64"], 2);
    bench.execute();
    assert_eq!(bench.samples("latency").len(), 1);
    assert_eq!(bench.samples("light").len(), 1);
    // Three sweeps of group 0 ask for 2 rules counts at 10 k flows, one for five flow counts.
    assert!(bench.samples("saturate").iter().all(|s| s.outcome == Outcome::Measured));
}

#[test]
fn a_device_that_breaks_is_recorded_and_the_others_go_on() {
    let natures = vec![
        Nature { name: "frail", trials_max: 3, ..Nature::default() },
        Nature { name: "sound", ..Nature::default() },
    ];
    let mut bench = Bench::new(natures, &["groups=0", "rules=0,1,100", "frame=64"], 2);
    assert_eq!(bench.execute(), RunEnd::Complete);
    let of = |name: &'static str| {
        bench.store.samples.iter().filter(move |s| s.device == name && s.trial != SETUP)
    };
    let outcomes: Vec<&Outcome> = of("frail").map(|sample| &sample.outcome).collect();
    assert_eq!(outcomes.len(), 4);
    let Outcome::Failed { reason, dropped: true } = outcomes[3] else { panic!("{outcomes:?}") };
    assert!(reason.contains("it went away"), "{reason}");
    assert_eq!(of("sound").count(), bench.run.experiments[0].trials.len() * 2);
    assert_eq!(bench.host.dropped, ["frail: frail failed: it went away"]);
}

#[test]
fn an_interrupted_trial_fails_alone_and_three_in_a_row_end_the_device() {
    let set = ["groups=0", "rules=0,1,100", "frame=64"];
    for (interrupted, failures) in [(2..3, 1), (2..4, 2), (2..5, 3), (2..9, 3)] {
        let nature = Nature { interrupted: interrupted.clone(), ..Nature::default() };
        let mut bench = Bench::new(vec![nature], &set, 2);
        bench.execute();
        let outcomes = bench.store.samples.iter().filter(|sample| sample.trial != SETUP);
        let outcomes: Vec<&Outcome> = outcomes.map(|sample| &sample.outcome).collect();
        let failed = outcomes.iter().filter(|of| matches!(of, Outcome::Failed { .. })).count();
        assert_eq!(failed, failures, "{interrupted:?}");
        let is_dropped =
            matches!(outcomes[outcomes.len() - 1], Outcome::Failed { dropped: true, .. });
        assert_eq!(is_dropped, failures == 3, "{interrupted:?}: {outcomes:?}");
        if failures < 3 {
            assert_eq!(outcomes.len(), bench.run.experiments[0].trials.len() * 2);
        }
    }
}

#[test]
fn a_run_that_measured_nothing_says_so_and_one_device_that_did_is_enough() {
    let set = ["groups=1", "rules=16", "frame=64"];
    let lacks = |what| Nature { not_supported: vec![what], ..Nature::default() };
    let broken = Nature { name: "broken", trials_max: 0, ..Nature::default() };
    for nature in [lacks("rules"), broken.clone()] {
        let mut bench = Bench::new(vec![nature], &set, 2);
        for _resumed in 0..2 {
            assert_eq!(bench.execute(), RunEnd::Nothing);
            bench.host.done_ratio = 0.0;
        }
    }
    let mut bench = Bench::new(vec![broken, Nature::default()], &set, 1);
    assert_eq!(bench.execute(), RunEnd::Complete);
    bench.host.done_ratio = 0.0;
    assert_eq!(bench.execute_without(1), RunEnd::Complete, "it was measured before");
    let mut bench = Bench::new(vec![Nature::default()], &set, 2);
    bench.host.samples_max = 0;
    assert_eq!(bench.execute(), RunEnd::Stopped);
}

#[test]
fn a_frame_size_that_is_not_supported_bars_no_other() {
    let nature = Nature { not_supported: vec!["frame_size"], ..Nature::default() };
    let mut bench = Bench::new(vec![nature], &["groups=0", "rules=0,1", "frame=64,1500"], 2);
    assert_eq!(bench.execute(), RunEnd::Complete);
    let of = |trial: &str, frame: f64, measured: bool| {
        let samples = bench.samples(trial);
        let of = samples.iter().filter(|s| number(s, "frame") == frame);
        of.filter(|s| (s.outcome == Outcome::Measured) == measured).count()
    };
    for trial in ["saturate", "latency", "light"] {
        let is_planned =
            |t: &&Trial| t.kind.name() == trial && t.point["frame"] == Coordinate::Number(64.0);
        let planned = bench.run.experiments[0].trials.iter().filter(is_planned).count();
        assert_eq!((of(trial, 64.0, true), of(trial, 64.0, false)), (2 * planned, 0), "{trial}");
        assert_eq!(of(trial, 1_500.0, true), 0, "{trial}");
    }
    assert_eq!(of("saturate", 1_500.0, false), 1, "it is asked once");
    assert_eq!(of("latency", 1_500.0, false), 0, "a share of a maximum that is not to be had");
}

#[test]
fn a_set_up_that_cannot_be_had_bars_its_own_trials_alone() {
    let nature = Nature { frame_len_max: 1_518, ..Nature::default() };
    let mut bench = Bench::new(vec![nature], &["groups=0", "rules=0", "frame=64,9000"], 3);
    assert_eq!(bench.execute(), RunEnd::Complete);
    let failed: Vec<&Sample> = bench
        .store
        .samples
        .iter()
        .filter(|sample| matches!(sample.outcome, Outcome::Failed { dropped: false, .. }))
        .collect();
    assert!(failed.iter().all(|s| s.trial == SETUP && number(s, "frame") == 9_000.0));
    let long = |trial: &&Trial| trial.point["frame"] == Coordinate::Number(9_000.0);
    let trials = &bench.run.experiments[0].trials;
    let setups: BTreeSet<usize> = trials.iter().filter(long).map(|trial| trial.setup).collect();
    assert_eq!(failed.len(), setups.len(), "each is tried once");
    let short = trials.iter().filter(|trial| !long(trial)).count();
    let measured = |s: &&Sample| s.trial != SETUP && s.outcome == Outcome::Measured;
    assert_eq!(bench.store.samples.iter().filter(measured).count(), 3 * short);
}

/// Two devices, of which the second was not there when the run was resolved and measured.
fn absent_at_first() -> Bench {
    let natures = vec![Nature::default(), Nature { name: "late", ..Nature::default() }];
    let mut bench = Bench::new(natures, &["frame=64"], 1);
    bench.run.devices[1].absent = Some(ABSENT.into());
    let specs = [experiments::spec("occupancy").unwrap()];
    let overrides = Overrides { repeats: Some(1), ..Default::default() };
    bench.run = resolve("x", &specs, &overrides, bench.run.devices.clone()).unwrap();
    assert_eq!(bench.execute_without(1), RunEnd::Complete);
    bench.host.done_ratio = 0.0;
    bench
}

#[test]
fn a_device_that_is_absent_is_one_failed_sample_however_often_the_run_is_resumed() {
    let mut bench = absent_at_first();
    let expected = [Outcome::Failed { reason: ABSENT.into(), dropped: true }];
    let outcomes = |bench: &Bench| -> Vec<Outcome> {
        let of = bench.store.samples.iter().filter(|s| s.device == "late");
        of.map(|s| s.outcome.clone()).collect()
    };
    assert_eq!(outcomes(&bench), expected);
    let stored = bench.store.samples.len();
    for _resumed in 0..2 {
        let opened = bench.run.devices.clone();
        assert!(!bench.run.rejoin(&opened));
        assert_eq!(bench.execute_without(1), RunEnd::Complete);
        bench.host.done_ratio = 0.0;
    }
    assert_eq!((outcomes(&bench).as_slice(), bench.store.samples.len()), (&expected[..], stored));
}

#[test]
fn a_device_that_was_absent_and_is_there_now_is_measured_whole() {
    let mut bench = absent_at_first();
    let before = bench.store.samples.clone();
    let opened: Vec<_> = bench.devices.iter().map(|device| device.described()).collect();
    assert!(bench.run.rejoin(&opened));
    assert_eq!(bench.execute(), RunEnd::Complete);
    assert_eq!(bench.store.samples[..before.len()], before[..]);
    let added = &bench.store.samples[before.len()..];
    assert!(added.iter().all(|sample| sample.device == "late"), "the other one had everything");
    let trial = |trial: &Trial| {
        added.iter().filter(|s| s.trial == trial.kind.name() && s.point == trial.point).count()
    };
    assert!(bench.run.experiments[0].trials.iter().all(|t| trial(t) == 1));
    let known = DeviceSamples::of(&bench.run.experiments[0], &bench.run.devices[1], added);
    let knees = &bench.run.experiments[0].knees;
    assert!(!knees.is_empty() && knees.iter().all(|knee| !search::is_missing(&known, knee)));
}

#[test]
fn a_device_that_goes_and_comes_back_says_so_once_and_is_measured_to_the_end() {
    let mut bench = Bench::new(vec![Nature::default()], &["groups=0", "rules=0,1"], 1);
    bench.host.samples_max = 4;
    assert_eq!(bench.execute(), RunEnd::Stopped);
    bench.host.samples_max = usize::MAX;
    for _resumed in 0..2 {
        bench.host.done_ratio = 0.0;
        assert_eq!(bench.execute_without(0), RunEnd::Complete);
        assert_eq!(bench.store.samples.len(), 5);
        let gone = Outcome::Failed { reason: ABSENT.into(), dropped: true };
        assert_eq!(bench.store.samples[4].outcome, gone, "with its reason");
    }
    bench.host.done_ratio = 0.0;
    assert_eq!(bench.execute(), RunEnd::Complete);
    let measured = bench.store.samples.iter().filter(|s| s.outcome == Outcome::Measured);
    let measured = measured.filter(|s| s.trial != SETUP).count();
    assert_eq!(measured, bench.run.experiments[0].trials.len());
}

#[test]
fn a_refused_rule_is_data_and_the_rest_is_measured() {
    let nature = Nature { capacity: 50, ..Nature::default() };
    let mut bench = Bench::new(vec![nature], &["groups=0", "rules=100", "frame=64"], 1);
    bench.execute();
    let setups = bench.samples(SETUP);
    assert_eq!(
        (value(setups[0], "rules_installed"), value(setups[0], "rules_refused")),
        (50.0, 50.0)
    );
    let trials = bench.samples("saturate");
    let Outcome::Refused { reason } = &trials[0].outcome else { panic!("{:?}", trials[0]) };
    assert_eq!(reason, "50 of 100 rules refused: group 0 is full");
    assert!(value(trials[0], "throughput_pps") > 9e6);
}

#[test]
fn a_run_cut_anywhere_and_resumed_measures_the_same() {
    let whole = {
        let mut bench = Bench::new(vec![Nature::default()], &["frame=64"], 1);
        bench.run.experiments[0].order.truncate(6);
        assert_eq!(bench.execute(), RunEnd::Complete);
        bench.store.samples
    };
    let keys = |samples: &[Sample]| samples.iter().map(key).collect::<Vec<_>>();
    // Not between two trials of one state: a resumed run brings the device into it again.
    for cut in [0, 1, 5, whole.len() / 2 + 1, whole.len() - 1] {
        let mut bench = Bench::new(vec![Nature::default()], &["frame=64"], 1);
        bench.run.experiments[0].order.truncate(6);
        bench.host.samples_max = cut;
        assert_eq!(bench.execute(), RunEnd::Stopped, "cut at {cut}");
        assert_eq!(bench.store.samples.len(), cut);
        bench.host.samples_max = usize::MAX;
        bench.host.done_ratio = 0.0;
        assert_eq!(bench.execute(), RunEnd::Complete);
        assert_eq!(keys(&bench.store.samples), keys(&whole), "cut at {cut}");
        let orders: Vec<u64> = bench.store.samples.iter().map(|s| s.order).collect();
        assert_eq!(orders, (0..whole.len() as u64).collect::<Vec<_>>());
        let again = bench.store.samples.len();
        bench.host.done_ratio = 0.0;
        assert_eq!(bench.execute(), RunEnd::Complete);
        assert_eq!(bench.store.samples.len(), again, "nothing is left to do");
    }
}

#[test]
fn failed_trials_are_repeated_on_resume() {
    let frail = Nature { trials_max: 2, ..Nature::default() };
    let mut bench = Bench::new(vec![frail], &["groups=0", "rules=0", "frame=64"], 1);
    bench.execute();
    assert!(bench.store.samples.iter().any(|s| matches!(s.outcome, Outcome::Failed { .. })));
    bench.devices[0].nature.trials_max = u32::MAX;
    bench.host.done_ratio = 0.0;
    assert_eq!(bench.execute(), RunEnd::Complete);
    let measured: BTreeSet<String> =
        bench.store.samples.iter().filter(|s| s.outcome == Outcome::Measured).map(key).collect();
    assert_eq!(measured.len(), bench.run.experiments[0].trials.len());
}

#[test]
fn a_budget_that_is_used_up_ends_the_run_after_whole_visits() {
    let mut bench = Bench::new(vec![Nature::default()], &["frame=64"], 4);
    bench.run.experiments[0].budget_s = Some(1);
    bench.run.experiments[0].estimate_s = 1.0;
    assert_eq!(bench.execute(), RunEnd::OutOfTime);
    let visits: usize = bench.run.experiments[0].order.iter().map(|v| v.trials.len()).sum();
    assert!(bench.store.samples.len() < visits);
    let last = bench.store.samples.last().unwrap();
    assert!(last.time_unix_ns < 1_800_000_004_000_000_000, "not much longer than asked");
}

/// The default knees on a device of this nature: capacity, then throughput.
fn knees(nature: Nature) -> (Bench, Vec<SearchResult>) {
    let mut bench = Bench::new(vec![nature], &["frame=64"], 1);
    bench.run.experiments[0].order.clear();
    assert_eq!(bench.execute(), RunEnd::Complete);
    let samples = bench.store.samples.clone();
    let found = bench.run.experiments[0].knees.iter().map(|knee| {
        bracket(knee, |rules| match knee.spec.kind {
            KneeKind::Capacity => samples
                .iter()
                .find(|s| s.trial == CAPACITY && number(s, "rules") == f64::from(rules))
                .and_then(|s| is_taken(&s.outcome)),
            KneeKind::Throughput => {
                let of = |trial: &str| {
                    let at = samples.iter().filter(|s| s.trial == trial);
                    at.filter(|s| number(s, "rules") == f64::from(rules))
                        .map(|s| value(s, "throughput_pps"))
                        .collect::<Vec<_>>()
                };
                match rules {
                    2 => Some(true),
                    _ => {
                        search::is_in_front(knee, of(PROBE).into_iter().zip(of(PLATEAU)).collect())
                    }
                }
            }
        })
    });
    let found = found.collect();
    (bench, found)
}

#[test]
fn knees_are_found_where_they_are() {
    for (capacity, knee_rules) in [(65_536, 55_705), (65_536, 1_234), (60_000, 7)] {
        let (bench, found) = knees(Nature { capacity, knee_rules, ..Nature::default() });
        let capacity = capacity as u32;
        assert_eq!(found[0], SearchResult::Bracket { low: capacity, high: capacity + 1 });
        let SearchResult::Bracket { low, high } = found[1] else { panic!("{found:?}") };
        assert!(u64::from(low) <= knee_rules && knee_rules < u64::from(high), "{low}..{high}");
        let (middle, width) = found[1].middle_and_width().unwrap();
        assert!(2.0 * width <= 0.05 * middle || high - low == 1, "{middle} +- {width}");
        assert!(bench.devices[0].setups < 120, "{} set-ups", bench.devices[0].setups);
    }
}

#[test]
fn knees_of_a_trace_are_searched_in_set_ups_that_take_its_frames() {
    let mut bench = Bench::new(vec![Nature::default()], &[], 1);
    let specs = [experiments::spec("occupancy").unwrap()];
    let frames = TraceFrames { frames: 9, flows: 3, frame_len_max: 4_000, ..Default::default() };
    let trace = Some(Trace { path: "a.pcap".into(), frames });
    let overrides = Overrides { trace, repeats: Some(1), ..Default::default() };
    bench.run = resolve("x", &specs, &overrides, bench.run.devices.clone()).unwrap();
    bench.run.experiments[0].order.clear();
    assert_eq!(bench.execute(), RunEnd::Complete);
    assert!(!bench.samples(PROBE).is_empty() && !bench.samples(CAPACITY).is_empty());
    assert_eq!(bench.devices[0].frame_len_max, 4_000);
    assert!(bench.samples(PROBE).iter().all(|sample| number(sample, "flows") == 3.0));
}

#[test]
fn the_traffic_of_a_knee_of_hits_has_a_flow_for_each_rule() {
    let mut bench = Bench::new(vec![Nature::default()], &[], 1);
    let mut spec = experiments::spec("occupancy").unwrap();
    let knees = spec.full.of::<Parts>().knee.clone();
    spec.reduced.of_mut::<Parts>().knee = knees;
    spec.reduced.of_mut::<Parts>().knee.retain(|knee| knee.match_percent > 0);
    let overrides = Overrides { repeats: Some(1), ..Default::default() };
    bench.run = resolve("x", &[spec.clone()], &overrides, bench.run.devices.clone()).unwrap();
    bench.run.experiments[0].order.clear();
    assert_eq!(bench.execute(), RunEnd::Complete);
    let flows = |sample: &Sample| sample.load["flows"]["count"].as_u64().unwrap() as f64;
    assert!(bench.samples(PROBE).len() > 10);
    for sample in bench.samples(PROBE) {
        assert_eq!((number(sample, "match_percent"), number(sample, "frame")), (100.0, 64.0));
        assert_eq!(flows(sample), number(sample, "rules") - 1.0, "less the default rule");
    }
    let low = spec.reduced.of::<Parts>().knee[0].rules_min;
    assert!(bench.samples(PLATEAU).iter().all(|sample| flows(sample) == f64::from(low - 1)));
    spec.reduced.of_mut::<Parts>().knee[0].match_percent = 101;
    let refused = resolve("x", &[spec], &overrides, bench.run.devices.clone()).unwrap_err();
    assert!(refused.to_string().contains("match_percent = 101: use 0 to 100"), "{refused}");
}

#[test]
fn no_knee_is_found_if_there_is_none() {
    let nature =
        Nature { capacity: 10_000_000, knee_rules: u64::MAX, noise: 0.1, ..Nature::default() };
    let (bench, found) = knees(nature);
    assert_eq!(found, [SearchResult::None { high: 131_072 }, SearchResult::None { high: 65_536 }]);
    assert!(bench.devices[0].setups < 10);
}

#[test]
fn a_search_that_was_cut_short_is_resumed_without_asking_twice() {
    let (whole, _) = knees(Nature::default());
    let mut bench = Bench::new(vec![Nature::default()], &["frame=64"], 1);
    bench.run.experiments[0].order.clear();
    bench.host.samples_max = 30;
    assert_eq!(bench.execute(), RunEnd::Stopped);
    bench.host.samples_max = usize::MAX;
    bench.host.done_ratio = 0.0;
    assert_eq!(bench.execute(), RunEnd::Complete);
    assert_eq!(bench.store.samples.len(), whole.store.samples.len());
}
