//! The NIC on a core of its own: every frame is accounted for, whichever thread held it.
//!
//! Threads run wherever there is room, so that two cores are enough.

use super::*;
use crate::pair::tests::alone;
use crate::{Arrivals, Function as Work, Rate};
use niclab_load::PortCounters;
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;

fn soft(queues: u16, rules: Vec<RuleBlock>) -> Soft {
    let about = about(Placement::Engine, Seats::default());
    let mut soft = Soft { about, pinned: false, state: None };
    let setup = Setup {
        rules,
        queues,
        cores: 1,
        ports: 1,
        receive: Default::default(),
        function: Work::Forward,
        placement: Placement::Engine,
        frame_len_max: 1_518,
    };
    soft.setup(&setup).unwrap();
    soft
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

fn run(soft: &mut Soft, load: &Load) -> (Observation, PortCounters) {
    let seen = soft.run(load, &Plan::Rest).unwrap();
    assert_eq!(seen.planned, seen.offered + seen.unsent);
    assert_eq!(seen.offered, seen.received + seen.dropped + seen.lost);
    assert!(seen.honesty.balanced, "{:?}", seen.honesty.reasons);
    assert_eq!((seen.damaged, seen.duplicated, seen.reordered), (0, 0, 0));
    assert!(seen.checked > 0, "no checksum was looked at: {seen:?}");
    assert!(seen.honesty.device_stalls.is_some());
    // None where every turn looked like a stall, as where three threads have two cores.
    assert!(seen.honesty.device_idle_ratio.is_none_or(|ratio| (0.0..=1.0).contains(&ratio)));
    let device = seen.device.clone().unwrap();
    let at_queues: u64 = device.queues.iter().map(|queue| queue.rx_missed).sum();
    assert_eq!(device.rx_missed, seen.generator.rx_missed + at_queues);
    (seen, device)
}

#[test]
fn every_queue_gets_frames_and_gives_them_back_in_order() {
    let _alone = alone();
    // 500 flows leave some of 256 queues empty.
    for (count, used_min) in [(1, 1), (2, 2), (7, 7), (256, 192)] {
        let mut soft = soft(count, vec![]);
        for _ in 0..2 {
            let (seen, device) = run(&mut soft, &load(Rate::Pps(100_000.0)));
            assert!(seen.received > 0);
            assert_eq!(device.queues.len(), usize::from(count));
            let used = device.queues.iter().filter(|queue| queue.rx_frames > 0).count();
            assert!(used >= used_min, "{used} of {count} queues used");
            assert!(device.queues.iter().all(|queue| queue.rx_frames == queue.tx_frames));
        }
    }
}

#[test]
fn rules_send_frames_back_on_the_nics_core() {
    let _alone = alone();
    let back = RuleBlock::Any { group: 0, priority: 9, actions: vec![Action::Port(0)] };
    let mut soft = soft(2, vec![back]);
    let (seen, device) = run(&mut soft, &load(Rate::Pps(50_000.0)));
    assert!(seen.received > 0);
    assert_eq!([device.rule_drops, device.queues[1].rx_frames], [0, 0], "no queue gets any");
    assert_eq!(device.queues[0].rx_frames, device.queues[0].tx_frames);
}

#[test]
fn rules_drop_on_the_nics_core() {
    let _alone = alone();
    let flows = FlowSpec { count: 500, ..FlowSpec::default() };
    let drop = RuleBlock::FiveTuples {
        group: 0,
        priority: 0,
        flows,
        first: 0,
        count: 100,
        actions: vec![Action::Drop],
    };
    let to_second = RuleBlock::Any { group: 0, priority: 9, actions: vec![Action::Queue(1)] };
    let mut soft = soft(2, vec![drop, to_second]);
    let (seen, device) = run(&mut soft, &load(Rate::Pps(50_000.0)));
    // A machine with other work may leave few frames, each of a flow that chance draws: of five
    // standard deviations there is no doubt.
    let is_a_fifth = |dropped: u64, frames: u64| {
        let share = dropped as f64 / frames as f64;
        (share - 0.2).abs() < 5.0 * (0.2 * 0.8 / frames as f64).sqrt()
    };
    // A queue that was full lost only frames that no rule had dropped.
    let at_queues: u64 = device.queues.iter().map(|queue| queue.rx_missed).sum();
    let (drops, frames) = (device.rule_drops, device.total().rx_frames + at_queues);
    assert!(is_a_fifth(drops, frames), "{drops} of {frames} dropped");
    if at_queues == 0 {
        // The rules did not see the frames that the wire had no room for.
        let (drops, frames) = (seen.dropped, seen.offered - seen.lost);
        assert!(is_a_fifth(drops, frames), "{drops} of {frames} of the measured part dropped");
    }
    assert_eq!(seen.lost, seen.rx_missed, "what a rule drops is no loss");
    assert_eq!(device.queues[0].tx_frames, 0);
}

#[test]
fn more_than_the_queues_hold_is_missed_and_counted_there() {
    let _alone = alone();
    let load = Load { sizes: FrameSizes::Fixed(64), ..load(Rate::Saturate) };
    for count in [1, 3] {
        let (seen, device) = run(&mut soft(count, vec![]), &load);
        assert!(seen.received > 0 && seen.rx_missed <= device.rx_missed, "{seen:?}");
    }
}

#[test]
fn too_few_cores_are_refused_and_enough_are_named() {
    let _alone = alone();
    let Ok(mut soft) = Soft::open() else { return println!("SKIP too_few_cores: one core") };
    let setup = Setup {
        rules: vec![],
        queues: 1,
        cores: 1,
        ports: 1,
        receive: Default::default(),
        function: Work::Forward,
        placement: Placement::Engine,
        frame_len_max: 64,
    };
    let cores = cores::allowed();
    match soft.setup(&setup) {
        Err(DeviceError::Cores { needed: 3, available, remedy, .. }) => {
            assert_eq!(available as usize, cores.len());
            assert!(cores.len() < 3 && !remedy.is_empty());
        }
        Err(error) => panic!("{error}"),
        Ok(_) => {
            let device = soft.about().places.iter().find(|place| place.role == "device");
            assert_eq!(device.and_then(|place| place.core), cores.get(2).copied());
        }
    }
}
