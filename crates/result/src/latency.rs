//! The latency histograms of a run: an HdrHistogram V2 interval log, one tagged line a sample.
//!
//! Every tool that reads such logs reads it: the payload is compressed (cookie 0x1c849314), as all
//! writers but Rust's have it (HdrHistogram's `HistogramLogWriter` and ENCODING). Times are
//! seconds since the Unix epoch, the maximum beside each histogram is in milliseconds. Where a tag
//! stands twice (a run was killed between the histogram and its sample, and measured that sample
//! again) the later line counts.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry, Tag};
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use niclab_histogram::packed;

use crate::folder::Folder;
use crate::limits::{HISTOGRAM_LEN_MAX, LATENCY_LEN_MAX};
use crate::lines::{RawLine, RawLines, Torn};
use crate::{LATENCY, ResultError};

/// Nanoseconds per unit of the log's maximum column, which is in milliseconds.
const MAX_DIVISOR: f64 = 1e6;

/// First lines of the log of a run that begins at this time since the Unix epoch. Readers leave
/// out what began before the start that the log names.
pub(crate) fn header(began: Duration) -> String {
    let began_s = began.as_secs_f64();
    format!(
        "#[niclab latency, ns]\n#[Histogram log format version 1.3]\n\
         #[StartTime: {began_s:.3} (seconds since epoch)]\n\
         #[BaseTime: 0.000 (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\
         \"Interval_Compressed_Histogram\"\n"
    )
}

/// The histograms of a run by the tag of their sample, nanoseconds.
///
/// Those of a file are kept as they stand there, and unpacked one by one: a histogram has 28
/// thousand counters, most of which are zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    kept: BTreeMap<String, StoredHistogram>,
    /// The line of their file that a killed run was writing; it is left out.
    pub torn: Option<Torn>,
}

#[derive(Clone, Debug, PartialEq)]
enum StoredHistogram {
    Histogram(Box<Histogram<u64>>),
    /// Was unpacked once already, when it was read.
    Packed(Vec<u8>),
}

impl Latencies {
    /// None.
    pub fn new() -> Latencies {
        Latencies::default()
    }

    /// Keeps a histogram under its tag.
    pub fn insert(&mut self, tag: String, histogram: Histogram<u64>) {
        self.kept.insert(tag, StoredHistogram::Histogram(Box::new(histogram)));
    }

    /// The histogram of a tag.
    pub fn histogram(&self, tag: &str) -> Option<Histogram<u64>> {
        match self.kept.get(tag)? {
            StoredHistogram::Histogram(histogram) => Some((**histogram).clone()),
            StoredHistogram::Packed(bytes) => packed(bytes).ok(),
        }
    }

    /// Whether there is a histogram of this tag.
    pub fn has(&self, tag: &str) -> bool {
        self.kept.contains_key(tag)
    }

    /// The tags, in order.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.kept.keys().map(String::as_str)
    }
}

/// One line of the log: of a measured part of `length` of a trial that began at `start`.
pub(crate) fn line(
    tag: &str,
    (start, length): (Duration, Duration),
    histogram: &Histogram<u64>,
) -> Result<String, String> {
    let tag = Tag::new(tag).ok_or_else(|| format!("`{tag}` cannot tag a histogram"))?;
    let mut bytes = Vec::new();
    let packed = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    packed.map_err(|error| error.to_string())?;
    let (start_s, length_s) = (start.as_secs_f64(), length.as_secs_f64());
    let max_ms = histogram.max() as f64 / MAX_DIVISOR;
    let text = STANDARD.encode(bytes);
    Ok(format!("Tag={},{start_s:.3},{length_s:.3},{max_ms:.3},{text}\n", tag.as_str()))
}

/// A log as far as it is whole.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Its histograms.
    pub(crate) latencies: Latencies,
    /// Its length without a torn last line, bytes.
    pub(crate) whole_len: u64,
    /// Its last line is whole and has no line end.
    pub(crate) is_open: bool,
}

/// Reads the log of a directory, which may be missing.
pub(crate) fn read(folder: &Folder) -> Result<Log, ResultError> {
    let mut log = Log::default();
    let Some(file) = folder.file(LATENCY)? else { return Ok(log) };
    let limits = (LATENCY_LEN_MAX, HISTOGRAM_LEN_MAX);
    let mut lines = RawLines::new(folder.place(LATENCY), Box::new(BufReader::new(file)), limits);
    while let Some(RawLine { number, bytes, is_last }) = lines.next_line()? {
        let has_end = bytes.ends_with(b"\n");
        match entry(bytes) {
            Ok(entry) => {
                log.latencies
                    .kept
                    .extend(entry.map(|(tag, bytes)| (tag, StoredHistogram::Packed(bytes))));
                log.whole_len += bytes.len() as u64;
                log.is_open = !has_end;
            }
            Err(_) if is_last && !has_end => {
                log.latencies.torn = Some(lines.torn());
            }
            Err(reason) => return Err(lines.damaged(number, reason)),
        }
    }
    Ok(log)
}

/// Tag and packed histogram of a line; `None` of a head line or an empty one.
fn entry(line: &[u8]) -> Result<Option<(String, Vec<u8>)>, String> {
    let line = line.trim_ascii_end();
    if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"\"") {
        return Ok(None);
    }
    let line = [line, b"\n"].concat();
    let entry = IntervalLogIterator::new(&line).next();
    let Some(Ok(LogEntry::Interval(interval))) = entry else {
        return Err("not a line of a histogram log".into());
    };
    let bytes = STANDARD.decode(interval.encoded_histogram());
    let bytes = bytes.map_err(|_| "the histogram is not base64")?;
    packed(&bytes).map_err(|error| error.to_string())?;
    let tag = interval.tag().ok_or("the histogram has no tag")?;
    Ok(Some((tag.as_str().to_string(), bytes)))
}

#[cfg(test)]
#[path = "latency_tests.rs"]
mod tests;
