//! Bulk data over loopback, and the handling of errors on both sides.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use niclab_packet::echo::{MessageHeader, MessageKind};

use super::*;

fn stream(transport: Transport) -> Stream {
    Stream {
        transport,
        size: 1024,
        batch: 1,
        connections: 1,
        threads: 1,
        per_s: None,
        duration_ns: 80_000_000,
        warmup_ns: 20_000_000,
    }
}

/// Both sides on this machine; `meanwhile` gets the address of the receiver, and may set the flag
/// that ends both.
fn carried(
    host: &str,
    stream: &Stream,
    meanwhile: impl FnOnce(&[std::net::SocketAddr], &AtomicBool),
) -> (Sent, Received) {
    let receiver = Receiver::bind(host.parse().unwrap(), stream, 7).unwrap();
    let addresses = receiver.addresses().to_vec();
    let senders = connect(stream, &addresses, 7).unwrap();
    let receivers = receiver.parts().unwrap();
    let counts = (senders.len(), receivers.len());
    assert_eq!(counts, (stream.threads.into(), stream.threads.into()));
    let window = Window::from_now(stream.warmup_ns, stream.duration_ns);
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let receiving: Vec<_> =
            receivers.into_iter().map(|part| scope.spawn(move || part.run(window, stop))).collect();
        let sending: Vec<_> =
            senders.into_iter().map(|part| scope.spawn(move || part.run(window, stop))).collect();
        meanwhile(&addresses, stop);
        let sent = sending.into_iter().map(|part| part.join().unwrap()).collect();
        let received = receiving.into_iter().map(|part| part.join().unwrap()).collect();
        (Sent::of(sent), Received::of(received))
    })
}

fn plain(stream: &Stream) -> (Sent, Received) {
    carried("127.0.0.1", stream, |_, _| {})
}

#[test]
fn tcp_brings_what_was_written_whatever_the_size_and_the_number_of_connections() {
    for host in ["127.0.0.1", "::1"] {
        for (size, connections, threads) in [
            (1, 1, 1),
            (64, 1, 1),
            (131_072, 1, 1),
            (WRITE_MAX, 2, 2),
            (131_072, 4, 1),
            (4_096, 40, 3),
        ] {
            let asked = Stream { size, connections, threads, ..stream(Transport::Tcp) };
            let (sent, received) = carried(host, &asked, |_, _| {});
            let words = format!("{host} {asked:?}: {sent:?} {received:?}");
            assert_eq!((sent.ended.as_ref(), received.ended.as_ref()), (None, None), "{words}");
            assert_eq!(received.duration_ns, asked.duration_ns, "{words}");
            assert!(received.bytes > 0 && sent.retransmits.is_some(), "{words}");
            assert_eq!((received.messages, received.lost, received.foreign), (0, 0, 0), "{words}");
            // A message that the kernel has taken a part of is not one yet.
            let whole = sent.messages * u64::from(size);
            let parts = u64::from(connections) * u64::from(size);
            assert!(sent.bytes.abs_diff(whole) <= parts, "{words}");
            // What is on its way when the window begins or ends is what the kernel's buffers hold,
            // and what goes through while either side is kept from its core there.
            let apart = sent.bytes.abs_diff(received.bytes);
            let held = u64::from(connections) * (16 << 20);
            assert!(apart <= held + sent.bytes / 4, "{words}");
            assert!(received.time.total_ns() > 0 && sent.time.total_ns() > 0, "{words}");
        }
    }
}

#[test]
fn udp_counts_what_came_and_what_is_missing() {
    for (size, batch, connections, threads) in
        [(16, 1, 1, 1), (1472, 64, 1, 1), (65_507, 4, 1, 1), (512, 16, 5, 2), (16, 1024, 1, 1)]
    {
        let asked = Stream { size, batch, connections, threads, ..stream(Transport::Udp) };
        let (sent, received) = plain(&asked);
        let words = format!("{asked:?}: {sent:?} {received:?}");
        assert_eq!((sent.ended.as_ref(), received.ended.as_ref()), (None, None), "{words}");
        assert!(received.messages > 0, "{words}");
        assert_eq!(received.bytes, received.messages * u64::from(size), "{words}");
        assert_eq!(sent.bytes, sent.messages * u64::from(size), "{words}");
        assert_eq!((received.foreign, received.reordered), (0, 0), "{words}");
        assert_eq!(sent.retransmits, None);
        // Each was sent; what is on its way at both ends of the window is a few buffers.
        let known = received.messages + received.lost;
        let apart = sent.messages.abs_diff(known) as f64;
        let some = 8.0 * f64::from(batch) * f64::from(connections) + 20_000.0;
        assert!(apart < some.max(0.2 * sent.messages as f64), "{words}");
    }
}

#[test]
fn a_rate_is_kept_and_nothing_is_lost_at_it() {
    for (per_s, batch, connections) in [(2_000.0, 1, 1), (20_000.0, 10, 3)] {
        let base = stream(Transport::Udp);
        let asked = Stream { per_s: Some(per_s), batch, connections, size: 100, ..base };
        let (sent, received) = plain(&asked);
        let words = format!("{sent:?} {received:?}");
        assert_eq!((received.lost, received.foreign), (0, 0), "{words}");
        let due = per_s * asked.duration_ns as f64 / 1e9;
        // A busy machine sends within the window what was due before it, and may end late.
        let all = due + per_s * asked.warmup_ns as f64 / 1e9 + f64::from(batch);
        assert!((received.messages as f64) <= all, "{words}");
        assert!((sent.messages + sent.unsent) as f64 >= due - 2.0 * f64::from(batch), "{words}");
    }
}

#[test]
fn an_unsendable_message_is_refused_with_the_remedy() {
    let refused = |stream: &Stream| {
        let bound = Receiver::bind("127.0.0.1".parse().unwrap(), stream, 7).unwrap_err();
        let connected = connect(stream, &[], 7).unwrap_err();
        assert_eq!(bound.to_string(), connected.to_string());
        bound.to_string()
    };
    let (udp, tcp) = (stream(Transport::Udp), stream(Transport::Tcp));
    let of_udp = "use 16 to 65507 bytes over udp";
    for (size, transport, words) in [
        (0, Transport::Udp, of_udp),
        (15, Transport::Udp, of_udp),
        (65_508, Transport::Udp, of_udp),
        (0, Transport::Tcp, "use 1 to 1048576 bytes over tcp"),
        (WRITE_MAX + 1, Transport::Tcp, "use 1 to 1048576 bytes over tcp"),
    ] {
        let said = refused(&Stream { size, ..stream(transport) });
        assert_eq!(said, format!("size = {size}: {words}"));
    }
    let cases = [
        (Stream { batch: 0, ..udp.clone() }, "batch = 0: use 1 to 1024"),
        (Stream { batch: 1025, ..udp.clone() }, "batch = 1025: use 1 to 1024"),
        (Stream { batch: 2, ..tcp.clone() }, "batch = 2: use 1: a stream has no batches"),
        (Stream { connections: 0, ..tcp.clone() }, "connections = 0: use 1 to 256"),
        (Stream { connections: 257, ..tcp.clone() }, "connections = 257: use 1 to 256"),
        (
            Stream { threads: 2, ..tcp.clone() },
            "threads = 2: use 1 to 1, the number of connections",
        ),
        (
            Stream { threads: 0, ..tcp.clone() },
            "threads = 0: use 1 to 1, the number of connections",
        ),
        (Stream { per_s: Some(0.0), ..udp.clone() }, "rate = 0: use 1 to 1e9 datagrams a second"),
        (Stream { per_s: Some(f64::NAN), ..udp }, "rate = NaN: use 1 to 1e9 datagrams a second"),
        (
            Stream { per_s: Some(5.0), ..tcp.clone() },
            "rate = 5: use none over TCP, which finds its own",
        ),
        (Stream { duration_ns: 0, ..tcp }, "duration = 0: use more than nothing"),
    ];
    for (asked, words) in cases {
        assert_eq!(refused(&asked), words);
    }
}

#[test]
fn a_receiver_that_goes_ends_the_sender_and_what_was_measured_is_kept() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let asked = Stream { duration_ns: 20_000_000_000, ..stream(transport) };
        let receiver = Receiver::bind("127.0.0.1".parse().unwrap(), &asked, 7).unwrap();
        let mut senders = connect(&asked, receiver.addresses(), 7).unwrap();
        let mut receivers = receiver.parts().unwrap();
        let window = Window::from_now(asked.warmup_ns, asked.duration_ns);
        let (gone, other) = (&AtomicBool::new(false), &AtomicBool::new(false));
        let (sent, received) = thread::scope(|scope| {
            let (to, from) = (receivers.remove(0), senders.remove(0));
            let receiving = scope.spawn(move || to.run(window, gone));
            let sending = scope.spawn(move || from.run(window, other));
            thread::sleep(Duration::from_millis(150));
            gone.store(true, Ordering::Relaxed);
            (sending.join().unwrap(), receiving.join().unwrap())
        });
        let ended = sent.ended.as_deref().unwrap_or_default();
        assert!(ended.starts_with("the receiver was lost: "), "{transport}: {sent:?}");
        assert!(other.load(Ordering::Relaxed), "all others are told");
        assert!(received.bytes > 0 && received.ended.is_none(), "{transport}: {received:?}");
        for duration_ns in [sent.duration_ns, received.duration_ns] {
            assert!((1..10_000_000_000).contains(&duration_ns), "{transport}: {duration_ns}");
        }
    }
}

#[test]
fn a_sender_that_goes_or_falls_silent_ends_the_receiver() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let asked = Stream { duration_ns: 20_000_000_000, ..stream(transport) };
        let receiver = Receiver::bind("127.0.0.1".parse().unwrap(), &asked, 7).unwrap();
        let mut senders = connect(&asked, receiver.addresses(), 7).unwrap();
        let part = receiver.parts().unwrap().remove(0);
        let window = Window::from_now(asked.warmup_ns, asked.duration_ns);
        let (gone, other) = (&AtomicBool::new(false), &AtomicBool::new(false));
        let received = thread::scope(|scope| {
            let from = senders.remove(0);
            scope.spawn(move || from.run(window, gone));
            let receiving = scope.spawn(move || part.run(window, other));
            thread::sleep(Duration::from_millis(150));
            gone.store(true, Ordering::Relaxed);
            receiving.join().unwrap()
        });
        let words = match transport {
            Transport::Tcp => "the sender was lost: it has closed the connection",
            Transport::Udp => "the sender was lost: nothing came for 2 s",
        };
        assert_eq!(received.ended.as_deref(), Some(words), "{received:?}");
        // What counts is the time in which something came.
        assert!((1..2_000_000_000).contains(&received.duration_ns), "{received:?}");
        assert!(received.bytes > 0, "{received:?}");
    }
}

#[test]
fn datagrams_of_others_are_counted_apart() {
    let duration_ns = 600_000_000;
    let asked = Stream { per_s: Some(1_000.0), duration_ns, ..stream(Transport::Udp) };
    let (_, received) = carried("127.0.0.1", &asked, |addresses, _| {
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut other_run = vec![0; 1024];
        MessageHeader { kind: MessageKind::Reply, len: 1024, run: 8, number: 1 }
            .write(&mut other_run);
        let too_long = vec![0; 3_000];
        thread::sleep(Duration::from_millis(30));
        for _ in 0..10 {
            for bytes in [&other_run[..], &too_long, b"hello", b""] {
                stranger.send_to(bytes, addresses[0]).unwrap();
            }
        }
    });
    assert_eq!((received.foreign, received.reordered, received.lost), (40, 0, 0), "{received:?}");
    assert!(received.messages > 0, "{received:?}");
    assert_eq!(received.bytes, received.messages * 1024);
}

#[test]
fn a_missing_server_is_reported_at_once() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = connect(&stream(Transport::Tcp), &[closed], 7).unwrap_err().to_string();
    assert!(error.starts_with("connect: "), "{error}");
    // A sender that never connects.
    let receiver =
        Receiver::bind("127.0.0.1".parse().unwrap(), &stream(Transport::Tcp), 7).unwrap();
    let error = receiver.parts().unwrap_err().to_string();
    assert!(error.starts_with("accept: "), "{error}");
}

#[test]
fn the_time_of_a_thread_that_works_passes() {
    let before = ThreadTime::now();
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_millis(30) {}
    let passed = ThreadTime::now().since(before);
    assert!(passed.total_ns() > 0 && passed.total_ns() < 60_000_000_000, "{passed:?}");
    assert_eq!(before.since(ThreadTime::now()), ThreadTime::default());
}
