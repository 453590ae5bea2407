//! The maps that the programs fill: stamps by message and by segment, and the counters.
//!
//! Keys and values are laid out as `bpf/stamps.bpf.c` declares them; the layouts that libbpf-cargo
//! read from there are compared with the ones here when this is compiled.

use std::mem::{offset_of, size_of};
use std::net::{IpAddr, SocketAddr};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use niclab_packet::echo::{Stamp, StampPoint};

use crate::clsact::Direction;
use crate::error::ProbeError;
use crate::skeleton::types::{counts, flow, message, segment};

/// Stamps of messages and of segments that are kept, each.
const ENTRIES: u32 = 1 << 16;

const ENTRY_LEN: usize = 64;
pub const FLOW_LEN: usize = 36;

const _: () = {
    assert!(size_of::<message>() == ENTRY_LEN && size_of::<segment>() == ENTRY_LEN);
    assert!(size_of::<flow>() == FLOW_LEN && offset_of!(flow, target) == 16);
    assert!(offset_of!(flow, source_port) == 32 && offset_of!(flow, target_port) == 34);
    assert!(size_of::<counts>() == 5 * 8);
};

const READ: &str = "read a map of stamps";

/// Which message a stamp in the table is of.
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

    /// The words of `struct flow`.
    pub(crate) fn key(self) -> [u8; FLOW_LEN] {
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
    /// Messages stamped in the table: short ones and fragmented ones.
    pub map: u64,
    /// Ends of TCP segments stamped.
    pub segments: u64,
    /// Datagrams with our magic number that are no message: another version, an unknown kind, a
    /// length that is not the datagram's, or several datagrams that the stack still carries as one.
    pub refused: u64,
    /// Messages that were to be stamped in their payload, which the kernel did not let be written.
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
    pub fn message(&self, id: MessageId, place: StampPoint) -> Result<Option<Stamp>, ProbeError> {
        let slot = match place {
            StampPoint::ClientEgress => 0,
            StampPoint::ServerIngress => 1,
            StampPoint::ServerEgress => 2,
            StampPoint::ClientIngress => 3,
            _ => return Ok(None),
        };
        let entry = look(&self.messages, &message_entry(id).to_ne_bytes())?.unwrap_or_default();
        let (run, number) = (offset_of!(message, run), offset_of!(message, number));
        if (word(&entry, run), word(&entry, number)) != (Some(id.run), Some(id.number)) {
            return Ok(None);
        }
        let time = offset_of!(message, time_ns) + 8 * slot;
        Ok(stamp(&entry, time, offset_of!(message, core) + 2 * slot))
    }

    pub fn segment(
        &self,
        flow: Flow,
        direction: Direction,
        end: u32,
    ) -> Result<Option<Stamp>, ProbeError> {
        let at = segment_entry(&flow.key(), direction, end);
        let entry = look(&self.segments, &at.to_ne_bytes())?.unwrap_or_default();
        Ok(end_in(&entry, &flow.key(), direction)
            .and_then(|(there, stamp)| (there == end).then_some(stamp)))
    }

    /// Every stamp of a flow, earliest first.
    pub fn segments(
        &self,
        flow: Flow,
        direction: Direction,
    ) -> Result<Vec<(u32, Stamp)>, ProbeError> {
        let key = flow.key();
        // All at once: a batch that is not full is the last for the iterator of libbpf-rs.
        let all = self
            .segments
            .lookup_batch(ENTRIES, MapFlags::LOCK, MapFlags::ANY)
            .map_err(|e| ProbeError::bpf(READ, &e))?;
        let mut found: Vec<(u32, Stamp)> =
            all.filter_map(|(_, entry)| end_in(&entry, &key, direction)).collect();
        found.sort_by_key(|(_, stamp)| stamp.time_ns);
        Ok(found)
    }

    pub fn beginning(&self, flow: Flow) -> Result<Option<u32>, ProbeError> {
        let value = self
            .beginnings
            .lookup(&flow.key(), MapFlags::ANY)
            .map_err(|e| ProbeError::bpf(READ, &e))?;
        Ok(value.and_then(|value| word(&value, 0)))
    }

    pub fn counts(&self) -> Result<Counts, ProbeError> {
        let cores = self
            .counters
            .lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| ProbeError::bpf(READ, &e))?
            .unwrap_or_default();
        let sum = |at: usize| -> u64 { cores.iter().filter_map(|core| long(core, at)).sum() };
        Ok(Counts {
            payload: sum(offset_of!(counts, payload)),
            map: sum(offset_of!(counts, map)),
            segments: sum(offset_of!(counts, segments)),
            refused: sum(offset_of!(counts, refused)),
            failed: sum(offset_of!(counts, failed)),
        })
    }

    /// Forgets all stamps, and not where the connections began.
    pub fn clear(&self) -> Result<(), ProbeError> {
        let keys: Vec<u8> = (0..ENTRIES).flat_map(u32::to_ne_bytes).collect();
        let nothing = vec![0; ENTRIES as usize * ENTRY_LEN];
        for map in [&self.messages, &self.segments] {
            map.update_batch(&keys, &nothing, ENTRIES, MapFlags::LOCK, MapFlags::ANY)
                .map_err(|e| ProbeError::bpf("clear a map of stamps", &e))?;
        }
        Ok(())
    }
}

/// Where the program keeps the stamps of a message (`keep`).
fn message_entry(id: MessageId) -> u32 {
    id.run.wrapping_mul(0x9e37_79b1).wrapping_add(id.number) % ENTRIES
}

/// Where the program keeps the stamp of a segment (`entry`).
pub fn segment_entry(flow: &[u8; FLOW_LEN], direction: Direction, end: u32) -> u32 {
    let at = |at: usize| u64::from(word(flow, at).unwrap_or_default());
    let port = |at: usize| u64::from(u16::from_ne_bytes([flow[at], flow[at + 1]]));
    let mut hash = port(32) << 32 | port(34);
    for word in 0..4 {
        let addresses = at(4 * word) << 32 | at(16 + 4 * word);
        hash = (hash ^ addresses).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    let ends = end.wrapping_mul(0x9e37_79b1);
    (direction as u32) << 15 | ((hash >> 32) as u32).wrapping_add(ends) >> 17
}

/// The end of a segment and its stamp, where an entry has one of this flow.
fn end_in(entry: &[u8], key: &[u8; FLOW_LEN], direction: Direction) -> Option<(u32, Stamp)> {
    let there = entry.get(offset_of!(segment, flow)..)?.first_chunk::<FLOW_LEN>()?;
    let way = entry.get(offset_of!(segment, direction)..)?.first_chunk().copied()?;
    if there != key || u16::from_ne_bytes(way) != direction as u16 {
        return None;
    }
    let stamp = stamp(entry, offset_of!(segment, time_ns), offset_of!(segment, core))?;
    Some((word(entry, offset_of!(segment, end))?, stamp))
}

/// One entry as a whole: no program is writing it meanwhile.
fn look(map: &MapHandle, key: &[u8]) -> Result<Option<Vec<u8>>, ProbeError> {
    map.lookup(key, MapFlags::LOCK).map_err(|e| ProbeError::bpf(READ, &e))
}

fn stamp(entry: &[u8], time: usize, core: usize) -> Option<Stamp> {
    let core = entry.get(core..)?.first_chunk().copied().map(u16::from_ne_bytes);
    let time_ns = long(entry, time)?;
    (time_ns > 0).then_some(Stamp { time_ns, core })
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
