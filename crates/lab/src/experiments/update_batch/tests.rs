//! Batches on a simulated device with known behaviour, and the findings from them.

use niclab_device::{Action, CallMode, Plan, RuleBlock, RuleChangeKind, RuleWork, Stack};
use niclab_result::{Mark, Origin, Summary};

use super::metrics::{BATCH, REST};
use super::spec::BatchSweep;
use super::trials::places;
use crate::place::RULES_MAX;
use crate::rule_matches::{NEW, OLD};
use crate::run::PlannedRate;
use crate::simulated::{Bench, Nature, cell_of as cell};
use crate::spec::{Trace, TrialKind};
use crate::summary::summarize;
use crate::values::Values;

/// Six repeats of batches of 20,000 rules at 1 us each: 20 ms.
fn measured(set: &[&str]) -> (Bench, Summary) {
    let fixed = ["work=create", "batch=20k", "before_ms=50", "after_ms=150", "duration_ms=50"];
    let nature = Nature { noise: 0.0, ..Nature::default() };
    let mut bench = Bench::of("update-batch", vec![nature], &[&fixed, set].concat(), 6);
    bench.execute();
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    (bench, summary)
}

#[test]
fn each_batch_stands_beside_the_same_load_without_it() {
    let set = ["group=0,1", "core=same,distinct", "calls=queue", "slice=all,32", "frame=64,1500"];
    let (bench, _) = measured(&set);
    let run = &bench.run.experiments[0];
    let of = |kind| run.trials.iter().filter(move |trial| trial.kind == kind);
    assert_eq!(of(BATCH).count(), 16);
    assert_eq!(of(TrialKind::SATURATE).count(), 4, "a maximum a group and frame size");
    // The second grid of the reduced run has another length until it is set.
    assert_eq!(of(REST).count(), 4);
    assert_eq!(run.plans.len(), 8);
    for trial in of(BATCH).chain(of(REST)) {
        let PlannedRate::ShareOf { of, share } = trial.rate else { panic!("{trial:?}") };
        assert_eq!((run.trials[of].kind, share), (TrialKind::SATURATE, 0.5));
        assert_eq!(run.loads[trial.load().unwrap()].duration_ns, 200_000_000);
        assert_eq!(trial.plan().is_some(), trial.kind == BATCH);
    }
    for plan in &run.plans {
        let Plan::Rules(plan) = plan else { panic!("a plan that rests") };
        assert_eq!((plan.start_ns, plan.calls), (50_000_000, CallMode::Queue));
        let RuleWork::Create(RuleBlock::FiveTuples { count, first, .. }) = &plan.work else {
            panic!("{plan:?}")
        };
        assert_eq!((*count, *first), (20_000, 0));
    }
}

#[test]
fn a_device_that_is_dead_for_a_known_time_is_found_dead_for_it() {
    let (bench, summary) =
        measured(&["group=0", "core=same,distinct", "calls=single,transaction", "slice=all,32"]);
    let table = &summary.experiments[0].tables[0];
    let row = |core: &str, calls: &str, slice: &str| {
        let is = |row: &usize| {
            [("core", core), ("calls", calls), ("slice", slice)]
                .iter()
                .all(|(column, word)| cell(table, *row, column) == *word)
        };
        (0..table.rows.len()).find(is).unwrap()
    };
    let at = row("same", "single", "all");
    assert_eq!(cell(table, at, "outage"), "20.0 ms (20.0 ms to 20.0 ms)");
    assert_eq!(cell(table, at, "blocked"), "20.0 ms (20.0 ms to 20.0 ms)");
    assert_eq!(cell(table, at, "took"), "20.0 ms (20.0 ms to 20.0 ms)");
    assert_eq!(cell(table, at, "time bins at zero"), "12", "two in each of six repeats");
    assert_eq!(cell(table, at, "recovered after"), "20.0 ms");
    assert_eq!(cell(table, at, "against rest"), "0.900 (0.900 to 0.900)");
    assert_eq!(cell(table, at, "call p50"), "1.00 us");
    for (core, calls) in [("same", "single"), ("distinct", "single"), ("distinct", "transaction")] {
        let at = row(core, calls, "32");
        assert_eq!(cell(table, at, "outage"), "0 ns (0 ns to 0 ns)", "{core} {calls}");
        assert_eq!(cell(table, at, "against rest"), "1.00 (1.00 to 1.00)", "{core} {calls}");
    }
    let value = |id: &str| {
        let id = format!("simulated-{id}-group0");
        summary.findings.iter().find(|finding| finding.id == id).unwrap().value.value
    };
    let near = |found: f64, known: f64| (found / known - 1.0).abs() < 0.01;
    assert!(near(value("batch-at-once"), 20e6), "{:?}", summary.findings);
    assert!(near(value("batch-sliced"), 100.0) && near(value("batch-distinct"), 100.0));
    assert!(near(value("transaction"), 50.0), "{:?}", summary.findings);
    let figure = &summary.experiments[0].figures[0];
    let ours: Vec<_> =
        figure.series.iter().filter(|series| series.origin != Origin::Published).collect();
    assert_eq!(ours.len(), 2, "at once, and in slices");
    assert_eq!(figure.series.len(), 2, "published curves are of seconds");
    assert!(!figure.caption.contains("Published"), "{}", figure.caption);
    let dead = ours[0].points.iter().filter(|point| point.y == 0.0).map(|point| point.x);
    assert_eq!(dead.collect::<Vec<_>>(), [0.005, 0.015]);
    assert_eq!(bench.samples("batch").len(), 6 * 8);
}

#[test]
fn a_batch_that_was_refused_in_part_is_no_finding_and_the_largest_whole_one_is() {
    let nature = Nature { noise: 0.0, capacity: 15_000, ..Nature::default() };
    let set = ["work=create", "group=0", "core=same", "calls=single", "slice=all"];
    let times = ["before_ms=50", "after_ms=150", "duration_ms=50"];
    let mut bench = Bench::of(
        "update-batch",
        vec![nature],
        &[&set[..], &times, &["batch=10k,20k"]].concat(),
        6,
    );
    bench.execute();
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    let found = summary.findings.iter().find(|found| found.id == "simulated-batch-at-once-group0");
    let sentence = &found.unwrap().sentence;
    assert!(sentence.contains(" of traffic while 10,000 rules are created"), "{sentence}");
}

#[test]
fn prefixes_of_which_nobody_counted_the_packets_are_no_finding() {
    let set = ["work=failover", "group=1", "core=same", "slice=32", "calls=single"];
    let (mut bench, _) = measured(&set);
    for sample in &mut bench.store.samples {
        sample.metrics.retain(|name, _| !name.starts_with("met_"));
    }
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    assert_eq!(summary.findings, []);
    assert_eq!(cell(&summary.experiments[0].tables[0], 0, "matched no rule"), "-");
}

#[test]
fn the_cost_of_smaller_batches_is_compared_with_the_largest() {
    let fixed = ["group=0", "core=same", "calls=single", "slice=all"];
    let (_, summary) = measured(&[&fixed[..], &["batch=10k,20k,2k"]].concat());
    let found = summary.findings.iter().find(|found| found.id == "simulated-batch-at-once-group0");
    let sentence = &found.unwrap().sentence;
    let message = "loses 20.0 ms of traffic (2.00 ms with 2,000 rules, 10.0 ms with 10,000 rules)";
    assert!(sentence.contains(message), "{sentence}");
}

#[test]
fn prefixes_that_are_re_pointed_are_met_by_the_traffic_and_told_by_how_long_it_takes() {
    let set = ["work=failover", "group=1", "core=same,distinct", "slice=32", "calls=single"];
    let (bench, summary) = measured(&set);
    let run = &bench.run.experiments[0];
    let trial = run.trials.iter().find(|trial| trial.kind == BATCH).unwrap();
    let setup = &run.setups[trial.setup];
    let Some(RuleBlock::Stack { stack: Stack::Ipv4Prefix, count: 20_000, actions, .. }) =
        setup.rules.get(1)
    else {
        panic!("{setup:?}")
    };
    assert_eq!((setup.queues, actions.as_slice()), (3, &[Action::Queue(OLD)][..]));
    let Plan::Rules(plan) = &run.plans[trial.plan().unwrap()] else { panic!("no plan") };
    let change = RuleChangeKind::Actions(vec![Action::Queue(NEW)]);
    assert_eq!(plan.work, RuleWork::Change { block: 1, change });
    let load = &run.loads[trial.load().unwrap()];
    assert_eq!(load.flows.dst, Some(niclab_device::prefixes_range(20_000)));
    let table = &summary.experiments[0].tables[0];
    assert_eq!(
        (cell(table, 0, "work").as_str(), &*cell(table, 0, "matched no rule")),
        ("failover", "0")
    );
    assert_eq!(cell(table, 0, "took"), "20.0 ms (20.0 ms to 20.0 ms)");
    assert_eq!(cell(table, 0, "against rest"), "1.00 (1.00 to 1.00)");
    for id in ["failover-sliced", "failover-distinct"] {
        let id = format!("simulated-{id}-group1");
        let found = summary.findings.iter().find(|finding| finding.id == id).unwrap();
        assert_eq!(found.value.value, 20e6);
        assert!(found.sentence.contains("20,000 IPv4 prefixes in group 1"), "{found:?}");
    }
    assert!(summary.findings.iter().all(|found| !found.id.contains("batch-")), "nothing is new");
}

#[test]
fn published_curves_stand_beside_trials_of_seconds() {
    let (_, summary) =
        measured(&["group=0", "core=same", "calls=single", "slice=all", "after_ms=2000"]);
    let figure = &summary.experiments[0].figures[0];
    assert_eq!(figure.series.iter().filter(|series| series.origin == Origin::Published).count(), 4);
    assert!(figure.caption.ends_with("PAM 2021, figure 3."), "{}", figure.caption);
}

/// What is implied of a batch at once, in slices, by another core and as a transaction, where this
/// metric of their trials is changed, by so much in each repeat.
fn implied(metric: &str, change: impl Fn(f64, f64) -> f64, by: [f64; 6]) -> [Option<String>; 4] {
    let set = ["group=0", "core=same,distinct", "calls=single,transaction", "slice=all,32"];
    let (mut bench, _) = measured(&set);
    for sample in bench.store.samples.iter_mut().filter(|sample| sample.trial == "batch") {
        let is_single = sample.point["calls"].to_string() == "single";
        if is_single == (metric == "control_ns_per_operation") {
            continue;
        }
        let value = sample.metrics.get_mut(metric);
        value.into_iter().for_each(|it| it.value = change(it.value, by[sample.repeat as usize]));
    }
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    ["batch-at-once", "batch-sliced", "batch-distinct", "transaction"].map(|id| {
        let id = format!("simulated-{id}-group0");
        let found = summary.findings.iter().find(|finding| finding.id == id);
        found.map(|finding| finding.implication.clone())
    })
}

#[test]
fn the_implication_of_a_batch_depends_on_its_figures() {
    let scaled = |value: f64, by: f64| value * by;
    let transaction = |by| implied("control_ns_per_operation", scaled, by)[3].clone();
    let price = "This is the cost of an atomic change: no packet matches half of it.";
    assert_eq!(transaction([1.0; 6]).unwrap(), price);
    let nothing = "An atomic change costs nothing.";
    assert_eq!(transaction([0.4; 6]).unwrap(), nothing);
    let hardly = "An atomic change costs almost nothing.";
    assert_eq!(transaction([1.0 / 1.5; 6]).unwrap(), hardly);
    assert_eq!(transaction([0.4, 1.0, 0.5, 0.8, 0.6, 1.2]), None);
    let at_once = |by| implied("blocked_ns", scaled, by)[0].clone().unwrap();
    assert_eq!(at_once([1.0; 6]), "A batch at once blocks the packets of its core.");
    let over = "A batch of this size ends before the ring is full.";
    assert_eq!(at_once([0.0; 6]), over);
    let undecided = implied("blocked_ns", scaled, [0.0, 1.0, 1.0, 0.0, 1.0, 1.0]);
    assert_eq!(undecided[0], None, "it may block packets or not");
    let left = |by| implied("dealt_ratio", scaled, by);
    let [_, sliced, distinct, _] = left([1.0; 6]).map(Option::unwrap);
    assert_eq!(sliced, "Rules can be created at this rate without losing frames.");
    assert_eq!(
        distinct,
        "Creating rules on another core does not slow down forwarding at this rate."
    );
    // No window lost one, yet less was dealt with: nobody claims that nothing was lost.
    let [_, sliced, distinct, _] = left([0.8; 6]).map(Option::unwrap);
    assert_eq!(sliced, "Creating rules between bursts loses frames at this rate.");
    assert_eq!(distinct, "Creating rules on another core loses frames at this rate.");
    let undecided = left([0.8, 1.1, 0.9, 1.0, 0.95, 1.05]);
    assert_eq!([&undecided[1], &undecided[2]], [&None, &None], "they may cost frames or not");
    let losing = |value: f64, by: f64| value + by;
    let [_, sliced, ..] = implied("losing_windows", losing, [1.0; 6]).map(Option::unwrap);
    assert_eq!(sliced, "Rules can be created at this rate with almost no loss.");
}

#[test]
fn a_generator_that_a_stall_kept_from_sending_takes_no_batch_away() {
    let nature = Nature { noise: 0.0, away_ms: 20, ..Nature::default() };
    let set = ["work=create", "batch=20k", "group=0", "core=same", "calls=single", "slice=all"];
    let times = ["before_ms=50", "after_ms=150", "duration_ms=50"];
    let mut bench = Bench::of("update-batch", vec![nature], &[&set[..], &times].concat(), 6);
    bench.execute();
    for sample in bench.samples("batch") {
        let unsent = sample.metrics["unsent_frames"].value / sample.metrics["planned_frames"].value;
        assert!(unsent > 0.09 && sample.marks.is_empty(), "{:?}", sample.marks);
        assert_eq!(sample.metrics["blocked_ns"].value, 20e6);
    }
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    let found = summary.findings.iter().find(|found| found.id == "simulated-batch-at-once-group0");
    assert_eq!(found.unwrap().value.value, 20e6);
}

#[test]
fn a_batch_that_is_too_large_for_its_trial_leaves_the_word_to_a_smaller_one_that_blocks() {
    let fixed = ["group=1", "core=same", "calls=single", "slice=all,32"];
    let (_, summary) = measured(&[&fixed[..], &["batch=20k,1M"]].concat());
    let ids: Vec<&str> = summary.findings.iter().map(|found| found.id.as_str()).collect();
    assert_eq!(ids, ["simulated-batch-at-once-group1"], "no good news of slices");
    let sentence = &summary.findings[0].sentence;
    assert!(sentence.contains(" of traffic while 20,000 rules are created"), "{sentence}");
}

#[test]
fn one_repeat_of_six_may_end_low() {
    let set = ["group=0", "core=same", "calls=single", "slice=all"];
    let count = |low: u32| {
        let (mut bench, _) = measured(&set);
        for sample in bench.store.samples.iter_mut().filter(|sample| sample.repeat < low) {
            sample.metrics.remove("recovered_ns");
        }
        summarize(&bench.run, &bench.store.samples, &bench.store.latencies).findings.len()
    };
    assert_eq!([0, 1, 2].map(count), [1, 1, 0]);
}

#[test]
fn two_repeats_give_no_finding() {
    let set = ["group=0", "core=same,distinct", "calls=single", "slice=32"];
    let (mut bench, _) = measured(&set);
    for sample in bench.store.samples.iter_mut().filter(|sample| sample.repeat > 1) {
        sample.metrics.remove("dealt_ratio");
    }
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    assert_eq!(summary.findings, []);
}

#[test]
fn overlapping_sweeps_measure_the_one_with_the_longest_time() {
    let of = |set: &[&str]| {
        let bench = Bench::of("update-batch", vec![Nature::default()], set, 1);
        let run = &bench.run.experiments[0];
        let times = |kind| {
            let of = run.trials.iter().filter(move |trial| trial.kind == kind);
            of.map(|trial| run.loads[trial.load().unwrap()].duration_ns / 1_000_000).collect()
        };
        let both: [Vec<u64>; 2] = [BATCH, REST].map(times);
        both
    };
    let set = ["work=create", "batch=100k", "group=1", "core=same", "calls=single", "slice=all"];
    assert_eq!(of(&set), [vec![400], vec![400]], "50 ms in front, 350 ms from it on");
}

#[test]
fn prefixes_alone_are_refused_where_a_trace_is_sent() {
    let frames = niclab_load::TraceFrames {
        frames: 1,
        flows: 1,
        frame_len_min: 64,
        frame_len_max: 64,
        ..Default::default()
    };
    let trace = Some(Trace { path: "a.pcap".into(), frames });
    let overrides = crate::spec::Overrides {
        trace,
        set: vec!["work=failover".parse().unwrap()],
        ..Default::default()
    };
    let spec = crate::experiments::spec("update-batch").unwrap();
    let devices = Bench::of("update-batch", vec![Nature::default()], &[], 1).run.devices;
    let error = crate::run::resolve("x", &[spec], &overrides, devices).unwrap_err().to_string();
    assert!(
        error.starts_with("update-batch: work = failover: the frames of a trace meet no prefixes"),
        "{error}"
    );
}

#[test]
fn an_incomplete_trial_is_no_finding() {
    let (_, summary) = measured(&["group=0", "core=same", "calls=single", "slice=all", "batch=1M"]);
    assert_eq!(summary.findings, [], "{:?}", summary.findings);
    let table = &summary.experiments[0].tables[0];
    assert_eq!(cell(table, 0, "recovered after"), "not recovered after 150 ms");
    assert_eq!(cell(table, 0, "took"), "not done");
}

#[test]
fn values_out_of_range_are_refused_with_what_would_be_right() {
    let sweep = crate::experiments::spec("update-batch")
        .unwrap()
        .reduced
        .of::<crate::experiments::update_batch::spec::Parts>()
        .batch[0]
        .clone();
    let refused = |change: fn(&mut BatchSweep), reason: &str| {
        let mut sweep = sweep.clone();
        change(&mut sweep);
        let error = places(&sweep, None).unwrap_err().to_string();
        assert_eq!(error, reason);
    };
    refused(|s| s.work = Values::number(2), "work = 2: use one of create, failover");
    refused(|s| s.group = Values::number(2), "group = 2: use 0 to 1");
    refused(|s| s.batch = Values::number(0), &format!("batch = 0: use 1 to {RULES_MAX}"));
    refused(|s| s.core = Values::parse("sam").unwrap(), "core = sam: use one of same, distinct");
    refused(|s| s.calls = Values::number(1), "calls = 1: use one of single, queue, transaction");
    refused(|s| s.slice = Values::number(0), "slice = 0: give a number from 1, or all");
    refused(
        |s| {
            s.work = Values::parse("create,failover").unwrap();
            s.batch = Values::number(3_000_000);
        },
        "batch = 3000000: use 1 to 2883584",
    );
    assert_eq!(places(&sweep, None).unwrap().len(), 2 * 2 * 2 * 2);
}

#[test]
fn windows_carry_the_marks_that_a_warning_counts() {
    let set = ["group=0", "core=same", "calls=single", "slice=all,32"];
    let (mut bench, _) = measured(&set);
    let of_batches = |sample: &&mut niclab_result::Sample| sample.trial == "batch";
    for sample in bench.store.samples.iter_mut().filter(of_batches) {
        sample.marks = vec![Mark::Disturbed];
    }
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    let warned = |of: &String| of.contains(" batch points were disturbed: the machine stalled");
    assert!(summary.warnings.iter().any(warned), "{:?}", summary.warnings);
    let figure = &summary.experiments[0].figures[0];
    let points: Vec<_> = figure.series.iter().flat_map(|series| &series.points).collect();
    assert!(!points.is_empty());
    assert!(points.iter().all(|point| point.marks.contains(&Mark::Disturbed)), "{points:?}");
}
