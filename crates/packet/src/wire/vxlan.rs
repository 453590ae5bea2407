//! Virtual extensible LAN: an Ethernet frame in a UDP datagram (RFC 7348).

use std::fmt;

use super::bytes::{read_u32, view, write_u32};
use crate::error::{LayerKind, ParseError, check_fits};

view! {
    /// A view of a VXLAN header and the frame in it.
    Packet
}

mod field {
    use crate::wire::bytes::FieldRange;

    pub const FLAGS: usize = 0;
    pub const RESERVED: FieldRange = 1..4;
    pub const VNI: FieldRange = 4..8;

    /// The one flag: the network identifier is valid.
    pub const VNI_VALID: u8 = 0x08;
}

/// Length of the header in bytes.
pub const HEADER_LEN: usize = field::VNI.end;

/// UDP port of the receiver.
pub const PORT: u16 = 4789;

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks that the header is there and that its identifier is valid.
    ///
    /// # Errors
    /// Fewer than [`HEADER_LEN`] bytes; the I flag not set.
    pub fn check_len(&self) -> Result<(), ParseError> {
        check_fits(LayerKind::Vxlan, HEADER_LEN, self.as_bytes().len())?;
        let flags = self.as_bytes()[field::FLAGS];
        if flags & field::VNI_VALID == 0 {
            return Err(ParseError::Field {
                layer: LayerKind::Vxlan,
                field: "flags",
                value: flags.into(),
                allowed: "with bit 0x08 set",
            });
        }
        Ok(())
    }

    /// Network identifier, 24 bits.
    pub fn vni(&self) -> u32 {
        read_u32(self.as_bytes(), field::VNI) >> 8
    }

    /// The frame in it.
    pub fn payload(&self) -> &[u8] {
        &self.as_bytes()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the network identifier (low 24 bits) and its flag, and clears the reserved bits.
    pub fn set_vni(&mut self, vni: u32) {
        let bytes = self.buffer.as_mut();
        bytes[field::FLAGS] = field::VNI_VALID;
        bytes[field::RESERVED].fill(0);
        write_u32(bytes, field::VNI, vni << 8);
    }

    /// The frame in it, to change.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.as_mut()[HEADER_LEN..]
    }
}

/// A VXLAN header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Network identifier, `0..=0xff_ffff`.
    pub vni: u32,
}

impl Repr {
    /// Reads a header. Reserved bits are not kept.
    ///
    /// # Errors
    /// Those of [`Packet::check_len`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, ParseError> {
        packet.check_len()?;
        Ok(Self { vni: packet.vni() })
    }

    /// Length of the header in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_vni(self.vni);
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VXLAN vni {}", self.vni())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 10] = [
        0x08, 0x00, 0x00, 0x00, // identifier valid
        0x01, 0x02, 0x03, 0x00, // identifier
        0xaa, 0xff, // payload
    ];

    #[test]
    fn test_deconstruct() {
        let packet = Packet::new_checked(BYTES).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(Repr { vni: 0x010203 }));
        assert_eq!(packet.payload(), [0xaa, 0xff]);
        assert_eq!(packet.to_string(), "VXLAN vni 66051");
    }

    #[test]
    fn test_construct() {
        let mut bytes = [0x5a; 10];
        let mut packet = Packet::new_unchecked(&mut bytes[..]);
        Repr { vni: 0x010203 }.emit(&mut packet);
        packet.payload_mut().copy_from_slice(&[0xaa, 0xff]);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn test_invalid_identifier_refused() {
        let mut bytes = BYTES;
        bytes[0] = 0;
        assert!(matches!(Packet::new_checked(bytes), Err(ParseError::Field { .. })));
    }

    #[test]
    fn test_truncated() {
        crate::testing::every_truncation(&BYTES, HEADER_LEN, |b| {
            Packet::new_checked(b).map(|p| p.to_string())
        });
    }
}
