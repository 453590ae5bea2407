//! The experiment `kvs-steering`, from what is typed to what is stored.

use std::fs;

use crate::command::{call, cores, niclab, run, samples, scratch, wants_long};

#[test]
fn kvs_steering_is_measured_from_end_to_end_and_an_interrupted_run_resumes() {
    if !wants_long("kvs_steering_is_measured_from_end_to_end_and_an_interrupted_run_resumes") {
        return;
    }
    let _cores = cores();
    let scratch = scratch();
    let path = scratch.path().join("run");
    let mut command = niclab(&["run", "kvs-steering", "--device", "soft", "--repeats", "3"]);
    // A pass or two: the test is of what is stored, and not of how long it takes.
    for set in ["count=1000", "gets=90", "cores=1", "duration_ms=1", "warmup_ms=0"] {
        command.args(["--set", set]);
    }
    command.arg("-o").arg(&path);
    run(command).with(0, &["kvs-steering on soft", "100 %"]);
    let before = samples(&path);
    let of = |mode: &str, keys: &str| {
        let is_of = |sample: &&serde_json::Value| {
            sample["point"]["mode"] == mode && sample["point"]["keys"] == keys
        };
        before.iter().filter(is_of).count()
    };
    for mode in ["rss", "steer"] {
        assert_eq!([of(mode, "uniform"), of(mode, "zipf")], [3, 3], "{before:?}");
    }
    for sample in &before {
        assert_eq!(sample["outcome"], "measured", "{sample}");
        let metric = |name: &str| sample["metrics"][name]["value"].as_f64().unwrap();
        assert!(metric("answered_per_s") > 0.0 && metric("request_ns") > 0.0, "{sample}");
        assert!(metric("look_up_ns") > 0.0 && metric("card_ns") > 0.0, "{sample}");
        assert!((2.0..4.0).contains(&metric("to_host_transactions")), "{sample}");
        assert_eq!(sample["counters"]["wrong"], 0, "{sample}");
    }
    let html = fs::read_to_string(path.join("report.html")).unwrap();
    assert!(html.contains("Throughput gain by workload"));
    // What was measured stays; what is missing is measured.
    let lines = fs::read_to_string(path.join("samples.jsonl")).unwrap();
    let kept: Vec<&str> = lines.lines().take(5).collect();
    fs::write(path.join("samples.jsonl"), kept.join("\n") + "\n").unwrap();
    let mut command = niclab(&["run", "--resume"]);
    command.arg(&path);
    run(command).with(0, &["100 %"]);
    let after = samples(&path);
    assert_eq!((after.len(), &after[..5]), (before.len(), &before[..5]));
}

#[test]
fn a_place_that_cannot_be_and_a_device_without_a_store_are_refused() {
    let scratch = scratch();
    let refused = |set: &str, words: &[&str]| {
        let mut command = niclab(&["run", "kvs-steering", "--device", "soft", "--set", set, "-o"]);
        command.arg(scratch.path().join("none"));
        run(command).with(3, words);
    };
    refused("mode=kernel", &["mode = kernel", "use one of rss, steer, dma"]);
    refused("burst=65", &["burst = 65", "use 1 to 64"]);
    refused("zipf=1", &["zipf"]);
    let file = scratch.path().join("mine.toml");
    let mine = call(&["list", "kvs-steering"]);
    fs::write(&file, mine.out.replacen("burst = 64", "bursts = 64", 1)).unwrap();
    let mut command = niclab(&["run", "--device", "soft"]);
    command.arg(&file);
    run(command).with(3, &["mine.toml", "bursts", "line"]);
    let mut command = niclab(&["run", "kvs-steering", "--device", "model:connectx-5", "-o"]);
    command.arg(scratch.path().join("model"));
    run(command).with(6, &["model:connectx-5: not supported: key-value store"]);
}
