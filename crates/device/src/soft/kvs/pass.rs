//! Passes over requests that lie in memory, by a card of as many cores as serve.
//!
//! A pass has two parts. In the first, one thread lets all cores of the card take the requests,
//! choose their queues and hand them to the core of the queue, whose [`StoreHost`] keeps them in
//! memory. In the second, each core has a thread, and its turns serve what the host has kept: that
//! part is timed. Answers leave by the card's port.

use std::sync::Arc;

use niclab_apps::kvs::codec::datagram::batch::BATCH_STEPS;
use niclab_apps::kvs::protocol::time::{Expiry, UnixTime};
use niclab_apps::kvs::store::{NewItem, Spread, Store, Value};
use niclab_card::items::Items;
use niclab_card::{Card, CardConfig, CardWorkload, Core, PacketProcessor, steering};
use niclab_load::clock::Clock;
use niclab_nic::limits::BURST;

use super::super::at_once::{Barrier, delayed_ns, on_cores};
use super::super::broken;
use super::super::kept_frames::FrameMemory;
use super::super::replay::{Destination, Replay};
use super::Build;
use super::dma_writes;
use super::host::{SharedHost, StoreHost};
use super::load::{
    FRAMES, KEY_NUMBER_AT, KeyWorkload, STORE, VALUE_AT, VALUE_LEN, frames, is_get, key, value,
};
use crate::face::DeviceError;

/// Memory of the store: much more than its items need.
const STORE_BYTES: usize = 256 << 20;

/// The time of day for the store.
pub(super) const NOW: UnixTime = UnixTime(1_700_000_000);

/// A core that does not run us for more than this share of a pass disturbs it.
const AWAY_MAX: f64 = 0.02;

/// The share of a core's requests of a pass that it serves before the clock runs, one of so many:
/// the card's stage leaves caches otherwise than they are in the midst of serving.
const WARMING: usize = 4;

/// Room that a segment has to have for all sets of a pass that one core may own, bytes.
const PASS_LEN: usize = 1 << 19;

/// Rounds of turns behind the last frame: a core takes a frame of another one a round or two after
/// that has given it.
const LAST_ROUNDS: usize = 4;

/// Rounds of turns in which a full segment gives way to the next one.
const ROUNDS_MAX: usize = 16;

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
    /// Time of all cores by step of a batch, where they were timed.
    pub steps_ns: [u64; BATCH_STEPS],
}

/// A store, the card in front of it, and the requests for it.
pub struct StagedStore {
    build: Build,
    store: Arc<Store>,
    card: Card,
    cores: Vec<Core>,
    /// By core: where its thread keeps to; none: wherever there is room.
    pinned: Vec<Option<u32>>,
    /// By core: what serves there.
    hosts: Vec<Arc<SharedHost>>,
    port: Replay,
    frame_bytes: u64,
    /// So many requests are gets.
    gets: u64,
    clock: Clock,
}

/// What was seen of all answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerCheck {
    /// So many were not right.
    pub wrong: u64,
    /// Frames with answers.
    pub answers: u64,
    /// Bytes of all together, without FCS.
    pub bytes: u64,
}

impl StagedStore {
    /// A store with all keys behind a card. So many requests, at most [`BURST`], are served
    /// together. The threads keep to `cores`.
    ///
    /// # Errors
    /// [`DeviceError::Broken`] where there is no memory, or a frame of the load cannot be made;
    /// [`DeviceError::NotSupported`] where a segment has no room for the sets of a core.
    pub fn new(
        build: Build,
        asked: &KeyWorkload,
        cores: &[Option<u32>],
        burst: usize,
    ) -> Result<StagedStore, DeviceError> {
        let (spread, partitions) = match build {
            Build::Rss { partitions } => (Spread::Secret, partitions),
            Build::Steer | Build::Dma => (Spread::Steered, cores.len()),
        };
        let store = Store::new(STORE_BYTES, partitions, 7).map_err(broken)?.spread_by(spread);
        let program = program(build, &store, cores.len())?;
        fill(&store, asked.count)?;
        let frames = frames(asked)?;
        let gets = frames.iter().filter(|frame| is_get(frame)).count() as u64;
        let frame_bytes = frames.iter().map(|frame| frame.len() as u64).sum();
        let longest = frames.iter().map(Vec::len).max().unwrap_or(0);
        let memory = FrameMemory::new(frames.len(), longest)?;
        let store = Arc::new(store);
        let shared_host =
            |place| SharedHost::new((build, burst.clamp(1, BURST), place), &store, &memory);
        let hosts: Vec<Arc<SharedHost>> = (0..cores.len()).map(shared_host).collect();
        let services = hosts.iter().map(|shared_host| StoreHost::service(shared_host)).collect();
        let ports = Replay::ports(frames, 1);
        let port = ports[0].clone();
        let queues = match build {
            Build::Steer => steering::queues(cores.len()),
            Build::Rss { .. } | Build::Dma => cores.len() as u16,
        };
        let numbers = (0..cores.len() as u32).collect();
        let runs = CardWorkload { program, services, ..CardWorkload::default() };
        let made = Card::driven(&CardConfig::new(ports, queues, numbers), runs);
        let (card, driven) = made.map_err(broken)?;
        let (pinned, clock) = (cores.to_vec(), Clock::new());
        let cores = driven;
        let mut staged = StagedStore {
            build,
            store,
            card,
            cores,
            pinned,
            hosts,
            port,
            frame_bytes,
            gets,
            clock,
        };
        // So many of the card's events are each core's, in every pass.
        staged.stage()?;
        staged.serve_all();
        Ok(staged)
    }

    /// What the card does for the store.
    pub fn build(&self) -> Build {
        self.build
    }

    /// Bytes of all requests, without FCS.
    pub fn frame_bytes(&self) -> u64 {
        self.frame_bytes
    }

    /// Requests of each core.
    pub fn shares(&self) -> Vec<u64> {
        self.hosts.iter().map(|shared_host| shared_host.share()).collect()
    }

    /// The share of requests that the first core has.
    pub fn share(&self) -> f64 {
        self.hosts[0].share() as f64 / FRAMES as f64
    }

    /// Has the card do its work on every request again, on this thread, and says what that took,
    /// nanoseconds. The requests are served behind it.
    ///
    /// # Errors
    /// [`DeviceError::Broken`] where it does something else.
    pub fn card_ns(&mut self) -> Result<u64, DeviceError> {
        let took_ns = self.stage()?;
        self.serve_all();
        Ok(took_ns)
    }

    /// Pieces that the card has written into the store's memory for one pass, and their bytes.
    pub fn dma_writes(&self) -> (u64, u64) {
        match self.build {
            Build::Dma => dma_writes::count(self.gets, FRAMES as u64 - self.gets),
            Build::Rss { .. } | Build::Steer => (0, 0),
        }
    }

    /// Lets the card take all requests; what that took without the writing of them, nanoseconds.
    fn stage(&mut self) -> Result<u64, DeviceError> {
        (0..self.cores.len()).try_for_each(|owner| self.make_room(owner))?;
        self.hosts.iter().for_each(|shared_host| shared_host.begin());
        self.port.begin(FRAMES, BURST);
        self.cores.iter_mut().for_each(|core| _ = core.turn());
        let begun_ns = self.clock.now_ns();
        while self.cores.iter_mut().map(Core::turn).sum::<usize>() > 0 {}
        for _ in 0..LAST_ROUNDS {
            self.cores.iter_mut().for_each(|core| _ = core.turn());
        }
        let took_ns = self.clock.now_ns() - begun_ns;
        match self.hosts.iter().map(|shared_host| shared_host.end_staging()).sum::<u64>() {
            _ if self.build == Build::Dma
                && self.hosts.iter().any(|shared_host| shared_host.has_frames()) =>
            {
                Err(dma_writes::too_many())
            }
            count if self.build != Build::Dma && count != FRAMES as u64 => {
                Err(broken(format!("{count} of {FRAMES} requests came to the cores")))
            }
            _ => Ok(took_ns),
        }
    }

    /// Has the card go on with another segment where the one that it fills has little room.
    fn make_room(&mut self, owner: usize) -> Result<(), DeviceError> {
        let has_room = |card: &Card| card.items_room(owner).is_none_or(|room| room >= PASS_LEN);
        if has_room(&self.card) {
            return Ok(());
        }
        self.card.skip_items_segment(owner);
        for _ in 0..ROUNDS_MAX {
            self.cores.iter_mut().for_each(|core| _ = core.turn());
            self.store.catch_up(owner);
            if has_room(&self.card) {
                return Ok(());
            }
        }
        Err(broken("no empty segment for the card"))
    }

    /// Serves all that was staged on this thread.
    fn serve_all(&mut self) {
        for (core, shared_host) in self.cores.iter_mut().zip(&self.hosts) {
            shared_host.serve(None);
            while shared_host.remaining() > 0 {
                core.turn();
            }
            shared_host.stop();
        }
    }

    /// Serves every request once.
    ///
    /// # Errors
    /// Where not every request was answered.
    pub fn pass(&mut self) -> Result<Pass, DeviceError> {
        self.run(false)
    }

    /// The same, with each step of a burst timed.
    ///
    /// # Errors
    /// As of [`StagedStore::pass`].
    pub fn timed_pass(&mut self) -> Result<Pass, DeviceError> {
        self.run(true)
    }

    fn run(&mut self, is_watched: bool) -> Result<Pass, DeviceError> {
        let before = self.port.arrived();
        self.stage()?;
        let StagedStore { cores, hosts, pinned, clock, .. } = self;
        let clock = *clock;
        let parts = cores.iter_mut().zip(&*hosts);
        let ended = on_cores(pinned, parts, |(core, shared_host), barrier| {
            serve(core, shared_host, barrier, is_watched.then_some(clock), clock)
        })?;
        let mut pass = Pass { is_watched, ..Pass::default() };
        let begun = ended.iter().map(|of| of.begun_ns).min().unwrap_or(0);
        pass.ns = ended.iter().map(|of| of.ended_ns).max().unwrap_or(0) - begun;
        for of in ended {
            let took = of.ended_ns - of.begun_ns;
            pass.worked_ns += took.saturating_sub(of.away_ns);
            pass.is_disturbed |= of.away_ns as f64 > AWAY_MAX * took as f64;
            pass.steps_ns.iter_mut().zip(of.steps_ns).for_each(|(sum, of)| *sum += of);
            pass.requests += of.requests;
        }
        // The card's answers are among these.
        match self.port.arrived() - before {
            answers if answers == FRAMES as u64 => Ok(pass),
            answers => Err(broken(format!("{answers} answers to {FRAMES} requests"))),
        }
    }

    /// Looks at each answer of one pass on this thread.
    ///
    /// # Errors
    /// As of [`StagedStore::card_ns`].
    pub fn check_answers(&mut self) -> Result<AnswerCheck, DeviceError> {
        self.stage()?;
        self.port.keep(true);
        self.serve_all();
        self.port.keep(false);
        let (mut judged, mut gets) = (AnswerCheck::default(), 0);
        for arrived in self.port.take_kept() {
            let Destination::Port(_, frame) = arrived else { continue };
            let is_get = is_answer_to_get(&frame);
            gets += u64::from(is_get);
            judged.wrong += u64::from(!is_get && !is_answer_to_set(&frame));
            judged.answers += 1;
            judged.bytes += frame.len() as u64;
        }
        judged.wrong = judged.wrong.max(self.gets.saturating_sub(gets));
        Ok(judged)
    }

    /// Ends the card; the frames that its engine took in all passes.
    ///
    /// # Errors
    /// [`DeviceError::Broken`] where it lost frames of its memory.
    pub fn end(self) -> Result<u64, DeviceError> {
        let (ended, _) = self.card.shut_down_driven(self.cores);
        match ended.frames_lost {
            0 => Ok(ended.counters.rx_frames()),
            lost => Err(broken(format!("the card has lost {lost} of its frames"))),
        }
    }

    /// Empties the store.
    pub fn clear(&mut self) {
        self.store.flush(NOW, NOW);
    }
}

/// Whether a frame has the value of the key whose number it says.
fn is_answer_to_get(frame: &[u8]) -> bool {
    let number = frame[KEY_NUMBER_AT..].first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
    frame.get(VALUE_AT..VALUE_AT + VALUE_LEN) == Some(&value(number)[..])
}

/// Whether a frame is the answer to a set, which is a header alone.
fn is_answer_to_set(frame: &[u8]) -> bool {
    let answer = &frame[42 + 8..];
    answer[1] == 1 && answer[6..8] == [0, 0]
}

/// The figures of a core in a pass.
struct CorePass {
    begun_ns: u64,
    ended_ns: u64,
    /// Time in which something else had the core.
    away_ns: u64,
    requests: u64,
    steps_ns: [u64; BATCH_STEPS],
}

/// Has a core serve all that its host has kept: the first quarter of it before the clock runs, and
/// both parts at the same time as the other cores.
fn serve(
    core: &mut Core,
    shared_host: &SharedHost,
    barrier: &Barrier,
    watch: Option<Clock>,
    clock: Clock,
) -> CorePass {
    barrier.wait();
    shared_host.serve(None);
    let timed = shared_host.remaining() - shared_host.remaining() / WARMING;
    while shared_host.remaining() > timed {
        core.turn();
    }
    shared_host.serve(watch);
    barrier.wait();
    let (requests, away_ns) = (shared_host.remaining() as u64, delayed_ns());
    let begun_ns = clock.now_ns();
    while shared_host.remaining() > 0 {
        core.turn();
    }
    let ended_ns = clock.now_ns();
    let away_ns = delayed_ns() - away_ns;
    CorePass { begun_ns, ended_ns, away_ns, requests, steps_ns: shared_host.stop() }
}

/// The program that steers requests in place of RSS.
fn program(
    build: Build,
    store: &Store,
    cores: usize,
) -> Result<Option<PacketProcessor>, DeviceError> {
    Ok(match build {
        Build::Rss { .. } => None,
        Build::Steer => Some(steering::pipeline(&STORE, cores).map_err(broken)?.into()),
        Build::Dma => {
            // All of a pass are reported before any is taken.
            let made = Items::new(&STORE, cores, STORE_BYTES, Some(FRAMES as u32));
            let (mut items, segments) = made.map_err(broken)?;
            items.set_time(NOW);
            store.attach_dma(segments.into_iter());
            Some(items.into())
        }
    })
}

/// Puts every key into a store.
fn fill(store: &Store, keys: u32) -> Result<(), DeviceError> {
    for number in 0..keys {
        let (key, value) = (key(number), value(number));
        let key = store.key(&key);
        let new = NewItem { flags: 0, expiry: Expiry::NEVER, cas: u64::from(number) + 1, marks: 0 };
        let put = store.put(&key, new, Value::Whole(&value), NOW);
        put.map_err(|_| broken("a store without room"))?;
    }
    Ok(())
}
