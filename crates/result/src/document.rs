//! The documents of one run, exactly as they are stored.
//!
//! `samples.jsonl` holds one [`Sample`] a line, in the order of measurement. `summary.json` holds
//! one [`Summary`], computed from the samples by `lab` and only drawn by `report`: whoever
//! distrusts it can compute it again from the samples.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{BaselineSummary, ReferenceSummary};

/// Version of every document of this crate; a reader refuses a newer one.
pub const SCHEMA: u32 = 1;

/// A number with its unit: `pps`, `ns`, `B`, `Gbps` (L1 or L2 is said by the metric's name),
/// `rules`. A number of times has `1`, a share `%`, a change `% more`, `% slower` and the like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// The number; never NaN or infinite.
    pub value: f64,
    /// Its unit.
    pub unit: String,
}

/// One coordinate of a point: a number or a word.
#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Coordinate {
    /// A number, such as a count of rules.
    Number(f64),
    /// A word, such as the name of a load.
    Word(String),
}

impl fmt::Display for Coordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Coordinate::Number(number) => number.fmt(f),
            Coordinate::Word(word) => word.fmt(f),
        }
    }
}

/// A point of a sweep: the name of each axis and where on it.
pub type Point = BTreeMap<String, Coordinate>;

/// What became of one trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// The trial ran; its metrics stand in the sample.
    Measured,
    /// The device cannot do this: a result, not a failure.
    NotSupported {
        /// What it lacks, such as `rules`.
        capability: String,
    },
    /// The device refused part of the set-up (a full table, say); metrics may still stand beside
    /// it.
    Refused {
        /// What it said.
        reason: String,
    },
    /// The trial could not be carried out.
    Failed {
        /// Why, with the remedy.
        reason: String,
        /// The device is absent or broke: nothing more was asked of it from here on.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        dropped: bool,
    },
}

/// What a reader must know before he trusts a measured point (design, "Measuring honestly").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// More than one mode stands in the repeats.
    Bimodal,
    /// Stalls longer than the ring covers, or than half a slice, left less than a fifth of the
    /// trial calm, or nothing came back in the rest.
    Disturbed,
    /// Later repeats differ systematically from earlier ones.
    Drift,
    /// Fewer repeats than an interval needs.
    FewSamples,
    /// The generator, not the device, set this figure.
    GeneratorLimited,
    /// The reference trials beside it are far from their median: the machine had another speed.
    MachineDrift,
    /// The counters of generator, device and sink do not balance.
    Unbalanced,
}

/// The mark as documents spell it, such as `generator-limited`.
impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mark::Bimodal => "bimodal",
            Mark::Disturbed => "disturbed",
            Mark::Drift => "drift",
            Mark::FewSamples => "few-samples",
            Mark::GeneratorLimited => "generator-limited",
            Mark::MachineDrift => "machine-drift",
            Mark::Unbalanced => "unbalanced",
        })
    }
}

/// What the command of a variant did before a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantRun {
    /// Name of the variant.
    pub name: String,
    /// Start of the command, nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
    /// How long it ran, nanoseconds.
    pub duration_ns: u64,
    /// Its exit code; none where a signal or the time limit ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The end of its standard output.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdout: String,
    /// The end of its standard error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
}

/// One measurement: one line of `samples.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Position in the order of measurement, from 0.
    pub order: u64,
    /// Start of the trial, nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// Name of the experiment.
    pub experiment: String,
    /// The device as it was asked for: `soft`, `linux:veth`, `dpdk:--vdev=net_ring0`; under a
    /// variant `soft [NAME]`.
    pub device: String,
    /// The variant, and what its command did before this trial; none in a run without variants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<VariantRun>,
    /// Where in the sweep.
    pub point: Point,
    /// Which trial of the point: `saturate`, `latency`, `capacity`, as the experiment names it.
    pub trial: String,
    /// Repeat, from 0.
    pub repeat: u32,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What was measured, by name; the unit stands last in the name too.
    #[serde(default)]
    pub metrics: BTreeMap<String, Quantity>,
    /// Warnings that belong to the figures.
    #[serde(default)]
    pub marks: Vec<Mark>,
    /// The load exactly as it was offered, rates resolved.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub load: serde_json::Value,
    /// Counters of generator, device and sink, per queue, as the device reported them.
    #[serde(default)]
    pub counters: serde_json::Value,
    /// The honesty record of the generator, as the device reported it.
    #[serde(default)]
    pub honesty: serde_json::Value,
    /// Counts in slices of equal length, for series over time: `slice_ns`, one list each of
    /// `offered`, `received`, `rx_missed` and `unsent`, and in `disturbed` the places of the slices
    /// into which a stall longer than the ring covers, or than half a slice, fell.
    #[serde(default)]
    pub slices: serde_json::Value,
    /// What the control side did meanwhile, as the device reported it: operations planned, done and
    /// refused, when, and how long calls took. `null` where it rested.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub control: serde_json::Value,
    /// Of a search for throughput: its goals, what was found for each, and the list of its trials.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub search: serde_json::Value,
    /// Tag of this sample's latency histogram in `latency.hlog`, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_tag: Option<String>,
}

/// Everything the report shows, computed from the samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Name and version of the program that computed it.
    pub program: String,
    /// Start of the run, RFC 3339, UTC.
    pub started: String,
    /// Length of the run, seconds.
    pub duration_s: f64,
    /// `true` where the run was cut short: the summary shows what was finished.
    pub partial: bool,
    /// Where its programs ran, as whoever measured said; empty where nobody did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub placement: String,
    /// What the data say, most important first.
    pub findings: Vec<Finding>,
    /// The experiments, in the order of the run.
    pub experiments: Vec<ExperimentSummary>,
    /// The devices, as they described themselves.
    pub devices: Vec<DeviceSummary>,
    /// Warnings about the data as a whole, the worst first: what makes figures untrustworthy, what
    /// was left out, and the rest.
    pub warnings: Vec<String>,
    /// Index of the first warning about trials that failed or that a device lacks something for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<usize>,
    /// What changed since an earlier run; `None` where none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineSummary>,
    /// The reference trials; `None` if fewer than two were undisturbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<ReferenceSummary>,
}

/// Findings that stand on top of a report and at the end of a run, at most.
pub const TOP_FINDINGS: usize = 7;

impl Summary {
    /// At most `most` warnings, in their order: the first ones. If all of them are about figures,
    /// the first about what was skipped takes the place of the last.
    pub fn top_warnings(&self, most: usize) -> Vec<&str> {
        let mut top: Vec<&str> = self.warnings.iter().take(most).map(String::as_str).collect();
        let hidden = self.skipped.filter(|at| *at >= most).and_then(|at| self.warnings.get(at));
        if let (Some(last), Some(skipped)) = (top.last_mut(), hidden) {
            *last = skipped;
        }
        top
    }

    /// At most [`TOP_FINDINGS`] findings, in their order: the first one of each experiment, then
    /// the second ones, and so on. Vague findings are not among them.
    pub fn top_findings(&self) -> Vec<&Finding> {
        let clear: Vec<&Finding> = self.findings.iter().filter(|of| !of.is_vague()).collect();
        let rank = |at: usize| {
            let of = &clear[at].experiment;
            clear[..at].iter().filter(|before| before.experiment == *of).count()
        };
        let mut places: Vec<usize> = (0..clear.len()).collect();
        places.sort_by_key(|&at| rank(at));
        places.truncate(TOP_FINDINGS);
        places.sort_unstable();
        places.into_iter().map(|at| clear[at]).collect()
    }
}

/// A sentence that the data support.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable name, such as `soft-knee-group0`.
    pub id: String,
    /// The sentence, its number included.
    pub sentence: String,
    /// The number by itself.
    pub value: Quantity,
    /// Ends of its 95 % confidence interval, in the unit of `value`.
    pub interval: Option<(f64, f64)>,
    /// What it means for somebody who builds on the device.
    pub implication: String,
    /// The figure that shows it.
    pub figure: Option<String>,
    /// Device the sentence is about.
    pub device: String,
    /// Experiment that it comes from; empty for what is said of several.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub experiment: String,
}

/// A finding is vague if the ends of its interval are more than this factor apart.
pub const VAGUE_FACTOR: f64 = 10.0;

impl Finding {
    /// `true` if the ends of the interval are more than a factor of 10 apart. A vague finding is
    /// not on top of a report, because it does not tell how much.
    ///
    /// A change in percent is not vague: between 1 % and 15 % more, the value itself is known.
    /// `lab` words a ratio as a change only if its interval spans less than the factor.
    pub fn is_vague(&self) -> bool {
        let is_wide = |(low, high): (f64, f64)| low > 0.0 && high > VAGUE_FACTOR * low;
        !self.value.is_change() && self.interval.is_some_and(is_wide)
    }
}

/// One experiment of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExperimentSummary {
    /// Its name, such as `occupancy`.
    pub name: String,
    /// One sentence: the question it asks.
    pub question: String,
    /// How far it is answered.
    #[serde(default)]
    pub verdict: ExperimentVerdict,
    /// A line for the devices with published figures of their own: which of them agree, and which
    /// cannot be compared and why. Empty without such devices.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub beside_published: String,
    /// The meaning of words in its findings; empty if all are plain.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub terms: String,
    /// What stands where during the measurement.
    pub testbeds: Vec<TestbedSummary>,
    /// Its figures, in reading order.
    pub figures: Vec<Figure>,
    /// Its tables, in reading order.
    pub tables: Vec<ReportTable>,
}

/// How far an experiment answers its question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExperimentVerdict {
    /// Its data support at least one finding.
    #[default]
    #[serde(alias = "shown")]
    Answered,
    /// They differ from what was published of the same device.
    DiffersFromPublished {
        /// The largest difference in words, both figures in it.
        difference: String,
    },
    /// They support none.
    CannotTell {
        /// Why, as far as it is known.
        reason: String,
    },
}

/// What stands where while a device is measured: enough to draw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestbedSummary {
    /// The device.
    pub device: String,
    /// Boxes from left to right along the packets' way: generator, wire, device, function, …
    pub boxes: Vec<TestbedBox>,
}

/// A box of the testbed's drawing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestbedBox {
    /// What it is: `generator`, `wire`, `device`, `function`, `sink`.
    pub role: String,
    /// What stands in it.
    pub label: String,
    /// The core it runs on, where it runs on one.
    pub core: Option<u32>,
}

/// A figure, ready to be drawn: no reader of it computes anything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Stable name, unique in the run: `occupancy-throughput-group0-64`.
    pub id: String,
    /// Heading.
    pub title: String,
    /// One or two sentences under the heading.
    pub caption: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
    /// Where the data have a knee: drawn as a band.
    #[serde(default)]
    pub knees: Vec<Knee>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it shows, such as `rules in group 0`.
    pub label: String,
    /// Unit after scaling for display, such as `Mpps`; empty for counts.
    pub unit: String,
    /// How it is divided.
    pub scale: Scale,
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Equal steps.
    Linear,
    /// Equal ratios.
    Log,
    /// Equal ratios, with a place for zero.
    Symlog,
    /// Words in the order of first appearance.
    Ordinal,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeriesShape {
    /// Points joined by a line, with error bars.
    Line,
    /// Box from p25 to p75, whiskers p1 to p99, stroke at p50.
    Box,
    /// A cumulative distribution.
    Cdf,
}

/// Where a curve comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// This run.
    Measured,
    /// What follows from a measurement, or from the device's own words: a model, an ideal, a limit.
    Computed,
    /// A publication.
    Published,
    /// An earlier run, the baseline. The series follows the one that it is compared with.
    Baseline,
}

/// One curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Device measured, or the published card.
    pub device: String,
    /// Where its points come from; each is drawn in its own way.
    pub origin: Origin,
    /// How it is drawn.
    pub shape: SeriesShape,
    /// What has its hue: series of one number look alike in every figure of a run, as what was
    /// measured and what is computed of it. Without one it takes the next that no number has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hue: Option<u32>,
    /// Its points, by ascending x.
    pub points: Vec<Mean>,
}

/// One point of a curve: the median of its repeats and where they lie.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    /// Place on the horizontal axis (number axes).
    pub x: f64,
    /// Place on an ordinal axis; empty elsewhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub x_word: String,
    /// Median, in the unit of the axis.
    pub y: f64,
    /// Lower end of the error bar: 95 % interval of the median, p1 where published, or the smallest
    /// value where the point is marked [`Mark::FewSamples`].
    pub low: Option<f64>,
    /// Upper end of the error bar.
    pub high: Option<f64>,
    /// p1, p25, p75, p99 for boxes, in this order.
    pub quartiles: Option<[f64; 4]>,
    /// Number of repeats behind it.
    pub repeats: u32,
    /// Warnings.
    #[serde(default)]
    pub marks: Vec<Mark>,
}

/// A place where a curve breaks, found by bisection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Device it was found on.
    pub device: String,
    /// Middle of the bracket, on the horizontal axis.
    pub x: f64,
    /// Half the width of the bracket.
    pub width: f64,
    /// In which groups, and what breaks there: `groups 1-16: throughput below 80 %`.
    pub label: String,
}

/// A table, its cells already worded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportTable {
    /// Stable name.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Heads of the columns.
    pub columns: Vec<String>,
    /// How many of the first columns say where a row was measured; the others are results. 0 where
    /// that is not told apart.
    #[serde(default)]
    pub inputs: usize,
    /// Rows of as many cells as there are columns.
    pub rows: Vec<Vec<String>>,
}

/// A device as it described itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceSummary {
    /// As it was asked for.
    pub device: String,
    /// Name and value, in reading order: driver, firmware, queues, placement, …
    pub facts: Vec<(String, String)>,
    /// What it was asked for and cannot do.
    pub not_supported: Vec<String>,
}

/// The machine a run was made on: `environment.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Name and value, in reading order, such as `cpu`, `microcode`, `kernel`,
    /// `kernel command line`, `governor`, `steal`.
    pub facts: Vec<(String, String)>,
    /// What may disturb a measurement here, as `niclab doctor` words it.
    pub noise: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(id: &str, experiment: &str) -> Finding {
        Finding {
            id: id.into(),
            sentence: String::new(),
            value: Quantity { value: 1.0, unit: "1".into() },
            interval: None,
            implication: String::new(),
            figure: None,
            device: "soft".into(),
            experiment: experiment.into(),
        }
    }

    #[test]
    fn an_interval_of_more_than_a_decade_makes_a_finding_vague() {
        let is_vague = |unit: &str, interval| {
            let value = Quantity { value: 1.0, unit: unit.into() };
            Finding { value, interval, ..finding("a", "a") }.is_vague()
        };
        assert!(is_vague("1", Some((1.1, 69.2))));
        assert!(!is_vague("1", Some((1.1, 11.0))));
        assert!(is_vague("%", Some((1.0, 15.0))), "a share");
        assert!(!is_vague("% more", Some((1.0, 15.0))), "a change");
        assert!(!is_vague("ns", Some((0.0, 15.0))), "zero is no factor away from anything");
        assert!(!is_vague("ns", None));
    }

    #[test]
    fn a_vague_finding_is_not_on_top() {
        let vague = Finding { interval: Some((1.0, 11.0)), ..finding("a1", "a") };
        let findings = vec![vague, finding("a2", "a")];
        let summary = Summary { findings, ..Summary::default() };
        let top: Vec<&str> = summary.top_findings().iter().map(|of| of.id.as_str()).collect();
        assert_eq!(top, ["a2"]);
    }

    #[test]
    fn the_first_findings_of_all_experiments_come_before_the_second_of_any() {
        let names = ["a", "b", "c", "d", "e"];
        let all =
            names.iter().flat_map(|name| [1, 2, 3].map(|n| finding(&format!("{name}{n}"), name)));
        let summary = Summary { findings: all.collect(), ..Summary::default() };
        let top: Vec<&str> = summary.top_findings().iter().map(|of| of.id.as_str()).collect();
        assert_eq!(top, ["a1", "a2", "b1", "b2", "c1", "d1", "e1"]);
    }

    #[test]
    fn a_warning_about_something_skipped_is_among_the_first() {
        let summary = |skipped| Summary {
            warnings: ["a", "b", "c", "d", "e"].map(str::to_owned).into(),
            skipped,
            ..Summary::default()
        };
        assert_eq!(summary(None).top_warnings(3), ["a", "b", "c"]);
        assert_eq!(summary(Some(1)).top_warnings(3), ["a", "b", "c"]);
        assert_eq!(summary(Some(3)).top_warnings(3), ["a", "b", "d"]);
        assert!(Summary::default().top_warnings(3).is_empty());
    }
}
