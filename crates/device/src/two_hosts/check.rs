//! Limits of the observations that another host sends.

use niclab_load::PortCounters;

use super::{DeviceObservation, InterfaceCounts, MarkedTrips};

/// Stalls that a device's half sends one by one, at most.
pub const STALLS_MAX: usize = 1 << 18;

/// Queues of a port, at most: their numbers have 16 bits.
const QUEUES_MAX: usize = 1 << 16;

/// Every count of a trial is smaller, and every length in nanoseconds (104 days). Their sums fit 64
/// bits.
const COUNT_MAX: u64 = 1 << 53;

impl DeviceObservation {
    /// The number in it that cannot be right, if there is one.
    pub fn fault(&self) -> Option<&'static str> {
        let PortCounters { queues, rule_drops, rx_missed, tx_dropped, .. } = &self.function;
        let InterfaceCounts { rx_frames, tx_frames, .. } = self.interface;
        let of_interface =
            [rx_frames, tx_frames, self.interface.rx_missed, self.interface.tx_dropped];
        let of_function = [*rule_drops, *rx_missed, *tx_dropped, self.missed, self.shown];
        let of_stalls = [self.stalls.count, self.stalls.total_ns, self.stalls.longest_ns];
        let of_queues = queues.iter().flat_map(|queue| {
            [queue.rx_frames, queue.rx_bytes, queue.tx_frames, queue.tx_bytes, queue.rx_missed]
        });
        let counts = of_function.into_iter().chain(of_interface).chain(of_stalls).chain(of_queues);
        let mut counts = counts.chain(self.busy_ns);
        let is_stall = |(_, length_ns): &(u64, u64)| *length_ns < COUNT_MAX;
        let is_ratio = self.idle_ratio.is_none_or(|ratio| (0.0..=1.0).contains(&ratio));
        if queues.len() > QUEUES_MAX {
            return Some("more queues than a port has");
        }
        if self.each_stall_ns.len() > STALLS_MAX || !self.each_stall_ns.iter().all(is_stall) {
            return Some("stalls that cannot be");
        }
        (counts.any(|count| count >= COUNT_MAX) || !is_ratio).then_some("counters that cannot be")
    }
}

impl MarkedTrips {
    /// Names the fault of an answer to `count` markers, if it has one.
    pub fn fault(&self, count: u32) -> Option<&'static str> {
        let is_more = self.sent > count.into() || self.trips.len() as u64 > self.sent;
        is_more.then_some("more markers than it was asked for")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::two_hosts::MarkerTrip;

    #[test]
    fn observations_out_of_range_have_a_fault() {
        let usual = || DeviceObservation {
            each_stall_ns: vec![(1 << 60, 20_000); STALLS_MAX],
            idle_ratio: Some(1.0),
            ..DeviceObservation::default()
        };
        assert_eq!(usual().fault(), None);
        let mut long = usual();
        long.each_stall_ns.push((0, 1));
        assert_eq!(long.fault(), Some("stalls that cannot be"));
        let overflow = DeviceObservation { each_stall_ns: vec![(1, u64::MAX)], ..usual() };
        assert_eq!(overflow.fault(), Some("stalls that cannot be"));
        let ratio = DeviceObservation { idle_ratio: Some(f64::NAN), ..usual() };
        assert_eq!(ratio.fault(), Some("counters that cannot be"));
        let interface = InterfaceCounts { rx_missed: COUNT_MAX, ..InterfaceCounts::default() };
        let count = DeviceObservation { interface, ..usual() };
        assert_eq!(count.fault(), Some("counters that cannot be"));
    }

    #[test]
    fn more_markers_than_asked_for_are_a_fault() {
        let trip = MarkerTrip { number: 0, sent_ns: 1, received_ns: 2 };
        let of = |sent, trips| MarkedTrips { sent, trips: vec![trip; trips] };
        assert_eq!(of(4, 4).fault(4), None);
        assert!(of(5, 4).fault(4).is_some() && of(3, 4).fault(4).is_some());
    }
}
