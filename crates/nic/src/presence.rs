//! Masks that many groups have: one look says which of the groups can hold a rule for a packet.
//!
//! A chain of groups with one mask would look a packet up in each of them. So a mask that
//! [`SHARED_GROUPS`] groups probe has a [`Presence`], with their places and the keys of them all; a
//! worker asks it once a burst and passes over the groups that cannot have a rule.
//!
//! It is made beside the packets: a few keys with each new rule of the mask, until it has those of
//! all groups, and only then do workers see it. As it only grows it is made anew when as many keys
//! have come as it has room for.
//!
//! # Why no worker misses a rule
//!
//! - *What a worker sees has every key of the groups it stands for*, and gets each new one before
//!   the rule's word is stored; one under way gets them as well, and one that is shown no more as
//!   long as somebody holds it. A key that is put back was there before, and nothing is ever taken
//!   out.
//! - *A group that asks it is one whose keys it has*: the list of a group names it if the group
//!   probes the mask, and such groups are listed anew when it is another.
//! - *What a worker knows of its burst is asked for anew* where a key came since (`Presence`), and
//!   for a packet that was changed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use niclab_packet::key::Key;
use niclab_table::{Hasher, Presence};

use crate::limits::{BURST, PRESENCE_KEYS, PRESENCES_MAX, SHARED_GROUPS};
use crate::mask::Mask;
use crate::tables::{CompactKey, Selector, bits, hash};

/// What workers see of a shared mask.
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

    fn add(&self, key: &CompactKey, place: u16) {
        self.presence.add(self.hash(key), place);
    }
}

/// One that does not have all keys yet, and the next one: its group, mask and place.
struct Making {
    shared: Arc<Shared>,
    at: (usize, usize, u32),
}

/// A shared mask.
struct Slot {
    selector: Selector,
    shown: Option<Arc<Shared>>,
    making: Option<Making>,
    /// Keys that the newest one has room for, and that came since.
    room: usize,
    taken: usize,
}

/// The shared masks of a NIC, for the control side.
pub(crate) struct Presences {
    hasher: Hasher,
    slots: [Option<Slot>; PRESENCES_MAX],
    /// Groups that probe a mask.
    uses: HashMap<Selector, u32>,
    /// Masks that are shared and have no slot, in the order in which they came to be.
    waiting: VecDeque<Selector>,
    /// What workers may hold that is shown no more.
    replaced: Vec<Arc<Shared>>,
    made: u64,
}

impl Presences {
    pub(crate) fn new(seed: u64) -> Presences {
        let (hasher, slots) = (Hasher::new(seed), Default::default());
        let (uses, waiting, replaced) = Default::default();
        Presences { hasher, slots, uses, waiting, replaced, made: 0 }
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

    /// The slot of a mask that is shared.
    pub(crate) fn slot_of(&self, selector: &Selector) -> Option<u8> {
        let has = |slot: &Option<Slot>| slot.as_ref().is_some_and(|s| s.selector == *selector);
        self.slots.iter().position(has).map(|slot| slot as u8)
    }

    /// What workers are to see of a mask.
    pub(crate) fn shown(&self, selector: &Selector) -> Option<Arc<Shared>> {
        let slot = self.slots[usize::from(self.slot_of(selector)?)].as_ref()?;
        slot.shown.clone()
    }

    /// Says that a group probes other masks than it did; true where [`Presences::assign`] has
    /// something to do.
    pub(crate) fn count(&mut self, old: &[Selector], new: &[Selector]) -> bool {
        let mut changed = false;
        for selector in new.iter().filter(|selector| !old.contains(selector)) {
            let uses = self.uses.entry(*selector).or_default();
            *uses += 1;
            let is_shared = *uses == SHARED_GROUPS;
            if is_shared && self.slot_of(selector).is_none() && !self.waiting.contains(selector) {
                self.waiting.push_back(*selector);
                changed = true;
            }
        }
        for selector in old.iter().filter(|selector| !new.contains(selector)) {
            if let Some(uses) = self.uses.get_mut(selector) {
                *uses -= 1;
                changed |= *uses == SHARED_GROUPS / 2;
                if *uses == 0 {
                    self.uses.remove(selector);
                }
            }
        }
        changed
    }

    /// Takes their slots from masks that few groups have now, and gives free ones to those that are
    /// shared, first come; the masks that workers are to see no more.
    pub(crate) fn assign(&mut self) -> Vec<Selector> {
        let uses = |selector: &Selector| self.uses.get(selector).copied().unwrap_or(0);
        let mut lost = Vec::new();
        for slot in &mut self.slots {
            if let Some(gone) = slot.take_if(|slot| uses(&slot.selector) <= SHARED_GROUPS / 2) {
                lost.extend(gone.shown.is_some().then_some(gone.selector));
                self.replaced.extend(gone.shown);
            }
        }
        self.waiting.retain(|selector| uses(selector) >= SHARED_GROUPS);
        for slot in self.slots.iter_mut().filter(|slot| slot.is_none()) {
            let (shown, making) = (None, None);
            let next = self.waiting.pop_front();
            *slot = next.map(|selector| Slot { selector, shown, making, room: 0, taken: 0 });
        }
        lost
    }

    /// Takes in the key of a rule for workers that still hold what is shown no more.
    #[inline]
    pub(crate) fn add_replaced(&mut self, selector: &Selector, key: &CompactKey, place: u16) {
        if !self.replaced.is_empty() {
            self.replaced.retain(|shared| Arc::strong_count(shared) > 1);
            let same = self.replaced.iter().filter(|shared| shared.selector == *selector);
            same.for_each(|shared| shared.add(key, place));
        }
    }

    /// Takes in the key of a rule in the group at `place`, before the rule can be found.
    #[inline]
    pub(crate) fn add(&mut self, slot: u8, key: &CompactKey, place: u16) {
        let Some(Some(slot)) = self.slots.get_mut(usize::from(slot)) else { return };
        slot.taken += 1;
        let making = slot.making.as_ref().map(|making| &making.shared);
        slot.shown.iter().chain(making).for_each(|shared| shared.add(key, place));
    }

    /// Whether one is being made, or is to be.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.slots.iter().flatten().any(|slot| slot.making.is_some() || slot.taken >= slot.room)
    }

    /// Takes the making of each a few keys further; the masks of which workers are to see another
    /// one. `masks` gives those of the groups, by place.
    pub(crate) fn tend<'a>(
        &mut self,
        masks: impl Fn(usize) -> Option<&'a [Mask]>,
    ) -> Vec<Selector> {
        let mut done = Vec::new();
        for at in 0..self.slots.len() {
            let Some(slot) = &mut self.slots[at] else { continue };
            let Some(making) = &mut slot.making else {
                if slot.taken >= slot.room {
                    self.begin(at, &masks);
                }
                continue;
            };
            if making.proceed(slot.selector, &masks) {
                let made = slot.making.take().map(|making| making.shared);
                self.replaced.extend(std::mem::replace(&mut slot.shown, made));
                done.push(slot.selector);
            }
        }
        done
    }

    #[cold]
    fn begin<'a>(&mut self, at: usize, masks: &impl Fn(usize) -> Option<&'a [Mask]>) {
        let Some(slot) = &mut self.slots[at] else { return };
        let selector = slot.selector;
        let all = (0..).map_while(masks).flatten();
        let keys: usize =
            all.filter(|mask| mask.has(&selector)).map(|mask| mask.places() as usize).sum();
        // Without memory the groups go on as they are, and nothing is tried again soon.
        (slot.room, slot.taken) = (2 * keys.max(1 << 10), 0);
        let Some(presence) = Presence::new(slot.room) else { return };
        let hasher = (self.hasher.clone(), selector.width().unwrap_or(0));
        let shared = Shared { presence, selector, hasher, slot: at, id: self.made };
        self.made += 1;
        slot.making = Some(Making { shared: Arc::new(shared), at: (0, 0, 0) });
    }
}

impl Making {
    /// Takes in a few more keys; whether it has all.
    fn proceed<'a>(
        &mut self,
        selector: Selector,
        masks: &impl Fn(usize) -> Option<&'a [Mask]>,
    ) -> bool {
        for _ in 0..PRESENCE_KEYS {
            let (group, number, place) = self.at;
            let Some(masks) = masks(group) else { return true };
            self.at = match masks.get(number) {
                None => (group + 1, 0, 0),
                Some(mask) if mask.has(&selector) && place < mask.places() => {
                    self.shared.add(&mask.key_at(place), group as u16);
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

/// What a worker knows of each shared mask.
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
