//! A comparison as JSON.

use niclab_lab::compare::{
    Better, Comparison, Group, Missing, MissingReason, Row, UndecidedReason, Verdict, conditions,
    started,
};
use niclab_result::{Point, Quantity};
use serde::Serialize;

use super::{CompareOptions, Pair};

/// The document of `compare --json`.
#[derive(Serialize)]
pub struct ComparisonDocument<'a> {
    tolerance: f64,
    /// The gate's sentence for each pair with a regression.
    regressions: &'a [String],
    /// Devices that only one of two runs has measured.
    not_compared: &'a [String],
    pairs: Vec<PairDocument<'a>>,
}

/// The baseline and what is compared with it.
#[derive(Serialize)]
struct PairDocument<'a> {
    baseline: RunDocument<'a>,
    compared: RunDocument<'a>,
    /// In what the two were not measured alike.
    differences: Vec<String>,
    counts: CountsDocument,
    metrics: Vec<MetricDocument<'a>>,
    missing: Vec<MissingDocument<'a>>,
}

/// A device of a run.
#[derive(Serialize)]
struct RunDocument<'a> {
    name: &'a str,
    device: &'a str,
    program: &'a str,
    started: Option<String>,
}

/// How many points have which verdict.
#[derive(Serialize)]
struct CountsDocument {
    worse: usize,
    better: usize,
    same: usize,
    open: usize,
}

/// A metric of a trial.
#[derive(Serialize)]
struct MetricDocument<'a> {
    experiment: &'a str,
    trial: &'a str,
    metric: &'a str,
    better: &'static str,
    /// Geometric mean of the ratios of `mean_points` points.
    mean_ratio: Option<f64>,
    mean_points: usize,
    /// The worst first.
    points: Vec<PointDocument<'a>>,
}

/// A metric at a point.
#[derive(Serialize)]
struct PointDocument<'a> {
    point: &'a Point,
    baseline: MedianDocument<'a>,
    compared: MedianDocument<'a>,
    ratio: Option<f64>,
    interval: Option<[Option<f64>; 2]>,
    verdict: &'static str,
    /// Why the verdict is open.
    reason: Option<String>,
}

/// A median with its unit, and in words.
#[derive(Serialize)]
struct MedianDocument<'a> {
    median: Option<f64>,
    unit: Option<&'a str>,
    words: &'a str,
}

/// Points that only one side has.
#[derive(Serialize)]
struct MissingDocument<'a> {
    experiment: &'a str,
    trial: &'a str,
    metric: Option<&'a str>,
    /// The side that has it.
    of: &'static str,
    reason: &'static str,
    detail: Option<&'a str>,
    /// It counts as a regression.
    lost: bool,
    points: &'a [Point],
}

impl<'a> ComparisonDocument<'a> {
    /// The document of all pairs.
    pub fn of(
        terms: &CompareOptions,
        compared: &'a [(Pair<'a>, Comparison)],
        not_compared: &'a [String],
        regressions: &'a [String],
    ) -> ComparisonDocument<'a> {
        let pairs = compared.iter().map(|(pair, found)| PairDocument::of(pair, found)).collect();
        ComparisonDocument { tolerance: terms.tolerance, regressions, not_compared, pairs }
    }
}

impl<'a> PairDocument<'a> {
    fn of(pair: &'a Pair<'a>, found: &'a Comparison) -> PairDocument<'a> {
        let lost = found.lost(&pair.base.side, &pair.other.side);
        let missing = found.missing.iter();
        let missing = missing.map(|of| MissingDocument::of(of, lost.contains(&of)));
        PairDocument {
            baseline: RunDocument::of(&pair.base_name, &pair.base),
            compared: RunDocument::of(&pair.name, &pair.other),
            differences: conditions::differences(&pair.base, &pair.other),
            counts: CountsDocument {
                worse: found.count(|verdict| *verdict == Verdict::Worse),
                better: found.count(|verdict| *verdict == Verdict::Better),
                same: found.count(|verdict| *verdict == Verdict::Same),
                open: found.count(|verdict| matches!(verdict, Verdict::Undecided(_))),
            },
            metrics: found.groups.iter().map(MetricDocument::of).collect(),
            missing: missing.collect(),
        }
    }
}

impl<'a> RunDocument<'a> {
    fn of(name: &'a str, made: &conditions::MeasuredSide<'a>) -> RunDocument<'a> {
        let side = &made.side;
        let (device, program) = (side.device, side.run.program.as_str());
        RunDocument { name, device, program, started: started(side.samples) }
    }
}

impl<'a> MetricDocument<'a> {
    fn of(group: &'a Group) -> MetricDocument<'a> {
        let mean = group.mean();
        MetricDocument {
            experiment: &group.experiment,
            trial: &group.trial,
            metric: &group.metric,
            better: match group.better {
                Better::Higher => "higher",
                Better::Lower => "lower",
            },
            mean_ratio: mean.map(|(ratio, _)| ratio),
            mean_points: mean.map_or(0, |(_, points)| points),
            points: group.rows.iter().map(PointDocument::of).collect(),
        }
    }
}

impl<'a> PointDocument<'a> {
    fn of(row: &'a Row) -> PointDocument<'a> {
        let [baseline, compared] = match &row.medians {
            Some([base, other]) => [Some(base), Some(other)],
            None => [None, None],
        };
        let (verdict, reason) = verdict(row.verdict);
        PointDocument {
            point: &row.point,
            baseline: MedianDocument::of(&row.base, baseline),
            compared: MedianDocument::of(&row.other, compared),
            ratio: finite(row.ratio),
            interval: row.interval.map(|(low, high)| [finite(low), finite(high)]),
            verdict,
            reason,
        }
    }
}

impl<'a> MedianDocument<'a> {
    fn of(words: &'a str, median: Option<&'a Quantity>) -> MedianDocument<'a> {
        let unit = median.map(|median| median.unit.as_str());
        MedianDocument { median: median.map(|median| median.value), unit, words }
    }
}

impl<'a> MissingDocument<'a> {
    fn of(missing: &'a Missing, lost: bool) -> MissingDocument<'a> {
        let (reason, detail) = match &missing.why {
            MissingReason::Broke(reason) => ("broke", Some(reason.as_str())),
            MissingReason::Failed(reason) => ("failed", Some(reason.as_str())),
            MissingReason::NotMeasured => ("not-measured", None),
            MissingReason::NotPlanned => ("not-planned", None),
            MissingReason::NotReached => ("not-reached", None),
            MissingReason::NotSupported(lacking) => ("not-supported", Some(lacking.as_str())),
            MissingReason::Refused(reason) => ("refused", Some(reason.as_str())),
        };
        MissingDocument {
            experiment: &missing.experiment,
            trial: &missing.trial,
            metric: missing.metric.as_deref(),
            of: if missing.of_base { "baseline" } else { "compared" },
            reason,
            detail,
            lost,
            points: &missing.points,
        }
    }
}

fn verdict(verdict: Verdict) -> (&'static str, Option<String>) {
    match verdict {
        Verdict::Worse => ("worse", None),
        Verdict::Better => ("better", None),
        Verdict::Same => ("same", None),
        Verdict::Undecided(doubt) => ("open", Some(reason(doubt))),
    }
}

fn reason(doubt: UndecidedReason) -> String {
    match doubt {
        UndecidedReason::FewRepeats => "few-repeats".to_owned(),
        UndecidedReason::Load => "other-rate".to_owned(),
        UndecidedReason::Marked(mark) => mark.to_string(),
        UndecidedReason::Wide => "wide-interval".to_owned(),
    }
}

/// JSON has no infinity.
fn finite(ratio: f64) -> Option<f64> {
    ratio.is_finite().then_some(ratio)
}
