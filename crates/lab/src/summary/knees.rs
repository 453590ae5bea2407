//! Knees, found again in the samples by asking them the questions of the search.

use niclab_result::{Knee as Drawn, Sample};

use crate::cells::{Cell, Cells};
use crate::knee::{self, Found};
use crate::run::{ExperimentRun, Knee, Run};
use crate::runner::search::{CAPACITY, PLATEAU, PROBE, bracket, is_in_front, is_taken};
use crate::spec::KneeKind;

/// A knee of a device.
#[derive(Clone, Debug)]
pub(crate) struct FoundKnee {
    /// Device.
    pub device: String,
    /// What was searched.
    pub knee: Knee,
    /// What was found.
    pub found: Found,
    /// The generator may have hidden it: some of its trials show the generator's limit.
    pub is_generator_limited: bool,
}

impl FoundKnee {
    /// As it is drawn; `None` where there is nothing to draw.
    pub fn drawn(&self) -> Option<Drawn> {
        let (x, width) = self.found.middle_and_width()?;
        Some(Drawn { device: self.device.clone(), x, width, label: knee::label(&self.knee.spec) })
    }
}

/// All knees that were searched to their end.
pub(super) fn found(
    run: &Run,
    experiment: &ExperimentRun,
    cells: &Cells<'_>,
    samples: &[Sample],
) -> Vec<FoundKnee> {
    let mut all = Vec::new();
    for device in &run.devices {
        for knee in &experiment.knees {
            let of: Vec<&Sample> = samples
                .iter()
                .filter(|s| s.experiment == experiment.name && s.device == device.name)
                .collect();
            let found = bracket(knee, |rules| match knee.spec.kind {
                KneeKind::Capacity => takes(&of, knee, rules),
                KneeKind::Throughput => is_fast(cells, &device.name, knee, rules),
            });
            if found != Found::Stopped {
                let is_generator_limited = is_limited(cells, &device.name, knee);
                let (device, knee) = (device.name.clone(), knee.clone());
                all.push(FoundKnee { device, knee, found, is_generator_limited });
            }
        }
    }
    all
}

fn takes(samples: &[&Sample], knee: &Knee, rules: u32) -> Option<bool> {
    let point = crate::runner::search::capacity_point(knee, rules);
    let sample = samples.iter().find(|s| s.trial == CAPACITY && s.point == point)?;
    is_taken(&sample.outcome)
}

fn is_fast(cells: &Cells<'_>, device: &str, knee: &Knee, rules: u32) -> Option<bool> {
    if rules == knee::rules_min(&knee.spec) {
        return Some(true);
    }
    let at = |trial| cells.of(device, trial).find(|cell| is_of(cell, knee, rules));
    let (probe, plateau) = (at(PROBE)?, at(PLATEAU)?);
    let pairs = probe.values("throughput_pps").into_iter().zip(plateau.values("throughput_pps"));
    is_in_front(knee, pairs.collect())
}

fn is_of(cell: &Cell<'_>, knee: &Knee, rules: u32) -> bool {
    cell.is_at(&[("groups", f64::from(knee.spec.groups)), ("rules", f64::from(rules))])
}

fn is_limited(cells: &Cells<'_>, device: &str, knee: &Knee) -> bool {
    let groups = [("groups", f64::from(knee.spec.groups))];
    let mut of = cells.of(device, PROBE).chain(cells.of(device, PLATEAU));
    knee.spec.kind == KneeKind::Throughput
        && of.any(|cell| cell.is_at(&groups) && cell.is_generator_limited())
}
