//! The sender: as much as goes, or datagrams at a rate.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use niclab_packet::echo::{MessageHeader, MessageKind};

use super::account::retransmits;
use super::meter::{Window, WindowMeter};
use super::ready_sockets::{Interest, ReadySockets};
use super::{Sent, Stream, StreamError, Transport};
use crate::echo::{SILENCE_NS, is_full, now_ns, socket};
use crate::mmsg::Outgoing;

/// Messages that a connection may send before the clock and the others have their turn.
const TURNS: usize = 16;

/// From here on a message is long, bytes.
const LONG: usize = 16 << 10;

/// One thread's share of a sender.
#[derive(Debug)]
pub struct SenderPart {
    stream: Stream,
    run: u32,
    sockets: Sockets,
}

#[derive(Debug)]
enum Sockets {
    Tcp(Vec<TcpStream>),
    Udp(Vec<UdpSocket>),
}

/// Connects to a receiver, in the network namespace of the calling thread; a part for each thread.
/// `run` tells its datagrams from those of others.
///
/// # Errors
/// [`StreamError`].
pub fn connect(
    stream: &Stream,
    receiver: &[SocketAddr],
    run: u32,
) -> Result<Vec<SenderPart>, StreamError> {
    stream.check()?;
    let targets = receiver.iter().cycle().take(stream.connections.into());
    let part = |sockets| SenderPart { stream: stream.clone(), run, sockets };
    Ok(match stream.transport {
        Transport::Udp => {
            let sockets: Result<Vec<_>, _> = targets.map(|to| datagrams(stream, *to)).collect();
            stream.shares(sockets?).into_iter().map(|own| part(Sockets::Udp(own))).collect()
        }
        Transport::Tcp => {
            let sockets: Result<Vec<_>, _> = targets.map(|to| connection(*to)).collect();
            stream.shares(sockets?).into_iter().map(|own| part(Sockets::Tcp(own))).collect()
        }
    })
}

fn datagrams(stream: &Stream, to: SocketAddr) -> Result<UdpSocket, StreamError> {
    let any: std::net::IpAddr = match to {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).map_err(StreamError::of("bind"))?;
    socket.connect(to).map_err(StreamError::of("connect"))?;
    socket::widen(&socket, stream.batch.into(), stream.size as usize);
    socket.set_write_timeout(Some(socket::TURN)).map_err(StreamError::of("SO_SNDTIMEO"))?;
    Ok(socket)
}

fn connection(to: SocketAddr) -> Result<TcpStream, StreamError> {
    let patience = Duration::from_nanos(SILENCE_NS);
    let tcp = TcpStream::connect_timeout(&to, patience).map_err(StreamError::of("connect"))?;
    tcp.set_nonblocking(true).map_err(StreamError::of("O_NONBLOCK"))?;
    Ok(tcp)
}

/// Sent so far in the measured part.
#[derive(Clone, Copy, Debug, Default)]
struct SentCounts {
    bytes: u64,
    messages: u64,
    unsent: u64,
    retransmits: u64,
}

impl SenderPart {
    /// Sends until the window is over, or `stop` is set; sets it where it ends before its time, so
    /// that everybody else does.
    pub fn run(self, window: Window, stop: &AtomicBool) -> Sent {
        let mut meter = WindowMeter::new(window);
        let mut gone = SentCounts::default();
        let is_tcp = matches!(self.sockets, Sockets::Tcp(_));
        let ended = match self.sockets {
            Sockets::Tcp(streams) => {
                let mut pipes = TcpConnections { streams, offsets: Vec::new() };
                pipes.send(&self.stream, &mut meter, stop, &mut gone)
            }
            Sockets::Udp(sockets) => {
                let mut darts = UdpSockets::new(&self.stream, self.run, sockets);
                match self.stream.per_s {
                    None => darts.send(&mut meter, stop, &mut gone),
                    Some(per_s) => {
                        let share = per_s / f64::from(self.stream.threads);
                        darts.send_at(share, &mut meter, stop, &mut gone)
                    }
                }
            }
        };
        let now_ns = now_ns();
        let ended = ended.err().filter(|_| !meter.is_over(now_ns)).map(|error| words(&error));
        if ended.is_some() {
            stop.store(true, Ordering::Relaxed);
        }
        let (duration_ns, time) = meter.end(now_ns);
        let SentCounts { bytes, messages, unsent, retransmits } = gone;
        let retransmits = is_tcp.then_some(retransmits);
        Sent { duration_ns, bytes, messages, unsent, retransmits, time, ended }
    }
}

fn words(error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            "it has closed the connection".to_owned()
        }
        io::ErrorKind::ConnectionRefused => "nobody listens there any more".to_owned(),
        _ => error.to_string(),
    };
    format!("the receiver was lost: {why}")
}

/// Connections.
struct TcpConnections {
    streams: Vec<TcpStream>,
    /// How much of its present message the kernel has taken, of each.
    offsets: Vec<usize>,
}

impl TcpConnections {
    fn send(
        &mut self,
        stream: &Stream,
        meter: &mut WindowMeter,
        stop: &AtomicBool,
        gone: &mut SentCounts,
    ) -> io::Result<()> {
        self.offsets = vec![0; self.streams.len()];
        let message = vec![0; stream.size as usize];
        let mut ready = match self.streams.as_slice() {
            [alone] => {
                alone.set_nonblocking(false)?;
                alone.set_write_timeout(Some(socket::TURN))?;
                ReadySockets::alone()
            }
            several => ReadySockets::new(several, Interest::Room)?,
        };
        let mut before = 0;
        let sent = loop {
            let now_ns = now_ns();
            if meter.begins(now_ns) {
                *gone = SentCounts::default();
                before = self.retransmits();
            }
            if meter.is_over(now_ns) || stop.load(Ordering::Relaxed) {
                break Ok(());
            }
            let until_ns = match now_ns < meter.window.begin_ns {
                true => meter.window.begin_ns,
                false => meter.window.end_ns,
            };
            ready.wait(now_ns, until_ns)?;
            if let Err(error) = ready.places().try_for_each(|at| self.fill(at, &message, gone)) {
                break Err(error);
            }
        };
        gone.retransmits = self.retransmits().saturating_sub(before);
        sent
    }

    /// Writes messages to one connection while it takes them, a few at most.
    fn fill(&mut self, at: usize, message: &[u8], gone: &mut SentCounts) -> io::Result<()> {
        // Long ones take longer than looking at the clock.
        let turns = if message.len() < LONG { TURNS } else { 1 };
        for _ in 0..turns {
            let offset = &mut self.offsets[at];
            match self.streams[at].write(&message[*offset..]) {
                Ok(count) => {
                    gone.bytes += count as u64;
                    *offset += count;
                    if *offset < message.len() {
                        return Ok(());
                    }
                    gone.messages += 1;
                    *offset = 0;
                }
                Err(e) if is_full(&e) || e.kind() == io::ErrorKind::Interrupted => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn retransmits(&self) -> u64 {
        self.streams.iter().filter_map(|stream| retransmits(stream).ok()).sum()
    }
}

/// Sockets that datagrams leave by.
struct UdpSockets {
    sockets: Vec<UdpSocket>,
    /// The number of the next datagram of each.
    numbers: Vec<u32>,
    out: Outgoing,
    batch: u16,
    run: u32,
    /// The connection whose turn it is.
    at: usize,
}

impl UdpSockets {
    fn new(stream: &Stream, run: u32, sockets: Vec<UdpSocket>) -> UdpSockets {
        let numbers = vec![0; sockets.len()];
        let out = Outgoing::new(stream.batch.into(), stream.size as usize);
        UdpSockets { sockets, numbers, out, batch: stream.batch, run, at: 0 }
    }

    /// As many as go.
    fn send(
        &mut self,
        meter: &mut WindowMeter,
        stop: &AtomicBool,
        gone: &mut SentCounts,
    ) -> io::Result<()> {
        loop {
            let now_ns = now_ns();
            if meter.begins(now_ns) {
                *gone = SentCounts::default();
            }
            if meter.is_over(now_ns) || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.send_batch(stop, gone)?;
        }
    }

    /// So many a second, in batches; what was due and is late is sent at once.
    fn send_at(
        &mut self,
        per_s: f64,
        meter: &mut WindowMeter,
        stop: &AtomicBool,
        gone: &mut SentCounts,
    ) -> io::Result<()> {
        let gap_ns = f64::from(self.batch) / per_s * 1e9;
        let start_ns = now_ns();
        let due_at = |batch: u64| start_ns + (batch as f64 * gap_ns) as u64;
        let mut batch = 0;
        loop {
            let now_ns = now_ns();
            if meter.begins(now_ns) {
                *gone = SentCounts::default();
            }
            if meter.is_over(now_ns) || stop.load(Ordering::Relaxed) {
                break;
            }
            let due_ns = due_at(batch);
            if now_ns >= due_ns {
                self.send_batch(stop, gone)?;
                batch += 1;
                continue;
            }
            let until_ns = due_ns.min(meter.window.end_ns).min(now_ns + TURN_NS);
            std::thread::sleep(Duration::from_nanos(until_ns - now_ns));
        }
        let end_ns = now_ns().min(meter.window.end_ns).saturating_sub(start_ns);
        let due = (end_ns as f64 / gap_ns).ceil() as u64;
        gone.unsent = due.saturating_sub(batch) * u64::from(self.batch);
        Ok(())
    }

    fn send_batch(&mut self, stop: &AtomicBool, gone: &mut SentCounts) -> io::Result<()> {
        let (socket, number) = (&self.sockets[self.at], &mut self.numbers[self.at]);
        self.at = (self.at + 1) % self.sockets.len();
        let count = self.out.count();
        for place in 0..count {
            let message = self.out.message(place);
            // Of the kind that nobody answers.
            let (kind, len) = (MessageKind::Reply, message.len() as u16);
            let number = number.wrapping_add(place as u32);
            MessageHeader { kind, len, run: self.run, number }.write(message);
            gone.bytes += u64::from(len);
        }
        *number = number.wrapping_add(count as u32);
        let mut sent = 0;
        while sent < count {
            match self.out.send(socket, sent) {
                Ok(more) => sent += more,
                Err(_) if stop.load(Ordering::Relaxed) => break,
                Err(e) if is_full(&e) || e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        gone.messages += sent as u64;
        let left = (count - sent) as u64;
        gone.bytes -= left * self.out.message(0).len() as u64;
        Ok(())
    }
}

/// Longest sleep of a sender that is not due, nanoseconds.
const TURN_NS: u64 = 50_000_000;
