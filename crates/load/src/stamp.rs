//! The stamp in each generated frame: which flow, which of it, when it was due, how late it left.
//!
//! Eighteen bytes at the end of the frame, so that the smallest UDP frame over IPv4 (64 bytes with
//! FCS) holds it:
//!
//! | bytes | content |
//! |---|---|
//! | 0..2 | signature |
//! | 2..6 | flow, little endian |
//! | 6..10 | sequence number in the flow, little endian, wraps |
//! | 10..16 | planned departure, nanoseconds from the start of the trial, little endian |
//! | 16..18 | lateness of the departure in units of 64 ns, saturating (4.2 ms), little endian |

/// Length of a stamp, bytes.
pub const STAMP_LEN: usize = 18;

/// Marks a frame as ours.
const SIGNATURE: u16 = 0x6c6e;

/// Lateness is kept in units of 2^6 ns.
const LATE_SHIFT: u32 = 6;

/// The stamp that a generator writes into a frame and a sink reads from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Index of the flow in its flow set.
    pub flow: u32,
    /// Number of the frame in its flow.
    pub sequence: u32,
    /// When it was due, nanoseconds from the start of the trial, below 2^48 (78 hours).
    pub planned_ns: u64,
    /// How late it left, nanoseconds; kept to 64 ns, saturating at 4.2 ms.
    pub late_ns: u64,
}

impl Stamp {
    /// The bytes of the stamp.
    #[inline]
    pub fn to_bytes(self) -> [u8; STAMP_LEN] {
        let mut bytes = [0; STAMP_LEN];
        bytes[0..2].copy_from_slice(&SIGNATURE.to_le_bytes());
        bytes[2..6].copy_from_slice(&self.flow.to_le_bytes());
        bytes[6..10].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[10..18].copy_from_slice(&self.times().to_le_bytes());
        bytes
    }

    /// Partial one's complement sum of the bytes of a stamp, in the order of memory (RFC 1071
    /// §2(B)): the words of 32 and 64 bits stand for their halves.
    #[inline]
    pub fn sum(self) -> u64 {
        let times = self.times();
        let words = [u64::from(SIGNATURE.to_le()), u64::from(self.flow), u64::from(self.sequence)];
        words.iter().sum::<u64>() + (times & 0xffff_ffff) + (times >> 32)
    }

    /// The stamp as it stands in a frame behind two other bytes: six bytes, eight, four.
    #[inline]
    pub fn words(self) -> [u64; 3] {
        let times = self.times();
        let first = u64::from(SIGNATURE) | u64::from(self.flow) << 16;
        [first, u64::from(self.sequence) | times << 32, times >> 32]
    }

    /// Planned departure and lateness in one word.
    #[inline]
    fn times(self) -> u64 {
        let late = (self.late_ns >> LATE_SHIFT).min(u64::from(u16::MAX));
        (self.planned_ns & 0xffff_ffff_ffff) | late << 48
    }

    /// Reads a stamp; `None` where the signature is another's.
    #[inline]
    pub fn from_bytes(bytes: &[u8; STAMP_LEN]) -> Option<Stamp> {
        let [s0, s1, f0, f1, f2, f3, q0, q1, q2, q3, times @ ..] = *bytes;
        let times = u64::from_le_bytes(times);
        (u16::from_le_bytes([s0, s1]) == SIGNATURE).then(|| Stamp {
            flow: u32::from_le_bytes([f0, f1, f2, f3]),
            sequence: u32::from_le_bytes([q0, q1, q2, q3]),
            planned_ns: times & 0xffff_ffff_ffff,
            late_ns: times >> 48 << LATE_SHIFT,
        })
    }

    /// Reads the stamp at the end of a frame.
    #[inline]
    pub fn of_frame(frame: &[u8]) -> Option<Stamp> {
        frame.last_chunk::<STAMP_LEN>().and_then(Stamp::from_bytes)
    }
}

#[cfg(test)]
mod tests {
    use niclab_packet::checksum;

    use super::*;

    #[test]
    fn a_stamp_survives_the_frame_and_foreign_bytes_are_none() {
        let stamp = Stamp { flow: 7, sequence: u32::MAX, planned_ns: (1 << 48) - 1, late_ns: 640 };
        let mut frame = vec![0xff; 60];
        frame[42..].copy_from_slice(&stamp.to_bytes());
        assert_eq!(Stamp::of_frame(&frame), Some(stamp));
        frame[42] ^= 1;
        assert_eq!(Stamp::of_frame(&frame), None);
        assert_eq!(Stamp::of_frame(&frame[..17]), None);
    }

    #[test]
    fn the_sum_is_that_of_the_bytes() {
        for planned_ns in [0, 1, 0x1234_5678_9abc, u64::MAX] {
            let stamp =
                Stamp { flow: 0xfedc_ba98, sequence: 0x89ab_cdef, planned_ns, late_ns: 700 };
            let sum = checksum::sum(&stamp.to_bytes());
            assert_eq!(checksum::fold(stamp.sum()).to_be(), checksum::fold(sum));
        }
    }

    #[test]
    fn lateness_saturates() {
        let stamp = Stamp { flow: 0, sequence: 0, planned_ns: 0, late_ns: u64::MAX };
        let back = Stamp::from_bytes(&stamp.to_bytes()).unwrap();
        assert_eq!(back.late_ns, 65_535 * 64);
    }
}
