//! `--baseline DIR`: an earlier run that a report compares a run with.
//!
//! It is read whole before anything is measured. Nothing is written to its directory.

use std::path::{Path, PathBuf};

use niclab_lab::baseline::{Baseline, ReadRun, add, shares_trials};
use niclab_lab::compare::{contents, planned as plan, started};
use niclab_lab::run::Run;
use niclab_result::{Latencies, Stored, Summary};

use crate::arguments::RunArguments;
use crate::compare::{Loaded, apart, check_names, load};
use crate::failure::Failure;
use crate::output::{one_line, quoted, say};
use crate::{merge, stored};

/// An earlier run with all that a comparison needs.
pub struct EarlierRun {
    loaded: Loaded,
    /// The directory, as it was given.
    name: String,
    latencies: Latencies,
}

impl EarlierRun {
    fn read(path: &Path) -> Result<EarlierRun, Failure> {
        let loaded = load(path)?;
        let latencies = stored::latencies(&loaded.stored)?;
        Ok(EarlierRun { name: loaded.name(), loaded, latencies })
    }

    /// Its absolute path.
    pub fn path(&self) -> PathBuf {
        self.loaded.path.canonicalize().unwrap_or_else(|_| self.loaded.path.clone())
    }

    /// The line that names it on the terminal.
    pub fn words(&self) -> String {
        let since = started(&self.loaded.stored.samples).unwrap_or_default();
        let program = &self.loaded.run.program;
        one_line(&format!("baseline: {}, {program}, started {since}", self.name))
    }

    fn read_run(&self) -> ReadRun<'_> {
        let Loaded { run, stored, machine, rules, .. } = &self.loaded;
        let (machine, rules) = (machine.as_ref(), rules.as_deref());
        ReadRun { run, samples: &stored.samples, machine, rules }
    }

    /// Refuses a run that will measure nothing that this one has measured.
    pub fn check_plan(&self, planned: &Run) -> Result<(), Failure> {
        if shares_trials(&self.read_run(), planned) {
            return Ok(());
        }
        let devices = self.loaded.devices();
        let measured = devices.iter().flat_map(|device| contents(&self.loaded.made(device).side));
        let has = |devices: &[&str]| format!("devices: {}", devices.join(", "));
        let base = std::iter::once(has(&devices)).chain(measured).collect();
        let devices: Vec<&str> = planned.devices.iter().map(|of| of.name.as_str()).collect();
        let other = std::iter::once(has(&devices)).chain(plan(planned)).collect();
        Err(apart((&self.name, base), ("the run", other)))
    }

    /// Adds what changed since, and the earlier curves, to the summary of a run.
    pub fn add_to(&self, summary: &mut Summary, run: &Run, stored: &Stored) -> Result<(), Failure> {
        let (machine, rules) = (stored.environment()?, stored.rules()?);
        let (machine, rules) = (machine.as_ref(), rules.as_deref());
        let now = ReadRun { run, samples: &stored.samples, machine, rules };
        let (directory, read, latencies) = (&self.name, self.read_run(), &self.latencies);
        add(summary, &now, &Baseline { directory, read, latencies });
        Ok(())
    }
}

/// The baseline of a run that begins. Its results may not lie within it.
pub fn of_new_run(arguments: &RunArguments) -> Result<Option<EarlierRun>, Failure> {
    let Some(path) = &arguments.baseline else { return Ok(None) };
    let earlier = EarlierRun::read(path)?;
    // The directory of a run without --output has the time as its name.
    let output = arguments.output.as_deref().unwrap_or(Path::new("results/DATE-TIME"));
    merge::check_apart(output, std::slice::from_ref(path))?;
    Ok(Some(earlier))
}

/// The baseline of a run that goes on: the one that was typed, else its own. A run whose own cannot
/// be used any more goes on without one.
pub fn of_resumed_run(
    directory: &Path,
    run: &mut Run,
    arguments: &RunArguments,
) -> Result<Option<EarlierRun>, Failure> {
    let Some(path) = arguments.baseline.as_ref().or(run.baseline.as_ref()) else {
        return Ok(None);
    };
    let read = checked(directory, path, run);
    match read {
        Err(failure) if arguments.baseline.is_none() => {
            say(&format!(
                "no comparison with the baseline: {failure}; choose another one with --baseline DIR"
            ));
            Ok(None)
        }
        Err(failure) => Err(failure),
        Ok(earlier) => {
            run.baseline = Some(earlier.path());
            Ok(Some(earlier))
        }
    }
}

/// The baseline of a report that is written anew. Says how to have that of the run, where none was
/// typed: only what was typed is opened.
pub fn of_report(
    directory: &Path,
    run: &Run,
    typed: Option<&Path>,
) -> Result<Option<EarlierRun>, Failure> {
    match (typed, &run.baseline) {
        (Some(path), _) => checked(directory, path, run).map(Some),
        (None, Some(path)) => {
            let [directory, path] = [directory, path].map(|of| quoted(&of.to_string_lossy()));
            say(&format!(
                "the report leaves out the run's baseline; to include it: \
                 niclab report {directory} --baseline {path}"
            ));
            Ok(None)
        }
        (None, None) => Ok(None),
    }
}

/// Reads a baseline that is another directory than that of the run, and has something in common.
fn checked(directory: &Path, path: &Path, run: &Run) -> Result<EarlierRun, Failure> {
    check_names(&[directory.to_path_buf(), path.to_path_buf()])?;
    let earlier = EarlierRun::read(path)?;
    earlier.check_plan(run)?;
    Ok(earlier)
}
