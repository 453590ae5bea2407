//! A card played by a test: cores that are given places by a register, write items there and tell
//! of them, in any order, and now and then find the ring full, so that a gap is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use niclab_nic::dma::{self, Filler, ring};
use niclab_nic::shared_memory::SharedMemory;

use super::dma_segment::DMA_SEGMENT_LEN;
use super::dma_segment::tests::image;
use super::{AppendRegisters, DmaSegments, QuiescenceCounters};
use crate::kvs::protocol::event::tests::encode_stored;
use crate::kvs::protocol::hash::HashedKey;
use crate::kvs::protocol::request::{StoreMode, StoreRequest};
use crate::kvs::protocol::time::{Expiry, UnixTime};

/// Cores that the card has.
pub const CORES: usize = 2;

const RING: dma::Shape = dma::Shape { entries: 128, entry_len: 88 };

/// The place of the next item, and the count of numbers.
#[derive(Clone, Debug)]
pub struct Register(pub Arc<AtomicU64>, Arc<AtomicU64>);

impl AppendRegisters for Register {
    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn write(&self, place: u64) {
        self.0.store(place, Ordering::Relaxed);
    }

    fn number(&self) -> u64 {
        (self.1.fetch_add(1, Ordering::Relaxed) + 1) << 8 | 1 << 63
    }
}

/// Numbers that are the same in each run.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

/// A request to store under a key, whatever is there.
pub fn set_of<'a>(key: HashedKey<'a>, value: &'a [u8], expiry: Expiry) -> StoreRequest<'a> {
    StoreRequest {
        key,
        mode: StoreMode::Set,
        flags: 0,
        expiry,
        value,
        compare: None,
        cas: None,
        stale_allowed: false,
        vivify: None,
        is_binary_key: false,
    }
}

/// An item that a core has written and not told of.
pub struct Under {
    written: UnixTime,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub at: u64,
    pub len: usize,
}

pub struct Card {
    pub memory: Arc<SharedMemory>,
    pub ring: Arc<Filler>,
    pub next: Register,
    pub turns: Arc<QuiescenceCounters>,
    pub under_way: [Option<Under>; CORES],
}

/// So many DMA segments, and their card.
pub fn dma_segments(segments: usize) -> (DmaSegments, Card) {
    let rings = Arc::new(SharedMemory::create(RING.bytes()).unwrap().0);
    let (filler, events) = ring(&rings, RING);
    let next = Register(Arc::new(AtomicU64::new(DMA_SEGMENT_LEN as u64)), Arc::default());
    let turns = Arc::new(QuiescenceCounters::new(CORES));
    let (dma, memory) = super::dma_segment::tests::dma_segments(
        segments,
        (events, Box::new(next.clone()), Arc::clone(&turns)),
    );
    let (ring, under_way) = (Arc::new(filler), [None, None]);
    (dma, Card { memory, ring, next, turns, under_way })
}

impl Card {
    /// A core writes an item, and does not tell of it yet; `false` where there is no room.
    pub fn begin(&mut self, core: usize, key: &[u8], value: &[u8], now: UnixTime) -> bool {
        let image = image(key, value, self.next.number(), now);
        let within = (1_u64 << 40) - 1;
        if self.next.read() & within > DMA_SEGMENT_LEN as u64 {
            return false;
        }
        let place = self.next.0.fetch_add(image.len() as u64, Ordering::Relaxed);
        let (segment, at) = (place >> 40, place & within);
        if at + image.len() as u64 > DMA_SEGMENT_LEN as u64 {
            return false;
        }
        let at = segment * DMA_SEGMENT_LEN as u64 + at;
        self.memory.write(at as usize, &image);
        let (key, value) = (key.to_vec(), value.to_vec());
        self.under_way[core] = Some(Under { written: now, key, value, at, len: image.len() });
        true
    }

    pub fn tell(&self, event: &[u8]) -> bool {
        self.ring.fill(|shared, at| shared.copy_in(at, event))
    }

    /// A core tells of what it has under way; what is stored then.
    pub fn finish(&mut self, core: usize, is_dropped: bool) -> Option<(Vec<u8>, Vec<u8>)> {
        let Under { key, value, at, len, .. } = self.under_way[core].take()?;
        let reported = !is_dropped && self.tell(&encode_stored(key.len() as u8, at, len as u32));
        self.turns.end(core);
        reported.then_some((key, value))
    }

    /// When a core has written what it has not told of.
    pub fn written_at(&self, core: usize) -> Option<UnixTime> {
        self.under_way[core].as_ref().map(|under| under.written)
    }

    /// A core without anything under way ends a turn.
    pub fn turn(&self, core: usize) {
        if self.under_way[core].is_none() {
            self.turns.end(core);
        }
    }
}
