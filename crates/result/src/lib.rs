//! Result directories: the documents a run writes, appended and synced, read back and resumed.
//!
//! `lab` writes them, `report` and the command line read them, and neither needs the other. This
//! crate knows how a document looks and how it reaches the disk; it knows no device, runs nothing
//! and computes no statistics.
//!
//! ```
//! use std::time::Duration;
//!
//! use niclab_result::{Directory, Stored};
//!
//! let parent = tempfile::tempdir()?;
//! let path = parent.path().join("first");
//! let mut directory = Directory::create(&path, Duration::ZERO)?;
//! directory.write_run("schema = 1\nprogram = \"niclab 0.1.0\"\n")?;
//! drop(directory);
//!
//! let stored = Stored::open(&path)?;
//! assert!(stored.samples.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod baseline;
pub mod conform;
pub mod csv;
pub mod detection;
pub mod digits;
pub mod directory;
pub mod document;
pub mod error;
pub mod fleet;
mod folder;
pub mod latency;
pub mod limits;
mod lines;
pub mod partition;
mod quantity;
pub mod reference;
pub mod rows;
pub mod stored;

pub use baseline::{BASELINE_SCHEMA, BASELINE_SENTENCES_MAX, BaselineSummary, VerdictCounts};
pub use csv::write_csv;
pub use directory::{Directory, Repair, ReportWriter};
pub use document::*;
pub use error::ResultError;
pub use latency::Latencies;
pub use lines::Torn;
pub use reference::{ReferenceSummary, ReferenceTrial};
pub use stored::Stored;

/// One [`Sample`] a line, in the order of measurement.
pub const SAMPLES: &str = "samples.jsonl";
/// The latency histograms of the samples, an HdrHistogram V2 interval log.
pub const LATENCY: &str = "latency.hlog";
/// The run as it was resolved.
pub const RUN: &str = "run.toml";
/// The rules of a run that has a file of them, as the file was.
pub const RULES: &str = "rules.flow";
/// One [`Environment`].
pub const ENVIRONMENT: &str = "environment.json";
/// One [`Summary`].
pub const SUMMARY: &str = "summary.json";
/// The result of `niclab conform`, a [`conform::ConformDocument`].
pub const CONFORM: &str = "conform.json";
/// The report.
pub const REPORT: &str = "report.html";
