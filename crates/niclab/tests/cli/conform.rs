//! `niclab conform`: the matrix, the directory, and input that cannot be used.

use std::fs;

use niclab_result::conform::{CellState, ConformDocument};
use serde_json::Value;

use crate::command::{call, niclab, run, scratch};

/// The regression that a gate stops at.
const REGRESSION: i32 = 8;

#[test]
fn the_software_card_does_what_its_rules_say() {
    let place = scratch();
    let path = place.path().join("soft");
    let mut command = niclab(&["conform", "--items", "eth,ipv4,udp", "-o"]);
    command.arg(&path).env("COLUMNS", "80");
    let ended = run(command);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    for line in ended.out.lines() {
        assert!(line.chars().count() <= 80, "wider than 80 columns: {line}");
    }
    for words in ["items by masks", "by actions", "udp", "random combinations", "limits", ". right"]
    {
        assert!(ended.out.contains(words), "`{words}` is missing: {}", ended.out);
    }
    assert!(ended.err.contains("report.html"), "{}", ended.err);
    let document = ConformDocument::read(&path).unwrap().unwrap();
    let [device] = &document.devices[..] else { panic!("{document:?}") };
    assert_eq!((&device.device[..], device.count(CellState::Wrong)), ("soft", 0));
    assert!(fs::read_to_string(path.join("report.html")).unwrap().contains("soft"));
    let mut shown = niclab(&["show"]);
    shown.arg(&path).env("COLUMNS", "80");
    assert_eq!(run(shown).out, ended.out);
    fs::remove_file(path.join("report.html")).unwrap();
    let written = call(&[std::ffi::OsStr::new("report"), path.as_os_str()]);
    assert_eq!(written.code, Some(0), "{}", written.err);
    assert!(fs::read_to_string(path.join("report.html")).unwrap().contains("soft"));
    let mut again = niclab(&["conform", "-o"]);
    again.arg(&path);
    let taken = run(again);
    assert_eq!(taken.code, Some(4), "{}", taken.err);
}

#[test]
fn json_is_the_document() {
    let ended = call(&["conform", "--items", "udp", "--seed", "7", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&document["schema"], &document["seed"]), (&1.into(), &7.into()));
    assert_eq!(document["devices"][0]["cells"][0]["state"], "right");
}

#[test]
fn a_device_without_rules_says_so() {
    let ended = call(&["conform", "--device", "model:connectx-5"]);
    assert_eq!(ended.code, Some(6), "{}", ended.err);
    assert_eq!(ended.out, "model:connectx-5: not supported: rules frame by frame\n");
}

#[test]
fn a_device_that_cannot_be_tried_any_more_is_a_regression() {
    let place = scratch();
    let [before, after] = ["before", "after"].map(|name| place.path().join(name));
    let mut command = niclab(&["conform", "--items", "udp", "-o"]);
    command.arg(&before);
    assert_eq!(run(command).code, Some(0));
    let mut command = niclab(&["conform", "--device", "model:connectx-5", "-o"]);
    command.arg(&after);
    assert_eq!(run(command).code, Some(6));
    let mut command = niclab(&["compare"]);
    command.args([&before, &after]);
    let ended = run(command);
    assert_eq!(ended.code, Some(REGRESSION), "{}", ended.err);
    let line = "worse: not tried any more: not supported: rules frame by frame";
    assert!(ended.out.contains(line), "{}", ended.out);
}

#[test]
fn a_place_that_cannot_be_made_is_named_with_the_remedy() {
    let ended = call(&["conform", "--items", "udp", "-o", "/proc/niclab"]);
    assert_eq!(ended.code, Some(4), "{}", ended.err);
    assert!(ended.err.contains("/proc/niclab"), "{}", ended.err);
    assert!(!ended.err.contains("that a run printed"), "{}", ended.err);
}

#[test]
fn compare_says_how_results_differ_beside_their_cells() {
    let place = scratch();
    let [before, after] = ["before", "after"].map(|name| place.path().join(name));
    for (path, items, seed) in [(&before, "udp,tcp", "1"), (&after, "udp", "2")] {
        let mut command = niclab(&["conform", "--items", items, "--seed", seed, "-o"]);
        command.arg(path);
        assert_eq!(run(command).code, Some(0));
    }
    let compare = |more: &[&str]| {
        let mut command = niclab(&["compare"]);
        command.args([&before, &after]).args(more).env("COLUMNS", "200");
        run(command)
    };
    let other = compare(&[]);
    assert_eq!(other.code, Some(0), "{}", other.err);
    for line in ["seeds 1 and 2: other rules and frames", "only the baseline has tcp\n"] {
        assert!(other.out.contains(line), "{}", other.out);
    }
    assert!(other.out.contains("0 worse, 0 other changes"), "{}", other.out);
    for option in [&["--github"][..], &["--metric", "pps"]] {
        let refused = compare(option);
        assert_eq!(refused.code, Some(2), "{}", refused.err);
        assert!(refused.err.contains(option[0]), "{}", refused.err);
    }
    // A driver that has fewer priorities, and then fails.
    let mut document = ConformDocument::read(&before).unwrap().unwrap();
    let device = &mut document.devices[0];
    let limit = device.limits.iter_mut().find(|limit| limit.name == "priority").unwrap();
    limit.value = Some(7);
    device.failed = Some("soft failed: it is gone".to_owned());
    let worse = place.path().join("worse");
    ConformDocument::make_place(&worse).unwrap();
    document.write(&worse, "").unwrap();
    let mut command = niclab(&["compare"]);
    command.args([&before, &worse]).env("COLUMNS", "200");
    let ended = run(command);
    assert_eq!(ended.code, Some(REGRESSION), "{}", ended.err);
    for line in ["worse: limit of priority: 65535 -> 7", "worse: the device failed; cells behind"] {
        assert!(ended.out.contains(line), "{}", ended.out);
    }
    let line = "1 limit is lower; then it failed: soft failed: it is gone";
    assert!(ended.err.contains(line), "{}", ended.err);
}

#[test]
fn unknown_items_and_devices_are_refused() {
    let ended = call(&["conform", "--items", "ipv5"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(
        ended.err.contains("'ipv5'") && ended.err.contains("choose of eth, vlan"),
        "{}",
        ended.err
    );
    let ended = call(&["conform", "--device", "sfot"]);
    assert_eq!(ended.code, Some(5), "{}", ended.err);
    assert!(ended.err.contains("did you mean `soft`?"), "{}", ended.err);
    let ended = call(&["conform", "--device", "soft", "--device", "soft"]);
    assert_eq!(ended.code, Some(3), "{}", ended.err);
}

#[test]
fn compare_lists_the_cells_that_changed_and_stops_at_worse_ones() {
    let place = scratch();
    let [before, after] = ["before", "after"].map(|name| place.path().join(name));
    let mut command = niclab(&["conform", "--items", "udp", "-o"]);
    command.arg(&before);
    assert_eq!(run(command).code, Some(0));
    let mut document = ConformDocument::read(&before).unwrap().unwrap();
    let cell = document.devices[0].cells.iter_mut().find(|cell| cell.column == "bits").unwrap();
    (cell.state, cell.words) = (CellState::Wrong, Some("ignores the mask of udp src".to_owned()));
    ConformDocument::make_place(&after).unwrap();
    document.write(&after, "").unwrap();
    let compare = |one: &std::path::Path, two: &std::path::Path, more: &[&str]| {
        let mut command = niclab(&["compare"]);
        command.args([one, two]).args(more);
        run(command)
    };
    let worse = compare(&before, &after, &[]);
    assert_eq!(worse.code, Some(REGRESSION), "{}", worse.err);
    let line = "worse: udp/bits: right -> accepted and wrong: ignores the mask of udp src";
    assert!(worse.out.contains(line), "{}", worse.out);
    assert!(worse.err.contains("1 cell is worse, 1 of them accepted and wrong"), "{}", worse.err);
    let better = compare(&after, &before, &[]);
    assert_eq!(better.code, Some(0), "{}", better.err);
    assert!(better.out.contains("0 worse, 1 other changes"), "{}", better.out);
    let json = compare(&before, &after, &["--json"]);
    let document: Value = serde_json::from_str(&json.out).unwrap();
    let change = &document["pairs"][0]["changes"][0];
    assert_eq!((&change["before"], &change["after"]), (&"right".into(), &"wrong".into()));
    // A directory of another kind has nothing in common with it.
    let other = compare(&before, place.path(), &[]);
    assert_eq!(other.code, Some(4), "{}", other.err);
}
