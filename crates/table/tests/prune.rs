//! The pruning filter against its definition, field by field, and under concurrent additions.
#![cfg(not(loom))]

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex};

use niclab_table::{
    ADD_VISITS_MAX, BURST_MAX, Bits, Burst, Filter, FilterConfig, FilterError, FilterReader,
    FilterRule, Joined, Pages, Progress, Sets, Span, TABLES_LIMIT,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const FIELDS: [Bits; 3] = [Bits::ThirtyTwo, Bits::Sixteen, Bits::Eight];

type Rule = FilterRule<3>;

fn config(tables_max: usize, rules_max: usize) -> FilterConfig<3> {
    FilterConfig { fields: FIELDS, tables_max, rules_max, pages: Pages::Huge }
}

/// The tables that have a rule with the value, in every field.
fn definition(rules: &[Rule], values: [u32; 3]) -> Vec<usize> {
    let max = rules.iter().map(|rule| rule.table).max().map_or(0, |table| table + 1);
    let holds = |rule: &Rule, field: usize| {
        (rule.spans[field].low..=rule.spans[field].high).contains(&values[field])
    };
    let in_field = |table: usize, field: usize| {
        rules.iter().any(|rule| rule.table == table && holds(rule, field))
    };
    (0..max).filter(|table| (0..3).all(|field| in_field(*table, field))).collect()
}

fn candidates<const F: usize>(reader: &FilterReader<F>, values: [u32; F]) -> Vec<usize> {
    let mut sets = [Sets::default()];
    reader.find(&[values], &mut sets);
    reader.candidates(&sets[0]).collect()
}

/// All of the sets joined.
fn join(filter: &mut Filter<3>, tables: usize) -> Joined<3> {
    let mut joining = filter.join(tables).unwrap();
    while joining.proceed(filter, 100) == Progress::Open {}
    joining.into_joined()
}

/// [`candidates`] of many packets, with what was joined.
fn joined_candidates(
    reader: &FilterReader<3>,
    joined: &Joined<3>,
    tables: usize,
    values: &[[u32; 3]],
) -> Vec<Vec<usize>> {
    let (mut burst, mut all) = (Burst::default(), Vec::new());
    for values in values.chunks(BURST_MAX) {
        values.iter().enumerate().for_each(|(at, values)| burst.set(at, *values));
        reader.find_first(Some(joined), tables, &mut burst, values.len());
        for at in 0..values.len() {
            let mut found = Vec::new();
            while let (word, 1..) = burst.left(at) {
                let is_last = burst.is_last(at);
                while let (_, bits @ 1..) = burst.left(at) {
                    found.push(64 * word as usize + bits.trailing_zeros() as usize);
                    burst.drop_first(at);
                }
                reader.next_word(Some(joined), &mut burst, at, tables);
                assert!(!is_last || burst.left(at).1 == 0, "there is more behind the last word");
            }
            all.push(found);
        }
    }
    all
}

/// Values at and beside the borders of the rules' spans, and any.
fn probes(rules: &[Rule], seed: u64, count: usize) -> Vec<[u32; 3]> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut value = |field: usize| {
        let Span { low, high } = rules[random.random_range(0..rules.len())].spans[field];
        let value = match random.random_range(0..6) {
            0 => low,
            1 => high,
            2 => low.wrapping_sub(1),
            3 => high.wrapping_add(1),
            4 => random.random(),
            _ => random.random_range(low..=high),
        };
        value & FIELDS[field].value_max()
    };
    (0..count).map(|_| std::array::from_fn(&mut value)).collect()
}

/// Spans that crowd in a few blocks: prefixes of any length, ranges, single values.
fn span(bits: Bits) -> impl Strategy<Value = Span> {
    let base = prop_oneof![
        4 => (0..0x300_u32).prop_map(|low| 0x0a01_0000 | low),
        2 => (0..0x1_0000_u32).prop_map(|low| 0x0a01_0000 | low),
        1 => any::<u32>(),
    ];
    let value = base.prop_map(move |base| base & bits.value_max());
    let all = bits.count();
    prop_oneof![
        4 => (value.clone(), 0..=all).prop_map(move |(value, length)| {
            Span::prefix(bits, value, length)
        }),
        4 => (value.clone(), all - all / 8..=all).prop_map(move |(value, length)| {
            Span::prefix(bits, value, length)
        }),
        2 => (value.clone(), 0..300_u32).prop_map(move |(low, more)| {
            Span { low, high: low.saturating_add(more).min(bits.value_max()) }
        }),
        2 => value.prop_map(Span::one),
        1 => Just(Span::ALL),
    ]
}

fn rules(tables: usize, count: usize) -> impl Strategy<Value = Vec<Rule>> {
    let spans = (span(FIELDS[0]), span(FIELDS[1]), span(FIELDS[2]));
    let rule = (0..tables, spans)
        .prop_map(|(table, (one, two, three))| Rule { table, spans: [one, two, three] });
    prop::collection::vec(rule, 1..count)
}

fn check_equal(filter: &Filter<3>, rules: &[Rule], seed: u64) {
    let probes = probes(rules, seed, 150);
    let mut sets = vec![Sets::default(); probes.len()];
    let reader = filter.reader();
    reader.find(&probes, &mut sets);
    for (values, sets) in probes.iter().zip(&sets) {
        let found: Vec<_> = reader.candidates(sets).collect();
        assert_eq!(found, definition(rules, *values), "{values:x?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 100 }))]

    #[test]
    fn candidates_are_those_of_the_definition(
        built in rules(130, 250),
        added in rules(130, 100),
        seed in any::<u64>(),
    ) {
        let mut filter = Filter::build(config(130, 400), built.iter().copied()).unwrap();
        check_equal(&filter, &built, seed);
        let mut all = built;
        for rule in added {
            filter.add(rule.table, &rule.spans).unwrap();
            all.push(rule);
        }
        prop_assert_eq!(filter.widened_count(), 0);
        check_equal(&filter, &all, seed);
    }

    #[test]
    fn without_room_they_are_more_and_never_less(
        all in rules(64, 200),
        seed in any::<u64>(),
    ) {
        let mut filter = Filter::new(config(64, 1)).unwrap();
        for (count, rule) in all.iter().enumerate() {
            filter.add(rule.table, &rule.spans).unwrap();
            let exact = filter.widened_count() == 0;
            for values in probes(&all[..=count], seed ^ count as u64, 10) {
                let found = candidates(&filter.reader(), values);
                let expected = definition(&all[..=count], values);
                prop_assert!(expected.iter().all(|table| found.contains(table)));
                prop_assert!(!exact || found == expected);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 60 }))]

    /// Tables come that the copy does not know, and sets, and tables where they are.
    #[test]
    fn sets_joined_ahead_say_what_the_filter_says(
        built in rules(300, 150),
        added in rules(330, 60),
        known in 1..301_usize,
        seed in any::<u64>(),
    ) {
        let mut filter = Filter::build(config(330, 400), built.iter().copied()).unwrap();
        let joined = join(&mut filter, known);
        prop_assert_eq!(joined.tables(), known);
        prop_assert!(joined.is_whole(&filter, known) && !joined.is_whole(&filter, known + 1));
        let (reader, mut all) = (filter.reader(), built);
        for index in 0..=added.len() {
            let probes = probes(&all, seed ^ index as u64, 70);
            let found = joined_candidates(&reader, &joined, 330, &probes);
            for (values, found) in probes.iter().zip(found) {
                prop_assert_eq!(found, candidates(&reader, *values), "{:x?}", values);
            }
            if let Some(rule) = added.get(index) {
                filter.add(rule.table, &rule.spans).unwrap();
                all.push(*rule);
            }
        }
    }

    #[test]
    fn rules_gathered_first_lead_to_the_same_tables(
        gathered in rules(130, 200),
        seed in any::<u64>(),
    ) {
        let mut filter = Filter::new(config(130, 400)).unwrap();
        let (first, second) = gathered.split_at(gathered.len() / 2);
        for rule in first {
            filter.gather(rule.table, &rule.spans).unwrap();
        }
        filter.insert_gathered(3);
        for rule in second {
            filter.gather(rule.table, &rule.spans).unwrap();
        }
        while filter.insert_gathered(2) {}
        prop_assert!(!filter.insert_gathered(1));
        check_equal(&filter, &gathered, seed);
    }
}

#[test]
fn what_cannot_be_joined_is_refused() {
    let fields = [Bits::Sixteen, Bits::ThirtyTwo];
    let config = FilterConfig { fields, tables_max: 8, rules_max: 8, pages: Pages::Small };
    let mut filter = Filter::<2>::new(config).unwrap();
    filter.add(3, &[Span::one(7), Span::one(0x0a01_0102)]).unwrap();
    assert_eq!(candidates(&filter.reader(), [7, 0x0a01_0102]), [3]);
    assert!(filter.join(8).is_none(), "a wide field behind a narrow one");

    // 300 sets of each port are more combinations than are joined.
    let fields = [Bits::Sixteen, Bits::Sixteen];
    let config = FilterConfig { fields, tables_max: 600, rules_max: 600, pages: Pages::Small };
    let mut filter = Filter::<2>::new(config).unwrap();
    for table in 0..300 {
        let port = Span::one(table);
        filter.add(2 * table as usize, &[port, Span::ALL]).unwrap();
        filter.add(2 * table as usize + 1, &[Span::ALL, port]).unwrap();
    }
    let mut joining = filter.join(600).unwrap();
    let progress = (0..10_000).map(|_| joining.proceed(&filter, 100));
    assert_eq!(progress.into_iter().find(|p| *p != Progress::Open), Some(Progress::Refused));
}

/// Enough spans for every kind of node, and a filter that has no room for them.
#[test]
fn a_filter_without_room_says_so() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut filter = Filter::new(config(1024, 1)).unwrap();
    let mut rules = Vec::new();
    for table in 0..1024 {
        let value = 0x0a01_0000 | random.random_range(0..0x1_0000_u32);
        let rule = Rule { table, spans: [Span::one(value), Span::ALL, Span::ALL] };
        filter.add(table, &rule.spans).unwrap();
        rules.push(rule);
    }
    assert!(filter.widened_count() > 900, "{}", filter.widened_count());
    for rule in rules {
        assert!(candidates(&filter.reader(), [rule.spans[0].low, 7, 7]).contains(&rule.table));
    }
}

#[test]
fn a_span_of_all_values_is_exact_and_found_in_every_set() {
    let mut filter = Filter::new(config(200, 10)).unwrap();
    filter.add(5, &[Span::one(9), Span::ALL, Span::one(6)]).unwrap();
    filter.add(199, &[Span::ALL, Span::ALL, Span::ALL]).unwrap();
    filter.add(6, &[Span::one(10), Span::ALL, Span::one(6)]).unwrap();
    let reader = filter.reader();
    assert_eq!(candidates(&reader, [9, 65_535, 6]), [5, 199]);
    assert_eq!(candidates(&reader, [10, 0, 6]), [6, 199]);
    assert_eq!(candidates(&reader, [10, 0, 7]), [199]);
    assert_eq!(candidates(&reader, [8, 1, 7]), [199]);
    assert_eq!(filter.widened_count(), 0);
}

/// The longest span of an empty field is exact; with a fan under it there is more to visit than
/// an addition may.
#[test]
fn an_addition_that_would_be_too_long_is_cut() {
    let fields = [Bits::ThirtyTwo];
    let config = FilterConfig { fields, tables_max: 300, rules_max: 1000, pages: Pages::Huge };
    let mut filter = Filter::<1>::new(config).unwrap();
    let long = Span { low: 1, high: u32::MAX };
    filter.add(0, &[long]).unwrap();
    assert_eq!((long.high >> 16) as usize + 1, ADD_VISITS_MAX);
    assert_eq!(candidates(&filter.reader(), [0]), []);
    assert_eq!(candidates(&filter.reader(), [u32::MAX]), [0]);
    for value in 0..100 {
        filter.add(1, &[Span::one(0x0a01_0000 + 1000 * value)]).unwrap();
    }
    assert_eq!(filter.widened_count(), 0);
    filter.add(299, &[long]).unwrap();
    assert_eq!(filter.widened_count(), 1);
    assert_eq!(candidates(&filter.reader(), [0]), [299], "more than its span");
    assert_eq!(candidates(&filter.reader(), [0x0a01_0000 + 99_000]), [0, 1, 299]);
    assert_eq!(candidates(&filter.reader(), [u32::MAX]), [0, 299]);
}

#[test]
fn what_cannot_be_is_refused() {
    for tables_max in [0, TABLES_LIMIT + 1] {
        let error = Filter::new(config(tables_max, 1)).unwrap_err();
        assert_eq!(error, FilterError::Tables { tables_max, limit: TABLES_LIMIT });
    }
    let mut filter = Filter::new(config(65, 1)).unwrap();
    let refused = Err(FilterError::Table { table: 65, tables_max: 65 });
    assert_eq!(filter.add(65, &[Span::ALL; 3]), refused);
    assert_eq!(candidates(&filter.reader(), [0; 3]), [], "nothing has changed");
    // Values that the field does not have: the rule matches nothing.
    filter.add(64, &[Span::ALL, Span::one(0x1_0000), Span::ALL]).unwrap();
    assert_eq!(candidates(&filter.reader(), [0; 3]), []);
}

#[test]
fn a_mask_that_is_shorter_has_a_wider_span() {
    let ten = Span::prefix(Bits::ThirtyTwo, 0x0a01_0203, 8);
    assert_eq!(ten, Span { low: 0x0a00_0000, high: 0x0aff_ffff });
    assert_eq!(Span::prefix(Bits::ThirtyTwo, 5, 0), Span::ALL);
    assert_eq!(Span::prefix(Bits::ThirtyTwo, 5, 32), Span::one(5));
    assert_eq!(Span::prefix(Bits::Sixteen, 0x1234, 12), Span { low: 0x1230, high: 0x123f });
    assert_eq!(Span::prefix(Bits::Eight, 6, 9), Span::one(6));
}

// ---- readers beside the writer ----------------------------------------------------------------

const ADDED: usize = if cfg!(miri) { 60 } else { 30_000 };

/// Rules whose spans fill one block after another: every one makes another node of a block that
/// the rules before it are in.
fn crowding(seed: u64) -> Vec<Rule> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut span = |bits: Bits, index: usize| {
        let block = 0x0a01_0000 + ((index as u32 / 24) << 16);
        let value = (block | random.random_range(0..0x800)) & bits.value_max();
        match random.random_range(0..10) {
            0 => Span::ALL,
            1 => Span::prefix(bits, value, random.random_range(bits.count() / 2..bits.count())),
            _ => Span::one(value),
        }
    };
    (0..ADDED)
        .map(|index| Rule {
            table: index * 512 / ADDED,
            spans: FIELDS.map(|bits| span(bits, index)),
        })
        .collect()
}

/// Asks for packets inside rules whose addition was announced; how often one's table was missing.
fn follow(reader: &FilterReader<3>, rules: &[Rule], announced: &AtomicUsize) -> usize {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut missing, mut values, mut sets) = (0, [[0; 3]; 64], [Sets::default(); 64]);
    loop {
        let count = announced.load(Acquire);
        if count > rules.len() {
            return missing;
        }
        // Half of them among the latest, around which things still move.
        let recent = count.saturating_sub(20);
        let chosen: [&Rule; 64] = std::array::from_fn(|at| {
            &rules[random.random_range(if at % 2 == 0 { recent } else { 0 }..count)]
        });
        for (values, rule) in values.iter_mut().zip(chosen) {
            *values = rule.spans.map(|span| random.random_range(span.low..=span.high));
        }
        reader.find(&values, &mut sets);
        for (rule, sets) in chosen.iter().zip(&sets) {
            missing +=
                usize::from(reader.word(sets, rule.table / 64) >> (rule.table % 64) & 1 == 0);
        }
    }
}

#[test]
fn a_rule_is_never_missed_once_its_addition_has_returned() {
    for seed in 0..if cfg!(miri) { 1 } else { 8 } {
        let rules = crowding(seed);
        let mut filter = Filter::new(config(512, ADDED)).unwrap();
        let announced = AtomicUsize::new(1);
        filter.add(rules[0].table, &rules[0].spans).unwrap();
        let readers = [filter.reader(), filter.reader()];
        let missing: usize = std::thread::scope(|scope| {
            let following =
                readers.each_ref().map(|reader| scope.spawn(|| follow(reader, &rules, &announced)));
            for (index, rule) in rules.iter().enumerate().skip(1) {
                filter.add(rule.table, &rule.spans).unwrap();
                announced.store(index + 1, Release);
            }
            announced.store(rules.len() + 1, Release);
            following.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(missing, 0, "packets without the table of a rule they are in");
    }
}

/// [`follow`], with whatever was joined last.
fn follow_joined(
    reader: &FilterReader<3>,
    joined: &Mutex<Arc<Joined<3>>>,
    rules: &[Rule],
    announced: &AtomicUsize,
) -> usize {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut missing = 0;
    loop {
        let last = Arc::clone(&joined.lock().unwrap());
        let count = announced.load(Acquire);
        if count > rules.len() {
            return missing;
        }
        let recent = count.saturating_sub(20);
        let chosen: [&Rule; 64] = std::array::from_fn(|at| {
            &rules[random.random_range(if at % 2 == 0 { recent } else { 0 }..count)]
        });
        let values =
            chosen.map(|rule| rule.spans.map(|span| random.random_range(span.low..=span.high)));
        let found = joined_candidates(reader, &last, 512, &values);
        let lacks = |(rule, found): &(&&Rule, Vec<usize>)| !found.contains(&rule.table);
        missing += chosen.iter().zip(found).filter(lacks).count();
    }
}

#[test]
fn a_rule_is_never_missed_by_what_was_joined_before_or_beside_its_addition() {
    let rules = &crowding(9)[..if cfg!(miri) { 60 } else { 8_000 }];
    let mut filter = Filter::new(config(512, ADDED)).unwrap();
    let announced = AtomicUsize::new(1);
    filter.add(rules[0].table, &rules[0].spans).unwrap();
    let joined = Mutex::new(Arc::new(join(&mut filter, 1)));
    let reader = filter.reader();
    let missing = std::thread::scope(|scope| {
        let following = scope.spawn(|| follow_joined(&reader, &joined, rules, &announced));
        let mut joining = None;
        for (index, rule) in rules.iter().enumerate().skip(1) {
            filter.add(rule.table, &rule.spans).unwrap();
            announced.store(index + 1, Release);
            let mut under_way = match joining.take() {
                Some(under_way) => under_way,
                None => filter.join(rule.table + 1).unwrap(),
            };
            match under_way.proceed(&filter, 4_000) {
                Progress::Done => *joined.lock().unwrap() = Arc::new(under_way.into_joined()),
                Progress::Open => joining = Some(under_way),
                _ => {}
            }
        }
        announced.store(rules.len() + 1, Release);
        following.join().unwrap()
    });
    assert_eq!(missing, 0, "packets without the table of a rule they are in");
}
