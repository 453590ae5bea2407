//! The longest files that are read from a result directory; what a run writes stays far below.
//!
//! A directory may come from anybody. A reader takes no more memory than its files allow it to: a
//! sample at most some thirty times its line, a histogram no more than
//! [`niclab_histogram::COUNTERS_MAX`] counters.

/// `run.toml`: all experiments on their full grids take half a megabyte.
pub const RUN_LEN_MAX: u64 = 16 << 20;
/// `rules.flow`: a million rules take half of this.
pub const RULES_LEN_MAX: u64 = 256 << 20;
/// `environment.json`: a few kilobytes.
pub const ENVIRONMENT_LEN_MAX: u64 = 1 << 20;
/// `summary.json`: figures and tables of all experiments take some megabytes.
pub const SUMMARY_LEN_MAX: u64 = 64 << 20;
/// `samples.jsonl`: a sample takes some four kilobytes, and the longest published run, of 5,471
/// samples, a twelfth of this.
pub const SAMPLES_LEN_MAX: u64 = 256 << 20;
/// A line of it: a search of many trials takes a megabyte.
pub const SAMPLE_LEN_MAX: u64 = 16 << 20;
/// `latency.hlog`: a histogram takes some kilobytes.
pub const LATENCY_LEN_MAX: u64 = 256 << 20;
/// A line of it: every counter of a histogram in use takes a third of this.
pub const HISTOGRAM_LEN_MAX: u64 = 1 << 20;
const _: () = assert!(SAMPLE_LEN_MAX < SAMPLES_LEN_MAX && HISTOGRAM_LEN_MAX < LATENCY_LEN_MAX);
