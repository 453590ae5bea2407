//! The software NIC end to end: every frame is accounted for.

use std::sync::{Mutex, MutexGuard, PoisonError};

use niclab_device::soft::Soft;
use niclab_device::{
    Arrivals, DeviceError, Function, Load, Observation, Placement, Plan, Rate, RuleBlock, Setup,
    Testbed,
};
use niclab_nic::rule::Action;
use niclab_packet::flow::{FlowSpec, IpVersion, Transport};
use niclab_packet::size::FrameSizes;

/// One trial at a time: all of them want the same two cores.
static CORES: Mutex<()> = Mutex::new(());

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

fn setup(rules: Vec<RuleBlock>) -> Setup {
    let (function, placement) = (Function::Forward, Placement::Inline);
    Setup { rules, queues: 2, function, placement, frame_len_max: 9_000 }
}

fn load(rate: Rate) -> Load {
    Load {
        flows: FlowSpec { count: 500, ..FlowSpec::default() },
        sizes: FrameSizes::Imix,
        rate,
        arrivals: Arrivals::Poisson,
        duration_ns: 100_000_000,
        warmup_ns: 10_000_000,
        seed: 3,
        trace: None,
    }
}

fn tuples(flows: &FlowSpec, count: u32, actions: Vec<Action>) -> RuleBlock {
    let flows = FlowSpec { count: flows.count.max(count), ..flows.clone() };
    RuleBlock::FiveTuples { group: 0, priority: 0, flows, first: 0, count, actions }
}

fn run(soft: &mut Soft, rules: Vec<RuleBlock>, load: &Load) -> Observation {
    soft.setup(&setup(rules)).unwrap();
    let seen = soft.run(load, &Plan::Rest).unwrap();
    assert_eq!(seen.planned, seen.offered + seen.unsent);
    assert_eq!(seen.offered, seen.received + seen.lost);
    assert!(seen.honesty.balanced, "{:?}", seen.honesty.reasons);
    assert_eq!((seen.damaged, seen.duplicated, seen.reordered), (0, 0, 0));
    let samples = seen.latency.as_ref().map(|latency| latency.0.len());
    assert_eq!(samples, Some(seen.received));
    seen
}

#[test]
fn a_gentle_load_comes_back_whole_over_both_versions_and_transports() {
    let Some((mut soft, _turn)) = soft("a_gentle_load_comes_back_whole") else { return };
    for (version, proto) in [
        (IpVersion::V4, Transport::Udp),
        (IpVersion::V4, Transport::Tcp),
        (IpVersion::V6, Transport::Udp),
        (IpVersion::V6, Transport::Tcp),
    ] {
        let mut load = load(Rate::Pps(50_000.0));
        load.flows = FlowSpec { version, proto, ..load.flows };
        load.sizes = FrameSizes::Fixed(101);
        let seen = run(&mut soft, vec![], &load);
        assert!(seen.received > 0, "{seen:?}");
        assert_eq!(seen.lost, seen.rx_missed, "{version:?} {proto:?}");
        let queues = seen.device.unwrap().queues;
        assert!(queues.iter().all(|q| q.rx_frames > 0), "RSS uses both queues: {queues:?}");
    }
}

#[test]
fn imix_and_jumbo_frames_keep_their_bytes() {
    let Some((mut soft, _turn)) = soft("imix_and_jumbo_frames") else { return };
    for (sizes, mean) in [(FrameSizes::Fixed(570), 570.0), (FrameSizes::Fixed(9_000), 9_000.0)] {
        let seen = run(&mut soft, vec![], &Load { sizes, ..load(Rate::Pps(20_000.0)) });
        let per_frame = seen.received_bytes as f64 / seen.received as f64;
        assert!((per_frame - mean).abs() < 1e-9, "{per_frame} B a frame, {mean} expected");
    }
}

#[test]
fn rules_drop_what_they_name_and_nothing_else() {
    let Some((mut soft, _turn)) = soft("rules_drop_what_they_name") else { return };
    let load = Load { sizes: FrameSizes::Fixed(64), ..load(Rate::Pps(50_000.0)) };
    // 500 flows, the first 100 dropped: a fifth of the frames.
    let drop = tuples(&load.flows, 100, vec![Action::Drop]);
    let any = RuleBlock::Any { group: 0, priority: 9, actions: vec![Action::Queue(1)] };
    let seen = run(&mut soft, vec![drop, any], &load);
    let device = seen.device.unwrap();
    let share = device.rule_drops as f64 / device.total().rx_frames as f64;
    assert!((0.15..0.25).contains(&share), "{share} dropped");
    assert_eq!(device.queues[0].tx_frames, 0);
}

#[test]
fn saturation_loses_nothing_and_overload_loses_at_the_ring() {
    let Some((mut soft, _turn)) = soft("saturation_and_overload") else { return };
    let load = |rate| Load { sizes: FrameSizes::Fixed(64), ..load(rate) };
    let seen = run(&mut soft, vec![], &load(Rate::Saturate));
    assert_eq!((seen.lost, seen.unsent), (0, 0));
    let seen = run(&mut soft, vec![], &load(Rate::Pps(400e6)));
    assert!(seen.lost > 0 && seen.lost == seen.rx_missed, "{seen:?}");
}

#[test]
fn a_full_root_group_is_data_and_other_bad_input_an_error() {
    let Some((mut soft, _turn)) = soft("a_full_root_group") else { return };
    let flows = FlowSpec::default();
    let rules = vec![tuples(&flows, 70_000, vec![Action::Queue(0)])];
    let report = soft.setup(&setup(rules)).unwrap();
    assert_eq!((report.rules_installed, report.rules_refused), (65_536, 70_000 - 65_536));
    assert!(report.refusal.unwrap().contains("group 0 is full"));
    for bad in [
        Load { rate: Rate::Pps(0.0), ..load(Rate::Saturate) },
        Load { duration_ns: 0, ..load(Rate::Saturate) },
        Load { sizes: FrameSizes::Fixed(63), ..load(Rate::Saturate) },
        Load { flows: FlowSpec { count: 0, ..FlowSpec::default() }, ..load(Rate::Saturate) },
    ] {
        assert!(matches!(soft.run(&bad, &Plan::Rest), Err(DeviceError::BadLoad { .. })), "{bad:?}");
    }
    let engine = Setup { placement: Placement::Engine, ..setup(vec![]) };
    assert!(matches!(soft.setup(&engine), Err(DeviceError::NotSupported { .. })));
}
