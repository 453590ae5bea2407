//! What a plan does to forwarding: a trial in windows of 10 ms, laid so that one begins with the
//! plan's first operation.

use niclab_device::{Observation, Slice};

use crate::measure::{Metrics, put};
use crate::statistics;

/// Length of a window, nanoseconds.
pub const WINDOW_NS: u64 = 10_000_000;

/// A window has recovered from this share of the median in front of the plan on.
const RECOVERED_SHARE: f64 = 0.95;

/// A whole window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Its start, nanoseconds after the plan's first operation; below zero in front of it.
    pub start_ns: i64,
    /// Frames dealt with in it.
    pub done: u64,
    /// Frames due in it that found the device's ring full.
    pub missed: u64,
    /// A stall of the machine fell into it.
    pub disturbed: bool,
}

/// Frames that came back in a slice; where rules drop, those that the device took in: when a frame
/// was dropped nobody saw.
pub fn taken(o: &Observation, slice: &Slice) -> u64 {
    taken_of(slice, o.dropped)
}

fn taken_of(slice: &Slice, dropped: u64) -> u64 {
    match dropped {
        0 => slice.received,
        _ => slice.offered.saturating_sub(slice.rx_missed),
    }
}

/// The whole windows of a trial.
pub fn windows(o: &Observation) -> Vec<Window> {
    let begun_ns = o.control.as_ref().and_then(|control| control.begun_ns).unwrap_or(0);
    laid(&o.slices, o.dropped, begun_ns)
}

/// The whole windows of slices, laid by a plan that began at `begun_ns`; `dropped` frames of the
/// trial were dropped by rules.
pub fn laid(slices: &[Slice], dropped: u64, begun_ns: u64) -> Vec<Window> {
    let [first, second, ..] = slices else { return Vec::new() };
    let slice_ns = (second.start_ns - first.start_ns).max(1);
    // The slice into which the first operation falls belongs to what it does.
    let (begun, each) = ((begun_ns / slice_ns) as usize, (WINDOW_NS / slice_ns).max(1) as usize);
    let slices = slices.get(begun % each..).unwrap_or_default();
    let window = |(at, slices): (usize, &[Slice])| Window {
        start_ns: ((begun % each + at * each) as i64 - begun as i64) * slice_ns as i64,
        done: slices.iter().map(|slice| taken_of(slice, dropped)).sum(),
        missed: slices.iter().map(|slice| slice.rx_missed).sum(),
        disturbed: slices.iter().any(|slice| slice.disturbed),
    };
    slices.chunks_exact(each).enumerate().map(window).collect()
}

/// Adds the metrics of a trial over time.
///
/// | metric | meaning |
/// |---|---|
/// | `windows`, `undisturbed_windows` | whole windows of 10 ms, and those without a stall |
/// | `losing_windows` | undisturbed windows that lost a frame |
/// | `zero_windows` | undisturbed windows that dealt with none |
/// | `outage_ns` | longest run of undisturbed slices in which no frame was dealt with (1) |
/// | `blocked_ns` | effective blocked time: frames missed in undisturbed slices (1) by the rate |
/// | `blocked_all_ns` | frames lost in the whole trial, by stalls of the machine too, by the rate |
/// | `lowest_ratio` | lowest undisturbed window from the plan on, by the median in front of it |
/// | `recovered_ns` | from the first operation to the end of the last low window, see below |
///
/// (1) From that on into which the plan's first operation falls.
///
/// A low window is an undisturbed one below 95 % of the median in front of the plan; where the last
/// of all is one, the device has not recovered and there is no `recovered_ns`.
pub fn put_windows(metrics: &mut Metrics, o: &Observation) {
    let windows = windows(o);
    let calm: Vec<&Window> = windows.iter().filter(|window| !window.disturbed).collect();
    let count = |is: fn(&&&Window) -> bool| calm.iter().filter(is).count() as f64;
    put(metrics, "windows", windows.len() as f64, "windows");
    put(metrics, "undisturbed_windows", calm.len() as f64, "windows");
    put(metrics, "losing_windows", count(|window| window.missed > 0), "windows");
    put(metrics, "zero_windows", count(|window| window.done == 0), "windows");
    put(metrics, "outage_ns", outage_ns(o), "ns");
    if o.offered > 0 {
        let frame_ns = o.duration_ns as f64 / o.offered as f64;
        let missed: u64 = from_plan(o).filter(|slice| !slice.disturbed).map(|s| s.rx_missed).sum();
        put(metrics, "blocked_ns", missed as f64 * frame_ns, "ns");
        put(metrics, "blocked_all_ns", o.lost as f64 * frame_ns, "ns");
    }
    let before = calm.iter().filter(|w| w.start_ns + WINDOW_NS as i64 <= 0);
    let before = before.map(|window| window.done as f64).collect::<Vec<_>>();
    let after = || calm.iter().filter(|window| window.start_ns >= 0);
    if let Some(before) = statistics::median(&before).filter(|before| *before > 0.0) {
        if let Some(lowest) = after().map(|window| window.done).min() {
            put(metrics, "lowest_ratio", lowest as f64 / before, "1");
        }
        let low = |window: &&&Window| (window.done as f64) < RECOVERED_SHARE * before;
        let Some(last) = after().next_back().map(|window| window.start_ns) else { return };
        let last_low = after().rfind(low).map(|window| window.start_ns);
        match last_low {
            None => put(metrics, "recovered_ns", 0.0, "ns"),
            Some(start_ns) if start_ns != last => {
                put(metrics, "recovered_ns", start_ns as f64 + WINDOW_NS as f64, "ns");
            }
            Some(_) => {}
        }
    }
}

/// The slices from that on into which the plan's first operation falls; all of them without a plan.
fn from_plan(o: &Observation) -> impl Iterator<Item = &Slice> {
    let begun_ns = o.control.as_ref().and_then(|control| control.begun_ns).unwrap_or(0);
    let slice_ns = match o.slices.as_slice() {
        [first, second, ..] => (second.start_ns - first.start_ns).max(1),
        _ => 1,
    };
    o.slices.iter().filter(move |slice| slice.start_ns + slice_ns > begun_ns)
}

/// The longest run of undisturbed slices from the plan on in which no frame was dealt with, the
/// last slice apart: it may be shorter.
fn outage_ns(o: &Observation) -> f64 {
    let [first, second, ..] = o.slices.as_slice() else { return 0.0 };
    let whole: Vec<&Slice> = from_plan(o).collect();
    let whole = &whole[..whole.len().saturating_sub(1)];
    let is_out = |slice: &Slice| taken(o, slice) == 0 && !slice.disturbed;
    let runs = whole.chunk_by(|a, b| is_out(a) == is_out(b)).filter(|run| is_out(run[0]));
    let longest = runs.map(<[&Slice]>::len).max().unwrap_or(0) as u64;
    (longest * (second.start_ns - first.start_ns)) as f64
}

#[cfg(test)]
mod tests {
    use niclab_device::Control;

    use super::*;
    use crate::control::put_control;

    const SLICE_NS: u64 = 1_000_000;

    /// A trial of 1 ms slices: 100 frames offered in each, so many dealt with. The plan begins in
    /// the slice `begun`; slices in `stalls` are disturbed.
    fn trial(
        done: impl Fn(usize) -> u64,
        count: usize,
        begun: Option<u64>,
        stalls: &[usize],
    ) -> Observation {
        let slice = |at: usize| Slice {
            start_ns: at as u64 * SLICE_NS,
            offered: 100,
            received: done(at),
            rx_missed: 100 - done(at),
            unsent: 0,
            disturbed: stalls.contains(&at),
        };
        let slices: Vec<Slice> = (0..count).map(slice).collect();
        let received: u64 = slices.iter().map(|slice| slice.received).sum();
        let offered = 100 * count as u64;
        let control = begun.map(|begun_ns| Control {
            planned: 50,
            done: 40,
            refused: 10,
            begun_ns: Some(begun_ns),
            ended_ns: Some(begun_ns + 20_000_000),
            busy_ns: 5_000_000,
            ..Control::default()
        });
        Observation {
            offered,
            received,
            lost: offered - received,
            duration_ns: count as u64 * SLICE_NS,
            slices,
            control,
            ..Observation::default()
        }
    }

    fn metric(o: &Observation, name: &str) -> Option<f64> {
        let mut metrics = Metrics::new();
        put_windows(&mut metrics, o);
        o.control.iter().for_each(|control| put_control(&mut metrics, control, o.duration_ns));
        metrics.get(name).map(|quantity| quantity.value)
    }

    #[test]
    fn what_was_lost_before_the_plan_or_in_a_stall_is_not_what_the_plan_blocked() {
        // Nothing comes back in the slices 3 and 4, in front of the plan; 12, a stall; 15 and 16.
        let is_out = |at| [3, 4, 12, 15, 16].contains(&at);
        let o = trial(|at| if is_out(at) { 0 } else { 100 }, 40, Some(10_500_000), &[12]);
        assert_eq!(metric(&o, "blocked_ns"), Some(2e6));
        assert_eq!(metric(&o, "blocked_all_ns"), Some(5e6));
        assert_eq!(metric(&o, "outage_ns"), Some(2e6));
        // The slice into which the first operation falls is the plan's.
        let o = trial(|at| if at == 10 { 0 } else { 100 }, 40, Some(10_500_000), &[]);
        assert_eq!(metric(&o, "blocked_ns"), Some(1e6));
    }

    #[test]
    fn who_saw_nothing_behind_the_plan_saw_no_recovery() {
        let stalls: Vec<usize> = (20..40).collect();
        let o = trial(|_| 100, 40, Some(20_000_000), &stalls);
        assert_eq!(metric(&o, "recovered_ns"), None);
        assert_eq!(metric(&o, "lowest_ratio"), None);
    }

    #[test]
    fn windows_begin_with_the_plan() {
        let o = trial(|_| 100, 65, Some(23_400_000), &[40]);
        let windows = windows(&o);
        let starts: Vec<i64> = windows.iter().map(|window| window.start_ns / 1_000_000).collect();
        assert_eq!(starts, [-20, -10, 0, 10, 20, 30]);
        assert!(windows.iter().all(|window| window.done == 1_000));
        let disturbed: Vec<bool> = windows.iter().map(|window| window.disturbed).collect();
        assert_eq!(disturbed, [false, false, false, true, false, false]);
        assert!(super::windows(&trial(|_| 100, 1, None, &[])).is_empty());
    }

    #[test]
    fn an_outage_of_known_length_is_found_with_its_loss_and_its_end() {
        // Dead from 20 ms to 37 ms, then at 80 % until 45 ms.
        let done = |at| match at {
            20..37 => 0,
            37..45 => 80,
            _ => 100,
        };
        let o = trial(done, 100, Some(20_000_000), &[]);
        let of = |name| metric(&o, name);
        assert_eq!(of("outage_ns"), Some(17e6));
        let blocked_ns = of("blocked_ns").unwrap();
        assert!((blocked_ns - 18.6e6).abs() < 1.0, "{blocked_ns}");
        assert_eq!((of("losing_windows"), of("zero_windows")), (Some(3.0), Some(1.0)));
        assert_eq!((of("lowest_ratio"), of("recovered_ns")), (Some(0.0), Some(30e6)));
        assert_eq!((of("batch_ns"), of("operations_per_s")), (Some(20e6), Some(2_500.0)));
        assert_eq!(of("control_busy_ratio"), Some(0.25));
        assert_eq!(of("operations_refused"), Some(10.0));
    }

    #[test]
    fn what_did_not_recover_has_no_time_of_recovery() {
        let o = trial(|at| if at < 20 { 100 } else { 50 }, 60, Some(20_000_000), &[]);
        assert_eq!(metric(&o, "recovered_ns"), None);
        let unmoved = trial(|_| 100, 60, Some(20_000_000), &[]);
        assert_eq!(metric(&unmoved, "recovered_ns"), Some(0.0));
    }

    #[test]
    fn a_stall_of_the_machine_is_no_outage() {
        let done = |at| if (30..35).contains(&at) { 0 } else { 100 };
        let stalls: Vec<usize> = (30..35).collect();
        let o = trial(done, 60, Some(20_000_000), &stalls);
        let of = |name| metric(&o, name);
        assert_eq!((of("outage_ns"), of("zero_windows")), (Some(0.0), Some(0.0)));
        assert_eq!((of("windows"), of("undisturbed_windows")), (Some(6.0), Some(5.0)));
        assert_eq!((of("lowest_ratio"), of("recovered_ns")), (Some(1.0), Some(0.0)));
        assert!(of("blocked_all_ns").unwrap() > 0.0, "the loss is not hidden");
        let whole = trial(done, 60, Some(20_000_000), &[]);
        assert_eq!(metric(&whole, "outage_ns"), Some(5e6));
    }

    #[test]
    fn a_trial_without_a_plan_has_no_metrics_of_one() {
        let o = trial(|_| 100, 60, None, &[]);
        assert_eq!(metric(&o, "windows"), Some(6.0));
        for name in ["lowest_ratio", "recovered_ns", "batch_ns", "operations_done"] {
            assert_eq!(metric(&o, name), None, "{name}");
        }
    }
}
