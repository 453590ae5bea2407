//! Masks that many groups have, or nearly: one look says which of the groups can hold a rule for a
//! packet.
//!
//! A chain of groups would look a packet up in each of them. So masks that agree in most bits and
//! that [`SHARED_GROUPS`] groups probe are a *family*, and it has a [`Presence`]: the keys of them
//! all, as far as the bits go that its masks have in common, with the places of their groups. A
//! worker asks it once a burst and passes over the groups that cannot have a rule.
//!
//! It is made beside the packets: a few keys with each new rule of its masks, until it has those of
//! all groups, and only then do workers see it. As it only grows it is made anew when as many keys
//! have come as it has room for, and when a mask joins that does not have all of its bits.
//!
//! # Why no worker misses a rule
//!
//! - *What a worker sees has every key of the groups it stands for*: each mask that has its bits
//!   gives it each new key before the rule's word is stored; one under way gets them as well, and
//!   one that is shown no more as long as somebody holds it. A key that is put back was there
//!   before, and nothing is ever taken out.
//! - *A group that asks it is one whose keys it has*: the list of a group names it where the group
//!   is of the family, and such groups are listed anew when it is another.
//! - *What a worker knows of its burst is asked for anew* where a key came since (`Presence`), and
//!   for a packet that was changed.

use std::collections::HashSet;
use std::sync::Arc;

use niclab_packet::key::Key;
use niclab_table::{Hasher, Presence};

use crate::limits::{BURST, FAMILIES_MAX, PRESENCE_KEYS, PRESENCES_MAX, SHARED_GROUPS};
use crate::mask::Mask;
use crate::tables::{CompactKey, Selector, bits, hash};

/// What workers see of a family.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) presence: Presence,
    selector: Selector,
    /// The function of its hashes, and the width of its keys.
    hasher: (Hasher, usize),
    /// Where a worker keeps what it knows.
    slot: usize,
    /// Told apart from those that were there before.
    id: u64,
}

impl Shared {
    #[inline]
    fn hash(&self, key: &CompactKey) -> u64 {
        hash(&self.hasher, key, 0)
    }

    /// Takes in a key of a mask that has its bits.
    fn add(&self, mask: &Selector, key: &CompactKey, place: u16) {
        self.presence.add(self.hash(&self.selector.narrow(mask, key)), place);
    }
}

/// Masks that agree in most of their bits, each in a group that probes it.
struct Family {
    /// The bits that all masks that it ever had have in common: it does not widen again.
    selector: Selector,
    /// Places of groups, and their masks.
    members: HashSet<(u16, Selector)>,
}

impl Family {
    /// How many groups it has, counted up to [`SHARED_GROUPS`].
    fn groups(&self) -> usize {
        let mut places = [0; SHARED_GROUPS];
        let mut count = 0;
        for &(place, _) in &self.members {
            if count == SHARED_GROUPS {
                break;
            }
            if !places[..count].contains(&place) {
                (places[count], count) = (place, count + 1);
            }
        }
        count
    }

    /// The bits that it would have in common with another mask, if they are most of each mask's.
    fn with(&self, selector: &Selector) -> Option<Selector> {
        let common = self.selector.common(selector);
        let all = self.members.iter().map(|(_, member)| member).chain([selector]);
        all.into_iter().all(|member| common.is_most_of(member)).then_some(common)
    }

    /// Whether all of its masks are the same: then another mask of fewer bits is to have a family
    /// of its own, for which it may have groups enough.
    fn is_of_one_mask(&self) -> bool {
        self.members.iter().all(|(_, member)| *member == self.selector)
    }
}

/// One that does not have all keys yet, and the next one: its group, mask and place.
struct Making {
    shared: Arc<Shared>,
    at: (usize, usize, u32),
}

/// A family that workers see, or are to see.
struct Slot {
    family: Family,
    shown: Option<Arc<Shared>>,
    making: Option<Making>,
    /// Keys that the newest one has room for, and that came since.
    room: usize,
    taken: usize,
    /// Whether its groups are to be listed anew.
    renewed: bool,
}

/// The families of a NIC, for the control side.
pub(crate) struct Presences {
    hasher: Hasher,
    slots: [Option<Slot>; PRESENCES_MAX],
    /// Families without a slot, in the order in which they came to be.
    waiting: Vec<Family>,
    /// What workers may hold that is shown no more.
    replaced: Vec<Arc<Shared>>,
    made: u64,
}

impl Presences {
    pub(crate) fn new(seed: u64) -> Presences {
        let (hasher, slots) = (Hasher::new(seed), Default::default());
        let (waiting, replaced) = Default::default();
        Presences { hasher, slots, waiting, replaced, made: 0 }
    }

    /// Memory, bytes.
    pub(crate) fn bytes(&self) -> usize {
        let both = |slot: &Slot| {
            let making = slot.making.as_ref().map(|making| &making.shared);
            slot.shown.iter().chain(making).map(|shared| shared.presence.bytes()).sum::<usize>()
        };
        let replaced = self.replaced.iter().map(|shared| shared.presence.bytes());
        self.slots.iter().flatten().map(both).chain(replaced).sum()
    }

    /// The slots that the keys of a mask belong to, a bit each.
    pub(crate) fn slots_of(&self, selector: &Selector) -> u8 {
        let slots = self.slots.iter().enumerate();
        let has = |slot: &Slot| slot.family.selector.is_most_of(selector);
        slots.fold(0, |all, (at, slot)| all | u8::from(slot.as_ref().is_some_and(has)) << at)
    }

    /// What workers are to see of a mask in the group at `place`.
    pub(crate) fn shown(&self, place: u16, selector: &Selector) -> Option<Arc<Shared>> {
        let mut slots = self.slots.iter().flatten();
        let slot = slots.find(|slot| slot.family.members.contains(&(place, *selector)))?;
        slot.shown.clone()
    }

    /// Says that the group at `place` probes other masks than it did; true where
    /// [`Presences::assign`] has something to do.
    pub(crate) fn count(&mut self, place: u16, old: &[Selector], new: &[Selector]) -> bool {
        let mut changed = false;
        for selector in old.iter().filter(|selector| !new.contains(selector)) {
            changed |= self.leave(&(place, *selector));
        }
        for selector in new.iter().filter(|selector| !old.contains(selector)) {
            changed |= self.join((place, *selector));
        }
        changed
    }

    fn leave(&mut self, member: &(u16, Selector)) -> bool {
        let mut shown = self.slots.iter_mut().flatten().map(|slot| &mut slot.family);
        if let Some(family) = shown.find_map(|f| f.members.remove(member).then_some(f)) {
            return family.groups() <= SHARED_GROUPS / 2;
        }
        if let Some(at) = self.waiting.iter_mut().position(|f| f.members.remove(member))
            && self.waiting[at].members.is_empty()
        {
            self.waiting.remove(at);
        }
        false
    }

    fn join(&mut self, member: (u16, Selector)) -> bool {
        let selector = &member.1;
        let mut slots = self.slots.iter_mut().flatten();
        if let Some(slot) = slots.find(|slot| slot.family.selector.is_most_of(selector)) {
            slot.family.members.insert(member);
            return false;
        }
        let mixed = self.slots.iter_mut().flatten().filter(|slot| !slot.family.is_of_one_mask());
        for slot in mixed {
            if let Some(common) = slot.family.with(selector) {
                slot.family.members.insert(member);
                slot.family.selector = common;
                slot.renew(&mut self.replaced);
                return true;
            }
        }
        for family in &mut self.waiting {
            if let Some(common) = family.with(selector) {
                family.members.insert(member);
                family.selector = common;
                return family.groups() >= SHARED_GROUPS && self.slots.iter().any(Option::is_none);
            }
        }
        if self.waiting.len() < FAMILIES_MAX {
            let (selector, members) = (*selector, HashSet::from([member]));
            self.waiting.push(Family { selector, members });
        }
        false
    }

    /// Takes their slots from families of few groups, and gives free ones to those of many, first
    /// come; the places of groups that are to be listed anew.
    pub(crate) fn assign(&mut self) -> Vec<u16> {
        let mut places = Vec::new();
        for at in &mut self.slots {
            let few = |slot: &mut Slot| slot.family.groups() <= SHARED_GROUPS / 2;
            if let Some(mut gone) = at.take_if(few) {
                gone.renew(&mut self.replaced);
                places.extend(gone.places());
                self.waiting.push(gone.family);
            }
            if let Some(slot) = at.as_mut().filter(|slot| slot.renewed) {
                slot.renewed = false;
                places.extend(slot.places());
            }
        }
        self.waiting.retain(|family| !family.members.is_empty());
        for slot in self.slots.iter_mut().filter(|slot| slot.is_none()) {
            let next = self.waiting.iter().position(|family| family.groups() >= SHARED_GROUPS);
            let (shown, making, renewed) = (None, None, false);
            *slot = next.map(|next| {
                let family = self.waiting.remove(next);
                Slot { family, shown, making, room: 0, taken: 0, renewed }
            });
        }
        places
    }

    /// Takes in the key of a rule for workers that still hold what is shown no more.
    #[inline]
    pub(crate) fn add_replaced(&mut self, selector: &Selector, key: &CompactKey, place: u16) {
        if !self.replaced.is_empty() {
            self.replaced.retain(|shared| Arc::strong_count(shared) > 1);
            let theirs = |shared: &&Arc<Shared>| shared.selector.is_most_of(selector);
            let replaced = self.replaced.iter().filter(theirs);
            replaced.for_each(|shared| shared.add(selector, key, place));
        }
    }

    /// Takes in the key of a rule in the group at `place`, before the rule can be found; `slots` as
    /// [`Presences::slots_of`] says.
    #[inline]
    pub(crate) fn add(&mut self, slots: u8, selector: &Selector, key: &CompactKey, place: u16) {
        for at in bits(slots.into()) {
            let Some(Some(slot)) = self.slots.get_mut(at) else { continue };
            slot.taken += 1;
            let making = slot.making.as_ref().map(|making| &making.shared);
            slot.shown.iter().chain(making).for_each(|shared| shared.add(selector, key, place));
        }
    }

    /// Whether one is being made, or is to be.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.slots.iter().flatten().any(|slot| slot.making.is_some() || slot.taken >= slot.room)
    }

    /// Takes the making of each a few keys further; the places of groups that are to be listed
    /// anew. `masks` gives those of the groups, by place.
    pub(crate) fn tend<'a>(&mut self, masks: impl Fn(usize) -> Option<&'a [Mask]>) -> Vec<u16> {
        let mut places = Vec::new();
        for at in 0..self.slots.len() {
            let Some(slot) = &mut self.slots[at] else { continue };
            let Some(making) = &mut slot.making else {
                if slot.taken >= slot.room {
                    self.begin(at, &masks);
                }
                continue;
            };
            if making.proceed(&masks) {
                let made = slot.making.take().map(|making| making.shared);
                self.replaced.extend(std::mem::replace(&mut slot.shown, made));
                places.extend(slot.places());
            }
        }
        places
    }

    #[cold]
    fn begin<'a>(&mut self, at: usize, masks: &impl Fn(usize) -> Option<&'a [Mask]>) {
        let Some(slot) = &mut self.slots[at] else { return };
        let selector = slot.family.selector;
        let all = (0..).map_while(masks).flatten();
        let keys: usize = all
            .filter(|mask| mask.has_most_in(&selector))
            .map(|mask| mask.keys.places() as usize)
            .sum();
        // Without memory the groups go on as they are, and nothing is tried again soon.
        (slot.room, slot.taken) = (2 * keys.max(1 << 10), 0);
        let Some(presence) = Presence::new(slot.room) else { return };
        let hasher = (self.hasher.clone(), selector.width().unwrap_or(0));
        let shared = Shared { presence, selector, hasher, slot: at, id: self.made };
        self.made += 1;
        slot.making = Some(Making { shared: Arc::new(shared), at: (0, 0, 0) });
    }
}

impl Slot {
    /// Lets go of what it has, which is of other bits.
    fn renew(&mut self, replaced: &mut Vec<Arc<Shared>>) {
        replaced.extend(self.shown.take());
        (self.making, self.room, self.taken, self.renewed) = (None, 0, 0, true);
    }

    /// The places of its groups.
    fn places(&self) -> impl Iterator<Item = u16> {
        self.family.members.iter().map(|(place, _)| *place)
    }
}

impl Making {
    fn takes(&self, mask: &Mask) -> bool {
        mask.has_most_in(&self.shared.selector)
    }

    /// Takes in a few more keys; whether it has all.
    fn proceed<'a>(&mut self, masks: &impl Fn(usize) -> Option<&'a [Mask]>) -> bool {
        for _ in 0..PRESENCE_KEYS {
            let (group, number, place) = self.at;
            let Some(masks) = masks(group) else { return true };
            self.at = match masks.get(number) {
                None => (group + 1, 0, 0),
                Some(mask) if self.takes(mask) && place < mask.keys.places() => {
                    let selector = &mask.tuple.shape.selector;
                    self.shared.add(selector, &mask.keys.get(place), group as u16);
                    (group, number, place + 1)
                }
                Some(_) => (group, number + 1, 0),
            };
        }
        false
    }
}

/// What a worker knows of the packets of its burst: which groups can have a rule for them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    /// Whose presence it is, and of which time.
    id: u64,
    version: u64,
    /// Packets that were asked for.
    known: u64,
    /// Of each place, which of them it can have a rule for.
    packets: [u64; Presence::PLACES as usize],
}

/// What a worker knows by each family.
pub(crate) type AllSeen = [Seen; PRESENCES_MAX];

impl Seen {
    /// Forgets some packets.
    #[inline]
    pub(crate) fn forget(&mut self, packets: u64) {
        self.known &= !packets;
    }
}

impl Shared {
    /// Asks for those packets in `wanted` that are not known; which these are.
    #[inline]
    pub(crate) fn look(&self, seen: &mut AllSeen, outer: &[Key; BURST], wanted: u64) -> u64 {
        let seen = &mut seen[self.slot % PRESENCES_MAX];
        let version = self.presence.version();
        if (seen.id, seen.version) != (self.id, version) {
            (seen.id, seen.version, seen.known) = (self.id, version, 0);
        }
        let new = wanted & !seen.known;
        if new != 0 {
            self.look_up(seen, outer, new);
        }
        new
    }

    /// Which of the packets that are known the group at `place` can have a rule for.
    #[inline]
    pub(crate) fn may_have(&self, seen: &AllSeen, place: u16) -> u64 {
        seen[self.slot % PRESENCES_MAX].packets[usize::from(place % Presence::PLACES)]
    }

    #[inline(never)]
    fn look_up(&self, seen: &mut Seen, outer: &[Key; BURST], new: u64) {
        seen.packets.iter_mut().for_each(|packets| *packets &= !new);
        let mut hashes = [0; BURST];
        for i in bits(new) {
            hashes[i] = self.hash(&self.selector.pick_key(&outer[i]));
            self.presence.prefetch(hashes[i]);
        }
        for i in bits(new) {
            let places = self.presence.places(hashes[i]);
            bits(places.into()).for_each(|place| seen.packets[place] |= 1 << i);
        }
        seen.known |= new;
    }
}

#[cfg(test)]
mod tests {
    use niclab_packet::key::field;

    use super::*;
    use crate::rule::Pattern;

    /// The first bits of a destination.
    fn prefix(length: u32) -> Selector {
        let whole = Pattern::any().dst([10, 0, 0, 1].into());
        let mut mask = whole.mask().to_bytes();
        let kept = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        mask[field::DST_HEAD].copy_from_slice(&kept.to_be_bytes());
        Selector::new(&Pattern::masked(whole.value(), &Key::from_bytes(&mask)))
    }

    /// Groups that probe these masks, from place 1 on; true where slots are to be given.
    fn probe(presences: &mut Presences, masks: &[Selector]) -> bool {
        let places = (1..).zip(masks);
        places.fold(false, |any, (place, mask)| any | presences.count(place, &[], &[*mask]))
    }

    fn selectors(presences: &Presences) -> Vec<Selector> {
        presences.slots.iter().flatten().map(|slot| slot.family.selector).collect()
    }

    #[test]
    fn masks_of_four_groups_that_agree_in_most_bits_share_what_they_have_in_common() {
        let mut presences = Presences::new(1);
        assert!(!probe(&mut presences, &[prefix(32), prefix(30), prefix(31)]));
        assert!(presences.count(4, &[], &[prefix(29)]));
        assert_eq!(presences.assign(), [0; 0]);
        assert_eq!(selectors(&presences), [prefix(29)]);
        assert_eq!([32, 29, 28].map(|bits| presences.slots_of(&prefix(bits))), [1, 1, 0]);
        // One more, of fewer bits; and one that would leave too few.
        assert!(presences.count(5, &[], &[prefix(25)]));
        assert_eq!(presences.assign().len(), 5, "all are listed anew");
        assert!(!presences.count(6, &[], &[prefix(8)]));
        assert_eq!(selectors(&presences), [prefix(25)]);
        // Until two groups are left.
        assert!(!presences.count(1, &[prefix(32)], &[]) && !presences.count(2, &[prefix(30)], &[]));
        assert!(presences.count(3, &[prefix(31)], &[]));
        assert_eq!(presences.assign().len(), 2);
        assert!(selectors(&presences).is_empty());
    }

    #[test]
    fn a_mask_of_many_groups_keeps_all_of_its_bits() {
        let mut presences = Presences::new(1);
        assert!(probe(&mut presences, &[prefix(32); 4]));
        presences.assign();
        for place in 5..9 {
            presences.count(place, &[], &[prefix(30)]);
        }
        presences.assign();
        assert_eq!(selectors(&presences), [prefix(32), prefix(30)]);
        assert_eq!(presences.slots_of(&prefix(32)), 3, "its keys belong to both");
    }

    #[test]
    fn one_group_with_many_masks_has_no_family() {
        let mut presences = Presences::new(1);
        assert!(!presences.count(1, &[], &[32, 31, 30, 29].map(prefix)));
        presences.assign();
        assert!(selectors(&presences).is_empty());
    }

    #[test]
    fn a_narrowed_key_is_what_the_fewer_bits_pick() {
        let pattern = Pattern::any().dst([10, 1, 2, 255].into()).dport(7);
        let from = Selector::new(&pattern);
        let to = from.common(&prefix(28));
        let line = pattern.value();
        assert_eq!(*to.narrow(&from, &from.pick_key(line)), *to.pick_key(line));
        assert_ne!(*to.pick_key(line), *from.pick_key(line));
    }
}
