//! The metrics of `hash-skew`.

use niclab_device::{Load, LoadObservation, QueueCounters, Rate, Rss, Setup};
use niclab_packet::flow::FlowSet;
use serde::Deserialize;

use crate::measure::{Metrics, UnsentBasis, put};
use crate::metrics::{LOAD, Metric, TrialMetrics, higher, lower, neither};
use crate::spec::TrialKind;

/// As much as the device takes, over several queues: what comes to each.
pub(crate) const RSS: TrialKind = TrialKind::new("rss");

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[TrialMetrics {
    trial: RSS.name(),
    points: Some("rss"),
    judged_by: &[BUSIEST],
    headlines: &[BUSIEST, MISPLACED, FULL],
    metrics: &[LOAD, QUEUES],
    is_throughput: true,
    judged: UnsentBasis::Whole,
}];

/// What came to the queues.
const QUEUES: &[Metric] = &[
    lower(BUSIEST, "1", "frames of the busiest queue, in even shares").whatever_load(),
    neither(HASHED_BUSIEST, "1", "the same by the hash").whatever_load(),
    lower(MISPLACED, "1", "share of the frames that came to other queues than their hash says"),
    neither(BY_CHANCE, "1", "the same by chance, on average"),
    higher(FULL, "pps", "fewest frames that a queue took which missed more than 5 %"),
    neither(FASTEST, "pps", "most frames that a queue took"),
];

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
    pub fn arrived(&self) -> u64 {
        self.taken + self.missed
    }

    /// It missed so much that it takes no more than it did.
    pub fn is_full(&self) -> bool {
        self.missed as f64 > FULL_MIN * self.arrived() as f64
    }
}

impl From<&QueueCounters> for Queue {
    fn from(counters: &QueueCounters) -> Queue {
        Queue { taken: counters.rx_frames, missed: counters.rx_missed }
    }
}

/// Adds what the queues of a device show, of the whole trial, its warm-up and what comes back
/// behind its end included. `shares` is what each is to get by the hash, and of no queue where
/// nobody can tell.
///
/// The software card under a saturating load takes the flows of each core as fast as that core can.
/// So how frames spread over the queues of several cores says how fast the cores are, and nothing
/// of the hash: there are only rates.
///
/// Rates are of warm-up and measured part: frames that wait in a ring when the load ends are too
/// many, which only very short trials of very slow queues show.
pub(crate) fn put_queues(
    metrics: &mut Metrics,
    o: &LoadObservation,
    (load, cores): (&Load, u16),
    shares: &[f64],
) {
    let Some(device) = &o.device else { return };
    let queues: Vec<Queue> = device.queues.iter().map(Queue::from).collect();
    let all: u64 = queues.iter().map(Queue::arrived).sum();
    if all == 0 {
        return;
    }
    let (all, count) = (all as f64, queues.len() as f64);
    let is_spread_by_hash = o.card_frames.is_none() || load.rate != Rate::Saturate || cores == 1;
    if is_spread_by_hash {
        let busiest = queues.iter().map(Queue::arrived).max().unwrap_or(0);
        put(metrics, BUSIEST, busiest as f64 * count / all, "1");
    }
    if is_spread_by_hash && shares.len() == queues.len() {
        let most = shares.iter().copied().fold(0.0, f64::max);
        put(metrics, HASHED_BUSIEST, most * count, "1");
        let too_many =
            |(queue, share): (&Queue, &f64)| (queue.arrived() as f64 / all - share).max(0.0);
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
