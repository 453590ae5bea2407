//! The sequence of frames: generated flows or the records of a capture.

mod flows;
mod generated;
mod smallest;
mod trace;

pub use flows::FlowSequence;
pub use generated::FlowTape;
pub use smallest::SmallestTape;
pub use trace::{TraceFrames, TraceTape};

/// An endless sequence of frames.
pub trait Tape {
    /// Writes the next frame into `slot` and returns its length, without FCS.
    fn write(&mut self, slot: &mut [u8], planned_ns: u64, late_ns: u64) -> u16;

    /// Passes over `count` frames; returns their bytes, with FCS.
    fn skip(&mut self, count: u64) -> u64;

    /// Whether the checksums of its frames are right: those of a capture need not be (a card may
    /// have filled them in after they were recorded).
    fn has_checksums(&self) -> bool {
        true
    }

    /// Number of flows a stamp can name.
    fn flows(&self) -> u32;
}

/// Frame sizes in their repeating order.
struct Sizes {
    /// With FCS.
    pattern: Vec<u16>,
    at: usize,
    pattern_bytes: u64,
}

impl Sizes {
    fn new(pattern: Vec<u16>) -> Sizes {
        let pattern_bytes = pattern.iter().map(|&b| u64::from(b)).sum();
        Sizes { pattern, at: 0, pattern_bytes }
    }

    #[inline]
    fn step(&mut self) -> usize {
        let at = self.at;
        self.at = if at + 1 == self.pattern.len() { 0 } else { at + 1 };
        at
    }

    fn skip(&mut self, count: u64) -> u64 {
        let whole = count / self.pattern.len() as u64;
        let rest = count % self.pattern.len() as u64;
        let mut rest_bytes = 0;
        for _ in 0..rest {
            let at = self.step();
            rest_bytes += u64::from(self.pattern[at]);
        }
        whole * self.pattern_bytes + rest_bytes
    }
}

#[cfg(test)]
mod tests;
