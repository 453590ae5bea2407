//! A trial on cores of their own: generator and sink on the caller's, the device's stages on
//! others.
//!
//! What stands between them (a memory wire, rings of the kernel, queues of a card) is the
//! testbed's; here threads are started, pinned, told when the measured part begins and ends, and
//! their counters are laid side by side.

use std::any::Any;
use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder, Scope, ScopedJoinHandle};
use std::time::Duration;

use niclab_load::clock::Clock;
use niclab_load::rings::{Inlet, MeasuredPart, Outlet};
use niclab_load::stall::STALL_NS;
use niclab_load::{LoadObservation, PortCounters, QueueCounters, Rate, StallWatch, drive};
use niclab_packet::size::FCS_LEN;

use crate::Load;
use crate::cores::Pinned;
use crate::face::DeviceError;
use crate::two_hosts::{
    DeviceObservation, FarHost, Marker, STALLS_MAX, SeenMarker, ServeNotice, ServeSignal,
};

/// Share of time without a frame under saturation above which the generator was the limit.
const IDLE_RATIO_MAX: f64 = 0.02;

/// Turns after the end in which a stage may still find frames.
pub const LAST_TURNS_MAX: usize = 256;

/// The device's side of a trial, or a stage of it: takes frames and passes them on.
pub trait DeviceSide: Send {
    /// What one frame may cost in a turn before the turn looks like a stall, nanoseconds. Zero
    /// where a full burst stays well below ten microseconds.
    fn frame_ns(&self) -> u64 {
        0
    }

    /// Its receive queues: as many as the counters it is given have.
    fn queues(&self) -> u16 {
        1
    }

    /// Called first on the stage's own thread.
    fn start(&mut self) {}

    /// Takes what is there, at most a burst, and passes it on; returns how many frames it found.
    fn turn(&mut self, counters: &mut PortCounters) -> usize;

    /// The same, and shows each frame as it came in. Nothing is counted.
    fn turn_shown(&mut self, _show: &mut ShowFrame<'_>) -> usize {
        0
    }

    /// The measured part has begun, at this time of the process's clock, nanoseconds.
    fn opened(&mut self, _at_ns: u64) {}

    /// Called behind each turn that it was given this many frames in: what its core does beside
    /// frames, such as the operations of a plan. How long that took, nanoseconds; it is no stall.
    #[inline]
    fn beside(&mut self, _frames: usize) -> u64 {
        0
    }

    /// Called when nothing more is offered: takes what is still under way.
    fn last(&mut self, counters: &mut PortCounters) {
        for _ in 0..LAST_TURNS_MAX {
            if self.turn(counters) == 0 {
                break;
            }
        }
    }

    /// Frames that were lost before the stage saw them, since the last call.
    fn missed(&mut self) -> u64 {
        0
    }
}

/// Looks at a frame, which is without FCS.
pub type ShowFrame<'a> = dyn FnMut(&[u8]) + 'a;

impl<S: DeviceSide> DeviceSide for &mut S {
    fn frame_ns(&self) -> u64 {
        (**self).frame_ns()
    }

    fn turn_shown(&mut self, show: &mut ShowFrame<'_>) -> usize {
        (**self).turn_shown(show)
    }

    fn queues(&self) -> u16 {
        (**self).queues()
    }

    fn start(&mut self) {
        (**self).start();
    }

    #[inline]
    fn turn(&mut self, counters: &mut PortCounters) -> usize {
        (**self).turn(counters)
    }

    fn opened(&mut self, at_ns: u64) {
        (**self).opened(at_ns);
    }

    #[inline]
    fn beside(&mut self, frames: usize) -> u64 {
        (**self).beside(frames)
    }

    fn last(&mut self, counters: &mut PortCounters) {
        (**self).last(counters);
    }

    fn missed(&mut self) -> u64 {
        (**self).missed()
    }
}

/// The operations of a plan, on a thread of its own beside a trial or on the core of a stage.
pub trait PlanWork: Send {
    /// The measured part has begun, at this time of the process's clock, nanoseconds.
    fn opened(&mut self, at_ns: u64);

    /// Carries out what is due; how long that took, nanoseconds.
    fn turn(&mut self) -> u64;

    /// `true` where a whole turn's operations are due and frames have kept them waiting.
    fn is_behind(&self) -> bool;
}

/// Whole bursts in a row that go before operations on the same core: frames come first, but under a
/// load that never leaves a burst open operations are to come to their end as well.
const PASSED_MAX: u32 = 16;

/// A stage whose core carries out a plan between two bursts.
pub struct PlannedSide<'a, S> {
    side: S,
    plan: &'a mut dyn PlanWork,
    /// Frames of a whole burst.
    burst: usize,
    /// Whole bursts that went before operations.
    passed: u32,
}

impl<'a, S> PlannedSide<'a, S> {
    /// Lets the core of `side`, whose bursts have at most this many frames, carry out a plan.
    pub fn new(side: S, plan: &'a mut dyn PlanWork, burst: usize) -> PlannedSide<'a, S> {
        PlannedSide { side, plan, burst, passed: 0 }
    }
}

impl<S: DeviceSide> DeviceSide for PlannedSide<'_, S> {
    fn frame_ns(&self) -> u64 {
        self.side.frame_ns()
    }

    fn turn_shown(&mut self, show: &mut ShowFrame<'_>) -> usize {
        self.side.turn_shown(show)
    }

    fn queues(&self) -> u16 {
        self.side.queues()
    }

    fn start(&mut self) {
        self.side.start();
    }

    #[inline]
    fn turn(&mut self, counters: &mut PortCounters) -> usize {
        self.side.turn(counters)
    }

    fn opened(&mut self, at_ns: u64) {
        self.side.opened(at_ns);
        self.plan.opened(at_ns);
    }

    #[inline]
    fn beside(&mut self, frames: usize) -> u64 {
        let is_full = frames >= self.burst && self.passed < PASSED_MAX;
        if is_full && !self.plan.is_behind() {
            self.passed += 1;
            return 0;
        }
        self.passed = 0;
        self.plan.turn()
    }

    fn last(&mut self, counters: &mut PortCounters) {
        self.side.last(counters);
    }

    fn missed(&mut self) -> u64 {
        self.side.missed()
    }
}

/// A part of the device with a thread of its own.
pub struct Stage<'a> {
    name: &'static str,
    core: Option<u32>,
    work: Box<dyn FnOnce(&Phase) -> StageTally + Send + 'a>,
}

/// A plan on a thread and a core of its own.
pub struct PlanThread<'a> {
    /// Its core; none: wherever there is room.
    pub core: Option<u32>,
    /// Its operations.
    pub work: &'a mut dyn PlanWork,
}

/// Where the operations of a plan are carried out.
pub enum TrialPlan<'a> {
    /// On the function's first core, between two bursts.
    Same(&'a mut dyn PlanWork),
    /// On a core of its own.
    Distinct {
        /// The operations.
        work: &'a mut dyn PlanWork,
        /// The function's first core asks for them where they have a rate.
        requests: Option<&'a mut dyn PlanWork>,
        /// The plan's core.
        core: u32,
    },
}

impl PlanThread<'_> {
    /// Works from the beginning of the measured part to its end.
    fn serve(self, phase: &Phase) {
        let _pinned = self.core.map(Pinned::to);
        while matches!(phase.now.load(Ordering::Acquire), ALIGN | WARM_UP) {
            std::hint::spin_loop();
        }
        self.work.opened(phase.opened_ns.load(Ordering::Acquire));
        while phase.now.load(Ordering::Acquire) == MEASURED {
            self.work.turn();
        }
    }
}

impl<'a> Stage<'a> {
    /// Lets `side` work on `core`, or wherever there is room. It is dropped when its work is over.
    pub fn new(name: &'static str, core: Option<u32>, side: impl DeviceSide + 'a) -> Stage<'a> {
        Stage { name, core, work: Box::new(move |phase| serve(side, phase)) }
    }
}

/// What is tried, and where.
pub struct Trial<'a> {
    /// The device's name.
    pub device: &'a str,
    /// What is offered to it.
    pub load: &'a Load,
    /// Frames that its ring holds.
    pub depth: u32,
    /// The core of generator and sink; none: wherever there is room.
    pub core: Option<u32>,
}

impl Trial<'_> {
    /// Offers the load through `outlet` and `inlet` on the calling thread while the stages work on
    /// theirs, and a plan on its own.
    ///
    /// The observation comes back with the device's counters, stalls and idle share, but not yet
    /// balanced: see [`LoadObservation::balance`].
    pub fn run(
        &self,
        (outlet, inlet): (&mut impl Outlet, &mut impl Inlet),
        stages: Vec<Stage<'_>>,
        plan: Option<PlanThread<'_>>,
    ) -> Result<LoadObservation, DeviceError> {
        let (driven, seen) = self.with_threads(&Phase::default(), (stages, plan), |edges| {
            let _pinned = self.core.map(Pinned::to);
            catch_unwind(AssertUnwindSafe(|| {
                drive(self.load, self.depth, outlet, &mut *inlet, edges)
            }))
        })?;
        let driven = driven
            .map_err(|panic| self.broken(format!("the tester panicked: {}", text_of(&*panic))))?;
        let mut observation = driven.map_err(|e| DeviceError::BadLoad { reason: e.to_string() })?;
        seen.enter(&mut observation);
        count_late(&mut observation, inlet);
        judge_idle(&mut observation, self.load);
        Ok(observation)
    }

    /// Lets the stages and a plan serve a tester on another host, which has the load: its frames
    /// come whenever they come, and `link` says when the measured part begins. Markers are noted
    /// until then.
    ///
    /// # Errors
    /// [`DeviceError::Broken`]; those of `link`.
    pub fn serve(
        &self,
        stages: Vec<Stage<'_>>,
        plan: Option<PlanThread<'_>>,
        link: &mut dyn FarHost,
    ) -> Result<DeviceObservation, DeviceError> {
        let phase = Phase { now: AtomicU8::new(ALIGN), ..Phase::default() };
        let (followed, seen) = self.with_threads(&phase, (stages, plan), |edges| {
            edges.follow(self.load, self.depth, link)
        })?;
        followed.map(|()| seen.observation())
    }

    /// Lets the stages and a plan work on threads of their own while `work` runs on this one.
    fn with_threads<T>(
        &self,
        phase: &Phase,
        (stages, plan): (Vec<Stage<'_>>, Option<PlanThread<'_>>),
        work: impl FnOnce(&mut StageControl<'_>) -> T,
    ) -> Result<(T, StageTally), DeviceError> {
        let outcome = thread::scope(|scope| {
            let _end = EndOnDrop(phase);
            let mut edges = StageControl::start(scope, phase, stages)?;
            let planned = match plan {
                None => None,
                Some(plan) => {
                    let named = Builder::new().name("control".to_owned());
                    Some(named.spawn_scoped(scope, move || plan.serve(phase))?)
                }
            };
            edges.wait();
            let done = work(&mut edges);
            edges.stop();
            // Without this, its panic would be one of this thread.
            let served = planned.map_or(Ok(()), ScopedJoinHandle::join);
            Ok((done, edges.seen, served))
        });
        let (done, seen, served) = outcome.map_err(|error| self.no_thread(&error))?;
        served.map_err(|panic| self.broken(format!("the plan panicked: {}", text_of(&*panic))))?;
        Ok((done, seen.ok_or_else(|| self.stopped())?))
    }

    /// Lets `stage` work alone for as long as the load lasts: its frames come out of nothing.
    ///
    /// `offered` are the frames it found and `received` those it sent on in the measured part;
    /// nothing is known of latency or order, and there is no generator to be held to anything.
    pub fn run_alone(&self, stage: Stage<'_>) -> Result<LoadObservation, DeviceError> {
        let phase = Phase::default();
        let seen = thread::scope(|scope| {
            let _end = EndOnDrop(&phase);
            let mut edges = StageControl::start(scope, &phase, vec![stage])?;
            edges.wait();
            thread::sleep(Duration::from_nanos(self.load.warmup_ns));
            edges.opened(Clock::new().now_ns());
            thread::sleep(Duration::from_nanos(self.load.duration_ns));
            edges.closed();
            edges.stop();
            Ok(edges.seen)
        });
        let seen = seen.map_err(|error| self.no_thread(&error))?.ok_or_else(|| self.stopped())?;
        let (Some(from), Some(to)) = (seen.opened, seen.closed) else {
            return Err(self.broken("its thread got no time to run".into()));
        };
        let span = |count: fn(&QueueCounters) -> u64| count(&to.total) - count(&from.total);
        let offered = span(|total| total.rx_frames);
        let received = span(|total| total.tx_frames);
        let mut observation = LoadObservation {
            planned: offered,
            offered,
            received,
            offered_bytes: span(|total| total.rx_bytes),
            received_bytes: span(|total| total.tx_bytes),
            lost: offered - received,
            duration_ns: to.at_ns - from.at_ns,
            ..LoadObservation::default()
        };
        seen.enter(&mut observation);
        observation.honesty.achieved_ratio = 1.0;
        Ok(observation)
    }

    fn broken(&self, reason: String) -> DeviceError {
        DeviceError::Broken { device: self.device.to_owned(), reason }
    }

    fn no_thread(&self, error: &std::io::Error) -> DeviceError {
        self.broken(format!("no thread for it: {error}"))
    }

    fn stopped(&self) -> DeviceError {
        self.broken("a thread of the device panicked".to_owned())
    }
}

/// A device that had time to spare under a saturating load was not what set the rate.
pub(crate) fn judge_idle(observation: &mut LoadObservation, load: &Load) {
    let honesty = &mut observation.honesty;
    let idle_ratio = honesty.device_idle_ratio.unwrap_or(0.0);
    if load.rate == Rate::Saturate && idle_ratio > IDLE_RATIO_MAX {
        honesty.tester_limited = true;
        let share = idle_ratio * 100.0;
        honesty.reasons.push(format!("{share:.1} % of the time the device had nothing to do"));
    }
}

/// Counts the frames that the function sent back when the trial had ended: the sink has them, but
/// they stay lost.
pub(crate) fn count_late(observation: &mut LoadObservation, inlet: &mut impl Inlet) {
    let Some(queue) = observation.sink.queues.first_mut() else {
        return;
    };
    let before = queue.rx_frames;
    for _ in 0..LAST_TURNS_MAX {
        let found = inlet.poll();
        queue.rx_frames += found as u64;
        queue.rx_bytes +=
            (0..found).map(|i| inlet.frame(i).len() as u64 + u64::from(FCS_LEN)).sum::<u64>();
        inlet.release();
        if found == 0 {
            break;
        }
    }
    let late = queue.rx_frames - before;
    observation.late = late.min(observation.lost);
    if late > 0 {
        let reason = format!("{late} frames came back after the end of the trial: lost");
        observation.honesty.reasons.push(reason);
    }
}

/// The message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Where the generator's frames first meet an interface of the tester's own, those it refused are
/// the generator's limit, not the device's.
pub fn judge_refused(observation: &mut LoadObservation) {
    let refused = observation.generator.rx_missed;
    if refused > 0 {
        let honesty = &mut observation.honesty;
        honesty.tester_limited = true;
        let reason = format!("the tester's own interface refused {refused} frames");
        honesty.reasons.push(reason);
    }
}

/// How far a trial has come.
#[derive(Default)]
struct Phase {
    /// Stages that poll.
    ready: AtomicUsize,
    /// One of these, in their order; [`ALIGN`] before the first.
    now: AtomicU8,
    /// When the measured part began, by the process's clock; written before `now` says so.
    opened_ns: AtomicU64,
    /// Markers that came while `now` was [`ALIGN`].
    markers: Mutex<Vec<SeenMarker>>,
}

/// The default.
const WARM_UP: u8 = 0;
const MEASURED: u8 = 1;
const DRAIN: u8 = 2;
const END: u8 = 3;

/// No load yet: only markers come.
const ALIGN: u8 = u8::MAX;

/// Markers that are noted at most.
const MARKERS_MAX: usize = 4096;

/// The thread that follows a tester sleeps until so long before a moment, nanoseconds.
const SLEEP_SHORT_NS: u64 = 200_000;

/// Ends the stages' threads on every way out.
struct EndOnDrop<'a>(&'a Phase);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.now.store(END, Ordering::Release);
    }
}

/// The tester's hold on the stages' threads.
struct StageControl<'scope> {
    phase: &'scope Phase,
    stages: Vec<ScopedJoinHandle<'scope, StageTally>>,
    /// What all of them saw, when they have ended.
    seen: Option<StageTally>,
}

impl<'scope> StageControl<'scope> {
    fn start(
        scope: &'scope Scope<'scope, '_>,
        phase: &'scope Phase,
        stages: Vec<Stage<'scope>>,
    ) -> std::io::Result<StageControl<'scope>> {
        let spawn = |Stage { name, core, work }: Stage<'scope>| {
            Builder::new().name(name.to_owned()).spawn_scoped(scope, move || {
                let _pinned = core.map(Pinned::to);
                work(phase)
            })
        };
        let stages = stages.into_iter().map(spawn).collect::<Result<_, _>>()?;
        Ok(StageControl { phase, stages, seen: None })
    }

    /// Waits until all stages poll, or one has ended.
    fn wait(&self) {
        let ready = || self.phase.ready.load(Ordering::Acquire) == self.stages.len();
        while !ready() && !self.stages.iter().any(ScopedJoinHandle::is_finished) {
            thread::yield_now();
        }
    }

    /// Follows the signals of the host with the tester to the last one.
    fn follow(
        &mut self,
        load: &Load,
        depth: u32,
        link: &mut dyn FarHost,
    ) -> Result<(), DeviceError> {
        const LONG: Duration = Duration::from_secs(1);
        let clock = Clock::new();
        link.tell(ServeNotice::Serving { now_ns: clock.now_ns(), depth })?;
        let at_ns = loop {
            match link.wait(LONG)? {
                None => {}
                Some(ServeSignal::Markers) => {
                    let mut seen =
                        self.phase.markers.lock().unwrap_or_else(PoisonError::into_inner);
                    let seen = std::mem::take(&mut *seen);
                    link.tell(ServeNotice::Markers { seen, now_ns: clock.now_ns() })?;
                }
                Some(ServeSignal::Open { at_ns }) => break at_ns,
                Some(ServeSignal::Finish) => return Ok(()),
            }
        };
        self.phase.now.store(WARM_UP, Ordering::Release);
        link.tell(ServeNotice::Opening { now_ns: clock.now_ns() })?;
        if wait_until(at_ns, &clock, link)? {
            return Ok(());
        }
        self.opened(at_ns);
        let is_early = wait_until(at_ns.saturating_add(load.duration_ns), &clock, link)?;
        self.closed();
        while !is_early && link.wait(LONG)? != Some(ServeSignal::Finish) {}
        Ok(())
    }

    /// Ends the threads and takes what they saw.
    fn stop(&mut self) {
        self.phase.now.store(END, Ordering::Release);
        if self.stages.is_empty() {
            return;
        }
        let seen: Vec<_> = self.stages.drain(..).map(ScopedJoinHandle::join).collect();
        let seen: Result<Vec<StageTally>, _> = seen.into_iter().collect();
        self.seen = seen.ok().and_then(|seen| seen.into_iter().reduce(StageTally::merge));
    }
}

/// Waits for a moment; `true` where the tester has finished before.
fn wait_until(at_ns: u64, clock: &Clock, link: &mut dyn FarHost) -> Result<bool, DeviceError> {
    loop {
        let left_ns = at_ns.saturating_sub(clock.now_ns());
        if left_ns == 0 {
            return Ok(false);
        }
        match left_ns.checked_sub(SLEEP_SHORT_NS) {
            None => std::hint::spin_loop(),
            Some(sleep_ns) => {
                if link.wait(Duration::from_nanos(sleep_ns))? == Some(ServeSignal::Finish) {
                    return Ok(true);
                }
            }
        }
    }
}

impl MeasuredPart for StageControl<'_> {
    fn opened(&mut self, at_ns: u64) {
        self.phase.opened_ns.store(at_ns, Ordering::Relaxed);
        self.phase.now.store(MEASURED, Ordering::Release);
    }

    fn closed(&mut self) {
        self.phase.now.store(DRAIN, Ordering::Release);
    }

    fn stalls(&mut self) -> Vec<(u64, u64)> {
        self.stop();
        self.seen.as_ref().map(|seen| seen.stalls.kept().to_vec()).unwrap_or_default()
    }
}

/// What a stage saw, or all of them.
struct StageTally {
    counters: PortCounters,
    stalls: StallWatch,
    /// Time of the measured part in turns that found frames and in turns that found none, stalls
    /// apart.
    busy_ns: u64,
    idle_ns: u64,
    /// Counted when the measured part began and ended.
    opened: Option<PhaseCounts>,
    closed: Option<PhaseCounts>,
    /// Lost before the measured part.
    missed_before: u64,
    /// Lost from its beginning on.
    missed: u64,
    /// Frames before the load, such as markers, which are counted nowhere else.
    shown: u64,
}

/// What was counted at one moment.
#[derive(Clone, Copy)]
struct PhaseCounts {
    at_ns: u64,
    total: QueueCounters,
}

impl StageTally {
    /// Nothing yet; the memory it takes is taken here, not in the loop.
    fn new(queues: u16) -> StageTally {
        let queues = vec![QueueCounters::default(); usize::from(queues)];
        StageTally {
            counters: PortCounters { queues, ..PortCounters::default() },
            stalls: StallWatch::new(),
            busy_ns: 0,
            idle_ns: 0,
            opened: None,
            closed: None,
            missed_before: 0,
            missed: 0,
            shown: 0,
        }
    }

    /// Two stages of one device. It is as idle as the busier of them.
    fn merge(mut self, other: StageTally) -> StageTally {
        self.counters.add(&other.counters);
        self.stalls.merge(&other.stalls);
        if other.idle_ratio() < self.idle_ratio() {
            (self.busy_ns, self.idle_ns) = (other.busy_ns, other.idle_ns);
        }
        self.missed_before += other.missed_before;
        self.missed += other.missed;
        self.shown += other.shown;
        self
    }

    fn idle_ratio(&self) -> Option<f64> {
        let time_ns = self.busy_ns + self.idle_ns;
        (time_ns > 0).then(|| self.idle_ns as f64 / time_ns as f64)
    }

    fn mark(&self, at_ns: u64) -> Option<PhaseCounts> {
        Some(PhaseCounts { at_ns, total: self.counters.total() })
    }

    /// The device's part, for the host with the tester.
    fn observation(self) -> DeviceObservation {
        DeviceObservation {
            stalls: self.stalls.sum(),
            each_stall_ns: longest(self.stalls.kept()),
            idle_ratio: self.idle_ratio(),
            busy_ns: self.idle_ratio().map(|_| self.busy_ns),
            missed: self.missed,
            shown: self.shown,
            function: PortCounters { rx_missed: self.missed_before + self.missed, ..self.counters },
            ..DeviceObservation::default()
        }
    }

    /// Enters the device's part into an observation.
    fn enter(self, observation: &mut LoadObservation) {
        let honesty = &mut observation.honesty;
        honesty.device_stalls = Some(self.stalls.sum());
        honesty.device_idle_ratio = self.idle_ratio();
        honesty.device_busy_ns = self.idle_ratio().map(|_| self.busy_ns);
        let rx_missed = observation.generator.rx_missed + self.missed_before + self.missed;
        // Those of the warm-up's last frames may fall behind its end: never more than were lost.
        observation.rx_missed = (observation.rx_missed + self.missed).min(observation.lost);
        observation.device = Some(PortCounters { rx_missed, ..self.counters });
    }
}

/// As many stalls as another host is sent.
fn longest(stalls: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut stalls = stalls.to_vec();
    if stalls.len() > STALLS_MAX {
        stalls.sort_unstable_by_key(|(_, length_ns)| Reverse(*length_ns));
        stalls.truncate(STALLS_MAX);
    }
    stalls
}

/// A stage's thread: polls until the trial is over.
fn serve<S: DeviceSide>(mut side: S, phase: &Phase) -> StageTally {
    side.start();
    let clock = Clock::new();
    let frame_ns = side.frame_ns();
    let mut seen = StageTally::new(side.queues());
    phase.ready.fetch_add(1, Ordering::Release);
    loop {
        let now = phase.now.load(Ordering::Acquire);
        if now == ALIGN {
            seen.shown += note_markers(&mut side, phase, &clock) as u64;
            continue;
        }
        if now >= MEASURED && seen.opened.is_none() {
            seen.opened = seen.mark(clock.now_ns());
            seen.missed_before = side.missed();
            side.opened(phase.opened_ns.load(Ordering::Relaxed));
        }
        if now >= DRAIN && seen.closed.is_none() {
            seen.closed = seen.mark(clock.now_ns());
        }
        if now == END {
            break;
        }
        let frames = side.turn(&mut seen.counters);
        let work_ns = frames as u64 * frame_ns;
        let turn_ns = seen.stalls.turn(clock.now_ns(), work_ns);
        if now == MEASURED && turn_ns <= STALL_NS + work_ns {
            let is_idle = frames == 0;
            let time_ns = if is_idle { &mut seen.idle_ns } else { &mut seen.busy_ns };
            *time_ns += turn_ns;
        }
        if now == MEASURED && side.beside(frames) > 0 {
            seen.stalls.resume(clock.now_ns());
        }
    }
    side.last(&mut seen.counters);
    seen.missed = side.missed();
    seen
}

/// A turn before the load: markers are noted with their time.
fn note_markers<S: DeviceSide>(side: &mut S, phase: &Phase, clock: &Clock) -> usize {
    // Behind the poll that found it, and before it goes back.
    side.turn_shown(&mut |frame| {
        if let Some(Marker { number }) = Marker::of_frame(frame) {
            let mut seen = phase.markers.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.len() < MARKERS_MAX {
                seen.push(SeenMarker { number, seen_ns: clock.now_ns() });
            }
        }
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use niclab_load::Arrivals;
    use niclab_packet::flow::FlowSpec;
    use niclab_packet::size::FrameSizes;

    use super::*;

    /// A test that keeps two cores busy waits here until it is the only one.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        static CORES: Mutex<()> = Mutex::new(());
        CORES.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rings without a wire, which may fail.
    struct Rings(bool);

    impl Outlet for Rings {
        fn reserve(&mut self, _: usize) -> usize {
            assert!(!self.0, "the wire broke");
            0
        }

        fn slot(&mut self, _: usize) -> &mut [u8] {
            &mut []
        }

        fn commit(&mut self, _: &[u16]) -> usize {
            0
        }
    }

    impl Inlet for Rings {
        fn poll(&mut self) -> usize {
            0
        }

        fn frame(&self, _: usize) -> &[u8] {
            &[]
        }

        fn release(&mut self) {}
    }

    /// Finds nothing, or fails.
    struct Idle(bool);

    impl DeviceSide for Idle {
        fn turn(&mut self, _: &mut PortCounters) -> usize {
            assert!(!self.0, "the device broke");
            0
        }
    }

    fn outcome(
        wire_breaks: bool,
        device_breaks: [bool; 2],
        plan: Option<PlanThread<'_>>,
    ) -> Result<LoadObservation, DeviceError> {
        let load = Load {
            flows: FlowSpec::default(),
            sizes: FrameSizes::Fixed(64),
            rate: Rate::Saturate,
            arrivals: Arrivals::Constant,
            duration_ns: 1_000_000,
            warmup_ns: 0,
            seed: 1,
            trace: None,
        };
        let trial = Trial { device: "mock", load: &load, depth: 64, core: None };
        let stages = device_breaks.map(|breaks| Stage::new("stage", None, Idle(breaks)));
        trial.run((&mut Rings(wire_breaks), &mut Rings(false)), stages.into(), plan)
    }

    #[test]
    fn a_panic_of_either_side_ends_the_trial_with_an_error() {
        assert!(outcome(false, [false, false], None).is_ok());
        let reason = |outcome: Result<_, _>| match outcome {
            Err(DeviceError::Broken { reason, .. }) => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(reason(outcome(true, [false; 2], None)), "the tester panicked: the wire broke");
        let stopped = "a thread of the device panicked";
        assert_eq!(reason(outcome(false, [true, false], None)), stopped);
        assert_eq!(reason(outcome(false, [false, true], None)), stopped);
        let plan = PlanThread { core: None, work: &mut BrokenPlan };
        let planned = reason(outcome(false, [false; 2], Some(plan)));
        assert_eq!(planned, "the plan panicked: no rules");
    }

    /// A plan that panics as soon as it begins.
    struct BrokenPlan;

    impl PlanWork for BrokenPlan {
        fn opened(&mut self, _at_ns: u64) {
            panic!("no rules")
        }

        fn turn(&mut self) -> u64 {
            0
        }

        fn is_behind(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_device_is_as_idle_as_its_busier_stage() {
        let stage = |busy_ns, idle_ns| StageTally { busy_ns, idle_ns, ..StageTally::new(2) };
        assert_eq!(stage(10, 90).merge(stage(75, 25)).idle_ratio(), Some(0.25));
        assert_eq!(stage(75, 25).merge(stage(10, 90)).idle_ratio(), Some(0.25));
    }
}
