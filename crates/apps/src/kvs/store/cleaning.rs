//! Making room in the log, a little with every item that is stored.
//!
//! Where much of the log is no longer in use, the segment with the least in use is taken and all
//! that is good in it moves to the head: nothing is lost. Where nearly all is in use, the oldest
//! segment is taken; what was read since it was written or moved stays (CLOCK), the rest goes.
//!
//! Of the segments that a card lends one is to be empty for it; all that lives in the one with the
//! least in use moves to the head of the log, where it has its turn with the others.

use super::super::time::Moment;
use super::item::{Header, mark};
use super::log::Place;
use super::partition::{Partition, Unstored};

/// Empty segments that are kept, so that a new head is there while the next segment is emptied.
const EMPTY_KEPT: usize = 2;

/// Bytes that are walked over for each byte that is stored. A segment that is emptied gives at
/// least a quarter of itself back: four would do, and some are lost at the ends of segments.
pub(super) const WALK_RATIO: usize = 8;

/// Part of the full segments in use, in quarters, up to which nothing has to go.
const QUARTERS_KEPT: usize = 3;

/// What becomes of items that nobody has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// All move.
    Compact,
    /// They go, and those that were read move.
    Evict,
}

/// A segment that is being emptied.
#[derive(Clone, Copy, Debug)]
struct Victim {
    segment: usize,
    /// How far it was walked over, bytes.
    at: usize,
    way: Way,
    /// Bytes of it that were moved.
    moved: usize,
}

/// How far the cleaning is.
#[derive(Debug, Default)]
pub struct Cleaning {
    victim: Option<Victim>,
    /// The lent segment that is being emptied, and how far it was walked over, bytes.
    lent: Option<(usize, usize)>,
}

impl Partition {
    /// Room at the head for an item so long; what is in the way makes room.
    pub(super) fn room_for(&mut self, len: usize, now: Moment) -> Result<Place, Unstored> {
        if len > self.item_len_max() {
            return Err(Unstored::NoMemory);
        }
        self.clean(len * WALK_RATIO, now);
        loop {
            if let Some(place) = self.log.append(len) {
                return Ok(place);
            }
            if !self.open() {
                self.clean_one(now)?;
            }
        }
    }

    /// Makes an empty segment the head.
    fn open(&mut self) -> bool {
        if self.log.empty_count() == 0 && self.unspent() >= self.log.segment_len() {
            self.log.add_segment();
        }
        self.log.open()
    }

    /// Segments that could become the head.
    fn empty_count(&self) -> usize {
        self.log.empty_count() + self.unspent() / self.log.segment_len()
    }

    /// Walks over so many bytes, where room is scarce.
    fn clean(&mut self, bytes: usize, now: Moment) {
        let mut left = bytes;
        while left > 0 && (self.cleaning.victim.is_some() || self.empty_count() < EMPTY_KEPT) {
            let Some(victim) = self.victim() else { return };
            let walked = self.step(victim, now);
            left = left.saturating_sub(walked);
        }
    }

    /// Empties one segment to its end.
    fn clean_one(&mut self, now: Moment) -> Result<(), Unstored> {
        while let Some(victim) = self.victim() {
            self.step(victim, now);
            if self.cleaning.victim.is_none() {
                return Ok(());
            }
        }
        Err(Unstored::NoMemory)
    }

    /// The segment that is being emptied, or the one that is to be next.
    fn victim(&mut self) -> Option<Victim> {
        if self.cleaning.victim.is_none() {
            let (count, live) = self.log.sealed();
            let way = match live * 4 <= count * self.log.segment_len() * QUARTERS_KEPT {
                true => Way::Compact,
                false => Way::Evict,
            };
            let segment = match way {
                Way::Compact => self.log.take_emptiest()?,
                Way::Evict => self.log.take_oldest()?,
            };
            self.cleaning.victim = Some(Victim { segment, at: 0, way, moved: 0 });
        }
        self.cleaning.victim
    }

    /// One item of the segment that is being emptied; how many bytes that was.
    fn step(&mut self, victim: Victim, now: Moment) -> usize {
        let Some(place) = self.log.item_of(victim.segment, victim.at) else {
            self.log.release(victim.segment);
            self.cleaning.victim = None;
            return 0;
        };
        let header = Header::read(self.log.at(place));
        let len = header.item_len();
        let mut next = Victim { at: victim.at + len, ..victim };
        if !header.has(mark::DEAD) {
            let is_over = header.expiry.is_past(now);
            if !is_over && self.is_kept(&victim, &header) && self.relocate(place, &header) {
                next.moved += len;
            } else {
                self.drop_item(place, &header, is_over);
            }
        }
        self.cleaning.victim = Some(next);
        len
    }

    /// An item is to stay. At most half of a segment does, or nothing would be won.
    fn is_kept(&self, victim: &Victim, header: &Header) -> bool {
        let is_recent = header.has(mark::RECENT);
        let has_room = 2 * (victim.moved + header.item_len()) <= self.log.segment_len();
        victim.way == Way::Compact || is_recent && has_room
    }

    /// Moves an item to the head; `false` where there is no room.
    fn relocate(&mut self, place: Place, header: &Header) -> bool {
        let len = header.item_len();
        let new = match self.log.append(len) {
            None if self.open() => self.log.append(len),
            room => room,
        };
        let Some(new) = new else { return false };
        self.move_to(place, new, header);
        // It has had its turn: unless it is read again, it goes next time.
        if matches!(self.cleaning.victim, Some(Victim { way: Way::Evict, .. })) {
            self.change(new, |header| header.marks &= !mark::RECENT);
        }
        true
    }

    fn move_to(&mut self, place: Place, new: Place, header: &Header) {
        self.log.copy((place, 0), (new, 0), header.item_len());
        self.index.replace(header.hash, place, new);
        self.bury(place, header);
        self.counters.items_moved += 1;
    }

    /// Walks over so many bytes of segments that are lent, where none of them is empty.
    pub(super) fn clean_lent(&mut self, bytes: usize, now: Moment) {
        let mut left = bytes;
        while left > 0 && (self.cleaning.lent.is_some() || self.log.is_lent_scarce()) {
            let victim = self.cleaning.lent.or_else(|| Some((self.log.take_lent()?, 0)));
            let Some(victim) = victim else { return };
            let walked = self.step_lent(victim, now);
            left = left.saturating_sub(walked);
        }
    }

    /// One item of the lent segment that is being emptied; how many bytes that was.
    fn step_lent(&mut self, (segment, at): (usize, usize), now: Moment) -> usize {
        let Some((place, at)) = self.log.lent_item_of(segment, at) else {
            self.log.release(segment);
            self.cleaning.lent = None;
            // Nothing else that `settle` does: a burst of events may be half linked.
            self.give();
            return 0;
        };
        let header = Header::read(self.log.at(place));
        let len = header.item_len();
        self.cleaning.lent = Some((segment, at + len));
        if header.has(mark::DEAD) {
            return len;
        }
        let is_over = header.expiry.is_past(now);
        match if is_over { Err(Unstored::Gone) } else { self.room_for(len, now) } {
            Ok(new) => self.move_to(place, new, &header),
            Err(_) => self.drop_item(place, &header, is_over),
        }
        len
    }

    fn drop_item(&mut self, place: Place, header: &Header, is_over: bool) {
        self.unlink(place);
        let is_unfetched = u64::from(!header.has(mark::FETCHED));
        if is_over {
            self.counters.reclaimed += 1;
            self.counters.expired_unfetched += is_unfetched;
        } else {
            self.counters.evictions += 1;
            self.counters.evicted_unfetched += is_unfetched;
            self.counters.evicted_active += u64::from(header.has(mark::RECENT));
        }
    }
}
