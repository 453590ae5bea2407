//! The curves of the baseline beside those of a run.

use std::collections::BTreeSet;

use niclab_result::{Figure, Latencies, Origin, Sample, Series, Summary};

use super::DevicePair;
use crate::compare::ComparedDevice;
use crate::summary::summarize;

/// Adds to every measured curve of the summary its curve of the baseline, if it is another one.
pub(super) fn add(
    summary: &mut Summary,
    compared: &[DevicePair<'_>],
    latencies: &Latencies,
    since: &str,
) {
    let Some(earlier) = earlier(compared, latencies) else { return };
    let when = since.get(..16).unwrap_or(since).replacen('T', " ", 1);
    for experiment in &mut summary.experiments {
        let of = earlier.experiments.iter().find(|of| of.name == experiment.name);
        for figure in &mut experiment.figures {
            let before = of.and_then(|of| of.figures.iter().find(|one| is_alike(one, figure)));
            if let Some(before) = before {
                beside(figure, before, compared, &when);
            }
        }
    }
}

/// The summary of the baseline at the places that both runs have measured, its devices under the
/// names of those that they are compared with. Curves of equal names then show the same.
pub(super) fn earlier(compared: &[DevicePair<'_>], latencies: &Latencies) -> Option<Summary> {
    let mut run = compared.first()?.base.side.run.clone();
    // A device that is not compared may have the name that another one gets.
    let is_compared = |name: &str| compared.iter().any(|pair| pair.base.side.device == name);
    run.devices.retain(|device| is_compared(&device.name));
    let mut samples: Vec<Sample> = Vec::new();
    for DevicePair { base, now, .. } in compared {
        let (ComparedDevice { device: theirs, .. }, ours) = (base.side, now.side.device);
        let of_ours = now.side.samples.iter().filter(|sample| sample.device == ours);
        let places: BTreeSet<(&str, &str, String)> = of_ours.map(place).collect();
        let of_theirs = base.side.samples.iter().filter(|sample| sample.device == theirs);
        let shared = of_theirs.filter(|sample| places.contains(&place(sample)));
        samples.extend(shared.map(|one| Sample { device: ours.to_owned(), ..one.clone() }));
        for device in run.devices.iter_mut().filter(|device| device.name == theirs) {
            device.name = ours.to_owned();
        }
    }
    samples.sort_by_key(|sample| sample.order);
    Some(summarize(&run, &samples, latencies))
}

/// The place of a sample: experiment, trial and point.
fn place(sample: &Sample) -> (&str, &str, String) {
    let point = sample.point.iter().map(|(axis, at)| format!("{axis}={at:?} "));
    (&sample.experiment, &sample.trial, point.collect())
}

/// `true` where the points of two figures have the same axes.
fn is_alike(one: &Figure, other: &Figure) -> bool {
    one.id == other.id && one.x.unit == other.x.unit && one.y.unit == other.y.unit
}

/// Puts the curves of `before` behind those of `figure` that have their name.
fn beside(figure: &mut Figure, before: &Figure, compared: &[DevicePair<'_>], when: &str) {
    let mut all = Vec::new();
    for series in std::mem::take(&mut figure.series) {
        let is_same = |of: &&Series| {
            let is_measured = [of.origin, series.origin].iter().all(|of| *of == Origin::Measured);
            is_measured && of.name == series.name && of.device == series.device
        };
        let found = before.series.iter().find(is_same);
        let found = found.filter(|of| of.points != series.points && !of.points.is_empty());
        let hue = series.hue;
        all.push(series);
        all.extend(found.map(|of| Series {
            name: format!("{} before ({when})", under_own_name(of, compared)),
            origin: Origin::Baseline,
            hue,
            ..of.clone()
        }));
    }
    figure.series = all;
}

/// The name of a curve of the baseline, with the name that its device had.
fn under_own_name(series: &Series, compared: &[DevicePair<'_>]) -> String {
    let pair = compared.iter().find(|pair| pair.now.side.device == series.device);
    let own = pair.map_or(series.device.as_str(), |pair| pair.base.side.device);
    series.name.replacen(&series.device, own, 1)
}
