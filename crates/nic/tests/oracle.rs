//! The pipeline against a linear scan of the same rules, packet by packet.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Counts, Nic, NicConfig, RuleError, RuleId, Worker};
use niclab_packet::key::Key;
use proptest::prelude::*;

const QUEUES: u16 = 4;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Queue(u16),
    Drop,
}

/// A rule as the oracle keeps it.
#[derive(Clone, Debug)]
struct Known {
    id: RuleId,
    group: u32,
    priority: u32,
    pattern: Pattern,
    actions: Vec<Action>,
    counts: Counts,
}

/// Linear scan: of the rules of a group that match, the one of highest priority, of equal ones the
/// first created; a miss anywhere is RSS's.
#[derive(Default)]
struct Oracle(Vec<Known>);

impl Oracle {
    /// `None` is RSS.
    fn decide(&mut self, frame: &[u8]) -> Option<Verdict> {
        let key = Key::parse(frame);
        let mut group = 0;
        loop {
            let matching = self.0.iter_mut().filter(|r| r.group == group);
            let best = matching.filter(|r| r.pattern.matches(&key)).min_by_key(|r| r.priority)?;
            if best.actions.contains(&Action::Count) {
                best.counts.packets += 1;
                best.counts.bytes += frame.len() as u64 + 4;
            }
            match best.actions.iter().find(|a| **a != Action::Count)? {
                Action::Queue(queue) => return Some(Verdict::Queue(*queue)),
                Action::Jump(to) => group = *to,
                Action::Drop | Action::Count => return Some(Verdict::Drop),
            }
        }
    }
}

/// What a generated step does.
#[derive(Clone, Debug)]
enum Step {
    Create { group: u32, priority: u32, pattern: Pattern, actions: Vec<Action> },
    Destroy(prop::sample::Index),
    Update(prop::sample::Index, Vec<Action>),
    Burst(Vec<Vec<u8>>),
}

/// Few addresses and ports, so that rules overlap and packets hit.
fn host() -> impl Strategy<Value = Ipv4Addr> {
    (0..3u8).prop_map(|b| Ipv4Addr::new(10, 0, 0, b))
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let port = || prop::option::of(0..3u16);
    (prop::option::of(host()), prop::option::of(host()), 0..3u8, port(), port()).prop_map(
        |(src, dst, proto, sport, dport)| {
            let mut p = Pattern::any();
            if let Some(src) = src {
                p = p.src(IpAddr::V4(src));
            }
            if let Some(dst) = dst {
                p = p.dst(IpAddr::V4(dst));
            }
            p = match proto {
                0 => return p,
                1 => p.udp(),
                _ => p.tcp(),
            };
            let p = sport.map_or(p, |port| p.sport(port));
            dport.map_or(p, |port| p.dport(port))
        },
    )
}

fn actions(group: u32) -> impl Strategy<Value = Vec<Action>> {
    let fate = prop_oneof![
        (0..QUEUES).prop_map(Action::Queue),
        Just(Action::Drop),
        (group + 1..group + 4).prop_map(Action::Jump),
    ];
    (fate, any::<bool>()).prop_map(|(fate, counts)| match counts {
        true => vec![Action::Count, fate],
        false => vec![fate],
    })
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let ports = (0..4u8, 0..4u8);
    (host(), host(), prop::sample::select(vec![17u8, 6, 1]), ports, 60..90usize).prop_map(
        |(src, dst, proto, (sport, dport), len)| {
            let mut f = vec![0; len];
            f[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
            f[14] = 0x45;
            f[23] = proto;
            f[26..30].copy_from_slice(&src.octets());
            f[30..34].copy_from_slice(&dst.octets());
            f[35] = sport;
            f[37] = dport;
            f
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let create = (0..4u32, 0..3u32, pattern()).prop_flat_map(|(group, priority, pattern)| {
        actions(group).prop_map(move |actions| Step::Create { group, priority, pattern, actions })
    });
    prop_oneof![
        6 => create,
        2 => any::<prop::sample::Index>().prop_map(Step::Destroy),
        2 => (any::<prop::sample::Index>(), actions(3)).prop_map(|(i, a)| Step::Update(i, a)),
        2 => prop::collection::vec(frame(), 1..=BURST).prop_map(Step::Burst),
    ]
}

fn burst_of(region: &Region, descs: &mut [Desc], frames: &[Vec<u8>]) {
    for (desc, frame) in descs.iter_mut().zip(frames) {
        region.slot_mut(desc)[..frame.len()].copy_from_slice(frame);
        region.set_len(desc, frame.len() as u16);
    }
}

/// The NIC and the oracle side by side.
struct Bench {
    nic: Nic,
    worker: Worker,
    oracle: Oracle,
    region: std::sync::Arc<Region>,
    descs: Vec<Desc>,
}

impl Bench {
    fn new() -> Bench {
        let mut nic = Nic::new(&NicConfig { queues: QUEUES, ..NicConfig::default() }).unwrap();
        let worker = nic.worker();
        let (region, descs) = Region::new(BURST, 100).unwrap();
        Bench { nic, worker, oracle: Oracle::default(), region, descs }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Create { group, priority, pattern, actions } => {
                let (group, priority, pattern) = (*group, *priority, *pattern);
                let known = &mut self.oracle.0;
                let same =
                    |r: &Known| (r.group, r.priority, r.pattern) == (group, priority, pattern);
                let duplicate = known.iter().any(same);
                match self.nic.create(&Rule { group, priority, pattern, actions }) {
                    Ok(id) => {
                        assert!(!duplicate);
                        let (actions, counts) = (actions.clone(), Counts::default());
                        known.push(Known { id, group, priority, pattern, actions, counts });
                    }
                    Err(error) => {
                        assert!(duplicate, "{error}");
                        assert_eq!(error, RuleError::Duplicate { group, priority });
                    }
                }
            }
            Step::Destroy(index) if !self.oracle.0.is_empty() => {
                let rule = self.oracle.0.remove(index.index(self.oracle.0.len()));
                assert_eq!(self.nic.query(rule.id), Ok(rule.counts));
                self.nic.destroy(rule.id).unwrap();
                assert_eq!(self.nic.destroy(rule.id), Err(RuleError::Unknown(rule.id)));
            }
            Step::Update(index, actions) if !self.oracle.0.is_empty() => {
                let at = index.index(self.oracle.0.len());
                self.nic.update(self.oracle.0[at].id, actions).unwrap();
                self.oracle.0[at].actions = actions.clone();
            }
            Step::Burst(frames) => self.burst(frames),
            Step::Destroy(_) | Step::Update(..) => {}
        }
    }

    fn burst(&mut self, frames: &[Vec<u8>]) {
        burst_of(&self.region, &mut self.descs, frames);
        let burst = &mut self.descs[..frames.len()];
        let dropped = self.worker.classify(&self.region, burst);
        let verdict = |(i, desc): (usize, &Desc)| match dropped >> i & 1 {
            1 => Verdict::Drop,
            _ => Verdict::Queue(desc.queue),
        };
        let verdicts: Vec<Verdict> = burst.iter().enumerate().map(verdict).collect();
        for (i, frame) in frames.iter().enumerate() {
            match self.oracle.decide(frame) {
                Some(verdict) => assert_eq!(verdicts[i], verdict, "frame {i}: {frame:?}"),
                None => assert_eq!(verdicts[i], self.by_rss(frame), "frame {i} missed all rules"),
            }
        }
    }

    /// What a NIC without rules says.
    fn by_rss(&self, frame: &[u8]) -> Verdict {
        let mut nic = Nic::new(&NicConfig { queues: QUEUES, ..NicConfig::default() }).unwrap();
        let (region, mut descs) = Region::new(1, 100).unwrap();
        burst_of(&region, &mut descs, &[frame.to_vec()]);
        assert_eq!(nic.worker().classify(&region, &mut descs), 0);
        Verdict::Queue(descs[0].queue)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_packet_meets_the_rule_that_a_linear_scan_finds(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut bench = Bench::new();
        for step in &steps {
            bench.take(step);
        }
        let known = std::mem::take(&mut bench.oracle.0);
        prop_assert_eq!(bench.nic.len() as usize, known.len());
        for rule in known {
            prop_assert_eq!(bench.nic.query(rule.id), Ok(rule.counts));
        }
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut nic = Nic::new(&NicConfig { queues: QUEUES, ..NicConfig::default() }).unwrap();
    let queue = [Action::Queue(0)];
    let rule =
        |group, priority, actions| Rule { group, priority, pattern: Pattern::any(), actions };
    let mut refused = |rule: &Rule<'_>| nic.create(rule).unwrap_err();
    let (queues, too_many) = (QUEUES, [Action::Count; 9]);
    assert_eq!(refused(&rule(0, 0, &[])), RuleError::FateMissing);
    assert_eq!(refused(&rule(0, 0, &[Action::Count])), RuleError::FateMissing);
    assert_eq!(refused(&rule(0, 65_536, &queue)), RuleError::Priority { priority: 65_536 });
    assert_eq!(refused(&rule(2, 0, &[Action::Jump(2)])), RuleError::JumpBack { from: 2, to: 2 });
    assert_eq!(
        refused(&rule(0, 0, &[Action::Queue(4)])),
        RuleError::QueueUnknown { queue: 4, queues }
    );
    assert_eq!(refused(&rule(0, 0, &too_many)), RuleError::ActionsTooMany { count: 9 });
    let two = [Action::Drop, Action::Queue(1)];
    let (first, second) = (two[0], two[1]);
    assert_eq!(refused(&rule(0, 0, &two)), RuleError::FatesTwo { first, second });
    assert!(nic.is_empty());
}

#[test]
fn the_root_group_holds_65_536_rules_and_refuses_the_next() {
    let mut nic = Nic::new(&NicConfig::default()).unwrap();
    let actions = [Action::Queue(0)];
    let mut ids = HashMap::new();
    let create = |nic: &mut Nic, group, n: u32| {
        let pattern = Pattern::any().src(IpAddr::V4(Ipv4Addr::from(n)));
        nic.create(&Rule { group, priority: 0, pattern, actions: &actions })
    };
    for n in 0..65_536 {
        ids.insert(n, create(&mut nic, 0, n).unwrap());
    }
    let full = RuleError::GroupFull { group: 0, rules_max: 65_536 };
    assert_eq!(create(&mut nic, 0, 65_536), Err(full));
    create(&mut nic, 1, 65_536).unwrap();
    nic.destroy(ids[&7]).unwrap();
    create(&mut nic, 0, 65_536).unwrap();
    assert_eq!(nic.len(), 65_537);
}
