//! End to end behind tc's filters in the kernel: needs root, and a kernel with the classifier
//! (`guest_tests`); else every test here is skipped.

use niclab_packet::flow::{FlowSpec, IpVersion};
use niclab_packet::size::FrameSizes;

use super::veth_tests::cores;
use crate::face::measured;
use crate::{
    Action, Arrivals, CallMode, ControlCore, DeviceError, Function, Load, LoadObservation, Plan,
    ProofResult, Rate, RuleBlock, RuleChangeKind, RuleProof, RuleWork, RulesPlan, Setup,
    SetupReport, Task, Testbed, linux,
};

const FLOWS: u32 = 64;

fn flows(is_v6: bool) -> FlowSpec {
    let version = if is_v6 { IpVersion::V6 } else { IpVersion::V4 };
    FlowSpec { count: FLOWS, version, ..FlowSpec::default() }
}

fn load(pps: f64, is_v6: bool) -> Load {
    Load {
        flows: flows(is_v6),
        sizes: FrameSizes::Fixed(128),
        rate: Rate::Pps(pps),
        arrivals: Arrivals::Constant,
        duration_ns: 400_000_000,
        warmup_ns: 50_000_000,
        seed: 7,
        trace: None,
    }
}

/// Rules for the first `count` flows.
fn rules(priority: u32, count: u32, is_v6: bool, action: Action) -> RuleBlock {
    let (flows, actions) = (flows(is_v6), vec![action]);
    RuleBlock::FiveTuples { group: 0, priority, flows, first: 0, count, actions }
}

fn catch_all(queue: u16) -> RuleBlock {
    RuleBlock::Any { group: 0, priority: 2, actions: vec![Action::Queue(queue)] }
}

fn setup(rules: Vec<RuleBlock>) -> Setup {
    Setup {
        rules,
        queues: 3,
        cores: 1,
        ports: 1,
        receive: Default::default(),
        function: Function::Forward,
        frame_len_max: 1518,
    }
}

fn plan(work: RuleWork, per_s: Option<u32>) -> RulesPlan {
    RulesPlan {
        core: ControlCore::Same,
        start_ns: 100_000_000,
        work,
        calls: CallMode::Single,
        slice: Some(1),
        threads: None,
        per_s,
        pause_ns: None,
    }
}

/// Each test's name, and the testbed, where there is one with rules.
fn bed(test: &str, setup: &Setup) -> Option<Box<dyn Testbed>> {
    let mut bed = linux::open("linux-tc:veth").unwrap();
    match bed.setup(setup) {
        Ok(SetupReport { rules_refused: 0, proofs, .. }) => {
            let is_right = |proof: &RuleProof| matches!(proof.result, ProofResult::Right { .. });
            assert!(proofs.len() == setup.rules.len() && proofs.iter().all(is_right), "{proofs:?}");
            Some(bed)
        }
        Ok(report) => panic!("{report:?}"),
        Err(error @ DeviceError::NotSupported { .. }) => {
            println!("SKIP {test}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn run(bed: &mut dyn Testbed, load: &Load, plan: Plan) -> LoadObservation {
    let task = Task::Load { load: load.clone(), plan };
    bed.measure(&task).unwrap().into_load().unwrap()
}

/// Frames of each queue.
fn queues(o: &LoadObservation) -> Vec<u64> {
    o.device.as_ref().unwrap().queues.iter().map(|queue| queue.rx_frames).collect()
}

#[test]
fn filters_drop_and_choose_queues_before_the_function() {
    let test = "filters_drop_and_choose_queues_before_the_function";
    let Some(_alone) = cores(test) else { return };
    for is_v6 in [false, true] {
        let half = rules(1, FLOWS / 2, is_v6, Action::Drop);
        let Some(mut bed) = bed(test, &setup(vec![half, catch_all(2)])) else { return };
        let o = measured::load(&mut *bed, &load(500.0, is_v6)).unwrap();
        assert!(o.honesty.balanced, "{:?}", o.honesty.reasons);
        let device = o.device.as_ref().unwrap();
        let (drops, sent) = (device.rule_drops, o.generator.queues[0].tx_frames);
        println!("{sent} sent, {drops} dropped by filters, queues {:?}", queues(&o));
        // Every flow has as many frames.
        assert!(drops.abs_diff(sent / 2) <= u64::from(FLOWS), "{drops} of {sent}");
        assert!(o.dropped > 0 && o.lost == 0, "{o:?}");
        // Those that rules dropped count as queue 0's.
        assert_eq!(queues(&o), [drops, 0, sent - drops]);
    }
}

#[test]
fn rules_change_beside_a_load_and_are_put_back() {
    let test = "rules_change_beside_a_load_and_are_put_back";
    let Some(_alone) = cores(test) else { return };
    let old = rules(1, FLOWS, false, Action::Queue(0));
    let Some(mut bed) = bed(test, &setup(vec![old, catch_all(2)])) else { return };
    let to_new = vec![Action::Queue(1)];
    for change in [RuleChangeKind::Actions(to_new.clone()), RuleChangeKind::Anew(to_new)] {
        let work = RuleWork::Change { block: 0, change: change.clone() };
        let o = run(&mut *bed, &load(500.0, false), Plan::Rules(Box::new(plan(work, None))));
        let control = o.control.as_ref().unwrap();
        assert_eq!((control.planned, control.done), (FLOWS.into(), FLOWS.into()), "{control:?}");
        let by_queue = queues(&o);
        println!("{change:?}: queues {by_queue:?}, {} ns a call", control.calls_ns / control.done);
        assert!(by_queue[0] > 0 && by_queue[1] > 0, "{by_queue:?}");
        if let RuleChangeKind::Actions(_) = change {
            assert_eq!(by_queue[2], 0, "each frame matches the old or the new rule");
        }
        let o = run(&mut *bed, &load(500.0, false), Plan::Rest);
        assert_eq!(queues(&o)[1..], [0, 0], "the old rules are back");
    }
}

#[test]
fn rules_are_created_at_a_rate_and_renewed() {
    let test = "rules_are_created_at_a_rate_and_renewed";
    let Some(_alone) = cores(test) else { return };
    let Some(mut bed) = bed(test, &setup(vec![catch_all(2)])) else { return };
    let work = RuleWork::Create(rules(1, FLOWS, false, Action::Drop));
    let o = run(&mut *bed, &load(500.0, false), Plan::Rules(Box::new(plan(work, Some(1_000)))));
    let control = o.control.as_ref().unwrap();
    assert_eq!(control.done, u64::from(FLOWS), "{control:?}");
    assert!(o.device.as_ref().unwrap().rule_drops > 0, "{o:?}");
    let o = run(&mut *bed, &load(500.0, false), Plan::Rest);
    assert_eq!(o.device.as_ref().unwrap().rule_drops, 0, "they are gone");
    let half = rules(1, FLOWS / 2, false, Action::Queue(0));
    bed.setup(&setup(vec![half, catch_all(2)])).unwrap();
    let churn = plan(RuleWork::Renew { block: 0 }, Some(500));
    let distinct = RulesPlan { core: ControlCore::Distinct, ..churn.clone() };
    let mut plans = vec![churn];
    plans.extend((crate::cores::allowed().len() > 2).then_some(distinct));
    for churn in plans {
        let o = run(&mut *bed, &load(500.0, false), Plan::Rules(Box::new(churn)));
        let control = o.control.as_ref().unwrap();
        println!("{} of {} renewed", control.done, control.planned);
        assert!(control.done > 0 && control.refused == 0, "{control:?}");
    }
}

#[test]
fn several_threads_create_and_destroy_filters() {
    let test = "several_threads_create_and_destroy_filters";
    let Some(_alone) = cores(test) else { return };
    let Some(mut bed) = bed(test, &setup(vec![catch_all(2)])) else { return };
    let flows = FlowSpec { count: 2_000, ..FlowSpec::default() };
    let block = RuleBlock::FiveTuples {
        group: 0,
        priority: 1,
        flows,
        first: 0,
        count: 2_000,
        actions: vec![Action::Queue(0)],
    };
    for threads in [None, Some(1), Some(2)] {
        let plan = RulesPlan {
            start_ns: 0,
            slice: None,
            threads,
            ..plan(RuleWork::Create(block.clone()), None)
        };
        let made = bed.measure(&Task::Plan(plan)).unwrap().into_plan().unwrap();
        assert_eq!((made.planned, made.done, made.refused), (2_000, 2_000, 0), "{made:?}");
        let gone = made.destroyed.unwrap();
        assert_eq!((gone.planned, gone.done), (2_000, 2_000), "{gone:?}");
        let ns = |control_ns: u64| control_ns / 2_000;
        let (create, destroy) = (ns(made.calls_ns), ns(gone.calls_ns));
        println!("{threads:?} threads: {create} ns a create, {destroy} ns a destroy");
    }
    let o = run(&mut *bed, &load(500.0, false), Plan::Rest);
    assert_eq!(queues(&o)[..2], [0, 0], "only the rule of the set-up is there");
}
