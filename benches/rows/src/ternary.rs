//! Two classifiers on the same rules: the card's, and the ternary table of `niclab-table`.
//!
//! Both are tuple spaces of the same parts. The card's classifier has ranges of ports, and one
//! table for the keys of many masks. The other has masks only, so a range is as many entries as it
//! has prefixes, as in a TCAM. The card parses the headers of frames; the table gets the keys. Both
//! must find the same rule for every packet before anything is timed.

use std::hint::black_box;
use std::time::Instant;

use niclab_nic::limits::BURST;
use niclab_pairing::{alternate, slice};
use niclab_peer::Answer;
use niclab_table::{
    Field, Hit, Participant, QsbrDomain, Span, Ternary, TernaryConfig, TernaryError, TernaryReader,
    TernaryRule, pack_key,
};

use crate::acl::{Root, built, packets};
use crate::sets::{PacketValues, Rule};
use crate::{Bench, BenchError, Measured, Slices};

/// Entries that the table takes.
const ENTRIES_MAX: usize = 1 << 20;
/// Steps of housekeeping at a time.
const HOUSEKEEPING_STEPS: usize = 1_000;

/// The row: a set of rules, the best first, and `count` packets that go round.
pub fn classify(bench: &Bench, rules: &[Rule], count: usize) -> Result<Measured, BenchError> {
    let packets = packets(rules, count);
    let mut card = match Root::new(rules, &packets)? {
        Ok(card) => card,
        Err(why) => return Ok(Measured::of(Slices::NotSupported(why))),
    };
    let mut table = match Table::new(rules, &packets) {
        Ok(table) => table,
        Err(why) => return Ok(Measured::of(Slices::NotSupported(why.to_string()))),
    };
    let found = card.find()?.into_iter().zip(table.find());
    if let Some((packet, (ours, theirs))) = found.enumerate().find(|(_, (a, b))| a != b) {
        return Err(BenchError::Rules { packet, ours, theirs });
    }
    let pairs = alternate(
        bench.pairs,
        || Ok::<_, BenchError>(card.frames.classify(&mut card.worker, bench.slice_ms)),
        || Ok(table.look_up(bench.slice_ms)),
    )?;
    let built = format!("{} rules: {}; the table {}", rules.len(), card.built, table.built);
    Ok(Measured::of(Slices::Paired(pairs)).with(built))
}

/// A ternary table with the rules, and the keys of the packets.
struct Table {
    reader: TernaryReader<2>,
    participant: Participant,
    _table: Ternary<2>,
    keys: Vec<[u64; 2]>,
    at: usize,
    /// Entries, masks, and the time and memory of the build, in words.
    built: String,
}

impl Table {
    fn new(rules: &[Rule], packets: &[PacketValues]) -> Result<Table, TernaryError> {
        let fields =
            &[Field::bytes(0, 4), Field::bytes(4, 4), Field::bytes(8, 2), Field::bytes(10, 2)];
        let domain = QsbrDomain::new();
        let config = TernaryConfig { capacity_max: ENTRIES_MAX, fields, seed: 42 };
        let start = Instant::now();
        let mut table = Ternary::<2>::new(config, &domain)?;
        for (number, rule) in (0..).zip(rules) {
            for [key, mask] in entries(rule) {
                table.insert(&TernaryRule { key, mask, priority: number, value: number })?;
            }
        }
        while !table.run_housekeeping(HOUSEKEEPING_STEPS) {}
        let took = built(start.elapsed().as_nanos() as u64, table.bytes() as u64);
        let built = format!("{} entries, {} masks, {took}", table.len(), table.masks_count());
        let keys = packets.iter().map(|packet| key(*packet)).collect::<Vec<_>>();
        let whole = keys.len() / BURST * BURST;
        let (reader, participant) = (table.reader(), domain.register_reader());
        Ok(Table { reader, participant, _table: table, keys: keys[..whole].into(), at: 0, built })
    }

    /// The next burst of keys.
    fn burst(&mut self, hits: &mut [Option<Hit>; BURST]) {
        let keys = &self.keys[self.at..][..BURST];
        self.at = (self.at + BURST) % self.keys.len();
        self.reader.lookup_bulk(&self.participant, keys, hits);
        self.participant.quiescent();
    }

    /// The number of each packet's rule, from 1.
    fn find(&mut self) -> Vec<u32> {
        let mut hits = [None; BURST];
        let mut found = Vec::with_capacity(self.keys.len());
        for _ in 0..self.keys.len() / BURST {
            self.burst(&mut hits);
            found.extend(hits.iter().map(|hit| hit.map_or(0, |hit| hit.value + 1)));
        }
        found
    }

    fn look_up(&mut self, slice_ms: u64) -> Answer {
        let mut hits = [None; BURST];
        slice(slice_ms, || {
            for _ in 0..16 {
                self.burst(&mut hits);
                black_box(&hits);
            }
            16 * BURST as u64
        })
    }
}

/// The words of five fields in network order.
fn key([src, dst, sport, dport, protocol]: PacketValues) -> [u64; 2] {
    let mut bytes = [0; 13];
    bytes[0..4].copy_from_slice(&src.to_be_bytes());
    bytes[4..8].copy_from_slice(&dst.to_be_bytes());
    bytes[8..10].copy_from_slice(&(sport as u16).to_be_bytes());
    bytes[10..12].copy_from_slice(&(dport as u16).to_be_bytes());
    bytes[12] = protocol as u8;
    pack_key(&bytes).unwrap_or_default()
}

/// A rule as keys and masks: one of each for each pair of prefixes of its ranges.
fn entries(&[src, dst, sport, dport, protocol]: &Rule) -> Vec<[[u64; 2]; 2]> {
    let common = |span: Span| !(span.low ^ span.high);
    let mut entries = Vec::new();
    for (from, from_mask) in prefixes(sport) {
        for (to, to_mask) in prefixes(dport) {
            let value = [src.low, dst.low, from, to, protocol.low];
            let mask = [common(src), common(dst), from_mask, to_mask, common(protocol)];
            entries.push([key(value), key(mask)]);
        }
    }
    entries
}

/// The fewest prefixes of 16 bits that have the values of a range, each with its mask.
fn prefixes(range: Span) -> Vec<(u32, u32)> {
    let (mut low, mut prefixes) = (range.low, Vec::new());
    while low <= range.high {
        let aligned = low.trailing_zeros().min(16);
        let bits = (0..=aligned).rev().find(|bits| low + (1 << bits) - 1 <= range.high);
        let size = 1 << bits.unwrap_or(0);
        prefixes.push((low, 0xffff & !(size - 1)));
        low += size;
    }
    prefixes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::generate;

    #[test]
    fn prefixes_of_a_range_have_its_values_and_no_others() {
        for (low, high, count) in [(0, 0xffff, 1), (1024, 0xffff, 6), (80, 80, 1), (1, 0xfffe, 30)]
        {
            let prefixes = prefixes(Span { low, high });
            assert_eq!(prefixes.len(), count, "{low} to {high}");
            for value in 0..=0xffff {
                let has = prefixes.iter().filter(|(of, mask)| value & mask == *of).count();
                assert_eq!(has, usize::from((low..=high).contains(&value)), "{value}");
            }
        }
    }

    #[test]
    fn both_find_the_same_rules_and_both_are_timed() {
        let bench = Bench { core: 0, pairs: 2, slice_ms: 1, ..Bench::default() };
        let measured = classify(&bench, &generate(300), 1_024).unwrap();
        let Slices::Paired(pairs) = measured.slices else { panic!("{:?}", measured.notes) };
        assert!(pairs.ours.iter().chain(&pairs.theirs).all(|rate| *rate > 0.0));
    }
}
