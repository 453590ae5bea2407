//! `niclab analytics send`: sources over UDP.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use niclab_analytics::input::{Generator, LocalTuple};
use niclab_analytics::partition;
use niclab_analytics::source::{NewTuple, OfferError, Sender, SenderOptions, SourceFault};
use niclab_analytics::tuple::FRAME_LEN_MAX;
use niclab_device::address;
use niclab_lab::words;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::AnalyticsFailure;
use super::input::{JsonLines, LINES_AHEAD, LocalTuples, name};
use crate::arguments::SendArguments;
use crate::failure::Failure;
use crate::output::say;
use crate::rules::counted;

/// How long the receiver may leave frames unanswered.
const PATIENCE: Duration = Duration::from_secs(10);
/// The shortest and the longest wait for acknowledgements and lines.
const WAIT_MIN: Duration = Duration::from_micros(50);
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Bits of the id of a source that number the parts of a split one.
const SPLIT_BITS: u32 = 8;

/// Sends everything, and returns when all of it is safe.
pub fn run(arguments: &SendArguments) -> Result<(), Failure> {
    let to = address::read(&arguments.to, super::input::PORT).map_err(Failure::address("--to"))?;
    let senders = senders(arguments)?;
    let opened = LocalTuples::open(&arguments.input, &arguments.generator)?;
    let Some(tuples) = opened else {
        let reason = "--input udp: send takes json:FILE, json-tcp:ADDRESS:PORT or generator";
        return Err(Failure::Address { reason: reason.to_owned() });
    };
    let input = match tuples {
        LocalTuples::Generator(generator) => SendInput::Generator(generator),
        LocalTuples::Json(lines) => SendInput::Lines(Lines::read(lines, name(&arguments.input))?),
    };
    let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.connect(to)?;
    socket.set_nonblocking(true)?;
    let mut sending = Sending {
        senders,
        socket,
        input,
        pending: None,
        latest_ns: 0,
        is_over: false,
        wrong: None,
        started: Instant::now(),
        payload: vec![0; arguments.payload.into()],
        to: to.to_string(),
        source: arguments.source,
    };
    let sent = sending.all();
    if sent.is_ok() {
        sending.totals();
    }
    // A wrong line is why nothing followed, whatever else went wrong.
    match sending.wrong {
        Some(wrong) => Err(wrong),
        None => sent,
    }
}

/// The sources that tuples are divided among by key.
fn senders(arguments: &SendArguments) -> Result<Vec<OneSender>, Failure> {
    let SendArguments { source, split, batch, .. } = arguments;
    if *split > 1 && source >> (u64::BITS - SPLIT_BITS) != 0 {
        let reason = format!("--source {source}: with --split give a number below 2^56");
        return Err(Failure::Address { reason });
    }
    let sender = |part: u64| {
        let id = if *split > 1 { source << SPLIT_BITS | part } else { *source };
        let options = SenderOptions { batch: usize::from(*batch), ..SenderOptions::new(id) };
        OneSender { sender: Sender::new(options), unanswered_since: None }
    };
    Ok((0..u64::from(*split)).map(sender).collect())
}

/// The next tuple of an input.
enum NextTuple {
    Tuple(LocalTuple),
    /// Nothing yet.
    Later,
    /// Nothing more.
    End,
}

/// Where tuples come from.
enum SendInput {
    Generator(Generator),
    Lines(Lines),
}

impl SendInput {
    fn next(&mut self) -> Result<NextTuple, Failure> {
        match self {
            SendInput::Generator(generator) => {
                Ok(generator.next().map_or(NextTuple::End, NextTuple::Tuple))
            }
            SendInput::Lines(lines) => lines.next(),
        }
    }
}

/// A message of the thread that reads lines: a tuple, or `None` at the end.
type ReadLine = Result<Option<LocalTuple>, AnalyticsFailure>;

/// Lines that a thread of its own reads, so that a slow input delays nothing else.
struct Lines {
    read: Receiver<ReadLine>,
    news: Arc<News>,
}

/// Says that there are lines.
struct News {
    /// It was said, and has not been heard.
    is_said: AtomicBool,
    event: OwnedFd,
}

impl News {
    fn say(&self) {
        if !self.is_said.swap(true, Ordering::SeqCst) {
            // One that is said and not heard is enough.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Hears it: what is said from now on is said again.
    fn hear(&self) {
        if self.is_said.load(Ordering::SeqCst) {
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
            self.is_said.store(false, Ordering::SeqCst);
        }
    }
}

impl Lines {
    fn read(lines: JsonLines, input: String) -> Result<Lines, Failure> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let event = eventfd(0, flags).map_err(std::io::Error::from)?;
        let news = Arc::new(News { is_said: AtomicBool::new(false), event });
        let (sender, read) = mpsc::sync_channel(LINES_AHEAD);
        let heard = Arc::clone(&news);
        let reading = move || read_lines(lines, &input, &sender, &news);
        thread::Builder::new().name("lines".to_owned()).spawn(reading)?;
        Ok(Lines { read, news: heard })
    }

    fn next(&mut self) -> Result<NextTuple, Failure> {
        let mut read = self.read.try_recv();
        if read.is_err() {
            // A line that comes after this is said, or there already.
            self.news.hear();
            read = self.read.try_recv();
        }
        match read {
            Ok(Ok(Some(tuple))) => Ok(NextTuple::Tuple(tuple)),
            Ok(Ok(None)) => Ok(NextTuple::End),
            Ok(Err(wrong)) => Err(wrong.into()),
            Err(TryRecvError::Empty) => Ok(NextTuple::Later),
            Err(TryRecvError::Disconnected) => {
                Err(std::io::Error::other("the thread that reads lines has died").into())
            }
        }
    }
}

/// Reads lines to their end, or to the first one that cannot be sent.
fn read_lines(mut lines: JsonLines, input: &str, to: &SyncSender<ReadLine>, news: &News) {
    let mut least_ns = 0;
    loop {
        let read = match lines.tuple() {
            Err(error) => Err(AnalyticsFailure::Json { input: input.to_owned(), error }),
            Ok(Some(LocalTuple { time_ns, .. })) if time_ns < least_ns => {
                let (input, line) = (input.to_owned(), lines.line());
                Err(AnalyticsFailure::Order { input, line, time_ns, least_ns })
            }
            Ok(tuple) => Ok(tuple),
        };
        let is_last = !matches!(read, Ok(Some(_)));
        if let Ok(Some(tuple)) = &read {
            least_ns = tuple.time_ns;
        }
        let is_taken = to.send(read).is_ok();
        news.say();
        if is_last || !is_taken {
            return;
        }
    }
}

/// A source, and since when the receiver has not answered it.
struct OneSender {
    sender: Sender,
    unanswered_since: Option<Instant>,
}

/// Sources, their input and their socket.
struct Sending {
    senders: Vec<OneSender>,
    socket: UdpSocket,
    input: SendInput,
    /// A tuple that its source had no room for.
    pending: Option<LocalTuple>,
    /// The latest event time that was read, nanoseconds.
    latest_ns: u64,
    /// The input has ended.
    is_over: bool,
    /// The input has ended by this.
    wrong: Option<Failure>,
    started: Instant,
    payload: Vec<u8>,
    to: String,
    /// The number that the user has given.
    source: u64,
}

impl Sending {
    /// Sends until everything that was read is safe.
    fn all(&mut self) -> Result<(), Failure> {
        loop {
            self.offer()?;
            self.send();
            if self.senders.iter().all(|of| of.sender.is_finished()) {
                return Ok(());
            }
            self.wait()?;
            self.receive()?;
            self.check()?;
        }
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Gives the sources what the input has, until it has nothing more or a source has no room.
    fn offer(&mut self) -> Result<(), Failure> {
        while !self.is_over {
            let tuple = match self.pending.take() {
                Some(tuple) => tuple,
                None => match self.input.next() {
                    Ok(NextTuple::Tuple(tuple)) => tuple,
                    Ok(NextTuple::Later) => break,
                    Ok(NextTuple::End) => {
                        self.is_over = true;
                        break;
                    }
                    Err(wrong) => {
                        (self.is_over, self.wrong) = (true, Some(wrong));
                        break;
                    }
                },
            };
            self.latest_ns = self.latest_ns.max(tuple.time_ns);
            let LocalTuple { stream, key, time_ns } = tuple;
            let part = partition::worker(key, self.senders.len());
            let new = NewTuple { stream, key, time_ns, payload: &self.payload };
            match self.senders[part].sender.offer(&new) {
                Ok(()) => {}
                Err(OfferError::Full) => {
                    self.pending = Some(tuple);
                    break;
                }
                Err(error) => {
                    return Err(Failure::Address { reason: format!("--input: {error}") });
                }
            }
        }
        for OneSender { sender, .. } in &mut self.senders {
            // A source whose keys are rare must not hold windows back.
            sender.pass(self.latest_ns);
            if self.is_over {
                sender.end();
            }
        }
        Ok(())
    }

    /// Sends what is due.
    fn send(&mut self) {
        let (now_ns, mut frame) = (self.now_ns(), Vec::new());
        for OneSender { sender, unanswered_since } in &mut self.senders {
            while sender.frame(now_ns, &mut frame) {
                // A frame that the system does not take is a lost one.
                let _ = self.socket.send(&frame);
                unanswered_since.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Waits for an acknowledgement, for a line if it can be sent, and for the next time at which
    /// something is due.
    fn wait(&self) -> Result<(), Failure> {
        let now_ns = self.now_ns();
        let due_ns = self.senders.iter().filter_map(|of| of.sender.due_ns(now_ns)).min();
        let left = Duration::from_nanos(due_ns.map_or(0, |due_ns| due_ns - now_ns));
        let left = left.clamp(WAIT_MIN, WAIT_MAX);
        let timeout = Timespec { tv_sec: 0, tv_nsec: left.as_nanos() as i64 };
        let acknowledged = PollFd::new(&self.socket, PollFlags::IN);
        let polled = match &self.input {
            SendInput::Lines(lines) if !self.is_over && self.pending.is_none() => {
                let read = PollFd::new(&lines.news.event, PollFlags::IN);
                poll(&mut [acknowledged, read], Some(&timeout))
            }
            _ => poll(&mut [acknowledged], Some(&timeout)),
        };
        match polled {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(std::io::Error::from(error).into()),
        }
    }

    /// Takes the acknowledgements that are there.
    fn receive(&mut self) -> Result<(), Failure> {
        let mut bytes = [0; FRAME_LEN_MAX];
        loop {
            let len = match self.socket.recv(&mut bytes) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_silence(error.kind()) => continue,
                Err(error) => return Err(error.into()),
            };
            let now_ns = self.now_ns();
            for OneSender { sender, unanswered_since } in &mut self.senders {
                // Nothing else that comes to this port is an acknowledgement.
                if sender.acknowledge(now_ns, &bytes[..len]) == Ok(true) {
                    *unanswered_since = None;
                }
            }
        }
    }

    /// Fails if the receiver does not answer, or counts nothing of a source.
    fn check(&self) -> Result<(), AnalyticsFailure> {
        let to = || self.to.clone();
        for OneSender { sender, unanswered_since } in &self.senders {
            match sender.fault() {
                None => {}
                Some(SourceFault::Forgotten) => {
                    return Err(AnalyticsFailure::Forgotten { to: to() });
                }
                Some(SourceFault::IdUsed) => {
                    return Err(AnalyticsFailure::IdUsed { to: to(), id: self.source });
                }
                Some(SourceFault::Foreign) => {
                    return Err(AnalyticsFailure::Foreign { to: to() });
                }
                Some(SourceFault::Refused) => {
                    return Err(AnalyticsFailure::TooManySources { to: to() });
                }
            }
            if unanswered_since.is_some_and(|since| since.elapsed() >= PATIENCE) {
                let silent_s = PATIENCE.as_secs();
                return Err(AnalyticsFailure::NoAnswer { to: to(), silent_s });
            }
        }
        Ok(())
    }

    /// Says what was done.
    fn totals(&self) {
        let all = || self.senders.iter().map(|of| of.sender.counters);
        say(&format!(
            "{} safe in {}: {}, {} sent again",
            counted(all().map(|of| of.safe).sum(), "tuple", "tuples"),
            words::time(self.started.elapsed().as_nanos() as f64),
            counted(all().map(|of| of.frames).sum(), "frame", "frames"),
            words::whole(all().map(|of| of.repeated).sum::<u64>() as f64),
        ));
    }
}

/// Whether an error of a socket is about an earlier datagram, and says nothing of the socket.
fn is_silence(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Interrupted
            | ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
    )
}
