//! The IP authentication header, in IPv4 and IPv6 (RFC 4302).

use std::fmt;

use super::IpProtocol;
use super::bytes::{read_u32, view, write_u32};
use crate::error::{LayerKind, ParseError, check_fits};

view! {
    /// A view of an authentication header and what follows.
    Header
}

mod field {
    use crate::wire::bytes::FieldRange;

    pub const NEXT_HEADER: usize = 0;
    pub const WORDS: usize = 1;
    pub const RESERVED: FieldRange = 2..4;
    pub const SPI: FieldRange = 4..8;
    pub const SEQUENCE: FieldRange = 8..12;
}

/// Length of the header without check value in bytes.
pub const HEADER_LEN: usize = field::SEQUENCE.end;

/// Longest check value in bytes: 257 words less the fixed three.
pub const CHECK_VALUE_LEN_MAX: usize = 257 * 4 - HEADER_LEN;

impl<T: AsRef<[u8]>> Header<T> {
    /// Checks that the header and its check value are there.
    ///
    /// # Errors
    /// Fewer bytes than the length field says; a length below [`HEADER_LEN`].
    pub fn check_len(&self) -> Result<(), ParseError> {
        let available_len = self.as_bytes().len();
        check_fits(LayerKind::Auth, HEADER_LEN, available_len)?;
        if self.header_len() < HEADER_LEN {
            return Err(ParseError::Field {
                layer: LayerKind::Auth,
                field: "header_len",
                value: self.header_len() as u32,
                allowed: "12 or more",
            });
        }
        check_fits(LayerKind::Auth, self.header_len(), available_len)
    }

    /// What follows.
    pub fn next_header(&self) -> IpProtocol {
        IpProtocol(self.as_bytes()[field::NEXT_HEADER])
    }

    /// Length of the header with its check value in bytes, `12..=1028`, a multiple of 4.
    pub fn header_len(&self) -> usize {
        (usize::from(self.as_bytes()[field::WORDS]) + 2) * 4
    }

    /// Security parameters index.
    pub fn spi(&self) -> u32 {
        read_u32(self.as_bytes(), field::SPI)
    }

    /// Sequence number.
    pub fn sequence(&self) -> u32 {
        read_u32(self.as_bytes(), field::SEQUENCE)
    }

    /// Integrity check value with its padding.
    pub fn check_value(&self) -> &[u8] {
        &self.as_bytes()[HEADER_LEN..self.header_len()]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    /// Sets what follows, and clears the reserved bytes.
    pub fn set_next_header(&mut self, next: IpProtocol) {
        let bytes = self.buffer.as_mut();
        bytes[field::NEXT_HEADER] = next.0;
        bytes[field::RESERVED].fill(0);
    }

    /// Sets the length of header and check value in bytes, a multiple of 4, `12..=1028`.
    pub fn set_header_len(&mut self, len: usize) {
        self.buffer.as_mut()[field::WORDS] = (len / 4).saturating_sub(2) as u8;
    }

    /// Sets the security parameters index.
    pub fn set_spi(&mut self, spi: u32) {
        write_u32(self.buffer.as_mut(), field::SPI, spi);
    }

    /// Sets the sequence number.
    pub fn set_sequence(&mut self, sequence: u32) {
        write_u32(self.buffer.as_mut(), field::SEQUENCE, sequence);
    }

    /// The check value, to change.
    pub fn check_value_mut(&mut self) -> &mut [u8] {
        let len = self.header_len();
        &mut self.buffer.as_mut()[HEADER_LEN..len]
    }
}

/// An authentication header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// What follows.
    pub next_header: IpProtocol,
    /// Security parameters index.
    pub spi: u32,
    /// Sequence number.
    pub sequence: u32,
    /// Integrity check value, up to [`CHECK_VALUE_LEN_MAX`] bytes; zeros fill the last word.
    pub check_value: Vec<u8>,
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
            spi: header.spi(),
            sequence: header.sequence(),
            check_value: header.check_value().to_vec(),
        })
    }

    /// Length of header and check value in bytes.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN + self.check_value.len().next_multiple_of(4)
    }

    /// Writes header and check value.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, header: &mut Header<T>) {
        header.set_next_header(self.next_header);
        header.set_header_len(self.buffer_len());
        header.set_spi(self.spi);
        header.set_sequence(self.sequence);
        let (used, padding) = header.check_value_mut().split_at_mut(self.check_value.len());
        used.copy_from_slice(&self.check_value);
        padding.fill(0);
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Header<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AH spi {:#x} sequence {}", self.spi(), self.sequence())?;
        write!(f, " next {} length {}", self.next_header(), self.header_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 24] = [
        0x06, 0x04, 0x00, 0x00, // TCP follows; 6 words
        0x81, 0x79, 0xb7, 0x05, // SPI
        0x00, 0x00, 0x00, 0x01, // sequence
        0x27, 0xcf, 0xc0, 0xa5, 0xe4, 0x3d, 0x69, 0xb3, 0x72, 0x8e, 0xc5, 0xb0, // check value
    ];

    fn repr() -> Repr {
        Repr {
            next_header: IpProtocol::TCP,
            spi: 0x8179_b705,
            sequence: 1,
            check_value: BYTES[12..].to_vec(),
        }
    }

    #[test]
    fn test_deconstruct() {
        let header = Header::new_checked(BYTES).unwrap();
        assert_eq!(Repr::parse(&header), Ok(repr()));
        assert_eq!(header.to_string(), "AH spi 0x8179b705 sequence 1 next TCP length 24");
    }

    #[test]
    fn test_construct() {
        let mut bytes = [0x5a; 24];
        repr().emit(&mut Header::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn test_short_length_refused() {
        let mut bytes = BYTES;
        bytes[1] = 0;
        assert!(matches!(Header::new_checked(bytes), Err(ParseError::Field { .. })));
    }

    #[test]
    fn test_truncated() {
        crate::testing::every_truncation(&BYTES, 24, |b| {
            Header::new_checked(b).map(|h| h.to_string())
        });
    }
}
