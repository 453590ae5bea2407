//! Packets in memory that pass a program, and their observation.

use serde::{Deserialize, Serialize};

use crate::cases::Loaded;

/// Packets in memory that go through a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processing {
    /// The program, its tables and its packets.
    pub program: Loaded,
    /// Time that is measured, of the program alone, nanoseconds.
    pub duration_ns: u64,
    /// Time before it, never counted.
    pub warmup_ns: u64,
}

/// The observation of [`Task::Program`](crate::Task::Program).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramObservation {
    /// Packets of a pass: each goes through once, as it was before the first pass.
    pub packets: u64,
    /// Packets that did not leave in the first pass.
    pub lost: u64,
    /// Their bytes with FCS, before the program.
    pub bytes: u64,
    /// Packets of a stretch: a pass is timed stretch by stretch, for a machine that takes the core
    /// away for a moment spoils a stretch, and not a pass.
    pub stretch: u64,
    /// The time of each stretch, nanoseconds.
    pub stretches_ns: Vec<u64>,
    /// A digest of the first packets of a fresh program. Two devices have the same digest if they
    /// send the same bytes by the same ports.
    pub digest: String,
    /// The worst-case cost of a packet in one pass of the program, computed from its text.
    pub worst: WorstCase,
}

/// The worst-case cost of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorstCase {
    /// Instructions.
    pub instructions: u64,
    /// Look-ups in tables.
    pub lookups: u64,
    /// Bits of the keys that are looked up.
    pub key_bits: u64,
    /// Reads and writes of registers, and questions to meters.
    pub array_accesses: u64,
    /// Bytes of headers that are taken off, and put on.
    pub header_bytes: u64,
}
