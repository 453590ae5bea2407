//! Commands of a file, one after the other.

use std::io::{BufRead, Read};

use super::error::ReadError;
use super::{Parsed, Parser, SavedHeaders, is_blank};

/// Bytes of a line at most; the longest rule of the language takes some 2 kB.
pub const LINE_LEN_MAX: usize = 64 << 10;

/// The commands that a reader contains. Empty lines and comments are skipped.
#[derive(Debug)]
pub struct Commands<R> {
    reader: R,
    parser: Parser,
    buffer: Vec<u8>,
    line: u64,
}

impl<R: BufRead> Commands<R> {
    /// Reads from the start of `reader`.
    pub fn new(reader: R) -> Commands<R> {
        Commands::with(reader, SavedHeaders::default())
    }

    /// Reads with headers that were set before.
    pub(crate) fn with(reader: R, saved_headers: SavedHeaders) -> Commands<R> {
        let parser = Parser { saved_headers, ..Parser::default() };
        Commands { reader, parser, buffer: Vec::new(), line: 0 }
    }

    /// The headers that `set` commands have saved.
    pub(crate) fn into_saved_headers(self) -> SavedHeaders {
        self.parser.saved_headers
    }

    /// The next command; `None` at the end. Reading can go on after a line with an error.
    ///
    /// # Errors
    /// Those of [`Parser::parse`]; a line that is not text or is longer than [`LINE_LEN_MAX`]; an
    /// error of the reader.
    pub fn next_command(&mut self) -> Option<Result<Parsed<'_>, ReadError>> {
        match self.read_line() {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(Err(error)),
        }
        let line = self.line;
        let Ok(text) = str::from_utf8(&self.buffer) else {
            return Some(Err(ReadError::NotText { line }));
        };
        Some(self.parser.parse(line, text).map_err(ReadError::from))
    }

    /// Reads up to a line that is not blank; `false` at the end.
    fn read_line(&mut self) -> Result<bool, ReadError> {
        loop {
            self.buffer.clear();
            self.line += 1;
            let mut limited = self.reader.by_ref().take(LINE_LEN_MAX as u64 + 1);
            if limited.read_until(b'\n', &mut self.buffer)? == 0 {
                return Ok(false);
            }
            if self.buffer.len() > LINE_LEN_MAX {
                return Err(ReadError::TooLong { line: self.line });
            }
            if !str::from_utf8(&self.buffer).is_ok_and(is_blank) {
                return Ok(true);
            }
        }
    }
}
