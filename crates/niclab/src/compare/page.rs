//! A comparison in the terminal: all of it in one table, then what differs, the worst first.

use std::io::{self, Write};

use niclab_lab::compare::metrics::KNEE;
use niclab_lab::compare::{
    Better, Comparison, Group, Missing, MissingReason, Row, UndecidedReason, Verdict, conditions,
    ratio_words, started,
};
use niclab_result::Point;

use super::Pair;
use crate::output::one_line;
use crate::rules::plural;
use crate::tables::{Grid, wrapped};

/// Rows of a metric that are listed, and points of a kind that are named, where not all are.
const ROWS_MAX: usize = 10;
const POINTS_MAX: usize = 3;

/// How a comparison is printed.
pub struct Page {
    /// Columns of the terminal.
    pub width: usize,
    /// Every row, not those that differ.
    pub all: bool,
    /// The tolerance, as a share of one.
    pub tolerance: f64,
    /// Devices that only one run has measured, in words.
    pub alone: Vec<String>,
}

type Compared<'a> = [(Pair<'a>, Comparison)];

impl Page {
    /// Prints all of it.
    pub fn print(&self, compared: &Compared<'_>, out: &mut impl Write) -> io::Result<()> {
        self.head(compared, out)?;
        self.overview(compared, out)?;
        for (pair, comparison) in compared {
            let name = if compared.len() > 1 { format!("{}: ", pair.name) } else { String::new() };
            for group in by_worst(comparison) {
                self.rows(&name, group, out)?;
            }
        }
        writeln!(out)?;
        compared.iter().try_for_each(|(pair, comparison)| self.end(pair, comparison, out))
    }

    /// The gate's sentence for a pair with a regression.
    pub fn regression(&self, pair: &Pair<'_>, found: &Comparison) -> Option<String> {
        let worse = found.count(|verdict| *verdict == Verdict::Worse);
        let lost = found.lost(&pair.base.side, &pair.other.side);
        let lost: usize = lost.iter().map(|missing| missing.points.len()).sum();
        let mut message = Vec::new();
        if worse > 0 {
            let all = found.count(|_| true);
            message.push(format!("{worse} of {all} worse by more than {}", self.percent()));
        }
        if lost > 0 {
            message.push(format!("{} can no longer be measured", plural(lost, "point", "points")));
        }
        (!message.is_empty()).then(|| format!("{}: {}", pair.name, message.join("; ")))
    }

    /// The tolerance in words.
    pub fn percent(&self) -> String {
        format!("{} %", (self.tolerance * 1e6).round() / 1e4)
    }

    fn line(&self, out: &mut impl Write, text: &str) -> io::Result<()> {
        writeln!(out, "{}", wrapped(text, self.width))
    }

    /// The compared runs, and the differences of their conditions, each once.
    fn head(&self, compared: &Compared<'_>, out: &mut impl Write) -> io::Result<()> {
        let report = |made: &conditions::MeasuredSide<'_>, name: &str| {
            let device = made.side.device;
            let device = if name.ends_with(device) { String::new() } else { format!("{device}, ") };
            let since = started(made.side.samples).unwrap_or_default();
            let command = command_words(made);
            format!("{name}: {device}{}, {since}{command}", made.side.run.program)
        };
        let mut bases: Vec<String> = Vec::new();
        let mut warnings: Vec<(String, Vec<&str>)> = Vec::new();
        for (pair, _) in compared {
            let base = report(&pair.base, &pair.base_name);
            if !bases.contains(&base) {
                self.line(out, &format!("baseline {base}"))?;
                bases.push(base);
            }
            self.line(out, &format!("compared {}", report(&pair.other, &pair.name)))?;
            for text in conditions::differences(&pair.base, &pair.other) {
                match warnings.iter_mut().find(|(known, _)| *known == text) {
                    Some((_, names)) => names.push(&pair.name),
                    None => warnings.push((text, vec![&pair.name])),
                }
            }
        }
        for (text, names) in warnings {
            let names = match names.len() == compared.len() {
                true => String::new(),
                false => format!("{}: ", names.join(", ")),
            };
            self.line(out, &format!("warning: {names}{text}"))?;
        }
        self.alone.iter().try_for_each(|text| self.line(out, &format!("not compared: {text}")))
    }

    /// A table an experiment, one row a metric: the mean of its ratios, and how many points have
    /// which verdict.
    fn overview(&self, compared: &Compared<'_>, out: &mut impl Write) -> io::Result<()> {
        let are_paired = |(_, found): &(Pair<'_>, Comparison)| {
            found.groups.iter().any(|group| !group.pairs.is_empty())
        };
        let paired = match compared.iter().any(are_paired) {
            true => " Variants are compared pair by pair: the same repeat of the same point.",
            false => "",
        };
        let text = format!(
            "Ratios to the baseline. `mean` is a geometric mean over the points in `of`: those \
             without a mark and with the same load on both sides. A point is worse or better by \
             more than {}, or the same. It is open if the data cannot decide.{paired}",
            self.percent()
        );
        writeln!(out)?;
        self.line(out, &text)?;
        let groups = compared.iter().flat_map(|(_, comparison)| &comparison.groups);
        let mut experiments: Vec<&str> = groups.map(|group| group.experiment.as_str()).collect();
        experiments.dedup();
        for (at, experiment) in experiments.iter().enumerate() {
            if !experiments[..at].contains(experiment) {
                writeln!(out, "\n{}", one_line(experiment))?;
                counted(compared, experiment).print(self.width, out)?;
            }
        }
        Ok(())
    }

    /// The points of a metric that differ, or all of them.
    fn rows(&self, name: &str, group: &Group, out: &mut impl Write) -> io::Result<()> {
        let differs = |row: &&Row| matches!(row.verdict, Verdict::Worse | Verdict::Better);
        let listed: Vec<&Row> = group.rows.iter().filter(|row| self.all || differs(row)).collect();
        let most = if self.all { listed.len() } else { ROWS_MAX };
        if listed.is_empty() {
            return Ok(());
        }
        let way = match group.better {
            Better::Higher => "higher",
            Better::Lower => "lower",
        };
        writeln!(out)?;
        let text = format!("{name}{}, {}, {way} is better", group.experiment, metric_words(group));
        self.line(out, &text)?;
        let (axes, same) = axes(&group.rows);
        if !same.is_empty() {
            self.line(out, &format!("at {}", point_words(&same)))?;
        }
        grid(&axes, &listed[..listed.len().min(most)]).print(self.width, out)?;
        match listed.len().saturating_sub(most) {
            0 => Ok(()),
            more => self.line(out, &format!("and {more} more: --all lists them")),
        }
    }

    /// Points that were not compared, and the sum of the verdicts.
    fn end(
        &self,
        pair: &Pair<'_>,
        comparison: &Comparison,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let lost = comparison.lost(&pair.base.side, &pair.other.side);
        for missing in &comparison.missing {
            let word = if lost.contains(&missing) { "lost" } else { "not compared" };
            self.line(out, &format!("{word}: {}", self.missing_words(pair, missing)))?;
        }
        let count = |is: fn(&Verdict) -> bool| comparison.count(is);
        let undecided = count(|verdict| matches!(verdict, Verdict::Undecided(_)));
        let sum = format!(
            "{} against {}: {} worse, {} better, {} same within {}, {undecided} open{}",
            pair.name,
            pair.base_name,
            count(|verdict| *verdict == Verdict::Worse),
            count(|verdict| *verdict == Verdict::Better),
            count(|verdict| *verdict == Verdict::Same),
            self.percent(),
            doubts(pair, comparison),
        );
        self.line(out, &sum)
    }

    /// Points that only one side has, with the reason.
    pub fn missing_words(&self, pair: &Pair<'_>, missing: &Missing) -> String {
        let (has, lacks) = match missing.of_base {
            true => (&pair.base_name, &pair.name),
            false => (&pair.name, &pair.base_name),
        };
        let why = match &missing.why {
            MissingReason::Broke(reason) => format!("{lacks} broke: {reason}"),
            MissingReason::Failed(reason) => format!("{lacks} failed: {reason}"),
            MissingReason::NotMeasured => format!("{lacks} has not measured it"),
            MissingReason::NotPlanned => format!("not in the grid of {lacks}"),
            MissingReason::NotReached => format!("trials of {lacks} did not come to it"),
            MissingReason::NotSupported(lacking) => format!("{lacks}: not supported: {lacking}"),
            MissingReason::Refused(reason) => format!("{lacks}: {reason}"),
        };
        let most = if self.all { missing.points.len() } else { POINTS_MAX };
        let mut points: Vec<String> = missing.points.iter().take(most).map(point_words).collect();
        if missing.points.len() > most {
            points.push("…".into());
        }
        let Missing { experiment, trial, metric, .. } = missing;
        let metric = metric.as_ref().map_or(String::new(), |metric| format!(" {metric}"));
        let count = plural(missing.points.len(), "point", "points");
        format!("{experiment} {trial}{metric}, {count} of {has} ({why}): {}", points.join("; "))
    }
}

/// The command of a side that is a variant.
fn command_words(made: &conditions::MeasuredSide<'_>) -> String {
    let run = made.side.run;
    let device = run.devices.iter().find(|device| device.name == made.side.device);
    let variant = device.and_then(|device| run.variants.named(&device.variant.as_ref()?.name));
    variant.map_or(String::new(), |variant| format!(", command: {}", variant.command))
}

/// The groups, those with the worst points first.
fn by_worst(comparison: &Comparison) -> Vec<&Group> {
    let mut groups: Vec<&Group> = comparison.groups.iter().collect();
    groups.sort_by(|a, b| a.worst().total_cmp(&b.worst()));
    groups
}

/// The metrics of an experiment and how many of their points have which verdict; the name of the
/// compared side in front where there are several.
fn counted(compared: &Compared<'_>, experiment: &str) -> Grid {
    let is_one = compared.len() == 1;
    let mut rows = Vec::new();
    for (pair, comparison) in compared {
        for group in comparison.groups.iter().filter(|group| group.experiment == experiment) {
            let count = |is: fn(&Verdict) -> bool| group.count(is).to_string();
            let (mean, of) = group.mean().map_or(("-".into(), 0), |(m, of)| (ratio_words(m), of));
            let cells = [
                pair.name.clone(),
                metric_words(group),
                mean,
                of.to_string(),
                count(|verdict| *verdict == Verdict::Worse),
                count(|verdict| *verdict == Verdict::Better),
                count(|verdict| *verdict == Verdict::Same),
                count(|verdict| matches!(verdict, Verdict::Undecided(_))),
            ];
            rows.push(cells.into_iter().skip(usize::from(is_one)).collect());
        }
    }
    let columns = ["compared", "metric", "mean", "of", "worse", "better", "same", "open"];
    let columns = columns.map(str::to_owned).into_iter().skip(usize::from(is_one)).collect();
    Grid { columns, rows }
}

/// `saturate: throughput_pps`, `knee: refused`.
pub fn metric_words(group: &Group) -> String {
    match group.metric.as_str() {
        KNEE => format!("knee: {}", group.trial),
        metric => format!("{}: {metric}", group.trial),
    }
}

/// The axes that tell the points of a metric apart, and the coordinates that all of them have.
fn axes(rows: &[Row]) -> (Vec<&String>, Point) {
    let mut axes: Vec<&String> = rows.iter().flat_map(|row| row.point.keys()).collect();
    axes.sort();
    axes.dedup();
    let first = rows.first().map(|row| row.point.clone()).unwrap_or_default();
    let is_same = |axis: &&String| rows.iter().all(|row| row.point.get(*axis) == first.get(*axis));
    let (same, apart): (Vec<&String>, Vec<&String>) = axes.into_iter().partition(is_same);
    let same = same.into_iter().filter_map(|axis| Some((axis.clone(), first.get(axis)?.clone())));
    let same = same.collect();
    (apart, same)
}

/// One row a point; its axes are the first columns.
fn grid(axes: &[&String], rows: &[&Row]) -> Grid {
    let of = |row: &&Row| {
        let at = |axis: &&String| row.point.get(*axis).map(ToString::to_string).unwrap_or_default();
        let verdict = row.verdict.to_string();
        let rest = [row.ratio_words(), verdict, row.base.clone(), row.other.clone()];
        axes.iter().map(at).chain(rest).collect()
    };
    let heads = ["ratio (95 % interval)", "verdict", "baseline", "compared"];
    let columns = axes.iter().map(|axis| axis.to_string());
    let columns = columns.chain(heads.map(str::to_owned)).collect();
    Grid { columns, rows: rows.iter().map(of).collect() }
}

/// A point as `--set` takes it.
pub fn point_words(point: &Point) -> String {
    let axes = point.iter().map(|(axis, at)| format!("{axis}={at}"));
    axes.collect::<Vec<_>>().join(" ")
}

/// Repeats of both sides that are enough for an interval of the ratio.
const REPEATS_ENOUGH: u32 = 6;

/// Why how many are open, with what helps. A run with enough repeats may have too few figures: a
/// disturbed trial has none.
fn doubts(pair: &Pair<'_>, comparison: &Comparison) -> String {
    let mut experiments = [&pair.base, &pair.other].into_iter().flat_map(|made| {
        let compared = |name: &str| comparison.groups.iter().any(|of| of.experiment == name);
        made.side.run.experiments.iter().filter(move |of| compared(&of.name))
    });
    let has_planned = experiments.all(|of| of.repeats >= REPEATS_ENOUGH);
    let verdicts = comparison.groups.iter().flat_map(|group| &group.rows).map(|row| row.verdict);
    let mut doubts: Vec<UndecidedReason> = verdicts
        .filter_map(|verdict| match verdict {
            Verdict::Undecided(doubt) => Some(doubt),
            _ => None,
        })
        .collect();
    doubts.sort_unstable();
    let worded = doubts.chunk_by(|a, b| a == b).map(|same| {
        let remedy = match same[0] {
            UndecidedReason::FewRepeats if has_planned => {
                "with too few undisturbed repeats: measure again".into()
            }
            UndecidedReason::FewRepeats => "with too few repeats: use --repeats 6".into(),
            UndecidedReason::Load => "offered different rates".into(),
            UndecidedReason::Wide => {
                "with an interval over a limit: more repeats make it narrower".into()
            }
            UndecidedReason::Marked(mark) => mark.to_string(),
        };
        format!("{} {remedy}", same.len())
    });
    let worded: Vec<String> = worded.collect();
    if worded.is_empty() { String::new() } else { format!(" ({})", worded.join("; ")) }
}
