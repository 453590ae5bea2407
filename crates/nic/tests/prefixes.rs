//! Longest prefixes: routes as rules whose priority is the length of their prefix, against a model
//! that knows each length's prefixes by their bits.
//!
//! Routes come, go and are re-pointed, one by one and in transactions; every packet must meet the
//! longest prefix that its address has, or none.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, RuleError, RuleId, Worker};
use niclab_packet::key::{Key, field};
use proptest::prelude::*;
use proptest::sample::Index;

const QUEUES: u16 = 250;
/// The queue of packets without a route.
const NONE: u16 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Ipv4,
    Ipv6,
}

impl Family {
    fn bits(self) -> u8 {
        if self == Family::Ipv4 { 32 } else { 128 }
    }

    fn address(self, bits: u128) -> IpAddr {
        match self {
            Family::Ipv4 => Ipv4Addr::from_bits((bits >> 96) as u32).into(),
            Family::Ipv6 => Ipv6Addr::from_bits(bits).into(),
        }
    }

    /// What matches the addresses of this family that begin with these bits.
    fn pattern(self, bits: u128, length: u8) -> Pattern {
        let whole = Pattern::any().dst(self.address(bits));
        let mut mask = whole.mask().to_bytes();
        let kept = (!behind(length)).to_be_bytes();
        mask[field::DST_HEAD].copy_from_slice(&kept[..4]);
        if self == Family::Ipv6 {
            mask[field::DST_TAIL].copy_from_slice(&kept[4..]);
        }
        Pattern::masked(whole.value(), &Key::from_bytes(&mask))
    }

    /// A packet to an address.
    fn fill(self, region: &Region, desc: &mut Desc, address: u128) {
        let frame = &mut region.slot_mut(desc)[..60];
        frame.fill(0);
        match self.address(address) {
            IpAddr::V4(address) => {
                (frame[12], frame[14], frame[23]) = (8, 0x45, 17);
                frame[30..34].copy_from_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                frame[12..14].copy_from_slice(&[0x86, 0xdd]);
                (frame[14], frame[20]) = (0x60, 59);
                frame[38..54].copy_from_slice(&address.octets());
            }
        }
        region.set_len(desc, 60);
    }
}

/// The bits behind the first `length`.
fn behind(length: u8) -> u128 {
    u128::MAX.checked_shr(length.into()).unwrap_or(0)
}

#[derive(Clone, Debug)]
enum Step {
    /// A route of these bits and this length; or inside of one that is there.
    Announce {
        bits: u128,
        length: u8,
        inside: Option<Index>,
        queue: u16,
    },
    Withdraw(Index),
    Repoint(Index, u16),
    /// The route of another prefix.
    Move(Index, u128, u8),
    Housekeeping(usize),
    /// So many of the next steps are one transaction, which is committed or dropped.
    Transaction(usize, bool),
}

fn step(family: Family) -> impl Strategy<Value = Step> {
    let index = any::<Index>;
    let queue = || 1..QUEUES;
    // Few addresses, so that prefixes lie inside of each other, that differ anywhere.
    let bits = move || {
        let shift = prop_oneof![Just(0), 0..u32::from(family.bits())];
        (any::<u128>(), shift).prop_map(move |(bits, shift)| {
            (bits >> 64 & 7).rotate_right(3 + shift) & !behind(family.bits())
        })
    };
    let length = move || prop_oneof![0..=family.bits(), Just(family.bits()), Just(0), Just(24)];
    let inside = prop::option::of(index());
    prop_oneof![
        8 => (bits(), length(), inside, queue()).prop_map(|(bits, length, inside, queue)| {
            Step::Announce { bits, length, inside, queue }
        }),
        2 => index().prop_map(Step::Withdraw),
        2 => (index(), queue()).prop_map(|(at, queue)| Step::Repoint(at, queue)),
        1 => (index(), bits(), length()).prop_map(|(at, to, length)| Step::Move(at, to, length)),
        1 => prop_oneof![0..4usize, Just(1 << 16)].prop_map(Step::Housekeeping),
        1 => (1..8usize, any::<bool>()).prop_map(|(count, kept)| Step::Transaction(count, kept)),
    ]
}

/// Queue of each route, by length and bits, and its rule.
type Model = BTreeMap<(u8, u128), (u16, RuleId)>;

fn expected(model: &Model, address: u128) -> u16 {
    let route = |length: u8| model.get(&(length, address & !behind(length)));
    let found = (0..=128).rev().find_map(route);
    found.map_or(NONE, |(queue, _)| *queue)
}

/// The n-th route.
fn nth(model: &Model, at: &Index) -> Option<(u8, u128)> {
    (!model.is_empty()).then(|| *model.keys().nth(at.index(model.len())).unwrap())
}

/// Carries a step out, by `$on`: the NIC or a transaction.
macro_rules! carry_out {
    ($family:expr, $on:expr, $model:expr, $step:expr) => {{
        let (family, model) = ($family, $model);
        let rule_of = |bits, length| {
            let priority = u32::from(family.bits() - length);
            (priority, family.pattern(bits, length))
        };
        match $step {
            Step::Announce { bits, length, inside, queue } => {
                let outer = inside.as_ref().and_then(|at| nth(model, at));
                let (shortest, outer) = outer.unwrap_or((0, 0));
                let length = (*length).max(shortest);
                let bits = (outer & !behind(shortest) | bits & behind(shortest)) & !behind(length);
                let (priority, pattern) = rule_of(bits, length);
                let actions = &[Action::Queue(*queue)];
                let created = $on.create(&Rule { group: 1, priority, pattern, actions });
                match model.get(&(length, bits)) {
                    Some(_) => assert!(matches!(created, Err(RuleError::Duplicate { .. }))),
                    None => drop(model.insert((length, bits), (*queue, created.unwrap()))),
                }
            }
            Step::Withdraw(at) => {
                if let Some(route) = nth(model, at) {
                    let (_, id) = model.remove(&route).unwrap();
                    $on.destroy(id).unwrap();
                }
            }
            Step::Repoint(at, queue) => {
                if let Some(route) = nth(model, at) {
                    let (known, id) = model.get_mut(&route).unwrap();
                    $on.update(*id, &[Action::Queue(*queue)]).unwrap();
                    *known = *queue;
                }
            }
            Step::Move(at, bits, length) => {
                if let Some(route) = nth(model, at) {
                    let to = (*length, bits & !behind(*length));
                    let (queue, id) = model[&route];
                    let (priority, pattern) = rule_of(to.1, to.0);
                    let rule =
                        Rule { group: 1, priority, pattern, actions: &[Action::Queue(queue)] };
                    if to == route || !model.contains_key(&to) {
                        $on.modify(id, &rule).unwrap();
                        model.remove(&route);
                        model.insert(to, (queue, id));
                    } else {
                        assert!($on.modify(id, &rule).is_err(), "another route has the prefix");
                    }
                }
            }
            Step::Housekeeping(_) | Step::Transaction(..) => {}
        }
    }};
}

/// Packets to the borders of every route, to the addresses beside, and between.
fn check(
    family: Family,
    worker: &mut Worker,
    frames: &mut (std::sync::Arc<Region>, Vec<Desc>),
    model: &Model,
) {
    let one = 1_u128 << (128 - u32::from(family.bits()));
    let mut addresses: Vec<u128> = vec![0, !behind(family.bits())];
    for (length, bits) in model.keys() {
        let last = (bits | behind(*length)) & !behind(family.bits());
        let middle = bits | (((last - bits) / 3) & !behind(family.bits()));
        addresses.extend([*bits, last, middle, bits.wrapping_sub(one), last.wrapping_add(one)]);
    }
    let (region, descs) = frames;
    for addresses in addresses.chunks(BURST) {
        let burst = &mut descs[..addresses.len()];
        for (desc, address) in burst.iter_mut().zip(addresses) {
            family.fill(region, desc, *address);
        }
        worker.classify(region, burst);
        for (desc, address) in burst.iter().zip(addresses) {
            let address = address & !behind(family.bits());
            let at = family.address(address);
            assert_eq!(desc.queue, expected(model, address), "{at} of {model:?}");
        }
    }
}

fn routes_are_found(family: Family, steps: &[Step]) {
    let mut nic = Nic::new(&NicConfig { queues: QUEUES, ..NicConfig::default() }).unwrap();
    for (group, priority, action) in [(0, 0, Action::Jump(1)), (1, 1_000, Action::Queue(NONE))] {
        nic.create(&Rule { group, priority, pattern: Pattern::any(), actions: &[action] }).unwrap();
    }
    let (mut worker, mut model) = (nic.worker(), Model::new());
    let mut frames = Region::new(BURST, 60).unwrap();
    let mut steps = steps.iter();
    while let Some(step) = steps.next() {
        match step {
            Step::Housekeeping(steps) => drop(nic.run_housekeeping(*steps)),
            Step::Transaction(count, kept) => {
                let mut inner = model.clone();
                let mut transaction = nic.transaction();
                for step in steps.by_ref().take(*count) {
                    let inner = &mut inner;
                    carry_out!(family, transaction, inner, step);
                }
                if *kept {
                    transaction.commit().unwrap();
                    model = inner;
                }
            }
            step => {
                let model = &mut model;
                carry_out!(family, nic, model, step);
            }
        }
        check(family, &mut worker, &mut frames, &model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_meets_the_longest_ipv4_prefix(
        steps in prop::collection::vec(step(Family::Ipv4), 1..80),
    ) {
        routes_are_found(Family::Ipv4, &steps);
    }

    #[test]
    fn every_packet_meets_the_longest_ipv6_prefix(
        steps in prop::collection::vec(step(Family::Ipv6), 1..80),
    ) {
        routes_are_found(Family::Ipv6, &steps);
    }
}
