//! The card on several cores under clocked wires: changes, answers, and refusals.

use niclab_load::{Arrivals, Honesty, Rate};
use niclab_nic::rule::Action;
use niclab_packet::flow::{FlowSet, FlowSpec, Popularity};
use niclab_packet::size::{FCS_LEN, FrameSizes};

use super::*;
use crate::face::{Function, Placement, Receive as Receivers, RuleBlock, Setup, Testbed};
use crate::plan::{Calls, Change, ControlCore, Plan, RulesPlan, Work};
use crate::soft::{CARD_FRAME_LEN_MAX, Soft};

fn load(rate: Rate, duration_ms: u64) -> Load {
    Load {
        flows: FlowSpec { count: 500, ..FlowSpec::default() },
        sizes: FrameSizes::Fixed(64),
        rate,
        arrivals: Arrivals::Constant,
        duration_ns: duration_ms * 1_000_000,
        warmup_ns: 10_000_000,
        seed: 3,
        trace: None,
    }
}

fn setup(cores: u16, queues: u16) -> Setup {
    Setup {
        rules: Vec::new(),
        queues,
        cores,
        ports: 1,
        receive: Receivers::Queues,
        function: Function::Forward,
        placement: Placement::Card,
        frame_len_max: 64,
    }
}

fn run(cores: u16, load: &Load, plan: &Plan) -> Result<LoadObservation, DeviceError> {
    let mut soft = Soft { pinned: false, ..Soft::open().unwrap() };
    soft.setup(&setup(cores, 8))?;
    soft.offer(load, plan)
}

fn plan(change: Option<Respreading>) -> SpreadPlan {
    SpreadPlan { change, per_s: 200, answer: None, work_ns: 0, seed: 5 }
}

/// Where others take the machine's cores away, little is done in a trial: a few may be in vain.
const TRIALS: usize = 5;

/// Whether a trial changed RSS and looked at the cores as often as it was to. No trial may lose
/// frames by a change, or let one pass another.
fn has_changed(change: Respreading) -> bool {
    let seen = run(2, &load(Rate::Pps(50_000.0), 200), &Plan::Spread(plan(Some(change))));
    let seen = seen.unwrap();
    let Honesty { balanced, reasons, .. } = &seen.honesty;
    assert!(balanced, "{change:?}: {reasons:?}");
    // Frames may find a wire full where the machine is busy, which no change did.
    assert_eq!((seen.reordered, seen.duplicated, seen.damaged), (0, 0, 0), "{change:?}");
    assert!(seen.lost <= seen.rx_missed, "{change:?}: {reasons:?}");
    let respread = seen.respread.unwrap();
    assert_eq!((respread.held_drops, respread.cpu_ns.len()), (0, 2));
    let settled = respread.settled.as_ref().map_or(0, |settled| settled.0.len());
    assert_eq!(settled, respread.changes, "{change:?}");
    // The control side sleeps between two looks.
    assert!(respread.look_ns >= LOOK_EVERY.as_nanos() as u64, "{respread:?}");
    let queues = &seen.device.unwrap().queues;
    let used = queues.iter().filter(|queue| queue.rx_frames > 0).count();
    respread.changes > 0 && respread.cpu_ns[0].len() >= 10 && used > 1
}

#[test]
fn changes_of_every_kind_lose_no_frame_and_let_none_pass_another() {
    use Respreading::{Any, Entries, Fields, Function, Key, Queues};
    for change in [Entries, Queues, Key, Function, Fields, Any] {
        assert!((0..TRIALS).any(|_| has_changed(change)), "{change:?}");
    }
}

/// The control side of a card to which nothing comes.
fn beside() -> Beside {
    let cores = crate::cores::allowed()[..1].to_vec();
    let wire = Clocked::one(&load(Rate::Pps(1.0), 1), WIRE_DEPTH, 64).unwrap();
    let (_, wires) = Wires::moving(vec![wire], Duration::ZERO);
    Beside::new(Card::start(&CardConfig::new(vec![wires], 2, cores), "").unwrap(), plan(None))
}

#[test]
fn what_cores_did_while_nobody_looked_is_shared_among_the_stretches() {
    let mut beside = beside();
    let now_ns = beside.clock.now_ns();
    beside.open(now_ns);
    let mut now = beside.card.counters();
    now.cores[0].frames += 10;
    beside.end_stretches(4, now);
    assert_eq!(beside.seen.frames, [[2, 3, 2, 3]]);
    // It comes back two stretches and a half behind the end of one.
    beside.stretch_ns = now_ns - 5 * STRETCH_NS / 2;
    beside.turn(now_ns);
    assert_eq!((beside.seen.frames[0].len(), beside.seen.cpu_ns[0].len()), (7, 7));
    assert!(beside.stretch_ns > now_ns && beside.stretch_ns <= now_ns + STRETCH_NS);
    beside.card.end();
}

#[test]
fn the_card_has_room_for_the_longest_frames_that_are_not_refused() {
    let beside = beside();
    let room = beside.card.region().frame_len_max();
    assert!(room + usize::from(FCS_LEN) >= CARD_FRAME_LEN_MAX.into(), "{room}");
    beside.card.end();
}

/// The second core's share of the frames where load is low, and where it is high; every trial must
/// keep frames and their order.
fn shares_of_the_second() -> [f64; 2] {
    let rate = Rate::Step {
        low_pps: 10_000.0,
        high_pps: 60_000.0,
        from_ns: 1_000_000_000,
        until_ns: 2_000_000_000,
    };
    let answer = Some(Answering::SaveCores);
    // At 20 us a frame a fifth of one core, and then more than one.
    let plan = SpreadPlan { answer, work_ns: 20_000, ..plan(None) };
    let seen = run(2, &load(rate, 3_000), &Plan::Spread(plan)).unwrap();
    assert!(seen.honesty.balanced, "{:?}", seen.honesty.reasons);
    assert_eq!(seen.reordered, 0);
    let respread = seen.respread.unwrap();
    [(60, 95), (150, 195)].map(|(from, until)| {
        let of = |core: usize| respread.frames[core].iter().skip(from).take(until - from).sum();
        let [first, second]: [u64; 2] = [of(0), of(1)];
        second as f64 / ((first + second) as f64).max(1.0)
    })
}

#[test]
fn a_core_that_is_not_needed_is_saved_and_comes_back_with_the_load() {
    let mut trials = (0..TRIALS).map(|_| shares_of_the_second());
    assert!(trials.any(|[low, high]| low < 0.05 && high > 0.2));
}

/// Whether a card answers flows of which some have far more frames than others.
fn has_answered(answer: Answering) -> bool {
    let popularity = Popularity::Zipf { exponent: 1.0 };
    let flows = FlowSpec { count: 64, popularity, ..FlowSpec::default() };
    let load = Load { flows, ..load(Rate::Pps(60_000.0), 1_000) };
    let plan = SpreadPlan { answer: Some(answer), work_ns: 20_000, ..plan(None) };
    let seen = run(2, &load, &Plan::Spread(plan)).unwrap();
    assert!(seen.honesty.balanced, "{answer:?}: {:?}", seen.honesty.reasons);
    assert_eq!(seen.reordered, 0, "{answer:?}");
    let answers = seen.respread.unwrap().answers;
    let is_key = answer == Answering::Keys;
    assert!(answers.iter().all(|done| done.moved_entries.is_none() == is_key), "{answers:?}");
    !answers.is_empty()
}

#[test]
fn skewed_flows_are_answered_by_moves_and_by_keys() {
    for answer in [Answering::Moves, Answering::Keys] {
        assert!((0..TRIALS).any(|_| has_answered(answer)), "{answer:?}");
    }
}

#[test]
fn a_flow_keeps_to_its_wire_and_all_wires_have_flows() {
    let set = FlowSet::new(&FlowSpec { count: 50, ..FlowSpec::default() }).unwrap();
    for wires in 1..5 {
        let mut all: Vec<usize> = set.tuples().map(|flow| wire_of(&flow, wires)).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all, (0..wires).collect::<Vec<_>>());
    }
}

#[test]
fn what_a_card_on_several_cores_cannot_do_is_named() {
    let lacks = |outcome: Result<_, DeviceError>| match outcome {
        Err(DeviceError::NotSupported { capability }) => capability,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("done"),
    };
    let mut soft = Soft { pinned: false, ..Soft::open().unwrap() };
    let any = RuleBlock::Any { group: 0, priority: 0, actions: vec![Action::Queue(0)] };
    let ruled = Setup { rules: vec![any], ..setup(2, 2) };
    assert_eq!(lacks(soft.setup(&ruled).map(drop)), "rules with placement card");
    let long = Setup { frame_len_max: 9_000, ..setup(1, 2) };
    let room = "frames of 9000 B with placement card: it has room for 1540 B";
    assert_eq!(lacks(soft.setup(&long).map(drop)), room);
    let many = lacks(soft.setup(&setup(1_000, 256)).map(drop));
    assert!(many.starts_with("1000 cores: there are "), "{many}");
    let rules = Plan::Rules(Box::new(RulesPlan {
        core: ControlCore::Same,
        start_ns: 0,
        work: Work::Change { block: 0, change: Change::Values },
        calls: Calls::Single,
        slice: None,
        threads: None,
        per_s: None,
        pause_ns: None,
    }));
    let load = load(Rate::Pps(1_000.0), 10);
    let others = "operations on rules with placement card";
    assert_eq!(lacks(run(2, &load, &rules).map(drop)), others);
    let spread = Plan::Spread(plan(None));
    soft.setup(&Setup { placement: Placement::Inline, ..setup(1, 2) }).unwrap();
    let inline = lacks(soft.offer(&load, &spread).map(drop));
    assert_eq!(inline, "changes of RSS while frames flow");
}
