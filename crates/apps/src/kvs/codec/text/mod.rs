//! memcached's text protocol: a line, and behind some lines a value.
//!
//! The answers are those of memcached's protocol.txt. Where a malformed line has several errors,
//! the answer is the one that memcached 1.6.18 gives.

mod answer;
mod classic;
mod meta;
mod reading;
mod storage;
mod words;

use memchr::memchr;

use super::context::{CodecProgress, Context};
use crate::kvs::protocol::limits::LINE_LEN_MAX;
use crate::kvs::protocol::request::StoreMode;
use reading::KeyList;
use words::{Words, trimmed};

/// Spaces before a line of many keys that are put up with.
const SPACES_MAX: usize = 100;

const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
const BAD_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
const UNKNOWN: &[u8] = b"ERROR\r\n";
const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";

/// The position of a connection in the text.
#[derive(Debug, Default)]
pub enum TextState {
    /// At the start of a line.
    #[default]
    Line,
    /// Within a line of keys that are read one by one.
    Keys(KeyList),
    /// Within a value that is of no use, which has so many bytes more.
    Skip(usize),
    /// Within a line that is of no use.
    SkipLine,
}

/// A line that is whole.
#[derive(Clone, Copy)]
struct WholeLine<'a> {
    words: Words<'a>,
    /// The line itself, without its end.
    text: &'a [u8],
    /// All that has come, from the start of the line on.
    input: &'a [u8],
    /// The start of the next line or of the value.
    next: usize,
    /// A NUL stands in it: for memcached, whose lines are C's strings, it ends there.
    has_nul: bool,
}

/// Does what the bytes at the start of `input` ask for.
pub fn step(
    state: &mut TextState,
    input: &[u8],
    out: &mut Vec<u8>,
    context: &Context<'_>,
) -> CodecProgress {
    match state {
        TextState::Line => line(state, input, out, context),
        TextState::Keys(keys) => match keys.step(input, out, context) {
            (step, None) => step,
            (step, Some(next)) => {
                *state = next;
                step
            }
        },
        TextState::Skip(left) => {
            let count = input.len().min(*left);
            *left -= count;
            if *left == 0 {
                *state = TextState::Line;
            }
            CodecProgress::Done(count)
        }
        TextState::SkipLine => match memchr(b'\n', input) {
            Some(end) => {
                *state = TextState::Line;
                CodecProgress::Done(end + 1)
            }
            None => CodecProgress::Done(input.len()),
        },
    }
}

fn line(
    state: &mut TextState,
    input: &[u8],
    out: &mut Vec<u8>,
    context: &Context<'_>,
) -> CodecProgress {
    let Some(end) = memchr(b'\n', input) else { return unfinished(state, input) };
    let whole = trimmed(&input[..end]);
    let nul = memchr(0, whole);
    let text = &whole[..nul.unwrap_or(whole.len())];
    let (words, has_nul) = (Words::of(text), nul.is_some());
    let line = WholeLine { words, text, input, next: end + 1, has_nul };
    let storage = |mode| storage::classic(&line, mode);
    match line.words.at(0) {
        b"get" | b"gets" | b"gat" | b"gats" | b"bget" => reading::begin(state, &line, out, context),
        b"set" => storage(StoreMode::Set).run(state, out, context),
        b"add" => storage(StoreMode::Add).run(state, out, context),
        b"replace" => storage(StoreMode::Replace).run(state, out, context),
        b"append" => storage(StoreMode::Append).run(state, out, context),
        b"prepend" => storage(StoreMode::Prepend).run(state, out, context),
        b"cas" => storage::compared(&line).run(state, out, context),
        b"ms" => meta::set(state, &line, out, context),
        b"mg" | b"md" | b"ma" | b"me" | b"mn" => {
            meta::command(&line, out, context);
            CodecProgress::Done(line.next)
        }
        b"quit" => CodecProgress::Close,
        _ => classic::command(&line, out, context),
    }
}

/// A line whose end has not come: it may take its time, but not all memory.
fn unfinished(state: &mut TextState, input: &[u8]) -> CodecProgress {
    if input.len() <= LINE_LEN_MAX {
        return CodecProgress::More(input.len() + 1);
    }
    let spaces = input.iter().take_while(|byte| **byte == b' ').count();
    let words = &input[spaces..];
    let cas = match words {
        [b'g', b'e', b't', b' ', ..] => false,
        [b'g', b'e', b't', b's', b' ', ..] => true,
        _ => return CodecProgress::Close,
    };
    if spaces > SPACES_MAX {
        return CodecProgress::Close;
    }
    *state = TextState::Keys(KeyList { cas, touch: None, has_nul: true });
    CodecProgress::Done(spaces + if cas { 4 } else { 3 })
}
