//! The pipeline of one core: parse, match in groups, act, RSS; one burst at a time.
//!
//! # Why a worker knows every group that it is led to
//!
//! Rules change while a worker runs. It takes a list of the groups when a burst begins. With that
//! list alone, a rule that is updated during the burst could lead to a newer group, and the packet
//! would miss. So:
//!
//! - The control side publishes the list with a group and its tables (`groups`, then `version`,
//!   Release) before it stores a word that leads there (Release).
//! - The worker reads a word (Acquire). Before it looks into the group that the word leads to, it
//!   reads `version` (Acquire) and, if that changed, `groups`. A worker that has read the word sees
//!   everything that was published before it: its list is at least as new as the word.
//! - If the list is so new that the group was removed again, the group's place is empty. The group
//!   was removed because no word led to it and it had no rule, so a look-up in it would have missed
//!   too.
//! - No other group is at that place: a place is reused only after a grace period, and this burst
//!   is not over.
//!
//! The worker takes the list of contexts (`rss::contexts`) together with that of the groups, after
//! it has read the word that names a context: a rule's word, or the port's, which is read once when
//! the burst begins. A context stays in the list for a grace period after the last word that named
//! it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use niclab_table::{Generation, Participant};

use crate::action_executor::{ActionEnv, ActionExecutor, DropReason};
use crate::action_word::{ActionWord, Fate};
use crate::control::{MISSES_DROPPED, SharedState};
use crate::counters::{Counters, FCS_LEN};
use crate::groups::GroupViews;
use crate::limits::BURST;
use crate::matching::{Matched, Matcher, PrunedSearch};
use crate::memory::{Desc, Frames, Region};
use crate::parsed_headers::ParsedHeaders;
use crate::rss::context::innermost;
use crate::rss::contexts::List;
use crate::rss::{Indirection, RssLevel, RssStamp};
use crate::tables::bits;

/// The version before the first list was published.
const NO_VERSION: u64 = 0;

/// The pipeline of one core. It reads what the control side publishes, and never waits.
pub struct Worker {
    shared: Arc<SharedState>,
    version: u64,
    groups: Arc<GroupViews>,
    contexts: Arc<List>,
    /// Number of the RSS context for packets that no rule matches.
    rss: u16,
    /// Packets of this burst that this context sent to queues.
    port_rss_packets: u64,
    participant: Participant,
    /// The transactions that this burst sees.
    generation: Generation,
    /// Packets that no rule matches are dropped in this burst.
    isolated: bool,
    /// The time for meters.
    now_ns: u64,
    counters: Arc<Counters>,
    headers: Box<ParsedHeaders>,
    search: Box<PrunedSearch>,
}

/// The results of the actions of a burst's rules.
struct ActionResults {
    /// Packets that no queue gets: to discard, or to send by a port.
    dropped: u64,
    /// Packets that go on in another group.
    jumped: u64,
    /// The place of that group if it is the same for all of them.
    together: Option<u16>,
    /// Packets that jump by one rule and whose place is not written yet, and that place.
    alike: (u64, u16),
    /// Packets that the RSS contexts of rules send to queues.
    rss: u64,
}

/// The packets that wait for the same group, or context, as the first one; and its place.
fn next_group(waiting: u64, places: &[u16; BURST]) -> (u64, u16) {
    let place = places.get(waiting.trailing_zeros() as usize).copied().unwrap_or(0);
    let same = bits(waiting).filter(|&i| places[i] == place).fold(0, |mask, i| mask | 1 << i);
    (same, place)
}

impl Worker {
    pub(crate) fn new(shared: Arc<SharedState>, counters: Arc<Counters>) -> Worker {
        Worker {
            version: NO_VERSION,
            groups: Arc::default(),
            contexts: Arc::default(),
            rss: 0,
            port_rss_packets: 0,
            participant: shared.domain.register_reader(),
            generation: Generation::default(),
            isolated: false,
            now_ns: 0,
            counters,
            headers: Box::new(ParsedHeaders::new()),
            search: Box::default(),
            shared,
        }
    }

    /// Classifies a burst of at most [`BURST`] frames of `region`: sets queue, hash, flag and mark
    /// of each frame. Returns the frames that no queue gets because of a rule (bit i for
    /// `burst[i]`). The caller discards each of them, or sends it by the port that [`Desc::port`]
    /// returns.
    ///
    /// Memory of destroyed rules is reused only after a call of this on every online worker.
    ///
    /// # Panics
    /// If this worker is offline: the rules that it would read may have been replaced.
    #[inline]
    pub fn classify(&mut self, region: &Region, burst: &mut [Desc]) -> u64 {
        self.begin(region, burst);
        burst.iter_mut().for_each(Desc::clear_flags);
        self.match_groups(region, burst)
    }

    /// Ends the last burst, takes the newest groups and reads the headers of this one.
    #[inline]
    pub(crate) fn begin(&mut self, frames: &impl Frames, burst: &[Desc]) {
        // A group without rules, or with the empty mask alone, reads no table, which would refuse.
        assert!(self.participant.is_online(), "an offline worker classifies; call `online` first");
        self.participant.quiescent();
        // Groups and tables of a transaction were published before its generation.
        self.generation = self.shared.versions.generation();
        let misses = self.shared.misses.load(Ordering::Acquire);
        self.isolated = self.shared.versions.resolve(misses, self.generation) == MISSES_DROPPED;
        let rss = self.shared.rss.load(Ordering::Acquire);
        self.rss = self.shared.versions.resolve(rss, self.generation) as u16;
        self.refresh();
        self.headers.read(frames, burst);
    }

    /// Sets the time for the next bursts, in nanoseconds from a moment that all workers share.
    /// Meters depend on this time alone. Call it once a burst if rules have meters. A time before
    /// the last one of any worker adds no tokens to a meter.
    pub fn set_time_ns(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Sets the time that ages are counted by, as [`Nic::set_time_ns`] does: for a program whose
    /// control side is idle while packets flow.
    ///
    /// [`Nic::set_time_ns`]: crate::Nic::set_time_ns
    pub fn set_age_time_ns(&self, now_ns: u64) {
        self.shared.ages.set_time_ns(now_ns);
    }

    /// Whether this worker is online.
    pub fn is_online(&self) -> bool {
        self.participant.is_online()
    }

    /// Packets of the last burst that the port's RSS sent to queues: bit i for `burst[i]`. Rules
    /// have decided about the others.
    #[inline]
    pub fn port_rss_packets(&self) -> u64 {
        self.port_rss_packets
    }

    /// The port's state of RSS in the last burst, even if that was empty, and its indirection
    /// table; `None` before the first burst.
    #[inline]
    pub fn rss(&self) -> Option<(RssStamp, &Indirection)> {
        let context = self.contexts.get(usize::from(self.rss))?.as_ref()?;
        Some((context.stamp(), context.indirection()))
    }

    /// Takes this worker offline: memory that it could read may be reused. It classifies no frame
    /// until [`Worker::online`].
    pub fn offline(&mut self) {
        self.participant.offline();
        self.version = NO_VERSION;
        (self.groups, self.contexts) = (Arc::default(), Arc::default());
    }

    /// Brings this worker back online.
    pub fn online(&mut self) {
        self.participant.online();
    }

    /// Takes the newest groups and contexts; call it after you have read the word that leads to one
    /// of them.
    #[inline]
    fn refresh(&mut self) {
        let version = self.shared.version.load(Ordering::Acquire);
        if version != self.version {
            self.version = version;
            self.groups = self.shared.groups.load_full();
            self.contexts = self.shared.contexts.load_full();
        }
    }

    /// Matches packets group by group until each has its fate; returns the packets that no queue
    /// gets.
    #[inline]
    pub(crate) fn match_groups(&mut self, frames: &impl Frames, burst: &mut [Desc]) -> u64 {
        let all = u64::MAX.checked_shr(64 - burst.len() as u32).unwrap_or(0);
        let (mut here, mut place, mut waiting, mut dropped) = (all, 0, 0, 0);
        let mut places = [0; BURST];
        let mut words = [0; BURST];
        self.port_rss_packets = 0;
        while here != 0 {
            let matched = match self.groups.get(usize::from(place)) {
                None => Matched::default(),
                Some(group) => {
                    let mut matcher = Matcher {
                        shared: &self.shared,
                        participant: &self.participant,
                        generation: self.generation,
                        headers: &mut self.headers,
                        search: &mut self.search,
                        frames,
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
                    self.port_rss_packets |= missed;
                    self.apply_rss(self.rss, missed, frames, burst);
                }
            }
            let results = self.act(frames, burst, &matched, &mut words, &mut places);
            dropped |= results.dropped;
            if results.rss != 0 {
                self.apply_rss_contexts(results.rss, &places, frames, burst);
            }
            if waiting != 0 || results.together.is_none() {
                let (alike, to) = results.alike;
                bits(alike).for_each(|i| places[i] = to);
            }
            waiting |= results.jumped;
            (here, place) = match results.together {
                // All waiting packets go to the same group, as in a group chain.
                Some(together) if waiting == results.jumped => (waiting, together),
                _ => next_group(waiting, &places),
            };
            waiting &= !here;
            if here != 0 {
                self.refresh();
            }
        }
        dropped
    }

    /// Sends packets to queues by the RSS contexts of their rules, each context's at once.
    fn apply_rss_contexts(
        &mut self,
        mut wanted: u64,
        contexts: &[u16; BURST],
        frames: &impl Frames,
        burst: &mut [Desc],
    ) {
        self.refresh();
        while wanted != 0 {
            let (same, context) = next_group(wanted, contexts);
            self.apply_rss(context, same, frames, burst);
            wanted &= !same;
        }
    }

    /// Sends packets to queues by the RSS context of this number.
    #[inline]
    fn apply_rss(&mut self, context: u16, wanted: u64, frames: &impl Frames, burst: &mut [Desc]) {
        // A number that was read has a context: see `rss::contexts`.
        if let (1.., Some(Some(context))) = (wanted, self.contexts.get(usize::from(context))) {
            match context.level() {
                RssLevel::Inner => {
                    self.headers.deepen(frames, burst, wanted);
                    let keys = innermost(self.headers.outer(), self.headers.inner(), wanted);
                    context.steer_packets(&keys, wanted, burst);
                }
                RssLevel::Outermost => context.steer_packets(self.headers.outer(), wanted, burst),
            }
        }
    }

    /// Carries out the actions of the matching rules.
    #[inline]
    fn act(
        &mut self,
        frames: &impl Frames,
        burst: &mut [Desc],
        matched: &Matched,
        words: &mut [u64; BURST],
        places: &mut [u16; BURST],
    ) -> ActionResults {
        let mut results =
            ActionResults { dropped: 0, jumped: 0, together: None, alike: (0, 0), rss: 0 };
        let mut found = matched.found;
        match ActionWord(matched.word) {
            // In a group chain, all of them go on at once.
            word if !word.counts()
                && let Fate::Jump(to) = word.fate() =>
            {
                results.alike = (matched.rest, to);
                results.jumped = matched.rest;
                results.together = (matched.rest != 0).then_some(to);
            }
            word => {
                bits(matched.rest).for_each(|i| words[i] = word.0);
                found |= matched.rest;
            }
        }
        for i in bits(found) {
            let word = ActionWord(words[i]);
            if word.counts() {
                self.counters.add(word.rule(), u64::from(burst[i].len()) + FCS_LEN);
            }
            let mut fate = word.fate();
            if let Fate::ActionList(number) = fate {
                fate = self.execute_actions(word, number, frames, &mut burst[i], i);
            }
            match fate {
                Fate::Queue(queue) => burst[i].queue = queue,
                Fate::Drop | Fate::ActionList(_) => results.dropped |= 1 << i,
                Fate::Port(port) => {
                    burst[i].set_port(port);
                    results.dropped |= 1 << i;
                }
                Fate::Jump(to) => {
                    let first = results.jumped == 0;
                    places[i] = to;
                    results.jumped |= 1 << i;
                    results.together =
                        results.together.filter(|&t| t == to).or(first.then_some(to));
                }
                Fate::Rss(context) => {
                    places[i] = context;
                    results.rss |= 1 << i;
                }
            }
        }
        results
    }

    /// Carries out an action list on packet `i` of a burst; returns the packet's fate.
    #[inline(never)]
    fn execute_actions(
        &mut self,
        word: ActionWord,
        number: u32,
        frames: &impl Frames,
        desc: &mut Desc,
        i: usize,
    ) -> Fate {
        let (fate, mut steps) = self.shared.action_lists.read(number);
        let env = ActionEnv { shared: &self.shared, word, now_ns: self.now_ns };
        let mut executor = ActionExecutor::new(frames, desc, &mut self.headers, i);
        while let Some(step) = steps.next() {
            match executor.execute(step, &mut steps, &env) {
                Ok(()) => {}
                Err(DropReason::Exceeds) => return Fate::Drop,
                Err(DropReason::NoHeadroom) => {
                    self.counters.add_headroom_drop();
                    return Fate::Drop;
                }
            }
        }
        if executor.is_changed && matches!(fate, Fate::Jump(_) | Fate::Rss(_)) {
            // Later groups match the changed packet, and RSS hashes it.
            self.headers.reread(i, frames.frame(desc));
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
        worker.begin(&*region, &burst);
        create(&mut nic, 1, 1, one, Action::Queue(2));
        nic.update(rule, &[Action::Jump(1)]).unwrap();
        assert_eq!(worker.match_groups(&*region, &mut burst), 0);
        assert_eq!(burst[0].queue, 2, "the group is newer than the burst");

        nic.update(rule, &[Action::Queue(1)]).unwrap();
        worker.begin(&*region, &burst);
        create(&mut nic, 1, 0, other, Action::Queue(3));
        nic.update(rule, &[Action::Jump(1)]).unwrap();
        assert_eq!(worker.match_groups(&*region, &mut burst), 0);
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

    /// The first rule that needs more than the outer headers is created after the burst began.
    #[test]
    fn a_rule_created_during_a_burst_finds_its_header_keys() {
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
        worker.begin(&*region, &burst);
        let text = "ipv4 / udp / vxlan vni is 1 / eth / ipv4 ttl is 9";
        create(&mut nic, 1, text, Action::Queue(3));
        create(&mut nic, 1, "ipv4 / udp / vxlan / ipv4 ttl is 9", Action::Queue(2));
        nic.update(rule, &[Action::Jump(1)]).unwrap();
        assert_eq!(worker.match_groups(&*region, &mut burst), 0);
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
        worker.begin(&*region, &burst);
        worker.headers.set_meta(1, 0x1ff, u32::MAX);
        worker.headers.set_tag(2, 2, 0xb, u32::MAX);
        assert_eq!(worker.match_groups(&*region, &mut burst), 0);
        assert_eq!(burst.iter().map(|desc| desc.queue).collect::<Vec<_>>(), [1, 2, 3]);
    }
}
