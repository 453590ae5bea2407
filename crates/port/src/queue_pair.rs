//! The face of everything that frames come in by and go out by.

use std::io;
use std::os::fd::BorrowedFd;

use crate::burst::Burst;
use crate::frame_pool::FramePool;

/// A receive and a transmit queue of a port, such as those of an interface, for one core.
///
/// Frames are of the region of the pool that a queue pair is used with, always the same.
pub trait QueuePair: Send {
    /// Takes what has arrived, as far as the burst has room.
    ///
    /// # Errors
    /// What the kernel says of a port that is gone: nothing more will come from this queue pair.
    fn receive(&mut self, pool: &mut FramePool, into: &mut Burst) -> io::Result<()>;

    /// Sends the frames from the front of a burst for which there is room; the others stay. Frames
    /// that were sent go to the pool, now or by a later call.
    ///
    /// # Errors
    /// As of [`QueuePair::receive`].
    fn send(&mut self, pool: &mut FramePool, burst: &mut Burst) -> io::Result<()>;

    /// The descriptor that becomes readable when a frame arrives; `None` if the queue must be
    /// polled.
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether no frame will come any more, though all is well: a file that was read to its end.
    fn is_ended(&self) -> bool {
        false
    }

    /// The counters so far.
    fn counters(&self) -> QueuePairCounters;

    /// Ends, and gives back every frame that it has: those that wait to be sent too, which do not
    /// count as sent in what it has seen in all.
    ///
    /// # Errors
    /// Of what was sent not all arrived: a file that could not be written to its end.
    fn close(self: Box<Self>, pool: &mut FramePool) -> io::Result<QueuePairCounters>;
}

/// Counters of a queue pair since it was opened; bytes are without FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuePairCounters {
    /// Frames received.
    pub rx_frames: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames that came and found no room, as far as the port tells.
    pub rx_missed: u64,
    /// Frames received whose TCP or UDP checksum is not whole: the sender left it to a card
    /// (`CHECKSUM_PARTIAL`). As far as the port tells.
    pub rx_partial_checksums: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames that could not be sent, and were dropped.
    pub tx_dropped: u64,
}
