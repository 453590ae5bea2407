//! Code shared by all devices that run packets through a program.

use niclab_program::Program;

use crate::cases::{Case, CaseError, PACKETS, Prepared};
use crate::cores;
use crate::face::{DeviceError, PathNode, ProgramObservation, WorstCase};

/// Packets of a stretch that is timed.
pub const STRETCH: usize = 1_024;

const _: () = assert!(PACKETS.is_multiple_of(STRETCH), "all stretches are alike");

/// Packets of which the bytes that leave are compared between devices.
pub const COMPARED: usize = 1_024;

/// The core that a program has: the last that this process may use.
pub fn core() -> Option<u32> {
    cores::allowed().last().copied()
}

/// What stands along the way of packets in memory, with this in the middle.
pub fn places(device: &str) -> Vec<PathNode> {
    let place = |role: &str, label: &str, core| PathNode {
        role: role.to_owned(),
        label: label.to_owned(),
        core,
    };
    vec![
        place("memory", "frames, more than a second cache holds", None),
        place("device", device, core()),
    ]
}

/// What is known before the first pass.
pub fn initial_observation(prepared: &Prepared) -> ProgramObservation {
    // With FCS, which the memory has not got.
    let bytes = prepared.frames.iter().map(|frame| frame.len() as u64 + 4).sum();
    let packets = prepared.frames.len() as u64;
    let (stretch, worst) = (STRETCH as u64, worst(&prepared.program));
    ProgramObservation { packets, bytes, stretch, worst, ..ProgramObservation::default() }
}

fn worst(program: &Program) -> WorstCase {
    let cost = program.cost();
    WorstCase {
        instructions: cost.instructions,
        lookups: cost.lookups,
        key_bits: cost.key_bits,
        array_accesses: cost.array_accesses,
        header_bytes: cost.extracted_bytes + cost.emitted_bytes,
    }
}

/// What a device says of a program that cannot be prepared.
pub fn refused(device: &str, case: Case, error: CaseError) -> DeviceError {
    match error {
        CaseError::Range { .. } => DeviceError::BadLoad { reason: error.to_string() },
        _ => DeviceError::Broken {
            device: device.to_owned(),
            reason: format!("the program {} of this build: {error}", case.name()),
        },
    }
}

/// A number for what became of packets, line by line (FNV-1a, 64 bits).
#[derive(Clone, Copy, Debug)]
pub struct Digest(u64);

impl Digest {
    /// Of nothing.
    pub fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    /// Takes a line in: `PORT BYTES`, or `drop`.
    pub fn line(&mut self, line: &str) {
        for byte in line.bytes().chain([b'\n']) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// The number, in hexadecimal.
    pub fn text(self) -> String {
        format!("{:016x}", self.0)
    }
}
