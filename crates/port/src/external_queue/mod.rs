//! External queues: another process serves a queue of the card. The process is the client.
//!
//! A client shares memory with the card: slots for frames, and four rings as of AF_XDP
//! (`external_queue/niclab_queue.h`). The client puts empty slots into the fill ring and finds
//! frames in the receive ring. It sends by the transmit ring and gets the slots back by the
//! completion ring. The card copies frames in and out. So a client never sees the card's own frame
//! memory, and the card loses no frame memory when a client ends. The shared memory holds only
//! frames of this client and its own writes.
//!
//! A client may write anything. The card notes in its own memory which slots it holds, refuses and
//! counts requests for others ([`ExternalQueueRefusals`]), and disconnects a client whose index
//! makes an impossible move ([`Ended`]). A call reads at most a burst of entries of a ring.

mod layout;
mod ring;
#[cfg(test)]
mod ring_tests;
mod socket;

/// The memory of the rings. `tests/rings.rs` replaces it by loom's.
mod shared {
    pub use niclab_nic::shared_memory::{SharedMemory, WORD, fence};
}

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};

pub use layout::{ExternalQueueSize, HEADER_LEN, MAGIC, VERSION};
pub use ring::Jump;
pub use socket::Listener;

use crate::burst::Burst;
use crate::frame_pool::FramePool;
use crate::queue_pair::{QueuePair, QueuePairCounters};
use layout::{FRAME_LEN_MIN, Layout};
use ring::{Consumer, Producer};
use shared::SharedMemory;

/// Frames of the card's that a queue pair holds: none, for it copies within each call.
pub const FRAMES: usize = 0;

/// Calls after which the card checks that the client is still there.
const LOOK_EVERY: u32 = 1_024;

/// Offsets within a slot at which frames start, in lines: were all at the start of a slot, their
/// first lines would share few sets of a cache.
const COLOURS: usize = 8;
const LINE: usize = 64;

/// Why a client has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// It has closed the socket, or was killed.
    #[error("the client is gone")]
    Gone,
    /// It has moved an index as it cannot.
    #[error("the client was disconnected: {0}")]
    Jumped(Jump),
}

/// Entries of a client that the card refused, since the client came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExternalQueueRefusals {
    /// Addresses outside of its slots.
    pub addresses: u64,
    /// Slots that the card held already.
    pub held: u64,
    /// Frames that are too short, too long, longer than what is left of their slot, or of several
    /// entries.
    pub lens: u64,
}

/// Shared counters of refusals: written by the core of the queue pair, read by others as
/// [`ExternalQueueRefusals`].
#[derive(Clone, Debug, Default)]
pub struct Refusals(Arc<[AtomicU64; 3]>);

#[derive(Clone, Copy)]
enum Refusal {
    Address,
    Held,
    Len,
}

impl Refusals {
    #[cold]
    fn count(&self, what: Refusal) {
        self.0[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The refusals so far.
    pub fn counters(&self) -> ExternalQueueRefusals {
        let [addresses, held, lens] = [0, 1, 2].map(|at: usize| self.0[at].load(Ordering::Relaxed));
        ExternalQueueRefusals { addresses, held, lens }
    }
}

/// The card's end of an external queue: the client receives frames that are sent here, and its
/// frames arrive here.
#[derive(Debug)]
pub struct ExternalQueue {
    region: Arc<Region>,
    shared: SharedMemory,
    /// To the client, which is there as long as its end is open.
    socket: OwnedFd,
    layout: Layout,
    fill: Consumer<1>,
    receive: Producer<2>,
    transmit: Consumer<2>,
    completion: Producer<1>,
    /// Slots to be filled, the oldest in front.
    offered: ArrayVec<u32, { 2 * BURST }>,
    /// By slot: the card holds it, from taking it out of the client's ring until putting it into
    /// one of the card's.
    is_held: Vec<bool>,
    /// Calls since the card last looked for the client.
    calls: u32,
    ended: Option<Ended>,
    counters: QueuePairCounters,
    refusals: Refusals,
}

impl ExternalQueue {
    /// A queue pair over memory of this layout, which nobody has used.
    fn new(
        region: &Arc<Region>,
        shared: SharedMemory,
        socket: OwnedFd,
        layout: Layout,
    ) -> ExternalQueue {
        ExternalQueue {
            region: Arc::clone(region),
            shared,
            socket,
            fill: Consumer::new(layout.fill, 0),
            receive: Producer::new(layout.receive, 0),
            transmit: Consumer::new(layout.transmit, 0),
            completion: Producer::new(layout.completion, 0),
            offered: ArrayVec::new(),
            is_held: vec![false; layout.shape.slots as usize],
            layout,
            calls: 0,
            ended: None,
            counters: QueuePairCounters::default(),
            refusals: Refusals::default(),
        }
    }

    /// The shared counters of refusals.
    pub fn refusals(&self) -> Refusals {
        self.refusals.clone()
    }

    /// Begins a call: now and then it looks for the client. A client that has gone stays gone.
    #[inline]
    fn begin(&mut self) -> io::Result<()> {
        self.calls += 1;
        if self.calls >= LOOK_EVERY || self.ended.is_some() { self.look() } else { Ok(()) }
    }

    #[cold]
    fn look(&mut self) -> io::Result<()> {
        self.calls = 0;
        if let Some(ended) = self.ended {
            return Err(io::Error::other(ended));
        }
        if socket::is_closed(&self.socket) {
            self.ended = Some(Ended::Gone);
            return Err(io::Error::other(Ended::Gone));
        }
        Ok(())
    }

    /// Disconnects a client that is at fault, and says why.
    #[cold]
    fn end(&mut self, jump: Jump) -> io::Error {
        let ended = Ended::Jumped(jump);
        self.ended = Some(ended);
        socket::report(&self.socket, &ended);
        io::Error::other(ended)
    }

    /// Takes slots that the client offers, until there are as many as are wanted or a burst of
    /// entries was looked at.
    fn take_offers(&mut self, wanted: usize) -> Result<(), Jump> {
        if self.offered.len() >= wanted {
            return Ok(());
        }
        let count = self.fill.available(&self.shared, BURST as u32)?.min(BURST as u32);
        for _ in 0..count {
            let [address] = self.fill.take(&self.shared);
            match self.hold(address) {
                // There is room, for it was less than a burst before.
                Ok((slot, _)) => self.offered.push(slot),
                Err(refusal) => self.refusals.count(refusal),
            }
        }
        if count > 0 {
            self.fill.release(&self.shared);
        }
        Ok(())
    }

    /// Takes a slot over from the client: which, and how far behind its begin the address is.
    #[inline]
    fn hold(&mut self, address: u64) -> Result<(u32, usize), Refusal> {
        let (slot, inside) = self.layout.slot_of(address).ok_or(Refusal::Address)?;
        match std::mem::replace(&mut self.is_held[slot as usize], true) {
            false => Ok((slot, inside)),
            true => Err(Refusal::Held),
        }
    }

    /// Copies as many frames to the client as it has slots and room in its ring for; how many.
    fn give(&mut self, burst: &Burst) -> Result<usize, Jump> {
        self.take_offers(burst.len())?;
        let room = self.receive.room(&self.shared, burst.len() as u32)?;
        let count = burst.len().min(self.offered.len()).min(room as usize);
        for (desc, slot) in burst.iter().zip(self.offered.drain(..count)) {
            let frame = self.region.frame(desc);
            // A frame grown by headers may fill a slot, and never more than that.
            let frame = &frame[..frame.len().min(self.layout.slot_len)];
            let left = self.layout.slot_len - frame.len();
            let offset = (slot as usize % COLOURS * LINE).min(left / LINE * LINE);
            let address = self.layout.address(slot) + offset;
            self.shared.copy_in(self.layout.slots + address, frame);
            self.receive.put(&self.shared, entry(address as u64, frame.len() as u32));
            self.is_held[slot as usize] = false;
            self.counters.tx_bytes += frame.len() as u64;
        }
        self.counters.tx_frames += count as u64;
        if count > 0 {
            self.receive.publish(&self.shared);
            self.wake();
        }
        Ok(count)
    }

    /// Takes frames from the client, as far as there is room for it and for giving back its slots.
    fn take(&mut self, pool: &mut FramePool, into: &mut Burst) -> Result<(), Jump> {
        let most = into.remaining_capacity() as u32;
        let available = self.transmit.available(&self.shared, most)?.min(most);
        if available == 0 {
            return Ok(());
        }
        let count = available.min(self.completion.room(&self.shared, available)?);
        let mut back = ArrayVec::<u32, BURST>::new();
        let mut taken = 0;
        while taken < count
            && let Some(desc) = pool.take()
        {
            taken += 1;
            let [address, rest] = self.transmit.take(&self.shared);
            match self.hold(address) {
                Ok((slot, inside)) => {
                    back.push(slot);
                    match self.copy_out(slot, inside, rest, desc) {
                        Ok(desc) => into.push(desc),
                        Err(desc) => {
                            self.refusals.count(Refusal::Len);
                            pool.give(desc);
                        }
                    }
                    self.completion.put(&self.shared, [self.layout.address(slot) as u64]);
                }
                Err(refusal) => {
                    self.refusals.count(refusal);
                    pool.give(desc);
                }
            }
        }
        back.into_iter().for_each(|slot| self.is_held[slot as usize] = false);
        if taken > 0 {
            self.transmit.release(&self.shared);
            self.completion.publish(&self.shared);
            self.wake();
        }
        Ok(())
    }

    /// Copies a frame from `inside` a slot; `Err` gives the frame back that was for it, where its
    /// length is none.
    #[inline]
    fn copy_out(
        &mut self,
        slot: u32,
        inside: usize,
        rest: u64,
        mut desc: Desc,
    ) -> Result<Desc, Desc> {
        let (len, options) = len_and_options(rest);
        let len = len as usize;
        if len < FRAME_LEN_MIN || len > self.layout.slot_len - inside || options != 0 {
            return Err(desc);
        }
        let Some(room) = self.region.slot_mut(&mut desc).get_mut(..len) else {
            return Err(desc);
        };
        self.shared.copy_out(self.layout.slots + self.layout.address(slot) + inside, room);
        self.region.set_len(&mut desc, len as u16);
        self.counters.rx_frames += 1;
        self.counters.rx_bytes += len as u64;
        Ok(desc)
    }

    /// Wakes the client if it sleeps.
    #[inline]
    fn wake(&self) {
        let asleep = self.layout.asleep;
        if ring::found_asleep(&self.shared, asleep) && !socket::ring(&self.socket) {
            // With the next entry, then.
            ring::leave_asleep(&self.shared, asleep);
        }
    }
}

/// An entry of the receive ring: `struct niclab_queue_frame`.
#[inline]
fn entry(address: u64, len: u32) -> [u64; 2] {
    let mut rest = [0; 8];
    rest[..4].copy_from_slice(&len.to_ne_bytes());
    [address, u64::from_ne_bytes(rest)]
}

/// The second word of an entry of the transmit ring.
#[inline]
fn len_and_options(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}

impl QueuePair for ExternalQueue {
    /// Frames that the client sends.
    fn receive(&mut self, pool: &mut FramePool, into: &mut Burst) -> io::Result<()> {
        self.begin()?;
        self.take(pool, into).map_err(|jump| self.end(jump))
    }

    /// Frames for the client; those that it has no room for are dropped, lest others wait for it.
    fn send(&mut self, pool: &mut FramePool, burst: &mut Burst) -> io::Result<()> {
        self.begin()?;
        if burst.is_empty() {
            return Ok(());
        }
        let given = self.give(burst).map_err(|jump| self.end(jump))?;
        self.counters.tx_dropped += (burst.len() - given) as u64;
        pool.give_all(burst);
        Ok(())
    }

    fn counters(&self) -> QueuePairCounters {
        self.counters
    }

    fn close(self: Box<Self>, _pool: &mut FramePool) -> io::Result<QueuePairCounters> {
        Ok(self.counters())
    }
}
