//! Groups and their masks: made for the first rule that needs them, gone with the last.
//!
//! Workers see all groups as one list, which is never changed, only replaced. A group is needed
//! while it has a rule or a rule jumps to it, a mask while it has a rule; the root stays.
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

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use niclab_table::Stamp;

use crate::control::Board;
use crate::error::RuleError;
use crate::limits::{GROUPS_MAX, MASKS_MAX, ROOT_RULES_MAX};
use crate::mask::Mask;
use crate::rule::{Action, Rule};
use crate::tables::{Selector, Shared};
use crate::word::Fate;

/// The tables of each group, by the group's place, best first. A place beyond the end has none.
pub(crate) type Lists = Vec<Arc<[Arc<Shared>]>>;

/// The place of the root, which is never given up.
const ROOT: u16 = 0;

/// Where a rule stands: the place of its group, and of its mask within it.
#[derive(Clone, Copy, Debug, Default)]
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
    /// What workers are to see.
    lists: Lists,
    /// Places whose tables are not shown as they are now.
    changed: Vec<u16>,
    /// Groups gone since the last call of `publish`.
    vacated: Vec<u16>,
    /// Replaced lists that workers hold.
    old: Vec<Arc<Lists>>,
    /// Masks without rules that such lists name.
    gone: Vec<Mask>,
    /// What was found last: most rules that follow each other have one mask.
    last: Seat,
}

#[derive(Default)]
struct Group {
    number: u32,
    /// Rules, those included that a burst under way may still meet.
    rules: u32,
    /// Those of them that are to leave.
    leaving: u32,
    /// Rules that jump here.
    jumps: u32,
    /// By place; one that is free has no rule.
    masks: Vec<Mask>,
}

impl Groups {
    /// The root alone.
    pub(crate) fn new(board: Arc<Board>, seed: u64) -> Groups {
        Groups {
            board,
            seed,
            groups: vec![Group::default()],
            places: HashMap::from([(0, ROOT)]),
            free: VecDeque::new(),
            passed: Stamp::FIRST,
            lists: Lists::new(),
            changed: Vec::new(),
            vacated: Vec::new(),
            old: Vec::new(),
            gone: Vec::new(),
            last: Seat::default(),
        }
    }

    /// Memory of the tables, those included that only workers still hold; bytes.
    pub(crate) fn bytes(&self) -> usize {
        let live = self.groups.iter().flat_map(|group| &group.masks);
        live.chain(&self.gone).map(Mask::bytes).sum()
    }

    /// The number of the group at a place.
    pub(crate) fn number(&self, place: u16) -> u32 {
        self.groups[usize::from(place)].number
    }

    /// The mask of a rule.
    pub(crate) fn mask(&mut self, seat: Seat) -> &mut Mask {
        &mut self.groups[usize::from(seat.group)].masks[usize::from(seat.mask)]
    }

    /// What is at a place where a mask was, if anything is.
    pub(crate) fn mask_at(&self, seat: Seat) -> Option<&Mask> {
        self.groups.get(usize::from(seat.group))?.masks.get(usize::from(seat.mask))
    }

    /// Where rules of a group with such a mask stand, if there is one.
    pub(crate) fn find(&mut self, number: u32, selector: &Selector) -> Option<Seat> {
        let wanted = |mask: &Mask| mask.rules > 0 && mask.shared.selector == *selector;
        let last = &self.groups[usize::from(self.last.group)];
        if last.number == number && last.masks.get(usize::from(self.last.mask)).is_some_and(wanted)
        {
            return Some(self.last);
        }
        let group = *self.places.get(&number)?;
        let mask = self.groups[usize::from(group)].masks.iter().position(wanted)?;
        self.last = Seat { group, mask: mask as u16 };
        Some(self.last)
    }

    /// Whether a rule can be taken in; `known` is where it stands if its mask is there. In an open
    /// transaction the root may have too many for a while: see [`Groups::check_root`].
    pub(crate) fn check_room(
        &mut self,
        rule: &Rule<'_>,
        fate: Action,
        known: Option<Seat>,
        open: bool,
    ) -> Result<(), RuleError> {
        let place = known.map(|seat| seat.group).or_else(|| self.places.get(&rule.group).copied());
        let group = place.map(|place| &self.groups[usize::from(place)]);
        if place == Some(ROOT) && !open {
            self.check_limit(ROOT_RULES_MAX - 1)?;
        }
        let full =
            |group: &Group| group.masks.iter().filter(|mask| mask.rules > 0).count() >= MASKS_MAX;
        if known.is_none() && group.is_some_and(full) {
            return Err(RuleError::MasksTooMany { group: rule.group });
        }
        self.check_places(usize::from(place.is_none()), fate)
    }

    /// Whether the root group's rules are as many as it takes.
    pub(crate) fn check_root(&self) -> Result<(), RuleError> {
        self.check_limit(ROOT_RULES_MAX)
    }

    fn check_limit(&self, rules: u32) -> Result<(), RuleError> {
        let root = &self.groups[usize::from(ROOT)];
        match root.rules - root.leaving > rules {
            true => Err(RuleError::GroupFull { group: 0, rules_max: ROOT_RULES_MAX }),
            false => Ok(()),
        }
    }

    /// Whether there are places for `new` groups, and for the one a fate leads to.
    pub(crate) fn check_places(&mut self, new: usize, fate: Action) -> Result<(), RuleError> {
        let target = matches!(fate, Action::Jump(to) if !self.places.contains_key(&to));
        let new = new + usize::from(target);
        if new == 0 {
            return Ok(());
        }
        self.passed = self.passed.max(self.board.domain.passed());
        let reusable = self.free.iter().take(new).filter(|(freed, _)| *freed <= self.passed);
        if new > GROUPS_MAX - self.groups.len() + reusable.count() {
            return Err(RuleError::GroupsTooMany);
        }
        Ok(())
    }

    /// Takes in a rule that there is room for: makes its group and mask where they are not there.
    /// `known` is where it stands if they are. When this fails nothing was made.
    pub(crate) fn enter(
        &mut self,
        number: u32,
        selector: Selector,
        known: Option<Seat>,
    ) -> Result<Seat, RuleError> {
        let seat = match known {
            Some(seat) => seat,
            None => {
                let mask = Mask::new(selector, self.seed, &self.board.domain)?;
                let group = self.hold(number);
                self.changed.push(group);
                Seat { group, mask: self.groups[usize::from(group)].seat(mask) }
            }
        };
        self.groups[usize::from(seat.group)].rules += 1;
        self.mask(seat).rules += 1;
        Ok(seat)
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
    pub(crate) fn leave(&mut self, seat: Seat) {
        let group = &mut self.groups[usize::from(seat.group)];
        (group.rules, group.leaving) = (group.rules - 1, group.leaving - 1);
        let mask = self.mask(seat);
        mask.rules -= 1;
        if mask.rules == 0 {
            let mask = std::mem::take(mask);
            self.gone.push(mask);
            self.changed.push(seat.group);
        }
        self.sweep(seat.group);
    }

    /// A fate in the words' terms; makes the group that a jump names, for which there is room.
    pub(crate) fn aim(&mut self, fate: Action) -> Fate {
        match fate {
            Action::Queue(queue) => Fate::Queue(queue),
            Action::Jump(group) => {
                let place = self.hold(group);
                self.groups[usize::from(place)].jumps += 1;
                Fate::Jump(place)
            }
            Action::Drop | Action::Count => Fate::Drop,
        }
    }

    /// Says that a word with this fate is gone.
    pub(crate) fn release(&mut self, fate: Fate) {
        if let Fate::Jump(place) = fate {
            self.groups[usize::from(place)].jumps -= 1;
            self.sweep(place);
        }
    }

    /// Says that the order of a group's tables may have changed; one alone has none.
    pub(crate) fn reorder(&mut self, seat: Seat) {
        let masks = &self.groups[usize::from(seat.group)].masks;
        if masks.iter().filter(|mask| mask.rules > 0).nth(1).is_some() {
            self.changed.push(seat.group);
        }
    }

    /// Shows workers the groups as they are, and gives back what none of them holds.
    ///
    /// To be called before the word of a rule is stored, so that whoever reads a word also finds
    /// all that was there when it was stored (see `worker`); and at the end of an operation that
    /// takes something away.
    pub(crate) fn publish(&mut self) {
        if !self.changed.is_empty() {
            self.lists.resize(self.groups.len(), Arc::default());
            for place in self.changed.drain(..).map(usize::from) {
                self.lists[place] = self.groups[place].list();
            }
            self.old.push(self.board.groups.swap(Arc::new(self.lists.clone())));
            self.board.version.fetch_add(1, Ordering::Release);
        }
        if !self.vacated.is_empty() {
            let stamp = self.board.domain.stamp();
            self.free.extend(self.vacated.drain(..).map(|place| (stamp, place)));
        }
        let held = self.old.len();
        self.old.retain(|list| Arc::strong_count(list) > 1);
        if self.old.len() < held {
            self.gone.retain(|mask| Arc::strong_count(&mask.shared) > 1);
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

impl Group {
    /// Gives a mask a place.
    fn seat(&mut self, mask: Mask) -> u16 {
        match self.masks.iter().position(|mask| mask.rules == 0) {
            Some(place) => {
                self.masks[place] = mask;
                place as u16
            }
            None => {
                self.masks.push(mask);
                self.masks.len() as u16 - 1
            }
        }
    }

    /// The tables of its masks, best first.
    fn list(&self) -> Arc<[Arc<Shared>]> {
        let live = self.masks.iter().filter(|mask| mask.rules > 0);
        let mut tables: Vec<Arc<Shared>> = live.map(|mask| Arc::clone(&mask.shared)).collect();
        tables.sort_by_key(|table| table.best());
        tables.into()
    }
}
