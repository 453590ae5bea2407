//! Generic network virtualization encapsulation, with options (RFC 8926).

use std::fmt;

use super::bytes::{read_u16, read_u32, view, write_u16, write_u32};
use super::{EtherType, OptionBytes};
use crate::error::{LayerKind, ParseError, check_fits};
use crate::limits::GENEVE_OPTIONS_LEN_MAX;

view! {
    /// A view of a GENEVE packet.
    Packet
}

mod field {
    use crate::wire::bytes::FieldRange;

    pub const VERSION_AND_WORDS: usize = 0;
    pub const FLAGS: usize = 1;
    pub const PROTOCOL: FieldRange = 2..4;
    pub const VNI: FieldRange = 4..8;

    /// Flags within FLAGS.
    pub const CONTROL: u8 = 0x80;
    pub const CRITICAL: u8 = 0x40;
}

/// Length of the header without options in bytes.
pub const HEADER_LEN: usize = field::VNI.end;

/// UDP port of the receiver.
pub const PORT: u16 = 6081;

/// Length of an option's own header in bytes.
const OPTION_HEADER_LEN: usize = 4;

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks the header and that its options are there, not the options themselves.
    ///
    /// # Errors
    /// Bytes that end in header or options; a version other than 0.
    pub fn check_len(&self) -> Result<(), ParseError> {
        let available_len = self.as_bytes().len();
        check_fits(LayerKind::Geneve, HEADER_LEN, available_len)?;
        let version = self.as_bytes()[field::VERSION_AND_WORDS] >> 6;
        if version != 0 {
            return Err(ParseError::Field {
                layer: LayerKind::Geneve,
                field: "version",
                value: version.into(),
                allowed: "0",
            });
        }
        check_fits(LayerKind::Geneve, self.header_len(), available_len)
    }

    /// Length of header and options in bytes, `8..=260`.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + usize::from(self.as_bytes()[field::VERSION_AND_WORDS] & 0x3f) * 4
    }

    /// Whether this is a control message, not a packet of a tenant.
    pub fn is_control(&self) -> bool {
        self.as_bytes()[field::FLAGS] & field::CONTROL != 0
    }

    /// Whether an option must be understood by the receiver.
    pub fn is_critical(&self) -> bool {
        self.as_bytes()[field::FLAGS] & field::CRITICAL != 0
    }

    /// What the packet carries.
    pub fn protocol(&self) -> EtherType {
        EtherType(read_u16(self.as_bytes(), field::PROTOCOL))
    }

    /// Network identifier, 24 bits.
    pub fn vni(&self) -> u32 {
        read_u32(self.as_bytes(), field::VNI) >> 8
    }

    /// The option area as bytes.
    pub fn option_bytes(&self) -> &[u8] {
        &self.as_bytes()[HEADER_LEN..self.header_len()]
    }

    /// The options one by one; the first malformed one ends the walk.
    pub fn options(&self) -> Options<'_> {
        Options { rest: self.option_bytes() }
    }

    /// The bytes after header and options.
    pub fn payload(&self) -> &[u8] {
        &self.as_bytes()[self.header_len()..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets version 0 and the length of header and options in bytes, `8..=260`.
    pub fn set_header_len(&mut self, len: usize) {
        let words = len.saturating_sub(HEADER_LEN) / 4;
        self.buffer.as_mut()[field::VERSION_AND_WORDS] = words as u8 & 0x3f;
    }

    /// Sets the control and critical flags, and clears the reserved bits beside them.
    pub fn set_flags(&mut self, control: bool, critical: bool) {
        self.buffer.as_mut()[field::FLAGS] = u8::from(control) << 7 | u8::from(critical) << 6;
    }

    /// Sets what the packet carries.
    pub fn set_protocol(&mut self, protocol: EtherType) {
        write_u16(self.buffer.as_mut(), field::PROTOCOL, protocol.0);
    }

    /// Sets the network identifier (low 24 bits).
    pub fn set_vni(&mut self, vni: u32) {
        write_u32(self.buffer.as_mut(), field::VNI, vni << 8);
    }

    /// The option area, to change.
    pub fn option_bytes_mut(&mut self) -> &mut [u8] {
        let len = self.header_len();
        &mut self.buffer.as_mut()[HEADER_LEN..len]
    }
}

/// One GENEVE option (RFC 8926 §3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneveOption<'a> {
    /// Who defines the type.
    pub class: u16,
    /// Type; its highest bit says "critical".
    pub option_type: u8,
    /// Data, up to 124 bytes, a multiple of 4.
    pub data: &'a [u8],
}

/// The options of a packet, in their order; see [`Packet::options`].
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<GeneveOption<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let rest = std::mem::take(&mut self.rest); // a malformed option ends the walk
        if let Err(error) = check_fits(LayerKind::Geneve, OPTION_HEADER_LEN, rest.len()) {
            return Some(Err(error));
        }
        let len = OPTION_HEADER_LEN + usize::from(rest[3] & 0x1f) * 4;
        if let Err(error) = check_fits(LayerKind::Geneve, len, rest.len()) {
            return Some(Err(error));
        }
        self.rest = &rest[len..];
        let data = &rest[OPTION_HEADER_LEN..len];
        Some(Ok(GeneveOption { class: read_u16(rest, 0..2), option_type: rest[2], data }))
    }
}

/// A GENEVE header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Network identifier, `0..=0xff_ffff`.
    pub vni: u32,
    /// What follows.
    pub protocol: EtherType,
    /// A control message.
    pub control: bool,
    /// An option must be understood.
    pub critical: bool,
    /// Options as bytes.
    pub options: OptionBytes<GENEVE_OPTIONS_LEN_MAX>,
}

impl Repr {
    /// Reads a header. Reserved bits are not kept.
    ///
    /// # Errors
    /// Those of [`Packet::check_len`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Self, ParseError> {
        packet.check_len()?;
        Ok(Self {
            vni: packet.vni(),
            protocol: packet.protocol(),
            control: packet.is_control(),
            critical: packet.is_critical(),
            options: OptionBytes::new(packet.option_bytes()).unwrap_or_default(), // at most 252
        })
    }

    /// Length of header and options in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes header and options.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_header_len(self.buffer_len());
        packet.set_flags(self.control, self.critical);
        packet.set_protocol(self.protocol);
        packet.set_vni(self.vni);
        packet.option_bytes_mut().copy_from_slice(self.options.as_slice());
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GENEVE vni {} type {}", self.vni(), self.protocol())?;
        for option in self.options() {
            match option {
                Ok(o) => {
                    write!(f, " option {:#06x}:{:#04x} {:02x?}", o.class, o.option_type, o.data)?
                }
                Err(error) => write!(f, " ({error})")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 22] = [
        0x03, 0x40, 0x65, 0x58, // 3 words of options, critical, an Ethernet frame
        0x00, 0x00, 0x64, 0x00, // identifier 100
        0x01, 0x02, 0x81, 0x01, 0xde, 0xad, 0xbe, 0xef, // class 0x102, type 0x81, 4 bytes
        0x00, 0x01, 0x02, 0x00, // class 1, type 2, no data
        0xaa, 0xff, // payload
    ];

    fn repr() -> Repr {
        Repr {
            vni: 100,
            protocol: EtherType::ETHERNET,
            control: false,
            critical: true,
            options: OptionBytes::new(&BYTES[8..20]).unwrap(),
        }
    }

    #[test]
    fn test_deconstruct() {
        let packet = Packet::new_checked(BYTES).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(repr()));
        assert_eq!(packet.payload(), [0xaa, 0xff]);
        assert_eq!(
            packet.to_string(),
            "GENEVE vni 100 type 0x6558 option 0x0102:0x81 [de, ad, be, ef] option 0x0001:0x02 []"
        );
    }

    #[test]
    fn test_construct() {
        let mut bytes = [0x5a; 22];
        bytes[20..].copy_from_slice(&[0xaa, 0xff]);
        repr().emit(&mut Packet::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn test_malformed_option_ends_the_walk() {
        let mut bytes = BYTES;
        bytes[11] = 0x1f;
        let options: Vec<_> =
            Packet::new_checked(&bytes).unwrap().options().map(|o| o.is_ok()).collect();
        assert_eq!(options, [false]);
    }

    #[test]
    fn test_version_refused() {
        let mut bytes = BYTES;
        bytes[0] |= 0x40;
        assert!(matches!(Packet::new_checked(bytes), Err(ParseError::Field { .. })));
    }

    #[test]
    fn test_truncated() {
        crate::testing::every_truncation(&BYTES, 20, |b| {
            Packet::new_checked(b).map(|p| (p.to_string(), p.payload().len()))
        });
    }
}
