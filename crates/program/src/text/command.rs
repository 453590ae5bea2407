//! Commands to the control side: one a line, in the syntax of P4's STF tests.
//!
//! | command | what it does |
//! |---|---|
//! | `add TABLE [PRIORITY] KEY:VALUE … ACTION(ARGUMENT:VALUE, …)` | puts an entry in |
//! | `modify TABLE [PRIORITY] KEY:VALUE … ACTION(…)` | gives an entry another thing to do |
//! | `delete TABLE KEY:VALUE …` | takes an entry out |
//! | `setdefault TABLE ACTION(…)` | says what packets do that no entry matches |
//! | `group SELECTOR GROUP MEMBER[:WEIGHT] …` | says who is in a group |
//! | `register_write ARRAY INDEX VALUE` | writes a register |
//! | `meter_set_rates ARRAY INDEX CIR CBS PIR PBS` | bytes a second, and bytes at once |
//! | `mirroring_add SESSION PORT [LENGTH]` | says where copies go |
//! | `multicast_group GROUP PORT …` | says which ports a group has |
//!
//! A value is a number (decimal, `0x`, `0b`), an IPv4, IPv6 or MAC address. A prefix is
//! `VALUE/BITS`; a masked value `VALUE&&&MASK`, or digits of `0x` or `0b` with `*` for those that
//! do not count.
//!
//! Words may be written in the ways of P4's compilers (`stf_parser.py` and `bmv2stf.py` of p4c):
//! verbs in capitals, names in quotation marks or with the names of P4's controls and structs
//! before them (`hdr.ipv4.dst`), `hdr.vlan[0]` for `h.vlan_0`, blanks around punctuation.

use niclab_nic::text::{Problem, TextError};

use super::error::{Wrong, show};
use super::words::{Line, Word, commands};
use crate::entry::{Change, Entry, Key, Member, Part, Ports, Rates, Session};
use crate::form::{Field, FieldRef, Invocation, Kind, Match, Program};
use crate::limits::{MIRROR_SESSIONS, MULTICAST_GROUPS, MULTICAST_PORTS};
use crate::value;

/// A command to the control side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A change of a table.
    Change(Change),
    /// Write a register.
    Register {
        /// Number of the array.
        array: usize,
        /// Which.
        index: u64,
        /// What.
        value: u64,
    },
    /// Give a meter its rates.
    Meter {
        /// Number of the array.
        array: usize,
        /// Which.
        index: u64,
        /// Its rates.
        rates: Rates,
    },
    /// Say where copies go.
    Session {
        /// Number of the session.
        number: usize,
        /// Where.
        session: Session,
    },
    /// Say which ports a group has.
    Ports {
        /// Number of the group.
        group: usize,
        /// All its ports.
        ports: Ports,
    },
}

/// Which priority number counts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priorities {
    /// The lowest, as of entries in DPDK's pipeline: `key_priority` of `rte_swx_table.h`.
    LowestFirst,
    /// The highest, as in the STF of P4's compilers: `bmv2stf.py` turns the numbers round.
    HighestFirst,
}

/// What stands where a command begins.
const BEGINNINGS: &str = "`add`, `modify`, `delete`, `setdefault`, `group`, `register_write`, \
    `meter_set_rates`, `mirroring_add` or `multicast_group`";

impl Command {
    /// Reads a line. Of priorities the lowest number counts first, as in DPDK's pipeline.
    ///
    /// # Errors
    /// With the column of what is wrong, and what would do.
    pub fn read(program: &Program, text: &str) -> Result<Command, TextError> {
        let mut all = commands(text);
        let (line, more) = (all.next(), all.next());
        if let Some(more) = more {
            let wrong = more.first().expected("one command alone");
            return Err(show(text, wrong));
        }
        let read = line.map(|line| read(program, &line, Priorities::LowestFirst));
        let read = read.unwrap_or_else(|| {
            let problem =
                Problem::Expected { expected: BEGINNINGS.to_owned(), found: String::new() };
            Err(Wrong { at: super::error::At { line: 1, column: 1, width: 1 }, problem })
        });
        read.map_err(|wrong| show(text, wrong))
    }
}

pub(super) fn read(
    program: &Program,
    line: &Line<'_>,
    priorities: Priorities,
) -> Result<Command, Wrong> {
    let words = Words { program, line, priorities };
    let verb = line.first().text.to_ascii_lowercase();
    match verb.as_str() {
        "add" | "modify" => {
            let table = words.table(1)?;
            let (key, priority, at) = words.key(table, true)?;
            let does = words.action(table, at)?;
            let entry = Entry { key, priority, does };
            Ok(Command::Change(match verb.as_str() {
                "add" => Change::Add { table, entry },
                _ => Change::Modify { table, entry },
            }))
        }
        "delete" => {
            let table = words.table(1)?;
            let (key, _, at) = words.key(table, false)?;
            line.ends_at(at)?;
            Ok(Command::Change(Change::Delete { table, key }))
        }
        "setdefault" => {
            let table = words.table(1)?;
            let does = words.action(table, 2)?;
            Ok(Command::Change(Change::Default { table, does }))
        }
        "group" => words.group(),
        "register_write" => {
            line.ends_at(4)?;
            let (array, index) = register(program, line)?;
            Ok(Command::Register { array, index, value: line.at(3).plain()? })
        }
        "meter_set_rates" => words.meter(),
        "mirroring_add" => {
            line.ends_at(4)?;
            let number = session(line.at(1))?;
            let port = line.at(2).plain_in("a port", 0, u64::from(u32::MAX))? as u32;
            let len_max = match line.len() {
                4 => line.at(3).plain_in("a length", 1, u64::from(u32::MAX))? as u32,
                _ => u32::MAX,
            };
            Ok(Command::Session { number, session: Session { port, len_max } })
        }
        "multicast_group" => {
            let group = group_of_ports(line.at(1))?;
            let ports = (2..line.len()).try_fold(0, |all, at| Ok(all | 1 << port(line.at(at))?))?;
            Ok(Command::Ports { group, ports: Ports(ports) })
        }
        _ => Err(line.first().expected(BEGINNINGS)),
    }
}

/// A session of mirroring.
pub(super) fn session(word: Word<'_>) -> Result<usize, Wrong> {
    word.plain_in("a session", 0, MIRROR_SESSIONS - 1).map(|number| number as usize)
}

/// A group of ports.
pub(super) fn group_of_ports(word: Word<'_>) -> Result<usize, Wrong> {
    word.plain_in("a group", 0, MULTICAST_GROUPS - 1).map(|number| number as usize)
}

/// A port that can be in a group.
pub(super) fn port(word: Word<'_>) -> Result<u64, Wrong> {
    word.plain_in("a port", 0, MULTICAST_PORTS - 1)
}

/// `ARRAY INDEX` of registers behind the verb.
pub(super) fn register(program: &Program, line: &Line<'_>) -> Result<(usize, u64), Wrong> {
    let array = registers(program, line.at(1))?;
    Ok((array, index(line.at(2), program.registers[array].len)?))
}

/// The number of an array of registers.
pub(super) fn registers(program: &Program, word: Word<'_>) -> Result<usize, Wrong> {
    named(word, "regarray", program.registers.iter().map(|array| &array.name))
}

/// The number of an array of meters.
pub(super) fn meters(program: &Program, word: Word<'_>) -> Result<usize, Wrong> {
    named(word, "metarray", program.meters.iter().map(|array| &array.name))
}

/// The number of a name among those there are.
pub(super) fn named<'n>(
    word: Word<'_>,
    what: &str,
    names: impl Iterator<Item = &'n String>,
) -> Result<usize, Wrong> {
    let names: Vec<&String> = names.collect();
    meant(word.unquoted().text, &names).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        let there = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
        let article = if what.starts_with('a') { "an" } else { "a" };
        word.expected(format!("{article} {what}: {there}"))
    })
}

/// The number of the name that is written so, or of the only one that differs as p4c's backend for
/// DPDK renames what it has: without the controls before it (`ingress.acl` is `acl`), and with a
/// number behind it (`acl_0`).
fn meant(written: &str, names: &[&String]) -> Option<usize> {
    let exact = names.iter().position(|name| *name == written);
    let shorter = || only(names.iter().map(|name| is_end(name, written) || is_end(written, name)));
    let numbered = || only(names.iter().map(|name| is_numbered(name, written, "")));
    exact.or_else(shorter).or_else(numbered)
}

/// Whether a name is the last part of another, an underscore, a number, and what is behind it.
pub(super) fn is_numbered(name: &str, written: &str, behind: &str) -> bool {
    let last = written.rsplit('.').next().unwrap_or(written);
    let number = name.strip_prefix(last).and_then(|rest| rest.strip_suffix(behind));
    let digits = number.and_then(|number| number.strip_prefix('_')).unwrap_or_default();
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
}

/// Whether one name ends by a dot and the other.
fn is_end(long: &str, short: &str) -> bool {
    long.strip_suffix(short).is_some_and(|before| before.ends_with('.')) && !short.is_empty()
}

/// Where the only one is true.
pub(super) fn only(mut of: impl Iterator<Item = bool>) -> Option<usize> {
    let first = of.position(|is| is)?;
    (!of.any(|is| is)).then_some(first)
}

/// Which of an array of so many: only a packet's index is taken modulo.
pub(super) fn index(word: Word<'_>, len: usize) -> Result<u64, Wrong> {
    word.plain_in("an index", 0, len as u64 - 1)
}

struct Words<'a, 'p> {
    program: &'p Program,
    line: &'p Line<'a>,
    priorities: Priorities,
}

impl<'a> Words<'a, '_> {
    fn table(&self, at: usize) -> Result<usize, Wrong> {
        named(self.line.at(at), "table", self.program.tables.iter().map(|table| &table.name))
    }

    /// Key and priority, and the number of the word behind them.
    fn key(&self, table: usize, may_have_priority: bool) -> Result<(Key, u32, usize), Wrong> {
        let Kind::Match { key, .. } = &self.program.tables[table].kind else {
            let reason = "its entries are not the control side's";
            return Err(self.line.at(1).unfit(reason));
        };
        let (mut at, mut priority) = (2, 0);
        let second = self.line.at(2);
        if may_have_priority && !second.text.contains([':', '(']) {
            priority = second.plain_in("a priority", 0, u64::from(u32::MAX))? as u32;
            at = 3;
        }
        let has_priority = key.iter().any(|(_, how)| *how == Match::Wildcard);
        if self.priorities == Priorities::HighestFirst {
            // Of another table it means nothing there, and may be written.
            priority = if has_priority { u32::MAX - priority } else { 0 };
        }
        let mut parts: Vec<Option<Part>> = vec![None; key.len()];
        while let Some((name, text)) = split(self.line.at(at)) {
            let field = self.key_field(key, name)?;
            if parts[field].is_some() {
                return Err(name.unfit(format!("`{}` stands here already", name.text)));
            }
            let (place, how) = &key[field];
            parts[field] = Some(part(text, place.len_bytes(), *how)?);
            at += 1;
        }
        let missing = parts.iter().position(Option::is_none);
        if let Some(missing) = missing {
            // One that may match anything need not be said.
            let is_free = |(part, (_, how)): (&Option<Part>, &(FieldRef, Match))| {
                part.is_some() || *how == Match::Wildcard
            };
            if !parts.iter().zip(key).all(is_free) {
                let name = self.program.name_of(&key[missing].0);
                return Err(self.line.at(at).expected(format!("`{name}:VALUE`")));
            }
        }
        let any = |(place, _): &(FieldRef, Match)| {
            Part::masked(&vec![0; place.len_bytes()], vec![0; place.len_bytes()])
        };
        let key = parts.into_iter().zip(key).map(|(part, of)| part.unwrap_or_else(|| any(of)));
        Ok((key.collect(), priority, at))
    }

    /// The field of a key by its name, by the last parts of it, or with another name of P4 in place
    /// of `h` or `m`.
    fn key_field(&self, key: &[(FieldRef, Match)], name: Word<'_>) -> Result<usize, Wrong> {
        let names: Vec<String> = key.iter().map(|(place, _)| self.program.name_of(place)).collect();
        let written = flattened(name.unquoted().text);
        let whole = names.iter().position(|of| *of == written);
        let short = || only(names.iter().map(|of| is_end(of, &written)));
        let renamed = || {
            let (first, rest) = written.split_once('.')?;
            let is_other = !matches!(first, "h" | "m" | "t");
            only(names.iter().map(|of| is_other && of.get(2..) == Some(rest)))
        };
        whole
            .or_else(short)
            .or_else(renamed)
            .ok_or_else(|| name.expected(format!("a field of the key: {}", names.join(", "))))
    }

    /// `ACTION(ARGUMENT:VALUE, …)` from a word on to the end of the line.
    fn action(&self, table: usize, at: usize) -> Result<Invocation, Wrong> {
        let Some(actions) = self.program.tables[table].kind.actions() else {
            return Err(self.line.at(1).unfit("a selector has no actions"));
        };
        let word = self.line.at(at);
        let wrong = || word.expected("an action with its arguments, as `name(argument:value)`");
        let from = outside(word.text, '(').ok_or_else(wrong)? + 1;
        let (name, inner) = (&word.text[..from - 1], &word.text[from..]);
        let Some(inner) = inner.strip_suffix(')') else {
            return Err(self.line.at(self.line.len()).expected("`)`"));
        };
        self.line.ends_at(at + 1)?;
        let names = actions.of.iter().map(|(action, _)| &self.program.actions[*action].name);
        let chosen = named(word.part(0, name), "action of this table", names)?;
        let action = actions.of[chosen].0;
        // The parts between the commas, each where it stands.
        let (mut parts, mut at): (Vec<Word<'a>>, usize) = (Vec::new(), from);
        for piece in inner.split(',') {
            parts.push(word.part(at, piece));
            at += piece.len() + 1;
        }
        parts.retain(|part| !part.text.is_empty());
        let arguments = self.arguments(self.program.arguments(action), &parts, word)?;
        Ok(Invocation { action, arguments })
    }

    /// The values of arguments: all with their names in any order, or all without in theirs.
    fn arguments(
        &self,
        fields: &[Field],
        parts: &[Word<'a>],
        action: Word<'a>,
    ) -> Result<Vec<Vec<u8>>, Wrong> {
        let mut values: Vec<Option<Vec<u8>>> = vec![None; fields.len()];
        let has_name = |word: &Word<'a>, at: usize| {
            // An address without a name has colons as well.
            let is_value = fields.get(at).is_some_and(|of| value_of(*word, of).is_ok());
            word.text.contains(':') && !is_value
        };
        let is_positional = parts.first().is_some_and(|first| !has_name(first, 0));
        for (at, word) in parts.iter().enumerate() {
            let (name, text, field) = match (is_positional, has_name(word, at)) {
                (true, false) if at >= fields.len() => {
                    let there = fields.len();
                    let reason = format!("the action has {there} arguments, and this is one more");
                    return Err(word.unfit(reason));
                }
                (true, false) => (*word, *word, at),
                (false, _) => {
                    let (name, text) =
                        split(*word).ok_or_else(|| word.expected("`argument:value`"))?;
                    let names = fields.iter().map(|field| &field.name);
                    (name, text, named(name, "argument", names)?)
                }
                (true, true) => {
                    let reason = "name all arguments, or none: this one has a name";
                    return Err(word.unfit(reason));
                }
            };
            if values[field].is_some() {
                return Err(name.unfit(format!("`{}` stands here already", name.text)));
            }
            values[field] = Some(value_of(text, &fields[field])?);
        }
        let missing = values.iter().position(Option::is_none);
        match missing {
            Some(field) => {
                Err(action.unfit(format!("the argument `{}` is missing", fields[field].name)))
            }
            None => Ok(values.into_iter().flatten().collect()),
        }
    }

    fn group(&self) -> Result<Command, Wrong> {
        let table = self.table(1)?;
        let group = self.line.at(2).plain_in("a group", 0, u64::from(u32::MAX))? as u32;
        let mut members = Vec::new();
        for at in 3..self.line.len() {
            let word = self.line.at(at);
            let (id, weight) = match word.text.split_once(':') {
                Some((id, weight)) => (id, weight),
                None => (word.text, "1"),
            };
            let number = |text: &str| {
                Word { text: text.trim(), at: word.at }.plain_in("a number", 0, u64::from(u32::MAX))
            };
            members.push(Member { id: number(id)? as u32, weight: number(weight)? as u32 });
        }
        Ok(Command::Change(Change::Group { table, group, members }))
    }

    /// The rates as RFC 2698 wants them (section 2).
    fn meter(&self) -> Result<Command, Wrong> {
        self.line.ends_at(7)?;
        let array = meters(self.program, self.line.at(1))?;
        let index = index(self.line.at(2), self.program.meters[array].len)?;
        let burst = |at: usize| -> Result<u32, Wrong> {
            let bytes = self.line.at(at).plain_in("bytes of a burst", 1, u64::from(u32::MAX))?;
            Ok(bytes as u32)
        };
        let rates = Rates {
            committed: self.line.at(3).plain()?,
            committed_burst: burst(4)?,
            peak: self.line.at(5).plain()?,
            peak_burst: burst(6)?,
        };
        if rates.peak < rates.committed {
            let what =
                format!("a peak rate that is no less than the committed {}", rates.committed);
            return Err(self.line.at(5).expected(what));
        }
        Ok(Command::Meter { array, index, rates })
    }
}

/// The bytes of an argument.
fn value_of(word: Word<'_>, field: &Field) -> Result<Vec<u8>, Wrong> {
    let bytes = value::parse(word.text, field.bits as usize / 8);
    bytes.ok_or_else(|| word.expected(format!("a value of {} bits", field.bits)))
}

/// A name of P4 with the number of a header of a stack, `vlan[1]` or `vlan$1`, as p4c's backend
/// for DPDK has it: `vlan_1`.
fn flattened(name: &str) -> String {
    name.replace(['[', '$'], "_").replace(']', "")
}

/// `NAME:VALUE`; the value may have colons, as addresses do.
pub(super) fn split(word: Word<'_>) -> Option<(Word<'_>, Word<'_>)> {
    let colon = outside(word.text, ':')?;
    let is_before = outside(word.text, '(').is_some_and(|at| at < colon);
    let (name, text) = (&word.text[..colon], &word.text[colon + 1..]);
    (!is_before).then(|| (word.part(0, name), word.part(colon + 1, text)))
}

/// Where the first of a character stands that is in no quotation marks.
fn outside(text: &str, wanted: char) -> Option<usize> {
    let mut is_quoted = false;
    let mut is_it = |(_, c): &(usize, char)| {
        is_quoted ^= *c == '"';
        !is_quoted && *c == wanted
    };
    text.char_indices().find(|of| is_it(of)).map(|(at, _)| at)
}

/// What an entry wants of a field.
fn part(word: Word<'_>, len: usize, how: Match) -> Result<Part, Wrong> {
    let value = |text: &str| {
        let wrong = || word.expected(format!("a value of {} bits", 8 * len));
        value::parse(text.trim(), len).ok_or_else(wrong)
    };
    let masked = || -> Result<Part, Wrong> {
        match word.text.split_once("&&&") {
            Some((of, mask)) => Ok(Part::masked(&value(of)?, value(mask)?)),
            None if word.text == "*" => Ok(Part::masked(&vec![0; len], vec![0; len])),
            None if word.text.contains('*') => starred(word, len),
            None => Ok(Part::exact(value(word.text)?)),
        }
    };
    match how {
        Match::Exact if word.text.contains('*') || word.text.contains("&&&") => {
            Err(word.expected(format!("a whole value of {} bits: the field is `exact`", 8 * len)))
        }
        Match::Exact => Ok(Part::exact(value(word.text)?)),
        Match::Prefix | Match::Wildcard if word.text.contains('/') => {
            let (of, bits) = word.text.split_once('/').unwrap_or((word.text, ""));
            let wrong = || word.expected(format!("a prefix of 0 to {} bits", 8 * len));
            let bits = value::parse(bits.trim(), 4).ok_or_else(wrong)?;
            let bits = value::to_number(&bits);
            if bits > 8 * len as u64 {
                return Err(wrong());
            }
            Ok(Part::prefix(&value(of)?, bits as u32))
        }
        Match::Wildcard => masked(),
        Match::Prefix => {
            // Digits in front that are left out are zero: a prefix begins at the first bit.
            let stars = word.text.chars().rev().take_while(|c| *c == '*').count();
            let digits = word.text.trim_end_matches('*');
            if word.text != "*" && stars > 0 && !digits.contains('*') {
                let bits = (8 * len).checked_sub(stars * star_bits(word)?);
                let wrong = || word.expected(format!("a value of {} bits", 8 * len));
                let of = value(&format!("{digits}{}", "0".repeat(stars)))?;
                return Ok(Part::prefix(&of, bits.ok_or_else(wrong)? as u32));
            }
            let part = masked()?;
            let wrong =
                || word.expected("a prefix: the field is `lpm`, and its last bits are free");
            part.prefix_len().map(|_| part).ok_or_else(wrong)
        }
    }
}

/// Bits that a `*` among the digits of a value stands for.
fn star_bits(word: Word<'_>) -> Result<usize, Wrong> {
    match word.text.get(..2) {
        Some("0x" | "0X") => Ok(4),
        Some("0b" | "0B") => Ok(1),
        _ => Err(word.expected("digits behind `0x` or `0b` around the `*`")),
    }
}

/// Digits of `0x` or `0b` with `*` for those that do not count; those in front that are left out
/// do not either.
fn starred(word: Word<'_>, len: usize) -> Result<Part, Wrong> {
    let one = if star_bits(word)? == 4 { 'f' } else { '1' };
    let wrong = || word.expected(format!("a value of {} bits", 8 * len));
    let value = |text: String| value::parse(&text, len).ok_or_else(wrong);
    let (prefix, digits) = word.text.split_at(2);
    let mask: String = digits.chars().map(|c| if c == '*' { '0' } else { one }).collect();
    let of = value(format!("{prefix}{}", digits.replace('*', "0")))?;
    Ok(Part::masked(&of, value(format!("{prefix}{mask}"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "
        struct h_t {
            bit<48> mac
            bit<32> ip
            bit<16> port
        }
        header h instanceof h_t
        struct m_t {
            bit<32> port
        }
        metadata instanceof m_t
        struct a_t {
            bit<32> port
            bit<48> mac
        }
        action go args instanceof a_t {
            return
        }
        action none args none {
            return
        }
        table exact {
            key {
                h.h.mac exact
            }
            actions {
                go
                none
            }
            default_action none args none
        }
        table route {
            key {
                m.port exact
                h.h.ip lpm
            }
            actions {
                none
            }
            default_action none args none
        }
        table acl {
            key {
                h.h.ip wildcard
                h.h.port wildcard
            }
            actions {
                none
            }
            default_action none args none
        }
        selector s {
            group_id m.port
            selector {
                h.h.ip
            }
            member_id m.port
            n_groups_max 4
            n_members_per_group_max 4
        }
        regarray r size 4 initval 0
        metarray m size 4
        apply {
            rx m.port
            tx m.port
        }";

    fn program() -> Program {
        Program::read(PROGRAM).unwrap()
    }

    fn change(text: &str) -> Change {
        match Command::read(&program(), text) {
            Ok(Command::Change(change)) => change,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn entries_are_read_with_their_values_and_masks() {
        let key = vec![Part::exact(vec![2, 0, 0, 0, 0, 1])];
        let does =
            Invocation { action: 0, arguments: vec![vec![0, 0, 0, 3], vec![0, 0, 0, 0, 0, 9]] };
        let entry = Entry { key: key.clone(), priority: 0, does: does.clone() };
        let add = change("add exact h.h.mac:02:00:00:00:00:01 go(mac:0x9, port:3)");
        assert_eq!(add, Change::Add { table: 0, entry: entry.clone() });
        let modify = change("modify exact mac:0x020000000001 go( port:3,mac:9 )");
        assert_eq!(modify, Change::Modify { table: 0, entry });
        assert_eq!(change("delete exact mac:0x020000000001"), Change::Delete { table: 0, key });
        assert_eq!(
            change("setdefault exact go(port:3, mac:9)"),
            Change::Default { table: 0, does }
        );
        let parts = |text: &str| match change(text) {
            Change::Add { entry, .. } => (entry.key, entry.priority),
            other => panic!("{other:?}"),
        };
        let (key, _) = parts("add route ip:10.1.0.0/16 m.port:1 none()");
        assert_eq!(key, [Part::exact(vec![0, 0, 0, 1]), Part::prefix(&[10, 1, 0, 0], 16)]);
        let (key, priority) = parts("add acl 7 ip:0x0a0b**** port:0x50&&&0xff none()");
        assert_eq!(key[0], Part::masked(&[10, 11, 0, 0], vec![0xff, 0xff, 0, 0]));
        assert_eq!((&key[1], priority), (&Part::masked(&[0, 0x50], vec![0, 0xff]), 7));
        let (key, _) = parts("add acl port:0b1*1 none()");
        assert_eq!(key[0], Part::masked(&[0; 4], vec![0; 4]), "what is not said may be anything");
        assert_eq!(key[1], Part::masked(&[0, 5], vec![0, 5]), "digits in front do not count");
    }

    #[test]
    fn other_commands_are_read() {
        let members = vec![Member { id: 4, weight: 1 }, Member { id: 5, weight: 3 }];
        assert_eq!(change("group s 2 4 5:3"), Change::Group { table: 3, group: 2, members });
        let read = |text: &str| Command::read(&program(), text).unwrap();
        assert_eq!(
            read("register_write r 1 0x10"),
            Command::Register { array: 0, index: 1, value: 16 }
        );
        let rates = Rates { committed: 1, committed_burst: 2, peak: 3, peak_burst: 4 };
        assert_eq!(
            read("meter_set_rates m 0 1 2 3 4"),
            Command::Meter { array: 0, index: 0, rates }
        );
        let even = Rates { committed: 3, committed_burst: 1, peak: 3, peak_burst: 1 };
        assert_eq!(
            read("meter_set_rates m 3 3 1 3 1"),
            Command::Meter { array: 0, index: 3, rates: even }
        );
        let session = Session { port: 9, len_max: u32::MAX };
        assert_eq!(read("mirroring_add 3 9"), Command::Session { number: 3, session });
        let ports = |group, ports| Command::Ports { group, ports: Ports(ports) };
        assert_eq!(read("multicast_group 8191 63 0 63"), ports(8_191, 1 << 63 | 1));
        assert_eq!(read("multicast_group 0"), ports(0, 0));
    }

    #[test]
    fn what_is_wrong_is_said_at_its_column() {
        for (text, column, said) in [
            ("", 1, "expected `add`"),
            ("insert exact mac:1 none()", 1, "expected `add`"),
            ("add exat mac:1 none()", 5, "expected a table: exact, route, acl, s"),
            ("add exact mca:1 none()", 11, "expected a field of the key: h.h.mac"),
            ("add exact mac:0x1000000000000 none()", 15, "expected a value of 48 bits"),
            ("add exact mac:1 mac:2 none()", 17, "`mac` stands here already"),
            ("add exact none()", 11, "expected `h.h.mac:VALUE`"),
            ("add exact x mac:1 none()", 11, "expected a number below 2^64"),
            ("add exact mac:1 gone()", 17, "expected an action of this table: go, none"),
            ("add exact mac:1 none", 17, "expected an action with its arguments"),
            ("add exact mac:1 go(port:1", 26, "expected `)`"),
            ("add exact mac:1 go(port:1)", 17, "the argument `mac` is missing"),
            ("add exact mac:1 go(port:1,mac:2) more", 34, "expected the end of the line"),
            ("add route m.port:1 ip:10.0.0.0/33 none()", 23, "expected a prefix of 0 to 32 bits"),
            ("add s 1 none()", 5, "its entries are not the control side's"),
            ("register_write q 1 1", 16, "expected a regarray: r"),
            ("register_write r 4 1", 18, "expected an index from 0 to 3, found `4`"),
            ("meter_set_rates m 4 1 2 3 4", 19, "expected an index from 0 to 3, found `4`"),
            (
                "meter_set_rates m 3 5 2 4 4",
                25,
                "expected a peak rate that is no less than the committed 5, found `4`",
            ),
            ("meter_set_rates m 3 4 0 4 4", 23, "expected bytes of a burst from 1 to 4294967295"),
            ("meter_set_rates m 3 4 1 4 0", 27, "expected bytes of a burst from 1 to 4294967295"),
            ("mirroring_add 64 1", 15, "expected a session from 0 to 63"),
            ("multicast_group 8192 1", 17, "expected a group from 0 to 8191"),
            ("multicast_group 1 2 64", 21, "expected a port from 0 to 63"),
        ] {
            let error = Command::read(&program(), text).expect_err(text);
            assert!(error.problem().to_string().starts_with(said), "{text}: {error}");
            assert_eq!(error.column(), column, "{text}: {error}");
        }
    }
}
