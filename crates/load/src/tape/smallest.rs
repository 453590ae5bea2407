//! The smallest frames: 64 bytes with FCS, UDP over IPv4, for packet rates.
//!
//! Headers and stamp fill such a frame to the last byte, so it is written as eight words: three are
//! the same in all frames, two belong to the flow (with the header checksum, which never changes),
//! three are the transport checksum and the stamp. The bytes are those of
//! [`FlowTape`](super::FlowTape), which a test compares; the generator alone went from 147 to 212
//! Mpps with it (10 k flows, Zen 5).

use niclab_packet::checksum;
use niclab_packet::flow::{FlowSet, IpVersion, Transport};
use niclab_packet::size::{FCS_LEN, FRAME_LEN_MIN, FrameSizes};

use super::Tape;
use super::flows::{FlowSequence, Flows};
use super::generated::{FlowHeader, Template, finish};
use crate::drive::LoadError;
use crate::spec::Load;
use crate::stamp::Stamp;

/// Length without FCS.
const LEN: usize = (FRAME_LEN_MIN - FCS_LEN) as usize;
/// Words of a frame, the last one half used.
const WORDS: usize = 8;
/// Bytes of the words.
const LINE: usize = WORDS * 8;

/// 64-byte frames of UDP over IPv4.
pub struct SmallestTape {
    /// The first three words of every frame.
    constant: [u64; 3],
    flows: Flows<SmallestFlow>,
}

/// A flow's part of a frame.
#[derive(Clone, Copy, Default)]
struct SmallestFlow {
    /// Header checksum, addresses, ports, UDP length.
    words: [[u32; 2]; 2],
    /// Partial sum of all that the UDP checksum covers but the stamp.
    sum: u32,
}

impl SmallestTape {
    /// Whether it can write the frames of a load.
    pub fn fits(load: &Load) -> bool {
        load.sizes == FrameSizes::Fixed(FRAME_LEN_MIN)
            && load.flows.version == IpVersion::V4
            && load.flows.proto == Transport::Udp
    }

    /// A tape of the flows of a load whose frames it can write ([`SmallestTape::fits`]).
    ///
    /// # Errors
    /// Those of building the template.
    pub fn new(set: &FlowSet, picks: FlowSequence) -> Result<SmallestTape, LoadError> {
        let template = Template::new(FRAME_LEN_MIN, IpVersion::V4, Transport::Udp)?;
        let none = Stamp { flow: 0, sequence: 0, planned_ns: 0, late_ns: 0 };
        let mut frame = template.bytes.clone();
        let pair = |tuple| {
            let head = FlowHeader::<12>::new(&tuple);
            finish(&mut frame[..LEN], &template, &head, none);
            let sum = u32::from(template.transport_sum) + u32::from(head.tuple_sum);
            SmallestFlow { words: [3, 4].map(|i| halves(word(&frame, i))), sum }
        };
        let heads = set.tuples().map(pair).collect();
        let constant = std::array::from_fn(|i| word(&template.bytes, i));
        Ok(SmallestTape { constant, flows: Flows::new(heads, picks) })
    }
}

/// Writes the words of a frame.
#[inline]
fn put(line: &mut [u8; LINE], words: [u64; WORDS]) {
    for (bytes, word) in line.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// The halves of a word, which are aligned as a sequence number is: a flow takes 24 bytes so.
fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// The word of these halves.
#[inline]
fn whole([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Word `i` of a frame, in the order of memory.
fn word(frame: &[u8], i: usize) -> u64 {
    let bytes = frame[i * 8..].first_chunk();
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

impl Tape for SmallestTape {
    // Left to itself the compiler calls it in larger programs (the row `generator` of
    // benches/rows: 162 Mpps, inlined 209).
    #[inline(always)]
    fn write(&mut self, slot: &mut [u8], planned_ns: u64, late_ns: u64) -> u16 {
        let next = self.flows.next();
        let (flow, sequence) = (next.flow, next.sequence);
        let stamp = Stamp { flow, sequence, planned_ns, late_ns };
        let checksum =
            u64::from(checksum::finish_udp(u64::from(next.head.sum) + stamp.sum()).to_le());
        let [first, second, third] = stamp.words();
        let [c0, c1, c2] = self.constant;
        let [h0, h1] = next.head.words.map(whole);
        let words = [c0, c1, c2, h0, h1, checksum | first << 16, second, third];
        match slot.first_chunk_mut::<LINE>() {
            Some(line) => put(line, words),
            None => {
                let mut line = [0; LINE];
                put(&mut line, words);
                slot[..LEN].copy_from_slice(&line[..LEN]);
            }
        }
        LEN as u16
    }

    fn skip(&mut self, count: u64) -> u64 {
        count * u64::from(FRAME_LEN_MIN)
    }

    fn flows(&self) -> u32 {
        self.flows.len()
    }
}
