//! A transaction beside readers: money moves between accounts, and no reader sees it in two places
//! or in none.
//!
//! `cargo run -p niclab-table --example transaction`

use std::collections::VecDeque;
use std::error::Error;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use niclab_table::{CellId, QsbrDomain, Transactions, VersionedValues, WordUpdate};

const ACCOUNTS: usize = 16;
const MONEY: u64 = 100;

/// Places of the caller's own; entries of a table would do as well. A word whose highest bit is not
/// set is a value. With the bit it is a reference, that readers resolve and nobody else looks into.
type Places = [AtomicU64; ACCOUNTS];

/// Gives a place another value as part of the open transaction; the cell that it took, if it did.
fn change(
    transactions: &mut Transactions,
    place: &AtomicU64,
    by: impl Fn(u64) -> u64,
) -> Option<CellId> {
    let word = place.load(Acquire);
    let next = by(transactions.newest(word));
    match transactions.update(word, next) {
        WordUpdate::StoreReference(cell, reference) => {
            place.store(reference, Release);
            Some(cell)
        }
        WordUpdate::Store(word) => {
            place.store(word, Release);
            None
        }
        WordUpdate::InCell => None,
    }
}

/// Looks at all accounts again and again; how often.
fn look(
    places: &Places,
    versions: &VersionedValues,
    domain: &QsbrDomain,
    stop: &AtomicBool,
) -> u64 {
    let (mut participant, mut looks) = (domain.register_reader(), 0);
    while !stop.load(Acquire) {
        // Once per burst, and before its first look.
        let generation = versions.generation();
        let value = |place: &AtomicU64| versions.resolve(place.load(Acquire), generation);
        let sum = places.iter().map(value).sum::<u64>();
        assert_eq!(sum, MONEY * ACCOUNTS as u64, "half of a transaction");
        looks += 1;
        participant.quiescent();
    }
    looks
}

fn main() -> Result<(), Box<dyn Error>> {
    let domain = QsbrDomain::new();
    let mut transactions = Transactions::new(&domain);
    let places: Places = std::array::from_fn(|_| AtomicU64::new(MONEY));
    let stop = AtomicBool::new(false);
    let looks = std::thread::scope(|scope| {
        let versions = transactions.versions();
        let (places, stop, domain) = (&places, &stop, &domain);
        let reader = scope.spawn(move || look(places, &versions, domain, stop));
        // Committed transactions whose places still hold references.
        let mut pending = VecDeque::new();
        for round in 0..10_000 {
            let (from, to) = (round % ACCOUNTS, (round * 7 + 3) % ACCOUNTS);
            if transactions.has_room(2) {
                transactions.open();
                let taken = change(&mut transactions, &places[from], |money| money - 1);
                let given = change(&mut transactions, &places[to], |money| money + 1);
                let cells = [(from, taken), (to, given)];
                // Of all changes at once: one store.
                pending.push_back((transactions.commit(), cells));
            }
            // When every reader has passed, places hold values again and look-ups cost less.
            let passed = domain.passed();
            while let Some((_, cells)) = pending.pop_front_if(|(stamp, _)| *stamp <= passed) {
                for (place, cell) in cells {
                    let Some(cell) = cell else { continue };
                    if let Some(word) = transactions.fold(places[place].load(Acquire), cell) {
                        places[place].store(word, Release);
                    }
                    transactions.release(cell);
                }
            }
        }
        stop.store(true, Release);
        reader.join().map_err(|_| "the reader saw half of a transaction")
    })?;
    let sum = places.iter().map(|place| transactions.newest(place.load(Acquire))).sum::<u64>();
    assert_eq!(sum, MONEY * ACCOUNTS as u64);
    println!("{looks} looks at {ACCOUNTS} accounts, each with {sum} in all");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
