//! Numbers in a payload: `byte_test`, `byte_jump` and `isdataat`.

use super::content::is_variable;
use super::lack::Lack;
use super::number::{leading_number, number, signed};
use super::signature::Unfit;

/// The most bytes of a binary number, and of a number in digits.
const BINARY_LEN_MAX: u8 = 8;
const DIGITS_MAX: u8 = 23;
/// The farthest that `byte_jump` names.
const JUMP_MAX: i64 = 65_535;
/// An address of a payload: Suricata compares pointers, and a jump may leave the address space.
const ADDRESS: u64 = 1 << 46;

/// Where a number is, and how it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PayloadField {
    /// Bytes.
    len: u8,
    offset: i32,
    /// Whether it is counted from the end of the match before.
    pub(super) is_relative: bool,
    format: FieldFormat,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum FieldFormat {
    BigEndian,
    LittleEndian,
    /// Digits of this base; 0 for the base that the digits tell.
    Digits(u32),
}

impl PayloadField {
    /// Where it begins, its value, and the bytes that make up the value.
    fn value(&self, payload: &[u8], previous: usize) -> Option<(i64, u64, u64)> {
        let base = if self.is_relative { previous as i64 } else { 0 };
        let start = base + i64::from(self.offset);
        let rest = payload.len() as i64 - start;
        let needs_rest = self.is_relative && self.len > 0;
        if start < 0 || i64::from(self.len) > rest || needs_rest && rest <= 0 {
            return None;
        }
        let bytes = &payload[start as usize..][..usize::from(self.len)];
        let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        let (value, len) = match self.format {
            FieldFormat::BigEndian => (bytes.iter().fold(0, join), self.len.into()),
            FieldFormat::LittleEndian => (bytes.iter().rev().fold(0, join), self.len.into()),
            FieldFormat::Digits(base) => {
                let (value, len) = leading_number(bytes, base)?;
                (value, len as u64)
            }
        };
        Some((start, value, len))
    }
}

/// Compares a number of the payload.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ByteTest {
    pub(super) field: PayloadField,
    operator: Operator,
    negated: bool,
    value: u64,
    mask: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Has a bit of the value.
    And,
    /// Has a bit that differs.
    Xor,
}

impl ByteTest {
    /// Reads `BYTES, OPERATOR, VALUE, OFFSET` and options.
    pub(super) fn read(value: &str) -> Result<ByteTest, Unfit> {
        let parts: Vec<&str> = value.split(',').map(str::trim).collect();
        let [len, operator, value, offset, options @ ..] = &parts[..] else {
            return Err("the number of bytes, an operator, a value and an offset".into());
        };
        if [len, value, offset].iter().any(|part| is_variable(part)) {
            return Err(Unfit::Lack(Lack::value("byte_test", "a variable")));
        }
        let (negated, operator) = match operator.strip_prefix('!') {
            Some(operator) => (true, operator.trim()),
            None => (false, *operator),
        };
        let operator = match operator {
            "=" => Operator::Equal,
            "" if negated => Operator::Equal,
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            ">" => Operator::Greater,
            ">=" => Operator::GreaterOrEqual,
            "&" => Operator::And,
            "^" => Operator::Xor,
            _ => return Err("one of the operators =, <, >, <=, >=, & and ^, or `!` and one".into()),
        };
        let (value, _) = leading_number(value.as_bytes(), 0).ok_or("a number as the value")?;
        let offset = signed(offset).and_then(|offset| i32::try_from(offset).ok());
        let offset = offset.ok_or("an offset from -2147483648 to 2147483647")?;
        let (mut reader, mut mask) = (FieldReader::new("byte_test"), None);
        for option in options {
            let word = option.to_ascii_lowercase();
            match word.strip_prefix("bitmask") {
                Some(digits) => {
                    let digits = number(digits.trim()).and_then(|mask| u32::try_from(mask).ok());
                    mask = Some(digits.ok_or("a bitmask of at most 32 bits: bitmask 0xf0")?);
                }
                None if !reader.option(option)? => {
                    return Err(
                        "relative, big, little, string, dec, hex, oct, dce or bitmask".into()
                    );
                }
                None => {}
            }
        }
        let field = reader.field(len, offset)?;
        if field.len == 0 {
            return Err(Unfit::Lack(Lack::value("byte_test", "no bytes")));
        }
        Ok(ByteTest { field, operator, negated, value, mask })
    }

    /// Whether the number is as the rule says.
    pub(super) fn matches(&self, payload: &[u8], previous: usize) -> bool {
        let Some((_, mut number, _)) = self.field.value(payload, previous) else { return false };
        if let Some(mask) = self.mask {
            number = (number & u64::from(mask)) >> mask.trailing_zeros().min(31);
        }
        let value = self.value;
        let is_so = match self.operator {
            Operator::Equal => number == value,
            Operator::Less => number < value,
            Operator::LessOrEqual => number <= value,
            Operator::Greater => number > value,
            Operator::GreaterOrEqual => number >= value,
            Operator::And => number & value != 0,
            Operator::Xor => number ^ value != 0,
        };
        is_so != self.negated
    }
}

/// Goes to a place that a number of the payload names.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ByteJump {
    pub(super) field: PayloadField,
    origin: JumpOrigin,
    multiplier: u16,
    is_aligned: bool,
    post_offset: i32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum JumpOrigin {
    Field,
    Start,
    End,
}

impl ByteJump {
    /// Reads `BYTES, OFFSET` and options.
    pub(super) fn read(value: &str) -> Result<ByteJump, Unfit> {
        let parts: Vec<&str> = value.split(',').map(str::trim).collect();
        let [len, offset, options @ ..] = &parts[..] else {
            return Err("the number of bytes and an offset".into());
        };
        if is_variable(len) || is_variable(offset) {
            return Err(Unfit::Lack(Lack::value("byte_jump", "a variable")));
        }
        let far = |text: &str| -> Option<i32> {
            let far: i64 = text.trim().parse().ok()?;
            (-JUMP_MAX..=JUMP_MAX).contains(&far).then_some(far as i32)
        };
        let offset = far(offset).ok_or("an offset from -65535 to 65535")?;
        let (mut reader, mut origin) = (FieldReader::new("byte_jump"), JumpOrigin::Field);
        let (mut multiplier, mut is_aligned, mut post_offset) = (1, false, 0);
        for option in options {
            let word = option.to_ascii_lowercase();
            let (name, value) = word.split_once(' ').unwrap_or((&word, ""));
            match (name, value) {
                ("multiplier", value) => {
                    let value = value.trim().parse().ok().filter(|&value| value > 0);
                    multiplier = value.ok_or("a multiplier from 1 to 65535")?;
                }
                ("post_offset", value) => {
                    post_offset = far(value).ok_or("a post_offset from -65535 to 65535")?;
                }
                ("align", "") => is_aligned = true,
                ("from_beginning", "") if origin != JumpOrigin::End => origin = JumpOrigin::Start,
                ("from_end", "") if origin != JumpOrigin::Start => origin = JumpOrigin::End,
                ("from_beginning" | "from_end", "") => {
                    return Err("one of from_beginning and from_end".into());
                }
                _ if !reader.option(option)? => {
                    return Err(
                        "relative, big, little, string, dec, hex, oct, align, multiplier, \
                                post_offset, from_beginning, from_end or dce"
                            .into(),
                    );
                }
                _ => {}
            }
        }
        let field = reader.field(len, offset)?;
        if field.len == 0 && matches!(field.format, FieldFormat::Digits(_)) {
            return Err(Unfit::Lack(Lack::value("byte_jump", "no digits")));
        }
        Ok(ByteJump { field, origin, multiplier, is_aligned, post_offset })
    }

    /// Where it goes; `None` if that is behind the payload, or if there is no number.
    pub(super) fn target(&self, payload: &[u8], previous: usize) -> Option<usize> {
        let (start, value, value_len) = self.field.value(payload, previous)?;
        let mut jump = value.wrapping_mul(self.multiplier.into());
        if self.is_aligned && jump % 4 != 0 {
            jump = jump.wrapping_add(4 - jump % 4);
        }
        jump = jump.wrapping_add(i64::from(self.post_offset) as u64);
        let origin = match self.origin {
            JumpOrigin::Start => 0,
            JumpOrigin::End => payload.len() as u64,
            JumpOrigin::Field => start as u64 + value_len,
        };
        let target = ADDRESS.wrapping_add(origin).wrapping_add(jump);
        let target = target.saturating_sub(ADDRESS);
        (target <= payload.len() as u64).then_some(target as usize)
    }
}

/// Reads options of a field.
struct FieldReader {
    keyword: &'static str,
    is_relative: bool,
    is_little: bool,
    is_text: bool,
    bases: Vec<u32>,
}

impl FieldReader {
    fn new(keyword: &'static str) -> FieldReader {
        FieldReader { keyword, is_relative: false, is_little: false, is_text: false, bases: vec![] }
    }

    /// Reads an option; `false` if it is none of a field.
    fn option(&mut self, option: &str) -> Result<bool, Unfit> {
        let word = option.to_ascii_lowercase();
        match word.as_str() {
            _ if option == "relative" => self.is_relative = true,
            "string" => self.is_text = true,
            "dec" => self.bases.push(10),
            "hex" => self.bases.push(16),
            "oct" => self.bases.push(8),
            "big" => self.is_little = false,
            "little" => self.is_little = true,
            "dce" => return Err(Unfit::Lack(Lack::value(self.keyword, "dce"))),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn field(self, len: &str, offset: i32) -> Result<PayloadField, Unfit> {
        let len_max = if self.is_text { DIGITS_MAX } else { BINARY_LEN_MAX };
        let len = len.parse().ok().filter(|len| *len <= len_max);
        let len = len.ok_or("at most 8 bytes, or 23 with `string`")?;
        let format = match (self.is_text, &self.bases[..]) {
            (true, []) => FieldFormat::Digits(0),
            (true, &[base]) => FieldFormat::Digits(base),
            (true, _) => return Err(Unfit::Lack(Lack::value(self.keyword, "several bases"))),
            (false, []) if self.is_little => FieldFormat::LittleEndian,
            (false, []) => FieldFormat::BigEndian,
            (false, _) => return Err("`string` with dec, hex and oct".into()),
        };
        Ok(PayloadField { len, offset, is_relative: self.is_relative, format })
    }
}

/// Whether the payload has a byte at a place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DataAt {
    place: u16,
    pub(super) is_relative: bool,
    negated: bool,
}

impl DataAt {
    /// Reads `!PLACE,relative,rawbytes`. As in Suricata, `rawbytes` needs `relative`.
    pub(super) fn read(value: &str) -> Result<DataAt, Unfit> {
        const PLACE: &str = "a place from 0 to 65535";
        let (negated, rest) = match value.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, value),
        };
        let mut parts = rest.split(',');
        let place = parts.next().unwrap_or_default().trim_end();
        let options: Vec<&str> = parts.map(str::trim).collect();
        let is_relative = match options[..] {
            [] => false,
            ["relative"] | ["relative", "rawbytes"] => true,
            _ => return Err("nothing, `relative` or `relative,rawbytes` behind the place".into()),
        };
        if is_variable(place) {
            return Err(Unfit::Lack(Lack::value("isdataat", "a variable")));
        }
        if place.starts_with(char::is_whitespace) {
            return Err("no blank behind the `!`".into());
        }
        let number = leading_number(place.as_bytes(), 10);
        let number = number.filter(|&(_, len)| len == place.len());
        let place = number.and_then(|(place, _)| u16::try_from(place).ok()).ok_or(PLACE)?;
        Ok(DataAt { place, is_relative, negated })
    }

    /// Whether this is another way to write `endswith`.
    pub(super) fn is_end(&self) -> bool {
        self.place == 1 && self.is_relative && self.negated
    }

    /// Whether the payload is as the rule says.
    pub(super) fn matches(&self, payload: &[u8], previous: usize) -> bool {
        let place = usize::from(self.place);
        let has = match self.is_relative {
            true => previous + place <= payload.len(),
            false => place < payload.len(),
        };
        has != self.negated
    }
}

#[cfg(test)]
#[path = "field_tests.rs"]
mod tests;
