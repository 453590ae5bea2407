//! Redis: GET and SET in RESP2, <https://redis.io/docs/latest/develop/reference/protocol-spec>.

use super::dialect::{Dialect, Step, Value, line, number, odd};
use super::tally::Outcome;
use super::workload::{Asked, Kind, Workload, write_number};

/// Commands as arrays of bulk strings; answers of the types they have.
#[derive(Debug, Default)]
pub struct Resp;

/// Where reading stands.
#[derive(Clone, Copy, Debug, Default)]
pub enum Reading {
    /// Before the first line.
    #[default]
    Head,
    /// Inside a bulk string.
    Value(Value),
    /// Behind it.
    Tail(Outcome),
}

/// What follows a value.
const TAIL: &[u8] = b"\r\n";

/// Writes `$<len>` and the end of the line.
#[inline]
fn write_len(len: usize, out: &mut Vec<u8>) {
    out.push(b'$');
    write_number(len as u64, 1, out);
    out.extend_from_slice(TAIL);
}

impl Dialect for Resp {
    type Reading = Reading;

    #[inline]
    fn write(&mut self, asked: &Asked, workload: &Workload, out: &mut Vec<u8>) {
        out.extend_from_slice(match asked.kind {
            Kind::Get => b"*2\r\n$3\r\nGET\r\n",
            Kind::Set => b"*3\r\n$3\r\nSET\r\n",
        });
        write_len(workload.key_len(asked.key), out);
        workload.write_key(asked.key, out);
        out.extend_from_slice(TAIL);
        if asked.kind == Kind::Set {
            let value = workload.value(asked.key);
            write_len(value.len(), out);
            out.extend_from_slice(value);
            out.extend_from_slice(TAIL);
        }
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
                    let outcome = match (first, asked.kind) {
                        (b"+OK", Kind::Set) => Outcome::Done,
                        (b"$-1", Kind::Get) => Outcome::Miss,
                        (b"+OK" | b"$-1", _) => Outcome::Foreign,
                        ([b'-', ..], _) => Outcome::Refused,
                        ([b'$', len @ ..], kind) => {
                            let len = number(len).ok_or_else(|| odd(first))?;
                            *reading = Reading::Value(Value::new(len, kind == Kind::Get));
                            continue;
                        }
                        _ => return Err(odd(first)),
                    };
                    return Ok(Step::done(used, outcome));
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
