//! An engine that matches rules packet by packet.
//!
//! It supports the keywords that look at one packet: `content` with its modifiers, `pcre`, `dsize`,
//! `flags`, `byte_test`, `byte_jump` and `isdataat`. Its alerts on these rules equal those of
//! Suricata 7.0. [`Signature::of`] names what it lacks for any other rule.
//!
//! A [`RuleEngine`] is shared by threads. Each thread has a [`Scratch`].
//! [`RuleEngine::inspect`] allocates nothing.

mod budget;
mod content;
mod field;
mod header;
mod inspection;
mod lack;
mod limits;
mod lower_case;
mod matcher;
mod number;
mod packet;
mod pcre;
mod prefilter;
mod signature;
#[cfg(feature = "vectorscan")]
mod vectorscan;

use std::cell::Cell;

pub use lack::Lack;
pub use matcher::Matcher;
pub use packet::NotInspected;
pub use signature::{Signature, SignatureProblem};

use crate::rule::{Action, Rule, RuleError, RuleProblem, read_with};
use crate::variables::Variables;
use inspection::{Inspection, InspectionScratch};
use lower_case::LowerCase;
use matcher::MatcherScratch;
use packet::InspectedPacket;
use pcre::{ALL_STATES_LEN_MAX, Pcre, TABLES_LEN_MAX, ThreadLists};
use prefilter::{CandidateSet, DirectedSignature, Prefilter};

/// The most alerts of a packet; `packet-alert-max` of Suricata is the same.
pub const ALERTS_MAX: usize = 15;

/// An alert: a packet matches a rule that reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alert {
    /// The number of the signature, in the order in which [`RuleEngine::new`] got them.
    pub signature: usize,
    /// `sid` of the rule.
    pub sid: u32,
    /// `gid` of the rule.
    pub gid: u32,
    /// The action of the rule: `alert`, `drop` or `reject`.
    pub action: Action,
}

/// A rule, and its signature or what the engine lacks for it.
pub type CheckedRule = (Rule, Result<Signature, Vec<Lack>>);

/// Reads rules as [`rule::read`](crate::rule::read) does, and makes signatures of those that the
/// engine supports.
///
/// # Errors
/// The first 20 rules that cannot be read, or have a keyword with a wrong value: nothing of the
/// text is used.
pub fn read(text: &str, variables: &Variables) -> Result<Vec<CheckedRule>, Vec<RuleError>> {
    read_within(ALL_STATES_LEN_MAX, text, variables)
}

/// Reads as [`read`] does. The states of all expressions have at most `states_len_max` bytes.
fn read_within(
    states_len_max: usize,
    text: &str,
    variables: &Variables,
) -> Result<Vec<CheckedRule>, Vec<RuleError>> {
    let left = Cell::new(states_len_max);
    read_with(text, variables, |rule| match Signature::of(rule) {
        Ok(signature) => {
            let states_len = signature.expressions().map(Pcre::states_len).sum();
            Ok(match left.get().checked_sub(states_len) {
                Some(behind) => {
                    left.set(behind);
                    Ok(signature)
                }
                None => Err(vec![Lack::value("pcre", "more than a gigabyte of states in a file")]),
            })
        }
        Err(SignatureProblem::Unsupported(lacks)) => Ok(Err(lacks)),
        Err(SignatureProblem::Wrong { keyword, expected }) => {
            Err((keyword, RuleProblem::Expected(expected)))
        }
    })
}

/// Signatures, prepared to be searched all at once.
#[derive(Debug)]
pub struct RuleEngine {
    signatures: Vec<Signature>,
    /// The number that each signature had.
    numbers: Vec<usize>,
    /// In the order of alerts.
    entries: Vec<DirectedSignature>,
    prefilter: Prefilter,
}

/// Memory of one thread, for one engine.
#[derive(Debug)]
pub struct Scratch {
    candidates: CandidateSet,
    patterns: MatcherScratch,
    inspection: InspectionScratch,
    given_up: u64,
}

impl Scratch {
    /// How often a packet was not inspected to the end for a signature, because this took more work
    /// than the engine does. The signature does not match such a packet.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Bytes that the thread needs. Memory of Vectorscan is not counted.
    pub fn memory_bytes(&self) -> usize {
        let InspectionScratch { lower_case, lists } = &self.inspection;
        self.candidates.memory_bytes() + lower_case.memory_bytes() + lists.memory_bytes()
    }
}

impl RuleEngine {
    /// Prepares signatures, with the fastest matcher of [`Matcher::ALL`].
    pub fn new(signatures: impl IntoIterator<Item = Signature>) -> RuleEngine {
        RuleEngine::with_matcher(signatures, Matcher::ALL[Matcher::ALL.len() - 1])
    }

    /// Prepares signatures. The matcher changes no alert.
    pub fn with_matcher(
        signatures: impl IntoIterator<Item = Signature>,
        matcher: Matcher,
    ) -> RuleEngine {
        let mut ordered: Vec<(usize, Signature)> = signatures.into_iter().enumerate().collect();
        ordered.sort_by_key(|(_, signature)| {
            (order_of(signature.action), signature.priority, signature.sid)
        });
        let (numbers, mut signatures): (Vec<usize>, Vec<Signature>) = ordered.into_iter().unzip();
        let mut left = TABLES_LEN_MAX;
        for signature in &mut signatures {
            signature.expressions_mut().for_each(|pcre| pcre.prepare(&mut left));
        }
        let directions = |(number, signature): (u32, &Signature)| {
            let headers = signature.headers.clone().into_iter();
            headers.map(move |header| DirectedSignature { signature: number, header })
        };
        let entries: Vec<DirectedSignature> = (0..).zip(&signatures).flat_map(directions).collect();
        let prefilter = Prefilter::new(&entries, &signatures, matcher);
        RuleEngine { signatures, numbers, entries, prefilter }
    }

    /// The number of signatures.
    pub fn signatures_count(&self) -> usize {
        self.signatures.len()
    }

    /// Bytes of its signatures and tables, counted from their sizes. Tables of Vectorscan are not
    /// counted.
    pub fn memory_bytes(&self) -> usize {
        let numbers = self.numbers.capacity() * size_of::<usize>();
        let entries = self.entries.capacity() * size_of::<DirectedSignature>();
        let signatures = self.signatures.iter().map(Signature::memory_bytes).sum::<usize>();
        numbers + entries + signatures + self.prefilter.memory_bytes()
    }

    /// Memory for one thread. [`RuleEngine::inspect`] does not grow it.
    pub fn scratch(&self) -> Scratch {
        let mut lists = ThreadLists::default();
        let expressions = self.signatures.iter().flat_map(Signature::expressions);
        expressions.for_each(|pcre| pcre.grow(&mut lists));
        Scratch {
            candidates: self.prefilter.candidates(self.entries.len()),
            patterns: self.prefilter.scratch(),
            inspection: InspectionScratch { lower_case: LowerCase::new(), lists },
            given_up: 0,
        }
    }

    /// Inspects an Ethernet frame (no FCS), and calls `report` with each alert, in Suricata's
    /// order. `scratch` is of this engine.
    ///
    /// # Errors
    /// The frame is not inspected, because a packet in it cannot be told from it alone.
    pub fn inspect(
        &self,
        frame: &[u8],
        scratch: &mut Scratch,
        mut report: impl FnMut(Alert),
    ) -> Result<(), NotInspected> {
        let packet = InspectedPacket::read(frame)?;
        let Scratch { candidates, patterns, inspection, given_up } = scratch;
        inspection.lower_case.clear();
        self.prefilter.find(&packet, patterns, candidates);
        let mut alerts = 0;
        for &entry in &candidates.entries {
            let entry = &self.entries[entry as usize];
            let number = entry.signature as usize;
            let signature = &self.signatures[number];
            if !entry.header.matches(&packet) || !signature.matches(&packet, inspection, given_up) {
                continue;
            }
            if signature.action == Action::Pass {
                break;
            }
            if signature.is_silent {
                continue;
            }
            let Signature { sid, gid, action, .. } = *signature;
            report(Alert { signature: self.numbers[number], sid, gid, action });
            alerts += 1;
            if alerts == ALERTS_MAX {
                break;
            }
        }
        Ok(())
    }
}

impl Signature {
    /// Whether a packet has the size, the flags and the payload. Counts up if the payload is given
    /// up.
    fn matches(
        &self,
        packet: &InspectedPacket<'_>,
        scratch: &mut InspectionScratch,
        given_up: &mut u64,
    ) -> bool {
        let payload = packet.payload;
        let has_flags = self.flags.iter().all(|test| {
            packet.flags.is_some_and(|flags| test.matches(flags, self.pattern.is_some()))
        });
        if !has_flags || self.size.is_some_and(|size| !size.matches(payload.len())) {
            return false;
        }
        if self.tests.is_empty() {
            return true;
        }
        if payload.is_empty() {
            return false;
        }
        let mut inspection = Inspection::new(payload, scratch);
        let passes = inspection.passes(&self.tests);
        *given_up += u64::from(inspection.is_exhausted());
        passes
    }
}

/// The order in which Suricata tries actions.
fn order_of(action: Action) -> u8 {
    match action {
        Action::Pass => 0,
        Action::Drop => 1,
        Action::Reject => 2,
        Action::Alert | Action::Config => 3,
    }
}

#[cfg(test)]
mod tests;
