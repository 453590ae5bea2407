//! Matches an expression by a table: one look-up per byte.

use regex_automata::dfa::{Automaton, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::{Anchored, Input};

use super::super::budget::Budget;

/// A table of states.
pub(super) type ExpressionTable = dense::DFA<Vec<u32>>;

/// The end of the first match that begins in the range of `input`, or with `earliest` any place by
/// which there is a match. The range ends with the payload.
pub(super) fn end_of_match(
    table: &ExpressionTable,
    input: &Input<'_>,
    budget: &mut Budget,
) -> Option<usize> {
    let (payload, start) = (input.haystack(), input.start());
    let mut state = table.start_state_forward(input).ok()?;
    let (mut found, mut at) = (None, start);
    while at < payload.len() {
        state = table.next_state(state, payload[at]);
        if !table.is_special_state(state) {
            at += 1;
            continue;
        }
        // A state says that a match ended before its last byte.
        if table.is_match_state(state) {
            found = Some(at);
        }
        if table.is_dead_state(state) || found.is_some() && input.get_earliest() {
            budget.take(at + 1 - start);
            return found;
        }
        at = next_change(table, state, payload, at + 1);
    }
    budget.take(payload.len() + 1 - start);
    match table.is_match_state(table.next_eoi_state(state)) {
        true => Some(payload.len()),
        false => found,
    }
}

/// The first place from `at` on whose byte may lead to another state.
fn next_change(table: &ExpressionTable, state: StateID, payload: &[u8], at: usize) -> usize {
    if !table.is_accel_state(state) {
        return at;
    }
    let rest = &payload[at..];
    let skipped = match *table.accelerator(state) {
        [a] => memchr::memchr(a, rest),
        [a, b] => memchr::memchr2(a, b, rest),
        [a, b, c] => memchr::memchr3(a, b, c, rest),
        _ => Some(0),
    };
    at + skipped.unwrap_or(rest.len())
}

/// The first place in `start..end` at which a match begins that ends at `end`. The table reads
/// backwards.
pub(super) fn start_of_match(
    table: &ExpressionTable,
    payload: &[u8],
    (start, end): (usize, usize),
    budget: &mut Budget,
) -> Option<usize> {
    let input = Input::new(payload).range(start..end).anchored(Anchored::Yes);
    let mut state = table.start_state_reverse(&input).ok()?;
    let mut found = None;
    for at in (start..end).rev() {
        state = table.next_state(state, payload[at]);
        if table.is_match_state(state) {
            found = Some(at + 1);
        } else if table.is_dead_state(state) {
            budget.take(end - at);
            return found;
        }
    }
    budget.take(end + 1 - start);
    let last = match start.checked_sub(1) {
        Some(before) => table.next_state(state, payload[before]),
        None => table.next_eoi_state(state),
    };
    if table.is_match_state(last) { Some(start) } else { found }
}
