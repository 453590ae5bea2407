//! The frame header of memcached's UDP: eight bytes before each request and each part of an answer.
//!
//! From its protocol.txt, "UDP protocol": request id, number of the datagram, how many there are,
//! and two bytes that are 0, all big-endian.

use super::limits::DATAGRAM_LEN_MAX;

/// Bytes of the frame header.
pub const FRAME_LEN: usize = 8;

/// Bytes of an answer that a datagram has at most.
const PART_LEN_MAX: usize = DATAGRAM_LEN_MAX - FRAME_LEN;

/// Frame header and content of each datagram of an answer.
#[inline]
pub fn parts(id: u16, answer: &[u8]) -> impl Iterator<Item = ([u8; FRAME_LEN], &[u8])> {
    let count = answer.len().div_ceil(PART_LEN_MAX) as u16;
    answer.chunks(PART_LEN_MAX).enumerate().map(move |(number, part)| {
        let words = [id, number as u16, count, 0].map(u16::to_be_bytes);
        let mut frame = [0; FRAME_LEN];
        frame.copy_from_slice(words.as_flattened());
        (frame, part)
    })
}
