//! Two hosts in this machine: messages go both ways over both protocols, and nothing is left.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use niclab_load::echo::{Echo, IDLE_NS, Pace, Receive, SIZE_MAX, Serve, Server, Transport};

use crate::cores::{Cores, Pinned};
use crate::face::measured::{breakdown, round_trips};
use crate::face::{DeviceError, Family, Host, RoundTrips, Testbed};
use crate::feature::Feature;
use crate::linux::veth_tests::cores;
use crate::linux::{Hosts, Wire, stamps_at};
use crate::{linux, peer};

fn messages(transport: Transport, family: Family, client: Host) -> RoundTrips {
    let echo = Echo {
        transport,
        size: 1024,
        batch: 4,
        receive: Receive::Blocking,
        pace: Pace::Closed,
        duration_ns: 50_000_000,
        warmup_ns: 20_000_000,
    };
    RoundTrips {
        client,
        family,
        fifo: None,
        feature: Feature::None,
        deep: false,
        sockets: false,
        echo,
    }
}

fn open(test: &str) -> Option<(impl Drop, Box<dyn Testbed>)> {
    let alone = cores(test)?;
    Some((alone, linux::open("linux:veth").unwrap()))
}

#[test]
fn messages_come_back_over_both_protocols_both_families_both_ways() {
    let Some((_alone, mut bed)) =
        open("messages_come_back_over_both_protocols_both_families_both_ways")
    else {
        return;
    };
    for transport in [Transport::Udp, Transport::Tcp] {
        for family in [Family::V4, Family::V6] {
            for client in [Host::Here, Host::There] {
                let asked = messages(transport, family, client);
                let observed = round_trips(&mut *bed, &asked).unwrap();
                let (echoed, served) = (&observed.echoed, observed.served.unwrap());
                assert!(echoed.answered > 0, "{asked:?}: {observed:?}");
                let clean = (echoed.lost, echoed.foreign, echoed.ended.clone());
                assert_eq!(clean, (0, 0, None), "{asked:?}: {observed:?}");
                assert_eq!(served.received, served.answered, "{asked:?}: {observed:?}");
                assert!(served.received >= echoed.sent, "{asked:?}: {observed:?}");
            }
        }
    }
}

#[test]
fn messages_longer_than_a_frame_come_back_whole() {
    let Some((_alone, mut bed)) = open("messages_longer_than_a_frame_come_back_whole") else {
        return;
    };
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut asked = messages(transport, Family::V4, Host::Here);
        (asked.echo.size, asked.echo.batch) = (65_507, 1);
        let observed = round_trips(&mut *bed, &asked).unwrap().echoed;
        assert!(
            observed.answered > 0 && observed.lost == 0 && observed.foreign == 0,
            "{observed:?}"
        );
    }
}

#[test]
fn messages_pass_what_stands_in_their_path() {
    let Some((_alone, mut bed)) = open("messages_pass_what_stands_in_their_path") else { return };
    for feature in ["nft-0", "nft-3", "vxlan", "pfifo_fast", "htb", "tbf", "fq_codel"] {
        for transport in [Transport::Udp, Transport::Tcp] {
            for client in [Host::Here, Host::There] {
                let mut asked = messages(transport, Family::V4, client);
                asked.feature = feature.parse().unwrap();
                match round_trips(&mut *bed, &asked) {
                    Ok(observed) => {
                        assert!(observed.echoed.answered > 0, "{asked:?}: {observed:?}")
                    }
                    // Kernels differ in what they have: the name stands in what is said.
                    Err(DeviceError::NotSupported { capability }) => {
                        assert!(capability.starts_with(&format!("{feature}: ")), "{capability}");
                        // What we wrote wrong is no lack of theirs.
                        assert!(!capability.contains("syntax"), "{capability}");
                        println!("SKIP messages_pass_what_stands_in_their_path: {capability}");
                    }
                    Err(error) => panic!("{asked:?}: {error}"),
                }
            }
        }
    }
    let mut asked = messages(Transport::Udp, Family::V6, Host::Here);
    asked.feature = Feature::Vxlan;
    let error = round_trips(&mut *bed, &asked).unwrap_err();
    assert_eq!(error, DeviceError::lacks("vxlan over IPv6"));
}

#[test]
fn rules_that_do_not_match_are_gone_through() {
    let Some((_alone, mut bed)) = open("rules_that_do_not_match_are_gone_through") else { return };
    let mut asked = messages(Transport::Udp, Family::V4, Host::Here);
    asked.echo.batch = 1;
    let plain_ns = round_trips(&mut *bed, &asked).unwrap().echoed.rtt.0.value_at_quantile(0.5);
    asked.feature = Feature::Nft { rules: 20_000 };
    match round_trips(&mut *bed, &asked) {
        // A rule takes a nanosecond at the very least.
        Ok(observed) => {
            let with_ns = observed.echoed.rtt.0.value_at_quantile(0.5);
            assert!(with_ns > plain_ns + 2 * 20_000, "{plain_ns} ns, with rules {with_ns} ns");
        }
        Err(DeviceError::NotSupported { capability }) => {
            println!("SKIP rules_that_do_not_match_are_gone_through: {capability}")
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn impossible_round_trips_are_refused_and_the_hosts_go_on() {
    let Some((_alone, mut bed)) = open("impossible_round_trips_are_refused_and_the_hosts_go_on")
    else {
        return;
    };
    let good = messages(Transport::Udp, Family::V4, Host::Here);
    let mut bad = good.clone();
    bad.echo.size = 15;
    let error = round_trips(&mut *bed, &bad).unwrap_err();
    assert!(matches!(&error, DeviceError::BadLoad { reason } if reason.contains("size = 15")));
    assert!(round_trips(&mut *bed, &good).unwrap().echoed.answered > 0);
}

#[test]
fn the_parts_inside_the_stacks_add_up_and_a_stream_has_none() {
    let test = "the_parts_inside_the_stacks_add_up_and_a_stream_has_none";
    let Some((_alone, mut bed)) = open(test) else { return };
    for (family, size, receive, client) in [
        (Family::V4, 1024, Receive::Blocking, Host::Here),
        (Family::V6, 64, Receive::Epoll, Host::There),
        (Family::V4, 64, Receive::BusyPoll, Host::Here),
        (Family::V4, 16_000, Receive::Blocking, Host::Here),
        (Family::V6, 16_000, Receive::Blocking, Host::Here),
    ] {
        let mut trips = messages(Transport::Udp, family, client);
        (trips.echo.size, trips.echo.batch) = (size, 1);
        (trips.echo.receive, trips.deep) = (receive, true);
        let observed = match breakdown(&mut *bed, &trips, 2) {
            Err(DeviceError::NotSupported { capability }) => {
                return println!("SKIP {test}: {capability}");
            }
            observed => observed.unwrap(),
        };
        let words = format!("{family:?} {size} {receive:?}: {observed:#?}");
        let parts = observed.parts.unwrap();
        assert!(parts.messages > 10 * parts.incomplete, "{words}");
        assert!(parts.residue_ratio.abs() < 0.05, "{words}");
        let of = |name: &str| parts.parts.iter().find(|it| it.name == name).unwrap().mean_ns;
        for part in ["stack_send", "driver_send", "driver_receive", "stack_receive"] {
            assert!(of(&format!("request_{part}")) > 0.0, "{part}: {words}");
            assert!(of(&format!("reply_{part}")) > 0.0, "{part}: {words}");
        }
        // Who polls need not be woken.
        let sleeps = receive != Receive::BusyPoll;
        assert_eq!(of("request_wake_up") > 200.0, sleeps, "{words}");
        assert_eq!(observed.stamps, 20);
    }
    let mut stream = messages(Transport::Tcp, Family::V4, Host::Here);
    (stream.deep, stream.echo.batch) = (true, 1);
    let error = breakdown(&mut *bed, &stream, 1).unwrap_err();
    assert!(error.to_string().contains("over TCP"), "{error}");
}

#[test]
fn the_terms_of_a_round_trip_add_up_whatever_carries_their_stamps() {
    let Some((_alone, mut bed)) =
        open("the_terms_of_a_round_trip_add_up_whatever_carries_their_stamps")
    else {
        return;
    };
    let asked = [
        // In the payload; in tables, for it is short; for it is fragmented; of a stream.
        (Transport::Udp, Family::V4, 1024, Host::Here),
        (Transport::Udp, Family::V6, 1024, Host::There),
        (Transport::Udp, Family::V4, 64, Host::Here),
        (Transport::Udp, Family::V4, 65_507, Host::Here),
        (Transport::Tcp, Family::V4, 64, Host::Here),
        (Transport::Tcp, Family::V6, 1024, Host::There),
        (Transport::Tcp, Family::V4, 65_507, Host::Here),
    ];
    for (transport, family, size, client) in asked {
        let mut trips = messages(transport, family, client);
        (trips.echo.size, trips.echo.batch) = (size, 1);
        let observed = breakdown(&mut *bed, &trips, 2).unwrap();
        let words = format!("{transport} {size}: {observed:#?}");
        assert_eq!(observed.pairs.len(), 2, "{words}");
        assert!(observed.messages > 20 * observed.incomplete, "{words}");
        assert!(observed.residue_ratio.abs() < 0.05, "{words}");
        assert_eq!(observed.in_payload, transport == Transport::Udp && size == 1024, "{words}");
        let sum: f64 = observed.terms.iter().map(|term| term.mean_ns).sum();
        assert!((sum / observed.rtt_ns - 1.0).abs() < 0.05, "{words}");
        let cores: Vec<Option<u16>> = observed.terms.iter().map(|term| term.core).collect();
        let (near, far) = match client {
            Host::Here => (cores[4], cores[1]),
            Host::There => (cores[1], cores[4]),
        };
        assert!(near < far, "the hosts have cores of their own: {words}");
        assert_eq!(cores[2], cores[1], "{words}");
        // The end of a long stream is sent by whoever has freed what was before it.
        if size <= 1024 {
            assert_eq!((cores[0], cores[3]), (cores[4], cores[1]), "{words}");
        }
        for term in &observed.terms[..5] {
            assert!(term.mean_ns > 0.0 && term.tail_ns >= term.median_ns, "{words}");
        }
    }
}

#[test]
fn a_breakdown_with_a_peer_has_what_travels_and_refuses_the_rest() {
    let test = "a_breakdown_with_a_peer_has_what_travels_and_refuses_the_rest";
    let Some(_cores) = cores(test) else { return };
    let hosts = Hosts::with(Cores::choose("test").unwrap(), &Feature::None).unwrap();
    let (here, there) = hosts.sides(Host::Here);
    let address = SocketAddr::new(there.address(Wire::Plain), 0);
    let serve = Serve {
        transport: None,
        receive: Receive::Blocking,
        batch: 16,
        size_max: SIZE_MAX,
        idle_ns: IDLE_NS,
    };
    let server = there.netns.within(|| Server::bind(address, serve)).unwrap().unwrap();
    let probes = there.netns.within(|| stamps_at(server.address())).unwrap();
    let probes = match probes {
        Err(DeviceError::NotSupported { capability }) => {
            return println!("SKIP {test}: {capability}");
        }
        probes => probes.unwrap(),
    };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _pinned = Pinned::to(there.core);
            server.run(&stop).unwrap();
        });
        let name = format!("peer:{}", server.address());
        let asked = |transport, size| {
            let mut trips = messages(transport, Family::V4, Host::Here);
            (trips.echo.size, trips.echo.batch) = (size, 1);
            here.netns.within(|| breakdown(&mut *peer::open(&name)?, &trips, 2)).unwrap()
        };
        let unstamped = asked(Transport::Udp, 1024);
        server.stamp(true);
        let made = asked(Transport::Udp, 1024);
        let refused = [(Transport::Udp, 64), (Transport::Udp, 1473), (Transport::Tcp, 1024)]
            .map(|(transport, size)| asked(transport, size));
        // Nothing is left waiting where one of these fails.
        stop.store(true, Ordering::Relaxed);
        let unstamped = unstamped.unwrap_err().to_string();
        assert!(unstamped.contains("start it with --stamps"), "{unstamped}");
        let observed = made.unwrap();
        assert!(observed.messages > 20 * observed.incomplete, "{observed:#?}");
        assert!(observed.residue_ratio.abs() < 0.05, "{observed:#?}");
        assert_eq!((observed.stamps, observed.in_payload, observed.pairs.len()), (2, true, 2));
        assert!(observed.terms[..5].iter().all(|term| term.mean_ns > 0.0), "{observed:#?}");
        assert_ne!(observed.terms[1].core, observed.terms[4].core, "{observed:#?}");
        for refused in refused.map(|refused| refused.unwrap_err().to_string()) {
            assert!(refused.contains("do not travel with their message"), "{refused}");
        }
    });
    drop(probes);
}
