//! One TCP connection: received bytes that are not served yet, and answers that are not sent yet.
//!
//! Both are bounded. Who does not read his answers is not read from until he does; who sends half a
//! request keeps half a request here, and all together not more than the server's limit.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::kvs::codec::context::Context;
use crate::kvs::codec::session::{Next, Session};
use crate::kvs::protocol::limits::ANSWERS_LEN_MAX;
use crate::kvs::transport::shared::ServerShared;
use crate::kvs::transport::shared::tally::add;

/// Times that answers are written in one turn, before others have theirs.
const ROUNDS_MAX: usize = 8;

/// A buffer beyond this is given back when it is not needed, bytes.
const KEPT_LEN_MAX: usize = 16 << 10;

/// A connection that holds less than this is never closed because others hold too much, bytes.
const HOLD_MIN: usize = 4 << 10;

/// Memory that a thread has for the connection whose turn it is.
#[derive(Debug)]
pub struct Scratch {
    pub read: Box<[u8]>,
    pub out: Vec<u8>,
}

/// The event that a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Something to read.
    Input,
    /// Room to write.
    Room,
    /// Its next turn.
    Turn,
    /// Nothing more: it is to be closed.
    End,
}

/// A client's connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    session: Session,
    /// Received bytes that are not served yet.
    input: Vec<u8>,
    /// Bytes that there have to be in `input` before it is worth a look.
    needed: usize,
    /// Answers that are not sent yet, from `sent` on.
    output: Vec<u8>,
    sent: usize,
    is_ending: bool,
    /// Bytes that it holds, as the tally knows it.
    held: usize,
    /// When it last said or took something.
    pub active_s: u64,
    /// The event that it waits for, for the poller.
    pub wait: Wait,
}

impl Connection {
    /// A new one.
    pub fn new(stream: TcpStream, now_s: u64) -> Connection {
        Connection {
            stream,
            session: Session::default(),
            input: Vec::new(),
            needed: 1,
            output: Vec::new(),
            sent: 0,
            is_ending: false,
            held: 0,
            active_s: now_s,
            wait: Wait::Input,
        }
    }

    /// Its socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// It was told that it is over, and only has to take what was answered.
    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// It has a turn: sends what waits, reads, serves, answers.
    ///
    /// # Errors
    /// The connection broke.
    pub fn turn(
        &mut self,
        scratch: &mut Scratch,
        context: &Context<'_>,
        shared: &ServerShared,
    ) -> io::Result<Wait> {
        let before = self.wait;
        if !self.flush(shared)? {
            return Ok(Wait::Room);
        }
        if self.is_ending {
            return Ok(Wait::End);
        }
        let mut wait = Wait::Input;
        if before == Wait::Input {
            match self.stream.read(&mut scratch.read) {
                Ok(0) => return Ok(Wait::End),
                Ok(count) => {
                    add(&shared.tally.bytes_read, count as u64);
                    wait = self.take(count, scratch, context, shared)?;
                }
                Err(error) if is_nothing(&error) => {}
                Err(error) => return Err(error),
            }
        } else {
            // What came before it had to wait is still to be served.
            wait = self.take(0, scratch, context, shared)?;
        }
        Ok(wait)
    }

    /// Serves what came: the first `count` bytes of the scratch, behind what was kept.
    fn take(
        &mut self,
        count: usize,
        scratch: &mut Scratch,
        context: &Context<'_>,
        shared: &ServerShared,
    ) -> io::Result<Wait> {
        if self.input.is_empty() {
            let (used, wait) =
                self.serve(&scratch.read[..count], &mut scratch.out, context, shared)?;
            self.input.extend_from_slice(&scratch.read[used..count]);
            return Ok(wait);
        }
        self.input.extend_from_slice(&scratch.read[..count]);
        if self.input.len() < self.needed {
            return Ok(Wait::Input);
        }
        let mut input = std::mem::take(&mut self.input);
        let (used, wait) = self.serve(&input, &mut scratch.out, context, shared)?;
        input.drain(..used);
        if input.capacity() > KEPT_LEN_MAX && input.len() <= KEPT_LEN_MAX {
            input.shrink_to(input.len());
        }
        self.input = input;
        Ok(wait)
    }

    /// Serves requests and sends their answers; how many bytes are done with.
    fn serve(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        context: &Context<'_>,
        shared: &ServerShared,
    ) -> io::Result<(usize, Wait)> {
        let mut used = 0;
        for _ in 0..ROUNDS_MAX {
            out.clear();
            let progress = self.session.serve(&input[used..], out, ANSWERS_LEN_MAX, context);
            used += progress.used;
            let is_sent = self.send(out, shared)?;
            match progress.next {
                Next::Close => {
                    self.is_ending = true;
                    return Ok((input.len(), if is_sent { Wait::End } else { Wait::Room }));
                }
                Next::Input(needed) => {
                    self.needed = needed;
                    return Ok((used, if is_sent { Wait::Input } else { Wait::Room }));
                }
                Next::Room => self.needed = 1,
            }
            if !is_sent {
                return Ok((used, Wait::Room));
            }
        }
        Ok((used, Wait::Turn))
    }

    /// Sends answers, or keeps what the kernel has no room for; `true` where all is sent.
    fn send(&mut self, answers: &mut Vec<u8>, shared: &ServerShared) -> io::Result<bool> {
        let sent = write(&self.stream, answers, shared)?;
        if sent < answers.len() {
            self.output.extend_from_slice(&answers[sent..]);
        }
        // One large answer must not keep its memory for ever.
        if answers.capacity() > 4 * ANSWERS_LEN_MAX {
            answers.clear();
            answers.shrink_to(ANSWERS_LEN_MAX);
        }
        Ok(self.output.is_empty())
    }

    /// Sends what was kept; `true` where nothing is any more.
    fn flush(&mut self, shared: &ServerShared) -> io::Result<bool> {
        if self.output.is_empty() {
            return Ok(true);
        }
        self.sent += write(&self.stream, &self.output[self.sent..], shared)?;
        if self.sent < self.output.len() {
            return Ok(false);
        }
        (self.output, self.sent) = (Vec::new(), 0);
        Ok(true)
    }

    /// Says how much it holds; `false` where that is too much.
    pub fn is_within(&mut self, shared: &ServerShared) -> bool {
        let holds = self.input.capacity() + self.output.capacity();
        if holds == self.held {
            return true;
        }
        let is_more = holds > self.held;
        let all = shared.tally.hold(self.held, holds);
        self.held = holds;
        !(is_more && holds > HOLD_MIN && all > shared.options.buffers_bytes_max)
    }

    /// It is closed: what it held is free.
    pub fn leave(self, shared: &ServerShared) {
        shared.tally.hold(self.held, 0);
        shared.tally.leave();
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Writes as much as the kernel takes.
fn write(mut stream: &TcpStream, bytes: &[u8], shared: &ServerShared) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    add(&shared.tally.bytes_written, sent as u64);
    Ok(sent)
}
