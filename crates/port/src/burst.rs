//! Bursts of frames, and the rings that they go through.

use arrayvec::ArrayVec;
use niclab_nic::limits::BURST;
use niclab_nic::memory::Desc;
use rtrb::Producer;
use rtrb::chunks::ChunkError;

/// Frames that are handled at once.
pub type Burst = ArrayVec<Desc, BURST>;

/// Moves the frames that fit from the front of a burst into a ring; returns their number. Only
/// where there seems to be no room it looks how far the other end has read: the other core had that
/// memory last.
#[inline]
pub(crate) fn push(ring: &mut Producer<Desc>, burst: &mut Burst) -> usize {
    let room = match ring.write_chunk_uninit(burst.len()) {
        Ok(chunk) => return chunk.fill_from_iter(burst.drain(..)),
        Err(ChunkError::TooFewSlots(room)) => room,
    };
    match ring.write_chunk_uninit(room) {
        Ok(chunk) => chunk.fill_from_iter(burst.drain(..room)),
        Err(_) => 0,
    }
}
