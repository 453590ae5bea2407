//! The frame of memcached's UDP: eight bytes before each request and each part of an answer.
//!
//! From its protocol.txt, "UDP protocol": request id, number of the datagram, how many there are, and
//! two bytes that are 0, all big-endian. Requests of several datagrams are refused, as memcached does.

use super::limits::{DATAGRAM_ANSWER_LEN_MAX, DATAGRAM_LEN_MAX};
use super::session::{Context, Next, Session};

/// Bytes of the frame header.
pub const FRAME_LEN: usize = 8;

/// Bytes of an answer that a datagram has at most.
const PART_LEN_MAX: usize = DATAGRAM_LEN_MAX - FRAME_LEN;

const SEVERAL: &[u8] = b"SERVER_ERROR multi-packet request not supported\r\n";
const INCOMPLETE: &[u8] = b"SERVER_ERROR incomplete request in a datagram\r\n";
const TOO_LONG: &[u8] = b"SERVER_ERROR answer too long for UDP\r\n";

/// Serves the requests in a datagram and leaves the answer in `out`, to be sent by [`parts`]; the
/// request id. What has no frame header gets no answer: `None`.
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

/// Calls `send` with each datagram of an answer.
pub fn parts(id: u16, answer: &[u8], mut send: impl FnMut(&[u8])) {
    let mut datagram = [0; DATAGRAM_LEN_MAX];
    let count = answer.len().div_ceil(PART_LEN_MAX) as u16;
    for (number, part) in answer.chunks(PART_LEN_MAX).enumerate() {
        let words = [id, number as u16, count, 0];
        for (place, word) in datagram.chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        datagram[FRAME_LEN..FRAME_LEN + part.len()].copy_from_slice(part);
        send(&datagram[..FRAME_LEN + part.len()]);
    }
}
