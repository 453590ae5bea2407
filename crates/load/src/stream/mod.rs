//! Bulk data between two programs over sockets of the kernel: how much of it arrives.
//!
//! A sender writes as much as it may, a receiver counts what comes; both know from the start when
//! the measured part begins and ends ([`Window`]), and each counts on its own. What was carried is
//! what the receiver has got: the sender's count is of what the kernel took from it, and says how
//! much was lost or still on its way.
//!
//! Sender and receiver are made of parts, a thread each, which the caller starts wherever they are
//! to run. Connections belong to the parts in turn.

mod account;
mod meter;
mod ready_sockets;
mod receiver;
mod sender;
mod sequence_numbers;
#[cfg(test)]
mod tests;

use std::io;

use serde::{Deserialize, Serialize};

pub use crate::echo::Transport;
pub use account::ThreadTime;
pub use meter::Window;
pub use receiver::{Receiver, ReceiverPart};
pub use sender::{SenderPart, connect};

/// Shortest UDP datagram: it has the head of [`niclab_packet::echo`] with its number.
pub const DATAGRAM_MIN: u32 = niclab_packet::echo::HEAD_LEN as u32;
/// Longest UDP datagram, bytes.
pub const DATAGRAM_MAX: u32 = niclab_packet::echo::MESSAGE_LEN_MAX as u32;
/// Most bytes written to a TCP connection by one call.
pub const WRITE_MAX: u32 = 1 << 20;
/// Most datagrams that go to the kernel in one call: the kernel's own limit (`UIO_MAXIOV`).
pub const BATCH_MAX: u16 = crate::echo::BATCH_MAX;
/// Most connections: both their ends fit the 1,024 descriptors that a program may have as a rule.
pub const CONNECTIONS_MAX: u16 = 256;

/// The task of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// UDP or TCP.
    pub transport: Transport,
    /// Bytes that are given to the kernel at once: a datagram of [`DATAGRAM_MIN`] to
    /// [`DATAGRAM_MAX`], or a write to a TCP connection of 1 to [`WRITE_MAX`].
    pub size: u32,
    /// Datagrams that are sent by one call and received by one at most: 1 to [`BATCH_MAX`]; 1 over
    /// TCP.
    pub batch: u16,
    /// Connections, or pairs of UDP sockets: 1 to [`CONNECTIONS_MAX`].
    pub connections: u16,
    /// Threads on each side: 1 to as many as there are connections.
    pub threads: u16,
    /// Datagrams a second over all connections; as many as go where there is none, and over TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_s: Option<f64>,
    /// Measured part, nanoseconds.
    pub duration_ns: u64,
    /// Part before it that is never counted, nanoseconds.
    pub warmup_ns: u64,
}

/// The counts of a sender in its measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Length of the measured part, nanoseconds; shorter than asked for where it ended early.
    pub duration_ns: u64,
    /// Bytes that the kernel took.
    pub bytes: u64,
    /// Datagrams, or whole writes, that the kernel took.
    pub messages: u64,
    /// Datagrams that were due by the rate and never left.
    pub unsent: u64,
    /// Segments that TCP sent again (`tcpi_total_retrans`); `None` over UDP.
    pub retransmits: Option<u64>,
    /// Time on a core, of all threads.
    pub time: ThreadTime,
    /// Why it ended before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// The counts of a receiver in its measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// Length of the measured part, nanoseconds; shorter than asked for where it ended early.
    pub duration_ns: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Datagrams; 0 over TCP, which knows none.
    pub messages: u64,
    /// Datagrams whose number is missing between the first and the last that came, of each
    /// connection. Of a connection that nothing came of nobody knows what was lost.
    pub lost: u64,
    /// Datagrams with a lower number than one before (RFC 4737, §3.3), those that came twice among
    /// them.
    pub reordered: u64,
    /// Datagrams that were not of this run.
    pub foreign: u64,
    /// Time on a core, of all threads.
    pub time: ThreadTime,
    /// Why it ended before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Why nothing is sent.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// A number of the [`Stream`] is out of its range.
    #[error("{field} = {value}: use {range}")]
    Range {
        /// Which.
        field: &'static str,
        /// The requested value.
        value: String,
        /// A valid value.
        range: String,
    },
    /// The kernel refused a call.
    #[error("{call}: {source}")]
    Socket {
        /// The operation.
        call: &'static str,
        /// Its message.
        source: io::Error,
    },
}

impl StreamError {
    /// Converts the kernel's error of a call.
    fn of(call: &'static str) -> impl Fn(io::Error) -> StreamError {
        move |source| StreamError::Socket { call, source }
    }
}

impl Stream {
    /// Refuses what cannot be sent.
    ///
    /// # Errors
    /// [`StreamError::Range`].
    pub fn check(&self) -> Result<(), StreamError> {
        let (sizes, batches, why) = match self.transport {
            Transport::Udp => (DATAGRAM_MIN..=DATAGRAM_MAX, 1..=BATCH_MAX, ""),
            Transport::Tcp => (1..=WRITE_MAX, 1..=1, ": a stream has no batches"),
        };
        let range =
            |field, value: String, range: String| StreamError::Range { field, value, range };
        if !sizes.contains(&self.size) {
            let bytes =
                format!("{} to {} bytes over {}", sizes.start(), sizes.end(), self.transport);
            return Err(range("size", self.size.to_string(), bytes));
        }
        if !batches.contains(&self.batch) {
            let most = batches.end();
            let most = if *most == 1 { format!("1{why}") } else { format!("1 to {most}") };
            return Err(range("batch", self.batch.to_string(), most));
        }
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            let most = format!("1 to {CONNECTIONS_MAX}");
            return Err(range("connections", self.connections.to_string(), most));
        }
        if !(1..=self.connections).contains(&self.threads) {
            let most = format!("1 to {}, the number of connections", self.connections);
            return Err(range("threads", self.threads.to_string(), most));
        }
        if let Some(per_s) = self.per_s {
            if self.transport == Transport::Tcp {
                let none = "none over TCP, which finds its own".to_owned();
                return Err(range("rate", per_s.to_string(), none));
            }
            if !(per_s > 0.0 && per_s <= 1e9) {
                return Err(range("rate", per_s.to_string(), "1 to 1e9 datagrams a second".into()));
            }
        }
        if self.duration_ns == 0 {
            return Err(range("duration", "0".to_owned(), "more than nothing".to_owned()));
        }
        Ok(())
    }

    /// Connections by the thread that has them.
    fn shares<T>(&self, all: Vec<T>) -> Vec<Vec<T>> {
        let mut shares: Vec<Vec<T>> = (0..self.threads).map(|_| Vec::new()).collect();
        let count = shares.len();
        for (at, one) in all.into_iter().enumerate() {
            shares[at % count].push(one);
        }
        shares
    }
}

impl Sent {
    /// The sum of all parts of a sender.
    pub fn of(parts: Vec<Sent>) -> Sent {
        let mut all = Sent { duration_ns: u64::MAX, ..Sent::default() };
        for part in parts {
            all.duration_ns = all.duration_ns.min(part.duration_ns);
            all.bytes += part.bytes;
            all.messages += part.messages;
            all.unsent += part.unsent;
            if let Some(more) = part.retransmits {
                all.retransmits = Some(all.retransmits.unwrap_or(0) + more);
            }
            all.time = all.time.plus(part.time);
            all.ended = all.ended.or(part.ended);
        }
        all
    }

    /// Payload that the kernel took, bits a second.
    pub fn bits_per_s(&self) -> f64 {
        per_s(self.bytes, self.duration_ns)
    }
}

impl Received {
    /// The sum of all parts of a receiver.
    pub fn of(parts: Vec<Received>) -> Received {
        let mut all = Received { duration_ns: u64::MAX, ..Received::default() };
        for part in parts {
            all.duration_ns = all.duration_ns.min(part.duration_ns);
            all.bytes += part.bytes;
            all.messages += part.messages;
            all.lost += part.lost;
            all.reordered += part.reordered;
            all.foreign += part.foreign;
            all.time = all.time.plus(part.time);
            all.ended = all.ended.or(part.ended);
        }
        all
    }

    /// Payload that was carried, bits a second.
    pub fn bits_per_s(&self) -> f64 {
        per_s(self.bytes, self.duration_ns)
    }
}

/// Bits a second of so many bytes; none of a part that ended before it began.
fn per_s(bytes: u64, duration_ns: u64) -> f64 {
    if duration_ns == 0 { 0.0 } else { bytes as f64 * 8e9 / duration_ns as f64 }
}
