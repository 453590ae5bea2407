//! The findings of the experiment `hash-skew`.

use niclab_packet::flow::{FlowSet, FlowSpec, Popularity};
use niclab_result::Finding;

use super::analysis::{
    POPULARITY, cells, few, figure_id, hash_shares, many, place_words, queues, queues_of, varied,
};
use super::metrics::{BUSIEST, BY_CHANCE, FASTEST, FULL, HASHED_BUSIEST, MISPLACED, Queue};
use crate::cells::Cell;
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

fn finding(
    (id, cell): (&str, &Cell<'_>),
    number: (&Estimate, &str),
    words: (String, &str),
) -> Finding {
    told(cell.device, id.to_owned(), number, words, Some(figure_id(cell)))
}

/// Whether frames come to the queues that their hash says.
///
/// A model places frames by the very computation that they are held against: that both agree is no
/// finding.
fn followed(results: &Results<'_>, cell: &Cell<'_>) -> Option<Finding> {
    let misplaced = estimate(cell, MISPLACED)?;
    let chance = cell.estimate(BY_CHANCE)?.median;
    let few = words::few(&misplaced);
    if misplaced.low > CHANCE_MAX * chance {
        let (queue, share, wanted) = fuller(cell)?;
        let sentence = format!(
            "Of the frames of {}, {} land elsewhere on {} than their hash says, most of them in \
             queue {queue}, which gets {} of all where {} are its share{few}.",
            place_words(cell),
            words::percent(misplaced.median),
            cell.device,
            words::percent(share),
            words::percent(wanted)
        );
        let implication = "Key, hash or table are not what the device tells: what a core will get \
                           cannot be computed from them.";
        return Some(finding(("misplaced", cell), (&misplaced, "1"), (sentence, implication)));
    }
    if results.about(cell.device).is_none_or(|about| about.in_virtual_time) {
        return None;
    }
    let sentence = format!(
        "The frames of {} land on {} where their hash says: {} elsewhere, where chance alone makes \
         {}{few}.",
        place_words(cell),
        cell.device,
        words::percent(misplaced.median),
        words::percent(chance)
    );
    let implication =
        "What each queue gets can be computed beforehand, from the key and the table.";
    (misplaced.high <= FOLLOWED_MAX * chance)
        .then(|| finding(("followed", cell), (&misplaced, "1"), (sentence, implication)))
}

/// The queue that gets most above its share, what it gets, and its share.
fn fuller(cell: &Cell<'_>) -> Option<(usize, f64, f64)> {
    let (queues, hashed) = (queues(cell), hash_shares(cell));
    let all: u64 = queues.iter().map(Queue::came).sum();
    let of = queues.iter().map(|queue| queue.came() as f64 / all.max(1) as f64);
    let each = of.zip(hashed).enumerate().map(|(at, (share, wanted))| (at, share, wanted));
    each.max_by(|(_, a, of_a), (_, b, of_b)| (a - of_a).total_cmp(&(b - of_b)))
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
    let sentence = format!(
        "Of {} of {device} the busiest gets {} times an even share{}, and {} times with {} \
         flows{}.",
        place_words(few),
        words::significant(of_few.median),
        computed(few),
        words::significant(of_many.median),
        words::whole(number(many, "flows")),
        words::few(&of_few)
    );
    let implication = match of_few.is_above(EVEN_MAX)? {
        true => {
            "Where each queue has a core, the busiest is full first: without loss, so few flows \
             use but a part of the cores. Other flows of as many give other values."
        }
        false => "Where each queue has a core, all of them have about as much to do.",
    };
    Some(finding(("evenness", few), (&of_few, "1"), (sentence, implication)))
}

/// What the most uneven popularity makes of it.
fn popular(results: &Results<'_>, device: &str) -> Option<Finding> {
    let enough = |cell: &&Cell<'_>| number(cell, "flows") >= number(cell, "queues");
    let cell = varied(results, device).pop().filter(enough)?;
    let ratio = estimate(cell, BUSIEST)?;
    let zipf = number(cell, "zipf");
    let sentence = format!(
        "Where flow i of {} is sent in proportion to 1 / i^{zipf}, the busiest queue of {device} \
         gets {} times an even share{}{}.",
        place_words(cell),
        words::significant(ratio.median),
        computed(cell),
        words::few(&ratio)
    );
    let popularity = Popularity::Zipf { exponent: zipf };
    let count = number(cell, "flows") as u32;
    let flows = FlowSet::new(&FlowSpec { count, popularity, ..FlowSpec::default() }).ok()?;
    let first = flows.share(0);
    let is_uneven = ratio.is_above(EVEN_MAX)?;
    let implication = match (first * number(cell, "queues") > 1.0, is_uneven) {
        (true, _) => {
            "The first flow alone is more than an even share, and no hash spreads the frames of \
             one flow: another key or table would not even this out."
        }
        (false, true) => {
            "No flow is more than an even share: a table that moves some of them could even this \
             out."
        }
        (false, false) => "That some flows are popular hardly shows in the queues.",
    };
    let finding = finding(("popular", cell), (&ratio, "1"), (sentence, implication));
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
    let queue = *queues(cell).get(at).filter(|_| each.all(|other| other == Some(at)))?;
    let sentence = format!(
        "Queue {at} of {} takes {} and misses {} of what comes to it, while another one takes {}: \
         {}, {}, {}, saturating load of {}{}.",
        cell.device,
        words::pps(full.median),
        words::percent(queue.missed as f64 / queue.came().max(1) as f64),
        words::pps(fastest.median),
        place_words(cell),
        popularity(cell),
        cores(cell),
        frame_words(&cell.word("frame")),
        words::few(&full)
    );
    let implication = "This queue or its core is slower than the others: flows of its buckets lose \
                       frames where others do not.";
    let finding = finding(("slow-queue", cell), (&full, "pps"), (sentence, implication));
    Some(Finding { figure: None, ..finding })
}
