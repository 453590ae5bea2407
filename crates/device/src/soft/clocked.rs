//! The card under a clocked wire: frames come to its cores by the clock, and no thread sends them.
//!
//! The ports of the card are memory queues ([`niclab_load::clocked`]), one for each core, as a card
//! has receive queues: a flow comes by the queue that the card's own hash names. So every core of
//! the process can be a core of the card, and whatever rate is asked for is offered.
//!
//! With [`Receive::Serial`] all frames come by the queue of the first core, which hands each to
//! another.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use niclab_card::{CardResult, PortError, PortSource};
use niclab_load::clock::Clock;
use niclab_load::clocked::ClockedWire;
use niclab_load::rings::{Inlet, Outlet};
use niclab_load::{Load, LoadObservation, PortCounters, QueueCounters};
use niclab_nic::limits::QUEUES_MAX;
use niclab_nic::memory::{Desc, Region};
use niclab_nic::rss::{Rss, evenly};
use niclab_nic::{Nic, NicConfig};
use niclab_packet::flow::FiveTuple;
use niclab_packet::size::FCS_LEN;
use niclab_port::Burst;
use niclab_port::frame_pool::FramePool;
use niclab_port::queue_pair::{QueuePair, QueuePairCounters};

use super::rss_change::wire_of;
use super::{WIRE_DEPTH, bad_load, broken};
use crate::face::{DeviceError, Receive, Setup};
use crate::plan::Plan;

/// Frames come so long after the card is ready.
const LEAD_NS: u64 = 1_000_000;

/// How long the cores may take for what waits when the last frame has come.
const DRAIN: Duration = Duration::from_secs(2);

/// One port, whose queues the queue pairs open.
#[derive(Clone)]
pub(super) struct Wires(Arc<WiresState>);

/// What a trial and the queue pairs of a port share.
struct WiresState {
    /// The place of the port's first queue among all.
    first: usize,
    /// By core; taken by the queue pairs that open.
    wires: Mutex<Vec<ClockedWire>>,
    /// Time that a core works on each frame before it leaves.
    work: Duration,
    trial: Arc<Trial>,
}

/// What a trial and all queue pairs share.
#[derive(Default)]
pub(super) struct Trial {
    /// When it begins, by the process's clock; 0: not yet.
    start_ns: AtomicU64,
    /// Time that the first core has had for something else than frames since its last poll,
    /// nanoseconds.
    other_ns: AtomicU64,
    /// Queue pairs by which no frame will come any more.
    drained: AtomicUsize,
    /// The wires of queue pairs that have ended, and their places.
    ended: Mutex<Vec<(usize, ClockedWire)>>,
}

impl fmt::Display for Wires {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("clocked wire")
    }
}

impl PortSource for Wires {
    fn queue_pair_frames(&self) -> usize {
        WIRE_DEPTH as usize
    }

    fn open(&self, _: u32, region: &Arc<Region>) -> Result<Vec<Box<dyn QueuePair>>, PortError> {
        let Wires(shared) = self;
        let mut wires = shared.wires.lock().unwrap_or_else(PoisonError::into_inner);
        let queue_pair = |(place, wire)| -> Box<dyn QueuePair> {
            let queue_pair = ClockedQueuePair {
                place,
                wire,
                ring: VecDeque::with_capacity(WIRE_DEPTH as usize),
                reserved: Burst::new(),
                region: Arc::clone(region),
                clock: Clock::new(),
                start_ns: 0,
                is_drained: false,
                trial: Arc::clone(&shared.trial),
                counters: QueuePairCounters::default(),
            };
            match shared.work.is_zero() {
                true => Box::new(queue_pair),
                false => Box::new(WorkingQueuePair { queue_pair, each: shared.work }),
            }
        };
        Ok((shared.first..).zip(wires.drain(..)).map(queue_pair).collect())
    }

    fn can_reopen(&self) -> bool {
        false
    }
}

/// One receive queue of a port, and the transmit queue of its core.
struct ClockedQueuePair {
    place: usize,
    wire: ClockedWire,
    /// Frames that wait for the core.
    ring: VecDeque<Desc>,
    /// Frames that are being written.
    reserved: Burst,
    region: Arc<Region>,
    clock: Clock,
    /// 0: it is not known yet.
    start_ns: u64,
    is_drained: bool,
    trial: Arc<Trial>,
    counters: QueuePairCounters,
}

impl ClockedQueuePair {
    /// Time since the trial began; `None` before it.
    #[inline]
    fn now_ns(&mut self) -> Option<u64> {
        if self.start_ns == 0 {
            self.start_ns = self.trial.start_ns.load(Ordering::Acquire);
            if self.start_ns == 0 {
                return None;
            }
        }
        self.clock.now_ns().checked_sub(self.start_ns)
    }
}

impl QueuePair for ClockedQueuePair {
    fn receive(&mut self, pool: &mut FramePool, into: &mut Burst) -> io::Result<()> {
        let Some(now_ns) = self.now_ns() else { return Ok(()) };
        if self.place == 0 && self.trial.other_ns.load(Ordering::Relaxed) > 0 {
            self.wire.add_pause(self.trial.other_ns.swap(0, Ordering::Relaxed));
        }
        let ClockedQueuePair { wire, ring, reserved, region, .. } = self;
        wire.turn(&mut Ring { ring, reserved, pool, region }, now_ns);
        let count = self.ring.len().min(into.remaining_capacity());
        for desc in self.ring.drain(..count) {
            self.region.prefetch(&desc);
            self.counters.rx_frames += 1;
            self.counters.rx_bytes += u64::from(desc.len());
            into.push(desc);
        }
        self.wire.count_taken(count);
        if !self.is_drained && self.ring.is_empty() && now_ns >= self.wire.end_ns() {
            self.is_drained = true;
            self.trial.drained.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Burst) -> io::Result<()> {
        if burst.is_empty() {
            return Ok(());
        }
        if let Some(now_ns) = self.now_ns() {
            let sent = Sent { region: &self.region, burst };
            self.wire.complete(&sent, burst.len(), now_ns);
        }
        self.counters.tx_frames += burst.len() as u64;
        self.counters.tx_bytes += burst.iter().map(|desc| u64::from(desc.len())).sum::<u64>();
        pool.give_all(burst);
        Ok(())
    }

    fn counters(&self) -> QueuePairCounters {
        self.counters
    }

    fn close(self: Box<Self>, pool: &mut FramePool) -> io::Result<QueuePairCounters> {
        let ClockedQueuePair { place, wire, ring, trial, counters, .. } = *self;
        ring.into_iter().for_each(|desc| pool.give(desc));
        trial.ended.lock().unwrap_or_else(PoisonError::into_inner).push((place, wire));
        Ok(counters)
    }
}

/// A queue pair in front of which the core works on each frame that leaves: an application that
/// takes time.
struct WorkingQueuePair {
    queue_pair: ClockedQueuePair,
    each: Duration,
}

impl QueuePair for WorkingQueuePair {
    fn receive(&mut self, pool: &mut FramePool, into: &mut Burst) -> io::Result<()> {
        self.queue_pair.receive(pool, into)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Burst) -> io::Result<()> {
        let work = self.each * burst.len() as u32;
        let until = Instant::now() + work;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        // That is no stall.
        self.queue_pair.wire.add_pause(work.as_nanos() as u64);
        self.queue_pair.send(pool, burst)
    }

    fn counters(&self) -> QueuePairCounters {
        self.queue_pair.counters()
    }

    fn close(self: Box<Self>, pool: &mut FramePool) -> io::Result<QueuePairCounters> {
        Box::new(self.queue_pair).close(pool)
    }
}

/// The ring of a receive queue, as a wire fills it.
struct Ring<'a> {
    ring: &'a mut VecDeque<Desc>,
    reserved: &'a mut Burst,
    pool: &'a mut FramePool,
    region: &'a Region,
}

impl Outlet for Ring<'_> {
    fn frame_len_max(&self) -> u16 {
        self.region.frame_len_max() as u16
    }

    #[inline]
    fn reserve(&mut self, want: usize) -> usize {
        let room = want.min(WIRE_DEPTH as usize - self.ring.len());
        while self.reserved.len() < room {
            let Some(desc) = self.pool.take() else { break };
            self.reserved.push(desc);
        }
        self.reserved.len().min(room)
    }

    #[inline]
    fn slot(&mut self, i: usize) -> &mut [u8] {
        self.region.slot_mut(&mut self.reserved[i])
    }

    #[inline]
    fn commit(&mut self, lens: &[u16]) -> usize {
        for (mut desc, len) in self.reserved.drain(..lens.len()).zip(lens) {
            self.region.set_len(&mut desc, *len);
            self.ring.push_back(desc);
        }
        // The rest is not needed for now.
        self.pool.give_all(self.reserved);
        lens.len()
    }
}

/// Frames that leave.
struct Sent<'a> {
    region: &'a Region,
    burst: &'a Burst,
}

impl Inlet for Sent<'_> {
    fn poll(&mut self) -> usize {
        self.burst.len()
    }

    #[inline]
    fn frame(&self, i: usize) -> &[u8] {
        self.region.frame(&self.burst[i])
    }

    fn release(&mut self) {}
}

/// The queues of each port by their numbers at the card, which runs queue `n` on core `n` modulo
/// its cores.
pub(super) fn queue_numbers(setup: &Setup, cores: usize) -> Result<Vec<Vec<u16>>, DeviceError> {
    let (queues, cores) = (u32::from(setup.queues), cores as u32);
    let all = u32::from(setup.ports) * queues;
    let number = |queue: u32| match (setup.receive, cores) {
        (Receive::Serial, 2..) => queue / (cores - 1) * cores + 1 + queue % (cores - 1),
        _ => queue,
    };
    // RSS of the card knows no higher ones.
    if all == 0 || number(all - 1) >= QUEUES_MAX.into() {
        return Err(DeviceError::lacks(format!("{all} queues of all ports on {cores} cores")));
    }
    let of_port = |port: u32| (port * queues..(port + 1) * queues).map(|at| number(at) as u16);
    Ok((0..setup.ports.into()).map(|port| of_port(port).collect()).collect())
}

/// The NIC of each port of a card on `cores` cores: RSS over all of its queues, no rules.
pub(super) fn nics(setup: &Setup, cores: usize) -> Result<Vec<Nic>, DeviceError> {
    let of_port = queue_numbers(setup, cores)?;
    let queues = of_port.iter().flatten().max().map_or(1, |most| most + 1);
    let config = NicConfig { queues, ports: setup.ports, ..NicConfig::default() };
    let nic = |numbers: Vec<u16>| {
        let mut nic = Nic::new(&config).map_err(broken)?;
        let rss = Rss { indirection: evenly(numbers), ..nic.rss().clone() };
        nic.set_rss(&rss).map_err(broken)?;
        Ok(nic)
    };
    of_port.into_iter().map(nic).collect()
}

/// The ports of a card on several cores. Each port has a wire for each core. A flow comes by the
/// wire of the core that serves its queue. If RSS changes, the bytes of the flow name its wire
/// ([`rss_change`](super::rss_change)). With serial receive all flows come by the first wire.
pub(super) fn ports(
    (load, plan): (&Load, &Plan),
    setup: &Setup,
    nics: &[Nic],
    cores: usize,
    trial: &Arc<Trial>,
) -> Result<Vec<Wires>, DeviceError> {
    let port = |(port, nic): (u16, &Nic)| {
        let queue_of = nic.rss().queues_of().map_err(broken)?;
        let core_of = |flow: &FiveTuple| match (plan, setup.receive) {
            (Plan::Rss(_), _) => wire_of(flow, cores),
            (_, Receive::Serial) => 0,
            (_, Receive::Queues) => usize::from(queue_of(flow)) % cores,
        };
        let load = Load {
            rate: load.rate.scaled(1.0 / f64::from(setup.ports)),
            seed: load.seed.wrapping_add(u64::from(port) << 32),
            ..load.clone()
        };
        let made = ClockedWire::several(&load, WIRE_DEPTH, setup.frame_len_max, cores, core_of);
        let mut wires = made.map_err(bad_load)?;
        if *plan != Plan::Rest {
            // A flow may leave by another core than before.
            ClockedWire::share_order(&mut wires);
        }
        let (first, wires) = (usize::from(port) * cores, Mutex::new(wires));
        let work = if let Plan::Rss(plan) = plan { plan.work_ns } else { 0 };
        let (work, trial) = (Duration::from_nanos(work.into()), Arc::clone(trial));
        Ok(Wires(Arc::new(WiresState { first, wires, work, trial })))
    };
    (0..).zip(nics).map(port).collect()
}

impl Trial {
    /// Has the frames come from a moment on that is near; when that is, by the process's clock.
    pub(super) fn begin(&self) -> u64 {
        let start_ns = Clock::new().now_ns() + LEAD_NS;
        self.start_ns.store(start_ns, Ordering::Release);
        start_ns
    }

    /// The first core has had so much time for something else than frames.
    #[inline]
    pub(super) fn add_other_work(&self, ns: u64) {
        if ns > 0 {
            self.other_ns.fetch_add(ns, Ordering::Relaxed);
        }
    }

    /// When the frames come, by the process's clock; `None` where nobody has said it yet.
    #[inline]
    pub(super) fn begun_ns(&self) -> Option<u64> {
        Some(self.start_ns.load(Ordering::Acquire)).filter(|start_ns| *start_ns > 0)
    }

    /// Waits until so many queue pairs are empty behind the last frame.
    pub(super) fn drain(&self, queue_pairs: usize) {
        let until = Instant::now() + DRAIN;
        while self.drained.load(Ordering::Acquire) < queue_pairs && Instant::now() < until {
            thread::yield_now();
        }
    }

    /// The wires of all queue pairs, which have ended, in their order.
    pub(super) fn wires(&self) -> Vec<ClockedWire> {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.sort_by_key(|(place, _)| *place);
        ended.drain(..).map(|(_, wire)| wire).collect()
    }
}

/// Frames that one core received and another one forwarded.
pub(super) fn cross_core_frames(
    observation: &LoadObservation,
    ended: &CardResult,
    cores: usize,
) -> u64 {
    let forwarded = ended.counters.cores.iter().map(|core| core.frames);
    let more = forwarded.enumerate().map(|(core, forwarded)| {
        let of_core = observation.generator.queues.iter().skip(core).step_by(cores);
        let received: u64 = of_core.map(|queue| queue.tx_frames - queue.rx_missed).sum();
        forwarded.saturating_sub(received)
    });
    more.sum()
}

/// Lays what the card counted beside what generator and sink did. `queues` are those of the card
/// that frames could come to: port and number.
pub(super) fn enter(
    observation: &mut LoadObservation,
    ended: &CardResult,
    queues: &[(usize, u16)],
) {
    let ports = &ended.counters.ports;
    let sum = |of: fn(&niclab_card::PortCounters) -> u64| ports.iter().map(of).sum::<u64>();
    let with_fcs = |bytes: u64, frames: u64| bytes + frames * u64::from(FCS_LEN);
    let queue = |(port, number): &(usize, u16)| {
        let queue = ports.get(*port).and_then(|port| port.queues.get(usize::from(*number)));
        let queue = queue.copied().unwrap_or_default();
        QueueCounters {
            rx_frames: queue.rx_frames,
            rx_bytes: with_fcs(queue.rx_bytes, queue.rx_frames),
            tx_frames: queue.rx_frames,
            tx_bytes: with_fcs(queue.rx_bytes, queue.rx_frames),
            rx_missed: queue.rx_missed,
        }
    };
    let mut queues: Vec<QueueCounters> = queues.iter().map(queue).collect();
    let taken: u64 = queues.iter().map(|queue| queue.rx_frames).sum();
    let missed: u64 = queues.iter().map(|queue| queue.rx_missed).sum();
    let at_wires = observation.generator.rx_missed;
    let offered = observation.generator.total().tx_frames - at_wires;
    let (received, sent) = (sum(|port| port.rx_frames), sum(|port| port.tx_frames));
    let (rule_drops, tx_dropped) = (sum(|port| port.rule_drops), sum(|port| port.tx_dropped));
    let dropped = missed + sum(|port| port.held_drops) + rule_drops;
    let came_back = observation.sink.total().rx_frames;
    if let Some(first) = queues.first_mut() {
        // What a rule dropped or sent out by a port was at no queue: it counts as queue 0's, and so
        // does what found no room to leave.
        let by_port = (sent + tx_dropped).saturating_sub(taken);
        first.rx_frames += rule_drops + by_port;
        first.tx_frames = (first.tx_frames + by_port).saturating_sub(tx_dropped);
    }
    let equal = [
        ("frames offered and at the card", (offered, received)),
        ("frames at the card and taken by its engine", (received, ended.counters.rx_frames())),
        ("frames at the card and sent back or dropped", (received, sent + tx_dropped + dropped)),
        ("frames sent back and at the sink", (sent, came_back)),
        (
            "frames that the card ended with and had",
            ((ended.frames - ended.frames_lost) as u64, ended.frames as u64),
        ),
    ];
    observation.honesty.balanced = equal.iter().all(|(_, (a, b))| a == b);
    let unequal = equal.iter().filter(|(_, (a, b))| a != b);
    let reason = |(what, (a, b)): &(&str, (u64, u64))| format!("{what}: {a} against {b}");
    observation.honesty.reasons.extend(unequal.map(reason));
    let rx_missed = at_wires + missed;
    observation.card_frames = Some(ended.counters.rx_frames());
    let device =
        PortCounters { queues, rx_missed, tx_dropped, rule_drops, ..PortCounters::default() };
    observation.device = Some(device);
    if observation.honesty.balanced {
        observation.count_dropped();
    }
}
