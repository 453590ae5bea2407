//! An answer of several datagrams, put together.

/// Longest text of a datagram of several, bytes: memcached's own have 1,400 with their frames
/// (its `protocol.txt`, "UDP protocol").
const PART_LEN_MAX: usize = 1440;
/// Datagrams of an answer at most: the longest value, with room for what is around it.
const PARTS_MAX: u16 = 800;

const _: () = assert!(PARTS_MAX as usize * 1392 > super::VALUE_LEN_MAX as usize + 4096);

/// The received parts of an answer. Its memory is reused for the next one.
#[derive(Debug, Default)]
pub struct AnswerAssembly {
    /// Datagrams that it has.
    count: u16,
    /// Those that have come.
    came: u16,
    /// Length of each, 0 for one that has not come.
    lens: Vec<usize>,
    bytes: Vec<u8>,
}

/// The role of a datagram in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramRole {
    /// All that was missing.
    Last,
    More,
    /// It had come before.
    Again,
    /// It is none of it.
    Foreign,
}

impl AnswerAssembly {
    /// Puts a datagram to its place.
    pub fn add(&mut self, part: u16, count: u16, text: &[u8]) -> DatagramRole {
        let is_first = self.came == 0;
        let fits = part < count && count <= PARTS_MAX && (is_first || count == self.count);
        if !fits || text.is_empty() || text.len() > PART_LEN_MAX {
            return DatagramRole::Foreign;
        }
        if is_first {
            self.count = count;
            self.lens.clear();
            self.lens.resize(count.into(), 0);
            let len = usize::from(count) * PART_LEN_MAX;
            if self.bytes.len() < len {
                self.bytes.resize(len, 0);
            }
        }
        let part = usize::from(part);
        if self.lens[part] > 0 {
            return DatagramRole::Again;
        }
        self.lens[part] = text.len();
        self.bytes[part * PART_LEN_MAX..][..text.len()].copy_from_slice(text);
        self.came += 1;
        if self.came == self.count { DatagramRole::Last } else { DatagramRole::More }
    }

    /// The text of all datagrams, of which all have come.
    pub fn whole(&mut self) -> &[u8] {
        let mut end = 0;
        for (part, len) in self.lens.iter().enumerate() {
            let start = part * PART_LEN_MAX;
            self.bytes.copy_within(start..start + len, end);
            end += len;
        }
        &self.bytes[..end]
    }

    /// Ready for another answer.
    pub fn clear(&mut self) {
        self.came = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_any_order() {
        let mut parts = AnswerAssembly::default();
        for _ in 0..2 {
            assert_eq!(parts.add(2, 3, b"c"), DatagramRole::More);
            assert_eq!(parts.add(0, 3, &[b'a'; 1400]), DatagramRole::More);
            assert_eq!(parts.add(0, 3, &[b'a'; 1400]), DatagramRole::Again);
            assert_eq!(parts.add(1, 4, b"x"), DatagramRole::Foreign);
            assert_eq!(parts.add(3, 3, b"x"), DatagramRole::Foreign);
            assert_eq!(parts.add(1, 3, &[b'x'; 1441]), DatagramRole::Foreign);
            assert_eq!(parts.add(1, 3, b""), DatagramRole::Foreign);
            assert_eq!(parts.add(1, 3, b"bb"), DatagramRole::Last);
            assert_eq!(parts.whole(), [&[b'a'; 1400][..], b"bb", b"c"].concat());
            parts.clear();
        }
        assert_eq!(parts.add(0, 0, b"x"), DatagramRole::Foreign);
        assert_eq!(parts.add(0, PARTS_MAX + 1, b"x"), DatagramRole::Foreign);
    }
}
