//! Writing a result directory: what is finished is on the disk before the next trial starts.
//!
//! Lines are appended and synced; whole documents are written beside their place and renamed into
//! it, so that a reader never sees half of one. An exclusive lock on `samples.jsonl` keeps a second
//! run out; the system drops it with the process, however that ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::stored::Stored;
use crate::{
    ENVIRONMENT, Environment, LATENCY, REPORT, RULES, RUN, ResultError, SAMPLES, SUMMARY, Sample,
    Summary, latency,
};

/// A result directory that this process alone writes.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    samples: Log,
    latency: Log,
}

impl Directory {
    /// Makes `path`, and the directories above it that are missing.
    ///
    /// Refuses a path that exists, and a place that may not be written to.
    pub fn create(path: &Path) -> Result<Directory, ResultError> {
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(|e| ResultError::of(parent, e))?;
        }
        fs::create_dir(path).map_err(|e| match e.kind() {
            // Some places take no new directory and call it missing (/proc).
            io::ErrorKind::NotFound => ResultError::ReadOnly { path: path.to_path_buf() },
            _ => ResultError::of(path, e),
        })?;
        let mut directory = Directory::lock(path)?;
        directory.latency.append(latency::HEADER.as_bytes())?;
        Ok(directory)
    }

    /// Opens `path` to go on with it, and returns what is finished.
    ///
    /// A torn last line, as a killed run leaves it, is cut off.
    pub fn resume(path: &Path) -> Result<(Directory, Stored), ResultError> {
        // Looked at before the lock, which makes files that are missing, and read behind it:
        // another run may have ended in between.
        Stored::open(path)?;
        let mut directory = Directory::lock(path)?;
        let stored = Stored::open(path)?;
        directory.samples.cut(stored.samples_len)?;
        let whole = latency::whole_len(&directory.latency.path)?;
        directory.latency.cut(whole)?;
        if directory.latency.len == 0 {
            directory.latency.append(latency::HEADER.as_bytes())?;
        }
        for name in [RUN, RULES, ENVIRONMENT, SUMMARY, REPORT] {
            // A leaving of a killed run; where there is none there is nothing to do.
            let _ = fs::remove_file(beside(path, name));
        }
        Ok((directory, stored))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one sample and its latency histogram; both are synced when this returns `Ok`.
    ///
    /// The histogram goes first, under the sample's `latency_tag`: a sample that is there has its
    /// histogram. On failure both files are cut back to what they held. A disk so broken that it
    /// refuses even that keeps what it took: [`Directory::resume`] cuts off a torn line, a whole
    /// sample counts as finished, and a histogram without a sample gives way to the next one of its
    /// tag.
    pub fn append(
        &mut self,
        sample: &Sample,
        histogram: Option<&Histogram<u64>>,
    ) -> Result<(), ResultError> {
        let mut line = to_json(&self.samples.path, sample, serde_json::to_string)?;
        line.push('\n');
        let latency_len = self.latency.len;
        if let (Some(histogram), Some(tag)) = (histogram, &sample.latency_tag) {
            let start = Duration::from_nanos(sample.time_unix_ns);
            let line = latency::line(tag, start, histogram).map_err(|reason| {
                ResultError::Damaged { path: self.latency.path.clone(), line: 0, reason }
            })?;
            self.latency.append(&line)?;
        }
        let appended = self.samples.append(line.as_bytes());
        if appended.is_err() {
            // Best effort: a histogram without its sample does no harm.
            let _ = self.latency.cut(latency_len);
        }
        appended
    }

    /// Writes the resolved run.
    pub fn write_run(&self, toml: &str) -> Result<(), ResultError> {
        write_whole(&self.path, RUN, toml.as_bytes())
    }

    /// Writes the rules of a run that has a file of them.
    pub fn write_rules(&self, text: &[u8]) -> Result<(), ResultError> {
        write_whole(&self.path, RULES, text)
    }

    /// Writes what the machine is.
    pub fn write_environment(&self, environment: &Environment) -> Result<(), ResultError> {
        let path = self.path.join(ENVIRONMENT);
        let text = to_json(&path, environment, serde_json::to_string_pretty)?;
        write_whole(&self.path, ENVIRONMENT, text.as_bytes())
    }

    /// Writes what was computed from the samples.
    pub fn write_summary(&self, summary: &Summary) -> Result<(), ResultError> {
        let path = self.path.join(SUMMARY);
        let text = to_json(&path, summary, serde_json::to_string_pretty)?;
        write_whole(&self.path, SUMMARY, text.as_bytes())
    }

    /// Writes the report.
    pub fn write_report(&self, html: &str) -> Result<(), ResultError> {
        write_whole(&self.path, REPORT, html.as_bytes())
    }

    fn lock(path: &Path) -> Result<Directory, ResultError> {
        let samples = Log::open(path.join(SAMPLES))?;
        match samples.file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(ResultError::Busy { path: path.to_path_buf() });
            }
            Err(TryLockError::Error(source)) => return Err(ResultError::of(path, source)),
        }
        let latency = Log::open(path.join(LATENCY))?;
        sync_directory(path)?;
        Ok(Directory { path: path.to_path_buf(), samples, latency })
    }
}

/// A file that only grows, by whole lines.
#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: File,
    len: u64,
}

impl Log {
    fn open(path: PathBuf) -> Result<Log, ResultError> {
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let file = file.map_err(|e| ResultError::of(&path, e))?;
        let len = file.metadata().map_err(|e| ResultError::of(&path, e))?.len();
        Ok(Log { path, file, len })
    }

    /// Writes `line` and waits until it is on the disk; takes a part of it back on failure.
    fn append(&mut self, line: &[u8]) -> Result<(), ResultError> {
        let written = self.file.write_all(line).and_then(|()| self.file.sync_data());
        if let Err(source) = written {
            // Best effort: what is left where even this fails stands with `Directory::append`.
            let _ = self.file.set_len(self.len);
            return Err(ResultError::of(&self.path, source));
        }
        self.len += line.len() as u64;
        Ok(())
    }

    fn cut(&mut self, len: u64) -> Result<(), ResultError> {
        if len == self.len {
            return Ok(());
        }
        let cut = self.file.set_len(len).and_then(|()| self.file.sync_data());
        cut.map_err(|e| ResultError::of(&self.path, e))?;
        self.len = len;
        Ok(())
    }
}

fn to_json<T>(
    path: &Path,
    document: &T,
    write: impl Fn(&T) -> serde_json::Result<String>,
) -> Result<String, ResultError> {
    write(document).map_err(|e| ResultError::Damaged {
        path: path.to_path_buf(),
        line: 0,
        reason: e.to_string(),
    })
}

/// Where a document is written before it takes its place.
fn beside(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!(".{name}.part"))
}

/// Writes `name` so that a reader sees the old document or the new one, never a part.
fn write_whole(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), ResultError> {
    let (part, place) = (beside(directory, name), directory.join(name));
    let write = || {
        let mut file = File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, &place)
    };
    write().map_err(|e| {
        let _ = fs::remove_file(&part);
        ResultError::of(&place, e)
    })?;
    sync_directory(directory)
}

fn sync_directory(path: &Path) -> Result<(), ResultError> {
    let sync = File::open(path).and_then(|directory| directory.sync_all());
    sync.map_err(|e| ResultError::of(path, e))
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;

#[cfg(test)]
pub(crate) mod tests_support {
    use crate::{Outcome, SCHEMA, Sample};

    /// A measured sample without metrics.
    pub(crate) fn sample(order: u64) -> Sample {
        Sample {
            schema: SCHEMA,
            order,
            time_unix_ns: 1_000 + order,
            experiment: "occupancy".into(),
            device: "soft".into(),
            point: Default::default(),
            trial: "saturate".into(),
            repeat: 0,
            outcome: Outcome::Measured,
            metrics: Default::default(),
            marks: Vec::new(),
            load: Default::default(),
            counters: Default::default(),
            honesty: Default::default(),
            slices: Default::default(),
            control: Default::default(),
            search: Default::default(),
            latency_tag: None,
        }
    }
}
