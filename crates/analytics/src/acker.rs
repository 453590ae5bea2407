//! Acknowledgement of whole tuple trees, as Storm's acker does it: by a 64-bit word for each tree.
//!
//! A tuple from a source is the root of a tree. An operator that works on a tuple may make new
//! ones, its children. Every tuple of a tree has a random id of 64 bits. The word of a tree is the
//! XOR of all ids that were made and all ids that were finished: each id goes in twice, once when
//! its tuple is made and once when the tuple is finished. So the word is zero when every tuple of
//! the tree is finished, in whatever order the reports come. Before that it is zero by chance
//! alone, once in 2^64.
//!
//! A report is one XOR: an operator that finishes a tuple and makes children reports the tuple's id
//! XOR those of the children. It does so once for each tuple, after the children's ids are in. A
//! report that comes twice would undo itself, so reports need a channel that repeats nothing, such
//! as [`crate::receiver`].
//!
//! The trees of an [`Acker`] are slots of a fixed array, which a card has as a register array.

/// The word of each tree, by slot.
#[derive(Clone, Debug)]
pub struct Acker {
    words: Box<[u64]>,
}

impl Acker {
    /// So many slots, without trees.
    pub fn new(slots: usize) -> Acker {
        Acker { words: vec![0; slots].into_boxed_slice() }
    }

    /// Slots.
    pub fn slots(&self) -> usize {
        self.words.len()
    }

    /// Begins the tree of a root in a slot that has no tree. `false` if the slot has one, or does
    /// not exist, or the id is 0: the tree has not begun.
    pub fn begin(&mut self, slot: usize, id: u64) -> bool {
        match self.words.get_mut(slot).filter(|word| **word == 0) {
            Some(word) => {
                *word = id;
                id != 0
            }
            None => false,
        }
    }

    /// Reports that a tuple is finished, and its children made: the XOR of all their ids. `true` if
    /// the tree is finished: its slot is free again.
    pub fn report(&mut self, slot: usize, ids: u64) -> bool {
        let Some(word) = self.words.get_mut(slot).filter(|word| **word != 0) else { return false };
        *word ^= ids;
        *word == 0
    }

    /// Gives a tree up, whose root is sent again as another tree. Reports that still come for it
    /// must not reach the slot's next tree: the caller waits for them, or gives that tree another
    /// slot.
    pub fn fail(&mut self, slot: usize) {
        if let Some(word) = self.words.get_mut(slot) {
            *word = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The reports of a random tree: each tuple's id XOR its children's, the root's first.
    fn reports(ids: &[u64], parents: &[usize]) -> Vec<u64> {
        let mut reports = ids.to_vec();
        for (child, parent) in parents.iter().enumerate() {
            reports[parent % (child + 1)] ^= ids[child + 1];
        }
        reports
    }

    proptest! {
        #[test]
        fn a_tree_is_finished_with_its_last_report_in_any_order(
            ids in prop::collection::vec(1_u64.., 1..20),
            parents in prop::collection::vec(0_usize..20, 19),
            order: u64,
        ) {
            let mut reports = reports(&ids, &parents[..ids.len() - 1]);
            let mut mixed = order;
            for at in (1..reports.len()).rev() {
                mixed = mixed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                reports.swap(at, (mixed >> 33) as usize % (at + 1));
            }
            let mut acker = Acker::new(2);
            prop_assert!(acker.begin(1, ids[0]) && !acker.begin(1, ids[0]));
            let (last, others) = reports.split_last().unwrap();
            for report in others {
                prop_assert!(!acker.report(1, *report));
            }
            prop_assert!(acker.report(1, *last));
            prop_assert!(acker.begin(1, ids[0]), "the slot is free");
            prop_assert!(!acker.report(0, ids[0]), "no tree, nothing finished");
        }
    }

    #[test]
    fn slots_and_roots_that_do_not_exist_begin_no_tree() {
        let mut acker = Acker::new(1);
        assert!(!acker.begin(1, 5) && !acker.begin(0, 0) && !acker.report(1, 5));
        assert!(acker.begin(0, 5));
        acker.fail(0);
        acker.fail(1);
        assert!(acker.begin(0, 6) && acker.slots() == 1);
    }
}
