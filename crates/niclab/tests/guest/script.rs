//! `scripts/guest` on this host: what comes through, and what is left of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{MISSING, SCRIPT, text};

#[test]
fn output_and_status_come_through_and_files_of_the_host_stay() {
    let test = "output_and_status_come_through_and_files_of_the_host_stay";
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(SCRIPT);
    command.args(["sh", "-c", "pwd; id -u; ls; echo x >mine; echo oops >&2; exit 7", "a name"]);
    fs::write(directory.path().join("a file"), "").unwrap();
    let ended = command.current_dir(&directory).output().unwrap();
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    if ended.status.code() == Some(MISSING) {
        return println!("SKIP {test}: {}", err.trim());
    }
    assert_eq!(ended.status.code(), Some(7), "{out}{err}");
    let here = fs::canonicalize(&directory).unwrap();
    assert_eq!((out, err), (format!("{}\n0\na file\n", here.display()), "oops\n".into()));
    assert!(!directory.path().join("mine").exists());
}

#[test]
fn a_missing_kernel_has_an_exit_code_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(SCRIPT);
    let ended = command.arg("true").env("CARGO_TARGET_DIR", directory.path()).output().unwrap();
    let err = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(MISSING), "{err}");
    assert!(err.starts_with("guest: ") && err.contains("(./test brings"), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn a_guest_that_hangs_says_where_when_its_time_is_over() {
    let test = "a_guest_that_hangs_says_where_when_its_time_is_over";
    // Nothing emulated boots within a second.
    let ended = Command::new(SCRIPT).args(["--seconds", "1", "true"]).output().unwrap();
    let err = text(&ended.stderr);
    if ended.status.code() == Some(MISSING) {
        return println!("SKIP {test}: {}", err.trim());
    }
    assert_eq!(ended.status.code(), Some(124), "{err}");
    assert!(err.starts_with("guest: the guest did not boot within 1 s"), "{err}");
}

/// The QEMU that a script has started, and the directory of its files.
fn qemu_of(script: &Child) -> (u32, String) {
    let parent = format!("PPid:\t{}\n", script.id());
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut found = processes.filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        let line = text(&fs::read(entry.path().join("cmdline")).ok()?);
        let (_, rest) = line.split_once("file:").filter(|_| status.contains(&parent))?;
        Some((id, rest.split_once("/console")?.0.to_owned()))
    });
    found.next().expect("the script has a QEMU")
}

/// Whether a process runs: not where it has ended, and nobody has asked for its status.
fn runs(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, behind_name)| !behind_name.starts_with(['Z', 'X']))
}

#[test]
fn a_script_that_is_ended_or_killed_leaves_no_qemu_and_no_file() {
    let test = "a_script_that_is_ended_or_killed_leaves_no_qemu_and_no_file";
    for signal in [Signal::TERM, Signal::KILL] {
        let mut command = Command::new(SCRIPT);
        command.args(["--nic", "rss", "sh", "-c", "echo up; sleep 100"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut script = command.spawn().unwrap();
        let mut first = String::new();
        BufReader::new(script.stdout.take().unwrap()).read_line(&mut first).unwrap();
        if first.is_empty() {
            let ended = script.wait_with_output().unwrap();
            let err = text(&ended.stderr);
            assert_eq!(ended.status.code(), Some(MISSING), "{err}");
            return println!("SKIP {test}: {}", err.trim());
        }
        let (qemu, directory) = qemu_of(&script);
        assert!(Path::new(&directory).join("initramfs.cpio").exists());
        kill_process(Pid::from_child(&script), signal).unwrap();
        assert!(!script.wait().unwrap().success());
        let begun = Instant::now();
        let is_left = || Path::new(&directory).exists() || runs(qemu);
        while is_left() {
            assert!(begun.elapsed() < Duration::from_secs(10), "{qemu}, {directory}: {signal:?}");
            sleep(Duration::from_millis(20));
        }
    }
}
