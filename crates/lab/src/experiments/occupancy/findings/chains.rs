//! What the longest chain of groups costs against one group.

use niclab_result::Finding;

use super::costs::{Cost, CostOf, ShareOf};
use super::{Sentence, Subject, figure_of, rules, rules_words};
use crate::cells::{Cell, paired};
use crate::findings::REPEATS_MIN;
use crate::findings::number::Number;
use crate::words;

/// Whose packets a chain is judged by.
struct Chained {
    /// With them matching the default rules alone, and with them on rules.
    ids: [&'static str; 2],
    groups: f64,
    /// ` and all traffic on rules`.
    traffic: &'static str,
}

/// The longest chain of groups against one group, at the most rules that both have, with traffic
/// that meets default rules alone: the published case.
pub(super) fn chain(s: &Subject<'_>) -> Option<Finding> {
    let chained = s.results.cells.of(s.device, "saturate").filter_map(|cell| cell.number("groups"));
    let groups = chained.filter(|groups| *groups > 1.0).max_by(f64::total_cmp)?;
    let about = Chained { ids: ["chain", "device-time-chain"], groups, traffic: "" };
    chained_against_one(s, &about, &s.sweep("saturate", groups), &s.sweep("saturate", 1.0))
}

/// The same with all traffic on rules.
pub(super) fn chain_hits(s: &Subject<'_>) -> Option<Finding> {
    let hits = s.hits("saturate");
    let chained = hits.iter().filter_map(|cell| cell.number("groups"));
    let groups = chained.filter(|groups| *groups > 1.0).max_by(f64::total_cmp)?;
    let of = |groups| -> Vec<_> {
        hits.iter().copied().filter(|cell| cell.is_at(&[("groups", groups)])).collect()
    };
    let ids = ["chain-hits", "device-time-chain-hits"];
    let about = Chained { ids, groups, traffic: " and all traffic on rules" };
    chained_against_one(s, &about, &of(groups), &of(1.0))
}

fn chained_against_one(
    s: &Subject<'_>,
    about: &Chained,
    longest: &[&Cell<'_>],
    one: &[&Cell<'_>],
) -> Option<Finding> {
    let Chained { ids, groups, traffic } = about;
    let pair = longest.iter().rev().find_map(|cell| {
        one.iter().find(|other| rules(other) == rules(cell)).map(|other| (*cell, *other))
    });
    let (cell, base) = pair?;
    let is_published = traffic.is_empty();
    if let Some(cost) = Cost::of(cell, base) {
        let about = CostOf {
            id: ids[1],
            place: format!("with {} in {groups} chained groups{traffic}", rules_words(cell)),
            base: "with the same number in group 1",
            figure: is_published.then_some("occupancy-device-time-groups"),
        };
        return cost.finding(s, &about);
    }
    if base.is_generator_limited() && !cell.is_generator_limited() {
        return chain_at_most(s, about, cell, base);
    }
    let about = ShareOf {
        id: ids[0],
        around: (
            format!(
                "{} with {} in {groups} chained groups{traffic} reaches",
                s.device,
                rules_words(cell)
            ),
            "its throughput with one group".to_owned(),
        ),
        follows: [
            "Chained groups cost almost nothing: use them to order rules.",
            "Chained groups cost throughput: keep the chain short.",
            "Rules are faster here when spread over groups.",
        ],
        figure: is_published.then(|| figure_of(s, "throughput-groups")).flatten(),
    };
    about.finding(s, (cell, base))
}

/// The chain at its limit, one group at the generator's: one group can do more, so that the share
/// is an upper bound.
fn chain_at_most(
    s: &Subject<'_>,
    about: &Chained,
    cell: &Cell<'_>,
    base: &Cell<'_>,
) -> Option<Finding> {
    let Chained { ids, groups, traffic } = about;
    let ratio = paired(cell, base, "throughput_pps")?.at_most();
    let is_disturbed = cell.is_disturbed() || base.is_disturbed();
    if ratio.repeats < REPEATS_MIN || ratio.high >= 1.0 || is_disturbed {
        return None;
    }
    let number = Number::percent(&ratio);
    Some(s.finding(Sentence {
        id: ids[0],
        sentence: format!(
            "{} with {} in {groups} chained groups{traffic} reaches at most {number} of its \
             throughput with the same number in group 1, where the generator was the limit{}.",
            s.device,
            rules_words(cell),
            words::few(&ratio)
        ),
        number,
        implication: "Chained groups cost throughput: keep the chain short.".into(),
        figure: traffic.is_empty().then(|| figure_of(s, "throughput-groups")).flatten(),
    }))
}
