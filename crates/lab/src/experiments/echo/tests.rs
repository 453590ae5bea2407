//! Two hosts with known round trips, and the findings from them.

use niclab_device::echo::{Echoed, Pace, Receive, Served, Transport};
use niclab_device::{
    DeviceError, DeviceInfo, Family, Feature, Host, Latency, Observation, PathNode, RoundTrips,
    RoundTripsObservation, Setup, SetupReport, Task, Testbed,
};
use niclab_result::{Mark, Origin, Outcome};

use super::metrics::{ended, marks};
use crate::hosts::RTT;
use crate::simulated::{Bench, Nature, cell_at};
use crate::spec::GridName;
use crate::validation::{MeasuredModel, measure};

/// Messages take 20 us, and 1 us for each 1000 bytes; over TCP a fifth more, between programs that
/// poll half, from there a third more, a microsecond for each other message of a batch, and what is
/// in the path costs what stands in [`rtt_ns`].
struct Hosts {
    about: DeviceInfo,
    /// Tasks after which the server is gone.
    tasks_max: u32,
    tasks: u32,
    /// What it cannot do.
    lacks: Option<(Family, &'static str)>,
}

impl Hosts {
    fn new() -> Hosts {
        let seat = |role: &str| PathNode { role: role.into(), label: "a host".into(), core: None };
        let hosts = ["client", "wire", "server"].map(seat).into();
        let about = DeviceInfo { name: "known".into(), hosts, ..DeviceInfo::default() };
        Hosts { about, tasks_max: u32::MAX, tasks: 0, lacks: None }
    }
}

fn rtt_ns(trips: &RoundTrips) -> f64 {
    let echo = &trips.echo;
    let base = 20_000.0 + f64::from(echo.size) + 1_000.0 * f64::from(echo.batch - 1);
    let transport = if echo.transport == Transport::Tcp { 1.2 } else { 1.0 };
    let receive = if echo.receive == Receive::BusyPoll { 0.5 } else { 1.0 };
    let client = if trips.client == Host::There { 4.0 / 3.0 } else { 1.0 };
    let feature = match &trips.feature {
        Feature::None => 0.0,
        Feature::Nft { rules } => 500.0 + 6.0 * f64::from(*rules),
        Feature::Vxlan => 2_500.0,
        Feature::Qdisc { name } => 100.0 * name.len() as f64,
    };
    base * transport * receive * client + feature
}

impl Testbed for Hosts {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        assert!(setup.rules.is_empty(), "round trips need no rules");
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let Task::RoundTrips(trips) = task else { return Err(task.not_supported()) };
        if let Some((family, capability)) = self.lacks
            && family == trips.family
        {
            return Err(DeviceError::lacks(capability));
        }
        self.tasks += 1;
        if self.tasks > self.tasks_max {
            let (device, reason) = ("known".into(), "nobody answers".into());
            return Err(DeviceError::Broken { device, reason });
        }
        let (echo, rtt_ns) = (&trips.echo, rtt_ns(trips));
        let per_s = match echo.pace {
            Pace::Closed => f64::from(echo.batch) / rtt_ns * 1e9,
            Pace::Open { per_s } => per_s,
        };
        let planned = (per_s * echo.duration_ns as f64 / 1e9) as u64;
        let (sent, mut rtt) = (planned.min(1_000_000), Latency::new());
        rtt.record_n(rtt_ns as u64, sent);
        let ended = (self.tasks == self.tasks_max).then(|| "it went".to_owned());
        let echoed = Echoed {
            duration_ns: echo.duration_ns,
            planned,
            sent,
            unsent: planned - sent,
            answered: sent,
            rtt,
            ended,
            ..Echoed::default()
        };
        Ok(Observation::RoundTrips(RoundTripsObservation {
            echoed,
            served: Some(Served::default()),
        }))
    }
}

fn measured(hosts: &mut Hosts, name: &str, set: &[&str]) -> MeasuredModel {
    measure(hosts, name, GridName::Reduced, set, Some(6)).unwrap()
}

fn finding(measured: &MeasuredModel, id: &str) -> (String, f64) {
    let findings = measured.summary().findings;
    let found = findings.iter().find(|finding| finding.id == format!("known-{id}"));
    let found = found.unwrap_or_else(|| panic!("no {id} among {findings:#?}"));
    (found.sentence.clone(), found.value.value)
}

/// `true` within a thousandth: what a histogram keeps.
fn near(value: f64, wanted: f64) -> bool {
    (value / wanted - 1.0).abs() < 2e-3
}

#[test]
fn the_costs_of_length_protocol_waiting_and_direction_are_found() {
    let measured = measured(&mut Hosts::new(), "echo-size", &[]);
    assert!(!measured.summary().partial);
    let (sentence, value) = finding(&measured, "echo-size-rtt");
    assert!(
        sentence.starts_with("A UDP round trip of 64 B takes 20.1 us on known, and "),
        "{sentence}"
    );
    assert!(near(value, 20_064.0), "{value}");
    let (sentence, value) = finding(&measured, "echo-size-length");
    assert!(sentence.contains("from 64 B to 65,507 B"), "{sentence}");
    assert!(near(value, 1_000.0), "{value}");
    for (id, words, ratio) in [
        ("echo-size-tcp", "A round trip of 64 B over TCP takes 19.9 % longer than over UDP", 1.2),
        ("echo-size-busy-poll", "takes 50.0 % less time than with blocking receives", 0.5),
        ("echo-size-there", "A round trip of 64 B from the other host takes 33.3 %", 4.0 / 3.0),
    ] {
        let (sentence, value) = finding(&measured, id);
        assert!(sentence.contains(words), "{sentence}");
        let change = if sentence.contains("longer") { value } else { -value };
        assert!(near(1.0 + change / 100.0, ratio), "{value}");
    }
}

#[test]
fn the_best_batch_is_found_and_what_a_message_takes_in_it() {
    let measured = measured(&mut Hosts::new(), "echo-batch", &[]);
    let (sentence, value) = finding(&measured, "echo-batch-best");
    // 1024 in 21.472 + 1023 us, against one in 21.472 us.
    let gain = 1024.0 * 21_472.0 / (21_472.0 + 1_023_000.0);
    assert!(near(value, gain), "{value} for {gain}");
    assert!(sentence.contains(" 21.1 times as fast as one at a time"), "{sentence}");
    let summary = measured.summary();
    let ids: Vec<&str> =
        summary.experiments[0].figures.iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(ids, ["echo-batch-rtt-batch", "echo-batch-rate-batch"]);
    let table = &summary.experiments[0].tables[0];
    let open = [("rate", "20,000/s"), ("batch", "16")];
    assert_eq!(cell_at(table, &open, "answered/s"), "20,000");
}

#[test]
fn ours_stands_beside_the_published_table_in_both_directions() {
    let measured = measured(&mut Hosts::new(), "echo-size", &[]);
    let summary = measured.summary();
    let table = &summary.experiments[0].tables[1];
    let at = |host: &str, column: &str| cell_at(table, &[("host", host)], column);
    assert_eq!(at("known", "64 B, us"), "20.08 (26.77)");
    assert_eq!(at("CX-4Lx, host", "1024 B, us"), "23.28 (22.42)");
    assert_eq!(table.rows.len(), 1 + 7, "all rows of the study");
    // The figure has those whose client ran on a host.
    let figure = &summary.experiments[0].figures[0];
    let of_study = figure.series.iter().filter(|of| of.origin == Origin::Published);
    let names: Vec<&str> = of_study.map(|of| of.name.as_str()).collect();
    let hosts = ["CX-4Lx, host", "Stingray, host", "BlueField2, host"];
    assert!(hosts.map(|host| format!("{host} (published)")).iter().eq(names.iter()), "{names:?}");
}

#[test]
fn a_server_that_goes_leaves_what_was_measured_and_ends_the_device() {
    let mut hosts = Hosts { tasks_max: 10, ..Hosts::new() };
    let measured = measured(&mut hosts, "echo-size", &[]);
    let outcomes: Vec<&Outcome> = measured.samples.iter().map(|sample| &sample.outcome).collect();
    assert_eq!(outcomes.len(), 11);
    let (whole, rest) = outcomes.split_at(9);
    assert!(whole.iter().all(|outcome| **outcome == Outcome::Measured));
    assert!(matches!(rest[0], Outcome::Failed { reason, dropped: false } if reason == "it went"));
    assert!(matches!(rest[1], Outcome::Failed { dropped: true, .. }), "{rest:?}");
    let kept = &measured.samples[9];
    assert!(kept.metrics.contains_key(RTT) && kept.latency_tag.is_some());
    assert!(measured.summary().warnings.iter().any(|words| words.contains("it went")));
}

#[test]
fn a_missing_capability_of_a_host_bars_only_the_trials_that_need_it() {
    let mut hosts = Hosts { lacks: Some((Family::V6, "IPv6")), ..Hosts::new() };
    let set = ["family=ipv4,ipv6", "size=64", "receive=blocking", "client=here"];
    let measured = measured(&mut hosts, "echo-size", &set);
    let count = |outcome: fn(&Outcome) -> bool| {
        measured.samples.iter().filter(|sample| outcome(&sample.outcome)).count()
    };
    // UDP and TCP over IPv4, six repeats each; over IPv6 they are asked for once.
    assert_eq!(count(|outcome| *outcome == Outcome::Measured), 12);
    assert_eq!(count(|outcome| matches!(outcome, Outcome::NotSupported { .. })), 2);
    assert!(!measured.summary().partial);
}

#[test]
fn a_device_without_hosts_is_reported_once_and_gets_no_task() {
    let mut bench = Bench::of("echo-size", vec![Nature::default()], &[], 6);
    bench.execute();
    let outcomes: Vec<&Outcome> =
        bench.store.samples.iter().map(|sample| &sample.outcome).collect();
    assert_eq!(outcomes, [&Outcome::NotSupported { capability: "echo".into() }]);
    assert!(bench.devices[0].setups == 0 && bench.devices[0].trials == 0);
}

#[test]
fn requests_that_never_left_are_a_limit_of_the_client() {
    let mut hosts = Hosts::new();
    let set = ["rate=1000M", "size=64", "transport=udp", "client=here", "receive=blocking"];
    let measured = measured(&mut hosts, "echo-size", &set);
    assert!(measured.samples.iter().all(|s| s.marks.contains(&Mark::GeneratorLimited)));
    let unbalanced = Echoed { sent: 10, answered: 8, lost: 1, planned: 10, ..Echoed::default() };
    assert_eq!(marks(&unbalanced), [Mark::Unbalanced]);
}

#[test]
fn round_trips_that_sent_nothing_speak_for_nothing() {
    let sent = Echoed { sent: 2, lost: 2, planned: 2, ..Echoed::default() };
    assert_eq!(ended(&sent), None, "losses are a result");
    assert!(ended(&Echoed::default()).is_some_and(|why| why.contains("no message was sent")));
    let gone = Echoed { ended: Some("gone".into()), ..Echoed::default() };
    assert_eq!(ended(&gone).as_deref(), Some("gone"));
}

#[test]
fn the_cost_of_features_in_the_path_is_found() {
    let measured = measured(&mut Hosts::new(), "echo-features", &[]);
    let (sentence, value) = finding(&measured, "echo-features-rule");
    assert!(sentence.starts_with("An nftables rule that does not match adds 3"), "{sentence}");
    assert!((value - 3.0).abs() < 0.05, "{value}");
    let (sentence, value) = finding(&measured, "echo-features-vxlan");
    assert!(
        sentence.contains("round trip of 64 B 2.5") && sentence.contains("longer"),
        "{sentence}"
    );
    assert!((value - 2_500.0).abs() < 60.0, "{value}");
    let (sentence, _) = finding(&measured, "echo-features-qdisc");
    assert!(
        sentence.contains("fq adds least") && sentence.contains("pfifo_fast most, 1"),
        "{sentence}"
    );
    let experiment = measured.summary().experiments.remove(0);
    let tables = experiment.tables;
    let costs = tables.iter().find(|table| table.id == "echo-features-costs").unwrap();
    // Four beside nothing at each of two lengths, and seven disciplines at one.
    assert_eq!(costs.rows.len(), 2 * 4 + 7);
    assert!(costs.rows.iter().all(|row| row[1] != "none"));
    let figures: Vec<String> = experiment.figures.into_iter().map(|f| f.id).collect();
    assert!(figures.contains(&"echo-features-rtt-rules".to_owned()), "{figures:?}");
}

#[test]
fn disagreement_of_two_experiments_at_one_point_is_a_warning() {
    let with = |factor: f64| {
        let mut sizes = measured(&mut Hosts::new(), "echo-size", &["size=1472"]);
        let batches = measured(&mut Hosts::new(), "echo-batch", &["size=1472"]);
        sizes.run.experiments.extend(batches.run.experiments);
        sizes.samples.extend(batches.samples);
        let is_of = |sample: &&mut niclab_result::Sample| sample.experiment == "echo-batch";
        for sample in sizes.samples.iter_mut().filter(is_of) {
            sample.metrics.get_mut(RTT).into_iter().for_each(|it| it.value *= factor);
        }
        let warnings = sizes.summary().warnings;
        warnings.into_iter().filter(|of| of.contains("disagree")).collect::<Vec<String>>()
    };
    assert_eq!(with(1.0), Vec::<String>::new());
    assert_eq!(with(1.05), Vec::<String>::new(), "less than is worth naming");
    let warnings = with(59.1 / 40.6);
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.starts_with("known: echo-size and echo-batch disagree at "), "{warning}");
    assert!(warning.contains("21.5 us and 31.3 us. The machine changed"), "{warning}");
}

#[test]
fn an_undecided_cost_is_no_finding() {
    let ids = |name: &str, is_of: fn(&niclab_result::Sample) -> bool, factors: [f64; 6]| {
        let mut measured = measured(&mut Hosts::new(), name, &[]);
        for sample in measured.samples.iter_mut().filter(|sample| is_of(sample)) {
            let factor = factors[sample.repeat as usize];
            sample.metrics.get_mut(RTT).into_iter().for_each(|it| it.value *= factor);
        }
        measured.summary().findings.into_iter().map(|of| of.id).collect::<Vec<String>>()
    };
    let has = |ids: Vec<String>, id: &str| ids.contains(&format!("known-{id}"));
    let is_tcp = |sample: &niclab_result::Sample| sample.point["transport"].to_string() == "tcp";
    let undecided = [0.5, 1.5, 0.6, 1.2, 0.7, 1.1];
    assert!(has(ids("echo-size", is_tcp, [1.0; 6]), "echo-size-tcp"));
    assert!(!has(ids("echo-size", is_tcp, undecided), "echo-size-tcp"));
    let is_tunnel = |sample: &niclab_result::Sample| sample.point["feature"].to_string() == "vxlan";
    assert!(has(ids("echo-features", is_tunnel, [1.0; 6]), "echo-features-vxlan"));
    assert!(!has(ids("echo-features", is_tunnel, undecided), "echo-features-vxlan"));
    let is_qdisc = |sample: &niclab_result::Sample| {
        let feature = sample.point["feature"].to_string();
        feature != "none" && feature != "vxlan" && !feature.starts_with("nft")
    };
    assert!(has(ids("echo-features", is_qdisc, [1.0; 6]), "echo-features-qdisc"));
    assert!(!has(ids("echo-features", is_qdisc, undecided), "echo-features-qdisc"));
}

#[test]
fn a_longer_message_that_takes_less_time_is_a_warning() {
    let warnings = |factors: [f64; 6]| {
        let mut measured = measured(&mut Hosts::new(), "echo-size", &[]);
        let is_long = |sample: &&mut niclab_result::Sample| {
            let word = |axis: &str| sample.point[axis].to_string();
            word("transport") == "tcp" && word("size") == "1024"
        };
        for sample in measured.samples.iter_mut().filter(is_long) {
            let value = sample.metrics.get_mut(RTT);
            value.into_iter().for_each(|it| it.value *= factors[sample.repeat as usize]);
        }
        let all = measured.summary().warnings;
        all.into_iter().filter(|of| of.contains("not from the length")).collect::<Vec<String>>()
    };
    assert_eq!(warnings([1.0; 6]), [] as [String; 0]);
    let [warning] = &warnings([0.5; 6])[..] else { panic!("one line a device") };
    let start = "known: over TCP a round trip of 1,024 B takes 12.";
    assert!(warning.starts_with(start), "{warning}");
    assert!(warning.contains(", less than 24.3 us of 256 B."), "{warning}");
    assert_eq!(warnings([0.5, 1.2, 0.5, 1.2, 0.5, 1.2]), [] as [String; 0], "they overlap");
}
