//! The pipeline of one core: parse, rule groups, actions, RSS; a burst at a time.
//!
//! # Why a worker knows every group it is led to
//!
//! A worker holds a list of the groups, taken when the burst began, while rules change. Were that
//! list all it had, a rule updated during the burst could lead to a group that is newer, and the
//! packet would miss. So:
//!
//! - The control side publishes the list that has a group with its tables (`groups`, then
//!   `version`, Release) before it stores a word that leads there (Release).
//! - The worker reads a word (Acquire), and only then, before it looks into the group that the word
//!   leads to, `version` (Acquire) and, where it differs, `groups`. Whoever has read the word sees
//!   everything published before it: the list is at least as new as the word.
//! - A list so new that the group is gone again has nothing at its place. The group went because
//!   nothing led to it any more and it had no rule: a miss is what it would have answered.
//! - At that place there is no other group: a place is used again only after a grace period, and
//!   this burst is not over.
//!
//! The list of contexts (`rss::contexts`) is taken with that of the groups, after the word that
//! names one: a rule's, or the port's, which is read once, when the burst begins. A context stays
//! in the list for a grace period after the last word that named it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use niclab_table::{Generation, Participant};

use crate::control::{Board, MISSES_DROPPED};
use crate::counters::{Counters, FCS_LEN};
use crate::groups::Lists;
use crate::limits::BURST;
use crate::lines::Lines;
use crate::matching::{Course, Matched, Matcher};
use crate::memory::{Desc, Region};
use crate::perform::{Around, Lost, Subject};
use crate::rss::context::innermost;
use crate::rss::contexts::List;
use crate::rss::{Indirection, RssLevel, RssStamp};
use crate::tables::bits;
use crate::word::{Fate, Word};

/// Before the first list of groups was published.
const NO_VERSION: u64 = 0;

/// The pipeline for one core. It reads what the control side shows and waits for nobody.
pub struct Worker {
    board: Arc<Board>,
    version: u64,
    groups: Arc<Lists>,
    contexts: Arc<List>,
    /// Number of the context that spreads what no rule of this burst decides about.
    rss: u16,
    /// What it spread of this burst.
    spread: u64,
    participant: Participant,
    /// Transactions that this burst knows.
    generation: Generation,
    /// Packets that no rule matches are dropped in this burst.
    isolated: bool,
    /// The time that meters see.
    now_ns: u64,
    counters: Arc<Counters>,
    lines: Box<Lines>,
    course: Box<Course>,
}

/// What the actions of a burst's rules led to.
struct Acted {
    /// Packets that no queue gets: to discard, or to leave by a port.
    dropped: u64,
    /// Packets that go on in another group.
    jumped: u64,
    /// The place of that group where it is one for all of them.
    together: Option<u16>,
    /// Packets that jump by one rule, whose place is not written yet, and the place.
    alike: (u64, u16),
    /// Packets that contexts of rules spread.
    spread: u64,
}

/// The packets that wait for the same group, or context, as the first of them, and its place.
fn next_group(waiting: u64, places: &[u16; BURST]) -> (u64, u16) {
    let place = places.get(waiting.trailing_zeros() as usize).copied().unwrap_or(0);
    let same = bits(waiting).filter(|&i| places[i] == place).fold(0, |mask, i| mask | 1 << i);
    (same, place)
}

impl Worker {
    pub(crate) fn new(board: Arc<Board>, counters: Arc<Counters>) -> Worker {
        Worker {
            version: NO_VERSION,
            groups: Arc::default(),
            contexts: Arc::default(),
            rss: 0,
            spread: 0,
            participant: board.domain.reader_slot(),
            generation: Generation::default(),
            isolated: false,
            now_ns: 0,
            counters,
            lines: Box::new(Lines::new()),
            course: Box::default(),
            board,
        }
    }

    /// Decides about a burst of at most [`BURST`] frames of `region`: fills in queue and hash of
    /// each, flags and marks, and returns a mask of those that no queue gets because a rule says so
    /// (bit i for `burst[i]`): they are to be discarded, or sent by a port where [`Desc::port`]
    /// says one.
    ///
    /// Memory of destroyed rules is reused only after a call of this on every online worker.
    ///
    /// # Panics
    /// If this worker is offline: what it would read may be another rule's by now.
    #[inline]
    pub fn classify(&mut self, region: &Region, burst: &mut [Desc]) -> u64 {
        self.begin(region, burst);
        burst.iter_mut().for_each(Desc::forget);
        self.match_groups(region, burst)
    }

    /// Lets go of the last burst, takes the newest groups and reads the headers of this one.
    #[inline]
    pub(crate) fn begin(&mut self, region: &Region, burst: &[Desc]) {
        // A group without rules, or with the empty mask alone, asks no table, which would refuse.
        assert!(self.participant.is_online(), "an offline worker classifies; call `online` first");
        self.participant.quiescent();
        // Groups and tables that a transaction made are there before its generation.
        self.generation = self.board.versions.generation();
        let misses = self.board.misses.load(Ordering::Acquire);
        self.isolated = self.board.versions.at(misses, self.generation) == MISSES_DROPPED;
        let rss = self.board.rss.load(Ordering::Acquire);
        self.rss = self.board.versions.at(rss, self.generation) as u16;
        self.refresh();
        self.lines.read(region, burst);
    }

    /// Says what time it is for the bursts to come, nanoseconds from a moment that all workers
    /// share: meters let packets through by this alone. To be called once a burst where rules have
    /// meters; a time before the one that any worker was told last adds nothing to a meter.
    pub fn set_time_ns(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Which packets of the last burst the port's RSS spread: bit i for `burst[i]`. Of the others
    /// rules have decided.
    #[inline]
    pub fn spread_by_port(&self) -> u64 {
        self.spread
    }

    /// The state of RSS that the port had for the last burst, an empty one included, and its
    /// indirection table; `None` before the first.
    #[inline]
    pub fn rss(&self) -> Option<(RssStamp, &Indirection)> {
        let context = self.contexts.get(usize::from(self.rss))?.as_ref()?;
        Some((context.stamp(), context.indirection()))
    }

    /// Says that this worker will not run for a while: what it held may be reused. Until
    /// [`Worker::online`] it decides about no frame.
    pub fn offline(&mut self) {
        self.participant.offline();
        self.version = NO_VERSION;
        (self.groups, self.contexts) = (Arc::default(), Arc::default());
    }

    /// Takes up work again after [`Worker::offline`].
    pub fn online(&mut self) {
        self.participant.online();
    }

    /// Takes the newest groups and contexts; to be called after the word was read that leads to one
    /// of them.
    #[inline]
    fn refresh(&mut self) {
        let version = self.board.version.load(Ordering::Acquire);
        if version != self.version {
            self.version = version;
            self.groups = self.board.groups.load_full();
            self.contexts = self.board.contexts.load_full();
        }
    }

    /// From group to group until every packet has its fate; returns those that no queue gets.
    #[inline]
    pub(crate) fn match_groups(&mut self, region: &Region, burst: &mut [Desc]) -> u64 {
        let all = u64::MAX.checked_shr(64 - burst.len() as u32).unwrap_or(0);
        let (mut here, mut place, mut waiting, mut dropped) = (all, 0, 0, 0);
        let mut places = [0; BURST];
        let mut words = [0; BURST];
        self.spread = 0;
        while here != 0 {
            let matched = match self.groups.get(usize::from(place)) {
                None => Matched::default(),
                Some(group) => {
                    let mut matcher = Matcher {
                        board: &self.board,
                        participant: &self.participant,
                        generation: self.generation,
                        lines: &mut self.lines,
                        course: &mut self.course,
                        region,
                        burst,
                        groups: &self.groups,
                        place,
                    };
                    matcher.match_group(group, here, &mut words)
                }
            };
            let missed = here & !matched.found & !matched.rest;
            match self.isolated {
                true => dropped |= missed,
                false => {
                    self.spread |= missed;
                    self.spread(self.rss, missed, region, burst);
                }
            }
            let acted = self.act(region, burst, &matched, &mut words, &mut places);
            dropped |= acted.dropped;
            if acted.spread != 0 {
                self.spread_each(acted.spread, &places, region, burst);
            }
            if waiting != 0 || acted.together.is_none() {
                let (alike, to) = acted.alike;
                bits(alike).for_each(|i| places[i] = to);
            }
            waiting |= acted.jumped;
            (here, place) = match acted.together {
                // All that wait go to the same group, as in a chain of groups.
                Some(together) if waiting == acted.jumped => (waiting, together),
                _ => next_group(waiting, &places),
            };
            waiting &= !here;
            if here != 0 {
                self.refresh();
            }
        }
        dropped
    }

    /// Spreads packets by the contexts that their rules name, each context's at once.
    fn spread_each(
        &mut self,
        mut wanted: u64,
        contexts: &[u16; BURST],
        region: &Region,
        burst: &mut [Desc],
    ) {
        self.refresh();
        while wanted != 0 {
            let (same, context) = next_group(wanted, contexts);
            self.spread(context, same, region, burst);
            wanted &= !same;
        }
    }

    /// Spreads packets by the context of this number.
    #[inline]
    fn spread(&mut self, context: u16, wanted: u64, region: &Region, burst: &mut [Desc]) {
        // A number that was read has its context: see `rss::contexts`.
        if let (1.., Some(Some(context))) = (wanted, self.contexts.get(usize::from(context))) {
            match context.level() {
                RssLevel::Inner => {
                    self.lines.deepen(region, burst, wanted);
                    let keys = innermost(self.lines.outer(), self.lines.inner(), wanted);
                    context.spread(&keys, wanted, burst);
                }
                RssLevel::Outermost => context.spread(self.lines.outer(), wanted, burst),
            }
        }
    }

    /// Carries out the actions of the rules that were found.
    #[inline]
    fn act(
        &mut self,
        region: &Region,
        burst: &mut [Desc],
        matched: &Matched,
        words: &mut [u64; BURST],
        places: &mut [u16; BURST],
    ) -> Acted {
        let mut acted = Acted { dropped: 0, jumped: 0, together: None, alike: (0, 0), spread: 0 };
        let mut found = matched.found;
        match Word(matched.word) {
            // As in a chain of groups: all of them go on at once.
            word if !word.counts()
                && let Fate::Jump(to) = word.fate() =>
            {
                acted.alike = (matched.rest, to);
                acted.jumped = matched.rest;
                acted.together = (matched.rest != 0).then_some(to);
            }
            word => {
                bits(matched.rest).for_each(|i| words[i] = word.0);
                found |= matched.rest;
            }
        }
        for i in bits(found) {
            let word = Word(words[i]);
            if word.counts() {
                self.counters.add(word.rule(), u64::from(burst[i].len()) + FCS_LEN);
            }
            let mut fate = word.fate();
            if let Fate::Program(number) = fate {
                fate = self.perform(word, number, region, &mut burst[i], i);
            }
            match fate {
                Fate::Queue(queue) => burst[i].queue = queue,
                Fate::Drop | Fate::Program(_) => acted.dropped |= 1 << i,
                Fate::Port(port) => {
                    burst[i].leave_by(port);
                    acted.dropped |= 1 << i;
                }
                Fate::Jump(to) => {
                    let first = acted.jumped == 0;
                    places[i] = to;
                    acted.jumped |= 1 << i;
                    acted.together = acted.together.filter(|&t| t == to).or(first.then_some(to));
                }
                Fate::Rss(context) => {
                    places[i] = context;
                    acted.spread |= 1 << i;
                }
            }
        }
        acted
    }

    /// Carries out the program of a word on packet `i` of a burst; the fate it comes to.
    #[inline(never)]
    fn perform(
        &mut self,
        word: Word,
        number: u32,
        region: &Region,
        desc: &mut Desc,
        i: usize,
    ) -> Fate {
        let (fate, mut steps) = self.board.programs.read(number);
        let around = Around { board: &self.board, word, now_ns: self.now_ns };
        let mut subject = Subject::new(region, desc, &mut self.lines, i);
        while let Some(step) = steps.next() {
            match subject.meet(step, &mut steps, &around) {
                Ok(()) => {}
                Err(Lost::Exceeds) => return Fate::Drop,
                Err(Lost::NoRoom) => {
                    self.counters.add_unfit();
                    return Fate::Drop;
                }
            }
        }
        if subject.is_changed && matches!(fate, Fate::Jump(_) | Fate::Rss(_)) {
            // Later groups match the packet as it is now, and RSS hashes it so.
            self.lines.reread(i, region.frame(desc));
        }
        fate
    }
}

#[cfg(test)]
mod tests {
    use niclab_packet::stack::build;
    use niclab_packet::wire::{ethernet, ipv4, udp, vxlan};

    use crate::memory::Region;
    use crate::rule::text::{Command, Parser};
    use crate::rule::{Action, Pattern, Rule};
    use crate::{Nic, NicConfig};

    #[test]
    fn a_group_made_during_a_burst_is_known_to_whoever_is_led_there() {
        let mut nic = Nic::new(&NicConfig { queues: 4, ..NicConfig::default() }).unwrap();
        let mut worker = nic.worker();
        let (region, mut burst) = Region::new(1, 100).unwrap();
        region.set_len(&mut burst[0], 60);
        let create = |nic: &mut Nic, group, priority, pattern, action| {
            nic.create(&Rule { group, priority, pattern, actions: &[action] }).unwrap()
        };
        let (one, other) = (Pattern::any().eth_dst([0; 6]), Pattern::any().eth_src([0; 6]));
        let rule = create(&mut nic, 0, 0, Pattern::any(), Action::Queue(1));
        worker.begin(&region, &burst);
        create(&mut nic, 1, 1, one, Action::Queue(2));
        nic.update(rule, &[Action::Jump(1)]).unwrap();
        assert_eq!(worker.match_groups(&region, &mut burst), 0);
        assert_eq!(burst[0].queue, 2, "the group is newer than the burst");

        nic.update(rule, &[Action::Queue(1)]).unwrap();
        worker.begin(&region, &burst);
        create(&mut nic, 1, 0, other, Action::Queue(3));
        nic.update(rule, &[Action::Jump(1)]).unwrap();
        assert_eq!(worker.match_groups(&region, &mut burst), 0);
        assert_eq!(burst[0].queue, 3, "a table of the group is newer than the burst");
    }

    /// The pattern of a rule's text.
    fn pattern(text: &str) -> Pattern {
        let line = format!("flow create 0 ingress pattern {text} / end actions drop / end");
        let mut parser = Parser::default();
        let parsed = parser.parse(1, &line).unwrap();
        let Command::Create { rule, .. } = parsed.command else { panic!("{line}") };
        parsed.pattern(&rule).unwrap()
    }

    /// The first rule that needs more than the outer headers comes when the burst has begun.
    #[test]
    fn a_rule_made_during_a_burst_finds_the_lines_it_needs() {
        let mut nic = Nic::new(&NicConfig { queues: 4, ..NicConfig::default() }).unwrap();
        let mut worker = nic.worker();
        let (region, mut burst) = Region::new(2, 200).unwrap();
        for (vni, desc) in burst.iter_mut().enumerate() {
            let frame = build(&[
                ethernet::Repr::default().into(),
                ipv4::Repr::default().into(),
                udp::Repr::default().into(),
                vxlan::Repr { vni: vni as u32 }.into(),
                ethernet::Repr::default().into(),
                ipv4::Repr { ttl: 9, ..Default::default() }.into(),
            ])
            .unwrap();
            region.slot_mut(desc)[..frame.len()].copy_from_slice(&frame);
            region.set_len(desc, frame.len() as u16);
        }
        let create = |nic: &mut Nic, group, text, action| {
            let pattern = pattern(text);
            nic.create(&Rule { group, priority: 0, pattern, actions: &[action] }).unwrap()
        };
        let rule = create(&mut nic, 0, "eth", Action::Queue(1));
        worker.begin(&region, &burst);
        let text = "ipv4 / udp / vxlan vni is 1 / eth / ipv4 ttl is 9";
        create(&mut nic, 1, text, Action::Queue(3));
        create(&mut nic, 1, "ipv4 / udp / vxlan / ipv4 ttl is 9", Action::Queue(2));
        nic.update(rule, &[Action::Jump(1)]).unwrap();
        assert_eq!(worker.match_groups(&region, &mut burst), 0);
        assert_eq!([burst[0].queue, burst[1].queue], [2, 3]);
    }

    #[test]
    fn metadata_and_tags_of_a_packet_are_matched() {
        let mut nic = Nic::new(&NicConfig { queues: 4, ..NicConfig::default() }).unwrap();
        let mut worker = nic.worker();
        let (region, mut burst) = Region::new(3, 100).unwrap();
        for (queue, text) in [
            (1, "meta data is 0 / tag data is 0 index is 2"),
            (2, "meta data spec 0x100 data mask 0xff00"),
            (3, "eth / tag data spec 7 data mask 3 index is 2"),
        ] {
            let (pattern, actions) = (pattern(text), [Action::Queue(queue)]);
            nic.create(&Rule { group: 0, priority: 0, pattern, actions: &actions }).unwrap();
        }
        worker.begin(&region, &burst);
        worker.lines.set_meta(1, 0x1ff, u32::MAX);
        worker.lines.set_tag(2, 2, 0xb, u32::MAX);
        assert_eq!(worker.match_groups(&region, &mut burst), 0);
        assert_eq!(burst.iter().map(|desc| desc.queue).collect::<Vec<_>>(), [1, 2, 3]);
    }
}
