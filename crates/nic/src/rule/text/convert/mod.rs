//! Converts rules of other tools to `flow create` lines.
//!
//! Each rule becomes one line that matches the same packets and does the same with them. A part
//! without an equivalent that changes neither becomes a comment; a part that would change either is
//! refused with its position, so nothing is dropped silently.

mod classbench;
mod ethtool;
mod tc;

use std::collections::HashSet;
use std::fmt::{Display, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::LINE_LEN_MAX;
use super::error::check_mark;
use crate::limits::{PRIORITY_MAX, QUEUES_MAX};
use crate::rule::item::{Item, ItemMatch};
use crate::text::{Problem, TextError};

/// The format of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// ClassBench filter sets: `@10.0.0.0/8 0.0.0.0/0 0 : 65535 53 : 53 0x11/0xFF`, the most
    /// important first. They have no actions: all become `queue index 0`.
    ClassBench,
    /// `ethtool -N eth0 flow-type tcp4 …`.
    Ethtool,
    /// `tc filter add … flower …`, and the output of `tc filter show`.
    Tc,
}

/// Converts a text; the result ends with a line feed unless it is empty.
///
/// # Errors
/// The first rule that is wrong or has no equivalent, with its position.
pub fn convert(format: Format, text: &str) -> Result<String, TextError> {
    check_mark(1, text)?;
    for (line, text) in (1..).zip(text.lines()) {
        if text.len() > LINE_LEN_MAX {
            let reason = format!("the line is longer than {LINE_LEN_MAX} bytes");
            return Err(TextError::whole(line, reason));
        }
    }
    let mut out = String::new();
    let mut rules = Rules { out: &mut out };
    match format {
        Format::ClassBench => classbench::convert(text, &mut rules)?,
        Format::Ethtool => ethtool::convert(text, &mut rules)?,
        Format::Tc => tc::convert(text, &mut rules)?,
    }
    Ok(out)
}

/// The converted rules.
struct Rules<'o> {
    out: &'o mut String,
}

impl Rules<'_> {
    /// Adds a comment: a part of the next rule that has no equivalent.
    fn comment(&mut self, line: u64, what: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "# line {line}: {what}");
    }

    fn rule(&mut self, (group, priority): (u32, u32), items: &Items, action: &str) {
        let _ =
            write!(self.out, "flow create 0 group {group} priority {priority} ingress pattern ");
        for item in &items.0 {
            let _ = write!(self.out, "{item} / ");
        }
        let _ = writeln!(self.out, "end actions {action} / end");
    }
}

/// The items of a rule while it is read, outermost first.
#[derive(Debug, Default)]
struct Items(Vec<ItemMatch>);

/// The order of the items. Within a kind, `place` distinguishes the outer tag from the inner one.
fn rank(item: Item) -> u8 {
    match item {
        Item::Eth => 0,
        Item::Vlan => 1,
        Item::Ipv4 | Item::Ipv6 => 2,
        _ => 3,
    }
}

impl Items {
    /// The item of this kind after `place` others of the kind; it is added if it is missing.
    fn item(&mut self, item: Item, place: usize) -> &mut ItemMatch {
        while self.0.iter().filter(|have| have.item == item).count() <= place {
            let at = self.0.iter().take_while(|have| rank(have.item) <= rank(item)).count();
            self.0.insert(at, ItemMatch::any(item));
        }
        let at = self.0.iter().enumerate().filter(|(_, have)| have.item == item).nth(place);
        let at = at.map_or(0, |(at, _)| at);
        &mut self.0[at]
    }

    /// Matches bits of a field. A mask without bits only asks for the header.
    fn set(&mut self, item: Item, name: &str, value: u128, mask: u128) {
        self.set_at((item, 0), name, value, mask);
    }

    fn set_at(&mut self, (item, place): (Item, usize), name: &str, value: u128, mask: u128) {
        let image = self.item(item, place);
        if let Some(field) = item.field(name) {
            field.put(&mut image.spec, value & mask);
            field.put(&mut image.mask, mask);
        }
    }

    /// Matches a field's exact value.
    fn is(&mut self, item: Item, name: &str, value: u128) {
        let ones = item.field(name).map_or(0, |field| field.ones());
        self.set(item, name, value, ones);
    }

    /// Matches a range of ports; the whole range has no effect.
    fn range(&mut self, item: Item, name: &str, first: u16, last: u16) {
        let Some(field) = item.field(name) else { return };
        let image = self.item(item, 0);
        if (first, last) == (0, u16::MAX) {
            return;
        }
        field.put(&mut image.spec, first.into());
        field.put(&mut image.mask, field.ones());
        if first != last {
            let end = image.last.get_or_insert(ItemMatch::any(item).spec);
            field.put(end, last.into());
        }
    }
}

/// Lines of a shell script that change no rule: `NAME=value`, once for each name, and `set -e`.
#[derive(Default)]
struct Settings<'t>(HashSet<&'t str>);

impl<'t> Settings<'t> {
    /// Whether this line is one.
    fn take(&mut self, line: u64, text: &'t str) -> Result<bool, TextError> {
        let mut words = Tokens::default();
        words.add(line, text);
        let Some(name) = setting(&words) else { return Ok(false) };
        if name != "set" && !self.0.insert(name) {
            words.next();
            let reason = format!("a second value of {name}: convert what uses each by itself");
            return Err(words.unfit(reason));
        }
        Ok(true)
    }
}

/// The name to which a line of a script assigns a plain value, or `set` if the line sets shell
/// options that do not change the commands.
fn setting<'t>(words: &Tokens<'t>) -> Option<&'t str> {
    const OPTIONS: [&str; 5] = ["errexit", "nounset", "pipefail", "verbose", "xtrace"];
    let (first, rest) = words.tokens.split_first()?;
    let is_option = |word: &str| {
        let letters = word.strip_prefix(['-', '+']).unwrap_or_default();
        let is_letters = !letters.is_empty() && letters.bytes().all(|it| b"eEufovx".contains(&it));
        is_letters || OPTIONS.contains(&word)
    };
    if first.word == "set" {
        let is_plain = !rest.is_empty() && rest.iter().all(|token| is_option(token.word));
        return is_plain.then_some("set");
    }
    let (name, value) = first.word.split_once('=').filter(|_| rest.is_empty())?;
    let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''));
    let inside = quote.map_or(Some(value), |quote| value[1..].strip_suffix(quote))?;
    let of_name = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
    let of_value = |it: u8| of_name(it) || b".:/@%+,-${}".contains(&it);
    let is_name = name.bytes().all(of_name) && !name.starts_with(|it: char| it.is_ascii_digit());
    let is_plain = !inside.is_empty() && inside.bytes().all(of_value);
    (is_name && is_plain && !name.is_empty()).then_some(name)
}

/// A word and its position.
#[derive(Clone, Copy, Debug)]
struct Token<'t> {
    word: &'t str,
    line: u64,
    /// The whole line.
    text: &'t str,
    place: (usize, usize),
}

/// The words of a rule, which may have several lines.
#[derive(Debug, Default)]
struct Tokens<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
}

impl<'t> Tokens<'t> {
    /// Adds the words of a line, up to a `#`.
    fn add(&mut self, line: u64, text: &'t str) {
        let mut at = 0;
        for word in text.split_ascii_whitespace() {
            // Each word is searched after the end of the previous one.
            let start = at + text[at..].find(word).unwrap_or(0);
            at = start + word.len();
            if word.starts_with('#') {
                break;
            }
            self.tokens.push(Token { word, line, text, place: (start, at) });
        }
    }

    /// Cuts off a comment: a `#` and all after it, also within a word.
    fn cut_comment(&mut self) {
        let Some(at) = self.tokens.iter().position(|token| token.word.contains('#')) else {
            return;
        };
        self.tokens.truncate(at + 1);
        let token = &mut self.tokens[at];
        let len = token.word.find('#').unwrap_or_default();
        (token.word, token.place.1) = (&token.word[..len], token.place.0 + len);
        self.tokens.pop_if(|token| token.word.is_empty());
    }

    /// Removes the quotes around whole words.
    fn unquote(&mut self) -> Result<(), TextError> {
        for at in 0..self.tokens.len() {
            let token = &mut self.tokens[at];
            let is_quote = |letter: char| matches!(letter, '"' | '\'');
            let Some(quote) = token.word.chars().next().filter(|first| is_quote(*first)) else {
                if token.word.contains(is_quote) {
                    return Err(self.unfit_at(at, "quotes within a word: write it without"));
                }
                continue;
            };
            let inside =
                token.word[1..].strip_suffix(quote).filter(|word| !word.contains(is_quote));
            let Some(inside) = inside else {
                return Err(self.unfit_at(at, "quotes around more than a word: write one word"));
            };
            token.word = inside;
        }
        Ok(())
    }

    /// Removes the `\` at the end of the last line; returns whether there was one.
    fn pop_backslash(&mut self) -> Result<bool, TextError> {
        let Some(last) = self.tokens.last_mut() else { return Ok(false) };
        let Some(word) = last.word.strip_suffix('\\') else { return Ok(false) };
        if last.place.1 < last.text.len() {
            let reason = "a blank behind the `\\`: it joins lines at the very end alone; remove it";
            return Err(self.unfit_at(self.tokens.len() - 1, reason));
        }
        (last.word, last.place.1) = (word, last.place.1 - 1);
        self.tokens.pop_if(|token| token.word.is_empty());
        Ok(true)
    }

    /// Whether the word before this position ends at a `\` that ended its line.
    fn is_cut(&self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|at| self.tokens.get(at));
        before.is_some_and(|token| token.place.1 + 1 == token.text.len())
    }

    /// The next word; empty at the end.
    fn next(&mut self) -> &'t str {
        let word = self.peek();
        self.at += 1;
        word
    }

    fn peek(&self) -> &'t str {
        self.tokens.get(self.at).map_or("", |token| token.word)
    }

    /// The word after the next one.
    fn peek_second(&self) -> &'t str {
        self.tokens.get(self.at + 1).map_or("", |token| token.word)
    }

    /// The word that was read last.
    fn last(&self) -> &'t str {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        last.map_or("", |token| token.word)
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// The line of the rule's first word.
    fn line(&self) -> u64 {
        self.tokens.first().map_or(0, |token| token.line)
    }

    /// A problem with the word that was read last.
    fn error(&self, problem: Problem) -> TextError {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        match (last, self.tokens.last()) {
            (Some(token), _) => TextError::new(token.line, token.text, token.place, problem),
            (None, Some(token)) => {
                let end = token.place.1;
                TextError::new(token.line, token.text, (end, end), problem)
            }
            (None, None) => TextError::new(0, "", (0, 0), problem),
        }
    }

    fn expected(&self, expected: impl Into<String>) -> TextError {
        let found = self.last().to_owned();
        self.error(Problem::Expected { expected: expected.into(), found })
    }

    fn not_supported(&self, name: impl Into<String>) -> TextError {
        self.error(Problem::NotSupported { name: name.into() })
    }

    fn unfit(&self, reason: impl Into<String>) -> TextError {
        self.error(Problem::Unfit { reason: reason.into() })
    }

    /// The next word, a number up to `max`, decimal or with `0x`.
    fn number(&mut self, what: &str, max: u128) -> Result<u128, TextError> {
        let word = self.next();
        self.number_of(word, 10, what, max)
    }

    /// A number in this base, or hexadecimal after `0x`, in the word that was read last.
    fn number_of(&self, text: &str, base: u32, what: &str, max: u128) -> Result<u128, TextError> {
        let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let (digits, base) = hex.map_or((text, base), |digits| (digits, 16));
        let digit = |byte: u8| char::from(byte).is_digit(base);
        let plain = !digits.is_empty() && digits.bytes().all(digit);
        let number = plain.then(|| u128::from_str_radix(digits, base).ok()).flatten();
        let number = number.filter(|number| *number <= max);
        number.ok_or_else(|| self.expected(format!("{what}: a number from 0 to {max}")))
    }

    /// The next word, a number up to `max` that C reads in this base; in base 0 as in C's source,
    /// where `0x` is hexadecimal and a leading 0 octal.
    fn c_number(&mut self, what: &str, base: u32, max: u128) -> Result<u128, TextError> {
        let word = self.next();
        self.c_number_of(word, base, what, max)
    }

    /// Such a number in the word that was read last.
    fn c_number_of(&self, text: &str, base: u32, what: &str, max: u128) -> Result<u128, TextError> {
        let number = c_number(text, base).map(u128::from).filter(|number| *number <= max);
        number.ok_or_else(|| match base {
            16 => self.expected(format!("{what}: a hexadecimal number from 0 to {max:x}")),
            _ => self.expected(format!("{what}: a number from 0 to {max}")),
        })
    }

    /// An error for the word at this position, or for the last word if there is none.
    fn unfit_at(&self, at: usize, reason: &str) -> TextError {
        let (tokens, at) = (self.tokens.clone(), (at + 1).min(self.tokens.len()));
        Tokens { tokens, at }.unfit(reason)
    }

    /// An address, which is the word that was read last or a part of it.
    fn address<T: FromStr>(&self, text: &str, what: &str) -> Result<T, TextError> {
        text.parse().map_err(|_| self.expected(format!("{what}: an address")))
    }

    /// The bits of an address of this IP version.
    fn ip(&self, ip: Item, text: &str, what: &str) -> Result<u128, TextError> {
        match ip {
            Item::Ipv6 => Ok(self.address::<Ipv6Addr>(text, what)?.to_bits()),
            _ => Ok(self.address::<Ipv4Addr>(text, what)?.to_bits().into()),
        }
    }

    /// The next word, an address with or without a slash and a length: value and mask.
    fn prefix(&mut self, ip: Item, what: &str) -> Result<(u128, u128), TextError> {
        let word = self.next();
        let (address, len) = word.split_once('/').map_or((word, None), |(a, l)| (a, Some(l)));
        let bits = if ip == Item::Ipv6 { 128 } else { 32 };
        let value = self.ip(ip, address, what)?;
        let len = match len {
            None => bits,
            Some(len) => self.number_of(len, 10, &format!("{what}: length"), bits.into())? as u32,
        };
        Ok((value, ones(bits) & !ones(bits).checked_shr(len).unwrap_or(0)))
    }

    /// The next word, a MAC address.
    fn mac(&mut self, what: &str) -> Result<u128, TextError> {
        let word = self.next();
        self.mac_of(word, what)
    }

    fn mac_of(&self, text: &str, what: &str) -> Result<u128, TextError> {
        mac(text).ok_or_else(|| self.expected(format!("{what}: a MAC address")))
    }

    /// The action for a queue; an error if the card does not have this queue.
    fn queue(&self, queue: u128) -> Result<String, TextError> {
        match queue < QUEUES_MAX.into() {
            true => Ok(format!("queue index {queue}")),
            false => Err(self
                .unfit(format!("no queue {queue}; this NIC has queues 0 to {}", QUEUES_MAX - 1))),
        }
    }

    /// A priority; an error if the card does not have this priority.
    fn priority(&self, priority: u64) -> Result<u32, TextError> {
        let fits = u32::try_from(priority).ok().filter(|it| *it <= PRIORITY_MAX);
        fits.ok_or_else(|| {
            self.unfit(format!("priority {priority}; rules have 0 to {PRIORITY_MAX}"))
        })
    }
}

/// A text that C's `strtoul` reads in this base as one whole number.
fn c_number(text: &str, base: u32) -> Option<u64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, base) = match (base, hex) {
        (0 | 16, Some(digits)) => (digits, 16),
        (0, None) if text.len() > 1 && text.starts_with('0') => (text, 8),
        (0, None) => (text, 10),
        (base, _) => (text, base),
    };
    let is_digits = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(base));
    is_digits.then(|| u64::from_str_radix(digits, base).ok()).flatten()
}

/// Six numbers of one or two hexadecimal digits.
fn mac(word: &str) -> Option<u128> {
    let mut value = 0;
    let mut parts = word.split(':');
    for _ in 0..6 {
        let part = parts.next().filter(|part| (1..=2).contains(&part.len()))?;
        let is_hex = part.bytes().all(|byte| byte.is_ascii_hexdigit());
        value = value << 8 | u128::from(u8::from_str_radix(part, 16).ok().filter(|_| is_hex)?);
    }
    parts.next().is_none().then_some(value)
}

/// A number of `bits` ones, up to 128.
fn ones(bits: u32) -> u128 {
    u128::MAX.checked_shr(128 - bits).unwrap_or(0)
}

/// The item for the header of an IP protocol, if there is one.
fn transport(protocol: u128) -> Option<Item> {
    match protocol {
        1 => Some(Item::Icmp),
        6 => Some(Item::Tcp),
        17 => Some(Item::Udp),
        58 => Some(Item::Icmp6),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
