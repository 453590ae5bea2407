//! The counts of a worker.

use std::collections::{BTreeMap, HashMap};

use super::Entry;

/// A map by key. Its hash has a secret, which differs from process to process.
pub type KeyMap<T> = HashMap<u64, T, foldhash::fast::RandomState>;

/// Counts of keys by pane.
pub type PaneCounts = BTreeMap<u64, KeyMap<u64>>;

/// The counts of a worker, and the position of each lane up to which it has counted.
#[derive(Debug, Default)]
pub struct WorkerCounts {
    panes: PaneCounts,
    /// By lane: entries below this position are in the counts, or were not kept.
    counted: Box<[u64]>,
    /// Pairs of pane and key.
    pairs: usize,
}

impl WorkerCounts {
    /// Empty counts for a number of lanes.
    pub fn new(lanes: usize) -> WorkerCounts {
        WorkerCounts { counted: vec![0; lanes].into(), ..WorkerCounts::default() }
    }

    /// Counts entries of a lane, with their positions, ascending. Those that were counted before
    /// are not counted again. Says once of each pane that has got an entry.
    pub fn count(&mut self, lane: usize, entries: &[(u64, Entry)], mut got: impl FnMut(u64)) {
        let WorkerCounts { panes, counted, pairs } = self;
        let counted = &mut counted[lane];
        let is_new = |&&(position, _): &&(u64, Entry)| position >= *counted;
        let known = entries.iter().take_while(|of| !is_new(of)).count();
        // Most entries are of the pane of the one before them: it is looked for once.
        for run in entries[known..].chunk_by(|(_, one), (_, next)| one.pane == next.pane) {
            let Some((_, first)) = run.first() else { continue };
            got(first.pane);
            let counts = panes.entry(first.pane).or_default();
            for (position, entry) in run {
                let count = counts.entry(entry.key).or_default();
                *pairs += usize::from(*count == 0);
                *count += 1;
                *counted = position + 1;
            }
        }
    }

    /// Takes note that all entries of a lane below a position are counted, or are not to be.
    pub fn passed(&mut self, lane: usize, position: u64) {
        self.counted[lane] = self.counted[lane].max(position);
    }

    /// The position of a lane below which all entries are counted, or are not to be.
    pub fn counted(&self, lane: usize) -> u64 {
        self.counted[lane]
    }

    /// Entries of all lanes that are counted, or are not to be.
    pub fn counted_of_all(&self) -> u64 {
        self.counted.iter().sum()
    }

    /// The counts by pane.
    pub fn panes(&self) -> &PaneCounts {
        &self.panes
    }

    /// Pairs of pane and key.
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    /// Forgets all panes below one.
    pub fn forget(&mut self, pane: u64) {
        let kept = self.panes.split_off(&pane);
        let gone = std::mem::replace(&mut self.panes, kept);
        self.pairs -= gone.values().map(KeyMap::len).sum::<usize>();
    }
}
