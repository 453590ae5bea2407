//! What a full table costs, its rules in use or not, and what a hit costs against a miss.

use niclab_result::Finding;

use super::costs::{Cost, CostOf, ShareOf, share};
use super::{Sentence, Subject, figure_of, rules, rules_words};
use crate::cells::Cell;
use crate::findings::RatioVerdict;
use crate::findings::number::Number;
use crate::statistics::Estimate;
use crate::words;

/// A full group 0 against an empty one.
pub(super) fn full_table(s: &Subject<'_>) -> Option<Finding> {
    let (empty, full) = s.ends("saturate", 0.0)?;
    let figure = figure_of(s, "throughput-group0");
    let place = rules_words(full);
    if let Some(cost) = Cost::of(full, empty) {
        let about = CostOf {
            id: "device-time-group0",
            place: format!("with {place} in group 0"),
            base: &format!("with {}", rules_words(empty)),
            figure: Some("occupancy-device-time-group0"),
        };
        return cost.finding(s, &about);
    }
    if full.is_generator_limited() && !full.is_disturbed() {
        let e = full.estimate("throughput_pps")?.at_least();
        let number = Number::new(&e, "pps");
        return Some(s.finding(Sentence {
            id: "full-group0",
            sentence: format!(
                "{} forwards at least {number} with {place} in group 0{}: the generator was the \
                 limit.",
                s.device,
                words::few(&e)
            ),
            number,
            implication: "This generator is too slow to show the cost of a full table.".into(),
            figure,
        }));
    }
    let about = ShareOf {
        id: "full-group0",
        around: (
            format!("{} with {place} in group 0 reaches", s.device),
            format!("its throughput with {}", rules_words(empty)),
        ),
        follows: [
            "A full table costs almost no throughput.",
            "A full table costs throughput: install only rules that are used.",
            "A full table is faster here: look for the cost of the empty table.",
        ],
        figure,
    };
    let found = about.finding(s, (full, empty))?;
    let is_cost = |(ratio, verdict): &(Estimate, RatioVerdict)| {
        *verdict == RatioVerdict::Differs && ratio.median < 1.0
    };
    let flat = share(full, empty).filter(is_cost).and_then(|_| flat_from(s, full));
    Some(match flat {
        Some(from) => {
            let implication = format!(
                "From {} on, more rules cost almost no more throughput.",
                rules_words(from)
            );
            Finding { implication, ..found }
        }
        None => found,
    })
}

/// The first cell of several rules from which on the throughput is that of the full group 0, where
/// it lies in the first half of the table: a table that is slow when it is nearly full is not flat.
fn flat_from<'a>(s: &Subject<'a>, full: &Cell<'_>) -> Option<&'a Cell<'a>> {
    let cells = s.sweep("saturate", 0.0).into_iter();
    let between = cells.filter(|cell| rules(cell) > 1.0 && rules(cell) < rules(full));
    let from = between.fold(None, |from: Option<&Cell<'_>>, cell| match share(full, cell) {
        Some((_, RatioVerdict::NoCost)) => from.or(Some(cell)),
        Some((_, RatioVerdict::Differs)) => None,
        None => from,
    });
    from.filter(|cell| 2.0 * rules(cell) <= rules(full))
}

/// The fullest group 1 against the emptiest, where only the time of the core tells.
pub(super) fn full_group(s: &Subject<'_>) -> Option<Finding> {
    let (empty, full) = s.ends("saturate", 1.0)?;
    let cost = Cost::of(full, empty)?;
    // Its default rule is always there.
    let base = match rules(empty) {
        ..=1.0 => "with only its default rule".into(),
        _ => format!("with {}", rules_words(empty)),
    };
    let about = CostOf {
        id: "device-time-group1",
        place: format!("with {} in group 1", rules_words(full)),
        base: &base,
        figure: Some("occupancy-device-time-groups"),
    };
    cost.finding(s, &about)
}

/// The fullest group 0 with all of its rules in use, against a tenth of them.
pub(super) fn full_table_hit(s: &Subject<'_>) -> Option<Finding> {
    let hits = s.hits("saturate");
    let root = hits.iter().copied().filter(|cell| cell.is_at(&[("groups", 0.0)]));
    let root: Vec<&Cell<'_>> = root.collect();
    let full = *root.last()?;
    // A tenth, as near as a whole number of rules comes.
    let is_tenth = |cell: &&&Cell<'_>| (rules(cell) * 10.0 - rules(full)).abs() < 10.0;
    let tenth = *root.iter().find(is_tenth)?;
    let base = rules_words(tenth);
    let place = hit_equally(full);
    if let Some(cost) = Cost::of(full, tenth) {
        let base = &format!("with {base}");
        let about = CostOf { id: "device-time-group0-hits", place, base, figure: None };
        return cost.finding(s, &about);
    }
    let about = ShareOf {
        id: "full-group0-hits",
        around: (format!("{} {place} reaches", s.device), format!("its throughput with {base}")),
        follows: [
            "Traffic on all rules costs almost no throughput.",
            "Rules in use cost throughput: their entries must be loaded into the cache.",
            "More rules are faster here: look for the cost of the fewer rules.",
        ],
        figure: None,
    };
    about.finding(s, (full, tenth))
}

/// `with traffic spread evenly over 65,536 rules in group 0`.
fn hit_equally(cell: &Cell<'_>) -> String {
    format!("with traffic spread evenly over {} in group 0", rules_words(cell))
}

/// All traffic on rules against all traffic on the default rule, in the fullest group 0.
pub(super) fn matching(s: &Subject<'_>) -> Option<Finding> {
    let hit = s.hits("saturate").into_iter().rev().find(|cell| cell.is_at(&[("groups", 0.0)]))?;
    let missed = s.sweep("saturate", 0.0);
    let missed = missed.iter().find(|cell| rules(cell) == rules(hit))?;
    let (place, base) = (hit_equally(hit), "with traffic on the default rule alone");
    if let Some(cost) = Cost::of(hit, missed) {
        let about = CostOf { id: "device-time-matching", place, base, figure: None };
        return cost.finding(s, &about);
    }
    let about = ShareOf {
        id: "matching",
        around: (format!("{} {place} reaches", s.device), format!("its throughput {base}")),
        follows: [
            "The published case (all traffic on one default rule) is no easier.",
            "Results with all traffic on one default rule are too good: plan with this one.",
            "A miss costs more than a hit: let rules match most of the traffic.",
        ],
        figure: Some("occupancy-throughput-match".into()),
    };
    about.finding(s, (hit, missed))
}
