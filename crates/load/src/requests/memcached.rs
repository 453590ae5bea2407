//! memcached's text protocol: `get` and `set` as its `protocol.txt` has them.

use super::dialect::{Dialect, Step, Value, line, number, odd};
use super::tally::Outcome;
use super::workload::{Asked, Kind, Workload, write_number};

/// Requests and answers in text.
#[derive(Debug, Default)]
pub struct Text {
    key: Vec<u8>,
}

/// Where reading stands.
#[derive(Clone, Copy, Debug, Default)]
pub enum Reading {
    /// Before the first line.
    #[default]
    Head,
    /// Inside a value.
    Value(Value),
    /// Behind it.
    Tail(Outcome),
}

/// What follows a value.
const TAIL: &[u8] = b"\r\nEND\r\n";

impl Dialect for Text {
    type Reading = Reading;

    #[inline]
    fn write(&mut self, asked: &Asked, workload: &Workload, out: &mut Vec<u8>) {
        match asked.kind {
            Kind::Get => {
                out.extend_from_slice(b"get ");
                workload.write_key(asked.key, out);
            }
            Kind::Set => {
                let value = workload.value(asked.key);
                out.extend_from_slice(b"set ");
                workload.write_key(asked.key, out);
                out.extend_from_slice(b" 0 0 ");
                write_number(value.len() as u64, 1, out);
                out.extend_from_slice(b"\r\n");
                out.extend_from_slice(value);
            }
        }
        out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn read(
        &mut self,
        reading: &mut Reading,
        bytes: &[u8],
        asked: &Asked,
        workload: &Workload,
    ) -> Result<Step, String> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            match reading {
                Reading::Head => {
                    let Some((first, len)) = line(rest)? else { return Ok(Step::more(used)) };
                    used += len;
                    match first.strip_prefix(b"VALUE ") {
                        Some(head) => *reading = Reading::Value(self.value(head, asked, workload)?),
                        None => return Ok(Step::done(used, said(first, asked.kind)?)),
                    }
                }
                Reading::Value(value) => {
                    used += value.take(rest, workload.value(asked.key));
                    if !value.is_whole() {
                        return Ok(Step::more(used));
                    }
                    *reading = Reading::Tail(value.outcome());
                }
                Reading::Tail(outcome) => {
                    let Some(tail) = rest.get(..TAIL.len()) else { return Ok(Step::more(used)) };
                    if tail != TAIL {
                        return Err(odd(tail));
                    }
                    let outcome = *outcome;
                    *reading = Reading::Head;
                    return Ok(Step::done(used + TAIL.len(), outcome));
                }
            }
        }
    }
}

impl Text {
    /// The value that the rest of a line `VALUE <key> <flags> <bytes>` announces.
    #[inline]
    fn value(&mut self, head: &[u8], asked: &Asked, workload: &Workload) -> Result<Value, String> {
        self.key.clear();
        workload.write_key(asked.key, &mut self.key);
        let mut words = head.split(|byte| *byte == b' ');
        let (key, _flags) = (words.next(), words.next());
        let len = words.next().and_then(number).ok_or_else(|| odd(head))?;
        let is_asked_for = asked.kind == Kind::Get && key == Some(&self.key[..]);
        Ok(Value::new(len, is_asked_for))
    }
}

/// What a line says that is the whole answer.
#[inline]
fn said(line: &[u8], asked: Kind) -> Result<Outcome, String> {
    let is_error = || {
        let errors: [&[u8]; 5] =
            [b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR", b"NOT_STORED", b"EXISTS"];
        errors.iter().any(|error| line.starts_with(error))
    };
    match (line, asked) {
        (b"STORED", Kind::Set) => Ok(Outcome::Done),
        (b"END", Kind::Get) => Ok(Outcome::Miss),
        (b"STORED" | b"END", _) => Ok(Outcome::Foreign),
        _ if is_error() => Ok(Outcome::Refused),
        _ => Err(odd(line)),
    }
}
