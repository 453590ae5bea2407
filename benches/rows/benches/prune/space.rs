//! The tuple space that a set of rules makes.

use std::collections::HashMap;

use niclab_bench::sets::{PacketValues, Rule, mask};
use niclab_table::FilterRule;

fn masked(packet: &PacketValues, mask: &[u32; 5]) -> PacketValues {
    std::array::from_fn(|field| match mask[field] {
        0 => 0,
        bits => packet[field] >> (32 - bits),
    })
}

/// The tables of a set of rules, the one with the best rule first.
pub struct Space {
    tables: Vec<Table>,
    /// For the filter, in the order of the rules.
    pub rules: Vec<FilterRule<5>>,
}

struct Table {
    mask: [u32; 5],
    best: usize,
    /// Rules by key, the best first.
    rules: HashMap<PacketValues, Vec<usize>>,
}

impl Space {
    pub fn new(rules: &[Rule]) -> Self {
        let (mut tables, mut by_mask): (Vec<Table>, _) = (Vec::new(), HashMap::new());
        let mut numbered = Vec::new();
        for (priority, rule) in rules.iter().enumerate() {
            let mask = mask(rule);
            let number = *by_mask.entry(mask).or_insert_with(|| {
                tables.push(Table { mask, best: priority, rules: HashMap::new() });
                tables.len() - 1
            });
            let key = masked(&rule.map(|span| span.low), &mask);
            tables[number].rules.entry(key).or_default().push(priority);
            numbered.push(FilterRule { table: number, spans: *rule });
        }
        Self { tables, rules: numbered }
    }

    pub fn tables_count(&self) -> usize {
        self.tables.len()
    }

    /// Probes tables in the order given until the best rule is known; how many, and which rule.
    pub fn probe(
        &self,
        packet: &PacketValues,
        order: impl Iterator<Item = usize>,
    ) -> (usize, Option<usize>) {
        let (mut probes, mut found) = (0, None);
        for number in order {
            let table = &self.tables[number];
            if found.is_some_and(|found| found < table.best) {
                break;
            }
            probes += 1;
            let chain = table.rules.get(&masked(packet, &table.mask)).map_or(&[][..], |c| c);
            let inside = |rule: &usize| {
                let spans = self.rules[*rule].spans;
                spans.iter().zip(packet).all(|(span, value)| (span.low..=span.high).contains(value))
            };
            let here = chain.iter().copied().find(inside);
            found = found.into_iter().chain(here).min();
        }
        (probes, found)
    }
}
