//! Help, completions, the manual page; and readers that go away.

use std::fs::OpenOptions;
use std::process::{Command, Stdio};

use crate::command::{call, cores, niclab, quick, run, scratch, shared};

const COMMANDS: [&str; 13] = [
    "compare",
    "completions",
    "doctor",
    "export",
    "kvs",
    "list",
    "man",
    "nic",
    "program",
    "report",
    "rules",
    "run",
    "show",
];
const OPTIONS: [&str; 15] = [
    "--device",
    "--output",
    "--full",
    "--grid",
    "--set",
    "--repeats",
    "--seed",
    "--resume",
    "--trace",
    "--trust",
    "--rules",
    "--card",
    "--dry-run",
    "--variant",
    "--variant-timeout",
];

#[test]
fn completions_and_the_manual_page_know_every_command_and_option() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ended = call(&["completions", shell]);
        ended.with(0, &[]);
        let bare = |option: &str| ended.out.contains(option.trim_start_matches("--"));
        assert!(COMMANDS.into_iter().chain(OPTIONS).all(bare), "{shell}: {}", ended.out);
    }
    let page = call(&["man"]);
    page.with(0, &[]);
    let plain = page.out.replace('\\', "");
    assert_eq!(plain.matches(".TH niclab 1").count(), 1, "one page: {plain}");
    for name in COMMANDS {
        assert!(plain.contains(&format!("NICLAB {}", name.to_uppercase())), "{name}: {plain}");
    }
    assert!(OPTIONS.iter().all(|option| plain.contains(option)), "{plain}");
    assert!(plain.contains("Exit codes:"), "{plain}");
    call(&["completions", "tcsh"]).with(2, &["'tcsh' for '<SHELL>'", "bash"]);
}

#[test]
fn help_names_every_command_option_and_exit_code() {
    let top = call(&["--help"]);
    top.with(0, &[]);
    assert!(COMMANDS.iter().all(|name| top.out.contains(name)), "{}", top.out);
    for code in ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "130"] {
        let line = |line: &str| line.trim_start().split(' ').next() == Some(code);
        assert!(top.out.lines().any(line), "exit code {code} is missing: {}", top.out);
    }
    let of_run = call(&["run", "--help"]);
    of_run.with(0, &[]);
    assert!(OPTIONS.iter().all(|option| of_run.out.contains(option)), "{}", of_run.out);
    for line in top.out.lines().chain(of_run.out.lines()) {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn list_names_experiments_axes_and_devices_and_its_toml_can_be_run() {
    let list = call(&["list"]);
    list.with(0, &[]);
    for word in [
        "without a name, those with a star",
        "* occupancy: ",
        "occupancy: ",
        "update-batch: ",
        "--set batch=",
        "--set rules=",
        "--set frame=",
        "soft",
        "linux:veth",
    ] {
        assert!(list.out.contains(word), "{word} is missing: {}", list.out);
    }
    let _cores = cores();
    let scratch = scratch();
    let toml = call(&["list", "update-batch"]).out;
    let mine = toml.replace("\"update-batch\"\nkind", "\"mine\"\nkind");
    assert_ne!(mine, toml);
    std::fs::write(scratch.path().join("mine.toml"), mine).unwrap();
    let set = ["groups=0", "batch=1", "group=0", "core=same", "before_ms=20", "after_ms=20"];
    let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
    let arguments = [&["mine.toml"], &set[..]].concat();
    let mut command = quick(std::path::Path::new("run"), &arguments);
    command.current_dir(scratch.path());
    run(command).with(0, &["occupancy, mine on soft"]);
}

#[test]
fn doctor_tells_of_machine_cores_and_devices() {
    let _cores = cores();
    let ended = call(&["doctor"]);
    ended.with(0, &[]);
    for word in ["kernel: ", "gaps over 10 us", "noise: ", "device soft: ", "device linux:veth: "] {
        assert!(ended.out.contains(word), "{word} is missing: {}", ended.out);
    }
}

/// Runs a command whose standard output nobody reads any more.
fn unread(mut command: Command) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let path = shared().0.to_str().unwrap();
    let _cores = cores();
    for arguments in [
        &["show", path][..],
        &["export", path, "--csv"],
        &["report", path],
        &["list"],
        &["list", "occupancy"],
        &["man"],
        &["completions", "bash"],
        &["doctor"],
    ] {
        assert_eq!(unread(niclab(arguments)), (Some(0), String::new()), "{arguments:?}");
    }
}

#[test]
fn a_run_whose_standard_error_is_gone_measures_on() {
    let _cores = cores();
    let scratch = scratch();
    let path = scratch.path().join("run");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = quick(&path, &["--set", "groups=0", "--set", "rules=0"]);
    let output = command.stdout(Stdio::piped()).stderr(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("report: "));
    assert!(path.join("report.html").is_file());
}

#[test]
fn an_output_that_is_full_is_a_failure() {
    let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
        println!("SKIP an_output_that_is_full_is_a_failure: there is no /dev/full");
        return;
    };
    let path = shared().0.to_str().unwrap();
    for arguments in [&["show", path][..], &["export", path, "--csv"], &["list"], &["man"]] {
        let mut command = niclab(arguments);
        let output = command.stdout(full.try_clone().unwrap()).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {err}");
        assert!(err.contains("output: No space left"), "{arguments:?}: {err}");
    }
}

#[test]
fn lists_doctors_and_results_are_json_too() {
    let json = |arguments: &[&str]| {
        let ended = call(arguments);
        ended.with(0, &[]);
        serde_json::from_str::<serde_json::Value>(&ended.out).unwrap()
    };
    let listed = json(&["list", "--json"]);
    let first = &listed["experiments"][0];
    assert_eq!((&first["name"], &first["is_short"]), (&"occupancy".into(), &true.into()));
    assert!(listed["devices"].as_array().unwrap().iter().any(|device| device[0] == "soft"));
    let machine = json(&["doctor", "--json"]);
    assert!(machine["cards"].is_array(), "{machine}");
    assert!(machine["devices"].as_array().unwrap().iter().any(|device| device["name"] == "soft"));
    let (directory, _) = shared();
    let shown = json(&["show", directory.to_str().unwrap(), "--json"]);
    assert_eq!(shown["experiments"][0]["name"], "occupancy");
}

#[test]
fn help_of_ctl_is_a_table_with_a_line_for_each_command() {
    for flag in ["-h", "--help"] {
        let ended = call(&["nic", "ctl", flag]);
        ended.with(0, &[]);
        for line in [
            "Usage: niclab nic ctl [OPTIONS] --control <PATH> <COMMAND>",
            "Rules and RSS:",
            "  flow create PORT …             Create a rule",
            "  program load PROGRAM [TABLES]  Replace the program, without losing a frame",
            "  table show [TABLE]             Show table sizes, or the entries of one table",
            "  stop                           Stop the card",
        ] {
            assert!(ended.out.lines().any(|of| of == line), "`{line}` is missing:\n{}", ended.out);
        }
        assert!(ended.out.contains("--json"), "{}", ended.out);
    }
}
