//! The findings of the experiment `update-batch`.

use niclab_result::Finding;

use super::analysis::{cells, figure_id, is_failover};
use crate::cells::{Cell, paired};
use crate::findings::number::{LONG, Number, comparison, estimated};
use crate::findings::{REPEATS_MIN, core_words, follows, of_transaction, told};
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::summary::frames::frame_words;
use crate::summary::updates::{calls_words, pace_words};
use crate::words;

/// A ratio whose whole interval lies above this shows that nothing worth naming was lost.
const FELT: f64 = 0.99;

/// Whether what is left of the traffic shows a cost; `None` where the interval allows both a cost
/// and none.
fn is_felt(left: &Estimate) -> Option<bool> {
    if left.low > FELT {
        return Some(false);
    }
    (left.high < 1.0).then_some(true)
}

/// Device by device: what a batch at once costs, what it costs in slices, on another core, and as a
/// transaction; and what it takes until traffic goes another way.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        let (failovers, cells): (Vec<_>, Vec<_>) =
            cells(results, device).into_iter().partition(|cell| is_failover(cell));
        for group in [0.0, 1.0] {
            let subject = BatchSubject { device, group };
            let of = |core, calls, sliced| largest(&cells, group, (core, calls, sliced));
            let at_once = ("same", "single", false);
            let at_once = largest(&cells, group, at_once).or_else(|| blocking(&cells, group));
            findings.extend(at_once.and_then(|cell| subject.at_once(cell, &cells)));
            let sliced = of("same", "single", true);
            findings.extend(sliced.and_then(|cell| subject.in_slices(cell, &cells)));
            findings.extend(of("distinct", "single", true).and_then(|cell| subject.apart(cell)));
            let (one, whole) = (of("same", "single", true), of("same", "transaction", true));
            let pair = one.zip(whole).filter(|(one, whole)| batch(one) == batch(whole));
            findings.extend(pair.and_then(|(one, whole)| subject.transaction(one, whole)));
            for (id, way) in FAILOVERS {
                let cell = largest(&failovers, group, way);
                findings.extend(cell.and_then(|cell| subject.failover(id, cell)));
            }
        }
    }
    findings
}

/// Ways to re-point prefixes that are worth a sentence: core, calls, in slices.
const FAILOVERS: [(&str, (&str, &str, bool)); 4] = [
    ("failover-at-once", ("same", "single", false)),
    ("failover-sliced", ("same", "single", true)),
    ("failover-transaction", ("same", "transaction", true)),
    ("failover-distinct", ("distinct", "single", true)),
];

/// All of the batch done in each repeat, and forwarding as it was before the trial's end in those
/// that tell, which are enough, but for one in six, whose last window may be low by chance; at the
/// rate that was meant. What a trial is too short for the table says.
fn is_sound(cell: &Cell<'_>) -> bool {
    let count = |name| cell.values(name).len();
    let (telling, recovered) = (count("lowest_ratio"), count("recovered_ns"));
    count("batch_ns") == cell.samples.len()
        && 6 * recovered >= 5 * telling
        && recovered >= REPEATS_MIN
        && !cell.is_generator_limited()
        && !cell.is_disturbed()
}

/// What is left of the share of the frames that was dealt with in front of the batch, as long as it
/// lasts, of enough repeats.
fn left(cell: &Cell<'_>) -> Option<Estimate> {
    cell.estimate("dealt_ratio").filter(|ratio| ratio.repeats >= REPEATS_MIN)
}

/// The effective blocked time, of enough repeats.
fn blocked(cell: &Cell<'_>) -> Option<Estimate> {
    cell.estimate("blocked_ns").filter(|blocked| blocked.repeats >= REPEATS_MIN)
}

/// What forwarding lost, in a few words; `None` where that was not seen.
type Lost = fn(&Cell<'_>) -> Option<String>;

fn batch(cell: &Cell<'_>) -> f64 {
    cell.number("batch").unwrap_or(0.0)
}

/// The cell of the largest batch that is put in this way and that the device took whole, of the
/// smallest frames where more than one has it; `None` where that one shows nothing. A smaller batch
/// would show too little.
fn largest<'a>(
    cells: &[&'a Cell<'a>],
    group: f64,
    (core, calls, sliced): (&str, &str, bool),
) -> Option<&'a Cell<'a>> {
    let largest = all_of(cells, group, (core, calls, sliced)).max_by(|a, b| order(a, b));
    largest.filter(|cell| is_sound(cell))
}

/// The cell of the largest batch at once that shows how packets of its core are blocked: a larger
/// one that shows nothing would not speak for the device.
fn blocking<'a>(cells: &[&'a Cell<'a>], group: f64) -> Option<&'a Cell<'a>> {
    let is_blocked = |cell: &&Cell<'_>| blocked(cell).is_some_and(|blocked| blocked.low > 0.0);
    let sound = all_of(cells, group, ("same", "single", false)).filter(|cell| is_sound(cell));
    sound.filter(is_blocked).max_by(|a, b| order(a, b))
}

/// By size, smaller frames behind longer ones.
fn order(a: &Cell<'_>, b: &Cell<'_>) -> std::cmp::Ordering {
    let frame = |cell: &Cell<'_>| cell.number("frame").unwrap_or(f64::MAX);
    batch(a).total_cmp(&batch(b)).then(frame(b).total_cmp(&frame(a)))
}

/// The cells whose batches are put in this way and that the device took whole.
fn all_of<'a>(
    cells: &[&'a Cell<'a>],
    group: f64,
    (core, calls, sliced): (&str, &str, bool),
) -> impl Iterator<Item = &'a Cell<'a>> {
    let is_of = move |cell: &&Cell<'_>| {
        cell.is_at(&[("group", group)])
            && cell.word("core") == core
            && cell.word("calls") == calls
            && cell.number("slice").is_some() == sliced
            && cell.values("operations_refused").iter().all(|refused| *refused == 0.0)
    };
    cells.iter().copied().filter(is_of)
}

struct BatchSubject<'a> {
    device: &'a str,
    group: f64,
}

impl BatchSubject<'_> {
    fn finding(
        &self,
        (id, cell): (&str, &Cell<'_>),
        (estimate, number): (&Estimate, Number),
        (sentence, implication): (String, &str),
    ) -> Finding {
        let id = format!("{id}-group{}", self.group);
        let implication = follows(estimate, implication);
        told(self.device, id, number, (sentence, &implication), Some(figure_id(cell)))
    }

    /// `10,000 rules are created in group 0`.
    fn work(&self, cell: &Cell<'_>) -> String {
        let rules = words::rules(batch(cell));
        let verb = words::verb(batch(cell), "is", "are");
        format!("{rules} {verb} created in group {}", self.group)
    }

    fn load(&self, cell: &Cell<'_>) -> Option<String> {
        let load = cell.estimate("planned_pps")?;
        Some(format!("{} of {}", words::pps(load.median), frame_words(&cell.word("frame"))))
    }

    /// What forwarding misses while the core does nothing else, and by smaller batches; nothing
    /// where the repeats allow both that it misses something and that it does not.
    fn at_once(&self, cell: &Cell<'_>, all: &[&Cell<'_>]) -> Option<Finding> {
        let blocked = blocked(cell)?;
        let is_blocked = blocked.is_above(0.0)?;
        let lost: Lost = |cell| Some(estimated(&cell.estimate("blocked_ns")?, "ns"));
        let smaller = self.smaller(cell, all, lost);
        let number = Number::new(&blocked, "ns");
        let sentence = format!(
            "{} loses {number} of traffic{smaller} while {} at once on the forwarding core, at \
             {}{}.",
            self.device,
            self.work(cell),
            self.load(cell)?,
            words::few(&blocked)
        );
        let implication = match is_blocked {
            true => "A batch at once blocks the packets of its core.",
            false => "A batch of this size ends before the ring is full.",
        };
        let estimate = (&blocked, number);
        Some(self.finding(("batch-at-once", cell), estimate, (sentence, implication)))
    }

    /// ` (this with 1,000 rules, that with 10,000 rules)`, for smaller batches put in as that of
    /// `cell`; empty without them.
    fn smaller(&self, cell: &Cell<'_>, all: &[&Cell<'_>], lost: Lost) -> String {
        let is_smaller = |other: &&&Cell<'_>| {
            let mut point = other.point.clone();
            point.insert("batch".into(), cell.point["batch"].clone());
            point == *cell.point && batch(other) < batch(cell) && is_sound(other)
        };
        let smaller = all.iter().filter(is_smaller).filter_map(|other| {
            Some(format!("{} with {}", lost(other)?, words::rules(batch(other))))
        });
        let smaller: Vec<String> = smaller.collect();
        if smaller.is_empty() { String::new() } else { format!(" ({})", smaller.join(", ")) }
    }

    /// What is lost where packets come between the operations.
    fn in_slices(&self, cell: &Cell<'_>, all: &[&Cell<'_>]) -> Option<Finding> {
        let ratio = left(cell)?;
        let sum = |metric: &str| cell.values(metric).iter().sum::<f64>();
        let (windows, losing) = (sum("undisturbed_windows"), sum("losing_windows"));
        let lost: Lost = |cell| {
            let sum = |metric: &str| words::whole(cell.values(metric).iter().sum());
            Some(format!("{} of {}", sum("losing_windows"), sum("undisturbed_windows")))
        };
        let smaller = self.smaller(cell, all, lost);
        let number = Number::percent(&ratio);
        let sentence = format!(
            "{} keeps {number} of its delivery ratio while {} on the forwarding core, {}, at \
             {}{}. {} of {} undisturbed time bins of 10 ms lose a frame{smaller}, and {} forward \
             nothing.",
            self.device,
            self.work(cell),
            pace_words(cell),
            self.load(cell)?,
            words::few(&ratio),
            words::whole(losing),
            words::whole(windows),
            words::whole(sum("zero_windows"))
        );
        let implication = match (losing, is_felt(&ratio)?) {
            (0.0, false) => "Rules can be created at this rate without losing frames.",
            (_, false) => "Rules can be created at this rate with almost no loss.",
            (_, true) => "Creating rules between bursts loses frames at this rate.",
        };
        Some(self.finding(("batch-sliced", cell), (&ratio, number), (sentence, implication)))
    }

    /// What is lost where another core does it.
    fn apart(&self, cell: &Cell<'_>) -> Option<Finding> {
        let ratio = left(cell)?;
        let number = Number::percent(&ratio);
        let sentence = format!(
            "{} keeps {number} of its delivery ratio while {} by another core, at {}{}.",
            self.device,
            self.work(cell),
            self.load(cell)?,
            words::few(&ratio)
        );
        let implication = match is_felt(&ratio)? {
            false => "Creating rules on another core does not slow down forwarding at this rate.",
            true => "Creating rules on another core loses frames at this rate.",
        };
        Some(self.finding(("batch-distinct", cell), (&ratio, number), (sentence, implication)))
    }

    /// How long traffic goes the dead way, and what it meets meanwhile.
    fn failover(&self, id: &str, cell: &Cell<'_>) -> Option<Finding> {
        let took = cell.estimate("batch_ns")?;
        let blocked = blocked(cell)?;
        let sum = |metric: &str| cell.values(metric).iter().sum::<f64>();
        // Nobody counted what packets met.
        if cell.values("met_none_frames").len() < REPEATS_MIN {
            return None;
        }
        let none = sum("met_none_frames");
        let met = sum("met_old_frames") + sum("met_new_frames") + none;
        let core = core_words(cell);
        let pace = match cell.number("slice") {
            None => "at once".to_owned(),
            Some(_) => pace_words(cell),
        };
        let number = Number::new(&took, "ns");
        let sentence = format!(
            "{} re-points {} IPv4 prefixes in group {} in {number} ({core}, {}, {pace}), at {}{}. \
             It loses {} of traffic, and {} of {} packets match no prefix.",
            self.device,
            words::whole(batch(cell)),
            self.group,
            calls_words(cell),
            self.load(cell)?,
            words::few(&took),
            estimated(&blocked, "ns"),
            words::whole(none),
            words::whole(met)
        );
        let implication = match cell.word("calls").as_str() {
            "transaction" => "All traffic uses the dead path until then, and none after it.",
            _ => "The last traffic leaves the dead path only then.",
        };
        Some(self.finding((id, cell), (&took, number), (sentence, implication)))
    }

    /// What it costs that all rules become visible at one instant.
    fn transaction(&self, one: &Cell<'_>, whole: &Cell<'_>) -> Option<Finding> {
        let ratio =
            paired(whole, one, "control_ns_per_operation").filter(|e| e.repeats >= REPEATS_MIN)?;
        let (number, is_longer) = comparison(&ratio, LONG);
        let sentence = format!(
            "One transaction that creates {} in group {} of {}, visible at one instant, takes \
             {is_longer} single calls{}.",
            words::rules(batch(whole)),
            self.group,
            self.device,
            words::few(&ratio)
        );
        let implication = of_transaction(&ratio)?;
        Some(self.finding(("transaction", whole), (&ratio, number), (sentence, implication)))
    }
}
