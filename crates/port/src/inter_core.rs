//! Inter-core rings: they carry frames from one core of a card to another.
//!
//! There is a ring from each core to each other one, single-producer single-consumer, so an end
//! belongs to one thread. A frame that changes cores costs waits for memory that the other core
//! had last: its first line, its descriptor, the ends of the ring. So descriptors go by bursts, and
//! descriptors that have come stay in the ring for one more call, while the first lines of their
//! frames are on their way.

use std::sync::atomic::{Ordering, fence};

use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::burst::{Burst, push};

/// One core's ends of the inter-core rings.
#[derive(Debug)]
pub struct InterCoreRings {
    /// By core; to itself none.
    out: Vec<Option<Producer<Desc>>>,
    inward: Vec<Option<ReceivingEnd>>,
}

#[derive(Debug)]
struct ReceivingEnd {
    ring: Consumer<Desc>,
    /// Frames whose first lines were asked for.
    coming: usize,
}

impl InterCoreRings {
    /// The ends of so many cores, of rings of `frames` each, at least a burst.
    pub fn between(cores: usize, frames: usize) -> Vec<InterCoreRings> {
        let empty = |_| InterCoreRings {
            out: (0..cores).map(|_| None).collect(),
            inward: (0..cores).map(|_| None).collect(),
        };
        let mut all: Vec<InterCoreRings> = (0..cores).map(empty).collect();
        for from in 0..cores {
            for to in (0..cores).filter(|to| *to != from) {
                let (producer, ring) = RingBuffer::new(frames.max(BURST));
                all[from].out[to] = Some(producer);
                all[to].inward[from] = Some(ReceivingEnd { ring, coming: 0 });
            }
        }
        all
    }

    /// Gives another core the first frames of a burst, as many as there is room for. The others
    /// stay.
    #[inline]
    pub fn send(&mut self, core: usize, burst: &mut Burst) -> usize {
        self.out[core].as_mut().map_or(0, |ring| push(ring, burst))
    }

    /// Gives another core a frame; back where there is no room.
    #[inline]
    pub fn send_one(&mut self, core: usize, desc: Desc) -> Option<Desc> {
        let Some(ring) = &mut self.out[core] else { return Some(desc) };
        ring.push(desc).err().map(|PushError::Full(desc)| desc)
    }

    /// Takes the frames of another core that were there at the last call, as far as the burst has
    /// room for them, and asks for those that have come since; whether there was any of either.
    #[inline]
    pub fn receive(&mut self, core: usize, region: &Region, into: &mut Burst) -> bool {
        let Some(ReceivingEnd { ring, coming }) = &mut self.inward[core] else { return false };
        let count = (*coming).min(into.remaining_capacity());
        if let Ok(chunk) = ring.read_chunk(count) {
            into.extend(chunk);
        }
        *coming = ring.slots().min(BURST);
        if let Ok(chunk) = ring.read_chunk(*coming) {
            let (first, rest) = chunk.as_slices();
            first.iter().chain(rest).for_each(|desc| region.prefetch(desc));
        }
        count + *coming > 0
    }

    /// Whether no core has given a frame that waits to be taken.
    pub fn is_empty(&self) -> bool {
        self.inward.iter().flatten().all(|inward| inward.ring.is_empty())
    }

    /// Gives nothing any more.
    pub fn close(&mut self) {
        self.out.fill_with(|| None);
    }

    /// Whether no other core gives anything any more. What they gave before is there to be taken.
    pub fn is_producer_closed(&self) -> bool {
        let is_last = self.inward.iter().flatten().all(|inward| inward.ring.is_abandoned());
        // That a ring was dropped is only counted; the fence makes visible what was put into it.
        fence(Ordering::Acquire);
        is_last
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const FRAMES: usize = 2_000;

    /// Every core gives every other one its frames, numbered, by bursts of all lengths, through
    /// rings that are mostly full.
    #[test]
    fn frames_come_once_and_in_their_order() {
        let cores = 3;
        let (region, mut descs) = Region::new(cores * (cores - 1) * FRAMES, 64).unwrap();
        let taken: Vec<Vec<Vec<u32>>> = thread::scope(|scope| {
            let work = InterCoreRings::between(cores, BURST).into_iter().enumerate();
            let threads: Vec<_> = work
                .map(|(place, rings)| {
                    let own = descs.split_off(descs.len() - (cores - 1) * FRAMES);
                    let region = &region;
                    scope.spawn(move || exchange(place, cores, rings, own, region))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (place, taken) in taken.iter().enumerate() {
            for (from, taken) in taken.iter().enumerate() {
                let expected = if from == place { 0 } else { FRAMES as u32 };
                assert!(taken.iter().copied().eq(0..expected), "{from} to {place}: {taken:?}");
            }
        }
    }

    /// The numbers of the frames that a core got, by giver.
    fn exchange(
        place: usize,
        cores: usize,
        mut rings: InterCoreRings,
        mut own: Vec<Desc>,
        region: &Region,
    ) -> Vec<Vec<u32>> {
        let mut taken = vec![Vec::new(); cores];
        let mut take = |rings: &mut InterCoreRings| {
            let mut is_busy = false;
            for (core, taken) in taken.iter_mut().enumerate() {
                let mut burst = Burst::new();
                is_busy |= rings.receive(core, region, &mut burst);
                taken.extend(burst.iter().map(|desc| desc.hash));
            }
            is_busy
        };
        for core in (0..cores).filter(|core| *core != place) {
            let (mut number, mut burst) = (0, Burst::new());
            while (number as usize) < FRAMES || !burst.is_empty() {
                while burst.len() <= number as usize % BURST && (number as usize) < FRAMES {
                    let Some(mut desc) = own.pop() else { break };
                    desc.hash = number;
                    burst.push(desc);
                    number += 1;
                }
                let before = burst.len();
                let given = match number % 3 {
                    0 => {
                        let back = rings.send_one(core, burst.remove(0));
                        let is_given = back.is_none();
                        back.into_iter().for_each(|desc| burst.insert(0, desc));
                        usize::from(is_given)
                    }
                    _ => rings.send(core, &mut burst),
                };
                assert_eq!(burst.len(), before - given);
                if !take(&mut rings) {
                    thread::yield_now();
                }
            }
        }
        rings.close();
        loop {
            let is_last = rings.is_producer_closed();
            if !take(&mut rings) && is_last {
                break;
            }
            thread::yield_now();
        }
        assert!(rings.is_empty());
        taken
    }

    #[test]
    fn frames_without_room_stay_with_the_sender() {
        let (region, descs) = Region::new(2 * BURST, 64).unwrap();
        let mut descs = descs.into_iter();
        let mut ends = InterCoreRings::between(2, BURST);
        let (mut other, mut one) = (ends.remove(1), ends.remove(0));
        let mut burst: Burst = descs.by_ref().take(BURST - 2).collect();
        assert_eq!(one.send(1, &mut burst), BURST - 2);
        burst.extend(descs.by_ref().take(5));
        let addresses: Vec<u32> = burst.iter().map(Desc::address).collect();
        assert_eq!(one.send(1, &mut burst), 2);
        let kept: Vec<u32> = burst.iter().map(Desc::address).collect();
        assert_eq!(kept, addresses[2..]);
        assert!(descs.next().and_then(|desc| one.send_one(1, desc)).is_some());
        assert_eq!(one.send(0, &mut burst), 0, "there is no ring to itself");
        let mut taken = Burst::new();
        assert!(!other.is_empty() && other.receive(0, &region, &mut taken));
        assert!(taken.is_empty(), "their first lines are on their way");
        assert!(other.receive(0, &region, &mut taken) && other.is_empty());
        assert_eq!(taken.len(), BURST);
        assert!(!other.receive(0, &region, &mut taken));
    }
}
