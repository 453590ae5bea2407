//! The fixed IPv6 header (RFC 8200 §3).
//!
//! A payload length of 0 is taken as it stands: jumbograms (RFC 2675) are not supported.

use std::fmt;
use std::net::Ipv6Addr;

use super::IpProtocol;
use super::bytes::{read_array, read_u16, read_u32, view, write_u16, write_u32};
use crate::checksum;
use crate::error::{LayerKind, ParseError, check_fits};

view! {
    /// A view of an IPv6 packet.
    Packet
}

mod field {
    use crate::wire::bytes::FieldRange;

    pub const VERSION_CLASS_LABEL: FieldRange = 0..4;
    pub const PAYLOAD_LEN: FieldRange = 4..6;
    pub const NEXT_HEADER: usize = 6;
    pub const HOP_LIMIT: usize = 7;
    pub const SRC: FieldRange = 8..24;
    pub const DST: FieldRange = 24..40;
}

/// Length of the header in bytes.
pub const HEADER_LEN: usize = field::DST.end;

/// Longest payload in bytes, extension headers included.
pub const PAYLOAD_LEN_MAX: usize = u16::MAX as usize;

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks the header, not that all of the payload is there.
    ///
    /// # Errors
    /// Fewer than [`HEADER_LEN`] bytes; a version other than 6.
    pub fn check_len(&self) -> Result<(), ParseError> {
        check_fits(LayerKind::Ipv6, HEADER_LEN, self.as_bytes().len())?;
        if self.version() != 6 {
            return Err(ParseError::Field {
                layer: LayerKind::Ipv6,
                field: "version",
                value: self.version().into(),
                allowed: "6",
            });
        }
        Ok(())
    }

    /// Checks that the whole packet is there.
    ///
    /// # Errors
    /// Those of [`Packet::check_len`]; fewer bytes than the payload length says.
    pub fn check_whole(&self) -> Result<(), ParseError> {
        self.check_len()?;
        check_fits(LayerKind::Ipv6, HEADER_LEN + self.payload_len(), self.as_bytes().len())
    }

    fn first_word(&self) -> u32 {
        read_u32(self.as_bytes(), field::VERSION_CLASS_LABEL)
    }

    /// Version, 6.
    pub fn version(&self) -> u8 {
        (self.first_word() >> 28) as u8
    }

    /// Traffic class: code point and congestion notification, 8 bits.
    pub fn traffic_class(&self) -> u8 {
        (self.first_word() >> 20) as u8
    }

    /// Flow label, 20 bits (RFC 6437).
    pub fn flow_label(&self) -> u32 {
        self.first_word() & 0x000f_ffff
    }

    /// Bytes after this header, extension headers included, as stated.
    pub fn payload_len(&self) -> usize {
        read_u16(self.as_bytes(), field::PAYLOAD_LEN).into()
    }

    /// What follows: an extension header or what the packet carries.
    pub fn next_header(&self) -> IpProtocol {
        IpProtocol(self.as_bytes()[field::NEXT_HEADER])
    }

    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.as_bytes()[field::HOP_LIMIT]
    }

    /// Sender.
    pub fn src(&self) -> Ipv6Addr {
        read_array(self.as_bytes(), field::SRC).into()
    }

    /// Receiver.
    pub fn dst(&self) -> Ipv6Addr {
        read_array(self.as_bytes(), field::DST).into()
    }

    fn end(&self) -> usize {
        (HEADER_LEN + self.payload_len()).min(self.as_bytes().len())
    }

    /// The payload with its extension headers, as much of it as is there.
    pub fn payload(&self) -> &[u8] {
        &self.as_bytes()[HEADER_LEN..self.end()]
    }

    /// Partial of the pseudo header for an upper-layer header and payload of `len` bytes.
    pub fn pseudo(&self, protocol: IpProtocol, len: usize) -> u64 {
        checksum::pseudo_ipv6(self.src(), self.dst(), protocol, len as u32)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets version 6, the traffic class and the flow label (low 20 bits).
    pub fn set_class_and_label(&mut self, traffic_class: u8, flow_label: u32) {
        let word = 6 << 28 | u32::from(traffic_class) << 20 | flow_label & 0x000f_ffff;
        write_u32(self.buffer.as_mut(), field::VERSION_CLASS_LABEL, word);
    }

    /// Sets the number of bytes after this header.
    pub fn set_payload_len(&mut self, len: u16) {
        write_u16(self.buffer.as_mut(), field::PAYLOAD_LEN, len);
    }

    /// Sets what follows.
    pub fn set_next_header(&mut self, next: IpProtocol) {
        self.buffer.as_mut()[field::NEXT_HEADER] = next.0;
    }

    /// Sets the hop limit.
    pub fn set_hop_limit(&mut self, hops: u8) {
        self.buffer.as_mut()[field::HOP_LIMIT] = hops;
    }

    /// Sets the sender.
    pub fn set_src(&mut self, address: Ipv6Addr) {
        self.buffer.as_mut()[field::SRC].copy_from_slice(&address.octets());
    }

    /// Sets the receiver.
    pub fn set_dst(&mut self, address: Ipv6Addr) {
        self.buffer.as_mut()[field::DST].copy_from_slice(&address.octets());
    }

    /// The payload, to change.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = self.end();
        &mut self.buffer.as_mut()[HEADER_LEN..end]
    }
}

/// An IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Sender.
    pub src: Ipv6Addr,
    /// Receiver.
    pub dst: Ipv6Addr,
    /// What follows.
    pub next_header: IpProtocol,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class, 8 bits.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

impl Default for Repr {
    fn default() -> Self {
        Self {
            src: Ipv6Addr::UNSPECIFIED,
            dst: Ipv6Addr::UNSPECIFIED,
            next_header: IpProtocol::NONE,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        }
    }
}

impl Repr {
    /// Reads a header.
    ///
    /// # Errors
    /// Those of [`Packet::check_len`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, ParseError> {
        packet.check_len()?;
        Ok(Self {
            src: packet.src(),
            dst: packet.dst(),
            next_header: packet.next_header(),
            hop_limit: packet.hop_limit(),
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
        })
    }

    /// Length of the header in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header for `payload_len` bytes of extension headers and payload, at most
    /// [`PAYLOAD_LEN_MAX`].
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>, payload_len: usize) {
        packet.set_class_and_label(self.traffic_class, self.flow_label);
        packet.set_payload_len(payload_len as u16);
        packet.set_next_header(self.next_header);
        packet.set_hop_limit(self.hop_limit);
        packet.set_src(self.src);
        packet.set_dst(self.dst);
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPv6 {} > {} next {}", self.src(), self.dst(), self.next_header())?;
        write!(f, " hops {} label {:#x}", self.hop_limit(), self.flow_label())?;
        write!(f, " length {}", self.payload_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 44] = [
        0x6a, 0xb1, 0x23, 0x45, // version 6, class 0xab, label 0x12345
        0x00, 0x04, 0x11, 0x40, // payload length 4, UDP, 64 hops
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, // sender
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, // receiver
        0x01, 0x02, 0x03, 0x04, // payload
    ];

    fn repr() -> Repr {
        Repr {
            src: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
            dst: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
            next_header: IpProtocol::UDP,
            hop_limit: 64,
            traffic_class: 0xab,
            flow_label: 0x12345,
        }
    }

    #[test]
    fn test_deconstruct() {
        let packet = Packet::new_checked(BYTES).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(repr()));
        assert_eq!(packet.payload(), [1, 2, 3, 4]);
        assert_eq!(
            packet.to_string(),
            "IPv6 2001:db8::1 > 2001:db8::2 next UDP hops 64 label 0x12345 length 4"
        );
    }

    #[test]
    fn test_construct() {
        let mut bytes = [0x5a; 44];
        let mut packet = Packet::new_unchecked(&mut bytes[..]);
        repr().emit(&mut packet, 4);
        packet.payload_mut().copy_from_slice(&[1, 2, 3, 4]);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn test_version_refused() {
        let mut bytes = BYTES;
        bytes[0] = 0x4a;
        assert!(matches!(Packet::new_checked(bytes), Err(ParseError::Field { value: 4, .. })));
    }

    #[test]
    fn test_truncated() {
        crate::testing::every_truncation(&BYTES, HEADER_LEN, |b| {
            Packet::new_checked(b).map(|p| (p.to_string(), p.payload().len()))
        });
        crate::testing::every_truncation(&BYTES, BYTES.len(), |b| {
            Packet::new_unchecked(b).check_whole()
        });
    }
}
