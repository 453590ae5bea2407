//! MPLS label stack entries (RFC 3032).

use std::fmt;

use super::bytes::{read_u32, view, write_u32};
use crate::error::{LayerKind, ParseError, check_fits};

view! {
    /// A view of one label stack entry and what follows.
    Entry
}

mod field {
    use crate::wire::bytes::FieldRange;

    pub const ENTRY: FieldRange = 0..4;

    /// Masks within the entry.
    pub const LABEL: u32 = 0xffff_f000;
    pub const TRAFFIC_CLASS: u32 = 0x0000_0e00;
    pub const BOTTOM: u32 = 0x0000_0100;
    pub const TTL: u32 = 0x0000_00ff;
}

/// Length of an entry in bytes.
pub const HEADER_LEN: usize = field::ENTRY.end;

/// Label at the bottom that says "IPv4 follows" (RFC 3032 §2.1).
pub const LABEL_IPV4: u32 = 0;
/// Label at the bottom that says "IPv6 follows" (RFC 3032 §2.1).
pub const LABEL_IPV6: u32 = 2;

impl<T: AsRef<[u8]>> Entry<T> {
    /// Checks that the entry is there.
    ///
    /// # Errors
    /// Fewer than [`HEADER_LEN`] bytes.
    pub fn check_len(&self) -> Result<(), ParseError> {
        check_fits(LayerKind::Mpls, HEADER_LEN, self.as_bytes().len())
    }

    fn entry(&self) -> u32 {
        read_u32(self.as_bytes(), field::ENTRY)
    }

    /// Label, 20 bits.
    pub fn label(&self) -> u32 {
        self.entry() >> 12
    }

    /// Traffic class, `0..=7` (RFC 5462).
    pub fn traffic_class(&self) -> u8 {
        ((self.entry() & field::TRAFFIC_CLASS) >> 9) as u8
    }

    /// Whether this is the last entry of the stack.
    pub fn is_bottom(&self) -> bool {
        self.entry() & field::BOTTOM != 0
    }

    /// Time to live in hops.
    pub fn ttl(&self) -> u8 {
        (self.entry() & field::TTL) as u8
    }

    /// The bytes after the entry.
    pub fn payload(&self) -> &[u8] {
        &self.as_bytes()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Entry<T> {
    fn set(&mut self, mask: u32, value: u32) {
        let entry = (self.entry() & !mask) | (value & mask);
        write_u32(self.buffer.as_mut(), field::ENTRY, entry);
    }

    /// Sets the label; the low 20 bits are taken.
    pub fn set_label(&mut self, label: u32) {
        self.set(field::LABEL, label << 12);
    }

    /// Sets the traffic class; the low 3 bits are taken.
    pub fn set_traffic_class(&mut self, traffic_class: u8) {
        self.set(field::TRAFFIC_CLASS, u32::from(traffic_class) << 9);
    }

    /// Sets whether this is the last entry.
    pub fn set_bottom(&mut self, bottom: bool) {
        self.set(field::BOTTOM, u32::from(bottom) << 8);
    }

    /// Sets the time to live.
    pub fn set_ttl(&mut self, ttl: u8) {
        self.set(field::TTL, ttl.into());
    }
}

/// One label stack entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Label, `0..=0xfffff`.
    pub label: u32,
    /// Traffic class, `0..=7`.
    pub traffic_class: u8,
    /// Last entry of the stack.
    pub bottom: bool,
    /// Time to live in hops.
    pub ttl: u8,
}

impl Default for Repr {
    fn default() -> Self {
        Self { label: 0, traffic_class: 0, bottom: true, ttl: 64 }
    }
}

impl Repr {
    /// Reads an entry.
    ///
    /// # Errors
    /// Those of [`Entry::check_len`].
    pub fn parse<T: AsRef<[u8]>>(entry: &Entry<T>) -> Result<Self, ParseError> {
        entry.check_len()?;
        Ok(Self {
            label: entry.label(),
            traffic_class: entry.traffic_class(),
            bottom: entry.is_bottom(),
            ttl: entry.ttl(),
        })
    }

    /// Length of the entry in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the entry.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, entry: &mut Entry<T>) {
        entry.set_label(self.label);
        entry.set_traffic_class(self.traffic_class);
        entry.set_bottom(self.bottom);
        entry.set_ttl(self.ttl);
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Entry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MPLS label {} class {}", self.label(), self.traffic_class())?;
        write!(f, " ttl {}{}", self.ttl(), if self.is_bottom() { " bottom" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 4] = [0x3e, 0x8a, 0x1b, 0x40]; // label 256161, class 5, bottom, ttl 64

    fn repr() -> Repr {
        Repr { label: 256_161, traffic_class: 5, bottom: true, ttl: 64 }
    }

    #[test]
    fn test_deconstruct() {
        let entry = Entry::new_checked(BYTES).unwrap();
        assert_eq!(Repr::parse(&entry), Ok(repr()));
        assert_eq!(entry.to_string(), "MPLS label 256161 class 5 ttl 64 bottom");
    }

    #[test]
    fn test_construct() {
        let mut bytes = [0x5a; 4];
        repr().emit(&mut Entry::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn test_truncated() {
        crate::testing::every_truncation(&BYTES, HEADER_LEN, |b| {
            Entry::new_checked(b).map(|entry| entry.to_string())
        });
    }
}
