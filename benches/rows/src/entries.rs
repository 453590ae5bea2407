//! Entries of a program's tables that change, one by one and in transactions, beside the same in
//! DPDK's SWX pipeline.
//!
//! Changes are made beforehand on both sides, and what is timed is that they are carried out. Ours
//! has a worker, which comes by now and then and without which nothing could be used again. Keys of
//! entries that come are ever new.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use niclab_nic::memory::Region;
use niclab_peer::{Answer, Peer};
use niclab_program::{Change, Entry, Invocation, Key, Part, Pipeline, Program, Worker};

use crate::keys::mix;
use crate::{Bench, BenchError, Measured, Slices, alone};

const PROGRAM: &str = include_str!("program/entries.spec");

/// Changes that are made at a time, before the clock runs.
const MADE: u32 = 1_000;
/// Lengths of prefixes, in turn: half of them of 24 bits, as in tables of the Internet.
const LENGTHS: [u32; 16] = [24, 16, 24, 22, 24, 20, 24, 23, 24, 21, 24, 19, 24, 32, 24, 18];
/// First bits of both addresses that wildcard entries look at, in turn: 64 masks.
const SOURCES: [u32; 8] = [0, 8, 16, 20, 24, 28, 30, 32];
const DESTINATIONS: [u32; 8] = [16, 17, 18, 20, 22, 24, 28, 32];
/// Any odd number: its multiples go through all numbers of so many bits before one comes again.
const ODD: u32 = 0x9e37_79b1;

/// How a table matches; its name in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchKind {
    /// All bits.
    Exact,
    /// The longest prefix.
    Prefix,
    /// Two masks and a priority.
    Wildcard,
}

/// What is done to entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryChange {
    /// An entry does something else.
    Modify,
    /// The oldest goes, and one with a new key comes: two changes.
    Renew,
}

/// What a row changes.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Which table.
    pub kind: MatchKind,
    /// How.
    pub done: EntryChange,
    /// Entries it has.
    pub entries: u32,
    /// Changes of a transaction; 1 is a change by itself.
    pub together: u32,
}

/// The row without a peer.
pub fn changes(bench: &Bench, case: Case) -> Result<Measured, BenchError> {
    let mut table = ChangingTable::new(case)?;
    let rates = alone(bench.pairs, || table.run(bench.slice_ms))?;
    Ok(Measured::of(Slices::Single(rates)))
}

/// The row beside the peer `spec`.
pub fn beside(bench: &Bench, case: Case) -> Result<Measured, BenchError> {
    let mut table = ChangingTable::new(case)?;
    let scratch = tempfile::tempdir().map_err(BenchError::Temporary)?;
    let peer = match bench.peer("spec", &[]) {
        Ok(mut peer) => {
            prepare(&mut peer, scratch.path(), case)?;
            Ok(peer)
        }
        Err(error) => Err(error),
    };
    let command = format!("{} {} {}", case.done.name(), case.together, bench.slice_ms);
    let ours = || table.run(bench.slice_ms);
    bench.compare(bench.pairs, peer, ours, |peer| Ok(peer.ask(&command)?))
}

impl MatchKind {
    fn name(self) -> &'static str {
        match self {
            MatchKind::Exact => "exact",
            MatchKind::Prefix => "prefix",
            MatchKind::Wildcard => "wildcard",
        }
    }

    /// Values, and how many of their bits count, for each field of the key of entry `index`. Of
    /// 65,536 one after the other no two are the same.
    fn fields(self, index: u32) -> Vec<(u64, u32)> {
        let first = |bits: u32, number: u32| {
            u64::from(number.wrapping_mul(ODD).checked_shl(32 - bits).unwrap_or(0))
        };
        let at = index as usize;
        match self {
            MatchKind::Exact => vec![(mix(index.into()) >> 16, 48)],
            MatchKind::Prefix => {
                let bits = LENGTHS[at % LENGTHS.len()];
                vec![(first(bits, index), bits)]
            }
            MatchKind::Wildcard => {
                let (of_src, of_dst) = (SOURCES[at % 8], DESTINATIONS[at / 8 % 8]);
                vec![(first(of_src, index ^ 0x5555), of_src), (first(of_dst, index), of_dst)]
            }
        }
    }

    fn key(self, index: u32) -> Key {
        let part = |(value, bits): (u64, u32)| match self {
            MatchKind::Exact => Part::exact(value.to_be_bytes()[2..].to_vec()),
            _ => Part::prefix(&(value as u32).to_be_bytes(), bits),
        };
        self.fields(index).into_iter().map(part).collect()
    }

    fn priority(self, index: u32) -> u32 {
        if self == MatchKind::Wildcard { index % 1_000 } else { 0 }
    }
}

impl EntryChange {
    fn name(self) -> &'static str {
        match self {
            EntryChange::Modify => "modify",
            EntryChange::Renew => "renew",
        }
    }
}

/// A table whose entries change.
struct ChangingTable {
    case: Case,
    number: usize,
    pipeline: Pipeline,
    worker: Worker,
    region: Arc<Region>,
    /// The oldest entry, or the one that is modified next.
    next: u32,
    /// How often all were modified.
    round: u32,
}

impl ChangingTable {
    fn new(case: Case) -> Result<ChangingTable, BenchError> {
        let program = Program::read(PROGRAM)?;
        let number = program.table_number(case.kind.name())?;
        let pipeline = Pipeline::new(program)?;
        let worker = pipeline.worker();
        let (region, _) = Region::new(1, 64)?;
        let mut table = ChangingTable { case, number, pipeline, worker, region, next: 0, round: 0 };
        for index in 0..case.entries {
            let entry = table.entry(index, 0);
            table.pipeline.change(&[Change::Add { table: number, entry }])?;
            if index.is_multiple_of(MADE) {
                table.pass();
            }
        }
        while !table.pipeline.run_housekeeping(MADE as usize) {
            table.pass();
        }
        Ok(table)
    }

    fn entry(&self, index: u32, round: u32) -> Entry {
        let port = index.wrapping_add(round) % 256;
        let does = Invocation { action: 0, arguments: vec![port.to_be_bytes().to_vec()] };
        let Case { kind, .. } = self.case;
        Entry { key: kind.key(index), priority: kind.priority(index), does }
    }

    /// The worker comes by.
    fn pass(&mut self) {
        self.worker.run(&self.region, &mut [], 0, &mut [], |_, _| {});
    }

    /// The next changes, `MADE` or as many as a transaction has.
    fn make(&mut self) -> Vec<Change> {
        let (table, together) = (self.number, self.case.together);
        let mut changes = Vec::new();
        match self.case.done {
            EntryChange::Modify => {
                for _ in 0..MADE.max(together) {
                    let entry = self.entry(self.next, self.round + 1);
                    changes.push(Change::Modify { table, entry });
                    self.next = (self.next + 1) % self.case.entries;
                    self.round += u32::from(self.next == 0);
                }
            }
            // Those that go first, so that there is room.
            EntryChange::Renew => {
                let half = (together / 2).max(1);
                for _ in 0..(MADE / 2 / half).max(1) {
                    for index in self.next..self.next + half {
                        changes.push(Change::Delete { table, key: self.case.kind.key(index) });
                    }
                    for index in self.next..self.next + half {
                        let entry = self.entry(index + self.case.entries, 0);
                        changes.push(Change::Add { table, entry });
                    }
                    self.next += half;
                }
            }
        }
        changes
    }

    fn run(&mut self, slice_ms: u64) -> Result<Answer, BenchError> {
        let mut answer = Answer { ops: 0, ns: 0, rest: Vec::new() };
        while answer.ns < slice_ms * 1_000_000 {
            let changes = self.make();
            let start = Instant::now();
            for changes in changes.chunks(self.case.together as usize) {
                self.pipeline.change(changes)?;
            }
            self.pass();
            answer.ns += start.elapsed().as_nanos() as u64;
            answer.ops += changes.len() as u64;
        }
        let (hits, expected) = (self.pipeline.entries(self.number), self.case.entries);
        match hits == expected as usize {
            true => Ok(answer),
            false => {
                let (hits, expected) = (hits as u64, expected.into());
                Err(BenchError::Hits { hits, expected, lookups: answer.ops })
            }
        }
    }
}

/// Has a peer load the program and the entries, and those that are to come.
fn prepare(peer: &mut Peer, directory: &Path, case: Case) -> Result<(), BenchError> {
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).map_err(BenchError::Temporary)?;
        Ok::<_, BenchError>(path.display().to_string())
    };
    let lines = |indices: std::ops::Range<u32>, round: u32| {
        indices.map(|index| line(case.kind, index, round)).collect::<String>()
    };
    let first = lines(0..case.entries, 0);
    let later = match case.done {
        EntryChange::Modify => [lines(0..case.entries, 1), first.clone()].concat(),
        // Round and round: it keeps nothing of those that have gone.
        EntryChange::Renew => [first.clone(), lines(case.entries..4 * case.entries, 0)].concat(),
    };
    let name = case.kind.name();
    peer.tell(&format!("load {}", write("entries.spec", PROGRAM)?))?;
    peer.tell(&format!("entries {name} {}", write("entries", &first)?))?;
    peer.tell("commit")?;
    peer.tell(&format!("changes {name} {} {}", write("changes", &later)?, case.entries))?;
    Ok(())
}

/// An entry as the peer reads it.
fn line(kind: MatchKind, index: u32, round: u32) -> String {
    let mut line = "match".to_owned();
    for (value, bits) in kind.fields(index) {
        // A string takes whatever is written to it.
        let _ = match kind {
            MatchKind::Exact => write!(line, " {value:#x}"),
            _ => write!(line, " {value:#x}/{:#x}", u32::MAX.checked_shl(32 - bits).unwrap_or(0)),
        };
    }
    if kind == MatchKind::Wildcard {
        let _ = write!(line, " priority {}", kind.priority(index));
    }
    let _ = writeln!(line, " action go port {}", index.wrapping_add(round) % 256);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [MatchKind; 3] = [MatchKind::Exact, MatchKind::Prefix, MatchKind::Wildcard];

    fn case(kind: MatchKind, done: EntryChange, together: u32) -> Case {
        Case { kind, done, entries: 500, together }
    }

    #[test]
    fn no_two_of_65_536_keys_are_the_same() {
        for kind in KINDS {
            for first in [0, 12_345, 1 << 20] {
                let keys = (first..first + 65_536).map(|index| kind.fields(index));
                let keys: std::collections::HashSet<_> = keys.collect();
                assert_eq!(keys.len(), 65_536, "{kind:?}");
            }
        }
    }

    #[test]
    fn all_changes_are_carried_out_and_the_table_keeps_its_size() {
        for kind in KINDS {
            for (done, together) in [
                (EntryChange::Modify, 1),
                (EntryChange::Modify, 1_000),
                (EntryChange::Renew, 1),
                (EntryChange::Renew, 1_000),
            ] {
                let mut table =
                    ChangingTable::new(Case { entries: 1_500, ..case(kind, done, together) })
                        .unwrap();
                let answer = table.run(1).unwrap();
                assert!(answer.ops > 0 && answer.ops.is_multiple_of(1_000), "{answer:?}");
                assert_eq!(table.pipeline.entries(table.number), 1_500);
            }
        }
    }

    #[test]
    fn the_peer_carries_the_same_out() {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
        let bench = Bench { core: 0, other: None, pairs: 1, peers, slice_ms: 1 };
        for kind in KINDS {
            for (done, together) in [(EntryChange::Modify, 1), (EntryChange::Renew, 100)] {
                let measured = beside(&bench, case(kind, done, together)).unwrap();
                if let Slices::Alone { missing, .. } = measured.slices {
                    println!("SKIP the_peer_carries_the_same_out: {missing}");
                    return;
                }
            }
        }
    }
}
