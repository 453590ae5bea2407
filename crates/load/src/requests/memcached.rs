//! memcached's text protocol: `get` and `set` as its `protocol.txt` has them.

use super::dialect::{Dialect, ReadProgress, Value, ValueProgress, line, number, unexpected};
use super::tally::Outcome;
use super::workload::{PlannedRequest, RequestKind, Workload, write_number};

/// Requests and answers in text.
#[derive(Debug, Default)]
pub struct MemcachedText {
    key: Vec<u8>,
}

/// The bytes behind a value.
const TAIL: &[u8] = b"\r\nEND\r\n";

impl Dialect for MemcachedText {
    type Reading = ValueProgress;

    #[inline]
    fn write(&mut self, asked: &PlannedRequest, workload: &Workload, out: &mut Vec<u8>) {
        match asked.kind {
            RequestKind::Get => {
                out.extend_from_slice(b"get ");
                workload.write_key(asked.key, out);
            }
            RequestKind::Set => {
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
        reading: &mut ValueProgress,
        bytes: &[u8],
        asked: &PlannedRequest,
        workload: &Workload,
    ) -> Result<ReadProgress, String> {
        let mut used = 0;
        if matches!(reading, ValueProgress::Head) {
            let Some((first, len)) = line(bytes)? else { return Ok(ReadProgress::more(0)) };
            used = len;
            match first.strip_prefix(b"VALUE ") {
                Some(head) => *reading = ValueProgress::Value(self.value(head, asked, workload)?),
                None => return Ok(ReadProgress::done(used, outcome(first, asked.kind)?)),
            }
        }
        reading.read(bytes, used, workload.value(asked.key), TAIL)
    }
}

impl MemcachedText {
    /// The value that the rest of a line `VALUE <key> <flags> <bytes>` announces.
    #[inline]
    fn value(
        &mut self,
        head: &[u8],
        asked: &PlannedRequest,
        workload: &Workload,
    ) -> Result<Value, String> {
        self.key.clear();
        workload.write_key(asked.key, &mut self.key);
        let mut words = head.split(|byte| *byte == b' ');
        let (key, _flags) = (words.next(), words.next());
        let len = words.next().and_then(number).ok_or_else(|| unexpected(head))?;
        let is_asked_for = asked.kind == RequestKind::Get && key == Some(&self.key[..]);
        Ok(Value::new(len, is_asked_for))
    }
}

/// The outcome of an answer that is one line.
#[inline]
fn outcome(line: &[u8], asked: RequestKind) -> Result<Outcome, String> {
    let is_error = || {
        let errors: [&[u8]; 5] =
            [b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR", b"NOT_STORED", b"EXISTS"];
        errors.iter().any(|error| line.starts_with(error))
    };
    match (line, asked) {
        (b"STORED", RequestKind::Set) => Ok(Outcome::Done),
        (b"END", RequestKind::Get) => Ok(Outcome::Miss),
        (b"STORED" | b"END", _) => Ok(Outcome::Foreign),
        _ if is_error() => Ok(Outcome::Refused),
        _ => Err(unexpected(line)),
    }
}
