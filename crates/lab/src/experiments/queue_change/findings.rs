//! The findings of the experiment `queue-change`.

use niclab_result::Finding;

use super::analysis::{LOAD, USED, answers, changes, figure_id, sum};
use super::metrics::{LOOK, REACTION, SETTLED};
use crate::cells::Cell;
use crate::findings::number::{Number, estimated};
use crate::findings::{REPEATS_MIN, told};
use crate::summary::Results;
use crate::summary::frames::frame_words;
use crate::summary::queues::{cores, number, popularity};
use crate::{statistics, words};

/// Shares of lost frames that lie no farther apart are as good as equal.
const LITTLE: f64 = 0.01;

/// Where more than this share of the cores is in use, none is saved.
const IN_USE: f64 = 0.9;

/// Device by device: what changes cost frames that flow; and what each way to answer a load that
/// steps is worth.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        let all = changes(results, device);
        let is_like = |a: &&Cell<'_>, b: &&Cell<'_>| loads(a) == loads(b);
        let of_changes: Vec<&Cell<'_>> =
            all.iter().copied().filter(|cell| cell.word("change") != "none").collect();
        findings.extend(all.chunk_by(is_like).filter_map(|cells| changed(cells, &of_changes)));
        // Of those that are changed from outside as well the table tells.
        let mut all = answers(results, device);
        all.retain(|cell| cell.word("change") == "none");
        findings.extend(all.iter().filter_map(|cell| answered(cell, &all)));
        findings.extend(all.iter().filter_map(|cell| saved(cell, &all)));
    }
    findings
}

/// Where a cell stands but for what is done.
fn loads(cell: &Cell<'_>) -> [String; LOAD.len()] {
    LOAD.map(|axis| cell.word(axis))
}

/// What an identifier says of a load: the axes in which those of `all` differ.
fn place(cell: &Cell<'_>, all: &[&Cell<'_>]) -> String {
    let differs = |axis: &&&str| all.iter().any(|other| other.word(axis) != cell.word(axis));
    let of = |axis: &&str| format!("-{axis}-{}", cell.word(axis));
    LOAD.iter().filter(differs).map(of).collect()
}

/// `200,000 64 B frames a second of 1,000 flows (all equally often), over 8 queues on 2 cores`.
fn load(cell: &Cell<'_>) -> String {
    let work = match number(cell, "work_ns") {
        0.0 => String::new(),
        ns => format!(", {} of work each", words::time(ns)),
    };
    format!(
        "{} {} a second of {} ({}){work}, over {} on {}",
        words::whole(number(cell, "pps")),
        frame_words(&cell.word("frame")),
        words::counted(number(cell, "flows"), "flow"),
        popularity(cell),
        words::counted(number(cell, "queues"), "queue"),
        cores(cell)
    )
}

/// Frames of all repeats: those offered, and those lost behind the receive ring. What found that
/// full was lost in front of the device, where a stall keeps it.
fn lost(cells: &[&Cell<'_>]) -> (f64, f64) {
    let of = |metric| cells.iter().map(|cell| sum(cell, metric)).sum::<f64>();
    (of("offered_frames"), of("lost_frames") - of("rx_missed_frames"))
}

fn count(count: f64) -> String {
    match count {
        0.0 => "none".to_owned(),
        count => words::whole(count),
    }
}

/// The cost of all kinds of changes to frames of one load, beside the same load without a change.
fn changed(like: &[&Cell<'_>], all: &[&Cell<'_>]) -> Option<Finding> {
    let calm = like.iter().copied().filter(|cell| !cell.is_disturbed());
    let (without, cells): (Vec<&Cell<'_>>, Vec<&Cell<'_>>) =
        calm.partition(|cell| cell.word("change") == "none");
    let first = *cells.first()?;
    let values = |metric| cells.iter().flat_map(|cell| cell.values(metric)).collect::<Vec<f64>>();
    let holds = statistics::estimate(&values(SETTLED)).filter(|e| e.repeats >= REPEATS_MIN)?;
    let longest = values("settled_ns_max").into_iter().fold(0.0, f64::max);
    let look = statistics::median(&values(LOOK))?;
    let of = |metric| cells.iter().map(|cell| sum(cell, metric)).sum::<f64>();
    let ((frames, gone), reordered) = (lost(&cells), of("reordered_frames"));
    let (frames_without, gone_without) = lost(&without);
    let beside = match without.is_empty() {
        true => String::new(),
        false => format!(
            " (without a change: {} of {})",
            count(gone_without),
            words::whole(frames_without)
        ),
    };
    let of_number = Number::new(&holds, "ns");
    let sentence = format!(
        "{} lost {} of {} frames behind its receive ring{beside} and reordered {} during {} RSS \
         changes. A change was in effect after {of_number} (longest {}; checked every {}). Load: \
         {}, at most {} changes a second.",
        first.device,
        count(gone),
        words::whole(frames),
        count(reordered),
        words::whole(of("rss_changes")),
        words::time(longest),
        words::time(look),
        load(first),
        words::whole(number(first, "per_s"))
    );
    let is_none_the_more = gone * frames_without <= gone_without * frames;
    let implication = match reordered == 0.0 {
        true if gone == 0.0 => "RSS can be changed while traffic flows.",
        true if is_none_the_more => {
            "RSS can be changed while traffic flows: without a change the loss is at least as high."
        }
        _ => "Change RSS only without traffic, or where loss and order do not matter.",
    };
    let (id, words) = (format!("rss-changes{}", place(first, all)), (sentence, implication));
    Some(told(first.device, id, of_number, words, None))
}

/// The cell of the same load with another answer.
fn with<'a>(cell: &Cell<'_>, all: &[&'a Cell<'a>], answer: &str) -> Option<&'a Cell<'a>> {
    let is_it = |of: &&&Cell<'_>| of.word("answer") == answer && loads(of) == loads(cell);
    all.iter().find(is_it).copied()
}

/// When a device answers a step.
fn reaction(cell: &Cell<'_>) -> String {
    let repeats = words::counted(cell.samples.len() as f64, "repeat");
    match cell.estimate(REACTION) {
        Some(first) => format!(
            "It first reacts {} after the step ({} of {repeats})",
            estimated(&first, "ns"),
            first.repeats
        ),
        None => format!("It reacts to the step in none of {repeats}"),
    }
}

/// What an answer to a load that steps is worth; nothing where the intervals allow both that fewer
/// frames are lost and that more are.
fn answered(cell: &Cell<'_>, all: &[&Cell<'_>]) -> Option<Finding> {
    let answer = cell.word("answer");
    let without = with(cell, all, "none").filter(|_| answer != "none")?;
    let [lost, before] = [cell, without].map(|cell| cell.estimate("loss_ratio"));
    let (lost, before) = (lost?, before?);
    if number(cell, "step") == 1.0 || lost.repeats < REPEATS_MIN {
        return None;
    }
    let of_number = Number::percent(&lost);
    let sentence = format!(
        "{} with {answer} loses {of_number} of the frames, and {} without, when the load is {} \
         times as high in its middle third. {}. Load: {}.",
        cell.device,
        Number::percent(&before).with_interval(),
        words::whole(number(cell, "step")),
        reaction(cell),
        load(cell)
    );
    let farthest = (lost.high - before.low).abs().max((lost.low - before.high).abs());
    let implication = match (lost.high < before.low, lost.low > before.high) {
        _ if farthest <= LITTLE => "This makes little difference at this load.",
        (true, _) => "Let the device rebalance by itself when flows are skewed and the load steps.",
        (_, true) => "This loses more frames than it saves at this load.",
        _ => return None,
    };
    let id = format!("answer-{answer}{}", place(cell, all));
    let figure = Some(figure_id(USED, cell.device));
    Some(told(cell.device, id, of_number, (sentence, implication), figure))
}

/// What saving cores saves.
fn saved(cell: &Cell<'_>, all: &[&Cell<'_>]) -> Option<Finding> {
    let used =
        cell.estimate("used_cores_before").filter(|_| cell.word("answer") == "save-cores")?;
    let in_step = cell.estimate("used_cores_step")?;
    if number(cell, "step") <= 1.0 || used.repeats < REPEATS_MIN {
        return None;
    }
    let cores = number(cell, "cores");
    let of_number = Number::new(&used, "cores");
    let sentence = format!(
        "{} with save-cores uses {of_number} of {} before the load step and {} while the load is \
         {} times as high ({}).",
        cell.device,
        words::whole(cores),
        estimated(&in_step, "cores"),
        words::whole(number(cell, "step")),
        load(cell)
    );
    let implication = match used.is_above(IN_USE * cores)? {
        false => "The unused cores can do other work.",
        true => "At this load no core can be saved.",
    };
    let id = format!("saved-cores{}", place(cell, all));
    let figure = Some(figure_id(USED, cell.device));
    Some(told(cell.device, id, of_number, (sentence, implication), figure))
}
