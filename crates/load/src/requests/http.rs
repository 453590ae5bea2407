//! HTTP/1.1 (RFC 9112): one request again and again, over connections that stay.
//!
//! Bodies of answers are counted and not kept, so no length that a server names costs memory.

use std::mem::MaybeUninit;
use std::net::SocketAddr;

use httparse::{ParserConfig, Response, Status};

use super::dialect::{
    BODY_MAX, Dialect, LINE_MAX, ReadProgress, Reconnect, line, number, unexpected,
};
use super::tally::Outcome;
use super::workload::{PlannedRequest, Workload, write_number};
use super::{Requests, Values};

/// Longest head of an answer, bytes.
const HEAD_MAX: usize = 64 << 10;
/// Header fields of an answer at most.
const FIELDS_MAX: usize = 100;

/// One request, written once.
#[derive(Debug)]
pub struct HttpGet {
    /// All of a GET; of a POST what stands before the length of its body.
    head: Vec<u8>,
    has_body: bool,
}

impl HttpGet {
    /// The request that checked `requests` ask of `server`.
    pub fn new(requests: &Requests, server: SocketAddr) -> HttpGet {
        let has_body = requests.values != Values::Fixed(0);
        let (method, rest) = match has_body {
            false => ("GET", "\r\n"),
            true => ("POST", "Content-Type: application/octet-stream\r\nContent-Length: "),
        };
        let head = format!("{method} {} HTTP/1.1\r\nHost: {server}\r\n{rest}", requests.path);
        HttpGet { head: head.into_bytes(), has_body }
    }
}

/// The progress of reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct HttpProgress {
    place: HttpPosition,
    is_error: bool,
    /// The server closes the connection behind this answer.
    closes: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HttpPosition {
    #[default]
    Head,
    /// So many bytes of a body are to come.
    Body(u64),
    /// The body ends with the connection.
    Close,
    /// Before the size of a chunk (RFC 9112, §7.1).
    Size,
    /// So many bytes of a chunk are to come, then the end of a line.
    Chunk(u64),
    /// Behind the last chunk: fields, then an empty line.
    Trailer,
}

impl Dialect for HttpGet {
    type Reading = HttpProgress;

    #[inline]
    fn write(&mut self, asked: &PlannedRequest, workload: &Workload, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        if self.has_body {
            let body = workload.value(asked.key);
            write_number(body.len() as u64, 1, out);
            out.extend_from_slice(b"\r\n\r\n");
            out.extend_from_slice(body);
        }
    }

    #[inline]
    fn read(
        &mut self,
        reading: &mut HttpProgress,
        bytes: &[u8],
        _asked: &PlannedRequest,
        _workload: &Workload,
    ) -> Result<ReadProgress, String> {
        let mut used = 0;
        loop {
            match reading.step(&bytes[used..])? {
                None => return Ok(ReadProgress::more(used)),
                Some(more) => used += more,
            }
            if reading.place == HttpPosition::Body(0) {
                reading.place = HttpPosition::Head;
                return Ok(ReadProgress::done(used, reading.outcome()));
            }
        }
    }

    fn end(&mut self, reading: &mut HttpProgress) -> Option<Outcome> {
        (reading.place == HttpPosition::Close).then(|| reading.outcome())
    }

    fn reconnect(&self, reading: &HttpProgress) -> Reconnect {
        if reading.closes { Reconnect::Said } else { Reconnect::Closed }
    }
}

impl HttpProgress {
    fn outcome(&self) -> Outcome {
        if self.is_error { Outcome::Refused } else { Outcome::Done }
    }

    /// Goes on by one part of an answer; how many bytes it had, `None` where more has to come.
    fn step(&mut self, bytes: &[u8]) -> Result<Option<usize>, String> {
        let taken = |left: u64| left.min(bytes.len() as u64);
        match self.place {
            _ if bytes.is_empty() => Ok(None),
            HttpPosition::Head => self.head(bytes),
            HttpPosition::Body(left) => {
                self.place = HttpPosition::Body(left - taken(left));
                Ok(Some(taken(left) as usize))
            }
            HttpPosition::Close => Ok(Some(bytes.len())),
            HttpPosition::Size => match httparse::parse_chunk_size(bytes) {
                Ok(Status::Complete((used, 0))) => {
                    self.place = HttpPosition::Trailer;
                    Ok(Some(used))
                }
                Ok(Status::Complete((used, size))) if size <= BODY_MAX => {
                    self.place = HttpPosition::Chunk(size);
                    Ok(Some(used))
                }
                Ok(Status::Partial) if bytes.len() <= LINE_MAX => Ok(None),
                _ => Err(unexpected(bytes)),
            },
            HttpPosition::Chunk(0) => {
                let Some((end, used)) = line(bytes)? else { return Ok(None) };
                self.place = HttpPosition::Size;
                if end.is_empty() { Ok(Some(used)) } else { Err(unexpected(bytes)) }
            }
            HttpPosition::Chunk(left) => {
                self.place = HttpPosition::Chunk(left - taken(left));
                Ok(Some(taken(left) as usize))
            }
            HttpPosition::Trailer => {
                let Some((field, used)) = line(bytes)? else { return Ok(None) };
                if field.is_empty() {
                    self.place = HttpPosition::Body(0);
                }
                Ok(Some(used))
            }
        }
    }

    /// Reads the head of an answer, and finds how its body ends (RFC 9112, §6.3).
    fn head(&mut self, bytes: &[u8]) -> Result<Option<usize>, String> {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut response = Response::new(&mut []);
        let parsed = ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            bytes,
            &mut fields,
        );
        let used = match parsed {
            Ok(Status::Complete(used)) => used,
            Ok(Status::Partial) if bytes.len() <= HEAD_MAX => return Ok(None),
            _ => return Err(unexpected(bytes)),
        };
        let status = response.code.unwrap_or_default();
        if status < 200 {
            // An interim answer; nobody asked for another protocol.
            return if status == 101 { Err(unexpected(bytes)) } else { Ok(Some(used)) };
        }
        self.is_error = status >= 400;
        self.closes = response.version == Some(0);
        let (mut len, mut is_chunked, mut is_coded) = (None, false, false);
        for field in response.headers.iter() {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                let message = number(field.value).ok_or_else(|| unexpected(bytes))?;
                if len.is_some_and(|before| before != message) {
                    return Err(unexpected(bytes));
                }
                len = Some(message);
            } else if is("transfer-encoding") {
                is_coded = true;
                is_chunked = tokens(field.value).last() == Some(b"chunked".as_slice());
            } else if is("connection") {
                let says = |word: &[u8]| tokens(field.value).any(|t| t.eq_ignore_ascii_case(word));
                self.closes = says(b"close") || self.closes && !says(b"keep-alive");
            }
        }
        self.place = match len {
            _ if status == 204 || status == 304 => HttpPosition::Body(0),
            _ if is_chunked => HttpPosition::Size,
            Some(len) if !is_coded => HttpPosition::Body(len),
            _ => HttpPosition::Close,
        };
        self.closes |= self.place == HttpPosition::Close;
        Ok(Some(used))
    }
}

/// The words of a list between commas.
fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}
