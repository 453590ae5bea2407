//! The echo: a client sends messages to a server that sends each of them back, over sockets of the
//! kernel, and says how long that took and what became of every message.
//!
//! The messages are those of [`niclab_packet::echo`]. A closed loop sends a batch and waits for its
//! answers; an open loop sends a batch whenever one is due, whatever has come back, and counts from
//! then. All times are those of `CLOCK_MONOTONIC`, which probes in the kernel read too.

mod client;
mod connections;
mod datagrams;
mod event_loop;
mod poll;
mod server;
pub(crate) mod socket;
mod stamping;
mod stream;
mod tally;
#[cfg(test)]
mod tests;
mod uring;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use niclab_packet::echo::{Passage, Stamp, StampPoint};
use serde::{Deserialize, Serialize};

pub use client::run;
pub(crate) use datagrams::{is_empty, is_full};
pub use server::{IDLE_NS, Serve, Served, Server, ServerStamps};
pub use stamping::realtime_ahead_ns;

use crate::histogram::Latency;

/// Shortest message, bytes.
pub const SIZE_MIN: u16 = niclab_packet::echo::HEAD_LEN as u16;
/// Longest message, bytes.
pub const SIZE_MAX: u16 = niclab_packet::echo::MESSAGE_LEN_MAX as u16;
/// Most messages that go to the kernel in one call: the kernel's own limit (`UIO_MAXIOV`).
pub const BATCH_MAX: u16 = 1024;

/// How long a client waits for an answer before its message counts as lost, nanoseconds.
pub const PATIENCE_NS: u64 = 500_000_000;
/// How long nobody may answer before the client takes the server for gone, nanoseconds.
pub const SILENCE_NS: u64 = 2_000_000_000;

/// The task of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Echo {
    /// UDP or TCP.
    pub transport: Transport,
    /// Length of a message, bytes of payload: [`SIZE_MIN`] to [`SIZE_MAX`].
    pub size: u16,
    /// Messages that are sent together: 1 to [`BATCH_MAX`].
    pub batch: u16,
    /// How answers are waited for.
    pub receive: Receive,
    /// When messages are sent.
    pub pace: Pace,
    /// Measured part, nanoseconds.
    pub duration_ns: u64,
    /// Part before it that is never counted, nanoseconds.
    pub warmup_ns: u64,
}

/// The protocol under the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// One message a datagram (RFC 768), sent by `sendmmsg` and received by `recvmmsg`.
    #[default]
    Udp,
    /// One message behind the other on one connection (RFC 9293), without Nagle's delay.
    Tcp,
}

/// How a program waits for what comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receive {
    /// It sleeps in the call that receives.
    #[default]
    Blocking,
    /// It never sleeps: it asks again and again, and lets the kernel poll the card meanwhile
    /// (`SO_BUSY_POLL`), where the kernel allows it.
    BusyPoll,
    /// It sleeps in `epoll_pwait2`, then receives.
    Epoll,
    /// Sending and receiving go through a ring (io_uring): one call hands over what is to be sent
    /// and where to put what comes, and sleeps until something has.
    IoUring,
}

/// When messages are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// A batch, then the next one when all of it has come back or is lost.
    #[default]
    Closed,
    /// A batch of them every `batch / per_s` seconds, whatever has come back.
    Open {
        /// Messages a second, above 0.
        per_s: f64,
    },
}

/// The outcome of the messages of one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Echoed {
    /// Length of the measured part, nanoseconds; shorter than asked for where the server went.
    pub duration_ns: u64,
    /// Messages that were due in it; in a closed loop, those that were sent.
    pub planned: u64,
    /// Messages that were sent. `planned = sent + unsent`.
    pub sent: u64,
    /// Messages that were due and never left: the client was too slow.
    pub unsent: u64,
    /// Messages whose answer came in time. `sent = answered + lost`.
    pub answered: u64,
    /// Messages without an answer in time.
    pub lost: u64,
    /// Lost messages whose answer came too late.
    pub late: u64,
    /// Answers with a lower number than one before (RFC 4737, §3.3).
    pub reordered: u64,
    /// Answers to what had been answered.
    pub duplicated: u64,
    /// Received messages that answer no message of this trial.
    pub foreign: u64,
    /// From when a message was due to when its answer was there; in a closed loop it is due when
    /// the call begins that sends it.
    pub rtt: Latency,
    /// From the call that sent a message to its answer; of an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Latency>,
    /// How late messages left; of an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Latency>,
    /// Why it ended before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Why there is no echo.
#[derive(Debug, thiserror::Error)]
pub enum EchoError {
    /// A number of the [`Echo`] is out of its range.
    #[error("{field} = {value}: use {range}")]
    Range {
        /// Which.
        field: &'static str,
        /// The requested value.
        value: String,
        /// A valid value.
        range: String,
    },
    /// Nobody listens there.
    #[error(
        "{server} answered nothing: start `niclab serve echo` there, and let its port through the \
         firewall"
    )]
    Nobody {
        /// Where.
        server: SocketAddr,
    },
    /// Messages went there until the time was over, and none came back.
    #[error(
        "{server} answered nothing: start `niclab serve echo` there, and let its port through the \
         firewall"
    )]
    Silent {
        /// Where.
        server: SocketAddr,
    },
    /// The kernel sends nothing there.
    #[error(
        "{server} cannot be reached ({source}): give the address of one host, to which \
         `ip route get {}` finds a way", server.ip()
    )]
    Unreachable {
        /// Where.
        server: SocketAddr,
        /// Its message.
        source: std::io::Error,
    },
    /// Somebody else has the address.
    #[error("{address} is in use: stop what listens there, or choose another port with --bind")]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// The address is of no interface here.
    #[error("{address} is not an address of this machine: `ip address` lists those that are")]
    NotHere {
        /// The address.
        address: SocketAddr,
    },
    /// The kernel has no rings, or this process may not have one.
    #[error(
        "no io_uring here ({source}): allow it (sysctl kernel.io_uring_disabled=0), or choose \
         another way to wait"
    )]
    NoRing {
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The system lets this user have no more threads.
    #[error("no thread for the server ({source}): raise the limit with `ulimit -u`")]
    NoThread {
        /// Its message.
        source: std::io::Error,
    },
    /// Not built.
    #[error("not supported: {what}")]
    NotSupported {
        /// The requested value.
        what: &'static str,
    },
    /// The kernel refused a call.
    #[error("{call}: {source}")]
    Socket {
        /// The operation.
        call: &'static str,
        /// Its message.
        source: std::io::Error,
    },
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        })
    }
}

impl fmt::Display for Receive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Receive::Blocking => "blocking",
            Receive::BusyPoll => "busy-poll",
            Receive::Epoll => "epoll",
            Receive::IoUring => "io-uring",
        })
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Transport, String> {
        let all = [Transport::Udp, Transport::Tcp];
        let found = all.into_iter().find(|one| one.to_string() == text);
        found.ok_or_else(|| "use udp or tcp".to_owned())
    }
}

impl FromStr for Receive {
    type Err = String;

    fn from_str(text: &str) -> Result<Receive, String> {
        let all = [Receive::Blocking, Receive::BusyPoll, Receive::Epoll, Receive::IoUring];
        let found = all.into_iter().find(|one| one.to_string() == text);
        found.ok_or_else(|| "use blocking, busy-poll, epoll or io-uring".to_owned())
    }
}

impl EchoError {
    /// Converts the kernel's error of a call.
    pub(crate) fn of(call: &'static str) -> impl Fn(std::io::Error) -> EchoError {
        move |source| EchoError::Socket { call, source }
    }
}

impl Echo {
    /// Refuses what cannot be sent.
    ///
    /// # Errors
    /// [`EchoError::Range`].
    pub fn check(&self) -> Result<(), EchoError> {
        let range = |field, value: String, range: String| EchoError::Range { field, value, range };
        if !(SIZE_MIN..=SIZE_MAX).contains(&self.size) {
            let bytes = format!("{SIZE_MIN} to {SIZE_MAX} bytes");
            return Err(range("size", self.size.to_string(), bytes));
        }
        if !(1..=BATCH_MAX).contains(&self.batch) {
            return Err(range("batch", self.batch.to_string(), format!("1 to {BATCH_MAX}")));
        }
        match self.pace {
            Pace::Open { per_s } if !(per_s > 0.0 && per_s <= 1e9) => {
                Err(range("rate", per_s.to_string(), "1 to 1e9 messages a second".to_owned()))
            }
            _ if self.duration_ns == 0 => {
                Err(range("duration", "0".to_owned(), "more than nothing".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// Messages of one task whose stamps are kept at most: enough for the quantiles of a breakdown.
pub const PASSAGES_MAX: usize = 1 << 16;

/// The stamps of messages that came back, for a breakdown. Programs take four of them: before and
/// after each of their calls; probes in the kernel, where they are, the others.
#[derive(Debug, Default)]
pub struct MessageStamps {
    /// Number of a message and its stamps, of the measured part.
    pub kept: Vec<(u32, Passage)>,
    /// The client's address.
    pub client: Option<SocketAddr>,
    /// The kernel stamps messages for the client's socket (`SO_TIMESTAMPING`): those over UDP that
    /// have room for stamps, one a batch, not through a ring.
    pub by_socket: bool,
}

impl MessageStamps {
    /// None yet, with memory for as many as are kept: nothing is allocated while messages pass.
    pub fn new() -> MessageStamps {
        let mut kept = vec![(0, Passage::default()); PASSAGES_MAX];
        kept.clear();
        MessageStamps { kept, client: None, by_socket: false }
    }

    /// Keeps what stands in a message that has come back to the client at `received`, having been
    /// sent at `sent_ns`.
    #[inline]
    fn keep(&mut self, number: u32, message: &[u8], sent: Stamp, received: Stamp) {
        if self.kept.len() < PASSAGES_MAX {
            let mut passage = Passage::of(message);
            passage.put(StampPoint::ClientSend, sent);
            passage.put(StampPoint::ClientReceive, received);
            self.kept.push((number, passage));
        }
    }
}

/// Refuses what no socket has stamps of.
pub(crate) fn check_by_socket(
    transport: Option<Transport>,
    receive: Receive,
    batch: u16,
) -> Result<(), EchoError> {
    let can = transport == Some(Transport::Udp) && receive != Receive::IoUring && batch == 1;
    let what = "stamps of sockets but over UDP, one message a call, not through io_uring";
    if can { Ok(()) } else { Err(EchoError::NotSupported { what }) }
}

/// The core that the calling thread is on.
#[inline]
pub(crate) fn core_now() -> Option<u16> {
    u16::try_from(rustix::thread::sched_getcpu()).ok()
}

/// Now, nanoseconds of `CLOCK_MONOTONIC`.
#[inline]
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
