//! The whole way of a packet: headers, a root group, two exact tables, a count, RSS.
//!
//! Group 0 has one rule for each of 64 destination networks that jumps to group 1, which has an
//! exact rule for each of 64 k destinations that jumps to group 2, which has one for each of 64 k
//! 5-tuples. It counts and jumps to a group without rules, where RSS hashes the packet and gives it
//! a queue.

use std::hint::black_box;

use niclab_nic::limits::BURST;
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, NicError, RuleError, Worker};
use niclab_packet::key::{Key, field};
use niclab_pairing::slice;

use crate::frames::Frames;
use crate::keys::{indices, mix};
use crate::sets::Packet;
use crate::{Bench, BenchError, Measured, Slices, alone};

/// Rules of the root group.
const ROOT: u64 = 64;
/// Packets that go round.
const PACKETS: usize = 1 << 16;
/// Queues that RSS spreads over.
const QUEUES: u16 = 4;

/// The row: tables of `count` rules each.
pub fn forward(bench: &Bench, count: u64) -> Result<Measured, BenchError> {
    let (mut worker, _nic) = card(count)?;
    let packets: Vec<Packet> = indices(count).take(PACKETS).map(tuple).collect();
    let mut frames = Frames::new(&packets)?;
    let rates = alone(bench.pairs, || {
        Ok(slice(bench.slice_ms, || {
            for _ in 0..16 {
                let (region, burst) = frames.burst();
                black_box(worker.classify(region, burst));
            }
            16 * BURST as u64
        }))
    })?;
    Ok(Measured::of(Slices::Single(rates)))
}

/// The packet of rule `index`: its destination lies in one of the root's networks.
fn tuple(index: u64) -> Packet {
    let (random, network) = (mix(index), index % ROOT);
    let (dst, src) = (10 << 24 | (network as u32) << 16 | (index / ROOT) as u32, random as u32);
    [src, dst, (random >> 32) as u32 & 0xffff, (random >> 48) as u32, 17]
}

/// A worker and its card.
fn card(count: u64) -> Result<(Worker, Nic), BenchError> {
    let mut nic = nic()?;
    for network in 0..ROOT {
        let pattern = network_of(network as u32);
        create(&mut nic, 0, pattern, &[Action::Jump(1)])?;
    }
    for index in 0..count {
        let [src, dst, sport, dport, _] = tuple(index);
        let to = Pattern::any().dst(std::net::Ipv4Addr::from_bits(dst).into());
        create(&mut nic, 1, to.clone(), &[Action::Jump(2)])?;
        let all = to
            .src(std::net::Ipv4Addr::from_bits(src).into())
            .udp()
            .sport(sport as u16)
            .dport(dport as u16);
        create(&mut nic, 2, all, &[Action::Count, Action::Jump(3)])?;
    }
    Ok((nic.worker(), nic))
}

fn nic() -> Result<Nic, NicError> {
    Nic::new(&NicConfig { queues: QUEUES, seed: 42, ..NicConfig::default() })
}

fn create(
    nic: &mut Nic,
    group: u32,
    pattern: Pattern,
    actions: &[Action],
) -> Result<(), RuleError> {
    nic.create(&Rule { group, priority: 0, pattern, actions }).map(|_| ())
}

/// Destinations in 10.`network`.0.0/16.
fn network_of(network: u32) -> Pattern {
    let exact = Pattern::any().dst(std::net::Ipv4Addr::from_bits(10 << 24 | network << 16).into());
    let mut mask = exact.mask().to_bytes();
    mask[field::DST_HEAD][2..].fill(0);
    Pattern::masked(exact.value(), &Key::from_bytes(&mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_go_all_the_way_and_are_spread() {
        let (mut worker, nic) = card(1_000).unwrap();
        let packets: Vec<Packet> = (0..640).map(tuple).collect();
        let mut frames = Frames::new(&packets).unwrap();
        let mut queues = [0; QUEUES as usize];
        for _ in 0..10 {
            let (region, burst) = frames.burst();
            assert_eq!(worker.classify(region, burst), 0);
            for desc in burst {
                assert_ne!(desc.hash, 0);
                queues[usize::from(desc.queue)] += 1;
            }
        }
        assert!(queues.iter().all(|&count| count > 100), "{queues:?}");
        assert_eq!(nic.len(), 64 + 2_000);
    }

    #[test]
    fn the_row_gives_its_slices() {
        let bench = Bench { pairs: 6, slice_ms: 1, ..Bench::default() };
        let Slices::Single(rates) = forward(&bench, 100).unwrap().slices else { panic!() };
        assert!(rates.len() == 6 && rates.iter().all(|&rate| rate > 0.0));
    }
}
