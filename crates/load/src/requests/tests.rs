//! Clients against servers: scripted odd ones, and the real ones where they are installed.

mod datagrams;
mod http;
mod memcached;
mod redis;
mod scripted;
mod stall;

use std::net::SocketAddr;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use super::*;

/// Few requests, for a short time.
pub fn requests(protocol: Protocol) -> Requests {
    Requests {
        protocol,
        get_ratio: 0.5,
        keys: KeySelection { count: 100, order: Order::Uniform, length: KeyLength::Fixed(16) },
        values: Values::Fixed(100),
        path: "/".to_owned(),
        connections: 2,
        depth: 1,
        pace: Pace::Closed,
        duration_ns: 100_000_000,
        warmup_ns: 10_000_000,
        seed: 1,
    }
}

fn go(requests: &Requests, server: SocketAddr) -> Requested {
    run(requests, server, &AtomicBool::new(false), || (), None).unwrap()
}

/// Every request is somewhere, and every answer is in the histogram.
fn assert_balanced(observed: &Requested) {
    assert_eq!(observed.planned, observed.sent + observed.unsent, "{observed:?}");
    assert_eq!(observed.sent, observed.answered + observed.lost, "{observed:?}");
    assert_eq!(observed.latency.0.len(), observed.answered, "{observed:?}");
    assert!(
        observed.refused + observed.hits + observed.misses <= observed.answered,
        "{observed:?}"
    );
    if let Some(service) = &observed.service {
        assert_eq!(service.0.len(), observed.answered, "{observed:?}");
    }
}

/// Nothing happened that should not.
fn assert_clean(observed: &Requested) {
    assert_balanced(observed);
    assert_eq!(
        (observed.lost, observed.refused, observed.foreign, observed.late),
        (0, 0, 0, 0),
        "{observed:?}"
    );
    assert_eq!((observed.duplicated, &observed.ended), (0, &None), "{observed:?}");
    assert!(observed.answered > 0, "{observed:?}");
}

/// A server of its own, which ends with this value.
struct Real {
    child: Child,
    address: SocketAddr,
}

impl Real {
    /// Starts a program on a free port, which the `arguments` name as `PORT`; `None`, and a reason
    /// printed, where it is not installed.
    fn start(test: &str, program: &str, arguments: &[&str]) -> Option<Real> {
        let address = free_port();
        let port = address.port().to_string();
        let arguments: Vec<String> =
            arguments.iter().map(|one| one.replace("PORT", &port)).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Real::start_at(test, program, &arguments, address)
    }

    /// Starts a program that listens there.
    fn start_at(
        test: &str,
        program: &str,
        arguments: &[&str],
        address: SocketAddr,
    ) -> Option<Real> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            println!("SKIP {test}: {program} is not installed");
            return None;
        };
        let mut real = Real { child, address };
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < until, "{program} does not listen at {address}");
            assert_eq!(real.child.try_wait().unwrap(), None, "{program} has ended");
            thread::sleep(Duration::from_millis(10));
        }
        Some(real)
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of loopback that nobody has, over TCP and UDP.
fn free_port() -> SocketAddr {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        if UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}

#[test]
fn impossible_requests_are_refused_by_name() {
    let base = requests(Protocol::MemcachedTcp);
    let keys = |count, order, length| Requests {
        keys: KeySelection { count, order, length },
        ..base.clone()
    };
    let (uniform, fixed) = (Order::Uniform, KeyLength::Fixed(16));
    let udp = Requests { protocol: Protocol::MemcachedUdp, ..base.clone() };
    let http = Requests { protocol: Protocol::Http, ..base.clone() };
    let big = Values::Fixed(VALUE_LEN_UDP_MAX + 1);
    let refused = [
        (Requests { get_ratio: 1.1, ..base.clone() }, "get_ratio = 1.1: use 0 to 1"),
        (Requests { get_ratio: f64::NAN, ..base.clone() }, "get_ratio = NaN: use 0 to 1"),
        (keys(0, uniform, fixed), "keys = 0: use 1 to 1000000000"),
        (keys(2, Order::Zipf { exponent: -1.0 }, fixed), "exponent = -1: use 0 to 10"),
        (keys(101, uniform, KeyLength::Fixed(2)), "key length = 2: use 3 to 250 bytes for 101"),
        (keys(1, uniform, KeyLength::Fixed(251)), "key length = 251: use 1 to 250 bytes"),
        (
            Requests { values: Values::Fixed((1 << 20) + 1), ..base.clone() },
            "value length = 1048577",
        ),
        (
            Requests { values: big, ..udp.clone() },
            "value length = 65001: use 0 to 65000 bytes over UDP",
        ),
        (Requests { path: "x".into(), ..http.clone() }, "path = \"x\": use one that begins with /"),
        (Requests { path: "/a b".into(), ..http }, "path = \"/a b\": use one"),
        (Requests { connections: 0, ..base.clone() }, "connections = 0: use 1 to 10000"),
        (Requests { connections: 10_001, ..base.clone() }, "connections = 10001: use 1 to 10000"),
        (Requests { depth: 1025, ..base.clone() }, "depth = 1025: use 1 to 1024"),
        (Requests { pace: Pace::Open { per_s: 0.0 }, ..base.clone() }, "rate = 0: use more than 0"),
        (Requests { duration_ns: 0, ..base.clone() }, "duration = 0: use more than nothing"),
    ];
    for (requests, words) in refused {
        let error = requests.check().unwrap_err().to_string();
        assert!(error.starts_with(words), "{error}");
    }
    // Gets alone store nothing.
    assert!(Requests { values: big, get_ratio: 1.0, ..udp }.check().is_ok());
    assert!(base.check().is_ok());
}

#[test]
fn protocols_have_the_names_they_are_asked_for_with() {
    for name in ["memcached-tcp", "memcached-udp", "redis", "http"] {
        let protocol: Protocol = name.parse().unwrap();
        assert_eq!(protocol.to_string(), name);
        assert_eq!(serde_json::to_string(&protocol).unwrap(), format!("\"{name}\""));
    }
    let error = "memcached".parse::<Protocol>().unwrap_err();
    assert!(error.contains("use memcached-tcp, memcached-udp, redis or http"), "{error}");
}

#[test]
fn requests_survive_the_way_through_json() {
    let asked = Requests {
        keys: KeySelection {
            count: 9,
            order: Order::Zipf { exponent: 0.9 },
            length: KeyLength::Etc,
        },
        values: Values::Etc,
        pace: Pace::Open { per_s: 5.5 },
        ..requests(Protocol::Redis)
    };
    let text = serde_json::to_string(&asked).unwrap();
    assert_eq!(serde_json::from_str::<Requests>(&text).unwrap(), asked, "{text}");
}

#[test]
fn observations_of_two_threads_are_merged() {
    let observed = |count: u64, latency_ns: u64| {
        let mut latency = Latency::new();
        latency.record_n(latency_ns, count);
        Requested {
            duration_ns: 10 + count,
            planned: count,
            sent: count,
            answered: count,
            received_bytes: 5 * count,
            service: Some(latency.clone()),
            latency,
            ..Requested::default()
        }
    };
    let mut ours = observed(3, 100);
    ours.merge(Requested { ended: Some("gone".to_owned()), ..observed(4, 900) });
    assert_eq!((ours.duration_ns, ours.planned, ours.received_bytes), (14, 7, 35));
    assert_eq!(ours.ended.as_deref(), Some("gone"));
    assert_eq!((ours.latency.0.len(), ours.latency.0.min(), ours.latency.0.max()), (7, 100, 900));
    assert_eq!((ours.service.clone(), &ours.lateness), (Some(ours.latency.clone()), &None));
    assert_balanced(&ours);
}
