//! Text made visible: characters without a visible mark are shown by their number.

use std::fmt::{self, Write};

/// Characters of a word that are shown at most.
const WORD_MAX: usize = 100;
/// A line of at most this many characters is shown whole; of a longer line, only this many before
/// the word's start and after it.
const LINE_MAX: usize = 240;
const BEFORE_MAX: usize = 100;
const BEHIND_MAX: usize = 140;

/// A text in which each character leaves one visible mark: U+00A0 becomes `<U+00A0>`, and so do all
/// blanks except the space, controls such as ESC, combining marks and characters that change the
/// writing direction. A tab becomes a space.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    // Writing to a string cannot fail.
    let _ = Marks(&mut shown).write_str(text);
    shown
}

/// Writes texts in the form of [`visible`].
pub(super) struct Marks<W>(pub(super) W);

impl<W: Write> Write for Marks<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| match c {
            '\t' => self.0.write_char(' '),
            c if has_mark(c) => self.0.write_char(c),
            c => write!(self.0, "<U+{:04X}>", u32::from(c)),
        })
    }
}

fn has_mark(c: char) -> bool {
    // These visible characters are the only ones that `escape_debug` changes.
    matches!(c, '"' | '\'' | '\\') || c.escape_debug().count() == 1
}

/// An unexpected word, cut to a readable length. All characters outside ASCII are shown by their
/// number: a letter of another script may look like the expected one.
pub fn visible_word(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars().take(WORD_MAX) {
        // Writing to a string cannot fail.
        let _ = match c.is_ascii() {
            true => Marks(&mut shown).write_char(c),
            false => write!(shown, "<U+{:04X}>", u32::from(c)),
        };
    }
    if text.chars().nth(WORD_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// A line with carets under one of its words, as both are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    text: String,
    /// Columns before the carets, and the number of carets.
    before: usize,
    width: usize,
}

impl Excerpt {
    /// From a line and the byte range of the word.
    pub(super) fn new(line: &str, (start, end): (usize, usize)) -> Excerpt {
        let is_short = line.chars().nth(LINE_MAX).is_none();
        let (before, behind) =
            if is_short { (LINE_MAX, LINE_MAX) } else { (BEFORE_MAX, BEHIND_MAX) };
        let back = line[..start].char_indices().rev().take(before).last();
        let first = back.map_or(start, |(at, _)| at);
        let last =
            line[start..].char_indices().nth(behind).map_or(line.len(), |(at, _)| start + at);
        let mark = |is_cut: bool| if is_cut { "…" } else { "" };
        let ahead = format!("{}{}", mark(first > 0), visible(&line[first..start]));
        let rest = line[start..last].trim_end();
        let text = format!("{ahead}{}{}", visible(rest), mark(last < line.len()));
        let word = visible(&line[start..end.clamp(start, last)]);
        Excerpt { text, before: columns(&ahead), width: columns(&word).max(1) }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Excerpt { text, before, width } = self;
        write!(f, "{}\n{:before$}{:^<width$}", text.trim_end(), "", "")
    }
}

/// Columns that a text takes in a terminal: Chinese, Japanese and Korean letters and pictures take
/// two each (Unicode's annex 11).
fn columns(text: &str) -> usize {
    let is_wide = |c: char| {
        matches!(
            c,
            '\u{1100}'..='\u{115f}'
                | '\u{2e80}'..='\u{a4cf}'
                | '\u{ac00}'..='\u{d7a3}'
                | '\u{f900}'..='\u{faff}'
                | '\u{fe30}'..='\u{fe6f}'
                | '\u{ff01}'..='\u{ff60}'
                | '\u{ffe0}'..='\u{ffe6}'
                | '\u{1f300}'..='\u{1faff}'
                | '\u{20000}'..='\u{3fffd}'
        )
    };
    text.chars().map(|c| 1 + usize::from(is_wide(c))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_no_mark_is_shown_by_its_number() {
        for (text, shown) in [
            ("a\u{a0}b", "a<U+00A0>b"),
            ("\u{feff}flow", "<U+FEFF>flow"),
            ("a\tb", "a b"),
            ("\u{1b}[31m\r\n\0", "<U+001B>[31m<U+000D><U+000A><U+0000>"),
            ("\u{200b}\u{200d}\u{2060}", "<U+200B><U+200D><U+2060>"),
            ("\u{202e}\u{2066}\u{61c}", "<U+202E><U+2066><U+061C>"),
            ("\u{2003}\u{3000}\u{ad}\u{2028}", "<U+2003><U+3000><U+00AD><U+2028>"),
            ("e\u{301}\u{fe0f}", "e<U+0301><U+FE0F>"),
            ("\u{9b}\u{7f}", "<U+009B><U+007F>"),
            ("é ü … – 漢 \"'\\", "é ü … – 漢 \"'\\"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn a_word_that_was_not_expected_is_shown_in_ascii() {
        for (word, shown) in [
            ("\u{456}pv4", "<U+0456>pv4"),
            ("tc\u{440}", "tc<U+0440>"),
            ("a\u{2212}b\u{a0}\t", "a<U+2212>b<U+00A0> "),
            ("ipv4", "ipv4"),
        ] {
            assert_eq!(visible_word(word), shown);
        }
        assert_eq!(visible_word(&"x".repeat(101)), format!("{}…", "x".repeat(100)));
    }

    #[test]
    fn carets_stand_under_the_word_as_it_is_shown() {
        let shown = |line: &str, word: &str| {
            let start = line.find(word).unwrap();
            Excerpt::new(line, (start, start + word.len())).to_string()
        };
        assert_eq!(
            shown("\u{feff}flow x\u{a0}y z \r\n", "x\u{a0}y"),
            "\
<U+FEFF>flow x<U+00A0>y z
             ^^^^^^^^^^"
        );
        assert_eq!(shown("# 漢字 word", "word"), "# 漢字 word\n       ^^^^");
        let long = format!("{} here {}", "x".repeat(1_000), "y".repeat(10_000));
        let lines = shown(&long, "here");
        let (text, carets) = lines.split_once('\n').unwrap();
        assert!(text.starts_with('…') && text.ends_with('…'), "{text}");
        assert!(text.chars().count() < 250, "{text}");
        let place = carets.len() - carets.trim_start().len();
        assert_eq!(text.chars().skip(place).take(4).collect::<String>(), "here");
        assert_eq!(carets.trim_start(), "^^^^");
        assert_eq!(Excerpt::new("", (0, 0)).to_string(), "\n^");
    }
}
