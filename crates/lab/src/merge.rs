//! Results of round trips that were measured on different hosts, or from different places, made one
//! result: the samples of all, each device under a name that says where it was measured.
//!
//! A merged run is a run like any other but that it was put together of [`RunPart`]s: it is
//! summarised by the same code, and cannot be gone on with. Experiments without messages are left
//! out: `compare` is for them.

use niclab_result::{Latencies, Outcome, SCHEMA, Sample};
use serde::{Deserialize, Serialize};

use crate::placement::Placement;
use crate::run::{ExperimentRun, PlannedRate, Run, RunDevice, Trial, Visit, index_of};
use crate::variants::Variants;

/// A result that is to be merged.
#[derive(Clone, Debug)]
pub struct MergeInput {
    /// What it is called: its directory.
    pub name: String,
    /// The host that it was measured on, where it says so.
    pub host: Option<String>,
    /// The run.
    pub run: Run,
    /// What came of it.
    pub samples: Vec<Sample>,
    /// Its histograms.
    pub latencies: Latencies,
}

/// What is kept of it in the merged run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunPart {
    /// What it was called.
    pub name: String,
    /// Where its programs ran.
    #[serde(default, skip_serializing_if = "Placement::is_unsaid")]
    pub placement: Placement,
    /// Its variants.
    #[serde(default, skip_serializing_if = "Variants::is_none")]
    pub variants: Variants,
    /// Its devices, by their names in the merged run.
    pub devices: Vec<String>,
}

/// Several results in one.
#[derive(Clone, Debug)]
pub struct Merged {
    /// What was done in all of them.
    pub run: Run,
    /// What came of it, part by part.
    pub samples: Vec<Sample>,
    /// All histograms.
    pub latencies: Latencies,
    /// Names of experiments that were left out.
    pub left_out: Vec<String>,
}

/// Why results cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// Their documents are of different shapes.
    #[error(
        "{one} has schema {one_schema}, {other} has {other_schema}: measure both with the same \
         version of niclab"
    )]
    Schemas {
        /// A part.
        one: String,
        /// Its schema.
        one_schema: u32,
        /// Another one.
        other: String,
        /// Its schema.
        other_schema: u32,
    },
    /// Two devices could not be told apart.
    #[error(
        "{one} and {other} both have `{label}`: say where each was measured with --where, --there \
         and --path of niclab run"
    )]
    SameLabel {
        /// A part.
        one: String,
        /// Another one, or the same.
        other: String,
        /// What both have.
        label: String,
    },
    /// Nothing of a part belongs into the merged result.
    #[error(
        "{name} has no finished round trip: give results of echo-size, echo-batch or echo-ledger"
    )]
    NoRoundTrip {
        /// The part.
        name: String,
    },
    /// Two experiments have nothing but their name in common.
    #[error("{name} is an experiment of another kind in {other}: merge results of the same one")]
    Kinds {
        /// The experiment.
        name: String,
        /// The part.
        other: String,
    },
}

/// What the devices of a part are called in the merged run: host, device, where, path. A computed
/// device has no host, and one that was merged before has its name already.
fn label(part: &MergeInput, device: &RunDevice, name: &str) -> String {
    if !part.run.parts.is_empty() {
        return name.to_owned();
    }
    let host = part.host.clone().filter(|_| !device.about.in_virtual_time);
    let words = [name.to_owned()].into_iter().chain(part.run.placement.words());
    host.into_iter().chain(words).collect::<Vec<_>>().join(", ")
}

/// Makes one result of several, in their order; none of them is changed. `program` is the name and
/// version of the caller.
///
/// # Errors
/// [`MergeError`]; nothing of what they hold is lost silently.
pub fn merge(program: &str, parts: &[MergeInput]) -> Result<Merged, MergeError> {
    check_schemas(parts)?;
    let first = parts.first().map(|part| &part.run);
    let run = Run {
        schema: SCHEMA,
        program: program.to_owned(),
        seed: first.map_or(0, |run| run.seed),
        card: first.map(|run| run.card).unwrap_or_default(),
        trace: None,
        rules: None,
        placement: Placement::default(),
        tune: false,
        baseline: None,
        variants: Variants::default(),
        parts: Vec::new(),
        devices: Vec::new(),
        experiments: Vec::new(),
    };
    let (samples, latencies, left_out) = (Vec::new(), Latencies::new(), Vec::new());
    let mut merged = Merged { run, samples, latencies, left_out };
    for part in parts {
        merged.add(part)?;
    }
    Ok(merged)
}

fn check_schemas(parts: &[MergeInput]) -> Result<(), MergeError> {
    let Some((first, rest)) = parts.split_first() else { return Ok(()) };
    let schemas = |part: &MergeInput| {
        let of_samples = part.samples.iter().map(|sample| sample.schema);
        of_samples.chain([part.run.schema]).find(|schema| *schema != first.run.schema)
    };
    match [first].into_iter().chain(rest).find_map(|part| Some((part, schemas(part)?))) {
        None => Ok(()),
        Some((other, other_schema)) => Err(MergeError::Schemas {
            one: first.name.clone(),
            one_schema: first.run.schema,
            other: other.name.clone(),
            other_schema,
        }),
    }
}

/// A finished round trip of a device.
fn is_round_trip(part: &MergeInput, sample: &Sample) -> bool {
    let has_messages = |run: &ExperimentRun| run.kind.of().has_messages();
    sample.outcome == Outcome::Measured
        && part.run.experiments.iter().any(|run| run.name == sample.experiment && has_messages(run))
}

impl Merged {
    fn add(&mut self, part: &MergeInput) -> Result<(), MergeError> {
        let has_any = |device: &RunDevice| {
            let mut of = part.samples.iter().filter(|sample| sample.device == device.name);
            of.any(|sample| is_round_trip(part, sample))
        };
        // Where each device of the part stands among all; those that measured nothing do not.
        let mut places = Vec::new();
        for device in &part.run.devices {
            places.push(match has_any(device) {
                true => Some(self.add_device(part, device)?),
                false => None,
            });
        }
        let kept: Vec<String> =
            places.iter().flatten().map(|at| self.run.devices[*at].name.clone()).collect();
        if kept.is_empty() {
            return Err(MergeError::NoRoundTrip { name: part.name.clone() });
        }
        match part.run.parts.is_empty() {
            true => {
                let (name, placement) = (part.name.clone(), part.run.placement);
                let variants = part.run.variants.clone();
                self.run.parts.push(RunPart { name, placement, variants, devices: kept });
            }
            false => self.run.parts.extend(part.run.parts.iter().cloned()),
        }
        for experiment in &part.run.experiments {
            match experiment.kind.of().has_messages() {
                true => self.add_experiment(part, experiment, &places)?,
                false if self.left_out.contains(&experiment.name) => {}
                false => self.left_out.push(experiment.name.clone()),
            }
        }
        self.add_samples(part, &places);
        Ok(())
    }

    fn add_device(&mut self, part: &MergeInput, device: &RunDevice) -> Result<usize, MergeError> {
        let asked = label(part, device, device.asked());
        let label = label(part, device, &device.name);
        if self.run.devices.iter().any(|known| known.name == label) {
            let has_it = |known: &&RunPart| known.devices.contains(&label);
            let one = self.run.parts.iter().find(has_it).map_or(&part.name, |known| &known.name);
            let (one, other) = (one.clone(), part.name.clone());
            return Err(MergeError::SameLabel { one, other, label });
        }
        let mut device = device.clone();
        device.name.clone_from(&label);
        device.about.name = label;
        // Variants of other parts are no pairs of these.
        if let Some(variant) = &mut device.variant {
            variant.device = asked;
        }
        self.run.devices.push(device);
        Ok(self.run.devices.len() - 1)
    }

    fn add_experiment(
        &mut self,
        part: &MergeInput,
        from: &ExperimentRun,
        places: &[Option<usize>],
    ) -> Result<(), MergeError> {
        let at = self.run.experiments.iter().position(|known| known.name == from.name);
        let at = at.unwrap_or_else(|| {
            let nothing = ExperimentRun::new(&from.name, &from.question, from.kind, from.grid);
            self.run.experiments.push(nothing);
            self.run.experiments.len() - 1
        });
        let into = &mut self.run.experiments[at];
        if into.kind != from.kind {
            let (name, other) = (from.name.clone(), part.name.clone());
            return Err(MergeError::Kinds { name, other });
        }
        into.repeats = into.repeats.max(from.repeats);
        into.estimate_s += from.estimate_s;
        for (list, more) in
            [(&mut into.taken_back, &from.taken_back), (&mut into.left_out, &from.left_out)]
        {
            list.extend(more.iter().map(|words| format!("{}: {words}", part.name)));
        }
        let trials = add_trials(into, from);
        into.order.extend(from.order.iter().filter_map(|visit| {
            let device = places.get(visit.device).copied().flatten()?;
            let trials = visit.trials.iter().filter_map(|trial| trials.get(*trial).copied());
            Some(Visit { repeat: visit.repeat, device, trials: trials.collect() })
        }));
        Ok(())
    }

    fn add_samples(&mut self, part: &MergeInput, places: &[Option<usize>]) {
        let at = self.run.parts.len();
        for sample in &part.samples {
            let device = part.run.devices.iter().position(|device| device.name == sample.device);
            let place = device.and_then(|device| places.get(device).copied().flatten());
            let of = part.run.experiments.iter().find(|run| run.name == sample.experiment);
            let (Some(place), Some(true)) = (place, of.map(|run| run.kind.of().has_messages()))
            else {
                continue;
            };
            let mut sample = sample.clone();
            sample.device.clone_from(&self.run.devices[place].name);
            sample.order = self.samples.len() as u64;
            if let Some(tag) = sample.latency_tag.take()
                && let Some(histogram) = part.latencies.histogram(&tag)
            {
                let tag = format!("p{at}-{tag}");
                self.latencies.insert(tag.clone(), histogram);
                sample.latency_tag = Some(tag);
            }
            self.samples.push(sample);
        }
    }
}

/// Takes the trials of one experiment into another; where each of them stands then.
fn add_trials(into: &mut ExperimentRun, from: &ExperimentRun) -> Vec<usize> {
    let mut places: Vec<usize> = Vec::new();
    for trial in &from.trials {
        let same = |known: &Trial| known.kind == trial.kind && known.point == trial.point;
        if let Some(at) = into.trials.iter().position(same) {
            places.push(at);
            continue;
        }
        let rate = match trial.rate {
            // A trial that another's rate hangs on stands in front of it.
            PlannedRate::ShareOf { of, share } => {
                PlannedRate::ShareOf { of: places.get(of).copied().unwrap_or(of), share }
            }
            rate => rate,
        };
        let setup = from.setups.get(trial.setup);
        let setup = setup.map_or(0, |setup| index_of(&mut into.setups, setup.clone()));
        let task = from.task(trial).map_or(trial.task, |task| into.keep(task));
        let (kind, point) = (trial.kind, trial.point.clone());
        into.trials.push(Trial { kind, setup, task, rate, point });
        places.push(into.trials.len() - 1);
    }
    places
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
