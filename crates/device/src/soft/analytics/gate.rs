//! A gate that stops workers between their turns, and measures their time on CPUs while it is open.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// Tuples that all workers have counted.
    counted: AtomicU64,
    /// By worker: time on CPUs since the gate was there, nanoseconds.
    worked_ns: Box<[AtomicU64]>,
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    /// How often the gate was opened.
    openings: u64,
    /// Workers that are held since the last opening.
    held: usize,
}

impl Gate {
    /// A closed gate for `workers` workers.
    pub(super) fn new(workers: usize) -> Arc<Gate> {
        Arc::new(Gate {
            is_open: AtomicBool::new(false),
            counted: AtomicU64::new(0),
            worked_ns: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the workers go on.
    pub(super) fn open(&self) {
        let mut state = self.state();
        (state.openings, state.held) = (state.openings + 1, 0);
        self.is_open.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// Holds the workers from their next turn on.
    pub(super) fn close(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    /// Workers that are held now.
    pub(super) fn held(&self) -> usize {
        self.state().held
    }

    /// Tuples that all workers have counted.
    pub(super) fn counted(&self) -> u64 {
        self.counted.load(Ordering::Acquire)
    }

    /// By worker: time on CPUs while the gate was open, nanoseconds, if all are held.
    pub(super) fn worked_ns(&self) -> Vec<u64> {
        self.worked_ns.iter().map(|ns| ns.load(Ordering::Acquire)).collect()
    }

    /// Waits for an opening after that of number `passed`. Returns the number of the last opening.
    /// A worker that comes late, when the gate was opened again, does not wait: it is held the next
    /// time.
    #[cold]
    fn hold(&self, passed: u64) -> u64 {
        let mut state = self.state();
        if state.openings == passed {
            state.held += 1;
        }
        while state.openings == passed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.openings
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
    /// The opening that it has passed, and the time of the thread then, nanoseconds; 0 before that.
    passed: u64,
    since_ns: u64,
}

impl GatedWorker {
    /// The worker of this number; the time of its steps goes to `steps`.
    pub(super) fn new(gate: &Arc<Gate>, place: usize, steps: &Arc<StepTotals>) -> GatedWorker {
        let steps = StepClock::new(Arc::clone(steps));
        GatedWorker { gate: Arc::clone(gate), place, steps, passed: 0, since_ns: 0 }
    }
}

impl StepObserver for GatedWorker {
    fn begin(&mut self) {
        if self.passed == 0 || !self.gate.is_open.load(Ordering::Acquire) {
            if self.passed > 0 {
                let worked_ns = thread_ns() - self.since_ns;
                self.gate.worked_ns[self.place].fetch_add(worked_ns, Ordering::AcqRel);
            }
            self.passed = self.gate.hold(self.passed);
            self.since_ns = thread_ns();
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

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn time_on_cpus_counts_while_the_gate_is_open() {
        let (gate, steps) = (Gate::new(2), Arc::new(StepTotals::default()));
        let is_over = Arc::new(AtomicBool::new(false));
        let worker = |place: usize| {
            let (gate, steps, is_over) =
                (Arc::clone(&gate), Arc::clone(&steps), Arc::clone(&is_over));
            thread::spawn(move || {
                let mut worker = GatedWorker::new(&gate, place, &steps);
                while !is_over.load(Ordering::Acquire) {
                    worker.begin();
                    match place {
                        0 => (0..1_000).for_each(|at| _ = black_box(at)),
                        _ => thread::sleep(Duration::from_millis(1)),
                    }
                    worker.passed(&[], 1);
                }
            })
        };
        let workers = [0, 1].map(worker);
        let wait = |is_done: &dyn Fn() -> bool| {
            let begun = Instant::now();
            while !is_done() {
                assert!(begun.elapsed() < Duration::from_secs(20));
                thread::sleep(Duration::from_micros(100));
            }
        };
        for round in 1..=20 {
            wait(&|| gate.held() == 2);
            let (counted, worked_ns) = (gate.counted(), gate.worked_ns());
            thread::sleep(Duration::from_millis(1));
            assert_eq!((gate.counted(), gate.worked_ns()), (counted, worked_ns), "all are held");
            gate.open();
            wait(&|| gate.counted() > counted + round);
            gate.close();
        }
        wait(&|| gate.held() == 2);
        let worked_ns = gate.worked_ns();
        assert!(worked_ns[0] > 2 * worked_ns[1], "one works, one sleeps: {worked_ns:?}");
        is_over.store(true, Ordering::Release);
        let end = OpenAtEnd(Arc::clone(&gate));
        drop(end);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    }
}
