//! Small types many headers share: addresses, type numbers, option areas.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::error::OptionsTooLong;

/// A 48-bit Ethernet address. Text form: `02:00:00:00:00:01`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// All stations: `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether it names a group of stations (IEEE 802: lowest bit of the first byte).
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// A locally administered unicast address that ends in `index`.
    pub const fn local(index: u32) -> Self {
        let i = index.to_be_bytes();
        Self([0x02, 0, i[0], i[1], i[2], i[3]])
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Text that is not an Ethernet address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is not an Ethernet address: write six hexadecimal bytes, 02:00:00:00:00:01")]
pub struct MacAddressError {
    /// What was given.
    pub text: String,
}

impl FromStr for MacAddress {
    type Err = MacAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || MacAddressError { text: text.into() };
        let mut address = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut address {
            let part = parts.next().filter(|p| p.len() <= 2).ok_or_else(error)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| error())?;
        }
        if parts.next().is_some() { Err(error()) } else { Ok(Self(address)) }
    }
}

impl TryFrom<String> for MacAddress {
    type Error = MacAddressError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<MacAddress> for String {
    fn from(address: MacAddress) -> Self {
        address.to_string()
    }
}

/// What an Ethernet frame, a VLAN tag or a GRE header carries (IANA "IEEE 802 numbers").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// Address resolution.
    pub const ARP: Self = Self(0x0806);
    /// Transparent Ethernet bridging: an Ethernet frame inside a tunnel.
    pub const ETHERNET: Self = Self(0x6558);
    /// Customer VLAN tag (802.1Q).
    pub const VLAN: Self = Self(0x8100);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// MPLS label stack.
    pub const MPLS: Self = Self(0x8847);
    /// MPLS label stack, upstream-assigned label (RFC 5332).
    pub const MPLS_UPSTREAM: Self = Self(0x8848);
    /// Service VLAN tag (802.1ad, "QinQ").
    pub const VLAN_SERVICE: Self = Self(0x88a8);
    /// Outer VLAN tag of older bridges, before 802.1ad.
    pub const VLAN_OLD: Self = Self(0x9100);
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// What an IP header carries (IANA "Protocol Numbers").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IpProtocol(pub u8);

impl IpProtocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: Self = Self(0);
    /// ICMP.
    pub const ICMP: Self = Self(1);
    /// IPv4 in IP.
    pub const IPV4: Self = Self(4);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// IPv6 in IP.
    pub const IPV6: Self = Self(41);
    /// IPv6 routing header.
    pub const ROUTING: Self = Self(43);
    /// IPv6 fragment header.
    pub const FRAGMENT: Self = Self(44);
    /// GRE.
    pub const GRE: Self = Self(47);
    /// Authentication header.
    pub const AUTH: Self = Self(51);
    /// ICMPv6.
    pub const ICMPV6: Self = Self(58);
    /// Nothing follows (RFC 8200 §4.7).
    pub const NONE: Self = Self(59);
    /// IPv6 destination options.
    pub const DESTINATION: Self = Self(60);
    /// MPLS in IP (RFC 4023).
    pub const MPLS: Self = Self(137);
}

impl fmt::Display for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ICMP => f.write_str("ICMP"),
            Self::TCP => f.write_str("TCP"),
            Self::UDP => f.write_str("UDP"),
            Self::GRE => f.write_str("GRE"),
            Self::ICMPV6 => f.write_str("ICMPv6"),
            Self(other) => write!(f, "{other}"),
        }
    }
}

/// The option area of a header: up to `N` bytes, a multiple of 4, kept in place.
#[derive(Clone, Copy)]
pub struct OptionBytes<const N: usize> {
    bytes: [u8; N],
    len: u8,
}

impl<const N: usize> OptionBytes<N> {
    /// No options.
    pub const EMPTY: Self = Self { bytes: [0; N], len: 0 };

    /// A copy of `bytes`, filled up with zeros (end of list) to a multiple of 4.
    ///
    /// # Errors
    /// More than `N` bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, OptionsTooLong> {
        let len = bytes.len().next_multiple_of(4);
        if len > N {
            return Err(OptionsTooLong { len: bytes.len(), len_max: N });
        }
        let mut area = Self::EMPTY;
        area.bytes[..bytes.len()].copy_from_slice(bytes);
        area.len = len as u8;
        Ok(area)
    }

    /// The bytes in use.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// Bytes in use, a multiple of 4.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<const N: usize> Default for OptionBytes<N> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<const N: usize> fmt::Debug for OptionBytes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OptionBytes({:02x?})", self.as_slice())
    }
}

impl<const N: usize> PartialEq for OptionBytes<N> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<const N: usize> Eq for OptionBytes<N> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_text_round_trip() {
        let address = MacAddress::local(0x0102_0304);
        assert_eq!(address.to_string(), "02:00:01:02:03:04");
        assert_eq!("02:00:01:02:03:04".parse(), Ok(address));
        assert!(!address.is_multicast() && MacAddress::BROADCAST.is_multicast());
    }

    #[test]
    fn mac_text_refused() {
        for text in ["", "02", "02:00:01:02:03", "02:00:01:02:03:04:05", "002:0:0:0:0:0", "g:::::"]
        {
            assert!(text.parse::<MacAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn options_are_padded_and_bounded() {
        let area = OptionBytes::<8>::new(&[1, 2, 3]).unwrap();
        assert_eq!(area.as_slice(), [1, 2, 3, 0]);
        assert_eq!(OptionBytes::<8>::new(&[0; 9]), Err(OptionsTooLong { len: 9, len_max: 8 }));
    }
}
