//! The definition of correct: a program carried out packet by packet, as its text reads.
//!
//! Nothing here is fast. Tables are lists that are looked through from the front, fields are bytes,
//! and each packet goes its whole way before the next one comes. The fast path is compared with
//! this, packet by packet.

mod memory;
mod packet;
mod tables;

use niclab_nic::definition::DefinedMeter;

use crate::entry::{Change, ChangeError, Ports, Rates, Session, colour};
use crate::form::{Instruction, Operand, Program};
use crate::limits::{MIRROR_SESSIONS, MIRROR_SLOTS, MULTICAST_GROUPS, RECIRCULATIONS_MAX};
use crate::outcome::{Copied, Fate, Lost, Outcome};
use crate::turn::turn;
use memory::Memory;
use packet::Packet;
use tables::Tables;

/// A program with all that outlives a packet.
#[derive(Clone, Debug)]
pub struct Definition {
    program: Program,
    tables: Tables,
    registers: Vec<Vec<u64>>,
    meters: Vec<Vec<Option<DefinedMeter>>>,
    sessions: Vec<Option<Session>>,
    groups: Vec<Ports>,
    memory: Memory,
    frame_len_max: usize,
    now_ns: u64,
}

/// What comes after an instruction.
enum Flow {
    Next,
    To(usize),
    Return,
    End(Fate),
}

impl Definition {
    /// A program with empty tables.
    #[must_use]
    pub fn new(program: Program) -> Definition {
        let registers = program.registers.iter().map(|array| vec![array.initial; array.len]);
        let meters = program.meters.iter().map(|array| vec![None; array.len]);
        Definition {
            tables: Tables::new(&program),
            registers: registers.collect(),
            meters: meters.collect(),
            sessions: vec![None; MIRROR_SESSIONS as usize],
            groups: vec![Ports::default(); MULTICAST_GROUPS as usize],
            memory: Memory::new(&program),
            frame_len_max: usize::MAX,
            now_ns: 0,
            program,
        }
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Carries out changes: all of them, or none.
    ///
    /// # Errors
    /// With the first that does not fit the program, else the first that its tables refuse.
    pub fn change(&mut self, changes: &[Change]) -> Result<(), ChangeError> {
        changes.iter().try_for_each(|change| self.program.check(change))?;
        let mut tables = self.tables.clone();
        for change in changes {
            tables.change(&self.program, change)?;
        }
        self.tables = tables;
        Ok(())
    }

    /// Says what time it is, nanoseconds from any moment, for packets to come.
    pub fn set_time_ns(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// What a register has; `None` where there is no such array. The index is taken as a packet's.
    #[must_use]
    pub fn register(&self, array: usize, index: u64) -> Option<u64> {
        let array = self.registers.get(array)?;
        array.get(index as usize & (array.len() - 1)).copied()
    }

    /// Writes a register; the index is taken as a packet's.
    pub fn set_register(&mut self, array: usize, index: u64, value: u64) {
        if let Some(array) = self.registers.get_mut(array) {
            let len = array.len();
            array[index as usize & (len - 1)] = value;
        }
    }

    /// Gives a meter its rates, and full buckets; the index is taken as a packet's.
    pub fn set_meter(&mut self, array: usize, index: u64, rates: Rates) {
        if let Some(array) = self.meters.get_mut(array) {
            let len = array.len();
            array[index as usize & (len - 1)] = Some(DefinedMeter::new(rates.into(), self.now_ns));
        }
    }

    /// Says where copies of a session go.
    pub fn set_session(&mut self, number: usize, session: Session) {
        if let Some(place) = self.sessions.get_mut(number) {
            *place = Some(session);
        }
    }

    /// Says which ports a group has.
    pub fn set_ports(&mut self, group: usize, ports: Ports) {
        if let Some(place) = self.groups.get_mut(group) {
            *place = ports;
        }
    }

    /// Packets and bytes that a counter has; as [`Definition::register`].
    #[must_use]
    pub fn counter(&self, array: usize, index: u64) -> Option<(u64, u64)> {
        self.memory.counter(array, index)
    }

    /// The bytes of a window from an offset on; fewer where it ends before.
    #[must_use]
    pub fn window(&self, window: usize, offset: usize, len: usize) -> &[u8] {
        self.memory.window(window, offset, len)
    }

    /// Writes to a window, as far as it goes.
    pub fn set_window(&mut self, window: usize, offset: usize, bytes: &[u8]) {
        self.memory.set_window(window, offset, bytes);
    }

    /// The next entry of a ring.
    pub fn take(&mut self, rings: usize, index: u64) -> Option<Vec<u8>> {
        self.memory.take(rings, index)
    }

    /// The next record for the control side.
    pub fn digest(&mut self, digest: usize) -> Option<Vec<u8>> {
        self.memory.digest(digest)
    }

    /// Says how long a frame can be with its headers; any length where this is not said.
    pub fn set_frame_len_max(&mut self, len: usize) {
        self.frame_len_max = len;
    }

    /// What happens to a packet that comes by a port.
    pub fn run(&mut self, port: u64, frame: &[u8]) -> Outcome {
        let mut packet = Packet::new(&self.program, port, frame);
        for pass in 0..=RECIRCULATIONS_MAX {
            packet.begin(&self.program, pass);
            let mut fate = self.pass(&mut packet);
            packet.deparse();
            let lost = match packet.frame.len() {
                0 => Some(Lost::Empty),
                len if len > self.frame_len_max => Some(Lost::NoRoom),
                _ => {
                    self.copy(&mut packet);
                    None
                }
            };
            // What ended it before is the reason.
            if let (Some(lost), false) = (lost, matches!(fate, Fate::Dropped(_))) {
                fate = Fate::Dropped(lost);
            }
            if packet.is_handed {
                fate = fate.of_handed();
            }
            if packet.comes_again && !matches!(fate, Fate::Dropped(_)) {
                continue;
            }
            if fate == Fate::Back {
                turn(&mut packet.frame);
            }
            return Outcome { fate, frame: packet.frame, copies: packet.copies };
        }
        let fate = Fate::Dropped(Lost::Rounds);
        Outcome { fate, frame: packet.frame, copies: packet.copies }
    }

    /// Once through the program.
    fn pass(&mut self, packet: &mut Packet) -> Fate {
        let apply = self.program.apply.steps.clone();
        let mut at = 0;
        loop {
            let flow = match &apply[at] {
                Instruction::Rx(to) if packet.pass == 0 => {
                    packet.set(to, packet.port);
                    Flow::Next
                }
                Instruction::Table(table) => self.table(*table, packet),
                step => self.step(step, packet),
            };
            at = match flow {
                Flow::Next => at + 1,
                Flow::To(to) => to,
                Flow::End(fate) => return fate,
                // `apply` has none.
                Flow::Return => return Fate::Dropped(Lost::Told),
            };
        }
    }

    /// Looks into a table, and runs the action.
    fn table(&mut self, table: usize, packet: &mut Packet) -> Flow {
        let found = self.tables.look(&self.program, table, packet, self.now_ns);
        let Some(found) = found else { return Flow::Next };
        packet.arguments = found.arguments;
        packet.last = Some(found.last);
        let code = self.program.actions[found.last.action].code.steps.clone();
        let mut at = 0;
        loop {
            match self.step(&code[at], packet) {
                Flow::Next => at += 1,
                Flow::To(to) => at = to,
                Flow::Return => return Flow::Next,
                Flow::End(fate) => return Flow::End(fate),
            }
        }
    }

    /// Copies for the slots that were filled.
    fn copy(&self, packet: &mut Packet) {
        for session in packet.mirrored.iter().flatten() {
            if let Some(Session { port, len_max }) = self.sessions[*session] {
                let len = packet.frame.len().min(len_max.max(1) as usize);
                packet.copies.push(Copied { port, frame: packet.frame[..len].to_vec() });
            }
        }
    }

    fn index(array_len: usize, index: u64) -> usize {
        index as usize & (array_len - 1)
    }

    /// An instruction that has to do with registers or meters.
    fn array(&mut self, step: &Instruction, packet: &mut Packet) {
        match step {
            Instruction::RegisterRead { to, array, index } => {
                let array = &self.registers[*array];
                let value = array[Self::index(array.len(), packet.value(index))];
                packet.set(to, value);
            }
            Instruction::RegisterWrite { array, index, value } => {
                let array = &mut self.registers[*array];
                let index = Self::index(array.len(), packet.value(index));
                array[index] = packet.value(value);
            }
            Instruction::RegisterAdd { before, array, index, value } => {
                let array = &mut self.registers[*array];
                let (index, value) =
                    (Self::index(array.len(), packet.value(index)), packet.value(value));
                let was = array[index];
                array[index] = was.wrapping_add(value);
                if let Some(before) = before {
                    packet.set(before, was);
                }
            }
            Instruction::Meter { array, index, length, colour: of, to } => {
                let array = &mut self.meters[*array];
                let index = Self::index(array.len(), packet.value(index));
                let (length, before) = (packet.value(length), packet.value(of).min(2));
                let after = array[index].as_mut().map_or(before, |meter| {
                    meter.colour(length, colour(before), self.now_ns) as u64
                });
                packet.set(to, after);
            }
            _ => {}
        }
    }

    fn step(&mut self, step: &Instruction, packet: &mut Packet) -> Flow {
        match step {
            Instruction::Rx(_) | Instruction::Table(_) => {}
            Instruction::Tx(port) => return Flow::End(Fate::Port(packet.value(port))),
            Instruction::Steer(queue) => return Flow::End(Fate::Queue(packet.value(queue))),
            Instruction::Reply => return Flow::End(Fate::Back),
            Instruction::Drop => return Flow::End(Fate::Dropped(Lost::Told)),
            Instruction::Return => return Flow::Return,
            Instruction::Jump(condition, to) => {
                return if packet.is_so(condition) { Flow::To(*to) } else { Flow::Next };
            }
            Instruction::Extract(..) | Instruction::Lookahead(_) => {
                if !packet.extract(&self.program, step) {
                    return Flow::End(Fate::Dropped(Lost::Short));
                }
            }
            Instruction::Mirror { slot, session } => {
                let slot = packet.number(slot) % MIRROR_SLOTS;
                let session = packet.number(session) % MIRROR_SESSIONS;
                packet.mirrored[slot as usize] = Some(session as usize);
            }
            Instruction::Multicast(group) => {
                let group = packet.value(group) % MULTICAST_GROUPS;
                packet.multicast(self.groups[group as usize]);
            }
            Instruction::RegisterRead { .. }
            | Instruction::RegisterWrite { .. }
            | Instruction::RegisterAdd { .. }
            | Instruction::Meter { .. } => self.array(step, packet),
            Instruction::Count { .. }
            | Instruction::DmaWrite { .. }
            | Instruction::DmaWriteAt { .. }
            | Instruction::DmaReadAt { .. }
            | Instruction::Digest(..) => {
                if let Err(lost) = self.memory.step(&self.program, step, packet) {
                    return Flow::End(Fate::Dropped(lost));
                }
            }
            Instruction::Learn { action, arguments, timeout } => {
                let first = arguments.map(|first| first.field);
                let timeout = packet.number(timeout);
                self.tables.learn(&self.program, packet, *action, first, timeout, self.now_ns);
            }
            Instruction::Rearm(timeout) => {
                let timeout = timeout.map(|timeout| packet.number(&timeout));
                self.tables.rearm(&self.program, packet, timeout, self.now_ns);
            }
            Instruction::Forget => self.tables.forget(packet),
            Instruction::Rss(_, to, range) => {
                let hash = crate::rss::hash(&packet.bytes(range));
                packet.set(to, u64::from(hash));
            }
            step => packet.step(&self.program, step),
        }
        Flow::Next
    }
}

impl Packet {
    /// A field, or a number.
    pub(super) fn value(&self, operand: &Operand) -> u64 {
        match operand {
            Operand::Field(place) => self.number(place),
            Operand::Value(value) => *value,
        }
    }
}
