//! Redis: GET and SET in RESP2, <https://redis.io/docs/latest/develop/reference/protocol-spec>.

use super::dialect::{Dialect, ReadProgress, Value, ValueProgress, line, number, unexpected};
use super::tally::Outcome;
use super::workload::{PlannedRequest, RequestKind, Workload, write_number};

/// Commands as arrays of bulk strings; answers of the types they have.
#[derive(Debug, Default)]
pub struct Resp;

/// The bytes behind a value.
const TAIL: &[u8] = b"\r\n";

/// Writes `$<len>` and the end of the line.
#[inline]
fn write_len(len: usize, out: &mut Vec<u8>) {
    out.push(b'$');
    write_number(len as u64, 1, out);
    out.extend_from_slice(TAIL);
}

impl Dialect for Resp {
    type Reading = ValueProgress;

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
        reading: &mut ValueProgress,
        bytes: &[u8],
        asked: &PlannedRequest,
        workload: &Workload,
    ) -> Result<ReadProgress, String> {
        let mut used = 0;
        if matches!(reading, ValueProgress::Head) {
            let Some((first, len)) = line(bytes)? else { return Ok(ReadProgress::more(0)) };
            used = len;
            let outcome = match (first, asked.kind) {
                (b"+OK", RequestKind::Set) => Some(Outcome::Done),
                (b"$-1", RequestKind::Get) => Some(Outcome::Miss),
                (b"+OK" | b"$-1", _) => Some(Outcome::Foreign),
                ([b'-', ..], _) => Some(Outcome::Refused),
                ([b'$', len @ ..], kind) => {
                    let len = number(len).ok_or_else(|| unexpected(first))?;
                    *reading = ValueProgress::Value(Value::new(len, kind == RequestKind::Get));
                    None
                }
                _ => return Err(unexpected(first)),
            };
            if let Some(outcome) = outcome {
                return Ok(ReadProgress::done(used, outcome));
            }
        }
        reading.read(bytes, used, workload.value(asked.key), TAIL)
    }
}
