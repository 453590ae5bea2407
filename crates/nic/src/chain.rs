//! The rules of one key: a chain by order, of which workers see the first.
//!
//! The chain is the control side's, in its newest state: that of the open transaction, if there is
//! one. What workers see of it is the word of the key, which every function here keeps up.

use std::sync::atomic::Ordering;

use niclab_table::Placed;

use crate::control::{Nic, Record};
use crate::error::{Refused, RuleError};
use crate::groups::Seat;
use crate::mask::Kept;
use crate::rule::Rule;
use crate::settle::Owner;
use crate::tables::{CompactKey, Selector};
use crate::word::Word;

/// Bits of an order below the priority: the number of the rule's creation.
const CREATED_BITS: u32 = 47;

/// Where a rule stands among those that match a packet; the lowest is in effect. The highest bit is
/// not set: it marks a reference (`niclab_table::Versions`).
pub(crate) fn order_of(priority: u32, created: u64) -> u64 {
    u64::from(priority) << CREATED_BITS | (created & ((1 << CREATED_BITS) - 1))
}

/// The priority in an order.
fn priority_of(order: u64) -> u32 {
    (order >> CREATED_BITS) as u32
}

/// The key of a rule, and where the rules of its mask stand, if there are any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    pub(crate) key: CompactKey,
    /// By which its entry is made; 0 where the mask has no rules.
    pub(crate) hash: u64,
    pub(crate) seat: Option<Seat>,
}

/// A place in a chain.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The last rule that is better, and the first that is worse.
    before: Option<u32>,
    after: Option<u32>,
}

impl Nic {
    /// The key of a rule, and where it is to stand.
    #[inline]
    pub(crate) fn target(&mut self, rule: &Rule<'_>) -> Target {
        match self.groups.find(rule.group, &rule.pattern) {
            Some(seat) => {
                let key = self.groups.selector(seat).compact(&rule.pattern);
                let hash = self.groups.mask(seat).hash(&key);
                Target { key, hash, seat: Some(seat) }
            }
            None => {
                let key = Selector::new(&rule.pattern).compact(&rule.pattern);
                Target { key, ..Target::default() }
            }
        }
    }

    /// Asks for the memory that the making of a rule looks at first.
    #[inline]
    pub(crate) fn prefetch_tags(&mut self, target: &Target) {
        if let Some(seat) = target.seat {
            self.groups.mask(seat).prefetch_tags(target.hash);
        }
    }

    /// Asks for what it looks at then; to be called when that has come.
    #[inline]
    pub(crate) fn prefetch_entry(&mut self, target: &Target) {
        if let Some(seat) = target.seat {
            self.groups.mask(seat).prefetch_entry(target.hash);
        }
    }

    #[inline]
    pub(crate) fn is_seat(&self, seat: Seat, rule: &Rule<'_>) -> bool {
        self.groups.is_seat(seat, rule.group, &rule.pattern)
    }

    /// Puts a rule into the chain of its key. `record` has its seat. When this fails nothing was
    /// changed.
    pub(crate) fn link(
        &mut self,
        index: u32,
        record: Record,
        target: &Target,
    ) -> Result<(), Refused> {
        let (word, cell) = match self.changes.place(0, record.word.0) {
            Placed::Cell(id, word) => (word, Some(id)),
            Placed::Word(word) => (word, None),
            Placed::Kept => (0, None),
        };
        // Most keys are new, and then this is the only look into the table.
        let mut mask = self.groups.mask(record.seat);
        // Of a mask that is new the hash was not known.
        let hash = if target.seat.is_some() { target.hash } else { mask.hash(&target.key) };
        match mask.keep((&target.key, hash), word) {
            Ok(Some(kept)) => {
                if let Some(id) = cell {
                    self.settle.own(id, Owner::Key(record.seat, kept));
                }
                self.keep_record(index, Record { kept, ..record });
                Ok(())
            }
            other => {
                if let Some(id) = cell {
                    self.changes.cancel(id);
                }
                other?;
                self.link_known(index, record, &target.key)
            }
        }
    }

    /// Whether the chain of a key has room for a rule of this order.
    pub(crate) fn check_chain(
        &mut self,
        order: u64,
        group: u32,
        target: &Target,
    ) -> Result<(), Refused> {
        let word = target.seat.map_or(0, |seat| self.groups.mask(seat).word(&target.key));
        self.place_new(self.head_of(word), order, group).map(|_| ())
    }

    /// The place of a new rule of `group` in a chain; of one priority there is one rule.
    fn place_new(&self, head: Option<u32>, order: u64, group: u32) -> Result<Place, Refused> {
        let place = self.place(head, order);
        let priority = priority_of(order);
        let same = |at: u32| priority_of(self.records[at as usize].order) == priority;
        // Such a rule is the last that is better or the first that is worse.
        match [place.before, place.after].into_iter().flatten().find(|at| same(*at)) {
            Some(at) => {
                let of = self.records[at as usize].id(at);
                Err(RuleError::Duplicate { group, priority, of }.into())
            }
            None => Ok(place),
        }
    }

    /// [`Nic::link`] for a key that its mask keeps already.
    fn link_known(&mut self, index: u32, record: Record, key: &CompactKey) -> Result<(), Refused> {
        let word = self.groups.mask(record.seat).word(key);
        let head = self.head_of(word);
        let group = self.groups.number(record.seat.group);
        let place = self.place_new(head, record.order, group)?;
        let kept = match (head, self.changes.cell(word)) {
            (Some(head), _) => self.records[head as usize].kept,
            (None, cell) => match cell.map(|id| self.settle.owner(id)) {
                Some(Owner::Key(_, kept)) => kept,
                Some(Owner::Order(_) | Owner::Misses | Owner::Rss) | None => {
                    unreachable!("a kept key has a rule or a cell")
                }
            },
        };
        self.insert(index, Record { kept, ..record }, place);
        Ok(())
    }

    /// Puts a rule that was in a chain back into it, as `record` says.
    pub(crate) fn relink(&mut self, index: u32, record: Record) {
        let word = self.groups.mask(record.seat).word_at(record.kept);
        let place = self.place(self.head_of(word), record.order);
        self.insert(index, record, place);
    }

    /// Takes a rule out of its chain; the next one, or none, is in effect where it was.
    pub(crate) fn unlink(&mut self, index: u32, record: &Record) {
        let current = self.groups.mask(record.seat).word_at(record.kept);
        match self.better(index, current) {
            Some(before) => self.records[before as usize].next = record.next,
            None => self.show(record, record.next, current),
        }
    }

    /// Gives the chain of a rule another word if the rule is in effect.
    #[inline]
    pub(crate) fn show_if_first(&mut self, index: u32, record: &Record, word: Word) {
        let first = |newest: u64| newest != 0 && Word(newest).rule() == index;
        let (mask, mut kept) = (self.groups.mask(record.seat), record.kept);
        if !mask.knows(kept) {
            kept = mask.seen(kept);
            self.records[index as usize].kept = kept;
        }
        let current = self.groups.mask(record.seat).word_at(kept);
        if first(self.changes.newest(current)) {
            self.set_word(record.seat, kept, word.0, current);
        }
    }

    fn insert(&mut self, index: u32, record: Record, place: Place) {
        let record = Record { next: place.after, ..record };
        self.keep_record(index, record);
        match place.before {
            Some(before) => self.records[before as usize].next = Some(index),
            None => {
                let current = self.groups.mask(record.seat).word_at(record.kept);
                self.show(&record, Some(index), current);
            }
        }
    }

    fn keep_record(&mut self, index: u32, record: Record) {
        match self.records.at(index as usize) {
            Some(slot) => *slot = record,
            None => self.records.push(record),
        }
    }

    /// The place of an order in the chain that starts with `head`.
    fn place(&self, head: Option<u32>, order: u64) -> Place {
        let (mut before, mut after) = (None, head);
        while let Some(at) = after.filter(|&at| self.records[at as usize].order < order) {
            (before, after) = (Some(at), self.records[at as usize].next);
        }
        Place { before, after }
    }

    /// The rule in effect where workers find this word.
    fn head_of(&self, word: u64) -> Option<u32> {
        let newest = Word(self.changes.newest(word));
        newest.is_some().then(|| newest.rule())
    }

    /// The rule just before `index` in the chain whose word is `current`; `None` where `index` is
    /// in effect.
    #[inline]
    fn better(&mut self, index: u32, current: u64) -> Option<u32> {
        let mut at = self.head_of(current).filter(|&head| head != index)?;
        while let Some(next) = self.records[at as usize].next.filter(|&next| next != index) {
            at = next;
        }
        Some(at)
    }

    /// Puts another rule, or none, into effect for the key of `record`, whose word is `current`.
    #[inline]
    fn show(&mut self, record: &Record, index: Option<u32>, current: u64) {
        let word = index.map_or(0, |index| self.records[index as usize].word.0);
        self.set_word(record.seat, record.kept, word, current);
    }

    /// Gives a kept key, whose word is `current`, another word.
    #[inline]
    fn set_word(&mut self, seat: Seat, kept: Kept, word: u64, current: u64) {
        // The word may lead to a group that workers have not been shown.
        self.groups.publish();
        match self.changes.place(current, word) {
            Placed::Kept => {}
            Placed::Word(word) => self.groups.mask(seat).put(kept, word),
            Placed::Cell(id, word) => {
                self.groups.mask(seat).put(kept, word);
                self.settle.own(id, Owner::Key(seat, kept));
            }
        }
    }

    /// Gives a rule another order; at once if no packet can meet the index yet. Returns the one it
    /// had.
    #[inline]
    pub(crate) fn set_order(&mut self, index: u32, order: u64) -> u64 {
        let [slot] = self.board.orders.reach(index);
        let current = slot.load(Ordering::Relaxed);
        let former = self.changes.newest(current);
        if former == order {
            return former;
        }
        let lives = self.records.get(index as usize).is_some_and(|record| record.word.is_some());
        let placed = match lives {
            true => self.changes.place(current, order),
            false => Placed::Word(order),
        };
        match placed {
            Placed::Kept => {}
            Placed::Word(word) => slot.store(word, Ordering::Release),
            Placed::Cell(id, word) => {
                slot.store(word, Ordering::Release);
                self.settle.own(id, Owner::Order(index));
            }
        }
        former
    }
}
