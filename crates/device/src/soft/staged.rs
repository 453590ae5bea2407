//! The software NIC and its function on all cores, with frames that were prepared in memory.
//!
//! There is no generator and no wire: each core has a lane of frames before a pass begins, and a
//! pass ends when all of them have been through hash and function. The time of a pass is known, and
//! so is what a frame takes on so many cores. When a frame was due is not, nor can one be lost:
//! this shows neither latency nor loss.
//!
//! Lanes have frames of all flows. A core gives a frame whose queue is another core's to that one,
//! by a ring from each to each, as the card does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use niclab_apps::forward::swap_macs;
use niclab_load::{Load, Observation, PortCounters, QueueCounters, StagedPasses};
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use niclab_nic::{Nic, Worker};
use niclab_packet::flow::{FiveTuple, FlowSet, Transport};
use niclab_packet::size::FCS_LEN;
use niclab_packet::stack::{Layer, build_with_len};
use niclab_packet::wire::{ethernet, ipv4, ipv6, tcp, udp};
use niclab_port::crossing::Crossing;
use niclab_port::wire::Burst;
use rustix::time::{ClockId, clock_gettime};

use super::{bad_load, broken};
use crate::cores::Pinned;
use crate::face::{DeviceError, Receive, Setup};

/// Frames of a lane: of short ones 1 MiB of cache lines, more than many a second cache holds and
/// less than others do, and a pass of some hundred microseconds or more, so that cores need not
/// begin at the very same moment.
const LANE_FRAMES: usize = 16_384;

/// Frames of a ring from one core to another, as the card's.
const RING_FRAMES: usize = 1_024;

/// Most cores: there is a ring from each to each.
pub const CORES_MAX: usize = 64;

/// A core that does not run us for more than this share of a pass disturbs it.
const AWAY_MAX: f64 = 0.02;

/// Share of passes that must be undisturbed for others to be left out.
const CALM_SHARE_MIN: f64 = 0.2;

/// Rounds of waiting for the other cores after which these may have this one.
const SPINS_MAX: u32 = 10_000;

/// Frames in memory, and the cores that work on them.
pub struct Staged {
    region: Arc<Region>,
    /// By slot; all there between two passes.
    descs: Vec<Option<Desc>>,
    /// The lists of each core, empty between two passes: memory that is new in a pass costs it.
    lists: Vec<Lists>,
    workers: Vec<Worker>,
    /// None: wherever there is room.
    cores: Vec<Option<u32>>,
    spread: Spread,
}

/// Whose frames are whose.
#[derive(Clone, Copy, Debug)]
struct Spread {
    cores: usize,
    receive: Receive,
    ports: u16,
    /// Of each port.
    queues: u16,
}

impl Spread {
    /// The core that forwards the frames of a queue of all ports together.
    #[inline]
    fn core_of(self, queue: u16) -> usize {
        match (self.receive, self.cores) {
            (_, 1) => 0,
            (Receive::Queues, cores) => usize::from(queue) % cores,
            (Receive::Serial, cores) => 1 + usize::from(queue) % (cores - 1),
        }
    }

    /// Cores that receive.
    fn receivers(self) -> usize {
        match self.receive {
            Receive::Queues => self.cores,
            Receive::Serial => 1,
        }
    }
}

/// A core's lists of frames.
#[derive(Default)]
struct Lists {
    /// Frames in front of it.
    lane: Vec<Desc>,
    /// Frames that it forwarded.
    done: Vec<Desc>,
}

/// What a pass took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// From the first core's beginning to the last one's end, nanoseconds.
    pub ns: u64,
    /// Frames.
    pub frames: u64,
    /// Of these, those that one core received and another forwarded.
    pub crossed: u64,
    /// Frames by queue, those of the first port first.
    pub queues: Vec<u64>,
    /// The machine took a core away meanwhile.
    pub is_disturbed: bool,
}

impl Staged {
    /// Frames of a load for so many cores; `cores` are those that they keep to, and there are no
    /// more than [`CORES_MAX`].
    ///
    /// # Errors
    /// [`DeviceError::BadLoad`]; [`DeviceError::Broken`] where there is no memory.
    pub fn new(
        nic: &mut Nic,
        setup: &Setup,
        load: &Load,
        cores: Vec<Option<u32>>,
    ) -> Result<Staged, DeviceError> {
        if load.trace.is_some() {
            let capability = "staged frames of a trace".to_owned();
            return Err(DeviceError::NotSupported { capability });
        }
        let spread = Spread {
            cores: cores.len(),
            receive: setup.receive,
            ports: setup.ports,
            queues: setup.queues,
        };
        let frame_len = usize::from(load.sizes.max().saturating_sub(FCS_LEN));
        let frames = LANE_FRAMES * cores.len();
        let (region, mut descs) = Region::new(frames, frame_len).map_err(broken)?;
        fill(&region, &mut descs, load)?;
        let descs = descs.into_iter().map(Some).collect();
        let workers = cores.iter().map(|_| nic.worker()).collect();
        let list = || Vec::with_capacity(frames);
        let lists = cores.iter().map(|_| Lists { lane: list(), done: list() }).collect();
        let mut staged = Staged { region, descs, lists, workers, cores, spread };
        staged.workers.iter_mut().for_each(Worker::offline);
        Ok(staged)
    }

    /// Lets every frame through once.
    ///
    /// # Errors
    /// [`DeviceError::Broken`], now and from then on, where a core panicked.
    pub fn pass(&mut self) -> Result<Pass, DeviceError> {
        let is_whole = self.lists.len() == self.spread.cores;
        let ended = if is_whole { self.work() } else { None };
        let ended = ended.ok_or_else(|| broken("staged: a core panicked in a pass"))?;
        Ok(self.collect(ended))
    }

    /// The work of a pass on all cores; `None` where one of them panicked.
    fn work(&mut self) -> Option<Vec<Ended>> {
        let (spread, region) = (self.spread, &self.region);
        let per_lane = self.descs.len() / spread.receivers();
        let mut descs = self.descs.iter_mut().filter_map(Option::take);
        for lists in self.lists.iter_mut().take(spread.receivers()) {
            lists.lane.extend(descs.by_ref().take(per_lane));
        }
        let (waiting, epoch) = (AtomicUsize::new(spread.cores), Instant::now());
        let has_panicked = &AtomicBool::new(false);
        let mut work = Vec::with_capacity(spread.cores);
        let crossings = Crossing::between(spread.cores, RING_FRAMES);
        for (((place, lists), worker), crossing) in
            self.lists.drain(..).enumerate().zip(&mut self.workers).zip(crossings)
        {
            let queues = vec![0; usize::from(spread.ports) * usize::from(spread.queues)];
            let held = (0..spread.cores).map(|_| Burst::new()).collect();
            let Lists { lane, done } = lists;
            let taken = Burst::new();
            let homes = (0..queues.len()).map(|queue| spread.core_of(queue as u16) as u8).collect();
            let core = Core {
                place,
                spread,
                region,
                worker,
                crossing,
                held,
                taken,
                done,
                queues,
                homes,
                has_panicked,
            };
            work.push((core, lane));
        }
        thread::scope(|scope| {
            let threads: Vec<_> = work
                .into_iter()
                .zip(&self.cores)
                .map(|((core, lane), seat)| {
                    let waiting = &waiting;
                    scope.spawn(move || {
                        let _alarm = Alarm(has_panicked);
                        let _pinned = seat.map(Pinned::to);
                        core.run(lane, waiting, epoch)
                    })
                })
                .collect();
            // Every one is waited for: a panic that nobody took would go on here.
            let ended: Vec<_> = threads.into_iter().map(|thread| thread.join().ok()).collect();
            ended.into_iter().collect()
        })
    }

    /// Puts the frames of a pass back into their places, and adds up what it was.
    fn collect(&mut self, ended: Vec<Ended>) -> Pass {
        let begun = ended.iter().map(|of| of.begun_ns).min().unwrap_or(0);
        let end = ended.iter().map(|of| of.ended_ns).max().unwrap_or(0);
        let mut pass = Pass { ns: (end - begun).max(1), ..Pass::default() };
        for Ended { lane, mut done, crossed, queues, begun_ns, ended_ns, worked_ns } in ended {
            let away_ns = (ended_ns - begun_ns).saturating_sub(worked_ns);
            pass.is_disturbed |= away_ns as f64 > AWAY_MAX * (ended_ns - begun_ns) as f64;
            pass.crossed += crossed;
            pass.queues.resize(queues.len(), 0);
            pass.queues.iter_mut().zip(queues).for_each(|(sum, of)| *sum += of);
            pass.frames += done.len() as u64;
            for desc in done.drain(..) {
                let slot = self.region.slot_at(desc.address().into());
                self.descs[slot] = Some(desc);
            }
            self.lists.push(Lists { lane, done });
        }
        pass
    }

    /// Passes for as long as a load lasts; the time of each counts as the median of the undisturbed
    /// ones, for a pass in which the machine took a core away says nothing of the card.
    ///
    /// # Errors
    /// Those of [`Staged::pass`].
    pub(super) fn run(&mut self, load: &Load) -> Result<Observation, DeviceError> {
        let until = |start: Instant, ns: u64| (start.elapsed().as_nanos() as u64) < ns;
        let start = Instant::now();
        self.pass()?;
        while until(start, load.warmup_ns) {
            self.pass()?;
        }
        let (start, mut passes) = (Instant::now(), vec![self.pass()?]);
        while until(start, load.duration_ns) {
            passes.push(self.pass()?);
        }
        Ok(observed(&passes, load))
    }
}

/// What passes come to.
fn observed(passes: &[Pass], load: &Load) -> Observation {
    let disturbed = passes.iter().filter(|pass| pass.is_disturbed).count();
    let has_calm = (passes.len() - disturbed) as f64 >= CALM_SHARE_MIN * passes.len() as f64;
    let of = passes.iter().filter(|pass| !(has_calm && pass.is_disturbed));
    let mut times: Vec<u64> = of.map(|pass| pass.ns).collect();
    times.sort_unstable();
    let count = passes.len() as u64;
    let frames: u64 = passes.iter().map(|pass| pass.frames).sum();
    let bytes = (frames as f64 * load.sizes.mean()) as u64;
    let mut device = PortCounters::default();
    for pass in passes {
        device.queues.resize(pass.queues.len(), QueueCounters::default());
        for (queue, of) in device.queues.iter_mut().zip(&pass.queues) {
            (queue.rx_frames, queue.tx_frames) = (queue.rx_frames + of, queue.tx_frames + of);
        }
    }
    let mut seen = Observation {
        planned: frames,
        offered: frames,
        received: frames,
        offered_bytes: bytes,
        received_bytes: bytes,
        duration_ns: times[times.len() / 2] * count,
        device: Some(device),
        staged: Some(StagedPasses {
            passes: count,
            disturbed: if has_calm { 0 } else { disturbed as u64 },
            crossed: passes.iter().map(|pass| pass.crossed).sum(),
        }),
        ..Observation::default()
    };
    // Every frame that was there before a pass is there behind it.
    seen.honesty.balanced = frames == count * passes.iter().map(|p| p.frames).max().unwrap_or(0);
    seen.honesty.reasons.push("staged: frames from memory, neither latency nor loss".to_owned());
    seen
}

/// Writes a frame of the load into each slot, its flow drawn as a generator would.
fn fill(region: &Region, descs: &mut [Desc], load: &Load) -> Result<(), DeviceError> {
    let flows = FlowSet::new(&load.flows).map_err(|error| bad_load(error.into()))?;
    let (mut picker, sizes) = (flows.picker(load.seed), load.sizes.period());
    for (desc, size) in descs.iter_mut().zip(sizes.iter().cycle()) {
        let bad =
            |error: niclab_packet::BuildError| DeviceError::BadLoad { reason: error.to_string() };
        let frame = frame(&flows.tuple(picker.next()), *size).map_err(bad)?;
        region.slot_mut(desc)[..frame.len()].copy_from_slice(&frame);
        region.set_len(desc, frame.len() as u16);
    }
    Ok(())
}

fn frame(tuple: &FiveTuple, size: u16) -> Result<Vec<u8>, niclab_packet::BuildError> {
    let (src_port, dst_port) = (tuple.sport, tuple.dport);
    let inner = match tuple.proto {
        Transport::Udp => Layer::Udp(udp::Repr { src_port, dst_port, ..udp::Repr::default() }),
        Transport::Tcp => Layer::Tcp(tcp::Repr { src_port, dst_port, ..tcp::Repr::default() }),
    };
    let ip = match (tuple.src, tuple.dst) {
        (std::net::IpAddr::V6(src), std::net::IpAddr::V6(dst)) => {
            Layer::Ipv6(ipv6::Repr { src, dst, ..ipv6::Repr::default() })
        }
        (std::net::IpAddr::V4(src), std::net::IpAddr::V4(dst)) => {
            Layer::Ipv4(ipv4::Repr { src, dst, ..ipv4::Repr::default() })
        }
        // Both ends of a flow are of one version.
        _ => Layer::Payload(Vec::new()),
    };
    build_with_len(&[Layer::Ethernet(ethernet::Repr::default()), ip, inner], size)
}

/// A core and what it has.
struct Core<'a> {
    place: usize,
    spread: Spread,
    region: &'a Region,
    worker: &'a mut Worker,
    crossing: Crossing,
    /// Frames of a burst, by the core that they go to.
    held: Vec<Burst>,
    /// Frames of another core.
    taken: Burst,
    /// Frames that were forwarded.
    done: Vec<Desc>,
    /// Frames received by queue.
    queues: Vec<u64>,
    /// The core of each queue.
    homes: Vec<u8>,
    /// A core is gone, and no other may wait for it.
    has_panicked: &'a AtomicBool,
}

/// Tells the other cores of a panic of this one.
struct Alarm<'a>(&'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Release);
        }
    }
}

/// A core behind a pass.
struct Ended {
    begun_ns: u64,
    ended_ns: u64,
    /// Of that, the time in which it ran.
    worked_ns: u64,
    /// Empty.
    lane: Vec<Desc>,
    done: Vec<Desc>,
    crossed: u64,
    queues: Vec<u64>,
}

impl Core<'_> {
    /// Begins when all have come so far, and ends when no frame can come any more.
    fn run(mut self, mut lane: Vec<Desc>, waiting: &AtomicUsize, epoch: Instant) -> Ended {
        self.worker.online();
        waiting.fetch_sub(1, Ordering::AcqRel);
        let mut spins = 0;
        while waiting.load(Ordering::Acquire) > 0 && !self.is_alone() {
            wait(&mut spins);
        }
        let (begun_ns, ran_ns) = (epoch.elapsed().as_nanos() as u64, ran_ns());
        let crossed = self.receive(&mut lane);
        self.crossing.close();
        let mut spins = 0;
        loop {
            let is_last = self.crossing.is_last();
            match self.take_over() {
                true => spins = 0,
                false if is_last => break,
                false => wait(&mut spins),
            }
        }
        let worked_ns = self::ran_ns() - ran_ns;
        let ended_ns = epoch.elapsed().as_nanos() as u64;
        self.worker.offline();
        let Core { done, queues, .. } = self;
        Ended { begun_ns, ended_ns, worked_ns, lane, done, crossed, queues }
    }

    /// A core that it might wait for is gone.
    #[inline]
    fn is_alone(&self) -> bool {
        self.has_panicked.load(Ordering::Acquire)
    }

    /// Takes the frames of its own lane, and between bursts those that others give it; how many it
    /// gave to others.
    fn receive(&mut self, lane: &mut Vec<Desc>) -> u64 {
        let (mut burst, mut next) = (Burst::new(), Burst::new());
        let (mut lane, mut crossed, mut port) = (lane.drain(..), 0, 0);
        next.extend(lane.by_ref().take(BURST));
        while !next.is_empty() && !self.is_alone() {
            std::mem::swap(&mut burst, &mut next);
            next.extend(lane.by_ref().take(BURST));
            // As where frames come from a ring, the first line of those behind is asked for.
            next.iter().for_each(|desc| self.region.prefetch(desc));
            self.worker.classify(self.region, &mut burst);
            let first = port * self.spread.queues;
            port = (port + 1) % self.spread.ports;
            for mut desc in burst.drain(..) {
                desc.queue += first;
                self.queues[usize::from(desc.queue)] += 1;
                // Frames change cores at random: a branch on that would be guessed wrong each
                // second time.
                let core = usize::from(self.homes[usize::from(desc.queue)]);
                self.held[core].push(desc);
            }
            crossed += self.hand_over();
            for desc in self.held[self.place].drain(..) {
                forward(self.region, desc, &mut self.done);
            }
            self.take_over();
        }
        crossed
    }

    /// Gives each core its frames of this burst, all of them.
    fn hand_over(&mut self) -> u64 {
        let mut crossed = 0;
        let place = self.place;
        for core in (0..self.held.len()).filter(|core| *core != place) {
            let mut spins = 0;
            crossed += self.held[core].len() as u64;
            while !self.held[core].is_empty() && !self.is_alone() {
                // A core that waits here takes what others wait for.
                if self.crossing.give(core, &mut self.held[core]) == 0 && !self.take_over() {
                    wait(&mut spins);
                }
            }
        }
        crossed
    }

    /// Forwards what other cores have handed over; whether there was any.
    fn take_over(&mut self) -> bool {
        let mut is_busy = false;
        for core in 0..self.held.len() {
            is_busy |= self.crossing.take(core, self.region, &mut self.taken);
            for desc in self.taken.drain(..) {
                forward(self.region, desc, &mut self.done);
            }
        }
        is_busy
    }
}

/// The function: the MAC addresses change places, and the frame may leave.
#[inline]
fn forward(region: &Region, mut desc: Desc, done: &mut Vec<Desc>) {
    swap_macs(region.frame_mut(&mut desc));
    done.push(desc);
}

/// Time for which this thread has run, nanoseconds.
fn ran_ns() -> u64 {
    let at = clock_gettime(ClockId::ThreadCPUTime);
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

/// Waits a moment for another core; after many, it may run here.
#[inline]
fn wait(spins: &mut u32) {
    *spins += 1;
    match *spins > SPINS_MAX {
        true => thread::yield_now(),
        false => std::hint::spin_loop(),
    }
}

#[cfg(test)]
#[path = "staged_tests.rs"]
mod tests;
