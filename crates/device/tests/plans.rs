//! Rules that change while packets flow: what was planned is done, told, and put back.

use std::sync::{Mutex, MutexGuard, PoisonError};

use niclab_device::cores::allowed;
use niclab_device::soft::Soft;
use niclab_device::{
    Arrivals, CallMode, Control, ControlCore, DeviceError, Function, Load, LoadObservation, Plan,
    Rate, Receive, RuleBlock, RuleChangeKind, RuleWork, RulesPlan, Setup, Stack, Task, Testbed,
};
use niclab_nic::limits::ROOT_RULES_MAX;
use niclab_nic::rule::Action;
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;

/// One trial at a time: all of them want the same two cores.
static CORES: Mutex<()> = Mutex::new(());

/// Flows of the load, all of which get a rule.
const FLOWS: u32 = 500;
/// When the operations begin.
const START_NS: u64 = 20_000_000;

/// `None`, with a reason on the screen, where the machine has one core.
fn soft(test: &str) -> Option<(Soft, MutexGuard<'static, ()>)> {
    let turn = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    if allowed().len() < 2 {
        println!("SKIP {test}: it takes two cores");
        return None;
    }
    Some((Soft::open().unwrap(), turn))
}

fn load() -> Load {
    Load {
        flows: FlowSpec { count: FLOWS, ..FlowSpec::default() },
        sizes: FrameSizes::Fixed(64),
        rate: Rate::Pps(50_000.0),
        arrivals: Arrivals::Constant,
        // A busy machine takes a core away for tens of milliseconds.
        duration_ns: 300_000_000,
        warmup_ns: 10_000_000,
        seed: 3,
        trace: None,
    }
}

fn setup(rules: Vec<RuleBlock>) -> Setup {
    let function = Function::Forward;
    let (cores, ports, receive) = (1, 1, Receive::Queues);
    let frame_len_max = 1_518;
    Setup { rules, queues: 2, cores, ports, receive, function, frame_len_max }
}

fn all_to(queue: u16, priority: u32) -> RuleBlock {
    RuleBlock::Any { group: 0, priority, actions: vec![Action::Queue(queue)] }
}

/// One rule a flow.
fn each_to(queue: u16, count: u32) -> RuleBlock {
    let flows = FlowSpec { count: FLOWS.max(count), ..load().flows };
    let actions = vec![Action::Queue(queue)];
    RuleBlock::FiveTuples { group: 0, priority: 0, flows, first: 0, count, actions }
}

fn plan(work: RuleWork) -> RulesPlan {
    let (core, calls) = (ControlCore::Same, CallMode::Single);
    let (start_ns, slice, threads, per_s) = (START_NS, Some(16), None, None);
    RulesPlan { core, start_ns, work, calls, slice, threads, per_s, pause_ns: None }
}

/// What a load showed beside a plan.
fn offer(soft: &mut Soft, load: &Load, plan: &Plan) -> Result<LoadObservation, DeviceError> {
    let task = Task::Load { load: load.clone(), plan: plan.clone() };
    soft.measure(&task)?.into_load()
}

/// What a plan without a load took.
fn operate(soft: &mut Soft, plan: &RulesPlan) -> Result<Control, DeviceError> {
    soft.measure(&Task::Plan(plan.clone()))?.into_plan()
}

fn run(soft: &mut Soft, plan: RulesPlan) -> (LoadObservation, Control) {
    let observation = offer(soft, &load(), &Plan::Rules(Box::new(plan))).unwrap();
    assert!(observation.honesty.balanced, "{:?}", observation.honesty.reasons);
    let control = observation.control.clone().unwrap();
    (observation, control)
}

/// Frames at each of the two queues.
fn at_queues(observation: &LoadObservation) -> [u64; 2] {
    let queues = &observation.device.as_ref().unwrap().queues;
    [queues[0].rx_frames, queues[1].rx_frames]
}

/// Every way to ask for operations.
fn ways() -> impl Iterator<Item = (ControlCore, CallMode, Option<u32>)> {
    let cores = [ControlCore::Same, ControlCore::Distinct];
    let calls = [CallMode::Single, CallMode::Queue, CallMode::Transaction];
    let slices = [Some(16), None];
    cores.into_iter().flat_map(move |core| {
        calls.into_iter().flat_map(move |calls| slices.map(|slice| (core, calls, slice)))
    })
}

#[test]
fn rules_are_created_under_load_in_every_way_and_go_with_the_trial() {
    let Some((mut soft, _turn)) = soft("rules_are_created_under_load") else { return };
    soft.setup(&setup(vec![all_to(0, 1)])).unwrap();
    for (core, calls, slice) in ways() {
        let work = RuleWork::Create(each_to(1, FLOWS));
        let (observation, control) = run(&mut soft, RulesPlan { core, calls, slice, ..plan(work) });
        let way = format!("{core:?} {calls:?} {slice:?}: {control:?}");
        let counts = (control.planned, control.done, control.refused);
        assert_eq!(counts, (FLOWS.into(), FLOWS.into(), 0), "{way}");
        let (begun_ns, ended_ns) = (control.begun_ns.unwrap(), control.ended_ns.unwrap());
        assert!((START_NS..300_000_000).contains(&begun_ns), "{way}");
        assert!(ended_ns >= begun_ns + control.busy_ns.min(1_000) && control.busy_ns > 0, "{way}");
        // The first call stands apart; a commit is one.
        let timed = control.calls.as_ref().unwrap().0.len() + 1;
        match calls {
            CallMode::Single => assert_eq!(timed, u64::from(FLOWS), "{way}"),
            CallMode::Transaction => assert_eq!(timed, u64::from(FLOWS) + 1, "{way}"),
            CallMode::Queue => assert!(timed < u64::from(FLOWS), "{way}"),
        }
        assert!(control.first_call_ns > Some(0) && control.late.is_none(), "{way}");
        let [before, after] = at_queues(&observation);
        assert!(before > 0 && after > 0, "{before} frames before, {after} after: {way}");
        let rested = offer(&mut soft, &load(), &Plan::Rest).unwrap();
        assert_eq!((at_queues(&rested)[1], rested.control), (0, None), "{way}");
    }
}

/// A change of the rules of block 1.
fn change(change: RuleChangeKind) -> RuleWork {
    RuleWork::Change { block: 1, change }
}

/// Rules for the flows of the load, and as many flows behind them.
fn half_to(queue: u16) -> RuleBlock {
    let flows = FlowSpec { count: 2 * FLOWS, ..load().flows };
    let actions = vec![Action::Queue(queue)];
    RuleBlock::FiveTuples { group: 0, priority: 0, flows, first: 0, count: FLOWS, actions }
}

#[test]
fn rules_are_changed_under_load_in_every_way_and_are_put_back() {
    if std::env::var_os("NICLAB_TEST_ALL").is_none() {
        println!("SKIP rules_are_changed_under_load: takes more than ten seconds: ./test --all");
        return;
    }
    let Some((mut soft, _turn)) = soft("rules_are_changed_under_load") else { return };
    soft.setup(&setup(vec![all_to(0, 1), half_to(1)])).unwrap();
    // All of these but the wider mask let the frames meet queue 0.
    let changes = [
        RuleChangeKind::Actions(vec![Action::Queue(0)]),
        RuleChangeKind::Anew(vec![Action::Queue(0)]),
        RuleChangeKind::Values,
        RuleChangeKind::Mask,
        RuleChangeKind::Priority(2),
    ];
    for kind in changes {
        let is_first = matches!(kind, RuleChangeKind::Actions(_));
        // At once is no other way than in slices: one kind shows it.
        for (core, calls, slice) in ways().filter(|(.., slice)| is_first || slice.is_some()) {
            let plan = RulesPlan { core, calls, slice, ..plan(change(kind.clone())) };
            let whole = matches!(
                kind,
                RuleChangeKind::Values | RuleChangeKind::Mask | RuleChangeKind::Priority(_)
            );
            if whole && calls == CallMode::Queue {
                let refused = offer(&mut soft, &load(), &Plan::Rules(Box::new(plan))).unwrap_err();
                let capability = "changes of what rules match through an operation queue".into();
                assert_eq!(refused, DeviceError::NotSupported { capability });
                continue;
            }
            let (observation, control) = run(&mut soft, plan);
            let way = format!("{kind:?} {core:?} {calls:?} {slice:?}: {control:?}");
            assert_eq!((control.done, control.refused), (FLOWS.into(), 0), "{way}");
            let [after, before] = at_queues(&observation);
            let meets_others = kind != RuleChangeKind::Mask;
            assert!(before > 0 && (after > 0) == meets_others, "{before}, {after} after: {way}");
            let rested = offer(&mut soft, &load(), &Plan::Rest).unwrap();
            assert_eq!(at_queues(&rested)[0], 0, "{way}");
        }
    }
}

#[test]
fn a_rule_with_a_wider_mask_meets_flows_of_every_source_port() {
    let Some((mut soft, _turn)) = soft("a_rule_with_a_wider_mask") else { return };
    let one = |address: &str| Some(address.parse().unwrap());
    let (src, dst) = (one("10.0.0.1"), one("198.18.0.1"));
    let flows = FlowSpec { src, dst, dport: "53".parse().unwrap(), ..load().flows };
    let load = Load { flows: flows.clone(), ..load() };
    let (first, count, actions) = (0, 1, vec![Action::Queue(1)]);
    let rule = RuleBlock::FiveTuples { group: 0, priority: 0, flows, first, count, actions };
    soft.setup(&setup(vec![all_to(0, 1), rule])).unwrap();
    let one_in = |observation: &LoadObservation| {
        let [others, met] = at_queues(observation);
        met as f64 / (others + met) as f64 * f64::from(FLOWS)
    };
    let plan = Plan::Rules(Box::new(plan(change(RuleChangeKind::Mask))));
    let observation = offer(&mut soft, &load, &plan).unwrap();
    assert!(one_in(&observation) > 100.0, "{:?}", at_queues(&observation));
    let rested = offer(&mut soft, &load, &Plan::Rest).unwrap();
    assert!((0.1..10.0).contains(&one_in(&rested)), "{:?}", at_queues(&rested));
}

#[test]
fn rules_are_renewed_at_a_rate_and_the_number_of_them_stays() {
    let Some((mut soft, _turn)) = soft("rules_are_renewed") else { return };
    soft.setup(&setup(vec![all_to(0, 1), half_to(1)])).unwrap();
    // 280 ms at 10,000 a second: more than five times round.
    let (work, per_s) = (RuleWork::Renew { block: 1 }, Some(10_000));
    for core in [ControlCore::Same, ControlCore::Distinct] {
        for calls in [CallMode::Single, CallMode::Queue] {
            let plan = RulesPlan { core, calls, per_s, ..plan(work.clone()) };
            let (observation, control) = run(&mut soft, plan);
            let way = format!("{core:?} {calls:?}: {control:?}");
            assert_eq!((control.planned, control.refused), (2_800, 0), "{way}");
            // A machine that takes a core away for long leaves some of them undone.
            assert!((1_000..=2_800).contains(&control.done), "{way}");
            assert_eq!(control.late.as_ref().unwrap().0.len(), control.done, "{way}");
            // What the core that forwards asks of another one waits until that takes it up.
            let waited = control.waited.as_ref().map(|waited| waited.0.len());
            let is_asked = core == ControlCore::Distinct;
            assert_eq!(waited, is_asked.then_some(control.done), "{way}");
            let busy_ns = control.busy_ns;
            assert!((1..280_000_000).contains(&busy_ns), "{way}");
            // Half of the time a flow of the load has a rule.
            let [without, with] = at_queues(&observation);
            assert!(without > 0 && with > 0, "{without} without a rule, {with} with one: {way}");
            let rested = offer(&mut soft, &load(), &Plan::Rest).unwrap();
            assert_eq!(at_queues(&rested)[0], 0, "{way}");
        }
    }
}

#[test]
fn a_rule_that_went_and_whose_successor_is_refused_is_counted_and_put_back() {
    let Some((mut soft, _turn)) = soft("a_rule_that_went") else { return };
    // Of the flow behind those of the block one has a rule already.
    let RuleBlock::FiveTuples { flows, .. } = half_to(1) else { panic!("no flows") };
    let (first, count, actions) = (FLOWS, 1, vec![Action::Queue(1)]);
    let taken = RuleBlock::FiveTuples { group: 0, priority: 0, flows, first, count, actions };
    soft.setup(&setup(vec![all_to(0, 1), half_to(1), taken])).unwrap();
    for core in [ControlCore::Same, ControlCore::Distinct] {
        for calls in [CallMode::Single, CallMode::Queue] {
            let (work, per_s) = (RuleWork::Renew { block: 1 }, Some(10_000));
            let (_, control) = run(&mut soft, RulesPlan { core, calls, per_s, ..plan(work) });
            assert!(control.done > 100 && control.refused > 0, "{control:?}");
            let rested = offer(&mut soft, &load(), &Plan::Rest).unwrap();
            assert_eq!(at_queues(&rested)[0], 0, "every flow has its rule again");
        }
    }
}

#[test]
fn rules_change_beside_a_card_of_several_cores() {
    let Some((mut soft, _turn)) = soft("rules_change_beside_a_card_of_several_cores") else {
        return;
    };
    soft.setup(&Setup { cores: 2, ..setup(vec![all_to(0, 1), half_to(1)]) }).unwrap();
    let update = || change(RuleChangeKind::Actions(vec![Action::Queue(0)]));
    for calls in [CallMode::Single, CallMode::Queue, CallMode::Transaction] {
        let (observation, control) = run(&mut soft, RulesPlan { calls, ..plan(update()) });
        assert_eq!((control.done, control.refused), (FLOWS.into(), 0), "{calls:?}");
        let [after, before] = at_queues(&observation);
        assert!(before > 0 && after > 0, "{before} frames before, {after} after: {calls:?}");
        // RSS brings half of the flows to each core, and rules send them to the other one.
        let crossed = observation.crossed.unwrap();
        assert!((1..before + after).contains(&crossed), "{crossed} crossed: {calls:?}");
        let rested = offer(&mut soft, &load(), &Plan::Rest).unwrap();
        assert_eq!(at_queues(&rested)[0], 0, "the rules are as they were: {calls:?}");
    }
    let renewed = RulesPlan { per_s: Some(10_000), ..plan(RuleWork::Renew { block: 1 }) };
    let (_, control) = run(&mut soft, renewed);
    assert!(control.done > 1_000 && control.refused == 0, "{control:?}");
    let beside = RulesPlan { core: ControlCore::Distinct, ..plan(update()) };
    let observation = offer(&mut soft, &load(), &Plan::Rules(Box::new(beside)));
    match allowed().len() {
        2 => {
            let capability = "a core beside the 2 of the card: there is none".to_owned();
            assert_eq!(observation.unwrap_err(), DeviceError::NotSupported { capability });
        }
        _ => assert_eq!(observation.unwrap().control.unwrap().done, u64::from(FLOWS)),
    }
}

#[test]
fn a_full_group_stays_full_while_its_rules_are_renewed() {
    let Some((mut soft, _turn)) = soft("a_full_group_stays_full") else { return };
    let flows = FlowSpec { seed: 7, count: 2 * ROOT_RULES_MAX, ..FlowSpec::default() };
    let (count, actions) = (ROOT_RULES_MAX, vec![Action::Queue(0)]);
    let full = RuleBlock::FiveTuples { group: 0, priority: 0, flows, first: 0, count, actions };
    soft.setup(&setup(vec![full])).unwrap();
    for calls in [CallMode::Single, CallMode::Queue] {
        let (work, per_s) = (RuleWork::Renew { block: 0 }, Some(100_000));
        let (_, control) = run(&mut soft, RulesPlan { calls, per_s, ..plan(work) });
        assert!(control.done > 1_000 && control.refused == 0, "{control:?}");
    }
}

#[test]
fn a_plan_without_a_load_is_carried_out_and_its_rules_are_destroyed_in_the_same_way() {
    let Some((mut soft, _turn)) = soft("without_a_load") else { return };
    soft.setup(&setup(vec![all_to(0, 1), half_to(1)])).unwrap();
    // The transaction comes first: nothing has run before it.
    for calls in [CallMode::Transaction, CallMode::Single, CallMode::Queue] {
        let others = RuleBlock::FiveTuples {
            group: 1,
            priority: 0,
            flows: FlowSpec { count: 20_000, ..FlowSpec::default() },
            first: 0,
            count: 20_000,
            actions: vec![Action::Queue(1)],
        };
        let control =
            operate(&mut soft, &RulesPlan { calls, ..plan(RuleWork::Create(others)) }).unwrap();
        let counts = |control: &Control| (control.planned, control.done, control.refused);
        assert_eq!(counts(&control), (20_000, 20_000, 0), "{control:?}");
        let destroyed = control.destroyed.as_ref().unwrap();
        assert_eq!(counts(destroyed), (20_000, 20_000, 0), "{control:?}");
        for control in [&control, destroyed] {
            assert!(control.begun_ns < control.ended_ns && control.busy_ns > 0, "{control:?}");
            assert!(control.first_call_ns > Some(0), "{control:?}");
        }
        // Rules of several masks.
        let (group, priority, first, count) = (1, 0, 0, 20_000);
        let (stack, actions) = (Stack::Ipv4Prefix, vec![Action::Queue(1)]);
        let prefixes = RuleBlock::Stack { group, priority, stack, first, count, actions };
        let control =
            operate(&mut soft, &RulesPlan { calls, ..plan(RuleWork::Create(prefixes)) }).unwrap();
        assert_eq!(counts(&control), (20_000, 20_000, 0), "{control:?}");
        let anew = plan(change(RuleChangeKind::Anew(vec![Action::Queue(0)])));
        let control = operate(&mut soft, &RulesPlan { calls, ..anew }).unwrap();
        assert_eq!(counts(&control), (FLOWS.into(), FLOWS.into(), 0), "{control:?}");
        assert_eq!(control.destroyed, None);
        let rested = offer(&mut soft, &load(), &Plan::Rest).unwrap();
        assert_eq!(at_queues(&rested)[0], 0, "the rules of the set-up are back");
    }
    // A template has no place for what is inside a tunnel.
    let (group, priority, first, count) = (1, 0, 0, 9);
    let (stack, actions) = (Stack::VxlanIpv4Udp, vec![Action::Queue(1)]);
    let tunnels = RuleBlock::Stack { group, priority, stack, first, count, actions };
    for threads in [None, Some(1)] {
        let work = RuleWork::Create(tunnels.clone());
        let error =
            operate(&mut soft, &RulesPlan { calls: CallMode::Queue, threads, ..plan(work) });
        let capability = "rules that look into tunnels through an operation queue".to_owned();
        assert_eq!(error.unwrap_err(), DeviceError::NotSupported { capability });
    }
    let renew = plan(RuleWork::Renew { block: 1 });
    let error = operate(&mut soft, &renew).unwrap_err().to_string();
    assert!(error.contains("as long as a load lasts"), "{error}");
}

#[test]
fn rules_of_several_threads_are_created_and_go_again() {
    let Some((mut soft, _turn)) = soft("rules_of_several_threads") else { return };
    soft.setup(&setup(vec![all_to(0, 1)])).unwrap();
    let several = |count, calls, threads| {
        let flows = FlowSpec { seed: 7, count, ..FlowSpec::default() };
        let (group, priority, first, actions) = (0, 0, 0, vec![Action::Queue(1)]);
        let rules = RuleBlock::FiveTuples { group, priority, flows, first, count, actions };
        RulesPlan { calls, threads: Some(threads), ..plan(RuleWork::Create(rules)) }
    };
    // The root group takes no more, one of which is there.
    let full = (ROOT_RULES_MAX + 5, ROOT_RULES_MAX - 1);
    for (threads, (count, done)) in [(1, (20_001, 20_001)), (2, (20_001, 20_001)), (2, full)] {
        let control = operate(&mut soft, &several(count, CallMode::Queue, threads)).unwrap();
        let refused = u64::from(count - done);
        assert_eq!((control.planned, control.done), (count.into(), done.into()), "{control:?}");
        assert_eq!((control.refused, control.refusal.is_some()), (refused, refused > 0));
        let destroyed = control.destroyed.as_ref().unwrap();
        assert_eq!((destroyed.done, destroyed.refused), (done.into(), 0), "{control:?}");
        assert!(control.ended_ns > Some(0) && destroyed.ended_ns > Some(0), "{control:?}");
        let rested = offer(&mut soft, &load(), &Plan::Rest).unwrap();
        assert_eq!(at_queues(&rested)[1], 0, "nothing is left of them");
    }
    let refused = |soft: &mut Soft, plan: &RulesPlan| operate(soft, plan).unwrap_err().to_string();
    let error = refused(&mut soft, &several(9, CallMode::Single, 2));
    assert!(error.contains("control threads but for creates through queues"), "{error}");
    let error = refused(&mut soft, &several(9, CallMode::Queue, 5_000));
    assert!(error.contains("5000 control threads on "), "{error}");
    let beside = Plan::Rules(Box::new(several(9, CallMode::Queue, 2)));
    let error = offer(&mut soft, &load(), &beside).unwrap_err().to_string();
    assert_eq!(error, "plan: threads 2: beside a load there are none of their own");
}

#[test]
fn it_is_seen_until_when_each_flow_met_no_rule() {
    let Some((mut soft, _turn)) = soft("it_is_seen_until_when") else { return };
    soft.setup(&setup(vec![all_to(0, 1)])).unwrap();
    // One flow every half millisecond gets a rule that drops its frames.
    let flows = FlowSpec { count: 500, ..load().flows };
    let drop = vec![Action::Drop];
    let block =
        RuleBlock::FiveTuples { group: 0, priority: 0, flows, first: 0, count: 500, actions: drop };
    for core in [ControlCore::Same, ControlCore::Distinct] {
        let per_s = Some(2_000);
        let plan = RulesPlan { core, per_s, ..plan(RuleWork::Create(block.clone())) };
        let load = Load { rate: Rate::Pps(500_000.0), ..load() };
        let observation = offer(&mut soft, &load, &Plan::Rules(Box::new(plan))).unwrap();
        let control = observation.control.as_ref().unwrap();
        assert_eq!(control.each_begun_ns.len() as u64, control.done, "{core:?}");
        assert_eq!(observation.latest_ns.len(), 500);
        // A frame of each flow is due every millisecond. Where the machine stalls for long, the
        // frames of some may all be lost before their rules come.
        let pairs = control.each_begun_ns.iter().zip(&observation.latest_ns);
        let seen_of: Vec<(u64, u64)> =
            pairs.filter_map(|(begun_ns, latest_ns)| Some((*begun_ns, (*latest_ns)?))).collect();
        let near = seen_of.iter().filter(|(begun, latest)| begun.abs_diff(*latest) < 20_000_000);
        assert!(near.count() as u64 * 2 > control.done, "{} done: {core:?}", control.done);
        let after = |(begun, latest): &&(u64, u64)| latest.saturating_sub(*begun) > 100_000_000;
        assert_eq!(seen_of.iter().filter(after).count(), 0, "{core:?}");
        assert!(observation.dropped > 0, "{core:?}");
    }
}

#[test]
fn a_full_group_refuses_single_rules_and_whole_transactions() {
    let Some((mut soft, _turn)) = soft("what_a_full_group_refuses") else { return };
    let flows = FlowSpec { seed: 7, count: ROOT_RULES_MAX - 100, ..FlowSpec::default() };
    let full = RuleBlock::FiveTuples {
        group: 0,
        priority: 0,
        first: 0,
        count: flows.count,
        flows,
        actions: vec![Action::Queue(0)],
    };
    soft.setup(&setup(vec![full])).unwrap();
    for (calls, done) in
        [(CallMode::Single, 100), (CallMode::Queue, 100), (CallMode::Transaction, 0)]
    {
        let work = RuleWork::Create(each_to(1, FLOWS));
        let (_, control) = run(&mut soft, RulesPlan { calls, ..plan(work) });
        assert_eq!((control.done, control.refused), (done, u64::from(FLOWS) - done), "{calls:?}");
        let refusal = control.refusal.unwrap();
        assert!(refusal.contains("65536") || refusal.contains("65,536"), "{refusal}");
    }
}

#[test]
fn operations_due_after_the_load_are_not_done() {
    let Some((mut soft, _turn)) = soft("what_the_load_does_not_last_for") else { return };
    soft.setup(&setup(vec![all_to(0, 1)])).unwrap();
    for calls in [CallMode::Single, CallMode::Transaction] {
        // Every operation needs a turn, and there are more than turns.
        let flows = FlowSpec { count: 6_000_000, ..load().flows };
        let block = RuleBlock::FiveTuples {
            group: 1,
            priority: 0,
            flows,
            first: 0,
            count: 6_000_000,
            actions: vec![Action::Queue(1)],
        };
        let mut plan = RulesPlan { calls, slice: Some(1), ..plan(RuleWork::Create(block)) };
        plan.start_ns = 200_000_000;
        let (_, control) = run(&mut soft, plan);
        assert_eq!((control.ended_ns, control.refused), (None, 0), "{calls:?}");
        assert_eq!(control.done > 0, calls == CallMode::Single, "{calls:?}");
        assert!(control.done < control.planned);
        let rested = offer(&mut soft, &load(), &Plan::Rest).unwrap();
        assert_eq!(at_queues(&rested)[1], 0);
    }
}

#[test]
fn between_two_slices_the_core_has_the_time_for_other_work_that_the_plan_says() {
    let Some((mut soft, _turn)) = soft("between_two_slices") else { return };
    soft.setup(&setup(vec![all_to(0, 1), half_to(1)])).unwrap();
    let (slice, pause_ns) = (16, 10_000_000);
    // 280 ms are left, and the first slice needs no pause before it.
    let slices_max = 280_000_000 / pause_ns + 1;
    let create = FlowSpec { seed: 7, count: 20_000, ..FlowSpec::default() };
    let (count, actions) = (create.count, vec![Action::Queue(1)]);
    let (group, priority, first, flows) = (1, 0, 0, create);
    let block = RuleBlock::FiveTuples { group, priority, flows, first, count, actions };
    let renew = (RuleWork::Renew { block: 1 }, Some(100_000));
    for (work, per_s) in [(RuleWork::Create(block), None), renew] {
        for calls in [CallMode::Single, CallMode::Queue] {
            let plan = RulesPlan { calls, per_s, slice: Some(slice), ..plan(work.clone()) };
            // Without a pause far more of them fit: it is what keeps them back.
            let (_, hasty) = run(&mut soft, plan.clone());
            let (_, control) = run(&mut soft, RulesPlan { pause_ns: Some(pause_ns), ..plan });
            let most = slices_max * u64::from(slice);
            let way = format!("{calls:?} {per_s:?}: {control:?}");
            assert!((1..=most).contains(&control.done), "more than {most}: {way}");
            assert!(hasty.done > 2 * most, "{} without a pause: {way}", hasty.done);
            assert_eq!(control.ended_ns, None, "{way}");
        }
    }
}

#[test]
fn a_plan_that_cannot_be_carried_out_is_refused_with_the_reason() {
    let Some((mut soft, _turn)) = soft("a_plan_that_cannot") else { return };
    soft.setup(&setup(vec![all_to(0, 1)])).unwrap();
    let mut refused = |plan: RulesPlan, reason: &str| {
        let error =
            offer(&mut soft, &load(), &Plan::Rules(Box::new(plan))).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    };
    let create = || RuleWork::Create(each_to(1, FLOWS));
    let late = RulesPlan { start_ns: 300_000_000, ..plan(create()) };
    refused(late, "plan: start_ns 300000000: it begins when the load has ended");
    let update = change(RuleChangeKind::Actions(vec![Action::Queue(1)]));
    refused(plan(update), "plan: block 1: the set-up has 1");
    let renew = |per_s| RulesPlan { per_s: Some(per_s), ..plan(RuleWork::Renew { block: 0 }) };
    refused(renew(5), "plan: block 0: 1 rules of 1 flows; it takes twice as many flows");
    let values = RuleWork::Change { block: 0, change: RuleChangeKind::Values };
    refused(plan(values), "plan: block 0: 1 rules of 1 flows; it takes twice as many flows");
    let mask = RuleWork::Change { block: 0, change: RuleChangeKind::Mask };
    refused(plan(mask), "plan: block 0: a mask is changed of flows alone");
    let RuleBlock::FiveTuples { flows, .. } = each_to(1, FLOWS) else { panic!("no flows") };
    let actions = vec![Action::Queue(1)];
    let (group, priority, first) = (0, 0, 9);
    let short = RuleBlock::FiveTuples { group, priority, flows, first, count: FLOWS, actions };
    refused(plan(RuleWork::Create(short)), "plan: 500 rules from flow 9 on, and 500 flows");
    let file = RuleBlock::File { path: "a.flow".into(), rules_count: 1 };
    refused(plan(RuleWork::Create(file)), "plan: the rules of a file belong into the set-up");
    soft.setup(&setup(vec![half_to(1)])).unwrap();
    let mut refused = |plan: RulesPlan, reason: &str| {
        let error =
            offer(&mut soft, &load(), &Plan::Rules(Box::new(plan))).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    };
    refused(renew(0), "plan: per_s 0: use 1 to 100000000");
    refused(plan(RuleWork::Renew { block: 0 }), "rules are renewed at a rate, and there is none");
    let endless = RulesPlan { calls: CallMode::Transaction, ..renew(5) };
    refused(endless, "a transaction has an end: use single calls or a queue");
}

#[test]
fn rules_of_a_file_are_not_changed_and_a_file_that_is_refused_is_no_set_up() {
    let Some((mut soft, _turn)) = soft("rules_of_a_file") else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("my.flow");
    let set_up = |soft: &mut Soft, text: &str| {
        std::fs::write(&path, text).unwrap();
        soft.setup(&setup(vec![RuleBlock::File { path: path.clone(), rules_count: 1 }]))
    };
    let rule = |queue| {
        format!("flow create 0 ingress pattern eth / end actions queue index {queue} / end\n")
    };
    set_up(&mut soft, &rule(1)).unwrap();
    let work =
        RuleWork::Change { block: 0, change: RuleChangeKind::Actions(vec![Action::Queue(0)]) };
    let error =
        offer(&mut soft, &load(), &Plan::Rules(Box::new(plan(work)))).unwrap_err().to_string();
    assert_eq!(error, "plan: block 0: the rules of a file are not changed");
    let error = set_up(&mut soft, &rule(2)).unwrap_err().to_string();
    assert!(error.contains("my.flow: line 1") && error.contains("queue 2"), "{error}");
}

#[test]
fn a_plan_crosses_processes_as_json() {
    let plan = Plan::Rules(Box::new(plan(RuleWork::Create(each_to(1, 9)))));
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
}
