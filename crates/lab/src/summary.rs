//! Everything the report shows, computed from the samples: whoever distrusts it computes it again.

pub(crate) mod agreement;
pub(crate) mod beside_published;
pub(crate) mod curves;
pub(crate) mod frames;
pub(crate) mod knees;
pub(crate) mod placements;
pub(crate) mod queues;
mod stamps;
pub(crate) mod tables;
pub(crate) mod throughput;
pub(crate) mod updates;
pub(crate) mod variants;

use niclab_device::capability::{APPLICATIONS, ECHO, PROGRAMS, STORE, STREAM};
use niclab_device::{DeviceInfo, PathNode};
use niclab_load::TraceFrames;
use niclab_result::{
    DeviceSummary, ExperimentSummary, ExperimentVerdict, Figure, Finding, Latencies, Mark, Origin,
    Outcome, SCHEMA, Sample, Summary, TestbedBox, TestbedSummary,
};

use crate::cells::{Cell, Cells};
use crate::device_samples::DeviceSamples;
use crate::merge::RunPart;
use crate::metrics::TrialMetrics;
use crate::run::{ExperimentRun, Run, RunDevice, Visit};
use crate::runner::{SETUP, search, throughput as searches};
use crate::spec::{RulesFile, Trace};
use crate::{experiments, findings, reference, words};

pub(crate) use knees::{FoundKnee, found as found_knees};

/// The results of an experiment, before they become sentences and figures.
pub(crate) struct Results<'a> {
    pub run: &'a Run,
    pub experiment: &'a ExperimentRun,
    pub cells: Cells<'a>,
    pub knees: Vec<FoundKnee>,
    pub latencies: &'a Latencies,
    pub samples: &'a [Sample],
}

impl Results<'_> {
    /// Names of the devices, in the order they were asked for.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.run.devices.iter().map(|device| device.name.as_str())
    }

    /// The description of a device.
    pub fn about(&self, device: &str) -> Option<&DeviceInfo> {
        self.run.devices.iter().find(|of| of.name == device).map(|of| &of.about)
    }

    /// `true` where neither a card nor a cable is between the two hosts of a device.
    pub fn is_one_machine(&self, device: &str) -> bool {
        self.about(device).is_some_and(|about| about.is_one_machine)
    }
}

/// How much a warning takes from what a reader can believe: the worst first, the order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    /// Figures that contradict each other.
    Wrong,
    /// Figures that are not to be trusted.
    Untrusted,
    /// Trials that failed, and what a device lacks, such as a program.
    Skipped,
    /// A device that could not be opened.
    Absent,
    /// Everything else.
    Note,
}

/// A warning before it has its place.
type RankedWarning = (Severity, String);

/// Sorts warnings, the worst first; those of a kind keep their order. Returns them and where those
/// of what was skipped begin.
fn sorted(mut warnings: Vec<RankedWarning>) -> (Vec<String>, Option<usize>) {
    warnings.sort_by_key(|(severity, _)| *severity);
    let skipped = warnings.iter().position(|(severity, _)| *severity == Severity::Skipped);
    (warnings.into_iter().map(|(_, text)| text).collect(), skipped)
}

/// The summary of a run, finished or not.
pub fn summarize(run: &Run, samples: &[Sample], latencies: &Latencies) -> Summary {
    let reference = reference::summary(samples);
    let samples = &*reference::marked(run, samples, reference.as_ref());
    let mut summary = Summary {
        schema: SCHEMA,
        program: run.program.clone(),
        devices: run.devices.iter().map(|device| describe(device, samples)).collect(),
        partial: run.experiments.iter().any(|experiment| is_partial(run, experiment, samples)),
        placement: run.placement.sentence(),
        reference,
        ..Summary::default()
    };
    let times = || samples.iter().map(|sample| sample.time_unix_ns);
    if let (Some(first), Some(last)) = (times().min(), times().max()) {
        summary.started = words::time_of_day(first);
        summary.duration_s = match run.parts.is_empty() {
            true => (last - first) as f64 / 1e9,
            false => run.parts.iter().map(|part| duration_s(part, samples)).sum(),
        };
    }
    let computed = run.devices.iter().filter(|device| device.about.in_virtual_time);
    let warning = |device: &RunDevice| format!("{} is computed, not measured.", device.name);
    let note = |text| (Severity::Note, text);
    let mut ranked: Vec<RankedWarning> = computed.map(warning).map(note).collect();
    let absent = run.devices.iter().filter_map(absent_warning);
    ranked.extend(absent.map(|text| (Severity::Absent, text)));
    ranked.extend(run.trace.iter().flat_map(trace_warnings).map(note));
    ranked.extend(run.rules.iter().filter_map(unmet_warning).map(note));
    for experiment in &run.experiments {
        let cells = Cells::new(&experiment.name, samples);
        let knees = knees::found(run, experiment, &cells, samples);
        let results = Results { run, experiment, cells, knees, latencies, samples };
        let (mut drawn, warnings) = (draw(&results), warnings(&results));
        let results = Results { cells: results.cells.balanced(), ..results };
        let found = experiment.kind.of().findings(&results);
        if let Some(differs) = beside_published::verdict(&results) {
            drawn.verdict = differs;
        } else if found.iter().all(Finding::is_vague) {
            let reason = match found.is_empty() {
                true => warnings.first().map(|(_, text)| text.clone()).unwrap_or_default(),
                false => findings::VAGUE.to_owned(),
            };
            drawn.verdict = ExperimentVerdict::CannotTell { reason };
        }
        drawn.beside_published = beside_published::sentences(&results);
        summary.experiments.push(drawn);
        ranked.extend(warnings);
        let of = |finding| Finding { experiment: experiment.name.clone(), ..finding };
        summary.findings.extend(found.into_iter().map(of));
    }
    let disagree = agreement::warnings(run, samples).into_iter();
    ranked.extend(disagree.map(|text| (Severity::Wrong, text)));
    (summary.warnings, summary.skipped) = sorted(ranked);
    let compared = variants::compared(run, samples);
    if let Some(side_by_side) = variants::summary(run, &compared, samples) {
        summary.experiments.insert(0, side_by_side);
        summary.findings.splice(0..0, findings::variants::findings(&compared.ratios));
    }
    add_placements(&mut summary, run, samples);
    check_findings(&mut summary);
    if summary.partial {
        let text = "The run was cut short: this is what was finished. Continue with --resume.";
        summary.warnings.insert(0, text.into());
        summary.skipped = summary.skipped.map(|at| at + 1);
    }
    summary
}

/// Adds the hosts of a merged run, side by side.
fn add_placements(summary: &mut Summary, run: &Run, samples: &[Sample]) {
    if !run.parts.is_empty()
        && let Some(side_by_side) = placements::summary(run, samples)
    {
        summary.experiments.insert(0, side_by_side);
        let found = findings::placements::findings(&placements::rows(run, samples));
        summary.findings.splice(0..0, found);
    }
}

/// Marks vague findings as such, and removes links to figures that are not drawn because too little
/// was measured.
fn check_findings(summary: &mut Summary) {
    for finding in summary.findings.iter_mut().filter(|finding| finding.is_vague()) {
        finding.implication = findings::VAGUE.to_owned();
    }
    let figures = summary.experiments.iter().flat_map(|experiment| &experiment.figures);
    let drawn: Vec<&str> = figures.map(|figure| figure.id.as_str()).collect();
    for finding in &mut summary.findings {
        finding.figure = finding.figure.take().filter(|id| drawn.contains(&id.as_str()));
    }
}

/// How long a part of a merged run took, seconds: nothing was measured between the parts.
fn duration_s(part: &RunPart, samples: &[Sample]) -> f64 {
    let of = samples.iter().filter(|sample| part.devices.contains(&sample.device));
    let times = of.map(|sample| sample.time_unix_ns);
    let ends = times.fold(None, |ends: Option<(u64, u64)>, at| {
        let (first, last) = ends.unwrap_or((at, at));
        Some((first.min(at), last.max(at)))
    });
    ends.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9)
}

fn draw(results: &Results<'_>) -> ExperimentSummary {
    let of = results.experiment.kind.of();
    let places = |device: &RunDevice| of.places(&device.about).to_vec();
    let took_part = |device: &RunDevice| {
        let mut own = results.samples.iter().filter(|sample| {
            sample.experiment == results.experiment.name && sample.device == device.name
        });
        own.any(|sample| matches!(sample.outcome, Outcome::Measured | Outcome::Refused { .. }))
    };
    let measured = |device: &&RunDevice| took_part(device) && !places(device).is_empty();
    let testbed = |device: &RunDevice| testbed(&device.name, &places(device));
    let mut figures = of.figures(results);
    let devices: Vec<&str> = results.devices().collect();
    figures.iter_mut().for_each(|figure| colour_by_device(figure, &devices));
    ExperimentSummary {
        name: results.experiment.name.clone(),
        question: results.experiment.question.clone(),
        verdict: ExperimentVerdict::Answered,
        testbeds: results.run.devices.iter().filter(measured).map(testbed).collect(),
        figures,
        tables: of.tables(results).into_iter().chain(stamps::stamped_frames(results)).collect(),
        terms: of.terms().to_owned(),
        beside_published: String::new(),
    }
}

/// Gives the first series of each device the same look in all figures, whatever stands beside it,
/// and what is computed of a series the look of that series. A figure whose series have numbers of
/// their own, such as one for each program, keeps them.
fn colour_by_device(figure: &mut Figure, devices: &[&str]) {
    if figure.series.iter().any(|series| series.hue.is_some()) {
        return;
    }
    let mut series_count = vec![0; devices.len()];
    let mut measured: Vec<(String, u32)> = Vec::new();
    for series in figure.series.iter_mut().filter(|series| series.origin != Origin::Published) {
        let of = measured.iter().find(|(name, _)| series.name.starts_with(&format!("{name}, ")));
        if let (Origin::Computed, Some((_, hue))) = (series.origin, of) {
            series.hue = Some(*hue);
        } else if let Some(at) = devices.iter().position(|device| *device == series.device) {
            let hue = (at + series_count[at] * devices.len()) as u32;
            series.hue = Some(hue);
            series_count[at] += 1;
            measured.push((series.name.clone(), hue));
        }
    }
}

fn testbed(device: &str, places: &[PathNode]) -> TestbedSummary {
    let boxes = places.iter().map(|place| TestbedBox {
        role: place.role.clone(),
        label: place.label.clone(),
        core: place.core,
    });
    TestbedSummary { device: device.to_owned(), boxes: boxes.collect() }
}

fn describe(device: &RunDevice, samples: &[Sample]) -> DeviceSummary {
    let facts = device.about.facts.iter().map(|fact| (fact.name.clone(), fact.value.clone()));
    let about = &device.about;
    let mut not_supported: Vec<String> =
        about.not_supported.iter().map(|capability| about.lack(capability)).collect();
    for sample in samples.iter().filter(|sample| sample.device == device.name) {
        if let Outcome::NotSupported { capability } = &sample.outcome {
            not_supported.push(about.lack(capability));
        }
    }
    not_supported.sort();
    not_supported.dedup();
    DeviceSummary { device: device.name.clone(), facts: facts.collect(), not_supported }
}

/// `true` where a planned trial or a knee that nothing prevented is missing.
fn is_partial(run: &Run, experiment: &ExperimentRun, samples: &[Sample]) -> bool {
    let lacks_something = |(at, device): (usize, &RunDevice)| {
        let known = DeviceSamples::of(experiment, device, samples);
        let trial = |visit: &Visit, at: usize| {
            known.is_missing(&experiment.trials[at], visit.repeat as u32)
        };
        let mut visits = experiment.order.iter().filter(|visit| visit.device == at);
        visits.any(|visit| visit.trials.iter().any(|&at| trial(visit, at)))
            || experiment.knees.iter().any(|knee| search::is_missing(&known, knee))
            || experiment.searches.iter().any(|search| searches::is_missing(&known, search))
    };
    let present = run.devices.iter().enumerate().filter(|(_, device)| device.absent.is_none());
    present.into_iter().any(lacks_something)
}

/// What a reader must know of the data as a whole: what was taken back of the plan, then at most
/// one line a device and kind.
fn warnings(results: &Results<'_>) -> Vec<RankedWarning> {
    let experiment = &results.experiment;
    let plan = experiment.plan_words().into_iter();
    let note = |words: String| (Severity::Note, format!("{}: {words}.", experiment.name));
    let mut warnings: Vec<RankedWarning> = plan.map(note).collect();
    let skipped = |text| (Severity::Skipped, text);
    let untrusted = |text| (Severity::Untrusted, text);
    for device in &results.run.devices {
        if device.absent.is_none() {
            warnings.extend(failure_warning(results, &device.name).map(skipped));
        }
        warnings.extend(lack_warning(results, device).map(skipped));
        warnings.extend(refusal_warning(results, &device.name).map(untrusted));
        warnings.extend(mark_warnings(results, &device.name));
        let contradictions = throughput::contradiction_warning(results, &device.name);
        warnings.extend(contradictions.into_iter().map(|text| (Severity::Wrong, text)));
    }
    warnings.extend(experiment.kind.of().warnings(results).into_iter().map(untrusted));
    warnings
}

/// A device that could not be opened: it is missing from all experiments, and said once.
fn absent_warning(device: &RunDevice) -> Option<String> {
    let reason = device.absent.as_ref()?;
    Some(format!("{}: not measured: {reason}.", device.name))
}

/// Rules that no frame reached.
fn unmet_warning(rules: &RulesFile) -> Option<String> {
    let name = rules.path.file_name().unwrap_or_default().to_string_lossy();
    let unmet = rules.rules_count.saturating_sub(rules.rules_met?);
    let words = words::rules(rules.rules_count.into());
    (unmet > 0).then(|| {
        format!(
            "{name}: the traffic matched {} of its {words} within 0.2 s. The results say nothing \
             about traffic that matches the others.",
            words::whole((rules.rules_count - unmet).into())
        )
    })
}

/// Frames that are not sent as they once were.
fn trace_warnings(trace: &Trace) -> Vec<String> {
    let path = trace.path.display();
    let TraceFrames { frames, frames_padded, .. } = trace.frames;
    let padded = format!(
        "{path}: {} of {} {} too short for Ethernet: niclab pads them with zeros.",
        words::whole(frames_padded.into()),
        words::counted(frames.into(), "frame"),
        words::verb(frames_padded.into(), "is", "are")
    );
    (frames_padded > 0).then_some(padded).into_iter().collect()
}

/// Why trials of the experiment came to nothing.
fn failure_warning(results: &Results<'_>, device: &str) -> Option<String> {
    let experiment = &results.experiment.name;
    let reasons = results.samples.iter().enumerate().filter_map(|(at, s)| match &s.outcome {
        // A device that is gone is gone from all experiments: it is said of the one it left.
        Outcome::Failed { reason, .. }
            if s.device == device
                && s.experiment == *experiment
                && !is_made_good(s, &results.samples[at..]) =>
        {
            Some(reason.as_str())
        }
        _ => None,
    });
    let mut reasons: Vec<&str> = reasons.collect();
    let first = *reasons.first()?;
    reasons.sort_unstable();
    reasons.dedup();
    Some(match reasons.len() - 1 {
        0 => format!("{device}: {experiment}: {first}"),
        1 => format!("{device}: {experiment}: {first} (and 1 other reason: see its samples)"),
        others => {
            format!("{device}: {experiment}: {first} (and {others} other reasons: see its samples)")
        }
    })
}

/// What was asked for and the device lacks, where it had not said so of itself.
fn lack_warning(results: &Results<'_>, device: &RunDevice) -> Option<String> {
    let experiment = &results.experiment.name;
    let of = results
        .samples
        .iter()
        .filter(|sample| sample.device == device.name && sample.experiment == *experiment);
    let mut lacks: Vec<&str> = of
        .filter_map(|sample| match &sample.outcome {
            Outcome::NotSupported { capability } => Some(capability.as_str()),
            _ => None,
        })
        .filter(|capability| !device.about.not_supported.iter().any(|known| known == capability))
        .filter(|lacking| {
            ![ECHO, APPLICATIONS, STREAM].contains(lacking) || !device.about.hosts.is_empty()
        })
        .filter(|lacking| ![PROGRAMS, STORE].contains(lacking))
        .collect();
    lacks.sort_unstable();
    lacks.dedup();
    let reported: Vec<String> = lacks.iter().map(|lacking| device.about.lack(lacking)).collect();
    (!reported.is_empty())
        .then(|| format!("{}: {experiment}: not supported: {}.", device.name, reported.join("; ")))
}

/// Set-ups whose rules did not all find room, where that is not what is asked: points stand at
/// more rules than there are.
fn refusal_warning(results: &Results<'_>, device: &str) -> Option<String> {
    let experiment = &results.experiment;
    if experiment.kind.of().asks_for_refusals() {
        return None;
    }
    let mut of = results.samples.iter().filter(|sample| {
        sample.device == device && sample.experiment == experiment.name && sample.trial == SETUP
    });
    of.find_map(|sample| match &sample.outcome {
        Outcome::Refused { reason, .. } => Some(format!(
            "{device}: {}: a set-up has fewer rules than its points say: {reason}.",
            experiment.name
        )),
        _ => None,
    })
}

/// `true` where one of the `later` samples shows that a resumed run made what had failed: a device
/// that had gone works again, a trial was measured.
fn is_made_good(failed: &Sample, later: &[Sample]) -> bool {
    let has_gone = matches!(failed.outcome, Outcome::Failed { dropped: true, .. });
    // A set-up shows in its trials.
    let is_same = |s: &Sample| {
        let is_trial = (&s.trial, s.repeat) == (&failed.trial, failed.repeat);
        s.point == failed.point && (is_trial || failed.trial == SETUP)
    };
    later
        .iter()
        .filter(|s| (&s.device, &s.experiment) == (&failed.device, &failed.experiment))
        .filter(|s| !matches!(s.outcome, Outcome::Failed { .. }))
        .any(|s| has_gone || is_same(s))
}

/// How many points of the device carry a mark, and which of their figures not to trust.
fn mark_warnings(results: &Results<'_>, device: &str) -> Vec<RankedWarning> {
    let experiment = results.experiment.kind.of();
    let mut kinds: Vec<(&str, Vec<Vec<Mark>>)> = Vec::new();
    for of in experiment.trials() {
        let Some(points) = of.points else { continue };
        let marks = results.cells.of(device, of.trial).map(|cell| marks_of_trial(of, cell));
        match kinds.iter_mut().find(|(known, _)| *known == points) {
            Some((_, all)) => all.extend(marks),
            None => kinds.push((points, marks.collect())),
        }
    }
    // The verb for one point and for several, and the rest.
    let sentences = [
        (Mark::Unbalanced, ["has", "have"], "counters that do not add up: do not trust any figure"),
        (Mark::Disturbed, ["was disturbed:", "were disturbed:"], experiment.disturbed_words()),
        (
            Mark::MachineDrift,
            ["was", "were"],
            "measured while the machine had another speed, as its reference trial shows: do not \
             compare with other points",
        ),
        (
            Mark::GeneratorLimited,
            ["shows", "show"],
            "the generator's limit: read the throughput as \"at least\", and do not trust the \
             latency",
        ),
        (
            Mark::Bimodal,
            ["has", "have"],
            "repeats in two separate groups: do not trust the median, look at the repeats",
        ),
        (
            Mark::FewSamples,
            ["has", "have"],
            "fewer repeats than an interval needs: error bars are the smallest and the largest \
             value",
        ),
        (
            Mark::Drift,
            ["rises or falls", "rise or fall"],
            "steadily over the run: do not compare with other runs",
        ),
    ];
    let worded = |(mark, verbs, text): &(Mark, [&str; 2], &str)| {
        let counts: Vec<(usize, String)> = kinds
            .iter()
            .filter_map(|(kind, of)| {
                let count = of.iter().filter(|marks| marks.contains(mark)).count();
                let all = words::counted(of.len() as f64, &format!("{kind} point"));
                (count > 0).then(|| (count, format!("{count} of {all}")))
            })
            .collect();
        let verb = verbs[usize::from(counts.iter().map(|(count, _)| count).sum::<usize>() > 1)];
        let points: Vec<&str> = counts.iter().map(|(_, words)| words.as_str()).collect();
        let text = format!("{device}: {} {verb} {text}.", points.join(" and "));
        (!counts.is_empty()).then(|| (severity(*mark), text))
    };
    sentences.iter().filter_map(worded).collect()
}

/// How bad it is that points carry a mark.
fn severity(mark: Mark) -> Severity {
    match mark {
        Mark::Unbalanced => Severity::Wrong,
        Mark::GeneratorLimited | Mark::Disturbed | Mark::Bimodal | Mark::MachineDrift => {
            Severity::Untrusted
        }
        Mark::FewSamples | Mark::Drift => Severity::Note,
    }
}

/// What repeats of a cell show by the metrics that its trial is judged by.
fn marks_of_trial(of: &TrialMetrics, cell: &Cell<'_>) -> Vec<Mark> {
    of.judged_by.iter().flat_map(|metric| cell.marks(metric)).collect()
}

/// The metric that a trial is made for.
pub(crate) fn main_metric(trial: &str) -> &'static str {
    let of = experiments::trial(trial);
    of.and_then(|of| of.judged_by.first().copied()).unwrap_or("latency_ns_p50")
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
