//! Searches for throughput, and trials at a rate that was asked for, put into a run.

use niclab_result::Coordinate;

use super::sweeps::places;
use super::{PlannedRate, Resolver, Task, Trial, number};
use crate::occupancy::Place;
use crate::spec::{SpecError, TrialKind};
use crate::throughput::Search;
use crate::values::Values;

/// Highest rate that a generator can be asked for, frames a second.
const RATE_PPS_MAX: f64 = 1e9;

impl Resolver<'_> {
    /// A trial at each rate; `max` is that of the saturating trial, which is there anyway.
    pub(super) fn add_fixed(
        &mut self,
        place: &Place,
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
            let (kind, rate) = (TrialKind::Fixed, PlannedRate::Pps(pps));
            self.trial(Trial { kind, setup, task: Task::offer(load), rate, point });
        }
        Ok(())
    }

    /// A search at each of its places, with the trial whose throughput says where to search.
    pub(crate) fn add_searches(&mut self) -> Result<(), SpecError> {
        for spec in &self.grid.search {
            let (sweep, goals) = (self.narrowed(&spec.sweep()), spec.goals()?);
            for place in places(&sweep)? {
                place.check()?;
                for frame in self.frames(&sweep.frame) {
                    let of = self.add_trials(&place, &frame, &sweep.trials)?;
                    let search = Search { mode: spec.mode, of, goals: goals.clone() };
                    search.add_to(&mut self.run.searches)?;
                }
            }
        }
        Ok(())
    }
}
