//! What an instruction weighs: one, and more where it goes through many bytes or fields.
//!
//! Weights are multiples of what an instruction takes that has to do with a few numbers
//! ([`STEP_NS`]).

use crate::cost::Worst;
use crate::form::{Hash, Instruction, Kind, Listed, Owner, Range, Struct, Summand};
use crate::limits::MULTICAST_PORTS;

/// What an instruction takes at most, nanoseconds, that has to do with a few numbers which are
/// near, on the machines where this was measured: what work is counted in.
pub const STEP_NS: u64 = 5;

/// Bytes that weigh together.
const LINE: usize = 64;

/// What such bytes weigh more that are copied.
const COPY: usize = 1;
/// That are summed up for a checksum.
const SUM: usize = 2;
/// That are put together and then moved to an application's memory, or from there.
const DMA: usize = 2;

/// That are hashed.
fn of_hash(hash: Hash) -> usize {
    match hash {
        Hash::Identity => COPY,
        Hash::Crc32c => COPY + 6,
        Hash::Jhash => COPY + 10,
        // Byte by byte, each from the one before.
        Hash::Crc16 | Hash::Crc32 => COPY + 25,
    }
}

/// The same by Toeplitz.
const TOEPLITZ: usize = COPY + 6;

/// What so many bytes weigh more than none.
fn bytes(len: usize, each: usize) -> u64 {
    (len / LINE * each + len % LINE * each / LINE) as u64
}

/// Fields beyond the first: each is looked at by itself.
fn more(fields: usize) -> u64 {
    fields.saturating_sub(1) as u64
}

/// Reading an entry's arguments.
pub(crate) fn arguments(of: &Struct) -> u64 {
    more(of.fields.len()) + bytes(of.len, COPY)
}

/// Putting a key together.
pub(crate) fn key(kind: &Kind) -> u64 {
    match kind {
        Kind::Match { key, .. } => more(key.len()),
        Kind::Learner { key, .. } => more(key.len()),
        Kind::Selector { key, .. } => {
            let len = key.iter().map(|place| place.len_bytes()).sum();
            more(key.len()) + bytes(len, of_hash(Hash::Crc32c))
        }
    }
}

/// Fields that are hashed: those of a header are bytes side by side.
fn hashed(range: &Range, each: usize) -> u64 {
    let fields = match range.first.owner {
        Owner::Header(_) => 1,
        Owner::Metadata | Owner::Arguments => range.last.field - range.first.field + 1,
    };
    more(fields) + bytes(range.len_bytes(), each)
}

impl Worst<'_> {
    /// What an instruction weighs; that of a table without the look-up.
    pub(crate) fn weight(self, step: &Instruction) -> u64 {
        let program = self.program;
        let header = |header: usize, each: usize| bytes(program.header_type(header).len, each);
        let dma = |list: &[Listed]| more(list.len()) + bytes(self.dma_bytes(step), DMA);
        1 + match step {
            // All of a packet begins as zeros.
            Instruction::Rx(_) => {
                let headers = (0..program.headers.len()).map(|of| header(of, COPY));
                headers.sum::<u64>() + bytes(program.metadata_type().len, COPY)
            }
            Instruction::Extract(of, _) | Instruction::Lookahead(of) | Instruction::Emit(of) => {
                header(*of, COPY)
            }
            // A copy is made when the packet leaves.
            Instruction::Mirror { .. } => bytes(self.site.frame_len, COPY),
            Instruction::Multicast(_) => {
                let ports = self.site.ports.min(MULTICAST_PORTS);
                ports * (1 + bytes(self.site.frame_len, COPY))
            }
            Instruction::Move(to, _) => bytes(to.len_bytes(), COPY),
            // An argument may be a byte.
            Instruction::Fill(of, _) => more(program.header_type(*of).len),
            Instruction::ChecksumAdd(_, Summand::Header(of)) => header(*of, SUM),
            Instruction::Hash(hash, _, range) => hashed(range, of_hash(*hash)),
            Instruction::Rss(_, _, range) => hashed(range, TOEPLITZ),
            Instruction::Digest(digest, _) => {
                arguments(&program.structs[program.digests[*digest].of])
            }
            Instruction::Learn { action, .. } => {
                let of = program.actions[*action].arguments.map(|of| &program.structs[of]);
                of.map_or(0, arguments)
            }
            Instruction::DmaWrite { what, .. } | Instruction::DmaWriteAt { what, .. } => dma(what),
            Instruction::DmaReadAt { into, .. } => dma(into),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Site;
    use crate::form::Program;

    /// What the instructions of a main part weigh behind `rx`, in frames of 1,600 bytes, on a card
    /// with three ports.
    fn weights(body: &str) -> Vec<u64> {
        let text = format!(
            "struct tag_t {{\n bit<16> a\n bit<16> b\n}}\nheader tag instanceof tag_t\n\
             struct large_t {{\n bit<16> a\n bit<25600> b\n}}\nheader large instanceof large_t\n\
             struct m_t {{\n bit<32> a\n bit<32> b\n bit<32> c\n}}\nmetadata instanceof m_t\n\
             digest d size 2 instanceof m_t\nrss r\nwindow w size 100000\n\
             ring q count 1 size 2 entry 6400\n\
             apply {{\nrx m.a\n{body}\ndrop\n}}\n"
        );
        let program = Program::read(&text).unwrap_or_else(|error| panic!("{error}"));
        let steps = &program.apply.steps;
        let worst = Worst { program: &program, site: Site { frame_len: 1_600, ports: 3 } };
        steps[1..steps.len() - 1].iter().map(|step| worst.weight(step)).collect()
    }

    #[test]
    fn what_has_to_do_with_a_few_numbers_weighs_one() {
        let body = "extract h.tag\nmov m.a 1\nhash identity m.a h.tag.a h.tag.b\n\
                    ckadd h.tag.a h.tag\nemit h.tag\nadd m.a m.b\nckadd h.tag.a h.tag.b\n\
                    dma_write_at w 0 m.a";
        assert_eq!(weights(body), [1; 8]);
    }

    #[test]
    fn what_goes_through_bytes_weighs_by_them_and_by_how() {
        // 3,202 bytes are 50 lines.
        let body = "extract h.large\nemit h.large\nlookahead h.large\nmov h.large.b m.a\n\
                    ckadd h.tag.a h.large\nhash crc32 m.a h.large.a h.large.b\n\
                    hash crc16 m.a h.large.a h.large.b\nrss r m.a h.large.a h.large.b";
        assert_eq!(weights(body), [51, 51, 51, 51, 101, 351, 1_301, 351]);
        // An entry is written to its end, and so much payload as a frame can have, 25 lines.
        let body = "dma_write q 0 m.a\ndma_write_at w 0 h.large payload m.a\n\
                    dma_read_at w 0 h.large m.a\nmirror m.a m.b\n\
                    dma_write_at w 0 payload m.a payload m.b payload 640\nmulticast 1";
        assert_eq!(weights(body), [201, 2 + 2 * 75, 2 + 2 * 50, 26, 3 + 2 * 60, 1 + 3 * 26]);
    }

    #[test]
    fn fields_that_are_looked_at_one_by_one_weigh_one_each() {
        let body = "hash identity m.a m.a m.c\ndigest d m.a\ndma_write_at w 0 m.a m.b m.c h.tag";
        assert_eq!(weights(body), [3, 3, 4]);
    }
}
