//! What the data of `rule-rate` show, before it is worded or drawn.

use niclab_device::Stack;

use crate::axes::ACTIONS;
use crate::cells::Cell;
use crate::summary::Results;

/// Actions that all stacks are compared with.
pub(crate) const PLAIN: &str = ACTIONS[0].0;

/// The stack that all actions are compared with.
pub(crate) const STACK: &str = "eth/ipv4/tcp";

/// All cells of insertions of a device, in reading order.
pub(crate) fn cells<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "insert").collect();
    let place = |cell: &Cell<'_>| {
        let stack = Stack::ALL.iter().position(|(name, _)| *name == cell.word("stack"));
        let actions = ACTIONS.iter().position(|(name, _)| *name == cell.word("actions"));
        let number = |axis| cell.number(axis).unwrap_or(0.0);
        let threads = cell.number("threads");
        (number("group"), stack, actions, cell.word("calls"), threads, number("rules"))
    };
    cells.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal));
    cells
}

/// The stack whose rules have several lists of actions in a group: the usual one, where it has.
pub(crate) fn acted_stack(cells: &[&Cell<'_>], group: f64) -> String {
    let acted = cells.iter().filter(|cell| cell.is_at(&[("group", group)]));
    let mut acted =
        acted.filter(|cell| cell.word("actions") != PLAIN).map(|cell| cell.word("stack"));
    let first = acted.next();
    match acted.any(|stack| stack == STACK) {
        true => STACK.to_owned(),
        false => first.unwrap_or_else(|| STACK.to_owned()),
    }
}

/// The figure of a group and what is compared in it: `stacks`, `tunnels`, `actions` or `calls`.
pub(crate) fn figure_id(group: f64, what: &str) -> String {
    format!("rule-rate-group{group}-{what}")
}
