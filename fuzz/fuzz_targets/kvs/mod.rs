//! Talks with the key-value store, as the targets that are named after it hold them.
//!
//! Whatever is said is answered without a crash and within the memory, and it is answered the same
//! however it is cut into pieces.

#![allow(dead_code)]

use niclab_apps::kvs::codec::context::Context;
use niclab_apps::kvs::codec::datagram;
use niclab_apps::kvs::codec::session::{Next, Session};
use niclab_apps::kvs::protocol::datagram::parts;
use niclab_apps::kvs::protocol::limits::{DATAGRAM_ANSWER_LEN_MAX, LINE_LEN_MAX, VALUE_LEN_MAX};
use niclab_apps::kvs::protocol::time::UnixTime;
use niclab_apps::kvs::store::Store;
use niclab_apps::kvs::store::limits::PARTITION_BYTES_MIN;

/// Room for answers at a time: small, so that talks often have to wait for it.
const ROOM: usize = 200;

fn store() -> Option<Store> {
    Store::new(PARTITION_BYTES_MIN, 1, 7).ok()
}

/// A talk, at once and in pieces of the length that the first byte says.
pub fn talk(first: &[u8], bytes: &[u8]) {
    let Some((piece, said)) = bytes.split_first() else { return };
    let (piece, said) = (1 + usize::from(*piece), &[first, said].concat()[..]);
    let (whole, pieces) = (held(said, said.len()), held(said, piece));
    // What is done with a line so long hangs on whether its end has come.
    assert!(said.len() > LINE_LEN_MAX || whole == pieces);
}

/// All that is answered, and whether the talk has ended.
fn held(said: &[u8], piece: usize) -> (Vec<u8>, bool) {
    let Some(store) = store() else { return Default::default() };
    let context = Context { store: &store, now: UnixTime(1_700_000_000), host: &() };
    let (mut session, mut kept, mut all) = (Session::default(), Vec::new(), Vec::new());
    let mut needed = 1;
    for bytes in said.chunks(piece.max(1)) {
        kept.extend_from_slice(bytes);
        while kept.len() >= needed {
            let mut out = Vec::new();
            let progress = session.serve(&kept, &mut out, ROOM, &context);
            assert!(progress.used <= kept.len());
            assert!(out.len() < ROOM + VALUE_LEN_MAX + 8192, "{} bytes at once", out.len());
            kept.drain(..progress.used);
            all.extend_from_slice(&out);
            match progress.next {
                Next::Input(more) => {
                    assert!(more > kept.len(), "it would be asked for ever");
                    needed = more;
                }
                Next::Room => {
                    assert!(progress.used > 0 || !out.is_empty());
                    needed = 1;
                }
                Next::Close => return (all, true),
            }
        }
    }
    let now = store.statistics();
    assert!(now.memory_bytes <= now.limit_maxbytes);
    (all, false)
}

/// Datagrams, each with its length before it.
pub fn datagrams(mut said: &[u8]) {
    let Some(store) = store() else { return };
    let context = Context { store: &store, now: UnixTime(1_700_000_000), host: &() };
    let mut out = Vec::new();
    while let Some((len, rest)) = said.split_first() {
        let (datagram, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        said = rest;
        let Some(id) = datagram::serve(datagram, &mut out, &context) else { continue };
        assert!(out.len() <= DATAGRAM_ANSWER_LEN_MAX + VALUE_LEN_MAX + 8192);
        let mut whole = Vec::new();
        parts(id, &out).for_each(|(_, part)| whole.extend_from_slice(part));
        assert_eq!(whole, out);
    }
}
