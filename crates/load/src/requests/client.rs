//! The client: one loop for all protocols, paces and kinds of sockets.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::thread::{current_timer_slack, set_current_timer_slack};

use super::datagrams::Datagrams;
use super::http::HttpGet;
use super::memcached::MemcachedText;
use super::redis::Resp;
use super::streams::Streams;
use super::tally::Tally;
use super::workload::{PlannedRequest, Source};
use super::{
    PASSED_MAX, Pace, Protocol, Requested, Requests, RequestsError, SILENCE_NS, StreamPosition,
    VALUE_LEN_MAX, Values,
};
use crate::echo::now_ns;

/// Sockets that are looked at after one wait at most.
const EVENTS: usize = 512;

/// How long a client sleeps before it looks whether it is to end, nanoseconds.
const TURN_NS: u64 = 50_000_000;

/// The client does not sleep for a shorter time, nanoseconds: a sleep takes longer than this.
const AWAKE_NS: u64 = 10_000;

/// How long a client looks for answers before it sleeps, where the last wait was no longer than
/// that, nanoseconds. A server that wakes it for each answer loses time by that: memcached on a
/// core of its own, 64 connections: 145 k/s without, 151 k/s with, and no more with 200 µs.
const LOOK_NS: u64 = 20_000;

/// The other side sends no more, or the connection has failed.
const END: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

/// Connections or sockets, by their number.
pub trait Channels {
    /// How many there are.
    fn count(&self) -> usize;
    /// Requests that wait for answers, on all of them.
    fn waiting(&self) -> usize;
    /// The epoll descriptor of all of them.
    fn epoll(&self) -> BorrowedFd<'_>;
    /// Requests that there is room for.
    fn room(&self, at: usize) -> usize;
    /// Writes a request that was due at `due_ns`, or is when it is sent where that is 0.
    fn ask(&mut self, at: usize, asked: PlannedRequest, due_ns: u64);
    /// Sends what was written.
    fn send(&mut self, at: usize, tally: &mut Tally) -> Result<(), ClientEnd>;
    /// Takes the answers that are there; where `is_end`, up to the end that the other side made.
    fn receive(&mut self, at: usize, is_end: bool, tally: &mut Tally) -> Result<(), ClientEnd>;
    /// Waits no longer for what is lost; puts into `freed` who has room by that.
    fn give_up(&mut self, now_ns: u64, freed: &mut Vec<usize>);
}

/// Why a client ends before its time.
#[derive(Debug)]
pub enum ClientEnd {
    /// The server has closed a connection.
    Closed,
    /// The kernel refused a call.
    Io(io::Error),
    /// The server says something that is no answer.
    Odd(String),
    /// Nobody has answered for [`SILENCE_NS`].
    Silent,
    /// The caller says so.
    Stopped,
}

impl From<io::Error> for ClientEnd {
    fn from(error: io::Error) -> ClientEnd {
        ClientEnd::Io(error)
    }
}

impl ClientEnd {
    /// The other side has closed a connection, in one way or another.
    pub fn is_end(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        match self {
            ClientEnd::Io(error) => matches!(error.kind(), BrokenPipe | ConnectionReset),
            gone => matches!(gone, ClientEnd::Closed),
        }
    }

    /// The event in words.
    fn words(&self) -> String {
        match self {
            ClientEnd::Closed => "it has closed a connection".to_owned(),
            ClientEnd::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                "nobody listens there any more".to_owned()
            }
            ClientEnd::Io(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                "it has reset a connection".to_owned()
            }
            ClientEnd::Io(error) => error.to_string(),
            ClientEnd::Odd(message) => message.clone(),
            ClientEnd::Silent => {
                format!("it answers no more, for {} s", SILENCE_NS / 1_000_000_000)
            }
            ClientEnd::Stopped => "stopped".to_owned(),
        }
    }
}

/// Makes requests of `server` as `requests` say, until their time is over or `stop` is set, and
/// says what became of them. It runs on the calling thread; where several threads have a client
/// each, [`Requested::merge`] puts together what they have seen. `begun` is called when the
/// connections are made and the time begins to run, the warm-up first.
///
/// A server that goes ends it early; what was measured until then is returned. Where `passed` is
/// asked for, what is known of requests of the measured part over TCP is put into it.
///
/// # Errors
/// [`RequestsError`], of a server that never answers above all.
pub fn run(
    requests: &Requests,
    server: SocketAddr,
    stop: &AtomicBool,
    begun: impl FnOnce(),
    passed: Option<&mut Vec<StreamPosition>>,
) -> Result<Requested, RequestsError> {
    requests.check()?;
    let count = usize::from(requests.connections);
    match requests.protocol {
        Protocol::MemcachedTcp => {
            let lines = Streams::new(requests, count, server, MemcachedText::default())?;
            measure(lines, requests, (server, stop), begun, passed)
        }
        Protocol::MemcachedUdp => {
            let lines = Datagrams::new(requests, server)?;
            measure(lines, requests, (server, stop), begun, passed)
        }
        Protocol::Redis => {
            let lines = Streams::new(requests, count, server, Resp)?;
            measure(lines, requests, (server, stop), begun, passed)
        }
        Protocol::Http => {
            let pages = HttpGet::new(requests, server);
            let lines = Streams::new(requests, count, server, pages)?;
            measure(lines, requests, (server, stop), begun, passed)
        }
    }
}

/// Stores every key of `requests` once, so that gets find them: over TCP, memcached that is to be
/// asked over UDP too. HTTP has nothing to store.
///
/// # Errors
/// [`RequestsError`], and of it [`RequestsError::NotFilled`] where the server refuses keys.
pub fn fill(requests: &Requests, server: SocketAddr) -> Result<(), RequestsError> {
    requests.check()?;
    let longest = match requests.values {
        Values::Fixed(len) => len.max(1),
        Values::Etc => VALUE_LEN_MAX,
    };
    let depth = (FILL_BYTES / longest).clamp(1, u32::from(FILL_DEPTH)) as u16;
    let filling = Requests { depth, pace: Pace::Closed, connections: 1, ..requests.clone() };
    match requests.protocol {
        Protocol::MemcachedTcp | Protocol::MemcachedUdp => {
            let lines = Streams::new(&filling, 1, server, MemcachedText::default())?;
            filled(lines, &filling, server)
        }
        Protocol::Redis => filled(Streams::new(&filling, 1, server, Resp)?, &filling, server),
        Protocol::Http => Ok(()),
    }
}

/// Sets that wait while keys are stored, at most.
const FILL_DEPTH: u16 = 64;

/// Their bytes at most, where one is not longer.
const FILL_BYTES: u32 = 8 << 20;

fn filled<L: Channels>(
    lines: L,
    requests: &Requests,
    server: SocketAddr,
) -> Result<(), RequestsError> {
    let (plan, stop) = (Plan::endless(now_ns()), AtomicBool::new(false));
    let mut client = Client::new(lines, Source::fill(requests), plan, &stop);
    let done = client.run();
    let seen = &client.tally.seen;
    let (stored, refused) = (seen.answered - seen.refused, seen.refused);
    let why = match done {
        Ok(()) if refused == 0 => return Ok(()),
        Ok(()) => format!("it refused {refused}"),
        Err(gone) => {
            return Err(client.unanswered(&gone, requests, server).unwrap_or_else(|| {
                RequestsError::NotFilled {
                    server,
                    stored,
                    keys: requests.keys.count,
                    why: gone.words(),
                }
            }));
        }
    };
    Err(RequestsError::NotFilled { server, stored, keys: requests.keys.count, why })
}

/// Runs a client over these lines.
fn measure<L: Channels>(
    lines: L,
    requests: &Requests,
    (server, stop): (SocketAddr, &AtomicBool),
    begun: impl FnOnce(),
    passed: Option<&mut Vec<StreamPosition>>,
) -> Result<Requested, RequestsError> {
    let source = Source::new(requests)?;
    let plan = Plan::new(requests, now_ns());
    begun();
    let mut client = Client::new(lines, source, plan, stop);
    client.tally.passed = passed.is_some().then(|| Vec::with_capacity(PASSED_MAX));
    let _exact = ExactTimers::new();
    let done = client.run();
    if let (Some(passed), Some(kept)) = (passed, client.tally.passed.take()) {
        passed.extend(kept);
    }
    let now_ns = now_ns();
    let ended = match done {
        // Over UDP all may be lost.
        Ok(()) if !client.tally.has_answers => {
            return Err(RequestsError::Nobody { server, protocol: requests.protocol });
        }
        Ok(()) => None,
        Err(ClientEnd::Stopped) => Some("stopped".to_owned()),
        Err(gone) => {
            if let Some(error) = client.unanswered(&gone, requests, server) {
                return Err(error);
            }
            let after_s = now_ns.saturating_sub(plan.start_ns) as f64 / 1e9;
            Some(format!("the server was lost after {after_s:.1} s: {}", gone.words()))
        }
    };
    let end_ns = now_ns.min(plan.end_ns);
    let duration_ns = end_ns.saturating_sub(plan.begin_ns).max(1);
    Ok(client.tally.end(plan.planned(end_ns), duration_ns, ended))
}

/// When requests are due.
#[derive(Clone, Copy, Debug)]
struct Plan {
    start_ns: u64,
    /// Requests count that are due from then on.
    begin_ns: u64,
    end_ns: u64,
    /// Time between two requests of an open loop, nanoseconds.
    gap_ns: Option<f64>,
    /// Number of the first request of an open loop that counts.
    first_counted: u64,
}

impl Plan {
    fn new(requests: &Requests, start_ns: u64) -> Plan {
        let begin_ns = start_ns.saturating_add(requests.warmup_ns);
        let gap_ns = match requests.pace {
            Pace::Closed => None,
            Pace::Open { per_s } => Some(1e9 / per_s),
        };
        let end_ns = begin_ns.saturating_add(requests.duration_ns);
        let plan = Plan { start_ns, begin_ns, end_ns, gap_ns, first_counted: 0 };
        Plan { first_counted: plan.due_before(begin_ns), ..plan }
    }

    /// A closed loop that counts from now on, and has no end of its own.
    fn endless(now_ns: u64) -> Plan {
        Plan {
            start_ns: now_ns,
            begin_ns: now_ns,
            end_ns: u64::MAX,
            gap_ns: None,
            first_counted: 0,
        }
    }

    /// When a request of an open loop is due.
    #[inline]
    fn due_ns(&self, number: u64, gap_ns: f64) -> u64 {
        self.start_ns + (number as f64 * gap_ns) as u64
    }

    /// Requests of an open loop that are due before `ns`.
    fn due_before(&self, ns: u64) -> u64 {
        let Some(gap_ns) = self.gap_ns else { return 0 };
        let about = (ns.saturating_sub(self.start_ns) as f64 / gap_ns) as u64;
        let mut number = about.saturating_sub(2);
        while self.due_ns(number, gap_ns) < ns {
            number += 1;
        }
        number
    }

    /// Requests of an open loop that are due in the measured part, where that ends at `end_ns`.
    fn planned(&self, end_ns: u64) -> u64 {
        self.due_before(end_ns).saturating_sub(self.first_counted)
    }
}

struct Client<'a, L> {
    lines: L,
    source: Source,
    tally: Tally,
    plan: Plan,
    stop: &'a AtomicBool,
    /// When this turn of the loop began.
    now_ns: u64,
    /// Number of the next request of an open loop.
    next: u64,
    /// Connections with room in an open loop, in turn, each once.
    turns: VecDeque<usize>,
    has_turn: Vec<bool>,
    /// Connections with unsent requests.
    written: Vec<usize>,
    freed: Vec<usize>,
}

impl<'a, L: Channels> Client<'a, L> {
    fn new(lines: L, source: Source, plan: Plan, stop: &'a AtomicBool) -> Client<'a, L> {
        let count = lines.count();
        let tally = Tally::new(plan.gap_ns.is_some(), plan.begin_ns, plan.start_ns);
        Client {
            lines,
            source,
            tally,
            plan,
            stop,
            now_ns: plan.start_ns,
            next: 0,
            turns: (0..count).collect(),
            has_turn: vec![true; count],
            written: Vec::with_capacity(count),
            freed: Vec::with_capacity(count),
        }
    }

    fn run(&mut self) -> Result<(), ClientEnd> {
        let empty = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let (mut events, mut is_soon) = ([empty; EVENTS], false);
        if self.plan.gap_ns.is_none() {
            for at in 0..self.lines.count() {
                self.refill(at)?;
            }
        }
        loop {
            let now_ns = now_ns();
            self.now_ns = now_ns;
            self.check(now_ns)?;
            let is_over = self.is_over(now_ns);
            if is_over && self.lines.waiting() == 0 {
                return Ok(());
            }
            if let (Some(gap_ns), false) = (self.plan.gap_ns, is_over) {
                self.offer(now_ns, gap_ns)?;
            }
            let until_ns = self.until_ns(now_ns, is_over);
            let count = wait(self.lines.epoll(), &mut events, until_ns, &mut is_soon)?;
            for event in &events[..count] {
                let at = event.data.u64() as usize;
                let flags = event.flags;
                let is_end = flags.intersects(END);
                self.lines.receive(at, is_end, &mut self.tally)?;
                self.room(at)?;
            }
            self.give_up()?;
        }
    }

    /// No more requests are made.
    #[inline]
    fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.plan.end_ns || self.source.is_over()
    }

    /// Gives up where the server has been silent for too long, or the caller says so.
    fn check(&mut self, now_ns: u64) -> Result<(), ClientEnd> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ClientEnd::Stopped);
        }
        if self.lines.waiting() == 0 {
            self.tally.heard_ns = now_ns;
        }
        let is_silent = now_ns > self.tally.heard_ns + SILENCE_NS;
        if is_silent { Err(ClientEnd::Silent) } else { Ok(()) }
    }

    /// A connection may have room: a closed loop asks again at once, an open loop when it is due.
    #[inline]
    fn room(&mut self, at: usize) -> Result<(), ClientEnd> {
        if self.plan.gap_ns.is_none() {
            return self.refill(at);
        }
        if !self.has_turn[at] && self.lines.room(at) > 0 {
            self.has_turn[at] = true;
            self.turns.push_back(at);
        }
        self.lines.send(at, &mut self.tally)
    }

    /// Asks as much as there is room for.
    #[inline]
    fn refill(&mut self, at: usize) -> Result<(), ClientEnd> {
        let room = self.lines.room(at);
        if room > 0 && !self.is_over(self.now_ns) {
            for _ in 0..room {
                if self.source.is_over() {
                    break;
                }
                self.lines.ask(at, self.source.next(), 0);
            }
        }
        self.lines.send(at, &mut self.tally)
    }

    /// Asks what is due, as far as there is room: each connection in its turn.
    #[inline]
    fn offer(&mut self, now_ns: u64, gap_ns: f64) -> Result<(), ClientEnd> {
        if now_ns >= self.plan.begin_ns && self.next < self.plan.first_counted {
            // What the warm-up was too slow for does not delay what counts.
            self.next = self.plan.first_counted;
        }
        loop {
            let due_ns = self.plan.due_ns(self.next, gap_ns);
            if due_ns > now_ns || due_ns >= self.plan.end_ns {
                break;
            }
            let Some(at) = self.turns.pop_front() else { break };
            self.lines.ask(at, self.source.next(), due_ns);
            self.next += 1;
            self.written.push(at);
            self.has_turn[at] = self.lines.room(at) > 0;
            if self.has_turn[at] {
                self.turns.push_back(at);
            }
        }
        for at in self.written.drain(..) {
            self.lines.send(at, &mut self.tally)?;
        }
        Ok(())
    }

    /// Requests over UDP that are lost leave their places.
    fn give_up(&mut self) -> Result<(), ClientEnd> {
        let mut freed = std::mem::take(&mut self.freed);
        self.lines.give_up(now_ns(), &mut freed);
        for at in freed.drain(..) {
            self.room(at)?;
        }
        self.freed = freed;
        Ok(())
    }

    /// When there will be something to do, if nothing comes.
    #[inline]
    fn until_ns(&self, now_ns: u64, is_over: bool) -> u64 {
        let turn_ns = now_ns + TURN_NS;
        match self.plan.gap_ns {
            _ if is_over => turn_ns,
            Some(gap_ns) if !self.turns.is_empty() => {
                turn_ns.min(self.plan.due_ns(self.next, gap_ns)).min(self.plan.end_ns)
            }
            _ => turn_ns.min(self.plan.end_ns),
        }
    }

    /// The error where there was not one answer.
    fn unanswered(
        &self,
        gone: &ClientEnd,
        requests: &Requests,
        server: SocketAddr,
    ) -> Option<RequestsError> {
        let protocol = requests.protocol;
        match gone {
            _ if self.tally.has_answers => None,
            ClientEnd::Odd(message) => {
                Some(RequestsError::Foreign { server, protocol, message: message.clone() })
            }
            _ if gone.is_end() => {
                let message = "it closes the connection".to_owned();
                Some(RequestsError::Foreign { server, protocol, message })
            }
            _ => Some(RequestsError::Nobody { server, protocol }),
        }
    }
}

/// Waits until a socket has something or `until_ns` has come; how many have. It looks before it
/// sleeps where `is_soon` says that the last wait was a short one, and says so of this one.
#[inline]
fn wait(
    epoll: BorrowedFd<'_>,
    events: &mut [Event],
    until_ns: u64,
    is_soon: &mut bool,
) -> io::Result<usize> {
    let began_ns = now_ns();
    let mut now = began_ns;
    loop {
        let looks = *is_soon && now < began_ns + LOOK_NS;
        let left_ns = until_ns.saturating_sub(now);
        let sleep_ns = if looks || left_ns < AWAKE_NS { 0 } else { left_ns };
        let timeout = Timespec {
            tv_sec: (sleep_ns / 1_000_000_000) as i64,
            tv_nsec: (sleep_ns % 1_000_000_000) as i64,
        };
        let count = match epoll::wait(epoll, &mut *events, Some(&timeout)) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        now = now_ns();
        if count > 0 || !looks || now >= until_ns {
            *is_soon = now < began_ns + LOOK_NS;
            return Ok(count);
        }
    }
}

/// While it lives, this thread's sleeps end when they should and not 50 µs later (`prctl(2)`,
/// `PR_SET_TIMERSLACK`).
struct ExactTimers {
    before: Option<NonZeroU64>,
}

impl ExactTimers {
    fn new() -> ExactTimers {
        let before = current_timer_slack().ok().and_then(NonZeroU64::new);
        // Where it is refused, what is due late is shown as late.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        ExactTimers { before }
    }
}

impl Drop for ExactTimers {
    fn drop(&mut self) {
        let _ = set_current_timer_slack(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::requests;
    use super::*;

    #[test]
    fn requests_are_due_at_equal_distances_from_the_start_on() {
        let asked = Requests {
            pace: Pace::Open { per_s: 1000.0 },
            duration_ns: 10_000_000,
            warmup_ns: 2_500_000,
            ..requests(Protocol::MemcachedTcp)
        };
        // Those at 0, 1 and 2 ms warm up, those at 3 to 12 ms count.
        let plan = Plan::new(&asked, 1_000_000_007);
        assert_eq!(plan.planned(plan.end_ns), 10);
        assert_eq!(plan.planned(plan.begin_ns + 1_000_000), 1);
        let plan = Plan::new(&Requests { warmup_ns: 0, ..asked.clone() }, 77);
        assert_eq!(plan.planned(plan.end_ns), 10);
        let odd = Requests { pace: Pace::Open { per_s: 3.0e8 }, ..asked };
        let plan = Plan::new(&odd, 0);
        assert_eq!(plan.planned(plan.end_ns), 3_000_000);
    }
}
