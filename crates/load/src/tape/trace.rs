//! The records of a capture as a load.

use std::collections::HashSet;
use std::path::Path;

use niclab_packet::key::Key;
use niclab_packet::key::field::{DPORT, DST_HEAD, DST_TAIL, PROTOCOL, SPORT, SRC_HEAD, SRC_TAIL};
use niclab_packet::size::FCS_LEN;
use niclab_packet::trace::{self, Record, Trace, TraceLimits};
use serde::{Deserialize, Serialize};

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
        let file = trace::open(path).map_err(|error| bad(error.to_string()))?;
        let trace = Trace::load_whole(file, TraceLimits::default())
            .map_err(|incomplete| bad(incomplete.to_string()))?;
        if trace.is_empty() {
            return Err(bad("it has no frame; give another".to_owned()));
        }
        let size_of = |(i, record): (usize, Record<'_>)| {
            let size = stamped_len(record.data) + usize::from(FCS_LEN);
            let fits = u16::try_from(size).ok().filter(|&size| size <= size_max);
            let reason =
                || format!("record {}: {size} B with stamp and FCS exceed {size_max} B", i + 1);
            fits.ok_or_else(|| bad(reason()))
        };
        let sizes = trace.records().enumerate().map(size_of).collect::<Result<_, _>>()?;
        Ok(TraceTape { trace, sizes: Sizes::new(sizes), round: 0 })
    }
}

/// The frames of a load with a capture, in a loop. Lengths are bytes as sent: with stamp and FCS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceFrames {
    /// Frames.
    pub frames: u32,
    /// Frames too short for Ethernet even with their stamp: they are filled up with zeros.
    pub frames_padded: u32,
    /// Flows: different addresses, protocols and ports; those without an IP header are one.
    pub flows: u32,
    /// Shortest frame.
    pub frame_len_min: u16,
    /// Longest frame.
    pub frame_len_max: u16,
    /// All frames together.
    pub bytes: u64,
}

impl TraceFrames {
    /// Reads a capture through.
    ///
    /// # Errors
    /// [`LoadError::Trace`]: unreadable, empty, or a frame that was cut, is too long or too short.
    pub fn of(path: &Path) -> Result<TraceFrames, LoadError> {
        let tape = TraceTape::open(path, u16::MAX)?;
        let count = |is: fn(&Record<'_>) -> bool| tape.trace.records().filter(is).count() as u32;
        let lens = || tape.sizes.pattern.iter().copied();
        let flows: HashSet<_> = tape.trace.records().map(|record| flow(record.data)).collect();
        Ok(TraceFrames {
            frames: tape.flows(),
            frames_padded: count(|record| record.data.len() + STAMP_LEN < FRAME_LEN_MIN),
            flows: flows.len() as u32,
            frame_len_min: lens().min().unwrap_or_default(),
            frame_len_max: lens().max().unwrap_or_default(),
            bytes: tape.sizes.pattern_bytes,
        })
    }
}

/// The key of a frame's flow: addresses, ports, protocol.
fn flow(data: &[u8]) -> [u8; 37] {
    let line = Key::parse(data).to_bytes();
    let parts = [SRC_HEAD, DST_HEAD, SPORT, DPORT, PROTOCOL, SRC_TAIL, DST_TAIL];
    let mut flow = [0; 37];
    let bytes = parts.into_iter().flat_map(|part| &line[part]);
    flow.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    flow
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

#[cfg(test)]
mod tests {
    use niclab_packet::flow::{FlowSet, FlowSpec};
    use niclab_packet::trace::{Endian, Format, LINK_ETHERNET, Resolution, Writer};

    use super::*;

    /// A UDP frame of flow `flow`, of so many bytes without FCS, at least 42.
    fn frame(flow: u32, len: usize) -> Vec<u8> {
        let set = FlowSet::new(&FlowSpec { count: 4, ..FlowSpec::default() }).unwrap();
        let tuple = set.tuple(flow);
        let [src, dst] = [tuple.src, tuple.dst].map(|address| match address {
            std::net::IpAddr::V4(address) => address.octets(),
            std::net::IpAddr::V6(_) => panic!("IPv4 is the default"),
        });
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
        frame.extend(((len - 14) as u16).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 17, 0, 0]);
        frame.extend([src, dst].concat());
        frame.extend([tuple.sport, tuple.dport].map(u16::to_be_bytes).concat());
        frame.resize(len, 0);
        frame
    }

    #[test]
    fn frames_of_a_trace_are_counted() {
        let path = std::env::temp_dir().join(format!("niclab-trace-{}.pcap", std::process::id()));
        let file = std::fs::File::create(&path).unwrap();
        let format = Format::Pcap(Endian::Little, Resolution::Nano);
        let mut writer = Writer::new(file, format).unwrap();
        for (flow, len) in [(0, 42), (1, 100), (0, 60), (2, 50)] {
            let (data, original_len) = (&frame(flow, len)[..], len as u32);
            let record = Record { timestamp_ns: 0, original_len, link_type: LINK_ETHERNET, data };
            writer.write(&record).unwrap();
        }
        let data = &[0xff; 41][..];
        let record = Record { timestamp_ns: 0, original_len: 41, link_type: LINK_ETHERNET, data };
        writer.write(&record).unwrap();
        writer.finish().unwrap();
        let found = TraceFrames::of(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let expected = TraceFrames {
            frames: 5,
            frames_padded: 1,
            flows: 4,
            frame_len_min: 64,
            frame_len_max: 122,
            bytes: 64 + 122 + 82 + 72 + 64,
        };
        assert_eq!(found, expected);
    }
}
