//! Times of ours and of a peer's that are to be alike, or no longer.
//!
//! A time that both programs leave to the kernel cannot be halved by one of them: what is to be
//! shown is that ours reads it as the peer does. So the bar is the peer itself: how much its turns
//! differ from each other. Where ours are to be no longer, they may be as short as they like.

use niclab_pairing::{Interval, PAIRS_MIN, median_interval};

use crate::GoalVerdict;

/// Share of the peer's pairs of successive turns that its own interval covers.
const COVERED: f64 = 0.9;

/// A peer whose turns differ from the turn before by more than this factor is no bar.
const BLURRED: f64 = 2.0;

/// One figure of both sides, turn by turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// Which, such as `p50`.
    pub what: &'static str,
    /// Ours, a turn each, nanoseconds.
    pub ours_ns: Vec<f64>,
    /// The peer's.
    pub theirs_ns: Vec<f64>,
    /// What ours are to be.
    pub bar: Bar,
}

/// What times of ours are to be beside a peer's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bar {
    /// As the peer's are, within what it differs from itself.
    #[default]
    Alike,
    /// No longer than the peer's, within the same.
    NoLonger,
}

impl Times {
    /// The median of ours over the peer's in each pair of turns, and its interval.
    pub fn ratio(&self) -> Option<Interval> {
        let ratios: Vec<f64> =
            self.ours_ns.iter().zip(&self.theirs_ns).map(|(ours, theirs)| ours / theirs).collect();
        median_interval(&ratios)
    }

    /// The peer beside itself, from run to run: bounds of the ratios of nine in ten of its turns to
    /// the turn before. Which of two turns stands above says nothing, so that the bounds are each
    /// other's inverse. `None` for less than 6 ratios.
    pub fn own(&self) -> Option<[f64; 2]> {
        let mut changes: Vec<f64> =
            self.theirs_ns.windows(2).map(|pair| (pair[1] / pair[0]).ln().abs()).collect();
        if changes.len() < 6 || changes.iter().any(|change| change.is_nan()) {
            return None;
        }
        changes.sort_by(f64::total_cmp);
        let rank = (COVERED * changes.len() as f64).ceil() as usize;
        let factor = changes[rank - 1].exp();
        Some([1.0 / factor, factor])
    }

    /// The median of the peer's ratios to itself and its interval: far narrower than
    /// [`Times::own`], for it says where the middle lies and not how far runs lie apart.
    pub fn own_median(&self) -> Option<Interval> {
        let ratios: Vec<f64> = self.theirs_ns.windows(2).map(|pair| pair[1] / pair[0]).collect();
        median_interval(&ratios)
    }

    /// The peer differs so much from itself that being within it says nothing.
    pub fn is_blurred(&self) -> bool {
        self.own().is_some_and(|[_, high]| high > BLURRED)
    }

    /// Met where the interval of the ratio lies inside of the peer's own from run to run, or, where
    /// ours are to be no longer, ends below its end; undecided where the peer is blurred.
    pub fn verdict(&self) -> GoalVerdict {
        let inside = self.ratio().zip(self.own()).is_some_and(|(ratio, [low, high])| {
            let is_short = self.bar == Bar::Alike && ratio.low < low;
            !is_short && ratio.high <= high
        });
        match (self.ours_ns.len() < PAIRS_MIN, inside) {
            (true, _) => GoalVerdict::Undecided,
            (false, true) if self.is_blurred() => GoalVerdict::Undecided,
            (false, true) => GoalVerdict::Met,
            (false, false) => GoalVerdict::Missed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer whose turns go up and down by a tenth, and ours, which are `factor` times as long.
    fn times(factor: f64, count: usize) -> Times {
        let theirs_ns: Vec<f64> =
            (0..count).map(|turn| if turn % 2 == 0 { 1_000.0 } else { 1_100.0 }).collect();
        let ours_ns = theirs_ns.iter().map(|ns| ns * factor).collect();
        Times { what: "p50", ours_ns, theirs_ns, bar: Bar::Alike }
    }

    #[test]
    fn ours_are_to_differ_by_no_more_than_the_peer_does_from_itself() {
        let like = times(1.05, 31);
        let [low, high] = like.own().unwrap();
        assert!((high - 1.1).abs() < 1e-9 && (low - 1.0 / 1.1).abs() < 1e-9);
        assert!((like.ratio().unwrap().median - 1.05).abs() < 1e-9);
        assert_eq!(like.verdict(), GoalVerdict::Met);
        assert_eq!(times(1.2, 31).verdict(), GoalVerdict::Missed);
        // Faster than the peer is not alike either: something is not measured.
        assert_eq!(times(0.8, 31).verdict(), GoalVerdict::Missed);
        assert_eq!(times(1.0, 29).verdict(), GoalVerdict::Undecided);
    }

    #[test]
    fn ours_may_be_shorter_where_they_are_to_be_no_longer() {
        let times = |factor| Times { bar: Bar::NoLonger, ..times(factor, 31) };
        assert_eq!(times(0.5).verdict(), GoalVerdict::Met);
        assert_eq!(times(1.05).verdict(), GoalVerdict::Met);
        assert_eq!(times(1.2).verdict(), GoalVerdict::Missed);
    }

    #[test]
    fn a_peer_that_differs_from_itself_by_more_than_two_decides_nothing_for_us() {
        let wild = |factor: f64| {
            let theirs_ns: Vec<f64> =
                (0..31_u32).map(|n| 1e3 * factor.powi(n as i32 % 2)).collect();
            let ours_ns = theirs_ns.clone();
            Times { what: "p99", ours_ns, theirs_ns, bar: Bar::NoLonger }
        };
        assert_eq!(
            (wild(1.9).verdict(), wild(2.1).verdict()),
            (GoalVerdict::Met, GoalVerdict::Undecided)
        );
        let longer = |times: Times| Times { ours_ns: vec![1e4; 31], ..times };
        assert_eq!(longer(wild(2.1)).verdict(), GoalVerdict::Missed);
    }

    #[test]
    fn three_wild_turns_do_not_widen_what_the_peer_may_differ_by() {
        let mut wild = times(1.0, 61);
        for turn in [10, 30, 50] {
            wild.theirs_ns[turn] = 1e9;
        }
        assert!((wild.own().unwrap()[1] - 1.1).abs() < 1e-9);
    }

    #[test]
    fn too_few_turns_have_no_interval() {
        assert_eq!(times(1.0, 6).own(), None);
        assert!(times(1.0, 7).own().is_some());
        assert_eq!(times(1.0, 5).ratio(), None);
        let none = Times::default();
        assert_eq!(
            (none.own(), none.ratio(), none.verdict()),
            (None, None, GoalVerdict::Undecided)
        );
    }
}
