//! The words of a program's text, line by line.
//!
//! Words are parted by white space; a word that begins with `;`, `#` or `//` ends its line, as in
//! DPDK's reader. Lines without words are left out.

use super::error::{At, Problem, Wrong};

/// A word, where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    pub text: &'a str,
    pub at: At,
}

/// A line's words; at least one.
#[derive(Clone, Debug)]
pub(super) struct Line<'a> {
    pub words: Vec<Word<'a>>,
    /// Where the next word would stand.
    end: At,
}

impl<'a> Word<'a> {
    /// That something else has to stand here.
    pub(super) fn expected(self, what: impl Into<String>) -> Wrong {
        let problem = Problem::Expected { expected: what.into(), found: self.text.to_owned() };
        Wrong { at: self.at, problem }
    }

    pub(super) fn unfit(self, reason: impl Into<String>) -> Wrong {
        Wrong::unfit(self.at, reason)
    }

    /// A number, written as in C: decimal, `0x` or, behind a zero, octal.
    pub(super) fn number(self) -> Result<u64, Wrong> {
        let number = match self.text.strip_prefix("0x").or(self.text.strip_prefix("0X")) {
            Some(hex) => plain(hex, 16),
            None => match self.text.strip_prefix('0') {
                Some(octal) if !octal.is_empty() => plain(octal, 8),
                _ => plain(self.text, 10),
            },
        };
        number.ok_or_else(|| self.expected("a number below 2^64, as 20, 0x14 or 024"))
    }

    /// A number from `min` to `max`, of something.
    pub(super) fn number_in(self, what: &str, min: u64, max: u64) -> Result<u64, Wrong> {
        match self.number()? {
            number if (min..=max).contains(&number) => Ok(number),
            _ => Err(self.expected(format!("{what} from {min} to {max}"))),
        }
    }

    /// A name that something is given.
    pub(super) fn name(self) -> Result<&'a str, Wrong> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '-';
        match self.text.chars().all(is_part) && self.text.len() <= NAME_LEN_MAX {
            true if !self.text.is_empty() => Ok(self.text),
            _ => {
                let what = format!("a name of at most {NAME_LEN_MAX} letters, digits, _, . and -");
                Err(self.expected(what))
            }
        }
    }
}

/// Longer than any that a compiler gives: DPDK's limit is 64.
const NAME_LEN_MAX: usize = 128;

/// A number without sign or anything else that Rust would allow.
fn plain(digits: &str, radix: u32) -> Option<u64> {
    let all = digits.chars().all(|c| c.is_digit(radix));
    u64::from_str_radix(digits, radix).ok().filter(|_| all)
}

impl<'a> Line<'a> {
    /// The word of this number, or none at the end of the line.
    pub(super) fn at(&self, index: usize) -> Word<'a> {
        self.words.get(index).copied().unwrap_or(Word { text: "", at: self.end })
    }

    pub(super) fn first(&self) -> Word<'a> {
        self.at(0)
    }

    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// That this word stands at `index`.
    pub(super) fn wants(&self, index: usize, word: &str) -> Result<(), Wrong> {
        match self.at(index) {
            found if found.text == word => Ok(()),
            found => Err(found.expected(format!("`{word}`"))),
        }
    }

    /// That the line has no more words than `count`.
    pub(super) fn ends_at(&self, count: usize) -> Result<(), Wrong> {
        match self.words.get(count) {
            None => Ok(()),
            Some(more) => Err(more.expected("the end of the line")),
        }
    }

    /// The line without its first words.
    pub(super) fn after(&self, count: usize) -> Line<'a> {
        Line { words: self.words[count.min(self.len())..].to_vec(), end: self.end }
    }
}

/// The lines of a text that have words.
pub(super) fn lines(source: &str) -> impl Iterator<Item = Line<'_>> {
    source.lines().enumerate().map(|(number, text)| line(number + 1, text)).filter(|l| l.len() > 0)
}

fn line(number: usize, text: &str) -> Line<'_> {
    let mut words = Vec::new();
    let (mut column, mut rest) = (1, text);
    loop {
        let word = rest.trim_start();
        column += rest[..rest.len() - word.len()].chars().count();
        let len = word.find(char::is_whitespace).unwrap_or(word.len());
        let (word, after) = word.split_at(len);
        let is_comment = word.starts_with([';', '#']) || word.starts_with("//");
        if word.is_empty() || is_comment {
            break;
        }
        let width = word.chars().count();
        words.push(Word { text: word, at: At { line: number, column, width } });
        column += width;
        rest = after;
    }
    let end = words.last().map_or(1, |last| last.at.column + last.at.width);
    Line { words, end: At { line: number, column: end, width: 1 } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_their_line_and_column_and_comments_are_none() {
        let text = "\n\tmov  m.a\t0x10 ; ten\n// all\n ;x\n# y\nA : drop\n";
        let lines: Vec<_> = lines(text).collect();
        assert_eq!(lines.len(), 2);
        let places = |line: &Line<'_>| -> Vec<_> {
            line.words.iter().map(|word| (word.text.to_owned(), word.at.column)).collect()
        };
        let of = |text: &str, column| (text.to_owned(), column);
        assert_eq!(places(&lines[0]), [of("mov", 2), of("m.a", 7), of("0x10", 11)]);
        assert_eq!(lines[1].first().at, At { line: 6, column: 1, width: 1 });
        assert_eq!(lines[0].at(3).at, At { line: 2, column: 15, width: 1 });
    }

    #[test]
    fn numbers_are_those_of_c_and_nothing_else() {
        let number = |text| Word { text, at: At::default() }.number();
        assert_eq!(number("10"), Ok(10));
        assert_eq!(number("0x1F"), Ok(31));
        assert_eq!(number("017"), Ok(15));
        assert_eq!(number("0"), Ok(0));
        assert_eq!(number("18446744073709551615"), Ok(u64::MAX));
        for wrong in ["18446744073709551616", "-1", "+1", "0x", "0x+1", "09", "1e3", "", "x"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }
}
