//! Rule ageing: when each rule was hit last, and which rules were not hit for too long.
//!
//! Nothing here reads a clock. The caller passes the time to the control side
//! ([`Nic::set_time_ns`]). A worker that hits a rule stores that time as the rule's last hit: it
//! writes once per rule and time, and otherwise only reads. So a hit has the time that was set last
//! before it, and an age is too great by at most the interval between two calls.

use std::sync::atomic::{AtomicU64, Ordering};

use niclab_table::Segments;

use crate::action_list::{ActionStep, timeout_of};
use crate::action_word::{ActionWord, Fate};
use crate::control::{Nic, RuleId};
use crate::error::RuleError;
use crate::limits::RULES_MAX;
use crate::transaction::LoggedStep;

const NS_PER_S: u64 = 1_000_000_000;

/// How long a rule has not been hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// Time since its last hit, or since it began to age, nanoseconds.
    pub idle_ns: u64,
    /// Seconds after which it is aged.
    pub timeout_s: u32,
}

impl Age {
    /// Whether the rule was not hit for its timeout or longer.
    pub fn is_aged(&self) -> bool {
        self.idle_ns >= u64::from(self.timeout_s) * NS_PER_S
    }
}

/// Last hits of rules that age, shared with workers.
pub(crate) struct RuleAges {
    /// The time that was set last.
    now_ns: AtomicU64,
    /// By rule; only rules that age have one.
    last_hit_ns: Segments<1>,
}

impl RuleAges {
    pub(crate) fn new() -> RuleAges {
        RuleAges { now_ns: AtomicU64::new(0), last_hit_ns: Segments::new(RULES_MAX) }
    }

    /// Sets the time, unless it was set to a later one.
    pub(crate) fn set_time_ns(&self, now_ns: u64) {
        self.now_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    /// Stores the time as a rule's last hit. A worker that comes late does not set it back.
    #[inline]
    pub(crate) fn record_hit(&self, rule: u32) {
        let now_ns = self.now_ns.load(Ordering::Relaxed);
        if let Some([last_hit_ns]) = self.last_hit_ns.get(rule)
            && last_hit_ns.load(Ordering::Relaxed) < now_ns
        {
            last_hit_ns.fetch_max(now_ns, Ordering::Relaxed);
        }
    }

    /// Memory for rules that age, and for those whose indices were reused.
    pub(crate) fn bytes(&self) -> usize {
        self.last_hit_ns.bytes()
    }
}

impl Nic {
    /// Sets the time, in nanoseconds from any moment. Ages follow from this time alone, so set it
    /// before you create the first rule that ages. A time before the one that was set last is
    /// ignored.
    pub fn set_time_ns(&mut self, now_ns: u64) {
        self.shared.ages.set_time_ns(now_ns);
    }

    /// The age of a rule; `None` if no `age` is among its actions. It begins with the call that
    /// gives the rule this action; other updates leave it.
    ///
    /// # Errors
    /// [`RuleError::Unknown`].
    pub fn age(&self, id: RuleId) -> Result<Option<Age>, RuleError> {
        Ok(self.age_of(id.index(), self.record(id)?.word))
    }

    /// All rules that are aged ([`Age::is_aged`]). Goes through all rules.
    pub fn aged(&self) -> Vec<RuleId> {
        let is_aged = |index: u32, word| self.age_of(index, word).is_some_and(|age| age.is_aged());
        let all = (0..).zip(self.records.iter());
        let aged = all.filter(|(index, record)| is_aged(*index, record.word));
        aged.map(|(index, record)| record.id(index)).collect()
    }

    /// Starts the age of a rule whose steps were just written, unless its old word had an `age`
    /// too.
    pub(crate) fn start_aging(&mut self, index: u32, old: ActionWord) {
        if timeout_of(&self.steps).is_some() && self.timeout_of(old).is_none() {
            let ages = &self.shared.ages;
            let begun_ns = ages.now_ns.load(Ordering::Relaxed);
            let [last_hit_ns] = ages.last_hit_ns.ensure(index);
            let former_ns = last_hit_ns.swap(begun_ns, Ordering::Relaxed);
            if self.transactions.is_open() {
                self.deferred.log(LoggedStep::Aged { index, former_ns, begun_ns });
            }
        }
    }

    /// Undoes [`Nic::start_aging`], unless the rule was hit since.
    pub(crate) fn restore_age(&self, index: u32, former_ns: u64, begun_ns: u64) {
        let [last_hit_ns] = self.shared.ages.last_hit_ns.ensure(index);
        let order = Ordering::Relaxed;
        let _ = last_hit_ns.compare_exchange(begun_ns, former_ns, order, order);
    }

    fn age_of(&self, index: u32, word: ActionWord) -> Option<Age> {
        let timeout_s = self.timeout_of(word)?;
        let ages = &self.shared.ages;
        let last_hit_ns = ages.last_hit_ns.get(index)?[0].load(Ordering::Relaxed);
        let idle_ns = ages.now_ns.load(Ordering::Relaxed).saturating_sub(last_hit_ns);
        Some(Age { idle_ns, timeout_s })
    }

    fn timeout_of(&self, word: ActionWord) -> Option<u32> {
        let Fate::ActionList(number) = word.fate() else { return None };
        match self.shared.action_lists.read(number).1.next() {
            Some(ActionStep::Age(timeout)) => Some(timeout),
            _ => None,
        }
    }
}
