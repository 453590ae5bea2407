//! Everything that is printed passes through here: nothing that a file or a peer says steers the
//! terminal.
//!
//! Names, marks, reasons and lines of files may hold control characters: escape sequences that
//! move the cursor, hide lines, set the title or answer as if typed, and marks that reverse the
//! order of letters. They are printed as their numbers, such as `\u001b`, which JSON and TOML read
//! as the same character.

use std::io::{self, IsTerminal, StdoutLock, Write};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::{DefaultTerminal, restore, try_init};
use serde::Serialize;

use crate::failure::Failure;

/// Standard output.
pub fn stdout() -> EscapingWriter<StdoutLock<'static>> {
    EscapingWriter::new(io::stdout().lock())
}

/// Prints a document as JSON.
pub fn json(document: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document).map_err(io::Error::from)?;
    Ok(writeln!(stdout(), "{text}")?)
}

/// Says a line on standard error. A reader that went away must not end a measurement.
pub fn say(line: &str) {
    let _ = writeln!(EscapingWriter::new(io::stderr().lock()), "{line}");
}

/// Whether standard error is a terminal.
pub fn is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Whether a view can take the terminal: output goes to one, and keys come from one.
pub fn is_screen() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// The terminal as a whole, for a view that draws; as it was before once this ends.
pub struct Screen(DefaultTerminal);

impl Screen {
    /// Takes the terminal.
    pub fn open() -> io::Result<Screen> {
        try_init().map(Screen)
    }

    /// Draws a frame. Its texts have passed [`one_line`].
    pub fn draw(&mut self, draw: impl FnOnce(Rect, &mut Buffer)) -> io::Result<()> {
        self.0.draw(|frame| draw(frame.area(), frame.buffer_mut())).map(drop)
    }

    /// Lines that it has.
    pub fn lines(&self) -> io::Result<u16> {
        Ok(self.0.size()?.height)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// A text without anything that steers a terminal; it keeps its lines and tabs.
pub fn escape(text: &str) -> String {
    let mut out = Vec::new();
    EscapingWriter::new(&mut out).push(text.as_bytes());
    // What was pushed is text, and so is what came out.
    String::from_utf8_lossy(&out).into_owned()
}

/// The same on one line: a name of a file cannot pass for another line of what is printed.
pub fn one_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in escape(text).chars() {
        match char.is_control() {
            true => push_number(char, &mut shown),
            false => shown.push(char),
        }
    }
    shown
}

/// A word as a shell takes it for one: whoever copies a command runs nothing that a name says.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", one_line(word).replace('\'', r"'\''")),
    }
}

/// Longest character of UTF-8, bytes.
const CHAR_LEN_MAX: usize = 4;

/// An output to which only what is printable comes.
pub struct EscapingWriter<W: Write> {
    inner: W,
    /// The beginning of a character whose rest is still to come.
    begun: Vec<u8>,
}

impl<W: Write> EscapingWriter<W> {
    /// Writes to `inner`.
    pub fn new(inner: W) -> EscapingWriter<W> {
        EscapingWriter { inner, begun: Vec::with_capacity(CHAR_LEN_MAX) }
    }

    /// The printable part of `bytes`, behind an incomplete character.
    fn shown(&mut self, bytes: &[u8]) -> String {
        let all = [&std::mem::take(&mut self.begun), bytes].concat();
        let mut shown = String::with_capacity(all.len());
        let mut chunks = all.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            put(chunk.valid(), &mut shown);
            let invalid = chunk.invalid();
            // Only at the end a character may be cut short rather than wrong.
            if chunks.peek().is_none() && is_begun(invalid) {
                self.begun.extend_from_slice(invalid);
            } else if !invalid.is_empty() {
                shown.push(char::REPLACEMENT_CHARACTER);
            }
        }
        shown
    }

    fn push(&mut self, bytes: &[u8]) {
        let shown = self.shown(bytes);
        // The memory that is written to takes everything.
        let _ = self.inner.write_all(shown.as_bytes());
    }
}

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let shown = self.shown(bytes);
        self.inner.write_all(shown.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: Write> Drop for EscapingWriter<W> {
    fn drop(&mut self) {
        if !self.begun.is_empty() {
            // The output ends within a character. Nobody is left to hear that it cannot be written.
            let _ = write!(self.inner, "{}", char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Whether more bytes could make a character of these.
fn is_begun(bytes: &[u8]) -> bool {
    let len = match bytes.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 0,
    };
    bytes.len() < len
}

fn put(text: &str, shown: &mut String) {
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\n' | '\t' => shown.push(char),
            // The line ends of some files.
            '\r' if chars.peek() == Some(&'\n') => shown.push(char),
            char if steers(char) => push_number(char, shown),
            char => shown.push(char),
        }
    }
}

/// Pushes the number of a character; all that have theirs shown are below U+10000.
fn push_number(char: char, shown: &mut String) {
    shown.push_str(&format!("\\u{:04x}", u32::from(char)));
}

/// Whether a character does something to a terminal instead of being shown: controls (ECMA-48 C0
/// and C1), line and paragraph separators, and marks of direction (UAX #9).
fn steers(char: char) -> bool {
    let is_mark = matches!(
        char,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    char.is_control() || is_mark
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_shown_as_numbers() {
        for (text, shown) in [
            ("plain, 12 µs ± 3 %\n\tnext\r\n", "plain, 12 µs ± 3 %\n\tnext\r\n"),
            ("\x1b[2J\x1b]0;title\x07", "\\u001b[2J\\u001b]0;title\\u0007"),
            ("a\rb\x08\x7f", "a\\u000db\\u0008\\u007f"),
            ("\u{9b}31m", "\\u009b31m"),
            ("abc\u{202e}fed\u{2066}\u{200f}", "abc\\u202efed\\u2066\\u200f"),
        ] {
            assert_eq!(escape(text), shown);
        }
    }

    #[test]
    fn a_name_stays_on_its_line_and_one_word_of_a_shell() {
        assert_eq!(
            one_line("a\n\r\n\tb\x1b\u{2028}"),
            "a\\u000a\\u000d\\u000a\\u0009b\\u001b\\u2028"
        );
        assert_eq!(quoted("results/a-1"), "results/a-1");
        assert_eq!(quoted("a b'; rm"), r"'a b'\''; rm'");
        assert_eq!(quoted("a\nb"), r"'a\u000ab'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn invalid_and_split_utf8_is_escaped_too() {
        let mut out = Vec::new();
        let mut clean = EscapingWriter::new(&mut out);
        // A bare C1 byte, a cut character in the middle, and characters byte by byte.
        clean.write_all(b"\x9b31m \xe2\x82 ").unwrap();
        for byte in "µ€\u{9b}𝄞".as_bytes() {
            clean.write_all(&[*byte]).unwrap();
        }
        clean.flush().unwrap();
        // Its rest never comes.
        clean.write_all(b"\xe2\x82").unwrap();
        drop(clean);
        assert_eq!(super::escape("a"), "a");
        assert_eq!(String::from_utf8(out).unwrap(), "\u{fffd}31m \u{fffd} µ€\\u009b𝄞\u{fffd}");
    }
}
