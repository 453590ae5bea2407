//! A testbed of two hosts: a tester and a device in network namespaces of their own, which a veth
//! pair joins, each with an agent on a core of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use niclab_device::cores::allowed;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::command::{cores, niclab, run, scratch, start, wants_long};
use crate::driver;
use crate::pages::blocks;
use crate::ssh_host::SshHost;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/two-hosts.md");

const PATIENCE: Duration = Duration::from_secs(30);

/// Two namespaces, and the pair between them; both go with this value.
struct Hosts {
    tester: String,
    device: String,
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(said.trim().to_owned()) }
}

impl Hosts {
    /// Makes them for a test of this name; says why they cannot be had.
    fn make(name: &str) -> Result<Hosts, String> {
        if allowed().len() < 2 {
            return Err("two hosts need two cores".into());
        }
        let [tester, device] =
            ["t", "d"].map(|end| format!("nl-{}-{name}-{end}", std::process::id()));
        let hosts = Hosts { tester, device };
        ip(&["netns", "add", &hosts.tester])?;
        ip(&["netns", "add", &hosts.device])?;
        let queues = ["numtxqueues", "4", "numrxqueues", "4"];
        let pair = ["link", "add", "eth1", "type", "veth", "peer", "name", "eth1"];
        let at = ["-n", &hosts.tester];
        let far = ["netns", hosts.device.as_str()];
        let make = [&at[..], &pair[..3], &queues, &pair[3..], &queues, &far].concat();
        ip(&make)?;
        for (host, link) in [(&hosts.tester, "eth1"), (&hosts.device, "eth1")] {
            // Else the kernel would announce itself over IPv6 and be counted.
            let quiet = format!("net.ipv6.conf.{link}.disable_ipv6=1");
            ip(&["netns", "exec", host, "sysctl", "-qw", &quiet])?;
            ip(&["-n", host, "link", "set", link, "mtu", "1500", "up"])?;
        }
        Ok(hosts)
    }

    /// The arguments that name both, with this kind of device.
    fn arguments(&self, kind: &str) -> [String; 4] {
        let on = |core: usize, host: &str, port: &str| {
            let core = allowed()[core];
            format!("exec:taskset -c {core} ip netns exec {host}={port}")
        };
        [
            "--tester".into(),
            on(0, &self.tester, "linux:eth1"),
            "--device".into(),
            on(1, &self.device, &format!("{kind}:eth1")),
        ]
    }

    /// `niclab`, which the agents find in their PATH.
    fn niclab(&self, arguments: &[&str], kind: &str) -> Command {
        let mut command = self.program(arguments);
        command.args(self.arguments(kind));
        command
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = niclab(arguments);
        let programs = Path::new(env!("CARGO_BIN_EXE_niclab")).parent().unwrap().display();
        let before = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{programs}:{before}"));
        command
    }

    /// Processes of the agents in a namespace.
    fn agents(&self, host: &str) -> Vec<i32> {
        let output = Command::new("ip").args(["netns", "pids", host]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let pids = text.split_whitespace().filter_map(|pid| pid.parse().ok());
        pids.filter(|pid: &i32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.starts_with("niclab")
        })
        .collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in [&self.tester, &self.device] {
            let _ = ip(&["netns", "del", host]);
        }
    }
}

/// The hosts, or a line that says why the test is skipped.
fn hosts(test: &str, name: &str) -> Option<Hosts> {
    match Hosts::make(name) {
        Ok(hosts) => Some(hosts),
        Err(reason) => {
            println!("SKIP {test}: {reason}");
            None
        }
    }
}

fn samples(output: &Path) -> Vec<Value> {
    let text = fs::read_to_string(output.join("samples.jsonl")).unwrap_or_default();
    let all = text.lines().map_while(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|sample| sample["device"] != "reference").collect()
}

fn measured(samples: &[Value]) -> Vec<&Value> {
    samples.iter().filter(|sample| sample["outcome"] == "measured").collect()
}

#[track_caller]
fn wait_until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        sleep(Duration::from_millis(10));
    }
}

/// niclab's card on an interface, by DPDK.
const CARD: &str = "dpdk:--vdev=net_niclab0,port=packet:eth1,queues=4";

/// An experiment, and what makes it small.
const SMALL: [(&str, &str); 9] = [
    ("occupancy", "groups=0 rules=0,64"),
    ("update-batch", "group=0 batch=64 core=same calls=single slice=32"),
    ("update-rate", "rules=64 per_s=1000 core=same"),
    ("rule-rate", "group=0 rules=64 per_s=1000 calls=single core=same"),
    ("rule-update", "rules=64 change=actions calls=single core=same"),
    ("queue-change", "change=entries answer=none step=1 per_s=100 queues=2 cores=1 pps=10000"),
    ("hash-skew", "queues=2 cores=1 flows=256 zipf=0"),
    ("frame-size", "frame=64 queues=1 cores=1"),
    ("queue-scaling", "queues=2 cores=1 receive=multi-queue ports=1"),
];

/// Both namespaces as hosts with an sshd, and ssh that reaches them as `tester` and `dut`.
struct SshHosts {
    hosts: Hosts,
    places: [SshHost; 2],
    programs: TempDir,
}

impl SshHosts {
    fn make(name: &str) -> Result<SshHosts, String> {
        let hosts = Hosts::make(name)?;
        for host in [&hosts.tester, &hosts.device] {
            ip(&["-n", host, "link", "set", "lo", "up"])?;
        }
        let start =
            |host: &str, core: usize| SshHost::start_in(true, Some((host, allowed()[core])));
        let places = [start(&hosts.tester, 0)?, start(&hosts.device, 1)?];
        let programs = scratch();
        let [tester, device] =
            places.each_ref().map(|place| format!("exec env PATH={} ssh \"$@\"", place.path()));
        // Each of them has a configuration of its own.
        let script = format!(
            "#!/bin/bash\nset -- \"${{@//tester/host-a}}\"\ncase \"$*\" in\n*dut*) set -- \
             \"${{@//dut/host-a}}\"; {device};;\nesac\n{tester}\n"
        );
        let path = programs.path().join("ssh");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Ok(SshHosts { hosts, places, programs })
    }

    /// A PATH with this `ssh` and niclab.
    fn path(&self) -> String {
        let niclab = Path::new(env!("CARGO_BIN_EXE_niclab")).parent().unwrap().display();
        let before = std::env::var("PATH").unwrap_or_default();
        format!("{}:{niclab}:{before}", self.programs.path().display())
    }

    fn files_left(&self) -> usize {
        self.places.iter().map(SshHost::left).sum()
    }
}

/// The experiments on frames, rules and queues run between two hosts that ssh reaches. Only ports
/// with rules have those with rules.
#[test]
fn every_experiment_runs_between_two_hosts_that_ssh_reaches() {
    let name = "every_experiment_runs_between_two_hosts_that_ssh_reaches";
    let hosts = match SshHosts::make("seven") {
        Ok(hosts) => hosts,
        Err(reason) => return println!("SKIP {name}: {reason}"),
    };
    let (_cores, scratch) = (cores(), scratch());
    let mut kinds = vec![("linux:eth1", "linux:eth1", false)];
    let xdp = "dpdk:--vdev=net_af_xdp0,iface=eth1";
    match driver::build() {
        Err(reason) => println!("SKIP {name} with DPDK: {reason}"),
        Ok(()) => kinds.push(("linux:eth1", CARD, true)),
    }
    if wants_long("the same by AF_XDP") {
        let both = ("linux-xdp:eth1", "linux-xdp:eth1", false);
        kinds.extend([("linux:eth1", "linux-xdp:eth1", false), both, (xdp, xdp, false)]);
    }
    for (at, (tester, device, has_rules)) in kinds.into_iter().enumerate() {
        for (experiment, sets) in SMALL {
            let output = scratch.path().join(format!("{experiment}-{at}"));
            let mut command = niclab(&["run", experiment, "--repeats", "1"]);
            command.args(sets.split(' ').flat_map(|set| ["--set", set]));
            command.arg("--tester").arg(format!("ssh://root@tester={tester}"));
            command.arg("--device").arg(format!("ssh://root@dut={device}"));
            command.arg("-o").arg(&output).env("PATH", hosts.path());
            // Without rules, `occupancy` has a point at least: that of no rule.
            let needs_rules = matches!(
                experiment,
                "update-batch" | "update-rate" | "rule-rate" | "rule-update" | "queue-change"
            );
            let needs_queues = matches!(experiment, "hash-skew" | "queue-scaling");
            // All frames of such a tester arrive in one queue of a veth pair.
            let spreads = tester == "linux:eth1";
            let can = (has_rules || !needs_rules) && (spreads || !needs_queues);
            // 6: nothing was measured.
            run(command).with(if can { 0 } else { 6 }, &[]);
            let samples = samples(&output);
            let of = |sample: &Value| (experiment, device.to_owned(), sample.to_string());
            let failed =
                samples.iter().find(|sample| sample["outcome"] == "failed" && !is_starved(sample));
            assert_eq!(failed.map(of), None);
            assert_eq!(!loads(&samples).is_empty(), can, "{experiment} on {device}: {samples:#?}");
            if can && matches!(experiment, "rule-rate" | "rule-update" | "queue-change") {
                assert_changes(experiment, &samples);
            }
            for honesty in loads(&samples) {
                assert_eq!(honesty["alignment"]["by"], "markers", "{experiment}: {honesty}");
            }
        }
    }
    assert_eq!(hosts.files_left(), 0);
    let ended = || [&hosts.hosts.tester, &hosts.hosts.device].map(|host| hosts.hosts.agents(host));
    wait_until("the agents end", || ended().iter().all(Vec::is_empty));
}

/// The rates of rules, and the changes of RSS, are among what was measured.
fn assert_changes(experiment: &str, samples: &[Value]) {
    let metric = match experiment {
        "queue-change" => "rss_changes",
        _ => "operations_per_s",
    };
    let values = measured(samples).into_iter().map(|sample| &sample["metrics"][metric]["value"]);
    assert!(values.filter_map(Value::as_f64).any(|it| it > 0.0), "{experiment}: {samples:#?}");
}

/// The machine had no time for the function, or for the generator, in a trial: no fault.
fn is_starved(sample: &Value) -> bool {
    let starved = ["processed no frame", "no frame was due"];
    sample["reason"].as_str().is_some_and(|it| starved.iter().any(|words| it.contains(words)))
}

/// What was noted of the loads among samples.
fn loads(samples: &[Value]) -> Vec<&Value> {
    let honesty = measured(samples).into_iter().map(|sample| &sample["honesty"]);
    honesty.filter(|honesty| honesty.is_object()).filter(|it| !it["alignment"].is_null()).collect()
}

/// The commands of the book's page run as they are written there, on the tester.
#[test]
fn the_page_about_two_hosts_runs_as_written() {
    let name = "the_page_about_two_hosts_runs_as_written";
    let hosts = match SshHosts::make("page").and_then(|hosts| driver::build().map(|()| hosts)) {
        Ok(hosts) => hosts,
        Err(reason) => return println!("SKIP {name}: {reason}"),
    };
    let (_cores, scratch) = (cores(), scratch());
    let page = fs::read_to_string(PAGE).unwrap();
    let blocks = blocks(&page).into_iter().filter(|(info, _)| info == "sh");
    let mut count = 0;
    for (_, text) in blocks {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &hosts.hosts.tester, "taskset", "-c"]);
        command.args([&allowed()[0].to_string(), "bash", "-e", "-c", &text]);
        command.current_dir(scratch.path()).env("PATH", hosts.path());
        run(command).with(0, &[]);
        count += 1;
    }
    assert_eq!(count, 5, "blocks");
    for result in ["first", "spread", "stamped"] {
        let samples = samples(&scratch.path().join(result));
        assert!(!loads(&samples).is_empty(), "{result}: {samples:#?}");
    }
    for sample in samples(&scratch.path().join("stamped")) {
        let value = |metric: &str| sample["metrics"][metric]["value"].as_f64();
        if let Some(port_ns) = value("latency_kernel_ns_p50") {
            assert!(port_ns <= value("latency_call_to_poll_ns_p50").unwrap(), "{sample}");
            return;
        }
    }
    panic!("no frame was stamped");
}

/// Every frame is accounted for at both ends, and the clocks agree by markers.
#[test]
fn frames_between_two_hosts_are_accounted_for_and_their_clocks_agree() {
    let name = "frames_between_two_hosts_are_accounted_for_and_their_clocks_agree";
    let Some(hosts) = hosts(name, "frames") else { return };
    let (_cores, scratch) = (cores(), scratch());
    let output = scratch.path().join("of-linux");
    let sizes = ["run", "frame-size", "--repeats", "2", "--set", "frame=64", "--set", "queues=1"];
    let mut command = hosts.niclab(&sizes, "linux");
    command.args(["--set", "cores=1", "-o"]).arg(&output);
    run(command).with(0, &[]);
    let samples = samples(&output);
    let loads = loads(&samples);
    assert!(!loads.is_empty(), "{samples:#?}");
    for honesty in loads {
        // Frames that a stopped core sends back after the end are missing at the sink.
        let longest_ns = honesty["device_stalls"]["longest_ns"].as_u64().unwrap();
        assert!(honesty["balanced"] == true || longest_ns > 5_000_000, "{honesty}");
        let error_ns = honesty["alignment"]["error_ns"].as_u64().unwrap();
        assert!(error_ns > 0 && error_ns < 10_000_000, "{error_ns}");
    }
    wait_until("the agents end", || {
        [&hosts.tester, &hosts.device].iter().all(|host| hosts.agents(host).is_empty())
    });
}

/// doctor says which port the cable leads to, and what differs at its ends.
#[test]
fn doctor_finds_the_other_end_of_the_cable_and_what_differs() {
    let name = "doctor_finds_the_other_end_of_the_cable_and_what_differs";
    let Some(hosts) = hosts(name, "doctor") else { return };
    let (_cores, scratch) = (cores(), scratch());
    let other = ["link", "add", "eth2", "type", "veth", "peer", "name", "eth3"];
    ip(&[&["-n", &hosts.device], &other[..]].concat()).unwrap();
    for link in ["eth2", "eth3"] {
        ip(&["-n", &hosts.device, "link", "set", link, "mtu", "9000", "up"]).unwrap();
    }
    let [_, tester, _, device] = hosts.arguments("linux");
    let mut right = hosts.program(&["doctor", "--tester", &tester, "--device", &device]);
    right.arg("--json");
    let right = run(right);
    assert_eq!(right.code, Some(0), "{right:?}");
    let found: Value = serde_json::from_str(&right.out).unwrap();
    assert_eq!(found[0]["cable"]["received"], 100, "{found}");
    assert_eq!(found[0]["cable"]["alignment"]["by"], "markers", "{found}");
    assert!(found[0]["hosts"].as_array().unwrap().len() == 2, "{found}");
    let wrong = device.replace("eth1", "eth2");
    let both = ["doctor", "--tester", &tester, "--device", &wrong, "--device", &device];
    let ended = run(hosts.program(&both));
    ended.with(0, &[]);
    let message = ended.prose();
    assert!(message.contains("no frame came back"), "{message}");
    assert!(message.contains("MTU is 9000 at the device and 1500 at the tester"), "{message}");
    assert!(message.contains("cable: 100 of 100 frames came back"), "{message}");
    let lost = hosts.program(&["doctor", "--tester", &tester, "--device", &wrong]);
    run(lost).with(5, &["linux:eth2: no frame came back"]);
    let output = scratch.path().join("wrong");
    let mut measured = hosts.program(&QUICK);
    measured.args(["--tester", &tester, "--device", &wrong, "-o"]).arg(&output);
    // 6: nothing was measured.
    run(measured).with(6, &[]);
    let samples = samples(&output);
    let says_why = |sample: &Value| sample["reason"].to_string().contains("not cabled to each");
    assert!(samples.iter().any(says_why), "{samples:#?}");
}

/// The variables of the kernel's driver tests name both hosts; addresses name the interfaces.
#[test]
fn variables_of_the_kernels_driver_tests_name_the_hosts() {
    let name = "variables_of_the_kernels_driver_tests_name_the_hosts";
    let Some(hosts) = hosts(name, "selftests") else { return };
    let (_cores, scratch) = (cores(), scratch());
    for (host, address) in [(&hosts.tester, "192.0.2.2/24"), (&hosts.device, "192.0.2.1/24")] {
        ip(&["-n", host, "address", "add", address, "dev", "eth1"]).unwrap();
    }
    let output = scratch.path().join("selftests");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &hosts.device, env!("CARGO_BIN_EXE_niclab"), "run"]);
    command.args(["frame-size", "--device", "selftests", "--repeats", "1", "--set", "frame=64"]);
    command.args(["--set", "queues=1", "--set", "cores=1", "-o"]).arg(&output);
    let program = hosts.program(&[]);
    let path = program.get_envs().find(|(key, _)| *key == "PATH").unwrap().1.unwrap();
    command.env("PATH", path).env("NETIF", "eth1").env("LOCAL_V4", "192.0.2.1");
    command.env("REMOTE_V4", "192.0.2.2").env("REMOTE_TYPE", "netns");
    command.env("REMOTE_ARGS", &hosts.tester);
    run(command).with(0, &[]);
    assert!(!loads(&samples(&output)).is_empty());
    let unset = ["run", "frame-size", "--device", "selftests"];
    run(niclab(&unset)).with(5, &["device `selftests`: set REMOTE_V4 to"]);
}

/// niclab or either agent is killed at any moment: nothing is left on a host, nothing that was
/// measured is lost, and `--resume` goes on.
#[test]
fn whoever_is_killed_leaves_nothing_behind_and_the_run_goes_on() {
    let name = "whoever_is_killed_leaves_nothing_behind_and_the_run_goes_on";
    let Some(hosts) = hosts(name, "killed") else { return };
    let (_cores, scratch) = (cores(), scratch());
    let moments = if std::env::var_os("NICLAB_TEST_ALL").is_some() { 30 } else { 3 };
    let both = || [hosts.agents(&hosts.tester), hosts.agents(&hosts.device)];
    for moment in 0..moments {
        let output = scratch.path().join(moment.to_string());
        let all = ["run", "frame-size", "--repeats", "3", "--set", "frame=64,128"];
        let mut command = hosts.niclab(&all, "linux");
        command.args(["--set", "duration_ms=50", "--set", "queues=1", "--set", "cores=1", "-o"]);
        let running = start({
            command.arg(&output);
            command
        });
        // Spread over the run: its start, trials, the time between them.
        sleep(Duration::from_millis(100 + (moment * 389) % 2_000));
        let victims = match moment % 3 {
            0 => vec![running.pid() as i32],
            at => both()[at as usize - 1].clone(),
        };
        for victim in victims {
            let _ = kill_process(Pid::from_raw(victim).unwrap(), Signal::KILL);
        }
        let before = running.end();
        let kept = samples(&output);
        wait_until("the agents end", || both().iter().all(Vec::is_empty));
        assert!(!before.err.contains("panicked"), "{before:?}");
        if output.join("run.toml").is_file() {
            let mut resume = hosts.program(&["run", "--resume"]);
            resume.arg(&output).arg("--trust");
            run(resume).with(0, &[]);
            let after = samples(&output);
            assert!(kept.iter().all(|sample| after.contains(sample)), "moment {moment}");
            assert!(after.iter().any(|sample| sample["outcome"] == "measured"));
        }
        wait_until("the agents end", || both().iter().all(Vec::is_empty));
    }
}

/// The core of a place in the device's path, in the first device of a run.
fn core_of(output: &Path, role: &str) -> u32 {
    let text = fs::read_to_string(output.join("run.toml")).unwrap();
    let place = text.split_once(&format!("role = \"{role}\"\n")).unwrap().1;
    let core = place.split_once("core = ").unwrap().1.lines().next();
    core.unwrap().parse().unwrap()
}

/// Both halves run on one machine: each gets a core of its own. Where both have one core alone, the
/// result says so.
#[test]
fn halves_on_one_machine_get_cores_of_their_own() {
    let name = "halves_on_one_machine_get_cores_of_their_own";
    let Some(hosts) = hosts(name, "cores") else { return };
    let (_cores, scratch) = (cores(), scratch());
    let [first, second] = [allowed()[0], allowed()[1]];
    let both = format!("{first},{second}");
    let one = first.to_string();
    for (at, (tester, device, expected)) in [
        (&both, &both, Some([first, second])),
        (&both, &one, Some([second, first])),
        (&one, &both, Some([first, second])),
        (&one, &one, None),
    ]
    .into_iter()
    .enumerate()
    {
        let output = scratch.path().join(at.to_string());
        let sizes = ["run", "frame-size", "--repeats", "1", "--set", "frame=64", "-o"];
        let mut command = hosts.program(&sizes);
        command.arg(&output).args(["--set", "queues=1", "--set", "cores=1"]);
        command.args(["--set", "duration_ms=20"]);
        for (half, cores, host) in
            [("--tester", tester, &hosts.tester), ("--device", device, &hosts.device)]
        {
            let of_cores = format!("exec:taskset -c {cores} ip netns exec {host}=linux:eth1");
            command.args([half, &of_cores]);
        }
        let ended = run(command);
        let places = ["generator", "function"].map(|role| core_of(&output, role));
        assert_eq!(places, expected.unwrap_or([first; 2]), "{tester} {device}: {ended:?}");
        let samples = samples(&output);
        let said = |sample: &Value| sample["honesty"].to_string().contains("shared core");
        let is_said = measured(&samples).iter().any(|sample| said(sample));
        let of_device = fs::read_to_string(output.join("run.toml")).unwrap();
        assert_eq!(of_device.contains("share core"), expected.is_none(), "{of_device}");
        // One core may be too slow for any figure.
        assert!(!is_said || expected.is_none(), "{samples:#?}");
    }
}

/// niclab is frozen, as if its host had lost the network: both agents end and restore their hosts.
/// niclab goes on with others when it runs again.
#[test]
fn agents_that_hear_nothing_end_and_restore_their_hosts() {
    let name = "agents_that_hear_nothing_end_and_restore_their_hosts";
    let Some(hosts) = hosts(name, "frozen") else { return };
    let (_cores, scratch) = (cores(), scratch());
    let output = scratch.path().join("run");
    let all = ["run", "hash-skew", "--repeats", "1", "--set", "duration_ms=20000"];
    let mut command = hosts.niclab(&all, "linux");
    command.args(["--set", "queues=2", "--set", "cores=1", "--set", "flows=256"]);
    command.args(["--set", "zipf=0", "-o"]).arg(&output);
    let mut running = start(command);
    let both = || [hosts.agents(&hosts.tester), hosts.agents(&hosts.device)];
    assert!(running.wait_until(|| both().iter().all(|agents| !agents.is_empty())));
    // A trial is under way.
    sleep(Duration::from_secs(3));
    assert_eq!(queues_of(&hosts.device), 2);
    running.signal(Signal::STOP);
    wait_until("the agents end", || both().iter().all(Vec::is_empty));
    assert_eq!(queues_of(&hosts.device), 4);
    let mut clean = Command::new("ip");
    clean.args(["netns", "exec", &hosts.device, env!("CARGO_BIN_EXE_niclab"), "doctor", "--clean"]);
    assert_eq!(run(clean).out, "nothing was left over\n");
    running.signal(Signal::CONT);
    let interrupted = |sample: &Value| {
        sample["reason"].as_str().is_some_and(|reason| reason.contains("was interrupted"))
    };
    assert!(running.wait_until(|| samples(&output).iter().any(interrupted)));
}

/// The receive queues of a host's interface.
fn queues_of(host: &str) -> usize {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", host, "sh", "-c", "ls -d /sys/class/net/eth1/queues/rx-*"]);
    run(command).out.lines().count()
}

/// Either half may die; the run goes on with agents that are started anew.
#[test]
fn a_half_that_dies_costs_a_trial_and_no_more() {
    let name = "a_half_that_dies_costs_a_trial_and_no_more";
    let Some(hosts) = hosts(name, "dies") else { return };
    let (_cores, scratch) = (cores(), scratch());
    for host in [&hosts.tester, &hosts.device] {
        let output = scratch.path().join(host);
        let all = ["run", "frame-size", "--repeats", "6", "--set", "frame=64,128,256"];
        let mut command = hosts.niclab(&all, "linux");
        command.args(["--set", "duration_ms=100", "-o"]).arg(&output);
        let mut running = start(command);
        assert!(running.wait_until(|| measured(&samples(&output)).len() > 1));
        for agent in hosts.agents(host) {
            kill_process(Pid::from_raw(agent).unwrap(), Signal::KILL).unwrap();
        }
        running.end().with(0, &[]);
        let samples = samples(&output);
        let failed = samples.iter().filter(|it| it["outcome"] == "failed" && !is_starved(it));
        let reasons: Vec<&str> = failed.map(|sample| sample["reason"].as_str().unwrap()).collect();
        assert!(!reasons.is_empty() && reasons.len() < 3, "{reasons:?}");
        assert!(reasons.iter().all(|reason| reason.contains("was interrupted")), "{reasons:?}");
        assert_eq!(samples.last().unwrap()["outcome"], "measured", "{host}");
    }
}

const QUICK: [&str; 8] =
    ["run", "frame-size", "--repeats", "1", "--set", "frame=64", "--set", "duration_ms=50"];

#[test]
fn a_half_without_a_host_or_with_two_interfaces_is_refused() {
    for (tester, device, words) in [
        ("linux:eth0", "local=linux:eth1", "device `linux:eth0`: give its host: `local="),
        ("local=linux:eth0", "linux:eth1", "device `linux:eth1`: give its host: `local="),
        ("local=linux:a,b", "local=linux:c", "a half has one interface, here `a`"),
        ("local=linux:no-such-0", "local=linux:no-such-1", "interface no-such-0 not found"),
        ("local=soft", "local=linux:eth0", "two hosts with soft; a tester is linux:IFACE, "),
        (
            "soft",
            "local=linux:eth0",
            "; a tester is linux:IFACE, linux-xdp:IFACE or dpdk:EAL-ARGUMENTS\n",
        ),
        ("local=nonsense", "local=linux:eth0", "device `local=nonsense`: a tester is linux:IFACE"),
        (
            "local=dpdk:-a 0000:01:00.0,stamps=card",
            "local=linux:eth0",
            "not supported: time stamps of the port `dpdk:-a 0000:01:00.0`: niclab lacks it",
        ),
        ("local=linux:eth0", "local=linux:eth0", "tester and device are one port"),
        ("local=linux-tc:eth0", "local=linux:eth0", "a tester behind filters; give linux:IFACE"),
        (
            "local=linux-xdp:eth0,stamps=kernel",
            "local=linux:eth0",
            "time stamps of the port `linux-xdp:eth0,stamps=kernel`: niclab lacks it",
        ),
    ] {
        let refused = ["run", "frame-size", "--tester", tester, "--device", device];
        run(niclab(&refused)).with(5, &[words]);
    }
    let alone = run(niclab(&["run", "frame-size", "--tester", "local=linux:eth0"]));
    assert_eq!(alone.code, Some(2), "{alone:?}");
}
