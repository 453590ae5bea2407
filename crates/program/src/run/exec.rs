//! Instructions, and the way of a burst through them.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use niclab_nic::memory::{Desc, Region};

use super::burst::{Burst, NO_ACTION, bits, copy_header, each_of};
use super::packets::{OnePacket, PacketMask, Packets};
use super::plan::{Look, Op, Part, Plan, Source, Summed, When, Wide};
use super::state::{Counts, State};
use super::tables::{Reading, Tables};
use crate::entry::Ports;
use crate::form::{Alu, Order};
use crate::limits::{COPY_LEN_MAX, MIRROR_SESSIONS, MIRROR_SLOTS};
use crate::outcome::{Fate, Lost};

/// What carries a burst through a program.
pub(super) struct Run<'a> {
    pub plan: &'a Plan,
    pub state: &'a State,
    pub counts: &'a Counts,
    pub tables: &'a mut Tables,
    pub reading: Reading<'a>,
    pub burst: &'a mut Burst,
    pub region: &'a Region,
    pub frames: &'a [Desc],
    /// Where the packets came from.
    pub port: u64,
    /// How often these have come round.
    pub pass: u64,
    pub now_ns: u64,
    /// For what is hashed.
    pub scratch: &'a mut Vec<u8>,
    /// Takes the port and the bytes of each copy.
    pub copy: &'a mut dyn FnMut(u32, &[u8]),
}

impl Run<'_> {
    /// Carries out the main part for the packets of a mask.
    pub(super) fn apply(&mut self, packets: u64) {
        let plan = self.plan;
        if let Some(one) = OnePacket::of(packets) {
            self.single(one, 0..plan.apply.ops.len());
            return;
        }
        let (mut active, mut at) = (packets, 0);
        for &(first, last) in &plan.alone {
            active = self.ops(at..first, active);
            active = self.alone(first, last, active);
            at = last + 1;
        }
        self.ops(at..plan.apply.ops.len(), active);
    }

    /// Carries out instructions; the packets that are there behind them.
    fn ops(&mut self, range: std::ops::Range<usize>, mut active: u64) -> u64 {
        let plan = self.plan;
        for op in &plan.apply.ops[range] {
            match op {
                Op::Join(join) => active |= std::mem::take(&mut self.burst.waiting[*join]),
                _ if active == 0 => {}
                Op::Jump(when, join) => {
                    let taken = self.which(when, PacketMask(active));
                    self.burst.waiting[*join] |= taken;
                    active &= !taken;
                }
                Op::Table(table) => {
                    self.table(*table, active);
                    active &= !self.burst.ended;
                }
                op => {
                    self.op(op, PacketMask(active));
                    active &= !self.burst.ended;
                }
            }
        }
        active
    }

    /// Carries out instructions packet by packet; the packets that are there behind them.
    fn alone(&mut self, first: usize, last: usize, active: u64) -> u64 {
        let joins = &self.plan.apply.joins;
        // Joins are in the order of their places.
        let joins =
            joins.partition_point(|at| *at < first)..joins.partition_point(|at| *at <= last);
        let waiting = &self.burst.waiting[joins.clone()];
        let packets = waiting.iter().fold(active, |all, of| all | of);
        let mut through = 0;
        for packet in bits(packets) {
            let has = |join: &usize| self.burst.waiting[*join] >> packet & 1 == 1;
            let begin = joins.clone().find(has).map_or(first, |join| self.plan.apply.joins[join]);
            let is_there = self.single(OnePacket::new(packet), begin..last + 1);
            through |= u64::from(is_there) << packet;
        }
        self.burst.waiting[joins].fill(0);
        through
    }

    /// Looks into a table and runs the actions.
    fn table(&mut self, table: usize, active: u64) {
        let plan = self.plan;
        if let Look::Selector { .. } = &plan.tables[table] {
            return bits(active).for_each(|packet| self.select(table, packet));
        }
        self.tables.look(table, PacketMask(active), self.burst, plan, self.now_ns, &self.reading);
        let mut left = active;
        while left != 0 {
            let action = self.burst.ran[left.trailing_zeros() as usize];
            let mut same = 0;
            for (i, ran) in self.burst.ran.iter().enumerate() {
                same |= u64::from(*ran == action) << i;
            }
            same &= left;
            left &= !same;
            if action != NO_ACTION {
                self.action(table, usize::from(action), same);
            }
        }
    }

    /// Has a selector pick a member for a packet.
    pub(super) fn select(&mut self, table: usize, packet: usize) {
        let plan = self.plan;
        let Look::Selector { group, key, member } = &plan.tables[table] else { return };
        self.burst.gather(key, plan, packet, self.scratch);
        let group = self.burst.one(*group, packet);
        let picked = self.tables.pick(table, group, self.scratch, &self.reading);
        self.burst.set(*member, packet, u64::from(picked));
    }

    fn action(&mut self, table: usize, action: usize, packets: u64) {
        let plan = self.plan;
        let mut active = packets;
        for op in &plan.actions[action].ops {
            match op {
                Op::Join(join) => active |= std::mem::take(&mut self.burst.action_waiting[*join]),
                _ if active == 0 => {}
                Op::Jump(when, join) => {
                    let taken = self.which(when, PacketMask(active));
                    self.burst.action_waiting[*join] |= taken;
                    active &= !taken;
                }
                Op::Return => active = 0,
                Op::Learn { .. } | Op::Rearm(_) | Op::Forget => {
                    bits(active).for_each(|packet| self.learner(table, op, packet));
                }
                op => {
                    self.op(op, PacketMask(active));
                    active &= !self.burst.ended;
                }
            }
        }
    }

    /// An instruction of an action that changes the learner which runs it.
    pub(super) fn learner(&mut self, table: usize, op: &Op, packet: usize) {
        let (burst, now_ns) = (&*self.burst, self.now_ns);
        match op {
            Op::Learn { action, arguments, timeout } => {
                let timeout = burst.one(*timeout, packet);
                self.tables.learn(table, packet, *action, arguments, timeout, now_ns, burst);
            }
            Op::Rearm(timeout) => {
                let timeout = timeout.map(|timeout| burst.one(timeout, packet));
                self.tables.rearm(table, packet, timeout, now_ns);
            }
            Op::Forget => self.tables.forget(table, packet),
            _ => {}
        }
    }

    /// Which packets a jump takes.
    #[inline]
    pub(super) fn which<P: Packets>(&self, when: &When, packets: P) -> u64 {
        let ran = |action: usize| {
            let mut mask = 0;
            let is_it = |i: usize| usize::from(self.burst.ran[i]) == action;
            packets.each(|i| mask |= u64::from(is_it(i)) << i);
            mask
        };
        packets.mask()
            & match when {
                When::Always => u64::MAX,
                When::Valid(header) => self.burst.valid[*header],
                When::Invalid(header) => !self.burst.valid[*header],
                When::Hit => self.burst.hit,
                When::Miss => !self.burst.hit,
                When::Ran(action) => ran(*action),
                When::RanOther(action) => !ran(*action),
                When::Compare(order, a, b) => {
                    let (a, b) = (packets.load(self.burst, *a), packets.load(self.burst, *b));
                    match order {
                        Order::Equal => packets.compare(&a, &b, |a, b| a == b),
                        Order::Different => packets.compare(&a, &b, |a, b| a != b),
                        Order::Less => packets.compare(&a, &b, |a, b| a < b),
                        Order::Greater => packets.compare(&a, &b, |a, b| a > b),
                    }
                }
            }
    }

    /// Ends the way of packets.
    pub(super) fn end(&mut self, packets: u64, fate: impl Fn(usize) -> Fate) {
        each_of(packets, |i| self.burst.fates[i] = fate(i));
        self.burst.ended |= packets;
    }

    /// An instruction of the main part or of an action.
    #[inline]
    pub(super) fn op<P: Packets>(&mut self, op: &Op, packets: P) {
        let active = packets.mask();
        match op {
            Op::Move(to, from) => {
                let numbers = packets.load(self.burst, *from);
                packets.save(self.burst, *to, &numbers);
            }
            Op::Alu(alu, to, from) => {
                let source = match *to {
                    super::plan::Target::Lane(lane, _) => Source::Lane(lane),
                    super::plan::Target::Bytes { at, len } => Source::Bytes { at, len },
                };
                let (a, b) = (packets.load(self.burst, source), packets.load(self.burst, *from));
                packets.save(self.burst, *to, &calculate::<P>(*alu, &a, &b));
            }
            Op::Extract { .. } | Op::Lookahead(_) => self.extract(op, packets),
            Op::Emit(header) => {
                let emitting = active & self.burst.valid[*header];
                match self.burst.emits.last_mut() {
                    // As when packets come one by one.
                    Some((last, of)) if last == header && *of & emitting == 0 => *of |= emitting,
                    _ => self.burst.emits.push((*header, emitting)),
                }
            }
            Op::Validate(header) => self.burst.valid[*header] |= active,
            Op::Invalidate(header) => self.burst.valid[*header] &= !active,
            Op::Rx(to) if self.pass == 0 => {
                let ports = packets.load(self.burst, Source::Value(self.port));
                packets.save(self.burst, *to, &ports);
            }
            Op::Rx(_) => {}
            Op::Tx(port) => {
                let ports = packets.load(self.burst, *port);
                self.end(active, |i| Fate::Port(P::number(&ports, i)));
            }
            Op::Steer(queue) => {
                let queues = packets.load(self.burst, *queue);
                self.end(active, |i| Fate::Queue(P::number(&queues, i)));
            }
            Op::Reply => {
                self.burst.replied |= active;
                self.end(active, |_| Fate::Back);
            }
            Op::Drop => self.end(active, |_| Fate::Dropped(Lost::Told)),
            Op::MoveWide(to, from) => {
                packets.each(|i| self.burst.copy(*to, *from, i));
            }
            Op::Set { at, len, value } => {
                packets.each(|i| self.burst.set_wide(*at, *len, i, *value));
            }
            Op::Fill { header, parts } => {
                packets.each(|i| self.fill(parts, i));
                self.burst.valid[*header] |= active;
            }
            Op::ChecksumAdd { at, summand } => {
                self.checksum(*at, *summand, packets, false);
            }
            Op::ChecksumSub { at, summand } => {
                self.checksum(*at, *summand, packets, true);
            }
            op => self.rare(op, active),
        }
    }

    fn rare(&mut self, op: &Op, active: u64) {
        match op {
            Op::Mirror { slot, session } => {
                for i in bits(active) {
                    let slot = self.burst.one(*slot, i) % MIRROR_SLOTS;
                    let session = self.burst.one(*session, i) % MIRROR_SESSIONS;
                    self.burst.sessions[i][slot as usize] = session as u8 + 1;
                }
                self.burst.mirrored |= active;
            }
            Op::Multicast(group) => {
                for i in bits(active) {
                    let group = self.burst.one(*group, i);
                    self.multicast(group, i);
                }
            }
            Op::Recirculate => self.burst.again |= active,
            Op::RecircId(to) => {
                bits(active).for_each(|i| self.burst.set(*to, i, self.pass));
            }
            Op::EntryId(to) => {
                bits(active).for_each(|i| self.burst.set(*to, i, self.burst.entry[i]));
            }
            Op::RegisterRead { .. }
            | Op::RegisterWrite { .. }
            | Op::RegisterAdd { .. }
            | Op::Meter { .. } => self.array(op, active),
            Op::Length(to) => {
                let frames = self.frames;
                bits(active).for_each(|i| self.burst.set(*to, i, u64::from(frames[i].len())));
            }
            Op::Count { array, index } => {
                for i in bits(active) {
                    let bytes = u64::from(self.frames[i].len());
                    self.counts.count(*array, self.burst.one(*index, i), bytes);
                }
            }
            Op::DmaWrite { .. } | Op::DmaWriteAt { .. } | Op::DmaReadAt { .. } | Op::Digest(..) => {
                self.memory(op, active)
            }
            Op::Hash(hash, to, of) => {
                for i in bits(active) {
                    self.burst.gather(of, self.plan, i, self.scratch);
                    let value = hash.of(self.scratch);
                    self.burst.set(*to, i, value);
                }
            }
            Op::Rss(to, of) => {
                for i in bits(active) {
                    self.burst.gather(of, self.plan, i, self.scratch);
                    let value = crate::rss::hash(self.scratch);
                    self.burst.set(*to, i, u64::from(value));
                }
            }
            // The callers' own.
            _ => {}
        }
    }

    /// Has copies of a packet as it is now leave by the ports of a group but its own.
    fn multicast(&mut self, group: u64, packet: usize) {
        let ports = self.state.ports(group).without(self.port);
        if ports == Ports::default() {
            return;
        }
        let frame = self.region.frame(&self.frames[packet]);
        let rest = frame.get(usize::from(self.burst.cursor[packet])..).unwrap_or_default();
        self.scratch.clear();
        for at in 0..self.burst.emits.len() {
            let (header, of) = self.burst.emits[at];
            if of >> packet & 1 == 1 && self.scratch.len() <= COPY_LEN_MAX {
                let part = Part::Rest { header, from: 0 };
                self.burst.append(part, self.plan, packet, self.scratch);
            }
        }
        if (1..=COPY_LEN_MAX).contains(&(self.scratch.len() + rest.len())) {
            self.scratch.extend_from_slice(rest);
            ports.each().for_each(|port| (self.copy)(port, self.scratch));
        }
    }

    /// An instruction that has to do with registers or meters.
    fn array(&mut self, op: &Op, active: u64) {
        match op {
            Op::RegisterRead { to, array, index } => {
                let array = &self.state.registers[*array];
                for i in bits(active) {
                    let value = array.read(self.burst.one(*index, i));
                    self.burst.set(*to, i, value);
                }
            }
            Op::RegisterWrite { array, index, value } => {
                let array = &self.state.registers[*array];
                for i in bits(active) {
                    array.write(self.burst.one(*index, i), self.burst.one(*value, i));
                }
            }
            Op::RegisterAdd { before, array, index, value } => {
                let array = &self.state.registers[*array];
                for i in bits(active) {
                    let was = array.add(self.burst.one(*index, i), self.burst.one(*value, i));
                    if let Some(before) = before {
                        self.burst.set(*before, i, was);
                    }
                }
            }
            Op::Meter { array, index, length, colour, to } => {
                let array = &self.state.meters[*array];
                for i in bits(active) {
                    let (index, length) = (self.burst.one(*index, i), self.burst.one(*length, i));
                    let colour = self.burst.one(*colour, i).min(2);
                    let after = array.colour(index, length, colour, self.now_ns);
                    self.burst.set(*to, i, after);
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn extract<P: Packets>(&mut self, op: &Op, packets: P) {
        let (header, more, is_taken) = match op {
            Op::Extract { header, more } => (*header, *more, true),
            Op::Lookahead(header) => (*header, None, false),
            _ => return,
        };
        let head = self.plan.headers[header];
        let mut short = 0;
        packets.each(|i| {
            let more = more.map_or(0, |more| self.burst.one(more, i));
            let len = head.len.saturating_add(more as usize);
            let cursor = usize::from(self.burst.cursor[i]);
            let bytes = self.region.frame(&self.frames[i]).get(cursor..);
            let bytes = bytes.and_then(|rest| rest.get(..len)).filter(|_| len <= head.len_max);
            let Some(bytes) = bytes else {
                short |= 1 << i;
                return;
            };
            let at = head.at;
            copy_header(&mut self.burst.store_of(i)[at..at + len], bytes);
            if head.len != head.len_max {
                self.burst.lens[header][i] = len as u16;
            }
            if is_taken {
                self.burst.cursor[i] = (cursor + len) as u16;
            }
        });
        self.burst.valid[header] |= packets.mask() & !short;
        if short != 0 {
            self.end(short, |_| Fate::Dropped(Lost::Short));
        }
    }

    fn fill(&mut self, parts: &[(Wide, usize, usize)], packet: usize) {
        for &(from, to, len) in parts {
            match from {
                Wide::Lane { lane, len: of } => {
                    let bytes = self.burst.lanes[lane][packet].to_be_bytes();
                    let bytes = &bytes[8 - of..][..len];
                    copy_header(&mut self.burst.store_of(packet)[to..to + len], bytes);
                }
                Wide::Bytes { at, .. } => {
                    self.burst.store_of(packet).copy_within(at..at + len, to);
                }
            }
        }
    }

    /// As the definition's `checksum`.
    #[inline]
    fn checksum<P: Packets>(&mut self, at: usize, summand: Summed, packets: P, take: bool) {
        if let Summed::Bytes { at: from, len: len @ ..=8 } = summand {
            let numbers = packets.load(self.burst, Source::Bytes { at: from, len });
            let count = len.div_ceil(2) as u64;
            return packets.each(|i| {
                let number = P::number(&numbers, i);
                // The last of an odd number of bytes has a zero behind it.
                let number = if len % 2 == 1 { number << 8 } else { number };
                let word = |shift: u32| number >> shift & 0xffff;
                let sum = word(0) + word(16) + word(32) + word(48);
                add(self.burst.store_of(i), at, if take { 0xffff * count - sum } else { sum });
            });
        }
        packets.each(|i| {
            let (from, len) = match summand {
                Summed::Bytes { at, len } => (at, len),
                Summed::Header(header) => {
                    let len = self.burst.header_len(self.plan, header, i);
                    (self.plan.headers[header].at, len)
                }
            };
            let store = self.burst.store_of(i);
            let pairs = store[from..from + len].chunks_exact(2);
            let odd = pairs.remainder().first().map_or(0, |byte| u64::from(*byte) << 8);
            let words = pairs.map(|pair| u64::from(pair[0]) << 8 | u64::from(pair[1]));
            let sum = words.sum::<u64>() + odd;
            let count = len.div_ceil(2) as u64;
            add(store, at, if take { 0xffff * count - sum } else { sum });
        });
    }
}

/// Adds to the checksum at a place of a store.
#[inline(always)]
fn add(store: &mut [u8], at: usize, sum: u64) {
    let Some(field) = store.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<2>()) else {
        return;
    };
    let mut all = u64::from(!u16::from_be_bytes(*field)) + sum;
    while all > 0xffff {
        all = (all & 0xffff) + (all >> 16);
    }
    let checksum = !(all as u16);
    *field = if checksum == 0 { 0xffff_u16 } else { checksum }.to_be_bytes();
}

#[inline(always)]
fn calculate<P: Packets>(alu: Alu, a: &P::Numbers, b: &P::Numbers) -> P::Numbers {
    match alu {
        Alu::Add => P::calculate(a, b, u64::wrapping_add),
        Alu::Sub => P::calculate(a, b, u64::wrapping_sub),
        Alu::And => P::calculate(a, b, |a, b| a & b),
        Alu::Or => P::calculate(a, b, |a, b| a | b),
        Alu::Xor => P::calculate(a, b, |a, b| a ^ b),
        Alu::Shl => P::calculate(a, b, |a, b| if b < 64 { a << b } else { 0 }),
        Alu::Shr => P::calculate(a, b, |a, b| if b < 64 { a >> b } else { 0 }),
    }
}

impl super::state::Registers {
    /// What a register has. An application may hand memory over by a register: what it did before
    /// it wrote it was done before what a packet does that has read it, and the other way round.
    #[inline]
    pub(super) fn read(&self, index: u64) -> u64 {
        self.at(index).map_or(0, |word| word.load(Acquire)).wrapping_add(self.initial)
    }

    /// Writes a register.
    #[inline]
    pub(super) fn write(&self, index: u64, value: u64) {
        if let Some(word) = self.at(index) {
            word.store(value.wrapping_sub(self.initial), Release);
        }
    }

    /// Adds to a register, and says what it had: no addition of another core is lost.
    #[inline]
    pub(super) fn add(&self, index: u64, value: u64) -> u64 {
        let was = self.at(index).map_or(0, |word| word.fetch_add(value, AcqRel));
        was.wrapping_add(self.initial)
    }
}
