//! The meta commands: `mg`, `ms`, `md`, `ma`, `me`, `mn`.
//!
//! Each answers what its flags ask for, in their order.

mod base64;
mod change;
mod flags;
mod get;
mod set;

use super::words::each;
use super::{BAD_FORMAT, UNKNOWN, WholeLine};
use crate::kvs::codec::context::Context;
use crate::kvs::protocol::hash::HashedKey;
use crate::kvs::protocol::limits::{KEY_LEN_MAX, META_WORDS_MAX};
use flags::{Flags, TOO_LONG, TOO_MANY};
pub use set::set;

/// A command whose flags and key are known.
struct MetaCommand<'a> {
    line: &'a WholeLine<'a>,
    flags: Flags,
    key: HashedKey<'a>,
}

/// Carries out a command of one line.
pub fn command(line: &WholeLine<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let (read, run): (FlagReader, CommandFn) = match line.words.at(0) {
        b"mn" => return out.extend_from_slice(b"MN\r\n"),
        b"me" if line.words.count < 2 => return out.extend_from_slice(BAD_FORMAT),
        _ if line.words.count < 2 => return out.extend_from_slice(UNKNOWN),
        b"mg" => (read_get, get::get),
        b"md" => (read_change, change::delete),
        b"ma" => (read_change, change::count),
        b"me" => (read_debug, get::debug),
        _ => return out.extend_from_slice(UNKNOWN),
    };
    let mut room = [0; KEY_LEN_MAX];
    let start = out.len();
    let known = if line.words.at(1).len() > KEY_LEN_MAX { Err(BAD_FORMAT) } else { Ok(()) };
    let done = known.and_then(|()| read(line, &mut room)).and_then(|(flags, bytes)| {
        run(&MetaCommand { line, flags, key: context.store.key(bytes) }, out, context)
    });
    if let Err(complaint) = done {
        out.truncate(start);
        out.extend_from_slice(complaint);
    }
}

/// Carries a command out.
type CommandFn = fn(&MetaCommand<'_>, &mut Vec<u8>, &Context<'_>) -> MetaResult;

/// Reads the flags of a command and its key. A key in base64 is decoded into the buffer.
type FlagReader =
    for<'a> fn(&WholeLine<'a>, &'a mut [u8; KEY_LEN_MAX]) -> Result<(Flags, &'a [u8]), ClientError>;

/// An error answer to a client.
type ClientError = &'static [u8];

/// `mg` says which flag is wrong.
fn read_get<'a>(
    line: &WholeLine<'a>,
    room: &'a mut [u8; KEY_LEN_MAX],
) -> Result<(Flags, &'a [u8]), ClientError> {
    match line.words.count {
        ..=META_WORDS_MAX => Flags::read(line, 2, room),
        _ => Err(TOO_MANY),
    }
}

/// `md` and `ma` say only that one is.
fn read_change<'a>(
    line: &WholeLine<'a>,
    room: &'a mut [u8; KEY_LEN_MAX],
) -> Result<(Flags, &'a [u8]), ClientError> {
    match line.words.count {
        ..=META_WORDS_MAX => Flags::read(line, 2, room)
            .map_err(|_| &b"CLIENT_ERROR invalid or duplicate flag\r\n"[..]),
        _ => Err(TOO_LONG),
    }
}

/// `me` knows one flag, a `b` in the first place, and does not look at others.
fn read_debug<'a>(
    line: &WholeLine<'a>,
    room: &'a mut [u8; KEY_LEN_MAX],
) -> Result<(Flags, &'a [u8]), ClientError> {
    let (word, is_binary) = (line.words.at(1), line.words.at(2) == b"b");
    let bytes = if is_binary { base64::decode(word, room).ok_or(BAD_FORMAT)? } else { word };
    Ok((Flags::binary(is_binary), bytes))
}

impl MetaCommand<'_> {
    /// The words of the flags, in their order.
    fn flag_words(&self, before: usize) -> impl Iterator<Item = &[u8]> {
        each(self.line.text).skip(before)
    }

    /// Adds what the flags `O` and `k` ask for, whether or not the command succeeds.
    fn echo(&self, before: usize, out: &mut Vec<u8>) {
        for word in self.flag_words(before) {
            self.echo_one(word, self.flags.is_binary, out);
        }
    }

    fn echo_one(&self, word: &[u8], is_binary: bool, out: &mut Vec<u8>) {
        match word[0] {
            b'O' => {
                out.push(b' ');
                out.extend_from_slice(word);
            }
            b'k' => key(self.key.bytes, is_binary, out),
            _ => {}
        }
    }
}

/// Adds a key that is asked for.
fn key(bytes: &[u8], is_binary: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b" k");
    match is_binary {
        true => {
            base64::encode(bytes, out);
            out.extend_from_slice(b" b");
        }
        false => out.extend_from_slice(bytes),
    }
}

/// Adds a letter and a number.
fn figure(out: &mut Vec<u8>, letter: u8, value: u64) {
    out.extend_from_slice(&[b' ', letter]);
    super::answer::number(out, value);
}

/// Adds the seconds that are left, -1 where there is no end.
fn time_left(out: &mut Vec<u8>, left_s: Option<u32>) {
    match left_s {
        Some(left_s) => figure(out, b't', left_s.into()),
        None => out.extend_from_slice(b" t-1"),
    }
}

/// Whether the command went as it usually does, or what the client is to be told.
type MetaResult = Result<(), ClientError>;
