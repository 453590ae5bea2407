//! A trial on two cores: generator and sink on one, the network function under test on the other.
//!
//! What stands between them (rings of the kernel, queues of a card) is the testbed's; here the two
//! threads are started, pinned, told when the measured part begins and ends, and their counters are
//! laid side by side.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::{self, Builder, ScopedJoinHandle};
use std::time::Duration;

use niclab_load::clock::Clock;
use niclab_load::lane::{Inlet, Outlet, Window};
use niclab_load::{Observation, PortCounters, QueueCounters, Rate, Stalls, drive};
use serde::{Deserialize, Serialize};

use crate::Load;
use crate::cores::{self, Pinned};
use crate::face::DeviceError;

/// A gap between two turns that counts as a stall, nanoseconds, beside what the frames cost.
const STALL_NS: u64 = 10_000;

/// Frame check sequence, which frames here are without, bytes.
const FCS_LEN: u64 = 4;

/// Stalls that are kept one by one; further ones are only counted.
const STALLS_KEPT_MAX: usize = 16_384;

/// Share of time without a frame under saturation above which the generator was the limit.
const IDLE_RATIO_MAX: f64 = 0.02;

/// Turns after the end in which the function may still find frames.
const LAST_TURNS_MAX: usize = 256;

/// The device's side of a trial: a function that takes frames and sends them back.
pub trait Side: Send {
    /// What one frame may cost in a turn before the turn looks like a stall, nanoseconds. Zero
    /// where a full burst stays well below ten microseconds.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cores {
    /// Of generator and sink.
    pub tester: u32,
    /// Of the function.
    pub device: u32,
}

impl Cores {
    /// The first two cores this process may use.
    pub fn choose(device: &str) -> Result<Cores, DeviceError> {
        let cores = cores::take(device, 2)?;
        Ok(Cores { tester: cores[0], device: cores[1] })
    }
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
    let broken = |reason: String| DeviceError::Broken { device: device.into(), reason };
    let phase = Phase::default();
    let outcome = thread::scope(|scope| {
        let function = Builder::new().name("function".into()).spawn_scoped(scope, || {
            let _pinned = Pinned::to(cores.device);
            serve(side, &phase)
        })?;
        let _ends = StopOnDrop(&phase);
        let tester = Builder::new().name("tester".into()).spawn_scoped(scope, || {
            let _pinned = Pinned::to(cores.tester);
            let mut edges = Edges { phase: &phase, function: Some(function), seen: None };
            edges.wait();
            let driven = drive(load, depth, outlet, &mut *inlet, &mut edges);
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
    let mut observation = driven.map_err(|e| DeviceError::BadLoad { reason: e.to_string() })?;
    seen.enter(&mut observation);
    count_late(&mut observation, inlet);
    judge_idle(&mut observation, load);
    Ok(observation)
}

/// A device that had time to spare under a saturating load was not what set the rate.
fn judge_idle(observation: &mut Observation, load: &Load) {
    let honesty = &mut observation.honesty;
    let idle_ratio = honesty.device_idle_ratio.unwrap_or(0.0);
    if load.rate == Rate::Saturate && idle_ratio > IDLE_RATIO_MAX {
        honesty.generator_limited = true;
        let share = idle_ratio * 100.0;
        honesty.reasons.push(format!("{share:.1} % of the time the device had nothing to do"));
    }
}

/// Counts the frames that the function sent back when the trial had ended: the sink has them, but
/// they stay lost.
fn count_late(observation: &mut Observation, inlet: &mut impl Inlet) {
    let Some(queue) = observation.sink.queues.first_mut() else {
        return;
    };
    let before = queue.rx_frames;
    for _ in 0..LAST_TURNS_MAX {
        let found = inlet.poll();
        queue.rx_frames += found as u64;
        queue.rx_bytes += (0..found).map(|i| inlet.frame(i).len() as u64 + FCS_LEN).sum::<u64>();
        inlet.release();
        if found == 0 {
            break;
        }
    }
    let late = queue.rx_frames - before;
    if late > 0 {
        let reason = format!("{late} frames came back after the end of the trial: lost");
        observation.honesty.reasons.push(reason);
    }
}

/// Lets `side` work alone for as long as the load lasts: its frames come out of nothing.
///
/// `offered` are the frames it found and `received` those it sent on in the measured part; nothing
/// is known of latency or order, and there is no generator to be held to anything.
pub fn run_alone<S: Side>(
    device: &str,
    load: &Load,
    core: u32,
    side: &mut S,
) -> Result<Observation, DeviceError> {
    let broken = |reason: String| DeviceError::Broken { device: device.into(), reason };
    let phase = Phase::default();
    let seen = thread::scope(|scope| {
        let function = Builder::new().name("function".into()).spawn_scoped(scope, || {
            let _pinned = Pinned::to(core);
            serve(side, &phase)
        })?;
        let mut edges = Edges { phase: &phase, function: Some(function), seen: None };
        edges.wait();
        thread::sleep(Duration::from_nanos(load.warmup_ns));
        edges.opened();
        thread::sleep(Duration::from_nanos(load.duration_ns));
        edges.closed();
        edges.stop();
        Ok::<_, std::io::Error>(edges.seen.take())
    });
    let seen = seen.map_err(|e| broken(format!("no thread for it: {e}")))?;
    let seen = seen.ok_or_else(|| broken("the function's thread panicked".into()))?;
    let (Some(from), Some(to)) = (seen.opened, seen.closed) else {
        return Err(broken("the function's thread got no time to run".into()));
    };
    let span = |count: fn(&Tally) -> u64| count(&to.tally) - count(&from.tally);
    let offered = span(|tally| tally.queue.rx_frames);
    let received = span(|tally| tally.queue.tx_frames);
    let mut observation = Observation {
        planned: offered,
        offered,
        received,
        offered_bytes: span(|tally| tally.queue.rx_bytes),
        received_bytes: span(|tally| tally.queue.tx_bytes),
        lost: offered - received,
        duration_ns: to.at_ns - from.at_ns,
        ..Observation::default()
    };
    seen.enter(&mut observation);
    observation.honesty.achieved_ratio = 1.0;
    Ok(observation)
}

/// The message of a panic.
fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Lays the counters of generator, device and sink side by side and says in the honesty record
/// whether they agree. `sink_missed` frames reached the tester and found its ring full: the
/// tester's fault, not the device's.
pub fn balance(observation: &mut Observation, sink_missed: u64) {
    let Some(device) = &observation.device else {
        return;
    };
    observation.sink.rx_missed = sink_missed;
    let [generator, function, sink] =
        [&observation.generator, device, &observation.sink].map(PortCounters::total);
    let missed = device.rx_missed;
    let taken = function.tx_frames + device.tx_dropped;
    let back = sink.rx_frames + sink_missed;
    // Of a frame that was missed the length is not known.
    let whole = |bytes: (u64, u64), missed| if missed == 0 { bytes } else { (0, 0) };
    let bytes_there = whole((generator.tx_bytes, function.rx_bytes), missed);
    let bytes_back = whole((function.tx_bytes, sink.rx_bytes), sink_missed);
    let pairs = [
        ("frames offered and at the device", (generator.tx_frames, function.rx_frames + missed)),
        ("frames taken and sent back or dropped", (function.rx_frames, taken)),
        ("frames sent back and at the sink", (function.tx_frames, back)),
        ("bytes offered and at the device", bytes_there),
        ("bytes sent back and at the sink", bytes_back),
    ];
    let honesty = &mut observation.honesty;
    honesty.balanced = pairs.iter().all(|(_, (a, b))| a == b);
    let unequal = pairs.iter().filter(|(_, (a, b))| a != b);
    let reason = |(what, (a, b)): &(&str, (u64, u64))| format!("{what}: {a} against {b}");
    honesty.reasons.extend(unequal.map(reason));
    if sink_missed > 0 {
        honesty.generator_limited = true;
        let reason = format!("{sink_missed} frames came back and found the sink's ring full");
        honesty.reasons.push(reason);
    }
}

/// Refuses a load whose frames are longer than what was set up. Frames of a trace show their length
/// only when they are read.
pub fn check_sizes(load: &Load, frame_len_max: u16) -> Result<(), DeviceError> {
    let longest = load.sizes.max();
    if load.trace.is_none() && longest > frame_len_max {
        let reason = format!("sizes: {longest} bytes, but set up for at most {frame_len_max}");
        return Err(DeviceError::BadLoad { reason });
    }
    Ok(())
}

/// Where the generator's frames first meet an interface of the tester's own, those it refused are
/// the generator's limit, not the device's.
pub fn judge_refused(observation: &mut Observation) {
    let refused = observation.generator.rx_missed;
    if refused > 0 {
        let honesty = &mut observation.honesty;
        honesty.generator_limited = true;
        let reason = format!("the tester's own interface refused {refused} frames");
        honesty.reasons.push(reason);
    }
}

/// How far a trial has come.
#[derive(Default)]
struct Phase {
    ready: AtomicBool,
    /// 0 while the warm-up lasts, then one of these.
    now: AtomicU8,
}

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
        let ended = || self.function.as_ref().is_none_or(ScopedJoinHandle::is_finished);
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
        self.seen.as_ref().map(|seen| seen.gaps.kept.clone()).unwrap_or_default()
    }
}

/// What the function's thread saw.
struct Seen {
    tally: Tally,
    gaps: Gaps,
    /// Time of the measured part in turns that found frames and in turns that found none, stalls
    /// apart.
    busy_ns: u64,
    idle_ns: u64,
    /// Counted when the measured part began and ended.
    opened: Option<Mark>,
    closed: Option<Mark>,
    /// Lost before the measured part.
    missed_before: u64,
    /// Lost from its beginning on.
    missed: u64,
}

/// What was counted at one moment.
#[derive(Clone, Copy)]
struct Mark {
    at_ns: u64,
    tally: Tally,
}

impl Seen {
    fn new() -> Seen {
        Seen {
            tally: Tally::default(),
            gaps: Gaps::new(),
            busy_ns: 0,
            idle_ns: 0,
            opened: None,
            closed: None,
            missed_before: 0,
            missed: 0,
        }
    }

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
        let time_ns = self.busy_ns + self.idle_ns;
        honesty.device_idle_ratio = (time_ns > 0).then(|| self.idle_ns as f64 / time_ns as f64);
    }
}

/// The function's thread: polls until the trial is over.
fn serve(side: &mut impl Side, phase: &Phase) -> Seen {
    side.start();
    let clock = Clock::new();
    let mut seen = Seen::new();
    phase.ready.store(true, Ordering::Release);
    loop {
        let now = phase.now.load(Ordering::Acquire);
        if now >= MEASURED && seen.opened.is_none() {
            seen.opened = Some(Mark { at_ns: clock.now_ns(), tally: seen.tally });
            seen.missed_before = side.missed();
        }
        if now >= DRAIN && seen.closed.is_none() {
            seen.closed = Some(Mark { at_ns: clock.now_ns(), tally: seen.tally });
        }
        if now == END {
            break;
        }
        let (frames, gap_ns) = turn(side, &mut seen, &clock);
        if now == MEASURED {
            let time_ns = if frames == 0 { &mut seen.idle_ns } else { &mut seen.busy_ns };
            *time_ns += gap_ns;
        }
    }
    for _ in 0..LAST_TURNS_MAX {
        if turn(side, &mut seen, &clock).0 == 0 {
            break;
        }
    }
    seen.missed = side.missed();
    seen
}

/// One turn: how many frames it found, and how long it took, stalls apart.
#[inline]
fn turn<S: Side>(side: &mut S, seen: &mut Seen, clock: &Clock) -> (usize, u64) {
    let frames = side.turn(&mut seen.tally);
    let gap_ns = seen.gaps.turn(clock.now_ns(), frames as u64 * S::FRAME_NS);
    (frames, gap_ns)
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
        Gaps { last_ns: None, sum: Stalls::default(), kept }
    }

    /// Called once a turn with the time and what the turn's frames may have cost; returns the time
    /// since the last turn, 0 where it was a stall.
    #[inline]
    fn turn(&mut self, now_ns: u64, work_ns: u64) -> u64 {
        let gap_ns = now_ns.saturating_sub(self.last_ns.unwrap_or(now_ns));
        self.last_ns = Some(now_ns);
        if gap_ns > STALL_NS + work_ns {
            self.stall(now_ns - gap_ns, gap_ns);
            return 0;
        }
        gap_ns
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
pub(crate) mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// A test that keeps two cores busy waits here until it is the only one.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        static CORES: Mutex<()> = Mutex::new(());
        CORES.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counters(rx_frames: u64, tx_frames: u64) -> PortCounters {
        let (rx_bytes, tx_bytes) = (64 * rx_frames, 64 * tx_frames);
        let queue = QueueCounters { rx_frames, rx_bytes, tx_frames, tx_bytes };
        PortCounters { queues: vec![queue], ..PortCounters::default() }
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
                "frames offered and at the device: 100 against 99",
                "frames sent back and at the sink: 99 against 98",
                "bytes offered and at the device: 6400 against 6336",
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
