//! The choice of the next trial. It depends on the trials so far alone.
//!
//! Goals are dealt with one after the other, the strictest first, so that small loads are measured
//! first (RFC 9971, "Consequences"). For each a rough search of single initial trials finds where
//! its bounds may be; then trials of the final duration confirm them, or move on from there. A
//! trial counts for all goals. The choice of loads is left free by the RFC.

use super::{
    Bounds, ControllerInput, ControllerOutput, LoadClassification, Loads, Regularity, SearchGoal,
    TrialInput, TrialOutput, TrialResult, by_load, classify, goal_result,
};

/// Searches until each goal has a regular result or can have none, or the trials are used up.
///
/// `measure` makes a trial; `None` ends the search.
pub fn search(
    input: &ControllerInput,
    mut measure: impl FnMut(TrialInput) -> Option<TrialOutput>,
) -> ControllerOutput {
    let mut trials = Vec::new();
    while let Some(input) = next_trial(input, &trials) {
        let Some(output) = measure(input) else { break };
        trials.push(TrialResult { input, output });
    }
    let results = input.goals.iter().map(|goal| goal_result(goal, input, &trials));
    ControllerOutput { results: results.collect(), trials }
}

/// The trial that comes after these; `None` where the search is at its end.
pub fn next_trial(input: &ControllerInput, trials: &[TrialResult]) -> Option<TrialInput> {
    if trials.len() >= input.trials_max as usize {
        return None;
    }
    let mut goals: Vec<&SearchGoal> = input.goals.iter().collect();
    goals.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
    let loads = by_load(trials);
    goals.into_iter().find_map(|goal| {
        let rough = rough(goal);
        let of = |goal: &SearchGoal, guess_pps| {
            let load_pps = Choice { input, goal, loads: &loads }.load_pps(guess_pps)?;
            Some(TrialInput { load_pps, duration_ns: goal.final_ns })
        };
        let rough_bounds = Bounds::relevant(&rough, &loads);
        let hint_pps = rough_bounds
            .upper_pps
            .map_or(input.max_load_pps, |upper_pps| forwarded_pps(&loads[&upper_pps]));
        of(&rough, hint_pps)
            .or_else(|| of(goal, rough_bounds.lower_pps.unwrap_or(input.min_load_pps)))
    })
}

/// The goal as a single initial trial judges it.
fn rough(goal: &SearchGoal) -> SearchGoal {
    SearchGoal { final_ns: goal.initial_ns, sum_ns: goal.initial_ns, ..goal.clone() }
}

/// The forwarded rate of a load above the limit, frames a second.
fn forwarded_pps(trials: &[TrialResult]) -> u64 {
    trials.iter().map(TrialResult::forwarding_rate_pps).fold(0.0, f64::max) as u64
}

/// The choice of a load for one goal.
struct Choice<'a> {
    input: &'a ControllerInput,
    goal: &'a SearchGoal,
    loads: &'a Loads,
}

impl Choice<'_> {
    /// The load of the next trial; `None` where the goal has its result. `guess_pps` is where a
    /// lower bound may be.
    fn load_pps(&self, guess_pps: u64) -> Option<u64> {
        let bounds = Bounds::relevant(self.goal, self.loads);
        if bounds.regularity(self.goal, self.input) != Regularity::Stopped {
            return None;
        }
        let (min, max) = (self.input.min_load_pps, self.input.max_load_pps);
        Some(match (bounds.lower_pps, bounds.upper_pps) {
            (None, None) => guess_pps.clamp(min, max),
            (None, Some(upper)) => self.below(upper).min(guess_pps).max(min),
            (Some(lower), None) if guess_pps > lower => guess_pps.min(max),
            (Some(lower), None) => self.above(lower, guess_pps).min(max),
            (Some(lower), Some(upper)) => middle(lower, upper),
        })
    }

    /// One width below `upper_pps`, and twice as far each time that this did not do.
    fn below(&self, upper_pps: u64) -> u64 {
        let failed = self.measured(LoadClassification::UpperBound, 0);
        let load = upper_pps as f64 * (1.0 - self.goal.width).powi(steps(failed));
        (load.ceil() as u64).min(upper_pps - 1)
    }

    /// One width above `lower_pps`, and twice as far each time from `guess_pps` on that this did
    /// not do.
    fn above(&self, lower_pps: u64, guess_pps: u64) -> u64 {
        let passed = self.measured(LoadClassification::LowerBound, guess_pps);
        let load = lower_pps as f64 / (1.0 - self.goal.width).powi(steps(passed));
        (load as u64).max(lower_pps + 1)
    }

    /// How many loads from `from_pps` on are of this class by trials of full length.
    fn measured(&self, class: LoadClassification, from_pps: u64) -> usize {
        let is_of = |trials: &&Vec<TrialResult>| {
            trials.iter().any(|trial| trial.is_full_length(self.goal))
                && classify(self.goal, trials) == class
        };
        self.loads.range(from_pps..).map(|(_, trials)| trials).filter(is_of).count()
    }
}

/// 1, 2, 4, … widths.
fn steps(tries: usize) -> i32 {
    1 << tries.saturating_sub(1).min(20)
}

/// By ratio, as widths are.
fn middle(lower_pps: u64, upper_pps: u64) -> u64 {
    let middle = (lower_pps as f64 * upper_pps as f64).sqrt().round() as u64;
    middle.clamp(lower_pps + 1, upper_pps - 1)
}
