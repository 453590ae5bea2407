//! Bulk data between two hosts in this machine: it arrives, both ways, and so does its account.

use niclab_load::stream::{Stream, Transport};

use crate::cores::allowed;
use crate::face::measured::{round_trips, stream};
use crate::face::{DeviceError, Family, Host, RoundTrips, StreamObservation, Streaming, Testbed};
use crate::feature::Feature;
use crate::linux;
use crate::linux::veth_tests::cores;

fn streaming(transport: Transport, client: Host) -> Streaming {
    let stream = Stream {
        transport,
        size: 1400,
        batch: 1,
        connections: 1,
        threads: 1,
        per_s: None,
        duration_ns: 200_000_000,
        warmup_ns: 30_000_000,
    };
    Streaming { client, stream }
}

fn open(test: &str) -> Option<(impl Drop, Box<dyn Testbed>)> {
    let alone = cores(test)?;
    Some((alone, linux::open("linux:veth").unwrap()))
}

/// Each side is accounted for on its own core.
fn assert_accounted(observation: &StreamObservation, cores: [u32; 2]) {
    for (used, core) in
        [&observation.sender_cores, &observation.receiver_cores].into_iter().zip(cores)
    {
        let [used] = used.as_slice() else { panic!("{observation:?}") };
        assert_eq!(used.core, core, "{observation:?}");
        // Two readings apart by the window, in ticks.
        assert!((100_000_000..2_000_000_000).contains(&used.total_ns()), "{observation:?}");
    }
    for time in [observation.sent.time, observation.received.time] {
        assert!(time.total_ns() > 0 && time.total_ns() <= 300_000_000, "{observation:?}");
    }
}

#[test]
fn both_protocols_carry_data_both_ways() {
    let Some((_alone, mut bed)) = open("both_protocols_carry_data_both_ways") else { return };
    let [first, second] = [allowed()[0], allowed()[1]];
    for (transport, batch, connections) in
        [(Transport::Tcp, 1, 1), (Transport::Tcp, 1, 8), (Transport::Udp, 32, 1)]
    {
        for (client, cores) in [(Host::Here, [first, second]), (Host::There, [second, first])] {
            let mut asked = streaming(transport, client);
            (asked.stream.batch, asked.stream.connections) = (batch, connections);
            let observation = stream(&mut *bed, &asked).unwrap();
            let ends = (&observation.sent.ended, &observation.received.ended);
            assert_eq!(ends, (&None, &None), "{asked:?}: {observation:?}");
            assert_eq!(
                observation.received.duration_ns, asked.stream.duration_ns,
                "{observation:?}"
            );
            assert!(observation.received.bytes > 100_000, "{asked:?}: {observation:?}");
            assert_eq!(observation.received.foreign, 0, "{observation:?}");
            assert_accounted(&observation, cores);
        }
    }
}

#[test]
fn a_paced_sender_leaves_its_core_alone_and_loses_nothing() {
    let Some((_alone, mut bed)) = open("a_paced_sender_leaves_its_core_alone_and_loses_nothing")
    else {
        return;
    };
    let mut asked = streaming(Transport::Udp, Host::Here);
    (asked.stream.per_s, asked.stream.batch) = (Some(4_000.0), 8);
    let observation = stream(&mut *bed, &asked).unwrap();
    assert_eq!(
        (observation.received.lost, observation.received.foreign),
        (0, 0),
        "{observation:?}"
    );
    assert!(observation.received.messages > 0, "{observation:?}");
    // 4,000 datagrams a second are at most a few percent of a core.
    assert!(observation.sent.time.total_ns() < 150_000_000, "{observation:?}");
}

#[test]
fn impossible_streams_are_refused_and_the_hosts_go_on() {
    let Some((_alone, mut bed)) = open("impossible_streams_are_refused_and_the_hosts_go_on") else {
        return;
    };
    let mut asked = streaming(Transport::Udp, Host::Here);
    for size in [0, 65_508] {
        asked.stream.size = size;
        let error = stream(&mut *bed, &asked).unwrap_err();
        let words = format!("size = {size}: use 16 to 65507 bytes over udp");
        assert_eq!(error, DeviceError::BadLoad { reason: words });
    }
    let mut asked = streaming(Transport::Tcp, Host::Here);
    let each = allowed().len() as u16 / 2 + 1;
    (asked.stream.threads, asked.stream.connections) = (each, each);
    let error = stream(&mut *bed, &asked).unwrap_err();
    let words = format!("not supported: {} cores (", 2 * each);
    assert!(error.to_string().starts_with(&words), "{error}");
    assert!(stream(&mut *bed, &streaming(Transport::Tcp, Host::Here)).unwrap().received.bytes > 0);
    // And messages go as before.
    let echo = niclab_load::echo::Echo {
        transport: Transport::Udp,
        size: 64,
        batch: 1,
        receive: niclab_load::echo::Receive::Blocking,
        pace: niclab_load::echo::Pace::Closed,
        duration_ns: 20_000_000,
        warmup_ns: 5_000_000,
    };
    let (client, family, feature) = (Host::Here, Family::V4, Feature::None);
    let trips =
        RoundTrips { client, family, feature, fifo: None, deep: false, sockets: false, echo };
    assert!(round_trips(&mut *bed, &trips).unwrap().echoed.answered > 0);
}
