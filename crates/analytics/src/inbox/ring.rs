//! A lane that a card fills: a ring that the program `tuple-items` writes tuples into, in the form
//! in which a worker reads them.
//!
//! # Why counts stay exact
//! The ring is the inbox. The card acknowledges a tuple after it is in the ring. The worker reads
//! entries and leaves them there; they go back to the card once they are counted. So a worker that
//! follows a dead one finds them again, and whatever it knew of marks behind them, it learns again.
//!
//! # When panes have passed
//! The card takes the tuples of a source in their order, and writes a mark into all rings now and
//! then: no tuple of that source that follows in any ring has an earlier event time. The pane of
//! the least mark of all live sources has passed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use niclab_nic::dma::Reader;
use niclab_nic::shared_memory::SharedMemory;

use super::{Entry, LaneState};
use crate::tuple::END_NS;
use crate::window::Windows;

/// Bytes of an entry of the ring.
const ENTRY_LEN: usize = 24;
/// The kinds of entries.
const TUPLE: u32 = 1;
const MARK: u32 = 2;

/// The sources whose tuples a card takes, by slot. The rings of all workers share it.
#[derive(Debug)]
pub struct CardSources {
    /// By slot: results wait for the source.
    live: Box<[AtomicBool]>,
    /// Slots below this one have a source.
    count: AtomicUsize,
    /// No result is complete before this many sources were there.
    awaited: usize,
    is_closed: AtomicBool,
}

impl CardSources {
    /// A number of slots without a source.
    pub fn new(slots: usize, awaited: usize) -> CardSources {
        CardSources {
            live: (0..slots).map(|_| AtomicBool::new(false)).collect(),
            count: AtomicUsize::new(0),
            awaited,
            is_closed: AtomicBool::new(false),
        }
    }

    /// Takes a free slot, before the card takes tuples of its source; `None` if all are taken.
    /// One thread does so.
    pub fn add(&self) -> Option<usize> {
        let slot = self.count.load(Ordering::Relaxed);
        self.live.get(slot)?.store(true, Ordering::Relaxed);
        self.count.store(slot + 1, Ordering::Release);
        Some(slot)
    }

    /// Sources that were ever there.
    pub fn seen(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether results wait for a source.
    pub fn is_live(&self, slot: usize) -> bool {
        self.live.get(slot).is_some_and(|live| live.load(Ordering::Acquire))
    }

    /// Says whether results wait for a source.
    pub fn set_live(&self, slot: usize, is_live: bool) {
        if let Some(live) = self.live.get(slot) {
            live.store(is_live, Ordering::Release);
        }
    }

    /// Sources that results wait for.
    pub fn live(&self) -> usize {
        (0..self.seen()).filter(|slot| self.is_live(*slot)).count()
    }
}

/// A mark of a ring.
#[derive(Clone, Copy, Debug)]
struct Mark {
    position: u64,
    slot: usize,
    time_ns: u64,
}

/// An entry as it is in the ring.
#[derive(Clone, Copy, Debug)]
struct RingEntry {
    key: u64,
    time_ns: u64,
    slot: u16,
    stream: u16,
    kind: u32,
}

/// A ring, and how far its worker has read.
#[derive(Debug)]
pub struct RingLane {
    reader: Reader,
    sources: Arc<CardSources>,
    windows: Windows,
    /// Entries that were read and are still in the ring.
    ahead: u64,
    /// By slot: the last mark among the entries that were given back, and among those that were
    /// read.
    marked_ns: Vec<u64>,
    read_ns: Vec<u64>,
    /// Marks among the entries that were read and are still in the ring.
    marks: VecDeque<Mark>,
    /// No entry that is read later has a pane below this one, or it is late.
    pane: u64,
    /// The pane of the last tuple, and its event times: most tuples are of the same one.
    last_pane: u64,
    last_ns: std::ops::Range<u64>,
    /// The latest event time.
    latest_ns: Option<u64>,
    late: u64,
}

impl RingLane {
    /// A ring that a card fills.
    ///
    /// # Panics
    /// If its entries do not have 24 bytes.
    pub fn new(reader: Reader, sources: Arc<CardSources>, windows: Windows) -> RingLane {
        assert_eq!(reader.shape().entry_len, ENTRY_LEN, "bytes of an entry");
        let marked_ns = vec![0; sources.live.len()];
        RingLane {
            reader,
            sources,
            windows,
            ahead: 0,
            read_ns: marked_ns.clone(),
            marked_ns,
            marks: VecDeque::new(),
            pane: 0,
            last_pane: 0,
            last_ns: 0..0,
            latest_ns: None,
            late: 0,
        }
    }

    /// Entries of the ring.
    pub fn capacity(&self) -> usize {
        self.reader.shape().entries as usize
    }

    /// Entries that were read and are not counted yet.
    pub fn waiting(&self) -> usize {
        self.ahead as usize
    }

    /// Tuples that were late.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Says that nothing follows what is in the ring.
    pub fn close(&mut self) {
        self.sources.is_closed.store(true, Ordering::Release);
    }

    /// Has entries read again that were not given back: those from a position on, which is where
    /// they begin.
    pub fn attach(&mut self, counted: u64) {
        self.release(counted);
        (self.ahead, self.pane) = (0, 0);
        self.marks.clear();
        self.read_ns.clone_from(&self.marked_ns);
    }

    /// Appends at most `most` entries, with their positions.
    pub(super) fn take(&mut self, most: usize, entries: &mut Vec<(u64, Entry)>) -> LaneState {
        // The entries of a source that comes later are behind those that are read now.
        let (is_closed, seen) =
            (self.sources.is_closed.load(Ordering::Acquire), self.sources.seen());
        let begin = self.reader.taken() + self.ahead;
        let mut is_empty = false;
        for _ in 0..most {
            let Some(entry) = self.reader.look(self.ahead, read) else {
                is_empty = true;
                break;
            };
            let position = self.reader.taken() + self.ahead;
            self.ahead += 1;
            match entry.kind {
                TUPLE => {
                    let pane = self.pane_of(entry.time_ns);
                    self.latest_ns = self.latest_ns.max(Some(entry.time_ns));
                    if pane < self.pane {
                        self.late += 1;
                        continue;
                    }
                    let RingEntry { key, stream, .. } = entry;
                    entries.push((position, Entry { key, pane, stream }));
                }
                MARK => {
                    let RingEntry { slot, time_ns, .. } = entry;
                    let slot = usize::from(slot);
                    if let Some(read_ns) = self.read_ns.get_mut(slot) {
                        *read_ns = time_ns.max(*read_ns);
                    }
                    self.marks.push_back(Mark { position, slot, time_ns });
                }
                // Nothing else is written there.
                _ => {}
            }
        }
        self.pane = self.pane.max(self.passed(seen, is_empty));
        let end = self.reader.taken() + self.ahead;
        LaneState { begin, end, pane: self.pane, is_end: is_closed && is_empty }
    }

    /// The pane of an event time.
    #[inline]
    fn pane_of(&mut self, time_ns: u64) -> u64 {
        if !self.last_ns.contains(&time_ns) {
            self.last_pane = self.windows.pane(time_ns);
            self.last_ns = self.windows.pane_ns(self.last_pane);
        }
        self.last_pane
    }

    /// The pane that has passed by the marks that were read.
    fn passed(&self, seen: usize, is_empty: bool) -> u64 {
        if seen < self.sources.awaited {
            return 0;
        }
        let live = (0..seen).filter(|slot| self.sources.is_live(*slot));
        let least_ns = live.map(|slot| self.read_ns[slot]).filter(|ns| *ns != END_NS).min();
        match (least_ns, self.latest_ns) {
            (Some(least_ns), _) => self.windows.pane(least_ns),
            (None, Some(latest_ns)) if is_empty => {
                self.windows.pane(self.windows.end_of_all_ns(latest_ns))
            }
            (None, _) => 0,
        }
    }

    /// Gives the entries below a position back to the card.
    pub fn release(&mut self, counted: u64) {
        while let Some(mark) = self.marks.pop_front_if(|mark| mark.position < counted) {
            if let Some(marked_ns) = self.marked_ns.get_mut(mark.slot) {
                *marked_ns = mark.time_ns.max(*marked_ns);
            }
        }
        while self.reader.taken() < counted && self.reader.take(|_, _| ()).is_some() {
            self.ahead = self.ahead.saturating_sub(1);
        }
    }
}

/// Reads the entry at an offset.
#[inline]
fn read(memory: &SharedMemory, at: usize) -> RingEntry {
    let word = |place: usize| memory.word(at + 8 * place).load(Ordering::Relaxed);
    let bits = u64::from_le(word(2));
    RingEntry {
        key: u64::from_le(word(0)),
        time_ns: u64::from_le(word(1)),
        slot: bits as u16,
        stream: (bits >> 16) as u16,
        kind: (bits >> 32) as u32,
    }
}
