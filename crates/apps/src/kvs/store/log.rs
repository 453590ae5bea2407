//! The log: segments of memory. Items are appended to one of them; another one is emptied at a
//! time.
//!
//! The log knows where bytes are and how many of each segment are live. It knows nothing of keys.
//!
//! DMA segments ([`Log::add_dma`]) have a cycle of their own. The card appends to one of them. When
//! that is full, the card gets the next empty one. The full one is sealed when nobody can still be
//! writing to it, and emptied later.
//!
//! One of the modules that may use `unsafe`: it has DMA segments take notice of what the card says
//! it has written ([`Log::publish`]). There is one segment of each number. It is cleared by
//! [`Log::release`], which checks that all of its items were forgotten, and by [`Log::clear`], and
//! is handed back only then. Who writes to an item that is there changes marks and times, never a
//! length.
#![allow(unsafe_code)]

use std::collections::VecDeque;

use niclab_table::prefetch;

use super::dma_segment::{DMA_SEGMENT_BYTES, DMA_SEGMENT_LEN, DmaSegment};
use super::item::{ALIGN, Header};
use crate::kvs::protocol::time::UnixTime;

/// Bytes of a cache line.
const LINE: usize = 64;

/// The start of an item in the log: 40 bits, never 0, so that 0 can mean none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogAddress(pub u64);

impl LogAddress {
    /// Bits of an address.
    pub const BITS: u32 = 40;
}

/// Memory in which items stand one behind the other.
#[derive(Debug)]
struct Segment {
    memory: SegmentMemory,
    /// Bytes from the start on that hold items; of our own memory.
    used: usize,
    /// Bytes of items that are in the index.
    live: usize,
}

/// The owner of the memory.
#[derive(Debug)]
enum SegmentMemory {
    Own(Box<[u8]>),
    /// The card's.
    Dma(DmaSegment),
}

impl Segment {
    /// The item that begins there, and perhaps more behind it.
    #[inline]
    fn at(&self, at: usize) -> &[u8] {
        match &self.memory {
            SegmentMemory::Own(bytes) => &bytes[at..],
            SegmentMemory::Dma(dma) => dma.item(at),
        }
    }

    #[inline]
    fn at_mut(&mut self, at: usize) -> &mut [u8] {
        match &mut self.memory {
            SegmentMemory::Own(bytes) => &mut bytes[at..],
            SegmentMemory::Dma(dma) => dma.item_mut(at),
        }
    }
}

/// Lists of DMA segments, by their numbers.
#[derive(Debug, Default)]
struct DmaLists {
    /// The first so many of all segments.
    count: usize,
    /// Bytes of items in them that are in the index.
    live: usize,
    empty: Vec<usize>,
    /// The one that the card appends to.
    filling: Option<usize>,
    /// The one before, to which cores of the card may still be writing.
    draining: Option<usize>,
    /// Those in which all has been published that ever will be.
    sealed: Vec<usize>,
}

/// The segments of a partition.
#[derive(Debug)]
pub struct Log {
    segment_len: usize,
    /// Bits of a place that say where in its segment an item is; those above say which it is.
    within_bits: u32,
    /// `None`: its memory was given back.
    segments: Vec<Option<Segment>>,
    /// Segments with memory and without items.
    empty: Vec<usize>,
    /// Numbers of segments without memory.
    vacant: Vec<usize>,
    /// Full segments, the oldest first.
    sealed: VecDeque<usize>,
    /// The one that is appended to.
    head: Option<usize>,
    live: usize,
    dma: DmaLists,
}

impl Log {
    /// A log without any memory yet. `segment_len` is a multiple of [`ALIGN`].
    pub fn new(segment_len: usize) -> Log {
        debug_assert!(segment_len > 0 && segment_len.is_multiple_of(ALIGN));
        let (segments, empty, vacant, sealed) = Default::default();
        let (head, live, dma) = Default::default();
        let mut log =
            Log { segment_len, within_bits: 0, segments, empty, vacant, sealed, head, live, dma };
        log.set_within_bits(segment_len);
        log
    }

    /// Places within the longest segments can be told apart.
    fn set_within_bits(&mut self, len_max: usize) {
        self.within_bits = (len_max / ALIGN).next_power_of_two().trailing_zeros();
    }

    /// Takes segments of a card's window over, all empty; nothing has been stored so far.
    pub fn add_dma(&mut self, segments: impl Iterator<Item = DmaSegment>) {
        debug_assert!(self.segments.is_empty(), "places that were given would be other ones");
        let segment = |dma| Some(Segment { memory: SegmentMemory::Dma(dma), used: 0, live: 0 });
        self.segments.extend(segments.map(segment));
        self.set_within_bits(self.segment_len.max(DMA_SEGMENT_LEN));
        let count = self.segments.len();
        // The first is the first to be filled.
        let empty = (0..count).rev().collect();
        let sealed = Vec::with_capacity(count);
        self.dma = DmaLists { count, empty, sealed, ..DmaLists::default() };
    }

    /// Forgets all items. What the card has it keeps.
    pub fn clear(&mut self) {
        let DmaLists { count, filling, draining, .. } = self.dma;
        self.segments.truncate(count);
        self.dma.live = 0;
        self.dma.empty.clear();
        self.dma.sealed.clear();
        for number in (0..count).rev() {
            let segment = self.segment_mut(number);
            segment.live = 0;
            if let SegmentMemory::Dma(dma) = &mut segment.memory {
                dma.clear();
            }
            if filling != Some(number) && draining != Some(number) {
                self.dma.empty.push(number);
            }
        }
        self.empty.clear();
        self.vacant.clear();
        self.sealed.clear();
        (self.head, self.live) = (None, 0);
    }

    /// Bytes of a segment: no item is longer.
    pub fn segment_len(&self) -> usize {
        self.segment_len
    }

    /// Memory that it has, bytes.
    pub fn bytes(&self) -> usize {
        let own = self.segments.len() - self.vacant.len() - self.dma.count;
        own * self.segment_len + self.dma.count * DMA_SEGMENT_BYTES
    }

    /// Segments that it has.
    pub fn segments(&self) -> usize {
        self.segments.len() - self.vacant.len()
    }

    /// Bytes of items that are in the index.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Segments that have memory and no items.
    pub fn empty_count(&self) -> usize {
        self.empty.len()
    }

    /// Full segments of our own memory, and the bytes in use of all of them.
    pub fn sealed(&self) -> (usize, usize) {
        let live_in_head = self.head.map_or(0, |head| self.segment(head).live);
        (self.sealed.len(), self.live - self.dma.live - live_in_head)
    }

    fn segment(&self, number: usize) -> &Segment {
        match &self.segments[number] {
            Some(segment) => segment,
            None => unreachable!("segment {number} is used and has no memory"),
        }
    }

    fn segment_mut(&mut self, number: usize) -> &mut Segment {
        match &mut self.segments[number] {
            Some(segment) => segment,
            None => unreachable!("segment {number} is used and has no memory"),
        }
    }

    fn place(&self, number: usize, at: usize) -> LogAddress {
        LogAddress(((number << self.within_bits) | (at / ALIGN)) as u64 + 1)
    }

    #[inline]
    fn position(&self, place: LogAddress) -> (usize, usize) {
        let place = (place.0 - 1) as usize;
        let within = place & ((1 << self.within_bits) - 1);
        (place >> self.within_bits, within * ALIGN)
    }

    /// Takes memory for one more empty segment.
    pub fn add_segment(&mut self) {
        let bytes = vec![0; self.segment_len].into_boxed_slice();
        let segment = Some(Segment { memory: SegmentMemory::Own(bytes), used: 0, live: 0 });
        let number = match self.vacant.pop() {
            Some(number) => {
                self.segments[number] = segment;
                number
            }
            None => {
                self.segments.push(segment);
                self.segments.len() - 1
            }
        };
        self.empty.push(number);
    }

    /// Gives the memory of an empty segment back; `false` where there is none.
    pub fn drop_segment(&mut self) -> bool {
        let Some(number) = self.empty.pop() else { return false };
        self.segments[number] = None;
        self.vacant.push(number);
        true
    }

    /// Room for so many bytes at the head, which is in use from now on; `None` where the head is
    /// full.
    pub fn append(&mut self, len: usize) -> Option<LogAddress> {
        let head = self.head?;
        let segment_len = self.segment_len;
        let segment = self.segment_mut(head);
        let at = segment.used;
        if segment_len - at < len {
            return None;
        }
        segment.used += len;
        segment.live += len;
        self.live += len;
        Some(self.place(head, at))
    }

    /// Makes an empty segment the head; `false` where there is none.
    pub fn open(&mut self) -> bool {
        let Some(number) = self.empty.pop() else { return false };
        if let Some(full) = self.head.replace(number) {
            self.sealed.push_back(full);
        }
        true
    }

    /// The item at a place, and perhaps more behind it.
    #[inline]
    pub fn at(&self, place: LogAddress) -> &[u8] {
        let (number, at) = self.position(place);
        self.segment(number).at(at)
    }

    /// Prefetches the first lines at a place.
    #[inline]
    pub fn prefetch(&self, place: LogAddress, lines: usize) {
        let (number, at) = self.position(place);
        match &self.segment(number).memory {
            SegmentMemory::Own(bytes) => {
                bytes[at..].iter().step_by(LINE).take(lines).for_each(prefetch);
            }
            SegmentMemory::Dma(dma) => dma.prefetch(at, lines),
        }
    }

    /// The same, to be written.
    #[inline]
    pub fn at_mut(&mut self, place: LogAddress) -> &mut [u8] {
        let (number, at) = self.position(place);
        self.segment_mut(number).at_mut(at)
    }

    /// Copies bytes from `skip` behind one place to `gap` behind another; they do not overlap.
    pub fn copy(&mut self, from: (LogAddress, usize), to: (LogAddress, usize), len: usize) {
        let ((source, start), (target, end)) = (self.position(from.0), self.position(to.0));
        if source == target {
            let (first, other) = (start.min(end), start.abs_diff(end));
            let (from_at, to_at) = if start < end { (0, other) } else { (other, 0) };
            let from_at = from_at + from.1;
            let bytes = self.segment_mut(source).at_mut(first);
            bytes.copy_within(from_at..from_at + len, to_at + to.1);
            return;
        }
        // Two that differ are never refused, and both have memory, for items are in them.
        if let Ok([Some(source), Some(target)]) = self.segments.get_disjoint_mut([source, target]) {
            let bytes = &source.at(start)[from.1..][..len];
            target.at_mut(end)[to.1..][..len].copy_from_slice(bytes);
        }
    }

    /// So many bytes at a place are no longer in use.
    pub fn forget(&mut self, place: LogAddress, len: usize) {
        let (number, _) = self.position(place);
        self.segment_mut(number).live -= len;
        self.live -= len;
        if number < self.dma.count {
            self.dma.live -= len;
        }
    }

    /// There is none of them that could be given to the card.
    pub fn is_dma_scarce(&self) -> bool {
        self.dma.empty.is_empty()
    }

    /// Gives the card an empty segment in place of the one that it has filled: the number of the
    /// new one in the window, and whether there was one before. `None` where there is none, or
    /// where the last one that was filled is not sealed yet.
    pub fn give_dma(&mut self) -> Option<(usize, bool)> {
        if self.dma.draining.is_some() {
            return None;
        }
        let number = self.dma.empty.pop()?;
        self.dma.draining = self.dma.filling.replace(number);
        let SegmentMemory::Dma(dma) = &self.segment(number).memory else { return None };
        Some((dma.number(), self.dma.draining.is_some()))
    }

    /// Nobody will publish anything more in the segment that was filled last.
    pub fn seal_dma(&mut self) {
        self.dma.sealed.extend(self.dma.draining.take());
    }

    /// Whether a segment that was filled is not sealed yet, and how many are empty.
    #[cfg(test)]
    pub fn dma_state(&self) -> (bool, usize) {
        (self.dma.draining.is_some(), self.dma.empty.len())
    }

    /// Takes notice of an item that the card says, in the ring of this partition's events, it has
    /// written at a place of its window: it is in use from now on. `None` where there can be none.
    pub fn publish(&mut self, at: u64, len: usize) -> Option<(LogAddress, Header)> {
        let number = self.written_to(at)?;
        let at = at as usize % DMA_SEGMENT_LEN;
        let place = self.place(number, at);
        let segment = self.segment_mut(number);
        let SegmentMemory::Dma(dma) = &mut segment.memory else { return None };
        // SAFETY: the caller has it from the ring, and of the segments that the card may write to
        // none has been handed back.
        let header = unsafe { dma.publish(at, len) }?;
        segment.live += len;
        self.live += len;
        self.dma.live += len;
        Some((place, header))
    }

    /// The DMA segment that has this place of the window, of those that the card may write to.
    fn written_to(&self, at: u64) -> Option<usize> {
        let wanted = at as usize / DMA_SEGMENT_LEN;
        let is_it = |number: &usize| match &self.segment(*number).memory {
            SegmentMemory::Dma(dma) => dma.number() == wanted,
            SegmentMemory::Own(_) => false,
        };
        [self.dma.filling, self.dma.draining].into_iter().flatten().find(is_it)
    }

    /// When the card wrote the item that it says is at a place of its window, by its own clock.
    pub fn written(&self, at: u64) -> Option<UnixTime> {
        let SegmentMemory::Dma(dma) = &self.segment(self.written_to(at)?).memory else {
            return None;
        };
        dma.written(at as usize % DMA_SEGMENT_LEN)
    }

    /// Takes the DMA segment with the fewest bytes in use out of those that are sealed, to be
    /// emptied.
    pub fn take_dma(&mut self) -> Option<usize> {
        let live = |at: &usize| self.segment(self.dma.sealed[*at]).live;
        let at = (0..self.dma.sealed.len()).min_by_key(live)?;
        Some(self.dma.sealed.swap_remove(at))
    }

    /// Takes the oldest full segment out of the row, to be emptied.
    pub fn take_oldest(&mut self) -> Option<usize> {
        self.sealed.pop_front()
    }

    /// Takes the full segment with the fewest bytes in use out of the row, to be emptied.
    pub fn take_emptiest(&mut self) -> Option<usize> {
        let live = |at: &usize| self.segment(self.sealed[*at]).live;
        let at = (0..self.sealed.len()).min_by_key(live)?;
        self.sealed.remove(at)
    }

    /// The address of the item at `at` of a segment that is being emptied; `None` behind the last.
    pub fn item_of(&self, number: usize, at: usize) -> Option<LogAddress> {
        let segment = self.segment(number);
        (at < segment.used && segment.live > 0).then(|| self.place(number, at))
    }

    /// The address of the first item at or behind `at` of a DMA segment that is being emptied, and
    /// its offset; `None` behind the last.
    pub fn dma_item_of(&self, number: usize, at: usize) -> Option<(LogAddress, usize)> {
        let segment = self.segment(number);
        let SegmentMemory::Dma(dma) = &segment.memory else { return None };
        let at = dma.next(at).filter(|_| segment.live > 0)?;
        Some((self.place(number, at), at))
    }

    /// A segment has been emptied.
    pub fn release(&mut self, number: usize) {
        let segment = self.segment_mut(number);
        assert_eq!(segment.live, 0, "an item would be lost without a word");
        segment.used = 0;
        match &mut segment.memory {
            SegmentMemory::Own(_) => self.empty.push(number),
            SegmentMemory::Dma(dma) => {
                dma.clear();
                self.dma.empty.push(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_where_they_were_appended_and_segments_go_round() {
        let mut log = Log::new(64);
        assert_eq!((log.append(8), log.bytes()), (None, 0));
        assert!(!log.open());
        log.add_segment();
        assert!(log.open());
        let first = log.append(40).unwrap();
        log.at_mut(first)[..3].copy_from_slice(b"abc");
        assert_eq!(log.append(32), None, "24 are left");
        let second = log.append(24).unwrap();
        assert_ne!(first, second);
        log.add_segment();
        assert!(log.open());
        assert_eq!((log.sealed(), log.live(), log.bytes()), ((1, 64), 64, 128));
        let third = log.append(16).unwrap();
        log.copy((first, 0), (third, 8), 3);
        assert_eq!(&log.at(third)[8..11], b"abc");
        log.copy((first, 1), (second, 0), 2);
        assert_eq!(&log.at(second)[..2], b"bc");
        log.forget(first, 40);
        log.forget(second, 24);
        let number = log.take_emptiest().unwrap();
        assert_eq!(log.item_of(number, 0), None, "nothing in it is in use");
        log.release(number);
        assert_eq!((log.empty_count(), log.live()), (1, 16));
        assert!(log.drop_segment() && !log.drop_segment());
        assert_eq!(log.bytes(), 64);
        log.add_segment();
        assert!(log.open());
        assert_eq!(log.append(8), Some(LogAddress(1)), "its number is used again");
    }

    #[test]
    fn the_oldest_and_the_emptiest_are_found() {
        let mut log = Log::new(16);
        let places: Vec<LogAddress> = (0..4)
            .map(|_| {
                log.add_segment();
                log.open();
                log.append(16).unwrap()
            })
            .collect();
        log.forget(places[1], 16);
        assert_eq!(log.take_emptiest(), Some(1));
        assert_eq!(log.take_oldest(), Some(0));
        assert_eq!(log.item_of(0, 0), Some(places[0]));
        assert_eq!(log.item_of(0, 16), None);
        assert_eq!(log.sealed(), (1, 32), "those that were taken count until they are empty");
    }
}
