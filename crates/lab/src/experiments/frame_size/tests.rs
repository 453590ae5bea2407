//! Devices with known rates, and cards with known parts.

use niclab_device::model::profile::{Basis, Entry, Part as Known, Profile};
use niclab_device::model::schema::SECTIONS;
use niclab_device::model::{Model, read};
use niclab_device::{
    DeviceError, DeviceInfo, Honesty, LoadObservation, Observation, PortCounters, QueueCounters,
    Rate, Setup, SetupReport, Task, Testbed,
};
use niclab_result::{Coordinate, Latencies, Origin, Summary};

use super::analysis::{Bottleneck, SaturatedLength, binding, filled_from};
use super::metrics::{EARLY_MISSED, IDLE, RING_MISSED, put_limits};
use super::spec::SizeSweep;
use super::trials::places;
use crate::measure::Metrics;
use crate::spec::GridName;
use crate::summary::summarize;
use crate::throughput::{Mode, resolved_goals};
use crate::validation::measure;
use crate::values::Values;
use crate::wire::wire_ns;

/// A frame size that shows no limit but its rate.
fn shown(frame_len: f64, pps: f64) -> SaturatedLength {
    SaturatedLength { frame_len, pps, ..SaturatedLength::default() }
}

#[test]
fn the_last_part_that_frames_are_lost_in_front_of_binds() {
    let lost = |frame_len, pps, ring_missed, early_missed| SaturatedLength {
        ring_missed,
        early_missed,
        ..shown(frame_len, pps)
    };
    let check = |all: &[SaturatedLength], port_gbps, want: &[Option<Bottleneck>]| {
        assert_eq!(binding(all, port_gbps), want, "{all:?}");
    };
    // 14.88 Mpps fill 10 Gbps with 64 B; whoever is limited then, the wire is full.
    let full = SaturatedLength { is_generator_limited: true, ..shown(64.0, 14.8e6) };
    check(&[full], Some(10.0), &[Some(Bottleneck::Port)]);
    check(&[full], Some(40.0), &[Some(Bottleneck::Generator)]);
    check(&[full], None, &[Some(Bottleneck::Generator)]);
    check(&[shown(64.0, 14.0e6)], Some(10.0), &[None]);
    // Frames that are lost at both places find the ring full behind the other.
    check(&[lost(64.0, 5e6, 0.3, 0.3)], Some(10.0), &[Some(Bottleneck::Cores)]);
    check(&[lost(64.0, 5e6, 0.01, 0.3)], Some(10.0), &[Some(Bottleneck::FrameRate)]);
    check(&[lost(64.0, 5e6, 0.01, 0.01)], Some(10.0), &[None]);
    // A core that is never idle needs no counters; one that is idle half of its time is not it.
    let idle = |idle, early_missed| SaturatedLength {
        idle: Some((idle, idle)),
        ..lost(64.0, 5e6, 0.0, early_missed)
    };
    check(&[idle(0.01, 0.0)], None, &[Some(Bottleneck::Cores)]);
    check(&[idle(0.01, 0.3)], None, &[Some(Bottleneck::Cores)]);
    check(&[idle(0.1, 0.3)], None, &[None]);
    check(&[idle(0.5, 0.3)], None, &[Some(Bottleneck::FrameRate)]);
    // Repeats in which a core is busy in some and idle in others tell neither.
    let mixed = SaturatedLength { idle: Some((0.01, 0.3)), ..idle(0.1, 0.3) };
    check(&[mixed], None, &[None]);
    // As many frames however long they are, then fewer, then a full wire.
    let rates = [(64.0, 11.7e6), (128.0, 11.6e6), (256.0, 8e6), (1_518.0, 3.25e6)];
    let all = rates.map(|(len, pps)| lost(len, pps, 0.0, if len < 1_000.0 { 0.2 } else { 0.0 }));
    let rate = Some(Bottleneck::FrameRate);
    check(&all, Some(40.0), &[rate, rate, Some(Bottleneck::Bytes), Some(Bottleneck::Port)]);
}

#[test]
fn a_port_is_filled_from_the_length_at_which_the_wire_takes_as_long_as_the_device() {
    let check = |rates: &[(f64, f64)], gbps, own, want: Option<f64>| {
        let found = filled_from(rates, gbps, own);
        let is_near = match (found, want) {
            (Some(found), Some(want)) => (found - want).abs() < 0.05,
            (found, want) => found == want,
        };
        assert!(is_near, "{rates:?} on {gbps} Gbps: {found:?}, {want:?} expected");
    };
    // The study: 10^10 / (8 * 11.7e6) - 20, whether a port hides what 128 B take or not.
    let line = 1e9 / wire_ns(128.0, 10.0);
    check(&[(64.0, 11.7e6), (128.0, line)], 10.0, Some(10.0), Some(86.84));
    check(&[(64.0, 11.7e6), (128.0, 11.7e6)], 10.0, None, Some(86.84));
    // 50 ns and half a nanosecond a byte, a straight line: 50 + b / 2 = (b + 20) * 8 / 10.
    let rates = [64.0, 128.0, 1_518.0].map(|bytes| (bytes, 1e9 / (50.0 + bytes / 2.0)));
    check(&rates, 10.0, None, Some(34.0 / 0.3));
    check(&rates, 100.0, None, None);
    // The shortest frames fill it already.
    check(&rates, 1.0, None, Some(64.0));
    check(&[(64.0, 1e9 / wire_ns(64.0, 10.0))], 10.0, Some(10.0), Some(64.0));
    check(&[], 10.0, None, None);
    check(&[(64.0, 0.0)], 10.0, None, None);
}

#[test]
fn losses_at_rings_come_after_earlier_losses() {
    let queue = |rx_frames, rx_missed| QueueCounters { rx_frames, rx_missed, ..Default::default() };
    let of = |queues: Vec<QueueCounters>, rx_missed| PortCounters {
        queues,
        rx_missed,
        ..PortCounters::default()
    };
    let mut sent = PortCounters { queues: vec![queue(0, 0)], ..PortCounters::default() };
    sent.queues[0].tx_frames = 1_000;
    let observation = LoadObservation {
        generator: sent,
        device: Some(of(vec![queue(500, 100), queue(100, 50)], 400)),
        honesty: Honesty { device_idle_ratio: Some(0.25), ..Honesty::default() },
        ..LoadObservation::default()
    };
    let mut metrics = Metrics::new();
    put_limits(&mut metrics, &observation);
    let values: Vec<(&str, f64)> =
        metrics.iter().map(|(name, of)| (name.as_str(), of.value)).collect();
    assert_eq!(values, [(IDLE, 0.25), (EARLY_MISSED, 0.25), (RING_MISSED, 0.15)]);
    let mut none = Metrics::new();
    put_limits(&mut none, &LoadObservation::default());
    assert!(none.is_empty(), "{none:?}");
}

#[test]
fn a_place_has_no_more_cores_than_queues_and_a_goal_is_needed() {
    let values = |text: &str| Values::parse(text).unwrap();
    let sweep = SizeSweep {
        queues: values("1,4"),
        cores: values("2,each"),
        flows: values("10"),
        frame: values("64"),
        goal: Vec::new(),
    };
    let of: Vec<(u32, u32)> =
        places(&sweep).unwrap().into_iter().map(|of| (of.queues, of.cores)).collect();
    assert_eq!(of, [(1, 1), (1, 1), (4, 2), (4, 4)]);
    let error = resolved_goals(Mode::Mlrsearch, &sweep.goal).unwrap_err().to_string();
    assert!(error.starts_with("goal = none: a search needs one"), "{error}");
    let text = crate::experiments::text("frame-size").unwrap();
    let strange = text.replace("kind = \"frame_size\"", "kind = \"hash_skew\"");
    let error = crate::spec::Spec::parse("mine", &strange).unwrap_err().to_string();
    assert!(error.contains("unknown field `size`, expected one of `repeats`"), "{error}");
}

/// A card with numbers of a section, those of its other sections as in its profile.
fn card(name: &str, section: &str, numbers: &[(&str, f64)]) -> Profile {
    let plain = read(name).unwrap();
    let entry = |key: &'static niclab_device::model::schema::Key| {
        let of = numbers.iter().find(|(name, _)| *name == key.name);
        let injected = |(_, value): &(&str, f64)| {
            let (basis, source) = (Basis::Injected, "test".to_owned());
            Entry::Known { value: *value, basis, source }
        };
        (key, of.map_or_else(|| plain.entry(section, key.name).clone(), injected))
    };
    let (title, source) = (plain.title.clone(), plain.source.clone());
    let keys = SECTIONS.iter().find(|of| of.name == section).unwrap().keys;
    Profile::of(title, source, Vec::new(), |of| match of.name == section {
        true => Known::Known(keys.iter().map(entry).collect()),
        false => plain.part(of.name).clone(),
    })
}

fn found(profile: Profile, set: &[&str]) -> Summary {
    let mut card = Model::new("card", profile, 5);
    measure(&mut card, "frame-size", GridName::Reduced, set, Some(6)).unwrap().summary()
}

/// What a finding about so many queues says, and its number.
fn finding(summary: &Summary, id: &str) -> (String, f64) {
    let mut of = summary.findings.iter().filter(|finding| finding.id.starts_with(id));
    let (found, other) = (of.next(), of.next());
    assert!(other.is_none(), "{id} is no single finding");
    found.map_or((String::new(), 0.0), |f| (f.sentence.clone(), f.value.value))
}

#[test]
fn the_card_of_the_study_fills_its_port_as_the_study_found() {
    let summary = found(read("82599").unwrap(), &[]);
    let (sentence, bytes) = finding(&summary, "card-line-rate-4-4-");
    assert!(sentence.contains("card forwards 11."), "{sentence}");
    // 10,000 flows are not quite even, which a search for half a percent of loss sees more of.
    assert!(sentence.contains("at a loss of 0.5 % or less, from"), "{sentence}");
    let published = crate::published::presto10::stated("saturating_average_packet_size").unwrap();
    assert!((bytes / published - 1.0).abs() < 0.03, "{bytes} B, {published} B published");
    let (sentence, _) = finding(&summary, "card-bound-4-4-");
    assert!(sentence.contains("the card's frame rate with 64 B frames"), "{sentence}");
    assert!(sentence.contains("then by the port with 128 B frames"), "{sentence}");
    // One core is the limit before the card is.
    let (sentence, _) = finding(&summary, "card-bound-1-1-");
    let expected = "card with one queue on one core is limited by the cores with 64 to 256 B \
                    frames";
    assert!(sentence.starts_with(expected), "{sentence}");
    assert!(sentence.contains("then by the port with 1518 B frames"), "{sentence}");
    let [experiment] = &summary.experiments[..] else { panic!("one experiment") };
    let ids: Vec<&str> = experiment.figures.iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(ids, ["frame-size-pps", "frame-size-gbps"]);
    let published =
        experiment.figures[0].series.iter().filter(|series| series.origin == Origin::Published);
    assert_eq!(published.map(|series| series.points.len()).collect::<Vec<_>>(), [2]);
    assert_eq!(experiment.tables.len(), 1);
    assert_eq!(experiment.tables[0].rows.len(), 6);
}

#[test]
fn a_bus_is_distinguished_from_a_frame_rate_and_a_core_by_how_its_rate_falls() {
    let sizes = ["queues=8", "cores=each", "frame=64,256,512,1518"];
    // 20 ns and 0.12 ns a byte: 27.7 ns for 64 B, 81.4 ns for 512 B, and 202 ns where the wire of
    // 100 Gbps takes 123 ns for 1518 B; the cores could do more.
    let bus = card("connectx-5", "pcie", &[("frame_ns", 20.0), ("byte_ps", 120.0)]);
    let of = |profile: Profile| {
        let fast = profile.scaled("host", "frame_ns", 0.1);
        let summary = found(fast, &sizes);
        (finding(&summary, "card-bound-8-8-").0, finding(&summary, "card-line-rate-8-8-"))
    };
    let (bound, (line, _)) = of(bus);
    assert!(bound.contains("the cost per byte with 256 to 1518 B frames"), "{bound}");
    assert!(line.contains("Even 1518 B frames do not fill its 100 Gbps port"), "{line}");
    // 50 ns whatever the length: 20 Mpps, 605 B.
    let slow = card("connectx-5", "port", &[("frame_rate_max", 20e6)]);
    let (bound, (line, bytes)) = of(slow);
    assert!(bound.contains("the card's frame rate with 64 to 512 B frames"), "{bound}");
    assert!(bound.contains("then by the port with 1518 B frames"), "{bound}");
    assert!((bytes / 605.0 - 1.0).abs() < 0.03, "{line}");
    // A slower core is no card.
    let summary = found(read("connectx-5").unwrap().scaled("host", "frame_ns", 4.0), &sizes);
    let (bound, _) = finding(&summary, "card-bound-8-8-");
    assert!(bound.contains("the cores with 64 to"), "{bound}");
}

#[test]
fn a_device_without_a_line_rate_has_the_ports_that_it_would_fill() {
    use crate::simulated::{Bench, Nature};
    let mut bench = Bench::of("frame-size", vec![Nature::default()], &["cores=1", "queues=1"], 6);
    bench.execute();
    let summary = summarize(&bench.run, &bench.store.samples, &Latencies::new());
    let (sentence, _) = finding(&summary, "simulated-line-rate-1-1-");
    assert!(sentence.contains("has no line rate"), "{sentence}: {:?}", summary.findings);
    assert!(sentence.contains("would fill a port of 10 Gbps"), "{sentence}");
}

/// A card that loses a tenth of what comes at full load: at rings with 64 and 256 B frames, and
/// with 512 B frames its core is never idle; of 128 B frames nothing is known.
struct Partly(DeviceInfo);

impl Testbed for Partly {
    fn about(&self) -> &DeviceInfo {
        &self.0
    }

    fn setup(&mut self, _: &Setup) -> Result<SetupReport, DeviceError> {
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let Task::Load { load, .. } = task else { return Err(task.not_supported()) };
        let (size, full) = (load.sizes.max(), load.rate == Rate::Saturate);
        let offered = match load.rate {
            Rate::Pps(pps) => (pps * load.duration_ns as f64 / 1e9) as u64,
            _ => load.duration_ns / 100,
        };
        let lost = if full { offered / 10 } else { 0 };
        let of_ring = if full && [64, 256].contains(&size) { lost } else { 0 };
        let queue = QueueCounters { rx_missed: of_ring, ..QueueCounters::default() };
        let sent = QueueCounters { tx_frames: offered, ..QueueCounters::default() };
        let port = |queue| PortCounters { queues: vec![queue], ..PortCounters::default() };
        Ok(Observation::Load(LoadObservation {
            planned: offered,
            offered,
            received: offered - lost,
            lost,
            duration_ns: load.duration_ns,
            generator: port(sent),
            device: Some(port(queue)),
            honesty: Honesty {
                achieved_ratio: 1.0,
                balanced: true,
                device_idle_ratio: (size == 512).then_some(0.0),
                ..Honesty::default()
            },
            ..LoadObservation::default()
        }))
    }
}

#[test]
fn lengths_of_which_nothing_is_known_part_those_of_which_something_is() {
    let mut card = Partly(DeviceInfo { name: "card".into(), ..DeviceInfo::default() });
    let set = ["queues=1", "cores=1", "frame=64,128,256,512"];
    let found = measure(&mut card, "frame-size", GridName::Reduced, &set, Some(6)).unwrap();
    let (bound, _) = finding(&found.summary(), "card-bound-1-1-");
    let expected = "card with one queue on one core is limited by the cores with 64 B frames \
                    (rings are full), then by the cores with 256 to 512 B frames (rings are full, \
                    or the polling core is almost never idle).";
    assert_eq!(bound, expected);
}

#[test]
fn a_length_by_search_is_of_searches_alone() {
    let summary = found(read("82599").unwrap(), &["queues=4", "cores=4"]);
    let (whole, _) = finding(&summary, "card-line-rate-4-4-");
    assert!(whole.contains("at a loss of 0.5 % or less, from"), "{whole}");
    let mut card = Model::new("card", read("82599").unwrap(), 5);
    let set = ["queues=4", "cores=4"];
    let mut found = measure(&mut card, "frame-size", GridName::Reduced, &set, Some(6)).unwrap();
    let is_first = |of: &niclab_result::Sample| {
        of.trial == "mlrsearch" && of.point.get("frame") == Some(&Coordinate::Number(64.0))
    };
    found.samples.retain(|sample| !is_first(sample));
    let (part, _) = finding(&found.summary(), "card-line-rate-4-4-");
    assert!(part.contains("Its 10 Gbps port is full from"), "{part}");
    assert!(!part.contains("at a loss of"), "{part}");
}
