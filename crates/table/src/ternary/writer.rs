//! The writing end of a ternary table.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::reader::TernaryReader;
use super::{Hit, TernaryRule};
use crate::error::{CreateError, TernaryError};
use crate::hash::Mixing;
use crate::limits::{CAPACITY_LIMIT, TABLES_LIMIT};
use crate::qsbr::{QsbrDomain, Stamp};
use crate::tuples::{Field, TupleConfig, TupleSpace, masked};
use crate::versioned_values::{CellId, Transactions, WordUpdate};

/// The most changed places that an operation folds.
const FOLD_STEP: usize = 4;

/// The configuration of a ternary table.
#[derive(Debug, Clone, Copy)]
pub struct TernaryConfig<'a> {
    /// The most rules, 1 to half of [`CAPACITY_LIMIT`].
    pub capacity_max: usize,
    /// The numbers in a key that distinguish rules under different masks.
    pub fields: &'a [Field],
    /// Seed of its hashes. Draw it at random if an attacker may choose keys.
    pub seed: u64,
}

/// Rules of `W`-word keys (1 to 17) with masks and priorities: the writing end.
#[derive(Debug)]
pub struct Ternary<const W: usize> {
    capacity_max: usize,
    domain: QsbrDomain,
    transactions: Transactions,
    /// The word of the best rule of each key and mask, or a reference to its old and new word.
    tuples: TupleSpace<W>,
    /// Words of rules that match the same keys as a better rule, whose word readers see.
    shadowed: HashMap<(usize, [u64; W]), BTreeSet<u64>, Mixing>,
    len: usize,
    /// Places that the open transaction has changed.
    open: Vec<ChangedPlace<W>>,
    /// Places that committed transactions have changed, with the stamp that has to pass.
    pending: VecDeque<(Stamp, Vec<ChangedPlace<W>>)>,
}

/// A place that a transaction has changed.
#[derive(Debug, Clone, Copy)]
struct ChangedPlace<const W: usize> {
    number: usize,
    key: [u64; W],
    cell: CellId,
}

/// The word of a rule, and its place.
#[derive(Clone, Copy)]
struct RulePlace<const W: usize> {
    number: usize,
    key: [u64; W],
    word: u64,
}

impl<const W: usize> Ternary<W> {
    /// A table without rules whose readers are participants of `domain`.
    ///
    /// # Errors
    /// [`CreateError::Capacity`] and [`CreateError::Field`].
    pub fn new(config: TernaryConfig<'_>, domain: &QsbrDomain) -> Result<Self, CreateError> {
        let TernaryConfig { capacity_max, fields, seed } = config;
        let limit = CAPACITY_LIMIT / 2;
        if !(1..=limit).contains(&capacity_max) {
            return Err(CreateError::Capacity { capacity_max, limit });
        }
        // Places from which a transaction removes rules stay until the readers have passed.
        let entries_max = 2 * capacity_max;
        let config = TupleConfig { entries_max, masks_max: TABLES_LIMIT, fields, seed };
        Ok(Self {
            capacity_max,
            domain: domain.clone(),
            transactions: Transactions::new(domain),
            tuples: TupleSpace::new(&config, domain)?,
            shadowed: HashMap::default(),
            len: 0,
            open: Vec::new(),
            pending: VecDeque::new(),
        })
    }

    /// A reading end.
    #[must_use]
    pub fn reader(&self) -> TernaryReader<W> {
        TernaryReader::new(self.tuples.reader(), self.transactions.versions())
    }

    /// Adds a rule. Readers see it when this returns, or when the open transaction is committed.
    ///
    /// # Errors
    /// [`TernaryError`]; nothing has changed then.
    pub fn insert(&mut self, rule: &TernaryRule<W>) -> Result<(), TernaryError> {
        let word = word_of(rule)?;
        if self.len >= self.capacity_max {
            return Err(TernaryError::Full { capacity_max: self.capacity_max });
        }
        self.housekeep();
        let place = self.place_for(rule, word)?;
        self.place(place)?;
        self.len += 1;
        Ok(())
    }

    /// Removes a rule; false if it does not exist.
    ///
    /// # Errors
    /// [`TernaryError::TransactionsFull`]; nothing has changed then.
    pub fn remove(&mut self, rule: &TernaryRule<W>) -> Result<bool, TernaryError> {
        self.housekeep();
        let Some(place) = self.find(rule) else { return Ok(false) };
        self.displace(place)?;
        self.len -= 1;
        Ok(true)
    }

    /// Changes a rule in place: its key, mask, priority and value, or any of them. Readers see the
    /// old rule up to one moment and the new one from then on. False, and nothing is changed, if
    /// the rule does not exist.
    ///
    /// With the same key and mask this is one store. Otherwise it is a transaction of its own, or
    /// part of the open one.
    ///
    /// # Errors
    /// [`TernaryError`]; nothing has changed then.
    pub fn replace(
        &mut self,
        old: &TernaryRule<W>,
        new: &TernaryRule<W>,
    ) -> Result<bool, TernaryError> {
        let word = word_of(new)?;
        self.housekeep();
        let Some(from) = self.find(old) else { return Ok(false) };
        let to = self.place_for(new, word)?;
        if (from.number, from.key) == (to.number, to.key) {
            return self.replace_word(from, word).map(|()| true);
        }
        let is_own = !self.transactions.is_open();
        // Both places may take a cell. After this, only the first of them can fail.
        if !self.transactions.has_room(2) {
            return Err(TernaryError::TransactionsFull);
        }
        if is_own {
            self.transactions.open();
        }
        let done = self.place(to).and_then(|()| self.displace(from));
        match (is_own, &done) {
            (true, Ok(())) => self.commit(),
            (true, Err(_)) => self.transactions.abort(),
            (false, _) => {}
        }
        done.map(|()| true)
    }

    /// Begins a transaction: readers see all later changes when it is committed, at one instant.
    /// Does nothing if one is open.
    pub fn open(&mut self) {
        if !self.transactions.is_open() {
            self.transactions.open();
        }
    }

    /// Commits the open transaction: readers see all of it from their next look-up on. Operations
    /// that failed are not part of it. Does nothing if none is open.
    pub fn commit(&mut self) {
        if self.transactions.is_open() {
            let stamp = self.transactions.commit();
            let changed = std::mem::take(&mut self.open);
            self.pending.push_back((stamp, changed));
        }
    }

    /// Whether a rule exists, including the open transaction.
    #[must_use]
    pub fn contains(&self, rule: &TernaryRule<W>) -> bool {
        self.find(rule).is_some()
    }

    /// Number of rules, including the open transaction.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of masks with a table: those of all rules, and of some removed rules.
    #[must_use]
    pub fn masks_count(&self) -> usize {
        self.tuples.masks_count()
    }

    /// Memory of the tables, the filter and the cells of transactions; bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tuples.bytes() + self.transactions.bytes()
    }

    /// All rules, in no order, each with its key cut to its mask.
    pub fn rules(&self) -> impl Iterator<Item = TernaryRule<W>> + '_ {
        self.tuples.iter().flat_map(move |(number, mask, key, word)| {
            let seen = Some(self.transactions.newest(word)).filter(|word| *word != 0);
            let shadowed = self.shadowed.get(&(number, key)).into_iter().flatten().copied();
            seen.into_iter().chain(shadowed).map(move |word| {
                let Hit { priority, value } = Hit::of(word);
                TernaryRule { key, mask, priority, value }
            })
        })
    }

    /// Does up to `steps` steps of each kind of housekeeping in idle time, which makes look-ups
    /// cheaper: folds places that transactions have changed, removes masks without rules, builds
    /// the filter, finishes the growth of tables. True if nothing is left to do. If false, call it
    /// again after the readers have passed quiescent states.
    pub fn run_housekeeping(&mut self, steps: usize) -> bool {
        self.fold(steps);
        let transactions = &self.transactions;
        let is_done =
            self.tuples.run_housekeeping(steps, |word, _| transactions.least(word, bound_of));
        is_done && self.pending.is_empty()
    }

    /// The housekeeping of one operation.
    fn housekeep(&mut self) {
        self.fold(FOLD_STEP);
        let transactions = &self.transactions;
        self.tuples.advance_filter(1, |word, _| transactions.least(word, bound_of));
    }

    /// The place of a rule, if it exists.
    fn find(&self, rule: &TernaryRule<W>) -> Option<RulePlace<W>> {
        let word = rule.hit().word()?;
        let (number, key) = (self.tuples.number(&rule.mask)?, masked(&rule.key, &rule.mask));
        self.has(number, &key, word).then_some(RulePlace { number, key, word })
    }

    /// The place for a rule; creates a table for its mask if there is none.
    fn place_for(
        &mut self,
        rule: &TernaryRule<W>,
        word: u64,
    ) -> Result<RulePlace<W>, TernaryError> {
        let number = self.tuples.number_for(&rule.mask)?;
        Ok(RulePlace { number, key: masked(&rule.key, &rule.mask), word })
    }

    /// The word of a place, including the open transaction; zero is none.
    fn newest(&self, number: usize, key: &[u64; W]) -> u64 {
        self.transactions.newest(self.tuples.word(number, key))
    }

    /// Whether a place has a rule.
    fn has(&self, number: usize, key: &[u64; W], word: u64) -> bool {
        self.newest(number, key) == word
            || self.shadowed.get(&(number, *key)).is_some_and(|shadowed| shadowed.contains(&word))
    }

    /// Puts a rule into its place.
    fn place(&mut self, RulePlace { number, key, word }: RulePlace<W>) -> Result<(), TernaryError> {
        if self.has(number, &key, word) {
            return Err(TernaryError::Duplicate);
        }
        let seen = self.newest(number, &key);
        let is_better = seen == 0 || word < seen;
        if is_better {
            self.set(number, key, word)?;
        }
        if seen != 0 {
            let shadowed = self.shadowed.entry((number, key)).or_default();
            shadowed.insert(if is_better { seen } else { word });
        }
        Ok(())
    }

    /// Removes a rule from its place.
    fn displace(
        &mut self,
        RulePlace { number, key, word }: RulePlace<W>,
    ) -> Result<(), TernaryError> {
        let seen = self.newest(number, &key);
        let shadowed = self.shadowed.get(&(number, key)).and_then(BTreeSet::first).copied();
        if seen == word {
            self.set(number, key, shadowed.unwrap_or(0))?;
        }
        let gone = if seen == word { shadowed } else { Some(word) };
        if let (Some(gone), Some(left)) = (gone, self.shadowed.get_mut(&(number, key))) {
            left.remove(&gone);
            if left.is_empty() {
                self.shadowed.remove(&(number, key));
            }
        }
        Ok(())
    }

    /// Replaces the word of a rule in its place.
    fn replace_word(&mut self, at: RulePlace<W>, word: u64) -> Result<(), TernaryError> {
        let RulePlace { number, key, word: before } = at;
        if word == before {
            return Ok(());
        }
        if self.has(number, &key, word) {
            return Err(TernaryError::Duplicate);
        }
        let mut words = self.shadowed.get(&(number, key)).cloned().unwrap_or_default();
        words.insert(self.newest(number, &key));
        words.remove(&before);
        words.insert(word);
        let best = words.pop_first().unwrap_or(word);
        self.set(number, key, best)?;
        if words.is_empty() {
            self.shadowed.remove(&(number, key));
        } else {
            self.shadowed.insert((number, key), words);
        }
        Ok(())
    }

    /// Sets the word of a place, zero for none: at once, or with the open transaction.
    fn set(&mut self, number: usize, key: [u64; W], word: u64) -> Result<(), TernaryError> {
        if self.transactions.is_open() && !self.transactions.has_room(1) {
            return Err(TernaryError::TransactionsFull);
        }
        let current = self.tuples.word(number, &key);
        if word != 0 {
            self.tuples.admit(number, &key, current, word);
        }
        match self.transactions.update(current, word) {
            WordUpdate::InCell => {}
            WordUpdate::Store(word) => self.tuples.store(number, &key, current, word)?,
            WordUpdate::StoreReference(cell, reference) => {
                if let Err(error) = self.tuples.store(number, &key, current, reference) {
                    self.transactions.cancel(cell);
                    return Err(error.into());
                }
                self.open.push(ChangedPlace { number, key, cell });
            }
        }
        Ok(())
    }

    /// Folds up to `most` changed places of transactions that all readers know.
    fn fold(&mut self, most: usize) {
        let mut left = most;
        while let Some((stamp, changed)) = self.pending.front_mut() {
            if *stamp > self.domain.passed() {
                return;
            }
            while let Some(ChangedPlace { number, key, cell }) = changed.pop_if(|_| left > 0) {
                left -= 1;
                let current = self.tuples.word(number, &key);
                if let Some(word) = self.transactions.fold(current, cell) {
                    // The place exists, so nothing is inserted that could fail.
                    let _ = self.tuples.store(number, &key, current, word);
                }
                self.transactions.release(cell);
            }
            if !changed.is_empty() {
                return;
            }
            self.pending.pop_front();
        }
    }
}

/// The word of a rule.
fn word_of<const W: usize>(rule: &TernaryRule<W>) -> Result<u64, TernaryError> {
    let limit = TernaryRule::<W>::VALUE_MAX;
    rule.hit().word().ok_or(TernaryError::Value { value: rule.value, limit })
}

/// The bound of a word; zero is none.
fn bound_of(word: u64) -> u64 {
    if word == 0 { u64::MAX } else { word }
}
