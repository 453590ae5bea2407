//! The metrics that are compared of a trial, and their better direction, from the tables of the
//! experiments.
//!
//! A trial that its experiment has no table of is compared by those of `ELSEWHERE` that it has.

use crate::cells::Cell;
use crate::experiments::{self, ExperimentKind};
use crate::measure::DEVICE_TIME;
use crate::metrics::TrialMetrics;
use crate::run::ExperimentRun;
use crate::runner::SETUP;
use crate::runner::search::{CAPACITY, PLATEAU, PROBE};
use crate::statistics;

pub use crate::metrics::Better;

/// The name under which knees are compared: rules in front of one.
pub const KNEE: &str = "knee_rules";

/// The metrics of a trial that has no table.
const ELSEWHERE: [&str; 7] = [
    "throughput_pps",
    "device_ns_per_frame",
    "latency_ns_p50",
    "latency_ns_p99",
    "batch_ns",
    "blocked_ns",
    "install_rules_per_s",
];

/// How the metrics end that a search for throughput is made for, one a goal.
const OF_GOAL: &str = "_conditional_pps";

/// Below this there are no times of forwarding that is blocked: it is the length of a slice.
const BLOCKED_NS_MIN: f64 = 1e6;

/// Trials of searches, which ask each device what it was not asked before: what they find is
/// compared as knees.
const SEARCHES: [&str; 3] = [CAPACITY, PLATEAU, PROBE];

/// What the trials of one name measure in an experiment of these runs.
pub(super) fn table<'a>(
    name: &str,
    runs: impl IntoIterator<Item = &'a ExperimentRun>,
    trial: &str,
) -> Option<&'static TrialMetrics> {
    let run = runs.into_iter().find(|run| run.name == name)?;
    run.kind.of().trial(trial)
}

/// The metrics to compare of a trial whose cells are these: those that are wanted, or where none
/// are, its own.
pub(super) fn of(
    trial: &str,
    table: Option<&TrialMetrics>,
    wanted: &[String],
    cells: &[&Cell<'_>],
) -> Vec<String> {
    if SEARCHES.contains(&trial) {
        return Vec::new();
    }
    if !wanted.is_empty() {
        return wanted.to_vec();
    }
    let own = table.map_or(&ELSEWHERE[..], |table| table.headlines);
    own.iter().flat_map(|headline| named(headline, cells)).collect()
}

/// The metrics that a trial is compared by where nothing else is asked, as its table names them.
#[cfg(test)]
pub(crate) fn compared(kind: ExperimentKind, trial: &str) -> Vec<&'static str> {
    let headlines = kind.of().trial(trial).map_or(&ELSEWHERE[..], |table| table.headlines);
    let is_compared =
        |name: &&str| !SEARCHES.contains(&trial) && better(kind.of().trial(trial), name).is_some();
    headlines.iter().copied().filter(is_compared).collect()
}

/// The metrics of these cells that a headline stands for.
fn named(headline: &str, cells: &[&Cell<'_>]) -> Vec<String> {
    let Some(end) = headline.strip_prefix('…') else { return vec![headline.to_owned()] };
    let samples = cells.iter().flat_map(|cell| &cell.samples);
    let names = samples.flat_map(|sample| sample.metrics.keys());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(end)).cloned().collect();
    names.sort();
    names.dedup();
    names
}

/// Where a trial stands among the others of its experiment; those without a table stand behind
/// them, set-ups last.
pub(super) fn rank(kind: Option<ExperimentKind>, trial: &str) -> usize {
    let trials = kind.map_or(&[][..], |kind| kind.of().trials());
    let at = trials.iter().position(|of| of.trial == trial);
    at.unwrap_or(if trial == SETUP { usize::MAX } else { trials.len() })
}

/// Which way of a metric is better; `None` where neither is, as of what was offered.
pub(super) fn better(table: Option<&TrialMetrics>, metric: &str) -> Option<Better> {
    if metric == KNEE {
        return Some(Better::Higher);
    }
    let of_trial = table.and_then(|table| table.metric(metric));
    of_trial.or_else(|| experiments::metric(metric)).and_then(|known| known.better)
}

/// `true` for what a device does with all that it is given: generator and stalls can only make it
/// less.
pub(super) fn is_throughput(metric: &str) -> bool {
    metric.starts_with("throughput_") || goal(metric).is_some()
}

/// The goal that a search found this for.
pub(super) fn goal(metric: &str) -> Option<&str> {
    metric.strip_suffix(OF_GOAL)
}

/// `true` for a metric that the machine can take away from a trial.
pub(super) fn hangs_on_machine(metric: &str) -> bool {
    metric == DEVICE_TIME
}

/// What a metric of two cells cannot be told from zero below: nothing finer was seen.
pub(super) fn resolution(metric: &str, cells: [&Cell<'_>; 2]) -> f64 {
    let of = |metric: &str| {
        let medians = cells.iter().filter_map(|cell| statistics::median(&cell.values(metric)));
        medians.fold(0.0, f64::max)
    };
    match metric {
        "blocked_ns" => BLOCKED_NS_MIN,
        _ if metric.starts_with("effect_ns_") => of("effect_resolution_ns"),
        _ => 0.0,
    }
}

/// All metrics of these samples that can be compared, by name.
pub fn known<'a>(samples: impl IntoIterator<Item = &'a niclab_result::Sample>) -> Vec<&'a str> {
    let names = samples.into_iter().flat_map(|sample| {
        let table = experiments::trial(&sample.trial);
        let names = sample.metrics.keys().map(String::as_str);
        names.filter(move |name| better(table, name).is_some())
    });
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_better_high_times_and_losses_low_and_counts_neither_way() {
        let check = |expected, names: &[&str]| {
            names.iter().for_each(|name| assert_eq!(better(None, name), expected, "{name}"));
        };
        let high = [
            "dealt_ratio",
            "throughput_all_pps",
            "throughput_gbps_l1",
            "operations_done",
            "effects",
            KNEE,
        ];
        check(Some(Better::Higher), &high);
        check(Some(Better::Higher), &["operations_per_s", "ndr_conditional_pps"]);
        let low = ["device_ns_per_frame", "latency_ns_p999", "call_ns_max", "outage_ns"];
        check(Some(Better::Lower), &low);
        check(Some(Better::Lower), &["loss_ratio", "rx_missed_undisturbed_ratio"]);
        check(
            None,
            &["offered_pps", "planned_pps", "offered_frames", "disturbed_ratio", "windows"],
        );
    }

    #[test]
    fn a_trial_that_is_not_known_is_compared_by_what_it_has_and_a_search_is_not() {
        let of = |trial: &str, wanted: &[String]| of(trial, experiments::trial(trial), wanted, &[]);
        assert!(of("soak", &[]).contains(&"throughput_pps".to_string()));
        assert_eq!(of("serve", &[]), ["answered_per_s", "request_ns", "card_ns"]);
        assert!(of("rest", &[]).is_empty() && of(PROBE, &["throughput_pps".into()]).is_empty());
        assert_eq!(of("rest", &["loss_ratio".into()]), ["loss_ratio"]);
        let rank = |trial| rank(ExperimentKind::named("update_batch"), trial);
        assert!(rank("saturate") < rank("batch") && rank("batch") < rank("soak"));
        assert!(rank("soak") < rank(SETUP));
    }
}
