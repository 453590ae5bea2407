//! Random operations, single and in transactions, committed and taken back, against a plain list of
//! rules; with one worker in the middle of a burst at each commit.

use proptest::prelude::*;

use super::*;
use crate::limits::ROOT_RULES_MAX;
use crate::memory::{Desc, Region};
use crate::rule::Pattern;
use crate::{NicConfig, Worker};

const QUEUES: u16 = 32;
/// Where no rule decides: the flows' frames are not IP, so RSS gives the queue of hash 0.
const MISS: u16 = 0;
const DROP: u16 = u16::MAX;
/// Frames: one for each pair of addresses.
const ADDRESSES: u8 = 3;
const FRAMES: usize = ADDRESSES as usize * ADDRESSES as usize;

/// A rule of the plain list.
#[derive(Clone, Debug)]
struct Plain {
    id: RuleId,
    group: u32,
    priority: u32,
    created: usize,
    pattern: Pattern,
    actions: Vec<Action>,
}

fn mac(last: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, last]
}

fn pattern(kind: u8, one: u8, other: u8) -> Pattern {
    match kind % 4 {
        0 => Pattern::any(),
        1 => Pattern::any().eth_dst(mac(one)),
        2 => Pattern::any().eth_src(mac(other)),
        _ => Pattern::any().eth_dst(mac(one)).eth_src(mac(other)),
    }
}

/// What the plain list says of a frame.
fn answer(rules: &[Plain], frame: &[u8]) -> u16 {
    let mut group = 0;
    loop {
        let matching = |rule: &&Plain| rule.group == group && rule.pattern.matches(frame);
        let here = rules.iter().filter(matching);
        let Some(rule) = here.min_by_key(|rule| (rule.priority, rule.created)) else {
            return MISS;
        };
        match rule.actions.last() {
            Some(Action::Queue(queue)) => return *queue,
            Some(Action::Jump(to)) => group = *to,
            _ => return DROP,
        }
    }
}

/// An operation, drawn from five numbers.
#[derive(Clone, Debug)]
struct Op {
    kind: u8,
    rule: usize,
    group: u32,
    priority: u32,
    pattern: (u8, u8, u8),
    action: u8,
}

impl Op {
    /// The fate is the last one. Packets for even queues get the queue as their mark.
    fn actions(&self, group: u32) -> Vec<Action> {
        match self.action {
            0 => vec![Action::Flag, Action::Drop],
            1 => vec![Action::Jump(group + 2)],
            2 => vec![Action::Mark(7), Action::Flag, Action::Flag, Action::Jump(group + 1)],
            queue if queue % 2 == 1 => vec![Action::Queue(u16::from(queue))],
            queue => vec![Action::Mark(u32::from(queue)), Action::Queue(u16::from(queue))],
        }
    }

    fn pattern(&self) -> Pattern {
        let (kind, one, other) = self.pattern;
        pattern(kind, one, other)
    }
}

fn ops(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<Op>> {
    let pattern = (0..4u8, 0..ADDRESSES, 0..ADDRESSES);
    let op = (0..8u8, any::<usize>(), 0..3u32, 0..3u32, pattern, 0..QUEUES as u8);
    let op = op.prop_map(|(kind, rule, group, priority, pattern, action)| Op {
        kind,
        rule,
        group,
        priority,
        pattern,
        action,
    });
    prop::collection::vec(op, count)
}

/// How operations are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Singly,
    Committed,
    Dropped,
}

/// What is the same for a NIC and a transaction of it.
trait Rules {
    fn create(&mut self, rule: &Rule<'_>) -> Result<RuleId, RuleError>;
    fn update(&mut self, id: RuleId, actions: &[Action]) -> Result<(), RuleError>;
    fn modify(&mut self, id: RuleId, rule: &Rule<'_>) -> Result<(), RuleError>;
    fn destroy(&mut self, id: RuleId) -> Result<(), RuleError>;
}

macro_rules! rules {
    ($($of:ty),*) => {$(
        impl Rules for $of {
            fn create(&mut self, rule: &Rule<'_>) -> Result<RuleId, RuleError> {
                <$of>::create(self, rule)
            }
            fn update(&mut self, id: RuleId, actions: &[Action]) -> Result<(), RuleError> {
                <$of>::update(self, id, actions)
            }
            fn modify(&mut self, id: RuleId, rule: &Rule<'_>) -> Result<(), RuleError> {
                <$of>::modify(self, id, rule)
            }
            fn destroy(&mut self, id: RuleId) -> Result<(), RuleError> {
                <$of>::destroy(self, id)
            }
        }
    )*};
}
rules!(Nic, Transaction<'_>);

/// Carries an operation out on both; what one refuses the other must.
fn apply(op: &Op, rules: &mut dyn Rules, plain: &mut Vec<Plain>, created: &mut usize) {
    let at = (!plain.is_empty()).then(|| op.rule % plain.len());
    let (group, priority, pattern) = (op.group, op.priority, op.pattern());
    let taken = |plain: &[Plain], but: Option<usize>| {
        let same = |rule: &Plain| {
            rule.group == group && rule.priority == priority && rule.pattern == pattern
        };
        plain.iter().enumerate().any(|(i, rule)| Some(i) != but && same(rule))
    };
    let actions = op.actions(group);
    let rule = Rule { group, priority, pattern: pattern.clone(), actions: &actions };
    match (op.kind, at) {
        (0..=2, _) | (_, None) => {
            let id = rules.create(&rule);
            assert_eq!(id.is_err(), taken(plain, None), "{id:?}");
            *created += 1;
            let created = *created;
            plain.extend(id.ok().map(|id| Plain {
                id,
                group,
                priority,
                created,
                pattern,
                actions,
            }));
        }
        (3, Some(at)) => {
            let actions = op.actions(plain[at].group);
            rules.update(plain[at].id, &actions).unwrap();
            plain[at].actions = actions;
        }
        (4 | 5, Some(at)) => {
            let done = rules.modify(plain[at].id, &rule);
            assert_eq!(done.is_err(), taken(plain, Some(at)), "{done:?}");
            if done.is_ok() {
                let (id, created) = (plain[at].id, plain[at].created);
                plain[at] = Plain { id, group, priority, created, pattern, actions };
            }
        }
        (_, Some(at)) => {
            let gone = plain.swap_remove(at).id;
            rules.destroy(gone).unwrap();
            assert_eq!(rules.destroy(gone), Err(RuleError::Unknown(gone)));
        }
    }
}

/// A NIC, two workers, and one frame of each flow.
struct Bench {
    nic: Nic,
    /// One that runs a burst whenever asked, and one that has begun a burst before each commit.
    workers: [Worker; 2],
    region: std::sync::Arc<Region>,
    descs: Vec<Desc>,
    frames: Vec<Vec<u8>>,
    /// Whether packets for even queues have the queue as their mark.
    marks: bool,
}

impl Bench {
    fn new() -> Bench {
        let mut nic = Nic::new(&NicConfig { queues: QUEUES, ..NicConfig::default() }).unwrap();
        let workers = [nic.worker(), nic.worker()];
        let (region, mut descs) = Region::new(FRAMES, 100).unwrap();
        let mut frames = Vec::new();
        for (i, desc) in descs.iter_mut().enumerate() {
            let frame = &mut region.slot_mut(desc)[..60];
            frame.fill(0);
            frame[..6].copy_from_slice(&mac(i as u8 % ADDRESSES));
            frame[6..12].copy_from_slice(&mac(i as u8 / ADDRESSES));
            frames.push(frame.to_vec());
            region.set_len(desc, 60);
        }
        Bench { nic, workers, region, descs, frames, marks: false }
    }

    fn begin(&mut self, worker: usize) {
        self.workers[worker].begin(&*self.region, &self.descs);
    }

    fn end(&mut self, worker: usize) -> Vec<u16> {
        let dropped = self.workers[worker].match_groups(&*self.region, &mut self.descs);
        let queue = |(i, desc): (usize, &Desc)| {
            if dropped >> i & 1 == 1 {
                return DROP;
            }
            if self.marks && desc.queue != MISS && desc.queue % 2 == 0 {
                assert_eq!(self.region.mark(desc), Some(desc.queue.into()));
            }
            desc.queue
        };
        self.descs.iter().enumerate().map(queue).collect()
    }

    fn expected(&self, rules: &[Plain]) -> Vec<u16> {
        self.frames.iter().map(|frame| answer(rules, frame)).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn a_burst_sees_all_of_a_transaction_or_nothing(
        rounds in prop::collection::vec(
            (ops(1..8), prop::sample::select(vec![How::Singly, How::Committed, How::Dropped]),
             0..12usize, any::<bool>()),
            1..12,
        ),
    ) {
        let mut bench = Bench { marks: true, ..Bench::new() };
        let (mut plain, mut created) = (Vec::new(), 0);
        for (ops, how, steps, passes) in rounds {
            let before = plain.clone();
            bench.begin(1);
            match how {
                How::Singly => {
                    for op in &ops {
                        apply(op, &mut bench.nic, &mut plain, &mut created);
                    }
                }
                How::Committed | How::Dropped => {
                    let mut transaction = bench.nic.transaction();
                    for op in &ops {
                        apply(op, &mut transaction, &mut plain, &mut created);
                    }
                    match how {
                        How::Committed => transaction.commit().unwrap(),
                        _ => {
                            drop(transaction);
                            plain.clone_from(&before);
                        }
                    }
                    let seen = bench.end(1);
                    prop_assert_eq!(seen, bench.expected(&before), "in the middle of a burst");
                }
            }
            prop_assert_eq!(bench.nic.len() as usize, plain.len());
            bench.nic.run_housekeeping(steps);
            bench.begin(0);
            let seen = bench.end(0);
            prop_assert_eq!(seen, bench.expected(&plain), "a new burst");
            if passes {
                bench.begin(1);
                bench.nic.run_housekeeping(steps);
                let seen = bench.end(1);
                prop_assert_eq!(seen, bench.expected(&plain), "another worker");
            }
        }
        bench.begin(0);
        bench.begin(1);
        prop_assert!(bench.nic.run_housekeeping(usize::MAX));
        let seen = bench.end(1);
        prop_assert_eq!(seen, bench.expected(&plain), "after housekeeping");
        for rule in plain.drain(..) {
            bench.nic.destroy(rule.id).unwrap();
        }
        prop_assert!(bench.nic.is_empty());
        let units_used = bench.nic.action_list_allocator.units_used();
        prop_assert_eq!(units_used, 0, "action lists of destroyed rules");
    }
}

#[test]
fn a_full_root_takes_a_transaction_that_leaves_no_more() {
    let mut nic = Nic::new(&NicConfig::default()).unwrap();
    let rule = |n: u32| {
        let [_, a, b, c] = n.to_be_bytes();
        Pattern::any().eth_dst([2, 0, 0, a, b, c])
    };
    let create = |nic: &mut dyn Rules, n| {
        let actions = &[Action::Queue(0)];
        nic.create(&Rule { group: 0, priority: 0, pattern: rule(n), actions })
    };
    let ids: Vec<RuleId> = (0..ROOT_RULES_MAX).map(|n| create(&mut nic, n).unwrap()).collect();
    let full = RuleError::GroupFull { group: 0, rules_max: ROOT_RULES_MAX };
    assert_eq!(create(&mut nic, ROOT_RULES_MAX), Err(full.clone()));

    let mut swap = nic.transaction();
    create(&mut swap, ROOT_RULES_MAX).unwrap();
    swap.destroy(ids[0]).unwrap();
    swap.commit().unwrap();

    let mut more = nic.transaction();
    more.destroy(ids[1]).unwrap();
    create(&mut more, 0).unwrap();
    create(&mut more, 1).unwrap();
    assert_eq!(more.commit(), Err(full));
    assert_eq!(nic.len(), ROOT_RULES_MAX);
    nic.update(ids[1], &[Action::Drop]).unwrap();
}

#[test]
fn a_modified_rule_keeps_its_id_its_counts_and_its_place_among_equals() {
    let mut bench = Bench::new();
    let both = [Action::Count, Action::Queue(1)];
    let rule = Rule { group: 0, priority: 1, pattern: Pattern::any(), actions: &both };
    let id = bench.nic.create(&rule).unwrap();
    let other = Rule { pattern: pattern(1, 0, 0), actions: &[Action::Queue(2)], ..rule };
    bench.nic.create(&other).unwrap();
    bench.begin(0);
    assert_eq!(bench.end(0), [1; FRAMES], "of equal priority the first created");
    bench.nic.modify(id, &Rule { priority: 2, ..rule.clone() }).unwrap();
    bench.begin(0);
    assert_eq!(bench.end(0)[..4], [2, 1, 1, 2]);
    bench.nic.modify(id, &rule).unwrap();
    bench.begin(0);
    assert_eq!(bench.end(0), [1; FRAMES], "created first it still is");
    let counted = FRAMES + FRAMES * 2 / 3 + FRAMES;
    assert_eq!(bench.nic.query(id).unwrap().packets, counted as u64);
}

/// Of rules with one pattern workers find the best; updates of the others show when it goes.
#[test]
fn an_update_of_a_rule_behind_a_better_one_waits_for_it_to_go() {
    let mut bench = Bench::new();
    // A pattern with a key in a table, and the one without.
    for pattern in [pattern(1, 0, 0), Pattern::any()] {
        let rules = [0, 1].map(|priority| {
            let (pattern, actions) = (pattern.clone(), [Action::Queue(priority as u16 + 1)]);
            bench.nic.create(&Rule { group: 0, priority, pattern, actions: &actions }).unwrap()
        });
        bench.nic.update(rules[1], &[Action::Queue(3)]).unwrap();
        bench.begin(0);
        assert_eq!(bench.end(0)[0], 1);
        bench.nic.destroy(rules[0]).unwrap();
        bench.begin(0);
        assert_eq!(bench.end(0)[0], 3);
        bench.nic.update(rules[1], &[Action::Queue(2)]).unwrap();
        bench.begin(0);
        assert_eq!(bench.end(0)[0], 2);
        bench.nic.destroy(rules[1]).unwrap();
    }
}

/// A single operation on what a transaction has just changed holds for those who see the commit.
#[test]
fn a_burst_that_began_before_a_commit_sees_nothing_of_what_was_built_on_it() {
    let mut bench = Bench::new();
    let rule = |to| [Action::Queue(to)];
    let pattern = Pattern::any();
    let first = Rule { group: 0, priority: 0, pattern: pattern.clone(), actions: &rule(1) };
    let id = bench.nic.create(&first).unwrap();
    bench.begin(1);
    let mut transaction = bench.nic.transaction();
    transaction.update(id, &rule(2)).unwrap();
    let new = transaction.create(&Rule { group: 0, priority: 1, pattern, actions: &rule(4) });
    transaction.commit().unwrap();
    bench.nic.update(id, &rule(3)).unwrap();
    assert_eq!(bench.end(1), [1; FRAMES], "updated in the transaction, and since");
    bench.nic.destroy(id).unwrap();
    bench.nic.destroy(new.unwrap()).unwrap();
    assert_eq!(bench.end(1), [1; FRAMES], "destroyed since");
    bench.begin(1);
    assert_eq!(bench.end(1), [MISS; FRAMES]);
    bench.begin(0);
    assert!(bench.nic.run_housekeeping(100));
    bench.begin(1);
    assert_eq!(bench.end(1), [MISS; FRAMES]);
}

/// A rule of group 0 for every frame.
fn every(priority: u32, actions: &[Action]) -> Rule<'_> {
    Rule { group: 0, priority, pattern: Pattern::any(), actions }
}

/// Cells and logs of committed transactions go while others come.
#[test]
fn transactions_one_after_the_other_pile_nothing_up() {
    let mut bench = Bench::new();
    let actions = [Action::Queue(1)];
    let ids: Vec<RuleId> =
        (0..20).map(|n| bench.nic.create(&every(n, &actions)).unwrap()).collect();
    let mut most = 0;
    for round in 0..200 {
        let first = 20 + 20 * (round % 2);
        for (n, id) in (0..).zip(&ids) {
            bench.nic.modify(*id, &every(first + n, &actions)).unwrap();
            bench.begin(0);
            bench.begin(1);
        }
        let mut transaction = bench.nic.transaction();
        for (n, id) in (0..).zip(&ids) {
            transaction.modify(*id, &every(60 + n, &actions)).unwrap();
        }
        transaction.commit().unwrap();
        bench.begin(0);
        bench.begin(1);
        match round < 20 {
            true => most = most.max(bench.nic.rule_bytes()),
            false => assert!(bench.nic.rule_bytes() <= most, "round {round}: something piles up"),
        }
    }
}

/// Housekeeping may finish a transaction on which an open one builds, and reuse its cells.
#[test]
fn an_older_transaction_is_reclaimed_under_an_open_one() {
    let [one, two, three, other] = [1, 2, 3, 9].map(|queue| [Action::Queue(queue)]);
    for committed in [true, false] {
        let mut bench = Bench::new();
        let id = bench.nic.create(&every(0, &one)).unwrap();
        let mut older = bench.nic.transaction();
        older.update(id, &two).unwrap();
        older.commit().unwrap();
        let mut open = bench.nic.transaction();
        open.update(id, &three).unwrap();
        let pass = |workers: &mut [Worker; 2]| {
            workers.iter_mut().for_each(|worker| worker.begin(&*bench.region, &bench.descs));
        };
        pass(&mut bench.workers);
        assert!(open.nic.run_housekeeping(usize::MAX));
        pass(&mut bench.workers);
        for priority in 1..9 {
            open.create(&Rule { pattern: pattern(3, 0, 0), ..every(priority, &other) }).unwrap();
            open.create(&Rule { pattern: pattern(1, 0, 0), ..every(priority, &other) }).unwrap();
        }
        bench.workers[1].match_groups(&*bench.region, &mut bench.descs);
        assert_eq!(bench.descs[0].queue, 2, "the older transaction holds");
        match committed {
            true => open.commit().unwrap(),
            false => drop(open),
        }
        bench.begin(0);
        assert_eq!(bench.end(0), [if committed { 3 } else { 2 }; FRAMES]);
    }
}

/// What a transaction that is dropped did to an age is taken back as well.
#[test]
fn a_rule_is_as_old_as_before_when_a_transaction_is_dropped() {
    let mut bench = Bench::new();
    let ageing = [Action::Age(200), Action::Drop];
    let id = bench.nic.create(&every(0, &ageing)).unwrap();
    bench.nic.set_time_ns(100_000_000_000);
    let mut transaction = bench.nic.transaction();
    transaction.update(id, &[Action::Drop]).unwrap();
    transaction.update(id, &ageing).unwrap();
    drop(transaction);
    let age = bench.nic.age(id).unwrap().unwrap();
    assert_eq!((age.idle_ns, age.timeout_s), (100_000_000_000, 200));
}

/// A rule that has its key for itself gets another priority by one store; others by a transaction.
#[test]
fn a_priority_that_changes_in_place_decides_from_then_on() {
    let mut bench = Bench::new();
    let [one, two, three] = [1, 2, 3].map(|queue| [Action::Queue(queue)]);
    // Every second priority changes alone, then beside a rule of the same key.
    let all = bench.nic.create(&every(5, &one)).unwrap();
    let some = Rule { pattern: pattern(1, 0, 0), ..every(4, &two) };
    let here = bench.nic.create(&some).unwrap();
    let decides = |nic: &mut Bench, queue: u16| {
        nic.begin(0);
        let at = (0..FRAMES).find(|at| some.pattern.matches(nic.region.frame(&nic.descs[*at])));
        assert_eq!(nic.end(0)[at.unwrap()], queue);
    };
    decides(&mut bench, 2);
    let cells = |bench: &Bench| bench.nic.transactions.bytes();
    let before = cells(&bench);
    for (id, rule, queue) in [
        (here, Rule { priority: 6, ..some.clone() }, 1),
        (all, every(7, &one), 2),
        (all, every(0, &one), 1),
        (here, Rule { priority: 0, ..some.clone() }, 1),
        (all, every(1, &one), 2),
    ] {
        bench.nic.modify(id, &rule).unwrap();
        decides(&mut bench, queue);
    }
    assert_eq!(cells(&bench), before, "no transaction");
    let behind = bench.nic.create(&Rule { actions: &three, priority: 9, ..some.clone() }).unwrap();
    bench.nic.modify(here, &Rule { priority: 10, ..some.clone() }).unwrap();
    decides(&mut bench, 1);
    bench.nic.modify(all, &every(11, &one)).unwrap();
    decides(&mut bench, 3);
    bench.nic.destroy(behind).unwrap();
    decides(&mut bench, 2);
    let refused = bench.nic.modify(here, &Rule { priority: PRIORITY_MAX + 1, ..some.clone() });
    assert!(matches!(refused, Err(RuleError::Priority { .. })));
    decides(&mut bench, 2);
}
