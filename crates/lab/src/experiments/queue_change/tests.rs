//! Points of `queue-change`, and the findings from their samples.

use niclab_device::{
    BalanceMode, DeviceError, DeviceInfo, LoadObservation, Observation, Plan, RssChangeKind,
    RssPlan, Setup, SetupReport, Task, Testbed,
};
use niclab_load::{Latency, QueueReaction, RssChanges, Slice};
use niclab_result::Summary;

use super::metrics::{LOOK, REACTION, REACTION_LAST, SETTLED, THIRDS, put_rss_change};
use super::trials::{RssChange, of_repeat};
use crate::run::{PlannedRate, step};
use crate::simulated::cell_at;
use crate::spec::GridName;
use crate::{measure, validation};

fn rss_changes() -> RssChanges {
    let mut settled = Latency::new();
    (1..=100).for_each(|at| settled.record(at * 1_000));
    RssChanges {
        changes: 100,
        settled: Some(settled),
        look_ns: 7,
        held_drops: 3,
        answers: [100, 450, 550, 950]
            .map(|at_ns| QueueReaction { at_ns, moved_entries: Some(7) })
            .to_vec(),
        stretch_ns: 100,
        cpu_ns: vec![
            vec![100, 50, 0, 100, 100, 100, 20, 20, 20],
            vec![0, 0, 0, 80, 80, 80, 0, 0, 0],
        ],
        frames: vec![vec![9, 9, 9, 50, 50, 50, 9, 9, 9], vec![0, 0, 0, 40, 40, 40, 0, 0, 0]],
    }
}

#[test]
fn a_sample_tells_of_each_third_and_of_the_answers_to_the_step() {
    let mut metrics = measure::Metrics::new();
    let o = LoadObservation { duration_ns: 900, ..LoadObservation::default() };
    put_rss_change(&mut metrics, &o, &rss_changes());
    let value = |name: &str| metrics[name].value;
    assert_eq!(
        (value("rss_changes"), value("held_drop_frames"), value("answers")),
        (100.0, 3.0, 4.0)
    );
    assert!((value(SETTLED) / 50_000.0 - 1.0).abs() < 0.01, "{}", value(SETTLED));
    assert!((value("settled_ns_max") / 100_000.0 - 1.0).abs() < 0.01);
    assert_eq!(value(LOOK), 7.0);
    // From 300 on until 600: the first answer at 450, the last at 550.
    assert_eq!((value(REACTION), value(REACTION_LAST)), (150.0, 250.0));
    let of = |name: &str| THIRDS.map(|third| value(&format!("{name}_{third}")));
    assert_eq!(of("used_cores"), [1.0, 2.0, 1.0]);
    assert_eq!(of("cpu_cores"), [0.5, 1.8, 0.2]);
}

#[test]
fn no_changes_and_no_reactions_give_no_times() {
    let mut metrics = measure::Metrics::new();
    let o = LoadObservation { duration_ns: 900, ..LoadObservation::default() };
    put_rss_change(&mut metrics, &o, &RssChanges::default());
    assert!(!metrics.contains_key(SETTLED) && !metrics.contains_key(REACTION));
    assert!(!metrics.contains_key("cpu_cores_step"), "no stretch was seen");
    let mut late = rss_changes();
    late.answers.retain(|answer| answer.at_ns < 300 || answer.at_ns >= 600);
    let mut metrics = measure::Metrics::new();
    put_rss_change(&mut metrics, &o, &late);
    assert!(!metrics.contains_key(REACTION), "no answer fell into the step");
}

#[test]
fn a_step_is_the_middle_third() {
    assert_eq!(step(900), (300, 600));
    let place = |step| RssChange {
        change: None,
        per_s: 1,
        answer: None,
        pps: 100,
        step,
        work_ns: 0,
        queues: 1,
        cores: 1,
        flows: 1,
        zipf: 0.0,
    };
    assert_eq!(place(1).rate(), PlannedRate::Pps(100.0));
    assert_eq!(place(5).rate(), PlannedRate::Step { low_pps: 100.0, high_pps: 500.0 });
}

/// A card whose RSS can be changed, and which behaves as the test says.
#[derive(Default)]
struct Told {
    about: DeviceInfo,
    loses: u64,
    passes: u64,
    /// Under changes of this the machine stalls, and the card loses half of the frames.
    stalls: Option<RssChangeKind>,
}

impl Testbed for Told {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, _: &Setup) -> Result<SetupReport, DeviceError> {
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let Task::Load { load, plan } = task else { return Err(task.not_supported()) };
        let Plan::Rss(plan) = plan else { panic!("{plan:?}") };
        let stretches = (load.duration_ns / 10_000_000) as usize;
        let (from_ns, until_ns) = step(load.duration_ns);
        let is_high = |at: usize| (from_ns..until_ns).contains(&(at as u64 * 10_000_000 + 1));
        let saves = plan.answer == Some(BalanceMode::SaveCores);
        // The second core rests where cores are saved and load is low.
        let second = |at| if is_high(at) || !saves { 50 } else { 0 };
        let mut changes = RssChanges {
            changes: if plan.change.is_some() { 40 } else { 0 },
            stretch_ns: 10_000_000,
            cpu_ns: vec![
                vec![8_000_000; stretches],
                (0..stretches).map(|at| second(at) * 100_000).collect(),
            ],
            frames: vec![vec![100; stretches], (0..stretches).map(second).collect()],
            ..RssChanges::default()
        };
        if plan.change.is_some() {
            let mut settled = Latency::new();
            (0..40).for_each(|_| settled.record(5_000));
            (changes.settled, changes.look_ns) = (Some(settled), 2_000);
        }
        // Answers come 120 and 220 ms behind the step, and keys lose what is lost without.
        if plan.answer.is_some() {
            let at = |ns| QueueReaction { at_ns: from_ns + ns, moved_entries: None };
            changes.answers = vec![at(120_000_000), at(220_000_000)];
        }
        let stalls = plan.change.is_some() && plan.change == self.stalls;
        let lost = match (plan.answer, plan.change) {
            _ if stalls => 10_000,
            (None, None) => 2_000,
            (Some(BalanceMode::Keys), _) => 2_000,
            (Some(_), _) => 500,
            (None, Some(_)) => self.loses,
        };
        let offered = 20_000;
        let mut o = LoadObservation {
            planned: offered,
            offered,
            received: offered - lost,
            lost,
            reordered: if plan.change.is_some() { self.passes } else { 0 },
            duration_ns: load.duration_ns,
            slices: vec![Slice { offered, received: 1, disturbed: stalls, ..Slice::default() }],
            rss_changes: Some(changes),
            ..LoadObservation::default()
        };
        o.honesty.balanced = true;
        Ok(Observation::Load(o))
    }
}

fn found(loses: u64, passes: u64) -> Summary {
    summary(Told { loses, passes, ..Told::default() }, &[], 6)
}

fn summary(card: Told, set: &[&str], repeats: u32) -> Summary {
    let mut card =
        Told { about: DeviceInfo { name: "card".into(), ..DeviceInfo::default() }, ..card };
    validation::measure(&mut card, "queue-change", GridName::Reduced, set, Some(repeats))
        .unwrap()
        .summary()
}

fn sentence(summary: &Summary, id: &str) -> String {
    let found = summary.findings.iter().find(|finding| finding.id == id);
    found.unwrap_or_else(|| panic!("no {id} in {:#?}", summary.findings)).sentence.clone()
}

#[test]
fn the_effects_of_rss_changes_and_reactions_are_reported() {
    let summary = found(0, 0);
    let changed = sentence(&summary, "card-rss-changes");
    // Five kinds, forty changes each, six repeats.
    let wanted = "card lost none of 600,000 frames behind its receive ring (without a change: \
                  12,000 of 120,000) and reordered none during 1,200 RSS changes. A change was in \
                  effect after 5.00 us (longest 5.00 us; checked every 2.00 us). Load: 200,000 64 \
                  B frames a second of 10,000 flows (all equally often), over 8 queues on 2 \
                  cores, at most 100 changes a second.";
    assert!(changed.starts_with(wanted), "{changed}");
    let moves = sentence(&summary, "card-answer-moves");
    assert!(moves.contains("loses 2.50 % of the frames, and 10.0 % without"), "{moves}");
    let when = "first reacts 120 ms after the step (6 of 6 repeats)";
    assert!(moves.contains(when), "{moves}");
    let words = |id: &str| {
        let found = summary.findings.iter().find(|finding| finding.id == id);
        found.map(|finding| finding.implication.clone()).unwrap_or_default()
    };
    assert!(words("card-answer-moves").starts_with("Let the device rebalance by itself"));
    assert!(words("card-answer-keys").starts_with("This makes little difference"));
    let saved = sentence(&summary, "card-saved-cores");
    assert!(
        saved.contains(
            "card with save-cores uses 1.00 cores of 2 before the load step and 2.00 cores while \
             the load is 5 times as high"
        ),
        "{saved}"
    );
    let table = &summary.experiments[0].tables[1];
    let at = [("answer", "save-cores")];
    assert_eq!(cell_at(table, &at, "cores in use"), "1.00 | 2.00 | 1.00");
    assert_eq!(cell_at(table, &[("answer", "moves")], "lost"), "3,000");
    let used = &summary.experiments[0].figures[0];
    let curve = used.series.iter().find(|series| series.name == "save-cores").unwrap();
    let ends = [curve.points.first(), curve.points.last()].map(|point| point.unwrap().y);
    assert_eq!(ends, [1.0, 1.0]);
    assert!(curve.points.iter().any(|point| point.y == 2.0));
}

#[test]
fn a_second_changed_axis_is_in_the_row_and_in_no_curve() {
    let summary = summary(Told::default(), &["change=none,key"], 6);
    let table = &summary.experiments[0].tables[1];
    for change in ["none", "key"] {
        let at = [("answer", "moves"), ("change of", change)];
        assert!(!cell_at(table, &at, "lost").is_empty());
    }
    let used = &summary.experiments[0].figures[0];
    let times = |points: &[niclab_result::Mean]| points.windows(2).all(|two| two[0].x < two[1].x);
    assert!(used.series.iter().all(|series| times(&series.points)), "one load alone");
    let ids: std::collections::BTreeSet<_> = summary.findings.iter().map(|of| &of.id).collect();
    assert_eq!(ids.len(), summary.findings.len());
}

#[test]
fn a_card_that_loses_frames_or_their_order_is_reported() {
    let summary = found(3, 2);
    let changed = sentence(&summary, "card-rss-changes");
    assert!(changed.contains("lost 90 of "), "{changed}");
    assert!(changed.contains("reordered 60 "), "{changed}");
}

#[test]
fn loads_are_told_apart_by_their_axes() {
    let set = ["flows=100,1000", "per_s=10,100"];
    let summary = summary(Told::default(), &set, 6);
    let few = sentence(&summary, "card-rss-changes-flows-100-per_s-10");
    assert!(few.contains(" of 100 flows ") && few.contains("at most 10 changes a second"), "{few}");
    assert!(few.contains("600,000 frames"), "of one load alone: {few}");
    let many = sentence(&summary, "card-answer-moves-flows-1000-per_s-100");
    assert!(many.contains(" of 1,000 flows (Zipf 1), 12.0 us of work each"), "{many}");
    let mut ids: Vec<&str> = summary.findings.iter().map(|of| of.id.as_str()).collect();
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count, "{ids:?}");
}

#[test]
fn values_that_stalls_set_are_left_out_of_the_cost_of_changes() {
    let reported = Told { stalls: Some(RssChangeKind::Key), ..Told::default() };
    let changed = sentence(&summary(reported, &[], 6), "card-rss-changes");
    // Four kinds of five.
    assert!(changed.contains("480,000 frames"), "{changed}");
    assert!(changed.contains("lost none of "), "{changed}");
}

#[test]
fn no_core_is_called_saved_where_load_does_not_step() {
    let summary = summary(Told::default(), &["step=1"], 6);
    assert!(summary.findings.iter().all(|finding| !finding.id.contains("saved")));
}

#[test]
fn cells_without_a_change_are_judged_by_what_they_have() {
    let summary_of = |repeats| summary(Told::default(), &[], repeats);
    let enough = summary_of(6);
    assert_eq!(cell_at(&enough.experiments[0].tables[0], &[("change of", "none")], "marks"), "");
    assert!(!enough.warnings.iter().any(|of| of.contains("fewer repeats")), "{enough:#?}");
    let few = summary_of(3).warnings;
    let message = "card: 10 of 10 rss-change points have fewer repeats";
    assert!(few.iter().any(|of| of.contains(message)), "{few:?}");
}

#[test]
fn each_repeat_draws_changes_of_its_own() {
    let spread =
        RssPlan { change: Some(RssChangeKind::Any), per_s: 1, answer: None, work_ns: 0, seed: 42 };
    let seed = |repeat| match of_repeat(&Plan::Rss(spread), repeat) {
        Some(Plan::Rss(RssPlan { seed, .. })) => seed,
        other => panic!("{other:?}"),
    };
    assert_eq!((seed(0), seed(1) == seed(0), seed(1) == seed(2)), (42, false, false));
    assert_eq!(of_repeat(&Plan::Rest, 1), None);
    let mut card = Seeds::default();
    validation::measure(&mut card, "queue-change", GridName::Reduced, &["change=key"], Some(3))
        .unwrap();
    card.seen.sort_unstable();
    card.seen.dedup();
    assert_eq!(card.seen.len(), 3, "{:?}", card.seen);
}

/// A card that notes the seeds of the plans that it is given.
#[derive(Default)]
struct Seeds {
    about: DeviceInfo,
    seen: Vec<u64>,
}

impl Testbed for Seeds {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, _: &Setup) -> Result<SetupReport, DeviceError> {
        Ok(SetupReport::default())
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        let Task::Load { plan, .. } = task else { return Err(task.not_supported()) };
        let Plan::Rss(plan) = plan else { panic!("{plan:?}") };
        self.seen.push(plan.seed);
        Ok(Observation::Load(LoadObservation::default()))
    }
}
