//! A session: one connection, from its bytes to the answers.
//!
//! It opens no socket and reads no clock. Requests are parsed where their bytes lie. A request that
//! is not whole says how many bytes it needs, and is parsed again when these have come.

#[cfg(test)]
mod tests;

use super::context::{CodecProgress, Context};
use super::{binary, text};
use crate::kvs::protocol::binary::BINARY_MAGIC;

/// The event that the session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// So many bytes in all, those that were not used included.
    Input(usize),
    /// Room for answers.
    Room,
    /// Nothing: the connection is to end after what was answered.
    Close,
}

/// How far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are done with.
    pub used: usize,
    /// The event that the session waits for.
    pub next: Next,
}

/// Which protocol a connection speaks; its first byte says it.
#[derive(Debug, Default)]
enum Protocol {
    #[default]
    Unknown,
    Text(text::TextState),
    Binary(binary::FrameState),
}

/// One connection's side of the talk.
#[derive(Debug, Default)]
pub struct Session {
    protocol: Protocol,
}

impl Session {
    /// Serves the requests at the start of `input`, as long as less than `room` bytes of answers
    /// wait in `out`: the last one may go beyond.
    pub fn serve(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        room: usize,
        context: &Context<'_>,
    ) -> Progress {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            if out.len() >= room {
                return Progress { used, next: Next::Room };
            }
            let step = match (&mut self.protocol, rest.first()) {
                (_, None) => return Progress { used, next: Next::Input(1) },
                (Protocol::Unknown, Some(&first)) => {
                    self.protocol = match first {
                        BINARY_MAGIC => Protocol::Binary(binary::FrameState::default()),
                        _ => Protocol::Text(text::TextState::default()),
                    };
                    continue;
                }
                (Protocol::Text(state), _) => text::step(state, rest, out, context),
                (Protocol::Binary(state), _) => binary::step(state, rest, out, context),
            };
            match step {
                CodecProgress::Done(count) => used += count,
                CodecProgress::More(count) => return Progress { used, next: Next::Input(count) },
                CodecProgress::Close => return Progress { used, next: Next::Close },
            }
        }
    }
}
