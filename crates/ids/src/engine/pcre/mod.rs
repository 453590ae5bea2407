//! `pcre`: regular expressions, matched in time that is linear in the payload.

mod syntax;
mod table;
mod threads;

use regex_automata::dfa::{StartKind, dense};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::Hir;

use super::budget::Budget;
use super::content::{negation, unquoted};
use super::lack::Lack;
use super::signature::Unfit;
use syntax::{Expression, Syntax, SyntaxProblem};
use table::{ExpressionTable, end_of_match, start_of_match};
pub(super) use threads::ThreadLists;
use threads::ThreadSearch;

/// Bytes of a table of an expression. If it needs more, threads match it, byte by byte.
const TABLE_LEN_MAX: usize = 256 << 10;
/// Bytes that making a table may take.
const WORK_LEN_MAX: usize = 2 << 20;
/// Bytes of all tables of an engine. Later expressions are matched by threads.
pub(super) const TABLES_LEN_MAX: usize = 256 << 20;
/// Bytes of the states of an expression. The threads of a core need at most twice as many, whatever
/// the number of expressions is.
const STATES_LEN_MAX: usize = 1 << 20;
/// Bytes of the states of all expressions of a text.
pub(super) const ALL_STATES_LEN_MAX: usize = 1 << 30;

/// A regular expression that a payload matches, or does not match.
#[derive(Clone, Debug)]
pub(super) struct Pcre {
    pub(super) negated: bool,
    /// Whether it begins at the end of the match before (`R`).
    pub(super) is_relative: bool,
    /// Whether another match is tried where a later test fails.
    pub(super) is_followed: bool,
    /// Whether a later test begins at the end of its match.
    pub(super) has_place: bool,
    /// Whether a match begins at the start alone (`A`).
    anchored: bool,
    expression: Expression,
    /// Bytes of its states, once it is finished.
    states_len: usize,
    /// Once it is prepared, and if it has no table.
    states: Option<NFA>,
    matcher: PcreMatcher,
}

#[derive(Clone, Debug)]
enum PcreMatcher {
    /// Tables of states, one of which reads backwards: they say where the first match is.
    Places(Box<[ExpressionTable; 2]>),
    /// A table that says whether there is a match.
    Presence(Box<ExpressionTable>),
    /// No table.
    Threads,
}

impl Pcre {
    /// Reads `"/expression/flags"`, with or without a `!`.
    pub(super) fn read(value: &str) -> Result<Pcre, Unfit> {
        const EXPECTED: &str = "an expression between slashes: pcre:\"/a+b/i\"";
        let lack = |value: &str| Err(Unfit::Lack(Lack::value("pcre", value)));
        let (negated, text) = negation(value);
        let text = if text.starts_with('"') { unquoted(text).ok_or(EXPECTED)? } else { text };
        if text.contains("flow:") || text.contains("pkt:") {
            return lack("captures into variables");
        }
        let (start, end) = slashes(text).ok_or(EXPECTED)?;
        let (mut syntax, mut anchored, mut is_relative) = (Syntax::default(), false, false);
        for flag in text[end + 1..].chars() {
            match flag {
                'A' => anchored = true,
                'E' => syntax.end_only = true,
                'G' => syntax.lazy = true,
                'i' => syntax.any_case = true,
                'm' => syntax.lines = true,
                's' => syntax.dot_all = true,
                'x' => syntax.extended = true,
                // A limit of Suricata's own, and bytes that are not decoded.
                'O' | 'B' => {}
                'R' => is_relative = true,
                'U' | 'V' | 'W' | 'Z' | 'H' | 'I' | 'D' | 'M' | 'C' | 'P' | 'Q' | 'Y' | 'S' => {
                    return lack(&format!("/{flag}, a buffer of HTTP"));
                }
                _ => return Err("flags of A, B, E, G, O, R, i, m, s and x".into()),
            }
        }
        let expression = match syntax::parse(&text[start + 1..end], syntax) {
            Ok(expression) => expression,
            Err(SyntaxProblem::Lack(what)) => return lack(what),
            Err(SyntaxProblem::Expected(what)) => return Err(what.into()),
        };
        Ok(Pcre {
            negated,
            is_relative,
            is_followed: false,
            has_place: false,
            anchored,
            expression,
            states_len: 0,
            states: None,
            matcher: PcreMatcher::Threads,
        })
    }

    /// Counts the states, once it is known whether the place of a match counts.
    pub(super) fn finish(&mut self) -> Result<(), Lack> {
        if self.has_place && self.expression.ends_before_newline {
            return Err(Lack::value("pcre", "`$` without `E` before a relative test"));
        }
        if self.has_place && self.expression.repeats_nothing {
            return Err(Lack::value("pcre", "repetitions of nothing before a relative test"));
        }
        let states = states(&self.expression.hir, false);
        let states = states.ok_or(Lack::value("pcre", "more than a megabyte of states"))?;
        self.states_len = states.memory_usage();
        Ok(())
    }

    /// Bytes of its states, once it is finished.
    pub(super) fn states_len(&self) -> usize {
        self.states_len
    }

    /// Prepares the search: by a table if it is small and `left` has room for the largest one, else
    /// by states. Takes the bytes of the table from `left`.
    pub(super) fn prepare(&mut self, left: &mut usize) {
        let Some(states) = states(&self.expression.hir, false) else { return };
        let has_room = *left >= 2 * TABLE_LEN_MAX;
        match has_room.then(|| self.table(&states)).flatten() {
            Some(table) => {
                *left = left.saturating_sub(table.memory_bytes());
                self.matcher = table;
            }
            None => self.states = Some(states),
        }
        // Nothing is made of it any more.
        self.expression.hir = Hir::empty();
    }

    /// The expression as a table, unless it is too large.
    fn table(&self, states: &NFA) -> Option<PcreMatcher> {
        let start = if self.anchored { StartKind::Anchored } else { StartKind::Unanchored };
        let config = dense::Config::new()
            .start_kind(start)
            .dfa_size_limit(Some(TABLE_LEN_MAX))
            .determinize_size_limit(Some(WORK_LEN_MAX));
        let forward =
            dense::Builder::new().configure(config.clone()).build_from_nfa(states).ok()?;
        if !self.has_place {
            return Some(PcreMatcher::Presence(Box::new(forward)));
        }
        let config = config
            .prefilter(None)
            .specialize_start_states(false)
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::All);
        let states = self::states(&self.expression.hir, true)?;
        let reverse = dense::Builder::new().configure(config).build_from_nfa(&states).ok()?;
        Some(PcreMatcher::Places(Box::new([forward, reverse])))
    }

    /// Bytes of its tables and states.
    pub(super) fn memory_bytes(&self) -> usize {
        let states = self.states.as_ref();
        states.map_or(0, |states| size_of::<NFA>() + states.memory_usage())
            + self.matcher.memory_bytes()
    }

    /// Makes the memory of a thread large enough.
    pub(super) fn grow(&self, lists: &mut ThreadLists) {
        if let (PcreMatcher::Threads, Some(states)) = (&self.matcher, &self.states) {
            lists.grow(states);
        }
    }

    /// Start and end of the first match that begins at `start` or later. If no test follows that
    /// needs the place, it is not the true one. Nothing is found if the budget does not reach.
    pub(super) fn find(
        &self,
        payload: &[u8],
        start: usize,
        lists: &mut ThreadLists,
        budget: &mut Budget,
    ) -> Option<(usize, usize)> {
        let anchored = if self.anchored { Anchored::Yes } else { Anchored::No };
        let input = Input::new(payload).range(start..).anchored(anchored);
        let found = match &self.matcher {
            PcreMatcher::Places(tables) => {
                let [forward, reverse] = &**tables;
                let end = end_of_match(forward, &input, budget)?;
                let begin = match self.anchored || end == start {
                    true => Some(start),
                    false => start_of_match(reverse, payload, (start, end), budget),
                };
                begin.map(|begin| (begin, end))
            }
            PcreMatcher::Presence(table) => {
                let end = end_of_match(table, &input.earliest(true), budget)?;
                Some((start, end))
            }
            PcreMatcher::Threads => {
                let search = ThreadSearch {
                    states: self.states.as_ref()?,
                    payload,
                    start,
                    is_anchored: self.anchored,
                    is_any: !self.has_place,
                };
                lists.find(&search, budget)
            }
        };
        found.filter(|_| !budget.is_exhausted())
    }
}

impl PcreMatcher {
    /// Bytes of its tables.
    fn memory_bytes(&self) -> usize {
        let bytes = |table: &ExpressionTable| size_of::<ExpressionTable>() + table.memory_usage();
        match self {
            PcreMatcher::Places(tables) => tables.iter().map(bytes).sum(),
            PcreMatcher::Presence(table) => bytes(table),
            PcreMatcher::Threads => 0,
        }
    }
}

/// The states of an expression; `None` if they are too many.
fn states(hir: &Hir, reverse: bool) -> Option<NFA> {
    let config = thompson::Config::new()
        .utf8(false)
        .reverse(reverse)
        .which_captures(WhichCaptures::None)
        .nfa_size_limit(Some(STATES_LEN_MAX));
    thompson::Compiler::new().configure(config).build_from_hir(hir).ok()
}

/// The first slash, and the last one that no `\` escapes.
fn slashes(text: &str) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let is_escaped = |at: usize| {
        let before = bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        before % 2 == 1
    };
    let start = text.find('/').filter(|start| *start == 0 || bytes[start - 1] != b'\\')?;
    let end = text.rfind('/').filter(|end| *end > start && !is_escaped(*end))?;
    Some((start, end))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
