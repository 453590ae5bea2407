//! Messages of the echo: what a client sends, a server sends back, and probes stamp on the way.
//!
//! A message is the whole payload of a UDP datagram, or one of many in a TCP stream; it says its
//! own length for that. Numbers are big endian.
//!
//! | bytes | content |
//! |---|---|
//! | 0..4 | magic number |
//! | 4 | version, 1 |
//! | 5 | kind: 1 request, 2 reply |
//! | 6..8 | length of the whole message, bytes |
//! | 8..12 | run: which client, and which of its measurements |
//! | 12..16 | number of the message in its run |
//!
//! A message of [`STAMPED_LEN_MIN`] bytes or more has room for stamps, and for the cores that they
//! were taken on:
//!
//! | bytes | content |
//! |---|---|
//! | 16..80 | eight times, nanoseconds of the clock of the machine they were taken on; 0: none |
//! | 80..96 | the core of each, plus one; 0: unknown |
//!
//! What is behind that is filled up with zeros. A reply is the request with another kind and more
//! stamps: nobody gets more bytes back than were sent in his name, and two servers that are set on
//! each other fall silent, for neither answers a reply.

use std::fmt;

/// Length of the head of a message, and of the shortest one, bytes.
pub const HEAD_LEN: usize = 16;

/// Longest message: the longest payload of UDP over IPv4 (65,535 less 20 and 8), bytes.
pub const MESSAGE_LEN_MAX: usize = 65_507;

/// Shortest message that has room for stamps, bytes.
pub const STAMPED_LEN_MIN: usize = 128;

/// Stamps of a message.
pub const STAMPS: usize = 8;

/// Where the times begin, and where the cores do.
const TIMES_AT: usize = HEAD_LEN;
const CORES_AT: usize = TIMES_AT + STAMPS * 8;

const _: () = assert!(CORES_AT + STAMPS * 2 <= STAMPED_LEN_MIN);

/// Marks a message as ours: `nicl`.
pub const MAGIC: u32 = 0x6e69_636c;

/// The version of this format.
pub const VERSION: u8 = 1;

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// From client to server.
    Request = 1,
    /// From server to client.
    Reply = 2,
}

/// Where a stamp is taken, in the order in which a message passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StampPoint {
    /// The client is about to call the kernel.
    ClientSend = 0,
    /// The request leaves the client's stack for the interface.
    ClientEgress = 1,
    /// The request enters the server's stack.
    ServerIngress = 2,
    /// The server has the request.
    ServerReceive = 3,
    /// The server is about to call the kernel.
    ServerSend = 4,
    /// The reply leaves the server's stack.
    ServerEgress = 5,
    /// The reply enters the client's stack.
    ClientIngress = 6,
    /// The client has the reply.
    ClientReceive = 7,
}

/// All places, in the order in which a message passes.
pub const PLACES: [StampPoint; STAMPS] = [
    StampPoint::ClientSend,
    StampPoint::ClientEgress,
    StampPoint::ServerIngress,
    StampPoint::ServerReceive,
    StampPoint::ServerSend,
    StampPoint::ServerEgress,
    StampPoint::ClientIngress,
    StampPoint::ClientReceive,
];

/// The head of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// Request or reply.
    pub kind: MessageKind,
    /// Length of the whole message, bytes: [`HEAD_LEN`] to [`MESSAGE_LEN_MAX`].
    pub len: u16,
    /// Which client, and which of its measurements.
    pub run: u32,
    /// Number of the message in its run; wraps.
    pub number: u32,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMessage {
    /// Fewer bytes than a head has.
    #[error("{0} bytes are no message: its head alone has 16")]
    Short(usize),
    /// Somebody else's.
    #[error("magic number {0:#010x}: not a message of niclab")]
    Magic(u32),
    /// Of a niclab that writes messages in another way.
    #[error("message of version {0}, this niclab knows version 1: use the same on both sides")]
    Version(u8),
    /// Neither request nor reply.
    #[error("message of kind {0}: neither request (1) nor reply (2)")]
    Kind(u8),
    /// It says another length than it has, or one that no message has.
    #[error("message of {said} bytes by its head, {there} by its datagram")]
    Length {
        /// What its head says.
        said: u16,
        /// Bytes that came.
        there: usize,
    },
}

impl MessageHeader {
    /// The head at the start of `bytes`, of which a stream may hold more or less than the message.
    pub fn read(bytes: &[u8]) -> Result<MessageHeader, NoMessage> {
        let Some(head) = bytes.first_chunk::<HEAD_LEN>() else {
            return Err(NoMessage::Short(bytes.len()));
        };
        let [m0, m1, m2, m3, version, kind, l0, l1, r0, r1, r2, r3, n0, n1, n2, n3] = *head;
        let magic = u32::from_be_bytes([m0, m1, m2, m3]);
        if magic != MAGIC {
            return Err(NoMessage::Magic(magic));
        }
        if version != VERSION {
            return Err(NoMessage::Version(version));
        }
        let kind = match kind {
            1 => MessageKind::Request,
            2 => MessageKind::Reply,
            other => return Err(NoMessage::Kind(other)),
        };
        let len = u16::from_be_bytes([l0, l1]);
        if !(HEAD_LEN..=MESSAGE_LEN_MAX).contains(&usize::from(len)) {
            return Err(NoMessage::Length { said: len, there: bytes.len() });
        }
        let run = u32::from_be_bytes([r0, r1, r2, r3]);
        Ok(MessageHeader { kind, len, run, number: u32::from_be_bytes([n0, n1, n2, n3]) })
    }

    /// The head of a datagram, which is exactly one message.
    pub fn of_datagram(bytes: &[u8]) -> Result<MessageHeader, NoMessage> {
        let head = MessageHeader::read(bytes)?;
        match usize::from(head.len) == bytes.len() {
            true => Ok(head),
            false => Err(NoMessage::Length { said: head.len, there: bytes.len() }),
        }
    }

    /// Writes the head to the start of `message`, which is at least [`HEAD_LEN`] long.
    #[inline]
    pub fn write(self, message: &mut [u8]) {
        let Some(head) = message.first_chunk_mut::<HEAD_LEN>() else { return };
        head[0..4].copy_from_slice(&MAGIC.to_be_bytes());
        head[4] = VERSION;
        head[5] = self.kind as u8;
        head[6..8].copy_from_slice(&self.len.to_be_bytes());
        head[8..12].copy_from_slice(&self.run.to_be_bytes());
        head[12..16].copy_from_slice(&self.number.to_be_bytes());
    }
}

/// Turns a request into its reply.
#[inline]
pub fn turn(message: &mut [u8]) {
    if let Some(kind) = message.get_mut(5) {
        *kind = MessageKind::Reply as u8;
    }
}

/// `true` where a message of so many bytes has room for stamps.
pub fn is_stamped(len: usize) -> bool {
    len >= STAMPED_LEN_MIN
}

/// One stamp: when, and on which core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds of the clock of the machine it was taken on, above 0.
    pub time_ns: u64,
    /// The core, where it is known.
    pub core: Option<u16>,
}

/// The stamp of a message that was taken at `place`; `None` where there is none, or no room.
pub fn stamp(message: &[u8], place: StampPoint) -> Option<Stamp> {
    let at = place as usize;
    let message = message.first_chunk::<STAMPED_LEN_MIN>()?;
    let time = message[TIMES_AT + at * 8..].first_chunk().copied().map(u64::from_be_bytes)?;
    let core = message[CORES_AT + at * 2..].first_chunk().copied().map(u16::from_be_bytes)?;
    (time > 0).then_some(Stamp { time_ns: time, core: core.checked_sub(1) })
}

/// Writes a stamp into a message, where it has room.
#[inline]
pub fn put_stamp(message: &mut [u8], place: StampPoint, stamp: Stamp) {
    let at = place as usize;
    let Some(message) = message.first_chunk_mut::<STAMPED_LEN_MIN>() else { return };
    message[TIMES_AT + at * 8..][..8].copy_from_slice(&stamp.time_ns.to_be_bytes());
    let core = stamp.core.map_or(0, |core| core.saturating_add(1));
    message[CORES_AT + at * 2..][..2].copy_from_slice(&core.to_be_bytes());
}

/// Takes all stamps out of a message that is sent again.
#[inline]
pub fn clear_stamps(message: &mut [u8]) {
    if let Some(message) = message.first_chunk_mut::<STAMPED_LEN_MIN>() {
        message[TIMES_AT..CORES_AT + STAMPS * 2].fill(0);
    }
}

/// The stamps of one message on its way, by [`StampPoint`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage([Option<Stamp>; STAMPS]);

impl Passage {
    /// Those that stand in a message.
    pub fn of(message: &[u8]) -> Passage {
        let mut passage = Passage::default();
        for (stamp_of, place) in passage.0.iter_mut().zip(PLACES) {
            *stamp_of = stamp(message, place);
        }
        passage
    }

    /// The one that was taken there.
    pub fn at(&self, place: StampPoint) -> Option<Stamp> {
        self.0[place as usize]
    }

    /// Adds one.
    pub fn put(&mut self, place: StampPoint, stamp: Stamp) {
        self.0[place as usize] = Some(stamp);
    }
}

impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MessageKind::Request => "request",
            MessageKind::Reply => "reply",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: MessageHeader =
        MessageHeader { kind: MessageKind::Request, len: 0x0102, run: 0x0304_0506, number: 7 };

    #[test]
    fn a_head_is_these_bytes_and_comes_back_whole() {
        let mut bytes = [0xff; 20];
        HEAD.write(&mut bytes);
        let known =
            [b'n', b'i', b'c', b'l', 1, 1, 1, 2, 3, 4, 5, 6, 0, 0, 0, 7, 255, 255, 255, 255];
        assert_eq!(bytes, known);
        assert_eq!(MessageHeader::read(&bytes), Ok(HEAD));
        turn(&mut bytes);
        assert_eq!(
            MessageHeader::read(&bytes),
            Ok(MessageHeader { kind: MessageKind::Reply, ..HEAD })
        );
    }

    #[test]
    fn what_is_no_message_is_refused_by_what_is_wrong_with_it() {
        let mut bytes = [0; 32];
        MessageHeader { len: 32, ..HEAD }.write(&mut bytes);
        assert!(MessageHeader::of_datagram(&bytes).is_ok());
        assert_eq!(MessageHeader::of_datagram(&bytes[..15]), Err(NoMessage::Short(15)));
        let length = Err(NoMessage::Length { said: 32, there: 31 });
        assert_eq!(MessageHeader::of_datagram(&bytes[..31]), length);
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes;
            bytes[at] = byte;
            MessageHeader::of_datagram(&bytes)
        };
        assert_eq!(with(3, b'k'), Err(NoMessage::Magic(0x6e69_636b)));
        assert_eq!(with(4, 2), Err(NoMessage::Version(2)));
        assert_eq!(with(5, 0), Err(NoMessage::Kind(0)));
        assert_eq!(with(7, 15), Err(NoMessage::Length { said: 15, there: 32 }));
        assert_eq!(with(6, 0xff), Err(NoMessage::Length { said: 0xff20, there: 32 }));
    }

    #[test]
    fn each_place_has_a_stamp_of_its_own() {
        let mut message = [0; STAMPED_LEN_MIN];
        HEAD.write(&mut message);
        for (at, place) in PLACES.into_iter().enumerate() {
            assert_eq!(stamp(&message, place), None);
            let core = (at != 3).then_some(at as u16);
            put_stamp(&mut message, place, Stamp { time_ns: 1 << at, core });
        }
        for (at, place) in PLACES.into_iter().enumerate() {
            let core = (at != 3).then_some(at as u16);
            assert_eq!(stamp(&message, place), Some(Stamp { time_ns: 1 << at, core }));
        }
        assert_eq!(MessageHeader::read(&message), Ok(HEAD));
        let passage = Passage::of(&message);
        assert!(PLACES.iter().all(|place| passage.at(*place) == stamp(&message, *place)));
        clear_stamps(&mut message);
        assert!(PLACES.iter().all(|place| stamp(&message, *place).is_none()));
        assert_eq!(MessageHeader::read(&message), Ok(HEAD));
        assert_eq!(stamp(&message[..STAMPED_LEN_MIN - 1], StampPoint::ClientSend), None);
    }
}
