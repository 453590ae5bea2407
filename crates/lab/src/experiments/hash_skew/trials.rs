//! The trials of `hash-skew`, and the counters of a device's queues.
//!
//! No rule decides about a frame: the device spreads all of them by their hash. Where it tells key,
//! function, types and table, the share of each queue is computed flow by flow ([`Rss::shares`]),
//! and what was counted is compared with that.
//!
//! What came to a queue is what it took and what it missed. Frames that the device lost before it
//! chose a queue came to none.

use niclab_device::Setup;
use niclab_packet::flow::{FlowSpec, Popularity};
use niclab_packet::limits::FLOWS_MAX;
use niclab_result::{Coordinate, Point};

use super::metrics::RSS;
use super::spec::RssSweep;
use crate::axes::{QUEUES_MAX, at_axes, cores, exponents, numbers};
use crate::flows;
use crate::place::SweepPoint;
use crate::run::{PlannedRate, Resolver, TaskIndex, Trial, index_of};
use crate::spec::SpecError;

/// What stands for the popularity of a trace's flows, which nobody knows.
pub(crate) const TRACE: &str = "trace";

/// Queues, and the flows that are spread over them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RssPoint {
    /// Receive queues.
    pub queues: u32,
    /// Cores that poll them, at most as many.
    pub cores: u32,
    /// Flows of the traffic.
    pub flows: u32,
    /// Exponent of their popularity by Zipf's law; 0: all equally often; none: that of a trace.
    pub zipf: Option<f64>,
}

/// All places of a sweep: the product of its axes.
pub fn places(sweep: &RssSweep) -> Result<Vec<RssPoint>, SpecError> {
    let mut all = Vec::new();
    for queues in numbers("queues", &sweep.queues, 1, QUEUES_MAX)? {
        for cores in cores(&sweep.cores, queues)? {
            for flows in numbers("flows", &sweep.flows, 1, FLOWS_MAX)? {
                for zipf in exponents(&sweep.zipf)? {
                    all.push(RssPoint { queues, cores, flows, zipf: Some(zipf) });
                }
            }
        }
    }
    Ok(all)
}

impl RssPoint {
    pub(super) fn point(&self) -> Point {
        let number = |value: u32| Coordinate::Number(f64::from(value));
        at_axes([
            ("queues", number(self.queues)),
            ("cores", number(self.cores)),
            ("flows", number(self.flows)),
            ("zipf", self.zipf.map_or(Coordinate::Word(TRACE.into()), Coordinate::Number)),
        ])
    }

    pub(super) fn traffic(&self, seed: u64) -> FlowSpec {
        let popularity = match self.zipf {
            Some(exponent) if exponent > 0.0 => Popularity::Zipf { exponent },
            _ => Popularity::Uniform,
        };
        FlowSpec { popularity, ..flows::sent(self.flows, seed) }
    }
}

impl Resolver<'_> {
    /// A trial at full load at each place. A trace brings its own flows.
    pub fn add_rss(&mut self, sweeps: &[RssSweep]) -> Result<(), SpecError> {
        let of_trace = self.overrides.trace.as_ref().map(|trace| trace.frames.flows);
        for sweep in sweeps {
            for point in places(sweep)? {
                let place = match of_trace {
                    Some(flows) => RssPoint { flows, zipf: None, ..point },
                    None => point,
                };
                for frame in self.frames(&sweep.frame) {
                    self.add_place(&place, &frame)?;
                }
            }
        }
        Ok(())
    }

    fn add_place(&mut self, of: &RssPoint, frame: &Coordinate) -> Result<(), SpecError> {
        let place = SweepPoint::without_rules(of.flows);
        let (queues, cores) = (of.queues as u16, of.cores as u16);
        let plain = place.setup(self.seed, self.frame_len_max(frame));
        let setup = index_of(&mut self.run.setups, Setup { queues, cores, ..plain });
        let task = TaskIndex::offer(self.load_of(of.traffic(self.seed), frame)?);
        let mut point = of.point();
        point.insert("frame".into(), frame.clone());
        let (kind, rate) = (RSS, PlannedRate::Saturate);
        self.trial(Trial { kind, setup, task, rate, point });
        Ok(())
    }
}
