//! The device's core: the NIC inline with the network function.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use niclab_apps::forward::swap_macs;
use niclab_load::clock::Clock;
use niclab_load::lane::Window;
use niclab_load::stall::STALL_NS;
use niclab_load::{PortCounters, QueueCounters, StallWatch};
use niclab_nic::Worker;
use niclab_packet::size::FCS_LEN;
use niclab_port::wire::{Burst, Near};

use crate::cores::Pinned;

/// What the device's core tells while it runs; one cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Pulse {
    stop: AtomicBool,
    /// Time at the last turn, nanoseconds.
    now_ns: AtomicU64,
    /// Sum of the turns that found nothing, nanoseconds.
    idle_ns: AtomicU64,
}

/// What the device's core has done.
pub(super) struct Done {
    /// Its NIC side, for the next trial.
    pub worker: Worker,
    /// Per-queue counters.
    pub counters: PortCounters,
    /// Its stalls.
    pub stalls: StallWatch,
}

/// The device's core under way; ends when dropped.
pub(super) struct Core {
    pulse: Arc<Pulse>,
    thread: Option<JoinHandle<Done>>,
    at_open: (u64, u64),
    /// Share of the window in which it had nothing to do.
    pub idle_ratio: f64,
    done: Option<Done>,
}

impl Core {
    /// Starts forwarding on `core`.
    pub(super) fn start(worker: Worker, near: Near, queues: u16, core: u32) -> Core {
        let pulse = Arc::new(Pulse::default());
        let shared = Arc::clone(&pulse);
        let thread = std::thread::spawn(move || {
            let _pinned = Pinned::to(core);
            forward(worker, near, queues, &shared)
        });
        Core { pulse, thread: Some(thread), at_open: (0, 0), idle_ratio: 0.0, done: None }
    }

    /// Stops the core; what it has done, unless it panicked.
    pub(super) fn finish(mut self) -> Option<Done> {
        self.join();
        self.done.take()
    }

    fn join(&mut self) {
        self.pulse.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            self.done = thread.join().ok();
        }
    }

    /// Now, and how long it has been idle, nanoseconds.
    fn idle(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.pulse.now_ns), read(&self.pulse.idle_ns))
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.join();
    }
}

impl Window for Core {
    fn opened(&mut self) {
        self.at_open = self.idle();
    }

    fn closed(&mut self) {
        let (now_ns, idle_ns) = self.idle();
        let (open_ns, idle_before_ns) = self.at_open;
        self.idle_ratio = (idle_ns - idle_before_ns) as f64 / (now_ns - open_ns).max(1) as f64;
    }

    fn stalls(&mut self) -> Vec<(u64, u64)> {
        self.join();
        self.done.as_ref().map(|done| done.stalls.kept().to_vec()).unwrap_or_default()
    }
}

/// The loop of the device's core: burst in, decide, swap, burst out.
fn forward(mut worker: Worker, mut near: Near, queues: u16, pulse: &Pulse) -> Done {
    let clock = Clock::new();
    let mut stalls = StallWatch::new();
    let mut counters = PortCounters {
        queues: vec![QueueCounters::default(); usize::from(queues)],
        ..PortCounters::default()
    };
    let (mut burst, mut out) = (Burst::new(), Burst::new());
    let (mut found, mut idle_ns) = (0, 0);
    let region = Arc::clone(near.region());
    worker.online();
    loop {
        let stop = pulse.stop.load(Ordering::Relaxed);
        let now_ns = clock.now_ns();
        let turn_ns = stalls.turn(now_ns, 0);
        if found == 0 && turn_ns <= STALL_NS {
            idle_ns += turn_ns;
            pulse.idle_ns.store(idle_ns, Ordering::Relaxed);
        }
        pulse.now_ns.store(now_ns, Ordering::Relaxed);
        near.receive(&mut burst);
        burst.iter().for_each(|desc| region.prefetch(desc));
        found = burst.len();
        if found == 0 {
            if stop {
                break; // whatever was on the wire has been taken
            }
            std::hint::spin_loop();
            continue;
        }
        let dropped = worker.classify(&region, &mut burst);
        for desc in &mut burst {
            let bytes = u64::from(desc.len() + FCS_LEN);
            let queue = &mut counters.queues[usize::from(desc.queue)];
            queue.rx_frames += 1;
            queue.rx_bytes += bytes;
            swap_macs(region.frame_mut(desc));
        }
        if dropped != 0 {
            take_out(&mut burst, dropped, &mut out);
            counters.rule_drops += out.len() as u64;
            near.discard(&mut out);
        }
        for desc in &burst {
            let queue = &mut counters.queues[usize::from(desc.queue)];
            queue.tx_frames += 1;
            queue.tx_bytes += u64::from(desc.len() + FCS_LEN);
        }
        near.send(&mut burst);
    }
    worker.offline();
    Done { worker, counters, stalls }
}

/// Moves the frames of a mask from one burst to another; the order of the rest stays.
#[cold]
fn take_out(burst: &mut Burst, mask: u64, out: &mut Burst) {
    for (i, desc) in std::mem::take(burst).into_iter().enumerate() {
        match mask >> i & 1 {
            1 => out.push(desc),
            _ => burst.push(desc),
        }
    }
}
