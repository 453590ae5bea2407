//! `niclab compare`: runs side by side, and when a gate closes.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command::{Ended, call, copied, cores, niclab, quick, run, samples, scratch, shared};

/// The regression that a gate stops at.
const REGRESSION: i32 = 8;

fn compare(directories: &[&Path], more: &[&str]) -> Ended {
    let mut command = niclab(&["compare"]);
    command.args(directories).args(more);
    run(command)
}

fn write(directory: &Path, samples: &[Value]) {
    let lines: String = samples.iter().map(|sample| format!("{sample}\n")).collect();
    fs::write(directory.join("samples.jsonl"), lines).unwrap();
}

/// A copy of the shared run as if it had been measured six times, all but alike, on a machine that
/// disturbs nothing, and every sample changed by `change`. Trials under load have known figures:
/// the machine may have taken the time of those that were measured.
pub fn doctored(change: impl Fn(&mut Value)) -> (TempDir, PathBuf) {
    let (scratch, path) = copied();
    let mut all = Vec::new();
    for sample in samples(&path) {
        for repeat in 0..6u64 {
            let mut sample = known(sample.clone());
            (sample["repeat"], sample["order"]) = (repeat.into(), all.len().into());
            sample["marks"] = json!([]);
            // Up and down, so that nothing drifts.
            let factor = 1.0 + [0.0, 2e-3, 1e-3, 3e-3, -1e-3, 1.5e-3][repeat as usize];
            times(&mut sample, |_| true, factor);
            change(&mut sample);
            all.push(sample);
        }
    }
    write(&path, &all);
    (scratch, path)
}

/// The sample, with figures that hang on no machine where it is of a trial under load.
fn known(mut sample: Value) -> Value {
    let trial = sample["trial"].as_str().unwrap();
    if ["saturate", "latency", "light"].contains(&trial) {
        let metric = |value: f64, unit: &str| json!({ "value": value, "unit": unit });
        sample["outcome"] = "measured".into();
        sample["load"] = json!({ "rate": { "pps": 1e6 } });
        sample["metrics"] = json!({
            "throughput_pps": metric(1e7, "pps"),
            "device_ns_per_frame": metric(80.0, "ns"),
            "latency_ns_p50": metric(5e3, "ns"),
            "latency_ns_p99": metric(9e3, "ns"),
        });
        sample.as_object_mut().unwrap().remove("reason");
    }
    sample
}

/// Multiplies the metrics of a sample that `is` names.
fn times(sample: &mut Value, is: impl Fn(&str) -> bool, factor: f64) {
    for (name, metric) in sample["metrics"].as_object_mut().unwrap() {
        if is(name) {
            metric["value"] = (metric["value"].as_f64().unwrap() * factor).into();
        }
    }
}

/// A saturating throughput a fifth lower.
pub fn slower(sample: &mut Value) {
    if sample["trial"] == "saturate" {
        times(sample, |name| name.starts_with("throughput"), 0.8);
    }
}

#[test]
fn two_runs_of_the_same_are_compared_and_what_one_has_alone_is_listed() {
    let (base, _) = shared();
    let scratch = scratch();
    let again = scratch.path().join("again");
    {
        let _cores = cores();
        run(quick(&again, &[])).with(0, &[]);
    }
    let ended = compare(&[base, &again], &[]);
    ended.with(0, &[]);
    for words in ["baseline ", "compared ", "not compared: ", "saturate: throughput_pps"] {
        assert!(ended.out.contains(words), "`{words}` is missing: {ended:?}");
    }
    let out = ended.prose();
    assert!(out.contains("not compared: update-batch "), "{ended:?}");
    assert!(out.contains("(not in the grid of "), "{ended:?}");
}

#[test]
fn a_throughput_a_fifth_lower_closes_the_gate_and_a_wider_tolerance_opens_it() {
    let (_base, base) = doctored(|_| {});
    let (_slow, slow) = doctored(slower);
    for width in [60, 80, 100] {
        let mut command = niclab(&["compare"]);
        command.args([&base, &slow]).env("COLUMNS", width.to_string());
        let ended = run(command);
        ended.with(REGRESSION, &["niclab: regression: ", "worse by more than 5 %"]);
        assert!(width < 80 || ended.out.contains("0.800 (0.79"), "{ended:?}");
        assert!(ended.out.contains("occupancy, saturate: throughput_pps, higher is better"));
        assert!(ended.out.contains("\n\nRatios to the baseline. "), "{ended:?}");
        // A directory is named whole, however long its path.
        let names =
            |line: &str| [&base, &slow].iter().any(|of| line.contains(&of.display().to_string()));
        let is_table = |line: &&str| line.starts_with([' ', '─', '═']) && !names(line);
        for line in ended.out.lines().filter(is_table) {
            assert!(line.chars().count() <= width, "wider than {width}: {line}");
        }
    }
    compare(&[&base, &slow], &["--tolerance", "25%"]).with(0, &[]);
    compare(&[&slow, &base], &[]).with(0, &[]);
    compare(&[&base, &slow], &["--metric", "latency_ns_p50"]).with(0, &[]);
    let all = compare(&[&slow, &base], &["--all"]);
    all.with(0, &[]);
    assert!(all.out.contains(" same ") && all.out.contains(" better "), "{all:?}");
    // Each of several runs is compared with the first one.
    let (_same, same) = doctored(|_| {});
    let ended = compare(&[&base, &same, &slow], &[]);
    ended.with(REGRESSION, &[&slow.display().to_string()]);
    assert!(!ended.err.contains(&same.display().to_string()), "{ended:?}");
}

#[test]
fn values_limited_by_generator_or_machine_fail_no_gate() {
    let (_base, base) = doctored(|_| {});
    for mark in ["generator-limited", "disturbed"] {
        let (_slow, slow) = doctored(|sample| {
            slower(sample);
            sample["marks"] = json!([mark]);
        });
        let ended = compare(&[&base, &slow], &[]);
        ended.with(0, &[]);
        let out = ended.prose();
        assert!(out.contains(mark) && out.contains(": 0 worse"), "{ended:?}");
    }
}

#[test]
fn a_lost_capability_fails_the_gate() {
    let (_base, base) = doctored(|_| {});
    let (_broken, broken) = doctored(|sample| {
        if sample["trial"] == "light" {
            sample["outcome"] = "failed".into();
            sample["reason"] = "it went away".into();
            sample["dropped"] = true.into();
            sample["metrics"] = json!({});
        }
    });
    let ended = compare(&[&base, &broken], &[]);
    ended.with(REGRESSION, &["can no longer be measured"]);
    assert!(ended.prose().contains("lost: occupancy light, "), "{ended:?}");
    assert!(ended.prose().contains("broke: it went away"), "{ended:?}");
    compare(&[&broken, &base], &[]).with(0, &[]);
}

/// Longest comment that GitHub takes, characters.
const COMMENT_LEN_MAX: usize = 65_536;

#[test]
fn a_comment_has_the_worst_points_first_and_folds_the_rest() {
    let (_base, base) = doctored(|_| {});
    let (_slow, slow) = doctored(slower);
    let ended = compare(&[&base, &slow], &["--github"]);
    ended.with(REGRESSION, &["niclab: regression: "]);
    let comment = &ended.out;
    assert!(comment.starts_with("### niclab compare: regression\n"), "{comment}");
    assert!(comment.contains(" better, ") && comment.contains(" same within 5 %, "), "{comment}");
    let (shown, folded) = comment.split_once("<details>").unwrap();
    let rows = |text: &str| -> Vec<String> {
        let rows = text.lines().filter(|line| line.starts_with("| `") || line.starts_with("| <"));
        rows.map(str::to_owned).collect()
    };
    assert!(!rows(shown).is_empty() && !rows(folded).is_empty(), "{comment}");
    for row in rows(shown) {
        assert!(row.contains(" saturate: throughput_pps` at `"), "{row}");
        assert!(row.contains(" | 0.800 [0.79") && row.ends_with(" | **worse** |"), "{row}");
    }
    for row in rows(comment) {
        assert_eq!(row.matches('|').count(), 6, "{row}");
    }
    assert_eq!(comment.matches("<details>").count(), comment.matches("</details>").count());
    let ended = compare(&[&slow, &base], &["--github"]);
    ended.with(0, &[]);
    assert!(ended.out.starts_with("### niclab compare: no regression\n"), "{ended:?}");
    assert!(ended.out.contains(" | better |\n"), "{ended:?}");
    compare(&[&base, &slow], &["--github", "--json"]).with(2, &["cannot be used with"]);
}

#[test]
fn a_comment_names_what_broke_and_no_reason_of_a_device_becomes_markup() {
    const REASON: &str =
        "it went away, @everyone: <img src=x> | see #1 and https://example.org `x`";
    let (_base, base) = doctored(|_| {});
    let (_broken, broken) = doctored(|sample| {
        if sample["trial"] == "light" {
            sample["outcome"] = "failed".into();
            sample["reason"] = REASON.into();
            sample["dropped"] = true.into();
            sample["metrics"] = json!({});
        }
    });
    let ended = compare(&[&base, &broken], &["--github"]);
    ended.with(REGRESSION, &["can no longer be measured"]);
    let line = ended.out.lines().find(|line| line.contains("it went away")).unwrap();
    assert!(line.starts_with("- occupancy light, "), "{line}");
    assert!(line.contains("`@everyone`: <code>&#60;img</code>"), "{line}");
    assert!(line.contains("`#1`") && line.contains("`https://example.org`"), "{line}");
    assert!(!line.contains("<img") && !line.contains(" | "), "{line}");
}

#[test]
fn a_comment_of_many_points_fits() {
    let many = |factor: f64| {
        let (scratch, path) = doctored(|_| {});
        let mut all = Vec::new();
        let is_throughput = |s: &Value| s["trial"] == "saturate" && s["point"]["rules"] == 0.0;
        for mut sample in samples(&path).into_iter().filter(is_throughput) {
            for name in ["counters", "honesty", "slices", "latency_tag"] {
                sample.as_object_mut().unwrap().remove(name);
            }
            times(&mut sample, |_| true, factor);
            for place in 0..120 {
                sample["point"]["rules"] = format!("{place}-{}", "long-".repeat(80)).into();
                sample["order"] = all.len().into();
                all.push(sample.clone());
            }
        }
        write(&path, &all);
        (scratch, path)
    };
    let ((_base, base), (_slow, slow)) = (many(1.0), many(0.5));
    let ended = compare(&[&base, &slow], &["--github"]);
    ended.with(REGRESSION, &[]);
    let len = ended.out.chars().count();
    assert!(len <= COMMENT_LEN_MAX && len > COMMENT_LEN_MAX / 2, "{len}");
    assert!(ended.out.contains("| … and ") && ended.out.contains(" more | | | | |\n"));
}

/// The run of [`doctored`] with a second device, slower than the first.
fn with_twin() -> (TempDir, PathBuf) {
    let (scratch, path) = doctored(|_| {});
    let file = path.join("run.toml");
    let text = fs::read_to_string(&file).unwrap();
    let (from, to) = (text.find("[[devices]]").unwrap(), text.find("[[experiments]]").unwrap());
    let twin = text[from..to].replace("name = \"soft\"", "name = \"twin\"");
    fs::write(file, format!("{}{twin}{}", &text[..to], &text[to..])).unwrap();
    let mut all = samples(&path);
    for mut sample in all.clone() {
        sample["device"] = "twin".into();
        slower(&mut sample);
        all.push(sample);
    }
    write(&path, &all);
    (scratch, path)
}

#[test]
fn devices_of_one_run_are_compared_and_one_that_stands_alone_is_reported() {
    let (_both, both) = with_twin();
    let ended = compare(&[&both], &[]);
    ended.with(REGRESSION, &["regression: twin: "]);
    assert!(ended.out.starts_with("baseline soft: ") && ended.out.contains("\ncompared twin: "));
    let (_base, base) = doctored(|_| {});
    let ended = compare(&[&both, &base], &[]);
    ended.with(0, &[]);
    let out = ended.prose();
    assert!(
        out.contains("not compared: twin of ") && out.contains(" has not measured it"),
        "{out}"
    );
}

#[test]
fn machines_that_differ_are_told_once_each() {
    let (_base, base) = doctored(|_| {});
    let (_other, other) = doctored(|_| {});
    let (_third, third) = doctored(|_| {});
    for path in [&other, &third] {
        let file = path.join("environment.json");
        let mut machine: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        for fact in machine["facts"].as_array_mut().unwrap() {
            if fact[0] == "kernel" || fact[0] == "load average" {
                fact[1] = "Plan 9".into();
            }
        }
        fs::write(file, machine.to_string()).unwrap();
    }
    let ended = compare(&[&base, &other, &third], &[]);
    ended.with(0, &[]);
    let warnings: Vec<&str> =
        ended.out.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 1, "{ended:?}");
    assert!(warnings[0].starts_with("warning: kernel: "), "{ended:?}");
    assert!(ended.prose().contains("against Plan 9"), "{ended:?}");
}

#[test]
fn incomparable_results_are_refused_with_the_reason() {
    let (base, _) = shared();
    let scratch = scratch();
    let none = scratch.path().join("none");
    compare(&[base, &none], &[]).with(4, &["none does not exist"]);
    compare(&[base, scratch.path()], &[]).with(4, &["is not a result directory"]);
    compare(&[base, base], &[]).with(3, &["is named twice"]);
    compare(&[base], &[]).with(4, &["has one device, soft", "give a second directory"]);
    let (_empty, empty) = copied();
    fs::write(empty.join("samples.jsonl"), "").unwrap();
    compare(&[base, &empty], &[]).with(4, &["no finished measurement", "run --resume"]);
    let (_newer, newer) = copied();
    let text = fs::read_to_string(newer.join("run.toml")).unwrap();
    fs::write(newer.join("run.toml"), text.replacen("schema = 1", "schema = 999", 1)).unwrap();
    compare(&[base, &newer], &[]).with(4, &["schema 999", "reads 1"]);
    let (_apart, apart) = doctored(|sample| {
        for (_, at) in sample["point"].as_object_mut().unwrap() {
            *at = at.as_f64().map_or(json!("elsewhere"), |at| (at + 7.0).into());
        }
    });
    let phrases = ["nothing in common", "occupancy saturate: ", "rules=0,16", "rules=7,23"];
    compare(&[base, &apart], &[]).with(4, &phrases);
    compare(&[base, &newer], &["--tolerance", "5"]).with(2, &["such as 5%"]);
    compare(&[base, &apart], &["--metric", "speed"])
        .with(2, &["--metric speed: choose one of ", "throughput_pps", "knee_rules"]);
    call(&["compare"]).with(2, &["<DIR>"]);
}
