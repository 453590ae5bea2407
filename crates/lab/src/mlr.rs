//! MLRsearch (RFC 9971): the greatest loads of a device that meet several goals of loss.
//!
//! Nothing here knows a device: a [`ControllerInput`] says what is searched, [`search`] asks for
//! trials one at a time and gets their outputs. Names are those of the RFC; its sections are
//! cited by their titles. What a load is classified as, and which result a goal has, follows from
//! the trials alone, whoever chose their loads: see [`classify`] and [`goal_result`].
//!
//! Throughput by RFC 2544 (section 26.1) is the result of one goal, [`SearchGoal::rfc2544`].

mod controller;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use controller::{next_trial, search};

/// A goal of a search (RFC 9971, "Search Goal").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchGoal {
    /// Its name, such as `NDR`.
    pub name: String,
    /// Goal Loss Ratio: a trial that loses more is a high-loss trial; 0 to below 1.
    pub loss_ratio: f64,
    /// Goal Exceed Ratio: so much of the time of a lower bound may be that of high-loss trials; 0
    /// to below 1.
    pub exceed_ratio: f64,
    /// Goal Initial Trial Duration: the shortest trials made for this goal, nanoseconds.
    pub initial_ns: u64,
    /// Goal Final Trial Duration: a shorter trial makes no lower bound, nanoseconds.
    pub final_ns: u64,
    /// Goal Duration Sum: full-length trials of so long decide about a load, nanoseconds.
    pub sum_ns: u64,
    /// Goal Width: the search ends where the relevant bounds are no further apart than this share
    /// of the upper one.
    pub width: f64,
}

impl SearchGoal {
    /// The goal whose result is the throughput of RFC 2544 (RFC 9971, "MLRsearch Compliant with
    /// RFC 2544"); that standard has trials of 60 seconds.
    pub fn rfc2544(trial_ns: u64, width: f64) -> SearchGoal {
        SearchGoal {
            name: "RFC 2544".into(),
            loss_ratio: 0.0,
            exceed_ratio: 0.0,
            initial_ns: trial_ns,
            final_ns: trial_ns,
            sum_ns: trial_ns,
            width,
        }
    }

    /// `true` where the two loads are close enough: within the width, or neighbours.
    fn is_narrow(&self, lower_pps: u64, upper_pps: u64) -> bool {
        let gap = (upper_pps - lower_pps) as f64;
        // Loads are whole numbers: a load one width below another may be a frame further off.
        gap <= (self.width * upper_pps as f64).ceil().max(1.0)
    }
}

/// The input of the Controller (RFC 9971, "Controller Input").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerInput {
    /// The goals, at least one.
    pub goals: Vec<SearchGoal>,
    /// Min Load, frames a second, above 0: where it is an upper bound, there is nothing to find.
    pub min_load_pps: u64,
    /// Max Load, frames a second: no trial has a greater load.
    pub max_load_pps: u64,
    /// Most trials that a search makes.
    pub trials_max: u32,
}

/// A trial to make (RFC 9971, "Trial Input").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialInput {
    /// Trial Load: frames a second that are to be offered.
    pub load_pps: u64,
    /// Trial Duration, nanoseconds.
    pub duration_ns: u64,
}

/// The output of a trial (RFC 9971, "Trial Output").
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialOutput {
    /// Trial Loss Ratio: frames that were due and did not come back, whoever failed them, by those
    /// that were due; 0 to 1.
    pub loss_ratio: f64,
    /// Trial Effective Duration, nanoseconds, above 0: by which the trial counts.
    pub effective_duration_ns: u64,
}

/// A trial that was made (RFC 9971, "Trial Result").
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Its input.
    pub input: TrialInput,
    /// Its output.
    pub output: TrialOutput,
}

impl TrialResult {
    /// Trial Forwarding Rate: the load by the share of it that came back, frames a second.
    pub fn forwarding_rate_pps(&self) -> f64 {
        self.input.load_pps as f64 * (1.0 - self.output.loss_ratio)
    }

    fn is_full_length(&self, goal: &SearchGoal) -> bool {
        self.input.duration_ns >= goal.final_ns
    }

    fn is_high_loss(&self, goal: &SearchGoal) -> bool {
        self.output.loss_ratio > goal.loss_ratio
    }
}

/// The class of a load for a goal (RFC 9971, "Load Classification").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadClassification {
    /// It fails the goal, whatever further trials would show within the duration sum.
    UpperBound,
    /// It meets the goal, whatever further trials would show within the duration sum.
    LowerBound,
    /// Further trials decide.
    Undecided,
}

/// Classifies a load by its trials (RFC 9971, appendix "Load Classification Code").
pub fn classify(goal: &SearchGoal, trials: &[TrialResult]) -> LoadClassification {
    let sum = |is_full_length: bool, is_high_loss: bool| -> f64 {
        let of = trials.iter().filter(|trial| {
            trial.is_full_length(goal) == is_full_length && trial.is_high_loss(goal) == is_high_loss
        });
        of.map(|trial| trial.output.effective_duration_ns as f64).sum()
    };
    let full_low = sum(true, false);
    // Short trials of low loss make no lower bound, but they outweigh short ones of high loss.
    let balancing = sum(false, false) * goal.exceed_ratio / (1.0 - goal.exceed_ratio);
    let high = sum(true, true) + (sum(false, true) - balancing).max(0.0);
    let whole = (full_low + high).max(goal.sum_ns as f64);
    let tolerated = whole * goal.exceed_ratio;
    let (optimistic, pessimistic) = (high <= tolerated, whole - full_low <= tolerated);
    match (optimistic, pessimistic) {
        (true, true) => LoadClassification::LowerBound,
        (false, false) => LoadClassification::UpperBound,
        _ => LoadClassification::Undecided,
    }
}

/// Conditional Throughput of a load, frames a second (RFC 9971, appendix "Conditional Throughput
/// Code"): the forwarding rate of the full-length trial that stands, from the least loss on, where
/// the goal's share of the time ends; what is missing of the duration sum counts as lost.
pub fn conditional_throughput_pps(goal: &SearchGoal, load_pps: u64, trials: &[TrialResult]) -> f64 {
    let mut full: Vec<&TrialResult> = trials.iter().filter(|t| t.is_full_length(goal)).collect();
    full.sort_by(|a, b| a.output.loss_ratio.total_cmp(&b.output.loss_ratio));
    let time = |trial: &TrialResult| trial.output.effective_duration_ns as f64;
    let all: f64 = full.iter().map(|trial| time(trial)).sum();
    let mut remaining = all.max(goal.sum_ns as f64) * (1.0 - goal.exceed_ratio);
    let mut quantile_loss_ratio = 1.0;
    for trial in full {
        if remaining <= 0.0 {
            break;
        }
        quantile_loss_ratio = trial.output.loss_ratio;
        remaining -= time(trial);
    }
    if remaining > 0.0 {
        quantile_loss_ratio = 1.0;
    }
    load_pps as f64 * (1.0 - quantile_loss_ratio)
}

/// The result of a goal (RFC 9971, "Goal Result").
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// Regular, or why not.
    pub regularity: Regularity,
    /// Relevant Lower Bound, frames a second; of an irregular result an effective one: where there
    /// is no upper bound, the greatest lower bound.
    pub lower_pps: Option<u64>,
    /// Relevant Upper Bound, frames a second.
    pub upper_pps: Option<u64>,
    /// Conditional Throughput at the lower bound, frames a second.
    pub conditional_pps: Option<f64>,
}

/// Whether the stop rule of a goal was met (RFC 9971, "Regular Goal Result" and "Irregular Goal
/// Result").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Regularity {
    /// Both relevant bounds are there, no further apart than the goal's width.
    Regular,
    /// Max Load is a lower bound: no load that may be tried is too much.
    MaxLoad,
    /// Min Load is an upper bound: no load that may be tried is little enough.
    MinLoad,
    /// The search ended before the width was reached.
    Stopped,
}

/// Trials by their load.
type Loads = BTreeMap<u64, Vec<TrialResult>>;

fn by_load(results: &[TrialResult]) -> Loads {
    let mut loads = Loads::new();
    for result in results {
        loads.entry(result.input.load_pps).or_default().push(*result);
    }
    loads
}

/// The loads that bound a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    lower_pps: Option<u64>,
    upper_pps: Option<u64>,
}

impl Bounds {
    /// The smallest upper bound, and the greatest lower bound below it (RFC 9971, "Relevant Upper
    /// Bound" and "Relevant Lower Bound"): a load that passed by luck above one that failed does
    /// not count.
    fn relevant(goal: &SearchGoal, loads: &Loads) -> Bounds {
        let mut bounds = Bounds { lower_pps: None, upper_pps: None };
        for (load_pps, trials) in loads {
            match classify(goal, trials) {
                LoadClassification::LowerBound => bounds.lower_pps = Some(*load_pps),
                LoadClassification::Undecided => {}
                LoadClassification::UpperBound => {
                    bounds.upper_pps = Some(*load_pps);
                    break;
                }
            }
        }
        bounds
    }

    fn regularity(&self, goal: &SearchGoal, input: &ControllerInput) -> Regularity {
        match (self.lower_pps, self.upper_pps) {
            (Some(lower), Some(upper)) if goal.is_narrow(lower, upper) => Regularity::Regular,
            (Some(lower), None) if lower >= input.max_load_pps => Regularity::MaxLoad,
            (None, Some(upper)) if upper <= input.min_load_pps => Regularity::MinLoad,
            _ => Regularity::Stopped,
        }
    }
}

/// The result of a goal after these trials.
pub fn goal_result(
    goal: &SearchGoal,
    input: &ControllerInput,
    results: &[TrialResult],
) -> GoalResult {
    let loads = by_load(results);
    let bounds = Bounds::relevant(goal, &loads);
    let conditional = |load: u64| conditional_throughput_pps(goal, load, &loads[&load]);
    GoalResult {
        regularity: bounds.regularity(goal, input),
        lower_pps: bounds.lower_pps,
        upper_pps: bounds.upper_pps,
        conditional_pps: bounds.lower_pps.map(conditional),
    }
}

/// The result of a search (RFC 9971, "Controller Output").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControllerOutput {
    /// Search Result: one for each goal, in their order.
    pub results: Vec<GoalResult>,
    /// All trials, in their order.
    pub trials: Vec<TrialResult>,
}

#[cfg(test)]
#[path = "mlr_tests.rs"]
mod tests;
