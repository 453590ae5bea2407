//! Bytes of a frame that rules look at by their offset: the item `raw`.
//!
//! They are packed into words, each of which has up to eight bytes that follow each other. The
//! places of the words are part of what a rule's mask picks ([`RawWords`]); the words of a packet
//! are read into a line of their own when a table with such a mask is asked, and only then.

use niclab_packet::key::{End, Ends, KEY_WORDS, Key};

use crate::rule::Masked;

/// Bytes that count, by where they are counted from and their offset from there, each with its
/// value and which bits of it count.
pub(crate) type RawBytes = std::collections::BTreeMap<(End, i16), (u8, u8)>;

/// One of them.
pub(crate) type RawByte = ((End, i16), (u8, u8));

/// Where a word of bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RawWord {
    end: End,
    /// Bytes of it, 1 to 8; 0 where there is no word.
    len: u8,
    /// Of its first byte.
    offset: i16,
}

/// Where the words of a pattern are, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawWords([RawWord; KEY_WORDS]);

impl Default for RawWords {
    fn default() -> RawWords {
        RawWords([RawWord { end: End::Frame, len: 0, offset: 0 }; KEY_WORDS])
    }
}

impl std::hash::Hash for RawWords {
    /// No more of it than there is: most patterns have none.
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.words().iter().for_each(|word| word.hash(state));
    }
}

impl RawWords {
    /// Packs bytes, of which the same always come to lie in the same words; the line of their
    /// values, and how many words there are, of which only the first eight are packed.
    pub(crate) fn pack(bytes: &RawBytes) -> (RawWords, Masked, usize) {
        let (mut words, mut line, mut count) = (RawWords::default(), Masked::default(), 0);
        let mut begun: Option<(End, i16)> = None;
        for (&(end, offset), &(value, mask)) in bytes.iter().filter(|(_, (_, mask))| *mask != 0) {
            let first = match begun {
                Some((same, first)) if same == end && offset - first < 8 => first,
                _ => {
                    count += 1;
                    begun = Some((end, offset));
                    offset
                }
            };
            let (at, shift) = (count - 1, 8 * (offset - first) as u32);
            if let Some(word) = words.0.get_mut(at) {
                *word = RawWord { end, len: (offset - first) as u8 + 1, offset: first };
                line.value.0[at] |= u64::from(value & mask) << shift;
                line.mask.0[at] |= u64::from(mask) << shift;
            }
        }
        (words, line, count)
    }

    /// The bytes that count, of a line of these words.
    pub(crate) fn bytes(&self, line: &Masked) -> Vec<RawByte> {
        let words = self.words().iter().zip(line.value.0.iter().zip(line.mask.0));
        let bytes = words.flat_map(|(word, (value, mask))| {
            let bytes = value.to_le_bytes().into_iter().zip(mask.to_le_bytes());
            bytes.zip(word.offset..).map(|(byte, offset)| ((word.end, offset), byte))
        });
        bytes.filter(|(_, (_, mask))| *mask != 0).collect()
    }

    /// The words there are.
    fn words(&self) -> &[RawWord] {
        &self.0[..self.0.iter().take_while(|word| word.len > 0).count()]
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0[0].len == 0
    }

    /// The words of a frame, whose headers end there; `None` where it does not have all of them.
    pub(crate) fn read(&self, frame: &[u8], ends: &Ends) -> Option<Key> {
        let mut line = Key::default();
        for (value, word) in line.0.iter_mut().zip(self.words()) {
            let start = i64::from(ends.at(word.end)?) + i64::from(word.offset);
            let bytes = frame.get(usize::try_from(start).ok()?..)?;
            let bytes = bytes.get(..usize::from(word.len))?;
            *value = bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_packed_from_the_first_that_counts_and_the_same_bytes_alike() {
        let all = |end, offset: i16, bytes: &[u8]| {
            let bytes = bytes.iter().enumerate();
            bytes.map(|(at, &byte)| ((end, offset + at as i16), (byte, 0xff))).collect::<Vec<_>>()
        };
        let mut bytes = RawBytes::from_iter(all(End::Ip, -2, b"abcdefghij"));
        bytes.extend(all(End::Frame, 14, b"x"));
        bytes.insert((End::Frame, 3), (0xff, 0x0f));
        bytes.insert((End::Frame, 12), (0xff, 0));
        let (words, line, count) = RawWords::pack(&bytes);
        let word = |end, len, offset| RawWord { end, len, offset };
        let expected = [
            word(End::Frame, 1, 3),
            word(End::Frame, 1, 14),
            word(End::Ip, 8, -2),
            word(End::Ip, 2, 6),
        ];
        assert_eq!((words.words(), count), (&expected[..], 4));
        assert_eq!(line.value.0[..2], [0x0f, u64::from(b'x')]);
        assert_eq!(line.value.0[2].to_le_bytes(), *b"abcdefgh");
        assert_eq!(line.mask.0[..4], [0x0f, 0xff, u64::MAX, 0xffff]);

        let many: RawBytes = (0..9).flat_map(|at| all(End::Frame, at * 20, b"a")).collect();
        assert_eq!(RawWords::pack(&many).2, 9, "all are counted");
    }
}
