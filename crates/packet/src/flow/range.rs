//! Ranges of addresses and ports, and their text.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Text that is not a range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RangeError {
    /// Not an address range.
    #[error("`{text}` is not an address range: write 10.0.0.0/8, 10.0.0.1-10.0.0.99 or 10.0.0.1")]
    Address {
        /// What was given.
        text: String,
    },
    /// A prefix with bits set beyond its length.
    #[error("`{text}` has bits beyond its prefix: write {prefix} or a range")]
    HostBits {
        /// What was given.
        text: String,
        /// The prefix of that length.
        prefix: String,
    },
    /// First after last.
    #[error("`{text}` runs backwards: write the smaller end first")]
    Order {
        /// What was given.
        text: String,
    },
    /// Not a port range.
    #[error("`{text}` is not a port range: write 1024-65535 or 80")]
    Port {
        /// What was given.
        text: String,
    },
}

/// Addresses from first to last, both included, of one IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressRange {
    first: IpAddr,
    last: IpAddr,
}

/// Slots of an address range wider than this are blocks of addresses.
const SLOTS_MAX: u128 = 1 << 47;

impl AddressRange {
    /// Addresses from `first` to `last`, both included.
    ///
    /// # Errors
    /// Two versions; first after last.
    pub fn new(first: IpAddr, last: IpAddr) -> Result<Self, RangeError> {
        let text = || format!("{first}-{last}");
        if first.is_ipv4() != last.is_ipv4() {
            return Err(RangeError::Address { text: text() });
        }
        if first > last {
            return Err(RangeError::Order { text: text() });
        }
        Ok(Self { first, last })
    }

    /// All addresses of a prefix; bits of `address` beyond `len` are ignored, and `len` is cut to
    /// the address's.
    pub fn prefix(address: IpAddr, len: u8) -> Self {
        let (bits, width) = to_bits(address);
        let host = width.saturating_sub(len.into());
        let mask = if host == 128 { u128::MAX } else { (1 << host) - 1 };
        let of = |bits| from_bits(bits, address.is_ipv4());
        Self { first: of(bits & !mask), last: of(bits | mask) }
    }

    /// First address.
    pub const fn first(&self) -> IpAddr {
        self.first
    }

    /// Last address.
    pub const fn last(&self) -> IpAddr {
        self.last
    }

    /// Whether it holds IPv4 addresses.
    pub const fn is_v4(&self) -> bool {
        self.first.is_ipv4()
    }

    /// Number of addresses less one.
    fn span(&self) -> u128 {
        to_bits(self.last).0 - to_bits(self.first).0
    }

    /// Number of distinct addresses [`AddressRange::nth`] gives: all, or 2^47 of a wider range.
    pub(super) fn slots(&self) -> u64 {
        (self.span().min(SLOTS_MAX - 1) + 1) as u64
    }

    /// Address of slot `n`, which must be below the slots. Where a slot is a block of addresses,
    /// a hash of `n` says which of them.
    pub(super) fn nth(&self, n: u64) -> IpAddr {
        let (first, span) = (to_bits(self.first).0, self.span());
        let offset = if span < SLOTS_MAX {
            u128::from(n)
        } else {
            let block_len = span / SLOTS_MAX + u128::from(span % SLOTS_MAX == SLOTS_MAX - 1);
            u128::from(n) * block_len + within_block(n, block_len)
        };
        from_bits(first + offset, self.is_v4())
    }
}

/// A fixed pseudo-random number below `block_len` for slot `n`.
fn within_block(n: u64, block_len: u128) -> u128 {
    let high = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let low = (high ^ (high >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (u128::from(high ^ (low >> 32)) << 64 | u128::from(low ^ (low >> 31))) % block_len
}

/// The address as a number, and its width in bits.
fn to_bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (address.to_bits().into(), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn from_bits(bits: u128, v4: bool) -> IpAddr {
    if v4 { IpAddr::V4((bits as u32).into()) } else { IpAddr::V6(Ipv6Addr::from_bits(bits)) }
}

/// The shortest text that reads back the same: one address, a prefix, or two ends.
impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = to_bits(self.first).1;
        let host = 128 - self.span().leading_zeros();
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else if *self == Self::prefix(self.first, (width - host) as u8) {
            write!(f, "{}/{}", self.first, width - host)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

impl FromStr for AddressRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let error = || RangeError::Address { text: text.into() };
        let address = |part: &str| part.trim().parse::<IpAddr>().map_err(|_| error());
        if let Some((first, last)) = text.split_once('-') {
            return Self::new(address(first)?, address(last)?);
        }
        let Some((first, len)) = text.split_once('/') else {
            return address(text).map(|only| Self { first: only, last: only });
        };
        let first = address(first)?;
        let len: u8 = len.trim().parse().map_err(|_| error())?;
        if u32::from(len) > to_bits(first).1 {
            return Err(error());
        }
        let range = Self::prefix(first, len);
        if range.first != first {
            let prefix = range.to_string();
            return Err(RangeError::HostBits { text: text.into(), prefix });
        }
        Ok(range)
    }
}

impl TryFrom<String> for AddressRange {
    type Error = RangeError;

    fn try_from(text: String) -> Result<Self, RangeError> {
        text.parse()
    }
}

impl From<AddressRange> for String {
    fn from(range: AddressRange) -> Self {
        range.to_string()
    }
}

/// Ports from first to last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PortText", into = "String")]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// 1024 to 65535.
    pub const UNPRIVILEGED: Self = Self { first: 1024, last: 65_535 };

    /// Ports from `first` to `last`, both included.
    ///
    /// # Errors
    /// First after last.
    pub fn new(first: u16, last: u16) -> Result<Self, RangeError> {
        if first > last {
            return Err(RangeError::Order { text: format!("{first}-{last}") });
        }
        Ok(Self { first, last })
    }

    /// First port.
    pub const fn first(&self) -> u16 {
        self.first
    }

    /// Last port.
    pub const fn last(&self) -> u16 {
        self.last
    }

    /// Number of ports.
    pub(super) fn count(&self) -> u64 {
        u64::from(self.last - self.first) + 1
    }

    /// Port `n`, which must be below the count.
    pub(super) fn nth(&self, n: u64) -> u16 {
        self.first + n as u16
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl FromStr for PortRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let port = |part: &str| {
            part.trim().parse::<u16>().map_err(|_| RangeError::Port { text: text.into() })
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Self::new(port(first)?, port(last)?)
    }
}

impl From<PortRange> for String {
    fn from(range: PortRange) -> Self {
        range.to_string()
    }
}

/// A port range as it may be typed: a number or text.
#[derive(Deserialize)]
#[serde(untagged)]
enum PortText {
    One(u16),
    Range(String),
}

impl TryFrom<PortText> for PortRange {
    type Error = RangeError;

    fn try_from(text: PortText) -> Result<Self, RangeError> {
        match text {
            PortText::One(port) => Self::new(port, port),
            PortText::Range(text) => text.parse(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn text_round_trips() {
        for text in [
            "10.0.0.0/8",
            "0.0.0.0/0",
            "10.0.0.1",
            "10.0.0.1-10.0.0.99",
            "fd00::/8",
            "::/0",
            "2001:db8::1",
            "::1-::5",
        ] {
            assert_eq!(text.parse::<AddressRange>().unwrap().to_string(), text);
        }
        for text in ["80", "1024-65535"] {
            assert_eq!(text.parse::<PortRange>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn wrong_text_is_refused() {
        for text in [
            "",
            "x",
            "10.0.0.0/33",
            "10.0.0.0/x",
            "10.0.0.0/8/8",
            "10.0.0.9-10.0.0.1",
            "::-10.0.0.1",
        ] {
            assert!(text.parse::<AddressRange>().is_err(), "{text}");
        }
        assert_eq!(
            "10.0.0.1/8".parse::<AddressRange>().unwrap_err().to_string(),
            "`10.0.0.1/8` has bits beyond its prefix: write 10.0.0.0/8 or a range"
        );
        for text in ["", "x", "65536", "9-1", "1-2-3"] {
            assert!(text.parse::<PortRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn wide_ranges_are_used_to_both_ends() {
        for text in ["::/0", "fd00::/8", "2001:2::/48", "::/80", "::/81", "::-8000:0:0:1::"] {
            let range: AddressRange = text.parse().unwrap();
            let slots = range.slots();
            let mut seen = HashSet::new();
            for n in [0, 1, 2, slots / 2, slots - 2, slots - 1] {
                let address = range.nth(n);
                assert!(range.first() <= address && address <= range.last(), "{text} {n}");
                assert!(seen.insert(address));
            }
            // The last slot lies in the last hundredth of a range made of blocks of equal length.
            let last = to_bits(range.nth(slots - 1)).0 - to_bits(range.first()).0;
            assert!(last >= range.span() / 100 * 49, "{text}");
        }
    }
}
