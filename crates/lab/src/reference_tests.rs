//! Reference trials of simulated machines, whose drift is known.

use niclab_result::Summary;

use super::*;
use crate::simulated::{Bench, Nature};
use crate::summary::summarize;

const SECOND_NS: u64 = 1_000_000_000;

/// A machine that does not change, or is slower by up to a share now and then.
fn machine(tide: f64) -> Nature {
    Nature { noise: 0.0, tide, ..Nature::default() }
}

/// A run of more than a minute on a device, with reference trials on a machine of its own.
fn executed(reference: Option<Nature>, repeats: u32) -> Bench {
    let set = ["groups=0", "rules=0,16", "frame=64", "duration_ms=1000"];
    let mut bench = Bench::new(vec![machine(0.0)], &set, repeats);
    bench.host.set_reference(reference);
    bench.execute();
    bench
}

fn trials(bench: &Bench) -> Vec<&Sample> {
    bench.samples(REFERENCE)
}

fn summary(bench: &Bench) -> Summary {
    summarize(&bench.run, &bench.store.samples, &bench.store.latencies)
}

#[test]
fn trials_begin_and_end_a_run_and_are_twenty_seconds_apart_within_it() {
    let bench = executed(Some(machine(0.0)), 4);
    let all = &bench.store.samples;
    let (first, last) = (&all[0], all.last().unwrap());
    assert_eq!([first, last].map(|sample| sample.trial.as_str()), [REFERENCE; 2]);
    let times: Vec<u64> = trials(&bench).iter().map(|sample| sample.time_unix_ns).collect();
    let run_s = (last.time_unix_ns - first.time_unix_ns) / SECOND_NS;
    assert!(run_s > 60 && times.len() as u64 >= run_s / 25, "{} in {run_s} s", times.len());
    let gaps: Vec<u64> = times.windows(2).map(|pair| (pair[1] - pair[0]) / SECOND_NS).collect();
    let (_, before_end) = gaps.split_last().unwrap();
    // The trials of a set-up, a second each, may be under way.
    assert!(before_end.iter().all(|gap| (20..28).contains(gap)), "{gaps:?}");
    let repeats: Vec<u32> = trials(&bench).iter().map(|sample| sample.repeat).collect();
    assert!(repeats.iter().copied().eq(0..times.len() as u32), "{repeats:?}");
    let orders: Vec<u64> = all.iter().map(|sample| sample.order).collect();
    assert!(orders.iter().copied().eq(0..all.len() as u64), "{orders:?}");
}

#[test]
fn reference_trials_take_less_than_a_fiftieth_of_a_run() {
    let bench = executed(Some(machine(0.0)), 4);
    let (first, last) = (&bench.store.samples[0], bench.store.samples.last().unwrap());
    let run_ns = last.time_unix_ns - first.time_unix_ns;
    let trial_ns = DURATION_NS + WARMUP_NS;
    assert!(trials(&bench).len() as u64 * trial_ns * 50 < run_ns);
    // The shortest run that has any: one at each end.
    assert!(2.0 * trial_ns as f64 * 50.0 < RUN_S_MIN * SECOND_NS as f64);
}

#[test]
fn a_machine_that_does_not_change_marks_nothing_and_no_finding_uses_it() {
    let (with, without) = (executed(Some(machine(0.0)), 4), executed(None, 4));
    assert!(trials(&without).is_empty());
    let (with, without) = (summary(&with), summary(&without));
    let reference = with.reference.as_ref().unwrap();
    assert!((reference.smallest, reference.largest) == (reference.median, reference.median));
    assert!((reference.median / 10e6 - 1.0).abs() < 1e-3, "{}", reference.median);
    assert_eq!(without.reference, None);
    assert_eq!(with.findings, without.findings);
    assert_eq!((with.experiments, with.warnings), (without.experiments, without.warnings));
}

#[test]
fn points_beside_a_trial_beyond_the_limit_are_marked_and_others_are_not() {
    let mut bench = executed(Some(machine(0.0)), 4);
    let place = |at: usize| bench.samples(REFERENCE)[at].time_unix_ns;
    let (second, third, fourth) = (place(1), place(2), place(3));
    let slow = |sample: &&mut Sample| sample.trial == REFERENCE && sample.time_unix_ns == third;
    let slow = bench.store.samples.iter_mut().find(slow).unwrap();
    slow.metrics.get_mut(METRIC).unwrap().value *= 0.8;
    let reference = super::summary(&bench.store.samples).unwrap();
    assert!((reference.smallest / reference.median - 0.8).abs() < 1e-6, "{reference:?}");
    let marked = marked(&bench.run, &bench.store.samples, Some(&reference));
    for sample in marked.iter() {
        let is_beside = (second..fourth).contains(&sample.time_unix_ns) && !is_reference(sample);
        assert_eq!(sample.marks.contains(&Mark::MachineDrift), is_beside, "{sample:?}");
    }
    let summary = summary(&bench);
    let warning = "were measured while the machine had another speed";
    assert!(summary.warnings.iter().any(|text| text.contains(warning)), "{:?}", summary.warnings);
    // A model is computed: nothing of it depends on the machine.
    bench.run.devices[0].about.in_virtual_time = true;
    let marked = super::marked(&bench.run, &bench.store.samples, Some(&reference));
    assert!(marked.iter().all(|sample| !sample.marks.contains(&Mark::MachineDrift)));
}

#[test]
fn slow_drift_of_the_machine_is_reported_in_percent() {
    let reference = summary(&executed(Some(machine(0.5)), 6)).reference.unwrap();
    assert!(reference.smallest < 0.9 * reference.median, "{reference:?}");
    assert!(reference.smallest >= 0.5 * 10e6 && reference.largest <= 10e6, "{reference:?}");
}

#[test]
fn disturbed_trials_are_counted_and_say_nothing() {
    let mut bench = executed(Some(machine(0.0)), 2);
    let reference = |samples: &[Sample]| super::summary(samples);
    let before = reference(&bench.store.samples).unwrap();
    let first = bench.store.samples.iter_mut().find(|sample| is_reference(sample)).unwrap();
    first.marks = vec![Mark::Disturbed];
    first.metrics.get_mut(METRIC).unwrap().value *= 0.1;
    let after = reference(&bench.store.samples).unwrap();
    assert_eq!((after.trials.len(), after.disturbed), (before.trials.len() - 1, 1));
    assert_eq!((after.smallest, after.largest), (before.smallest, before.largest));
    let alone = bench.store.samples.iter().find(|sample| is_reference(sample)).cloned().unwrap();
    assert_eq!(reference(&[alone]), None);
}

#[test]
fn a_run_that_goes_on_counts_its_trials_on_and_a_finished_one_makes_none() {
    let mut bench = executed(Some(machine(0.0)), 2);
    let whole = bench.store.samples.clone();
    bench.host.done_ratio = 0.0;
    bench.execute();
    assert_eq!(bench.store.samples, whole, "nothing was left to measure");
    bench.store.samples.truncate(whole.len() / 2);
    let made = trials(&bench).len() as u32;
    bench.host.done_ratio = 0.0;
    bench.execute();
    let repeats: Vec<u32> = trials(&bench).iter().map(|sample| sample.repeat).collect();
    assert!(repeats.len() as u32 > made && repeats.iter().copied().eq(0..repeats.len() as u32));
}

#[test]
fn runs_that_are_short_computed_or_in_pairs_have_no_reference_trials() {
    let set = ["groups=0", "rules=0", "frame=64", "duration_ms=1000"];
    let run = |repeats| Bench::new(vec![machine(0.0)], &set, repeats).run;
    assert!(is_worth(&run(100)) && !is_worth(&run(1)));
    let mut computed = run(100);
    computed.devices[0].about.in_virtual_time = true;
    assert!(!is_worth(&computed));
    let mut paired = run(100);
    paired.variants.list.push("a=true".parse().unwrap());
    assert!(!is_worth(&paired));
}
