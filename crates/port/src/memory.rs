//! A memory wire at a card: lanes whose other ends are a generator's and a sink's.
//!
//! What comes is copied from the generator's memory into the card's, as a card's DMA would; what
//! leaves is looked at by the sink where it is, and goes back to the lane's stock behind that.
//!
//! Each frame that leaves by one of a port's lanes gets the next number of all of them, in
//! [`Desc::hash`]: so the sink can tell in which order they left, whatever lane it looks at first.
//!
//! A lane that found nothing has a [`Bell`] that whoever sends rings, so that the core behind the
//! lane does not sleep over a frame.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, MemoryError, Region};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::lane::{Lane, LaneCounters};
use crate::stock::Stock;
use crate::wake::Bell;
use crate::wire::{Burst, Far, Near, pull, push, wire};

/// The card's end of one wire.
#[derive(Debug)]
pub struct MemoryLane {
    near: Near,
    /// Frames that came, and for which the stock had none yet.
    arrived: Burst,
    region: Arc<Region>,
    out: Producer<Desc>,
    back: Consumer<Desc>,
    order: Arc<AtomicU32>,
    bell: Arc<Bell>,
    /// It has said that it waits.
    waits: bool,
    /// Who sends has found it waiting, and not rung yet when it had got up by itself.
    is_owed: bool,
    counters: LaneCounters,
}

/// The far end of one wire.
#[derive(Debug)]
pub struct FarLane {
    /// Memory and rings of what the card is sent.
    pub far: Far,
    out: Consumer<Desc>,
    back: Producer<Desc>,
    bell: Arc<Bell>,
}

/// So many wires for the cores of a card whose frames are of `region`, with rings of `depth` frames
/// each, for frames of at most `frame_len` bytes without FCS.
///
/// # Errors
/// [`io::ErrorKind::OutOfMemory`], or what the system says of an eventfd.
pub fn lanes(
    count: u32,
    depth: usize,
    frame_len: usize,
    region: &Arc<Region>,
) -> io::Result<Vec<(FarLane, MemoryLane)>> {
    let order = Arc::new(AtomicU32::new(0));
    let no_memory = |error: MemoryError| io::Error::new(io::ErrorKind::OutOfMemory, error);
    let one = |_| {
        let (far, near) = wire(depth, 0, frame_len).map_err(no_memory)?;
        let bell = Arc::new(Bell::new()?);
        let (out, out_far) = RingBuffer::new(depth);
        // Those that the sink has in hand come on top of what the ring to it holds.
        let (back_far, back) = RingBuffer::new(2 * depth + 4 * BURST);
        let lane = MemoryLane {
            near,
            arrived: Burst::new(),
            region: Arc::clone(region),
            out,
            back,
            order: Arc::clone(&order),
            bell: Arc::clone(&bell),
            waits: false,
            is_owed: false,
            counters: LaneCounters::default(),
        };
        Ok((FarLane { far, out: out_far, back: back_far, bell }, lane))
    };
    (0..count).map(one).collect()
}

impl FarLane {
    /// Sends frames that were reserved, for which there is room ([`Far::reserve`]).
    pub fn send(&mut self, burst: &mut Burst) -> usize {
        let sent = self.far.send(burst);
        self.bell.ring();
        sent
    }

    /// Takes frames of the card that left, as far as the burst has room.
    pub fn receive(&mut self, into: &mut Burst) {
        pull(&mut self.out, into);
    }

    /// Gives frames of the card back to it.
    pub fn release(&mut self, burst: &mut Burst) {
        push(&mut self.back, burst);
        self.far.release(&mut Burst::new());
    }
}

impl MemoryLane {
    /// Looks for frames; where there is none, says so, and looks again.
    #[inline]
    fn look(&mut self) {
        self.near.receive(&mut self.arrived);
        if self.arrived.is_empty() && !self.waits {
            self.waits = true;
            self.bell.wait();
            self.near.receive(&mut self.arrived);
        }
        if !self.arrived.is_empty() && std::mem::take(&mut self.waits) {
            self.is_owed |= self.bell.is_rung();
        }
        if self.is_owed {
            // Left alone, what rings late would wake the core whenever it wants to sleep.
            self.is_owed = !self.bell.hush();
        }
    }

    /// Lets the first `count` frames of a burst leave, for which there is room: those alone get
    /// numbers, though the sink may have made more room since that was seen.
    #[inline]
    fn leave(&mut self, count: usize, burst: &mut Burst) {
        let Ok(chunk) = self.out.write_chunk_uninit(count) else { return };
        let first = self.order.fetch_add(count as u32, Ordering::AcqRel);
        let numbered = burst.drain(..count).zip(0..).map(|(mut desc, number)| {
            self.counters.tx_frames += 1;
            self.counters.tx_bytes += u64::from(desc.len());
            desc.hash = first.wrapping_add(number);
            desc
        });
        chunk.fill_from_iter(numbered);
    }

    /// Gives back what the other end has seen.
    #[inline]
    fn collect(&mut self, stock: &mut Stock) {
        while let Ok(desc) = self.back.pop() {
            stock.give(desc);
        }
    }
}

impl Lane for MemoryLane {
    fn receive(&mut self, stock: &mut Stock, into: &mut Burst) -> io::Result<()> {
        if self.arrived.is_empty() {
            self.look();
        }
        let mut count = 0;
        for from in self.arrived.iter().take(into.remaining_capacity()) {
            let Some(mut desc) = stock.take() else { break };
            let frame = self.near.region().frame(from);
            let slot = self.region.slot_mut(&mut desc);
            let len = frame.len().min(slot.len());
            slot[..len].copy_from_slice(&frame[..len]);
            self.region.set_len(&mut desc, len as u16);
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += len as u64;
            into.push(desc);
            count += 1;
        }
        let mut seen: Burst = self.arrived.drain(..count).collect();
        self.near.discard(&mut seen);
        Ok(())
    }

    fn send(&mut self, stock: &mut Stock, burst: &mut Burst) -> io::Result<()> {
        self.collect(stock);
        let count = self.out.slots().min(burst.len());
        self.leave(count, burst);
        Ok(())
    }

    fn waits_on(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.event())
    }

    fn counters(&self) -> LaneCounters {
        self.counters
    }

    fn close(mut self: Box<Self>, stock: &mut Stock) -> io::Result<LaneCounters> {
        self.collect(stock);
        Ok(self.counters())
    }
}

#[cfg(test)]
mod tests {
    use niclab_nic::limits::BURST;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::stock::{count, stocks};

    const DEPTH: usize = 128;
    const FRAMES: usize = 512;

    fn is_rung(lane: &MemoryLane) -> bool {
        let event = lane.waits_on().unwrap();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(event, PollFlags::IN)], Some(&now)).unwrap() > 0
    }

    fn offer(far: &mut FarLane, numbers: std::ops::Range<u8>) -> usize {
        let mut burst = Burst::new();
        far.far.reserve(numbers.len(), &mut burst);
        let region = Arc::clone(far.far.region());
        for (desc, number) in burst.iter_mut().zip(numbers) {
            region.slot_mut(desc)[..60].fill(number);
            region.set_len(desc, 60);
        }
        far.send(&mut burst)
    }

    #[test]
    fn frames_go_through_a_card_and_none_is_kept() {
        let mut stock = stocks(1, FRAMES, 60).unwrap().remove(0);
        let region = Arc::clone(stock.region());
        let mut ends = lanes(2, DEPTH, 60, &region).unwrap();
        let (mut far, mut lane) = ends.remove(0);
        let (_, mut other) = ends.remove(0);
        let all = far.far.available();
        for round in 0..200_u8 {
            assert_eq!(
                offer(&mut far, round..round.saturating_add(50)),
                50.min(255 - usize::from(round))
            );
            let mut burst = Burst::new();
            lane.receive(&mut stock, &mut burst).unwrap();
            let seen: Vec<u8> = burst.iter().map(|desc| region.frame(desc)[59]).collect();
            assert!(seen.iter().copied().eq(round..round.saturating_add(50)), "{seen:?}");
            let mut rest: Burst = burst.drain(10..).collect();
            lane.send(&mut stock, &mut burst).unwrap();
            other.send(&mut stock, &mut Burst::new()).unwrap();
            lane.send(&mut stock, &mut rest).unwrap();
            let mut left = Burst::new();
            far.receive(&mut left);
            let numbers: Vec<u32> = left.iter().map(|desc| desc.hash).collect();
            assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
            assert_eq!(left.len(), seen.len());
            far.release(&mut left);
        }
        Box::new(lane).close(&mut stock).unwrap();
        Box::new(other).close(&mut stock).unwrap();
        assert_eq!((count(vec![stock]), far.far.available()), (FRAMES, all));
    }

    #[test]
    fn no_frame_leaves_without_a_number_of_its_own() {
        let mut stock = stocks(1, FRAMES, 60).unwrap().remove(0);
        let (mut far, mut lane) =
            lanes(1, DEPTH, 60, &Arc::clone(stock.region())).unwrap().remove(0);
        let mut burst: Burst = (0..9).filter_map(|_| stock.take()).collect();
        burst.iter_mut().for_each(|desc| desc.hash = 0xfeed_beef);
        // Room for four was seen, and there is more by now.
        lane.leave(4, &mut burst);
        assert_eq!((burst.len(), lane.counters.tx_frames), (5, 4));
        lane.send(&mut stock, &mut burst).unwrap();
        let mut left = Burst::new();
        far.receive(&mut left);
        assert!(left.iter().map(|desc| desc.hash).eq(0..9), "{left:?}");
        far.release(&mut left);
        Box::new(lane).close(&mut stock).unwrap();
    }

    #[test]
    fn who_waits_is_told_once_and_who_does_not_is_not() {
        let mut stock = stocks(1, FRAMES, 60).unwrap().remove(0);
        let (mut far, mut lane) =
            lanes(1, DEPTH, 60, &Arc::clone(stock.region())).unwrap().remove(0);
        let mut burst = Burst::new();
        offer(&mut far, 0..1);
        assert!(!is_rung(&lane), "it has not said that it waits");
        lane.receive(&mut stock, &mut burst).unwrap();
        lane.receive(&mut stock, &mut burst).unwrap();
        assert_eq!(burst.len(), 1);
        offer(&mut far, 0..1);
        assert!(is_rung(&lane));
        offer(&mut far, 0..1);
        lane.receive(&mut stock, &mut burst).unwrap();
        assert_eq!(burst.len(), 3);
        assert!(!is_rung(&lane), "it has taken what there was");
    }

    #[test]
    fn who_rings_late_rings_once() {
        let mut stock = stocks(1, FRAMES, 60).unwrap().remove(0);
        let (mut far, mut lane) =
            lanes(1, DEPTH, 60, &Arc::clone(stock.region())).unwrap().remove(0);
        let mut burst = Burst::new();
        lane.receive(&mut stock, &mut burst).unwrap();
        // The sender has seen that the lane waits, and is not on when it is to ring.
        assert!(!far.bell.is_rung());
        offer(&mut far, 0..1);
        lane.receive(&mut stock, &mut burst).unwrap();
        assert_eq!(burst.len(), 1);
        far.bell.wait();
        far.bell.ring();
        assert!(is_rung(&lane));
        lane.receive(&mut stock, &mut burst).unwrap();
        assert!(!is_rung(&lane), "its core would never sleep again");
    }

    #[test]
    fn without_a_frame_of_its_own_a_card_leaves_what_comes_in_the_wire() {
        let mut stock = stocks(1, BURST, 60).unwrap().remove(0);
        let taken: Vec<Desc> = (2..BURST).map_while(|_| stock.take()).collect();
        let (mut far, mut lane) =
            lanes(1, DEPTH, 60, &Arc::clone(stock.region())).unwrap().remove(0);
        offer(&mut far, 0..5);
        let mut burst = Burst::new();
        lane.receive(&mut stock, &mut burst).unwrap();
        assert_eq!(burst.len(), 2);
        lane.receive(&mut stock, &mut burst).unwrap();
        assert_eq!(burst.len(), 2);
        burst.drain(..).for_each(|desc| stock.give(desc));
        lane.receive(&mut stock, &mut burst).unwrap();
        let region = stock.region();
        assert!(burst.iter().map(|desc| region.frame(desc)[0]).eq(2..4));
        taken.into_iter().for_each(|desc| stock.give(desc));
    }
}
