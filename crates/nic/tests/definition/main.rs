//! The NIC against the definition of its rules: every packet, and every count.
//!
//! Random rules are compiled and created, changed and destroyed; random bursts, of built frames and
//! of damaged ones, go through the NIC and frame by frame through the definition, while the port's
//! RSS changes. Values are drawn
//! from small sets, zeros among them, so that rules overlap and frames meet them; how often they do
//! is asserted.

mod actions;
mod frames;
mod overlap;
mod rules;
mod spread;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use niclab_nic::definition::{DefinedMeter, DefinedRule, Definition, Packet, Verdict};
use niclab_nic::limits::{BURST, PORTS_MAX};
use niclab_nic::memory::{Desc, Region};
use niclab_nic::rss::Rss;
use niclab_nic::rule::compile::pattern;
use niclab_nic::rule::item::{IMAGE_LEN, Item, ItemMatch};
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, RuleError, RuleId, Worker};
use niclab_packet::LayerKind;
use niclab_packet::stack::{Span, walk};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

const QUEUES: u16 = 4;
/// Ethernet ports, as many as there can be.
const PORTS: u16 = PORTS_MAX;
/// Groups that rules stand in; jumps lead there and to two more.
const GROUPS: u32 = 4;
/// What a frame has that was not hashed.
const NO_HASH: u32 = 0xdead_beef;

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Port(u16),
    Queue(u16),
}

/// How packets come to the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Bursts,
    OneByOne,
}

/// What a generated step does.
#[derive(Clone, Debug)]
enum Step {
    Create(Written),
    Destroy(prop::sample::Index),
    Update(prop::sample::Index, Vec<Action>),
    Burst(Vec<Vec<u8>>),
    Isolate(bool),
    /// So many seconds pass.
    Pass(u64),
    Spread(Rss),
}

/// A rule as it is written.
#[derive(Clone, Debug)]
struct Written {
    group: u32,
    priority: u32,
    items: Vec<ItemMatch>,
    actions: Vec<Action>,
}

/// Actions of a rule in a group, with meters or without.
fn all_actions(group: u32, metered: bool) -> impl Strategy<Value = Vec<Action>> {
    let fate = prop_oneof![
        2 => (0..QUEUES).prop_map(Action::Queue),
        2 => spread::action().prop_map(|action| Action::Rss(Box::new(action))),
        1 => Just(Action::Drop),
        1 => (0..PORTS).prop_map(Action::Port),
        3 => (group + 1..=group + 2).prop_map(Action::Jump),
    ];
    let count = prop_oneof![3 => Just(0), 2 => 1..4usize, 1 => 4..8usize];
    let other = move || match metered {
        true => actions::metered().boxed(),
        false => actions::any().boxed(),
    };
    let others = count.prop_flat_map(move |count| prop::collection::vec(other(), count));
    (fate, others, any::<prop::sample::Index>()).prop_map(|(fate, mut actions, place)| {
        // A rule has one age.
        let mut ages = 0;
        actions.retain(|action| {
            ages += u32::from(matches!(action, Action::Age(_)));
            ages < 2 || !matches!(action, Action::Age(_))
        });
        actions.insert(place.index(actions.len() + 1), fate);
        actions
    })
}

/// A rule, as often as not one that some frame of the pool is likely to match.
fn written(pool: &[Vec<u8>], order: Order) -> impl Strategy<Value = Written> + use<> {
    // Most in the root, where all frames come by.
    let group = prop_oneof![3 => Just(0), 2 => 1..GROUPS];
    let like = prop::sample::select(pool.to_vec()).prop_flat_map(|frame| rules::items_like(&frame));
    let items = prop_oneof![1 => rules::items().boxed(), 1 => like.boxed()];
    (group, 0..3u32, items).prop_flat_map(move |(group, priority, items)| {
        // In group 0 packets of a burst are met in their order, in later ones they need not be.
        all_actions(group, group == 0 || order == Order::OneByOne).prop_map(move |actions| {
            let items = items.clone();
            Written { group, priority, items, actions }
        })
    })
}

fn steps(order: Order) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(frames::frame(), 8)
        .prop_flat_map(move |pool| prop::collection::vec(step(&pool, order), 1..80))
}

fn step(pool: &[Vec<u8>], order: Order) -> impl Strategy<Value = Step> + use<> {
    let updates = all_actions(GROUPS, order == Order::OneByOne);
    let index = any::<prop::sample::Index>;
    let frame = prop_oneof![
        1 => frames::frame().boxed(),
        1 => prop::sample::select(pool.to_vec()).boxed(),
    ];
    prop_oneof![
        8 => written(pool, order).prop_map(Step::Create),
        2 => index().prop_map(Step::Destroy),
        2 => (index(), updates).prop_map(|(at, actions)| Step::Update(at, actions)),
        2 => prop::collection::vec(frame, 1..=BURST).prop_map(Step::Burst),
        1 => prop::bool::weighted(0.2).prop_map(Step::Isolate),
        2 => (0..3u64).prop_map(Step::Pass),
        1 => spread::rss().prop_map(Step::Spread),
    ]
}

/// How often it happened, over all cases.
#[derive(Default)]
struct Met {
    created: Cell<u32>,
    refused: Cell<u32>,
    dropped: Cell<u32>,
    /// By a meter.
    exceeded: Cell<u32>,
    queued: Cell<u32>,
    /// By a port.
    sent: Cell<u32>,
    missed: Cell<u32>,
    /// Packets that rules of a tunnel counted.
    inside: Cell<u64>,
    /// And rules with `raw`, behind a header or not.
    raw: Cell<u64>,
    /// And rules with a range of something but a port.
    ranged: Cell<u64>,
    /// And rules with this item.
    by_item: RefCell<HashMap<Item, u64>>,
    marked: Cell<u32>,
    changed: Cell<u32>,
    /// Their checksums were right.
    right: Cell<u32>,
    /// Rules that were aged, and those that were not.
    aged: Cell<u32>,
    young: Cell<u32>,
    /// They have a hash.
    hashed: Cell<u32>,
}

fn raise(cell: &Cell<u32>) {
    cell.set(cell.get() + 1);
}

/// The NIC and the definition side by side.
struct Bench<'a> {
    nic: Nic,
    worker: Worker,
    definition: Definition,
    /// The NIC's name of each rule of the definition.
    ids: Vec<RuleId>,
    region: std::sync::Arc<Region>,
    descs: Vec<Desc>,
    order: Order,
    met: &'a Met,
}

/// A region and its frames.
type Frames = (std::sync::Arc<Region>, Vec<Desc>);

thread_local! {
    /// Frames of cases that are over: a process makes only so many regions, and cases are more.
    static FREE: RefCell<Vec<Frames>> = const { RefCell::new(Vec::new()) };
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        let descs = std::mem::take(&mut self.descs);
        if descs.len() == BURST {
            FREE.with_borrow_mut(|free| free.push((self.region.clone(), descs)));
        }
    }
}

impl Bench<'_> {
    fn new(met: &Met) -> Bench<'_> {
        let config = NicConfig { queues: QUEUES, ports: PORTS, ..NicConfig::default() };
        let mut nic = Nic::new(&config).unwrap();
        for (number, meter) in (0..).zip(&actions::METERS) {
            nic.create_meter(number, meter).unwrap();
        }
        let meters = (0..).zip(actions::METERS.map(|meter| DefinedMeter::new(meter, 0))).collect();
        let worker = nic.worker();
        let free = FREE.with_borrow_mut(Vec::pop);
        let (region, descs) = free.unwrap_or_else(|| Region::new(BURST, frames::LEN_MAX).unwrap());
        let rss = nic.rss().clone();
        let (queues, order) = (QUEUES, Order::Bursts);
        let definition = Definition { rss, queues, meters, ..Definition::default() };
        Bench { nic, worker, definition, ids: Vec::new(), region, descs, order, met }
    }

    fn take(&mut self, step: &Step) {
        let count = self.ids.len();
        match step {
            Step::Create(written) => self.create(written),
            Step::Destroy(index) if count > 0 => {
                let at = index.index(count);
                let (id, rule) = (self.ids.remove(at), self.definition.rules.remove(at));
                self.check_counts(id, &rule);
                self.nic.destroy(id).unwrap();
                assert_eq!(self.nic.destroy(id), Err(RuleError::Unknown(id)));
            }
            Step::Update(index, actions) if count > 0 => {
                let at = index.index(count);
                self.nic.update(self.ids[at], actions).unwrap();
                let now_ns = self.definition.now_ns;
                self.definition.rules[at].set_actions(actions.clone(), now_ns);
                self.definition.rules[at].rss = self.definition.rss.clone();
            }
            Step::Burst(frames) => match self.order {
                Order::Bursts => self.burst(frames),
                Order::OneByOne => frames.chunks(1).for_each(|frames| self.burst(frames)),
            },
            Step::Isolate(on) => {
                self.nic.isolate(*on).unwrap();
                self.definition.isolated = *on;
            }
            Step::Pass(seconds) => self.pass(*seconds),
            Step::Spread(rss) => {
                self.nic.set_rss(rss).unwrap();
                assert_eq!(self.nic.rss(), rss);
                self.definition.rss = rss.clone();
            }
            Step::Destroy(_) | Step::Update(..) => {}
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.definition.now_ns += seconds * 1_000_000_000;
        self.nic.set_time_ns(self.definition.now_ns);
        // Meters have a time of their own.
        self.definition.metered_ns = self.definition.now_ns / 3;
        self.worker.set_time_ns(self.definition.metered_ns);
        let rules = self.ids.iter().zip(&self.definition.rules);
        let is_aged = |rule: &DefinedRule| rule.age(self.definition.now_ns).is_some_and(|a| a.1);
        let aged: HashSet<RuleId> =
            rules.filter(|(_, rule)| is_aged(rule)).map(|(id, _)| *id).collect();
        let young = |rule: &&DefinedRule| {
            rule.last_hit_ns > 0 && rule.age(self.definition.now_ns).is_some_and(|age| !age.1)
        };
        let young = self.definition.rules.iter().filter(young).count();
        self.met.young.set(self.met.young.get() + young as u32);
        assert_eq!(self.nic.aged().into_iter().collect::<HashSet<_>>(), aged);
        self.met.aged.set(self.met.aged.get() + aged.len() as u32);
    }

    fn check_counts(&self, id: RuleId, rule: &DefinedRule) {
        assert_eq!(self.nic.query(id), Ok(rule.counts));
        let age = self.nic.age(id).unwrap().map(|age| (age.idle_ns, age.is_aged()));
        assert_eq!(age, rule.age(self.definition.now_ns));
        for item in &rule.items {
            let mut by_item = self.met.by_item.borrow_mut();
            *by_item.entry(item.item).or_default() += rule.counts.packets;
        }
        let tunnels = [Item::Gre, Item::Vxlan, Item::Geneve, Item::Mpls];
        if rule.items.iter().any(|item| tunnels.contains(&item.item)) {
            self.met.inside.set(self.met.inside.get() + rule.counts.packets);
        }
        if rule.items.iter().any(|item| item.item == Item::Raw) {
            self.met.raw.set(self.met.raw.get() + rule.counts.packets);
        }
        let is_ranged = |item: &ItemMatch| {
            let fields = item.item.fields().iter().filter(|field| item.has_range(field));
            fields.count() > 0 && !matches!(item.item, Item::Tcp | Item::Udp)
        };
        if rule.items.iter().any(is_ranged) {
            self.met.ranged.set(self.met.ranged.get() + rule.counts.packets);
        }
    }

    /// Creates a rule on both sides, where it can be compiled and there is no other like it.
    fn create(&mut self, written: &Written) {
        let Written { group, priority, items, actions } = written.clone();
        let Ok(pattern) = pattern(&items) else { return raise(&self.met.refused) };
        let same = |rule: &&DefinedRule| (rule.group, rule.priority) == (group, priority);
        let mut alike = self.definition.rules.iter().filter(same);
        let rule = Rule { group, priority, pattern, actions: &actions };
        match self.nic.create(&rule) {
            Ok(id) => {
                assert!(alike.all(|rule| plain(&rule.items) != plain(&items)), "{items:?} twice");
                let rss = self.definition.rss.clone();
                let rule = DefinedRule { group, priority, items, rss, ..DefinedRule::default() };
                self.definition.rules.push(rule);
                let last = self.definition.rules.last_mut();
                last.unwrap().set_actions(actions, self.definition.now_ns);
                self.ids.push(id);
                raise(&self.met.created);
            }
            Err(error) => {
                let RuleError::Duplicate { of, .. } = error else { panic!("{error}") };
                assert_eq!(error, RuleError::Duplicate { group, priority, of });
                let mut twins = self.ids.iter().zip(&self.definition.rules);
                let (_, twin) = twins.find(|(id, _)| **id == of).unwrap();
                assert!(same(&twin), "another group or priority");
                assert_eq!(self::pattern(&twin.items).as_ref(), Ok(&rule.pattern));
            }
        }
    }

    fn burst(&mut self, frames: &[Vec<u8>]) {
        let met = self.met;
        let found = self.outcomes(frames);
        // With the first two anything can become a header, with the others what `walk` does not
        // read behind many extension headers.
        let is_raw = |action: &Action| {
            use Action::{NvgreDecap, RawDecap, RawEncap, VxlanDecap};
            matches!(action, RawEncap(_) | RawDecap(_) | VxlanDecap | NvgreDecap)
        };
        let raw = self.definition.rules.iter().any(|rule| rule.actions.iter().any(is_raw));
        for (frame, found) in frames.iter().zip(found) {
            let mut packet = Packet::new(frame);
            let (expected, happened) = match self.definition.classify(&mut packet) {
                Verdict::Drop => (None, &met.dropped),
                Verdict::Exceed => (None, &met.exceeded),
                Verdict::Port(port) => (Some((Way::Port(port), NO_HASH)), &met.sent),
                Verdict::Queue(queue) => (Some((Way::Queue(queue), NO_HASH)), &met.queued),
                Verdict::Rss { hash, queue } => (Some((Way::Queue(queue), hash)), &met.missed),
            };
            raise(happened);
            if packet.mark.is_some() {
                raise(&met.marked);
            }
            if packet.frame != *frame {
                raise(&met.changed);
            }
            if !raw && is_right(frame) {
                raise(&met.right);
                assert!(walk(&packet.frame).checksum_errors().is_empty(), "{frame:02x?}");
            }
            if expected.is_some_and(|(_, hash)| ![0, NO_HASH].contains(&hash)) {
                raise(&met.hashed);
            }
            let expected = expected.map(|(way, hash)| (way, hash, packet));
            assert_eq!(found, expected, "{frame:02x?}\nby {:#?}", self.definition);
        }
    }

    /// The way and hash of each frame and what was made of it, as the worker says; `None` where a
    /// rule drops it.
    fn outcomes(&mut self, frames: &[Vec<u8>]) -> Vec<Option<(Way, u32, Packet)>> {
        let (region, descs) = (&self.region, &mut self.descs[..frames.len()]);
        for (desc, frame) in descs.iter_mut().zip(frames) {
            region.slot_mut(desc)[..frame.len()].copy_from_slice(frame);
            region.set_len(desc, frame.len() as u16);
            (desc.queue, desc.hash) = (u16::MAX, NO_HASH);
        }
        let dropped = self.worker.classify(region, descs);
        let outcome = |(i, desc): (usize, &Desc)| {
            let (frame, mark) = (region.frame(desc).to_vec(), region.mark(desc));
            let packet = Packet { frame, flagged: desc.is_flagged(), mark };
            let way = match (dropped >> i & 1 == 1, desc.port()) {
                (true, port) => Way::Port(port?),
                (false, port) => {
                    assert_eq!(port, None, "a queue gets it");
                    Way::Queue(desc.queue)
                }
            };
            Some((way, desc.hash, packet))
        };
        descs.iter().enumerate().map(outcome).collect()
    }
}

/// Whether a frame's checksums are right, and are those of the protocols: what a cut-off header
/// hides may come to light, and ICMPv6 over IPv4 has no checksum that anybody defines.
fn is_right(frame: &[u8]) -> bool {
    let stack = walk(frame);
    let odd = |pair: &[Span]| pair[0].kind == LayerKind::Ipv4 && pair[1].kind == LayerKind::Icmpv6;
    let odd = stack.spans().windows(2).any(odd);
    !odd && stack.missing_len() == 0 && stack.checksum_errors().is_empty()
}

/// What counts of items: without the values that no mask asks for and ends that make no range, and
/// without an `eth` that stands first and says nothing.
fn plain(items: &[ItemMatch]) -> Vec<ItemMatch> {
    let masked = |item: &ItemMatch| {
        let spec = std::array::from_fn(|at| item.spec[at] & item.mask[at]);
        let mut last = [0; IMAGE_LEN];
        for field in item.item.fields().iter().filter(|field| item.has_range(field)) {
            field.put(&mut last, item.last.as_ref().map_or(0, |last| field.value(last)));
        }
        ItemMatch { spec, last: (last != [0; IMAGE_LEN]).then_some(last), ..*item }
    };
    let says_nothing = |item: &ItemMatch| item.item == Item::Eth && item.mask == [0; IMAGE_LEN];
    let bare = items.first().is_some_and(says_nothing);
    items.iter().map(masked).skip(usize::from(bare)).collect()
}

#[test]
fn every_packet_meets_the_rules_that_the_definition_finds() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let met = Met::default();
    TestRunner::new_with_rng(config, rng)
        .run(&steps(Order::Bursts), |steps| {
            let mut bench = Bench::new(&met);
            steps.iter().for_each(|step| bench.take(step));
            prop_assert_eq!(bench.nic.len() as usize, bench.ids.len());
            for (id, rule) in bench.ids.iter().zip(&bench.definition.rules) {
                bench.check_counts(*id, rule);
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let Met { created, refused, dropped, queued, missed, inside, .. } = &met;
    let Met { marked, changed, right, hashed, .. } = &met;
    let [created, refused, dropped, queued, missed, marked, changed, right, hashed] =
        [created, refused, dropped, queued, missed, marked, changed, right, hashed].map(Cell::get);
    let (inside, raw, ranged) = (inside.get(), met.raw.get(), met.ranged.get());
    let [aged, young] = [&met.aged, &met.young].map(Cell::get);
    let text = format!(
        "{created} rules created, {refused} refused; {dropped} frames dropped, {queued} queued, \
         {missed} missed, {marked} marked, {changed} changed, {right} right, {hashed} hashed, \
         {inside} inside, {raw} by raw, {ranged} in ranges; rules {aged} times aged, {young} young"
    );
    println!("{text}");
    let (sent, exceeded) = (met.sent.get(), met.exceeded.get());
    let frames = dropped + queued + missed + sent + exceeded;
    assert!(sent > frames / 40 && exceeded > 100, "{sent} and {exceeded} of {text}");
    assert!(refused < created, "{text}");
    assert!(hashed > missed / 3, "{text}");
    assert!(dropped > frames / 20 && queued > frames / 10 && missed > frames / 10, "{text}");
    assert!(inside > u64::from(frames) / 2_500, "{text}");
    assert!(raw > u64::from(frames) / 300 && ranged > u64::from(frames) / 4_000, "{text}");
    assert!(marked > frames / 30 && changed > frames / 10, "{text}");
    assert!(right > frames / 10, "{text}");
    assert!(aged > created / 10 && young > created / 20, "{text}");
}

/// Rules that name headers that few frames have, each with its fields, and frames that have them.
#[test]
fn packets_with_less_common_headers_meet_the_rules_that_the_definition_finds() {
    use Item::{Ah, ArpEthIpv4, Esp, Gtp, GtpPsc, Gtpc, Gtpu, Ipv6FragExt, Nvgre};
    use Item::{Pppoed, Pppoes, Sctp, VxlanGpe};
    let met = Met::default();
    let cases = prop::collection::vec(frames::less_common(), 8).prop_flat_map(|pool| {
        let like = prop::sample::select(pool.clone());
        let like = like.prop_flat_map(|frame| rules::items_like(&frame));
        let items = prop_oneof![1 => rules::items().boxed(), 5 => like.boxed()];
        (Just(pool), prop::collection::vec((items, 0..3u32), 1..24))
    });
    let config = Config { cases: 1_500, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng)
        .run(&cases, |(pool, rules)| {
            let mut bench = Bench::new(&met);
            for (at, (items, priority)) in rules.into_iter().enumerate() {
                // The first rule of a packet says which headers were found.
                let actions = vec![Action::Count, Action::Queue(at as u16 % QUEUES)];
                bench.create(&Written { group: 0, priority, items, actions });
                bench.burst(&pool);
            }
            for (id, rule) in bench.ids.iter().zip(&bench.definition.rules) {
                bench.check_counts(*id, rule);
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let by_item = met.by_item.borrow();
    let items = [Ah, ArpEthIpv4, Esp, Gtp, GtpPsc, Gtpc, Gtpu, Ipv6FragExt, Nvgre];
    for item in items.into_iter().chain([Pppoed, Pppoes, Sctp, VxlanGpe]) {
        let packets = by_item.get(&item).copied().unwrap_or(0);
        assert!(packets > 25, "{packets} packets by rules with {item:?}: {by_item:?}");
    }
    assert!(met.ranged.get() > 100, "{} packets by rules with ranges", met.ranged.get());
}

#[test]
fn meters_of_all_groups_meet_packets_that_come_one_by_one() {
    let met = Met::default();
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config { cases: 500, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, rng)
        .run(&steps(Order::OneByOne), |steps| {
            let mut bench = Bench::new(&met);
            bench.order = Order::OneByOne;
            steps.iter().for_each(|step| bench.take(step));
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let [exceeded, queued] = [&met.exceeded, &met.queued].map(Cell::get);
    assert!(exceeded > 500 && queued > 1_000, "{exceeded} exceed a meter, {queued} queued");
}

/// What a rule of group 1 asks for: metadata, or a tag.
fn note() -> impl Strategy<Value = Vec<ItemMatch>> {
    let last = prop::option::of((0..9u32).prop_map(|more| more * more));
    (0..5u8, actions::bits(), last).prop_map(|(which, (data, mask), last)| {
        let mut item = ItemMatch::any(if which == 0 { Item::Meta } else { Item::Tag });
        let mut put = |name, data: u32, mask: u32| {
            let field = item.item.field(name).unwrap();
            field.put(&mut item.spec, data.into());
            field.put(&mut item.mask, mask.into());
        };
        put("data", data & mask, mask);
        if which > 0 {
            put("index", u32::from(which) - 1, u32::from(u8::MAX));
        }
        if let Some(more) = last {
            // A range is under a prefix.
            item.mask[..4].copy_from_slice(&(u32::MAX << (more % 5)).to_be_bytes());
            let mut image = [0; IMAGE_LEN];
            image[..4].copy_from_slice(&(data & mask).saturating_add(more).to_be_bytes());
            image[4] = item.spec[4];
            item.last = Some(image);
        }
        vec![item]
    })
}

#[test]
fn marks_and_tags_of_rules_are_matched_in_later_groups() {
    let met = Met::default();
    let notes = prop::collection::vec(actions::notes(), 0..6);
    let rules = prop::collection::vec((note(), 0..3u32, 0..QUEUES), 1..12);
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config { cases: 300, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, rng)
        .run(&(notes, rules), |(mut actions, rules)| {
            let mut bench = Bench::new(&met);
            actions.push(Action::Jump(1));
            bench.create(&Written { group: 0, priority: 0, items: Vec::new(), actions });
            for (items, priority, queue) in rules {
                let actions = vec![Action::Queue(queue)];
                bench.create(&Written { group: 1, priority, items, actions });
            }
            bench.burst(&[vec![0; 60], vec![1; 60]]);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(met.queued.get() > 100 && met.missed.get() > 20, "{:?}", (met.queued, met.missed));
}

/// The frames that a NIC with these rules, one a group, makes of frames; no frame may be dropped.
fn rewritten(groups: &[Vec<Action>], frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let met = Met::default();
    let mut bench = Bench::new(&met);
    for (group, actions) in (0..).zip(groups) {
        let rule = Rule { group, priority: 0, pattern: Pattern::any(), actions };
        bench.nic.create(&rule).unwrap();
    }
    let outcomes = bench.outcomes(frames);
    outcomes.into_iter().map(|outcome| outcome.unwrap().2.frame).collect()
}

#[test]
fn a_packet_that_leaves_a_tunnel_is_the_one_that_entered_it() {
    // As many as there are starts of frames within slots, and more.
    let inside: Vec<Vec<u8>> = (60..80u8).map(|len| (0..len).collect()).collect();
    for which in 0..4 {
        let headers = actions::tunnel_headers(which);
        let leave = if which < 2 { Action::VxlanDecap } else { Action::NvgreDecap };
        let other = if which < 2 { Action::NvgreDecap } else { Action::VxlanDecap };
        let enter = match which < 2 {
            true => Action::VxlanEncap(headers.clone().into()),
            false => Action::NvgreEncap(headers.clone().into()),
        };
        let outer = rewritten(&[vec![enter.clone(), Action::Queue(0)]], &inside);
        for (outer, inside) in outer.iter().zip(&inside) {
            let stack = walk(outer);
            assert_eq!((stack.missing_len(), stack.checksum_errors()), (0, vec![]), "{stack:?}");
            assert_eq!(outer.len(), headers.len() + inside.len());
            assert_eq!(outer[headers.len()..], inside[..]);
        }
        let jump = Action::Jump(1);
        let both =
            [vec![enter.clone(), jump], vec![other.clone(), leave.clone(), Action::Queue(0)]];
        assert_eq!(rewritten(&both, &inside), inside, "in two groups");
        let [one, two] = [enter.clone(), enter];
        let twice = vec![one, two, leave.clone(), other, leave, Action::Queue(0)];
        assert_eq!(rewritten(&[twice], &inside), inside, "a tunnel in a tunnel");
    }
}

#[test]
fn a_packet_without_room_for_a_header_is_dropped_and_counted_as_such() {
    let met = Met::default();
    let mut bench = Bench::new(&met);
    let encap = vec![Action::RawEncap(vec![1; 128].into()); 14];
    for (group, last) in [(0, Action::Jump(1)), (1, Action::Queue(2))] {
        let actions = &[&encap[..], &[Action::Count, last]].concat();
        let rule = Rule { group, priority: 0, pattern: Pattern::any(), actions };
        bench.ids.push(bench.nic.create(&rule).unwrap());
    }
    let outcomes = bench.outcomes(&[vec![0; 60], vec![0; 600]]);
    assert_eq!(outcomes, [None, None]);
    assert_eq!(bench.nic.headroom_drops(), 2);
    let counts = bench.ids.iter().map(|id| bench.nic.query(*id).unwrap().packets);
    assert_eq!(counts.collect::<Vec<_>>(), [2, 1], "the longer one fits no group's headers");
}
