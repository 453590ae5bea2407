//! Medians with intervals of the metrics that the trials of a run are made for.

use niclab_result::{Mark, Point, Sample};

use crate::cells::Cells;
use crate::compare::metrics::Better;
use crate::experiments;
use crate::run::Run;
use crate::statistics::Estimate;

/// A metric of a trial at one point of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricMedian<'a> {
    /// The experiment.
    pub experiment: &'a str,
    /// The device.
    pub device: &'a str,
    /// The trial.
    pub trial: &'a str,
    /// The point of the sweep.
    pub point: &'a Point,
    /// The metric.
    pub metric: &'a str,
    /// Its unit.
    pub unit: &'a str,
    /// Whether more or less of it is better.
    pub better: Better,
    /// Its median and interval.
    pub estimate: Estimate,
    /// The warnings about it.
    pub marks: Vec<Mark>,
}

impl MetricMedian<'_> {
    /// The marks that say that the generator or the machine, not the device, may have set the
    /// value.
    pub fn doubts(&self) -> Vec<Mark> {
        let doubts =
            [Mark::Disturbed, Mark::GeneratorLimited, Mark::MachineDrift, Mark::Unbalanced];
        self.marks.iter().copied().filter(|mark| doubts.contains(mark)).collect()
    }
}

/// The medians of all metrics that the trials of `run` are made for, experiment by experiment.
/// Points whose counters do not add up are left out.
pub fn medians<'a>(run: &'a Run, samples: &'a [Sample]) -> Vec<MetricMedian<'a>> {
    let mut medians = Vec::new();
    for experiment in &run.experiments {
        for cell in Cells::new(&experiment.name, samples).balanced().all() {
            let named = cell.samples.iter().flat_map(|sample| &sample.metrics);
            let mut metrics: Vec<(&str, &str)> =
                named.map(|(name, of)| (name.as_str(), of.unit.as_str())).collect();
            metrics.sort_unstable();
            metrics.dedup_by_key(|(name, _)| *name);
            for (metric, unit) in metrics {
                let better = experiments::headline(cell.trial, metric);
                if let Some((better, estimate)) = better.zip(cell.estimate(metric)) {
                    medians.push(MetricMedian {
                        experiment: &experiment.name,
                        device: cell.device,
                        trial: cell.trial,
                        point: cell.point,
                        metric,
                        unit,
                        better,
                        estimate,
                        marks: cell.marks(metric),
                    });
                }
            }
        }
    }
    medians
}
