//! The peer of niclab's own rules: DPDK's port on a TAP interface (`net_tap`) makes flower filters
//! of its rules (`rte_flow`).

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{is_inside, said};

/// How DPDK's programs start on a TAP interface, which is then named `dtap0`.
const ENVIRONMENT: [&str; 10] = [
    "--no-huge",
    "--no-pci",
    "--no-shconf",
    "--no-telemetry",
    "-m",
    "256",
    "-l",
    "0,1",
    "--log-level=error",
    "--vdev=net_tap0",
];

const PATIENCE: Duration = Duration::from_secs(20);

fn has(test: &str, program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("SKIP {test}: {program} is not installed");
    }
    found
}

/// Waits until tc shows this many filters on the interface.
#[track_caller]
fn filters_of_tap(count: usize) -> String {
    let begun = Instant::now();
    loop {
        let arguments = ["filter", "show", "dev", "dtap0", "parent", "1:"];
        let shown = Command::new("tc").args(arguments).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        if shown.matches("handle").count() == count {
            return shown;
        }
        assert!(begun.elapsed() < PATIENCE, "not {count} filters: {shown}");
        sleep(Duration::from_millis(50));
    }
}

#[track_caller]
fn type_into(testpmd: &mut Child, line: &str) {
    writeln!(testpmd.stdin.as_mut().unwrap(), "{line}").unwrap();
}

#[test]
fn testpmd_makes_filters_of_rules_and_takes_them_away() {
    let test = "testpmd_makes_filters_of_rules_and_takes_them_away";
    if !is_inside(test) || !has(test, "dpdk-testpmd") {
        return;
    }
    let mut command = Command::new("dpdk-testpmd");
    command.args(ENVIRONMENT).args(["--", "-i", "--total-num-mbufs=2048"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut testpmd = command.spawn().unwrap();
    let drop = "flow create 0 ingress pattern eth / ipv4 dst is 192.0.2.1 / udp dst is 9 / end \
                actions drop / end";
    let queue = "flow create 0 ingress pattern eth / ipv4 dst is 192.0.2.2 / end \
                 actions queue index 0 / end";
    let ttl = "flow create 0 ingress pattern eth / ipv4 ttl is 7 / end actions drop / end";
    [drop, queue, ttl].iter().for_each(|line| type_into(&mut testpmd, line));
    let shown = filters_of_tap(2);
    for words in ["dst_ip 192.0.2.1", "dst_port 9", "action drop", "queue_mapping 0"] {
        assert!(shown.contains(words), "`{words}` is missing: {shown}");
    }
    type_into(&mut testpmd, "flow flush 0");
    filters_of_tap(0);
    type_into(&mut testpmd, "quit");
    let ended = testpmd.wait_with_output().unwrap();
    let said = format!("{}{}", crate::text(&ended.stdout), crate::text(&ended.stderr));
    assert!(ended.status.success(), "{said}");
    assert_eq!(said.matches("Flow rule #").count(), 2, "{said}");
    assert!(said.contains("item not supported"), "filters do not match the TTL: {said}");
}

#[test]
fn flow_perf_creates_and_removes_a_thousand_rules() {
    let test = "flow_perf_creates_and_removes_a_thousand_rules";
    if !is_inside(test) || !has(test, "dpdk-test-flow-perf") {
        return;
    }
    let rules = ["--rules-count=1000", "--rules-batch=500", "--group=0", "--deletion-rate"];
    let flow = ["--", "--ingress", "--ether", "--ipv4", "--queue"];
    let arguments = [&ENVIRONMENT[..], &flow, &rules].concat();
    let out = said("dpdk-test-flow-perf", &arguments);
    for words in ["Total flows insertion rate -> ", "Total deletion rate -> "] {
        let line = out.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{out}"));
        println!("{line}");
    }
}

/// The samples of an experiment on a TAP port of DPDK, and what was said beside.
fn samples_on_tap(experiment: &str, sets: &[&str]) -> (Vec<Value>, String) {
    let directory = tempfile::tempdir().unwrap();
    let into = directory.path().join("run");
    let mut command = Command::new(env!("CARGO_BIN_EXE_niclab"));
    command.args(["run", experiment, "--device", "dpdk:--vdev=net_tap0", "--repeats", "1"]);
    sets.iter().for_each(|set| {
        command.args(["--set", set]);
    });
    let ended = command.arg("-o").arg(&into).output().unwrap();
    let said = crate::text(&ended.stderr);
    let samples = std::fs::read_to_string(into.join("samples.jsonl"));
    let samples = samples.unwrap_or_else(|error| panic!("{error}: {said}"));
    (samples.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), said)
}

#[test]
fn rules_of_a_tap_port_are_proven_and_measured() {
    if !is_inside("rules_of_a_tap_port_are_proven_and_measured") {
        return;
    }
    let sets = ["groups=0", "rules=100", "flows=100", "frame=64", "duration_ms=20"];
    let (samples, said) = samples_on_tap("occupancy", &sets);
    if said.contains("niclab-dpdk is missing") {
        println!("SKIP rules_of_a_tap_port_are_proven_and_measured: needs niclab-dpdk");
        return;
    }
    let setup = samples.iter().find(|sample| sample["trial"] == "setup").expect(&said);
    assert_eq!(setup["metrics"]["rules_installed"]["value"], 100.0, "{setup}");
    assert!(setup["counters"]["proofs"][0]["result"]["right"].is_object(), "{setup}");
    let measured =
        |sample: &&Value| sample["trial"] == "saturate" && sample["outcome"] == "measured";
    assert!(samples.iter().any(|sample| measured(&sample)), "{said}");
}
