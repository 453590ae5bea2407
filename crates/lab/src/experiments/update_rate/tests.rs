//! Rule churn on a simulated device with known behaviour, and the findings from it.

use niclab_device::{OPERATIONS_PER_S_MAX, RuleBlock};
use niclab_result::{Coordinate, Finding, Origin, Point, Summary};

use super::spec::RuleChurnSweep;
use super::trials::{enough, places};
use crate::place::RULES_MAX;
use crate::run::PlannedRate;
use crate::simulated::{Bench, Nature, cell_at, cell_of as cell};
use crate::spec::TrialKind;
use crate::summary::summarize;
use crate::values::Values;

/// Six repeats; an operation takes 1 us, so that 100,000 a second take a tenth of the core.
fn measured(set: &[&str]) -> (Bench, Summary) {
    measured_on(Nature::default(), set)
}

fn measured_on(nature: Nature, set: &[&str]) -> (Bench, Summary) {
    let nature = Nature { noise: 0.0, ..nature };
    let mut bench = Bench::of("update-rate", vec![nature], &[set, &["calls=single"]].concat(), 6);
    bench.execute();
    let summary = summary(&bench);
    (bench, summary)
}

fn summary(bench: &Bench) -> Summary {
    summarize(&bench.run, &bench.store.samples, &bench.store.latencies)
}

/// A finding in group 1, of rule churn on the core that forwards.
fn of_same<'a>(summary: &'a Summary, id: &str) -> Option<&'a Finding> {
    let id = format!("simulated-{id}-same-group1");
    summary.findings.iter().find(|finding| finding.id == id)
}

/// Rules of group 1 on the core that forwards, at one rate or at none.
const AT_100K: [&str; 4] = ["group=1", "rules=1k", "per_s=0,100k", "core=same"];
const ROW_100K: [(&str, &str); 1] = [("rules/s", "100,000")];

#[test]
fn each_rate_stands_beside_none_at_full_load_and_for_the_latency() {
    let (bench, _) = measured(&["group=1", "rules=1k", "per_s=100k,200k", "core=same"]);
    let run = &bench.run.experiments[0];
    let of = |kind| run.trials.iter().filter(move |trial| trial.kind == kind);
    assert_eq!((of(TrialKind::SATURATE).count(), of(TrialKind::LATENCY).count()), (3, 3));
    assert_eq!((run.plans.len(), run.setups.len()), (2, 1));
    for trial in of(TrialKind::LATENCY) {
        let PlannedRate::ShareOf { of, share } = trial.rate else { panic!("{trial:?}") };
        assert_eq!((run.trials[of].plan(), share), (None, 0.6), "all latencies at one rate");
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
        let is =
            |row: &usize| cell(table, *row, "rules/s") == rate && cell(table, *row, "core") == core;
        (0..table.rows.len()).find(is).unwrap()
    };
    assert_eq!(table.rows.len(), 3, "nothing is replaced by nobody, once");
    assert_eq!(cell(table, row("0", "-"), "against no churn"), "-");
    let same = row("100,000", "same");
    assert_eq!(cell(table, same, "against no churn"), "0.900 (0.900 to 0.900)");
    assert_eq!(cell(table, same, "done/s"), "100,000");
    assert_eq!(cell(table, same, "time per rule"), "1.00 us");
    assert_eq!(cell(table, same, "share of the core"), "10.0 %");
    assert_eq!(cell(table, same, "done after, p50"), "5.00 us");
    assert_eq!(cell(table, same, "started after, p50"), "-", "nobody is asked");
    let distinct = row("100,000", "distinct");
    assert_eq!(cell(table, distinct, "started after, p50"), "3.00 us");
    assert_eq!(cell(table, distinct, "against no churn"), "1.00 (1.00 to 1.00)");
    let value = |id: &str| {
        let id = format!("simulated-{id}-group1");
        summary.findings.iter().find(|finding| finding.id == id).unwrap().value.value
    };
    assert!((value("churn-same") - 90.0).abs() < 1e-4, "{:?}", summary.findings);
    assert!((value("churn-distinct") - 100.0).abs() < 1e-4);
    let near = |found: f64, known: f64| (found / known - 1.0).abs() < 0.01;
    assert!(near(value("hand-over-distinct"), 5_000.0), "{:?}", summary.findings);
    assert!(summary.findings.iter().all(|finding| !finding.id.contains("ceiling")));
    let figure = &summary.experiments[0].figures[0];
    let ours: Vec<_> =
        figure.series.iter().filter(|series| series.origin != Origin::Published).collect();
    assert_eq!(ours.len(), 2);
    assert!((ours[0].points[0].y - 90.0).abs() < 1e-6, "{:?}", ours[0]);
}

#[test]
fn a_rate_that_is_not_kept_is_reported_as_a_ceiling_and_the_kept_one_is_compared() {
    let set = |rates| ["group=1", "rules=1k", rates, "core=same"];
    let (_, summary) = measured(&set("per_s=0,100k,2M"));
    let ceiling = of_same(&summary, "churn-ceiling").unwrap();
    assert_eq!(ceiling.value.value, 900_000.0);
    assert!(
        ceiling
            .sentence
            .contains(" are requested in group 1 (1,000 rules, same core, single calls, "),
        "{ceiling:?}"
    );
    let kept = of_same(&summary, "churn").unwrap();
    assert!(kept.sentence.contains("100,000 rules"), "{kept:?}");
    // A rate as high was kept, or what was done is not the device's doing: no ceiling.
    let (_, summary) = measured(&set("per_s=0,900k,2M"));
    assert!(of_same(&summary, "churn").is_some());
    assert_eq!(of_same(&summary, "churn-ceiling"), None);
    let limited = Nature { generator_pps: 0.5e6, ..Nature::default() };
    let refusing = Nature { refused_ratio: 0.25, ..Nature::default() };
    for nature in [limited, refusing] {
        let (_, summary) = measured_on(nature, &set("per_s=0,100k,2M"));
        assert_eq!(of_same(&summary, "churn-ceiling"), None);
    }
}

#[test]
fn replacements_that_are_refused_are_not_done_and_their_rate_is_not_kept() {
    // Few enough that the rate would be kept by what was done.
    for (refused_ratio, done, refused) in [(0.25, "75,000", 0.25), (0.02, "98,000", 0.02)] {
        let (bench, summary) = measured_on(Nature { refused_ratio, ..Nature::default() }, &AT_100K);
        let table = &summary.experiments[0].tables[0];
        assert_eq!(cell_at(table, &ROW_100K, "done/s"), done);
        let planned = 1e5 * bench.run.experiments[0].loads[0].duration_ns as f64 / 1e9;
        let refused = crate::words::whole(planned * refused);
        assert_eq!(cell_at(table, &ROW_100K, "refused"), refused);
        assert!(!summary.findings.iter().any(|found| found.id.starts_with("simulated-churn")));
    }
}

#[test]
fn a_generator_limited_value_is_a_bound_in_a_sentence_and_no_ratio_in_a_table() {
    // It sets the throughput without rule churn alone.
    let (_, summary) = measured_on(Nature { generator_pps: 9.5e6, ..Nature::default() }, &AT_100K);
    let experiment = &summary.experiments[0];
    for column in ["against no churn", "p50 against no churn"] {
        assert_eq!(cell_at(&experiment.tables[0], &ROW_100K, column), "-");
    }
    let figure = experiment.figures.iter().find(|figure| figure.id.contains("throughput"));
    assert_eq!(figure, None, "of nothing but what was published");
    assert_eq!(of_same(&summary, "churn-latency"), None);
    // A tenth of the core's time goes into rules; what it could do without them is not seen.
    let found = of_same(&summary, "churn").unwrap();
    assert!(found.sentence.contains("keeps at most 94.7 % of its throughput (full load"));
    assert_eq!(
        found.implication,
        "The cost may be higher: the generator was the limit without rule churn."
    );
    // It sets both.
    let (_, summary) = measured_on(Nature { generator_pps: 5e6, ..Nature::default() }, &AT_100K);
    assert_eq!(of_same(&summary, "churn"), None);
}

/// The implications of the findings on throughput and latency, where those at 100,000 replacements
/// a second are these multiples of what they are.
fn implied(factors: [f64; 6]) -> [Option<String>; 2] {
    let (mut bench, _) = measured(&AT_100K);
    let has_churn = |point: &Point| point.get("per_s") == Some(&Coordinate::Number(1e5));
    for sample in bench.store.samples.iter_mut().filter(|sample| has_churn(&sample.point)) {
        for metric in ["throughput_pps", "latency_ns_p50"] {
            let value = sample.metrics.get_mut(metric);
            value.into_iter().for_each(|it| it.value *= factors[sample.repeat as usize]);
        }
    }
    let summary = summary(&bench);
    ["churn", "churn-latency"]
        .map(|id| of_same(&summary, id).map(|found| found.implication.clone()))
}

#[test]
fn the_implication_depends_on_the_side_of_the_ratio_and_an_undecided_ratio_has_none() {
    let [less, longer_not] = implied([0.5; 6]).map(Option::unwrap);
    assert_eq!(less, "The core spends time on rules instead of packets.");
    assert_eq!(longer_not, "Packets wait no longer during rule churn.");
    let [more, longer] = implied([2.0; 6]).map(Option::unwrap);
    assert_eq!(more, "Rule churn at this rate does not slow down forwarding.");
    assert_eq!(longer, "Rule churn delays packets.");
    assert_eq!(implied([0.5, 2.0, 0.6, 1.8, 1.5, 0.7]), [None, None]);
}

#[test]
fn times_of_the_hand_over_are_of_the_trial_for_the_latency() {
    let (mut bench, _) = measured(&["group=1", "rules=1k", "per_s=0,100k", "core=distinct"]);
    for sample in bench.store.samples.iter_mut().filter(|sample| sample.trial == "saturate") {
        let times = sample.metrics.iter_mut();
        let times = times.filter(|(name, _)| name.starts_with("late_") || name.starts_with("wait"));
        times.for_each(|(_, metric)| metric.value *= 100.0);
    }
    let reported = |bench: &Bench| {
        let summary = summary(bench);
        let columns = ["started after, p50", "started p99", "done after, p50", "done p99"];
        columns.map(|column| cell_at(&summary.experiments[0].tables[0], &ROW_100K, column))
    };
    assert_eq!(reported(&bench), ["3.00 us", "3.00 us", "5.00 us", "5.00 us"]);
    bench.store.samples.retain(|sample| sample.trial != "latency");
    assert_eq!(reported(&bench), ["-"; 4]);
}

#[test]
fn values_out_of_range_are_refused_with_what_would_be_right() {
    let sweep = crate::experiments::spec("update-rate")
        .unwrap()
        .reduced
        .of::<crate::experiments::update_rate::spec::Parts>()
        .rule_churn[0]
        .clone();
    let refused = |change: fn(&mut RuleChurnSweep), reason: &str| {
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
        "calls = transaction: use one of single, queue",
    );
    let few = enough(20, 300).unwrap_err().to_string();
    assert_eq!(few, "per_s = 20: fewer than 10 in a trial of 300 ms: use --set duration_ms=500");
    assert!(enough(0, 1).is_ok() && enough(20, 500).is_ok());
    let mut preset = sweep.clone();
    preset.per_s = Values::parse("hadoop,web_server").unwrap();
    let rates: Vec<u32> = places(&preset, None).unwrap().iter().map(|one| one.per_s).collect();
    assert_eq!(rates, [4_000, 4_000, 338_000, 338_000], "by both cores");
}
