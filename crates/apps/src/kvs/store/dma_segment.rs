//! DMA segments: segments of the log that a network card writes items into.
//!
//! # Why it is sound
//! A segment lies in a window, memory that cores of the card write by atomics while the core that
//! owns the partition reads it as plain bytes. What is read so are the bytes of one item, never
//! what is behind it, and only between two moments:
//! - **From when it was published.** The card writes an item, and then an event into a ring, with
//!   release; the store reads the event with acquire and only then calls [`DmaSegment::publish`].
//!   Nobody writes to the bytes of an item a second time: each has a place of its own, by an
//!   addition to a register that no two cores see the same value of.
//! - **Until the segment is handed back**, by a register that is written with release, and read
//!   with acquire by who writes to it again. The log does so when nothing in it is in the index,
//!   and nobody who was given a place in it before can still be writing there or tell of it: of
//!   that `dma` has the argument, by the quiescence counters of all cores.
//!
//! What the card has to do for it is what [`DmaSegments::new`] asks for. There is no other way to a
//! window, nor to a segment of one. A segment knows where items begin that were published and not
//! cleared since, and shows nothing else, whatever place it is asked for. What it cannot see
//! itself, the caller of [`DmaSegment::publish`] promises; `log` keeps that promise. No partition
//! and no event is handed out of `kvs`.
//!
//! Whoever has the partition's lock is the only one that reads, or writes marks, meanwhile; `&self`
//! and `&mut self` say which. The length of an item is what its header says, which the store alone
//! may have changed since it was checked, and it never leads out of the segment.
#![allow(unsafe_code)]

use std::fmt::Debug;
use std::ops::Range;
use std::slice;
use std::sync::Arc;

use niclab_nic::dma::Reader;
use niclab_nic::shared_memory::{Ordering, SharedMemory, WORD};
use niclab_table::prefetch;

use super::item::{ALIGN, HEADER_LEN, Header, item_len, mark};
use super::quiescence::QuiescenceCounters;
use crate::kvs::protocol::event;
use crate::kvs::protocol::limits::KEY_LEN_MAX;
use crate::kvs::protocol::time::UnixTime;

/// Bytes of a DMA segment.
pub const DMA_SEGMENT_LEN: usize = 1 << 20;

/// Bytes of what is known of one beside it: a bit for each place where an item can begin.
const BEGINS_LEN: usize = DMA_SEGMENT_LEN / ALIGN / 8;

/// Memory that a segment takes, all told.
pub const DMA_SEGMENT_BYTES: usize = DMA_SEGMENT_LEN + BEGINS_LEN;

/// Offset of the word with both lengths in a header.
const LENGTHS_AT: usize = 32;

/// Offset of the word with the time of the write.
const WRITTEN_AT: usize = 24;

const _: () = assert!(ALIGN == WORD && HEADER_LEN > LENGTHS_AT + WORD - 1);

/// The place of an owner's next item has the number of the segment from this bit on, and the offset
/// in it below.
pub(super) const SEGMENT_SHIFT: u32 = 40;

/// The registers that say where the card appends next, and which number an item gets.
pub trait AppendRegisters: Debug + Send {
    /// The place at which the card appends.
    fn read(&self) -> u64;
    /// Has it append somewhere else.
    fn write(&self, place: u64);
    /// Takes a number for an item: higher than all that were given before, by the card or here, and
    /// that no partition gives a second time.
    fn number(&self) -> u64;
}

/// The memory, events and registers that a card shares with a partition.
#[derive(Debug)]
pub struct DmaSegments {
    /// The card's window for items.
    pub(super) window: ItemWindow,
    /// The numbers of this partition's segments in it.
    pub(super) segments: Range<usize>,
    /// The ring of this partition's events.
    pub(super) events: Reader,
    /// The place at which the card appends.
    pub(super) next: Box<dyn AppendRegisters>,
    /// The quiescence counters of the card's cores.
    pub(super) turns: Arc<QuiescenceCounters>,
}

impl DmaSegments {
    /// Segments of these numbers, of [`DMA_SEGMENT_LEN`] bytes each, of a card's memory; the ring
    /// that reports items written there, the register that says where the next one goes, and the
    /// quiescence counters of the card's cores.
    ///
    /// # Safety
    /// As long as this or anything made of it is there:
    /// - Nobody writes to these segments but cores of the card, at places that they were given by
    ///   an addition to the register behind `next`, with acquire, each once: the number of a
    ///   segment from bit 40 on, and the place in it below. What would not fit into the segment is
    ///   not written.
    /// - Nobody changes this register but by such an addition and by `next`, which writes with
    ///   release. It begins with a place where nothing fits.
    /// - The ring is filled by these cores alone. Of the kind that says an item was written they
    ///   put in only what they have written, behind the item, and in the turn in which they were
    ///   given its place.
    /// - In `turns` each core that may be given a place counts for itself, and nobody else does; it
    ///   ends a turn, and rests, only with nothing under way: whatever it was given a place for is
    ///   written, or never will be, and every slot of the ring that it took is filled.
    /// - Nobody else is given these segments.
    ///
    /// # Panics
    /// If entries of the ring are shorter than what is copied of an event.
    pub unsafe fn new(
        memory: Arc<SharedMemory>,
        segments: Range<usize>,
        events: Reader,
        next: Box<dyn AppendRegisters>,
        turns: Arc<QuiescenceCounters>,
    ) -> DmaSegments {
        assert!(events.shape().stride() >= WORD + event::COPIED_LEN, "entries too short");
        DmaSegments { window: ItemWindow(memory), segments, events, next, turns }
    }
}

/// A card's window for items.
#[derive(Clone, Debug)]
pub(super) struct ItemWindow(Arc<SharedMemory>);

impl ItemWindow {
    /// Prefetches some lines at a place of it.
    #[inline]
    pub fn prefetch(&self, at: u64, lines: usize) {
        let last = self.0.len_bytes() - WORD;
        for line in 0..lines {
            let at = usize::try_from(at).unwrap_or(last).saturating_add(64 * line).min(last);
            prefetch(self.0.word(at));
        }
    }

    /// Segments that it has.
    pub fn segments(&self) -> usize {
        self.0.len_bytes() / DMA_SEGMENT_LEN
    }
}

/// One segment, as the partition has it that it is of.
#[derive(Debug)]
pub struct DmaSegment {
    window: ItemWindow,
    /// Its start in the window.
    start: usize,
    /// The starts of published items, a bit each.
    begins: Box<[u64]>,
}

impl DmaSegment {
    /// The segment of a number, which is given to the caller alone.
    ///
    /// # Panics
    /// If the window has none of this number.
    pub(super) fn new(window: &ItemWindow, number: usize) -> DmaSegment {
        assert!(number < window.segments(), "segment {number} of a window");
        let begins = vec![0; BEGINS_LEN / WORD].into_boxed_slice();
        DmaSegment { window: window.clone(), start: number * DMA_SEGMENT_LEN, begins }
    }

    /// Its number in the window.
    pub fn number(&self) -> usize {
        self.start / DMA_SEGMENT_LEN
    }

    /// Bytes of the item at a place, as its header says.
    #[inline]
    fn item_len(&self, at: usize) -> usize {
        let word = self.window.0.word(self.start + at + LENGTHS_AT).load(Ordering::Relaxed);
        let [v0, v1, v2, v3, key_len, ..] = word.to_ne_bytes();
        let value_len = u32::from_le_bytes([v0, v1, v2, v3]) as usize;
        item_len(key_len.into(), value_len)
    }

    /// When the item at a place was written, as its header says; `None` where no item can be.
    pub fn written(&self, at: usize) -> Option<UnixTime> {
        let is_there = at.is_multiple_of(ALIGN) && at <= DMA_SEGMENT_LEN - HEADER_LEN;
        let word = is_there.then(|| self.window.0.word(self.start + at + WRITTEN_AT))?;
        let [t0, t1, t2, t3, ..] = word.load(Ordering::Relaxed).to_ne_bytes();
        Some(UnixTime(u32::from_le_bytes([t0, t1, t2, t3])))
    }

    /// Bytes of the item at a place, no more than there are.
    #[inline]
    fn len_at(&self, at: usize) -> usize {
        self.item_len(at).min(DMA_SEGMENT_LEN - at)
    }

    /// Takes notice of an item that the card has written there, of so many bytes; its header.
    /// `None` where no item can be so: nothing has changed then.
    ///
    /// # Safety
    /// The card has said so in the ring of this segment's owner, and the segment has not been
    /// handed back since: nobody writes to these bytes any more. And until this segment is cleared,
    /// which is before it is handed back,
    /// - there is no other [`DmaSegment`] of its number, and
    /// - whoever writes to the item ([`DmaSegment::item_mut`]) leaves the lengths in its header.
    pub unsafe fn publish(&mut self, at: usize, len: usize) -> Option<Header> {
        let is_there = at.is_multiple_of(ALIGN) && (HEADER_LEN..=DMA_SEGMENT_LEN).contains(&len);
        if !is_there || at > DMA_SEGMENT_LEN - len || self.item_len(at) != len {
            return None;
        }
        if self.is_published(at) {
            return None;
        }
        // SAFETY: within the mapping, which is there as long as the window; written, as the caller
        // promises, and of this length, as was just checked.
        let header = Header::read(unsafe { slice::from_raw_parts(self.at(at), len) });
        let is_key_right = (1..=KEY_LEN_MAX).contains(&header.key_len.into());
        if !is_key_right || header.has(mark::DEAD) {
            return None;
        }
        let (word, bit) = begin_of(at);
        self.begins[word] |= 1 << bit;
        Some(header)
    }

    /// Whether an item was published at this place, and the segment not cleared since.
    #[inline]
    fn is_published(&self, at: usize) -> bool {
        let (word, bit) = begin_of(at);
        at.is_multiple_of(ALIGN) && self.begins.get(word).is_some_and(|bits| bits >> bit & 1 == 1)
    }

    /// The bytes of the item that was published at this place. Empty if none was.
    #[inline]
    pub fn item(&self, at: usize) -> &[u8] {
        if !self.is_published(at) {
            return &[];
        }
        // SAFETY: within the mapping, which is there as long as the window; the bytes of one item
        // that was published, which nobody else writes until the segment is cleared (see above).
        unsafe { slice::from_raw_parts(self.at(at), self.len_at(at)) }
    }

    /// The same, to be written: all but the lengths in its header.
    #[inline]
    pub fn item_mut(&mut self, at: usize) -> &mut [u8] {
        if !self.is_published(at) {
            return &mut [];
        }
        // SAFETY: as above, and nobody else reads it either, for the partition is this caller's.
        unsafe { slice::from_raw_parts_mut(self.at(at), self.len_at(at)) }
    }

    #[inline]
    fn at(&self, at: usize) -> *mut u8 {
        self.window.0.base().as_ptr().cast::<u8>().wrapping_add(self.start + at)
    }

    /// Prefetches some lines from a place on.
    #[inline]
    pub fn prefetch(&self, at: usize, lines: usize) {
        self.window.prefetch((self.start + at) as u64, lines);
    }

    /// The start of the first item at or behind a place.
    pub fn next(&self, at: usize) -> Option<usize> {
        let (word, bit) = (at / ALIGN / 64, at / ALIGN % 64);
        let first = self.begins.get(word)? >> bit << bit;
        let rest = self.begins[word + 1..].iter().copied();
        let found = std::iter::once(first).chain(rest).enumerate().find(|(_, bits)| *bits != 0);
        found
            .map(|(skipped, bits)| ((word + skipped) * 64 + bits.trailing_zeros() as usize) * ALIGN)
    }

    /// Forgets all items.
    pub fn clear(&mut self) {
        self.begins.fill(0);
    }
}

/// The bit of a place at which an item can begin: its word, and its number in the word.
#[inline]
fn begin_of(at: usize) -> (usize, usize) {
    (at / ALIGN / 64, at / ALIGN % 64)
}

#[cfg(test)]
pub(in super::super) mod tests {
    use super::super::item::UseCount;
    use super::*;
    use crate::kvs::protocol::time::Expiry;

    /// A window of so many segments, and its memory for whoever plays the card.
    pub fn window(segments: usize) -> (ItemWindow, Arc<SharedMemory>) {
        let (shared, _) = SharedMemory::create(segments * DMA_SEGMENT_LEN).unwrap();
        let shared = Arc::new(shared);
        (ItemWindow(Arc::clone(&shared)), shared)
    }

    /// So many DMA segments, and their memory for whoever plays the card: on one thread, so that
    /// nothing is written while somebody reads.
    pub fn dma_segments(
        segments: usize,
        (events, next, turns): (Reader, Box<dyn AppendRegisters>, Arc<QuiescenceCounters>),
    ) -> (DmaSegments, Arc<SharedMemory>) {
        let (_, memory) = window(segments);
        // SAFETY: nobody else has the memory; tests write as a card does, to places that they have
        // not published.
        (unsafe { DmaSegments::new(Arc::clone(&memory), 0..segments, events, next, turns) }, memory)
    }

    /// [`DmaSegment::publish`] of what tests have written.
    fn publish(segment: &mut DmaSegment, at: usize, len: usize) -> Option<Header> {
        // SAFETY: the tests' one thread writes to nothing that it has published.
        unsafe { segment.publish(at, len) }
    }

    /// An item as a card writes it.
    pub fn image(key: &[u8], value: &[u8], cas: u64, now: UnixTime) -> Vec<u8> {
        let header = Header {
            hash: 0,
            cas,
            flags: 3,
            expiry: Expiry::NEVER,
            written: now,
            accessed: now,
            value_len: value.len() as u32,
            key_len: key.len() as u8,
            marks: 0,
            uses: UseCount::default(),
        };
        let mut bytes = vec![0; header.item_len()];
        header.write(&mut bytes);
        bytes[HEADER_LEN..header.value_start()].copy_from_slice(key);
        bytes[header.value_start()..][..value.len()].copy_from_slice(value);
        bytes
    }

    #[test]
    fn only_published_items_are_found() {
        let (window, memory) = window(2);
        let mut segment = DmaSegment::new(&window, 1);
        assert_eq!((segment.number(), segment.next(0)), (1, None));
        let (one, other) =
            (image(b"a", b"value", 1, UnixTime(5)), image(b"key", b"", 2, UnixTime(5)));
        let last = DMA_SEGMENT_LEN - other.len();
        memory.write(DMA_SEGMENT_LEN + 64, &one);
        memory.write(DMA_SEGMENT_LEN + last, &other);
        assert_eq!(segment.next(0), None, "written, and not published");
        assert_eq!(publish(&mut segment, last, other.len()).map(|header| header.cas), Some(2));
        assert_eq!(publish(&mut segment, 64, one.len()).map(|header| header.cas), Some(1));
        assert_eq!(
            (segment.written(64), segment.written(last)),
            (Some(UnixTime(5)), Some(UnixTime(5)))
        );
        assert_eq!((segment.written(65), segment.written(DMA_SEGMENT_LEN - 8)), (None, None));
        assert_eq!((segment.item(64), segment.item(last)), (&one[..], &other[..]));
        for none in [0, 65, 72, last + 8, DMA_SEGMENT_LEN, usize::MAX] {
            assert!(segment.item(none).is_empty() && segment.item_mut(none).is_empty(), "{none}");
        }
        assert_eq!((segment.next(0), segment.next(64)), (Some(64), Some(64)));
        assert_eq!(
            (segment.next(72), segment.next(last), segment.next(last + 8)),
            (Some(last), Some(last), None)
        );
        assert_eq!(segment.next(DMA_SEGMENT_LEN), None);
        let item = segment.item_mut(64);
        item[0] = 7;
        assert_eq!((item[0], item.len()), (7, one.len()));
        segment.clear();
        assert_eq!((segment.next(0), segment.item(64)), (None, &[][..]));
    }

    #[test]
    fn an_oversized_value_is_refused() {
        let (window, memory) = window(1);
        let mut segment = DmaSegment::new(&window, 0);
        let one = image(b"a", b"value", 1, UnixTime(5));
        memory.write(64, &one);
        let wrong = [
            (65, one.len()),
            (64, one.len() + 8),
            (64, one.len() - 8),
            (72, one.len()),
            (64, 0),
            (DMA_SEGMENT_LEN, one.len()),
            (DMA_SEGMENT_LEN - 8, one.len()),
            (usize::MAX - 7, one.len()),
            (64, usize::MAX),
        ];
        for (at, len) in wrong {
            assert_eq!(publish(&mut segment, at, len), None, "{at} {len}");
        }
        // Without a key, and one that is out of use.
        memory.write(1024, &image(b"", b"value", 1, UnixTime(5)));
        assert_eq!(publish(&mut segment, 1024, 48), None);
        let mut dead = one.clone();
        dead[37] = mark::DEAD;
        memory.write(2048, &dead);
        assert_eq!(publish(&mut segment, 2048, dead.len()), None);
        // Lengths that lead out of the segment.
        let mut long = one.clone();
        long[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
        let at = DMA_SEGMENT_LEN - 64;
        memory.write(at, &long);
        assert_eq!(publish(&mut segment, at, one.len()), None);
        assert_eq!(publish(&mut segment, at, 64), None, "it would be longer than there is room");
        assert!(publish(&mut segment, 64, one.len()).is_some());
        assert_eq!(publish(&mut segment, 64, one.len()), None, "a second time");
    }
}
