//! Which rule of a group acts on each packet of a burst.
//!
//! The tuples of the group's list are probed one after the other, all packets at once. Then, where
//! the group has a filter, each packet is probed in the tuples that the filter names for it, first
//! in the first of them, all packets at once, until no later one can hold a better rule. The filter
//! knows the rules alone: no traffic makes a packet cost more than the rules let it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrayvec::ArrayVec;
use niclab_table::{Burst, Generation, Joined, Participant, Presence, is_reference, prefetch};

use crate::control::Board;
use crate::groups::{Listed, Lists, Probed};
use crate::limits::BURST;
use crate::lines::Lines;
use crate::memory::{Desc, Region};
use crate::presence::Shared;
use crate::pruner::{Pruned, Slot};
use crate::tables::{Keys, Selector, View, bits};
use crate::tuple::{FIELDS, Tuple, ports_of, values_of};
use crate::word::{Fate, Word};

/// What was found for the packets of a burst.
pub(crate) struct Found<'a> {
    /// A bit for each packet with a rule.
    pub(crate) mask: u64,
    /// The words of the rules.
    pub(crate) words: &'a mut [u64; BURST],
    /// Packets that all have the rule of the empty mask, and have no word.
    rest: u64,
    /// That rule's word.
    word: u64,
}

/// Which packets have which rule.
#[derive(Default)]
pub(crate) struct Matched {
    /// A bit for each packet with a rule whose word was written.
    pub(crate) found: u64,
    /// A bit for each packet with the rule that is left where no other one matches.
    pub(crate) rest: u64,
    /// The word of that rule.
    pub(crate) word: u64,
}

/// A filter as packets of a burst go through it.
#[derive(Clone, Copy)]
struct Slots<'a> {
    pruned: &'a Pruned,
    joined: Option<&'a Joined<{ FIELDS.len() }>>,
    /// Slots there are.
    used: usize,
}

/// Packets on their way through the slots of a filter, each a *run*. It is kept from burst to burst
/// for its memory alone.
#[derive(Default)]
pub(crate) struct Course {
    /// By run: values, and slots that are left.
    burst: Burst<{ FIELDS.len() }>,
    packets: Packets,
    /// Runs that are not at their end.
    open: u64,
    /// Probes to come.
    keys: Keys,
}

/// The packet of each run, and the order of the rule found so far, the worst there is for none.
struct Packets {
    places: [u8; BURST],
    orders: [u64; BURST],
}

impl Default for Packets {
    fn default() -> Packets {
        Packets { places: [0; BURST], orders: [u64::MAX; BURST] }
    }
}

impl Course {
    /// Takes in the packets in `open`, as if no rule had been found for them.
    #[inline]
    fn begin(&mut self, slots: Slots<'_>, lines: &Lines, open: u64) {
        let mut count = 0;
        for i in bits(open) {
            self.burst.set(count, values_of(&lines.outer()[i]));
            self.packets.places[count % BURST] = i as u8;
            count += 1;
        }
        slots.pruned.reader.find_first(slots.joined, slots.used, &mut self.burst, count);
        self.packets.orders = [u64::MAX; BURST];
        self.open = u64::MAX.checked_shr((BURST - count) as u32).unwrap_or(0);
    }

    /// The next slot that may have a better rule than was found for a run.
    #[inline]
    fn next<'a>(&mut self, slots: Slots<'a>, run: usize) -> Option<&'a Slot> {
        let (pruned, order) = (slots.pruned, self.packets.orders[run % BURST]);
        loop {
            let (word, bits) = self.burst.left(run);
            // The first that is left, or that the next word may have.
            let slot = (64 * word as usize).wrapping_add(bits.trailing_zeros() as usize);
            if slot >= slots.used || bits == 0 && self.burst.is_last(run) {
                return None;
            }
            if order < u64::MAX && pruned.rest(slot) >= order {
                return None;
            }
            if bits == 0 {
                pruned.reader.next_word(slots.joined, &mut self.burst, run, slots.used);
                continue;
            }
            self.burst.drop_first(run);
            let Some(slot) = pruned.better(slot, order) else { continue };
            // A filter that ran out of room names slots for more values than they have.
            if slot.shape.ranges.hold([2, 3].map(|field| self.burst.value(run, field))) {
                return Some(slot);
            }
        }
    }

    /// Closes a run.
    #[inline]
    fn close(&mut self, run: usize) {
        self.open &= !(1 << run);
    }

    /// Closes a run that has no slot left.
    #[inline]
    fn close_last(&mut self, run: usize) {
        let is_done = self.burst.is_last(run) && self.burst.left(run).1 == 0;
        self.open &= !(u64::from(is_done) << run);
    }

    /// Closes a run whose rule no slot that is left can better.
    #[inline]
    fn close_settled(&mut self, slots: Slots<'_>, run: usize, order: u64) {
        let (word, bits) = self.burst.left(run);
        let slot = (64 * word as usize).wrapping_add(bits.trailing_zeros() as usize);
        let is_settled = slots.pruned.rest(slot) >= order;
        self.open &= !(u64::from(is_settled) << run);
    }

    #[inline]
    fn packet(&self, run: usize) -> usize {
        usize::from(self.packets.places[run % BURST]) % BURST
    }
}

/// A worker's burst, for one group.
pub(crate) struct Matcher<'a> {
    pub(crate) board: &'a Board,
    pub(crate) participant: &'a Participant,
    pub(crate) generation: Generation,
    pub(crate) lines: &'a mut Lines,
    pub(crate) course: &'a mut Course,
    pub(crate) region: &'a Region,
    pub(crate) burst: &'a [Desc],
    /// All groups, and the place of this one.
    pub(crate) groups: &'a Lists,
    pub(crate) place: u16,
}

impl Matcher<'_> {
    /// Matches the packets in `wanted` against one group; the word of the best rule of a packet is
    /// in `words`, where the packet does not have the same as all the rest.
    #[inline]
    pub(crate) fn match_group(
        &mut self,
        group: &Listed,
        wanted: u64,
        words: &mut [u64; BURST],
    ) -> Matched {
        let mut found = Found { mask: 0, words, rest: 0, word: 0 };
        let open = self.probe_all(group, wanted, &mut found);
        if let (Some(pruned), true) = (&group.pruned, open != 0) {
            self.probe_pruned(group, pruned, open, &mut found);
        }
        Matched { found: found.mask, rest: found.rest, word: found.word }
    }

    /// Probes the tuples of the list; which packets may still find a better rule by the filter.
    #[inline]
    fn probe_all(&mut self, group: &Listed, wanted: u64, found: &mut Found<'_>) -> u64 {
        let beyond = group.pruned.as_ref().map_or(u64::MAX, |pruned| pruned.rest(0));
        let (mut open, mut worst) = (wanted, 0);
        for (at, Probed { tuple, shared }) in group.tuples.iter().enumerate() {
            if open == 0 {
                break;
            }
            let is_last = at + 1 == group.tuples.len() && group.pruned.is_none();
            let mut values = [0; BURST];
            let hits = match tuple.shape.selector.width() {
                None => {
                    // It may have bounds.
                    let admitted = match tuple.shape.selector.is_deep() {
                        true => self.admitted_by(&tuple.shape.selector, open),
                        false => open,
                    };
                    let (hits, word) = self.resolve_any(tuple, admitted);
                    if is_last {
                        (found.rest, found.word) = (hits & !found.mask, word);
                    }
                    let fill = hits & !found.rest;
                    bits(fill).for_each(|i| values[i] = word);
                    fill
                }
                Some(width) => {
                    let wanted = shared.as_ref().map_or(open, |s| open & self.may_have(s, open));
                    match wanted {
                        0 => 0,
                        wanted => {
                            let hits = self.look_up(group, (tuple, width), wanted, &mut values);
                            self.resolve(hits, &mut values)
                        }
                    }
                }
            };
            let beaten =
                bits(hits & found.mask).filter(|&i| !self.better(values[i], found.words[i]));
            let better = hits & !beaten.fold(0, |mask, i| mask | 1 << i);
            for i in bits(better) {
                found.words[i] = values[i];
            }
            found.mask |= hits;
            let rest = group.tuples[at + 1..].iter().map(|probed| probed.tuple.best());
            let rest_best = rest.min().unwrap_or(u64::MAX).min(beyond);
            worst = worst.max(tuple.worst());
            open &= !self.settled(found.mask & open, found.words, worst, rest_best);
        }
        open
    }

    /// Which packets this group can have a rule for under a mask that many groups have.
    #[inline]
    fn may_have(&mut self, shared: &Arc<Shared>, wanted: u64) -> u64 {
        let new = self.lines.look(shared, wanted);
        if new != 0 {
            self.fetch_ahead(shared, new);
        }
        self.lines.may_have(shared, self.place)
    }

    /// Asks for what packets are to find in the groups that the rest is led to from here: there
    /// they come one by one, and would wait each for itself.
    #[inline(never)]
    fn fetch_ahead(&mut self, shared: &Arc<Shared>, packets: u64) {
        let mut fetched = ArrayVec::<(&View, u64), BURST>::new();
        let (mut place, mut left) = (self.place, packets);
        for _ in 0..Presence::PLACES {
            let Some(group) = self.groups.get(usize::from(place)) else { break };
            let is_shared = |s: &Arc<Shared>| Arc::ptr_eq(s, shared);
            let probed = group.tuples.iter().find(|p| p.shared.as_ref().is_some_and(is_shared));
            let Some(Probed { tuple, .. }) = probed else { break };
            let selector = &tuple.shape.selector;
            let view = selector.width().and_then(|width| group.tables[width].as_ref());
            let Some(view) = view else { break };
            let here = left & self.lines.may_have(shared, place);
            for i in bits(here) {
                let line = &self.lines.outer()[i];
                let hash = view.fetch(self.participant, (selector, tuple.number), line);
                fetched.push((view, hash));
            }
            left &= !here;
            let last = group.tuples.last().map(|probed| self.resolve_any(&probed.tuple, left));
            match last.map(|(_, word)| Word(word).fate()) {
                Some(Fate::Jump(to)) if left != 0 => place = to,
                _ => break,
            }
        }
        for (view, hash) in fetched {
            view.fetch_entry(self.participant, hash);
        }
    }

    /// Probes the tuples that the filter names.
    #[inline(never)]
    fn probe_pruned(&mut self, group: &Listed, pruned: &Pruned, open: u64, found: &mut Found<'_>) {
        let slots = Slots { pruned, joined: group.joined.as_deref(), used: pruned.used() };
        self.course.begin(slots, self.lines, open);
        for run in bits(self.course.open).filter(|_| found.mask & open != 0) {
            let packet = self.course.packet(run);
            if found.mask >> packet & 1 == 1 {
                self.course.packets.orders[run] = self.order(found.words[packet]);
            }
        }
        while self.course.open != 0 {
            self.pick(slots);
            for (width, table) in group.tables.iter().enumerate() {
                let (Some(view), false) = (table, self.course.keys.is_empty(width)) else {
                    continue;
                };
                let mut values = [0; BURST];
                let hits = view.look_up_keys(self.participant, &self.course.keys, &mut values);
                let hits = self.resolve(hits, &mut values);
                self.take(slots, (width, hits), &values, found);
            }
        }
    }

    /// One more probe for each run that is not at its end.
    #[inline]
    fn pick(&mut self, slots: Slots<'_>) {
        self.course.keys.clear();
        for run in bits(self.course.open) {
            loop {
                let Some(slot) = self.course.next(slots, run) else {
                    self.course.close(run);
                    break;
                };
                let (selector, packet) = (&slot.shape.selector, self.course.packet(run));
                let key = (selector, slot.number);
                if selector.is_deep() {
                    if self.admitted_by(selector, 1 << packet) == 0 {
                        continue;
                    }
                    self.course.keys.push_deep(slot.width, run, key, self.lines, packet);
                } else {
                    self.course.keys.push(slot.width, run, key, &self.lines.outer()[packet]);
                }
                self.course.close_last(run);
                break;
            }
        }
    }

    /// Takes in what the probes of a width found.
    #[inline]
    fn take(
        &mut self,
        slots: Slots<'_>,
        (width, hits): (usize, u64),
        values: &[u64; BURST],
        found: &mut Found<'_>,
    ) {
        // Of a million rules the orders are far apart: 13.7 to 16.5 M/s.
        for at in bits(hits) {
            self.board.orders.get(Word(values[at]).rule()).into_iter().for_each(prefetch);
        }
        for at in bits(hits) {
            let (run, word) = (self.course.keys.run(width, at), values[at]);
            let (packet, order) = (self.course.packet(run), self.order(word));
            // Of a run at its end nobody asks for it, but who is there no branch predictor learns:
            // 19.9 to 20.6 M/s on ClassBench's sets.
            let best = &mut self.course.packets.orders[run];
            if order >= *best {
                continue;
            }
            *best = order;
            found.words[packet] = word;
            found.mask |= 1 << packet;
            self.course.close_settled(slots, run, order);
        }
    }

    /// Which packets a tuple admits that looks at more than the outer line.
    #[cold]
    #[inline(never)]
    fn admitted_by(&mut self, selector: &Selector, wanted: u64) -> u64 {
        self.lines.deepen(self.region, self.burst, wanted);
        let admits = |&i: &usize| selector.admits(self.lines, i, self.region.frame(&self.burst[i]));
        bits(wanted).filter(admits).fold(0, |mask, i| mask | 1 << i)
    }

    /// Replaces references by the words they stand for in this burst; which hits are left.
    #[inline]
    fn resolve(&self, hits: u64, values: &mut [u64; BURST]) -> u64 {
        match is_reference(values.iter().fold(0, |all, value| all | value)) {
            true => self.resolve_each(hits, values),
            false => hits,
        }
    }

    #[cold]
    #[inline(never)]
    fn resolve_each(&self, hits: u64, values: &mut [u64; BURST]) -> u64 {
        let mut left = hits;
        for i in bits(hits) {
            values[i] = self.board.versions.at(values[i], self.generation);
            left &= !(u64::from(values[i] == 0) << i);
        }
        left
    }

    /// Which packets have the rule of an empty mask, and its word.
    #[inline]
    fn resolve_any(&self, tuple: &Tuple, wanted: u64) -> (u64, u64) {
        let word = tuple.any.load(Ordering::Acquire);
        let word = self.board.versions.at(word, self.generation);
        (if word == 0 { 0 } else { self.inside(tuple, wanted) }, word)
    }

    /// Which packets have ports within the ranges of a tuple.
    #[inline]
    fn inside(&self, tuple: &Tuple, wanted: u64) -> u64 {
        let ranges = &tuple.shape.ranges;
        let inside = |&i: &usize| ranges.hold(ports_of(&self.lines.outer()[i]));
        match ranges.limit() {
            true => bits(wanted).filter(inside).fold(0, |mask, i| mask | 1 << i),
            false => wanted,
        }
    }

    /// Looks packets up under the mask of a tuple, in the table of its width.
    #[inline]
    fn look_up(
        &mut self,
        group: &Listed,
        (tuple, width): (&Tuple, usize),
        wanted: u64,
        values: &mut [u64; BURST],
    ) -> u64 {
        let (selector, mut wanted) = (&tuple.shape.selector, self.inside(tuple, wanted));
        if selector.is_deep() {
            wanted = self.admitted_by(selector, wanted);
        }
        let Some(view) = &group.tables[width] else { return 0 };
        let (under, wanted) = ((selector, tuple.number), (wanted, self.burst.len()));
        view.look_up(self.participant, under, self.lines, wanted, values)
    }

    /// Order of the rule behind a word.
    fn order(&self, word: u64) -> u64 {
        let order = self.board.orders.get(Word(word).rule());
        let order = order.map_or(u64::MAX >> 1, |[order]| order.load(Ordering::Acquire));
        self.board.versions.at(order, self.generation)
    }

    fn better(&self, word: u64, than: u64) -> bool {
        self.order(word) < self.order(than)
    }

    /// Which packets have a rule that no later tuple can beat; `worst` is the worst order among the
    /// tuples so far, `rest_best` the best among those to come.
    #[inline]
    fn settled(&self, found: u64, words: &[u64; BURST], worst: u64, rest_best: u64) -> u64 {
        if worst <= rest_best {
            return found;
        }
        let last = |&i: &usize| self.order(words[i]) <= rest_best;
        bits(found).filter(last).fold(0, |mask, i| mask | 1 << i)
    }
}
