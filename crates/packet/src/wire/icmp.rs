//! ICMP messages (RFC 792).
//!
//! The view is of a whole message; the header is its first 8 bytes, whatever the type.

use std::fmt;

use super::bytes::{read_u16, read_u32, view, write_u16, write_u32};
use crate::checksum;
use crate::error::{LayerKind, ParseError, check_fits};

view! {
    /// A view of an ICMP message.
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

/// Variety of [`MessageType::UNREACHABLE`]: nobody listens at the port (RFC 792).
pub const PORT_UNREACHABLE: u8 = 3;

/// What a message is for (IANA "ICMP Type Numbers").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageType(pub u8);

impl MessageType {
    /// Answer to an echo request.
    pub const ECHO_REPLY: Self = Self(0);
    /// The destination cannot be reached.
    pub const UNREACHABLE: Self = Self(3);
    /// There is a better first hop.
    pub const REDIRECT: Self = Self(5);
    /// Request for an echo.
    pub const ECHO_REQUEST: Self = Self(8);
    /// The time to live or of reassembly ran out.
    pub const TIME_EXCEEDED: Self = Self(11);
    /// A header field is wrong.
    pub const PARAMETER_PROBLEM: Self = Self(12);
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ECHO_REPLY => f.write_str("echo reply"),
            Self::UNREACHABLE => f.write_str("unreachable"),
            Self::REDIRECT => f.write_str("redirect"),
            Self::ECHO_REQUEST => f.write_str("echo request"),
            Self::TIME_EXCEEDED => f.write_str("time exceeded"),
            Self::PARAMETER_PROBLEM => f.write_str("parameter problem"),
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
        check_fits(LayerKind::Icmp, HEADER_LEN, self.as_bytes().len())
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

    /// Whether the checksum is right. The view must end where the message does.
    pub fn is_checksum_valid(&self) -> bool {
        checksum::is_valid(self.as_bytes())
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

    /// Computes the checksum. The view must end where the message does.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let covered = checksum::sum(self.as_bytes());
        self.set_checksum(checksum::finish(covered));
    }
}

/// An ICMP header.
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
        write!(f, "ICMP {} code {}", self.message_type(), self.code())?;
        write!(f, " rest {:#010x}", self.rest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 12] = [
        0x08, 0x00, 0x8e, 0xfe, // echo request, checksum
        0x12, 0x34, 0xab, 0xcd, // identifier, sequence
        0xaa, 0x00, 0x00, 0xff, // payload
    ];

    #[test]
    fn test_deconstruct() {
        let message = Message::new_checked(BYTES).unwrap();
        assert_eq!(Repr::parse(&message), Ok(Repr::echo_request(0x1234, 0xabcd)));
        assert_eq!(message.payload(), [0xaa, 0x00, 0x00, 0xff]);
        assert!(message.is_checksum_valid());
        assert_eq!(message.to_string(), "ICMP echo request code 0 rest 0x1234abcd");
    }

    #[test]
    fn test_construct() {
        let mut bytes = [0x5a; 12];
        let mut message = Message::new_unchecked(&mut bytes[..]);
        Repr::echo_request(0x1234, 0xabcd).emit(&mut message);
        message.payload_mut().copy_from_slice(&BYTES[8..]);
        message.fill_checksum();
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn test_truncated() {
        crate::testing::every_truncation(&BYTES, HEADER_LEN, |b| {
            Message::new_checked(b).map(|m| (m.to_string(), m.payload().len()))
        });
    }
}
