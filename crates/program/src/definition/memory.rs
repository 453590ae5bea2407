//! Memory of the application, counters, and digests for the control side.

use std::collections::VecDeque;

use super::packet::Packet;
use crate::form::{FieldRef, Instruction, Program, Range};
use crate::outcome::Lost;

/// All of it.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// Packets and bytes.
    counters: Vec<Vec<(u64, u64)>>,
    windows: Vec<Vec<u8>>,
    /// Entries of each ring of a name.
    rings: Vec<Vec<VecDeque<Vec<u8>>>>,
    digests: Vec<VecDeque<Vec<u8>>>,
}

impl Memory {
    pub(super) fn new(program: &Program) -> Memory {
        let rings = program.rings.iter().map(|of| vec![VecDeque::new(); of.count]);
        Memory {
            counters: program.counters.iter().map(|array| vec![(0, 0); array.len]).collect(),
            windows: program.windows.iter().map(|window| vec![0; window.len]).collect(),
            rings: rings.collect(),
            digests: vec![VecDeque::new(); program.digests.len()],
        }
    }

    pub(super) fn counter(&self, array: usize, index: u64) -> Option<(u64, u64)> {
        let array = self.counters.get(array)?;
        array.get(index as usize & (array.len() - 1)).copied()
    }

    pub(super) fn window(&self, window: usize, offset: usize, len: usize) -> &[u8] {
        let bytes = self.windows.get(window).and_then(|window| window.get(offset..));
        bytes.map_or(&[], |bytes| &bytes[..len.min(bytes.len())])
    }

    pub(super) fn set_window(&mut self, window: usize, offset: usize, bytes: &[u8]) {
        let to = self.windows.get_mut(window).and_then(|window| window.get_mut(offset..));
        to.into_iter().flatten().zip(bytes).for_each(|(to, byte)| *to = *byte);
    }

    pub(super) fn take(&mut self, rings: usize, index: u64) -> Option<Vec<u8>> {
        self.rings.get_mut(rings)?.get_mut(index as usize)?.pop_front()
    }

    pub(super) fn digest(&mut self, digest: usize) -> Option<Vec<u8>> {
        self.digests.get_mut(digest)?.pop_front()
    }

    /// An instruction that has to do with it; why the packet is dropped.
    pub(super) fn step(
        &mut self,
        program: &Program,
        step: &Instruction,
        packet: &mut Packet,
    ) -> Result<(), Lost> {
        match step {
            Instruction::Count { array, index } => {
                let index = packet.value(index) as usize;
                let array = &mut self.counters[*array];
                let at = index & (array.len() - 1);
                array[at] = (array[at].0 + 1, array[at].1 + packet.len as u64);
            }
            Instruction::DmaWrite { rings, index, what } => {
                let (of, index) = (&program.rings[*rings], packet.value(index));
                let ring = usize::try_from(index).ok();
                let ring = ring.and_then(|index| self.rings[*rings].get_mut(index));
                let ring = ring.ok_or(Lost::Outside)?;
                let mut entry = packet.listed(what)?;
                if entry.len() > of.shape.entry_len {
                    return Err(Lost::Outside);
                }
                if ring.len() == of.shape.entries as usize {
                    return Err(Lost::RingFull);
                }
                entry.resize(of.shape.entry_len, 0);
                ring.push_back(entry);
                packet.is_handed = true;
            }
            Instruction::DmaWriteAt { window, offset, what } => {
                let bytes = packet.listed(what)?;
                self.at(*window, packet.value(offset), bytes.len())?.copy_from_slice(&bytes);
            }
            Instruction::DmaReadAt { window, offset, into } => {
                let len = program.listed_bytes(into);
                let bytes = self.at(*window, packet.value(offset), len)?.to_vec();
                packet.unlist(program, into, &bytes);
            }
            Instruction::Digest(digest, first) => {
                let of = &program.digests[*digest];
                let fields = &program.metadata_type().fields;
                let last = first.field + program.structs[of.of].fields.len() - 1;
                let (bits, offset) = (fields[last].bits, fields[last].offset);
                let last = FieldRef { field: last, bits, offset, ..*first };
                // A reader that does not keep up gets fewer; the packet goes on.
                if self.digests[*digest].len() < of.len {
                    self.digests[*digest].push_back(packet.bytes(&Range { first: *first, last }));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// So many bytes of a window.
    fn at(&mut self, window: usize, offset: u64, len: usize) -> Result<&mut [u8], Lost> {
        let from = usize::try_from(offset).ok();
        let to = from.and_then(|from| Some(from..from.checked_add(len)?));
        to.and_then(|range| self.windows[window].get_mut(range)).ok_or(Lost::Outside)
    }
}
