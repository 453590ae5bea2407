//! The findings of the experiment on occupancy, on rules and groups.

use niclab_result::Finding;

use self::costs::share;
use super::analysis::{flows_common, rate_words};
use crate::cells::{Cell, paired};
use crate::findings::number::{HIGH, Number, comparison};
use crate::findings::{RatioVerdict, told, verdict};
use crate::spec::TrialKind;
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::summary::frames::frame_words;
use crate::words;

mod chains;
mod costs;
mod knees;
mod tables;
mod throughput;

/// The findings of the occupancy experiment, device by device.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let about: [fn(&Subject<'_>) -> Option<Finding>; 15] = [
        tables::full_table,
        chains::chain,
        knees::usable_share,
        knees::capacity,
        maximum,
        throughput::searched,
        knees::usable_share_hit,
        tables::full_table_hit,
        tables::full_group,
        chains::chain_hits,
        latency_p50,
        latency_p99,
        rule_memory,
        tables::matching,
        frame_size,
    ];
    let mut findings = Vec::new();
    for device in results.devices() {
        let subject = Subject { results, device, flows: flows_common(results) };
        findings.extend(about.iter().filter_map(|find| find(&subject)));
    }
    findings
}

/// A device, and where its data are.
pub(crate) struct Subject<'a> {
    results: &'a Results<'a>,
    device: &'a str,
    flows: f64,
}

/// What a finding says.
pub(crate) struct Sentence {
    id: &'static str,
    sentence: String,
    number: Number,
    implication: String,
    figure: Option<String>,
}

impl<'a> Subject<'a> {
    fn finding(&self, said: Sentence) -> Finding {
        let words = (said.sentence, said.implication.as_str());
        told(self.device, said.id.to_owned(), said.number, words, said.figure)
    }

    /// Cells of the sweep over rules: the published case, small frames.
    fn sweep(&self, trial: &'a str, groups: f64) -> Vec<&'a Cell<'a>> {
        let place = [("groups", groups), ("match_percent", 0.0), ("flows", self.flows)];
        let mut cells: Vec<&Cell<'_>> = self
            .results
            .cells
            .of(self.device, trial)
            .filter(|cell| cell.is_at(&place) && cell.word("frame") == self.frame())
            .filter(|cell| !cell.is_refused())
            .collect();
        cells.sort_by(|a, b| f64::total_cmp(&rules(a), &rules(b)));
        cells
    }

    /// Cells whose traffic hits all rules equally often, by rules.
    fn hits(&self, trial: &'a str) -> Vec<&'a Cell<'a>> {
        let cells = self.results.cells.of(self.device, trial).filter(|cell| {
            cell.is_at(&[("match_percent", 100.0)])
                && cell.word("hits") == "rules"
                && cell.word("frame") == self.frame()
                && !cell.is_refused()
        });
        let mut cells: Vec<&Cell<'_>> = cells.collect();
        cells.sort_by(|a, b| f64::total_cmp(&rules(a), &rules(b)));
        cells
    }

    /// 64 B where they were measured, else what was.
    fn frame(&self) -> String {
        let frames = self.results.experiment.trials.iter().filter_map(|t| t.point.get("frame"));
        let mut frames: Vec<String> = frames.map(ToString::to_string).collect();
        frames.sort_by_key(|frame| frame != "64");
        frames.into_iter().next().unwrap_or_default()
    }

    /// The emptiest and the fullest cell of the sweep.
    fn ends(&self, trial: &'a str, groups: f64) -> Option<(&'a Cell<'a>, &'a Cell<'a>)> {
        let cells = self.sweep(trial, groups);
        let (first, last) = (*cells.first()?, *cells.last()?);
        (rules(last) > rules(first)).then_some((first, last))
    }
}

pub(crate) fn rules(cell: &Cell<'_>) -> f64 {
    cell.number("rules").unwrap_or(0.0)
}

pub(crate) fn rules_words(cell: &Cell<'_>) -> String {
    match rules(cell) {
        0.0 => "no rule".into(),
        1.0 => "one rule".into(),
        rules => words::rules(rules),
    }
}

/// Throughput of the emptiest table, or with the rules of a file.
fn maximum(s: &Subject<'_>) -> Option<Finding> {
    let cell = s.sweep("saturate", 0.0).first().copied().filter(|cell| !cell.is_disturbed())?;
    let e = cell.estimate("throughput_pps")?;
    let e = if cell.is_generator_limited() { e.at_least() } else { e };
    let of_file = s.results.run.rules.as_ref();
    let place = match of_file {
        None => rules_words(cell),
        Some(file) => {
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            format!("the {} of {name}, {} flows", words::rules(rules(cell)), words::whole(s.flows))
        }
    };
    let dropped = cell.estimate("dropped_ratio").map_or(0.0, |ratio| ratio.median);
    let (verb, rest) = match dropped > 0.0 {
        false => ("forwards", String::new()),
        true => ("processes", format!(" Rules drop {} of the frames.", words::percent(dropped))),
    };
    let (bound, implication) = if cell.is_generator_limited() {
        (" at least", "The generator was the limit: the device may be faster.")
    } else if of_file.is_some() {
        ("", "Compare it with the throughput of the same traffic without rules.")
    } else {
        ("", "Compare it with the rate of your own traffic.")
    };
    let number = Number::new(&e, "pps");
    Some(s.finding(Sentence {
        id: "maximum",
        sentence: format!(
            "{} {verb}{bound} {number} in {} with {place}{}.{rest}",
            s.device,
            frame_words(&s.frame()),
            words::few(&e)
        ),
        number,
        implication: implication.into(),
        // A file is one set of rules: there is no curve over them.
        figure: of_file.is_none().then(|| figure_of(s, "throughput-group0")).flatten(),
    }))
}

pub(crate) fn figure_of(s: &Subject<'_>, name: &str) -> Option<String> {
    Some(format!("occupancy-{name}-{}", s.frame()))
}

fn latency_p50(s: &Subject<'_>) -> Option<Finding> {
    latency(s, "latency_ns_p50", "latency-p50", "p50 latency")
}

fn latency_p99(s: &Subject<'_>) -> Option<Finding> {
    latency(s, "latency_ns_p99", "latency-p99", "p99 latency")
}

/// Two rates that differ by no more than this share are one.
const SAME_RATE: f64 = 0.01;

/// A table that loses more than this share of the frames does not carry the rate.
const LOSS_MAX: f64 = 0.005;

/// Latency of the full group 0 against the empty one, both at one rate: at shares of their own
/// maxima a slow table is asked for less, and may look fast.
fn latency(s: &Subject<'_>, metric: &str, id: &'static str, words: &str) -> Option<Finding> {
    let (empty, full) = s.ends("latency", 0.0)?;
    if [empty, full].iter().any(|cell| cell.is_generator_limited() || cell.is_disturbed()) {
        return None;
    }
    let [rate, other] = [full, empty].map(|cell| cell.estimate("planned_pps"));
    let (rate, other) = (rate?.median, other?.median);
    if (rate - other).abs() > SAME_RATE * rate.max(other) {
        return None;
    }
    let ratio = paired(full, empty, metric)?;
    let verdict = verdict(&ratio)?;
    let (here, there) = (full.estimate(metric)?, empty.estimate(metric)?);
    // Where the empty table loses as much, the rules are not the cause.
    let [lost, lost_empty] = [full, empty].map(|cell| cell.estimate("loss_ratio"));
    let is_overloaded = lost
        .zip(lost_empty)
        .is_some_and(|(full, empty)| full.low > LOSS_MAX && full.low > empty.high);
    let implication = match verdict {
        _ if is_overloaded => {
            "The full table does not sustain this rate: frames queue and are lost."
        }
        RatioVerdict::NoCost => "The number of rules does not affect the latency.",
        RatioVerdict::Differs if ratio.median > 1.0 => "Include this in a latency budget.",
        RatioVerdict::Differs => "A full table is no slower here.",
    };
    let (number, is_higher) = comparison(&ratio, HIGH);
    Some(s.finding(Sentence {
        id,
        sentence: format!(
            "The {words} of {} with {} in group 0 is {is_higher} with {} ({} instead of {}), at \
             {} ({}){}.",
            s.device,
            rules_words(full),
            rules_words(empty),
            words::time(here.median),
            words::time(there.median),
            words::pps(rate),
            rate_words(s.results, TrialKind::LATENCY),
            words::few(&ratio)
        ),
        number,
        implication: implication.into(),
        figure: Some("occupancy-latency-group0".into()),
    }))
}

/// Memory of a rule, over all set-ups that tell it: few rules share what a table takes before its
/// first one.
fn rule_memory(s: &Subject<'_>) -> Option<Finding> {
    if s.results.run.rules.is_some() {
        // What a file's rules take is no figure of one kind of rule.
        return None;
    }
    let setups = s.results.cells.of(s.device, crate::runner::SETUP);
    let known = setups.filter(|cell| !cell.is_refused());
    let known = known.filter_map(|cell| Some((cell, cell.estimate("rule_bytes_per_rule")?)));
    let mut known: Vec<(&Cell<'_>, Estimate)> = known.collect();
    // Of set-ups with as much for a rule the fullest stands for all.
    known.sort_by(|(a, of_a), (b, of_b)| {
        of_a.median.total_cmp(&of_b.median).then(rules(b).total_cmp(&rules(a)))
    });
    let ((least, low), (most, high)) = (known.first()?, known.last()?);
    let [low_bytes, high_bytes] = [low, high].map(|of| words::significant(of.median));
    let (number, bytes) = match low_bytes == high_bytes {
        true => {
            let number = Number::new(high, "B");
            let installed = rules_words(least);
            let bytes = format!("{number} of memory on {} ({installed} installed)", s.device);
            (number, bytes)
        }
        // The ends of a range over set-ups are no interval of confidence.
        false => (
            Number::known(high.median, "B"),
            format!(
                "{low_bytes} B ({} installed) to {high_bytes} B ({} installed) of memory on {}",
                rules_words(least),
                rules_words(most),
                s.device
            ),
        ),
    };
    Some(s.finding(Sentence {
        id: "rule-memory",
        sentence: format!("A five-tuple rule uses {bytes}."),
        number,
        implication: "Look-ups wait for memory once the tables outgrow the cache.".into(),
        figure: None,
    }))
}

/// Large frames against small ones, frames a second.
fn frame_size(s: &Subject<'_>) -> Option<Finding> {
    let of = |frame: &str| {
        let place = [("groups", 0.0), ("match_percent", 0.0), ("flows", s.flows)];
        let cells = s.results.cells.of(s.device, "saturate");
        let cells = cells.filter(|cell| cell.is_at(&place) && cell.word("frame") == frame);
        cells.min_by(|a, b| f64::total_cmp(&rules(a), &rules(b)))
    };
    let (large, small) = (of("1500")?, of("64")?);
    let (ratio, verdict) = share(large, small).filter(|_| rules(large) == rules(small))?;
    let implication = match verdict {
        RatioVerdict::NoCost => "The cost is per frame: size for small frames.",
        // More long frames than short ones a second is the machine's doing.
        RatioVerdict::Differs if ratio.median > 1.0 => return None,
        RatioVerdict::Differs => {
            "Longer frames cost more: measure with the sizes of your own traffic."
        }
    };
    let number = Number::percent(&ratio);
    Some(s.finding(Sentence {
        id: "frame-size",
        sentence: format!(
            "{} forwards {number} as many 1500 B frames a second as 64 B frames{}.",
            s.device,
            words::few(&ratio)
        ),
        number,
        implication: implication.into(),
        figure: Some("occupancy-throughput-group0-1500".into()),
    }))
}
