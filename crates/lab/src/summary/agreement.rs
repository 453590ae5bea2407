//! Points that two experiments of a run have in common: whether what they measured agrees.
//!
//! The same point of the same device is measured again minutes later. Where the two differ, the
//! machine has changed meanwhile, and nothing of one experiment can be held against the other.

use niclab_result::Sample;

use crate::cells::{Cell, Cells};
use crate::findings::{RatioVerdict, verdict};
use crate::run::{ExperimentRun, Run};
use crate::statistics::{Estimate, unpaired_ratio};
use crate::words;

/// A point that two experiments measured, by the metric that its trial is made for.
struct Common<'a> {
    cell: &'a Cell<'a>,
    unit: &'static str,
    medians: [f64; 2],
    ratio: Estimate,
}

impl Common<'_> {
    fn is_apart(&self) -> bool {
        verdict(&self.ratio) == Some(RatioVerdict::Differs)
    }
}

/// A line for each device and each two experiments that disagree at points that both measured.
pub(crate) fn warnings(run: &Run, samples: &[Sample]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (at, one) in run.experiments.iter().enumerate() {
        for other in run.experiments[at + 1..].iter().filter(|other| other.kind == one.kind) {
            let cells = [one, other].map(|of| Cells::new(&of.name, samples).balanced());
            let devices = run.devices.iter().map(|device| device.name.as_str());
            warnings
                .extend(devices.filter_map(|device| disagreement([one, other], &cells, device)));
        }
    }
    warnings
}

fn disagreement(
    [one, other]: [&ExperimentRun; 2],
    cells: &[Cells<'_>; 2],
    device: &str,
) -> Option<String> {
    let all = common(one, cells, device);
    let apart = all.iter().filter(|common| common.is_apart());
    let distance = |common: &Common<'_>| common.ratio.median.ln().abs();
    let most = apart.clone().max_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let [here, there] = most.medians.map(|median| worded(median, most.unit));
    Some(format!(
        "{device}: {} and {} disagree at {} of {} points that both measured, most{}: {here} and \
         {there}. The machine changed between the two: do not compare one with the other.",
        one.name,
        other.name,
        apart.count(),
        all.len(),
        place(most.cell, &all)
    ))
}

fn common<'a>(
    experiment: &ExperimentRun,
    [here, there]: &'a [Cells<'_>; 2],
    device: &str,
) -> Vec<Common<'a>> {
    let mut all = Vec::new();
    for of in experiment.kind.of().trials() {
        let Some(metric) = of.judged_by.first() else { continue };
        let unit = of.metric(metric).map_or("", |metric| metric.unit);
        for cell in here.of(device, of.trial) {
            let again = there.of(device, of.trial).find(|other| other.point == cell.point);
            let Some(again) = again else { continue };
            let ratio = unpaired_ratio(&cell.values(metric), &again.values(metric));
            let medians = [cell, again].map(|cell| cell.estimate(metric).map(|of| of.median));
            if let (Some(ratio), [Some(one), Some(other)]) = (ratio, medians) {
                all.push(Common { cell, unit, medians: [one, other], ratio });
            }
        }
    }
    all
}

/// ` at size=1472, receive=blocking`: the axes in which common points differ; empty of one point.
fn place(cell: &Cell<'_>, all: &[Common<'_>]) -> String {
    let differs = |axis: &&String| all.iter().any(|of| of.cell.word(axis) != cell.word(axis));
    let axes = cell.point.keys().filter(differs);
    let axes: Vec<String> = axes.map(|axis| format!("{axis}={}", cell.word(axis))).collect();
    if axes.is_empty() { String::new() } else { format!(" at {}", axes.join(", ")) }
}

fn worded(value: f64, unit: &str) -> String {
    match unit {
        "ns" => words::time(value),
        "pps" => words::pps(value),
        unit => format!("{} {unit}", words::significant(value)),
    }
}
