//! Parsed headers: the header fields of a burst's packets that rules match.
//!
//! Each packet has up to four keys. The *outer* key has the outer headers; it is read when the
//! burst begins. The *inner* key has the headers inside a tunnel, and the *extra* key has fields
//! that neither key has room for (`niclab_packet::key::extra`). These two are read when a table
//! with such a mask is asked, and only for the packets that ask it. So a packet that matches a rule
//! always has the keys that the rule needs, whenever the rule was created. No list of rules and no
//! flag of the control side is needed for that.
//!
//! The words of the *raw* key are bytes of the frame at places that depend on the mask. It is read
//! for each look-up that needs it; the ends of the headers, which it is read from, are kept.
//!
//! The first words of the extra key are metadata and tags, which are not part of the frame. They
//! are zero when the burst begins; [`ParsedHeaders::set_meta`] and [`ParsedHeaders::set_tag`] set
//! them.

use niclab_packet::key::{Ends, Key, read_deep};

use crate::families::{AllCandidateGroups, FamilyFilter};
use crate::limits::BURST;
use crate::memory::{Desc, Frames};
use crate::raw::RawWords;
use crate::rule::{EXTRA, HEADER_KEYS, INNER, OUTER, RAW};
use crate::tables::bits;

/// Tags of a packet.
pub(crate) const TAGS: usize = 4;

/// Words of the extra key that have metadata and tags; they take two and a half.
const MARK_WORDS: usize = 3;

/// The header keys of a burst, by key and packet.
pub(crate) struct ParsedHeaders {
    keys: [[Key; BURST]; HEADER_KEYS],
    /// Packets whose inner and extra keys were read.
    deep: u64,
    /// Where the headers end, for the packets in `ended`.
    ends: [Ends; BURST],
    ended: u64,
    /// Packets whose metadata and tags belong to this burst.
    marked: u64,
    /// Answers of the filters of families for this burst.
    candidates: AllCandidateGroups,
}

impl ParsedHeaders {
    pub(crate) fn new() -> ParsedHeaders {
        let (keys, candidates) =
            ([[Key::default(); BURST]; HEADER_KEYS], AllCandidateGroups::default());
        ParsedHeaders {
            keys,
            deep: 0,
            ends: [Ends::default(); BURST],
            ended: 0,
            marked: 0,
            candidates,
        }
    }

    /// Begins a burst: reads its outer headers.
    #[inline]
    pub(crate) fn read(&mut self, frames: &impl Frames, burst: &[Desc]) {
        (self.deep, self.ended, self.marked) = (0, 0, 0);
        self.candidates.iter_mut().for_each(|candidates| candidates.forget(u64::MAX));
        for (key, desc) in self.keys[OUTER].iter_mut().zip(burst) {
            key.read(frames.frame(desc));
        }
    }

    /// The outer keys.
    #[inline]
    pub(crate) fn outer(&self) -> &[Key; BURST] {
        &self.keys[OUTER]
    }

    /// Asks the filter of a family which groups can have a rule for these packets. Returns the
    /// packets that it was not asked for before.
    #[inline]
    pub(crate) fn look(&mut self, family: &FamilyFilter, wanted: u64) -> u64 {
        family.look(&mut self.candidates, &self.keys[OUTER], wanted)
    }

    /// Packets, of those the filter was asked for, that the group at `place` can have a rule for.
    #[inline]
    pub(crate) fn may_have(&self, family: &FamilyFilter, place: u16) -> u64 {
        family.may_have(&self.candidates, place)
    }

    /// The inner keys; valid for packets whose inner and extra keys were read.
    pub(crate) fn inner(&self) -> &[Key; BURST] {
        &self.keys[INNER]
    }

    /// Reads the outer headers of a packet again, because its bytes were changed. The other keys
    /// are read when they are needed next; metadata and tags stay.
    pub(crate) fn reread(&mut self, i: usize, frame: &[u8]) {
        self.deep &= !(1 << i);
        self.ended &= !(1 << i);
        self.candidates.iter_mut().for_each(|candidates| candidates.forget(1 << i));
        self.keys[OUTER][i].read(frame);
    }

    /// Reads the inner and extra keys of the packets in `wanted` that do not have them yet.
    #[cold]
    #[inline(never)]
    pub(crate) fn deepen(&mut self, frames: &impl Frames, burst: &[Desc], wanted: u64) {
        for i in bits(wanted & !self.deep) {
            self.mark(i);
            let [_, inner, extra, _] = &mut self.keys;
            read_deep(frames.frame(&burst[i]), &mut inner[i], &mut extra[i]);
        }
        self.deep |= wanted;
    }

    /// Reads these words into the raw key of a packet; false if the frame lacks some of them.
    #[cold]
    #[inline(never)]
    pub(crate) fn read_raw(&mut self, i: usize, frame: &[u8], words: &RawWords) -> bool {
        if self.ended >> i & 1 == 0 {
            self.ends[i] = Ends::read(frame);
            self.ended |= 1 << i;
        }
        let line = words.read(frame, &self.ends[i]);
        self.keys[RAW][i] = line.unwrap_or_default();
        line.is_some()
    }

    /// A word of a header key, by its place among the words of all header keys.
    #[inline]
    pub(crate) fn word(&self, i: usize, place: u8) -> u64 {
        self.keys[usize::from(place >> 3) % HEADER_KEYS][i].0[usize::from(place & 7)]
    }

    /// Sets the bits of a packet's metadata that are set in `mask` to those of `value`.
    pub(crate) fn set_meta(&mut self, i: usize, value: u32, mask: u32) {
        self.set_mark(i, 0, value, mask);
    }

    /// Sets the bits of a packet's tag `index`, below [`TAGS`], that are set in `mask` to those of
    /// `value`.
    pub(crate) fn set_tag(&mut self, i: usize, index: usize, value: u32, mask: u32) {
        self.set_mark(i, 1 + index % TAGS, value, mask);
    }

    /// Sets bits of metadata (at 0) or of a tag (from 1 on).
    fn set_mark(&mut self, i: usize, at: usize, value: u32, mask: u32) {
        self.mark(i);
        let half = 32 * (at & 1);
        let [value, mask] = [value, mask].map(|four| u64::from(four.swap_bytes()) << half);
        let word = &mut self.keys[EXTRA][i].0[at / 2];
        *word = *word & !mask | value & mask;
    }

    /// Zeroes the metadata and tags of a packet, if they are of an earlier burst.
    fn mark(&mut self, i: usize) {
        if self.marked >> i & 1 == 0 {
            self.keys[EXTRA][i].0[..MARK_WORDS].fill(0);
            self.marked |= 1 << i;
        }
    }
}

const _: () = assert!(OUTER == 0 && INNER == 1 && EXTRA == 2 && RAW == 3 && HEADER_KEYS == 4);

#[cfg(test)]
mod tests {
    use niclab_packet::key::extra;

    use super::*;
    use crate::memory::Region;

    /// The bytes of the extra key that have metadata and tags.
    fn marks(headers: &ParsedHeaders, i: usize) -> Vec<u8> {
        headers.keys[EXTRA][i].to_bytes()[extra::META.start..extra::TAGS.end].to_vec()
    }

    #[test]
    fn metadata_and_tags_are_zero_in_each_burst_until_they_are_set() {
        let (region, descs) = Region::new(2, 100).unwrap();
        let mut headers = ParsedHeaders::new();
        for burst in 0..2 {
            headers.read(&*region, &descs);
            headers.set_meta(0, 0x0102_0304, 0xffff_ff00);
            headers.set_tag(0, 0, 0x0506_0708, u32::MAX);
            headers.set_tag(0, 3, 0x090a_0b0c, 0xff);
            if burst == 1 {
                headers.set_tag(0, 3, 0, 0x0f);
                headers.reread(0, &[0; 60]);
            }
            headers.deepen(&*region, &descs, 0b11);
            let last = if burst == 0 { 0x0c } else { 0 };
            let mut expected = vec![1, 2, 3, 0, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
            assert_eq!(marks(&headers, 0), expected);
            expected.fill(0);
            assert_eq!(marks(&headers, 1), expected);
        }
    }
}
