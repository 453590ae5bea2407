//! A modelled card as an experiment meets it. Expected numbers are computed by hand from those of
//! the profile.

use niclab_load::{Arrivals, Rate};
use niclab_nic::rule::Action;
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;

use super::*;
use crate::face::RuleBlock;
use crate::face::measured;
use crate::plan::{CallMode, ControlCore, RuleChangeKind, RuleWork};
use crate::stack::Stack;

const MS: u64 = 1_000_000;

/// A card of round numbers. What stands nowhere here is unknown.
const NUMBERS: &[(&str, &str, f64)] = &[
    ("port", "rate_gbps", 100.0),
    ("port", "fifo_frames", 1_000.0),
    ("root", "rules_max", 20_000.0),
    ("root", "frame_ns", 100.0),
    ("root", "rule_ps", 10.0),
    ("root", "near_rules", 10_000.0),
    ("root", "far_ns", 5.0),
    ("groups", "rules_max", 200_000.0),
    ("groups", "table_ns", 200.0),
    ("groups", "near_rules", 100.0),
    ("groups", "chain_ns", 1_000.0),
    ("host", "base_ns", 5_000.0),
    ("host", "wait_ns", 0.0),
    ("host", "frame_ns", 10.0),
    ("host", "ring_frames", 512.0),
    ("host", "burst_frames", 32.0),
    ("driver", "ip_ns", 0.0),
    ("root_rules", "create_ns", 1_000.0),
    ("root_rules", "first_ns", 1_000.0),
    ("root_rules", "warm_rules", 10.0),
    ("root_rules", "ipv4_ns", 0.0),
    ("root_rules", "far_ns", 0.0),
    ("root_rules", "beside_ns", 2_000.0),
    ("root_rules", "destroy_ns", 500.0),
    ("group_rules", "create_ns", 1_000.0),
    ("group_rules", "first_ns", 50_000.0),
    ("group_rules", "warm_rules", 10.0),
    ("group_rules", "near_rules", 1e6),
    ("group_rules", "miss_ns", 0.0),
    ("group_rules", "beside_ns", 2_000.0),
    ("group_rules", "destroy_ns", 500.0),
    ("group_rules", "update_ns", 300.0),
    ("injected", "noise_ratio", 0.0),
];

/// The card, with some numbers changed.
fn card(others: &[(&str, &str, f64)]) -> Profile {
    let find = |section: &str, key: &str| {
        let mut all = others.iter().chain(NUMBERS);
        all.find(|(of, name, _)| *of == section && *name == key).map(|(.., value)| *value)
    };
    Profile::of("A card".into(), "a test".into(), Vec::new(), |section| {
        let of_key = |key: &'static schema::Key| {
            let (basis, source) = (Basis::Stated, "a test".to_owned());
            let known = |value| Entry::Known { value, basis, source };
            (key, find(section.name, key.name).map_or(Entry::Unknown, known))
        };
        let is_said =
            |(_, entry): &(_, Entry)| section.name != INJECTED || *entry != Entry::Unknown;
        Part::Known(section.keys.iter().map(of_key).filter(is_said).collect())
    })
}

fn model(others: &[(&str, &str, f64)]) -> Model {
    Model::new("model:test", card(others), 1)
}

fn load() -> Load {
    Load {
        flows: FlowSpec { count: 100, ..FlowSpec::default() },
        sizes: FrameSizes::Fixed(64),
        rate: Rate::Pps(1e6),
        arrivals: Arrivals::Constant,
        duration_ns: 100 * MS,
        warmup_ns: 10 * MS,
        seed: 3,
        trace: None,
    }
}

fn setup(rules: Vec<RuleBlock>) -> Setup {
    let function = Function::Forward;
    let (cores, ports, receive) = (1, 1, Receive::Queues);
    let frame_len_max = 9_000;
    Setup { rules, queues: 4, cores, ports, receive, function, frame_len_max }
}

fn any(group: u32, action: Action) -> RuleBlock {
    RuleBlock::Any { group, priority: 1, actions: vec![action] }
}

/// One rule a flow, for flows that the load does not send.
fn others(group: u32, count: u32) -> RuleBlock {
    let flows = FlowSpec { seed: 99, count, ..FlowSpec::default() };
    let actions = vec![Action::Queue(1)];
    RuleBlock::FiveTuples { group, priority: 0, flows, first: 0, count, actions }
}

/// One rule for each flow of the load.
fn each(group: u32, action: Action) -> RuleBlock {
    let (flows, actions) = (load().flows, vec![action]);
    RuleBlock::FiveTuples { group, priority: 0, count: flows.count, flows, first: 0, actions }
}

fn plan(work: RuleWork) -> RulesPlan {
    let (core, calls, start_ns) = (ControlCore::Distinct, CallMode::Single, 10 * MS);
    let (slice, threads, per_s, pause_ns) = (None, None, None, None);
    RulesPlan { core, start_ns, work, calls, slice, threads, per_s, pause_ns }
}

fn run(model: &mut Model, load: &Load, plan: RulesPlan) -> (LoadObservation, Control) {
    let observation = model.offer(load, &Plan::Rules(Box::new(plan))).unwrap();
    assert_whole(&observation, 1_512 + 32);
    let control = observation.control.clone().unwrap();
    (observation, control)
}

/// Every frame is accounted for; `under_way` more of them were on their way at one end of the
/// measured part than at the other.
#[track_caller]
fn assert_whole(observation: &LoadObservation, under_way: u64) {
    assert!(observation.honesty.balanced, "{:?}", observation.honesty.reasons);
    assert_eq!(observation.planned, observation.offered + observation.unsent);
    assert_eq!(observation.offered, observation.received + observation.dropped + observation.lost);
    assert!(
        observation.rx_missed <= observation.lost,
        "{} missed of {} lost",
        observation.rx_missed,
        observation.lost
    );
    let slices = observation.slices.len() as u64;
    let sum = |of: fn(&niclab_load::Slice) -> u64| observation.slices.iter().map(of).sum::<u64>();
    assert_eq!(sum(|slice| slice.offered), observation.offered);
    let near = |a: u64, b: u64| a.abs_diff(b) <= slices + under_way;
    let (received, missed) = (sum(|slice| slice.received), sum(|slice| slice.rx_missed));
    assert!(
        near(received, observation.received),
        "{received} in slices, {} in all",
        observation.received
    );
    assert!(
        near(missed, observation.rx_missed),
        "{missed} in slices, {} in all",
        observation.rx_missed
    );
    let device = observation.device.as_ref().unwrap();
    assert!(
        device
            .queues
            .iter()
            .all(|queue| queue.rx_frames <= observation.generator.total().tx_frames)
    );
}

#[track_caller]
fn assert_near(value: f64, expected: f64, share: f64) {
    assert!((value / expected - 1.0).abs() <= share, "{value}, and {expected} was expected");
}

fn pps(observation: &LoadObservation) -> f64 {
    observation.received as f64 * 1e9 / observation.duration_ns as f64
}

fn latency_ns(observation: &LoadObservation, quantile: f64) -> f64 {
    observation.latency.as_ref().unwrap().0.value_at_quantile(quantile) as f64
}

/// What is refused as a capability that there is not.
#[track_caller]
fn assert_not_supported<T: std::fmt::Debug>(result: Result<T, DeviceError>, named: &str) {
    match result.unwrap_err() {
        DeviceError::NotSupported { capability } if capability.contains(named) => {}
        other => panic!("{named}: {other:?}"),
    }
}

#[track_caller]
fn assert_bad_plan<T: std::fmt::Debug>(result: Result<T, DeviceError>, named: &str) {
    match result.unwrap_err() {
        DeviceError::BadPlan { reason } if reason.contains(named) => {}
        other => panic!("{named}: {other:?}"),
    }
}

#[test]
fn every_profile_that_comes_with_niclab_opens_and_says_what_it_is() {
    for name in names() {
        read(name).unwrap_or_else(|error| panic!("{error}"));
        let name = format!("model:{name}");
        let card = open(&name).unwrap_or_else(|error| panic!("{error}"));
        let about = card.about();
        assert_eq!(about.name, name);
        assert!(about.in_virtual_time);
        let message = about.facts.iter().any(|fact| fact.value.contains("not measured"));
        assert!(message, "{about:?}");
        let lacks = about.not_supported == ["non-root groups"];
        assert_eq!(lacks, read(&name["model:".len()..]).unwrap().lacks("groups"), "{name}");
    }
    let bad = |name: &str| match open(name).map(|_| ()).unwrap_err() {
        DeviceError::BadName { text, reason } if text == name => reason,
        other => panic!("{other:?}"),
    };
    assert!(bad("model:").contains("model:NAME of 82599,"));
    assert!(bad("model:nosuch").contains("give a file, or one of 82599, bluefield"));
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let text = read("connectx-5").unwrap().text();
    std::fs::write(path, &text).unwrap();
    assert!(open(&format!("model:{path}")).is_ok());
    let slip = text.replacen("[port]", "[prot]", 1);
    std::fs::write(path, &slip).unwrap();
    let line = 1 + slip.lines().position(|line| line == "[prot]").unwrap();
    let reason = bad(&format!("model:{path}"));
    assert!(reason.starts_with(&format!("{path}:{line}: prot: unknown")), "{reason}");
}

#[test]
fn equal_seeds_and_calls_give_equal_answers_and_other_seeds_others() {
    let answers = |seed: u64| {
        let mut model = Model::new("card", read("connectx-5").unwrap(), seed);
        let report = model.setup(&setup(vec![any(0, Action::Queue(0)), others(0, 9)])).unwrap();
        let alone = model.operate(&plan(RuleWork::Create(others(1, 50)))).unwrap();
        let rested = model.offer(&load(), &Plan::Rest).unwrap();
        let beside = Plan::Rules(Box::new(plan(RuleWork::Create(others(1, 50)))));
        (report, alone, rested, model.offer(&load(), &beside).unwrap())
    };
    let (one, again, other) = (answers(5), answers(5), answers(6));
    assert_eq!(one, again);
    assert_ne!(one.0, other.0);
    assert_ne!(one.1, other.1);
    assert_ne!(one.2, other.2);
    assert_ne!(one.3.control, other.3.control);
    // One trial of a card is not the next, nor far from it.
    let mut model = Model::new("card", read("connectx-5").unwrap(), 5);
    model.setup(&setup(vec![any(0, Action::Queue(0))])).unwrap();
    let saturate = Load { rate: Rate::Saturate, ..load() };
    let mut trial = || pps(&model.offer(&saturate, &Plan::Rest).unwrap());
    let (first, second) = (trial(), trial());
    assert!(first != second && (first / second - 1.0).abs() < 0.01, "{first}, {second}");
    // Opened anew, a card is the same one.
    let opened = || {
        let mut card = open("model:connectx-6").unwrap();
        card.setup(&setup(vec![any(0, Action::Queue(0))])).unwrap();
        measured::load(&mut *card, &load()).unwrap()
    };
    assert_eq!(opened(), opened());
}

#[test]
fn every_trial_balances_however_extreme_the_load() {
    let sizes = [FrameSizes::Fixed(64), FrameSizes::Fixed(9_000), FrameSizes::Imix];
    let rates = [Rate::Pps(1.0), Rate::Pps(1_000.0), Rate::Pps(7e6), Rate::Saturate];
    let cards = ["bluefield", "connectx-4", "connectx-5", "connectx-6"].map(read);
    for profile in cards.into_iter().map(Result::unwrap).chain([card(&[])]) {
        let mut model = Model::new("card", profile, 7);
        let rules = vec![any(0, Action::Queue(0)), others(0, 500), each(0, Action::Queue(3))];
        model.setup(&setup(rules)).unwrap();
        for (rate, sizes) in rates.iter().flat_map(|rate| sizes.map(|size| (*rate, size))) {
            for (count, duration_ns) in [(1, MS), (100, MS + 1), (1_000_000, 20 * MS)] {
                let flows = FlowSpec { count, ..load().flows };
                let load = Load { flows, rate, sizes, duration_ns, ..load() };
                let observation = model.offer(&load, &Plan::Rest).unwrap();
                assert_whole(&observation, 2);
                assert_eq!(observation.slices.len() as u64, duration_ns.div_ceil(MS));
                let followed = if count <= 4_096 { count as usize } else { 0 };
                assert_eq!(observation.latest_ns.len(), followed);
                if let Rate::Pps(pps) = rate {
                    let expected = pps * duration_ns as f64 / 1e9;
                    let line = model.profile.number("port", "rate_gbps").unwrap() * 1e9 / 8.0;
                    let most = line / (sizes.mean() + 20.0) * duration_ns as f64 / 1e9;
                    let expected = expected.min(most);
                    assert!((observation.offered as f64 - expected).abs() <= 1.0, "{load:?}");
                }
            }
        }
    }
    // Nothing at all is whole too.
    let mut model = model(&[("injected", "loss_ratio", 1.0)]);
    model.setup(&setup(vec![any(0, Action::Queue(0))])).unwrap();
    let observation = model.offer(&load(), &Plan::Rest).unwrap();
    assert_whole(&observation, 0);
    assert_eq!(
        (observation.offered, observation.received, observation.lost),
        (100_000, 0, 100_000)
    );
    assert_eq!(observation.latest_ns, [None; 100]);
}

#[test]
fn throughput_falls_with_the_rules_of_group_0_as_the_profile_says() {
    let saturate = Load { rate: Rate::Saturate, ..load() };
    // 100 ns, 10 ps a rule, and 5 ns each rule beyond 10,000.
    let cases = [(1, 100.01), (1_000, 110.0), (10_000, 200.0), (10_100, 701.0), (20_000, 50_300.0)];
    for (rules, frame_ns) in cases {
        let mut model = model(&[]);
        model.setup(&setup(vec![any(0, Action::Queue(0)), others(0, rules - 1)])).unwrap();
        let observation = model.offer(&saturate, &Plan::Rest).unwrap();
        assert_near(pps(&observation), 1e9 / frame_ns, 1e-4 + 2e-7 * frame_ns);
    }
    // The slowest stage alone counts: the wire, the card's frame rate, the bus, or the host.
    for (others, sizes, frame_ns) in [
        (&[("root", "frame_ns", 1.0)][..], FrameSizes::Fixed(1_230), 100.0),
        (&[("port", "frame_rate_max", 4e6)], FrameSizes::Fixed(64), 250.0),
        (
            &[("pcie", "frame_ns", 30.0), ("pcie", "byte_ps", 200.0)],
            FrameSizes::Fixed(1_000),
            230.0,
        ),
        (&[("host", "frame_ns", 300.0)], FrameSizes::Fixed(64), 300.0),
        (&[("injected", "cliff_rules", 1.0)], FrameSizes::Fixed(64), 1_000.2),
    ] {
        let mut model = model(others);
        model.setup(&setup(vec![any(0, Action::Queue(0)), any(0, Action::Queue(0))])).unwrap();
        let observation = model.offer(&Load { sizes, ..saturate.clone() }, &Plan::Rest).unwrap();
        assert_near(pps(&observation), 1e9 / frame_ns, 1e-3);
    }
}

#[test]
fn throughput_falls_with_the_groups_on_the_way_and_their_rules() {
    // 200 ns a group, 63 % of it with 100 rules; 1 us a million rules more.
    let of_group = |rules: f64| 200.0 * (1.0 - (-rules / 100.0).exp()) + 1e3 * rules / 1e6;
    for (groups, rules) in [(1u32, 1u32), (1, 100), (1, 100_000), (4, 10_000)] {
        let mut blocks = vec![];
        for group in 0..groups {
            blocks.push(any(group, Action::Jump(group + 1)));
        }
        blocks.push(any(groups, Action::Queue(0)));
        blocks.extend((1..=groups).map(|group| others(group, rules)));
        let mut model = model(&[]);
        model.setup(&setup(blocks)).unwrap();
        let observation =
            model.offer(&Load { rate: Rate::Saturate, ..load() }, &Plan::Rest).unwrap();
        let frame_ns = 100.01 + f64::from(groups) * of_group(f64::from(rules) + 1.0);
        assert_near(pps(&observation), 1e9 / frame_ns, 1e-3);
    }
}

#[test]
fn a_frame_beyond_capacity_waits_for_those_in_front_of_it() {
    let mut model = model(&[]);
    // 200 ns a frame.
    model.setup(&setup(vec![any(0, Action::Queue(0)), others(0, 9_999)])).unwrap();
    let at = |model: &mut Model, rate| {
        let observation = model.offer(&Load { rate, ..load() }, &Plan::Rest).unwrap();
        [0.01, 0.5, 0.99].map(|quantile| latency_ns(&observation, quantile))
    };
    for rate in [Rate::Pps(5.5e6), Rate::Pps(20e6), Rate::Saturate] {
        for latency in at(&mut model, rate) {
            assert_near(latency, 1_000.0 * 200.0 + 5_000.0, 0.005);
        }
    }
    // Below it, none waits for another.
    for latency in at(&mut model, Rate::Pps(4.5e6)) {
        assert_near(latency, 200.0 + 5_000.0, 0.005);
    }
    // A host that is too slow: its ring is what they wait in.
    let mut model = self::model(&[("host", "frame_ns", 400.0)]);
    model.setup(&setup(vec![any(0, Action::Queue(0))])).unwrap();
    for latency in at(&mut model, Rate::Pps(4.5e6)) {
        assert_near(latency, 512.0 * 400.0 + 5_000.0, 0.005);
    }
    // Until it is polled, a frame waits any time up to the longest, each as likely.
    let mut model = self::model(&[("host", "wait_ns", 20_000.0)]);
    model.setup(&setup(vec![any(0, Action::Queue(0))])).unwrap();
    let [first, middle, last] = at(&mut model, Rate::Pps(1e6));
    assert!((5_000.0..5_500.0).contains(&first), "{first}");
    assert_near(middle, 15_000.0, 0.05);
    assert!((24_500.0..25_000.0).contains(&last), "{last}");
}

#[test]
fn a_batch_on_the_core_that_forwards_keeps_packets_waiting_and_on_another_one_does_not() {
    for group in [0, 1] {
        let mut model = model(&[("group_rules", "first_ns", 1_000.0)]);
        model.setup(&setup(vec![any(0, Action::Queue(0))])).unwrap();
        let work = RuleWork::Create(others(group, 1_000));
        let same = RulesPlan { core: ControlCore::Same, ..plan(work.clone()) };
        let (observation, control) = run(&mut model, &load(), same);
        // 1000 operations of 2 us, from 10 ms on.
        assert_eq!((control.planned, control.done, control.refused), (1_000, 1_000, 0));
        assert_eq!((control.begun_ns, control.ended_ns), (Some(10 * MS), Some(12 * MS)));
        assert_eq!((control.busy_ns, control.calls_ns), (2 * MS, 2 * MS));
        let without: Vec<usize> =
            (0..100).filter(|at| observation.slices[*at].received == 0).collect();
        assert_eq!(without, [10, 11]);
        // The ring takes 512 of the 2000 frames that come meanwhile.
        assert!(observation.lost.abs_diff(2_000 - 512) <= 2, "{} lost", observation.lost);
        assert_near(latency_ns(&observation, 1.0), 2.0 * MS as f64 + 5_000.0, 0.01);
        // In slices of ten, each waits for no more than one of them.
        let sliced = RulesPlan { slice: Some(10), core: ControlCore::Same, ..plan(work.clone()) };
        let (observation, control) = run(&mut model, &load(), sliced);
        assert_eq!((control.busy_ns, observation.lost), (2 * MS, 0));
        // A burst of the core's other work between two of them: 32 frames of 10 ns.
        assert_eq!(control.ended_ns, Some(12 * MS + 99 * 320));
        assert!(latency_ns(&observation, 1.0) < 30_000.0, "{}", latency_ns(&observation, 1.0));
        let (observation, control) = run(&mut model, &load(), plan(work));
        assert_eq!((control.done, control.busy_ns), (1_000, MS));
        assert_eq!(control.ended_ns, Some(11 * MS));
        assert!(
            observation.lost <= 1 && observation.slices.iter().all(|slice| slice.received >= 999)
        );
        assert_near(latency_ns(&observation, 1.0), 100.0 + 5_000.0, 0.005);
    }
}

#[test]
fn a_pause_is_kept_between_slices_on_either_core() {
    let mut model = model(&[("group_rules", "first_ns", 1_000.0)]);
    model.setup(&setup(vec![any(0, Action::Queue(0))])).unwrap();
    let work = RuleWork::Create(others(1, 100_000));
    let of = |core| RulesPlan { core, slice: Some(16), pause_ns: Some(MS), ..plan(work.clone()) };
    // 90 ms, and a slice each 1016 us; on the core that forwards each 1032 us.
    for (core, slices) in [(ControlCore::Distinct, 89), (ControlCore::Same, 88)] {
        let (observation, control) = run(&mut model, &load(), of(core));
        assert_eq!((control.planned, control.done), (100_000, 16 * slices), "{core:?}");
        assert_eq!((control.ended_ns, observation.lost), (None, 0), "{core:?}");
    }
    // Operations with a rate make up for none of the pause: 16 of the 100 due in it are done.
    let rate = RulesPlan { per_s: Some(100_000), ..of(ControlCore::Distinct) };
    let (_, control) = run(&mut model, &load(), rate);
    assert!(control.done <= 16 * 89, "{}", control.done);
    let no_pause = RulesPlan { per_s: Some(100_000), slice: Some(16), ..plan(work.clone()) };
    let (_, control) = run(&mut model, &load(), no_pause);
    assert_eq!(control.done, 9_000);
}

#[test]
fn rules_are_renewed_at_their_rate_as_long_as_the_core_keeps_up() {
    let mut model = model(&[("group_rules", "first_ns", 1_000.0)]);
    model.setup(&setup(vec![any(0, Action::Queue(0)), others(1, 100)])).unwrap();
    let renew = |core, per_s| RulesPlan {
        core,
        per_s: Some(per_s),
        slice: Some(16),
        ..plan(RuleWork::Renew { block: 1 })
    };
    // Beside packets 2 us each: 500,000 a second and no more; else 1500 ns, to destroy and create.
    for (core, per_s, done) in [
        (ControlCore::Same, 10_000, 900..=900),
        (ControlCore::Distinct, 10_000, 900..=900),
        (ControlCore::Same, 2_000_000, 44_000..=45_000),
        (ControlCore::Distinct, 2_000_000, 59_900..=60_016),
    ] {
        let (_, control) = run(&mut model, &load(), renew(core, per_s));
        assert_eq!(control.planned, u64::from(per_s) * 9 / 100);
        assert!(done.contains(&control.done), "{core:?} {per_s}: {} done", control.done);
        assert_eq!(control.late.as_ref().unwrap().0.len(), control.done);
    }
    assert_bad_plan(model.operate(&renew(ControlCore::Same, 5)), "renewed at a rate");
}

#[test]
fn rules_that_a_full_group_refuses_are_counted() {
    let mut model = model(&[]);
    let rules = vec![any(0, Action::Queue(0)), others(0, 25_000)];
    let report = model.setup(&setup(rules)).unwrap();
    assert_eq!((report.rules_installed, report.rules_refused), (20_000, 5_001));
    assert_eq!(report.refusal.as_deref(), Some("group 0 takes 20000 rules"));
    // A refused rule takes its time too.
    assert_eq!(report.install.as_micros(), 25_001);
    // Its throughput is that of the rules which are there.
    let saturate = Load { rate: Rate::Saturate, ..load() };
    assert_near(pps(&model.offer(&saturate, &Plan::Rest).unwrap()), 1e9 / 50_300.0, 0.02);
    let report = model.setup(&setup(vec![any(0, Action::Queue(0)), others(0, 19_899)])).unwrap();
    assert_eq!((report.rules_installed, report.rules_refused), (19_900, 0));
    assert_eq!(report.refusal, None);
    let create = plan(RuleWork::Create(others(0, 500)));
    let (_, beside) = run(&mut model, &load(), create.clone());
    let alone = model.operate(&create).unwrap();
    for control in [beside, alone] {
        assert_eq!((control.planned, control.done, control.refused), (500, 100, 400));
        assert_eq!(control.refusal.as_deref(), Some("group 0 takes 20000 rules"));
    }
    let destroyed = model.operate(&create).unwrap().destroyed.unwrap();
    assert_eq!((destroyed.done, destroyed.refused), (100, 0), "{destroyed:?}");
}

#[test]
fn operations_without_a_load_are_counted_and_timed_and_the_first_is_cold() {
    let mut model = model(&[]);
    model.setup(&setup(vec![any(0, Action::Queue(0)), each(1, Action::Queue(1))])).unwrap();
    // In a new group: 1 us each, and 49 us for the first, less by 1/e each ten rules.
    let create = plan(RuleWork::Create(others(2, 1_000)));
    let control = model.operate(&create).unwrap();
    assert_eq!((control.planned, control.done, control.refused), (1_000, 1_000, 0));
    assert_eq!((control.begun_ns, control.first_call_ns), (Some(0), Some(50_000)));
    assert_eq!(control.calls.as_ref().unwrap().0.len(), 999);
    let all_ns = 1e6 + 49_000.0 / (1.0 - (-0.1f64).exp());
    assert_near(control.ended_ns.unwrap() as f64, all_ns, 1e-4);
    assert_eq!((control.busy_ns, Some(control.calls_ns)), (control.calls_ns, control.ended_ns));
    let destroyed = control.destroyed.unwrap();
    assert_eq!((destroyed.done, destroyed.ended_ns), (1_000, Some(500_000)));
    // A group with rules is warm; in it 300 ns change one in place, and 1500 ns anew.
    for (change, each_ns) in [
        (RuleChangeKind::Actions(vec![Action::Queue(2)]), 300.0),
        (RuleChangeKind::Anew(vec![Action::Queue(2)]), 1_500.0),
    ] {
        let control = model.operate(&plan(RuleWork::Change { block: 1, change })).unwrap();
        assert_eq!((control.done, control.destroyed), (100, None));
        // A hundred rules are not yet all that makes a group warm.
        assert_near(control.ended_ns.unwrap() as f64, 100.0 * each_ns, 0.002);
    }
    // No more of them a second than the limit that a test put in.
    let mut slow = self::model(&[("injected", "rule_rate_max", 10_000.0)]);
    slow.setup(&setup(vec![any(0, Action::Queue(0))])).unwrap();
    assert_eq!(slow.operate(&create).unwrap().ended_ns, Some(100 * MS));
}

#[test]
fn frames_of_changed_rules_go_to_their_new_queue_from_then_on() {
    let mut model = model(&[]);
    let rules = vec![any(0, Action::Jump(1)), any(1, Action::Queue(0)), each(1, Action::Queue(1))];
    model.setup(&setup(rules)).unwrap();
    let at_queues = |observation: &LoadObservation| {
        let queues = &observation.device.as_ref().unwrap().queues;
        [0, 1, 2, 3].map(|queue: usize| queues[queue].rx_frames as f64 / 110_000.0)
    };
    let observation = model.offer(&load(), &Plan::Rest).unwrap();
    assert_eq!(at_queues(&observation), [0.0, 1.0, 0.0, 0.0]);
    // With the warm-up, 65 of 110 ms before and 45 behind it.
    let new = vec![Action::Queue(2)];
    let change = |change| {
        let start_ns = 55 * MS;
        RulesPlan { start_ns, ..plan(RuleWork::Change { block: 2, change }) }
    };
    let (observation, _) = run(&mut model, &load(), change(RuleChangeKind::Actions(new.clone())));
    let [none, old, changed, _] = at_queues(&observation);
    assert!(none == 0.0 && (old - 65.0 / 110.0).abs() < 1e-3, "{none}, {old}");
    assert!((changed - 45.0 / 110.0).abs() < 1e-3, "{changed}");
    // Between the old rule and the new one 1 us passes, for each of 100 flows.
    let (observation, control) = run(&mut model, &load(), change(RuleChangeKind::Anew(new)));
    let [none, ..] = at_queues(&observation);
    assert_near(none, 1e-3 / 110.0, 0.6);
    assert_eq!(control.done, 100);
}

#[test]
fn frames_that_rules_drop_are_counted_and_it_is_seen_until_when_each_flow_came_back() {
    let mut model = model(&[]);
    model.setup(&setup(vec![any(0, Action::Queue(0))])).unwrap();
    let create = || RuleWork::Create(each(0, Action::Drop));
    let dropping = RulesPlan { start_ns: 0, per_s: Some(10_000), slice: Some(1), ..plan(create()) };
    let (observation, control) = run(&mut model, &load(), dropping);
    assert_eq!((control.done, control.each_begun_ns.len()), (100, 100));
    // A flow each 100 us, done 1 us later: of 10 frames a millisecond and flow all others.
    let gone: f64 = (0..100).map(|flow| 100.0 - 0.1 * f64::from(flow) - 0.001).sum();
    assert_near(observation.dropped as f64, 10.0 * gone, 1e-4);
    assert_eq!(
        (observation.lost, observation.device.as_ref().unwrap().rule_drops),
        (0, observation.dropped)
    );
    assert_eq!(observation.latest_ns.len(), 100);
    for (flow, latest_ns) in observation.latest_ns.iter().enumerate() {
        let there_ns = control.each_begun_ns[flow] + 1_000;
        assert_eq!(there_ns, 100_000 * flow as u64 + 1_000);
        // A frame of each flow leaves every 100 us: the first flow may have sent none before.
        let Some(latest_ns) = latest_ns else { continue };
        let before_ns = there_ns.checked_sub(*latest_ns);
        assert!(before_ns.is_some_and(|ns| ns <= 100_001), "{flow}: {latest_ns}");
    }
    assert!(observation.latest_ns[1..].iter().all(Option::is_some), "{:?}", observation.latest_ns);
    // Without rules that drop, each comes back until the end.
    let rested = model.offer(&load(), &Plan::Rest).unwrap();
    assert_eq!((rested.dropped, rested.lost), (0, 0));
    let late = |latest_ns: &Option<u64>| latest_ns.is_some_and(|ns| ns >= 100 * MS - 100_001);
    assert!(rested.latest_ns.len() == 100 && rested.latest_ns.iter().all(late));
}

#[test]
fn an_unknown_figure_of_a_card_is_refused_by_name() {
    let open = |name: &str| Model::new("card", read(name).unwrap(), 1);
    let mut xl710 = open("xl710");
    let report = xl710.setup(&setup(vec![any(0, Action::Queue(0)), others(0, 9_000)])).unwrap();
    assert_eq!((report.rules_installed, report.rules_refused), (7_680, 1_321));
    assert_not_supported(xl710.offer(&load(), &Plan::Rest), "host.frame_ns, which is unknown");
    let create = || plan(RuleWork::Create(others(0, 1)));
    assert_not_supported(xl710.operate(&create()), "root_rules.ipv4_ns, which is unknown");
    let in_group = setup(vec![any(0, Action::Jump(1)), any(1, Action::Queue(0))]);
    assert_not_supported(xl710.setup(&in_group), "groups.table_ns, which is unknown");
    let mut connectx4 = open("connectx-4");
    assert_not_supported(connectx4.setup(&in_group), "non-root groups");
    let broken = connectx4.offer(&load(), &Plan::Rest).unwrap_err().to_string();
    assert_eq!(broken, "card failed: run before set-up");
    let broken = connectx4.operate(&create()).unwrap_err().to_string();
    assert_eq!(broken, "card failed: operate before set-up");
    connectx4.setup(&setup(vec![any(0, Action::Queue(0)), others(0, 9)])).unwrap();
    let of_group = connectx4.operate(&plan(RuleWork::Create(others(1, 1))));
    assert_not_supported(of_group, "non-root groups");
    let anew = RuleWork::Change { block: 1, change: RuleChangeKind::Anew(vec![Action::Queue(1)]) };
    assert_not_supported(connectx4.operate(&plan(anew)), "root_rules.destroy_ns");
    // More rules than anybody has measured.
    let mut connectx5 = open("connectx-5");
    let many = connectx5.setup(&setup(vec![any(1, Action::Queue(0)), others(1, 4_000_001)]));
    assert_not_supported(many, "more than 4000000 rules in groups");
}

#[test]
fn tasks_that_no_modelled_card_has_are_refused_by_name() {
    let mut model = model(&[]);
    let prefixes = |count| {
        let (stack, actions) = (Stack::Ipv4Prefix, vec![Action::Queue(0)]);
        RuleBlock::Stack { group: 0, priority: 0, stack, first: 0, count, actions }
    };
    assert_not_supported(model.setup(&setup(vec![prefixes(9)])), "prefixes");
    let file = RuleBlock::File { path: "a.flow".into(), rules_count: 3 };
    assert_not_supported(model.setup(&setup(vec![file])), "files of rules");
    model.setup(&setup(vec![any(0, Action::Queue(0)), each(0, Action::Queue(1))])).unwrap();
    let trace = Load { trace: Some("a.pcap".into()), ..load() };
    assert_not_supported(model.offer(&trace, &Plan::Rest), "traces");
    let rate = Rate::Step { low_pps: 1e3, high_pps: 2e3, from_ns: 0, until_ns: 1_000 };
    let steps = Load { rate, ..load() };
    assert_not_supported(model.offer(&steps, &Plan::Rest), "a load that steps");
    let create = || plan(RuleWork::Create(others(0, 5)));
    let change = |change| plan(RuleWork::Change { block: 1, change });
    let matches = "changes of what rules match, in place";
    let in_place = RuleChangeKind::Actions(vec![Action::Queue(2)]);
    for (plan, named) in [
        (RulesPlan { calls: CallMode::Queue, ..create() }, "operation queues"),
        (RulesPlan { calls: CallMode::Transaction, ..create() }, "transactions"),
        (RulesPlan { threads: Some(1), ..create() }, "control threads"),
        (plan(RuleWork::Create(prefixes(5))), "prefixes"),
        (change(RuleChangeKind::Values), matches),
        (change(RuleChangeKind::Mask), matches),
        (change(RuleChangeKind::Priority(3)), matches),
        (change(in_place), "changes of actions in group 0, in place"),
    ] {
        assert_not_supported(model.operate(&plan), named);
        assert_not_supported(model.offer(&load(), &Plan::Rules(Box::new(plan))), named);
    }
}

#[test]
fn a_plan_that_does_not_fit_is_refused_with_the_reason() {
    let mut model = model(&[]);
    model.setup(&setup(vec![any(0, Action::Queue(0)), each(1, Action::Queue(1))])).unwrap();
    let create = || plan(RuleWork::Create(others(1, 5)));
    let renew = || plan(RuleWork::Renew { block: 1 });
    for (plan, reason) in [
        (RulesPlan { start_ns: 100 * MS, ..create() }, "start_ns 100000000: the load has ended"),
        (RulesPlan { start_ns: u64::MAX, ..create() }, "the load has ended"),
        (RulesPlan { per_s: Some(0), ..renew() }, "per_s 0: use 1 to 100000000"),
        (RulesPlan { per_s: Some(100_000_001), ..renew() }, "use 1 to 100000000"),
        (renew(), "per_s: rules are renewed at a rate, and there is none"),
        (plan(RuleWork::Renew { block: 2 }), "block 2: the set-up has 2"),
    ] {
        assert_bad_plan(model.offer(&load(), &Plan::Rules(Box::new(plan))), reason);
    }
    let last = RulesPlan { start_ns: 100 * MS - 1, ..create() };
    let (_, control) = run(&mut model, &load(), last);
    assert!(control.done > 0 && control.done <= 5, "{control:?}");
}

/// A card whose cores take a frame in 200 ns, with 4 queues, and what it shows at a load of 64
/// flows; `None` for the rate: as much as the wire carries.
fn spread_over(cores: u16, others: &[(&str, &str, f64)], rate: Option<f64>) -> LoadObservation {
    let slow = [("host", "frame_ns", 200.0), ("root", "frame_ns", 10.0)];
    let mut model = model(&[others, &slow].concat());
    let report = model.setup(&Setup { cores, ..setup(Vec::new()) }).unwrap();
    assert_eq!(report.rss.unwrap().indirection, evenly(0..4));
    let flows = FlowSpec { count: 64, ..FlowSpec::default() };
    let rate = rate.map_or(Rate::Saturate, Rate::Pps);
    let observation = model.offer(&Load { flows, rate, ..load() }, &Plan::Rest).unwrap();
    assert!(observation.honesty.balanced, "{:?}", observation.honesty.reasons);
    observation
}

/// By queue, millions of frames a second: those that were taken, and those that were missed.
fn by_queue(observation: &LoadObservation) -> Vec<[f64; 2]> {
    let whole_us = 110_000.0;
    let queues = &observation.device.as_ref().unwrap().queues;
    queues.iter().map(|q| [q.rx_frames as f64 / whole_us, q.rx_missed as f64 / whole_us]).collect()
}

fn hashed() -> Vec<f64> {
    let flows = FlowSet::new(&FlowSpec { count: 64, ..FlowSpec::default() }).unwrap();
    Rss { indirection: evenly(0..4), ..Rss::default() }.shares(&flows, 4).unwrap()
}

#[test]
fn frames_that_no_rule_decides_are_spread_by_their_hash() {
    for cores in [1, 4] {
        for ([taken, missed], share) in
            by_queue(&spread_over(cores, &[], Some(2e6))).into_iter().zip(hashed())
        {
            assert_near(taken, 2.0 * share, 0.02);
            assert_eq!(missed, 0.0);
        }
    }
    // A fifth of all goes to queue 0 from the others, and never more than these have.
    let first = hashed()[0];
    for (skew, want) in [(0.2, first + 0.2), (0.99, 1.0)] {
        let observation = spread_over(1, &[("injected", "skew_ratio", skew)], Some(2e6));
        let shares: Vec<f64> =
            by_queue(&observation).iter().map(|[taken, _]| taken / 2.0).collect();
        assert_near(shares[0], want, 0.01);
        assert!((shares[3] - hashed()[3] * (1.0 - want) / (1.0 - first)).abs() < 0.005);
    }
}

#[test]
fn each_core_takes_what_it_can_of_its_own_queues() {
    // 5 Mpps a core; 64 B fill the wire at 148.8 Mpps, which the classifier cuts to 100.
    for cores in [1, 2, 4] {
        let observation = spread_over(cores, &[], None);
        assert_near(pps(&observation), 5e6 * f64::from(cores), 1e-3);
        let queues = by_queue(&observation);
        for core in 0..usize::from(cores) {
            let of_core = queues.iter().skip(core).step_by(usize::from(cores));
            assert_near(of_core.map(|[taken, _]| taken).sum(), 5.0, 0.01);
        }
        let missed: f64 = queues.iter().map(|[_, missed]| missed).sum();
        assert_near(missed, 100.0 - 5.0 * f64::from(cores), 0.01);
    }
    // A rate that two of four cores keep up with.
    let mut shares = hashed();
    shares.sort_by(f64::total_cmp);
    let rate = 10.0 / (shares[1] + shares[2]);
    let observation = spread_over(4, &[], Some(rate * 1e6));
    for ([taken, missed], share) in by_queue(&observation).into_iter().zip(hashed()) {
        assert_near(taken, (rate * share).min(5.0), 0.02);
        assert_eq!(missed > 0.0, rate * share > 5.0, "{share}");
    }
    assert_near(latency_ns(&observation, 0.01), 5_010.0, 0.02);
    assert_near(latency_ns(&observation, 0.99), 512.0 * 200.0 + 5_000.0, 0.02);
}

#[test]
fn a_slow_queue_is_the_last_one_and_slows_its_core() {
    let slow = [("injected", "slow_queue_pps", 0.2e6)];
    let queues = by_queue(&spread_over(4, &slow, Some(2e6)));
    // What waits in the ring when the load ends comes too.
    assert_near(queues[3][0], (0.2 * 110.0 + 0.512) / 110.0, 0.01);
    assert_near(queues[3][1], 2.0 * hashed()[3] - 0.2, 0.05);
    assert!(queues[..3].iter().all(|[_, missed]| *missed == 0.0), "{queues:?}");
    // With one core for all, frames of the others wait behind its frames, one of each in turn.
    let observation = spread_over(1, &slow, None);
    assert_near(pps(&observation), 4.0 * 1e9 / (5_000.0 + 3.0 * 200.0), 0.02);
}

#[test]
fn operations_keep_the_first_core_from_its_frames_and_a_stall_keeps_all() {
    let lost = |core, others: &[(&str, &str, f64)]| {
        let slow = [("host", "frame_ns", 200.0)];
        let mut model = model(&[others, &slow].concat());
        model.setup(&Setup { cores: 4, ..setup(Vec::new()) }).unwrap();
        let plan = RulesPlan { core, ..plan(RuleWork::Create(self::others(1, 10_000))) };
        let flows = FlowSpec { count: 64, ..FlowSpec::default() };
        let load = Load { flows, rate: Rate::Pps(2e6), ..load() };
        let (observation, _) = run(&mut model, &load, plan);
        by_queue(&observation).iter().map(|[_, missed]| missed * 110_000.0).collect::<Vec<f64>>()
    };
    // 20 ms, of which the ring covers 512 frames.
    let beside = lost(ControlCore::Same, &[]);
    assert_near(beside[0], 2e6 * hashed()[0] * 0.02 - 512.0, 0.05);
    assert_eq!(beside[1..], [0.0; 3]);
    let stalled = [("injected", "stall_ns", 20e6)];
    let [same, distinct] =
        [ControlCore::Same, ControlCore::Distinct].map(|core| lost(core, &stalled));
    for (queue, share) in hashed().into_iter().enumerate() {
        let missed = |seconds: f64| 2e6 * share * seconds - 512.0;
        assert_near(distinct[queue], missed(0.02), 0.05);
        // Core 0 is away for the operations, too.
        assert_near(same[queue], missed(if queue == 0 { 0.04 } else { 0.02 }), 0.05);
    }
}
