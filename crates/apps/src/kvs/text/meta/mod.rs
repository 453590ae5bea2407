//! The meta commands: `mg`, `ms`, `md`, `ma`, `me`, `mn`.
//!
//! Each answers what its flags ask for, in their order.

mod base64;
mod change;
mod flags;
mod get;
mod set;

use super::super::hash::Key;
use super::super::limits::KEY_LEN_MAX;
use super::super::session::Context;
use super::words::each;
use super::{Line, UNKNOWN};
use flags::Flags;
pub use set::set;

/// A command whose flags and key are known.
struct Command<'a> {
    line: &'a Line<'a>,
    flags: Flags,
    key: Key<'a>,
}

/// Carries out a command of one line.
pub fn command(line: &Line<'_>, out: &mut Vec<u8>, context: &Context<'_>) {
    let run = match line.words.at(0) {
        b"mn" => return out.extend_from_slice(b"MN\r\n"),
        b"mg" => get::get,
        b"md" => change::delete,
        b"ma" => change::count,
        b"me" => get::debug,
        _ => return out.extend_from_slice(UNKNOWN),
    };
    let mut room = [0; KEY_LEN_MAX];
    let read = Flags::read(line, 2)
        .and_then(|flags| Ok((flags, flags.key(line.words.at(1), &mut room, context)?)));
    let start = out.len();
    let done = match read {
        Ok((flags, key)) => run(&Command { line, flags, key }, out, context),
        Err(complaint) => Err(complaint),
    };
    if let Err(complaint) = done {
        out.truncate(start);
        out.extend_from_slice(complaint);
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
