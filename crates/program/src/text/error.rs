//! What is wrong with a program's text: where, and what was expected there.

use std::fmt;

/// Why a program is refused. Its text shows the line with a caret under the word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError(Box<Shown>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    at: At,
    text: String,
    /// Characters of the line before it.
    before: usize,
    problem: Problem,
}

/// Characters of a line that are shown, and those before the word.
const SHOWN_MAX: usize = 100;
const BEFORE_MAX: usize = 60;

/// What is wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Something else has to stand here.
    #[error("expected {expected}, found {}", Found(found))]
    Expected {
        /// What may stand here.
        expected: String,
        /// What stands here; empty at the end of the line.
        found: String,
    },
    /// The assembly has it, or a program could want it; this NIC does not.
    #[error("not supported: {name}")]
    NotSupported {
        /// What it is.
        name: String,
    },
    /// It can be read and makes no program.
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
            word => {
                let shown: String = word.chars().take(SHOWN_MAX).collect();
                let more = if shown.len() < word.len() { "…" } else { "" };
                write!(f, "`{}{more}`", shown.escape_debug())
            }
        }
    }
}

/// A word's place in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct At {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// Characters of the word.
    pub width: usize,
}

/// A problem, before its line is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub at: At,
    pub problem: Problem,
}

impl Wrong {
    pub(crate) fn unfit(at: At, reason: impl Into<String>) -> Wrong {
        Wrong { at, problem: Problem::Unfit { reason: reason.into() } }
    }

    pub(crate) fn not_supported(at: At, name: impl Into<String>) -> Wrong {
        Wrong { at, problem: Problem::NotSupported { name: name.into() } }
    }
}

impl TextError {
    pub(crate) fn new(source: &str, Wrong { at, problem }: Wrong) -> TextError {
        let line = source.lines().nth(at.line.saturating_sub(1)).unwrap_or_default();
        // What stands around the word: a line may have any length.
        let before = at.column.saturating_sub(1 + BEFORE_MAX);
        let shown = line.chars().skip(before).take(SHOWN_MAX);
        // A tab is as wide as anything else to whoever counts columns.
        let text = shown.map(|c| if c == '\t' { ' ' } else { c }).collect();
        TextError(Box::new(Shown { at, text, before, problem }))
    }

    /// Number of the line, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.0.at.line
    }

    /// Number of the first character that is wrong in its line, from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.0.at.column
    }

    /// What is wrong.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.0.problem
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown { at: At { line, column, width }, text, before, problem } = &*self.0;
        writeln!(f, "line {line}, column {column}: {problem}")?;
        writeln!(f, "  {text}")?;
        let indent = column - 1 - before;
        let carets = (*width).clamp(1, SHOWN_MAX - indent);
        write!(f, "  {}{}", " ".repeat(indent), "^".repeat(carets))
    }
}

impl std::error::Error for TextError {}
