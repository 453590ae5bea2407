//! The control side: rules are created, changed and destroyed here, one thread at a time.
//!
//! Workers see a rule through one table entry, which appears and disappears at once. What a packet
//! can find is decided in this order: the order's range of the mask's table is widened, the rule's
//! order is stored, the groups are published, and then the entry. So a worker that finds the entry
//! also finds its order and the group it leads to, and never stops looking too early.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use niclab_table::{Domain, Stamp};

use crate::counters::{Counters, Counts};
use crate::groups::{Groups, Lists, Seat};
use crate::limits::{ACTIONS_MAX, GROUPS_MAX, MASKS_MAX, PRIORITY_MAX, QUEUES_MAX, RULES_MAX};
use crate::rss::Rss;
use crate::rule::{Action, Pattern, Rule};
use crate::segments::Segments;
use crate::tables::{CompactKey, Selector};
use crate::toeplitz::{MICROSOFT_KEY, ToeplitzError};
use crate::word::Word;
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
    #[error("more than {GROUPS_MAX} groups; use fewer, and let every worker run")]
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
    #[error("the NIC holds {RULES_MAX} rules; destroy some, and let every worker run")]
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
    pub(crate) groups: ArcSwap<Lists>,
    /// Raised after each change of `groups`.
    pub(crate) version: AtomicU64,
    /// Order of each rule: priority in the upper 16 bits, number of its creation in the lower 48.
    pub(crate) orders: Segments<AtomicU64>,
    pub(crate) rss: Rss,
    pub(crate) domain: Domain,
}

/// The control side of a software NIC.
pub struct Nic {
    queues: u16,
    board: Arc<Board>,
    groups: Groups,
    records: Vec<Record>,
    /// Indices of destroyed rules, oldest first. One is used again when every worker has passed a
    /// burst since: until then a packet may be on its way with the old rule's word in hand.
    free: VecDeque<(Stamp, u32)>,
    created: u64,
    live: u32,
    counters: Vec<Arc<Counters>>,
}

/// One rule, live or not.
#[derive(Clone, Copy, Default)]
struct Record {
    word: Word,
    order: u64,
    generation: u32,
    seat: Seat,
    /// Place of its key within the mask.
    key: u32,
    /// The next rule of the same key, by order.
    next: Option<u32>,
}

/// Where a new rule belongs among those of its key.
struct Spot {
    selector: Selector,
    key: CompactKey,
    /// Where the rules of its mask stand, if there are any.
    seat: Option<Seat>,
    /// The rule in effect for the key.
    head: Option<u32>,
    /// The last rule that is better, and the first that is worse.
    before: Option<u32>,
    after: Option<u32>,
}

impl Nic {
    /// A NIC without rules: RSS spreads all packets over the queues.
    pub fn new(config: &NicConfig) -> Result<Nic, NicError> {
        let queues = config.queues;
        if !(1..=QUEUES_MAX).contains(&queues) {
            return Err(NicError::Queues { queues });
        }
        let board = Board {
            groups: ArcSwap::from_pointee(Lists::new()),
            version: AtomicU64::new(0),
            orders: Segments::new(),
            rss: Rss::new(&config.rss_key, queues)?,
            domain: Domain::new(),
        };
        let board = Arc::new(board);
        Ok(Nic {
            queues,
            groups: Groups::new(Arc::clone(&board), config.seed),
            board,
            records: Vec::new(),
            free: VecDeque::new(),
            created: 0,
            live: 0,
            counters: Vec::new(),
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

    /// Memory that rules take, bytes: tables, orders, counters and the control side's records.
    /// Tables of masks that have no rule any more count until no worker holds them; they are given
    /// back by the next operation.
    pub fn rule_bytes(&self) -> usize {
        let counters: usize = self.counters.iter().map(|c| c.bytes()).sum();
        let records = self.records.capacity() * size_of::<Record>()
            + self.free.capacity() * size_of::<(Stamp, u32)>();
        self.groups.bytes() + counters + records + self.board.orders.bytes()
    }

    /// Creates a rule; packets meet it from now on.
    pub fn create(&mut self, rule: &Rule<'_>) -> Result<RuleId, RuleError> {
        let (fate, counts) = self.check(rule)?;
        let order = u64::from(rule.priority) << 48 | (self.created & ((1 << 48) - 1));
        let spot = self.spot(rule, order)?;
        self.groups.check_room(rule, fate, spot.seat)?;
        let (index, freed) = self.index()?;
        // Only memory can be missing from here on.
        let generation = self.records.get(index as usize).map_or(0, |r| r.generation);
        let entered = self.groups.enter(rule.group, spot.selector, spot.seat).and_then(|seat| {
            let word = Word::new(self.groups.aim(fate), counts, index);
            let record = Record { word, order, generation, seat, key: 0, next: spot.after };
            self.put(index, record, &spot).inspect_err(|_| self.give_up(&record))
        });
        if let Err(error) = entered {
            if let Some(freed) = freed {
                self.free.push_front((freed, index));
            }
            return Err(error);
        }
        self.created += 1;
        self.live += 1;
        Ok(RuleId { index, generation })
    }

    /// Gives a rule other actions; packets meet the old ones or the new ones, never neither.
    pub fn update(&mut self, id: RuleId, actions: &[Action]) -> Result<(), RuleError> {
        let old = self.record(id)?;
        let group = self.groups.number(old.seat.group);
        let rule = Rule { group, priority: 0, pattern: Pattern::any(), actions };
        let (fate, counts) = self.check(&rule)?;
        self.groups.check_places(0, fate)?;
        let word = Word::new(self.groups.aim(fate), counts, id.index);
        if counts {
            self.counters.iter().for_each(|c| c.reach(id.index));
        }
        self.records[id.index as usize].word = word;
        if self.head(&old) == Some(id.index) {
            self.show(&old, id.index);
        }
        self.groups.release(old.word.fate());
        self.groups.publish();
        Ok(())
    }

    /// Destroys a rule; packets that come later do not meet it.
    pub fn destroy(&mut self, id: RuleId) -> Result<(), RuleError> {
        let record = self.record(id)?;
        match (self.before(&record, id.index), record.next) {
            (Some(before), next) => self.records[before as usize].next = next,
            (None, Some(next)) => self.show(&record, next),
            (None, None) => self.groups.mask(record.seat).forget(record.key),
        }
        let generation = record.generation.wrapping_add(1);
        self.records[id.index as usize] = Record { generation, ..Record::default() };
        self.free.push_back((self.board.domain.stamp(), id.index));
        self.live -= 1;
        self.give_up(&record);
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
    fn index(&mut self) -> Result<(u32, Option<Stamp>), RuleError> {
        let passed = self.board.domain.passed();
        match self.free.pop_front_if(|(freed, _)| *freed <= passed) {
            Some((freed, index)) => Ok((index, Some(freed))),
            None if self.records.len() >= RULES_MAX as usize => Err(RuleError::RulesTooMany),
            None => Ok((self.records.len() as u32, None)),
        }
    }

    fn record(&self, id: RuleId) -> Result<Record, RuleError> {
        let record = self.records.get(id.index as usize);
        let live = |r: &&Record| r.generation == id.generation && r.word.is_some();
        record.filter(live).copied().ok_or(RuleError::Unknown(id))
    }

    /// Lets groups and mask go that only this rule needed.
    fn give_up(&mut self, record: &Record) {
        self.groups.leave(record.seat);
        self.groups.release(record.word.fate());
        self.groups.publish();
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

    /// Where a rule of this order belongs, unless it is there already.
    fn spot(&mut self, rule: &Rule<'_>, order: u64) -> Result<Spot, RuleError> {
        let selector = Selector::new(rule.pattern.mask());
        let key = selector.compact(rule.pattern.value());
        let seat = self.groups.find(rule.group, &selector);
        let head = seat.and_then(|seat| self.groups.mask(seat).head(&key));
        let (mut before, mut after) = (None, head);
        while let Some(at) = after.filter(|&at| self.records[at as usize].order < order) {
            if self.records[at as usize].order >> 48 == u64::from(rule.priority) {
                return Err(RuleError::Duplicate { group: rule.group, priority: rule.priority });
            }
            (before, after) = (Some(at), self.records[at as usize].next);
        }
        Ok(Spot { selector, key, seat, head, before, after })
    }

    /// Puts a rule into effect behind the better rules of its key.
    fn put(&mut self, index: u32, mut record: Record, spot: &Spot) -> Result<(), RuleError> {
        self.counters.iter().for_each(|c| c.clear(index));
        if record.word.counts() {
            self.counters.iter().for_each(|c| c.reach(index));
        }
        if self.groups.mask(record.seat).shared.admit(record.order) {
            self.groups.reorder(record.seat);
        }
        self.board.orders.reach(index).store(record.order, Ordering::Release);
        self.groups.publish();
        record.key = match spot.head {
            Some(head) => self.records[head as usize].key,
            None => self.groups.mask(record.seat).remember(&spot.key, record.word)?,
        };
        match self.records.get_mut(index as usize) {
            Some(place) => *place = record,
            None => self.records.push(record),
        }
        match (spot.before, spot.head) {
            (Some(before), _) => self.records[before as usize].next = Some(index),
            (None, Some(_)) => self.show(&record, index),
            (None, None) => {}
        }
        Ok(())
    }

    /// The rule in effect for the key of a record.
    fn head(&mut self, record: &Record) -> Option<u32> {
        let mask = self.groups.mask(record.seat);
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
        // The word may lead to a group that workers have not been shown.
        self.groups.publish();
        self.groups.mask(record.seat).show(record.key, word);
    }
}
