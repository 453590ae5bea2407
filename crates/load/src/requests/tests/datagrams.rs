//! memcached over UDP, with the errors of a network.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use super::scripted::{SetAtEnd, found};
use super::*;

fn base() -> Requests {
    requests(Protocol::MemcachedUdp)
}

const START: [&str; 12] =
    ["-m", "512", "-l", "127.0.0.1", "-p", "PORT", "-U", "PORT", "-t", "1", "-u", "nobody"];

#[test]
fn a_real_memcached_answers_every_datagram() {
    let test = "a_real_memcached_answers_every_datagram";
    let Some(real) = Real::start(test, "memcached", &START) else { return };
    let kinds = [
        (KeyLength::Fixed(16), Values::Fixed(100), 0.5),
        (KeyLength::Etc, Values::Etc, 0.5),
        (KeyLength::Fixed(4), Values::Fixed(0), 0.9),
        // Answers of 72 datagrams, and of the most.
        (KeyLength::Fixed(5), Values::Fixed(100_000), 1.0),
        (KeyLength::Fixed(6), Values::Fixed(1_000_000), 1.0),
    ];
    for (length, values, get_ratio) in kinds {
        let asked = Requests {
            keys: KeySelection { count: 20, length, ..base().keys },
            values,
            get_ratio,
            ..base()
        };
        fill(&asked, real.address).unwrap();
        for (depth, pace) in
            [(1, Pace::Closed), (2, Pace::Closed), (2, Pace::Open { per_s: 500.0 })]
        {
            let observed = go(&Requests { depth, pace, ..asked.clone() }, real.address);
            assert_balanced(&observed);
            assert_eq!(
                (observed.foreign, observed.refused, observed.misses),
                (0, 0, 0),
                "{observed:?}"
            );
            assert!(observed.hits > 0 && observed.lost * 10 <= observed.sent, "{observed:?}");
        }
    }
    let other = KeySelection { length: KeyLength::Fixed(77), ..base().keys };
    let asked = Requests { keys: other, get_ratio: 1.0, depth: 40, connections: 3, ..base() };
    let observed = go(&asked, real.address);
    assert_balanced(&observed);
    assert_eq!(
        (observed.misses, observed.received_bytes),
        (observed.answered, 13 * observed.answered)
    );
    assert_eq!(observed.sent_bytes, 91 * observed.sent);
}

/// A server that does with each request what `reply` says: it gets the number of the request, that
/// of the datagram, its text, and what sends a datagram back.
fn odd_server<T>(
    reply: impl Fn(u32, u16, &str, &dyn Fn(&[u8])) + Sync,
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
                let text = std::str::from_utf8(&bytes[8..len]).unwrap();
                assert_eq!(bytes[2..8], [0, 0, 0, 1, 0, 0]);
                let id = u16::from_be_bytes([bytes[0], bytes[1]]);
                let send = |bytes: &[u8]| assert!(socket.send_to(bytes, from).is_ok());
                reply(count, id, text, &send);
                count += 1;
            }
        });
        let _stop = SetAtEnd(&stop);
        with(socket.local_addr().unwrap())
    })
}

/// A datagram: one of so many that answer request `id`.
fn datagram(id: u16, part: u16, count: u16, text: &[u8]) -> Vec<u8> {
    let frame = [id, part, count, 0].map(u16::to_be_bytes).concat();
    [&frame, text].concat()
}

#[test]
fn losses_of_datagrams_are_distinguished() {
    let asked = Requests { connections: 1, depth: 4, warmup_ns: 0, ..base() };
    let held = Mutex::new(HashMap::new());
    let reply = |count: u32, id: u16, text: &str, send: &dyn Fn(&[u8])| {
        let message = match text.starts_with("get ") {
            true => b"END\r\n".as_slice(),
            false => b"STORED\r\n",
        };
        let answer = datagram(id, 0, 1, message);
        match count {
            // Twice; cut short; without a frame; of a request that nobody made.
            10 => (0..2).for_each(|_| send(&answer)),
            20 => {
                send(&answer[..answer.len() - 1]);
                send(&answer);
            }
            30 => {
                send(&answer[..7]);
                send(&answer);
            }
            40 => {
                send(&datagram(id.wrapping_add(9000), 0, 1, message));
                send(&answer);
            }
            // One that comes in two, the later one first, and one of them twice.
            50 => {
                send(&datagram(id, 1, 2, &message[3..]));
                send(&datagram(id, 1, 2, &message[3..]));
                send(&datagram(id, 0, 2, &message[..3]));
            }
            // One that never comes, and one that comes when nobody waits any more.
            60 => {}
            70 => drop(held.lock().unwrap().insert((), (Instant::now(), answer))),
            _ => send(&answer),
        }
        let mut held = held.lock().unwrap();
        if held.get(&()).is_some_and(|(since, _)| since.elapsed() > Duration::from_millis(700)) {
            send(&held.remove(&()).unwrap().1);
        }
    };
    let asked = Requests { duration_ns: 1_500_000_000, ..asked };
    let observed = odd_server(reply, |server| go(&asked, server));
    assert_balanced(&observed);
    assert_eq!((observed.lost, observed.late), (2, 1), "{observed:?}");
    assert_eq!((observed.duplicated, observed.foreign), (2, 3), "{observed:?}");
    assert!(observed.ended.is_none() && observed.hits == 0, "{observed:?}");
}

#[test]
fn another_value_is_found() {
    let asked = Requests { get_ratio: 1.0, warmup_ns: 0, ..base() };
    let reply = |_: u32, id: u16, text: &str, send: &dyn Fn(&[u8])| {
        let key = text.split_whitespace().nth(1).unwrap();
        send(&datagram(id, 0, 1, &found(key, &[b'x'; 100])));
    };
    let observed = odd_server(reply, |server| go(&asked, server));
    assert_balanced(&observed);
    assert!(observed.foreign == observed.answered && observed.answered > 0, "{observed:?}");
}

#[test]
fn a_missing_server_is_reported() {
    let reported = |server| {
        run(&base(), server, &AtomicBool::new(false), || (), None).unwrap_err().to_string()
    };
    let free = reported(free_port());
    assert!(free.contains("nobody answers memcached-udp requests"), "{free}");
    let silent = odd_server(|_, _, _, _| {}, reported);
    assert!(silent.contains("nobody answers memcached-udp requests"), "{silent}");
}

#[test]
fn a_server_that_falls_silent_ends_it() {
    let asked = Requests { duration_ns: 30_000_000_000, warmup_ns: 0, ..base() };
    let reply = |count: u32, id: u16, _: &str, send: &dyn Fn(&[u8])| {
        if count < 50 {
            send(&datagram(id, 0, 1, b"ERROR\r\n"));
        }
    };
    let observed = odd_server(reply, |server| go(&asked, server));
    assert_balanced(&observed);
    assert_eq!((observed.answered, observed.refused), (50, 50), "{observed:?}");
    assert!(observed.ended.unwrap().contains("it answers no more, for 5 s"));
}
