//! Which rule of a group acts on each packet of a burst.
//!
//! The tuples of the group's list are probed one after the other, all packets at once. Then, where
//! the group has a filter, each packet is probed in the tuples that the filter names for it, first
//! in the first of them, all packets at once, until no later one can hold a better rule. The filter
//! knows the rules alone: no traffic makes a packet cost more than the rules let it.

use std::sync::atomic::Ordering;

use arrayvec::ArrayVec;
use niclab_table::{Generation, Participant, Sets, is_reference, prefetch};

use crate::control::Board;
use crate::groups::Listed;
use crate::limits::BURST;
use crate::lines::Lines;
use crate::memory::{Desc, Region};
use crate::pruner::{Pruned, Slot};
use crate::tables::{ByWidth, Pick, bits};
use crate::tuple::{FIELDS, Shape, Tuple, Values, values_of};
use crate::word::Word;

/// What was found for the packets of a burst.
pub(crate) struct Found<'a> {
    /// A bit for each packet with a rule.
    pub(crate) mask: u64,
    /// The words of the rules.
    pub(crate) words: &'a mut [u64; BURST],
}

/// A packet on its way through the slots of a filter.
#[derive(Clone, Copy, Default)]
struct Run {
    packet: u8,
    /// Sixty-four slots from here on, and which of them are left.
    word: u8,
    bits: u64,
    /// Order of the rule found so far, the worst there is for none; to be looked up if `stale`.
    order: u64,
    stale: bool,
}

impl Run {
    /// The first slot that is left, or that the next word may have.
    #[inline]
    fn first(&self, set_words: usize) -> Option<usize> {
        let word = 64 * usize::from(self.word);
        match self.bits {
            0 => (usize::from(self.word) + 1 < set_words).then_some(word + 64),
            bits => Some(word + bits.trailing_zeros() as usize),
        }
    }
}

/// A burst on that way.
struct Course<'a> {
    pruned: &'a Pruned,
    /// Words of sets that have slots in them.
    set_words: usize,
    /// Values and sets, by run.
    values: [Values; BURST],
    sets: [Sets<{ FIELDS.len() }>; BURST],
    runs: [Run; BURST],
    /// Runs there are.
    count: usize,
}

/// Probes to come in one table.
type Picks<'a> = ArrayVec<Pick<'a>, BURST>;

impl<'a> Course<'a> {
    /// The packets in `open`, with what has been found of them.
    #[inline]
    fn begin(lines: &Lines, pruned: &'a Pruned, open: u64, found: &Found<'_>) -> Course<'a> {
        let (values, sets) = ([Values::default(); BURST], [Sets::default(); BURST]);
        let (set_words, runs) = (pruned.set_words(), [Run::default(); BURST]);
        let mut course = Course { pruned, set_words, values, sets, runs, count: 0 };
        for i in bits(open) {
            let at = course.count % BURST;
            course.values[at] = values_of(&lines.outer()[i]);
            let stale = found.mask >> i & 1 == 1;
            course.runs[at] = Run { packet: i as u8, stale, order: u64::MAX, ..Run::default() };
            course.count += 1;
        }
        let count = course.count.min(BURST);
        pruned.reader.find(&course.values[..count], &mut course.sets[..count]);
        for (run, sets) in course.runs[..count].iter_mut().zip(&course.sets) {
            run.bits = pruned.reader.word(sets, 0);
        }
        course
    }

    /// The next slot that may have a better rule than was found for a run.
    #[inline]
    fn next(&mut self, at: usize, order_of: impl Fn(u8) -> u64) -> Option<&'a Slot> {
        let (pruned, run) = (self.pruned, &mut self.runs[at]);
        loop {
            let slot = run.first(self.set_words)?;
            if run.stale {
                run.order = order_of(run.packet);
                run.stale = false;
            }
            if pruned.rest(slot) >= run.order {
                return None;
            }
            if run.bits == 0 {
                run.word += 1;
                run.bits = pruned.reader.word(&self.sets[at], usize::from(run.word));
                continue;
            }
            run.bits &= run.bits - 1;
            if pruned.best(slot) >= run.order {
                continue;
            }
            let Some(slot) = pruned.slot(slot) else { continue };
            // A filter that ran out of room names slots for more values than they have.
            let ranges = &slot.shape.ranges;
            if !ranges.limit() || ranges.hold(&self.values[at]) {
                return Some(slot);
            }
        }
    }

    /// One more probe for each run that is not at its end.
    #[inline]
    fn pick(&mut self, order_of: impl Fn(u8) -> u64) -> ByWidth<Picks<'a>> {
        let mut picks: ByWidth<Picks<'a>> = Default::default();
        let mut left = 0;
        for at in 0..self.count.min(BURST) {
            let Some(slot) = self.next(at, &order_of) else { continue };
            let (selector, packet) = (&slot.shape.selector, self.runs[at].packet);
            let picks = &mut picks[selector.width().unwrap_or(0)];
            picks.push(Pick { packet, run: left as u8, selector, number: slot.number });
            // Those at their end make room, in the order of the packets.
            (self.runs[left], self.values[left]) = (self.runs[at], self.values[at]);
            self.sets[left] = self.sets[at];
            left += 1;
        }
        self.count = left;
        picks
    }
}

/// A worker's burst, for one group.
pub(crate) struct Matcher<'a> {
    pub(crate) board: &'a Board,
    pub(crate) participant: &'a Participant,
    pub(crate) generation: Generation,
    pub(crate) lines: &'a mut Lines,
    pub(crate) region: &'a Region,
    pub(crate) burst: &'a [Desc],
}

impl Matcher<'_> {
    /// Matches the packets in `wanted` against one group; returns which of them found a rule, the
    /// word of the best one in `words`.
    #[inline]
    pub(crate) fn match_group(
        &mut self,
        group: &Listed,
        wanted: u64,
        words: &mut [u64; BURST],
    ) -> u64 {
        let mut found = Found { mask: 0, words };
        let open = self.probe_all(group, wanted, &mut found);
        if let (Some(pruned), true) = (&group.pruned, open != 0) {
            self.probe_pruned(group, pruned, open, &mut found);
        }
        found.mask
    }

    /// Probes the tuples of the list; which packets may still find a better rule by the filter.
    #[inline]
    fn probe_all(&mut self, group: &Listed, wanted: u64, found: &mut Found<'_>) -> u64 {
        let beyond = group.pruned.as_ref().map_or(u64::MAX, |pruned| pruned.rest(0));
        let (mut open, mut worst) = (wanted, 0);
        for (at, tuple) in group.tuples.iter().enumerate() {
            if open == 0 {
                break;
            }
            let mut values = [0; BURST];
            let hits = self.look_up(group, tuple, open, &mut values);
            let hits = self.resolve(hits, &mut values);
            let beaten =
                bits(hits & found.mask).filter(|&i| !self.better(values[i], found.words[i]));
            let better = hits & !beaten.fold(0, |mask, i| mask | 1 << i);
            for i in bits(better) {
                found.words[i] = values[i];
            }
            found.mask |= hits;
            let rest = group.tuples[at + 1..].iter().map(|tuple| tuple.best());
            let rest_best = rest.min().unwrap_or(u64::MAX).min(beyond);
            worst = worst.max(tuple.worst());
            open &= !self.settled(found.mask & open, found.words, worst, rest_best);
        }
        open
    }

    /// Probes the tuples that the filter names.
    #[inline(never)]
    fn probe_pruned(&mut self, group: &Listed, pruned: &Pruned, open: u64, found: &mut Found<'_>) {
        let mut course = Course::begin(self.lines, pruned, open, found);
        while course.count > 0 {
            let by_width =
                course.pick(|packet| self.order(found.words[usize::from(packet) % BURST]));
            for (picks, table) in by_width.iter().zip(&group.tables) {
                let Some(view) = table.as_ref().filter(|_| !picks.is_empty()) else { continue };
                let deep = picks.iter().filter(|pick| pick.selector.is_deep());
                let deep = deep.fold(0, |mask, pick| mask | 1 << pick.packet);
                if deep != 0 {
                    self.lines.deepen(self.region, self.burst, deep);
                }
                let mut values = [0; BURST];
                let hits = view.look_up_picks(self.participant, self.lines, picks, &mut values);
                let hits = self.resolve(hits, &mut values);
                for at in bits(hits) {
                    let packet = usize::from(picks[at].packet) % BURST;
                    let known = found.mask >> packet & 1 == 1;
                    if !known || self.better(values[at], found.words[packet]) {
                        found.words[packet] = values[at];
                        found.mask |= 1 << packet;
                        // The next round asks for it, where there is one.
                        self.board
                            .orders
                            .get(Word(values[at]).rule())
                            .into_iter()
                            .for_each(prefetch);
                        course.runs[usize::from(picks[at].run) % BURST].stale = true;
                    }
                }
            }
        }
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

    #[inline]
    fn look_up(
        &mut self,
        group: &Listed,
        tuple: &Tuple,
        wanted: u64,
        values: &mut [u64; BURST],
    ) -> u64 {
        let Shape { selector, ranges } = &tuple.shape;
        let Some(width) = selector.width() else {
            let word = tuple.any.load(Ordering::Acquire);
            values.fill(word);
            return if word == 0 { 0 } else { wanted };
        };
        let inside = |&i: &usize| ranges.hold(&values_of(&self.lines.outer()[i]));
        let wanted = match ranges.limit() {
            true => bits(wanted).filter(inside).fold(0, |mask, i| mask | 1 << i),
            false => wanted,
        };
        let Some(view) = &group.tables[width] else { return 0 };
        if selector.is_deep() {
            self.lines.deepen(self.region, self.burst, wanted);
        }
        let (under, wanted) = ((selector, tuple.number), (wanted, self.burst.len()));
        view.look_up(self.participant, under, self.lines, wanted, values)
    }

    /// Order of the rule behind a word.
    fn order(&self, word: u64) -> u64 {
        let order = self.board.orders.get(Word(word).rule());
        let order = order.map_or(u64::MAX >> 1, |order| order.load(Ordering::Acquire));
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
