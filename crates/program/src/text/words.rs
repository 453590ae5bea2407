//! The words of a program's text, line by line.
//!
//! Blanks of ASCII separate words; a word that begins with `;`, `#` or `//` ends its line, as in
//! DPDK's reader (`rte_swx_pipeline_spec.c`). Lines without words are left out. [`commands`] reads
//! the words of P4's STF instead, in which blanks may stand around punctuation.

use niclab_nic::text::Problem;

use super::error::{At, Wrong};

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

    /// A number, written as `strtoull` of C reads it: decimal, `0x` or, behind a zero, octal, with
    /// a sign before it or none. `-1` is 2^64 - 1.
    pub(super) fn number(self) -> Result<u64, Wrong> {
        let magnitude = |digits| Word { text: digits, at: self.at }.unsigned();
        match (self.text.strip_prefix('-'), self.text.strip_prefix('+')) {
            (Some(digits), _) => magnitude(digits).map(u64::wrapping_neg),
            (_, Some(digits)) => magnitude(digits),
            _ => self.unsigned(),
        }
        .map_err(|_| self.expected("a number below 2^64, as 20, 0x14 or 024"))
    }

    /// Whether a number has to stand here, and no name: it begins as one.
    pub(super) fn is_number(self) -> bool {
        self.text.trim_start_matches(['-', '+']).starts_with(|c: char| c.is_ascii_digit())
    }

    fn unsigned(self) -> Result<u64, Wrong> {
        let number = match self.text.strip_prefix("0x").or(self.text.strip_prefix("0X")) {
            Some(hex) => from_digits(hex, 16),
            None => match self.text.strip_prefix('0') {
                Some(octal) if !octal.is_empty() => from_digits(octal, 8),
                _ => from_digits(self.text, 10),
            },
        };
        number.ok_or_else(|| self.expected("a number below 2^64, as 20, 0x14 or 024"))
    }

    /// A number from `min` to `max`, of something, written without a sign.
    pub(super) fn number_in(self, what: &str, min: u64, max: u64) -> Result<u64, Wrong> {
        self.bounded(self.number()?, what, min, max)
    }

    /// A number of a command: decimal, `0x` or `0b`. A leading 0 means nothing.
    pub(super) fn plain(self) -> Result<u64, Wrong> {
        let bytes = crate::value::parse(self.text, 8);
        let wrong = || self.expected("a number below 2^64, as 20, 0x14 or 0b10100");
        bytes.map(|bytes| crate::value::to_number(&bytes)).ok_or_else(wrong)
    }

    /// The same from `min` to `max`.
    pub(super) fn plain_in(self, what: &str, min: u64, max: u64) -> Result<u64, Wrong> {
        self.bounded(self.plain()?, what, min, max)
    }

    fn bounded(self, number: u64, what: &str, min: u64, max: u64) -> Result<u64, Wrong> {
        match (min..=max).contains(&number) && !self.text.starts_with('-') {
            true => Ok(number),
            false => Err(self.expected(format!("{what} from {min} to {max}"))),
        }
    }

    /// A part of the word, which begins so many bytes behind its beginning, without blanks around.
    pub(super) fn part(self, from: usize, text: &'a str) -> Word<'a> {
        let trimmed = text.trim_start();
        let before = self.text.get(..from + text.len() - trimmed.len()).unwrap_or_default();
        let (column, text) = (self.at.column + before.chars().count(), trimmed.trim_end());
        let width = text.chars().count().max(1);
        Word { text, at: At { column, width, ..self.at } }
    }

    /// The word without the quotation marks that P4's STF may have around a name.
    pub(super) fn unquoted(self) -> Word<'a> {
        let inner = self.text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        inner.map_or(self, |text| Word { text, at: self.at })
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

/// Digits alone, without anything else that Rust would allow.
fn from_digits(digits: &str, radix: u32) -> Option<u64> {
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

    /// The line without the word of this number and those behind it.
    pub(super) fn before(&self, count: usize) -> Line<'a> {
        let end = self.at(count).at;
        Line { words: self.words[..count.min(self.len())].to_vec(), end }
    }

    /// The line without its first words.
    pub(super) fn after(&self, count: usize) -> Line<'a> {
        Line { words: self.words[count.min(self.len())..].to_vec(), end: self.end }
    }
}

/// The lines of a program's text that have words.
pub(super) fn lines(source: &str) -> impl Iterator<Item = Line<'_>> {
    all(source, length)
}

/// The lines of commands or of a packet test that have words. Blanks around the punctuation of a
/// word belong to it, as in `h.a.p : 0x06` and `go ( port : 1 )`; a `#` ends a line wherever it
/// stands, and `=`, `==`, `<=` and so on are words by themselves (`stf_lexer.py` of p4c).
pub(super) fn commands(source: &str) -> impl Iterator<Item = Line<'_>> {
    all(source, command_length)
}

fn all(source: &str, length: fn(&str) -> usize) -> impl Iterator<Item = Line<'_>> {
    let lines = source.lines().enumerate();
    lines.map(move |(number, text)| line(number + 1, text, length)).filter(|line| line.len() > 0)
}

/// What parts words: the blanks of C.
const BLANKS: [char; 6] = [' ', '\t', '\n', '\r', '\x0b', '\x0c'];

fn line(number: usize, text: &str, length: fn(&str) -> usize) -> Line<'_> {
    let mut words = Vec::new();
    let (mut column, mut rest) = (1, text);
    loop {
        let word = rest.trim_start_matches(BLANKS);
        column += rest[..rest.len() - word.len()].chars().count();
        let is_comment = word.starts_with([';', '#']) || word.starts_with("//");
        if word.is_empty() || is_comment {
            break;
        }
        let (word, after) = word.split_at(length(word));
        let width = word.chars().count();
        words.push(Word { text: word, at: At { line: number, column, width } });
        column += width;
        rest = after;
    }
    let end = words.last().map_or(1, |last| last.at.column + last.at.width);
    Line { words, end: At { line: number, column: end, width: 1 } }
}

/// Bytes of the word that a program's text begins with.
fn length(text: &str) -> usize {
    text.find(BLANKS).unwrap_or(text.len())
}

/// Bytes of the word that a command's text begins with.
fn command_length(text: &str) -> usize {
    let is_operator = |c: char| matches!(c, '=' | '!' | '<' | '>');
    if text.starts_with(is_operator) {
        return text.find(|c| !is_operator(c)).unwrap_or(text.len());
    }
    let (mut is_inside, mut is_quoted, mut colons) = (false, false, 0);
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        match c {
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '#' => return text[..at].trim_end_matches(BLANKS).len(),
            '(' => is_inside = true,
            ')' => return at + 1,
            _ if is_inside => {}
            ':' => colons += 1,
            _ if is_operator(c) => return at,
            _ if BLANKS.contains(&c) => {
                let next = text[at..].trim_start_matches(BLANKS);
                // The first colon is behind a name; an address may end with others.
                let goes_on = text[..at].ends_with(['/', ',']) || text[..at].ends_with("&&&");
                let is_named = text[..at].ends_with(':') && colons == 1;
                let is_begun = next.starts_with([':', '(', '/']) && !next.starts_with("//");
                if !(goes_on || is_named || is_begun || next.starts_with("&&&")) {
                    return at;
                }
                at = text.len() - next.len();
                continue;
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    text.trim_end_matches(BLANKS).len()
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
    fn words_of_commands_have_blanks_around_their_punctuation() {
        let words = |text: &str| -> Vec<String> {
            let lines: Vec<_> = commands(text).collect();
            assert!(lines.len() < 2, "{text}");
            lines.iter().flat_map(|line| line.words.iter()).map(|of| of.text.to_owned()).collect()
        };
        for (text, expected) in [
            ("add t k:1 go(p:1)", &["add", "t", "k:1", "go(p:1)"][..]),
            (
                "add t 10 k : 1 go ( p : 1, q:2 )=A",
                &["add", "t", "10", "k : 1", "go ( p : 1, q:2 )", "=", "A"],
            ),
            ("add t k:2001:db8:: go()", &["add", "t", "k:2001:db8::", "go()"]),
            ("add t k: :: go()", &["add", "t", "k: ::", "go()"]),
            ("add t k:10.0.0.0 / 8 go() // k:1", &["add", "t", "k:10.0.0.0 / 8", "go()"]),
            ("add t k:0x1 &&& 0xf go()# x", &["add", "t", "k:0x1 &&& 0xf", "go()"]),
            (
                "check_counter c ( 3 )packets==2",
                &["check_counter", "c ( 3 )", "packets", "==", "2"],
            ),
            (r#"add "a.b" "c (d)":1 "e"()"#, &["add", r#""a.b""#, r#""c (d)":1"#, r#""e"()"#]),
            ("expect 1 00 ** $ # end", &["expect", "1", "00", "**", "$"]),
            ("add t k:1 go(p:1 ", &["add", "t", "k:1", "go(p:1"]),
            ("# all", &[]),
            ("a\u{a0}b c", &["a\u{a0}b", "c"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_those_of_c_and_nothing_else() {
        let number = |text| Word { text, at: At::default() }.number();
        assert_eq!(number("10"), Ok(10));
        assert_eq!(number("0x1F"), Ok(31));
        assert_eq!(number("017"), Ok(15));
        assert_eq!(number("0"), Ok(0));
        assert_eq!(number("18446744073709551615"), Ok(u64::MAX));
        // As `strtoull` has them.
        assert_eq!(number("-1"), Ok(u64::MAX));
        assert_eq!(number("-0x10"), Ok(u64::MAX - 15));
        assert_eq!(number("-0"), Ok(0));
        assert_eq!(number("+017"), Ok(15));
        assert_eq!(number("-18446744073709551615"), Ok(1));
        for wrong in
            ["18446744073709551616", "--1", "+-1", "-", "0x", "0x+1", "0x-1", "09", "1e3", "", "x"]
        {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }
}
