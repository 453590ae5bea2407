//! Points that two experiments of a run have in common, and round trips of which one contains the
//! other: whether what they measured agrees.
//!
//! The same point of the same device is measured again minutes later. Where the two differ, the
//! machine has changed meanwhile, and nothing of one experiment can be held against the other.

use niclab_result::Sample;

use crate::cells::{Cell, Cells};
use crate::findings::{RatioVerdict, verdict};
use crate::run::{ExperimentRun, Run};
use crate::statistics::{Estimate, unpaired_ratio};
use crate::words;

/// Medians that differ by less are no disagreement: no conclusion rests on so little.
const TOLERANCE: f64 = 0.05;

/// A point that two experiments measured, by the metric that its trial is made for.
struct CommonPoint<'a> {
    cell: &'a Cell<'a>,
    unit: &'static str,
    medians: [f64; 2],
    ratio: Estimate,
}

impl CommonPoint<'_> {
    fn is_apart(&self) -> bool {
        verdict(&self.ratio) == Some(RatioVerdict::Differs)
            && (self.ratio.low > 1.0 + TOLERANCE || self.ratio.high < 1.0 / (1.0 + TOLERANCE))
    }
}

/// A line for each device and each two experiments that disagree.
pub(crate) fn warnings(run: &Run, samples: &[Sample]) -> Vec<String> {
    [at_common_points(run, samples), below_echo(run, samples)].concat()
}

/// The names of published round trips over UDP: of an echo, and of an application, which cannot be
/// faster.
const ECHO: &str = "udp_echo";
const APPLICATION: &str = "memcached";

/// A round trip of one message or request, one at a time.
#[derive(Clone)]
struct RoundTrip<'a> {
    experiment: &'a str,
    application: &'static str,
    size: f64,
    median_ns: f64,
}

/// A line for each device on which a request takes less than an echo.
fn below_echo(run: &Run, samples: &[Sample]) -> Vec<String> {
    let devices = run.devices.iter().map(|device| device.name.as_str());
    devices.filter_map(|device| below(device, &round_trips(run, samples, device))).collect()
}

/// The request that takes less than an echo of the same size, and is farthest from it.
fn below(device: &str, all: &[RoundTrip<'_>]) -> Option<String> {
    let of = |name: &'static str| all.iter().filter(move |trip| trip.application == name);
    let pairs = of(APPLICATION).flat_map(|trip| of(ECHO).map(move |echo| (trip, echo)));
    let ratio = |(trip, echo): &(&RoundTrip<'_>, &RoundTrip<'_>)| trip.median_ns / echo.median_ns;
    let below = pairs.filter(|pair| pair.0.size == pair.1.size && ratio(pair) < 1.0);
    let (trip, echo) = below.min_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    Some(format!(
        "{device}: a {APPLICATION} request of {} B over UDP takes {} in {}, less than the {} of an \
         echo in {}. The machine changed between the two: the difference is noise.",
        words::whole(trip.size),
        words::time(trip.median_ns),
        trip.experiment,
        words::time(echo.median_ns),
        echo.experiment
    ))
}

fn round_trips<'a>(run: &'a Run, samples: &[Sample], device: &str) -> Vec<RoundTrip<'a>> {
    let mut all = Vec::new();
    for of in &run.experiments {
        let kind = of.kind.of();
        let cells = Cells::new(&of.name, samples);
        for cell in kind.trials().iter().flat_map(|trial| cells.of(device, trial.trial)) {
            let Some((application, metric)) = kind.published_round_trip(cell) else { continue };
            let (size, estimate) = (cell.number("size"), cell.estimate(metric));
            if let (Some(size), Some(estimate), "here") =
                (size, estimate, cell.word("client").as_str())
            {
                let (experiment, median_ns) = (of.name.as_str(), estimate.median);
                all.push(RoundTrip { experiment, application, size, median_ns });
            }
        }
    }
    all
}

fn at_common_points(run: &Run, samples: &[Sample]) -> Vec<String> {
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
    let distance = |common: &CommonPoint<'_>| common.ratio.median.ln().abs();
    let most = apart.clone().max_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let [here, there] = most.medians.map(|median| worded(median, most.unit));
    Some(format!(
        "{device}: {} and {} disagree at {} of {} that both measured, most{}: {here} and \
         {there}. The machine changed between the two: do not compare one with the other.",
        one.name,
        other.name,
        apart.count(),
        words::counted(all.len() as f64, "point"),
        place(most.cell, &all)
    ))
}

fn common<'a>(
    experiment: &ExperimentRun,
    [here, there]: &'a [Cells<'_>; 2],
    device: &str,
) -> Vec<CommonPoint<'a>> {
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
                all.push(CommonPoint { cell, unit, medians: [one, other], ratio });
            }
        }
    }
    all
}

/// ` at size=1472, receive=blocking`: the axes in which common points differ; empty of one point.
fn place(cell: &Cell<'_>, all: &[CommonPoint<'_>]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn trip(application: &'static str, size: f64, us: f64) -> RoundTrip<'static> {
        let experiment = if application == ECHO { "echo-size" } else { "memcached" };
        RoundTrip { experiment, application, size, median_ns: 1e3 * us }
    }

    #[test]
    fn a_request_that_takes_less_than_an_echo_of_its_size_is_noise() {
        let echoes = [trip(ECHO, 64.0, 50.0), trip(ECHO, 1024.0, 60.0)];
        let with = |requests: [RoundTrip<'static>; 2]| {
            below("veth", &echoes.iter().cloned().chain(requests).collect::<Vec<_>>())
        };
        assert_eq!(with([trip("memcached", 64.0, 51.0), trip("memcached", 1024.0, 61.0)]), None);
        assert_eq!(with([trip("memcached", 64.0, 51.0), trip("memcached", 512.0, 40.0)]), None);
        assert_eq!(with([trip("redis", 64.0, 40.0), trip("redis", 1024.0, 40.0)]), None);
        let found = with([trip("memcached", 64.0, 49.0), trip("memcached", 1024.0, 48.0)]);
        let words = "veth: a memcached request of 1,024 B over UDP takes 48.0 us in memcached, \
                     less than the 60.0 us of an echo in echo-size. The machine changed between \
                     the two: the difference is noise.";
        assert_eq!(found.as_deref(), Some(words));
    }
}
