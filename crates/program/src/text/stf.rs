//! Packet tests in the STF format of P4's compilers: what is told, sent and expected, line by line.
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
//! A `*` stands for any hexadecimal digit. What is given to queue N of the host is expected at port
//! 1000000 + N.
//!
//! Packets leave a port in the order of the lines that expect them; one that nobody expects is
//! wrong, as is one that does not come.

use super::command;
use super::error::{TextError, Wrong};
use super::words::{Line, Word, lines};
use crate::form::Program;
use crate::limits::TEST_FRAME_LEN_MAX;

/// A test, read for a program.
#[derive(Clone, Debug)]
pub struct Stf {
    pub(crate) steps: Vec<(usize, Step)>,
}

/// A line of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Told(command::Command),
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
        index: u64,
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
    `delete`, `setdefault`, `group`, `register_write`, `meter_set_rates`, `mirroring_add` or \
    `multicast_group`";

impl Stf {
    /// Reads a test.
    ///
    /// # Errors
    /// With line and column of what is wrong.
    pub fn read(program: &Program, text: &str) -> Result<Stf, TextError> {
        let step = |line: Line<'_>| Ok((line.first().at.line, step(program, &line)?));
        let steps = lines(text).map(step).collect::<Result<_, Wrong>>();
        steps.map(|steps| Stf { steps }).map_err(|wrong| TextError::new(text, wrong))
    }
}

fn step(program: &Program, line: &Line<'_>) -> Result<Step, Wrong> {
    let port = || line.at(1).number_in("a port", 0, u64::from(u32::MAX));
    match line.first().text {
        "packet" => {
            let port = port()?;
            let frame = data(line, 2)?;
            match frame.mask.iter().all(|mask| *mask == 0xff) && !frame.is_whole {
                true if frame.value.len() > TEST_FRAME_LEN_MAX => {
                    let reason = format!("a packet has {TEST_FRAME_LEN_MAX} bytes at most");
                    Err(line.at(2).unfit(reason))
                }
                true if !frame.value.is_empty() => Ok(Step::Packet { port, frame: frame.value }),
                _ => Err(line.at(2).expected("the bytes of a packet, as hexadecimal digits")),
            }
        }
        "expect" => Ok(Step::Expect { port: port()?, frame: data(line, 2)? }),
        "no_packet" => line.ends_at(1).map(|()| Step::NoPacket),
        "wait" => {
            line.ends_at(2)?;
            let seconds = match line.len() {
                1 => 0,
                _ => line.at(1).number_in("seconds", 0, 1_000_000)?,
            };
            Ok(Step::Wait { ns: seconds * 1_000_000_000 })
        }
        "check_counter" => check(program, line),
        "expect_entry" | "no_entry" | "expect_digest" | "no_digest" | "window"
        | "expect_window" => memory(program, line),
        "add" | "modify" | "delete" | "setdefault" | "group" | "register_write"
        | "meter_set_rates" | "mirroring_add" | "multicast_group" => {
            command::read(program, line).map(Step::Told)
        }
        _ => Err(line.first().expected(BEGINNINGS)),
    }
}

/// Hexadecimal digits from a word on, with `*` and `$`.
fn data(line: &Line<'_>, from: usize) -> Result<Expected, Wrong> {
    let (mut digits, mut is_whole) = (Vec::new(), false);
    for at in from..line.len() {
        let word = line.at(at);
        let wrong = || word.expected("hexadecimal digits, `*` for any, or `$` for the end");
        for c in word.text.chars() {
            match (c, c.to_digit(16)) {
                _ if is_whole => return Err(wrong()),
                ('$', _) => is_whole = true,
                ('*', _) => digits.push((0, 0)),
                (_, Some(digit)) => digits.push((digit as u8, 0xf)),
                _ => return Err(wrong()),
            }
        }
    }
    if digits.len() % 2 == 1 {
        return Err(line.at(line.len() - 1).unfit("half a byte is missing"));
    }
    let bytes = |of: fn(&(u8, u8)) -> u8| -> Vec<u8> {
        digits.chunks(2).map(|pair| of(&pair[0]) << 4 | of(&pair[1])).collect()
    };
    Ok(Expected { value: bytes(|digit| digit.0), mask: bytes(|digit| digit.1), is_whole })
}

/// `NAME(NUMBER)`, in the second word.
fn indexed<'a>(line: &Line<'a>, form: &str) -> Result<(Word<'a>, u64), Wrong> {
    let word = line.at(1);
    let parts = word.text.strip_suffix(')').and_then(|text| text.split_once('('));
    let (name, index) = parts.ok_or_else(|| word.expected(form))?;
    let part = |text| Word { text, at: word.at };
    Ok((part(name), part(index).number()?))
}

/// `check_counter ARRAY(INDEX) [packets|bytes] == VALUE`
fn check(program: &Program, line: &Line<'_>) -> Result<Step, Wrong> {
    let (name, index) = indexed(line, "`ARRAY(INDEX)`")?;
    let registers = program.registers.iter().map(|array| &array.name);
    let counters = program.counters.iter().map(|array| &array.name);
    let place = command::named(name, "regarray or countarray", registers.chain(counters))?;
    let (of, at) = match (place.checked_sub(program.registers.len()), line.at(2).text) {
        (Some(counter), "bytes") => (Checked::Bytes(counter), 3),
        (Some(counter), "packets") => (Checked::Packets(counter), 3),
        (Some(counter), _) => (Checked::Packets(counter), 2),
        (None, _) => (Checked::Register(place), 2),
    };
    let len = match of {
        Checked::Register(array) => program.registers[array].len,
        Checked::Packets(array) | Checked::Bytes(array) => program.counters[array].len,
    };
    if index >= len as u64 {
        let what = format!("an index of `{}` from 0 to {}", name.text, len - 1);
        return Err(line.at(1).expected(what));
    }
    let is = match line.at(at).text {
        "==" => Comparison::Equal,
        "!=" => Comparison::Different,
        "<" => Comparison::Less,
        "<=" => Comparison::AtMost,
        ">" => Comparison::Greater,
        ">=" => Comparison::AtLeast,
        _ => {
            let counted =
                if matches!(of, Checked::Packets(_)) { "`packets`, `bytes`, " } else { "" };
            let what = format!("{counted}`==`, `!=`, `<`, `<=`, `>` or `>=`");
            return Err(line.at(at).expected(what));
        }
    };
    line.ends_at(at + 2)?;
    let (name, value) = (name.text.to_owned(), line.at(at + 1).number()?);
    Ok(Step::Check { name, of, index, is, value })
}

/// What has to do with an application's memory, or with the control side.
fn memory(program: &Program, line: &Line<'_>) -> Result<Step, Wrong> {
    let first = line.first().text;
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
            Ok(Step::Entry { rings, index, expected: expected()? })
        }
        "expect_digest" | "no_digest" => {
            let names = program.digests.iter().map(|of| &of.name);
            let digest = command::named(line.at(1), "digest", names)?;
            Ok(Step::Digest { digest, expected: expected()? })
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
                "expect_window" => Ok(Step::ExpectWindow { window, offset, expected: bytes }),
                _ if bytes.is_whole || bytes.mask.iter().any(|mask| *mask != 0xff) => {
                    Err(line.at(2).expected("bytes, as hexadecimal digits"))
                }
                _ => Ok(Step::Window { window, offset, bytes: bytes.value }),
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
