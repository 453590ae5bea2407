//! The layout of the memory that a card shares with a client, and the header that describes it.
//!
//! `external_queue/niclab_queue.h` has the same for programs in C.

use niclab_nic::limits::BURST;

use super::ring::RingAt;

/// The first bytes of a header.
pub const MAGIC: [u8; 8] = *b"NICLABQ\0";

/// Changes whenever a client that knows the old layout would go wrong.
pub const VERSION: u32 = 1;

/// Bytes of a header.
pub const HEADER_LEN: usize = 56 + 4 * RING_LEN;

/// Bytes that a header has for a ring.
const RING_LEN: usize = 24;

/// Shortest frame that the card takes, bytes: an Ethernet header.
pub const FRAME_LEN_MIN: usize = 14;

/// Indices stand on lines of their own, two lines apart: processors fetch lines in pairs.
const LINE: usize = 128;

const PAGE: usize = 4_096;

/// Entries of a ring, at most and at least: a burst.
const ENTRIES_MAX: u32 = 1 << 15;
const ENTRIES_MIN: u32 = BURST as u32;

/// Slots at most: 1 GiB of the longest.
const SLOTS_MAX: u32 = 1 << 16;

/// The rings and slots of an external queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalQueueSize {
    /// Entries of each ring.
    pub(super) entries: u32,
    /// Slots for frames.
    pub(super) slots: u32,
}

impl Default for ExternalQueueSize {
    /// Two milliseconds of a million frames a second, and as many slots in the client's hands.
    fn default() -> ExternalQueueSize {
        ExternalQueueSize { entries: 2_048, slots: 4_096 }
    }
}

impl ExternalQueueSize {
    /// Rings of so many entries each, a power of two from 64 to 32,768, and 1 to 65,536 slots;
    /// `None` of other numbers.
    pub const fn new(entries: u32, slots: u32) -> Option<ExternalQueueSize> {
        let is_possible = entries.is_power_of_two()
            && ENTRIES_MIN <= entries
            && entries <= ENTRIES_MAX
            && 1 <= slots
            && slots <= SLOTS_MAX;
        if is_possible { Some(ExternalQueueSize { entries, slots }) } else { None }
    }
}

/// Offsets in the shared memory, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub shape: ExternalQueueSize,
    /// Bytes of a slot, a power of two.
    pub slot_len: usize,
    /// Longest frame that the card takes, bytes without FCS.
    pub frame_len_max: usize,
    /// The word by which a client says that it sleeps.
    pub asleep: usize,
    pub fill: RingAt,
    pub receive: RingAt,
    pub transmit: RingAt,
    pub completion: RingAt,
    /// The first slot.
    pub slots: usize,
    /// All of it.
    pub memory_len: usize,
}

impl Layout {
    /// The layout for a shape, and slots and frames of these lengths.
    pub fn new(shape: ExternalQueueSize, slot_len: usize, frame_len_max: usize) -> Layout {
        let mut end = LINE;
        let mut ring = |name, words: usize| {
            let (producer, consumer, entries) = (end, end + LINE, end + 2 * LINE);
            let len = shape.entries as usize * words * size_of::<u64>();
            end = (entries + len).next_multiple_of(LINE);
            RingAt { name, producer, consumer, entries, count: shape.entries }
        };
        let (fill, receive) = (ring("fill", 1), ring("receive", 2));
        let (transmit, completion) = (ring("transmit", 2), ring("completion", 1));
        let slots = end.next_multiple_of(PAGE);
        let memory_len = (slots + shape.slots as usize * slot_len).next_multiple_of(PAGE);
        Layout {
            shape,
            slot_len,
            frame_len_max,
            asleep: 0,
            fill,
            receive,
            transmit,
            completion,
            slots,
            memory_len,
        }
    }

    /// `struct niclab_queue_layout`.
    pub fn header(&self) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            header[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&MAGIC);
        put(&VERSION.to_ne_bytes());
        put(&(HEADER_LEN as u32).to_ne_bytes());
        put(&(self.memory_len as u64).to_ne_bytes());
        put(&(self.slots as u64).to_ne_bytes());
        put(&self.shape.slots.to_ne_bytes());
        put(&(self.slot_len as u32).to_ne_bytes());
        put(&(self.frame_len_max as u32).to_ne_bytes());
        put(&self.shape.entries.to_ne_bytes());
        put(&(self.asleep as u64).to_ne_bytes());
        for ring in [&self.fill, &self.receive, &self.transmit, &self.completion] {
            for offset in [ring.producer, ring.consumer, ring.entries] {
                put(&(offset as u64).to_ne_bytes());
            }
        }
        header
    }

    /// The slot that an address lies in and how far behind its begin; addresses count from the
    /// first slot.
    #[inline]
    pub fn slot_of(&self, address: u64) -> Option<(u32, usize)> {
        let slot = address >> self.slot_len.trailing_zeros();
        let inside = address & (self.slot_len as u64 - 1);
        (slot < u64::from(self.shape.slots)).then_some((slot as u32, inside as usize))
    }

    /// Address of a slot.
    #[inline]
    pub fn address(&self, slot: u32) -> usize {
        slot as usize * self.slot_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap_and_lie_in_the_memory() {
        for (entries, slots, slot_len) in [(64, 1, 2_048), (2_048, 4_096, 2_048), (64, 3, 16_384)] {
            let layout = Layout::new(ExternalQueueSize { entries, slots }, slot_len, 1_536);
            let mut parts = vec![(layout.asleep, 4), (layout.slots, slots as usize * slot_len)];
            for (ring, words) in [
                (layout.fill, 8),
                (layout.receive, 16),
                (layout.transmit, 16),
                (layout.completion, 8),
            ] {
                parts.extend([(ring.producer, 4), (ring.consumer, 4)]);
                parts.push((ring.entries, entries as usize * words));
            }
            parts.sort_unstable();
            for two in parts.windows(2) {
                let ((at, len), (next, _)) = (two[0], two[1]);
                assert!(at + len <= next && next.is_multiple_of(LINE), "{at} + {len}, {next}");
            }
            let (at, len) = parts[parts.len() - 1];
            assert!(at + len <= layout.memory_len && layout.memory_len.is_multiple_of(PAGE));
            assert_eq!(layout.slots % PAGE, 0);
        }
    }

    #[test]
    fn an_address_is_of_one_slot_or_of_none() {
        let layout = Layout::new(ExternalQueueSize { entries: 64, slots: 3 }, 2_048, 1_536);
        assert_eq!(layout.slot_of(0), Some((0, 0)));
        assert_eq!(layout.slot_of(2 * 2_048 + 77), Some((2, 77)));
        assert_eq!(layout.slot_of(3 * 2_048 - 1), Some((2, 2_047)));
        for address in [3 * 2_048, 1 << 32, 1 << 43, u64::MAX, u64::MAX - 2_047] {
            assert_eq!(layout.slot_of(address), None, "{address:#x}");
        }
        assert_eq!(layout.address(2), 4_096);
    }

    #[test]
    fn shapes_that_cannot_be_are_told() {
        let possible = |entries, slots| ExternalQueueSize::new(entries, slots).is_some();
        let ExternalQueueSize { entries, slots } = ExternalQueueSize::default();
        assert!(possible(entries, slots) && possible(64, 1) && possible(32_768, 65_536));
        assert!(!possible(32, 1) && !possible(100, 1) && !possible(65_536, 1));
        assert!(!possible(0, 1) && !possible(64, 0) && !possible(64, 65_537));
    }
}
