//! `niclab compare`: devices, variants or runs side by side, the first one as the baseline.

mod document;
mod github;
mod page;

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use niclab_lab::compare::conditions::MeasuredSide;
use niclab_lab::compare::{
    CompareOptions, ComparedDevice, compare, contents, measured, metrics, pairs,
};
use niclab_lab::run::Run;
use niclab_lab::variants::groups;
use niclab_result::{Environment, Stored};

use crate::arguments::CompareArguments;
use crate::conform::compared;
use crate::failure::Failure;
use crate::output::{json, one_line, stdout};
use crate::{stored, tables};
use document::ComparisonDocument;
use page::Page;

/// Prints what differs, as JSON or as a comment on a pull request where that is asked for; a
/// regression is a failure.
pub fn run(arguments: &CompareArguments) -> Result<(), Failure> {
    check_names(&arguments.directories)?;
    if let Some(documents) = compared::read(&arguments.directories)? {
        return compared::run(arguments, &documents);
    }
    let runs: Vec<Loaded> =
        arguments.directories.iter().map(|path| load(path)).collect::<Result<_, _>>()?;
    let terms =
        CompareOptions { tolerance: arguments.tolerance, metrics: arguments.metric.clone() };
    check_metrics(&terms.metrics, &runs)?;
    let mut compared = Vec::new();
    for pair in paired(&runs)? {
        let comparison = compare(&pair.base.side, &pair.other.side, &terms);
        let lost = comparison.lost(&pair.base.side, &pair.other.side).len();
        if comparison.groups.is_empty() && lost == 0 {
            let [base, other] = [&pair.base, &pair.other].map(|made| contents(&made.side));
            return Err(apart((&pair.base_name, base), (&pair.name, other)));
        }
        compared.push((pair, comparison));
    }
    let (width, alone) = (tables::width(), alone(&runs));
    let page = Page { width, all: arguments.all, tolerance: terms.tolerance, alone };
    let regressions: Vec<String> =
        compared.iter().filter_map(|(pair, found)| page.regression(pair, found)).collect();
    if arguments.json {
        json(&ComparisonDocument::of(&terms, &compared, &page.alone, &regressions))?;
    } else if arguments.github {
        stdout().write_all(github::comment(&page, &compared).as_bytes())?;
    } else {
        page.print(&compared, &mut stdout())?;
    }
    match regressions.is_empty() {
        true => Ok(()),
        false => Err(Failure::Regression { regressions }),
    }
}

/// A run that was read.
pub struct Loaded {
    /// Its directory, as it was given.
    pub path: PathBuf,
    /// The run.
    pub run: Run,
    /// Its samples.
    pub stored: Stored,
    /// The machine, where the directory has it.
    pub machine: Option<Environment>,
    /// The text of its rules, where it has a file of them.
    pub rules: Option<Vec<u8>>,
}

/// Two devices that are compared.
struct Pair<'a> {
    base_name: String,
    base: MeasuredSide<'a>,
    name: String,
    other: MeasuredSide<'a>,
}

/// Refuses a directory that is named twice: a gate would be open for ever.
pub fn check_names(directories: &[PathBuf]) -> Result<(), Failure> {
    let mut seen = HashSet::new();
    let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    match directories.iter().find(|path| !seen.insert(real(path))) {
        Some(twice) => Err(Failure::Twice { name: twice.display().to_string() }),
        None => Ok(()),
    }
}

/// Reads a run that has measured something.
pub fn load(path: &Path) -> Result<Loaded, Failure> {
    let stored = stored::open(path)?;
    let run = stored::run(path, &stored.run_toml()?)?;
    if measured(&run, &stored.samples).is_empty() {
        return Err(Failure::Unmeasured { directory: path.to_path_buf() });
    }
    let (machine, rules) = (stored.environment()?, stored.rules()?);
    Ok(Loaded { path: path.to_path_buf(), run, stored, machine, rules })
}

/// Refuses a metric that no run has, or of which no way is the better one.
fn check_metrics(wanted: &[String], runs: &[Loaded]) -> Result<(), Failure> {
    let mut known = metrics::known(runs.iter().flat_map(|run| &run.stored.samples));
    known.push(metrics::KNEE);
    match wanted.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            let known = known.iter().map(|name| name.to_string()).collect();
            Err(Failure::Metric { name: name.clone(), known })
        }
        None => Ok(()),
    }
}

impl Loaded {
    /// Its directory in words.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Its devices that have measured something.
    pub fn devices(&self) -> Vec<&str> {
        measured(&self.run, &self.stored.samples)
    }

    /// One of its devices, with how it was measured.
    pub fn made<'a>(&'a self, device: &'a str) -> MeasuredSide<'a> {
        let side = ComparedDevice { run: &self.run, samples: &self.stored.samples, device };
        MeasuredSide { side, machine: self.machine.as_ref(), rules: self.rules.as_deref() }
    }
}

/// What is compared with what: of one run its first device with its others, or the first variant of
/// each device with its others; of several runs the first one with each other one.
fn paired(runs: &[Loaded]) -> Result<Vec<Pair<'_>>, Failure> {
    let Some((base, others)) = runs.split_first() else { return Ok(Vec::new()) };
    let devices = base.devices();
    if others.is_empty() {
        return paired_within(base, &devices);
    }
    let mut all = Vec::new();
    for run in others {
        let theirs = run.devices();
        let found = pairs(&devices, &theirs);
        if found.is_empty() {
            let list = |names: &[&str]| vec![format!("devices: {}", names.join(", "))];
            return Err(apart((&base.name(), list(&devices)), (&run.name(), list(&theirs))));
        }
        let many = found.len() > 1;
        let name = |of: &Loaded, device: &str| match many {
            true => format!("{} {device}", of.name()),
            false => of.name(),
        };
        all.extend(found.into_iter().map(|(device, their)| Pair {
            base_name: name(base, device),
            base: base.made(device),
            name: name(run, their),
            other: run.made(their),
        }));
    }
    Ok(all)
}

/// What of one run is compared: within each group the first that measured something with the
/// others. Devices without variants are one group.
fn paired_within<'a>(run: &'a Loaded, devices: &[&'a str]) -> Result<Vec<Pair<'a>>, Failure> {
    let [first, ..] = devices[..] else { return Ok(Vec::new()) };
    let has_measured = |group: Vec<usize>| {
        let names = group.into_iter().map(|at| run.run.devices[at].name.as_str());
        names.filter(|name| devices.contains(name)).collect::<Vec<&str>>()
    };
    let groups = match run.run.devices.iter().any(|device| device.variant.is_some()) {
        true => groups(&run.run.devices).into_iter().map(has_measured).collect(),
        false => vec![devices.to_vec()],
    };
    let mut pairs = Vec::new();
    for group in groups {
        let Some((&base, others)) = group.split_first() else { continue };
        pairs.extend(others.iter().map(|&device| Pair {
            base_name: base.to_owned(),
            base: run.made(base),
            name: device.to_owned(),
            other: run.made(device),
        }));
    }
    match pairs.is_empty() {
        false => Ok(pairs),
        true => Err(Failure::Alone { directory: run.path.clone(), device: first.to_owned() }),
    }
}

/// Devices of the first run or of another that the other of the two has not measured.
fn alone(runs: &[Loaded]) -> Vec<String> {
    let Some((base, others)) = runs.split_first() else { return Vec::new() };
    let mut message = Vec::new();
    for other in others {
        let [ours, theirs] = [base, other].map(Loaded::devices);
        let found = pairs(&ours, &theirs);
        let mut say = |devices: &[&str], has: &Loaded, lacks: &Loaded| {
            let is_alone = |d: &&&str| found.iter().all(|(one, two)| one != *d && two != *d);
            let (has, lacks) = (has.name(), lacks.name());
            let text = |device: &&str| format!("{device} of {has}: {lacks} has not measured it");
            message.extend(devices.iter().filter(is_alone).map(text));
        };
        say(&ours, base, other);
        say(&theirs, other, base);
    }
    message
}

/// Two sides without anything in common.
pub fn apart(base: (&str, Vec<String>), other: (&str, Vec<String>)) -> Failure {
    let has =
        |(name, lines): (&str, Vec<String>)| one_line(&format!("{name} has {}", lines.join("; ")));
    Failure::Apart { base: has(base), other: has(other) }
}
