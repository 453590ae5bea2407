//! Groups and masks that come and go: none stays behind, and their places are used again.

use niclab_nic::limits::{GROUPS_MAX, MASKS_MAX};
use niclab_nic::memory::{Desc, Region};
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, RuleError, RuleId, Worker};
use niclab_packet::key::Key;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Pattern number `n` of 128 with as many masks; the frame of [`Bench::queue`] matches them all.
fn pattern(n: usize) -> Pattern {
    let zero = "0.0.0.0".parse().unwrap();
    let parts: [fn(Pattern, std::net::IpAddr) -> Pattern; 7] = [
        |p, _| p.eth_dst(MAC),
        |p, _| p.eth_src([0; 6]),
        |p, zero| p.src(zero),
        |p, zero| p.dst(zero),
        |p, _| p.sport(0),
        |p, _| p.dport(0),
        |p, _| p.udp(),
    ];
    let chosen = parts.iter().enumerate().filter(|(at, _)| n >> at & 1 == 1);
    chosen.fold(Pattern::ipv4(), |pattern, (_, part)| part(pattern, zero))
}

/// Pattern number `n` of any number with as many masks, which that frame matches too.
fn masked(n: usize) -> Pattern {
    Pattern::masked(&Key::default(), &Key([0, n as u64, 0, 0, 0, 0, 0, 0]))
}

/// A NIC with a worker and one frame.
struct Bench {
    nic: Nic,
    worker: Worker,
    region: std::sync::Arc<Region>,
    descs: Vec<Desc>,
}

impl Bench {
    fn new() -> Bench {
        let mut nic = Nic::new(&NicConfig { queues: 8, ..NicConfig::default() }).unwrap();
        let worker = nic.worker();
        let (region, mut descs) = Region::new(1, 100).unwrap();
        let frame = &mut region.slot_mut(&mut descs[0])[..60];
        frame.fill(0);
        frame[..6].copy_from_slice(&MAC);
        (frame[12], frame[14], frame[23]) = (8, 0x45, 17);
        region.set_len(&mut descs[0], 60);
        Bench { nic, worker, region, descs }
    }

    fn create(&mut self, group: u32, n: usize, action: Action) -> Result<RuleId, RuleError> {
        self.create_as(group, pattern(n), action)
    }

    fn create_as(
        &mut self,
        group: u32,
        pattern: Pattern,
        action: Action,
    ) -> Result<RuleId, RuleError> {
        self.nic.create(&Rule { group, priority: 0, pattern, actions: &[action] })
    }

    /// Where the frame goes now.
    fn queue(&mut self) -> u16 {
        assert_eq!(self.worker.classify(&self.region, &mut self.descs), 0);
        self.descs[0].queue
    }
}

#[test]
fn many_masks_may_come_and_go_while_few_live() {
    let mut bench = Bench::new();
    let rss = bench.queue();
    let mut most = 0;
    for round in 0..10 * MASKS_MAX {
        let queue = (rss + 1 + (round % 7) as u16) % 8;
        let id = bench.create(0, round % 128, Action::Queue(queue)).unwrap();
        assert_eq!(bench.queue(), queue);
        bench.nic.destroy(id).unwrap();
        assert_eq!(bench.queue(), rss);
        match round {
            0..128 => most = most.max(bench.nic.rule_bytes()),
            _ => assert!(bench.nic.rule_bytes() <= most, "round {round}: memory stays behind"),
        }
    }
}

#[test]
fn the_most_masks_fit_and_a_removed_one_makes_room() {
    let mut bench = Bench::new();
    let ids: Vec<RuleId> =
        (0..MASKS_MAX).map(|n| bench.create_as(0, masked(n), Action::Queue(0)).unwrap()).collect();
    let full = Err(RuleError::MasksTooMany { group: 0 });
    assert_eq!(bench.create_as(0, masked(MASKS_MAX), Action::Queue(0)), full);
    bench.nic.destroy(ids[5]).unwrap();
    bench.create_as(0, masked(MASKS_MAX), Action::Queue(0)).unwrap();
    assert_eq!(bench.create_as(0, masked(5), Action::Queue(0)), full);
}

/// A new mask may get the number of a removed one, the last word of its keys; the first words of
/// both may be alike.
#[test]
fn a_removed_mask_finds_no_rule_of_the_next_with_its_number() {
    let mut bench = Bench::new();
    let rss = bench.queue();
    let other = Action::Queue((rss + 1) % 8);
    // Enough masks for a filter, whose rules the frame does not match.
    for n in 1..100 {
        let pattern = Pattern::masked(&Key([0, u64::MAX, 0, 0, 0, 0, 0, 0]), masked(n).mask());
        bench.create_as(0, pattern, Action::Drop).unwrap();
    }
    let by_destination = bench.create_as(0, Pattern::any().eth_dst(MAC), other.clone()).unwrap();
    assert!(bench.nic.run_housekeeping(10_000));
    assert_eq!(bench.queue(), (rss + 1) % 8);
    bench.nic.destroy(by_destination).unwrap();
    assert_eq!(bench.queue(), rss);
    bench.create_as(0, Pattern::any().eth_src(MAC), other).unwrap();
    assert_eq!(bench.queue(), rss);
}

#[test]
fn many_groups_may_come_and_go_while_few_live() {
    let mut bench = Bench::new();
    let rss = bench.queue();
    let mut most = 0;
    for round in 0..2 * GROUPS_MAX {
        let group = 1 + round as u32;
        let queue = (rss + 1 + (round % 7) as u16) % 8;
        let inner = bench.create(group, 1, Action::Queue(queue)).unwrap();
        let outer = bench.create(0, 0, Action::Jump(group)).unwrap();
        assert_eq!(bench.queue(), queue);
        bench.nic.destroy(outer).unwrap();
        bench.nic.destroy(inner).unwrap();
        assert_eq!(bench.queue(), rss);
        // Indices of rules are used again in batches.
        match round < 64 {
            true => most = most.max(bench.nic.rule_bytes()),
            false => assert!(bench.nic.rule_bytes() <= most, "round {round}: memory stays behind"),
        }
    }
}

#[test]
fn a_jump_moved_from_group_to_group_keeps_one() {
    let mut bench = Bench::new();
    let outer = bench.create(0, 0, Action::Jump(1)).unwrap();
    for group in 2..2 * GROUPS_MAX as u32 {
        bench.nic.update(outer, &[Action::Jump(group)]).unwrap();
        bench.queue();
    }
}

#[test]
fn a_refused_rule_leaves_no_group_and_no_mask() {
    let mut bench = Bench::new();
    let rss = bench.queue();
    let of = bench.create(0, 0, Action::Queue((rss + 1) % 8)).unwrap();
    let duplicate = Err(RuleError::Duplicate { group: 0, priority: 0, of });
    for group in 1..=2 * GROUPS_MAX as u32 {
        // The worker is not asked, so no place could be used twice.
        assert_eq!(bench.create(0, 0, Action::Jump(group)), duplicate);
    }
    for n in 1..MASKS_MAX {
        bench.create_as(0, masked(n), Action::Drop).unwrap();
    }
    let full = Err(RuleError::MasksTooMany { group: 0 });
    for group in 1..=2 * GROUPS_MAX as u32 {
        assert_eq!(bench.create_as(0, masked(MASKS_MAX), Action::Jump(group)), full);
    }
    // All places but the root's are free: this many groups fit and no more.
    let create = |group| bench.create(group, 0, Action::Drop).unwrap();
    let ids: Vec<RuleId> = (1..GROUPS_MAX as u32).map(create).collect();
    let group = GROUPS_MAX as u32;
    assert_eq!(bench.create(group, 0, Action::Drop), Err(RuleError::GroupsTooMany));
    assert_eq!(
        bench.create(1, 0, Action::Jump(group)),
        Err(RuleError::Duplicate { group: 1, priority: 0, of: ids[0] })
    );
    assert_eq!(bench.create(1, 1, Action::Jump(group)), Err(RuleError::GroupsTooMany));
}

#[test]
fn the_place_of_a_group_waits_for_a_grace_period() {
    let mut bench = Bench::new();
    bench.queue();
    let ids: Vec<RuleId> =
        (1..GROUPS_MAX as u32).map(|group| bench.create(group, 0, Action::Drop).unwrap()).collect();
    bench.nic.destroy(ids[0]).unwrap();
    let other = GROUPS_MAX as u32;
    assert_eq!(bench.create(other, 0, Action::Drop), Err(RuleError::GroupsTooMany));
    bench.queue();
    bench.create(other, 0, Action::Drop).unwrap();
}

#[test]
fn an_offline_worker_holds_nothing() {
    let mut bench = Bench::new();
    let id = bench.create(0, 0, Action::Queue(1)).unwrap();
    let with_table = bench.nic.rule_bytes();
    assert_eq!(bench.queue(), 1);
    bench.worker.offline();
    bench.nic.destroy(id).unwrap();
    assert!(bench.nic.rule_bytes() < with_table);
    bench.create(0, 1, Action::Queue(2)).unwrap();
    bench.worker.online();
    assert_eq!(bench.queue(), 2);
}

#[test]
#[should_panic(expected = "offline worker")]
fn an_offline_worker_decides_about_no_frame_though_it_would_ask_no_table() {
    let mut bench = Bench::new();
    let rule = Rule { group: 0, priority: 0, pattern: Pattern::any(), actions: &[Action::Drop] };
    bench.nic.create(&rule).unwrap();
    bench.worker.offline();
    bench.queue();
}
