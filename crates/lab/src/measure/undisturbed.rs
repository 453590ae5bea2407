//! The slices of a trial that show the device alone.

use niclab_device::{Latency, LoadObservation};

use super::done;
use super::slices::slice_ns;
use crate::windows;

/// Least share of the slices that must be calm for a throughput to be taken from them.
const CALM_SHARE_MIN: f64 = 0.2;

/// The slices of a trial that show the device alone: those without a stall, but for the one right
/// behind a stall, which sees the backlog, and the first ones, in which frames of the warm-up still
/// come back.
pub(super) struct UndisturbedSlices {
    time_ns: u64,
    pub(super) offered: u64,
    done: u64,
    pub(super) rx_missed: u64,
}

impl UndisturbedSlices {
    /// `None` where they are less than a fifth of all slices, or where all frames that were dealt
    /// with fell into others. Where frames come back before any of the measured part could, those
    /// of the warm-up are counted too, and no slice need be left out for what is under way.
    ///
    /// When a frame was dropped nobody saw: where rules drop, the calm slices have the share of
    /// what was dealt with that they have of the frames taken in.
    pub(super) fn of(o: &LoadObservation) -> Option<UndisturbedSlices> {
        let slice_ns = slice_ns(o)?;
        let under_way_ns = o.latency.as_ref().map_or(0, |Latency(l)| l.value_at_quantile(0.75));
        let first_ns = o.latency.as_ref().map_or(0, |Latency(l)| l.min());
        let early = o.slices.iter().take_while(|slice| slice.start_ns + slice_ns <= first_ns);
        let is_warm = early.clone().count() > 0 && early.clone().any(|slice| slice.received > 0);
        let under_way_ns = if is_warm { 0 } else { under_way_ns };
        let is_calm =
            |at: usize| windows::is_calm(&o.slices, at) && o.slices[at].start_ns >= under_way_ns;
        let mut calm = UndisturbedSlices { time_ns: 0, offered: 0, done: 0, rx_missed: 0 };
        let mut count = 0;
        for (_, slice) in o.slices.iter().enumerate().filter(|(at, _)| is_calm(*at)) {
            count += 1;
            // The last slice may be shorter.
            calm.time_ns += slice_ns.min(o.duration_ns.saturating_sub(slice.start_ns));
            calm.offered += slice.offered;
            calm.done += windows::taken(o, slice);
            calm.rx_missed += slice.rx_missed;
        }
        if o.dropped > 0 {
            let all: u64 = o.slices.iter().map(|slice| windows::taken(o, slice)).sum();
            calm.done = (calm.done as f64 * done(o) as f64 / all.max(1) as f64).round() as u64;
        }
        let is_enough = f64::from(count) >= CALM_SHARE_MIN * o.slices.len() as f64;
        let shows = calm.done > 0 || done(o) == 0;
        (is_enough && shows && calm.time_ns > 0).then_some(calm)
    }

    pub(super) fn throughput_pps(&self) -> f64 {
        self.done as f64 / (self.time_ns as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use niclab_result::Mark;

    use super::*;
    use crate::measure::tests::sliced;
    use crate::measure::{UnsentBasis, marks, metrics};

    #[test]
    fn the_throughput_is_that_of_slices_without_a_stall_or_its_backlog() {
        let observation = sliced(&[100, -20, 180, 98, 100]);
        let metrics = metrics(&observation);
        let value = |name: &str| metrics[name].value;
        assert!((value("throughput_pps") - 298.0 / 3e-6).abs() < 1e-3);
        assert!((value("throughput_all_pps") - 900.0 / 5e-6).abs() < 1e-3);
        assert!((value("throughput_gbps_l2") - 298.0 * 64.0 * 8.0 / 3_000.0).abs() < 1e-9);
        assert_eq!(value("rx_missed_undisturbed_ratio"), 2.0 / 300.0);
        assert_eq!(value("disturbed_ratio"), 0.2);
        assert!(!marks(&observation, UnsentBasis::Whole).contains(&Mark::Disturbed));
    }

    #[test]
    fn fewer_than_a_fifth_of_calm_slices_are_too_few() {
        let check = |received: &[i64], expected_pps: f64, is_marked: bool| {
            let observation = sliced(received);
            let throughput_pps = metrics(&observation)["throughput_pps"].value;
            assert!((throughput_pps / expected_pps - 1.0).abs() < 1e-9, "{throughput_pps}");
            assert_eq!(
                marks(&observation, UnsentBasis::Whole).contains(&Mark::Disturbed),
                is_marked
            );
        };
        check(&[100, -20, -20, -20, -20], 100.0 / 1e-6, false);
        check(&[100, -20, -20, -20, -20, -20], 900.0 / 6e-6, true);
        check(&[-20, 180, -20, 180, -20], 900.0 / 5e-6, true);
    }

    #[test]
    fn slices_without_a_frame_are_not_calm_where_others_have_some() {
        let observation = sliced(&[0, 0, 0, -200, 0]);
        assert_eq!(metrics(&observation)["throughput_pps"].value, 900.0 / 5e-6);
        assert!(marks(&observation, UnsentBasis::Whole).contains(&Mark::Disturbed));
        let nothing = LoadObservation { received: 0, ..sliced(&[0, 0, 0]) };
        assert_eq!(metrics(&nothing)["throughput_pps"].value, 0.0);
        assert!(
            !marks(&nothing, UnsentBasis::Whole).contains(&Mark::Disturbed),
            "the device lost all"
        );
    }

    #[test]
    fn slices_in_which_the_warm_up_still_comes_back_are_left_out() {
        let mut latency = Latency::new();
        (0..100).for_each(|_| latency.record(1_500));
        let observation =
            LoadObservation { latency: Some(latency), ..sliced(&[0, 50, 100, 100, 100, 50]) };
        let cut_short = LoadObservation { duration_ns: 5_500, ..observation };
        let throughput_pps = metrics(&cut_short)["throughput_pps"].value;
        assert!((throughput_pps / (350.0 / 3.5e-6) - 1.0).abs() < 1e-9, "{throughput_pps}");
    }
}
