//! The order in which the trials of a run are made: random, and fixed by its seed.

use std::collections::{BTreeMap, BTreeSet};

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::supported::can_make;
use super::{ExperimentRun, PlannedRate, RunDevice, Visit};
use crate::variants::groups;

/// Every trial of every repeat, set-ups and devices in random order within a repeat. What is
/// compared comes one behind the other: of a program the devices, of requests in memory the modes,
/// too.
pub(super) fn order(run: &ExperimentRun, devices: &[RunDevice], seed: u64) -> Vec<Visit> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    if devices.iter().any(|device| device.variant.is_some()) {
        return alternating(run, devices, &mut random);
    }
    let mut by_setup: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, trial) in run.trials.iter().enumerate().filter(|(_, of)| !of.is_in_memory()) {
        by_setup.entry(trial.setup).or_default().push(at);
    }
    let bases = bases(run);
    let mut compared = compared(run);
    let mut order = Vec::new();
    for repeat in 0..run.repeats as usize {
        compared.shuffle(&mut random);
        for trials in &compared {
            let mut visits = Vec::new();
            for &at in trials {
                let able = |(_, of): &(usize, &RunDevice)| can_make(of, run, at);
                let able = devices.iter().enumerate().filter(able).map(|(device, _)| device);
                visits.extend(able.map(|device| Visit { repeat, device, trials: vec![at] }));
            }
            visits.shuffle(&mut random);
            order.extend(visits);
        }
        let mut visits = Vec::new();
        for (device, about) in devices.iter().enumerate() {
            for trials in by_setup.values() {
                let able = trials.iter().copied().filter(|&at| can_make(about, run, at));
                let able: Vec<usize> = able.collect();
                if !able.is_empty() {
                    let trials = shuffled(run, &able, &mut random);
                    visits.push(Visit { repeat, device, trials });
                }
            }
        }
        visits.shuffle(&mut random);
        if repeat == 0 {
            // Rates hang on maxima of other set-ups: these are measured first.
            let is_base = |visit: &Visit| visit.trials.iter().any(|at| bases.contains(at));
            visits.sort_by_key(|visit| !is_base(visit));
        }
        order.extend(visits);
    }
    order
}

/// The order of a run with variants: each trial of a repeat is made under all variants, one behind
/// the other, in random order; these rounds are in random order too. In the first repeat the rounds
/// whose rates hang on maxima come last.
fn alternating(
    run: &ExperimentRun,
    devices: &[RunDevice],
    random: &mut Xoshiro256PlusPlus,
) -> Vec<Visit> {
    let groups = groups(devices);
    let mut order = Vec::new();
    for repeat in 0..run.repeats as usize {
        let mut rounds = Vec::new();
        for group in &groups {
            for trial in 0..run.trials.len() {
                let able = |device: &&usize| can_make(&devices[**device], run, trial);
                let visit = |&device: &usize| Visit { repeat, device, trials: vec![trial] };
                let mut visits: Vec<Visit> = group.iter().filter(able).map(visit).collect();
                visits.shuffle(random);
                rounds.push((trial, visits));
            }
        }
        rounds.shuffle(random);
        if repeat == 0 {
            let hangs =
                |trial: usize| matches!(run.trials[trial].rate, PlannedRate::ShareOf { .. });
            rounds.sort_by_key(|(trial, _)| hangs(*trial));
        }
        order.extend(rounds.into_iter().flat_map(|(_, visits)| visits));
    }
    order
}

/// Trials that the rates of trials of other set-ups are shares of.
fn bases(run: &ExperimentRun) -> BTreeSet<usize> {
    let of = run.trials.iter().filter_map(|trial| match trial.rate {
        PlannedRate::ShareOf { of, .. } => {
            run.trials.get(of).filter(|base| base.setup != trial.setup).map(|_| of)
        }
        _ => None,
    });
    of.collect()
}

/// Trials in memory by what is compared: those that differ in their mode alone.
fn compared(run: &ExperimentRun) -> Vec<Vec<usize>> {
    let place = |at: usize| {
        let mut point = run.trials[at].point.clone();
        point.remove("mode");
        point
    };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for at in (0..run.trials.len()).filter(|&at| run.trials[at].is_in_memory()) {
        match groups.iter_mut().find(|group| place(group[0]) == place(at)) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    groups
}

/// Trials in random order, but those whose rate hangs on others after them.
fn shuffled(run: &ExperimentRun, trials: &[usize], random: &mut impl RngExt) -> Vec<usize> {
    let mut trials = trials.to_vec();
    trials.shuffle(random);
    trials.sort_by_key(|&at| run.trials[at].rate != PlannedRate::Saturate);
    trials
}
