//! Tuples in memory and workers: the time of each pane, and its breakdown.

use niclab_analytics::cost::WorkStep;
use niclab_analytics::tuple::{PAYLOAD_LEN_MAX, TUPLES_MAX};
use niclab_packet::flow::EXPONENT_MAX;

use super::super::staged::{check_ranges, median, path, repeat};
use super::load::{KEYS_MAX, PASSES, TUPLES};
use super::pass::{PaneTimes, StagedWorkers};
use crate::cores;
use crate::counting::{AnalyticsObservation, Counting, WorkStepTime};
use crate::face::{DeviceError, PathNode};

/// Most workers.
pub const WORKERS_MAX: usize = niclab_analytics::card::WORKERS_MAX;

/// Panes before any is measured, at least: then the windows are full.
pub const WARM_PANES: usize = 4;
/// Fewest panes that are measured.
pub const PANES_MIN: usize = 3;
/// Panes whose results are timed.
pub const RESULT_PANES: usize = 5;

/// The path of the tuples. The card's stage ends before the workers are timed, and is timed apart.
pub(in crate::soft) fn places() -> Vec<PathNode> {
    path([
        ("memory", "tuples of all sources"),
        ("device", "card's stage, RSS or a program: timed apart"),
        ("memory", "a queue or a ring for each worker"),
        ("function", "operators on timely dataflow, a worker on each core"),
    ])
}

/// Counts tuples on the cores that the setting asks for. Returns the frames that the card took,
/// too.
pub(in crate::soft) fn count(
    of: &Counting,
    is_pinned: bool,
) -> Result<(AnalyticsObservation, u64), DeviceError> {
    check(of)?;
    let (allowed, count) = (cores::allowed(), usize::from(of.workers));
    if count > allowed.len() {
        let capability = format!("{count} workers: there are {} cores", allowed.len());
        return Err(DeviceError::lacks(capability));
    }
    let mut staged = StagedWorkers::new(of, (&allowed[..count], is_pinned))?;
    match observe(of, &mut staged) {
        Ok(observed) => Ok((observed, staged.end_all()?)),
        // The reason of workers that have ended says more.
        Err(error) => Err(staged.end_all().err().unwrap_or(error)),
    }
}

/// Measures pane by pane.
fn observe(of: &Counting, staged: &mut StagedWorkers) -> Result<AnalyticsObservation, DeviceError> {
    repeat(of.warmup_ns, WARM_PANES, || staged.count_pane(false))?;
    let taking_ns = |staged: &StagedWorkers| staged.observed.working.of(WorkStep::HandOver).0;
    let before_ns = taking_ns(staged);
    let made_before = staged.made();
    let measured = repeat(of.duration_ns, PANES_MIN, || staged.count_pane(false))?;
    let tuples = TUPLES * PASSES;
    let timed = (staged.made() - made_before) as f64;
    let frames = staged.frames;
    let worked_ns: Vec<u64> = measured.iter().map(|pane| pane.cores_ns.iter().sum()).collect();
    let received_ns: u64 = measured.iter().map(|pane| pane.received_ns).sum();
    let times = Times {
        receiving_ns: std::array::from_fn(|step| {
            measured.iter().map(|pane| pane.receiving_ns[step]).sum()
        }),
        taking_ns: taking_ns(staged) - before_ns,
        received_ns,
        counted_ns: worked_ns.iter().sum::<u64>() - received_ns,
    };
    let steps = times.by_step(timed);
    let ended = repeat(0, RESULT_PANES, || staged.count_pane(true))?;
    let mut results_ns: Vec<u64> = ended.iter().filter_map(|pane| pane.result_ns).collect();
    results_ns.sort_unstable();
    let busiest = |pane: &PaneTimes| pane.cores_ns.iter().copied().max().unwrap_or(0);
    Ok(AnalyticsObservation {
        tuples,
        frames,
        windows: staged.windows,
        wrong: staged.wrong,
        panes_ns: measured.iter().map(busiest).collect(),
        worked_ns,
        steps,
        card_ns: median(measured.iter().map(|pane| pane.card_ns).collect()) as f64 / tuples as f64,
        results_ns,
    })
}

/// Refuses numbers out of their ranges.
fn check(of: &Counting) -> Result<(), DeviceError> {
    let workload = &of.workload;
    let ranges = [
        ("keys", workload.keys, 1, KEYS_MAX),
        ("payload", u32::from(workload.payload_len), 0, PAYLOAD_LEN_MAX as u32),
        ("batch", u32::from(workload.batch), 1, TUPLES_MAX as u32),
        ("workers", u32::from(of.workers), 1, WORKERS_MAX as u32),
    ];
    check_ranges(&ranges)?;
    if !(0.0..=EXPONENT_MAX).contains(&workload.zipf) {
        let reason = format!("zipf = {}: use 0 to {EXPONENT_MAX}", workload.zipf);
        return Err(DeviceError::BadLoad { reason });
    }
    Ok(())
}

/// Times of some panes, nanoseconds.
struct Times {
    /// By step of the receiving sides.
    receiving_ns: [u64; WorkStep::ALL.len()],
    /// Workers took tuples.
    taking_ns: u64,
    /// All of the receiving sides.
    received_ns: u64,
    /// All of the workers.
    counted_ns: u64,
}

impl Times {
    /// The steps of a number of tuples. A worker filters, counts and ranks where it does not take
    /// tuples.
    fn by_step(&self, tuples: f64) -> Vec<WorkStepTime> {
        let of = |step: WorkStep| {
            let receiving_ns = self.receiving_ns[step as usize];
            let ns = match step {
                WorkStep::HandOver => receiving_ns + self.taking_ns,
                WorkStep::Operator => self.counted_ns.saturating_sub(self.taking_ns),
                WorkStep::Receive | WorkStep::Demultiplex | WorkStep::Acknowledge => receiving_ns,
            };
            (step.name(), ns)
        };
        let in_steps: u64 = self.receiving_ns.iter().sum();
        let rest = ("rest", self.received_ns.saturating_sub(in_steps));
        let time = |(name, ns): (&str, u64)| WorkStepTime {
            name: name.to_owned(),
            tuple_ns: ns as f64 / tuples,
        };
        WorkStep::ALL.into_iter().map(of).chain([rest]).map(time).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_time_is_in_one_step_or_the_rest() {
        let receiving_ns = [10, 20, 30, 40, 0];
        let times = Times { receiving_ns, taking_ns: 5, received_ns: 150, counted_ns: 65 };
        let steps: Vec<(String, f64)> =
            times.by_step(10.0).into_iter().map(|step| (step.name, step.tuple_ns)).collect();
        let expected = [
            ("receive", 1.0),
            ("demultiplex", 2.0),
            ("hand_over", 3.5),
            ("acknowledge", 4.0),
            ("operator", 6.0),
            ("rest", 5.0),
        ];
        assert_eq!(steps, expected.map(|(name, ns)| (name.to_owned(), ns)));
    }
}
