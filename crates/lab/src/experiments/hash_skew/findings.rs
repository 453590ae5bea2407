//! The findings of the experiment `hash-skew`.

use niclab_packet::flow::{FlowSet, FlowSpec, Popularity};
use niclab_result::Finding;

use super::analysis::{
    POPULARITY, cells, few, figure_id, hash_shares, many, place_words, queues, queues_of, varied,
};
use super::metrics::{BUSIEST, BY_CHANCE, FASTEST, FULL, HASHED_BUSIEST, MISPLACED, Queue};
use crate::cells::Cell;
use crate::findings::number::{Number, estimated};
use crate::findings::{REPEATS_MIN, told};
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::summary::frames::frame_words;
use crate::summary::queues::{cores, number, popularity};
use crate::words;

/// So many times what chance takes elsewhere on average is no chance: with two queues four standard
/// deviations, with more of them farther out. All repeats of a device draw the same flows, so that
/// they are one draw.
const CHANCE_MAX: f64 = 5.0;

/// No more than so many times that is chance.
const FOLLOWED_MAX: f64 = 2.0;

/// A queue that gets no more than so many times an even share is as good as any.
const EVEN_MAX: f64 = 1.1;

/// A full queue that takes less than this share of what another one takes is slow.
const SLOW_MAX: f64 = 0.9;

/// Device by device: whether frames land where the hash says, how evenly that spreads them, and
/// whether a queue is slower than the others.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        findings.extend(evenness(results, device));
        findings.extend(popular(results, device));
        findings.extend(many(results, device).and_then(|cell| followed(results, cell)));
        findings.extend(cells(results, device).into_iter().rev().find_map(slow));
    }
    findings
}

fn estimate(cell: &Cell<'_>, metric: &str) -> Option<Estimate> {
    cell.estimate(metric).filter(|estimate| estimate.repeats >= REPEATS_MIN)
}

fn finding((id, cell): (&str, &Cell<'_>), number: Number, words: (String, &str)) -> Finding {
    told(cell.device, id.to_owned(), number, words, Some(figure_id(cell)))
}

/// Whether frames come to the queues that their hash says.
///
/// A model places frames by the very computation that they are held against: that both agree is no
/// finding.
fn followed(results: &Results<'_>, cell: &Cell<'_>) -> Option<Finding> {
    let misplaced = estimate(cell, MISPLACED)?;
    let chance = cell.estimate(BY_CHANCE)?.median;
    let (number, few) = (Number::percent(&misplaced), words::few(&misplaced));
    if misplaced.low > CHANCE_MAX * chance {
        let queue = fuller(cell)?;
        let sentence = format!(
            "{} puts {number} of the frames of {} into other queues than their hash says{few}. \
             Most of them are in queue {queue}.",
            cell.device,
            place_words(cell)
        );
        let implication = "The device reports a wrong key, hash or table: the load of a core \
                           cannot be computed from them.";
        return Some(finding(("misplaced", cell), number, (sentence, implication)));
    }
    if results.about(cell.device).is_none_or(|about| about.in_virtual_time) {
        return None;
    }
    let sentence = format!(
        "{} puts the frames of {} into the queues that their hash says: {number} are elsewhere, \
         and {} would be by chance alone{few}.",
        cell.device,
        place_words(cell),
        words::percent(chance)
    );
    let implication =
        "The load of each queue can be computed in advance from the key and the table.";
    (misplaced.high <= FOLLOWED_MAX * chance)
        .then(|| finding(("followed", cell), number, (sentence, implication)))
}

/// The queue that gets most above its share.
fn fuller(cell: &Cell<'_>) -> Option<usize> {
    let (queues, hashed) = (queues(cell), hash_shares(cell));
    let all: u64 = queues.iter().map(Queue::arrived).sum();
    let of = queues.iter().map(|queue| queue.arrived() as f64 / all.max(1) as f64);
    let each = of.zip(hashed).enumerate().map(|(at, (share, wanted))| (at, share, wanted));
    let most = each.max_by(|(_, a, of_a), (_, b, of_b)| (a - of_a).total_cmp(&(b - of_b)));
    most.map(|(at, ..)| at)
}

/// ` (1.83 by its hash)`; empty where nobody could tell.
fn computed(cell: &Cell<'_>) -> String {
    cell.estimate(HASHED_BUSIEST).map_or(String::new(), |ratio| {
        format!(" ({} by its hash)", words::significant(ratio.median))
    })
}

/// How uneven the spread of few flows is, and of many; nothing where the interval allows both that
/// the few are spread evenly and that they are not.
fn evenness(results: &Results<'_>, device: &str) -> Option<Finding> {
    let (few, many) = (few(results, device)?, many(results, device)?);
    let (of_few, of_many) = (estimate(few, BUSIEST)?, many.estimate(BUSIEST)?);
    if number(few, "flows") == number(many, "flows") {
        return None;
    }
    let of_number = Number::new(&of_few, "1");
    let sentence = format!(
        "With {}, the busiest queue of {device} gets {of_number} an even share{}{}. With {} \
         it gets {}.",
        place_words(few),
        computed(few),
        words::few(&of_few),
        words::counted(number(many, "flows"), "flow"),
        estimated(&of_many, "1")
    );
    let implication = match of_few.is_above(EVEN_MAX)? {
        true => {
            "With one core per queue, the busiest queue is full while other cores are still \
             partly idle. Other sets of flows give other values."
        }
        false => "With one core per queue, all cores have about the same load.",
    };
    Some(finding(("evenness", few), of_number, (sentence, implication)))
}

/// What the most uneven popularity makes of it.
fn popular(results: &Results<'_>, device: &str) -> Option<Finding> {
    let enough = |cell: &&Cell<'_>| number(cell, "flows") >= number(cell, "queues");
    let cell = varied(results, device).pop().filter(enough)?;
    let ratio = estimate(cell, BUSIEST)?;
    let zipf = number(cell, "zipf");
    let of_number = Number::new(&ratio, "1");
    let sentence = format!(
        "The busiest queue of {device} gets {of_number} an even share{} when flow i of {} is sent \
         in proportion to 1 / i^{zipf}{}.",
        computed(cell),
        place_words(cell),
        words::few(&ratio)
    );
    let popularity = Popularity::Zipf { exponent: zipf };
    let count = number(cell, "flows") as u32;
    let flows = FlowSet::new(&FlowSpec { count, popularity, ..FlowSpec::default() }).ok()?;
    let first = flows.share(0);
    let is_uneven = ratio.is_above(EVEN_MAX)?;
    let implication = match (first * number(cell, "queues") > 1.0, is_uneven) {
        (true, _) => {
            "The first flow alone exceeds an even share: no other key or table can balance this."
        }
        (false, true) => "No flow exceeds an even share: another table could balance this.",
        (false, false) => "Popular flows hardly change the balance of the queues.",
    };
    let finding = finding(("popular", cell), of_number, (sentence, implication));
    Some(Finding { figure: Some(POPULARITY.to_owned()), ..finding })
}

/// A queue that loses frames and takes fewer than another one does, where each has a core: cores of
/// several queues share themselves out. The same queue in each repeat, and neither stalls nor the
/// generator in the way.
fn slow(cell: &Cell<'_>) -> Option<Finding> {
    let has_core_each = number(cell, "cores") == number(cell, "queues");
    let is_sound = !cell.is_disturbed() && !cell.is_generator_limited();
    let (full, fastest) = (estimate(cell, FULL)?, cell.estimate(FASTEST)?);
    if !has_core_each || !is_sound || full.high >= SLOW_MAX * fastest.median {
        return None;
    }
    let slowest = |queues: Vec<Queue>| {
        let full = queues.into_iter().enumerate().filter(|(_, queue)| queue.is_full());
        full.min_by_key(|(_, queue)| queue.taken).map(|(at, _)| at)
    };
    let mut each = cell.samples.iter().map(|sample| slowest(queues_of(sample)));
    let at = each.next()??;
    if !each.all(|other| other == Some(at)) {
        return None;
    }
    let of_number = Number::new(&full, "pps");
    let sentence = format!(
        "Queue {at} of {} receives {of_number} and loses frames, while another queue receives {} \
         ({}, {}, {}, saturating load of {}){}.",
        cell.device,
        estimated(&fastest, "pps"),
        place_words(cell),
        popularity(cell),
        cores(cell),
        frame_words(&cell.word("frame")),
        words::few(&full)
    );
    let implication = "This queue or its core is slower than the others: only flows of this queue \
                       lose frames.";
    let finding = finding(("slow-queue", cell), of_number, (sentence, implication));
    Some(Finding { figure: None, ..finding })
}
