//! The latency histograms of a run: an HdrHistogram V2 interval log, one tagged line a sample.
//!
//! Any tool that reads `.hlog` files reads it. Times in it are seconds since the Unix epoch, the
//! maximum beside each histogram is in nanoseconds. Where a tag stands twice (a run was killed
//! between the histogram and its sample, and measured that sample again) the later line counts.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2Serializer};

use crate::ResultError;

/// First lines of a log.
pub(crate) const HEADER: &str = "#[niclab latency, ns]\n#[Histogram log format version 1.3]\n\
    #[BaseTime: 0.000 (seconds since epoch)]\n\
    \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";

/// The histograms of a run by the tag of their sample, nanoseconds.
pub type Latencies = BTreeMap<String, Histogram<u64>>;

/// One line of the log.
pub(crate) fn line(
    tag: &str,
    start: Duration,
    histogram: &Histogram<u64>,
) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut serializer = V2Serializer::new();
    let tag = Tag::new(tag).ok_or_else(|| format!("`{tag}` cannot tag a histogram"))?;
    IntervalLogWriterBuilder::new()
        .begin_log_with(&mut bytes, &mut serializer)
        .map_err(|e| e.to_string())?
        .write_histogram(histogram, start, Duration::ZERO, Some(tag))
        .map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// Length of the log without a torn last line.
pub(crate) fn whole_len(path: &Path) -> Result<u64, ResultError> {
    let bytes = fs::read(path).map_err(|e| ResultError::of(path, e))?;
    Ok(whole(&bytes).len() as u64)
}

/// Reads a log; a torn last line is left out.
pub(crate) fn read(path: &Path) -> Result<Latencies, ResultError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Latencies::new()),
        Err(e) => return Err(ResultError::of(path, e)),
    };
    let mut latencies = Latencies::new();
    for (number, line) in whole(&bytes).split_inclusive(|&b| b == b'\n').enumerate() {
        let entry = entry(line).map_err(|reason| ResultError::Damaged {
            path: path.to_path_buf(),
            line: number + 1,
            reason,
        })?;
        latencies.extend(entry);
    }
    Ok(latencies)
}

fn entry(line: &[u8]) -> Result<Option<(String, Histogram<u64>)>, String> {
    if line.starts_with(b"#") || line.starts_with(b"\"") {
        return Ok(None);
    }
    let entry = IntervalLogIterator::new(line).next();
    let Some(Ok(LogEntry::Interval(interval))) = entry else {
        return Err("not a line of a histogram log".into());
    };
    let bytes = base64(interval.encoded_histogram()).ok_or("the histogram is not base64")?;
    let histogram = Deserializer::new().deserialize(&mut bytes.as_slice());
    let histogram = histogram.map_err(|e| format!("the histogram cannot be read: {e}"))?;
    let tag = interval.tag().ok_or("the histogram has no tag")?;
    Ok(Some((tag.as_str().to_string(), histogram)))
}

/// `bytes` up to its last line end.
pub(crate) fn whole(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |i| i + 1);
    &bytes[..end]
}

/// Decodes RFC 4648 §4.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut word, mut bits) = (0u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let six = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        word = word << 6 | u32::from(six);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits) as u8);
            word &= (1 << bits) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_its_histogram_back() {
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        for ns in [1, 77, 1_000, 59_999_999_999] {
            histogram.record(ns).unwrap();
        }
        let line = line("s12", Duration::from_secs(5), &histogram).unwrap();
        assert_eq!(entry(&line).unwrap(), Some(("s12".into(), histogram)));
    }

    #[test]
    fn the_header_holds_no_histogram_and_is_legal() {
        assert!(HEADER.lines().all(|l| entry(l.as_bytes()) == Ok(None)));
        let entries: Vec<_> = IntervalLogIterator::new(HEADER.as_bytes()).collect();
        assert!(entries.iter().all(Result::is_ok), "{entries:?}");
    }

    #[test]
    fn rfc_4648_vectors() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9vYmFy", "foobar")] {
            assert_eq!(base64(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(base64("Zm9*"), None);
    }

    #[test]
    fn damage_is_named() {
        assert!(entry(b"Tag=s1,0.0,0.0,0.0,AAAA\n").unwrap_err().contains("cannot be read"));
        assert!(entry(b"nonsense\n").unwrap_err().contains("not a line"));
    }
}
