//! The operators of the job on timely dataflow. Times are panes.
//!
//! ```text
//! inbox -> keep the stream's tuples -> count by pane and key -> by key's worker: slide the window,
//! rank -> by worker 0: merge the ranks, emit
//! ```
//!
//! A worker counts the tuples that it was given, so the counts are where its inbox is. Once a pane
//! is complete its counts go to the workers that have the keys.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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

/// Windows that a worker ranks before the first of them was emitted.
const RANKED_AHEAD: usize = 16;
/// How long a worker that is so far ahead waits before it looks again.
const AHEAD: Duration = Duration::from_micros(50);

/// Entries of a lane that were read together.
#[derive(Clone, Debug)]
pub struct EntryBatch {
    /// The lane.
    pub lane: usize,
    /// Entries with their positions, ascending.
    pub entries: Vec<(u64, Entry)>,
    /// The position behind the last one that was read.
    pub end: u64,
}

/// The count of one worker of a key in a pane.
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
    /// Pairs of pane and key that wait for their windows to be ranked.
    pub ranked_pairs: Rc<Cell<usize>>,
}

/// Builds the job on a worker.
pub fn build(
    worker: &mut Worker,
    query: Query,
    inbox: &Arc<Inbox>,
    output: &Arc<ResultOutput>,
) -> JobEnds {
    let (mut input, probe) = (InputHandleVec::new(), ProbeHandle::new());
    let ranked_pairs = Rc::new(Cell::new(0));
    worker.dataflow(|scope| {
        let entries = input.to_stream(scope).map_in_place(move |batch: &mut EntryBatch| {
            batch.entries.retain(|(_, entry)| entry.stream == query.stream);
        });
        let counts = count(entries, Arc::clone(inbox));
        let ranks = rank(counts, query, probe.clone(), Rc::clone(&ranked_pairs));
        merge(ranks, query, Arc::clone(output)).probe_with(&probe);
    });
    JobEnds { input, probe, ranked_pairs }
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
                    counts.count(batch.lane, &batch.entries, |pane| {
                        open.entry(pane).or_insert_with(|| time.delayed(&pane, 0));
                    });
                    counts.passed(batch.lane, batch.end);
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

/// Ranks the keys of each worker in each window that has a tuple, and says how many pairs it has.
/// It stays few windows ahead of `emitted`: a pane can have some thousand windows.
fn rank<'s>(
    counts: StreamVec<'s, u64, PartialCount>,
    query: Query,
    emitted: ProbeHandle<u64>,
    pairs: Rc<Cell<usize>>,
) -> StreamVec<'s, u64, WorkerRank> {
    let by_key = Exchange::new(|count: &PartialCount| partition::part(count.key) as u64);
    let scope = counts.scope();
    counts.unary_frontier(by_key, "Rank", move |_, info| {
        let (windows, activator) = (query.windows, scope.activator_for(info.address));
        let mut sliding = SlidingCounts::new(windows);
        // Its time is the last pane of the next window, after which that window is complete.
        let mut next: Option<Capability<u64>> = None;
        // The last panes of windows that were ranked and may not be emitted yet.
        let mut ranked: VecDeque<u64> = VecDeque::with_capacity(RANKED_AHEAD);
        move |(input, frontier), output| {
            input.for_each(|time, counts| {
                for PartialCount { pane, key, count } in counts.drain(..) {
                    sliding.add(pane, key, count);
                }
                let Some(window) = sliding.next_window() else { return };
                let last = windows.last_pane(window);
                if next.as_ref().is_none_or(|next| last < *next.time()) {
                    next = Some(time.delayed(&last, 0));
                }
            });
            while let Some(capability) = next.take_if(|next| !frontier.less_equal(next.time())) {
                while ranked.pop_front_if(|last| !emitted.less_equal(last)).is_some() {}
                if ranked.len() == RANKED_AHEAD {
                    next = Some(capability);
                    activator.activate_after(AHEAD);
                    break;
                }
                let Some(window) = sliding.next_window() else { break };
                let top = sliding.rank(window, query.top);
                output.session(&capability).give(WorkerRank { window, top });
                ranked.push_back(*capability.time());
                let following = sliding.next_window();
                next = following.map(|window| capability.delayed(&windows.last_pane(window)));
            }
            pairs.set(sliding.pairs());
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
