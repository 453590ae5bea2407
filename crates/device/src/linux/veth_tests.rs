//! End to end on a veth pair of niclab's own: needs root, else every test here is skipped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::MutexGuard;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use super::link;
use super::netns::NetNs;
use super::{CARRIER_MAX, End, two_named};
use crate::face::measured;
use crate::pair::tests::alone;
use crate::{
    Arrivals, DeviceError, Function, Load, LoadObservation, Rate, RuleBlock, Setup, SetupReport,
    Testbed, linux,
};
use niclab_load::Latency;
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;
use niclab_packet::timestamp::TimestampClock;

/// Waits until the cores are free; `None`, and says so, where the caller cannot run.
pub fn cores(test: &str) -> Option<MutexGuard<'static, ()>> {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {test}: needs root");
        return None;
    }
    Some(alone())
}

fn load(rate: Rate, size: u16) -> Load {
    Load {
        flows: FlowSpec { count: 100, ..FlowSpec::default() },
        sizes: FrameSizes::Fixed(size),
        rate,
        arrivals: Arrivals::Constant,
        duration_ns: 200_000_000,
        warmup_ns: 50_000_000,
        seed: 7,
        trace: None,
    }
}

pub fn setup(frame_len_max: u16) -> Setup {
    Setup {
        rules: Vec::new(),
        queues: 1,
        cores: 1,
        ports: 1,
        receive: Default::default(),
        function: Function::Forward,
        frame_len_max,
    }
}

fn run(bed: &mut dyn Testbed, load: &Load) -> LoadObservation {
    measured::load(bed, load).unwrap()
}

/// Every frame is somewhere.
fn assert_accounted(observation: &LoadObservation) {
    let o = observation;
    assert_eq!(o.planned, o.offered + o.unsent, "{o:?}");
    assert_eq!(o.offered, o.received + o.lost, "{o:?}");
    assert!(o.rx_missed <= o.lost, "{o:?}");
    assert!(o.honesty.balanced, "{:?}", o.honesty.reasons);
}

#[test]
fn a_gentle_load_comes_back_whole_and_the_counters_balance() {
    let Some(_alone) = cores("a_gentle_load_comes_back_whole_and_the_counters_balance") else {
        return;
    };
    let mut bed = linux::open("linux:veth").unwrap();
    assert_eq!(bed.setup(&setup(1518)).unwrap(), SetupReport::default());
    for size in [64, 1518] {
        // A busy machine may take the core away for longer than a trial waits; not always.
        let mut trials = (0..5).map(|_| run(&mut *bed, &load(Rate::Pps(2_000.0), size)));
        let o = trials.find(|o| {
            assert_accounted(o);
            o.lost == 0
        });
        let o = o.expect("frames were lost in five trials");
        assert_eq!((o.planned, o.duplicated, o.damaged), (400, 0, 0));
        assert!(o.checked > 0, "no checksum was looked at: {o:?}");
        assert_eq!(o.received_bytes, u64::from(size) * o.received);
        let device = o.device.as_ref().unwrap().queues[0];
        assert_eq!(device.rx_frames, o.generator.queues[0].tx_frames);
        assert_eq!(device.rx_bytes, o.generator.queues[0].tx_bytes);
        assert_eq!(device.tx_frames, o.sink.queues[0].rx_frames);
        let latency = &o.latency.as_ref().unwrap().0;
        assert_eq!(latency.len(), o.received);
        let p50 = latency.value_at_quantile(0.5);
        // A core can be away for the whole of a trial.
        assert!((1_000..1_000_000_000).contains(&p50), "p50 {p50} ns");
        let idle = o.honesty.device_idle_ratio.unwrap();
        assert!(idle > 0.5, "2000 frames a second leave the core idle, not {idle}");
    }
}

#[test]
fn frames_have_time_stamps_of_the_kernel_beside_niclabs_clock() {
    let test = "frames_have_time_stamps_of_the_kernel_beside_niclabs_clock";
    let Some(_alone) = cores(test) else {
        return;
    };
    let mut bed = linux::open("linux:veth,stamps=kernel").unwrap();
    bed.setup(&setup(1518)).unwrap();
    // A core that is away, or one stalled frame, leaves other trials as they are.
    for size in [64, 1518] {
        let mut trials = (0..10).map(|_| {
            let o = run(&mut *bed, &load(Rate::Pps(20_000.0), size));
            assert_accounted(&o);
            o.stamped.unwrap()
        });
        let o = trials.find(|o| o.port.0.len() > 20 && o.port.0.len() == o.asked);
        let o = o.expect("in ten trials, frames were not stamped");
        assert_eq!(o.by, TimestampClock::Kernel);
        // A frame each millisecond, of 200.
        assert!(o.asked <= 201, "{o:?}");
        let of = |latency: &Latency| latency.0.value_at_quantile(0.5);
        // The kernel stamps a frame behind the call that sends it and before niclab sees it.
        assert!(of(&o.port) < of(&o.program), "{o:?}");
        assert!(of(&o.port) > 500 && o.implausible == 0, "{o:?}");
    }
    let plain = run(&mut *linux::open("linux:veth").unwrap(), &load(Rate::Pps(2_000.0), 64));
    assert_eq!(plain.stamped, None, "nobody asked for stamps");
}

#[test]
fn a_card_without_a_clock_has_no_time_stamps() {
    let Some(_alone) = cores("a_card_without_a_clock_has_no_time_stamps") else {
        return;
    };
    let error = linux::open("linux:veth,stamps=card").err().expect("veth has no clock");
    let error = error.to_string();
    assert!(error.contains("(driver veth; `ethtool -T niclab-a` must list"), "{error}");
    assert!(error.ends_with("`stamps=kernel` takes the kernel's"), "{error}");
}

#[test]
fn jumbo_frames_pass_and_longer_ones_are_refused() {
    let Some(_alone) = cores("jumbo_frames_pass_and_longer_ones_are_refused") else {
        return;
    };
    let mut bed = linux::open("linux:veth").unwrap();
    bed.setup(&setup(9000)).unwrap();
    let o = run(&mut *bed, &load(Rate::Pps(2_000.0), 9000));
    assert_accounted(&o);
    assert_eq!(o.received_bytes, 9000 * o.received);
    assert!(o.received > 0);
    bed.setup(&setup(1518)).unwrap();
    let error = measured::load(&mut *bed, &load(Rate::Pps(2_000.0), 9000)).unwrap_err();
    assert_eq!(error.to_string(), "load: sizes: frames of 9000 B, but set up for at most 1518 B");
    let error = bed.setup(&setup(9019)).unwrap_err();
    assert!(matches!(error, DeviceError::BadLoad { .. }), "{error}");
}

#[test]
fn an_overload_is_lost_at_the_device_and_counted_there() {
    let Some(_alone) = cores("an_overload_is_lost_at_the_device_and_counted_there") else {
        return;
    };
    let mut bed = linux::open("linux:veth").unwrap();
    bed.setup(&setup(64)).unwrap();
    let o = run(&mut *bed, &load(Rate::Saturate, 64));
    assert_accounted(&o);
    assert!(o.received > 0);
    let kpps = o.received * 1_000_000 / o.duration_ns;
    println!("saturated: {kpps} kpps back of {} offered, {} missed", o.offered, o.rx_missed);
}

#[test]
fn an_interface_that_goes_in_a_trial_is_a_broken_device_and_no_loss() {
    let Some(_alone) = cores("an_interface_that_goes_in_a_trial_is_a_broken_device_and_no_loss")
    else {
        return;
    };
    let mut bed = match linux::LinuxBed::open("linux-xdp:veth", None) {
        Ok(bed) => bed,
        Err(error) => return println!("SKIP: {error}"),
    };
    bed.setup(&setup(64)).unwrap();
    let netns = bed.device.netns.try_clone().unwrap();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(120));
            let down = || Command::new("ip").args(["link", "del", "niclab-b"]).status();
            assert!(netns.within(down).unwrap().unwrap().success());
        });
        measured::load(&mut bed, &load(Rate::Pps(2_000.0), 64)).unwrap_err()
    });
    let text = error.to_string();
    assert!(matches!(error, DeviceError::Broken { .. }), "{text}");
    assert!(text.contains("forwarding frames on niclab-b: "), "{text}");
}

#[test]
fn rules_are_not_supported_which_is_a_result() {
    let Some(_alone) = cores("rules_are_not_supported_which_is_a_result") else {
        return;
    };
    let mut bed = linux::open("linux:veth").unwrap();
    let rule = RuleBlock::Any { group: 0, priority: 0, actions: Vec::new() };
    let with_rule = Setup { rules: vec![rule], ..setup(64) };
    let Err(DeviceError::NotSupported { capability }) = bed.setup(&with_rule) else {
        panic!("a veth pair has no rules");
    };
    let missing = "rules (n-tuple: driver veth has none; flower: ";
    assert!(capability.starts_with(missing), "{capability}");
    println!("{capability}");
    let cores = DeviceError::lacks("several cores for queues");
    assert_eq!(bed.setup(&Setup { cores: 2, ..setup(64) }), Err(cores));
    let queues = DeviceError::lacks("17 queues (niclab-b has 16 at most)");
    assert_eq!(bed.setup(&Setup { queues: 17, ..setup(64) }), Err(queues));
    assert_eq!(bed.about().not_supported, ["rules"]);
    let function = bed.about().places.iter().find(|place| place.role == "function");
    assert_eq!(function.map(|place| place.label.as_str()), Some(Function::Forward.label()));
    // The testbed is as good as before.
    bed.setup(&setup(64)).unwrap();
    assert_accounted(&run(&mut *bed, &load(Rate::Pps(1_000.0), 64)));
}

#[test]
fn several_queues_share_the_flows_and_each_counts_its_own() {
    let Some(_alone) = cores("several_queues_share_the_flows_and_each_counts_its_own") else {
        return;
    };
    for name in ["linux:veth", "linux-xdp:veth"] {
        let mut bed = linux::open(name).unwrap();
        // More, fewer, one, and none that was there before.
        for queues in [4, 2, 1, 3] {
            bed.setup(&Setup { queues, ..setup(1518) }).unwrap();
            let o = run(&mut *bed, &load(Rate::Pps(5_000.0), 64));
            assert_accounted(&o);
            let device = o.device.as_ref().unwrap();
            assert_eq!(device.queues.len(), usize::from(queues), "{name}");
            let mut frames = device.queues.iter().map(|queue| queue.rx_frames);
            // By a hash of each of 100 flows: that one of four queues gets none is no luck.
            assert!(frames.all(|frames| frames > 0), "{name} {queues} {device:?}");
            let statistic = |name: &str| device.statistics.get(name).copied().unwrap_or(0);
            for (at, queue) in device.queues.iter().enumerate() {
                assert_eq!(queue.rx_frames, queue.tx_frames, "{name} {queues} {device:?}");
                if name.starts_with("linux-xdp") {
                    // The driver saw them on the very same queue.
                    let observed = statistic(&format!("rx_queue_{at}_xdp_packets"));
                    assert_eq!(queue.rx_frames, observed, "{name} {queues} {device:?}");
                }
            }
        }
    }
}

#[test]
fn af_xdp_carries_frames_through_and_its_counters_balance() {
    let Some(_alone) = cores("af_xdp_carries_frames_through_and_its_counters_balance") else {
        return;
    };
    let mut bed = linux::open("linux-xdp:veth").unwrap();
    for size in [64, 1518] {
        bed.setup(&setup(size)).unwrap();
        let o = run(&mut *bed, &load(Rate::Pps(2_000.0), size));
        assert_accounted(&o);
        assert!(o.received > 0, "{o:?}");
        assert_eq!(o.received_bytes, u64::from(size) * o.received);
        assert_eq!((o.duplicated, o.damaged, o.foreign), (0, 0, 0));
    }
    let o = run(&mut *bed, &load(Rate::Saturate, 64));
    assert_accounted(&o);
    assert!(o.received > 0);
    let kpps = o.received * 1_000_000 / o.duration_ns;
    println!("saturated: {kpps} kpps back of {} offered, {} missed", o.offered, o.rx_missed);
    let error = bed.setup(&setup(9000)).unwrap_err();
    assert!(matches!(error, DeviceError::BadLoad { .. }), "{error}");
    assert!(bed.about().hosts.is_empty(), "messages go over the kernel's stack");
}

#[test]
fn the_facts_have_the_names_that_the_driver_reports() {
    let Some(_alone) = cores("the_facts_have_the_names_that_the_driver_reports") else {
        return;
    };
    let mut bed = linux::open("linux:veth").unwrap();
    bed.setup(&Setup { queues: 3, ..setup(64) }).unwrap();
    let fact = |name: &str| {
        let fact = bed.about().facts.iter().find(|fact| fact.name == name);
        fact.map(|fact| fact.value.clone())
    };
    assert_eq!(fact("driver").as_deref(), Some("veth"));
    assert_eq!(fact("driver of the tester").as_deref(), Some("veth"));
    assert_eq!(fact("driver version").as_deref(), Some("1.0"));
    assert_eq!(fact("card queues").as_deref(), Some("rx 3 of 16, tx 3 of 16"));
    for none in ["firmware", "PCI id", "bus", "card rings", "RSS key", "n-tuple rules"] {
        assert_eq!(fact(none), None, "{none}");
    }
}

#[test]
fn interfaces_that_are_not_there_or_down_are_named() {
    let Some(_alone) = cores("interfaces_that_are_not_there_or_down_are_named") else {
        return;
    };
    let error = linux::open("linux:niclab-none,lo").map(|bed| bed.about().clone()).unwrap_err();
    let text = "interface niclab-none not found: `ip link` lists those that are here; \
        `linux:veth` needs none";
    assert_eq!(error.to_string(), text);
}

#[test]
fn nothing_is_left_behind() {
    let Some(_alone) = cores("nothing_is_left_behind") else {
        return;
    };
    let own = std::process::id();
    let before = namespaces(own);
    let mut bed = linux::open("linux:veth").unwrap();
    let mut held = namespaces(own);
    held.retain(|namespace| !before.contains(namespace));
    run(&mut *bed, &load(Rate::Pps(1_000.0), 64));
    assert_eq!(held.len(), 2);
    drop(bed);
    assert_nobody_holds(&held);
}

#[test]
fn kill_9_takes_the_namespaces_away() {
    let Some(_alone) = cores("kill_9_takes_the_namespaces_away") else {
        return;
    };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "linux::veth_tests::holds_a_testbed", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).any(|line| line.ends_with("open"));
    let held = namespaces(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready);
    assert_eq!(held.len(), 2);
    assert_nobody_holds(&held);
}

/// A namespace that no process is in and none holds is gone, and its interfaces with it.
fn assert_nobody_holds(held: &[String]) {
    for process in fs::read_dir("/proc").unwrap() {
        let name = process.unwrap().file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        for namespace in namespaces(id) {
            assert!(!held.contains(&namespace), "process {id} holds {namespace}");
        }
    }
}

#[test]
#[ignore = "the other process of kill_9_takes_the_namespaces_away"]
fn holds_a_testbed() {
    let _bed = linux::open("linux:veth").unwrap();
    println!("\nopen");
    std::thread::sleep(std::time::Duration::from_secs(10));
}

/// The network namespaces that descriptors of a process hold.
fn namespaces(process: u32) -> Vec<String> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return Vec::new();
    };
    let targets = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let names = targets.filter_map(|target| target.to_str().map(String::from));
    names.filter(|name| name.starts_with("net:[")).collect()
}

#[test]
fn each_of_two_interfaces_that_are_down_is_named() {
    let Some(_cores) = cores("each_of_two_interfaces_that_are_down_is_named") else { return };
    let netns = NetNs::anonymous().unwrap();
    let fd = netns.fd().unwrap();
    netns.within(|| link::make_pair("near", "far", fd, (1500, 1))).unwrap().unwrap();
    let off = netns.within(|| Command::new("ip").args(["link", "set", "near", "down"]).status());
    assert!(off.unwrap().unwrap().success());
    let opened = netns.within(|| two_named("near", "far").map(drop)).unwrap();
    let both = "interface near failed: it is down; `ip link set near up`; interface far failed: \
                it is down; `ip link set far up`";
    assert_eq!(opened.unwrap_err().to_string(), both);
}

/// The carrier of an interface comes when the other end is switched on.
#[test]
fn an_interface_waits_for_a_carrier_that_comes_later() {
    let Some(_cores) = cores("an_interface_waits_for_a_carrier_that_comes_later") else { return };
    let (near_ns, far_ns) = (NetNs::anonymous().unwrap(), NetNs::anonymous().unwrap());
    let far_fd = far_ns.fd().unwrap();
    near_ns.within(|| link::make_pair("near", "far", far_fd, (1500, 1))).unwrap().unwrap();
    let link = near_ns.within(|| link::find("near")).unwrap().unwrap().unwrap();
    assert!(link.is_on && !link.up, "{link:?}");
    let end = End { netns: near_ns, link };
    let error = end.wait_for_carrier(Duration::from_millis(50)).unwrap_err().to_string();
    let expected = "interface near failed: it has no carrier; check the cable and the other end";
    assert_eq!(error, expected);
    let later = Duration::from_millis(300);
    let begun = Instant::now();
    scope(|scope| {
        let end = &end;
        let waits =
            scope.spawn(move || end.netns.within(|| End::named("near").map(|end| end.link.up)));
        sleep(later);
        far_ns.within(|| link::switch_on("far")).unwrap().unwrap();
        assert_eq!(waits.join().unwrap().unwrap(), Ok(true));
    });
    assert!(begun.elapsed() >= later);
    // It is off: nothing comes.
    let off = far_ns.within(|| Command::new("ip").args(["link", "set", "far", "down"]).status());
    assert!(off.unwrap().unwrap().success());
    let begun = Instant::now();
    let refused = far_ns.within(|| End::named("far").map(|end| end.link.up)).unwrap();
    assert!(refused.unwrap_err().to_string().contains("it is down"));
    assert!(begun.elapsed() < CARRIER_MAX / 2);
}
