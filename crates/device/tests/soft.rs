//! The software NIC end to end: every frame is accounted for.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use niclab_device::cores::allowed;
use niclab_device::soft::{Soft, rules_hit};
use niclab_device::{
    Arrivals, DeviceError, Function, Load, LoadObservation, Plan, Rate, Receive, RssPlan,
    RuleBlock, Setup, Task, Testbed,
};
use niclab_nic::rule::Action;
use niclab_packet::flow::{FlowSet, FlowSpec, IpVersion, Transport};
use niclab_packet::size::FrameSizes;
use niclab_packet::stack::{Layer, build};
use niclab_packet::trace::{Endian, Format, LINK_ETHERNET, Record, Resolution, Writer};
use niclab_packet::wire::{MacAddress, arp, ethernet, ipv4, ipv6, tcp, udp, vlan};

/// One trial at a time: all of them want the same two cores.
static CORES: Mutex<()> = Mutex::new(());

/// `None`, with a reason on the screen, where the machine has one core.
fn soft(test: &str) -> Option<(Soft, MutexGuard<'static, ()>)> {
    let turn = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    if allowed().len() < 2 {
        println!("SKIP {test}: it takes two cores");
        return None;
    }
    Some((Soft::open().unwrap(), turn))
}

fn setup(rules: Vec<RuleBlock>) -> Setup {
    let function = Function::Forward;
    let (cores, ports, receive) = (1, 1, Receive::Queues);
    let frame_len_max = 9_000;
    Setup { rules, queues: 2, cores, ports, receive, function, frame_len_max }
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

/// What a load showed beside a plan.
fn offer(soft: &mut Soft, load: &Load, plan: &Plan) -> Result<LoadObservation, DeviceError> {
    let task = Task::Load { load: load.clone(), plan: plan.clone() };
    soft.measure(&task)?.into_load()
}

fn run(soft: &mut Soft, rules: Vec<RuleBlock>, load: &Load) -> LoadObservation {
    soft.setup(&setup(rules)).unwrap();
    let observation = offer(soft, load, &Plan::Rest).unwrap();
    assert_eq!(observation.planned, observation.offered + observation.unsent);
    assert_eq!(observation.offered, observation.received + observation.dropped + observation.lost);
    assert!(observation.honesty.balanced, "{:?}", observation.honesty.reasons);
    assert_eq!((observation.damaged, observation.duplicated, observation.reordered), (0, 0, 0));
    // A capture's checksums need not be right, so nobody looks at them.
    assert_eq!(observation.checked > 0, load.trace.is_none(), "{} looked at", observation.checked);
    let samples = observation.latency.as_ref().map(|latency| latency.0.len());
    assert_eq!(samples, Some(observation.received));
    observation
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
        let observation = run(&mut soft, vec![], &load);
        assert!(observation.received > 0, "{observation:?}");
        assert_eq!(
            observation.lost,
            observation.rx_missed + observation.late,
            "{version:?} {proto:?}"
        );
        let queues = observation.device.unwrap().queues;
        assert!(queues.iter().all(|q| q.rx_frames > 0), "RSS uses both queues: {queues:?}");
    }
}

#[test]
fn frames_without_a_rule_come_to_the_queues_that_their_hash_says() {
    let Some((mut soft, _turn)) = soft("frames_without_a_rule_come_to_the_queues") else { return };
    for (version, proto) in [(IpVersion::V4, Transport::Udp), (IpVersion::V6, Transport::Tcp)] {
        let load = Load { sizes: FrameSizes::Fixed(101), ..load(Rate::Pps(200_000.0)) };
        let flows = FlowSpec { version, proto, count: 40, ..load.flows };
        let load = Load { flows, ..load };
        let report = soft.setup(&Setup { queues: 8, ..setup(Vec::new()) }).unwrap();
        let flows = FlowSet::new(&load.flows).unwrap();
        let shares = report.rss.unwrap().shares(&flows, 8).unwrap();
        let observation = offer(&mut soft, &load, &Plan::Rest).unwrap();
        let queues = observation.device.unwrap().queues;
        let all: u64 = queues.iter().map(|queue| queue.rx_frames).sum();
        assert!(all > 0, "{queues:?}");
        for (queue, share) in queues.iter().zip(&shares) {
            // Six standard deviations of a count of frames that are drawn one by one.
            let most = 6.0 * (share * (1.0 - share) / all as f64).sqrt();
            let of = queue.rx_frames as f64 / all as f64;
            assert!((of - share).abs() <= most, "{of}, {share} by the hash: {queues:?}");
        }
    }
}

/// One trial of a card on two cores.
fn run_card(soft: &mut Soft, setup: &Setup, load: &Load) -> LoadObservation {
    soft.setup(setup).unwrap();
    let observation = offer(soft, load, &Plan::Rest).unwrap();
    assert!(observation.honesty.balanced, "{:?}", observation.honesty.reasons);
    assert_eq!(
        (observation.planned, observation.unsent),
        (observation.offered, 0),
        "none is ever late"
    );
    assert_eq!(observation.offered, observation.received + observation.lost);
    assert_eq!(
        (observation.damaged, observation.duplicated, observation.reordered, observation.foreign),
        (0, 0, 0, 0)
    );
    assert!(observation.checked > 0 && !observation.honesty.tester_limited);
    assert_eq!(
        observation.latency.as_ref().map(|latency| latency.0.len()),
        Some(observation.received)
    );
    observation
}

#[test]
fn frames_come_to_a_card_by_the_clock_at_whatever_rate_and_each_to_its_core() {
    let Some((mut soft, _turn)) = soft("frames_come_to_a_card_by_the_clock") else { return };
    let two = Setup { cores: 2, ..setup(Vec::new()) };
    for rate in [Rate::Pps(100_000.0), Rate::Pps(100e6), Rate::Saturate] {
        let observation = run_card(&mut soft, &two, &load(rate));
        assert_eq!(observation.crossed, Some(0), "each core receives what it forwards");
        let queues = observation.device.as_ref().map(|device| device.queues.clone()).unwrap();
        assert!(queues.iter().all(|queue| queue.rx_frames > 0), "{queues:?}");
        match rate {
            Rate::Pps(pps) => {
                let planned = pps / 10.0;
                assert!(
                    (observation.planned as f64 / planned - 1.0).abs() < 0.05,
                    "{observation:?}"
                );
            }
            _ => assert_eq!(observation.lost, 0, "a full ring takes what has room"),
        }
        let is_beyond = rate == Rate::Pps(100e6);
        assert!(!is_beyond || observation.rx_missed > 0, "no card of two cores forwards so much");
    }
    let serial = Setup { receive: Receive::Serial, ..two.clone() };
    let observation = run_card(&mut soft, &serial, &load(Rate::Pps(50_000.0)));
    let received = observation.device.as_ref().map(|device| device.total().rx_frames);
    assert_eq!(observation.crossed, received, "one core receives, the other forwards");
    // Frames leave by the other port; each port has a queue, and each queue a core.
    let ports = Setup { ports: 2, queues: 1, ..two.clone() };
    let observation = run_card(&mut soft, &ports, &load(Rate::Pps(50_000.0)));
    assert_eq!(observation.device.map(|device| device.queues.len()), Some(2));
    assert_eq!(observation.crossed, Some(0));
}

#[test]
fn a_card_that_there_is_not_is_refused() {
    let Some((mut soft, _turn)) = soft("a_card_that_there_is_not_is_refused") else { return };
    let lacks = |capability: &str| Err(DeviceError::lacks(capability));
    let card = setup(Vec::new());
    let many = soft.setup(&Setup { cores: 9_999, ..card.clone() }).unwrap_err().to_string();
    assert!(many.starts_with("not supported: 9999 cores: there are "), "{many}");
    let three = Setup { ports: 3, ..card.clone() };
    let message = "3 ports: a card has one, or an even number";
    assert_eq!(soft.setup(&three).map(drop), lacks(message));
    let queues = Setup { ports: 2, queues: 200, ..card.clone() };
    assert_eq!(soft.setup(&queues).map(drop), lacks("400 queues of all ports on 1 cores"));
    // Rules name queues of one port, and RSS of one port changes.
    let any = RuleBlock::Any { group: 0, priority: 0, actions: vec![Action::Queue(0)] };
    let serial = Setup { receive: Receive::Serial, ..card.clone() };
    for (setup, lack) in [(Setup { ports: 2, ..card }, "ports"), (serial, "serial receive")] {
        let ruled = Setup { rules: vec![any.clone()], ..setup.clone() };
        assert_eq!(soft.setup(&ruled).map(drop), lacks(lack));
        soft.setup(&setup).unwrap();
        let (change, answer) = (None, None);
        let plan = RssPlan { change, per_s: 1, answer, work_ns: 0, seed: 1 };
        let observation = offer(&mut soft, &load(Rate::Saturate), &Plan::Rss(plan));
        assert_eq!(observation.map(drop), lacks(lack));
    }
    // Older runs say nothing of either.
    let text = serde_json::to_string(&setup(Vec::new())).unwrap();
    assert!(!text.contains("ports") && !text.contains("receive"), "{text}");
    assert_eq!(serde_json::from_str::<Setup>(&text).unwrap(), setup(Vec::new()));
}

#[test]
fn imix_and_jumbo_frames_keep_their_bytes() {
    let Some((mut soft, _turn)) = soft("imix_and_jumbo_frames") else { return };
    for (sizes, mean) in [(FrameSizes::Fixed(570), 570.0), (FrameSizes::Fixed(9_000), 9_000.0)] {
        let observation = run(&mut soft, vec![], &Load { sizes, ..load(Rate::Pps(20_000.0)) });
        let per_frame = observation.received_bytes as f64 / observation.received as f64;
        assert!((per_frame - mean).abs() < 1e-9, "{per_frame} B a frame, {mean} expected");
    }
}

#[test]
fn rules_send_what_they_name_back_by_the_port() {
    let Some((mut soft, _turn)) = soft("rules_send_what_they_name_back") else { return };
    let load = Load { sizes: FrameSizes::Fixed(64), ..load(Rate::Pps(50_000.0)) };
    let back = tuples(&load.flows, 100, vec![Action::Port(0)]);
    let any = RuleBlock::Any { group: 0, priority: 9, actions: vec![Action::Drop] };
    let observation = run(&mut soft, vec![back, any], &load);
    let device = observation.device.unwrap();
    let share = observation.received as f64 / device.total().rx_frames as f64;
    assert!((0.15..0.25).contains(&share), "{share} came back");
    assert_eq!(device.rule_drops + device.queues[0].tx_frames, device.total().rx_frames);
}

#[test]
fn rules_drop_what_they_name_and_nothing_else() {
    let Some((mut soft, _turn)) = soft("rules_drop_what_they_name") else { return };
    let load = Load { sizes: FrameSizes::Fixed(64), ..load(Rate::Pps(50_000.0)) };
    // 500 flows, the first 100 dropped: a fifth of the frames.
    let drop = tuples(&load.flows, 100, vec![Action::Drop]);
    let any = RuleBlock::Any { group: 0, priority: 9, actions: vec![Action::Queue(1)] };
    let observation = run(&mut soft, vec![drop, any], &load);
    let share = observation.dropped as f64 / observation.offered as f64;
    assert!((0.15..0.25).contains(&share), "{share} of the measured part dropped");
    assert_eq!(
        observation.lost,
        observation.rx_missed + observation.late,
        "what a rule drops is no loss"
    );
    let device = observation.device.unwrap();
    let share = device.rule_drops as f64 / device.total().rx_frames as f64;
    assert!((0.15..0.25).contains(&share), "{share} dropped");
    assert_eq!(device.queues[0].tx_frames, 0);
}

#[test]
fn the_rules_of_a_file_that_the_traffic_matches_are_reported() {
    let Some((_, _turn)) = soft("which_rules_of_a_file") else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("my.flow");
    let met = |rules: &str| {
        fs::write(&path, rules).unwrap();
        let block = RuleBlock::File { path: path.clone(), rules_count: 0 };
        rules_hit(&setup(vec![block]), &load(Rate::Pps(1.0)))
    };
    // UDP from 10.0.0.0/8: an odd source is dropped, an even one meets group 1's second rule.
    let rules = "flow create 0 ingress pattern ipv4 src spec 0.0.0.1 src mask 0.0.0.1 / udp / end \
                 actions drop / end\n\
                 flow create 0 priority 1 ingress pattern eth / end actions jump group 1 / end\n\
                 flow create 0 group 1 ingress pattern ipv4 / tcp / end actions drop / end\n\
                 flow create 0 group 1 ingress pattern eth / end actions count / queue index 1 / \
                 end\n";
    assert_eq!(met(rules), Ok(3), "all but the rule of TCP");
    let changed =
        format!("{rules}flow update 0 0 actions queue index 0 / end\nflow destroy 0 rule 3\n");
    assert_eq!(met(&changed), Ok(2), "what an update says counts as well");
    assert_eq!(met("flow create 0 ingress pattern ipv6 / end actions drop / end\n"), Ok(0));
    let refused = met("flow create 0 ingress pattern ipv7 / end actions drop / end\n");
    assert!(refused.unwrap_err().to_string().contains("my.flow"));
}

#[test]
fn saturation_loses_nothing_and_overload_only_at_the_ring() {
    let Some((mut soft, _turn)) = soft("saturation_and_overload") else { return };
    let load = |rate| Load { sizes: FrameSizes::Fixed(64), ..load(rate) };
    let observation = run(&mut soft, vec![], &load(Rate::Saturate));
    assert_eq!((observation.lost, observation.unsent), (0, 0));
    let observation = run(&mut soft, vec![], &load(Rate::Pps(400e6)));
    assert_eq!(observation.lost, observation.rx_missed, "{observation:?}");
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
        assert!(
            matches!(offer(&mut soft, &bad, &Plan::Rest), Err(DeviceError::BadLoad { .. })),
            "{bad:?}"
        );
    }
    let long = Load { sizes: FrameSizes::Fixed(9_001), ..load(Rate::Saturate) };
    assert_eq!(
        offer(&mut soft, &long, &Plan::Rest).unwrap_err().to_string(),
        "load: sizes: frames of 9001 B, but set up for at most 9000 B"
    );
}

/// A frame of each kind: UDP, TCP, ARP, with a VLAN tag, over IPv6, a fragment.
fn frames() -> Vec<Vec<u8>> {
    let ethernet = Layer::Ethernet(ethernet::Repr::default());
    let ipv4 = || ipv4::Repr {
        src: Ipv4Addr::new(10, 0, 0, 1),
        dst: Ipv4Addr::new(10, 0, 0, 2),
        ..ipv4::Repr::default()
    };
    let udp = || Layer::Udp(udp::Repr::default());
    let payload = |len| Layer::Payload(vec![0xab; len]);
    let request = arp::Repr {
        operation: arp::REQUEST,
        src_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        src_ip: Ipv4Addr::new(10, 0, 0, 1),
        dst_mac: MacAddress([0; 6]),
        dst_ip: Ipv4Addr::new(10, 0, 0, 2),
    };
    let fragment = ipv4::Repr { fragment_offset: 1_480, ..ipv4() };
    let tag = vlan::Repr { id: 7, ..vlan::Repr::default() };
    let stacks = [
        vec![Layer::Ipv4(ipv4()), udp(), payload(100)],
        vec![Layer::Ipv4(ipv4()), Layer::Tcp(tcp::Repr::default()), payload(1_000)],
        vec![Layer::Arp(request)],
        vec![Layer::Vlan(tag), Layer::Ipv4(ipv4()), udp(), payload(33)],
        vec![Layer::Ipv6(ipv6::Repr::default()), udp(), payload(64)],
        vec![Layer::Ipv4(fragment), payload(200)],
    ];
    let whole = |layers: Vec<Layer>| [vec![ethernet.clone()], layers].concat();
    stacks.into_iter().map(|layers| build(&whole(layers)).unwrap()).collect()
}

/// Those frames as a capture.
fn capture() -> Vec<u8> {
    let format = Format::Pcap(Endian::Little, Resolution::Nano);
    let mut writer = Writer::new(Vec::new(), format).unwrap();
    for data in &frames() {
        let (timestamp_ns, original_len) = (0, data.len() as u32);
        let record = Record { timestamp_ns, original_len, link_type: LINK_ETHERNET, data };
        writer.write(&record).unwrap();
    }
    writer.finish().unwrap()
}

fn trace_load(path: &Path, rate: Rate) -> Load {
    Load { trace: Some(path.to_owned()), ..load(rate) }
}

#[test]
fn the_frames_of_a_capture_come_back_whole() {
    let Some((mut soft, _turn)) = soft("the_frames_of_a_capture") else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kinds.pcap");
    fs::write(&path, capture()).unwrap();
    for rate in [Rate::Pps(30_000.0), Rate::Saturate] {
        let observation = run(&mut soft, vec![], &trace_load(&path, rate));
        assert!(observation.received > frames().len() as u64, "{observation:?}");
        assert_eq!(observation.lost, observation.rx_missed);
    }
}

#[test]
fn a_capture_that_cannot_be_offered_is_refused_with_the_record() {
    let Some((mut soft, _turn)) = soft("a_capture_that_cannot_be_offered") else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kinds.pcap");
    // The second frame is the longest: 14 + 20 + 20 + 1000 bytes, a stamp of 18, FCS.
    let size = frames()[1].len() as u16 + 18 + 4;
    let mut refusal = |bytes: &[u8], frame_len_max| {
        fs::write(&path, bytes).unwrap();
        soft.setup(&Setup { frame_len_max, ..setup(vec![]) }).unwrap();
        match offer(&mut soft, &trace_load(&path, Rate::Saturate), &Plan::Rest) {
            Ok(_) => String::new(),
            Err(DeviceError::BadLoad { reason }) => reason,
            Err(error) => panic!("{error}"),
        }
    };
    let whole = capture();
    assert_eq!(refusal(&whole, size), "");
    let reason = refusal(&whole, size - 1);
    let want = format!("record 2: {size} B with stamp and FCS exceed {} B", size - 1);
    assert!(reason.ends_with(&want), "{reason}");
    let reason = refusal(&whole[..whole.len() - 1], size);
    assert!(reason.contains("record 6 at byte") && reason.contains("ends within"), "{reason}");
    let reason = refusal(b"no capture at all", size);
    assert!(reason.contains("record 1 at byte 0: not a pcap"), "{reason}");
    assert!(refusal(&whole[..24], size).contains("no frame"));
    fs::remove_file(&path).unwrap();
    let missing = trace_load(&path, Rate::Saturate);
    assert!(matches!(offer(&mut soft, &missing, &Plan::Rest), Err(DeviceError::BadLoad { .. })));
}
