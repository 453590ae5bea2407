//! `niclab merge`: results from different hosts or places, as one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use niclab_lab::merge::{MergeInput, Merged, merge};
use niclab_result::{Directory, Environment, ResultError, SCHEMA};

use crate::arguments::MergeArguments;
use crate::compare::check_names;
use crate::environment::HOST;
use crate::failure::Failure;
use crate::output::say;
use crate::run::PROGRAM;
use crate::{report, stored};

/// Reads all directories, and writes the merged one; where something is wrong, nothing.
pub fn run(arguments: &MergeArguments) -> Result<(), Failure> {
    check_names(&arguments.directories)?;
    check_output(&arguments.output, &arguments.directories)?;
    let loaded: Vec<(MergeInput, Environment)> =
        arguments.directories.iter().map(|path| load(path)).collect::<Result<_, _>>()?;
    let (parts, machines): (Vec<MergeInput>, Vec<Environment>) = loaded.into_iter().unzip();
    let merged = merge(PROGRAM, &parts)?;
    for name in &merged.left_out {
        say(&format!("left out: {name}: it has no round trips; niclab compare is for it"));
    }
    let environment = environment(&parts, &machines);
    let of_output = |failure| of_writing(&arguments.output, failure);
    let part = beside(&arguments.output, &merged).map_err(of_output)?;
    let path = part.path().to_path_buf();
    let written = write(part, &merged, &environment).and_then(|()| {
        let moved = fs::rename(&path, &arguments.output);
        moved.map_err(|error| ResultError::of(&arguments.output, error).into())
    });
    if let Err(failure) = written {
        // Best effort: the error is reported in any case.
        let _ = fs::remove_dir_all(&path);
        return Err(of_output(failure));
    }
    let summary = report::summary(stored::open(&arguments.output)?)?;
    report::announce(&summary, &arguments.output)
}

/// Refuses a place that is taken, and one within a directory that is to stay as it is.
fn check_output(output: &Path, directories: &[PathBuf]) -> Result<(), Failure> {
    let is_empty = output.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    if fs::symlink_metadata(output).is_ok() && !is_empty {
        return Err(of_writing(output, ResultError::existing(output).into()));
    }
    check_apart(output, directories)
}

/// Refuses a place within one of these directories, which are to stay as they are.
pub fn check_apart(output: &Path, directories: &[PathBuf]) -> Result<(), Failure> {
    let above = output.ancestors().skip(1).find_map(|path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        path.canonicalize().ok()
    });
    let is_in = |of: &&PathBuf| {
        let of = of.canonicalize().ok();
        above.as_ref().zip(of).is_some_and(|(above, of)| above.starts_with(of))
    };
    match directories.iter().find(is_in) {
        None => Ok(()),
        Some(of) => Err(Failure::Within { output: output.to_path_buf(), of: of.clone() }),
    }
}

/// The same failure as a merge has it, which nobody can go on with.
fn of_writing(output: &Path, failure: Failure) -> Failure {
    let path = output.to_path_buf();
    match failure {
        Failure::Result(ResultError::Exists { .. } | ResultError::NotBegun { .. }) => {
            let reason = "exists already: choose another directory with -o";
            Failure::Unwritten { path, reason: reason.to_owned() }
        }
        Failure::Result(ResultError::Full { .. } | ResultError::NoRoom { .. }) => {
            let reason = "has no space left: nothing was written; the parts are unchanged";
            Failure::Unwritten { path, reason: reason.to_owned() }
        }
        other => other,
    }
}

/// Makes the directory that the result is written into before it takes its place: a new one beside
/// it. The histograms' log begins with the earliest sample.
fn beside(output: &Path, merged: &Merged) -> Result<Directory, Failure> {
    let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let parent = output.parent().unwrap_or(Path::new(""));
    let began_ns = merged.samples.iter().map(|sample| sample.time_unix_ns).min();
    let began = Duration::from_nanos(began_ns.unwrap_or_default());
    Ok(Directory::create_fresh(parent, &format!(".{name}.part"), began)?)
}

fn load(path: &Path) -> Result<(MergeInput, Environment), Failure> {
    let stored = stored::open(path)?;
    let run = stored::run(path, &stored.run_toml()?)?;
    let latencies = stored::latencies(&stored)?;
    let machine = stored.environment()?.unwrap_or_default();
    let host = machine.facts.iter().find(|(name, _)| name == HOST);
    let host = host.map(|(_, value)| value.clone());
    let name = path.display().to_string();
    Ok((MergeInput { name, host, run, samples: stored.samples, latencies }, machine))
}

/// The facts of all machines: once where they are the same, else each by its directory.
fn environment(parts: &[MergeInput], machines: &[Environment]) -> Environment {
    let mut all = Environment { schema: SCHEMA, ..Environment::default() };
    let has = |fact: &(String, String)| machines.iter().all(|machine| machine.facts.contains(fact));
    let of_all = || parts.iter().zip(machines);
    if let Some(first) = machines.first() {
        all.facts.extend(first.facts.iter().filter(|fact| has(fact)).cloned());
    }
    for (part, machine) in of_all() {
        let own = machine.facts.iter().filter(|fact| !has(fact));
        let named = own.map(|(name, value)| (format!("{}: {name}", part.name), value.clone()));
        all.facts.extend(named);
        all.noise.extend(machine.noise.iter().map(|noise| format!("{}: {noise}", part.name)));
    }
    all
}

fn write(
    mut directory: Directory,
    merged: &Merged,
    environment: &Environment,
) -> Result<(), Failure> {
    let path = directory.path().to_path_buf();
    directory.write_environment(environment)?;
    directory.write_run(&merged.run.to_toml()?)?;
    for sample in &merged.samples {
        let latency = sample.latency_tag.as_ref().and_then(|tag| merged.latencies.histogram(tag));
        directory.append(sample, latency.as_ref())?;
    }
    drop(directory);
    report::write(&path, None)?;
    Ok(())
}
