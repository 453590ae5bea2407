//! The rings of AF_PACKET, as a generator and a sink see them.

use std::io;
use std::sync::Arc;

use niclab_load::rings::{Inlet, Outlet};
use niclab_load::{Load, StampedFrames};
use niclab_packet::timestamp::TimestampClock;
use niclab_port::packet::{self, RxCounters};
pub use niclab_port::packet::{RX_SLOTS, TX_SLOTS};

use super::link::Link;
use super::port_stamps::PortStamps;

/// Slots of the sink's receive ring: what a generator catching up after a stall sends at once (at
/// most what the device's ring holds) comes back before the sink is asked again.
pub const SINK_SLOTS: usize = 4 * RX_SLOTS;

/// A transmit ring on an interface.
pub struct TxRing {
    ring: packet::TxRing,
    /// Stamps some frames; only a tester's ring has it.
    stamps: Option<Arc<PortStamps>>,
}

impl TxRing {
    /// Opens one for frames of up to `frame_len` bytes, past the queueing disciplines.
    pub fn open(link: &Link, frame_len: usize) -> io::Result<TxRing> {
        packet::TxRing::open(link, frame_len).map(TxRing::plain)
    }

    /// The same through them, so that the kernel spreads flows over the interface's queues.
    pub fn open_spread(link: &Link, frame_len: usize) -> io::Result<TxRing> {
        packet::TxRing::open_spread(link, frame_len).map(TxRing::plain)
    }

    fn plain(ring: packet::TxRing) -> TxRing {
        TxRing { ring, stamps: None }
    }
}

impl Outlet for TxRing {
    /// A veth pair carries a frame through to the other side within the send call.
    fn frame_ns(&self) -> u64 {
        4_000
    }

    fn frame_len_max(&self) -> u16 {
        self.ring.frame_len_max()
    }

    fn beside_ns(&mut self) -> u64 {
        self.stamps.as_ref().map_or(0, |stamps| stamps.beside_ns())
    }

    fn reserve(&mut self, want: usize) -> usize {
        self.ring.reserve(want)
    }

    fn slot(&mut self, i: usize) -> &mut [u8] {
        self.ring.slot(i)
    }

    fn commit(&mut self, lens: &[u16]) -> usize {
        match &self.stamps {
            None => self.ring.commit(lens),
            Some(stamps) => stamps.commit(&mut self.ring, lens),
        }
    }
}

/// A receive ring on an interface: what arrives, not what leaves, whomever it is addressed to.
pub struct RxRing {
    ring: packet::RxRing,
    /// Stamps some frames; only a tester's ring has it.
    stamps: Option<Arc<PortStamps>>,
}

impl RxRing {
    /// Opens one of at most `slots` slots for frames of up to `frame_len` bytes.
    pub fn open(link: &Link, frame_len: usize, slots: usize) -> io::Result<RxRing> {
        packet::RxRing::open(link, frame_len, slots).map(RxRing::plain)
    }

    /// The same behind the interface's filters, of one protocol: see
    /// [`packet::RxRing::open_behind_filters`].
    pub fn open_behind_filters(
        link: &Link,
        size: (usize, usize),
        protocol: u16,
    ) -> io::Result<RxRing> {
        packet::RxRing::open_behind_filters(link, size, protocol).map(RxRing::plain)
    }

    fn plain(ring: packet::RxRing) -> RxRing {
        RxRing { ring, stamps: None }
    }

    /// Shares what arrives with other rings, by the interface's queue: see
    /// [`packet::RxRing::share_by_queue`].
    pub fn share_by_queue(&self, group: Option<u16>) -> io::Result<u16> {
        self.ring.share_by_queue(group)
    }

    /// Frames it holds.
    pub fn slots(&self) -> usize {
        self.ring.slots()
    }

    /// Counters of the socket since the last call.
    pub fn counters(&self) -> io::Result<RxCounters> {
        self.ring.counters()
    }

    /// Throws away what has arrived so far and forgets what was counted.
    pub fn drain(&mut self) -> io::Result<()> {
        self.ring.drain()
    }
}

impl Inlet for RxRing {
    fn poll(&mut self) -> usize {
        let found = self.ring.poll();
        if let Some(stamps) = &self.stamps {
            stamps.look(&self.ring, found);
        }
        found
    }

    fn frame(&self, i: usize) -> &[u8] {
        self.ring.frame(i)
    }

    fn release(&mut self) {
        self.ring.release();
    }
}

/// Has some frames stamped that one ring sends and the other receives; those leave by the socket.
pub fn stamp_frames(
    (tx, rx): (&mut TxRing, &mut RxRing),
    clock: TimestampClock,
    socket: packet::StampingSocket,
) -> io::Result<()> {
    let stamps = PortStamps::new(clock, &mut rx.ring, socket)?;
    tx.stamps = Some(Arc::clone(&stamps));
    rx.stamps = Some(stamps);
    Ok(())
}

impl TxRing {
    /// A load begins, some frames of which are to be stamped, where stamps are asked for.
    pub fn begin_stamps(&self, load: &Load) {
        if let Some(stamps) = &self.stamps {
            stamps.begin(load);
        }
    }

    /// The load is over: the times of its stamped frames, where stamps are asked for.
    pub fn end_stamps(&self, load: &Load) -> io::Result<Option<StampedFrames>> {
        let ended = self.stamps.as_ref().map(|stamps| stamps.end(load));
        ended.transpose()
    }
}
