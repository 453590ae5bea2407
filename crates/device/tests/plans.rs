//! Rules that change while packets flow: what was planned is done, told, and put back.

use std::sync::{Mutex, MutexGuard, PoisonError};

use niclab_device::soft::Soft;
use niclab_device::{
    Arrivals, Calls, Control, ControlCore, DeviceError, Function, Load, Observation, Placement,
    Plan, Rate, RuleBlock, RulesPlan, Setup, Testbed, Work,
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
    match Soft::open() {
        Ok(soft) => Some((soft, turn)),
        Err(error @ DeviceError::Cores { .. }) => {
            println!("SKIP {test}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
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
    let (function, placement) = (Function::Forward, Placement::Inline);
    Setup { rules, queues: 2, function, placement, frame_len_max: 1_518 }
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

fn plan(work: Work) -> RulesPlan {
    let (core, calls) = (ControlCore::Same, Calls::Single);
    RulesPlan { core, start_ns: START_NS, work, calls, slice: Some(16) }
}

fn run(soft: &mut Soft, plan: RulesPlan) -> (Observation, Control) {
    let seen = soft.run(&load(), &Plan::Rules(Box::new(plan))).unwrap();
    assert!(seen.honesty.balanced, "{:?}", seen.honesty.reasons);
    let control = seen.control.clone().unwrap();
    (seen, control)
}

/// Frames at each of the two queues.
fn at_queues(seen: &Observation) -> [u64; 2] {
    let queues = &seen.device.as_ref().unwrap().queues;
    [queues[0].rx_frames, queues[1].rx_frames]
}

/// Every way to ask for operations.
fn ways() -> impl Iterator<Item = (ControlCore, Calls, Option<u32>)> {
    let cores = [ControlCore::Same, ControlCore::Distinct];
    let calls = [Calls::Single, Calls::Queue, Calls::Transaction];
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
        let work = Work::Create(each_to(1, FLOWS));
        let (seen, control) = run(&mut soft, RulesPlan { core, calls, slice, ..plan(work) });
        let way = format!("{core:?} {calls:?} {slice:?}: {control:?}");
        let counts = (control.planned, control.done, control.refused);
        assert_eq!(counts, (FLOWS.into(), FLOWS.into(), 0), "{way}");
        let (begun_ns, ended_ns) = (control.begun_ns.unwrap(), control.ended_ns.unwrap());
        assert!((START_NS..300_000_000).contains(&begun_ns), "{way}");
        assert!(ended_ns >= begun_ns + control.busy_ns.min(1_000) && control.busy_ns > 0, "{way}");
        let timed = control.calls.as_ref().unwrap().0.len();
        assert_eq!(timed == u64::from(FLOWS), calls != Calls::Queue, "{way}");
        let [before, after] = at_queues(&seen);
        assert!(before > 0 && after > 0, "{before} frames before, {after} after: {way}");
        let rested = soft.run(&load(), &Plan::Rest).unwrap();
        assert_eq!((at_queues(&rested)[1], rested.control), (0, None), "{way}");
    }
}

#[test]
fn rules_are_changed_under_load_in_every_way_and_are_put_back() {
    let Some((mut soft, _turn)) = soft("rules_are_changed_under_load") else { return };
    soft.setup(&setup(vec![all_to(0, 1), each_to(0, FLOWS)])).unwrap();
    for (core, calls, slice) in ways() {
        let work = Work::Update { block: 1, actions: vec![Action::Queue(1)] };
        let (seen, control) = run(&mut soft, RulesPlan { core, calls, slice, ..plan(work) });
        let way = format!("{core:?} {calls:?} {slice:?}: {control:?}");
        assert_eq!((control.done, control.refused), (FLOWS.into(), 0), "{way}");
        let [before, after] = at_queues(&seen);
        assert!(before > 0 && after > 0, "{before} frames before, {after} after: {way}");
        let rested = soft.run(&load(), &Plan::Rest).unwrap();
        assert_eq!(at_queues(&rested)[1], 0, "{way}");
    }
}

#[test]
fn what_a_full_group_refuses_is_counted_and_a_transaction_is_refused_whole() {
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
    for (calls, done) in [(Calls::Single, 100), (Calls::Queue, 100), (Calls::Transaction, 0)] {
        let work = Work::Create(each_to(1, FLOWS));
        let (_, control) = run(&mut soft, RulesPlan { calls, ..plan(work) });
        assert_eq!((control.done, control.refused), (done, u64::from(FLOWS) - done), "{calls:?}");
        let refusal = control.refusal.unwrap();
        assert!(refusal.contains("65536") || refusal.contains("65,536"), "{refusal}");
    }
}

#[test]
fn what_the_load_does_not_last_for_is_not_done() {
    let Some((mut soft, _turn)) = soft("what_the_load_does_not_last_for") else { return };
    soft.setup(&setup(vec![all_to(0, 1)])).unwrap();
    for calls in [Calls::Single, Calls::Transaction] {
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
        let mut plan = RulesPlan { calls, slice: Some(1), ..plan(Work::Create(block)) };
        plan.start_ns = 200_000_000;
        let (_, control) = run(&mut soft, plan);
        assert_eq!((control.ended_ns, control.refused), (None, 0), "{calls:?}");
        assert_eq!(control.done > 0, calls == Calls::Single, "{calls:?}");
        assert!(control.done < control.planned);
        let rested = soft.run(&load(), &Plan::Rest).unwrap();
        assert_eq!(at_queues(&rested)[1], 0);
    }
}

#[test]
fn a_plan_that_cannot_be_carried_out_is_refused_with_the_reason() {
    let Some((mut soft, _turn)) = soft("a_plan_that_cannot") else { return };
    soft.setup(&setup(vec![all_to(0, 1)])).unwrap();
    let mut refused = |plan: RulesPlan, reason: &str| {
        let error = soft.run(&load(), &Plan::Rules(Box::new(plan))).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    };
    let create = || Work::Create(each_to(1, FLOWS));
    let late = RulesPlan { start_ns: 300_000_000, ..plan(create()) };
    refused(late, "plan: start_ns 300000000: it begins when the load has ended");
    let update = Work::Update { block: 1, actions: vec![Action::Queue(1)] };
    refused(plan(update), "plan: block 1: the set-up has 1");
    let file = RuleBlock::File { path: "a.flow".into(), rules_count: 1 };
    refused(plan(Work::Create(file)), "plan: the rules of a file belong into the set-up");
    let engine = Setup { placement: Placement::Engine, ..setup(vec![all_to(0, 1)]) };
    match soft.setup(&engine) {
        Err(error) => println!("SKIP placement engine: {error}"),
        Ok(_) => {
            let error = soft.run(&load(), &Plan::Rules(Box::new(plan(create())))).unwrap_err();
            let capability = "plans with placement engine".to_owned();
            assert_eq!(error, DeviceError::NotSupported { capability });
        }
    }
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
    let work = Work::Update { block: 0, actions: vec![Action::Queue(0)] };
    let error = soft.run(&load(), &Plan::Rules(Box::new(plan(work)))).unwrap_err().to_string();
    assert_eq!(error, "plan: block 0: the rules of a file are not changed");
    let error = set_up(&mut soft, &rule(2)).unwrap_err().to_string();
    assert!(error.contains("my.flow: line 1") && error.contains("queue 2"), "{error}");
}

#[test]
fn a_plan_crosses_processes_as_json() {
    let plan = Plan::Rules(Box::new(plan(Work::Create(each_to(1, 9)))));
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
}
