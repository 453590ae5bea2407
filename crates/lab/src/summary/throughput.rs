//! Throughputs that were searched, beside the saturating throughput of their places.

use niclab_result::{Coordinate, Mark, ReportTable, Sample};

use super::Results;
use super::tables::{LOAD, columns, ordered, place, results_from, table};
use crate::cells::Cell;
use crate::mlr::{GoalResult, Regularity, SearchGoal};
use crate::runner::throughput::{SearchRecord, record};
use crate::statistics::Estimate;
use crate::throughput::Mode;
use crate::words;

/// Trials of RFC 2544, section 24, nanoseconds.
const RFC2544_TRIAL_NS: u64 = 60_000_000_000;

/// A search that was made.
pub(crate) struct FoundThroughput<'a> {
    /// Where, and with which sample.
    pub cell: &'a Cell<'a>,
    /// By which standard.
    pub mode: Mode,
    /// The search and its result.
    pub record: SearchRecord,
    /// Warnings that belong to it.
    pub marks: &'a [Mark],
    /// Throughput of the saturating trials there, frames a second.
    pub saturating: Option<Estimate>,
    /// The generator was their limit.
    pub is_saturating_limited: bool,
}

/// A goal of a search with its result.
pub(crate) struct FoundGoal<'a> {
    pub goal: &'a SearchGoal,
    pub found: GoalResult,
    pub is_generator_limited: bool,
}

impl FoundThroughput<'_> {
    /// The goals, in their order.
    pub fn goals(&self) -> impl Iterator<Item = FoundGoal<'_>> {
        let found = self.record.results.iter().zip(&self.record.generator_limited);
        self.record.input.goals.iter().zip(found).map(|(goal, (found, limited))| FoundGoal {
            goal,
            found: *found,
            is_generator_limited: *limited,
        })
    }

    /// `true` of a goal whose throughput lies above the interval of the saturating one, which the
    /// device set, by more than the width of the search. No device carries more without loss than
    /// at most, so the machine changed between the two.
    pub fn contradicts_saturating(&self, goal: &FoundGoal<'_>) -> bool {
        let saturating = self.saturating.filter(|_| !self.is_saturating_limited);
        let both = goal.found.conditional_pps.zip(saturating);
        both.is_some_and(|(pps, saturating)| pps > saturating.high * (1.0 + goal.goal.width))
    }
}

/// How many searches of a device contradict the saturating load of their places, for a warning.
pub(crate) fn contradiction_warning(results: &Results<'_>, device: &str) -> Option<String> {
    let found = found(results);
    let here: Vec<_> = found.iter().filter(|of| of.cell.device == device).collect();
    let is_above =
        |of: &&&FoundThroughput<'_>| of.goals().any(|goal| of.contradicts_saturating(&goal));
    let count = here.iter().filter(is_above).count();
    (count > 0).then(|| {
        format!(
            "{device}: {}: {count} of {} {} above the saturating throughput of the same place: the \
             machine changed between the two. No figure and no finding has these searches; measure \
             them again.",
            results.experiment.name,
            if here.len() == 1 { "1 search".into() } else { format!("{} searches", here.len()) },
            words::verb(count as f64, "ends", "end"),
        )
    })
}

/// All searches that came to an end, in reading order.
pub(crate) fn found<'a>(results: &'a Results<'a>) -> Vec<FoundThroughput<'a>> {
    let of = |mode: Mode| {
        let cells = ordered(results, &[mode.name()]);
        cells.into_iter().filter_map(move |cell| of_cell(results, cell, mode))
    };
    of(Mode::Mlrsearch).chain(of(Mode::Rfc2544)).collect()
}

fn of_cell<'a>(
    results: &'a Results<'a>,
    cell: &'a Cell<'a>,
    mode: Mode,
) -> Option<FoundThroughput<'a>> {
    // Of two samples of one search the later counts.
    let sample: &'a Sample = cell.samples.last()?;
    let saturating = results.cells.of(cell.device, "saturate").find(|c| c.point == cell.point);
    Some(FoundThroughput {
        cell,
        mode,
        record: record(sample)?,
        marks: &sample.marks,
        saturating: saturating.and_then(|cell| cell.estimate("throughput_pps")),
        is_saturating_limited: saturating.is_some_and(Cell::is_generator_limited),
    })
}

/// The table of all searches: a row a goal.
pub(crate) fn searched(results: &Results<'_>) -> ReportTable {
    let all = found(results);
    let rows = all.iter().flat_map(|of| {
        of.goals().map(|goal| {
            let mut row = place(results, of.cell, &LOAD);
            row.extend([
                of.mode.words().to_string(),
                goal.goal.name.clone(),
                asked(of.mode, goal.goal),
            ]);
            row.extend(figures(of, &goal));
            row.push(words::whole(of.record.trials.load_pps.len() as f64));
            row.push(remarks(of, &goal));
            row
        })
    });
    let heads = [
        "search",
        "goal",
        "asked for",
        "conditional throughput",
        "of saturating",
        "bounds",
        "trials of the search",
        "marks",
    ];
    let title = "Throughput by search: undisturbed loss, what was not sent counted as lost";
    results_from(
        "conditional throughput",
        table("occupancy-searches", title, &columns(results, &LOAD, &heads), rows.collect()),
    )
}

/// Throughput, its share of the saturating one, and its bounds.
fn figures(of: &FoundThroughput<'_>, goal: &FoundGoal<'_>) -> [String; 3] {
    let GoalResult { regularity, lower_pps, upper_pps, conditional_pps } = goal.found;
    let bound = |pps: Option<u64>| pps.map_or("-".into(), |pps| words::pps(pps as f64));
    let at_least = match regularity == Regularity::MaxLoad || goal.is_generator_limited {
        true => "at least ",
        false => "",
    };
    // A share of what the generator set is none of the device's.
    let is_limited = goal.is_generator_limited || of.is_saturating_limited;
    let is_comparable = !is_limited && !of.contradicts_saturating(goal);
    let saturating_pps =
        of.saturating.map(|of| of.median).filter(|pps| *pps > 0.0 && is_comparable);
    let share = conditional_pps.zip(saturating_pps);
    [
        conditional_pps.map_or("-".into(), |pps| format!("{at_least}{}", words::pps(pps))),
        share.map_or("-".into(), |(pps, saturating)| words::percent(pps / saturating)),
        format!("{} to {}", bound(lower_pps), bound(upper_pps)),
    ]
}

/// A goal in words: RFC 9971 wants it told with its results.
fn asked(mode: Mode, goal: &SearchGoal) -> String {
    let trial = words::time(goal.final_ns as f64);
    let trials = match goal.sum_ns > goal.final_ns {
        false if mode == Mode::Rfc2544 && goal.final_ns < RFC2544_TRIAL_NS => {
            format!("one trial of {trial} (there: 60 s)")
        }
        false => format!("one trial of {trial}"),
        true => format!(
            "trials of {trial}, {} in all, {} of it may exceed",
            words::time(goal.sum_ns as f64),
            words::percent_asked(goal.exceed_ratio)
        ),
    };
    let (loss, width) = (words::percent_asked(goal.loss_ratio), words::percent_asked(goal.width));
    format!("{loss} loss, {trials}, width {width}")
}

/// What a reader must know: an irregular result is said to be one.
fn remarks(of: &FoundThroughput<'_>, goal: &FoundGoal<'_>) -> String {
    let load = |pps: u64| words::pps(pps as f64);
    let input = &of.record.input;
    let mut remarks = match goal.found.regularity {
        Regularity::Regular => Vec::new(),
        Regularity::MaxLoad => {
            vec![format!(
                "irregular: {}, the greatest load tried, passes",
                load(input.max_load_pps)
            )]
        }
        Regularity::MinLoad => {
            vec![format!("irregular: {}, the smallest load tried, fails", load(input.min_load_pps))]
        }
        Regularity::Stopped => {
            vec![format!("irregular: {} trials did not reach the width", input.trials_max)]
        }
    };
    if of.contradicts_saturating(goal) {
        remarks.push("above the saturating throughput".to_owned());
    }
    if goal.is_generator_limited {
        remarks.push(Mark::GeneratorLimited.to_string());
    }
    let of_all = [Mark::Disturbed, Mark::Unbalanced].into_iter();
    remarks.extend(of_all.filter(|mark| of.marks.contains(mark)).map(|mark| mark.to_string()));
    remarks.join(", ")
}

/// The frames of a search, as a coordinate.
pub(crate) fn frame(cell: &Cell<'_>) -> String {
    cell.point.get("frame").map(Coordinate::to_string).unwrap_or_default()
}
