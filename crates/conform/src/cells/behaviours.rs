//! Rules beside each other, and rules in time.

use niclab_device::rule_case::{RuleCase, RuleStep, WrittenRule};
use niclab_nic::rule::item::{Item, ItemMatch};
use niclab_nic::rule::{Action, Set};
use niclab_result::conform::ConformPart;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::actions::{changes, rss};
use super::{PlannedCase, PlannedCell, any_rule, cell, create, random_of, send};
use crate::sample::{SampleFrame, mask_of};

const NS_PER_S: u64 = 1_000_000_000;

/// Frames before a call under traffic, and after it.
const TRAFFIC: u32 = 32;

/// Flows of a case of RSS.
const FLOWS: usize = 24;

type Cases = Vec<Vec<RuleStep>>;

/// Makes the cases of a behaviour.
type Make = fn(&mut CaseMaker<'_>) -> Option<Cases>;

/// The behaviours, by their names in the matrix.
const BEHAVIOURS: [(&str, Make); 13] = [
    ("priorities", priorities),
    ("duplicates", duplicates),
    ("destroy", destroy),
    ("jumps", jumps),
    ("groups without a jump", unreached),
    ("actions in order", in_order),
    ("header changes, checksums", header_changes),
    ("counters", counters),
    ("ages", ages),
    ("rss of a rule", rss_of_rule),
    ("replace", replace),
    ("replace under traffic", replace_under_traffic),
    ("marks across a jump", marks),
];

/// Makes the samples and rules of cases.
struct CaseMaker<'r> {
    queues: u16,
    random: &'r mut Xoshiro256PlusPlus,
}

/// The cells of behaviours.
pub fn behaviour_cells(queues: u16, seed: u64) -> Vec<PlannedCell> {
    let cells = BEHAVIOURS.iter().filter_map(|(name, make)| {
        let mut random = random_of(seed, &["behaviours", name]);
        let cases = make(&mut CaseMaker { queues, random: &mut random })?;
        let cases = cases
            .into_iter()
            .map(|steps| PlannedCase { case: RuleCase { steps, effect_max_ns: 0 }, under_test: 0 });
        Some(cell(ConformPart::Behaviours, name, "", cases.collect()))
    });
    cells.collect()
}

impl CaseMaker<'_> {
    /// A queue other than queue 0 if there is one; the greatest numbers mean the same one where
    /// there are few.
    fn queue(&self, number: u16) -> Action {
        Action::Queue(number % self.queues.max(1))
    }

    fn sample(&mut self, item: Item) -> Option<SampleFrame> {
        SampleFrame::random(item, self.random)
    }

    /// A rule of the source address of a sample of IPv4, under a mask.
    fn of_source(
        sample: &SampleFrame,
        mask: u32,
        place: (u32, u32),
        actions: Vec<Action>,
    ) -> Option<WrittenRule> {
        let field = Item::Ipv4.field("src")?;
        let mut named = ItemMatch::any(Item::Ipv4);
        named.mask = mask_of(field, mask.into());
        field.put(&mut named.spec, field.value(&sample.image()?) & u128::from(mask));
        let (group, priority) = place;
        Some(WrittenRule { group, priority, items: sample.pattern(named), actions })
    }
}

/// Rules that overlap: a narrow one and a wide one, each above the other, created in either order.
fn priorities(maker: &mut CaseMaker<'_>) -> Option<Cases> {
    let sample = maker.sample(Item::Ipv4)?;
    let field = Item::Ipv4.field("src")?;
    let other = sample.with(field, field.value(&sample.image()?) ^ 1);
    let frames = [send(&sample.bytes()?), send(&other.bytes()?)];
    let mut cases = Vec::new();
    for narrow_wins in [true, false] {
        let (above, below) = if narrow_wins { (1, 2) } else { (2, 1) };
        let narrow = CaseMaker::of_source(&sample, u32::MAX, (0, above), vec![maker.queue(1)])?;
        let wide = CaseMaker::of_source(&sample, 0xffff_0000, (0, below), vec![Action::Drop])?;
        let rest = any_rule(0, 3, Action::Queue(0));
        for order in [[&narrow, &wide, &rest], [&rest, &wide, &narrow]] {
            let rules = order.into_iter().cloned().map(create);
            cases.push(rules.chain(frames.clone()).collect());
        }
    }
    Some(cases)
}

/// The same rule twice, where the device accepts that: the other one stays when one goes.
fn duplicates(maker: &mut CaseMaker<'_>) -> Option<Cases> {
    let sample = maker.sample(Item::Ipv4)?;
    let rule = CaseMaker::of_source(&sample, u32::MAX, (0, 1), vec![maker.queue(1)])?;
    let frame = sample.bytes()?;
    let steps = |gone: usize| {
        vec![
            create(any_rule(0, 2, Action::Drop)),
            create(rule.clone()),
            RuleStep::Create { rule: rule.clone(), may_fail: true },
            send(&frame),
            RuleStep::Destroy { rule: gone },
            send(&frame),
        ]
    };
    Some(vec![steps(1)])
}

/// A rule that goes leaves the others.
fn destroy(maker: &mut CaseMaker<'_>) -> Option<Cases> {
    let sample = maker.sample(Item::Ipv4)?;
    let other = maker.sample(Item::Ipv4)?;
    let rule = |sample: &SampleFrame, queue: Action| {
        CaseMaker::of_source(sample, u32::MAX, (0, 1), vec![queue])
    };
    let frames = [send(&sample.bytes()?), send(&other.bytes()?)];
    let mut steps = vec![
        create(any_rule(0, 2, Action::Drop)),
        create(rule(&sample, maker.queue(1))?),
        create(rule(&other, maker.queue(2))?),
    ];
    steps.extend(frames.clone());
    steps.push(RuleStep::Destroy { rule: 1 });
    steps.extend(frames);
    Some(vec![steps])
}

/// From group to group, one rule of which misses the frame.
fn jumps(maker: &mut CaseMaker<'_>) -> Option<Cases> {
    let sample = maker.sample(Item::Ipv4)?;
    let field = Item::Ipv4.field("src")?;
    let other = sample.with(field, field.value(&sample.image()?) ^ 1);
    let jump = |group| vec![Action::Jump(group)];
    let steps = vec![
        create(any_rule(0, 3, Action::Queue(0))),
        create(CaseMaker::of_source(&sample, 0xffff_0000, (0, 1), jump(1))?),
        create(CaseMaker::of_source(&sample, u32::MAX, (1, 1), jump(2))?),
        create(any_rule(1, 2, Action::Drop)),
        create(any_rule(2, 1, maker.queue(1))),
        send(&sample.bytes()?),
        send(&other.bytes()?),
    ];
    Some(vec![steps])
}

/// A rule of a group that nothing leads to acts on no frame.
fn unreached(maker: &mut CaseMaker<'_>) -> Option<Cases> {
    let sample = maker.sample(Item::Ipv4)?;
    let steps = vec![
        create(any_rule(0, 2, Action::Queue(0))),
        create(CaseMaker::of_source(&sample, u32::MAX, (1, 1), vec![Action::Drop])?),
        send(&sample.bytes()?),
    ];
    Some(vec![steps])
}

/// Actions whose order shows in the frame.
fn in_order(maker: &mut CaseMaker<'_>) -> Option<Cases> {
    let sample = maker.sample(Item::Ipv4)?;
    let tagged = maker.sample(Item::Vlan)?;
    let (ttl, mac) = (Action::Set(Set::Ttl(9)), Action::Set(Set::MacSrc([2, 0, 0, 0, 0, 9])));
    let lists = [
        vec![ttl.clone(), Action::DecTtl],
        vec![Action::DecTtl, ttl],
        vec![mac.clone(), Action::MacSwap],
        vec![Action::MacSwap, mac],
        vec![Action::PushVlan(0x8100), Action::Set(Set::VlanVid(77))],
        vec![Action::Mark(1), Action::Mark(2)],
    ];
    let mut cases = Vec::new();
    for mut actions in lists {
        actions.push(maker.queue(1));
        cases.push(vec![
            create(any_rule(0, 2, Action::Drop)),
            create(CaseMaker::of_source(&sample, u32::MAX, (0, 1), actions)?),
            send(&sample.bytes()?),
        ]);
    }
    // The tag that is set is the outer one, and the one that goes.
    let vid = Action::Set(Set::VlanVid(77));
    for changes in [[Action::PopVlan, Action::PushVlan(0x88a8)], [vid, Action::PushVlan(0x8100)]] {
        let actions = changes.into_iter().chain([maker.queue(1)]).collect();
        let items = tagged.pattern(ItemMatch::any(Item::Vlan));
        let rule = WrittenRule { group: 0, priority: 1, items, actions };
        let rules = [create(any_rule(0, 2, Action::Drop)), create(rule)];
        cases.push(rules.into_iter().chain([send(&tagged.bytes()?)]).collect());
    }
    Some(cases)
}

/// Several changed fields of each pair of protocols, with their checksums.
fn header_changes(maker: &mut CaseMaker<'_>) -> Option<Cases> {
    let over_ipv4 = ["set_ipv4_src", "set_ipv4_dst", "set_tp_src", "set_tp_dst", "dec_ttl"];
    let over_dscp = ["set_ipv4_dscp", "set_tp_dst", "set_ttl", "set_mac_dst", "mac_swap"];
    let mut cases = Vec::new();
    for (item, columns) in [
        (Item::Udp, over_ipv4),
        (Item::Tcp, over_ipv4),
        (Item::Udp, over_dscp),
        (Item::Tcp, over_dscp),
    ] {
        let sample = maker.sample(item)?;
        let mut actions = Vec::new();
        for column in columns {
            actions.extend(changes(column, &sample, maker.random)?);
        }
        actions.push(maker.queue(1));
        let items = sample.pattern(ItemMatch::any(item));
        let rule = WrittenRule { group: 0, priority: 1, items, actions };
        cases.push(vec![
            create(any_rule(0, 2, Action::Drop)),
            create(rule),
            send(&sample.bytes()?),
        ]);
    }
    Some(cases)
}

/// Two rules count for themselves, and go on counting with other actions.
fn counters(maker: &mut CaseMaker<'_>) -> Option<Cases> {
    let [one, two] = [maker.sample(Item::Ipv4)?, maker.sample(Item::Ipv4)?];
    let counting = |sample: &SampleFrame, queue: Action| {
        CaseMaker::of_source(sample, u32::MAX, (0, 1), vec![Action::Count, queue])
    };
    let (first, second) = (counting(&one, maker.queue(1))?, counting(&two, maker.queue(2))?);
    let (one, two) = (send(&one.bytes()?), send(&two.bytes()?));
    let count = |rule| RuleStep::Count { rule, wanted: (0, 0) };
    let steps = vec![
        create(any_rule(0, 2, Action::Drop)),
        create(first),
        create(second),
        one.clone(),
        one.clone(),
        two.clone(),
        count(1),
        count(2),
        one,
        two.clone(),
        two,
        count(1),
        count(2),
    ];
    Some(vec![steps])
}

/// A rule is aged once it was idle for long enough, and not before.
fn ages(maker: &mut CaseMaker<'_>) -> Option<Cases> {
    let sample = maker.sample(Item::Ipv4)?;
    let actions = vec![Action::Age(1), maker.queue(1)];
    let rule = CaseMaker::of_source(&sample, u32::MAX, (0, 1), actions)?;
    let frame = sample.bytes()?;
    let wait = |ns| RuleStep::Wait { ns };
    let idle = vec![
        create(any_rule(0, 2, Action::Drop)),
        create(rule),
        send(&frame),
        RuleStep::Aged,
        wait(NS_PER_S / 4),
        send(&frame),
        RuleStep::Aged,
        // Cards look for aged rules once in a while: after some three seconds in all.
        wait(4 * NS_PER_S),
        RuleStep::Aged,
    ];
    Some(vec![idle])
}

/// Flows of a rule come to its queues, each to one.
fn rss_of_rule(maker: &mut CaseMaker<'_>) -> Option<Cases> {
    if maker.queues < 2 {
        return None;
    }
    let queues: Vec<u16> = (1..maker.queues.min(3)).collect();
    let items = [Item::Eth, Item::Ipv4, Item::Udp].map(ItemMatch::any).to_vec();
    let rule = WrittenRule { group: 0, priority: 1, items, actions: vec![rss(queues)] };
    let mut steps = vec![create(any_rule(0, 2, Action::Drop)), create(rule)];
    for _ in 0..FLOWS {
        let frame = maker.sample(Item::Udp)?.bytes()?;
        // A flow has one queue.
        steps.extend([send(&frame), send(&frame)]);
    }
    Some(vec![steps])
}

/// A rule with other actions.
fn replace(maker: &mut CaseMaker<'_>) -> Option<Cases> {
    let sample = maker.sample(Item::Ipv4)?;
    let rule = |queue: Action| CaseMaker::of_source(&sample, u32::MAX, (0, 1), vec![queue]);
    let steps = vec![
        create(any_rule(0, 2, Action::Drop)),
        create(rule(maker.queue(1))?),
        send(&sample.bytes()?),
        RuleStep::Replace { rule: 1, with: rule(maker.queue(2))? },
        send(&sample.bytes()?),
    ];
    Some(vec![steps])
}

/// The same while frames flow: each meets the old or the new actions, and the last one the new.
fn replace_under_traffic(maker: &mut CaseMaker<'_>) -> Option<Cases> {
    let sample = maker.sample(Item::Ipv4)?;
    let rule = |queue: Action| CaseMaker::of_source(&sample, u32::MAX, (0, 1), vec![queue]);
    let frame = sample.bytes()?;
    let steps = vec![
        create(any_rule(0, 2, Action::Drop)),
        create(rule(maker.queue(1))?),
        send(&frame),
        RuleStep::Traffic {
            frame: frame.clone(),
            frames: TRAFFIC,
            rule: 1,
            with: rule(maker.queue(2))?,
        },
        send(&frame),
    ];
    Some(vec![steps])
}

/// A mark of one group is there behind the jump, unless a later one replaces it.
fn marks(maker: &mut CaseMaker<'_>) -> Option<Cases> {
    let sample = maker.sample(Item::Ipv4)?;
    let frame = sample.bytes()?;
    let case = |later: Vec<Action>| {
        let first = vec![Action::Mark(7), Action::Jump(1)];
        let rule = WrittenRule { actions: later, ..any_rule(1, 1, Action::Drop) };
        Some(vec![
            create(any_rule(0, 2, Action::Drop)),
            create(CaseMaker::of_source(&sample, u32::MAX, (0, 1), first)?),
            create(rule),
            send(&frame),
        ])
    };
    let queue = maker.queue(1);
    Some(vec![case(vec![queue.clone()])?, case(vec![Action::Mark(8), queue])?])
}
