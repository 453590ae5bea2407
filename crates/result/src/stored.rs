//! Reading a result directory, finished or cut short.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{
    ENVIRONMENT, Environment, LATENCY, Latencies, RUN, ResultError, SAMPLES, SCHEMA, SUMMARY,
    Sample, Summary, latency,
};

/// What a run has written so far.
#[derive(Debug)]
pub struct Stored {
    /// The directory.
    pub path: PathBuf,
    /// Every finished measurement, in order.
    pub samples: Vec<Sample>,
    /// `true` where the run was killed while it wrote a line; that line is left out.
    pub torn: bool,
    /// Length of `samples.jsonl` without a torn last line, bytes.
    pub(crate) samples_len: u64,
}

impl Stored {
    /// Reads the samples of `path`; refuses a directory of a later version.
    pub fn open(path: &Path) -> Result<Stored, ResultError> {
        if path.exists() && !path.is_dir() {
            return Err(ResultError::NotDirectory { path: path.to_path_buf() });
        }
        if !path.is_dir() {
            return Err(ResultError::Absent { path: path.to_path_buf() });
        }
        check_run(path)?;
        let mut stored =
            Stored { path: path.to_path_buf(), samples: Vec::new(), torn: false, samples_len: 0 };
        for line in Lines::open(path)? {
            match line? {
                Line::Whole(sample, len) => {
                    stored.samples.push(*sample);
                    stored.samples_len += len as u64;
                }
                Line::Torn => stored.torn = true,
            }
        }
        Ok(stored)
    }

    /// The resolved run, as text.
    pub fn run_toml(&self) -> Result<String, ResultError> {
        read_text(&self.path.join(RUN))
    }

    /// The machine of the run.
    pub fn environment(&self) -> Result<Environment, ResultError> {
        read_json(&self.path.join(ENVIRONMENT))
    }

    /// The summary that stands beside the samples.
    pub fn summary(&self) -> Result<Summary, ResultError> {
        read_json(&self.path.join(SUMMARY))
    }

    /// The latency histograms, by [`Sample::latency_tag`].
    pub fn latencies(&self) -> Result<Latencies, ResultError> {
        latency::read(&self.path.join(LATENCY))
    }
}

/// Refuses a directory without a run, or with one of a later version.
fn check_run(directory: &Path) -> Result<(), ResultError> {
    let path = directory.join(RUN);
    if !path.is_file() {
        return Err(ResultError::NotResult { path: directory.to_path_buf(), missing: RUN });
    }
    let text = read_text(&path)?;
    let run: toml::Table = text.parse().map_err(|e: toml::de::Error| ResultError::Damaged {
        path: path.clone(),
        line: line_of(&text, e.span().map_or(0, |s| s.start)),
        reason: e.message().to_string(),
    })?;
    let found = run.get("schema").and_then(toml::Value::as_integer).unwrap_or(0);
    check_schema(&path, u32::try_from(found).unwrap_or(u32::MAX))
}

/// Line of byte `at`, from 1.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&b| b == b'\n').count() + 1
}

fn check_schema(path: &Path, found: u32) -> Result<(), ResultError> {
    if found <= SCHEMA {
        return Ok(());
    }
    let program = path.parent().and_then(program_of);
    let program = program.unwrap_or_else(|| "a newer niclab".into());
    Err(ResultError::Newer { path: path.to_path_buf(), found, program })
}

/// The program that wrote `directory`, as its run says.
fn program_of(directory: &Path) -> Option<String> {
    let run: toml::Table = fs::read_to_string(directory.join(RUN)).ok()?.parse().ok()?;
    Some(format!("{} or newer", run.get("program")?.as_str()?))
}

fn read_text(path: &Path) -> Result<String, ResultError> {
    fs::read_to_string(path).map_err(|e| ResultError::of(path, e))
}

/// What every document has.
#[derive(Deserialize)]
struct Versioned {
    schema: u32,
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ResultError> {
    let text = read_text(path)?;
    parse(path, &text, 1)
}

/// Reads a document, its schema first: a newer one is refused, not misread.
fn parse<T: DeserializeOwned>(path: &Path, text: &str, line: usize) -> Result<T, ResultError> {
    let damaged = |e: serde_json::Error| ResultError::Damaged {
        path: path.to_path_buf(),
        line: line + e.line().saturating_sub(1),
        reason: e.to_string(),
    };
    let versioned: Versioned = serde_json::from_str(text).map_err(damaged)?;
    check_schema(path, versioned.schema)?;
    serde_json::from_str(text).map_err(damaged)
}

/// A line of `samples.jsonl`.
pub(crate) enum Line {
    /// A sample, and the length of its line in bytes.
    Whole(Box<Sample>, usize),
    /// What a killed run left.
    Torn,
}

/// The lines of `samples.jsonl`, one at a time.
pub(crate) struct Lines {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    number: usize,
}

impl Lines {
    pub(crate) fn open(directory: &Path) -> Result<Lines, ResultError> {
        let path = directory.join(SAMPLES);
        // A run without a sample yet is one that begins.
        let reader: Box<dyn BufRead> = match File::open(&path) {
            Ok(file) => Box::new(BufReader::new(file)),
            Err(error) if error.kind() == ErrorKind::NotFound && directory.join(RUN).is_file() => {
                Box::new(io::empty())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let path = directory.to_path_buf();
                return Err(ResultError::NotResult { path, missing: SAMPLES });
            }
            Err(error) => return Err(ResultError::of(&path, error)),
        };
        Ok(Lines { path, reader, number: 0 })
    }
}

impl Iterator for Lines {
    type Item = Result<Line, ResultError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut bytes = Vec::new();
        match self.reader.read_until(b'\n', &mut bytes) {
            Ok(0) => return None,
            Ok(_) => self.number += 1,
            Err(e) => return Some(Err(ResultError::of(&self.path, e))),
        }
        if bytes.last() != Some(&b'\n') {
            return Some(Ok(Line::Torn));
        }
        let text = String::from_utf8_lossy(&bytes);
        let sample = parse(&self.path, text.trim_end(), self.number);
        Some(sample.map(|sample| Line::Whole(Box::new(sample), bytes.len())))
    }
}
