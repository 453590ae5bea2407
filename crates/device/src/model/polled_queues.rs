//! Queues by the cores that poll them, and the frames that each of them gets.

use std::collections::BTreeMap;

use rand::{Rng, RngExt};

use super::card::{Path, SECOND_NS, unknown};
use super::profile::Profile;
use crate::face::{DeviceError, Receive, Setup};

/// One queue and what its core takes of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PolledQueue {
    /// The queue.
    pub queue: u16,
    /// The core that polls it.
    pub core: u16,
    /// Share of all frames that it gets, above 0.
    pub share: f64,
    /// Time between two frames that the core takes of it while others wait there, nanoseconds.
    pub host_ns: f64,
}

/// How frames come to cores: queue `q` of port `p` is of core `(p * queues + q) % cores`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Polling {
    /// At least 1.
    pub ports: u16,
    /// Of each port, at least 1.
    pub queues: u16,
    /// At least 1.
    pub cores: u16,
    /// Which of the cores receive.
    pub receive: Receive,
}

impl Polling {
    /// That of a set-up, where the profile speaks of so much.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] for more ports or queues than the source has, and for cores
    /// behind one that receives where nobody knows what that takes.
    pub fn of(profile: &Profile, setup: &Setup) -> Result<Polling, DeviceError> {
        let known = |key| profile.number("queues", key);
        let polling = Polling {
            ports: setup.ports.max(1),
            queues: setup.queues.max(1),
            cores: setup.cores.max(1),
            receive: setup.receive,
        };
        if (polling.receive, polling.cores > 1) == (Receive::Serial, true) {
            known("serial_ns").ok_or_else(|| unknown("queues", "serial_ns"))?;
        }
        let ports = known("ports").unwrap_or(1.0);
        if f64::from(polling.ports) > ports {
            let capability = format!("{} ports: the profile has {ports}", polling.ports);
            return Err(DeviceError::lacks(capability));
        }
        match known("queues_max").filter(|most| f64::from(polling.queues) > *most) {
            None => Ok(polling),
            Some(most) => {
                Err(DeviceError::lacks(format!("more than {most} queues a port: untested")))
            }
        }
    }

    /// Queues of all ports.
    pub fn all(self) -> u16 {
        self.ports.saturating_mul(self.queues)
    }

    /// Where the shares that queues of a port get end up: as much of them at each port.
    fn spread(self, shares: &[(u16, f64)]) -> Vec<(u16, f64)> {
        if self.receive == Receive::Serial {
            return vec![(0, shares.iter().map(|(_, share)| share).sum())];
        }
        let of = |port: u16| {
            let place = move |(queue, share): &(u16, f64)| {
                (port * self.queues + queue % self.queues, share / f64::from(self.ports))
            };
            shares.iter().map(place)
        };
        (0..self.ports).flat_map(of).collect()
    }
}

/// A queue as its core finds it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Polled {
    queue: u16,
    /// Share of all frames that come to it.
    share: f64,
    /// Time of the core for one of its frames, nanoseconds.
    frame_ns: f64,
}

/// The queues that get a frame. `shares` names queues of a port, some perhaps more than once; `pps`
/// frames a second leave the classifier for all of them.
///
/// A core goes from queue to queue and takes as many frames of each as of any other, fewer only
/// where there are no more. Where it keeps up with all of them, each is emptied in proportion to
/// what comes to it.
pub(super) fn polled_queues(
    path: &Path,
    shares: &[(u16, f64)],
    polling: Polling,
    pps: f64,
) -> Vec<PolledQueue> {
    let (queues, cores) = (polling.all(), polling.cores);
    let mut by_queue: BTreeMap<u16, f64> = BTreeMap::new();
    for (queue, share) in polling.spread(shares) {
        *by_queue.entry(queue).or_default() += share;
    }
    by_queue.retain(|_, share| *share > 0.0);
    let polled = |(queue, share): (&u16, &f64)| {
        let is_slow = queues > 1 && *queue == queues - 1;
        let slow_ns = path.slow_queue_ns.filter(|_| is_slow).unwrap_or(0.0);
        Polled { queue: *queue, share: *share, frame_ns: path.host_ns.max(slow_ns) }
    };
    let mut all = Vec::new();
    for core in 0..cores {
        let of_core = by_queue.iter().filter(|(queue, _)| *queue % cores == core);
        let of_core: Vec<Polled> = of_core.map(polled).collect();
        let between_ns = between_ns(&of_core, pps / SECOND_NS);
        let polled_queue = |(polled, host_ns): (&Polled, f64)| {
            let Polled { queue, share, .. } = *polled;
            PolledQueue { queue, core, share, host_ns }
        };
        all.extend(of_core.iter().zip(between_ns).map(polled_queue));
    }
    all
}

/// Time between two frames of each queue of a core, nanoseconds; `rate` frames a nanosecond come to
/// all queues.
fn between_ns(queues: &[Polled], rate: f64) -> Vec<f64> {
    let busy =
        |of: &[Polled]| of.iter().map(|queue| queue.share * rate * queue.frame_ns).sum::<f64>();
    if busy(queues) <= 1.0 {
        // Never slower than frames come: of a queue alone it is the time of a frame.
        let work: f64 = queues.iter().map(|queue| queue.share * queue.frame_ns).sum();
        return queues.iter().map(|queue| work / queue.share).collect();
    }
    // The queues with fewest frames first: those that get no more than all others together leave
    // time for are served whole.
    let mut sorted = queues.to_vec();
    sorted.sort_by(|a, b| a.share.total_cmp(&b.share));
    let mut each_ns = 0.0;
    for at in 0..sorted.len() {
        let (served, waiting) = sorted.split_at(at);
        let waiting_ns: f64 = waiting.iter().map(|queue| queue.frame_ns).sum();
        each_ns = waiting_ns / (1.0 - busy(served));
        if waiting[0].share * rate * each_ns > 1.0 {
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

/// Of so many frames whose flows are drawn one by one, no queue gets exactly its share: counts that
/// vary as Poisson's do, one by one, vary as a multinomial's where they have one sum.
pub(super) fn drawn(shares: &mut [f64], frames: f64, random: &mut impl Rng) {
    for share in &mut *shares {
        let deviation = (*share / frames.max(1.0)).sqrt();
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
            let polled = |(queue, (share, frame_ns)): (u16, (&f64, &f64))| Polled {
                queue,
                share: *share,
                frame_ns: *frame_ns,
            };
            let queues: Vec<Polled> = (0..).zip(shares.iter().zip(takes_ns)).map(polled).collect();
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
