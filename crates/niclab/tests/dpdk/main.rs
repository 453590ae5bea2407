//! The built command on `dpdk:--vdev=net_niclab0`: a DPDK port whose answers are known, because its
//! card is niclab's own. Each experiment with rules or queues runs on it, and what it says agrees
//! with what `soft` says.
#![forbid(unsafe_code)]

mod driver;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

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
    match driver::build() {
        Ok(()) => Some(guard),
        Err(reason) => {
            println!("SKIP {test}: {reason}");
            None
        }
    }
}

/// The samples of a run with one repeat.
fn run(device: &str, arguments: &[&str]) -> Vec<Value> {
    run_by(None, device, arguments)
}

/// The same with another program in the place of `niclab-dpdk`.
fn run_by(helper: Option<&Path>, device: &str, arguments: &[&str]) -> Vec<Value> {
    let place = tempfile::tempdir().unwrap();
    let results: PathBuf = place.path().join("results");
    let mut niclab = Command::new(env!("CARGO_BIN_EXE_niclab"));
    niclab.envs(helper.map(|helper| ("NICLAB_DPDK", helper)));
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

/// DPDK before 23.07 has no call that gives a rule other actions: between destroy and create frames
/// meet neither.
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

/// What stands in for a driver's rule calls, in C. Preloaded, it comes before DPDK's own.
const SAYS_YES: &str = "
#include <stddef.h>
void *rte_flow_create(void) { return (void *)8; }
int rte_flow_destroy(void) { return 0; }
int rte_flow_flush(void) { return 0; }
";
const BLOCKS: &str = "
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
void *rte_flow_create(unsigned short port, const void *attr, const void *items, const void *actions,
                      void *error)
{
    void *(*create)(unsigned short, const void *, const void *, const void *, void *) =
        dlsym(RTLD_NEXT, \"rte_flow_create\");
    static int count;
    if (++count == 40)
        sleep(3);
    return create(port, attr, items, actions, error);
}
";
const DIES: &str = "
#include <stdlib.h>
int rte_flow_destroy(void) { abort(); }
";

/// Rules through operation queues alone, as hardware steering of mlx5 has them in DPDK 22.11.
const QUEUES_ALONE: &str = "
#include <errno.h>
int rte_flow_error_set(void *error, int code, int type, const void *cause, const char *message);
void *rte_flow_create(unsigned short port, const void *attr, const void *items, const void *actions,
                      void *error)
{
    rte_flow_error_set(error, ENOTSUP, 1, 0, \"queues alone\");
    return 0;
}
int rte_flow_validate(unsigned short port, const void *attr, const void *items, const void *actions,
                      void *error)
{
    return rte_flow_error_set(error, ENOTSUP, 1, 0, \"queues alone\");
}
int rte_flow_destroy(unsigned short port, void *flow, void *error)
{
    return rte_flow_error_set(error, ENOTSUP, 1, 0, \"queues alone\");
}
";

/// Every tenth result of an operation queue says that the operation was not done.
const FAILS: &str = "
#define _GNU_SOURCE
#include <dlfcn.h>
struct result { int status; void *user; };
int rte_flow_pull(unsigned short port, unsigned queue, struct result *results, unsigned short count,
                  void *error)
{
    int (*next)(unsigned short, unsigned, struct result *, unsigned short, void *) =
        dlsym(RTLD_NEXT, \"rte_flow_pull\");
    static unsigned all;
    int found = next(port, queue, results, count, error);
    for (int i = 0; i < found; i++)
        if (++all % 10 == 0)
            results[i].status = 1;
    return found;
}
";

/// Ends the process where a rule does not go as it came: a card has two engines for them.
const STRICT: &str = "
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#define PLACES (1 << 20)
static struct { void *flow; char by; } known[PLACES];
static unsigned place(void *flow)
{
    unsigned at = (uintptr_t)flow * 0x9e3779b97f4a7c15u >> 44;
    while (known[at].flow && known[at].flow != flow)
        at = (at + 1) % PLACES;
    return at;
}
static void *note(void *flow, char by)
{
    unsigned at = place(flow);
    if (flow)
        known[at].flow = flow, known[at].by = by;
    return flow;
}
static void hold(void *flow, char by)
{
    if (known[place(flow)].by != by)
        abort();
}
void *rte_flow_create(unsigned short port, const void *attr, const void *items, const void *actions,
                      void *error)
{
    void *(*next)(unsigned short, const void *, const void *, const void *, void *) =
        dlsym(RTLD_NEXT, \"rte_flow_create\");
    return note(next(port, attr, items, actions, error), 'c');
}
int rte_flow_destroy(unsigned short port, void *flow, void *error)
{
    int (*next)(unsigned short, void *, void *) = dlsym(RTLD_NEXT, \"rte_flow_destroy\");
    hold(flow, 'c');
    return next(port, flow, error);
}
void *rte_flow_async_create(unsigned short port, unsigned queue, const void *attr, void *table,
                            const void *items, unsigned char pattern, const void *actions,
                            unsigned char template, void *user, void *error)
{
    void *(*next)(unsigned short, unsigned, const void *, void *, const void *, unsigned char,
                  const void *, unsigned char, void *, void *) =
        dlsym(RTLD_NEXT, \"rte_flow_async_create\");
    void *flow = next(port, queue, attr, table, items, pattern, actions, template, user, error);
    return note(flow, 'q');
}
int rte_flow_async_destroy(unsigned short port, unsigned queue, const void *attr, void *flow,
                           void *user, void *error)
{
    int (*next)(unsigned short, unsigned, const void *, void *, void *, void *) =
        dlsym(RTLD_NEXT, \"rte_flow_async_destroy\");
    hold(flow, 'q');
    return next(port, queue, attr, flow, user, error);
}
";

/// The samples of a run whose DPDK process has these calls in the place of DPDK's.
fn run_with(calls: &str, arguments: &[&str]) -> Vec<Value> {
    let place = tempfile::tempdir().unwrap();
    let (source, library) = (place.path().join("calls.c"), place.path().join("calls.so"));
    fs::write(&source, calls).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-w", "-o"]).args([&library, &source]).arg("-ldl");
    assert!(cc.status().unwrap().success(), "{calls}");
    let helper = Path::new(env!("CARGO_BIN_EXE_niclab")).with_file_name("niclab-dpdk");
    let script = place.path().join("niclab-dpdk");
    let (library, helper) = (library.display(), helper.display());
    fs::write(&script, format!("#!/bin/sh\nLD_PRELOAD='{library}' exec '{helper}'\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    run_by(Some(&script), PORT, arguments)
}

#[test]
fn a_driver_that_says_yes_and_does_nothing_is_found() {
    let Some(_alone) = alone("a_driver_that_says_yes_and_does_nothing_is_found") else { return };
    let samples = run_with(SAYS_YES, &["occupancy", "--set", "groups=0", "--set", "rules=1k"]);
    let setup = samples.iter().find(|sample| sample["trial"] == "setup").unwrap();
    assert_eq!(metric(setup, "rules_installed"), Some(0.0), "{setup}");
    assert!(text(setup, "reason").contains("accepted and wrong"), "{setup}");
    let is_believed =
        |sample: &&Value| sample["outcome"] == "measured" && sample["point"]["rules"] == 1_000.0;
    assert_eq!(samples.iter().find(is_believed), None);
}

#[test]
fn a_rule_goes_as_it_came_by_a_call_or_through_a_queue() {
    let Some(_alone) = alone("a_rule_goes_as_it_came_by_a_call_or_through_a_queue") else { return };
    for arguments in [
        &["update-batch", "--set", "batch=100", "--set", "flows=1k"][..],
        &["update-rate", "--set", "per_s=10k", "--set", "rules=1k"],
        &["rule-update", "--set", "rules=1k"],
        &["rule-rate", "--set", "rules=1k"],
    ] {
        let samples = run_with(STRICT, arguments);
        check(&samples);
        let done = |calls: &str| {
            let is_of = |sample: &&Value| sample["point"]["calls"] == calls;
            samples.iter().filter(is_of).any(|sample| metric(sample, "operations_done") > Some(0.0))
        };
        let has_calls = samples.iter().any(|sample| !sample["point"]["calls"].is_null());
        assert!(!has_calls || done("single") && done("queue"), "{arguments:?}: {samples:?}");
    }
}

#[test]
fn a_port_with_rules_through_queues_alone_has_those_of_set_ups_through_them() {
    let test = "a_port_with_rules_through_queues_alone_has_those_of_set_ups_through_them";
    let Some(_alone) = alone(test) else { return };
    let arguments = ["occupancy", "--set", "groups=0", "--set", "rules=1k"];
    let samples = run_with(QUEUES_ALONE, &arguments);
    check(&samples);
    let setup = samples.iter().find(|sample| sample["trial"] == "setup").unwrap();
    assert_eq!(metric(setup, "rules_installed"), Some(1_000.0), "{setup}");
    assert!(!setup["counters"]["proofs"].as_array().unwrap().is_empty(), "{setup}");
    let arguments = ["update-batch", "--set", "batch=100", "--set", "flows=1k"];
    let samples = run_with(QUEUES_ALONE, &arguments);
    let batches: Vec<&Value> = samples.iter().filter(|sample| sample["trial"] == "batch").collect();
    assert!(!batches.is_empty());
    for batch in batches {
        if batch["point"]["calls"] == "single" {
            let lacking = "rules by single calls: the port says: queues alone";
            assert!(text(batch, "capability").starts_with(lacking), "{batch}");
        } else if batch["outcome"] == "measured" {
            assert_eq!(metric(batch, "operations_done"), metric(batch, "operations_planned"));
        }
    }
}

#[test]
fn a_queue_that_has_not_done_an_operation_is_named_and_what_was_measured_stays() {
    let test = "a_queue_that_has_not_done_an_operation_is_named_and_what_was_measured_stays";
    let Some(_alone) = alone(test) else { return };
    let arguments = ["update-batch", "--set", "batch=100", "--set", "flows=1k"];
    let samples = run_with(FAILS, &arguments);
    let batches: Vec<&Value> = samples.iter().filter(|sample| sample["trial"] == "batch").collect();
    let of = |outcome: &'static str, calls: &'static str| {
        let is_of = move |sample: &&&Value| {
            sample["outcome"] == outcome && sample["point"]["calls"] == calls
        };
        batches.iter().filter(is_of).copied().collect::<Vec<&Value>>()
    };
    let single = of("measured", "single");
    assert!(!single.is_empty());
    for batch in single {
        assert_eq!(metric(batch, "operations_refused"), Some(0.0), "{batch}");
    }
    // A rule that stays where it was to go: the port has not the rules of its set-up any more.
    let says = |sample: &&Value| text(sample, "reason").contains("says that it was not done");
    let failed = of("failed", "queue");
    let refused = of("measured", "queue");
    let refused = refused.iter().filter(|one| metric(one, "operations_refused") > Some(0.0));
    assert!(failed.iter().any(says) || refused.count() > 0, "{batches:?}");
}

#[test]
fn a_create_that_blocks_for_seconds_is_waited_for() {
    let Some(_alone) = alone("a_create_that_blocks_for_seconds_is_waited_for") else { return };
    let samples = run_with(BLOCKS, &["occupancy", "--set", "groups=0", "--set", "rules=1k"]);
    check(&samples);
    let setup = samples.iter().find(|sample| sample["trial"] == "setup").unwrap();
    assert_eq!(metric(setup, "rules_installed"), Some(1_000.0), "{setup}");
}

#[test]
fn a_process_that_dies_within_an_experiment_leaves_what_was_measured() {
    let test = "a_process_that_dies_within_an_experiment_leaves_what_was_measured";
    let Some(_alone) = alone(test) else { return };
    let samples = run_with(DIES, &["occupancy", "--set", "groups=0", "--set", "rules=0,1k"]);
    let measured = samples.iter().filter(|sample| sample["outcome"] == "measured").count();
    let died = |sample: &Value| text(sample, "reason").contains("SIGABRT");
    assert!(samples.iter().any(died), "{samples:?}");
    assert!(measured > 0, "{samples:?}");
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

/// `niclab conform` of three items; the document, and the exit code.
fn conform(device: &str, items: &str) -> (Value, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_niclab"));
    command.args(["conform", "--device", device, "--items", items, "--json"]);
    let ended = command.output().unwrap();
    let (out, err) = (ended.stdout, String::from_utf8_lossy(&ended.stderr).into_owned());
    let document = serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{error}: {err}"));
    (document, ended.status.code())
}

#[test]
fn the_driver_does_what_rte_flow_says_frame_by_frame() {
    let Some(_alone) = alone("the_driver_does_what_rte_flow_says_frame_by_frame") else { return };
    let (document, code) = conform(PORT, "eth,ipv4,udp,vxlan");
    let device = &document["devices"][0];
    assert_eq!(code, Some(0), "{:#}", device["faults"]);
    let cells = device["cells"].as_array().unwrap();
    let is_right = |cell: &&Value| cell["state"] == "right";
    let right = cells.iter().filter(is_right).count();
    assert!(10 * right > 8 * cells.len(), "{right} of {}: {cells:#?}", cells.len());
    // A port of the driver sends nothing by itself, and DPDK before 23.07 has no call for changes.
    for cell in cells.iter().filter(|cell| !is_right(cell)) {
        let words = text(cell, "words");
        let is_known = ["sends no packet by itself", "no rte_flow_actions_update"];
        assert!(is_known.iter().any(|known| words.contains(known)), "{cell}");
    }
}
