//! The steps of a program, carried out on a packet.

use crate::control::Board;
use crate::counters::FCS_LEN;
use crate::lines::Lines;
use crate::memory::{Desc, Region};
use crate::meter::Colour;
use crate::modify::{self, Layout, Tunnel};
use crate::program::{Step, Steps};
use crate::word::Word;

/// Bytes of a VLAN tag, and of the addresses in front of it.
const TAG_LEN: usize = 4;
const ADDRESSES_LEN: usize = 12;

/// Why a packet is dropped in the middle of its steps.
pub(crate) enum Lost {
    /// It exceeds a meter.
    Exceeds,
    /// A header found no room in front of it.
    NoRoom,
}

/// What steps need beside the packet.
pub(crate) struct Around<'a> {
    pub(crate) board: &'a Board,
    /// That of the rule.
    pub(crate) word: Word,
    /// The time that meters see.
    pub(crate) now_ns: u64,
}

/// A packet to which steps are done.
pub(crate) struct Subject<'a> {
    region: &'a Region,
    desc: &'a mut Desc,
    /// The lines of its burst, and its place there.
    lines: &'a mut Lines,
    place: usize,
    /// Where its headers are, once somebody asked.
    layout: Option<Layout>,
    /// Whether its bytes may be others than when it came.
    pub(crate) is_changed: bool,
}

impl Subject<'_> {
    pub(crate) fn new<'a>(
        region: &'a Region,
        desc: &'a mut Desc,
        lines: &'a mut Lines,
        place: usize,
    ) -> Subject<'a> {
        Subject { region, desc, lines, place, layout: None, is_changed: false }
    }

    /// Carries out a step, whose bytes are the next of the rest.
    #[inline]
    pub(crate) fn meet(
        &mut self,
        step: Step,
        rest: &mut Steps<'_>,
        around: &Around<'_>,
    ) -> Result<(), Lost> {
        match step {
            Step::Age(_) => around.board.ages.meet(around.word.rule()),
            Step::Flag => self.desc.flag(),
            Step::Mark(mark) => self.region.set_mark(self.desc, mark),
            Step::SetMeta { data, mask } => self.lines.set_meta(self.place, data, mask),
            Step::SetTag { index, data, mask } => {
                self.lines.set_tag(self.place, index, data, mask);
            }
            Step::Meter(number) => return self.meter(number, around),
            Step::DecTtl => self.change(modify::dec_ttl),
            Step::Set(set) => self.change(|frame, layout| modify::set(frame, layout, &set)),
            Step::PushVlan(tag) => return self.push_vlan(tag),
            Step::PopVlan => self.pop_vlan(),
            Step::Encap(len) => return self.encap(len, rest),
            Step::Decap(len) => self.decap(len),
            Step::Leave(tunnel) => self.leave(tunnel),
        }
        Ok(())
    }

    #[inline(never)]
    fn meter(&self, number: u32, around: &Around<'_>) -> Result<(), Lost> {
        let bytes = u64::from(self.desc.len()) + FCS_LEN;
        match around.board.meters.colour(number, bytes, Colour::Green, around.now_ns) {
            Some(Colour::Green | Colour::Yellow) => Ok(()),
            Some(Colour::Red) | None => Err(Lost::Exceeds),
        }
    }

    /// Changes bytes, but not where headers are.
    fn change(&mut self, change: impl FnOnce(&mut [u8], &Layout)) {
        let frame = self.region.frame_mut(self.desc);
        let layout = self.layout.get_or_insert_with(|| Layout::of(frame));
        change(frame, layout);
        self.is_changed = true;
    }

    fn push_vlan(&mut self, tag: u16) -> Result<(), Lost> {
        let frame = self.region.frame(self.desc);
        if !modify::has_ethernet(frame) {
            return Ok(());
        }
        let tci = modify::tci(frame).unwrap_or(0);
        let frame = self.region.grow_front(self.desc, TAG_LEN).ok_or(Lost::NoRoom)?;
        frame.copy_within(TAG_LEN..TAG_LEN + ADDRESSES_LEN, 0);
        frame[ADDRESSES_LEN..][..2].copy_from_slice(&tag.to_be_bytes());
        frame[ADDRESSES_LEN + 2..][..2].copy_from_slice(&tci.to_be_bytes());
        self.moved();
        Ok(())
    }

    fn pop_vlan(&mut self) {
        let frame = self.region.frame_mut(self.desc);
        if modify::tci(frame).is_some() {
            frame.copy_within(..ADDRESSES_LEN, TAG_LEN);
            self.region.shrink_front(self.desc, TAG_LEN);
            self.moved();
        }
    }

    fn encap(&mut self, len: usize, rest: &mut Steps<'_>) -> Result<(), Lost> {
        let frame = self.region.grow_front(self.desc, len).ok_or(Lost::NoRoom)?;
        modify::write_headers(frame, rest.bytes(len));
        self.moved();
        Ok(())
    }

    fn decap(&mut self, len: usize) {
        if usize::from(self.desc.len()) > len {
            self.region.shrink_front(self.desc, len);
            self.moved();
        }
    }

    fn leave(&mut self, tunnel: Tunnel) {
        let frame = self.region.frame(self.desc);
        let layout = self.layout.get_or_insert_with(|| Layout::of(frame));
        if let Some(len) = modify::tunnel_len(frame, layout, tunnel) {
            self.decap(len);
        }
    }

    /// Headers begin elsewhere now.
    fn moved(&mut self) {
        (self.layout, self.is_changed) = (None, true);
    }
}
