//! The two ends a generator and a sink work on: slots to fill, frames to read.
//!
//! The rings of AF_PACKET and those of a DPDK port look like this. Frames are without
//! FCS.

use crate::clock::Clock;

/// Frames that one poll or one reservation handles at most.
pub const BURST: usize = 64;

/// The output of a generator: a transmit ring whose free slots are filled in place.
pub trait Outlet {
    /// The time per frame in a turn that is no stall yet, nanoseconds. Zero if a burst stays well
    /// below ten microseconds.
    fn frame_ns(&self) -> u64 {
        0
    }

    /// Time since the last call that it spent on other things than frames, nanoseconds. It is no
    /// stall.
    fn beside_ns(&mut self) -> u64 {
        0
    }

    /// Frames that can be taken now, at most `want`; after it `slot(0..n)` may be filled.
    fn reserve(&mut self, want: usize) -> usize;

    /// Longest frame a slot takes, bytes without FCS: a load with longer ones is refused.
    fn frame_len_max(&self) -> u16 {
        u16::MAX
    }

    /// The buffer of reserved slot `i`: at least [`Outlet::frame_len_max`] bytes, or as many as the
    /// longest frame of the load.
    fn slot(&mut self, i: usize) -> &mut [u8];

    /// Sends the first `lens.len()` reserved slots with these lengths in bytes, in order; returns
    /// how many left. What was reserved and did not leave is given back.
    fn commit(&mut self, lens: &[u16]) -> usize;
}

/// The input of a sink.
pub trait Inlet {
    /// Looks for frames, at most [`BURST`]; after it `frame(0..n)` may be read.
    fn poll(&mut self) -> usize;

    /// Frame `i` of the last poll.
    fn frame(&self, i: usize) -> &[u8];

    /// Gives the polled frames back.
    fn release(&mut self);
}

/// Told when the measured part of a load begins and ends, so that counters can be read there.
pub trait MeasuredPart {
    /// The load is prepared, and its first frame is due when this returns: at the time that it
    /// returns, by `clock`, nanoseconds.
    fn start(&mut self, clock: &Clock) -> u64 {
        clock.now_ns()
    }
    /// The first counted frame is due, at this time of the process's clock, nanoseconds.
    fn opened(&mut self, _at_ns: u64) {}
    /// The last counted frame was due.
    fn closed(&mut self) {}
    /// Called once a turn, in which the caller may do other work; how long that took, nanoseconds.
    #[inline]
    fn turn(&mut self) -> u64 {
        0
    }
    /// The last frame is back, or none has come for a while: the device may end its work, frames it
    /// still has included. Start and length of the stalls of its core, in nanoseconds of the
    /// process's clock.
    fn stalls(&mut self) -> Vec<(u64, u64)> {
        Vec::new()
    }
}

impl MeasuredPart for () {}
