//! The writing end of a pruning filter.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::change::{Change, Grown, SetWriter};
use super::join::WIDE_MAX;
use super::reader::FilterReader;
use super::tree::{LINE_WORDS, Shape, TreeEntry, set_slot};
use super::{Bits, SharedFilter, Span};
use crate::error::FilterError;
use crate::hash::Mixing;
use crate::limits::{ADD_VISITS_MAX, RULE_TREE_WORDS, SETS_MAX, SIXTEEN_TREE_WORDS, TABLES_LIMIT};
use crate::memory::{Memory, OutOfMemory, Pages};
use crate::sync::AtomicU64;

/// Number of logarithms of the sizes of spans.
const WIDTHS: usize = 33;

/// The configuration of a filter.
#[derive(Debug, Clone, Copy)]
pub struct FilterConfig<const F: usize> {
    /// The fields of packets and rules.
    pub fields: [Bits; F],
    /// Tables are numbered below this.
    pub tables_max: usize,
    /// Number of rules to reserve memory for; it is touched when it is needed.
    pub rules_max: usize,
    /// Pages for the memory that every packet reads.
    pub pages: Pages,
}

/// A rule of the filter: its table, and the values that it matches in each field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterRule<const F: usize> {
    /// Number of its table.
    pub table: usize,
    /// One span for each field.
    pub spans: [Span; F],
}

/// A pruning filter, for its writer; see [`FilterReader`] for packets.
#[derive(Debug)]
pub struct Filter<const F: usize> {
    pub(super) shared: Arc<SharedFilter<F>>,
    pub(super) sets: SetWriter,
    tables_max: usize,
    /// The first free word of the tree.
    free: usize,
    /// The content of the filter, except spans of all values.
    held: HashSet<(u16, u16, Span), Mixing>,
    /// Tables of gathered spans, by field and span: the first table, and the others.
    gathered: HashMap<(u16, Span), (u16, Vec<u16>), Mixing>,
    /// Gathered spans by the logarithm of their number of values.
    widths: [Vec<(u16, Span)>; WIDTHS],
    /// Number of changes that gave tables to more values than requested.
    widened: usize,
    /// A buffer for the tables of a change.
    bitmap: Vec<u64>,
}

impl<const F: usize> Filter<F> {
    /// An empty filter: no packet has a candidate.
    ///
    /// # Errors
    /// If `tables_max` is zero or above [`TABLES_LIMIT`], or there is no memory.
    pub fn new(config: FilterConfig<F>) -> Result<Self, FilterError> {
        let FilterConfig { fields, tables_max, rules_max, pages } = config;
        if F == 0 || tables_max == 0 || tables_max > TABLES_LIMIT {
            return Err(FilterError::Tables { tables_max, limit: TABLES_LIMIT });
        }
        let mut slots = 0;
        let shapes = fields.map(|bits| {
            let shape = Shape::new(bits, slots);
            slots += shape.root_slots();
            shape
        });
        let (set_words, free) = (tables_max.div_ceil(64), slots.div_ceil(2));
        let set_shift = set_words.next_power_of_two().trailing_zeros();
        let node_words = fields.map(|bits| node_words(bits, rules_max)).iter().sum::<usize>();
        let refused = |refused: OutOfMemory| FilterError::OutOfMemory { bytes: refused.bytes };
        // A step reads a whole line, for any node.
        let tree_words = free.saturating_add(node_words).saturating_add(LINE_WORDS);
        let tree = Memory::zeroed(tree_words, pages).map_err(refused)?;
        // Few of them are read, and those are copied when intersections are computed: huge pages
        // would be a waste.
        let sets = Memory::zeroed(SETS_MAX << set_shift, Pages::Small).map_err(refused)?;
        let is_wide = |shape: &&Shape| shape.bits == Bits::ThirtyTwo;
        let wide = shapes.iter().take_while(is_wide).count().min(WIDE_MAX);
        let changes = AtomicU64::new(0);
        let shared = SharedFilter { tree, sets, shapes, wide, set_words, set_shift, changes };
        for (field, shape) in shapes.iter().enumerate().skip(1) {
            for at in shape.root..shape.root + shape.root_slots() {
                set_slot(shared.tree.words(), at, TreeEntry::of_set(field as u16));
            }
        }
        let sets = SetWriter::new(F, set_words);
        let (shared, held) = (Arc::new(shared), HashSet::default());
        let (gathered, widths) = (HashMap::default(), [const { Vec::new() }; WIDTHS]);
        let (widened, bitmap) = (0, vec![0; set_words]);
        Ok(Self { shared, sets, tables_max, free, held, gathered, widths, widened, bitmap })
    }

    /// The filter of these rules: as exact as a filter by fields can be, and smaller than one to
    /// which they were added one by one.
    ///
    /// # Errors
    /// As [`Filter::new`] and [`Filter::add`].
    pub fn build(
        config: FilterConfig<F>,
        rules: impl IntoIterator<Item = FilterRule<F>>,
    ) -> Result<Self, FilterError> {
        let mut filter = Self::new(config)?;
        for FilterRule { table, spans } in rules {
            filter.gather(table, &spans)?;
        }
        while filter.insert_gathered(usize::MAX) {}
        Ok(filter)
    }

    /// Gathers a rule for later: [`Filter::insert_gathered`] makes its table a candidate. To gather
    /// many rules first takes less time than [`Filter::add`], and makes a smaller filter.
    ///
    /// # Errors
    /// As [`Filter::add`].
    pub fn gather(&mut self, table: usize, spans: &[Span; F]) -> Result<(), FilterError> {
        self.check(table)?;
        for (field, span) in spans.iter().enumerate() {
            if let Some(span) = self.missing(field, *span, table) {
                let key = (field as u16, span);
                match self.gathered.entry(key) {
                    Slot::Occupied(gathered) => gathered.into_mut().1.push(table as u16),
                    Slot::Vacant(free) => {
                        free.insert((table as u16, Vec::new()));
                        self.widths[span.values_count().ilog2() as usize].push(key);
                    }
                }
            }
        }
        Ok(())
    }

    /// Inserts at most `spans` of the gathered spans; true if there may be more. Wide spans come
    /// first, so that the ranges inside them are split later, and only once.
    pub fn insert_gathered(&mut self, spans: usize) -> bool {
        for _ in 0..spans {
            let Some((field, span)) = self.widths.iter_mut().rev().find_map(Vec::pop) else {
                return false;
            };
            let Some((first, others)) = self.gathered.remove(&(field, span)) else { continue };
            let tables = std::iter::once(first).chain(others).map(usize::from);
            self.cover(usize::from(field), span, tables, ADD_VISITS_MAX);
        }
        true
    }

    /// Adds a rule: from now on its table is among the candidates of every packet that the rule
    /// matches. False if the filter had it.
    ///
    /// This is free if the table has rules with the same spans. A span of all values takes a store
    /// for each set of its field. Any other span takes a visit to each slot under it: a 32-bit
    /// field has one slot for each 2^16 values, and more where longer prefixes are. After
    /// [`ADD_VISITS_MAX`](crate::ADD_VISITS_MAX) visits the table becomes a candidate for every
    /// value of the field instead.
    ///
    /// # Errors
    /// If `table` is not below `tables_max`.
    pub fn add(&mut self, table: usize, spans: &[Span; F]) -> Result<bool, FilterError> {
        self.check(table)?;
        let mut is_new = false;
        for (field, span) in spans.iter().enumerate() {
            if let Some(span) = self.missing(field, *span, table) {
                self.cover(field, span, std::iter::once(table), ADD_VISITS_MAX);
                is_new = true;
            }
        }
        Ok(is_new)
    }

    /// A reader.
    #[must_use]
    pub fn reader(&self) -> FilterReader<F> {
        FilterReader::new(Arc::clone(&self.shared))
    }

    /// How often a table was given to more values than its rule has, because memory was short or
    /// the addition would have taken too long. If zero, the filter is exact for all rules that were
    /// ever added; a rebuild makes it zero.
    #[must_use]
    pub fn widened_count(&self) -> usize {
        self.widened
    }

    /// Number of sets of tables.
    #[must_use]
    pub fn sets_count(&self) -> usize {
        self.sets.count()
    }

    /// Memory that readers use, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        8 * (self.free + (self.sets.count() << self.shared.set_shift))
    }

    fn check(&self, table: usize) -> Result<(), FilterError> {
        let tables_max = self.tables_max;
        (table < tables_max).then_some(()).ok_or(FilterError::Table { table, tables_max })
    }

    /// The part of a span within the field, unless the table already has it, or has all values.
    fn missing(&mut self, field: usize, span: Span, table: usize) -> Option<Span> {
        if self.sets.is_everywhere(field, table) {
            return None;
        }
        let span = span.within(self.shared.shapes[field].bits)?;
        self.held.insert((field as u16, table as u16, span)).then_some(span)
    }

    fn cover(&mut self, field: usize, span: Span, of: impl Iterator<Item = usize>, visits: usize) {
        let Self { shared, sets, free, bitmap: tables, .. } = self;
        tables.fill(0);
        of.for_each(|table| tables[table / 64] |= 1 << (table % 64));
        let all = Span::ALL.within(shared.shapes[field].bits);
        if Some(span) == all {
            sets.add_everywhere(shared, field, tables);
            return;
        }
        let (cut, grown, last, exact) = (false, Grown::default(), None, true);
        let change = Change { shared, sets, free, field, tables, visits, cut, grown, last, exact };
        self.widened += usize::from(!change.cover(span));
    }
}

/// Words to reserve for the nodes of a field.
fn node_words(bits: Bits, rules_max: usize) -> usize {
    let words = rules_max.saturating_mul(RULE_TREE_WORDS);
    match bits {
        // It has no nodes, except in a model under loom, whose root is smaller.
        Bits::Eight => {
            if cfg!(loom) {
                words
            } else {
                0
            }
        }
        Bits::Sixteen => words.min(SIXTEEN_TREE_WORDS),
        // Entries cannot address more.
        Bits::ThirtyTwo => words.min(1 << 30),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::prune::Sets;

    fn filter() -> Filter<1> {
        let fields = [Bits::ThirtyTwo];
        let config = FilterConfig { fields, tables_max: 8, rules_max: 8, pages: Pages::Small };
        Filter::new(config).unwrap()
    }

    fn tables(filter: &Filter<1>, value: u32) -> u64 {
        let mut sets = [Sets::default()];
        filter.reader().find(&[[value]], &mut sets);
        filter.reader().word(&sets[0], 0)
    }

    #[test]
    fn without_numbers_sets_grow_where_they_are() {
        let mut filter = filter();
        filter.sets.limit(2);
        filter.add(0, &[Span { low: 10, high: 20 }]).unwrap();
        assert_eq!((tables(&filter, 15), filter.widened_count()), (0b1, 0));
        filter.add(1, &[Span { low: 15, high: 25 }]).unwrap();
        assert_eq!(filter.widened_count(), 1);
        assert_eq!([10, 15, 25].map(|value| tables(&filter, value)), [0b11, 0b11, 0b10]);
        assert_eq!(filter.sets_count(), 2);
    }

    #[test]
    fn sets_that_were_seen_before_take_no_number() {
        let mut filter = filter();
        for start in (0..1000).step_by(100) {
            filter.add(0, &[Span { low: start, high: start + 50 }]).unwrap();
            filter.add(1, &[Span { low: start + 30, high: start + 70 }]).unwrap();
        }
        assert_eq!(filter.sets_count(), 4, "none, one, the other, both");
    }
}
