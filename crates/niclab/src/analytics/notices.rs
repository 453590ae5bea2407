//! What a user should know while tuples over UDP are counted: each is shown once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use niclab_lab::words;

use super::InputCounters;
use crate::output::say;
use crate::rules::counted;

/// How often the counters are read.
const LOOK: Duration = Duration::from_millis(100);
/// How long sources are waited for before this is shown.
const WAITING: Duration = Duration::from_secs(5);

/// The thread that says them; it ends when this goes.
pub struct Notices {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What has been shown.
#[derive(Default)]
struct Shown {
    late: bool,
    foreign: bool,
    waiting: bool,
}

impl Notices {
    /// Starts for `awaited` sources.
    pub fn start(counters: Arc<InputCounters>, awaited: usize) -> std::io::Result<Notices> {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        let run = move || {
            let (mut shown, started) = (Shown::default(), Instant::now());
            while !seen.load(Ordering::Relaxed) {
                for line in shown.next(&counters, awaited, started.elapsed()) {
                    say(&format!("analytics: {line}"));
                }
                thread::park_timeout(LOOK);
            }
        };
        let thread = thread::Builder::new().name("notices".to_owned()).spawn(run)?;
        Ok(Notices { is_over, thread: Some(thread) })
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It holds nothing that its end could lose.
            let _ = thread.join();
        }
    }
}

impl Shown {
    /// The lines that are due.
    fn next(
        &mut self,
        counters: &InputCounters,
        awaited: usize,
        since: Duration,
    ) -> impl Iterator<Item = String> + use<> {
        let received = counters.received();
        let mut lines = Vec::new();
        let seen = received.seen_sources;
        if received.counters.late > 0 && !self.late {
            self.late = true;
            lines.push(format!(
                "tuples are late and not counted: their windows are complete. If sources start \
                 after others have ended, give the number of all with --sources (now {awaited})"
            ));
        }
        if received.counters.foreign > 0 && !self.foreign {
            self.foreign = true;
            let line = "a source has keys of several cores, and is refused: --mode steer needs \
                        send --split N, where N is the number of workers";
            lines.push(line.to_owned());
        }
        if seen < awaited && seen > 0 && since >= WAITING && !self.waiting {
            self.waiting = true;
            let more = counted((awaited - seen) as u64, "more source", "more sources");
            let awaited = words::whole(awaited as f64);
            lines.push(format!("no window is complete without {more} (--sources {awaited})"));
        }
        lines.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use niclab_analytics::input::InputSnapshot;

    use super::*;

    #[test]
    fn late_tuples_foreign_sources_and_missing_ones_are_told_once() {
        let (counters, mut shown) = (InputCounters::default(), Shown::default());
        let mut next = |counters: &InputCounters, s| {
            shown.next(counters, 2, Duration::from_secs(s)).collect::<Vec<_>>()
        };
        assert!(next(&counters, 9).is_empty(), "no source has come");
        let mut snapshot = InputSnapshot { seen_sources: 1, ..InputSnapshot::default() };
        counters.set_card(snapshot);
        assert!(next(&counters, 1).is_empty());
        assert_eq!(
            next(&counters, 5),
            ["no window is complete without 1 more source (--sources 2)"]
        );
        (snapshot.counters.late, snapshot.counters.foreign) = (3, 1);
        counters.set_card(snapshot);
        let told = next(&counters, 9);
        assert!(told[0].starts_with("tuples are late") && told[0].ends_with("(now 2)"), "{told:?}");
        assert!(told[1].contains("send --split N"), "{told:?}");
        assert!(next(&counters, 9).is_empty());
    }
}
