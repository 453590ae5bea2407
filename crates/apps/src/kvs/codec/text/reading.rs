//! `get`, `gets`, `gat`, `gats`: any number of keys in a line, answered one by one.
//!
//! Keys are taken as they come: neither a line of a million keys nor the answers to it are ever in
//! memory as a whole.

use memchr::{memchr, memchr2};

use super::words::{behind, each, trimmed};
use super::{BAD_FORMAT, TextState, UNKNOWN, WholeLine, answer};
use crate::kvs::codec::context::{CodecProgress, Context};
use crate::kvs::protocol::limits::KEY_LEN_MAX;
use crate::kvs::protocol::number::signed_32;
use crate::kvs::protocol::time::Expiry;
use crate::kvs::store::PrefixRequest;

/// How the keys of a line are read.
#[derive(Clone, Copy, Debug)]
pub struct KeyList {
    /// With the number of each item.
    pub cas: bool,
    /// Each item gets this end.
    pub touch: Option<Expiry>,
    /// There may be a NUL in the line, which ends it for memcached.
    pub has_nul: bool,
}

/// Begins with a whole line. If one of its keys is too long, none is answered.
pub fn begin(
    state: &mut TextState,
    line: &WholeLine<'_>,
    out: &mut Vec<u8>,
    context: &Context<'_>,
) -> CodecProgress {
    let words = &line.words;
    let is_touch = matches!(words.at(0), b"gat" | b"gats");
    let before_keys = if is_touch { 2 } else { 1 };
    if words.count < 2 {
        out.extend_from_slice(UNKNOWN);
        return CodecProgress::Done(line.next);
    }
    let mut touch = None;
    if is_touch {
        let Some(time) = signed_32(words.at(1)) else {
            out.extend_from_slice(b"CLIENT_ERROR invalid exptime argument\r\n");
            return CodecProgress::Done(line.next);
        };
        touch = Some(Expiry::of(time.into(), context.now));
    }
    if each(line.text).skip(before_keys).any(|key| key.len() > KEY_LEN_MAX) {
        out.extend_from_slice(BAD_FORMAT);
        return CodecProgress::Done(line.next);
    }
    let cas = matches!(words.at(0), b"gets" | b"gats");
    *state = TextState::Keys(KeyList { cas, touch, has_nul: line.has_nul });
    CodecProgress::Done(behind(line.text, before_keys))
}

impl KeyList {
    /// Answers the next key; the state that follows where the line is at its end.
    pub fn step(
        &self,
        input: &[u8],
        out: &mut Vec<u8>,
        context: &Context<'_>,
    ) -> (CodecProgress, Option<TextState>) {
        let spaces = input.iter().take_while(|byte| **byte == b' ').count();
        let rest = &input[spaces..];
        let Some(end) = memchr2(b' ', b'\n', rest) else {
            if rest.len() > KEY_LEN_MAX + 1 {
                out.extend_from_slice(BAD_FORMAT);
                return (CodecProgress::Done(input.len()), Some(TextState::SkipLine));
            }
            // What was a space is done with, so that a line of them does not fill the memory.
            let step = if spaces > 0 {
                CodecProgress::Done(spaces)
            } else {
                CodecProgress::More(input.len() + 1)
            };
            return (step, None);
        };
        let is_last = rest[end] == b'\n';
        let key = if is_last { trimmed(&rest[..end]) } else { &rest[..end] };
        let used = CodecProgress::Done(spaces + end + usize::from(is_last));
        let nul = if self.has_nul { memchr(0, key) } else { None };
        let key = &key[..nul.unwrap_or(key.len())];
        let behind = if is_last { TextState::Line } else { TextState::SkipLine };
        if key.len() > KEY_LEN_MAX {
            out.extend_from_slice(BAD_FORMAT);
            return (used, Some(behind));
        }
        if !key.is_empty() {
            self.answer(key, out, context);
        }
        if !is_last && nul.is_none() {
            return (used, None);
        }
        out.extend_from_slice(b"END\r\n");
        (used, Some(behind))
    }

    fn answer(&self, key: &[u8], out: &mut Vec<u8>, context: &Context<'_>) {
        let key = context.store.key(key);
        let mut partition = context.store.partition(&key);
        let found = match self.touch {
            Some(expiry) => partition.touch(&key, expiry, context.now),
            None => partition.get(&key, context.now),
        };
        partition.record(&key, PrefixRequest::Get { is_hit: found.is_some() });
        if let Some(place) = found {
            answer::item(out, &partition.item(place), self.cas);
        }
    }
}
