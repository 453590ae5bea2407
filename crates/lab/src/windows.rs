//! The effect of a plan on forwarding: a trial in time bins of 10 ms. One bin begins with the
//! plan's first operation.

use niclab_device::{LoadObservation, Slice};

use crate::measure::{Metrics, put};
use crate::statistics;

/// Length of a window, nanoseconds.
pub const WINDOW_NS: u64 = 10_000_000;

/// A window has recovered from this share of the median in front of the plan on.
const RECOVERED_SHARE: f64 = 0.95;

/// Share of the frames due that may be missing where the generator offered what was due; of few
/// frames, four times their square root.
const MISSING_MAX: f64 = 0.05;

/// A whole window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeBin {
    /// Its start, nanoseconds after the plan's first operation; below zero in front of it.
    pub start_ns: i64,
    /// Frames offered in it.
    pub offered: u64,
    /// Frames dealt with in it.
    pub done: u64,
    /// Frames due in it that found the device's ring full.
    pub missed: u64,
    /// It shows the device alone: all of its slices are [`Slices::is_clear`].
    pub is_clear: bool,
}

impl TimeBin {
    /// Frames dealt with, by those offered.
    pub fn share(&self) -> f64 {
        self.done as f64 / self.offered.max(1) as f64
    }
}

/// `true` for a slice that no stall of the machine fell into, nor into the one in front: that
/// behind a stall sees the backlog.
pub fn is_calm(slices: &[Slice], at: usize) -> bool {
    !slices[at].disturbed && (at == 0 || !slices[at - 1].disturbed)
}

/// Frames that came back in a slice; where rules drop, those that the device took in: when a frame
/// was dropped nobody saw.
pub fn taken(o: &LoadObservation, slice: &Slice) -> u64 {
    taken_of(slice, o.dropped)
}

fn taken_of(slice: &Slice, dropped: u64) -> u64 {
    match dropped {
        0 => slice.received,
        _ => slice.offered.saturating_sub(slice.rx_missed),
    }
}

/// The slices of a trial beside a plan.
pub struct Slices<'a> {
    slices: &'a [Slice],
    /// Frames that rules dropped.
    dropped: u64,
    /// When the plan began, nanoseconds after the start of the trial.
    begun_ns: u64,
    /// Length of a slice, nanoseconds.
    slice_ns: u64,
    /// Fewest frames of a slice into which the generator offered what was due.
    offered_min: f64,
}

impl<'a> Slices<'a> {
    /// `None` where there are less than two. `dropped` frames of the trial were dropped by rules.
    pub fn new(slices: &'a [Slice], dropped: u64, begun_ns: u64) -> Option<Slices<'a>> {
        let [first, second, ..] = slices else { return None };
        let slice_ns = (second.start_ns - first.start_ns).max(1);
        let due: u64 = slices.iter().map(|slice| slice.offered + slice.unsent).sum();
        let due = due as f64 / slices.len() as f64;
        let offered_min = due - (MISSING_MAX * due).max(4.0 * due.sqrt());
        Some(Slices { slices, dropped, begun_ns, slice_ns, offered_min })
    }

    fn of(o: &'a LoadObservation) -> Option<Slices<'a>> {
        let begun_ns = o.control.as_ref().and_then(|control| control.begun_ns).unwrap_or(0);
        Slices::new(&o.slices, o.dropped, begun_ns)
    }

    /// `true` where what a slice shows is the device's doing: it is [calm](is_calm), and what was
    /// due in it was offered. A generator whose core does something else, such as carrying out the
    /// plan, sends nothing meanwhile, and nothing comes back.
    fn is_clear(&self, at: usize) -> bool {
        let offered = self.slices[at].offered;
        is_calm(self.slices, at) && offered > 0 && offered as f64 >= self.offered_min
    }

    /// The whole windows. The slice into which the first operation falls belongs to what it does.
    pub fn windows(&self) -> Vec<TimeBin> {
        let begun = (self.begun_ns / self.slice_ns) as usize;
        let each = (WINDOW_NS / self.slice_ns).max(1) as usize;
        let first = begun % each;
        let window = |from: usize| {
            let of = &self.slices[from..from + each];
            TimeBin {
                start_ns: (from as i64 - begun as i64) * self.slice_ns as i64,
                offered: of.iter().map(|slice| slice.offered).sum(),
                done: of.iter().map(|slice| taken_of(slice, self.dropped)).sum(),
                missed: of.iter().map(|slice| slice.rx_missed).sum(),
                is_clear: (from..from + each).all(|at| self.is_clear(at)),
            }
        };
        let starts = (first..self.slices.len()).step_by(each);
        starts.take_while(|from| from + each <= self.slices.len()).map(window).collect()
    }

    /// The slices of the plan: from that on into which its first operation falls, as long as it
    /// lasts and a window more; all of them without a plan. Where they stand, and whether they are
    /// clear; `None` where less than half of them are.
    fn of_plan(&self, lasts_ns: Option<u64>) -> Option<Vec<(usize, bool)>> {
        let first = (self.begun_ns / self.slice_ns) as usize;
        let end_ns = lasts_ns.map_or(u64::MAX, |ns| self.begun_ns + ns + WINDOW_NS);
        let is_of = |at: &usize| self.slices[*at].start_ns < end_ns;
        let of = (first..self.slices.len()).filter(is_of).map(|at| (at, self.is_clear(at)));
        let of: Vec<(usize, bool)> = of.collect();
        let clear = of.iter().filter(|(_, is_clear)| *is_clear).count();
        (clear > 0 && 2 * clear >= of.len()).then_some(of)
    }

    /// The longest run of clear slices without a frame dealt with, the last of the trial apart (it
    /// may be shorter); it begins in one of these, and goes on for as long as the device is dead.
    fn outage_ns(&self, of: &[(usize, bool)]) -> u64 {
        let Some(((first, _), (last, _))) = of.first().zip(of.last()) else { return 0 };
        let is_out = |at: &usize| {
            self.is_clear(*at)
                && *at + 1 < self.slices.len()
                && taken_of(&self.slices[*at], self.dropped) == 0
        };
        let all: Vec<usize> = (*first..self.slices.len()).collect();
        let runs = all.chunk_by(|a, b| is_out(a) == is_out(b));
        let runs = runs.filter(|run| is_out(&run[0]) && run[0] <= *last);
        runs.map(<[_]>::len).max().unwrap_or(0) as u64 * self.slice_ns
    }
}

/// Adds the metrics of a trial over time.
///
/// | metric | meaning |
/// |---|---|
/// | `windows`, `undisturbed_windows` | windows of 10 ms of the plan (1), and the clear ones (2) |
/// | `losing_windows` | clear windows of the plan that lost a frame |
/// | `zero_windows` | clear windows of the plan that dealt with none |
/// | `dealt_ratio` | share of frames dealt with in clear windows of the plan (4), by that before |
/// | `outage_ns` | longest run of clear slices without a frame that begins in the plan (3) |
/// | `blocked_ns` | effective blocked time: frames missed in clear slices (3) by the rate planned |
/// | `blocked_all_ns` | frames lost in the whole trial, stalls included, divided by that rate |
/// | `lowest_ratio` | lowest share dealt with of a clear window from the plan on, by that before |
/// | `recovered_ns` | from the first operation to the end of the last low window, see below |
///
/// (1) Those that an operation falls into; to the end of the trial where the plan goes on behind
/// it, and all of them without a plan. (2) No stall fell into them, and what was due was offered.
/// (3) Of the plan and 10 ms behind it; none where less than half of them are clear. (4) None where
/// less than half of them are clear.
///
/// What is said of a share before is the median of the clear windows in front of the plan. A low
/// window is a clear one below 95 % of it; where the last of all is one, the device has not
/// recovered and there is no `recovered_ns`.
pub fn put_windows(metrics: &mut Metrics, o: &LoadObservation) {
    let Some(slices) = Slices::of(o) else { return };
    let control = o.control.as_ref();
    let lasts = control.and_then(|control| control.ended_ns.zip(control.begun_ns));
    let lasts_ns = lasts.map(|(ended, begun)| ended.saturating_sub(begun));
    let all = slices.windows();
    // Windows begin with the slice of the first operation.
    let last_ns = lasts_ns.map_or(i64::MAX, |ns| (slices.begun_ns % slices.slice_ns + ns) as i64);
    let is_of_plan =
        |window: &&TimeBin| control.is_none() || (0..last_ns.max(1)).contains(&window.start_ns);
    let of_plan: Vec<&TimeBin> = all.iter().filter(is_of_plan).collect();
    let clear: Vec<&TimeBin> = of_plan.iter().copied().filter(|window| window.is_clear).collect();
    let count = |is: fn(&&&TimeBin) -> bool| clear.iter().filter(is).count() as f64;
    put(metrics, "windows", of_plan.len() as f64, "windows");
    put(metrics, "undisturbed_windows", clear.len() as f64, "windows");
    put(metrics, "losing_windows", count(|window| window.missed > 0), "windows");
    put(metrics, "zero_windows", count(|window| window.done == 0), "windows");
    let frame_ns = o.duration_ns as f64 / o.planned as f64;
    if let Some(of) = slices.of_plan(lasts_ns) {
        let clear = of.iter().filter(|(_, is_clear)| *is_clear);
        let missed: u64 = clear.map(|(at, _)| slices.slices[*at].rx_missed).sum();
        put(metrics, "outage_ns", slices.outage_ns(&of) as f64, "ns");
        put(metrics, "blocked_ns", missed as f64 * frame_ns, "ns");
    }
    put(metrics, "blocked_all_ns", o.lost as f64 * frame_ns, "ns");
    if control.is_some() {
        let is_clear = 2 * clear.len() >= of_plan.len();
        put_recovery(metrics, &all, if is_clear { &clear } else { &[] });
    }
}

/// Adds how the shares dealt with stand to those in front of the plan.
fn put_recovery(metrics: &mut Metrics, all: &[TimeBin], of_plan: &[&TimeBin]) {
    let clear = || all.iter().filter(|window| window.is_clear);
    let before = clear().filter(|w| w.start_ns + WINDOW_NS as i64 <= 0);
    let before = before.map(TimeBin::share).collect::<Vec<_>>();
    let after = || clear().filter(|window| window.start_ns >= 0);
    let Some(before) = statistics::median(&before).filter(|before| *before > 0.0) else { return };
    let (done, offered) =
        of_plan.iter().fold((0, 0), |(done, offered), w| (done + w.done, offered + w.offered));
    if offered > 0 {
        put(metrics, "dealt_ratio", done as f64 / offered as f64 / before, "1");
    }
    if let Some(lowest) = after().map(TimeBin::share).min_by(f64::total_cmp) {
        put(metrics, "lowest_ratio", lowest / before, "1");
    }
    let low = |window: &&TimeBin| window.share() < RECOVERED_SHARE * before;
    let Some(last) = after().next_back().map(|window| window.start_ns) else { return };
    match after().rfind(low).map(|window| window.start_ns) {
        None => put(metrics, "recovered_ns", 0.0, "ns"),
        Some(start_ns) if start_ns != last => {
            put(metrics, "recovered_ns", start_ns as f64 + WINDOW_NS as f64, "ns");
        }
        Some(_) => {}
    }
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
    ) -> LoadObservation {
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
        LoadObservation {
            planned: offered,
            offered,
            received,
            lost: offered - received,
            duration_ns: count as u64 * SLICE_NS,
            slices,
            control,
            ..LoadObservation::default()
        }
    }

    fn metric(o: &LoadObservation, name: &str) -> Option<f64> {
        let mut metrics = Metrics::new();
        put_windows(&mut metrics, o);
        o.control.iter().for_each(|control| put_control(&mut metrics, control, o.duration_ns));
        metrics.get(name).map(|quantity| quantity.value)
    }

    #[test]
    fn losses_before_the_plan_or_in_a_stall_are_not_blocked_time() {
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
    fn recovery_needs_a_slice_after_the_plan() {
        let stalls: Vec<usize> = (20..40).collect();
        let o = trial(|_| 100, 40, Some(20_000_000), &stalls);
        assert_eq!(metric(&o, "recovered_ns"), None);
        assert_eq!(metric(&o, "lowest_ratio"), None);
    }

    #[test]
    fn windows_begin_with_the_plan() {
        let o = trial(|_| 100, 65, Some(23_400_000), &[40]);
        let windows = Slices::of(&o).unwrap().windows();
        let starts: Vec<i64> = windows.iter().map(|window| window.start_ns / 1_000_000).collect();
        assert_eq!(starts, [-20, -10, 0, 10, 20, 30]);
        assert!(windows.iter().all(|window| window.done == 1_000));
        let clear: Vec<bool> = windows.iter().map(|window| window.is_clear).collect();
        assert_eq!(clear, [true, true, true, false, true, true]);
        assert!(Slices::of(&trial(|_| 100, 1, None, &[])).is_none());
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
        assert_eq!((of("losing_windows"), of("zero_windows")), (Some(2.0), Some(1.0)));
        assert_eq!((of("lowest_ratio"), of("recovered_ns")), (Some(0.0), Some(30e6)));
        assert_eq!((of("batch_ns"), of("operations_per_s")), (Some(20e6), Some(2_500.0)));
        assert_eq!(of("control_busy_ratio"), Some(0.25));
        assert_eq!(of("operations_refused"), Some(10.0));
    }

    #[test]
    fn a_short_outage_is_not_hidden_by_a_long_trial() {
        // Dead for 10 ms of the 19 ms that the plan lasts, in 10 s: of its two windows one.
        let o = trial(|at| if (5_000..5_010).contains(&at) { 0 } else { 100 }, 10_000, None, &[]);
        let control = Control {
            begun_ns: Some(5_000_000_000),
            ended_ns: Some(5_019_000_000),
            ..Control::default()
        };
        let o = LoadObservation { control: Some(control), ..o };
        let of = |name| metric(&o, name);
        assert_eq!((of("losing_windows"), of("windows")), (Some(1.0), Some(2.0)));
        assert_eq!(of("dealt_ratio"), Some(0.5));
    }

    #[test]
    fn unsent_frames_are_no_outage() {
        // Its core carries out the plan for 15 ms and sends nothing; then it gives up what is late.
        let mut o = trial(|_| 100, 100, Some(20_000_000), &[]);
        for at in 20..35 {
            (o.slices[at].offered, o.slices[at].received) = (0, 0);
        }
        o.slices[35].unsent = 1_500;
        (o.offered, o.unsent, o.received) = (8_500, 1_500, 8_500);
        let of = |name| metric(&o, name);
        assert_eq!((of("outage_ns"), of("zero_windows")), (Some(0.0), Some(0.0)));
        assert_eq!((of("lowest_ratio"), of("recovered_ns")), (Some(1.0), Some(0.0)));
        // None of the plan's windows speaks for it; the one behind does not.
        assert_eq!((of("windows"), of("undisturbed_windows")), (Some(2.0), Some(0.0)));
        assert_eq!(of("dealt_ratio"), None);
    }

    #[test]
    fn an_unobserved_count_is_not_zero_and_later_losses_are_not_those_of_the_plan() {
        let stalls: Vec<usize> = (19..55).collect();
        let unseen = trial(|_| 100, 100, Some(20_000_000), &stalls);
        for name in ["outage_ns", "blocked_ns", "dealt_ratio"] {
            assert_eq!(metric(&unseen, name), None, "{name}");
        }
        // One of the two windows of the plan is clear, then none of its first half.
        let dealt = |stalls: &[usize], ended_ns| {
            let o = trial(|_| 100, 100, Some(20_000_000), stalls);
            let ended_ns = Some(ended_ns);
            let control = o.control.clone().map(|control| Control { ended_ns, ..control });
            metric(&LoadObservation { control, ..o }, "dealt_ratio")
        };
        assert_eq!(dealt(&[22], 40_000_000), Some(1.0));
        assert_eq!(dealt(&[22, 33], 50_000_000), None);
        // The plan lasts until 40 ms.
        let late = trial(|at| if at == 60 { 0 } else { 100 }, 100, Some(20_000_000), &[]);
        assert_eq!(
            (metric(&late, "blocked_ns"), metric(&late, "outage_ns")),
            (Some(0.0), Some(0.0))
        );
        assert_eq!(metric(&late, "blocked_all_ns"), Some(1e6));
        assert_eq!(metric(&late, "recovered_ns"), Some(50e6));
    }

    #[test]
    fn the_blocked_time_does_not_hang_on_what_a_stall_kept_from_being_sent() {
        let done = |at| if (30..35).contains(&at) { 0 } else { 100 };
        let stalls: Vec<usize> = (60..90).collect();
        let mut o = trial(done, 100, Some(30_000_000), &stalls);
        for at in stalls {
            (o.slices[at].offered, o.slices[at].received, o.slices[at].unsent) = (0, 0, 100);
        }
        (o.offered, o.unsent) = (7_000, 3_000);
        assert_eq!(metric(&o, "blocked_ns"), Some(5e6));
    }

    #[test]
    fn throughput_that_does_not_recover_has_no_recovery_time() {
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
        assert_eq!((of("windows"), of("undisturbed_windows")), (Some(2.0), Some(1.0)));
        assert_eq!(of("dealt_ratio"), Some(1.0));
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
