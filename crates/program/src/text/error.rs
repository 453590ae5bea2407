//! A problem in a program's text, before its line is shown.

use niclab_nic::text::{Problem, TextError, visible};

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

/// Shows the line of a problem.
pub(crate) fn show(source: &str, Wrong { at, problem }: Wrong) -> TextError {
    let line = source.lines().nth(at.line.saturating_sub(1)).unwrap_or_default();
    let byte = |characters: usize| {
        line.char_indices().nth(characters).map_or(line.len(), |(byte, _)| byte)
    };
    let first = at.column.saturating_sub(1);
    let place = (byte(first), byte(first + at.width.max(1)));
    TextError::new(at.line as u64, line, place, problem)
}

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
            `mov<U+00A0>m.port`\nmov<U+00A0>m.port 1\n^^^^^^^^^^^^^^^^^";
        assert_eq!(said("mov\u{a0}m.port 1"), no_break);
        // Behind one the caret is where it is shown.
        let behind = "\n\u{3b1}<U+200B>x : mov m.port 1\n^^^^^^^^^^";
        assert!(said("\u{3b1}\u{200b}x : mov m.port 1").ends_with(behind), "{behind}");
        let after = said("A<U> : mov m.\u{200b}port 1");
        assert!(after.ends_with("\n^^^^"), "{after}");
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
        assert!(alike.contains("found `m<U+043E>v`\nm\u{43e}v m.port 1\n"), "{alike}");
        // What can be seen stays as it is.
        assert!(said("mov m.\u{e9}\"'\\port 1").contains("m.\u{e9}\"'\\port 1"));
        let bom = Program::read("\u{feff}struct m_t {").unwrap_err().to_string();
        let said = "line 1, column 1: the file begins with a byte order mark (U+FEFF): remove \
                    it\n<U+FEFF>struct m_t {\n^^^^^^^^";
        assert_eq!(bom, said);
    }
}
