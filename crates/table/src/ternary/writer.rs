//! The writing end of a ternary table.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::reader::TernaryReader;
use super::{Hit, TernaryRule};
use crate::domain::{Domain, Stamp};
use crate::error::{CreateError, TernaryError};
use crate::hash::Mixing;
use crate::limits::{CAPACITY_LIMIT, TABLES_LIMIT};
use crate::tuples::{Field, TupleConfig, TupleSpace, masked};
use crate::versions::{CellId, Changes, Placed};

/// Changed places that an operation folds at most.
const FOLD_STEP: usize = 4;

/// What a ternary table is made from.
#[derive(Debug, Clone, Copy)]
pub struct TernaryConfig<'a> {
    /// The most rules it may hold, 1 to half of [`CAPACITY_LIMIT`].
    pub capacity_max: usize,
    /// Where in a key the numbers are that tell rules under different masks apart.
    pub fields: &'a [Field],
    /// Seed of its hashes. Draw it at random where somebody hostile may choose keys.
    pub seed: u64,
}

/// Rules of `W`-word keys (1 to 17) with masks and priorities: the writing end.
#[derive(Debug)]
pub struct Ternary<const W: usize> {
    capacity_max: usize,
    domain: Domain,
    changes: Changes,
    /// The word of the best rule of each key and mask, or a reference that stands for it.
    tuples: TupleSpace<W>,
    /// Words behind the one that readers see, of rules that match the same keys.
    behind: HashMap<(usize, [u64; W]), BTreeSet<u64>, Mixing>,
    len: usize,
    /// Places that the open transaction has changed.
    open: Vec<Changed<W>>,
    /// Those of transactions that are committed, with the stamp that has to pass.
    pending: VecDeque<(Stamp, Vec<Changed<W>>)>,
}

/// A place that a transaction has changed.
#[derive(Debug, Clone, Copy)]
struct Changed<const W: usize> {
    number: usize,
    key: [u64; W],
    cell: CellId,
}

/// The word of a rule, and where it is or is to be.
#[derive(Clone, Copy)]
struct Placing<const W: usize> {
    number: usize,
    key: [u64; W],
    word: u64,
}

impl<const W: usize> Ternary<W> {
    /// A table without rules whose readers are participants of `domain`.
    ///
    /// # Errors
    /// [`CreateError::Capacity`] and [`CreateError::Field`].
    pub fn new(config: TernaryConfig<'_>, domain: &Domain) -> Result<Self, CreateError> {
        let TernaryConfig { capacity_max, fields, seed } = config;
        let limit = CAPACITY_LIMIT / 2;
        if !(1..=limit).contains(&capacity_max) {
            return Err(CreateError::Capacity { capacity_max, limit });
        }
        // Places that a transaction takes rules out of stay until the readers have passed.
        let entries_max = 2 * capacity_max;
        let config = TupleConfig { entries_max, masks_max: TABLES_LIMIT, fields, seed };
        Ok(Self {
            capacity_max,
            domain: domain.clone(),
            changes: Changes::new(domain),
            tuples: TupleSpace::new(&config, domain)?,
            behind: HashMap::default(),
            len: 0,
            open: Vec::new(),
            pending: VecDeque::new(),
        })
    }

    /// A reading end.
    #[must_use]
    pub fn reader(&self) -> TernaryReader<W> {
        TernaryReader::new(self.tuples.reader(), self.changes.versions())
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
        self.tend();
        let placing = self.placing(rule, word)?;
        self.place(placing)?;
        self.len += 1;
        Ok(())
    }

    /// Takes a rule out; whether it was there.
    ///
    /// # Errors
    /// [`TernaryError::Changes`]; nothing has changed then.
    pub fn remove(&mut self, rule: &TernaryRule<W>) -> Result<bool, TernaryError> {
        self.tend();
        let Some(placing) = self.placed(rule) else { return Ok(false) };
        self.displace(placing)?;
        self.len -= 1;
        Ok(true)
    }

    /// Changes a rule in place: its key, its mask, its priority and its value, or any of them.
    /// Readers see the old rule up to one moment and the new one from then on. False, and nothing
    /// is changed, where there is no such rule.
    ///
    /// Under the same key and mask it is one store; else a transaction of its own, or part of the
    /// open one.
    ///
    /// # Errors
    /// [`TernaryError`]; nothing has changed then.
    pub fn replace(
        &mut self,
        old: &TernaryRule<W>,
        new: &TernaryRule<W>,
    ) -> Result<bool, TernaryError> {
        let word = word_of(new)?;
        self.tend();
        let Some(from) = self.placed(old) else { return Ok(false) };
        let to = self.placing(new, word)?;
        if (from.number, from.key) == (to.number, to.key) {
            return self.exchange(from, word).map(|()| true);
        }
        let is_own = !self.changes.is_open();
        // Both places may take a cell. Nothing can fail behind this but the first of them.
        if !self.changes.has_room(2) {
            return Err(TernaryError::Changes);
        }
        if is_own {
            self.changes.open();
        }
        let done = self.place(to).and_then(|()| self.displace(from));
        match (is_own, &done) {
            (true, Ok(())) => self.commit(),
            (true, Err(_)) => self.changes.abort(),
            (false, _) => {}
        }
        done.map(|()| true)
    }

    /// Begins a transaction: what is changed from here on readers see when it is committed, all of
    /// it at one instant. Nothing happens where one is open.
    pub fn open(&mut self) {
        if !self.changes.is_open() {
            self.changes.open();
        }
    }

    /// Ends the open transaction: readers see all of it from their next look-up on. Operations that
    /// failed are no part of it. Nothing happens where none is open.
    pub fn commit(&mut self) {
        if self.changes.is_open() {
            let stamp = self.changes.commit();
            let changed = std::mem::take(&mut self.open);
            self.pending.push_back((stamp, changed));
        }
    }

    /// Whether a rule is there, with the open transaction.
    #[must_use]
    pub fn contains(&self, rule: &TernaryRule<W>) -> bool {
        self.placed(rule).is_some()
    }

    /// Rules, with those of the open transaction.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Masks with a table of their own: those of all rules, and of some that are gone.
    #[must_use]
    pub fn masks_count(&self) -> usize {
        self.tuples.masks_count()
    }

    /// Memory of the tables, the filter and the cells of transactions; bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tuples.bytes() + self.changes.bytes()
    }

    /// All rules, in no order, each with its key cut to its mask.
    pub fn rules(&self) -> impl Iterator<Item = TernaryRule<W>> + '_ {
        self.tuples.iter().flat_map(move |(number, mask, key, word)| {
            let seen = Some(self.changes.newest(word)).filter(|word| *word != 0);
            let behind = self.behind.get(&(number, key)).into_iter().flatten().copied();
            seen.into_iter().chain(behind).map(move |word| {
                let Hit { priority, value } = Hit::of(word);
                TernaryRule { key, mask, priority, value }
            })
        })
    }

    /// Does in idle time what look-ups are dearer without, `steps` steps of each: folds places that
    /// transactions have changed, lets masks without rules go, makes the filter, has tables
    /// grow. True when nothing is left to do; call it again, and let the readers pass quiescent
    /// states, when it is false.
    pub fn settle(&mut self, steps: usize) -> bool {
        self.fold(steps);
        let changes = &self.changes;
        let rests = self.tuples.settle(steps, |word, _| changes.least(word, bound_of));
        rests && self.pending.is_empty()
    }

    /// The housekeeping of one operation.
    fn tend(&mut self) {
        self.fold(FOLD_STEP);
        let changes = &self.changes;
        self.tuples.tend(1, |word, _| changes.least(word, bound_of));
    }

    /// Where a rule is, if it is there.
    fn placed(&self, rule: &TernaryRule<W>) -> Option<Placing<W>> {
        let word = rule.hit().word()?;
        let (number, key) = (self.tuples.number(&rule.mask)?, masked(&rule.key, &rule.mask));
        self.has(number, &key, word).then_some(Placing { number, key, word })
    }

    /// Where a rule is to be; makes a table for its mask where there is none.
    fn placing(&mut self, rule: &TernaryRule<W>, word: u64) -> Result<Placing<W>, TernaryError> {
        let number = self.tuples.number_for(&rule.mask)?;
        Ok(Placing { number, key: masked(&rule.key, &rule.mask), word })
    }

    /// The word of a place, as readers see it once the open transaction is committed; zero is none.
    fn newest(&self, number: usize, key: &[u64; W]) -> u64 {
        self.changes.newest(self.tuples.word(number, key))
    }

    /// Whether a rule is at a place.
    fn has(&self, number: usize, key: &[u64; W], word: u64) -> bool {
        self.newest(number, key) == word
            || self.behind.get(&(number, *key)).is_some_and(|behind| behind.contains(&word))
    }

    /// Puts a rule where it belongs.
    fn place(&mut self, Placing { number, key, word }: Placing<W>) -> Result<(), TernaryError> {
        if self.has(number, &key, word) {
            return Err(TernaryError::Duplicate);
        }
        let seen = self.newest(number, &key);
        let is_better = seen == 0 || word < seen;
        if is_better {
            self.set(number, key, word)?;
        }
        if seen != 0 {
            let behind = self.behind.entry((number, key)).or_default();
            behind.insert(if is_better { seen } else { word });
        }
        Ok(())
    }

    /// Takes a rule away from where it is.
    fn displace(&mut self, Placing { number, key, word }: Placing<W>) -> Result<(), TernaryError> {
        let seen = self.newest(number, &key);
        let behind = self.behind.get(&(number, key)).and_then(BTreeSet::first).copied();
        if seen == word {
            self.set(number, key, behind.unwrap_or(0))?;
        }
        let gone = if seen == word { behind } else { Some(word) };
        if let (Some(gone), Some(left)) = (gone, self.behind.get_mut(&(number, key))) {
            left.remove(&gone);
            if left.is_empty() {
                self.behind.remove(&(number, key));
            }
        }
        Ok(())
    }

    /// Gives the rule at a place another word.
    fn exchange(&mut self, at: Placing<W>, word: u64) -> Result<(), TernaryError> {
        let Placing { number, key, word: before } = at;
        if word == before {
            return Ok(());
        }
        if self.has(number, &key, word) {
            return Err(TernaryError::Duplicate);
        }
        let mut words = self.behind.get(&(number, key)).cloned().unwrap_or_default();
        words.insert(self.newest(number, &key));
        words.remove(&before);
        words.insert(word);
        let best = words.pop_first().unwrap_or(word);
        self.set(number, key, best)?;
        if words.is_empty() {
            self.behind.remove(&(number, key));
        } else {
            self.behind.insert((number, key), words);
        }
        Ok(())
    }

    /// Has a place hold a word, zero for none: at once, or with the open transaction.
    fn set(&mut self, number: usize, key: [u64; W], word: u64) -> Result<(), TernaryError> {
        if self.changes.is_open() && !self.changes.has_room(1) {
            return Err(TernaryError::Changes);
        }
        let current = self.tuples.word(number, &key);
        if word != 0 {
            self.tuples.admit(number, &key, current, word);
        }
        match self.changes.place(current, word) {
            Placed::Kept => {}
            Placed::Word(word) => self.tuples.store(number, &key, current, word)?,
            Placed::Cell(cell, reference) => {
                if let Err(error) = self.tuples.store(number, &key, current, reference) {
                    self.changes.cancel(cell);
                    return Err(error.into());
                }
                self.open.push(Changed { number, key, cell });
            }
        }
        Ok(())
    }

    /// Has up to `most` changed places hold what their references stand for, when all readers know
    /// the transaction.
    fn fold(&mut self, most: usize) {
        let mut left = most;
        while let Some((stamp, changed)) = self.pending.front_mut() {
            if *stamp > self.domain.passed() {
                return;
            }
            while let Some(Changed { number, key, cell }) = changed.pop_if(|_| left > 0) {
                left -= 1;
                let current = self.tuples.word(number, &key);
                if let Some(word) = self.changes.fold(current, cell) {
                    // The place is there, so nothing is inserted that could fail.
                    let _ = self.tuples.store(number, &key, current, word);
                }
                self.changes.release(cell);
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

/// No word has a smaller bound; zero is none.
fn bound_of(word: u64) -> u64 {
    if word == 0 { u64::MAX } else { word }
}
