//! The rings of AF_PACKET, as a generator and a sink see them.

use std::io;

use niclab_load::rings::{Inlet, Outlet};
use niclab_port::packet::{self, RxCounters};
pub use niclab_port::packet::{RX_SLOTS, TX_SLOTS};

use super::link::Link;

/// Slots of the sink's receive ring: what a generator catching up after a stall sends at once (at
/// most what the device's ring holds) comes back before the sink is asked again.
pub const SINK_SLOTS: usize = 4 * RX_SLOTS;

/// A transmit ring on an interface.
pub struct TxRing(packet::TxRing);

impl TxRing {
    /// Opens one for frames of up to `frame_len` bytes, past the queueing disciplines.
    pub fn open(link: &Link, frame_len: usize) -> io::Result<TxRing> {
        packet::TxRing::open(link, frame_len).map(TxRing)
    }

    /// The same through them, so that the kernel spreads flows over the interface's queues.
    pub fn open_spread(link: &Link, frame_len: usize) -> io::Result<TxRing> {
        packet::TxRing::open_spread(link, frame_len).map(TxRing)
    }
}

impl Outlet for TxRing {
    /// A veth pair carries a frame through to the other side within the send call.
    fn frame_ns(&self) -> u64 {
        4_000
    }

    fn frame_len_max(&self) -> u16 {
        self.0.frame_len_max()
    }

    fn reserve(&mut self, want: usize) -> usize {
        self.0.reserve(want)
    }

    fn slot(&mut self, i: usize) -> &mut [u8] {
        self.0.slot(i)
    }

    fn commit(&mut self, lens: &[u16]) -> usize {
        self.0.commit(lens)
    }
}

/// A receive ring on an interface: what arrives, not what leaves, whomever it is addressed to.
pub struct RxRing(packet::RxRing);

impl RxRing {
    /// Opens one of at most `slots` slots for frames of up to `frame_len` bytes.
    pub fn open(link: &Link, frame_len: usize, slots: usize) -> io::Result<RxRing> {
        packet::RxRing::open(link, frame_len, slots).map(RxRing)
    }

    /// The same behind the interface's filters, of one protocol: see
    /// [`packet::RxRing::open_behind_filters`].
    pub fn open_behind_filters(
        link: &Link,
        size: (usize, usize),
        protocol: u16,
    ) -> io::Result<RxRing> {
        packet::RxRing::open_behind_filters(link, size, protocol).map(RxRing)
    }

    /// Shares what arrives with other rings, by the interface's queue: see
    /// [`packet::RxRing::share_by_queue`].
    pub fn share_by_queue(&self, group: Option<u16>) -> io::Result<u16> {
        self.0.share_by_queue(group)
    }

    /// Frames it holds.
    pub fn slots(&self) -> usize {
        self.0.slots()
    }

    /// Counters of the socket since the last call.
    pub fn counters(&self) -> io::Result<RxCounters> {
        self.0.counters()
    }

    /// Throws away what has arrived so far and forgets what was counted.
    pub fn drain(&mut self) -> io::Result<()> {
        self.0.drain()
    }
}

impl Inlet for RxRing {
    fn poll(&mut self) -> usize {
        self.0.poll()
    }

    fn frame(&self, i: usize) -> &[u8] {
        self.0.frame(i)
    }

    fn release(&mut self) {
        self.0.release();
    }
}
