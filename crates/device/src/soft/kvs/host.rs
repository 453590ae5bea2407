//! The host behind a core of the card: it keeps the requests that come by the core's queues in
//! memory of its own, as a card writes them there, and serves them when a pass asks for it.
//!
//! So the card's work and the store's are apart in time, and each is timed by itself. It wraps the
//! [`Station`] that `niclab kvs` has behind its queues.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use niclab_apps::kvs::codec::context::Context;
use niclab_apps::kvs::codec::datagram::batch::{BATCH_STEPS, BatchStep, StepObserver};
use niclab_apps::kvs::store::Store;
use niclab_apps::kvs::transport::card::Station;
use niclab_apps::service::{Answers, Service};
use niclab_load::clock::Clock;
use niclab_nic::memory::{Desc, Region};

use super::super::kept_frames::{FrameMemory, KeptFrames};
use super::Build;
use super::load::STORE;
use super::pass::NOW;

/// The work of a host in a turn of its core.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It keeps what comes.
    Staging,
    /// It serves a burst of what it has kept.
    Serving,
}

/// One core's host, as the pass and the core share it.
pub struct SharedHost {
    /// Requests that are still to be served.
    left: AtomicUsize,
    host: Mutex<StoreHost>,
}

/// Serves one core.
pub struct StoreHost {
    build: Build,
    /// Requests that are served together.
    burst: usize,
    /// Which of the cores it is.
    place: usize,
    store: Arc<Store>,
    station: Station,
    /// Requests.
    kept: KeptFrames,
    /// Requests of a pass.
    share: usize,
    phase: Phase,
    stopwatch: Option<Stopwatch>,
}

/// Times each step of a burst.
struct Stopwatch {
    clock: Clock,
    last_ns: u64,
    steps_ns: [u64; BATCH_STEPS],
}

impl StepObserver for Stopwatch {
    #[inline]
    fn done(&mut self, step: BatchStep) {
        let now_ns = self.clock.now_ns();
        self.steps_ns[step as usize] += now_ns - self.last_ns;
        self.last_ns = now_ns;
    }
}

impl SharedHost {
    /// A host of a store, that serves in this way: build, burst and place among the cores.
    pub fn new(
        (build, burst, place): (Build, usize, usize),
        store: &Arc<Store>,
        memory: &FrameMemory,
    ) -> Arc<SharedHost> {
        let host = StoreHost {
            build,
            burst,
            place,
            store: Arc::clone(store),
            station: Station::new(STORE),
            kept: KeptFrames::new(memory),
            share: 0,
            phase: Phase::Staging,
            stopwatch: None,
        };
        Arc::new(SharedHost { left: AtomicUsize::new(0), host: Mutex::new(host) })
    }

    fn host(&self) -> MutexGuard<'_, StoreHost> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests of a pass.
    pub fn share(&self) -> u64 {
        self.host().share as u64
    }

    /// Requests that are still to be served.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    /// Keeps what comes from now on, and forgets what came before.
    pub fn begin(&self) {
        let mut host = self.host();
        host.kept.clear();
        host.phase = Phase::Staging;
    }

    /// Nothing comes any more: how many requests there are to be served. Of events of a card it is
    /// known once they were served.
    pub fn end_staging(&self) -> u64 {
        let mut host = self.host();
        let is_known = host.build != Build::Dma;
        if is_known {
            host.share = host.kept.len();
        }
        let is_first = !is_known && host.share == 0;
        self.left.store(if is_first { usize::MAX } else { host.share }, Ordering::Relaxed);
        host.share as u64
    }

    /// Whether frames were kept.
    pub fn has_frames(&self) -> bool {
        self.host().kept.len() > 0
    }

    /// Serves from now on, a burst a turn; with a clock, each step is timed.
    pub fn serve(&self, watch: Option<Clock>) {
        let mut host = self.host();
        host.phase = Phase::Serving;
        host.stopwatch =
            watch.map(|clock| Stopwatch { clock, last_ns: 0, steps_ns: [0; BATCH_STEPS] });
    }

    /// Serves no more; the time of each step.
    pub fn stop(&self) -> [u64; BATCH_STEPS] {
        let mut host = self.host();
        host.phase = Phase::Staging;
        host.stopwatch.take().map_or([0; BATCH_STEPS], |watch| watch.steps_ns)
    }
}

impl StoreHost {
    /// The service that a core of the card runs.
    pub fn service(host: &Arc<SharedHost>) -> Box<dyn Service> {
        Box::new(HostService(Arc::clone(host)))
    }

    /// Serves a burst of at most `most` requests; returns their number.
    fn serve(&mut self, most: usize, answers: &mut dyn Answers) -> usize {
        match self.stopwatch.take() {
            None => self.burst(most, answers, &mut ()),
            Some(mut watch) => {
                watch.last_ns = watch.clock.now_ns();
                let served = self.burst(most, answers, &mut watch);
                self.stopwatch = Some(watch);
                served
            }
        }
    }

    fn burst<W: StepObserver>(
        &mut self,
        most: usize,
        answers: &mut dyn Answers,
        watch: &mut W,
    ) -> usize {
        let StoreHost { build, burst, place, store, station, kept, .. } = self;
        let (place, most) = (*place, most.min(*burst));
        let context = Context { store, now: NOW, host: &() };
        if *build == Build::Dma {
            return station.turn(place, most, &context, watch, answers);
        }
        let (region, now) = kept.take(most);
        let is_steered = *build == Build::Steer;
        let owner = |queue| (is_steered && usize::from(queue) == place).then_some(place);
        station.serve(region, now, owner, &context, watch, answers);
        now.len()
    }
}

/// The service of one core, which its host shares.
struct HostService(Arc<SharedHost>);

impl Service for HostService {
    fn serve(&mut self, region: &Region, frames: &[Desc], _: &mut dyn Answers) {
        self.0.host().kept.keep(region, frames);
    }

    fn turn(&mut self, answers: &mut dyn Answers) -> bool {
        let left = self.0.remaining();
        if left == 0 {
            return false;
        }
        let mut host = self.0.host();
        if host.phase == Phase::Staging {
            return false;
        }
        match host.serve(left, answers) {
            // The card has reported no more.
            0 => {
                host.share = host.share.max(usize::MAX - left);
                self.0.left.store(0, Ordering::Relaxed);
            }
            served => self.0.left.store(left - served, Ordering::Relaxed),
        }
        true
    }
}
