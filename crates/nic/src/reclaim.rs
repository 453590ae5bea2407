//! Work that is deferred until every worker knows a transaction: references to its cells are
//! replaced by the values that hold, and the resources that it retired are freed.
//!
//! Each operation does a bounded part of this work; [`Nic::run_housekeeping`] does as much as the
//! caller asks for.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use niclab_table::{CellId, Chunks, Fifo, Stamp};

use crate::action_word::Fate;
use crate::control::{Nic, RuleRecord};
use crate::groups::MaskId;
use crate::limits::RECLAIM_STEPS;
use crate::mask::StoredKey;
use crate::transaction::{LoggedStep, resources_retired_by};

/// The place that refers to a cell.
#[derive(Clone, Copy)]
pub(crate) enum Owner {
    /// A key that a mask stores.
    Key(MaskId, StoredKey),
    /// The fate of packets that no rule matches.
    Misses,
    /// The order of a rule.
    Order(u32),
    /// The port's RSS.
    Rss,
}

/// Resources of a rule, or of the port's RSS, that are freed when no packet can use them any more.
#[derive(Clone, Copy)]
pub(crate) struct RetiredResources {
    pub(crate) fate: Fate,
    /// The mask that the rule leaves; `None` if the rule keeps it.
    pub(crate) mask_id: Option<MaskId>,
    /// The rule's index; `None` if the rule is still live.
    pub(crate) index: Option<u32>,
}

/// How many cells, steps and retired resources a transaction deferred, from the oldest on.
#[derive(Clone, Copy, Default)]
struct PendingCounts {
    cells: usize,
    steps: usize,
    retired: usize,
}

/// Work that waits for a stamp to pass, cells first.
struct Batch {
    stamp: Stamp,
    left: PendingCounts,
}

/// Deferred work. Each list has the work of all batches, oldest first, and then that of the open
/// transaction: so a commit copies and allocates nothing.
#[derive(Default)]
pub(crate) struct DeferredWork {
    /// Oldest first.
    batches: VecDeque<Batch>,
    cells: Fifo<CellId>,
    steps: Fifo<LoggedStep>,
    retired: Fifo<RetiredResources>,
    /// Counts of the newest elements, which belong to the open transaction.
    open: PendingCounts,
    /// The owner of each cell.
    owners: Chunks<Option<Owner>>,
    /// The latest stamp known to have passed.
    passed: Stamp,
}

impl DeferredWork {
    /// Stores the owner of a new cell of the open transaction.
    pub(crate) fn own(&mut self, id: CellId, owner: Owner) {
        while self.owners.len() <= id.index() {
            self.owners.push(None);
        }
        self.owners[id.index()] = Some(owner);
        self.cells.push(id);
        self.open.cells += 1;
    }

    /// Logs a step of the open transaction.
    pub(crate) fn log(&mut self, step: LoggedStep) {
        self.steps.push(step);
        self.open.steps += 1;
    }

    /// Number of steps of the open transaction.
    pub(crate) fn logged_count(&self) -> usize {
        self.open.steps
    }

    /// Takes the newest step of the open transaction.
    pub(crate) fn pop_logged(&mut self) -> Option<LoggedStep> {
        self.open.steps = self.open.steps.checked_sub(1)?;
        self.steps.pop_newest()
    }

    /// Defers resources of an operation that the open transaction has undone.
    pub(crate) fn defer(&mut self, resources: RetiredResources) {
        self.retired.push(resources);
        self.open.retired += 1;
    }

    /// Whether no work is deferred.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.batches.is_empty()
    }

    /// The owner of a cell.
    pub(crate) fn owner(&self, id: CellId) -> Owner {
        self.owners.get(id.index()).copied().flatten().unwrap_or(Owner::Order(u32::MAX))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.owners.bytes() + self.cells.bytes() + self.steps.bytes() + self.retired.bytes()
    }
}

impl Nic {
    /// Does up to `steps` steps of each kind of background work: it reclaims what transactions left
    /// (once every worker has begun another burst or is offline), builds the filters of groups with
    /// many masks and of families of masks, and finishes the growth of tables. True if no work is
    /// left; packets then cost the least. Never waits. You need not call it, because each operation
    /// does a few steps too.
    ///
    /// Call it in idle time. Tables grow on small pages, so that no create waits for a huge page.
    /// Only this function moves them to huge pages, and the kernel takes some tenths of a
    /// millisecond to zero each.
    pub fn run_housekeeping(&mut self, steps: usize) -> bool {
        let pruned = self.groups.run_housekeeping(steps);
        self.reclaim(steps) && pruned
    }

    fn reclaim(&mut self, steps: usize) -> bool {
        for _ in 0..steps {
            let deferred = &mut self.deferred;
            let Some(batch) = deferred.batches.front_mut() else {
                break;
            };
            if batch.stamp > deferred.passed {
                deferred.passed = deferred.passed.max(self.shared.domain.passed());
                if batch.stamp > deferred.passed {
                    break;
                }
            }
            let left = &mut batch.left;
            if let Some(rest) = left.cells.checked_sub(1) {
                left.cells = rest;
                let cell = deferred.cells.pop();
                cell.into_iter().for_each(|id| self.fold(id));
            } else if let Some(rest) = left.steps.checked_sub(1) {
                left.steps = rest;
                let resources = deferred.steps.pop().and_then(|step| resources_retired_by(&step));
                resources.into_iter().for_each(|resources| self.free(resources));
            } else if let Some(rest) = left.retired.checked_sub(1) {
                left.retired = rest;
                let resources = deferred.retired.pop();
                resources.into_iter().for_each(|resources| self.free(resources));
            } else {
                deferred.batches.pop_front();
            }
        }
        self.deferred.batches.is_empty()
    }

    /// The reclaim steps of one operation.
    #[inline]
    pub(crate) fn reclaim_some(&mut self) {
        if !self.deferred.is_idle() {
            self.reclaim(RECLAIM_STEPS);
        }
    }

    /// Frees resources after all work that was deferred before.
    #[inline]
    pub(crate) fn retire(&mut self, resources: RetiredResources) {
        let deferred = &mut self.deferred;
        if self.transactions.is_open() {
            deferred.defer(resources);
        } else if let Some(last) = deferred.batches.back_mut() {
            last.left.retired += 1;
            deferred.retired.push(resources);
        } else {
            self.free(resources);
        }
    }

    /// Defers the work of the transaction that was just committed until `stamp` has passed.
    pub(crate) fn defer_until(&mut self, stamp: Stamp) {
        let left = std::mem::take(&mut self.deferred.open);
        self.deferred.batches.push_back(Batch { stamp, left });
    }

    /// Restores every place that the open transaction changed, and frees the resources of its
    /// operations. Its steps were undone before.
    pub(crate) fn restore_open(&mut self) {
        let open = std::mem::take(&mut self.deferred.open);
        for _ in 0..open.cells {
            let Some(id) = self.deferred.cells.pop_newest() else { break };
            let before = self.transactions.before(id);
            match self.deferred.owner(id) {
                Owner::Key(mask_id, key) => self.groups.mask(mask_id).change(key, |_| Some(before)),
                Owner::Misses => self.shared.misses.store(before, Ordering::Release),
                Owner::Order(rule) => {
                    self.shared.orders.ensure(rule)[0].store(before, Ordering::Release);
                }
                Owner::Rss => self.shared.rss.store(before, Ordering::Release),
            }
            self.transactions.release(id);
        }
        self.transactions.abort();
        match self.deferred.batches.back_mut() {
            Some(last) => last.left.retired += open.retired,
            None => {
                for _ in 0..open.retired {
                    let resources = self.deferred.retired.pop();
                    resources.into_iter().for_each(|resources| self.free(resources));
                }
            }
        }
    }

    fn fold(&mut self, id: CellId) {
        let transactions = &mut self.transactions;
        match self.deferred.owner(id) {
            Owner::Key(mask_id, key) => {
                self.groups.mask(mask_id).change(key, |current| transactions.fold(current, id));
            }
            Owner::Misses => {
                let slot = &self.shared.misses;
                if let Some(misses) = transactions.fold(slot.load(Ordering::Relaxed), id) {
                    slot.store(misses, Ordering::Release);
                }
            }
            Owner::Order(rule) => {
                let [slot] = self.shared.orders.ensure(rule);
                if let Some(order) = transactions.fold(slot.load(Ordering::Relaxed), id) {
                    slot.store(order, Ordering::Release);
                }
            }
            Owner::Rss => {
                let slot = &self.shared.rss;
                if let Some(number) = transactions.fold(slot.load(Ordering::Relaxed), id) {
                    slot.store(number, Ordering::Release);
                }
            }
        }
        self.transactions.release(id);
    }

    /// Frees resources. A rule's index and action list are reused when every worker has begun
    /// another burst.
    pub(crate) fn free(&mut self, resources: RetiredResources) {
        if let Some(mask_id) = resources.mask_id {
            self.groups.remove_rule(mask_id);
        }
        let fate = match resources.fate {
            Fate::ActionList(number) => {
                let stamp = self.shared.domain.stamp();
                self.action_list_allocator.give_back(&self.shared.action_lists, number, stamp)
            }
            fate => fate,
        };
        self.groups.release(fate);
        if let Fate::Rss(number) = fate {
            self.contexts.release(number);
        }
        self.groups.publish();
        if let Some(index) = resources.index {
            self.free_indices.push(index, &self.shared.domain);
        }
    }
}

/// All resources of the rule with this record.
pub(crate) fn resources_of(index: u32, record: &RuleRecord) -> RetiredResources {
    RetiredResources { fate: record.word.fate(), mask_id: Some(record.mask_id), index: Some(index) }
}
