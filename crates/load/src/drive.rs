//! One trial: offers the load, receives the frames that come back, and accounts for every frame.

use niclab_packet::flow::{FlowError, FlowSet, IpVersion};
use niclab_packet::size::FCS_LEN;

use crate::clock::Clock;
use crate::generator::{Generator, Tally};
use crate::observation::{Honesty, LoadObservation, PortCounters, Slice};
use crate::rings::{BURST, Inlet, MeasuredPart, Outlet};
use crate::sink::{CountedInterval, Sink};
use crate::spec::{Load, Rate};
use crate::stall::StallWatch;
use crate::tape::{FlowSequence, FlowTape, SmallestTape, Tape, TraceTape};

/// Length of a slice of the time series, nanoseconds.
pub const SLICE_NS: u64 = 1_000_000;

/// Silence after which frames still missing at the end of a trial are lost, nanoseconds. A core of
/// a shared machine is away for 20 ms now and then.
const DRAIN_NS: u64 = 50_000_000;

/// Polls of the sink in one turn.
const POLLS_MAX: usize = 16;

/// Highest rate a schedule can express, frames a second.
const RATE_PPS_MAX: f64 = 1e9;

/// Why a load cannot be generated.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The flow set cannot be made.
    #[error("flows: {0}")]
    Flows(#[from] FlowError),
    /// A frame has no room for headers and stamp.
    #[error("sizes: {size} B has no room for headers and a stamp; use at least {size_min} B")]
    FrameTooSmall {
        /// Asked for, with FCS.
        size: u16,
        /// Smallest possible with these headers, with FCS.
        size_min: u16,
    },
    /// A frame of this size cannot be built.
    #[error("sizes: {size} B: {reason}")]
    Size {
        /// Asked for, with FCS.
        size: u16,
        /// The builder's error.
        reason: String,
    },
    /// A frame is longer than the device was set up for.
    #[error("sizes: frames of {size} B, but set up for at most {size_max} B")]
    FrameTooLong {
        /// Longest asked for, with FCS.
        size: u16,
        /// Longest possible, with FCS.
        size_max: u16,
    },
    /// The rate is not a number of frames that can be sent.
    #[error("rate: {pps} frames a second; use more than 0 and at most 1e9")]
    Rate {
        /// Asked for.
        pps: f64,
    },
    /// Nothing would be measured.
    #[error("duration_ns: 0; a trial needs a measured part")]
    NoDuration,
    /// The capture cannot be used.
    #[error("trace {path}: {reason}")]
    Trace {
        /// Its path.
        path: String,
        /// The defect.
        reason: String,
    },
}

/// Offers `load` to `outlet` and takes what comes back from `inlet`, both on the calling thread.
///
/// `depth` is the number of frames the device's ring holds: how late a frame may leave and still
/// have been offered in its slot. The device's own counters, its stalls and the balance are for the
/// caller to add.
pub fn drive(
    load: &Load,
    depth: u32,
    outlet: &mut impl Outlet,
    inlet: &mut impl Inlet,
    window: &mut impl MeasuredPart,
) -> Result<LoadObservation, LoadError> {
    let size_max = outlet.frame_len_max().saturating_add(FCS_LEN);
    check(load, size_max)?;
    if let Some(path) = &load.trace {
        let tape = TraceTape::open(path, size_max)?;
        return Ok(RunningTrial::new(load, depth, tape).run(outlet, inlet, window));
    }
    let set = FlowSet::new(&load.flows)?;
    let picks = FlowSequence::Drawn(set.picker(load.seed));
    Ok(match load.flows.version {
        IpVersion::V4 if SmallestTape::fits(load) => {
            RunningTrial::new(load, depth, SmallestTape::new(&set, picks)?)
                .run(outlet, inlet, window)
        }
        IpVersion::V4 => {
            let tape = FlowTape::<12>::new(load, &set, picks)?;
            RunningTrial::new(load, depth, tape).run(outlet, inlet, window)
        }
        IpVersion::V6 => {
            let tape = FlowTape::<36>::new(load, &set, picks)?;
            RunningTrial::new(load, depth, tape).run(outlet, inlet, window)
        }
    })
}

/// Refuses a load that cannot be offered to a device whose longest frame has `size_max` bytes with
/// FCS. A capture is checked when it is read.
pub(crate) fn check(load: &Load, size_max: u16) -> Result<(), LoadError> {
    let rates = match load.rate {
        Rate::Saturate => [None, None],
        Rate::Pps(pps) => [Some(pps), None],
        Rate::Step { low_pps, high_pps, .. } => [Some(low_pps), Some(high_pps)],
    };
    let is_possible = |pps: &f64| *pps > 0.0 && *pps <= RATE_PPS_MAX;
    if let Some(pps) = rates.into_iter().flatten().find(|pps| !is_possible(pps)) {
        return Err(LoadError::Rate { pps });
    }
    if load.duration_ns == 0 {
        return Err(LoadError::NoDuration);
    }
    let size = load.sizes.max();
    if load.trace.is_none() && size > size_max {
        return Err(LoadError::FrameTooLong { size, size_max });
    }
    Ok(())
}

/// A trial under way. Times are nanoseconds from its start.
struct RunningTrial<T> {
    counted: CountedInterval,
    generator: Generator<T>,
    sink: Sink,
    depth: u32,
    total: Tally,
    slices: Vec<Slice>,
    stalls: StallWatch,
    /// Estimated time of the frames of the last turn.
    work_ns: u64,
    resolution_ns: u64,
}

impl<T: Tape> RunningTrial<T> {
    fn new(load: &Load, depth: u32, tape: T) -> RunningTrial<T> {
        let counted =
            CountedInterval { from_ns: load.warmup_ns, to_ns: load.warmup_ns + load.duration_ns };
        let slice = |i| Slice { start_ns: i * SLICE_NS, ..Slice::default() };
        RunningTrial {
            counted,
            sink: Sink::new(tape.flows(), tape.has_checksums(), counted),
            generator: Generator::new(load, tape, counted, depth),
            depth,
            total: Tally::default(),
            slices: (0..load.duration_ns.div_ceil(SLICE_NS)).map(slice).collect(),
            stalls: StallWatch::new(),
            work_ns: 0,
            resolution_ns: 0,
        }
    }

    fn run(
        mut self,
        outlet: &mut impl Outlet,
        inlet: &mut impl Inlet,
        window: &mut impl MeasuredPart,
    ) -> LoadObservation {
        let clock = Clock::new();
        let start_ns = window.start(&clock);
        // A counter that steps back behind the start must not end the trial.
        let now = || clock.now_ns().saturating_sub(start_ns);
        self.turns_until(self.counted.from_ns, (outlet, inlet, window), &now);
        window.opened(start_ns + self.counted.from_ns);
        self.turns_until(self.counted.to_ns, (outlet, inlet, window), &now);
        window.closed();
        self.drain(outlet, inlet, &now);
        let device_stalls = window.stalls();
        while self.take(inlet, &now) > 0 {}
        self.sink.flush();
        let relative = device_stalls.iter().map(|&(s, len)| (s.saturating_sub(start_ns), len));
        self.observation(relative.collect())
    }

    /// Turn after turn; the clock is read once in each.
    fn turns_until(
        &mut self,
        end_ns: u64,
        (outlet, inlet, window): (&mut impl Outlet, &mut impl Inlet, &mut impl MeasuredPart),
        now: &impl Fn() -> u64,
    ) {
        let mut now_ns = now();
        while now_ns < end_ns {
            self.turn(now_ns, outlet, inlet, now);
            self.work_ns += window.turn();
            now_ns = now();
        }
    }

    /// Frames that are due leave, frames that are there are taken.
    #[inline]
    fn turn<O: Outlet>(
        &mut self,
        now_ns: u64,
        outlet: &mut O,
        inlet: &mut impl Inlet,
        now: &impl Fn() -> u64,
    ) {
        let gap_ns = self.stalls.turn(now_ns, self.work_ns);
        if self.counted.holds(now_ns) {
            self.resolution_ns = self.resolution_ns.max(gap_ns);
        }
        let frames_before = self.generator.counters.tx_frames;
        let tally = self.generator.turn(outlet, now_ns);
        let frames = self.generator.counters.tx_frames - frames_before;
        self.work_ns = frames * outlet.frame_ns() + outlet.beside_ns();
        self.total.offered += tally.offered;
        self.total.missed += tally.missed;
        self.total.unsent += tally.unsent;
        self.total.offered_bytes += tally.offered_bytes;
        if let Some(slice) = slice_at(&mut self.slices, self.counted, now_ns) {
            slice.offered += tally.offered;
            slice.rx_missed += tally.missed;
            slice.unsent += tally.unsent;
        }
        // As many polls as it takes to keep up with a generator that catches up.
        for _ in 0..POLLS_MAX {
            if self.take(inlet, now) < BURST {
                break;
            }
        }
    }

    /// Takes what one poll finds; how many frames that is.
    #[inline]
    fn take(&mut self, inlet: &mut impl Inlet, now: &impl Fn() -> u64) -> usize {
        let found = inlet.poll();
        if found > 0 {
            let now_ns = now();
            let counted = self.sink.take(inlet, found, now_ns);
            if let Some(slice) = slice_at(&mut self.slices, self.counted, now_ns) {
                slice.received += counted;
            }
        }
        inlet.release();
        found
    }

    /// Waits for the frames still under way: until all are back or none has come for a while. What
    /// was due until the end and has not left yet leaves first.
    fn drain(&mut self, outlet: &mut impl Outlet, inlet: &mut impl Inlet, now: &impl Fn() -> u64) {
        self.turn(now(), outlet, inlet, now);
        let mut quiet_since_ns = now();
        let sent = self.generator.counters.tx_frames - self.generator.missed_all;
        while self.sink.counters.rx_frames < sent && now() - quiet_since_ns < DRAIN_NS {
            let before = self.sink.counters.rx_frames;
            self.take(inlet, now);
            if self.sink.counters.rx_frames > before {
                quiet_since_ns = now();
            }
        }
    }

    fn observation(mut self, device_stalls: Vec<(u64, u64)>) -> LoadObservation {
        let duration_ns = self.counted.to_ns - self.counted.from_ns;
        let covered_ns = covered_ns(self.depth, self.generator.covered_ns(), &self.slices);
        for stalls in [self.stalls.kept(), &device_stalls] {
            mark_disturbed(&mut self.slices, self.counted, stalls, covered_ns);
        }
        let (total, sink) = (self.total, self.sink);
        let latest_ns = sink.latest();
        let mut honesty = honesty(&self.generator, total, &self.stalls, self.resolution_ns);
        honesty.covered_ns = covered_ns;
        LoadObservation {
            planned: total.offered + total.unsent,
            offered: total.offered,
            unsent: total.unsent,
            received: sink.received,
            offered_bytes: total.offered_bytes,
            received_bytes: sink.received_bytes,
            dropped: 0,
            late: 0,
            lost: total.offered.saturating_sub(sink.received),
            rx_missed: total.missed,
            reordered: sink.reordered,
            duplicated: sink.duplicated,
            checked: sink.checked,
            damaged: sink.damaged,
            foreign: sink.foreign,
            duration_ns,
            latency: Some(sink.latency),
            service: Some(sink.service),
            generator: PortCounters {
                queues: vec![self.generator.counters],
                rx_missed: self.generator.missed_all,
                ..PortCounters::default()
            },
            device: None,
            sink: PortCounters { queues: vec![sink.counters], ..PortCounters::default() },
            slices: self.slices,
            latest_ns,
            control: None,
            crossed: None,
            card_frames: None,
            rss_changes: None,
            honesty,
            stamped: None,
        }
    }
}

/// How long a stall does no harm: as long as it takes to fill the ring (`filled_ns`) or, at the
/// pace of the best slice, to empty it, and half a slice at most. (The pace of the whole trial is
/// no measure: the longer the machine was away, the lower it is, and the more a ring seems to
/// cover.)
pub(crate) fn covered_ns(depth: u32, filled_ns: u64, slices: &[Slice]) -> u64 {
    // A device whose rules drop frames takes more than come back.
    let taken = |slice: &Slice| slice.received.max(slice.offered.saturating_sub(slice.rx_missed));
    let best = slices.iter().map(taken).max().unwrap_or(0);
    let emptied_ns = u64::from(depth) * SLICE_NS / best.max(1);
    filled_ns.min(emptied_ns).min(SLICE_NS / 2)
}

/// The slice that holds a time of the trial.
#[inline]
pub(crate) fn slice_at(
    slices: &mut [Slice],
    counted: CountedInterval,
    now_ns: u64,
) -> Option<&mut Slice> {
    let since_ns = now_ns.checked_sub(counted.from_ns)?;
    slices.get_mut((since_ns / SLICE_NS) as usize)
}

/// Marks the slices of a trial into which a stall of a core fell that does harm
/// ([`Honesty::covered_ns`]). Its measured part began at `opened_ns`; that and the start of each
/// stall are of one clock.
pub fn mark_stalls(observation: &mut LoadObservation, opened_ns: u64, stalls: &[(u64, u64)]) {
    let to_ns = opened_ns.saturating_add(observation.duration_ns);
    let counted = CountedInterval { from_ns: opened_ns, to_ns };
    let covered_ns = observation.honesty.covered_ns;
    mark_disturbed(&mut observation.slices, counted, stalls, covered_ns);
}

/// Marks the slices into which a stall longer than `covered_ns` fell. Times are relative to the
/// start of the trial.
pub(crate) fn mark_disturbed(
    slices: &mut [Slice],
    counted: CountedInterval,
    stalls: &[(u64, u64)],
    covered_ns: u64,
) {
    for &(start_ns, length_ns) in stalls.iter().filter(|&&(_, length)| length > covered_ns) {
        let end_ns = start_ns.saturating_add(length_ns);
        let Some(end) = end_ns.checked_sub(counted.from_ns) else { continue };
        let first = start_ns.saturating_sub(counted.from_ns) / SLICE_NS;
        for slice in slices.iter_mut().skip(first as usize).take_while(|s| s.start_ns <= end) {
            slice.disturbed = true;
        }
    }
}

fn honesty<T>(
    generator: &Generator<T>,
    total: Tally,
    stalls: &StallWatch,
    latency_resolution_ns: u64,
) -> Honesty {
    let planned = total.offered + total.unsent;
    let reason = || format!("{} of {planned} frames were not offered in time", total.unsent);
    Honesty {
        achieved_ratio: if planned == 0 { 1.0 } else { total.offered as f64 / planned as f64 },
        departure_error: Some(generator.departure_error.clone()),
        deadlines_missed: generator.deadlines_missed,
        latency_resolution_ns,
        generator_stalls: stalls.sum(),
        device_stalls: None,
        device_idle_ratio: None,
        device_busy_ns: None,
        balanced: false,
        tester_limited: false,
        covered_ns: 0,
        alignment: None,
        reasons: (total.unsent > 0).then(reason).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use niclab_packet::flow::FlowSpec;
    use niclab_packet::size::FrameSizes;

    use super::*;
    use crate::spec::Arrivals;

    /// A device whose ring has room for `room` frames at a time, and which keeps every
    /// `keeps_each`-th frame for itself.
    struct Loop {
        room: usize,
        keeps_each: usize,
        count: usize,
        back: Vec<[u8; 64]>,
    }

    /// One queue of a loop, with the frames in hand.
    #[derive(Clone)]
    struct End {
        ring: Rc<RefCell<Loop>>,
        frames: Vec<[u8; 64]>,
    }

    impl Outlet for End {
        fn reserve(&mut self, want: usize) -> usize {
            let room = self.ring.borrow().room.min(want).min(BURST);
            self.frames.resize(room, [0; 64]);
            room
        }

        fn slot(&mut self, i: usize) -> &mut [u8] {
            &mut self.frames[i]
        }

        fn commit(&mut self, lens: &[u16]) -> usize {
            let mut ring = self.ring.borrow_mut();
            for frame in &self.frames[..lens.len()] {
                ring.count += 1;
                if !ring.count.is_multiple_of(ring.keeps_each) {
                    ring.back.push(*frame);
                }
            }
            lens.len()
        }
    }

    impl Inlet for End {
        fn poll(&mut self) -> usize {
            let mut ring = self.ring.borrow_mut();
            let count = ring.back.len().min(BURST);
            self.frames = ring.back.drain(..count).collect();
            count
        }

        fn frame(&self, i: usize) -> &[u8] {
            &self.frames[i][..60]
        }

        fn release(&mut self) {}
    }

    /// Keeps the generator's core for a millisecond, once, in the measured part.
    #[derive(Default)]
    struct Away {
        opened_ns: Option<u64>,
        was: bool,
    }

    impl MeasuredPart for Away {
        fn opened(&mut self, at_ns: u64) {
            self.opened_ns = Some(at_ns);
        }

        fn turn(&mut self) -> u64 {
            let clock = Clock::new();
            let since = |now_ns: u64| self.opened_ns.map_or(0, |at| now_ns.saturating_sub(at));
            if !self.was && since(clock.now_ns()) > 1_000_000 {
                self.was = true;
                let end_ns = clock.now_ns() + 1_000_000;
                while clock.now_ns() < end_ns {}
            }
            0
        }
    }

    /// 5 ms of 100 k frames a second.
    fn trial(room: usize, keeps_each: usize, rate: Rate) -> LoadObservation {
        trial_beside(room, keeps_each, rate, (1 << 20, &mut ()))
    }

    fn load(rate: Rate) -> Load {
        Load {
            flows: FlowSpec { count: 10, ..FlowSpec::default() },
            sizes: FrameSizes::Fixed(64),
            rate,
            arrivals: Arrivals::Constant,
            duration_ns: 5_000_000,
            warmup_ns: 1_000_000,
            seed: 1,
            trace: None,
        }
    }

    fn trial_beside(
        room: usize,
        keeps_each: usize,
        rate: Rate,
        (depth, window): (u32, &mut impl MeasuredPart),
    ) -> LoadObservation {
        let ring = Rc::new(RefCell::new(Loop { room, keeps_each, count: 0, back: Vec::new() }));
        let mut outlet = End { ring, frames: Vec::new() };
        let mut inlet = outlet.clone();
        let observed = drive(&load(rate), depth, &mut outlet, &mut inlet, window).unwrap();
        assert_eq!(observed.planned, observed.offered + observed.unsent);
        assert_eq!(observed.offered, observed.received + observed.lost);
        observed
    }

    #[test]
    fn every_frame_that_was_due_is_accounted_for() {
        let observed = trial(64, usize::MAX, Rate::Pps(100_000.0));
        assert_eq!((observed.planned, observed.unsent, observed.lost), (500, 0, 0));
        let slices: u64 = observed.slices.iter().map(|slice| slice.offered).sum();
        assert!(slices <= 500 && observed.slices.len() == 5);
    }

    #[test]
    fn a_step_has_its_own_rate_and_what_is_before_and_behind_it_the_other() {
        let step = |high_pps| Rate::Step {
            low_pps: 100_000.0,
            high_pps,
            from_ns: 2_000_000,
            until_ns: 3_000_000,
        };
        // Four milliseconds of the one, and one of the other, behind a warm-up of one.
        assert_eq!(trial(1 << 10, usize::MAX, step(400_000.0)).planned, 400 + 400);
        assert_eq!(trial(1 << 10, usize::MAX, step(25_000.0)).planned, 400 + 25);
        let ring = Loop { room: 1, keeps_each: 1, count: 0, back: Vec::new() };
        let mut end = End { ring: Rc::new(RefCell::new(ring)), frames: Vec::new() };
        let refused = drive(&load(step(0.0)), 64, &mut end.clone(), &mut end, &mut ());
        assert!(matches!(refused, Err(LoadError::Rate { pps: 0.0 })), "{refused:?}");
    }

    #[test]
    fn frames_that_the_generator_was_late_for_are_unsent_and_neither_offered_nor_lost() {
        // The ring covers 8 frames, 80 us, of the millisecond.
        let observed =
            trial_beside(64, usize::MAX, Rate::Pps(100_000.0), (8, &mut Away::default()));
        assert!((85..=500).contains(&observed.unsent), "{} unsent", observed.unsent);
        assert_eq!((observed.planned, observed.lost, observed.rx_missed), (500, 0, 0));
        assert_eq!(observed.offered_bytes, observed.offered * 64);
        let message = format!("{} of 500 frames were not offered in time", observed.unsent);
        assert_eq!(observed.honesty.reasons, [message]);
        assert_eq!(observed.honesty.achieved_ratio, observed.offered as f64 / 500.0);
    }

    #[test]
    fn frames_that_find_the_ring_full_are_the_devices_loss() {
        let observed = trial(0, 1, Rate::Pps(100_000.0));
        assert_eq!((observed.planned, observed.unsent), (500, 0));
        assert_eq!((observed.rx_missed, observed.lost, observed.received), (500, 500, 0));
        assert_eq!(observed.offered_bytes, 500 * 64);
    }

    #[test]
    fn frames_that_vanish_behind_the_ring_are_lost_but_not_missed() {
        let observed = trial(64, 10, Rate::Pps(100_000.0));
        assert_eq!((observed.planned, observed.rx_missed), (500, 0));
        assert!(
            (45..=55).contains(&observed.lost),
            "{} of 500 lost, a tenth expected",
            observed.lost
        );
    }

    #[test]
    fn saturation_plans_what_it_sends() {
        let observed = trial(64, usize::MAX, Rate::Saturate);
        assert_eq!((observed.unsent, observed.lost), (0, 0));
        let nothing = trial(0, 1, Rate::Saturate);
        assert_eq!((nothing.planned, nothing.lost), (0, 0));
    }

    #[test]
    fn a_ring_covers_no_more_where_the_machine_was_away_for_longer() {
        let slices = |received: &[u64]| -> Vec<Slice> {
            received.iter().map(|&received| Slice { received, ..Slice::default() }).collect()
        };
        let calm = covered_ns(1_024, u64::MAX, &slices(&[30_000; 50]));
        assert_eq!(calm, 34_133);
        let mut away = [0; 50];
        away[7] = 30_000;
        assert_eq!(covered_ns(1_024, u64::MAX, &slices(&away)), calm);
        assert_eq!(covered_ns(1_024, 20_000, &slices(&away)), 20_000, "filled before");
        assert_eq!(covered_ns(1_024, u64::MAX, &slices(&[20; 50])), SLICE_NS / 2);
        assert_eq!(covered_ns(1_024, u64::MAX, &[]), SLICE_NS / 2);
        // Rules drop most of what the device takes.
        let dropping =
            Slice { offered: 40_000, rx_missed: 10_000, received: 9, ..Slice::default() };
        assert_eq!(covered_ns(1_024, u64::MAX, &[dropping]), calm);
    }
}
