//! The sink: what came back, in which order, how late, how whole.

use niclab_packet::stack::walk;

use crate::histogram::Latency;
use crate::observation::QueueCounters;
use crate::stamp::Stamp;
use niclab_packet::size::FCS_LEN;

/// One frame in so many has its checksums verified.
const VERIFY_EVERY: u64 = 64;

/// Which frames of a trial are counted, by their planned departure in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// First counted.
    pub from_ns: u64,
    /// First not counted any more.
    pub to_ns: u64,
}

impl Counted {
    /// Whether a frame planned for then is counted.
    #[inline]
    pub fn holds(self, planned_ns: u64) -> bool {
        planned_ns.wrapping_sub(self.from_ns) < self.to_ns - self.from_ns
    }
}

/// What a sink has seen.
pub struct Sink {
    counted: Counted,
    orders: Vec<Order>,
    /// Frames and bytes of the whole trial, warm-up included.
    pub counters: QueueCounters,
    /// Counted frames.
    pub received: u64,
    /// Bytes of counted frames, with FCS.
    pub received_bytes: u64,
    /// Counted frames behind a later one of their flow.
    pub reordered: u64,
    /// Frames seen twice.
    pub duplicated: u64,
    /// Frames whose checksum was wrong.
    pub damaged: u64,
    /// Frames that are not ours.
    pub foreign: u64,
    /// From the planned departure.
    pub latency: Latency,
    /// From the actual departure.
    pub service: Latency,
}

/// The latest frames of one flow.
#[derive(Clone, Copy, Default)]
struct Order {
    /// Sequence number expected next.
    next: u32,
    /// Bit i: `next - 1 - i` was seen.
    seen: u32,
}

/// Where a frame stands among those of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    InOrder,
    Late,
    Again,
}

impl Order {
    /// Notes a frame. Later than 32 frames behind the newest a second copy counts as late.
    #[inline]
    fn note(&mut self, sequence: u32) -> Place {
        let ahead = sequence.wrapping_sub(self.next) as i32;
        if ahead >= 0 {
            let shift = ahead as u32 + 1;
            self.seen = self.seen.checked_shl(shift).unwrap_or(0) | 1;
            self.next = sequence.wrapping_add(1);
            return Place::InOrder;
        }
        let bit = 1u32.checked_shl(!ahead as u32).unwrap_or(0);
        let again = self.seen & bit != 0;
        self.seen |= bit;
        if again { Place::Again } else { Place::Late }
    }
}

impl Sink {
    /// A sink for `flows` flows.
    pub fn new(flows: u32, counted: Counted) -> Sink {
        Sink {
            counted,
            orders: vec![Order::default(); flows as usize],
            counters: QueueCounters::default(),
            received: 0,
            received_bytes: 0,
            reordered: 0,
            duplicated: 0,
            damaged: 0,
            foreign: 0,
            latency: Latency::new(),
            service: Latency::new(),
        }
    }

    /// Takes a frame that was found at `now_ns` after the start of the trial; says whether it counts.
    #[inline]
    pub fn take(&mut self, frame: &[u8], now_ns: u64) -> bool {
        let stamp = match Stamp::of_frame(frame) {
            Some(stamp) if (stamp.flow as usize) < self.orders.len() => stamp,
            _ => {
                self.foreign += 1;
                return false;
            }
        };
        let bytes = frame.len() as u64 + u64::from(FCS_LEN);
        self.counters.rx_frames += 1;
        self.counters.rx_bytes += bytes;
        if self.counters.rx_frames.is_multiple_of(VERIFY_EVERY) && !whole(frame) {
            self.damaged += 1;
        }
        let place = self.orders[stamp.flow as usize].note(stamp.sequence);
        if place == Place::Again {
            self.duplicated += 1;
            return false;
        }
        if !self.counted.holds(stamp.planned_ns) {
            return false;
        }
        self.received += 1;
        self.received_bytes += bytes;
        self.reordered += u64::from(place == Place::Late);
        let latency_ns = now_ns.saturating_sub(stamp.planned_ns);
        self.latency.record(latency_ns);
        self.service.record(latency_ns.saturating_sub(stamp.late_ns));
        true
    }
}

/// Whether every checksum of a frame holds.
fn whole(frame: &[u8]) -> bool {
    walk(frame).checksum_errors().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(sequences: &[u32]) -> Vec<Place> {
        let mut order = Order::default();
        sequences.iter().map(|&s| order.note(s)).collect()
    }

    #[test]
    fn order_late_and_again_are_told_apart() {
        use Place::{Again, InOrder, Late};
        assert_eq!(places(&[0, 1, 2]), [InOrder; 3]);
        assert_eq!(places(&[0, 2, 1, 1, 2, 3]), [InOrder, InOrder, Late, Again, Again, InOrder]);
        assert_eq!(places(&[40, 8, 9, 9, 40]), [InOrder, Late, Late, Again, Again]);
        assert_eq!(places(&[0, u32::MAX]), [InOrder, Late]);
    }

    #[test]
    fn the_counted_part_is_half_open() {
        let counted = Counted { from_ns: 10, to_ns: 20 };
        let held: Vec<u64> = (0..30).filter(|&ns| counted.holds(ns)).collect();
        assert_eq!(held, (10..20).collect::<Vec<u64>>());
    }
}
