//! Groups, their masks and tables: created for the first rule that needs them, removed with the
//! last.
//!
//! Workers see all groups as one list, which is never changed, only replaced. A group is needed
//! while it has a rule or a rule jumps to it, a mask while it has a rule, the table of a key width
//! while a mask of that width has a rule. The root always stays.
//!
//! A burst may still use what was removed:
//!
//! - *A list, and the tables in it*: by a worker that has not yet taken the newer list. Both are
//!   counted references. The control side keeps its own reference until it is the last, so that no
//!   worker frees memory while the control side lives, except for the empty list that the worker
//!   began with. The control side keeps only lists that workers hold.
//! - *The place of a group*: by a packet whose jump was read and not yet followed. A place is
//!   reused for another group only after a grace period. That period begins when no word leads
//!   there any more and no published list has a group there.
//! - *The number of a mask*: by a look-up of a key that ends with it. It is reused for another mask
//!   only after a grace period. That period begins when no published list has the mask any more.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use niclab_table::{Config, CreateError, Pace, Stamp};

use crate::action_word::{Fate, RuleFate};
use crate::control::SharedState;
use crate::error::{Refused, RuleError};
use crate::families::{Families, FamilyFilter};
use crate::limits::{GROUPS_MAX, MASKS_MAX, PRUNE_TUPLES_MIN, ROOT_RULES_MAX, RULES_MAX};
use crate::mask::{Mask, MaskTable};
use crate::pruner::{GroupMasks, PrunedMasks, Pruner, slot_of};
use crate::rule::Pattern;
use crate::tables::{ByWidth, CompactKey, Selector, Table, TableReader};
use crate::tuple::{FIELDS, Shape, Tuple};

/// The view of each group, by the group's place. Places beyond the end have no group.
pub(crate) type GroupViews = Vec<Arc<GroupView>>;

/// A tuple that is probed without the pruning filter, and the filter of its family if many groups
/// have its mask.
#[derive(Debug)]
pub(crate) struct ProbedTuple {
    pub(crate) tuple: Arc<Tuple>,
    pub(crate) family: Option<Arc<FamilyFilter>>,
}

/// A group, as workers see it.
#[derive(Debug, Default)]
pub(crate) struct GroupView {
    /// Tuples that are probed one after the other, best first.
    pub(crate) tuples: Vec<ProbedTuple>,
    /// The tables of all tuples.
    pub(crate) tables: ByWidth<Option<TableReader>>,
    /// Tuples that the pruning filter selects.
    pub(crate) pruned: Option<PrunedMasks>,
}

const TABLE_CAPACITY_MAX: usize = RULES_MAX as usize;

/// Numbers of masks. The numbers of removed masks wait until every worker has begun another burst.
const NUMBERS_MAX: usize = 1 << 15;

/// Masks in the cache of recent look-ups.
const RECENT: usize = 64;

/// The place of the root, which always stays.
const ROOT: u16 = 0;

/// A mask of a group: the group's place, and the mask's number within the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MaskId {
    pub(crate) group: u16,
    pub(crate) mask: u16,
}

/// All groups of a NIC.
pub(crate) struct Groups {
    shared: Arc<SharedState>,
    seed: u64,
    /// By place. A free place has no rule and no jump.
    groups: Vec<Group>,
    /// Place of a group by its number.
    places: HashMap<u32, u16>,
    /// Places of removed groups, oldest first.
    free: VecDeque<(Stamp, u16)>,
    /// The latest stamp known to have passed.
    passed: Stamp,
    /// Families of masks that many groups have.
    families: Families,
    /// The views to publish.
    lists: GroupViews,
    /// Places of groups whose views are out of date.
    changed_groups: Vec<u16>,
    /// Groups that were removed since the last call of `publish`.
    retired_groups: Vec<u16>,
    /// Masks that were removed since then.
    retired_masks: Vec<MaskId>,
    /// Replaced lists that workers still hold, with their numbers.
    replaced_lists: Vec<(u64, Arc<GroupViews>)>,
    /// Number of the published list.
    published: u64,
    /// Removed tables, each with the number of the first list without it.
    retired_tables: Vec<(u64, Table)>,
    /// Recently found masks, by a hash of the pattern's mask: successive rules often have the same
    /// mask.
    recent: [MaskId; RECENT],
}

struct Group {
    number: u32,
    /// Rules, including those that a burst may still match.
    rules: u32,
    /// Those of them that are destroyed.
    retired_rules: u32,
    /// Rules that jump here, and template tables.
    jumps: u32,
    /// By number. A free number has no rule.
    masks: Vec<Mask>,
    /// Masks with rules.
    live: usize,
    /// Their numbers.
    by_shape: HashMap<Shape, u16>,
    /// Numbers of removed masks, oldest first.
    free: VecDeque<(Stamp, u16)>,
    tables: ByWidth<Option<Table>>,
    /// Masks with rules, by the table that they use.
    uses: ByWidth<usize>,
    pruner: Pruner,
    /// Bits of outer headers of the masks that are probed without the filter.
    probed: Vec<Selector>,
}

impl Groups {
    /// The root alone.
    pub(crate) fn new(shared: Arc<SharedState>, seed: u64) -> Groups {
        Groups {
            shared,
            seed,
            families: Families::new(seed),
            groups: vec![Group::new(0)],
            places: HashMap::from([(0, ROOT)]),
            free: VecDeque::new(),
            passed: Stamp::FIRST,
            lists: GroupViews::new(),
            changed_groups: Vec::new(),
            retired_groups: Vec::new(),
            retired_masks: Vec::new(),
            replaced_lists: Vec::new(),
            published: 0,
            retired_tables: Vec::new(),
            recent: [MaskId::default(); RECENT],
        }
    }

    /// Memory of the tables in bytes, including tables that only workers still hold.
    pub(crate) fn bytes(&self) -> usize {
        let gone: usize = self.retired_tables.iter().map(|(_, table)| table.bytes()).sum();
        gone + self.families.bytes() + self.groups.iter().map(Group::bytes).sum::<usize>()
    }

    /// The number of the group at a place.
    pub(crate) fn number(&self, place: u16) -> u32 {
        self.groups[usize::from(place)].number
    }

    /// A mask, with its table.
    pub(crate) fn mask(&mut self, mask_id: MaskId) -> MaskTable<'_> {
        let group = &mut self.groups[usize::from(mask_id.group)];
        let mask = &mut group.masks[usize::from(mask_id.mask)];
        let width = mask.tuple.shape.selector.width();
        MaskTable { mask, table: width.and_then(|width| group.tables[width].as_mut()) }
    }

    /// Whether a mask is that of a group's rules with such a pattern; false if that takes a longer
    /// look.
    #[inline]
    pub(crate) fn is_mask_of(&self, mask_id: MaskId, number: u32, pattern: &Pattern) -> bool {
        let group = self.groups.get(usize::from(mask_id.group));
        let group = group.filter(|group| group.number == number && pattern.deep_keys().is_empty());
        let mask = group.and_then(|group| group.masks.get(usize::from(mask_id.mask)));
        mask.is_some_and(|mask| mask.rules > 0 && mask.suits(pattern))
    }

    /// The mask of a group's rules with such a pattern, if it exists.
    #[inline]
    pub(crate) fn find_mask(&mut self, number: u32, pattern: &Pattern) -> Option<MaskId> {
        let place = recent_at(number, pattern);
        let mask_id = self.recent[place];
        if self.is_mask_of(mask_id, number, pattern) {
            return Some(mask_id);
        }
        let group = *self.places.get(&number)?;
        let mask = *self.groups[usize::from(group)].by_shape.get(&Shape::of(pattern))?;
        self.recent[place] = MaskId { group, mask };
        Some(MaskId { group, mask })
    }

    /// The words of patterns that a mask picks.
    pub(crate) fn selector(&self, mask_id: MaskId) -> &Selector {
        let group = &self.groups[usize::from(mask_id.group)];
        &group.masks[usize::from(mask_id.mask)].tuple.shape.selector
    }

    /// Refuses a rule that its group, or the NIC, has no room for. `known` is the rule's mask, if
    /// it exists. In an open transaction the root may have too many rules for a while: see
    /// [`Groups::check_root`].
    #[inline]
    pub(crate) fn check_room(
        &mut self,
        number: u32,
        fate: RuleFate,
        known: Option<MaskId>,
        open: bool,
    ) -> Result<(), Refused> {
        let place =
            known.map(|mask_id| mask_id.group).or_else(|| self.places.get(&number).copied());
        if place == Some(ROOT) && !open {
            self.check_limit(ROOT_RULES_MAX - 1)?;
        }
        if known.is_none() {
            self.check_masks(number, place)?;
        } else if !matches!(fate, RuleFate::Jump(_)) {
            return Ok(());
        }
        self.check_places(usize::from(place.is_none()), fate)
    }

    /// Whether a group has room for another mask.
    fn check_masks(&self, number: u32, place: Option<u16>) -> Result<(), Refused> {
        let Some(group) = place.map(|place| &self.groups[usize::from(place)]) else {
            return Ok(());
        };
        let numbers = group.masks.len() < NUMBERS_MAX || !group.free.is_empty();
        match group.live < MASKS_MAX && numbers {
            true => Ok(()),
            false => Err(RuleError::MasksTooMany { group: number }.into()),
        }
    }

    /// Refuses the state in which the root group has too many rules.
    pub(crate) fn check_root(&self) -> Result<(), Refused> {
        self.check_limit(ROOT_RULES_MAX)
    }

    fn check_limit(&self, rules: u32) -> Result<(), Refused> {
        let root = &self.groups[usize::from(ROOT)];
        match root.rules - root.retired_rules > rules {
            true => Err(RuleError::GroupFull { group: 0, rules_max: ROOT_RULES_MAX }.into()),
            false => Ok(()),
        }
    }

    /// Refuses an operation if there are no places for `new` groups and for the group that a fate
    /// jumps to.
    pub(crate) fn check_places(&mut self, new: usize, fate: RuleFate) -> Result<(), Refused> {
        let target = matches!(fate, RuleFate::Jump(to) if !self.places.contains_key(&to));
        let new = new + usize::from(target);
        if new == 0 {
            return Ok(());
        }
        self.passed = self.passed.max(self.shared.domain.passed());
        let reusable = self.free.iter().take(new).filter(|(freed, _)| *freed <= self.passed);
        if new > GROUPS_MAX - self.groups.len() + reusable.count() {
            return Err(RuleError::GroupsTooMany.into());
        }
        Ok(())
    }

    /// Adds a rule, for which there is room: creates its group and mask if they do not exist.
    /// `known` is its mask, if it exists. On failure nothing was created.
    #[inline]
    pub(crate) fn add_rule(
        &mut self,
        number: u32,
        pattern: &Pattern,
        known: Option<MaskId>,
    ) -> Result<MaskId, Refused> {
        let mask_id = self.acquire_mask(number, pattern, known)?;
        self.groups[usize::from(mask_id.group)].rules += 1;
        Ok(mask_id)
    }

    /// Keeps a group and a mask for rules to come, and creates them as [`Groups::add_rule`] does.
    pub(crate) fn pin(
        &mut self,
        number: u32,
        pattern: &Pattern,
        known: Option<MaskId>,
    ) -> Result<MaskId, Refused> {
        let mask_id = self.acquire_mask(number, pattern, known)?;
        self.groups[usize::from(mask_id.group)].jumps += 1;
        Ok(mask_id)
    }

    /// Releases what [`Groups::pin`] kept.
    pub(crate) fn unpin(&mut self, mask_id: MaskId) {
        self.groups[usize::from(mask_id.group)].jumps -= 1;
        self.release_mask(mask_id);
    }

    /// The mask of a pattern, with one more use.
    #[inline]
    fn acquire_mask(
        &mut self,
        number: u32,
        pattern: &Pattern,
        known: Option<MaskId>,
    ) -> Result<MaskId, Refused> {
        let mask_id = match known {
            Some(mask_id) => mask_id,
            None => self.create_mask(number, Shape::of(pattern))?,
        };
        self.groups[usize::from(mask_id.group)].masks[usize::from(mask_id.mask)].rules += 1;
        Ok(mask_id)
    }

    #[cold]
    fn create_mask(&mut self, number: u32, shape: Shape) -> Result<MaskId, Refused> {
        let table = self.table_for(number, &shape)?;
        let group = self.ensure_group(number);
        self.changed_groups.push(group);
        self.passed = self.passed.max(self.shared.domain.passed());
        let (passed, families) = (self.passed, self.families.slots_of(&shape.selector));
        let group_of = &mut self.groups[usize::from(group)];
        let mask = group_of.add_mask(shape, table, passed);
        group_of.masks[usize::from(mask)].families = families;
        Ok(MaskId { group, mask })
    }

    /// A new table, if rules of this shape need one that their group does not have.
    fn table_for(&self, number: u32, shape: &Shape) -> Result<Option<Table>, Refused> {
        let group = self.places.get(&number).map(|&place| &self.groups[usize::from(place)]);
        let has = |width: usize| group.is_some_and(|group| group.tables[width].is_some());
        let Some(width) = shape.selector.width().filter(|&width| !has(width)) else {
            return Ok(None);
        };
        let config = Config::growing(TABLE_CAPACITY_MAX, self.seed);
        let memory =
            |error: CreateError| Refused::from(RuleError::Memory { reason: error.to_string() });
        Table::new(width, config, &self.shared.domain).map(Some).map_err(memory)
    }

    /// Prepares the group for a rule's key and order; call it before a packet can match the rule.
    #[inline]
    pub(crate) fn admit(&mut self, mask_id: MaskId, key: &CompactKey, order: u64) {
        let mask = &self.groups[usize::from(mask_id.group)].masks[usize::from(mask_id.mask)];
        let selector = &mask.tuple.shape.selector;
        self.families.add_replaced(selector, key, mask_id.group);
        if mask.families != 0 {
            self.families.add(mask.families, selector, key, mask_id.group);
            self.advance_families();
        }
        let group = &mut self.groups[usize::from(mask_id.group)];
        let mask = &group.masks[usize::from(mask_id.mask)];
        let first = mask.tuple.is_new();
        let better = mask.tuple.admit(order);
        if group.live == 1 && !first && group.pruner.is_absent() {
            return;
        }
        let shape = &mask.tuple.shape;
        let moved = !group.pruner.is_absent()
            && shape.selector.words() > 0
            && group.pruner.add(mask_id.mask, &shape.spans(key), order, || slot_of(mask));
        // A single tuple has no order, and the filter orders the tuples in its slots. A tuple
        // without rules is not in the list.
        let listed = || !group.pruner.has(mask_id.mask) && (group.live > 1 || first);
        if moved || better && listed() {
            self.changed_groups.push(mask_id.group);
        }
        if group.advance_filter(Pace::Operation) {
            self.changed_groups.push(mask_id.group);
        }
    }

    /// Advances the filters and the growth of tables by up to `steps` steps; true if nothing is
    /// left to do.
    pub(crate) fn run_housekeeping(&mut self, steps: usize) -> bool {
        let mut busy = false;
        for (place, group) in self.groups.iter_mut().enumerate() {
            group.pruner.allow_retry();
            for _ in 0..steps {
                if !group.pruner.is_busy() {
                    break;
                }
                if group.advance_filter(Pace::Idle) {
                    self.changed_groups.push(place as u16);
                }
            }
            busy |= group.pruner.is_busy();
            for table in group.tables.iter_mut().flatten() {
                busy |= !table.finish_growth(steps);
            }
        }
        for _ in 0..steps {
            if !self.families.is_busy() {
                break;
            }
            self.advance_families();
        }
        self.publish();
        !busy && !self.families.is_busy()
    }

    /// Advances the filters of families by a few keys.
    #[inline]
    fn advance_families(&mut self) {
        if self.families.is_busy() {
            let groups = &self.groups;
            self.changed_groups
                .extend(self.families.advance(|place| Some(&*groups.get(place)?.masks)));
        }
    }

    /// Assigns slots to families, and updates the families of all masks.
    #[cold]
    fn assign_families(&mut self) {
        self.changed_groups.extend(self.families.assign());
        for mask in self.groups.iter_mut().flat_map(|group| &mut group.masks) {
            mask.families = self.families.slots_of(&mask.tuple.shape.selector);
        }
    }

    /// Marks a rule as destroyed: it is not live any more.
    pub(crate) fn retire_rule(&mut self, mask_id: MaskId) {
        self.groups[usize::from(mask_id.group)].retired_rules += 1;
    }

    /// Marks a destroyed rule as live again.
    pub(crate) fn restore_rule(&mut self, mask_id: MaskId) {
        self.groups[usize::from(mask_id.group)].retired_rules -= 1;
    }

    /// Removes a destroyed rule, when no packet can match it any more.
    #[inline]
    pub(crate) fn remove_rule(&mut self, mask_id: MaskId) {
        let group = &mut self.groups[usize::from(mask_id.group)];
        (group.rules, group.retired_rules) = (group.rules - 1, group.retired_rules - 1);
        self.release_mask(mask_id);
    }

    /// Drops one use of a mask; removes the mask and its group if nothing needs them any more.
    #[inline]
    fn release_mask(&mut self, mask_id: MaskId) {
        let group = &mut self.groups[usize::from(mask_id.group)];
        let mask = &mut group.masks[usize::from(mask_id.mask)];
        mask.rules -= 1;
        if mask.rules == 0 {
            let table = group.remove_mask(mask_id.mask);
            self.retired_tables.extend(table.map(|table| (self.published + 1, table)));
            self.changed_groups.push(mask_id.group);
            self.retired_masks.push(mask_id);
        }
        self.retire_if_unused(mask_id.group);
    }

    /// The fate for an action word. Creates the group that a jump names, for which there is room.
    pub(crate) fn resolve_fate(&mut self, fate: RuleFate) -> Fate {
        match fate {
            RuleFate::Queue(queue) => Fate::Queue(queue),
            RuleFate::Jump(group) => {
                let place = self.ensure_group(group);
                self.groups[usize::from(place)].jumps += 1;
                Fate::Jump(place)
            }
            RuleFate::Drop => Fate::Drop,
            RuleFate::Port(port) => Fate::Port(port),
            RuleFate::Rss(context) => Fate::Rss(context),
        }
    }

    /// Drops the use of a group by a word with this fate.
    pub(crate) fn release(&mut self, fate: Fate) {
        if let Fate::Jump(place) = fate {
            self.groups[usize::from(place)].jumps -= 1;
            self.retire_if_unused(place);
        }
    }

    /// Publishes the groups as they are, and frees what no worker holds.
    ///
    /// Call it before you store the word of a rule, so that a worker that reads a word also finds
    /// all that existed when the word was stored (see `worker`). Call it also at the end of an
    /// operation that removes something.
    #[inline]
    pub(crate) fn publish(&mut self) {
        let pending = [
            self.changed_groups.len(),
            self.retired_masks.len(),
            self.retired_groups.len(),
            self.replaced_lists.len(),
        ];
        if pending.iter().sum::<usize>() > 0 {
            self.publish_changes();
        }
    }

    fn publish_changes(&mut self) {
        if !self.changed_groups.is_empty() {
            self.lists.resize(self.groups.len(), Arc::default());
            self.rebuild_views();
            let old = self.shared.groups.swap(Arc::new(self.lists.clone()));
            self.replaced_lists.push((self.published, old));
            self.published += 1;
            self.shared.version.fetch_add(1, Ordering::Release);
        }
        if !self.retired_masks.is_empty() {
            let stamp = self.shared.domain.stamp();
            for mask_id in self.retired_masks.drain(..) {
                // If the group was removed too, its masks' numbers went with it.
                if let Some(group) = self.groups.get_mut(usize::from(mask_id.group)) {
                    group.free_mask_number(mask_id.mask, stamp);
                }
            }
        }
        if !self.retired_groups.is_empty() {
            let stamp = self.shared.domain.stamp();
            self.free.extend(self.retired_groups.drain(..).map(|place| (stamp, place)));
        }
        if !self.replaced_lists.is_empty() {
            self.replaced_lists.retain(|(_, list)| Arc::strong_count(list) > 1);
            let oldest = self.replaced_lists.first().map_or(self.published, |(number, _)| *number);
            self.retired_tables.retain(|(without, _)| *without > oldest);
        }
    }

    /// Rebuilds the views of the groups that changed.
    fn rebuild_views(&mut self) {
        let mut reassign = false;
        for &place in &self.changed_groups {
            let group = &mut self.groups[usize::from(place)];
            let probed = group.probed_selectors();
            reassign |= self.families.update_members(place, &group.probed, &probed);
            group.probed = probed;
        }
        if reassign {
            self.assign_families();
        }
        for place in self.changed_groups.drain(..) {
            self.lists[usize::from(place)] =
                self.groups[usize::from(place)].view(place, &self.families);
        }
    }

    /// The place of a group. Creates the group, for which there is room, if it does not exist.
    fn ensure_group(&mut self, number: u32) -> u16 {
        if let Some(&place) = self.places.get(&number) {
            return place;
        }
        let group = Group::new(number);
        let place = match self.free.pop_front_if(|(freed, _)| *freed <= self.passed) {
            Some((_, place)) => {
                self.groups[usize::from(place)] = group;
                place
            }
            None => {
                self.groups.push(group);
                self.groups.len() as u16 - 1
            }
        };
        self.places.insert(number, place);
        place
    }

    /// Removes a group if nothing needs it.
    fn retire_if_unused(&mut self, place: u16) {
        let group = &self.groups[usize::from(place)];
        if place != ROOT && group.rules == 0 && group.jumps == 0 {
            self.places.remove(&group.number);
            self.retired_groups.push(place);
        }
    }
}

/// The index of a mask in the cache of recent look-ups.
#[inline]
fn recent_at(number: u32, pattern: &Pattern) -> usize {
    let words = pattern.mask().0.into_iter();
    let sum = words.fold(u64::from(number), |sum, word| sum.rotate_left(7).wrapping_add(word));
    (sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % RECENT
}

impl Group {
    /// A group without rules.
    fn new(number: u32) -> Group {
        Group {
            number,
            rules: 0,
            retired_rules: 0,
            jumps: 0,
            masks: Vec::new(),
            live: 0,
            by_shape: HashMap::new(),
            free: VecDeque::new(),
            tables: ByWidth::default(),
            uses: ByWidth::default(),
            pruner: Pruner::new(FIELDS),
            probed: Vec::new(),
        }
    }

    fn bytes(&self) -> usize {
        let tables = self.tables.iter().flatten().map(Table::bytes).sum::<usize>();
        tables
            + self.masks.iter().map(|mask| mask.keys.bytes()).sum::<usize>()
            + self.pruner.bytes()
    }

    /// Builds the filter a little further; true if workers have to see another one.
    #[inline]
    fn advance_filter(&mut self, pace: Pace) -> bool {
        let is_wanted = self.live >= PRUNE_TUPLES_MIN || !self.pruner.is_absent();
        is_wanted && self.pruner.advance(&mut GroupMasks(&self.masks), 1, pace)
    }

    /// Adds a mask, with a number that no worker can still use.
    fn add_mask(&mut self, shape: Shape, table: Option<Table>, passed: Stamp) -> u16 {
        let free = self.free.pop_front_if(|(freed, _)| *freed <= passed);
        let number = free.map_or(self.masks.len() as u16, |(_, number)| number);
        let mask = Mask::new(shape, number);
        match self.masks.get_mut(usize::from(number)) {
            Some(place) => *place = mask,
            None => self.masks.push(mask),
        }
        if let Some(width) = shape.selector.width() {
            self.uses[width] += 1;
            self.tables[width] = table.or(self.tables[width].take());
        }
        self.by_shape.insert(shape, number);
        self.live += 1;
        number
    }

    /// Removes a mask without rules; returns the table if no other mask needs it.
    fn remove_mask(&mut self, number: u16) -> Option<Table> {
        let mask = std::mem::take(&mut self.masks[usize::from(number)]);
        self.by_shape.remove(&mask.tuple.shape);
        self.live -= 1;
        match self.live {
            0 => self.pruner = Pruner::new(FIELDS),
            _ => self.pruner.retire(number),
        }
        let width = mask.tuple.shape.selector.width()?;
        self.uses[width] -= 1;
        if self.uses[width] == 0 { self.tables[width].take() } else { None }
    }

    /// Allows the reuse of a number once `stamp` has passed.
    fn free_mask_number(&mut self, number: u16, stamp: Stamp) {
        if usize::from(number) < self.masks.len() {
            self.free.push_back((stamp, number));
        }
    }

    /// Masks that are probed without the pruning filter.
    fn probed_masks(&self) -> impl Iterator<Item = &Mask> {
        let live = self.masks.iter().filter(|mask| mask.rules > 0);
        live.filter(|mask| !self.pruner.has(mask.tuple.number) && !mask.tuple.is_new())
    }

    /// The bits of outer headers that these masks match, each set once.
    fn probed_selectors(&self) -> Vec<Selector> {
        let mut probed = Vec::new();
        // More masks exist only until the group's filter is complete.
        for mask in self.probed_masks().take(PRUNE_TUPLES_MIN) {
            let selector = mask.tuple.shape.selector;
            if selector.words() > 0 && !selector.is_deep() && !probed.contains(&selector) {
                probed.push(selector);
            }
        }
        probed
    }

    /// The view of the group at this place.
    fn view(&self, place: u16, families: &Families) -> Arc<GroupView> {
        let probed = |mask: &Mask| ProbedTuple {
            tuple: Arc::clone(&mask.tuple),
            family: Some(&mask.tuple.shape.selector)
                .filter(|selector| self.probed.contains(selector))
                .and_then(|selector| families.shown(place, selector)),
        };
        let mut tuples: Vec<ProbedTuple> = self.probed_masks().map(probed).collect();
        tuples.sort_by_key(|probed| probed.tuple.best());
        let tables = self.tables.each_ref().map(|table| table.as_ref().map(Table::reader));
        Arc::new(GroupView { tuples, tables, pruned: self.pruner.view() })
    }
}
