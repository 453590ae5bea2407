//! Rules that age: when each last met a packet, and which have met none for too long.
//!
//! Nothing here reads a clock. The control side is told the time ([`Nic::set_time_ns`]); a worker
//! notes that time for a rule that meets a packet. It writes once per rule each time the time
//! changes, and reads else. So a packet counts as met at the time that was told last, and an age is
//! too great by at most the time between two tellings.

use std::sync::atomic::{AtomicU64, Ordering};

use niclab_table::Segments;

use crate::control::{Nic, RuleId};
use crate::error::RuleError;
use crate::limits::RULES_MAX;
use crate::program::{Step, timeout_of};
use crate::transaction::Logged;
use crate::word::{Fate, Word};

const NS_PER_S: u64 = 1_000_000_000;

/// How long a rule has met no packet, by the times that were told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// Time since its last packet, or since it began to age, nanoseconds.
    pub idle_ns: u64,
    /// Seconds after which it is aged.
    pub timeout_s: u32,
}

impl Age {
    /// Whether it has met no packet for as long as its timeout says, or longer.
    pub fn is_aged(&self) -> bool {
        self.idle_ns >= u64::from(self.timeout_s) * NS_PER_S
    }
}

/// When rules that age met packets, shared with workers.
pub(crate) struct Ages {
    /// The time as it was told last.
    now_ns: AtomicU64,
    /// By rule; of those alone that age.
    met_ns: Segments<1>,
}

impl Ages {
    pub(crate) fn new() -> Ages {
        Ages { now_ns: AtomicU64::new(0), met_ns: Segments::new(RULES_MAX) }
    }

    /// Notes that a rule met a packet. A worker that comes late does not take the time back.
    #[inline]
    pub(crate) fn meet(&self, rule: u32) {
        let now_ns = self.now_ns.load(Ordering::Relaxed);
        if let Some([met_ns]) = self.met_ns.get(rule)
            && met_ns.load(Ordering::Relaxed) < now_ns
        {
            met_ns.fetch_max(now_ns, Ordering::Relaxed);
        }
    }

    /// Memory of rules that age, and of those that had their places.
    pub(crate) fn bytes(&self) -> usize {
        self.met_ns.bytes()
    }
}

impl Nic {
    /// Says what time it is, nanoseconds from any moment; ages are reckoned by this alone, so it is
    /// to be told before the first rule that ages is made. A time before the one told last is
    /// passed over.
    pub fn set_time_ns(&mut self, now_ns: u64) {
        self.board.ages.now_ns.fetch_max(now_ns, Ordering::Relaxed);
    }

    /// The age of a rule; `None` if no `age` is among its actions. It begins with the call that
    /// gives the rule this action; other updates leave it.
    ///
    /// # Errors
    /// [`RuleError::Unknown`].
    pub fn age(&self, id: RuleId) -> Result<Option<Age>, RuleError> {
        Ok(self.age_of(id.index(), self.record(id)?.word))
    }

    /// The rules that are aged ([`Age::is_aged`]). Looks at all rules.
    pub fn aged(&self) -> Vec<RuleId> {
        let is_aged = |index: u32, word| self.age_of(index, word).is_some_and(|age| age.is_aged());
        let all = (0..).zip(self.records.iter());
        let aged = all.filter(|(index, record)| is_aged(*index, record.word));
        aged.map(|(index, record)| record.id(index)).collect()
    }

    /// Lets a rule with the steps that were written last begin to age, unless its old word did.
    pub(crate) fn begin_age(&mut self, index: u32, old: Word) {
        if timeout_of(&self.steps).is_some() && self.timeout_of(old).is_none() {
            let ages = &self.board.ages;
            let begun_ns = ages.now_ns.load(Ordering::Relaxed);
            let [met_ns] = ages.met_ns.reach(index);
            let former_ns = met_ns.swap(begun_ns, Ordering::Relaxed);
            if self.changes.is_open() {
                self.settle.note(Logged::Aged { index, former_ns, begun_ns });
            }
        }
    }

    /// Takes [`Nic::begin_age`] back, unless the rule has met a packet since.
    pub(crate) fn restore_age(&self, index: u32, former_ns: u64, begun_ns: u64) {
        let [met_ns] = self.board.ages.met_ns.reach(index);
        let order = Ordering::Relaxed;
        let _ = met_ns.compare_exchange(begun_ns, former_ns, order, order);
    }

    fn age_of(&self, index: u32, word: Word) -> Option<Age> {
        let timeout_s = self.timeout_of(word)?;
        let ages = &self.board.ages;
        let met_ns = ages.met_ns.get(index)?[0].load(Ordering::Relaxed);
        let idle_ns = ages.now_ns.load(Ordering::Relaxed).saturating_sub(met_ns);
        Some(Age { idle_ns, timeout_s })
    }

    fn timeout_of(&self, word: Word) -> Option<u32> {
        let Fate::Program(number) = word.fate() else { return None };
        match self.board.programs.read(number).1.next() {
            Some(Step::Age(timeout)) => Some(timeout),
            _ => None,
        }
    }
}
