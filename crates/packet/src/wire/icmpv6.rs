//! ICMPv6 messages (RFC 4443).
//!
//! The view is of a whole message; the header is its first 8 bytes, whatever the type.

use std::fmt;

use super::bytes::{read_u16, read_u32, view, write_u16, write_u32};
use crate::checksum;
use crate::error::{LayerKind, ParseError, check_fits};

view! {
    /// A view of an ICMPv6 message.
    Message
}

mod field {
    use crate::wire::bytes::FieldRange;

    pub const TYPE: usize = 0;
    pub const CODE: usize = 1;
    pub const CHECKSUM: FieldRange = 2..4;
    pub const REST: FieldRange = 4..8;
}

/// Length of the header in bytes.
pub const HEADER_LEN: usize = field::REST.end;

/// What a message is for (IANA "ICMPv6 Type Numbers").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageType(pub u8);

impl MessageType {
    /// The destination cannot be reached.
    pub const UNREACHABLE: Self = Self(1);
    /// Longer than the next link takes.
    pub const PACKET_TOO_BIG: Self = Self(2);
    /// The hop limit or the time of reassembly ran out.
    pub const TIME_EXCEEDED: Self = Self(3);
    /// A header field is wrong.
    pub const PARAMETER_PROBLEM: Self = Self(4);
    /// Request for an echo.
    pub const ECHO_REQUEST: Self = Self(128);
    /// Answer to an echo request.
    pub const ECHO_REPLY: Self = Self(129);
    /// Request for router advertisements (RFC 4861).
    pub const ROUTER_SOLICITATION: Self = Self(133);
    /// A router makes itself known (RFC 4861).
    pub const ROUTER_ADVERTISEMENT: Self = Self(134);
    /// Request for a link-layer address (RFC 4861).
    pub const NEIGHBOR_SOLICITATION: Self = Self(135);
    /// A link-layer address (RFC 4861).
    pub const NEIGHBOR_ADVERTISEMENT: Self = Self(136);
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UNREACHABLE => f.write_str("unreachable"),
            Self::PACKET_TOO_BIG => f.write_str("packet too big"),
            Self::TIME_EXCEEDED => f.write_str("time exceeded"),
            Self::PARAMETER_PROBLEM => f.write_str("parameter problem"),
            Self::ECHO_REQUEST => f.write_str("echo request"),
            Self::ECHO_REPLY => f.write_str("echo reply"),
            Self::ROUTER_SOLICITATION => f.write_str("router solicitation"),
            Self::ROUTER_ADVERTISEMENT => f.write_str("router advertisement"),
            Self::NEIGHBOR_SOLICITATION => f.write_str("neighbor solicitation"),
            Self::NEIGHBOR_ADVERTISEMENT => f.write_str("neighbor advertisement"),
            Self(other) => write!(f, "type {other}"),
        }
    }
}

impl<T: AsRef<[u8]>> Message<T> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// Fewer than [`HEADER_LEN`] bytes.
    pub fn check_len(&self) -> Result<(), ParseError> {
        check_fits(LayerKind::Icmpv6, HEADER_LEN, self.as_bytes().len())
    }

    /// What the message is for.
    pub fn message_type(&self) -> MessageType {
        MessageType(self.as_bytes()[field::TYPE])
    }

    /// Its variety.
    pub fn code(&self) -> u8 {
        self.as_bytes()[field::CODE]
    }

    /// The checksum field.
    pub fn checksum(&self) -> u16 {
        read_u16(self.as_bytes(), field::CHECKSUM)
    }

    /// The 4 bytes whose meaning depends on the type; for echo, identifier and sequence number.
    pub fn rest(&self) -> u32 {
        read_u32(self.as_bytes(), field::REST)
    }

    /// The bytes after the header.
    pub fn payload(&self) -> &[u8] {
        &self.as_bytes()[HEADER_LEN..]
    }

    /// Whether the checksum is right; `pseudo` is the partial of the pseudo header. The view must
    /// end where the message does.
    pub fn is_checksum_valid(&self, pseudo: u64) -> bool {
        checksum::fold(pseudo + checksum::sum(self.as_bytes())) == 0xffff
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Message<T> {
    /// Sets what the message is for, and its variety.
    pub fn set_message_type(&mut self, message_type: MessageType, code: u8) {
        let bytes = self.buffer.as_mut();
        bytes[field::TYPE] = message_type.0;
        bytes[field::CODE] = code;
    }

    /// Sets the checksum field.
    pub fn set_checksum(&mut self, checksum: u16) {
        write_u16(self.buffer.as_mut(), field::CHECKSUM, checksum);
    }

    /// Sets the 4 bytes whose meaning depends on the type.
    pub fn set_rest(&mut self, rest: u32) {
        write_u32(self.buffer.as_mut(), field::REST, rest);
    }

    /// The bytes after the header, to change.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.as_mut()[HEADER_LEN..]
    }

    /// Computes the checksum; `pseudo` is the partial of the pseudo header. The view must end
    /// where the message does.
    pub fn fill_checksum(&mut self, pseudo: u64) {
        self.set_checksum(0);
        let covered = checksum::sum(self.as_bytes());
        self.set_checksum(checksum::finish(pseudo + covered));
    }
}

/// An ICMPv6 header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// What the message is for.
    pub message_type: MessageType,
    /// Its variety.
    pub code: u8,
    /// The 4 bytes whose meaning depends on the type.
    pub rest: u32,
}

impl Repr {
    /// An echo request.
    pub fn echo_request(identifier: u16, sequence: u16) -> Self {
        let rest = u32::from(identifier) << 16 | u32::from(sequence);
        Self { message_type: MessageType::ECHO_REQUEST, code: 0, rest }
    }

    /// Reads a header.
    ///
    /// # Errors
    /// Those of [`Message::check_len`].
    pub fn parse<T: AsRef<[u8]>>(message: &Message<T>) -> Result<Self, ParseError> {
        message.check_len()?;
        Ok(Self {
            message_type: message.message_type(),
            code: message.code(),
            rest: message.rest(),
        })
    }

    /// Length of the header in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header, checksum 0.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, message: &mut Message<T>) {
        message.set_message_type(self.message_type, self.code);
        message.set_checksum(0);
        message.set_rest(self.rest);
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Message<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ICMPv6 {} code {}", self.message_type(), self.code())?;
        write!(f, " rest {:#010x}", self.rest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 12] = [
        0x80, 0x00, 0xbb, 0x42, // echo request, checksum
        0x12, 0x34, 0xab, 0xcd, // identifier, sequence
        0xaa, 0x00, 0x00, 0xff, // payload
    ];

    fn pseudo() -> u64 {
        let address = |last| std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
        checksum::pseudo_ipv6(address(1), address(2), crate::wire::IpProtocol::ICMPV6, 12)
    }

    #[test]
    fn test_deconstruct() {
        let message = Message::new_checked(BYTES).unwrap();
        assert_eq!(Repr::parse(&message), Ok(Repr::echo_request(0x1234, 0xabcd)));
        assert_eq!(message.payload(), [0xaa, 0x00, 0x00, 0xff]);
        assert!(message.is_checksum_valid(pseudo()));
        assert_eq!(message.to_string(), "ICMPv6 echo request code 0 rest 0x1234abcd");
    }

    #[test]
    fn test_construct() {
        let mut bytes = [0x5a; 12];
        let mut message = Message::new_unchecked(&mut bytes[..]);
        Repr::echo_request(0x1234, 0xabcd).emit(&mut message);
        message.payload_mut().copy_from_slice(&BYTES[8..]);
        message.fill_checksum(pseudo());
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn test_truncated() {
        crate::testing::every_truncation(&BYTES, HEADER_LEN, |b| {
            Message::new_checked(b).map(|m| (m.to_string(), m.payload().len()))
        });
    }
}
