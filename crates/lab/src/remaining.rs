//! The trials that a resumed run still has to measure: missing ones and failed ones.

use niclab_result::{Outcome, Sample};

use crate::device_samples::DeviceSamples;
use crate::run::{ExperimentRun, Run, RunDevice, Trial};
use crate::runner::{OpenedDevice, search, throughput};

/// The remaining work of a resumed run, from its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemainingWork {
    /// Trials that have not been made, those that failed among them.
    pub trials: usize,
    /// Trials that were made and failed.
    pub failed: usize,
    /// Searches that have not come to their end.
    pub searches: usize,
}

impl RemainingWork {
    /// Nothing at all.
    pub fn is_nothing(&self) -> bool {
        (self.trials, self.searches) == (0, 0)
    }
}

/// Returns the remaining work of `run`, given its testbeds and the samples measured so far.
pub fn remaining(run: &Run, beds: &[OpenedDevice<'_>], done: &[Sample]) -> RemainingWork {
    let mut left = RemainingWork::default();
    for experiment in &run.experiments {
        let is_present = |at: &usize| beds.get(*at).is_some_and(Result::is_ok);
        let devices = run.devices.iter().zip(run.beds()).enumerate();
        for (at, (device, _)) in devices.filter(|(_, (_, bed))| is_present(bed)) {
            add(&mut left, experiment, (at, device), done);
        }
    }
    left
}

/// As the runner does: what failed is as good as missing.
fn add(
    left: &mut RemainingWork,
    experiment: &ExperimentRun,
    of: (usize, &RunDevice),
    done: &[Sample],
) {
    let (at, device) = of;
    let all = DeviceSamples::of(experiment, device, done);
    let whole = done.iter().filter(|s| !matches!(s.outcome, Outcome::Failed { .. }));
    let whole = DeviceSamples::of(experiment, device, whole);
    let has_failed = |trial: &Trial, repeat| {
        let observed = all.latest(trial.kind.name(), repeat, &trial.point);
        observed.is_some_and(|observed| matches!(observed.outcome, Outcome::Failed { .. }))
    };
    for visit in experiment.order.iter().filter(|visit| visit.device == at) {
        let repeat = visit.repeat as u32;
        let trials = visit.trials.iter().map(|&trial| &experiment.trials[trial]);
        for trial in trials.filter(|trial| whole.is_missing(trial, repeat)) {
            left.trials += 1;
            left.failed += usize::from(has_failed(trial, repeat));
        }
    }
    let open = experiment.knees.iter().filter(|knee| search::is_missing(&whole, knee));
    let unsearched = experiment.searches.iter().filter(|s| throughput::is_missing(&whole, s));
    left.searches += open.count() + unsearched.count();
}

#[cfg(test)]
mod tests {
    use niclab_device::Testbed;

    use super::*;
    use crate::runner::RunEnd;
    use crate::simulated::{ABSENT, Bench, Nature};

    /// What is left with the device there, and with it away.
    fn found(bench: &mut Bench) -> (RemainingWork, RemainingWork) {
        let (run, done) = (bench.run.clone(), bench.store.samples.clone());
        let beds: Vec<OpenedDevice<'_>> =
            bench.devices.iter_mut().map(|bed| Ok(bed as &mut dyn Testbed)).collect();
        (remaining(&run, &beds, &done), remaining(&run, &[Err(ABSENT.into())], &done))
    }

    /// Measures on until nothing is left, and counts what that took.
    fn check(bench: &mut Bench, failed: usize, searches: usize) {
        let (left, away) = found(bench);
        assert_eq!((left.failed, left.searches), (failed, searches));
        assert!(away.is_nothing(), "{away:?}");
        let before = bench.store.samples.len();
        bench.host.done_ratio = 0.0;
        assert_eq!(bench.execute(), RunEnd::Complete);
        let is_trial = |s: &&Sample| ["saturate", "latency", "light"].contains(&s.trial.as_str());
        let made = bench.store.samples[before..].iter().filter(is_trial).count();
        assert_eq!(made, left.trials);
        assert!(found(bench).0.is_nothing());
    }

    #[test]
    fn the_remaining_trials_are_those_that_a_resumed_run_makes() {
        let mut bench = Bench::new(vec![Nature::default()], &["frame=64"], 1);
        bench.host.samples_max = 12;
        assert_eq!(bench.execute(), RunEnd::Stopped);
        bench.host.samples_max = usize::MAX;
        let knees = bench.run.experiments[0].knees.len();
        check(&mut bench, 0, knees);
        check(&mut bench, 0, 0);
    }

    #[test]
    fn failed_trials_are_measured_again_and_counted_separately() {
        let mut bench = Bench::new(vec![Nature::default()], &["groups=0", "rules=0,1"], 2);
        assert_eq!(bench.execute(), RunEnd::Complete);
        let saturated = |s: &&mut Sample| s.trial == "saturate";
        for sample in bench.store.samples.iter_mut().filter(saturated).take(3) {
            sample.outcome = Outcome::Failed { reason: "no frame was due".into(), dropped: false };
        }
        check(&mut bench, 3, 0);
    }
}
