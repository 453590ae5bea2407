//! Matching: which rule of a group acts on each packet of a burst.
//!
//! First the tuples of the group's list are probed one after the other, each for all packets. Then,
//! if the group has a pruning filter, each packet is probed in the tuples that the filter selects
//! for it, until no later tuple can have a better rule. The first such tuple of each packet is
//! probed for all packets at once. The filter depends on the rules alone: no traffic can make a
//! packet cost more than the rules require.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrayvec::ArrayVec;
use niclab_table::{
    BloomFilter, Generation, MaskSearch, MaskSlots, Participant, is_reference, prefetch,
};

use crate::action_word::{ActionWord, Fate};
use crate::control::SharedState;
use crate::families::FamilyFilter;
use crate::groups::{GroupView, GroupViews, ProbedTuple};
use crate::limits::BURST;
use crate::memory::{Desc, Frames};
use crate::parsed_headers::ParsedHeaders;
use crate::pruner::{PrunedMasks, Slot};
use crate::tables::{LookupKeys, Selector, TableReader, bits};
use crate::tuple::{FIELDS, Tuple, ports_of, values_of};

/// The best rules so far for the packets of a burst.
pub(crate) struct Found<'a> {
    /// A bit for each packet with a rule.
    pub(crate) mask: u64,
    /// The words of the rules.
    pub(crate) words: &'a mut [u64; BURST],
    /// Packets that all match the rule of the empty mask; their words are not written.
    rest: u64,
    /// That rule's word.
    word: u64,
}

/// The rules that the packets of a burst match.
#[derive(Default)]
pub(crate) struct Matched {
    /// A bit for each packet with a rule whose word was written.
    pub(crate) found: u64,
    /// A bit for each packet that matches only the rule of the empty mask.
    pub(crate) rest: u64,
    /// The word of that rule.
    pub(crate) word: u64,
}

/// The memory of a search through a group's filter, which all bursts use.
#[derive(Default)]
pub(crate) struct PrunedSearch {
    masks: MaskSearch<{ FIELDS.len() }>,
    /// Keys to look up next.
    keys: LookupKeys,
}

/// The slots of a group's filter, for one burst.
type GroupSlots<'a> = MaskSlots<'a, { FIELDS.len() }, Box<Slot>>;

/// Matches a worker's burst against one group.
pub(crate) struct Matcher<'a, F> {
    pub(crate) shared: &'a SharedState,
    pub(crate) participant: &'a Participant,
    pub(crate) generation: Generation,
    pub(crate) headers: &'a mut ParsedHeaders,
    pub(crate) search: &'a mut PrunedSearch,
    pub(crate) frames: &'a F,
    pub(crate) burst: &'a [Desc],
    /// All groups, and the place of this one.
    pub(crate) groups: &'a GroupViews,
    pub(crate) place: u16,
}

impl<F: Frames> Matcher<'_, F> {
    /// Matches the packets in `wanted` against one group. Writes the word of each packet's best
    /// rule into `words`, except for packets that all match only the rule of the empty mask.
    #[inline]
    pub(crate) fn match_group(
        &mut self,
        group: &GroupView,
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

    /// Probes the tuples of the list. Returns the packets that may match a better rule in the
    /// filter.
    #[inline]
    fn probe_all(&mut self, group: &GroupView, wanted: u64, found: &mut Found<'_>) -> u64 {
        let beyond = group.pruned.as_ref().map_or(u64::MAX, PrunedMasks::bound);
        let (mut open, mut worst) = (wanted, 0);
        for (at, ProbedTuple { tuple, family }) in group.tuples.iter().enumerate() {
            if open == 0 {
                break;
            }
            let is_last = at + 1 == group.tuples.len() && group.pruned.is_none();
            let mut values = [0; BURST];
            let hits = match tuple.shape.selector.width() {
                None => {
                    // The empty mask may have ranges.
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
                    let wanted = family.as_ref().map_or(open, |s| open & self.may_have(s, open));
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
            open &= !self.decided(found.mask & open, found.words, worst, rest_best);
        }
        open
    }

    /// The packets that this group can have a rule for, under a mask of a family.
    #[inline]
    fn may_have(&mut self, family: &Arc<FamilyFilter>, wanted: u64) -> u64 {
        let new = self.headers.look(family, wanted);
        if new != 0 {
            self.fetch_ahead(family, new);
        }
        self.headers.may_have(family, self.place)
    }

    /// Prefetches for the next groups of the group chain: packets match there one by one, and each
    /// would wait for its own cache miss.
    #[inline(never)]
    fn fetch_ahead(&mut self, family: &Arc<FamilyFilter>, packets: u64) {
        let mut fetched = ArrayVec::<(&TableReader, u64), BURST>::new();
        let (mut place, mut left) = (self.place, packets);
        for _ in 0..BloomFilter::PLACES {
            let Some(group) = self.groups.get(usize::from(place)) else { break };
            let is_family = |s: &Arc<FamilyFilter>| Arc::ptr_eq(s, family);
            let probed = group.tuples.iter().find(|p| p.family.as_ref().is_some_and(is_family));
            let Some(ProbedTuple { tuple, .. }) = probed else { break };
            let selector = &tuple.shape.selector;
            let view = selector.width().and_then(|width| group.tables[width].as_ref());
            let Some(view) = view else { break };
            let here = left & self.headers.may_have(family, place);
            for i in bits(here) {
                let outer = &self.headers.outer()[i];
                let hash = view.fetch(self.participant, (selector, tuple.number), outer);
                fetched.push((view, hash));
            }
            left &= !here;
            let last = group.tuples.last().map(|probed| self.resolve_any(&probed.tuple, left));
            match last.map(|(_, word)| ActionWord(word).fate()) {
                Some(Fate::Jump(to)) if left != 0 => place = to,
                _ => break,
            }
        }
        for (view, hash) in fetched {
            view.fetch_entry(self.participant, hash);
        }
    }

    /// Probes the tuples that the filter selects.
    #[inline(never)]
    fn probe_pruned(
        &mut self,
        group: &GroupView,
        pruned: &PrunedMasks,
        open: u64,
        found: &mut Found<'_>,
    ) {
        let outer = self.headers.outer();
        let slots = self.search.masks.begin(pruned, open, |i| values_of(&outer[i]));
        for run in bits(self.search.masks.open()).filter(|_| found.mask & open != 0) {
            let packet = self.search.masks.packet(run);
            if found.mask >> packet & 1 == 1 {
                let order = self.order(found.words[packet]);
                self.search.masks.set_limit(run, order);
            }
        }
        while self.search.masks.open() != 0 {
            self.pick(slots);
            for (width, table) in group.tables.iter().enumerate() {
                let (Some(view), false) = (table, self.search.keys.is_empty(width)) else {
                    continue;
                };
                let mut values = [0; BURST];
                let hits = view.look_up_keys(self.participant, &self.search.keys, &mut values);
                let hits = self.resolve(hits, &mut values);
                self.take(slots, (width, hits), &values, found);
            }
        }
    }

    /// Adds the next probe of each run that is not finished.
    #[inline]
    fn pick(&mut self, slots: GroupSlots<'_>) {
        self.search.keys.clear();
        for run in bits(self.search.masks.open()) {
            loop {
                let Some(slot) = self.search.masks.next(slots, run) else {
                    self.search.masks.close(run);
                    break;
                };
                // A filter that ran out of memory may select a slot for a value that the slot does
                // not have.
                let ports = [2, 3].map(|field| self.search.masks.value(run, field));
                if !slot.shape.ranges.hold(ports) {
                    continue;
                }
                let (selector, packet) = (&slot.shape.selector, self.search.masks.packet(run));
                let key = (selector, slot.number);
                if selector.is_deep() {
                    if self.admitted_by(selector, 1 << packet) == 0 {
                        continue;
                    }
                    self.search.keys.push_deep(slot.width, run, key, self.headers, packet);
                } else {
                    self.search.keys.push(slot.width, run, key, &self.headers.outer()[packet]);
                }
                self.search.masks.close_last(run);
                break;
            }
        }
    }

    /// Takes the results of the probes of one key width.
    #[inline]
    fn take(
        &mut self,
        slots: GroupSlots<'_>,
        (width, hits): (usize, u64),
        values: &[u64; BURST],
        found: &mut Found<'_>,
    ) {
        // With a million rules, orders are far apart in memory: 13.7 to 16.5 M/s.
        for at in bits(hits) {
            self.shared.orders.get(ActionWord(values[at]).rule()).into_iter().for_each(prefetch);
        }
        for at in bits(hits) {
            let (run, word) = (self.search.keys.run(width, at), values[at]);
            let (packet, order) = (self.search.masks.packet(run), self.order(word));
            // A finished run does not need the test below. To skip it costs more, because no branch
            // predictor learns which runs are finished: 19.9 to 20.6 M/s on ClassBench's sets.
            if order >= self.search.masks.limit(run) {
                continue;
            }
            found.words[packet] = word;
            found.mask |= 1 << packet;
            self.search.masks.accept(slots, run, order);
        }
    }

    /// The packets that a mask with more than outer headers admits.
    #[cold]
    #[inline(never)]
    fn admitted_by(&mut self, selector: &Selector, wanted: u64) -> u64 {
        self.headers.deepen(self.frames, self.burst, wanted);
        let admits =
            |&i: &usize| selector.admits(self.headers, i, self.frames.frame(&self.burst[i]));
        bits(wanted).filter(admits).fold(0, |mask, i| mask | 1 << i)
    }

    /// Replaces references by their words in this burst; returns the hits that remain.
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
            values[i] = self.shared.versions.resolve(values[i], self.generation);
            left &= !(u64::from(values[i] == 0) << i);
        }
        left
    }

    /// The packets that match the rule of an empty mask, and its word.
    #[inline]
    fn resolve_any(&self, tuple: &Tuple, wanted: u64) -> (u64, u64) {
        let word = tuple.any.load(Ordering::Acquire);
        let word = self.shared.versions.resolve(word, self.generation);
        (if word == 0 { 0 } else { self.inside(tuple, wanted) }, word)
    }

    /// The packets whose ports lie in the ranges of a tuple.
    #[inline]
    fn inside(&self, tuple: &Tuple, wanted: u64) -> u64 {
        let ranges = &tuple.shape.ranges;
        let inside = |&i: &usize| ranges.hold(ports_of(&self.headers.outer()[i]));
        match ranges.limit() {
            true => bits(wanted).filter(inside).fold(0, |mask, i| mask | 1 << i),
            false => wanted,
        }
    }

    /// Looks packets up under the mask of a tuple, in the table of its width.
    #[inline]
    fn look_up(
        &mut self,
        group: &GroupView,
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
        view.look_up(self.participant, under, self.headers, wanted, values)
    }

    /// Order of the rule of a word.
    fn order(&self, word: u64) -> u64 {
        let order = self.shared.orders.get(ActionWord(word).rule());
        let order = order.map_or(u64::MAX >> 1, |[order]| order.load(Ordering::Acquire));
        self.shared.versions.resolve(order, self.generation)
    }

    fn better(&self, word: u64, than: u64) -> bool {
        self.order(word) < self.order(than)
    }

    /// The packets whose rule no later tuple can beat. `worst` is the worst order of the tuples so
    /// far, `rest_best` the best order of the tuples to come.
    #[inline]
    fn decided(&self, found: u64, words: &[u64; BURST], worst: u64, rest_best: u64) -> u64 {
        if worst <= rest_best {
            return found;
        }
        let last = |&i: &usize| self.order(words[i]) <= rest_best;
        bits(found).filter(last).fold(0, |mask, i| mask | 1 << i)
    }
}
