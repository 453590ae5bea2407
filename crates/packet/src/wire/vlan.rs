//! VLAN tags: IEEE 802.1Q, and 802.1ad where two follow each other.
//!
//! A tag is seen as the 4 bytes *after* the type number that announces it: tag control, then the
//! type number of what follows. So which kind of tag it is stands in the header before.

use std::fmt;

use super::EtherType;
use super::bytes::{read_u16, view, write_u16};
use crate::error::{LayerKind, ParseError, check_fits};

view! {
    /// A view of one VLAN tag and what follows.
    Tag
}

mod field {
    use crate::wire::bytes::FieldRange;

    pub const CONTROL: FieldRange = 0..2;
    pub const ETHER_TYPE: FieldRange = 2..4;
}

/// Length of a tag in bytes.
pub const HEADER_LEN: usize = field::ETHER_TYPE.end;

impl<T: AsRef<[u8]>> Tag<T> {
    /// Checks that the tag is there.
    ///
    /// # Errors
    /// Fewer than [`HEADER_LEN`] bytes.
    pub fn check_len(&self) -> Result<(), ParseError> {
        check_fits(LayerKind::Vlan, HEADER_LEN, self.as_bytes().len())
    }

    fn control(&self) -> u16 {
        read_u16(self.as_bytes(), field::CONTROL)
    }

    /// VLAN identifier, `0..=4095`; 0 means "priority only", 4095 is reserved.
    pub fn id(&self) -> u16 {
        self.control() & 0x0fff
    }

    /// Priority code point, `0..=7`.
    pub fn priority(&self) -> u8 {
        (self.control() >> 13) as u8
    }

    /// Drop eligible indicator.
    pub fn drop_eligible(&self) -> bool {
        self.control() & 0x1000 != 0
    }

    /// What follows the tag.
    pub fn ether_type(&self) -> EtherType {
        EtherType(read_u16(self.as_bytes(), field::ETHER_TYPE))
    }

    /// The bytes after the tag.
    pub fn payload(&self) -> &[u8] {
        &self.as_bytes()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Tag<T> {
    fn set_control(&mut self, mask: u16, value: u16) {
        let control = (self.control() & !mask) | (value & mask);
        write_u16(self.buffer.as_mut(), field::CONTROL, control);
    }

    /// Sets the identifier; the low 12 bits are taken.
    pub fn set_id(&mut self, id: u16) {
        self.set_control(0x0fff, id);
    }

    /// Sets the priority; the low 3 bits are taken.
    pub fn set_priority(&mut self, priority: u8) {
        self.set_control(0xe000, u16::from(priority) << 13);
    }

    /// Sets the drop eligible indicator.
    pub fn set_drop_eligible(&mut self, eligible: bool) {
        self.set_control(0x1000, u16::from(eligible) << 12);
    }

    /// Sets what follows the tag.
    pub fn set_ether_type(&mut self, ether_type: EtherType) {
        write_u16(self.buffer.as_mut(), field::ETHER_TYPE, ether_type.0);
    }
}

/// One VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Type number that announces the tag, in the header before: [`EtherType::VLAN`],
    /// [`EtherType::VLAN_SERVICE`] or [`EtherType::VLAN_OLD`].
    pub tag_type: EtherType,
    /// Identifier, `0..=4095`.
    pub id: u16,
    /// Priority, `0..=7`.
    pub priority: u8,
    /// Drop eligible.
    pub drop_eligible: bool,
    /// What follows.
    pub ether_type: EtherType,
}

impl Default for Repr {
    fn default() -> Self {
        Self {
            tag_type: EtherType::VLAN,
            id: 0,
            priority: 0,
            drop_eligible: false,
            ether_type: EtherType::default(),
        }
    }
}

impl Repr {
    /// Reads a tag that was announced by `tag_type`.
    ///
    /// # Errors
    /// Those of [`Tag::check_len`].
    pub fn parse<T: AsRef<[u8]>>(tag: &Tag<T>, tag_type: EtherType) -> Result<Self, ParseError> {
        tag.check_len()?;
        Ok(Self {
            tag_type,
            id: tag.id(),
            priority: tag.priority(),
            drop_eligible: tag.drop_eligible(),
            ether_type: tag.ether_type(),
        })
    }

    /// Length of the tag in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the tag; `tag_type` belongs to the header before and is not written.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, tag: &mut Tag<T>) {
        tag.set_id(self.id);
        tag.set_priority(self.priority);
        tag.set_drop_eligible(self.drop_eligible);
        tag.set_ether_type(self.ether_type);
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Tag<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VLAN {} priority {}", self.id(), self.priority())?;
        if self.drop_eligible() {
            write!(f, " drop-eligible")?;
        }
        write!(f, " type {}", self.ether_type())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 4] = [0xb0, 0x64, 0x86, 0xdd]; // priority 5, drop eligible, id 100, IPv6

    fn repr() -> Repr {
        Repr {
            tag_type: EtherType::VLAN_SERVICE,
            id: 100,
            priority: 5,
            drop_eligible: true,
            ether_type: EtherType::IPV6,
        }
    }

    #[test]
    fn test_deconstruct() {
        let tag = Tag::new_checked(BYTES).unwrap();
        assert_eq!(Repr::parse(&tag, EtherType::VLAN_SERVICE), Ok(repr()));
        assert_eq!(tag.to_string(), "VLAN 100 priority 5 drop-eligible type 0x86dd");
    }

    #[test]
    fn test_construct() {
        let mut bytes = [0x5a; 4];
        repr().emit(&mut Tag::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn test_truncated() {
        crate::testing::every_truncation(&BYTES, HEADER_LEN, |b| {
            Tag::new_checked(b).map(|tag| tag.to_string())
        });
    }
}
