//! Whether two runs were made alike: machine, program, device and load.

use niclab_device::DeviceInfo;
use niclab_result::Environment;

use super::ComparedDevice;
use crate::run::{ExperimentRun, PlannedRate, Trial};
use crate::spec::Trace;
use crate::words;

/// Facts of a machine that are others each time one looks.
const FLEETING: [&str; 2] = ["load average", "steal since boot"];

/// The facts about gaps of cores begin with this. They differ in every run, too.
const GAPS: &str = "gaps of core ";

/// Of a longer value the words that differ are reported.
const VALUE_LEN_MAX: usize = 60;

/// A side, and what its directory says of how it was measured.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredSide<'a> {
    /// The side.
    pub side: ComparedDevice<'a>,
    /// The machine, where the directory says it.
    pub machine: Option<&'a Environment>,
    /// The text of its rules, where it has a file of them.
    pub rules: Option<&'a [u8]>,
}

/// What bears on a measurement and differs between two runs, a sentence each: the baseline first.
pub fn differences(base: &MeasuredSide<'_>, other: &MeasuredSide<'_>) -> Vec<String> {
    let mut message = Vec::new();
    message.extend(differs("program", &base.side.run.program, &other.side.run.program));
    match (base.machine, other.machine) {
        (Some(base), Some(other)) => message.extend(of_facts("", &base.facts, &other.facts)),
        (None, None) => {}
        (None, _) => message.push("machine: unknown against that of environment.json".into()),
        (_, None) => message.push("machine: that of environment.json against unknown".into()),
    }
    if base.side.device == other.side.device {
        message.extend(of_devices(&base.side, &other.side));
    }
    message.extend(of_files(base, other));
    let (base, other) = (base.side.run, other.side.run);
    message.extend(differs("seed", &base.seed.to_string(), &other.seed.to_string()));
    for experiment in &base.experiments {
        if let Some(other) = other.experiments.iter().find(|o| o.name == experiment.name) {
            message.extend(of_trials(experiment, other));
        }
    }
    message
}

/// `name: one against the other`; `None` where they are the same.
fn differs(name: &str, base: &str, other: &str) -> Option<String> {
    let is_long = base.len().max(other.len()) > VALUE_LEN_MAX;
    let only = |here: &str, there: &str| {
        let is_new = |word: &&str| !is_long || there.split(' ').all(|known| known != *word);
        let words: Vec<&str> = here.split(' ').filter(is_new).collect();
        if words.is_empty() { "nothing".to_owned() } else { words.join(" ") }
    };
    (base != other).then(|| format!("{name}: {} against {}", only(base, other), only(other, base)))
}

type Facts = [(String, String)];

fn of_facts(whose: &str, base: &Facts, other: &Facts) -> Vec<String> {
    let value = |facts: &Facts, name: &str| {
        facts.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    let mut names: Vec<&String> = base.iter().map(|(name, _)| name).collect();
    names.extend(other.iter().map(|(name, _)| name).filter(|name| value(base, name).is_none()));
    names.retain(|name| !FLEETING.contains(&name.as_str()) && !name.starts_with(GAPS));
    let of = |name: &String| {
        let [base, other] = [base, other].map(|facts| value(facts, name));
        let word = |value: Option<String>| value.unwrap_or_else(none);
        differs(&format!("{whose}{name}"), &word(base), &word(other))
    };
    names.into_iter().filter_map(of).collect()
}

/// What a device of the same name said of itself.
fn of_devices(base: &ComparedDevice<'_>, other: &ComparedDevice<'_>) -> Vec<String> {
    let facts = |side: &ComparedDevice<'_>| {
        let device = side.run.devices.iter().find(|device| device.name == side.device);
        device.map(|device| facts(&device.about)).unwrap_or_default()
    };
    of_facts(&format!("{}, ", base.device), &facts(base), &facts(other))
}

/// Facts of a device, and the cores of what stands around it.
fn facts(about: &DeviceInfo) -> Vec<(String, String)> {
    let facts = about.facts.iter().map(|fact| (fact.name.clone(), fact.value.clone()));
    let cores = about.places.iter().filter_map(|place| Some((&place.role, place.core?)));
    let cores = cores.map(|(role, core)| (format!("core of the {role}"), core.to_string()));
    facts.chain(cores).collect()
}

/// Captures and files of rules: the same text under another name is the same.
fn of_files(base: &MeasuredSide<'_>, other: &MeasuredSide<'_>) -> Vec<String> {
    let mut message = Vec::new();
    let [base_trace, other_trace] = [base, other].map(|made| made.side.run.trace.as_ref());
    if base_trace.map(|trace| &trace.frames) != other_trace.map(|trace| &trace.frames) {
        let word = |trace: Option<&Trace>| {
            trace.map_or_else(none, |trace| {
                let frames = words::whole(trace.frames.frames.into());
                format!("{} ({frames} frames)", trace.path.display())
            })
        };
        message.push(format!("trace: {} against {}", word(base_trace), word(other_trace)));
    }
    if base.rules != other.rules {
        let word = |made: &MeasuredSide<'_>| {
            made.side.run.rules.as_ref().map_or_else(none, |file| {
                format!("{} ({})", file.path.display(), words::rules(file.rules_count.into()))
            })
        };
        message.push(format!("rules: {} against {}", word(base), word(other)));
    }
    message
}

fn none() -> String {
    "none".into()
}

/// Lengths and rates of the trials that both runs make, one sentence a difference.
fn of_trials(base: &ExperimentRun, other: &ExperimentRun) -> Vec<String> {
    let mut message: Vec<String> = Vec::new();
    let whose = base.name.as_str();
    for trial in &base.trials {
        let same = |t: &&Trial| t.kind == trial.kind && t.point == trial.point;
        let Some(there) = other.trials.iter().find(same) else { continue };
        for (name, word) in LOADS {
            let [base, other] = [word(base, trial), word(other, there)];
            message.extend(differs(&format!("{whose}, {name}"), &base, &other));
        }
    }
    message.sort();
    message.dedup();
    message
}

/// What a load has, and its words.
type Of = fn(&ExperimentRun, &Trial) -> String;

const LOADS: [(&str, Of); 4] = [
    ("measured part of a trial", |run, trial| {
        milliseconds(trial.load().and_then(|at| run.loads.get(at)).map(|l| l.duration_ns))
    }),
    ("warm-up of a trial", |run, trial| {
        milliseconds(trial.load().and_then(|at| run.loads.get(at)).map(|l| l.warmup_ns))
    }),
    ("arrivals", |run, trial| {
        let arrivals = trial.load().and_then(|at| run.loads.get(at)).map(|load| load.arrivals);
        arrivals.map_or_else(String::new, |arrivals| format!("{arrivals:?}").to_lowercase())
    }),
    ("rate", |_, trial| match trial.rate {
        PlannedRate::Saturate => "saturating".into(),
        PlannedRate::Pps(pps) => words::pps(pps),
        PlannedRate::Step { low_pps, high_pps } => {
            format!("{}, {} in the middle third", words::pps(low_pps), words::pps(high_pps))
        }
        PlannedRate::ShareOf { share, .. } => words::of_maximum(share),
    }),
];

fn milliseconds(ns: Option<u64>) -> String {
    ns.map_or_else(String::new, |ns| words::time(ns as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn facts_that_differ_are_told_once_and_fleeting_ones_not() {
        let base = facts(&[("cpu", "one"), ("governor", "performance"), ("load average", "1")]);
        let gaps = ("gaps of core 0", "3 gaps");
        let other = facts(&[("cpu", "two"), ("load average", "2"), ("microcode", "0x1"), gaps]);
        let expected = [
            "cpu: one against two",
            "governor: performance against none",
            "microcode: none against 0x1",
        ];
        assert_eq!(of_facts("", &base, &other), expected);
        assert!(of_facts("", &base, &base).is_empty());
    }

    #[test]
    fn only_the_differing_words_of_a_long_value_are_reported() {
        let line =
            |word: &str| format!("quiet panic=1 {word} random.trust_cpu=1 nomodule console=tty0");
        let expected = "kernel: isolcpus=1 against isolcpus=2";
        assert_eq!(differs("kernel", &line("isolcpus=1"), &line("isolcpus=2")).unwrap(), expected);
        let none = differs("kernel", &line("isolcpus=1"), &line("quiet")).unwrap();
        assert_eq!(none, "kernel: isolcpus=1 against nothing");
    }
}
