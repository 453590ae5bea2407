//! Errors in a file of rules.

use std::io;

use crate::text::{Problem, TextError};

/// Refuses a text that begins with a byte order mark.
pub(super) fn check_mark(line: u64, text: &str) -> Result<(), TextError> {
    const REASON: &str = "the file begins with a byte order mark (U+FEFF): remove it";
    if line > 1 || !text.starts_with('\u{feff}') {
        return Ok(());
    }
    let first = text.lines().next().unwrap_or_default();
    let first: String = first.chars().take(super::LINE_LEN_MAX).collect();
    let problem = Problem::Unfit { reason: REASON.to_owned() };
    Err(TextError::new(line, &first, (0, '\u{feff}'.len_utf8()), problem))
}

/// Why a file of rules cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file itself.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A line is no text.
    #[error("line {line}: not UTF-8; a file of rules or a program is plain text")]
    NotText {
        /// Which, from 1.
        line: u64,
    },
    /// A line is wrong.
    #[error("{0}")]
    Text(#[from] TextError),
    /// A line has no end.
    #[error("line {line}: longer than {} bytes; write one command a line", super::LINE_LEN_MAX)]
    TooLong {
        /// Which, from 1.
        line: u64,
    },
}
