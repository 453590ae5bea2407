//! Runs that are stopped, killed or disturbed by another: nothing finished is lost, nothing is
//! left behind.

use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::command::{
    Running, call, cores, niclab, quick, run, samples, scratch, slow_capture, start,
};

/// Samples that a run has written before it is interrupted.
const BEFORE: usize = 4;

/// A run of some two seconds in many trials.
fn many(directory: &Path) -> Command {
    let mut command = niclab(&["run", "occupancy", "--device", "soft", "--repeats", "2"]);
    for set in ["groups=0", "rules=0,16", "frame=64", "duration_ms=20", "warmup_ms=1"] {
        command.args(["--set", set]);
    }
    command.arg("-o").arg(directory);
    command
}

/// What tells one measurement from all others.
type Key = (String, String, u64, String);

/// The trials of a run; how often rules went in hangs on where it was interrupted.
///
/// On a busy machine a trial may show nothing, and the one that hangs on it fails. Such a trial has
/// its place in a run, too; `is_measured` leaves it out.
fn keys(directory: &Path, is_measured: bool) -> Vec<Key> {
    let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    samples(directory)
        .iter()
        .filter(|sample| sample["trial"] != "setup")
        .filter(|sample| !is_measured || sample["outcome"] == "measured")
        .map(|s| {
            let repeat = s["repeat"].as_u64().unwrap();
            (word(&s["device"]), word(&s["trial"]), repeat, s["point"].to_string())
        })
        .collect()
}

/// The trials of a run that nobody interrupts.
fn uninterrupted() -> &'static BTreeSet<Key> {
    static KEYS: OnceLock<BTreeSet<Key>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let scratch = scratch();
        let path = scratch.path().join("run");
        run(many(&path)).with(0, &[]);
        keys(&path, false).into_iter().collect()
    })
}

/// Starts a run and waits until it has measured something, but by far not all.
fn started(command: Command, directory: &Path) -> Running {
    let mut running = start(command);
    let log = directory.join("samples.jsonl");
    let lines = || fs::read(&log).is_ok_and(|b| b.split(|b| *b == b'\n').count() > BEFORE);
    assert!(running.wait_until(lines), "it ended before: {:?}", running.end());
    running
}

/// Goes on with an interrupted run: what was there stays, what was missing is measured, once.
fn resume_completes(path: &Path) {
    let before = fs::read(path.join("samples.jsonl")).unwrap();
    let whole = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let begun = keys(path, false).len();
    assert!(begun < uninterrupted().len(), "it was not interrupted");
    let ended = call(&["run", "--resume", path.to_str().unwrap()]);
    ended.with(0, &["samples are there", "left to measure: "]);
    assert!(ended.out.contains("report: "), "{ended:?}");
    let after = fs::read(path.join("samples.jsonl")).unwrap();
    assert!(after.starts_with(&before[..whole]), "a finished measurement was lost");
    let measured = keys(path, true);
    let once: BTreeSet<&Key> = measured.iter().collect();
    assert_eq!(measured.len(), once.len(), "a measurement was made twice");
    assert_eq!(&keys(path, false).into_iter().collect::<BTreeSet<_>>(), uninterrupted());
    let orders: Vec<u64> = samples(path).iter().map(|s| s["order"].as_u64().unwrap()).collect();
    assert!(orders.windows(2).all(|pair| pair[0] < pair[1]), "{orders:?}");
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_writes_the_report() {
    let _cores = cores();
    let scratch = scratch();
    let path = scratch.path().join("run");
    let running = started(many(&path), &path);
    running.signal(Signal::INT);
    let ended = running.end();
    ended.with(130, &["stopped; go on with: niclab run --resume"]);
    assert!(samples(&path).len() >= BEFORE);
    assert!(path.join("report.html").is_file(), "{ended:?}");
    let show = call(&["show", path.to_str().unwrap()]);
    show.with(0, &[]);
    assert!(show.prose().contains("This run was cut short"), "{show:?}");
    resume_completes(&path);
}

#[test]
fn sigterm_is_ctrl_c() {
    let _cores = cores();
    let scratch = scratch();
    let path = scratch.path().join("run");
    let running = started(many(&path), &path);
    running.signal(Signal::TERM);
    running.end().with(130, &["--resume"]);
    assert!(path.join("report.html").is_file());
}

#[test]
fn a_signal_is_how_a_card_ends_and_what_a_measurement_at_once_does_not_survive() {
    let scratch = scratch();
    let [trace, socket] = ["in.pcap", "card"].map(|name| scratch.path().join(name));
    fs::write(&trace, slow_capture()).unwrap();
    let port = format!("pcap:in={}", trace.display());
    for signal in [Signal::INT, Signal::TERM] {
        let mut command = niclab(&["nic", "--port", &port, "--control"]);
        command.arg(&socket);
        let mut running = start(command);
        assert!(running.wait_until(|| socket.exists()));
        running.signal(signal);
        let ended = running.end();
        ended.with(0, &[]);
        assert!(ended.out.contains("port 0 pcap:"), "{ended:?}");
    }
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    let running = start(niclab(&["measure", "echo", "--server", &address]));
    // It has asked who is there.
    server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    server.recv(&mut [0; 100]).unwrap();
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, None);
}

#[test]
fn a_second_ctrl_c_ends_a_long_trial_at_once() {
    let _cores = cores();
    let scratch = scratch();
    let path = scratch.path().join("run");
    let mut command = niclab(&["run", "occupancy", "--device", "soft", "--repeats", "1", "-o"]);
    command.arg(&path).args(["--set", "duration_ms=60000", "--set", "rules=0"]);
    let mut running = start(command);
    assert!(running.wait_until(|| path.join("environment.json").exists()));
    sleep(Duration::from_millis(200));
    running.signal(Signal::INT);
    sleep(Duration::from_secs(1));
    let second = Instant::now();
    running.signal(Signal::INT);
    running.end().with(130, &[]);
    assert!(second.elapsed() < Duration::from_secs(5), "{:?}", second.elapsed());
    call(&["show", path.to_str().unwrap()]).with(0, &[]);
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let _cores = cores();
    let scratch = scratch();
    let path = scratch.path().join("run");
    let running = started(many(&path), &path);
    running.signal(Signal::KILL);
    assert_eq!(running.end().code, None);
    // What a kill in the middle of writing leaves.
    let log = path.join("samples.jsonl");
    let mut torn = fs::read(&log).unwrap();
    torn.extend_from_slice(b"{\"schema\":1,\"order\":99,\"time_un");
    fs::write(&log, torn).unwrap();
    fs::write(path.join(".summary.json.part0"), "{").unwrap();
    call(&["show", path.to_str().unwrap()]).with(0, &[]);
    resume_completes(&path);
    assert!(!path.join(".summary.json.part0").exists());
    assert!(!fs::read_to_string(&log).unwrap().contains("\"time_un{"), "the torn line is there");
}

/// `$1` becomes a disk of its own, of 1 MB, which is filled up when the run `$3…` has measured
/// something; what it then holds of the run goes to `$2`. Ends as the run ended.
const FILLED_UP: &str = r#"
    disk=$1 kept=$2
    shift 2
    mount -t tmpfs -o size=1m tmpfs "$disk" || exit 99
    "$@" &
    until [ "$(cat "$disk/run/samples.jsonl" 2>/dev/null | wc -l)" -ge 4 ]; do
        kill -0 $! 2>/dev/null || break
        sleep 0.01
    done
    cat /dev/zero > "$disk/rest" 2>/dev/null
    wait $!
    code=$?
    cp -r "$disk/run" "$kept"
    exit $code
"#;

#[test]
fn a_disk_that_fills_up_stops_the_run_and_loses_nothing() {
    let name = "a_disk_that_fills_up_stops_the_run_and_loses_nothing";
    let scratch = scratch();
    let [disk, kept] = ["disk", "kept"].map(|name| scratch.path().join(name));
    fs::create_dir(&disk).unwrap();
    // A user of its own name space may mount, where there may be one.
    let started = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-r", "-m", "sh", "-c", script, "sh"]).args([&disk, &kept]);
        command
    };
    let mount = "mount -t tmpfs tmpfs \"$1\"";
    if !started(mount).output().is_ok_and(|output| output.status.success()) {
        println!("SKIP {name}: `unshare -r -m` may not mount");
        return;
    }
    let _cores = cores();
    let mut command = started(FILLED_UP);
    let run_there = many(&disk.join("run"));
    command.arg(run_there.get_program()).args(run_there.get_args());
    let ended = run(command);
    ended.with(4, &["no space left for ", "free some and go on with --resume"]);
    assert!(samples(&kept).len() >= BEFORE, "{ended:?}");
    resume_completes(&kept);
}

#[test]
fn a_device_that_stays_away_is_one_failed_sample_however_often_the_run_is_resumed() {
    let _cores = cores();
    let scratch = scratch();
    let path = scratch.path().join("run");
    let away = "linux:none0,none1";
    run(quick(&path, &["--set", "groups=0", "--device", away])).with(0, &["left out", away]);
    for _resumed in 0..2 {
        let path = path.to_str().unwrap();
        call(&["run", "--resume", path, "--trust"]).with(0, &["samples are there"]);
    }
    let samples = samples(&path);
    let of: Vec<_> = samples.iter().filter(|sample| sample["device"] == away).collect();
    assert_eq!(of.len(), 1, "{of:?}");
    assert_eq!((&of[0]["outcome"], &of[0]["dropped"]), (&"failed".into(), &true.into()));
}

#[test]
fn two_runs_do_not_write_into_one_directory() {
    let _cores = cores();
    let scratch = scratch();
    let path = scratch.path().join("run");
    let text = path.to_str().unwrap();
    let running = started(many(&path), &path);
    let busy = ["another run is writing into", "wait until it ends"];
    call(&["run", "--resume", text]).with(4, &busy);
    call(&["report", text]).with(4, &busy);
    call(&["show", text]).with(0, &[]);
    running.signal(Signal::INT);
    running.end().with(130, &[]);
    call(&["report", text]).with(0, &[]);
}

/// Number, parent and start of the process or thread whose status this is; `None` for a zombie.
fn process(stat: &str) -> Option<(u32, u32, String)> {
    let (head, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let id = head.split(' ').next()?.parse().ok()?;
    (fields[0] != "Z").then(|| (id, fields[1].parse().unwrap(), fields[19].to_owned()))
}

/// The process `id` and all that it started, each with the time of its start.
fn family(id: u32) -> BTreeSet<(u32, String)> {
    let stats = fs::read_dir("/proc").unwrap().flatten();
    let texts = stats.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let all: Vec<(u32, u32, String)> = texts.filter_map(|text| process(&text)).collect();
    let mut family = BTreeSet::from([id]);
    while let Some((child, ..)) =
        all.iter().find(|(child, parent, _)| family.contains(parent) && !family.contains(child))
    {
        family.insert(*child);
    }
    let of_family = all.into_iter().filter(|(id, ..)| family.contains(id));
    of_family.map(|(id, _, start)| (id, start)).collect()
}

/// Those of a family that are still there.
fn survivors(family: &BTreeSet<(u32, String)>) -> Vec<u32> {
    let is_there = |(id, start): &&(u32, String)| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat"));
        stat.is_ok_and(|stat| process(&stat).is_some_and(|(_, _, now)| now == *start))
    };
    family.iter().filter(is_there).map(|(id, _)| *id).collect()
}

/// The interfaces of this network namespace.
fn interfaces() -> BTreeSet<String> {
    let entries = fs::read_dir("/sys/class/net").unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Kills a run on `device` in the middle: no process and no interface outlives it.
fn leaves_nothing(device: &str) {
    let name = format!("a_killed_run_on_{device}_leaves_nothing");
    if let Err(error) = niclab_device::open(device) {
        println!("SKIP {name}: {error}");
        return;
    }
    let scratch = scratch();
    let path = scratch.path().join("run");
    let before = interfaces();
    let mut command = niclab(&["run", "occupancy", "--device", device, "--repeats", "1", "-o"]);
    command.arg(&path);
    let running = started(command, &path);
    let family = family(running.pid());
    let processes = if device.starts_with("dpdk") { 2 } else { 1 };
    assert!(family.len() >= processes, "{device}: {family:?} while it ran");
    running.signal(Signal::KILL);
    assert_eq!(running.end().code, None);
    let start = Instant::now();
    while !survivors(&family).is_empty() || interfaces() != before {
        let left = (survivors(&family), interfaces());
        assert!(start.elapsed() < Duration::from_secs(10), "{name}: left behind: {left:?}");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_killed_run_leaves_no_process_and_no_interface() {
    let _cores = cores();
    for device in ["soft", "linux:veth", "dpdk:--vdev=net_ring0"] {
        leaves_nothing(device);
    }
}
