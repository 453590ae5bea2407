//! Models of the slots behind a filter of masks: one thread searches them while another one
//! changes the masks.
//!
//! The first part has a small user of `MaskFilter`, which keeps one word for each mask, as the card
//! does for its tables. The second part has a `Ternary` table with its filter.

use std::sync::{
    Arc, OnceLock,
    atomic::Ordering::{Acquire, Relaxed, Release},
};

use loom::sync::atomic::{AtomicU64, AtomicUsize};
use loom::thread;
use niclab_table::{
    Bits, EntryCursor, Field, MaskFilter, MaskSearch, MaskSource, MaskView, Pace, Participant,
    QsbrDomain, Span, Ternary, TernaryConfig, TernaryReader, TernaryRule,
};

use super::model;

/// The value that readers look up; the span that has it alone, and spans without it.
const KEY: u32 = 6;
const VALUE: Span = Span::one(KEY);
const OTHER: Span = Span::one(200);
const THIRD: Span = Span::one(201);

/// The content of a slot. Masks with the same number have different names.
#[derive(Debug, Clone, Copy)]
struct Slot {
    number: usize,
    name: u64,
}

/// A mask: its name, and the values and the rank of each entry.
#[derive(Debug, Clone)]
struct Mask {
    name: u64,
    entries: Vec<(Span, u64)>,
}

/// The masks by number.
struct Masks(Vec<Mask>);

impl Masks {
    fn slot_of(&self, number: usize) -> Slot {
        Slot { number, name: self.0[number].name }
    }
}

impl MaskSource<1> for Masks {
    type Slot = Slot;

    fn masks(&self) -> impl Iterator<Item = (u64, u16)> {
        let best = |mask: &Mask| mask.entries.iter().map(|(_, rank)| *rank).min();
        (0..).zip(&self.0).filter_map(move |(number, mask)| Some((best(mask)?, number)))
    }

    fn entries(&self) -> usize {
        self.0.iter().map(|mask| mask.entries.len()).sum()
    }

    fn slot(&self, number: u16) -> Option<Slot> {
        Some(self.slot_of(number.into()))
    }

    fn visit(
        &mut self,
        number: u16,
        cursor: &mut EntryCursor,
        visit: &mut dyn FnMut(&[Span; 1], u64),
    ) -> bool {
        let Some((span, rank)) = self.0[usize::from(number)].entries.get(cursor.at) else {
            return false;
        };
        visit(&[*span], *rank);
        cursor.at += 1;
        true
    }

    fn raise(&mut self, _: u16, _: u64) {}
}

/// The part that the control side and the readers share.
struct Shared {
    /// For each mask, the word of its entry for [`KEY`]: its rank and the name of the mask, or
    /// zero.
    words: [AtomicU64; 3],
    /// Published views, and the number of the latest.
    views: [OnceLock<MaskView<1, Slot>>; 6],
    latest: AtomicUsize,
    /// How far the writer is with the change that a model is about.
    progress: AtomicU64,
}

impl Shared {
    /// The rank of the best word for [`KEY`], in the latest view.
    fn look_up(&self) -> Option<u64> {
        let view = self.views[self.latest.load(Acquire)].get().unwrap();
        let (mut search, mut best) = (MaskSearch::default(), None);
        let slots = search.begin(view, 1, |_| [KEY]);
        while search.open() != 0 {
            let Some(slot) = search.next(slots, 0) else {
                search.close(0);
                break;
            };
            search.close_last(0);
            let word = self.words[slot.number].load(Acquire);
            let (name, rank) = (word >> 8, word & 0xff);
            assert!(word == 0 || name == slot.name, "a word of mask {name} in {slot:?}");
            if word != 0 && rank < search.limit(0) {
                best = Some(rank);
                search.accept(slots, 0, rank);
            }
        }
        assert!(best.is_none_or(|rank| view.bound() <= rank), "{best:?} is below the bound");
        best
    }
}

/// The control side.
struct Control {
    filter: MaskFilter<1, Slot>,
    masks: Masks,
    shared: Arc<Shared>,
    views: usize,
}

impl Control {
    /// The masks with these entries, behind a filter.
    fn new(masks: &[&[(Span, u64)]]) -> Control {
        let shared = Shared {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            views: [const { OnceLock::new() }; 6],
            latest: AtomicUsize::new(0),
            progress: AtomicU64::new(0),
        };
        let no_mask = |number: u64| Mask { name: number + 1, entries: Vec::new() };
        let mut control = Control {
            filter: MaskFilter::new([Bits::Eight]),
            masks: Masks((0..3).map(no_mask).collect()),
            shared: Arc::new(shared),
            views: 0,
        };
        for (number, entries) in masks.iter().enumerate() {
            entries.iter().for_each(|(span, rank)| control.insert(number, *span, *rank));
        }
        control.finish();
        control
    }

    /// Inserts an entry: first into the filter, then its word.
    fn insert(&mut self, number: usize, span: Span, rank: u64) {
        let slot = self.masks.slot_of(number);
        self.filter.add(number as u16, &[span], rank, || slot);
        self.masks.0[number].entries.push((span, rank));
        if (span.low..=span.high).contains(&KEY) {
            self.store(number, slot.name << 8 | rank);
        }
    }

    /// Gives the entry of mask 1 for the key rank 1: first in the filter, then in its word.
    fn improve(&mut self) {
        self.filter.lower(1, 1);
        self.masks.0[1].entries[0].1 = 1;
        self.store(1, self.masks.0[1].name << 8 | 1);
    }

    fn store(&mut self, number: usize, word: u64) {
        self.shared.words[number].store(word, Release);
    }

    /// Removes the only entry of a mask, and the mask.
    fn remove(&mut self, number: usize) {
        self.store(number, 0);
        self.masks.0[number].entries.clear();
        self.filter.retire(number as u16);
    }

    /// One step of the work in idle time. True if readers have another view after it.
    fn advance(&mut self) -> bool {
        let is_other = self.filter.advance(&mut self.masks, 1, Pace::Idle);
        if is_other {
            assert!(self.shared.views[self.views].set(self.filter.view().unwrap()).is_ok());
            self.shared.latest.store(self.views, Release);
            self.views += 1;
        }
        is_other
    }

    /// Works until readers have another view.
    fn finish(&mut self) {
        while !self.advance() {}
    }

    fn report(&self, progress: u64) {
        self.shared.progress.store(progress, Release);
    }
}

/// `change` inserts an entry of rank 1, and reports it. A reader that knows of it finds it.
fn insert(
    preemptions: usize,
    make: fn() -> Control,
    change: impl Fn(&mut Control) + Copy + Send + Sync + 'static,
) {
    model(preemptions, move || {
        let mut control = make();
        let shared = Arc::clone(&control.shared);
        let writer = thread::spawn(move || {
            change(&mut control);
            control
        });
        let reader = thread::spawn(move || {
            let is_there = shared.progress.load(Acquire) == 1;
            let rank = shared.look_up();
            assert!(rank == Some(1) || rank == Some(5) && !is_there, "{rank:?}, {is_there}");
        });
        reader.join().unwrap();
        drop(writer.join().unwrap());
    });
}

/// Two masks: the first in the order of slots has an entry of rank 5 for the value.
fn two_masks() -> Control {
    Control::new(&[&[(VALUE, 5)], &[(OTHER, 7)]])
}

/// [`two_masks`], with intersections.
fn two_joined_masks() -> Control {
    let mut control = two_masks();
    control.finish();
    assert!(!control.filter.is_busy(), "its intersections are complete");
    control
}

/// The same with a filter that is being rebuilt, because new entries came.
fn in_a_build(mut control: Control) -> Control {
    control.insert(0, OTHER, 9);
    control.insert(0, THIRD, 9);
    assert!(!control.advance() && control.filter.is_busy());
    control
}

/// Two masks with entries for the value.
fn two_matches() -> Control {
    Control::new(&[&[(VALUE, 5)], &[(VALUE, 7)]])
}

#[test]
fn the_first_entry_of_a_mask_is_never_missed() {
    for make in [two_masks, two_joined_masks, two_matches] {
        insert(4, make, |control| {
            control.insert(2, VALUE, 1);
            control.report(1);
        });
    }
}

#[test]
fn another_entry_of_a_mask_is_never_missed() {
    for make in [two_masks, two_joined_masks] {
        insert(4, make, |control| {
            control.insert(1, VALUE, 1);
            control.report(1);
        });
    }
}

/// An entry for all values changes sets where they are, so intersections are out of date.
#[test]
fn an_entry_for_all_values_is_never_missed() {
    // Of a mask that the intersections have, and of a new one.
    for number in [1, 2] {
        insert(5, two_joined_masks, move |control| {
            control.insert(number, Span::ALL, 1);
            control.report(1);
        });
    }
}

#[test]
fn an_entry_that_gets_better_is_never_missed() {
    insert(5, two_matches, |control| {
        control.improve();
        control.report(1);
    });
}

#[test]
fn an_entry_that_comes_during_a_rebuild_is_never_missed() {
    // Before the build visits the entries of its mask, and after it has visited all.
    for steps in [0, 6] {
        insert(
            4,
            || in_a_build(two_masks()),
            move |control| {
                for _ in 0..steps {
                    assert!(!control.advance());
                }
                control.insert(1, VALUE, 1);
                control.report(1);
                control.finish();
            },
        );
    }
}

#[test]
fn an_entry_that_gets_better_during_a_rebuild_is_never_missed() {
    let make = || in_a_build(two_matches());
    for steps in [0, 6] {
        insert(4, make, move |control| {
            for _ in 0..steps {
                assert!(!control.advance());
            }
            control.improve();
            control.report(1);
            control.finish();
        });
    }
}

#[test]
fn an_entry_that_comes_while_sets_are_joined_is_never_missed() {
    for span in [VALUE, Span::ALL] {
        insert(4, two_masks, move |control| {
            // The sets of half of the values are there.
            assert!(!control.advance() && !control.advance() && control.filter.is_busy());
            control.insert(1, span, 1);
            control.report(1);
            control.finish();
        });
    }
}

/// The writer removes the best entry, and its mask. A reader that misses it knows that the removal
/// has begun; one that knows of its end does not find it. All find the entry of another mask.
fn remove(
    preemptions: usize,
    make: fn() -> Control,
    finish: impl Fn(&mut Control) + Copy + Send + Sync + 'static,
) {
    model(preemptions, move || {
        let mut control = make();
        let shared = Arc::clone(&control.shared);
        let writer = thread::spawn(move || {
            // The next Release store publishes it.
            control.shared.progress.store(1, Relaxed);
            control.remove(1);
            control.report(2);
            finish(&mut control);
            control
        });
        let reader = thread::spawn(move || {
            let before = shared.progress.load(Acquire);
            let rank = shared.look_up();
            let after = shared.progress.load(Relaxed);
            assert!(
                rank == Some(1) && before < 2 || rank == Some(5) && after > 0,
                "{rank:?} from {before} to {after}"
            );
        });
        reader.join().unwrap();
        drop(writer.join().unwrap());
    });
}

#[test]
fn an_entry_whose_mask_is_removed_is_found_until_then_and_never_after() {
    remove(5, || Control::new(&[&[(VALUE, 5)], &[(VALUE, 1)]]), |_| {});
}

#[test]
fn an_entry_whose_mask_is_removed_during_a_rebuild_is_never_found_after() {
    let make = || in_a_build(Control::new(&[&[(VALUE, 5)], &[(VALUE, 1)]]));
    remove(4, make, Control::finish);
}

/// The best entry moves to a mask in a later slot, whose entry was removed before. The filter
/// selects both slots all the time, so the order of the stores is all that readers have.
#[test]
fn an_entry_that_moves_to_a_later_slot_is_never_missed() {
    model(5, || {
        let mut control = Control::new(&[&[(VALUE, 1)], &[(VALUE, 7)]]);
        control.store(1, 0);
        let shared = Arc::clone(&control.shared);
        let writer = thread::spawn(move || {
            control.filter.lower(1, 3);
            control.store(1, 2 << 8 | 3);
            control.remove(0);
            control
        });
        let reader = thread::spawn(move || {
            let rank = shared.look_up();
            assert!(matches!(rank, Some(1 | 3)), "{rank:?}");
        });
        reader.join().unwrap();
        drop(writer.join().unwrap());
    });
}

/// A mask is removed, and another one gets its number after a grace period. No reader looks up the
/// new mask's word by the slot of the old one (`look_up` asserts that).
fn reuse(preemptions: usize, make: fn() -> Control, finish: fn(&mut Control)) {
    model(preemptions, move || {
        let domain = QsbrDomain::new();
        let mut control = make();
        let (shared, mut participant) = (Arc::clone(&control.shared), domain.register_reader());
        let writer = thread::spawn(move || {
            control.remove(1);
            let stamp = domain.stamp();
            if domain.passed() >= stamp {
                control.masks.0[1].name = 9;
                control.insert(1, VALUE, 2);
                control.report(1);
                finish(&mut control);
            }
            control
        });
        let reader = thread::spawn(move || {
            participant.quiescent();
            let is_there = shared.progress.load(Acquire) == 1;
            let rank = shared.look_up();
            assert!(matches!(rank, Some(1 | 2 | 5)), "{rank:?}");
            assert!(!is_there || rank == Some(2), "{rank:?} of a mask that is there");
            participant
        });
        drop((reader.join().unwrap(), writer.join().unwrap()));
    });
}

#[test]
fn a_number_that_is_used_again_is_not_found_by_its_old_slot() {
    reuse(4, || Control::new(&[&[(VALUE, 5)], &[(VALUE, 1)]]), |_| {});
}

#[test]
fn a_number_that_is_used_again_during_a_rebuild_is_not_found_by_its_old_slot() {
    reuse(3, || in_a_build(Control::new(&[&[(VALUE, 5)], &[(VALUE, 1)]])), Control::finish);
}

// ---- a ternary table --------------------------------------------------------------------------

/// A thread with more than the 32 KiB of stack that loom gives it.
fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::Builder::new().stack_size(1 << 16).spawn(run).unwrap()
}

fn rule(key: u64, mask: u64, priority: u32) -> TernaryRule<1> {
    TernaryRule { key: [key], mask: [mask], priority, value: 1 }
}

/// Three masks behind a filter: the rule for the key 7 has priority 5. These keys came after the
/// filter: with two of them, it is being rebuilt.
fn table(domain: &QsbrDomain, keys: &'static [u64]) -> Ternary<1> {
    let domain = domain.clone();
    let made = spawn(move || {
        let fields = &[Field::number(0, 8)];
        let config = TernaryConfig { capacity_max: 8, fields, seed: 1 };
        let mut table = Ternary::new(config, &domain).unwrap();
        for rule in [rule(0, 0xf8, 5), rule(200, 0xff, 7), rule(0x30, 0xf0, 8)] {
            table.insert(&rule).unwrap();
        }
        while !table.run_housekeeping(8) {}
        for key in keys {
            table.insert(&rule(*key, 0xff, 7)).unwrap();
        }
        assert_eq!(keys.len() < 2, table.run_housekeeping(1), "whether it is being rebuilt");
        table
    });
    made.join().unwrap()
}

fn priority(reader: &mut TernaryReader<1>, participant: &Participant, key: u64) -> Option<u32> {
    reader.lookup(participant, &[key]).map(|hit| hit.priority)
}

/// `change` inserts a rule of priority 1 for the keys 7 and 9. A reader that has seen its report
/// finds it, and so does one that has found it for the other key.
fn insert_rule(
    preemptions: usize,
    keys: &'static [u64],
    change: impl Fn(&mut Ternary<1>, &AtomicU64) + Copy + Send + Sync + 'static,
) {
    model(preemptions, move || {
        let domain = QsbrDomain::new();
        let mut table = table(&domain, keys);
        let (mut reader, participant) = (table.reader(), domain.register_reader());
        let progress = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&progress);
        let writer = spawn(move || {
            change(&mut table, &progress);
            table
        });
        let reader = spawn(move || {
            let is_reported = seen.load(Acquire) == 1;
            let other = priority(&mut reader, &participant, 9);
            assert!(other == Some(1) || other.is_none() && !is_reported, "{other:?}");
            let is_there = is_reported || other.is_some();
            let found = priority(&mut reader, &participant, 7);
            assert!(found == Some(1) || found == Some(5) && !is_there, "{found:?}, {is_there}");
            participant
        });
        drop((reader.join().unwrap(), writer.join().unwrap()));
    });
}

#[test]
fn a_rule_behind_the_filter_is_never_missed() {
    // Under a mask that has a slot, and under a new one.
    for mask in [0xf0, 0xe0] {
        insert_rule(2, &[], move |table, progress| {
            table.insert(&rule(0, mask, 1)).unwrap();
            progress.store(1, Release);
        });
    }
}

#[test]
fn a_rule_that_comes_during_a_rebuild_of_the_filter_is_never_missed() {
    insert_rule(2, &[201, 202], |table, progress| {
        table.insert(&rule(0, 0xf0, 1)).unwrap();
        progress.store(1, Release);
        table.run_housekeeping(64);
    });
}

/// The best rule for a key is removed, and its mask with it.
#[test]
fn a_rule_whose_bound_rises_is_found_until_it_is_removed() {
    model(3, || {
        let domain = QsbrDomain::new();
        let mut table = table(&domain, &[]);
        table.insert(&rule(7, 0xff, 6)).unwrap();
        let (mut reader, participant) = (table.reader(), domain.register_reader());
        let progress = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&progress);
        let writer = spawn(move || {
            // The next Release store publishes it.
            progress.store(1, Relaxed);
            assert_eq!(table.remove(&rule(0, 0xf8, 5)), Ok(true));
            progress.store(2, Release);
            table
        });
        let reader = spawn(move || {
            let before = seen.load(Acquire);
            let found = priority(&mut reader, &participant, 7);
            let after = seen.load(Relaxed);
            assert!(
                found == Some(5) && before < 2 || found == Some(6) && after > 0,
                "{found:?} from {before} to {after}"
            );
        });
        reader.join().unwrap();
        drop(writer.join().unwrap());
    });
}

/// A rule moves to another mask and gets worse, and a new filter raises the bound of its old mask.
#[test]
fn a_rule_that_moves_while_the_filter_is_rebuilt_is_never_missed() {
    model(3, || {
        let domain = QsbrDomain::new();
        let mut table = table(&domain, &[201]);
        let (mut reader, participant) = (table.reader(), domain.register_reader());
        let writer = spawn(move || {
            assert_eq!(table.replace(&rule(0, 0xf8, 5), &rule(7, 0xff, 6)), Ok(true));
            // It begins a build, and finishes it.
            assert!(!table.run_housekeeping(64));
            table.run_housekeeping(64);
            table
        });
        let reader = spawn(move || {
            let found = priority(&mut reader, &participant, 7);
            assert!(matches!(found, Some(5 | 6)), "{found:?}, and a rule is always there");
            participant
        });
        drop((reader.join().unwrap(), writer.join().unwrap()));
    });
}
