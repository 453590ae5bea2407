//! The syntax of PCRE2 without Unicode, as far as an automaton can match it.

use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, Look, Repetition};

/// Groups within groups, at most.
const DEPTH_MAX: u32 = 50;
/// The greatest number of a repetition.
const TIMES_MAX: u32 = 65_535;

/// Letters that change the syntax.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Syntax {
    /// `i`
    pub(super) any_case: bool,
    /// `m`
    pub(super) lines: bool,
    /// `s`
    pub(super) dot_all: bool,
    /// `x`
    pub(super) extended: bool,
    /// `U` in the expression, `G` behind it.
    pub(super) lazy: bool,
    /// `E`
    pub(super) end_only: bool,
}

/// What an expression matches.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    pub(super) hir: Hir,
    /// Whether it has a `$` that also matches before a last newline; the match includes it then.
    pub(super) ends_before_newline: bool,
    /// Whether it repeats something that can be nothing: its matches may end elsewhere than PCRE's.
    pub(super) repeats_nothing: bool,
}

/// Why an expression is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyntaxProblem {
    /// PCRE has it, the engine does not.
    Lack(&'static str),
    /// It is wrong.
    Expected(&'static str),
}

use SyntaxProblem::{Expected, Lack};

type Parsed<T> = Result<T, SyntaxProblem>;

/// Reads an expression.
pub(super) fn parse(text: &str, syntax: Syntax) -> Parsed<Expression> {
    if !text.is_ascii() {
        return Err(Lack("characters other than ASCII"));
    }
    let mut parser = Parser { text: text.as_bytes(), at: 0, depth: 0, repeats_nothing: false };
    let mut syntax = syntax;
    let part = parser.alternation(&mut syntax)?;
    if parser.at < parser.text.len() {
        return Err(Expected("a `(` before each `)`"));
    }
    let (hir, ends_before_newline) = (part.hir, part.soft_end);
    Ok(Expression { hir, ends_before_newline, repeats_nothing: parser.repeats_nothing })
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
    repeats_nothing: bool,
}

/// A piece of an expression.
struct ExpressionPart {
    hir: Hir,
    /// Whether it ends with a `$` that may match before a last newline.
    soft_end: bool,
    /// Whether it is a `^` that matches behind newlines, but not behind the last byte.
    line_start: bool,
    /// Whether a repetition can follow.
    repeats: bool,
}

impl ExpressionPart {
    fn new(hir: Hir) -> ExpressionPart {
        ExpressionPart { hir, soft_end: false, line_start: false, repeats: true }
    }

    fn look(look: Look) -> ExpressionPart {
        ExpressionPart { repeats: false, ..ExpressionPart::new(Hir::look(look)) }
    }

    fn can_be_empty(&self) -> bool {
        self.hir.properties().minimum_len().is_none_or(|len| len == 0)
    }
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, expected: &[u8]) -> bool {
        let is_next = self.text[self.at..].starts_with(expected);
        self.at += if is_next { expected.len() } else { 0 };
        is_next
    }

    /// Branches up to a `)` or the end. `syntax` holds for the rest of the group, too.
    fn alternation(&mut self, syntax: &mut Syntax) -> Parsed<ExpressionPart> {
        let (mut branches, mut soft_end) = (Vec::new(), false);
        loop {
            let branch = self.branch(syntax)?;
            soft_end |= branch.soft_end;
            branches.push(branch.hir);
            if !self.take(b"|") {
                let hir = Hir::alternation(branches);
                return Ok(ExpressionPart { soft_end, ..ExpressionPart::new(hir) });
            }
        }
    }

    fn branch(&mut self, syntax: &mut Syntax) -> Parsed<ExpressionPart> {
        let mut parts: Vec<ExpressionPart> = Vec::new();
        loop {
            self.skip(*syntax);
            match self.peek() {
                None | Some(b'|' | b')') => break,
                Some(_) => {}
            }
            let Some(atom) = self.atom(syntax)? else { continue };
            let part = self.repeated(atom, *syntax)?;
            parts.push(part);
        }
        let mut can_be_empty = true;
        for (behind, part) in parts.iter().rev().enumerate() {
            if part.soft_end && behind > 0 {
                return Err(Lack("`$` before something else"));
            }
            if part.line_start && can_be_empty {
                return Err(Lack("`^` of lines before nothing"));
            }
            can_be_empty &= part.can_be_empty();
        }
        let soft_end = parts.last().is_some_and(|part| part.soft_end);
        let hir = Hir::concat(parts.into_iter().map(|part| part.hir).collect());
        Ok(ExpressionPart { soft_end, ..ExpressionPart::new(hir) })
    }

    /// Skips comments, and with `x` blanks.
    fn skip(&mut self, syntax: Syntax) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t'..=b'\r') if syntax.extended => self.at += 1,
                Some(b'#') if syntax.extended => {
                    let rest = &self.text[self.at..];
                    self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                }
                Some(b'(') if self.text[self.at..].starts_with(b"(?#") => {
                    let rest = &self.text[self.at..];
                    let end = rest.iter().position(|byte| *byte == b')');
                    self.at += end.map_or(rest.len(), |end| end + 1);
                }
                _ => return,
            }
        }
    }

    /// An atom; `None` if it only changes the syntax.
    fn atom(&mut self, syntax: &mut Syntax) -> Parsed<Option<ExpressionPart>> {
        let Some(byte) = self.peek() else { return Ok(None) };
        self.at += 1;
        let part = match byte {
            b'(' => return self.group(syntax),
            b'[' => ExpressionPart::new(self.class(*syntax)?),
            b'.' if syntax.dot_all => ExpressionPart::new(bytes(&[(0, 255)])),
            b'.' => ExpressionPart::new(bytes(&[(0, 9), (11, 255)])),
            b'^' if syntax.lines => {
                ExpressionPart { line_start: true, ..ExpressionPart::look(Look::StartLF) }
            }
            b'^' => ExpressionPart::look(Look::Start),
            b'$' if syntax.lines => ExpressionPart::look(Look::EndLF),
            b'$' if syntax.end_only => ExpressionPart::look(Look::End),
            b'$' => soft_end(),
            b'\\' => self.escape(*syntax)?,
            b'*' | b'+' | b'?' => return Err(Expected("something to repeat before *, + and ?")),
            byte => ExpressionPart::new(literal(byte, *syntax)),
        };
        Ok(Some(part))
    }

    /// What is behind a `(`.
    fn group(&mut self, syntax: &mut Syntax) -> Parsed<Option<ExpressionPart>> {
        if self.peek() == Some(b'*') {
            return Err(Lack("verbs `(*…)`"));
        }
        let mut inner = *syntax;
        if self.take(b"?") && !self.take(b":") {
            if self.names_group()? {
                self.name()?;
            } else {
                inner = self.flags(inner)?;
                if self.take(b")") {
                    *syntax = inner;
                    return Ok(None);
                }
                if !self.take(b":") {
                    return Err(Lack("this kind of group"));
                }
            }
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Lack("more than 50 groups within each other"));
        }
        let part = self.alternation(&mut inner)?;
        self.depth -= 1;
        match self.take(b")") {
            true => Ok(Some(part)),
            false => Err(Expected("a `)` for each `(`")),
        }
    }

    /// Whether a name follows; refuses groups that an automaton cannot match.
    fn names_group(&mut self) -> Parsed<bool> {
        let rest = &self.text[self.at..];
        let is = |starts: &[&str]| starts.iter().any(|start| rest.starts_with(start.as_bytes()));
        match () {
            () if is(&["=", "!", "<=", "<!", "*"]) => Err(Lack("look-around")),
            () if is(&[">"]) => Err(Lack("atomic groups")),
            () if is(&["("]) => Err(Lack("conditions")),
            () if is(&["|"]) => Err(Lack("groups that reset numbers")),
            () if is(&["P="]) => Err(Lack("back references")),
            () if is(&["R", "&", "P>", "+", "0", "C"]) => Err(Lack("recursion")),
            () if rest.first().is_some_and(u8::is_ascii_digit) => Err(Lack("recursion")),
            () if is(&["-"]) && rest.get(1).is_some_and(u8::is_ascii_digit) => {
                Err(Lack("recursion"))
            }
            () => Ok(self.take(b"P<") || self.take(b"<") || self.take(b"'")),
        }
    }

    /// The name of a group, and what ends it.
    fn name(&mut self) -> Parsed<()> {
        let rest = &self.text[self.at..];
        let len = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_');
        let len = len.count();
        let name = &rest[..len];
        if name.starts_with(b"flow_") || name.starts_with(b"pkt_") {
            return Err(Lack("captures into variables"));
        }
        if len == 0 || !matches!(rest.get(len), Some(b'>' | b'\'')) {
            return Err(Expected("the name of the group"));
        }
        self.at += len + 1;
        Ok(())
    }

    /// Letters such as `i-s`.
    fn flags(&mut self, mut syntax: Syntax) -> Parsed<Syntax> {
        let mut value = true;
        while let Some(letter) = self.peek() {
            match letter {
                b'-' => value = false,
                b'i' => syntax.any_case = value,
                b'm' => syntax.lines = value,
                b's' => syntax.dot_all = value,
                b'x' if self.text.get(self.at + 1) != Some(&b'x') => syntax.extended = value,
                b'U' => syntax.lazy = value,
                b')' | b':' => break,
                _ => return Err(Lack("this kind of group")),
            }
            self.at += 1;
        }
        Ok(syntax)
    }

    /// A part with the repetition that follows it.
    fn repeated(&mut self, part: ExpressionPart, syntax: Syntax) -> Parsed<ExpressionPart> {
        self.skip(syntax);
        let Some((min, max)) = self.times()? else { return Ok(part) };
        if !part.repeats || part.soft_end {
            return Err(Lack("a repeated assertion"));
        }
        let is_lazy = self.take(b"?");
        if !is_lazy && self.peek() == Some(b'+') {
            return Err(Lack("possessive repetitions"));
        }
        let greedy = is_lazy == syntax.lazy;
        if self.times()?.is_some() {
            return Err(Lack("a repeated repetition"));
        }
        self.repeats_nothing |= part.can_be_empty() && max != Some(1);
        let hir = Hir::repetition(Repetition { min, max, greedy, sub: Box::new(part.hir) });
        Ok(ExpressionPart::new(hir))
    }

    /// `*`, `+`, `?`, `{2}`, `{2,}` or `{2,3}`, if one follows.
    fn times(&mut self) -> Parsed<Option<(u32, Option<u32>)>> {
        let times = match self.peek() {
            Some(b'*') => (0, None),
            Some(b'+') => (1, None),
            Some(b'?') => (0, Some(1)),
            Some(b'{') => return self.braces(),
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some(times))
    }

    fn braces(&mut self) -> Parsed<Option<(u32, Option<u32>)>> {
        let rest = &self.text[self.at + 1..];
        let Some(len) = rest.iter().position(|byte| *byte == b'}') else { return Ok(None) };
        let text = std::str::from_utf8(&rest[..len]).unwrap_or_default();
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = |text: &str| {
            let number = text.parse().ok().filter(|number| *number <= TIMES_MAX);
            number.ok_or(Expected("at most 65535 repetitions"))
        };
        let times = match text.split_once(',') {
            None if is_number(text) => (number(text)?, Some(number(text)?)),
            Some((min, "")) if is_number(min) => (number(min)?, None),
            Some((min, max)) if is_number(min) && is_number(max) => {
                (number(min)?, Some(number(max)?))
            }
            // Anything else is text.
            _ => return Ok(None),
        };
        if times.1.is_some_and(|max| max < times.0) {
            return Err(Expected("the smaller number of repetitions first"));
        }
        self.at += len + 2;
        Ok(Some(times))
    }

    /// What is behind a `\`.
    fn escape(&mut self, syntax: Syntax) -> Parsed<ExpressionPart> {
        let Some(byte) = self.peek() else { return Err(Expected("a character behind `\\`")) };
        self.at += 1;
        if let Some(ranges) = class_of(byte) {
            return Ok(ExpressionPart::new(bytes(&ranges)));
        }
        Ok(match byte {
            b'b' => ExpressionPart::look(Look::WordAscii),
            b'B' => ExpressionPart::look(Look::WordAsciiNegate),
            b'A' => ExpressionPart::look(Look::Start),
            b'z' => ExpressionPart::look(Look::End),
            b'Z' => soft_end(),
            b'N' if self.peek() != Some(b'{') => ExpressionPart::new(bytes(&[(0, 9), (11, 255)])),
            b'1'..=b'9' | b'g' | b'k' => return Err(Lack("back references")),
            byte => ExpressionPart::new(literal(self.character(byte)?, syntax)),
        })
    }

    /// The byte of an escape that stands for one, in a class or outside.
    fn character(&mut self, byte: u8) -> Parsed<u8> {
        Ok(match byte {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'f' => 0x0c,
            b'e' => 0x1b,
            b'a' => 0x07,
            b'x' => self.hexadecimal()?,
            b'0' => {
                let digits = self.digits(8, 2);
                digits.into_iter().fold(0, |value, digit| value << 3 | digit)
            }
            b'Q' | b'E' => return Err(Lack("`\\Q`")),
            byte if byte.is_ascii_alphanumeric() => return Err(Lack("this escape")),
            byte => byte,
        })
    }

    /// `\x41` or `\x{41}`, behind the `x`.
    fn hexadecimal(&mut self) -> Parsed<u8> {
        let has_braces = self.take(b"{");
        let digits = self.digits(16, 2);
        if has_braces && (digits.is_empty() || !self.take(b"}")) {
            return Err(Lack("numbers with more than two digits in `\\x{}`"));
        }
        Ok(digits.into_iter().fold(0, |value, digit| value << 4 | digit))
    }

    fn digits(&mut self, base: u32, count_max: usize) -> Vec<u8> {
        let rest = self.text[self.at..].iter().take(count_max);
        let digits: Vec<u8> = rest
            .map_while(|byte| (*byte as char).to_digit(base))
            .map(|digit| digit as u8)
            .collect();
        self.at += digits.len();
        digits
    }

    /// A class, behind its `[`.
    fn class(&mut self, syntax: Syntax) -> Parsed<Hir> {
        let negated = self.take(b"^");
        let (mut ranges, start) = (Vec::new(), self.at);
        loop {
            let Some(byte) = self.peek() else { return Err(Expected("a `]` for each `[`")) };
            if byte == b']' && self.at > start {
                self.at += 1;
                break;
            }
            match self.class_item()? {
                ClassItem::Ranges(more) => {
                    // A hyphen behind a class is no range, or an error, by the version of PCRE.
                    if self.peek() == Some(b'-') && self.text.get(self.at + 1) != Some(&b']') {
                        return Err(Lack("a range of classes"));
                    }
                    ranges.extend(more);
                }
                ClassItem::Byte(low) => ranges.push((low, self.range_end(low)?)),
            }
        }
        let ranges = ranges.iter().map(|&(low, high)| ClassBytesRange::new(low, high));
        let mut class = ClassBytes::new(ranges);
        if syntax.any_case {
            class.case_fold_simple();
        }
        if negated {
            class.negate();
        }
        Ok(Hir::class(Class::Bytes(class)))
    }

    /// The end of a range that begins with `low`.
    fn range_end(&mut self, low: u8) -> Parsed<u8> {
        let is_range = self.peek() == Some(b'-') && self.text.get(self.at + 1) != Some(&b']');
        if !is_range {
            return Ok(low);
        }
        self.at += 1;
        match self.class_item()? {
            ClassItem::Byte(high) if high >= low => Ok(high),
            ClassItem::Byte(_) => Err(Expected("the smaller end of a range first")),
            ClassItem::Ranges(_) => Err(Lack("a range of classes")),
        }
    }

    fn class_item(&mut self) -> Parsed<ClassItem> {
        let Some(byte) = self.peek() else { return Err(Expected("a `]` for each `[`")) };
        self.at += 1;
        match (byte, self.peek()) {
            (b'[', Some(b':')) => self.named_class(),
            (b'[', Some(b'.' | b'=')) => Err(Lack("collating elements")),
            (b'\\', Some(escaped)) => {
                self.at += 1;
                match class_of(escaped) {
                    Some(ranges) => Ok(ClassItem::Ranges(ranges)),
                    None if escaped == b'b' => Ok(ClassItem::Byte(0x08)),
                    None => Ok(ClassItem::Byte(self.character(escaped)?)),
                }
            }
            (byte, _) => Ok(ClassItem::Byte(byte)),
        }
    }

    /// `[:alpha:]`, behind its `[`. Without the end, the `[` is a byte.
    fn named_class(&mut self) -> Parsed<ClassItem> {
        let rest = &self.text[self.at + 1..];
        let Some(len) = rest.windows(2).position(|pair| pair == b":]") else {
            return Ok(ClassItem::Byte(b'['));
        };
        let (negated, name) = match &rest[..len] {
            [b'^', name @ ..] => (true, name),
            name => (false, name),
        };
        if !name.iter().all(u8::is_ascii_lowercase) {
            return Ok(ClassItem::Byte(b'['));
        }
        let ranges: &[(u8, u8)] = match name {
            b"alpha" => &[(b'A', b'Z'), (b'a', b'z')],
            b"digit" => &[(b'0', b'9')],
            b"alnum" => &[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')],
            b"upper" => &[(b'A', b'Z')],
            b"lower" => &[(b'a', b'z')],
            b"space" => &[(9, 13), (b' ', b' ')],
            b"blank" => &[(9, 9), (b' ', b' ')],
            b"punct" => &[(33, 47), (58, 64), (91, 96), (123, 126)],
            b"xdigit" => &[(b'0', b'9'), (b'A', b'F'), (b'a', b'f')],
            b"word" => &WORD,
            b"cntrl" => &[(0, 31), (127, 127)],
            b"graph" => &[(33, 126)],
            b"print" => &[(32, 126)],
            b"ascii" => &[(0, 127)],
            _ => return Err(Expected("the name of a class, such as [:alpha:]")),
        };
        self.at += len + 3;
        Ok(ClassItem::Ranges(if negated { complement(ranges) } else { ranges.to_vec() }))
    }
}

enum ClassItem {
    Byte(u8),
    Ranges(Vec<(u8, u8)>),
}

const WORD: [(u8, u8); 4] = [(b'0', b'9'), (b'A', b'Z'), (b'_', b'_'), (b'a', b'z')];

/// The class of an escape such as `\d`.
fn class_of(escaped: u8) -> Option<Vec<(u8, u8)>> {
    let ranges: &[(u8, u8)] = match escaped.to_ascii_lowercase() {
        b'd' => &[(b'0', b'9')],
        b'w' => &WORD,
        b's' => &[(9, 13), (b' ', b' ')],
        b'h' => &[(9, 9), (b' ', b' '), (0xa0, 0xa0)],
        b'v' => &[(10, 13), (0x85, 0x85)],
        _ => return None,
    };
    Some(if escaped.is_ascii_uppercase() { complement(ranges) } else { ranges.to_vec() })
}

/// All bytes that sorted ranges lack.
fn complement(ranges: &[(u8, u8)]) -> Vec<(u8, u8)> {
    let mut class =
        ClassBytes::new(ranges.iter().map(|&(low, high)| ClassBytesRange::new(low, high)));
    class.negate();
    class.iter().map(|range| (range.start(), range.end())).collect()
}

fn bytes(ranges: &[(u8, u8)]) -> Hir {
    let ranges = ranges.iter().map(|&(low, high)| ClassBytesRange::new(low, high));
    Hir::class(Class::Bytes(ClassBytes::new(ranges)))
}

fn literal(byte: u8, syntax: Syntax) -> Hir {
    match syntax.any_case && byte.is_ascii_alphabetic() {
        true => {
            let (upper, lower) = (byte.to_ascii_uppercase(), byte.to_ascii_lowercase());
            bytes(&[(upper, upper), (lower, lower)])
        }
        false => Hir::literal([byte]),
    }
}

/// The end, or a last newline and the end.
fn soft_end() -> ExpressionPart {
    let newline = Box::new(Hir::literal(*b"\n"));
    let newline = Repetition { min: 0, max: Some(1), greedy: false, sub: newline };
    let hir = Hir::concat(vec![Hir::repetition(newline), Hir::look(Look::End)]);
    ExpressionPart { soft_end: true, repeats: false, ..ExpressionPart::new(hir) }
}
