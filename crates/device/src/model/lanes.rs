//! Queues by the cores that poll them, and the frames that each of them gets.

use std::collections::BTreeMap;

use rand::{Rng, RngExt};

use super::card::{Path, SECOND_NS};

/// One queue and what its core takes of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lane {
    /// The queue.
    pub queue: u16,
    /// The core that polls it.
    pub core: u16,
    /// Share of all frames that it gets, above 0.
    pub share: f64,
    /// Time between two frames that the core takes of it while others wait there, nanoseconds.
    pub host_ns: f64,
}

/// The queues that get a frame. `shares` names queues, some perhaps more than once; `pps` frames a
/// second leave the classifier for all of them.
///
/// A core goes from queue to queue and takes as many frames of each as of any other, fewer only
/// where there are no more. Where it keeps up with all of them, each is emptied in proportion to
/// what comes to it.
pub(super) fn lanes(
    path: &Path,
    shares: &[(u16, f64)],
    (queues, cores): (u16, u16),
    pps: f64,
) -> Vec<Lane> {
    let (queues, cores) = (queues.max(1), cores.max(1));
    let mut by_queue: BTreeMap<u16, f64> = BTreeMap::new();
    for (queue, share) in shares {
        *by_queue.entry(queue % queues).or_default() += share;
    }
    by_queue.retain(|_, share| *share > 0.0);
    let takes_ns = |queue: u16| match path.slow_ns.filter(|_| queues > 1 && queue == queues - 1) {
        Some(slow_ns) => path.host_ns.max(slow_ns),
        None => path.host_ns,
    };
    let mut lanes = Vec::new();
    for core in 0..cores {
        let of = by_queue.iter().filter(|(queue, _)| *queue % cores == core);
        let of: Vec<(u16, f64, f64)> =
            of.map(|(queue, share)| (*queue, *share, takes_ns(*queue))).collect();
        let between_ns = between_ns(&of, pps / SECOND_NS);
        let lane = |((queue, share, _), host_ns): (&(u16, f64, f64), f64)| Lane {
            queue: *queue,
            core,
            share: *share,
            host_ns,
        };
        lanes.extend(of.iter().zip(between_ns).map(lane));
    }
    lanes
}

/// Time between two frames of each queue of a core: queue, share of the `rate` frames a nanosecond,
/// time of a frame.
fn between_ns(queues: &[(u16, f64, f64)], rate: f64) -> Vec<f64> {
    let busy =
        |of: &[(u16, f64, f64)]| of.iter().map(|(_, share, ns)| share * rate * ns).sum::<f64>();
    let all = busy(queues);
    if all <= 1.0 {
        // Never slower than frames come: of a queue alone it is the time of a frame.
        let work: f64 = queues.iter().map(|(_, share, ns)| share * ns).sum();
        return queues.iter().map(|(_, share, _)| work / share).collect();
    }
    // The queues with fewest frames first: those that get no more than all others together leave
    // time for are served whole.
    let mut sorted = queues.to_vec();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut each_ns = 0.0;
    for at in 0..sorted.len() {
        let (served, waiting) = sorted.split_at(at);
        let waiting_ns: f64 = waiting.iter().map(|(.., ns)| ns).sum();
        each_ns = waiting_ns / (1.0 - busy(served));
        if waiting[0].1 * rate * each_ns > 1.0 {
            break;
        }
    }
    vec![each_ns; queues.len()]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_takes_as_many_frames_of_each_queue_as_there_are_or_as_of_any_other() {
        let check = |shares: &[f64], takes_ns: &[f64], rate: f64, want: &[f64]| {
            let queues: Vec<(u16, f64, f64)> =
                (0..).zip(shares.iter().zip(takes_ns)).map(|(q, (s, ns))| (q, *s, *ns)).collect();
            let got = between_ns(&queues, rate);
            let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9 * b;
            assert!(got.iter().zip(want).all(is_near), "{shares:?}: {got:?}, {want:?} expected");
        };
        // One queue: the time of a frame, whatever comes.
        check(&[1.0], &[100.0], 0.001, &[100.0]);
        check(&[1.0], &[100.0], 1.0, &[100.0]);
        // A core that keeps up empties queues at the same moment.
        check(&[0.75, 0.25], &[100.0, 100.0], 0.001, &[400.0 / 3.0, 400.0]);
        // One that does not takes as many of each that wait: 3/4 of its time is left by the first.
        check(&[0.1, 0.45, 0.45], &[100.0; 3], 0.025, &[800.0 / 3.0; 3]);
        check(&[0.5, 0.5], &[100.0, 300.0], 0.1, &[400.0; 2]);
        // Whatever the order in which they stand.
        check(&[0.45, 0.1, 0.45], &[100.0; 3], 0.025, &[800.0 / 3.0; 3]);
    }
}
