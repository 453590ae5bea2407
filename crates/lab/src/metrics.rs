//! The metrics of trials as tables: name, unit, better direction and description.
//!
//! An experiment has a table for each of its trials (`TrialMetrics`). Summary, `compare` and the
//! docs take from it what they need to know of a metric. Tests hold every sample of a simulated
//! device to the tables. This file has what the trials of several experiments measure.

use crate::cells::Cell;
use crate::experiments;
use crate::measure::{DEVICE_TIME, UnsentBasis};
use crate::throughput::Mode;

/// Which way a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better, such as of throughput.
    Higher,
    /// Less is better, such as of latency.
    Lower,
}

/// A metric, or those whose names differ in one part alone.
#[derive(Debug)]
pub(crate) struct Metric {
    /// Its name; `…` stands for any text.
    pub name: &'static str,
    /// Its unit, as samples have it.
    pub unit: &'static str,
    /// Which way is better; none where neither is, as of what was offered.
    pub better: Option<Better>,
    /// What it says.
    pub description: &'static str,
    /// It is another one where the generator or stalls of the machine limit the load.
    pub hangs_on_load: bool,
}

/// What the trials of one name measure in an experiment.
#[derive(Debug)]
pub(crate) struct TrialMetrics {
    /// Their name in samples.
    pub trial: &'static str,
    /// What a warning calls their points; none of trials that are there for others to take a share
    /// of.
    pub points: Option<&'static str>,
    /// The metrics that say whether their repeats can be trusted, the one that they are made for
    /// first.
    pub judged_by: &'static [&'static str],
    /// The metrics that they are made for: compared where nothing else is asked, and documented.
    pub headlines: &'static [&'static str],
    /// All their metrics.
    pub metrics: &'static [&'static [Metric]],
    /// A throughput that the generator or stalls limited is a lower bound of theirs.
    pub is_throughput: bool,
    /// Whether stalls that their windows leave out count against them.
    pub judged: UnsentBasis,
}

/// Share of its time from which on a core has none left.
pub(crate) const BUSY: f64 = 0.95;

/// Whether a cell's share of a time, or of a speed, leaves nothing; `None` where its interval
/// allows both. A share that nobody knows leaves some.
pub(crate) fn is_busy(cell: &Cell<'_>, share: &str) -> Option<bool> {
    cell.estimate(share).map_or(Some(false), |share| match (share.low >= BUSY, share.high < BUSY) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    })
}

const HIGHER: Option<Better> = Some(Better::Higher);
const LOWER: Option<Better> = Some(Better::Lower);

/// A metric of which more is better.
pub(crate) const fn higher(
    name: &'static str,
    unit: &'static str,
    description: &'static str,
) -> Metric {
    Metric { name, unit, better: HIGHER, description, hangs_on_load: true }
}

/// A metric of which less is better.
pub(crate) const fn lower(
    name: &'static str,
    unit: &'static str,
    description: &'static str,
) -> Metric {
    Metric { name, unit, better: LOWER, description, hangs_on_load: true }
}

/// A metric of which neither more nor less is better.
pub(crate) const fn neither(
    name: &'static str,
    unit: &'static str,
    description: &'static str,
) -> Metric {
    Metric { name, unit, better: None, description, hangs_on_load: true }
}

impl Metric {
    /// The same, but of a metric that does not hang on how much is offered: the time of the device
    /// is not taken from stalls, and where frames go does not hang on how many there are.
    pub const fn whatever_load(self) -> Metric {
        Metric { hangs_on_load: false, ..self }
    }

    /// `true` where this is its name.
    pub fn is(&self, name: &str) -> bool {
        let mut parts = self.name.split('…');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let mut last = None;
        for part in parts {
            if let Some(part) = last.replace(part) {
                let Some((_, behind)) = rest.split_once(part) else { return false };
                rest = behind;
            }
        }
        last.map_or(rest.is_empty(), |last| rest.ends_with(last))
    }
}

impl TrialMetrics {
    /// The metric of this name.
    pub fn metric(&self, name: &str) -> Option<&'static Metric> {
        self.metrics.iter().copied().flatten().find(|metric| metric.is(name))
    }
}

/// The metrics of a load, from generator, sink and device.
pub(crate) const LOAD: &[Metric] = &[
    neither("planned_frames", "frames", "were due"),
    neither("offered_frames", "frames", "were sent"),
    neither("received_frames", "frames", "came back"),
    neither("dropped_frames", "frames", "a rule dropped"),
    neither("lost_frames", "frames", "the device lost"),
    neither("unsent_frames", "frames", "were due and never sent"),
    lower("rx_missed_frames", "frames", "found no room in the device"),
    neither("reordered_frames", "frames", "came back behind a later one of their flow"),
    neither("duplicated_frames", "frames", "came back again"),
    neither("foreign_frames", "frames", "came to the sink without our stamp, in the whole trial"),
    neither("checked_frames", "frames", "whose checksums were checked"),
    neither("checked_damaged_frames", "frames", "of these, with a wrong checksum"),
    lower("loss_ratio", "1", "share of the frames sent that the device lost"),
    neither("dropped_ratio", "1", "share of the frames sent that a rule dropped"),
    lower(
        "undelivered_ratio",
        "1",
        "share of the frames due that did not come back and were not dropped",
    ),
    neither("planned_pps", "pps", "frames due a second"),
    neither("offered_pps", "pps", "frames sent a second"),
    higher("throughput_pps", "pps", "frames processed a second, in slices without a stall"),
    higher("throughput_all_pps", "pps", "the same of the whole trial"),
    higher("throughput_gbps_…", "Gbps", "their bits, with FCS (l2) and with preamble and gap (l1)"),
    neither("disturbed_ratio", "1", "share of the slices with a stall of the machine"),
    lower(
        "rx_missed_undisturbed_ratio",
        "1",
        "share of those sent in the other slices that found no room",
    ),
    lower(DEVICE_TIME, "ns", "time that the device's core was busy, divided by frames")
        .whatever_load(),
    lower("latency_ns_…", "ns", "from when a frame was due until it came back"),
    lower("service_ns_…", "ns", "from when a frame was sent until it came back"),
    lower("latency_card_ns_…", "ns", "from port to port by the clock of the tester's card"),
    lower(
        "latency_kernel_ns_…",
        "ns",
        "from the tester's driver until the kernel had the frame from it",
    ),
    lower(
        "latency_call_to_poll_ns_…",
        "ns",
        "the same frames, from niclab's call until it saw them",
    ),
    neither("stamps_asked", "frames", "were sent with a request for a time stamp"),
    neither("stamped_frames", "frames", "of these, stamped when sent and when back"),
    neither(
        "stamps_implausible",
        "frames",
        "whose stamps contradict niclab's clock: theirs was set",
    ),
    neither("stamp_resolution_ns", "ns", "smallest difference between two times by stamps"),
    lower("stamp_cost_ns", "ns", "time of the generator's core for a stamped frame"),
];

/// The metrics of the control side.
pub(crate) const CONTROL: &[Metric] = &[
    neither("operations_planned", "operations", "were to be carried out"),
    higher("operations_done", "operations", "were carried out"),
    neither("operations_refused", "operations", "the device refused"),
    lower("batch_ns", "ns", "from the first operation to the end of the last"),
    higher(
        "operations_per_s",
        "operations/s",
        "operations divided by that time, or what the load left",
    ),
    neither("control_busy_ratio", "1", "share of that time that the core spent on operations"),
    lower("control_ns_per_operation", "ns", "time of the core in calls, divided by operations"),
    lower("first_call_ns", "ns", "how long the first call took"),
    lower("call_ns_…", "ns", "how long the other calls took"),
    lower("late_ns_…", "ns", "from when an operation was due until it was done"),
    lower("waited_ns_…", "ns", "from asking the other core for one until it took it up"),
];

/// The same of the end of rules that were created.
pub(crate) const DESTROYED: &[Metric] = &[
    neither("destroy_operations_…", "operations", "as above, of the rules' end"),
    lower("destroy_batch_ns", "ns", "as above, of the rules' end"),
    neither("destroy_control_busy_ratio", "1", "as above, of the rules' end"),
    lower("destroy_…ns…", "ns", "as above, of the rules' end"),
];

/// The rate at which rules end; in front of [`DESTROYED`].
pub(crate) const DESTROY_RATE: &[Metric] =
    &[higher("destroy_operations_per_s", "operations/s", "rules that end, a second")];

/// The metrics of time bins of 10 ms beside a plan.
pub(crate) const WINDOWS: &[Metric] = &[
    neither("windows", "windows", "of 10 ms, that an operation of the plan falls into"),
    neither(
        "undisturbed_windows",
        "windows",
        "of these, clear: without a stall, and all due frames were offered",
    ),
    neither("losing_windows", "windows", "clear ones that lost a frame"),
    neither("zero_windows", "windows", "clear ones that processed none"),
    lower("outage_ns", "ns", "longest run of clear slices without a frame that begins in the plan"),
    lower("blocked_ns", "ns", "frames missed in clear slices, divided by the planned rate"),
    lower(
        "blocked_all_ns",
        "ns",
        "frames lost in the whole trial, stalls included, divided by that rate",
    ),
    higher(
        "dealt_ratio",
        "1",
        "share processed in clear windows of the plan, divided by that before it",
    ),
    higher(
        "lowest_ratio",
        "1",
        "lowest share of a clear window from the plan on, divided by that before it",
    ),
    lower("recovered_ns", "ns", "from the first operation to the end of the last low window"),
];

/// Which rules packets matched while these changed.
pub(crate) const MATCHED: &[Metric] = &[
    neither("met_old_frames", "frames", "matched a rule as it was"),
    neither("met_new_frames", "frames", "matched a rule as it is"),
    neither("met_none_frames", "frames", "matched neither"),
    lower("none_ns", "ns", "how long no rule was matched where one was changed, on average"),
];

/// The metrics of a search for throughput.
const SEARCHED: &[Metric] = &[
    higher("max_load_pps", "pps", "greatest load that was tried"),
    neither("trials", "trials", "that the search made"),
    neither("spoilt_trials", "trials", "that it repeated, because the machine stalled"),
    higher("…_conditional_pps", "pps", "throughput of a goal"),
    higher("…_lower_pps", "pps", "greatest load that reached the goal"),
    higher("…_upper_pps", "pps", "least load that did not"),
];

/// The metrics of a set-up.
pub(crate) const INSTALLED: &[Metric] = &[
    neither("rules_installed", "rules", "the device took"),
    neither("rules_refused", "rules", "it refused"),
    higher("install_rules_per_s", "rules/s", "rules installed a second, refused ones included"),
    lower("rule_bytes", "B", "memory of the rules"),
    lower("rule_bytes_per_rule", "B", "memory of a rule"),
];

/// Set-ups, which every experiment may have.
pub(crate) const SETUP: TrialMetrics = TrialMetrics {
    trial: crate::runner::SETUP,
    points: None,
    judged_by: &["latency_ns_p50"],
    headlines: &["install_rules_per_s", "rule_bytes_per_rule"],
    metrics: &[INSTALLED],
    is_throughput: true,
    judged: UnsentBasis::Whole,
};

/// Frames at full load that are there to be shown.
pub(crate) const SATURATE: TrialMetrics = TrialMetrics {
    trial: "saturate",
    points: Some("throughput"),
    judged_by: &["throughput_pps"],
    headlines: &["throughput_pps", "device_ns_per_frame"],
    metrics: &[LOAD],
    is_throughput: true,
    judged: UnsentBasis::Whole,
};

/// Frames at full load that are there for others to take a share of.
pub(crate) const SATURATE_BASE: TrialMetrics = TrialMetrics { points: None, ..SATURATE };

/// Frames at a share of the maximum: how long they take.
pub(crate) const LATENCY: TrialMetrics = TrialMetrics {
    trial: "latency",
    points: Some("latency"),
    judged_by: &["latency_ns_p50"],
    headlines: &["latency_ns_p50", "latency_ns_p99"],
    is_throughput: false,
    ..SATURATE
};

/// A search for throughput.
pub(crate) const fn search(mode: Mode) -> TrialMetrics {
    TrialMetrics {
        trial: mode.name(),
        points: Some("search"),
        judged_by: &["latency_ns_p50"],
        headlines: &["…_conditional_pps"],
        metrics: &[SEARCHED],
        is_throughput: false,
        judged: UnsentBasis::Whole,
    }
}

/// The page `docs/metrics.md`: what the trials measure.
pub fn page() -> String {
    let mut groups: Vec<(&[Metric], Vec<&str>)> = Vec::new();
    let all = experiments::tables().flat_map(|(_, trials)| trials).chain([&SETUP]);
    for trial in all {
        for group in trial.metrics {
            let names = |group: &[Metric]| group.iter().map(|of| of.name).collect::<Vec<_>>();
            match groups.iter_mut().find(|(known, _)| names(known) == names(group)) {
                Some((_, trials)) if trials.contains(&trial.trial) => {}
                Some((_, trials)) => trials.push(trial.trial),
                None => groups.push((group, vec![trial.trial])),
            }
        }
    }
    let mut page = String::from(
        "# Metrics\n\nThe metrics of each trial's samples, by the name of the trial. \
         [Compare runs and devices](compare.md) lists\nthe trials of each experiment and the \
         metrics that decide about them. In a name, `…` stands for any text, such as\n\
         a quantile.\n",
    );
    for (group, trials) in groups {
        let trials: Vec<String> = trials.iter().map(|name| format!("`{name}`")).collect();
        page += &format!("\n## {}\n\n", trials.join(", "));
        page += "| metric | unit | better | meaning |\n|---|---|---|---|\n";
        group.iter().for_each(|metric| page += &row(metric));
    }
    page
}

/// A metric in a table of the page.
fn row(metric: &Metric) -> String {
    let better = match metric.better {
        Some(Better::Higher) => "higher",
        Some(Better::Lower) => "lower",
        None => "",
    };
    let Metric { name, unit, description, .. } = metric;
    format!("| `{name}` | {unit} | {better} | {description} |\n")
}

/// The table of `docs/compare.md`: what each trial is compared by.
pub fn compared_table() -> String {
    let mut rows: Vec<(&str, &[&str], Vec<String>)> = Vec::new();
    for (experiments, trials) in experiments::tables() {
        for trial in trials.iter().filter(|trial| !trial.headlines.is_empty()) {
            let same = |row: &&mut (&str, &[&str], Vec<String>)| {
                (row.0, row.1) == (trial.trial, trial.headlines)
            };
            match rows.iter_mut().find(same) {
                Some((.., of)) => of.push(experiments.clone()),
                None => rows.push((trial.trial, trial.headlines, vec![experiments.clone()])),
            }
        }
    }
    rows.push((SETUP.trial, SETUP.headlines, vec!["all".to_owned()]));
    let mut table = String::from("| trial | of | metrics |\n|---|---|---|\n");
    for (trial, headlines, of) in rows {
        let headlines: Vec<String> = headlines.iter().map(|name| format!("`{name}`")).collect();
        table += &format!("| `{trial}` | {} | {} |\n", of.join(", "), headlines.join(", "));
    }
    table
}

/// A metric that is not in the table of its trial is neither compared nor documented.
#[cfg(test)]
pub(crate) fn check(of: &dyn crate::experiments::Experiment, sample: &niclab_result::Sample) {
    if sample.metrics.is_empty() {
        return;
    }
    let name = format!("{} {}", of.name(), sample.trial);
    let table = of.trial(&sample.trial).unwrap_or_else(|| panic!("{name} has no table"));
    for (metric, quantity) in &sample.metrics {
        let known = table.metric(metric);
        let unit = known.map(|known| known.unit);
        assert_eq!(unit, Some(quantity.unit.as_str()), "{metric} in the table of {name}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_gap_stands_for_all_that_fill_it() {
        let is = |pattern, name: &str| neither(pattern, "1", "").is(name);
        assert!(is("loss_ratio", "loss_ratio") && !is("loss_ratio", "loss_ratio_2"));
        assert!(is("call_ns_…", "call_ns_p50") && !is("call_ns_…", "first_call_ns_p50"));
        assert!(is("…_upper_pps", "ndr_upper_pps") && !is("…_upper_pps", "ndr_lower_pps"));
        assert!(is("a_…_b_…", "a_x_b_y") && is("a_…ns…", "a_ns") && !is("a_…_b_…", "a_b_y"));
    }
}
