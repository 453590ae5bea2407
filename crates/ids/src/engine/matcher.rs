//! Searches many patterns at once.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

#[cfg(feature = "vectorscan")]
use super::vectorscan::{VectorscanDatabase, VectorscanScratch};

/// A library that searches patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matcher {
    /// The crate `aho-corasick`.
    AhoCorasick,
    /// Vectorscan, or Hyperscan: the library `libhs`.
    #[cfg(feature = "vectorscan")]
    Vectorscan,
}

impl Matcher {
    /// Those that this build has, the fastest last.
    pub const ALL: &'static [Matcher] = &[
        Matcher::AhoCorasick,
        #[cfg(feature = "vectorscan")]
        Matcher::Vectorscan,
    ];
}

/// Bytes of the patterns of a table with a row for each state: it has at most 1 KiB per byte.
const TABLE_PATTERNS_LEN_MAX: usize = 32 << 10;

/// Patterns in lower case, whose case does not count.
#[derive(Debug)]
pub(super) enum PatternMatcher {
    /// There is no pattern.
    Empty,
    AhoCorasick(AhoCorasick),
    #[cfg(feature = "vectorscan")]
    Vectorscan(VectorscanDatabase),
}

/// Memory of a thread for all patterns of an engine.
#[derive(Debug, Default)]
pub(super) struct MatcherScratch {
    #[cfg(feature = "vectorscan")]
    vectorscan: Option<VectorscanScratch>,
}

impl PatternMatcher {
    /// The patterns have at least a byte each. Patterns that Vectorscan refuses are searched by
    /// `aho-corasick`.
    pub(super) fn new(matcher: Matcher, patterns: &[&[u8]]) -> PatternMatcher {
        if patterns.is_empty() {
            return PatternMatcher::Empty;
        }
        #[cfg(feature = "vectorscan")]
        if matcher == Matcher::Vectorscan
            && let Some(database) = VectorscanDatabase::new(patterns)
        {
            return PatternMatcher::Vectorscan(database);
        }
        let _ = matcher;
        let len: usize = patterns.iter().map(|pattern| pattern.len()).sum();
        let automaton = AhoCorasick::builder()
            .kind((len <= TABLE_PATTERNS_LEN_MAX).then_some(AhoCorasickKind::DFA))
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .build(patterns);
        automaton.map_or(PatternMatcher::Empty, PatternMatcher::AhoCorasick)
    }

    /// Bytes of the tables of `aho-corasick`.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            PatternMatcher::AhoCorasick(automaton) => automaton.memory_usage(),
            _ => 0,
        }
    }

    /// Makes `scratch` large enough for these patterns.
    pub(super) fn grow(&self, scratch: &mut MatcherScratch) {
        match self {
            PatternMatcher::Empty | PatternMatcher::AhoCorasick(_) => {}
            #[cfg(feature = "vectorscan")]
            PatternMatcher::Vectorscan(database) => database.grow(&mut scratch.vectorscan),
        }
        let _ = scratch;
    }

    /// Calls `found` with the number of each pattern in a payload, and with the place behind it.
    /// `false` if the library failed: any pattern may be in the payload then.
    pub(super) fn find(
        &self,
        payload: &[u8],
        scratch: &MatcherScratch,
        mut found: impl FnMut(usize, usize),
    ) -> bool {
        let _ = scratch;
        match self {
            PatternMatcher::Empty => true,
            PatternMatcher::AhoCorasick(automaton) => {
                for place in automaton.find_overlapping_iter(payload) {
                    found(place.pattern().as_usize(), place.end());
                }
                true
            }
            #[cfg(feature = "vectorscan")]
            PatternMatcher::Vectorscan(database) => {
                let scratch = scratch.vectorscan.as_ref();
                scratch.is_some_and(|scratch| database.find(payload, scratch, found))
            }
        }
    }
}
