//! The packets of a burst on their way: lanes, stores and masks.

use super::packets::{OnePacket, PacketMask, Packets};
use super::plan::{Hashed, Part, Plan, Source, Target, Wide};
use crate::limits::MIRROR_SLOTS;
use crate::outcome::{Fate, Lost};

/// Packets of a burst: bit `i` of a mask is packet `i`.
pub(super) const BURST: usize = niclab_nic::limits::BURST;

/// A number for each packet.
pub(super) type LaneValues = [u64; BURST];

/// No action has run.
pub(super) const NO_ACTION: u16 = u16::MAX;

/// The packets of a burst.
pub(super) struct Burst {
    pub lanes: Vec<LaneValues>,
    /// Stores, one behind the other.
    store: Vec<u8>,
    stride: usize,
    /// Packets that have a header, by its number.
    pub valid: Vec<u64>,
    /// Bytes of headers that have a variable field, by header.
    pub lens: Vec<[u16; BURST]>,
    /// Bytes that were taken off in front.
    pub cursor: [u16; BURST],
    /// What the last table said, also of a round before: a hit,
    pub hit: u64,
    /// the action,
    pub ran: [u16; BURST],
    /// and one more than the number of the entry.
    pub entry: LaneValues,
    /// Headers that were put before the rest, in order, and which packets' they are.
    pub emits: Vec<(usize, u64)>,
    /// Sessions of a packet's slots, plus one.
    pub sessions: [[u8; MIRROR_SLOTS as usize]; BURST],
    /// Packets with a session.
    pub mirrored: u64,
    /// Packets that come round again.
    pub again: u64,
    /// Packets that go back where they came from.
    pub replied: u64,
    /// Packets that are through.
    pub ended: u64,
    pub fates: [Fate; BURST],
    /// Numbers of rings that got an entry, modulo 64, until somebody takes them.
    pub filled: u64,
    /// Packets of which an entry of a ring was written.
    pub handed: u64,
    /// Packets that jumped to a join of the main part, or of the action that runs.
    pub waiting: Vec<u64>,
    pub action_waiting: Vec<u64>,
}

/// The packets of a mask, in order.
#[inline(always)]
pub(super) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let i = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (i < BURST).then_some(i)
    })
}

/// Does something for each packet of a mask, in order.
#[inline(always)]
pub(super) fn each_of(mut mask: u64, mut of: impl FnMut(usize)) {
    while mask != 0 {
        of(mask.trailing_zeros() as usize % BURST);
        mask &= mask - 1;
    }
}

/// Eight bytes from `at` on as a number.
#[inline(always)]
fn eight(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |eight| u64::from_be_bytes(*eight))
}

impl Burst {
    pub(super) fn new(plan: &Plan) -> Burst {
        let joins = plan.actions.iter().map(|line| line.joins.len()).max().unwrap_or(0);
        Burst {
            lanes: vec![[0; BURST]; plan.lanes],
            store: vec![0; plan.store * BURST],
            stride: plan.store,
            valid: vec![0; plan.headers.len()],
            lens: vec![[0; BURST]; plan.headers.len()],
            cursor: [0; BURST],
            hit: 0,
            ran: [NO_ACTION; BURST],
            entry: [0; BURST],
            emits: Vec::with_capacity(BURST * crate::limits::EMITS_MAX),
            sessions: [[0; MIRROR_SLOTS as usize]; BURST],
            mirrored: 0,
            again: 0,
            replied: 0,
            ended: 0,
            filled: 0,
            handed: 0,
            fates: [Fate::Dropped(Lost::Told); BURST],
            waiting: vec![0; plan.apply.joins.len()],
            action_waiting: vec![0; joins],
        }
    }

    /// Has the fates of packets that are through say of which an entry of a ring was written.
    #[inline]
    pub(super) fn hand_over(&mut self, packets: u64) {
        bits(self.handed & packets).for_each(|i| self.fates[i] = self.fates[i].of_handed());
    }

    /// Makes ready for these packets, which come for the first time or come round again.
    pub(super) fn begin(&mut self, plan: &Plan, packets: u64, is_first: bool) {
        match OnePacket::of(packets) {
            Some(one) => self.begin_for(plan, one, is_first),
            None => self.begin_for(plan, PacketMask(packets), is_first),
        }
    }

    #[inline(always)]
    fn begin_for<P: Packets>(&mut self, plan: &Plan, packets: P, is_first: bool) {
        if is_first {
            (self.handed, self.hit) = (0, 0);
            packets.reset(&mut self.ran, NO_ACTION);
            packets.reset(&mut self.entry, 0);
            self.lanes[..plan.metadata_lanes].iter_mut().for_each(|lane| packets.reset(lane, 0));
            packets.each(|i| self.store_of(i)[..plan.zeroed].fill(0));
        } else {
            packets.each(|i| self.store_of(i)[..plan.headers_len].fill(0));
        }
        self.valid.fill(0);
        for (lens, head) in self.lens.iter_mut().zip(&plan.headers) {
            if head.len != head.len_max {
                packets.reset(lens, head.len as u16);
            }
        }
        packets.reset(&mut self.cursor, 0);
        self.emits.clear();
        if self.mirrored != 0 {
            self.sessions = [[0; MIRROR_SLOTS as usize]; BURST];
        }
        (self.mirrored, self.again, self.replied, self.ended) = (0, 0, 0, 0);
        self.waiting.fill(0);
    }

    /// The store of one packet.
    #[inline(always)]
    pub(super) fn store_of(&mut self, packet: usize) -> &mut [u8] {
        &mut self.store[packet * self.stride..(packet + 1) * self.stride]
    }

    /// The same, to read.
    #[inline(always)]
    pub(super) fn stored(&self, packet: usize) -> &[u8] {
        &self.store[packet * self.stride..(packet + 1) * self.stride]
    }

    /// Numbers of all packets of a mask; of others, whatever.
    #[inline(always)]
    pub(super) fn load(&self, from: Source, packets: u64) -> LaneValues {
        match from {
            Source::Value(value) => [value; BURST],
            Source::Lane(lane) => self.lanes[lane],
            Source::Bytes { at, len } => {
                let mut values = [0; BURST];
                let shift = 64 - 8 * len as u32;
                let stores = self.store.chunks_exact(self.stride);
                if packets == u64::MAX {
                    for (value, store) in values.iter_mut().zip(stores) {
                        *value = eight(store, at) >> shift;
                    }
                } else {
                    each_of(packets, |i| values[i] = eight(self.stored(i), at) >> shift);
                }
                values
            }
        }
    }

    /// The number of one packet.
    #[inline(always)]
    pub(super) fn one(&self, from: Source, packet: usize) -> u64 {
        match from {
            Source::Value(value) => value,
            Source::Lane(lane) => self.lanes[lane][packet],
            Source::Bytes { at, len } => eight(self.stored(packet), at) >> (64 - 8 * len as u32),
        }
    }

    /// Writes numbers of the packets of a mask, cut to the target's width.
    #[inline(always)]
    pub(super) fn save(&mut self, to: Target, packets: u64, values: &LaneValues) {
        match to {
            Target::Lane(lane, mask) => {
                let lane = &mut self.lanes[lane];
                if packets == u64::MAX {
                    for (place, value) in lane.iter_mut().zip(values) {
                        *place = value & mask;
                    }
                } else {
                    for i in bits(packets) {
                        lane[i] = values[i] & mask;
                    }
                }
            }
            Target::Bytes { at, len } => {
                // One loop for each width: the width is not looked at for each packet.
                match len {
                    1 => each_of(packets, |i| put(self.store_of(i), at, 1, values[i])),
                    2 => each_of(packets, |i| put(self.store_of(i), at, 2, values[i])),
                    4 => each_of(packets, |i| put(self.store_of(i), at, 4, values[i])),
                    6 => each_of(packets, |i| put(self.store_of(i), at, 6, values[i])),
                    len => each_of(packets, |i| put(self.store_of(i), at, len, values[i])),
                }
            }
        }
    }

    /// Writes the number of one packet.
    #[inline(always)]
    pub(super) fn set(&mut self, to: Target, packet: usize, value: u64) {
        match to {
            Target::Lane(lane, mask) => self.lanes[lane][packet] = value & mask,
            Target::Bytes { at, len } => put(self.store_of(packet), at, len, value),
        }
    }

    /// Copies bytes of one packet, cut or filled with zeros in front.
    pub(super) fn copy(&mut self, to: Wide, from: Wide, packet: usize) {
        match (to, from) {
            (Wide::Lane { lane: to, len }, Wide::Lane { lane, .. }) => {
                let mask = u64::MAX >> (64 - 8 * len as u32);
                self.lanes[to][packet] = self.lanes[lane][packet] & mask;
            }
            (Wide::Lane { lane, len }, Wide::Bytes { at, len: from }) => {
                let taken = len.min(from);
                let source = Source::Bytes { at: at + from - taken, len: taken };
                self.lanes[lane][packet] = self.one(source, packet);
            }
            (Wide::Bytes { at, len }, Wide::Lane { lane, .. }) => {
                let value = self.lanes[lane][packet];
                self.set_wide(at, len, packet, value);
            }
            (Wide::Bytes { at, len }, Wide::Bytes { at: from, len: from_len }) => {
                let taken = len.min(from_len);
                let store = self.store_of(packet);
                // Zeros last: the two may be the same field.
                store.copy_within(from + from_len - taken..from + from_len, at + len - taken);
                store[at..at + len - taken].fill(0);
            }
        }
    }

    /// A number in the last bytes of a field, zeros before it.
    pub(super) fn set_wide(&mut self, at: usize, len: usize, packet: usize, value: u64) {
        let store = self.store_of(packet);
        let taken = len.min(8);
        store[at..at + len - taken].fill(0);
        put(store, at + len - taken, taken, value);
    }

    /// The bytes that are hashed of one packet.
    pub(super) fn gather(&self, of: &Hashed, plan: &Plan, packet: usize, into: &mut Vec<u8>) {
        into.clear();
        of.parts.iter().for_each(|part| self.append(*part, plan, packet, into));
    }

    /// Puts a part of one packet behind what is there.
    #[inline(always)]
    pub(super) fn append(&self, part: Part, plan: &Plan, packet: usize, into: &mut Vec<u8>) {
        match part {
            Part::Lane { lane, len } => {
                into.extend_from_slice(&self.lanes[lane][packet].to_le_bytes()[..len]);
            }
            Part::Bytes { at, len } => {
                into.extend_from_slice(&self.stored(packet)[at..at + len]);
            }
            Part::Rest { header, from } => {
                let (at, len) = (plan.headers[header].at, self.header_len(plan, header, packet));
                into.extend_from_slice(&self.stored(packet)[at + from..at + len]);
            }
        }
    }

    /// How many bytes a packet's header has.
    #[inline(always)]
    pub(super) fn header_len(&self, plan: &Plan, header: usize, packet: usize) -> usize {
        let head = plan.headers[header];
        match head.len == head.len_max {
            true => head.len,
            false => usize::from(self.lens[header][packet]),
        }
    }
}

/// Copies bytes of a header, as many as there are of the shorter: a few moves of registers, where
/// a call of the system's copy costs more than they do.
#[inline(always)]
pub(super) fn copy_header(to: &mut [u8], from: &[u8]) {
    let len = to.len().min(from.len());
    match len {
        16.. => {
            for at in (0..=len - 16).step_by(16).chain([len - 16]) {
                copy_at::<16>(to, from, at);
            }
        }
        8.. => [0, len - 8].into_iter().for_each(|at| copy_at::<8>(to, from, at)),
        4.. => [0, len - 4].into_iter().for_each(|at| copy_at::<4>(to, from, at)),
        _ => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
    }
}

/// Copies `N` bytes at the same place of both.
#[inline(always)]
fn copy_at<const N: usize>(to: &mut [u8], from: &[u8], at: usize) {
    let to = to.get_mut(at..).and_then(|to| to.first_chunk_mut::<N>());
    let from = from.get(at..).and_then(|from| from.first_chunk::<N>());
    if let (Some(to), Some(from)) = (to, from) {
        *to = *from;
    }
}

/// Writes the last bytes of a number, the first first.
#[inline(always)]
pub(super) fn put(store: &mut [u8], at: usize, len: usize, value: u64) {
    let bytes = value.to_be_bytes();
    match len {
        1 => store[at] = bytes[7],
        2 => store[at..at + 2].copy_from_slice(&bytes[6..]),
        4 => store[at..at + 4].copy_from_slice(&bytes[4..]),
        8 => store[at..at + 8].copy_from_slice(&bytes),
        len => store[at..at + len].copy_from_slice(&bytes[8 - len..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_all_lengths_are_copied_and_nothing_behind_them() {
        let from: Vec<u8> = (1..=200).collect();
        for len in 0..100 {
            let mut to = [0; 120];
            copy_header(&mut to[10..10 + len], &from);
            assert_eq!(to[10..10 + len], from[..len]);
            assert!(to[..10].iter().chain(&to[10 + len..]).all(|byte| *byte == 0), "{len}");
        }
    }
}
