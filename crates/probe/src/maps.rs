//! The maps that the programs fill: stamps by message and by segment, and the counters.
//!
//! Keys and values are laid out as `bpf/stamps.bpf.c` declares them; the layouts that libbpf-cargo
//! read from there are compared with the ones here when this is compiled.

use std::mem::{offset_of, size_of};
use std::net::{IpAddr, SocketAddr};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use niclab_packet::echo::{Place, Stamp};

use crate::clsact::Direction;
use crate::error::ProbeError;
use crate::skeleton::types;

const _: () = {
    assert!(size_of::<types::message_key>() == 12 && offset_of!(types::message_key, place) == 8);
    assert!(offset_of!(types::message_key, number) == 4);
    assert!(size_of::<types::flow>() == FLOW_LEN && offset_of!(types::flow, target) == 16);
    assert!(offset_of!(types::flow, source_port) == 32);
    assert!(size_of::<types::segment_key>() == FLOW_LEN + 8);
    assert!(offset_of!(types::segment_key, end) == FLOW_LEN);
    assert!(size_of::<types::stamp>() == 16 && offset_of!(types::stamp, core) == 8);
    assert!(size_of::<types::counts>() == 5 * 8 && offset_of!(types::counts, failed) == 4 * 8);
};

const FLOW_LEN: usize = 36;

const READ: &str = "read a map of stamps";

/// Which message a stamp in the map is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId {
    /// Which client, and which of its measurements.
    pub run: u32,
    /// Number of the message in its run.
    pub number: u32,
}

/// One direction of a TCP connection, as its packets say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Who sends.
    pub source: SocketAddr,
    /// Who receives.
    pub target: SocketAddr,
}

impl Flow {
    /// The other direction.
    pub fn turned(self) -> Flow {
        Flow { source: self.target, target: self.source }
    }

    fn key(self) -> [u8; FLOW_LEN] {
        let mut key = [0; FLOW_LEN];
        for (at, address) in [(0, self.source), (16, self.target)] {
            let ip = match address.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            key[at..at + 16].copy_from_slice(&ip.octets());
        }
        key[32..34].copy_from_slice(&self.source.port().to_ne_bytes());
        key[34..36].copy_from_slice(&self.target.port().to_ne_bytes());
        key
    }
}

/// Sequence number behind the first `stream_bytes` of a stream whose connection began with the
/// number `beginning`: what a segment that ends there is stamped under.
pub fn sequence_behind(beginning: u32, stream_bytes: u64) -> u32 {
    // The opening takes a number itself; numbers wrap at 32 bits (RFC 9293 §3.4).
    beginning.wrapping_add(1).wrapping_add(stream_bytes as u32)
}

/// What the programs did since they were attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages stamped in their payload.
    pub payload: u64,
    /// Messages stamped in the map: short ones and fragmented ones.
    pub map: u64,
    /// Ends of TCP segments stamped.
    pub segments: u64,
    /// Datagrams with our magic number that are no message: another version, an unknown kind, a
    /// length that is not the datagram's, or several datagrams that the stack still carries as one.
    pub refused: u64,
    /// Messages and segments that were to be stamped, which the kernel refused.
    pub failed: u64,
}

/// The maps of one pair of programs.
pub struct Maps {
    pub messages: MapHandle,
    pub segments: MapHandle,
    pub beginnings: MapHandle,
    pub counters: MapHandle,
}

impl Maps {
    pub fn message(&self, id: MessageId, place: Place) -> Result<Option<Stamp>, ProbeError> {
        let mut key = [0; 12];
        for (part, word) in key.chunks_exact_mut(4).zip([id.run, id.number, place as u32]) {
            part.copy_from_slice(&word.to_ne_bytes());
        }
        Ok(look(&self.messages, &key)?.and_then(|value| stamp(&value)))
    }

    pub fn segment(
        &self,
        flow: Flow,
        direction: Direction,
        end: u32,
    ) -> Result<Option<Stamp>, ProbeError> {
        let key = segment_key(flow, direction, end);
        Ok(look(&self.segments, &key)?.and_then(|value| stamp(&value)))
    }

    /// Every stamp of a flow, earliest first.
    pub fn segments(
        &self,
        flow: Flow,
        direction: Direction,
    ) -> Result<Vec<(u32, Stamp)>, ProbeError> {
        let wanted = segment_key(flow, direction, 0);
        // All at once: a batch that is not full is the last for the iterator of libbpf-rs.
        let all = self
            .segments
            .lookup_batch(self.segments.max_entries(), MapFlags::ANY, MapFlags::ANY)
            .map_err(|e| ProbeError::bpf(READ, &e))?;
        let mut found: Vec<(u32, Stamp)> = all
            .filter_map(|(mut key, value)| {
                let end = word(&key, FLOW_LEN)?;
                key.get_mut(FLOW_LEN..FLOW_LEN + 4)?.fill(0);
                (key == wanted).then_some((end, stamp(&value)?))
            })
            .collect();
        found.sort_by_key(|(_, stamp)| stamp.time_ns);
        Ok(found)
    }

    pub fn beginning(&self, flow: Flow) -> Result<Option<u32>, ProbeError> {
        Ok(look(&self.beginnings, &flow.key())?.and_then(|value| word(&value, 0)))
    }

    pub fn counts(&self) -> Result<Counts, ProbeError> {
        let cores = self
            .counters
            .lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| ProbeError::bpf(READ, &e))?
            .unwrap_or_default();
        let sum = |at: usize| -> u64 { cores.iter().filter_map(|core| long(core, at)).sum() };
        Ok(Counts {
            payload: sum(offset_of!(types::counts, payload)),
            map: sum(offset_of!(types::counts, map)),
            segments: sum(offset_of!(types::counts, segments)),
            refused: sum(offset_of!(types::counts, refused)),
            failed: sum(offset_of!(types::counts, failed)),
        })
    }

    /// Forgets all stamps, and not where the connections began.
    pub fn clear(&self) -> Result<(), ProbeError> {
        for map in [&self.messages, &self.segments] {
            let taken = map
                .lookup_and_delete_batch(map.max_entries(), MapFlags::ANY, MapFlags::ANY)
                .map_err(|e| ProbeError::bpf("clear a map of stamps", &e))?;
            taken.for_each(drop);
        }
        Ok(())
    }
}

fn segment_key(flow: Flow, direction: Direction, end: u32) -> [u8; FLOW_LEN + 8] {
    let mut key = [0; FLOW_LEN + 8];
    key[..FLOW_LEN].copy_from_slice(&flow.key());
    key[FLOW_LEN..FLOW_LEN + 4].copy_from_slice(&end.to_ne_bytes());
    key[FLOW_LEN + 4..].copy_from_slice(&(direction as u32).to_ne_bytes());
    key
}

fn look(map: &MapHandle, key: &[u8]) -> Result<Option<Vec<u8>>, ProbeError> {
    map.lookup(key, MapFlags::ANY).map_err(|e| ProbeError::bpf(READ, &e))
}

fn stamp(value: &[u8]) -> Option<Stamp> {
    let core = word(value, offset_of!(types::stamp, core))?;
    let time_ns = long(value, offset_of!(types::stamp, time_ns))?;
    Some(Stamp { time_ns, core: u16::try_from(core).ok() })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_count_the_opening_and_wrap() {
        assert_eq!(sequence_behind(100, 0), 101);
        assert_eq!(sequence_behind(u32::MAX, 10), 10);
        assert_eq!(sequence_behind(5, (1 << 32) + 7), 13);
    }

    #[test]
    fn a_flow_of_ipv4_is_written_as_mapped_addresses() {
        let flow = Flow {
            source: SocketAddr::from(([10, 0, 0, 1], 0x1234)),
            target: SocketAddr::from(([10, 0, 0, 2], 9)),
        };
        let key = flow.key();
        assert_eq!(key[..16], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 1]);
        assert_eq!(key[28..32], [10, 0, 0, 2]);
        assert_eq!(key[32..34], 0x1234_u16.to_ne_bytes());
        assert_eq!(flow.turned().key()[12..16], [10, 0, 0, 2]);
    }
}
