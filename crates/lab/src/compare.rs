//! Compares two devices, or two runs of one device: values that differ by more than a tolerance,
//! equal values, and undecided ones.
//!
//! One side is the baseline. Both have cells, the repeats of one trial at one point; those of the
//! same experiment, trial and point are compared, metric by metric. It knows no experiment: what is
//! compared of a trial stands in [`metrics`].
//!
//! Variants of one run are compared pair by pair: a pair is the same repeat of the same point.

pub mod conditions;
mod judge;
mod knees;
pub mod metrics;

use std::collections::BTreeMap;

use niclab_result::{Coordinate, Mark, Outcome, Point, Quantity, Sample};

use crate::cells::{Cell, Cells};
use crate::run::{ExperimentRun, Run};
use crate::runner::SETUP;
use crate::statistics::{self, Ends, Estimate};
use crate::variants::are_variants;
use crate::words;

pub(crate) use judge::of_interval;
pub use judge::{UndecidedReason, Verdict};
pub use metrics::Better;

use judge::MetricComparison;

/// One device of one run.
#[derive(Clone, Copy, Debug)]
pub struct ComparedDevice<'a> {
    /// The run.
    pub run: &'a Run,
    /// Its samples, of all devices.
    pub samples: &'a [Sample],
    /// The device.
    pub device: &'a str,
}

/// What counts as a difference, and of what.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareOptions {
    /// What two sides may differ by: 0.05 of a ratio to 1.
    pub tolerance: f64,
    /// The metrics to compare, wherever they are; none: those that each trial is made for.
    pub metrics: Vec<String>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// What stands on both sides, in the order of the runs.
    pub groups: Vec<Group>,
    /// What stands on one side alone.
    pub missing: Vec<Missing>,
}

/// One metric of one trial of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The experiment.
    pub experiment: String,
    /// The trial, or what breaks at a knee.
    pub trial: String,
    /// The metric.
    pub metric: String,
    /// Which way is better.
    pub better: Better,
    /// Its points, the worst first.
    pub rows: Vec<Row>,
    /// Of variants, a ratio for each repeat: the geometric mean over the points that nothing puts
    /// in doubt.
    pub pairs: Vec<f64>,
}

/// A metric at one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The point of the sweep.
    pub point: Point,
    /// Median of the baseline, in words.
    pub base: String,
    /// Median of the other side, in words.
    pub other: String,
    /// Both medians, baseline first; `None` of a knee, which is a bracket.
    pub medians: Option<[Quantity; 2]>,
    /// What the other side is of the baseline: 0 or infinite where one of them is zero.
    pub ratio: f64,
    /// Its 95 % interval; of a knee or a search that of their brackets.
    pub interval: Option<(f64, f64)>,
    /// What that says.
    pub verdict: Verdict,
}

/// Points that only one side has.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// The experiment.
    pub experiment: String,
    /// The trial.
    pub trial: String,
    /// The metric, where its trial stands on both sides.
    pub metric: Option<String>,
    /// `true` where the baseline has it.
    pub of_base: bool,
    /// Why the other one has it not.
    pub why: MissingReason,
    /// Where.
    pub points: Vec<Point>,
}

/// Why a side has not what the other one has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingReason {
    /// The device broke, or could not be brought into this state: the reason.
    Broke(String),
    /// The trial failed: the reason.
    Failed(String),
    /// It was not measured, though it was planned.
    NotMeasured,
    /// It stands not in the grid of the run.
    NotPlanned,
    /// Trials were made and did not come to it, such as a batch to its end, on a machine that
    /// disturbed nothing.
    NotReached,
    /// The device cannot do it: what it lacks.
    NotSupported(String),
    /// The device refused a part of the set-up, which the other one took: what it said.
    Refused(String),
}

/// Compares `other` with `base`.
pub fn compare(
    base: &ComparedDevice<'_>,
    other: &ComparedDevice<'_>,
    terms: &CompareOptions,
) -> Comparison {
    let mut comparison = Comparison::default();
    for name in experiments(base.run, other.run) {
        let cells = [base, other].map(|side| Cells::new(name, side.samples));
        let two = ExperimentPair { name, sides: [base, other], cells: &cells, terms };
        for trial in two.trials() {
            two.add(trial, &mut comparison);
        }
        if let Some(knees) = knees::groups(&two) {
            comparison.groups.extend(knees);
        }
    }
    for group in &mut comparison.groups {
        let rank = |row: &Row| (row.verdict.rank(), gain(group.better, row.ratio));
        group.rows.sort_by(|a, b| {
            let ((a, a_gain), (b, b_gain)) = (rank(a), rank(b));
            a.cmp(&b).then(a_gain.total_cmp(&b_gain))
        });
    }
    comparison
}

/// Names of the experiments of two runs, each once.
fn experiments<'a>(base: &'a Run, other: &'a Run) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for experiment in base.experiments.iter().chain(&other.experiments) {
        if !names.contains(&experiment.name.as_str()) {
            names.push(&experiment.name);
        }
    }
    names
}

/// Above 1 where a ratio to the baseline is better than it.
fn gain(better: Better, ratio: f64) -> f64 {
    match better {
        Better::Higher => ratio,
        Better::Lower => 1.0 / ratio,
    }
}

impl Comparison {
    /// How many points and metrics have this verdict.
    pub fn count(&self, is: impl Fn(&Verdict) -> bool) -> usize {
        self.groups.iter().map(|group| group.count(&is)).sum()
    }

    /// What the device could on the baseline and cannot any more; nothing where the two sides are
    /// devices of different names, for of these one may do less. A trial may fail for want of the
    /// machine's time: that is not of the device.
    pub fn lost<'a>(
        &'a self,
        base: &ComparedDevice<'_>,
        other: &ComparedDevice<'_>,
    ) -> Vec<&'a Missing> {
        let is_lost = |missing: &&Missing| {
            let is_of_device = match missing.why {
                MissingReason::Failed(_)
                | MissingReason::NotMeasured
                | MissingReason::NotPlanned => false,
                MissingReason::Broke(_)
                | MissingReason::NotReached
                | MissingReason::NotSupported(_)
                | MissingReason::Refused(_) => true,
            };
            let is_same = base.device == other.device || are_paired(base, other);
            missing.of_base && is_of_device && is_same
        };
        self.missing.iter().filter(is_lost).collect()
    }
}

impl Row {
    /// The ratio with its interval, in words.
    pub fn ratio_words(&self) -> String {
        let ratio = ratio_words(self.ratio);
        match self.interval {
            Some((low, high)) => {
                format!("{ratio} ({} to {})", ratio_words(low), ratio_words(high))
            }
            None => ratio,
        }
    }
}

/// A ratio to the baseline in words.
pub fn ratio_words(ratio: f64) -> String {
    if ratio.is_infinite() { "infinite".into() } else { words::significant(ratio) }
}

impl Group {
    /// How many points have this verdict.
    pub fn count(&self, is: impl Fn(&Verdict) -> bool) -> usize {
        self.rows.iter().filter(|row| is(&row.verdict)).count()
    }

    /// How many times as good as its baseline a point of this metric is.
    pub fn gain(&self, row: &Row) -> f64 {
        gain(self.better, row.ratio)
    }

    /// How much better the worst of the points that differ is than its baseline; infinite where
    /// none does.
    pub fn worst(&self) -> f64 {
        let differs = |row: &&Row| matches!(row.verdict, Verdict::Worse | Verdict::Better);
        let gains = self.rows.iter().filter(differs).map(|row| self.gain(row));
        gains.fold(f64::INFINITY, f64::min)
    }

    /// Geometric mean of the ratios and of how many points: of those that no mark puts in doubt and
    /// whose ratio is neither zero nor infinite.
    pub fn mean(&self) -> Option<(f64, usize)> {
        let is_trusted = |row: &&Row| {
            !matches!(
                row.verdict,
                Verdict::Undecided(UndecidedReason::Marked(_) | UndecidedReason::Load)
            )
        };
        let logarithms = self.rows.iter().filter(is_trusted).map(|row| row.ratio.ln());
        let logarithms: Vec<f64> = logarithms.filter(|ln| ln.is_finite()).collect();
        let count = logarithms.len();
        (count > 0).then(|| ((logarithms.iter().sum::<f64>() / count as f64).exp(), count))
    }
}

/// `true` where two sides are variants of one device in one run: what was measured alternates, and
/// the same repeat of both is a pair.
fn are_paired(base: &ComparedDevice<'_>, other: &ComparedDevice<'_>) -> bool {
    let of = |side: &ComparedDevice<'_>| {
        side.run.devices.iter().position(|device| device.name == side.device)
    };
    let is_one_run = std::ptr::eq(base.run, other.run) && std::ptr::eq(base.samples, other.samples);
    let places = of(base).zip(of(other)).filter(|_| is_one_run);
    places.is_some_and(|(one, two)| are_variants(&base.run.devices[one], &base.run.devices[two]))
}

/// The means over the points of a metric, a repeat each.
#[derive(Default)]
struct PairMeans {
    points: usize,
    /// How many points a repeat has, and the sum of the logarithms of their ratios.
    sums: BTreeMap<u32, (usize, f64)>,
}

impl PairMeans {
    /// Takes in a point, unless a mark or another load puts it in doubt.
    fn add(&mut self, row: Option<&Row>, pairs: &[(u32, f64)]) {
        let is_in_doubt = |row: &Row| {
            matches!(
                row.verdict,
                Verdict::Undecided(UndecidedReason::Marked(_) | UndecidedReason::Load)
            )
        };
        if pairs.is_empty() || row.is_none_or(is_in_doubt) {
            return;
        }
        self.points += 1;
        for (repeat, ratio) in pairs {
            let (points, sum) = self.sums.entry(*repeat).or_default();
            (*points, *sum) = (*points + 1, *sum + ratio.ln());
        }
    }

    /// The mean of each repeat that has all points.
    fn ratios(&self) -> Vec<f64> {
        let whole = self.sums.values().filter(|(points, _)| *points == self.points);
        whole
            .map(|(points, sum)| (sum / *points as f64).exp())
            .filter(|it| it.is_finite())
            .collect()
    }
}

/// One experiment of both sides.
struct ExperimentPair<'a> {
    name: &'a str,
    sides: [&'a ComparedDevice<'a>; 2],
    cells: &'a [Cells<'a>; 2],
    terms: &'a CompareOptions,
}

impl<'a> ExperimentPair<'a> {
    /// Names of the trials of both, in the order of measurement, set-ups behind them.
    fn trials(&self) -> Vec<&'a str> {
        let mut trials: Vec<&str> = Vec::new();
        for cell in (0..2).flat_map(|side| self.of(side)) {
            if !trials.contains(&cell.trial) {
                trials.push(cell.trial);
            }
        }
        let kind = self.runs().next().map(|run| run.kind);
        trials.sort_by_key(|trial| metrics::rank(kind, trial));
        trials
    }

    /// The experiment as both sides have planned it.
    fn runs(&self) -> impl Iterator<Item = &'a ExperimentRun> {
        let name = self.name;
        let all = self.sides.into_iter().flat_map(|side| &side.run.experiments);
        all.filter(move |run| run.name == name)
    }

    /// The cells of a side.
    fn of(&self, side: usize) -> impl Iterator<Item = &'a Cell<'a>> {
        let device = self.sides[side].device;
        self.cells[side].all().iter().filter(move |cell| cell.device == device)
    }

    /// The cell of a side at the place of another one.
    fn at(&self, side: usize, place: &Cell<'_>) -> Option<&'a Cell<'a>> {
        self.of(side).find(|cell| cell.trial == place.trial && cell.point == place.point)
    }

    /// Compares one trial.
    fn add(&self, trial: &str, comparison: &mut Comparison) {
        let cells: Vec<&Cell<'_>> =
            (0..2).flat_map(|side| self.of(side)).filter(|cell| cell.trial == trial).collect();
        let table = metrics::table(self.name, self.runs(), trial);
        let wanted = metrics::of(trial, table, &self.terms.metrics, &cells);
        let has = |cell: &Cell<'_>| wanted.iter().any(|name| !cell.values(name).is_empty());
        let mut both = Vec::new();
        for cell in self.of(0).filter(|cell| cell.trial == trial && has(cell)) {
            match self.at(1, cell).map(|other| (other, refused(cell, other))) {
                None => comparison.miss(self, cell, None, 0, self.why(1, cell)),
                Some((_, Some((side, message)))) => {
                    comparison.miss(self, cell, None, 1 - side, MissingReason::Refused(message));
                }
                Some((other, None)) => both.push((cell, other)),
            }
        }
        for cell in self.of(1).filter(|cell| cell.trial == trial && has(cell)) {
            if self.at(0, cell).is_none() {
                comparison.miss(self, cell, None, 1, self.why(0, cell));
            }
        }
        for metric in wanted {
            let Some(better) = metrics::better(table, &metric) else { continue };
            let (mut rows, mut means) = (Vec::new(), PairMeans::default());
            for (base, other) in &both {
                let there = [base, other].map(|cell| !cell.values(&metric).is_empty());
                let is_short = falls_short(&metric, base, other);
                if is_short {
                    comparison.miss(self, base, Some(&metric), 0, MissingReason::NotReached);
                }
                match there {
                    [true, false] if is_short => {}
                    [true, true] => {
                        let row = self.row(&metric, better, base, other);
                        means.add(row.as_ref(), &self.pairs(&metric, base, other));
                        rows.extend(row);
                    }
                    [false, false] => {}
                    [of_base, _] => {
                        let side = usize::from(!of_base);
                        comparison.miss(
                            self,
                            base,
                            Some(&metric),
                            side,
                            MissingReason::NotMeasured,
                        );
                    }
                }
            }
            if !rows.is_empty() {
                let (experiment, trial) = (self.name.to_owned(), trial.to_owned());
                let pairs = means.ratios();
                comparison.groups.push(Group { experiment, trial, metric, better, rows, pairs });
            }
        }
    }

    /// The ratio of each pair of two cells, with its repeat; none where they are no pairs.
    fn pairs(&self, metric: &str, base: &Cell<'_>, other: &Cell<'_>) -> Vec<(u32, f64)> {
        if !are_paired(self.sides[0], self.sides[1]) {
            return Vec::new();
        }
        let least = metrics::resolution(metric, [base, other]);
        let pairs = other.pairs(base, metric).into_iter();
        let floored = pairs.map(|(repeat, one, base)| (repeat, one.max(least), base.max(least)));
        let is_ratio = |(_, _, base): &(u32, f64, f64)| *base > 0.0;
        floored.filter(is_ratio).map(|(repeat, one, base)| (repeat, one / base)).collect()
    }

    fn row(&self, metric: &str, better: Better, base: &Cell<'_>, other: &Cell<'_>) -> Option<Row> {
        let least = metrics::resolution(metric, [base, other]);
        let values = |cell: &Cell<'_>| -> Vec<f64> {
            cell.values(metric).iter().map(|value| value.max(least)).collect()
        };
        let pairs: Vec<f64> =
            self.pairs(metric, base, other).into_iter().map(|(_, ratio)| ratio).collect();
        let ratio = match metrics::goal(metric) {
            Some(goal) => searched_ratio(metric, goal, base, other)?,
            None if !pairs.is_empty() => statistics::estimate(&pairs)?,
            None => statistics::unpaired_ratio(&values(other), &values(base))?,
        };
        let medians = [median(base, metric)?, median(other, metric)?];
        let observed =
            MetricComparison { metric, better, ratio, cells: [base, other], pairs: &pairs };
        Some(Row {
            point: base.point.clone(),
            base: worded(&medians[0]),
            other: worded(&medians[1]),
            medians: Some(medians),
            ratio: ratio.median,
            interval: ratio.interval(),
            verdict: judge::verdict(&observed, self.terms.tolerance),
        })
    }

    /// Why a side has not what the other one measured at this place.
    fn why(&self, at: usize, place: &Cell<'_>) -> MissingReason {
        let side = self.sides[at];
        let is_of = |s: &&Sample| s.experiment == self.name && s.device == side.device;
        let is_here = |s: &&Sample| s.trial == place.trial && s.point == *place.point;
        let mut tried = side.samples.iter().filter(is_of).filter(is_here);
        match tried.next_back().map(|sample| &sample.outcome) {
            Some(Outcome::Failed { reason, dropped }) if *dropped || place.trial == SETUP => {
                return MissingReason::Broke(reason.clone());
            }
            Some(Outcome::Failed { reason, .. }) => return MissingReason::Failed(reason.clone()),
            Some(Outcome::NotSupported { capability }) => {
                return MissingReason::NotSupported(lack_sentence(side, capability));
            }
            _ => {}
        }
        let run = side.run.experiments.iter().find(|experiment| experiment.name == self.name);
        if !run.is_some_and(|run| is_planned(run, place)) {
            return MissingReason::NotPlanned;
        }
        // What both devices lack is not why one of them measured it and the other did not.
        let [there, lacking] = [self.sides[1 - at], side].map(lacks);
        let lacking: Vec<&str> =
            lacking.filter(|what| !there.clone().any(|it| it == *what)).collect();
        match lacking.is_empty() {
            true => MissingReason::NotMeasured,
            false => {
                let told: Vec<String> =
                    lacking.iter().map(|what| lack_sentence(side, what)).collect();
                MissingReason::NotSupported(told.join(", "))
            }
        }
    }
}

/// What the device of a side lacks.
fn lacks<'a>(side: &'a ComparedDevice<'_>) -> impl Iterator<Item = &'a str> + Clone {
    let device = side.run.devices.iter().filter(|device| device.name == side.device);
    device.flat_map(|device| device.about.not_supported.iter().map(String::as_str))
}

/// What the device of a side lacks, with who lacks it.
fn lack_sentence(side: &ComparedDevice<'_>, capability: &str) -> String {
    let device = side.run.devices.iter().find(|device| device.name == side.device);
    device.map_or_else(|| capability.to_owned(), |device| device.about.lack(capability))
}

/// `true` where each repeat of the baseline came to this metric and one of the other side did not,
/// for no reason but the device.
fn falls_short(metric: &str, base: &Cell<'_>, other: &Cell<'_>) -> bool {
    // Of a few rules that were to go in there is no rate, and that is not the device's doing.
    let is_of_few = || {
        let refused = other.values("rules_refused");
        base.trial == SETUP && refused.iter().all(|rules| *rules == 0.0)
    };
    if metrics::hangs_on_machine(metric) || is_of_few() {
        return false;
    }
    let has = |sample: &&Sample| sample.metrics.contains_key(metric);
    let is_short = |sample: &&Sample| {
        let limits = [Mark::GeneratorLimited, Mark::Disturbed];
        // A goal that was searched has an upper bound, if nothing else.
        let goal = metrics::goal(metric).map(|goal| format!("{goal}_upper_pps"));
        !has(sample)
            && !limits.iter().any(|mark| sample.marks.contains(mark))
            && goal.is_none_or(|upper| sample.metrics.contains_key(&upper))
    };
    base.samples.iter().copied().all(|sample| has(&sample))
        && other.samples.iter().copied().any(|sample| is_short(&sample))
}

/// What one search found by what another did. A search is made once: its interval is that of the
/// brackets, from the conditional throughput to the upper bound.
fn searched_ratio(metric: &str, goal: &str, base: &Cell<'_>, other: &Cell<'_>) -> Option<Estimate> {
    let bracket = |cell: &Cell<'_>| {
        let last = |metric: &str| cell.values(metric).last().copied();
        let upper_pps = last(&format!("{goal}_upper_pps")).unwrap_or(f64::INFINITY);
        Some((last(metric)?, upper_pps))
    };
    let ((base_low, base_high), (low, high)) = (bracket(base)?, bracket(other)?);
    Some(Estimate {
        median: low / base_low,
        low: low / base_high,
        high: high / base_low,
        repeats: 1,
        ends: Ends::Interval,
    })
    .filter(|_| base_low > 0.0)
}

impl Comparison {
    /// Notes that only `side`, 0 the baseline, has this.
    fn miss(
        &mut self,
        two: &ExperimentPair<'_>,
        cell: &Cell<'_>,
        metric: Option<&str>,
        side: usize,
        why: MissingReason,
    ) {
        let (of_base, metric) = (side == 0, metric.map(str::to_owned));
        let (experiment, trial) = (two.name.to_owned(), cell.trial.to_owned());
        let missing = Missing { experiment, trial, metric, of_base, why, points: Vec::new() };
        let same = |m: &Missing| Missing { points: Vec::new(), ..m.clone() } == missing;
        let at = self.missing.iter().position(same).unwrap_or_else(|| {
            self.missing.push(missing.clone());
            self.missing.len() - 1
        });
        self.missing[at].points.push(cell.point.clone());
    }
}

/// The side, 0 or 1, that refused a part of a set-up in each repeat while the other one took all of
/// it in each, and what it said: these are different states.
fn refused(base: &Cell<'_>, other: &Cell<'_>) -> Option<(usize, String)> {
    let reasons = [base, other].map(|cell| {
        let of = |sample: &&Sample| match &sample.outcome {
            Outcome::Refused { reason } => Some(reason.clone()),
            _ => None,
        };
        let reasons: Vec<String> = cell.samples.iter().filter_map(of).collect();
        (reasons.len() == cell.samples.len(), reasons)
    });
    match reasons {
        [(true, reasons), (_, none)] if none.is_empty() => Some((0, reasons.last()?.clone())),
        [(_, none), (true, reasons)] if none.is_empty() => Some((1, reasons.last()?.clone())),
        _ => None,
    }
}

/// `true` where the run was to measure this; a set-up where one of its trials has it.
fn is_planned(run: &ExperimentRun, place: &Cell<'_>) -> bool {
    run.trials.iter().any(|trial| match place.trial {
        SETUP => place.point.iter().all(|(axis, at)| trial.point.get(axis) == Some(at)),
        name => trial.kind.name() == name && trial.point == *place.point,
    })
}

/// The median of a metric with its unit.
fn median(cell: &Cell<'_>, metric: &str) -> Option<Quantity> {
    let value = statistics::median(&cell.values(metric))?;
    let unit = cell.samples.iter().find_map(|sample| Some(&sample.metrics.get(metric)?.unit))?;
    Some(Quantity { value, unit: unit.clone() })
}

/// The same in words.
fn worded(Quantity { value, unit }: &Quantity) -> String {
    match unit.as_str() {
        "pps" => words::pps(*value),
        "ns" => words::time(*value),
        "B" => words::bytes(*value),
        "1" => words::significant(*value),
        unit => format!("{} {unit}", words::significant(*value)),
    }
}

/// The devices of a run that have measured something beside set-ups, in the order of the run.
pub fn measured<'a>(run: &'a Run, samples: &[Sample]) -> Vec<&'a str> {
    let of = |name: &&str| {
        let has = |s: &Sample| {
            let is_measured = matches!(s.outcome, Outcome::Measured | Outcome::Refused { .. });
            s.device == *name && s.trial != SETUP && is_measured
        };
        samples.iter().any(has)
    };
    run.devices.iter().map(|device| device.name.as_str()).filter(of).collect()
}

/// Which devices of two runs are compared: where each has one, these two, whatever their names;
/// else those of the same name.
pub fn pairs<'a>(base: &[&'a str], other: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    match (base, other) {
        ([base], [other]) => vec![(base, other)],
        _ => base.iter().filter(|name| other.contains(name)).map(|name| (*name, *name)).collect(),
    }
}

/// When a run was begun, RFC 3339; `None` where it has no sample.
pub fn started(samples: &[Sample]) -> Option<String> {
    samples.iter().map(|sample| sample.time_unix_ns).min().map(words::time_of_day)
}

/// The trials of an experiment, and the values of their axes.
type TrialAxes<'a> = BTreeMap<&'a str, BTreeMap<&'a str, Vec<&'a Coordinate>>>;

/// What a device has measured, an experiment and trial a line: its axes with their values.
pub fn contents(side: &ComparedDevice<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for experiment in &side.run.experiments {
        let cells = Cells::new(&experiment.name, side.samples);
        let mut trials = TrialAxes::new();
        for cell in cells.all().iter().filter(|cell| cell.device == side.device) {
            let table = experiment.kind.of().trial(cell.trial);
            if !metrics::of(cell.trial, table, &[], &[cell]).is_empty() {
                note(&mut trials, cell.trial, cell.point);
            }
        }
        lines.extend(listed(&experiment.name, trials));
    }
    lines
}

/// The plan of a run, in the form of [`contents`].
pub fn planned(run: &Run) -> Vec<String> {
    let lines = run.experiments.iter().flat_map(|experiment| {
        let mut trials = TrialAxes::new();
        for trial in &experiment.trials {
            note(&mut trials, trial.kind.name(), &trial.point);
        }
        listed(&experiment.name, trials)
    });
    lines.collect()
}

/// Notes the values of a point.
fn note<'a>(trials: &mut TrialAxes<'a>, trial: &'a str, point: &'a Point) {
    let axes = trials.entry(trial).or_default();
    for (axis, at) in point {
        let values = axes.entry(axis).or_default();
        if !values.contains(&at) {
            values.push(at);
        }
    }
}

/// A line a trial.
fn listed(experiment: &str, trials: TrialAxes<'_>) -> Vec<String> {
    let of_trial = |(trial, mut axes): (&str, BTreeMap<&str, Vec<&Coordinate>>)| {
        let listed = |(axis, values): (&&str, &mut Vec<&Coordinate>)| {
            values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            format!("{axis}={}", values.join(","))
        };
        let axes: Vec<String> = axes.iter_mut().map(listed).collect();
        format!("{experiment} {trial}: {}", axes.join(" "))
    };
    trials.into_iter().map(of_trial).collect()
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
