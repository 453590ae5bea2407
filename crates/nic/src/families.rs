//! Families of masks: for masks that many groups have, one look-up tells which of the groups can
//! have a rule for a packet.
//!
//! In a group chain, a packet would be looked up in every group. Masks that agree in most bits and
//! that [`FAMILY_GROUPS_MIN`] groups probe form a *family*. A family has a [`BloomFilter`] with the
//! keys of all its masks, cut to the bits that the masks have in common, and the places of their
//! groups. A worker asks the filter once a burst and skips the groups that cannot have a rule.
//!
//! The filter is built beside the packets: each new rule of its masks adds a few keys. Workers see
//! the filter when it has the keys of all groups. A filter only grows. So it is rebuilt when as
//! many keys have come as it has room for, and when a mask joins that lacks some of its bits.
//!
//! # Why no worker misses a rule
//!
//! - *A filter that workers see has every key of its groups.* A new key of a mask with the family's
//!   bits is added before the rule's word is stored. It is also added to a filter that is being
//!   built, and to a replaced filter while a worker holds it. A key that is restored was there
//!   before, and nothing is ever removed.
//! - *A group asks only a filter that has its keys.* The view of a group names the filter if the
//!   group is in the family, and the views are rebuilt when the filter is replaced.
//! - *A worker asks again* if keys came since it asked (`BloomFilter`), and for a packet that was
//!   changed.

use std::collections::HashSet;
use std::sync::Arc;

use niclab_packet::key::Key;
use niclab_table::{BloomFilter, Hasher};

use crate::limits::{
    BURST, FAMILIES_WAITING_MAX, FAMILY_FILTER_KEYS, FAMILY_FILTERS_MAX, FAMILY_GROUPS_MIN,
};
use crate::mask::Mask;
use crate::tables::{CompactKey, Selector, bits, hash};

/// The filter of a family, as workers see it.
#[derive(Debug)]
pub(crate) struct FamilyFilter {
    pub(crate) bloom: BloomFilter,
    selector: Selector,
    /// The hash function, and the width of its keys.
    hasher: (Hasher, usize),
    /// Where a worker stores the answers of this filter.
    slot: usize,
    /// Distinguishes this filter from those before it.
    id: u64,
}

impl FamilyFilter {
    #[inline]
    fn hash(&self, key: &CompactKey) -> u64 {
        hash(&self.hasher, key, 0)
    }

    /// Adds a key of a mask with the family's bits.
    fn add(&self, mask: &Selector, key: &CompactKey, place: u16) {
        self.bloom.add(self.hash(&self.selector.project(mask, key)), place);
    }
}

/// Masks that agree in most of their bits, and the groups that probe them.
struct Family {
    /// The bits that all masks have in common, including masks that have left: it never gains bits.
    selector: Selector,
    /// Places of groups, and their masks.
    members: HashSet<(u16, Selector)>,
}

impl Family {
    /// Number of groups, counted up to [`FAMILY_GROUPS_MIN`].
    fn groups(&self) -> usize {
        let mut places = [0; FAMILY_GROUPS_MIN];
        let mut count = 0;
        for &(place, _) in &self.members {
            if count == FAMILY_GROUPS_MIN {
                break;
            }
            if !places[..count].contains(&place) {
                (places[count], count) = (place, count + 1);
            }
        }
        count
    }

    /// The bits in common with another mask, if they are most of the bits of each mask.
    fn with(&self, selector: &Selector) -> Option<Selector> {
        let common = self.selector.common(selector);
        let all = self.members.iter().map(|(_, member)| member).chain([selector]);
        all.into_iter().all(|member| common.is_most_of(member)).then_some(common)
    }

    /// Whether all of its masks are the same. Then a mask with fewer bits gets a family of its own,
    /// which may become large enough.
    fn is_of_one_mask(&self) -> bool {
        self.members.iter().all(|(_, member)| *member == self.selector)
    }
}

/// A filter that does not have all keys yet, and the next key: its group, mask and place.
struct FamilyFilterBuild {
    filter: Arc<FamilyFilter>,
    at: (usize, usize, u32),
}

/// A family with a filter that workers see, or will see.
struct FamilySlot {
    family: Family,
    shown: Option<Arc<FamilyFilter>>,
    build: Option<FamilyFilterBuild>,
    /// Keys that the newest filter has room for, and keys that were added to it.
    room: usize,
    taken: usize,
    /// Whether the views of its groups have to be rebuilt.
    is_reset: bool,
}

/// The families of a NIC, for the control side.
pub(crate) struct Families {
    hasher: Hasher,
    slots: [Option<FamilySlot>; FAMILY_FILTERS_MAX],
    /// Families without a slot, oldest first.
    waiting: Vec<Family>,
    /// Replaced filters that workers may still hold.
    replaced: Vec<Arc<FamilyFilter>>,
    made: u64,
}

impl Families {
    pub(crate) fn new(seed: u64) -> Families {
        let (hasher, slots) = (Hasher::new(seed), Default::default());
        let (waiting, replaced) = Default::default();
        Families { hasher, slots, waiting, replaced, made: 0 }
    }

    /// Memory, bytes.
    pub(crate) fn bytes(&self) -> usize {
        let both = |slot: &FamilySlot| {
            let build = slot.build.as_ref().map(|build| &build.filter);
            slot.shown.iter().chain(build).map(|filter| filter.bloom.bytes()).sum::<usize>()
        };
        let replaced = self.replaced.iter().map(|filter| filter.bloom.bytes());
        self.slots.iter().flatten().map(both).chain(replaced).sum()
    }

    /// The slots of the families that a mask's keys belong to, a bit each.
    pub(crate) fn slots_of(&self, selector: &Selector) -> u8 {
        let slots = self.slots.iter().enumerate();
        let has = |slot: &FamilySlot| slot.family.selector.is_most_of(selector);
        slots.fold(0, |all, (at, slot)| all | u8::from(slot.as_ref().is_some_and(has)) << at)
    }

    /// The filter for a mask of the group at `place`.
    pub(crate) fn shown(&self, place: u16, selector: &Selector) -> Option<Arc<FamilyFilter>> {
        let mut slots = self.slots.iter().flatten();
        let slot = slots.find(|slot| slot.family.members.contains(&(place, *selector)))?;
        slot.shown.clone()
    }

    /// Updates the masks that the group at `place` probes. True if [`Families::assign`] has
    /// something to do.
    pub(crate) fn update_members(
        &mut self,
        place: u16,
        old: &[Selector],
        new: &[Selector],
    ) -> bool {
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
            return family.groups() <= FAMILY_GROUPS_MIN / 2;
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
                slot.reset(&mut self.replaced);
                return true;
            }
        }
        for family in &mut self.waiting {
            if let Some(common) = family.with(selector) {
                family.members.insert(member);
                family.selector = common;
                return family.groups() >= FAMILY_GROUPS_MIN
                    && self.slots.iter().any(Option::is_none);
            }
        }
        if self.waiting.len() < FAMILIES_WAITING_MAX {
            let (selector, members) = (*selector, HashSet::from([member]));
            self.waiting.push(Family { selector, members });
        }
        false
    }

    /// Takes slots from families of few groups, and gives free slots to families of many groups,
    /// first come, first served. Returns the places of groups whose views have to be rebuilt.
    pub(crate) fn assign(&mut self) -> Vec<u16> {
        let mut places = Vec::new();
        for at in &mut self.slots {
            let few = |slot: &mut FamilySlot| slot.family.groups() <= FAMILY_GROUPS_MIN / 2;
            if let Some(mut gone) = at.take_if(few) {
                gone.reset(&mut self.replaced);
                places.extend(gone.places());
                self.waiting.push(gone.family);
            }
            if let Some(slot) = at.as_mut().filter(|slot| slot.is_reset) {
                slot.is_reset = false;
                places.extend(slot.places());
            }
        }
        self.waiting.retain(|family| !family.members.is_empty());
        for slot in self.slots.iter_mut().filter(|slot| slot.is_none()) {
            let next = self.waiting.iter().position(|family| family.groups() >= FAMILY_GROUPS_MIN);
            let (shown, build, is_reset) = (None, None, false);
            *slot = next.map(|next| {
                let family = self.waiting.remove(next);
                FamilySlot { family, shown, build, room: 0, taken: 0, is_reset }
            });
        }
        places
    }

    /// Adds the key of a rule to replaced filters that workers still hold.
    #[inline]
    pub(crate) fn add_replaced(&mut self, selector: &Selector, key: &CompactKey, place: u16) {
        if !self.replaced.is_empty() {
            self.replaced.retain(|filter| Arc::strong_count(filter) > 1);
            let theirs = |filter: &&Arc<FamilyFilter>| filter.selector.is_most_of(selector);
            let replaced = self.replaced.iter().filter(theirs);
            replaced.for_each(|filter| filter.add(selector, key, place));
        }
    }

    /// Adds the key of a rule in the group at `place`, before a packet can match the rule. `slots`
    /// are those of [`Families::slots_of`].
    #[inline]
    pub(crate) fn add(&mut self, slots: u8, selector: &Selector, key: &CompactKey, place: u16) {
        for at in bits(slots.into()) {
            let Some(Some(slot)) = self.slots.get_mut(at) else { continue };
            slot.taken += 1;
            let build = slot.build.as_ref().map(|build| &build.filter);
            slot.shown.iter().chain(build).for_each(|filter| filter.add(selector, key, place));
        }
    }

    /// Whether a filter is being built, or has to be.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.slots.iter().flatten().any(|slot| slot.build.is_some() || slot.taken >= slot.room)
    }

    /// Adds a few keys to each filter that is being built. Returns the places of groups whose views
    /// have to be rebuilt. `masks` returns the masks of the group at a place.
    pub(crate) fn advance<'a>(&mut self, masks: impl Fn(usize) -> Option<&'a [Mask]>) -> Vec<u16> {
        let mut places = Vec::new();
        for at in 0..self.slots.len() {
            let Some(slot) = &mut self.slots[at] else { continue };
            let Some(build) = &mut slot.build else {
                if slot.taken >= slot.room {
                    self.begin(at, &masks);
                }
                continue;
            };
            if build.proceed(&masks) {
                let made = slot.build.take().map(|build| build.filter);
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
            .filter(|mask| mask.shares_most_bits(&selector))
            .map(|mask| mask.keys.places() as usize)
            .sum();
        // Without memory the groups go on without a filter; the next try comes much later.
        (slot.room, slot.taken) = (2 * keys.max(1 << 10), 0);
        let Some(bloom) = BloomFilter::new(slot.room) else { return };
        let hasher = (self.hasher.clone(), selector.width().unwrap_or(0));
        let filter = FamilyFilter { bloom, selector, hasher, slot: at, id: self.made };
        self.made += 1;
        slot.build = Some(FamilyFilterBuild { filter: Arc::new(filter), at: (0, 0, 0) });
    }
}

impl FamilySlot {
    /// Drops the filter, whose bits are out of date.
    fn reset(&mut self, replaced: &mut Vec<Arc<FamilyFilter>>) {
        replaced.extend(self.shown.take());
        (self.build, self.room, self.taken, self.is_reset) = (None, 0, 0, true);
    }

    /// The places of its groups.
    fn places(&self) -> impl Iterator<Item = u16> {
        self.family.members.iter().map(|(place, _)| *place)
    }
}

impl FamilyFilterBuild {
    fn takes(&self, mask: &Mask) -> bool {
        mask.shares_most_bits(&self.filter.selector)
    }

    /// Adds a few more keys; true if the filter has all of them.
    fn proceed<'a>(&mut self, masks: &impl Fn(usize) -> Option<&'a [Mask]>) -> bool {
        for _ in 0..FAMILY_FILTER_KEYS {
            let (group, number, place) = self.at;
            let Some(masks) = masks(group) else { return true };
            self.at = match masks.get(number) {
                None => (group + 1, 0, 0),
                Some(mask) if self.takes(mask) && place < mask.keys.places() => {
                    let selector = &mask.tuple.shape.selector;
                    self.filter.add(selector, &mask.keys.get(place), group as u16);
                    (group, number, place + 1)
                }
                Some(_) => (group, number + 1, 0),
            };
        }
        false
    }
}

/// Which groups can have a rule for the packets of a worker's burst.
#[derive(Clone, Copy, Default)]
pub(crate) struct CandidateGroups {
    /// The filter that answered, and its version.
    id: u64,
    version: u64,
    /// Packets that the filter was asked for.
    known: u64,
    /// Packets that the group at each place can have a rule for.
    packets: [u64; BloomFilter::PLACES as usize],
}

/// A worker's answers, by slot.
pub(crate) type AllCandidateGroups = [CandidateGroups; FAMILY_FILTERS_MAX];

impl CandidateGroups {
    /// Discards the answers for some packets.
    #[inline]
    pub(crate) fn forget(&mut self, packets: u64) {
        self.known &= !packets;
    }
}

impl FamilyFilter {
    /// Asks the filter for the packets in `wanted` without an answer; returns these packets.
    #[inline]
    pub(crate) fn look(
        &self,
        candidates: &mut AllCandidateGroups,
        outer: &[Key; BURST],
        wanted: u64,
    ) -> u64 {
        let candidates = &mut candidates[self.slot % FAMILY_FILTERS_MAX];
        let version = self.bloom.version();
        if (candidates.id, candidates.version) != (self.id, version) {
            (candidates.id, candidates.version, candidates.known) = (self.id, version, 0);
        }
        let new = wanted & !candidates.known;
        if new != 0 {
            self.look_up(candidates, outer, new);
        }
        new
    }

    /// Packets, of those with an answer, that the group at `place` can have a rule for.
    #[inline]
    pub(crate) fn may_have(&self, candidates: &AllCandidateGroups, place: u16) -> u64 {
        candidates[self.slot % FAMILY_FILTERS_MAX].packets[usize::from(place % BloomFilter::PLACES)]
    }

    #[inline(never)]
    fn look_up(&self, candidates: &mut CandidateGroups, outer: &[Key; BURST], new: u64) {
        candidates.packets.iter_mut().for_each(|packets| *packets &= !new);
        let mut hashes = [0; BURST];
        for i in bits(new) {
            hashes[i] = self.hash(&self.selector.pick_key(&outer[i]));
            self.bloom.prefetch(hashes[i]);
        }
        for i in bits(new) {
            let places = self.bloom.places(hashes[i]);
            bits(places.into()).for_each(|place| candidates.packets[place] |= 1 << i);
        }
        candidates.known |= new;
    }
}

#[cfg(test)]
mod tests {
    use niclab_packet::key::field;

    use super::*;
    use crate::rule::Pattern;

    /// The first bits of a destination address.
    fn prefix(length: u32) -> Selector {
        let whole = Pattern::any().dst([10, 0, 0, 1].into());
        let mut mask = whole.mask().to_bytes();
        let kept = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        mask[field::DST_HEAD].copy_from_slice(&kept.to_be_bytes());
        Selector::new(&Pattern::masked(whole.value(), &Key::from_bytes(&mask)))
    }

    /// Groups from place 1 on that probe these masks. True if slots have to be assigned.
    fn probe(families: &mut Families, masks: &[Selector]) -> bool {
        let places = (1..).zip(masks);
        places.fold(false, |any, (place, mask)| any | families.update_members(place, &[], &[*mask]))
    }

    fn selectors(families: &Families) -> Vec<Selector> {
        families.slots.iter().flatten().map(|slot| slot.family.selector).collect()
    }

    #[test]
    fn masks_of_four_groups_that_agree_in_most_bits_share_what_they_have_in_common() {
        let mut families = Families::new(1);
        assert!(!probe(&mut families, &[prefix(32), prefix(30), prefix(31)]));
        assert!(families.update_members(4, &[], &[prefix(29)]));
        assert_eq!(families.assign(), [0; 0]);
        assert_eq!(selectors(&families), [prefix(29)]);
        assert_eq!([32, 29, 28].map(|bits| families.slots_of(&prefix(bits))), [1, 1, 0]);
        // One more, of fewer bits; and one that would leave too few.
        assert!(families.update_members(5, &[], &[prefix(25)]));
        assert_eq!(families.assign().len(), 5, "all are listed anew");
        assert!(!families.update_members(6, &[], &[prefix(8)]));
        assert_eq!(selectors(&families), [prefix(25)]);
        // Until two groups are left.
        assert!(
            !families.update_members(1, &[prefix(32)], &[])
                && !families.update_members(2, &[prefix(30)], &[])
        );
        assert!(families.update_members(3, &[prefix(31)], &[]));
        assert_eq!(families.assign().len(), 2);
        assert!(selectors(&families).is_empty());
    }

    #[test]
    fn a_mask_of_many_groups_keeps_all_of_its_bits() {
        let mut families = Families::new(1);
        assert!(probe(&mut families, &[prefix(32); 4]));
        families.assign();
        for place in 5..9 {
            families.update_members(place, &[], &[prefix(30)]);
        }
        families.assign();
        assert_eq!(selectors(&families), [prefix(32), prefix(30)]);
        assert_eq!(families.slots_of(&prefix(32)), 3, "its keys belong to both");
    }

    #[test]
    fn one_group_with_many_masks_has_no_family() {
        let mut families = Families::new(1);
        assert!(!families.update_members(1, &[], &[32, 31, 30, 29].map(prefix)));
        families.assign();
        assert!(selectors(&families).is_empty());
    }

    #[test]
    fn a_projected_key_has_the_bits_of_the_smaller_mask() {
        let pattern = Pattern::any().dst([10, 1, 2, 255].into()).dport(7);
        let from = Selector::new(&pattern);
        let to = from.common(&prefix(28));
        let line = pattern.value();
        assert_eq!(*to.project(&from, &from.pick_key(line)), *to.pick_key(line));
        assert_ne!(*to.pick_key(line), *from.pick_key(line));
    }
}
