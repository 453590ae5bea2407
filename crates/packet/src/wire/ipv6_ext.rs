//! IPv6 extension headers counted in units of 8 bytes: hop-by-hop options, routing, destination
//! options (RFC 8200 §4.3, §4.4, §4.6).
//!
//! Which of the three it is stands in the header before.

use std::fmt;
use std::net::Ipv6Addr;

use super::IpProtocol;
use super::bytes::view;
use crate::error::{LayerKind, ParseError, check_fits};

view! {
    /// A view of one extension header and what follows.
    Header
}

mod field {
    pub const NEXT_HEADER: usize = 0;
    pub const UNITS: usize = 1;
    pub const BODY: usize = 2;
    /// First address of a routing header.
    pub const SEGMENTS: usize = 8;
}

/// Shortest header in bytes, and the unit of its length.
pub const HEADER_LEN: usize = 8;

/// Longest body in bytes: 256 units less the two leading bytes.
pub const BODY_LEN_MAX: usize = 256 * HEADER_LEN - field::BODY;

/// The three kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionKind {
    /// Options for the receiver.
    Destination,
    /// Options for every hop; only directly after the IPv6 header.
    HopByHop,
    /// Addresses to pass through.
    Routing,
}

impl ExtensionKind {
    /// The number that announces this kind.
    pub const fn protocol(self) -> IpProtocol {
        match self {
            Self::Destination => IpProtocol::DESTINATION,
            Self::HopByHop => IpProtocol::HOP_BY_HOP,
            Self::Routing => IpProtocol::ROUTING,
        }
    }

    /// The same as a kind of layer.
    pub const fn layer(self) -> LayerKind {
        match self {
            Self::Destination => LayerKind::Ipv6Destination,
            Self::HopByHop => LayerKind::Ipv6HopByHop,
            Self::Routing => LayerKind::Ipv6Routing,
        }
    }
}

impl<T: AsRef<[u8]>> Header<T> {
    /// Checks that the header and its body are there.
    ///
    /// # Errors
    /// Fewer bytes than the length field says, or than [`HEADER_LEN`].
    pub fn check_len(&self) -> Result<(), ParseError> {
        let available_len = self.as_bytes().len();
        check_fits(LayerKind::Ipv6HopByHop, HEADER_LEN, available_len)?;
        check_fits(LayerKind::Ipv6HopByHop, self.header_len(), available_len)
    }

    /// What follows.
    pub fn next_header(&self) -> IpProtocol {
        IpProtocol(self.as_bytes()[field::NEXT_HEADER])
    }

    /// Length of the header with its body in bytes, `8..=2048`, a multiple of 8.
    pub fn header_len(&self) -> usize {
        (usize::from(self.as_bytes()[field::UNITS]) + 1) * HEADER_LEN
    }

    /// The bytes after the length field: options, or routing type, segments left and data.
    pub fn body(&self) -> &[u8] {
        &self.as_bytes()[field::BODY..self.header_len()]
    }

    /// Segments left, if this is a routing header: hops still to visit.
    pub fn segments_left(&self) -> u8 {
        self.body()[1]
    }

    /// The last address to visit, if this is a routing header of type 0 (RFC 2460), 2 (RFC 6275)
    /// or 4 (RFC 8754, whose list runs backwards) that holds one.
    pub fn last_segment(&self) -> Option<Ipv6Addr> {
        let segments = self.body().get(field::SEGMENTS - field::BODY..)?;
        let segment: &[u8; 16] = match self.body()[0] {
            0 | 2 => segments.last_chunk()?,
            4 => segments.first_chunk()?,
            _ => return None,
        };
        Some((*segment).into())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    /// Sets what follows.
    pub fn set_next_header(&mut self, next: IpProtocol) {
        self.buffer.as_mut()[field::NEXT_HEADER] = next.0;
    }

    /// Sets the length of header and body in bytes, a multiple of 8, `8..=2048`.
    pub fn set_header_len(&mut self, len: usize) {
        self.buffer.as_mut()[field::UNITS] = (len / HEADER_LEN).saturating_sub(1) as u8;
    }

    /// The body, to change.
    pub fn body_mut(&mut self) -> &mut [u8] {
        let len = self.header_len();
        &mut self.buffer.as_mut()[field::BODY..len]
    }
}

/// An extension header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Which of the three.
    pub kind: ExtensionKind,
    /// What follows.
    pub next_header: IpProtocol,
    /// Options or routing data, up to [`BODY_LEN_MAX`] bytes; zeros (Pad1) fill the last unit.
    pub body: Vec<u8>,
}

impl Repr {
    /// Options for every hop: one PadN (RFC 8200 §4.2).
    pub fn hop_by_hop() -> Self {
        Self {
            kind: ExtensionKind::HopByHop,
            next_header: IpProtocol::NONE,
            body: vec![1, 4, 0, 0, 0, 0],
        }
    }

    /// Reads a header announced as `kind`.
    ///
    /// # Errors
    /// Those of [`Header::check_len`].
    pub fn parse<T: AsRef<[u8]>>(
        header: &Header<T>,
        kind: ExtensionKind,
    ) -> Result<Self, ParseError> {
        header.check_len()?;
        Ok(Self { kind, next_header: header.next_header(), body: header.body().to_vec() })
    }

    /// Length of header and body in bytes.
    pub fn buffer_len(&self) -> usize {
        (field::BODY + self.body.len()).max(HEADER_LEN).next_multiple_of(HEADER_LEN)
    }

    /// Writes header and body.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, header: &mut Header<T>) {
        header.set_next_header(self.next_header);
        header.set_header_len(self.buffer_len());
        let (used, padding) = header.body_mut().split_at_mut(self.body.len());
        used.copy_from_slice(&self.body);
        padding.fill(0);
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Header<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPv6 extension next {} length {}", self.next_header(), self.header_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 16] = [
        0x11, 0x01, // UDP follows; 2 units
        0x05, 0x02, 0x00, 0x00, // router alert (RFC 2711)
        0x01, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, // PadN
    ];

    fn repr() -> Repr {
        let body = BYTES[2..].to_vec();
        Repr { kind: ExtensionKind::HopByHop, next_header: IpProtocol::UDP, body }
    }

    #[test]
    fn test_deconstruct() {
        let header = Header::new_checked(BYTES).unwrap();
        assert_eq!(Repr::parse(&header, ExtensionKind::HopByHop), Ok(repr()));
        assert_eq!(header.to_string(), "IPv6 extension next UDP length 16");
    }

    #[test]
    fn test_construct() {
        let mut bytes = [0x5a; 16];
        repr().emit(&mut Header::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn test_body_is_padded() {
        let repr = Repr {
            kind: ExtensionKind::Destination,
            next_header: IpProtocol::TCP,
            body: vec![9; 7],
        };
        let mut bytes = [0x5a; 16];
        repr.emit(&mut Header::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes, [6, 1, 9, 9, 9, 9, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn test_last_segment() {
        let (a, b) = ([0xaa; 16], [0xbb; 16]);
        let check = |routing_type, expected: Option<[u8; 16]>| {
            let head = [6, 4, routing_type, 2, 1, 0, 0, 0];
            let bytes = [&head[..], &a[..], &b[..]].concat();
            let header = Header::new_checked(bytes).unwrap();
            assert_eq!(header.last_segment(), expected.map(Ipv6Addr::from));
        };
        check(0, Some(b));
        check(4, Some(a));
        check(3, None);
        let short = Header::new_checked([6, 0, 0, 1, 0, 0, 0, 0]).unwrap();
        assert_eq!((short.segments_left(), short.last_segment()), (1, None));
    }

    #[test]
    fn test_truncated() {
        crate::testing::every_truncation(&BYTES, 16, |b| {
            Header::new_checked(b).map(|h| (h.to_string(), h.segments_left()))
        });
    }
}
