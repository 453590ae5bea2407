//! Redis: right and malformed answers.

use std::io::{Read, Write};

use super::scripted::served;
use super::*;

fn base() -> Requests {
    requests(Protocol::Redis)
}

const START: [&str; 8] =
    ["--port", "PORT", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];

#[test]
fn a_real_redis_answers_every_request() {
    let test = "a_real_redis_answers_every_request";
    let Some(real) = Real::start(test, "redis-server", &START) else { return };
    for (length, values) in [
        (KeyLength::Fixed(16), Values::Fixed(100)),
        (KeyLength::Etc, Values::Etc),
        (KeyLength::Fixed(4), Values::Fixed(0)),
        (KeyLength::Fixed(5), Values::Fixed(1 << 20)),
    ] {
        let asked = Requests { keys: KeySelection { length, ..base().keys }, values, ..base() };
        fill(&asked, real.address).unwrap();
        for (depth, pace) in [(1, Pace::Closed), (16, Pace::Closed), (8, Pace::Open { per_s: 2e3 })]
        {
            let seen = go(&Requests { depth, pace, ..asked.clone() }, real.address);
            assert_clean(&seen);
            assert!(seen.hits > 0 && seen.hits < seen.answered, "{seen:?}");
            assert_eq!(seen.misses, 0, "{seen:?}");
        }
    }
    let other = KeySelection { length: KeyLength::Fixed(77), ..base().keys };
    let seen = go(&Requests { keys: other, get_ratio: 1.0, ..base() }, real.address);
    assert_clean(&seen);
    assert_eq!((seen.misses, seen.received_bytes), (seen.answered, 5 * seen.answered));
}

#[test]
fn a_redis_with_a_password_refuses() {
    let more = [&START[..], &["--requirepass", "x"]].concat();
    let Some(real) = Real::start("a_redis_with_a_password_refuses", "redis-server", &more) else {
        return;
    };
    let seen = go(&base(), real.address);
    assert_balanced(&seen);
    assert!(seen.refused > 0 && seen.refused == seen.answered, "{seen:?}");
}

/// Answers each request, whatever it is, with the next of these, over and over.
fn says<'a>(answers: &'a [&'a [u8]]) -> impl Fn(usize, TcpStream) + 'a {
    move |_, mut stream| {
        let mut bytes = [0; 4096];
        for answer in answers.iter().cycle() {
            if !matches!(stream.read(&mut bytes), Ok(1..)) || stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}

#[test]
fn answers_are_told_apart() {
    let asked = Requests { connections: 1, get_ratio: 1.0, warmup_ns: 0, ..base() };
    let answers: [&[u8]; 4] = [b"$-1\r\n", b"-ERR no\r\n", b"+OK\r\n", b"$3\r\nabc\r\n"];
    let seen = served(says(&answers), |server| go(&asked, server));
    assert_balanced(&seen);
    let of = |kind: u64| (0..seen.answered).filter(|n| n % 4 == kind).count() as u64;
    assert_eq!((seen.misses, seen.refused), (of(0), of(1)), "{seen:?}");
    assert_eq!((seen.foreign, seen.hits), (of(2) + of(3), 0), "{seen:?}");
    assert!(seen.answered > 8 && seen.ended.is_none(), "{seen:?}");
}

#[test]
fn a_malformed_answer_is_reported() {
    let odd: [(&[u8], &str); 5] = [
        (b":1\r\n", "it said \":1\""),
        (b"ERROR\r\n", "it said \"ERROR\""),
        (b"$99999999999\r\n", "it said \"$99999999999\""),
        (b"$1\r\nabc\r\n", "it said \"bc\""),
        (b"$-1\r\n+more\r\n", "it said \"+more\\r\\n\""),
    ];
    for (answer, words) in odd {
        let asked = Requests { get_ratio: 1.0, ..base() };
        let reported = served(says(&[answer]), |server| {
            match run(&asked, server, &AtomicBool::new(false), || (), None) {
                Ok(seen) => seen.ended.unwrap(),
                Err(error) => error.to_string(),
            }
        });
        assert!(reported.contains(words), "{reported}");
    }
}

#[test]
fn recorded_requests_have_the_positions_of_their_bytes() {
    // An answer comes in two pieces.
    let reply = |_, mut stream: TcpStream| {
        let mut bytes = [0; 4096];
        while matches!(stream.read(&mut bytes), Ok(1..)) {
            for piece in ["+O", "K\r\n"] {
                if stream.write_all(piece.as_bytes()).is_err() {
                    return;
                }
            }
        }
    };
    let asked = Requests {
        connections: 2,
        get_ratio: 0.0,
        values: Values::Fixed(50),
        pace: Pace::Closed,
        ..base()
    };
    let mut passed = Vec::new();
    let seen = served(reply, |server| {
        run(&asked, server, &AtomicBool::new(false), || (), Some(&mut passed)).unwrap()
    });
    assert_eq!(passed.len() as u64, seen.answered.min(PASSED_MAX as u64), "the measured part");
    let len = seen.sent_bytes / seen.sent;
    let mut clients: Vec<_> = passed.iter().map(|one| one.client.unwrap()).collect();
    clients.sort();
    clients.dedup();
    assert_eq!(clients.len(), 2);
    for client in clients {
        let of: Vec<_> = passed.iter().filter(|one| one.client == Some(client)).collect();
        for (one, next) in of.iter().zip(&of[1..]) {
            let between = (next.request_end - one.request_end, next.answer_end - one.answer_end);
            assert_eq!(between, (len, 5), "one behind the other");
            assert!(one.sent.time_ns < one.received.time_ns);
            assert!(one.received.time_ns <= next.sent.time_ns);
        }
        // What warms up has its bytes too.
        assert_eq!((of[0].request_end % len, of[0].answer_end % 5), (0, 0));
        assert!(of[0].request_end > len, "{:?}", of[0]);
    }
}
