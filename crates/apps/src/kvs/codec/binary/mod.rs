//! memcached's binary protocol.
//!
//! From its doc/protocol-binary.txt, and where that is silent or memcached does otherwise, from
//! what memcached does. There is no SASL here: its requests are answered as by a memcached without.

mod requests;

use super::context::{CodecProgress, Context};
use crate::kvs::protocol::binary::{
    self, BINARY_MAGIC, FOUND_LEN, HEAD_LEN, RequestHeader, Status, opcode, refuse,
};
use crate::kvs::protocol::hash::HashedKey;
use crate::kvs::protocol::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use crate::kvs::protocol::time::UnixTime;
use crate::kvs::store::{Header, Item, Partition};

/// Longest body that is waited for or passed over, as in memcached: beyond it the client is lost.
const BODY_LEN_MAX: usize = 1 << 30;

/// The position of a connection among frames.
#[derive(Debug, Default)]
pub enum FrameState {
    /// At the start of one.
    #[default]
    Frame,
    /// Within a body that is of no use, which has so many bytes more.
    Skip(usize),
}

/// The valid lengths of a request.
struct RequestForm {
    extras_len: &'static [usize],
    has_key: KeyRule,
    has_value: bool,
}

/// Whether a request has a key.
#[derive(PartialEq)]
enum KeyRule {
    Always,
    Never,
    Perhaps,
}

/// The key of the request that these bytes are, where they are a whole one with a key and a value
/// that is not too long, and nothing is behind it.
#[inline]
pub fn single(input: &[u8]) -> Option<&[u8]> {
    let bytes = input.first_chunk().filter(|bytes| bytes[0] == BINARY_MAGIC)?;
    let head = RequestHeader::read(bytes);
    let value_len = head.value_len()?;
    let form = form(opcode::strip_quiet(head.code).0)?;
    let is_right = form.has_key == KeyRule::Always
        && form.fits(&head, value_len)
        && head.key_len <= KEY_LEN_MAX
        && value_len <= VALUE_LEN_MAX
        && input.len() == HEAD_LEN + head.body_len;
    let start = HEAD_LEN + head.extras_len;
    if is_right { input.get(start..start + head.key_len) } else { None }
}

/// Carries out the request that these bytes are, of which [`single`] has told the key, in the key's
/// partition, and answers it.
#[inline]
pub fn keyed(
    input: &[u8],
    key: HashedKey<'_>,
    partition: &mut Partition,
    out: &mut Vec<u8>,
    now: UnixTime,
) {
    if let Some(bytes) = input.first_chunk() {
        requests::keyed(&RequestHeader::read(bytes).request(input), key, partition, out, now);
    }
}

/// The answer to a get that has found an item, before the value.
#[inline]
pub fn found(opaque: [u8; 4], header: &Header) -> [u8; FOUND_LEN] {
    binary::found(opaque, header.cas, header.flags, header.value_len)
}

/// Adds the answer to a get that has found this, or nothing.
pub fn got(opaque: [u8; 4], item: Option<&Item<'_>>, out: &mut Vec<u8>) {
    match item {
        Some(item) => {
            out.extend_from_slice(&found(opaque, &item.header));
            out.extend_from_slice(item.value);
        }
        None => {
            refuse(&RequestHeader { opaque, ..RequestHeader::default() }, Status::NotFound, out)
        }
    }
}

/// Does what the frame at the start of `input` asks for.
pub fn step(
    state: &mut FrameState,
    input: &[u8],
    out: &mut Vec<u8>,
    context: &Context<'_>,
) -> CodecProgress {
    if let FrameState::Skip(left) = state {
        let count = input.len().min(*left);
        *left -= count;
        if *left == 0 {
            *state = FrameState::Frame;
        }
        return CodecProgress::Done(count);
    }
    if input[0] != BINARY_MAGIC {
        return CodecProgress::Close;
    }
    let Some(bytes) = input.first_chunk() else { return CodecProgress::More(HEAD_LEN) };
    let head = RequestHeader::read(bytes);
    let Some(value_len) = head.value_len() else {
        refuse(&head, Status::Unknown, out);
        return CodecProgress::Close;
    };
    if head.body_len > BODY_LEN_MAX || head.key_len > KEY_LEN_MAX {
        refuse(&head, Status::Invalid, out);
        return CodecProgress::Close;
    }
    let Some(form) = form(opcode::strip_quiet(head.code).0) else {
        refuse(&head, Status::Unknown, out);
        return pass_over(state, head.body_len, HEAD_LEN);
    };
    if !form.fits(&head, value_len) {
        refuse(&head, Status::Invalid, out);
        return CodecProgress::Close;
    }
    let before_value = HEAD_LEN + head.extras_len + head.key_len;
    let is_too_large = value_len > VALUE_LEN_MAX;
    let needed = if is_too_large { before_value } else { HEAD_LEN + head.body_len };
    if input.len() < needed {
        return CodecProgress::More(needed);
    }
    let request = head.request(input);
    if is_too_large {
        requests::refuse_large(&request, out, context);
        return pass_over(state, value_len, before_value);
    }
    match requests::carry_out(&request, out, context) {
        true => CodecProgress::Done(needed),
        false => CodecProgress::Close,
    }
}

fn pass_over(state: &mut FrameState, count: usize, used: usize) -> CodecProgress {
    if count > 0 {
        *state = FrameState::Skip(count);
    }
    CodecProgress::Done(used)
}

/// The form of a request; `None` where there is no such request.
#[inline]
fn form(loud: u8) -> Option<RequestForm> {
    let of = |extras_len, has_key, has_value| Some(RequestForm { extras_len, has_key, has_value });
    match loud {
        opcode::GET | opcode::GETK | opcode::DELETE => of(&[0], KeyRule::Always, false),
        opcode::SET | opcode::ADD | opcode::REPLACE => of(&[8], KeyRule::Always, true),
        opcode::INCREMENT | opcode::DECREMENT => of(&[20], KeyRule::Always, false),
        opcode::APPEND | opcode::PREPEND | opcode::SASL_AUTH | opcode::SASL_STEP => {
            of(&[0], KeyRule::Always, true)
        }
        opcode::TOUCH | opcode::GAT | opcode::GATK => of(&[4], KeyRule::Always, false),
        opcode::QUIT | opcode::NOOP | opcode::VERSION | opcode::SASL_LIST => {
            of(&[0], KeyRule::Never, false)
        }
        opcode::FLUSH => of(&[0, 4], KeyRule::Never, false),
        opcode::STAT => of(&[0], KeyRule::Perhaps, false),
        _ => None,
    }
}

impl RequestForm {
    #[inline]
    fn fits(&self, head: &RequestHeader, value_len: usize) -> bool {
        let is_key_right = match self.has_key {
            KeyRule::Always => head.key_len > 0,
            KeyRule::Never => head.key_len == 0,
            KeyRule::Perhaps => true,
        };
        let is_value_right = self.has_value || value_len == 0;
        self.extras_len.contains(&head.extras_len) && is_key_right && is_value_right
    }
}
