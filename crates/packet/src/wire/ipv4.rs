//! IPv4 (RFC 791) with options.

use std::fmt;
use std::net::Ipv4Addr;

use super::bytes::{read_array, read_u16, view, write_u16};
use super::{IpProtocol, OptionBytes};
use crate::checksum;
use crate::error::{LayerKind, ParseError, check_fits};
use crate::limits::OPTIONS_LEN_MAX;

view! {
    /// A view of an IPv4 packet.
    Packet
}

mod field {
    use crate::wire::bytes::FieldRange;

    pub const VERSION_AND_WORDS: usize = 0;
    pub const DSCP_AND_ECN: usize = 1;
    pub const TOTAL_LEN: FieldRange = 2..4;
    pub const IDENTIFICATION: FieldRange = 4..6;
    pub const FRAGMENT: FieldRange = 6..8;
    pub const TTL: usize = 8;
    pub const PROTOCOL: usize = 9;
    pub const CHECKSUM: FieldRange = 10..12;
    pub const SRC: FieldRange = 12..16;
    pub const DST: FieldRange = 16..20;

    /// Masks within FRAGMENT.
    pub const DONT_FRAGMENT: u16 = 0x4000;
    pub const MORE_FRAGMENTS: u16 = 0x2000;
    pub const OFFSET: u16 = 0x1fff;
}

/// Length of the header without options in bytes.
pub const HEADER_LEN: usize = field::DST.end;

/// Longest packet in bytes.
pub const TOTAL_LEN_MAX: usize = u16::MAX as usize;

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks the header and its options, not that all of the payload is there.
    ///
    /// # Errors
    /// Bytes that end in the header; a version other than 4; a header length below 20; a total
    /// length below the header's.
    pub fn check_len(&self) -> Result<(), ParseError> {
        let available_len = self.as_bytes().len();
        check_fits(LayerKind::Ipv4, HEADER_LEN, available_len)?;
        let refuse = |field, value: usize, allowed| {
            let value = value as u32;
            Err(ParseError::Field { layer: LayerKind::Ipv4, field, value, allowed })
        };
        if self.version() != 4 {
            return refuse("version", self.version().into(), "4");
        }
        if self.header_len() < HEADER_LEN {
            return refuse("header_len", self.header_len(), "20 or more");
        }
        check_fits(LayerKind::Ipv4, self.header_len(), available_len)?;
        if self.total_len() < self.header_len() {
            return refuse("total_len", self.total_len(), "header_len or more");
        }
        Ok(())
    }

    /// Checks that the whole packet is there.
    ///
    /// # Errors
    /// Those of [`Packet::check_len`]; fewer bytes than the total length says.
    pub fn check_whole(&self) -> Result<(), ParseError> {
        self.check_len()?;
        check_fits(LayerKind::Ipv4, self.total_len(), self.as_bytes().len())
    }

    /// Version, 4.
    pub fn version(&self) -> u8 {
        self.as_bytes()[field::VERSION_AND_WORDS] >> 4
    }

    /// Length of header and options in bytes, `20..=60`.
    pub fn header_len(&self) -> usize {
        usize::from(self.as_bytes()[field::VERSION_AND_WORDS] & 0x0f) * 4
    }

    /// Differentiated services code point, 6 bits (RFC 2474).
    pub fn dscp(&self) -> u8 {
        self.as_bytes()[field::DSCP_AND_ECN] >> 2
    }

    /// Explicit congestion notification, 2 bits (RFC 3168).
    pub fn ecn(&self) -> u8 {
        self.as_bytes()[field::DSCP_AND_ECN] & 0x03
    }

    /// Header and payload in bytes, as stated.
    pub fn total_len(&self) -> usize {
        read_u16(self.as_bytes(), field::TOTAL_LEN).into()
    }

    /// Identification.
    pub fn identification(&self) -> u16 {
        read_u16(self.as_bytes(), field::IDENTIFICATION)
    }

    fn fragment(&self) -> u16 {
        read_u16(self.as_bytes(), field::FRAGMENT)
    }

    /// Don't-fragment flag.
    pub fn dont_fragment(&self) -> bool {
        self.fragment() & field::DONT_FRAGMENT != 0
    }

    /// More-fragments flag.
    pub fn more_fragments(&self) -> bool {
        self.fragment() & field::MORE_FRAGMENTS != 0
    }

    /// Offset of the fragment in bytes, a multiple of 8.
    pub fn fragment_offset(&self) -> u16 {
        (self.fragment() & field::OFFSET) << 3
    }

    /// Whether this is a fragment, the first one included.
    pub fn is_fragment(&self) -> bool {
        self.fragment() & (field::MORE_FRAGMENTS | field::OFFSET) != 0
    }

    /// Time to live in hops.
    pub fn ttl(&self) -> u8 {
        self.as_bytes()[field::TTL]
    }

    /// What the packet carries.
    pub fn protocol(&self) -> IpProtocol {
        IpProtocol(self.as_bytes()[field::PROTOCOL])
    }

    /// The header checksum field.
    pub fn checksum(&self) -> u16 {
        read_u16(self.as_bytes(), field::CHECKSUM)
    }

    /// Sender.
    pub fn src(&self) -> Ipv4Addr {
        read_array(self.as_bytes(), field::SRC).into()
    }

    /// Receiver.
    pub fn dst(&self) -> Ipv4Addr {
        read_array(self.as_bytes(), field::DST).into()
    }

    /// The option area, empty or a multiple of 4 bytes.
    pub fn options(&self) -> &[u8] {
        &self.as_bytes()[HEADER_LEN..self.header_len()]
    }

    fn end(&self) -> usize {
        self.total_len().min(self.as_bytes().len())
    }

    /// The payload, as much of it as is there; trailing padding is not part of it.
    pub fn payload(&self) -> &[u8] {
        &self.as_bytes()[self.header_len()..self.end()]
    }

    /// Whether the header checksum is right.
    pub fn is_checksum_valid(&self) -> bool {
        checksum::is_valid(&self.as_bytes()[..self.header_len()])
    }

    /// Partial of the pseudo header for a transport header and payload of `len` bytes.
    pub fn pseudo(&self, protocol: IpProtocol, len: usize) -> u64 {
        checksum::pseudo_ipv4(self.src(), self.dst(), protocol, len as u16)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets version 4 and the length of header and options in bytes, `20..=60`, a multiple of 4.
    pub fn set_header_len(&mut self, len: usize) {
        self.buffer.as_mut()[field::VERSION_AND_WORDS] = 0x40 | (len / 4) as u8 & 0x0f;
    }

    /// Sets the code point (low 6 bits) and congestion notification (low 2 bits).
    pub fn set_dscp_and_ecn(&mut self, dscp: u8, ecn: u8) {
        self.buffer.as_mut()[field::DSCP_AND_ECN] = (dscp << 2) | (ecn & 0x03);
    }

    /// Sets the length of header and payload in bytes.
    pub fn set_total_len(&mut self, len: u16) {
        write_u16(self.buffer.as_mut(), field::TOTAL_LEN, len);
    }

    /// Sets the identification.
    pub fn set_identification(&mut self, identification: u16) {
        write_u16(self.buffer.as_mut(), field::IDENTIFICATION, identification);
    }

    /// Sets flags and offset; the offset is in bytes, its low 3 bits are dropped.
    pub fn set_fragment(&mut self, dont: bool, more: bool, offset: u16) {
        let flags = u16::from(dont) << 14 | u16::from(more) << 13;
        write_u16(self.buffer.as_mut(), field::FRAGMENT, flags | offset >> 3);
    }

    /// Sets the time to live.
    pub fn set_ttl(&mut self, ttl: u8) {
        self.buffer.as_mut()[field::TTL] = ttl;
    }

    /// Sets what the packet carries.
    pub fn set_protocol(&mut self, protocol: IpProtocol) {
        self.buffer.as_mut()[field::PROTOCOL] = protocol.0;
    }

    /// Sets the header checksum field.
    pub fn set_checksum(&mut self, checksum: u16) {
        write_u16(self.buffer.as_mut(), field::CHECKSUM, checksum);
    }

    /// Sets the sender.
    pub fn set_src(&mut self, address: Ipv4Addr) {
        self.buffer.as_mut()[field::SRC].copy_from_slice(&address.octets());
    }

    /// Sets the receiver.
    pub fn set_dst(&mut self, address: Ipv4Addr) {
        self.buffer.as_mut()[field::DST].copy_from_slice(&address.octets());
    }

    /// The option area, to change.
    pub fn options_mut(&mut self) -> &mut [u8] {
        let len = self.header_len();
        &mut self.buffer.as_mut()[HEADER_LEN..len]
    }

    /// The payload, to change.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let (start, end) = (self.header_len(), self.end());
        &mut self.buffer.as_mut()[start..end]
    }

    /// Computes the header checksum.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let len = self.header_len();
        self.set_checksum(checksum::checksum(&self.as_bytes()[..len]));
    }
}

/// An IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Sender.
    pub src: Ipv4Addr,
    /// Receiver.
    pub dst: Ipv4Addr,
    /// What follows.
    pub protocol: IpProtocol,
    /// Time to live in hops.
    pub ttl: u8,
    /// Differentiated services code point, 6 bits.
    pub dscp: u8,
    /// Explicit congestion notification, 2 bits.
    pub ecn: u8,
    /// Identification.
    pub identification: u16,
    /// Don't-fragment flag.
    pub dont_fragment: bool,
    /// More-fragments flag.
    pub more_fragments: bool,
    /// Offset of the fragment in bytes, a multiple of 8 up to 65,528.
    pub fragment_offset: u16,
    /// Options.
    pub options: OptionBytes<OPTIONS_LEN_MAX>,
}

impl Default for Repr {
    fn default() -> Self {
        Self {
            src: Ipv4Addr::UNSPECIFIED,
            dst: Ipv4Addr::UNSPECIFIED,
            protocol: IpProtocol(253), // "use for experimentation", RFC 3692
            ttl: 64,
            dscp: 0,
            ecn: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            options: OptionBytes::EMPTY,
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
            protocol: packet.protocol(),
            ttl: packet.ttl(),
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            identification: packet.identification(),
            dont_fragment: packet.dont_fragment(),
            more_fragments: packet.more_fragments(),
            fragment_offset: packet.fragment_offset(),
            options: OptionBytes::new(packet.options()).unwrap_or_default(), // never over 40
        })
    }

    /// Length of header and options in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header for a payload of `payload_len` bytes, header checksum included. Header
    /// and payload may be [`TOTAL_LEN_MAX`] bytes.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>, payload_len: usize) {
        packet.set_header_len(self.buffer_len());
        packet.set_dscp_and_ecn(self.dscp, self.ecn);
        packet.set_total_len((self.buffer_len() + payload_len) as u16);
        packet.set_identification(self.identification);
        packet.set_fragment(self.dont_fragment, self.more_fragments, self.fragment_offset);
        packet.set_ttl(self.ttl);
        packet.set_protocol(self.protocol);
        packet.set_src(self.src);
        packet.set_dst(self.dst);
        packet.options_mut().copy_from_slice(self.options.as_slice());
        packet.fill_checksum();
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPv4 {} > {} protocol {}", self.src(), self.dst(), self.protocol())?;
        write!(f, " ttl {} length {}", self.ttl(), self.total_len())?;
        if self.is_fragment() {
            let more = if self.more_fragments() { "+" } else { "" };
            write!(f, " fragment {}@{}{more}", self.identification(), self.fragment_offset())?;
        }
        if !self.options().is_empty() {
            write!(f, " options {:02x?}", self.options())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field set, and a router alert option (RFC 2113).
    const BYTES: [u8; 34] = [
        0x46, 0x2e, 0x00, 0x22, // version 4, 6 words; DSCP 11, ECN 2; total length 34
        0x01, 0x02, 0x62, 0x03, // identification 0x102; DF and MF; offset 4120
        0x1a, 0x01, 0x40, 0x38, // ttl 26, ICMP, checksum
        0x11, 0x12, 0x13, 0x14, // sender
        0x21, 0x22, 0x23, 0x24, // receiver
        0x94, 0x04, 0x00, 0x00, // router alert
        0xaa, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, // payload
    ];

    fn repr() -> Repr {
        Repr {
            src: [17, 18, 19, 20].into(),
            dst: [33, 34, 35, 36].into(),
            protocol: IpProtocol::ICMP,
            ttl: 26,
            dscp: 11,
            ecn: 2,
            identification: 0x102,
            dont_fragment: true,
            more_fragments: true,
            fragment_offset: 0x203 * 8,
            options: OptionBytes::new(&[0x94, 0x04, 0x00, 0x00]).unwrap(),
        }
    }

    #[test]
    fn test_deconstruct() {
        let packet = Packet::new_checked(BYTES).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(repr()));
        assert!(packet.is_checksum_valid() && packet.is_fragment());
        assert_eq!(packet.payload(), &BYTES[24..]);
        assert_eq!(
            packet.to_string(),
            "IPv4 17.18.19.20 > 33.34.35.36 protocol ICMP ttl 26 length 34 \
             fragment 258@4120+ options [94, 04, 00, 00]"
        );
    }

    #[test]
    fn test_construct() {
        let mut bytes = [0x5a; 34];
        let mut packet = Packet::new_unchecked(&mut bytes[..]);
        repr().emit(&mut packet, 10);
        packet.payload_mut().copy_from_slice(&BYTES[24..]);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn test_padding_is_not_payload() {
        let mut longer = BYTES.to_vec();
        longer.extend([0; 12]);
        assert_eq!(Packet::new_checked(longer).unwrap().payload().len(), 10);
    }

    #[test]
    fn test_fields_refused() {
        for (at, value) in [(0, 0x66), (0, 0x44), (3, 23)] {
            let mut bytes = BYTES;
            bytes[at] = value;
            let error = Packet::new_checked(bytes).unwrap_err();
            assert!(matches!(error, ParseError::Field { .. }), "{error}");
        }
    }

    #[test]
    fn test_truncated() {
        crate::testing::every_truncation(&BYTES, 24, |b| {
            Packet::new_checked(b).map(|p| (p.to_string(), p.payload().len()))
        });
        crate::testing::every_truncation(&BYTES, BYTES.len(), |b| {
            Packet::new_unchecked(b).check_whole()
        });
    }
}
