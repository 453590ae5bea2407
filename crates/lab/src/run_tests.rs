//! A run is explicit, in random but fixed order, within its budget, and survives its file.

use std::collections::BTreeSet;

use niclab_load::TraceFrames;
use niclab_result::{Coordinate, Point};

use super::*;
use crate::experiments;
use crate::experiments::update_batch::metrics::BATCH;
use crate::experiments::{occupancy::spec as occupancy, update_rate::spec as update_rate};
use crate::spec::{Overrides, Spec};
use crate::statistics::INTERVAL_REPEATS_MIN;

fn device(name: &str, not_supported: &[&str]) -> RunDevice {
    let lacks = not_supported.iter().map(|word| word.to_string()).collect();
    let about = DeviceInfo { name: name.into(), not_supported: lacks, ..DeviceInfo::default() };
    RunDevice { name: name.into(), variant: None, absent: None, about }
}

fn three() -> Vec<RunDevice> {
    vec![device("soft", &[]), device("linux:veth", &["rules"]), device("dpdk:x", &["rules"])]
}

fn resolved(overrides: &Overrides, devices: Vec<RunDevice>) -> Run {
    let specs = [experiments::spec("occupancy").unwrap()];
    resolve("niclab 0.1.0", &specs, overrides, devices).unwrap()
}

fn with(set: &[&str]) -> Overrides {
    Overrides { set: set.iter().map(|text| text.parse().unwrap()).collect(), ..Default::default() }
}

#[test]
fn a_run_read_back_is_the_same_run() {
    let overrides = Overrides { seed: Some(u64::MAX), ..with(&["frame=64,imix"]) };
    let mut run = resolved(&overrides, three());
    run.devices[2].absent = Some("no DPDK here".into());
    let text = run.to_toml().unwrap();
    assert_eq!(Run::from_toml(&text).unwrap(), run);
    assert!(text.contains("order = [[0, "), "{}", &text[..400]);
}

#[test]
fn a_run_of_a_later_version_is_refused() {
    let mut run = resolved(&Overrides::default(), three());
    run.schema = 2;
    run.program = "niclab 3.0.0".into();
    let error = Run::from_toml(&run.to_toml().unwrap()).unwrap_err().to_string();
    assert!(error.contains("use niclab 3.0.0"), "{error}");
    assert!(matches!(Run::from_toml("x = ").unwrap_err(), SpecError::BadRun { .. }));
}

#[test]
fn the_seed_alone_decides_the_order() {
    let seeded = |seed| {
        let run = resolved(&Overrides { seed: Some(seed), ..Default::default() }, three());
        run.experiments[0].order.clone()
    };
    assert_eq!(seeded(5), seeded(5));
    assert_ne!(seeded(5), seeded(6));
}

#[test]
fn every_trial_stands_once_in_every_repeat_and_maxima_come_first() {
    let run = &resolved(&Overrides::default(), three()).experiments[0];
    for repeat in 0..run.repeats as usize {
        let visits = run.order.iter().filter(|v| v.repeat == repeat && v.device == 0);
        let trials: Vec<usize> = visits.flat_map(|v| v.trials.clone()).collect();
        assert_eq!(trials.len(), run.trials.len());
        assert_eq!(trials.iter().collect::<BTreeSet<_>>().len(), run.trials.len());
    }
    let mut begun: BTreeSet<(usize, usize)> = BTreeSet::new();
    for visit in &run.order {
        for &at in &visit.trials {
            assert_eq!(
                run.trials[at].setup, run.trials[visit.trials[0]].setup,
                "one set-up a visit"
            );
            if let PlannedRate::ShareOf { of, .. } = run.trials[at].rate {
                // The other devices have no rules, and take the maximum of the same point.
                let is_there = begun.contains(&(visit.device, of)) || visit.device > 0;
                assert!(is_there, "the maximum comes first");
                assert_eq!(run.trials[of].kind, TrialKind::SATURATE);
            }
            begun.insert((visit.device, at));
        }
    }
    let repeats: Vec<usize> = run.order.iter().map(|v| v.repeat).collect();
    assert!(repeats.is_sorted(), "one repeat is whole before the next begins");
}

#[test]
fn a_device_without_rules_gets_what_needs_none() {
    let run = &resolved(&Overrides::default(), three()).experiments[0];
    let of = |device| run.order.iter().filter(move |v| v.device == device);
    assert!(of(1).count() > 0);
    assert!(of(1).all(|visit| run.setup_of(visit).unwrap().rules.is_empty()));
    assert!(of(0).any(|visit| !run.setup_of(visit).unwrap().rules.is_empty()));
    let mut absent = three();
    absent[2].absent = Some("no DPDK here".into());
    let run = &resolved(&Overrides::default(), absent).experiments[0];
    assert!(run.order.iter().all(|visit| visit.device != 2));
}

#[test]
fn equal_set_ups_are_shared_and_equal_points_measured_once() {
    let run = &resolved(&with(&["groups=0", "rules=0,100"]), three()).experiments[0];
    // Two numbers of rules; with matches asked for over all rules, one more.
    assert!(run.setups.len() <= 5, "{} set-ups", run.setups.len());
    let mut observed = BTreeSet::new();
    for trial in &run.trials {
        assert!(observed.insert(format!("{:?} {:?}", trial.kind, trial.point)), "{trial:?} twice");
    }
}

#[test]
fn a_run_of_everything_fits_a_quarter_of_an_hour_and_full_ninety_minutes() {
    let reduced = resolved(&Overrides::default(), three());
    assert!(reduced.estimate_s() < 200.0, "{} s", reduced.estimate_s());
    assert_eq!(reduced.experiments[0].repeats, 6, "enough for an interval");
    let specs: Vec<Spec> =
        experiments::names().map(|name| experiments::spec(name).unwrap()).collect();
    let all = resolve("x", &specs, &Overrides::default(), three()).unwrap();
    for run in &all.experiments {
        assert_eq!(run.repeats, 6, "{}: {:?}", run.name, run.taken_back);
    }
    let budgets_s: u64 = all.experiments.iter().filter_map(|run| run.budget_s).sum();
    // Estimates are of what takes longest: two cores are through with all after six tenths of it.
    assert!(
        budgets_s <= 900,
        "the grids `reduced` have budgets of {budgets_s} s, above 900 s: lower the `budget_s` of \
         the new grid, or of another one"
    );
    let full = resolved(&Overrides { grid: GridName::Full, ..Default::default() }, three());
    assert!(full.estimate_s() < 5_400.0, "{} s", full.estimate_s());
    assert!(full.experiments[0].repeats >= 6);
    assert!(full.experiments[0].loads.iter().all(|load| load.duration_ns == 200_000_000));
    let published = Overrides { grid: GridName::Published, ..Default::default() };
    let published = &resolved(&published, three()).experiments[0];
    assert_eq!(published.budget_s, None);
}

/// Seconds that a run of the default set may take.
const DEFAULT_S: f64 = 240.0;
/// Seconds of these that are not the experiments': devices are opened, reports written.
const BESIDE_S: f64 = 20.0;

#[test]
fn the_default_run_asks_seven_questions_and_ends_within_four_minutes() {
    let specs = experiments::names().map(|name| experiments::spec(name).unwrap());
    let short: Vec<Spec> = specs.filter(|spec| spec.short.is_some()).collect();
    let names: Vec<&str> = short.iter().map(|spec| spec.name.as_str()).collect();
    let expected = [
        "occupancy",
        "update-rate",
        "hash-skew",
        "echo-size",
        "memcached",
        "program-cost",
        "kvs-steering",
    ];
    assert_eq!(names, expected);
    // Two devices that can do everything, and one in virtual time: more than the three there are.
    let mut devices = vec![device("soft", &[]), device("linux:veth", &[])];
    let about = DeviceInfo { in_virtual_time: true, ..device("model:connectx-5", &[]).about };
    let name = "model:connectx-5".into();
    devices.push(RunDevice { name, variant: None, absent: None, about });
    let overrides = Overrides { grid: GridName::Short, ..Default::default() };
    let run = resolve("x", &short, &overrides, devices).unwrap();
    for experiment in &run.experiments {
        assert_eq!(experiment.taken_back, [""; 0], "{}", experiment.name);
        assert!(
            experiment.estimate_s <= experiment.budget_s.unwrap() as f64,
            "{}",
            experiment.name
        );
    }
    // An experiment that takes longer than its estimate is cut at its budget.
    let end_s: f64 = run.experiments.iter().filter_map(ExperimentRun::end_s).sum();
    assert!(end_s + BESIDE_S <= DEFAULT_S, "{end_s} s");
    let first = run.experiments[0].end_s().unwrap() + BESIDE_S / 2.0;
    assert!(first <= 60.0, "a picture in one minute: {first} s");
}

#[test]
fn a_short_grid_that_an_experiment_has_not_is_refused() {
    let overrides = Overrides { grid: GridName::Short, ..Default::default() };
    let spec = experiments::spec("stream").unwrap();
    let error = resolve("x", &[spec], &overrides, three()).unwrap_err().to_string();
    assert!(error.contains("stream has no grid `short`"), "{error}");
}

#[test]
fn the_published_places_are_all_in_the_published_grid() {
    let published = Overrides { grid: GridName::Published, ..Default::default() };
    let run = &resolved(&published, three()).experiments[0];
    let is_measured = |groups: f64, rules: f64| {
        let place = (Coordinate::Number(groups), Coordinate::Number(rules));
        run.trials.iter().any(|t| (&t.point["groups"], &t.point["rules"]) == (&place.0, &place.1))
    };
    use crate::published::{Figure, series};
    for curve in series(Figure::ThroughputRoot, PublishedCard::Cx5, 1.0) {
        assert!(curve.points.iter().all(|p| is_measured(0.0, p.x)));
    }
    for curve in series(Figure::ThroughputGroups, PublishedCard::Cx5, 1.0) {
        let groups = curve.name.rsplit(['-', ' ']).next().unwrap().parse().unwrap();
        let places = curve.points.iter().filter(|p| p.x > 0.0);
        assert!(places.clone().all(|p| is_measured(groups, p.x)), "{}", curve.name);
        assert!(places.count() > 10);
    }
}

#[test]
fn too_long_a_plan_is_cut_to_its_budget() {
    let mut spec = experiments::spec("occupancy").unwrap();
    spec.reduced.budget_s = Some(40);
    spec.reduced.repeats_min = 1;
    let run = resolve("x", &[spec.clone()], &Overrides::default(), three()).unwrap();
    let repeats = run.experiments[0].repeats;
    assert!(run.estimate_s() <= 40.0 && repeats < 6);
    let message = [format!("{repeats} of 6 repeats, to fit the budget of 40 s")];
    assert_eq!(run.experiments[0].taken_back, message);
    assert_eq!(Run::from_toml(&run.to_toml().unwrap()).unwrap(), run);
    let asked = Overrides { repeats: Some(20), ..Default::default() };
    let run = resolve("x", &[spec], &asked, three()).unwrap();
    assert_eq!((run.experiments[0].repeats, run.experiments[0].budget_s), (20, None));
    assert!(run.experiments[0].taken_back.is_empty());
}

#[test]
fn repeats_are_kept_to_their_floor_and_what_does_not_fit_then_says_so() {
    let full = Overrides { grid: GridName::Full, ..Default::default() };
    let mut spec = experiments::spec("occupancy").unwrap();
    assert!(spec.full.repeats_min as usize >= INTERVAL_REPEATS_MIN, "--full keeps its intervals");
    spec.full.repeats_min = 5;
    let mut with = |budget_s| {
        spec.full.budget_s = Some(budget_s);
        resolve("x", &[spec.clone()], &full, three()).unwrap().experiments.remove(0)
    };
    // Five of six repeats would do for five sixths.
    let budget_s = with(1_000_000).estimate_s as u64 * 3 / 5;
    let halved = with(budget_s);
    assert_eq!(halved.repeats, 5, "the floor");
    let repeats = |budget_s| format!("5 of 6 repeats, to fit the budget of {budget_s} s");
    let duration_ms = halved.loads[0].duration_ns as f64 / 1e6;
    let expected = format!("{duration_ms} of 200 ms a trial, to fit the budget of {budget_s} s");
    assert!((10.0..200.0).contains(&duration_ms), "{duration_ms}");
    assert_eq!(halved.taken_back, [repeats(budget_s), expected]);
    assert!(halved.estimate_s <= budget_s as f64 && halved.budget_s == Some(budget_s));
    let long = with(60);
    let estimate_s = long.estimate_s.ceil() as u64;
    assert_eq!((long.repeats, long.end_s()), (5, Some(estimate_s as f64)), "it goes on to its end");
    let expected = format!("will take {estimate_s} s, longer than its budget of 60 s");
    let message = long.plan_words();
    assert_eq!((&message[0], &message[2]), (&repeats(60), &expected));
}

#[test]
fn a_device_that_joins_late_takes_its_time_and_the_budget_says_so() {
    let mut spec = experiments::spec("occupancy").unwrap();
    spec.reduced.repeats_min = spec.reduced.repeats;
    let mut devices = three();
    devices.truncate(2);
    devices[1] = RunDevice { absent: Some("no such device".into()), ..device("second", &[]) };
    let mut resolved = |budget_s| {
        spec.reduced.budget_s = Some(budget_s);
        resolve("x", &[spec.clone()], &Overrides::default(), devices.clone()).unwrap()
    };
    let alone_s = resolved(1_000_000).estimate_s();
    let mut run = resolved(alone_s as u64 + 10);
    let before = &run.experiments[0];
    assert_eq!((before.plan_words(), before.end_s()), (vec![], Some((alone_s as u64 + 10) as f64)));
    assert!(run.rejoin(&[device("soft", &[]), device("second", &[])]));
    let joined = &run.experiments[0];
    assert!((joined.estimate_s / alone_s - 2.0).abs() < 0.01, "{}", joined.estimate_s);
    assert_eq!(joined.end_s(), Some(joined.estimate_s.ceil()), "it goes on to its end");
    let (estimate_s, budget_s) = (joined.estimate_s.ceil(), alone_s as u64 + 10);
    let message = format!("will take {estimate_s} s, longer than its budget of {budget_s} s");
    assert_eq!(joined.plan_words(), [message]);
}

#[test]
fn a_trace_brings_its_own_flows_and_frames() {
    let frames = TraceFrames { frames: 9, flows: 3, frame_len_max: 4_000, ..Default::default() };
    let trace = Some(Trace { path: "a.pcap".into(), frames });
    let run = resolved(&Overrides { trace: trace.clone(), ..Default::default() }, three());
    assert_eq!(run.trace, trace);
    let text = run.to_toml().unwrap();
    assert_eq!(Run::from_toml(&text).unwrap(), run);
    for never_sent in ["count = 10000", "fixed = 64"] {
        let rules = text.find("[[experiments.setups").unwrap();
        assert!(!text[..rules].contains(never_sent), "{never_sent}: {}", &text[..rules]);
    }
    let run = &run.experiments[0];
    assert_eq!(run.loads.len(), 1);
    assert_eq!(run.loads[0].trace.as_deref(), Some(std::path::Path::new("a.pcap")));
    assert!(run.setups.iter().all(|setup| setup.frame_len_max == 4_000));
    let word = Coordinate::Word("trace".into());
    assert!(run.trials.iter().all(|trial| trial.point["frame"] == word));
    let full = Overrides { trace: trace.clone(), grid: GridName::Full, ..Default::default() };
    let knees = resolved(&full, three()).experiments.remove(0).knees;
    assert!(!knees.is_empty() && knees.iter().all(|knee| knee.spec.match_percent == 0));
    let flows = Coordinate::Number(3.0);
    assert!(run.trials.iter().all(|trial| trial.point["flows"] == flows));
    for set in ["flows=1", "frame=64", "match_percent=50"] {
        let overrides = Overrides { trace: trace.clone(), ..with(&[set]) };
        let specs = [experiments::spec("occupancy").unwrap()];
        let error = resolve("x", &specs, &overrides, three()).unwrap_err();
        assert!(matches!(error, SpecError::OfTrace { .. }), "{error}");
    }
}

#[test]
fn rules_of_a_file_bring_the_rules_of_occupancy_and_stand_beside_those_of_the_others() {
    let path = "a.flow".into();
    let rules = Some(RulesFile { path, rules_count: 9, queues: 1, rules_met: None });
    let overrides = Overrides { rules, ..with(&["rules=7"]) };
    for (name, is_allowed) in [("occupancy", false), ("update-rate", true), ("rule-rate", true)] {
        let found = resolve("x", &[experiments::spec(name).unwrap()], &overrides, three());
        assert_eq!(found.is_ok(), is_allowed, "{name}");
    }
    let skew = [experiments::spec("hash-skew").unwrap()];
    let error = resolve("x", &skew, &Overrides { set: vec![], ..overrides }, three());
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("--rules: hash-skew measures frames that no rule"), "{error}");
}

#[test]
fn a_trace_is_spread_over_each_number_of_queues_as_popular_as_it_is() {
    let frames = TraceFrames { flows: 3, frame_len_max: 4_000, ..TraceFrames::default() };
    let trace = Some(Trace { path: "a.pcap".into(), frames });
    let overrides = Overrides { trace, ..with(&["queues=2,4", "cores=1,each"]) };
    let skew = [experiments::spec("hash-skew").unwrap()];
    let run = resolve("x", &skew, &overrides, three()).unwrap().experiments.remove(0);
    let at = |trial: &Trial, axis: &str| trial.point[axis].to_string();
    let place = |trial: &Trial| ["queues", "cores", "flows", "zipf"].map(|axis| at(trial, axis));
    let mut places: Vec<[String; 4]> = run.trials.iter().map(place).collect();
    places.sort();
    let want = [["2", "1"], ["2", "2"], ["4", "1"], ["4", "4"]];
    assert_eq!(places, want.map(|[queues, cores]| [queues, cores, "3", "trace"].map(String::from)));
}

#[test]
fn values_out_of_range_are_refused_before_anything_runs() {
    let specs = [experiments::spec("occupancy").unwrap()];
    let refused =
        |text: &str| resolve("x", &specs, &with(&[text]), three()).unwrap_err().to_string();
    assert!(refused("frame=63").contains("64 to 9000"));
    assert!(refused("groups=many").contains("give numbers"));
    assert!(refused("match_percent=101").contains("0 to 100"));
    let known = [("occupancy", "saturate, latency, light"), ("update-rate", "saturate, latency")];
    for (name, known) in known {
        let mut spec = experiments::spec(name).unwrap();
        let batch = vec![BATCH];
        match name {
            "occupancy" => spec.reduced.of_mut::<occupancy::Parts>().sweep[0].trials = batch,
            _ => spec.reduced.of_mut::<update_rate::Parts>().rule_churn[0].trials = batch,
        }
        let error = resolve("x", &[spec], &Overrides::default(), three()).unwrap_err().to_string();
        assert_eq!(error, format!("{name}: trials = batch: use {known}"));
    }
    let none = resolve("x", &specs, &Overrides::default(), Vec::new()).unwrap_err();
    assert!(matches!(none, SpecError::NoDevice));
}

#[test]
fn a_value_that_combines_with_no_other_is_reported() {
    let message = |name: &str, set: &[&str]| {
        let run = resolve("x", &[experiments::spec(name).unwrap()], &with(set), three()).unwrap();
        let words = run.experiments[0].plan_words().into_iter();
        words.filter(|words| !words.contains("to fit the budget")).collect::<Vec<String>>()
    };
    let of = |what: &str| {
        format!("no trial uses {what}: it cannot be combined with the other values given")
    };
    assert_eq!(message("rule-rate", &["threads=1", "calls=single,queue"]), [of("calls=single")]);
    let changes = ["change=actions,values", "calls=queue", "traffic=none"];
    assert_eq!(message("rule-update", &changes), [of("change=values")]);
    let alone = ["traffic=none", "core=distinct", "calls=single"];
    assert_eq!(message("rule-update", &alone), [of("core=distinct")]);
    assert_eq!(message("rule-rate", &["calls=single,queue"]), Vec::<String>::new());
}

#[test]
fn numbers_that_nothing_has_are_refused_with_their_place() {
    let run = resolved(&Overrides::default(), three());
    let refused = |change: fn(&mut ExperimentRun)| {
        let mut run = run.clone();
        change(&mut run.experiments[0]);
        Run::from_toml(&run.to_toml().unwrap()).unwrap_err().to_string()
    };
    let name = &run.experiments[0].name;
    let message =
        |what: &str| format!("run.toml: {name}: {what}, which is not there; start a new run");
    type Change = fn(&mut ExperimentRun);
    let changes: [(Change, &str); 5] = [
        (
            |of| of.trials[1].task = TaskIndex::Serve { serving: 0 },
            "trial 1 has Serve { serving: 0 }",
        ),
        (|of| of.trials[1].task = TaskIndex::offer(of.loads.len()), "has Offer { load: "),
        (
            |of| of.trials[0].task = TaskIndex::Operate { plan: 99 },
            "trial 0 has Operate { plan: 99 }",
        ),
        (|of| of.trials[0].setup = usize::MAX >> 1, "trial 0 has set-up"),
        (|of| of.order[0].device = 3, "device: 3"),
    ];
    for (change, what) in changes {
        let error = refused(change);
        assert!(error.contains(what) && error.contains("which is not there"), "{error}");
    }
    assert!(refused(changes[0].0).starts_with(&message(changes[0].1)));
}

#[test]
fn a_stored_trial_has_one_task() {
    let head = "kind = \"saturate\"\nsetup = 0\nrate = \"saturate\"\npoint = {}\n";
    let read = |task: &str| {
        let read = toml::from_str::<Trial>(&format!("{head}{task}"));
        read.map(|trial| trial.task).map_err(|error| error.to_string())
    };
    let tasks = [
        ("load = 1", TaskIndex::offer(1)),
        ("load = 1\nplan = 2", TaskIndex::Offer { load: 1, plan: Some(2) }),
        ("plan = 1", TaskIndex::Operate { plan: 1 }),
        ("round_trips = 1", TaskIndex::RoundTrips { round_trips: 1 }),
        ("application = 1", TaskIndex::Apply { application: 1 }),
        ("stream = 1", TaskIndex::Stream { stream: 1 }),
        ("processing = 1", TaskIndex::Process { processing: 1 }),
        ("serving = 1", TaskIndex::Serve { serving: 1 }),
    ];
    for (text, task) in tasks {
        assert_eq!(read(text), Ok(task));
        let (kind, rate, point) = (TrialKind::SATURATE, PlannedRate::Saturate, Point::new());
        let stored = toml::to_string(&Trial { kind, setup: 0, task, rate, point }).unwrap();
        assert!(stored.contains(text), "{stored}");
    }
    for text in ["", "load = 1\nstream = 1", "plan = 1\nround_trips = 1", "load = 1\nlaod = 2"] {
        let error = read(text).unwrap_err();
        assert!(error.contains("a trial has one of: load, alone or with a plan"), "{error}");
    }
}
