//! The control side: rules are created, changed and destroyed here, one thread at a time.
//!
//! Workers see a rule through one table entry, which appears and disappears at once. In a
//! transaction, many entries refer to the same instant (`transaction`). The control side publishes
//! a rule in this order, so that a worker that finds the entry also finds the rule's order and the
//! group it leads to, and never stops looking too early:
//!
//! 1. It widens the orders of the rule's mask and adds the rule to the group's filter.
//! 2. It stores the rule's order.
//! 3. It publishes the groups.
//! 4. It stores the entry.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use niclab_table::{
    Chunks, QsbrDomain, Retired, Segments, Stamp, Transactions, VersionedValues, WordUpdate,
    is_reference,
};

use crate::action_list::{ActionListAllocator, ActionLists, write_steps};
use crate::action_word::{ActionWord, Fate, RuleFate};
use crate::age::RuleAges;
use crate::counters::{Counters, Counts};
use crate::error::{NicError, Refused, RuleError};
use crate::groups::{GroupViews, Groups, MaskId};
use crate::limits::{
    ACTION_LISTS_MAX, ACTIONS_MAX, METERS_MAX, OPERATION_CELLS, PORTS_MAX, PRIORITY_MAX,
    QUEUES_MAX, RULES_MAX,
};
use crate::mask::StoredKey;
use crate::meter::Meters;
use crate::priority_list::{Target, order_of};
use crate::queue::ServedQueue;
use crate::reclaim::{DeferredWork, Owner, RetiredResources, resources_of};
use crate::rss::contexts::{self, Contexts};
use crate::rss::{Rss, evenly};
use crate::rule::{Action, Pattern, Rule};
use crate::template::Templates;
use crate::toeplitz::MICROSOFT_KEY;
use crate::transaction::LoggedStep;
use crate::worker::Worker;

/// The configuration of a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicConfig {
    /// Receive queues, 1 to [`QUEUES_MAX`].
    pub queues: u16,
    /// Ethernet ports that rules can send packets by, 1 to [`PORTS_MAX`], numbered from 0. A NIC
    /// with one port sends packets by the port that they came in by.
    pub ports: u16,
    /// RSS key; see [`crate::toeplitz`].
    pub rss_key: Vec<u8>,
    /// Seed of the tables' hashes.
    pub seed: u64,
}

impl Default for NicConfig {
    fn default() -> NicConfig {
        NicConfig { queues: 1, ports: 1, rss_key: MICROSOFT_KEY.to_vec(), seed: 0 }
    }
}

/// The handle of a rule. It is valid until the rule is destroyed, and never names another rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId {
    index: u32,
    generation: u32,
}

/// State that workers share with the control side.
pub(crate) struct SharedState {
    pub(crate) groups: ArcSwap<GroupViews>,
    /// Raised after each change of `groups` or `contexts`.
    pub(crate) version: AtomicU64,
    /// Order of each rule (`priority_list::order_of`), or a reference to its old and new order.
    pub(crate) orders: Segments<1>,
    /// Resolves references in words and orders.
    pub(crate) versions: Arc<VersionedValues>,
    pub(crate) action_lists: ActionLists,
    /// Last hits of rules that age.
    pub(crate) ages: RuleAges,
    /// The port's RSS: number of a context, or a reference to the old and new number.
    pub(crate) rss: AtomicU64,
    pub(crate) contexts: ArcSwap<contexts::List>,
    /// The fate of packets that no rule matches: [`MISSES_RSS`] or [`MISSES_DROPPED`], or a
    /// reference to the old and new fate.
    pub(crate) misses: AtomicU64,
    pub(crate) meters: Meters,
    pub(crate) domain: QsbrDomain,
}

pub(crate) const MISSES_RSS: u64 = 0;
pub(crate) const MISSES_DROPPED: u64 = 1;

/// NICs made so far.
static NICS: AtomicU32 = AtomicU32::new(0);

/// The control side of a software NIC.
pub struct Nic {
    queues: u16,
    ports: u16,
    pub(crate) shared: Arc<SharedState>,
    pub(crate) groups: Groups,
    pub(crate) contexts: Contexts,
    pub(crate) records: Chunks<RuleRecord>,
    /// The generation of the first rule at each index.
    first_generation: u32,
    /// Indices of destroyed rules.
    pub(crate) free_indices: Retired<u32>,
    created: u64,
    pub(crate) live: u32,
    counters: Vec<Arc<Counters>>,
    /// Allocates memory for action lists.
    pub(crate) action_list_allocator: ActionListAllocator,
    pub(crate) templates: Templates,
    /// Meters by number. A destroyed meter has the stamp of its destruction.
    pub(crate) meters: HashMap<u32, Option<Stamp>>,
    /// A buffer for the targets of the next operations of a bulk call.
    pub(crate) targets_ahead: Vec<Target>,
    /// The NIC's ends of operation queues.
    pub(crate) served: Vec<ServedQueue>,
    /// Distinguishes this NIC's template tables from those of another NIC.
    pub(crate) number: u32,
    /// The steps of the rule that was checked last.
    pub(crate) steps: Vec<u64>,
    /// RSS of the rule that was checked last, if it has an `rss` action.
    checked_rss: Rss,
    pub(crate) transactions: Transactions,
    pub(crate) deferred: DeferredWork,
}

/// The parameters of a rule to create.
#[derive(Clone, Copy)]
pub(crate) struct RuleSpec<'a> {
    pub(crate) group: u32,
    pub(crate) priority: u32,
    /// Only read if the rule's mask is not known yet.
    pub(crate) pattern: &'a Pattern,
    pub(crate) actions: &'a [Action],
}

impl Rule<'_> {
    #[inline]
    pub(crate) fn spec(&self) -> RuleSpec<'_> {
        let Rule { group, priority, ref pattern, actions } = *self;
        RuleSpec { group, priority, pattern, actions }
    }
}

/// A rule's checked actions, apart from its steps.
#[derive(Clone, Copy)]
pub(crate) struct Checked {
    pub(crate) fate: RuleFate,
    pub(crate) counts: bool,
}

/// The control side's record of a rule, live or destroyed.
#[derive(Clone, Copy, Default)]
pub(crate) struct RuleRecord {
    pub(crate) word: ActionWord,
    pub(crate) order: u64,
    pub(crate) generation: u32,
    pub(crate) mask_id: MaskId,
    /// Its key.
    pub(crate) key: StoredKey,
    /// The next rule of the same key, by order.
    pub(crate) next: Option<u32>,
}

impl RuleRecord {
    /// The id of the rule, whose record is at `index`.
    pub(crate) fn id(&self, index: u32) -> RuleId {
        RuleId { index, generation: self.generation }
    }
}

impl RuleId {
    /// The id as a number, for programs that cannot hold the type. Never 0; bits 25 to 31 are zero.
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index + 1)
    }

    /// The id of a number that [`RuleId::to_bits`] made. Of any other number, an id that names no
    /// rule, or one that exists.
    #[inline]
    pub fn from_bits(bits: u64) -> RuleId {
        let index = (bits as u32).wrapping_sub(1);
        RuleId { index, generation: (bits >> 32) as u32 }
    }

    /// Index of the rule's record.
    pub(crate) fn index(self) -> u32 {
        self.index
    }
}

impl Nic {
    /// A NIC without rules: RSS sends all packets to the queues.
    pub fn new(config: &NicConfig) -> Result<Nic, NicError> {
        let queues = config.queues;
        if !(1..=QUEUES_MAX).contains(&queues) {
            return Err(NicError::Queues { queues });
        }
        let ports = config.ports;
        if !(1..=PORTS_MAX).contains(&ports) {
            return Err(NicError::Ports { ports });
        }
        let domain = QsbrDomain::new();
        let transactions = Transactions::new(&domain);
        let shared = SharedState {
            groups: ArcSwap::from_pointee(GroupViews::new()),
            version: AtomicU64::new(0),
            orders: Segments::new(RULES_MAX),
            versions: transactions.versions(),
            action_lists: ActionLists::new(),
            ages: RuleAges::new(),
            rss: AtomicU64::new(0),
            contexts: ArcSwap::default(),
            misses: AtomicU64::new(MISSES_RSS),
            meters: Meters::new(METERS_MAX),
            domain,
        };
        let shared = Arc::new(shared);
        let (key, indirection) = (config.rss_key.clone(), evenly(0..queues));
        let rss = Rss { key, indirection, ..Rss::default() };
        Ok(Nic {
            queues,
            ports,
            contexts: Contexts::new(Arc::clone(&shared), rss)?,
            groups: Groups::new(Arc::clone(&shared), config.seed),
            shared,
            records: Chunks::default(),
            first_generation: 0,
            free_indices: Retired::default(),
            created: 0,
            live: 0,
            counters: Vec::new(),
            action_list_allocator: ActionListAllocator::default(),
            templates: Templates::default(),
            meters: HashMap::new(),
            targets_ahead: Vec::new(),
            served: Vec::new(),
            number: NICS.fetch_add(1, Ordering::Relaxed),
            steps: Vec::new(),
            checked_rss: Rss::default(),
            transactions,
            deferred: DeferredWork::default(),
        })
    }

    /// Takes the place of another NIC: its rules get ids that no rule of the former has had. Call
    /// it before the first rule.
    pub fn succeed(&mut self, former: &Nic) {
        let newest = former.records.iter().map(|record| record.generation).max();
        let newest = newest.unwrap_or(former.first_generation).max(former.first_generation);
        self.first_generation = newest.wrapping_add(1);
    }

    /// A worker: the pipeline for one core.
    pub fn worker(&mut self) -> Worker {
        let counters = Arc::new(Counters::new());
        let counting = self.records.iter().enumerate().filter(|(_, record)| record.word.counts());
        for (index, _) in counting {
            counters.ensure(index as u32);
        }
        self.counters.push(Arc::clone(&counters));
        Worker::new(Arc::clone(&self.shared), counters)
    }

    /// Number of receive queues.
    pub fn queues(&self) -> u16 {
        self.queues
    }

    /// Live rules.
    pub fn len(&self) -> u32 {
        self.live
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Memory that rules take, in bytes: tables, orders, counters, ages, meters, action lists,
    /// states of RSS other than the port's, the control side's records, and what transactions have
    /// not reclaimed yet. The table of a mask without rules counts until no worker holds it; the
    /// next operation then frees it.
    pub fn rule_bytes(&self) -> usize {
        let counters: usize = self.counters.iter().map(|c| c.bytes()).sum();
        let records = self.records.bytes() + self.free_indices.bytes();
        let versions = self.transactions.bytes() + self.deferred.bytes();
        let action_lists = self.shared.action_lists.bytes() + self.action_list_allocator.bytes();
        let contexts = self.contexts.bytes_but(self.rss_number());
        let tables = self.groups.bytes() + self.shared.orders.bytes();
        let noted = self.shared.ages.bytes() + self.shared.meters.bytes();
        tables + action_lists + noted + contexts + counters + records + versions
    }

    /// Creates a rule; packets match it from now on.
    pub fn create(&mut self, rule: &Rule<'_>) -> Result<RuleId, RuleError> {
        let target = self.target(rule);
        // The tags arrive while the actions are checked.
        self.prefetch_tags(&target);
        self.create_at(rule.spec(), &target).map_err(RuleError::from)
    }

    /// [`Nic::create`] for a rule whose target is known.
    #[inline]
    pub(crate) fn create_at(
        &mut self,
        rule: RuleSpec<'_>,
        target: &Target,
    ) -> Result<RuleId, Refused> {
        let checked = self.check(rule)?;
        self.create_checked(rule, target, checked)
    }

    /// [`Nic::create_at`] for a rule that was just checked.
    #[inline]
    pub(crate) fn create_checked(
        &mut self,
        rule: RuleSpec<'_>,
        target: &Target,
        checked: Checked,
    ) -> Result<RuleId, Refused> {
        self.check_transaction_room()?;
        let index = self.index()?;
        let old = self.records.get(index as usize).map(|record| record.generation);
        let generation = old.unwrap_or(self.first_generation);
        let order = order_of(0, self.created);
        self.counters.iter().for_each(|c| c.clear(index));
        let new = RuleRecord { generation, order, ..RuleRecord::default() };
        self.insert_rule(index, rule, checked, target, &new)?;
        if old.is_some() {
            self.free_indices.take(&self.shared.domain);
        }
        self.created += 1;
        self.live += 1;
        self.log(LoggedStep::Linked { index, created: true });
        self.reclaim_some();
        Ok(RuleId { index, generation })
    }

    /// Replaces the actions of a rule; each packet sees either the old or the new actions.
    pub fn update(&mut self, id: RuleId, actions: &[Action]) -> Result<(), RuleError> {
        self.update_actions(id, actions).map_err(RuleError::from)
    }

    #[inline]
    pub(crate) fn update_actions(&mut self, id: RuleId, actions: &[Action]) -> Result<(), Refused> {
        let plain = self.plain_fate(actions);
        if plain.is_some_and(|fate| self.update_plain(id, fate)) {
            return Ok(());
        }
        let old = self.record(id)?;
        let group = self.groups.number(old.mask_id.group);
        let pattern = &Pattern::any();
        let checked = self.check(RuleSpec { group, priority: 0, pattern, actions })?;
        self.update_checked(id, &old, checked)
    }

    /// The fate of actions that consist of one `queue` or one `drop`.
    #[inline]
    pub(crate) fn plain_fate(&self, actions: &[Action]) -> Option<Fate> {
        match *actions {
            [Action::Queue(queue)] if queue < self.queues => Some(Fate::Queue(queue)),
            [Action::Drop] => Some(Fate::Drop),
            _ => None,
        }
    }

    /// The fast path of updates: replaces a plain fate by a plain fate, if no resource has to be
    /// freed, no transaction is open and nothing is left to reclaim. False, and nothing is changed,
    /// if the update needs the slow path.
    #[inline]
    pub(crate) fn update_plain(&mut self, id: RuleId, fate: Fate) -> bool {
        if self.transactions.is_open() || !self.deferred.is_idle() {
            return false;
        }
        let Some(record) = self.live_record(id).filter(|record| record.word.is_plain()) else {
            return false;
        };
        let (mask_id, stored) = (record.mask_id, record.key);
        let mut mask = self.groups.mask(mask_id);
        let Some(current) = mask.current_word(stored) else {
            return false;
        };
        debug_assert!(!is_reference(current), "no transaction left anything");
        let word = ActionWord::new(fate, false, id.index);
        // Another rule of the same key may be better.
        if ActionWord(current).rule() == id.index {
            mask.set(stored, word.0);
        }
        self.records[id.index as usize].word = word;
        // Frees what older operations left behind.
        self.groups.publish();
        true
    }

    /// [`Nic::update_actions`] for actions that are already checked.
    #[inline]
    pub(crate) fn update_checked(
        &mut self,
        id: RuleId,
        old: &RuleRecord,
        checked: Checked,
    ) -> Result<(), Refused> {
        self.groups.check_places(0, checked.fate)?;
        self.check_transaction_room()?;
        let checked = self.acquire_context(checked)?;
        self.start_aging(id.index, old.word);
        let word = self.make_word(id.index, checked);
        if checked.counts {
            self.counters.iter().for_each(|c| c.ensure(id.index));
        }
        self.records[id.index as usize].word = word;
        self.update_if_head(id.index, old, word);
        self.log(LoggedStep::Updated { index: id.index, old: old.word });
        self.reclaim_some();
        Ok(())
    }

    /// Destroys a rule; later packets do not match it.
    pub fn destroy(&mut self, id: RuleId) -> Result<(), RuleError> {
        self.destroy_rule(id).map_err(RuleError::from)
    }

    #[inline]
    pub(crate) fn destroy_rule(&mut self, id: RuleId) -> Result<(), Refused> {
        let old = self.record(id)?;
        self.check_transaction_room()?;
        self.unlink(id.index, &old);
        self.invalidate_id(id.index);
        self.groups.retire_rule(old.mask_id);
        self.log(LoggedStep::Unlinked { index: id.index, old, destroyed: true });
        self.reclaim_some();
        Ok(())
    }

    /// Sets the fate of packets that no rule matches: dropped if `on`, else sent to queues by RSS
    /// (`rte_flow_isolate`).
    ///
    /// # Errors
    /// [`RuleError::TransactionFull`].
    pub fn isolate(&mut self, on: bool) -> Result<(), RuleError> {
        self.check_transaction_room()?;
        let old = self.transactions.newest(self.shared.misses.load(Ordering::Relaxed));
        self.set_misses(if on { MISSES_DROPPED } else { MISSES_RSS });
        self.log(LoggedStep::Isolated { old });
        self.reclaim_some();
        Ok(())
    }

    /// Whether packets that no rule matches are dropped.
    pub fn is_isolated(&self) -> bool {
        self.transactions.newest(self.shared.misses.load(Ordering::Relaxed)) == MISSES_DROPPED
    }

    pub(crate) fn set_misses(&mut self, misses: u64) {
        let slot = &self.shared.misses;
        match self.transactions.update(slot.load(Ordering::Relaxed), misses) {
            WordUpdate::InCell => {}
            WordUpdate::Store(word) => slot.store(word, Ordering::Release),
            WordUpdate::StoreReference(id, word) => {
                slot.store(word, Ordering::Release);
                self.deferred.own(id, Owner::Misses);
            }
        }
    }

    /// Packets and bytes that a counting rule has counted on all workers since it was created.
    /// Exact once the workers have finished their bursts.
    pub fn query(&self, id: RuleId) -> Result<Counts, RuleError> {
        self.record(id)?;
        Ok(self.counters.iter().map(|c| c.counts(id.index)).sum())
    }

    /// Whether a rule counts.
    ///
    /// # Errors
    /// [`RuleError::Unknown`].
    pub fn is_counting(&self, id: RuleId) -> Result<bool, RuleError> {
        Ok(self.record(id)?.word.counts())
    }

    /// The ids of all live rules, in no particular order. Goes through all rules.
    pub fn rules(&self) -> impl Iterator<Item = RuleId> {
        let all = (0..).zip(self.records.iter()).filter(|(_, record)| record.word.is_some());
        all.map(|(index, record)| record.id(index))
    }

    /// Packets that were dropped because their slot had no headroom for a header to put in front.
    pub fn headroom_drops(&self) -> u64 {
        self.counters.iter().map(|c| c.headroom_drops()).sum()
    }

    /// The index of a new rule: the oldest freed index that no worker can reach any more, or else
    /// one that was never used.
    #[inline]
    fn index(&mut self) -> Result<u32, Refused> {
        let domain = &self.shared.domain;
        match self.free_indices.oldest(domain) {
            Some(index) => Ok(index),
            None if self.records.len() < RULES_MAX as usize => Ok(self.records.len() as u32),
            None => self.free_indices.any(domain).ok_or_else(|| RuleError::RulesTooMany.into()),
        }
    }

    #[inline]
    pub(crate) fn record(&self, id: RuleId) -> Result<RuleRecord, Refused> {
        self.live_record(id).copied().ok_or_else(|| RuleError::Unknown(id).into())
    }

    /// The record of a rule that is live.
    #[inline]
    pub(crate) fn live_record(&self, id: RuleId) -> Option<&RuleRecord> {
        let record = self.records.get(id.index as usize);
        record.filter(|record| record.generation == id.generation && record.word.is_some())
    }

    /// Ends the life of a rule: its id names nothing from now on.
    pub(crate) fn invalidate_id(&mut self, index: u32) {
        let record = &mut self.records[index as usize];
        let generation = record.generation.wrapping_add(1);
        *record = RuleRecord { generation, ..RuleRecord::default() };
        self.live -= 1;
    }

    /// Refuses the operation if the open transaction has no room for it.
    pub(crate) fn check_transaction_room(&mut self) -> Result<(), Refused> {
        match self.transactions.is_open() && !self.transactions.has_room(OPERATION_CELLS) {
            true => Err(RuleError::TransactionFull.into()),
            false => Ok(()),
        }
    }

    /// Checks what can be refused without a look at other rules, and that there is memory for the
    /// action list. Keeps the steps for [`Nic::make_word`].
    #[inline]
    pub(crate) fn check(&mut self, rule: RuleSpec<'_>) -> Result<Checked, Refused> {
        if rule.priority > PRIORITY_MAX {
            return Err(RuleError::Priority { priority: rule.priority }.into());
        }
        let plain = match self.plain_fate(rule.actions) {
            Some(Fate::Queue(queue)) => Some(RuleFate::Queue(queue)),
            Some(Fate::Drop) => Some(RuleFate::Drop),
            _ => None,
        };
        if let Some(fate) = plain {
            self.clear_steps();
            return Ok(Checked { fate, counts: false });
        }
        if rule.actions.len() > ACTIONS_MAX {
            return Err(RuleError::ActionsTooMany { count: rule.actions.len() }.into());
        }
        if let Some(action) = rule.actions.iter().filter(|a| matches!(a, Action::Age(_))).nth(1) {
            let (action, reason) = (action.clone(), "a rule has one age");
            return Err(RuleError::ActionUnfit { action, reason }.into());
        }
        let mut found = None;
        for action in rule.actions {
            let fate = match *action {
                Action::Queue(queue) if queue >= self.queues => {
                    return Err(RuleError::QueueUnknown { queue, queues: self.queues }.into());
                }
                Action::Jump(to) if to <= rule.group => {
                    return Err(RuleError::JumpBack { from: rule.group, to }.into());
                }
                Action::Meter(number) if !self.has_meter(number) => {
                    return Err(RuleError::MeterUnknown { number }.into());
                }
                Action::Port(port) if port >= self.ports => {
                    return Err(RuleError::PortUnknown { port, ports: self.ports }.into());
                }
                Action::Port(port) => RuleFate::Port(port),
                Action::Queue(queue) => RuleFate::Queue(queue),
                Action::Drop => RuleFate::Drop,
                Action::Jump(group) => RuleFate::Jump(group),
                Action::Rss(ref rss) => {
                    self.checked_rss = self.rss_of(rss)?;
                    RuleFate::Rss(0)
                }
                _ => match action.problem() {
                    None => continue,
                    Some(reason) => {
                        return Err(
                            RuleError::ActionUnfit { action: action.clone(), reason }.into()
                        );
                    }
                },
            };
            if let Some((first, _)) = found.replace((action, fate)) {
                let (first, second) = (first.clone(), action.clone());
                return Err(RuleError::FatesTwo { first, second }.into());
            }
        }
        let (_, fate) = found.ok_or(RuleError::FateMissing)?;
        write_steps(rule.actions, &mut self.steps);
        if !self.steps.is_empty()
            && !self.action_list_allocator.has_room(&self.steps, &self.shared.domain)
        {
            let reason = format!("{ACTION_LISTS_MAX} units of action lists are in use");
            return Err(RuleError::Memory { reason }.into());
        }
        Ok(Checked { fate, counts: rule.actions.contains(&Action::Count) })
    }

    /// Clears the steps, for actions that have none.
    #[inline]
    pub(crate) fn clear_steps(&mut self) {
        self.steps.clear();
    }

    /// Takes a reference to the context of the rule that was checked last, if it has one.
    fn acquire_context(&mut self, checked: Checked) -> Result<Checked, Refused> {
        match checked.fate {
            RuleFate::Rss(_) => {
                let fate = RuleFate::Rss(self.contexts.acquire(&self.checked_rss)?);
                Ok(Checked { fate, ..checked })
            }
            _ => Ok(checked),
        }
    }

    /// The action word of the rule that was checked last, whose context was acquired.
    fn make_word(&mut self, index: u32, checked: Checked) -> ActionWord {
        let mut fate = self.groups.resolve_fate(checked.fate);
        if !self.steps.is_empty() {
            fate = Fate::ActionList(self.action_list_allocator.put(
                &self.shared.action_lists,
                fate,
                &self.steps,
            ));
        }
        ActionWord::new(fate, checked.counts, index)
    }

    /// Inserts a rule into the group, mask and priority list that it names. `from` has its
    /// generation and the number of its creation. On failure nothing is changed.
    pub(crate) fn insert_rule(
        &mut self,
        index: u32,
        rule: RuleSpec<'_>,
        checked: Checked,
        target: &Target,
        from: &RuleRecord,
    ) -> Result<(), Refused> {
        let order = order_of(rule.priority, from.order);
        if matches!(checked.fate, RuleFate::Jump(_)) {
            // A group that is made for a refused rule could not be reused at once.
            self.check_duplicate(order, rule.group, target)?;
        }
        self.groups.check_room(
            rule.group,
            checked.fate,
            target.mask_id,
            self.transactions.is_open(),
        )?;
        let checked = self.acquire_context(checked)?;
        let entered = self.groups.add_rule(rule.group, rule.pattern, target.mask_id);
        let mask_id = entered.inspect_err(|_| {
            if let RuleFate::Rss(context) = checked.fate {
                self.contexts.release(context);
            }
        })?;
        self.start_aging(index, from.word);
        let word = self.make_word(index, checked);
        let generation = from.generation;
        let record = RuleRecord { word, order, generation, mask_id, ..RuleRecord::default() };
        self.put(index, record, target).inspect_err(|_| {
            self.groups.retire_rule(mask_id);
            self.retire(RetiredResources { index: None, ..resources_of(index, &record) });
        })
    }

    /// Publishes a rule behind the better rules of its key.
    fn put(&mut self, index: u32, record: RuleRecord, target: &Target) -> Result<(), Refused> {
        if record.word.counts() {
            self.counters.iter().for_each(|c| c.ensure(index));
        }
        self.groups.admit(record.mask_id, &target.key, record.order);
        let former = self.set_order(index, record.order);
        self.groups.publish();
        self.link(index, record, target).inspect_err(|_| {
            self.set_order(index, former);
        })
    }
}
