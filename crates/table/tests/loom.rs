//! Models of the lock-free parts, every interleaving up to a bound on preemptions:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p niclab-table --release --test loom
//! ```
#![cfg(loom)]

use loom::model::Builder;
use loom::thread;
use niclab_table::{Config, Domain, Exact, Reader};

fn model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// Keys whose home is in the first half of a table.
fn low_keys(reader: &Reader<1>) -> impl Iterator<Item = [u64; 1]> {
    (1u64..).map(|word| [word]).filter(|key| reader.hash(key) >> 63 == 0)
}

#[test]
fn an_inserted_entry_is_complete_and_stays() {
    model(3, || {
        let domain = Domain::new();
        let mut table = Exact::<1>::new(Config::reserved(1, 1), &domain).unwrap();
        let (reader, participant) = (table.reader(), domain.reader_slot());
        let writer = thread::spawn(move || {
            table.insert(&[7], 70).unwrap();
            table
        });
        let first = reader.lookup(&participant, &[7]);
        let second = reader.lookup(&participant, &[7]);
        assert!(matches!(first, None | Some(70)), "{first:?}");
        assert!(second == Some(70) || first.is_none() && second.is_none(), "{first:?} {second:?}");
        drop(writer.join().unwrap());
    });
}

#[test]
fn an_update_during_growth_never_goes_back() {
    model(2, || {
        let domain = Domain::new();
        let config = Config { reserve: 2, ..Config::growing(100, 1) };
        let mut table = Exact::<1>::new(config, &domain).unwrap();
        let (reader, mut participant) = (table.reader(), domain.reader_slot());
        let watched = low_keys(&reader).next().unwrap();
        table.insert(&watched, 1).unwrap();
        for word in 1000..1004 {
            table.insert(&[word], 9).unwrap();
        }
        // Growth has begun: two old homes, none of them moved.
        let writer = thread::spawn(move || {
            table.settle(1);
            assert_eq!(table.update(&watched, 2), Some(1));
            table
        });
        let first = reader.lookup(&participant, &watched).expect("a live key is never missed");
        participant.quiescent();
        let second = reader.lookup(&participant, &watched).expect("a live key is never missed");
        assert!(first <= second, "{second} was seen after {first}");
        let mut table = writer.join().unwrap();
        assert_eq!(reader.lookup(&participant, &watched), Some(2));
        participant.offline();
        table.settle(10);
        participant.online();
        assert_eq!(reader.lookup(&participant, &watched), Some(2));
    });
}

/// A destroys, B takes the slot when it may: a reader of A sees A or nothing.
fn reuse(reader_starts_offline: bool) {
    model(3, move || {
        let domain = Domain::new();
        let mut table = Exact::<1>::new(Config::reserved(1, 1), &domain).unwrap();
        table.insert(&[7], 70).unwrap();
        let (reader, mut participant) = (table.reader(), domain.reader_slot());
        if reader_starts_offline {
            participant.offline();
        }
        let writer = thread::spawn(move || {
            assert_eq!(table.remove(&[7]), Some(70));
            table.settle(0);
            table.insert(&[8], 80).unwrap();
            table
        });
        if reader_starts_offline {
            participant.online();
        } else {
            participant.quiescent();
        }
        let seen = reader.lookup(&participant, &[7]);
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
fn a_removed_key_is_gone_for_good() {
    model(2, || {
        let domain = Domain::new();
        let config = Config { reserve: 2, ..Config::growing(100, 1) };
        let mut table = Exact::<1>::new(config, &domain).unwrap();
        let (reader, participant) = (table.reader(), domain.reader_slot());
        let watched = low_keys(&reader).next().unwrap();
        table.insert(&watched, 1).unwrap();
        for word in 1000..1004 {
            table.insert(&[word], 9).unwrap();
        }
        let writer = thread::spawn(move || {
            table.settle(1);
            assert_eq!(table.remove(&watched), Some(1));
            table
        });
        let first = reader.lookup(&participant, &watched);
        let second = reader.lookup(&participant, &watched);
        assert!(first.is_some() || second.is_none(), "it came back");
        drop(writer.join().unwrap());
    });
}
