//! What the data of `hash-skew` show, before it is worded or drawn.

use niclab_result::Sample;
use serde::Deserialize;

use super::metrics::{BUSIEST, HASH_SHARES, Queue};
use super::trials::TRACE;
use crate::cells::Cell;
use crate::summary::Results;
use crate::summary::queues::number;
use crate::words;

/// The queues of a sample's device; none where it did not count.
pub(crate) fn queues_of(sample: &Sample) -> Vec<Queue> {
    let counters = sample.counters.pointer("/device/queues");
    counters.and_then(|counters| Vec::deserialize(counters).ok()).unwrap_or_default()
}

/// The shares of the queues by the hash that stand in a sample; none where nobody could tell.
pub(crate) fn hash_shares_of(sample: &Sample) -> Vec<f64> {
    let shares = sample.counters.get(HASH_SHARES);
    shares.and_then(|shares| Vec::deserialize(shares).ok()).unwrap_or_default()
}

/// Flows a queue from which on an uneven spread is the hash's, not that of a handful of flows.
const FLOWS_MIN: f64 = 2.0;

/// All cells of a device, in reading order.
pub(crate) fn cells<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "rss").collect();
    let place = |cell: &Cell<'_>| {
        ["queues", "cores", "zipf", "flows", "frame"].map(|axis| number(cell, axis))
    };
    cells.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal));
    cells
}

/// Frames by queue, all repeats together.
pub(crate) fn queues(cell: &Cell<'_>) -> Vec<Queue> {
    let mut sums: Vec<Queue> = Vec::new();
    for queues in cell.samples.iter().map(|sample| queues_of(sample)) {
        sums.resize(sums.len().max(queues.len()), Queue::default());
        for (sum, queue) in sums.iter_mut().zip(queues) {
            sum.taken += queue.taken;
            sum.missed += queue.missed;
        }
    }
    sums
}

/// Share of the frames that each queue is to get by the hash; none where nobody could tell.
pub(crate) fn hash_shares(cell: &Cell<'_>) -> Vec<f64> {
    cell.samples.first().map(|sample| hash_shares_of(sample)).unwrap_or_default()
}

/// The cells of most queues and of flows that are picked equally often, or as in a trace, by flows,
/// whose spread over the queues is known; of several frame sizes and numbers of cores the greatest.
fn alike<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut all = cells(results, device);
    let is_alike = |cell: &Cell<'_>| cell.is_at(&[("zipf", 0.0)]) || cell.word("zipf") == TRACE;
    let is_spread = |cell: &Cell<'_>| cell.estimate(BUSIEST).is_some();
    all.retain(|cell| is_alike(cell) && is_spread(cell) && number(cell, "queues") > 1.0);
    let queues = all.iter().map(|cell| number(cell, "queues")).fold(0.0, f64::max);
    all.retain(|cell| number(cell, "queues") == queues);
    // The greater ones stand behind the others.
    let mut alike: Vec<&Cell<'_>> = Vec::new();
    for cell in all {
        alike.retain(|known| number(known, "flows") != number(cell, "flows"));
        alike.push(cell);
    }
    alike.sort_by(|a, b| number(a, "flows").total_cmp(&number(b, "flows")));
    alike
}

/// The cell of most queues and most flows that are picked equally often.
pub(crate) fn many<'a>(results: &'a Results<'_>, device: &str) -> Option<&'a Cell<'a>> {
    alike(results, device).pop()
}

/// The cell of most queues and fewest flows that are picked equally often, two of them a queue at
/// least: where there are fewer flows than queues, no hash could use all of these.
pub(crate) fn few<'a>(results: &'a Results<'_>, device: &str) -> Option<&'a Cell<'a>> {
    let enough = |cell: &&Cell<'_>| number(cell, "flows") >= FLOWS_MIN * number(cell, "queues");
    alike(results, device).into_iter().find(enough)
}

pub(crate) fn number_words(cell: &Cell<'_>, axis: &str) -> String {
    cell.number(axis).map(words::whole).unwrap_or_default()
}

/// The figure of a number of queues at a frame size.
pub(crate) fn figure_id(cell: &Cell<'_>) -> String {
    format!("hash-skew-{}-{}", number_words(cell, "queues"), cell.word("frame"))
}

/// The figure of how uneven the popularity of flows is.
pub(crate) const POPULARITY: &str = "hash-skew-popularity";

/// The cells over the popularity of flows: of most queues among those whose popularity was varied,
/// then of most flows, and of one frame size; by the exponent.
pub(crate) fn varied<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut all = cells(results, device);
    all.retain(|cell| cell.number("zipf").is_some() && number(cell, "queues") > 1.0);
    let place = |cell: &Cell<'_>| ["queues", "flows"].map(|axis| number(cell, axis));
    let mut most: Option<([f64; 2], String)> = None;
    for cell in all.iter().filter(|cell| number(cell, "zipf") > 0.0) {
        if most.as_ref().is_none_or(|(known, _)| place(cell) > *known) {
            most = Some((place(cell), cell.word("frame")));
        }
    }
    let Some((at, frame)) = most else { return Vec::new() };
    all.retain(|cell| place(cell) == at && cell.word("frame") == frame);
    all.sort_by(|a, b| number(a, "zipf").total_cmp(&number(b, "zipf")));
    all
}

/// `64,000 flows over 8 queues`.
pub(crate) fn place_words(cell: &Cell<'_>) -> String {
    let of = |axis: &str, noun: &str| words::counted(number(cell, axis), noun);
    format!("{} over {}", of("flows", "flow"), of("queues", "queue"))
}
