//! Queues by the cores that poll them, and the frames that each of them gets.

use std::collections::BTreeMap;

use rand::{Rng, RngExt};

use super::card::Path;

/// What one core takes from the card.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lane {
    /// Its queues, and the share of all frames that each gets.
    pub queues: Vec<(u16, f64)>,
    /// Share of all frames that they get.
    pub share: f64,
    /// Mean time of the core for a frame, nanoseconds.
    pub host_ns: f64,
    /// Frames that wait in its queues when one of them is full: the one that gets most.
    pub ring: f64,
}

/// The lanes of a card with so many queues and cores, those that get no frame left out. `shares`
/// names queues, some perhaps more than once.
///
/// Queues of one core fill alike, each by its share: where their core is too slow they lose the
/// same share of what they get. A core that polls them in turn would let those with few frames lose
/// less.
pub(super) fn lanes(path: &Path, shares: &[(u16, f64)], (queues, cores): (u16, u16)) -> Vec<Lane> {
    let (queues, cores) = (queues.max(1), cores.max(1));
    let mut by_queue: BTreeMap<u16, f64> = BTreeMap::new();
    for (queue, share) in shares {
        *by_queue.entry(queue % queues).or_default() += share;
    }
    let of_core = |core| {
        let of = by_queue.iter().filter(|(queue, share)| *queue % cores == core && **share > 0.0);
        let queues: Vec<(u16, f64)> = of.map(|(queue, share)| (*queue, *share)).collect();
        (!queues.is_empty()).then_some(queues)
    };
    let lane = |of: Vec<(u16, f64)>| {
        let share: f64 = of.iter().map(|(_, share)| share).sum();
        let most = of.iter().map(|(_, share)| *share).fold(0.0, f64::max);
        let takes_ns = |(queue, share): &(u16, f64)| {
            let is_slow = queues > 1 && *queue == queues - 1;
            let slow_ns = path.slow_ns.filter(|_| is_slow).unwrap_or(0.0);
            share * path.host_ns.max(slow_ns)
        };
        let host_ns = of.iter().map(takes_ns).sum::<f64>() / share;
        Lane { share, host_ns, ring: path.ring * share / most, queues: of }
    };
    (0..cores).filter_map(of_core).map(lane).collect()
}

/// Moves a share of the frames to queue 0; fewer where the other queues get no more.
pub(super) fn skew(shares: &mut [f64], share: f64) {
    let Some((first, others)) = shares.split_first_mut() else { return };
    let there: f64 = others.iter().sum();
    let moved = share.min(there);
    others.iter_mut().for_each(|of| *of *= 1.0 - moved / there.max(f64::MIN_POSITIVE));
    *first += moved;
}

/// Of so many frames whose flows are drawn one by one, no queue gets exactly its share.
pub(super) fn drawn(shares: &mut [f64], frames: f64, random: &mut impl Rng) {
    for share in &mut *shares {
        let deviation = (*share * (1.0 - *share) / frames.max(1.0)).max(0.0).sqrt();
        *share = (*share + deviation * chance(random)).max(0.0);
    }
    let all: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= all.max(f64::MIN_POSITIVE));
}

/// A number nearly of the normal distribution, with deviation 1.
pub(super) fn chance(random: &mut impl Rng) -> f64 {
    (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
}
