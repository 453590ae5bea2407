//! Sweeps over rules and flows, and searches for knees among them, put into a run.

use std::cmp::Reverse;

use niclab_result::Coordinate;

use super::spec::Sweep;
use crate::place::SweepPoint;
use crate::run::{Knee, PlannedRate, Resolver, TaskIndex, Trial, no_trial, number};
use crate::spec::{Hits, KneeSpec, SpecError, TrialKind};
use crate::throughput::{Search, SearchSpec};
use crate::values::Values;

/// Flows of the trials of a knee.
const FLOWS_DEFAULT: u32 = 10_000;

impl Resolver<'_> {
    pub(crate) fn add_sweeps(&mut self, sweeps: &[Sweep]) -> Result<(), SpecError> {
        let mut all: Vec<SaturatedPoint<'_>> = Vec::new();
        for sweep in sweeps {
            for place in places(&self.narrowed(sweep))? {
                place.check()?;
                for frame in self.frames(&sweep.frame) {
                    let of = self.add_saturating(&place, &frame)?;
                    self.add_fixed(&place, &frame, &sweep.rate)?;
                    all.push(SaturatedPoint { place, frame, of, trials: &sweep.trials });
                }
            }
        }
        for at in &all {
            self.add_latencies(at, base_of(at, &all))?;
        }
        Ok(())
    }

    /// A trace brings its own flows and frames, a file of rules its own groups and rules: these
    /// axes have no meaning then. Which traffic a file's rules match is not known.
    pub(super) fn narrowed(&self, sweep: &Sweep) -> Sweep {
        let mut sweep = sweep.clone();
        if let Some(trace) = &self.overrides.trace {
            sweep.flows = Values::number(trace.frames.flows.into());
            sweep.match_percent = Values::number(0);
        }
        if let Some(rules) = &self.overrides.rules {
            sweep.groups = Values::number(0);
            sweep.rules = Values::number(rules.rules_count.into());
            sweep.match_percent = Values::number(0);
        }
        sweep
    }

    /// The saturating trial of a place; its index.
    fn add_saturating(
        &mut self,
        place: &SweepPoint,
        frame: &Coordinate,
    ) -> Result<usize, SpecError> {
        let trial = self.trial_at(place, frame, TrialKind::SATURATE, PlannedRate::Saturate)?;
        Ok(self.trial(trial))
    }

    /// The latencies of a place, at shares of the maximum of the trial `of`.
    fn add_latencies(&mut self, at: &SaturatedPoint<'_>, of: usize) -> Result<(), SpecError> {
        for kind in at.trials {
            let share = match *kind {
                TrialKind::SATURATE => continue,
                TrialKind::LATENCY => self.spec.latency_share,
                TrialKind::LIGHT => self.spec.light_share,
                _ => return Err(no_trial(*kind, "saturate, latency, light")),
            };
            let rate = PlannedRate::ShareOf { of, share };
            let trial = self.trial_at(&at.place, &at.frame, *kind, rate)?;
            self.trial(trial);
        }
        Ok(())
    }

    fn trial_at(
        &mut self,
        place: &SweepPoint,
        frame: &Coordinate,
        kind: TrialKind,
        rate: PlannedRate,
    ) -> Result<Trial, SpecError> {
        let task = TaskIndex::offer(self.load(place, frame)?);
        let mut point = place.point();
        point.insert("frame".into(), frame.clone());
        let setup = self.setup(place, frame);
        Ok(Trial { kind, setup, task, rate, point })
    }

    pub(crate) fn add_knees(&mut self, knees: &[KneeSpec]) -> Result<(), SpecError> {
        let of_trace = self.overrides.trace.as_ref().map(|trace| trace.frames.flows);
        let flows = of_trace.unwrap_or(FLOWS_DEFAULT);
        // The frames of a trace are no hits.
        let can_hit = of_trace.is_none();
        for spec in knees.iter().filter(|spec| can_hit || spec.match_percent == 0) {
            let place = SweepPoint {
                groups: spec.groups,
                rules: 0,
                match_percent: spec.match_percent,
                hits: if spec.match_percent > 0 { Hits::Rules } else { Hits::Flows },
                flows,
            };
            let frame = Coordinate::Number(64.0);
            let longest = place.with_rules(spec.rules_max);
            longest.check()?;
            let load = self.load(&longest, &frame)?;
            let (seed, frame_len_max) = (self.seed, self.frame_len_max(&frame));
            self.run.knees.push(Knee { spec: spec.clone(), load, place, seed, frame_len_max });
        }
        Ok(())
    }
}

/// A place with its saturating trial, and the trials that are asked for there.
struct SaturatedPoint<'a> {
    place: SweepPoint,
    frame: Coordinate,
    of: usize,
    trials: &'a [TrialKind],
}

impl SaturatedPoint<'_> {
    fn has_latencies(&self) -> bool {
        self.trials.iter().any(|kind| *kind != TrialKind::SATURATE)
    }

    /// Latencies at both places are points of one figure.
    fn is_of_figure(&self, other: &SaturatedPoint<'_>) -> bool {
        let key = |of: &SaturatedPoint<'_>| {
            let SweepPoint { groups, match_percent, hits, flows, .. } = of.place;
            (groups == 0, match_percent, hits, flows)
        };
        key(self) == key(other) && self.frame == other.frame
    }
}

/// The trial whose maximum all latencies of a figure are a share of: that with fewest rules in most
/// groups. Chains of any length carry the rate then, and a table that does not is shown by its
/// latency. Each at a share of its own maximum, a slow table would be asked for less and look fast.
fn base_of(at: &SaturatedPoint<'_>, all: &[SaturatedPoint<'_>]) -> usize {
    let of_figure = all.iter().filter(|other| other.has_latencies() && other.is_of_figure(at));
    let base = of_figure.max_by_key(|other| (other.place.groups, Reverse(other.place.rules)));
    base.map_or(at.of, |base| base.of)
}

/// All places of a sweep: the product of its axes.
pub(super) fn places(sweep: &Sweep) -> Result<Vec<SweepPoint>, SpecError> {
    let numbers = |axis: &'static str, values: &Values| {
        values.0.iter().map(|value| number(axis, value)).collect::<Result<Vec<u32>, _>>()
    };
    let groups = numbers("groups", &sweep.groups)?;
    let rules = numbers("rules", &sweep.rules)?;
    let percents = numbers("match_percent", &sweep.match_percent)?;
    let flows = numbers("flows", &sweep.flows)?;
    let mut places = Vec::new();
    for &groups in &groups {
        for &rules in &rules {
            for &match_percent in &percents {
                let hits = sweep.hits;
                let place =
                    |flows: &u32| SweepPoint { groups, rules, match_percent, hits, flows: *flows };
                places.extend(flows.iter().map(place));
            }
        }
    }
    Ok(places)
}

/// Highest rate that a generator can be asked for, frames a second.
const RATE_PPS_MAX: f64 = 1e9;

impl Resolver<'_> {
    /// A trial at each rate; `max` is that of the saturating trial, which is there anyway.
    pub(super) fn add_fixed(
        &mut self,
        place: &SweepPoint,
        frame: &Coordinate,
        rates: &Values,
    ) -> Result<(), SpecError> {
        for rate in rates.0.iter().filter(|rate| **rate != Coordinate::Word("max".into())) {
            let pps = f64::from(number("rate", rate)?);
            if !(1.0..=RATE_PPS_MAX).contains(&pps) {
                let remedy = "use 1 to 1000M frames a second, or max".into();
                return Err(SpecError::OutOfRange {
                    axis: "rate",
                    value: rate.to_string(),
                    remedy,
                });
            }
            let (setup, load) = (self.setup(place, frame), self.load(place, frame)?);
            let mut point = place.point();
            point.insert("frame".into(), frame.clone());
            point.insert("rate".into(), rate.clone());
            let (kind, rate) = (TrialKind::FIXED, PlannedRate::Pps(pps));
            self.trial(Trial { kind, setup, task: TaskIndex::offer(load), rate, point });
        }
        Ok(())
    }

    /// A search at each of its places, with the trial whose throughput says where to search.
    pub(crate) fn add_searches(&mut self, searches: &[SearchSpec]) -> Result<(), SpecError> {
        for spec in searches {
            let (sweep, goals) = (self.narrowed(&Sweep::of_search(spec)), spec.goals()?);
            for place in places(&sweep)? {
                place.check()?;
                for frame in self.frames(&sweep.frame) {
                    let of = self.add_saturating(&place, &frame)?;
                    let search = Search { mode: spec.mode, of, goals: goals.clone() };
                    search.add_to(&mut self.run.searches)?;
                }
            }
        }
        Ok(())
    }
}
