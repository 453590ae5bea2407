//! Cleaning and eviction: each item that is stored makes a little room in the log.
//!
//! While much of the log is dead, the store empties the segment with the fewest live bytes. All its
//! live items move to the head, and nothing is evicted.
//!
//! While nearly all of the log is live, the store empties the oldest segment. Items that cost
//! little to keep, short or often used ones, move to the head, up to about half of the segment. The
//! others are evicted. Segcache (Yang et al., NSDI'21) merges segments in this way.
//!
//! The card needs one empty DMA segment. To get it, the store moves the live items of the DMA
//! segment with the fewest live bytes to the head of the log.

use super::item::{Header, UseCount, drawn, mark};
use super::log::LogAddress;
use super::partition::{Partition, StoreFailure};
use crate::kvs::protocol::time::UnixTime;

/// Empty segments that are kept: one is the next head while another segment is being emptied.
const EMPTY_KEPT: usize = 2;

/// Bytes that are walked over for each byte that is stored. A segment that is emptied gives at
/// least a quarter of itself back: four would do, and some are lost at the ends of segments.
pub(super) const WALK_RATIO: usize = 8;

/// A cleaned segment keeps at most its bytes divided by this. Keeping more leaves less room for new
/// items; keeping less drops items that are in use.
const KEPT_DIVISOR: u64 = 2;

/// Eighths of a segment that stay at most, where it has more than others of what is cheap.
const EIGHTHS_KEPT_MAX: usize = 5;

/// Part of the full segments in use, in quarters, up to which nothing has to go.
const QUARTERS_KEPT: usize = 3;

/// How cleaning treats items that are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CleaningMode {
    /// All move.
    Compact,
    /// Those that are dear go, the others move.
    Evict,
}

/// A segment that is being emptied.
#[derive(Clone, Copy, Debug)]
struct Victim {
    segment: usize,
    /// How far it was walked over, bytes.
    at: usize,
    way: CleaningMode,
    /// Bytes of it that were moved.
    moved: usize,
    /// Items of this cost and more are too dear to stay.
    cost_end: usize,
}

/// Number of distinct costs of an item.
const COSTS: usize = 320;

/// Cost at a count of 0, without what the length and [`UNREAD_EXTRA`] add. It is so high that no
/// count brings a cost below 0.
const COST_UNREAD_BASE: usize = 2 * UseCount::MAX as usize;

/// Quarter octaves that an item costs more while its count is 0 or less: nobody has read it, or not
/// for about eight rounds per step of its count. One read takes these off, and two more for the
/// first step: six quarter octaves, a factor of 2.8.
const UNREAD_EXTRA: usize = 4;

/// Bytes of items that were walked over, by what it costs to keep them. What came before the last
/// few segments hardly counts.
#[derive(Debug)]
struct Costs([u64; COSTS]);

impl Default for Costs {
    fn default() -> Costs {
        Costs([0; COSTS])
    }
}

impl Costs {
    /// Cost of keeping an item, in quarter octaves: its length to the power of 3/4, divided by how
    /// often it was used. By the whole length most keys would be there when they are asked for, by
    /// none of it most bytes (GreedyDual-Size-Frequency: Cherkasova, HPL-98-69R1, 1998); so fewer
    /// of both are missing than with memcached (`cargo bench -p niclab-bench --bench traces`).
    fn of(len: usize, uses: UseCount) -> usize {
        let octaves = len.max(4).ilog2() as usize;
        let quarters = 4 * octaves + (len >> (octaves - 2) & 3);
        let unread = if uses <= UseCount::default() { UNREAD_EXTRA } else { 0 };
        let dear = COST_UNREAD_BASE + quarters * 3 / 4 + unread;
        dear.saturating_add_signed(-2 * isize::from(uses.0)).min(COSTS - 1)
    }

    fn add(&mut self, len: usize, uses: UseCount) {
        self.0[Costs::of(len, uses)] += len as u64;
    }

    /// Where the items begin that are too dear: those below have half of the bytes, or less.
    fn end(&self) -> usize {
        let quota = self.0.iter().sum::<u64>() / KEPT_DIVISOR;
        let mut sum = 0;
        let is_within = |bytes: &&u64| {
            sum += **bytes;
            sum <= quota
        };
        self.0.iter().take_while(is_within).count()
    }

    fn fade(&mut self) {
        self.0.iter_mut().for_each(|bytes| *bytes /= 2);
    }
}

/// How far the cleaning is.
#[derive(Debug, Default)]
pub struct Cleaning {
    victim: Option<Victim>,
    /// The DMA segment that is being emptied, and how far it was walked over, bytes.
    dma: Option<(usize, usize)>,
    costs: Costs,
}

impl Partition {
    /// Room at the head for an item so long; what is in the way makes room.
    pub(super) fn room_for(
        &mut self,
        len: usize,
        now: UnixTime,
    ) -> Result<LogAddress, StoreFailure> {
        if len > self.item_len_max() {
            return Err(StoreFailure::NoMemory);
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
    fn clean(&mut self, bytes: usize, now: UnixTime) {
        let mut left = bytes;
        while left > 0 && (self.cleaning.victim.is_some() || self.empty_count() < EMPTY_KEPT) {
            let Some(victim) = self.victim() else { return };
            let walked = self.step(victim, now);
            left = left.saturating_sub(walked);
        }
    }

    /// Empties one segment to its end.
    fn clean_one(&mut self, now: UnixTime) -> Result<(), StoreFailure> {
        while let Some(victim) = self.victim() {
            self.step(victim, now);
            if self.cleaning.victim.is_none() {
                return Ok(());
            }
        }
        Err(StoreFailure::NoMemory)
    }

    /// The segment that is being emptied, or the one that is to be next.
    fn victim(&mut self) -> Option<Victim> {
        if self.cleaning.victim.is_none() {
            let (count, live) = self.log.sealed();
            let way = match live * 4 <= count * self.log.segment_len() * QUARTERS_KEPT {
                true => CleaningMode::Compact,
                false => CleaningMode::Evict,
            };
            let segment = match way {
                CleaningMode::Compact => self.log.take_emptiest()?,
                CleaningMode::Evict => self.log.take_oldest()?,
            };
            let cost_end = self.cleaning.costs.end();
            self.cleaning.costs.fade();
            self.cleaning.victim = Some(Victim { segment, at: 0, way, moved: 0, cost_end });
        }
        self.cleaning.victim
    }

    /// One item of the segment that is being emptied; how many bytes that was.
    fn step(&mut self, victim: Victim, now: UnixTime) -> usize {
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
            self.cleaning.costs.add(len, header.uses);
            if !is_over && self.is_kept(&victim, &header) && self.relocate(place, &header) {
                next.moved += len;
            } else {
                self.drop_item(place, &header, is_over);
            }
        }
        self.cleaning.victim = Some(next);
        len
    }

    /// An item is to stay. So much of a segment goes at least, or nothing would be won.
    fn is_kept(&self, victim: &Victim, header: &Header) -> bool {
        let len = header.item_len();
        let is_cheap = Costs::of(len, header.uses) < victim.cost_end;
        let has_room = 8 * (victim.moved + len) <= EIGHTHS_KEPT_MAX * self.log.segment_len();
        victim.way == CleaningMode::Compact || is_cheap && has_room
    }

    /// Moves an item to the head; `false` where there is no room.
    fn relocate(&mut self, place: LogAddress, header: &Header) -> bool {
        let len = header.item_len();
        let new = match self.log.append(len) {
            None if self.open() => self.log.append(len),
            room => room,
        };
        let Some(new) = new else { return false };
        self.move_to(place, new, header);
        // A round of the log has passed.
        if matches!(self.cleaning.victim, Some(Victim { way: CleaningMode::Evict, .. })) {
            let drawn = drawn(self.counters.items_moved);
            self.change(new, |header| header.uses = header.uses.faded(drawn));
        }
        true
    }

    fn move_to(&mut self, place: LogAddress, new: LogAddress, header: &Header) {
        self.log.copy((place, 0), (new, 0), header.item_len());
        self.index.replace(header.hash, place, new);
        self.free_bytes(place, header);
        self.counters.items_moved += 1;
    }

    /// Walks over so many bytes of DMA segments, where none of them is empty.
    pub(super) fn clean_dma(&mut self, bytes: usize, now: UnixTime) {
        let mut left = bytes;
        while left > 0 && (self.cleaning.dma.is_some() || self.log.is_dma_scarce()) {
            let victim = self.cleaning.dma.or_else(|| Some((self.log.take_dma()?, 0)));
            let Some(victim) = victim else { return };
            let walked = self.step_dma(victim, now);
            left = left.saturating_sub(walked);
        }
    }

    /// One item of the DMA segment that is being emptied; how many bytes that was.
    fn step_dma(&mut self, (segment, at): (usize, usize), now: UnixTime) -> usize {
        let Some((place, at)) = self.log.dma_item_of(segment, at) else {
            self.log.release(segment);
            self.cleaning.dma = None;
            // Nothing else that `rotate_segments` does: a burst of events may be half linked.
            self.give();
            return 0;
        };
        let header = Header::read(self.log.at(place));
        let len = header.item_len();
        self.cleaning.dma = Some((segment, at + len));
        if header.has(mark::DEAD) {
            return len;
        }
        let is_over = header.expiry.is_past(now);
        match if is_over { Err(StoreFailure::Gone) } else { self.room_for(len, now) } {
            Ok(new) => self.move_to(place, new, &header),
            Err(_) => self.drop_item(place, &header, is_over),
        }
        len
    }

    fn drop_item(&mut self, place: LogAddress, header: &Header, is_over: bool) {
        self.unlink(place);
        let is_unfetched = u64::from(!header.has(mark::FETCHED));
        if is_over {
            self.counters.reclaimed += 1;
            self.counters.expired_unfetched += is_unfetched;
        } else {
            self.counters.evictions += 1;
            self.counters.evicted_unfetched += is_unfetched;
            self.counters.evicted_active += u64::from(header.uses > UseCount::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A difference of costs as a factor.
    fn factor(quarter_octaves: usize) -> f64 {
        (quarter_octaves as f64 / 4.0).exp2()
    }

    #[test]
    fn an_item_costs_2_8_times_as_much_until_it_is_read() {
        for len in [48, 1024, 1_048_616] {
            let of = |steps| Costs::of(len, UseCount(steps));
            let ratio = factor(of(0) - of(1));
            assert!((2.8..2.85).contains(&ratio), "{ratio} at {len} B");
            // Each step of the count is half an octave.
            assert_eq!([of(1) - of(2), of(5) - of(6), of(-1) - of(0)], [2, 2, 2], "{len} B");
        }
        assert_eq!((Costs::of(1024, UseCount(0)), Costs::of(1024, UseCount(1))), (154, 148));
    }

    #[test]
    fn the_cost_goes_by_the_length_to_the_power_of_three_quarters() {
        for len in [64, 1000, 65_536] {
            let ratio = factor(
                Costs::of(16 * len, UseCount::default()) - Costs::of(len, UseCount::default()),
            );
            assert_eq!(ratio, 8.0, "16 times {len} B");
        }
        // The scale distinguishes its ends.
        let (dearest, cheapest) = (UseCount(-UseCount::MAX), UseCount(UseCount::MAX));
        assert!(Costs::of(1 << 21, dearest) < COSTS - 1);
        assert!(Costs::of(1, cheapest) < Costs::of(48, cheapest));
    }

    #[test]
    fn at_most_the_cheaper_half_stays() {
        let mut costs = Costs::default();
        assert_eq!(costs.end(), COSTS, "nothing was seen: nothing is too dear");
        for steps in 1..=10 {
            costs.add(1000, UseCount(steps));
        }
        let is_kept = |costs: &Costs, steps| Costs::of(1000, UseCount(steps)) < costs.end();
        let kept = |costs: &Costs| (1..=10).filter(|steps| is_kept(costs, *steps)).count();
        assert_eq!(kept(&costs), 5);
        assert!(is_kept(&costs, 10) && is_kept(&costs, 6) && !is_kept(&costs, 5));
        // A single cost that has more than half is too dear as a whole.
        costs.add(100_000, UseCount(30));
        assert_eq!(kept(&costs), 0);
        costs.fade();
        assert_eq!(costs.0.iter().sum::<u64>(), 55_000);
    }
}
