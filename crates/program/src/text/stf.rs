//! Packet tests in the STF format of P4's compilers: commands, packets and expectations, line by
//! line.
//!
//! Beside the [commands](super::command):
//!
//! | line | what it says |
//! |---|---|
//! | `packet PORT HEX …` | a packet comes by this port |
//! | `expect PORT HEX … [$]` | one leaves by this port, with these first bytes; `$`: and no more |
//! | `expect PORT` | any packet leaves by this port |
//! | `no_packet` | the last packet that came makes none leave |
//! | `check_counter ARRAY(INDEX) == VALUE` | a register or counter is so; or `!=`, `<` and so on |
//! | `expect_entry RING(INDEX) HEX … [$]` | the next entry of a ring is so |
//! | `no_entry RING(INDEX)` | there is none |
//! | `expect_digest NAME HEX …`, `no_digest NAME` | the next record is so; there is none |
//! | `window NAME(OFFSET) HEX …` | the application writes to its memory |
//! | `expect_window NAME(OFFSET) HEX …` | its memory is so |
//! | `wait [SECONDS]` | so much time passes |
//!
//! | `remove all` | takes all entries out of all tables |
//!
//! and those of P4's reference switch that [`super::switch`] reads. A `*` stands for any
//! hexadecimal digit. What is given to queue N of the host is expected at port 1000000 + N.
//!
//! Of priorities the highest number counts first, as in P4's compilers; everywhere else the lowest
//! does. `add … = NAME` gives an entry a name: `check_counter ARRAY($NAME)` looks at the place that
//! `entryid` has for it.
//!
//! Packets leave a port in the order of the lines that expect them; one that nobody expects is
//! wrong, as is one that does not come. The grammar is that of `tools/stf/stf_parser.py` and
//! `backends/bmv2/bmv2stf.py` of p4c.

use std::collections::BTreeMap;

use super::command::{self, Command, Priorities};
use niclab_nic::text::TextError;

use super::error::{Wrong, check_mark, show};
use super::switch::{self, Multicast};
use super::words::{Line, Word, commands};
use crate::entry::{Change, Key, Rates};
use crate::form::Program;
use crate::limits::TEST_FRAME_LEN_MAX;

/// A test, read for a program.
#[derive(Clone, Debug)]
pub struct Stf {
    pub(crate) steps: Vec<(usize, StfStep)>,
}

/// A line of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StfStep {
    Told(Command),
    /// Takes all entries out.
    RemoveAll,
    /// Sets all registers of an array to 0.
    Reset {
        array: usize,
        len: usize,
    },
    /// Gives all meters of an array the same rates.
    Rates {
        array: usize,
        len: usize,
        rates: Rates,
    },
    Packet {
        port: u64,
        frame: Vec<u8>,
    },
    Expect {
        port: u64,
        frame: Expected,
    },
    NoPacket,
    Check {
        name: String,
        of: Checked,
        index: Index,
        is: Comparison,
        value: u64,
    },
    /// The next entry of a ring, or that there is none.
    Entry {
        rings: usize,
        index: u64,
        expected: Option<Expected>,
    },
    /// The next record for the control side, or that there is none.
    Digest {
        digest: usize,
        expected: Option<Expected>,
    },
    Window {
        window: usize,
        offset: usize,
        bytes: Vec<u8>,
    },
    ExpectWindow {
        window: usize,
        offset: usize,
        expected: Expected,
    },
    Wait {
        ns: u64,
    },
}

/// Which of an array is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    Number(u64),
    /// The place of an entry, as `entryid` says it, in an array of so many.
    Entry {
        name: String,
        table: usize,
        key: Key,
        len: usize,
    },
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    Register(usize),
    Packets(usize),
    Bytes(usize),
}

/// What a packet has to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    value: Vec<u8>,
    mask: Vec<u8>,
    is_whole: bool,
}

/// How two numbers have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Different,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// What stands where a line begins.
const BEGINNINGS: &str = "`packet`, `expect`, `no_packet`, `check_counter`, `expect_entry`, \
    `no_entry`, `expect_digest`, `no_digest`, `window`, `expect_window`, `wait`, `add`, `modify`, \
    `delete`, `remove all`, `setdefault`, `group`, `register_write`, `register_reset`, \
    `meter_set_rates`, `meter_array_set_rates`, `mirroring_add`, `multicast_group`, \
    `mc_mgrp_create`, `mc_node_create`, `mc_node_update` or `mc_node_associate`";

impl Stf {
    /// Reads a test.
    ///
    /// # Errors
    /// With line and column of what is wrong.
    pub fn read(program: &Program, text: &str) -> Result<Stf, TextError> {
        let mut reader = Reader {
            program,
            names: BTreeMap::new(),
            multicast: Multicast::default(),
            steps: Vec::new(),
        };
        let read =
            check_mark(text).and_then(|()| commands(text).try_for_each(|line| reader.take(&line)));
        read.map_err(|wrong| show(text, wrong))?;
        Ok(Stf { steps: reader.steps })
    }
}

/// What the lines before have said.
struct Reader<'p> {
    program: &'p Program,
    /// Table and key of the entries that have a name.
    names: BTreeMap<String, (usize, Key)>,
    multicast: Multicast,
    steps: Vec<(usize, StfStep)>,
}

impl Reader<'_> {
    fn take(&mut self, line: &Line<'_>) -> Result<(), Wrong> {
        let first = line.first();
        let verb = first.text.to_ascii_lowercase();
        let steps = match verb.as_str() {
            "add" => vec![self.add(line)?],
            "check_counter" => vec![self.check(line)?],
            verb if switch::reads(verb, line) => {
                switch::read(self.program, &mut self.multicast, verb, line)?
            }
            verb => vec![step(self.program, verb, line)?],
        };
        self.steps.extend(steps.into_iter().map(|step| (first.at.line, step)));
        Ok(())
    }

    /// `add … [= NAME]`
    fn add(&mut self, line: &Line<'_>) -> Result<StfStep, Wrong> {
        let named = line.len().checked_sub(2).filter(|at| line.at(*at).text == "=");
        let name = match named {
            Some(at) => Some(line.at(at + 1)),
            None if line.at(line.len() - 1).text == "=" => {
                return Err(line.at(line.len()).expected("a name of the entry"));
            }
            None => None,
        };
        let line = named.map_or_else(|| line.clone(), |at| line.before(at));
        let told = command::read(self.program, &line, Priorities::HighestFirst)?;
        if let (Some(name), Command::Change(Change::Add { table, entry })) = (name, &told) {
            self.names.insert(name.name()?.to_owned(), (*table, entry.key.clone()));
        }
        Ok(StfStep::Told(told))
    }
}

fn step(program: &Program, verb: &str, line: &Line<'_>) -> Result<StfStep, Wrong> {
    let port = || line.at(1).plain_in("a port", 0, u64::from(u32::MAX));
    match verb {
        "packet" => {
            let port = port()?;
            let frame = data(line, 2)?.value;
            match frame.len() {
                0 => Err(line.at(2).expected("the bytes of a packet, as hexadecimal digits")),
                1..=TEST_FRAME_LEN_MAX => Ok(StfStep::Packet { port, frame }),
                _ => {
                    let reason = format!("a packet has {TEST_FRAME_LEN_MAX} bytes at most");
                    Err(line.at(2).unfit(reason))
                }
            }
        }
        "expect" => Ok(StfStep::Expect { port: port()?, frame: data(line, 2)? }),
        "no_packet" => line.ends_at(1).map(|()| StfStep::NoPacket),
        "remove" => {
            line.wants(1, "all")?;
            line.ends_at(2).map(|()| StfStep::RemoveAll)
        }
        "wait" => {
            line.ends_at(2)?;
            let seconds = match line.len() {
                1 => 0,
                _ => line.at(1).plain_in("seconds", 0, 1_000_000)?,
            };
            Ok(StfStep::Wait { ns: seconds * 1_000_000_000 })
        }
        "expect_entry" | "no_entry" | "expect_digest" | "no_digest" | "window"
        | "expect_window" => memory(program, verb, line),
        "modify" | "delete" | "setdefault" | "group" | "register_write" | "meter_set_rates"
        | "mirroring_add" | "multicast_group" => {
            command::read(program, line, Priorities::HighestFirst).map(StfStep::Told)
        }
        _ => Err(line.first().expected(BEGINNINGS)),
    }
}

/// Hexadecimal digits from a word on, of what is expected with `*` and `$`.
fn data(line: &Line<'_>, from: usize) -> Result<Expected, Wrong> {
    let (mut digits, mut is_whole) = (Vec::new(), false);
    // Bytes that are sent are told whole; the command beside it takes more.
    let verb = line.first().text.to_ascii_lowercase();
    let beside = match verb.as_str() {
        "packet" => Some("expect"),
        "window" => Some("expect_window"),
        _ => None,
    };
    for at in from..line.len() {
        let word = line.at(at);
        let wrong = || match beside {
            None => word.expected("hexadecimal digits, `*` for any, or `$` for the end"),
            Some(_) => word.expected("hexadecimal digits"),
        };
        for (place, c) in word.text.char_indices() {
            match (c, c.to_digit(16)) {
                _ if is_whole => return Err(wrong()),
                ('$' | '*', _) if beside.is_some() => {
                    let part = word.part(place, &word.text[place..=place]);
                    let other = beside.unwrap_or_default();
                    return Err(part.unfit(format!("only `{other}` takes `{c}`")));
                }
                ('$', _) => is_whole = true,
                ('*', _) => digits.push((0, 0)),
                (_, Some(digit)) => digits.push((digit as u8, 0xf)),
                _ => return Err(wrong()),
            }
        }
    }
    // The first digits of a packet that leaves may be any number of them.
    if digits.len() % 2 == 1 && !is_whole && verb == "expect" {
        digits.push((0, 0));
    }
    if digits.len() % 2 == 1 {
        return Err(line.at(line.len() - 1).unfit("half a byte is missing"));
    }
    let bytes = |of: fn(&(u8, u8)) -> u8| -> Vec<u8> {
        digits.chunks(2).map(|pair| of(&pair[0]) << 4 | of(&pair[1])).collect()
    };
    Ok(Expected { value: bytes(|digit| digit.0), mask: bytes(|digit| digit.1), is_whole })
}

/// `NAME(PLACE)`, in the second word.
fn placed<'a>(line: &Line<'a>, form: &str) -> Result<(Word<'a>, Word<'a>), Wrong> {
    let word = line.at(1);
    let parts = word.text.strip_suffix(')').and_then(|text| text.split_once('('));
    let (name, place) = parts.ok_or_else(|| word.expected(form))?;
    Ok((word.part(0, name).unquoted(), word.part(name.len() + 1, place)))
}

/// `NAME(NUMBER)`, in the second word.
fn indexed<'a>(line: &Line<'a>, form: &str) -> Result<(Word<'a>, u64), Wrong> {
    let (name, place) = placed(line, form)?;
    Ok((name, place.plain()?))
}

impl Reader<'_> {
    /// `check_counter ARRAY(INDEX) [packets|bytes] == VALUE`
    fn check(&self, line: &Line<'_>) -> Result<StfStep, Wrong> {
        let (name, place) = placed(line, "`ARRAY(INDEX)` or `ARRAY($ENTRY)`")?;
        let what = line.at(2).text.to_ascii_lowercase();
        let (of, at) = match what.as_str() {
            "packets" | "bytes" => (self.counter(name, Some(&what))?, 3),
            _ => (self.counter(name, None)?, 2),
        };
        let len = match of {
            Checked::Register(array) => self.program.registers[array].len,
            Checked::Packets(array) | Checked::Bytes(array) => self.program.counters[array].len,
        };
        let index = self.index(name, place, len)?;
        let is = match line.at(at).text {
            "==" => Comparison::Equal,
            "!=" => Comparison::Different,
            "<" => Comparison::Less,
            "<=" => Comparison::AtMost,
            ">" => Comparison::Greater,
            ">=" => Comparison::AtLeast,
            _ => {
                let counted = if at == 2 { "`packets`, `bytes`, " } else { "" };
                let what = format!("{counted}`==`, `!=`, `<`, `<=`, `>` or `>=`");
                return Err(line.at(at).expected(what));
            }
        };
        line.ends_at(at + 2)?;
        let (name, value) = (name.text.to_owned(), line.at(at + 1).plain()?);
        Ok(StfStep::Check { name, of, index, is, value })
    }

    /// What a name counts. P4's counters of packets and bytes are two arrays of registers in a
    /// program for DPDK, `NAME_packets` and `NAME_bytes`, or `NAME_0_packets` and `NAME_0_bytes`.
    fn counter(&self, name: Word<'_>, what: Option<&str>) -> Result<Checked, Wrong> {
        let registers = || self.program.registers.iter().map(|array| &array.name);
        let counters = || self.program.counters.iter().map(|array| &array.name);
        let whole = command::named(name, "regarray or countarray", registers().chain(counters()));
        let place = whole.or_else(|wrong| {
            let behind = what.map(|what| format!("_{what}")).unwrap_or_default();
            let is_it = |of: &String| {
                let exact = of.strip_suffix(&behind) == Some(name.text);
                exact || command::is_numbered(of, name.text, &behind)
            };
            command::only(registers().map(is_it)).filter(|_| what.is_some()).ok_or(wrong)
        })?;
        Ok(match (place.checked_sub(self.program.registers.len()), what) {
            (Some(counter), Some("bytes")) => Checked::Bytes(counter),
            (Some(counter), _) => Checked::Packets(counter),
            (None, _) => Checked::Register(place),
        })
    }

    fn index(&self, array: Word<'_>, place: Word<'_>, len: usize) -> Result<Index, Wrong> {
        if let Some(name) = place.text.strip_prefix('$') {
            let found = self.names.get(name).cloned();
            let wrong = || place.expected("the name that `add … = NAME` gave an entry");
            let (table, key) = found.ok_or_else(wrong)?;
            return Ok(Index::Entry { name: name.to_owned(), table, key, len });
        }
        let number = place.plain()?;
        match number < len as u64 {
            true => Ok(Index::Number(number)),
            false => {
                let what = format!("an index of `{}` from 0 to {}", array.text, len - 1);
                Err(place.expected(what))
            }
        }
    }
}

/// What has to do with an application's memory, or with the control side.
fn memory(program: &Program, first: &str, line: &Line<'_>) -> Result<StfStep, Wrong> {
    let expected = || match first.starts_with("no_") {
        true => line.ends_at(2).map(|()| None),
        false => data(line, 2).map(Some),
    };
    match first {
        "expect_entry" | "no_entry" => {
            let (name, index) = indexed(line, "`RING(INDEX)`")?;
            let rings = command::named(name, "ring", program.rings.iter().map(|of| &of.name))?;
            let count = program.rings[rings].count as u64;
            if index >= count {
                return Err(line.at(1).unfit(format!("there are {count} rings, from 0 on")));
            }
            Ok(StfStep::Entry { rings, index, expected: expected()? })
        }
        "expect_digest" | "no_digest" => {
            let names = program.digests.iter().map(|of| &of.name);
            let digest = command::named(line.at(1), "digest", names)?;
            Ok(StfStep::Digest { digest, expected: expected()? })
        }
        first => {
            let (name, offset) = indexed(line, "`NAME(OFFSET)`")?;
            let names = program.windows.iter().map(|of| &of.name);
            let window = command::named(name, "window", names)?;
            let (bytes, len) = (data(line, 2)?, program.windows[window].len);
            let end = usize::try_from(offset).ok();
            let end = end.and_then(|offset| offset.checked_add(bytes.value.len()));
            if end.is_none_or(|end| end > len) {
                return Err(line.at(1).unfit(format!("the window has {len} bytes")));
            }
            let offset = offset as usize;
            match first {
                "expect_window" => Ok(StfStep::ExpectWindow { window, offset, expected: bytes }),
                _ => Ok(StfStep::Window { window, offset, bytes: bytes.value }),
            }
        }
    }
}

impl Expected {
    /// How many bytes are told.
    pub(crate) fn len(&self) -> usize {
        self.value.len()
    }

    /// Why a packet is not so; `None` where it is.
    pub(crate) fn differs(&self, frame: &[u8]) -> Option<String> {
        let len = self.value.len();
        if frame.len() < len || self.is_whole && frame.len() > len {
            let more = if self.is_whole { "" } else { " or more" };
            return Some(format!("{} B in place of {len}{more}", frame.len()));
        }
        let is_wrong = |at: &usize| (frame[*at] ^ self.value[*at]) & self.mask[*at] != 0;
        let at = (0..len).find(is_wrong)?;
        Some(format!("byte {at} is {:02x} in place of {:02x}", frame[at], self.value[at]))
    }
}

impl Comparison {
    pub(crate) fn holds(self, a: u64, b: u64) -> bool {
        match self {
            Comparison::Equal => a == b,
            Comparison::Different => a != b,
            Comparison::Less => a < b,
            Comparison::AtMost => a <= b,
            Comparison::Greater => a > b,
            Comparison::AtLeast => a >= b,
        }
    }
}
