//! Where the time of a tuple goes on the cores that work on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A step of the work on tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkStep {
    /// Datagrams are taken from the system or the card.
    Receive,
    /// Frames are checked, duplicates left out, and each tuple's worker found.
    Demultiplex,
    /// Tuples go to their workers, which take them.
    HandOver,
    /// Acknowledgements are written and sent.
    Acknowledge,
    /// Tuples are filtered and counted, windows ranked.
    Operator,
}

impl WorkStep {
    /// All steps, in the order in which a tuple passes them.
    pub const ALL: [WorkStep; 5] = [
        WorkStep::Receive,
        WorkStep::Demultiplex,
        WorkStep::HandOver,
        WorkStep::Acknowledge,
        WorkStep::Operator,
    ];

    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            WorkStep::Receive => "receive",
            WorkStep::Demultiplex => "demultiplex",
            WorkStep::HandOver => "hand_over",
            WorkStep::Acknowledge => "acknowledge",
            WorkStep::Operator => "operator",
        }
    }
}

/// Observes the steps of one thread.
pub trait StepObserver: Send {
    /// A turn begins. The time since the last step belongs to no step.
    fn begin(&mut self);
    /// A step is done.
    fn done(&mut self, step: WorkStep);
    /// So many tuples have passed these steps.
    fn passed(&mut self, steps: &[WorkStep], tuples: usize);
}

/// Observes nothing.
impl StepObserver for () {
    #[inline]
    fn begin(&mut self) {}

    #[inline]
    fn done(&mut self, _: WorkStep) {}

    #[inline]
    fn passed(&mut self, _: &[WorkStep], _: usize) {}
}

/// The time of all steps, which any number of threads add to.
#[derive(Debug, Default)]
pub struct StepTotals {
    time_ns: [AtomicU64; WorkStep::ALL.len()],
    tuples: [AtomicU64; WorkStep::ALL.len()],
}

impl StepTotals {
    /// Time of a step, nanoseconds, and the tuples that it was for.
    pub fn of(&self, step: WorkStep) -> (u64, u64) {
        let at = step as usize;
        (self.time_ns[at].load(Ordering::Relaxed), self.tuples[at].load(Ordering::Relaxed))
    }

    /// Time of a step for one tuple, nanoseconds; `None` if there was none.
    pub fn tuple_ns(&self, step: WorkStep) -> Option<f64> {
        let (time_ns, tuples) = self.of(step);
        (tuples > 0).then(|| time_ns as f64 / tuples as f64)
    }
}

/// Measures the steps of one thread, by the system's monotonic clock.
#[derive(Debug)]
pub struct StepClock {
    totals: Arc<StepTotals>,
    since: Instant,
}

impl StepClock {
    /// A clock that adds to these totals.
    pub fn new(totals: Arc<StepTotals>) -> StepClock {
        StepClock { totals, since: Instant::now() }
    }
}

impl StepObserver for StepClock {
    fn begin(&mut self) {
        self.since = Instant::now();
    }

    fn done(&mut self, step: WorkStep) {
        let now = Instant::now();
        let time_ns = now.duration_since(self.since).as_nanos() as u64;
        self.totals.time_ns[step as usize].fetch_add(time_ns, Ordering::Relaxed);
        self.since = now;
    }

    fn passed(&mut self, steps: &[WorkStep], tuples: usize) {
        for &step in steps {
            self.totals.tuples[step as usize].fetch_add(tuples as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_step_gets_the_time_since_the_one_before_it() {
        let totals = Arc::new(StepTotals::default());
        let mut clock = StepClock::new(Arc::clone(&totals));
        sleep(Duration::from_millis(40));
        clock.begin();
        sleep(Duration::from_millis(10));
        clock.done(WorkStep::Receive);
        clock.done(WorkStep::Demultiplex);
        clock.passed(&[WorkStep::Receive, WorkStep::Demultiplex], 4);
        let (time_ns, tuples) = totals.of(WorkStep::Receive);
        assert!(time_ns >= 10_000_000 && tuples == 4, "{time_ns} ns for {tuples}");
        assert!(totals.of(WorkStep::Demultiplex).0 < time_ns);
        assert!(totals.tuple_ns(WorkStep::Receive).is_some_and(|ns| ns >= 2_500_000.0));
        assert_eq!(totals.tuple_ns(WorkStep::Operator), None);
        assert_eq!(WorkStep::ALL.map(|step| step as usize), [0, 1, 2, 3, 4]);
    }
}
