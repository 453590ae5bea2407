//! Address resolution for IPv4 over Ethernet (RFC 826).

use std::fmt;
use std::net::Ipv4Addr;

use super::bytes::{read_array, read_u16, view, write_u16};
use super::{EtherType, MacAddress};
use crate::error::{LayerKind, ParseError, check_fits};

view! {
    /// A view of an ARP packet for IPv4 over Ethernet.
    Packet
}

mod field {
    use crate::wire::bytes::FieldRange;

    pub const HARDWARE_TYPE: FieldRange = 0..2;
    pub const PROTOCOL_TYPE: FieldRange = 2..4;
    pub const HARDWARE_LEN: usize = 4;
    pub const PROTOCOL_LEN: usize = 5;
    pub const OPERATION: FieldRange = 6..8;
    pub const SRC_MAC: FieldRange = 8..14;
    pub const SRC_IP: FieldRange = 14..18;
    pub const DST_MAC: FieldRange = 18..24;
    pub const DST_IP: FieldRange = 24..28;
}

/// Length of the packet in bytes.
pub const HEADER_LEN: usize = field::DST_IP.end;

/// Operation of a request.
pub const REQUEST: u16 = 1;
/// Operation of a reply.
pub const REPLY: u16 = 2;

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks that the packet is there, and that it is about IPv4 over Ethernet.
    ///
    /// # Errors
    /// Fewer than [`HEADER_LEN`] bytes; other kinds or lengths of addresses.
    pub fn check_len(&self) -> Result<(), ParseError> {
        let bytes = self.as_bytes();
        check_fits(LayerKind::Arp, HEADER_LEN, bytes.len())?;
        let checks = [
            ("hardware_type", read_u16(bytes, field::HARDWARE_TYPE), 1, "1 (Ethernet)"),
            ("protocol_type", read_u16(bytes, field::PROTOCOL_TYPE), 0x800, "0x800 (IPv4)"),
            ("hardware_len", bytes[field::HARDWARE_LEN].into(), 6, "6"),
            ("protocol_len", bytes[field::PROTOCOL_LEN].into(), 4, "4"),
        ];
        for (field, value, expected, allowed) in checks {
            if value != expected {
                let value = value.into();
                return Err(ParseError::Field { layer: LayerKind::Arp, field, value, allowed });
            }
        }
        Ok(())
    }

    /// [`REQUEST`], [`REPLY`] or another operation.
    pub fn operation(&self) -> u16 {
        read_u16(self.as_bytes(), field::OPERATION)
    }

    /// Ethernet address of the sender.
    pub fn src_mac(&self) -> MacAddress {
        MacAddress(read_array(self.as_bytes(), field::SRC_MAC))
    }

    /// IPv4 address of the sender.
    pub fn src_ip(&self) -> Ipv4Addr {
        read_array(self.as_bytes(), field::SRC_IP).into()
    }

    /// Ethernet address of the target.
    pub fn dst_mac(&self) -> MacAddress {
        MacAddress(read_array(self.as_bytes(), field::DST_MAC))
    }

    /// IPv4 address of the target.
    pub fn dst_ip(&self) -> Ipv4Addr {
        read_array(self.as_bytes(), field::DST_IP).into()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Writes the constant head: IPv4 over Ethernet.
    pub fn set_head(&mut self) {
        let bytes = self.buffer.as_mut();
        write_u16(bytes, field::HARDWARE_TYPE, 1);
        write_u16(bytes, field::PROTOCOL_TYPE, EtherType::IPV4.0);
        bytes[field::HARDWARE_LEN] = 6;
        bytes[field::PROTOCOL_LEN] = 4;
    }

    /// Sets the operation.
    pub fn set_operation(&mut self, operation: u16) {
        write_u16(self.buffer.as_mut(), field::OPERATION, operation);
    }

    /// Sets both addresses of the sender.
    pub fn set_src(&mut self, mac: MacAddress, ip: Ipv4Addr) {
        let bytes = self.buffer.as_mut();
        bytes[field::SRC_MAC].copy_from_slice(&mac.0);
        bytes[field::SRC_IP].copy_from_slice(&ip.octets());
    }

    /// Sets both addresses of the target.
    pub fn set_dst(&mut self, mac: MacAddress, ip: Ipv4Addr) {
        let bytes = self.buffer.as_mut();
        bytes[field::DST_MAC].copy_from_slice(&mac.0);
        bytes[field::DST_IP].copy_from_slice(&ip.octets());
    }
}

/// An ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// [`REQUEST`], [`REPLY`] or another operation.
    pub operation: u16,
    /// Ethernet address of the sender.
    pub src_mac: MacAddress,
    /// IPv4 address of the sender.
    pub src_ip: Ipv4Addr,
    /// Ethernet address of the target, zeros in a request.
    pub dst_mac: MacAddress,
    /// IPv4 address of the target.
    pub dst_ip: Ipv4Addr,
}

impl Repr {
    /// Reads a packet.
    ///
    /// # Errors
    /// Those of [`Packet::check_len`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, ParseError> {
        packet.check_len()?;
        Ok(Self {
            operation: packet.operation(),
            src_mac: packet.src_mac(),
            src_ip: packet.src_ip(),
            dst_mac: packet.dst_mac(),
            dst_ip: packet.dst_ip(),
        })
    }

    /// Length of the packet in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the packet.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_head();
        packet.set_operation(self.operation);
        packet.set_src(self.src_mac, self.src_ip);
        packet.set_dst(self.dst_mac, self.dst_ip);
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation() {
            REQUEST => write!(f, "ARP request")?,
            REPLY => write!(f, "ARP reply")?,
            other => write!(f, "ARP operation {other}")?,
        }
        let (src, dst) = ((self.src_ip(), self.src_mac()), (self.dst_ip(), self.dst_mac()));
        write!(f, " {} ({}) > {} ({})", src.0, src.1, dst.0, dst.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 28] = [
        0x00, 0x01, 0x08, 0x00, 0x06, 0x04, // IPv4 over Ethernet
        0x00, 0x01, // request
        0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x0a, 0x00, 0x00, 0x01, // sender
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x00, 0x00, 0x02, // target
    ];

    fn repr() -> Repr {
        Repr {
            operation: REQUEST,
            src_mac: MacAddress::local(1),
            src_ip: [10, 0, 0, 1].into(),
            dst_mac: MacAddress::default(),
            dst_ip: [10, 0, 0, 2].into(),
        }
    }

    #[test]
    fn test_deconstruct() {
        let packet = Packet::new_checked(BYTES).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(repr()));
        assert_eq!(
            packet.to_string(),
            "ARP request 10.0.0.1 (02:00:00:00:00:01) > 10.0.0.2 (00:00:00:00:00:00)"
        );
    }

    #[test]
    fn test_construct() {
        let mut bytes = [0x5a; 28];
        repr().emit(&mut Packet::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn test_other_addresses_refused() {
        for at in 0..6 {
            let mut bytes = BYTES;
            bytes[at] ^= 0x40;
            let error = Packet::new_checked(bytes).unwrap_err();
            assert!(matches!(error, ParseError::Field { .. }), "{error}");
        }
    }

    #[test]
    fn test_truncated() {
        crate::testing::every_truncation(&BYTES, HEADER_LEN, |b| {
            Packet::new_checked(b).map(|packet| packet.to_string())
        });
    }
}
