//! What one load and one plan on one device showed.

use crate::Latency;
use serde::{Deserialize, Serialize};

/// What one load and one plan on one device showed.
///
/// Frames are counted from the first that was due after the warm-up to the last that was due within
/// the duration; a frame still under way at the end is waited for. Balance:
/// `planned = offered + unsent`, `offered = received + lost`, `rx_missed` is part of `lost`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Frames that were due.
    pub planned: u64,
    /// Frames that were offered to the device.
    pub offered: u64,
    /// Frames that were not offered in their slot: the generator's doing.
    pub unsent: u64,
    /// Frames that came back.
    pub received: u64,
    /// Bytes that were offered, with FCS.
    pub offered_bytes: u64,
    /// Bytes that came back, with FCS.
    pub received_bytes: u64,
    /// Frames offered that never came back.
    pub lost: u64,
    /// Of the lost: those that found the device's ring full.
    pub rx_missed: u64,
    /// Frames that came back behind a later one of their flow.
    pub reordered: u64,
    /// Frames that came back twice.
    pub duplicated: u64,
    /// Frames that came back damaged (signature or checksum).
    pub damaged: u64,
    /// Length of the measured part, nanoseconds.
    pub duration_ns: u64,
    /// From the planned departure to the sink.
    pub latency: Option<Latency>,
    /// From the actual departure to the sink (service time).
    pub service: Option<Latency>,
    /// Counters of the generator, per transmit queue.
    pub generator: PortCounters,
    /// Counters of the device; `None` where it has none.
    pub device: Option<PortCounters>,
    /// Counters of the sink, per receive queue.
    pub sink: PortCounters,
    /// Counts over time, in slices of equal length.
    pub slices: Vec<Slice>,
    /// How well the generator kept its promise.
    pub honesty: Honesty,
}

impl Observation {
    /// Compares the counters of generator, device and sink, and notes the verdict: every frame that
    /// was offered was received by the device or missed by it, everything it received it sent or
    /// dropped for a stated reason, and what it sent arrived.
    pub fn check_balance(&mut self) {
        let [generator, sink] = [&self.generator, &self.sink].map(PortCounters::total);
        let balanced = match &self.device {
            None => generator.tx_frames == sink.rx_frames + self.generator.rx_missed,
            Some(device) => {
                let total = device.total();
                let dropped = device.rule_drops + device.tx_dropped;
                generator.tx_frames == total.rx_frames + device.rx_missed
                    && total.rx_frames == total.tx_frames + dropped
                    && total.tx_frames == sink.rx_frames
                    && total.tx_bytes == sink.rx_bytes
                    && (device.rx_missed > 0 || generator.tx_bytes == total.rx_bytes)
            }
        };
        self.honesty.balanced = balanced;
        if !balanced {
            let device = self.device.as_ref().map(PortCounters::total);
            self.honesty.reasons.push(format!(
                "counters do not balance: generator {generator:?}, device {device:?}, sink {sink:?}"
            ));
        }
    }
}

impl PortCounters {
    /// The sum over all queues.
    pub fn total(&self) -> QueueCounters {
        self.queues.iter().fold(QueueCounters::default(), |a, b| QueueCounters {
            rx_frames: a.rx_frames + b.rx_frames,
            rx_bytes: a.rx_bytes + b.rx_bytes,
            tx_frames: a.tx_frames + b.tx_frames,
            tx_bytes: a.tx_bytes + b.tx_bytes,
        })
    }
}

/// Counters of one end of the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounters {
    /// One entry a queue.
    pub queues: Vec<QueueCounters>,
    /// Frames dropped because a rule said so.
    pub rule_drops: u64,
    /// Frames that found no room in the receive ring.
    pub rx_missed: u64,
    /// Frames that could not be sent for lack of room.
    pub tx_dropped: u64,
}

/// Counters of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueCounters {
    /// Frames received.
    pub rx_frames: u64,
    /// Bytes received, with FCS.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Bytes sent, with FCS.
    pub tx_bytes: u64,
}

/// What happened in one slice of the measured part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Start, nanoseconds after the start of the measured part.
    pub start_ns: u64,
    /// Frames that were due and offered in it.
    pub offered: u64,
    /// Frames that arrived in it.
    pub received: u64,
    /// Frames that were due in it and found the device's ring full.
    pub rx_missed: u64,
    /// Frames that were due in it and not offered.
    pub unsent: u64,
    /// A stall longer than the ring covers fell into it.
    pub disturbed: bool,
}

/// How well the generator kept its promise, and what disturbed the machine meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Honesty {
    /// Offered / planned.
    pub achieved_ratio: f64,
    /// Actual minus planned departure of each burst, nanoseconds.
    pub departure_error: Option<Latency>,
    /// Bursts that left later than the wire's depth covers.
    pub deadlines_missed: u64,
    /// Longest time between two polls of the sink: the resolution of the latency, nanoseconds.
    pub latency_resolution_ns: u64,
    /// Stalls of the generator's core.
    pub generator_stalls: Stalls,
    /// Stalls of the device's core; `None` where nobody watches it.
    pub device_stalls: Option<Stalls>,
    /// Share of the device's polls that found nothing to do, 0 to 1; under a saturating load more
    /// than a trace of it means that the generator was the limit.
    pub device_idle_ratio: Option<f64>,
    /// Generator, device and sink counted the same frames and bytes.
    pub balanced: bool,
    /// The generator, not the device, set the figures of this observation.
    pub generator_limited: bool,
    /// In words, what made it so.
    pub reasons: Vec<String>,
}

/// Gaps of the time-stamp counter longer than 10 microseconds: time in which a core did not run us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// How many.
    pub count: u64,
    /// Their sum, nanoseconds.
    pub total_ns: u64,
    /// The longest, nanoseconds.
    pub longest_ns: u64,
}
