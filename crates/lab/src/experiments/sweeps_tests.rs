//! What the sweeps of experiments declare is measured, and what cannot be is refused.

use crate::experiments::{
    echo::spec as echo, echo_ledger::spec as echo_ledger, frame_size::spec as frame_size,
    hash_skew::spec as hash_skew, kvs_steering::spec as kvs_steering,
    program_cost::spec as program_cost, queue_change::spec as queue_change,
    queue_scaling::spec as queue_scaling, rule_rate::spec as rule_rate, stream::spec as stream,
    update_batch::spec as update_batch, update_rate::spec as update_rate,
};
use crate::run::RunDevice;
use crate::spec::{Grid, Overrides, Spec, SpecError};
use crate::values::Values;

fn resolved(spec: Spec, overrides: &Overrides) -> Result<crate::run::Run, SpecError> {
    let about = niclab_device::About { name: "soft".into(), ..Default::default() };
    let device = RunDevice { name: "soft".into(), variant: None, absent: None, about };
    crate::run::resolve("x", &[spec], overrides, vec![device])
}

/// The points of the trials of a grid that has this part alone.
fn points(spec: &Spec, only: impl Fn(&mut Grid)) -> Vec<niclab_result::Point> {
    let mut spec = spec.clone();
    only(&mut spec.reduced);
    spec.reduced.budget_s = None;
    let run = resolved(spec, &Overrides::default()).unwrap();
    run.experiments[0].trials.iter().map(|trial| trial.point.clone()).collect()
}

/// Experiments whose parts are sweeps alone.
const SWEPT: [&str; 19] = [
    "update-batch",
    "update-rate",
    "rule-rate",
    "hash-skew",
    "frame-size",
    "queue-scaling",
    "queue-overhead",
    "queue-change",
    "echo-size",
    "echo-batch",
    "echo-features",
    "echo-ledger",
    "stream",
    "memcached",
    "redis",
    "function",
    "core-scaling",
    "program-cost",
    "kvs-steering",
];

#[test]
fn every_value_that_a_built_in_experiment_declares_is_measured() {
    let check = |points: &[niclab_result::Point], name: &str, axis: Option<&mut Values>| {
        for value in axis.into_iter().flat_map(|values| &values.0) {
            // A rate has a name, `each` is a number, and that rules are created goes without
            // saying.
            let is_named = matches!(value, niclab_result::Coordinate::Word(word)
                if name == "per_s" || word == "create" || word == "each");
            let is_it = |at: &niclab_result::Coordinate| at.to_string() == value.to_string();
            let is_there = points.iter().any(|point| point.get(name).is_some_and(is_it));
            assert!(is_there || is_named, "{name}={value}");
        }
    };
    for name in SWEPT {
        let spec = crate::experiments::spec(name).unwrap();
        let axes: Vec<&str> = spec.kind.of().axes().iter().map(|(name, _)| *name).collect();
        for grid in [&spec.reduced, &spec.full, &spec.published] {
            // Every sweep of a part, as if it were the only one there is.
            macro_rules! check_parts {
                ($($kind:literal is $experiment:ident of $($part:ident)+;)*) => {
                    $(if spec.kind.of().name() == $kind {
                        $(for mut sweep in grid.of::<$experiment::Parts>().$part.clone() {
                            let of = points(&spec, |grid| {
                                let parts: &mut $experiment::Parts = grid.of_mut();
                                *parts = Default::default();
                                parts.$part.push(sweep.clone());
                            });
                            axes.iter().for_each(|name| check(&of, name, sweep.axis(name)));
                        })+
                    })*
                };
            }
            check_parts! {
                "update_batch" is update_batch of batch;
                "update_rate" is update_rate of rule_churn;
                "rule_rate" is rule_rate of insertion;
                "hash_skew" is hash_skew of rss;
                "frame_size" is frame_size of size;
                "queue_scaling" is queue_scaling of scaling;
                "queue_change" is queue_change of rss_change;
                "echo" is echo of echo;
                "ledger" is echo_ledger of ledger;
                "stream" is stream of stream;
                "program_cost" is program_cost of program;
                "kvs_steering" is kvs_steering of serving;
            }
        }
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
