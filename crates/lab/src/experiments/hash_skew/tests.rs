//! Queue counters with a known distribution, and cards with a known hash and known queues.

use niclab_device::model::profile::Profile;
use niclab_device::model::{Model, read};
use niclab_device::{
    Arrivals, Load, LoadObservation, PortCounters, QueueCounters, Rate, Rss, Setup,
};
use niclab_packet::flow::{FlowSpec, Popularity};
use niclab_packet::size::FrameSizes;
use niclab_result::{Coordinate, Finding, Summary};

use super::metrics::{hash_shares, put_queues};
use super::spec::RssSweep;
use super::trials::places;
use crate::measure::Metrics;
use crate::place::SweepPoint;
use crate::spec::GridName;
use crate::validation::{MeasuredModel, measure};
use crate::values::Values;

fn load() -> Load {
    Load {
        flows: FlowSpec::default(),
        sizes: FrameSizes::Fixed(64),
        rate: Rate::Saturate,
        arrivals: Arrivals::Constant,
        duration_ns: 400_000_000,
        warmup_ns: 100_000_000,
        seed: 1,
        trace: None,
    }
}

/// What queues show that took and missed so many frames in half a second.
fn metrics(queues: &[(u64, u64)], hashed: &[f64]) -> Vec<(String, f64)> {
    let of = |(rx_frames, rx_missed): &(u64, u64)| QueueCounters {
        rx_frames: *rx_frames,
        rx_missed: *rx_missed,
        ..QueueCounters::default()
    };
    let queues = queues.iter().map(of).collect();
    let device = Some(PortCounters { queues, ..PortCounters::default() });
    let mut metrics = Metrics::new();
    put_queues(
        &mut metrics,
        &LoadObservation { device, ..LoadObservation::default() },
        (&load(), 2),
        hashed,
    );
    metrics.into_iter().map(|(name, quantity)| (name, quantity.value)).collect()
}

fn named(metrics: &[(&str, f64)]) -> Vec<(String, f64)> {
    metrics.iter().map(|(name, value)| (name.to_string(), *value)).collect()
}

#[test]
fn frames_of_a_queue_are_those_received_and_those_missed() {
    let queues = [(100_000, 300_000), (200_000, 0), (190_000, 10_000), (200_000, 0)];
    let observation = metrics(&queues, &[0.3, 0.25, 0.25, 0.2]);
    let want = [
        ("busiest_queue_ratio", 1.6),
        // A full queue missed more than one of 20.
        ("fastest_queue_pps", 400_000.0),
        ("full_queue_pps", 200_000.0),
        ("hashed_busiest_queue_ratio", 1.2),
        // Of a million 400,000 came where 300,000 were to come.
        ("misplaced_by_chance_ratio", 0.0),
        ("misplaced_ratio", 0.1),
    ];
    let is_near = |((name, a), (other, b)): (&(String, f64), &(&str, f64))| {
        name == other && ((a - b).abs() < 1e-9 || name.contains("chance"))
    };
    assert!(
        observation.len() == want.len() && observation.iter().zip(&want).all(is_near),
        "{observation:?}"
    );
    // Chance: sqrt(0.3 * 0.7 / 1e6) and so on, their sum by sqrt(2 pi).
    let deviations: f64 =
        [0.3, 0.25, 0.25, 0.2].iter().map(|p: &f64| (p * (1.0 - p) / 1e6).sqrt()).sum();
    let chance =
        observation.iter().find(|(name, _)| name == "misplaced_by_chance_ratio").unwrap().1;
    assert!((chance / (deviations / 2.506_628_27) - 1.0).abs() < 1e-6, "{chance}");
}

#[test]
fn metrics_without_data_are_left_out() {
    let even = [(500, 0), (500, 0)];
    let plain = named(&[("busiest_queue_ratio", 1.0), ("fastest_queue_pps", 1_000.0)]);
    assert_eq!(metrics(&even, &[]), plain, "no hash, and no queue is full");
    assert_eq!(metrics(&even, &[1.0]), plain, "a spread over other queues");
    let single = named(&[("busiest_queue_ratio", 1.0), ("fastest_queue_pps", 1_000.0)]);
    assert_eq!(metrics(&[(500, 0)], &[]), single);
    assert_eq!(metrics(&[(0, 0), (0, 0)], &[0.5, 0.5]), []);
    let mut none = Metrics::new();
    put_queues(&mut none, &LoadObservation::default(), (&load(), 1), &[0.5, 0.5]);
    assert!(none.is_empty());
}

#[test]
fn where_each_core_takes_its_flows_as_fast_as_it_can_the_spread_says_nothing_of_the_hash() {
    let queue = |rx_frames| QueueCounters { rx_frames, ..QueueCounters::default() };
    // The core of the even queues is faster.
    let queues = [600, 400, 600, 400].map(queue).to_vec();
    let device = Some(PortCounters { queues, ..PortCounters::default() });
    let card = LoadObservation { device, card_frames: Some(2_000), ..LoadObservation::default() };
    let names = |observation: &LoadObservation, load: &Load, cores| -> Vec<String> {
        let mut metrics = Metrics::new();
        put_queues(&mut metrics, observation, (load, cores), &[0.25; 4]);
        metrics.into_keys().collect()
    };
    assert_eq!(names(&card, &load(), 2), ["fastest_queue_pps"]);
    let whole = names(&card, &load(), 1);
    assert!(whole.iter().any(|name| name == "misplaced_ratio"), "{whole:?}");
    let clocked = Load { rate: Rate::Pps(1e6), ..load() };
    assert_eq!(names(&card, &clocked, 2), whole, "frames come to all cores by one clock");
    let other = LoadObservation { card_frames: None, ..card };
    assert_eq!(names(&other, &load(), 2), whole, "a device whose generator sends all flows");
}

#[test]
fn the_flows_of_a_trace_nobody_knows() {
    let place = SweepPoint::without_rules(1);
    let setup = Setup { queues: 2, ..place.setup(1, 64) };
    let rss = Rss::default();
    assert_eq!(hash_shares(&rss, &setup, &load()), Some(vec![1.0, 0.0]));
    let trace = Load { trace: Some("a.pcap".into()), ..load() };
    assert_eq!(hash_shares(&rss, &setup, &trace), None);
}

fn sweep(queues: &str, cores: &str, zipf: &str) -> RssSweep {
    let [queues, cores, flows, zipf, frame] =
        [queues, cores, "10", zipf, "64"].map(|text| Values::parse(text).unwrap());
    RssSweep { queues, cores, flows, zipf, frame }
}

#[test]
fn there_are_never_more_cores_than_queues_and_exponents_have_a_fraction() {
    let places = places(&sweep("2,8", "1,4,each", "0,1.1")).unwrap();
    let of = |zipf: f64| {
        let of = places.iter().filter(|place| place.zipf == Some(zipf));
        of.map(|place| (place.queues, place.cores)).collect::<Vec<(u32, u32)>>()
    };
    for zipf in [0.0, 1.1] {
        assert_eq!(of(zipf), [(2, 1), (2, 2), (2, 2), (8, 1), (8, 4), (8, 8)]);
    }
    assert_eq!(places[1].traffic(3).popularity, Popularity::Zipf { exponent: 1.1 });
    assert_eq!(places[0].traffic(3).popularity, Popularity::Uniform);
    assert_eq!(places[1].point()["zipf"], Coordinate::Number(1.1));
}

/// What is found of a card with such limits.
fn found(limits: &[(&str, f64)], set: &[&str]) -> (Vec<Finding>, Summary) {
    let summary = measured(limits, set).summary();
    (summary.findings.clone(), summary)
}

/// A card with such limits, measured.
fn measured(limits: &[(&str, f64)], set: &[&str]) -> MeasuredModel {
    let mut profile: Profile = read("connectx-5").unwrap();
    limits.iter().for_each(|(limit, value)| profile.inject(limit, *value));
    let mut card = Model::new("card", profile, 5);
    measure(&mut card, "hash-skew", GridName::Reduced, set, Some(6)).unwrap()
}

#[test]
fn a_model_that_agrees_with_its_own_computation_is_no_finding() {
    let mut measured = measured(&[], &[]);
    assert_eq!(finding(&measured.summary().findings, "followed"), None);
    // The same counters of a card that is measured are one.
    measured.run.devices[0].about.in_virtual_time = false;
    let (sentence, _) = finding(&measured.summary().findings, "followed").unwrap();
    assert!(
        sentence
            .starts_with("card puts the frames of 1,000,000 flows over 8 queues into the queues")
    );
}

fn finding(findings: &[Finding], id: &str) -> Option<(String, f64)> {
    let of = findings.iter().find(|finding| finding.id == format!("card-{id}"));
    of.map(|finding| (finding.sentence.clone(), finding.value.value))
}

#[test]
fn a_card_that_does_as_it_says_is_distinguished_from_one_that_does_not() {
    let (findings, summary) = found(&[], &[]);
    let (sentence, value) = finding(&findings, "evenness").unwrap();
    assert!(
        sentence.contains("With 16 flows over 8 queues, the busiest queue of card"),
        "{sentence}"
    );
    assert!(sentence.contains(" by its hash). With 1,000,000 flows it gets 1.0"), "{sentence}");
    assert!(value > 1.5, "{value}");
    let (sentence, value) = finding(&findings, "popular").unwrap();
    // The first flow has 1/2.6 of the frames, as the sum over 1/i^1.5 is.
    assert!(sentence.contains("1 / i^1.5") && (3.0..4.0).contains(&value), "{sentence}");
    let implied = |findings: &[Finding], id: &str| {
        let of = findings.iter().find(|finding| finding.id == format!("card-{id}"));
        of.map(|finding| finding.implication.clone()).unwrap_or_default()
    };
    assert!(implied(&findings, "popular").starts_with("The first flow alone"));
    assert!(implied(&findings, "evenness").contains("other cores are still partly idle"));
    let (even, _) = found(&[], &["flows=64k,1M", "zipf=0,0.1", "cores=1"]);
    assert!(implied(&even, "popular").contains("hardly change"), "{even:?}");
    assert!(implied(&even, "evenness").contains("about the same load"), "{even:?}");
    for id in ["misplaced", "slow-queue"] {
        assert_eq!(finding(&findings, id), None);
    }
    let [experiment] = &summary.experiments[..] else { panic!("one experiment") };
    let ids: Vec<&str> = experiment.figures.iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(ids, ["hash-skew-8-64", "hash-skew-popularity", "hash-skew-queues"]);
    let rows = |table: usize| experiment.tables[table].rows.len();
    assert_eq!((experiment.tables.len(), rows(0), rows(1)), (2, 9, 8));
    assert!(findings.iter().all(|finding| finding.figure.is_some()));

    let (findings, _) = found(&[("skew_ratio", 0.05)], &[]);
    let (sentence, value) = finding(&findings, "misplaced").unwrap();
    assert!(sentence.contains("Most of them are in queue 0."), "{sentence}");
    assert!((value - 5.0).abs() < 0.1, "{value}");
    assert_eq!(finding(&findings, "followed"), None);
}

#[test]
fn a_queue_that_is_slow_is_reported_by_its_number_and_a_busy_one_is_not_slow() {
    let place = ["queues=4", "cores=each", "flows=64k", "zipf=0"];
    let (findings, _) = found(&[("slow_queue_pps", 0.5e6)], &place);
    let (sentence, value) = finding(&findings, "slow-queue").unwrap();
    assert!(sentence.starts_with("Queue 3 of card receives 5"), "{sentence}");
    assert!(
        sentence.contains("64,000 flows over 4 queues, all equally often, 4 cores"),
        "{sentence}"
    );
    assert!((value / 0.5e6 - 1.0).abs() < 0.05, "{value}");
    // The hash of popular flows fills one queue, whose core takes more than the others get.
    let (findings, _) = found(&[], &["queues=4", "cores=each", "flows=64k", "zipf=2"]);
    assert_eq!(finding(&findings, "slow-queue"), None);
    // Queues that share a core are full before those that do not, and none is slow.
    for cores in ["cores=1", "cores=3"] {
        let (findings, _) = found(&[], &["queues=4", cores, "flows=64k", "zipf=0"]);
        assert_eq!(finding(&findings, "slow-queue"), None, "{cores}");
    }
}

#[test]
fn a_single_queue_has_no_spread() {
    let (findings, summary) = found(&[], &["queues=1", "cores=1", "flows=64k", "zipf=0"]);
    assert_eq!(findings, []);
    let figures: usize =
        summary.experiments.iter().map(|experiment| experiment.figures.len()).sum();
    assert_eq!(figures, 0);
    assert_eq!(summary.warnings, ["card is computed, not measured."]);
}
