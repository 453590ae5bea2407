//! A partition: a log of items and the index to them, within a limit of memory.
//!
//! It reads no clock and takes no lock: the caller gives the time and holds the partition alone.
//! `operations` has the commands, `cleaning` makes room.

use super::cleaning::{Cleaning, WALK_RATIO};
use super::counters::{Statistics, StoreCounters};
use super::detail::{Detail, PrefixRequest};
use super::dma::DmaState;
use super::index::{CHUNK_BYTES, HashIndex};
use super::item::{
    HEADER_LEN, Header, Item, UseCount, bump_at, drawn, expiry_at, hash_at, is_bumped, is_of,
    item_len, mark, write_uses,
};
use super::limits::PARTITION_BYTES_MIN;
use super::log::{Log, LogAddress};
use crate::kvs::protocol::hash::HashedKey;
use crate::kvs::protocol::limits::VALUE_LEN_MAX;
use crate::kvs::protocol::time::{Expiry, UnixTime};

/// Segments of a partition, at least: fewer would waste much of it by what is kept free.
const SEGMENTS_MIN: usize = 8;

/// Longest segment, bytes: two of the longest items fit, so that little is lost at its end.
const SEGMENT_LEN_MAX: usize = 2 * (VALUE_LEN_MAX + PAGE);

/// Lines of an item that are asked for: one of an average size has no more.
const PREFETCHED_LINES: usize = 3;

/// Segments begin on pages.
const PAGE: usize = 4096;

/// Least length of a segment, bytes.
const SEGMENT_LEN_MIN: usize = (PARTITION_BYTES_MIN - 2 * CHUNK_BYTES) / SEGMENTS_MIN / PAGE * PAGE;

// A segment that is given back is room for a chunk of the index.
const _: () = assert!(SEGMENT_LEN_MIN >= CHUNK_BYTES);

/// The configuration of a partition.
#[derive(Clone, Copy, Debug)]
pub struct PartitionConfig {
    /// Memory that it may have, bytes: [`PARTITION_BYTES_MIN`] at least.
    pub budget_bytes: usize,
    /// Which of the partitions it is.
    pub number: usize,
    /// How many there are.
    pub count: usize,
}

/// A value that is to be stored.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// These bytes.
    Whole(&'a [u8]),
    /// These behind those of the item that is there.
    Behind(&'a [u8]),
    /// These before those of the item that is there.
    Before(&'a [u8]),
}

/// The header fields of a new item.
#[derive(Clone, Copy, Debug)]
pub struct NewItem {
    /// Flags of the client.
    pub flags: u32,
    /// When it ends.
    pub expiry: Expiry,
    /// Its number.
    pub cas: u64,
    /// Its marks, a bit each: read, stale, refetch requested, key in base64.
    pub marks: u8,
}

/// Why an item is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFailure {
    /// There is no room for it, whatever else goes.
    NoMemory,
    /// The item that it was to go on with had to make room.
    Gone,
}

/// Length of the segments of a log with so much memory.
fn segment_len(bytes: usize) -> usize {
    (bytes / SEGMENTS_MIN / PAGE * PAGE).min(SEGMENT_LEN_MAX)
}

/// Items by key. It begins on a cache line of its own: a thread that looks whether the lock is free
/// does not take the line from the thread that holds it.
#[derive(Debug)]
#[repr(align(64))]
pub struct Partition {
    pub(super) log: Log,
    pub(super) index: HashIndex,
    pub(super) cleaning: Cleaning,
    pub(super) counters: StoreCounters,
    /// Counts before the last reset.
    before: StoreCounters,
    budget_bytes: usize,
    cas_last: u64,
    cas_step: u64,
    flush_at: Option<UnixTime>,
    /// When the last flush that was put off was due: what a card wrote before that and tells later
    /// is not there.
    flushed_at: UnixTime,
    /// Counters of requests by prefix.
    pub(super) detail: Detail,
    /// Its DMA segments, if a card writes items.
    pub(super) dma: Option<Box<DmaState>>,
}

impl Partition {
    /// An empty one, which takes memory as it needs it.
    pub fn new(shape: PartitionConfig) -> Partition {
        let budget_bytes = shape.budget_bytes.max(PARTITION_BYTES_MIN);
        let index = HashIndex::new();
        Partition {
            log: Log::new(segment_len(budget_bytes - index.bytes())),
            index,
            cleaning: Cleaning::default(),
            counters: StoreCounters::default(),
            before: StoreCounters::default(),
            budget_bytes,
            cas_last: shape.number as u64 + 1,
            cas_step: shape.count as u64,
            flush_at: None,
            flushed_at: UnixTime(0),
            detail: Detail::new(shape.count),
            dma: None,
        }
    }

    /// Shares the memory anew: so much of it is taken by segments that are not its own. Nothing has
    /// been stored.
    pub(super) fn make_room_for_dma(&mut self, bytes: usize) {
        let own = self.budget_bytes.saturating_sub(bytes + self.index.bytes());
        self.log = Log::new(segment_len(own.max(PARTITION_BYTES_MIN - self.index.bytes())));
    }

    /// Longest item that it takes, bytes with header and key.
    pub fn item_len_max(&self) -> usize {
        self.log.segment_len()
    }

    /// Its statistics.
    pub fn statistics(&self) -> Statistics {
        let mut ever = self.before;
        ever.add(&self.counters);
        Statistics {
            counters: self.counters,
            ever,
            curr_items: self.index.len() as u64,
            bytes: self.log.live() as u64,
            memory_bytes: (self.log.bytes() + self.index.bytes()) as u64,
            hash_bytes: self.index.bytes() as u64,
            segments: self.log.segments() as u64,
            limit_maxbytes: self.budget_bytes as u64,
            stored: self.stored(),
            unfit: self.unfit(),
            ..Statistics::default()
        }
    }

    /// Begins to count anew.
    pub fn reset_counters(&mut self) {
        self.before.add(&self.counters);
        self.counters = StoreCounters::default();
        self.detail.clear();
    }

    /// Counts what was asked for by its prefix, where that is wanted.
    #[inline]
    pub fn record(&mut self, key: &HashedKey<'_>, asked: PrefixRequest) {
        self.detail.record(key.bytes, asked);
    }

    /// Its counters, for those who count what they do.
    pub fn counters_mut(&mut self) -> &mut StoreCounters {
        &mut self.counters
    }

    /// Memory that is not taken yet, bytes.
    pub(super) fn unspent(&self) -> usize {
        self.budget_bytes - self.log.bytes() - self.index.bytes()
    }

    /// A number that no item of any partition has had.
    pub fn next_cas(&mut self) -> u64 {
        if let Some(dma) = &self.dma {
            return dma.number();
        }
        self.cas_last += self.cas_step;
        self.cas_last
    }

    /// From `at` on nothing is there of what was stored until then.
    pub fn flush(&mut self, at: UnixTime, now: UnixTime) {
        self.flush_when_due(now);
        match at <= now {
            true => self.clear(),
            false => self.flush_at = Some(at),
        }
    }

    #[inline]
    pub(super) fn flush_when_due(&mut self, now: UnixTime) {
        if let Some(at) = self.flush_at.filter(|at| *at <= now) {
            self.flushed_at = at;
            self.clear();
        }
    }

    /// Whether a flush is put off.
    #[inline]
    pub(super) fn is_flush_ahead(&self) -> bool {
        self.flush_at.is_some()
    }

    /// Whether what was stored then has gone by a flush that was put off.
    #[inline]
    pub(super) fn is_flushed(&self, stored: UnixTime) -> bool {
        stored < self.flushed_at
    }

    fn clear(&mut self) {
        self.flush_at = None;
        self.log.clear();
        self.index = HashIndex::new();
        self.cleaning = Cleaning::default();
    }

    /// The item under a key. What is over is not there.
    #[inline]
    pub fn find(&mut self, key: &HashedKey<'_>, now: UnixTime) -> Option<LogAddress> {
        self.flush_when_due(now);
        let (place, item) = self.seek(key)?;
        if expiry_at(item).is_past(now) {
            self.expire(place);
            return None;
        }
        Some(place)
    }

    /// An item is over.
    #[cold]
    fn expire(&mut self, place: LogAddress) {
        let header = Header::read(self.log.at(place));
        self.counters.expired_unfetched += u64::from(!header.has(mark::FETCHED));
        self.counters.reclaimed += 1;
        self.unlink(place);
    }

    /// The item under a key, as of [`find`](Partition::find), which is read from now on.
    #[inline]
    pub fn find_read(&mut self, key: &HashedKey<'_>, now: UnixTime) -> Option<LogAddress> {
        self.flush_when_due(now);
        let drawn = self.draw();
        let (place, item) = self.seek(key)?;
        let (is_past, is_known) = (expiry_at(item).is_past(now), is_bumped(item, now, drawn));
        if is_past {
            self.expire(place);
            return None;
        }
        if !is_known {
            self.bump(place, now);
        }
        Some(place)
    }

    /// Prefetches the bucket of this hash.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        self.index.prefetch_bucket(hash);
    }

    /// Prefetches the item that is likely meant by this hash, after
    /// [`prefetch_bucket`](Partition::prefetch_bucket).
    #[inline]
    pub fn prefetch_item(&self, hash: u64) {
        if let Some(place) = self.index.find(hash, |_| true) {
            self.log.prefetch(place, PREFETCHED_LINES);
        }
    }

    /// The item under a key, over or not: where it is, and its bytes, perhaps more behind them.
    #[inline(always)]
    fn seek(&self, key: &HashedKey<'_>) -> Option<(LogAddress, &[u8])> {
        self.index.first(key.hash, |place| {
            let item = self.log.at(place);
            is_of(item, key.hash, key.bytes).then_some((place, item))
        })
    }

    /// The item at a place that [`find`](Partition::find) or [`put`](Partition::put) has given and
    /// after which nothing was stored.
    #[inline(always)]
    pub fn item(&self, place: LogAddress) -> Item<'_> {
        Item::read(self.log.at(place))
    }

    /// Changes what is known of an item beside its key and value.
    #[inline]
    pub fn change(&mut self, place: LogAddress, change: impl FnOnce(&mut Header)) {
        let bytes = self.log.at_mut(place);
        let before = Header::read(bytes);
        let mut header = before;
        change(&mut header);
        (header.hash, header.key_len, header.value_len) =
            (before.hash, before.key_len, before.value_len);
        header.write(bytes);
    }

    /// It is read: the more often that happens, the longer it stays when room is made.
    #[inline]
    pub fn bump(&mut self, place: LogAddress, now: UnixTime) {
        let drawn = self.draw();
        bump_at(self.log.at_mut(place), now, drawn);
    }

    /// A number that is like one drawn by chance, by what was counted so far.
    #[inline]
    fn draw(&self) -> u64 {
        drawn(self.counters.cmd_get + self.counters.cmd_touch)
    }

    /// The value of an item, to be written over.
    pub fn value_mut(&mut self, place: LogAddress) -> &mut [u8] {
        let bytes = self.log.at_mut(place);
        let header = Header::read(bytes);
        &mut bytes[header.value_start()..][..header.value_len as usize]
    }

    /// Takes an item out.
    pub fn unlink(&mut self, place: LogAddress) {
        let header = Header::read(self.log.at(place));
        self.index.remove(header.hash, place);
        self.free_bytes(place, &header);
    }

    /// The bytes of an item that the index no longer points to are to be had.
    pub(super) fn free_bytes(&mut self, place: LogAddress, header: &Header) {
        let dead = Header { marks: header.marks | mark::DEAD, ..*header };
        dead.write(self.log.at_mut(place));
        self.log.forget(place, header.item_len());
    }

    /// Stores an item under a key, in place of the one that is there.
    ///
    /// # Errors
    /// [`Unstored`]: the one that was there may have made room, otherwise nothing has changed.
    pub fn put(
        &mut self,
        key: &HashedKey<'_>,
        new: NewItem,
        value: Value<'_>,
        now: UnixTime,
    ) -> Result<LogAddress, StoreFailure> {
        let (bytes, is_joined) = match value {
            Value::Whole(bytes) => (bytes, false),
            Value::Behind(bytes) | Value::Before(bytes) => (bytes, true),
        };
        let old_len = match is_joined {
            true => {
                let (_, old) = self.seek(key).ok_or(StoreFailure::Gone)?;
                Item::read(old).value.len()
            }
            false => 0,
        };
        let value_len = old_len + bytes.len();
        let len = item_len(key.bytes.len(), value_len);
        self.clean_dma(len * WALK_RATIO, now);
        let place = self.room_for(len, now)?;
        // Whatever was known of the old item before may have moved or gone.
        let old = self.seek(key).map(|(place, _)| place);
        let header = Header {
            hash: key.hash,
            cas: new.cas,
            flags: new.flags,
            expiry: new.expiry,
            written: now,
            accessed: now,
            value_len: value_len as u32,
            key_len: key.bytes.len() as u8,
            marks: new.marks,
            uses: UseCount::default(),
        };
        let target = self.log.at_mut(place);
        header.write(target);
        target[HEADER_LEN..header.value_start()].copy_from_slice(key.bytes);
        let at = header.value_start();
        let at = if matches!(value, Value::Behind(_)) { at + old_len } else { at };
        target[at..at + bytes.len()].copy_from_slice(bytes);
        if is_joined {
            let Some(old) = old else {
                self.free_bytes(place, &header);
                return Err(StoreFailure::Gone);
            };
            let behind = matches!(value, Value::Before(_)).then_some(bytes.len()).unwrap_or(0);
            let from = Header::read(self.log.at(old)).value_start();
            self.log.copy((old, from), (place, header.value_start() + behind), old_len);
        }
        self.link(old, place, &header)
    }

    /// Has the index point to a new item instead of the old one of its key.
    pub(super) fn link(
        &mut self,
        old: Option<LogAddress>,
        place: LogAddress,
        header: &Header,
    ) -> Result<LogAddress, StoreFailure> {
        if let Some(old) = old {
            let before = Header::read(self.log.at(old));
            // It is the key that is used, whatever its value.
            write_uses(self.log.at_mut(place), before.uses);
            self.index.replace(header.hash, old, place);
            self.free_bytes(old, &before);
        } else if self.index.insert(header.hash, place).is_err() {
            let added = self.take_chunk(HashIndex::add_spare);
            if !added || self.index.insert(header.hash, place).is_err() {
                self.free_bytes(place, header);
                return Err(StoreFailure::NoMemory);
            }
        }
        self.counters.total_items += 1;
        if self.index.is_due() {
            self.grow();
        }
        Ok(place)
    }

    /// One bucket more, where there is memory for it.
    fn grow(&mut self) {
        for add in [HashIndex::add_main, HashIndex::add_spare] {
            let log = &self.log;
            if self.index.grow(|place| hash_at(log.at(place))).is_ok() || !self.take_chunk(add) {
                return;
            }
        }
        let log = &self.log;
        let _ = self.index.grow(|place| hash_at(log.at(place)));
    }

    /// Memory for more buckets: what is unspent, or that of an empty segment.
    fn take_chunk(&mut self, add: impl Fn(&mut HashIndex)) -> bool {
        if self.unspent() < CHUNK_BYTES && !self.log.drop_segment() {
            return false;
        }
        add(&mut self.index);
        true
    }
}
