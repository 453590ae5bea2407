//! Groups one behind the other, each with rules of its own and one that jumps to the next.
//!
//! A packet finds its rule in one of the groups, or in none and goes through all of them. The peer
//! is the same core with one group. It classifies bursts of frames and swaps their addresses.

use niclab_apps::forward::swap_macs;
use niclab_nic::limits::BURST;
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, Operation, Worker};
use niclab_packet::key::{Key, field};
use niclab_pairing::{alternate, slice};
use niclab_peer::Answer;

use crate::frames::Frames;
use crate::insert::{pattern, tuple};
use crate::keys::indices;
use crate::{Bench, BenchError, Measured, Slices};

/// Groups of the chain.
pub const GROUPS: u32 = 16;
/// Packets that go round.
const PACKETS: usize = 1 << 16;
/// Rules that are created at a time.
const BULK: usize = 1_024;
/// The queue of packets that no group has a rule for; those of rules have others.
const REST: u16 = 0;

/// What the rules look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masks {
    /// The whole 5-tuple, in each group.
    One,
    /// The 5-tuple without a last bit of the source in the second group, two in the third.
    Each,
}

/// What the packets find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finds {
    /// The last rule of the last group.
    Nothing,
    /// A rule, in any group as often as in another.
    Rules,
}

/// The row: `count` rules in each of [`GROUPS`] groups, against one group of `count`.
pub fn forward(
    bench: &Bench,
    count: u64,
    masks: Masks,
    finds: Finds,
) -> Result<Measured, BenchError> {
    let mut chain = Core::new(GROUPS, count, masks, finds)?;
    let mut one = Core::new(1, count, masks, finds)?;
    chain.check(finds)?;
    one.check(finds)?;
    let ours = || Ok::<_, BenchError>(chain.forward(bench.slice_ms));
    let pairs = alternate(bench.pairs, ours, || Ok(one.forward(bench.slice_ms)))?;
    Ok(Measured::of(Slices::Paired(pairs)))
}

/// A card and its packets.
struct Core {
    worker: Worker,
    frames: Frames,
    _nic: Nic,
}

impl Core {
    fn new(groups: u32, count: u64, masks: Masks, finds: Finds) -> Result<Core, BenchError> {
        let mut nic = Nic::new(&NicConfig { queues: 2, seed: 42, ..NicConfig::default() })?;
        nic.create(&rest(0, &[Action::Jump(1)]))?;
        for group in 1..=groups {
            let next = if group < groups { Action::Jump(group + 1) } else { Action::Queue(REST) };
            fill(&mut nic, group, count, masks)?;
            nic.create(&rest(group, &[next]))?;
        }
        while !nic.run_housekeeping(1 << 10) {}
        let all = u64::from(groups) * count;
        let first = if finds == Finds::Rules { 0 } else { all };
        let packets: Vec<_> = indices(all).take(PACKETS).map(|at| tuple(first + at)).collect();
        Ok(Core { worker: nic.worker(), frames: Frames::new(&packets)?, _nic: nic })
    }

    /// Counts what a round of packets finds.
    fn check(&mut self, finds: Finds) -> Result<(), BenchError> {
        let (mut hits, packets) = (0, self.frames.descs.len() as u64);
        for _ in 0..packets / BURST as u64 {
            let (region, burst) = self.frames.burst();
            self.worker.classify(region, burst);
            hits += burst.iter().filter(|desc| desc.queue != REST).count() as u64;
        }
        let expected = if finds == Finds::Rules { packets } else { 0 };
        let answer = Answer { ops: packets, ns: 0, rest: Vec::new() };
        crate::expect_hits(hits, expected, answer).map(|_| ())
    }

    fn forward(&mut self, slice_ms: u64) -> Answer {
        slice(slice_ms, || {
            for _ in 0..16 {
                let (region, burst) = self.frames.burst();
                self.worker.classify(region, burst);
                burst.iter_mut().for_each(|desc| swap_macs(region.frame_mut(desc)));
            }
            16 * BURST as u64
        })
    }
}

/// The rule of a group for what its other rules do not match.
fn rest(group: u32, actions: &[Action]) -> Rule<'_> {
    Rule { group, priority: 1, pattern: Pattern::any(), actions }
}

/// Creates the rules of a group.
fn fill(nic: &mut Nic, group: u32, count: u64, masks: Masks) -> Result<(), BenchError> {
    let first = u64::from(group - 1) * count;
    let left_out = if masks == Masks::Each { group - 1 } else { 0 };
    let rules: Vec<_> = (first..first + count).collect();
    for indices in rules.chunks(BULK) {
        let create = |&index: &u64| {
            let pattern = without_last_bits(&pattern(index), left_out);
            Rule { group, priority: 0, pattern, actions: &[Action::Queue(1)] }
        };
        let rules: Vec<Rule<'_>> = indices.iter().map(create).collect();
        let operations: Vec<_> = rules.iter().map(Operation::Create).collect();
        let mut refused = Ok(());
        nic.run(&operations, |result| {
            if let Err(error) = result {
                refused = Err(error);
            }
        });
        refused?;
    }
    Ok(())
}

/// A pattern in which the last `bits` bits of the source do not count.
fn without_last_bits(pattern: &Pattern, bits: u32) -> Pattern {
    let mut mask = pattern.mask().to_bytes();
    let kept = u32::MAX.checked_shl(bits).unwrap_or(0);
    mask[field::SRC_HEAD].copy_from_slice(&kept.to_be_bytes());
    Pattern::masked(pattern.value(), &Key::from_bytes(&mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_find_what_they_are_to_in_each_group() {
        for (masks, finds) in [
            (Masks::One, Finds::Nothing),
            (Masks::One, Finds::Rules),
            (Masks::Each, Finds::Nothing),
            (Masks::Each, Finds::Rules),
        ] {
            let mut core = Core::new(GROUPS, 100, masks, finds).unwrap();
            core.check(finds).unwrap();
            let other = if finds == Finds::Rules { Finds::Nothing } else { Finds::Rules };
            assert!(core.check(other).is_err());
        }
    }

    #[test]
    fn the_row_gives_its_pairs() {
        let bench = Bench { pairs: 2, slice_ms: 1, ..Bench::default() };
        let measured = forward(&bench, 100, Masks::Each, Finds::Rules).unwrap();
        let Slices::Paired(pairs) = measured.slices else { panic!() };
        assert!(pairs.ours.len() == 2 && pairs.theirs.iter().all(|&rate| rate > 0.0));
    }
}
