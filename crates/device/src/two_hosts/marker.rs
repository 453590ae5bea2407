//! Markers: frames that two hosts align their clocks by.
//!
//! A UDP datagram over IPv4 of 60 bytes without FCS, between addresses that are for documentation
//! (RFC 5737), so that no rule of a load's flows matches it:
//!
//! | bytes | content |
//! |---|---|
//! | 0..12 | MAC addresses |
//! | 14..34 | IPv4 from 192.0.2.1 to 192.0.2.2 |
//! | 34..42 | UDP to the discard port (RFC 863) |
//! | 42..50 | signature |
//! | 50..58 | number, little endian |

use niclab_packet::checksum;

/// Length without FCS, bytes: the smallest frame.
pub const MARKER_LEN: usize = 60;

/// IPv4 and UDP, with room for the checksum of the header; UDP has none (RFC 768).
const HEADERS: [u8; 28] =
    [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0, 9, 0, 9, 0, 26, 0, 0];
const SIGNATURE: [u8; 8] = *b"nlmarker";

/// A marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Its number.
    pub number: u64,
}

impl Marker {
    /// Its frame, between these MAC addresses.
    pub fn frame(self, destination: [u8; 6], source: [u8; 6]) -> [u8; MARKER_LEN] {
        let mut frame = [0; MARKER_LEN];
        frame[..6].copy_from_slice(&destination);
        frame[6..12].copy_from_slice(&source);
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14..42].copy_from_slice(&HEADERS);
        let sum = checksum::checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame[42..50].copy_from_slice(&SIGNATURE);
        frame[50..58].copy_from_slice(&self.number.to_le_bytes());
        frame
    }

    /// The marker in a frame; `None` in another frame.
    pub fn of_frame(frame: &[u8]) -> Option<Marker> {
        let is_one = frame.get(12..14)? == [0x08, 0x00] && frame.get(42..50)? == SIGNATURE;
        let number = frame.get(50..58)?.first_chunk()?;
        is_one.then(|| Marker { number: u64::from_le_bytes(*number) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_survives_its_frame_and_other_frames_are_none() {
        let frame = Marker { number: 77 }.frame([1; 6], [2; 6]);
        assert_eq!(Marker::of_frame(&frame), Some(Marker { number: 77 }));
        for at in (12..14).chain(42..50) {
            let mut other = frame;
            other[at] ^= 1;
            assert_eq!(Marker::of_frame(&other), None, "{at}");
        }
        for len in 0..58 {
            assert_eq!(Marker::of_frame(&frame[..len]), None);
        }
        assert!(checksum::is_valid(&frame[14..34]));
    }
}
