//! The definition of correct: each tuple once, window by window, without haste.

use std::collections::BTreeMap;

use crate::rank::{KeyCount, best};
use crate::window::Windows;

/// The question that is asked about the tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Tuples of this stream are kept, others are not.
    pub stream: u16,
    /// The windows.
    pub windows: Windows,
    /// Keys of a result at most.
    pub top: usize,
}

impl Default for Query {
    /// The ten best keys of stream 0, in windows of 10 s that slide by 1 s.
    fn default() -> Query {
        Query { stream: 0, windows: Windows::default(), top: 10 }
    }
}

/// The result of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowResult {
    /// The number of the window.
    pub window: u64,
    /// Its best keys, the best first.
    pub top: Vec<KeyCount>,
}

/// The results of all windows that have a kept tuple, in their order. A tuple is stream, key and
/// event time in nanoseconds, and is given once.
pub fn results(query: &Query, tuples: impl Iterator<Item = (u16, u64, u64)>) -> Vec<WindowResult> {
    let mut counts: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
    for (_, key, time_ns) in tuples.filter(|(stream, ..)| *stream == query.stream) {
        for window in query.windows.covering(query.windows.pane(time_ns)) {
            *counts.entry(window).or_default().entry(key).or_default() += 1;
        }
    }
    let of = |(window, counts): (u64, BTreeMap<u64, u64>)| {
        let counts = counts.into_iter().map(|(key, count)| KeyCount { key, count });
        WindowResult { window, top: best(counts, query.top) }
    };
    counts.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_counts_in_every_window_that_covers_it() {
        let windows = Windows::new(2_000, 1_000).unwrap();
        let query = Query { stream: 1, windows, top: 2 };
        let tuples = [(1, 5, 0), (1, 5, 1_500), (1, 4, 1_999), (0, 9, 0), (1, 3, 2_000)];
        let found = results(&query, tuples.into_iter());
        let found: Vec<(u64, Vec<(u64, u64)>)> = found
            .iter()
            .map(|of| (of.window, of.top.iter().map(|of| (of.key, of.count)).collect()))
            .collect();
        assert_eq!(
            found,
            [(0, vec![(5, 2), (4, 1)]), (1, vec![(3, 1), (4, 1)]), (2, vec![(3, 1)])]
        );
    }
}
