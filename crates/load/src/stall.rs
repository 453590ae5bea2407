//! Stalls: stretches of time in which a core did not run us.

use crate::observation::Stalls;

/// A gap between two turns of a polling loop that counts as a stall, nanoseconds.
pub const STALL_NS: u64 = 10_000;

/// Stalls that are kept one by one; further ones are only counted. A busy machine has some thousand
/// a second: it is enough for a minute of them.
const KEPT_MAX: usize = 262_144;

/// Watches the turns of a polling loop. A turn that does its work takes a few microseconds; a
/// longer gap means that the core ran something else.
#[derive(Clone, Debug, Default)]
pub struct StallWatch {
    last_ns: Option<u64>,
    sum: Stalls,
    kept: Vec<(u64, u64)>,
}

impl StallWatch {
    /// Starts with no stall; memory for the kept ones is taken here, not in the loop.
    pub fn new() -> StallWatch {
        StallWatch { last_ns: None, sum: Stalls::default(), kept: Vec::with_capacity(KEPT_MAX) }
    }

    /// Called once a turn with the time and what the work of the turn may have cost beside; returns
    /// the time since the last turn, nanoseconds.
    #[inline]
    pub fn turn(&mut self, now_ns: u64, work_ns: u64) -> u64 {
        let gap = now_ns.saturating_sub(self.last_ns.unwrap_or(now_ns));
        self.last_ns = Some(now_ns);
        if gap > STALL_NS + work_ns {
            self.stall(now_ns - gap, gap);
        }
        gap
    }

    /// Time until now was spent on other work, which is no stall.
    #[inline]
    pub fn resume(&mut self, now_ns: u64) {
        self.last_ns = Some(now_ns);
    }

    #[cold]
    fn stall(&mut self, start_ns: u64, length_ns: u64) {
        self.sum.count += 1;
        self.sum.total_ns += length_ns;
        self.sum.longest_ns = self.sum.longest_ns.max(length_ns);
        if self.kept.len() < KEPT_MAX {
            self.kept.push((start_ns, length_ns));
        }
    }

    /// Adds the stalls of another core that worked at the same task.
    pub fn merge(&mut self, other: &StallWatch) {
        self.sum.count += other.sum.count;
        self.sum.total_ns += other.sum.total_ns;
        self.sum.longest_ns = self.sum.longest_ns.max(other.sum.longest_ns);
        self.kept.extend_from_slice(&other.kept);
    }

    /// Number, sum and longest.
    pub fn sum(&self) -> Stalls {
        self.sum
    }

    /// Start and length of each kept stall, in each core's order of time, nanoseconds.
    pub fn kept(&self) -> &[(u64, u64)] {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_gaps_over_ten_microseconds_count() {
        let mut watch = StallWatch::new();
        for now in [5_000_000, 5_000_900, 5_010_900, 5_020_901, 5_520_901] {
            watch.turn(now, 0);
        }
        assert_eq!(watch.kept(), [(5_010_900, 10_001), (5_020_901, 500_000)]);
        assert_eq!(watch.sum(), Stalls { count: 2, total_ns: 510_001, longest_ns: 500_000 });
    }

    #[test]
    fn the_stalls_of_two_cores_add_up() {
        let mut watches = [StallWatch::new(), StallWatch::new()];
        for (watch, now_ns) in watches.iter_mut().zip([20_000, 30_000]) {
            watch.turn(0, 0);
            watch.turn(now_ns, 0);
        }
        let [mut one, other] = watches;
        one.merge(&other);
        assert_eq!(one.kept(), [(0, 20_000), (0, 30_000)]);
        assert_eq!(one.sum(), Stalls { count: 2, total_ns: 50_000, longest_ns: 30_000 });
    }

    #[test]
    fn work_has_its_price() {
        let mut watch = StallWatch::new();
        for (now_ns, work_ns) in [(0, 0), (100_000, 90_000), (200_001, 90_000)] {
            watch.turn(now_ns, work_ns);
        }
        assert_eq!(watch.kept(), [(100_000, 100_001)]);
    }
}
