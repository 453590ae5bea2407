//! The port of a card whose frames count from one instant to another: while the engines are ready.
//!
//! At other times its frames are taken and dropped, so that no old frame waits for the opening.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use niclab_port::Burst;
use niclab_port::frame_pool::FramePool;
use niclab_port::queue_pair::{QueuePair, QueuePairCounters};

/// Opens and closes all queue pairs of a port. It is closed at first.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate(Arc<AtomicBool>);

impl Gate {
    /// Lets frames pass from now on.
    pub(super) fn open(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Lets no frame pass any more.
    pub(super) fn close(&self) {
        self.0.store(false, Ordering::Release);
    }

    fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// A queue pair whose received frames pass this gate.
    pub(super) fn guard(&self, queue_pair: Box<dyn QueuePair>) -> Box<dyn QueuePair> {
        let gate = self.clone();
        Box::new(GatedQueuePair { queue_pair, gate, passed: Default::default(), since: None })
    }
}

/// A queue pair behind a gate. Frames that were dropped at the gate are in none of its counters.
struct GatedQueuePair {
    queue_pair: Box<dyn QueuePair>,
    gate: Gate,
    /// Counts of the times when the gate was open, but the last one.
    passed: QueuePairCounters,
    /// The counters of the queue pair when the gate was opened, if it is open.
    since: Option<QueuePairCounters>,
}

/// The counters of a queue pair that had counted `since` when the gate was opened and has counted
/// `now`.
fn counted(
    passed: QueuePairCounters,
    since: Option<QueuePairCounters>,
    now: QueuePairCounters,
) -> QueuePairCounters {
    let since = since.unwrap_or(now);
    QueuePairCounters {
        rx_frames: passed.rx_frames + now.rx_frames - since.rx_frames,
        rx_bytes: passed.rx_bytes + now.rx_bytes - since.rx_bytes,
        rx_missed: passed.rx_missed + now.rx_missed - since.rx_missed,
        rx_partial_checksums: passed.rx_partial_checksums + now.rx_partial_checksums
            - since.rx_partial_checksums,
        ..now
    }
}

impl GatedQueuePair {
    /// Takes the state of the gate.
    fn look(&mut self) {
        let is_open = self.gate.is_open();
        if is_open == self.since.is_some() {
            return;
        }
        let now = self.queue_pair.counters();
        self.passed = counted(self.passed, self.since, now);
        self.since = is_open.then_some(now);
    }
}

impl QueuePair for GatedQueuePair {
    fn receive(&mut self, pool: &mut FramePool, into: &mut Burst) -> io::Result<()> {
        self.look();
        let before = into.len();
        let result = self.queue_pair.receive(pool, into);
        if self.since.is_none() {
            into.drain(before..).for_each(|desc| pool.give(desc));
        }
        result
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Burst) -> io::Result<()> {
        self.queue_pair.send(pool, burst)
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.queue_pair.poll_fd()
    }

    fn is_ended(&self) -> bool {
        self.queue_pair.is_ended()
    }

    fn counters(&self) -> QueuePairCounters {
        counted(self.passed, self.since, self.queue_pair.counters())
    }

    fn close(self: Box<Self>, pool: &mut FramePool) -> io::Result<QueuePairCounters> {
        let GatedQueuePair { queue_pair, passed, since, .. } = *self;
        Ok(counted(passed, since, queue_pair.close(pool)?))
    }
}

#[cfg(test)]
mod tests {
    use niclab_port::frame_pool::frame_pools;

    use super::*;

    /// Gives one frame at each call. It has missed one before each.
    #[derive(Default)]
    struct Source(QueuePairCounters);

    impl QueuePair for Source {
        fn receive(&mut self, pool: &mut FramePool, into: &mut Burst) -> io::Result<()> {
            self.0.rx_frames += 1;
            self.0.rx_bytes += 60;
            self.0.rx_missed += 1;
            into.push(pool.take().ok_or(io::ErrorKind::OutOfMemory)?);
            Ok(())
        }

        fn send(&mut self, pool: &mut FramePool, burst: &mut Burst) -> io::Result<()> {
            self.0.tx_frames += burst.len() as u64;
            pool.give_all(burst);
            Ok(())
        }

        fn counters(&self) -> QueuePairCounters {
            self.0
        }

        fn close(self: Box<Self>, _pool: &mut FramePool) -> io::Result<QueuePairCounters> {
            Ok(self.0)
        }
    }

    #[test]
    fn frames_come_and_count_while_the_gate_is_open() {
        let mut pool = frame_pools(1, 64, 60).unwrap().remove(0);
        let gate = Gate::default();
        let mut port = gate.guard(Box::new(Source::default()));
        let mut burst = Burst::new();
        // More than the pool has, so that those at the closed gate must come back.
        let mut receive = |calls: usize, port: &mut Box<dyn QueuePair>| {
            (0..calls).for_each(|_| port.receive(&mut pool, &mut burst).unwrap());
            let passed = burst.len();
            port.send(&mut pool, &mut burst).unwrap();
            passed
        };
        assert_eq!(receive(100, &mut port), 0);
        assert_eq!(port.counters(), QueuePairCounters::default());
        gate.open();
        assert_eq!(receive(3, &mut port), 3);
        gate.close();
        assert_eq!(receive(100, &mut port), 0);
        gate.open();
        assert_eq!(receive(4, &mut port), 4);
        let seven = QueuePairCounters {
            rx_frames: 7,
            rx_bytes: 7 * 60,
            rx_missed: 7,
            tx_frames: 7,
            ..QueuePairCounters::default()
        };
        assert_eq!(port.counters(), seven);
        gate.close();
        assert_eq!(receive(1, &mut port), 0);
        assert_eq!(port.counters(), seven);
        let mut other = frame_pools(1, 64, 60).unwrap().remove(0);
        assert_eq!(port.close(&mut other).unwrap(), seven);
    }
}
