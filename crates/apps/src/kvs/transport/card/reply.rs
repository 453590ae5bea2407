//! Datagrams of the store's answers.

use niclab_packet::checksum;

use crate::endpoint::{FRAME_LEN_MIN, FrameCounters, HEADS_LEN, RequestSource, Template};
use crate::kvs::protocol::binary::FOUND_LEN;
use crate::kvs::protocol::datagram::{FRAME_LEN, parts};
use crate::kvs::protocol::limits::DATAGRAM_LEN_MAX;
use crate::service::Answers;

/// Sends the datagrams of an answer.
#[inline]
pub fn send(
    template: &Template,
    peer: &RequestSource,
    id: u16,
    answer: &[u8],
    counted: &mut FrameCounters,
    answers: &mut dyn Answers,
) {
    for (frame, part) in parts(id, answer) {
        let len = FRAME_LEN + part.len();
        let bytes = answers.frame((HEADS_LEN + len).max(FRAME_LEN_MIN));
        let Some((heads, content)) = bytes.and_then(|bytes| bytes.split_first_chunk_mut()) else {
            counted.unsent += 1;
            continue;
        };
        content[..FRAME_LEN].copy_from_slice(&frame);
        content[FRAME_LEN..len].copy_from_slice(part);
        content[len..].fill(0);
        counted.answers += 1;
        counted.answer_bytes += len as u64;
        template.write(peer, heads, len, checksum::sum(&content[..len]));
    }
}

/// Longest value that the answer to a get has in one datagram, bytes.
pub const SHORT_LEN_MAX: usize = DATAGRAM_LEN_MAX - FRAME_LEN - FOUND_LEN;

/// Sends the answer to a get that has found an item with a value of at most [`SHORT_LEN_MAX`]: it
/// is written where it leaves from, the value copied and summed in one go.
#[inline]
pub fn found(
    template: &Template,
    peer: &RequestSource,
    id: u16,
    head: &[u8; FOUND_LEN],
    value: &[u8],
    counted: &mut FrameCounters,
    answers: &mut dyn Answers,
) {
    const BEFORE: usize = FRAME_LEN + FOUND_LEN;
    let len = BEFORE + value.len();
    let bytes = answers.frame(HEADS_LEN + len);
    let Some((heads, content)) = bytes.and_then(|bytes| bytes.split_first_chunk_mut()) else {
        counted.unsent += 1;
        return;
    };
    let (before, room) = content.split_at_mut(BEFORE);
    before[..FRAME_LEN].copy_from_slice([id, 0, 1, 0].map(u16::to_be_bytes).as_flattened());
    before[FRAME_LEN..].copy_from_slice(head);
    let sum = checksum::sum(before) + checksum::copy(value, room);
    counted.answers += 1;
    counted.answer_bytes += len as u64;
    template.write(peer, heads, len, sum);
}

// What comes before the value has an even length, so that the value's sum can be added to its; and
// with its headers it is as long as the shortest frame.
const _: () = assert!((FRAME_LEN + FOUND_LEN).is_multiple_of(2));
const _: () = assert!(HEADS_LEN + FRAME_LEN + FOUND_LEN >= FRAME_LEN_MIN);
