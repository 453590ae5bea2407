//! The lines of a burst's packets: what rules are matched against.
//!
//! Every packet has an *outer* line, the key of its outer headers, which is filled when the burst
//! begins. Two more are filled when a table is asked that picks words from them, and only for the
//! packets that ask it: the *inner* line, the key of what is inside a tunnel, and the *extra* line
//! (`niclab_packet::key::extra`). So whoever finds a rule had the lines that it was found by,
//! whenever the rule was made: no list of rules and no flag of the control side has to say so in
//! time.
//!
//! The words of the *raw* line are bytes of the frame whose places follow from the table: it is
//! filled for each look-up that picks from it. What it needs, the ends of the headers, is kept.
//!
//! The first words of the extra line, metadata and tags, are no part of the frame. They are zero
//! when the burst begins and stay what [`Lines::set_meta`] and [`Lines::set_tag`] make of them.

use niclab_packet::key::{Ends, Key, read_deep};

use crate::limits::BURST;
use crate::memory::{Desc, Region};
use crate::presence::{AllSeen, Shared};
use crate::raw::RawWords;
use crate::rule::{EXTRA, INNER, LINES, OUTER, RAW};
use crate::tables::bits;

/// Tags of a packet.
pub(crate) const TAGS: usize = 4;

/// Words of the extra line that have metadata and tags: two and a half.
const MARK_WORDS: usize = 3;

/// The lines of a burst, by line and packet.
pub(crate) struct Lines {
    keys: [[Key; BURST]; LINES],
    /// Packets whose inner and extra lines are filled.
    deep: u64,
    /// Where their headers end, of the packets in `ended`.
    ends: [Ends; BURST],
    ended: u64,
    /// Packets whose metadata and tags are those of this burst.
    marked: u64,
    /// What is known of the outer lines, by family of masks.
    seen: AllSeen,
}

impl Lines {
    pub(crate) fn new() -> Lines {
        let (keys, seen) = ([[Key::default(); BURST]; LINES], AllSeen::default());
        Lines { keys, deep: 0, ends: [Ends::default(); BURST], ended: 0, marked: 0, seen }
    }

    /// Forgets the last burst and reads the outer headers of this one.
    #[inline]
    pub(crate) fn read(&mut self, region: &Region, burst: &[Desc]) {
        (self.deep, self.ended, self.marked) = (0, 0, 0);
        self.seen.iter_mut().for_each(|seen| seen.forget(u64::MAX));
        for (key, desc) in self.keys[OUTER].iter_mut().zip(burst) {
            key.read(region.frame(desc));
        }
    }

    /// The outer lines.
    #[inline]
    pub(crate) fn outer(&self) -> &[Key; BURST] {
        &self.keys[OUTER]
    }

    /// Asks, for packets that were not asked for yet, which groups can have a rule for them under a
    /// mask that many groups have; which packets these are.
    #[inline]
    pub(crate) fn look(&mut self, shared: &Shared, wanted: u64) -> u64 {
        shared.look(&mut self.seen, &self.keys[OUTER], wanted)
    }

    /// Which packets, of those that were asked for, the group at `place` can have a rule for.
    #[inline]
    pub(crate) fn may_have(&self, shared: &Shared, place: u16) -> u64 {
        shared.may_have(&self.seen, place)
    }

    /// The inner lines; of packets that were deepened.
    pub(crate) fn inner(&self) -> &[Key; BURST] {
        &self.keys[INNER]
    }

    /// Reads the outer headers of a packet again, whose bytes were changed. The other lines follow
    /// when they are asked for; metadata and tags stay.
    pub(crate) fn reread(&mut self, i: usize, frame: &[u8]) {
        self.deep &= !(1 << i);
        self.ended &= !(1 << i);
        self.seen.iter_mut().for_each(|seen| seen.forget(1 << i));
        self.keys[OUTER][i].read(frame);
    }

    /// Fills the inner and extra lines of the packets in `wanted`, where that was not done yet.
    #[cold]
    #[inline(never)]
    pub(crate) fn deepen(&mut self, region: &Region, burst: &[Desc], wanted: u64) {
        for i in bits(wanted & !self.deep) {
            self.mark(i);
            let [_, inner, extra, _] = &mut self.keys;
            read_deep(region.frame(&burst[i]), &mut inner[i], &mut extra[i]);
        }
        self.deep |= wanted;
    }

    /// Fills the raw line of a packet with these words; whether its frame has all of them.
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

    /// A word of a line, by its place among the words of all lines.
    #[inline]
    pub(crate) fn word(&self, i: usize, place: u8) -> u64 {
        self.keys[usize::from(place >> 3) % LINES][i].0[usize::from(place & 7)]
    }

    /// Gives a packet the bits of `value` that are set in `mask` as metadata.
    pub(crate) fn set_meta(&mut self, i: usize, value: u32, mask: u32) {
        self.set_mark(i, 0, value, mask);
    }

    /// Gives a packet the bits of `value` that are set in `mask` as tag `index`, one of [`TAGS`].
    pub(crate) fn set_tag(&mut self, i: usize, index: usize, value: u32, mask: u32) {
        self.set_mark(i, 1 + index % TAGS, value, mask);
    }

    /// Sets bits of metadata (at 0) or of a tag (at 1 and on).
    fn set_mark(&mut self, i: usize, at: usize, value: u32, mask: u32) {
        self.mark(i);
        let half = 32 * (at & 1);
        let [value, mask] = [value, mask].map(|four| u64::from(four.swap_bytes()) << half);
        let word = &mut self.keys[EXTRA][i].0[at / 2];
        *word = *word & !mask | value & mask;
    }

    /// Makes the metadata and tags of a packet those of this burst: zero at first.
    fn mark(&mut self, i: usize) {
        if self.marked >> i & 1 == 0 {
            self.keys[EXTRA][i].0[..MARK_WORDS].fill(0);
            self.marked |= 1 << i;
        }
    }
}

const _: () = assert!(OUTER == 0 && INNER == 1 && EXTRA == 2 && RAW == 3 && LINES == 4);

#[cfg(test)]
mod tests {
    use niclab_packet::key::extra;

    use super::*;

    /// The bytes of the extra line that have metadata and tags.
    fn marks(lines: &Lines, i: usize) -> Vec<u8> {
        lines.keys[EXTRA][i].to_bytes()[extra::META.start..extra::TAGS.end].to_vec()
    }

    #[test]
    fn metadata_and_tags_are_zero_in_each_burst_until_they_are_set() {
        let (region, descs) = Region::new(2, 100).unwrap();
        let mut lines = Lines::new();
        for burst in 0..2 {
            lines.read(&region, &descs);
            lines.set_meta(0, 0x0102_0304, 0xffff_ff00);
            lines.set_tag(0, 0, 0x0506_0708, u32::MAX);
            lines.set_tag(0, 3, 0x090a_0b0c, 0xff);
            if burst == 1 {
                lines.set_tag(0, 3, 0, 0x0f);
                lines.reread(0, &[0; 60]);
            }
            lines.deepen(&region, &descs, 0b11);
            let last = if burst == 0 { 0x0c } else { 0 };
            let mut expected = vec![1, 2, 3, 0, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
            assert_eq!(marks(&lines, 0), expected);
            expected.fill(0);
            assert_eq!(marks(&lines, 1), expected);
        }
    }
}
