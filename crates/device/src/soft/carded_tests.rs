//! The card on several cores under memory wires: what changes and answers do, what is refused.

use niclab_load::{Arrivals, Honesty, Rate};
use niclab_nic::rule::Action;
use niclab_packet::flow::{FlowSpec, Popularity};
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

fn run(cores: u16, load: &Load, plan: &Plan) -> Result<Observation, DeviceError> {
    let mut soft = Soft { pinned: false, ..Soft::open().unwrap() };
    soft.setup(&setup(cores, 8))?;
    soft.run(load, plan)
}

fn plan(change: Option<Respreading>) -> SpreadPlan {
    SpreadPlan { change, per_s: 200, answer: None, work_ns: 0, seed: 5 }
}

#[test]
fn changes_of_every_kind_lose_no_frame_and_let_none_pass_another() {
    use Respreading::{Any, Entries, Fields, Function, Key, Queues};
    for change in [Entries, Queues, Key, Function, Fields, Any] {
        let seen = run(2, &load(Rate::Pps(50_000.0), 200), &Plan::Spread(plan(Some(change))));
        let seen = seen.unwrap();
        let Honesty { balanced, reasons, .. } = &seen.honesty;
        assert!(balanced, "{change:?}: {reasons:?}");
        // Frames may find a wire full where the machine is busy, which no change did.
        assert_eq!((seen.reordered, seen.duplicated, seen.damaged), (0, 0, 0), "{change:?}");
        assert!(seen.lost <= seen.rx_missed + seen.late, "{change:?}: {reasons:?}");
        let respread = seen.respread.unwrap();
        assert!(respread.changes > 0, "{change:?}: {respread:?}");
        assert_eq!(respread.held_drops, 0);
        assert_eq!(respread.settled.as_ref().unwrap().0.len(), respread.changes);
        // Without a core of its own the tester sleeps between two looks.
        assert!(respread.look_ns >= LOOK_EVERY.as_nanos() as u64, "{respread:?}");
        assert_eq!(respread.cpu_ns.len(), 2);
        assert!(respread.cpu_ns[0].len() >= 10, "{respread:?}");
        let queues = &seen.device.unwrap().queues;
        assert!(queues.iter().filter(|queue| queue.rx_frames > 0).count() > 1);
    }
}

/// What the tester does while no load lasts.
fn beside(shares: bool) -> Beside {
    let wires = Wires { frame_len: 60, far: Arc::default() };
    let cores = crate::cores::allowed()[..1].to_vec();
    let receive = Receive::Interrupt;
    let config = CardConfig { receive, ..CardConfig::new(vec![wires], 2, cores) };
    Beside::new(Card::start(&config, "").unwrap(), plan(None), shares)
}

#[test]
fn a_tester_that_wakes_late_has_not_worked_meanwhile() {
    let nominal_ns = LOOK_EVERY.as_nanos() as u64;
    let mut beside = beside(true);
    let mut usual = |shares| {
        beside.shares = shares;
        let mut turns: Vec<u64> = (0..200).map(|_| beside.turn()).collect();
        turns.sort_unstable();
        turns[100]
    };
    // Nothing was to be done, and a sleep ends later than it is to.
    assert!(usual(false) < 5_000);
    assert!((nominal_ns..nominal_ns + 5_000).contains(&usual(true)));
    beside.card.end();
}

#[test]
fn what_cores_did_while_the_tester_was_away_is_shared_among_the_stretches() {
    let mut beside = beside(false);
    let now_ns = beside.clock.now_ns();
    beside.opened(now_ns);
    let mut now = beside.card.counters();
    now.cores[0].frames += 10;
    beside.end_stretches(4, now);
    assert_eq!(beside.seen.frames, [[2, 3, 2, 3]]);
    // It comes back two stretches and a half behind the end of one.
    beside.stretch_ns = now_ns - 5 * STRETCH_NS / 2;
    beside.turn();
    assert_eq!((beside.seen.frames[0].len(), beside.seen.cpu_ns[0].len()), (7, 7));
    assert!(beside.stretch_ns > now_ns && beside.stretch_ns <= now_ns + STRETCH_NS);
    beside.card.end();
}

#[test]
fn the_card_has_room_for_the_longest_frames_that_are_not_refused() {
    let beside = beside(false);
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

/// Where others take the machine's cores away no core looks idle: a few trials may be in vain.
#[test]
fn a_core_that_is_not_needed_is_saved_and_comes_back_with_the_load() {
    let mut trials = (0..5).map(|_| shares_of_the_second());
    assert!(trials.any(|[low, high]| low < 0.05 && high > 0.2));
}

#[test]
fn skewed_flows_are_answered_by_moves_and_by_keys() {
    for answer in [Answering::Moves, Answering::Keys] {
        let popularity = Popularity::Zipf { exponent: 1.0 };
        let flows = FlowSpec { count: 64, popularity, ..FlowSpec::default() };
        let load = Load { flows, ..load(Rate::Pps(60_000.0), 1_000) };
        let plan = SpreadPlan { answer: Some(answer), work_ns: 20_000, ..plan(None) };
        let seen = run(2, &load, &Plan::Spread(plan)).unwrap();
        assert!(seen.honesty.balanced, "{answer:?}: {:?}", seen.honesty.reasons);
        assert_eq!(seen.reordered, 0, "{answer:?}");
        let answers = seen.respread.unwrap().answers;
        let is_key = answer == Answering::Keys;
        assert!(!answers.is_empty(), "{answer:?}");
        assert!(answers.iter().all(|done| done.moved_entries.is_none() == is_key), "{answers:?}");
    }
}

/// The head of a frame from an address that ends so, to this port.
fn frame(last: u8, port: u8) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[12..14].copy_from_slice(&[8, 0]);
    (frame[29], frame[35]) = (last, port);
    frame
}

#[test]
fn a_frame_is_missed_where_its_own_wire_is_full_and_nowhere_else() {
    let (region, _frames) = Region::new(BURST, 60).unwrap();
    let (far, _near): (Vec<FarLane>, Vec<_>) =
        lanes(2, WIRE_DEPTH as usize, 60, &region).unwrap().into_iter().unzip();
    let far = Rc::new(RefCell::new(far));
    let (frames, burst) = (vec![0; BURST * 60], Burst::new());
    let mut out = Out { far, frames, frame_len: 60, burst };
    // A burst whose frames go by these wires in turn; how many of them leave.
    let mut leave = |wires: [u8; 2]| {
        assert_eq!(out.reserve(BURST), BURST);
        for at in 0..BURST {
            out.slot(at).copy_from_slice(&frame(wires[at % 2], 0));
        }
        out.commit(&[60; BURST])
    };
    for _ in 0..WIRE_DEPTH as usize / BURST {
        assert_eq!(leave([0, 0]), BURST);
    }
    assert_eq!(leave([0, 0]), 0);
    assert_eq!(leave([0, 1]), BURST / 2);
    assert_eq!(leave([1, 1]), BURST);
}

#[test]
fn a_flow_keeps_to_its_wire_and_all_wires_have_flows() {
    for wires in 1..5 {
        let of = |last, port| wire_of(&frame(last, port), wires);
        assert_eq!(of(7, 9), of(7, 9));
        let mut all: Vec<usize> = (0..50).map(|last| of(last, 9)).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all, (0..wires).collect::<Vec<_>>());
    }
    assert_eq!(wire_of(&[], 3), 0);
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
    let saturating = Load { rate: Rate::Saturate, ..load.clone() };
    let lacking = "changes of RSS under a saturating load with placement card";
    assert_eq!(lacks(run(2, &saturating, &spread).map(drop)), lacking);
    soft.setup(&Setup { placement: Placement::Inline, ..setup(1, 2) }).unwrap();
    let inline = lacks(soft.run(&load, &spread).map(drop));
    assert_eq!(inline, "changes of RSS while frames flow");
}
