//! Searches for throughput: which goals are searched at which places.

use serde::{Deserialize, Serialize};

use crate::mlr::{ControllerInput, SearchGoal};
use crate::spec::{Hits, SpecError, axes, flows_default, frame_default, in_range, zero};
use crate::values::Values;

/// Max Load, by the saturating throughput of the place: more than any repeat of it, so that an
/// upper bound is found. Where the generator was the limit it is the generator's, which then is
/// what the search finds, and says.
const MAX_LOAD_SHARE: f64 = 1.2;
/// Min Load, by Max Load.
const MIN_LOAD_SHARE: f64 = 0.001;
/// Fewest frames of a trial: one that is lost of fewer is a loss of more than a tenth.
const FRAMES_MIN: f64 = 10.0;
/// Most trials of a search: several times what a calm device takes.
const TRIALS_MAX: u32 = 200;

/// Searches at each point of a product of axes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchSpec {
    /// By which standard.
    pub mode: Mode,
    /// Non-root groups the rules are spread over; 0 puts them into group 0.
    pub groups: Values,
    /// Rules in these groups, the default rule of each included.
    pub rules: Values,
    /// Share of the traffic that matches an installed rule other than the default.
    #[serde(default = "zero")]
    pub match_percent: Values,
    /// Over what the matching traffic is uniform.
    #[serde(default)]
    pub hits: Hits,
    /// Flows of the traffic.
    #[serde(default = "flows_default")]
    pub flows: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
    /// What is searched; one goal for `rfc2544`.
    pub goal: Vec<GoalSpec>,
}

/// A standard of searching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// RFC 9971: several goals, several trials a load.
    Mlrsearch,
    /// RFC 2544, section 26.1: the greatest load of which no frame is lost, one trial a load.
    Rfc2544,
}

impl Mode {
    /// Its name in samples.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Mlrsearch => "mlrsearch",
            Mode::Rfc2544 => "rfc2544",
        }
    }

    /// Its name in prose.
    pub fn words(self) -> &'static str {
        match self {
            Mode::Mlrsearch => "MLRsearch (RFC 9971)",
            Mode::Rfc2544 => "RFC 2544",
        }
    }
}

/// A goal as it is written; see [`SearchGoal`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalSpec {
    /// Its name, such as `NDR`.
    pub name: String,
    /// Greatest loss of a trial that passes.
    #[serde(default)]
    pub loss_ratio: f64,
    /// Share of the time at a load that trials of more loss may take.
    #[serde(default)]
    pub exceed_ratio: f64,
    /// Length of the shortest trials, milliseconds; `trial_ms` where it is not given.
    pub initial_ms: Option<u64>,
    /// Length of the trials that decide, milliseconds.
    pub trial_ms: u64,
    /// So long, in all, are the trials that decide about a load, milliseconds; `trial_ms` where it
    /// is not given.
    pub sum_ms: Option<u64>,
    /// Bracket at which the search ends, as a share of its upper end.
    pub width: f64,
}

/// A search of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// By which standard.
    pub mode: Mode,
    /// Index of the saturating trial of its place: it has its set-up, its load but for rate and
    /// duration, and its throughput says where to search.
    pub of: usize,
    /// The goals.
    pub goals: Vec<SearchGoal>,
}

axes!(SearchSpec: groups, rules, match_percent, flows, frame);

impl SearchSpec {
    /// Its goals, where they can be searched.
    pub(crate) fn goals(&self) -> Result<Vec<SearchGoal>, SpecError> {
        resolved_goals(self.mode, &self.goal)
    }
}

/// Goals of one search, where they can be searched.
pub(crate) fn resolved_goals(mode: Mode, goals: &[GoalSpec]) -> Result<Vec<SearchGoal>, SpecError> {
    let goals: Vec<SearchGoal> = goals.iter().map(GoalSpec::resolved).collect::<Result<_, _>>()?;
    let of_rfc2544 = |goal: &SearchGoal| {
        let plain = SearchGoal::rfc2544(goal.final_ns, goal.width);
        *goal == SearchGoal { name: goal.name.clone(), ..plain }
    };
    if mode == Mode::Rfc2544 && !(goals.len() == 1 && of_rfc2544(&goals[0])) {
        let remedy = "RFC 2544 has one goal, of `name`, `trial_ms` and `width` alone: no loss, \
                      one trial a load; use mode = \"mlrsearch\" for others";
        return refuse("goal", goals.len().to_string(), remedy);
    }
    if goals.is_empty() {
        return refuse("goal", "none".into(), "a search needs one: [[full.search.goal]]");
    }
    for (at, goal) in goals.iter().enumerate() {
        check_name(goal, &goals[..at])?;
    }
    Ok(goals)
}

fn refuse<T>(axis: &'static str, value: String, remedy: &str) -> Result<T, SpecError> {
    Err(SpecError::OutOfRange { axis, value, remedy: remedy.into() })
}

/// How the metrics of a goal begin: its name in small letters, `_` for all but letters and digits.
pub(crate) fn metric_name(goal: &SearchGoal) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    goal.name.chars().map(word).collect()
}

/// Refuses a goal whose metrics would have no name, or those of another goal of its search.
fn check_name(goal: &SearchGoal, others: &[SearchGoal]) -> Result<(), SpecError> {
    let name = metric_name(goal);
    if name.is_empty() {
        return refuse("goal name", "\"\"".into(), "give it one, such as NDR");
    }
    match others.iter().find(|other| metric_name(other) == name) {
        Some(other) => {
            let remedy = format!(
                "its metrics would overwrite those of {}: both begin with {name}_; give it \
                 another name",
                other.name
            );
            refuse("goal name", goal.name.clone(), &remedy)
        }
        None => Ok(()),
    }
}

impl GoalSpec {
    fn resolved(&self) -> Result<SearchGoal, SpecError> {
        let share = |axis, value: f64, is_good: bool| match is_good {
            true => Ok(value),
            false => refuse(axis, value.to_string(), "use a share: at least 0 and below 1"),
        };
        let is_share = |value: f64| (0.0..1.0).contains(&value);
        let trial_ms = self.trial_ms;
        let (initial_ms, sum_ms) =
            (self.initial_ms.unwrap_or(trial_ms), self.sum_ms.unwrap_or(trial_ms));
        in_range("trial_ms", trial_ms, 1..=crate::spec::DURATION_MS_MAX)?;
        in_range("initial_ms", initial_ms, 1..=trial_ms)?;
        in_range("sum_ms", sum_ms, trial_ms..=crate::spec::DURATION_MS_MAX)?;
        Ok(SearchGoal {
            name: self.name.clone(),
            loss_ratio: share("loss_ratio", self.loss_ratio, is_share(self.loss_ratio))?,
            exceed_ratio: share("exceed_ratio", self.exceed_ratio, is_share(self.exceed_ratio))?,
            initial_ns: initial_ms * 1_000_000,
            final_ns: trial_ms * 1_000_000,
            sum_ns: sum_ms * 1_000_000,
            width: share("width", self.width, self.width > 0.0 && self.width < 1.0)?,
        })
    }
}

impl Search {
    /// Adds a search; goals at one place are searched in one.
    pub(crate) fn add_to(self, searches: &mut Vec<Search>) -> Result<(), SpecError> {
        let same = |s: &&mut Search| (s.mode, s.of) == (self.mode, self.of);
        let Some(known) = searches.iter_mut().find(same) else {
            searches.push(self);
            return Ok(());
        };
        for goal in self.goals {
            match known.goals.contains(&goal) {
                true => {}
                false if known.mode == Mode::Rfc2544 => {
                    let remedy = "one search of a place has one goal by RFC 2544";
                    return refuse("goal", goal.name, remedy);
                }
                false => {
                    check_name(&goal, &known.goals)?;
                    known.goals.push(goal);
                }
            }
        }
        Ok(())
    }

    /// The input of the search, where the device's saturating throughput is so much.
    pub fn input(&self, saturating_pps: f64) -> ControllerInput {
        let max_load_pps = ((saturating_pps * MAX_LOAD_SHARE) as u64).max(1);
        let shortest_ns = self.goals.iter().map(|goal| goal.initial_ns).min().unwrap_or(1).max(1);
        let frames_pps = FRAMES_MIN * 1e9 / shortest_ns as f64;
        let min_load_pps = (max_load_pps as f64 * MIN_LOAD_SHARE).max(frames_pps).ceil() as u64;
        ControllerInput {
            goals: self.goals.clone(),
            min_load_pps: min_load_pps.clamp(1, max_load_pps),
            max_load_pps,
            trials_max: TRIALS_MAX,
        }
    }

    /// Seconds that it takes as a rule, where a trial takes `trial_s` beside its duration.
    pub(crate) fn seconds(&self, trial_s: f64) -> f64 {
        /// Loads of a rough search, and those that are looked at to the end.
        const LOADS: (f64, f64) = (6.0, 3.0);
        let goal_s = |goal: &SearchGoal| {
            let (initial_s, final_s) = (goal.initial_ns as f64 / 1e9, goal.final_ns as f64 / 1e9);
            let deciding =
                (goal.sum_ns as f64 * (1.0 - goal.exceed_ratio) / goal.final_ns as f64).ceil();
            LOADS.0 * (trial_s + initial_s) + LOADS.1 * deciding * (trial_s + final_s)
        };
        self.goals.iter().map(goal_s).sum()
    }
}
