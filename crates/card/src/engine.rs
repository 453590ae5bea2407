//! One core of a card: its queue pairs, the rules, the rings to the other cores, the function.
//!
//! A turn takes the bursts of every port, classifies their frames (`classify`) and dispatches each
//! to the core of its queue (`dispatch`), where the function works on it (`function`), and sends.
//! Applications have their turns between (`application`).

mod application;
mod classify;
mod dispatch;
mod function;
mod shutdown;
mod sleep;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use niclab_port::Burst;
use niclab_port::frame_pool::FramePool;
use niclab_port::inter_core::InterCoreRings;
use niclab_port::wake::Doorbell;
use rustix::time::{ClockId, clock_gettime};

use crate::applications::Host;
use crate::card::Receive;
use crate::core_service::CoreService;
use crate::counters::PublishedCoreCounters;
use crate::external_queues::ExternalQueueEnd;
use crate::flow_migration::{Completed, Progress};
use crate::port_context::PortContext;
use crate::program_instance::InstanceReceiver;

/// Turns after which counters are shown, where there is no pause before; and time, where turns are
/// long.
const PUBLISH_TURNS: u32 = 1_024;
const PUBLISH_NS: u64 = 2_000_000;

/// Turns without a frame after which others may have the core for a moment.
const IDLE_TURNS: u32 = 64;

/// Bursts of each port in a turn where there are applications.
const INTAKE_BURSTS: usize = 4;

/// One core.
pub(crate) struct Engine {
    /// Its place among the card's.
    pub(crate) place: usize,
    pub(crate) contexts: Vec<PortContext>,
    /// By port that frames come by: rings to the other cores, and from them.
    pub(crate) inter_core: Vec<InterCoreRings>,
    /// By core: frames of a burst that go to it.
    pub(crate) bound: Vec<Burst>,
    /// External queues of this core.
    pub(crate) external_queues: Vec<ExternalQueueEnd>,
    /// The service that answers frames instead of forwarding them.
    pub(crate) service: Option<CoreService>,
    pub(crate) pool: FramePool,
    /// The program that classifies frames in place of rules and RSS, if there is one.
    pub(crate) program: InstanceReceiver,
    /// Applications that have flows of their own.
    pub(crate) host: Option<Box<Host>>,
    /// How far all cores are, and this one.
    pub(crate) progress: Arc<Progress>,
    pub(crate) completed: Completed,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) begun: Instant,
    /// Since then, at the beginning of this turn.
    pub(crate) now_ns: u64,
    /// Time of turns with something to do.
    pub(crate) busy_ns: u64,
    /// Frames that came by its ports in this turn.
    pub(crate) received: usize,
    /// Frames that have come by its ports in all turns.
    pub(crate) rx_frames: u64,
    /// Frames that the function here has had.
    pub(crate) frames: u64,
    /// The published counters.
    pub(crate) published: Arc<PublishedCoreCounters>,
    /// How it waits for frames.
    pub(crate) receive: Receive,
    /// The doorbell of each core.
    pub(crate) doorbells: Arc<[Doorbell]>,
    /// How often the control side told the cores something, and how often this one has looked.
    pub(crate) notifications: Arc<AtomicU64>,
    pub(crate) notifications_seen: u64,
    /// Cores that were given something in this turn.
    pub(crate) cores_to_wake: Box<[bool]>,
}

/// A core of a card, which works turn by turn.
///
/// The threads of a card have one each. [`Card::driven`](crate::Card::driven) gives it to the
/// caller.
pub struct Core {
    engine: Engine,
    burst: Burst,
    /// Turns in a row that had nothing to do.
    idle: u32,
    /// Turns since counters were shown, and when that was.
    turns: u32,
    published_ns: u64,
}

impl Core {
    pub(crate) fn new(engine: Engine) -> Core {
        Core { engine, burst: Burst::new(), idle: 1, turns: 0, published_ns: 0 }
    }

    /// Takes the frames that have come by its ports, a burst of each, and those of other cores, and
    /// sends what is to leave. Returns how many came by its ports.
    #[inline]
    pub fn turn(&mut self) -> usize {
        let Core { engine, burst, idle, turns, published_ns: shown_ns } = self;
        let (was_busy, before_ns) = (*idle == 0, engine.now_ns);
        engine.now_ns = engine.begun.elapsed().as_nanos() as u64;
        engine.busy_ns += if was_busy { engine.now_ns - before_ns } else { 0 };
        engine.received = 0;
        let is_busy = engine.turn(burst);
        engine.rx_frames += engine.received as u64;
        *idle = if is_busy { 0 } else { *idle + 1 };
        *turns += 1;
        // Where one port has frames all the time another may have none.
        let is_time = *turns == PUBLISH_TURNS || engine.now_ns - *shown_ns > PUBLISH_NS;
        let is_notified = engine.notifications.load(Ordering::Relaxed) != engine.notifications_seen;
        if *idle >= IDLE_TURNS || is_time || is_notified {
            engine.refresh();
        }
        // While it sleeps nobody would show them.
        if *idle == IDLE_TURNS || is_time || self.sleeps() {
            self.engine.publish();
            (self.turns, self.published_ns) = (0, self.engine.now_ns);
        }
        self.engine.received
    }

    /// Whether others may have the core: there was nothing to do in many turns.
    pub fn is_idle(&self) -> bool {
        self.idle >= IDLE_TURNS
    }

    fn sleeps(&self) -> bool {
        self.is_idle() && self.engine.receive == Receive::Interrupt
    }

    /// Works until it has to stop, and gives back its frames.
    pub(crate) fn run(mut self) -> FramePool {
        while !self.engine.stop.load(Ordering::Relaxed) {
            self.turn();
            match self.sleeps() {
                true => self.engine.sleep(),
                false if self.is_idle() => std::thread::yield_now(),
                false => {}
            }
        }
        self.shut_down()
    }

    /// Lets what is under way leave, and gives back every frame.
    pub(crate) fn shut_down(self) -> FramePool {
        self.engine.shut_down(self.burst)
    }
}

impl Engine {
    fn refresh(&mut self) {
        self.notifications_seen = self.notifications.load(Ordering::Acquire);
        self.program.receive();
        if let Some(instance) = &mut self.program.instance {
            // What was in its tables may be used again.
            instance.run(0, &mut Burst::new(), &mut self.pool);
        }
        if let Some(host) = &mut self.host {
            host.refresh(&mut self.pool);
        }
        for context in &mut self.contexts {
            if context.refresh(&mut self.pool) {
                self.cores_to_wake.fill(true);
            }
        }
        self.wake();
    }

    fn publish(&mut self) {
        self.contexts.iter_mut().for_each(PortContext::publish);
        self.external_queues.iter().for_each(ExternalQueueEnd::publish);
        self.host.iter().for_each(|host| host.publish());
        self.published.rx_frames.store(self.rx_frames, Ordering::Relaxed);
        self.published.frames.store(self.frames, Ordering::Relaxed);
        let ran = clock_gettime(ClockId::ThreadCPUTime);
        let ran_ns = ran.tv_sec as u64 * 1_000_000_000 + ran.tv_nsec as u64;
        self.published.cpu_ns.store(ran_ns, Ordering::Relaxed);
        self.published.busy_ns.store(self.busy_ns, Ordering::Relaxed);
    }

    /// Frames of every queue pair, then of the other cores, then out; whether there was any.
    fn turn(&mut self, burst: &mut Burst) -> bool {
        let mut is_busy = false;
        for tap in self.contexts.iter_mut().filter_map(|context| context.capture.as_mut()) {
            tap.now_ns = self.now_ns;
        }
        // Frames of an application that has too many are to be dropped for it, not missed for all.
        for _ in 0..if self.host.is_some() { INTAKE_BURSTS } else { 1 } {
            let mut any = false;
            for port in 0..self.contexts.len() {
                any |= self.receive(port, burst);
            }
            is_busy |= any;
            if !any {
                break;
            }
        }
        is_busy |= self.run_applications();
        self.forward(burst) | is_busy
    }

    /// Handles frames from other cores, transmits, and dispatches held frames. Returns whether
    /// there was any.
    fn forward(&mut self, burst: &mut Burst) -> bool {
        self.program.instance.iter().for_each(|instance| instance.end_turn());
        let mut is_busy = self.receive_from_cores(burst);
        is_busy |= self.serve();
        for external_queue in &mut self.external_queues {
            is_busy |= external_queue.serve(burst, &mut self.pool);
            for desc in burst.drain(..) {
                self.contexts[external_queue.port].transmit(desc, &mut self.pool);
            }
        }
        for context in &mut self.contexts {
            is_busy |= context.send(burst, &mut self.pool);
        }
        if self.progress.is_awaited() {
            self.publish_completed();
        }
        for port in 0..self.contexts.len() {
            if !self.contexts[port].migration.is_idle() {
                is_busy |= self.dispatch_held(port);
            }
        }
        self.wake();
        is_busy
    }

    /// Lets the service have its turn; whether it had anything to do.
    #[inline]
    fn serve(&mut self) -> bool {
        let Engine { service, contexts, pool, .. } = self;
        service.as_mut().is_some_and(|serving| serving.turn(&mut contexts[0], pool))
    }
}
