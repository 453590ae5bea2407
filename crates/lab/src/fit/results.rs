//! Measurements of a card, read from the samples of a result directory.

use niclab_device::Stack;
use niclab_device::model::profile::{Basis, Profile};
use niclab_result::{Coordinate, Mark, Outcome, Sample};

use super::{CardMeasurements, Created, fit};
use crate::axes::ACTIONS;
use crate::runner::search::CAPACITY;
use crate::{statistics, words};

/// Why no profile can be fitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{device}: {reason}")]
pub struct FitError {
    /// The device.
    pub device: String,
    /// What is missing, and how to measure it.
    pub reason: String,
}

/// The profile of a device, fitted to its samples; `source` names their directory.
///
/// # Errors
/// Where there is no throughput of group 0 at full load: everything else hangs on it.
pub fn of_results(device: &str, source: &str, samples: &[Sample]) -> Result<Profile, FitError> {
    let mut samples: Vec<&Sample> =
        samples.iter().filter(|sample| sample.device == device).collect();
    let capacity = capacity(&samples);
    samples.retain(|sample| sample.outcome == Outcome::Measured);
    let is_disturbed = |sample: &&Sample| {
        let is_root = occupancy(sample, "saturate").is_some_and(|(groups, _)| groups == 0.0);
        is_root && sample.marks.contains(&Mark::Disturbed)
    };
    let disturbed = samples.iter().copied().filter(is_disturbed).count();
    samples.retain(|sample| !sample.marks.contains(&Mark::Disturbed));
    let seen = CardMeasurements { capacity, ..measurements(source, &samples) };
    if seen.root.is_empty() {
        let again = "`niclab run occupancy --set groups=0`";
        let reason = match disturbed {
            0 => format!("no throughput over the rules of group 0: measure it with {again}"),
            trials => format!(
                "no throughput over the rules of group 0: its {} {} disturbed, because the machine \
                 stalled; measure it on a calmer one with {again}",
                words::counted(trials as f64, "trial"),
                words::verb(trials as f64, "was", "were")
            ),
        };
        return Err(FitError { device: device.to_owned(), reason });
    }
    let fitted_to: Vec<String> = {
        let mut experiments: Vec<&str> = samples.iter().map(|s| s.experiment.as_str()).collect();
        experiments.sort_unstable();
        experiments.dedup();
        experiments.into_iter().map(|experiment| format!("{source}: {experiment}")).collect()
    };
    Ok(fit(device, &seen, fitted_to, false, None))
}

/// Most rules that group 0 took, where it refused more.
fn capacity(samples: &[&Sample]) -> Option<(f64, Basis)> {
    let of = samples.iter().filter(|sample| sample.trial == CAPACITY);
    let (taken, refused): (Vec<&Sample>, Vec<&Sample>) =
        of.copied().partition(|sample| sample.outcome == Outcome::Measured);
    let most = taken.iter().filter_map(|sample| number(sample, "rules")).reduce(f64::max)?;
    (!refused.is_empty()).then_some((most, Basis::Fitted))
}

pub(crate) fn number(sample: &Sample, axis: &str) -> Option<f64> {
    match sample.point.get(axis)? {
        Coordinate::Number(number) => Some(*number),
        Coordinate::Word(_) => None,
    }
}

pub(crate) fn word<'a>(sample: &'a Sample, axis: &str) -> Option<&'a str> {
    match sample.point.get(axis)? {
        Coordinate::Word(word) => Some(word),
        Coordinate::Number(_) => None,
    }
}

pub(crate) fn metric(sample: &Sample, name: &str) -> Option<f64> {
    sample.metrics.get(name).map(|metric| metric.value)
}

/// Medians of the repeats of each place, by what tells places apart.
pub(crate) fn medians<K: PartialEq + Copy>(
    samples: &[&Sample],
    of: impl Fn(&Sample) -> Option<(K, f64)>,
) -> Vec<(K, f64)> {
    let mut places: Vec<(K, Vec<f64>)> = Vec::new();
    for (key, value) in samples.iter().filter_map(|sample| of(sample)) {
        match places.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => places.push((key, vec![value])),
        }
    }
    let median = |(key, values): (K, Vec<f64>)| Some((key, statistics::median(&values)?));
    places.into_iter().filter_map(median).collect()
}

/// Groups and rules of a trial of occupancy whose frames match a default rule alone.
fn occupancy(sample: &Sample, trial: &str) -> Option<(f64, f64)> {
    let is_it = sample.experiment == "occupancy" && sample.trial == trial;
    let is_it = is_it && number(sample, "match_percent") == Some(0.0);
    is_it.then(|| Some((number(sample, "groups")?, number(sample, "rules")?))).flatten()
}

fn measurements(source: &str, samples: &[&Sample]) -> CardMeasurements {
    let longest = samples.iter().filter_map(|sample| number(sample, "frame")).fold(64.0, f64::max);
    let is_longest = |sample: &Sample| number(sample, "frame") == Some(longest);
    let throughput = |sample: &Sample| metric(sample, "throughput_pps").filter(|pps| *pps > 0.0);
    let occupancy =
        |sample: &Sample, trial: &str| occupancy(sample, trial).filter(|_| is_longest(sample));
    let full = medians(samples, |sample| {
        Some((occupancy(sample, "saturate")?, 1e9 / throughput(sample)?))
    });
    let root = full.iter().filter(|((groups, _), _)| *groups == 0.0);
    let root: Vec<(f64, f64)> = root.map(|((_, rules), ns)| (*rules, *ns)).collect();
    let groups = full.iter().filter(|((groups, _), _)| *groups > 0.0);
    let line_ns = full.iter().map(|(_, ns)| *ns).fold(f64::INFINITY, f64::min);
    let latency = |name: &'static str| {
        let idle = medians(samples, |sample| {
            let (groups, rules) = occupancy(sample, "light").or(occupancy(sample, "latency"))?;
            (groups == 0.0 && rules <= 1.0).then(|| Some((0, metric(sample, name)?))).flatten()
        });
        idle.first().map(|(_, ns)| *ns)
    };
    let waiting = medians(samples, |sample| {
        let (groups, rules) = occupancy(sample, "saturate")?;
        (groups == 0.0).then_some(())?;
        Some((rules, metric(sample, "latency_ns_p50")?))
    });
    let rest_ns = waiting.iter().min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, ns)| *ns);
    let most = waiting.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let full_ns = most.and_then(|(rules, latency_ns)| {
        let (_, frame_ns) = root.iter().find(|(of, _)| of == rules)?;
        Some((*latency_ns, *frame_ns))
    });
    CardMeasurements {
        source: source.to_owned(),
        forwarder: "niclab's forward on DPDK".to_owned(),
        is_study: false,
        rate_gbps: line_ns.is_finite().then(|| (8.0 * (longest + 20.0) / line_ns, Basis::AtLeast)),
        line_ns,
        capacity: None,
        groups: groups.map(|((groups, rules), ns)| (*groups, *rules, *ns)).collect(),
        root,
        idle_ns: latency("latency_ns_p1").zip(latency("latency_ns_p99")),
        full_ns,
        churn: [0.0, 1.0].map(|group| churn(samples, group)),
        rest_ns,
        created: created(samples),
        updated: ["actions", "anew"].map(|change| {
            medians(samples, |sample| {
                let is_it = sample.experiment == "rule-update"
                    && word(sample, "change") == Some(change)
                    && word(sample, "traffic") == Some("none")
                    && word(sample, "calls") == Some("single")
                    && number(sample, "group") == Some(1.0);
                is_it.then_some(())?;
                Some((number(sample, "rules")?, metric(sample, "operations_per_s")?))
            })
        }),
        destroyed: [0.0, 1.0].map(|group| {
            medians(samples, |sample| {
                let is_it =
                    is_insertion(sample, group) && word(sample, "stack") == Some("eth/ipv4/tcp");
                is_it.then_some(())?;
                Some((number(sample, "rules")?, metric(sample, "destroy_operations_per_s")?))
            })
        }),
    }
}

/// Frame times under replacements a tick on the core that forwards.
fn churn(samples: &[&Sample], group: f64) -> Vec<(f64, f64)> {
    medians(samples, |sample| {
        let is_it = sample.experiment == "update-rate"
            && sample.trial == "saturate"
            && word(sample, "core") == Some("same")
            && word(sample, "slice") == Some("tick")
            && number(sample, "group") == Some(group);
        is_it.then_some(())?;
        Some((number(sample, "per_s")?, 1e9 / metric(sample, "throughput_pps")?))
    })
}

fn is_insertion(sample: &Sample, group: f64) -> bool {
    sample.experiment == "rule-rate"
        && word(sample, "calls") == Some("single")
        && number(sample, "group") == Some(group)
        && number(sample, "threads").is_none()
}

fn created(samples: &[&Sample]) -> Vec<Created> {
    let mut all = Vec::new();
    for group in [0, 1] {
        for (stack, _) in Stack::ALL {
            for (at, (actions, _)) in ACTIONS.iter().enumerate() {
                let rates = medians(samples, |sample| {
                    let is_it = is_insertion(sample, group as f64)
                        && word(sample, "stack") == Some(stack)
                        && word(sample, "actions") == Some(actions);
                    is_it.then_some(())?;
                    Some((number(sample, "rules")?, metric(sample, "operations_per_s")?))
                });
                let of = |(rules, per_s)| Created { group, stack, actions: at + 1, rules, per_s };
                all.extend(rates.into_iter().map(of));
            }
        }
    }
    all
}
