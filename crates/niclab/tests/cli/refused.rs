//! What cannot be measured is refused before anything is made, with a word on what would be right.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::command::{Ended, call, capture, cores, cut, niclab, quick, run, samples, scratch};
use crate::socket::{OTHER, has_others};

/// Runs `niclab run` with these arguments: the code, the phrases, and no result directory.
#[track_caller]
fn refused(arguments: &[&str], code: i32, phrases: &[&str]) {
    let scratch = scratch();
    let mut command = niclab(&["run"]);
    command.args(arguments).current_dir(scratch.path());
    let ended = run(command);
    ended.with(code, phrases);
    assert_eq!(ended.out, "", "{arguments:?}");
    let left = fs::read_dir(scratch.path()).unwrap().count();
    assert_eq!(left, 0, "{arguments:?} left something behind");
}

#[test]
fn an_unknown_experiment_names_those_there_are() {
    refused(
        &["ocupancy"],
        3,
        &["no experiment `ocupancy`", "did you mean `occupancy`?", "TOML file"],
    );
    refused(&["none.toml"], 3, &["none.toml", "No such file"]);
    refused(&["occupancy", "occupancy"], 3, &["occupancy is named twice"]);
    call(&["list", "nonsense"]).with(3, &["no experiment `nonsense`"]);
}

#[test]
fn an_unknown_device_names_the_kinds_there_are() {
    let kinds = ["soft", "linux:veth", "linux:IFACE,IFACE", "dpdk:EAL-ARGUMENTS", "swx"];
    refused(&["--device", "sfot"], 5, &[&["device `sfot`"], &kinds[..]].concat());
    refused(&["--device", "soft", "--device", "sfot"], 5, &["device `sfot`"]);
    refused(&["--device", "dpkd:x"], 5, &["did you mean `dpdk:x`?"]);
    refused(&["occupancy", "--set", "rule=1"], 3, &["no such axis", "did you mean `rules`?"]);
    refused(&["--device", "linux:eth0"], 5, &["linux:TESTER,DEVICE"]);
    refused(&["--device", "linux:none0,none1"], 5, &["none0 not found", "ip link"]);
    refused(&["--device", "soft", "--device", "soft"], 3, &["soft is named twice"]);
}

#[test]
fn an_unknown_field_is_shown_in_its_line_with_what_may_stand_there() {
    let scratch = scratch();
    let text = call(&["list", "occupancy"]).out;
    let path = scratch.path().join("mine.toml");
    let refuse = |from: &str, to: &str, phrases: &[&str]| {
        let at = text.find(from).unwrap();
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let line = format!("line {}", text[..at].lines().count() + 1);
        let phrases = [&["mine.toml", line.as_str()], phrases].concat();
        refused(&[path.to_str().unwrap()], 3, &phrases);
    };
    refuse("repeats =", "repaets =", &["column 1", "repaets", "expected one of `repeats`"]);
    refuse("repeats = 6", "repeats = \"six\"", &["invalid type", "\"six\""]);
    refuse(
        "kind = \"occupancy\"",
        "kind = \"ocupancy\"",
        &["`ocupancy`", "expected one of `occupancy`"],
    );
}

#[test]
fn an_axis_or_a_value_that_makes_no_sense_is_refused_with_what_does() {
    let set = |text: &str, phrases: &[&str]| {
        refused(&["--device", "soft", "--set", text], 3, phrases);
    };
    set("rulez=1", &["--set rulez", "no such axis", "groups, rules, match_percent"]);
    set("rules", &["write NAME=VALUES"]);
    set("rules=", &["a value is missing"]);
    set("rules=many", &["occupancy: rules = many", "give numbers"]);
    set("rules=1K", &["rules = 1K", "give numbers, such as 0,1k"]);
    set("rules=[9-1]", &["`[9-1]` is no range"]);
    set("rules=[0-100000]", &["more than 10000 values"]);
    set("frame=10", &["frame = 10", "64 to 9000"]);
    set("match_percent=101", &["match_percent = 101", "0 to 100"]);
    set("flows=0", &["flows = 0"]);
    set("duration_ms=1,2", &["duration_ms = 1,2", "give one number"]);
}

#[test]
fn options_that_cannot_be_understood_end_with_code_2() {
    refused(&["--card", "cx9"], 2, &["'cx9' for '--card", "bf1, cx4, cx5, cx6"]);
    refused(&["--where", "arm"], 2, &["'arm' for '--where", "host, snic, peer"]);
    refused(&["--there", "arm"], 2, &["'arm' for '--there", "host, snic, peer"]);
    refused(&["--path", "both"], 2, &["'both' for '--path", "on, off, none"]);
    refused(&["--resume", "x", "--where", "host"], 2, &["cannot be used with"]);
    refused(&["--grid", "huge"], 2, &["'huge' for '--grid", "reduced, full, published"]);
    refused(&["--repeats", "0"], 2, &["'0' for '--repeats"]);
    refused(&["--seed", "abc"], 2, &["'abc' for '--seed"]);
    refused(&["--full", "--grid", "full"], 2, &["cannot be used with"]);
    refused(&["--resume", "x", "--full"], 2, &["cannot be used with"]);
    call(&["mesure"]).with(2, &["unrecognized subcommand 'mesure'"]);
    call::<&str>(&[]).with(2, &["Usage: niclab <COMMAND>"]);
    call(&["export", "x"]).with(2, &["--csv"]);
}

#[test]
fn a_trace_that_cannot_be_read_whole_is_refused() {
    let scratch = scratch();
    let refuse = |bytes: &[u8], phrases: &[&str]| {
        let path = scratch.path().join("trace.pcap");
        fs::write(&path, bytes).unwrap();
        let arguments = ["--device", "soft", "--trace", path.to_str().unwrap()];
        refused(&arguments, 3, &[&["trace.pcap"], phrases].concat());
    };
    let whole = capture(3, 60, 1);
    refuse(&[], &["the file is empty"]);
    refuse(b"this is a letter, not a capture", &["not a pcap or pcapng file"]);
    refuse(&whole[..20], &["trace.pcap"]);
    refuse(&whole[..24], &["no frame"]);
    refuse(&whole[..whole.len() - 5], &["ends within", "record 3", "2 records before it"]);
    refuse(&capture(3, 60, 101), &["record 1", "link type 101 (raw IP) is not Ethernet"]);
    refuse(&cut(3, 100, 0), &["record 1", "a frame of 100 B", "tcpdump -s 0"]);
    refuse(&cut(3, 100, 2), &["record 3", "a frame of 100 B", "the first 46 B", "tcpdump -s 0"]);
    refuse(&[], &["the file is empty"]);
    let place = scratch.path().to_str().unwrap();
    refused(&["--device", "soft", "--trace", place], 3, &["a directory, not a file"]);
    refused(&["--device", "soft", "--trace", "/no.pcap"], 3, &["No such file", "give a pcap"]);
}

#[test]
fn options_that_a_trace_fixes_cannot_be_set() {
    let scratch = scratch();
    let path = scratch.path().join("trace.pcap");
    fs::write(&path, capture(3, 60, 1)).unwrap();
    for (axis, value) in [("flows", "5"), ("frame", "1500"), ("match_percent", "50")] {
        let set = format!("{axis}={value}");
        let arguments = ["--device", "soft", "--trace", path.to_str().unwrap(), "--set", &set];
        let message = format!("--set {axis}: the frames of --trace bring their own {axis}");
        refused(&arguments, 2, &[&message, "leave out one of the two"]);
    }
}

#[test]
fn a_trace_is_measured_and_found_again_from_another_directory() {
    let _cores = cores();
    let scratch = scratch();
    fs::write(scratch.path().join("trace.pcap"), capture(3, 60, 1)).unwrap();
    let mut command = quick(Path::new("run"), &["--set", "groups=0", "--trace", "trace.pcap"]);
    command.current_dir(scratch.path());
    let ended = run(command);
    ended.with(0, &["trace.pcap: 3 frames of 82 to 82 B with stamp and FCS, flows: 3"]);
    let directory = scratch.path().join("run");
    let measured = samples(&directory);
    // Warm-up included: on a busy machine the measured part may have none.
    let sent = |sample: &serde_json::Value| {
        sample["counters"]["generator"]["queues"][0]["tx_frames"].as_u64()
    };
    assert!(measured.iter().filter_map(sent).any(|frames| frames > 0), "nothing was sent");
    assert!(measured.iter().any(|sample| sample["point"]["frame"] == "trace"), "another load ran");
    assert!(measured.iter().all(|sample| sample["load"].get("sizes").is_none()), "{measured:?}");
    let text = fs::read_to_string(directory.join("run.toml")).unwrap();
    for part in ["frames = 3", "flows = 3", "frame_len_max = 82"] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    let path = directory.to_str().unwrap();
    call(&["run", "--resume", path]).with(4, &["trace.pcap", "--trust"]);
    let resume = || call(&["run", "--resume", path, "--trust"]);
    resume().with(0, &["left to measure"]);
    fs::remove_file(scratch.path().join("trace.pcap")).unwrap();
    resume().with(3, &["trace.pcap", "No such file"]);
}

#[test]
fn a_file_of_rules_is_counted_or_shown_where_it_is_wrong() {
    let scratch = scratch();
    let path = scratch.path().join("my.flow");
    let check = |text: &str| {
        fs::write(&path, text).unwrap();
        call(&["rules", "check", path.to_str().unwrap()])
    };
    let good =
        "# one\nflow create 0 ingress pattern ipv4 / end actions drop / end\n\nflow flush 0\n";
    let ended = check(good);
    ended.with(0, &[]);
    assert!(
        ended.out.ends_with("my.flow: 1 rule, 1 other command\n  flushed 1 rule\n"),
        "{ended:?}"
    );
    check("flow create 0 ingress pattern eth / ip / end actions drop / end\n")
        .with(3, &["my.flow: line 1, column 37: `ip` is short for `ipv4`", "\n          ", "^^"]);
    check("\nflow create 0 ingress pattern eth / udp / end actions drop / end\n")
        .with(3, &["line 2, column 37: udp stands behind eth; put ipv4 or ipv6 between", "^^^"]);
    call(&["rules", "check", "none.flow"]).with(3, &["none.flow", "No such file"]);
}

#[test]
fn rules_that_a_result_directory_cannot_keep_are_refused_before_a_run() {
    let scratch = scratch();
    let path = scratch.path().join("long.flow");
    fs::File::create(&path).unwrap().set_len((256 << 20) + 1).unwrap();
    let message = "long.flow: longer than 256 MiB, the limit for such a file; shorten it";
    refused(&["occupancy", "--device", "soft", "--rules", path.to_str().unwrap()], 3, &[message]);
    // No rules at all.
    let output = scratch.path().join("run");
    let mut command = niclab(&["run", "occupancy", "--device", "soft", "--rules", "/dev/null"]);
    command.args(["--set", "duration_ms=5", "--set", "warmup_ms=1", "--repeats", "1", "-o"]);
    command.arg(&output);
    run(command).with(0, &[]);
    assert_eq!(fs::read(output.join("rules.flow")).unwrap(), b"");
}

/// The error for another user who starts `niclab` in a directory.
fn others(directory: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", OTHER, "--regid", OTHER, "--clear-groups"]);
    command.arg(env!("CARGO_BIN_EXE_niclab")).args(arguments).current_dir(directory);
    run(command)
}

#[test]
fn a_built_in_name_is_no_path_and_of_a_path_without_a_right_it_says_who_may() {
    let name = "a_built_in_name_is_no_path_and_of_a_path_without_a_right_it_says_who_may";
    if !has_others(name) {
        return;
    }
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let (closed, open, output) = (scratch(), scratch(), scratch());
    mode(closed.path(), 0o700);
    mode(open.path(), 0o755);
    mode(output.path(), 0o777);
    for file in ["occupancy", "connectx-5", "mine.toml"] {
        fs::write(open.path().join(file), "not for others").unwrap();
        mode(&open.path().join(file), 0o600);
    }
    for (at, directory) in [closed.path(), open.path()].into_iter().enumerate() {
        let to = output.path().join(at.to_string());
        let mut run = vec!["run", "occupancy", "--device", "model:connectx-5", "--repeats", "1"];
        run.extend(["--set", "rules=0", "-o", to.to_str().unwrap()]);
        others(directory, &run).with(0, &[]);
        others(directory, &["profile", "check", "connectx-5"]).with(0, &[]);
        others(directory, &["profile", "show", "connectx-5"]).with(0, &[]);
    }
    for (arguments, code) in [
        (&["run", "mine.toml"][..], 3),
        (&["run", "occupancy", "--device", "model:mine.toml"], 5),
        (&["profile", "check", "mine.toml"], 3),
        (&["profile", "show", "mine.toml"], 3),
        (&["advise", "--device", "model:mine.toml", "--workload", "mine.toml"], 3),
        (&["advise", "--device", "model:connectx-5", "--workload", "mine.toml"], 3),
        (&["rules", "check", "mine.toml"], 3),
    ] {
        let whose = "owned by root, group root, with mode 0600";
        others(open.path(), arguments).with(code, &["mine.toml", whose]);
        let whose = "is owned by root, group root, with mode 0700";
        others(closed.path(), arguments).with(code, &["mine.toml", whose]);
    }
}
