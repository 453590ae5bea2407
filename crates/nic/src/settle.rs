//! What is done after a transaction: once every worker knows it, references to its cells are
//! replaced by the values that hold, and what it took away goes.
//!
//! Operations do a bounded amount of it each, [`Nic::settle`] as much as it is asked for.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use niclab_table::{CellId, Chunks, Fifo, Stamp};

use crate::control::{Nic, Record};
use crate::groups::Seat;
use crate::limits::SETTLE_STEPS;
use crate::mask::Kept;
use crate::transaction::{Log, left_by};
use crate::word::Fate;

/// The place that refers to a cell.
#[derive(Clone, Copy)]
pub(crate) enum Owner {
    /// A key, as its mask keeps it.
    Key(Seat, Kept),
    /// What becomes of packets that no rule matches.
    Misses,
    /// The order of a rule.
    Order(u32),
    /// The port's RSS.
    Rss,
}

/// What a rule, or the port's RSS, gives up when no packet can meet it any more.
#[derive(Clone, Copy)]
pub(crate) struct Leftover {
    pub(crate) fate: Fate,
    /// Its place in a group, unless it stays there.
    pub(crate) seat: Option<Seat>,
    /// Its index, unless it lives.
    pub(crate) index: Option<u32>,
}

/// What has to wait for a stamp, cells first. Nothing is copied when a transaction commits.
struct Batch {
    stamp: Stamp,
    cells: Fifo<CellId>,
    log: Log,
}

/// What is put off.
#[derive(Default)]
pub(crate) struct Settle {
    /// Oldest first.
    batches: VecDeque<Batch>,
    /// By cell.
    owners: Chunks<Option<Owner>>,
    /// Cells of the open transaction, oldest first.
    open: Fifo<CellId>,
    /// The latest stamp known to have passed.
    passed: Stamp,
}

impl Settle {
    /// Remembers who refers to a new cell of the open transaction.
    pub(crate) fn own(&mut self, id: CellId, owner: Owner) {
        while self.owners.len() <= id.index() {
            self.owners.push(None);
        }
        self.owners[id.index()] = Some(owner);
        self.open.push(id);
    }

    /// Whether nothing is put off.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.batches.is_empty()
    }

    /// Who refers to a cell.
    pub(crate) fn owner(&self, id: CellId) -> Owner {
        self.owners.get(id.index()).copied().flatten().unwrap_or(Owner::Order(u32::MAX))
    }

    pub(crate) fn bytes(&self) -> usize {
        let waiting = |batch: &Batch| {
            batch.cells.bytes() + batch.log.steps.bytes() + batch.log.leftovers.bytes()
        };
        self.owners.bytes() + self.batches.iter().map(waiting).sum::<usize>()
    }
}

impl Nic {
    /// Does up to `steps` steps of what is put off: of what transactions leave to be done when
    /// every worker has run a burst since (or is offline), of the filters of groups with many
    /// masks, of what is known of families of masks, and of tables that grew. Returns whether
    /// nothing is left; a packet then costs what it is to cost. Never waits; nobody has to call it,
    /// for each operation does a few steps as well.
    ///
    /// For idle time: a table that grew on small pages, so that no create waited for a huge one, is
    /// moved to huge pages here alone, and the system takes a few tenths of a millisecond to zero
    /// each.
    pub fn settle(&mut self, steps: usize) -> bool {
        let pruned = self.groups.settle(steps);
        self.settle_batches(steps) && pruned
    }

    fn settle_batches(&mut self, steps: usize) -> bool {
        if self.settle.is_idle() {
            return true;
        }
        self.settle.passed = self.board.domain.passed();
        for _ in 0..steps {
            let Some(batch) = self.settle.batches.front_mut() else {
                break;
            };
            if batch.stamp > self.settle.passed {
                break;
            }
            if let Some(id) = batch.cells.pop() {
                self.fold(id);
            } else if let Some(step) = batch.log.steps.pop() {
                left_by(&step).into_iter().for_each(|leftover| self.give_up(leftover));
            } else if let Some(leftover) = batch.log.leftovers.pop() {
                self.give_up(leftover);
            } else {
                self.settle.batches.pop_front();
            }
        }
        self.settle.batches.is_empty()
    }

    /// The few steps of one operation.
    #[inline]
    pub(crate) fn tend(&mut self) {
        if !self.settle.is_idle() {
            self.settle_batches(SETTLE_STEPS);
        }
    }

    /// Gives up what a rule had, behind everything that was put off before.
    #[inline]
    pub(crate) fn discard(&mut self, leftover: Leftover) {
        match self.settle.batches.back() {
            None => self.give_up(leftover),
            Some(last) => {
                let stamp = last.stamp;
                let mut log = Log::default();
                log.leftovers.push(leftover);
                self.put_off(stamp, Fifo::default(), log);
            }
        }
    }

    /// Puts the cells of a transaction that was just committed, and what its log leaves, off until
    /// `stamp` has passed.
    pub(crate) fn put_off_open(&mut self, stamp: Stamp, log: Log) {
        let cells = std::mem::take(&mut self.settle.open);
        self.put_off(stamp, cells, log);
    }

    /// Makes every place that the open transaction changed hold what it held before.
    pub(crate) fn restore_open(&mut self) {
        let mut open = std::mem::take(&mut self.settle.open);
        while let Some(id) = open.pop() {
            let before = self.changes.before(id);
            match self.settle.owner(id) {
                Owner::Key(seat, key) => self.groups.mask(seat).change(key, |_| Some(before)),
                Owner::Misses => self.board.misses.store(before, Ordering::Release),
                Owner::Order(rule) => {
                    self.board.orders.reach(rule)[0].store(before, Ordering::Release);
                }
                Owner::Rss => self.board.rss.store(before, Ordering::Release),
            }
            self.changes.release(id);
        }
    }

    fn put_off(&mut self, stamp: Stamp, cells: Fifo<CellId>, log: Log) {
        self.settle.batches.push_back(Batch { stamp, cells, log });
    }

    fn fold(&mut self, id: CellId) {
        let changes = &mut self.changes;
        match self.settle.owner(id) {
            Owner::Key(seat, key) => {
                self.groups.mask(seat).change(key, |current| changes.fold(current, id));
            }
            Owner::Misses => {
                let slot = &self.board.misses;
                if let Some(misses) = changes.fold(slot.load(Ordering::Relaxed), id) {
                    slot.store(misses, Ordering::Release);
                }
            }
            Owner::Order(rule) => {
                let [slot] = self.board.orders.reach(rule);
                if let Some(order) = changes.fold(slot.load(Ordering::Relaxed), id) {
                    slot.store(order, Ordering::Release);
                }
            }
            Owner::Rss => {
                let slot = &self.board.rss;
                if let Some(number) = changes.fold(slot.load(Ordering::Relaxed), id) {
                    slot.store(number, Ordering::Release);
                }
            }
        }
        self.changes.release(id);
    }

    /// Lets go of what a rule had: its index and program when every worker has passed a burst from
    /// now.
    pub(crate) fn give_up(&mut self, leftover: Leftover) {
        if let Some(seat) = leftover.seat {
            self.groups.leave(seat);
        }
        let fate = match leftover.fate {
            Fate::Program(number) => {
                let stamp = self.board.domain.stamp();
                self.shelf.give_back(&self.board.programs, number, stamp)
            }
            fate => fate,
        };
        self.groups.release(fate);
        if let Fate::Rss(number) = fate {
            self.contexts.release(number);
        }
        self.groups.publish();
        if let Some(index) = leftover.index {
            self.freed.push(index, &self.board.domain);
        }
    }
}

/// What a rule with this record leaves when it is no more.
pub(crate) fn all_of(index: u32, record: &Record) -> Leftover {
    Leftover { fate: record.word.fate(), seat: Some(record.seat), index: Some(index) }
}
