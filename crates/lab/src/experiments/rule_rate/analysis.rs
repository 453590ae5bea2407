//! What the data of `rule-rate` show, before it is worded or drawn.

use niclab_device::Stack;

use crate::axes::ACTIONS;
use crate::cells::Cell;
use crate::fit::published::stack_of;
use crate::published::{self, PublishedCard};
use crate::summary::Results;
use crate::summary::beside_published::PublishedPoint;
use crate::words;

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

/// Rules created a second at the places of the published figures 5a to 5d.
pub(crate) fn published(
    results: &Results<'_>,
    device: &str,
    card: PublishedCard,
) -> Vec<PublishedPoint> {
    let is_single = |cell: &&Cell<'_>| {
        cell.word("calls") == "single" && cell.number("threads").is_none() && !cell.is_refused()
    };
    let point = |cell: &Cell<'_>| {
        let (group, rules) = (cell.number("group")?, cell.number("rules")?);
        let (stack, actions) = (cell.word("stack"), cell.word("actions"));
        let actions_count = actions.split('+').count();
        let here = cell.estimate("operations_per_s")?.scaled(1e-3);
        let place = format!(
            "{} of {stack} created in {} ({actions})",
            words::rules(rules),
            words::groups(group)
        );
        let at = |figure: &'static str| {
            let is_here = |of: &published::PublishedRange| {
                stack_of(of.series) == Some((stack.as_str(), actions_count)) && of.x == rules
            };
            let published = published::spreads(card, figure).into_iter().find(is_here)?;
            Some(PublishedPoint {
                place: place.clone(),
                unit: "k rules/s",
                figure,
                here,
                published,
            })
        };
        let figures: &[&'static str] = if group == 0.0 { &["5a"] } else { &["5b", "5c", "5d"] };
        figures.iter().find_map(|figure| at(figure))
    };
    cells(results, device).into_iter().filter(is_single).filter_map(point).collect()
}
