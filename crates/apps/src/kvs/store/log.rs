//! The log: segments of memory that items are appended to, and that are emptied one at a time.
//!
//! It knows where bytes are and how many of a segment's are in use; it knows nothing of keys.

use std::collections::VecDeque;

use super::item::ALIGN;

/// Where an item begins: never 0, so that 0 is free to mean none; 40 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub u64);

impl Place {
    /// Bits of a place.
    pub const BITS: u32 = 40;
}

/// Memory in which items stand one behind the other.
#[derive(Debug)]
struct Segment {
    bytes: Box<[u8]>,
    /// Bytes from the start on that hold items.
    used: usize,
    /// Of these, bytes of items that are in the index.
    live: usize,
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
}

impl Log {
    /// A log without any memory yet. `segment_len` is a multiple of [`ALIGN`].
    pub fn new(segment_len: usize) -> Log {
        debug_assert!(segment_len > 0 && segment_len.is_multiple_of(ALIGN));
        let within_bits = (segment_len / ALIGN).next_power_of_two().trailing_zeros();
        let (segments, empty, vacant, sealed) = Default::default();
        Log { segment_len, within_bits, segments, empty, vacant, sealed, head: None, live: 0 }
    }

    /// Bytes of a segment: no item is longer.
    pub fn segment_len(&self) -> usize {
        self.segment_len
    }

    /// Memory that it has, bytes.
    pub fn bytes(&self) -> usize {
        (self.segments.len() - self.vacant.len()) * self.segment_len
    }

    /// Bytes of items that are in the index.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Segments that have memory and no items.
    pub fn empty_count(&self) -> usize {
        self.empty.len()
    }

    /// Full segments, and the bytes in use of all of them.
    pub fn sealed(&self) -> (usize, usize) {
        let live_in_head = self.head.map_or(0, |head| self.segment(head).live);
        (self.sealed.len(), self.live - live_in_head)
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

    fn place(&self, number: usize, at: usize) -> Place {
        Place(((number << self.within_bits) | (at / ALIGN)) as u64 + 1)
    }

    #[inline]
    fn position(&self, place: Place) -> (usize, usize) {
        let place = (place.0 - 1) as usize;
        let within = place & ((1 << self.within_bits) - 1);
        (place >> self.within_bits, within * ALIGN)
    }

    /// Takes memory for one more empty segment.
    pub fn add_segment(&mut self) {
        let bytes = vec![0; self.segment_len].into_boxed_slice();
        let segment = Some(Segment { bytes, used: 0, live: 0 });
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
    pub fn append(&mut self, len: usize) -> Option<Place> {
        let head = self.head?;
        let segment = self.segment_mut(head);
        let at = segment.used;
        if segment.bytes.len() - at < len {
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

    /// The item at a place and what is behind it in its segment.
    #[inline]
    pub fn at(&self, place: Place) -> &[u8] {
        let (number, at) = self.position(place);
        &self.segment(number).bytes[at..]
    }

    /// The same, to be written.
    #[inline]
    pub fn at_mut(&mut self, place: Place) -> &mut [u8] {
        let (number, at) = self.position(place);
        &mut self.segment_mut(number).bytes[at..]
    }

    /// Copies bytes from `skip` behind one place to `gap` behind another; they do not overlap.
    pub fn copy(&mut self, from: (Place, usize), to: (Place, usize), len: usize) {
        let ((source, start), (target, end)) = (self.position(from.0), self.position(to.0));
        let (start, end) = (start + from.1, end + to.1);
        if source == target {
            self.segment_mut(source).bytes.copy_within(start..start + len, end);
            return;
        }
        // Two that differ are never refused, and both have memory, for items are in them.
        if let Ok([Some(source), Some(target)]) = self.segments.get_disjoint_mut([source, target]) {
            target.bytes[end..end + len].copy_from_slice(&source.bytes[start..start + len]);
        }
    }

    /// So many bytes at a place are no longer in use.
    pub fn forget(&mut self, place: Place, len: usize) {
        let (number, _) = self.position(place);
        self.segment_mut(number).live -= len;
        self.live -= len;
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

    /// Where the item at `at` of a segment that is being emptied is; `None` behind the last.
    pub fn item_of(&self, number: usize, at: usize) -> Option<Place> {
        let segment = self.segment(number);
        (at < segment.used && segment.live > 0).then(|| self.place(number, at))
    }

    /// A segment has been emptied.
    pub fn release(&mut self, number: usize) {
        let segment = self.segment_mut(number);
        debug_assert_eq!(segment.live, 0, "an item would be lost without a word");
        segment.used = 0;
        self.empty.push(number);
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
        assert_eq!(log.append(8), Some(Place(1)), "its number is used again");
    }

    #[test]
    fn the_oldest_and_the_emptiest_are_found() {
        let mut log = Log::new(16);
        let places: Vec<Place> = (0..4)
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
