//! Reads result directories, and reports omitted samples.

use std::path::Path;

use niclab_lab::run::Run;
use niclab_lab::spec::SpecError;
use niclab_result::{LATENCY, Latencies, RUN, ResultError, Stored};

use crate::failure::Failure;
use crate::output::say;

/// Reads the samples of a directory, which stays as it is.
pub fn open(path: &Path) -> Result<Stored, Failure> {
    let stored = Stored::open(path)?;
    stored.torn.iter().for_each(|torn| say(&torn.to_string()));
    Ok(stored)
}

/// The run of a directory, of its `run.toml`.
///
/// # Errors
/// [`ResultError::Damaged`] where it is none: the directory is wrong then, not what was asked for.
pub fn run(path: &Path, toml: &str) -> Result<Run, Failure> {
    Run::from_toml(toml).map_err(|error| match error {
        SpecError::BadRun { reason } => {
            let path = path.join(RUN);
            Failure::Result(ResultError::BadRun { path, reason: reason.trim_end().to_owned() })
        }
        other => other.into(),
    })
}

/// The latencies of the samples of a directory. Says what of them is left out.
pub fn latencies(stored: &Stored) -> Result<Latencies, Failure> {
    let latencies = stored.latencies()?;
    latencies.torn.iter().for_each(|torn| say(&torn.to_string()));
    let (name, without) = (stored.path.display(), stored.without_histogram(&latencies));
    match without {
        0 => {}
        1 => say(&format!(
            "{name}: 1 sample names a histogram that {LATENCY} does not have: its latency is left \
             out"
        )),
        _ => say(&format!(
            "{name}: {without} samples name a histogram that {LATENCY} does not have: their \
             latency is left out"
        )),
    }
    Ok(latencies)
}
