//! TCP connections: requests go out one behind the other, and answers come in the same order.

use std::collections::VecDeque;
use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use niclab_packet::echo::Stamp;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::client::{Channels, ClientEnd};
use super::dialect::{Dialect, Reconnect};
use super::tally::{PendingRequest, Tally};
use super::workload::{PlannedRequest, Workload};
use super::{Requests, RequestsError, StreamPosition, connect};
use crate::echo::{core_now, now_ns};

/// Bytes that are read by one call at most.
const READ_LEN: usize = 256 << 10;

/// The connections of one client.
pub struct Streams<D: Dialect> {
    server: SocketAddr,
    epoll: OwnedFd,
    lines: Vec<StreamConnection<D::Reading>>,
    dialect: D,
    workload: Workload,
    depth: usize,
    /// Bytes read from a connection, behind those carried over.
    inflow: Vec<u8>,
    /// Requests that wait, of all connections.
    waiting: usize,
}

struct StreamConnection<R> {
    stream: TcpStream,
    out: Vec<u8>,
    /// Bytes of `out` that the kernel has.
    sent: usize,
    /// Requests in the order of their answers.
    waiting: VecDeque<PendingRequest>,
    /// The last ones of them, which no call has sent yet.
    fresh: usize,
    reading: R,
    /// Received bytes of an incomplete answer.
    carry: Vec<u8>,
    /// Bytes of the answer that is being read.
    taken: u64,
    /// Our end of the connection; bytes of the requests written to it, and of the answers read.
    client: Option<SocketAddr>,
    asked: u64,
    answered: u64,
    /// Answers since the connection was made.
    answers: u64,
}

impl<R: Default> StreamConnection<R> {
    fn new(stream: TcpStream) -> StreamConnection<R> {
        let client = stream.local_addr().ok();
        StreamConnection {
            stream,
            client,
            asked: 0,
            answered: 0,
            out: Vec::new(),
            sent: 0,
            waiting: VecDeque::new(),
            fresh: 0,
            reading: R::default(),
            carry: Vec::new(),
            taken: 0,
            answers: 0,
        }
    }
}

impl<D: Dialect> Streams<D> {
    /// `count` connections to `server` for checked requests.
    pub fn new(
        requests: &Requests,
        count: usize,
        server: SocketAddr,
        dialect: D,
    ) -> Result<Streams<D>, RequestsError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(RequestsError::of("epoll_create"))?;
        let mut lines = Vec::with_capacity(count);
        for (at, stream) in connect::streams(requests, count, server)?.into_iter().enumerate() {
            watch(&epoll, &stream, at).map_err(RequestsError::of("epoll_ctl"))?;
            lines.push(StreamConnection::new(stream));
        }
        let (workload, depth) = (Workload::new(requests), usize::from(requests.depth));
        let inflow = vec![0; READ_LEN];
        Ok(Streams { server, epoll, lines, dialect, workload, depth, inflow, waiting: 0 })
    }

    /// Reads the answers that are there; `true` where the server closes the connection behind them.
    fn answers(&mut self, at: usize, len: usize, tally: &mut Tally) -> Result<bool, ClientEnd> {
        let now_ns = now_ns();
        let line = &mut self.lines[at];
        let mut rest = &self.inflow[..len];
        while let (Some(first), false) = (line.waiting.front(), rest.is_empty()) {
            let step = self.dialect.read(&mut line.reading, rest, &first.asked, &self.workload);
            let step = step.map_err(ClientEnd::Odd)?;
            rest = &rest[step.used..];
            line.taken += step.used as u64;
            let Some(outcome) = step.done else { break };
            let taken = std::mem::take(&mut line.taken);
            line.answered += taken;
            tally.answered(first, outcome, taken, now_ns);
            let at = |time_ns| Stamp { time_ns, core: core_now() };
            tally.keep(first, || StreamPosition {
                client: line.client,
                request_end: first.end,
                answer_end: line.answered,
                sent: at(first.called_ns),
                received: at(now_ns),
            });
            line.waiting.pop_front();
            line.answers += 1;
            self.waiting -= 1;
            if self.dialect.reconnect(&line.reading) == Reconnect::Said {
                return Ok(true);
            }
        }
        if line.waiting.is_empty() && !rest.is_empty() {
            return Err(ClientEnd::Odd(super::dialect::unexpected(rest)));
        }
        line.carry.clear();
        line.carry.extend_from_slice(rest);
        Ok(false)
    }

    /// The other side has closed a connection, or it has failed.
    fn closed(&mut self, at: usize, gone: ClientEnd, tally: &mut Tally) -> Result<(), ClientEnd> {
        let line = &mut self.lines[at];
        if let (Some(first), Some(outcome)) =
            (line.waiting.front(), self.dialect.end(&mut line.reading))
        {
            tally.answered(first, outcome, std::mem::take(&mut line.taken), now_ns());
            line.waiting.pop_front();
            line.answers += 1;
            self.waiting -= 1;
            return self.renew(at, tally);
        }
        // It closed the connection between two answers, and some requests may just have missed it
        // (RFC 9112, §9.3.1 and §9.5).
        let was_used = line.answers > 0 || line.waiting.is_empty();
        let is_between = was_used && line.taken == 0 && line.carry.is_empty();
        match self.dialect.reconnect(&line.reading) {
            Reconnect::Never => Err(gone),
            _ if is_between => self.renew(at, tally),
            _ => Err(gone),
        }
    }

    /// Makes a connection anew, and asks again over it what was not answered.
    fn renew(&mut self, at: usize, tally: &mut Tally) -> Result<(), ClientEnd> {
        let line = &mut self.lines[at];
        let stream = connect::begin(self.server)?;
        watch(&self.epoll, &stream, at)?;
        (line.client, line.stream) = (stream.local_addr().ok(), stream);
        (line.reading, line.taken, line.answers) = (D::Reading::default(), 0, 0);
        line.carry.clear();
        line.sent = 0;
        line.out.clear();
        for request in &mut line.waiting {
            self.dialect.write(&request.asked, &self.workload, &mut line.out);
            request.end = line.out.len() as u64;
        }
        (line.asked, line.answered) = (line.out.len() as u64, 0);
        tally.reconnected();
        Ok(())
    }
}

impl<D: Dialect> Channels for Streams<D> {
    fn count(&self) -> usize {
        self.lines.len()
    }

    fn waiting(&self) -> usize {
        self.waiting
    }

    fn epoll(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    #[inline]
    fn room(&self, at: usize) -> usize {
        self.depth - self.lines[at].waiting.len()
    }

    #[inline]
    fn ask(&mut self, at: usize, asked: PlannedRequest, due_ns: u64) {
        let line = &mut self.lines[at];
        let start = line.out.len();
        self.dialect.write(&asked, &self.workload, &mut line.out);
        let bytes = (line.out.len() - start) as u32;
        line.asked += u64::from(bytes);
        let end = line.asked;
        line.waiting.push_back(PendingRequest { due_ns, called_ns: 0, bytes, end, asked });
        line.fresh += 1;
        self.waiting += 1;
    }

    #[inline]
    fn send(&mut self, at: usize, tally: &mut Tally) -> Result<(), ClientEnd> {
        let line = &mut self.lines[at];
        if line.fresh > 0 {
            let first = line.waiting.len() - std::mem::take(&mut line.fresh);
            tally.sent(line.waiting.range_mut(first..), now_ns());
        }
        while line.sent < line.out.len() {
            match line.stream.write(&line.out[line.sent..]) {
                Ok(more) => line.sent += more,
                Err(e) if e.kind() == WouldBlock => break,
                Err(e) if e.kind() == Interrupted => {}
                Err(e) => {
                    let gone = ClientEnd::from(e);
                    // Its answers, if there are some, are read first; then the end is seen.
                    if gone.is_end() {
                        break;
                    }
                    return Err(gone);
                }
            }
        }
        let is_behind = line.sent < line.out.len();
        // What the kernel has is not kept for ever where it never has all.
        if !is_behind || line.sent > line.out.len() / 2 {
            line.out.drain(..std::mem::take(&mut line.sent));
        }
        Ok(())
    }

    #[inline]
    fn receive(&mut self, at: usize, is_end: bool, tally: &mut Tally) -> Result<(), ClientEnd> {
        loop {
            let line = &mut self.lines[at];
            let kept = line.carry.len();
            self.inflow[..kept].copy_from_slice(&line.carry);
            match line.stream.read(&mut self.inflow[kept..]) {
                Ok(0) => return self.closed(at, ClientEnd::Closed, tally),
                Ok(count) => {
                    let len = kept + count;
                    if self.answers(at, len, tally)? {
                        return self.renew(at, tally);
                    }
                    // Less than there was room for is all that there is (epoll(7), Q9).
                    if len < READ_LEN && !is_end {
                        return Ok(());
                    }
                }
                Err(e) if e.kind() == WouldBlock => return Ok(()),
                Err(e) if e.kind() == Interrupted => {}
                Err(e) => {
                    let gone = ClientEnd::from(e);
                    return if gone.is_end() { self.closed(at, gone, tally) } else { Err(gone) };
                }
            }
        }
    }

    fn give_up(&mut self, _now_ns: u64, _freed: &mut Vec<usize>) {}
}

/// Tells of a connection whenever something has come, or there is room again, and not as long as:
/// the kernel then does not look at each connection once more in the next wait, and need not be
/// told when a connection is full.
fn watch(epoll: &OwnedFd, stream: &TcpStream, at: usize) -> io::Result<()> {
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    Ok(epoll::add(epoll, stream, EventData::new_u64(at as u64), flags)?)
}
