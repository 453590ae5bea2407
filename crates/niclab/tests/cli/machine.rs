//! Machines that are too small, and users who may not.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use niclab_device::cores::allowed;
use rustix::process::{Pid, Signal, kill_process};

use crate::command::{QUICK, cores, niclab, run, scratch};

/// `niclab` started by another program, or `None` where that cannot be done here.
fn through(program: &str, arguments: &[&str]) -> Option<Command> {
    let start = || {
        let mut command = Command::new(program);
        command.args(arguments).arg(env!("CARGO_BIN_EXE_niclab"));
        command
    };
    let works = start().arg("--version").output().is_ok_and(|output| output.status.success());
    works.then(start)
}

/// No thread offers the load of the embedded card; that of a pair of interfaces needs one.
#[test]
fn one_core_is_enough_for_the_embedded_card_and_too_few_for_a_veth_pair() {
    let name = "one_core_is_enough_for_the_embedded_card_and_too_few_for_a_veth_pair";
    let _cores = cores();
    let scratch = scratch();
    let core = allowed()[0].to_string();
    let Some(mut command) = through("taskset", &["-c", &core]) else {
        println!("SKIP {name}: taskset is missing");
        return;
    };
    command.args(QUICK).arg("-o").arg(scratch.path().join("soft"));
    run(command).with(0, &[]);
    assert!(scratch.path().join("soft/report.html").is_file());
    if let Err(error) = niclab_device::open("linux:veth") {
        println!("SKIP {name}: {error}");
        return;
    }
    let Some(mut command) = through("taskset", &["-c", &core]) else { return };
    command.args(["run", "occupancy", "--device", "linux:veth", "--repeats", "1", "-o"]);
    command.arg(scratch.path().join("veth"));
    run(command).with(5, &["linux:veth needs 2 cores", "this process may use 1", "taskset"]);
    assert!(!scratch.path().join("veth").exists());
}

#[test]
fn a_run_of_rules_on_a_device_without_any_measures_nothing_and_fails() {
    let name = "a_run_of_rules_on_a_device_without_any_measures_nothing_and_fails";
    if let Err(error) = niclab_device::open("linux:veth") {
        println!("SKIP {name}: {error}");
        return;
    }
    let _cores = cores();
    let scratch = scratch();
    let path = scratch.path().join("run");
    let mut command =
        niclab(&["run", "occupancy", "--device", "linux:veth", "--repeats", "1", "-o"]);
    command.arg(&path).args(["--set", "groups=1", "--set", "rules=16"]);
    let message = ["nothing was measured", "niclab show", "linux:veth: not supported: ", "rules"];
    run(command).with(6, &message);
    assert!(path.join("report.html").is_file());
}

#[test]
fn a_veth_pair_needs_rights() {
    let scratch = scratch();
    let is_root = rustix::process::geteuid().is_root();
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let command = if is_root { through("setpriv", &nobody) } else { Some(niclab::<&str>(&[])) };
    let Some(mut command) = command else {
        println!("SKIP a_veth_pair_needs_rights: setpriv cannot start niclab as another user");
        return;
    };
    command.args(["run", "--device", "linux:veth", "-o"]).arg(scratch.path().join("run"));
    run(command).with(5, &["needs more rights", "run it as root", "setcap", "chmod 750"]);
    assert!(!scratch.path().join("run").exists());
}

/// The half second that it looks at a core may take much longer: then the gaps are of that time.
#[test]
fn a_doctor_that_was_stopped_finds_no_more_than_all_of_the_time() {
    let mut command = niclab(&["doctor"]);
    let doctor = command.stdout(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&doctor);
    sleep(Duration::from_millis(300));
    kill_process(pid, Signal::STOP).unwrap();
    sleep(Duration::from_secs(2));
    kill_process(pid, Signal::CONT).unwrap();
    let out = String::from_utf8(doctor.wait_with_output().unwrap().stdout).unwrap();
    let shares = out.lines().filter_map(|line| line.split_once(" % of the time"));
    let shares = shares.map(|(before, _)| before.rsplit(' ').next().unwrap().parse::<f64>());
    let shares: Vec<f64> = shares.map(Result::unwrap).collect();
    assert!(!shares.is_empty(), "{out}");
    assert!(shares.iter().all(|share| (0.0..=100.0).contains(share)), "{out}");
}
