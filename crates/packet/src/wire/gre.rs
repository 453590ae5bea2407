//! Generic routing encapsulation (RFC 2784) with checksum, key and sequence number (RFC 2890).
//!
//! Version 0 without source routing; anything else is refused.

use std::fmt;

use super::EtherType;
use super::bytes::{read_u16, read_u32, view, write_u16, write_u32};
use crate::checksum;
use crate::error::{LayerKind, ParseError, check_fits};

view! {
    /// A view of a GRE packet.
    Packet
}

mod field {
    use crate::wire::bytes::FieldRange;

    pub const FLAGS_AND_VERSION: FieldRange = 0..2;
    pub const PROTOCOL: FieldRange = 2..4;
    /// Checksum, if its flag is set; key and sequence number then follow in this order.
    pub const CHECKSUM: FieldRange = 4..6;

    /// Flags within FLAGS_AND_VERSION.
    pub const CHECKSUM_PRESENT: u16 = 0x8000;
    pub const ROUTING_PRESENT: u16 = 0x4000;
    pub const KEY_PRESENT: u16 = 0x2000;
    pub const SEQUENCE_PRESENT: u16 = 0x1000;
    pub const VERSION: u16 = 0x0007;
}

/// Length of the header without optional fields in bytes.
pub const HEADER_LEN: usize = field::PROTOCOL.end;

/// Length of one optional field in bytes.
const OPTIONAL_LEN: usize = 4;

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks the header and that its optional fields are there.
    ///
    /// # Errors
    /// Bytes that end in the header; a version other than 0; source routing (RFC 1701).
    pub fn check_len(&self) -> Result<(), ParseError> {
        let available_len = self.as_bytes().len();
        check_fits(LayerKind::Gre, HEADER_LEN, available_len)?;
        let checks = [("version", field::VERSION), ("routing", field::ROUTING_PRESENT)];
        for (field, mask) in checks {
            let value = u32::from(self.flags() & mask);
            if value != 0 {
                let layer = LayerKind::Gre;
                return Err(ParseError::Field { layer, field, value, allowed: "0" });
            }
        }
        check_fits(LayerKind::Gre, self.header_len(), available_len)
    }

    fn flags(&self) -> u16 {
        read_u16(self.as_bytes(), field::FLAGS_AND_VERSION)
    }

    fn has(&self, flag: u16) -> bool {
        self.flags() & flag != 0
    }

    /// Length of the header with its optional fields in bytes: 4, 8, 12 or 16.
    pub fn header_len(&self) -> usize {
        let present = field::CHECKSUM_PRESENT | field::KEY_PRESENT | field::SEQUENCE_PRESENT;
        HEADER_LEN + OPTIONAL_LEN * (self.flags() & present).count_ones() as usize
    }

    /// What the packet carries.
    pub fn protocol(&self) -> EtherType {
        EtherType(read_u16(self.as_bytes(), field::PROTOCOL))
    }

    /// The checksum field, if there is one.
    pub fn checksum(&self) -> Option<u16> {
        let present = self.has(field::CHECKSUM_PRESENT);
        present.then(|| read_u16(self.as_bytes(), field::CHECKSUM))
    }

    fn key_start(&self) -> usize {
        HEADER_LEN + OPTIONAL_LEN * usize::from(self.has(field::CHECKSUM_PRESENT))
    }

    fn sequence_start(&self) -> usize {
        self.key_start() + OPTIONAL_LEN * usize::from(self.has(field::KEY_PRESENT))
    }

    fn optional(&self, flag: u16, start: usize) -> Option<u32> {
        let present = self.has(flag);
        present.then(|| read_u32(self.as_bytes(), start..start + OPTIONAL_LEN))
    }

    /// The key, if there is one.
    pub fn key(&self) -> Option<u32> {
        self.optional(field::KEY_PRESENT, self.key_start())
    }

    /// The sequence number, if there is one.
    pub fn sequence(&self) -> Option<u32> {
        self.optional(field::SEQUENCE_PRESENT, self.sequence_start())
    }

    /// The bytes after the header.
    pub fn payload(&self) -> &[u8] {
        &self.as_bytes()[self.header_len()..]
    }

    /// Whether the checksum is right, or absent. The view must end where the packet does.
    pub fn is_checksum_valid(&self) -> bool {
        self.checksum().is_none() || checksum::is_valid(self.as_bytes())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    fn set_flags(&mut self, flags: u16) {
        write_u16(self.buffer.as_mut(), field::FLAGS_AND_VERSION, flags);
    }

    /// Sets what the packet carries.
    pub fn set_protocol(&mut self, protocol: EtherType) {
        write_u16(self.buffer.as_mut(), field::PROTOCOL, protocol.0);
    }

    /// Sets the key, if there is room for one.
    pub fn set_key(&mut self, key: u32) {
        if self.has(field::KEY_PRESENT) {
            let start = self.key_start();
            write_u32(self.buffer.as_mut(), start..start + OPTIONAL_LEN, key);
        }
    }

    /// Sets the sequence number, if there is room for one.
    pub fn set_sequence(&mut self, sequence: u32) {
        if self.has(field::SEQUENCE_PRESENT) {
            let start = self.sequence_start();
            write_u32(self.buffer.as_mut(), start..start + OPTIONAL_LEN, sequence);
        }
    }

    /// Computes the checksum, if there is room for one. The view must end where the packet does.
    pub fn fill_checksum(&mut self) {
        if self.has(field::CHECKSUM_PRESENT) {
            let at = field::CHECKSUM.start..field::CHECKSUM.start + OPTIONAL_LEN;
            write_u32(self.buffer.as_mut(), at, 0);
            let checksum = checksum::checksum(self.as_bytes());
            write_u16(self.buffer.as_mut(), field::CHECKSUM, checksum);
        }
    }
}

/// A GRE header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// What follows.
    pub protocol: EtherType,
    /// Whether there is a checksum over header and payload.
    pub checksum_present: bool,
    /// Key.
    pub key: Option<u32>,
    /// Sequence number.
    pub sequence: Option<u32>,
}

impl Repr {
    /// Reads a header. Reserved bits are not kept.
    ///
    /// # Errors
    /// Those of [`Packet::check_len`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, ParseError> {
        packet.check_len()?;
        Ok(Self {
            protocol: packet.protocol(),
            checksum_present: packet.checksum().is_some(),
            key: packet.key(),
            sequence: packet.sequence(),
        })
    }

    fn flags(&self) -> u16 {
        let pairs = [
            (self.checksum_present, field::CHECKSUM_PRESENT),
            (self.key.is_some(), field::KEY_PRESENT),
            (self.sequence.is_some(), field::SEQUENCE_PRESENT),
        ];
        pairs.iter().filter(|(present, _)| *present).fold(0, |all, (_, flag)| all | flag)
    }

    /// Length of the header with its optional fields in bytes.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN + OPTIONAL_LEN * self.flags().count_ones() as usize
    }

    /// Writes the header; a checksum covers what the view holds after it, so write that first or
    /// call [`Packet::fill_checksum`] later.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_flags(self.flags());
        packet.set_protocol(self.protocol);
        packet.set_key(self.key.unwrap_or_default());
        packet.set_sequence(self.sequence.unwrap_or_default());
        packet.fill_checksum();
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GRE type {}", self.protocol())?;
        if let Some(key) = self.key() {
            write!(f, " key {key:#x}")?;
        }
        if let Some(sequence) = self.sequence() {
            write!(f, " sequence {sequence}")?;
        }
        if self.checksum().is_some() {
            write!(f, " checksum")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 20] = [
        0xb0, 0x00, 0x65, 0x58, // checksum, key, sequence; an Ethernet frame
        0xd6, 0xf3, 0x00, 0x00, // checksum
        0x12, 0x34, 0x56, 0x78, // key
        0x00, 0x00, 0x00, 0x07, // sequence
        0xaa, 0x00, 0x00, 0xff, // payload
    ];

    fn repr() -> Repr {
        Repr {
            protocol: EtherType::ETHERNET,
            checksum_present: true,
            key: Some(0x1234_5678),
            sequence: Some(7),
        }
    }

    #[test]
    fn test_deconstruct() {
        let packet = Packet::new_checked(BYTES).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(repr()));
        assert!(packet.is_checksum_valid());
        assert_eq!(packet.payload(), [0xaa, 0x00, 0x00, 0xff]);
        assert_eq!(packet.to_string(), "GRE type 0x6558 key 0x12345678 sequence 7 checksum");
    }

    #[test]
    fn test_construct() {
        let mut bytes = [0x5a; 20];
        bytes[16..].copy_from_slice(&BYTES[16..]);
        repr().emit(&mut Packet::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn test_every_combination_of_fields() {
        for bits in 0..8u32 {
            let repr = Repr {
                protocol: EtherType::IPV6,
                checksum_present: bits & 1 != 0,
                key: (bits & 2 != 0).then_some(0xdead_beef),
                sequence: (bits & 4 != 0).then_some(0xfeed_face),
            };
            let mut bytes = vec![0x5a; repr.buffer_len()];
            repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
            let packet = Packet::new_checked(&bytes[..]).unwrap();
            assert_eq!(Repr::parse(&packet), Ok(repr));
            assert!(packet.is_checksum_valid());
            assert_eq!(packet.header_len(), 4 + 4 * bits.count_ones() as usize);
        }
    }

    #[test]
    fn test_version_and_routing_refused() {
        for (at, bit) in [(0, 0x40), (1, 0x01)] {
            let mut bytes = BYTES;
            bytes[at] |= bit;
            assert!(matches!(Packet::new_checked(bytes), Err(ParseError::Field { .. })));
        }
    }

    #[test]
    fn test_truncated() {
        crate::testing::every_truncation(&BYTES, 16, |b| {
            Packet::new_checked(b).map(|p| (p.to_string(), p.payload().len()))
        });
    }
}
