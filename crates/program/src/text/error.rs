//! What is wrong with a program's text: where, and what was expected there.
//!
//! Characters that leave no mark of their own, such as U+00A0 and ESC, are shown by their number,
//! and so are all outside ASCII of a word that was not expected.

use std::fmt;

use niclab_nic::rule::text::{visible, visible_word};

/// Why a program is refused. Its text shows the line with a caret under the word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError(Box<Shown>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    at: At,
    /// What stands around the word.
    text: String,
    /// Columns before the word, and of it, as they are shown.
    indent: usize,
    carets: usize,
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
            word => write!(f, "`{}`", visible_word(word)),
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

/// Refuses a text that begins with a byte order mark.
pub(super) fn check_mark(text: &str) -> Result<(), Wrong> {
    let at = At { line: 1, column: 1, width: 1 };
    match text.starts_with('\u{feff}') {
        true => Err(Wrong::unfit(at, "the file begins with a byte order mark (U+FEFF): remove it")),
        false => Ok(()),
    }
}

impl Wrong {
    pub(crate) fn unfit(at: At, reason: impl Into<String>) -> Wrong {
        Wrong { at, problem: Problem::Unfit { reason: visible(&reason.into()) } }
    }

    pub(crate) fn not_supported(at: At, name: impl Into<String>) -> Wrong {
        Wrong { at, problem: Problem::NotSupported { name: name.into() } }
    }
}

impl TextError {
    pub(crate) fn new(source: &str, Wrong { at, problem }: Wrong) -> TextError {
        let line = source.lines().nth(at.line.saturating_sub(1)).unwrap_or_default();
        // What stands around the word: a line may have any length.
        let first = at.column.saturating_sub(1 + BEFORE_MAX);
        let ahead = at.column.saturating_sub(1 + first);
        let part = |from: usize, count: usize| -> String {
            visible(&line.chars().skip(from).take(count).collect::<String>())
        };
        let indent = part(first, ahead).chars().count();
        let width = at.width.clamp(1, SHOWN_MAX - ahead);
        let carets = part(first + ahead, width).chars().count().max(1);
        let text = part(first, SHOWN_MAX);
        TextError(Box::new(Shown { at, text, indent, carets, problem }))
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
        let Shown { at: At { line, column, .. }, text, indent, carets, problem } = &*self.0;
        writeln!(f, "line {line}, column {column}: {problem}")?;
        writeln!(f, "  {text}")?;
        write!(f, "  {}{}", " ".repeat(*indent), "^".repeat(*carets))
    }
}

impl std::error::Error for TextError {}

#[cfg(test)]
mod tests {
    use crate::Program;

    /// What is said of a program that has this line in `apply`, and of its place.
    fn said(line: &str) -> String {
        let text = format!(
            "struct m_t {{\n bit<32> port\n}}\nmetadata instanceof m_t\napply {{\nrx m.port\n\
             {line}\ntx m.port\n}}"
        );
        Program::read(&text).unwrap_err().to_string()
    }

    #[test]
    fn characters_that_leave_no_mark_are_shown_by_their_number() {
        let no_break = "line 7, column 1: expected an instruction, perhaps `mov`, found \
            `mov<U+00A0>m.port`\n  mov<U+00A0>m.port 1\n  ^^^^^^^^^^^^^^^^^";
        assert_eq!(said("mov\u{a0}m.port 1"), no_break);
        // Behind one the caret is where it is shown.
        let behind = "\n  \u{3b1}<U+200B>x : mov m.port 1\n  ^^^^^^^^^^";
        assert!(said("\u{3b1}\u{200b}x : mov m.port 1").ends_with(behind), "{behind}");
        let after = said("A<U> : mov m.\u{200b}port 1");
        assert!(after.ends_with("\n  ^^^^"), "{after}");
        for (c, shown) in [
            ('\u{1b}', "<U+001B>"),
            ('\u{feff}', "<U+FEFF>"),
            ('\u{200d}', "<U+200D>"),
            ('\u{2028}', "<U+2028>"),
            ('\u{3000}', "<U+3000>"),
            ('\u{202e}', "<U+202E>"),
            ('\u{85}', "<U+0085>"),
            ('\u{7f}', "<U+007F>"),
            ('\0', "<U+0000>"),
            ('\u{ad}', "<U+00AD>"),
            ('\u{301}', "<U+0301>"),
            ('\u{e0041}', "<U+E0041>"),
        ] {
            let said = said(&format!("mov{c}e m.port 1"));
            assert_eq!(said.matches(shown).count(), 2, "{said}");
            assert!(!said.contains(c), "{said}");
        }
        let alike = said("m\u{43e}v m.port 1");
        assert!(alike.contains("found `m<U+043E>v`\n  m\u{43e}v m.port 1\n"), "{alike}");
        // What can be seen stays as it is.
        assert!(said("mov m.\u{e9}\"'\\port 1").contains("m.\u{e9}\"'\\port 1"));
        let bom = Program::read("\u{feff}struct m_t {").unwrap_err().to_string();
        let said = "line 1, column 1: the file begins with a byte order mark (U+FEFF): remove \
                    it\n  <U+FEFF>struct m_t {\n  ^^^^^^^^";
        assert_eq!(bom, said);
    }
}
