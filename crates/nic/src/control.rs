//! The control side: rules are created, changed and destroyed here, one thread at a time.
//!
//! Workers see a rule through one table entry, which appears and disappears at once, or through a
//! reference that many entries have to the same instant (`transaction`). What a packet can find is
//! decided in this order: the orders of the rule's mask are widened and the group's filter grown,
//! the rule's order is stored, the groups are published, and then the entry. So a worker that finds
//! the entry also finds its order and the group it leads to, and never stops looking too early.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use niclab_table::{
    Changes, Chunks, Domain, Placed, Retired, Segments, Stamp, Versions, is_reference,
};

use crate::age::Ages;
use crate::chain::{Target, order_of};
use crate::counters::{Counters, Counts};
use crate::error::{NicError, Refused, RuleError};
use crate::groups::{Groups, Lists, Seat};
use crate::limits::{
    ACTIONS_MAX, METERS_MAX, OPERATION_CELLS, PORTS_MAX, PRIORITY_MAX, PROGRAMS_MAX, QUEUES_MAX,
    RULES_MAX,
};
use crate::mask::Kept;
use crate::meter::Meters;
use crate::program::{Programs, Shelf, write_steps};
use crate::queue::Served;
use crate::rss::contexts::{self, Contexts};
use crate::rss::{Rss, evenly};
use crate::rule::{Action, Pattern, Rule};
use crate::settle::{Leftover, Owner, Settle, all_of};
use crate::template::Templates;
use crate::toeplitz::MICROSOFT_KEY;
use crate::transaction::Logged;
use crate::word::{Decision, Fate, Word};
use crate::worker::Worker;

/// What a NIC is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicConfig {
    /// Receive queues, 1 to [`QUEUES_MAX`].
    pub queues: u16,
    /// Ethernet ports that rules can let packets leave by, 1 to [`PORTS_MAX`], numbered from 0;
    /// where there is one, it is the one that they came by.
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

/// A rule that was created. It stays good until the rule is destroyed, and never names another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId {
    index: u32,
    generation: u32,
}

/// What workers share with the control side.
pub(crate) struct Board {
    pub(crate) groups: ArcSwap<Lists>,
    /// Raised after each change of `groups` or `contexts`.
    pub(crate) version: AtomicU64,
    /// Order of each rule (`chain::order_of`), or a reference to what it was and will be.
    pub(crate) orders: Segments<1>,
    /// What references in words and orders stand for.
    pub(crate) versions: Arc<Versions>,
    pub(crate) programs: Programs,
    /// When rules that age met packets.
    pub(crate) ages: Ages,
    /// The port's RSS: number of a context, or a reference to what it was and will be.
    pub(crate) rss: AtomicU64,
    pub(crate) contexts: ArcSwap<contexts::List>,
    /// What becomes of packets that no rule matches: [`MISSES_SPREAD`] or [`MISSES_DROPPED`], or a
    /// reference to what it was and will be.
    pub(crate) misses: AtomicU64,
    pub(crate) meters: Meters,
    pub(crate) domain: Domain,
}

pub(crate) const MISSES_SPREAD: u64 = 0;
pub(crate) const MISSES_DROPPED: u64 = 1;

/// NICs made so far.
static NICS: AtomicU32 = AtomicU32::new(0);

/// The control side of a software NIC.
pub struct Nic {
    queues: u16,
    ports: u16,
    pub(crate) board: Arc<Board>,
    pub(crate) groups: Groups,
    pub(crate) contexts: Contexts,
    pub(crate) records: Chunks<Record>,
    /// Indices of destroyed rules.
    pub(crate) freed: Retired<u32>,
    created: u64,
    pub(crate) live: u32,
    counters: Vec<Arc<Counters>>,
    /// Where programs are put.
    pub(crate) shelf: Shelf,
    pub(crate) templates: Templates,
    /// Meters by number; of those destroyed, when.
    pub(crate) meters: HashMap<u32, Option<Stamp>>,
    /// Room for the targets of operations ahead, in bulk.
    pub(crate) ahead: Vec<Target>,
    /// Ends of operation queues.
    pub(crate) served: Vec<Served>,
    /// Tells this NIC's template tables from another's.
    pub(crate) number: u32,
    /// The steps of the rule that was checked last.
    pub(crate) steps: Vec<u64>,
    /// How the rule that was checked last spreads its packets, if it does.
    spread: Rss,
    pub(crate) changes: Changes,
    pub(crate) settle: Settle,
}

/// A rule to be.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) group: u32,
    pub(crate) priority: u32,
    /// Asked for where the rule's seat is not known.
    pub(crate) pattern: &'a Pattern,
    pub(crate) actions: &'a [Action],
}

impl Rule<'_> {
    #[inline]
    pub(crate) fn wanted(&self) -> Wanted<'_> {
        let Rule { group, priority, ref pattern, actions } = *self;
        Wanted { group, priority, pattern, actions }
    }
}

/// What a rule's actions say, apart from its steps.
#[derive(Clone, Copy)]
pub(crate) struct Checked {
    pub(crate) decision: Decision,
    pub(crate) counts: bool,
}

/// One rule, live or not.
#[derive(Clone, Copy, Default)]
pub(crate) struct Record {
    pub(crate) word: Word,
    pub(crate) order: u64,
    pub(crate) generation: u32,
    pub(crate) seat: Seat,
    /// Its key.
    pub(crate) kept: Kept,
    /// The next rule of the same key, by order.
    pub(crate) next: Option<u32>,
}

impl Record {
    /// The id of the rule, whose record is at `index`.
    pub(crate) fn id(&self, index: u32) -> RuleId {
        RuleId { index, generation: self.generation }
    }
}

impl RuleId {
    /// Place of the rule's record.
    pub(crate) fn index(self) -> u32 {
        self.index
    }
}

impl Nic {
    /// A NIC without rules: RSS spreads all packets over the queues.
    pub fn new(config: &NicConfig) -> Result<Nic, NicError> {
        let queues = config.queues;
        if !(1..=QUEUES_MAX).contains(&queues) {
            return Err(NicError::Queues { queues });
        }
        let ports = config.ports;
        if !(1..=PORTS_MAX).contains(&ports) {
            return Err(NicError::Ports { ports });
        }
        let domain = Domain::new();
        let changes = Changes::new(&domain);
        let board = Board {
            groups: ArcSwap::from_pointee(Lists::new()),
            version: AtomicU64::new(0),
            orders: Segments::new(RULES_MAX),
            versions: changes.versions(),
            programs: Programs::new(),
            ages: Ages::new(),
            rss: AtomicU64::new(0),
            contexts: ArcSwap::default(),
            misses: AtomicU64::new(MISSES_SPREAD),
            meters: Meters::new(METERS_MAX),
            domain,
        };
        let board = Arc::new(board);
        let (key, indirection) = (config.rss_key.clone(), evenly(0..queues));
        let rss = Rss { key, indirection, ..Rss::default() };
        Ok(Nic {
            queues,
            ports,
            contexts: Contexts::new(Arc::clone(&board), rss)?,
            groups: Groups::new(Arc::clone(&board), config.seed),
            board,
            records: Chunks::default(),
            freed: Retired::default(),
            created: 0,
            live: 0,
            counters: Vec::new(),
            shelf: Shelf::default(),
            templates: Templates::default(),
            meters: HashMap::new(),
            ahead: Vec::new(),
            served: Vec::new(),
            number: NICS.fetch_add(1, Ordering::Relaxed),
            steps: Vec::new(),
            spread: Rss::default(),
            changes,
            settle: Settle::default(),
        })
    }

    /// A worker: the pipeline for one core.
    pub fn worker(&mut self) -> Worker {
        let counters = Arc::new(Counters::new());
        let counting = self.records.iter().enumerate().filter(|(_, record)| record.word.counts());
        for (index, _) in counting {
            counters.reach(index as u32);
        }
        self.counters.push(Arc::clone(&counters));
        Worker::new(Arc::clone(&self.board), counters)
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

    /// Memory that rules take, bytes: tables, orders, counters, ages, meters, programs, states of
    /// RSS other than the port's, the control side's records, and what transactions have not
    /// settled. Tables of masks that have no rule any more count until no worker holds them; they
    /// are given back by the next operation.
    pub fn rule_bytes(&self) -> usize {
        let counters: usize = self.counters.iter().map(|c| c.bytes()).sum();
        let records = self.records.bytes() + self.freed.bytes();
        let versions = self.changes.bytes() + self.settle.bytes();
        let programs = self.board.programs.bytes() + self.shelf.bytes();
        let contexts = self.contexts.bytes_but(self.rss_number());
        let tables = self.groups.bytes() + self.board.orders.bytes();
        let noted = self.board.ages.bytes() + self.board.meters.bytes();
        tables + programs + noted + contexts + counters + records + versions
    }

    /// Creates a rule; packets meet it from now on.
    pub fn create(&mut self, rule: &Rule<'_>) -> Result<RuleId, RuleError> {
        let target = self.target(rule);
        self.create_at(rule.wanted(), &target).map_err(RuleError::from)
    }

    /// [`Nic::create`] for a rule whose target is known.
    #[inline]
    pub(crate) fn create_at(
        &mut self,
        rule: Wanted<'_>,
        target: &Target,
    ) -> Result<RuleId, Refused> {
        let checked = self.check(rule)?;
        self.create_checked(rule, target, checked)
    }

    /// [`Nic::create_at`] for a rule that was just checked.
    #[inline]
    pub(crate) fn create_checked(
        &mut self,
        rule: Wanted<'_>,
        target: &Target,
        checked: Checked,
    ) -> Result<RuleId, Refused> {
        self.check_cells()?;
        let index = self.index()?;
        let old = self.records.get(index as usize).map(|record| record.generation);
        let generation = old.unwrap_or(0);
        let order = order_of(0, self.created);
        self.counters.iter().for_each(|c| c.clear(index));
        let new = Record { generation, order, ..Record::default() };
        self.enter(index, rule, checked, target, &new)?;
        if old.is_some() {
            self.freed.take(&self.board.domain);
        }
        self.created += 1;
        self.live += 1;
        self.note(Logged::Linked { index, fresh: true });
        self.tend();
        Ok(RuleId { index, generation })
    }

    /// Gives a rule other actions; packets meet the old ones or the new ones, never neither.
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
        let group = self.groups.number(old.seat.group);
        let pattern = &Pattern::any();
        let checked = self.check(Wanted { group, priority: 0, pattern, actions })?;
        self.update_checked(id, &old, checked)
    }

    /// The fate of actions that are a queue alone, or a drop.
    #[inline]
    pub(crate) fn plain_fate(&self, actions: &[Action]) -> Option<Fate> {
        match *actions {
            [Action::Queue(queue)] if queue < self.queues => Some(Fate::Queue(queue)),
            [Action::Drop] => Some(Fate::Drop),
            _ => None,
        }
    }

    /// What most updates are: a queue, or none, in place of another, with nothing to give up, to
    /// tell of or to catch up with. Whether it was; nothing is changed otherwise.
    #[inline]
    pub(crate) fn update_plain(&mut self, id: RuleId, fate: Fate) -> bool {
        if self.changes.is_open() || !self.settle.is_idle() {
            return false;
        }
        let Some(record) = self.live_record(id).filter(|record| record.word.is_plain()) else {
            return false;
        };
        let (seat, kept) = (record.seat, record.kept);
        let mut mask = self.groups.mask(seat);
        let Some(current) = mask.known_word(kept) else {
            return false;
        };
        debug_assert!(!is_reference(current), "no transaction left anything");
        let word = Word::new(fate, false, id.index);
        // Another rule of the same key may be better.
        if Word(current).rule() == id.index {
            mask.put(kept, word.0);
        }
        self.records[id.index as usize].word = word;
        // What older operations left to be given back.
        self.groups.publish();
        true
    }

    /// [`Nic::update_actions`] for actions that were just checked.
    #[inline]
    pub(crate) fn update_checked(
        &mut self,
        id: RuleId,
        old: &Record,
        checked: Checked,
    ) -> Result<(), Refused> {
        self.groups.check_places(0, checked.decision)?;
        self.check_cells()?;
        let checked = self.hold_context(checked)?;
        self.begin_age(id.index, old.word);
        let word = self.make_word(id.index, checked);
        if checked.counts {
            self.counters.iter().for_each(|c| c.reach(id.index));
        }
        self.records[id.index as usize].word = word;
        self.show_if_first(id.index, old, word);
        self.note(Logged::Updated { index: id.index, old: old.word });
        self.tend();
        Ok(())
    }

    /// Destroys a rule; packets that come later do not meet it.
    pub fn destroy(&mut self, id: RuleId) -> Result<(), RuleError> {
        self.take_away(id).map_err(RuleError::from)
    }

    #[inline]
    pub(crate) fn take_away(&mut self, id: RuleId) -> Result<(), Refused> {
        let old = self.record(id)?;
        self.check_cells()?;
        self.unlink(id.index, &old);
        self.bury(id.index);
        self.groups.retire(old.seat);
        self.note(Logged::Unlinked { index: id.index, old, gone: true });
        self.tend();
        Ok(())
    }

    /// Says what becomes of packets that no rule matches: if `on` they are dropped, else RSS
    /// spreads them (`rte_flow_isolate`).
    ///
    /// # Errors
    /// [`RuleError::TransactionFull`].
    pub fn isolate(&mut self, on: bool) -> Result<(), RuleError> {
        self.check_cells()?;
        let old = self.changes.newest(self.board.misses.load(Ordering::Relaxed));
        self.set_misses(if on { MISSES_DROPPED } else { MISSES_SPREAD });
        self.note(Logged::Isolated { old });
        self.tend();
        Ok(())
    }

    /// Whether packets that no rule matches are dropped.
    pub fn is_isolated(&self) -> bool {
        self.changes.newest(self.board.misses.load(Ordering::Relaxed)) == MISSES_DROPPED
    }

    pub(crate) fn set_misses(&mut self, misses: u64) {
        let slot = &self.board.misses;
        match self.changes.place(slot.load(Ordering::Relaxed), misses) {
            Placed::Kept => {}
            Placed::Word(word) => slot.store(word, Ordering::Release),
            Placed::Cell(id, word) => {
                slot.store(word, Ordering::Release);
                self.settle.own(id, Owner::Misses);
            }
        }
    }

    /// What a counting rule has counted on all workers since it was created. Exact once the workers
    /// have ended their turns.
    pub fn query(&self, id: RuleId) -> Result<Counts, RuleError> {
        self.record(id)?;
        Ok(self.counters.iter().map(|c| c.counts(id.index)).sum())
    }

    /// Packets that were dropped because a header put in front of them found no room in their slot.
    pub fn unfit(&self) -> u64 {
        self.counters.iter().map(|c| c.unfit()).sum()
    }

    /// The index of a new rule: the oldest freed one that no worker can reach any more, else one
    /// that was never used.
    #[inline]
    fn index(&mut self) -> Result<u32, Refused> {
        let domain = &self.board.domain;
        match self.freed.oldest(domain) {
            Some(index) => Ok(index),
            None if self.records.len() < RULES_MAX as usize => Ok(self.records.len() as u32),
            None => self.freed.any(domain).ok_or_else(|| RuleError::RulesTooMany.into()),
        }
    }

    #[inline]
    pub(crate) fn record(&self, id: RuleId) -> Result<Record, Refused> {
        self.live_record(id).copied().ok_or_else(|| RuleError::Unknown(id).into())
    }

    /// The record of a rule that lives.
    #[inline]
    pub(crate) fn live_record(&self, id: RuleId) -> Option<&Record> {
        let record = self.records.get(id.index as usize);
        record.filter(|record| record.generation == id.generation && record.word.is_some())
    }

    /// Says that a rule lives no more: its id names nothing from now on.
    pub(crate) fn bury(&mut self, index: u32) {
        let record = &mut self.records[index as usize];
        let generation = record.generation.wrapping_add(1);
        *record = Record { generation, ..Record::default() };
        self.live -= 1;
    }

    /// Whether the open transaction can go on by an operation.
    pub(crate) fn check_cells(&mut self) -> Result<(), Refused> {
        match self.changes.is_open() && !self.changes.has_room(OPERATION_CELLS) {
            true => Err(RuleError::TransactionFull.into()),
            false => Ok(()),
        }
    }

    /// What can be refused by looking at the rule alone, and whether its program has room. Its
    /// steps are kept for [`Nic::make_word`].
    #[inline]
    pub(crate) fn check(&mut self, rule: Wanted<'_>) -> Result<Checked, Refused> {
        if rule.priority > PRIORITY_MAX {
            return Err(RuleError::Priority { priority: rule.priority }.into());
        }
        let plain = match self.plain_fate(rule.actions) {
            Some(Fate::Queue(queue)) => Some(Decision::Queue(queue)),
            Some(Fate::Drop) => Some(Decision::Drop),
            _ => None,
        };
        if let Some(decision) = plain {
            self.clear_steps();
            return Ok(Checked { decision, counts: false });
        }
        if rule.actions.len() > ACTIONS_MAX {
            return Err(RuleError::ActionsTooMany { count: rule.actions.len() }.into());
        }
        if let Some(action) = rule.actions.iter().filter(|a| matches!(a, Action::Age(_))).nth(1) {
            let (action, reason) = (action.clone(), "a rule has one age");
            return Err(RuleError::ActionUnfit { action, reason }.into());
        }
        let mut fate = None;
        for action in rule.actions {
            let decision = match *action {
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
                Action::Port(port) => Decision::Port(port),
                Action::Queue(queue) => Decision::Queue(queue),
                Action::Drop => Decision::Drop,
                Action::Jump(group) => Decision::Jump(group),
                Action::Rss(ref spread) => {
                    self.spread = self.rss_of(spread)?;
                    Decision::Rss(0)
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
            if let Some((first, _)) = fate.replace((action, decision)) {
                let (first, second) = (first.clone(), action.clone());
                return Err(RuleError::FatesTwo { first, second }.into());
            }
        }
        let (_, decision) = fate.ok_or(RuleError::FateMissing)?;
        write_steps(rule.actions, &mut self.steps);
        if !self.steps.is_empty() && !self.shelf.has_room(&self.steps, &self.board.domain) {
            let reason = format!("{PROGRAMS_MAX} units of programs are in use");
            return Err(RuleError::Memory { reason }.into());
        }
        Ok(Checked { decision, counts: rule.actions.contains(&Action::Count) })
    }

    /// What [`Nic::check`] does for actions without steps.
    #[inline]
    pub(crate) fn clear_steps(&mut self) {
        self.steps.clear();
    }

    /// Holds the context of the rule that was checked last, if it has one.
    fn hold_context(&mut self, checked: Checked) -> Result<Checked, Refused> {
        match checked.decision {
            Decision::Rss(_) => {
                let decision = Decision::Rss(self.contexts.hold(&self.spread)?);
                Ok(Checked { decision, ..checked })
            }
            _ => Ok(checked),
        }
    }

    /// The word of the rule that was checked last, whose context is held.
    fn make_word(&mut self, index: u32, checked: Checked) -> Word {
        let mut fate = self.groups.aim(checked.decision);
        if !self.steps.is_empty() {
            fate = Fate::Program(self.shelf.put(&self.board.programs, fate, &self.steps));
        }
        Word::new(fate, checked.counts, index)
    }

    /// Puts a rule where its group, pattern and priority say. `from` has its generation and the
    /// number of its creation. When this fails nothing was changed.
    pub(crate) fn enter(
        &mut self,
        index: u32,
        rule: Wanted<'_>,
        checked: Checked,
        target: &Target,
        from: &Record,
    ) -> Result<(), Refused> {
        let order = order_of(rule.priority, from.order);
        if matches!(checked.decision, Decision::Jump(_)) {
            // A group that is made for a refused rule cannot be used again at once.
            self.check_chain(order, rule.group, target)?;
        }
        self.groups.check_room(
            rule.group,
            checked.decision,
            target.seat,
            self.changes.is_open(),
        )?;
        let checked = self.hold_context(checked)?;
        let entered = self.groups.enter(rule.group, rule.pattern, target.seat);
        let seat = entered.inspect_err(|_| {
            if let Decision::Rss(context) = checked.decision {
                self.contexts.release(context);
            }
        })?;
        self.begin_age(index, from.word);
        let word = self.make_word(index, checked);
        let generation = from.generation;
        let record = Record { word, order, generation, seat, ..Record::default() };
        self.put(index, record, target).inspect_err(|_| {
            self.groups.retire(seat);
            self.discard(Leftover { index: None, ..all_of(index, &record) });
        })
    }

    /// Puts a rule into effect behind the better rules of its key.
    fn put(&mut self, index: u32, record: Record, target: &Target) -> Result<(), Refused> {
        if record.word.counts() {
            self.counters.iter().for_each(|c| c.reach(index));
        }
        self.groups.admit(record.seat, &target.key, record.order);
        let former = self.set_order(index, record.order);
        self.groups.publish();
        self.link(index, record, target).inspect_err(|_| {
            self.set_order(index, former);
        })
    }
}
