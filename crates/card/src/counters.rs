//! The counters of a card: written by its cores, read by everybody.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use niclab_nic::limits::INDIRECTION_LEN;
use niclab_nic::memory::Desc;
use niclab_port::queue_pair::QueuePairCounters;

use crate::applications::ApplicationCounters;
use serde::{Deserialize, Serialize};

/// What a card has counted since it was started; bytes are without FCS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// By port.
    pub ports: Vec<PortCounters>,
    /// By core.
    pub cores: Vec<CoreCounters>,
    /// By application.
    #[serde(default)]
    pub applications: Vec<ApplicationCounters>,
    /// Texts of rules that were refused ([`Card::apply`](crate::Card::apply)).
    #[serde(default)]
    pub rule_texts_refused: u64,
}

impl Counters {
    /// Frames that all cores took from the ports.
    pub fn rx_frames(&self) -> u64 {
        self.cores.iter().map(|core| core.rx_frames).sum()
    }
}

/// What one core has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreCounters {
    /// Its number.
    pub core: u32,
    /// Frames that it took from its ports, however they were decided about.
    #[serde(default)]
    pub rx_frames: u64,
    /// Frames that the function on it has had.
    pub frames: u64,
    /// Processor time that it has taken, nanoseconds.
    pub cpu_ns: u64,
    /// Time of turns in which there was something to do, nanoseconds: what of its time it needs.
    pub busy_ns: u64,
}

/// Where a core shows its own counters.
#[derive(Debug, Default)]
pub(crate) struct CoreShown {
    pub(crate) rx_frames: AtomicU64,
    pub(crate) frames: AtomicU64,
    pub(crate) cpu_ns: AtomicU64,
    pub(crate) busy_ns: AtomicU64,
}

/// What one port has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounters {
    /// Its name.
    pub name: String,
    /// It is there: frames come and go.
    pub is_up: bool,
    /// Frames received.
    pub rx_frames: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames that the port had no room for, as far as it tells.
    pub rx_missed: u64,
    /// Frames received whose TCP or UDP checksum is not whole: the sender left it to a card. As far
    /// as the port tells: AF_PACKET does, AF_XDP does not, and a TAP interface has none.
    #[serde(default)]
    pub rx_partial_checksums: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames for this port that were dropped: it had no room, or was gone.
    pub tx_dropped: u64,
    /// Frames that came by this port and that a rule dropped.
    pub rule_drops: u64,
    /// Frames that came by this port and that a program dropped and told nobody of, or for which it
    /// had no way out: a port or queue that is not there; copies for a port that is not there, too.
    #[serde(default)]
    pub program_drops: u64,
    /// Frames that came by this port and went no further, and of which a program has written an
    /// entry of a ring: who reads the ring has them.
    #[serde(default)]
    pub program_told: u64,
    /// Frames that came by this port and could not go through the program: they end before a header
    /// that is taken off them, came round too often, have no room for headers, or would reach
    /// outside of the program's memory.
    #[serde(default)]
    pub program_faults: u64,
    /// Frames that came by this port and found a ring of the program full.
    #[serde(default)]
    pub program_ring_full: u64,
    /// Frames that came by this port, moved to another core by a change of RSS, and found no room
    /// among those that wait for the frames before them.
    pub held_drops: u64,
    /// Rules that the port has now.
    #[serde(default)]
    pub rules: u32,
    /// Rules that commands have created ([`Card::apply`](crate::Card::apply)).
    #[serde(default)]
    pub rules_created: u64,
    /// Rules whose actions commands have changed.
    #[serde(default)]
    pub rules_updated: u64,
    /// Rules that commands have destroyed.
    #[serde(default)]
    pub rules_destroyed: u64,
    /// Its queues.
    pub queues: Vec<QueueCounters>,
    /// Those of them that other processes serve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_queues: Vec<ExternalQueueCounters>,
}

/// What became of the frames of a queue that another process serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalQueueCounters {
    /// The queue.
    pub queue: u16,
    /// A client serves it.
    pub is_there: bool,
    /// Frames that clients got.
    pub given_frames: u64,
    /// Frames that were dropped: no client was there, or it had no slot for them.
    pub dropped: u64,
    /// Frames that clients sent.
    pub taken_frames: u64,
    /// Refused requests of the last client.
    pub refused: u64,
    /// Why the last client has gone.
    pub ended: Option<String>,
}

/// What one queue has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueCounters {
    /// The core that the function on it runs on, by its place among the card's.
    pub core: usize,
    /// Frames that it got.
    pub rx_frames: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames that found the ring to its core full.
    pub rx_missed: u64,
}

/// What one core has seen of one port.
#[derive(Clone, Debug)]
pub(crate) struct PortTally {
    pub(crate) queue_pair: QueuePairCounters,
    /// Counts of queue pairs that are gone.
    pub(crate) before: QueuePairCounters,
    pub(crate) tx_dropped: u64,
    pub(crate) rule_drops: u64,
    pub(crate) program_drops: u64,
    pub(crate) program_told: u64,
    pub(crate) program_faults: u64,
    pub(crate) program_ring_full: u64,
    pub(crate) held_drops: u64,
    pub(crate) queues: Vec<QueueSeen>,
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
            program_told: 0,
            program_faults: 0,
            program_ring_full: 0,
            held_drops: 0,
            queues: vec![QueueSeen::default(); queues.into()],
            entries: Box::new([0; INDIRECTION_LEN]),
        }
    }
}

/// Frames for one queue that one core has received by its queue pair.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueSeen {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) missed: u64,
}

impl QueueSeen {
    /// It gets a frame.
    #[inline]
    pub(crate) fn add(&mut self, desc: &Desc) {
        (self.frames, self.bytes) = (self.frames + 1, self.bytes + u64::from(desc.len()));
    }

    /// It did not get a frame, which was added, for want of room.
    pub(crate) fn miss(&mut self, desc: &Desc) {
        (self.frames, self.bytes) = (self.frames - 1, self.bytes - u64::from(desc.len()));
        self.missed += 1;
    }
}

/// Numbers of a port beside those of its queues, and of a queue.
const OF_PORT: usize = 13;
const OF_QUEUE: usize = 3;

/// Where one core shows what it has seen of one port, and how its queue pair does. The core alone
/// writes numbers; who reads may see some older than others.
#[derive(Debug)]
pub(crate) struct Shown {
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
    pub(crate) followed: AtomicU64,
    /// The last error at any of its queue pairs.
    pub(crate) trouble: Mutex<Option<String>>,
}

impl Shown {
    pub(crate) fn new(queues: u16) -> Shown {
        let count = OF_PORT + OF_QUEUE * usize::from(queues);
        Shown {
            numbers: std::iter::repeat_with(AtomicU64::default).take(count).collect(),
            entries: (0..INDIRECTION_LEN).map(|_| AtomicU64::new(0)).collect(),
            is_gone: AtomicBool::new(false),
            closes: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
            followed: AtomicU64::new(0),
            trouble: Mutex::new(None),
        }
    }

    pub(crate) fn show(&self, seen: &PortTally) {
        let (queue_pair, before) = (&seen.queue_pair, &seen.before);
        let of_port = [
            queue_pair.rx_frames + before.rx_frames,
            queue_pair.rx_bytes + before.rx_bytes,
            queue_pair.rx_missed + before.rx_missed,
            queue_pair.rx_partial_checksums + before.rx_partial_checksums,
            queue_pair.tx_frames + before.tx_frames,
            queue_pair.tx_bytes + before.tx_bytes,
            queue_pair.tx_dropped + before.tx_dropped + seen.tx_dropped,
            seen.rule_drops,
            seen.held_drops,
            seen.program_drops,
            seen.program_told,
            seen.program_faults,
            seen.program_ring_full,
        ];
        let of_queues =
            seen.queues.iter().flat_map(|queue| [queue.frames, queue.bytes, queue.missed]);
        for (slot, value) in self.numbers.iter().zip(of_port.into_iter().chain(of_queues)) {
            slot.store(value, Ordering::Relaxed);
        }
        for (slot, value) in self.entries.iter().zip(seen.entries.iter()) {
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
        add(&mut port.program_told);
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
    use super::*;

    #[test]
    fn counters_of_cores_add_up() {
        let shown = Shown::new(2);
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
        let queues = vec![QueueSeen { frames: 8, bytes: 9, missed: 10 }; 2];
        let mut entries = Box::new([0; INDIRECTION_LEN]);
        entries[3] = 13;
        let seen = PortTally {
            queue_pair,
            before,
            tx_dropped: 7,
            rule_drops: 11,
            held_drops: 12,
            program_drops: 14,
            program_told: 17,
            program_faults: 15,
            program_ring_full: 16,
            queues,
            entries,
        };
        shown.show(&seen);
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
        let PortCounters { program_drops, program_told, .. } = port;
        assert_eq!([program_drops, program_told], [28, 34]);
        let PortCounters { program_faults, program_ring_full, .. } = port;
        assert_eq!([program_faults, program_ring_full], [30, 32]);
        let queue = QueueCounters { core: 0, rx_frames: 16, rx_bytes: 18, rx_missed: 20 };
        assert_eq!(port.queues, [queue; 2]);
    }
}
