//! The warnings that belong to an observation.

use niclab_device::LoadObservation;
use niclab_result::Mark;

use super::done;
use super::undisturbed::UndisturbedSlices;
use crate::loss::Loss;

/// Share of the frames due that a generator may leave unsent before a trial is marked: the loss
/// goal of the headline figure (PDR, 0.5 %). A mark for a single frame of millions would stand
/// everywhere and say nothing.
const UNSENT_MAX: f64 = 0.005;

/// By which part of a trial the frames are judged that were not sent in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsentBasis {
    /// By all of it: a frame that was not sent has no latency, whatever kept the generator.
    Whole,
    /// By the slices that no stall fell into: the figures of the trial are read from them.
    Undisturbed,
}

/// The warnings that belong to an observation.
pub fn marks(observation: &LoadObservation, judged: UnsentBasis) -> Vec<Mark> {
    let o = observation;
    let mut marks = Vec::new();
    let has_stalls = o.slices.iter().any(|slice| slice.disturbed);
    if has_stalls && UndisturbedSlices::of(o).is_none() {
        marks.push(Mark::Disturbed);
    }
    if o.honesty.tester_limited || unsent_ratio(o, judged) > UNSENT_MAX {
        marks.push(Mark::GeneratorLimited);
    }
    if is_unbalanced(o) {
        marks.push(Mark::Unbalanced);
    }
    marks
}

/// `true` where the counters of an observation do not add up.
pub fn is_unbalanced(o: &LoadObservation) -> bool {
    let adds_up = o.planned == o.offered + o.unsent && o.offered == done(o) + o.lost;
    !o.honesty.balanced || !adds_up
}

/// Frames not sent in time by those due; of the whole trial where hardly a slice is undisturbed.
fn unsent_ratio(o: &LoadObservation, judged: UnsentBasis) -> f64 {
    match (judged, Loss::of(o)) {
        (UnsentBasis::Undisturbed, Some(loss)) => loss.unsent_ratio,
        _ => o.unsent as f64 / o.planned.max(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::tests::{observation, sliced};

    #[test]
    fn marks_follow_the_honesty_record_and_the_sums() {
        let check = |change: fn(&mut LoadObservation), expected: &[Mark]| {
            let mut calm = LoadObservation { unsent: 0, planned: 990, ..observation() };
            change(&mut calm);
            assert_eq!(marks(&calm, UnsentBasis::Whole), expected);
        };
        check(|_| {}, &[]);
        check(|o| o.honesty.tester_limited = true, &[Mark::GeneratorLimited]);
        check(
            |o| {
                o.unsent = 1;
                o.planned += 1;
            },
            &[],
        );
        check(|o| o.honesty.balanced = false, &[Mark::Unbalanced]);
        check(|o| o.lost += 1, &[Mark::Unbalanced]);
        check(|o| o.planned += 1, &[Mark::Unbalanced]);
    }

    #[test]
    fn more_than_half_a_percent_unsent_is_the_generators_limit() {
        let is_marked = |unsent: u64, judged| {
            let o = LoadObservation {
                unsent,
                planned: 10_000,
                offered: 10_000 - unsent,
                lost: 9_100 - unsent,
                ..observation()
            };
            marks(&o, judged) == [Mark::GeneratorLimited]
        };
        for judged in [UnsentBasis::Whole, UnsentBasis::Undisturbed] {
            assert_eq!([50, 51].map(|unsent| is_marked(unsent, judged)), [false, true]);
        }
    }

    #[test]
    fn over_time_what_a_stall_kept_from_being_sent_is_left_out_and_nothing_else_is() {
        // All that was not sent was due in slice 1: 1 % of what was due.
        let is_marked = |stalled: &[usize]| {
            let mut o = sliced(&[100; 10]);
            (o.slices[1].unsent, o.unsent, o.planned) = (10, 10, 1_010);
            stalled.iter().for_each(|at| o.slices[*at].disturbed = true);
            [UnsentBasis::Whole, UnsentBasis::Undisturbed]
                .map(|judged| marks(&o, judged).contains(&Mark::GeneratorLimited))
        };
        assert_eq!(is_marked(&[]), [true, true]);
        assert_eq!(is_marked(&[1]), [true, false]);
        assert_eq!(is_marked(&[0]), [true, false], "it is behind a stall");
        assert_eq!(is_marked(&[4]), [true, true]);
        assert_eq!(is_marked(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), [true, true], "hardly any is left");
    }
}
