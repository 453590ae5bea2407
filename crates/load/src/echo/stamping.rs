//! Datagrams that the kernel stamps for the socket that sends or receives them: `SO_TIMESTAMPING`
//! (the kernel's `Documentation/networking/timestamping.rst`), which asks for no right and no
//! program in the kernel.
//!
//! A datagram is stamped when it leaves for the queueing discipline (`SOF_TIMESTAMPING_TX_SCHED`)
//! and when the stack gets it from the driver (`SOF_TIMESTAMPING_RX_SOFTWARE`), before it is
//! steered to another core. The probe of a breakdown at egress stands at the first place, the one
//! at ingress behind the second. These times are of `CLOCK_REALTIME`; they are told in
//! `CLOCK_MONOTONIC`.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use niclab_packet::echo::{
    MESSAGE_LEN_MAX, MessageHeader, MessageKind, Stamp, StampPoint, clear_stamps, is_stamped,
    put_stamp,
};
use nix::cmsg_space;
use nix::sys::socket::sockopt::Timestamping;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, TimestampingFlag, Timestamps, recvmsg,
    setsockopt,
};
use rustix::time::{ClockId, clock_gettime};

use super::datagrams::{is_empty, is_full};
use super::poll::Waiter;
use super::{Echo, EchoError, Pace, Receive, now_ns, socket};

/// Messages whose stamps at egress are kept until their answers come.
const KEPT: usize = 1_024;

/// Most datagrams that are sent to see whether the kernel stamps them, and the pause after each.
const STAMP_TRIES: usize = 500;
const STAMP_PAUSE: Duration = Duration::from_millis(1);

/// Readings of both clocks, of which the closest pair counts.
const READINGS: usize = 16;

/// When the stack hands a datagram to the queueing discipline (`linux/net_tstamp.h`).
const TX_SCHED: TimestampingFlag = TimestampingFlag::from_bits_retain(1 << 8);

/// By how much `CLOCK_REALTIME` is ahead of `CLOCK_MONOTONIC`, nanoseconds. Both are slewed
/// alike: it changes where somebody sets the clock.
pub fn realtime_ahead_ns() -> i64 {
    let realtime_ns = || {
        let now = clock_gettime(ClockId::Realtime);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    };
    let readings = (0..READINGS).map(|_| {
        let (before, there, after) = (now_ns(), realtime_ns(), now_ns());
        (after - before, there - (before + (after - before) / 2) as i64)
    });
    readings.min().map_or(0, |(_, ahead)| ahead)
}

/// A socket and what the kernel says of its datagrams.
pub struct Stamped {
    socket: UdpSocket,
    control: Vec<u8>,
    ahead_ns: i64,
    /// Datagrams sent: the kernel numbers them so.
    sent: u32,
}

/// One that came.
pub struct ReceivedDatagram {
    /// Its bytes.
    pub len: usize,
    /// Its sender.
    pub from: Option<SocketAddr>,
    /// When the stack got it.
    pub ingress: Option<Stamp>,
}

/// A report of the kernel: a received datagram, or the outcome of a sent one.
struct KernelReport {
    len: usize,
    from: Option<SocketAddr>,
    realtime_ns: Option<i64>,
    number: Option<u32>,
}

impl Stamped {
    /// Has the kernel stamp what goes over a socket from now on.
    ///
    /// # Errors
    /// [`EchoError::Socket`] where it does not.
    pub fn new(socket: UdpSocket) -> Result<Stamped, EchoError> {
        let stamped = Stamped::asked(socket)?;
        stamped.wait_for_stamps();
        Ok(stamped)
    }

    /// The first socket that asks for stamps makes the kernel rewrite its own code, in a work item
    /// (`net_enable_timestamp` in its `net/core/dev.c`). Until that has run, what comes has no
    /// stamp. Sends datagrams to a socket of its own until one has a stamp. Goes on without, where
    /// the loopback interface is down.
    fn wait_for_stamps(&self) {
        let Ok(own) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) else { return };
        let is_connected = own.local_addr().and_then(|address| own.connect(address)).is_ok();
        let Ok(mut own) = Stamped::asked(own) else { return };
        for _ in 0..if is_connected { STAMP_TRIES } else { 0 } {
            let came = own.send(&[0], None).and_then(|_| own.receive(&mut [0], false));
            if came.is_ok_and(|came| came.ingress.is_some()) {
                return;
            }
            std::thread::sleep(STAMP_PAUSE);
        }
    }

    fn asked(socket: UdpSocket) -> Result<Stamped, EchoError> {
        let flags = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY
            | TX_SCHED;
        let set = setsockopt(&socket, Timestamping, &flags);
        set.map_err(|e| EchoError::of("SO_TIMESTAMPING")(e.into()))?;
        let control = cmsg_space!(Timestamps, libc::sock_extended_err, libc::sockaddr_in6);
        Ok(Stamped { socket, control, ahead_ns: realtime_ahead_ns(), sent: 0 })
    }

    /// The socket.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Sends a datagram to an address, or to where the socket is connected; its number.
    pub fn send(&mut self, bytes: &[u8], to: Option<SocketAddr>) -> io::Result<u32> {
        loop {
            let sent = match to {
                Some(to) => self.socket.send_to(bytes, to),
                None => self.socket.send(bytes),
            };
            match sent {
                Ok(_) => {
                    self.sent = self.sent.wrapping_add(1);
                    return Ok(self.sent.wrapping_sub(1));
                }
                Err(e) if is_full(&e) => std::thread::yield_now(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Receives one datagram, if it is there or the socket sleeps for it.
    pub fn receive(&mut self, bytes: &mut [u8], sleeps: bool) -> io::Result<ReceivedDatagram> {
        let flags = if sleeps { MsgFlags::empty() } else { MsgFlags::MSG_DONTWAIT };
        let ahead_ns = self.ahead_ns;
        let observed = self.look(bytes, flags)?;
        let ingress = observed.realtime_ns.map(|realtime_ns| stamp_of(realtime_ns, ahead_ns));
        Ok(ReceivedDatagram { len: observed.len, from: observed.from, ingress })
    }

    /// Calls `each` with the numbers of datagrams that have left, and when.
    pub fn egress(&mut self, mut each: impl FnMut(u32, Stamp)) -> io::Result<()> {
        let ahead_ns = self.ahead_ns;
        loop {
            match self.look(&mut [], MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT) {
                Ok(observed) => {
                    // What has none of both is an error of another kind: the next call says it.
                    if let (Some(number), Some(realtime_ns)) =
                        (observed.number, observed.realtime_ns)
                    {
                        each(number, stamp_of(realtime_ns, ahead_ns));
                    }
                }
                Err(e) if is_empty(&e) => return Ok(()),
                Err(e) => return Err(e),
            }
        }
    }

    /// One datagram of the socket or of its error queue.
    fn look(&mut self, bytes: &mut [u8], flags: MsgFlags) -> io::Result<KernelReport> {
        let mut vectors = [IoSliceMut::new(bytes)];
        let fd = self.socket.as_raw_fd();
        let got =
            recvmsg::<SockaddrStorage>(fd, &mut vectors, Some(self.control.as_mut_slice()), flags)?;
        let (mut realtime_ns, mut number) = (None, None);
        for message in got.cmsgs()? {
            match message {
                ControlMessageOwned::ScmTimestampsns(Timestamps { system, .. }) => {
                    let ns = system.tv_sec() * 1_000_000_000 + system.tv_nsec();
                    realtime_ns = (ns > 0).then_some(ns);
                }
                ControlMessageOwned::Ipv4RecvErr(error, _)
                | ControlMessageOwned::Ipv6RecvErr(error, _)
                    if error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING =>
                {
                    number = Some(error.ee_data);
                }
                _ => {}
            }
        }
        let from = got.address.and_then(|from| {
            let v4 = from.as_sockaddr_in().map(|v4| SocketAddr::V4(SocketAddrV4::from(*v4)));
            v4.or(from.as_sockaddr_in6().map(|v6| SocketAddr::V6(SocketAddrV6::from(*v6))))
        });
        Ok(KernelReport { len: got.bytes, from, realtime_ns, number })
    }
}

/// A time of the kernel's in our clock. Nobody says on which core it was taken.
fn stamp_of(realtime_ns: i64, ahead_ns: i64) -> Stamp {
    Stamp { time_ns: (realtime_ns - ahead_ns).max(0) as u64, core: None }
}

/// The client's end: one message a call.
pub struct StampedDatagrams {
    stamped: Stamped,
    waiter: Waiter,
    sleeps: bool,
    out: Vec<u8>,
    back: Vec<u8>,
    number: u32,
    /// Messages that were sent: the kernel's number, ours, and when it left.
    left: VecDeque<(u32, u32, Option<Stamp>)>,
}

impl StampedDatagrams {
    /// A socket that sends the messages of `echo` to `server`.
    ///
    /// # Errors
    /// [`EchoError::Socket`].
    pub fn new(echo: &Echo, server: SocketAddr) -> Result<StampedDatagrams, EchoError> {
        let socket = socket::udp_client(server)?;
        socket::set_receive_mode(&socket, echo.receive);
        let waiter = Waiter::new(echo.receive, &socket)?;
        socket.set_read_timeout(Some(socket::TURN)).map_err(EchoError::of("SO_RCVTIMEO"))?;
        let sleeps = echo.receive == Receive::Blocking && echo.pace == Pace::Closed;
        // One byte more shows a message that is too long.
        let (out, back) = (vec![0; echo.size.into()], vec![0; usize::from(echo.size) + 1]);
        let (stamped, left) = (Stamped::new(socket)?, VecDeque::with_capacity(KEPT));
        Ok(StampedDatagrams { stamped, waiter, sleeps, out, back, number: 0, left })
    }

    /// The address that it sends from.
    pub fn address(&self) -> Option<SocketAddr> {
        self.stamped.socket().local_addr().ok()
    }

    /// Writes the next message.
    pub fn write(&mut self, run: u32, number: u32) {
        self.number = number;
        let len = self.out.len() as u16;
        MessageHeader { kind: MessageKind::Request, len, run, number }.write(&mut self.out);
        clear_stamps(&mut self.out);
    }

    /// Sends it, and reads when it left: it has before the call returns.
    pub fn send(&mut self) -> io::Result<()> {
        let number = self.stamped.send(&self.out, None)?;
        if self.left.len() == KEPT {
            self.left.pop_front();
        }
        self.left.push_back((number, self.number, None));
        let left = &mut self.left;
        self.stamped.egress(|number, stamp| {
            if let Some(one) = left.iter_mut().rev().find(|one| one.0 == number) {
                one.2 = Some(stamp);
            }
        })
    }

    /// Calls `each` with a message that is there and the kernel's stamps in it, after having waited
    /// for it until `until_ns` at most; how many there were.
    pub fn receive(&mut self, until_ns: u64, each: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        if !self.sleeps {
            self.waiter.wait(self.stamped.socket(), until_ns)?;
        }
        let came = match self.stamped.receive(&mut self.back, self.sleeps) {
            Ok(came) => came,
            Err(e) if is_empty(&e) => return Ok(0),
            Err(e) => return Err(e),
        };
        let message = &mut self.back[..came.len];
        if let Ok(head) = MessageHeader::of_datagram(message)
            && is_stamped(message.len())
        {
            let left = self.left.iter().rev().find(|one| one.1 == head.number);
            if let Some(stamp) = left.and_then(|one| one.2) {
                put_stamp(message, StampPoint::ClientEgress, stamp);
            }
            if let Some(stamp) = came.ingress {
                put_stamp(message, StampPoint::ClientIngress, stamp);
            }
        }
        each(message);
        Ok(1)
    }
}

/// Room for a datagram of any length, and one byte more.
pub fn room() -> Vec<u8> {
    vec![0; MESSAGE_LEN_MAX + 1]
}
