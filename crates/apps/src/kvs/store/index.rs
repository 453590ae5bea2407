//! The index: from the hash of a key to the places where an item with this hash may be.
//!
//! Linear hashing (Litwin, VLDB 1980): the table grows by one bucket at a time, whose entries come
//! out of one other, so that it never stops to be built anew. It holds places and knows nothing of
//! items: whoever asks compares the keys.

use niclab_table::prefetch;

use super::bucket::{Bucket, EMPTY, SLOTS, tag_of};
use super::log::LogAddress;

/// Entries a bucket holds on average before the table grows: as long as not all buckets of a round
/// have been split, those that wait hold up to twice as many.
const LOAD: usize = 4;

/// Buckets whose memory is taken together: 16 KiB.
const CHUNK: usize = 256;

/// Bytes of memory by which the index grows.
pub const CHUNK_BYTES: usize = CHUNK * size_of::<Bucket>();

/// There is no memory for a bucket: [`HashIndex::add_spare`] or [`HashIndex::add_main`], and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBuckets;

/// Buckets in memory that grows by chunks and never moves.
#[derive(Debug, Default)]
struct Buckets {
    chunks: Vec<Box<[Bucket]>>,
    used: usize,
}

impl Buckets {
    fn add(&mut self) {
        self.chunks.push(vec![EMPTY; CHUNK].into_boxed_slice());
    }

    fn is_full(&self) -> bool {
        self.used == self.chunks.len() * CHUNK
    }

    #[inline]
    fn at(&self, number: usize) -> &Bucket {
        &self.chunks[number / CHUNK][number % CHUNK]
    }

    #[inline]
    fn at_mut(&mut self, number: usize) -> &mut Bucket {
        &mut self.chunks[number / CHUNK][number % CHUNK]
    }
}

/// A bucket, wherever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BucketAddress {
    Main(usize),
    Spare(u32),
}

/// Places by hashes.
#[derive(Debug)]
pub struct HashIndex {
    main: Buckets,
    /// Those that go on with full ones. The first is never used: its number means none.
    spare: Buckets,
    /// First of the spare buckets that were used and are free again.
    free: u32,
    /// Buckets at the start of this round of growing, a power of two.
    round: usize,
    entries: usize,
}

impl HashIndex {
    /// An empty index, with memory for the first buckets.
    pub fn new() -> HashIndex {
        let (mut main, mut spare) = (Buckets::default(), Buckets::default());
        main.add();
        main.used = 1;
        spare.add();
        spare.used = 1;
        HashIndex { main, spare, free: 0, round: 1, entries: 0 }
    }

    /// Memory that it has, bytes.
    pub fn bytes(&self) -> usize {
        (self.main.chunks.len() + self.spare.chunks.len()) * CHUNK_BYTES
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Takes memory for more buckets of the table.
    pub fn add_main(&mut self) {
        self.main.add();
    }

    /// Takes memory for more buckets that go on with full ones.
    pub fn add_spare(&mut self) {
        self.spare.add();
    }

    #[inline]
    fn bucket_of(&self, hash: u64) -> usize {
        let short = hash as usize & (self.round - 1);
        // Those below the split have been split in this round: one bit more of the hash counts. No
        // branch, for nobody can say beforehand which way it would go.
        let is_split = usize::from(short < self.main.used - self.round);
        short + (hash as usize & self.round) * is_split
    }

    #[inline]
    fn bucket(&self, at: BucketAddress) -> &Bucket {
        match at {
            BucketAddress::Main(number) => self.main.at(number),
            BucketAddress::Spare(number) => self.spare.at(number as usize),
        }
    }

    #[inline]
    fn bucket_mut(&mut self, at: BucketAddress) -> &mut Bucket {
        match at {
            BucketAddress::Main(number) => self.main.at_mut(number),
            BucketAddress::Spare(number) => self.spare.at_mut(number as usize),
        }
    }

    /// The bucket behind, where there is one.
    #[inline]
    fn next(&self, at: BucketAddress) -> Option<BucketAddress> {
        let next = self.bucket(at).next;
        (next != 0).then_some(BucketAddress::Spare(next))
    }

    /// Prefetches the bucket of a hash.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        prefetch(self.main.at(self.bucket_of(hash)));
    }

    /// The first entry with this hash's tag of which `is_it` holds.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(LogAddress) -> bool) -> Option<LogAddress> {
        self.first(hash, |place| is_it(place).then_some(place))
    }

    /// The first result of `look` over the entries with this hash's tag.
    #[inline(always)]
    pub fn first<T>(&self, hash: u64, mut look: impl FnMut(LogAddress) -> Option<T>) -> Option<T> {
        let mut at = Some(BucketAddress::Main(self.bucket_of(hash)));
        while let Some(here) = at {
            let bucket = self.bucket(here);
            let mut places = bucket.tagged(tag_of(hash)).map(|slot| bucket.place(slot));
            if let Some(found) = places.find_map(&mut look) {
                return Some(found);
            }
            at = (bucket.next != 0).then_some(BucketAddress::Spare(bucket.next));
        }
        None
    }

    /// The bucket of the entry with this place, the bucket before it, and its slot.
    fn seek(
        &self,
        hash: u64,
        wanted: LogAddress,
    ) -> Option<(Option<BucketAddress>, BucketAddress, usize)> {
        let (mut before, mut at) = (None, BucketAddress::Main(self.bucket_of(hash)));
        loop {
            let bucket = self.bucket(at);
            let mut slots = bucket.tagged(tag_of(hash));
            if let Some(slot) = slots.find(|slot| bucket.place(*slot) == wanted) {
                return Some((before, at, slot));
            }
            (before, at) = (Some(at), self.next(at)?);
        }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`NoBucket`]: nothing has changed.
    pub fn insert(&mut self, hash: u64, place: LogAddress) -> Result<(), OutOfBuckets> {
        self.put(self.bucket_of(hash), tag_of(hash), place)?;
        self.entries += 1;
        Ok(())
    }

    /// Puts an entry into the chain of a bucket.
    fn put(&mut self, bucket: usize, tag: u16, place: LogAddress) -> Result<(), OutOfBuckets> {
        let mut at = BucketAddress::Main(bucket);
        loop {
            let bucket = self.bucket_mut(at);
            if let Some(slot) = bucket.free().next() {
                bucket.set(slot, tag, place);
                return Ok(());
            }
            match self.next(at) {
                Some(next) => at = next,
                None => break,
            }
        }
        let more = self.take_spare()?;
        self.bucket_mut(BucketAddress::Spare(more)).set(0, tag, place);
        self.bucket_mut(at).next = more;
        Ok(())
    }

    /// An empty spare bucket.
    fn take_spare(&mut self) -> Result<u32, OutOfBuckets> {
        if self.free != 0 {
            let number = self.free;
            self.free = self.spare.at(number as usize).next;
            *self.spare.at_mut(number as usize) = EMPTY;
            return Ok(number);
        }
        if self.spare.is_full() {
            return Err(OutOfBuckets);
        }
        self.spare.used += 1;
        Ok((self.spare.used - 1) as u32)
    }

    /// Takes an entry out; `false` where there was none.
    pub fn remove(&mut self, hash: u64, place: LogAddress) -> bool {
        let Some((before, at, slot)) = self.seek(hash, place) else { return false };
        self.bucket_mut(at).clear(slot);
        self.entries -= 1;
        self.unchain(before, at);
        true
    }

    /// Gives a spare bucket back that holds nothing any more.
    fn unchain(&mut self, before: Option<BucketAddress>, at: BucketAddress) {
        let (Some(before), BucketAddress::Spare(number)) = (before, at) else { return };
        if self.bucket(at).is_empty() {
            self.bucket_mut(before).next = self.bucket(at).next;
            self.bucket_mut(at).next = self.free;
            self.free = number;
        }
    }

    /// Lets an entry point to another place; `false` where there was none.
    pub fn replace(&mut self, hash: u64, old: LogAddress, new: LogAddress) -> bool {
        let Some((_, at, slot)) = self.seek(hash, old) else { return false };
        self.bucket_mut(at).set(slot, tag_of(hash), new);
        true
    }

    /// There are so many entries that a bucket more is due.
    pub fn is_due(&self) -> bool {
        self.entries > self.main.used * LOAD
    }

    /// One bucket more: it takes what belongs there out of another one. `hash_of` says the hash of
    /// the item at a place.
    ///
    /// # Errors
    /// [`NoBucket`]: nothing has changed; the table goes on with longer chains.
    pub fn grow(&mut self, hash_of: impl Fn(LogAddress) -> u64) -> Result<(), OutOfBuckets> {
        if self.main.is_full() {
            return Err(OutOfBuckets);
        }
        let (from, into) = (self.main.used - self.round, self.main.used);
        let belongs = |place: LogAddress, round: usize| hash_of(place) as usize & round != 0;
        let mut moving = 0;
        let mut at = Some(BucketAddress::Main(from));
        while let Some(here) = at {
            let bucket = self.bucket(here);
            let moves = |slot: &usize| belongs(bucket.place(*slot), self.round);
            moving += bucket.used().filter(moves).count();
            at = self.next(here);
        }
        if !self.has_spare(moving.saturating_sub(SLOTS).div_ceil(SLOTS)) {
            return Err(OutOfBuckets);
        }
        self.main.used += 1;
        let (mut before, mut at) = (None, Some(BucketAddress::Main(from)));
        while let Some(here) = at {
            let bucket = *self.bucket(here);
            for slot in bucket.used() {
                let place = bucket.place(slot);
                if belongs(place, self.round) {
                    self.put(into, bucket.tag(slot), place)?;
                    self.bucket_mut(here).clear(slot);
                }
            }
            at = self.next(here);
            let is_kept = matches!(here, BucketAddress::Main(_)) || !self.bucket(here).is_empty();
            self.unchain(before, here);
            if is_kept {
                before = Some(here);
            }
        }
        if self.main.used == 2 * self.round {
            self.round *= 2;
        }
        Ok(())
    }

    /// So many spare buckets can be taken.
    fn has_spare(&self, count: usize) -> bool {
        let mut free = self.spare.chunks.len() * CHUNK - self.spare.used;
        let mut at = self.free;
        while free < count && at != 0 {
            free += 1;
            at = self.spare.at(at as usize).next;
        }
        free >= count
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::kvs::protocol::hash::hash;

    fn hash_of(place: LogAddress) -> u64 {
        hash(&place.0.to_le_bytes(), 3)
    }

    /// Inserts with all that may be needed.
    fn insert(index: &mut HashIndex, hash: u64, place: LogAddress) {
        if index.insert(hash, place).is_err() {
            index.add_spare();
            index.insert(hash, place).unwrap();
        }
    }

    fn grow(index: &mut HashIndex, hash_of: impl Fn(LogAddress) -> u64) {
        // It lacks a bucket of the table, or one that goes on with a full one, and does not say.
        for add in [HashIndex::add_main, HashIndex::add_spare] {
            if index.is_due() && index.grow(&hash_of).is_err() {
                add(index);
            }
        }
        assert!(!index.is_due() || index.grow(hash_of).is_ok());
    }

    #[test]
    fn entries_are_found_while_the_index_grows_and_gone_when_removed() {
        let mut index = HashIndex::new();
        for number in 1..=20_000 {
            insert(&mut index, hash_of(LogAddress(number)), LogAddress(number));
            grow(&mut index, hash_of);
            let early = LogAddress(number.div_ceil(2));
            assert_eq!(index.find(hash_of(early), |p| p == early), Some(early));
        }
        assert_eq!(index.len(), 20_000);
        assert!(index.main.used >= 5_000 && index.bytes() < 20_000 * 28, "{}", index.bytes());
        for number in (1..=20_000).step_by(2) {
            assert!(index.remove(hash_of(LogAddress(number)), LogAddress(number)));
            assert!(!index.remove(hash_of(LogAddress(number)), LogAddress(number)));
        }
        for number in 1..=20_000 {
            let is_there = index.find(hash_of(LogAddress(number)), |p| p.0 == number).is_some();
            assert_eq!(is_there, number % 2 == 0, "{number}");
        }
    }

    #[test]
    fn hashes_that_are_all_the_same_form_a_chain_that_is_given_back() {
        let mut index = HashIndex::new();
        // Two buckets, so that the two hashes have chains of their own.
        index.grow(hash_of).unwrap();
        for number in 1..=1700 {
            insert(&mut index, 5, LogAddress(number));
        }
        let mut observed = Vec::new();
        assert_eq!(
            index.find(5, |p| !observed.contains(&p) && {
                observed.push(p);
                false
            }),
            None
        );
        assert_eq!(observed.len(), 1700);
        assert!(index.replace(5, LogAddress(7), LogAddress(9000)));
        assert!(!index.replace(5, LogAddress(7), LogAddress(9001)));
        assert!(index.remove(5, LogAddress(9000)));
        for number in (1..=1700).filter(|n| *n != 7) {
            assert!(index.remove(5, LogAddress(number)));
        }
        let bytes = index.bytes();
        for number in 1..=1700 {
            index.insert(6, LogAddress(number)).unwrap();
        }
        assert_eq!((index.len(), index.bytes()), (1700, bytes), "no bucket was lost");
    }

    #[test]
    fn out_of_memory_is_an_error_and_changes_nothing() {
        let mut index = HashIndex::new();
        let full = (1..).find(|n| index.insert(5, LogAddress(*n)).is_err()).unwrap();
        assert_eq!(index.len(), full as usize - 1);
        assert_eq!(index.insert(5, LogAddress(full)), Err(OutOfBuckets));
        assert!((1..full).all(|n| index.find(5, |p| p.0 == n).is_some()));
    }

    #[test]
    fn a_split_without_spare_buckets_changes_nothing() {
        // All belong into the new bucket, which alone cannot hold them.
        let mut index = HashIndex::new();
        let hash_of = |_: LogAddress| 1;
        let full = (1..).find(|n| index.insert(1, LogAddress(*n)).is_err()).unwrap();
        assert_eq!(index.grow(hash_of), Err(OutOfBuckets));
        assert!((1..full).all(|n| index.find(1, |p| p.0 == n).is_some()));
        index.add_spare();
        index.grow(hash_of).unwrap();
        assert!((1..full).all(|n| index.find(1, |p| p.0 == n).is_some()));
        let counts: HashMap<bool, usize> = HashMap::from([(true, index.len())]);
        assert_eq!(counts[&true], full as usize - 1);
    }
}
