//! Sessions of the binary protocol: requests and answers.

use crate::kvs::codec::context::Context;
use crate::kvs::codec::session::{Next, Session};
use crate::kvs::protocol::binary::{BINARY_MAGIC, HEAD_LEN, RequestHeader, number};
use crate::kvs::protocol::limits::VALUE_LEN_MAX;
use crate::kvs::protocol::time::UnixTime;
use crate::kvs::store::Store;

/// An answer.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    code: u8,
    status: u16,
    cas: u64,
    extras: Vec<u8>,
    key: String,
    value: Vec<u8>,
}

fn frame(code: u8, cas: u64, extras: &[u8], key: &str, value: &[u8]) -> Vec<u8> {
    let body_len = extras.len() + key.len() + value.len();
    let mut bytes = vec![BINARY_MAGIC, code];
    bytes.extend_from_slice(&(key.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
    bytes.extend_from_slice(&(body_len as u32).to_be_bytes());
    bytes.extend_from_slice(&[0xde, 0xad, code, 1]);
    bytes.extend_from_slice(&cas.to_be_bytes());
    [&bytes, extras, key.as_bytes(), value].concat()
}

fn set(code: u8, key: &str, value: &str, cas: u64) -> Vec<u8> {
    frame(code, cas, &[0, 0, 0, 5, 0, 0, 0, 0], key, value.as_bytes())
}

fn count(code: u8, key: &str, delta: u64, initial: u64, time: u32) -> Vec<u8> {
    let extras = [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &time.to_be_bytes()].concat();
    frame(code, 0, &extras, key, b"")
}

fn get(code: u8, key: &str) -> Vec<u8> {
    frame(code, 0, b"", key, b"")
}

/// Answers to what is said on a fresh connection, and whether it has ended.
fn answers(message: &[u8], piece: usize) -> (Vec<Said>, bool) {
    let store = Store::new(32 << 20, 1, 7).unwrap();
    let context = Context { store: &store, now: UnixTime(1_700_000_000), host: &() };
    let (mut session, mut kept, mut out) = (Session::default(), Vec::new(), Vec::new());
    let (mut needed, mut is_over) = (1, false);
    for bytes in message.chunks(piece) {
        kept.extend_from_slice(bytes);
        if is_over || kept.len() < needed {
            continue;
        }
        let progress = session.serve(&kept, &mut out, usize::MAX, &context);
        kept.drain(..progress.used);
        match progress.next {
            Next::Input(more) => needed = more,
            Next::Room => unreachable!("there is room"),
            Next::Close => is_over = true,
        }
    }
    (read(&out), is_over)
}

fn read(mut out: &[u8]) -> Vec<Said> {
    let mut all = Vec::new();
    while !out.is_empty() {
        let head = RequestHeader::read(out.first_chunk().unwrap());
        assert_eq!((out[0], out[5]), (0x81, 0));
        assert_eq!(head.opaque, [0xde, 0xad, head.code, 1]);
        let body = &out[HEAD_LEN..HEAD_LEN + head.body_len];
        let (extras, rest) = body.split_at(head.extras_len);
        let (key, value) = rest.split_at(head.key_len);
        all.push(Said {
            code: head.code,
            status: number(&out[6..8]) as u16,
            cas: head.cas,
            extras: extras.to_vec(),
            key: String::from_utf8_lossy(key).into_owned(),
            value: value.to_vec(),
        });
        out = &out[HEAD_LEN + head.body_len..];
    }
    all
}

/// Codes and statuses of the answers, which are the same however the talk is cut.
#[track_caller]
fn check(frames: &[Vec<u8>], expected: &[(u8, u16)]) -> Vec<Said> {
    let message = frames.concat();
    let (all, is_over) = answers(&message, message.len());
    assert!(!is_over, "it has ended the talk");
    for piece in [1, 23, 25] {
        assert_eq!(answers(&message, piece).0, all, "in pieces of {piece}");
    }
    let got: Vec<(u8, u16)> = all.iter().map(|message| (message.code, message.status)).collect();
    assert_eq!(got, expected);
    all
}

#[test]
fn items_are_stored_read_and_taken_out() {
    let message = check(
        &[
            set(1, "k", "value", 0),
            get(0, "k"),
            get(0x0c, "k"),
            get(4, "k"),
            get(0, "k"),
            get(0x0c, "k"),
        ],
        &[(1, 0), (0, 0), (0x0c, 0), (4, 0), (0, 1), (0x0c, 1)],
    );
    assert_eq!(message[0].cas, 2);
    assert_eq!(
        (&message[1].extras[..], &message[1].value[..], message[1].cas),
        (&[0, 0, 0, 5][..], &b"value"[..], 2)
    );
    assert_eq!(
        (message[1].key.as_str(), message[2].key.as_str(), &message[2].value[..]),
        ("", "k", &b"value"[..])
    );
    assert_eq!((&message[4].value[..], message[5].key.as_str()), (&b"Not found"[..], "k"));
}

#[test]
fn conditions_hold_or_not() {
    check(
        &[
            set(3, "k", "v", 0),
            set(2, "k", "v", 0),
            set(2, "k", "v", 0),
            set(3, "k", "w", 0),
            set(1, "k", "x", 99),
            set(1, "k", "x", 3),
            set(1, "none", "x", 9),
            frame(4, 99, b"", "k", b""),
            frame(4, 4, b"", "k", b""),
        ],
        &[(3, 1), (2, 0), (2, 2), (3, 0), (1, 2), (1, 0), (1, 1), (4, 2), (4, 0)],
    );
    let message = check(
        &[
            frame(0x0e, 0, b"", "k", b"x"),
            set(1, "k", "b", 0),
            frame(0x0e, 0, b"", "k", b"c"),
            frame(0x0f, 0, b"", "k", b"a"),
            get(0, "k"),
        ],
        &[(0x0e, 5), (1, 0), (0x0e, 0), (0x0f, 0), (0, 0)],
    );
    assert_eq!((&message[0].value[..], &message[4].value[..]), (&b"Not stored."[..], &b"abc"[..]));
}

#[test]
fn numbers_are_counted() {
    let message = check(
        &[
            count(5, "n", 1, 7, 0xffff_ffff),
            count(5, "n", 1, 7, 0),
            count(5, "n", 3, 0, 0),
            count(6, "n", 100, 0, 0),
            set(1, "t", "text", 0),
            count(6, "t", 1, 0, 0),
        ],
        &[(5, 1), (5, 0), (5, 0), (6, 0), (1, 0), (6, 6)],
    );
    let value = |at: usize| number(&message[at].value);
    assert_eq!((value(1), value(2), value(3)), (7, 10, 0));
}

#[test]
fn quiet_requests_are_answered_where_something_went_wrong_or_was_found() {
    let never = 0xffff_ffff;
    check(
        &[
            set(0x11, "k", "v", 0),
            set(0x12, "k", "v", 0),
            set(0x13, "k", "v", 0),
            get(9, "none"),
            get(9, "k"),
            get(0x0d, "none"),
            get(0x0d, "k"),
            frame(0x19, 0, b"", "k", b"x"),
            frame(0x1a, 0, b"", "k", b"x"),
            count(0x15, "n", 1, 1, 0),
            count(0x15, "none", 1, 1, never),
            count(0x16, "n", 1, 1, 0),
            get(0x14, "k"),
            get(0x14, "k"),
            frame(0x18, 0, b"", "", b""),
            get(0x0a, ""),
        ],
        &[(0x12, 2), (9, 0), (0x0d, 0), (0x15, 1), (0x14, 1), (0x0a, 0)],
    );
    let touch = |code, key| frame(code, 0, &[0, 0, 0, 9], key, b"");
    let message = check(
        &[
            set(1, "k", "v", 0),
            touch(0x1c, "k"),
            touch(0x1d, "k"),
            touch(0x1e, "k"),
            touch(0x23, "k"),
            touch(0x24, "k"),
            touch(0x1c, "none"),
            touch(0x1e, "none"),
            touch(0x23, "none"),
            touch(0x24, "none"),
        ],
        &[(1, 0), (0x1c, 0), (0x1d, 0), (0x1e, 0), (0x23, 0), (0x24, 0), (0x1c, 1), (0x23, 1)],
    );
    assert_eq!(
        (message[1].value.len(), &message[2].value[..], message[4].key.as_str()),
        (0, &b"v"[..], "k")
    );
}

#[test]
fn requests_without_an_item_are_answered() {
    let message = check(
        &[
            get(0x0b, ""),
            frame(0x08, 0, &[0, 0, 0, 0], "", b""),
            frame(0x1b, 0, &[0, 0, 0, 1], "", b""),
            frame(0x1b, 0, &[], "", b""),
            get(0x10, "bogus"),
            get(0x10, "reset"),
            get(0x10, "items"),
        ],
        &[(0x0b, 0), (8, 0), (0x1b, 0x81), (0x1b, 0x81), (0x10, 1), (0x10, 0), (0x10, 0)],
    );
    assert_eq!(message[0].value, b"1.6.18-niclab");
    let (reported, _) = answers(&get(0x10, ""), 1000);
    assert!(reported.iter().any(|message| message.key == "curr_items" && message.value == b"0"));
    assert_eq!(reported.last().map(|message| message.key.as_str()), Some(""));
    // As of a memcached without SASL; and what nobody knows.
    check(
        &[
            get(0x20, ""),
            frame(0x21, 0, b"", "PLAIN", b"\0u\0p"),
            frame(0x22, 0, b"", "PLAIN", b""),
            get(0x77, "key"),
            get(0x0a, ""),
        ],
        &[(0x20, 0x81), (0x21, 0x81), (0x22, 0x81), (0x77, 0x81), (0x0a, 0)],
    );
    assert_eq!(answers(&[get(7, ""), get(0x0a, "")].concat(), 1000).0.len(), 1);
    assert_eq!(answers(&get(0x17, ""), 1000), (vec![], true));
}

#[test]
fn frames_that_cannot_be_end_the_talk() {
    let mut short = get(0, "key");
    short[11] = 2;
    let mut extras = set(1, "k", "v", 0);
    extras[4] = 30;
    let mut huge = set(1, "k", "v", 0);
    huge[8..12].copy_from_slice(&[0xff; 4]);
    let long_key = "k".repeat(251);
    for (message, status) in [
        (short, 0x81),
        (extras, 0x81),
        (huge, 4),
        (get(0, &long_key), 4),
        (get(0, ""), 4),
        (frame(0, 0, b"x", "k", b""), 4),
        (frame(0, 0, b"", "k", b"v"), 4),
        (frame(1, 0, b"", "k", b"v"), 4),
        (frame(5, 0, &[0; 8], "k", b""), 4),
        (frame(0x0a, 0, b"", "k", b""), 4),
        (frame(8, 0, b"x", "", b""), 4),
        (frame(0x1c, 0, b"", "k", b""), 4),
        (frame(0x10, 0, b"x", "", b""), 4),
        (get(4, ""), 4),
    ] {
        let (all, is_over) = answers(&[message.clone(), get(0x0a, "")].concat(), 10_000);
        assert_eq!(
            all.iter().map(|message| message.status).collect::<Vec<_>>(),
            [status],
            "{message:?}"
        );
        assert!(is_over, "{message:?}");
    }
    let wrong = [get(0x0a, ""), vec![0x7f; 24], get(0x0a, "")].concat();
    let (all, is_over) = answers(&wrong, 10_000);
    assert_eq!((all.len(), is_over), (1, true), "there is no way back to the start of a frame");
}

#[test]
fn a_value_that_is_too_long_is_passed_over() {
    let value = "v".repeat(VALUE_LEN_MAX + 1);
    let message =
        [set(1, "k", "v", 0), set(1, "k", &value, 0), get(0, "k"), get(0x0a, "")].concat();
    let (early, _) = answers(&message[..150], 150);
    assert_eq!(
        early.last().map(|message| message.status),
        Some(3),
        "it does not wait for the value"
    );
    for piece in [1000, message.len()] {
        let (all, is_over) = answers(&message, piece);
        let got: Vec<(u8, u16)> =
            all.iter().map(|message| (message.code, message.status)).collect();
        assert_eq!((got, is_over), (vec![(1, 0), (1, 3), (0, 1), (0x0a, 0)], false));
    }
}
