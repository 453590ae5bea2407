//! The verdict on a ratio, and the reasons for the lack of one.

use std::fmt;

use niclab_result::Mark;

use super::metrics::{Better, is_throughput};
use crate::cells::Cell;
use crate::statistics::{self, Ends, Estimate};

/// What the ratio of a metric to its baseline says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval lies beyond the tolerance, on the worse side.
    Worse,
    /// The whole interval lies beyond the tolerance, on the better side.
    Better,
    /// It cannot be told, and why.
    Undecided(UndecidedReason),
    /// The whole interval lies within the tolerance.
    Same,
}

/// Why nothing is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UndecidedReason {
    /// A mark of one of the two cells: its figures do not carry the verdict.
    Marked(Mark),
    /// The two were offered different rates, and that may be why they differ.
    Load,
    /// Too few repeats for an interval: four on each side are enough.
    FewRepeats,
    /// A limit of the tolerance lies within the interval.
    Wide,
}

/// Why nothing is decided, in a few words.
impl fmt::Display for UndecidedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UndecidedReason::FewRepeats => f.write_str("few repeats"),
            UndecidedReason::Load => f.write_str("other rate"),
            UndecidedReason::Marked(mark) => mark.fmt(f),
            UndecidedReason::Wide => f.write_str("wide interval"),
        }
    }
}

/// The verdict as tables have it.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Worse => f.write_str("worse"),
            Verdict::Better => f.write_str("better"),
            Verdict::Same => f.write_str("same"),
            Verdict::Undecided(doubt) => write!(f, "open: {doubt}"),
        }
    }
}

impl Verdict {
    /// The order in which a reader wants them.
    pub fn rank(self) -> u8 {
        match self {
            Verdict::Worse => 0,
            Verdict::Better => 1,
            Verdict::Undecided(_) => 2,
            Verdict::Same => 3,
        }
    }
}

/// Two cells and the ratio of one of their metrics.
pub(super) struct MetricComparison<'a> {
    pub metric: &'a str,
    pub better: Better,
    pub ratio: Estimate,
    /// Baseline, other.
    pub cells: [&'a Cell<'a>; 2],
    /// The ratio of each pair; none where the two are not compared pair by pair.
    pub pairs: &'a [f64],
}

/// The verdict on two cells.
pub(super) fn verdict(observed: &MetricComparison<'_>, tolerance: f64) -> Verdict {
    let found = match observed.ratio.ends {
        Ends::Range => Verdict::Undecided(UndecidedReason::FewRepeats),
        Ends::Interval => {
            of_interval(observed.better, (observed.ratio.low, observed.ratio.high), tolerance)
        }
    };
    let doubt = of_marks(observed, found).or_else(|| of_load(observed, found, tolerance));
    doubt.map_or(found, Verdict::Undecided)
}

/// What an interval of the ratio to the baseline says.
pub(crate) fn of_interval(better: Better, (low, high): (f64, f64), tolerance: f64) -> Verdict {
    let (least, most) = (1.0 - tolerance, 1.0 + tolerance);
    match better {
        Better::Higher if high < least => Verdict::Worse,
        Better::Higher if low > most => Verdict::Better,
        Better::Lower if low > most => Verdict::Worse,
        Better::Lower if high < least => Verdict::Better,
        _ if low >= least && high <= most => Verdict::Same,
        _ => Verdict::Undecided(UndecidedReason::Wide),
    }
}

/// The mark for which a verdict does not stand.
///
/// Generator and stalls can only make a throughput less. So where the other side alone shows
/// neither, it is worse than a baseline that could have been higher still; and better where the
/// baseline alone shows neither. Of a latency they leave nothing that could be trusted.
///
/// Common changes of both sides of a pair cancel out. So two modes and drift are judged on the
/// ratios of pairs.
fn of_marks(observed: &MetricComparison<'_>, found: Verdict) -> Option<UndecidedReason> {
    let is_of_ratios = |mark: &Mark| matches!(mark, Mark::Bimodal | Mark::Drift);
    let [base, mut other] = observed.cells.map(|cell| {
        let mut marks = cell.marks(observed.metric);
        marks.retain(|mark| observed.pairs.is_empty() || !is_of_ratios(mark));
        marks
    });
    let shapes = [
        (Mark::Bimodal, statistics::is_bimodal(observed.pairs)),
        (Mark::Drift, statistics::drifts(observed.pairs)),
    ];
    other.extend(shapes.iter().filter(|(_, is_seen)| *is_seen).map(|(mark, _)| *mark));
    let limits = [Mark::GeneratorLimited, Mark::Disturbed];
    let counts = |mark: &&Mark| {
        let [base, other] = [&base, &other].map(|marks| marks.contains(mark));
        let stands = match found {
            Verdict::Worse => !other,
            Verdict::Better => !base,
            _ => false,
        };
        let is_bound = limits.contains(mark) && is_throughput(observed.metric);
        **mark != Mark::FewSamples && (base || other) && !(is_bound && stands)
    };
    // The limits first: they say most of why.
    let rest = base.iter().chain(&other).filter(|mark| !limits.contains(mark));
    limits.iter().chain(rest).find(counts).map(|mark| UndecidedReason::Marked(*mark))
}

/// A trial at a share of the measured maximum is offered what each side could take. More load makes
/// nothing faster: a side is worse at no higher a load, and better at no lower one.
fn of_load(
    observed: &MetricComparison<'_>,
    found: Verdict,
    tolerance: f64,
) -> Option<UndecidedReason> {
    let [base, other] = observed.cells.map(paced_pps);
    let ratio = other? / base?;
    let (is_more, is_less) = (ratio > 1.0 + tolerance, ratio < 1.0 - tolerance);
    let stands = match found {
        Verdict::Undecided(_) => true,
        _ if is_throughput(observed.metric) => !is_more && !is_less,
        Verdict::Worse => !is_more,
        Verdict::Better => !is_less,
        Verdict::Same => !is_more && !is_less,
    };
    (!stands).then_some(UndecidedReason::Load)
}

/// What was offered, by a generator that was told a rate.
fn paced_pps(cell: &Cell<'_>) -> Option<f64> {
    let is_paced = cell.samples.iter().any(|sample| sample.load.pointer("/rate/pps").is_some());
    statistics::median(&cell.values("offered_pps")).filter(|pps| is_paced && *pps > 0.0)
}
