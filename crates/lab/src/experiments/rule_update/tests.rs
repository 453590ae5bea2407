//! Rule updates on a simulated device with known rates, and the findings from them.

use niclab_device::{Action, CallMode, ControlCore, Plan, RuleChangeKind as Replaced, RuleWork};
use niclab_result::Summary;

use super::spec::RuleUpdateSweep;
use super::trials::{UpdateKind, UpdateTask, places};
use crate::simulated::{Bench, Nature, cell_at as cell, finding_value as value};
use crate::spec::RulesFile;
use crate::summary::summarize;
use crate::values::Values;

fn measured(set: &[&str]) -> (Bench, Summary) {
    let nature = Nature { noise: 0.0, ..Nature::default() };
    let mut bench = Bench::of("rule-update", vec![nature], set, 6);
    bench.execute();
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    (bench, summary)
}

#[test]
fn the_gain_of_a_change_in_place_on_a_known_device_is_found() {
    let (bench, summary) = measured(&["rules=16k", "calls=single,transaction,queue"]);
    let table = &summary.experiments[0].tables[0];
    let at = |change, calls| [("group", "1"), ("change", change), ("calls", calls)];
    let actions = at("new actions, in place", "single");
    assert_eq!(cell(table, &actions, "call p50"), "1.00 us");
    assert_eq!(cell(table, &actions, "against anew"), "2.00 (2.00 to 2.00)");
    assert_eq!(cell(table, &at("destroyed and created", "single"), "call p50"), "2.00 us");
    assert_eq!(cell(table, &at("destroyed and created", "single"), "against anew"), "-");
    let near = |found: f64, known: f64| (found / known - 1.0).abs() < 0.01;
    assert!(near(value(&summary, "update-rate-group1"), 1e6));
    assert!(near(value(&summary, "in-place-values-group1"), 2.0));
    assert!(near(value(&summary, "update-transaction-group1"), 50.0));
    let through_queue = bench.run.experiments[0].trials.iter().filter(|trial| {
        let word = |axis: &str| trial.point.get(axis).map(ToString::to_string).unwrap_or_default();
        word("calls") == "queue"
            && ["values", "mask", "priority"].contains(&word("change").as_str())
    });
    assert_eq!(through_queue.count(), 0);
}

/// What is implied of changes of values in place, of new actions, and of a transaction, where the
/// rates of the two, and the time of the last, are these multiples of what they are. Multiples
/// stand by repeat.
fn implied(factors: [f64; 6]) -> [Option<String>; 3] {
    let (mut bench, _) = measured(&["rules=16k", "calls=single,transaction"]);
    for sample in &mut bench.store.samples {
        let word = |axis: &str| sample.point.get(axis).map(ToString::to_string).unwrap_or_default();
        let metric = match (word("change").as_str(), word("calls").as_str()) {
            ("values" | "actions", "single") => "operations_per_s",
            ("actions", "transaction") => "control_ns_per_operation",
            _ => continue,
        };
        let value = sample.metrics.get_mut(metric);
        value.into_iter().for_each(|it| it.value *= factors[sample.repeat as usize]);
    }
    let summary = summarize(&bench.run, &bench.store.samples, &bench.store.latencies);
    ["in-place-values", "update-rate", "update-transaction"].map(|id| {
        let id = format!("simulated-{id}-group1");
        let found = summary.findings.iter().find(|finding| finding.id == id);
        found.map(|finding| finding.implication.clone())
    })
}

#[test]
fn the_implication_of_a_gain_depends_on_its_ratio() {
    let [values, actions, transaction] = implied([1.0; 6]).map(Option::unwrap);
    assert_eq!(values, "Changing such rules in place is faster than replacing them.");
    assert_eq!(actions, "Change a rule's actions instead of replacing the rule.");
    assert_eq!(transaction, "This is the cost of an atomic change: no packet matches half of it.");
    let [values, actions, transaction] = implied([0.25; 6]).map(Option::unwrap);
    assert_eq!(values, "Replacing such rules is faster than changing them in place.");
    assert_eq!(actions, "Decisions about flows can change at this rate.");
    assert_eq!(transaction, "An atomic change costs nothing.");
    // A rate stands where the gain is undecided.
    let [values, actions, transaction] = implied([0.25, 1.0, 0.3, 1.1, 0.9, 0.4]);
    assert_eq!((values, transaction), (None, None));
    assert_eq!(actions.unwrap(), "Decisions about flows can change at this rate.");
}

#[test]
fn packets_that_meet_no_rule_are_counted_and_told() {
    let (bench, summary) = measured(&["rules=16k"]);
    let table = &summary.experiments[0].tables[1];
    let at = |change| [("change", change), ("core", "same")];
    assert_eq!(cell(table, &at("new actions, in place"), "none"), "0");
    assert_eq!(value(&summary, "met-actions-same-group0"), 0.0);
    let sample = |change: &str| {
        let is = |sample: &&&niclab_result::Sample| {
            sample.point.get("change").is_some_and(|at| at.to_string() == change)
                && sample.metrics.contains_key("met_none_frames")
        };
        **bench.samples("change").iter().find(is).as_ref().unwrap()
    };
    let anew = sample("anew");
    let met = |name: &str| anew.metrics[&format!("met_{name}_frames")].value;
    assert!(met("none") > 0.0 && met("old") > 0.0 && met("new") > 0.0);
    assert_eq!(value(&summary, "met-anew-same-group0"), 6.0 * met("none"), "of six repeats");
    assert!(cell(table, &at("destroyed and created"), "blocked").starts_with("0 ns"));
}

#[test]
fn the_set_up_tells_old_new_and_none_apart() {
    let change = UpdateTask {
        group: 1,
        rules: 500,
        kind: UpdateKind::Anew,
        calls: CallMode::Single,
        beside: Some((ControlCore::Same, Some(32))),
    };
    let (setup, block) = change.setup(7, 64, None);
    assert_eq!((setup.queues, block, setup.rules.len()), (3, 1, 3));
    let queue = |at: usize| setup.rules[at].place().unwrap().2[0].clone();
    assert_eq!(
        (queue(0), queue(1), queue(2)),
        (Action::Jump(1), Action::Queue(0), Action::Queue(2))
    );
    let Plan::Rules(plan) = change.plan(block, 9) else { panic!("no plan") };
    let new = vec![Action::Queue(1)];
    assert_eq!(plan.work, RuleWork::Change { block: 1, change: Replaced::Anew(new) });
    assert_eq!((plan.start_ns, plan.slice), (9, Some(32)));
    let file = RulesFile { path: "a.flow".into(), rules_count: 9, queues: 8, rules_met: None };
    let (setup, block) = change.setup(7, 64, Some(&file));
    assert_eq!((setup.queues, block), (8, 2));
}

#[test]
fn values_out_of_range_are_refused_with_what_would_be_right() {
    let sweep = crate::experiments::spec("rule-update")
        .unwrap()
        .reduced
        .of::<crate::experiments::rule_update::spec::Parts>()
        .change[0]
        .clone();
    let refused = |edit: fn(&mut RuleUpdateSweep), reason: &str| {
        let mut sweep = sweep.clone();
        edit(&mut sweep);
        let error = places(&sweep).unwrap_err().to_string();
        assert!(error.starts_with(reason), "{error}");
    };
    refused(|s| s.rules = Values::number(0), "rules = 0: use 1 to");
    refused(
        |s| s.change = Values::parse("masks").unwrap(),
        "change = masks: use one of actions, values, mask, priority, anew",
    );
    refused(
        |s| s.traffic = Values::parse("some").unwrap(),
        "traffic = some: use one of none, load",
    );
    refused(|s| s.group = Values::number(2), "group = 2: use 0 to 1");
}
