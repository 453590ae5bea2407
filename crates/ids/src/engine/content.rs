//! `content` and its modifiers.

use memchr::memmem::Finder;

use super::lack::Lack;
use super::number::{number, signed};
use super::signature::Unfit;

/// The greatest `distance` and `within`, either sign.
const REACH_MAX: i64 = 1024 * 1024;

/// Bytes that a payload has, or has not.
#[derive(Clone, Debug)]
pub(super) struct Content {
    /// The bytes; in lower case if the case does not count.
    pub(super) bytes: Vec<u8>,
    /// Whether the rule wants them to be absent.
    pub(super) negated: bool,
    /// Whether the case of ASCII letters does not count.
    pub(super) any_case: bool,
    /// From this byte of the payload on.
    pub(super) offset: u16,
    /// Up to this byte of the payload; 0 for all of it.
    pub(super) depth: u16,
    /// Bytes behind the match before.
    pub(super) distance: Option<i32>,
    /// Bytes, `distance` included, in which the match ends.
    pub(super) within: Option<i32>,
    pub(super) limits: Limits,
    pub(super) next: NextTest,
    finder: Option<Finder<'static>>,
}

/// Which limits a rule gives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    pub(super) offset: bool,
    pub(super) depth: bool,
    pub(super) starts: bool,
    pub(super) ends: bool,
    pub(super) raw: bool,
    pub(super) fast: bool,
    pub(super) only_fast: bool,
    /// Offset and length of the part that finds candidates.
    pub(super) fast_part: Option<(u16, u16)>,
}

/// Whether the next tests begin at the end of a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NextTest {
    /// They do not.
    #[default]
    Absolute,
    /// They do, and a later match can only be worse for them.
    Behind,
    /// They do, and a later match may be what they need.
    Near,
}

/// A modifier of the content before it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Modifier {
    AnyCase,
    Depth(u16),
    Offset(u16),
    Distance(i32),
    Within(i32),
    Starts,
    Ends,
    Raw,
    Fast { only: bool, part: Option<(u16, u16)> },
}

impl Content {
    /// Bytes that it points to: its own, and those that are searched.
    pub(super) fn memory_bytes(&self) -> usize {
        let searched = self.finder.as_ref().map_or(0, |finder| finder.needle().len());
        self.bytes.capacity() + searched
    }

    /// Reads `"GET |0d 0a|"`, with or without a `!`.
    pub(super) fn read(value: &str) -> Result<Content, Unfit> {
        let (negated, quoted) = negation(value);
        let text = unquoted(quoted).ok_or("a text in quotes: content:\"GET\"")?;
        let bytes = bytes(text)?;
        Ok(Content {
            bytes,
            negated,
            any_case: false,
            offset: 0,
            depth: 0,
            distance: None,
            within: None,
            limits: Limits::default(),
            next: NextTest::default(),
            finder: None,
        })
    }

    /// Whether it begins at the end of the match before.
    pub(super) fn is_relative(&self) -> bool {
        self.distance.is_some() || self.within.is_some()
    }

    /// Whether neither it nor the next test depends on a place.
    pub(super) fn is_single(&self) -> bool {
        !self.is_relative()
            && self.next == NextTest::Absolute
            && !self.limits.depth
            && !self.limits.offset
    }

    /// Tells it that the next tests depend on its place.
    pub(super) fn set_next(&mut self, next: NextTest) {
        if self.next != NextTest::Near {
            self.next = next;
        }
    }

    /// Prepares the search, once all modifiers are applied.
    pub(super) fn finish(&mut self) {
        self.finder = Some(Finder::new(&self.bytes).into_owned());
    }

    /// Where the first match begins, in time that is linear in the payload. If the case does not
    /// count, the payload is in lower case.
    pub(super) fn find(&self, payload: &[u8]) -> Option<usize> {
        self.finder.as_ref()?.find(payload)
    }

    /// Applies a modifier.
    pub(super) fn apply(&mut self, modifier: Modifier) -> Result<(), &'static str> {
        const MIXED: &str = "either depth and offset of a content, or distance and within";
        const FAST: &str = "no place for a negated content with fast_pattern";
        let len = self.bytes.len() as u16;
        let is_placing = !matches!(
            modifier,
            Modifier::AnyCase | Modifier::Ends | Modifier::Raw | Modifier::Fast { .. }
        );
        if is_placing && (self.negated && self.limits.fast || self.limits.only_fast) {
            return Err(FAST);
        }
        match modifier {
            Modifier::AnyCase if self.any_case => return Err("one nocase per content"),
            Modifier::AnyCase => {
                self.any_case = true;
                self.bytes.make_ascii_lowercase();
            }
            Modifier::Depth(_) | Modifier::Offset(_) | Modifier::Starts if self.is_relative() => {
                return Err(MIXED);
            }
            Modifier::Depth(_) | Modifier::Starts if self.limits.depth => {
                return Err("one depth or startswith per content");
            }
            Modifier::Depth(depth) if depth < len => return Err("a depth of at least the content"),
            Modifier::Depth(depth) => {
                self.depth = depth.wrapping_add(self.offset);
                self.limits.depth = true;
            }
            Modifier::Offset(_) if self.limits.starts => return Err("offset or startswith"),
            Modifier::Offset(_) if self.limits.offset => return Err("one offset per content"),
            Modifier::Offset(offset) => {
                self.offset = offset;
                if self.depth != 0 {
                    self.depth = self.depth.max(len).wrapping_add(offset);
                }
                self.limits.offset = true;
            }
            Modifier::Starts if self.limits.offset => return Err("offset or startswith"),
            Modifier::Starts => {
                self.depth = len;
                (self.limits.depth, self.limits.starts) = (true, true);
            }
            Modifier::Distance(_) | Modifier::Within(_)
                if self.limits.depth || self.limits.offset =>
            {
                return Err(MIXED);
            }
            Modifier::Distance(_) if self.distance.is_some() => {
                return Err("one distance per content");
            }
            Modifier::Distance(distance) => self.distance = Some(distance),
            Modifier::Within(_) if self.within.is_some() => return Err("one within per content"),
            Modifier::Within(within) if within < len.into() => {
                return Err("a within of at least the content");
            }
            Modifier::Within(within) => self.within = Some(within),
            Modifier::Ends => self.limits.ends = true,
            Modifier::Raw if self.limits.raw => return Err("one rawbytes per content"),
            Modifier::Raw => self.limits.raw = true,
            Modifier::Fast { only, part } => self.set_fast(only, part)?,
        }
        Ok(())
    }

    fn set_fast(&mut self, only: bool, part: Option<(u16, u16)>) -> Result<(), &'static str> {
        let has_place = self.is_relative() || self.limits.depth || self.limits.offset;
        if self.negated && has_place {
            return Err("fast_pattern on a content without `!` or without a place");
        }
        if only && (self.negated || has_place) {
            return Err("fast_pattern:only on a content without `!` and without a place");
        }
        if self.limits.fast && !only && part.is_none() {
            return Err("one fast_pattern per content");
        }
        if part.is_some_and(|(at, len)| usize::from(at) + usize::from(len) > self.bytes.len()) {
            return Err("an offset and a length within the content");
        }
        self.limits.fast = true;
        self.limits.only_fast |= only;
        self.limits.fast_part = part.or(self.limits.fast_part);
        Ok(())
    }
}

impl Modifier {
    /// Reads a modifier; `None` if the keyword is none.
    pub(super) fn read(name: &str, value: Option<&str>) -> Option<Result<Modifier, Unfit>> {
        let bare = |modifier| match value {
            None | Some("") => Ok(modifier),
            Some(_) => Err("no value".into()),
        };
        Some(match name {
            "nocase" => bare(Modifier::AnyCase),
            "startswith" => bare(Modifier::Starts),
            "endswith" => bare(Modifier::Ends),
            "rawbytes" => bare(Modifier::Raw),
            "fast_pattern" => fast_pattern(value.unwrap_or_default()),
            "depth" => place("depth", value).map(Modifier::Depth),
            "offset" => place("offset", value).map(Modifier::Offset),
            "distance" => reach("distance", value).map(Modifier::Distance),
            "within" => reach("within", value).map(Modifier::Within),
            _ => return None,
        })
    }
}

/// Whether a value begins with `!`, and the rest.
pub(super) fn negation(value: &str) -> (bool, &str) {
    match value.strip_prefix('!') {
        Some(rest) => (true, rest.trim()),
        None => (false, value.trim()),
    }
}

/// The text between quotes.
pub(super) fn unquoted(value: &str) -> Option<&str> {
    value.strip_prefix('"')?.strip_suffix('"').filter(|text| !text.is_empty())
}

/// Whether a value is a name, of a variable that `byte_extract` or `byte_math` sets.
pub(super) fn is_variable(value: &str) -> bool {
    value.starts_with(|first: char| first.is_ascii_alphabetic())
}

/// The bytes of a content: text, and hexadecimal numbers between bars.
fn bytes(text: &str) -> Result<Vec<u8>, Unfit> {
    const DIGITS: &str = "two hexadecimal digits per byte between bars: |0d 0a|";
    const ESCAPED: &str = "one of `:`, `;`, `\\` and `\"` behind a `\\`";
    let (mut bytes, mut escaped, mut in_bars) = (Vec::new(), false, false);
    let (mut high, mut is_empty) = (None, false);
    for byte in text.bytes() {
        match byte {
            b'|' if in_bars && high.is_some() => return Err(DIGITS.into()),
            b'|' if in_bars && is_empty => {
                return Err(Unfit::Lack(Lack::value("content", "bars with nothing between")));
            }
            b'|' => {
                in_bars = !in_bars;
                is_empty = in_bars;
            }
            b'\\' if !escaped => escaped = true,
            b' ' | b',' if in_bars => {}
            byte if in_bars => {
                let digit = (byte as char).to_digit(16).ok_or(DIGITS)? as u8;
                match high.take() {
                    None => high = Some(digit),
                    Some(high) => bytes.push(high << 4 | digit),
                }
                is_empty = false;
            }
            b':' | b';' | b'\\' | b'"' if escaped => {
                bytes.push(byte);
                escaped = false;
            }
            _ if escaped => return Err(ESCAPED.into()),
            b'"' => return Err("a `\\` before a quote in the content".into()),
            byte => bytes.push(byte),
        }
    }
    match () {
        // Suricata takes it as a byte of some contents, and drops it from others.
        () if escaped && text.ends_with('\\') => Err(ESCAPED.into()),
        () if in_bars => Err("a second bar: |0d 0a|".into()),
        () if bytes.is_empty() => Err("at least one byte".into()),
        () => Ok(bytes),
    }
}

/// `depth` or `offset`.
fn place(keyword: &'static str, value: Option<&str>) -> Result<u16, Unfit> {
    let value = value.unwrap_or_default();
    if is_variable(value) {
        return Err(Unfit::Lack(Lack::value(keyword, "a variable")));
    }
    let place = number(value).and_then(|number| u16::try_from(number).ok());
    place.ok_or("a number from 0 to 65535".into())
}

/// `distance` or `within`.
fn reach(keyword: &'static str, value: Option<&str>) -> Result<i32, Unfit> {
    let value = value.unwrap_or_default();
    if is_variable(value) {
        return Err(Unfit::Lack(Lack::value(keyword, "a variable")));
    }
    let reach = signed(value).filter(|reach| (-REACH_MAX..=REACH_MAX).contains(reach));
    reach.map(|reach| reach as i32).ok_or("a number from -1048576 to 1048576".into())
}

fn fast_pattern(value: &str) -> Result<Modifier, Unfit> {
    const EXPECTED: &str = "nothing, `only`, or an offset and a length";
    match value.split_once(',') {
        None if value.is_empty() => Ok(Modifier::Fast { only: false, part: None }),
        None if value.starts_with("only") => Ok(Modifier::Fast { only: true, part: None }),
        None => Err(EXPECTED.into()),
        Some((at, len)) => {
            let number = |text: &str| text.trim().parse().map_err(|_| EXPECTED);
            // Suricata reads a sign before the first number alone.
            let len = if len.contains('+') { "" } else { len };
            match (number(at)?, number(len)?) {
                (_, 0) => Err(Unfit::Lack(Lack::value("fast_pattern", "no bytes"))),
                part => Ok(Modifier::Fast { only: false, part: Some(part) }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Vec<u8> {
        Content::read(value).unwrap().bytes
    }

    #[test]
    fn contents_are_text_and_hexadecimal_numbers() {
        assert_eq!(read("\"GET\""), b"GET");
        assert_eq!(read("\"a|0d 0A|b|FF|\""), b"a\r\nb\xff");
        assert_eq!(read("\"|0d0a|\\;\\:\\\\\\\"\""), b"\r\n;:\\\"");
        assert!(Content::read("!\"x\"").unwrap().negated);
        assert_eq!(read("\"a\\|41|;\""), b"aA;", "as Suricata reads it");
        for wrong in [
            "GET",
            "\"\"",
            "\"a",
            "\"|0|\"",
            "\"|0g|\"",
            "\"|00\"",
            "\"a\\b\"",
            "\"a\"b\"",
            "\"abc\\\"",
            "\"abc\\\\\\\"",
            "\"|41|\\\"",
        ] {
            assert!(matches!(Content::read(wrong), Err(Unfit::Expected(_))), "{wrong}");
        }
        assert!(matches!(Content::read("\"a||b\""), Err(Unfit::Lack(_))));
    }

    #[test]
    fn places_are_summed_in_either_order() {
        let content = |modifiers: &[Modifier]| {
            let mut content = Content::read("\"abc\"").unwrap();
            modifiers.iter().try_for_each(|&modifier| content.apply(modifier)).map(|()| content)
        };
        for order in
            [[Modifier::Offset(5), Modifier::Depth(7)], [Modifier::Depth(7), Modifier::Offset(5)]]
        {
            let content = content(&order).unwrap();
            assert_eq!((content.offset, content.depth), (5, 12));
        }
        assert!(content(&[Modifier::Depth(2)]).is_err());
        assert!(content(&[Modifier::Within(2)]).is_err());
        assert!(content(&[Modifier::Depth(3), Modifier::Distance(1)]).is_err());
        assert!(content(&[Modifier::Starts, Modifier::Offset(1)]).is_err());
        assert!(content(&[Modifier::AnyCase, Modifier::AnyCase]).is_err());
    }
}
