//! The findings of the experiment `queue-change`.

use niclab_result::Finding;

use super::{REPEATS_MIN, told};
use crate::cells::Cell;
use crate::respread::{LOOK, REACTION, SETTLED};
use crate::statistics;
use crate::summary::Results;
use crate::summary::respreads::{USED, answers, changes, figure_id, sum};
use crate::summary::spreads::number;
use crate::words;

/// Device by device: what changes cost frames that flow; and what each way to answer a load that
/// steps is worth.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        findings.extend(changed(results, device));
        let all = answers(results, device);
        findings.extend(all.iter().filter_map(|cell| answered(cell, &all)));
        findings.extend(all.iter().filter_map(|cell| saved(cell)));
    }
    findings
}

/// What all changes of a device cost.
fn changed(results: &Results<'_>, device: &str) -> Option<Finding> {
    let all = changes(results, device);
    let cells: Vec<&Cell<'_>> =
        all.iter().copied().filter(|cell| cell.word("change") != "none").collect();
    let of = |metric| cells.iter().map(|cell| sum(cell, metric)).sum::<f64>();
    let settled: Vec<f64> = cells.iter().flat_map(|cell| cell.values(SETTLED)).collect();
    let looks: Vec<f64> = cells.iter().flat_map(|cell| cell.values(LOOK)).collect();
    let look = statistics::median(&looks)?;
    let longest = cells.iter().flat_map(|cell| cell.values("settled_ns_max")).fold(0.0, f64::max);
    let holds = statistics::estimate(&settled).filter(|holds| holds.repeats >= REPEATS_MIN)?;
    // Frames that found a wire full were lost in front of the device, where a stall keeps it.
    let lost = of("lost_frames") - of("rx_missed_frames");
    let (frames, reordered) = (of("offered_frames"), of("reordered_frames"));
    let count = |count: f64| match count {
        0.0 => "none".to_owned(),
        count => words::whole(count),
    };
    let sentence = format!(
        "While {device} forwarded {} frames, {} changes of their spread over queues lost {} of \
         them behind its receive ring and let {} pass another of its flow; a new spread was seen \
         to hold after {} (the longest after {}), looked for each {}.",
        words::whole(frames),
        words::whole(of("respreads")),
        count(lost),
        count(reordered),
        words::time(holds.median),
        words::time(longest),
        words::time(look)
    );
    let implication = match lost + reordered {
        0.0 => "Its spread can be changed while it works.",
        _ => "Change its spread where loss and order do not matter, or while it rests.",
    };
    let words = (sentence, implication);
    Some(told(device, "spread-changes".to_owned(), (&holds, "ns"), words, None))
}

/// The cell of the same load with another answer.
fn with<'a>(cell: &Cell<'_>, all: &[&'a Cell<'a>], answer: &str) -> Option<&'a Cell<'a>> {
    let axes = ["cores", "queues", "flows", "zipf", "work_ns", "pps", "step", "frame"];
    let is_it = |of: &&&Cell<'_>| {
        of.word("answer") == answer && axes.iter().all(|axis| of.word(axis) == cell.word(axis))
    };
    all.iter().find(is_it).copied()
}

/// What an answer to a load that steps is worth.
fn answered(cell: &Cell<'_>, all: &[&Cell<'_>]) -> Option<Finding> {
    let answer = cell.word("answer");
    let without = with(cell, all, "none").filter(|_| answer != "none")?;
    let [lost, before] = [cell, without].map(|cell| cell.estimate("loss_ratio"));
    let (lost, before) = (lost?, before?);
    if number(cell, "step") == 1.0 || lost.repeats < REPEATS_MIN {
        return None;
    }
    let reaction = match cell.estimate(REACTION) {
        Some(of) => format!("{} after the step it has answered", words::time(of.median)),
        None => "it does not answer the step".to_owned(),
    };
    let [p99, p99_before] = [cell, without].map(|cell| {
        let p99 = cell.estimate("latency_ns_p99");
        p99.map_or("-".to_owned(), |p99| words::time(p99.median))
    });
    let sentence = format!(
        "Load of {} times as many frames in the middle third, answered by {answer} on {}: {} of \
         the frames are lost, where {} are without an answer; {reaction}, and the p99 of latency \
         is {p99} (without: {p99_before}).",
        words::whole(number(cell, "step")),
        cell.device,
        words::percent(lost.median),
        words::percent(before.median)
    );
    let implication = match (lost.high < before.low, lost.low > before.high) {
        (true, _) => "Let the device answer by itself where flows are skewed and load steps.",
        (_, true) => "This answer costs more frames than it saves at this load.",
        _ => "At this load the answer changes little.",
    };
    let id = format!("answer-{answer}");
    let figure = Some(figure_id(USED, cell.device));
    Some(told(cell.device, id, (&lost, "1"), (sentence, implication), figure))
}

/// What saving cores saves.
fn saved(cell: &Cell<'_>) -> Option<Finding> {
    let used =
        cell.estimate("used_cores_before").filter(|_| cell.word("answer") == "save-cores")?;
    let in_step = cell.estimate("used_cores_step")?;
    if used.repeats < REPEATS_MIN {
        return None;
    }
    let cores = number(cell, "cores");
    let sentence = format!(
        "Where cores are saved, {} uses {} of {} before load steps and {} while it is high.",
        cell.device,
        words::significant(used.median),
        words::whole(cores),
        words::significant(in_step.median)
    );
    let implication = match used.median < 0.9 * cores {
        true => "The cores that are not in use can do other work.",
        false => "At this load no core can be saved.",
    };
    let id = "saved-cores".to_owned();
    let figure = Some(figure_id(USED, cell.device));
    Some(told(cell.device, id, (&used, "cores"), (sentence, implication), figure))
}
