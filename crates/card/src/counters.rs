//! The counters of a card: written by its cores, read by everybody.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use niclab_control::PortCounters;
use niclab_nic::limits::INDIRECTION_LEN;
use niclab_nic::memory::Desc;
use niclab_port::queue_pair::QueuePairCounters;

/// Counters that a core publishes.
#[derive(Debug, Default)]
pub(crate) struct PublishedCoreCounters {
    pub(crate) rx_frames: AtomicU64,
    pub(crate) frames: AtomicU64,
    pub(crate) cpu_ns: AtomicU64,
    pub(crate) busy_ns: AtomicU64,
}

/// Counts of one core at one port.
#[derive(Clone, Debug)]
pub(crate) struct PortTally {
    pub(crate) queue_pair: QueuePairCounters,
    /// Counts of queue pairs that are gone.
    pub(crate) before: QueuePairCounters,
    pub(crate) tx_dropped: u64,
    pub(crate) rule_drops: u64,
    pub(crate) program_drops: u64,
    pub(crate) program_reported: u64,
    pub(crate) program_faults: u64,
    pub(crate) program_ring_full: u64,
    pub(crate) held_drops: u64,
    pub(crate) queues: Vec<QueueTally>,
    /// Frames that the port's RSS spread, by entry of its table.
    pub(crate) entries: Box<[u64; INDIRECTION_LEN]>,
}

impl PortTally {
    pub(crate) fn new(queues: u16) -> PortTally {
        PortTally {
            queue_pair: QueuePairCounters::default(),
            before: QueuePairCounters::default(),
            tx_dropped: 0,
            rule_drops: 0,
            program_drops: 0,
            program_reported: 0,
            program_faults: 0,
            program_ring_full: 0,
            held_drops: 0,
            queues: vec![QueueTally::default(); queues.into()],
            entries: Box::new([0; INDIRECTION_LEN]),
        }
    }
}

/// Frames for one queue that one core has received by its queue pair.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueTally {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) missed: u64,
}

impl QueueTally {
    /// It gets a frame.
    #[inline]
    pub(crate) fn add(&mut self, desc: &Desc) {
        (self.frames, self.bytes) = (self.frames + 1, self.bytes + u64::from(desc.len()));
    }

    /// It did not get a frame, which was added, for want of room.
    pub(crate) fn undo_add(&mut self, desc: &Desc) {
        (self.frames, self.bytes) = (self.frames - 1, self.bytes - u64::from(desc.len()));
        self.missed += 1;
    }
}

/// Numbers of a port beside those of its queues, and of a queue.
const OF_PORT: usize = 13;
const OF_QUEUE: usize = 3;

/// Counters and state that one core publishes of one port. Only the core writes numbers; a reader
/// may see some older than others.
#[derive(Debug)]
pub(crate) struct PublishedPort {
    numbers: Vec<AtomicU64>,
    /// Frames by entry of the indirection table.
    entries: Box<[AtomicU64]>,
    /// The queue pair is gone, and no new one is on its way.
    pub(crate) is_gone: AtomicBool,
    /// The queue pair is to be closed, for another of the port is gone.
    pub(crate) closes: AtomicBool,
    /// No frame will come, as far as this queue pair knows, and none waits to be sent.
    pub(crate) is_ended: AtomicBool,
    /// The state of RSS that this core spreads by, once no frame waits for the change to it
    /// (the one before meanwhile); 0 before it has looked for the first time.
    pub(crate) rss_state: AtomicU64,
    /// The last error at any of its queue pairs.
    pub(crate) error: Mutex<Option<String>>,
}

impl PublishedPort {
    pub(crate) fn new(queues: u16) -> PublishedPort {
        let count = OF_PORT + OF_QUEUE * usize::from(queues);
        PublishedPort {
            numbers: std::iter::repeat_with(AtomicU64::default).take(count).collect(),
            entries: (0..INDIRECTION_LEN).map(|_| AtomicU64::new(0)).collect(),
            is_gone: AtomicBool::new(false),
            closes: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
            rss_state: AtomicU64::new(0),
            error: Mutex::new(None),
        }
    }

    pub(crate) fn publish(&self, observed: &PortTally) {
        let (queue_pair, before) = (&observed.queue_pair, &observed.before);
        let of_port = [
            queue_pair.rx_frames + before.rx_frames,
            queue_pair.rx_bytes + before.rx_bytes,
            queue_pair.rx_missed + before.rx_missed,
            queue_pair.rx_partial_checksums + before.rx_partial_checksums,
            queue_pair.tx_frames + before.tx_frames,
            queue_pair.tx_bytes + before.tx_bytes,
            queue_pair.tx_dropped + before.tx_dropped + observed.tx_dropped,
            observed.rule_drops,
            observed.held_drops,
            observed.program_drops,
            observed.program_reported,
            observed.program_faults,
            observed.program_ring_full,
        ];
        let of_queues =
            observed.queues.iter().flat_map(|queue| [queue.frames, queue.bytes, queue.missed]);
        for (slot, value) in self.numbers.iter().zip(of_port.into_iter().chain(of_queues)) {
            slot.store(value, Ordering::Relaxed);
        }
        for (slot, value) in self.entries.iter().zip(observed.entries.iter()) {
            slot.store(*value, Ordering::Relaxed);
        }
    }

    /// Adds the frames by entry of the indirection table.
    pub(crate) fn add_entries(&self, to: &mut [u64; INDIRECTION_LEN]) {
        for (to, shown) in to.iter_mut().zip(&self.entries) {
            *to += shown.load(Ordering::Relaxed);
        }
    }

    /// Adds what is shown to a port's counters, which have as many queues.
    pub(crate) fn add_to(&self, port: &mut PortCounters) {
        let mut values = self.numbers.iter().map(|slot| slot.load(Ordering::Relaxed));
        let mut add = |to: &mut u64| *to += values.next().unwrap_or(0);
        add(&mut port.rx_frames);
        add(&mut port.rx_bytes);
        add(&mut port.rx_missed);
        add(&mut port.rx_partial_checksums);
        add(&mut port.tx_frames);
        add(&mut port.tx_bytes);
        add(&mut port.tx_dropped);
        add(&mut port.rule_drops);
        add(&mut port.held_drops);
        add(&mut port.program_drops);
        add(&mut port.program_reported);
        add(&mut port.program_faults);
        add(&mut port.program_ring_full);
        for queue in &mut port.queues {
            add(&mut queue.rx_frames);
            add(&mut queue.rx_bytes);
            add(&mut queue.rx_missed);
        }
    }
}

/// Adds what a queue pair counted to what the queue pairs before it did.
pub(crate) fn add_queue_pair(sum: &mut QueuePairCounters, queue_pair: &QueuePairCounters) {
    sum.rx_frames += queue_pair.rx_frames;
    sum.rx_bytes += queue_pair.rx_bytes;
    sum.rx_missed += queue_pair.rx_missed;
    sum.rx_partial_checksums += queue_pair.rx_partial_checksums;
    sum.tx_frames += queue_pair.tx_frames;
    sum.tx_bytes += queue_pair.tx_bytes;
    sum.tx_dropped += queue_pair.tx_dropped;
}

#[cfg(test)]
mod tests {
    use niclab_control::QueueCounters;

    use super::*;

    #[test]
    fn counters_of_cores_add_up() {
        let shown = PublishedPort::new(2);
        let queue_pair = QueuePairCounters {
            rx_frames: 1,
            rx_bytes: 2,
            rx_missed: 3,
            rx_partial_checksums: 18,
            tx_frames: 4,
            tx_bytes: 5,
            tx_dropped: 6,
        };
        let mut before = queue_pair;
        add_queue_pair(&mut before, &queue_pair);
        let queues = vec![QueueTally { frames: 8, bytes: 9, missed: 10 }; 2];
        let mut entries = Box::new([0; INDIRECTION_LEN]);
        entries[3] = 13;
        let observed = PortTally {
            queue_pair,
            before,
            tx_dropped: 7,
            rule_drops: 11,
            held_drops: 12,
            program_drops: 14,
            program_reported: 17,
            program_faults: 15,
            program_ring_full: 16,
            queues,
            entries,
        };
        shown.publish(&observed);
        let mut entries = [1; INDIRECTION_LEN];
        (0..2).for_each(|_| shown.add_entries(&mut entries));
        assert_eq!(entries[2..5], [1, 27, 1]);
        let queues = vec![QueueCounters::default(); 2];
        let mut port = PortCounters { queues, ..PortCounters::default() };
        (0..2).for_each(|_| shown.add_to(&mut port));
        let PortCounters { rx_frames, rx_bytes, rx_missed, tx_frames, tx_bytes, .. } = port;
        assert_eq!([rx_frames, rx_bytes, rx_missed, tx_frames, tx_bytes], [6, 12, 18, 24, 30]);
        assert_eq!(port.rx_partial_checksums, 6 * 18);
        let PortCounters { tx_dropped, rule_drops, held_drops, .. } = port;
        assert_eq!([tx_dropped, rule_drops, held_drops], [2 * (18 + 7), 22, 24]);
        let PortCounters { program_drops, program_reported, .. } = port;
        assert_eq!([program_drops, program_reported], [28, 34]);
        let PortCounters { program_faults, program_ring_full, .. } = port;
        assert_eq!([program_faults, program_ring_full], [30, 32]);
        let queue = QueueCounters { core: 0, rx_frames: 16, rx_bytes: 18, rx_missed: 20 };
        assert_eq!(port.queues, [queue; 2]);
    }
}
