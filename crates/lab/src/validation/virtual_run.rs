//! Runs an experiment on a modelled card, in memory and in virtual time.

use niclab_device::{Latency, Testbed};
use niclab_result::{Latencies, ResultError, Sample, Summary};

use super::ValidationError;
use crate::experiments;
use crate::run::{Run, RunDevice, resolve};
use crate::runner::{Event, Host, OpenedDevice, Store, execute};
use crate::spec::{GridName, Overrides, SpecError};
use crate::summary::summarize;

/// The measurements of a modelled card.
pub struct MeasuredModel {
    /// The run.
    pub run: Run,
    /// One a measurement.
    pub samples: Vec<Sample>,
    latencies: Latencies,
}

impl MeasuredModel {
    /// The histograms of the samples, by their tags.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// The summary of the samples.
    pub fn summary(&self) -> Summary {
        summarize(&self.run, &self.samples, &self.latencies)
    }
}

/// Measures a card with an experiment; `set` as `niclab run --set` takes it.
///
/// # Errors
/// What is wrong with `set`, or with a sample.
pub fn measure(
    device: &mut dyn Testbed,
    name: &str,
    grid: GridName,
    set: &[&str],
    repeats: Option<u32>,
) -> Result<MeasuredModel, ValidationError> {
    measure_beside(vec![device], name, grid, set, repeats)
}

/// Measures several devices with an experiment, one beside the other.
///
/// # Errors
/// As [`measure`].
pub(crate) fn measure_beside(
    devices: Vec<&mut dyn Testbed>,
    name: &str,
    grid: GridName,
    set: &[&str],
    repeats: Option<u32>,
) -> Result<MeasuredModel, ValidationError> {
    let set = set.iter().map(|text| text.parse()).collect::<Result<_, SpecError>>()?;
    let overrides = Overrides { set, repeats, grid, ..Overrides::default() };
    let described = devices.iter().map(|device| {
        let about = device.about().clone();
        RunDevice { name: about.name.clone(), variant: None, absent: None, about }
    });
    let described = described.collect();
    let program = concat!("niclab ", env!("CARGO_PKG_VERSION"));
    let run = resolve(program, &[experiments::spec(name)?], &overrides, described)?;
    let mut store = MemoryStore::default();
    let mut beds: Vec<OpenedDevice<'_>> = devices.into_iter().map(Ok).collect();
    execute(&run, &mut beds, &[], &mut store, &mut Clock(0))?;
    Ok(MeasuredModel { run, samples: store.samples, latencies: store.latencies })
}

/// A store in memory.
#[derive(Default)]
pub(crate) struct MemoryStore {
    pub samples: Vec<Sample>,
    pub latencies: Latencies,
}

impl Store for MemoryStore {
    fn append(&mut self, sample: &Sample, latency: Option<&Latency>) -> Result<(), ResultError> {
        if let (Some(tag), Some(latency)) = (&sample.latency_tag, latency) {
            self.latencies.insert(tag.clone(), latency.0.clone());
        }
        self.samples.push(sample.clone());
        Ok(())
    }
}

/// Nobody waits: a nanosecond a sample keeps them apart.
struct Clock(u64);

impl Host for Clock {
    fn time_unix_ns(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    fn is_stopped(&mut self) -> bool {
        false
    }

    fn progress(&mut self, _: Event<'_>) {}
}
