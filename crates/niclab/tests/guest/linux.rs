//! `linux:` devices: a card with RSS, and rules that its driver and the kernel refuse.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{is_inside, said};

/// The card, and the interface that is cabled to it.
const CARD: &str = "eth0";
const DEVICE: &str = "linux:eth1,eth0";

/// The key of Microsoft's examples of RSS.
const KEY: &str = "6d:5a:56:da:25:5b:0e:c2:41:67:25:3d:43:a3:8f:b0:d0:ca:2b:cb:ae:7b:30:b4:77:cb:\
                   2d:a3:80:30:f2:0c:6a:42:b7:3b:be:ac:01:fa";

/// `niclab run` into a directory; its exit code and what it reports as an error.
fn run(experiment: &str, device: &str, sets: &[&str], into: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_niclab"));
    command.args(["run", experiment, "--device", device, "--repeats", "1", "-o"]).arg(into);
    sets.iter().for_each(|set| {
        command.args(["--set", set]);
    });
    let ended = command.output().unwrap();
    (ended.status.code(), crate::text(&ended.stderr))
}

/// Value of a fact in `run.toml`.
fn fact(run: &str, name: &str) -> String {
    let of = format!("name = \"{name}\"\nvalue = \"");
    let (_, rest) = run.split_once(&of).unwrap_or_else(|| panic!("no fact `{name}`: {run}"));
    rest.split('"').next().unwrap().to_owned()
}

/// Value of a metric in the one sample of these queues.
fn metric(samples: &str, queues: u32, name: &str) -> f64 {
    let point = format!("\"queues\":{queues}.0");
    let sample = samples.lines().find(|line| line.contains(&point));
    let sample = sample.unwrap_or_else(|| panic!("no sample of {queues} queues: {samples}"));
    let of = format!("\"{name}\":{{\"value\":");
    let (_, rest) = sample.split_once(&of).unwrap_or_else(|| panic!("no `{name}`: {sample}"));
    rest.split(',').next().unwrap().parse().unwrap()
}

fn settings() -> [String; 2] {
    ["-l", "-x"].map(|of| said("ethtool", &[of, CARD]))
}

#[test]
fn frames_come_to_the_queues_that_a_virtio_card_reports() {
    if !is_inside("frames_come_to_the_queues_that_a_virtio_card_reports") {
        return;
    }
    said("ethtool", &["-X", CARD, "hkey", KEY]);
    let before = settings();
    let directory = tempfile::tempdir().unwrap();
    let into = directory.path().join("run");
    let sets = ["queues=2,4", "cores=1", "flows=64", "zipf=0", "duration_ms=150", "warmup_ms=20"];
    let (code, err) = run("hash-skew", DEVICE, &sets, &into);
    assert_eq!(code, Some(0), "{err}");
    let facts = fs::read_to_string(into.join("run.toml")).unwrap();
    for (name, value) in [
        ("driver", "virtio_net"),
        ("card queues", "combined 4 of 4"),
        ("RSS hash", "toeplitz"),
        ("RSS key", KEY),
        ("RSS indirection", "128 entries, 4 queues with 32 to 32 each"),
    ] {
        assert_eq!(fact(&facts, name), value, "{name}");
    }
    let samples = fs::read_to_string(into.join("samples.jsonl")).unwrap();
    for queues in [2, 4] {
        let of = |name| metric(&samples, queues, name);
        let by_chance = of("misplaced_by_chance_ratio");
        // Chance alone makes it three times as much once in a thousand runs at most. A hash by
        // another key misplaces a fifth of the frames or more.
        let misplaced = of("misplaced_ratio");
        assert!(misplaced < (3.0 * by_chance).max(0.1), "{misplaced}, {by_chance}: {samples}");
        let (busiest, hashed) = (of("busiest_queue_ratio"), of("hashed_busiest_queue_ratio"));
        assert!((busiest - hashed).abs() < 0.2, "{queues} queues: {busiest}, by hash {hashed}");
    }
    assert_eq!(settings(), before, "queues, table and key are as they were");
}

#[test]
fn rules_are_refused_with_the_words_of_driver_and_kernel() {
    if !is_inside("rules_are_refused_with_the_words_of_driver_and_kernel") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let why = "rules (n-tuple: driver virtio_net has none; flower: Operation not supported \
               (os error 95))";
    for (experiment, sets) in [("rule-rate", &[][..]), ("occupancy", &["groups=0", "rules=16"])] {
        let (code, err) = run(experiment, DEVICE, sets, &directory.path().join(experiment));
        assert_eq!(code, Some(6), "{experiment}: {err}");
        let err = err.replace("\n  ", " ");
        assert!(err.contains("nothing was measured") && err.contains(why), "{experiment}: {err}");
    }
    let disciplines = said("tc", &["qdisc", "show", "dev", CARD]);
    assert!(!disciplines.contains("clsact"), "{disciplines}");
    assert_eq!(said(env!("CARGO_BIN_EXE_niclab"), &["doctor", "--clean"]).lines().count(), 1);
}

#[test]
fn filters_of_the_kernel_do_what_their_rules_say() {
    if !is_inside("filters_of_the_kernel_do_what_their_rules_say") {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_niclab"));
    command.args(["conform", "--device", "linux-tc:veth", "--items", "ipv4", "--json"]);
    let ended = command.output().unwrap();
    let (out, err) = (crate::text(&ended.stdout), crate::text(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{out}{err}");
    let right = out.matches("\"state\": \"right\"").count();
    assert!(right >= 5 && !out.contains("\"wrong\""), "{right}: {out}");
}
