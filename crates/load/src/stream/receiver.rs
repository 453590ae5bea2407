//! The receiver: receives and counts.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use niclab_packet::echo::MessageHeader;

use super::meter::{Window, WindowMeter};
use super::ready_sockets::{Interest, ReadySockets};
use super::sequence_numbers::SequenceNumbers;
use super::{Received, Stream, StreamError, Transport};
use crate::echo::{SILENCE_NS, is_empty, now_ns, socket};
use crate::mmsg::{Incoming, WaitMode};

/// Bytes that are read from a connection by one call at most, whatever the sender writes.
const READ_LEN: usize = 128 << 10;

/// Calls that a connection may have before the clock and the others have their turn.
const TURNS: usize = 16;

/// Datagrams that a socket of the receiver has room for, at least.
const ROOM_MIN: usize = 256;

/// Sockets that a sender can connect to.
#[derive(Debug)]
pub struct Receiver {
    stream: Stream,
    run: u32,
    sockets: BoundSockets,
    addresses: Vec<SocketAddr>,
}

#[derive(Debug)]
enum BoundSockets {
    Tcp(TcpListener),
    Udp(Vec<UdpSocket>),
}

/// One thread's share of a receiver.
#[derive(Debug)]
pub struct ReceiverPart {
    stream: Stream,
    run: u32,
    sockets: Sockets,
}

#[derive(Debug)]
enum Sockets {
    Tcp(Vec<TcpStream>),
    Udp(Vec<UdpSocket>),
}

impl Receiver {
    /// Takes free ports of this address, in the network namespace of the calling thread. `run`
    /// tells the datagrams of its sender from those of others.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn bind(address: IpAddr, stream: &Stream, run: u32) -> Result<Receiver, StreamError> {
        stream.check()?;
        let refused = StreamError::of("bind");
        let mut addresses = Vec::new();
        let sockets = match stream.transport {
            Transport::Tcp => {
                let tcp = TcpListener::bind((address, 0)).map_err(refused)?;
                // Nobody takes connections before all have been asked for.
                rustix::net::listen(&tcp, stream.connections.into())
                    .map_err(|e| StreamError::of("listen")(e.into()))?;
                addresses.push(tcp.local_addr().map_err(StreamError::of("getsockname"))?);
                BoundSockets::Tcp(tcp)
            }
            Transport::Udp => {
                let mut all = Vec::new();
                for _ in 0..stream.connections {
                    let udp = UdpSocket::bind((address, 0)).map_err(&refused)?;
                    let room = usize::from(stream.batch).max(ROOM_MIN);
                    socket::widen(&udp, room, stream.size as usize);
                    addresses.push(udp.local_addr().map_err(StreamError::of("getsockname"))?);
                    all.push(udp);
                }
                BoundSockets::Udp(all)
            }
        };
        Ok(Receiver { stream: stream.clone(), run, sockets, addresses })
    }

    /// The addresses for a sender: one, or one for each connection.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// A part for each thread, when the sender has connected.
    ///
    /// # Errors
    /// [`StreamError::Socket`], where it has not.
    pub fn parts(self) -> Result<Vec<ReceiverPart>, StreamError> {
        let Receiver { stream, run, sockets, .. } = self;
        let part = |sockets| ReceiverPart { stream: stream.clone(), run, sockets };
        Ok(match sockets {
            BoundSockets::Udp(all) => {
                stream.shares(all).into_iter().map(|own| part(Sockets::Udp(own))).collect()
            }
            BoundSockets::Tcp(tcp) => {
                let refused = StreamError::of("accept");
                tcp.set_nonblocking(true).map_err(&refused)?;
                let until_ns = now_ns() + SILENCE_NS;
                let mut all = Vec::new();
                let mut ready = ReadySockets::new(&[&tcp], Interest::Data).map_err(&refused)?;
                while all.len() < usize::from(stream.connections) {
                    match tcp.accept() {
                        Ok((connected, _)) => {
                            connected.set_nonblocking(true).map_err(&refused)?;
                            all.push(connected);
                        }
                        Err(e) if is_empty(&e) && now_ns() < until_ns => {
                            ready.wait(now_ns(), until_ns).map_err(&refused)?;
                        }
                        Err(e) => return Err(refused(e)),
                    }
                }
                stream.shares(all).into_iter().map(|own| part(Sockets::Tcp(own))).collect()
            }
        })
    }
}

/// Received so far in the measured part.
#[derive(Clone, Debug, Default)]
struct ReceivedCounts {
    bytes: u64,
    messages: u64,
    foreign: u64,
    numbers: Vec<SequenceNumbers>,
}

impl ReceiverPart {
    /// Receives until the window is over, or `stop` is set; sets it where it ends before its time,
    /// so that everybody else does.
    pub fn run(self, window: Window, stop: &AtomicBool) -> Received {
        let mut meter = WindowMeter::new(window);
        let mut come = ReceivedCounts::default();
        let mut heard_ns = now_ns();
        let ended = match self.sockets {
            Sockets::Tcp(streams) => {
                if let [alone] = streams.as_slice() {
                    let _ = alone.set_nonblocking(false);
                    let _ = alone.set_read_timeout(Some(socket::TURN));
                }
                let mut bytes = vec![0; READ_LEN];
                let drain =
                    |at: usize, come: &mut ReceivedCounts| read(&streams[at], &mut bytes, come);
                receive(&streams, drain, &mut meter, stop, (&mut come, &mut heard_ns))
            }
            Sockets::Udp(sockets) => {
                let of = DatagramFilter { run: self.run, size: self.stream.size };
                // One byte more shows a datagram that is too long.
                let mut incoming =
                    Incoming::new(self.stream.batch.into(), self.stream.size as usize + 1);
                let mut patience = WaitMode::None;
                if let [alone] = sockets.as_slice() {
                    let _ = alone.set_read_timeout(Some(socket::TURN));
                    patience = WaitMode::One;
                }
                let drain = |at: usize, come: &mut ReceivedCounts| {
                    take((&sockets[at], patience), at, &of, &mut incoming, come)
                };
                receive(&sockets, drain, &mut meter, stop, (&mut come, &mut heard_ns))
            }
        };
        let now_ns = now_ns();
        let ended = ended.err().filter(|_| !meter.is_over(now_ns));
        if ended.is_some() {
            stop.store(true, Ordering::Relaxed);
        }
        // Who waited in vain has measured until something came last.
        let is_silent = ended.as_ref().is_some_and(|e| e.kind() == io::ErrorKind::TimedOut);
        let (duration_ns, time) = meter.end(if is_silent { heard_ns } else { now_ns });
        Received {
            duration_ns,
            bytes: come.bytes,
            messages: come.messages,
            lost: come.numbers.iter().map(SequenceNumbers::lost).sum(),
            reordered: come.numbers.iter().map(|numbers| numbers.reordered).sum(),
            foreign: come.foreign,
            time,
            ended: ended.map(|error| words(&error)),
        }
    }
}

fn words(error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::TimedOut => format!("nothing came for {} s", SILENCE_NS / 1_000_000_000),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            "it has closed the connection".to_owned()
        }
        _ => error.to_string(),
    };
    format!("the sender was lost: {why}")
}

/// Lets `drain` take what there is of each socket that has something, until the time is over.
fn receive<S: std::os::fd::AsFd>(
    sockets: &[S],
    mut drain: impl FnMut(usize, &mut ReceivedCounts) -> io::Result<()>,
    meter: &mut WindowMeter,
    stop: &AtomicBool,
    (come, heard_ns): (&mut ReceivedCounts, &mut u64),
) -> io::Result<()> {
    let fresh = || ReceivedCounts {
        numbers: vec![SequenceNumbers::default(); sockets.len()],
        ..ReceivedCounts::default()
    };
    *come = fresh();
    let mut ready = match sockets {
        [_] => ReadySockets::alone(),
        several => ReadySockets::new(several, Interest::Data)?,
    };
    loop {
        let now_ns = now_ns();
        if meter.begins(now_ns) {
            *come = fresh();
        }
        if meter.is_over(now_ns) || stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        if now_ns > *heard_ns + SILENCE_NS {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let until_ns = match now_ns < meter.window.begin_ns {
            true => meter.window.begin_ns,
            false => meter.window.end_ns,
        };
        ready.wait(now_ns, until_ns)?;
        for at in ready.places() {
            let before = (come.bytes, come.foreign);
            drain(at, come)?;
            if before != (come.bytes, come.foreign) {
                *heard_ns = now_ns;
            }
        }
    }
}

/// Reads what a connection has.
fn read(mut stream: &TcpStream, bytes: &mut [u8], come: &mut ReceivedCounts) -> io::Result<()> {
    for _ in 0..TURNS {
        match stream.read(bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                come.bytes += count as u64;
                if count < bytes.len() {
                    return Ok(());
                }
            }
            Err(e) if is_empty(&e) => return Ok(()),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Which datagrams are ours.
struct DatagramFilter {
    run: u32,
    size: u32,
}

/// Takes what a socket has; `at` is its place.
fn take(
    (socket, patience): (&UdpSocket, WaitMode),
    at: usize,
    of: &DatagramFilter,
    incoming: &mut Incoming,
    come: &mut ReceivedCounts,
) -> io::Result<()> {
    for turn in 0..TURNS {
        // Whoever waits for the first ones takes of the others what is there.
        let patience = if turn == 0 { patience } else { WaitMode::None };
        let count = match incoming.receive(socket, patience) {
            Ok(count) => count,
            Err(e) if is_empty(&e) => return Ok(()),
            Err(e) => return Err(e),
        };
        for place in 0..count {
            match MessageHeader::of_datagram(incoming.message(place)) {
                Ok(head) if (head.run, u32::from(head.len)) == (of.run, of.size) => {
                    come.messages += 1;
                    come.bytes += u64::from(of.size);
                    come.numbers[at].add(head.number);
                }
                _ => come.foreign += 1,
            }
        }
        if count < incoming.room() {
            return Ok(());
        }
    }
    Ok(())
}
