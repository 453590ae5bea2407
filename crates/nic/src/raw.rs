//! The item `raw`: bytes of a frame at offsets, which rules match.
//!
//! The bytes are packed into words of up to eight successive bytes. The places of the words are
//! part of a rule's mask ([`RawWords`]). The words of a packet are read into a key of their own
//! only when a table with such a mask is asked.

use niclab_packet::key::{End, Ends, KEY_WORDS, Key};

use crate::rule::MaskedKey;

/// Bytes that count, by the place that the offset is counted from and the offset; each with its
/// value and the bits of it that count.
pub(crate) type RawBytes = std::collections::BTreeMap<(End, i16), (u8, u8)>;

/// One entry of [`RawBytes`].
pub(crate) type RawByte = ((End, i16), (u8, u8));

/// Where a word of bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RawWord {
    end: End,
    /// Number of bytes, 1 to 8; 0 if there is no word.
    len: u8,
    /// Offset of the first byte.
    offset: i16,
}

/// The words of a pattern, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawWords([RawWord; KEY_WORDS]);

impl Default for RawWords {
    fn default() -> RawWords {
        RawWords([RawWord { end: End::Frame, len: 0, offset: 0 }; KEY_WORDS])
    }
}

impl std::hash::Hash for RawWords {
    /// Hashes only the words that are used: most patterns have none.
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.words().iter().for_each(|word| word.hash(state));
    }
}

impl RawWords {
    /// Packs bytes into words; the same bytes always give the same words. Returns the words, the
    /// key of their values, and the number of words, of which only the first eight are packed.
    pub(crate) fn pack(bytes: &RawBytes) -> (RawWords, MaskedKey, usize) {
        let (mut words, mut key, mut count) = (RawWords::default(), MaskedKey::default(), 0);
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
                key.value.0[at] |= u64::from(value & mask) << shift;
                key.mask.0[at] |= u64::from(mask) << shift;
            }
        }
        (words, key, count)
    }

    /// The bytes that count in a key of these words.
    pub(crate) fn bytes(&self, key: &MaskedKey) -> Vec<RawByte> {
        let words = self.words().iter().zip(key.value.0.iter().zip(key.mask.0));
        let bytes = words.flat_map(|(word, (value, mask))| {
            let bytes = value.to_le_bytes().into_iter().zip(mask.to_le_bytes());
            bytes.zip(word.offset..).map(|(byte, offset)| ((word.end, offset), byte))
        });
        bytes.filter(|(_, (_, mask))| *mask != 0).collect()
    }

    /// The words that are used.
    fn words(&self) -> &[RawWord] {
        &self.0[..self.0.iter().take_while(|word| word.len > 0).count()]
    }

    /// Whether there are no words.
    pub(crate) fn is_empty(&self) -> bool {
        self.0[0].len == 0
    }

    /// The words of a frame with these ends of headers; `None` if the frame lacks some of them.
    pub(crate) fn read(&self, frame: &[u8], ends: &Ends) -> Option<Key> {
        let mut key = Key::default();
        for (value, word) in key.0.iter_mut().zip(self.words()) {
            let start = i64::from(ends.at(word.end)?) + i64::from(word.offset);
            let bytes = frame.get(usize::try_from(start).ok()?..)?;
            let bytes = bytes.get(..usize::from(word.len))?;
            *value = bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        }
        Some(key)
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
        let (words, key, count) = RawWords::pack(&bytes);
        let word = |end, len, offset| RawWord { end, len, offset };
        let expected = [
            word(End::Frame, 1, 3),
            word(End::Frame, 1, 14),
            word(End::Ip, 8, -2),
            word(End::Ip, 2, 6),
        ];
        assert_eq!((words.words(), count), (&expected[..], 4));
        assert_eq!(key.value.0[..2], [0x0f, u64::from(b'x')]);
        assert_eq!(key.value.0[2].to_le_bytes(), *b"abcdefgh");
        assert_eq!(key.mask.0[..4], [0x0f, 0xff, u64::MAX, 0xffff]);

        let many: RawBytes = (0..9).flat_map(|at| all(End::Frame, at * 20, b"a")).collect();
        assert_eq!(RawWords::pack(&many).2, 9, "all are counted");
    }
}
