//! The records of a capture as a load.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use niclab_packet::size::FCS_LEN;
use niclab_packet::trace::{Record, Trace, TraceLimits};

use super::{Sizes, Tape};
use crate::drive::LoadError;
use crate::stamp::{STAMP_LEN, Stamp};

/// The records of a capture, in their order and over again.
///
/// A frame is sent as it was recorded, with its stamp behind it: an Ethernet trailer, which neither
/// cards nor stacks look at, so that headers, payload and checksums stay the recorded ones. Frames
/// therefore grow by [`STAMP_LEN`] bytes, short ones only to the smallest size. Each record is a
/// flow of its own: its frames are told apart by their round.
pub struct TraceTape {
    trace: Trace,
    sizes: Sizes,
    round: u32,
}

/// Shortest frame without FCS (IEEE 802.3 §4.4).
const FRAME_LEN_MIN: usize = 60;

impl TraceTape {
    /// Reads a capture. No frame with its stamp may be longer than `size_max` bytes with FCS.
    pub fn open(path: &Path, size_max: u16) -> Result<TraceTape, LoadError> {
        let bad = |reason: String| LoadError::Trace { path: path.display().to_string(), reason };
        let file = File::open(path).map_err(|error| bad(error.to_string()))?;
        let trace = Trace::load(BufReader::new(file), TraceLimits::default())
            .map_err(|incomplete| bad(incomplete.to_string()))?;
        if trace.is_empty() {
            return Err(bad("it has no frame; give another".to_owned()));
        }
        let size_of = |(i, record): (usize, Record<'_>)| {
            let size = stamped_len(record.data) + usize::from(FCS_LEN);
            let fits = u16::try_from(size).ok().filter(|&size| size <= size_max);
            let reason = || format!("record {i}: {size} B with stamp and FCS exceed {size_max} B");
            fits.ok_or_else(|| bad(reason()))
        };
        let sizes = trace.records().enumerate().map(size_of).collect::<Result<_, _>>()?;
        Ok(TraceTape { trace, sizes: Sizes::new(sizes), round: 0 })
    }
}

/// Reads a capture through: the longest frame that a load with it offers, bytes with FCS.
///
/// # Errors
/// [`LoadError::Trace`]: unreadable, empty, cut short, a frame too long.
pub fn trace_frame_len_max(path: &Path) -> Result<u16, LoadError> {
    let tape = TraceTape::open(path, u16::MAX)?;
    Ok(tape.sizes.pattern.iter().copied().max().unwrap_or_default())
}

/// Length of a recorded frame with its stamp, without FCS.
fn stamped_len(data: &[u8]) -> usize {
    (data.len() + STAMP_LEN).max(FRAME_LEN_MIN)
}

impl Tape for TraceTape {
    fn write(&mut self, slot: &mut [u8], planned_ns: u64, late_ns: u64) -> u16 {
        let at = self.sizes.step();
        let data = self.trace.record(at).map_or(&[][..], |record| record.data);
        let len = stamped_len(data);
        let (frame, stamp_at) = (&mut slot[..len], len - STAMP_LEN);
        frame[..data.len()].copy_from_slice(data);
        frame[data.len()..stamp_at].fill(0);
        let stamp = Stamp { flow: at as u32, sequence: self.round, planned_ns, late_ns };
        frame[stamp_at..].copy_from_slice(&stamp.to_bytes());
        if self.sizes.at == 0 {
            self.round = self.round.wrapping_add(1);
        }
        len as u16
    }

    fn skip(&mut self, count: u64) -> u64 {
        let (records, at) = (self.sizes.pattern.len() as u64, self.sizes.at as u64);
        self.round = self.round.wrapping_add(((at + count) / records) as u32);
        self.sizes.skip(count)
    }

    fn has_checksums(&self) -> bool {
        false
    }

    fn flows(&self) -> u32 {
        self.sizes.pattern.len() as u32
    }
}
