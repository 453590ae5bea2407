//! A bucket of the index: entries of keys whose hashes end alike, in one cache line.
//!
//! An entry is a place, and a tag: the upper bits of the hash, which tell most other keys apart
//! without a look at the item. All tags are compared at once, for nobody can say beforehand in
//! which slot an entry is, and a branch for each would be guessed wrong about once a look.

use super::log::LogAddress;

/// Entries of a bucket: with the link they fill one cache line.
pub const SLOTS: usize = 8;

/// Tags in one word, and their bits.
const LANES: usize = 4;
const LANE_BITS: usize = 16;

/// A one in each lane, and all bits of each but the highest.
const ONES: u64 = 0x0001_0001_0001_0001;
const BELOW_HIGHEST: u64 = 0x7fff_7fff_7fff_7fff;

/// The tag of a free slot.
const FREE: u16 = 0;

/// The tag of a hash: never that of a free slot.
#[inline]
pub fn tag_of(hash: u64) -> u16 {
    let upper = (hash >> (64 - LANE_BITS)) as u16;
    upper + u16::from(upper == FREE)
}

/// Up to [`SLOTS`] entries, and a link.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Bucket {
    /// Of the slots from the first on, four in a word, the lowest bits first.
    tags: [u64; SLOTS / LANES],
    /// The lower bits of the places, and those above.
    lower: [u32; SLOTS],
    upper: [u8; SLOTS],
    /// The bucket that goes on with what has no room here, among the spare ones; 0 is none.
    pub next: u32,
}

// A bucket is what one miss of the cache brings, and has room for all bits of a place.
const _: () = assert!(size_of::<Bucket>() == 64 && LogAddress::BITS == u32::BITS + u8::BITS);

/// A bucket without entries.
pub const EMPTY: Bucket =
    Bucket { tags: [0; SLOTS / LANES], lower: [0; SLOTS], upper: [0; SLOTS], next: 0 };

impl Bucket {
    /// The slots that have a tag.
    #[inline]
    pub fn tagged(&self, tag: u16) -> SlotSet {
        let [first, last] = self.tags.map(|word| {
            let differs = word ^ u64::from(tag).wrapping_mul(ONES);
            // The highest bit of each lane in which nothing differs.
            !(((differs & BELOW_HIGHEST) + BELOW_HIGHEST) | differs | BELOW_HIGHEST)
        });
        SlotSet(first >> (LANE_BITS - 1) | last >> (LANE_BITS - 2))
    }

    /// The slots that are free.
    #[inline]
    pub fn free(&self) -> SlotSet {
        self.tagged(FREE)
    }

    /// Those that are not.
    pub fn used(&self) -> impl Iterator<Item = usize> + use<> {
        let SlotSet(free) = self.free();
        SlotSet(free ^ (ONES | ONES << 1))
    }

    /// No slot is used.
    pub fn is_empty(&self) -> bool {
        self.tags == EMPTY.tags
    }

    /// The place in a slot.
    #[inline]
    pub fn place(&self, slot: usize) -> LogAddress {
        LogAddress(
            u64::from(self.upper[slot % SLOTS]) << u32::BITS | u64::from(self.lower[slot % SLOTS]),
        )
    }

    /// The tag in a slot.
    pub fn tag(&self, slot: usize) -> u16 {
        (self.tags[slot / LANES % self.tags.len()] >> (slot % LANES * LANE_BITS)) as u16
    }

    /// Fills a slot.
    #[inline]
    pub fn set(&mut self, slot: usize, tag: u16, place: LogAddress) {
        (self.lower[slot], self.upper[slot]) = (place.0 as u32, (place.0 >> u32::BITS) as u8);
        let (word, shift) = (slot / LANES, slot % LANES * LANE_BITS);
        self.tags[word] =
            self.tags[word] & !(u64::from(u16::MAX) << shift) | u64::from(tag) << shift;
    }

    /// Frees a slot.
    pub fn clear(&mut self, slot: usize) {
        self.set(slot, FREE, LogAddress(0));
    }
}

/// Numbers of slots.
#[derive(Clone, Copy, Debug)]
pub struct SlotSet(u64);

impl Iterator for SlotSet {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        // The lowest bit of a lane is the first word's, the next one the other's.
        (bit < u64::BITS as usize).then_some(bit / LANE_BITS + LANES * (bit % LANE_BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_what_was_put_there() {
        let mut bucket = EMPTY;
        assert!(bucket.is_empty() && bucket.free().count() == SLOTS);
        // Tags that differ by one, by the highest bit, and not at all.
        let tags = [1, 2, 0x8001, 0x8000, 0xffff, 1, 0x7fff, 2];
        for (slot, tag) in tags.into_iter().enumerate() {
            bucket.set(slot, tag, LogAddress((1 << 39) + (slot as u64) * 0x1_0000_0001));
        }
        let found = |bucket: &Bucket, tag| {
            let mut slots: Vec<usize> = bucket.tagged(tag).collect();
            slots.sort_unstable();
            slots
        };
        for (slot, tag) in tags.into_iter().enumerate() {
            let all: Vec<usize> = (0..SLOTS).filter(|at| tags[*at] == tag).collect();
            assert_eq!((found(&bucket, tag), bucket.tag(slot)), (all, tag));
            assert_eq!(bucket.place(slot), LogAddress((1 << 39) + (slot as u64) * 0x1_0000_0001));
        }
        assert_eq!((found(&bucket, 3), bucket.free().count()), (vec![], 0));
        bucket.clear(5);
        assert_eq!((found(&bucket, 1), bucket.free().collect::<Vec<_>>()), (vec![0], vec![5]));
        assert_eq!(bucket.used().count(), SLOTS - 1);
        assert!(bucket.used().all(|slot| slot != 5));
    }

    #[test]
    fn no_hash_has_the_tag_of_a_free_slot() {
        assert_eq!((tag_of(0), tag_of(1 << 48), tag_of(u64::MAX)), (1, 1, u16::MAX));
    }
}
