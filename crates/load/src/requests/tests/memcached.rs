//! memcached over TCP: right and malformed answers.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Mutex;

use super::scripted::{Reply, found, memcached, served};
use super::*;

const START: [&str; 12] =
    ["-m", "512", "-l", "127.0.0.1", "-p", "PORT", "-U", "PORT", "-t", "1", "-u", "nobody"];

fn base() -> Requests {
    requests(Protocol::MemcachedTcp)
}

#[test]
fn a_real_memcached_answers_every_request() {
    let Some(real) = Real::start("a_real_memcached_answers_every_request", "memcached", &START)
    else {
        return;
    };
    let keys = [
        (KeyLength::Fixed(16), Values::Fixed(100)),
        (KeyLength::Etc, Values::Etc),
        (KeyLength::Fixed(250), Values::Fixed(0)),
        (KeyLength::Fixed(3), Values::Fixed(400_000)),
    ];
    for (length, values) in keys {
        let order = Order::Zipf { exponent: 0.99 };
        let asked = Requests { keys: KeySelection { count: 100, order, length }, values, ..base() };
        fill(&asked, real.address).unwrap();
        for (depth, pace) in [(1, Pace::Closed), (64, Pace::Closed), (8, Pace::Open { per_s: 2e3 })]
        {
            let seen = go(&Requests { depth, pace, ..asked.clone() }, real.address);
            assert_clean(&seen);
            assert!(seen.hits > 0 && seen.hits < seen.answered, "{seen:?}");
            assert_eq!(seen.misses, 0, "{seen:?}");
        }
    }
    // Keys of another length were never stored.
    let other = KeySelection { length: KeyLength::Fixed(77), ..base().keys };
    let seen = go(&Requests { keys: other, get_ratio: 1.0, ..base() }, real.address);
    assert_clean(&seen);
    assert_eq!((seen.misses, seen.hits), (seen.answered, 0));
    // A get: `get `, 77 bytes of key and the end of the line. Its answer: `END`.
    assert_eq!((seen.sent_bytes, seen.received_bytes), (83 * seen.sent, 5 * seen.answered));
}

#[test]
fn a_real_memcached_refuses_values_that_are_too_large() {
    let test = "a_real_memcached_refuses_values_that_are_too_large";
    let Some(real) = Real::start(test, "memcached", &START) else { return };
    // With its own head such a value is larger than a megabyte.
    let asked = Requests { values: Values::Fixed(VALUE_LEN_MAX), get_ratio: 0.0, ..base() };
    let seen = go(&asked, real.address);
    assert_balanced(&seen);
    assert!(seen.refused > 0 && seen.refused == seen.answered, "{seen:?}");
    let error = fill(&asked, real.address).unwrap_err().to_string();
    assert!(error.contains("stored 0 of 100 keys: it refused 100"), "{error}");
}

#[test]
fn a_thousand_connections_are_made_and_served() {
    let test = "a_thousand_connections_are_made_and_served";
    let more = [&START[..], &["-c", "2048"]].concat();
    let Some(real) = Real::start(test, "memcached", &more) else { return };
    let seen = go(&Requests { connections: 1100, ..base() }, real.address);
    assert_clean(&seen);
    assert!(seen.answered > 1100, "{seen:?}");
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let Some(real) = Real::start("an_open_loop_keeps_its_rate", "memcached", &START) else {
        return;
    };
    let pace = Pace::Open { per_s: 1000.0 };
    let seen = go(&Requests { pace, duration_ns: 300_000_000, ..base() }, real.address);
    assert_balanced(&seen);
    assert_eq!(seen.planned, 300, "{seen:?}");
    assert!(seen.sent > 250, "{seen:?}");
    assert_eq!(seen.lateness.as_ref().unwrap().0.len(), seen.sent);
}

#[test]
fn a_rate_that_cannot_be_kept_leaves_requests_unsent() {
    let reply = |_, stream| memcached(stream, |_, _| Reply::Say(b"STORED\r\n".to_vec()));
    let pace = Pace::Open { per_s: 1e7 };
    let asked = Requests { pace, get_ratio: 0.0, ..base() };
    let seen = served(reply, |server| go(&asked, server));
    assert_balanced(&seen);
    assert_eq!(seen.planned, 1_000_000);
    assert!(seen.unsent > seen.sent && seen.answered > 0, "{seen:?}");
    // They waited for a place while their clocks ran; the call that sent them did not.
    let service = seen.service.unwrap();
    assert!(seen.latency.0.max() > 10 * service.0.value_at_quantile(0.5));
}

#[test]
fn answers_are_told_apart() {
    let (stored, answers) = (Mutex::new(HashMap::new()), Mutex::new(0));
    let reply = |_, stream| {
        memcached(stream, |number, command| {
            *answers.lock().unwrap() = number + 1;
            let mut stored = stored.lock().unwrap();
            if !command.is_get {
                stored.insert(command.key, command.value);
                return Reply::Say(b"STORED\r\n".to_vec());
            }
            let mut value = stored.get(&command.key).cloned().unwrap_or_default();
            Reply::Say(match number % 10 {
                0 => b"END\r\n".to_vec(),
                1 => b"SERVER_ERROR out of memory\r\n".to_vec(),
                // Another key, another length, another byte, the answer to a set.
                2 => found("0000000000000100", &value),
                3 => found(&command.key, &value[..99]),
                4 => {
                    value[77] ^= 1;
                    found(&command.key, &value)
                }
                5 => b"STORED\r\n".to_vec(),
                _ => found(&command.key, &value),
            })
        });
    };
    let asked = Requests { connections: 1, get_ratio: 1.0, warmup_ns: 0, depth: 3, ..base() };
    let seen = served(reply, |server| {
        fill(&asked, server).unwrap();
        go(&asked, server)
    });
    assert_balanced(&seen);
    assert_eq!((seen.lost, &seen.ended), (0, &None));
    let of =
        |kinds: &[u64]| (0..seen.answered).filter(|n| kinds.contains(&(n % 10))).count() as u64;
    assert_eq!(seen.misses, of(&[0]));
    assert_eq!(seen.refused, of(&[1]));
    assert_eq!(seen.foreign, of(&[2, 3, 4, 5]));
    assert_eq!(seen.hits, of(&[6, 7, 8, 9]));
    assert!(seen.answered > 20, "{seen:?}");
}

#[test]
fn answers_are_read_however_they_are_cut() {
    let stored = Mutex::new(HashMap::new());
    let reply = |_, stream: TcpStream| {
        stream.set_nodelay(true).unwrap();
        let mut out = stream.try_clone().unwrap();
        memcached(stream, |number, command| {
            let mut stored = stored.lock().unwrap();
            if !command.is_get {
                stored.insert(command.key, command.value);
                return Reply::Say(b"STORED\r\n".to_vec());
            }
            let message = found(&command.key, &stored[&command.key]);
            for piece in message.chunks(1 + number % 9) {
                out.write_all(piece).unwrap();
            }
            Reply::Say(Vec::new())
        });
    };
    let asked = Requests { connections: 3, get_ratio: 1.0, depth: 4, ..base() };
    let seen = served(reply, |server| {
        fill(&asked, server).unwrap();
        go(&asked, server)
    });
    assert_clean(&seen);
    assert_eq!(seen.hits, seen.answered);
}

#[test]
fn a_server_that_goes_leaves_what_was_measured() {
    let ends: [(Reply, &str); 2] = [
        (Reply::Close(Vec::new()), "it has closed a connection"),
        (Reply::Close(b"HTTP/1.1 400 Bad Request\r\n".to_vec()), "it said \"HTTP/1.1 400"),
    ];
    for (end, words) in ends {
        let end = Mutex::new(Some(end));
        let reply = |_, stream| {
            memcached(stream, |number, _| match number {
                50 => end.lock().unwrap().take().unwrap_or(Reply::Close(Vec::new())),
                _ => Reply::Say(b"STORED\r\n".to_vec()),
            });
        };
        let asked = Requests {
            connections: 1,
            get_ratio: 0.0,
            warmup_ns: 0,
            duration_ns: 30_000_000_000,
            ..base()
        };
        let seen = served(reply, |server| go(&asked, server));
        assert_balanced(&seen);
        assert_eq!((seen.answered, seen.lost), (50, 1), "{seen:?}");
        assert!(seen.duration_ns < 20_000_000_000, "{seen:?}");
        let ended = seen.ended.unwrap();
        assert!(ended.starts_with("the server was lost after 0."), "{ended}");
        assert!(ended.contains(words), "{ended}");
    }
}

#[test]
fn a_server_that_is_none_or_another_is_reported() {
    let reported = |asked: &Requests, server| {
        run(asked, server, &AtomicBool::new(false), || (), None).unwrap_err().to_string()
    };
    let nobody = reported(&base(), free_port());
    assert!(nobody.starts_with("nobody answers memcached-tcp requests at 127.0.0.1:"), "{nobody}");
    let silent = |_, stream: TcpStream| {
        memcached(stream, |_, _| Reply::Say(Vec::new()));
    };
    let nobody = served(silent, |server| reported(&base(), server));
    assert!(nobody.starts_with("nobody answers"), "{nobody}");
    let shut = |_, stream: TcpStream| drop(stream);
    let other = served(shut, |server| reported(&base(), server));
    assert!(other.contains("does not speak memcached-tcp: it closes"), "{other}");
    let redis = |_, stream| {
        memcached(stream, |_, _| Reply::Say(b"-ERR unknown command 'set'\r\n".to_vec()));
    };
    let other = served(redis, |server| reported(&base(), server));
    assert!(other.contains("does not speak memcached-tcp: it said \"-ERR unknown"), "{other}");
    let endless = |_, stream| {
        memcached(stream, |_, _| Reply::Say(vec![b'x'; 100_000]));
    };
    let other = served(endless, |server| reported(&base(), server));
    assert!(other.contains("it said \"xxxxxxxx"), "{other}");
    let huge = |_, stream| {
        let message = b"VALUE 0000000000000001 0 99999999999999999999\r\n".to_vec();
        memcached(stream, |_, _| Reply::Say(message.clone()));
    };
    let other = served(huge, |server| reported(&base(), server));
    assert!(other.contains("it said \"0000000000000001 0 9999"), "{other}");
}

#[test]
fn a_caller_can_stop_it() {
    let reply = |_, stream| memcached(stream, |_, _| Reply::Say(b"STORED\r\n".to_vec()));
    let asked = Requests { get_ratio: 0.0, duration_ns: 60_000_000_000, ..base() };
    let stop = AtomicBool::new(false);
    let seen = served(reply, |server| {
        thread::scope(|scope| {
            let running = scope.spawn(|| run(&asked, server, &stop, || (), None));
            thread::sleep(Duration::from_millis(100));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            running.join().unwrap().unwrap()
        })
    });
    assert_balanced(&seen);
    assert_eq!(seen.ended.as_deref(), Some("stopped"));
    assert!(seen.duration_ns < 30_000_000_000, "{seen:?}");
}
