//! Every declared value of an axis is measured, and values out of range are refused.

use super::registered;
use crate::run::RunDevice;
use crate::spec::grid::Sweeps;
use crate::spec::{Overrides, Spec, SpecError};
use niclab_result::{Coordinate, Point};

fn resolved(spec: Spec, overrides: &Overrides) -> Result<crate::run::Run, SpecError> {
    let about = niclab_device::DeviceInfo { name: "soft".into(), ..Default::default() };
    let device = RunDevice { name: "soft".into(), variant: None, absent: None, about };
    crate::run::resolve("x", &[spec], overrides, vec![device])
}

/// The points of the trials of these sweeps.
fn points(spec: &Spec, sweeps: Box<dyn Sweeps>) -> Vec<Point> {
    let mut spec = spec.clone();
    spec.reduced.sweeps = sweeps;
    spec.reduced.budget_s = None;
    let run = resolved(spec, &Overrides::default()).unwrap();
    run.experiments[0].trials.iter().map(|trial| trial.point.clone()).collect()
}

#[test]
fn every_value_that_a_built_in_experiment_declares_is_measured() {
    let mut missing = Vec::new();
    for (of, one) in registered() {
        let kind = of.name();
        let spec = crate::experiments::spec(one.name).unwrap();
        let is_known = |axis: &str| of.axes().iter().any(|(known, _)| *known == axis);
        let grids = spec.short.iter().chain([&spec.reduced, &spec.full, &spec.published]);
        let sweeps = grids.flat_map(|grid| grid.sweeps.each_alone());
        // A knee has no axes.
        for (sweep, axes) in sweeps.filter(|(_, axes)| !axes.is_empty()) {
            let points = points(&spec, sweep);
            for (axis, values) in axes.iter().filter(|(axis, _)| is_known(axis)) {
                let is_there = |value: &Coordinate| {
                    let at = |point: &Point| point.get(*axis).map(ToString::to_string);
                    points.iter().any(|point| at(point) == Some(value.to_string()))
                };
                let is_missing = |value: &&Coordinate| {
                    !is_there(value) && !is_worded(axis, value) && !is_excused(kind, axis)
                };
                let values = values.0.iter().filter(is_missing);
                missing.extend(values.map(|value| format!("{}: {axis}={value}", one.name)));
            }
        }
    }
    missing.dedup();
    assert!(missing.is_empty(), "no trial has these in its point: {missing:#?}");
}

/// Words that stand for numbers, and those of which points say nothing: that rules are created, and
/// the rate of the saturating trial.
fn is_worded(axis: &str, value: &Coordinate) -> bool {
    let Coordinate::Word(word) = value else { return false };
    let is_one = ["create", "each", "max", "to-all"].contains(&word.as_str());
    is_one || axis == "per_s" || word.ends_with("/core")
}

/// Axes whose values are not always in points, by kind of experiment.
fn is_excused(kind: &str, axis: &str) -> bool {
    match kind {
        // A breakdown is taken beside the trial.
        "application" => axis == "stamps",
        // They follow from the rules that are hit.
        "occupancy" => ["flows", "match_percent"].contains(&axis),
        // Without traffic these axes have no effect.
        "rule_update" => ["core", "slice", "frame"].contains(&axis),
        _ => false,
    }
}

#[test]
fn a_value_out_of_the_range_of_its_axis_is_refused_in_every_experiment() {
    let refused = [
        ("update-batch", "flows=0", "flows = 0: "),
        ("update-batch", "frame=63", "frame = 63: use 64 to 9000"),
        ("update-batch", "before_ms=1", "before_ms = 1: use 20 to 600000"),
        ("update-batch", "slice=0", "slice = 0: "),
        ("update-rate", "core=none", "core = none: use one of same, distinct"),
        ("update-rate", "slice=0", "slice = 0: "),
        ("update-rate", "flows=0", "flows = 0: "),
        ("update-rate", "frame=9001", "frame = 9001: use 64 to 9000"),
        ("update-rate", "group=2", "group = 2: use 0 to 1"),
        ("rule-rate", "group=2", "group = 2: use 0 to 1"),
        ("rule-rate", "calls=twice", "calls = twice: use one of single, queue, transaction"),
        ("rule-rate", "per_s=0", "per_s = 0: use 1 to "),
        ("rule-rate", "core=2", "core = 2: use one of same, distinct"),
        ("rule-rate", "frame=1", "frame = 1: use 64 to 9000"),
        ("rule-rate", "stack=ip", "stack = ip: use one of "),
        ("rule-rate", "threads=0", "threads = 0: "),
        ("rule-update", "core=2", "core = 2: use one of same, distinct"),
        ("rule-update", "calls=2", "calls = 2: use one of single, queue, transaction"),
        ("rule-update", "slice=none", "slice = none: "),
        ("rule-update", "frame=63", "frame = 63: use 64 to 9000"),
        ("rule-update", "after_ms=19", "after_ms = 19: use 20 to 600000"),
        ("hash-skew", "queues=0", "queues = 0: use 1 to 256"),
        ("hash-skew", "queues=257", "queues = 257: use 1 to 256"),
        ("hash-skew", "cores=0", "cores = 0: use 1 to 256, or each"),
        ("hash-skew", "cores=all", "cores = all: use 1 to 256, or each"),
        ("hash-skew", "flows=0", "flows = 0: "),
        ("hash-skew", "zipf=10.1", "zipf = 10.1: use 0 to 10"),
        ("hash-skew", "zipf=-1", "zipf = -1: use 0 to 10"),
        ("hash-skew", "zipf=nan", "zipf = nan: use 0 to 10"),
        ("hash-skew", "zipf=steep", "zipf = steep: use 0 to 10"),
        ("hash-skew", "frame=63", "frame = 63: use 64 to 9000"),
        ("echo-size", "size=15", "size = 15: use 16 to 65507"),
        ("echo-ledger", "size=65508", "size = 65508: use 16 to 65507"),
        ("echo-size", "size=65508", "size = 65508: use 16 to 65507"),
        ("echo-size", "transport=sctp", "transport = sctp: use one of udp, tcp"),
        ("echo-size", "family=4", "family = 4: use one of ipv4, ipv6"),
        ("echo-size", "client=me", "client = me: use one of here, there"),
        ("echo-batch", "receive=select", "receive = select: use one of blocking, busy-poll, "),
        ("echo-batch", "batch=0", "batch = 0: use 1 to 1024"),
        ("echo-batch", "batch=1025", "batch = 1025: use 1 to 1024"),
        ("echo-batch", "rate=0", "rate = 0: use 1 to 1000M messages a second, or closed"),
        ("echo-batch", "rate=open", "rate = open: use 1 to 1000M messages a second, or closed"),
    ];
    for (name, set, words) in refused {
        let spec = crate::experiments::spec(name).unwrap();
        let overrides = Overrides { set: vec![set.parse().unwrap()], ..Default::default() };
        let error = resolved(spec, &overrides).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{name}: {words}")), "{name}, {set}: {error}");
    }
    let of = |name: &str, set: &[&str]| {
        let set = set.iter().map(|text| text.parse().unwrap()).collect();
        let overrides = Overrides { set, ..Default::default() };
        resolved(crate::experiments::spec(name).unwrap(), &overrides).unwrap_err().to_string()
    };
    assert_eq!(
        of("rule-rate", &["threads=2", "calls=single,transaction"]),
        "rule-rate: calls = single,transaction: control threads have a queue each: use \
         calls=queue"
    );
    assert_eq!(
        of("rule-update", &["change=mask,values", "calls=queue"]),
        "rule-update: calls = queue: a queue knows changes of actions and anew: use \
         calls=single"
    );
}

#[test]
fn a_frame_size_and_cores_that_cannot_be_are_refused() {
    let refused = [
        ("frame-size", "queues=0", "queues = 0: use 1 to 256"),
        ("frame-size", "cores=all", "cores = all: use 1 to 256, or each"),
        ("frame-size", "flows=0", "flows = 0: "),
        ("frame-size", "frame=63", "frame = 63: use 64 to 9000"),
        ("frame-size", "frame=jumbo", "frame = jumbo: "),
        ("queue-scaling", "receive=all", "receive = all: use one of multi-queue, serial"),
        ("queue-scaling", "ports=0", "ports = 0: use 1 to 64"),
        ("queue-scaling", "queues=257", "queues = 257: use 1 to 256"),
        ("queue-scaling", "cores=0", "cores = 0: use 1 to 256, or each"),
        ("queue-overhead", "flows=0", "flows = 0: "),
        ("queue-change", "change=all", "change = all: use one of none, entries, queues, "),
        ("queue-change", "answer=yes", "answer = yes: use one of none, moves, save-cores, "),
        ("queue-change", "per_s=0", "per_s = 0: use 1 to 10000"),
        ("queue-change", "pps=0", "pps = 0: use 1 to 100000000"),
        ("queue-change", "step=0", "step = 0: use 1 to 1000"),
        ("queue-change", "work_ns=1000001", "work_ns = 1000001: use 0 to 1000000"),
        ("queue-change", "queues=0", "queues = 0: use 1 to 256"),
        ("queue-change", "cores=0", "cores = 0: use 1 to 256, or each"),
        ("queue-change", "zipf=11", "zipf = 11: use 0 to 10"),
        ("queue-overhead", "frame=63", "frame = 63: use 64 to 9000"),
    ];
    for (name, set, words) in refused {
        let spec = crate::experiments::spec(name).unwrap();
        let overrides = Overrides { set: vec![set.parse().unwrap()], ..Default::default() };
        let error = resolved(spec, &overrides).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{name}: {words}")), "{name}, {set}: {error}");
    }
}

#[test]
fn a_value_that_a_stream_cannot_have_is_refused() {
    let refused = [
        ("transport=sctp", "transport = sctp: use one of udp, tcp"),
        ("size=0", "size = 0: use 1 to 1048576"),
        ("size=65508", "size = 65508: use 16 to 65507"),
        ("client=me", "client = me: use one of here, there"),
        ("batch=1025", "batch = 1025: use 1 to 1024"),
        ("connections=0", "connections = 0: use 1 to 256"),
        ("connections=257", "connections = 257: use 1 to 256"),
        ("cores=0", "cores = 0: use 1 to 64"),
        ("cores=32", "cores = 32: use at most as many as connections"),
        ("rate=0", "rate = 0: use 1 to 1000M datagrams a second, or full"),
    ];
    for (set, words) in refused {
        let spec = crate::experiments::spec("stream").unwrap();
        let overrides = Overrides { set: vec![set.parse().unwrap()], ..Default::default() };
        let error = resolved(spec, &overrides).unwrap_err().to_string();
        assert!(error.starts_with(&format!("stream: {words}")), "{set}: {error}");
    }
}
