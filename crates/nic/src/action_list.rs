//! Action lists: the actions of rules other than `count` and the fate.
//!
//! An action word has room for a fate. The other actions of a rule are *steps* of one or more
//! words, which follow each other in memory of their own. The action word then has the number of
//! this list, and the first word of the list has the fate. So any update of actions is one store,
//! as an update of a fate is, and a packet whose rule has no such actions pays nothing for them.
//!
//! An action list is written before the word that names it is stored (Release), and never changes:
//! a worker that reads the word (Acquire) sees the whole list. Its memory is reused after a grace
//! period that began when no word named it any more.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering;

use niclab_table::{QsbrDomain, Segments, Stamp};

use crate::action_word::{ActionWord, Fate};
use crate::limits::{ACTION_LIST_UNIT, ACTION_LISTS_MAX};
use crate::modify::Tunnel;
use crate::rule::{Action, Set};

/// Sizes of action lists: this many powers of two, from [`ACTION_LIST_UNIT`] words on.
const SIZES: usize = 8;

/// Bits of a step's first word that have its code; the rest is its argument.
const OP_BITS: u32 = 8;

/// Codes of steps.
mod op {
    pub(super) const END: u64 = 0;
    pub(super) const FLAG: u64 = 1;
    pub(super) const MARK: u64 = 2;
    pub(super) const DEC_TTL: u64 = 3;
    pub(super) const PUSH_VLAN: u64 = 4;
    pub(super) const POP_VLAN: u64 = 5;
    pub(super) const IPV4_DSCP: u64 = 6;
    pub(super) const IPV4_DST: u64 = 7;
    pub(super) const IPV4_SRC: u64 = 8;
    pub(super) const IPV6_DSCP: u64 = 9;
    /// The address is in the next two words.
    pub(super) const IPV6_DST: u64 = 10;
    pub(super) const IPV6_SRC: u64 = 11;
    pub(super) const MAC_DST: u64 = 12;
    pub(super) const MAC_SRC: u64 = 13;
    pub(super) const TP_DST: u64 = 14;
    pub(super) const TP_SRC: u64 = 15;
    pub(super) const TTL: u64 = 16;
    pub(super) const VLAN_PCP: u64 = 17;
    pub(super) const VLAN_VID: u64 = 18;
    /// The argument is a length; the bytes are in the next words.
    pub(super) const ENCAP: u64 = 19;
    pub(super) const DECAP: u64 = 20;
    pub(super) const VXLAN_DECAP: u64 = 21;
    pub(super) const NVGRE_DECAP: u64 = 22;
    /// Data and mask are in the next word.
    pub(super) const SET_META: u64 = 23;
    /// Data and mask are in the next word; the argument is the tag.
    pub(super) const SET_TAG: u64 = 24;
    /// The argument is the timeout, seconds. It is always the first step, where the control side
    /// finds it.
    pub(super) const AGE: u64 = 25;
    pub(super) const METER: u64 = 26;
    pub(super) const MAC_SWAP: u64 = 27;
}

/// One action on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActionStep {
    /// Store the time as the rule's last hit. The argument is the timeout, seconds.
    Age(u32),
    /// Flag the packet.
    Flag,
    /// Mark the packet with this number.
    Mark(u32),
    DecTtl,
    /// Exchange the addresses of Ethernet.
    MacSwap,
    /// Remove this many bytes in front.
    Decap(usize),
    /// Put this many bytes in front: [`ActionSteps::bytes`].
    Encap(usize),
    /// Remove the headers of a tunnel.
    DecapTunnel(Tunnel),
    /// Drop the packet if it exceeds this meter.
    Meter(u32),
    PopVlan,
    PushVlan(u16),
    Set(Set),
    /// Set bits of the metadata.
    SetMeta {
        data: u32,
        mask: u32,
    },
    /// Set bits of a tag.
    SetTag {
        index: usize,
        data: u32,
        mask: u32,
    },
}

/// All action lists, for workers.
pub(crate) struct ActionLists(Segments<{ ACTION_LIST_UNIT as usize }>);

/// The steps of one action list, for a worker.
pub(crate) struct ActionSteps<'a> {
    action_lists: &'a ActionLists,
    at: u32,
}

impl ActionLists {
    pub(crate) fn new() -> ActionLists {
        ActionLists(Segments::new(ACTION_LISTS_MAX))
    }

    /// The fate of an action list, and its steps.
    #[inline]
    pub(crate) fn read(&self, number: u32) -> (Fate, ActionSteps<'_>) {
        let mut steps = ActionSteps { action_lists: self, at: number * ACTION_LIST_UNIT };
        (ActionWord(steps.word()).fate(), steps)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

impl ActionSteps<'_> {
    #[inline]
    fn word(&mut self) -> u64 {
        let unit = self.action_lists.0.get(self.at / ACTION_LIST_UNIT);
        let word =
            unit.map_or(0, |unit| unit[self.at as usize % unit.len()].load(Ordering::Relaxed));
        self.at += 1;
        word
    }
}

impl Iterator for ActionSteps<'_> {
    type Item = ActionStep;

    // As a call, it added some 10 instructions to a list of two steps (callgrind).
    #[inline(always)]
    fn next(&mut self) -> Option<ActionStep> {
        let word = self.word();
        let (op, argument) = (word & ((1 << OP_BITS) - 1), word >> OP_BITS);
        Some(match op {
            op::END => return None,
            op::AGE => ActionStep::Age(argument as u32),
            op::FLAG => ActionStep::Flag,
            op::MARK => ActionStep::Mark(argument as u32),
            op::METER => ActionStep::Meter(argument as u32),
            op::DEC_TTL => ActionStep::DecTtl,
            op::MAC_SWAP => ActionStep::MacSwap,
            op::PUSH_VLAN => ActionStep::PushVlan(argument as u16),
            op::POP_VLAN => ActionStep::PopVlan,
            op::ENCAP => ActionStep::Encap(argument as usize),
            op::DECAP => ActionStep::Decap(argument as usize),
            op::VXLAN_DECAP => ActionStep::DecapTunnel(Tunnel::Vxlan),
            op::NVGRE_DECAP => ActionStep::DecapTunnel(Tunnel::Nvgre),
            op::SET_META => {
                let word = self.word();
                ActionStep::SetMeta { data: word as u32, mask: (word >> 32) as u32 }
            }
            op::SET_TAG => {
                let (index, word) = (argument as usize, self.word());
                ActionStep::SetTag { index, data: word as u32, mask: (word >> 32) as u32 }
            }
            _ => ActionStep::Set(self.field(op, argument)?),
        })
    }
}

impl ActionSteps<'_> {
    /// The field that a step sets.
    #[inline]
    fn field(&mut self, op: u64, argument: u64) -> Option<Set> {
        let mac = |argument: u64| {
            let [_, _, address @ ..] = argument.to_be_bytes();
            address
        };
        Some(match op {
            op::IPV4_DSCP => Set::Ipv4Dscp(argument as u8),
            op::IPV4_DST => Set::Ipv4Dst(Ipv4Addr::from_bits(argument as u32)),
            op::IPV4_SRC => Set::Ipv4Src(Ipv4Addr::from_bits(argument as u32)),
            op::IPV6_DSCP => Set::Ipv6Dscp(argument as u8),
            op::IPV6_DST => Set::Ipv6Dst(self.ipv6()),
            op::IPV6_SRC => Set::Ipv6Src(self.ipv6()),
            op::MAC_DST => Set::MacDst(mac(argument)),
            op::MAC_SRC => Set::MacSrc(mac(argument)),
            op::TP_DST => Set::TpDst(argument as u16),
            op::TP_SRC => Set::TpSrc(argument as u16),
            op::TTL => Set::Ttl(argument as u8),
            op::VLAN_PCP => Set::VlanPcp(argument as u8),
            op::VLAN_VID => Set::VlanVid(argument as u16),
            _ => return None,
        })
    }

    /// The bytes of the step that was read last. The caller has to take all of them.
    pub(crate) fn bytes(&mut self, len: usize) -> impl Iterator<Item = u8> {
        let words = (0..len.div_ceil(8)).map(|_| self.word());
        words.flat_map(u64::to_le_bytes).take(len)
    }

    #[inline]
    fn ipv6(&mut self) -> Ipv6Addr {
        let head = self.word();
        Ipv6Addr::from_bits(u128::from(head) << 64 | u128::from(self.word()))
    }
}

/// The timeout in encoded steps, seconds, if they have one.
pub(crate) fn timeout_of(steps: &[u64]) -> Option<u32> {
    let first = steps.first().filter(|first| **first & ((1 << OP_BITS) - 1) == op::AGE);
    first.map(|first| (first >> OP_BITS) as u32)
}

/// Encodes the steps of a rule's actions; none if an action word has room for all actions.
pub(crate) fn write_steps(actions: &[Action], steps: &mut Vec<u64>) {
    steps.clear();
    let timeout = actions.iter().find_map(|action| match action {
        Action::Age(timeout) => Some(u64::from(*timeout)),
        _ => None,
    });
    steps.extend(timeout.map(|timeout| op::AGE | timeout << OP_BITS));
    for action in actions {
        let (op, argument) = match action {
            // It was written before the loop.
            Action::Age(_) => continue,
            Action::Port(_) => continue,
            Action::Count | Action::Drop | Action::Jump(_) | Action::Queue(_) | Action::Rss(_) => {
                continue;
            }
            Action::DecTtl => (op::DEC_TTL, 0),
            Action::MacSwap => (op::MAC_SWAP, 0),
            Action::Flag => (op::FLAG, 0),
            Action::Mark(mark) => (op::MARK, u64::from(*mark)),
            Action::Meter(number) => (op::METER, u64::from(*number)),
            Action::NvgreDecap => (op::NVGRE_DECAP, 0),
            Action::VxlanDecap => (op::VXLAN_DECAP, 0),
            Action::RawDecap(len) => (op::DECAP, u64::from(*len)),
            Action::NvgreEncap(bytes) | Action::RawEncap(bytes) | Action::VxlanEncap(bytes) => {
                write_bytes(bytes, steps);
                continue;
            }
            Action::PopVlan => (op::POP_VLAN, 0),
            Action::PushVlan(tag) => (op::PUSH_VLAN, u64::from(*tag)),
            Action::Set(set) => {
                write_field(set, steps);
                continue;
            }
            Action::SetMeta { data, mask } => {
                steps.extend([op::SET_META, u64::from(*data) | u64::from(*mask) << 32]);
                continue;
            }
            Action::SetTag { index, data, mask } => {
                steps.push(op::SET_TAG | u64::from(*index) << OP_BITS);
                steps.push(u64::from(*data) | u64::from(*mask) << 32);
                continue;
            }
        };
        steps.push(op | argument << OP_BITS);
    }
    if !steps.is_empty() {
        steps.push(op::END);
    }
}

fn write_bytes(bytes: &[u8], steps: &mut Vec<u64>) {
    steps.push(op::ENCAP | (bytes.len() as u64) << OP_BITS);
    steps.extend(bytes.chunks(8).map(|chunk| {
        let mut eight = [0; 8];
        eight[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(eight)
    }));
}

fn write_field(set: &Set, steps: &mut Vec<u64>) {
    let mac = |address: &[u8; 6]| address.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
    let (op, argument) = match set {
        Set::Ipv4Dscp(dscp) => (op::IPV4_DSCP, u64::from(*dscp)),
        Set::Ipv4Dst(address) => (op::IPV4_DST, address.to_bits().into()),
        Set::Ipv4Src(address) => (op::IPV4_SRC, address.to_bits().into()),
        Set::Ipv6Dscp(dscp) => (op::IPV6_DSCP, u64::from(*dscp)),
        Set::Ipv6Dst(_) => (op::IPV6_DST, 0),
        Set::Ipv6Src(_) => (op::IPV6_SRC, 0),
        Set::MacDst(address) => (op::MAC_DST, mac(address)),
        Set::MacSrc(address) => (op::MAC_SRC, mac(address)),
        Set::TpDst(port) => (op::TP_DST, u64::from(*port)),
        Set::TpSrc(port) => (op::TP_SRC, u64::from(*port)),
        Set::Ttl(ttl) => (op::TTL, u64::from(*ttl)),
        Set::VlanPcp(pcp) => (op::VLAN_PCP, u64::from(*pcp)),
        Set::VlanVid(vid) => (op::VLAN_VID, u64::from(*vid)),
    };
    steps.push(op | argument << OP_BITS);
    if let Set::Ipv6Dst(address) | Set::Ipv6Src(address) = set {
        let bits = address.to_bits();
        steps.extend([(bits >> 64) as u64, bits as u64]);
    }
}

/// Allocates memory for action lists; for the control side.
#[derive(Default)]
pub(crate) struct ActionListAllocator {
    /// Numbers of freed lists, oldest first, by size.
    free: [VecDeque<(Stamp, u32)>; SIZES],
    /// The first number that was never used.
    fresh: u32,
    /// The latest stamp known to have passed.
    passed: Stamp,
}

/// The size class of an action list of this many words, its fate included.
fn size_of_words(words: usize) -> usize {
    words.div_ceil(ACTION_LIST_UNIT as usize).next_power_of_two().trailing_zeros() as usize
}

impl ActionListAllocator {
    /// Whether there is memory for a list of these steps.
    pub(crate) fn has_room(&mut self, steps: &[u64], domain: &QsbrDomain) -> bool {
        let size = size_of_words(1 + steps.len());
        let Some(oldest) = self.free.get(size).map(|free| free.front().map(|(stamp, _)| *stamp))
        else {
            return false;
        };
        if oldest.is_some_and(|stamp| stamp > self.passed) {
            self.passed = self.passed.max(domain.passed());
        }
        oldest.is_some_and(|stamp| stamp <= self.passed)
            || ACTION_LISTS_MAX - self.fresh >= 1 << size
    }

    /// Writes an action list, for which there is memory; returns its number.
    pub(crate) fn put(&mut self, action_lists: &ActionLists, fate: Fate, steps: &[u64]) -> u32 {
        let size = size_of_words(1 + steps.len());
        let number = match self.free[size].pop_front_if(|(stamp, _)| *stamp <= self.passed) {
            Some((_, number)) => number,
            None => {
                self.fresh += 1 << size;
                self.fresh - (1 << size)
            }
        };
        // The size is where action words have the index of a rule.
        let head = ActionWord::new(fate, false, size as u32);
        for (at, word) in
            (number * ACTION_LIST_UNIT..).zip([head.0].into_iter().chain(steps.iter().copied()))
        {
            let unit = action_lists.0.ensure(at / ACTION_LIST_UNIT);
            unit[at as usize % unit.len()].store(word, Ordering::Relaxed);
        }
        number
    }

    /// Frees an action list that no word names any more from now on; returns its fate.
    pub(crate) fn give_back(
        &mut self,
        action_lists: &ActionLists,
        number: u32,
        stamp: Stamp,
    ) -> Fate {
        let head = ActionWord(action_lists.0.ensure(number)[0].load(Ordering::Relaxed));
        self.free[head.rule() as usize].push_back((stamp, number));
        head.fate()
    }

    /// Units of action lists in use.
    #[cfg(test)]
    pub(crate) fn units_used(&self) -> u32 {
        let units = |(size, free): (usize, &VecDeque<_>)| (free.len() as u32) << size;
        self.fresh - self.free.iter().enumerate().map(units).sum::<u32>()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.free.iter().map(|free| free.capacity() * size_of::<(Stamp, u32)>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_list_is_read_as_it_was_written() {
        let (action_lists, mut action_list_allocator, mut steps) =
            (ActionLists::new(), ActionListAllocator::default(), Vec::new());
        let actions = [Action::Mark(u32::MAX), Action::Count, Action::Flag, Action::Queue(3)];
        write_steps(&actions, &mut steps);
        let number = action_list_allocator.put(&action_lists, Fate::Queue(3), &steps);
        let (fate, read) = action_lists.read(number);
        assert_eq!(fate, Fate::Queue(3));
        assert_eq!(read.collect::<Vec<_>>(), [ActionStep::Mark(u32::MAX), ActionStep::Flag]);
        write_steps(&[Action::Count, Action::Drop], &mut steps);
        assert!(steps.is_empty(), "a word has room for them");
    }

    #[test]
    fn memory_is_used_again_after_a_grace_period_and_for_its_size_alone() {
        let (action_lists, mut action_list_allocator, domain) =
            (ActionLists::new(), ActionListAllocator::default(), QsbrDomain::new());
        let mut worker = domain.register_reader();
        let put = |action_list_allocator: &mut ActionListAllocator, len: usize| {
            let steps = vec![op::FLAG; len];
            assert!(action_list_allocator.has_room(&steps, &domain));
            action_list_allocator.put(&action_lists, Fate::Drop, &steps)
        };
        let first = put(&mut action_list_allocator, 3);
        assert_eq!(
            action_list_allocator.give_back(&action_lists, first, domain.stamp()),
            Fate::Drop
        );
        let second = put(&mut action_list_allocator, 3);
        assert_ne!(second, first, "a worker may still read it");
        worker.quiescent();
        assert_eq!(
            put(&mut action_list_allocator, 4),
            second + 1,
            "two units, which were never used"
        );
        assert_eq!(put(&mut action_list_allocator, 3), first);
        action_list_allocator.fresh = ACTION_LISTS_MAX - 1;
        assert!(action_list_allocator.has_room(&[op::END; 3], &domain));
        assert!(!action_list_allocator.has_room(&[op::END; 4], &domain));
    }
}
