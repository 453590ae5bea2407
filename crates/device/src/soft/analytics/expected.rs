//! The expected results: a plain count of all tuples, window by window.

use std::collections::{HashMap, VecDeque};

use niclab_analytics::definition::Query;
use niclab_analytics::rank::{KeyCount, best};

use super::load::Counted;

/// The counts of the last panes of a window.
pub(super) struct ExpectedWindows {
    query: Query,
    panes: VecDeque<HashMap<u64, u64>>,
    sum: HashMap<u64, u64>,
}

impl ExpectedWindows {
    /// Nothing was counted yet.
    pub(super) fn new(query: Query) -> ExpectedWindows {
        ExpectedWindows { query, panes: VecDeque::new(), sum: HashMap::new() }
    }

    /// Counts the tuples of the next pane; the result of the window that ends with it.
    pub(super) fn pane(&mut self, tuples: &[Counted]) -> Vec<KeyCount> {
        let mut pane: HashMap<u64, u64> = HashMap::new();
        for tuple in tuples.iter().filter(|tuple| tuple.stream == self.query.stream) {
            *pane.entry(tuple.key).or_default() += 1;
        }
        for (key, count) in &pane {
            *self.sum.entry(*key).or_default() += count;
        }
        self.panes.push_back(pane);
        if self.panes.len() as u64 > self.query.windows.panes() {
            for (key, count) in self.panes.pop_front().unwrap_or_default() {
                self.sum.entry(key).and_modify(|sum| *sum -= count);
            }
        }
        let counts = self.sum.iter().map(|(&key, &count)| KeyCount { key, count });
        best(counts, self.query.top)
    }
}

#[cfg(test)]
mod tests {
    use niclab_analytics::definition::results;
    use niclab_analytics::window::Windows;

    use super::*;
    use crate::cases::mix;

    #[test]
    fn windows_are_those_of_the_definition() {
        let query = Query { stream: 1, windows: Windows::new(3_000, 1_000).unwrap(), top: 4 };
        let of = |pane: u64, at: u64| {
            let random = mix(pane << 32 | at);
            Counted { stream: (random % 2) as u16, key: random >> 8 & 15 }
        };
        let panes: Vec<Vec<Counted>> =
            (0..9).map(|pane| (0..50).map(|at| of(pane, at)).collect()).collect();
        let all = panes.iter().zip(0..).flat_map(|(tuples, pane)| {
            tuples.iter().map(move |tuple| (tuple.stream, tuple.key, pane * 1_000))
        });
        let defined = results(&query, all);
        let mut expected = ExpectedWindows::new(query);
        for (pane, tuples) in panes.iter().enumerate() {
            let top = expected.pane(tuples);
            // Window 0 ends with the third pane.
            let window = pane.checked_sub(2).map(|window| &defined[window]);
            assert!(window.is_none_or(|of| of.top == top), "pane {pane}");
        }
    }
}
