//! Programs: what rules do with packets beyond counting them and deciding about them.
//!
//! An action word has room for a fate. The other actions of a rule are *steps*, a word or more
//! each, that stand one behind the other in memory of their own; the action word then names the
//! place, and the first word there has the fate. So an update of any actions is one store, as that
//! of a fate is, and a packet without such actions pays nothing for them.
//!
//! A program is written before the word that names it is stored (Release), and never changed: who
//! reads the word (Acquire) sees the program. Its memory is used again after a grace period that
//! began when no word named it any more.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering;

use niclab_table::{Domain, Segments, Stamp};

use crate::limits::{PROGRAM_UNIT, PROGRAMS_MAX};
use crate::modify::Tunnel;
use crate::rule::{Action, Set};
use crate::word::{Fate, Word};

/// Sizes of programs: so many powers of two, from [`PROGRAM_UNIT`] words on.
const SIZES: usize = 8;

/// Bits of a step's word that say what it is; the rest is its argument.
const OP_BITS: u32 = 8;

/// What a step is.
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
    /// The address is in the two words behind.
    pub(super) const IPV6_DST: u64 = 10;
    pub(super) const IPV6_SRC: u64 = 11;
    pub(super) const MAC_DST: u64 = 12;
    pub(super) const MAC_SRC: u64 = 13;
    pub(super) const TP_DST: u64 = 14;
    pub(super) const TP_SRC: u64 = 15;
    pub(super) const TTL: u64 = 16;
    pub(super) const VLAN_PCP: u64 = 17;
    pub(super) const VLAN_VID: u64 = 18;
    /// The argument is a length, and the bytes are in the words behind.
    pub(super) const ENCAP: u64 = 19;
    pub(super) const DECAP: u64 = 20;
    pub(super) const VXLAN_DECAP: u64 = 21;
    pub(super) const NVGRE_DECAP: u64 = 22;
    /// Data and mask are in the word behind.
    pub(super) const SET_META: u64 = 23;
    /// The same, and the argument is the tag.
    pub(super) const SET_TAG: u64 = 24;
    /// The argument is the timeout, seconds. It stands first, where the control side finds it.
    pub(super) const AGE: u64 = 25;
    pub(super) const METER: u64 = 26;
}

/// One thing to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Note that the rule met a packet; it ages after so many seconds without.
    Age(u32),
    /// Say that a rule picked it out.
    Flag,
    /// Attach a number.
    Mark(u32),
    DecTtl,
    /// Take so many bytes away in front.
    Decap(usize),
    /// Put so many bytes in front: [`Steps::bytes`].
    Encap(usize),
    /// Take the headers of a tunnel away.
    Leave(Tunnel),
    /// Drop the packet if it exceeds this meter.
    Meter(u32),
    PopVlan,
    PushVlan(u16),
    Set(Set),
    /// Bits of the metadata.
    SetMeta {
        data: u32,
        mask: u32,
    },
    /// Bits of a tag.
    SetTag {
        index: usize,
        data: u32,
        mask: u32,
    },
}

/// All programs, for workers.
pub(crate) struct Programs(Segments<{ PROGRAM_UNIT as usize }>);

/// The steps of one program, for a worker.
pub(crate) struct Steps<'a> {
    programs: &'a Programs,
    at: u32,
}

impl Programs {
    pub(crate) fn new() -> Programs {
        Programs(Segments::new(PROGRAMS_MAX))
    }

    /// The fate in a program, and its steps.
    #[inline]
    pub(crate) fn read(&self, number: u32) -> (Fate, Steps<'_>) {
        let mut steps = Steps { programs: self, at: number * PROGRAM_UNIT };
        (Word(steps.word()).fate(), steps)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

impl Steps<'_> {
    #[inline]
    fn word(&mut self) -> u64 {
        let unit = self.programs.0.get(self.at / PROGRAM_UNIT);
        let word =
            unit.map_or(0, |unit| unit[self.at as usize % unit.len()].load(Ordering::Relaxed));
        self.at += 1;
        word
    }
}

impl Iterator for Steps<'_> {
    type Item = Step;

    // Called, it added some 10 instructions to a program of two steps (callgrind).
    #[inline(always)]
    fn next(&mut self) -> Option<Step> {
        let word = self.word();
        let (op, argument) = (word & ((1 << OP_BITS) - 1), word >> OP_BITS);
        Some(match op {
            op::END => return None,
            op::AGE => Step::Age(argument as u32),
            op::FLAG => Step::Flag,
            op::MARK => Step::Mark(argument as u32),
            op::METER => Step::Meter(argument as u32),
            op::DEC_TTL => Step::DecTtl,
            op::PUSH_VLAN => Step::PushVlan(argument as u16),
            op::POP_VLAN => Step::PopVlan,
            op::ENCAP => Step::Encap(argument as usize),
            op::DECAP => Step::Decap(argument as usize),
            op::VXLAN_DECAP => Step::Leave(Tunnel::Vxlan),
            op::NVGRE_DECAP => Step::Leave(Tunnel::Nvgre),
            op::SET_META => {
                let word = self.word();
                Step::SetMeta { data: word as u32, mask: (word >> 32) as u32 }
            }
            op::SET_TAG => {
                let (index, word) = (argument as usize, self.word());
                Step::SetTag { index, data: word as u32, mask: (word >> 32) as u32 }
            }
            _ => Step::Set(self.field(op, argument)?),
        })
    }
}

impl Steps<'_> {
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

    /// The bytes of the step that was read last: all of them have to be taken.
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

/// The timeout in steps that were written, seconds, where they have one.
pub(crate) fn timeout_of(steps: &[u64]) -> Option<u32> {
    let first = steps.first().filter(|first| **first & ((1 << OP_BITS) - 1) == op::AGE);
    first.map(|first| (first >> OP_BITS) as u32)
}

/// Writes the steps of a rule's actions; none where a word has room for all of them.
pub(crate) fn write_steps(actions: &[Action], steps: &mut Vec<u64>) {
    steps.clear();
    let timeout = actions.iter().find_map(|action| match action {
        Action::Age(timeout) => Some(u64::from(*timeout)),
        _ => None,
    });
    steps.extend(timeout.map(|timeout| op::AGE | timeout << OP_BITS));
    for action in actions {
        let (op, argument) = match action {
            // It was written first.
            Action::Age(_) => continue,
            Action::Port(_) => continue,
            Action::Count | Action::Drop | Action::Jump(_) | Action::Queue(_) | Action::Rss(_) => {
                continue;
            }
            Action::DecTtl => (op::DEC_TTL, 0),
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

/// Where programs are put: the control side's part.
#[derive(Default)]
pub(crate) struct Shelf {
    /// Numbers that were given back, oldest first, by size.
    free: [VecDeque<(Stamp, u32)>; SIZES],
    /// Numbers from here on were never used.
    fresh: u32,
    /// The latest stamp known to have passed.
    passed: Stamp,
}

/// The size of a program of so many words, its fate included.
fn size_of_words(words: usize) -> usize {
    words.div_ceil(PROGRAM_UNIT as usize).next_power_of_two().trailing_zeros() as usize
}

impl Shelf {
    /// Whether a program of these steps can be put somewhere.
    pub(crate) fn has_room(&mut self, steps: &[u64], domain: &Domain) -> bool {
        let size = size_of_words(1 + steps.len());
        let Some(oldest) = self.free.get(size).map(|free| free.front().map(|(stamp, _)| *stamp))
        else {
            return false;
        };
        if oldest.is_some_and(|stamp| stamp > self.passed) {
            self.passed = self.passed.max(domain.passed());
        }
        oldest.is_some_and(|stamp| stamp <= self.passed) || PROGRAMS_MAX - self.fresh >= 1 << size
    }

    /// Writes a program, for which there is room; its number.
    pub(crate) fn put(&mut self, programs: &Programs, fate: Fate, steps: &[u64]) -> u32 {
        let size = size_of_words(1 + steps.len());
        let number = match self.free[size].pop_front_if(|(stamp, _)| *stamp <= self.passed) {
            Some((_, number)) => number,
            None => {
                self.fresh += 1 << size;
                self.fresh - (1 << size)
            }
        };
        // The size stands where words have the index of a rule.
        let head = Word::new(fate, false, size as u32);
        for (at, word) in
            (number * PROGRAM_UNIT..).zip([head.0].into_iter().chain(steps.iter().copied()))
        {
            let unit = programs.0.reach(at / PROGRAM_UNIT);
            unit[at as usize % unit.len()].store(word, Ordering::Relaxed);
        }
        number
    }

    /// Takes back a program that no word names any more, at this moment; the fate it had.
    pub(crate) fn give_back(&mut self, programs: &Programs, number: u32, stamp: Stamp) -> Fate {
        let head = Word(programs.0.reach(number)[0].load(Ordering::Relaxed));
        self.free[head.rule() as usize].push_back((stamp, number));
        head.fate()
    }

    /// Units of programs that were put somewhere and not given back.
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
    fn a_program_is_read_as_it_was_written() {
        let (programs, mut shelf, mut steps) = (Programs::new(), Shelf::default(), Vec::new());
        let actions = [Action::Mark(u32::MAX), Action::Count, Action::Flag, Action::Queue(3)];
        write_steps(&actions, &mut steps);
        let number = shelf.put(&programs, Fate::Queue(3), &steps);
        let (fate, read) = programs.read(number);
        assert_eq!(fate, Fate::Queue(3));
        assert_eq!(read.collect::<Vec<_>>(), [Step::Mark(u32::MAX), Step::Flag]);
        write_steps(&[Action::Count, Action::Drop], &mut steps);
        assert!(steps.is_empty(), "a word has room for them");
    }

    #[test]
    fn memory_is_used_again_after_a_grace_period_and_for_its_size_alone() {
        let (programs, mut shelf, domain) = (Programs::new(), Shelf::default(), Domain::new());
        let mut worker = domain.reader_slot();
        let put = |shelf: &mut Shelf, len: usize| {
            let steps = vec![op::FLAG; len];
            assert!(shelf.has_room(&steps, &domain));
            shelf.put(&programs, Fate::Drop, &steps)
        };
        let first = put(&mut shelf, 3);
        assert_eq!(shelf.give_back(&programs, first, domain.stamp()), Fate::Drop);
        let second = put(&mut shelf, 3);
        assert_ne!(second, first, "a worker may still read it");
        worker.quiescent();
        assert_eq!(put(&mut shelf, 4), second + 1, "two units, which were never used");
        assert_eq!(put(&mut shelf, 3), first);
        shelf.fresh = PROGRAMS_MAX - 1;
        assert!(shelf.has_room(&[op::END; 3], &domain));
        assert!(!shelf.has_room(&[op::END; 4], &domain));
    }
}
