//! The operators of the job on timely dataflow. Times are panes.
//!
//! ```text
//! inbox -> keep the stream's tuples -> count by pane and key -> by key's worker: slide the window,
//! rank -> by worker 0: merge the ranks, emit
//! ```
//!
//! A worker counts the tuples that it was given, so the counts are where its inbox is. Once a pane
//! is complete its counts go to the workers that have the keys.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::Operator;
use timely::dataflow::operators::probe::Probe;
use timely::dataflow::operators::vec::Map;
use timely::dataflow::{InputHandleVec, ProbeHandle, StreamVec};
use timely::worker::Worker;

use super::sliding::SlidingCounts;
use crate::definition::{Query, WindowResult};
use crate::inbox::{Entry, Inbox};
use crate::partition;
use crate::rank::{KeyCount, best};

/// Entries that were read together.
#[derive(Clone, Debug)]
pub struct EntryBatch {
    /// Entries with their positions, ascending.
    pub entries: Vec<(u64, Entry)>,
    /// The position behind the last one that was read.
    pub end: u64,
}

/// What one worker counted of a key in a pane.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct PartialCount {
    pane: u64,
    key: u64,
    count: u64,
}

/// The best keys of one worker in a window.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct WorkerRank {
    window: u64,
    top: Vec<KeyCount>,
}

/// Takes the result of a window.
pub type Emit = dyn Fn(WindowResult) + Send + Sync;

/// Where results go: each window once, in their order, whichever dataflow made it.
pub struct ResultOutput {
    /// The first window that was not emitted.
    next: Mutex<u64>,
    emit: Box<Emit>,
}

impl ResultOutput {
    /// Results go to `emit`.
    pub fn new(emit: Box<Emit>) -> ResultOutput {
        ResultOutput { next: Mutex::new(0), emit }
    }

    /// Emits a result, unless it was emitted before.
    fn emit(&self, result: WindowResult) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if result.window >= *next {
            *next = result.window + 1;
            (self.emit)(result);
        }
    }
}

/// The ends of a dataflow on one worker.
pub struct JobEnds {
    /// Takes the worker's tuples.
    pub input: InputHandleVec<u64, EntryBatch>,
    /// Its time is the last pane of the next window.
    pub probe: ProbeHandle<u64>,
}

/// Builds the job on a worker.
pub fn build(
    worker: &mut Worker,
    query: Query,
    inbox: &Arc<Inbox>,
    output: &Arc<ResultOutput>,
) -> JobEnds {
    let (mut input, probe) = (InputHandleVec::new(), ProbeHandle::new());
    worker.dataflow(|scope| {
        let entries = input.to_stream(scope).map_in_place(move |batch: &mut EntryBatch| {
            batch.entries.retain(|(_, entry)| entry.stream == query.stream);
        });
        let ranks = rank(count(entries, Arc::clone(inbox)), query);
        merge(ranks, query, Arc::clone(output)).probe_with(&probe);
    });
    JobEnds { input, probe }
}

/// Counts by pane and key, in the inbox. The counts of a pane leave when it is complete: those of
/// an earlier dataflow, too.
fn count<'s>(
    entries: StreamVec<'s, u64, EntryBatch>,
    inbox: Arc<Inbox>,
) -> StreamVec<'s, u64, PartialCount> {
    entries.unary_frontier(Pipeline, "Count", move |capability, _| {
        let counted = inbox.counts().panes().keys().copied().collect::<Vec<u64>>();
        let open = counted.into_iter().map(|pane| (pane, capability.delayed(&pane)));
        let mut open: BTreeMap<u64, Capability<u64>> = open.collect();
        move |(input, frontier), output| {
            let mut has_counted = false;
            input.for_each(|time, batches| {
                has_counted = true;
                let mut counts = inbox.counts();
                for batch in batches.drain(..) {
                    for (position, entry) in &batch.entries {
                        counts.count(*position, entry);
                        open.entry(entry.pane).or_insert_with(|| time.delayed(&entry.pane, 0));
                    }
                    counts.passed(batch.end);
                }
            });
            if has_counted {
                inbox.release();
            }
            while let Some(first) = open.first_entry().filter(|of| !frontier.less_equal(of.key())) {
                let (pane, capability) = first.remove_entry();
                let counts = inbox.counts();
                let mut session = output.session(&capability);
                for (&key, &count) in counts.panes().get(&pane).into_iter().flatten() {
                    session.give(PartialCount { pane, key, count });
                }
            }
        }
    })
}

/// Ranks the keys of each worker in each window that has a tuple.
fn rank<'s>(
    counts: StreamVec<'s, u64, PartialCount>,
    query: Query,
) -> StreamVec<'s, u64, WorkerRank> {
    let by_key = Exchange::new(|count: &PartialCount| partition::part(count.key) as u64);
    counts.unary_frontier(by_key, "Rank", move |_, _| {
        let windows = query.windows;
        let mut sliding = SlidingCounts::new(windows);
        // By its last pane, after which a window is complete.
        let mut open: BTreeMap<u64, (u64, Capability<u64>)> = BTreeMap::new();
        let mut last_pane = None;
        move |(input, frontier), output| {
            input.for_each(|time, counts| {
                for PartialCount { pane, key, count } in counts.drain(..) {
                    sliding.add(pane, key, count);
                    if last_pane.replace(pane) == Some(pane) {
                        continue;
                    }
                    for window in windows.covering(pane) {
                        let last = windows.last_pane(window);
                        open.entry(last).or_insert_with(|| (window, time.delayed(&last, 0)));
                    }
                }
            });
            while let Some(first) = open.first_entry().filter(|of| !frontier.less_equal(of.key())) {
                let (window, capability) = first.remove();
                let top = sliding.rank(window, query.top);
                output.session(&capability).give(WorkerRank { window, top });
            }
        }
    })
}

/// Merges the ranks of all workers on the first one, and emits the result.
fn merge<'s>(
    ranks: StreamVec<'s, u64, WorkerRank>,
    query: Query,
    results: Arc<ResultOutput>,
) -> StreamVec<'s, u64, ()> {
    let by_first = Exchange::new(|_: &WorkerRank| 0);
    // Nothing leaves by the output: the probe behind it sees that a result was emitted.
    type Nothing = CapacityContainerBuilder<Vec<()>>;
    ranks.unary_frontier::<Nothing, _, _, _>(by_first, "Merge", move |_, _| {
        let mut open: BTreeMap<u64, (Capability<u64>, Vec<WorkerRank>)> = BTreeMap::new();
        move |(input, frontier), _| {
            input.for_each(|time, ranks| {
                for rank in ranks.drain(..) {
                    let last = query.windows.last_pane(rank.window);
                    let of = open.entry(last).or_insert_with(|| (time.delayed(&last, 0), vec![]));
                    of.1.push(rank);
                }
            });
            while let Some(first) = open.first_entry().filter(|of| !frontier.less_equal(of.key())) {
                let (_capability, ranks) = first.remove();
                let Some(window) = ranks.first().map(|rank| rank.window) else { continue };
                let all = ranks.into_iter().flat_map(|rank| rank.top);
                results.emit(WindowResult { window, top: best(all, query.top) });
            }
        }
    })
}
