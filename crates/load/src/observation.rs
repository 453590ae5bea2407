//! The observation of one load and one plan on one device.

use std::collections::BTreeMap;

use crate::Latency;
use niclab_packet::timestamp::TimestampClock;
use serde::{Deserialize, Serialize};

/// The observation of one load and one plan on one device.
///
/// Frames are counted from the first that was due after the warm-up to the last that was due within
/// the duration, but for [`foreign`](LoadObservation::foreign) ones and the counters of the three
/// ends, which are of the whole trial; a frame still under way at the end is waited for. Balance:
/// `planned = offered + unsent`, `offered = received + dropped + lost`, `rx_missed` is part of
/// `lost`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadObservation {
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
    /// Frames offered that a rule of the device dropped, as it was told: no loss. Known where the
    /// device counts them and nothing else can have taken a frame, see
    /// [`balance`](LoadObservation::balance).
    #[serde(default)]
    pub dropped: u64,
    /// Frames offered that never came back, the dropped ones apart.
    pub lost: u64,
    /// Lost frames that came back after the end of the trial.
    #[serde(default)]
    pub late: u64,
    /// Lost frames that found the device's ring full.
    pub rx_missed: u64,
    /// Frames that came back behind a later one of their flow.
    pub reordered: u64,
    /// Frames that came back twice.
    pub duplicated: u64,
    /// Frames that came back and had their checksums looked at: a sample of them, second copies
    /// included. 0 where frames left with checksums that need not be right, such as a capture's.
    #[serde(default)]
    pub checked: u64,
    /// Checked frames with a wrong checksum.
    pub damaged: u64,
    /// Frames at the sink that bear no stamp of ours: others', or ours with the stamp destroyed.
    /// Of the whole trial, warm-up included: when they were due is not known.
    #[serde(default)]
    pub foreign: u64,
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
    /// For each flow, planned departure of the latest of its frames that came back, nanoseconds
    /// after the start of the measured part; `None` where none did. Empty where there are more
    /// flows than [`FLOWS_PROBED_MAX`](crate::FLOWS_PROBED_MAX).
    #[serde(default)]
    pub latest_ns: Vec<Option<u64>>,
    /// The operations of the control side; `None` without a plan.
    #[serde(default)]
    pub control: Option<Control>,
    /// Frames of the whole trial that one core received and another one forwarded; `None` where
    /// nobody counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crossed: Option<u64>,
    /// Frames of the whole trial that the engine of the software card took; `None` of other
    /// devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_frames: Option<u64>,
    /// Changes of RSS during the load, where there were any or may have been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_changes: Option<RssChanges>,
    /// How well the generator kept its promise.
    pub honesty: Honesty,
    /// Times of some frames by the time stamps of the tester's port, where it was asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamped: Option<StampedFrames>,
}

/// Times of sampled frames of the measured part: by the time stamps of the tester's port, and by
/// niclab's clock beside them. Both are of the frames that the port stamped when they left and when
/// they were back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StampedFrames {
    /// The clock of the stamps.
    pub by: TimestampClock,
    /// Frames that were sent with a request for a stamp.
    pub asked: u64,
    /// From the stamp of the sent frame to the stamp of the received one.
    pub port: Latency,
    /// The same frames by niclab's clock: from the call that sent a frame until niclab had it back.
    pub program: Latency,
    /// Frames whose time by stamps was negative, or longer than niclab's: the clock was set.
    pub implausible: u64,
    /// The smallest difference between two times by stamps, nanoseconds; `None` of few frames.
    pub resolution_ns: Option<u64>,
    /// Mean time of the generator's core for such a frame, nanoseconds: the call that sends it, the
    /// request for its stamp and the answer.
    pub cost_ns: u64,
}

/// Changes of RSS while frames flow, and the work of the cores meanwhile.
/// Times are nanoseconds after the start of the measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RssChanges {
    /// Changes that were asked for and carried out.
    pub changes: u64,
    /// From the call of each, and from each answer, until the new state was seen to hold for every
    /// frame.
    pub settled: Option<Latency>,
    /// Time between two looks at whether it does, on average: nothing was seen sooner.
    #[serde(default)]
    pub look_ns: u64,
    /// Frames that were dropped while they waited for those of their flow that came before.
    pub held_drops: u64,
    /// Reactions of the device.
    pub answers: Vec<QueueReaction>,
    /// Length of the stretches that cores were looked at for, nanoseconds.
    pub stretch_ns: u64,
    /// By core: processor time in each of them, nanoseconds.
    pub cpu_ns: Vec<Vec<u64>>,
    /// By core: frames that its function dealt with in each of them.
    pub frames: Vec<Vec<u64>>,
}

/// One thing that a device did about a queue that filled, or about a core that was not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueReaction {
    /// When.
    pub at_ns: u64,
    /// Entries of its table that name another queue from then on; `None` where it took another key.
    pub moved_entries: Option<u64>,
}

impl LoadObservation {
    /// Lays the counters of generator, device and sink side by side and says in the honesty record
    /// whether they agree: every frame that was offered was received by the device or missed by it,
    /// everything it received it sent or dropped for a stated reason, and what it sent arrived.
    ///
    /// `sink_missed` frames reached the tester and found its ring full: the tester's fault, not the
    /// device's. Without the device's counters there is nothing to compare.
    ///
    /// The device counts what its rules dropped over the whole trial. Where it did drop some, and
    /// neither its transmit side nor the sink lost a frame, all that are lost of the measured part
    /// and were neither missed nor late are [`dropped`](LoadObservation::dropped) ones.
    ///
    /// Rules may change the length of frames: bytes that differ where the device took them in are
    /// a reason in words alone, as long as frames agree and the sink has the bytes that were sent
    /// back.
    pub fn balance(&mut self, sink_missed: u64) {
        let Some(device) = &self.device else { return };
        self.sink.rx_missed = sink_missed;
        let [generator, function, sink] =
            [&self.generator, device, &self.sink].map(PortCounters::total);
        let missed = device.rx_missed;
        let left = function.tx_frames + device.tx_dropped + device.rule_drops;
        let back = sink.rx_frames + sink_missed;
        // Of a frame that was missed, or dropped by a rule, the length is not known.
        let whole = |bytes: (u64, u64), missed| if missed == 0 { bytes } else { (0, 0) };
        let bytes_there =
            whole((generator.tx_bytes, function.rx_bytes), missed + device.rule_drops);
        let bytes_back = whole((function.tx_bytes, sink.rx_bytes), sink_missed);
        let frames = [
            (
                "frames offered and at the device",
                (generator.tx_frames, function.rx_frames + missed),
            ),
            ("frames taken and sent back or dropped", (function.rx_frames, left)),
            ("frames sent back and at the sink", (function.tx_frames, back)),
        ];
        let bytes = [
            ("bytes offered and at the device", bytes_there),
            ("bytes sent back and at the sink", bytes_back),
        ];
        let is_even = |(_, (a, b)): &(&str, (u64, u64))| a == b;
        let frames_agree = frames.iter().all(is_even);
        let honesty = &mut self.honesty;
        honesty.balanced = frames_agree && is_even(&bytes[1]);
        let unequal = frames.iter().chain(&bytes).filter(|pair| !is_even(pair));
        let reason = |(what, (a, b)): &(&str, (u64, u64))| format!("{what}: {a} against {b}");
        honesty.reasons.extend(unequal.map(reason));
        if honesty.balanced && !is_even(&bytes[0]) {
            honesty.reasons.push("frames agree: rules changed the length of some".to_owned());
        }
        if frames_agree && sink_missed == 0 {
            self.count_dropped();
        }
        if sink_missed > 0 {
            let honesty = &mut self.honesty;
            honesty.tester_limited = true;
            let reason = format!("{sink_missed} frames came back and found the sink's ring full");
            honesty.reasons.push(reason);
        }
    }
}

impl LoadObservation {
    /// Counts frames of the measured part that did not come back as dropped by a rule, as many as
    /// the device's rules dropped, unless something else can have taken them.
    pub fn count_dropped(&mut self) {
        let Some(device) = self.device.as_ref().filter(|device| device.tx_dropped == 0) else {
            return;
        };
        let others = (self.rx_missed + self.late).min(self.lost);
        self.dropped = (self.lost - others).min(device.rule_drops);
        self.lost -= self.dropped;
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
            rx_missed: a.rx_missed + b.rx_missed,
        })
    }

    /// Adds what another core counted at the same end, which has as many queues.
    pub fn add(&mut self, other: &PortCounters) {
        for (queue, more) in self.queues.iter_mut().zip(&other.queues) {
            queue.rx_frames += more.rx_frames;
            queue.rx_bytes += more.rx_bytes;
            queue.tx_frames += more.tx_frames;
            queue.tx_bytes += more.tx_bytes;
            queue.rx_missed += more.rx_missed;
        }
        self.rule_drops += other.rule_drops;
        self.rx_missed += other.rx_missed;
        self.tx_dropped += other.tx_dropped;
    }
}

/// The operations of the control side during the load. Times are nanoseconds after the start of the
/// measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// Operations that were planned.
    pub planned: u64,
    /// Operations that were carried out.
    pub done: u64,
    /// Operations that the device refused; with the done ones fewer than planned where the measured
    /// part ended first.
    pub refused: u64,
    /// The reason of the first of them.
    pub refusal: Option<String>,
    /// When the first operation began, or was due where each has a moment of its own; none begins
    /// behind the end of the measured part.
    pub begun_ns: Option<u64>,
    /// When the last operation had ended; `None` where the measured part ended before it began.
    pub ended_ns: Option<u64>,
    /// Time that the core spent on operations, what went into making their arguments included.
    pub busy_ns: u64,
    /// Time of it in calls.
    #[serde(default)]
    pub calls_ns: u64,
    /// How long each call took, the first apart; a call through a queue is of many operations.
    pub calls: Option<Latency>,
    /// How long the first call took: memory and code are cold.
    #[serde(default)]
    pub first_call_ns: Option<u64>,
    /// When each operation began, from the start of the measured part on, where each had a moment
    /// of its own; the first [`FLOWS_PROBED_MAX`](crate::FLOWS_PROBED_MAX) of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each_begun_ns: Vec<u64>,
    /// From the moment at which each operation was due until it was done, where each has a moment
    /// of its own.
    #[serde(default)]
    pub late: Option<Latency>,
    /// From the moment at which the core that forwards asked for an operation until the control
    /// core took it up, where the two are not the same and each operation has a moment of its own.
    #[serde(default)]
    pub waited: Option<Latency>,
    /// How the rules that were created went again, where that was asked for.
    #[serde(default)]
    pub destroyed: Option<Box<Control>>,
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
    /// Counters of the driver, by its own names, over the whole trial; zero counts are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub statistics: BTreeMap<String, u64>,
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
    /// Frames that found no room in the ring of this queue; part of the port's.
    #[serde(default)]
    pub rx_missed: u64,
}

/// Counts of one slice of the measured part.
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
    /// A stall longer than the ring covers, or than half a slice, fell into it.
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
    /// Share of its time, stalls apart, in which the device's core had nothing to do, 0 to 1; under
    /// a saturating load more than a trace of it means that the generator was the limit.
    pub device_idle_ratio: Option<f64>,
    /// Time of the measured part in which the device's core had frames to work on, stalls apart,
    /// nanoseconds.
    #[serde(default)]
    pub device_busy_ns: Option<u64>,
    /// Generator, device and sink counted the same frames and bytes.
    pub balanced: bool,
    /// The tester's rings or a device without work show that the tester, not the device, set the
    /// figures of this observation. How many frames were not sent in time is another question:
    /// [`achieved_ratio`](Honesty::achieved_ratio), and [`Slice::unsent`] over time.
    pub tester_limited: bool,
    /// A stall of the device's core that is not longer does no harm, nanoseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub covered_ns: u64,
    /// How well the clocks of tester and device agree, where those are two hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignment: Option<Alignment>,
    /// In words, what is to be said of tester and counters: also frames that were not sent in time.
    pub reasons: Vec<String>,
}

fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

/// The difference of the clocks of two hosts. Times of the device's plan are off by its error
/// against times of the tester's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alignment {
    /// What it comes from.
    pub by: AlignmentBy,
    /// The device's clock less the tester's, nanoseconds.
    pub offset_ns: i64,
    /// It is at most so much more or less, nanoseconds.
    pub error_ns: u64,
}

/// What two clocks were compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlignmentBy {
    /// Frames between the two ports.
    Markers,
    /// The connections to both hosts: no marker came back.
    Connections,
}

impl Alignment {
    /// A time of the tester's clock by the device's.
    pub fn to_device(self, tester_ns: u64) -> u64 {
        tester_ns.saturating_add_signed(self.offset_ns)
    }

    /// A time of the device's clock by the tester's.
    pub fn to_tester(self, device_ns: u64) -> u64 {
        device_ns.saturating_add_signed(self.offset_ns.saturating_neg())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(rx_frames: u64, tx_frames: u64) -> PortCounters {
        let (rx_bytes, tx_bytes) = (64 * rx_frames, 64 * tx_frames);
        let queue = QueueCounters { rx_frames, rx_bytes, tx_frames, tx_bytes, rx_missed: 0 };
        PortCounters { queues: vec![queue], ..PortCounters::default() }
    }

    fn observation(left: u64, device: (u64, u64), sunk: u64) -> LoadObservation {
        LoadObservation {
            generator: counters(0, left),
            device: Some(counters(device.0, device.1)),
            sink: counters(sunk, 0),
            ..LoadObservation::default()
        }
    }

    #[test]
    fn equal_counters_balance_and_each_difference_is_named() {
        let mut good = observation(100, (100, 100), 100);
        good.balance(0);
        assert!(good.honesty.balanced);
        assert_eq!(good.honesty.reasons, Vec::<String>::new());

        let mut bad = observation(100, (99, 99), 98);
        bad.balance(0);
        assert!(!bad.honesty.balanced);
        assert_eq!(
            bad.honesty.reasons,
            [
                "frames offered and at the device: 100 against 99",
                "frames sent back and at the sink: 99 against 98",
                "bytes offered and at the device: 6400 against 6336",
                "bytes sent back and at the sink: 6336 against 6272",
            ]
        );
    }

    #[test]
    fn frames_missed_by_the_device_balance_and_frames_missed_by_the_sink_are_the_testers() {
        let mut observation = observation(100, (90, 90), 85);
        observation.device.as_mut().unwrap().rx_missed = 10;
        observation.balance(5);
        assert!(observation.honesty.balanced && observation.honesty.tester_limited);
        let reason = "5 frames came back and found the sink's ring full";
        assert_eq!(observation.honesty.reasons, [reason]);
    }

    #[test]
    fn frames_that_a_rule_dropped_balance() {
        let mut observation = observation(100, (100, 70), 70);
        observation.device.as_mut().unwrap().rule_drops = 30;
        observation.balance(0);
        assert!(observation.honesty.balanced, "{:?}", observation.honesty.reasons);
    }

    /// A trial whose measured part saw 20 frames vanish, 5 of which found the ring full; rules
    /// dropped 30 in all.
    fn with_drops() -> LoadObservation {
        let mut observation = observation(105, (100, 70), 70);
        observation.device.as_mut().unwrap().rule_drops = 30;
        observation.device.as_mut().unwrap().rx_missed = 5;
        LoadObservation { offered: 80, received: 60, lost: 20, rx_missed: 5, ..observation }
    }

    #[test]
    fn frames_dropped_by_a_rule_are_no_loss() {
        let mut observed = with_drops();
        observed.balance(0);
        assert!(observed.honesty.balanced, "{:?}", observed.honesty.reasons);
        assert_eq!((observed.dropped, observed.lost), (15, 5));
        // Of 20 that vanished 4 came back when the trial had ended.
        let mut observed = LoadObservation { late: 4, ..with_drops() };
        observed.balance(0);
        assert_eq!((observed.dropped, observed.lost), (11, 9), "late frames stay lost");
    }

    #[test]
    fn rules_that_change_the_length_of_frames_are_a_reason_and_no_imbalance() {
        let longer = |counters: &mut PortCounters| {
            counters.queues[0].rx_bytes += 40;
            counters.queues[0].tx_bytes += 40;
        };
        let mut observed = with_drops();
        observed.device.as_mut().map(longer);
        longer(&mut observed.sink);
        observed.device.as_mut().unwrap().rx_missed = 5;
        observed.balance(0);
        assert_eq!((observed.dropped, observed.lost), (15, 5));
        let mut whole = observation(100, (100, 100), 100);
        whole.device.as_mut().map(longer);
        longer(&mut whole.sink);
        whole.balance(0);
        assert!(whole.honesty.balanced, "{:?}", whole.honesty.reasons);
        let message = "frames agree: rules changed the length of some";
        assert_eq!(whole.honesty.reasons.last().map(String::as_str), Some(message));
        whole.sink.queues[0].rx_bytes -= 1;
        whole.balance(0);
        assert!(!whole.honesty.balanced, "the wire lost a byte");
    }

    #[test]
    fn frames_are_lost_if_another_receiver_may_have_taken_them() {
        let refuse = |what: &str, change: fn(&mut LoadObservation), sink_missed| {
            let mut observed = with_drops();
            change(&mut observed);
            observed.balance(sink_missed);
            assert_eq!((observed.dropped, observed.lost), (0, 20), "{what}");
        };
        refuse("no room to send", |o| o.device.as_mut().unwrap().tx_dropped = 1, 0);
        refuse("the sink's ring", |_| (), 1);
        refuse("counters that differ", |o| o.generator.queues[0].tx_frames += 1, 0);
        refuse("no rule that drops", |o| o.device.as_mut().unwrap().rule_drops = 0, 0);
    }

    #[test]
    fn the_counters_of_two_cores_add_up() {
        let mut sum = counters(1, 2);
        let more = PortCounters { rule_drops: 4, rx_missed: 5, ..counters(10, 20) };
        sum.add(&more);
        let want = PortCounters { rule_drops: 4, rx_missed: 5, ..counters(11, 22) };
        assert_eq!(sum, want);
    }
}
