//! Ethernet II frames, without preamble and FCS (IEEE 802.3 §3).

use std::fmt;

use super::bytes::{read_array, read_u16, view, write_u16};
use super::{EtherType, MacAddress};
use crate::error::{LayerKind, ParseError, check_fits};

view! {
    /// A view of an Ethernet II frame.
    Frame
}

mod field {
    use crate::wire::bytes::FieldRange;

    pub const DST: FieldRange = 0..6;
    pub const SRC: FieldRange = 6..12;
    pub const ETHER_TYPE: FieldRange = 12..14;
}

/// Length of the header in bytes.
pub const HEADER_LEN: usize = field::ETHER_TYPE.end;

impl<T: AsRef<[u8]>> Frame<T> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// Fewer than [`HEADER_LEN`] bytes.
    pub fn check_len(&self) -> Result<(), ParseError> {
        check_fits(LayerKind::Ethernet, HEADER_LEN, self.as_bytes().len())
    }

    /// Receiver.
    pub fn dst(&self) -> MacAddress {
        MacAddress(read_array(self.as_bytes(), field::DST))
    }

    /// Sender.
    pub fn src(&self) -> MacAddress {
        MacAddress(read_array(self.as_bytes(), field::SRC))
    }

    /// What the frame carries; values below `0x0600` are an IEEE 802.3 length instead.
    pub fn ether_type(&self) -> EtherType {
        EtherType(read_u16(self.as_bytes(), field::ETHER_TYPE))
    }

    /// The bytes after the header.
    pub fn payload(&self) -> &[u8] {
        &self.as_bytes()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// Sets the receiver.
    pub fn set_dst(&mut self, address: MacAddress) {
        self.buffer.as_mut()[field::DST].copy_from_slice(&address.0);
    }

    /// Sets the sender.
    pub fn set_src(&mut self, address: MacAddress) {
        self.buffer.as_mut()[field::SRC].copy_from_slice(&address.0);
    }

    /// Sets what the frame carries.
    pub fn set_ether_type(&mut self, ether_type: EtherType) {
        write_u16(self.buffer.as_mut(), field::ETHER_TYPE, ether_type.0);
    }

    /// The bytes after the header, to change.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.as_mut()[HEADER_LEN..]
    }
}

/// An Ethernet II header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Receiver.
    pub dst: MacAddress,
    /// Sender.
    pub src: MacAddress,
    /// What follows.
    pub ether_type: EtherType,
}

impl Repr {
    /// Reads a header.
    ///
    /// # Errors
    /// Those of [`Frame::check_len`].
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Result<Self, ParseError> {
        frame.check_len()?;
        Ok(Self { dst: frame.dst(), src: frame.src(), ether_type: frame.ether_type() })
    }

    /// Length of the header in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, frame: &mut Frame<T>) {
        frame.set_dst(self.dst);
        frame.set_src(self.src);
        frame.set_ether_type(self.ether_type);
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Frame<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ethernet {} > {} type {}", self.src(), self.dst(), self.ether_type())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 16] = [
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // receiver
        0x02, 0x00, 0x00, 0x00, 0x00, 0x07, // sender
        0x08, 0x00, // IPv4
        0xaa, 0xbb, // payload
    ];

    fn repr() -> Repr {
        Repr { dst: MacAddress::BROADCAST, src: MacAddress::local(7), ether_type: EtherType::IPV4 }
    }

    #[test]
    fn test_deconstruct() {
        let frame = Frame::new_checked(BYTES).unwrap();
        assert_eq!(Repr::parse(&frame), Ok(repr()));
        assert_eq!(frame.payload(), [0xaa, 0xbb]);
        assert_eq!(frame.to_string(), "Ethernet 02:00:00:00:00:07 > ff:ff:ff:ff:ff:ff type 0x0800");
    }

    #[test]
    fn test_construct() {
        let mut bytes = [0x5a; 16];
        let mut frame = Frame::new_unchecked(&mut bytes[..]);
        repr().emit(&mut frame);
        frame.payload_mut().copy_from_slice(&[0xaa, 0xbb]);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn test_truncated() {
        crate::testing::every_truncation(&BYTES, HEADER_LEN, |b| {
            Frame::new_checked(b).map(|frame| frame.to_string())
        });
    }
}
