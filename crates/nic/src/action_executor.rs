//! The action executor: carries out the steps of an action list on a packet.

use crate::action_list::{ActionStep, ActionSteps};
use crate::action_word::ActionWord;
use crate::control::SharedState;
use crate::counters::FCS_LEN;
use crate::memory::{Desc, Frames};
use crate::meter::Colour;
use crate::modify::{self, Layout, Tunnel};
use crate::parsed_headers::ParsedHeaders;

/// Length of a VLAN tag, and of the MAC addresses in front of it, bytes.
const TAG_LEN: usize = 4;
const ADDRESSES_LEN: usize = 12;

/// Why a step drops the packet.
pub(crate) enum DropReason {
    /// The packet exceeds a meter.
    Exceeds,
    /// The slot of the packet has no headroom for a header.
    NoHeadroom,
}

/// The inputs of steps other than the packet.
pub(crate) struct ActionEnv<'a> {
    pub(crate) shared: &'a SharedState,
    /// The action word of the rule.
    pub(crate) word: ActionWord,
    /// The time for meters.
    pub(crate) now_ns: u64,
}

/// Carries out steps on one packet.
pub(crate) struct ActionExecutor<'a, F> {
    frames: &'a F,
    desc: &'a mut Desc,
    /// The headers of the packet's burst, and its index there.
    headers: &'a mut ParsedHeaders,
    place: usize,
    /// Where the packet's headers begin; read when a step first needs it.
    layout: Option<Layout>,
    /// Whether a step may have changed the packet's bytes.
    pub(crate) is_changed: bool,
}

impl<F: Frames> ActionExecutor<'_, F> {
    pub(crate) fn new<'a>(
        frames: &'a F,
        desc: &'a mut Desc,
        headers: &'a mut ParsedHeaders,
        place: usize,
    ) -> ActionExecutor<'a, F> {
        ActionExecutor { frames, desc, headers, place, layout: None, is_changed: false }
    }

    /// Carries out a step; bytes that belong to it are the next in `rest`.
    #[inline]
    pub(crate) fn execute(
        &mut self,
        step: ActionStep,
        rest: &mut ActionSteps<'_>,
        env: &ActionEnv<'_>,
    ) -> Result<(), DropReason> {
        match step {
            ActionStep::Age(_) => env.shared.ages.record_hit(env.word.rule()),
            ActionStep::Flag => self.desc.flag(),
            ActionStep::Mark(mark) => self.frames.set_mark(self.desc, mark),
            ActionStep::SetMeta { data, mask } => self.headers.set_meta(self.place, data, mask),
            ActionStep::SetTag { index, data, mask } => {
                self.headers.set_tag(self.place, index, data, mask);
            }
            ActionStep::Meter(number) => return self.meter(number, env),
            ActionStep::DecTtl => self.change(modify::dec_ttl),
            ActionStep::MacSwap => self.change(|frame, _| modify::swap_addresses(frame)),
            ActionStep::Set(set) => self.change(|frame, layout| modify::set(frame, layout, &set)),
            ActionStep::PushVlan(tag) => return self.push_vlan(tag),
            ActionStep::PopVlan => self.pop_vlan(),
            ActionStep::Encap(len) => return self.encap(len, rest),
            ActionStep::Decap(len) => self.decap(len),
            ActionStep::DecapTunnel(tunnel) => self.decap_tunnel(tunnel),
        }
        Ok(())
    }

    #[inline(never)]
    fn meter(&self, number: u32, env: &ActionEnv<'_>) -> Result<(), DropReason> {
        let bytes = u64::from(self.desc.len()) + FCS_LEN;
        match env.shared.meters.colour(number, bytes, Colour::Green, env.now_ns) {
            Some(Colour::Green | Colour::Yellow) => Ok(()),
            Some(Colour::Red) | None => Err(DropReason::Exceeds),
        }
    }

    /// Changes bytes, but not where headers begin.
    fn change(&mut self, change: impl FnOnce(&mut [u8], &Layout)) {
        let frame = self.frames.frame_mut(self.desc);
        let layout = self.layout.get_or_insert_with(|| Layout::of(frame));
        change(frame, layout);
        self.is_changed = true;
    }

    fn push_vlan(&mut self, tag: u16) -> Result<(), DropReason> {
        let frame = self.frames.frame(self.desc);
        if !modify::has_ethernet(frame) {
            return Ok(());
        }
        let tci = modify::tci(frame).unwrap_or(0);
        let frame = self.frames.grow_front(self.desc, TAG_LEN).ok_or(DropReason::NoHeadroom)?;
        frame.copy_within(TAG_LEN..TAG_LEN + ADDRESSES_LEN, 0);
        frame[ADDRESSES_LEN..][..2].copy_from_slice(&tag.to_be_bytes());
        frame[ADDRESSES_LEN + 2..][..2].copy_from_slice(&tci.to_be_bytes());
        self.headers_moved();
        Ok(())
    }

    fn pop_vlan(&mut self) {
        let frame = self.frames.frame_mut(self.desc);
        if modify::tci(frame).is_some() {
            frame.copy_within(..ADDRESSES_LEN, TAG_LEN);
            self.frames.shrink_front(self.desc, TAG_LEN);
            self.headers_moved();
        }
    }

    fn encap(&mut self, len: usize, rest: &mut ActionSteps<'_>) -> Result<(), DropReason> {
        let frame = self.frames.grow_front(self.desc, len).ok_or(DropReason::NoHeadroom)?;
        modify::write_headers(frame, rest.bytes(len));
        self.headers_moved();
        Ok(())
    }

    fn decap(&mut self, len: usize) {
        if usize::from(self.desc.len()) > len {
            self.frames.shrink_front(self.desc, len);
            self.headers_moved();
        }
    }

    fn decap_tunnel(&mut self, tunnel: Tunnel) {
        let frame = self.frames.frame(self.desc);
        let layout = self.layout.get_or_insert_with(|| Layout::of(frame));
        if let Some(len) = modify::tunnel_len(frame, layout, tunnel) {
            self.decap(len);
        }
    }

    /// Notes that headers begin elsewhere now.
    fn headers_moved(&mut self) {
        (self.layout, self.is_changed) = (None, true);
    }
}
