//! Experiments: one folder each, the trait by which the lab knows them, and the registry.
//!
//! `Experiment` is all that runner, compare, estimate and the command line know of an experiment.
//! `ALL` lists them. No folder names another; what several share is beside this one. A folder that
//! serves several built-in experiments, such as `echo`, has one implementation, and an experiment
//! for each of its files in `experiments/`.

pub(crate) mod analytics_offload;
pub(crate) mod application;
pub(crate) mod echo;
pub(crate) mod echo_ledger;
pub(crate) mod frame_size;
pub(crate) mod hash_skew;
pub(crate) mod ids_partition;
mod kind;
pub(crate) mod kvs_steering;
pub(crate) mod occupancy;
pub(crate) mod program_cost;
pub(crate) mod queue_change;
pub(crate) mod queue_scaling;
pub(crate) mod rule_rate;
pub(crate) mod rule_update;
pub(crate) mod stream;
pub(crate) mod update_batch;
pub(crate) mod update_rate;

use std::path::Path;

use niclab_device::{
    DeviceInfo, Latency, Load, LoadObservation, Observation, PathNode, Plan, Rss, Setup, Task,
};
use niclab_result::{Figure, Finding, Mark, ReportTable, Sample};
use serde::Serialize;

use crate::cells::Cell;
use crate::measure::Metrics;
use crate::metrics::{Better, Metric, SETUP, TrialMetrics};
use crate::published::PublishedCard;
use crate::run::{ExperimentRun, Trial};
use crate::spec::{Spec, SpecError};
use crate::summary::Results;
use crate::summary::beside_published::PublishedPoint;

pub use kind::ExperimentKind;

/// The registry, a line for each implementation; their experiments follow one another in the order
/// in which a run measures them.
static ALL: &[&dyn Experiment] = &[
    &occupancy::Occupancy,
    &update_batch::UpdateBatch,
    &update_rate::UpdateRate,
    &rule_rate::RuleRate,
    &rule_update::RuleUpdate,
    &hash_skew::HashSkew,
    &frame_size::FrameSize,
    &queue_scaling::QueueScaling,
    &queue_change::QueueChange,
    &echo::Echo,
    &echo_ledger::EchoLedger,
    &stream::Stream,
    &application::Application,
    &program_cost::ProgramCost,
    &kvs_steering::KvsSteering,
    &ids_partition::IdsPartition,
    &analytics_offload::AnalyticsOffload,
];

/// The meaning of groups and calls, for the experiments that change rules.
const GROUPS_AND_CALLS: &str = "Group 0 is the table that every frame meets first; a rule of \
                                group 0 can send a frame on to group 1. Single calls create, \
                                change or destroy one rule each; an operation queue takes many \
                                at a time; all changes of a transaction become visible at one \
                                instant.";

/// Names that `--set` knows, and what each means.
pub(crate) type Axes = &'static [(&'static str, &'static str)];

/// What the lab knows of an experiment.
pub(crate) trait Experiment: Sync {
    /// What files call it: `update_rate`.
    fn name(&self) -> &'static str;

    /// The built-in experiments that it implements, in the order of the default run.
    fn built_in(&self) -> &'static [BuiltIn];

    /// Names that `--set` knows, and what each means.
    fn axes(&self) -> Axes;

    /// Reads a file of this kind.
    ///
    /// # Errors
    /// Line, column and what may stand there.
    fn read(&self, text: &str) -> Result<Spec, toml::de::Error>;

    /// `true` where rules of a file may stand in the device.
    fn takes_rules(&self) -> bool {
        false
    }

    /// Axes that have no meaning where the rules of a file stand in the device.
    fn axes_of_rules(&self) -> &'static [&'static str] {
        &[]
    }

    /// The plan of a repeat, where each has one of its own.
    fn plan_of_repeat(&self, _plan: &Plan, _repeat: u32) -> Option<Plan> {
        None
    }

    /// Seconds that the lab itself computes for a trial with this load.
    fn reckoned_s(&self, _load: &Load) -> f64 {
        0.0
    }

    /// The task of a trial; `None` for a trial that is none of this experiment.
    fn task(&self, run: &ExperimentRun, trial: &Trial) -> Option<Task> {
        run.task(trial)
    }

    /// Seconds that a device takes for a task with neither a load nor a plan; `None` for a task
    /// that is none of this experiment.
    fn task_s(&self, _task: &Task) -> Option<f64> {
        None
    }

    /// The sample of such a task; `None` for a task that is none of this experiment.
    fn task_result(&self, _task: &Task, _seen: Observation) -> Option<TaskResult> {
        None
    }

    /// Adds to the sample of a trial with a load what this experiment reads from it.
    fn load_metrics(&self, _offered: &LoadTrialResult<'_>, _sample: &mut Sample) {}

    /// `true` where a device that cannot make a trial may be able to make it at another point,
    /// though it has no plan.
    fn lacks_by_point(&self) -> bool {
        false
    }

    /// Its trials in the order in which they are compared, and what each measures.
    fn trials(&self) -> &'static [TrialMetrics];

    /// What the trials of this name measure; set-ups are trials too.
    fn trial(&self, name: &str) -> Option<&'static TrialMetrics> {
        let of_setup = (name == SETUP.trial).then_some(&SETUP);
        self.trials().iter().find(|of| of.trial == name).or(of_setup)
    }

    /// Messages go to a server that answers them, over the stack of the kernel.
    fn has_messages(&self) -> bool {
        false
    }

    /// Rules that a device refuses are what is asked for, no flaw of a set-up.
    fn asks_for_refusals(&self) -> bool {
        false
    }

    /// How the machine disturbed points with the mark, and what not to trust.
    fn disturbed_words(&self) -> &'static str {
        "the machine stalled in more than 80 % of the slices, or in all slices with frames. Do not \
         trust throughput, loss and tail latency. Measure again on a calmer machine"
    }

    /// The application of the published round trips (APSys 2022, table 2) that a cell is measured
    /// like, and the metric of its median round trip.
    fn published_round_trip(&self, _cell: &Cell<'_>) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Software of the client, software of the server and hardware in a cell that is measured like
    /// the published breakdown (APSys 2022, table 3), nanoseconds.
    fn published_split(&self, _cell: &Cell<'_>) -> Option<[f64; 3]> {
        None
    }

    /// The load of the figures that are published of a card; `None` without such figures.
    fn published_load(&self) -> Option<&'static str> {
        None
    }

    /// The meaning of words in its findings that the reader may not know; empty if all are plain.
    fn terms(&self) -> &'static str {
        ""
    }

    /// The values of a device at places of figures that are published of it, measured under the
    /// published load.
    fn published(
        &self,
        _results: &Results<'_>,
        _device: &str,
        _card: PublishedCard,
    ) -> Vec<PublishedPoint> {
        Vec::new()
    }

    /// Where the parts of a testbed ran.
    fn places<'a>(&self, about: &'a DeviceInfo) -> &'a [PathNode] {
        &about.places
    }

    /// What a reader must know of the data beside what holds for every experiment.
    fn warnings(&self, _results: &Results<'_>) -> Vec<String> {
        Vec::new()
    }

    /// The sentences that the data support.
    fn findings(&self, results: &Results<'_>) -> Vec<Finding>;

    /// The plots of the report.
    fn figures(&self, results: &Results<'_>) -> Vec<Figure>;

    /// The tables of the report.
    fn tables(&self, results: &Results<'_>) -> Vec<ReportTable>;
}

/// What the trials of this name measure, in the first experiment that has them.
pub(crate) fn trial(name: &str) -> Option<&'static TrialMetrics> {
    ALL.iter().find_map(|of| of.trial(name))
}

/// Which way of a metric is better, if trials of this name are made for it in some experiment.
pub(crate) fn headline(trial: &str, metric: &str) -> Option<Better> {
    let is_headline = |of: &str| match of.strip_prefix('…') {
        Some(end) => metric.ends_with(end),
        None => of == metric,
    };
    let tables = ALL.iter().flat_map(|of| of.trials()).chain([&SETUP]);
    let mut made =
        tables.filter(|of| of.trial == trial && of.headlines.iter().any(|h| is_headline(h)));
    made.find_map(|of| of.metric(metric)).and_then(|of| of.better)
}

/// The tables of all experiments, by the names of those that have them.
pub(crate) fn tables() -> impl Iterator<Item = (String, &'static [TrialMetrics])> {
    ALL.iter().map(|of| {
        let names = of.built_in().iter().map(|one| format!("`{}`", one.name));
        (names.collect::<Vec<_>>().join(", "), of.trials())
    })
}

/// The first metric of this name that any trial has.
pub(crate) fn metric(name: &str) -> Option<&'static Metric> {
    ALL.iter().flat_map(|of| of.trials()).chain([&SETUP]).find_map(|of| of.metric(name))
}

/// An experiment that is built in.
pub(crate) struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// The text of its file.
    pub text: &'static str,
    /// Its page in `docs/`, without the ending.
    pub page: &'static str,
    /// The kinds of devices on which something of it is measured.
    pub devices: &'static [&'static str],
}

/// The name of a kind, and its built-in experiments: name, page of the book, kinds of devices.
macro_rules! named {
    ($kind:literal, $(($name:literal, $page:literal, $devices:expr)),+ $(,)?) => {
        fn name(&self) -> &'static str {
            $kind
        }

        fn built_in(&self) -> &'static [$crate::experiments::BuiltIn] {
            const ALL: &[$crate::experiments::BuiltIn] = &[$($crate::experiments::BuiltIn {
                name: $name,
                text: include_str!(concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/../../experiments/",
                    $name,
                    ".toml"
                )),
                page: $page,
                devices: $devices,
            }),+];
            ALL
        }
    };
}
use named;

/// What stands in the files of an experiment's folder, each in the file of its name; the tables
/// stand beside the figures.
macro_rules! in_its_files {
    (published) => {
        in_its_files!();

        fn published(
            &self,
            results: &$crate::summary::Results<'_>,
            device: &str,
            card: $crate::published::PublishedCard,
        ) -> Vec<$crate::summary::beside_published::PublishedPoint> {
            analysis::published(results, device, card)
        }
    };
    () => {
        fn axes(&self) -> $crate::experiments::Axes {
            spec::AXES
        }

        fn read(&self, text: &str) -> Result<$crate::spec::Spec, toml::de::Error> {
            $crate::spec::read::<spec::Parts>(text)
        }

        fn trials(&self) -> &'static [$crate::metrics::TrialMetrics] {
            metrics::TRIALS
        }

        fn findings(&self, results: &$crate::summary::Results<'_>) -> Vec<niclab_result::Finding> {
            findings::findings(results)
        }

        fn figures(&self, results: &$crate::summary::Results<'_>) -> Vec<niclab_result::Figure> {
            figures::figures(results)
        }

        fn tables(
            &self,
            results: &$crate::summary::Results<'_>,
        ) -> Vec<niclab_result::ReportTable> {
            figures::tables(results)
        }
    };
}
use in_its_files;

/// Kinds of devices, as `README.md` names them.
const MODEL: &str = "model:…";
const LINUX: &str = "linux:…";
const VETH: &str = "linux:veth";
const DPDK: &str = "dpdk:…";
const PEER: &str = "peer:…";

/// Kinds on which frames and few rules are measured.
const CARDS: &[&str] = &["soft", MODEL, LINUX, DPDK];

/// A trial with a load, as it was made and what came of it.
pub(crate) struct LoadTrialResult<'a> {
    /// Its name.
    pub trial: &'a str,
    /// What was offered.
    pub load: &'a Load,
    /// The observation.
    pub observation: &'a LoadObservation,
    /// The state of the device, where it was brought into one.
    pub setup: Option<&'a Setup>,
    /// How it says that it spreads frames over its queues then.
    pub rss: Option<&'a Rss>,
    /// No frame is of a trace, and no rule of a file.
    pub is_generated: bool,
}

/// What a device answered to a task with neither a load nor a plan.
#[derive(Default)]
pub(crate) struct TaskResult {
    /// What it was asked.
    pub question: serde_json::Value,
    /// What it comes to.
    pub metrics: Metrics,
    /// The warnings that belong to it.
    pub marks: Vec<Mark>,
    /// What else it said.
    pub counters: serde_json::Value,
    /// Why it speaks for nothing.
    pub ended: Option<String>,
    /// The latencies to be kept beside it.
    pub latency: Option<Latency>,
}

/// Longest file of an experiment; those that are built in have some kilobytes.
const LEN_MAX: u64 = 1 << 20;

/// What `niclab list` says of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listing {
    /// Its name.
    pub name: String,
    /// The question it asks.
    pub question: String,
    /// Its axes: name and meaning.
    pub axes: Vec<(&'static str, &'static str)>,
    /// The kinds of devices that it measures something on.
    pub devices: &'static [&'static str],
    /// Its page in `docs/`, without the ending.
    pub page: &'static str,
    /// It is part of the default run.
    pub is_short: bool,
}

/// The built-in experiments, in the order in which a run of them all measures them, each with its
/// implementation.
fn registered() -> impl Iterator<Item = (&'static dyn Experiment, &'static BuiltIn)> {
    ALL.iter().flat_map(|of| of.built_in().iter().map(move |one| (*of, one)))
}

/// Names of the built-in experiments.
pub fn names() -> impl Iterator<Item = &'static str> {
    registered().map(|(_, one)| one.name)
}

/// The built-in experiments.
pub fn list() -> Result<Vec<Listing>, SpecError> {
    let listing = |(of, one): (&dyn Experiment, &'static BuiltIn)| {
        let spec = Spec::parse(one.name, one.text)?;
        let BuiltIn { devices, page, .. } = *one;
        let axes = of.axes().to_vec();
        let is_short = spec.short.is_some();
        Ok(Listing { name: spec.name, question: spec.question, axes, devices, page, is_short })
    };
    registered().map(listing).collect()
}

/// The experiment called `name`, or the one in the file at the path `name`.
pub fn spec(name: &str) -> Result<Spec, SpecError> {
    if let Some(text) = text(name) {
        return Spec::parse(name, text);
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") && !path.exists() {
        let known = names().collect::<Vec<_>>().join(", ");
        return Err(SpecError::Unknown { name: name.to_string(), known });
    }
    let text = niclab_files::text(path, LEN_MAX)
        .map_err(|error| SpecError::Unreadable { path: path.to_path_buf(), source: error })?;
    Spec::parse(name, &text)
}

/// The text of a built-in experiment, to copy and change.
pub fn text(name: &str) -> Option<&'static str> {
    registered().find(|(_, one)| one.name == name).map(|(_, one)| one.text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_embedded_experiment_is_listed() {
        assert!(list().unwrap().into_iter().map(|listing| listing.name).eq(names()));
    }

    #[test]
    fn a_file_is_an_experiment_too_and_an_unknown_name_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mine.toml");
        fs::write(
            &path,
            text("occupancy").unwrap().replace("\"occupancy\"\nkind", "\"mine\"\nkind"),
        )
        .unwrap();
        assert_eq!(spec(&path.to_string_lossy()).unwrap().name, "mine");
        let error = spec("ocupancy").unwrap_err().to_string();
        assert!(error.contains("no experiment `ocupancy`: there are occupancy"), "{error}");
        let error = spec("none.toml").unwrap_err();
        assert!(matches!(error, SpecError::Unreadable { .. }), "{error}");
    }
}

#[cfg(test)]
mod registry_tests;

#[cfg(test)]
mod soft_tests;

#[cfg(test)]
mod sweeps_tests;
