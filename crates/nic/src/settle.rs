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
use crate::transaction::{Logged, left_by};
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

/// What a transaction leaves: how many of the oldest cells, steps and leftovers.
#[derive(Clone, Copy, Default)]
struct PendingCounts {
    cells: usize,
    steps: usize,
    leftovers: usize,
}

/// What has to wait for a stamp, cells first.
struct Batch {
    stamp: Stamp,
    left: PendingCounts,
}

/// What is put off. The lists have that of all batches, oldest first, and then that of the open
/// transaction: nothing is copied or allocated when it commits.
#[derive(Default)]
pub(crate) struct Settle {
    /// Oldest first.
    batches: VecDeque<Batch>,
    cells: Fifo<CellId>,
    steps: Fifo<Logged>,
    leftovers: Fifo<Leftover>,
    /// The newest of them, which are of the open transaction.
    open: PendingCounts,
    /// By cell.
    owners: Chunks<Option<Owner>>,
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
        self.cells.push(id);
        self.open.cells += 1;
    }

    /// Logs a step of the open transaction.
    pub(crate) fn note(&mut self, step: Logged) {
        self.steps.push(step);
        self.open.steps += 1;
    }

    /// Steps of the open transaction.
    pub(crate) fn noted(&self) -> usize {
        self.open.steps
    }

    /// Takes the newest step of the open transaction.
    pub(crate) fn take_noted(&mut self) -> Option<Logged> {
        self.open.steps = self.open.steps.checked_sub(1)?;
        self.steps.pop_newest()
    }

    /// Keeps what an operation of the open transaction left that was taken back.
    pub(crate) fn leave(&mut self, leftover: Leftover) {
        self.leftovers.push(leftover);
        self.open.leftovers += 1;
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
        self.owners.bytes() + self.cells.bytes() + self.steps.bytes() + self.leftovers.bytes()
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
        for _ in 0..steps {
            let settle = &mut self.settle;
            let Some(batch) = settle.batches.front_mut() else {
                break;
            };
            if batch.stamp > settle.passed {
                settle.passed = settle.passed.max(self.board.domain.passed());
                if batch.stamp > settle.passed {
                    break;
                }
            }
            let left = &mut batch.left;
            if let Some(rest) = left.cells.checked_sub(1) {
                left.cells = rest;
                let cell = settle.cells.pop();
                cell.into_iter().for_each(|id| self.fold(id));
            } else if let Some(rest) = left.steps.checked_sub(1) {
                left.steps = rest;
                let leftover = settle.steps.pop().and_then(|step| left_by(&step));
                leftover.into_iter().for_each(|leftover| self.give_up(leftover));
            } else if let Some(rest) = left.leftovers.checked_sub(1) {
                left.leftovers = rest;
                let leftover = settle.leftovers.pop();
                leftover.into_iter().for_each(|leftover| self.give_up(leftover));
            } else {
                settle.batches.pop_front();
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
        let settle = &mut self.settle;
        if self.changes.is_open() {
            settle.leave(leftover);
        } else if let Some(last) = settle.batches.back_mut() {
            last.left.leftovers += 1;
            settle.leftovers.push(leftover);
        } else {
            self.give_up(leftover);
        }
    }

    /// Puts off what the transaction leaves that was just committed, until `stamp` has passed.
    pub(crate) fn put_off(&mut self, stamp: Stamp) {
        let left = std::mem::take(&mut self.settle.open);
        self.settle.batches.push_back(Batch { stamp, left });
    }

    /// Makes every place that the open transaction changed hold what it held before, and gives up
    /// what its operations left. Its steps were taken back.
    pub(crate) fn restore_open(&mut self) {
        let open = std::mem::take(&mut self.settle.open);
        for _ in 0..open.cells {
            let Some(id) = self.settle.cells.pop_newest() else { break };
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
        self.changes.abort();
        match self.settle.batches.back_mut() {
            Some(last) => last.left.leftovers += open.leftovers,
            None => {
                for _ in 0..open.leftovers {
                    let leftover = self.settle.leftovers.pop();
                    leftover.into_iter().for_each(|leftover| self.give_up(leftover));
                }
            }
        }
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
