//! Counts of a window from counts of its panes: one pane comes, one goes.

use crate::inbox::{KeyMap, PaneCounts};
use crate::rank::{KeyCount, best};
use crate::window::Windows;

/// The counts of the keys that one worker has.
#[derive(Debug)]
pub struct SlidingCounts {
    windows: Windows,
    /// Panes from the one after the last window's first one on.
    panes: PaneCounts,
    /// Pairs of pane and key.
    pairs: usize,
    /// The last window that was ranked.
    window: Option<u64>,
    /// The counts of the panes that the last window and the one after it have in common.
    counts: KeyMap<u64>,
}

impl SlidingCounts {
    /// No counts.
    pub fn new(windows: Windows) -> SlidingCounts {
        SlidingCounts {
            windows,
            panes: PaneCounts::new(),
            pairs: 0,
            window: None,
            counts: KeyMap::default(),
        }
    }

    /// Adds to a key in a pane that no ranked window has.
    pub fn add(&mut self, pane: u64, key: u64, count: u64) {
        let of = self.panes.entry(pane).or_default().entry(key).or_default();
        self.pairs += usize::from(*of == 0);
        *of += count;
    }

    /// Pairs of pane and key that it has.
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    /// The next window that is to be ranked, by the counts that it has; `None`: no window has any.
    pub fn next_window(&self) -> Option<u64> {
        let least = self.window.map_or(0, |window| window + 1);
        let (pane, _) = self.panes.range(least..).next()?;
        Some(*self.windows.covering(*pane).start().max(&least))
    }

    /// The best keys of the next window, all of whose panes are complete.
    pub fn rank(&mut self, window: u64, top: usize) -> Vec<KeyCount> {
        let last = self.windows.last_pane(window);
        if self.window.is_some_and(|before| before + 1 == window) {
            self.append(last);
        } else {
            debug_assert!(self.panes.range(..window).next().is_none(), "panes of no window");
            self.counts.clear();
            (window..=last).for_each(|pane| self.append(pane));
        }
        self.window = Some(window);
        let top = best(self.counts.iter().map(|(&key, &count)| KeyCount { key, count }), top);
        for (key, count) in self.panes.remove(&window).unwrap_or_default() {
            self.pairs -= 1;
            self.subtract(key, count);
        }
        top
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
                prop_assert_eq!(sliding.next_window(), Some(result.window));
                prop_assert_eq!(sliding.rank(result.window, top), result.top);
            }
            prop_assert_eq!((sliding.next_window(), sliding.pairs()), (None, 0));
        }
    }
}
