//! Devices of other hosts: by ssh to a real sshd, and by commands.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::command::{capture, cores, niclab, run, scratch, start};
use crate::ssh_host::SshHost;

const PATIENCE: Duration = Duration::from_secs(30);

/// The host, or a line that says why the test is skipped.
fn host(test: &str, has_niclab: bool) -> Option<SshHost> {
    match SshHost::start(has_niclab) {
        Ok(host) => Some(host),
        Err(reason) => {
            println!("SKIP {test}: {reason}");
            None
        }
    }
}

/// A run of about a second on these devices, each trial of this many milliseconds.
fn arguments(devices: &[&str], duration_ms: u32, output: &Path) -> Vec<String> {
    let duration = format!("duration_ms={duration_ms}");
    let all = ["run", "occupancy", "--repeats", "4", "--set", "rules=16", "--set", "groups=1"];
    let mut all: Vec<String> = all.map(str::to_owned).to_vec();
    all.extend(["--set".to_owned(), duration]);
    for device in devices {
        all.extend(["--device".to_owned(), (*device).to_owned()]);
    }
    all.extend(["-o".to_owned(), output.display().to_string()]);
    all
}

/// The outcomes of a run, in the order of its trials, with what they give as a reason.
fn outcomes(output: &Path) -> Vec<(String, String, String)> {
    let text = fs::read_to_string(output.join("samples.jsonl")).unwrap_or_default();
    let samples = text.lines().map_while(|line| serde_json::from_str::<Value>(line).ok());
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |one: Value| (word(&one["device"]), word(&one["outcome"]), word(&one["reason"]));
    samples.map(of).filter(|(device, ..)| device != "reference").collect()
}

/// The agents that run now.
fn agents() -> Vec<i32> {
    let is_agent = |path: &Path| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        line.ends_with(b"niclab\0agent\0")
    };
    let all = fs::read_dir("/proc").unwrap().flatten().filter(|entry| is_agent(&entry.path()));
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Waits until something holds.
#[track_caller]
fn wait_until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        sleep(Duration::from_millis(10));
    }
}

/// Everything was measured, but where the machine took a core away for the whole of a trial.
#[track_caller]
fn assert_measured(outcomes: &[(String, String, String)]) {
    let starved = ["processed no frame", "no frame was due"];
    let is_fine = |(_, outcome, reason): &(String, String, String)| {
        outcome == "measured" || starved.iter().any(|words| reason.contains(words))
    };
    assert!(outcomes.iter().all(is_fine), "{outcomes:?}");
    assert!(outcomes.iter().any(|(_, outcome, _)| outcome == "measured"), "{outcomes:?}");
}

#[test]
fn a_device_of_another_host_is_measured_beside_one_of_this() {
    let name = "a_device_of_another_host_is_measured_beside_one_of_this";
    let Some(host) = host(name, true) else { return };
    let (_cores, scratch) = (cores(), scratch());
    let (there, output) = (host.device("soft"), scratch.path().join("run"));
    run(host.niclab(&arguments(&["soft", &there], 5, &output))).with(0, &[]);
    let outcomes = outcomes(&output);
    assert_measured(&outcomes);
    let devices: Vec<&str> = outcomes.iter().map(|(device, ..)| device.as_str()).collect();
    let of_there = devices.iter().filter(|device| **device == there).count();
    assert!(of_there > 0 && of_there < devices.len(), "{devices:?}");
    let changes = devices.windows(2).filter(|two| two[0] != two[1]).count();
    assert!(changes > 1, "the trials are not interleaved: {devices:?}");
    let text = fs::read_to_string(output.join("environment.json")).unwrap();
    let environment: Value = serde_json::from_str(&text).unwrap();
    let facts = environment["facts"].as_array().unwrap();
    let place = there.strip_suffix("=soft").unwrap();
    let is_kernel = |fact: &&Value| fact[0] == format!("{place}: kernel");
    assert_eq!(facts.iter().filter(is_kernel).count(), 1, "{text}");
    wait_until("the agent ends", || agents().is_empty());
}

#[test]
fn interfaces_and_rules_of_another_host_are_tried() {
    let name = "interfaces_and_rules_of_another_host_are_tried";
    let Some(host) = host(name, true) else { return };
    let _cores = cores();
    let there = host.device("linux:veth");
    let mut command = host.niclab(&["run", "frame-size", "--set", "frame=64", "--repeats", "1"]);
    let scratch = scratch();
    command.args(["--device", &there, "-o"]).arg(scratch.path().join("run"));
    run(command).with(0, &[]);
    let tried = run(host.niclab(&["conform", "--items", "udp", "--device", &host.device("soft")]));
    tried.with(0, &[]);
    assert!(tried.out.contains(". right ("), "{tried:?}");
}

/// Rules and traces lie on the host that measures, whatever is under that path on the other one.
#[test]
fn files_of_rules_and_traces_go_to_the_other_host() {
    let name = "files_of_rules_and_traces_go_to_the_other_host";
    let Some(host) = host(name, true) else { return };
    let (_cores, scratch) = (cores(), scratch());
    let (rules, trace) = (scratch.path().join("my.rules"), scratch.path().join("my.pcap"));
    let rule =
        "flow create 0 ingress pattern eth / ipv4 / udp dst is 7 / end actions queue index 0";
    fs::write(&rules, format!("{rule} / end\n")).unwrap();
    fs::write(&trace, capture(8, 60, 1)).unwrap();
    let output = scratch.path().join("run");
    let mut command = host.niclab(&["run", "occupancy", "--repeats", "1", "--rules"]);
    command.arg(&rules).arg("--trace").arg(&trace);
    command.args(["--device", &host.device("soft"), "-o"]).arg(&output);
    run(command).with(0, &[]);
    assert!(outcomes(&output).iter().any(|(_, outcome, _)| outcome == "measured"));
    wait_until("the copies are gone", || host.left() == 0);
}

#[test]
fn the_program_is_copied_to_a_host_without_one_and_is_gone_afterwards() {
    let name = "the_program_is_copied_to_a_host_without_one_and_is_gone_afterwards";
    let Some(host) = host(name, false) else { return };
    let (_cores, scratch) = (cores(), scratch());
    let output = scratch.path().join("run");
    let mut arguments = arguments(&[&host.device("soft")], 5, &output);
    let absent = run(host.niclab(&arguments));
    absent.with(5, &["exit status: 127", "install niclab there", "--deploy"]);
    assert!(!output.exists());
    arguments.push("--deploy".to_owned());
    run(host.niclab(&arguments)).with(0, &[]);
    assert_measured(&outcomes(&output));
    wait_until("the copy is gone", || host.left() == 0);
    assert!(agents().is_empty());
}

#[test]
fn a_host_that_lets_nobody_in_is_named_with_sshs_own_words() {
    let name = "a_host_that_lets_nobody_in_is_named_with_sshs_own_words";
    let Some(mut host) = host(name, true) else { return };
    let scratch = scratch();
    let arguments = arguments(&[&host.device("soft")], 5, &scratch.path().join("run"));
    host.forget_key();
    let refused = run(host.niclab(&arguments));
    refused.with(5, &["Permission denied (publickey)", "has to work without a question"]);
    host.stop();
    run(host.niclab(&arguments)).with(5, &["Connection refused", "has to work without"]);
}

/// The run keeps its samples, records the failure, and starts another agent with the next set-up.
#[test]
fn an_agent_that_dies_costs_a_trial_and_no_more() {
    let name = "an_agent_that_dies_costs_a_trial_and_no_more";
    let Some(host) = host(name, true) else { return };
    let (_cores, scratch) = (cores(), scratch());
    let (there, output) = (host.device("soft"), scratch.path().join("run"));
    let mut running = start(host.niclab(&arguments(&[&there], 150, &output)));
    assert!(running.wait_until(|| outcomes(&output).len() > 1));
    let agent = agents();
    kill_process(Pid::from_raw(agent[0]).unwrap(), Signal::KILL).unwrap();
    running.end().with(0, &[]);
    let outcomes = outcomes(&output);
    let failed: Vec<_> = outcomes.iter().filter(|(_, outcome, _)| outcome == "failed").collect();
    assert_eq!(failed.len(), 1, "{outcomes:?}");
    assert!(failed[0].2.contains("its agent ended: "), "{failed:?}");
    assert!(outcomes.last().is_some_and(|last| last.1 == "measured"), "{outcomes:?}");
}

#[test]
fn an_agent_ends_when_whoever_asks_is_killed_and_the_run_goes_on() {
    let name = "an_agent_ends_when_whoever_asks_is_killed_and_the_run_goes_on";
    let Some(host) = host(name, true) else { return };
    let (_cores, scratch) = (cores(), scratch());
    let (there, output) = (host.device("soft"), scratch.path().join("run"));
    let mut running = start(host.niclab(&arguments(&[&there], 150, &output)));
    assert!(running.wait_until(|| outcomes(&output).len() > 1));
    running.signal(Signal::KILL);
    wait_until("the agent ends", || agents().is_empty());
    let before = outcomes(&output).len();
    let resume = ["run", "--resume", output.to_str().unwrap()];
    run(host.niclab(&resume)).with(4, &["device ssh://", "--trust"]);
    let mut command = host.niclab(&resume);
    command.arg("--trust");
    run(command).with(0, &[]);
    assert!(outcomes(&output).len() > before);
    assert_measured(&outcomes(&output));
}

#[test]
fn any_command_reaches_an_agent_and_a_wrong_device_is_its_hosts() {
    let (_cores, scratch) = (cores(), scratch());
    let program = Path::new(env!("CARGO_BIN_EXE_niclab")).parent().unwrap().display();
    let place = format!("exec:env PATH={program}:/usr/bin:/bin");
    let output = scratch.path().join("run");
    run(niclab(&arguments(&[&format!("{place}=soft")], 5, &output))).with(0, &[]);
    assert_measured(&outcomes(&output));
    for (device, words) in [
        ("linux:no-such-0,no-such-1", "interface no-such-0 not found"),
        ("model:no-such", "profile"),
        ("dpdk", "must start with `dpdk:`"),
    ] {
        let absent = arguments(&[&format!("{place}={device}")], 5, &scratch.path().join("x"));
        run(niclab(&absent)).with(5, &["exec:env", words]);
    }
    for name in ["ssh://dut", "ssh://-x=soft", "exec:true=nonsense", "ssh://a=ssh://b=soft"] {
        let wrong = arguments(&[name], 5, &scratch.path().join("x"));
        run(niclab(&wrong)).with(5, &[&format!("device `{name}`: ")]);
    }
}
