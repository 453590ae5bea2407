//! Tuples of one source in this process. A tuple of an earlier pane than the one before it is
//! late: event times may fall within a pane, and not across its beginning.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::{Demultiplexer, LocalTuple};
use crate::job::JobEngine;
use crate::window::Windows;

/// Tuples that are handed over together.
const BURST: usize = 256;
/// How long a full inbox is waited for before it is looked at again.
const FULL: Duration = Duration::from_micros(50);

/// The counters of an input, which another thread may read.
#[derive(Debug, Default)]
pub struct LocalCounters {
    taken: AtomicU64,
    late: AtomicU64,
}

impl LocalCounters {
    /// Tuples that were handed over.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Tuples whose windows were complete already: not counted.
    pub fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }
}

/// The input of one source.
pub struct LocalInput<'e> {
    engine: &'e JobEngine,
    windows: Windows,
    demultiplexer: Demultiplexer,
    counters: &'e LocalCounters,
    /// The latest event time, nanoseconds.
    latest_ns: u64,
    /// Tuples since the last hand-over.
    pending: usize,
}

impl<'e> LocalInput<'e> {
    /// The input of an engine.
    pub fn new(engine: &'e JobEngine, counters: &'e LocalCounters) -> LocalInput<'e> {
        let (mut demultiplexer, windows) = (Demultiplexer::new(engine, 0), engine.query().windows);
        demultiplexer.begin();
        LocalInput { engine, windows, demultiplexer, counters, latest_ns: 0, pending: 0 }
    }

    /// Takes a tuple, and waits as long as its worker has no room. `false` if the engine is over,
    /// or `stop` is set: the tuple was not taken.
    pub fn take(&mut self, tuple: &LocalTuple, stop: &AtomicBool) -> bool {
        if self.windows.pane(tuple.time_ns) < self.windows.pane(self.latest_ns) {
            self.counters.late.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        let LocalTuple { stream, key, time_ns } = *tuple;
        while !self.demultiplexer.push(stream, key, time_ns) {
            self.flush();
            if stop.load(Ordering::Relaxed) || self.engine.is_over() {
                return false;
            }
            if self.demultiplexer.begin() == 0 {
                thread::sleep(FULL);
            }
        }
        self.latest_ns = self.latest_ns.max(time_ns);
        self.counters.taken.fetch_add(1, Ordering::Relaxed);
        self.pending += 1;
        if self.pending == BURST {
            self.flush();
            self.demultiplexer.begin();
        }
        !stop.load(Ordering::Relaxed)
    }

    /// Hands over what was taken.
    pub fn flush(&mut self) {
        self.demultiplexer.hand_over(self.latest_ns);
        self.pending = 0;
    }

    /// Hands over what was taken, and says that nothing follows.
    pub fn end(mut self) {
        self.flush();
        self.engine.close();
    }
}
