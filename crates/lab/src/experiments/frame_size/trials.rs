//! The experiment `frame-size`: where it measures, and which part of a device binds there.
//!
//! No rule decides about a frame. Each place has saturating trials, and a search for the throughput
//! at each goal. A port carries so many bits a second, a card deals with so many frames: which of
//! the two binds hangs on how long frames are.

use niclab_device::Setup;
use niclab_result::{Coordinate, Point};

use super::spec::SizeSweep;
use crate::axes::{QUEUES_MAX, at_axes, cores, numbers};
use crate::flows;
use crate::place::SweepPoint;
use crate::run::{PlannedRate, Resolver, TaskIndex, Trial, index_of};
use crate::spec::{SpecError, TrialKind};
use crate::throughput::{Mode, Search, resolved_goals};

/// Queues, and the cores that poll them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolledQueues {
    /// Receive queues.
    pub queues: u32,
    /// Cores, at most as many.
    pub cores: u32,
    /// Flows of the traffic.
    pub flows: u32,
}

/// All places of a sweep but for the frame sizes: the product of its axes.
pub fn places(sweep: &SizeSweep) -> Result<Vec<PolledQueues>, SpecError> {
    let mut all = Vec::new();
    for queues in numbers("queues", &sweep.queues, 1, QUEUES_MAX)? {
        for cores in cores(&sweep.cores, queues)? {
            for flows in numbers("flows", &sweep.flows, 1, niclab_packet::limits::FLOWS_MAX)? {
                all.push(PolledQueues { queues, cores, flows });
            }
        }
    }
    Ok(all)
}

impl PolledQueues {
    fn point(&self, frame: &Coordinate) -> Point {
        let number = |value: u32| Coordinate::Number(f64::from(value));
        at_axes([
            ("queues", number(self.queues)),
            ("cores", number(self.cores)),
            ("flows", number(self.flows)),
            ("frame", frame.clone()),
        ])
    }
}

impl Resolver<'_> {
    /// Saturating trials and a search at each place. A trace brings its own frames.
    pub fn add_sizes(&mut self, sweeps: &[SizeSweep]) -> Result<(), SpecError> {
        let of_trace = self.overrides.trace.as_ref().map(|trace| trace.frames.flows);
        for sweep in sweeps {
            let goals = resolved_goals(Mode::Mlrsearch, &sweep.goal)?;
            for polled in places(sweep)? {
                let polled = PolledQueues { flows: of_trace.unwrap_or(polled.flows), ..polled };
                for frame in self.frames(&sweep.frame) {
                    let of = self.add_size(&polled, &frame)?;
                    let search = Search { mode: Mode::Mlrsearch, of, goals: goals.clone() };
                    search.add_to(&mut self.run.searches)?;
                }
            }
        }
        Ok(())
    }

    fn add_size(&mut self, polled: &PolledQueues, frame: &Coordinate) -> Result<usize, SpecError> {
        let place = SweepPoint::without_rules(polled.flows);
        let (queues, cores) = (polled.queues as u16, polled.cores as u16);
        let plain = place.setup(self.seed, self.frame_len_max(frame));
        let setup = index_of(&mut self.run.setups, Setup { queues, cores, ..plain });
        let task = TaskIndex::offer(self.load_of(flows::sent(polled.flows, self.seed), frame)?);
        let (point, rate) = (polled.point(frame), PlannedRate::Saturate);
        Ok(self.trial(Trial { kind: TrialKind::SATURATE, setup, task, rate, point }))
    }
}
