//! The queues between a NIC on cores of its own and the functions behind it.
//!
//! As with a card: a receive ring a queue, which the NIC fills and the function polls, and a
//! transmit ring the other way. A frame that finds the ring of its queue full stays with the NIC.
//! Rings are single-producer single-consumer, so each side belongs to one thread.

use std::sync::atomic::{Ordering, fence};

use niclab_nic::memory::Desc;
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::wire::{Burst, pull, push};

/// The NIC's side.
#[derive(Debug)]
pub struct NicSide {
    rx: Vec<Producer<Desc>>,
    tx: Consumer<Desc>,
}

/// The function's side.
#[derive(Debug)]
pub struct FunctionSide {
    rx: Vec<Consumer<Desc>>,
    tx: Producer<Desc>,
    /// The queue to be looked at first.
    next: usize,
}

/// `count` receive rings of `depth` frames each, and a transmit ring of `frames`, which is to be as
/// many as there are: it never has to refuse one.
pub fn queues(count: u16, depth: usize, frames: usize) -> (NicSide, FunctionSide) {
    let (nic_rx, function_rx) = (0..count).map(|_| RingBuffer::new(depth)).unzip();
    let (function_tx, nic_tx) = RingBuffer::new(frames);
    let function = FunctionSide { rx: function_rx, tx: function_tx, next: 0 };
    (NicSide { rx: nic_rx, tx: nic_tx }, function)
}

impl NicSide {
    /// Puts each frame of a burst into the ring of its queue. Those that find it full, or no such
    /// queue, go to `refused`.
    #[inline]
    pub fn deliver(&mut self, burst: &mut Burst, refused: &mut Burst) {
        for desc in burst.drain(..) {
            let back = match self.rx.get_mut(usize::from(desc.queue)) {
                Some(ring) => ring.push(desc).map_err(|PushError::Full(desc)| desc).err(),
                None => Some(desc),
            };
            if let Some(desc) = back {
                refused.push(desc);
            }
        }
    }

    /// Takes a burst that the function sends.
    #[inline]
    pub fn collect(&mut self, into: &mut Burst) {
        pull(&mut self.tx, into);
    }

    /// Says that nothing more will be delivered.
    pub fn close(&mut self) {
        self.rx.clear();
    }

    /// Whether the function is gone: what is collected after this is the last.
    pub fn is_last(&self) -> bool {
        // Dropped rings are only counted; the fence makes what was put into them before visible.
        let gone = self.tx.is_abandoned();
        fence(Ordering::Acquire);
        gone
    }
}

impl FunctionSide {
    /// Takes what waits in the queues, at most a burst; each gets its turn to be first.
    #[inline]
    pub fn receive(&mut self, into: &mut Burst) {
        for _ in 0..self.rx.len() {
            if into.is_full() {
                break;
            }
            pull(&mut self.rx[self.next], into);
            self.next = if self.next + 1 == self.rx.len() { 0 } else { self.next + 1 };
        }
    }

    /// Sends frames, for which there is always room.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst) -> usize {
        push(&mut self.tx, burst)
    }

    /// Whether the NIC has closed the queues: what is received after this is the last.
    pub fn is_last(&self) -> bool {
        let closed = self.rx.iter().all(Consumer::is_abandoned);
        fence(Ordering::Acquire);
        closed
    }
}

#[cfg(test)]
mod tests {
    use niclab_nic::limits::BURST;
    use niclab_nic::memory::Region;

    use super::*;

    fn frames(count: usize, queue_of: impl Fn(usize) -> u16) -> Burst {
        let (_, descs) = Region::new(count, 60).unwrap();
        let steered = descs.into_iter().enumerate().map(|(i, mut desc)| {
            (desc.queue, desc.hash) = (queue_of(i), i as u32);
            desc
        });
        steered.collect()
    }

    #[test]
    fn each_queue_keeps_its_frames_in_order_and_refuses_them_when_full() {
        let (mut nic, mut function) = queues(3, 16, BURST);
        let mut burst = frames(BURST, |i| (i % 4) as u16);
        let mut refused = Burst::new();
        nic.deliver(&mut burst, &mut refused);
        assert!(refused.iter().all(|desc| desc.queue == 3), "there is no queue 3");
        assert_eq!(refused.len(), 16);
        refused[0].queue = 1;
        let mut again: Burst = refused.drain(..1).collect();
        nic.deliver(&mut again, &mut refused);
        assert_eq!(refused.last().map(|desc| desc.queue), Some(1), "queue 1 is full");
        let mut taken = Burst::new();
        function.receive(&mut taken);
        assert_eq!(taken.len(), 48);
        for queue in 0..3 {
            let hashes: Vec<u32> =
                taken.iter().filter(|desc| desc.queue == queue).map(|desc| desc.hash).collect();
            let want: Vec<u32> = (0..16).map(|i| 4 * i + u32::from(queue)).collect();
            assert_eq!(hashes, want);
        }
    }

    #[test]
    fn what_was_put_in_before_the_end_is_still_there() {
        let (mut nic, mut function) = queues(2, 64, BURST);
        assert!(!nic.is_last() && !function.is_last());
        nic.deliver(&mut frames(10, |i| (i % 2) as u16), &mut Burst::new());
        nic.close();
        assert!(function.is_last());
        let mut burst = Burst::new();
        function.receive(&mut burst);
        assert_eq!(function.send(&mut burst), 10);
        drop(function);
        assert!(nic.is_last());
        nic.collect(&mut burst);
        assert_eq!(burst.len(), 10);
    }

    #[test]
    fn a_busy_queue_does_not_starve_the_others() {
        let (mut nic, mut function) = queues(2, 2 * BURST, 1);
        for queue in [0, 0, 1] {
            nic.deliver(&mut frames(BURST, |_| queue), &mut Burst::new());
        }
        let (mut first, mut second) = (Burst::new(), Burst::new());
        function.receive(&mut first);
        function.receive(&mut second);
        let queues = [&first, &second].map(|burst| burst[0].queue);
        assert_eq!(queues, [0, 1]);
    }
}
