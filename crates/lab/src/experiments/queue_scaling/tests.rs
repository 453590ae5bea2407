//! Cores, queues and ports with known curves, and cards that have them.

use niclab_device::model::profile::Profile;
use niclab_device::model::{Model, read};
use niclab_device::{
    DeviceError, DeviceInfo, Fact, LoadObservation, Observation, PortCounters, QueueCounters,
    Setup, SetupReport, Task, Testbed,
};
use niclab_result::{Origin, Quantity, Summary};

use super::analysis::ideal_pps;
use super::metrics::{CORE_NS, CROSSED, PER_CORE, put_scaling};
use super::spec::ScalingSweep;
use super::trials::places;
use crate::measure::Metrics;
use crate::simulated::cell_at;
use crate::spec::GridName;
use crate::validation::measure;
use crate::values::Values;

fn sweep(receive: &str, ports: &str, queues: &str, cores: &str) -> ScalingSweep {
    let [receive, ports, queues, cores, flows, frame] =
        [receive, ports, queues, cores, "10", "64"].map(|text| Values::parse(text).unwrap());
    ScalingSweep { receive, ports, queues, cores, flows, frame }
}

#[test]
fn ports_share_queues_evenly_and_one_core_that_receives_needs_no_queue_for_each() {
    let of = |sweep: &ScalingSweep| -> Vec<(u32, u32, u32)> {
        let places = places(sweep).unwrap();
        places.into_iter().map(|of| (of.ports, of.queues, of.cores)).collect()
    };
    let several = sweep("multi-queue", "1,2,4", "2,6", "1,4,each");
    assert_eq!(
        of(&several),
        [
            (1, 2, 1),
            (1, 2, 2),
            (1, 2, 2),
            (1, 6, 1),
            (1, 6, 4),
            (1, 6, 6),
            (2, 2, 1),
            (2, 2, 2),
            (2, 2, 2),
            (2, 6, 1),
            (2, 6, 4),
            (2, 6, 6)
        ]
    );
    assert_eq!(of(&sweep("serial", "1", "2", "1,4,each")), [(1, 2, 1), (1, 2, 4), (1, 2, 2)]);
    for bad in [sweep("parallel", "1", "1", "1"), sweep("serial", "1", "1", "none")] {
        assert!(places(&bad).is_err(), "{bad:?}");
    }
}

#[test]
fn each_core_has_its_part_of_what_all_forward() {
    let mut metrics = Metrics::new();
    metrics.insert("throughput_pps".into(), Quantity { value: 40e6, unit: "pps".into() });
    let queues = [600, 400].map(|rx_frames| QueueCounters { rx_frames, ..Default::default() });
    let device = PortCounters { queues: queues.into(), ..PortCounters::default() };
    let (device, crossed) = (Some(device), Some(300));
    let observation =
        LoadObservation { received: 900, device, crossed, ..LoadObservation::default() };
    put_scaling(&mut metrics, &observation, 4);
    let value = |name: &str| metrics[name].value;
    assert_eq!([value(PER_CORE), value(CORE_NS)], [10e6, 100.0]);
    assert_eq!(value(CROSSED), 0.3);
    let mut none = Metrics::new();
    put_scaling(&mut none, &observation, 4);
    assert!(none.is_empty());
}

#[test]
fn an_ideal_card_is_limited_by_its_ports_alone() {
    let ideal = |cores, ports, gbps| ideal_pps(3.15e6, cores, ports, (64.0, gbps)) / 1e6;
    assert!((ideal(2.0, 1.0, Some(10.0)) - 6.3).abs() < 1e-9);
    assert!((ideal(8.0, 1.0, Some(10.0)) - 14.88).abs() < 0.01);
    assert!((ideal(8.0, 2.0, Some(10.0)) - 25.2).abs() < 1e-9);
    assert!((ideal(64.0, 1.0, None) - 201.6).abs() < 1e-9);
}

fn found(profile: Profile, name: &str, set: &[&str]) -> Summary {
    let mut card = Model::new("card", profile, 5);
    measure(&mut card, name, GridName::Reduced, set, Some(6)).unwrap().summary()
}

/// What stands in the table at a place.
fn at(summary: &Summary, place: [&str; 4], column: &str) -> f64 {
    let [receive, ports, queues, cores] = place;
    let axes = [("receive", receive), ("ports", ports), ("queues", queues), ("cores", cores)];
    let text = cell_at(&summary.experiments[0].tables[0], &axes, column);
    text.split(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{text} at {axes:?}"))
}

fn finding(summary: &Summary, id: &str) -> (String, f64) {
    let id = format!("card-{}-{id}", summary.experiments[0].name);
    let of = summary.findings.iter().find(|finding| finding.id == id);
    let of = of.unwrap_or_else(|| panic!("no {id}: {:#?}", summary.findings));
    (of.sentence.clone(), of.value.value)
}

#[test]
fn the_card_of_the_study_scales_as_the_study_found() {
    let published = |name: &str| crate::published::presto10::stated(name).unwrap();
    let summary = found(read("82599").unwrap(), "queue-scaling", &[]);
    let near = |place: [&str; 4], want: f64, by: f64| {
        let mpps = at(&summary, place, "throughput (interval)");
        assert!((mpps / want - 1.0).abs() < by, "{place:?}: {mpps}, {want} published");
    };
    // Two of these were fitted, the others follow.
    near(["multi-queue", "2", "2", "2"], published("forwarding_rate_two_ports_2_cores"), 0.02);
    near(["multi-queue", "1", "4", "4"], published("max_forwarding_rate_one_port"), 0.02);
    near(["multi-queue", "2", "8", "8"], published("forwarding_rate_two_ports_8_cores"), 0.02);
    let lost = published("max_forwarding_rate_one_port")
        - at(&summary, ["multi-queue", "1", "8", "8"], "throughput (interval)");
    assert!(
        lost > 0.0 && lost < 1.1 * published("rate_loss_beyond_4_queues_one_port"),
        "{lost} Mpps less by 8 queues"
    );
    // Each of 8 cores against the ideal: the study has 30 % less.
    let of_ideal = at(&summary, ["multi-queue", "1", "8", "8"], "of ideal");
    let below = 100.0 - of_ideal;
    assert!((below - published("per_core_rate_below_ideal")).abs() < 4.0, "{below} % below");
    let (sentence, ratio) = finding(&summary, "serial-1-8-8");
    assert!((30.0..38.0).contains(&ratio), "{sentence}");
    let (sentence, _) = finding(&summary, "cores-1-8-8");
    assert!(sentence.contains("times as many frames as one core of the device"), "{sentence}");
    let [experiment] = &summary.experiments[..] else { panic!("one experiment") };
    let ids: Vec<&str> = experiment.figures.iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(ids, ["queue-scaling-all-card", "queue-scaling-each-card"]);
    let names: Vec<&str> =
        experiment.figures[0].series.iter().map(|series| series.name.as_str()).collect();
    let wanted = ["card", "card, serial", "card, ideal", "card, 2 ports", "card, 2 ports, ideal"];
    assert_eq!(names[..5], wanted, "{names:?}");
    for series in &experiment.figures[0].series[..5] {
        let is_computed = series.origin == Origin::Computed;
        assert_eq!(is_computed, series.name.ends_with("ideal"), "{}", series.name);
    }
}

#[test]
fn queues_of_one_port_cost_what_the_profile_says_and_no_more_are_computed_than_it_has() {
    let summary = found(read("82599").unwrap(), "queue-overhead", &[]);
    let (sentence, ratio) = finding(&summary, "ports-1-8-8");
    assert!((42.0..50.0).contains(&ratio), "{sentence}");
    // Two cores forward less where their port has more than one queue.
    let two = at(&summary, ["multi-queue", "1", "2", "2"], "throughput (interval)");
    let each = at(&summary, ["multi-queue", "2", "2", "2"], "throughput (interval)");
    let lost = 100.0 * (1.0 - two / each);
    let published = crate::published::presto10::stated("queue_overhead").unwrap();
    assert!((lost - published).abs() < 4.0, "{lost} % less, {published} % published");
    let lacks = &summary.devices[0].not_supported;
    let words = "more than 8 queues a port: untested";
    assert!(lacks.iter().any(|lack| lack == words), "{lacks:?}");
    let summary = found(read("82599").unwrap(), "queue-overhead", &["ports=4", "queues=4"]);
    let lacks = &summary.devices[0].not_supported;
    assert!(lacks.iter().any(|lack| lack == "4 ports: the profile has 2"), "{lacks:?}");
}

#[test]
fn unpublished_figures_of_a_card_are_not_computed() {
    let summary = found(read("connectx-5").unwrap(), "queue-scaling", &[]);
    let lacks = &summary.devices[0].not_supported;
    for words in ["2 ports: the profile has 1", "queues.serial_ns"] {
        assert!(lacks.iter().any(|lack| lack.contains(words)), "{words}: {lacks:?}");
    }
    let (sentence, ratio) = finding(&summary, "cores-1-8-8");
    assert!((7.5..8.1).contains(&ratio), "{sentence}");
}

#[test]
fn two_experiments_of_a_run_have_figures_and_findings_of_their_own() {
    let of = |name: &str| found(read("82599").unwrap(), name, &[]);
    let (scaling, overhead) = (of("queue-scaling"), of("queue-overhead"));
    let figures = |summary: &Summary| -> Vec<String> {
        let all = summary.experiments.iter().flat_map(|experiment| &experiment.figures);
        all.map(|figure| figure.id.clone()).collect()
    };
    let ids = |summary: &Summary| -> Vec<String> {
        summary.findings.iter().map(|finding| finding.id.clone()).collect()
    };
    let is_apart = |a: Vec<String>, b: Vec<String>| {
        assert!(!a.is_empty() && !b.is_empty());
        assert!(a.iter().all(|id| !b.contains(id)), "{a:?}, {b:?}");
    };
    is_apart(figures(&scaling), figures(&overhead));
    is_apart(ids(&scaling), ids(&overhead));
    assert!(overhead.findings.iter().all(|finding| finding.figure.is_some()));
}

/// A card whose frames take 100 ns of one core, and 60 ns more of each of several.
struct Slower(DeviceInfo);

impl Testbed for Slower {
    fn about(&self) -> &DeviceInfo {
        &self.0
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        self.0.port_gbps = None;
        self.0.facts = vec![Fact { name: "cores".into(), value: setup.cores.to_string() }];
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let Task::Load { load, .. } = task else { return Err(task.not_supported()) };
        let cores: u64 = self.0.facts[0].value.parse().unwrap();
        let is_long = load.sizes.max() > 64;
        let frame_ns = if cores > 1 { 160 } else { 100 } * if is_long { 2 } else { 1 };
        let frames = cores * 16_000;
        let mut o = LoadObservation {
            planned: frames,
            offered: frames,
            received: frames,
            duration_ns: frames * frame_ns / cores,
            ..LoadObservation::default()
        };
        o.honesty.balanced = true;
        Ok(Observation::Load(o))
    }
}

fn slower(name: &str, set: &[&str]) -> Summary {
    let mut card = Slower(DeviceInfo { name: "card".into(), ..DeviceInfo::default() });
    measure(&mut card, name, GridName::Reduced, set, Some(6)).unwrap().summary()
}

#[test]
fn the_ideal_of_a_load_is_of_that_load() {
    let set = ["receive=multi-queue", "ports=1", "queues=1,2", "cores=each", "frame=64,1518"];
    let summary = slower("queue-scaling", &set);
    for frame in ["64", "1518"] {
        let place = [("receive", "multi-queue"), ("cores", "2"), ("frame", frame)];
        // 100 of 160 ns, and twice both where frames are long.
        assert_eq!(cell_at(&summary.experiments[0].tables[0], &place, "of ideal"), "62.5 %");
    }
}

#[test]
fn curves_over_queues_are_told_apart_by_their_load() {
    let set = ["ports=1", "queues=2,4", "cores=2", "frame=64,1518"];
    let summary = slower("queue-overhead", &set);
    let figures = &summary.experiments[0].figures;
    let figure = figures.iter().find(|figure| figure.id == "queue-overhead-queues-all").unwrap();
    let names: Vec<&str> = figure.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["card, 2 cores, 1518 B frames", "card, 2 cores, 64 B frames"]);
    assert!(figure.series.iter().all(|series| series.points.len() == 2), "{figure:#?}");
    let plain = slower("queue-overhead", &["ports=1", "queues=2,4", "cores=2", "frame=64"]);
    let figures = &plain.experiments[0].figures;
    assert!(figures.iter().any(|figure| figure.series.iter().any(|of| of.name == "card, 2 cores")));
}

/// The findings of a card, where its throughput on two cores is these multiples of what it is,
/// repeat by repeat.
fn with_two_cores(factors: [f64; 6]) -> Summary {
    let set = ["receive=multi-queue,serial", "ports=1", "queues=1,2", "cores=each"];
    let mut card = Slower(DeviceInfo { name: "card".into(), ..DeviceInfo::default() });
    let mut measured =
        measure(&mut card, "queue-scaling", GridName::Reduced, &set, Some(6)).unwrap();
    for sample in &mut measured.samples {
        if sample.point["cores"].to_string() == "2" {
            let value = sample.metrics.get_mut("throughput_pps");
            value.into_iter().for_each(|it| it.value *= factors[sample.repeat as usize]);
        }
    }
    measured.summary()
}

#[test]
fn cores_that_may_forward_more_than_one_or_less_are_no_finding() {
    let has = |summary: &Summary| summary.findings.iter().any(|of| of.id.contains("-cores-"));
    // 1.25 times what one core does: 0.58 to 1.70 of it.
    let undecided = with_two_cores([0.82, 1.7, 0.58, 0.8, 0.7, 1.3].map(|ratio| ratio / 1.25));
    assert!(!has(&undecided), "{:#?}", undecided.findings);
    let (sentence, ratio) = finding(&with_two_cores([1.0; 6]), "cores-1-2-2");
    assert!((ratio - 25.0).abs() < 1e-6, "{sentence}");
    let none = with_two_cores([0.99, 1.0, 1.01, 0.98, 1.02, 1.0].map(|ratio| ratio / 1.25));
    let of = none.findings.iter().find(|of| of.id.ends_with("cores-1-2-2")).unwrap();
    assert_eq!(of.implication, "More cores forward no more: look for the bottleneck.");
}

#[test]
fn one_core_forwards_and_two_cores_forward() {
    let set = |cores: &'static str| ["ports=1", "queues=2,4", cores, "frame=64"];
    let (one, _) = finding(&slower("queue-overhead", &set("cores=1")), "queues-1-4-1");
    assert_eq!(
        one,
        "card with 4 queues on one core reaches 100 % of its throughput with 2 queues."
    );
    let (two, _) = finding(&slower("queue-overhead", &set("cores=2")), "queues-1-4-2");
    assert!(two.starts_with("card with 4 queues on 2 cores reaches 100 %"), "{two}");
}

#[test]
fn a_point_of_two_experiments_that_disagree_is_a_warning() {
    let with = |factor: f64| {
        let of = |name: &str| {
            let mut card = Slower(DeviceInfo { name: "card".into(), ..DeviceInfo::default() });
            let set = ["ports=1", "queues=2", "cores=2", "frame=64"];
            measure(&mut card, name, GridName::Reduced, &set, Some(6)).unwrap()
        };
        let (mut scaling, overhead) = (of("queue-scaling"), of("queue-overhead"));
        scaling.run.experiments.extend(overhead.run.experiments);
        scaling.samples.extend(overhead.samples);
        for sample in &mut scaling.samples {
            let value = sample.metrics.get_mut("throughput_pps");
            let value = value.filter(|_| sample.experiment == "queue-overhead");
            value.into_iter().for_each(|it| it.value *= factor);
        }
        let warnings = scaling.summary().warnings;
        warnings.into_iter().filter(|of| of.contains("disagree")).collect::<Vec<String>>()
    };
    assert_eq!(with(1.0), Vec::<String>::new());
    let warnings = with(1.25 / 0.82);
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    let start =
        "card: queue-scaling and queue-overhead disagree at 1 of 1 point that both measured";
    assert!(warning.starts_with(start), "{warning}");
}
