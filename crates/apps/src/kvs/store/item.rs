//! The image of an item in the log: a header, the key, the value.
//!
//! The image is all that there is of an item: whoever writes one into the log, a core or a network
//! card, has the store only link it.

use crate::kvs::protocol::time::{Expiry, UnixTime};

/// Bytes of a header.
pub const HEADER_LEN: usize = 40;

/// Items begin at multiples of this, bytes.
pub const ALIGN: usize = 8;

/// Offsets of the fields of a header, little-endian.
mod field {
    use std::ops::Range;

    pub const HASH: Range<usize> = 0..8;
    pub const CAS: Range<usize> = 8..16;
    pub const FLAGS: Range<usize> = 16..20;
    pub const EXPIRY: Range<usize> = 20..24;
    pub const WRITTEN: Range<usize> = 24..28;
    pub const ACCESSED: Range<usize> = 28..32;
    pub const VALUE_LEN: Range<usize> = 32..36;
    pub const KEY_LEN: usize = 36;
    pub const MARKS: usize = 37;
    pub const USES: usize = 38;
}

/// Marks of an item, a bit each.
pub mod mark {
    /// It was read since it was stored.
    pub const FETCHED: u8 = 1;
    /// A client has declared it stale.
    pub const STALE: u8 = 4;
    /// A client has been told to fetch it anew.
    pub const WON: u8 = 8;
    /// Its key came in base64.
    pub const BINARY_KEY: u8 = 16;
    /// It is out of the index: its bytes are to be had.
    pub const DEAD: u8 = 32;
}

/// The header of an item: everything but key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Hash of the key.
    pub hash: u64,
    /// The number that changes with each change of the item.
    pub cas: u64,
    /// Flags of the client, kept beside the value.
    pub flags: u32,
    /// When it ends.
    pub expiry: Expiry,
    /// When it was stored.
    pub written: UnixTime,
    /// When it was last read, or stored.
    pub accessed: UnixTime,
    /// Bytes of the value.
    pub value_len: u32,
    /// Bytes of the key.
    pub key_len: u8,
    /// Bits of [`mark`].
    pub marks: u8,
    /// How often it was used of late.
    pub uses: UseCount,
}

/// Recent reads on a logarithmic scale: step n stands for about 2^(n/2) reads. Below 0: rounds
/// without a read.
///
/// It goes up by chance, the more seldom the higher it is (Morris, "Counting large numbers of
/// events in small registers", 1978): so it fits into a byte, and what is read all the time is
/// hardly ever written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UseCount(pub i8);

impl UseCount {
    /// Nothing is counted beyond it, a thousand million uses, nor below its negative.
    pub const MAX: i8 = 60;

    /// Whether one more use is counted, by a number drawn for it.
    #[inline]
    fn rises(self, drawn: u64) -> bool {
        let exponent = self.0.max(2) / 2 - 1;
        self.0 < UseCount::MAX && drawn.leading_zeros() >= exponent as u32
    }

    /// After one more use that is counted.
    #[inline]
    fn risen(self) -> UseCount {
        UseCount(self.0.max(0) + 1)
    }

    /// After a round of the log: a half octave less in one of eight, by a number drawn for it. So
    /// something is known of the last twenty rounds: an item that is read once in ten
    /// differs from one that nobody reads.
    pub fn faded(self, drawn: u64) -> UseCount {
        const ZEROS: u32 = 3;
        UseCount((self.0 - i8::from(drawn.leading_zeros() >= ZEROS)).max(-UseCount::MAX))
    }
}

/// The number at a place of a Weyl sequence, which is like one that was drawn by chance.
#[inline]
pub fn drawn(at: u64) -> u64 {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Header {
    /// The header at the start of these bytes, of which there are at least as many as it has. It is
    /// always inlined: handed over in memory, its narrow fields are waited for by wider loads.
    #[inline(always)]
    pub fn read(bytes: &[u8]) -> Header {
        Header {
            hash: u64_at(bytes, field::HASH.start),
            cas: u64_at(bytes, field::CAS.start),
            flags: u32_at(bytes, field::FLAGS.start),
            expiry: Expiry::from_bits(u32_at(bytes, field::EXPIRY.start)),
            written: UnixTime(u32_at(bytes, field::WRITTEN.start)),
            accessed: UnixTime(u32_at(bytes, field::ACCESSED.start)),
            value_len: u32_at(bytes, field::VALUE_LEN.start),
            key_len: bytes[field::KEY_LEN],
            marks: bytes[field::MARKS],
            uses: UseCount(bytes[field::USES] as i8),
        }
    }

    /// Writes it to the start of these bytes.
    #[inline]
    pub fn write(&self, bytes: &mut [u8]) {
        bytes[field::HASH].copy_from_slice(&self.hash.to_le_bytes());
        bytes[field::CAS].copy_from_slice(&self.cas.to_le_bytes());
        bytes[field::FLAGS].copy_from_slice(&self.flags.to_le_bytes());
        bytes[field::EXPIRY].copy_from_slice(&self.expiry.bits().to_le_bytes());
        bytes[field::WRITTEN].copy_from_slice(&self.written.0.to_le_bytes());
        bytes[field::ACCESSED].copy_from_slice(&self.accessed.0.to_le_bytes());
        bytes[field::VALUE_LEN].copy_from_slice(&self.value_len.to_le_bytes());
        bytes[field::KEY_LEN] = self.key_len;
        bytes[field::MARKS] = self.marks;
        bytes[field::USES] = self.uses.0 as u8;
        bytes[field::USES + 1..HEADER_LEN].fill(0);
    }

    /// Bytes of the whole item in the log.
    #[inline]
    pub fn item_len(&self) -> usize {
        item_len(self.key_len.into(), self.value_len as usize)
    }

    /// Offset of the value from the start of the item.
    #[inline]
    pub fn value_start(&self) -> usize {
        HEADER_LEN + usize::from(self.key_len)
    }

    /// All of these bits of [`mark`] are set.
    #[inline]
    pub fn has(&self, marks: u8) -> bool {
        self.marks & marks == marks
    }
}

/// Bytes in the log of an item with a key and a value so long.
#[inline]
pub fn item_len(key_len: usize, value_len: usize) -> usize {
    (HEADER_LEN + key_len + value_len).next_multiple_of(ALIGN)
}

/// Whether the item that begins where these bytes do has this key, of this hash.
#[inline]
pub fn is_of(bytes: &[u8], hash: u64, key: &[u8]) -> bool {
    usize::from(bytes[field::KEY_LEN]) == key.len()
        && hash_at(bytes) == hash
        && bytes[HEADER_LEN..].starts_with(key)
}

/// When the item ends that begins where these bytes do.
#[inline]
pub fn expiry_at(bytes: &[u8]) -> Expiry {
    Expiry::from_bits(u32_at(bytes, field::EXPIRY.start))
}

/// Whether nothing has to be written of the item that begins where these bytes do, which is read
/// now: that is known, and this use is none of those that are counted. `drawn` is a number that was
/// drawn for it.
#[inline]
pub fn is_bumped(bytes: &[u8], now: UnixTime, drawn: u64) -> bool {
    bytes[field::MARKS] & mark::FETCHED != 0
        && u32_at(bytes, field::ACCESSED.start) == now.0
        && !UseCount(bytes[field::USES] as i8).rises(drawn)
}

/// Writes that the item that begins where these bytes do was read; nothing is written where it was
/// known: a line that is only read stays with every core that reads it.
#[inline]
pub fn bump_at(bytes: &mut [u8], now: UnixTime, drawn: u64) {
    if !is_bumped(bytes, now, drawn) {
        bytes[field::MARKS] |= mark::FETCHED;
        bytes[field::ACCESSED].copy_from_slice(&now.0.to_le_bytes());
        let uses = UseCount(bytes[field::USES] as i8);
        if uses.rises(drawn) {
            write_uses(bytes, uses.risen());
        }
    }
}

/// Writes how often the item that begins where these bytes do was used.
#[inline]
pub fn write_uses(bytes: &mut [u8], uses: UseCount) {
    bytes[field::USES] = uses.0 as u8;
}

/// Hash and marks alone, for whoever walks over many.
#[inline]
pub fn hash_at(bytes: &[u8]) -> u64 {
    u64_at(bytes, field::HASH.start)
}

/// Writes the hash of the key, which a card does not know.
#[inline]
pub fn write_hash(bytes: &mut [u8], hash: u64) {
    bytes[field::HASH].copy_from_slice(&hash.to_le_bytes());
}

#[inline]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// An item as it stands in the log.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Its header.
    pub header: Header,
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

impl<'a> Item<'a> {
    /// The item that begins where these bytes do; they may go on behind it.
    #[inline(always)]
    pub fn read(bytes: &'a [u8]) -> Item<'a> {
        let header = Header::read(bytes);
        let (head, rest) = bytes.split_at(header.value_start());
        Item { header, key: &head[HEADER_LEN..], value: &rest[..header.value_len as usize] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = Header {
            hash: 0x0102_0304_0506_0708,
            cas: 9,
            flags: 0xffff_fffe,
            expiry: Expiry::of(7, UnixTime(100)),
            written: UnixTime(100),
            accessed: UnixTime(101),
            value_len: 3,
            key_len: 2,
            marks: mark::STALE | mark::DEAD,
            uses: UseCount(5),
        };
        let mut bytes = vec![0xaa; header.item_len()];
        header.write(&mut bytes);
        bytes[HEADER_LEN..HEADER_LEN + 5].copy_from_slice(b"kyval");
        assert_eq!(bytes.len(), 48);
        let item = Item::read(&bytes);
        assert_eq!((item.header, item.key, item.value), (header, &b"ky"[..], &b"val"[..]));
        assert_eq!(hash_at(&bytes), header.hash);
        assert!(header.has(mark::STALE) && !header.has(mark::STALE | mark::WON));
    }

    /// Numbers that may be drawn, evenly over all there are.
    fn all_drawn() -> impl Iterator<Item = u64> {
        (0..1 << 16).map(|high| high << 48)
    }

    #[test]
    fn steps_of_the_count_stand_for_1_2_3_4_6_8_12_reads() {
        let (mut count, mut reads) = (UseCount::default(), 0.0);
        for expected in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32] {
            // As many reads as it takes on average until one is counted.
            let counted = all_drawn().filter(|drawn| count.rises(*drawn)).count();
            reads += all_drawn().count() as f64 / counted as f64;
            count = count.risen();
            assert_eq!(reads, f64::from(expected), "{count:?}");
        }
        let max = UseCount(UseCount::MAX);
        assert!(all_drawn().all(|drawn| !max.rises(drawn)), "nothing is counted beyond it");
        // The first read is always counted, and rounds without one are forgotten.
        for faded in [-UseCount::MAX, -5, 0] {
            assert!(all_drawn().all(|drawn| UseCount(faded).rises(drawn)), "{faded}");
            assert_eq!(UseCount(faded).risen(), UseCount(1));
        }
    }

    #[test]
    fn one_count_of_eight_fades_by_a_step_in_a_round() {
        for steps in [-UseCount::MAX + 1, -1, 0, 1, 7, UseCount::MAX] {
            let fades = |drawn: &u64| UseCount(steps).faded(*drawn) == UseCount(steps - 1);
            let stays = |drawn: &u64| UseCount(steps).faded(*drawn) == UseCount(steps);
            let all = all_drawn().count();
            assert_eq!(all_drawn().filter(fades).count() * 8, all, "{steps}");
            assert_eq!(all_drawn().filter(stays).count() * 8, all * 7, "{steps}");
        }
        let least = UseCount(-UseCount::MAX);
        assert!(all_drawn().all(|drawn| least.faded(drawn) == least));
    }

    #[test]
    fn a_read_that_changes_nothing_writes_nothing() {
        // A number by which no count of more than 3 rises, and one by which all do.
        const HIGH: u64 = u64::MAX;
        const LOW: u64 = 0;
        let (now, before) = (UnixTime(100), UnixTime(99));
        let header = Header {
            hash: 1,
            cas: 1,
            flags: 0,
            expiry: Expiry::NEVER,
            written: before,
            accessed: now,
            value_len: 0,
            key_len: 0,
            marks: mark::FETCHED,
            uses: UseCount(4),
        };
        for (header, drawn, is_known) in [
            (header, HIGH, true),
            (header, LOW, false),
            (Header { marks: 0, ..header }, HIGH, false),
            (Header { accessed: before, ..header }, HIGH, false),
            (Header { uses: UseCount(3), ..header }, HIGH, false),
            (Header { uses: UseCount(UseCount::MAX), ..header }, LOW, true),
        ] {
            let mut bytes = [0; HEADER_LEN];
            header.write(&mut bytes);
            assert_eq!(is_bumped(&bytes, now, drawn), is_known, "{header:?}");
            bump_at(&mut bytes, now, drawn);
            let rises = header.uses.rises(drawn);
            let uses = if rises { header.uses.risen() } else { header.uses };
            let bumped = Header { marks: mark::FETCHED, accessed: now, uses, ..header };
            assert_eq!(Header::read(&bytes), bumped);
        }
    }
}
