//! How long a run will take, before it starts.
//!
//! The figures are those of a small cloud machine, on the careful side; a run also watches the time
//! it really takes.

use niclab_device::{RuleBlock, Setup};

use crate::run::{ExperimentRun, Knee, RunDevice, Trial, is_able};
use crate::spec::KneeKind;

/// Rules installed and taken out again, a second.
const RULES_PER_S: f64 = 1_000_000.0;
/// Rules of a file read and installed, a second: under many masks far fewer than under one.
const FILE_RULES_PER_S: f64 = 100_000.0;
/// Bringing a device into a state, without its rules.
const SETUP_S: f64 = 0.05;
/// Starting, draining and storing a trial, beside its own duration.
const TRIAL_S: f64 = 0.1;
/// Flows made a second.
const FLOWS_PER_S: f64 = 5_000_000.0;

/// Seconds that `run` will take on these devices.
pub fn seconds(run: &ExperimentRun, devices: &[RunDevice]) -> f64 {
    let visits = run.order.iter().map(|visit| {
        let setup = run.setup_of(visit).map_or(0.0, setup_s);
        setup + visit.trials.iter().map(|&at| trial_s(run, &run.trials[at])).sum::<f64>()
    });
    let searches = devices.iter().flat_map(|device| {
        let able = |knee: &&Knee| is_able(device, &knee.place.with_rules(1).setup(knee.seed, 64));
        run.knees.iter().filter(able).map(|knee| knee_s(run, knee))
    });
    visits.sum::<f64>() + searches.sum::<f64>()
}

/// Seconds to bring a device into this state.
pub fn setup_s(setup: &Setup) -> f64 {
    let time_s = |block: &RuleBlock| match block {
        RuleBlock::Any { .. } => 1.0 / RULES_PER_S,
        RuleBlock::File { rules_count, .. } => f64::from(*rules_count) / FILE_RULES_PER_S,
        RuleBlock::FiveTuples { count, .. } => f64::from(*count) / RULES_PER_S,
    };
    SETUP_S + setup.rules.iter().map(time_s).sum::<f64>()
}

/// Seconds that one trial takes.
pub fn trial_s(run: &ExperimentRun, trial: &Trial) -> f64 {
    load_s(run, trial.load)
}

fn load_s(run: &ExperimentRun, load: usize) -> f64 {
    let Some(load) = run.loads.get(load) else {
        return TRIAL_S;
    };
    let measured = (load.duration_ns + load.warmup_ns) as f64 / 1e9;
    TRIAL_S + measured + f64::from(load.flows.count) / FLOWS_PER_S
}

/// Seconds that a search takes at worst.
pub fn knee_s(run: &ExperimentRun, knee: &Knee) -> f64 {
    let probes = crate::knee::probes_max(&knee.spec) as f64;
    // A bisection halves the number of rules as often as it does not.
    let setup_s = SETUP_S + f64::from(knee.spec.rules_max) / 2.0 / RULES_PER_S;
    match knee.spec.kind {
        KneeKind::Capacity => probes * setup_s,
        KneeKind::Throughput => {
            let pair = setup_s + SETUP_S + 2.0 * load_s(run, knee.load);
            probes * f64::from(knee.spec.pairs) * pair
        }
    }
}
