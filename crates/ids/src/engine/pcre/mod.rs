//! `pcre`: regular expressions, matched in time that is linear in the payload.

mod syntax;

use regex_automata::dfa::{Automaton, StartKind, dense, regex};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::Hir;

use super::content::{negation, unquoted};
use super::lack::Lack;
use super::signature::Unfit;
use syntax::{Expression, Syntax, SyntaxProblem};

/// Bytes of a table of an expression. If it needs more, threads match it, byte by byte.
const TABLE_LEN_MAX: usize = 256 << 10;
/// Bytes that making a table may take.
const WORK_LEN_MAX: usize = 2 << 20;
/// Bytes of the states of an expression.
const STATES_LEN_MAX: usize = 1 << 20;

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
    matcher: Option<PcreMatcher>,
}

#[derive(Clone, Debug)]
enum PcreMatcher {
    /// Tables of states: they say where the first match is, or whether there is one.
    Places(Box<regex::Regex>),
    Presence(Box<dense::DFA<Vec<u32>>>),
    /// With the number of the cache that it needs.
    Threads(Box<PikeVM>, usize),
}

/// Memory in which the expressions without a table are matched.
pub(super) type PcreCaches = Vec<pikevm::Cache>;

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
            matcher: None,
        })
    }

    /// Makes the matcher, once it is known whether the place of a match counts.
    pub(super) fn finish(&mut self) -> Result<(), Lack> {
        if self.has_place && self.expression.ends_before_newline {
            return Err(Lack::value("pcre", "`$` without `E` before a relative test"));
        }
        if self.has_place && self.expression.repeats_nothing {
            return Err(Lack::value("pcre", "repetitions of nothing before a relative test"));
        }
        let states = states(&self.expression.hir, false)
            .ok_or(Lack::value("pcre", "more than a megabyte of states"))?;
        self.matcher = Some(match self.table(&states) {
            Some(matcher) => matcher,
            None => {
                let vm = PikeVM::new_from_nfa(states);
                let vm = vm.map_err(|_| Lack::value("pcre", "this expression"))?;
                PcreMatcher::Threads(Box::new(vm), 0)
            }
        });
        Ok(())
    }

    /// The expression as a table, unless it is too large.
    fn table(&self, states: &thompson::NFA) -> Option<PcreMatcher> {
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
        let regex = regex::Builder::new().build_from_dfas(forward, reverse);
        Some(PcreMatcher::Places(Box::new(regex)))
    }

    /// Makes the memory that it needs to match.
    pub(super) fn add_cache(&mut self, caches: &mut usize) {
        if let Some(PcreMatcher::Threads(_, number)) = &mut self.matcher {
            *number = *caches;
            *caches += 1;
        }
    }

    /// Bytes of its tables and states.
    pub(super) fn memory_bytes(&self) -> usize {
        match &self.matcher {
            Some(PcreMatcher::Places(regex)) => {
                size_of::<regex::Regex>()
                    + regex.forward().memory_usage()
                    + regex.reverse().memory_usage()
            }
            Some(PcreMatcher::Presence(dfa)) => {
                size_of::<dense::DFA<Vec<u32>>>() + dfa.memory_usage()
            }
            Some(PcreMatcher::Threads(vm, _)) => size_of::<PikeVM>() + vm.get_nfa().memory_usage(),
            None => 0,
        }
    }

    /// The matcher that needs memory of its own.
    pub(super) fn vm(&self) -> Option<&PikeVM> {
        match &self.matcher {
            Some(PcreMatcher::Threads(vm, _)) => Some(vm),
            _ => None,
        }
    }

    /// Start and end of the first match that begins at `start` or later. If no test follows that
    /// needs the place, it is not the true one.
    pub(super) fn find(
        &self,
        payload: &[u8],
        start: usize,
        caches: &mut PcreCaches,
    ) -> Option<(usize, usize)> {
        let anchored = if self.anchored { Anchored::Yes } else { Anchored::No };
        let input = Input::new(payload).range(start..).anchored(anchored);
        match self.matcher.as_ref()? {
            // A table fails on bytes that it was told to stop at, and these have none.
            PcreMatcher::Places(regex) => {
                let found = regex.try_search(&input).ok().flatten()?;
                Some((found.start(), found.end()))
            }
            PcreMatcher::Presence(table) => {
                let found = table.try_search_fwd(&input.earliest(true)).ok().flatten()?;
                Some((start, found.offset()))
            }
            PcreMatcher::Threads(vm, cache) => {
                let found = vm.find(&mut caches[*cache], input)?;
                Some((found.start(), found.end()))
            }
        }
    }
}

/// The states of an expression; `None` if they are too many.
fn states(hir: &Hir, reverse: bool) -> Option<thompson::NFA> {
    let config = thompson::Config::new()
        .utf8(false)
        .reverse(reverse)
        .which_captures(if reverse { WhichCaptures::None } else { WhichCaptures::Implicit })
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
