//! Reading a result directory, finished or cut short.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::folder::Folder;
use crate::limits::{
    ENVIRONMENT_LEN_MAX, RULES_LEN_MAX, RUN_LEN_MAX, SAMPLE_LEN_MAX, SAMPLES_LEN_MAX,
    SUMMARY_LEN_MAX,
};
use crate::lines::{RawLine, RawLines, Torn};
use crate::{
    ENVIRONMENT, Environment, Latencies, RULES, RUN, ResultError, SAMPLES, SCHEMA, SUMMARY, Sample,
    Summary, latency,
};

/// What a run has written so far. Nothing is changed on the disk.
#[derive(Debug)]
pub struct Stored {
    /// The directory.
    pub path: PathBuf,
    /// Every finished measurement, in order.
    pub samples: Vec<Sample>,
    /// The line that a run was writing when it was killed; it is left out.
    pub torn: Option<Torn>,
    /// Length of `samples.jsonl` without a torn last line, bytes.
    pub(crate) samples_len: u64,
    /// The last sample is whole, and its line has no end.
    pub(crate) is_open: bool,
    folder: Folder,
}

impl Stored {
    /// Reads the samples of `path`; refuses a directory of a later version.
    ///
    /// # Errors
    /// [`ResultError::Absent`], [`ResultError::NotDirectory`], [`ResultError::NotResult`] and
    /// [`ResultError::NotBegun`] where there is no run; [`ResultError::NotFile`],
    /// [`ResultError::TooLong`], [`ResultError::Damaged`], [`ResultError::OtherSchema`] for a
    /// document that cannot be used; [`ResultError::Disk`].
    pub fn open(path: &Path) -> Result<Stored, ResultError> {
        Stored::of(Folder::open(path)?)
    }

    /// The same of a directory that is open.
    pub(crate) fn of(folder: Folder) -> Result<Stored, ResultError> {
        check_run(&folder)?;
        let mut lines = Lines::of(&folder)?;
        let mut samples = Vec::new();
        for sample in &mut lines {
            samples.push(sample?);
        }
        let Lines { torn, whole_len: samples_len, is_open, .. } = lines;
        let path = folder.path().to_path_buf();
        Ok(Stored { path, samples, torn, samples_len, is_open, folder })
    }

    /// The resolved run, as text.
    ///
    /// # Errors
    /// [`ResultError::NotBegun`] and [`ResultError::NotResult`] where it is gone;
    /// [`ResultError::NotFile`], [`ResultError::TooLong`], [`ResultError::Damaged`],
    /// [`ResultError::Disk`].
    pub fn run_toml(&self) -> Result<String, ResultError> {
        run_toml(&self.folder)
    }

    /// The rules of a run that has a file of them, as the file was.
    ///
    /// # Errors
    /// [`ResultError::NotFile`], [`ResultError::TooLong`], [`ResultError::Disk`].
    pub fn rules(&self) -> Result<Option<Vec<u8>>, ResultError> {
        self.folder.read(RULES, RULES_LEN_MAX)
    }

    /// The machine of the run, where it says so.
    ///
    /// # Errors
    /// [`ResultError::NotFile`], [`ResultError::TooLong`], [`ResultError::Damaged`],
    /// [`ResultError::OtherSchema`], [`ResultError::Disk`].
    pub fn environment(&self) -> Result<Option<Environment>, ResultError> {
        environment(&self.folder)
    }

    /// The summary that stands beside the samples, if it was computed.
    ///
    /// # Errors
    /// [`ResultError::NotFile`], [`ResultError::TooLong`], [`ResultError::Damaged`],
    /// [`ResultError::OtherSchema`], [`ResultError::Disk`].
    pub fn summary(&self) -> Result<Option<Summary>, ResultError> {
        json(&self.folder, SUMMARY, SUMMARY_LEN_MAX)
    }

    /// The latency histograms, by [`Sample::latency_tag`].
    ///
    /// # Errors
    /// [`ResultError::NotFile`], [`ResultError::TooLong`], [`ResultError::Damaged`],
    /// [`ResultError::Disk`].
    pub fn latencies(&self) -> Result<Latencies, ResultError> {
        latency::read(&self.folder).map(|log| log.latencies)
    }

    /// How many samples name a histogram that is not in `latencies`.
    pub fn without_histogram(&self, latencies: &Latencies) -> usize {
        let tags = self.samples.iter().filter_map(|sample| sample.latency_tag.as_ref());
        tags.filter(|tag| !latencies.has(tag)).count()
    }
}

/// The machine of a run, where its directory says so.
pub(crate) fn environment(folder: &Folder) -> Result<Option<Environment>, ResultError> {
    json(folder, ENVIRONMENT, ENVIRONMENT_LEN_MAX)
}

fn json<T: DeserializeOwned>(
    folder: &Folder,
    name: &str,
    most: u64,
) -> Result<Option<T>, ResultError> {
    let Some(text) = folder.text(name, most)? else { return Ok(None) };
    parse(folder, name, text.as_bytes(), 1).map(Some)
}

pub(crate) fn run_toml(folder: &Folder) -> Result<String, ResultError> {
    let text = folder.text(RUN, RUN_LEN_MAX)?;
    if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
        return Err(ResultError::Empty { path: folder.place(RUN) });
    }
    text.ok_or_else(|| {
        let path = folder.path().to_path_buf();
        match folder.has(SAMPLES) {
            true => ResultError::NotBegun { path },
            false => ResultError::NotResult { path, missing: RUN },
        }
    })
}

/// Refuses a directory without a run, or with one of another schema.
pub(crate) fn check_run(folder: &Folder) -> Result<(), ResultError> {
    let text = run_toml(folder)?;
    let run: toml::Table = text.parse().map_err(|e: toml::de::Error| ResultError::Damaged {
        path: folder.place(RUN),
        line: line_of(&text, e.span().map_or(0, |s| s.start)),
        reason: e.message().to_string(),
    })?;
    let found = run.get("schema").and_then(toml::Value::as_integer).unwrap_or(0);
    check_schema(folder, RUN, u32::try_from(found).unwrap_or(u32::MAX))
}

/// Line of byte `at`, from 1.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&b| b == b'\n').count() + 1
}

fn check_schema(folder: &Folder, name: &str, found: u32) -> Result<(), ResultError> {
    if found == SCHEMA {
        return Ok(());
    }
    let (unknown, more) =
        if found > SCHEMA { ("a newer niclab", " or newer") } else { ("an older niclab", "") };
    let program = program_of(folder).map_or(unknown.into(), |program| program + more);
    Err(ResultError::OtherSchema { path: folder.place(name), found, program })
}

/// The program that wrote the directory, as its run says.
fn program_of(folder: &Folder) -> Option<String> {
    let run: toml::Table = run_toml(folder).ok()?.parse().ok()?;
    Some(run.get("program")?.as_str()?.to_owned())
}

/// What every document has.
#[derive(Deserialize)]
struct Versioned {
    schema: u32,
}

/// Reads a document, its schema first: another one is refused, not misread.
fn parse<T: DeserializeOwned>(
    folder: &Folder,
    name: &str,
    text: &[u8],
    line: usize,
) -> Result<T, ResultError> {
    let damaged = |e: serde_json::Error| ResultError::Damaged {
        path: folder.place(name),
        line: line + e.line().saturating_sub(1),
        reason: e.to_string(),
    };
    let versioned: Versioned = serde_json::from_slice(text).map_err(damaged)?;
    check_schema(folder, name, versioned.schema)?;
    serde_json::from_slice(text).map_err(damaged)
}

/// The samples of `samples.jsonl`, one at a time. A last line that is no whole sample is left out
/// where it has no end: a killed run was writing it.
pub(crate) struct Lines<'a> {
    folder: &'a Folder,
    lines: RawLines,
    /// The line that was left out.
    pub(crate) torn: Option<Torn>,
    /// Length of the lines so far, bytes.
    whole_len: u64,
    /// The last sample is whole, and its line has no end.
    is_open: bool,
}

impl<'a> Lines<'a> {
    pub(crate) fn of(folder: &'a Folder) -> Result<Lines<'a>, ResultError> {
        // A run without a sample yet is one that begins.
        let reader: Box<dyn std::io::BufRead> = match folder.file(SAMPLES)? {
            Some(file) => Box::new(BufReader::new(file)),
            None if folder.has(RUN) => Box::new(std::io::empty()),
            None => {
                let path = folder.path().to_path_buf();
                return Err(ResultError::NotResult { path, missing: SAMPLES });
            }
        };
        let limits = (SAMPLES_LEN_MAX, SAMPLE_LEN_MAX);
        let lines = RawLines::new(folder.place(SAMPLES), reader, limits);
        Ok(Lines { folder, lines, torn: None, whole_len: 0, is_open: false })
    }
}

impl Iterator for Lines<'_> {
    type Item = Result<Sample, ResultError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let RawLine { number, bytes, is_last } = match self.lines.next_line() {
                Ok(line) => line?,
                Err(error) => return Some(Err(error)),
            };
            let (text, is_open) = (bytes.trim_ascii(), !bytes.ends_with(b"\n"));
            if text.is_empty() {
                // An editor's, and no sample.
                self.whole_len += bytes.len() as u64;
                continue;
            }
            match parse(self.folder, SAMPLES, text, number) {
                Err(ResultError::Damaged { .. }) if is_last && is_open => {
                    self.torn = Some(self.lines.torn());
                    return None;
                }
                Err(error) => return Some(Err(error)),
                Ok(sample) => {
                    self.whole_len += bytes.len() as u64;
                    self.is_open = is_open;
                    return Some(Ok(sample));
                }
            }
        }
    }
}
