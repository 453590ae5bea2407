//! `niclab merge`: results from different hosts or places, as one.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use niclab_lab::merge::{Merged, Part, merge};
use niclab_lab::run::Run;
use niclab_result::{Directory, ENVIRONMENT, Environment, ResultError, SCHEMA, Stored};

use crate::arguments::MergeArguments;
use crate::compare::check_names;
use crate::environment::HOST;
use crate::failure::Failure;
use crate::progress::say;
use crate::report;
use crate::run::PROGRAM;

/// Reads all directories, and writes the merged one; where something is wrong, nothing.
pub fn run(arguments: &MergeArguments) -> Result<(), Failure> {
    check_names(&arguments.directories)?;
    check_output(&arguments.output, &arguments.directories)?;
    let loaded: Vec<(Part, Environment)> =
        arguments.directories.iter().map(|path| load(path)).collect::<Result<_, _>>()?;
    let (parts, machines): (Vec<Part>, Vec<Environment>) = loaded.into_iter().unzip();
    let merged = merge(PROGRAM, &parts)?;
    for name in &merged.left_out {
        say(&format!("left out: {name}: it has no round trips; niclab compare is for it"));
    }
    let environment = environment(&parts, &machines);
    let part = beside(&arguments.output);
    let written = write(&part, &merged, &environment).and_then(|()| {
        let moved = fs::rename(&part, &arguments.output);
        moved.map_err(|error| ResultError::of(&arguments.output, error).into())
    });
    if let Err(failure) = written {
        // Best effort: what is wrong is told in any case.
        let _ = fs::remove_dir_all(&part);
        return Err(failure);
    }
    let (summary, _) = report::summary(&Stored::open(&arguments.output)?)?;
    report::announce(&summary, &arguments.output)
}

/// Refuses a place that is taken, and one within a directory that is to stay as it is.
fn check_output(output: &Path, directories: &[PathBuf]) -> Result<(), Failure> {
    let is_empty = output.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    if fs::symlink_metadata(output).is_ok() && !is_empty {
        return Err(ResultError::existing(output).into());
    }
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

/// Where the result is written before it takes its place.
fn beside(output: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(output.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    output.with_file_name(name)
}

fn load(path: &Path) -> Result<(Part, Environment), Failure> {
    let stored = Stored::open(path)?;
    let run = Run::from_toml(&stored.run_toml()?)?;
    let latencies = stored.latencies()?;
    let machine = match path.join(ENVIRONMENT).is_file() {
        true => stored.environment()?,
        false => Environment::default(),
    };
    let host = machine.facts.iter().find(|(name, _)| name == HOST);
    let host = host.map(|(_, value)| value.clone());
    let name = path.display().to_string();
    Ok((Part { name, host, run, samples: stored.samples, latencies }, machine))
}

/// The facts of all machines: once where they are the same, else each by its directory.
fn environment(parts: &[Part], machines: &[Environment]) -> Environment {
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

fn write(path: &Path, merged: &Merged, environment: &Environment) -> Result<(), Failure> {
    let mut directory = Directory::create(path)?;
    directory.write_run(&merged.run.to_toml()?)?;
    directory.write_environment(environment)?;
    for sample in &merged.samples {
        let latency = sample.latency_tag.as_ref().and_then(|tag| merged.latencies.get(tag));
        directory.append(sample, latency)?;
    }
    drop(directory);
    report::write(path)?;
    Ok(())
}
