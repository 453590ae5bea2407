//! A meter of two rates and three colours (RFC 2698), aware of the colour a packet has already.

use crate::entry::Rates;

/// A packet's colour.
pub(crate) const GREEN: u64 = 0;
const YELLOW: u64 = 1;
const RED: u64 = 2;

/// Nanobytes in a byte: what a rate of one byte a second adds in a nanosecond is one.
const NANO: u64 = 1_000_000_000;

/// One meter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    rates: Rates,
    /// When the buckets were filled last.
    filled_ns: u64,
    /// What is in the buckets, nanobytes.
    committed: u64,
    peak: u64,
}

impl Meter {
    /// A meter whose buckets are full.
    pub(crate) fn new(rates: Rates, now_ns: u64) -> Meter {
        Meter {
            rates,
            filled_ns: now_ns,
            committed: u64::from(rates.committed_burst) * NANO,
            peak: u64::from(rates.peak_burst) * NANO,
        }
    }

    /// The colour of a packet of `len` bytes that comes with a colour.
    pub(crate) fn colour(&mut self, len: u64, colour: u64, now_ns: u64) -> u64 {
        let past_ns = now_ns.saturating_sub(self.filled_ns);
        self.filled_ns = self.filled_ns.max(now_ns);
        let fill = |level: u64, rate: u64, burst: u32| {
            level.saturating_add(rate.saturating_mul(past_ns)).min(u64::from(burst) * NANO)
        };
        self.committed = fill(self.committed, self.rates.committed, self.rates.committed_burst);
        self.peak = fill(self.peak, self.rates.peak, self.rates.peak_burst);
        let wanted = len.saturating_mul(NANO);
        if colour >= RED || self.peak < wanted {
            return RED;
        }
        self.peak -= wanted;
        if colour == YELLOW || self.committed < wanted {
            return YELLOW;
        }
        self.committed -= wanted;
        GREEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates =
        Rates { committed: 1_000, peak: 2_000, committed_burst: 100, peak_burst: 300 };

    #[test]
    fn a_packet_takes_from_both_buckets_and_is_red_where_the_larger_is_empty() {
        let mut meter = Meter::new(RATES, 0);
        assert_eq!(meter.colour(100, GREEN, 0), GREEN);
        assert_eq!(meter.colour(100, GREEN, 0), YELLOW, "100 B committed at once");
        assert_eq!(meter.colour(100, GREEN, 0), YELLOW);
        assert_eq!(meter.colour(100, GREEN, 0), RED, "300 B at once at most");
        // 50 ms later there are 50 B committed, and 100 B in all.
        assert_eq!(meter.colour(51, GREEN, 50_000_000), YELLOW);
        assert_eq!(meter.colour(49, GREEN, 50_000_000), GREEN);
        assert_eq!(meter.colour(1, GREEN, 50_000_000), RED);
    }

    #[test]
    fn a_packet_never_gets_a_better_colour_and_time_never_goes_back() {
        let mut meter = Meter::new(RATES, 1_000);
        assert_eq!(meter.colour(10, YELLOW, 1_000), YELLOW);
        assert_eq!(meter.colour(10, RED, 1_000), RED);
        assert_eq!(meter.colour(100, GREEN, 0), GREEN);
        assert_eq!(meter.colour(100, GREEN, 0), YELLOW);
        assert_eq!(meter.colour(u64::MAX, GREEN, u64::MAX), RED);
        assert_eq!(meter.colour(100, GREEN, u64::MAX), GREEN, "full, and no more than that");
        assert_eq!(meter.colour(100, GREEN, u64::MAX), YELLOW);
    }
}
