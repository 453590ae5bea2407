//! Traffic that is made to cost: packets whose fields each lie in a rule of every mask while no
//! rule has them whole, and packets that never come twice ("tuple space explosion": Csikor et al.,
//! "Tuple Space Explosion: A Denial-of-Service Attack Against a Software Packet Classifier", CoNEXT
//! 2019).
//!
//! A card that caches what traffic asked for grows by it. This one has its rules and nothing that
//! packets made: what a packet costs is decided by the rules alone. What such packets cost is shown
//! by `cargo bench -p niclab-bench --bench growth`.

use std::net::Ipv4Addr;
use std::sync::Arc;

use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, Worker};
use niclab_packet::key::{Key, field};

const MASKS: u32 = 1_000;
/// Queue of packets that one of the rules has; RSS spreads the others over the first ones.
const FOUND: u16 = 7;
const OURS: u32 = 0x0a0b_0c0d;
const THEIRS: u32 = 0xc0c1_c2c3;

/// Two rules for each mask: one with the attacker's source and another's destination, the other the
/// opposite. The first are the best: those of long prefixes, so that it matters under which of many
/// masks that all have a rule a packet is looked up.
fn rules() -> Vec<Pattern> {
    let mut rules = Vec::new();
    for mask in (0..MASKS).rev() {
        let lengths = [mask % 32, mask / 32].map(|bits| u32::MAX << (31 - bits));
        for pair in [[OURS, THEIRS], [THEIRS, OURS]] {
            let (mut value, mut bits) = ([0; 64], [0; 64]);
            for (at, place) in [field::SRC_HEAD, field::DST_HEAD].into_iter().enumerate() {
                value[place.clone()].copy_from_slice(&(pair[at] & lengths[at]).to_be_bytes());
                bits[place].copy_from_slice(&lengths[at].to_be_bytes());
            }
            rules.push(Pattern::masked(&Key::from_bytes(&value), &Key::from_bytes(&bits)));
        }
    }
    rules
}

struct Bench {
    nic: Nic,
    worker: Worker,
    region: Arc<Region>,
    descs: Vec<Desc>,
    rules: Vec<Pattern>,
}

impl Bench {
    fn new() -> Bench {
        let mut nic = Nic::new(&NicConfig { queues: 8, ..NicConfig::default() }).unwrap();
        let rules = rules();
        for (priority, pattern) in (0..).zip(rules.clone()) {
            let actions = &[Action::Mark(priority), Action::Queue(FOUND)];
            nic.create(&Rule { group: 0, priority, pattern, actions }).unwrap();
        }
        assert!(nic.run_housekeeping(1 << 20), "the filter is made");
        let worker = nic.worker();
        let (region, descs) = Region::new(BURST, 100).unwrap();
        Bench { nic, worker, region, descs, rules }
    }

    /// Sends TCP segments between these addresses; which rule has each.
    fn send(&mut self, pairs: &[[u32; 2]]) -> Vec<Option<u32>> {
        let descs = &mut self.descs[..pairs.len()];
        for (desc, [src, dst]) in descs.iter_mut().zip(pairs) {
            let frame = &mut self.region.slot_mut(desc)[..60];
            frame.fill(0);
            (frame[12], frame[14], frame[23]) = (8, 0x45, 6);
            frame[26..30].copy_from_slice(&Ipv4Addr::from_bits(*src).octets());
            frame[30..34].copy_from_slice(&Ipv4Addr::from_bits(*dst).octets());
            self.region.set_len(desc, 60);
        }
        assert_eq!(self.worker.classify(&self.region, descs), 0, "no rule drops");
        descs.iter().map(|desc| self.region.mark(desc)).collect()
    }
}

#[test]
fn packets_that_no_filter_can_leave_out_find_what_a_scan_of_the_rules_finds() {
    let mut bench = Bench::new();
    // The attacker's packets, those of the rules, and neighbours of both, bit by bit.
    let near = |address: u32| (0..32).map(move |bit| address ^ 1 << bit).chain([address]);
    let all = near(OURS).chain(near(THEIRS));
    let pairs: Vec<[u32; 2]> =
        all.clone().flat_map(|src| all.clone().map(move |dst| [src, dst])).collect();
    let (mut found, mut missed) = (0, 0);
    for pairs in pairs.chunks(BURST) {
        let seen = bench.send(pairs);
        for (desc, seen) in bench.descs.iter().zip(seen) {
            let frame = bench.region.frame(desc);
            let rule = bench.rules.iter().position(|rule| rule.matches(frame));
            assert_eq!(seen, rule.map(|rule| rule as u32));
            (found, missed) =
                (found + u32::from(seen.is_some()), missed + u32::from(seen.is_none()));
        }
    }
    assert!(found > 1_000 && missed > 1_000, "{found} found, {missed} missed");
}

#[test]
fn traffic_leaves_no_trace() {
    let mut bench = Bench::new();
    let bytes = bench.nic.rule_bytes();
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 32) as u32
    };
    for round in 0..2_000 {
        // Packets that never come twice, and the attacker's among them.
        let mut pairs = [[OURS, OURS]; BURST];
        pairs.iter_mut().skip(round % 2).step_by(2).for_each(|pair| *pair = [draw(), draw()]);
        bench.send(&pairs);
    }
    assert_eq!(bench.nic.rule_bytes(), bytes);
}
