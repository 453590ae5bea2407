//! Places of `queue-change`, and what its samples say.

use niclab_device::{About, DeviceError, Load, SetupReport, Testbed};
use niclab_load::Latency;
use niclab_result::Summary;

use super::*;
use crate::simulated::cell_at;
use crate::spec::GridName;
use crate::{measure, validation};

fn seen() -> Seen {
    let mut settled = Latency::new();
    (1..=100).for_each(|at| settled.record(at * 1_000));
    Seen {
        changes: 100,
        settled: Some(settled),
        look_ns: 7,
        held_drops: 3,
        answers: [100, 450, 550, 950]
            .map(|at_ns| Answer { at_ns, moved_entries: Some(7) })
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
    let o = Observation { duration_ns: 900, ..Observation::default() };
    put_respread(&mut metrics, &o, &seen());
    let value = |name: &str| metrics[name].value;
    assert_eq!(
        (value("respreads"), value("held_drop_frames"), value("answers")),
        (100.0, 3.0, 4.0)
    );
    assert!((value(SETTLED) / 50_000.0 - 1.0).abs() < 0.01, "{}", value(SETTLED));
    assert!((value("settled_ns_max") / 100_000.0 - 1.0).abs() < 0.01);
    assert_eq!(value(LOOK), 7.0);
    // From 300 on until 600: the last answer at 550.
    assert_eq!(value(REACTION), 250.0);
    let of = |name: &str| THIRDS.map(|third| value(&format!("{name}_{third}")));
    assert_eq!(of("used_cores"), [1.0, 2.0, 1.0]);
    assert_eq!(of("cpu_cores"), [0.5, 1.8, 0.2]);
}

#[test]
fn without_changes_and_answers_there_is_neither_time_nor_reaction() {
    let mut metrics = measure::Metrics::new();
    let o = Observation { duration_ns: 900, ..Observation::default() };
    put_respread(&mut metrics, &o, &Seen::default());
    assert!(!metrics.contains_key(SETTLED) && !metrics.contains_key(REACTION));
    assert!(!metrics.contains_key("cpu_cores_step"), "no stretch was seen");
    let mut late = seen();
    late.answers.retain(|answer| answer.at_ns < 300 || answer.at_ns >= 600);
    let mut metrics = measure::Metrics::new();
    put_respread(&mut metrics, &o, &late);
    assert!(!metrics.contains_key(REACTION), "no answer fell into the step");
}

#[test]
fn a_step_is_the_middle_third() {
    assert_eq!(step(900), (300, 600));
    let place = |step| Respread {
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

/// A card whose spread can be changed, and which does as it is told here.
struct Told {
    about: About,
    loses: u64,
    passes: u64,
}

impl Testbed for Told {
    fn about(&self) -> &About {
        &self.about
    }

    fn setup(&mut self, _: &Setup) -> Result<SetupReport, DeviceError> {
        Ok(SetupReport::default())
    }

    fn run(&mut self, load: &Load, plan: &Plan) -> Result<Observation, DeviceError> {
        let Plan::Spread(plan) = plan else { panic!("{plan:?}") };
        let stretches = (load.duration_ns / 10_000_000) as usize;
        let (from_ns, until_ns) = step(load.duration_ns);
        let is_high = |at: usize| (from_ns..until_ns).contains(&(at as u64 * 10_000_000 + 1));
        let saves = plan.answer == Some(Answering::SaveCores);
        // The second core rests where cores are saved and load is low.
        let second = |at| if is_high(at) || !saves { 50 } else { 0 };
        let mut respread = Seen {
            changes: if plan.change.is_some() { 40 } else { 0 },
            stretch_ns: 10_000_000,
            cpu_ns: vec![
                vec![8_000_000; stretches],
                (0..stretches).map(|at| second(at) * 100_000).collect(),
            ],
            frames: vec![vec![100; stretches], (0..stretches).map(second).collect()],
            ..Seen::default()
        };
        if plan.change.is_some() {
            let mut settled = Latency::new();
            (0..40).for_each(|_| settled.record(5_000));
            (respread.settled, respread.look_ns) = (Some(settled), 2_000);
        }
        // Every answer comes 120 ms behind the step, and keys lose what is lost without.
        if plan.answer.is_some() {
            let at_ns = from_ns + 120_000_000;
            respread.answers = vec![Answer { at_ns, moved_entries: None }];
        }
        let lost = match (plan.answer, plan.change) {
            (None, None) => 2_000,
            (Some(Answering::Keys), _) => 2_000,
            (Some(_), _) => 500,
            (None, Some(_)) => self.loses,
        };
        let offered = 20_000;
        let mut o = Observation {
            planned: offered,
            offered,
            received: offered - lost,
            lost,
            reordered: if plan.change.is_some() { self.passes } else { 0 },
            duration_ns: load.duration_ns,
            respread: Some(respread),
            ..Observation::default()
        };
        o.honesty.balanced = true;
        Ok(o)
    }
}

fn found(loses: u64, passes: u64) -> Summary {
    let about = About { name: "card".into(), ..About::default() };
    let mut card = Told { about, loses, passes };
    validation::measure(&mut card, "queue-change", GridName::Reduced, &[], Some(6))
        .unwrap()
        .summary()
}

fn sentence(summary: &Summary, id: &str) -> String {
    let found = summary.findings.iter().find(|finding| finding.id == id);
    found.unwrap_or_else(|| panic!("no {id} in {:#?}", summary.findings)).sentence.clone()
}

#[test]
fn what_changes_and_answers_do_is_said() {
    let summary = found(0, 0);
    let changed = sentence(&summary, "card-spread-changes");
    // Five kinds, forty changes each, six repeats.
    assert!(changed.contains("While card forwarded 600,000 frames, 1,200 changes"), "{changed}");
    assert!(changed.contains("lost none of them"), "{changed}");
    assert!(changed.contains("let none pass another"), "{changed}");
    let seen = "was seen to hold after 5.00 us (the longest after 5.00 us), looked for each 2.00 us";
    assert!(changed.contains(seen), "{changed}");
    let moves = sentence(&summary, "card-answer-moves");
    assert!(moves.contains("2.50 % of the frames are lost, where 10.0 % are without"), "{moves}");
    assert!(moves.contains("120 ms after the step"), "{moves}");
    let words = |id: &str| {
        let found = summary.findings.iter().find(|finding| finding.id == id);
        found.map(|finding| finding.implication.clone()).unwrap_or_default()
    };
    assert!(words("card-answer-moves").starts_with("Let the device answer by itself"));
    assert!(words("card-answer-keys").starts_with("At this load the answer changes little"));
    let saved = sentence(&summary, "card-saved-cores");
    assert!(
        saved.contains("card uses 1.00 of 2 before load steps and 2.00 while it is high"),
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
fn a_card_that_loses_frames_or_their_order_is_told_so() {
    let summary = found(3, 2);
    let changed = sentence(&summary, "card-spread-changes");
    assert!(changed.contains("lost 90 of them"), "{changed}");
    assert!(changed.contains("let 60 pass another"), "{changed}");
}
