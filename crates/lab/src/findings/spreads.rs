//! The findings of the experiment `hash-skew`.

use niclab_result::Finding;

use super::{REPEATS_MIN, told};
use crate::cells::Cell;
use crate::spread::{Queue, SPREAD};
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::summary::figures::frame_words;
use crate::summary::spreads::{
    POPULARITY, cells, cores, few, figure_id, hashed, many, number, queues,
};
use crate::words;

/// So many times what chance takes elsewhere on average is no chance.
const CHANCE_MAX: f64 = 3.0;

/// A full queue that takes less than this share of what another one takes is slow.
const SLOW_MAX: f64 = 0.9;

/// Device by device: whether frames land where the hash says, how evenly that spreads them, and
/// whether a queue is slower than the others.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        findings.extend(many(results, device).and_then(followed));
        findings.extend(evenness(results, device));
        findings.extend(popular(results, device));
        findings.extend(cells(results, device).into_iter().rev().find_map(slow));
    }
    findings
}

fn estimate(cell: &Cell<'_>, metric: &str) -> Option<Estimate> {
    cell.estimate(metric).filter(|estimate| estimate.repeats >= REPEATS_MIN)
}

/// `65,536 flows over 8 queues`.
fn place(cell: &Cell<'_>) -> String {
    let [flows, queues] = ["flows", "queues"].map(|axis| words::whole(number(cell, axis)));
    let noun = if flows == "1" { "flow" } else { "flows" };
    format!("{flows} {noun} over {queues} queues")
}

fn finding(
    (id, cell): (&str, &Cell<'_>),
    number: (&Estimate, &str),
    words: (String, &str),
) -> Finding {
    told(cell.device, id.to_owned(), number, words, Some(figure_id(cell)))
}

/// Whether frames come to the queues that their hash says.
fn followed(cell: &Cell<'_>) -> Option<Finding> {
    let misplaced = estimate(cell, "misplaced_ratio")?;
    let chance = cell.estimate("misplaced_by_chance_ratio")?.median;
    let few = words::few(&misplaced);
    if misplaced.low > CHANCE_MAX * chance {
        let (queue, share, wanted) = fuller(cell)?;
        let sentence = format!(
            "Of the frames of {}, {} land elsewhere on {} than their hash says, most of them in \
             queue {queue}, which gets {} of all where {} are its share{few}.",
            place(cell),
            words::percent(misplaced.median),
            cell.device,
            words::percent(share),
            words::percent(wanted)
        );
        let implication = "Key, hash or table are not what the device tells: what a core will get \
                           cannot be computed from them.";
        return Some(finding(("misplaced", cell), (&misplaced, "1"), (sentence, implication)));
    }
    let sentence = format!(
        "The frames of {} land on {} where their hash says: {} elsewhere, where chance alone makes \
         {}{few}.",
        place(cell),
        cell.device,
        words::percent(misplaced.median),
        words::percent(chance)
    );
    let implication =
        "What each queue gets can be computed beforehand, from the key and the table.";
    (misplaced.high <= CHANCE_MAX * chance)
        .then(|| finding(("followed", cell), (&misplaced, "1"), (sentence, implication)))
}

/// The queue that gets most above its share, what it gets, and its share.
fn fuller(cell: &Cell<'_>) -> Option<(usize, f64, f64)> {
    let (queues, hashed) = (queues(cell), hashed(cell));
    let all: u64 = queues.iter().map(Queue::came).sum();
    let of = queues.iter().map(|queue| queue.came() as f64 / all.max(1) as f64);
    let each = of.zip(hashed).enumerate().map(|(at, (share, wanted))| (at, share, wanted));
    each.max_by(|(_, a, of_a), (_, b, of_b)| (a - of_a).total_cmp(&(b - of_b)))
}

/// `, as computed from its hash (1.83)`; empty where nobody could tell.
fn computed(cell: &Cell<'_>) -> String {
    let hashed = cell.estimate("hashed_busiest_queue_ratio");
    hashed.map_or(String::new(), |ratio| {
        format!(" ({} by its hash)", words::significant(ratio.median))
    })
}

/// How uneven the spread of few flows is, and of many.
fn evenness(results: &Results<'_>, device: &str) -> Option<Finding> {
    let (few, many) = (few(results, device)?, many(results, device)?);
    let (of_few, of_many) = (estimate(few, SPREAD)?, many.estimate(SPREAD)?);
    if number(few, "flows") == number(many, "flows") {
        return None;
    }
    let sentence = format!(
        "Of {} of {device} the busiest gets {} times an even share{}, and {} times with {} \
         flows{}.",
        place(few),
        words::significant(of_few.median),
        computed(few),
        words::significant(of_many.median),
        words::whole(number(many, "flows")),
        words::few(&of_few)
    );
    let implication = "Cores that poll a queue each are worth as many as the even share says of \
                       the busiest one: of few flows far fewer than there are.";
    Some(finding(("evenness", few), (&of_few, "1"), (sentence, implication)))
}

/// What the most uneven popularity makes of it.
fn popular(results: &Results<'_>, device: &str) -> Option<Finding> {
    let all = cells(results, device);
    let place_of = |cell: &Cell<'_>| ["zipf", "queues", "flows"].map(|axis| number(cell, axis));
    let order = |a: &Cell<'_>, b: &Cell<'_>| {
        place_of(a).partial_cmp(&place_of(b)).unwrap_or(std::cmp::Ordering::Equal)
    };
    let is_popular = |cell: &&Cell<'_>| number(cell, "zipf") > 0.0 && number(cell, "queues") > 1.0;
    let cell = all.into_iter().filter(is_popular).max_by(|a, b| order(a, b))?;
    let ratio = estimate(cell, SPREAD)?;
    let sentence = format!(
        "Where flow i of {} is sent in proportion to 1 / i^{}, the busiest queue of {device} gets \
         {} times an even share{}{}.",
        place(cell),
        number(cell, "zipf"),
        words::significant(ratio.median),
        computed(cell),
        words::few(&ratio)
    );
    let implication = "No hash spreads the frames of one flow: the queue of the most popular one \
                       is the limit, whatever key and table.";
    let finding = finding(("popular", cell), (&ratio, "1"), (sentence, implication));
    Some(Finding { figure: Some(POPULARITY.to_owned()), ..finding })
}

/// A queue that loses frames and takes fewer than another one does.
fn slow(cell: &Cell<'_>) -> Option<Finding> {
    let (full, fastest) = (estimate(cell, "full_queue_pps")?, cell.estimate("fastest_queue_pps")?);
    let queues = queues(cell);
    let (at, queue) = queues
        .iter()
        .enumerate()
        .filter(|(_, queue)| queue.is_full())
        .min_by_key(|(_, queue)| queue.taken)?;
    if full.high >= SLOW_MAX * fastest.median {
        return None;
    }
    let sentence = format!(
        "Queue {at} of {} takes {} and misses {} of what comes to it, while another one takes {}: \
         {}, {}, saturating load of {}{}.",
        cell.device,
        words::pps(full.median),
        words::percent(queue.missed as f64 / queue.came().max(1) as f64),
        words::pps(fastest.median),
        place(cell),
        cores(cell),
        frame_words(&cell.word("frame")),
        words::few(&full)
    );
    let implication = "This queue or its core is slower than the others: flows of its buckets lose \
                       frames where others do not.";
    Some(finding(("slow-queue", cell), (&full, "pps"), (sentence, implication)))
}
