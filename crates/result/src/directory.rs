//! Writing a result directory: what is finished is on the disk before the next trial starts.
//!
//! Lines are appended and synced; whole documents are written beside their place and renamed into
//! it, so that a reader never sees half of one. An exclusive lock on `samples.jsonl` keeps a
//! second run out; the system drops it with the process, however that ends. No link is followed
//! out of the directory.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::folder::Folder;
use crate::limits::{
    ENVIRONMENT_LEN_MAX, HISTOGRAM_LEN_MAX, LATENCY_LEN_MAX, RULES_LEN_MAX, RUN_LEN_MAX,
    SAMPLE_LEN_MAX, SAMPLES_LEN_MAX, SUMMARY_LEN_MAX,
};
use crate::stored::Stored;
use crate::{
    ENVIRONMENT, Environment, LATENCY, REPORT, RULES, RUN, ResultError, SAMPLES, SUMMARY, Sample,
    Summary, latency,
};

/// A result directory that this process alone writes.
///
/// Dropping it before [`Directory::write_run`] removes the directory; after that the run can be
/// resumed.
#[derive(Debug)]
pub struct Directory {
    folder: Folder,
    samples: AppendLog,
    latency: AppendLog,
    /// It has its `run.toml`.
    is_begun: bool,
}

/// Something in a directory that a killed run had left unfinished, and that was mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// A torn last line was cut off.
    Cut {
        /// The file.
        path: PathBuf,
        /// Its length, bytes.
        len: u64,
    },
    /// A whole last line got its end.
    Ended {
        /// The file.
        path: PathBuf,
    },
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Repair::Cut { path, len } => {
                write!(f, "{}: cut off a torn last line of {len} B", path.display())
            }
            Repair::Ended { path } => {
                write!(f, "{}: the last line had no line end, and got one", path.display())
            }
        }
    }
}

/// How often a name for a new directory is tried before something else must be wrong.
const FRESH_MAX: u32 = 10_000;

/// Makes a directory that is not there yet, and those above it.
///
/// # Errors
/// [`ResultError::ReadOnly`], [`ResultError::NoRoom`] and those of [`ResultError::of`].
pub(crate) fn make_directory(path: &Path) -> Result<(), ResultError> {
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(|e| ResultError::of(parent, e))?;
    }
    fs::create_dir(path).map_err(|e| match e.kind() {
        // Some places take no new directory and call it missing (/proc).
        io::ErrorKind::NotFound => ResultError::ReadOnly { path: path.to_path_buf() },
        io::ErrorKind::StorageFull => ResultError::NoRoom { path: path.to_path_buf() },
        _ => ResultError::of(path, e),
    })
}

impl Directory {
    /// Makes `path`, and the directories above it that are missing, for a run that begins at this
    /// time since the Unix epoch.
    ///
    /// Refuses a path that exists, and a place that may not be written to.
    ///
    /// # Errors
    /// [`ResultError::Exists`], [`ResultError::NotBegun`] and [`ResultError::Occupied`] for a path
    /// that is taken; [`ResultError::ReadOnly`], [`ResultError::NoRoom`],
    /// [`ResultError::NotDirectory`], [`ResultError::Disk`].
    pub fn create(path: &Path, began: Duration) -> Result<Directory, ResultError> {
        make_directory(path)?;
        Directory::begun_in(path, began).map_err(|error| {
            // Nothing else can be in it yet.
            [SAMPLES, LATENCY].iter().for_each(|name| drop(fs::remove_file(path.join(name))));
            let _ = fs::remove_dir(path);
            of_beginning(error)
        })
    }

    /// Makes a directory in `parent` that was not there before: `name`, or `name-2` and so on.
    ///
    /// # Errors
    /// Those of [`Directory::create`]; that the path is taken only where all names are.
    pub fn create_fresh(
        parent: &Path,
        name: &str,
        began: Duration,
    ) -> Result<Directory, ResultError> {
        let mut last = ResultError::existing(&parent.join(name));
        for number in 1..=FRESH_MAX {
            let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
            let path = parent.join(name);
            let made = Directory::create(&path, began);
            match made {
                Err(error) if error.is_taken() => last = error,
                other => return other,
            }
        }
        Err(last)
    }

    fn begun_in(path: &Path, began: Duration) -> Result<Directory, ResultError> {
        let mut directory = Directory::lock(Folder::open(path)?, false)?;
        // Whoever fails from here on removes the directory himself.
        directory.is_begun = true;
        directory.latency.append(latency::header(began).as_bytes())?;
        directory.is_begun = false;
        Ok(directory)
    }

    /// Opens `path` to go on with it, and returns what is finished and what had to be mended: a
    /// torn last line, as a killed run leaves it, is cut off, and a whole one without an end gets
    /// one.
    ///
    /// # Errors
    /// Those of [`Stored::open`]; [`ResultError::Busy`] while another run writes there,
    /// [`ResultError::Shared`] for a log with another name, [`ResultError::ReadOnly`],
    /// [`ResultError::Full`].
    pub fn resume(path: &Path) -> Result<(Directory, Stored, Vec<Repair>), ResultError> {
        // Looked at before the lock, which makes files that are missing, and read behind it:
        // another run may have ended in between.
        let folder = Folder::open(path)?;
        Stored::of(folder.again()?)?;
        let mut directory = Directory::lock(folder.again()?, true)?;
        let stored = Stored::of(folder)?;
        let log = latency::read(&directory.folder)?;
        let mut repairs = directory.samples.mend(stored.samples_len, stored.is_open)?;
        repairs.extend(directory.latency.mend(log.whole_len, log.is_open)?);
        directory.folder.remove_parts(&[RUN, RULES, ENVIRONMENT, SUMMARY, REPORT])?;
        Ok((directory, stored, repairs))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Whether the directory has the file of this name.
    pub fn has(&self, name: &str) -> bool {
        self.folder.has(name)
    }

    /// Appends one sample and its latency histogram; both are synced when this returns `Ok`.
    ///
    /// The histogram goes first, under the sample's `latency_tag`: a sample that is there has its
    /// histogram. On failure both files are cut back to what they held. A disk so broken that it
    /// refuses even that keeps what it took: [`Directory::resume`] cuts off a torn line, a whole
    /// sample counts as finished, and a histogram without a sample gives way to the next one of
    /// its tag.
    ///
    /// # Errors
    /// [`ResultError::LongLine`] and [`ResultError::Grown`] for more than a reader takes;
    /// [`ResultError::Full`], [`ResultError::Disk`]; [`ResultError::Damaged`] for a value that has
    /// no text.
    pub fn append(
        &mut self,
        sample: &Sample,
        histogram: Option<&Histogram<u64>>,
    ) -> Result<(), ResultError> {
        let mut line = to_json(&self.samples.path, sample, serde_json::to_string)?;
        line.push('\n');
        self.samples.check_room(line.len() as u64, SAMPLE_LEN_MAX, SAMPLES_LEN_MAX)?;
        let latency_len = self.latency.len;
        if let (Some(histogram), Some(tag)) = (histogram, &sample.latency_tag) {
            let start = Duration::from_nanos(sample.time_unix_ns);
            let line = latency::line(tag, (start, measured(sample)), histogram);
            let line = line.map_err(|reason| ResultError::Damaged {
                path: self.latency.path.clone(),
                line: 0,
                reason,
            })?;
            // A log that was missing where the run was gone on with.
            let head = if latency_len == 0 { latency::header(start) } else { String::new() };
            self.latency.check_room(line.len() as u64, HISTOGRAM_LEN_MAX, LATENCY_LEN_MAX)?;
            self.latency.append((head + &line).as_bytes())?;
        }
        let appended = self.samples.append(line.as_bytes());
        if appended.is_err() {
            // Best effort: a histogram without its sample does no harm.
            let _ = self.latency.cut(latency_len);
        }
        appended
    }

    /// Writes the resolved run: from now on the directory stays.
    ///
    /// # Errors
    /// [`ResultError::TooLong`] for more than a reader takes; [`ResultError::NoRoom`] before the
    /// run is written and [`ResultError::Full`] after it; [`ResultError::ReadOnly`],
    /// [`ResultError::Disk`].
    pub fn write_run(&mut self, toml: &str) -> Result<(), ResultError> {
        self.write(RUN, toml.as_bytes(), RUN_LEN_MAX)?;
        self.is_begun = true;
        Ok(())
    }

    /// Writes the rules of a run that has a file of them.
    ///
    /// # Errors
    /// Those of [`Directory::write_run`].
    pub fn write_rules(&self, text: &[u8]) -> Result<(), ResultError> {
        self.write(RULES, text, RULES_LEN_MAX)
    }

    /// Writes what the machine is.
    ///
    /// # Errors
    /// Those of [`Directory::write_run`].
    pub fn write_environment(&self, environment: &Environment) -> Result<(), ResultError> {
        let path = self.folder.place(ENVIRONMENT);
        let text = to_json(&path, environment, serde_json::to_string_pretty)?;
        self.write(ENVIRONMENT, text.as_bytes(), ENVIRONMENT_LEN_MAX)
    }

    fn write(&self, name: &str, bytes: &[u8], len_max: u64) -> Result<(), ResultError> {
        let written = self.folder.write_whole(name, bytes, len_max);
        if self.is_begun { written } else { written.map_err(of_beginning) }
    }

    fn lock(folder: Folder, is_begun: bool) -> Result<Directory, ResultError> {
        let samples = AppendLog::open(&folder, SAMPLES)?;
        locked(folder.path(), samples.file.try_lock())?;
        let latency = AppendLog::open(&folder, LATENCY)?;
        folder.sync()?;
        Ok(Directory { folder, samples, latency, is_begun })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.is_begun {
            let names = [ENVIRONMENT, RULES, RUN, LATENCY, SAMPLES];
            names.iter().for_each(|name| self.folder.remove(name));
            // What cannot be removed stays, and says for itself that it never began.
            let _ = fs::remove_dir(self.folder.path());
        }
    }
}

/// Length of the measured part of a sample's trial, as its load says it.
fn measured(sample: &Sample) -> Duration {
    let of = |load: &serde_json::Value| load.get("duration_ns")?.as_u64();
    let below = || sample.load.as_object()?.values().find_map(of);
    Duration::from_nanos(of(&sample.load).or_else(below).unwrap_or(0))
}

/// An error while a directory is made: there is nothing yet that could be gone on with.
fn of_beginning(error: ResultError) -> ResultError {
    match error {
        ResultError::Full { path } => ResultError::NoRoom { path },
        other => other,
    }
}

fn locked(path: &Path, lock: Result<(), TryLockError>) -> Result<(), ResultError> {
    match lock {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(ResultError::Busy { path: path.to_path_buf() }),
        Err(TryLockError::Error(source)) => Err(ResultError::of(path, source)),
    }
}

/// Writes summary and report into a directory that no other run writes into meanwhile. Nothing else
/// in it is changed.
#[derive(Debug)]
pub struct ReportWriter {
    folder: Folder,
    /// Held as long as this value is there.
    _samples: Option<File>,
}

impl ReportWriter {
    /// That of a directory which the caller has open itself, for reports while it measures.
    ///
    /// # Errors
    /// [`ResultError::Disk`].
    pub fn of(directory: &Directory) -> Result<ReportWriter, ResultError> {
        Ok(ReportWriter { folder: directory.folder.again()?, _samples: None })
    }

    /// Opens `path`.
    ///
    /// # Errors
    /// [`ResultError::Busy`] while a run writes there; [`ResultError::Absent`],
    /// [`ResultError::NotDirectory`], [`ResultError::NotFile`], [`ResultError::Disk`].
    pub fn open(path: &Path) -> Result<ReportWriter, ResultError> {
        let folder = Folder::open(path)?;
        let samples = folder.file(SAMPLES)?;
        if let Some(file) = &samples {
            locked(path, file.try_lock_shared())?;
        }
        Ok(ReportWriter { folder, _samples: samples })
    }

    /// Writes what was computed from the samples.
    ///
    /// # Errors
    /// [`ResultError::TooLong`] for more than a reader takes; [`ResultError::Full`],
    /// [`ResultError::ReadOnly`], [`ResultError::Disk`].
    pub fn write_summary(&self, summary: &Summary) -> Result<(), ResultError> {
        let path = self.folder.place(SUMMARY);
        let text = to_json(&path, summary, serde_json::to_string_pretty)?;
        self.folder.write_whole(SUMMARY, text.as_bytes(), SUMMARY_LEN_MAX)
    }

    /// Writes the report.
    ///
    /// # Errors
    /// [`ResultError::Full`], [`ResultError::ReadOnly`], [`ResultError::Disk`].
    pub fn write_report(&self, html: &str) -> Result<(), ResultError> {
        // Nothing of niclab reads it.
        self.folder.write_whole(REPORT, html.as_bytes(), u64::MAX)
    }
}

/// A file that only grows, by whole lines.
#[derive(Debug)]
struct AppendLog {
    path: PathBuf,
    file: File,
    len: u64,
}

impl AppendLog {
    fn open(folder: &Folder, name: &str) -> Result<AppendLog, ResultError> {
        let (path, file) = (folder.place(name), folder.log(name)?);
        let len = file.metadata().map_err(|e| ResultError::of(&path, e))?.len();
        Ok(AppendLog { path, file, len })
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

    /// Refuses a line that no reader would take: a longer one than that, or one with which the file
    /// would be longer.
    fn check_room(&self, line_len: u64, line_max: u64, len_max: u64) -> Result<(), ResultError> {
        let path = || self.path.clone();
        match (line_len > line_max, self.len + line_len > len_max) {
            (true, _) => Err(ResultError::LongLine { path: path(), len_max: line_max }),
            (_, true) => Err(ResultError::Grown { path: path(), len_max }),
            (false, false) => Ok(()),
        }
    }

    /// Cuts off what comes behind `whole_len`, and ends a last line that has no end.
    fn mend(&mut self, whole_len: u64, is_open: bool) -> Result<Vec<Repair>, ResultError> {
        let mut repairs = Vec::new();
        if let Some(len @ 1..) = self.len.checked_sub(whole_len) {
            self.cut(whole_len)?;
            repairs.push(Repair::Cut { path: self.path.clone(), len });
        }
        if is_open {
            self.append(b"\n")?;
            repairs.push(Repair::Ended { path: self.path.clone() });
        }
        Ok(repairs)
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
            variant: None,
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
