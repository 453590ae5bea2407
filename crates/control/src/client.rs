//! A client: connects, sends one request, waits for its answer.

use std::io::{self, BufRead, BufReader, ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::{ControlError, LINE_LEN_MAX, Request, Response};

/// How long a client waits for an answer, unless the caller says otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest answer that is read, bytes: entries in it may each take a few more than as a command.
const ANSWER_LEN_MAX: u64 = 4 * LINE_LEN_MAX as u64;

/// Who speaks with the card behind a socket. It connects anew for each request.
#[derive(Clone, Debug)]
pub struct Client {
    path: PathBuf,
    patience: Duration,
}

impl Client {
    /// A client of the card that listens at `path`. It connects to nothing yet, and waits for an
    /// answer for 60 s at most.
    pub fn new(path: impl Into<PathBuf>) -> Client {
        Client { path: path.into(), patience: PATIENCE }
    }

    /// Waits for an answer for so long at most, at least a second.
    pub fn patience(self, patience: Duration) -> Client {
        Client { patience: patience.max(Duration::from_secs(1)), ..self }
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends a request and waits for its answer, which is never [`Response::Error`].
    ///
    /// # Errors
    /// [`ControlError::Refused`] where the card answers that it did nothing; others where there is
    /// no card, or no answer of one.
    pub fn ask(&self, request: &Request) -> Result<Response, ControlError> {
        let line = line(request)?;
        self.connect()?.send(line, None)
    }

    /// Connects, for one request with a file beside it.
    ///
    /// # Errors
    /// [`ControlError::Unreachable`] where no card listens, or not to who calls.
    pub fn connect(&self) -> Result<Connection, ControlError> {
        let stream = UnixStream::connect(&self.path).map_err(ControlError::Unreachable)?;
        stream.set_read_timeout(Some(self.patience)).map_err(ControlError::Unreachable)?;
        Ok(Connection { stream, patience: self.patience })
    }
}

/// A card that listens, for one request.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    patience: Duration,
}

impl Connection {
    /// Sends a request with an open file beside it, as [`Request::CaptureBegin`] needs it, and
    /// waits for its answer.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn ask_with(
        self,
        request: &Request,
        file: BorrowedFd<'_>,
    ) -> Result<Response, ControlError> {
        self.send(line(request)?, Some(file))
    }

    fn send(self, line: String, file: Option<BorrowedFd<'_>>) -> Result<Response, ControlError> {
        // Where the card has not heard it to its end, its answer says why.
        let said = say(&self.stream, &line, file);
        let answer = self.heard()?;
        if answer.is_empty() {
            said.map_err(ControlError::Unreachable)?;
            return Err(ControlError::NoCard);
        }
        match Response::read(&answer).ok_or(ControlError::NoCard)? {
            Response::Error { reason } => Err(ControlError::Refused { reason }),
            response => Ok(response),
        }
    }

    /// The line that a card answers; nothing where it hangs up.
    fn heard(&self) -> Result<String, ControlError> {
        let (mut line, reader) = (Vec::new(), BufReader::new(&self.stream));
        let heard = reader.take(ANSWER_LEN_MAX).read_until(b'\n', &mut line);
        heard.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => ControlError::Silent { seconds: self.patience.as_secs() },
            _ => ControlError::Unreachable(error),
        })?;
        String::from_utf8(line).map_err(|_| ControlError::NoCard)
    }
}

/// A request as a line, with its end.
fn line(request: &Request) -> Result<String, ControlError> {
    let line = request.line();
    match line.len() > LINE_LEN_MAX {
        true => Err(ControlError::TooLong),
        false => Ok(line + "\n"),
    }
}

/// Sends a line, and a file beside it.
fn say(stream: &UnixStream, line: &str, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let line = line.as_bytes();
    let Some(file) = file else { return (&*stream).write_all(line) };
    let files = [file];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    beside.push(SendAncillaryMessage::ScmRights(&files));
    let sent = sendmsg(stream, &[IoSlice::new(line)], &mut beside, SendFlags::NOSIGNAL)?;
    (&*stream).write_all(&line[sent..])
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread::{self, JoinHandle};

    use super::*;

    /// A card that answers one client so; what it was asked.
    fn card(path: &Path, answer: &'static [u8]) -> JoinHandle<String> {
        let listener = UnixListener::bind(path).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            stream.write_all(answer).unwrap();
            line
        })
    }

    /// What a client makes of an answer.
    fn asked(answer: &'static [u8]) -> (Result<Response, ControlError>, String) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("card");
        let card = card(&path, answer);
        let answer = Client::new(&path).ask(&Request::Counters {});
        (answer, card.join().unwrap())
    }

    #[test]
    fn a_request_is_a_line_and_so_is_its_answer() {
        let (answer, line) = asked(b"{\"response\":\"register\",\"value\":18446744073709551615}\n");
        assert_eq!(line, "{\"request\":\"counters\"}\n");
        assert_eq!(answer.unwrap(), Response::Register { value: u64::MAX });
        let (answer, _) = asked(b"{\"response\":\"error\",\"reason\":\"no port 7\"}\n");
        assert!(matches!(answer, Err(ControlError::Refused { reason }) if reason == "no port 7"));
    }

    #[test]
    fn what_does_not_answer_as_a_card_is_none() {
        for answer in
            [&b""[..], b"\n", b"220 mail.example.net ESMTP\n", b"{\"done\":[]}\n", b"\xff\xfe\n"]
        {
            let (answer, _) = asked(answer);
            assert!(matches!(answer, Err(ControlError::NoCard)), "{answer:?}");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("card");
        let absent = Client::new(&path).ask(&Request::Counters {}).unwrap_err();
        assert!(matches!(absent, ControlError::Unreachable(_)), "{absent:?}");
        // Nobody accepts, and a second passes.
        let _listener = UnixListener::bind(&path).unwrap();
        let client = Client::new(&path).patience(Duration::ZERO);
        let silent = client.ask(&Request::Counters {}).unwrap_err();
        assert!(silent.to_string().contains("no answer within 1 s"), "{silent}");
    }

    #[test]
    fn a_request_that_is_too_long_is_not_sent() {
        let command = "x".repeat(LINE_LEN_MAX);
        let error = Client::new("nowhere").ask(&Request::Flow { command }).unwrap_err();
        assert!(error.to_string().starts_with("command too long: "), "{error}");
    }
}
