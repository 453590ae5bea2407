//! The whole way of a packet: headers, a root group, two exact tables, a count, RSS.
//!
//! Group 0 has one rule for each of 64 destination networks that jumps to group 1, which has an
//! exact rule for each of 64 k destinations that jumps to group 2, which has one for each of 64 k
//! 5-tuples. It counts and jumps to a group without rules, where RSS hashes the packet and gives it
//! a queue.
//!
//! A peer gets the same rules and, in a capture, the same frames. Both must count the same for each
//! 5-tuple before anything is timed.

use std::fs::File;
use std::hint::black_box;
use std::io::BufWriter;
use std::os::fd::AsRawFd;

use niclab_nic::limits::BURST;
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, NicError, RuleError, RuleId, Worker};
use niclab_packet::key::{Key, field};
use niclab_packet::trace::{Endian, Format, LINK_ETHERNET, Record, Resolution, Writer};
use niclab_pairing::slice;
use niclab_peer::{Answer, Peer, PeerError};

use crate::frames::Frames;
use crate::keys::{indices, mix};
use crate::sets::PacketValues;
use crate::{Bench, BenchError, Measured};

/// Rules of the root group.
const ROOT: u64 = 64;
/// Bits that such a rule looks at.
const NETWORK_BITS: u32 = 16;
/// Packets that go round.
const PACKETS: usize = 1 << 16;
/// Queues that RSS spreads over.
const QUEUES: u16 = 4;

/// The row: tables of `count` rules each, against the peer `program`.
pub fn forward(bench: &Bench, count: u64, program: &'static str) -> Result<Measured, BenchError> {
    let packets: Vec<PacketValues> = indices(count).take(PACKETS).map(tuple).collect();
    let mut card = PipelineCard::new(count, &packets)?;
    let capture = card.capture()?;
    let peer = match bench.peer(program, &[]) {
        Ok(mut peer) => {
            peer.tell(&rules_command(count, &capture))?;
            agree(&card.count()?, &mut peer)?;
            Ok(peer)
        }
        Err(error) => Err(error),
    };
    let command = format!("forward {}", bench.slice_ms);
    let ours = || Ok(card.run(bench.slice_ms));
    bench.compare(bench.pairs, peer, ours, |peer| Ok(peer.ask(&command)?))
}

/// The packet of rule `index`: its destination lies in one of the root's networks.
fn tuple(index: u64) -> PacketValues {
    let (random, at) = (mix(index), (index / ROOT) as u32);
    let (dst, src) = (network(index % ROOT) | at, random as u32);
    [src, dst, (random >> 32) as u32 & 0xffff, (random >> 48) as u32, 17]
}

/// The first address of a network of the root group.
fn network(number: u64) -> u32 {
    10 << 24 | (number as u32) << (32 - NETWORK_BITS)
}

/// The input of a peer: the networks, the 5-tuples (their destinations are the table before), and
/// where the frames are. The file has no name, so that it is gone with this process; another of the
/// same user reaches it by this one's descriptor.
fn rules_command(count: u64, capture: &File) -> String {
    let path = format!("/proc/{}/fd/{}", std::process::id(), capture.as_raw_fd());
    let mut text = format!("rules {ROOT} {count} {path}");
    for number in 0..ROOT {
        text += &format!("\n{} {NETWORK_BITS}", network(number));
    }
    for [src, dst, sport, dport, _] in (0..count).map(tuple) {
        text += &format!("\n{src} {dst} {sport} {dport}");
    }
    text
}

/// Both sides must count the same.
fn agree(counts: &[u64], peer: &mut Peer) -> Result<(), BenchError> {
    let answer = peer.tell("count")?;
    let theirs: Vec<u64> = answer.split(' ').filter_map(|word| word.parse().ok()).collect();
    if theirs.len() != counts.len() {
        let (command, answer) = ("count".to_owned(), format!("{} counts", theirs.len()));
        return Err(PeerError::Answer { peer: peer.name().to_owned(), command, answer }.into());
    }
    for (rule, (&ours, &theirs)) in counts.iter().zip(&theirs).enumerate() {
        if ours != theirs {
            return Err(BenchError::Counts { rule, ours, theirs });
        }
    }
    Ok(())
}

/// A card with the rules, and the frames.
struct PipelineCard {
    nic: Nic,
    worker: Worker,
    frames: Frames,
    /// The rules that count.
    counting: Vec<RuleId>,
}

impl PipelineCard {
    fn new(count: u64, packets: &[PacketValues]) -> Result<PipelineCard, BenchError> {
        let mut nic = nic()?;
        for number in 0..ROOT {
            create(&mut nic, 0, network_of(number), &[Action::Jump(1)])?;
        }
        let mut counting = Vec::with_capacity(count as usize);
        for [src, dst, sport, dport, _] in (0..count).map(tuple) {
            let to = Pattern::any().dst(std::net::Ipv4Addr::from_bits(dst).into());
            create(&mut nic, 1, to.clone(), &[Action::Jump(2)])?;
            let all = to
                .src(std::net::Ipv4Addr::from_bits(src).into())
                .udp()
                .sport(sport as u16)
                .dport(dport as u16);
            counting.push(create(&mut nic, 2, all, &[Action::Count, Action::Jump(3)])?);
        }
        Ok(PipelineCard { worker: nic.worker(), nic, frames: Frames::new(packets)?, counting })
    }

    /// The frames in a file without a name.
    fn capture(&self) -> Result<File, BenchError> {
        let file = tempfile::tempfile().map_err(BenchError::Temporary)?;
        let format = Format::Pcap(Endian::Little, Resolution::Micro);
        let mut writer = Writer::new(BufWriter::new(&file), format)?;
        for desc in &self.frames.descs {
            let data = self.frames.region.frame(desc);
            let original_len = data.len() as u32;
            writer.write(&Record {
                timestamp_ns: 0,
                original_len,
                link_type: LINK_ETHERNET,
                data,
            })?;
        }
        let buffered = writer.finish()?;
        buffered.into_inner().map_err(|error| BenchError::Temporary(error.into()))?;
        Ok(file)
    }

    /// What each 5-tuple counts of all frames.
    fn count(&mut self) -> Result<Vec<u64>, RuleError> {
        let packets = |nic: &Nic, &id: &RuleId| Ok(nic.query(id)?.packets);
        let before: Result<Vec<u64>, RuleError> =
            self.counting.iter().map(|id| packets(&self.nic, id)).collect();
        for burst in self.frames.descs.chunks_mut(BURST) {
            self.worker.classify(&self.frames.region, burst);
        }
        let counted = |(id, before)| Ok(packets(&self.nic, id)? - before);
        self.counting.iter().zip(before?).map(counted).collect()
    }

    fn run(&mut self, slice_ms: u64) -> Answer {
        slice(slice_ms, || {
            for _ in 0..16 {
                let (region, burst) = self.frames.burst();
                black_box(self.worker.classify(region, burst));
            }
            16 * BURST as u64
        })
    }
}

fn nic() -> Result<Nic, NicError> {
    Nic::new(&NicConfig { queues: QUEUES, seed: 42, ..NicConfig::default() })
}

fn create(
    nic: &mut Nic,
    group: u32,
    pattern: Pattern,
    actions: &[Action],
) -> Result<RuleId, RuleError> {
    nic.create(&Rule { group, priority: 0, pattern, actions })
}

/// Destinations in network `number`.
fn network_of(number: u64) -> Pattern {
    let exact = Pattern::any().dst(std::net::Ipv4Addr::from_bits(network(number)).into());
    let mut mask = exact.mask().to_bytes();
    mask[field::DST_HEAD][NETWORK_BITS as usize / 8..].fill(0);
    Pattern::masked(exact.value(), &Key::from_bytes(&mask))
}

#[cfg(test)]
mod tests;
