//! The control side: rules are created, changed and destroyed here, one thread at a time.
//!
//! Workers see a rule through one table entry, which appears and disappears at once. What a packet
//! can find is decided in this order: the order's range of the mask's table is widened, then the
//! rule's order is stored, then the entry is published. So a worker that finds the entry also finds
//! its order, and never stops looking too early.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use niclab_table::{Config, CreateError, Domain, InsertError, Stamp};

use crate::counters::{Counters, Counts};
use crate::limits::{
    ACTIONS_MAX, GROUPS_MAX, MASKS_MAX, PRIORITY_MAX, QUEUES_MAX, ROOT_RULES_MAX, RULES_MAX,
};
use crate::rss::Rss;
use crate::rule::{Action, Pattern, Rule};
use crate::segments::Segments;
use crate::tables::{CompactKey, Selector, Shared, Table};
use crate::toeplitz::{MICROSOFT_KEY, ToeplitzError};
use crate::word::{Fate, Word};
use crate::worker::Worker;

/// What a NIC is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicConfig {
    /// Receive queues, 1 to [`QUEUES_MAX`].
    pub queues: u16,
    /// RSS key; see [`crate::toeplitz`].
    pub rss_key: Vec<u8>,
    /// Seed of the tables' hashes.
    pub seed: u64,
}

impl Default for NicConfig {
    fn default() -> NicConfig {
        NicConfig { queues: 1, rss_key: MICROSOFT_KEY.to_vec(), seed: 0 }
    }
}

/// Why a rule operation was refused. Nothing that a packet can meet was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A rule may do only so much.
    #[error("{count} actions; a rule has at most {ACTIONS_MAX}")]
    ActionsTooMany {
        /// Given.
        count: usize,
    },
    /// An action that only one of may stand in a rule stands twice.
    #[error("two fates: `{first}` and `{second}`; a packet has one")]
    FatesTwo {
        /// The first.
        first: Action,
        /// The other.
        second: Action,
    },
    /// Same group, priority and pattern.
    #[error("group {group} has this pattern with priority {priority} already; update that rule")]
    Duplicate {
        /// Its group.
        group: u32,
        /// Its priority.
        priority: u32,
    },
    /// The packet would have no end.
    #[error("no fate among the actions; add queue, drop or jump")]
    FateMissing,
    /// The group is full.
    #[error("group {group} is full: {rules_max} rules; destroy some or use another group")]
    GroupFull {
        /// The group.
        group: u32,
        /// Its limit.
        rules_max: u32,
    },
    /// There are too many groups.
    #[error("more than {GROUPS_MAX} groups; use fewer")]
    GroupsTooMany,
    /// A jump that could go round for ever.
    #[error("jump from group {from} to group {to}; a jump goes to a greater group")]
    JumpBack {
        /// Where the rule stands.
        from: u32,
        /// Where it would jump to.
        to: u32,
    },
    /// There are too many masks in the group.
    #[error("group {group} has {MASKS_MAX} masks; use fewer combinations of fields")]
    MasksTooMany {
        /// The group.
        group: u32,
    },
    /// Memory is short.
    #[error("no memory for the rule: {reason}")]
    Memory {
        /// What the table said.
        reason: String,
    },
    /// Outside the range.
    #[error("priority {priority}; use 0 (highest) to {PRIORITY_MAX}")]
    Priority {
        /// Given.
        priority: u32,
    },
    /// The NIC holds as many rules as it can.
    #[error("the NIC holds {RULES_MAX} rules, its limit; destroy some")]
    RulesTooMany,
    /// There is no such queue.
    #[error("queue {queue}; this NIC has queues 0 to {}", queues - 1)]
    QueueUnknown {
        /// Given.
        queue: u16,
        /// How many there are.
        queues: u16,
    },
    /// It was destroyed, or never created.
    #[error("no rule {0:?}; it was destroyed")]
    Unknown(RuleId),
}

/// Why a NIC could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NicError {
    /// Number of queues out of range.
    #[error("{queues} queues; use 1 to {QUEUES_MAX}")]
    Queues {
        /// Asked for.
        queues: u16,
    },
    /// The key cannot be used.
    #[error(transparent)]
    Rss(#[from] ToeplitzError),
}

/// A rule that was created. It stays good until the rule is destroyed, and never names another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId {
    index: u32,
    generation: u32,
}

/// What workers share with the control side.
pub(crate) struct Board {
    /// Groups by place; each has its tables, best first.
    pub(crate) groups: ArcSwap<Vec<Vec<Arc<Shared>>>>,
    /// Raised with each new `groups`.
    pub(crate) version: AtomicU64,
    /// Order of each rule: priority in the upper 16 bits, number of its creation in the lower 48.
    pub(crate) orders: Segments<AtomicU64>,
    pub(crate) rss: Rss,
    pub(crate) domain: Domain,
}

/// The control side of a software NIC.
pub struct Nic {
    queues: u16,
    seed: u64,
    board: Arc<Board>,
    groups: Vec<Group>,
    /// Place of a group by its number.
    places: HashMap<u32, u16>,
    records: Vec<Record>,
    /// Indices of destroyed rules, oldest first. One is used again when every worker has passed a
    /// burst since: until then a packet may be on its way with the old rule's word in hand.
    free: VecDeque<(Stamp, u32)>,
    created: u64,
    live: u32,
    counters: Vec<Arc<Counters>>,
}

struct Group {
    number: u32,
    rules: u32,
    masks: Vec<Mask>,
}

/// The rules of one mask in one group.
struct Mask {
    /// `None` for the empty mask.
    table: Option<Table>,
    shared: Arc<Shared>,
    /// Keys of its rules, `words` each; a record knows its place.
    keys: Vec<u64>,
    keys_free: Vec<u32>,
}

/// One rule, live or not.
#[derive(Clone, Copy, Default)]
struct Record {
    word: Word,
    order: u64,
    generation: u32,
    /// Place of its group; the mask within it; the key within that.
    group: u16,
    mask: u16,
    key: u32,
    /// The next rule of the same key, by order.
    next: Option<u32>,
}

const TABLE_CAPACITY_MAX: usize = RULES_MAX as usize;

impl Nic {
    /// A NIC without rules: RSS spreads all packets over the queues.
    pub fn new(config: &NicConfig) -> Result<Nic, NicError> {
        let queues = config.queues;
        if !(1..=QUEUES_MAX).contains(&queues) {
            return Err(NicError::Queues { queues });
        }
        let board = Board {
            groups: ArcSwap::from_pointee(Vec::new()),
            version: AtomicU64::new(0),
            orders: Segments::new(),
            rss: Rss::new(&config.rss_key, queues)?,
            domain: Domain::new(),
        };
        let mut nic = Nic {
            queues,
            seed: config.seed,
            board: Arc::new(board),
            groups: Vec::new(),
            places: HashMap::new(),
            records: Vec::new(),
            free: VecDeque::new(),
            created: 0,
            live: 0,
            counters: Vec::new(),
        };
        nic.add_group(0);
        nic.publish();
        Ok(nic)
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

    /// Memory that rules take, bytes: tables, orders, counters and the control side's records.
    pub fn rule_bytes(&self) -> usize {
        let masks = self.groups.iter().flat_map(|group| &group.masks);
        let tables: usize = masks.map(Mask::bytes).sum();
        let counters: usize = self.counters.iter().map(|c| c.bytes()).sum();
        let records = self.records.capacity() * size_of::<Record>()
            + self.free.capacity() * size_of::<(Stamp, u32)>();
        tables + counters + records + self.board.orders.bytes()
    }

    /// Creates a rule; packets meet it from now on.
    pub fn create(&mut self, rule: &Rule<'_>) -> Result<RuleId, RuleError> {
        let (fate, counts) = self.check(rule)?;
        let group = self.group_place(rule.group)?;
        self.check_room(&self.groups[usize::from(group)])?;
        let fate = self.resolve(fate)?;
        let mask = self.mask_place(group, rule)?;
        let (index, freed) = self.index();
        let order = u64::from(rule.priority) << 48 | (self.created & ((1 << 48) - 1));
        let word = Word::new(fate, counts, index);
        let generation = self.records.get(index as usize).map_or(0, |r| r.generation);
        let record = Record { word, order, generation, group, mask, key: 0, next: None };
        if let Err(error) = self.enter(index, record, &rule.pattern, rule.priority) {
            if let Some(freed) = freed {
                self.free.push_front((freed, index));
            }
            return Err(error);
        }
        self.created += 1;
        self.live += 1;
        self.groups[usize::from(group)].rules += 1;
        Ok(RuleId { index, generation })
    }

    /// Gives a rule other actions; packets meet the old ones or the new ones, never neither.
    pub fn update(&mut self, id: RuleId, actions: &[Action]) -> Result<(), RuleError> {
        let old = self.record(id)?;
        let group = self.groups[usize::from(old.group)].number;
        let rule = Rule { group, priority: 0, pattern: Pattern::any(), actions };
        let (fate, counts) = self.check(&rule)?;
        let word = Word::new(self.resolve(fate)?, counts, id.index);
        if counts {
            self.counters.iter().for_each(|c| c.reach(id.index));
        }
        self.records[id.index as usize].word = word;
        if self.head(&old) == Some(id.index) {
            self.show(&old, id.index);
        }
        Ok(())
    }

    /// Destroys a rule; packets that come later do not meet it.
    pub fn destroy(&mut self, id: RuleId) -> Result<(), RuleError> {
        let record = self.record(id)?;
        match (self.before(&record, id.index), record.next) {
            (Some(before), next) => self.records[before as usize].next = next,
            (None, Some(next)) => self.show(&record, next),
            (None, None) => self.mask(&record).forget(record.key),
        }
        let generation = record.generation.wrapping_add(1);
        self.records[id.index as usize] = Record { generation, ..Record::default() };
        self.free.push_back((self.board.domain.stamp(), id.index));
        self.live -= 1;
        self.groups[usize::from(record.group)].rules -= 1;
        Ok(())
    }

    /// What a counting rule has counted on all workers since it was created. Exact once the workers
    /// have ended their turns.
    pub fn query(&self, id: RuleId) -> Result<Counts, RuleError> {
        self.record(id)?;
        Ok(self.counters.iter().map(|c| c.counts(id.index)).sum())
    }

    /// The index of a new rule, with the stamp it was freed at: the oldest freed one that no worker
    /// can reach any more, else one that was never used.
    fn index(&mut self) -> (u32, Option<Stamp>) {
        let passed = self.board.domain.passed();
        match self.free.pop_front_if(|(freed, _)| *freed <= passed) {
            Some((freed, index)) => (index, Some(freed)),
            None => (self.records.len() as u32, None),
        }
    }

    fn record(&self, id: RuleId) -> Result<Record, RuleError> {
        let record = self.records.get(id.index as usize);
        let live = |r: &&Record| r.generation == id.generation && r.word.is_some();
        record.filter(live).copied().ok_or(RuleError::Unknown(id))
    }

    fn mask(&mut self, record: &Record) -> &mut Mask {
        &mut self.groups[usize::from(record.group)].masks[usize::from(record.mask)]
    }

    /// What can be refused by looking at the rule alone; its fate, and whether it counts.
    fn check(&self, rule: &Rule<'_>) -> Result<(Action, bool), RuleError> {
        if rule.priority > PRIORITY_MAX {
            return Err(RuleError::Priority { priority: rule.priority });
        }
        if rule.actions.len() > ACTIONS_MAX {
            return Err(RuleError::ActionsTooMany { count: rule.actions.len() });
        }
        let mut fate = None;
        for &action in rule.actions {
            match action {
                Action::Count => continue,
                Action::Queue(queue) if queue >= self.queues => {
                    return Err(RuleError::QueueUnknown { queue, queues: self.queues });
                }
                Action::Jump(to) if to <= rule.group => {
                    return Err(RuleError::JumpBack { from: rule.group, to });
                }
                Action::Queue(_) | Action::Drop | Action::Jump(_) => {}
            }
            if let Some(first) = fate.replace(action) {
                return Err(RuleError::FatesTwo { first, second: action });
            }
        }
        let fate = fate.ok_or(RuleError::FateMissing)?;
        Ok((fate, rule.actions.contains(&Action::Count)))
    }

    fn check_room(&self, group: &Group) -> Result<(), RuleError> {
        if group.number == 0 && group.rules >= ROOT_RULES_MAX {
            return Err(RuleError::GroupFull { group: 0, rules_max: ROOT_RULES_MAX });
        }
        if self.live >= RULES_MAX {
            return Err(RuleError::RulesTooMany);
        }
        Ok(())
    }

    /// A fate in the words' terms; makes the group that a jump names.
    fn resolve(&mut self, fate: Action) -> Result<Fate, RuleError> {
        Ok(match fate {
            Action::Queue(queue) => Fate::Queue(queue),
            Action::Jump(group) => Fate::Jump(self.group_place(group)?),
            Action::Drop | Action::Count => Fate::Drop,
        })
    }

    fn group_place(&mut self, number: u32) -> Result<u16, RuleError> {
        if let Some(&place) = self.places.get(&number) {
            return Ok(place);
        }
        if self.groups.len() >= GROUPS_MAX {
            return Err(RuleError::GroupsTooMany);
        }
        let place = self.add_group(number);
        self.publish();
        Ok(place)
    }

    fn add_group(&mut self, number: u32) -> u16 {
        let place = self.groups.len() as u16;
        self.places.insert(number, place);
        self.groups.push(Group { number, rules: 0, masks: Vec::new() });
        place
    }

    /// The mask of a rule in its group; made where there is none yet.
    fn mask_place(&mut self, group: u16, rule: &Rule<'_>) -> Result<u16, RuleError> {
        let selector = Selector::new(rule.pattern.mask());
        let (seed, domain) = (self.seed, self.board.domain.clone());
        let group = &mut self.groups[usize::from(group)];
        let known = group.masks.iter().position(|m| m.shared.selector == selector);
        if let Some(place) = known {
            return Ok(place as u16);
        }
        if group.masks.len() >= MASKS_MAX {
            return Err(RuleError::MasksTooMany { group: rule.group });
        }
        group.masks.push(Mask::new(selector, seed, &domain)?);
        let place = group.masks.len() as u16 - 1;
        self.publish();
        Ok(place)
    }

    /// Shows workers the groups as they are, each with its best table first.
    fn publish(&self) {
        let tables = |group: &Group| {
            let mut tables: Vec<Arc<Shared>> =
                group.masks.iter().map(|m| Arc::clone(&m.shared)).collect();
            tables.sort_by_key(|t| t.best());
            tables
        };
        self.board.groups.store(Arc::new(self.groups.iter().map(tables).collect()));
        self.board.version.fetch_add(1, Ordering::Release);
    }

    /// Puts a rule into effect behind the better rules of its key.
    fn enter(
        &mut self,
        index: u32,
        mut record: Record,
        pattern: &Pattern,
        priority: u32,
    ) -> Result<(), RuleError> {
        let key = self.mask(&record).shared.selector.compact(pattern.value());
        let number = self.groups[usize::from(record.group)].number;
        self.counters.iter().for_each(|c| c.clear(index));
        if record.word.counts() {
            self.counters.iter().for_each(|c| c.reach(index));
        }
        let best_changes = record.order < self.mask(&record).shared.best();
        self.mask(&record).shared.admit(record.order);
        self.board.orders.reach(index).store(record.order, Ordering::Release);
        let head = self.mask(&record).head(&key);
        let (mut before, mut after) = (None, head);
        while let Some(at) = after.filter(|&at| self.records[at as usize].order < record.order) {
            if self.records[at as usize].order >> 48 == u64::from(priority) {
                return Err(RuleError::Duplicate { group: number, priority });
            }
            (before, after) = (Some(at), self.records[at as usize].next);
        }
        record.next = after;
        record.key = match head {
            Some(head) => self.records[head as usize].key,
            None => self.mask(&record).remember(&key, record.word)?,
        };
        match self.records.get_mut(index as usize) {
            Some(place) => *place = record,
            None => self.records.push(record),
        }
        match (before, head) {
            (Some(before), _) => self.records[before as usize].next = Some(index),
            (None, Some(_)) => self.show(&record, index),
            (None, None) => {}
        }
        if best_changes {
            self.publish();
        }
        Ok(())
    }

    /// The rule in effect for the key of a record.
    fn head(&mut self, record: &Record) -> Option<u32> {
        let mask = self.mask(record);
        let key = mask.key(record.key);
        mask.head(&key)
    }

    /// The rule of the same key just before `index`; `None` where `index` is in effect.
    fn before(&mut self, record: &Record, index: u32) -> Option<u32> {
        let mut at = self.head(record).filter(|&head| head != index)?;
        while let Some(next) = self.records[at as usize].next.filter(|&next| next != index) {
            at = next;
        }
        Some(at)
    }

    /// Puts the rule `index` into effect for the key of `record`, in place of the one that was.
    fn show(&mut self, record: &Record, index: u32) {
        let word = self.records[index as usize].word;
        self.mask(record).show(record.key, word);
    }
}

impl Mask {
    fn new(selector: Selector, seed: u64, domain: &Domain) -> Result<Mask, RuleError> {
        let config = Config::growing(TABLE_CAPACITY_MAX, seed);
        let memory = |error: CreateError| RuleError::Memory { reason: error.to_string() };
        let table = match selector.words() {
            0 => None,
            words => Some(Table::new(words, config, domain).map_err(memory)?),
        };
        let view = table.as_ref().map(Table::view);
        let shared = Arc::new(Shared::new(selector, view));
        Ok(Mask { table, shared, keys: Vec::new(), keys_free: Vec::new() })
    }

    fn bytes(&self) -> usize {
        let table = self.table.as_ref().map_or(0, Table::bytes);
        table + self.keys.capacity() * 8 + self.keys_free.capacity() * 4
    }

    /// The key kept at a place.
    fn key(&self, place: u32) -> CompactKey {
        let words = self.shared.selector.words();
        self.keys[place as usize * words..][..words].iter().copied().collect()
    }

    /// The rule in effect for a key.
    fn head(&self, key: &[u64]) -> Option<u32> {
        let word = match &self.table {
            Some(table) => Word(table.get(key)?),
            None => Word(self.shared.any.load(Ordering::Relaxed)),
        };
        word.is_some().then(|| word.rule())
    }

    /// Keeps a new key and puts its first rule into effect; where the key is kept.
    fn remember(&mut self, key: &[u64], word: Word) -> Result<u32, RuleError> {
        let words = self.shared.selector.words();
        match &mut self.table {
            Some(table) => table
                .insert(key, word.0)
                .map_err(|error: InsertError| RuleError::Memory { reason: error.to_string() })?,
            None => self.shared.any.store(word.0, Ordering::Release),
        }
        if let Some(place) = self.keys_free.pop() {
            self.keys[place as usize * words..][..words].copy_from_slice(key);
            return Ok(place);
        }
        self.keys.extend_from_slice(key);
        Ok((self.keys.len() / words.max(1)) as u32 - u32::from(words > 0))
    }

    /// Takes the last rule of a key out of effect and forgets the key.
    fn forget(&mut self, place: u32) {
        let key = self.key(place);
        match &mut self.table {
            Some(table) => table.remove(&key),
            None => self.shared.any.store(0, Ordering::Release),
        }
        self.keys_free.push(place);
    }

    /// Puts another rule into effect for a kept key, by one store.
    fn show(&mut self, place: u32, word: Word) {
        let key = self.key(place);
        match &mut self.table {
            Some(table) => table.update(&key, word.0),
            None => self.shared.any.store(word.0, Ordering::Release),
        }
    }
}
