//! Searches for knees on a device: each question is a set-up, and trials where throughput decides.

use niclab_device::{Plan, Rate};
use niclab_result::{Coordinate, Outcome, Point, ResultError};

use super::{MeasuredPoint, OpenedDevice, RunEnd, Runner};
use crate::device_samples::DeviceSamples;
use crate::estimate;
use crate::knee::{self, SearchResult};
use crate::run::{ExperimentRun, Knee};
use crate::spec::KneeKind;
use crate::statistics;

/// Name of the samples that ask whether the device takes a number of rules.
pub const CAPACITY: &str = "capacity";
/// Name of the samples at a number of rules whose throughput is judged.
pub const PROBE: &str = "knee-probe";
/// Name of the samples with the default rules only, made beside each probe.
pub const PLATEAU: &str = "knee-plateau";

impl Runner<'_> {
    /// Searches knee `at` on `device`; the samples of its questions are its result. Says so where
    /// it was cut short: after `--resume` it goes on, for its questions are stored.
    pub(super) fn search(
        &mut self,
        beds: &mut [OpenedDevice<'_>],
        at: usize,
        device: usize,
    ) -> Result<Option<RunEnd>, ResultError> {
        let experiment = self.experiment;
        let knee = &experiment.knees[at];
        let known = &self.states[device].known;
        if known.gone || known.no_rules {
            return Ok(None);
        }
        let mut failure = None;
        let found = bracket(knee, |rules| {
            let answer = match knee.spec.kind {
                KneeKind::Capacity => self.takes(beds, knee, device, rules),
                KneeKind::Throughput => self.is_fast(beds, knee, device, rules),
            };
            answer.unwrap_or_else(|error| {
                failure = Some(error);
                None
            })
        });
        let estimate_s = self.pace(device) * estimate::knee_s(experiment, knee);
        self.past_s += estimate_s;
        self.worked_s += estimate_s;
        match failure {
            Some(error) => Err(error),
            None if found == SearchResult::Stopped => Ok(self.end()),
            None => Ok(None),
        }
    }

    /// `true` where the device takes all of `rules`.
    fn takes(
        &mut self,
        beds: &mut [OpenedDevice<'_>],
        knee: &Knee,
        device: usize,
        rules: u32,
    ) -> Result<Option<bool>, ResultError> {
        let point = capacity_point(knee, rules);
        let place = MeasuredPoint { device, trial: CAPACITY, repeat: 0, point: &point };
        if !self.is_done(&place) {
            if self.end().is_some() {
                return Ok(None);
            }
            // Asked anew even where the device is in that state already: the answer is the sample.
            self.states[device].setup = None;
            let setup = knee.place.with_rules(rules).setup(knee.seed, knee.frame_len_max);
            if !self.set_up(beds, &setup, &place, &place)? {
                return Ok(None);
            }
        }
        Ok(answer(&self.states[device].known, knee, rules))
    }

    /// `true` where throughput at `rules` is at least the share of the plateau; the median of pairs
    /// decides, each made of two trials one after the other.
    fn is_fast(
        &mut self,
        beds: &mut [OpenedDevice<'_>],
        knee: &Knee,
        device: usize,
        rules: u32,
    ) -> Result<Option<bool>, ResultError> {
        let low = knee::rules_min(&knee.spec);
        // What stands on the plateau need not be asked.
        let pairs = if rules == low { 0 } else { knee.spec.pairs.max(1) };
        let point = knee_point(self.experiment, knee, rules);
        for pair in 0..pairs {
            // The plateau stands before the probe in even pairs and behind it in odd ones, so that
            // drift favours neither.
            let mut two = [(PLATEAU, low), (PROBE, rules)];
            if pair % 2 == 1 {
                two.reverse();
            }
            for (trial, installed) in two {
                let place = MeasuredPoint { device, trial, repeat: pair, point: &point };
                if !self.probe(beds, knee, &place, installed)? {
                    return Ok(None);
                }
            }
        }
        Ok(answer(&self.states[device].known, knee, rules))
    }

    /// Measures one half of a pair where it is not there yet; `false` where that cannot be.
    fn probe(
        &mut self,
        beds: &mut [OpenedDevice<'_>],
        knee: &Knee,
        place: &MeasuredPoint<'_>,
        rules: u32,
    ) -> Result<bool, ResultError> {
        if self.is_done(place) {
            return Ok(true);
        }
        if self.end().is_some() {
            return Ok(false);
        }
        let at = knee.place.with_rules(rules);
        let setup_point = super::setup_point(&at.point());
        let set_up = MeasuredPoint { trial: super::SETUP, point: &setup_point, ..*place };
        let setup = at.setup(knee.seed, knee.frame_len_max);
        if !self.set_up(beds, &setup, &set_up, place)? || self.end().is_some() {
            return Ok(false);
        }
        let mut load = self.experiment.loads[knee.load].clone();
        load.rate = Rate::Saturate;
        // Fewer rules to hit are fewer flows.
        if load.trace.is_none() {
            load.flows = at.traffic(knee.seed);
        }
        Ok(self.offer(beds, (load, Plan::Rest), place)?.is_some())
    }
}

/// What the samples answer: `true` where so many rules are in front of the knee; `None` where they
/// do not say.
pub(crate) fn answer(known: &DeviceSamples<'_>, knee: &Knee, rules: u32) -> Option<bool> {
    match knee.spec.kind {
        KneeKind::Capacity => {
            is_taken(&known.latest(CAPACITY, 0, &capacity_point(knee, rules))?.outcome)
        }
        KneeKind::Throughput if rules == knee::rules_min(&knee.spec) => Some(true),
        KneeKind::Throughput => {
            let point = knee_point(known.experiment, knee, rules);
            let pps = |trial, pair| known.latest(trial, pair, &point)?.throughput_pps;
            let pairs =
                (0..knee.spec.pairs.max(1)).map(|n| Some((pps(PROBE, n)?, pps(PLATEAU, n)?)));
            is_in_front(knee, pairs.collect::<Option<_>>()?)
        }
    }
}

/// `true` where the device could have the knee and its search has not come to an end.
pub(crate) fn is_missing(known: &DeviceSamples<'_>, knee: &Knee) -> bool {
    let mut is_open = false;
    let found = bracket(knee, |rules| {
        let answer = answer(known, knee, rules);
        is_open = answer.is_none() && is_open_at(known, knee, rules);
        answer
    });
    !known.gone && !known.no_rules && found == SearchResult::Stopped && is_open
}

/// `true` where a sample that the answer at so many rules hangs on is missing, and none says why it
/// cannot be had.
fn is_open_at(known: &DeviceSamples<'_>, knee: &Knee, rules: u32) -> bool {
    let outcomes: Vec<Option<&Outcome>> = match knee.spec.kind {
        KneeKind::Capacity => {
            let observed = known.latest(CAPACITY, 0, &capacity_point(knee, rules));
            vec![observed.map(|observed| &observed.outcome)]
        }
        KneeKind::Throughput => {
            let point = knee_point(known.experiment, knee, rules);
            let pairs = (0..knee.spec.pairs.max(1)).flat_map(|n| [(PROBE, n), (PLATEAU, n)]);
            let observed = pairs.map(|(trial, n)| known.latest(trial, n, &point));
            observed.map(|observed| observed.map(|observed| &observed.outcome)).collect()
        }
    };
    let is_refused = |outcome: &&Outcome| is_taken(outcome).is_none();
    outcomes.contains(&None) && !outcomes.iter().flatten().any(is_refused)
}

/// Coordinates of the probes at so many rules.
fn knee_point(experiment: &ExperimentRun, knee: &Knee, rules: u32) -> Point {
    let mut point = knee.place.with_rules(rules).point();
    point.insert("frame".into(), knee_frame(experiment, knee));
    point
}

/// The frames of a knee's trials, as a coordinate.
pub(crate) fn knee_frame(experiment: &ExperimentRun, knee: &Knee) -> Coordinate {
    match &experiment.loads[knee.load].trace {
        Some(_) => Coordinate::Word("trace".into()),
        None => Coordinate::Number(64.0),
    }
}

/// The bisection of a knee with the questions answered by `is_in_front`.
pub(crate) fn bracket(knee: &Knee, is_in_front: impl FnMut(u32) -> Option<bool>) -> SearchResult {
    let low = knee::rules_min(&knee.spec);
    knee::bisect(low, knee.spec.rules_max.max(low + 1), knee.spec.width, is_in_front)
}

/// What pairs of throughputs, at the probe and on the plateau, say; `None` where there are none.
pub(crate) fn is_in_front(knee: &Knee, pairs: Vec<(f64, f64)>) -> Option<bool> {
    let (probes, plateaus): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    let ratio = statistics::paired_ratio(&probes, &plateaus)?;
    Some(ratio.median >= knee.spec.share)
}

/// Coordinates of a question for capacity: no traffic plays a part in it.
pub(crate) fn capacity_point(knee: &Knee, rules: u32) -> Point {
    super::setup_point(&knee.place.with_rules(rules).point())
}

/// Whether all rules were taken; `None` where that was not found out.
pub(crate) fn is_taken(outcome: &Outcome) -> Option<bool> {
    match outcome {
        Outcome::Measured => Some(true),
        Outcome::Refused { .. } => Some(false),
        Outcome::NotSupported { .. } | Outcome::Failed { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::SweepPoint;
    use crate::spec::{Hits, KneeKind};

    #[test]
    fn the_median_of_the_pairs_decides_on_which_side_of_a_knee_a_number_is() {
        let spec = crate::experiments::spec("occupancy").unwrap().reduced;
        let spec = spec.of::<crate::experiments::occupancy::spec::Parts>().knee.clone();
        let spec = spec.into_iter().find(|spec| spec.kind == KneeKind::Throughput).unwrap();
        let (hits, flows) = (Hits::Flows, 1);
        let place = SweepPoint { groups: 0, rules: 0, match_percent: 0, hits, flows };
        let knee = Knee { spec, load: 0, place, seed: 1, frame_len_max: 64 };
        let of = |probes: [f64; 3]| is_in_front(&knee, probes.map(|probe| (probe, 1.0)).to_vec());
        assert_eq!(knee.spec.share, 0.8);
        assert_eq!(of([0.5, 0.8, 0.9]), Some(true));
        assert_eq!(of([0.79, 1.2, 0.1]), Some(false));
        assert_eq!(is_in_front(&knee, Vec::new()), None);
    }
}
