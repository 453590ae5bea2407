//! The RSS contexts of a NIC: created for the first use, removed after the last.
//!
//! The port's RSS is a word that workers share: the number of a context. It is versioned as rules
//! are, so that a worker sees all or nothing of a transaction that changes RSS and rules.
//!
//! A context never changes. Another key, another table, or one other entry of a table makes another
//! context. The expensive part, the expanded key, is shared by all contexts with that key. So to
//! move an entry is to copy a table of 1 KiB. If entries were stored one by one into a shared
//! table, workers would see them in the middle of a burst, and before their transaction is
//! committed.
//!
//! Workers see all contexts as one list, as they see the groups (`groups`, `worker`). A context
//! leaves the list when every worker has begun another burst since the last word that named it was
//! replaced; its number is then free. So a worker that holds a number finds its context in every
//! newer list.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use niclab_table::{Stamp, WordUpdate};

use super::context::Context;
use super::{Indirection, Rss, RssChange, RssStamp};
use crate::action_word::Fate;
use crate::control::{Nic, SharedState};
use crate::error::RuleError;
use crate::limits::CONTEXTS_MAX;
use crate::reclaim::{Owner, RetiredResources};
use crate::toeplitz::{Toeplitz, ToeplitzError};
use crate::transaction::LoggedStep;

/// The contexts by number. Number 0 has no context.
pub(crate) type List = Vec<Option<Arc<Context>>>;

/// All contexts of a NIC.
pub(crate) struct Contexts {
    shared: Arc<SharedState>,
    /// By number.
    slots: Vec<Slot>,
    /// Numbers of the contexts in use.
    numbers: HashMap<Arc<Rss>, u16>,
    /// Numbers that no word names any more, oldest first.
    leaving: VecDeque<(Stamp, u16)>,
    free: Vec<u16>,
    /// Number of contexts created so far.
    made: u64,
    /// Whether the published list is out of date.
    changed: bool,
    /// Replaced lists that workers still hold.
    old: Vec<Arc<List>>,
}

#[derive(Default)]
struct Slot {
    rss: Arc<Rss>,
    context: Option<Arc<Context>>,
    /// Number of words that name it, including words that a burst may still use.
    uses: u32,
}

impl Slot {
    fn stamp(&self) -> Option<RssStamp> {
        self.context.as_ref().map(|context| context.stamp())
    }
}

impl Contexts {
    /// The port's context alone.
    pub(crate) fn new(shared: Arc<SharedState>, rss: Rss) -> Result<Contexts, ToeplitzError> {
        let toeplitz = Arc::new(Toeplitz::new(&rss.key)?);
        let mut contexts = Contexts {
            shared,
            slots: vec![Slot::default()],
            numbers: HashMap::new(),
            leaving: VecDeque::new(),
            free: Vec::new(),
            made: 0,
            changed: false,
            old: Vec::new(),
        };
        let number = contexts.add(&rss, toeplitz);
        contexts.slots[usize::from(number)].uses = 1;
        contexts.publish();
        contexts.shared.rss.store(number.into(), Ordering::Release);
        Ok(contexts)
    }

    /// The state of RSS of a number.
    pub(crate) fn rss(&self, number: u16) -> &Arc<Rss> {
        &self.slots[usize::from(number)].rss
    }

    /// The stamp of a number's state.
    pub(crate) fn stamp(&self, number: u16) -> RssStamp {
        self.slots[usize::from(number)].stamp().unwrap_or_default()
    }

    /// The number of the context of a state, with one more use; workers know the context from now
    /// on.
    ///
    /// # Errors
    /// [`RuleError::ContextsTooMany`], [`RuleError::Key`]; nothing is then changed.
    pub(crate) fn acquire(&mut self, rss: &Rss) -> Result<u16, RuleError> {
        self.reclaim();
        let number = match self.numbers.get(rss) {
            Some(&number) => number,
            None => self.make(rss)?,
        };
        self.slots[usize::from(number)].uses += 1;
        self.publish();
        Ok(number)
    }

    /// Drops one use of a context by a word.
    pub(crate) fn release(&mut self, number: u16) {
        let slot = &mut self.slots[usize::from(number)];
        slot.uses -= 1;
        if slot.uses == 0 {
            self.numbers.remove(&slot.rss);
            self.leaving.push_back((self.shared.domain.stamp(), number));
        }
    }

    /// Memory of all contexts but this one, and of keys that it does not use; bytes.
    pub(crate) fn bytes_but(&self, number: u16) -> usize {
        let made = || self.slots.iter().filter_map(|slot| slot.context.as_ref());
        let but = self.slots[usize::from(number)].context.as_ref();
        let is_other =
            |key: &&Arc<Toeplitz>| but.is_none_or(|context| !Arc::ptr_eq(context.toeplitz(), key));
        let mut keys: Vec<_> = made().map(|context| context.toeplitz()).filter(is_other).collect();
        keys.sort_by_key(|key| Arc::as_ptr(key));
        keys.dedup_by_key(|key| Arc::as_ptr(key));
        let one = size_of::<Context>() + size_of::<Rss>() + 2 * size_of::<Indirection>();
        (made().count() - usize::from(but.is_some())) * one
            + keys.iter().map(|key| key.bytes()).sum::<usize>()
    }

    fn make(&mut self, rss: &Rss) -> Result<u16, RuleError> {
        if self.free.is_empty() && self.slots.len() > CONTEXTS_MAX {
            return Err(RuleError::ContextsTooMany);
        }
        let made = self.slots.iter().filter_map(|slot| slot.context.as_ref());
        let expanded = made.map(|context| context.toeplitz()).find(|it| it.key() == rss.key);
        let toeplitz = match expanded {
            Some(toeplitz) => Arc::clone(toeplitz),
            None => Arc::new(Toeplitz::new(&rss.key)?),
        };
        Ok(self.add(rss, toeplitz))
    }

    /// Adds a context; returns its number.
    fn add(&mut self, rss: &Rss, toeplitz: Arc<Toeplitz>) -> u16 {
        self.made += 1;
        let stamp = RssStamp { state: self.made, hash: self.hash_like(rss).unwrap_or(self.made) };
        let context = Some(Arc::new(Context::new(rss, toeplitz, stamp)));
        let rss = Arc::new(rss.clone());
        let slot = Slot { rss: Arc::clone(&rss), context, uses: 0 };
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[usize::from(number)] = slot;
                number
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u16 - 1
            }
        };
        self.numbers.insert(rss, number);
        self.changed = true;
        number
    }

    /// The `hash` stamp of an existing context that gives every packet the same hash as `rss`.
    fn hash_like(&self, rss: &Rss) -> Option<u64> {
        let has_its_hash = |slot: &&Slot| {
            let of = &slot.rss;
            (of.function, of.level, of.types) == (rss.function, rss.level, rss.types)
                && of.key == rss.key
        };
        let made = self.slots.iter().filter(|slot| slot.context.is_some());
        made.into_iter().find(has_its_hash).and_then(Slot::stamp).map(|stamp| stamp.hash)
    }

    /// Removes contexts that no worker can reach any more.
    fn reclaim(&mut self) {
        if !self.leaving.is_empty() {
            let passed = self.shared.domain.passed();
            while let Some((_, number)) = self.leaving.pop_front_if(|(stamp, _)| *stamp <= passed) {
                self.slots[usize::from(number)] = Slot::default();
                self.free.push(number);
                self.changed = true;
            }
        }
    }

    /// Publishes the contexts, and frees lists that no worker holds.
    fn publish(&mut self) {
        if std::mem::take(&mut self.changed) {
            let list: List = self.slots.iter().map(|slot| slot.context.clone()).collect();
            self.old.push(self.shared.contexts.swap(Arc::new(list)));
            self.shared.version.fetch_add(1, Ordering::Release);
        }
        self.old.retain(|list| Arc::strong_count(list) > 1);
    }
}

impl Nic {
    /// The port's RSS, which applies to packets that no rule matches; with the changes of an open
    /// transaction.
    pub fn rss(&self) -> &Rss {
        self.contexts.rss(self.rss_number())
    }

    /// The stamp of the port's RSS; [`Worker::rss`] returns the stamp that a worker used.
    ///
    /// [`Worker::rss`]: crate::Worker::rss
    pub fn rss_stamp(&self) -> RssStamp {
        self.contexts.stamp(self.rss_number())
    }

    /// Changes the port's RSS: key, hash function, hash types and indirection table at one instant.
    /// One state applies to all packets of a burst, and the new state to bursts that begin later.
    /// No packet is lost, and nothing waits.
    ///
    /// # Errors
    /// [`RuleError::QueueUnknown`], [`RuleError::Key`], [`RuleError::ContextsTooMany`],
    /// [`RuleError::TransactionFull`]; nothing is then changed.
    pub fn set_rss(&mut self, rss: &Rss) -> Result<(), RuleError> {
        let queues = self.queues();
        if let Some(&queue) = rss.indirection.iter().find(|queue| **queue >= queues) {
            return Err(RuleError::QueueUnknown { queue, queues });
        }
        self.check_transaction_room()?;
        let (old, number) = (self.rss_number(), self.contexts.acquire(rss)?);
        self.set_rss_number(number);
        self.log(LoggedStep::RssChanged { old });
        self.reclaim_some();
        Ok(())
    }

    /// [`Nic::set_rss`] with other queues for some entries of the indirection table; of two pairs
    /// for one entry the last counts.
    ///
    /// # Errors
    /// As [`Nic::set_rss`]; [`RuleError::EntryUnknown`] for an entry that the table does not have.
    pub fn move_entries(&mut self, entries: &[(usize, u16)]) -> Result<(), RuleError> {
        let rss = self.rss_after(&RssChange::Entries(entries.to_vec()))?;
        self.set_rss(&rss)
    }

    /// The number of the port's context.
    pub(crate) fn rss_number(&self) -> u16 {
        self.transactions.newest(self.shared.rss.load(Ordering::Relaxed)) as u16
    }

    /// Makes another context the port's: from each worker's next burst on, or with the open
    /// transaction.
    pub(crate) fn set_rss_number(&mut self, number: u16) {
        let current = self.shared.rss.load(Ordering::Relaxed);
        match self.transactions.update(current, number.into()) {
            WordUpdate::InCell => {}
            WordUpdate::Store(word) => self.shared.rss.store(word, Ordering::Release),
            WordUpdate::StoreReference(id, word) => {
                self.shared.rss.store(word, Ordering::Release);
                self.deferred.own(id, Owner::Rss);
            }
        }
    }

    /// Makes the context `old` the port's again; returns the resources of the new one.
    pub(crate) fn restore_rss(&mut self, old: u16) -> RetiredResources {
        let fate = Fate::Rss(self.rss_number());
        self.set_rss_number(old);
        RetiredResources { fate, mask_id: None, index: None }
    }
}

const _: () = assert!(CONTEXTS_MAX <= u16::MAX as usize, "a number has 16 bits in a word");

#[cfg(test)]
mod tests {
    use crate::memory::{Desc, Region};
    use crate::rss::{HashFunction, HashTypes, RssAction, RssLevel, evenly};
    use crate::rule::{Action, Pattern, Rule};
    use crate::{NicConfig, Worker};

    use super::*;

    fn nic() -> Nic {
        Nic::new(&NicConfig { queues: 256, ..NicConfig::default() }).unwrap()
    }

    /// A frame that is not IP, so that it gets the queue of entry 0.
    fn frame() -> (Arc<Region>, Vec<Desc>) {
        let (region, mut burst) = Region::new(1, 100).unwrap();
        region.set_len(&mut burst[0], 60);
        (region, burst)
    }

    /// Ends a burst that has begun; returns the queue of its frame.
    fn end(worker: &mut Worker, region: &Region, burst: &mut [Desc]) -> u16 {
        assert_eq!(worker.match_groups(region, burst), 0);
        burst[0].queue
    }

    #[test]
    fn a_burst_uses_the_rss_state_it_began_with() {
        let mut nic = nic();
        let mut worker = nic.worker();
        let (region, mut burst) = frame();
        nic.move_entries(&[(0, 1)]).unwrap();
        worker.begin(&*region, &burst);
        let mut transaction = nic.transaction();
        transaction.move_entries(&[(0, 2)]).unwrap();
        transaction.commit().unwrap();
        for round in 0..300 {
            nic.set_rss(&Rss { indirection: evenly([round % 256]), ..Rss::default() }).unwrap();
        }
        assert_eq!(end(&mut worker, &region, &mut burst), 1);
        worker.begin(&*region, &burst);
        assert_eq!(end(&mut worker, &region, &mut burst), 299 - 256);
    }

    #[test]
    fn a_burst_takes_a_transaction_whole_or_not_at_all() {
        let mut nic = nic();
        let mut worker = nic.worker();
        let (region, mut burst) = frame();
        let mut transaction = nic.transaction();
        transaction.move_entries(&[(0, 2)]).unwrap();
        worker.begin(&*region, &burst);
        assert_eq!(end(&mut worker, &region, &mut burst), 0, "before the commit");
        worker.begin(&*region, &burst);
        transaction.commit().unwrap();
        assert_eq!(end(&mut worker, &region, &mut burst), 0, "at the commit");
        worker.begin(&*region, &burst);
        assert_eq!(end(&mut worker, &region, &mut burst), 2, "from the commit on");
        nic.move_entries(&[(0, 3)]).unwrap();
        worker.begin(&*region, &burst);
        assert_eq!(
            end(&mut worker, &region, &mut burst),
            3,
            "a single change, while the cell is there"
        );
        assert!(nic.run_housekeeping(usize::MAX));
        worker.begin(&*region, &burst);
        assert_eq!(end(&mut worker, &region, &mut burst), 3, "without the cell");
    }

    #[test]
    fn a_worker_counts_the_packets_of_each_rss_state() {
        let mut nic = nic();
        let mut worker = nic.worker();
        let (region, mut burst) = Region::new(2, 100).unwrap();
        burst.iter_mut().for_each(|desc| region.set_len(desc, 60));
        region.slot_mut(&mut burst[0])[5] = 1;
        assert!(worker.rss().is_none(), "before its first burst");
        let queue = [Action::Queue(9)];
        let pattern = Pattern::any().eth_dst([0, 0, 0, 0, 0, 1]);
        nic.create(&Rule { group: 0, priority: 0, pattern, actions: &queue }).unwrap();
        assert_eq!(worker.classify(&region, &mut burst), 0);
        assert_eq!(worker.port_rss_packets(), 0b10, "of the first a rule decides");
        let first = worker.rss().unwrap().0;
        assert_eq!(first, nic.rss_stamp());

        nic.move_entries(&[(3, 7)]).unwrap();
        assert_eq!(worker.rss().unwrap().0, first, "until its next burst");
        assert_eq!(worker.classify(&region, &mut []), 0);
        assert_eq!(worker.port_rss_packets(), 0);
        let (moved, table) = worker.rss().unwrap();
        assert_eq!((moved, table[3]), (nic.rss_stamp(), 7));
        assert!(moved.state > first.state && moved.hash == first.hash, "another table alone");

        let others = [
            Rss { key: vec![1; 40], ..nic.rss().clone() },
            Rss { function: HashFunction::SymmetricToeplitz, ..nic.rss().clone() },
            Rss { types: HashTypes::IP, ..nic.rss().clone() },
            Rss { level: RssLevel::Inner, ..nic.rss().clone() },
        ];
        let mut hashes = vec![first.hash];
        for other in others {
            nic.set_rss(&other).unwrap();
            assert!(!hashes.contains(&nic.rss_stamp().hash), "{other:?}");
            hashes.push(nic.rss_stamp().hash);
        }
    }

    #[test]
    fn contexts_that_nobody_uses_are_given_back_when_workers_have_run() {
        let mut nic = nic();
        let mut worker = nic.worker();
        let (region, mut burst) = frame();
        let mut next = 0_u16;
        let mut change = |nic: &mut Nic| {
            next += 1;
            nic.move_entries(&[(0, next % 256), (1, next / 256)])
        };
        worker.begin(&*region, &burst);
        let refused = (0..2 * CONTEXTS_MAX).find(|_| change(&mut nic).is_err());
        assert_eq!(refused, Some(CONTEXTS_MAX - 1), "one is in use, and one was at first");
        let kept = nic.rss().clone();
        assert_eq!(change(&mut nic), Err(RuleError::ContextsTooMany));
        assert_eq!(*nic.rss(), kept);
        end(&mut worker, &region, &mut burst);
        worker.begin(&*region, &burst);
        change(&mut nic).unwrap();
        assert_eq!(nic.contexts.free.len(), CONTEXTS_MAX - 2);
        assert_eq!(nic.contexts.leaving.len(), 1);
        assert_eq!(nic.contexts.slots.len(), CONTEXTS_MAX + 1);
    }

    fn rss_rule(queues: &[u16]) -> Action {
        Action::Rss(Box::new(RssAction { queues: queues.to_vec(), ..RssAction::default() }))
    }

    fn rule(priority: u32, actions: &[Action]) -> Rule<'_> {
        Rule { group: 0, priority, pattern: Pattern::any(), actions }
    }

    #[test]
    fn rules_of_one_state_share_a_context_and_the_last_of_them_gives_it_back() {
        let mut nic = nic();
        let one = [rss_rule(&[1, 2])];
        let same = [Action::Count, rss_rule(&[1, 2])];
        let first = nic.create(&rule(0, &one)).unwrap();
        let second = nic.create(&rule(1, &same)).unwrap();
        let third = nic.create(&rule(2, &[Action::Mark(7), rss_rule(&[1, 2])])).unwrap();
        assert_eq!(nic.contexts.numbers.len(), 2, "theirs and the port's");
        nic.update(first, &[Action::Drop]).unwrap();
        nic.destroy(second).unwrap();
        assert_eq!(nic.contexts.numbers.len(), 2);
        nic.modify(third, &rule(3, &[Action::Mark(7), rss_rule(&[2, 1])])).unwrap();
        assert!(nic.run_housekeeping(usize::MAX));
        assert_eq!(nic.contexts.numbers.len(), 2, "another");
        nic.destroy(third).unwrap();
        assert_eq!(nic.contexts.numbers.len(), 1);
    }

    #[test]
    fn a_dropped_transaction_and_a_refused_rule_leave_no_context() {
        let mut nic = nic();
        let id = nic.create(&rule(0, &[Action::Drop])).unwrap();
        let mut transaction = nic.transaction();
        transaction.update(id, &[rss_rule(&[1])]).unwrap();
        transaction.create(&rule(1, &[rss_rule(&[2])])).unwrap();
        transaction.update(id, &[rss_rule(&[3])]).unwrap();
        let two = [rss_rule(&[4]), rss_rule(&[5])];
        assert!(matches!(transaction.update(id, &two), Err(RuleError::FatesTwo { .. })));
        drop(transaction);
        assert!(nic.create(&rule(0, &[rss_rule(&[6])])).is_err(), "a duplicate");
        let unknown = Err(RuleError::QueueUnknown { queue: 256, queues: 256 });
        assert_eq!(nic.update(id, &[rss_rule(&[256])]), unknown);
        let many = Err(RuleError::QueuesTooMany { count: 129 });
        assert_eq!(nic.update(id, &[rss_rule(&[0; 129])]), many);
        assert_eq!(nic.contexts.numbers.len(), 1);
        let number = nic.rss_number();
        assert_eq!(nic.contexts.slots[usize::from(number)].uses, 1);
    }

    /// A rule with `rss` makes the worker take the newest contexts. RSS then also applies to a
    /// packet that goes on in another group and matches no rule there.
    #[test]
    fn contexts_taken_in_the_middle_of_a_burst_have_those_it_began_with() {
        let mut nic = nic();
        let mut worker = nic.worker();
        let (region, mut burst) = Region::new(2, 100).unwrap();
        burst.iter_mut().for_each(|desc| region.set_len(desc, 60));
        region.slot_mut(&mut burst[0])[5] = 1;
        let pattern = Pattern::any().eth_dst([0, 0, 0, 0, 0, 1]);
        let actions = [rss_rule(&[9])];
        nic.create(&Rule { group: 0, priority: 0, pattern, actions: &actions }).unwrap();
        nic.create(&rule(1, &[Action::Jump(1)])).unwrap();
        worker.begin(&*region, &burst);
        for queue in 1..20 {
            nic.move_entries(&[(0, queue)]).unwrap();
        }
        assert_eq!(worker.match_groups(&*region, &mut burst), 0);
        assert_eq!([burst[0].queue, burst[1].queue], [9, 0]);
    }
}
