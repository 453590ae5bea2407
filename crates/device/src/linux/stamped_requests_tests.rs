//! The breakdown of a request's time, for servers with a known time and for real ones.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use niclab_load::requests::{KeyLength, KeySelection, Order, Pace, Values};

use super::*;
use crate::cores::Cores;
use crate::face::{Application, Family, Host, Testbed, measured};
use crate::feature::Feature;
use crate::linux::veth_tests::cores;
use crate::linux::{self, Hosts, Wire};

fn requests(protocol: Protocol, connections: u16) -> Requests {
    Requests {
        protocol,
        get_ratio: 0.0,
        keys: KeySelection { count: 100, order: Order::Uniform, length: KeyLength::Fixed(16) },
        values: Values::Fixed(64),
        path: "/".to_owned(),
        connections,
        depth: 1,
        pace: Pace::Closed,
        duration_ns: 500_000_000,
        warmup_ns: 20_000_000,
        seed: 1,
    }
}

/// How long the server of the next test works for a request.
const WORK: Duration = Duration::from_millis(3);

/// Says OK to everything, in two pieces, and takes its time for it.
fn serve(listener: &TcpListener) {
    let Ok((mut stream, _)) = listener.accept() else { return };
    stream.set_nodelay(true).unwrap();
    let mut bytes = [0; 4096];
    while matches!(stream.read(&mut bytes), Ok(1..)) {
        thread::sleep(WORK);
        if stream.write_all(b"+O").and_then(|()| stream.write_all(b"K\r\n")).is_err() {
            return;
        }
    }
}

#[test]
fn the_time_of_a_server_is_the_servers_and_nobody_elses() {
    let test = "the_time_of_a_server_is_the_servers_and_nobody_elses";
    let Some(_cores) = cores(test) else { return };
    let hosts = Hosts::with(Cores::choose("test").unwrap(), &Feature::None).unwrap();
    let (here, there) = hosts.sides(Host::Here);
    let host = SocketAddr::new(there.address(Wire::Plain), 0);
    let listener = there.netns.within(|| TcpListener::bind(host)).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let over = AtomicBool::new(false);
    let made = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                serve(&listener);
            }
        });
        let asked = requests(Protocol::Redis, 1);
        let made = breakdown((here, there), &[here.core], &asked, address);
        over.store(true, Ordering::Relaxed);
        // The server waits for one more connection.
        let last = here.netns.within(|| std::net::TcpStream::connect(address)).unwrap();
        drop(last);
        made
    });
    let observed = match made {
        Err(DeviceError::NotSupported { capability }) => {
            return println!("SKIP {test}: {capability}");
        }
        made => made.unwrap(),
    };
    assert!(observed.messages > 20 && observed.incomplete == 0, "{observed:#?}");
    let names: Vec<&str> = observed.terms.iter().map(|term| term.name.as_str()).collect();
    assert_eq!(names, ["client_transmit", "server", "client_receive", "hardware"]);
    let [transmit, server, receive, wire] = [0, 1, 2, 3].map(|at| observed.terms[at].median_ns);
    assert!(server >= 3e6, "{observed:#?}");
    assert!(transmit > 0.0 && receive > 0.0, "{observed:#?}");
    assert!(transmit + receive + wire < 1e6, "{observed:#?}");
    assert!(observed.residue_ratio.abs() < 0.02, "{observed:#?}");
    assert_eq!((observed.pairs.len(), observed.stamps), (3, 4));
}

#[test]
fn requests_to_real_servers_have_a_breakdown_or_a_reason_why_not() {
    let test = "requests_to_real_servers_have_a_breakdown_or_a_reason_why_not";
    let Some(_alone) = cores(test) else { return };
    let mut bed: Box<dyn Testbed> = linux::open("linux:veth").unwrap();
    let mut asked = |requests: Requests, client, family| {
        let asked = Application { client, family, cores: 1, stamps: true, requests };
        measured::requests(&mut *bed, &asked)
    };
    let tcp = [Protocol::MemcachedTcp, Protocol::Redis, Protocol::Http];
    for (protocol, connections) in tcp.into_iter().flat_map(|of| [(of, 1), (of, 8)]) {
        let (client, family) = match connections {
            1 => (Host::Here, Family::V4),
            _ => (Host::There, Family::V6),
        };
        let observed = match asked(requests(protocol, connections), client, family) {
            Ok(observed) => observed,
            Err(DeviceError::NotSupported { capability }) => {
                println!("SKIP {test}: {capability}");
                continue;
            }
            Err(error) => panic!("{protocol} {connections}: {error}"),
        };
        let requested = &observed.requested;
        assert_eq!((requested.lost, requested.refused, requested.foreign), (0, 0, 0));
        let observed = match observed.breakdown.unwrap() {
            Err(why) => {
                println!("SKIP {test}: {why}");
                continue;
            }
            Ok(observed) => observed,
        };
        // Thousands of segments of several flows take some entries of each other.
        assert!(
            observed.messages > 3 * observed.incomplete,
            "{protocol} {connections}: {observed:#?}"
        );
        assert!(observed.residue_ratio.abs() < 0.05, "{protocol} {connections}: {observed:#?}");
        assert!(observed.terms[..3].iter().all(|term| term.mean_ns > 0.0), "{observed:#?}");
        // The last piece of an answer in several may be sent by the core that frees the first one.
        if protocol != Protocol::Http {
            assert_ne!(observed.terms[1].core, observed.terms[2].core, "{protocol}: {observed:#?}");
        }
    }
    let mut deep = requests(Protocol::Redis, 2);
    deep.depth = 4;
    for (requests, why) in [
        (requests(Protocol::MemcachedUdp, 1), "stamps of memcached over UDP"),
        (deep, "stamps of requests that wait behind others"),
    ] {
        match asked(requests, Host::Here, Family::V4) {
            Ok(observed) => {
                assert!(observed.requested.answered > 0);
                let reply = observed.breakdown.unwrap().unwrap_err();
                assert!(reply.starts_with(why), "{reply}");
            }
            Err(DeviceError::NotSupported { capability }) => println!("SKIP {test}: {capability}"),
            Err(error) => panic!("{error}"),
        }
    }
}
