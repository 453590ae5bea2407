//! End to end on DPDK's net_ring and net_null: needs niclab-dpdk, else every test here is skipped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::MutexGuard;
use std::thread;
use std::time::{Duration, Instant};

use crate::face::measured;
use crate::pair::tests::alone;
use crate::{
    Arrivals, DeviceError, Function, Load, Rate, RuleBlock, Setup, SetupReport, Testbed, dpdk,
};
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;

/// Opens ports for a test; says why not where niclab-dpdk was not built.
fn open(test: &str, name: &str) -> Option<(Box<dyn Testbed>, MutexGuard<'static, ()>)> {
    let alone = alone();
    match dpdk::open(name) {
        Err(DeviceError::Absent { .. }) => {
            println!("SKIP {test}: needs niclab-dpdk, which needs libdpdk");
            None
        }
        opened => Some((opened.unwrap(), alone)),
    }
}

fn load(rate: Rate, size: u16) -> Load {
    Load {
        flows: FlowSpec { count: 100, ..FlowSpec::default() },
        sizes: FrameSizes::Fixed(size),
        rate,
        arrivals: Arrivals::Constant,
        duration_ns: 200_000_000,
        warmup_ns: 20_000_000,
        seed: 7,
        trace: None,
    }
}

fn setup(frame_len_max: u16) -> Setup {
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

#[test]
fn crossed_rings_account_for_every_frame() {
    let test = "crossed_rings_account_for_every_frame";
    let Some((mut bed, _alone)) = open(test, "dpdk:--vdev=net_ring0") else {
        return;
    };
    for (rate, size) in [
        (Rate::Pps(10_000.0), 64),
        (Rate::Pps(10_000.0), 9000),
        (Rate::Saturate, 64),
        (Rate::Saturate, 1518),
    ] {
        assert_eq!(bed.setup(&setup(size)).unwrap(), SetupReport::default());
        let o = measured::load(&mut *bed, &load(rate, size)).unwrap();
        let mpps = o.received as f64 * 1e3 / o.duration_ns as f64;
        let p50 = o.latency.as_ref().unwrap().0.value_at_quantile(0.5);
        println!("{rate:?} {size} B: {mpps:.2} Mpps back, {} lost, p50 {p50} ns", o.lost);
        assert_eq!(o.planned, o.offered + o.unsent, "{o:?}");
        assert_eq!(o.offered, o.received + o.lost, "{o:?}");
        assert!(o.honesty.balanced, "{:?}", o.honesty.reasons);
        assert_eq!((o.duplicated, o.damaged), (0, 0));
        assert!(o.checked > 0, "no checksum was looked at: {o:?}");
        assert_eq!(o.received_bytes, u64::from(size) * o.received);
        assert_eq!(o.latency.as_ref().unwrap().0.len(), o.received);
        assert!(o.received > 0 && p50 > 0);
        let lost_on_the_way_back = o.device.as_ref().unwrap().tx_dropped;
        assert!(o.lost <= o.rx_missed + lost_on_the_way_back, "{o:?}");
    }
}

#[test]
fn the_run_time_directory_is_where_dpdk_looks_and_ours_is_gone_while_it_runs() {
    let test = "the_run_time_directory_is_where_dpdk_looks_and_ours_is_gone_while_it_runs";
    let name = "dpdk:--vdev=net_ring0";
    let Some((bed, _alone)) = open(test, name) else {
        return;
    };
    let helper = helper_of(std::process::id()).unwrap();
    let environment = fs::read_to_string(format!("/proc/{helper}/environ")).unwrap();
    let reported = environment.split('\0').find_map(|set| set.strip_prefix("RUNTIME_DIRECTORY="));
    assert!(!fs::exists(reported.unwrap()).unwrap(), "{reported:?} is still there");
    drop(bed);
    let elsewhere = tempfile::tempdir().unwrap();
    let script = elsewhere.path().join("niclab-dpdk");
    let (place, program) = (elsewhere.path().display(), dpdk::program().unwrap());
    let program = program.display();
    let text = format!("#!/bin/sh\nRUNTIME_DIRECTORY='{place}' exec '{program}'\n");
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    drop(dpdk::open_with(&script, name).unwrap());
    assert!(elsewhere.path().join("dpdk/rte").is_dir());
}

#[test]
fn net_null_has_a_rate_and_no_latency() {
    let test = "net_null_has_a_rate_and_no_latency";
    let Some((mut bed, _alone)) = open(test, "dpdk:--vdev=net_null0") else {
        return;
    };
    bed.setup(&setup(64)).unwrap();
    let o = measured::load(&mut *bed, &load(Rate::Saturate, 64)).unwrap();
    let mpps = o.received as f64 * 1e3 / o.duration_ns as f64;
    println!("net_null: {mpps:.2} Mpps");
    assert!(o.received > 10_000, "{o:?}");
    assert_eq!((o.latency, o.service), (None, None));
    assert_eq!((o.offered, o.received), (o.planned, o.offered - o.lost));
    assert!(o.honesty.balanced, "{:?}", o.honesty.reasons);
    let paced = measured::load(&mut *bed, &load(Rate::Pps(1000.0), 64));
    assert_eq!(paced.map(|o| o.received), Err(DeviceError::lacks("rate")));
    let long = measured::load(&mut *bed, &load(Rate::Saturate, 1518));
    assert_eq!(long.map(|o| o.received), Err(DeviceError::lacks("frame_size")));
    let traced = Load { trace: Some("a.pcap".into()), ..load(Rate::Saturate, 64) };
    let traced = measured::load(&mut *bed, &traced);
    assert_eq!(
        traced.map(|o| o.received),
        Err(DeviceError::lacks("trace")),
        "it makes frames of its own"
    );
}

#[test]
fn rules_and_queues_are_not_supported_which_is_a_result() {
    let test = "rules_and_queues_are_not_supported_which_is_a_result";
    let Some((mut bed, _alone)) = open(test, "dpdk:--vdev=net_ring0") else {
        return;
    };
    let rule = RuleBlock::Any { group: 0, priority: 0, actions: Vec::new() };
    let with_rule = Setup { rules: vec![rule], ..setup(64) };
    assert_eq!(bed.setup(&with_rule), Err(DeviceError::lacks("rules")));
    let two = DeviceError::lacks("2 queues: net_ring_device has 1 receive, 1 transmit");
    assert_eq!(bed.setup(&Setup { queues: 2, ..setup(64) }), Err(two));
    let rules = bed.about().facts.iter().find(|fact| fact.name == "flow rules").unwrap();
    assert!(rules.value.contains("Function not implemented"), "{}", rules.value);
}

#[test]
fn arguments_that_dpdk_refuses_are_a_bad_name() {
    let test = "arguments_that_dpdk_refuses_are_a_bad_name";
    let Some((bed, _alone)) = open(test, "dpdk:--vdev=net_ring0") else {
        return;
    };
    drop(bed);
    for (name, message) in [
        ("dpdk:--vdev=net_ring0 --no-such-option", "unrecognized option"),
        ("dpdk:--vdev=net_ring0 foo", "DPDK has no argument `foo`"),
        ("dpdk:foo", "`foo` names no device, so DPDK would take all cards"),
        ("dpdk:--vdev=net_null0 --vdev=net_ring0", "give either net_ring0"),
        ("dpdk:--no-pci", "`--no-pci` names no device"),
        (
            "dpdk:-a ffff:ff:1f.0 -a ffff:ff:1f.1",
            "no card has the address ffff:ff:1f.0; `lspci -D`",
        ),
    ] {
        let error = dpdk::open(name).map(|bed| bed.about().clone()).unwrap_err();
        assert!(matches!(error, DeviceError::BadName { .. }), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn a_process_killed_in_the_middle_is_broken_and_reaped() {
    let test = "a_process_killed_in_the_middle_is_broken_and_reaped";
    let Some((mut bed, _alone)) = open(test, "dpdk:--vdev=net_ring0") else {
        return;
    };
    let helper = helper_of(std::process::id()).unwrap();
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        let process = rustix::process::Pid::from_raw(helper as i32).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    });
    let long = Load { duration_ns: 5_000_000_000, ..load(Rate::Pps(1000.0), 64) };
    let started = Instant::now();
    let error = measured::load(&mut *bed, &long).map(|o| o.received).unwrap_err();
    killer.join().unwrap();
    let text = "dpdk:--vdev=net_ring0 failed: niclab-dpdk ended: signal: 9 (SIGKILL)";
    assert!(error.to_string().starts_with(text), "{error}");
    assert!(started.elapsed() < Duration::from_secs(4));
    assert!(!fs::exists(format!("/proc/{helper}")).unwrap(), "not reaped");
    let error = measured::load(&mut *bed, &long).map(|o| o.received).unwrap_err();
    assert!(error.to_string().ends_with("niclab-dpdk has ended before"), "{error}");
}

#[test]
fn kill_9_of_the_asker_ends_the_process() {
    let test = "kill_9_of_the_asker_ends_the_process";
    let Some((bed, _alone)) = open(test, "dpdk:--vdev=net_ring0") else {
        return;
    };
    drop(bed);
    let mut asker = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "dpdk::process_tests::holds_a_testbed", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(asker.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).any(|line| line.ends_with("open"));
    let helper = helper_of(asker.id());
    asker.kill().unwrap();
    asker.wait().unwrap();
    let path = format!("/proc/{}/exe", helper.unwrap());
    assert!(ready);
    let killed = Instant::now();
    // A process that has ended and waits for its new parent has no program any more.
    while fs::read_link(&path).is_ok() {
        assert!(killed.elapsed() < Duration::from_secs(5), "it still runs");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
#[ignore = "the other process of kill_9_of_the_asker_ends_the_process"]
fn holds_a_testbed() {
    let mut bed = dpdk::open("dpdk:--vdev=net_ring0").unwrap();
    println!("\nopen");
    let long = Load { duration_ns: 10_000_000_000, ..load(Rate::Pps(1000.0), 64) };
    measured::load(&mut *bed, &long).unwrap();
}

/// The running niclab-dpdk that a process started.
fn helper_of(parent: u32) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).ok()?;
    let children =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let ids: Vec<u32> = children
        .flat_map(|list| {
            list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()
        })
        .collect();
    let is_helper = |id: &u32| {
        let program: Option<PathBuf> = fs::read_link(format!("/proc/{id}/exe")).ok();
        program.is_some_and(|program| program.ends_with("niclab-dpdk"))
    };
    ids.into_iter().find(is_helper)
}
