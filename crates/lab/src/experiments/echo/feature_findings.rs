//! Findings on the cost of features in the path of messages.

use niclab_result::Finding;

use super::analysis::{PASSES, cost, figure_id, rules, without};
use super::findings::id;
use crate::cells::Cell;
use crate::findings::number::{Number, estimated};
use crate::findings::told;
use crate::hosts::RTT;
use crate::round_trips::words_at;
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::{statistics, words};

/// A finding for rules, for the tunnel, and for the queueing disciplines together, of the shortest
/// message.
pub(crate) fn findings(results: &Results<'_>, all: &[&Cell<'_>]) -> Vec<Finding> {
    let size = |cell: &Cell<'_>| cell.number("size").unwrap_or(f64::MAX);
    let mut with: Vec<(&Cell<'_>, &Cell<'_>)> =
        all.iter().filter_map(|cell| Some((*cell, without(all, cell)?))).collect();
    let shortest = with.iter().map(|(cell, _)| size(cell)).fold(f64::MAX, f64::min);
    with.retain(|(cell, _)| size(cell) == shortest);
    let found = [filter(results, &with), tunnel(results, &with), queueing(results, &with)];
    found.into_iter().flatten().collect()
}

/// What a rule costs: by the longest table against the empty one.
fn filter(results: &Results<'_>, with: &[(&Cell<'_>, &Cell<'_>)]) -> Option<Finding> {
    let most = with.iter().filter(|(cell, _)| rules(cell) > Some(0.0));
    let number = |cell: &Cell<'_>| rules(cell).unwrap_or(0.0);
    let (cell, base) = most.max_by(|a, b| number(a.0).total_cmp(&number(b.0)))?;
    let count = number(cell);
    let empty =
        with.iter().find(|(other, same)| rules(other) == Some(0.0) && std::ptr::eq(*same, *base));
    let empty = empty.map_or(base, |(empty, _)| empty);
    let (long, short) = cell.paired(empty, RTT);
    let each: Vec<f64> =
        long.iter().zip(&short).map(|(long, short)| (long - short) / PASSES / count).collect();
    let each = statistics::estimate(&each).filter(|each| each.is_above(0.0) == Some(true))?;
    let more = cost(cell, base).filter(|more| more.is_above(0.0) == Some(true))?;
    let number = Number::new(&each, "ns");
    let sentence = format!(
        "An nftables rule that does not match adds {number} per packet on {}: {} of them make a \
         round trip of {} longer by {}{}.",
        cell.device,
        words::whole(count),
        words_at(cell, "size"),
        estimated(&more, "ns"),
        words::few(&each)
    );
    let implication = "nftables checks a chain rule by rule: use a set or a map for many \
                       addresses, and put the most frequent matches first.";
    let figure = Some(figure_id(results));
    Some(told(cell.device, id(results, "rule"), number, (sentence, implication), figure))
}

fn tunnel(results: &Results<'_>, with: &[(&Cell<'_>, &Cell<'_>)]) -> Option<Finding> {
    let (cell, base) = with.iter().find(|(cell, _)| cell.word("feature") == "vxlan")?;
    let more = cost(cell, base).filter(|more| more.is_above(0.0) == Some(true))?;
    let number = Number::new(&more, "ns");
    let sentence = format!(
        "A VXLAN tunnel makes a round trip of {} {number} longer on {}{}.",
        words_at(cell, "size"),
        cell.device,
        words::few(&more)
    );
    let implication = "Each packet passes the stack once more and has 50 bytes less room. A card \
                       with tunnel offload can save this.";
    Some(told(cell.device, id(results, "vxlan"), number, (sentence, implication), None))
}

/// The cheapest and the dearest discipline of those that are shown to cost something.
fn queueing(results: &Results<'_>, with: &[(&Cell<'_>, &Cell<'_>)]) -> Option<Finding> {
    let is_qdisc = |cell: &Cell<'_>| rules(cell).is_none() && cell.word("feature") != "vxlan";
    let mut costs: Vec<(&Cell<'_>, Estimate)> = Vec::new();
    for (cell, base) in with.iter().filter(|(cell, _)| is_qdisc(cell)) {
        let cost = cost(cell, base).filter(|cost| cost.is_above(0.0) == Some(true));
        costs.extend(cost.map(|cost| (*cell, cost)));
    }
    costs.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
    let [(least, low), .., (most, high)] = costs.as_slice() else { return None };
    let name = |cell: &Cell<'_>| cell.word("feature");
    let number = Number::new(high, "ns");
    let sentence = format!(
        "{} queueing disciplines lengthen a round trip of {} on {}: {} adds least, {}, and {} \
         most, {number}{}.",
        costs.len(),
        words_at(least, "size"),
        least.device,
        name(least),
        estimated(low, "ns"),
        name(most),
        words::few(high)
    );
    let implication = "This is the cost of the discipline itself, with no packets queued.";
    Some(told(most.device, id(results, "qdisc"), number, (sentence, implication), None))
}
