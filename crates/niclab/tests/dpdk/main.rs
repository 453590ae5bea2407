//! The built command on `dpdk:--vdev=net_niclab0`: a DPDK port whose answers are known, because its
//! card is niclab's own. Each experiment with rules or queues runs on it, and what it says agrees
//! with what `soft` says.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const PORT: &str = "dpdk:--vdev=net_niclab0";

/// What two cores cannot do, and what rte_flow has no calls for.
const LACKING: [&str; 5] = [
    "a core beside the tester's",
    "cores beside the tester's",
    "transactions of rules (rte_flow has none)",
    "changes in place of what rules match (rte_flow has none)",
    "128 queues",
];

/// The tests keep two cores busy: one at a time. `None`, and the reason, where the driver cannot be
/// built.
fn alone(test: &str) -> Option<MutexGuard<'static, ()>> {
    static CORES: Mutex<()> = Mutex::new(());
    let guard = CORES.lock().unwrap_or_else(PoisonError::into_inner);
    let target = Path::new(env!("CARGO_BIN_EXE_niclab")).parent().unwrap().parent().unwrap();
    if target.join("dpdk-driver/librte_net_niclab.so").is_file() {
        return Some(guard);
    }
    let deps = std::env::current_exe().unwrap();
    let library = deps.parent().unwrap().join("libniclab.a");
    if !library.is_file() {
        println!("SKIP {test}: no libniclab.a beside the test: cargo build -p niclab-capi");
        return None;
    }
    let mut build = Command::new("dpdk/driver/build");
    build.current_dir(ROOT).env("NICLAB_LIBRARY", library).env("CARGO_TARGET_DIR", target);
    let built = build.output().unwrap();
    if built.status.success() {
        return Some(guard);
    }
    let said = String::from_utf8_lossy(&built.stderr).into_owned();
    println!("SKIP {test}: {}", said.lines().last().unwrap_or("no driver"));
    None
}

/// The samples of a run with one repeat.
fn run(device: &str, arguments: &[&str]) -> Vec<Value> {
    let place = tempfile::tempdir().unwrap();
    let results: PathBuf = place.path().join("results");
    let mut niclab = Command::new(env!("CARGO_BIN_EXE_niclab"));
    niclab.arg("run").args(arguments).args(["--device", device, "--repeats", "1", "-o"]);
    let ended = niclab.arg(&results).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    let samples = fs::read_to_string(results.join("samples.jsonl"));
    let samples = samples.unwrap_or_else(|error| panic!("{error}: {said}"));
    samples.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text<'a>(sample: &'a Value, field: &str) -> &'a str {
    sample[field].as_str().unwrap_or_default()
}

fn metric(sample: &Value, name: &str) -> Option<f64> {
    sample["metrics"][name]["value"].as_f64()
}

/// Every sample was measured or lacks something that nobody has here, and counters add up.
#[track_caller]
fn check(samples: &[Value]) {
    assert!(samples.iter().any(|sample| sample["outcome"] == "measured"), "{samples:?}");
    for sample in samples {
        let capability = text(sample, "capability");
        let is_lacking = LACKING.iter().any(|lacking| capability.contains(lacking));
        // A busy machine leaves no frame in a short trial.
        let is_busy = text(sample, "reason").starts_with("no frame was due");
        assert!(sample["outcome"] == "measured" || is_lacking || is_busy, "{sample}");
        let marks = sample["marks"].as_array().unwrap();
        assert!(!marks.contains(&"unbalanced".into()), "{sample}");
        for proof in sample["counters"]["proofs"].as_array().into_iter().flatten() {
            assert!(proof["result"]["right"].is_object(), "{proof}");
        }
    }
}

#[test]
fn rules_and_groups_are_measured_and_proven() {
    let Some(_alone) = alone("rules_and_groups_are_measured_and_proven") else { return };
    let samples = run(
        PORT,
        &["occupancy", "--set", "groups=0,2", "--set", "rules=1k", "--set", "frame=64,9000"],
    );
    check(&samples);
    let setups: Vec<&Value> = samples.iter().filter(|sample| sample["trial"] == "setup").collect();
    assert!(!setups.is_empty());
    for setup in setups {
        assert!(metric(setup, "rules_installed") >= Some(1_000.0), "{setup}");
        assert_eq!(metric(setup, "rules_refused"), Some(0.0));
        assert!(!setup["counters"]["proofs"].as_array().unwrap().is_empty(), "{setup}");
    }
}

#[test]
fn batches_and_rates_of_rules_are_measured_beside_traffic() {
    let Some(_alone) = alone("batches_and_rates_of_rules_are_measured_beside_traffic") else {
        return;
    };
    let samples = run(PORT, &["update-batch", "--set", "batch=1k", "--set", "flows=10k"]);
    check(&samples);
    for calls in ["single", "queue"] {
        let is_of = |sample: &&Value| {
            sample["trial"] == "batch"
                && sample["point"]["calls"] == calls
                && sample["outcome"] == "measured"
        };
        let batch = samples.iter().find(is_of).unwrap_or_else(|| panic!("{calls}: {samples:?}"));
        assert_eq!(metric(batch, "operations_done"), metric(batch, "operations_planned"));
    }
    let samples = run(PORT, &["update-rate", "--set", "per_s=10k", "--set", "rules=1k"]);
    check(&samples);
    let done = |sample: &Value| metric(sample, "operations_done") > Some(0.0);
    assert!(samples.iter().any(done), "{samples:?}");
}

#[test]
fn the_rate_of_rules_and_the_time_to_effect_are_measured() {
    let Some(_alone) = alone("the_rate_of_rules_and_the_time_to_effect_are_measured") else {
        return;
    };
    let samples = run(PORT, &["rule-rate", "--set", "rules=1k"]);
    check(&samples);
    let insert = |sample: &&Value| sample["trial"] == "insert" && sample["outcome"] == "measured";
    for sample in samples.iter().filter(insert) {
        assert!(metric(sample, "operations_per_s") > Some(0.0), "{sample}");
        assert_eq!(metric(sample, "operations_refused"), Some(0.0), "{sample}");
    }
    assert!(samples.iter().any(|sample| sample["trial"] == "effect"), "{samples:?}");
}

/// DPDK 22.11 has no call that gives a rule other actions: between destroy and create frames meet
/// neither.
#[test]
fn a_changed_rule_is_met_old_new_or_not_at_all() {
    let Some(_alone) = alone("a_changed_rule_is_met_old_new_or_not_at_all") else { return };
    let samples = run(PORT, &["rule-update", "--set", "rules=1k"]);
    check(&samples);
    let loaded =
        |sample: &&Value| sample["outcome"] == "measured" && sample["point"]["traffic"] == "load";
    let mut looked = 0;
    for sample in samples.iter().filter(loaded) {
        let met = ["met_old_frames", "met_new_frames"].map(|name| metric(sample, name));
        assert!(met.iter().any(|met| *met > Some(0.0)), "{sample}");
        looked += 1;
    }
    assert!(looked > 0, "{samples:?}");
}

/// The port tells its key, its table and its types, and spreads as they say: as `soft` does.
#[test]
fn frames_are_spread_as_the_port_says_and_as_soft_does() {
    let Some(_alone) = alone("frames_are_spread_as_the_port_says_and_as_soft_does") else { return };
    let arguments = ["hash-skew", "--set", "queues=8", "--set", "cores=1", "--set", "flows=16,4k"];
    let mut shares = Vec::new();
    for device in [PORT, "soft"] {
        let samples = run(device, &arguments);
        check(&samples);
        let mut of_device = Vec::new();
        for sample in samples.iter().filter(|sample| sample["trial"] == "rss") {
            if let Some(misplaced) = metric(sample, "misplaced_ratio") {
                assert!(misplaced < 0.05, "{sample}");
                let point = sample["point"].to_string();
                of_device.push((point, metric(sample, "hashed_busiest_queue_ratio").unwrap()));
            }
        }
        of_device.sort_by(|a, b| a.0.cmp(&b.0));
        assert!(!of_device.is_empty(), "{samples:?}");
        shares.push(of_device);
    }
    let common = shares[0].iter().filter_map(|(point, share)| {
        shares[1].iter().find(|(other, _)| other == point).map(|(_, soft)| (share, soft))
    });
    let common: Vec<_> = common.collect();
    assert!(!common.is_empty(), "{shares:?}");
    // Both hash the same flows with Microsoft's key.
    assert!(common.iter().all(|(port, soft)| (*port - *soft).abs() < 1e-6), "{shares:?}");
}

#[test]
fn several_control_cores_create_rules() {
    let Some(_alone) = alone("several_control_cores_create_rules") else { return };
    let samples = run(PORT, &["rule-rate", "--set", "rules=4k", "--set", "threads=1,2"]);
    let of = |threads: f64| {
        let is_of =
            |sample: &&Value| sample["trial"] == "insert" && sample["point"]["threads"] == threads;
        samples.iter().filter(is_of).filter(|sample| sample["outcome"] == "measured").count()
    };
    assert!(of(2.0) > 0, "{samples:?}");
}
