//! `set`, `add`, `replace`, `append`, `prepend`, `cas`: a line and a value.

use super::{BAD_CHUNK, BAD_FORMAT, NO_MEMORY, TOO_LARGE, TextState, UNKNOWN, WholeLine, answer};
use crate::kvs::codec::context::{CodecProgress, Context};
use crate::kvs::protocol::answer::StoreOutcome;
use crate::kvs::protocol::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use crate::kvs::protocol::number::{signed_32, unsigned, unsigned_32};
use crate::kvs::protocol::request::{StoreMode, StoreRequest};
use crate::kvs::protocol::time::Expiry;
use crate::kvs::store::PrefixRequest;

/// A line that a value follows, or a complaint about it.
pub struct Storage<'a> {
    line: WholeLine<'a>,
    request: Result<StorageCommand<'a>, &'static [u8]>,
}

/// The content of such a line.
#[derive(Clone, Copy)]
struct StorageCommand<'a> {
    key: &'a [u8],
    mode: StoreMode,
    flags: u32,
    time: i32,
    value_len: usize,
    compare: Option<u64>,
}

/// All but `cas`.
pub fn classic<'a>(line: &WholeLine<'a>, mode: StoreMode) -> Storage<'a> {
    let request = match line.words.count {
        5 | 6 => request(line, mode, None),
        _ => Err(UNKNOWN),
    };
    Storage { line: *line, request }
}

/// `cas`.
pub fn compared<'a>(line: &WholeLine<'a>) -> Storage<'a> {
    let request = match (line.words.count, unsigned(line.words.at(5))) {
        (6 | 7, Some(cas)) => request(line, StoreMode::Set, Some(cas)),
        (6 | 7, None) => Err(BAD_FORMAT),
        _ => Err(UNKNOWN),
    };
    Storage { line: *line, request }
}

fn request<'a>(
    line: &WholeLine<'a>,
    mode: StoreMode,
    compare: Option<u64>,
) -> Result<StorageCommand<'a>, &'static [u8]> {
    let words = &line.words;
    let (key, flags, time) = (words.at(1), unsigned_32(words.at(2)), signed_32(words.at(3)));
    let value_len = value_len(words.at(4));
    match (flags, time, value_len) {
        (Some(flags), Some(time), Some(value_len)) if key.len() <= KEY_LEN_MAX => {
            Ok(StorageCommand { key, mode, flags, time, value_len, compare })
        }
        _ => Err(BAD_FORMAT),
    }
}

/// Length of a value, up to what memcached would wait for: the value and its end by 31 bits.
pub fn value_len(word: &[u8]) -> Option<usize> {
    let len = signed_32(word).filter(|len| *len <= i32::MAX - 2)?;
    usize::try_from(len).ok()
}

/// The value behind a line, once it has come as a whole.
pub enum ValueData<'a> {
    /// It is here, and the next line begins there.
    Whole(&'a [u8], usize),
    /// It does not end where it should; what follows is a line again there.
    Broken(usize),
    /// There have to be so many bytes in all.
    More(usize),
}

/// Looks for a value of this length behind a line.
pub fn data<'a>(line: &WholeLine<'a>, value_len: usize) -> ValueData<'a> {
    let (start, end) = (line.next, line.next + value_len);
    match line.input.get(start..end + 2) {
        None => ValueData::More(end + 2),
        Some([value @ .., b'\r', b'\n']) => ValueData::Whole(value, end + 2),
        Some(_) => ValueData::Broken(end + 2),
    }
}

impl Storage<'_> {
    /// Stores the value, once it is there.
    pub fn run(
        &self,
        state: &mut TextState,
        out: &mut Vec<u8>,
        context: &Context<'_>,
    ) -> CodecProgress {
        let is_quiet = self.line.words.is_noreply();
        let request = match self.request {
            Ok(request) => request,
            Err(complaint) => {
                // How many words there are comes before what the last of them says.
                answer::add_answer(out, is_quiet && complaint != UNKNOWN, complaint);
                return CodecProgress::Done(self.line.next);
            }
        };
        let key = context.store.key(request.key);
        if request.value_len > VALUE_LEN_MAX {
            let mut partition = context.store.partition(&key);
            partition.record(&key, PrefixRequest::Set);
            partition.refuse_large(&key, request.mode, context.now);
            drop(partition);
            answer::add_answer(out, is_quiet, TOO_LARGE);
            *state = TextState::Skip(request.value_len + 2);
            return CodecProgress::Done(self.line.next);
        }
        let (value, next) = match data(&self.line, request.value_len) {
            ValueData::More(count) => return CodecProgress::More(count),
            ValueData::Broken(next) => {
                answer::add_answer(out, is_quiet, BAD_CHUNK);
                return CodecProgress::Done(next);
            }
            ValueData::Whole(value, next) => (value, next),
        };
        let write = StoreRequest {
            key,
            mode: request.mode,
            flags: request.flags,
            expiry: Expiry::of(request.time.into(), context.now),
            value,
            compare: request.compare,
            cas: None,
            stale_allowed: false,
            vivify: None,
            is_binary_key: false,
        };
        let mut partition = context.store.partition(&key);
        partition.record(&key, PrefixRequest::Set);
        let written = partition.write(&write, context.now);
        drop(partition);
        answer::add_answer(out, is_quiet, words(written));
        CodecProgress::Done(next)
    }
}

fn words(written: StoreOutcome) -> &'static [u8] {
    match written {
        StoreOutcome::Stored { .. } => b"STORED\r\n",
        StoreOutcome::NotStored => b"NOT_STORED\r\n",
        StoreOutcome::Exists => b"EXISTS\r\n",
        StoreOutcome::NotFound => b"NOT_FOUND\r\n",
        StoreOutcome::TooLarge => TOO_LARGE,
        StoreOutcome::NoMemory => NO_MEMORY,
    }
}
