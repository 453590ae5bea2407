//! Variants side by side: which commands ran, and the ratios of their pairs.
//!
//! A pair is two trials of one repeat at one point, one behind the other in random order. All
//! comparisons of a section hold together with the confidence of one interval: of many settings
//! that do nothing, one in twenty runs calls any of them different.

use std::collections::{BTreeMap, BTreeSet};

use niclab_result::{
    Coordinate, ExperimentSummary, ExperimentVerdict, Figure, Mark, Mean, Origin, ReportTable,
    Sample, Scale, Series, SeriesShape, VariantRun,
};

use super::curves::axis;
use super::tables::{results_from, table};
use crate::compare::{
    Better, CompareOptions, ComparedDevice, Comparison, Row, UndecidedReason, Verdict, compare,
    of_interval,
};
use crate::merge::RunPart;
use crate::run::{Run, RunDevice};
use crate::statistics::{self, Ends, Estimate};
use crate::variants::{Variant, groups};
use crate::words;

/// Name of the section.
pub(crate) const SECTION: &str = "variants";

/// The figure of the section.
pub(crate) const FIGURE: &str = "variants-ratios";

/// Points that differ by less are the same: the default of `compare`.
pub(crate) const TOLERANCE: f64 = 0.05;

/// A headline metric under one variant, by what it is under the first.
pub(crate) struct VariantRatio {
    /// The device as it was asked for.
    pub device: String,
    /// The first variant.
    pub base: String,
    /// The other one.
    pub other: String,
    pub experiment: String,
    pub trial: String,
    pub metric: String,
    /// Unit of the metric.
    pub unit: String,
    pub better: Better,
    /// Points whose ratios are in it, and those that something puts in doubt.
    pub points: usize,
    pub points_open: usize,
    /// One pair is a repeat: the geometric mean over the points.
    pub ratio: Estimate,
    pub verdict: Verdict,
}

/// Everything that was compared.
pub(crate) struct Compared {
    pub ratios: Vec<VariantRatio>,
    rows: Vec<Vec<String>>,
}

impl Compared {
    /// Pairs that every comparison needs for an interval.
    fn pairs_min(&self) -> usize {
        statistics::repeats_for(self.ratios.len())
    }
}

/// Compares the first variant of each device with the others.
pub(crate) fn compared(run: &Run, samples: &[Sample]) -> Compared {
    let mut pairs: Vec<([&RunDevice; 2], Comparison)> = Vec::new();
    for group in groups(&run.devices) {
        let Some((&base, others)) = group.split_first() else { continue };
        for &other in others {
            let devices = [base, other].map(|at| &run.devices[at]);
            let [base, other] =
                devices.map(|device| ComparedDevice { run, samples, device: &device.name });
            let terms = CompareOptions { tolerance: TOLERANCE, metrics: Vec::new() };
            pairs.push((devices, compare(&base, &other, &terms)));
        }
    }
    let count = pairs.iter().flat_map(|(_, of)| &of.groups).filter(|of| !of.pairs.is_empty());
    let count = count.count();
    let mut all = Compared { ratios: Vec::new(), rows: Vec::new() };
    for (devices, comparison) in &pairs {
        add(&mut all, *devices, comparison, (samples, count));
    }
    all
}

fn add(
    all: &mut Compared,
    devices: [&RunDevice; 2],
    comparison: &Comparison,
    (samples, count): (&[Sample], usize),
) {
    let [base, other] = devices.map(|device| {
        device.variant.as_ref().map_or(device.name.clone(), |variant| variant.name.clone())
    });
    let device = devices[0].asked().to_owned();
    for group in &comparison.groups {
        let (experiment, trial) = (group.experiment.clone(), group.trial.clone());
        let metric = group.metric.clone();
        let axes = varied(&group.rows);
        for row in &group.rows {
            let against = format!("{other} / {base}");
            let place = [&device, &against, &experiment, &trial, &metric].map(String::clone);
            all.rows.push(place.into_iter().chain(row_words(row, &axes)).collect());
        }
        let Some(ratio) = statistics::estimate_of(&group.pairs, count) else { continue };
        let is_in_doubt = |row: &&Row| {
            matches!(
                row.verdict,
                Verdict::Undecided(UndecidedReason::Marked(_) | UndecidedReason::Load)
            )
        };
        let points_open = group.rows.iter().filter(is_in_doubt).count();
        let points = group.rows.len() - points_open;
        let verdict = match ratio.ends {
            Ends::Range => Verdict::Undecided(UndecidedReason::FewRepeats),
            Ends::Interval => {
                let [found, within] = [0.0, TOLERANCE]
                    .map(|least| of_interval(group.better, (ratio.low, ratio.high), least));
                match found {
                    Verdict::Undecided(_) if within == Verdict::Same => within,
                    found => found,
                }
            }
        };
        let of = samples.iter().find_map(|sample| sample.metrics.get(&metric));
        let unit = of.map(|quantity| quantity.unit.clone()).unwrap_or_default();
        let (device, base, other) = (device.clone(), base.clone(), other.clone());
        let better = group.better;
        all.ratios.push(VariantRatio {
            device,
            base,
            other,
            experiment,
            trial,
            metric,
            unit,
            better,
            points,
            points_open,
            ratio,
            verdict,
        });
    }
}

/// The section of a run with variants; `None` for a run without.
pub(crate) fn summary(
    run: &Run,
    compared: &Compared,
    samples: &[Sample],
) -> Option<ExperimentSummary> {
    let commands = commands(run);
    if commands.is_empty() {
        return None;
    }
    let mut tables = vec![ratio_table(compared), command_table(&commands, samples)];
    let columns = [
        "device",
        "variants",
        "experiment",
        "trial",
        "metric",
        "point",
        "ratio",
        "verdict",
        "first",
        "other",
    ];
    let title = "Point by point, by the rules of niclab compare with a tolerance of 5 %";
    tables.push(results_from(
        "ratio",
        table("variants-points", title, &columns, compared.rows.clone()),
    ));
    tables.retain(|table| !table.rows.is_empty());
    let is_decided = |of: &VariantRatio| !matches!(of.verdict, Verdict::Undecided(_));
    let verdict = match compared.ratios.iter().any(is_decided) {
        true => ExperimentVerdict::Answered,
        false => ExperimentVerdict::CannotTell { reason: undecided(compared) },
    };
    Some(ExperimentSummary {
        name: SECTION.into(),
        question: "Which variant is better, pair by pair?".into(),
        verdict,
        testbeds: Vec::new(),
        figures: figure(compared).into_iter().collect(),
        tables,
        ..ExperimentSummary::default()
    })
}

/// Why no variant is called better.
fn undecided(compared: &Compared) -> String {
    let most = compared.ratios.iter().map(|of| of.ratio.repeats).max().unwrap_or(0);
    let least = compared.pairs_min();
    match compared.ratios.is_empty() {
        true => "no pair was measured".into(),
        false if most < least => {
            let (are, pairs) =
                (words::verb(most as f64, "is", "are"), words::counted(most as f64, "pair"));
            format!("there {are} {pairs}, and an interval needs {least}: use --repeats {least}")
        }
        false => {
            "every interval of a ratio includes 1: the noise may be the whole difference".into()
        }
    }
}

/// The commands of a run, or of the parts of a merged one.
fn commands(run: &Run) -> Vec<(Option<&RunPart>, &Variant)> {
    let own = run.variants.list.iter().map(|variant| (None, variant));
    let of_parts = run
        .parts
        .iter()
        .flat_map(|part| part.variants.list.iter().map(move |variant| (Some(part), variant)));
    own.chain(of_parts).collect()
}

fn command_table(commands: &[(Option<&RunPart>, &Variant)], samples: &[Sample]) -> ReportTable {
    let rows = commands.iter().map(|(part, variant)| {
        let is_of =
            |sample: &&Sample| part.is_none_or(|part| part.devices.contains(&sample.device));
        let of = samples.iter().filter(is_of).filter_map(|sample| sample.variant.as_ref());
        let of = of.filter(|ran| ran.name == variant.name);
        // A set-up and its trial have the same command behind them.
        let ran: BTreeMap<u64, &VariantRun> = of.map(|ran| (ran.started_unix_ns, ran)).collect();
        let failed = ran.values().filter(|ran| ran.exit_code != Some(0)).count();
        let times: Vec<f64> = ran.values().map(|ran| ran.duration_ns as f64).collect();
        let time = statistics::median(&times).map_or("-".into(), words::time);
        let [count, failed] = [ran.len(), failed].map(|count| words::whole(count as f64));
        vec![variant.name.clone(), variant.command.clone(), count, failed, time]
    });
    let title = "Commands that ran before trials; niclab does not undo what they changed";
    let columns = ["variant", "command", "ran", "failed", "median time"];
    table("variants-commands", title, &columns, rows.collect())
}

fn ratio_table(compared: &Compared) -> ReportTable {
    let rows = compared.ratios.iter().map(|of| {
        let points = match of.points_open {
            0 => of.points.to_string(),
            open => format!("{} of {}", of.points, of.points + open),
        };
        vec![
            of.device.clone(),
            format!("{} / {}", of.other, of.base),
            of.experiment.clone(),
            of.trial.clone(),
            of.metric.clone(),
            ratio_words(&of.ratio),
            of.verdict.to_string(),
            of.ratio.repeats.to_string(),
            points,
        ]
    });
    let title = "Ratios of pairs, over all points; the intervals hold together with 95 %";
    let columns = [
        "device",
        "variants",
        "experiment",
        "trial",
        "metric",
        "ratio",
        "verdict",
        "pairs",
        "points",
    ];
    results_from("ratio", table("variants-ratios", title, &columns, rows.collect()))
}

/// `1.12 (1.09 to 1.15)`; without an interval `1.12 (all in 1.02 to 1.2)`.
pub(crate) fn ratio_words(ratio: &Estimate) -> String {
    let all = if ratio.ends == Ends::Range { "all in " } else { "" };
    format!("{} ({all}{})", words::supported(ratio), words::ends(ratio))
}

/// The axes that tell the points of a metric apart.
fn varied(rows: &[Row]) -> Vec<&String> {
    let axes: BTreeSet<&String> = rows.iter().flat_map(|row| row.point.keys()).collect();
    let at = |row: &Row, axis: &String| row.point.get(axis).map(Coordinate::to_string);
    let is_varied =
        |axis: &&String| rows.windows(2).any(|two| at(&two[0], axis) != at(&two[1], axis));
    axes.into_iter().filter(is_varied).collect()
}

/// The cells of a point behind its place: axes, ratio, verdict, both medians.
fn row_words(row: &Row, axes: &[&String]) -> [String; 5] {
    let axes = axes.iter().filter_map(|axis| Some(format!("{axis}={}", row.point.get(*axis)?)));
    let point = axes.collect::<Vec<_>>().join(" ");
    let verdict = row.verdict.to_string();
    [point, row.ratio_words(), verdict, row.base.clone(), row.other.clone()]
}

/// How much better the other variants are than the first, a metric each.
fn figure(compared: &Compared) -> Option<Figure> {
    let mut series: Vec<Series> = Vec::new();
    let is_one = |of: fn(&VariantRatio) -> &String| {
        compared.ratios.windows(2).all(|two| of(&two[0]) == of(&two[1]))
    };
    let (is_one_device, is_one_experiment) = (is_one(|of| &of.device), is_one(|of| &of.experiment));
    for of in compared.ratios.iter().filter(|of| of.ratio.low > 0.0) {
        let name = match is_one_device {
            true => format!("{} / {}", of.other, of.base),
            false => format!("{}, {} / {}", of.device, of.other, of.base),
        };
        let experiment = if is_one_experiment { "" } else { of.experiment.as_str() };
        let gain = gain(of.better, of.ratio);
        let point = Mean {
            x_word: format!("{experiment} {} {}", of.trial, of.metric).trim().to_owned(),
            y: gain.median,
            low: Some(gain.low),
            high: Some(gain.high),
            repeats: gain.repeats as u32,
            marks: if gain.ends == Ends::Range { vec![Mark::FewSamples] } else { Vec::new() },
            ..Mean::default()
        };
        match series.iter_mut().find(|one| one.name == name) {
            Some(one) => one.points.push(point),
            None => series.push(Series {
                name,
                device: of.device.clone(),
                origin: Origin::Measured,
                shape: SeriesShape::Line,
                hue: None,
                points: vec![point],
            }),
        }
    }
    // A logarithmic axis of a few percent has one label.
    let points = series.iter().flat_map(|one| &one.points);
    let is_near = points
        .flat_map(|point| [point.low, point.high])
        .flatten()
        .all(|end| (0.5..=2.0).contains(&end));
    let caption = "Ratios of pairs: the same repeat of the same point. A ratio is inverted where \
                   less is better, so above 1 is better. An interval that includes 1 decides \
                   nothing.";
    (!series.is_empty()).then(|| Figure {
        id: FIGURE.into(),
        title: "How much better than the first variant".into(),
        caption: caption.into(),
        x: axis("metric", "", Scale::Ordinal),
        y: axis("times the first variant", "", if is_near { Scale::Linear } else { Scale::Log }),
        series,
        knees: Vec::new(),
    })
}

/// A ratio, above 1 where it is better.
pub(crate) fn gain(better: Better, ratio: Estimate) -> Estimate {
    match better {
        Better::Higher => ratio,
        Better::Lower => Estimate {
            median: 1.0 / ratio.median,
            low: 1.0 / ratio.high,
            high: 1.0 / ratio.low,
            ..ratio
        },
    }
}
