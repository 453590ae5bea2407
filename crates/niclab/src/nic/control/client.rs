//! A client of the socket of a card, from when it connects until it has its answer.

use std::io::{self, ErrorKind, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use niclab_card::Card;
use niclab_control::{ControlError, Request, Response};
use rustix::event::PollFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::answer::{carry_out, is_read_only, refused};
use super::{Access, OWN_LEN, PATIENCE, RATE_MIN, UNTAKEN_MAX, shared};

/// A request, or why it is none; and the open file that came beside it.
pub(super) struct ReceivedRequest {
    pub(super) request: Result<Request, ControlError>,
    pub(super) file: Option<OwnedFd>,
}

/// A client.
pub(super) struct SocketClient {
    stream: UnixStream,
    received: Vec<u8>,
    /// The last file that came beside what was said.
    file: Option<OwnedFd>,
    /// Answer, and how many of its bytes were sent.
    answer: Vec<u8>,
    taken: usize,
    /// When it came or was answered, and when something was heard or taken last.
    came: Instant,
    since: Instant,
}

impl SocketClient {
    pub(super) fn new(stream: UnixStream) -> SocketClient {
        let (came, since) = (Instant::now(), Instant::now());
        SocketClient { stream, received: vec![], file: None, answer: vec![], taken: 0, came, since }
    }

    /// Bytes of a request that it has said.
    pub(super) fn request_len(&self) -> usize {
        self.received.len()
    }

    /// Bytes of its answer that it has not taken yet.
    pub(super) fn unsent_len(&self) -> usize {
        self.answer.len() - self.taken
    }

    /// The poll flags it waits for.
    pub(super) fn poll_flags(&self) -> (BorrowedFd<'_>, PollFlags) {
        let what = if self.unsent_len() > 0 { PollFlags::OUT } else { PollFlags::IN };
        (self.stream.as_fd(), what)
    }

    /// For how long it has said and taken nothing.
    pub(super) fn idle_time(&self) -> Duration {
        self.since.elapsed()
    }

    /// Whether it has said or taken something in a while, and enough in all, and may go on.
    pub(super) fn is_active(&self) -> bool {
        let moved = (self.received.len() + self.taken) as u64;
        let together = PATIENCE + Duration::from_millis(moved * 1_000 / RATE_MIN);
        self.idle_time() < PATIENCE && self.came.elapsed() < together
    }

    /// Forgets so much time.
    pub(super) fn extend_deadline(&mut self, time: Duration) {
        (self.came, self.since) = (self.came + time, self.since + time);
    }

    /// Says why it is let go, if it hears that at once and had no other answer.
    pub(super) fn disconnect(self, why: &str) {
        if self.answer.is_empty() {
            let reason = format!("the card let this client go: {why}; ask again");
            let _ = (&self.stream).write((Response::error(reason).line() + "\n").as_bytes());
        }
    }

    /// Hears a piece of what it says, and takes the file that comes beside it.
    fn hear(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let heard = recvmsg(&self.stream, &mut [IoSliceMut::new(piece)], &mut beside, flags)?;
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.file = files.last().or(self.file.take());
            }
        }
        Ok(heard.bytes)
    }

    /// The request, once all of it has been said; why it is none, where there is no room for it.
    pub(super) fn receive(&mut self, room: &mut usize) -> io::Result<Option<ReceivedRequest>> {
        let mut piece = [0; 1 << 16];
        loop {
            let count = match self.hear(&mut piece) {
                // It has gone without a whole line.
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            let piece = &piece[..count];
            let end = piece.iter().position(|byte| *byte == b'\n');
            let own = &piece[..end.unwrap_or(count)];
            let more = shared(self.received.len() + own.len()) - shared(self.received.len());
            let Some(left) = room.checked_sub(more) else {
                return Ok(Some(ReceivedRequest {
                    request: Err(ControlError::TooLong),
                    file: None,
                }));
            };
            *room = left;
            self.received.extend_from_slice(own);
            self.since = Instant::now();
            if end.is_some() {
                *room += shared(self.received.len());
                let request = read(&std::mem::take(&mut self.received));
                return Ok(Some(ReceivedRequest { request, file: self.file.take() }));
            }
        }
    }

    /// Carries out a request and makes its answer; whether the card is to end, and how long it
    /// worked.
    pub(super) fn answer(
        &mut self,
        card: &mut Card,
        access: Access,
        said: ReceivedRequest,
        untaken: &mut usize,
    ) -> (bool, Duration) {
        let begun = Instant::now();
        let ReceivedRequest { request, file } = said;
        // Only what changes nothing can be said again.
        let can_wait = request.as_ref().is_ok_and(is_read_only);
        let answer = match &request {
            Ok(request) => {
                refused(request, access).unwrap_or_else(|| carry_out(card, request, file))
            }
            Err(error) => Response::error(error),
        };
        let is_end = answer == Response::Stopping {};
        let mut answer = answer.line();
        let is_long = answer.len() > OWN_LEN;
        if can_wait && is_long && *untaken > 0 && *untaken + answer.len() > UNTAKEN_MAX {
            let reason = "others have not taken their long answers yet: ask again";
            answer = Response::error(reason).line();
        }
        answer.push('\n');
        *untaken += answer.len();
        (self.answer, self.taken) = (answer.into_bytes(), 0);
        (self.came, self.since) = (Instant::now(), Instant::now());
        (is_end, begun.elapsed())
    }

    /// Tells of its answer as much as it takes now.
    pub(super) fn send(&mut self) -> io::Result<()> {
        self.stream.set_nonblocking(true)?;
        while self.unsent_len() > 0 {
            // In large pieces: a socket has room for few small ones.
            match (&self.stream).write(&self.answer[self.taken..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.taken += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            self.since = Instant::now();
        }
        Ok(())
    }

    /// Its answer.
    #[cfg(test)]
    pub(super) fn answer_text(self) -> String {
        String::from_utf8(self.answer).unwrap()
    }
}

/// The request that a line is.
fn read(line: &[u8]) -> Result<Request, ControlError> {
    let text = str::from_utf8(line);
    Request::read(text.map_err(|_| ControlError::NotText)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_sends_or_reads_too_little_is_disconnected() {
        let client = |came_s: u64, silent_s: u64, moved: usize| {
            let (stream, _) = UnixStream::pair().unwrap();
            let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
            let (said, came, since) = (vec![b'x'; moved], ago(came_s), ago(silent_s));
            SocketClient { received: said, came, since, ..SocketClient::new(stream) }
        };
        for (came_s, silent_s, moved, is_awake) in [
            (0, 0, 0, true),
            (4, 4, 0, true),
            (6, 6, 0, false),
            (6, 0, 100, false), // a byte now and then
            (20, 0, 20 << 20, true),
            (40, 0, 20 << 20, false),
            (9, 6, 20 << 20, false), // nothing any more
        ] {
            let of = client(came_s, silent_s, moved);
            assert_eq!(of.is_active(), is_awake, "{came_s} {silent_s} {moved}");
        }
        let mut slow = client(6, 6, 0);
        slow.extend_deadline(Duration::from_secs(5));
        assert!(slow.is_active(), "the card was at work meanwhile");
    }
}
