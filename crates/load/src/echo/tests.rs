//! Client and server over loopback, and foreign messages at both.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use niclab_packet::echo::{MAGIC, MessageHeader, MessageKind};

use super::*;

const WAYS: [Receive; 4] = [Receive::Blocking, Receive::BusyPoll, Receive::Epoll, Receive::IoUring];

/// Every protocol with every way to wait that this system has.
fn ways() -> impl Iterator<Item = (Transport, Receive)> {
    let all = [Transport::Udp, Transport::Tcp].into_iter();
    let all = all.flat_map(|transport| WAYS.map(|receive| (transport, receive)));
    let has_rings = has_rings("every way to wait: io-uring");
    let goes = move |(_, receive): &(Transport, Receive)| *receive != Receive::IoUring || has_rings;
    all.filter(goes)
}

/// Containers often have none.
fn has_rings(test: &str) -> bool {
    let made = io_uring::IoUring::new(2);
    if let Err(error) = &made {
        println!("SKIP {test}: no io_uring: {error}");
    }
    made.is_ok()
}

fn echo(transport: Transport) -> Echo {
    Echo {
        transport,
        size: 64,
        batch: 1,
        receive: Receive::Blocking,
        pace: Pace::Closed,
        duration_ns: 60_000_000,
        warmup_ns: 10_000_000,
    }
}

const SERVE: Serve = Serve {
    transport: None,
    receive: Receive::Blocking,
    batch: 64,
    size_max: SIZE_MAX,
    idle_ns: IDLE_NS,
};

/// Lets a server on `host` run while `with` has its address; what `with` says, and what the server
/// has done.
fn served<T>(host: &str, serve: Serve, with: impl FnOnce(SocketAddr) -> T) -> (T, Served) {
    let server =
        Server::bind((host.parse::<std::net::IpAddr>().unwrap(), 0).into(), serve).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&stop));
        let ending = Ending(&stop);
        let result = with(server.address());
        drop(ending);
        running.join().unwrap().unwrap();
        (result, server.served())
    })
}

/// Ends a server when it goes, after a panic too.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn go(echo: &Echo, server: SocketAddr) -> Echoed {
    run(echo, server, 7, &AtomicBool::new(false), None).unwrap()
}

/// Every message is somewhere, and every answer is in the histogram.
fn assert_balanced(observed: &Echoed) {
    assert_eq!(observed.planned, observed.sent + observed.unsent, "{observed:?}");
    assert_eq!(observed.sent, observed.answered + observed.lost, "{observed:?}");
    assert_eq!(observed.rtt.0.len(), observed.answered, "{observed:?}");
}

#[test]
fn every_way_to_wait_brings_every_message_back() {
    for (transport, receive) in ways() {
        for host in ["127.0.0.1", "::1"] {
            let serve = Serve { receive, transport: Some(transport), ..SERVE };
            let (observed, done) =
                served(host, serve, |to| go(&Echo { receive, ..echo(transport) }, to));
            assert_balanced(&observed);
            let clean = (observed.lost, observed.foreign, observed.duplicated, observed.reordered);
            assert_eq!(clean, (0, 0, 0, 0), "{transport:?} {receive:?} {host}: {observed:?}");
            assert!(observed.answered > 0, "{transport:?} {receive:?} {host}: {observed:?}");
            assert_eq!((done.received, done.foreign), (done.answered, 0), "{done:?}");
            assert!(done.received >= observed.answered);
        }
    }
}

#[test]
fn every_size_and_batch_comes_back() {
    for (transport, receive) in ways() {
        for (size, batch) in [(16, 1), (16, 1024), (1472, 64), (65_507, 1), (65_507, 16)] {
            let mut asked = Echo { size, batch, receive, ..echo(transport) };
            // A message lost while warming up would be waited for until the end of a short trial.
            if transport == Transport::Udp && batch > 16 {
                asked.duration_ns = 2 * PATIENCE_NS;
            }
            // Of a server of both, UDP would take a core of those that never sleep.
            let serve = Serve { receive, transport: Some(transport), ..SERVE };
            let (observed, done) = served("127.0.0.1", serve, |to| go(&asked, to));
            assert_balanced(&observed);
            assert!(
                observed.answered >= u64::from(batch),
                "{transport:?} {size} {batch}: {observed:?}"
            );
            assert_eq!(observed.sent % u64::from(batch), 0, "whole batches: {observed:?}");
            assert_eq!(done.foreign, 0);
            // Large batches may find the socket's buffer full, where nobody may widen it.
            if transport == Transport::Tcp || batch <= 16 {
                assert_eq!(observed.lost, 0, "{transport:?} {size} {batch}: {observed:?}");
            }
        }
    }
}

#[test]
fn an_open_loop_keeps_its_rate_and_counts_from_the_plan() {
    for (transport, receive) in ways() {
        let pace = Pace::Open { per_s: 2_000.0 };
        let asked = Echo { receive, pace, batch: 4, ..echo(transport) };
        let serve = Serve { receive, transport: Some(transport), ..SERVE };
        let (observed, _) = served("127.0.0.1", serve, |to| go(&asked, to));
        assert_balanced(&observed);
        assert_eq!(observed.planned, 120, "{transport:?} {receive:?}: {observed:?}");
        assert_eq!(observed.lost, 0, "{transport:?} {receive:?}: {observed:?}");
        let (service, lateness) = (observed.service.unwrap(), observed.lateness.unwrap());
        assert_eq!((service.0.len(), lateness.0.len()), (observed.answered, observed.sent));
        assert!(service.0.max() <= observed.rtt.0.max());
    }
}

#[test]
fn a_rate_that_cannot_be_kept_leaves_messages_unsent() {
    let pace = Pace::Open { per_s: 1e9 };
    let (observed, _) =
        served("127.0.0.1", SERVE, |to| go(&Echo { pace, ..echo(Transport::Udp) }, to));
    assert_balanced(&observed);
    assert!(observed.unsent > observed.sent, "{observed:?}");
}

/// A server of UDP that does with each request what `reply` says.
fn odd_server<T>(
    reply: impl Fn(u32, &[u8], &dyn Fn(&[u8])) + Sync,
    with: impl FnOnce(SocketAddr) -> T,
) -> T {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut bytes, mut count) = ([0; 2048], 0);
            while !stop.load(Ordering::Relaxed) {
                let Ok((len, from)) = socket.recv_from(&mut bytes) else { continue };
                let send = |bytes: &[u8]| assert!(socket.send_to(bytes, from).is_ok());
                reply(count, &bytes[..len], &send);
                count += 1;
            }
        });
        let _ending = Ending(&stop);
        with(socket.local_addr().unwrap())
    })
}

fn turned(request: &[u8]) -> Vec<u8> {
    let mut reply = request.to_vec();
    niclab_packet::echo::turn(&mut reply);
    reply
}

#[test]
fn losses_of_messages_are_distinguished() {
    let asked = Echo { batch: 8, warmup_ns: 0, ..echo(Transport::Udp) };
    let held = std::sync::Mutex::new(Vec::new());
    let reply = |count: u32, request: &[u8], send: &dyn Fn(&[u8])| {
        let mut reply = turned(request);
        match count {
            // Twice; out of order with the one behind it; of another length; another run's.
            1 => (0..2).for_each(|_| send(&reply)),
            2 => *held.lock().unwrap() = reply,
            3 => {
                send(&reply);
                send(&held.lock().unwrap());
            }
            4 => {
                send(&reply[..63]);
                send(&reply);
            }
            5 => {
                send(&reply);
                reply[8] ^= 1;
                send(&reply);
            }
            // One that is lost: the client waits for it, then goes on.
            6 => {}
            _ => send(&reply),
        }
    };
    let observed = odd_server(reply, |to| go(&asked, to));
    assert_balanced(&observed);
    assert_eq!(
        (observed.lost, observed.duplicated, observed.reordered, observed.foreign),
        (1, 1, 1, 2),
        "{observed:?}"
    );
}

#[test]
fn a_server_that_goes_leaves_what_was_measured() {
    let asked = Echo { duration_ns: 30_000_000_000, warmup_ns: 0, ..echo(Transport::Udp) };
    let reply = |count: u32, request: &[u8], send: &dyn Fn(&[u8])| {
        if count < 50 {
            send(&turned(request));
        }
    };
    let observed = odd_server(reply, |to| go(&asked, to));
    assert_eq!(observed.answered, 50);
    assert_balanced(&observed);
    let ended = observed.ended.unwrap();
    assert!(ended.contains("the server was lost after 2.") && ended.contains("no more"), "{ended}");
}

#[test]
fn a_missing_server_is_reported_with_the_remedy() {
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for transport in [Transport::Udp, Transport::Tcp] {
        let error = run(&echo(transport), free, 1, &AtomicBool::new(false), None).unwrap_err();
        let words = error.to_string();
        assert!(
            words.contains("answered nothing") && words.contains("niclab serve echo"),
            "{words}"
        );
    }
}

#[test]
fn an_address_that_is_taken_or_not_here_is_reported() {
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = Server::bind(other.local_addr().unwrap(), SERVE).unwrap_err();
    assert!(matches!(error, EchoError::InUse { .. }), "{error}");
    let error = Server::bind("192.0.2.1:9".parse().unwrap(), SERVE).unwrap_err();
    assert!(matches!(error, EchoError::NotHere { .. }), "{error}");
}

#[test]
fn the_server_answers_no_more_than_it_got_and_only_requests() {
    let head = |kind, len| MessageHeader { kind, len, run: 1, number: 0 };
    let message = |kind, text: u16, len: usize| {
        let mut bytes = vec![0; len];
        head(kind, text).write(&mut bytes);
        bytes
    };
    let mut version = message(MessageKind::Request, 40, 40);
    version[4] = 9;
    let strange = [
        Vec::new(),
        MAGIC.to_be_bytes().to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        message(MessageKind::Request, 41, 40),
        message(MessageKind::Request, 39, 40),
        message(MessageKind::Reply, 40, 40),
        version,
    ];
    let ((), done) = served("127.0.0.1", SERVE, |to| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        for bytes in &strange {
            socket.send_to(bytes, to).unwrap();
        }
        socket.send_to(&message(MessageKind::Request, 40, 40), to).unwrap();
        let mut bytes = [0; 100];
        let (len, _) = socket.recv_from(&mut bytes).unwrap();
        assert_eq!(MessageHeader::of_datagram(&bytes[..len]), Ok(head(MessageKind::Reply, 40)));
        assert!(socket.recv_from(&mut bytes).is_err(), "a second answer");

        // Over a stream nobody can tell where the next message begins.
        let mut stream = TcpStream::connect(to).unwrap();
        stream.write_all(&message(MessageKind::Request, 40, 40)).unwrap();
        stream.read_exact(&mut bytes[..40]).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert!(matches!(stream.read(&mut bytes), Ok(0) | Err(_)));
    });
    let foreign = strange.len() as u64 + 1;
    assert_eq!((done.received, done.answered, done.foreign), (2, 2, foreign), "{done:?}");
}

#[test]
fn longer_messages_than_the_server_takes_are_foreign() {
    let message = |len: u16| {
        let mut bytes = vec![0; len.into()];
        MessageHeader { kind: MessageKind::Request, len, run: 1, number: 0 }.write(&mut bytes);
        bytes
    };
    for (transport, receive) in ways() {
        let serve = Serve { transport: Some(transport), receive, size_max: 100, ..SERVE };
        let ((), done) = served("127.0.0.1", serve, |to| {
            let mut bytes = [0; 200];
            if transport == Transport::Tcp {
                let mut stream = TcpStream::connect(to).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                stream.write_all(&message(100)).unwrap();
                stream.read_exact(&mut bytes[..100]).unwrap();
                stream.write_all(&message(101)).unwrap();
                assert!(matches!(stream.read(&mut bytes), Ok(0)), "{receive:?}: it is answered");
                return;
            }
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            for len in [101, 102, 100] {
                socket.send_to(&message(len), to).unwrap();
            }
            assert_eq!(socket.recv(&mut bytes).unwrap(), 100, "{receive:?}");
        });
        let foreign = if transport == Transport::Tcp { 1 } else { 2 };
        assert_eq!((done.received, done.foreign), (1, foreign), "{transport:?} {receive:?}");
    }
}

#[test]
fn programs_stamp_before_and_after_their_calls() {
    const TAKEN: [StampPoint; 4] = [
        StampPoint::ClientSend,
        StampPoint::ServerReceive,
        StampPoint::ServerSend,
        StampPoint::ClientReceive,
    ];
    for transport in [Transport::Udp, Transport::Tcp] {
        // The second has no room for stamps: the server keeps its own.
        for size in [128, 64] {
            let server = Server::bind("127.0.0.1:0".parse().unwrap(), SERVE).unwrap();
            server.stamp(true);
            let stop = AtomicBool::new(false);
            let mut passages = MessageStamps::default();
            let asked = Echo { size, ..echo(transport) };
            let observed = thread::scope(|scope| {
                scope.spawn(|| server.run(&stop));
                let to = server.address();
                let never = AtomicBool::new(false);
                let observed = run(&asked, to, 9, &never, Some(&mut passages)).unwrap();
                stop.store(true, Ordering::Relaxed);
                observed
            });
            assert_eq!(passages.kept.len() as u64, observed.answered, "the measured part alone");
            assert_eq!(passages.client.unwrap().ip().to_string(), "127.0.0.1");
            let log = server.take_log();
            assert_eq!(log.is_empty(), size == 128, "{transport:?}");
            for (number, mut passage) in passages.kept {
                if size < 128 {
                    let of = log.iter().find(|logged| (logged.run, logged.number) == (9, number));
                    passage.put(StampPoint::ServerReceive, of.unwrap().received);
                    passage.put(StampPoint::ServerSend, of.unwrap().sent);
                }
                let times = TAKEN.map(|place| passage.at(place).unwrap().time_ns);
                assert!(times.is_sorted(), "{times:?}");
                assert_eq!(passage.at(StampPoint::ClientEgress), None);
            }
        }
    }
}

#[test]
fn sockets_have_the_kernels_stamps_between_those_of_the_programs() {
    const ORDER: [StampPoint; 8] = [
        StampPoint::ClientSend,
        StampPoint::ClientEgress,
        StampPoint::ServerIngress,
        StampPoint::ServerReceive,
        StampPoint::ServerSend,
        StampPoint::ServerEgress,
        StampPoint::ClientIngress,
        StampPoint::ClientReceive,
    ];
    for (host, receive) in [
        ("127.0.0.1", Receive::Blocking),
        ("::1", Receive::Blocking),
        ("127.0.0.1", Receive::BusyPoll),
        ("127.0.0.1", Receive::Epoll),
    ] {
        for pace in [Pace::Closed, Pace::Open { per_s: 2_000.0 }] {
            let transport = Some(Transport::Udp);
            let serve = Serve { transport, receive, batch: 1, size_max: 200, ..SERVE };
            let address = (host.parse::<std::net::IpAddr>().unwrap(), 0).into();
            let server = Server::bind(address, serve).unwrap().stamped_by_socket().unwrap();
            let asked = Echo { size: 200, receive, pace, ..echo(Transport::Udp) };
            let mut passages = MessageStamps { by_socket: true, ..MessageStamps::default() };
            let (never, stop) = (AtomicBool::new(false), AtomicBool::new(false));
            let observed = thread::scope(|scope| {
                let running = scope.spawn(|| server.run(&stop));
                let ending = Ending(&stop);
                // What is none of its is dropped, and what is too long.
                let other = UdpSocket::bind((address.ip(), 0)).unwrap();
                other.send_to(b"GET / HTTP/1.1", server.address()).unwrap();
                let mut long = vec![0; 300];
                MessageHeader { kind: MessageKind::Request, len: 300, run: 9, number: 0 }
                    .write(&mut long);
                other.send_to(&long, server.address()).unwrap();
                let observed =
                    run(&asked, server.address(), 9, &never, Some(&mut passages)).unwrap();
                drop(ending);
                running.join().unwrap().unwrap();
                observed
            });
            assert_balanced(&observed);
            assert_eq!((observed.lost, observed.foreign), (0, 0), "{observed:?}");
            let done = server.served();
            assert_eq!((done.foreign, done.received), (2, done.answered), "{done:?}");
            assert_eq!(passages.kept.len() as u64, observed.answered, "{host} {receive:?}");
            let log = server.take_log();
            for (number, mut passage) in passages.kept {
                let of = log.iter().find(|logged| (logged.run, logged.number) == (9, number));
                passage.put(StampPoint::ServerEgress, of.unwrap().egress.unwrap());
                let times = ORDER.map(|place| passage.at(place).map(|stamp| stamp.time_ns));
                assert!(times.iter().all(Option::is_some), "{host} {receive:?}: {times:?}");
                // Two clocks are read to tell one by the other.
                let near = |pair: &[Option<u64>]| pair[1].unwrap() + 2_000 > pair[0].unwrap();
                assert!(times.windows(2).all(near), "{host} {receive:?}: {times:?}");
            }
        }
    }
}

#[test]
fn messages_without_socket_stamps_are_refused() {
    let reported = "not supported: stamps of sockets but over UDP, one message a call";
    for (transport, receive, batch) in [
        (Transport::Tcp, Receive::Blocking, 1),
        (Transport::Udp, Receive::IoUring, 1),
        (Transport::Udp, Receive::Blocking, 2),
    ] {
        let asked = Echo { receive, batch, ..echo(transport) };
        let mut passages = MessageStamps { by_socket: true, ..MessageStamps::default() };
        let (nobody, never) = ("127.0.0.1:9".parse().unwrap(), AtomicBool::new(false));
        let error = run(&asked, nobody, 1, &never, Some(&mut passages)).unwrap_err();
        assert!(error.to_string().starts_with(reported), "{error}");
        let serve = Serve { transport: Some(transport), receive, batch, ..SERVE };
        let Ok(server) = Server::bind("127.0.0.1:0".parse().unwrap(), serve) else { continue };
        let error = server.stamped_by_socket().unwrap_err();
        assert!(error.to_string().starts_with(reported), "{error}");
    }
}

#[test]
fn a_ring_takes_its_operations_back_before_its_memory_goes() {
    use super::uring::DatagramRing;
    use crate::mmsg::{Incoming, Outgoing};

    if !has_rings("a_ring_takes_its_operations_back_before_its_memory_goes") {
        return;
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = socket.local_addr().unwrap();
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..20 {
        let mut ring =
            DatagramRing::new(&socket, Incoming::new(8, 100), Outgoing::new(0, 0)).unwrap();
        other.send_to(b"one", to).unwrap();
        // Seven receives stay with the kernel, and are taken back.
        assert_eq!(ring.receive(now_ns() + SILENCE_NS).unwrap(), 1);
        let at = ring.received()[0];
        assert_eq!(ring.message(at), b"one");
        drop(ring);
        // Nobody takes what comes now: it waits in the socket.
        other.send_to(b"two", to).unwrap();
        let mut bytes = [0; 8];
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert_eq!(socket.recv(&mut bytes).unwrap(), 3);
        assert_eq!(&bytes[..3], b"two");
    }
}

#[test]
fn a_ring_of_a_connection_takes_its_operations_back() {
    use super::uring::StreamRing;

    if !has_rings("a_ring_of_a_connection_takes_its_operations_back") {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut stream = listener.accept().unwrap().0;
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for _ in 0..20 {
        let mut ring = StreamRing::new(&stream, usize::MAX).unwrap();
        // Nothing comes: the receive stays with the kernel, and is taken back.
        assert!(!ring.receive(now_ns() + 1_000_000).unwrap());
        drop(ring);
        other.write_all(b"two").unwrap();
        let mut bytes = [0; 3];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"two");
    }
    // More than the path holds: the send stays with the kernel, and is taken back.
    let mut ring = StreamRing::new(&stream, usize::MAX).unwrap();
    ring.pending().resize(64 << 20, 7);
    assert!(!ring.receive(now_ns() + 50_000_000).unwrap());
    drop(ring);
    drop(stream);
    let mut arrived = Vec::new();
    other.read_to_end(&mut arrived).unwrap();
    assert!(arrived.len() < 64 << 20 && arrived.iter().all(|byte| *byte == 7), "{}", arrived.len());
    let mut ring = StreamRing::new(&other, usize::MAX).unwrap();
    let closed = ring.receive(now_ns() + SILENCE_NS).unwrap_err();
    assert_eq!(closed.kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_client_that_reads_no_answers_is_held_up_and_nobody_else() {
    const MUCH: usize = 256 << 20;
    let rings = has_rings("a_client_that_reads_no_answers_is_held_up: io-uring");
    for receive in [Receive::Blocking, Receive::IoUring] {
        if receive == Receive::IoUring && !rings {
            continue;
        }
        let serve = Serve { receive, ..SERVE };
        let ((), done) = served("127.0.0.1", serve, |to| {
            let mut deaf = TcpStream::connect(to).unwrap();
            deaf.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
            let mut message = vec![0; 65_507];
            let head = MessageHeader { kind: MessageKind::Request, len: 65_507, run: 1, number: 0 };
            head.write(&mut message);
            let held_up = (0..MUCH / message.len()).any(|_| deaf.write_all(&message).is_err());
            assert!(held_up, "{receive:?}: it takes requests whose answers it cannot get rid of");
            assert!(go(&echo(Transport::Tcp), to).answered > 0);
        });
        assert_eq!(done.foreign, 0, "{done:?}");
        // The kernel has not taken the last answers to the deaf client.
        assert!(done.answered < done.received, "{receive:?}: {done:?}");
    }
}

#[test]
fn an_unsendable_message_is_refused_by_name() {
    let base = echo(Transport::Udp);
    let refused = [
        (Echo { size: 15, ..base.clone() }, "size = 15: use 16 to 65507 bytes"),
        (Echo { size: 65_508, ..base.clone() }, "size = 65508: use 16 to 65507 bytes"),
        (Echo { batch: 0, ..base.clone() }, "batch = 0: use 1 to 1024"),
        (Echo { batch: 1025, ..base.clone() }, "batch = 1025: use 1 to 1024"),
        (Echo { pace: Pace::Open { per_s: 0.0 }, ..base.clone() }, "rate = 0: use 1 to 1e9"),
        (Echo { pace: Pace::Open { per_s: f64::NAN }, ..base.clone() }, "rate = NaN: use 1 to"),
        (Echo { duration_ns: 0, ..base }, "duration = 0: use more than nothing"),
    ];
    for (echo, words) in refused {
        let error = echo.check().unwrap_err().to_string();
        assert!(error.starts_with(words), "{error}");
    }
}
