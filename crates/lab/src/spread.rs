//! The experiment `hash-skew`: where it measures, and what the counters of a device's queues say.
//!
//! No rule decides about a frame: the device spreads all of them by their hash. Where it tells key,
//! function, types and table, the share of each queue is computed flow by flow ([`Rss::shares`]),
//! and what was counted is compared with that.
//!
//! What came to a queue is what it took and what it missed. Frames that the device lost before it
//! chose a queue came to none.

use niclab_device::{Load, Observation, QueueCounters, Rss, Setup};
use niclab_packet::flow::{EXPONENT_MAX, FlowSet, FlowSpec, Popularity};
use niclab_packet::limits::FLOWS_MAX;
use niclab_result::{Coordinate, Point, Sample};
use serde::Deserialize;

use crate::axes::{at_axes, numbers, refused};
use crate::flows;
use crate::measure::{Metrics, put};
use crate::occupancy::Place;
use crate::run::{PlannedRate, Resolver, Task, Trial, index_of};
use crate::spec::{Hits, SpecError, SpreadSweep, TrialKind};
use crate::values::Values;

/// Most queues: those that any device here has.
pub(crate) const QUEUES_MAX: u32 = 256;

/// A queue that missed more than this share of what came to it takes no more than it did: a stall
/// makes one miss less.
const FULL_MIN: f64 = 0.05;

/// What came to the busiest queue, in even shares.
pub(crate) const BUSIEST: &str = "busiest_queue_ratio";
/// The same by the hash.
pub(crate) const HASHED_BUSIEST: &str = "hashed_busiest_queue_ratio";
/// Share of the frames that came to other queues than their hash says.
pub(crate) const MISPLACED: &str = "misplaced_ratio";
/// What that is by chance, on average.
pub(crate) const BY_CHANCE: &str = "misplaced_by_chance_ratio";
/// Least that a full queue took.
pub(crate) const FULL: &str = "full_queue_pps";
/// Most that a queue took.
pub(crate) const FASTEST: &str = "fastest_queue_pps";

/// Where the shares by the hash stand in the counters of a sample.
pub(crate) const HASH_SHARES: &str = "hash_shares";

/// What stands for the popularity of a trace's flows, which nobody knows.
pub(crate) const TRACE: &str = "trace";

/// Queues, and the flows that are spread over them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
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
pub fn places(sweep: &SpreadSweep) -> Result<Vec<Spread>, SpecError> {
    let mut all = Vec::new();
    for queues in numbers("queues", &sweep.queues, 1, QUEUES_MAX)? {
        for cores in cores(&sweep.cores, queues)? {
            for flows in numbers("flows", &sweep.flows, 1, FLOWS_MAX)? {
                for zipf in exponents(&sweep.zipf)? {
                    all.push(Spread { queues, cores, flows, zipf: Some(zipf) });
                }
            }
        }
    }
    Ok(all)
}

/// Cores of so many queues: no more than these.
pub(crate) fn cores(values: &Values, queues: u32) -> Result<Vec<u32>, SpecError> {
    let one = |value: &Coordinate| match value {
        Coordinate::Word(word) if word == "each" => Ok(queues),
        Coordinate::Number(cores) if (1.0..=f64::from(QUEUES_MAX)).contains(cores) => {
            Ok((*cores as u32).min(queues))
        }
        _ => Err(refused("cores", value, format!("use 1 to {QUEUES_MAX}, or each"))),
    };
    values.0.iter().map(one).collect()
}

/// Exponents have digits behind the point: as typed they are words.
pub(crate) fn exponents(values: &Values) -> Result<Vec<f64>, SpecError> {
    let one = |value: &Coordinate| {
        let number = value.to_string().parse::<f64>().ok();
        number
            .filter(|number| (0.0..=EXPONENT_MAX).contains(number))
            .ok_or_else(|| refused("zipf", value, format!("use 0 to {EXPONENT_MAX}")))
    };
    values.0.iter().map(one).collect()
}

impl Spread {
    fn point(&self) -> Point {
        let number = |value: u32| Coordinate::Number(f64::from(value));
        at_axes([
            ("queues", number(self.queues)),
            ("cores", number(self.cores)),
            ("flows", number(self.flows)),
            ("zipf", self.zipf.map_or(Coordinate::Word(TRACE.into()), Coordinate::Number)),
        ])
    }

    fn traffic(&self, seed: u64) -> FlowSpec {
        let popularity = match self.zipf {
            Some(exponent) if exponent > 0.0 => Popularity::Zipf { exponent },
            _ => Popularity::Uniform,
        };
        FlowSpec { popularity, ..flows::sent(self.flows, seed) }
    }
}

impl Resolver<'_> {
    /// A trial at full load at each place. A trace brings its own flows.
    pub fn add_spreads(&mut self) -> Result<(), SpecError> {
        let of_trace = self.overrides.trace.as_ref().map(|trace| trace.frames.flows);
        for sweep in &self.grid.spread {
            for spread in places(sweep)? {
                let spread = match of_trace {
                    Some(flows) => Spread { flows, zipf: None, ..spread },
                    None => spread,
                };
                for frame in self.frames(&sweep.frame) {
                    self.add_spread(&spread, &frame)?;
                }
            }
        }
        Ok(())
    }

    fn add_spread(&mut self, spread: &Spread, frame: &Coordinate) -> Result<(), SpecError> {
        let (groups, rules, match_percent, hits) = (0, 0, 0, Hits::Flows);
        let place = Place { groups, rules, match_percent, hits, flows: spread.flows };
        let (queues, cores) = (spread.queues as u16, spread.cores as u16);
        let plain = place.setup(self.seed, self.frame_len_max(frame));
        let setup = index_of(&mut self.run.setups, Setup { queues, cores, ..plain });
        let task = Task::offer(self.load_of(spread.traffic(self.seed), frame)?);
        let mut point = spread.point();
        point.insert("frame".into(), frame.clone());
        let (kind, rate) = (TrialKind::Spread, PlannedRate::Saturate);
        self.trial(Trial { kind, setup, task, rate, point });
        Ok(())
    }
}

/// Share of the frames of a load that each queue of a set-up is to get by what the device says of
/// its hash; `None` of a trace, whose flows nobody knows.
pub(crate) fn hash_shares(rss: &Rss, setup: &Setup, load: &Load) -> Option<Vec<f64>> {
    let flows = FlowSet::new(&load.flows).ok().filter(|_| load.trace.is_none())?;
    rss.shares(&flows, setup.queues).ok()
}

/// What came to each queue of a device, and what it took, frames of the whole trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Queue {
    /// Frames that it took.
    #[serde(rename = "rx_frames")]
    pub taken: u64,
    /// Frames for which it had no room.
    #[serde(rename = "rx_missed", default)]
    pub missed: u64,
}

impl Queue {
    /// Frames that came to it.
    pub fn came(&self) -> u64 {
        self.taken + self.missed
    }

    /// It missed so much that it takes no more than it did.
    pub fn is_full(&self) -> bool {
        self.missed as f64 > FULL_MIN * self.came() as f64
    }
}

impl From<&QueueCounters> for Queue {
    fn from(counters: &QueueCounters) -> Queue {
        Queue { taken: counters.rx_frames, missed: counters.rx_missed }
    }
}

/// The queues of a sample's device; none where it did not count.
pub(crate) fn queues(sample: &Sample) -> Vec<Queue> {
    let counters = sample.counters.pointer("/device/queues");
    counters.and_then(|counters| Vec::deserialize(counters).ok()).unwrap_or_default()
}

/// The shares of the queues by the hash that stand in a sample; none where nobody could tell.
pub(crate) fn hash_shares_of(sample: &Sample) -> Vec<f64> {
    let shares = sample.counters.get(HASH_SHARES);
    shares.and_then(|shares| Vec::deserialize(shares).ok()).unwrap_or_default()
}

/// Adds what the queues of a device show, of the whole trial, its warm-up and what comes back
/// behind its end included. `shares` is what each is to get by the hash, and of no queue where
/// nobody can tell.
///
/// | metric | meaning |
/// |---|---|
/// | `busiest_queue_ratio` | what came to the busiest queue, in even shares: 1 is even |
/// | `hashed_busiest_queue_ratio` | the same by the hash |
/// | `misplaced_ratio` | share of the frames that came to other queues than their hash says |
/// | `misplaced_by_chance_ratio` | what that is on average, for flows are drawn frame by frame |
/// | `full_queue_pps` | least that a queue took which missed more than 5 % of what came to it |
/// | `fastest_queue_pps` | most that a queue took |
///
/// Rates are of warm-up and measured part: frames that wait in a ring when the load ends are too
/// many, which only very short trials of very slow queues show.
pub(crate) fn put_spread(metrics: &mut Metrics, o: &Observation, load: &Load, shares: &[f64]) {
    let Some(device) = &o.device else { return };
    let queues: Vec<Queue> = device.queues.iter().map(Queue::from).collect();
    let all: u64 = queues.iter().map(Queue::came).sum();
    if all == 0 {
        return;
    }
    let (all, count) = (all as f64, queues.len() as f64);
    let busiest = queues.iter().map(Queue::came).max().unwrap_or(0);
    put(metrics, BUSIEST, busiest as f64 * count / all, "1");
    if shares.len() == queues.len() {
        let most = shares.iter().copied().fold(0.0, f64::max);
        put(metrics, HASHED_BUSIEST, most * count, "1");
        let too_many =
            |(queue, share): (&Queue, &f64)| (queue.came() as f64 / all - share).max(0.0);
        let misplaced: f64 = queues.iter().zip(shares).map(too_many).sum();
        put(metrics, MISPLACED, misplaced, "1");
        put(metrics, BY_CHANCE, by_chance(shares, all), "1");
    }
    let whole_s = (load.warmup_ns + load.duration_ns) as f64 / 1e9;
    let pps = |queue: &Queue| queue.taken as f64 / whole_s;
    if let Some(fastest) = queues.iter().map(pps).max_by(f64::total_cmp) {
        put(metrics, FASTEST, fastest, "pps");
    }
    if let Some(least) = queues.iter().filter(|q| q.is_full()).map(pps).min_by(f64::total_cmp) {
        put(metrics, FULL, least, "pps");
    }
}

/// Share of so many frames that chance alone takes to other queues than those of their shares, on
/// average: half of the sum over the queues of the mean distance of a binomial count from its mean,
/// which is 0.8 standard deviations.
fn by_chance(shares: &[f64], frames: f64) -> f64 {
    // A share of all may be a rounding above 1.
    let distance = |share: &f64| (share * (1.0 - share) / frames).max(0.0).sqrt();
    shares.iter().map(distance).sum::<f64>() / (2.0 * std::f64::consts::PI).sqrt()
}

#[cfg(test)]
#[path = "spread_tests.rs"]
mod tests;
