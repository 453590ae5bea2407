//! The rules of one key: a list by priority, of which workers see the first rule.
//!
//! The list belongs to the control side and has its newest state, including the open transaction.
//! Workers see the action word of the key, which every function here keeps up to date.

use std::sync::atomic::Ordering;

use niclab_table::WordUpdate;

use crate::action_word::ActionWord;
use crate::control::{Nic, RuleRecord};
use crate::error::{Refused, RuleError};
use crate::groups::MaskId;
use crate::mask::StoredKey;
use crate::reclaim::Owner;
use crate::rule::Rule;
use crate::tables::{CompactKey, Selector};

/// Bits of an order below the priority: the number of the rule's creation.
const CREATED_BITS: u32 = 47;

/// The rank of a rule among those that match a packet: the rule with the lowest order acts. The
/// highest bit is not set, because it marks a reference (`niclab_table::VersionedValues`).
pub(crate) fn order_of(priority: u32, created: u64) -> u64 {
    u64::from(priority) << CREATED_BITS | (created & ((1 << CREATED_BITS) - 1))
}

/// The priority that an order contains.
pub(crate) fn priority_of(order: u64) -> u32 {
    (order >> CREATED_BITS) as u32
}

/// The key of a rule, and the mask of such rules, if it exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    pub(crate) key: CompactKey,
    /// The key's hash; 0 if the mask does not exist.
    pub(crate) hash: u64,
    pub(crate) mask_id: Option<MaskId>,
}

/// A position in a priority list.
#[derive(Clone, Copy, Default)]
struct ListPosition {
    /// The last better rule, and the first worse rule.
    before: Option<u32>,
    after: Option<u32>,
}

impl Nic {
    /// The key of a rule, and its mask if that exists.
    #[inline]
    pub(crate) fn target(&mut self, rule: &Rule<'_>) -> Target {
        match self.groups.find_mask(rule.group, &rule.pattern) {
            Some(mask_id) => {
                let key = self.groups.selector(mask_id).compact(&rule.pattern);
                let hash = self.groups.mask(mask_id).hash(&key);
                Target { key, hash, mask_id: Some(mask_id) }
            }
            None => {
                let key = Selector::new(&rule.pattern).compact(&rule.pattern);
                Target { key, ..Target::default() }
            }
        }
    }

    /// Prefetches what the insertion of a rule reads first.
    #[inline]
    pub(crate) fn prefetch_tags(&mut self, target: &Target) {
        if let Some(mask_id) = target.mask_id {
            self.groups.mask(mask_id).prefetch_tags(target.hash);
        }
    }

    /// Prefetches what the insertion reads next; call it when the tags have arrived.
    #[inline]
    pub(crate) fn prefetch_entry(&mut self, target: &Target) {
        if let Some(mask_id) = target.mask_id {
            self.groups.mask(mask_id).prefetch_entry(target.hash);
        }
    }

    #[inline]
    pub(crate) fn is_mask_of(&self, mask_id: MaskId, rule: &Rule<'_>) -> bool {
        self.groups.is_mask_of(mask_id, rule.group, &rule.pattern)
    }

    /// Inserts a rule into the priority list of its key. `record` names the mask. On failure
    /// nothing is changed.
    pub(crate) fn link(
        &mut self,
        index: u32,
        record: RuleRecord,
        target: &Target,
    ) -> Result<(), Refused> {
        let (word, cell) = match self.transactions.update(0, record.word.0) {
            WordUpdate::StoreReference(id, word) => (word, Some(id)),
            WordUpdate::Store(word) => (word, None),
            WordUpdate::InCell => (0, None),
        };
        // Most keys are new; then this is the only access to the table.
        let mut mask = self.groups.mask(record.mask_id);
        // The hash of a key of a new mask was not known yet.
        let hash = if target.mask_id.is_some() { target.hash } else { mask.hash(&target.key) };
        match mask.insert((&target.key, hash), word) {
            Ok(Some(stored)) => {
                if let Some(id) = cell {
                    self.deferred.own(id, Owner::Key(record.mask_id, stored));
                }
                self.store_record(index, RuleRecord { key: stored, ..record });
                Ok(())
            }
            other => {
                if let Some(id) = cell {
                    self.transactions.cancel(id);
                }
                other?;
                self.link_to_existing(index, record, &target.key)
            }
        }
    }

    /// Refuses a rule of this order if its priority list has a rule of the same priority.
    pub(crate) fn check_duplicate(
        &mut self,
        order: u64,
        group: u32,
        target: &Target,
    ) -> Result<(), Refused> {
        let word = target.mask_id.map_or(0, |mask_id| self.groups.mask(mask_id).word(&target.key));
        self.position_for_new(self.head_of(word), order, group).map(|_| ())
    }

    /// The position of a new rule of `group`; a list has one rule of each priority.
    fn position_for_new(
        &self,
        head: Option<u32>,
        order: u64,
        group: u32,
    ) -> Result<ListPosition, Refused> {
        let place = self.position(head, order);
        let priority = priority_of(order);
        let same = |at: u32| priority_of(self.records[at as usize].order) == priority;
        // A rule of the same priority is the last better or the first worse rule.
        match [place.before, place.after].into_iter().flatten().find(|at| same(*at)) {
            Some(at) => {
                let of = self.records[at as usize].id(at);
                Err(RuleError::Duplicate { group, priority, of }.into())
            }
            None => Ok(place),
        }
    }

    /// [`Nic::link`] for a key that its mask already stores.
    fn link_to_existing(
        &mut self,
        index: u32,
        record: RuleRecord,
        key: &CompactKey,
    ) -> Result<(), Refused> {
        let word = self.groups.mask(record.mask_id).word(key);
        let head = self.head_of(word);
        let group = self.groups.number(record.mask_id.group);
        let place = self.position_for_new(head, record.order, group)?;
        let stored = match (head, self.transactions.cell(word)) {
            (Some(head), _) => self.records[head as usize].key,
            (None, cell) => match cell.map(|id| self.deferred.owner(id)) {
                Some(Owner::Key(_, stored)) => stored,
                Some(Owner::Order(_) | Owner::Misses | Owner::Rss) | None => {
                    unreachable!("a stored key has a rule or a cell")
                }
            },
        };
        self.insert(index, RuleRecord { key: stored, ..record }, place);
        Ok(())
    }

    /// Puts a removed rule back into its list, as `record` says.
    pub(crate) fn relink(&mut self, index: u32, record: RuleRecord) {
        let word = self.groups.mask(record.mask_id).word_at(record.key);
        let place = self.position(self.head_of(word), record.order);
        self.insert(index, record, place);
    }

    /// Removes a rule from its list. If it was the first, the next rule, if any, takes effect.
    pub(crate) fn unlink(&mut self, index: u32, record: &RuleRecord) {
        let current = self.groups.mask(record.mask_id).word_at(record.key);
        match self.predecessor(index, current) {
            Some(before) => self.records[before as usize].next = record.next,
            None => self.make_head(record, record.next, current),
        }
    }

    /// Replaces the word of the key if the rule is the first of its list.
    #[inline]
    pub(crate) fn update_if_head(&mut self, index: u32, record: &RuleRecord, word: ActionWord) {
        let first = |newest: u64| newest != 0 && ActionWord(newest).rule() == index;
        let (mask, mut stored) = (self.groups.mask(record.mask_id), record.key);
        if !mask.is_current(stored) {
            stored = mask.refreshed(stored);
            self.records[index as usize].key = stored;
        }
        let current = self.groups.mask(record.mask_id).word_at(stored);
        if first(self.transactions.newest(current)) {
            self.set_word(record.mask_id, stored, word.0, current);
        }
    }

    fn insert(&mut self, index: u32, record: RuleRecord, place: ListPosition) {
        let record = RuleRecord { next: place.after, ..record };
        self.store_record(index, record);
        match place.before {
            Some(before) => self.records[before as usize].next = Some(index),
            None => {
                let current = self.groups.mask(record.mask_id).word_at(record.key);
                self.make_head(&record, Some(index), current);
            }
        }
    }

    fn store_record(&mut self, index: u32, record: RuleRecord) {
        match self.records.element_mut(index as usize) {
            Some(slot) => *slot = record,
            None => self.records.push(record),
        }
    }

    /// The position of an order in the list that starts with `head`.
    fn position(&self, head: Option<u32>, order: u64) -> ListPosition {
        let (mut before, mut after) = (None, head);
        while let Some(at) = after.filter(|&at| self.records[at as usize].order < order) {
            (before, after) = (Some(at), self.records[at as usize].next);
        }
        ListPosition { before, after }
    }

    /// The first rule of a list, by the word that workers find.
    fn head_of(&self, word: u64) -> Option<u32> {
        let newest = ActionWord(self.transactions.newest(word));
        newest.is_some().then(|| newest.rule())
    }

    /// The rule just before `index` in the list of the word `current`; `None` if `index` is the
    /// first.
    #[inline]
    fn predecessor(&mut self, index: u32, current: u64) -> Option<u32> {
        let mut at = self.head_of(current).filter(|&head| head != index)?;
        while let Some(next) = self.records[at as usize].next.filter(|&next| next != index) {
            at = next;
        }
        Some(at)
    }

    /// Makes another rule, or none, the first of the list of `record`, whose word is `current`.
    #[inline]
    fn make_head(&mut self, record: &RuleRecord, index: Option<u32>, current: u64) {
        let word = index.map_or(0, |index| self.records[index as usize].word.0);
        self.set_word(record.mask_id, record.key, word, current);
    }

    /// Replaces the word of a stored key, which is `current`.
    #[inline]
    fn set_word(&mut self, mask_id: MaskId, stored: StoredKey, word: u64, current: u64) {
        // The new word may lead to a group that was not published yet.
        self.groups.publish();
        match self.transactions.update(current, word) {
            WordUpdate::InCell => {}
            WordUpdate::Store(word) => self.groups.mask(mask_id).set(stored, word),
            WordUpdate::StoreReference(id, word) => {
                self.groups.mask(mask_id).set(stored, word);
                self.deferred.own(id, Owner::Key(mask_id, stored));
            }
        }
    }

    /// Replaces the order of a rule: at once if no packet can match this index yet. Returns the old
    /// order.
    #[inline]
    pub(crate) fn set_order(&mut self, index: u32, order: u64) -> u64 {
        let [slot] = self.shared.orders.ensure(index);
        let current = slot.load(Ordering::Relaxed);
        let former = self.transactions.newest(current);
        if former == order {
            return former;
        }
        let lives = self.records.get(index as usize).is_some_and(|record| record.word.is_some());
        let placed = match lives {
            true => self.transactions.update(current, order),
            false => WordUpdate::Store(order),
        };
        match placed {
            WordUpdate::InCell => {}
            WordUpdate::Store(word) => slot.store(word, Ordering::Release),
            WordUpdate::StoreReference(id, word) => {
                slot.store(word, Ordering::Release);
                self.deferred.own(id, Owner::Order(index));
            }
        }
        former
    }
}
