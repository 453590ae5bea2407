//! The memory wire: two ends, a ring of descriptors each way, one frame pool.
//!
//! The far end (generator and sink) owns the pool: it takes frames from it, sends them, and gets
//! them back through the other ring. The near end (the NIC) owns no frame; what it drops goes back
//! through a third ring. Each ring holds `depth` descriptors. A frame that finds the ring towards
//! the NIC full is not sent: that is the device's loss, and the far end counts it (`rx_missed`).
//!
//! Rings are single-producer single-consumer, so each end belongs to one thread.

use std::sync::Arc;

use arrayvec::ArrayVec;
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, MemoryError, Pool, Region};
use rtrb::chunks::ChunkError;
use rtrb::{Consumer, Producer, RingBuffer};

/// Frames that are handled at once.
pub type Burst = ArrayVec<Desc, BURST>;

/// The end at which traffic is generated and counted.
#[derive(Debug)]
pub struct Far {
    pool: Pool,
    out: Producer<Desc>,
    back: Consumer<Desc>,
    dropped: Consumer<Desc>,
}

/// The end at which the NIC is.
#[derive(Debug)]
pub struct Near {
    region: Arc<Region>,
    rx: Consumer<Desc>,
    tx: Producer<Desc>,
    dropped: Producer<Desc>,
}

/// A wire whose rings hold `depth` frames each (at least one burst), for frames of at most
/// `frame_len` bytes without FCS. `behind` more frames may be under way behind the near end.
pub fn wire(depth: usize, behind: usize, frame_len: usize) -> Result<(Far, Near), MemoryError> {
    let depth = depth.max(BURST);
    // Enough for three full rings and a burst in hand at either end, so that no ring ever finds the
    // pool empty and the return rings can take whatever is under way.
    let frames = 3 * depth + 2 * BURST + behind;
    let pool = Pool::new(frames, frame_len)?;
    let (out, rx) = RingBuffer::new(depth);
    let (tx, back) = RingBuffer::new(frames);
    let (dropped_in, dropped) = RingBuffer::new(frames);
    let region = Arc::clone(pool.region());
    let near = Near { region, rx, tx, dropped: dropped_in };
    Ok((Far { pool, out, back, dropped }, near))
}

impl Far {
    /// Memory of the frames.
    pub fn region(&self) -> &Arc<Region> {
        self.pool.region()
    }

    /// Frames in the pool: all of them when nothing is under way.
    pub fn available(&self) -> usize {
        self.pool.available()
    }

    /// Frames that could be reserved now, at most.
    #[inline]
    pub fn room(&self) -> usize {
        self.out.slots().min(self.pool.available())
    }

    /// Takes at most `want` frames to fill, no more than the ring has room for.
    #[inline]
    pub fn reserve(&mut self, want: usize, into: &mut Burst) {
        let room = self.room().min(want).min(into.remaining_capacity());
        into.extend((0..room).map_while(|_| self.pool.take()));
    }

    /// Gives back a frame that was reserved and is not sent.
    #[inline]
    pub fn give_back(&mut self, desc: Option<Desc>) {
        desc.into_iter().for_each(|desc| self.pool.give(desc));
    }

    /// Sends filled frames, for which there is room since they were reserved.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst) -> usize {
        push(&mut self.out, burst)
    }

    /// Takes what came back.
    #[inline]
    pub fn receive(&mut self, into: &mut Burst) {
        pull(&mut self.back, into);
    }

    /// Gives frames back to the pool, with those the NIC dropped.
    #[inline]
    pub fn release(&mut self, burst: &mut Burst) {
        burst.drain(..).for_each(|desc| self.pool.give(desc));
        if self.dropped.slots() > 0 {
            self.collect();
        }
    }

    #[cold]
    fn collect(&mut self) {
        while let Ok(desc) = self.dropped.pop() {
            self.pool.give(desc);
        }
    }
}

impl Near {
    /// Memory of the frames.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Frames of the wire's pool: no more can ever be under way.
    pub fn frames(&self) -> usize {
        self.tx.buffer().capacity()
    }

    /// Takes a burst that has arrived.
    #[inline]
    pub fn receive(&mut self, into: &mut Burst) {
        pull(&mut self.rx, into);
    }

    /// Sends frames; always finds room, for the ring holds every frame there is.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst) -> usize {
        push(&mut self.tx, burst)
    }

    /// Gives back frames that go nowhere.
    #[inline]
    pub fn discard(&mut self, burst: &mut Burst) {
        push(&mut self.dropped, burst);
    }
}

/// Moves what fits from the front of a burst into a ring; how many. How far the other end has read
/// is looked at only where there seems no room: that is memory which the other core had last.
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

/// Moves what is there from a ring to the end of a burst, as far as it has room.
#[inline]
pub(crate) fn pull(ring: &mut Consumer<Desc>, burst: &mut Burst) {
    let count = ring.slots().min(burst.remaining_capacity());
    if let Ok(chunk) = ring.read_chunk(count) {
        burst.extend(chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserved(far: &mut Far, want: usize) -> Burst {
        let mut burst = Burst::new();
        far.reserve(want, &mut burst);
        burst
    }

    #[test]
    fn frames_go_there_and_back_and_none_is_lost() {
        let (mut far, mut near) = wire(128, 0, 60).unwrap();
        let all = far.available();
        for round in 0..1_000_u32 {
            let mut burst = reserved(&mut far, 64);
            assert_eq!(burst.len(), 64);
            let region = Arc::clone(far.region());
            for (i, desc) in burst.iter_mut().enumerate() {
                region.slot_mut(desc)[..4].copy_from_slice(&(round * 64 + i as u32).to_ne_bytes());
                region.set_len(desc, 60);
            }
            assert_eq!(far.send(&mut burst), 64);
            let mut taken = Burst::new();
            near.receive(&mut taken);
            let mut dropped: Burst = taken.drain(60..).collect();
            near.discard(&mut dropped);
            assert_eq!(near.send(&mut taken), 60);
            let mut back = Burst::new();
            far.receive(&mut back);
            for (i, desc) in back.iter().enumerate() {
                let number = (round * 64 + i as u32).to_ne_bytes();
                assert_eq!(region.frame(desc)[..4], number);
            }
            far.release(&mut back);
        }
        assert_eq!(far.available(), all);
    }

    #[test]
    fn a_full_ring_takes_no_more_until_the_nic_polls() {
        let (mut far, mut near) = wire(100, 0, 60).unwrap();
        let mut burst = reserved(&mut far, 64);
        far.send(&mut burst);
        let mut burst = reserved(&mut far, 64);
        assert_eq!(burst.len(), 36);
        far.send(&mut burst);
        assert_eq!(reserved(&mut far, 64).len(), 0);
        near.receive(&mut Burst::new());
        assert_eq!(reserved(&mut far, 64).len(), 64);
    }
}
