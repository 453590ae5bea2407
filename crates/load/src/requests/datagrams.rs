//! memcached over UDP: each request a datagram, each answer one or several (memcached's
//! `protocol.txt`, "UDP protocol").
//!
//! Before the text stand eight bytes: number of the request, number of the datagram, how many
//! there are, and zero, each of two bytes in network order.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, EventData, EventFlags};

use super::client::{Channels, ClientEnd};
use super::dialect::{Dialect, ValueProgress};
use super::memcached::MemcachedText;
use super::parts::{AnswerAssembly, DatagramRole};
use super::tally::{PendingRequest, Tally};
use super::workload::{PlannedRequest, RequestKind, Workload};
use super::{KEY_LEN_MAX, PATIENCE_NS, Requests, RequestsError, VALUE_LEN_UDP_MAX, connect};
use crate::echo::{now_ns, socket};
use crate::mmsg::{Incoming, Outgoing, WaitMode};

/// Bytes before the text.
const FRAME_LEN: usize = 8;
/// Longest datagram, bytes of payload: a request without its value, an answer in one piece.
const DATAGRAM_MAX: usize = 65_507;
/// Bytes of a command without its key and value.
const COMMAND_MAX: usize = 32;
/// Datagrams that cross into the kernel by one call.
const BATCH: usize = 32;
/// Requests given up that are remembered, to tell late answers from those of others.
const GIVEN_UP_MAX: usize = 1024;

/// The sockets of one client.
pub struct Datagrams {
    epoll: OwnedFd,
    sockets: Vec<Socket>,
    text: MemcachedText,
    workload: Workload,
    depth: usize,
    out: Outgoing,
    back: Incoming,
    scratch: Vec<u8>,
    /// Requests that wait, of all sockets.
    waiting: usize,
    /// Socket and number of requests by the time they were sent, with those answered since.
    sent: VecDeque<(u64, usize, u16)>,
    given_up: VecDeque<(usize, u16, PendingRequest)>,
    /// Buffers that join the datagrams of an answer, and the free ones.
    parts: Vec<AnswerAssembly>,
    free_parts: Vec<usize>,
}

struct Socket {
    socket: UdpSocket,
    /// By the low bits of a request's number.
    entries: Vec<NumberedRequest>,
    next: u16,
    waiting: usize,
    /// Numbers of the requests that no call has sent yet.
    fresh: VecDeque<u16>,
    wants_room: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct NumberedRequest {
    number: u16,
    state: RequestState,
    request: PendingRequest,
    /// The buffer that joins its datagrams.
    parts: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RequestState {
    #[default]
    Free,
    Waiting,
    Answered,
}

impl Socket {
    fn entry(&mut self, number: u16) -> &mut NumberedRequest {
        let mask = self.entries.len() - 1;
        &mut self.entries[usize::from(number) & mask]
    }

    /// Gives a request a number that no waiting one is in the way of.
    fn add(&mut self, request: PendingRequest) {
        loop {
            let number = self.next;
            self.next = number.wrapping_add(1);
            let entry = self.entry(number);
            if entry.state != RequestState::Waiting {
                *entry =
                    NumberedRequest { number, state: RequestState::Waiting, request, parts: None };
                self.fresh.push_back(number);
                self.waiting += 1;
                return;
            }
        }
    }
}

impl Datagrams {
    /// `requests.connections` sockets that send to `server`.
    pub fn new(requests: &Requests, server: SocketAddr) -> Result<Datagrams, RequestsError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(RequestsError::of("epoll_create"))?;
        let (count, depth) = (usize::from(requests.connections), usize::from(requests.depth));
        let workload = Workload::new(requests);
        let longest = workload.value_len_max();
        let entries = vec![NumberedRequest::default(); (4 * depth).next_power_of_two().max(16)];
        let mut sockets = Vec::with_capacity(count);
        for at in 0..count {
            let socket = connect::datagrams(server, requests)?;
            socket::widen(&socket, depth, longest + COMMAND_MAX + usize::from(KEY_LEN_MAX));
            epoll::add(&epoll, &socket, EventData::new_u64(at as u64), EventFlags::IN)
                .map_err(RequestsError::of("epoll_ctl"))?;
            let (entries, fresh) = (entries.clone(), VecDeque::with_capacity(depth));
            let (next, waiting, wants_room) = (0, 0, false);
            sockets.push(Socket { socket, entries, next, waiting, fresh, wants_room });
        }
        let key_len = usize::from(KEY_LEN_MAX);
        let value_len = if requests.get_ratio < 1.0 { longest } else { 0 };
        let value_len = value_len.min(VALUE_LEN_UDP_MAX as usize);
        let out_len = FRAME_LEN + COMMAND_MAX + key_len + value_len;
        Ok(Datagrams {
            epoll,
            sockets,
            text: MemcachedText::default(),
            workload,
            depth,
            out: Outgoing::new(BATCH.min(depth), out_len),
            back: Incoming::new(BATCH, DATAGRAM_MAX),
            scratch: Vec::with_capacity(out_len),
            waiting: 0,
            sent: VecDeque::new(),
            given_up: VecDeque::with_capacity(GIVEN_UP_MAX),
            parts: Vec::new(),
            free_parts: Vec::new(),
        })
    }

    /// A datagram that has come on this socket.
    fn receive_part(&mut self, at: usize, message: usize, now_ns: u64, tally: &mut Tally) {
        let datagram = self.back.message(message);
        let Some((frame, text)) = datagram.split_first_chunk::<FRAME_LEN>() else {
            return tally.seen.foreign += 1;
        };
        let field = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let (number, part, count) = (field(0), field(2), field(4));
        let entry = self.sockets[at].entry(number);
        if entry.number != number || entry.state == RequestState::Free {
            return self.unknown(at, number, tally);
        }
        if entry.state == RequestState::Answered {
            tally.seen.duplicated += u64::from(tally.counts(&entry.request));
            return;
        }
        let request = entry.request;
        let (mut whole, mut frames): (&[u8], u64) = (text, 1);
        if count != 1 {
            let parts = *entry.parts.get_or_insert_with(|| {
                let free = self.free_parts.pop();
                free.unwrap_or_else(|| {
                    self.parts.push(AnswerAssembly::default());
                    self.parts.len() - 1
                })
            });
            frames = count.into();
            match self.parts[parts].add(part, count, text) {
                DatagramRole::Last => whole = self.parts[parts].whole(),
                DatagramRole::More => return,
                DatagramRole::Again => {
                    tally.seen.duplicated += u64::from(tally.counts(&request));
                    return;
                }
                DatagramRole::Foreign => return tally.seen.foreign += 1,
            }
        }
        let mut reading = ValueProgress::default();
        let step = self.text.read(&mut reading, whole, &request.asked, &self.workload);
        let outcome = match step {
            Ok(step) if step.used == whole.len() => step.done,
            _ => None,
        };
        // What is no whole answer is no answer: the request waits for one.
        let Some(outcome) = outcome else { return tally.seen.foreign += 1 };
        tally.answered(&request, outcome, whole.len() as u64 + frames * FRAME_LEN as u64, now_ns);
        self.free(at, number, RequestState::Answered);
    }

    /// An answer to something that does not wait: late, or of others.
    fn unknown(&mut self, at: usize, number: u16, tally: &mut Tally) {
        let is_it = |one: &(usize, u16, PendingRequest)| (one.0, one.1) == (at, number);
        match self.given_up.iter().position(is_it).and_then(|it| self.given_up.remove(it)) {
            Some((.., request)) => tally.seen.late += u64::from(tally.counts(&request)),
            None => tally.seen.foreign += 1,
        }
    }

    /// A request does not wait any more.
    fn free(&mut self, at: usize, number: u16, state: RequestState) {
        let entry = self.sockets[at].entry(number);
        entry.state = state;
        if let Some(parts) = entry.parts.take() {
            self.parts[parts].clear();
            self.free_parts.push(parts);
        }
        self.sockets[at].waiting -= 1;
        self.waiting -= 1;
    }

    /// Sends the first of the requests that were not sent; how many, `None` where there is no room.
    fn send_some(&mut self, at: usize, tally: &mut Tally) -> io::Result<Option<usize>> {
        let socket = &mut self.sockets[at];
        let count = socket.fresh.len().min(self.out.count());
        for place in 0..count {
            let number = socket.fresh[place];
            let entry = socket.entry(number);
            self.scratch.clear();
            // One datagram of one.
            let [high, low] = number.to_be_bytes();
            self.scratch.extend_from_slice(&[high, low, 0, 0, 0, 1, 0, 0]);
            self.text.write(&entry.request.asked, &self.workload, &mut self.scratch);
            entry.request.bytes = self.scratch.len() as u32;
            self.out.write(place, &self.scratch);
        }
        let called_ns = now_ns();
        let sent = match self.out.send_first(&socket.socket, count) {
            Ok(sent) => sent,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(e) => return Err(e),
        };
        for _ in 0..sent {
            let Some(number) = socket.fresh.pop_front() else { break };
            tally.sent(std::iter::once(&mut socket.entry(number).request), called_ns);
            self.sent.push_back((called_ns, at, number));
        }
        Ok(Some(sent))
    }
}

impl Channels for Datagrams {
    fn count(&self) -> usize {
        self.sockets.len()
    }

    fn waiting(&self) -> usize {
        self.waiting
    }

    fn epoll(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn room(&self, at: usize) -> usize {
        self.depth - self.sockets[at].waiting
    }

    fn ask(&mut self, at: usize, mut asked: PlannedRequest, due_ns: u64) {
        if self.workload.value(asked.key).len() > VALUE_LEN_UDP_MAX as usize {
            asked.kind = RequestKind::Get;
        }
        self.sockets[at].add(PendingRequest { due_ns, asked, ..PendingRequest::default() });
        self.waiting += 1;
    }

    fn send(&mut self, at: usize, tally: &mut Tally) -> Result<(), ClientEnd> {
        let mut is_behind = false;
        while !is_behind && !self.sockets[at].fresh.is_empty() {
            is_behind = self.send_some(at, tally)?.is_none();
        }
        let socket = &mut self.sockets[at];
        if is_behind != socket.wants_room {
            socket.wants_room = is_behind;
            let flags = if is_behind { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            epoll::modify(&self.epoll, &socket.socket, EventData::new_u64(at as u64), flags)
                .map_err(io::Error::from)?;
        }
        Ok(())
    }

    fn receive(&mut self, at: usize, _is_end: bool, tally: &mut Tally) -> Result<(), ClientEnd> {
        let count = match self.back.receive(&self.sockets[at].socket, WaitMode::None) {
            Ok(count) => count,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(e) => return Err(e.into()),
        };
        let now_ns = now_ns();
        for message in 0..count {
            self.receive_part(at, message, now_ns, tally);
        }
        Ok(())
    }

    fn give_up(&mut self, now_ns: u64, freed: &mut Vec<usize>) {
        while let Some(&(sent_ns, at, number)) = self.sent.front() {
            let entry = *self.sockets[at].entry(number);
            let waits = entry.number == number && entry.state == RequestState::Waiting;
            // A number may have been given again, to a request that was sent since.
            let is_it = waits && entry.request.called_ns == sent_ns;
            if is_it && now_ns < sent_ns + PATIENCE_NS {
                break;
            }
            self.sent.pop_front();
            if is_it {
                self.free(at, number, RequestState::Free);
                if self.given_up.len() == GIVEN_UP_MAX {
                    self.given_up.pop_front();
                }
                self.given_up.push_back((at, number, entry.request));
                freed.push(at);
            }
        }
    }
}
