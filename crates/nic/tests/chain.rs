//! Groups one behind the other that have masks in common: what a worker passes over has no rule.
//!
//! A mask of four groups or more is *shared*: a worker asks once a burst which groups can have a
//! rule for a packet. Random changes, some in transactions, must never make it pass over one; nor
//! must changes while it is on its way.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use niclab_nic::memory::{Desc, Region};
use niclab_nic::rule::{Action, Pattern, Rule, Set};
use niclab_nic::{Nic, NicConfig, RuleError, RuleId, Transaction, Worker};
use niclab_packet::key::{Key, field};
use proptest::prelude::*;
use proptest::sample::Index;

/// The last group of the chain, behind group 0.
const LAST: u32 = 20;
/// Addresses that packets and rules have: 10.0.0.0 and on.
const ADDRESSES: u8 = 6;
const QUEUES: u16 = 64;

/// What a packet of this address looks like.
fn fill(region: &Region, desc: &mut Desc, address: u8) {
    let frame = &mut region.slot_mut(desc)[..60];
    frame.fill(0);
    (frame[12], frame[14], frame[23]) = (8, 0x45, 17);
    frame[30..34].copy_from_slice(&[10, 0, 0, address]);
    region.set_len(desc, 60);
}

/// Destinations that agree with an address but for the last bits.
fn pattern(address: u8, bits: u8) -> Pattern {
    let exact = Pattern::any().dst([10, 0, 0, address].into());
    let mut mask = exact.mask().to_bytes();
    mask[field::DST_HEAD][3] <<= bits;
    Pattern::masked(exact.value(), &Key::from_bytes(&mask))
}

/// A rule as the model knows it; `bits` is 8 for one that matches all packets of the group. Of two
/// with the same pattern the one that is not a `spare` counts.
#[derive(Clone, Debug)]
struct Written {
    group: u32,
    address: u8,
    bits: u8,
    spare: bool,
    fate: Fate,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Queue(u16),
    /// So many groups on.
    Jump(u32),
    /// Gets another address first.
    Become(u8),
}

impl Written {
    fn pattern(&self) -> Pattern {
        if self.bits == 8 { Pattern::any() } else { pattern(self.address, self.bits) }
    }

    fn priority(&self) -> u32 {
        u32::from(self.bits) * 2 + u32::from(self.spare)
    }

    fn actions(&self) -> Vec<Action> {
        match self.fate {
            Fate::Queue(queue) => vec![Action::Queue(queue)],
            Fate::Jump(on) => vec![Action::Jump(self.group + on)],
            Fate::Become(address) => {
                let set = Action::Set(Set::Ipv4Dst([10, 0, 0, address].into()));
                vec![set, Action::Jump(self.group + 1)]
            }
        }
    }

    fn matches(&self, address: u8) -> bool {
        self.bits == 8 || (self.address ^ address) >> self.bits == 0
    }
}

#[derive(Clone, Debug)]
enum Step {
    Create(Written),
    Destroy(Index),
    Update(Index, Fate),
    /// Of its place, its pattern and its priority.
    Modify(Index, Written),
    Housekeeping(usize),
    /// So many of the next steps are one transaction, which is committed or dropped.
    Transaction(usize, bool),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => (1..QUEUES).prop_map(Fate::Queue),
        2 => (1..4u32).prop_map(Fate::Jump),
        1 => (0..ADDRESSES).prop_map(Fate::Become),
    ]
}

fn written() -> impl Strategy<Value = Written> {
    let bits = prop_oneof![5 => Just(0), 3 => Just(1), 2 => 2..8u8, 1 => Just(8u8)];
    (1..=LAST, 0..ADDRESSES, bits, any::<bool>(), fate()).prop_map(
        |(group, address, bits, spare, fate)| Written { group, address, bits, spare, fate },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<Index>;
    prop_oneof![
        6 => written().prop_map(Step::Create),
        3 => index().prop_map(Step::Destroy),
        2 => (index(), fate()).prop_map(|(at, fate)| Step::Update(at, fate)),
        2 => (index(), written()).prop_map(|(at, rule)| Step::Modify(at, rule)),
        2 => prop_oneof![0..4usize, Just(1 << 16)].prop_map(Step::Housekeeping),
        1 => (1..6usize, any::<bool>()).prop_map(|(count, kept)| Step::Transaction(count, kept)),
    ]
}

/// Rules by the NIC's name and as written.
type Model = BTreeMap<usize, (RuleId, Written)>;

/// Where the packet of an address goes: 0 for one that no rule matches.
fn expected(model: &Model, mut address: u8) -> u16 {
    let mut group = 0;
    loop {
        let here = model.values().map(|(_, rule)| rule).filter(|rule| rule.group == group);
        let best = here.filter(|rule| rule.matches(address)).min_by_key(|rule| rule.priority());
        match best.map(|rule| rule.fate) {
            None => return 0,
            Some(Fate::Queue(queue)) => return queue,
            Some(Fate::Jump(on)) => group += on,
            Some(Fate::Become(other)) => (address, group) = (other, group + 1),
        }
    }
}

struct Bench {
    nic: Nic,
    worker: Worker,
    region: Arc<Region>,
    descs: Vec<Desc>,
    model: Model,
    next: usize,
}

impl Bench {
    /// A chain in which each group has one rule that leads to the next.
    fn new() -> Bench {
        let mut nic = Nic::new(&NicConfig { queues: QUEUES, ..NicConfig::default() }).unwrap();
        nic.isolate(true).unwrap();
        let worker = nic.worker();
        let (region, descs) = Region::new(ADDRESSES.into(), 100).unwrap();
        let mut bench = Bench { nic, worker, region, descs, model: Model::new(), next: 0 };
        for group in 0..=LAST {
            let rule = Written { group, address: 0, bits: 8, spare: false, fate: Fate::Jump(1) };
            bench.take(&[Step::Create(rule)]);
        }
        bench
    }

    fn take(&mut self, steps: &[Step]) {
        let mut steps = steps.iter();
        while let Some(step) = steps.next() {
            if let Step::Transaction(count, kept) = step {
                let (mut model, mut next) = (self.model.clone(), self.next);
                let mut transaction = self.nic.transaction();
                for step in steps.by_ref().take(*count) {
                    change(&mut By::Transaction(&mut transaction), &mut model, &mut next, step);
                }
                if *kept {
                    transaction.commit().unwrap();
                    (self.model, self.next) = (model, next);
                }
            } else if let Step::Housekeeping(count) = step {
                self.nic.run_housekeeping(*count);
            } else {
                change(&mut By::Calls(&mut self.nic), &mut self.model, &mut self.next, step);
            }
            self.check();
        }
    }

    fn check(&mut self) {
        for (address, desc) in (0..).zip(&mut self.descs) {
            fill(&self.region, desc, address);
            desc.queue = 0;
        }
        let dropped = self.worker.classify(&self.region, &mut self.descs);
        for (address, desc) in (0..).zip(&self.descs) {
            let queue = if dropped >> address & 1 == 1 { 0 } else { desc.queue };
            assert_eq!(queue, expected(&self.model, address), "address {address}");
        }
    }
}

/// How operations reach the NIC.
enum By<'a, 'b> {
    Calls(&'a mut Nic),
    Transaction(&'a mut Transaction<'b>),
}

impl By<'_, '_> {
    fn create(&mut self, rule: &Rule<'_>) -> Result<RuleId, RuleError> {
        match self {
            By::Calls(nic) => nic.create(rule),
            By::Transaction(transaction) => transaction.create(rule),
        }
    }

    fn destroy(&mut self, id: RuleId) -> Result<(), RuleError> {
        match self {
            By::Calls(nic) => nic.destroy(id),
            By::Transaction(transaction) => transaction.destroy(id),
        }
    }

    fn update(&mut self, id: RuleId, actions: &[Action]) -> Result<(), RuleError> {
        match self {
            By::Calls(nic) => nic.update(id, actions),
            By::Transaction(transaction) => transaction.update(id, actions),
        }
    }

    fn modify(&mut self, id: RuleId, rule: &Rule<'_>) -> Result<(), RuleError> {
        match self {
            By::Calls(nic) => nic.modify(id, rule),
            By::Transaction(transaction) => transaction.modify(id, rule),
        }
    }
}

/// One step, in the NIC and in the model; what the NIC must refuse changes neither.
fn change(nic: &mut By<'_, '_>, model: &mut Model, next: &mut usize, step: &Step) {
    // Of rules with one pattern and priority in one group the second is refused.
    let same = |model: &Model, rule: &Written, but: Option<usize>| {
        let others = model.iter().filter(|(at, _)| Some(**at) != but);
        let mut rules = others.map(|(_, (_, other))| other);
        rules.any(|other| {
            let alike = other.group == rule.group && other.priority() == rule.priority();
            alike && other.matches(rule.address)
        })
    };
    let picked =
        |model: &Model, at: &Index| model.keys().nth(at.index(model.len().max(1))).copied();
    let rule_of = |rule: &Written, actions: &[Action], run: &mut dyn FnMut(&Rule<'_>)| {
        let (group, priority, pattern) = (rule.group, rule.priority(), rule.pattern());
        run(&Rule { group, priority, pattern, actions });
    };
    match step {
        Step::Create(rule) => rule_of(rule, &rule.actions(), &mut |whole| {
            let created = nic.create(whole);
            match same(model, rule, None) {
                true => assert!(matches!(created, Err(RuleError::Duplicate { .. })), "{created:?}"),
                false => {
                    model.insert(*next, (created.unwrap(), rule.clone()));
                    *next += 1;
                }
            }
        }),
        Step::Destroy(at) => {
            if let Some((id, _)) = picked(model, at).and_then(|at| model.remove(&at)) {
                nic.destroy(id).unwrap();
            }
        }
        Step::Update(at, fate) => {
            if let Some((id, rule)) = picked(model, at).and_then(|at| model.get_mut(&at)) {
                rule.fate = *fate;
                nic.update(*id, &rule.actions()).unwrap();
            }
        }
        Step::Modify(at, rule) => {
            let Some(at) = picked(model, at) else { return };
            let (id, refused) = (model[&at].0, same(model, rule, Some(at)));
            rule_of(rule, &rule.actions(), &mut |whole| {
                let modified = nic.modify(id, whole);
                match refused {
                    true => assert!(modified.is_err()),
                    false => {
                        modified.unwrap();
                        model.insert(at, (id, rule.clone()));
                    }
                }
            });
        }
        Step::Housekeeping(_) | Step::Transaction(..) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_meets_the_rule_that_is_its_own(
        steps in prop::collection::vec(step(), 1..250)
    ) {
        Bench::new().take(&steps);
    }
}

/// Rules that go on and on: what was learnt of a mask is full, and made anew.
#[test]
fn a_mask_whose_rules_come_and_go_is_learnt_anew() {
    let mut bench = Bench::new();
    let rule = |turn: u32| {
        let [group, address] = [1 + turn % LAST, turn / LAST % u32::from(ADDRESSES)];
        let fate = Fate::Queue((1 + turn % 63) as u16);
        Written { group, address: address as u8, bits: 0, spare: false, fate }
    };
    for turn in 0..60 {
        bench.take(&[Step::Create(rule(turn))]);
    }
    bench.take(&[Step::Housekeeping(1 << 10)]);
    for turn in 60..6_000 {
        let oldest = *bench.model.keys().nth(LAST as usize + 1).unwrap();
        let (id, _) = bench.model.remove(&oldest).unwrap();
        bench.nic.destroy(id).unwrap();
        bench.take(&[Step::Create(rule(turn))]);
    }
}

/// A pattern of destinations with so many leading bits.
fn prefix(address: u32, len: u32) -> Pattern {
    let exact = Pattern::any().dst(Ipv4Addr::from(address).into());
    let mut mask = exact.mask().to_bytes();
    mask[field::DST_HEAD].copy_from_slice(&(u32::MAX << (32 - len)).to_be_bytes());
    Pattern::masked(exact.value(), &Key::from_bytes(&mask))
}

/// While a group's filter is made it probes more masks than are looked at for sharing.
#[test]
fn a_group_that_probes_many_masks_finds_its_rules_under_a_mask_learnt_anew() {
    let mut bench = Bench::new();
    let create = |nic: &mut Nic, group, pattern, queue| {
        let (priority, actions) = (0, [Action::Queue(queue)]);
        nic.create(&Rule { group, priority, pattern, actions: &actions }).unwrap();
    };
    let nic = &mut bench.nic;
    for group in 2..6 {
        create(nic, group, prefix(200 << 24, 32), 1);
    }
    assert!(nic.run_housekeeping(1 << 12));
    // Many keys of one mask, then five more masks: the filter is under way.
    for key in 0..4_000 {
        create(nic, 1, prefix((20 << 24) + (key << 8), 24), 1);
    }
    for len in 25..29 {
        create(nic, 1, prefix(30 << 24, len), 1);
    }
    create(nic, 1, prefix(201 << 24, 32), 1);
    // Elsewhere rules come until what is known of the mask is learnt anew.
    for key in 0..6_000 {
        create(nic, 2, prefix((40 << 24) + key, 32), 1);
    }
    create(nic, 1, prefix((10 << 24) + 3, 32), 5);
    fill(&bench.region, &mut bench.descs[0], 3);
    let dropped = bench.worker.classify(&bench.region, &mut bench.descs[..1]);
    assert_eq!((dropped, bench.descs[0].queue), (0, 5));
}

/// How long rules wander.
const DURATION: Duration = Duration::from_millis(1_500);
/// Packets of a burst, each with a rule of its own.
const FLOWS: u8 = 60;

/// A card whose rules of the flows stand in the first group of the chain.
fn wanderers() -> (Nic, Vec<RuleId>) {
    let mut nic = Nic::new(&NicConfig { queues: 2, ..NicConfig::default() }).unwrap();
    nic.isolate(true).unwrap();
    for group in 0..=LAST {
        let lead = Written { group, address: 0, bits: 8, spare: false, fate: Fate::Jump(1) };
        // Not the flows' own.
        let other = Written { group, address: 200, bits: 0, spare: false, fate: Fate::Queue(0) };
        for rule in [lead, other] {
            create(&mut nic, &rule);
        }
    }
    assert!(nic.run_housekeeping(1 << 10));
    let rules = (0..FLOWS).map(|flow| create(&mut nic, &wanderer(flow, 1))).collect();
    (nic, rules)
}

fn wanderer(flow: u8, group: u32) -> Written {
    Written { group, address: flow, bits: 0, spare: false, fate: Fate::Queue(1) }
}

fn create(nic: &mut Nic, rule: &Written) -> RuleId {
    let (group, priority, pattern) = (rule.group, rule.priority(), rule.pattern());
    nic.create(&Rule { group, priority, pattern, actions: &rule.actions() }).unwrap()
}

/// Rules wander down the chain, each once, so that no worker can know where they come to: a rule is
/// in the later group before it leaves the earlier one, so that a packet that goes down the chain
/// meets it, whenever it started.
#[test]
fn a_rule_that_wanders_down_the_chain_is_never_passed_over() {
    let (region, mut descs) = Region::new(FLOWS.into(), 100).unwrap();
    for (flow, desc) in (0..).zip(&mut descs) {
        fill(&region, desc, flow);
    }
    let (start, mut bursts) = (Instant::now(), 0);
    while start.elapsed() < DURATION {
        let (mut nic, mut rules) = wanderers();
        let (stop, began) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut worker = nic.worker();
        bursts += std::thread::scope(|scope| {
            let (stop, began, region, descs) = (&stop, &began, &region, &mut descs);
            let reader = scope.spawn(move || {
                let mut bursts = 0;
                while !stop.load(SeqCst) {
                    let dropped = worker.classify(region, descs);
                    assert_eq!(dropped, 0, "packets were led past their rules");
                    bursts += 1;
                    began.store(true, SeqCst);
                }
                bursts
            });
            while !began.load(SeqCst) && !reader.is_finished() {
                std::thread::yield_now();
            }
            for group in 2..=LAST {
                for (flow, rule) in (0..).zip(&mut rules) {
                    let there = create(&mut nic, &wanderer(flow, group));
                    nic.destroy(std::mem::replace(rule, there)).unwrap();
                    // As many others, so that what was learnt is learnt anew meanwhile.
                    let other = create(&mut nic, &wanderer(201, group));
                    nic.destroy(other).unwrap();
                }
            }
            stop.store(true, SeqCst);
            reader.join().unwrap()
        });
    }
    assert!(bursts > 1_000, "{bursts} bursts");
}
