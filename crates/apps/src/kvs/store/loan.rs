//! What a partition has of a network card: segments that the card writes items into, and the ring
//! by which it says so.
//!
//! An item that the card has written, and answered, is there for whoever comes next, by whatever
//! way: who takes the partition's lock first links all items that the ring tells of
//! ([`Partition::catch_up`]). The core that answers what is asked for takes the events themselves
//! ([`Partition::take_events`]), in their order, and passes over items that are linked.
//!
//! **Places of the ring that are not filled yet.** A core of the card takes a place of the ring and
//! then fills it; others may fill places behind it meanwhile, and answer. So who links looks behind
//! such a place, too. A core takes one at a time: behind as many empty places as there are cores
//! nothing was told to anybody. What is then linked before its turn came is known by a bit. The
//! item of an empty place, whose client has no answer yet, is linked when that is filled, over
//! those of the same key that were linked meanwhile.
//!
//! **When a segment is sealed.** A core of the card that was given a place in a segment may still
//! be writing there when another one finds it full. So the store waits, in this order, until every
//! core of the card has ended a turn since the segment was seen to be full: all items are written
//! and their events too; until every core has ended one more: all events before these are whole;
//! and until a look that began after that has come to an event that is not there yet, or so far
//! that no older one can be behind, and what it took is linked. Why a core that rests has not to be
//! waited for stands in `turns`.

use super::cleaning::WALK_RATIO;
use super::counters::Stored;
use super::item::{HEADER_LEN, Header, is_of, write_hash};
use super::lent::{LENT_BYTES, LENT_LEN, Loan, Piece, SEGMENT_SHIFT};
use super::limits::PARTITION_BYTES_MIN;
use super::log::Place;
use super::partition::Partition;
use crate::kvs::protocol::event::{Event, Told, Written};
use crate::kvs::protocol::hash::hash;
use crate::kvs::protocol::time::Moment;

/// How many segments a card lends each of so many partitions, of a window that has so many: half of
/// the memory, as far as they go. `None` where it is too little for two, without which the card has
/// none while one is emptied.
pub fn segments_of(bytes: usize, partitions: usize, window: usize) -> Option<usize> {
    let budget = bytes / partitions;
    let count = (budget / 2 / LENT_BYTES).min(window / partitions).max(2);
    let fits = count * LENT_BYTES + PARTITION_BYTES_MIN <= budget && count * partitions <= window;
    fits.then_some(count)
}

/// Least memory of a partition to which a card lends segments, bytes.
pub const LENT_PARTITION_BYTES_MIN: usize = 2 * LENT_BYTES + PARTITION_BYTES_MIN;

/// How far the last full segment is on its way to be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Draining {
    /// There is none.
    Not,
    /// Some core has not ended a turn since.
    Written,
    /// Or has not ended another one.
    Told,
    /// The events up to this number are to be taken, or all that are there.
    Linked(u64),
    /// They were; it is sealed once the last of them is linked.
    Taken,
}

/// A loan as a partition has it.
#[derive(Debug)]
pub(super) struct Lent {
    loan: Loan,
    seed: u64,
    /// Events, since the start, all of which were linked or taken.
    linked: u64,
    /// Those of the events behind that were linked: bits, by the number's place in the ring.
    early: Box<[u64]>,
    /// How many they are.
    early_count: usize,
    draining: Draining,
    /// The turns of all cores when that began.
    since: Box<[u64]>,
    /// Items that were linked, and events of items that cannot be.
    stored: Stored,
    unfit: u64,
}

impl Lent {
    /// Every core has ended a turn since [`Lent::begin`], or rested then.
    fn has_turned(&self) -> bool {
        self.loan.turns.have_ended(&self.since)
    }

    fn begin(&mut self, draining: Draining) {
        self.draining = draining;
        self.loan.turns.look(&mut self.since);
    }

    /// The word and the bit of an event among those that were linked before their turn.
    #[inline]
    fn bit(&self, number: u64) -> (usize, u64) {
        let at = (number & u64::from(self.loan.events.shape().entries - 1)) as usize;
        (at / 64, 1 << (at % 64))
    }

    /// Whether an event behind [`Lent::linked`] was linked.
    #[inline]
    fn is_early(&self, number: u64) -> bool {
        let (word, bit) = self.bit(number);
        self.early_count > 0 && self.early[word] & bit != 0
    }

    /// An event was linked, or looked at: it is passed over from now on.
    fn pass(&mut self, number: u64) {
        let (word, bit) = self.bit(number);
        self.early[word] |= bit;
        self.early_count += 1;
        self.pass_to(self.linked);
    }

    /// All events up to this one were linked or taken; and those behind it that were linked.
    #[inline]
    fn pass_to(&mut self, number: u64) {
        if self.early_count == 0 {
            self.linked = self.linked.max(number);
        }
        while self.linked < number || self.is_early(self.linked) {
            if self.is_early(self.linked) {
                let (word, bit) = self.bit(self.linked);
                self.early[word] &= !bit;
                self.early_count -= 1;
            }
            self.linked += 1;
        }
    }

    /// A look at the ring is over, and `is_last` says that it came to an event that is not there
    /// yet. What it says of an older state than that when it began is worth nothing.
    fn looked(&mut self, is_last: bool) {
        if let Draining::Linked(end) = self.draining
            && (is_last || self.linked >= end)
        {
            self.draining = Draining::Taken;
        }
    }

    /// Takes a number for an item, of those that the card gives.
    pub(super) fn number(&self) -> u64 {
        self.loan.next.number()
    }

    /// The card has no room in the segment that it appends to.
    fn is_full(&self) -> bool {
        self.loan.next.read() & ((1 << SEGMENT_SHIFT) - 1) >= LENT_LEN as u64
    }
}

impl Partition {
    /// Takes segments of a card over, before anything was stored; `seed` is that of the keys'
    /// hashes.
    pub fn lend(&mut self, loan: Loan, seed: u64) {
        let pieces = loan.segments.clone().map(|number| Piece::new(&loan.window, number));
        self.make_room_for_lent(loan.segments.len() * LENT_BYTES);
        self.log.lend(pieces);
        let since = vec![0; loan.turns.cores()].into();
        let (linked, draining, stored) = (loan.events.taken(), Draining::Not, Stored::default());
        let early = vec![0; (loan.events.shape().entries as usize).div_ceil(64)].into();
        let (early_count, unfit) = (0, 0);
        let lent = Lent { loan, seed, linked, early, early_count, draining, since, stored, unfit };
        self.lent = Some(Box::new(lent));
        self.settle();
    }

    /// Items of the card that were linked; counted since the start.
    pub fn stored(&self) -> Stored {
        self.lent.as_ref().map_or(Stored::default(), |lent| lent.stored)
    }

    /// Items of the card that could not be; counted since the start.
    pub fn unfit(&self) -> u64 {
        self.lent.as_ref().map_or(0, |lent| lent.unfit)
    }

    /// Whether the card has told something that nobody has taken.
    pub fn has_events(&self) -> bool {
        self.lent.as_ref().is_some_and(|lent| lent.loan.events.look(0, |_, _| ()).is_some())
    }

    /// Links every item that the card has told of so far.
    #[inline]
    pub fn catch_up(&mut self) {
        if self.lent.is_some() {
            self.link_all();
        }
    }

    fn link_all(&mut self) {
        let Some(lent) = &self.lent else { return };
        let (mut number, mut gaps) = (lent.linked, lent.loan.turns.cores());
        while gaps > 0 {
            let Some(lent) = &mut self.lent else { return };
            // Where an empty place was filled, all up to the next one is known.
            number = number.max(lent.linked);
            if lent.is_early(number) {
                number += 1;
                continue;
            }
            let written = Event::written(&lent.loan.events, number - lent.loan.events.taken());
            match written {
                Some(_) => lent.pass(number),
                None => {
                    gaps -= 1;
                    if number == lent.linked {
                        lent.looked(true);
                    }
                }
            }
            number += 1;
            let Some(Some(written)) = written else { continue };
            self.flush_before(&written);
            if let Some((place, _)) = self.publish(&written) {
                self.link_written(place);
            }
        }
        self.settle();
    }

    /// Takes events, as many as there is room for, at most 64; how many, and by bits which of them
    /// were looked at already: their items are linked. [`Partition::settle`] is to follow once the
    /// others are; until then nothing is flushed that is due at `now`, for it was here.
    #[inline]
    pub fn take_events(&mut self, room: &mut [Event], now: Moment) -> (usize, u64) {
        self.flush_when_due(now);
        let Some(lent) = &mut self.lent else { return (0, 0) };
        let (first, mut count, mut known) = (lent.loan.events.taken(), 0, 0);
        // As many as there are bits to say what is known of them.
        let most = room.len().min(u64::BITS as usize);
        let room = &mut room[..most];
        while count < room.len() && room[count].take(&mut lent.loan.events) {
            let number = first + count as u64;
            known |= u64::from(number < lent.linked || lent.is_early(number)) << count;
            count += 1;
        }
        lent.pass_to(lent.loan.events.taken());
        lent.looked(count < room.len());
        // The next ones come while these are served.
        (0..count as u64).for_each(|ahead| lent.loan.events.ask(ahead));
        if self.is_flush_ahead() {
            for (at, event) in room[..count].iter().enumerate() {
                if known >> at & 1 == 0
                    && let Told::Stored(written) = event.told()
                {
                    self.flush_before(&written);
                }
            }
        }
        (count, known)
    }

    /// Flushes what the card stored before a flush that was due when it wrote this item, the time
    /// of which is the card's. Never once an item was published that is not linked: the flush would
    /// forget its bytes, and the index lead there all the same.
    fn flush_before(&mut self, written: &Written) {
        if self.is_flush_ahead()
            && let Some(time) = self.log.written(written.at)
        {
            self.flush_when_due(time);
        }
    }

    /// Asks for an item that the card says it has written, ahead of its use.
    #[inline]
    pub fn ask_written(&self, written: &Written) {
        if let Some(lent) = &self.lent {
            lent.loan.window.ask(written.at, 2);
        }
    }

    /// Takes notice of an item that the card has written, to be linked next; where it is, and the
    /// hash of its key. What cannot be is counted.
    pub fn publish(&mut self, written: &Written) -> Option<(Place, u64)> {
        let published = self.log.publish(written.at, written.len);
        let lent = self.lent.as_mut()?;
        let Some((place, header)) = published else {
            lent.unfit += 1;
            return None;
        };
        let bytes = self.log.at_mut(place);
        let hash = hash(&bytes[HEADER_LEN..header.value_start()], lent.seed);
        write_hash(bytes, hash);
        Some((place, hash))
    }

    /// Has the index lead to an item that was published, in place of the one of its key that is
    /// there.
    pub fn link_written(&mut self, place: Place) {
        let header = Header::read(self.log.at(place));
        self.counters.cmd_set += 1;
        if let Some(lent) = &mut self.lent {
            let content_len = usize::from(header.key_len) + header.value_len as usize;
            lent.stored.count(content_len);
        }
        if self.is_flushed(header.written) {
            return self.bury(place, &header);
        }
        // The card says what time it was.
        let now = header.written;
        let log = &self.log;
        let item = log.at(place);
        let key = &item[HEADER_LEN..header.value_start()];
        let old = self.index.find(header.hash, |other| is_of(log.at(other), header.hash, key));
        if self.link(old, place, &header).is_err() {
            // The client was told that it is stored: as if it had to go at once.
            self.counters.evictions += 1;
        }
        self.clean_lent(header.item_len() * WALK_RATIO, now);
    }

    /// Seals a segment, and gives the card the next one, where it is time; all items that were
    /// published are linked.
    pub fn settle(&mut self) {
        let Some(lent) = &mut self.lent else { return };
        match lent.draining {
            Draining::Written if lent.has_turned() => lent.begin(Draining::Told),
            Draining::Told if lent.has_turned() => {
                let entries = u64::from(lent.loan.events.shape().entries);
                lent.draining = Draining::Linked(lent.loan.events.taken() + entries);
            }
            Draining::Taken => {
                self.log.seal_lent();
                lent.draining = Draining::Not;
            }
            _ => {}
        }
        self.give();
    }

    /// Gives the card the next segment, where it is time.
    pub(super) fn give(&mut self) {
        let Some(lent) = &mut self.lent else { return };
        if lent.draining != Draining::Not || self.log.is_lent_scarce() || !lent.is_full() {
            return;
        }
        if let Some((number, had_another)) = self.log.give_lent() {
            lent.loan.next.write((number as u64) << SEGMENT_SHIFT);
            if had_another {
                lent.begin(Draining::Written);
            }
        }
    }
}
