//! A partition's share of a network card: the DMA segments that the card writes items into, and the
//! ring of events that report them.
//!
//! Once the card has answered a set, everybody finds the item, whichever way he comes: the next one
//! to take the partition's lock links all items that the ring reports ([`Partition::catch_up`]).
//! The core that serves the ring takes the events themselves ([`Partition::take_events`]), in their
//! order, and passes over items that are linked already.
//!
//! **Slots of the ring that are not filled yet.** A core of the card takes a slot of the ring,
//! fills it, and then answers. Other cores may meanwhile fill slots behind it, and answer. So
//! [`Partition::catch_up`] looks behind an empty slot, too. Each core has one slot at a time:
//! behind as many empty slots as there are cores, nobody has an answer yet. A bit marks each event
//! that was linked before its turn. The item of an empty slot, whose client has no answer yet, is
//! linked when the slot is filled, over items of the same key that were linked meanwhile.
//!
//! **When a segment is sealed.** A core of the card may still be writing to a segment when another
//! core finds it full. So the store waits for three things, one after the other:
//! 1. Every core of the card has ended a turn since the segment was full: all items are written,
//!    and their events too.
//! 2. Every core has ended one more turn: all events before these are whole.
//! 3. A look at the ring that began after that has come to an empty slot, or so far that no older
//!    event can be behind, and all that it took is linked.
//!
//! `quiescence` says why the store does not wait for a core that rests.

use super::cleaning::WALK_RATIO;
use super::counters::DmaItemCounters;
use super::dma_segment::{
    DMA_SEGMENT_BYTES, DMA_SEGMENT_LEN, DmaSegment, DmaSegments, SEGMENT_SHIFT,
};
use super::item::{HEADER_LEN, Header, is_of, write_hash};
use super::limits::PARTITION_BYTES_MIN;
use super::log::LogAddress;
use super::partition::Partition;
use crate::kvs::protocol::event::{Event, EventKind, WrittenItem};
use crate::kvs::protocol::hash::hash;
use crate::kvs::protocol::time::UnixTime;

/// DMA segments of each of so many partitions, of a window that has `window` of them: half of the
/// memory, as far as they go. `None` where the memory is too little for two: with one, the card
/// would have none while that is emptied.
pub fn dma_segments_of(bytes: usize, partitions: usize, window: usize) -> Option<usize> {
    let budget = bytes / partitions;
    let count = (budget / 2 / DMA_SEGMENT_BYTES).min(window / partitions).max(2);
    let fits =
        count * DMA_SEGMENT_BYTES + PARTITION_BYTES_MIN <= budget && count * partitions <= window;
    fits.then_some(count)
}

/// Least memory of a partition with DMA segments, bytes.
pub const DMA_PARTITION_BYTES_MIN: usize = 2 * DMA_SEGMENT_BYTES + PARTITION_BYTES_MIN;

/// How far the last full segment is on its way to be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Draining {
    /// There is none.
    Not,
    /// Some core has not ended a turn since.
    Written,
    /// Or has not ended another one.
    Reported,
    /// The events up to this number are to be taken, or all that are there.
    Linked(u64),
    /// They were; it is sealed once the last of them is linked.
    Taken,
}

/// The memory and events that a card shares with a partition, and the partition's progress.
#[derive(Debug)]
pub(super) struct DmaState {
    card: DmaSegments,
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
    stored: DmaItemCounters,
    unfit: u64,
}

impl DmaState {
    /// Every core has ended a turn since [`DmaState::begin`], or rested then.
    fn has_turned(&self) -> bool {
        self.card.turns.have_passed(&self.since)
    }

    fn begin(&mut self, draining: Draining) {
        self.draining = draining;
        self.card.turns.snapshot(&mut self.since);
    }

    /// The word and the bit of an event among those that were linked before their turn.
    #[inline]
    fn bit(&self, number: u64) -> (usize, u64) {
        let at = (number & u64::from(self.card.events.shape().entries - 1)) as usize;
        (at / 64, 1 << (at % 64))
    }

    /// Whether an event behind [`DmaState::linked`] was linked.
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
        self.card.next.number()
    }

    /// The card has no room in the segment that it appends to.
    fn is_full(&self) -> bool {
        self.card.next.read() & ((1 << SEGMENT_SHIFT) - 1) >= DMA_SEGMENT_LEN as u64
    }
}

impl Partition {
    /// Takes segments of a card over, before anything was stored; `seed` is that of the keys'
    /// hashes.
    pub fn attach_dma(&mut self, card: DmaSegments, seed: u64) {
        let segments = card.segments.clone().map(|number| DmaSegment::new(&card.window, number));
        self.make_room_for_dma(card.segments.len() * DMA_SEGMENT_BYTES);
        self.log.add_dma(segments);
        let since = vec![0; card.turns.cores()].into();
        let (linked, draining, stored) =
            (card.events.taken(), Draining::Not, DmaItemCounters::default());
        let early = vec![0; (card.events.shape().entries as usize).div_ceil(64)].into();
        let (early_count, unfit) = (0, 0);
        let dma =
            DmaState { card, seed, linked, early, early_count, draining, since, stored, unfit };
        self.dma = Some(Box::new(dma));
        self.rotate_segments();
    }

    /// Items of the card that were linked; counted since the start.
    pub fn stored(&self) -> DmaItemCounters {
        self.dma.as_ref().map_or(DmaItemCounters::default(), |dma| dma.stored)
    }

    /// Items of the card that could not be; counted since the start.
    pub fn unfit(&self) -> u64 {
        self.dma.as_ref().map_or(0, |dma| dma.unfit)
    }

    /// Whether the card has told something that nobody has taken.
    pub fn has_events(&self) -> bool {
        self.dma.as_ref().is_some_and(|dma| dma.card.events.look(0, |_, _| ()).is_some())
    }

    /// Links every item that the card has told of so far.
    #[inline]
    pub fn catch_up(&mut self) {
        if self.dma.is_some() {
            self.link_all();
        }
    }

    fn link_all(&mut self) {
        let Some(dma) = &self.dma else { return };
        let (mut number, mut gaps) = (dma.linked, dma.card.turns.cores());
        while gaps > 0 {
            let Some(dma) = &mut self.dma else { return };
            // Where an empty place was filled, all up to the next one is known.
            number = number.max(dma.linked);
            if dma.is_early(number) {
                number += 1;
                continue;
            }
            let written = Event::written(&dma.card.events, number - dma.card.events.taken());
            match written {
                Some(_) => dma.pass(number),
                None => {
                    gaps -= 1;
                    if number == dma.linked {
                        dma.looked(true);
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
        self.rotate_segments();
    }

    /// Takes events, as many as there is room for, at most 64; how many, and by bits which of them
    /// were looked at already: their items are linked. [`Partition::rotate_segments`] is to follow
    /// once the others are; until then nothing is flushed that is due at `now`, for it was here.
    #[inline]
    pub fn take_events(&mut self, room: &mut [Event], now: UnixTime) -> (usize, u64) {
        self.flush_when_due(now);
        let Some(dma) = &mut self.dma else { return (0, 0) };
        let (first, mut count, mut known) = (dma.card.events.taken(), 0, 0);
        // As many as there are bits to say what is known of them.
        let most = room.len().min(u64::BITS as usize);
        let room = &mut room[..most];
        while count < room.len() && room[count].take(&mut dma.card.events) {
            let number = first + count as u64;
            known |= u64::from(number < dma.linked || dma.is_early(number)) << count;
            count += 1;
        }
        dma.pass_to(dma.card.events.taken());
        dma.looked(count < room.len());
        // The next ones come while these are served.
        (0..count as u64).for_each(|ahead| dma.card.events.ask(ahead));
        if self.is_flush_ahead() {
            for (at, event) in room[..count].iter().enumerate() {
                if known >> at & 1 == 0
                    && let EventKind::Stored(written) = event.kind()
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
    fn flush_before(&mut self, written: &WrittenItem) {
        if self.is_flush_ahead()
            && let Some(time) = self.log.written(written.at)
        {
            self.flush_when_due(time);
        }
    }

    /// Prefetches an item that the card has written.
    #[inline]
    pub fn prefetch_written(&self, written: &WrittenItem) {
        if let Some(dma) = &self.dma {
            dma.card.window.prefetch(written.at, 2);
        }
    }

    /// Takes notice of an item that the card has written, to be linked next; where it is, and the
    /// hash of its key. What cannot be is counted.
    pub fn publish(&mut self, written: &WrittenItem) -> Option<(LogAddress, u64)> {
        let published = self.log.publish(written.at, written.len);
        let dma = self.dma.as_mut()?;
        let Some((place, header)) = published else {
            dma.unfit += 1;
            return None;
        };
        let bytes = self.log.at_mut(place);
        let hash = hash(&bytes[HEADER_LEN..header.value_start()], dma.seed);
        write_hash(bytes, hash);
        Some((place, hash))
    }

    /// Has the index lead to an item that was published, in place of the one of its key that is
    /// there.
    pub fn link_written(&mut self, place: LogAddress) {
        let header = Header::read(self.log.at(place));
        self.counters.cmd_set += 1;
        if let Some(dma) = &mut self.dma {
            let content_len = usize::from(header.key_len) + header.value_len as usize;
            dma.stored.count(content_len);
        }
        if self.is_flushed(header.written) {
            return self.free_bytes(place, &header);
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
        self.clean_dma(header.item_len() * WALK_RATIO, now);
    }

    /// Seals a segment, and gives the card the next one, where it is time; all items that were
    /// published are linked.
    pub fn rotate_segments(&mut self) {
        let Some(dma) = &mut self.dma else { return };
        match dma.draining {
            Draining::Written if dma.has_turned() => dma.begin(Draining::Reported),
            Draining::Reported if dma.has_turned() => {
                let entries = u64::from(dma.card.events.shape().entries);
                dma.draining = Draining::Linked(dma.card.events.taken() + entries);
            }
            Draining::Taken => {
                self.log.seal_dma();
                dma.draining = Draining::Not;
            }
            _ => {}
        }
        self.give();
    }

    /// Gives the card the next segment, where it is time.
    pub(super) fn give(&mut self) {
        let Some(dma) = &mut self.dma else { return };
        if dma.draining != Draining::Not || self.log.is_dma_scarce() || !dma.is_full() {
            return;
        }
        if let Some((number, had_another)) = self.log.give_dma() {
            dma.card.next.write((number as u64) << SEGMENT_SHIFT);
            if had_another {
                dma.begin(Draining::Written);
            }
        }
    }
}
