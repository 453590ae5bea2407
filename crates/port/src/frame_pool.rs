//! Free frames of one region, for several cores.
//!
//! A frame that one core received may be sent by another, and is free there. Each core has a pool
//! of its own, which it takes from and gives to without looking at the others'; what is too much
//! there goes to a shelf that all share, a burst at a time, and what is too little comes from it.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, MemoryError, Region};

use crate::burst::Burst;

/// Frames that a pool keeps for itself, at most: more go to the shelf.
const KEPT_MAX: usize = 4 * BURST;

/// Bursts of free frames that the pools of a region share.
#[derive(Debug)]
struct SharedBursts(ArrayQueue<Burst>);

/// Free frames of one core.
#[derive(Debug)]
pub struct FramePool {
    region: Arc<Region>,
    free: Vec<Desc>,
    shelf: Arc<SharedBursts>,
}

/// `count` pools of one new region with at least `frames` frames of at most `frame_len` bytes
/// without FCS; all lie on the shelf at first.
///
/// # Errors
/// [`MemoryError`].
pub fn frame_pools(
    count: usize,
    frames: usize,
    frame_len: usize,
) -> Result<Vec<FramePool>, MemoryError> {
    let bursts = frames.div_ceil(BURST);
    let (region, mut descs) = Region::new(bursts * BURST, frame_len)?;
    let shelf = SharedBursts(ArrayQueue::new(bursts.max(1)));
    while !descs.is_empty() {
        let burst: Burst = descs.drain(descs.len() - BURST..).collect();
        // It has a place for each.
        let _ = shelf.0.push(burst);
    }
    let shelf = Arc::new(shelf);
    let pool = |_| FramePool {
        region: Arc::clone(&region),
        free: Vec::with_capacity(KEPT_MAX + BURST),
        shelf: Arc::clone(&shelf),
    };
    Ok((0..count).map(pool).collect())
}

impl FramePool {
    /// Memory of the frames.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Takes a free frame; `None` where neither this core nor the shelf has one.
    #[inline]
    pub fn take(&mut self) -> Option<Desc> {
        if self.free.is_empty() {
            self.free.extend(self.shelf.0.pop()?);
        }
        self.free.pop()
    }

    /// Gives a frame back, whoever took it.
    #[inline]
    pub fn give(&mut self, desc: Desc) {
        self.free.push(desc);
        if self.free.len() >= KEPT_MAX + BURST {
            self.put_away();
        }
    }

    /// Gives back the frames of a burst.
    #[inline]
    pub fn give_all(&mut self, burst: &mut Burst) {
        burst.drain(..).for_each(|desc| self.give(desc));
    }

    /// Puts a burst on the shelf: those that were given back first, whose lines are the coldest.
    #[cold]
    fn put_away(&mut self) {
        let burst: Burst = self.free.drain(..BURST).collect();
        // Bursts on the shelf are full, so that it has a place for each that there can be.
        if let Err(burst) = self.shelf.0.push(burst) {
            self.free.extend(burst);
        }
    }
}

/// Free frames of all pools of a region, which end: those that are missing were lost.
pub fn count(pools: Vec<FramePool>) -> usize {
    let kept: usize = pools.iter().map(|pool| pool.free.len()).sum();
    let Some(one) = pools.first() else { return 0 };
    kept + std::iter::from_fn(|| one.shelf.0.pop()).map(|burst| burst.len()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rtrb::RingBuffer;

    use super::*;

    #[test]
    fn frames_move_between_cores_and_none_is_lost_or_doubled() {
        let mut all = frame_pools(2, 1_000, 1_514).unwrap();
        assert_eq!(all[0].region().frames(), 1_024, "whole bursts");
        let (mut there, mut here) = RingBuffer::new(200);
        let (mut sender, mut receiver) = (all.remove(0), all.remove(0));
        let (sent, pools) = thread::scope(|scope| {
            let sending = scope.spawn(move || {
                let (mut sent, mut none) = (0_u64, 0);
                while sent < 100_000 {
                    match sender.take() {
                        Some(mut desc) => {
                            let region = Arc::clone(sender.region());
                            region.slot_mut(&mut desc)[..8].copy_from_slice(&sent.to_le_bytes());
                            region.set_len(&mut desc, 8);
                            let mut waiting = Some(desc);
                            while let Some(desc) = waiting.take() {
                                waiting = there.push(desc).err().map(|rtrb::PushError::Full(d)| d);
                            }
                            sent += 1;
                        }
                        None => none += 1,
                    }
                }
                drop(there);
                (sent, none, sender)
            });
            let region = Arc::clone(receiver.region());
            let mut observed = 0_u64;
            loop {
                let is_last = here.is_abandoned();
                while let Ok(desc) = here.pop() {
                    assert_eq!(region.frame(&desc), observed.to_le_bytes());
                    observed += 1;
                    receiver.give(desc);
                }
                if is_last {
                    break;
                }
            }
            let (sent, _, sender) = sending.join().unwrap();
            assert_eq!(observed, sent);
            (sent, vec![sender, receiver])
        });
        assert_eq!((sent, count(pools)), (100_000, 1_024));
    }

    #[test]
    fn an_empty_shelf_gives_none_and_what_comes_back_is_had_again() {
        let mut pools = frame_pools(1, 64, 60).unwrap();
        let mut taken = Vec::new();
        taken.extend(std::iter::from_fn(|| pools[0].take()));
        assert_eq!(taken.len(), 64);
        taken.into_iter().for_each(|desc| pools[0].give(desc));
        assert!(pools[0].take().is_some_and(|desc| desc.is_empty()));
        assert_eq!(count(pools), 63, "one is held");
    }
}
