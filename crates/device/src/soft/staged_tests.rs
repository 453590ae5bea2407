//! Frames that are counted through every way that cores have to each other.

use std::collections::BTreeMap;

use niclab_load::{Arrivals, Rate};
use niclab_nic::NicConfig;
use niclab_nic::rule::Action;
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;

use super::*;
use crate::face::{Function, Placement, RuleBlock, Testbed};
use crate::soft::Soft;

fn load() -> Load {
    Load {
        flows: FlowSpec { count: 1_000, ..FlowSpec::default() },
        sizes: FrameSizes::Fixed(64),
        rate: Rate::Saturate,
        arrivals: Arrivals::Constant,
        duration_ns: 1_000_000,
        warmup_ns: 0,
        seed: 1,
        trace: None,
    }
}

fn setup(cores: u16, queues: u16, ports: u16, receive: Receive) -> Setup {
    Setup {
        rules: Vec::new(),
        queues,
        cores,
        ports,
        receive,
        function: Function::Forward,
        placement: Placement::Staged,
        frame_len_max: 1_518,
    }
}

/// Free cores: frames are counted as ever.
fn staged(cores: usize, queues: u16, ports: u16, receive: Receive) -> (Nic, Staged) {
    let mut nic = Nic::new(&NicConfig { queues, ..NicConfig::default() }).unwrap();
    let setup = setup(cores as u16, queues, ports, receive);
    let staged = Staged::new(&mut nic, &setup, &load(), vec![None; cores]).unwrap();
    (nic, staged)
}

/// Destination and source address of each frame, by slot.
fn addresses(staged: &Staged) -> Vec<Vec<u8>> {
    let of = |desc: &Option<Desc>| staged.region.frame(desc.as_ref().unwrap())[..12].to_vec();
    staged.descs.iter().map(of).collect()
}

#[test]
fn every_frame_goes_to_the_core_of_its_queue_once_and_comes_back() {
    for (cores, queues, ports, receive) in [
        (1, 1, 1, Receive::Queues),
        (1, 8, 1, Receive::Serial),
        (2, 2, 1, Receive::Queues),
        (3, 8, 1, Receive::Queues),
        (2, 1, 2, Receive::Queues),
        (2, 4, 1, Receive::Serial),
        (4, 3, 1, Receive::Serial),
    ] {
        let at = (cores, queues, ports, receive);
        let (nic, mut staged) = staged(cores, queues, ports, receive);
        for desc in staged.descs.iter_mut().flatten() {
            staged.region.frame_mut(desc)[0] = 1;
        }
        let pass = staged.pass().unwrap();
        let frames = (LANE_FRAMES * cores) as u64;
        assert_eq!(pass.frames, frames, "{at:?}");
        assert_eq!(pass.queues.iter().sum::<u64>(), frames, "{at:?}");
        assert_eq!(pass.queues.len(), usize::from(ports * queues), "{at:?}");
        // The function has had each of them once.
        let swapped = |head: &Vec<u8>| head[0] == 0 && head[6] == 1;
        assert!(addresses(&staged).iter().all(swapped), "{at:?}");
        staged.pass().unwrap();
        assert!(addresses(&staged).iter().all(|head| head[0] == 1), "{at:?}");
        // What crossed: all but the share of the core that received it.
        let crossed = pass.crossed as f64 / frames as f64;
        let want = match (receive, cores) {
            (_, 1) => 0.0,
            (Receive::Serial, _) => 1.0,
            (Receive::Queues, cores) => 1.0 - 1.0 / cores as f64,
        };
        assert!((crossed - want).abs() < 0.03, "{at:?}: {crossed}");
        drop(nic);
    }
}

#[test]
fn queues_get_what_their_hash_says() {
    let (nic, mut staged) = staged(2, 4, 1, Receive::Queues);
    let pass = staged.pass().unwrap();
    let flows = FlowSet::new(&load().flows).unwrap();
    let mut picker = flows.picker(1);
    let mut drawn: BTreeMap<u32, f64> = BTreeMap::new();
    (0..pass.frames).for_each(|_| *drawn.entry(picker.next()).or_default() += 1.0);
    assert_eq!(drawn.len(), 1_000, "lanes have frames of all flows");
    let shares = nic.rss().shares(&flows, 4).unwrap();
    for (queue, share) in pass.queues.iter().zip(shares) {
        let of = *queue as f64 / pass.frames as f64;
        assert!((of - share).abs() < 0.01, "{of} of {share}");
    }
}

#[test]
fn a_pass_that_was_disturbed_does_not_set_the_time() {
    let is_disturbed = false;
    let pass = |ns| Pass { ns, frames: 100, crossed: 40, queues: vec![60, 40], is_disturbed };
    let away = |ns| Pass { is_disturbed: true, ..pass(ns) };
    let seen = observed(&[away(90_000), away(80_000), pass(1_100)], &load());
    assert_eq!((seen.duration_ns, seen.received, seen.lost), (3_300, 300, 0));
    assert_eq!(seen.staged, Some(StagedPasses { passes: 3, disturbed: 0, crossed: 120 }));
    // Of hardly an undisturbed pass nothing is made.
    let spoilt = [vec![away(90_000); 9], vec![pass(1_000)]].concat();
    let spoilt = observed(&spoilt, &load());
    assert_eq!(spoilt.duration_ns, 900_000);
    assert_eq!(spoilt.staged, Some(StagedPasses { passes: 10, disturbed: 9, crossed: 400 }));
    assert!(seen.honesty.balanced && seen.latency.is_none());
    let device = seen.device.unwrap();
    assert_eq!(device.queues.iter().map(|q| q.rx_frames).collect::<Vec<_>>(), [180, 120]);
    let short = Pass { frames: 99, ..pass(1_000) };
    assert!(!observed(&[pass(1_000), short], &load()).honesty.balanced, "a frame is gone");
}

#[test]
fn a_core_that_panics_ends_the_pass_of_all() {
    let (nic, mut staged) = staged(2, 4, 1, Receive::Queues);
    // Frames of half the queues are unknown to whoever has them: the first core panics, and what
    // the second has is for the first, more than the ring between them holds.
    staged.spread.queues = 2;
    for desc in staged.descs.iter_mut().skip(LANE_FRAMES).flatten() {
        staged.region.frame_mut(desc)[12..14].fill(0);
    }
    for _ in 0..2 {
        let error = staged.pass().unwrap_err();
        assert_eq!(error, broken("staged: a core panicked in a pass"));
    }
    drop(nic);
}

#[test]
fn rules_are_refused() {
    let any = RuleBlock::Any { group: 0, priority: 0, actions: vec![Action::Queue(0)] };
    let mut soft = Soft { pinned: false, ..Soft::open().unwrap() };
    let refused = soft.setup(&Setup { rules: vec![any], ..setup(1, 1, 1, Receive::Queues) });
    let capability = "rules with placement staged".to_owned();
    assert_eq!(refused.map(drop), Err(DeviceError::NotSupported { capability }));
}

#[test]
fn frames_of_a_trace_are_refused() {
    let mut nic = Nic::new(&NicConfig::default()).unwrap();
    let load = Load { trace: Some("a.pcap".into()), ..load() };
    let setup = setup(1, 1, 1, Receive::Queues);
    let refused = Staged::new(&mut nic, &setup, &load, vec![None]).err();
    let capability = "staged frames of a trace".to_owned();
    assert_eq!(refused, Some(DeviceError::NotSupported { capability }));
}
