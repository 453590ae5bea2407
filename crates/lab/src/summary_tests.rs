//! Summaries of simulated runs: every figure has its curves, every number its place.

use niclab_result::{Figure, Origin, SeriesShape};

use super::*;
use crate::simulated::{Bench, Nature};
use crate::spec::{GridName, Overrides};

fn bench(natures: Vec<Nature>, repeats: u32) -> (Bench, Summary) {
    let mut bench = Bench::new(natures, &[], repeats);
    bench.execute();
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    (bench, summary)
}

fn figure<'a>(summary: &'a Summary, id: &str) -> &'a Figure {
    summary.experiments[0].figures.iter().find(|figure| figure.id == id).unwrap()
}

#[test]
fn every_figure_of_the_experiment_is_drawn_from_the_samples() {
    let (_, summary) = bench(vec![Nature { noise: 0.0, ..Nature::default() }], 6);
    let ids: Vec<&str> =
        summary.experiments[0].figures.iter().map(|figure| figure.id.as_str()).collect();
    let expected = [
        "occupancy-throughput-group0-64",
        "occupancy-throughput-groups-64",
        "occupancy-throughput-group0-1500",
        "occupancy-throughput-groups-1500",
        "occupancy-throughput-chain",
        "occupancy-latency-group0",
        "occupancy-latency-groups",
        "occupancy-latency-cdf",
        "occupancy-throughput-flows",
        "occupancy-throughput-match",
    ];
    assert_eq!(ids, expected);
    let root = figure(&summary, "occupancy-throughput-group0-64");
    let curve: Vec<(f64, f64)> = root.series[0].points.iter().map(|p| (p.x, p.y)).collect();
    let behind = [56_000.0, 60_000.0, 65_536.0].map(|rules| (rules, 1.0));
    let front = [0.0, 1.0, 16_000.0, 32_000.0, 48_000.0].map(|rules| (rules, 10.0));
    assert_eq!(curve, [&front[..], &behind[..]].concat());
    let knees: Vec<&str> = root.knees.iter().map(|knee| knee.label.as_str()).collect();
    assert_eq!(knees, ["group 0: refused", "group 0: throughput below 80 %"]);
    let chain = figure(&summary, "occupancy-throughput-chain");
    let curve = &chain.series[0].points;
    assert_eq!(curve.iter().map(|p| p.x).collect::<Vec<_>>(), [1.0, 2.0, 4.0, 8.0, 16.0]);
    assert!((curve[4].y - 10.0 * 0.1 * 0.9f64.powi(15)).abs() < 0.3 || curve[4].y > 2.0);
    let flows = figure(&summary, "occupancy-throughput-flows");
    assert_eq!(flows.series.len(), 2);
    assert_eq!(flows.series[0].points.len(), 5);
    let matching = figure(&summary, "occupancy-throughput-match");
    assert_eq!(matching.series.len(), 2);
    assert_eq!(matching.series[0].points.len(), 3);
}

#[test]
fn published_curves_stand_beside_ours_and_are_marked() {
    let (_, summary) = bench(vec![Nature::default()], 1);
    let root = figure(&summary, "occupancy-throughput-group0-1500");
    assert_eq!((root.y.unit.as_str(), root.series.len()), ("Gbps", 2));
    assert!(
        root.series[0].origin != Origin::Published && root.series[1].origin == Origin::Published
    );
    // 10 Gbps L1 at 1500 B: 9.87 Gbps L2.
    assert!((root.series[0].points[0].y - 9.868).abs() < 0.01, "{:?}", root.series[0].points[0]);
    assert!((root.series[1].points[0].y - 98.86).abs() < 1e-9);
    let latency = figure(&summary, "occupancy-latency-group0");
    let published = latency.series.last().unwrap();
    assert!(published.origin == Origin::Published && published.shape == SeriesShape::Box);
    assert!((published.points.last().unwrap().y / 156_000.0 - 1.0).abs() < 0.02, "156 ms in us");
    assert!(
        !figure(&summary, "occupancy-throughput-group0-64")
            .series
            .iter()
            .any(|s| s.origin == Origin::Published)
    );
}

/// The published figure 2a of the ConnectX-5 at the places of the sweep, Gbps.
const PUBLISHED_2A: [(f64, f64); 5] = [
    (16_000.0, 98.86),
    (32_000.0, 82.335),
    (56_000.0, 48.881),
    (60_000.0, 0.0531),
    (65_536.0, 0.0211),
];

/// The verdict on a device of this name that has these throughputs at some numbers of rules, and
/// the published ones at the others; and the sentence beside it.
fn beside_published(
    device: &str,
    set: &[&str],
    own: &[(f64, f64)],
    repeats: u32,
) -> (ExperimentVerdict, String) {
    let mut bench = Bench::new(vec![Nature { noise: 0.0, ..Nature::default() }], set, repeats);
    bench.execute();
    bench.run.devices[0].name = device.to_owned();
    for sample in &mut bench.store.samples {
        sample.device = device.to_owned();
        let number = |axis: &str| match sample.point.get(axis) {
            Some(niclab_result::Coordinate::Number(number)) => *number,
            _ => -1.0,
        };
        let (groups, rules) = (number("groups"), number("rules"));
        let known = own.iter().chain(&PUBLISHED_2A).find(|(at, _)| *at == rules);
        let gbps = known.filter(|_| groups == 0.0).map(|(_, gbps)| *gbps);
        match (gbps, sample.metrics.get_mut("throughput_gbps_l2")) {
            (Some(gbps), Some(quantity)) => quantity.value = gbps,
            _ => drop(sample.metrics.remove("throughput_gbps_l2")),
        }
    }
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    let of = &summary.experiments[0];
    (of.verdict.clone(), of.beside_published.clone())
}

#[test]
fn a_device_that_equals_what_is_published_of_it_answers_its_question() {
    let own = [(16_000.0, 95.0)];
    let (verdict, said) = beside_published("model:connectx-5", &[], &own, 6);
    assert_eq!(verdict, ExperimentVerdict::Answered, "95 lies among the published runs");
    assert_eq!(said, "model:connectx-5 agrees with its published figures at all of 5 points.");
}

#[test]
fn a_device_that_differs_from_what_is_published_of_it_says_so_with_both_figures() {
    let own = [(16_000.0, 90.0), (32_000.0, 50.0)];
    let (verdict, said) = beside_published("model:connectx-5", &[], &own, 6);
    assert_eq!(said, "", "the verdict says it");
    let difference = "Differs from published at 2 of 5 compared points. The largest difference: \
                      model:connectx-5 has 50.0 Gbps with 32,000 rules in group 0 (95 % interval \
                      50.0 to 50.0), published 82.3 Gbps (runs from 82.2 to 82.6, PAM 2021, figure \
                      2a).";
    let difference = difference.to_owned();
    assert_eq!(verdict, ExperimentVerdict::DiffersFromPublished { difference });
}

#[test]
fn a_device_without_published_values_or_intervals_does_not_differ() {
    let own = [(32_000.0, 50.0)];
    for (device, repeats) in [("soft", 6), ("model:e810", 6), ("model:connectx-5", 5)] {
        let (verdict, _) = beside_published(device, &[], &own, repeats);
        assert_eq!(verdict, ExperimentVerdict::Answered, "{device}, {repeats} repeats");
    }
}

#[test]
fn a_device_that_cannot_be_compared_with_what_is_published_of_it_says_why() {
    let said = |device, set: &[&str], repeats| beside_published(device, set, &[], repeats).1;
    assert_eq!(
        said("model:connectx-5", &["frame=64"], 6),
        "model:connectx-5 is not compared with its published figures: they are of 1500 B frames \
         that match no rule; this run has 64 B frames."
    );
    assert_eq!(
        said("model:connectx-5", &[], 5),
        "model:connectx-5 is not compared with its published figures: fewer than 6 repeats have \
         no interval."
    );
    assert_eq!(said("soft", &["frame=64"], 6), "", "nothing is published of it");
}

#[test]
fn a_computed_series_has_the_colour_of_its_source() {
    let (_, summary) = bench(vec![Nature::default()], 1);
    let mut of = figure(&summary, "occupancy-throughput-group0-64").clone();
    let series = of.series[0].clone();
    let names = [("a", Origin::Measured), ("a, by its hash", Origin::Computed)];
    let names = [names, [("ab, limit", Origin::Computed), ("a, two", Origin::Measured)]].concat();
    let named = names.into_iter().map(|(name, origin)| niclab_result::Series {
        name: name.to_owned(),
        origin,
        hue: None,
        ..series.clone()
    });
    of.series = named.collect();
    colour_by_device(&mut of, &[&series.device]);
    let hues: Vec<_> = of.series.iter().map(|series| series.hue.unwrap()).collect();
    assert_eq!(hues, [0, 0, 1, 2]);
}

#[test]
fn every_experiment_with_published_figures_is_compared_at_their_places() {
    let compared = |name: &str, set: &[&str]| {
        let profile = niclab_device::model::read("connectx-5").unwrap();
        let mut model = niclab_device::model::Model::new("model:connectx-5", profile, 1);
        let measured =
            crate::validation::measure(&mut model, name, GridName::Published, set, Some(6));
        let mut measured = measured.unwrap();
        for sample in &mut measured.samples {
            for metric in ["operations_per_s", "throughput_gbps_l2"] {
                sample.metrics.get_mut(metric).into_iter().for_each(|of| of.value *= 10.0);
            }
        }
        match measured.summary().experiments.remove(0).verdict {
            ExperimentVerdict::DiffersFromPublished { difference } => difference,
            other => panic!("{name}: {other:?}"),
        }
    };
    let occupancy = ["groups=1", "rules=100k", "frame=1500"];
    let churn = ["group=1", "rules=64k", "per_s=10k", "core=same", "slice=tick", "frame=1500"];
    let created = ["group=0", "rules=16k", "stack=eth/ipv4", "actions=queue", "calls=single"];
    let changed = ["rules=100k", "change=actions,anew"];
    for (name, set, points, figure) in [
        ("occupancy", &occupancy[..], 1, "2b"),
        ("update-rate", &churn, 1, "4b"),
        ("rule-rate", &created, 1, "5a"),
        ("rule-update", &changed, 2, "6"),
    ] {
        let words = compared(name, set);
        let noun = if points == 1 { "point" } else { "points" };
        let start = format!("Differs from published at {points} of {points} compared {noun}.");
        assert!(words.starts_with(&start), "{name}: {words}");
        assert!(words.ends_with(&format!("PAM 2021, figure {figure}).")), "{name}: {words}");
    }
}

#[test]
fn boxes_are_of_merged_histograms() {
    let (_, summary) = bench(vec![Nature::default()], 6);
    let latency = figure(&summary, "occupancy-latency-group0");
    let [p1, p25, p75, p99] = latency.series[0].points[0].quartiles.unwrap();
    let y = latency.series[0].points[0].y;
    // The simulated latency is uniform from 2,003 to 5,000 ns.
    for (found, expected) in [(p1, 2.03), (p25, 2.75), (y, 3.5), (p75, 4.25), (p99, 4.97)] {
        assert!((found - expected).abs() < 0.01, "{found} for {expected}");
    }
    let cdf = figure(&summary, "occupancy-latency-cdf");
    assert_eq!(cdf.series.len(), 2);
    let points = &cdf.series[0].points;
    assert!(points.windows(2).all(|w| w[0].x < w[1].x && w[0].y < w[1].y));
    assert!((points.last().unwrap().y - 1.0).abs() < 1e-9);
    for (share, expected) in [(0.5, 3.5), (0.9, 4.7), (0.99, 4.97), (0.999, 4.997), (1.0, 5.0)] {
        let x = points.iter().find(|point| point.y >= share).unwrap().x;
        assert!((x - expected).abs() < 0.01, "{x} for {expected}");
    }
}

#[test]
fn the_words_of_a_rate_are_those_of_the_experiment() {
    let mut spec = crate::experiments::spec("occupancy").unwrap();
    (spec.latency_share, spec.light_share) = (0.45, 0.125);
    let mut bench = Bench::new(vec![Nature::default()], &[], 3);
    let devices = bench.run.devices.clone();
    let overrides = Overrides { repeats: Some(3), ..Default::default() };
    bench.run = crate::run::resolve("x", &[spec], &overrides, devices).unwrap();
    bench.execute();
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    let root = figure(&summary, "occupancy-latency-group0");
    assert_eq!(root.series[0].name, "simulated, 45 % of the maximum");
    assert_eq!(root.series[1].name, "simulated, 12.5 % of the maximum");
    for id in ["occupancy-latency-groups", "occupancy-latency-cdf"] {
        let caption = &figure(&summary, id).caption;
        let of_rate = ["at 45 % of the maximum", "All points of a device have one rate"];
        assert!(of_rate.iter().all(|words| caption.contains(words)), "{caption}");
    }
    let of = |id: &str| summary.findings.iter().find(|finding| finding.id == id).unwrap();
    let sentence = &of("simulated-latency-p50").sentence;
    assert!(
        sentence.contains("pps (45 % of the maximum)") && sentence.contains("p50 latency"),
        "{sentence}"
    );
}

#[test]
fn a_devices_time_is_drawn_over_rules_where_it_has_rules() {
    let told = Nature { tells_idle: true, ..Nature::default() };
    let bare = Nature { name: "bare", not_supported: vec!["rules"], ..told.clone() };
    let (_, summary) = bench(vec![told, bare], 3);
    let root = figure(&summary, "occupancy-device-time-group0");
    let names: Vec<&str> = root.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["simulated"], "a lone point is no curve");
    let groups = figure(&summary, "occupancy-device-time-groups");
    assert_eq!(groups.series[0].name, "simulated, group 1");
}

#[test]
fn a_testbed_is_drawn_as_its_device_says_it_stands() {
    let two = [Nature::default(), Nature { name: "idle", ..Nature::default() }];
    let mut bench = Bench::new(two.to_vec(), &["groups=0", "rules=0"], 1);
    bench.execute();
    bench.run.devices[0].about.places.push(niclab_device::PathNode {
        role: "function".into(),
        label: "swap MACs".into(),
        core: Some(1),
    });
    bench.store.samples.retain(|sample| sample.device != "idle");
    let summary = summarize(&bench.run, &bench.store.samples, &Latencies::new());
    let testbeds = &summary.experiments[0].testbeds;
    assert_eq!(testbeds.len(), 1, "a device of which nothing was measured has none");
    let boxes = &testbeds[0].boxes;
    let drawn: Vec<(&str, &str, Option<u32>)> =
        boxes.iter().map(|b| (b.role.as_str(), b.label.as_str(), b.core)).collect();
    let expected = [
        ("generator", "simulated generator", None),
        ("device", "simulated device", None),
        ("sink", "simulated sink", None),
        ("function", "swap MACs", Some(1)),
    ];
    assert_eq!(drawn, expected);
}

#[test]
fn error_bars_are_the_interval_of_the_repeats() {
    let (bench, summary) = bench(vec![Nature { noise: 0.2, ..Nature::default() }], 6);
    let point = &figure(&summary, "occupancy-throughput-group0-64").series[0].points[0];
    let of = |s: &&Sample| {
        let number = |axis: &str| s.point[axis].to_string();
        s.trial == "saturate"
            && (number("groups"), number("rules")) == ("0".into(), "0".into())
            && (number("flows"), number("frame")) == ("10000".into(), "64".into())
    };
    let mut values: Vec<f64> =
        bench.store.samples.iter().filter(of).map(|s| s.metrics["throughput_pps"].value).collect();
    values.sort_by(f64::total_cmp);
    assert_eq!(values.len(), 6);
    assert!((point.low.unwrap() - values[0] / 1e6).abs() < 1e-9);
    assert!((point.high.unwrap() - values[5] / 1e6).abs() < 1e-9);
    assert!((point.y - (values[2] + values[3]) / 2e6).abs() < 1e-9);
    let (_, once) = self::bench(vec![Nature::default()], 1);
    let point = &figure(&once, "occupancy-throughput-group0-64").series[0].points[0];
    assert_eq!((point.low, point.high), (None, None), "one repeat has no bar");
}

#[test]
fn a_run_cut_short_is_partial_and_says_so() {
    let mut bench = Bench::new(vec![Nature::default()], &["frame=64"], 2);
    bench.host.samples_max = 40;
    bench.execute();
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    assert!(summary.partial);
    assert!(summary.warnings[0].contains("--resume"));
    let (_, whole) = self::bench(vec![Nature::default()], 1);
    assert!(!whole.partial, "{:?}", whole.warnings);
    let empty = summarize(&bench.run, &[], &Latencies::new());
    assert!(empty.partial && empty.experiments[0].figures.is_empty());
}

#[test]
fn too_few_repeats_have_no_interval_in_the_tables() {
    let throughput = |repeats| {
        let (_, summary) = bench(vec![Nature { noise: 0.1, ..Nature::default() }], repeats);
        let table = &summary.experiments[0].tables[0];
        assert_eq!(table.columns[6], "throughput (interval)");
        table.rows[0][6].clone()
    };
    assert!(!throughput(1).contains('('), "{}", throughput(1));
    let (five, six) = (throughput(5), throughput(6));
    assert!(five.contains(" (all in ") && !six.contains("all in"), "{five}; {six}");
    assert!(six.contains(" ("), "{six}");
}

/// Whether a run is partial that has these samples.
fn partial(bench: &Bench, samples: &[Sample]) -> bool {
    is_partial(&bench.run, &bench.run.experiments[0], samples)
}

#[test]
fn a_run_is_partial_where_one_sample_is_missing_that_nothing_prevents() {
    let natures = vec![
        Nature { name: "ruleless", not_supported: vec!["rules"], ..Nature::default() },
        Nature { name: "small", not_supported: vec!["frame_size", "latency"], ..Nature::default() },
        Nature { name: "short", frame_len_max: 1_518, ..Nature::default() },
        Nature::default(),
    ];
    let mut bench = Bench::new(natures, &["rules=0,100", "frame=64,1500,9000"], 2);
    bench.execute();
    let whole = &bench.store.samples;
    assert!(!partial(&bench, whole));
    let is_trial = |s: &Sample| ["saturate", "latency", "light"].contains(&s.trial.as_str());
    let mut prevented = 0;
    for (at, sample) in whole.iter().enumerate().filter(|(_, s)| is_trial(s)) {
        let mut rest = whole.clone();
        rest.remove(at);
        assert!(partial(&bench, &rest), "{sample:?}");
        prevented += u32::from(sample.outcome != Outcome::Measured);
    }
    assert!(prevented > 0);
}

#[test]
fn a_run_is_partial_where_a_knee_was_not_searched_to_its_end() {
    let (bench, summary) = bench(vec![Nature::default()], 1);
    assert!(!summary.partial);
    let whole = &bench.store.samples;
    let trials: Vec<&str> = whole.iter().map(|s| s.trial.as_str()).collect();
    let first = trials.iter().position(|trial| *trial == "capacity").unwrap();
    for end in first..whole.len() {
        // The last sample of a search is a trial: a set-up before it decides nothing.
        assert!(partial(&bench, &whole[..end]), "{end} of {}", whole.len());
    }
    let (ruleless, _) =
        self::bench(vec![Nature { not_supported: vec!["rules"], ..Nature::default() }], 1);
    assert!(!partial(&ruleless, &ruleless.store.samples), "it has no knees");
}

#[test]
fn a_knee_that_a_failed_sample_prevents_is_not_missing() {
    let (bench, _) = bench(vec![Nature::default()], 1);
    let mut samples = bench.store.samples.clone();
    let at = samples.iter().position(|sample| sample.trial == "knee-probe").unwrap();
    samples.truncate(at + 1);
    assert!(partial(&bench, &samples));
    samples[at].outcome = Outcome::Failed { reason: "too long".into(), dropped: false };
    assert!(!partial(&bench, &samples));
}

#[test]
fn a_failure_that_a_resumed_run_repaired_gives_no_warning() {
    let mut bench =
        Bench::new(vec![Nature { trials_max: 5, ..Nature::default() }], &["groups=0"], 1);
    bench.execute();
    let has_warning = |bench: &Bench| {
        let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
        assert!(!summary.partial, "a device that broke, or a whole run");
        summary.warnings.iter().any(|warning| warning.contains("it went away"))
    };
    assert!(has_warning(&bench));
    let broken = bench.store.samples.len();
    bench.devices[0].nature.trials_max = u32::MAX;
    bench.host.done_ratio = 0.0;
    bench.execute();
    assert!(!has_warning(&bench));
    let begun = &bench.store.samples[..=broken];
    assert!(partial(&bench, begun), "it works again, and was stopped");
}

#[test]
fn a_run_of_a_trace_tells_of_the_trace_and_not_of_64_bytes() {
    let mut bench = Bench::new(vec![Nature { tells_idle: true, ..Nature::default() }], &[], 3);
    let frames =
        TraceFrames { frames: 9_000, flows: 3, frame_len_max: 1_540, ..Default::default() };
    let trace = |frames| Some(Trace { path: "a.pcap".into(), frames });
    let devices = bench.run.devices.clone();
    let overrides =
        Overrides { trace: trace(frames.clone()), repeats: Some(3), ..Default::default() };
    let specs = [crate::experiments::spec("occupancy").unwrap()];
    bench.run = crate::run::resolve("x", &specs, &overrides, devices).unwrap();
    bench.execute();
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    let root = figure(&summary, "occupancy-throughput-group0-trace");
    assert_eq!(root.knees.len(), 2, "they were searched with the trace");
    assert!(root.caption.contains("frames of the trace, 3 flows"), "{}", root.caption);
    assert!(figure(&summary, "occupancy-throughput-chain").caption.contains("of the trace that"));
    let ids: Vec<&String> = summary.experiments[0].figures.iter().map(|f| &f.id).collect();
    let mut shown = summary.findings.iter().filter_map(|finding| finding.figure.as_ref());
    assert!(shown.all(|figure| ids.contains(&figure)), "{ids:?}");
    let mut ours = summary.clone();
    for figure in &mut ours.experiments[0].figures {
        figure.series.retain(|series| series.origin != Origin::Published);
    }
    let text = serde_json::to_string(&ours).unwrap();
    assert!(!text.contains("64 B") && !text.contains("10,000 flows"), "{text}");
    let row = &ours.experiments[0].tables[0].rows[0];
    assert_eq!((row[4].as_str(), row[5].as_str()), ("3", "trace"));
    let told = |s: &Summary| s.warnings.iter().any(|warning| warning.contains("a.pcap"));
    assert!(!told(&summary), "{:?}", summary.warnings);
    bench.run.trace = trace(TraceFrames { frames_padded: 2, ..frames });
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    let has = |part: &str| summary.warnings.iter().any(|warning| warning.contains(part));
    assert!(has("a.pcap: 2 of 9,000 frames are too short"), "{:?}", summary.warnings);
}

#[test]
fn with_a_file_of_rules_what_means_nothing_of_it_is_left_out() {
    let mut bench = Bench::new(vec![Nature::default()], &["groups=0", "rules=3", "flows=10000"], 3);
    bench.execute();
    bench.run.rules =
        Some(RulesFile { path: "a/b.flow".into(), rules_count: 3, queues: 1, rules_met: Some(2) });
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    let warned = "b.flow: the traffic matched 2 of its 3 rules within 0.2 s. The results say \
                  nothing about traffic that matches the others.";
    assert_eq!(summary.warnings[0], warned);
    for table in &summary.experiments[0].tables {
        for column in ["groups", "match %"] {
            assert!(!table.columns.iter().any(|one| one == column), "{:?}", table.columns);
        }
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{table:?}");
    }
    let of_rules = |figure: &Figure| figure.x.label.contains("rules");
    assert!(!summary.experiments[0].figures.iter().any(of_rules));
    let sentence =
        &summary.findings.iter().find(|finding| finding.id.contains("maximum")).unwrap().sentence;
    assert!(sentence.contains("with the 3 rules of b.flow, "), "{sentence}");
}

#[test]
fn a_reduction_to_fit_the_budget_is_a_warning() {
    let mut bench = Bench::new(vec![Nature::default()], &["groups=0"], 1);
    bench.run.experiments[0].taken_back = vec!["3 of 6 repeats, to fit the budget of 200 s".into()];
    bench.execute();
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    let expected = "occupancy: 3 of 6 repeats, to fit the budget of 200 s.";
    assert_eq!(summary.warnings[0], expected);
}

#[test]
fn the_worst_warnings_are_the_first() {
    let text = |severity: Severity| (severity, format!("{severity:?}"));
    use Severity::{Absent, Note, Skipped, Untrusted, Wrong};
    let (warnings, skipped) = sorted([Note, Absent, Skipped, Wrong, Untrusted].map(text).into());
    assert_eq!(warnings, ["Wrong", "Untrusted", "Skipped", "Absent", "Note"]);
    assert_eq!(skipped, Some(2));
    assert_eq!(sorted([Note, Absent].map(text).into()).1, None);
    let order = [Mark::Unbalanced, Mark::MachineDrift, Mark::FewSamples].map(severity);
    assert_eq!(order, [Wrong, Untrusted, Note]);
}

#[test]
fn warnings_count_the_marked_points() {
    let natures = vec![
        Nature { name: "slow", generator_pps: 5e6, ..Nature::default() },
        Nature { name: "frail", trials_max: 5, ..Nature::default() },
    ];
    let (_, summary) = bench(natures, 3);
    let has = |part: &str| summary.warnings.iter().any(|warning| warning.contains(part));
    assert!(has("points show the generator's limit: read"), "{:?}", summary.warnings);
    assert!(has("have fewer repeats than an interval needs"), "{:?}", summary.warnings);
    assert!(has("frail: occupancy: frail failed: it went away"), "{:?}", summary.warnings);
    assert!(!summary.partial, "a device that broke is no run cut short");
    let of = |part: &str| summary.warnings.iter().filter(|w| w.contains(part)).count();
    for part in ["slow: ", "frail: "] {
        assert!(of(part) <= 3, "{:?}", summary.warnings);
    }
    assert_eq!(of("frail failed"), 1, "{:?}", summary.warnings);
}

#[test]
fn the_time_of_the_device_is_drawn_where_the_device_tells_it() {
    let nature = Nature { generator_pps: 0.8e6, tells_idle: true, ..Nature::default() };
    let silent = Nature { name: "silent", tells_idle: false, ..nature.clone() };
    let (_, summary) = bench(vec![nature, silent.clone()], 3);
    let root = figure(&summary, "occupancy-device-time-group0");
    assert_eq!((root.series.len(), root.y.unit.as_str()), (1, "ns"));
    for (at, expected_ns) in [(0, 100.0), (7, 1_000.0)] {
        let point = &root.series[0].points[at];
        assert!((point.y / expected_ns - 1.0).abs() < 0.03, "{point:?}");
        assert!(!point.marks.contains(&Mark::GeneratorLimited), "it is the device's own");
    }
    let groups = figure(&summary, "occupancy-device-time-groups");
    assert_eq!(groups.series.len(), 5);
    let (_, summary) = bench(vec![silent], 1);
    let mut ids = summary.experiments[0].figures.iter().map(|figure| &figure.id);
    assert!(!ids.any(|id| id.contains("device-time")));
}

#[test]
fn missing_capabilities_are_listed_with_the_device() {
    let nature = Nature { not_supported: vec!["rules"], ..Nature::default() };
    let (_, summary) = bench(vec![nature], 1);
    assert_eq!(summary.devices[0].not_supported, ["rules"]);
    assert!(summary.warnings.iter().all(|warning| !warning.contains("rules")));
}

#[test]
fn tables_have_a_row_for_each_point() {
    let (bench, summary) = bench(vec![Nature::default()], 1);
    let table =
        |id: &str| summary.experiments[0].tables.iter().find(|table| table.id == id).unwrap();
    let trials = &bench.run.experiments[0].trials;
    let saturate = trials.iter().filter(|trial| trial.kind.name() == "saturate").count();
    assert_eq!(table("occupancy-throughput").rows.len(), saturate);
    assert_eq!(table("occupancy-latency").rows.len(), trials.len() - saturate);
    for table in &summary.experiments[0].tables {
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.id);
    }
    assert_eq!(table("occupancy-knees").rows[0][3], "65,536");
}

#[test]
fn the_latency_of_a_full_ring_is_reported_for_full_rings_alone() {
    // Of the repeats 0 to 5 these first ones show the generator; the median of repeat n is n us.
    let told = |limited: u32| {
        let nature = Nature { noise: 0.0, ..Nature::default() };
        let mut bench = Bench::new(vec![nature], &["groups=0", "rules=0", "frame=64"], 6);
        bench.execute();
        for sample in bench.store.samples.iter_mut().filter(|s| s.trial == "saturate") {
            sample.metrics.get_mut("latency_ns_p50").unwrap().value =
                f64::from(sample.repeat) * 1e3;
            sample.metrics.get_mut("latency_ns_p99").unwrap().value =
                f64::from(sample.repeat) * 2e3;
            if sample.repeat < limited {
                sample.marks.push(Mark::GeneratorLimited);
            }
        }
        let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
        let tables = &summary.experiments[0].tables;
        let table = tables.iter().find(|table| table.id == "occupancy-throughput").unwrap();
        let at = |name: &str| table.columns.iter().position(|column| column == name).unwrap();
        ["p50 at full load", "p99 at full load"].map(|end| table.rows[0][at(end)].clone())
    };
    assert_eq!(told(0), ["2.50 us", "5.00 us"]);
    assert_eq!(told(2), ["3.50 us", "7.00 us"], "of the others");
    assert_eq!(told(4), ["-", "-"], "the others are too few");
}

#[test]
fn a_summary_survives_its_file() {
    let (_, summary) = bench(vec![Nature::default()], 1);
    let text = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), summary);
    assert_eq!(summary.started, "2027-01-15T08:00:00Z");
    assert!(summary.duration_s > 1.0);
    let testbed = &summary.experiments[0].testbeds[0];
    assert_eq!(
        testbed.boxes.iter().map(|b| b.role.as_str()).collect::<Vec<_>>(),
        ["generator", "device", "sink"]
    );
}
