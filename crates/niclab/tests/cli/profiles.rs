//! `niclab profile`, and modelled cards where devices are named.

use std::fs;
use std::path::{Path, PathBuf};

use niclab_device::model::{names, schema::SECTIONS};

use crate::command::{call, cores, niclab, run, samples, scratch, wants_long};

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the project, as text.
fn text_of(file: &str) -> String {
    let path = project().join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A profile with a slip, and the line of it.
fn spoilt(path: &Path) -> usize {
    let text = text_of("profiles/connectx-5.toml").replacen("value = 274", "value = -274", 1);
    fs::write(path, &text).unwrap();
    1 + text.lines().position(|line| line.contains("-274")).unwrap()
}

#[test]
fn profiles_are_checked_and_it_is_said_what_is_known_of_each_card() {
    let all: Vec<&str> = names().collect();
    let ended = call(&[&["profile", "check"], &all[..]].concat());
    ended.with(0, &[]);
    assert_eq!(ended.out.lines().count(), all.len(), "{ended:?}");
    for (name, line) in all.iter().zip(ended.out.lines()) {
        assert!(line.starts_with(&format!("{name}: ")), "{line}");
        assert!(line.contains(" numbers"), "{line}");
    }
    assert!(ended.out.contains("xl710: XL710, 40 GbE: 2 numbers; unknown: "), "{ended:?}");
    assert!(ended.out.contains("port.frame_rate_max"), "{ended:?}");
    // Each file of the directory is one of them, and no name is without its file.
    let mut files: Vec<String> = fs::read_dir(project().join("profiles"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
        .collect();
    files.sort();
    assert_eq!(files, all);
}

#[test]
fn a_slip_in_a_profile_is_reported_with_its_file_line_and_key() {
    let scratch = scratch();
    let path = scratch.path().join("bad.toml");
    let line = spoilt(&path);
    let file = path.to_str().unwrap();
    let message = format!("bad.toml:{line}: port.fifo_frames: -274: use 1 to 1000000000 frames");
    let ended = call(&["profile", "check", "connectx-6", file]);
    ended.with(3, &[&message]);
    assert!(ended.out.starts_with("connectx-6: "), "what came before it was checked: {ended:?}");
    call(&["profile", "show", file]).with(0, &[]);
    let device = format!("model:{file}");
    call(&["run", "occupancy", "--device", &device]).with(5, &[&message]);
    fs::write(&path, "title = \"A card\"\nsource = \n").unwrap();
    call(&["profile", "check", file]).with(3, &["bad.toml:2: profile: "]);
    fs::write(&path, "").unwrap();
    call(&["profile", "check", file]).with(3, &["bad.toml:1: title: missing; give a text"]);
}

#[test]
fn an_unknown_profile_names_those_there_are() {
    let all = names().collect::<Vec<_>>().join(", ");
    let known = format!("give a file, or one of {all}");
    for command in ["check", "show"] {
        call(&["profile", command, "nosuch"]).with(3, &["profile `nosuch`: ", &known]);
    }
    let scratch = scratch();
    let refused = |device: &str, phrases: &[&str]| {
        let mut command = niclab(&["run", "occupancy", "--device", device]);
        command.current_dir(scratch.path());
        run(command).with(5, &[&["device `model:"], phrases].concat());
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "{device} left something");
    };
    refused("model:nosuch", &["nosuch", &known]);
    refused("model:", &["say which: model:NAME of", &all, "model:FILE.toml"]);
    refused("model:none.toml", &["none.toml", "No such file", &known]);
    call(&["profile", "check"]).with(2, &["<PROFILE>"]);
}

#[test]
fn a_profile_is_shown_as_it_is_written() {
    for name in names() {
        let shown = call(&["profile", "show", name]);
        shown.with(0, &[]);
        assert_eq!(shown.out, text_of(&format!("profiles/{name}.toml")), "{name}");
    }
    let scratch = scratch();
    let path = scratch.path().join("mine.toml");
    let text = "# nothing of a profile\r\n\n  a = 1";
    fs::write(&path, text).unwrap();
    let shown = call(&["profile", "show", path.to_str().unwrap()]);
    shown.with(0, &[]);
    assert_eq!(shown.out, text);
}

#[test]
fn keys_are_listed_with_sections_units_and_ranges() {
    let ended = call(&["profile", "keys"]);
    ended.with(0, &[]);
    for section in SECTIONS {
        let head = format!("[{}]  {}", section.name, section.text);
        let line = ended.out.lines().find(|line| line.starts_with(&head));
        let line = line.unwrap_or_else(|| panic!("{head} is missing: {}", ended.out));
        assert_eq!(line.contains("may be \"none\""), section.may_lack, "{line}");
        for key in section.keys {
            let has = |line: &str| {
                line.trim_start().starts_with(key.name)
                    && line.contains(key.unit)
                    && line.ends_with(key.text)
            };
            assert!(ended.out.lines().any(has), "{} is missing: {}", key.name, ended.out);
        }
    }
}

#[test]
fn profiles_are_fitted_to_what_was_published() {
    for (card, name) in
        [("bf1", "bluefield"), ("cx4", "connectx-4"), ("cx5", "connectx-5"), ("cx6", "connectx-6")]
    {
        let ended = call(&["profile", "fit", &format!("published:{card}")]);
        ended.with(0, &[]);
        assert!(ended.out == text_of(&format!("profiles/{name}.toml")), "{name}: {}", ended.out);
    }
    call(&["profile", "fit", "published:cx9"])
        .with(3, &["no published card `cx9`", "bf1, cx4, cx5, cx6"]);
    call(&["profile", "fit", "/no/such/run"]).with(4, &["/no/such/run"]);
}

/// A run of little on modelled cards, into `directory`.
fn measured(directory: &Path, experiment: &str, devices: &[&str], set: &[&str]) {
    let mut command = niclab(&["run", experiment, "--repeats", "1"]);
    for device in devices {
        command.args(["--device", device]);
    }
    for set in set {
        command.args(["--set", set]);
    }
    run(command_into(command, directory)).with(0, &["results: "]);
}

fn command_into(mut command: std::process::Command, directory: &Path) -> std::process::Command {
    command.arg("-o").arg(directory);
    command
}

#[test]
fn a_profile_is_fitted_to_what_was_measured_and_can_be_measured_itself() {
    let _cores = cores();
    let scratch = scratch();
    let path = scratch.path().join("run");
    let set = ["groups=0", "rules=1,16k,56k,60k", "frame=1500", "duration_ms=5"];
    measured(&path, "occupancy", &["model:connectx-5", "model:connectx-6"], &set);
    let directory = path.to_str().unwrap();
    let fit = |device: &[&str]| call(&[&["profile", "fit", directory], device].concat());
    let there = "there are model:connectx-5, model:connectx-6";
    fit(&[]).with(3, &["say which with --device", there]);
    fit(&["--device", "soft"]).with(3, &["soft: not in ", there]);
    let fitted = fit(&["--device", "model:connectx-5"]);
    fitted.with(0, &[]);
    let file = scratch.path().join("fitted.toml");
    let name = file.to_str().unwrap();
    fit(&["--device", "soft", "-o", name]).with(3, &["soft: not in "]);
    assert!(!file.exists(), "a fit that fails leaves no file");
    let written = fit(&["--device", "model:connectx-5", "-o", name]);
    written.with(0, &[]);
    assert_eq!((written.out.as_str(), fs::read_to_string(&file).unwrap()), ("", fitted.out));
    fit(&["--device", "model:connectx-5", "-o", name])
        .with(4, &["fitted.toml exists already: choose another file with -o"]);
    let nowhere = scratch.path().join("no/fitted.toml");
    fit(&["--device", "model:connectx-5", "-o", nowhere.to_str().unwrap()])
        .with(4, &["no/fitted.toml cannot be written", "mkdir -p"]);
    let all = fs::read_dir(scratch.path()).unwrap().count();
    assert_eq!(all, 2, "the run and the profile");
    let checked = call(&["profile", "check", name]);
    checked.with(0, &[]);
    assert!(checked.out.contains("model:connectx-5: ") && checked.out.contains("group_rules"));
    let device = format!("model:{name}");
    let again = scratch.path().join("again");
    measured(&again, "occupancy", &[&device], &["groups=0", "rules=56k", "frame=1500"]);
    // Beside so many rules, the card it was fitted to takes 245 ns a frame.
    let throughput: Vec<f64> = samples(&again)
        .iter()
        .filter(|sample| sample["trial"] == "saturate")
        .filter_map(|sample| sample["metrics"]["throughput_pps"]["value"].as_f64())
        .collect();
    let near = |pps: &f64| (pps * 245.5e-9 - 1.0).abs() < 0.02;
    assert!(!throughput.is_empty() && throughput.iter().all(near), "{throughput:?}");
    // Nothing of group 0 at full load was measured.
    let other = scratch.path().join("other");
    measured(&other, "rule-rate", &["model:connectx-5"], &["rules=16", "per_s=10k"]);
    call(&["profile", "fit", other.to_str().unwrap()])
        .with(3, &["no throughput over the rules of group 0", "niclab run occupancy"]);
}

#[test]
fn unknown_figures_of_a_modelled_card_are_left_out_of_a_run() {
    let _cores = cores();
    let scratch = scratch();
    let path = scratch.path().join("run");
    let set = ["group=1", "rules=1k", "traffic=none"];
    measured(&path, "rule-update", &["model:connectx-5"], &set);
    let html = fs::read_to_string(path.join("report.html")).unwrap();
    assert!(html.contains("ConnectX-5, 100 GbE") && html.contains("not measured"));
    let all = samples(&path);
    let of = |outcome: &str| {
        let is_it = |sample: &&serde_json::Value| {
            let output = &sample["outcome"];
            output == outcome || output.get(outcome).is_some()
        };
        all.iter().filter(is_it).count()
    };
    assert!(of("measured") >= 2, "{all:?}");
    assert!(of("not_supported") >= 2, "transactions and what rules match: {all:?}");
    assert_eq!(of("failed"), 0, "{all:?}");
    // A second run says the same: all that is random comes from the names.
    let again = scratch.path().join("again");
    measured(&again, "rule-update", &["model:connectx-5"], &set);
    let metrics = |path: &Path| -> Vec<serde_json::Value> {
        samples(path).iter().map(|sample| sample["metrics"].clone()).collect()
    };
    assert_eq!(metrics(&path), metrics(&again));
}

#[test]
fn the_page_of_the_book_is_what_validate_prints() {
    if !wants_long("the_page_of_the_book_is_what_validate_prints") {
        return;
    }
    let _cores = cores();
    let ended = call(&["profile", "validate"]);
    ended.with(0, &[]);
    assert!(
        ended.out == text_of("docs/validation.md"),
        "docs/validation.md is another: run `niclab profile validate > docs/validation.md`; \
         it prints\n{}",
        ended.out
    );
}
