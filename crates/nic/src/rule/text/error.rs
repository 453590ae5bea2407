//! What is wrong with a text: where, and what was expected there.

use std::fmt::{self, Write};
use std::io;

use super::visible::{self, Excerpt, Marks};

/// Why a line is refused. Its text shows the line with a caret under the word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError(Box<Place>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    line: u64,
    column: usize,
    excerpt: Excerpt,
    problem: Problem,
}

/// What is wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// testpmd would understand the word; here it is written out.
    #[error("`{word}` is short for `{full}`: write it out")]
    Abbreviated {
        /// The word.
        word: String,
        /// What it may stand for.
        full: &'static str,
    },
    /// Not the language: testpmd refuses it too.
    #[error("expected {expected}, found {}", Found(found))]
    Expected {
        /// What may stand here.
        expected: String,
        /// What stands here; empty at the end of the line.
        found: String,
    },
    /// testpmd knows it, or a card does; this NIC does not.
    #[error("not supported: {name}")]
    NotSupported {
        /// What it is, by the words of the rule.
        name: String,
    },
    /// It can be read and makes no rule.
    #[error("{reason}")]
    Unfit {
        /// Why, and what would do.
        reason: String,
    },
}

struct Found<'a>(&'a str);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => f.write_str("the end of the line"),
            word => write!(f, "`{}`", visible::visible_word(word)),
        }
    }
}

impl TextError {
    /// A problem with `text[start..end]` of a line, counted from 1.
    pub(super) fn new(
        line: u64,
        text: &str,
        (start, end): (usize, usize),
        problem: Problem,
    ) -> Self {
        let column = text[..start].chars().count() + 1;
        let excerpt = Excerpt::new(text, (start, end));
        TextError(Box::new(Place { line, column, excerpt, problem }))
    }

    /// A problem with a text as a whole, which ends in this line.
    pub(crate) fn whole(line: u64, reason: String) -> Self {
        TextError::new(line, "", (0, 0), Problem::Unfit { reason })
    }

    /// The line's number, from 1.
    pub fn line(&self) -> u64 {
        self.0.line
    }

    /// The column of the word's first character, from 1.
    pub fn column(&self) -> usize {
        self.0.column
    }

    /// What is wrong there.
    pub fn problem(&self) -> &Problem {
        &self.0.problem
    }
}

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

impl std::error::Error for TextError {}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column, excerpt, problem } = &*self.0;
        // Whatever of the text stands in it.
        write!(Marks(&mut *f), "line {line}, column {column}: {problem}")?;
        write!(f, "\n{excerpt}")
    }
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
