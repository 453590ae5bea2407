//! Matches an expression without a table: by threads that are in a state each, byte by byte.
//!
//! Source: R. Pike's algorithm, as in "Regular Expression Matching: the Virtual Machine Approach"
//! (R. Cox, 2009).

use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::primitives::StateID;

use super::super::budget::Budget;

/// Memory for the threads of any expression, of one at a time.
#[derive(Debug, Default)]
pub(in super::super) struct ThreadLists {
    now: ThreadList,
    next: ThreadList,
    /// States to visit.
    open: Vec<StateID>,
}

/// Threads in the order in which PCRE prefers them.
#[derive(Debug, Default)]
struct ThreadList {
    /// The state of each thread, and where its match begins.
    threads: Vec<(StateID, u32)>,
    /// The round in which each state was visited.
    rounds: Vec<u32>,
    round: u32,
}

/// What is searched.
#[derive(Clone, Copy)]
pub(super) struct ThreadSearch<'a> {
    pub(super) states: &'a NFA,
    pub(super) payload: &'a [u8],
    /// A match begins here or later.
    pub(super) start: usize,
    /// Whether it begins here.
    pub(super) is_anchored: bool,
    /// Whether any match is as good as the one that PCRE prefers.
    pub(super) is_any: bool,
}

impl ThreadLists {
    /// Makes the memory large enough for an expression.
    pub(in super::super) fn grow(&mut self, states: &NFA) {
        let alternatives = states.states().iter().map(|state| match state {
            State::Union { alternates } => alternates.len(),
            State::BinaryUnion { .. } => 1,
            _ => 0,
        });
        let alternatives: usize = alternatives.sum();
        self.open.reserve_exact(alternatives);
        self.now.grow(states.states().len());
        self.next.grow(states.states().len());
    }

    pub(in super::super) fn memory_bytes(&self) -> usize {
        self.open.capacity() * size_of::<StateID>()
            + self.now.memory_bytes()
            + self.next.memory_bytes()
    }

    /// Start and end of the first match; `None`, too, if the budget does not reach.
    pub(super) fn find(
        &mut self,
        search: &ThreadSearch<'_>,
        budget: &mut Budget,
    ) -> Option<(usize, usize)> {
        let ThreadSearch { states, payload, start, is_anchored, is_any } = *search;
        let ThreadLists { now, next, open } = self;
        let (mut now, mut next) = (now, next);
        let mut found = None;
        now.clear();
        for at in start..=payload.len() {
            // The last choice of PCRE is a match that begins later.
            if found.is_none() && (at == start || !is_anchored) {
                now.visit(search, open, (states.start_anchored(), at as u32), at, budget)?;
            }
            if now.threads.is_empty() && (found.is_some() || is_anchored) {
                break;
            }
            next.clear();
            for &(id, begun) in &now.threads {
                budget.take(1).then_some(())?;
                let following = match states.state(id) {
                    State::ByteRange { trans } if trans.matches(payload, at) => Some(trans.next),
                    State::Sparse(several) => several.matches(payload, at),
                    State::Dense(several) => several.matches(payload, at),
                    State::Match { .. } => {
                        found = Some((begun as usize, at));
                        break;
                    }
                    _ => None,
                };
                if let Some(following) = following {
                    next.visit(search, open, (following, begun), at + 1, budget)?;
                }
            }
            if is_any && found.is_some() {
                break;
            }
            (now, next) = (next, now);
        }
        found
    }
}

impl ThreadList {
    fn clear(&mut self) {
        self.threads.clear();
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.rounds.fill(0);
            self.round = 1;
        }
    }

    fn grow(&mut self, states: usize) {
        if self.rounds.len() < states {
            self.rounds.resize(states, 0);
            self.threads.reserve_exact(states);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.threads.capacity() * size_of::<(StateID, u32)>()
            + self.rounds.capacity() * size_of::<u32>()
    }

    /// Adds the threads that a state stands for at a place, unless they are there. `None` if the
    /// budget does not reach.
    fn visit(
        &mut self,
        search: &ThreadSearch<'_>,
        open: &mut Vec<StateID>,
        (first, begun): (StateID, u32),
        at: usize,
        budget: &mut Budget,
    ) -> Option<()> {
        open.clear();
        let (mut steps, mut state) = (0, Some(first));
        while let Some(id) = state.or_else(|| open.pop()) {
            steps += 1;
            let round = &mut self.rounds[id.as_usize()];
            if std::mem::replace(round, self.round) == self.round {
                state = None;
                continue;
            }
            state = match search.states.state(id) {
                State::Look { look, next } => {
                    let looks = search.states.look_matcher();
                    looks.matches(*look, search.payload, at).then_some(*next)
                }
                State::BinaryUnion { alt1, alt2 } => {
                    open.push(*alt2);
                    Some(*alt1)
                }
                State::Union { alternates } => {
                    open.extend(alternates.iter().skip(1).rev());
                    alternates.first().copied()
                }
                State::Capture { next, .. } => Some(*next),
                State::Fail => None,
                _ => {
                    self.threads.push((id, begun));
                    None
                }
            };
        }
        budget.take(steps).then_some(())
    }
}
