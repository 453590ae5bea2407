//! The experiment `frame-size`: where it measures, and which part of a device binds there.
//!
//! No rule decides about a frame. Each place has saturating trials, and a search for the throughput
//! at each goal. A port carries so many bits a second, a card deals with so many frames: which of
//! the two binds hangs on how long frames are.

use niclab_device::{Observation, PortCounters, Setup};
use niclab_packet::size::{FrameSizes, RateLevel};
use niclab_result::{Coordinate, Point};

use crate::axes::{at_axes, numbers};
use crate::flows;
use crate::measure::{Metrics, put, put_ratio};
use crate::occupancy::{self, Place};
use crate::run::{PlannedRate, Resolver, Task, Trial, index_of};
use crate::spec::{Hits, SizeSweep, SpecError, TrialKind};
use crate::spread::{QUEUES_MAX, cores};
use crate::throughput::{Mode, Search, resolved_goals};

/// Share of the frames offered that found the ring of their queue full.
pub(crate) const RING_MISSED: &str = "ring_missed_ratio";
/// Share of the frames offered that the device lost before they came to a queue.
pub(crate) const EARLY_MISSED: &str = "early_missed_ratio";
/// Share of its time in which the device's core had nothing to do.
pub(crate) const IDLE: &str = "device_idle_ratio";

/// From this share of a port's line rate on the port is full.
const PORT_FULL_MIN: f64 = 0.99;
/// More lost than this share is no burst that a ring had no room for.
const MISSED_MIN: f64 = 0.02;
/// A core that is idle for no more than this share of its time is busy.
const BUSY_MAX: f64 = 0.05;
/// One that is idle for more than this share could do more.
const FREE_MIN: f64 = 0.2;
/// A frame that takes no more than so many times what another takes, takes as long.
const SAME_TIME_MAX: f64 = 1.05;

/// Queues, and the cores that poll them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// Receive queues.
    pub queues: u32,
    /// Cores, at most as many.
    pub cores: u32,
    /// Flows of the traffic.
    pub flows: u32,
}

/// All places of a sweep but for the frame sizes: the product of its axes.
pub fn places(sweep: &SizeSweep) -> Result<Vec<Polled>, SpecError> {
    let mut all = Vec::new();
    for queues in numbers("queues", &sweep.queues, 1, QUEUES_MAX)? {
        for cores in cores(&sweep.cores, queues)? {
            for flows in numbers("flows", &sweep.flows, 1, niclab_packet::limits::FLOWS_MAX)? {
                all.push(Polled { queues, cores, flows });
            }
        }
    }
    Ok(all)
}

impl Polled {
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
    pub fn add_sizes(&mut self) -> Result<(), SpecError> {
        let of_trace = self.overrides.trace.as_ref().map(|trace| trace.frames.flows);
        for sweep in &self.grid.size {
            let goals = resolved_goals(Mode::Mlrsearch, &sweep.goal)?;
            for polled in places(sweep)? {
                let polled = Polled { flows: of_trace.unwrap_or(polled.flows), ..polled };
                for frame in self.frames(&sweep.frame) {
                    let of = self.add_size(&polled, &frame)?;
                    let search = Search { mode: Mode::Mlrsearch, of, goals: goals.clone() };
                    search.add_to(&mut self.run.searches)?;
                }
            }
        }
        Ok(())
    }

    fn add_size(&mut self, polled: &Polled, frame: &Coordinate) -> Result<usize, SpecError> {
        let (groups, rules, match_percent, hits) = (0, 0, 0, Hits::Flows);
        let place = Place { groups, rules, match_percent, hits, flows: polled.flows };
        let (queues, cores) = (polled.queues as u16, polled.cores as u16);
        let plain = place.setup(self.seed, self.frame_len_max(frame));
        let setup = index_of(&mut self.run.setups, Setup { queues, cores, ..plain });
        let task = Task::offer(self.load_of(flows::sent(polled.flows, self.seed), frame)?);
        let (point, rate) = (polled.point(frame), PlannedRate::Saturate);
        Ok(self.trial(Trial { kind: TrialKind::Saturate, setup, task, rate, point }))
    }
}

/// Mean length of the frames of this size, bytes with FCS; `None` of a trace.
pub(crate) fn mean_len(frame: &Coordinate) -> Option<f64> {
    occupancy::frame(frame).ok().map(|sizes: FrameSizes| sizes.mean())
}

/// Time of a frame of so many bytes on a wire, nanoseconds.
pub(crate) fn wire_ns(bytes: f64, gbps: f64) -> f64 {
    (bytes + f64::from(RateLevel::L1.overhead_len())) * 8.0 / gbps
}

/// Adds where frames were lost, and how idle the device's core was; of the whole trial.
pub(crate) fn put_limits(metrics: &mut Metrics, o: &Observation) {
    if let Some(idle) = o.honesty.device_idle_ratio {
        put(metrics, IDLE, idle, "1");
    }
    let Some(device) = &o.device else { return };
    let of_rings = PortCounters::total(device).rx_missed;
    let offered = o.generator.total().tx_frames;
    put_ratio(metrics, RING_MISSED, of_rings, offered);
    put_ratio(metrics, EARLY_MISSED, device.rx_missed.saturating_sub(of_rings), offered);
}

/// What saturating frames of one length show.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shown {
    /// Mean length, bytes with FCS.
    pub frame_len: f64,
    /// Frames a second.
    pub pps: f64,
    /// The generator set it.
    pub is_generator_limited: bool,
    /// [`RING_MISSED`], 0 where nobody counts.
    pub ring_missed: f64,
    /// [`EARLY_MISSED`], 0 where nobody counts.
    pub early_missed: f64,
    /// [`IDLE`], where it is known.
    pub idle: Option<f64>,
}

impl Shown {
    /// Frames found the ring of their queue full.
    pub fn is_ring_full(&self) -> bool {
        self.ring_missed > MISSED_MIN
    }

    /// The device's core had hardly a moment to spare.
    pub fn is_busy(&self) -> bool {
        self.idle.is_some_and(|idle| idle <= BUSY_MAX)
    }
}

/// The part of a device that keeps it from more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The wire is full.
    Port,
    /// What the card deals with a second, however long frames are.
    FrameRate,
    /// What takes longer the longer a frame is: a bus, or whoever touches every byte.
    Bytes,
    /// The cores that poll the queues.
    Cores,
    /// None of it: the generator has no more.
    Generator,
}

/// Which part binds at each of these, in their order: by rising length. `None` where nothing tells.
///
/// Frames go through one part behind the other, so the last one that they are lost in front of
/// binds.
pub(crate) fn binding(shown: &[Shown], port_gbps: Option<f64>) -> Vec<Option<Part>> {
    let mut least_ns = f64::INFINITY;
    let mut parts = Vec::new();
    for of in shown {
        let takes_ns = 1e9 / of.pps;
        least_ns = least_ns.min(takes_ns);
        let is_full = |gbps: f64| of.pps * wire_ns(of.frame_len, gbps) >= PORT_FULL_MIN * 1e9;
        let may_idle = of.idle.is_none_or(|idle| idle > FREE_MIN);
        parts.push(match () {
            _ if port_gbps.is_some_and(is_full) => Some(Part::Port),
            _ if of.is_generator_limited => Some(Part::Generator),
            _ if of.is_ring_full() || of.is_busy() => Some(Part::Cores),
            _ if of.early_missed > MISSED_MIN && may_idle => {
                let is_same = takes_ns <= SAME_TIME_MAX * least_ns;
                Some(if is_same { Part::FrameRate } else { Part::Bytes })
            }
            _ => None,
        });
    }
    parts
}

/// The shortest frames, bytes with FCS, that fill a port of so many Gbps, by the rates at which a
/// device forwards frames of rising lengths. Between two lengths the time of a frame is a straight
/// line. `None` where no length fills it.
///
/// Where a port of the device itself is full a frame may take less than it seems to: `own_gbps`
/// says so, and the time of the longest frames in front of these stands for theirs.
pub(crate) fn filled_from(rates: &[(f64, f64)], gbps: f64, own_gbps: Option<f64>) -> Option<f64> {
    let mut last: Option<(f64, f64)> = None;
    for (bytes, pps) in rates.iter().filter(|(_, pps)| *pps > 0.0) {
        let wire = wire_ns(*bytes, gbps);
        let is_full = |own: f64| pps * wire_ns(*bytes, own) >= PORT_FULL_MIN * 1e9;
        let own_ns = 1e9 / pps;
        let takes_ns = match last {
            Some((_, before_ns)) if own_gbps.is_some_and(is_full) => own_ns.min(before_ns),
            _ if own_gbps.is_some_and(is_full) => own_ns * PORT_FULL_MIN,
            _ => own_ns,
        };
        if takes_ns <= wire {
            // The wire's time rises faster than the device's: they meet in between.
            return Some(match last {
                None => *bytes,
                Some((from, before_ns)) => {
                    let gap_ns = before_ns - wire_ns(from, gbps);
                    let ahead_ns = wire - takes_ns;
                    from + (bytes - from) * gap_ns / (gap_ns + ahead_ns)
                }
            });
        }
        last = Some((*bytes, takes_ns));
    }
    None
}

#[cfg(test)]
#[path = "frame_size_tests.rs"]
mod tests;
