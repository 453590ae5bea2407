//! The server: sends every request back, and nothing else.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use niclab_packet::echo::{
    MESSAGE_LEN_MAX, MessageHeader, MessageKind, Stamp, StampPoint, is_stamped, put_stamp, turn,
};
use serde::{Deserialize, Serialize};

use super::connections::{StopOnDrop, ended};
use super::datagrams::{is_empty, is_full};
use super::poll::Waiter;
use super::stamping::{self, Stamped};
use super::stream::each_of;
use super::uring::{self, DatagramRing};
use super::{
    EchoError, PASSAGES_MAX, Receive, Transport, check_by_socket, core_now, now_ns, socket,
};
use crate::mmsg::{Incoming, Outgoing, WaitMode};

/// How a server serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Serve {
    /// The one protocol it serves; both where there is none.
    pub transport: Option<Transport>,
    /// How it waits for what comes.
    pub receive: Receive,
    /// Messages that it takes in one call at most: 1 to [`BATCH_MAX`](super::BATCH_MAX).
    pub batch: u16,
    /// Longest message that is answered, bytes; a longer one counts as foreign.
    pub size_max: u16,
    /// It closes a connection on which nothing has moved for so long, nanoseconds.
    pub idle_ns: u64,
}

/// How long a connection may be idle, where nobody chooses another time, nanoseconds.
pub const IDLE_NS: u64 = 60_000_000_000;

/// The counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Requests that came.
    pub received: u64,
    /// Requests that were sent back. Never more than came.
    pub answered: u64,
    /// Malformed requests: dropped; over TCP the connection is closed.
    pub foreign: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Connections that the server closed: idle for too long, or to make room.
    pub closed: u64,
}

/// When a server had a request and when it called to send it back: of messages that have no room
/// for these stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerStamps {
    /// Run of the message.
    pub run: u32,
    /// Its number.
    pub number: u32,
    /// It has the request.
    pub received: Stamp,
    /// It calls.
    pub sent: Stamp,
    /// The answer leaves for the interface, where the server's socket has stamps.
    pub egress: Option<Stamp>,
}

#[derive(Debug, Default)]
struct ServerCounters {
    received: AtomicU64,
    answered: AtomicU64,
    foreign: AtomicU64,
    connections: AtomicU64,
    closed: AtomicU64,
}

/// Sockets on one address: UDP and TCP.
#[derive(Debug)]
pub struct Server {
    udp: Option<UdpSocket>,
    tcp: Option<TcpListener>,
    address: SocketAddr,
    serve: Serve,
    counters: ServerCounters,
    /// It stamps messages, and keeps what has no room in them.
    stamps: AtomicBool,
    /// The kernel stamps them for the socket.
    by_socket: bool,
    log: Mutex<Vec<ServerStamps>>,
}

impl Server {
    /// Takes the address, whose port 0 stands for any that is free.
    ///
    /// # Errors
    /// [`EchoError::InUse`], [`EchoError::NotHere`], [`EchoError::NoRing`], [`EchoError::Socket`].
    pub fn bind(address: SocketAddr, serve: Serve) -> Result<Server, EchoError> {
        if serve.receive == Receive::IoUring {
            uring::probe()?;
        }
        let (udp, tcp) = socket::server(address, serve.transport)?;
        let mut bound = Ok(address);
        if let Some(udp) = &udp {
            socket::widen(udp, usize::from(serve.batch), usize::from(serve.size_max));
            socket::set_receive_mode(udp, serve.receive);
            udp.set_read_timeout(Some(socket::TURN)).map_err(EchoError::of("SO_RCVTIMEO"))?;
            bound = udp.local_addr();
        }
        if let Some(tcp) = &tcp {
            tcp.set_nonblocking(true).map_err(EchoError::of("O_NONBLOCK"))?;
            bound = tcp.local_addr();
        }
        let address = bound.map_err(EchoError::of("getsockname"))?;
        let (counters, stamps, by_socket, log) = Default::default();
        Ok(Server { udp, tcp, address, serve, counters, stamps, by_socket, log })
    }

    /// Has the kernel stamp messages for its socket (`SO_TIMESTAMPING`), and stamps them itself:
    /// the stamp at ingress goes into the message, and the log has the one at egress.
    ///
    /// # Errors
    /// [`EchoError::NotSupported`] but over UDP, one message a call, not through a ring.
    pub fn stamped_by_socket(mut self) -> Result<Server, EchoError> {
        check_by_socket(self.serve.transport, self.serve.receive, self.serve.batch)?;
        self.by_socket = true;
        self.stamp(true);
        Ok(self)
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on it stamps messages when it has them and when it sends them back, or does not.
    pub fn stamp(&self, is_on: bool) {
        self.stamps.store(is_on, Ordering::Relaxed);
    }

    /// The stamps since the last call.
    pub fn take_log(&self) -> Vec<ServerStamps> {
        self.log.lock().map(|mut log| std::mem::take(&mut *log)).unwrap_or_default()
    }

    /// Stamps a request, or remembers its stamps.
    fn put_stamps(&self, message: &mut [u8], received: Stamp, sent: Stamp) {
        if is_stamped(message.len()) {
            put_stamp(message, StampPoint::ServerReceive, received);
            put_stamp(message, StampPoint::ServerSend, sent);
        } else if let (Ok(MessageHeader { run, number, .. }), Ok(mut log)) =
            (MessageHeader::read(message), self.log.lock())
            && log.len() < PASSAGES_MAX
        {
            log.push(ServerStamps { run, number, received, sent, egress: None });
        }
    }

    /// Now and here, where messages are stamped.
    pub(super) fn stamp_now(&self) -> Option<Stamp> {
        let is_on = self.stamps.load(Ordering::Relaxed);
        is_on.then(|| Stamp { time_ns: now_ns(), core: core_now() })
    }

    /// Its counters so far.
    pub fn served(&self) -> Served {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Served {
            received: of(&self.counters.received),
            answered: of(&self.counters.answered),
            foreign: of(&self.counters.foreign),
            connections: of(&self.counters.connections),
            closed: of(&self.counters.closed),
        }
    }

    /// Serves until `stop` is set. UDP runs on the calling thread, connections on threads that are
    /// allowed where this one is.
    ///
    /// # Errors
    /// [`EchoError::Socket`]: a socket broke; [`EchoError::NoThread`].
    pub fn run(&self, stop: &AtomicBool) -> Result<(), EchoError> {
        match (&self.udp, &self.tcp) {
            (Some(udp), Some(tcp)) => thread::scope(|scope| {
                let accepting = thread::Builder::new()
                    .name("echo-tcp".to_owned())
                    .spawn_scoped(scope, || {
                        let _ending = StopOnDrop(stop);
                        self.connections(tcp, stop)
                    })
                    .map_err(|source| EchoError::NoThread { source })?;
                let served = self.datagrams(udp, stop);
                stop.store(true, Ordering::Relaxed);
                served.and(ended(accepting))
            }),
            (Some(udp), None) => self.datagrams(udp, stop),
            (None, Some(tcp)) => self.connections(tcp, stop),
            (None, None) => Ok(()),
        }
    }

    fn datagrams(&self, udp: &UdpSocket, stop: &AtomicBool) -> Result<(), EchoError> {
        let waiter = Waiter::new(self.serve.receive, udp)?;
        // One byte more shows a message that is too long.
        let len = usize::from(self.serve.size_max).min(MESSAGE_LEN_MAX) + 1;
        let mut incoming = Incoming::new(self.serve.batch.into(), len);
        if self.serve.receive == Receive::IoUring {
            return self.ring(DatagramRing::new(udp, incoming, Outgoing::new(0, 0))?, stop);
        }
        if self.by_socket {
            return self.stamped(udp, &waiter, stop);
        }
        let mut kept = Vec::with_capacity(incoming.room());
        let patience = match self.serve.receive {
            Receive::Blocking => WaitMode::One,
            _ => WaitMode::None,
        };
        while !stop.load(Ordering::Relaxed) {
            if self.serve.receive == Receive::Epoll {
                let until_ns = now_ns() + socket::TURN.as_nanos() as u64;
                waiter.wait(udp, until_ns).map_err(EchoError::of("epoll"))?;
            }
            let count = match incoming.receive(udp, patience) {
                Ok(count) => count,
                // What a client that is gone leaves behind says nothing of the others.
                Err(e) if is_empty(&e) || e.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(e) => return Err(EchoError::of("recvmmsg")(e)),
            };
            kept.clear();
            let received = self.stamp_now();
            for at in 0..count {
                let message = incoming.message(at);
                if MessageHeader::of_datagram(message).is_ok_and(|head| self.answers(&head)) {
                    turn(message);
                    kept.push(at);
                }
            }
            if let (Some(received), Some(sent)) = (received, self.stamp_now()) {
                kept.iter().for_each(|&at| self.put_stamps(incoming.message(at), received, sent));
            }
            let foreign = (count - kept.len()) as u64;
            let answered = self.send_back(udp, &mut incoming, &kept, stop);
            self.count(kept.len() as u64, answered, foreign);
        }
        Ok(())
    }

    /// The same one by one, stamped by the socket.
    fn stamped(
        &self,
        udp: &UdpSocket,
        waiter: &Waiter,
        stop: &AtomicBool,
    ) -> Result<(), EchoError> {
        let socket = udp.try_clone().map_err(EchoError::of("dup"))?;
        let (mut socket, mut room) = (Stamped::new(socket)?, stamping::room());
        let sleeps = self.serve.receive == Receive::Blocking;
        while !stop.load(Ordering::Relaxed) {
            if self.serve.receive == Receive::Epoll {
                let until_ns = now_ns() + socket::TURN.as_nanos() as u64;
                waiter.wait(udp, until_ns).map_err(EchoError::of("epoll"))?;
            }
            let came = match socket.receive(&mut room, sleeps) {
                Ok(came) => came,
                Err(e) if is_empty(&e) || e.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(e) => return Err(EchoError::of("recvmsg")(e)),
            };
            let received = Stamp { time_ns: now_ns(), core: core_now() };
            let message = &mut room[..came.len];
            let head = match MessageHeader::of_datagram(message) {
                Ok(head) if self.answers(&head) => head,
                _ => {
                    self.count(0, 0, 1);
                    continue;
                }
            };
            turn(message);
            if let (Some(ingress), true) = (came.ingress, is_stamped(message.len())) {
                put_stamp(message, StampPoint::ServerIngress, ingress);
            }
            let sent = Stamp { time_ns: now_ns(), core: core_now() };
            if is_stamped(message.len()) {
                put_stamp(message, StampPoint::ServerReceive, received);
                put_stamp(message, StampPoint::ServerSend, sent);
            }
            let answered = came.from.map(|from| socket.send(message, Some(from)));
            let mut egress = None;
            let left = socket.egress(|_, stamp| egress = Some(stamp));
            left.map_err(EchoError::of("MSG_ERRQUEUE"))?;
            if let Ok(mut log) = self.log.lock()
                && log.len() < PASSAGES_MAX
            {
                let MessageHeader { run, number, .. } = head;
                log.push(ServerStamps { run, number, received, sent, egress });
            }
            self.count(1, u64::from(matches!(answered, Some(Ok(_)))), 0);
        }
        Ok(())
    }

    /// The same through a ring.
    fn ring(&self, mut ring: DatagramRing, stop: &AtomicBool) -> Result<(), EchoError> {
        let mut kept = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let until_ns = now_ns() + socket::TURN.as_nanos() as u64;
            let count = match ring.receive(until_ns) {
                Ok(count) => count,
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(e) => return Err(EchoError::of("io_uring_enter")(e)),
            };
            kept.clear();
            let received = self.stamp_now();
            for place in 0..count {
                let at = ring.received()[place];
                let message = ring.message(at);
                if MessageHeader::of_datagram(message).is_ok_and(|head| self.answers(&head)) {
                    turn(message);
                    kept.push(at);
                }
            }
            if let (Some(received), Some(sent)) = (received, self.stamp_now()) {
                kept.iter().for_each(|&at| self.put_stamps(ring.message(at), received, sent));
            }
            let answered = match kept.is_empty() {
                true => 0,
                false => ring.send_back(&kept).map_err(EchoError::of("io_uring_enter"))?,
            };
            self.count(kept.len() as u64, answered, (count - kept.len()) as u64);
        }
        Ok(())
    }

    /// Sends messages back; how many went. Those that the kernel will not take are left out.
    fn send_back(
        &self,
        udp: &UdpSocket,
        incoming: &mut Incoming,
        mut kept: &[usize],
        stop: &AtomicBool,
    ) -> u64 {
        let mut answered = 0;
        while !kept.is_empty() && !stop.load(Ordering::Relaxed) {
            match incoming.send_back(udp, kept) {
                Ok(count) => {
                    answered += count as u64;
                    kept = &kept[count..];
                }
                Err(e) if is_full(&e) => thread::yield_now(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Nothing leads to this one any more.
                Err(_) => kept = &kept[1..],
            }
        }
        answered
    }

    pub(super) fn count(&self, received: u64, answered: u64, foreign: u64) {
        self.counters.received.fetch_add(received, Ordering::Relaxed);
        self.counters.answered.fetch_add(answered, Ordering::Relaxed);
        if foreign > 0 {
            self.counters.foreign.fetch_add(foreign, Ordering::Relaxed);
        }
    }

    pub(super) fn count_connection(&self) {
        self.counters.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_closed(&self) {
        self.counters.closed.fetch_add(1, Ordering::Relaxed);
    }

    /// Its way to wait for what comes.
    pub(super) fn receive(&self) -> Receive {
        self.serve.receive
    }

    pub(super) fn idle_ns(&self) -> u64 {
        self.serve.idle_ns
    }

    /// It is a request, and not too long.
    fn answers(&self, head: &MessageHeader) -> bool {
        head.kind == MessageKind::Request && head.len <= self.serve.size_max
    }

    /// Makes answers of the requests that came at `received`, and stamps them where that is wanted;
    /// how many they are.
    pub(super) fn turn_all(&self, messages: &mut [u8], received: Option<Stamp>) -> io::Result<u64> {
        let mut are_requests = true;
        let count = each_of(messages, &mut |message| {
            are_requests &= MessageHeader::read(message).is_ok_and(|head| self.answers(&head));
            turn(message);
        });
        if !are_requests {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if let (Some(received), Some(sent)) = (received, self.stamp_now()) {
            each_of(messages, &mut |message| self.put_stamps(message, received, sent));
        }
        Ok(count as u64)
    }
}
