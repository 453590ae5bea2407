//! Reference trials of a run: which runs have them, and where.

use std::fs;

use rustix::process::Signal;

use crate::command::{cores, niclab, samples, scratch, shared, start};

/// Lines of `samples.jsonl` before the run is stopped.
const BEFORE: usize = 6;

#[test]
fn a_run_of_some_length_begins_and_ends_with_a_reference_trial_even_where_it_is_stopped() {
    let _cores = cores();
    let scratch = scratch();
    let path = scratch.path().join("run");
    let mut command = niclab(&["run", "occupancy", "--device", "soft", "--repeats", "60"]);
    for set in ["groups=0", "rules=0,16", "frame=64", "duration_ms=20", "warmup_ms=1"] {
        command.args(["--set", set]);
    }
    command.arg("-o").arg(&path);
    let mut running = start(command);
    let log = path.join("samples.jsonl");
    let lines = || fs::read(&log).is_ok_and(|b| b.split(|b| *b == b'\n').count() > BEFORE);
    assert!(running.wait_until(lines), "it ended before");
    running.signal(Signal::INT);
    running.end().with(130, &["stopped; go on with: "]);
    let samples = samples(&path);
    let (first, last) = (&samples[0], samples.last().unwrap());
    for (repeat, sample) in [(0, first), (1, last)] {
        for name in ["experiment", "device", "trial"] {
            assert_eq!(sample[name], "reference");
        }
        assert_eq!((&sample["repeat"], &sample["outcome"]), (&repeat.into(), &"measured".into()));
        assert!(sample["metrics"]["throughput_pps"]["value"].as_f64().unwrap() > 0.0, "{sample}");
    }
    let between = &samples[1..samples.len() - 1];
    assert!(between.len() > 3 && between.iter().all(|sample| sample["device"] == "soft"));
}

#[test]
fn a_run_of_a_second_has_no_reference_trial() {
    let (path, _) = shared();
    assert!(samples(path).iter().all(|sample| sample["trial"] != "reference"));
}
