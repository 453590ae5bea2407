//! Frames of every code with lengths of every kind: at most an answer each, and a frame
//! whose answer is an error has changed nothing.

use crate::kvs::codec::context::Context;
use crate::kvs::codec::session::{Next, Session};
use crate::kvs::protocol::binary::{BINARY_MAGIC, HEAD_LEN, RequestHeader, opcode};
use crate::kvs::protocol::limits::VALUE_LEN_MAX;
use crate::kvs::protocol::time::UnixTime;
use crate::kvs::store::Store;

const EXTRAS: [u8; 9] = [0, 1, 4, 7, 8, 12, 20, 24, 255];
const KEYS: [u16; 6] = [0, 1, 250, 251, 32_768, 65_535];

/// Bodies that are fed in whole are no longer than this.
const FED_LEN_MAX: usize = 70_000;

/// Lengths of a body for extras and a key of these lengths: too short, without a value, with one,
/// with one that is too long, and beyond all that is waited for.
fn bodies(extras_len: u8, key_len: u16) -> [u32; 8] {
    let before = u32::from(extras_len) + u32::from(key_len);
    let large = VALUE_LEN_MAX as u32;
    [0, before.saturating_sub(1), before, before + 1, before + large + 1, 1 << 30, 1 << 31, !0]
}

/// Codes and statuses of the answers in these bytes.
fn read(mut out: &[u8], asked: &RequestHeader) -> Vec<u16> {
    let mut all = Vec::new();
    while let Some(bytes) = out.first_chunk() {
        let head = RequestHeader::read(bytes);
        assert_eq!((head.code, head.opaque), (asked.code, asked.opaque));
        all.push(u16::from_be_bytes([out[6], out[7]]));
        out = &out[HEAD_LEN + head.body_len..];
    }
    assert!(out.is_empty());
    all
}

/// Says a header and as much behind it as is asked for and as it says itself.
fn hold(store: &Store, head: &[u8; HEAD_LEN]) {
    let context = Context { store, now: UnixTime(1_700_000_000), host: &() };
    let asked = RequestHeader::read(head);
    let before = store.statistics();
    let (mut session, mut out, mut input) = (Session::default(), Vec::new(), head.to_vec());
    let mut progress = session.serve(&input, &mut out, usize::MAX, &context);
    if let Next::Input(needed) = progress.next {
        let most = HEAD_LEN + 24 + 250 + VALUE_LEN_MAX;
        assert!(needed <= most, "{asked:?}: {needed} bytes are waited for");
        if asked.body_len > FED_LEN_MAX {
            return;
        }
        input.drain(..progress.used);
        input.resize(input.len() + asked.body_len, 0);
        progress = session.serve(&input, &mut out, usize::MAX, &context);
        assert_eq!(progress.used, input.len(), "{asked:?}");
    }
    let answers = read(&out, &asked);
    let (loud, is_quiet) = opcode::strip_quiet(asked.code);
    assert!(answers.len() <= 1 || loud == opcode::STAT, "{asked:?}: {answers:?}");
    let is_last = progress.next == Next::Close;
    assert!(is_last || is_quiet || !answers.is_empty(), "{asked:?}: no answer");
    let after = store.statistics();
    if answers.iter().any(|status| [0x81, 4].contains(status)) {
        assert_eq!(after.curr_items, before.curr_items, "{asked:?}");
        assert_eq!(after.counters.cmd_set, before.counters.cmd_set, "{asked:?}");
        assert_eq!(after.counters.cmd_get, before.counters.cmd_get, "{asked:?}");
    }
    if !is_last {
        // What follows is a frame again.
        let mut noop = [0; HEAD_LEN];
        (noop[0], noop[1]) = (BINARY_MAGIC, opcode::NOOP);
        out.clear();
        session.serve(&noop, &mut out, usize::MAX, &context);
        assert_eq!(read(&out, &RequestHeader::read(&noop)), [0], "{asked:?}");
    }
}

#[test]
fn lengths_of_every_kind_are_put_up_with() {
    let store = Store::new(4 << 20, 1, 7).unwrap();
    for code in 0..=0x30 {
        for extras_len in EXTRAS {
            for key_len in KEYS {
                for body_len in bodies(extras_len, key_len) {
                    let mut head = [0; HEAD_LEN];
                    (head[0], head[1], head[4]) = (BINARY_MAGIC, code, extras_len);
                    head[2..4].copy_from_slice(&key_len.to_be_bytes());
                    head[8..12].copy_from_slice(&body_len.to_be_bytes());
                    head[12..16].copy_from_slice(b"abcd");
                    hold(&store, &head);
                }
            }
        }
    }
}
