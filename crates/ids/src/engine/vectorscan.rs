//! Patterns in the library `libhs`: Vectorscan, or Hyperscan.

use std::fmt::{self, Write};

use hyperscan::{BlockDatabase, Builder, CompileFlags, Matching, Pattern, Patterns, Scratch};

/// Patterns of a group.
pub(super) struct VectorscanDatabase(BlockDatabase);

/// Memory of a thread.
pub(super) struct VectorscanScratch(Scratch);

impl VectorscanDatabase {
    /// `None` if the library refuses the patterns.
    pub(super) fn new(patterns: &[&[u8]]) -> Option<VectorscanDatabase> {
        let pattern = |(number, bytes): (usize, &&[u8])| Pattern {
            expression: escaped(bytes),
            flags: CompileFlags::CASELESS,
            id: Some(number),
            ext: Default::default(),
            som: None,
        };
        let patterns: Patterns = patterns.iter().enumerate().map(pattern).collect();
        patterns.build().ok().map(VectorscanDatabase)
    }

    /// Makes `scratch` large enough for these patterns.
    pub(super) fn grow(&self, scratch: &mut Option<VectorscanScratch>) {
        match scratch {
            // Without enough memory, each search fails.
            Some(VectorscanScratch(scratch)) => drop(self.0.realloc_scratch(scratch)),
            None => *scratch = self.0.alloc_scratch().ok().map(VectorscanScratch),
        }
    }

    /// Calls `found` with the number of each pattern in a payload, and with the place behind it.
    /// `false` if the library failed.
    pub(super) fn find(
        &self,
        payload: &[u8],
        scratch: &VectorscanScratch,
        mut found: impl FnMut(usize, usize),
    ) -> bool {
        let scanned = self.0.scan(payload, &scratch.0, |number: u32, _: u64, end: u64, _: u32| {
            found(number as usize, end as usize);
            Matching::Continue
        });
        scanned.is_ok()
    }
}

impl fmt::Debug for VectorscanDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VectorscanDatabase")
    }
}

impl fmt::Debug for VectorscanScratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VectorscanScratch")
    }
}

/// Bytes as an expression.
fn escaped(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A `String` has no errors.
        let _ = write!(text, "\\x{byte:02x}");
        text
    })
}
