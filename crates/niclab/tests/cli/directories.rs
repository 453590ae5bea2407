//! Result directories that cannot be used, or were spoilt.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::command::{call, copied, cores, quick, run, samples, scratch, shared};

/// `show`, `report` and `run --resume` of a directory, and its export.
fn readers(path: &Path) -> [Vec<&str>; 4] {
    let path = path.to_str().unwrap();
    [
        vec!["show", path],
        vec!["report", path],
        vec!["run", "--resume", path],
        vec!["export", path, "--csv"],
    ]
}

#[test]
fn a_directory_that_exists_is_left_as_it_is() {
    let (path, _) = shared();
    let before = fs::read(path.join("run.toml")).unwrap();
    run(quick(path, &[])).with(4, &["exists already", "choose another directory", "--resume"]);
    assert_eq!(fs::read(path.join("run.toml")).unwrap(), before);
    let empty = scratch();
    let ended = run(quick(empty.path(), &[]));
    ended.with(4, &["exists already and is not a result directory", "choose another directory"]);
    assert!(!ended.err.contains("--resume"), "{ended:?}");
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
}

#[test]
fn a_place_that_is_read_only_is_named() {
    // Not even root may make a directory here.
    let path = Path::new("/sys/niclab/run");
    if !Path::new("/sys").is_dir() {
        println!("SKIP a_place_that_is_read_only_is_named: there is no /sys");
        return;
    }
    run(quick(path, &[])).with(4, &["/sys/niclab", "read-only", "choose a writable directory"]);
}

#[test]
fn a_run_alone_in_a_directory_is_measured() {
    let (_kept, whole) = copied();
    let scratch = scratch();
    let path = scratch.path().join("again");
    fs::create_dir(&path).unwrap();
    fs::copy(whole.join("run.toml"), path.join("run.toml")).unwrap();
    let _cores = cores();
    call(&["run", "--resume", path.to_str().unwrap()])
        .with(0, &["occupancy, update-batch on soft"]);
    assert_eq!(samples(&path).len(), samples(&whole).len());
    assert!(path.join("report.html").is_file() && path.join("environment.json").is_file());
}

#[test]
fn a_directory_without_a_result_and_a_missing_one_have_their_errors() {
    let scratch = scratch();
    for arguments in readers(scratch.path()) {
        call(&arguments).with(4, &["is not a result directory"]);
    }
    for arguments in readers(&scratch.path().join("none")) {
        call(&arguments).with(4, &["none does not exist"]);
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn a_directory_of_a_newer_schema_is_refused_and_kept() {
    let (_scratch, path) = copied();
    for name in ["run.toml", "samples.jsonl"] {
        let text = fs::read_to_string(path.join(name)).unwrap();
        let newer = text.replace("schema = 1\n", "schema = 999\n");
        let newer = newer.replace("{\"schema\":1,", "{\"schema\":999,");
        assert_ne!(text, newer, "{name} has no schema 1");
        fs::write(path.join(name), newer).unwrap();
    }
    let before = fs::read(path.join("samples.jsonl")).unwrap();
    for arguments in readers(&path) {
        call(&arguments).with(4, &["schema 999", "reads 1", "or newer"]);
    }
    assert_eq!(fs::read(path.join("samples.jsonl")).unwrap(), before);
}

#[test]
fn a_damaged_line_is_named_and_a_damaged_run_too() {
    let (_scratch, path) = copied();
    let text = fs::read_to_string(path.join("samples.jsonl")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[1] = "{\"schema\":1,\"order\":}";
    fs::write(path.join("samples.jsonl"), lines.join("\n") + "\n").unwrap();
    for arguments in readers(&path) {
        call(&arguments).with(4, &["samples.jsonl, line 2"]);
    }
    fs::write(path.join("run.toml"), "schema = 1\nseed = = 1\n").unwrap();
    for arguments in &readers(&path)[..3] {
        call(arguments).with(4, &["run.toml, line 2"]);
    }
}

#[test]
fn a_torn_last_line_is_left_out_by_every_reader() {
    let (_scratch, path) = copied();
    let whole = samples(&path).len();
    let log = path.join("samples.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.trim_end().strip_suffix('}').unwrap()).unwrap();
    let torn = fs::read(&log).unwrap();
    let left_out = format!(
        "samples.jsonl, line {whole}: torn, as a killed run leaves it or a running one writes it: \
         left out"
    );
    let [show, report, resume, export] = readers(&path);
    let exported = call(&export);
    exported.with(0, &[&left_out]);
    assert_eq!(exported.out.lines().count(), whole);
    call(&show).with(0, &[&left_out]);
    call(&report).with(0, &[&left_out]);
    assert_eq!(fs::read(&log).unwrap(), torn, "a reader mended it");
    let _cores = cores();
    call(&resume).with(0, &["samples.jsonl: cut off a torn last line of"]);
    assert!(samples(&path).len() >= whole);
}

#[test]
fn histograms_that_are_missing_are_said_once() {
    let (_scratch, path) = copied();
    let log = path.join("latency.hlog");
    let [show, report, resume, _] = readers(&path);
    call(&show).with(0, &[]);
    let _cores = cores();
    for is_empty in [false, true] {
        for reader in [&show, &report, &resume] {
            match is_empty {
                true => fs::write(&log, "").unwrap(),
                false => drop(fs::remove_file(&log)),
            }
            // One that failed on a busy machine is measured again by the resumed run.
            let tagged = samples(&path).iter().filter(|one| one["latency_tag"].is_string()).count();
            assert!(tagged > 1, "{tagged}");
            let ended = call(reader);
            ended.with(
                0,
                &[
                    &format!("{tagged} samples name a histogram that latency.hlog does not have"),
                    "their latency is left out",
                ],
            );
            assert_eq!(ended.err.matches("name a histogram").count(), 1, "{ended:?}");
        }
    }
}

#[test]
fn the_later_of_two_lines_of_one_measurement_is_exported() {
    let (_scratch, path) = copied();
    let [.., export] = readers(&path);
    let before = call(&export).out;
    let log = path.join("samples.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, format!("{text}{}\n", text.lines().next().unwrap())).unwrap();
    let after = call(&export).out;
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&before), sorted(&after));
}

#[test]
fn a_run_that_is_no_run_is_a_fault_of_its_directory() {
    let (_scratch, path) = copied();
    for (text, message) in [("", "run.toml is empty"), ("schema = 1\n", "missing field")] {
        fs::write(path.join("run.toml"), text).unwrap();
        for reader in &readers(&path)[..3] {
            let ended = call(reader);
            ended.with(4, &[message, "restore the file", path.to_str().unwrap()]);
            assert!(!ended.err.contains("new run"), "{ended:?}");
        }
    }
}

#[test]
fn an_obstacle_to_a_report_is_named() {
    let (_scratch, path) = copied();
    let report = &readers(&path)[1];
    for number in 0..1_000 {
        fs::write(path.join(format!(".summary.json.part{number}")), "").unwrap();
    }
    call(report).with(4, &["remove the files", ".summary.json.part*"]);
    fs::remove_file(path.join(".summary.json.part0")).unwrap();
    fs::remove_file(path.join("summary.json")).unwrap();
    fs::create_dir(path.join("summary.json")).unwrap();
    let ended = call(report);
    ended.with(4, &["summary.json is a directory: remove it"]);
    assert!(!ended.err.contains("--resume"), "{ended:?}");
}

#[test]
fn rights_that_are_missing_are_named_as_they_are() {
    if !crate::socket::has_others("rights_that_are_missing_are_named_as_they_are") {
        return;
    }
    let (scratch, path) = copied();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(scratch.path(), 0o755);
    let other = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=64917", "--regid=64917", "--clear-groups"]);
        run({
            command.arg(env!("CARGO_BIN_EXE_niclab")).args(arguments);
            command
        })
    };
    let [show, report, resume, export] = readers(&path);
    for reader in [&report, &resume] {
        let ended = other(reader);
        ended.with(4, &["is read-only for this user: make it writable, or copy it"]);
        assert!(!ended.err.contains(" -o"), "{ended:?}");
    }
    mode(&path.join("samples.jsonl"), 0o000);
    for reader in [&show, &export] {
        let ended = other(reader);
        ended.with(4, &["samples.jsonl may not be read by this user: it is owned by root"]);
        assert!(!ended.err.contains(" -o"), "{ended:?}");
    }
}
