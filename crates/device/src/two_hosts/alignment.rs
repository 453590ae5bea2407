//! The difference of two hosts' clocks, and its error.

use niclab_load::{Alignment, AlignmentBy};
use serde::{Deserialize, Serialize};

/// A marker as the tester saw it, by its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkerTrip {
    /// Its number.
    pub number: u64,
    /// When it left, nanoseconds.
    pub sent_ns: u64,
    /// When it was back, nanoseconds.
    pub received_ns: u64,
}

/// A marker as the device saw it, by its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenMarker {
    /// Its number.
    pub number: u64,
    /// When the function had it, nanoseconds.
    pub seen_ns: u64,
}

/// The difference of the clocks by the marker that was under way for the shortest time; `None`
/// where none was seen by both.
///
/// The function saw a marker after it was sent and before it was back, so half the round trip is a
/// bound of the error, whatever the two ways take (Cristian, Distributed Computing 3, 1989).
pub fn align(trips: &[MarkerTrip], seen: &[SeenMarker]) -> Option<Alignment> {
    let both = trips.iter().filter_map(|trip| {
        let seen = seen.iter().find(|seen| seen.number == trip.number)?;
        let took_ns = trip.received_ns.checked_sub(trip.sent_ns)?;
        let middle_ns = trip.sent_ns + took_ns / 2;
        let offset_ns = i64::try_from(i128::from(seen.seen_ns) - i128::from(middle_ns)).ok()?;
        let error_ns = took_ns.div_ceil(2);
        Some(Alignment { by: AlignmentBy::Markers, offset_ns, error_ns })
    });
    both.min_by_key(|alignment| alignment.error_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trips between clocks that differ by `offset`, with the times of each way.
    fn trips(offset: i64, ways: &[(u64, u64)]) -> (Vec<MarkerTrip>, Vec<SeenMarker>) {
        let of = |(at, (there, back)): (usize, &(u64, u64))| {
            let (number, sent_ns) = (at as u64, 1_000_000_000 + 1_000_000 * at as u64);
            let trip = MarkerTrip { number, sent_ns, received_ns: sent_ns + there + back };
            let seen_ns = (sent_ns + there).saturating_add_signed(offset);
            (trip, SeenMarker { number, seen_ns })
        };
        ways.iter().enumerate().map(of).unzip()
    }

    #[test]
    fn the_difference_lies_within_its_error_whatever_the_ways_take() {
        let cases: [&[(u64, u64)]; 4] = [
            &[(5_000, 5_000)],
            &[(90_000, 5_000), (6_000, 8_000), (5_000, 70_000)],
            &[(1, 40_000)],
            &[(40_000, 1)],
        ];
        for offset in [-900_000_000, -1, 0, 1, 3_600_000_000_000] {
            for ways in cases {
                let (trips, seen) = trips(offset, ways);
                let found = align(&trips, &seen).unwrap();
                let shortest = ways.iter().map(|(a, b)| a + b).min().unwrap();
                assert_eq!(found.error_ns, shortest.div_ceil(2));
                let off = found.offset_ns.abs_diff(offset);
                assert!(off <= found.error_ns, "{offset}: {found:?}");
                let at = trips[0].sent_ns;
                assert_eq!(found.to_tester(found.to_device(at)), at);
            }
        }
    }

    #[test]
    fn markers_that_one_side_alone_saw_are_no_measure() {
        let (trips, mut seen) = trips(7, &[(10, 10), (1, 1)]);
        seen.remove(1);
        assert_eq!(align(&trips, &seen).unwrap().error_ns, 10);
        assert_eq!(align(&trips, &[]), None);
        let backwards = MarkerTrip { number: 0, sent_ns: 9, received_ns: 8 };
        assert_eq!(align(&[backwards], &seen), None);
    }
}
