//! Whether a payload passes the tests of a signature.

use super::budget::Budget;
use super::content::{Content, NextTest};
use super::lower_case::LowerCase;
use super::pcre::{Pcre, ThreadLists};
use super::signature::PayloadTest;

/// Memory of a thread to inspect a payload.
#[derive(Debug)]
pub(super) struct InspectionScratch {
    pub(super) lower_case: LowerCase,
    pub(super) lists: ThreadLists,
}

/// An attempt to match a payload.
///
/// Tests are tried in order. Where one fails, earlier contents and expressions on whose place it
/// depends try their next match, as Suricata does.
pub(super) struct Inspection<'a> {
    payload: &'a [u8],
    scratch: &'a mut InspectionScratch,
    budget: Budget,
    /// The end of the match before.
    previous: usize,
    /// Whether no other match of an earlier test can help.
    is_final: bool,
}

impl<'a> Inspection<'a> {
    pub(super) fn new(payload: &'a [u8], scratch: &'a mut InspectionScratch) -> Inspection<'a> {
        Inspection { payload, scratch, budget: Budget::new(), previous: 0, is_final: false }
    }

    /// Whether the payload was not inspected to the end, because it takes too much work.
    pub(super) fn is_exhausted(&self) -> bool {
        self.budget.is_exhausted()
    }

    /// Whether the payload passes these tests and all behind them.
    pub(super) fn passes(&mut self, tests: &[PayloadTest]) -> bool {
        let Some((test, rest)) = tests.split_first() else { return true };
        if !self.budget.take_test() {
            self.is_final = true;
            return false;
        }
        match test {
            PayloadTest::Content(content) => self.content(content, rest),
            PayloadTest::Pcre(pcre) => self.pcre(pcre, rest),
            PayloadTest::ByteTest(test) => {
                test.matches(self.payload, self.previous) && self.passes(rest)
            }
            PayloadTest::ByteJump(jump) => match jump.target(self.payload, self.previous) {
                Some(target) => {
                    self.previous = target;
                    self.passes(rest)
                }
                None => false,
            },
            PayloadTest::DataAt(place) => {
                place.matches(self.payload, self.previous) && self.passes(rest)
            }
        }
    }

    fn content(&mut self, content: &Content, rest: &[PayloadTest]) -> bool {
        let previous = self.previous;
        let (start, end) = window(content, self.payload.len(), previous);
        let mut from = start;
        loop {
            if from > end || end == 0 {
                return content.negated && self.passes(rest);
            }
            let searched = &self.payload[from..end];
            let is_cut = content.limits.ends && end < self.payload.len();
            let found = if is_cut { None } else { self.find(content, from, end) };
            let len = found.map_or(searched.len(), |at| at + content.bytes.len());
            if !self.budget.take_search(len) {
                self.is_final = true;
                return false;
            }
            let Some(found) = found.map(|at| from + at + content.bytes.len()) else {
                if content.negated {
                    return self.passes(rest);
                }
                self.is_final |= !content.is_relative();
                return false;
            };
            if content.negated {
                if content.limits.ends && searched.len() != found {
                    return self.passes(rest);
                }
                self.is_final |= content.is_single();
                return false;
            }
            self.previous = found;
            if !content.limits.ends || found == self.payload.len() {
                if self.passes(rest) {
                    return true;
                }
                self.is_final |= content.next != NextTest::Near;
                if self.is_final {
                    return false;
                }
            }
            from = found - (content.bytes.len() - 1);
        }
    }

    /// Where the first match in `from..end` begins, from `from`.
    fn find(&mut self, content: &Content, from: usize, end: usize) -> Option<usize> {
        let payload = match content.any_case {
            true => self.scratch.lower_case.of(self.payload),
            false => self.payload,
        };
        content.find(&payload[from..end])
    }

    fn pcre(&mut self, pcre: &Pcre, rest: &[PayloadTest]) -> bool {
        let previous = self.previous;
        let base = if pcre.is_relative { previous } else { 0 };
        let (subject, mut from) = (&self.payload[base..], 0);
        // PCRE takes a start behind the end as an error, which is no match of a negated expression
        // either.
        while from <= subject.len() {
            let found = pcre.find(subject, from, &mut self.scratch.lists, &mut self.budget);
            if self.budget.is_exhausted() {
                self.is_final = true;
                return false;
            }
            if found.is_some() == pcre.negated {
                return false;
            }
            if let Some((start, end)) = found {
                self.previous = base + end;
                from = start + 1;
            }
            if self.passes(rest) {
                return true;
            }
            if !pcre.is_followed || self.is_final || pcre.negated {
                return false;
            }
            self.previous = previous;
        }
        false
    }
}

/// Start and end of the bytes that a content may be in. The end may be before the start.
fn window(content: &Content, len: usize, previous: usize) -> (usize, usize) {
    let (len, previous) = (len as i64, previous as i64);
    let (offset, depth) = (i64::from(content.offset), i64::from(content.depth));
    if !content.is_relative() {
        let end = if depth != 0 { depth.min(len) } else { len };
        return (offset as usize, end as usize);
    }
    let distance = i64::from(content.distance.unwrap_or_default());
    let start = (previous + distance).max(0).max(offset);
    let end = match content.within.map(|within| previous + i64::from(within) + distance) {
        // Suricata takes a negative end as a large one.
        Some(end) if end >= 0 => end.min(len),
        _ => len,
    };
    let end = if depth != 0 { end.min(previous + depth) } else { end };
    (start as usize, end as usize)
}
