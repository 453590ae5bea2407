//! TCP segments (RFC 9293) with options.

use std::fmt;

use super::OptionBytes;
use super::bytes::{read_u16, read_u32, view, write_u16, write_u32};
use crate::checksum;
use crate::error::{LayerKind, ParseError, check_fits};
use crate::limits::OPTIONS_LEN_MAX;

view! {
    /// A view of a TCP segment.
    Segment
}

mod field {
    use crate::wire::bytes::FieldRange;

    pub const SRC_PORT: FieldRange = 0..2;
    pub const DST_PORT: FieldRange = 2..4;
    pub const SEQUENCE: FieldRange = 4..8;
    pub const ACKNOWLEDGEMENT: FieldRange = 8..12;
    pub const WORDS: usize = 12;
    pub const FLAGS: usize = 13;
    pub const WINDOW: FieldRange = 14..16;
    pub const CHECKSUM: FieldRange = 16..18;
    pub const URGENT: FieldRange = 18..20;
}

/// Length of the header without options in bytes.
pub const HEADER_LEN: usize = field::URGENT.end;

/// The eight control bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number counts.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer counts.
    pub const URG: Self = Self(0x20);
    /// Congestion echo (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
        let set = (0..8).filter(|bit| self.0 >> bit & 1 != 0);
        for (n, bit) in set.enumerate() {
            write!(f, "{}{}", if n == 0 { "" } else { "," }, NAMES[bit])?;
        }
        if self.0 == 0 { write!(f, "none") } else { Ok(()) }
    }
}

impl<T: AsRef<[u8]>> Segment<T> {
    /// Checks the header and that its options are there, not the options themselves.
    ///
    /// # Errors
    /// Bytes that end in the header; a header length below [`HEADER_LEN`].
    pub fn check_len(&self) -> Result<(), ParseError> {
        let available_len = self.as_bytes().len();
        check_fits(LayerKind::Tcp, HEADER_LEN, available_len)?;
        if self.header_len() < HEADER_LEN {
            return Err(ParseError::Field {
                layer: LayerKind::Tcp,
                field: "header_len",
                value: self.header_len() as u32,
                allowed: "20 or more",
            });
        }
        check_fits(LayerKind::Tcp, self.header_len(), available_len)
    }

    /// Port of the sender.
    pub fn src_port(&self) -> u16 {
        read_u16(self.as_bytes(), field::SRC_PORT)
    }

    /// Port of the receiver.
    pub fn dst_port(&self) -> u16 {
        read_u16(self.as_bytes(), field::DST_PORT)
    }

    /// Sequence number.
    pub fn sequence(&self) -> u32 {
        read_u32(self.as_bytes(), field::SEQUENCE)
    }

    /// Acknowledgement number.
    pub fn acknowledgement(&self) -> u32 {
        read_u32(self.as_bytes(), field::ACKNOWLEDGEMENT)
    }

    /// Length of header and options in bytes, `20..=60`.
    pub fn header_len(&self) -> usize {
        usize::from(self.as_bytes()[field::WORDS] >> 4) * 4
    }

    /// Control bits.
    pub fn flags(&self) -> Flags {
        Flags(self.as_bytes()[field::FLAGS])
    }

    /// Window, unscaled.
    pub fn window(&self) -> u16 {
        read_u16(self.as_bytes(), field::WINDOW)
    }

    /// The checksum field.
    pub fn checksum(&self) -> u16 {
        read_u16(self.as_bytes(), field::CHECKSUM)
    }

    /// Urgent pointer.
    pub fn urgent(&self) -> u16 {
        read_u16(self.as_bytes(), field::URGENT)
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

    /// Whether the checksum is right; `pseudo` is the partial of the pseudo header. The view must
    /// end where the segment does.
    pub fn is_checksum_valid(&self, pseudo: u64) -> bool {
        checksum::fold(pseudo + checksum::sum(self.as_bytes())) == 0xffff
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Segment<T> {
    /// Sets the port of the sender.
    pub fn set_src_port(&mut self, port: u16) {
        write_u16(self.buffer.as_mut(), field::SRC_PORT, port);
    }

    /// Sets the port of the receiver.
    pub fn set_dst_port(&mut self, port: u16) {
        write_u16(self.buffer.as_mut(), field::DST_PORT, port);
    }

    /// Sets the sequence number.
    pub fn set_sequence(&mut self, sequence: u32) {
        write_u32(self.buffer.as_mut(), field::SEQUENCE, sequence);
    }

    /// Sets the acknowledgement number.
    pub fn set_acknowledgement(&mut self, acknowledgement: u32) {
        write_u32(self.buffer.as_mut(), field::ACKNOWLEDGEMENT, acknowledgement);
    }

    /// Sets the length of header and options in bytes, `20..=60`, and clears the reserved bits.
    pub fn set_header_len(&mut self, len: usize) {
        self.buffer.as_mut()[field::WORDS] = ((len / 4) << 4) as u8;
    }

    /// Sets the control bits.
    pub fn set_flags(&mut self, flags: Flags) {
        self.buffer.as_mut()[field::FLAGS] = flags.0;
    }

    /// Sets the window.
    pub fn set_window(&mut self, window: u16) {
        write_u16(self.buffer.as_mut(), field::WINDOW, window);
    }

    /// Sets the checksum field.
    pub fn set_checksum(&mut self, checksum: u16) {
        write_u16(self.buffer.as_mut(), field::CHECKSUM, checksum);
    }

    /// Sets the urgent pointer.
    pub fn set_urgent(&mut self, urgent: u16) {
        write_u16(self.buffer.as_mut(), field::URGENT, urgent);
    }

    /// The option area, to change.
    pub fn option_bytes_mut(&mut self) -> &mut [u8] {
        let len = self.header_len();
        &mut self.buffer.as_mut()[HEADER_LEN..len]
    }

    /// The bytes after header and options, to change.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let len = self.header_len();
        &mut self.buffer.as_mut()[len..]
    }

    /// Computes the checksum; `pseudo` is the partial of the pseudo header. The view must end
    /// where the segment does.
    pub fn fill_checksum(&mut self, pseudo: u64) {
        self.set_checksum(0);
        let covered = checksum::sum(self.as_bytes());
        self.set_checksum(checksum::finish(pseudo + covered));
    }
}

/// One TCP option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Largest segment the sender takes, in bytes (RFC 9293 §3.7.1).
    MaxSegmentSize(u16),
    /// Filler of one byte.
    NoOperation,
    /// Selective acknowledgements are understood (RFC 2018).
    SackPermitted,
    /// Time stamp and the echo of the peer's (RFC 7323).
    Timestamps {
        /// Time stamp of the sender.
        value: u32,
        /// Last time stamp of the peer.
        echo: u32,
    },
    /// Any other option.
    Unknown {
        /// Its number.
        kind: u8,
        /// Its bytes after kind and length.
        data: &'a [u8],
    },
    /// Binary logarithm of the factor of the window (RFC 7323).
    WindowScale(u8),
}

/// The options of a segment, in their order; see [`Segment::options`].
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    fn known(kind: u8, data: &'a [u8]) -> TcpOption<'a> {
        match (kind, data.len()) {
            (2, 2) => TcpOption::MaxSegmentSize(read_u16(data, 0..2)),
            (3, 1) => TcpOption::WindowScale(data[0]),
            (4, 0) => TcpOption::SackPermitted,
            (8, 8) => {
                TcpOption::Timestamps { value: read_u32(data, 0..4), echo: read_u32(data, 4..8) }
            }
            _ => TcpOption::Unknown { kind, data },
        }
    }

    fn with_length(&mut self) -> Result<TcpOption<'a>, ParseError> {
        let rest = std::mem::take(&mut self.rest);
        check_fits(LayerKind::Tcp, 2, rest.len())?;
        let len = usize::from(rest[1]);
        if len < 2 {
            let (field, allowed) = ("option_len", "2 or more");
            let value = len as u32;
            return Err(ParseError::Field { layer: LayerKind::Tcp, field, value, allowed });
        }
        check_fits(LayerKind::Tcp, len, rest.len())?;
        self.rest = &rest[len..];
        Ok(Self::known(rest[0], &rest[2..len]))
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<TcpOption<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.rest.first()? {
            0 => None,
            1 => {
                self.rest = &self.rest[1..];
                Some(Ok(TcpOption::NoOperation))
            }
            _ => Some(self.with_length()),
        }
    }
}

/// A TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Port of the sender.
    pub src_port: u16,
    /// Port of the receiver.
    pub dst_port: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Control bits.
    pub flags: Flags,
    /// Window, unscaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options as bytes.
    pub options: OptionBytes<OPTIONS_LEN_MAX>,
}

impl Repr {
    /// Reads a header. The reserved bits are not kept.
    ///
    /// # Errors
    /// Those of [`Segment::check_len`].
    pub fn parse<T: AsRef<[u8]>>(segment: &Segment<T>) -> Result<Self, ParseError> {
        segment.check_len()?;
        Ok(Self {
            src_port: segment.src_port(),
            dst_port: segment.dst_port(),
            sequence: segment.sequence(),
            acknowledgement: segment.acknowledgement(),
            flags: segment.flags(),
            window: segment.window(),
            urgent: segment.urgent(),
            options: OptionBytes::new(segment.option_bytes()).unwrap_or_default(), // at most 40
        })
    }

    /// The reset that answers a segment of no connection (RFC 9293 §3.5.2, §3.10.7.1); `None` where
    /// the segment is one itself. The view must be checked, and end where the segment does.
    pub fn reset<T: AsRef<[u8]>>(segment: &Segment<T>) -> Option<Self> {
        let flags = segment.flags();
        if flags.contains(Flags::RST) {
            return None;
        }
        let ports = Self {
            src_port: segment.dst_port(),
            dst_port: segment.src_port(),
            flags: Flags::RST,
            ..Self::default()
        };
        if flags.contains(Flags::ACK) {
            return Some(Self { sequence: segment.acknowledgement(), ..ports });
        }
        // SYN and FIN count as a byte each (§3.4).
        let marks = [Flags::SYN, Flags::FIN].map(|mark| u32::from(flags.contains(mark)));
        let len = segment.payload().len() as u32 + marks[0] + marks[1];
        let acknowledgement = segment.sequence().wrapping_add(len);
        Some(Self { acknowledgement, flags: Flags::RST | Flags::ACK, ..ports })
    }

    /// Length of header and options in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes header and options, checksum 0.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, segment: &mut Segment<T>) {
        segment.set_src_port(self.src_port);
        segment.set_dst_port(self.dst_port);
        segment.set_sequence(self.sequence);
        segment.set_acknowledgement(self.acknowledgement);
        segment.set_header_len(self.buffer_len());
        segment.set_flags(self.flags);
        segment.set_window(self.window);
        segment.set_checksum(0);
        segment.set_urgent(self.urgent);
        segment.option_bytes_mut().copy_from_slice(self.options.as_slice());
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Segment<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TCP {} > {} {}", self.src_port(), self.dst_port(), self.flags())?;
        write!(f, " seq {} ack {}", self.sequence(), self.acknowledgement())?;
        write!(f, " window {}", self.window())?;
        for option in self.options() {
            match option {
                Ok(option) => write!(f, " {option:?}")?,
                Err(error) => write!(f, " ({error})")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::IpProtocol;

    const BYTES: [u8; 44] = [
        0xbf, 0x00, 0x00, 0x50, // 48896 > 80
        0x01, 0x23, 0x45, 0x67, // sequence
        0x89, 0xab, 0xcd, 0xef, // acknowledgement
        0xa0, 0x12, 0x01, 0x23, // 10 words, SYN and ACK, window 291
        0xb8, 0xa9, 0x02, 0x01, // checksum, urgent 513
        0x02, 0x04, 0x05, 0xb4, // largest segment 1460
        0x01, 0x03, 0x03, 0x07, // window scale 7
        0x04, 0x02, // selective acknowledgements
        0x08, 0x0a, 0x00, 0x00, 0x00, 0x2a, 0x00, 0x00, 0x00, 0x2b, // time stamps
        0xaa, 0x00, 0x00, 0xff, // payload
    ];

    fn repr() -> Repr {
        Repr {
            src_port: 48896,
            dst_port: 80,
            sequence: 0x0123_4567,
            acknowledgement: 0x89ab_cdef,
            flags: Flags::SYN | Flags::ACK,
            window: 0x0123,
            urgent: 0x0201,
            options: OptionBytes::new(&BYTES[20..40]).unwrap(),
        }
    }

    fn pseudo() -> u64 {
        let (src, dst) = ([192, 168, 1, 1].into(), [192, 168, 1, 2].into());
        checksum::pseudo_ipv4(src, dst, IpProtocol::TCP, 44)
    }

    #[test]
    fn test_deconstruct() {
        let segment = Segment::new_checked(BYTES).unwrap();
        assert_eq!(Repr::parse(&segment), Ok(repr()));
        assert_eq!(segment.payload(), [0xaa, 0x00, 0x00, 0xff]);
        let options: Result<Vec<_>, _> = segment.options().collect();
        assert_eq!(
            options.unwrap(),
            [
                TcpOption::MaxSegmentSize(1460),
                TcpOption::NoOperation,
                TcpOption::WindowScale(7),
                TcpOption::SackPermitted,
                TcpOption::Timestamps { value: 42, echo: 43 },
            ]
        );
        assert_eq!(
            segment.to_string(),
            "TCP 48896 > 80 SYN,ACK seq 19088743 ack 2309737967 window 291 MaxSegmentSize(1460) \
             NoOperation WindowScale(7) SackPermitted Timestamps { value: 42, echo: 43 }"
        );
    }

    #[test]
    fn test_construct() {
        let mut bytes = [0x5a; 44];
        let mut segment = Segment::new_unchecked(&mut bytes[..]);
        repr().emit(&mut segment);
        segment.payload_mut().copy_from_slice(&BYTES[40..]);
        segment.fill_checksum(pseudo());
        assert!(segment.is_checksum_valid(pseudo()));
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn test_malformed_options_end_the_walk() {
        let check = |option_bytes: &[u8], count| {
            let mut bytes = BYTES;
            bytes[20..20 + option_bytes.len()].copy_from_slice(option_bytes);
            let options: Vec<_> =
                Segment::new_checked(bytes).unwrap().options().map(|o| o.is_ok()).collect();
            assert_eq!(options.len(), count, "{option_bytes:?}");
            assert!(!options[count - 1]);
        };
        check(&[5, 0], 1); // a length of 0 must not loop
        check(&[1, 5, 1], 2);
        check(&[5, 21], 1);
        check(&[1; 19], 20);
    }

    #[test]
    fn test_reset() {
        let answered = |flags: Flags, sequence: u32, payload_len: usize| {
            let mut bytes = BYTES;
            let mut segment = Segment::new_unchecked(&mut bytes[..]);
            segment.set_flags(flags);
            segment.set_sequence(sequence);
            Repr::reset(&Segment::new_checked(&bytes[..40 + payload_len]).unwrap())
        };
        let check = |flags: Flags, sequence, payload_len, expected: (u32, u32, Flags)| {
            let reset = answered(flags, sequence, payload_len).unwrap();
            assert_eq!((reset.sequence, reset.acknowledgement, reset.flags), expected);
            assert_eq!((reset.src_port, reset.dst_port), (80, 48896));
            assert_eq!((reset.window, reset.urgent, reset.buffer_len()), (0, 0, HEADER_LEN));
        };
        let both = Flags::RST | Flags::ACK;
        check(Flags::SYN, 0x0123_4567, 0, (0, 0x0123_4568, both));
        check(Flags::SYN, u32::MAX, 0, (0, 0, both));
        check(Flags::SYN | Flags::FIN, 7, 4, (0, 13, both));
        check(Flags::FIN | Flags::PSH, 7, 0, (0, 8, both));
        check(Flags::default(), 7, 4, (0, 11, both));
        for flags in [Flags::ACK, Flags::ACK | Flags::SYN, Flags::ACK | Flags::FIN] {
            check(flags, 7, 4, (0x89ab_cdef, 0, Flags::RST));
        }
        for flags in [Flags::RST, Flags::RST | Flags::ACK, Flags::RST | Flags::SYN] {
            assert_eq!(answered(flags, 7, 4), None);
        }
    }

    #[test]
    fn test_header_len_refused() {
        let mut bytes = BYTES;
        bytes[12] = 0x40;
        assert!(matches!(Segment::new_checked(bytes), Err(ParseError::Field { .. })));
    }

    #[test]
    fn test_truncated() {
        crate::testing::every_truncation(&BYTES, 40, |b| {
            Segment::new_checked(b).map(|s| (s.to_string(), s.payload().len()))
        });
    }
}
