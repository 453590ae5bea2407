//! The losses of a search trial: in its undisturbed slices, and in total.
//!
//! On a machine that others use, a core is away for a millisecond now and then: frames that are
//! due meanwhile are lost whatever the device can do, and no rate above nothing has a loss of zero
//! by the letter. So the loss that a search goes by is that of the slices that no stall fell into,
//! but for the one right behind a stall, which sees the backlog. Frames that found the device's
//! ring full and frames that were not sent in time are known by slice; whatever else was lost is
//! not, and counts in full. The loss as counted stands beside it, and in its place where hardly a
//! slice is undisturbed: a generator that cannot keep up with a load looks so too, for each of its
//! turns takes longer than the ring covers.

use niclab_device::{LoadObservation, Slice};
use serde::{Deserialize, Serialize};

use crate::windows::is_calm;

/// Least share of the slices that must be undisturbed for a loss to be taken from them.
const UNDISTURBED_SHARE_MIN: f64 = 0.2;

/// The losses of a trial, each by the frames that were due, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// Of the undisturbed slices: what the device lost and what was not sent, which a search counts
    /// as lost (RFC 9971, "Trial Loss Ratio").
    pub ratio: f64,
    /// The part of it that was not sent: the generator's doing.
    pub unsent_ratio: f64,
    /// Of the whole trial, stalls included.
    pub all_ratio: f64,
    /// Less than a fifth of the slices is undisturbed: all losses are of the whole trial.
    pub is_disturbed: bool,
}

impl Loss {
    /// `None` where no frame was due.
    pub fn of(o: &LoadObservation) -> Option<Loss> {
        let done = o.received + o.dropped;
        let all_ratio = ratio(o.planned.saturating_sub(done), o.planned)?;
        let whole = Loss {
            ratio: all_ratio,
            unsent_ratio: ratio(o.unsent, o.planned)?,
            all_ratio,
            is_disturbed: !o.slices.is_empty(),
        };
        let calm = (0..o.slices.len()).filter(|at| is_calm(&o.slices, *at));
        let calm: Vec<&Slice> = calm.map(|at| &o.slices[at]).collect();
        let is_enough = calm.len() as f64 >= UNDISTURBED_SHARE_MIN * o.slices.len() as f64;
        let sum = |count: fn(&Slice) -> u64| calm.iter().map(|slice| count(slice)).sum::<u64>();
        let (missed, unsent) = (sum(|slice| slice.rx_missed), sum(|slice| slice.unsent));
        let due = sum(|slice| slice.offered) + unsent;
        if !is_enough || due == 0 {
            return Some(whole);
        }
        let elsewhere = ratio(o.lost.saturating_sub(o.rx_missed), o.planned)?;
        Some(Loss {
            ratio: (ratio(missed + unsent, due)? + elsewhere).min(1.0),
            unsent_ratio: ratio(unsent, due)?,
            all_ratio,
            is_disturbed: false,
        })
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices of 100 frames due each: missed, not sent, and whether a stall fell into it.
    fn observation(slices: &[(u64, u64, bool)], elsewhere: u64) -> LoadObservation {
        let slice = |&(rx_missed, unsent, disturbed): &(u64, u64, bool)| Slice {
            offered: 100 - unsent,
            rx_missed,
            unsent,
            disturbed,
            ..Slice::default()
        };
        let slices: Vec<Slice> = slices.iter().map(slice).collect();
        let sum = |count: fn(&Slice) -> u64| slices.iter().map(count).sum::<u64>();
        let (offered, unsent) = (sum(|s| s.offered), sum(|s| s.unsent));
        let rx_missed = sum(|s| s.rx_missed);
        let lost = rx_missed + elsewhere;
        let planned = offered + unsent;
        let received = offered - lost;
        LoadObservation {
            planned,
            offered,
            unsent,
            received,
            rx_missed,
            lost,
            slices,
            ..Default::default()
        }
    }

    #[test]
    fn a_stall_and_the_slice_behind_it_are_left_out() {
        let calm = [(0, 0, false); 6];
        let stall = [(70, 20, true), (30, 0, true), (15, 0, false), (0, 0, false)];
        let observed = observation(&[&calm[..], &stall[..]].concat(), 0);
        let loss = Loss::of(&observed).unwrap();
        assert_eq!((loss.ratio, loss.unsent_ratio), (0.0, 0.0));
        assert_eq!(loss.all_ratio, 0.135, "as counted");
    }

    #[test]
    fn losses_of_device_and_generator_in_undisturbed_slices_count() {
        let observed =
            observation(&[(5, 0, false), (0, 3, false), (90, 10, true), (50, 0, false)], 0);
        let loss = Loss::of(&observed).unwrap();
        assert_eq!((loss.ratio, loss.unsent_ratio), (0.04, 0.015));
    }

    #[test]
    fn losses_without_a_known_time_count_in_full() {
        let loss = Loss::of(&observation(&[(0, 0, false); 4], 8)).unwrap();
        assert_eq!((loss.ratio, loss.all_ratio), (0.02, 0.02));
        let dropped =
            LoadObservation { dropped: 8, lost: 0, ..observation(&[(0, 0, false); 4], 8) };
        assert_eq!(Loss::of(&dropped).unwrap(), Loss::default(), "a rule said so");
    }

    #[test]
    fn a_trial_of_stalls_and_a_trial_without_slices_count_in_full() {
        let stalls = |count| -> Vec<(u64, u64, bool)> {
            (0..10).map(|at| (0, if at < count { 30 } else { 0 }, at < count)).collect()
        };
        let two_left = Loss::of(&observation(&stalls(7), 0)).unwrap();
        assert_eq!((two_left.is_disturbed, two_left.ratio), (false, 0.0));
        let one_left = Loss::of(&observation(&stalls(8), 0)).unwrap();
        let losses = (one_left.ratio, one_left.unsent_ratio, one_left.all_ratio);
        assert_eq!((one_left.is_disturbed, losses), (true, (0.24, 0.24, 0.24)));
        let whole = LoadObservation { slices: Vec::new(), ..observation(&[(10, 20, false)], 0) };
        let loss = Loss { ratio: 0.3, unsent_ratio: 0.2, all_ratio: 0.3, is_disturbed: false };
        assert_eq!(Loss::of(&whole), Some(loss));
        assert_eq!(Loss::of(&LoadObservation::default()), None, "nothing was due");
    }
}
