//! Redis: GET and SET in RESP2, <https://redis.io/docs/latest/develop/reference/protocol-spec>.

use super::dialect::{Dialect, ReadProgress, Value, line, number, unexpected};
use super::tally::Outcome;
use super::workload::{PlannedRequest, RequestKind, Workload, write_number};

/// Commands as arrays of bulk strings; answers of the types they have.
#[derive(Debug, Default)]
pub struct Resp;

/// Where reading stands.
#[derive(Clone, Copy, Debug, Default)]
pub enum RedisProgress {
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
    type Reading = RedisProgress;

    #[inline]
    fn write(&mut self, asked: &PlannedRequest, workload: &Workload, out: &mut Vec<u8>) {
        out.extend_from_slice(match asked.kind {
            RequestKind::Get => b"*2\r\n$3\r\nGET\r\n",
            RequestKind::Set => b"*3\r\n$3\r\nSET\r\n",
        });
        write_len(workload.key_len(asked.key), out);
        workload.write_key(asked.key, out);
        out.extend_from_slice(TAIL);
        if asked.kind == RequestKind::Set {
            let value = workload.value(asked.key);
            write_len(value.len(), out);
            out.extend_from_slice(value);
            out.extend_from_slice(TAIL);
        }
    }

    #[inline]
    fn read(
        &mut self,
        reading: &mut RedisProgress,
        bytes: &[u8],
        asked: &PlannedRequest,
        workload: &Workload,
    ) -> Result<ReadProgress, String> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            match reading {
                RedisProgress::Head => {
                    let Some((first, len)) = line(rest)? else {
                        return Ok(ReadProgress::more(used));
                    };
                    used += len;
                    let outcome = match (first, asked.kind) {
                        (b"+OK", RequestKind::Set) => Outcome::Done,
                        (b"$-1", RequestKind::Get) => Outcome::Miss,
                        (b"+OK" | b"$-1", _) => Outcome::Foreign,
                        ([b'-', ..], _) => Outcome::Refused,
                        ([b'$', len @ ..], kind) => {
                            let len = number(len).ok_or_else(|| unexpected(first))?;
                            *reading =
                                RedisProgress::Value(Value::new(len, kind == RequestKind::Get));
                            continue;
                        }
                        _ => return Err(unexpected(first)),
                    };
                    return Ok(ReadProgress::done(used, outcome));
                }
                RedisProgress::Value(value) => {
                    used += value.take(rest, workload.value(asked.key));
                    if !value.is_whole() {
                        return Ok(ReadProgress::more(used));
                    }
                    *reading = RedisProgress::Tail(value.outcome());
                }
                RedisProgress::Tail(outcome) => {
                    let Some(tail) = rest.get(..TAIL.len()) else {
                        return Ok(ReadProgress::more(used));
                    };
                    if tail != TAIL {
                        return Err(unexpected(tail));
                    }
                    let outcome = *outcome;
                    *reading = RedisProgress::Head;
                    return Ok(ReadProgress::done(used + TAIL.len(), outcome));
                }
            }
        }
    }
}
