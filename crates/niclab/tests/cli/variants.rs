//! `run --variant`: settings compared pair by pair, by commands that the test sees run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::command::{Ended, call, cores, niclab, run, samples, scratch, start};

/// A run of a modelled card that takes a moment, with these variants, `NAME=COMMAND`.
fn modelled(directory: &Path, variants: &[&str], more: &[&str]) -> Command {
    let mut command = niclab(&["run", "occupancy", "--device", "model:connectx-5", "-o"]);
    command.arg(directory).args(["--set", "groups=0", "--set", "rules=16", "--set", "frame=64"]);
    command.args(variants.iter().flat_map(|variant| ["--variant", variant])).args(more);
    command
}

fn resume(directory: &Path, more: &[&str]) -> Ended {
    let mut command = niclab(&["run", "--resume"]);
    command.arg(directory).args(more);
    run(command)
}

fn text(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap()
}

/// Lines that commands left in a file.
fn noted(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Trials, in the order of measurement.
fn trials(directory: &Path) -> Vec<Value> {
    let mut all = samples(directory);
    all.retain(|sample| sample["trial"] != "setup");
    all
}

/// The names of the variants of these samples.
fn names(samples: &[Value]) -> Vec<&str> {
    samples.iter().map(|sample| sample["variant"]["name"].as_str().unwrap()).collect()
}

#[test]
fn commands_run_before_each_trial_in_random_order_and_the_result_says_which() {
    let _cores = cores();
    let scratch = scratch();
    let (path, note) = (scratch.path().join("run"), scratch.path().join("note"));
    let note_of = |name: &str| {
        format!("{name}=echo $NICLAB_VARIANT of $NICLAB_DEVICE | tee -a '{}'", note.display())
    };
    let mut command = niclab(&["run", "occupancy", "--device", "soft", "-o"]);
    command.arg(&path).args(["--set", "groups=0", "--set", "rules=0,16", "--set", "frame=64"]);
    command.args(["--set", "duration_ms=5", "--set", "warmup_ms=1", "--repeats", "7"]);
    command.args(["--variant", &note_of("one"), "--variant", &note_of("two")]);
    let ended = run(command);
    ended.with(
        0,
        &[
            "occupancy on soft [one], soft [two]: about",
            "variant one: before each of at most ",
            "the commands of the variants are not undone",
        ],
    );
    let made = trials(&path);
    let of_notes: Vec<String> = noted(&note);
    let expected: Vec<String> = names(&made).iter().map(|name| format!("{name} of soft")).collect();
    assert_eq!(of_notes, expected, "each command right before its trial, and no other");
    for pair in made.chunks(2) {
        let place = |sample: &Value| {
            ["experiment", "trial", "point", "repeat"].map(|name| sample[name].clone())
        };
        assert_eq!(place(&pair[0]), place(&pair[1]), "a pair is made one behind the other");
        assert_ne!(pair[0]["device"], pair[1]["device"]);
        for sample in pair {
            let name = sample["variant"]["name"].as_str().unwrap();
            assert_eq!(sample["device"], format!("soft [{name}]"));
            assert_eq!(sample["variant"]["stdout"], format!("{name} of soft\n"));
            assert_eq!(sample["variant"]["exit_code"], 0);
        }
    }
    let first: Vec<&str> = names(&made).into_iter().step_by(2).collect();
    assert!(first.contains(&"one") && first.contains(&"two"), "the order is random: {first:?}");
    check_result(&path, made.len());
}

/// What the documents of a run and the commands that read it say of its variants.
fn check_result(path: &Path, trials: usize) {
    let toml = text(path.join("run.toml"));
    assert!(toml.contains("[variants]\ntimeout_s = 10\n"), "{toml}");
    let summary: Value = serde_json::from_str(&text(path.join("summary.json"))).unwrap();
    let section = &summary["experiments"][0];
    assert_eq!(section["name"], "variants");
    let tables = section["tables"].as_array().unwrap();
    let commands = tables.iter().find(|table| table["id"] == "variants-commands").unwrap();
    assert_eq!(commands["rows"][0][0], "one");
    assert!(commands["rows"][0][1].as_str().unwrap().starts_with("echo $NICLAB_VARIANT"));
    assert_eq!(commands["rows"][0][2], (trials / 2).to_string(), "{commands:#}");
    let report = text(path.join("report.html"));
    assert!(report.contains("Which variant is better, pair by pair?"));
    assert!(report.contains("echo $NICLAB_VARIANT of $NICLAB_DEVICE"));
    let shown = call(&["show".as_ref(), path.as_os_str()]);
    shown.with(0, &[]);
    assert!(shown.out.contains("Commands that ran before trials"), "{}", shown.out);
    let exported = call(&["export".as_ref(), path.as_os_str(), "--csv".as_ref()]);
    exported.with(0, &[]);
    let head: Vec<&str> = exported.out.lines().next().unwrap().split(',').collect();
    let at = head.iter().position(|name| *name == "variant").unwrap();
    let of = |line: &str| line.split(',').nth(at).unwrap().to_owned();
    let all: Vec<String> = exported.out.lines().skip(1).map(of).collect();
    assert!(all.iter().all(|name| name == "one" || name == "two"), "{all:?}");
    // Far more than both can differ by: they do the same.
    let compared = call(&["compare".as_ref(), path.as_os_str(), "--tolerance=99%".as_ref()]);
    compared.with(0, &[]);
    for phrase in ["baseline soft [one]", "compared soft [two]", "compared pair by pair"] {
        assert!(compared.prose().contains(phrase), "`{phrase}` is missing in {}", compared.out);
    }
}

/// A card whose loopback is slow under one of two variants, in a namespace of the test's own.
const SCRIPT: &str = r#"
set -eu
ip link set lo up
"$NICLAB" serve echo --bind 127.0.0.1:17917 >"$SCRATCH/served" 2>&1 & server=$!
for _ in $(seq 400); do grep -q 'echo of' "$SCRATCH/served" && break; sleep 0.05; done
"$NICLAB" run echo-size --device peer:127.0.0.1:17917 -o "$SCRATCH/run" \
    --set transport=udp --set size=64 --set receive=blocking \
    --set duration_ms=40 --set warmup_ms=20 --repeats 8 \
    --variant plain='tc qdisc del dev lo root 2>/dev/null; true' \
    --variant shaped='tc qdisc replace dev lo root tbf rate 1mbit burst 2000 limit 200000'
kill -INT $server
wait $server
"$NICLAB" show "$SCRATCH/run"
"$NICLAB" compare "$SCRATCH/run"
"#;

#[test]
fn a_setting_that_slows_the_path_is_found_end_to_end() {
    let test = "a_setting_that_slows_the_path_is_found_end_to_end";
    let shapes = "ip link set lo up && \
                  tc qdisc replace dev lo root tbf rate 1mbit burst 2000 limit 200000";
    let can = Command::new("unshare").args(["-n", "sh", "-c", shapes]).output();
    if !can.is_ok_and(|can| can.status.success()) {
        println!("SKIP {test}: needs root, ip, tc and the queueing discipline tbf");
        return;
    }
    let _cores = cores();
    let scratch = scratch();
    let mut command = Command::new("unshare");
    command.args(["-n", "bash", "-c", SCRIPT]);
    command.env("NICLAB", env!("CARGO_BIN_EXE_niclab")).env("SCRATCH", scratch.path());
    let ended = run(command);
    ended.with(8, &["[shaped]: ", "worse by more than 5 %"]);
    let message = ended.prose();
    let mut findings = message.lines().filter(|line| line.starts_with("- shaped is "));
    // On a busy machine the interval may span more than a decade: then it is a number of times.
    let is_slower = [" % slower than plain by ", " times as fast as plain by "];
    assert!(findings.any(|of| is_slower.iter().any(|words| of.contains(words))), "{message}");
}

#[test]
fn a_command_that_fails_or_is_late_is_a_failed_trial_that_says_why() {
    let _cores = cores();
    let scratch = scratch();
    for (command, more, expected) in [
        (
            "echo first >&2; echo no such device >&2; exit 7",
            &[][..],
            "ended with exit status 7: no such device",
        ),
        ("kill -TERM $$", &[], "was killed by signal 15"),
        (
            "echo slow >&2; sleep 60",
            &["--variant-timeout", "1"],
            "did not end within 1 s and was killed: slow",
        ),
        ("no-such-program-of-niclab", &[], "ended with exit status 127: "),
    ] {
        let path = scratch.path().join("run");
        let _ = fs::remove_dir_all(&path);
        let ended = run(modelled(&path, &["good=true", &format!("bad={command}")], more));
        let reason = format!("the command of variant bad {expected}");
        ended.with(6, &["left out: model:connectx-5 [bad]: ", &reason, "3 times in a row"]);
        let last = format!("\n  model:connectx-5 [bad]: {reason}");
        ended.with(6, &["no device was measured under two variants", &last]);
        assert!(!ended.err.contains("not supported"), "{}", ended.err);
        let failed: Vec<Value> =
            trials(&path).into_iter().filter(|of| of["outcome"] == "failed").collect();
        assert_eq!(failed.len(), 3);
        assert!(failed.iter().all(|of| of["reason"].as_str().unwrap().contains(&reason)));
        let report = text(path.join("report.html"));
        assert!(report.contains("the command of variant bad"), "the report says it");
    }
}

#[test]
fn names_and_numbers_that_cannot_be_are_refused_before_anything_is_made() {
    let scratch = scratch();
    let path = scratch.path().join("run");
    for (variants, message) in [
        (&["a=true"][..], "1 given: a comparison needs 2 to 8 variants"),
        (&["a=true", "a=false"], "a is given twice"),
        (&["a=true", "b c=true"], "letters, digits, `-` and `_`"),
        (&["a=true", "b"], "write NAME='COMMAND'"),
        (&["1=:", "2=:", "3=:", "4=:", "5=:", "6=:", "7=:", "8=:", "9=:"], "9 given"),
    ] {
        run(modelled(&path, variants, &[])).with(2, &[message]);
        assert!(!path.exists());
    }
    run(modelled(&path, &["a=:", "b=:"], &["--variant-timeout", "0"])).with(2, &["1..="]);
    run(modelled(&path, &[], &["--variant-timeout", "2"])).with(2, &["--variant"]);
}

#[test]
fn a_dry_run_shows_the_commands_and_runs_none() {
    let scratch = scratch();
    let (path, note) = (scratch.path().join("run"), scratch.path().join("note"));
    let variants = ["a", "b"].map(|name| format!("{name}=touch '{}'", note.display()));
    let variants = variants.each_ref().map(String::as_str);
    let ended = run(modelled(&path, &variants, &["--dry-run", "--repeats", "4"]));
    ended.with(0, &[]);
    let touch = format!("touch '{}'", note.display());
    for phrase in [
        "occupancy: at most 72 trials, 4 repeats, ",
        "all experiments: at most ",
        "devices: model:connectx-5 [a], model:connectx-5 [b]",
        &format!("variant a: before each of at most 36 trials: {touch}"),
        "nothing was measured, and no command was run",
    ] {
        assert!(ended.out.contains(phrase), "`{phrase}` is missing in {}", ended.out);
    }
    assert!(!path.exists() && !note.exists());
}

#[test]
fn a_run_goes_on_with_its_own_variants_and_no_others() {
    let _cores = cores();
    let scratch = scratch();
    let (path, note) = (scratch.path().join("run"), scratch.path().join("note"));
    let variants = ["a", "b"].map(|name| format!("{name}=echo {name} >> '{}'", note.display()));
    let [a, b] = variants.each_ref().map(String::as_str);
    let mut running = start(modelled(&path, &[a, b], &["--repeats", "40"]));
    assert!(running.wait_until(|| noted(&note).len() > 20));
    running.signal(Signal::INT);
    running.end().with(130, &["stopped; go on with: niclab run --resume ", " --trust"]);
    let (before, made, has_run) = (samples(&path).len(), trials(&path).len(), noted(&note).len());
    // It may have been stopped between a command and its trial.
    assert!(has_run == made || has_run == made + 1, "{has_run} commands, {made} trials");
    for (given, message) in [
        (&[][..], "command of variant a: echo a >> "),
        (&["--variant", a], "has other variants"),
        (&["--variant", b, "--variant", a], "has other variants"),
        (&["--variant", a, "--variant", "b=true"], "has other variants"),
    ] {
        resume(&path, given).with(4, &[message]);
        assert_eq!((samples(&path).len(), noted(&note).len()), (before, has_run), "{given:?}");
    }
    let is_done = |ended: Ended| {
        ended.with(0, &[]);
        let (mut notes, all) = (noted(&note), trials(&path));
        notes.drain(made..has_run);
        assert_eq!(notes, names(&all), "what was there is not made again");
        all.len()
    };
    // What was typed again is the user's own; what is trusted is run too.
    let all = is_done(resume(&path, &["--variant", a, "--variant", b]));
    assert_eq!(all, 40 * 9 * 2);
    assert_eq!(is_done(resume(&path, &["--trust"])), all);
}

#[test]
fn commands_of_a_foreign_directory_are_shown_and_run_only_where_it_is_trusted() {
    let _cores = cores();
    let scratch = scratch();
    let (path, note) = (scratch.path().join("run"), scratch.path().join("note"));
    run(modelled(&path, &["a=true", "b=true"], &["--repeats", "6"])).with(0, &[]);
    let toml = text(path.join("run.toml"));
    let his = format!("touch {} # \\u001b[2J", note.display());
    let named = toml.replacen("command = \"true\"", &format!("command = \"{his}\""), 1);
    assert_ne!(named, toml);
    fs::write(path.join("run.toml"), named).unwrap();
    // Something is left to measure.
    let kept = text(path.join("samples.jsonl"));
    let first = kept.split_inclusive('\n').take(2).collect::<String>();
    fs::write(path.join("samples.jsonl"), first).unwrap();
    let merged = scratch.path().join("merged");
    for words in [vec!["show"], vec!["report"], vec!["export", "--csv"], vec!["compare"]] {
        call(&[&words[..], &[path.to_str().unwrap()]].concat());
        assert!(!note.exists(), "{words:?}");
    }
    let [path_text, merged] = [&path, &merged].map(|path| path.to_str().unwrap().to_owned());
    call(&["merge", &path_text, "--output", &merged]);
    let refused = resume(&path, &[]);
    refused.with(
        4,
        &["names things that are not niclab's own", "command of variant a: touch ", "--trust"],
    );
    assert!(!refused.err.contains('\u{1b}') && !note.exists(), "{refused:?}");
    resume(&path, &["--variant", "a=true", "--variant", "b=true"]).with(4, &["has other variants"]);
    assert!(!note.exists());
    resume(&path, &["--trust"]).with(0, &[]);
    assert!(note.exists());
}

#[test]
fn variants_of_merged_runs_are_pairs_within_their_part() {
    let scratch = scratch();
    let parts = ["host", "peer"].map(|place| {
        let path = scratch.path().join(place);
        let mut command = niclab(&["run", "echo-size", "--device", "model:bluefield2", "-o"]);
        command.arg(&path).args(["--where", place, "--set", "size=64", "--repeats", "6"]);
        command.args(["--variant", "a=true", "--variant", "b=true"]);
        run(command).with(0, &[]);
        path
    });
    let merged = scratch.path().join("both");
    let mut command = niclab(&["merge"]);
    command.args(&parts).arg("--output").arg(&merged);
    run(command).with(0, &[]);
    let summary: Value = serde_json::from_str(&text(merged.join("summary.json"))).unwrap();
    let all = summary["experiments"].as_array().unwrap();
    let section = all.iter().find(|of| of["name"] == "variants").unwrap();
    let table = |id: &str| {
        let tables = section["tables"].as_array().unwrap();
        tables.iter().find(|table| table["id"] == id).unwrap()["rows"].as_array().unwrap().clone()
    };
    let devices: Vec<Value> = table("variants-ratios").iter().map(|row| row[0].clone()).collect();
    assert!(devices.contains(&"model:bluefield2, host".into()), "{devices:?}");
    assert!(devices.contains(&"model:bluefield2, peer".into()), "{devices:?}");
    assert_eq!(table("variants-commands").len(), 4, "those of each part");
    call(&["compare".as_ref(), merged.as_os_str()]).with(0, &[]);
    let refused = resume(&merged, &["--trust"]);
    refused.with(4, &["merge"]);
}
