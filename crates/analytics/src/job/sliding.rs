//! Counts of a window from counts of its panes: one pane comes, one goes.

use std::collections::HashMap;

use crate::inbox::PaneCounts;
use crate::rank::{KeyCount, best};
use crate::window::Windows;

/// The counts of the keys that one worker has.
#[derive(Debug)]
pub struct SlidingCounts {
    windows: Windows,
    panes: PaneCounts,
    /// The last window that was ranked, and its counts.
    window: Option<u64>,
    counts: HashMap<u64, u64>,
}

impl SlidingCounts {
    /// No counts.
    pub fn new(windows: Windows) -> SlidingCounts {
        SlidingCounts { windows, panes: PaneCounts::new(), window: None, counts: HashMap::new() }
    }

    /// Adds to a key in a pane that no ranked window has.
    pub fn add(&mut self, pane: u64, key: u64, count: u64) {
        *self.panes.entry(pane).or_default().entry(key).or_default() += count;
    }

    /// The best keys of a window, all of whose panes are complete. Windows come in their order;
    /// those before this one are gone.
    pub fn rank(&mut self, window: u64, top: usize) -> Vec<KeyCount> {
        let last = self.windows.last_pane(window);
        match self.window {
            Some(before) if before + 1 == window => {
                for (key, count) in self.panes.remove(&before).unwrap_or_default() {
                    self.subtract(key, count);
                }
                self.append(last);
            }
            _ => {
                self.panes = self.panes.split_off(&window);
                self.counts.clear();
                (window..=last).for_each(|pane| self.append(pane));
            }
        }
        self.window = Some(window);
        best(self.counts.iter().map(|(&key, &count)| KeyCount { key, count }), top)
    }

    fn append(&mut self, pane: u64) {
        for (&key, &count) in self.panes.get(&pane).into_iter().flatten() {
            *self.counts.entry(key).or_default() += count;
        }
    }

    fn subtract(&mut self, key: u64, count: u64) {
        if let Some(of) = self.counts.get_mut(&key) {
            *of -= count;
            if *of == 0 {
                self.counts.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::definition::{Query, results};

    proptest! {
        #[test]
        fn windows_are_those_of_the_definition(
            tuples in prop::collection::vec((0_u64..6, 0_u64..40), 0..80),
            panes in 1_u64..6,
            top in 1_usize..4,
        ) {
            let windows = Windows::new(panes * 1_000, 1_000).unwrap();
            let query = Query { stream: 0, windows, top };
            let timed = tuples.iter().map(|(key, pane)| (0, *key, pane * 1_000));
            let expected = results(&query, timed);
            let mut sliding = SlidingCounts::new(windows);
            tuples.iter().for_each(|(key, pane)| sliding.add(*pane, *key, 1));
            for result in expected {
                prop_assert_eq!(sliding.rank(result.window, top), result.top);
            }
        }
    }
}
