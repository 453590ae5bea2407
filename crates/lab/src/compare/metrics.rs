//! What is compared of a trial, and which way of it is better.
//!
//! A trial that a new experiment brings has its line in `HEADLINES`; one without a line is
//! compared by those of `ELSEWHERE` that it has.

use crate::breakdown::PLAIN_RTT;
use crate::cells::Cell;
use crate::experiments::application::metrics::{LATENCY, LATENCY_TAIL, RATE, SERVER_TIME};
use crate::experiments::echo::metrics::ANSWERED;
use crate::experiments::hash_skew::metrics::{BUSIEST, FASTEST, FULL, MISPLACED};
use crate::experiments::kvs_steering::metrics as kvs;
use crate::experiments::program_cost::metrics::PACKET;
use crate::experiments::stream::metrics::{CARRIED, CPU};
use crate::hosts::{RTT, RTT_TAIL};
use crate::measure::DEVICE_TIME;
use crate::runner::SETUP;
use crate::runner::search::{CAPACITY, PLATEAU, PROBE};
use crate::statistics;
use crate::throughput::Mode;

/// Which way a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better, such as of throughput.
    Higher,
    /// Less is better, such as of latency.
    Lower,
}

/// The name under which knees are compared: rules in front of one.
pub const KNEE: &str = "knee_rules";

/// Trial, and the metrics that it is made for.
const HEADLINES: [(&str, &[&str]); 16] = [
    ("saturate", &["throughput_pps", "device_ns_per_frame", "operations_per_s", "operations_done"]),
    ("latency", &["latency_ns_p50", "latency_ns_p99"]),
    ("light", &["latency_ns_p50", "latency_ns_p99"]),
    ("batch", &["batch_ns", "operations_per_s", "operations_done", "blocked_ns"]),
    ("insert", &["operations_per_s", "operations_done", "destroy_operations_per_s", "call_ns_p99"]),
    ("change", &["operations_per_s", "operations_done", "call_ns_p99", "blocked_ns"]),
    ("effect", &["effect_ns_p50", "effect_ns_p99", "effects"]),
    ("spread", &[BUSIEST, MISPLACED, FULL]),
    ("echo", &[RTT, RTT_TAIL, ANSWERED]),
    ("ledger", &[PLAIN_RTT, "client_receive_ns", "server_receive_ns"]),
    ("stream", &[CARRIED, CPU]),
    ("process", &[PACKET]),
    ("serve", &[kvs::ANSWERED, kvs::REQUEST, kvs::CARD]),
    ("application", &[RATE, LATENCY, LATENCY_TAIL, SERVER_TIME]),
    // Without a batch: there to compare `batch` with, beside it in each repeat.
    ("rest", &[]),
    (SETUP, &["install_rules_per_s", "rule_bytes_per_rule"]),
];

/// The metrics of a trial that has no line.
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

/// The metrics to compare of a trial whose cells are these: those that are wanted, or where none
/// are, its own.
pub(super) fn of(trial: &str, wanted: &[String], cells: &[&Cell<'_>]) -> Vec<String> {
    if SEARCHES.contains(&trial) {
        return Vec::new();
    }
    if !wanted.is_empty() {
        return wanted.to_vec();
    }
    if [Mode::Mlrsearch, Mode::Rfc2544].iter().any(|mode| mode.name() == trial) {
        let samples = cells.iter().flat_map(|cell| &cell.samples);
        let names = samples.flat_map(|sample| sample.metrics.keys());
        let mut names: Vec<String> = names.filter(|name| goal(name).is_some()).cloned().collect();
        names.sort();
        names.dedup();
        return names;
    }
    let own = HEADLINES.iter().find(|(name, _)| *name == trial);
    own.map_or(&ELSEWHERE[..], |(_, own)| own).iter().map(|name| name.to_string()).collect()
}

/// Where a trial stands among the others; those without a line stand behind them, set-ups last.
pub(super) fn rank(trial: &str) -> usize {
    let at = HEADLINES.iter().position(|(name, _)| *name == trial);
    at.map_or(HEADLINES.len(), |at| if trial == SETUP { at + 2 } else { at })
}

/// Which way of a metric is better, by its name, in which the unit stands last; `None` where
/// neither is, as of what was offered.
pub fn better(metric: &str) -> Option<Better> {
    let ends = |end: &str| metric.ends_with(end);
    let is_rate = ends("_pps") || ends("_per_s") || metric.contains("_gbps_");
    let is_time = ends("_ns") || metric.contains("_ns_");
    let is_loss = ends("loss_ratio") || ends("undelivered_ratio") || metric.contains("rx_missed");
    match metric {
        // The busiest queue is the fastest too.
        "offered_pps" | "planned_pps" | FASTEST => None,
        BUSIEST | MISPLACED => Some(Better::Lower),
        "dealt_ratio" | "lowest_ratio" | "operations_done" | "effects" | KNEE => {
            Some(Better::Higher)
        }
        _ if is_rate => Some(Better::Higher),
        "rule_bytes" | "rule_bytes_per_rule" => Some(Better::Lower),
        _ if is_time || is_loss => Some(Better::Lower),
        _ => None,
    }
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
    let names = samples.into_iter().flat_map(|sample| sample.metrics.keys());
    let mut names: Vec<&str> =
        names.map(String::as_str).filter(|name| better(name).is_some()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_that_a_trial_is_made_for_has_a_better_way() {
        let all = HEADLINES.iter().flat_map(|(_, metrics)| metrics.iter()).chain(&ELSEWHERE);
        assert!(all.into_iter().all(|metric| better(metric).is_some()));
    }

    #[test]
    fn rates_are_better_high_times_and_losses_low_and_counts_neither_way() {
        let check = |expected, names: &[&str]| {
            names.iter().for_each(|name| assert_eq!(better(name), expected, "{name}"));
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
        let of = |trial: &str, wanted: &[String]| of(trial, wanted, &[]);
        assert!(of("soak", &[]).contains(&"throughput_pps".to_string()));
        assert_eq!(of("serve", &[]), ["answered_per_s", "request_ns", "card_ns"]);
        assert!(of("rest", &[]).is_empty() && of(PROBE, &["throughput_pps".into()]).is_empty());
        assert_eq!(of("rest", &["loss_ratio".into()]), ["loss_ratio"]);
        assert!(rank("saturate") < rank("batch") && rank("batch") < rank("soak"));
        assert!(rank("soak") < rank(SETUP));
    }
}
