//! The meta commands: `mg`, `ms`, `md`, `ma`, `me`, `mn`.
//!
//! Each answers what its flags ask for, in their order.

mod base64;
mod change;
mod flags;
mod get;
mod set;

use super::words::each;
use super::{BAD_FORMAT, Line, UNKNOWN};
use crate::kvs::codec::context::Context;
use crate::kvs::protocol::hash::Key;
use crate::kvs::protocol::limits::KEY_LEN_MAX;
use flags::{Flags, OPAQUE_LONG, TOO_LONG, TOO_MANY};
pub use set::set;

/// A command whose flags and key are known.
struct Command<'a> {
    line: &'a Line<'a>,
    flags: Flags,
    key: Key<'a>,
}

/// Carries out a command of one line.
pub fn command(line: &Line<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let (run, is_plain): (Run, bool) = match line.words.at(0) {
        b"mn" => return out.extend_from_slice(b"MN\r\n"),
        b"mg" => (get::get, false),
        b"md" => (change::delete, true),
        b"ma" => (change::count, true),
        b"me" => (get::debug, true),
        _ => return out.extend_from_slice(UNKNOWN),
    };
    let is_debug = line.words.at(0) == b"me";
    if line.words.count < 2 {
        return out.extend_from_slice(if is_debug { BAD_FORMAT } else { UNKNOWN });
    }
    let mut room = [0; KEY_LEN_MAX];
    let start = out.len();
    let done = read(line, is_debug, &mut room, context)
        .map_err(|complaint| if is_plain { plain(complaint, is_debug) } else { complaint })
        .and_then(|(flags, key)| run(&Command { line, flags, key }, out, context));
    if let Err(complaint) = done {
        out.truncate(start);
        out.extend_from_slice(complaint);
    }
}

/// What carries a command out.
type Run = fn(&Command<'_>, &mut Vec<u8>, &Context<'_>) -> Done;

/// Flags and key of a command of one line; of `me` no flag is looked at but a `b` in the first
/// place.
fn read<'a>(
    line: &Line<'a>,
    is_debug: bool,
    room: &'a mut [u8; KEY_LEN_MAX],
    context: &Context<'_>,
) -> Result<(Flags, Key<'a>), &'static [u8]> {
    let word = line.words.at(1);
    if word.len() > KEY_LEN_MAX {
        return Err(BAD_FORMAT);
    }
    let flags = match is_debug {
        true => Flags::binary(line.words.at(2) == b"b"),
        false => {
            let is_get = line.words.at(0) == b"mg";
            Flags::read(line, 2, if is_get { TOO_MANY } else { TOO_LONG })?
        }
    };
    let key = flags.key(word, room, context)?;
    if flags.is_opaque_long { Err(OPAQUE_LONG) } else { Ok((flags, key)) }
}

/// What commands say that do not tell which flag was wrong.
fn plain(complaint: &'static [u8], is_debug: bool) -> &'static [u8] {
    match complaint {
        BAD_FORMAT | TOO_LONG | OPAQUE_LONG => complaint,
        _ if is_debug => BAD_FORMAT,
        _ => b"CLIENT_ERROR invalid or duplicate flag\r\n",
    }
}

impl Command<'_> {
    /// The words of the flags, in their order.
    fn flag_words(&self, before: usize) -> impl Iterator<Item = &[u8]> {
        each(self.line.text).skip(before)
    }

    /// Adds what the flags `O` and `k` ask for, whatever becomes of the command.
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
type Done = Result<(), &'static [u8]>;
