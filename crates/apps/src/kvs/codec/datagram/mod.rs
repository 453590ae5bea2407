//! Requests in a datagram of memcached's UDP, and their answer.
//!
//! A request in several datagrams is refused, as memcached does.

pub mod batch;

use super::binary;
use super::context::Context;
use super::session::{Next, Session};
use crate::kvs::protocol::datagram::FRAME_LEN;
use crate::kvs::protocol::limits::DATAGRAM_ANSWER_LEN_MAX;

const SEVERAL: &[u8] = b"SERVER_ERROR multi-packet request not supported\r\n";
const INCOMPLETE: &[u8] = b"SERVER_ERROR incomplete request in a datagram\r\n";
const TOO_LONG: &[u8] = b"SERVER_ERROR answer too long for UDP\r\n";

/// Serves the requests in a datagram and returns its request id; the answer is in `out`, which
/// [`parts`](crate::kvs::protocol::datagram::parts) cuts into datagrams. A datagram without a frame
/// header gets no answer: `None`.
pub fn serve(datagram: &[u8], out: &mut Vec<u8>, context: &Context<'_>) -> Option<u16> {
    out.clear();
    let (frame, requests) = datagram.split_at_checked(FRAME_LEN)?;
    let id = u16::from_be_bytes([frame[0], frame[1]]);
    let count = u16::from_be_bytes([frame[4], frame[5]]);
    if requests.is_empty() {
        return None;
    }
    if count != 1 {
        out.extend_from_slice(SEVERAL);
        return Some(id);
    }
    // Each datagram is a conversation of its own: nothing of it is kept.
    let mut session = Session::default();
    let progress = session.serve(requests, out, DATAGRAM_ANSWER_LEN_MAX, context);
    match progress.next {
        Next::Input(_) if progress.used < requests.len() => out.extend_from_slice(INCOMPLETE),
        Next::Input(_) | Next::Close => {}
        Next::Room => {
            out.clear();
            out.extend_from_slice(TOO_LONG);
        }
    }
    Some(id)
}

/// The request id of a datagram, the one request of the binary protocol that it has, and its key,
/// where that is all of it and has a key: what a burst can be served together of.
#[inline]
pub fn single(datagram: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (frame, request) = datagram.split_first_chunk::<FRAME_LEN>()?;
    let [a, b, _, _, 0, 1, _, _] = *frame else { return None };
    Some((u16::from_be_bytes([a, b]), request, binary::single(request)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kvs::protocol::datagram::parts;
    use crate::kvs::protocol::limits::{DATAGRAM_LEN_MAX, VALUE_LEN_MAX};
    use crate::kvs::protocol::time::UnixTime;
    use crate::kvs::store::Store;

    fn framed(words: [u16; 4], request: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        bytes.extend_from_slice(request);
        bytes
    }

    /// The answer to a request, put together of its datagrams.
    fn ask(store: &Store, datagram: &[u8]) -> Option<Vec<u8>> {
        let context = Context { store, now: UnixTime(1000), host: &() };
        let (mut out, mut whole, mut sent) = (b"before".to_vec(), Vec::new(), Vec::new());
        let id = serve(datagram, &mut out, &context)?;
        sent.extend(parts(id, &out).map(|(frame, part)| [&frame[..], part].concat()));
        for (number, part) in sent.iter().enumerate() {
            assert!(part.len() <= DATAGRAM_LEN_MAX && part.len() > FRAME_LEN);
            assert_eq!(part[..8], framed([id, number as u16, sent.len() as u16, 0], b""));
            whole.extend_from_slice(&part[FRAME_LEN..]);
        }
        Some(whole)
    }

    #[test]
    fn answers_go_in_numbered_parts() {
        let store = Store::new(32 << 20, 2, 7).unwrap();
        let one = |request: &[u8]| ask(&store, &framed([0xbeef, 0, 1, 0], request));
        let message = |request: &[u8]| String::from_utf8(one(request).unwrap()).unwrap();
        assert_eq!(
            message(b"set a 0 0 1\r\nx\r\nget a\r\n"),
            "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"
        );
        let value = vec![b'v'; 5000];
        assert_eq!(
            message(&[b"set long 0 0 5000\r\n", &value[..], b"\r\n"].concat()),
            "STORED\r\n"
        );
        let long = message(b"get long\r\n");
        assert_eq!(long.len(), "VALUE long 0 5000\r\n\r\nEND\r\n".len() + 5000);
        assert_eq!(one(b"set a 0 0 1 noreply\r\nx\r\n"), Some(Vec::new()), "no datagram at all");
        let noop = [&[0x80, 0x0a][..], &[0; 22]].concat();
        assert_eq!(one(&noop).map(|answer| answer.len()), Some(24), "each chooses its protocol");
    }

    #[test]
    fn an_incomplete_request_is_refused() {
        let store = Store::new(1 << 20, 1, 7).unwrap();
        for datagram in [&b""[..], b"1234567", &framed([1, 0, 1, 0], b"")] {
            assert_eq!(ask(&store, datagram), None);
        }
        for words in [[1, 0, 2, 0], [1, 1, 2, 0], [1, 0, 0, 0]] {
            assert_eq!(ask(&store, &framed(words, b"get a\r\n")).as_deref(), Some(SEVERAL));
        }
        for half in [&b"get a"[..], b"set a 0 0 5\r\nab", &[0x80, 0, 0]] {
            assert_eq!(ask(&store, &framed([1, 0, 1, 0], half)).as_deref(), Some(INCOMPLETE));
        }
        assert_eq!(ask(&store, &framed([1, 0, 1, 0], b"quit\r\n")), Some(Vec::new()));
    }

    /// A request that was cut anywhere is refused, and has changed nothing.
    #[test]
    fn half_a_request_is_none() {
        let store = Store::new(1 << 20, 1, 7).unwrap();
        let set = [&[0x80, 1, 0, 1, 8, 0, 0, 0, 0, 0, 0, 10][..], &[0; 20], b"kv"].concat();
        for whole in [&b"set k 0 0 1\r\nv\r\n"[..], b"ms k 1 c\r\nv\r\n", b"mg k N0 v\r\n", &set] {
            for len in 1..whole.len() {
                let message = framed([1, 0, 1, 0], &whole[..len]);
                assert_eq!(
                    ask(&store, &message).as_deref(),
                    Some(INCOMPLETE),
                    "{len} of {whole:?}"
                );
                assert_eq!(store.statistics().curr_items, 0, "{len} of {whole:?}");
            }
            assert_ne!(ask(&store, &framed([1, 0, 1, 0], whole)).as_deref(), Some(INCOMPLETE));
            assert_eq!(
                ask(&store, &framed([1, 0, 1, 0], b"flush_all\r\n")),
                Some(b"OK\r\n".into())
            );
        }
        // What stands before the half is carried out, and answered before it.
        let message = framed([1, 0, 1, 0], b"set k 0 0 1\r\nv\r\nget");
        assert_eq!(ask(&store, &message), Some([b"STORED\r\n", INCOMPLETE].concat()));
    }

    #[test]
    fn an_answer_has_a_length() {
        let store = Store::new(32 << 20, 1, 7).unwrap();
        let key = store.key(b"k");
        let value = vec![1; VALUE_LEN_MAX];
        let new = crate::kvs::store::NewItem {
            flags: 0,
            expiry: crate::kvs::protocol::time::Expiry::NEVER,
            cas: 1,
            marks: 0,
        };
        let whole = crate::kvs::store::Value::Whole(&value);
        store.partition(&key).put(&key, new, whole, UnixTime(1000)).unwrap();
        let once = ask(&store, &framed([1, 0, 1, 0], b"get k\r\n")).unwrap();
        assert!(once.len() > VALUE_LEN_MAX && once.ends_with(b"END\r\n"));
        let twice = ask(&store, &framed([1, 0, 1, 0], b"get k k\r\n"));
        assert_eq!(twice.as_deref(), Some(TOO_LONG));
    }
}
