//! The sink: receives frames and records order, latency and damage.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use niclab_packet::stack::walk;

use crate::histogram::Latency;
use crate::observation::QueueCounters;
use crate::rings::{BURST, Inlet};
use crate::stamp::Stamp;
use niclab_packet::size::FCS_LEN;

/// One frame in so many has its checksums verified.
const VERIFY_EVERY: u64 = 64;

/// Most flows of which it is kept when each was last seen.
pub const FLOWS_PROBED_MAX: u32 = 4_096;

/// Which frames of a trial are counted, by their planned departure in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct CountedInterval {
    /// First counted.
    pub from_ns: u64,
    /// First not counted any more.
    pub to_ns: u64,
}

impl CountedInterval {
    /// Whether a frame planned for then is counted.
    #[inline]
    pub fn holds(self, planned_ns: u64) -> bool {
        planned_ns.wrapping_sub(self.from_ns) < self.to_ns - self.from_ns
    }
}

/// The counts of a sink.
pub struct Sink {
    counted: CountedInterval,
    verifies: bool,
    orders: FlowHistories,
    /// Planned departure of the latest frame of each flow, plus one, where flows are few.
    latest: Vec<u64>,
    /// Frames and bytes of the whole trial, warm-up included.
    pub counters: QueueCounters,
    /// Counted frames.
    pub received: u64,
    /// Bytes of counted frames, with FCS.
    pub received_bytes: u64,
    /// Counted frames behind a later one of their flow.
    pub reordered: u64,
    /// Counted frames seen twice.
    pub duplicated: u64,
    /// Counted frames whose checksums were looked at, second copies included.
    pub checked: u64,
    /// Checked frames with a wrong checksum.
    pub damaged: u64,
    /// Frames of the whole trial, warm-up included, that bear no stamp of ours: when they were due
    /// is not known.
    pub foreign: u64,
    /// From the planned departure.
    pub latency: Latency,
    /// From the actual departure.
    pub service: Latency,
    /// Latency and service time of the latest frame, and how often in a row they were seen.
    last: ((u64, u64), u64),
}

/// The latest frames of one flow.
#[derive(Clone, Copy, Default)]
struct FlowHistory {
    /// Sequence number expected next.
    next: u32,
    /// Bit i: `next - 1 - i` was seen.
    seen: u32,
}

/// The position of a frame in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SequencePosition {
    InOrder,
    Late,
    Again,
}

impl FlowHistory {
    fn of(word: u64) -> FlowHistory {
        FlowHistory { next: (word >> 32) as u32, seen: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.next) << 32 | u64::from(self.seen)
    }

    /// Notes a frame. Later than 32 frames behind the newest a second copy counts as late.
    #[inline]
    fn note(&mut self, sequence: u32) -> SequencePosition {
        let ahead = sequence.wrapping_sub(self.next) as i32;
        if ahead >= 0 {
            let shift = ahead as u32 + 1;
            self.seen = self.seen.checked_shl(shift).unwrap_or(0) | 1;
            self.next = sequence.wrapping_add(1);
            return SequencePosition::InOrder;
        }
        let bit = 1u32.checked_shl(!ahead as u32).unwrap_or(0);
        let again = self.seen & bit != 0;
        self.seen |= bit;
        if again { SequencePosition::Again } else { SequencePosition::Late }
    }
}

/// The latest frames of each flow, a word for each.
#[derive(Clone)]
struct FlowHistories {
    words: Arc<[AtomicU64]>,
    /// Several sinks note frames here.
    is_shared: bool,
}

impl FlowHistories {
    fn new(flows: usize) -> FlowHistories {
        FlowHistories { words: (0..flows).map(|_| AtomicU64::new(0)).collect(), is_shared: false }
    }

    fn len(&self) -> usize {
        self.words.len()
    }

    /// Notes a frame of a flow.
    #[inline]
    fn note(&self, flow: usize, sequence: u32) -> SequencePosition {
        let word = &self.words[flow];
        let mut before = word.load(Ordering::Relaxed);
        loop {
            let mut order = FlowHistory::of(before);
            let place = order.note(sequence);
            if !self.is_shared {
                word.store(order.word(), Ordering::Relaxed);
                return place;
            }
            // A frame that left before another one did, by whatever core, is noted before it.
            let noted = word.compare_exchange_weak(
                before,
                order.word(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            match noted {
                Ok(_) => return place,
                Err(now) => before = now,
            }
        }
    }
}

impl Sink {
    /// A sink for `flows` flows; it looks at checksums where frames left with right ones.
    pub fn new(flows: u32, verifies: bool, counted: CountedInterval) -> Sink {
        Sink {
            counted,
            verifies,
            orders: FlowHistories::new(flows as usize),
            latest: vec![0; if flows <= FLOWS_PROBED_MAX { flows as usize } else { 0 }],
            counters: QueueCounters::default(),
            received: 0,
            received_bytes: 0,
            reordered: 0,
            duplicated: 0,
            checked: 0,
            damaged: 0,
            foreign: 0,
            latency: Latency::new(),
            service: Latency::new(),
            last: ((0, 0), 0),
        }
    }

    /// Judges the order of frames by those that another sink of the same trial takes, too: for
    /// flows whose frames come to both.
    pub fn share_order(&mut self, with: &mut Sink) {
        with.orders.is_shared = true;
        self.orders = with.orders.clone();
    }

    /// Takes the frames of a poll at `now_ns` after the start of the trial; says how many count.
    ///
    /// Step by step over the burst, so that the processor fetches many flows' records at once.
    #[inline]
    pub fn take(&mut self, inlet: &impl Inlet, found: usize, now_ns: u64) -> u64 {
        let mut arrivals = [ReceivedFrame::default(); BURST];
        let mut ours = 0;
        for i in 0..found.min(BURST) {
            let frame = inlet.frame(i);
            match Stamp::of_frame(frame).filter(|s| (s.flow as usize) < self.orders.len()) {
                Some(stamp) => {
                    let bytes = frame.len() as u64 + u64::from(FCS_LEN);
                    arrivals[ours] =
                        ReceivedFrame { stamp, bytes, place: SequencePosition::InOrder };
                    ours += 1;
                    self.count(frame, bytes, stamp.planned_ns);
                }
                None => self.foreign += 1,
            }
        }
        let arrivals = &mut arrivals[..ours];
        for ReceivedFrame { stamp, place, .. } in arrivals.iter_mut() {
            *place = self.orders.note(stamp.flow as usize, stamp.sequence);
        }
        let before = self.received;
        arrivals.iter().for_each(|arrival| self.judge(arrival, now_ns));
        self.received - before
    }

    #[inline]
    fn count(&mut self, frame: &[u8], bytes: u64, planned_ns: u64) {
        self.counters.rx_frames += 1;
        self.counters.rx_bytes += bytes;
        let looked_at = self.verifies && self.counters.rx_frames.is_multiple_of(VERIFY_EVERY);
        if looked_at && self.counted.holds(planned_ns) {
            self.checked += 1;
            self.damaged += u64::from(!whole(frame));
        }
    }

    #[inline]
    fn judge(&mut self, arrival: &ReceivedFrame, now_ns: u64) {
        let ReceivedFrame { stamp, bytes, place } = arrival;
        if !self.counted.holds(stamp.planned_ns) {
            return;
        }
        if *place == SequencePosition::Again {
            self.duplicated += 1;
            return;
        }
        self.received += 1;
        self.received_bytes += bytes;
        if let Some(latest) = self.latest.get_mut(stamp.flow as usize) {
            *latest = (stamp.planned_ns + 1).max(*latest);
        }
        self.reordered += u64::from(*place == SequencePosition::Late);
        let latency_ns = now_ns.saturating_sub(stamp.planned_ns);
        let service_ns = latency_ns.saturating_sub(stamp.late_ns);
        if (latency_ns, service_ns) != self.last.0 {
            self.flush();
            self.last = ((latency_ns, service_ns), 0);
        }
        self.last.1 += 1;
    }

    /// Adds what another sink of the same trial saw, but for its counters and the flows' latest
    /// frames: those are of each sink.
    pub fn add(&mut self, other: &Sink) {
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.reordered += other.reordered;
        self.duplicated += other.duplicated;
        self.checked += other.checked;
        self.damaged += other.damaged;
        self.foreign += other.foreign;
        for (sum, of_other) in
            [(&mut self.latency, &other.latency), (&mut self.service, &other.service)]
        {
            // They are made with the same bounds.
            let _ = sum.0.add(&of_other.0);
        }
    }

    /// Planned departure of the latest counted frame of each flow, after the first that counts;
    /// empty where flows are many.
    pub fn latest(&self) -> Vec<Option<u64>> {
        let since = |latest: &u64| Some(latest.checked_sub(1)? - self.counted.from_ns);
        self.latest.iter().map(since).collect()
    }

    /// Enters the latest latency and service time into their histograms, as often as they were seen
    /// in a row: frames of one burst often share them.
    pub fn flush(&mut self) {
        let ((latency_ns, service_ns), count) = self.last;
        self.latency.record_n(latency_ns, count);
        self.service.record_n(service_ns, count);
        self.last.1 = 0;
    }
}

/// A frame of ours that came back.
#[derive(Clone, Copy)]
struct ReceivedFrame {
    stamp: Stamp,
    /// With FCS.
    bytes: u64,
    place: SequencePosition,
}

impl Default for ReceivedFrame {
    fn default() -> ReceivedFrame {
        let stamp = Stamp { flow: 0, sequence: 0, planned_ns: 0, late_ns: 0 };
        ReceivedFrame { stamp, bytes: 0, place: SequencePosition::InOrder }
    }
}

/// Whether every checksum of a frame holds.
fn whole(frame: &[u8]) -> bool {
    walk(frame).checksum_errors().is_empty()
}

#[cfg(test)]
mod tests {
    use niclab_packet::flow::{FlowSet, FlowSpec};
    use niclab_packet::size::FrameSizes;

    use super::*;
    use crate::spec::{Arrivals, Load, Rate};
    use crate::tape::{FlowSequence, FlowTape, Tape};

    /// A burst that lies there.
    struct Polled(Vec<Vec<u8>>);

    impl Inlet for Polled {
        fn poll(&mut self) -> usize {
            self.0.len()
        }

        fn frame(&self, i: usize) -> &[u8] {
            &self.0[i]
        }

        fn release(&mut self) {}
    }

    /// Frames 0 to 639, frame k due at k ns, with a bit of the destination address changed.
    fn damaged_bursts() -> Vec<Polled> {
        let load = Load {
            flows: FlowSpec { count: 100, ..FlowSpec::default() },
            sizes: FrameSizes::Fixed(128),
            rate: Rate::Saturate,
            arrivals: Arrivals::Constant,
            duration_ns: 1,
            warmup_ns: 0,
            seed: 1,
            trace: None,
        };
        let set = FlowSet::new(&load.flows).unwrap();
        let picks = FlowSequence::Drawn(set.picker(load.seed));
        let mut tape = FlowTape::<12>::new(&load, &set, picks).unwrap();
        let mut frame = |k: usize| {
            let mut slot = vec![0; 128];
            let len = tape.write(&mut slot, k as u64, 0);
            slot.truncate(len.into());
            slot[30] ^= 1;
            slot
        };
        let burst = |b| Polled((0..BURST).map(|i| frame(b * BURST + i)).collect());
        (0..10).map(burst).collect()
    }

    #[test]
    fn damaged_frames_are_counted_only_in_the_measured_part() {
        let mut sink = Sink::new(100, true, CountedInterval { from_ns: 320, to_ns: 640 });
        for burst in &damaged_bursts() {
            for _copy in 0..2 {
                sink.take(burst, BURST, 1_000);
            }
        }
        let foreign = Polled(vec![vec![0; 60]]);
        sink.take(&foreign, 1, 1_000);
        assert_eq!((sink.counters.rx_frames, sink.received), (1_280, 320));
        assert_eq!(sink.duplicated, 320, "the copies of the warm-up do not count");
        // Bursts 5 to 9, both copies, one frame each.
        assert_eq!((sink.checked, sink.damaged, sink.foreign), (10, 10, 1));
    }

    fn places(sequences: &[u32]) -> Vec<SequencePosition> {
        let mut order = FlowHistory::default();
        sequences.iter().map(|&s| order.note(s)).collect()
    }

    #[test]
    fn order_late_and_again_are_told_apart() {
        use SequencePosition::{Again, InOrder, Late};
        assert_eq!(places(&[0, 1, 2]), [InOrder; 3]);
        assert_eq!(places(&[0, 2, 1, 1, 2, 3]), [InOrder, InOrder, Late, Again, Again, InOrder]);
        assert_eq!(places(&[40, 8, 9, 9, 40]), [InOrder, Late, Late, Again, Again]);
        assert_eq!(places(&[0, u32::MAX]), [InOrder, Late]);
    }

    #[test]
    fn sinks_that_share_their_order_see_a_flow_that_moves_between_them() {
        let burst = |k: usize| Polled(vec![damaged_bursts()[0].0[k].clone()]);
        let counted = CountedInterval { from_ns: 0, to_ns: 640 };
        let sinks = || [Sink::new(100, true, counted), Sink::new(100, true, counted)];
        // Two frames of one flow, the second before the first, each at another sink.
        let flow = |k: usize| Stamp::of_frame(burst(k).frame(0)).unwrap().flow;
        let (a, b) = (0..64)
            .find_map(|a| (a + 1..64).find(|b| flow(a) == flow(*b)).map(|b| (a, b)))
            .unwrap();
        for is_shared in [false, true] {
            let [mut first, mut second] = sinks();
            if is_shared {
                second.share_order(&mut first);
            }
            first.take(&burst(b), 1, 1_000);
            second.take(&burst(a), 1, 1_000);
            assert_eq!((first.reordered, second.reordered), (0, u64::from(is_shared)));
        }
    }

    #[test]
    fn the_counted_part_is_half_open() {
        let counted = CountedInterval { from_ns: 10, to_ns: 20 };
        let held: Vec<u64> = (0..30).filter(|&ns| counted.holds(ns)).collect();
        assert_eq!(held, (10..20).collect::<Vec<u64>>());
    }
}
