//! Models of the lock-free parts, every interleaving up to a bound on preemptions:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p niclab-table --release --test loom
//! ```
//!
//! Writer and reader are both threads of their own: the model checker tries next to nothing
//! when one of them is its main thread.
#![cfg(loom)]

#[path = "loom/masks.rs"]
mod masks;

use std::sync::Arc;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use loom::model::Builder;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use niclab_table::{
    Bits, BloomFilter, Burst, Config, Exact, Field, Filter, FilterConfig, Pages, Participant,
    Progress, QsbrDomain, Reader, Sets, Span, Ternary, TernaryConfig, TernaryRule, Transactions,
    WordUpdate,
};

fn model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = Some(preemptions);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        body();
    });
    let runs = runs.load(Relaxed);
    assert!(runs > 20, "{runs} interleavings are too few to have tried anything");
}

/// Keys whose home is in the first half of a table.
fn low_keys(reader: &Reader<1>) -> impl Iterator<Item = [u64; 1]> {
    (1u64..).map(|word| [word]).filter(|key| reader.hash(key) >> 63 == 0)
}

/// Looks a key up twice, with a quiescent state between, on a thread of its own.
fn twice(
    reader: &Reader<1>,
    mut participant: Participant,
    key: [u64; 1],
) -> thread::JoinHandle<(Option<u64>, Option<u64>)> {
    let reader = reader.clone();
    thread::spawn(move || {
        let first = reader.lookup(&participant, &key);
        participant.quiescent();
        (first, reader.lookup(&participant, &key))
    })
}

/// A table in the middle of growth, none of its two old homes moved, and a key of the first.
fn growing(domain: &QsbrDomain) -> (Exact<1>, [u64; 1]) {
    let config = Config { reserve: 2, ..Config::growing(100, 1) };
    let mut table = Exact::<1>::new(config, domain).unwrap();
    let watched = low_keys(&table.reader()).next().unwrap();
    table.insert(&watched, 1).unwrap();
    for word in 1000..1004 {
        table.insert(&[word], 9).unwrap();
    }
    (table, watched)
}

#[test]
fn an_inserted_entry_is_complete_and_stays() {
    model(3, || {
        let domain = QsbrDomain::new();
        let mut table = Exact::<1>::new(Config::reserved(1, 1), &domain).unwrap();
        let (reader, participant) = (table.reader(), domain.register_reader());
        let writer = thread::spawn(move || {
            table.insert(&[7], 70).unwrap();
            table
        });
        let seen = twice(&reader, participant, [7]);
        let seen = seen.join().unwrap();
        assert!(
            matches!(seen, (None, None | Some(70)) | (Some(70), Some(70))),
            "{seen:?} of a key that is inserted once"
        );
        drop(writer.join().unwrap());
    });
}

#[test]
fn an_update_during_growth_never_goes_back() {
    model(2, || {
        let domain = QsbrDomain::new();
        let (mut table, watched) = growing(&domain);
        let (reader, participant) = (table.reader(), domain.register_reader());
        let writer = thread::spawn(move || {
            table.run_housekeeping(1);
            assert_eq!(table.update(&watched, 2), Some(1));
            table.run_housekeeping(1);
            table
        });
        let seen = twice(&reader, participant, watched);
        let (Some(first), Some(second)) = seen.join().unwrap() else {
            panic!("a live key is never missed")
        };
        assert!(first <= second, "{second} was seen after {first}");
        let mut table = writer.join().unwrap();
        assert_eq!(table.get(&watched), Some(2));
        assert!(table.run_housekeeping(10) || table.run_housekeeping(10));
        assert_eq!(table.reader().lookup(&domain.register_reader(), &watched), Some(2));
    });
}

/// One key is destroyed, another takes the slot when it may: a reader of the first sees it or
/// nothing.
fn reuse(reader_starts_offline: bool) {
    model(3, move || {
        let domain = QsbrDomain::new();
        let mut table = Exact::<1>::new(Config::reserved(1, 1), &domain).unwrap();
        table.insert(&[7], 70).unwrap();
        let (reader, mut participant) = (table.reader(), domain.register_reader());
        if reader_starts_offline {
            participant.offline();
        }
        let writer = thread::spawn(move || {
            assert_eq!(table.remove(&[7]), Some(70));
            table.run_housekeeping(0);
            table.insert(&[8], 80).unwrap();
            table
        });
        let seen = thread::spawn(move || {
            if reader_starts_offline {
                participant.online();
            } else {
                participant.quiescent();
            }
            reader.lookup(&participant, &[7])
        });
        let seen = seen.join().unwrap();
        assert!(matches!(seen, None | Some(70)), "{seen:?} is the value of another key");
        drop(writer.join().unwrap());
    });
}

#[test]
fn a_slot_is_reused_after_a_quiescent_state_only() {
    reuse(false);
}

#[test]
fn a_slot_is_not_reused_under_a_reader_that_comes_online() {
    reuse(true);
}

#[test]
fn a_removed_key_is_never_found_again() {
    model(2, || {
        let domain = QsbrDomain::new();
        let (mut table, watched) = growing(&domain);
        let (reader, participant) = (table.reader(), domain.register_reader());
        let writer = thread::spawn(move || {
            table.run_housekeeping(1);
            assert_eq!(table.remove(&watched), Some(1));
            table
        });
        let seen = twice(&reader, participant, watched);
        let (first, second) = seen.join().unwrap();
        assert!(first.is_some() || second.is_none(), "it came back");
        drop(writer.join().unwrap());
    });
}

/// Two places with the value of each state.
type Places = Arc<[AtomicU64; 2]>;

/// Brings both places to a value in one transaction, then folds and releases what may be.
fn bring(transactions: &mut Transactions, domain: &QsbrDomain, places: &Places, value: u64) {
    transactions.open();
    let mut cells = Vec::new();
    for place in places.iter() {
        let word = match transactions.update(place.load(Relaxed), value) {
            WordUpdate::StoreReference(id, word) => {
                cells.push(id);
                word
            }
            other => panic!("{other:?}"),
        };
        place.store(word, Release);
    }
    let stamp = transactions.commit();
    if domain.passed() >= stamp {
        for (place, id) in places.iter().zip(cells) {
            if let Some(word) = transactions.fold(place.load(Relaxed), id) {
                place.store(word, Release);
            }
            transactions.release(id);
        }
    }
}

#[test]
fn a_transaction_is_seen_whole_or_not_at_all() {
    model(3, || {
        let domain = QsbrDomain::new();
        let mut transactions = Transactions::new(&domain);
        let places: Places = Arc::new([AtomicU64::new(1), AtomicU64::new(1)]);
        let (versions, mut participant) = (transactions.versions(), domain.register_reader());
        // Cells exist before there are threads: how they are made is not modelled.
        bring(&mut transactions, &domain, &places, 2);
        let seen = Arc::clone(&places);
        let writer = thread::spawn(move || {
            bring(&mut transactions, &domain, &places, 3);
            bring(&mut transactions, &domain, &places, 4);
        });
        let reader = thread::spawn(move || {
            let mut last = 2;
            for _ in 0..2 {
                participant.quiescent();
                let generation = versions.generation();
                let [one, other] =
                    [0, 1].map(|at| versions.resolve(seen[at].load(Acquire), generation));
                assert_eq!(one, other, "half of a transaction");
                assert!((last..=4).contains(&one), "{one} after {last}");
                last = one;
            }
        });
        reader.join().unwrap();
        writer.join().unwrap();
    });
}

/// A burst that read the filter before the key was added, and then meets a reference to it.
#[test]
fn a_referenced_key_is_found_in_spite_of_older_filter_results() {
    model(3, || {
        let filter = Arc::new(BloomFilter::new(1).unwrap());
        let word = Arc::new(AtomicU64::new(0));
        let hash = 0x0123_4567_89ab_cdef;
        let reader = {
            let (filter, word) = (Arc::clone(&filter), Arc::clone(&word));
            thread::spawn(move || {
                let version = filter.version();
                let known = filter.places(hash);
                if word.load(Acquire) == 0 {
                    return;
                }
                let places = match filter.version() == version {
                    true => known,
                    false => filter.places(hash),
                };
                assert_eq!(places & 1 << 5, 1 << 5, "the key is not in the filter");
            })
        };
        let writer = thread::spawn(move || {
            filter.add(hash, 5);
            word.store(1, Release);
        });
        writer.join().unwrap();
        reader.join().unwrap();
    });
}

/// Rules come into one block of values, in `spans`' order: whoever knows that the addition of one
/// has returned finds its table for a value inside it.
fn prune(preemptions: usize, spans: &'static [Span], value: u32) {
    model(preemptions, move || {
        let fields = [Bits::Eight];
        let config = FilterConfig { fields, tables_max: 8, rules_max: 4, pages: Pages::Small };
        let mut filter = Filter::<1>::new(config).unwrap();
        let (reader, announced) =
            (filter.reader(), Arc::new(loom::sync::atomic::AtomicUsize::new(0)));
        let seen = Arc::clone(&announced);
        let writer = thread::spawn(move || {
            for (table, span) in spans.iter().enumerate() {
                filter.add(table, &[*span]).unwrap();
                announced.store(table + 1, Release);
            }
            assert_eq!(filter.widened_count(), 0);
        });
        let reader = thread::spawn(move || {
            let known = seen.load(Acquire);
            let mut sets = [Sets::default()];
            reader.find(&[[value]], &mut sets);
            let found = reader.word(&sets[0], 0);
            let holds = |table: &usize| (spans[*table].low..=spans[*table].high).contains(&value);
            let truth = (0..spans.len()).filter(holds);
            let expected = truth.clone().filter(|table| *table < known);
            let bits = |tables: &mut dyn Iterator<Item = usize>| tables.fold(0, |b, t| b | 1 << t);
            let (expected, all) = (bits(&mut expected.into_iter()), bits(&mut truth.into_iter()));
            assert_eq!(expected & !found, 0, "{found:#b} of the first {known}");
            assert_eq!(found & !all, 0, "{found:#b} has a table that no rule gives");
        });
        reader.join().unwrap();
        writer.join().unwrap();
    });
}

/// What was joined of a filter, beside an addition to it: `before`, then table 1.
fn prune_joined(preemptions: usize, before: Span, added: Span, tables: usize, value: u32) {
    model(preemptions, move || {
        let fields = [Bits::Eight];
        let config = FilterConfig { fields, tables_max: 8, rules_max: 4, pages: Pages::Small };
        let mut filter = Filter::<1>::new(config).unwrap();
        filter.add(0, &[before]).unwrap();
        let mut joining = filter.join(tables).unwrap();
        while joining.proceed(&filter, 1_000) == Progress::Open {}
        let (joined, reader) = (joining.into_joined(), filter.reader());
        let announced = Arc::new(loom::sync::atomic::AtomicUsize::new(0));
        let seen = Arc::clone(&announced);
        let writer = thread::spawn(move || {
            filter.add(1, &[added]).unwrap();
            announced.store(1, Release);
        });
        let reader = thread::spawn(move || {
            let known = seen.load(Acquire);
            let mut burst = Burst::default();
            burst.set(0, [value]);
            reader.find_first(Some(&joined), 2, &mut burst, 1);
            let (_, found) = burst.left(0);
            assert_eq!(found & 1, 1, "{found:#b}");
            assert!(known == 0 || found == 3, "{found:#b}, and the second rule is there");
        });
        reader.join().unwrap();
        writer.join().unwrap();
    });
}

#[test]
fn a_table_that_comes_where_its_sets_are_is_never_missed_by_what_was_joined() {
    // A table that was known without rules, and one that was not.
    prune_joined(3, Span { low: 0, high: 63 }, Span::ALL, 2, 6);
    prune_joined(3, Span { low: 0, high: 63 }, Span::ALL, 1, 6);
}

#[test]
fn a_set_that_is_newer_is_never_missed_by_what_was_joined() {
    prune_joined(3, Span { low: 3, high: 9 }, Span { low: 5, high: 7 }, 2, 6);
}

#[test]
fn a_rule_that_splits_a_block_is_never_missed() {
    const SPANS: &[Span] = &[Span { low: 3, high: 9 }, Span { low: 5, high: 7 }, Span::one(6)];
    prune(3, SPANS, 6);
}

#[test]
fn a_rule_whose_ranges_are_there_is_never_missed() {
    const SPANS: &[Span] = &[Span { low: 3, high: 9 }, Span { low: 0, high: 9 }, Span::ALL];
    prune(3, SPANS, 6);
}

#[test]
fn a_set_is_complete_before_its_number_is_seen() {
    const SPANS: &[Span] = &[Span { low: 0, high: 63 }, Span { low: 0, high: 63 }];
    prune(3, SPANS, 6);
}

/// A rule goes to a mask that no reader knows yet, and gets another value: a reader sees the one or
/// the other.
#[test]
fn a_rule_that_moves_to_a_new_mask_is_never_missed() {
    model(2, || {
        let domain = QsbrDomain::new();
        let fields = &[Field::number(0, 8)];
        let config = TernaryConfig { capacity_max: 4, fields, seed: 1 };
        let mut table = Ternary::<1>::new(config, &domain).unwrap();
        let rule = |mask, value| TernaryRule { key: [7], mask: [mask], priority: 0, value };
        table.insert(&rule(0xff, 1)).unwrap();
        let (mut reader, mut participant) = (table.reader(), domain.register_reader());
        let writer = thread::spawn(move || {
            assert_eq!(table.replace(&rule(0xff, 1), &rule(0x0f, 2)), Ok(true));
            table
        });
        let seen = thread::spawn(move || {
            let first = reader.lookup(&participant, &[7]);
            participant.quiescent();
            (first, reader.lookup(&participant, &[7]))
        });
        let (Some(first), Some(second)) = seen.join().unwrap() else {
            panic!("a rule is always there")
        };
        assert!(first.value <= second.value, "{second:?} was seen after {first:?}");
        drop(writer.join().unwrap());
    });
}
