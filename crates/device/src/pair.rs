//! A trial on two cores: generator and sink on one, the network function under test on the other.
//!
//! What stands between them (rings of the kernel, queues of a card) is the testbed's; here the two
//! threads are started, pinned, told when the measured part begins and ends, and their counters are
//! laid side by side.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::{self, Builder, ScopedJoinHandle};

use niclab_load::clock::Clock;
use niclab_load::lane::{Inlet, Outlet, Window};
use niclab_load::{Observation, PortCounters, QueueCounters, Stalls, drive};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Load;
use crate::face::DeviceError;

/// A gap between two turns that counts as a stall, nanoseconds, beside what the frames cost.
const STALL_NS: u64 = 10_000;

/// Stalls that are kept one by one; further ones are only counted.
const STALLS_KEPT_MAX: usize = 16_384;

/// Turns after the end in which the function may still find frames.
const LAST_TURNS_MAX: usize = 256;

/// The device's side of a trial: a function that takes frames and sends them back.
pub trait Side: Send {
    /// What one frame may cost in a turn before the turn looks like a stall, nanoseconds. Zero where
    /// a full burst stays well below ten microseconds.
    const FRAME_NS: u64;

    /// Called first on the function's own thread.
    fn start(&mut self) {}

    /// Takes what is there, at most a burst, and sends it back; returns how many frames it found.
    fn turn(&mut self, tally: &mut Tally) -> usize;

    /// Frames that were lost before the function saw them, since the last call.
    fn missed(&mut self) -> u64;
}

/// What a function counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames taken and sent back.
    pub queue: QueueCounters,
    /// Frames that could not be sent back for lack of room.
    pub tx_dropped: u64,
}

/// The cores of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Of generator and sink.
    pub tester: u32,
    /// Of the function.
    pub device: u32,
}

impl Cores {
    /// The first two cores this process may use.
    pub fn choose(device: &str) -> Result<Cores, DeviceError> {
        let allowed = sched_getaffinity(None).unwrap_or_default();
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        match (cores.next(), cores.next()) {
            (Some(tester), Some(function)) => Ok(Cores {
                tester: tester as u32,
                device: function as u32,
            }),
            _ => Err(DeviceError::Cores {
                device: device.into(),
                needed: 2,
                available: allowed.count(),
                remedy: "run where two are free (nproc, taskset, the container's limits)".into(),
            }),
        }
    }
}

/// Lets the calling thread run on this core alone. Where that is refused it runs where it may: the
/// stalls that follow are seen and reported.
pub fn pin(core: u32) {
    let mut set = CpuSet::new();
    set.set(core as usize);
    let _ = sched_setaffinity(None, &set);
}

/// Offers `load` through `outlet` and `inlet` on one core while `side` works on the other.
///
/// `depth` is the number of frames the device's ring holds. The observation comes back with the
/// device's counters, stalls and idle share, but not yet balanced: see [`balance`].
pub fn run<S: Side>(
    device: &str,
    load: &Load,
    depth: u32,
    cores: Cores,
    (outlet, inlet): (&mut (impl Outlet + Send), &mut (impl Inlet + Send)),
    side: &mut S,
) -> Result<Observation, DeviceError> {
    let broken = |reason: String| DeviceError::Broken {
        device: device.into(),
        reason,
    };
    let phase = Phase::default();
    let outcome = thread::scope(|scope| {
        let function = Builder::new()
            .name("function".into())
            .spawn_scoped(scope, || {
                pin(cores.device);
                serve(side, &phase)
            })?;
        let _ends = StopOnDrop(&phase);
        let tester = Builder::new()
            .name("tester".into())
            .spawn_scoped(scope, || {
                pin(cores.tester);
                let mut edges = Edges {
                    phase: &phase,
                    function: Some(function),
                    seen: None,
                };
                edges.wait();
                let driven = drive(load, depth, outlet, inlet, &mut edges);
                edges.stop();
                (driven, edges.seen.take())
            })?;
        Ok::<_, std::io::Error>(tester.join())
    });
    let (driven, seen) = match outcome {
        Err(e) => return Err(broken(format!("no thread for it: {e}"))),
        Ok(Err(panic)) => return Err(broken(format!("the tester panicked: {}", text_of(&*panic)))),
        Ok(Ok(outcome)) => outcome,
    };
    let seen = seen.ok_or_else(|| broken("the function's thread panicked".into()))?;
    let mut observation = driven.map_err(|e| DeviceError::BadLoad {
        reason: e.to_string(),
    })?;
    seen.enter(&mut observation);
    Ok(observation)
}

/// The message of a panic.
fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

/// Lays the counters of generator, device and sink side by side and says in the honesty record
/// whether they agree. `sink_missed` frames reached the tester and found its ring full: the tester's
/// fault, not the device's.
pub fn balance(observation: &mut Observation, sink_missed: u64) {
    let Observation {
        generator,
        device: Some(device),
        sink,
        honesty,
        ..
    } = observation
    else {
        return;
    };
    sink.rx_missed = sink_missed;
    let [generated, received, returned, sunk] =
        [&*generator, device, device, sink].map(|port| sum(&port.queues));
    let left = generated.tx_frames - generator.rx_missed;
    let mut differ = |what: &str, a: u64, b: u64| {
        if a != b {
            honesty.reasons.push(format!("{what}: {a} against {b}"));
        }
        a == b
    };
    let missed = device.rx_missed - generator.rx_missed.min(device.rx_missed);
    let mut balanced = true;
    balanced &= differ(
        "frames left and frames at the device",
        left,
        received.rx_frames + missed,
    );
    let back = sunk.rx_frames + sink_missed;
    balanced &= differ(
        "frames sent back and frames at the sink",
        returned.tx_frames,
        back,
    );
    if generator.rx_missed + missed == 0 {
        balanced &= differ(
            "bytes sent and at the device",
            generated.tx_bytes,
            received.rx_bytes,
        );
    }
    if sink_missed == 0 {
        balanced &= differ(
            "bytes sent back and at the sink",
            returned.tx_bytes,
            sunk.rx_bytes,
        );
    } else {
        honesty.generator_limited = true;
        honesty.reasons.push(format!(
            "{sink_missed} frames came back and found the sink's ring full"
        ));
    }
    honesty.balanced = balanced;
}

/// The sum over queues.
fn sum(queues: &[QueueCounters]) -> QueueCounters {
    queues
        .iter()
        .fold(QueueCounters::default(), |a, b| QueueCounters {
            rx_frames: a.rx_frames + b.rx_frames,
            rx_bytes: a.rx_bytes + b.rx_bytes,
            tx_frames: a.tx_frames + b.tx_frames,
            tx_bytes: a.tx_bytes + b.tx_bytes,
        })
}

/// How far a trial has come.
#[derive(Default)]
struct Phase {
    ready: AtomicBool,
    now: AtomicU8,
}

const WARMUP: u8 = 0;
const MEASURED: u8 = 1;
const DRAIN: u8 = 2;
const END: u8 = 3;

/// Ends the function's thread on every way out.
struct StopOnDrop<'a>(&'a Phase);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.now.store(END, Ordering::Release);
    }
}

/// The tester's hold on the function's thread.
struct Edges<'scope, 'a> {
    phase: &'a Phase,
    function: Option<ScopedJoinHandle<'scope, Seen>>,
    seen: Option<Seen>,
}

impl Edges<'_, '_> {
    /// Waits until the function polls, or its thread has ended.
    fn wait(&self) {
        let ended = || {
            self.function
                .as_ref()
                .is_none_or(ScopedJoinHandle::is_finished)
        };
        while !self.phase.ready.load(Ordering::Acquire) && !ended() {
            thread::yield_now();
        }
    }

    /// Ends the function's thread and takes what it saw.
    fn stop(&mut self) {
        self.phase.now.store(END, Ordering::Release);
        if let Some(function) = self.function.take() {
            self.seen = function.join().ok();
        }
    }
}

impl Drop for Edges<'_, '_> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Window for Edges<'_, '_> {
    fn opened(&mut self) {
        self.phase.now.store(MEASURED, Ordering::Release);
    }

    fn closed(&mut self) {
        self.phase.now.store(DRAIN, Ordering::Release);
    }

    fn stalls(&mut self) -> Vec<(u64, u64)> {
        self.stop();
        self.seen
            .as_ref()
            .map(|seen| seen.gaps.kept.clone())
            .unwrap_or_default()
    }
}

/// What the function's thread saw.
struct Seen {
    tally: Tally,
    gaps: Gaps,
    polls: u64,
    idle_polls: u64,
    /// Lost before the measured part.
    missed_before: u64,
    /// Lost from its beginning on.
    missed: u64,
}

impl Seen {
    /// Enters the device's part into an observation.
    fn enter(self, observation: &mut Observation) {
        let full = observation.generator.rx_missed;
        observation.rx_missed += self.missed;
        observation.device = Some(PortCounters {
            queues: vec![self.tally.queue],
            rule_drops: 0,
            rx_missed: full + self.missed_before + self.missed,
            tx_dropped: self.tally.tx_dropped,
        });
        let honesty = &mut observation.honesty;
        honesty.device_stalls = Some(self.gaps.sum);
        honesty.device_idle_ratio =
            (self.polls > 0).then(|| self.idle_polls as f64 / self.polls as f64);
    }
}

/// The function's thread: polls until the trial is over.
fn serve(side: &mut impl Side, phase: &Phase) -> Seen {
    side.start();
    let clock = Clock::new();
    let (tally, gaps) = (Tally::default(), Gaps::new());
    let mut seen = Seen {
        tally,
        gaps,
        polls: 0,
        idle_polls: 0,
        missed_before: 0,
        missed: 0,
    };
    let mut last = WARMUP;
    phase.ready.store(true, Ordering::Release);
    loop {
        let now = phase.now.load(Ordering::Acquire);
        if now != last && last == WARMUP {
            seen.missed_before = side.missed();
        }
        if now == END {
            break;
        }
        last = now;
        let frames = turn(side, &mut seen, &clock);
        if now == MEASURED {
            seen.polls += 1;
            seen.idle_polls += u64::from(frames == 0);
        }
    }
    for _ in 0..LAST_TURNS_MAX {
        if turn(side, &mut seen, &clock) == 0 {
            break;
        }
    }
    seen.missed = side.missed();
    seen
}

#[inline]
fn turn<S: Side>(side: &mut S, seen: &mut Seen, clock: &Clock) -> usize {
    let frames = side.turn(&mut seen.tally);
    seen.gaps.turn(clock.now_ns(), frames as u64 * S::FRAME_NS);
    frames
}

/// Watches for stalls in a loop whose turns have a price by the frame.
struct Gaps {
    last_ns: Option<u64>,
    sum: Stalls,
    kept: Vec<(u64, u64)>,
}

impl Gaps {
    fn new() -> Gaps {
        let kept = Vec::with_capacity(STALLS_KEPT_MAX);
        Gaps {
            last_ns: None,
            sum: Stalls::default(),
            kept,
        }
    }

    /// Called once a turn with the time and what the turn's frames may have cost.
    #[inline]
    fn turn(&mut self, now_ns: u64, work_ns: u64) {
        let gap_ns = now_ns.saturating_sub(self.last_ns.unwrap_or(now_ns));
        self.last_ns = Some(now_ns);
        if gap_ns > STALL_NS + work_ns {
            self.stall(now_ns - gap_ns, gap_ns);
        }
    }

    #[cold]
    fn stall(&mut self, start_ns: u64, length_ns: u64) {
        self.sum.count += 1;
        self.sum.total_ns += length_ns;
        self.sum.longest_ns = self.sum.longest_ns.max(length_ns);
        if self.kept.len() < STALLS_KEPT_MAX {
            self.kept.push((start_ns, length_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(rx_frames: u64, tx_frames: u64) -> PortCounters {
        let (rx_bytes, tx_bytes) = (64 * rx_frames, 64 * tx_frames);
        let queue = QueueCounters {
            rx_frames,
            rx_bytes,
            tx_frames,
            tx_bytes,
        };
        PortCounters {
            queues: vec![queue],
            ..PortCounters::default()
        }
    }

    fn observation(left: u64, device: (u64, u64), sunk: u64) -> Observation {
        Observation {
            generator: counters(0, left),
            device: Some(counters(device.0, device.1)),
            sink: counters(sunk, 0),
            ..Observation::default()
        }
    }

    #[test]
    fn equal_counters_balance_and_each_difference_is_named() {
        let mut good = observation(100, (100, 100), 100);
        balance(&mut good, 0);
        assert!(good.honesty.balanced);
        assert_eq!(good.honesty.reasons, Vec::<String>::new());

        let mut bad = observation(100, (99, 99), 98);
        balance(&mut bad, 0);
        assert!(!bad.honesty.balanced);
        assert_eq!(
            bad.honesty.reasons,
            [
                "frames left and frames at the device: 100 against 99",
                "frames sent back and frames at the sink: 99 against 98",
                "bytes sent and at the device: 6400 against 6336",
                "bytes sent back and at the sink: 6336 against 6272",
            ]
        );
    }

    #[test]
    fn frames_missed_by_the_device_balance_and_frames_missed_by_the_sink_are_the_testers() {
        let mut observation = observation(100, (90, 90), 85);
        if let Some(device) = &mut observation.device {
            device.rx_missed = 10;
        }
        balance(&mut observation, 5);
        assert!(observation.honesty.balanced && observation.honesty.generator_limited);
        let reason = "5 frames came back and found the sink's ring full";
        assert_eq!(observation.honesty.reasons, [reason]);
    }

    #[test]
    fn frames_have_a_price_in_the_stall_watch() {
        let mut gaps = Gaps::new();
        gaps.turn(0, 0);
        gaps.turn(100_000, 90_000);
        assert_eq!(gaps.kept, []);
        gaps.turn(200_001, 90_000);
        assert_eq!(gaps.kept, [(100_000, 100_001)]);
    }
}
