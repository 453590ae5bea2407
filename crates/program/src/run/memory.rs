//! Instructions that write to an application's memory, read from it, or tell the control side.
//!
//! What is written is put together first, and goes there in whole words. Packets that would reach
//! outside of the memory, or find a ring full, end here.

use super::burst::bits;
use super::exec::Run;
use super::plan::{Op, Source, Span, Wide};
use crate::limits::DMA_LEN_MAX;
use crate::outcome::{Fate, Lost};

impl Run<'_> {
    pub(super) fn memory(&mut self, op: &Op, active: u64) {
        for packet in bits(active) {
            let done = match op {
                Op::DmaWrite { rings, index, what } => self.write(*rings, *index, what, packet),
                Op::DmaWriteAt { window, offset, what } => {
                    self.write_at(*window, *offset, what, packet)
                }
                Op::DmaReadAt { window, offset, into, headers } => {
                    let read = self.read_at(*window, *offset, into, packet);
                    if read.is_ok() {
                        headers.iter().for_each(|of| self.burst.valid[*of] |= 1 << packet);
                    }
                    read
                }
                Op::Digest(digest, of) => {
                    self.burst.gather(of, self.plan, packet, self.scratch);
                    let scratch = &*self.scratch;
                    // A reader that does not keep up gets fewer; the packet goes on.
                    let told = &self.state.digests[*digest];
                    if !told.fill(|shared, at| shared.copy_in(at, scratch)) {
                        self.counts.lose(*digest);
                    }
                    Ok(())
                }
                _ => Ok(()),
            };
            if let Err(lost) = done {
                self.end(1 << packet, |_| Fate::Dropped(lost));
            }
        }
    }

    fn write(
        &mut self,
        rings: usize,
        index: Source,
        what: &[Span],
        packet: usize,
    ) -> Result<(), Lost> {
        let (state, index) = (self.state, self.burst.one(index, packet));
        let ring = usize::try_from(index).ok().and_then(|index| state.rings[rings].get(index));
        let ring = ring.ok_or(Lost::Outside)?;
        self.list(what, packet)?;
        let entry_len = ring.shape().entry_len;
        if self.scratch.len() > entry_len {
            return Err(Lost::Outside);
        }
        self.scratch.resize(entry_len, 0);
        let scratch = &*self.scratch;
        match ring.fill(|shared, at| shared.copy_in(at, scratch)) {
            true => {
                self.burst.filled |= 1 << (index % 64);
                self.burst.handed |= 1 << packet;
                Ok(())
            }
            false => Err(Lost::RingFull),
        }
    }

    fn write_at(
        &mut self,
        window: usize,
        offset: Source,
        what: &[Span],
        packet: usize,
    ) -> Result<(), Lost> {
        self.list(what, packet)?;
        let at = self.within(window, self.burst.one(offset, packet), self.scratch.len())?;
        match self.state.windows[window].0.write(at, self.scratch) {
            true => Ok(()),
            false => Err(Lost::Hindered),
        }
    }

    fn read_at(
        &mut self,
        window: usize,
        offset: Source,
        into: &[Wide],
        packet: usize,
    ) -> Result<(), Lost> {
        let bytes = |of: &Wide| match *of {
            Wide::Lane { len, .. } | Wide::Bytes { len, .. } => len,
        };
        let len = into.iter().map(bytes).sum();
        let at = self.within(window, self.burst.one(offset, packet), len)?;
        self.scratch.resize(len, 0);
        self.state.windows[window].0.copy_out(at, self.scratch);
        let mut from = 0;
        for to in into {
            match *to {
                Wide::Lane { lane, len } => {
                    let mut word = [0; 8];
                    word[..len].copy_from_slice(&self.scratch[from..from + len]);
                    self.burst.lanes[lane][packet] = u64::from_le_bytes(word);
                    from += len;
                }
                Wide::Bytes { at, len } => {
                    let read = &self.scratch[from..from + len];
                    self.burst.store_of(packet)[at..at + len].copy_from_slice(read);
                    from += len;
                }
            }
        }
        Ok(())
    }

    /// Where so many bytes begin that a window has.
    fn within(&self, window: usize, offset: u64, len: usize) -> Result<usize, Lost> {
        let at = usize::try_from(offset).ok();
        let end = at.and_then(|at| at.checked_add(len));
        match (at, end) {
            (Some(at), Some(end)) if end <= self.state.windows[window].1 => Ok(at),
            _ => Err(Lost::Outside),
        }
    }

    /// Puts together what is written of a packet.
    fn list(&mut self, what: &[Span], packet: usize) -> Result<(), Lost> {
        self.scratch.clear();
        let mut is_long = false;
        for span in what {
            match *span {
                Span::Part(part) => self.burst.append(part, self.plan, packet, self.scratch),
                Span::Payload(len) => {
                    let len = usize::try_from(self.burst.one(len, packet)).unwrap_or(usize::MAX);
                    let frame = self.region.frame(&self.frames[packet]);
                    let rest = frame.get(usize::from(self.burst.cursor[packet])..);
                    let bytes = rest.and_then(|rest| rest.get(..len)).ok_or(Lost::Short)?;
                    // What is too long is not put together: there is no room for it.
                    match self.scratch.len() + len <= DMA_LEN_MAX {
                        true => self.scratch.extend_from_slice(bytes),
                        false => is_long = true,
                    }
                }
            }
        }
        if is_long || self.scratch.len() > DMA_LEN_MAX { Err(Lost::Outside) } else { Ok(()) }
    }
}
