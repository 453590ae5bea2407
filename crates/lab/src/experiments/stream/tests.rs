//! Two hosts with a known bandwidth, and the findings from them.

use niclab_device::stream::{Received, Sent, Stream, ThreadTime, Transport};
use niclab_device::{
    CoreUse, DeviceError, DeviceInfo, Host, Observation, PathNode, Setup, SetupReport,
    StreamObservation, Task, Testbed,
};
use niclab_result::{Mark, Outcome};

use super::metrics::{CARRIED, put_stream};
use super::spec::StreamSweep;
use super::trials::streams;
use crate::measure::Metrics;
use crate::simulated::{Bench, Nature, cell_at};
use crate::spec::GridName;
use crate::validation::{MeasuredModel, measure};
use crate::values::Values;

/// A write takes 100 ns and 0.1 ns a byte, a datagram 500 ns, 0.1 ns a byte and its share of 2 us
/// for the call; several connections carry half as much again as one. The sender's core works all
/// the time, the receiver's half of it.
struct Hosts {
    about: DeviceInfo,
    /// Streams after which the receiver is gone.
    streams_max: u32,
    streams: u32,
    cores_max: u16,
    /// Use of both sides' cores.
    busy: [f64; 2],
    /// What other programs had of them.
    others: f64,
}

impl Hosts {
    fn new() -> Hosts {
        let seat = |role: &str| PathNode { role: role.into(), label: "a host".into(), core: None };
        let hosts = ["client", "wire", "server"].map(seat).into();
        let about = DeviceInfo { name: "known".into(), hosts, ..DeviceInfo::default() };
        Hosts {
            about,
            streams_max: u32::MAX,
            streams: 0,
            cores_max: 1,
            busy: [1.0, 0.5],
            others: 0.0,
        }
    }
}

/// Bits a nanosecond.
fn gbps(stream: &Stream) -> f64 {
    let size = f64::from(stream.size);
    let message_ns = match stream.transport {
        Transport::Tcp => 100.0 + 0.1 * size,
        Transport::Udp => 500.0 + 2_000.0 / f64::from(stream.batch) + 0.1 * size,
    };
    let share = if stream.connections > 1 { 1.5 } else { 1.0 };
    share * 8.0 * size / message_ns
}

fn used(ns: u64, share: f64, others: f64) -> Vec<CoreUse> {
    let [busy_ns, user_ns] = [share, others].map(|share| (ns as f64 * share) as u64);
    let softirq_ns = busy_ns / 4;
    vec![CoreUse {
        user_ns,
        system_ns: busy_ns - softirq_ns - user_ns,
        softirq_ns,
        idle_ns: ns - busy_ns,
        ..CoreUse::default()
    }]
}

impl Testbed for Hosts {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        assert!(setup.rules.is_empty(), "a stream needs no rules");
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let Task::Stream(streaming) = task else { return Err(task.not_supported()) };
        let stream = &streaming.stream;
        stream.check().unwrap();
        if stream.threads > self.cores_max {
            return Err(DeviceError::lacks(format!("{} cores", 2 * stream.threads)));
        }
        self.streams += 1;
        let ns = stream.duration_ns;
        let bytes = (gbps(stream) * ns as f64 / 8.0) as u64;
        let messages = bytes / u64::from(stream.size);
        let is_udp = stream.transport == Transport::Udp;
        let due = stream.per_s.map_or(0, |per_s| (per_s * ns as f64 / 1e9) as u64);
        let time = ThreadTime { user_ns: 0, system_ns: ns / 2 };
        let sent = Sent {
            duration_ns: ns,
            bytes: 2 * bytes,
            messages: 2 * messages,
            unsent: due.saturating_sub(2 * messages),
            retransmits: (!is_udp).then_some(3),
            time,
            ended: None,
        };
        let received = Received {
            duration_ns: ns,
            bytes,
            messages: if is_udp { messages } else { 0 },
            lost: if is_udp { messages } else { 0 },
            time,
            ended: (self.streams == self.streams_max).then(|| "it went".to_owned()),
            ..Received::default()
        };
        let [sender_cores, receiver_cores] = self.busy.map(|share| used(ns, share, self.others));
        Ok(Observation::Stream(StreamObservation { sent, received, sender_cores, receiver_cores }))
    }
}

fn measured(hosts: &mut Hosts, set: &[&str]) -> MeasuredModel {
    measure(hosts, "stream", GridName::Reduced, set, Some(6)).unwrap()
}

fn finding(measured: &MeasuredModel, id: &str) -> (String, f64) {
    let findings = measured.summary().findings;
    let found = findings.iter().find(|finding| finding.id == format!("known-stream-{id}"));
    let found = found.unwrap_or_else(|| panic!("no {id} among {findings:#?}"));
    (format!("{} {}", found.sentence, found.implication), found.value.value)
}

fn near(value: f64, wanted: f64) -> bool {
    (value / wanted - 1.0).abs() < 1e-3
}

#[test]
fn the_maximum_throughput_and_its_limit_are_found() {
    let measured = measured(&mut Hosts::new(), &[]);
    assert!(!measured.summary().partial);
    let tcp = 1.5 * 8.0 * 131_072.0 / (100.0 + 13_107.2);
    let (words, value) = finding(&measured, "tcp");
    assert!(near(value, tcp * 1e9), "{value} for {tcp}");
    assert!(words.starts_with("known carries 119 Gbps of payload over TCP"), "{words}");
    assert!(words.contains("The sender's core is busy 100 % of the time, the receiver's 50.0 %"));
    assert!(words.contains("The sender's core is the limit"), "{words}");
    let udp = 8.0 * 16_000.0 / (531.25 + 1_600.0);
    let (words, value) = finding(&measured, "udp");
    assert!(near(value, udp * 1e9), "{value} for {udp}");
    assert!(words.contains("in datagrams of 16,000 B, 64 in a call, over 1 connection"), "{words}");
    let (words, value) = finding(&measured, "tcp-udp");
    assert!(near(1.0 + value / 100.0, tcp / udp), "{value}");
    assert!(
        words.contains(
            "TCP at its best carries 98.3 % more than UDP on known. A gigabit takes 12.6 ms"
        ),
        "{words}"
    );
    for (busy, bound) in [
        ([0.5, 1.0], "The receiver's core is the limit"),
        ([0.96, 1.0], "Both cores are the limit"),
        ([0.5, 0.9], "Neither core is always busy"),
    ] {
        let measured = self::measured(&mut Hosts { busy, ..Hosts::new() }, &[]);
        let (words, _) = finding(&measured, "tcp");
        assert!(words.contains(bound), "{words}");
    }
}

#[test]
fn time_that_other_programs_had_is_no_limit_of_the_stack() {
    let measured = measured(&mut Hosts { others: 0.2, ..Hosts::new() }, &[]);
    let (words, _) = finding(&measured, "tcp");
    assert!(words.contains("Other programs used the cores"), "{words}");
    let table = &measured.summary().experiments[0].tables[0];
    assert_eq!(
        cell_at(table, &[("protocol", "UDP"), ("bytes", "64")], "limited by"),
        "other programs"
    );
}

#[test]
fn the_size_that_suffices_and_what_connections_and_batches_bring_is_found() {
    let measured = measured(&mut Hosts::new(), &[]);
    // 79.4 Gbps of one connection at 131,072 B, 71.1 at 8,000 B, 77.6 at 32,000 B.
    let (words, value) = finding(&measured, "tcp-size");
    assert_eq!(value, 32_000.0);
    assert!(
        words.contains("with messages of 32,000 B or more; with 64 B it reaches 6.06 %"),
        "{words}"
    );
    // 48.1 Gbps at 8,000 B and 60.1 at 16,000 B, the largest: larger ones may carry more.
    let ids: Vec<String> = measured.summary().findings.into_iter().map(|of| of.id).collect();
    assert!(!ids.contains(&"known-stream-udp-size".to_owned()), "{ids:?}");
    let (words, value) = finding(&measured, "connections");
    assert!(near(value, 50.0), "{value}");
    assert!(words.contains("connections carry 50.0 % more than one"), "{words}");
    let (words, value) = finding(&measured, "batch");
    let gain = (500.0 + 2_000.0 + 147.2) / (500.0 + 31.25 + 147.2);
    assert!(near(value, gain), "{value} for {gain}");
    assert!(words.starts_with("64 datagrams in a call carry 3.90"), "{words}");
}

#[test]
fn figures_and_table_show_what_was_measured() {
    let measured = measured(&mut Hosts::new(), &[]);
    let summary = measured.summary();
    let experiment = &summary.experiments[0];
    let ids: Vec<&str> = experiment.figures.iter().map(|figure| figure.id.as_str()).collect();
    let expected = [
        "stream-carried-size",
        "stream-carried-batch",
        "stream-carried-connections",
        "stream-cpu-size",
    ];
    assert_eq!(ids, expected);
    let figure = &experiment.figures[1];
    assert!(figure.caption.contains("UDP, from here to there, as fast as it goes"), "{figure:?}");
    let names: Vec<&str> =
        experiment.figures[0].series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["known, TCP", "known, UDP, 64 a call"]);
    let table = &experiment.tables[0];
    let at = [("protocol", "UDP"), ("bytes", "1,472"), ("per call", "64")];
    assert_eq!(cell_at(table, &at, "arrived (interval)"), "17.4 Gbps (17.4 Gbps to 17.4 Gbps)");
    assert_eq!(cell_at(table, &at, "loss"), "50.0 %");
    assert_eq!(cell_at(table, &at, "receiver: user / system / softirq"), "0 % / 37.5 % / 12.5 %");
    assert_eq!(cell_at(table, &at, "limited by"), "the sender's core");
    let tcp = [("protocol", "TCP"), ("bytes", "1,448")];
    assert_eq!(cell_at(table, &tcp, "sent again"), "3");
    // One and a half cores for 47.3 Gbps.
    assert_eq!(cell_at(table, &tcp, "CPU per gigabit"), "31.7 ms");
}

#[test]
fn a_stream_over_tcp_has_neither_batches_nor_a_rate() {
    let set = ["batch=1,8", "rate=1k", "size=1448", "connections=1"];
    let measured = measured(&mut Hosts::new(), &set);
    let points: Vec<String> = measured
        .samples
        .iter()
        .filter(|sample| sample.repeat == 0)
        .map(|s| ["transport", "batch", "rate"].map(|axis| s.point[axis].to_string()).join(" "))
        .collect();
    let mut points = points;
    points.sort();
    assert_eq!(points, ["tcp 1 full", "udp 1 1000", "udp 8 1000"]);
}

#[test]
fn messages_that_never_left_are_a_limit_of_the_sender() {
    let set = ["transport=udp", "size=16k", "rate=1000M"];
    let measured = measured(&mut Hosts::new(), &set);
    assert!(measured.samples.iter().all(|s| s.marks.contains(&Mark::GeneratorLimited)));
}

#[test]
fn cores_that_are_not_there_bar_what_needs_them_and_nothing_else() {
    let set = ["cores=1,2", "connections=2", "transport=tcp", "size=1448"];
    let measured = measured(&mut Hosts::new(), &set);
    let count = |outcome: fn(&Outcome) -> bool| {
        measured.samples.iter().filter(|sample| outcome(&sample.outcome)).count()
    };
    assert_eq!(count(|outcome| *outcome == Outcome::Measured), 6);
    // It is asked for once.
    assert_eq!(count(|outcome| matches!(outcome, Outcome::NotSupported { .. })), 1);
    assert!(!measured.summary().partial);
}

#[test]
fn a_receiver_that_goes_leaves_what_was_measured() {
    let mut hosts = Hosts { streams_max: 10, ..Hosts::new() };
    let measured = measured(&mut hosts, &[]);
    let is_kept = |outcome: &Outcome| match outcome {
        Outcome::Failed { reason, dropped: false } => reason == "it went",
        _ => false,
    };
    let failed: Vec<_> = measured.samples.iter().filter(|s| is_kept(&s.outcome)).collect();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].metrics.contains_key(CARRIED));
    assert!(measured.summary().warnings.iter().any(|words| words.contains("it went")));
}

#[test]
fn a_device_without_hosts_is_reported_once_and_gets_no_task() {
    let mut bench = Bench::of("stream", vec![Nature::default()], &[], 6);
    bench.execute();
    let outcomes: Vec<&Outcome> =
        bench.store.samples.iter().map(|sample| &sample.outcome).collect();
    assert_eq!(outcomes, [&Outcome::NotSupported { capability: "stream".into() }]);
    assert!(bench.devices[0].setups == 0 && bench.devices[0].trials == 0);
}

#[test]
fn the_host_that_sends_is_an_axis() {
    let sweep = StreamSweep {
        transport: Values::parse("tcp").unwrap(),
        client: Values::parse("here,there").unwrap(),
        size: Values::number(64),
        batch: Values::number(1),
        connections: Values::parse("1,4").unwrap(),
        cores: Values::parse("1,2").unwrap(),
        rate: Values::parse("full").unwrap(),
    };
    let all = streams(&sweep, 10, 1).unwrap();
    // Two cores go with four connections alone.
    assert_eq!(all.len(), 6);
    assert_eq!(all.iter().filter(|asked| asked.client == Host::There).count(), 3);
    assert!(all.iter().all(|asked| asked.stream.check().is_ok()));
}

#[test]
fn a_stream_that_ended_before_it_began_has_no_rate_and_no_share() {
    let sent = Sent { bytes: 1_000, ..Sent::default() };
    let received = Received { bytes: 1_000, ..Received::default() };
    let observation =
        StreamObservation { sent, received, sender_cores: Vec::new(), receiver_cores: Vec::new() };
    let stream = Stream {
        transport: Transport::Tcp,
        size: 1_000,
        batch: 1,
        connections: 1,
        threads: 1,
        per_s: None,
        duration_ns: 1,
        warmup_ns: 0,
    };
    let mut metrics = Metrics::new();
    put_stream(&mut metrics, &observation, &stream);
    assert_eq!(metrics[CARRIED].value, 0.0);
    assert_eq!(metrics["sent_bits_per_s"].value, 0.0);
    assert!(metrics.values().all(|of| of.unit != "1" || of.value <= 1.0), "{metrics:?}");
}

/// The findings, where what arrives of TCP's messages of this size is these multiples of what it
/// is, repeat by repeat.
fn with(size: &str, factors: [f64; 6]) -> Vec<niclab_result::Finding> {
    let mut measured = measured(&mut Hosts::new(), &[]);
    for sample in &mut measured.samples {
        let at = |axis: &str| sample.point[axis].to_string();
        if (at("transport").as_str(), at("size").as_str()) == ("tcp", size) {
            let value = sample.metrics.get_mut(CARRIED);
            value.into_iter().for_each(|it| it.value *= factors[sample.repeat as usize]);
        }
    }
    measured.summary().findings
}

#[test]
fn a_plateau_is_reported_only_if_it_was_measured() {
    let of = |factors| {
        let found = with("32000", factors);
        found.into_iter().find(|finding| finding.id == "known-stream-tcp-size")
    };
    assert!(of([1.0; 6]).is_some());
    // The second largest may reach nine tenths or not: the largest alone is no plateau.
    assert_eq!(of([0.7, 1.1, 0.8, 1.0, 0.9, 1.05]), None);
    assert_eq!(of([0.5; 6]), None);
}
