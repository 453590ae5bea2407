//! Groups, their masks and tables: made for the first rule that needs them, gone with the last.
//!
//! Workers see all groups as one list, which is never changed, only replaced. A group is needed
//! while it has a rule or a rule jumps to it, a mask while it has a rule, the table of a width of
//! key while a mask of that width has one; the root stays.
//!
//! What is gone may still be in use by a burst under way:
//!
//! - *A list, and the tables in it*, by a worker that has not yet taken the newer list. Both are
//!   counted references. The control side keeps its own until it is the last, so that no worker
//!   frees memory while the control side lives, but for the empty list it began with; it keeps no
//!   more than the lists that workers hold.
//! - *The place of a group*, by a packet whose jump has been read and not yet followed. A place is
//!   given to another group only after a grace period that began when no word led there any more
//!   and no shown list had anything there.
//! - *The number of a mask*, by whoever looks up a key that ends with it. It is given to another
//!   mask only after a grace period that began when no list named it any more.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use niclab_table::{Config, CreateError, Joined, Stamp};

use crate::control::Board;
use crate::error::{Refused, RuleError};
use crate::limits::{GROUPS_MAX, MASKS_MAX, PRUNE_TUPLES_MIN, ROOT_RULES_MAX, RULES_MAX};
use crate::mask::{Mask, Seated};
use crate::presence::{Presences, Shared};
use crate::pruner::{Pruned, Pruner};
use crate::rule::Pattern;
use crate::tables::{ByWidth, CompactKey, Selector, Table, View};
use crate::tuple::{FIELDS, Shape, Tuple};
use crate::word::{Decision, Fate};

/// What workers see of each group, by the group's place. A place beyond the end has none.
pub(crate) type Lists = Vec<Arc<Listed>>;

/// A tuple that is probed without a filter, and what is known of its mask if many groups have it.
#[derive(Debug)]
pub(crate) struct Probed {
    pub(crate) tuple: Arc<Tuple>,
    pub(crate) shared: Option<Arc<Shared>>,
}

/// What workers see of a group.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// Tuples that are probed one after the other, best first.
    pub(crate) tuples: Vec<Probed>,
    /// The tables of all tuples.
    pub(crate) tables: ByWidth<Option<View>>,
    /// All other tuples.
    pub(crate) pruned: Option<Arc<Pruned>>,
    /// Their sets joined ahead.
    pub(crate) joined: Option<Arc<Joined<{ FIELDS.len() }>>>,
}

const TABLE_CAPACITY_MAX: usize = RULES_MAX as usize;

/// Numbers of masks: those of masks that are gone wait until every worker has run.
const NUMBERS_MAX: usize = 1 << 15;

/// Masks whose seats are remembered.
const RECENT: usize = 64;

/// The place of the root, which is never given up.
const ROOT: u16 = 0;

/// Where a rule stands: the place of its group, and of its mask within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) group: u16,
    pub(crate) mask: u16,
}

/// All groups of a NIC.
pub(crate) struct Groups {
    board: Arc<Board>,
    seed: u64,
    /// By place; one that is free has no rule and no jump.
    groups: Vec<Group>,
    /// Place of a group by its number.
    places: HashMap<u32, u16>,
    /// Places of groups that are gone, oldest first.
    free: VecDeque<(Stamp, u16)>,
    /// The latest stamp known to have passed.
    passed: Stamp,
    /// Families of masks that many of them have.
    presences: Presences,
    /// What workers are to see.
    lists: Lists,
    /// Places whose tables are not shown as they are now.
    changed: Vec<u16>,
    /// Groups gone since the last call of `publish`.
    vacated: Vec<u16>,
    /// Masks gone since then.
    left: Vec<Seat>,
    /// Replaced lists that workers hold, with their number.
    old: Vec<(u64, Arc<Lists>)>,
    /// Number of the list that is shown.
    shown: u64,
    /// Tables that are needed no more, and the number of the first list without them.
    gone: Vec<(u64, Table)>,
    /// What was found lately, each at a place that follows from its mask: most rules that follow
    /// each other have few masks.
    recent: [Seat; RECENT],
}

#[derive(Default)]
struct Group {
    number: u32,
    /// Rules, those included that a burst under way may still meet.
    rules: u32,
    /// Those of them that are to leave.
    leaving: u32,
    /// Rules that jump here, and template tables.
    jumps: u32,
    /// By number; one that is free has no rule.
    masks: Vec<Mask>,
    /// Masks with rules.
    live: usize,
    /// Their numbers.
    by_shape: HashMap<Shape, u16>,
    /// Numbers of masks that are gone, oldest first.
    free: VecDeque<(Stamp, u16)>,
    tables: ByWidth<Option<Table>>,
    /// Masks with rules, by the table they need.
    uses: ByWidth<usize>,
    pruner: Pruner,
    /// Bits of outer headers that its listed masks look at.
    probed: Vec<Selector>,
}

impl Groups {
    /// The root alone.
    pub(crate) fn new(board: Arc<Board>, seed: u64) -> Groups {
        Groups {
            board,
            seed,
            presences: Presences::new(seed),
            groups: vec![Group::default()],
            places: HashMap::from([(0, ROOT)]),
            free: VecDeque::new(),
            passed: Stamp::FIRST,
            lists: Lists::new(),
            changed: Vec::new(),
            vacated: Vec::new(),
            left: Vec::new(),
            old: Vec::new(),
            shown: 0,
            gone: Vec::new(),
            recent: [Seat::default(); RECENT],
        }
    }

    /// Memory of the tables, those included that only workers still hold; bytes.
    pub(crate) fn bytes(&self) -> usize {
        let gone: usize = self.gone.iter().map(|(_, table)| table.bytes()).sum();
        gone + self.presences.bytes() + self.groups.iter().map(Group::bytes).sum::<usize>()
    }

    /// The number of the group at a place.
    pub(crate) fn number(&self, place: u16) -> u32 {
        self.groups[usize::from(place)].number
    }

    /// The mask of a rule, with its table.
    pub(crate) fn mask(&mut self, seat: Seat) -> Seated<'_> {
        let group = &mut self.groups[usize::from(seat.group)];
        let mask = &mut group.masks[usize::from(seat.mask)];
        let width = mask.tuple.shape.selector.width();
        Seated { mask, table: width.and_then(|width| group.tables[width].as_mut()) }
    }

    /// Whether rules of a group with such a pattern stand there; false if that is not seen at once.
    #[inline]
    pub(crate) fn is_seat(&self, seat: Seat, number: u32, pattern: &Pattern) -> bool {
        let group = self.groups.get(usize::from(seat.group));
        let group = group.filter(|group| group.number == number && pattern.deep_lines().is_empty());
        let mask = group.and_then(|group| group.masks.get(usize::from(seat.mask)));
        mask.is_some_and(|mask| mask.rules > 0 && mask.suits(pattern))
    }

    /// Where rules of a group with such a pattern stand, if there are any.
    #[inline]
    pub(crate) fn find(&mut self, number: u32, pattern: &Pattern) -> Option<Seat> {
        let place = recent_at(number, pattern);
        let seat = self.recent[place];
        if self.is_seat(seat, number, pattern) {
            return Some(seat);
        }
        let group = *self.places.get(&number)?;
        let mask = *self.groups[usize::from(group)].by_shape.get(&Shape::of(pattern))?;
        self.recent[place] = Seat { group, mask };
        Some(Seat { group, mask })
    }

    /// Which words of patterns the rules of a mask pick.
    pub(crate) fn selector(&self, seat: Seat) -> &Selector {
        let group = &self.groups[usize::from(seat.group)];
        &group.masks[usize::from(seat.mask)].tuple.shape.selector
    }

    /// Whether a rule can be taken in; `known` is where it stands if its mask is there. In an open
    /// transaction the root may have too many for a while: see [`Groups::check_root`].
    #[inline]
    pub(crate) fn check_room(
        &mut self,
        number: u32,
        fate: Decision,
        known: Option<Seat>,
        open: bool,
    ) -> Result<(), Refused> {
        let place = known.map(|seat| seat.group).or_else(|| self.places.get(&number).copied());
        if place == Some(ROOT) && !open {
            self.check_limit(ROOT_RULES_MAX - 1)?;
        }
        if known.is_none() {
            self.check_masks(number, place)?;
        } else if !matches!(fate, Decision::Jump(_)) {
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

    /// Whether the root group's rules are as many as it takes.
    pub(crate) fn check_root(&self) -> Result<(), Refused> {
        self.check_limit(ROOT_RULES_MAX)
    }

    fn check_limit(&self, rules: u32) -> Result<(), Refused> {
        let root = &self.groups[usize::from(ROOT)];
        match root.rules - root.leaving > rules {
            true => Err(RuleError::GroupFull { group: 0, rules_max: ROOT_RULES_MAX }.into()),
            false => Ok(()),
        }
    }

    /// Whether there are places for `new` groups, and for the one a fate leads to.
    pub(crate) fn check_places(&mut self, new: usize, fate: Decision) -> Result<(), Refused> {
        let target = matches!(fate, Decision::Jump(to) if !self.places.contains_key(&to));
        let new = new + usize::from(target);
        if new == 0 {
            return Ok(());
        }
        self.passed = self.passed.max(self.board.domain.passed());
        let reusable = self.free.iter().take(new).filter(|(freed, _)| *freed <= self.passed);
        if new > GROUPS_MAX - self.groups.len() + reusable.count() {
            return Err(RuleError::GroupsTooMany.into());
        }
        Ok(())
    }

    /// Takes in a rule that there is room for: makes its group and mask where they are not there.
    /// `known` is where it stands if they are. When this fails nothing was made.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        number: u32,
        pattern: &Pattern,
        known: Option<Seat>,
    ) -> Result<Seat, Refused> {
        let seat = self.take_seat(number, pattern, known)?;
        self.groups[usize::from(seat.group)].rules += 1;
        Ok(seat)
    }

    /// Keeps the group and the mask of rules that may come, as [`Groups::enter`] does.
    pub(crate) fn pin(
        &mut self,
        number: u32,
        pattern: &Pattern,
        known: Option<Seat>,
    ) -> Result<Seat, Refused> {
        let seat = self.take_seat(number, pattern, known)?;
        self.groups[usize::from(seat.group)].jumps += 1;
        Ok(seat)
    }

    /// Lets go of what [`Groups::pin`] kept.
    pub(crate) fn unpin(&mut self, seat: Seat) {
        self.groups[usize::from(seat.group)].jumps -= 1;
        self.forget_rule(seat);
    }

    /// The seat of a pattern, whose mask is needed once more.
    #[inline]
    fn take_seat(
        &mut self,
        number: u32,
        pattern: &Pattern,
        known: Option<Seat>,
    ) -> Result<Seat, Refused> {
        let seat = match known {
            Some(seat) => seat,
            None => self.make_seat(number, Shape::of(pattern))?,
        };
        self.groups[usize::from(seat.group)].masks[usize::from(seat.mask)].rules += 1;
        Ok(seat)
    }

    #[cold]
    fn make_seat(&mut self, number: u32, shape: Shape) -> Result<Seat, Refused> {
        let table = self.table_for(number, &shape)?;
        let group = self.hold(number);
        self.changed.push(group);
        self.passed = self.passed.max(self.board.domain.passed());
        let (passed, families) = (self.passed, self.presences.slots_of(&shape.selector));
        let group_of = &mut self.groups[usize::from(group)];
        let mask = group_of.seat(shape, table, passed);
        group_of.masks[usize::from(mask)].families = families;
        Ok(Seat { group, mask })
    }

    /// The table that rules of a shape need and their group does not have.
    fn table_for(&self, number: u32, shape: &Shape) -> Result<Option<Table>, Refused> {
        let group = self.places.get(&number).map(|&place| &self.groups[usize::from(place)]);
        let has = |width: usize| group.is_some_and(|group| group.tables[width].is_some());
        let Some(width) = shape.selector.width().filter(|&width| !has(width)) else {
            return Ok(None);
        };
        let config = Config::growing(TABLE_CAPACITY_MAX, self.seed);
        let memory =
            |error: CreateError| Refused::from(RuleError::Memory { reason: error.to_string() });
        Table::new(width, config, &self.board.domain).map(Some).map_err(memory)
    }

    /// Makes ready for a rule that took its seat, before a packet can find it: for its key, and its
    /// order.
    #[inline]
    pub(crate) fn admit(&mut self, seat: Seat, key: &CompactKey, order: u64) {
        let mask = &self.groups[usize::from(seat.group)].masks[usize::from(seat.mask)];
        let selector = &mask.tuple.shape.selector;
        self.presences.add_replaced(selector, key, seat.group);
        if mask.families != 0 {
            self.presences.add(mask.families, selector, key, seat.group);
            self.tend_presences();
        }
        let group = &mut self.groups[usize::from(seat.group)];
        let mask = &group.masks[usize::from(seat.mask)];
        let first = mask.tuple.is_new();
        let better = mask.tuple.admit(order);
        if group.live == 1 && !first && group.pruner.is_away() {
            return;
        }
        let moved = group.pruner.admit(mask, key, order);
        // One alone has no order, and those with a slot are in that of their slots. One without
        // rules is not listed.
        let listed = || !group.pruner.has(seat.mask) && (group.live > 1 || first);
        if moved || better && listed() {
            self.changed.push(seat.group);
        }
        if group.pruner.tend(&group.masks, group.live, false) {
            self.changed.push(seat.group);
        }
    }

    /// Takes the making of filters and the growth of tables up to `steps` steps further; whether
    /// nothing is left of either.
    pub(crate) fn settle(&mut self, steps: usize) -> bool {
        let mut busy = false;
        for (place, group) in self.groups.iter_mut().enumerate() {
            for _ in 0..steps {
                if !group.pruner.is_busy(&group.masks) {
                    break;
                }
                if group.pruner.tend(&group.masks, group.live, true) {
                    self.changed.push(place as u16);
                }
            }
            busy |= group.pruner.is_busy(&group.masks);
            for table in group.tables.iter_mut().flatten() {
                busy |= !table.rest(steps);
            }
        }
        for _ in 0..steps {
            if !self.presences.is_busy() {
                break;
            }
            self.tend_presences();
        }
        self.publish();
        !busy && !self.presences.is_busy()
    }

    /// Takes what is known of families a few keys further.
    #[inline]
    fn tend_presences(&mut self) {
        if self.presences.is_busy() {
            let groups = &self.groups;
            self.changed.extend(self.presences.tend(|place| Some(&*groups.get(place)?.masks)));
        }
    }

    /// Says of all masks whose keys belong to which family, where these are others now.
    #[cold]
    fn assign_presences(&mut self) {
        self.changed.extend(self.presences.assign());
        for mask in self.groups.iter_mut().flat_map(|group| &mut group.masks) {
            mask.families = self.presences.slots_of(&mask.tuple.shape.selector);
        }
    }

    /// Says that a rule is to leave: it is not among those that live.
    pub(crate) fn retire(&mut self, seat: Seat) {
        self.groups[usize::from(seat.group)].leaving += 1;
    }

    /// Says that a rule that was to leave stays.
    pub(crate) fn revive(&mut self, seat: Seat) {
        self.groups[usize::from(seat.group)].leaving -= 1;
    }

    /// Lets a rule go that was to leave, when no packet can meet it any more.
    #[inline]
    pub(crate) fn leave(&mut self, seat: Seat) {
        let group = &mut self.groups[usize::from(seat.group)];
        (group.rules, group.leaving) = (group.rules - 1, group.leaving - 1);
        self.forget_rule(seat);
    }

    /// Gives up the mask, and the group, that nothing needs any more.
    #[inline]
    fn forget_rule(&mut self, seat: Seat) {
        let group = &mut self.groups[usize::from(seat.group)];
        let mask = &mut group.masks[usize::from(seat.mask)];
        mask.rules -= 1;
        if mask.rules == 0 {
            let table = group.vacate(seat.mask);
            self.gone.extend(table.map(|table| (self.shown + 1, table)));
            self.changed.push(seat.group);
            self.left.push(seat);
        }
        self.sweep(seat.group);
    }

    /// A fate in the words' terms; makes the group that a jump names, for which there is room.
    pub(crate) fn aim(&mut self, fate: Decision) -> Fate {
        match fate {
            Decision::Queue(queue) => Fate::Queue(queue),
            Decision::Jump(group) => {
                let place = self.hold(group);
                self.groups[usize::from(place)].jumps += 1;
                Fate::Jump(place)
            }
            Decision::Drop => Fate::Drop,
            Decision::Port(port) => Fate::Port(port),
            Decision::Rss(context) => Fate::Rss(context),
        }
    }

    /// Says that a word with this fate is gone.
    pub(crate) fn release(&mut self, fate: Fate) {
        if let Fate::Jump(place) = fate {
            self.groups[usize::from(place)].jumps -= 1;
            self.sweep(place);
        }
    }

    /// Shows workers the groups as they are, and gives back what none of them holds.
    ///
    /// To be called before the word of a rule is stored, so that whoever reads a word also finds
    /// all that was there when it was stored (see `worker`); and at the end of an operation that
    /// takes something away.
    #[inline]
    pub(crate) fn publish(&mut self) {
        let pending = [self.changed.len(), self.left.len(), self.vacated.len(), self.old.len()];
        if pending.iter().sum::<usize>() > 0 {
            self.publish_changes();
        }
    }

    fn publish_changes(&mut self) {
        if !self.changed.is_empty() {
            self.lists.resize(self.groups.len(), Arc::default());
            self.list_changed();
            let old = self.board.groups.swap(Arc::new(self.lists.clone()));
            self.old.push((self.shown, old));
            self.shown += 1;
            self.board.version.fetch_add(1, Ordering::Release);
        }
        if !self.left.is_empty() {
            let stamp = self.board.domain.stamp();
            for seat in self.left.drain(..) {
                // A group that is gone as well has taken the numbers of its masks with it.
                if let Some(group) = self.groups.get_mut(usize::from(seat.group)) {
                    group.give_back(seat.mask, stamp);
                }
            }
        }
        if !self.vacated.is_empty() {
            let stamp = self.board.domain.stamp();
            self.free.extend(self.vacated.drain(..).map(|place| (stamp, place)));
        }
        if !self.old.is_empty() {
            self.old.retain(|(_, list)| Arc::strong_count(list) > 1);
            let oldest = self.old.first().map_or(self.shown, |(number, _)| *number);
            self.gone.retain(|(without, _)| *without > oldest);
        }
    }

    /// Makes what workers are to see of the groups that changed.
    fn list_changed(&mut self) {
        let mut reassign = false;
        for &place in &self.changed {
            let group = &mut self.groups[usize::from(place)];
            let probed = group.probed();
            reassign |= self.presences.count(place, &group.probed, &probed);
            group.probed = probed;
        }
        if reassign {
            self.assign_presences();
        }
        for place in self.changed.drain(..) {
            self.lists[usize::from(place)] =
                self.groups[usize::from(place)].list(place, &self.presences);
        }
    }

    /// The place of a group; made where there is none, for which there is room.
    fn hold(&mut self, number: u32) -> u16 {
        if let Some(&place) = self.places.get(&number) {
            return place;
        }
        let group = Group { number, ..Group::default() };
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

    /// Gives a group up if nothing needs it.
    fn sweep(&mut self, place: u16) {
        let group = &self.groups[usize::from(place)];
        if place != ROOT && group.rules == 0 && group.jumps == 0 {
            self.places.remove(&group.number);
            self.vacated.push(place);
        }
    }
}

/// The place of a mask among those that were found lately.
#[inline]
fn recent_at(number: u32, pattern: &Pattern) -> usize {
    let words = pattern.mask().0.into_iter();
    let sum = words.fold(u64::from(number), |sum, word| sum.rotate_left(7).wrapping_add(word));
    (sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % RECENT
}

impl Group {
    fn bytes(&self) -> usize {
        let tables = self.tables.iter().flatten().map(Table::bytes).sum::<usize>();
        tables
            + self.masks.iter().map(|mask| mask.keys.bytes()).sum::<usize>()
            + self.pruner.bytes()
    }

    /// Gives a mask a number that no worker can have in mind.
    fn seat(&mut self, shape: Shape, table: Option<Table>, passed: Stamp) -> u16 {
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

    /// Takes out a mask without rules; the table that nothing needs any more.
    fn vacate(&mut self, number: u16) -> Option<Table> {
        let mask = std::mem::take(&mut self.masks[usize::from(number)]);
        self.by_shape.remove(&mask.tuple.shape);
        self.live -= 1;
        match self.live {
            0 => self.pruner = Pruner::default(),
            _ => self.pruner.retire(number),
        }
        let width = mask.tuple.shape.selector.width()?;
        self.uses[width] -= 1;
        if self.uses[width] == 0 { self.tables[width].take() } else { None }
    }

    /// Lets a number be used again once `stamp` has passed.
    fn give_back(&mut self, number: u16, stamp: Stamp) {
        if usize::from(number) < self.masks.len() {
            self.free.push_back((stamp, number));
        }
    }

    /// Its masks that are probed without a filter.
    fn listed(&self) -> impl Iterator<Item = &Mask> {
        let live = self.masks.iter().filter(|mask| mask.rules > 0);
        live.filter(|mask| !self.pruner.has(mask.tuple.number) && !mask.tuple.is_new())
    }

    /// The bits of outer headers that they look at, each set once.
    fn probed(&self) -> Vec<Selector> {
        let mut probed = Vec::new();
        // More are only there until the group's filter is.
        for mask in self.listed().take(PRUNE_TUPLES_MIN) {
            let selector = mask.tuple.shape.selector;
            if selector.words() > 0 && !selector.is_deep() && !probed.contains(&selector) {
                probed.push(selector);
            }
        }
        probed
    }

    /// What workers are to see of it, at this place.
    fn list(&self, place: u16, presences: &Presences) -> Arc<Listed> {
        let probed = |mask: &Mask| Probed {
            tuple: Arc::clone(&mask.tuple),
            shared: Some(&mask.tuple.shape.selector)
                .filter(|selector| self.probed.contains(selector))
                .and_then(|selector| presences.shown(place, selector)),
        };
        let mut tuples: Vec<Probed> = self.listed().map(probed).collect();
        tuples.sort_by_key(|probed| probed.tuple.best());
        let tables = self.tables.each_ref().map(|table| table.as_ref().map(Table::view));
        let (pruned, joined) = (self.pruner.pruned(), self.pruner.joined());
        Arc::new(Listed { tuples, tables, pruned, joined })
    }
}
