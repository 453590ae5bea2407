//! The filter of a small source, whose slots have the names of their masks.

use super::{EntryCursor, MaskFilter, MaskSearch, MaskSource, Pace};
use crate::limits::{ADDED_IDLE_MIN, FILTER_SLOTS_MIN};
use crate::prune::{Bits, Span};

type Filter = MaskFilter<1, String>;

/// A mask: its name, and the value and the bound of each entry.
struct Mask {
    name: String,
    entries: Vec<(u32, u64)>,
}

/// Masks by number, and the bounds that a new filter raised.
#[derive(Default)]
struct Masks {
    masks: Vec<Option<Mask>>,
    raised: Vec<(u16, u64)>,
}

impl Masks {
    /// Masks with one entry each: the number of the mask is its value and its bound.
    fn of(count: u16) -> Masks {
        let mask = |number: u16| Mask {
            name: format!("mask {number}"),
            entries: vec![(number.into(), number.into())],
        };
        Masks { masks: (0..count).map(|number| Some(mask(number))).collect(), raised: Vec::new() }
    }

    fn add(&mut self, filter: &mut Filter, number: u16, name: &str, (value, bound): (u32, u64)) {
        filter.add(number, &[Span::one(value)], bound, || name.to_owned());
        let at = usize::from(number);
        if self.masks.len() <= at {
            self.masks.resize_with(at + 1, || None);
        }
        let new = || Mask { name: name.to_owned(), entries: Vec::new() };
        self.masks[at].get_or_insert_with(new).entries.push((value, bound));
    }

    fn remove(&mut self, filter: &mut Filter, number: u16) {
        self.masks[usize::from(number)] = None;
        filter.retire(number);
    }
}

impl MaskSource<1> for Masks {
    type Slot = String;

    fn masks(&self) -> impl Iterator<Item = (u64, u16)> {
        let best = |mask: &Mask| mask.entries.iter().map(|(_, bound)| *bound).min();
        let masks = (0..).zip(&self.masks);
        masks.filter_map(move |(number, mask)| Some((best(mask.as_ref()?)?, number)))
    }

    fn entries(&self) -> usize {
        self.masks.iter().flatten().map(|mask| mask.entries.len()).sum()
    }

    fn slot(&self, number: u16) -> Option<String> {
        Some(self.masks.get(usize::from(number))?.as_ref()?.name.clone())
    }

    fn visit(
        &mut self,
        number: u16,
        cursor: &mut EntryCursor,
        visit: &mut dyn FnMut(&[Span; 1], u64),
    ) -> bool {
        let mask = self.masks.get(usize::from(number)).and_then(Option::as_ref);
        let Some(&(value, bound)) = mask.and_then(|mask| mask.entries.get(cursor.at)) else {
            return false;
        };
        visit(&[Span::one(value)], bound);
        cursor.at += 1;
        true
    }

    fn raise(&mut self, number: u16, bound: u64) {
        self.raised.push((number, bound));
    }
}

fn filter() -> Filter {
    Filter::new([Bits::Sixteen])
}

/// Works until nothing is left to do in idle time.
fn rest(filter: &mut Filter, masks: &mut Masks) {
    // The first filter is begun because its user wants one.
    for _ in 0..100_000 {
        filter.advance(masks, 8, Pace::Idle);
        if !filter.is_busy() {
            return;
        }
    }
    panic!("it does not come to rest");
}

/// The masks that a packet with this value visits.
fn found(filter: &Filter, value: u32) -> Vec<String> {
    let (view, mut search) = (filter.view().unwrap(), MaskSearch::default());
    let slots = search.begin(&view, 1, |_| [value]);
    std::iter::from_fn(|| search.next(slots, 0).cloned()).collect()
}

#[test]
fn a_removed_mask_is_visited_no_more_and_its_number_leads_to_the_next() {
    let (mut filter, mut masks) = (filter(), Masks::of(5));
    rest(&mut filter, &mut masks);
    assert_eq!(found(&filter, 3), ["mask 3"]);
    masks.remove(&mut filter, 3);
    assert_eq!((found(&filter, 3), filter.has(3)), (vec![], false));
    masks.add(&mut filter, 3, "another", (3, 1));
    assert_eq!((found(&filter, 3), filter.has(3)), (vec!["another".to_owned()], true));
}

#[test]
fn a_mask_that_goes_and_one_that_comes_during_a_build_are_as_they_are_after_it() {
    // Each case takes Miri some seconds.
    for steps in (0..24).step_by(if cfg!(miri) { 12 } else { 1 }) {
        let (mut filter, mut masks) = (filter(), Masks::of(5));
        for _ in 0..steps {
            filter.advance(&mut masks, 1, Pace::Operation);
        }
        masks.remove(&mut filter, 2);
        masks.add(&mut filter, 2, "another", (9, 0));
        masks.add(&mut filter, 4, "mask 4", (8, 0));
        rest(&mut filter, &mut masks);
        let all: Vec<_> = [2, 4, 8, 9].map(|value| found(&filter, value)).concat();
        assert_eq!(all, ["mask 4", "mask 4", "another"], "after {steps} steps");
    }
}

#[test]
fn masks_that_find_no_slot_are_not_behind_the_filter_until_the_next_one() {
    let (mut filter, mut masks) = (filter(), Masks::of(3));
    rest(&mut filter, &mut masks);
    let count = FILTER_SLOTS_MIN as u16 + 9;
    for number in 3..count {
        masks.add(&mut filter, number, &format!("mask {number}"), (number.into(), 7));
    }
    let behind = (0..count).filter(|number| filter.has(*number)).count();
    assert_eq!(behind, FILTER_SLOTS_MIN);
    assert!(found(&filter, (count - 1).into()).is_empty(), "the user searches it");
    while !filter.has(count - 1) {
        filter.advance(&mut masks, 1, Pace::Operation);
    }
    assert!((0..count).all(|number| filter.has(number)));
    assert_eq!(found(&filter, (count - 1).into()), [format!("mask {}", count - 1)]);
}

#[test]
fn without_memory_it_comes_to_rest_and_the_next_try_builds() {
    let (mut filter, mut masks) = (filter(), Masks::of(5));
    filter.is_refused = true;
    rest(&mut filter, &mut masks);
    assert!(filter.is_absent());
    filter.allow_retry();
    rest(&mut filter, &mut masks);
    assert_eq!(found(&filter, 4), ["mask 4"]);
    // It is stale, and there is no memory for another.
    filter.is_refused = true;
    for value in 100..200 {
        masks.add(&mut filter, 0, "mask 0", (value, 0));
    }
    rest(&mut filter, &mut masks);
    assert_eq!(found(&filter, 199), ["mask 0"]);
}

#[test]
fn slots_of_removed_masks_are_given_up_in_idle_time() {
    let (mut filter, mut masks) = (filter(), Masks::of(6));
    rest(&mut filter, &mut masks);
    for number in 0..4 {
        masks.remove(&mut filter, number);
    }
    assert!(filter.is_busy(), "more than half of its slots lead nowhere");
    masks.raised.clear();
    rest(&mut filter, &mut masks);
    assert_eq!(masks.raised, [(4, 4), (5, 5)]);
}

#[test]
fn bounds_that_fell_rise_again_in_idle_time() {
    let (mut filter, mut masks) = (filter(), Masks::of(3));
    rest(&mut filter, &mut masks);
    let start = 2 * ADDED_IDLE_MIN as u64;
    for bound in (1..start).rev() {
        filter.lower(2, bound);
    }
    assert!(!filter.is_busy(), "its bound was lower than that");
    masks.add(&mut filter, 2, "mask 2", (9, 2 * start));
    filter.lower(2, 0);
    for bound in 0..start {
        masks.add(&mut filter, 1, "mask 1", (1, bound));
    }
    assert!(filter.is_busy());
    rest(&mut filter, &mut masks);
    assert!(masks.raised.ends_with(&[(0, 0), (1, 0), (2, 2)]), "{:?}", masks.raised);
}
