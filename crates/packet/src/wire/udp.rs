//! User datagrams (RFC 768).

use std::fmt;

use super::bytes::{read_u16, view, write_u16};
use crate::checksum;
use crate::error::{LayerKind, ParseError, check_fits};

view! {
    /// A view of a UDP datagram.
    Datagram
}

mod field {
    use crate::wire::bytes::FieldRange;

    pub const SRC_PORT: FieldRange = 0..2;
    pub const DST_PORT: FieldRange = 2..4;
    pub const LENGTH: FieldRange = 4..6;
    pub const CHECKSUM: FieldRange = 6..8;
}

/// Length of the header in bytes.
pub const HEADER_LEN: usize = field::CHECKSUM.end;

impl<T: AsRef<[u8]>> Datagram<T> {
    /// Checks the header, not that all of the payload is there.
    ///
    /// # Errors
    /// Fewer than [`HEADER_LEN`] bytes; a length field below [`HEADER_LEN`].
    pub fn check_len(&self) -> Result<(), ParseError> {
        check_fits(LayerKind::Udp, HEADER_LEN, self.as_bytes().len())?;
        if self.length() < HEADER_LEN {
            return Err(ParseError::Field {
                layer: LayerKind::Udp,
                field: "length",
                value: self.length() as u32,
                allowed: "8 or more",
            });
        }
        Ok(())
    }

    /// Checks that the whole datagram is there.
    ///
    /// # Errors
    /// Those of [`Datagram::check_len`]; fewer bytes than the length field says.
    pub fn check_whole(&self) -> Result<(), ParseError> {
        self.check_len()?;
        check_fits(LayerKind::Udp, self.length(), self.as_bytes().len())
    }

    /// Port of the sender.
    pub fn src_port(&self) -> u16 {
        read_u16(self.as_bytes(), field::SRC_PORT)
    }

    /// Port of the receiver.
    pub fn dst_port(&self) -> u16 {
        read_u16(self.as_bytes(), field::DST_PORT)
    }

    /// Header and payload in bytes, as stated.
    pub fn length(&self) -> usize {
        read_u16(self.as_bytes(), field::LENGTH).into()
    }

    /// The checksum field; 0 means there is none.
    pub fn checksum(&self) -> u16 {
        read_u16(self.as_bytes(), field::CHECKSUM)
    }

    fn end(&self) -> usize {
        self.length().min(self.as_bytes().len())
    }

    /// The payload, as much of it as is there.
    pub fn payload(&self) -> &[u8] {
        &self.as_bytes()[HEADER_LEN..self.end()]
    }

    /// Whether the checksum is right, or 0; `pseudo` is the partial of the pseudo header.
    pub fn is_checksum_valid(&self, pseudo: u64) -> bool {
        let covered = &self.as_bytes()[..self.end()];
        self.checksum() == 0 || checksum::fold(pseudo + checksum::sum(covered)) == 0xffff
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Datagram<T> {
    /// Sets the port of the sender.
    pub fn set_src_port(&mut self, port: u16) {
        write_u16(self.buffer.as_mut(), field::SRC_PORT, port);
    }

    /// Sets the port of the receiver.
    pub fn set_dst_port(&mut self, port: u16) {
        write_u16(self.buffer.as_mut(), field::DST_PORT, port);
    }

    /// Sets the length of header and payload in bytes.
    pub fn set_length(&mut self, length: u16) {
        write_u16(self.buffer.as_mut(), field::LENGTH, length);
    }

    /// Sets the checksum field.
    pub fn set_checksum(&mut self, checksum: u16) {
        write_u16(self.buffer.as_mut(), field::CHECKSUM, checksum);
    }

    /// Computes the checksum; `pseudo` is the partial of the pseudo header.
    pub fn fill_checksum(&mut self, pseudo: u64) {
        self.set_checksum(0);
        let covered = checksum::sum(&self.as_bytes()[..self.end()]);
        self.set_checksum(checksum::finish_udp(pseudo + covered));
    }

    /// The payload, to change.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = self.end();
        &mut self.buffer.as_mut()[HEADER_LEN..end]
    }
}

/// Whether a datagram carries a checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumMode {
    /// Left 0: "none". Usual in tunnels; in IPv6 only there (RFC 6935).
    Absent,
    /// Computed when the frame is built.
    #[default]
    Computed,
}

/// A UDP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Port of the sender.
    pub src_port: u16,
    /// Port of the receiver.
    pub dst_port: u16,
    /// Whether there is a checksum.
    pub checksum: ChecksumMode,
}

impl Repr {
    /// Reads a header.
    ///
    /// # Errors
    /// Those of [`Datagram::check_len`].
    pub fn parse<T: AsRef<[u8]>>(datagram: &Datagram<T>) -> Result<Self, ParseError> {
        datagram.check_len()?;
        let checksum = match datagram.checksum() {
            0 => ChecksumMode::Absent,
            _ => ChecksumMode::Computed,
        };
        let (src_port, dst_port) = (datagram.src_port(), datagram.dst_port());
        Ok(Self { src_port, dst_port, checksum })
    }

    /// Length of the header in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header for a payload of `payload_len` bytes (at most 65,527), checksum 0.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        datagram: &mut Datagram<T>,
        payload_len: usize,
    ) {
        datagram.set_src_port(self.src_port);
        datagram.set_dst_port(self.dst_port);
        datagram.set_length((HEADER_LEN + payload_len) as u16);
        datagram.set_checksum(0);
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Datagram<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UDP {} > {} length {}", self.src_port(), self.dst_port(), self.length())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::IpProtocol;

    const BYTES: [u8; 12] = [
        0xbf, 0x00, 0x00, 0x35, // 48896 > 53
        0x00, 0x0c, 0x12, 0x4d, // length 12, checksum
        0xaa, 0x00, 0x00, 0xff, // payload
    ];

    fn repr() -> Repr {
        Repr { src_port: 48896, dst_port: 53, checksum: ChecksumMode::Computed }
    }

    fn pseudo() -> u64 {
        let (src, dst) = ([192, 168, 1, 1].into(), [192, 168, 1, 2].into());
        checksum::pseudo_ipv4(src, dst, IpProtocol::UDP, 12)
    }

    #[test]
    fn test_deconstruct() {
        let datagram = Datagram::new_checked(BYTES).unwrap();
        assert_eq!(Repr::parse(&datagram), Ok(repr()));
        assert_eq!(datagram.payload(), [0xaa, 0x00, 0x00, 0xff]);
        assert!(datagram.is_checksum_valid(pseudo()));
        assert_eq!(datagram.check_whole(), Ok(()));
        assert_eq!(datagram.to_string(), "UDP 48896 > 53 length 12");
    }

    #[test]
    fn test_construct() {
        let mut bytes = [0xa5; 12];
        let mut datagram = Datagram::new_unchecked(&mut bytes[..]);
        repr().emit(&mut datagram, 4);
        datagram.payload_mut().copy_from_slice(&BYTES[8..]);
        datagram.fill_checksum(pseudo());
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn test_absent_checksum() {
        let mut bytes = BYTES;
        Datagram::new_unchecked(&mut bytes[..]).set_checksum(0);
        let datagram = Datagram::new_checked(bytes).unwrap();
        assert!(datagram.is_checksum_valid(pseudo()));
        assert_eq!(Repr::parse(&datagram).unwrap().checksum, ChecksumMode::Absent);
    }

    #[test]
    fn test_computed_zero_is_sent_as_ones() {
        let mut bytes = [0; 8];
        let mut datagram = Datagram::new_unchecked(&mut bytes[..]);
        Repr::default().emit(&mut datagram, 0);
        datagram.fill_checksum(0xffff - 8);
        assert_eq!(datagram.checksum(), 0xffff);
        assert!(datagram.is_checksum_valid(0xffff - 8));
    }

    #[test]
    fn test_length_field() {
        let mut bytes = BYTES;
        Datagram::new_unchecked(&mut bytes[..]).set_length(7);
        assert!(Datagram::new_checked(bytes).is_err());
        Datagram::new_unchecked(&mut bytes[..]).set_length(13);
        let cut = Datagram::new_checked(bytes).unwrap();
        assert!(cut.check_whole().is_err());
        assert_eq!(cut.payload().len(), 4);
    }

    #[test]
    fn test_truncated() {
        crate::testing::every_truncation(&BYTES, HEADER_LEN, |b| {
            Datagram::new_checked(b).map(|d| (d.to_string(), d.payload().len()))
        });
        crate::testing::every_truncation(&BYTES, BYTES.len(), |b| {
            Datagram::new_unchecked(b).check_whole()
        });
    }
}
