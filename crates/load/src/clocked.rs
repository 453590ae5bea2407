//! The clocked wire: frames that come by the clock, with no thread that sends them.
//!
//! Frame k is due at a time that its schedule names. The core behind the receive queue reads the
//! clock when it polls, and finds the frames that have become due since its last poll. The ring
//! has room for the first of them, and the rest are missed, as at a card whose ring is full:
//! between two polls no descriptor becomes free. Where the load saturates, the ring is kept full.
//! A frame is complete when the core sends it.
//!
//! So any rate is offered exactly, and no generator can be the limit. A core that is kept from its
//! work finds the frames of that time waiting or missed. Latency counts from the due time. The core
//! that is measured pays for it: it writes each frame and reads its stamp.
//!
//! ```
//! use niclab_load::clocked::{ClockedWire, observe};
//! use niclab_load::rings::{Inlet, Outlet};
//! use niclab_load::{Arrivals, Load, Rate};
//!
//! /// A ring of four frames of 64 bytes.
//! #[derive(Default)]
//! struct Ring { frames: Vec<[u8; 64]>, reserved: usize }
//!
//! impl Outlet for Ring {
//!     fn reserve(&mut self, want: usize) -> usize {
//!         self.reserved = want.min(4 - self.frames.len());
//!         self.frames.resize(self.frames.len() + self.reserved, [0; 64]);
//!         self.reserved
//!     }
//!     fn slot(&mut self, i: usize) -> &mut [u8] {
//!         let first = self.frames.len() - self.reserved;
//!         &mut self.frames[first + i]
//!     }
//!     fn commit(&mut self, lens: &[u16]) -> usize {
//!         self.frames.truncate(self.frames.len() - self.reserved + lens.len());
//!         lens.len()
//!     }
//! }
//!
//! impl Inlet for Ring {
//!     fn poll(&mut self) -> usize { self.frames.len() }
//!     fn frame(&self, i: usize) -> &[u8] { &self.frames[i][..60] }
//!     fn release(&mut self) { self.frames.clear(); }
//! }
//!
//! let load = Load {
//!     flows: Default::default(),
//!     sizes: niclab_packet::size::FrameSizes::Fixed(64),
//!     rate: Rate::Pps(1e6),
//!     arrivals: Arrivals::Constant,
//!     duration_ns: 10_000,
//!     warmup_ns: 0,
//!     seed: 1,
//!     trace: None,
//! };
//! let mut wire = ClockedWire::one(&load, 4, 1_518)?;
//! let mut ring = Ring::default();
//! for now_ns in [2_500, 10_500] {
//!     wire.turn(&mut ring, now_ns);
//!     let found = ring.poll();
//!     wire.complete(&ring, found, now_ns);
//!     ring.release();
//! }
//! let seen = observe(vec![wire]);
//! // Due at 0, 1 and 2 us: all of them waited. Of the seven due until 10 us the ring had four.
//! assert_eq!((seen.offered, seen.received, seen.rx_missed), (10, 7, 3));
//! # Ok::<(), niclab_load::LoadError>(())
//! ```

use niclab_packet::flow::{FiveTuple, FlowSet, IpVersion};

use crate::drive::{LoadError, SLICE_NS, check, covered_ns, mark_disturbed, slice_at};
use crate::generator::{Generator, Tally};
use crate::observation::{Honesty, LoadObservation, PortCounters, QueueCounters, Slice};
use crate::rings::{BURST, Inlet, Outlet};
use crate::sink::{CountedInterval, Sink};
use crate::spec::{Load, Rate};
use crate::stall::{STALL_NS, StallWatch};
use crate::tape::{FlowSequence, FlowTape, SmallestTape, Tape, TraceTape};

/// Flows that are drawn for several queues together, at least: each gets those of its own, in their
/// order and over again.
const DRAWN_MIN: usize = 1 << 18;

/// The time per frame between two polls that is no stall yet, nanoseconds. A chain of 16 rule
/// groups took 260 on a Zen 3.
const FRAME_NS: u64 = 500;

/// The wire at one receive queue, and the sink of the frames that leave by the same core.
///
/// All times are nanoseconds since the trial began, which all queues of a trial count from the same
/// moment on.
pub struct ClockedWire(AnyWire);

enum AnyWire {
    Smallest(Box<Wire<SmallestTape>>),
    V4(Box<Wire<FlowTape<12>>>),
    V6(Box<Wire<FlowTape<36>>>),
    Trace(Box<Wire<TraceTape>>),
}

/// The same for each of the ends.
macro_rules! with {
    ($ends:expr, $wire:ident => $what:expr) => {
        match $ends {
            AnyWire::Smallest($wire) => $what,
            AnyWire::V4($wire) => $what,
            AnyWire::V6($wire) => $what,
            AnyWire::Trace($wire) => $what,
        }
    };
}

impl ClockedWire {
    /// The wire of a load at a single queue with a ring of `depth` frames, for frames of at most
    /// `size_max` bytes with FCS.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn one(load: &Load, depth: u32, size_max: u16) -> Result<ClockedWire, LoadError> {
        check(load, size_max)?;
        if let Some(path) = &load.trace {
            let tape = TraceTape::open(path, size_max)?;
            return Ok(ClockedWire(AnyWire::Trace(Box::new(Wire::new(load, depth, 1.0, tape)))));
        }
        let set = FlowSet::new(&load.flows)?;
        let picks = FlowSequence::Drawn(set.picker(load.seed));
        ClockedWire::of(load, depth, 1.0, (&set, picks))
    }

    /// The wires of a load at `queues` queues, each with a ring of `depth` frames; `queue_of` says
    /// which of them gets the frames of a flow. A queue has the share of the rate that its flows
    /// have.
    ///
    /// # Errors
    /// [`LoadError`]; a trace can be offered to a single queue alone.
    ///
    /// # Panics
    /// Where `queue_of` names a queue that there is not.
    pub fn several(
        load: &Load,
        depth: u32,
        size_max: u16,
        queues: usize,
        queue_of: impl Fn(&FiveTuple) -> usize,
    ) -> Result<Vec<ClockedWire>, LoadError> {
        if queues == 1 {
            return Ok(vec![ClockedWire::one(load, depth, size_max)?]);
        }
        check(load, size_max)?;
        if let Some(path) = &load.trace {
            let (path, reason) =
                (path.display().to_string(), "a trace goes to a single receive queue".to_owned());
            return Err(LoadError::Trace { path, reason });
        }
        let set = FlowSet::new(&load.flows)?;
        let of_flow: Vec<usize> = set.tuples().map(|tuple| queue_of(&tuple)).collect();
        let mut flows = vec![0; DRAWN_MIN.max(2 * of_flow.len())];
        set.picker(load.seed).fill(&mut flows);
        let mut lists = vec![Vec::new(); queues];
        flows.iter().for_each(|&flow| lists[of_flow[flow as usize]].push(flow));
        let wire = |(queue, list): (u64, Vec<u32>)| {
            let share = list.len() as f64 / flows.len() as f64;
            let picks = if list.is_empty() { vec![0] } else { list };
            // Each queue's gaps are drawn for itself.
            let load = Load { seed: load.seed.wrapping_add(queue), ..load.clone() };
            ClockedWire::of(&load, depth, share, (&set, FlowSequence::listed(picks)))
        };
        (0..).zip(lists).map(wire).collect()
    }

    fn of(
        load: &Load,
        depth: u32,
        share: f64,
        (set, picks): (&FlowSet, FlowSequence),
    ) -> Result<ClockedWire, LoadError> {
        Ok(ClockedWire(match load.flows.version {
            IpVersion::V4 if SmallestTape::fits(load) => {
                let tape = SmallestTape::new(set, picks)?;
                AnyWire::Smallest(Box::new(Wire::new(load, depth, share, tape)))
            }
            IpVersion::V4 => {
                let tape = FlowTape::new(load, set, picks)?;
                AnyWire::V4(Box::new(Wire::new(load, depth, share, tape)))
            }
            IpVersion::V6 => {
                let tape = FlowTape::new(load, set, picks)?;
                AnyWire::V6(Box::new(Wire::new(load, depth, share, tape)))
            }
        }))
    }

    /// A poll at `now_ns`: what has become due since the last one is written into `ring`, whose
    /// room is that of its free descriptors, or missed.
    #[inline]
    pub fn turn(&mut self, ring: &mut impl Outlet, now_ns: u64) {
        with!(&mut self.0, wire => wire.turn(ring, now_ns));
    }

    /// So many frames go from the ring to the core: it has work until the next poll.
    #[inline]
    pub fn count_taken(&mut self, frames: usize) {
        with!(&mut self.0, wire => wire.works(frames));
    }

    /// The core worked so long at something else than frames since the last poll, nanoseconds: that
    /// is no stall.
    #[inline]
    pub fn add_pause(&mut self, for_ns: u64) {
        with!(&mut self.0, wire => wire.other_ns += for_ns);
    }

    /// The first `count` frames of `sent` are complete at `now_ns`, at most [`BURST`] of them.
    #[inline]
    pub fn complete(&mut self, sent: &impl Inlet, count: usize, now_ns: u64) {
        with!(&mut self.0, wire => wire.complete(sent, count, now_ns));
    }

    /// When the last frame is due: nothing is offered from then on.
    pub fn end_ns(&self) -> u64 {
        with!(&self.0, wire => wire.counted.to_ns)
    }

    /// Has wires of a trial judge the order of frames together: for a device that lets the frames
    /// of a flow leave by another queue than that which they came by.
    pub fn share_order(wires: &mut [ClockedWire]) {
        let Some((first, others)) = wires.split_first_mut() else { return };
        for other in others {
            let sink = with!(&mut first.0, wire => &mut wire.sink);
            with!(&mut other.0, wire => wire.sink.share_order(sink));
        }
    }

    fn into_part(self) -> WireCounts {
        with!(self.0, wire => wire.into_part())
    }
}

/// The observation of all wires of a trial. The caller adds the device's own counters and the
/// balance.
pub fn observe(wires: Vec<ClockedWire>) -> LoadObservation {
    let parts = wires.into_iter().map(ClockedWire::into_part);
    parts.reduce(WireCounts::merge).map(WireCounts::observation).unwrap_or_default()
}

struct Wire<T> {
    counted: CountedInterval,
    /// `None` where no flow has this queue.
    generator: Option<Generator<T>>,
    saturates: bool,
    sink: Sink,
    depth: u32,
    /// In which time the ring fills, nanoseconds.
    filled_ns: u64,
    total: Tally,
    slices: Vec<Slice>,
    stalls: StallWatch,
    /// Work of the core since the last poll, nanoseconds.
    work_ns: u64,
    /// Other work, nanoseconds.
    other_ns: u64,
    has_worked: bool,
    busy_ns: u64,
    idle_ns: u64,
}

impl<T: Tape> Wire<T> {
    /// A wire with a share of a load.
    fn new(load: &Load, depth: u32, share: f64, tape: T) -> Wire<T> {
        let counted =
            CountedInterval { from_ns: load.warmup_ns, to_ns: load.warmup_ns + load.duration_ns };
        let slice = |i| Slice { start_ns: i * SLICE_NS, ..Slice::default() };
        let rate = load.rate.scaled(share);
        let highest_pps = match rate {
            Rate::Saturate => f64::INFINITY,
            Rate::Pps(pps) => pps,
            Rate::Step { low_pps, high_pps, .. } => low_pps.max(high_pps),
        };
        let sink = Sink::new(tape.flows(), tape.has_checksums(), counted);
        let of = Load { rate, ..load.clone() };
        let generator = (share > 0.0).then(|| Generator::on_time(&of, tape, counted));
        Wire {
            counted,
            generator,
            saturates: load.rate == Rate::Saturate,
            sink,
            depth,
            filled_ns: (f64::from(depth) * 1e9 / highest_pps) as u64,
            total: Tally::default(),
            slices: (0..load.duration_ns.div_ceil(SLICE_NS)).map(slice).collect(),
            stalls: StallWatch::new(),
            work_ns: 0,
            other_ns: 0,
            has_worked: false,
            busy_ns: 0,
            idle_ns: 0,
        }
    }

    #[inline]
    fn turn(&mut self, ring: &mut impl Outlet, now_ns: u64) {
        let may_take_ns = self.work_ns + self.other_ns;
        let gap_ns = self.stalls.turn(now_ns, may_take_ns);
        if self.counted.holds(now_ns) && gap_ns <= STALL_NS + may_take_ns {
            match self.has_worked || self.other_ns > 0 {
                true => self.busy_ns += gap_ns,
                false => self.idle_ns += gap_ns,
            }
        }
        (self.work_ns, self.other_ns, self.has_worked) = (0, 0, false);
        let Some(generator) = &mut self.generator else { return };
        loop {
            let before = generator.counters.tx_frames;
            let tally = generator.turn(ring, now_ns);
            self.total.offered += tally.offered;
            self.total.missed += tally.missed;
            self.total.offered_bytes += tally.offered_bytes;
            if let Some(slice) = slice_at(&mut self.slices, self.counted, now_ns) {
                slice.offered += tally.offered;
                slice.rx_missed += tally.missed;
            }
            // By the clock it is done at once; a ring that is to be full has room for more.
            if !self.saturates || generator.counters.tx_frames - before < BURST as u64 {
                break;
            }
        }
    }

    #[inline]
    fn works(&mut self, frames: usize) {
        self.work_ns += frames as u64 * FRAME_NS;
        self.has_worked |= frames > 0;
    }

    #[inline]
    fn complete(&mut self, sent: &impl Inlet, count: usize, now_ns: u64) {
        self.works(count);
        let counted = self.sink.take(sent, count, now_ns);
        if let Some(slice) = slice_at(&mut self.slices, self.counted, now_ns) {
            slice.received += counted;
        }
    }

    fn into_part(mut self) -> WireCounts {
        let covered_ns = covered_ns(self.depth, self.filled_ns, &self.slices);
        mark_disturbed(&mut self.slices, self.counted, self.stalls.kept(), covered_ns);
        self.sink.flush();
        let latest_ns = self.sink.latest();
        let offered = self.generator.map(|generator| (generator.counters, generator.missed_all));
        let (sent, missed) = offered.unwrap_or_default();
        let sent = QueueCounters { rx_missed: missed, ..sent };
        WireCounts {
            duration_ns: self.counted.to_ns - self.counted.from_ns,
            total: self.total,
            sent: vec![sent],
            missed,
            sink: self.sink,
            came_back: Vec::new(),
            latest_ns,
            slices: self.slices,
            stalls: self.stalls,
            busy_ns: self.busy_ns,
            idle_ns: self.idle_ns,
        }
    }
}

/// Counts of one wire or several.
struct WireCounts {
    duration_ns: u64,
    total: Tally,
    /// Counters of the whole trial, by queue; the sinks of all but the first.
    sent: Vec<QueueCounters>,
    missed: u64,
    sink: Sink,
    came_back: Vec<QueueCounters>,
    latest_ns: Vec<Option<u64>>,
    slices: Vec<Slice>,
    stalls: StallWatch,
    busy_ns: u64,
    idle_ns: u64,
}

impl WireCounts {
    fn merge(mut self, other: WireCounts) -> WireCounts {
        self.total.offered += other.total.offered;
        self.total.missed += other.total.missed;
        self.total.offered_bytes += other.total.offered_bytes;
        self.sent.extend(other.sent);
        self.missed += other.missed;
        self.came_back.push(other.sink.counters);
        self.came_back.extend(other.came_back);
        self.sink.add(&other.sink);
        for (latest, of_other) in self.latest_ns.iter_mut().zip(other.latest_ns) {
            *latest = (*latest).max(of_other);
        }
        for (slice, of_other) in self.slices.iter_mut().zip(&other.slices) {
            slice.offered += of_other.offered;
            slice.received += of_other.received;
            slice.rx_missed += of_other.rx_missed;
            slice.disturbed |= of_other.disturbed;
        }
        self.stalls.merge(&other.stalls);
        self.busy_ns += other.busy_ns;
        self.idle_ns += other.idle_ns;
        self
    }

    fn observation(self) -> LoadObservation {
        let (total, sink) = (self.total, self.sink);
        let time_ns = self.busy_ns + self.idle_ns;
        let mut came_back = vec![sink.counters];
        came_back.extend(self.came_back);
        LoadObservation {
            planned: total.offered,
            offered: total.offered,
            received: sink.received,
            offered_bytes: total.offered_bytes,
            received_bytes: sink.received_bytes,
            lost: total.offered.saturating_sub(sink.received),
            rx_missed: total.missed,
            reordered: sink.reordered,
            duplicated: sink.duplicated,
            checked: sink.checked,
            damaged: sink.damaged,
            foreign: sink.foreign,
            duration_ns: self.duration_ns,
            latency: Some(sink.latency),
            service: Some(sink.service),
            generator: PortCounters {
                queues: self.sent,
                rx_missed: self.missed,
                ..PortCounters::default()
            },
            sink: PortCounters { queues: came_back, ..PortCounters::default() },
            slices: self.slices,
            latest_ns: self.latest_ns,
            honesty: Honesty {
                achieved_ratio: 1.0,
                device_stalls: Some(self.stalls.sum()),
                device_idle_ratio: (time_ns > 0).then(|| self.idle_ns as f64 / time_ns as f64),
                device_busy_ns: Some(self.busy_ns),
                ..Honesty::default()
            },
            ..LoadObservation::default()
        }
    }
}

#[cfg(test)]
#[path = "clocked_tests.rs"]
mod tests;
