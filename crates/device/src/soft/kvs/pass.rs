//! Passes over frames that lie in memory, on all cores at once.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use niclab_apps::kvs::codec::context::Context;
use niclab_apps::kvs::codec::datagram::batch::{BATCH_STEPS, BatchStep, Watch};
use niclab_apps::kvs::protocol::time::{Expiry, Moment};
use niclab_apps::kvs::store::{New, Spread, Store, Value};
use niclab_apps::kvs::transport::card::Station;
use niclab_apps::service::Answers;
use niclab_card::steering;
use niclab_load::clock::Clock;
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use niclab_nic::{Nic, NicConfig};
use niclab_program::{Fate, Lost, Pipeline};

use super::super::broken;
use super::Build;
use super::load::{
    ASKED_AT, Asked, FRAMES, STORE, VALUE_AT, VALUE_LEN, frames, is_get, key, value,
};
use super::told::{self, Told};
use crate::cores::Pinned;
use crate::face::DeviceError;

/// Memory of the store: much more than its items need.
const STORE_BYTES: usize = 256 << 20;

/// Frames of a core that answers are written to, one after the other, as a ring to be sent has.
const ANSWERS: usize = 256;

/// The time of day that the store is told.
const NOW: Moment = Moment(1_700_000_000);

/// A core that does not run us for more than this share of a pass disturbs it.
const AWAY_MAX: f64 = 0.02;

/// The share of a core's requests of a pass that it serves before the clock runs, one of so many:
/// the card's stage leaves caches otherwise than they are in the midst of serving.
const WARMING: usize = 4;

/// Rounds of waiting for the other cores after which they may have this one.
const SPINS_MAX: u32 = 10_000;

/// What a pass took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// From the first core's beginning to the last one's end, nanoseconds.
    pub ns: u64,
    /// Of all cores, each from its beginning to its end without the time in which something else
    /// had it, nanoseconds.
    pub worked_ns: u64,
    /// Requests that were served in that time.
    pub requests: u64,
    /// The machine took a core away meanwhile.
    pub is_disturbed: bool,
    /// Steps were timed.
    pub is_watched: bool,
    /// Time of all cores by [`BatchStep`], where they were timed.
    pub steps_ns: [u64; BATCH_STEPS],
}

/// A store, and the requests for it.
pub struct Staged {
    build: Build,
    /// Frames that are served together.
    burst: usize,
    store: Store,
    region: Arc<Region>,
    seats: Vec<Seat>,
    card: Card,
    /// The card that tells of requests, where it does its work before each pass.
    told: Option<Told>,
    /// Items that it had stored when they were last counted.
    stored: u64,
    /// So many requests are gets.
    gets: u64,
    clock: Clock,
}

/// One core.
struct Seat {
    /// None: wherever there is room.
    core: Option<u32>,
    /// The frames of its queues, in the order in which they come.
    frames: Vec<Desc>,
    station: Station,
    sink: Sink,
}

/// Where answers are written.
struct Sink {
    region: Arc<Region>,
    frames: Vec<Desc>,
    at: usize,
    /// So many answers.
    count: u64,
}

impl Answers for Sink {
    #[inline]
    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        self.at = (self.at + 1) % ANSWERS;
        self.count += 1;
        let desc = &mut self.frames[self.at];
        self.region.set_len(desc, len as u16);
        Some(self.region.frame_mut(desc))
    }
}

/// Looks at each answer to a get, and counts those that are not right.
struct Judge<'a> {
    sink: &'a mut Sink,
    is_open: bool,
    gets: u64,
    wrong: u64,
    bytes: u64,
}

/// What was seen of all answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// So many were not right.
    pub wrong: u64,
    /// Frames with answers.
    pub answers: u64,
    /// Bytes of all together, without FCS.
    pub bytes: u64,
}

impl Judge<'_> {
    fn close(&mut self) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let frame = self.sink.region.frame(&self.sink.frames[self.sink.at]);
        let number = frame[ASKED_AT..].first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
        let answer = &frame[42 + 8..];
        // A set is answered by a header alone.
        let is_set = answer[1] == 1 && answer[6..8] == [0, 0];
        let is_get = frame.get(VALUE_AT..VALUE_AT + VALUE_LEN) == Some(&value(number)[..]);
        self.gets += u64::from(is_get);
        self.wrong += u64::from(!is_set && !is_get);
    }
}

impl Answers for Judge<'_> {
    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        self.close();
        self.is_open = true;
        self.bytes += len as u64;
        self.sink.frame(len)
    }
}

/// Times each step of a burst.
struct Stopwatch {
    clock: Clock,
    last_ns: u64,
    steps_ns: [u64; BATCH_STEPS],
}

impl Watch for Stopwatch {
    #[inline]
    fn done(&mut self, step: BatchStep) {
        let now_ns = self.clock.now_ns();
        self.steps_ns[step as usize] += now_ns - self.last_ns;
        self.last_ns = now_ns;
    }
}

impl Staged {
    /// A store with all keys, and requests that the card's stage has been over; so many, at most
    /// [`BURST`], are served together. `cores` are those that they keep to.
    ///
    /// # Errors
    /// [`DeviceError::Broken`] where there is no memory, or a frame of the load cannot be made.
    pub fn new(
        build: Build,
        asked: &Asked,
        cores: &[Option<u32>],
        burst: usize,
    ) -> Result<Staged, DeviceError> {
        let spread = match build {
            Build::Rss { .. } => Spread::Secret,
            Build::Steer | Build::Dma => Spread::Steered,
        };
        let partitions = match build {
            Build::Rss { partitions } => partitions,
            Build::Steer | Build::Dma => cores.len(),
        };
        let store = Store::new(STORE_BYTES, partitions, 7).map_err(broken)?.spread_by(spread);
        let frames = frames(asked)?;
        let told = match build {
            Build::Dma => Some(Told::new(&store, cores.len(), STORE_BYTES, frames.clone())?),
            Build::Rss { .. } | Build::Steer => None,
        };
        fill(&store, asked.count)?;
        let gets = frames.iter().filter(|frame| is_get(frame)).count() as u64;
        let room = frames.iter().map(Vec::len).max().unwrap_or(0);
        let (region, mut descs) = Region::new(frames.len(), room).map_err(broken)?;
        for (frame, desc) in frames.iter().zip(&mut descs) {
            region.set_len(desc, frame.len() as u16);
            region.frame_mut(desc).copy_from_slice(frame);
        }
        let mut card = Card::new(build, cores.len())?;
        card.work(&region, &mut descs)?;
        let mut of_cores: Vec<Vec<Desc>> = cores.iter().map(|_| Vec::new()).collect();
        for desc in descs {
            of_cores[usize::from(desc.queue) % cores.len()].push(desc);
        }
        let seats = cores.iter().zip(of_cores).map(|(core, frames)| seat(*core, frames));
        let seats = seats.collect::<Result<_, _>>()?;
        let burst = burst.clamp(1, BURST);
        let clock = Clock::new();
        Ok(Staged { build, burst, store, region, seats, card, told, stored: 0, gets, clock })
    }

    /// What the card does for the store.
    pub fn build(&self) -> Build {
        self.build
    }

    /// Bytes of all requests, without FCS.
    pub fn frame_bytes(&self) -> u64 {
        let descs = self.seats.iter().flat_map(|seat| &seat.frames);
        descs.map(|desc| self.region.frame(desc).len() as u64).sum()
    }

    /// Requests of each core.
    pub fn shares(&self) -> Vec<u64> {
        self.seats.iter().map(|seat| seat.frames.len() as u64).collect()
    }

    /// The share of requests that the first core has.
    pub fn share(&self) -> f64 {
        self.seats[0].frames.len() as f64 / FRAMES as f64
    }

    /// Has the card do its work on every request again, on this thread, and says what that took,
    /// nanoseconds.
    ///
    /// # Errors
    /// [`DeviceError::Broken`] where it does something else.
    pub fn card_ns(&mut self) -> Result<u64, DeviceError> {
        let begun_ns = self.clock.now_ns();
        if self.told.is_some() {
            self.stage()?;
            let took_ns = self.clock.now_ns() - begun_ns;
            // What it has told is to be taken before it tells more.
            let Staged { build, burst, store, region, seats, .. } = self;
            let (build, burst) = (*build, *burst);
            for (place, seat) in seats.iter_mut().enumerate() {
                let Seat { frames, station, sink, .. } = seat;
                Work { build, burst, store, region, place }.serve(frames, station, sink, &mut ());
            }
            self.take_count();
            return Ok(took_ns);
        }
        for seat in &mut self.seats {
            self.card.work(&self.region, &mut seat.frames)?;
        }
        Ok(self.clock.now_ns() - begun_ns)
    }

    /// Pieces that the card has written into the store's memory for one pass, and their bytes.
    pub fn written(&self) -> (u64, u64) {
        let sets = FRAMES as u64 - self.gets;
        self.told.as_ref().map_or((0, 0), |_| told::written(self.gets, sets))
    }

    /// The card's work, where it is to be done for each pass.
    fn stage(&mut self) -> Result<(), DeviceError> {
        self.told.as_mut().map_or(Ok(()), |told| told.stage(&self.store))
    }

    /// Serves every request once.
    ///
    /// # Errors
    /// Where not every request was answered.
    pub fn pass(&mut self) -> Result<Pass, DeviceError> {
        self.run(|_| (), |()| [0; BATCH_STEPS], false)
    }

    /// The same, with each step of a burst timed.
    ///
    /// # Errors
    /// As of [`Staged::pass`].
    pub fn watched(&mut self) -> Result<Pass, DeviceError> {
        let watch =
            |clock: Clock| Stopwatch { clock, last_ns: clock.now_ns(), steps_ns: [0; BATCH_STEPS] };
        self.run(watch, |watch| watch.steps_ns, true)
    }

    fn run<W: Watch>(
        &mut self,
        watch: impl Fn(Clock) -> W + Sync,
        steps: impl Fn(W) -> [u64; BATCH_STEPS] + Sync,
        is_watched: bool,
    ) -> Result<Pass, DeviceError> {
        self.stage()?;
        let Staged { build, burst, store, region, seats, clock, .. } = self;
        let (build, burst, clock) = (*build, *burst, *clock);
        let (cold, warm) = (AtomicUsize::new(seats.len()), AtomicUsize::new(seats.len()));
        let timed =
            seats.iter().map(|seat| warming(&seat.frames, burst).1.len()).sum::<usize>() as u64;
        let ended = thread::scope(|scope| {
            let threads: Vec<_> = seats
                .iter_mut()
                .enumerate()
                .map(|(place, seat)| {
                    let (cold, warm, watch, steps) = (&cold, &warm, &watch, &steps);
                    let work = Work { build, burst, store, region, place };
                    scope.spawn(move || {
                        let _pinned = seat.core.map(Pinned::to);
                        let (first, timed) = warming(&seat.frames, burst);
                        let Seat { station, sink, .. } = seat;
                        meet(cold);
                        work.serve(first, station, sink, &mut ());
                        meet(warm);
                        let away_ns = delayed_ns();
                        let begun_ns = clock.now_ns();
                        let mut watch = watch(clock);
                        work.serve(timed, station, sink, &mut watch);
                        let ended_ns = clock.now_ns();
                        let away_ns = delayed_ns() - away_ns;
                        (begun_ns, ended_ns, away_ns, steps(watch))
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().ok()).collect::<Option<Vec<_>>>()
        });
        let broke_off = || broken("a core broke off");
        let ended = ended.ok_or_else(broke_off)?;
        let mut pass = Pass { is_watched, ..Pass::default() };
        let begun = ended.iter().map(|(begun, ..)| *begun).min().unwrap_or(0);
        pass.ns = ended.iter().map(|(_, end, ..)| *end).max().unwrap_or(0) - begun;
        for (begun, end, away, steps_ns) in ended {
            let took = end - begun;
            pass.worked_ns += took.saturating_sub(away);
            pass.is_disturbed |= away as f64 > AWAY_MAX * took as f64;
            pass.steps_ns.iter_mut().zip(steps_ns).for_each(|(sum, of)| *sum += of);
        }
        pass.requests = timed;
        match self.take_count() {
            answers if answers == FRAMES as u64 => Ok(pass),
            answers => Err(broken(format!("{answers} answers to {FRAMES} requests"))),
        }
    }

    /// Looks at each answer of one pass on this thread.
    ///
    /// # Errors
    /// As of [`Staged::card_ns`].
    pub fn judged(&mut self) -> Result<Judged, DeviceError> {
        self.stage()?;
        let (mut judged, mut gets) = (Judged::default(), 0);
        let Staged { build, burst, store, region, seats, .. } = self;
        let (build, burst) = (*build, *burst);
        for (place, seat) in seats.iter_mut().enumerate() {
            let Seat { frames, station, sink, .. } = seat;
            let mut judge = Judge { sink, is_open: false, gets: 0, wrong: 0, bytes: 0 };
            Work { build, burst, store, region, place }.serve(frames, station, &mut judge, &mut ());
            judge.close();
            judged.wrong += judge.wrong;
            judged.bytes += judge.bytes;
            judged.answers += judge.sink.count;
            gets += judge.gets;
        }
        self.take_count();
        judged.wrong = judged.wrong.max(self.gets.saturating_sub(gets));
        Ok(judged)
    }

    /// Requests since this was last asked: those that were answered, and items that the card has
    /// answered for.
    fn take_count(&mut self) -> u64 {
        let stored = self.store.statistics().stored.items;
        let by_card = stored - std::mem::replace(&mut self.stored, stored);
        let counts = self.seats.iter_mut().map(|seat| std::mem::take(&mut seat.sink.count));
        by_card + counts.sum::<u64>()
    }

    /// Empties the store.
    pub fn forget(&mut self) {
        self.store.flush(NOW, NOW);
    }
}

/// The requests of a core that it serves before the clock runs, whole bursts, and the others.
fn warming(frames: &[Desc], burst: usize) -> (&[Desc], &[Desc]) {
    frames.split_at(frames.len() / WARMING / burst * burst)
}

/// What a core serves requests with.
struct Work<'a> {
    build: Build,
    burst: usize,
    store: &'a Store,
    region: &'a Region,
    /// Which of the cores it is.
    place: usize,
}

impl Work<'_> {
    /// Serves these frames, or as many events that the card has told in their place.
    fn serve<W: Watch>(
        &self,
        frames: &[Desc],
        station: &mut Station,
        answers: &mut dyn Answers,
        watch: &mut W,
    ) {
        match self.build {
            Build::Dma => self.take(frames.len(), station, answers, watch),
            Build::Rss { .. } | Build::Steer => self.bursts(frames, station, answers, watch),
        }
    }

    fn context(&self) -> Context<'_> {
        Context { store: self.store, now: NOW, host: &() }
    }

    /// So many events, by bursts.
    fn take<W: Watch>(
        &self,
        count: usize,
        station: &mut Station,
        answers: &mut dyn Answers,
        watch: &mut W,
    ) {
        let mut left = count;
        while left > 0 {
            let most = self.burst.min(left);
            match station.turn(self.place, most, &self.context(), watch, answers) {
                0 => return,
                served => left -= served,
            }
        }
    }

    /// Frames, by bursts; as where they come from a ring, the first lines of those behind are asked
    /// for.
    fn bursts<W: Watch>(
        &self,
        frames: &[Desc],
        station: &mut Station,
        answers: &mut dyn Answers,
        watch: &mut W,
    ) {
        let is_steered = self.build == Build::Steer;
        let owner = |queue| (is_steered && usize::from(queue) == self.place).then_some(self.place);
        let mut bursts = frames.chunks(self.burst).peekable();
        while let Some(burst) = bursts.next() {
            if let Some(next) = bursts.peek() {
                next.iter().for_each(|desc| self.region.prefetch(desc));
            }
            station.serve(self.region, burst, owner, &self.context(), watch, answers);
        }
    }
}

/// Puts every key into a store.
fn fill(store: &Store, keys: u32) -> Result<(), DeviceError> {
    for number in 0..keys {
        let (key, value) = (key(number), value(number));
        let key = store.key(&key);
        let new = New { flags: 0, expiry: Expiry::NEVER, cas: u64::from(number) + 1, marks: 0 };
        let put = store.put(&key, new, Value::Whole(&value), NOW);
        put.map_err(|_| broken("a store without room"))?;
    }
    Ok(())
}

fn seat(core: Option<u32>, frames: Vec<Desc>) -> Result<Seat, DeviceError> {
    let (region, own) = Region::new(ANSWERS, 1_514).map_err(broken)?;
    let sink = Sink { region, frames: own, at: 0, count: 0 };
    Ok(Seat { core, frames, station: Station::new(STORE), sink })
}

/// The card's stage, in front of the cores that serve.
enum Card {
    /// RSS.
    Hash { _nic: Box<Nic>, worker: niclab_nic::Worker },
    /// A program, and the cores that it chooses from.
    Program { _pipeline: Box<Pipeline>, worker: niclab_program::Worker, cores: usize },
}

impl Card {
    fn new(build: Build, cores: usize) -> Result<Card, DeviceError> {
        Ok(match build {
            Build::Rss { .. } => {
                let config = NicConfig { queues: cores as u16, ..NicConfig::default() };
                let mut _nic = Box::new(Nic::new(&config).map_err(broken)?);
                let worker = _nic.worker();
                Card::Hash { _nic, worker }
            }
            // Told or not, a request is one for the owner of its key.
            Build::Steer | Build::Dma => {
                let _pipeline = Box::new(steering::pipeline(&STORE, cores).map_err(broken)?);
                let worker = _pipeline.worker();
                Card::Program { _pipeline, worker, cores }
            }
        })
    }

    /// Chooses a queue for each frame.
    fn work(&mut self, region: &Region, descs: &mut [Desc]) -> Result<(), DeviceError> {
        let mut rest = descs;
        while !rest.is_empty() {
            let (burst, behind) = rest.split_at_mut(BURST.min(rest.len()));
            behind.iter().take(BURST).for_each(|desc| region.prefetch(desc));
            match self {
                Card::Hash { worker, .. } => _ = worker.classify(region, burst),
                Card::Program { worker, cores, .. } => steer(worker, *cores, region, burst)?,
            }
            rest = behind;
        }
        Ok(())
    }
}

fn steer(
    worker: &mut niclab_program::Worker,
    cores: usize,
    region: &Region,
    burst: &mut [Desc],
) -> Result<(), DeviceError> {
    let mut fates = [Fate::Dropped(Lost::Told); BURST];
    worker.run(region, burst, 0, &mut fates, |_, _| {});
    for (desc, fate) in burst.iter_mut().zip(&fates) {
        match fate {
            Fate::Queue(queue) if (*queue as usize) < cores => desc.queue = *queue as u16,
            fate => return Err(broken(format!("the program says {fate:?} of a request"))),
        }
    }
    Ok(())
}

/// Waits until the other cores are here, too.
fn meet(waiting: &AtomicUsize) {
    waiting.fetch_sub(1, Ordering::AcqRel);
    let mut spins = 0;
    while waiting.load(Ordering::Acquire) > 0 {
        spins += 1;
        match spins % SPINS_MAX {
            0 => thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
    }
}

/// Time that this thread could have run and something else had its core, nanoseconds: waiting for
/// the other cores is none of it (the kernel's sched-stats.rst). 0 where the kernel does not count.
fn delayed_ns() -> u64 {
    let counted = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    counted.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}
