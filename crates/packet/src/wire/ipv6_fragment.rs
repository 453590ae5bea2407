//! The IPv6 fragment header (RFC 8200 §4.5).

use std::fmt;

use super::IpProtocol;
use super::bytes::{read_u16, read_u32, view, write_u16, write_u32};
use crate::error::{LayerKind, ParseError, check_fits};

view! {
    /// A view of a fragment header and what follows.
    Header
}

mod field {
    use crate::wire::bytes::FieldRange;

    pub const NEXT_HEADER: usize = 0;
    pub const RESERVED: usize = 1;
    pub const OFFSET_AND_MORE: FieldRange = 2..4;
    pub const IDENTIFICATION: FieldRange = 4..8;
}

/// Length of the header in bytes.
pub const HEADER_LEN: usize = field::IDENTIFICATION.end;

impl<T: AsRef<[u8]>> Header<T> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// Fewer than [`HEADER_LEN`] bytes.
    pub fn check_len(&self) -> Result<(), ParseError> {
        check_fits(LayerKind::Ipv6Fragment, HEADER_LEN, self.as_bytes().len())
    }

    fn offset_and_more(&self) -> u16 {
        read_u16(self.as_bytes(), field::OFFSET_AND_MORE)
    }

    /// What the whole packet carries after this header.
    pub fn next_header(&self) -> IpProtocol {
        IpProtocol(self.as_bytes()[field::NEXT_HEADER])
    }

    /// Offset in bytes, a multiple of 8.
    pub fn offset(&self) -> u16 {
        self.offset_and_more() & 0xfff8
    }

    /// More-fragments flag.
    pub fn more_fragments(&self) -> bool {
        self.offset_and_more() & 1 != 0
    }

    /// Whether it really is one of several; "atomic" fragments (RFC 6946) are not.
    pub fn is_fragment(&self) -> bool {
        self.offset() != 0 || self.more_fragments()
    }

    /// Identification.
    pub fn identification(&self) -> u32 {
        read_u32(self.as_bytes(), field::IDENTIFICATION)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    /// Sets what follows, and clears the reserved byte.
    pub fn set_next_header(&mut self, next: IpProtocol) {
        let bytes = self.buffer.as_mut();
        bytes[field::NEXT_HEADER] = next.0;
        bytes[field::RESERVED] = 0;
    }

    /// Sets the offset in bytes (low 3 bits dropped) and the more-fragments flag.
    pub fn set_offset(&mut self, offset: u16, more: bool) {
        let value = offset & 0xfff8 | u16::from(more);
        write_u16(self.buffer.as_mut(), field::OFFSET_AND_MORE, value);
    }

    /// Sets the identification.
    pub fn set_identification(&mut self, identification: u32) {
        write_u32(self.buffer.as_mut(), field::IDENTIFICATION, identification);
    }
}

/// A fragment header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// What the whole packet carries after this header.
    pub next_header: IpProtocol,
    /// Offset in bytes, a multiple of 8 up to 65,528.
    pub offset: u16,
    /// More-fragments flag.
    pub more_fragments: bool,
    /// Identification.
    pub identification: u32,
}

impl Repr {
    /// Reads a header.
    ///
    /// # Errors
    /// Those of [`Header::check_len`].
    pub fn parse<T: AsRef<[u8]>>(header: &Header<T>) -> Result<Self, ParseError> {
        header.check_len()?;
        Ok(Self {
            next_header: header.next_header(),
            offset: header.offset(),
            more_fragments: header.more_fragments(),
            identification: header.identification(),
        })
    }

    /// Length of the header in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, header: &mut Header<T>) {
        header.set_next_header(self.next_header);
        header.set_offset(self.offset, self.more_fragments);
        header.set_identification(self.identification);
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Header<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.more_fragments() { "+" } else { "" };
        write!(f, "IPv6 fragment {}@{}{more}", self.identification(), self.offset())?;
        write!(f, " next {}", self.next_header())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 8] = [
        0x06, 0x00, // TCP
        0x05, 0xa9, // offset 1448, more
        0xde, 0xad, 0xbe, 0xef, // identification
    ];

    fn repr() -> Repr {
        Repr {
            next_header: IpProtocol::TCP,
            offset: 1448,
            more_fragments: true,
            identification: 0xdead_beef,
        }
    }

    #[test]
    fn test_deconstruct() {
        let header = Header::new_checked(BYTES).unwrap();
        assert_eq!(Repr::parse(&header), Ok(repr()));
        assert!(header.is_fragment());
        assert_eq!(header.to_string(), "IPv6 fragment 3735928559@1448+ next TCP");
    }

    #[test]
    fn test_construct() {
        let mut bytes = [0x5a; 8];
        repr().emit(&mut Header::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn test_truncated() {
        crate::testing::every_truncation(&BYTES, HEADER_LEN, |b| {
            Header::new_checked(b).map(|h| h.to_string())
        });
    }
}
