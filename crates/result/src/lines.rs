//! The lines of a file that only grows, one at a time and none longer than its limit.

use std::fmt;
use std::io::{BufRead, Read};
use std::path::PathBuf;

use niclab_files::size;

use crate::ResultError;

/// The line that a run was writing when it was killed, or is writing now. Readers leave it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Torn { path, line } = self;
        write!(
            f,
            "{}, line {line}: torn, as a killed run leaves it or a running one writes it: left out",
            path.display()
        )
    }
}

/// A line with its end.
pub(crate) struct RawLine<'a> {
    /// From 1.
    pub(crate) number: usize,
    /// The line; only the last one may lack its end.
    pub(crate) bytes: &'a [u8],
    /// Nothing comes behind it.
    pub(crate) is_last: bool,
}

/// The lines.
pub(crate) struct RawLines {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    number: usize,
    line: Vec<u8>,
    /// What may still come, and the longest line, bytes.
    left: u64,
    limits: (u64, u64),
}

impl RawLines {
    /// Reads up to `limits` bytes: of the file, of a line.
    pub(crate) fn new(path: PathBuf, reader: Box<dyn BufRead>, limits: (u64, u64)) -> RawLines {
        RawLines { path, reader, number: 0, line: Vec::new(), left: limits.0, limits }
    }

    /// The next line.
    pub(crate) fn next_line(&mut self) -> Result<Option<RawLine<'_>>, ResultError> {
        let (len_max, line_max) = self.limits;
        self.line.clear();
        let read = (&mut self.reader).take(line_max + 1).read_until(b'\n', &mut self.line);
        let len = read.map_err(|e| ResultError::of(&self.path, e))? as u64;
        if len == 0 {
            return Ok(None);
        }
        self.number += 1;
        if len > line_max {
            let reason = format!("longer than {}, the most that is read of a line", size(line_max));
            return Err(self.damaged(self.number, reason));
        }
        let Some(left) = self.left.checked_sub(len) else {
            return Err(ResultError::TooLong { path: self.path.clone(), len_max });
        };
        self.left = left;
        let rest = self.reader.fill_buf().map_err(|e| ResultError::of(&self.path, e))?;
        let (number, is_last) = (self.number, rest.is_empty());
        Ok(Some(RawLine { number, bytes: &self.line, is_last }))
    }

    /// The line that was read last, where it is torn.
    pub(crate) fn torn(&self) -> Torn {
        Torn { path: self.path.clone(), line: self.number }
    }

    /// What is said of a line that is none.
    pub(crate) fn damaged(&self, line: usize, reason: String) -> ResultError {
        ResultError::Damaged { path: self.path.clone(), line, reason }
    }
}
