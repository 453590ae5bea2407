//! An error in a text: its place, and the words that are expected there.

use std::fmt::{self, Write};

use super::visible::{self, Excerpt, Marks};

/// A problem at a place of a text. It is displayed with the line, and a caret under the word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError(Box<ErrorPlace>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ErrorPlace {
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
    /// The text is not of the language: testpmd or SWX refuses it too.
    #[error("expected {expected}, found {}", Found(found))]
    Expected {
        /// What may stand here.
        expected: String,
        /// What stands here; empty at the end of the line.
        found: String,
    },
    /// Others have it, such as testpmd, SWX or a card. This NIC does not.
    #[error("not supported: {name}")]
    NotSupported {
        /// Its name in the text.
        name: String,
    },
    /// The text can be read, but no rule or program can be made of it.
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
    /// A problem with `text[start..end]`, where `text` is a line whose number is counted from 1.
    ///
    /// # Panics
    /// If `start` is not a boundary of characters within the text.
    pub fn new(line: u64, text: &str, (start, end): (usize, usize), problem: Problem) -> Self {
        let column = text[..start].chars().count() + 1;
        let excerpt = Excerpt::new(text, (start, end));
        TextError(Box::new(ErrorPlace { line, column, excerpt, problem }))
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

impl std::error::Error for TextError {}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorPlace { line, column, excerpt, problem } = &*self.0;
        // Whatever of the text stands in it.
        write!(Marks(&mut *f), "line {line}, column {column}: {problem}")?;
        write!(f, "\n{excerpt}")
    }
}
