//! Tuples as lines of JSON: `{"stream": 0, "key": 42, "time_ns": 1500000000}`. Other fields are
//! ignored, a missing stream is stream 0, and empty lines are skipped.

use std::io::{self, BufRead, Read};

use serde::Deserialize;

use super::LocalTuple;
use crate::tuple::TIME_NS_MAX;

/// Bytes of a line at most.
pub const LINE_LEN_MAX: usize = 65_536;

#[derive(Deserialize)]
struct TupleLine {
    #[serde(default)]
    stream: u16,
    key: u64,
    time_ns: u64,
}

/// A line that is no tuple.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The text cannot be read.
    #[error("line {line}: {source}")]
    Read {
        /// Its number, from 1 on.
        line: u64,
        /// Why not.
        source: io::Error,
    },
    /// A line that is too long.
    #[error("line {line}: longer than {LINE_LEN_MAX} bytes; write one tuple on a line")]
    Long {
        /// Its number, from 1 on.
        line: u64,
    },
    /// A line that is no tuple.
    #[error("line {line}: {source}; write {{\"stream\": 0, \"key\": 42, \"time_ns\": 1500}}")]
    Json {
        /// Its number, from 1 on.
        line: u64,
        /// The error, with its place in the line.
        source: serde_json::Error,
    },
    /// An event time that is too late.
    #[error("line {line}: time_ns is {time_ns}; times are below 2^63")]
    Time {
        /// Its number, from 1 on.
        line: u64,
        /// The event time, nanoseconds.
        time_ns: u64,
    },
}

/// Reads tuples line by line.
#[derive(Debug)]
pub struct JsonTuples<R> {
    text: R,
    line: u64,
    bytes: Vec<u8>,
}

impl<R: BufRead> JsonTuples<R> {
    /// Reads from `text`.
    pub fn new(text: R) -> JsonTuples<R> {
        JsonTuples { text, line: 0, bytes: Vec::new() }
    }

    /// The number of the line that was read last, from 1 on.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The tuple of the next line that is not empty; `None` at the end.
    ///
    /// # Errors
    /// [`JsonError`].
    pub fn tuple(&mut self) -> Result<Option<LocalTuple>, JsonError> {
        loop {
            self.line += 1;
            self.bytes.clear();
            let line = self.line;
            let mut most = (&mut self.text).take(LINE_LEN_MAX as u64 + 1);
            let read = most.read_until(b'\n', &mut self.bytes);
            match read.map_err(|source| JsonError::Read { line, source })? {
                0 => return Ok(None),
                len if len > LINE_LEN_MAX => return Err(JsonError::Long { line }),
                _ if self.bytes.trim_ascii().is_empty() => continue,
                _ => {}
            }
            let read: Result<TupleLine, serde_json::Error> = serde_json::from_slice(&self.bytes);
            let TupleLine { stream, key, time_ns } =
                read.map_err(|source| JsonError::Json { line, source })?;
            return match time_ns {
                0..=TIME_NS_MAX => Ok(Some(LocalTuple { stream, key, time_ns })),
                _ => Err(JsonError::Time { line, time_ns }),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<LocalTuple>, String> {
        let mut tuples = JsonTuples::new(text.as_bytes());
        let mut all = Vec::new();
        while let Some(tuple) = tuples.tuple().map_err(|error| error.to_string())? {
            all.push(tuple);
        }
        Ok(all)
    }

    #[test]
    fn lines_are_tuples() {
        let text =
            "{\"key\":1,\"time_ns\":5}\n\n{\"time_ns\":6,\"key\":2,\"stream\":3,\"more\":[]}";
        let expected = [
            LocalTuple { stream: 0, key: 1, time_ns: 5 },
            LocalTuple { stream: 3, key: 2, time_ns: 6 },
        ];
        assert_eq!(read(text).unwrap(), expected);
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let good = "{\"key\":1,\"time_ns\":5}\n";
        let refused = |line: &str| read(&format!("{good}{line}")).unwrap_err();
        assert!(refused("{\"key\":1}").starts_with("line 2: missing field `time_ns`"));
        assert!(refused("{\"key\":-1,\"time_ns\":5}").contains("invalid value"));
        assert!(refused("[1]").starts_with("line 2: "));
        let late = format!("{{\"key\":1,\"time_ns\":{}}}", TIME_NS_MAX + 1);
        assert_eq!(refused(&late), "line 2: time_ns is 9223372036854775808; times are below 2^63");
        let long = " ".repeat(LINE_LEN_MAX + 1);
        assert!(refused(&long).starts_with("line 2: longer than 65536 bytes"));
    }
}
