//! How long a run will take, before it starts.
//!
//! The figures are those of a small cloud machine, on the careful side; a run also watches the time
//! it really takes.

use niclab_device::{Plan, RuleBlock, RuleWork, Setup};

use crate::run::{ExperimentRun, Knee, RunDevice, TaskIndex, Trial, Visit, can_make, is_able};
use crate::spec::KneeKind;
use crate::throughput::Search;

/// Rules installed and taken out again, a second.
pub(crate) const RULES_PER_S: f64 = 1_000_000.0;
/// Rules of a file read and installed, a second: under many masks far fewer than under one.
const FILE_RULES_PER_S: f64 = 100_000.0;
/// Bringing a device into a state, without its rules.
const SETUP_S: f64 = 0.05;
/// Starting, draining and storing a trial, beside its own duration.
const TRIAL_S: f64 = 0.05;
/// Starting a server, and waiting for its end.
pub(crate) const SERVER_S: f64 = 0.05;
/// A command that changes a setting.
const COMMAND_S: f64 = 0.05;
/// Flows made a second.
const FLOWS_PER_S: f64 = 5_000_000.0;

/// Of the time that a trial tells of, what a model takes to compute it.
const VIRTUAL_PACE: f64 = 0.02;

/// Seconds that a device takes for a second of a trial.
pub fn pace(device: &RunDevice) -> f64 {
    if device.about.in_virtual_time { VIRTUAL_PACE } else { 1.0 }
}

/// Seconds that `run` will take on these devices.
pub fn seconds(run: &ExperimentRun, devices: &[RunDevice]) -> f64 {
    let visits = run.order.iter().map(|visit| {
        let setup = visit_setup_s(run, visit);
        let trials = || visit.trials.iter().map(|&at| &run.trials[at]);
        let made = trials().map(|trial| trial_s(run, trial)).sum::<f64>();
        let reckoned = trials().map(|trial| reckoned_s(run, trial)).sum::<f64>();
        let device = devices.get(visit.device);
        let load = |device| trials().map(|trial| load_s(run, trial, device)).sum::<f64>();
        let lab = reckoned + device.map_or(0.0, command_s);
        device.map_or(1.0, pace) * (setup + made) + lab + device.map_or(0.0, load)
    });
    let searches = devices.iter().flat_map(|device| {
        let able = |knee: &&Knee| is_able(device, &knee.place.with_rules(1).setup(knee.seed, 64));
        run.knees.iter().filter(able).map(|knee| pace(device) * knee_s(run, knee))
    });
    let throughputs = devices.iter().flat_map(|device| {
        let able = |search: &&Search| can_make(device, run, search.of);
        run.searches.iter().filter(able).map(|search| pace(device) * search_s(run, search))
    });
    visits.sum::<f64>() + searches.sum::<f64>() + throughputs.sum::<f64>()
}

/// Seconds that the command of a variant takes as a rule before a trial of this device.
pub fn command_s(device: &RunDevice) -> f64 {
    if device.variant.is_some() { COMMAND_S } else { 0.0 }
}

/// Seconds that a search for a throughput takes as a rule.
pub fn search_s(run: &ExperimentRun, search: &Search) -> f64 {
    let trial = &run.trials[search.of];
    let load = trial.load().and_then(|at| run.loads.get(at));
    let warmup_s = load.map_or(0.0, |load| load.warmup_ns as f64 / 1e9);
    setup_s(&run.setups[trial.setup]) + search.seconds(TRIAL_S + warmup_s)
}

/// Seconds to carry a plan out where that is not part of the load's time, and to put its rules
/// back.
fn plan_s(plan: &Plan, setup: &Setup) -> f64 {
    match plan {
        Plan::Rest | Plan::Rss(_) => 0.0,
        Plan::Rules(plan) => match &plan.work {
            RuleWork::Create(block) => block_s(block),
            // Done and put back.
            RuleWork::Change { block, .. } => {
                setup.rules.get(*block).map_or(0.0, |b| 2.0 * block_s(b))
            }
            RuleWork::Renew { block } => setup.rules.get(*block).map_or(0.0, block_s),
        },
    }
}

/// Seconds to bring a device into the state of a visit. Programs are measured one by one in one
/// that has nothing set up, and so are requests in memory.
pub fn visit_setup_s(run: &ExperimentRun, visit: &Visit) -> f64 {
    let is_in_memory = |at: &usize| run.trials[*at].is_in_memory();
    let setup = run.setup_of(visit).filter(|_| !visit.trials.iter().all(is_in_memory));
    setup.map_or(0.0, setup_s)
}

/// Seconds to bring a device into this state.
pub fn setup_s(setup: &Setup) -> f64 {
    SETUP_S + setup.rules.iter().map(block_s).sum::<f64>()
}

fn block_s(block: &RuleBlock) -> f64 {
    let rules_per_s = match block {
        RuleBlock::File { .. } => FILE_RULES_PER_S,
        _ => RULES_PER_S,
    };
    f64::from(block.count()) / rules_per_s
}

/// Seconds that one trial takes.
pub fn trial_s(run: &ExperimentRun, trial: &Trial) -> f64 {
    let plan = trial.plan().and_then(|at| run.plans.get(at));
    let plan_s =
        plan.zip(run.setups.get(trial.setup)).map_or(0.0, |(plan, setup)| plan_s(plan, setup));
    match trial.task {
        TaskIndex::Offer { load, .. } => plan_s + offered_s(run, load),
        TaskIndex::Operate { .. } => plan_s + TRIAL_S,
        _ => {
            let of = run.kind.of();
            let task_s = of.task(run, trial).and_then(|task| of.task_s(&task));
            task_s.unwrap_or(0.0) + TRIAL_S
        }
    }
}

/// Seconds that the lab itself computes for a trial, whatever the device.
pub fn reckoned_s(run: &ExperimentRun, trial: &Trial) -> f64 {
    let load = trial.load().and_then(|at| run.loads.get(at));
    load.map_or(0.0, |load| run.kind.of().reckoned_s(load))
}

/// Seconds that loading a program takes a device, of the first time the share of each repeat.
pub fn load_s(run: &ExperimentRun, trial: &Trial, device: &RunDevice) -> f64 {
    let load_s = f64::from(device.about.program_load_ms) / 1e3;
    match trial.task {
        TaskIndex::Process { .. } => load_s / f64::from(run.repeats.max(1)),
        _ => 0.0,
    }
}

fn offered_s(run: &ExperimentRun, load: usize) -> f64 {
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
            let pair = setup_s + SETUP_S + 2.0 * offered_s(run, knee.load);
            probes * f64::from(knee.spec.pairs) * pair
        }
    }
}
