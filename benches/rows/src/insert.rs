//! New keys into the table and new rules through the rule interface, against `rte_hash`.
//!
//! A whole fill takes longer than a slice may, so both sides fill in parts: each pair has the
//! same part of the same keys, and after the last one both begin anew.

use std::net::Ipv4Addr;
use std::time::Instant;

use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, Operation, RuleError, Template, TemplateAction, TemplateTable};
use niclab_packet::key::Key;
use niclab_peer::Answer;
use niclab_table::{Exact, Pages, QsbrDomain};

use crate::exact::{config, start};
use crate::sets::PacketValues;
use crate::{Bench, BenchError, Measured, keys};

/// Parts of a fill. `rte_hash` takes some 150 ms for a million keys.
const PARTS: u64 = 16;
/// Rules that are made of keys at a time.
const BULK: usize = 256;

/// How our table begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialSize {
    /// Empty; it grows.
    Growing,
    /// With room for all keys, as the peer's.
    Reserved,
}

/// The row of the table alone: `count` keys into an empty table.
pub fn keys(bench: &Bench, count: u64, room: InitialSize) -> Result<Measured, BenchError> {
    let mut fill = KeyFill::new(count, room);
    compare(bench, count, move |part| fill.add(part))
}

/// How rules come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleArrival {
    /// Each with its pattern and actions.
    Whole,
    /// As values of a template table, which are made of keys within the measured time.
    InTable,
}

/// The rows of rules: `count` exact 5-tuples of one mask, in bulk, into a group that is not the
/// root.
pub fn rules(bench: &Bench, count: u64, written: RuleArrival) -> Result<Measured, BenchError> {
    let (nic, table) = new_nic()?;
    let mut fill = RuleFill { nic, table, written };
    compare(bench, count, move |part| fill.add(part))
}

/// What one side adds in a pair.
struct PairAddition {
    keys: std::ops::Range<u64>,
    /// Into an empty table.
    first: bool,
}

fn compare(
    bench: &Bench,
    count: u64,
    mut add: impl FnMut(PairAddition) -> Result<Answer, BenchError>,
) -> Result<Measured, BenchError> {
    let length = count.div_ceil(PARTS);
    let peer = start(bench, Pages::Huge).and_then(|mut peer| {
        peer.tell(&format!("fill {} {count} d", 2 * count))?;
        Ok(peer)
    });
    let mut parts = (0..PARTS).cycle().map(|part| PairAddition {
        keys: part * length..((part + 1) * length).min(count),
        first: part == 0,
    });
    // Every part counts as often as any other.
    let pairs = bench.pairs.next_multiple_of(PARTS as usize);
    let ours = || match parts.next() {
        Some(part) => add(part),
        None => Ok(Answer { ops: 0, ns: 1, rest: Vec::new() }),
    };
    bench.compare(pairs, peer, ours, |peer| Ok(peer.ask(&format!("add {length}"))?))
}

/// Keys, and the table they go into.
struct KeyFill {
    list: Vec<[u64; 2]>,
    room: InitialSize,
    domain: QsbrDomain,
    table: Option<Exact<2>>,
}

impl KeyFill {
    fn new(count: u64, room: InitialSize) -> KeyFill {
        let list = (0..count).map(keys::key).collect();
        KeyFill { list, room, domain: QsbrDomain::new(), table: None }
    }

    fn add(&mut self, part: PairAddition) -> Result<Answer, BenchError> {
        if part.first {
            self.table = None;
        }
        let table = match &mut self.table {
            Some(table) => table,
            none => {
                let config =
                    config(self.list.len() as u64, Pages::Huge, self.room == InitialSize::Reserved);
                none.insert(Exact::new(config, &self.domain)?)
            }
        };
        let start = Instant::now();
        for index in part.keys.clone() {
            table.insert(&self.list[index as usize], index + 1)?;
        }
        Ok(answer(&part, start))
    }
}

/// A card, and the rules of the part that is added.
struct RuleFill {
    nic: Nic,
    table: TemplateTable,
    written: RuleArrival,
}

impl RuleFill {
    fn add(&mut self, part: PairAddition) -> Result<Answer, BenchError> {
        if part.first {
            (self.nic, self.table) = new_nic()?;
        }
        let patterns = part.keys.clone().map(pattern);
        let (mut rules, mut keys): (Vec<Rule<'_>>, Vec<Key>) = Default::default();
        match self.written {
            RuleArrival::Whole => rules.extend(patterns.map(|pattern| {
                let actions = &[Action::Queue(0)];
                Rule { group: 1, priority: 0, pattern, actions }
            })),
            RuleArrival::InTable => keys.extend(patterns.map(|pattern| *pattern.value())),
        }
        let whole: Vec<Operation<'_>> = rules.iter().map(Operation::Create).collect();
        let mut in_table = Vec::with_capacity(BULK);
        let start = Instant::now();
        let mut refused = run(&mut self.nic, &whole);
        for keys in keys.chunks(BULK) {
            in_table.clear();
            for key in keys {
                in_table.push(Operation::CreateIn(self.table.rule(key, &[0])?));
            }
            refused = refused.and(run(&mut self.nic, &in_table));
        }
        let answer = answer(&part, start);
        refused?;
        Ok(answer)
    }
}

fn run(nic: &mut Nic, operations: &[Operation<'_>]) -> Result<(), RuleError> {
    let mut refused = Ok(());
    nic.run(operations, |result| {
        if let Err(error) = result {
            refused = Err(error);
        }
    });
    refused
}

/// A card with a table for the rules of the row.
fn new_nic() -> Result<(Nic, TemplateTable), BenchError> {
    let mut nic = Nic::new(&NicConfig { seed: 42, ..NicConfig::default() })?;
    let table = table(&mut nic, 1)?;
    Ok((nic, table))
}

/// A table for rules of 5-tuples that give their queue.
pub fn table(nic: &mut Nic, group: u32) -> Result<TemplateTable, RuleError> {
    let actions = &[TemplateAction::Queue];
    nic.template_table(&Template { group, priority: 0, pattern: pattern(0), actions })
}

fn answer(part: &PairAddition, start: Instant) -> Answer {
    let ops = part.keys.end - part.keys.start;
    Answer { ops, ns: start.elapsed().as_nanos() as u64, rest: Vec::new() }
}

/// The 5-tuple of key `index`: UDP, addresses and ports from its 13 bytes.
pub fn tuple(index: u64) -> PacketValues {
    let [addresses, ports] = keys::key::<2>(index);
    let (sport, dport) = (ports as u16, (ports >> 16) as u16);
    [addresses as u32, (addresses >> 32) as u32, sport.into(), dport.into(), 17]
}

/// The key that a packet with the tuple of key `index` has.
pub fn line(index: u64) -> Key {
    *pattern(index).value()
}

/// What matches the tuple of key `index`.
pub fn pattern(index: u64) -> Pattern {
    let [src, dst, sport, dport, _] = tuple(index);
    let address = |bits: u32| Ipv4Addr::from_bits(bits).into();
    Pattern::any().src(address(src)).dst(address(dst)).udp().sport(sport as u16).dport(dport as u16)
}
