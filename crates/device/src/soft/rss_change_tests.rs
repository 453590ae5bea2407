//! RSS that changes while frames come to the card by the clock: changes, answers, and refusals.

use std::sync::Arc;

use niclab_card::{CardConfig, CardWorkload, Core};
use niclab_load::{Arrivals, Honesty, Load, LoadObservation, Rate};
use niclab_nic::rule::Action;
use niclab_packet::flow::{FlowSet, FlowSpec, Popularity};
use niclab_packet::size::FrameSizes;

use super::*;
use crate::face::{Function, Receive as Receivers, RuleBlock, Setup, Testbed};
use crate::plan::RssChangeKind;
use crate::soft::{Soft, clocked};

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
        frame_len_max: 64,
    }
}

fn run(cores: u16, load: &Load, plan: &Plan) -> Result<LoadObservation, DeviceError> {
    let mut soft = Soft { pinned: false, ..Soft::open().unwrap() };
    soft.setup(&setup(cores, 8))?;
    soft.offer(load, plan)
}

fn plan(change: Option<RssChangeKind>) -> RssPlan {
    RssPlan { change, per_s: 200, answer: None, work_ns: 0, seed: 5 }
}

/// Where others take the machine's cores away, little is done in a trial: a few may be in vain.
const TRIALS: usize = 5;

/// Whether a trial changed RSS and looked at the cores as often as it was to. No trial may lose
/// frames by a change, or let one pass another.
fn has_changed(change: RssChangeKind) -> bool {
    let seen = run(2, &load(Rate::Pps(50_000.0), 200), &Plan::Rss(plan(Some(change))));
    let seen = seen.unwrap();
    let Honesty { balanced, reasons, .. } = &seen.honesty;
    assert!(balanced, "{change:?}: {reasons:?}");
    // Frames may find a wire full where the machine is busy, which no change did.
    assert_eq!((seen.reordered, seen.duplicated, seen.damaged), (0, 0, 0), "{change:?}");
    assert!(seen.lost <= seen.rx_missed, "{change:?}: {reasons:?}");
    let changes = seen.rss_changes.unwrap();
    assert_eq!((changes.held_drops, changes.cpu_ns.len()), (0, 2));
    let settled = changes.settled.as_ref().map_or(0, |settled| settled.0.len());
    assert_eq!(settled, changes.changes, "{change:?}");
    // The control side sleeps between two looks.
    assert!(changes.look_ns >= LOOK_EVERY.as_nanos() as u64, "{changes:?}");
    let queues = &seen.device.unwrap().queues;
    let used = queues.iter().filter(|queue| queue.rx_frames > 0).count();
    changes.changes > 0 && changes.cpu_ns[0].len() >= 10 && used > 1
}

#[test]
fn changes_of_every_kind_lose_no_frame_and_let_none_pass_another() {
    use RssChangeKind::{Any, Entries, Fields, Function, Key, Queues};
    for change in [Entries, Queues, Key, Function, Fields, Any] {
        assert!((0..TRIALS).any(|_| has_changed(change)), "{change:?}");
    }
}

/// A card to which nothing comes.
fn idle() -> (Card, Vec<Core>) {
    let (setup, trial, none) = (setup(1, 2), Arc::default(), Plan::Rest);
    let nics = clocked::nics(&setup, 1).unwrap();
    let load = load(Rate::Pps(1.0), 1);
    let ports = clocked::ports((&load, &none), &setup, &nics, 1, &trial).unwrap();
    Card::driven(&CardConfig::new(ports, 2, vec![0]), CardWorkload::default()).unwrap()
}

#[test]
fn core_time_between_two_samples_is_divided_among_the_stretches() {
    let (mut card, cores) = idle();
    let mut control = RssControl::new(&mut card, plan(None));
    let now_ns = control.clock.now_ns();
    control.open(now_ns);
    let mut now = control.card.counters();
    now.cores[0].frames += 10;
    control.end_stretches(4, now);
    assert_eq!(control.changes.frames, [[2, 3, 2, 3]]);
    // It comes back two stretches and a half behind the end of one.
    control.stretch_ns = now_ns - 5 * STRETCH_NS / 2;
    control.turn(now_ns);
    assert_eq!((control.changes.frames[0].len(), control.changes.cpu_ns[0].len()), (7, 7));
    assert!(control.stretch_ns > now_ns && control.stretch_ns <= now_ns + STRETCH_NS);
    card.shut_down_driven(cores);
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
    let answer = Some(BalanceMode::SaveCores);
    // At 20 us a frame a fifth of one core, and then more than one.
    let plan = RssPlan { answer, work_ns: 20_000, ..plan(None) };
    let seen = run(2, &load(rate, 3_000), &Plan::Rss(plan)).unwrap();
    assert!(seen.honesty.balanced, "{:?}", seen.honesty.reasons);
    assert_eq!(seen.reordered, 0);
    let changes = seen.rss_changes.unwrap();
    [(60, 95), (150, 195)].map(|(from, until)| {
        let of = |core: usize| changes.frames[core].iter().skip(from).take(until - from).sum();
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
fn has_answered(answer: BalanceMode) -> bool {
    let popularity = Popularity::Zipf { exponent: 1.0 };
    let flows = FlowSpec { count: 64, popularity, ..FlowSpec::default() };
    // Work for 1.8 cores, so that one of the two is near its limit however the flows fall.
    let load = Load { flows, ..load(Rate::Pps(90_000.0), 1_000) };
    let plan = RssPlan { answer: Some(answer), work_ns: 20_000, ..plan(None) };
    let seen = run(2, &load, &Plan::Rss(plan)).unwrap();
    assert!(seen.honesty.balanced, "{answer:?}: {:?}", seen.honesty.reasons);
    assert_eq!(seen.reordered, 0, "{answer:?}");
    let answers = seen.rss_changes.unwrap().answers;
    let is_key = answer == BalanceMode::Keys;
    assert!(answers.iter().all(|done| done.moved_entries.is_none() == is_key), "{answers:?}");
    !answers.is_empty()
}

#[test]
fn skewed_flows_are_answered_by_moves_and_by_keys() {
    for answer in [BalanceMode::Moves, BalanceMode::Keys] {
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
fn rss_changes_beside_rules_and_on_one_core_and_is_put_back() {
    let any = RuleBlock::Any { group: 0, priority: 0, actions: vec![Action::Queue(1)] };
    for (cores, rules) in [(1, vec![]), (1, vec![any.clone()]), (2, vec![any])] {
        let mut soft = Soft { pinned: false, ..Soft::open().unwrap() };
        let (has_rules, load) = (!rules.is_empty(), load(Rate::Pps(20_000.0), 100));
        let set_up = soft.setup(&Setup { rules, ..setup(cores, 8) }).unwrap();
        let change = plan(Some(RssChangeKind::Queues));
        let seen = soft.offer(&load, &Plan::Rss(change)).unwrap();
        assert!(seen.honesty.balanced, "{:?}", seen.honesty.reasons);
        let queues = seen.device.unwrap().queues;
        let used: Vec<bool> = queues.iter().map(|queue| queue.rx_frames > 0).collect();
        assert!(!has_rules || used == [false, true, false, false, false, false, false, false]);
        let nic = &soft.state.as_ref().unwrap().nics[0];
        assert_eq!(Some(nic.rss()), set_up.rss.as_ref());
    }
}

#[test]
fn more_cores_than_there_are_are_refused() {
    let mut soft = Soft { pinned: false, ..Soft::open().unwrap() };
    let many = soft.setup(&setup(1_000, 256)).unwrap_err().to_string();
    assert!(many.starts_with("not supported: 1000 cores: there are "), "{many}");
}
