//! AF_PACKET: frames of any interface, copied in and out: where AF_XDP cannot be had.
//!
//! What arrives the kernel's own stack sees as well, and answers where it is addressed. A queue
//! pair is a socket; several share what arrives by flow.

mod ring;
mod stamps;

use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use niclab_nic::limits::BURST;
use niclab_nic::memory::Region;
use rustix::net::netdevice::index_to_name;
use rustix::net::sockopt::socket_error;

pub(crate) use ring::promiscuous;
pub use ring::{RX_SLOTS, RxCounters, RxRing, TX_SLOTS, TxRing};
pub use stamps::{SentTime, StampingSocket};

use crate::burst::Burst;
use crate::error::{PortError, PortKind};
use crate::frame_pool::FramePool;
use crate::link::{self, HEADER_LEN, Link};
use crate::queue_pair::{QueuePair, QueuePairCounters};

/// Most queue pairs of a port (`PACKET_FANOUT_MAX` of older kernels).
pub const QUEUE_PAIRS_MAX: u32 = 256;

/// Frames that a queue pair holds: none, for it copies.
pub const FRAMES: usize = 0;

/// Turns without a frame after which it is asked whether the interface is still there.
const LOOK_EVERY: u32 = 1_024;

/// One socket for each direction, on one interface.
pub struct PacketQueuePair {
    region: Arc<Region>,
    rx: RxRing,
    tx: TxRing,
    index: u32,
    idle: u32,
    counters: QueuePairCounters,
    /// Frames that found no free slot of the ring: the kernel forgets them once they are asked for.
    dropped: Cell<u64>,
}

/// Opens `count` queue pairs on an interface of the calling thread's network namespace.
///
/// # Errors
/// [`PortError`].
pub fn open(
    name: &str,
    count: u32,
    region: &Arc<Region>,
) -> Result<Vec<PacketQueuePair>, PortError> {
    let link = link::find(name).map_err(|e| PortError::of(PortKind::Packet, "look up", name, e))?;
    let link = link.ok_or_else(|| PortError::Absent { name: name.to_owned() })?;
    let longest = (region.frame_len_max() as u32).saturating_sub(HEADER_LEN);
    if link.mtu > longest {
        return Err(PortError::mtu(PortKind::Packet, &link, longest));
    }
    if count == 0 || count > QUEUE_PAIRS_MAX {
        return Err(PortError::QueuePairs { name: name.to_owned(), count, most: QUEUE_PAIRS_MAX });
    }
    let opened = rings(&link, count, region.frame_len_max());
    let rings = opened
        .map_err(|error| PortError::of(PortKind::Packet, "open AF_PACKET rings on", name, error))?;
    let queue_pair = |(rx, tx)| {
        let (region, index, counters) =
            (Arc::clone(region), link.index, QueuePairCounters::default());
        PacketQueuePair { region, rx, tx, index, idle: 0, counters, dropped: Cell::new(0) }
    };
    Ok(rings.into_iter().map(queue_pair).collect())
}

/// The rings of so many queue pairs, which share what arrives.
fn rings(link: &Link, count: u32, len: usize) -> io::Result<Vec<(RxRing, TxRing)>> {
    let open = |_| Ok((RxRing::open(link, len, RX_SLOTS)?, TxRing::open(link, len)?));
    let mut rings = (0..count).map(open).collect::<io::Result<Vec<_>>>()?;
    if count > 1 {
        let mut group = None;
        for (rx, _) in &rings {
            group = Some(rx.share(group)?);
        }
        // What came before is in several of them.
        rings.iter_mut().try_for_each(|(rx, _)| rx.drain())?;
    }
    Ok(rings)
}

impl PacketQueuePair {
    /// Has the kernel send from the front of a burst; how many left.
    fn commit(&mut self, burst: &Burst) -> usize {
        let room = self.tx.reserve(burst.len());
        let mut lens = [0; BURST];
        for (i, desc) in burst.iter().enumerate().take(room) {
            let frame = self.region.frame(desc);
            let slot = self.tx.slot(i);
            // A header put in front may have made it longer than any frame of the interface.
            let len = frame.len().min(slot.len());
            slot[..len].copy_from_slice(&frame[..len]);
            lens[i] = len as u16;
        }
        let sent = self.tx.commit(&lens[..room]);
        self.counters.tx_frames += sent as u64;
        self.counters.tx_bytes += lens[..sent].iter().map(|&len| u64::from(len)).sum::<u64>();
        sent
    }

    /// Whether the interface is gone; asked now and then.
    fn look(&mut self) -> io::Result<()> {
        self.idle = 0;
        // Switched off or gone: the kernel says the same of both.
        if let Ok(Err(error)) = socket_error(self.rx.socket())
            && index_to_name(self.rx.socket(), self.index).is_err()
        {
            return Err(error.into());
        }
        Ok(())
    }
}

impl QueuePair for PacketQueuePair {
    fn receive(&mut self, pool: &mut FramePool, into: &mut Burst) -> io::Result<()> {
        if into.remaining_capacity() < BURST {
            return Ok(());
        }
        let found = self.rx.poll();
        if found == 0 {
            self.idle += 1;
            return if self.idle < LOOK_EVERY { Ok(()) } else { self.look() };
        }
        self.idle = 0;
        for i in 0..found {
            let frame = self.rx.frame(i);
            let Some(mut desc) = pool.take() else {
                self.counters.rx_missed += 1;
                continue;
            };
            let slot = self.region.slot_mut(&mut desc);
            let Some(slot) = slot.get_mut(..frame.len()) else {
                self.counters.rx_missed += 1;
                pool.give(desc);
                continue;
            };
            slot.copy_from_slice(frame);
            self.region.set_len(&mut desc, frame.len() as u16);
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += frame.len() as u64;
            into.push(desc);
        }
        self.rx.release();
        Ok(())
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Burst) -> io::Result<()> {
        if burst.is_empty() {
            return Ok(());
        }
        let waiting = burst.len();
        loop {
            let sent = self.commit(burst);
            burst.drain(..sent).for_each(|desc| pool.give(desc));
            if !self.tx.is_next_refused() {
                break;
            }
            // The kernel comes no further than this one, and sends in its slot what is next.
            self.counters.tx_dropped += 1;
            burst.drain(..1).for_each(|desc| pool.give(desc));
        }
        if burst.len() == waiting { self.look() } else { Ok(()) }
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.rx.socket())
    }

    fn counters(&self) -> QueuePairCounters {
        let observed = self.rx.counters().unwrap_or_default();
        self.dropped.set(self.dropped.get() + observed.dropped);
        let rx_missed = self.counters.rx_missed + self.dropped.get();
        let rx_partial_checksums = self.rx.partial_checksums();
        QueuePairCounters { rx_missed, rx_partial_checksums, ..self.counters }
    }

    fn close(self: Box<Self>, _pool: &mut FramePool) -> io::Result<QueuePairCounters> {
        Ok(self.counters())
    }
}
