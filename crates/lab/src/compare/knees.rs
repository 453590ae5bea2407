//! Knees side by side: their brackets are compared as intervals are.

use niclab_result::{Coordinate, Mark};

use super::judge::{self, UndecidedReason, Verdict};
use super::metrics::{Better, KNEE};
use super::{ComparedDevice, ExperimentPair, Group, Row};
use crate::axes::at_axes;
use crate::knee::{self, SearchResult};
use crate::spec::KneeKind;
use crate::summary::{FoundKnee, found_knees};
use crate::words;

/// The knees that both sides have searched to their end, what breaks there as the trial.
pub(super) fn groups(two: &ExperimentPair<'_>) -> Option<Vec<Group>> {
    let wanted = &two.terms.metrics;
    if !wanted.is_empty() && !wanted.iter().any(|name| name == KNEE) {
        return None;
    }
    let [base, other] = [0, 1].map(|side| found(two, two.sides[side], side));
    let mut groups: Vec<Group> = Vec::new();
    for (base, other) in base?.iter().filter_map(|knee| Some((knee, same(knee, &other)?))) {
        let (experiment, trial) = (two.name.to_owned(), knee::label(&base.knee.spec));
        let row = row(base, other, two.terms.tolerance);
        match groups.iter_mut().find(|group| group.trial == trial) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group {
                experiment,
                trial,
                metric: KNEE.into(),
                better: Better::Higher,
                rows: vec![row],
                pairs: Vec::new(),
            }),
        }
    }
    Some(groups)
}

fn found(two: &ExperimentPair<'_>, side: &ComparedDevice<'_>, at: usize) -> Option<Vec<FoundKnee>> {
    let experiment = side.run.experiments.iter().find(|experiment| experiment.name == two.name)?;
    let mut knees = found_knees(side.run, experiment, &two.cells[at], side.samples);
    knees.retain(|knee| knee.device == side.device);
    Some(knees)
}

/// The same question to the other side: up to another number of rules even.
fn same<'a>(knee: &FoundKnee, others: &'a Option<Vec<FoundKnee>>) -> Option<&'a FoundKnee> {
    let of = |knee: &FoundKnee| {
        let spec = &knee.knee.spec;
        (spec.groups, spec.match_percent, knee.frame.clone(), knee::label(spec))
    };
    others.as_ref()?.iter().find(|other| of(other) == of(knee))
}

fn row(base: &FoundKnee, other: &FoundKnee, tolerance: f64) -> Row {
    let [(base_low, base_high), (low, high)] = [base, other].map(|knee| ends(knee.found));
    let is_equal = base.found == other.found;
    let interval = match is_equal && base.found.middle_and_width().is_none() {
        // Neither has a knee where both looked.
        true => (1.0, 1.0),
        false => (low / base_high, high / base_low),
    };
    let middle = |low: f64, high: f64| if high.is_finite() { (low + high) / 2.0 } else { low };
    let limited = [base, other]
        .iter()
        .any(|knee| knee.knee.spec.kind == KneeKind::Throughput && knee.is_generator_limited);
    let spec = &base.knee.spec;
    let number = |value: u32| Coordinate::Number(value.into());
    let point = [("groups", number(spec.groups)), ("match_percent", number(spec.match_percent))];
    Row {
        point: at_axes(point),
        base: label(base.found),
        other: label(other.found),
        medians: None,
        ratio: if is_equal { 1.0 } else { middle(low, high) / middle(base_low, base_high) },
        interval: Some(interval),
        verdict: match limited.then_some(Mark::GeneratorLimited).or(base.doubt).or(other.doubt) {
            Some(mark) => Verdict::Undecided(UndecidedReason::Marked(mark)),
            None => judge::of_interval(Better::Higher, interval, tolerance),
        },
    }
}

/// Between which numbers of rules the knee lies.
fn ends(found: SearchResult) -> (f64, f64) {
    match found {
        SearchResult::Below { low } => (0.0, low.into()),
        SearchResult::Bracket { low, high } => (low.into(), high.into()),
        SearchResult::None { high } => (high.into(), f64::INFINITY),
        SearchResult::Stopped => (0.0, f64::INFINITY),
    }
}

fn label(found: SearchResult) -> String {
    match found {
        SearchResult::Below { low } => format!("below {}", words::whole(low.into())),
        SearchResult::Bracket { low, .. } => words::whole(low.into()),
        SearchResult::None { high } => format!("none up to {}", words::whole(high.into())),
        SearchResult::Stopped => "not finished".into(),
    }
}
