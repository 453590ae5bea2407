//! What a packet costs at worst, told before the first one comes.
//!
//! Each figure is the largest over all paths through the program, by itself: the path with most
//! look-ups need not be the one with most instructions. A packet that comes round again costs it
//! all again.

use std::fmt;

use crate::form::{Action, Code, Instruction, Kind, Listed, Operand, Program, Table};
use crate::limits::{DMA_LEN_MAX, MULTICAST_PORTS, RECIRCULATIONS_MAX, WORK_FRAME_LEN};
use crate::weight;

/// A packet's cost at worst, once through the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Instructions.
    pub instructions: u64,
    /// The same, each weighed by the bytes and fields that it goes through: one is what an
    /// instruction takes that has to do with a few numbers.
    pub work: u64,
    /// Look-ups in tables, learners and selectors.
    pub lookups: u64,
    /// Bits of the keys that are looked up.
    pub key_bits: u64,
    /// Bits of the entries that are read: the arguments of their actions.
    pub entry_bits: u64,
    /// Reads and writes of registers, questions to meters, and counts.
    pub array_accesses: u64,
    /// Bytes that are hashed, by instructions and selectors.
    pub hashed_bytes: u64,
    /// Bytes of headers that are taken off.
    pub extracted_bytes: u64,
    /// Headers that are put before the rest.
    pub emitted_headers: u64,
    /// Their bytes.
    pub emitted_bytes: u64,
    /// Transactions of DMA with an application's memory.
    pub dma_transactions: u64,
    /// Bytes of them.
    pub dma_bytes: u64,
}

/// Where a program runs, as far as the work of a packet hangs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Bytes of a frame, at most.
    pub frame_len: usize,
    /// Ports.
    pub ports: u64,
}

impl Site {
    /// What limits are reckoned with.
    pub const LARGE: Site = Site { frame_len: WORK_FRAME_LEN, ports: MULTICAST_PORTS };
}

impl Cost {
    fn each(self, other: Cost, of: impl Fn(u64, u64) -> u64) -> Cost {
        Cost {
            instructions: of(self.instructions, other.instructions),
            work: of(self.work, other.work),
            lookups: of(self.lookups, other.lookups),
            key_bits: of(self.key_bits, other.key_bits),
            entry_bits: of(self.entry_bits, other.entry_bits),
            array_accesses: of(self.array_accesses, other.array_accesses),
            hashed_bytes: of(self.hashed_bytes, other.hashed_bytes),
            extracted_bytes: of(self.extracted_bytes, other.extracted_bytes),
            emitted_headers: of(self.emitted_headers, other.emitted_headers),
            emitted_bytes: of(self.emitted_bytes, other.emitted_bytes),
            dma_transactions: of(self.dma_transactions, other.dma_transactions),
            dma_bytes: of(self.dma_bytes, other.dma_bytes),
        }
    }

    fn and(self, other: Cost) -> Cost {
        self.each(other, u64::saturating_add)
    }

    fn or(self, other: Cost) -> Cost {
        self.each(other, u64::max)
    }
}

impl Program {
    /// What a packet costs at worst.
    #[must_use]
    pub fn cost(&self) -> Cost {
        Worst { program: self, site: Site::LARGE }.cost()
    }

    /// The work of a packet at worst, however often it comes round.
    #[must_use]
    pub fn worst_work(&self, site: Site) -> u64 {
        let codes = self.actions.iter().map(|action| &action.code).chain([&self.apply]);
        let comes_again =
            codes.flat_map(|code| &code.steps).any(|of| *of == Instruction::Recirculate);
        let rounds = if comes_again { u64::from(RECIRCULATIONS_MAX) + 1 } else { 1 };
        Worst { program: self, site }.cost().work.saturating_mul(rounds)
    }
}

/// A program, and where.
#[derive(Clone, Copy)]
pub(crate) struct Worst<'a> {
    pub program: &'a Program,
    pub site: Site,
}

impl Worst<'_> {
    fn cost(self) -> Cost {
        let program = self.program;
        // Each action and each table once, however often the program leads there.
        let actions: Vec<Cost> = program.actions.iter().map(|of| self.action(of)).collect();
        let tables: Vec<Cost> = program.tables.iter().map(|of| self.table(of, &actions)).collect();
        self.path(&program.apply, &tables)
    }

    fn action(self, action: &Action) -> Cost {
        let arguments = action.arguments.map(|of| &self.program.structs[of]);
        let own = arguments.map_or(Cost::default(), |of| Cost {
            entry_bits: 8 * of.len as u64,
            work: weight::arguments(of),
            ..Cost::default()
        });
        self.path(&action.code, &[]).and(own)
    }

    /// The worst path through a code: jumps lead forward, so from its end.
    fn path(self, code: &Code, tables: &[Cost]) -> Cost {
        let mut from = vec![Cost::default(); code.steps.len() + 1];
        for (at, step) in code.steps.iter().enumerate().rev() {
            let behind = match step {
                Instruction::Tx(_)
                | Instruction::Steer(_)
                | Instruction::Reply
                | Instruction::Drop
                | Instruction::Return => Cost::default(),
                Instruction::Jump(crate::form::Condition::Always, to) => from[*to],
                Instruction::Jump(_, to) => from[*to].or(from[at + 1]),
                _ => from[at + 1],
            };
            from[at] = self.step(step, tables).and(behind);
        }
        from[0]
    }

    fn step(self, step: &Instruction, tables: &[Cost]) -> Cost {
        let program = self.program;
        let one = Cost { instructions: 1, work: self.weight(step), ..Cost::default() };
        let len = |header: &usize| program.header_type(*header).len as u64;
        match step {
            Instruction::Extract(header, _) | Instruction::Lookahead(header) => {
                Cost { extracted_bytes: len(header), ..one }
            }
            Instruction::Emit(header) => {
                Cost { emitted_headers: 1, emitted_bytes: len(header), ..one }
            }
            Instruction::RegisterRead { .. }
            | Instruction::RegisterWrite { .. }
            | Instruction::RegisterAdd { .. }
            | Instruction::Count { .. }
            | Instruction::Meter { .. } => Cost { array_accesses: 1, ..one },
            Instruction::Hash(_, _, range) | Instruction::Rss(_, _, range) => {
                Cost { hashed_bytes: range.len_bytes() as u64, ..one }
            }
            Instruction::DmaWrite { .. }
            | Instruction::DmaWriteAt { .. }
            | Instruction::DmaReadAt { .. } => {
                Cost { dma_transactions: 1, dma_bytes: self.dma_bytes(step) as u64, ..one }
            }
            // In the main part alone.
            Instruction::Table(table) => tables.get(*table).copied().unwrap_or_default().and(one),
            _ => one,
        }
    }

    /// Bytes that an instruction moves between a packet and the application's memory, at most.
    pub(crate) fn dma_bytes(self, step: &Instruction) -> usize {
        let program = self.program;
        match step {
            // What is left of an entry is written, too.
            Instruction::DmaWrite { rings, .. } => program.rings[*rings].shape.entry_len,
            Instruction::DmaWriteAt { window, what, .. } => {
                let payload = |of: &Listed| match of {
                    Listed::Payload(Operand::Value(len)) => self.site.frame_len.min(*len as usize),
                    Listed::Payload(Operand::Field(_)) => self.site.frame_len,
                    Listed::Field(_) | Listed::Header(_) => 0,
                };
                let bytes = program.listed_bytes(what) + what.iter().map(payload).sum::<usize>();
                bytes.min(program.windows[*window].len).min(DMA_LEN_MAX)
            }
            Instruction::DmaReadAt { into, .. } => program.listed_bytes(into),
            _ => 0,
        }
    }

    /// What looking into a table costs, with the worst of its actions.
    fn table(self, table: &Table, actions: &[Cost]) -> Cost {
        let (bits, hashed) = match &table.kind {
            Kind::Match { key, .. } => (key.iter().map(|(place, _)| place.bits).sum::<u32>(), 0),
            Kind::Learner { key, .. } => (key.iter().map(|place| place.bits).sum(), 0),
            Kind::Selector { group, key, .. } => {
                (group.bits, key.iter().map(|place| place.bits / 8).sum())
            }
        };
        let own = Cost {
            lookups: u64::from(bits > 0),
            key_bits: u64::from(bits),
            hashed_bytes: u64::from(hashed),
            work: weight::key(&table.kind),
            ..Cost::default()
        };
        let of = table.kind.actions().into_iter().flat_map(|actions| &actions.of);
        own.and(of.fold(Cost::default(), |worst, (action, _)| worst.or(actions[*action])))
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [
            ("instructions", self.instructions),
            ("their work", self.work),
            ("table look-ups", self.lookups),
            ("key bits", self.key_bits),
            ("entry bits", self.entry_bits),
            ("register and meter accesses", self.array_accesses),
            ("bytes hashed", self.hashed_bytes),
            ("bytes of headers taken off", self.extracted_bytes),
            ("headers put on", self.emitted_headers),
            ("bytes of headers put on", self.emitted_bytes),
            ("DMA transactions", self.dma_transactions),
            ("DMA bytes", self.dma_bytes),
        ];
        for (at, (name, value)) in lines.iter().enumerate() {
            let end = if at + 1 < lines.len() { "\n" } else { "" };
            write!(f, "  {name:<28}{value:>8}{end}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_all_paths_is_reported_figure_by_figure() {
        let program = Program::read(
            "struct h_t {
                bit<16> a
                bit<48> b
            }
            header h instanceof h_t
            struct m_t {
                bit<32> port
                bit<16> a
            }
            metadata instanceof m_t
            regarray r size 1 initval 0
            struct wide_t {
                bit<128> w
            }
            action wide args instanceof wide_t {
                return
            }
            action long args none {
                regadd r 0 1
                regadd r 0 1
                return
            }
            table t {
                key {
                    h.h.a exact
                    m.a exact
                }
                actions {
                    wide
                    long
                }
                default_action long args none
            }
            apply {
                rx m.port
                jmpeq SHORT m.port 1
                extract h.h
                table t
                emit h.h
                tx m.port
                SHORT : hash crc32 m.a m.port m.a
                hash crc32 m.a m.port m.a
                hash crc32 m.a m.port m.a
                drop
            }",
        )
        .unwrap();
        let expected = Cost {
            // rx, jump, extract, table and three of its action, emit, tx.
            instructions: 9,
            // One more for the second field of the key.
            work: 10,
            lookups: 1,
            key_bits: 32,
            entry_bits: 128,
            array_accesses: 2,
            hashed_bytes: 18,
            extracted_bytes: 8,
            emitted_headers: 1,
            emitted_bytes: 8,
            dma_transactions: 0,
            dma_bytes: 0,
        };
        assert_eq!(program.cost(), expected);
    }
}
