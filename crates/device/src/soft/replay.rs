//! Frames in memory that come to the card, pass by pass: a port without a wire and without a clock.
//!
//! A pass is begun by its owner ([`Replay::begin`]). In its next turn the card's core writes the
//! frames into slots of the card and takes none; in the turns after it the core takes them, a burst
//! a turn, in their order. So the time of those turns has no writing of frames in it.
//!
//! All frames come by the first port; where the card has several cores, each takes its share of
//! them by turns. Frames leave by any port, and those that go to a queue reach an
//! application that reads nothing of them ([`Replay::application`]).

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use niclab_apps::service::{Answers, Service};
use niclab_card::{PortError, PortSource};
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use niclab_port::Burst;
use niclab_port::frame_pool::FramePool;
use niclab_port::queue_pair::{QueuePair, QueuePairCounters};

/// One port; its clones are the same one.
#[derive(Clone)]
pub(super) struct Replay {
    number: usize,
    shared: Arc<ReplayState>,
}

/// The state that all ports share.
struct ReplayState {
    /// What comes, in this order, without FCS.
    frames: Mutex<Vec<Vec<u8>>>,
    /// Frames at most.
    capacity: usize,
    /// Passes that have begun, and the frames of the last one.
    passes: AtomicU64,
    count: AtomicUsize,
    /// Frames that come together.
    burst: AtomicUsize,
    /// Frames of all passes that left by a port or reached the application.
    arrived: AtomicU64,
    /// Where these frames went is kept.
    is_kept: AtomicBool,
    kept: Mutex<Vec<Destination>>,
}

/// Where a frame went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// Out by the port of this number, with these bytes.
    Port(usize, Vec<u8>),
    /// To the queue of this number.
    Queue(u16),
}

impl Replay {
    /// So many ports, by the first of which these frames come.
    pub(super) fn ports(frames: Vec<Vec<u8>>, count: usize) -> Vec<Replay> {
        let shared = Arc::new(ReplayState {
            capacity: frames.len(),
            frames: Mutex::new(frames),
            passes: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            burst: AtomicUsize::new(BURST),
            arrived: AtomicU64::new(0),
            is_kept: AtomicBool::new(false),
            kept: Mutex::default(),
        });
        (0..count).map(|number| Replay { number, shared: Arc::clone(&shared) }).collect()
    }

    /// Begins a pass of the first `count` frames, of which `burst` come together. Frames of the
    /// pass before that have not come yet do not come any more.
    pub(super) fn begin(&self, count: usize, burst: usize) {
        self.shared.count.store(count, Ordering::Relaxed);
        self.shared.burst.store(burst.clamp(1, BURST), Ordering::Relaxed);
        self.shared.passes.fetch_add(1, Ordering::Release);
    }

    /// Replaces the frames from the next pass on. There are at most as many as at first.
    pub(super) fn replace(&self, frames: Vec<Vec<u8>>) {
        *self.shared.frames.lock().unwrap_or_else(PoisonError::into_inner) = frames;
    }

    /// Frames of all passes so far that left by a port or reached the application.
    pub(super) fn arrived(&self) -> u64 {
        self.shared.arrived.load(Ordering::Relaxed)
    }

    /// Keeps from now on where frames go, or no longer.
    pub(super) fn keep(&self, is_kept: bool) {
        self.shared.is_kept.store(is_kept, Ordering::Relaxed);
    }

    /// Where the frames went that were kept since the last call.
    pub(super) fn take_kept(&self) -> Vec<Destination> {
        std::mem::take(&mut *self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The application on the queues.
    pub(super) fn application(&self) -> Box<dyn Service> {
        Box::new(ReplaySink(Arc::clone(&self.shared)))
    }
}

impl ReplayState {
    #[inline]
    fn arrive(&self, count: usize, arrived: impl Iterator<Item = Destination>) {
        self.arrived.fetch_add(count as u64, Ordering::Relaxed);
        if self.is_kept.load(Ordering::Relaxed) {
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).extend(arrived);
        }
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("frames in memory")
    }
}

impl PortSource for Replay {
    fn queue_pair_frames(&self) -> usize {
        // What is under way needs slots too.
        let waiting = if self.number == 0 { self.shared.capacity } else { 0 };
        waiting + 8 * BURST
    }

    fn open(&self, count: u32, region: &Arc<Region>) -> Result<Vec<Box<dyn QueuePair>>, PortError> {
        let count = count as usize;
        let queue_pair = |first| -> Box<dyn QueuePair> {
            Box::new(ReplayQueuePair {
                port: self.clone(),
                share: (first, count),
                region: Arc::clone(region),
                begun: 0,
                waiting: VecDeque::with_capacity(self.shared.capacity),
                counters: QueuePairCounters::default(),
            })
        };
        Ok((0..count).map(queue_pair).collect())
    }

    fn can_reopen(&self) -> bool {
        false
    }
}

struct ReplayQueuePair {
    port: Replay,
    /// The first of its frames, and the distance from each to the next.
    share: (usize, usize),
    region: Arc<Region>,
    /// Passes whose frames it has written.
    begun: u64,
    /// Frames that are still to come.
    waiting: VecDeque<Desc>,
    counters: QueuePairCounters,
}

impl ReplayQueuePair {
    /// Writes the frames of a pass, as many as there are slots for.
    #[cold]
    fn fill(&mut self, pool: &mut FramePool) {
        self.waiting.drain(..).for_each(|desc| pool.give(desc));
        let (first, step) = self.share;
        let frames = self.port.shared.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let frames = frames.iter().take(self.port.shared.count.load(Ordering::Relaxed));
        for frame in frames.skip(first).step_by(step) {
            let Some(mut desc) = pool.take() else { return };
            self.region.slot_mut(&mut desc)[..frame.len()].copy_from_slice(frame);
            self.region.set_len(&mut desc, frame.len() as u16);
            self.waiting.push_back(desc);
        }
    }
}

impl QueuePair for ReplayQueuePair {
    fn receive(&mut self, pool: &mut FramePool, into: &mut Burst) -> io::Result<()> {
        if self.port.number != 0 {
            return Ok(());
        }
        let passes = self.port.shared.passes.load(Ordering::Acquire);
        if passes != self.begun {
            self.begun = passes;
            self.fill(pool);
            return Ok(());
        }
        let most = self.port.shared.burst.load(Ordering::Relaxed).min(into.remaining_capacity());
        for desc in self.waiting.drain(..most.min(self.waiting.len())) {
            self.counters.rx_bytes += u64::from(desc.len());
            into.push(desc);
        }
        self.counters.rx_frames += into.len() as u64;
        // As of a ring, the first line of the next burst is asked for.
        self.waiting.iter().take(most).for_each(|desc| self.region.prefetch(desc));
        Ok(())
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Burst) -> io::Result<()> {
        if burst.is_empty() {
            return Ok(());
        }
        let ReplayQueuePair { port: Replay { number, shared }, region, counters, .. } = self;
        let arrived = |desc| Destination::Port(*number, region.frame(desc).to_vec());
        shared.arrive(burst.len(), burst.iter().map(arrived));
        counters.tx_frames += burst.len() as u64;
        counters.tx_bytes += burst.iter().map(|desc| u64::from(desc.len())).sum::<u64>();
        pool.give_all(burst);
        Ok(())
    }

    fn counters(&self) -> QueuePairCounters {
        self.counters
    }

    fn close(self: Box<Self>, pool: &mut FramePool) -> io::Result<QueuePairCounters> {
        self.waiting.into_iter().for_each(|desc| pool.give(desc));
        Ok(self.counters)
    }
}

/// Takes the frames of its queues.
struct ReplaySink(Arc<ReplayState>);

impl Service for ReplaySink {
    fn serve(&mut self, _: &Region, frames: &[Desc], _: &mut dyn Answers) {
        self.0.arrive(frames.len(), frames.iter().map(|desc| Destination::Queue(desc.queue)));
    }
}
