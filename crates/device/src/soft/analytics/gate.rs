//! Workers that count only while they may, and the time that each has on its CPU meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use niclab_analytics::cost::{StepClock, StepObserver, StepTotals, WorkStep};
use rustix::time::{ClockId, clock_gettime};

/// Time that the calling thread has had on CPUs, nanoseconds.
pub(super) fn thread_ns() -> u64 {
    let had = clock_gettime(ClockId::ThreadCPUTime);
    had.tv_sec as u64 * 1_000_000_000 + had.tv_nsec as u64
}

/// Holds workers between their turns.
pub(super) struct Gate {
    is_open: AtomicBool,
    /// Workers that are held.
    held: AtomicUsize,
    /// Tuples that all workers have counted.
    counted: AtomicU64,
    /// By worker: time on CPUs since the gate was there, nanoseconds.
    worked_ns: Box<[AtomicU64]>,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Gate {
    /// A closed gate for so many workers.
    pub(super) fn new(workers: usize) -> Arc<Gate> {
        Arc::new(Gate {
            is_open: AtomicBool::new(false),
            held: AtomicUsize::new(0),
            counted: AtomicU64::new(0),
            worked_ns: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            lock: Mutex::new(()),
            changed: Condvar::new(),
        })
    }

    fn locked(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the workers go on.
    pub(super) fn open(&self) {
        let _lock = self.locked();
        self.is_open.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// Holds the workers from their next turn on.
    pub(super) fn close(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    /// Workers that are held now.
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    /// Tuples that all workers have counted.
    pub(super) fn counted(&self) -> u64 {
        self.counted.load(Ordering::Acquire)
    }

    /// By worker: time on CPUs while the gate was open, nanoseconds. It is right while all are held.
    pub(super) fn worked_ns(&self) -> Vec<u64> {
        self.worked_ns.iter().map(|ns| ns.load(Ordering::Acquire)).collect()
    }

    /// Waits until the gate is open.
    #[cold]
    fn hold(&self) {
        let mut lock = self.locked();
        self.held.fetch_add(1, Ordering::AcqRel);
        while !self.is_open.load(Ordering::Acquire) {
            lock = self.changed.wait(lock).unwrap_or_else(PoisonError::into_inner);
        }
        self.held.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Opens a gate when it goes, so that workers can end.
pub(super) struct OpenAtEnd(pub(super) Arc<Gate>);

impl Drop for OpenAtEnd {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Observes a worker behind a gate.
pub(super) struct GatedWorker {
    gate: Arc<Gate>,
    place: usize,
    steps: StepClock,
    /// Time of the thread when the gate opened; `None` before that, nanoseconds.
    since_ns: Option<u64>,
}

impl GatedWorker {
    /// The worker of this number; the time of its steps goes to `steps`.
    pub(super) fn new(gate: &Arc<Gate>, place: usize, steps: &Arc<StepTotals>) -> GatedWorker {
        let steps = StepClock::new(Arc::clone(steps));
        GatedWorker { gate: Arc::clone(gate), place, steps, since_ns: None }
    }
}

impl StepObserver for GatedWorker {
    fn begin(&mut self) {
        if self.since_ns.is_none() || !self.gate.is_open.load(Ordering::Acquire) {
            if let Some(since_ns) = self.since_ns {
                let worked_ns = thread_ns() - since_ns;
                self.gate.worked_ns[self.place].fetch_add(worked_ns, Ordering::AcqRel);
            }
            self.gate.hold();
            self.since_ns = Some(thread_ns());
        }
        self.steps.begin();
    }

    fn done(&mut self, step: WorkStep) {
        self.steps.done(step);
    }

    fn passed(&mut self, steps: &[WorkStep], tuples: usize) {
        self.steps.passed(steps, tuples);
        self.gate.counted.fetch_add(tuples as u64, Ordering::AcqRel);
    }
}
