//! `ms`: storing a value.

use super::flags::{Flags, OPAQUE_LONG, TOO_LONG};
use super::{MetaCommand, figure};
use crate::kvs::codec::context::{CodecProgress, Context};
use crate::kvs::codec::text::storage::{ValueData, data, value_len};
use crate::kvs::codec::text::{
    BAD_CHUNK, BAD_FORMAT, NO_MEMORY, TOO_LARGE, TextState, UNKNOWN, WholeLine,
};
use crate::kvs::protocol::answer::StoreOutcome;
use crate::kvs::protocol::limits::{KEY_LEN_MAX, META_WORDS_MAX, VALUE_LEN_MAX};
use crate::kvs::protocol::request::{StoreMode, StoreRequest};
use crate::kvs::protocol::time::Expiry;

/// Stores the value behind the line, once it is there.
pub fn set(
    state: &mut TextState,
    line: &WholeLine<'_>,
    out: &mut Vec<u8>,
    context: &Context<'_>,
) -> CodecProgress {
    let value_len = match announced_len(line) {
        Ok(value_len) => value_len,
        Err(complaint) => {
            out.extend_from_slice(complaint);
            return CodecProgress::Done(line.next);
        }
    };
    let mut room = [0; KEY_LEN_MAX];
    let read = Flags::read(line, 3, &mut room).and_then(|(flags, bytes)| {
        let (key, mode) = (context.store.key(bytes), mode(flags.mode)?);
        if flags.is_opaque_long { Err(OPAQUE_LONG) } else { Ok((flags, key, mode)) }
    });
    let (flags, key, mode) = match read {
        Ok((_, key, _)) if value_len > VALUE_LEN_MAX => {
            // Whatever the mode is, what is there goes.
            context.store.partition(&key).refuse_large(&key, StoreMode::Set, context.now);
            return skip(state, line, value_len, TOO_LARGE, out);
        }
        Ok(read) => read,
        Err(complaint) => return skip(state, line, value_len, complaint, out),
    };
    match data(line, value_len) {
        ValueData::More(count) => CodecProgress::More(count),
        ValueData::Broken(next) => {
            out.extend_from_slice(BAD_CHUNK);
            CodecProgress::Done(next)
        }
        ValueData::Whole(value, next) => {
            store(&MetaCommand { line, flags, key }, mode, value, out, context);
            CodecProgress::Done(next)
        }
    }
}

/// How long the value behind the line is. Where that cannot be said, the next line is one of its
/// own.
fn announced_len(line: &WholeLine<'_>) -> Result<usize, &'static [u8]> {
    match line.words.count {
        ..2 => Err(UNKNOWN),
        _ if line.words.at(1).len() > KEY_LEN_MAX => Err(BAD_FORMAT),
        2 => Err(BAD_FORMAT),
        3..=META_WORDS_MAX => value_len(line.words.at(2)).ok_or(BAD_FORMAT),
        _ => Err(TOO_LONG),
    }
}

/// The value that follows is of no use.
fn skip(
    state: &mut TextState,
    line: &WholeLine<'_>,
    value_len: usize,
    complaint: &[u8],
    out: &mut Vec<u8>,
) -> CodecProgress {
    out.extend_from_slice(complaint);
    *state = TextState::Skip(value_len + 2);
    CodecProgress::Done(line.next)
}

fn mode(letter: Option<u8>) -> Result<StoreMode, &'static [u8]> {
    match letter {
        None | Some(b'S') => Ok(StoreMode::Set),
        Some(b'E') => Ok(StoreMode::Add),
        Some(b'A') => Ok(StoreMode::Append),
        Some(b'P') => Ok(StoreMode::Prepend),
        Some(b'R') => Ok(StoreMode::Replace),
        Some(_) => Err(b"CLIENT_ERROR invalid mode for ms M token\r\n"),
    }
}

fn store(
    command: &MetaCommand<'_>,
    mode: StoreMode,
    value: &[u8],
    out: &mut Vec<u8>,
    context: &Context<'_>,
) {
    let flags = &command.flags;
    let write = StoreRequest {
        key: command.key,
        mode,
        flags: flags.flags,
        expiry: Expiry::of(flags.time.unwrap_or(0), context.now),
        value,
        compare: flags.compare,
        cas: flags.cas,
        stale_allowed: flags.is_stale,
        vivify: flags.vivify.map(|time| Expiry::of(time, context.now)),
        is_binary_key: flags.is_binary,
    };
    let mut partition = context.store.partition(&command.key);
    partition.counters_mut().cmd_meta += 1;
    let written = partition.write(&write, context.now);
    drop(partition);
    let code: &[u8] = match written {
        StoreOutcome::Stored { .. } if flags.is_quiet => return,
        StoreOutcome::Stored { .. } => b"HD",
        StoreOutcome::NotStored => b"NS",
        StoreOutcome::Exists => b"EX",
        StoreOutcome::NotFound => b"NF",
        StoreOutcome::TooLarge => return out.extend_from_slice(TOO_LARGE),
        StoreOutcome::NoMemory => return out.extend_from_slice(NO_MEMORY),
    };
    let (cas, value_len) = match written {
        StoreOutcome::Stored { cas, value_len } => (cas, value_len),
        _ => (0, value.len()),
    };
    out.extend_from_slice(code);
    for word in command.flag_words(3) {
        match word[0] {
            b'c' => figure(out, b'c', cas),
            b's' => figure(out, b's', value_len as u64),
            _ => command.echo_one(word, flags.is_binary, out),
        }
    }
    out.extend_from_slice(b"\r\n");
}
