//! Runs of simulated devices beside earlier ones, whose ratio is known.

use niclab_result::{BASELINE_SENTENCES_MAX, Figure, Origin, Series};

use super::*;
use crate::simulated::{Bench, Nature};
use crate::summary::summarize;

const SMALL: [&str; 3] = ["groups=0", "rules=0,16", "frame=64"];

/// The same device at another speed. Without noise each ratio is the one of the speeds.
fn executed(plateau_pps: f64, set: &[&str], repeats: u32) -> Bench {
    executed_as(Nature { plateau_pps, noise: 0.0, ..Nature::default() }, set, repeats)
}

fn executed_as(nature: Nature, set: &[&str], repeats: u32) -> Bench {
    let mut bench = Bench::new(vec![nature], set, repeats);
    bench.execute();
    bench
}

fn read(bench: &Bench) -> ReadRun<'_> {
    ReadRun { run: &bench.run, samples: &bench.store.samples, machine: None, rules: None }
}

/// The summary of a run beside that of an earlier one.
fn compared(base: &Bench, now: &Bench) -> Summary {
    compared_as(read(base), base, read(now), now)
}

fn compared_as(base: ReadRun<'_>, of: &Bench, now: ReadRun<'_>, bench: &Bench) -> Summary {
    let mut summary = summarize(now.run, now.samples, &bench.store.latencies);
    let baseline = Baseline { directory: "earlier", read: base, latencies: &of.store.latencies };
    add(&mut summary, &now, &baseline);
    summary
}

fn of(summary: &Summary) -> &BaselineSummary {
    summary.baseline.as_ref().unwrap()
}

fn figures(summary: &Summary) -> impl Iterator<Item = &Figure> {
    summary.experiments.iter().flat_map(|experiment| &experiment.figures)
}

fn earlier(figure: &Figure) -> Vec<&Series> {
    figure.series.iter().filter(|series| series.origin == Origin::Baseline).collect()
}

#[test]
fn a_device_that_is_a_fifth_slower_is_reported_with_both_medians() {
    let (fast, slow) = (executed(10e6, &SMALL, 6), executed(8e6, &SMALL, 6));
    let summary = compared(&fast, &slow);
    let since = of(&summary);
    let VerdictCounts { worse, .. } = since.counts;
    let (all, start) = (since.counts.all(), format!("{worse} of "));
    assert!(worse > 0 && since.sentences[0].starts_with(&start), "{since:?}");
    assert!(
        since.sentences[0]
            .contains(&format!("of {all} compared points are worse by more than 5 %"))
    );
    let sentence = "20 % lower throughput_pps on simulated: 8.00 Mpps instead of 10.0 Mpps";
    let found = since.sentences.iter().find(|text| text.starts_with(sentence));
    let found = found.unwrap_or_else(|| panic!("{:#?}", since.sentences));
    assert!(found.contains("in occupancy, saturate; "), "{found}");
    assert!(found.ends_with("points are worse."), "{found}");
    assert_eq!(
        (since.directory.as_str(), since.started.as_str()),
        ("earlier", "2027-01-15T08:00:00Z")
    );
    let back = compared(&slow, &fast);
    let found = of(&back).sentences.iter().find(|text| text.contains("throughput_pps"));
    let found = found.unwrap_or_else(|| panic!("{:#?}", of(&back).sentences));
    assert!(found.starts_with("25 % higher ") && found.ends_with("are better."), "{found}");
}

#[test]
fn the_earlier_curve_is_behind_its_own_and_has_its_colour() {
    let summary = compared(&executed(10e6, &SMALL, 6), &executed(8e6, &SMALL, 6));
    let figure = figures(&summary).find(|figure| figure.id.contains("throughput")).unwrap();
    let at = figure.series.iter().position(|series| series.origin == Origin::Baseline).unwrap();
    let (now, before) = (&figure.series[at - 1], &figure.series[at]);
    assert_eq!(before.name, format!("{} before (2027-01-15 08:00)", now.name));
    assert_eq!((before.hue, before.hue.is_some()), (now.hue, true));
    assert_eq!(before.points.len(), now.points.len());
    for (before, now) in before.points.iter().zip(&now.points) {
        assert!((now.y / before.y - 0.8).abs() < 1e-3, "{} beside {}", now.y, before.y);
    }
    assert_eq!(before.points[0].repeats, 6);
}

#[test]
fn statements_about_the_run_itself_do_not_depend_on_the_baseline() {
    let slow = executed(8e6, &SMALL, 6);
    let alone = summarize(&slow.run, &slow.store.samples, &slow.store.latencies);
    let mut summary = compared(&executed(10e6, &SMALL, 6), &slow);
    summary.baseline = None;
    for figure in summary.experiments.iter_mut().flat_map(|experiment| &mut experiment.figures) {
        figure.series.retain(|series| series.origin != Origin::Baseline);
    }
    assert_eq!(summary, alone);
}

#[test]
fn a_run_that_changed_nothing_says_so_and_draws_its_curves_once() {
    let summary = compared(&executed(10e6, &SMALL, 6), &executed(10e6, &SMALL, 6));
    let since = of(&summary);
    assert_eq!(
        (since.counts.worse, since.counts.better, since.counts.open),
        (0, 0, 0),
        "{since:?}"
    );
    let all = since.counts.all();
    assert!(all > 10, "{all}");
    let expected = format!("All {all} compared points are the same within 5 %.");
    assert_eq!(since.sentences, [expected]);
    assert!(figures(&summary).all(|figure| earlier(figure).is_empty()));
    assert_eq!(since.caution, "");
}

#[test]
fn points_that_only_one_run_has_are_not_drawn() {
    let base = executed(10e6, &["groups=0", "rules=0,16,64,256", "frame=64"], 6);
    let summary = compared(&base, &executed(8e6, &["groups=0", "rules=16,64", "frame=64"], 6));
    let figure = figures(&summary).find(|figure| figure.id.contains("throughput")).unwrap();
    let before = earlier(figure);
    let places: Vec<f64> = before[0].points.iter().map(|point| point.x).collect();
    assert_eq!((before.len(), places), (1, vec![16.0, 64.0]));
}

#[test]
fn frames_of_another_size_are_neither_compared_nor_drawn() {
    let of_512 = ["groups=0", "rules=0,16", "frame=512"];
    let (base, now) = (executed(10e6, &SMALL, 6), executed(1e6, &of_512, 6));
    assert!(!shares_trials(&read(&base), &now.run));
    let summary = compared(&base, &now);
    assert_eq!(of(&summary).sentences[0], "No point was measured in both runs.");
    assert!(figures(&summary).all(|figure| earlier(figure).is_empty()));
}

#[test]
fn a_plan_without_common_points_is_refused_before_it_is_measured() {
    let base = executed(10e6, &SMALL, 1);
    let planned = |experiment: &str, names: &[&'static str], set: &[&str]| {
        let natures = names.iter().map(|name| Nature { name, ..Nature::default() }).collect();
        Bench::of(experiment, natures, set, 1).run
    };
    let shares = |run: Run| shares_trials(&read(&base), &run);
    assert!(shares(planned("occupancy", &["simulated"], &["groups=0", "rules=16,64"])));
    assert!(shares(planned("occupancy", &["another"], &SMALL)), "one device each");
    assert!(shares(planned("occupancy", &["another", "simulated"], &SMALL)));
    assert!(!shares(planned("occupancy", &["one", "another"], &SMALL)), "no device of that name");
    assert!(!shares(planned("update-batch", &["simulated"], &[])), "another experiment");
    let mut nothing = executed(10e6, &SMALL, 1);
    nothing.store.samples.retain(|sample| sample.trial == SETUP);
    assert!(!shares_trials(&read(&nothing), &planned("occupancy", &["simulated"], &SMALL)));
}

#[test]
fn the_earlier_curve_of_a_renamed_device_keeps_its_name() {
    let base = executed_as(Nature { name: "older", noise: 0.0, ..Nature::default() }, &SMALL, 6);
    let summary = compared(&base, &executed(8e6, &SMALL, 6));
    let names: Vec<&str> =
        figures(&summary).flat_map(earlier).map(|series| series.name.as_str()).collect();
    assert!(!names.is_empty() && names.iter().all(|name| name.starts_with("older")), "{names:?}");
}

#[test]
fn too_few_repeats_decide_nothing_and_the_sentence_has_the_remedy() {
    let summary = compared(&executed(10e6, &SMALL, 2), &executed(8e6, &SMALL, 2));
    let since = of(&summary);
    assert_eq!(
        (since.counts.worse, since.counts.better, since.counts.same),
        (0, 0, 0),
        "{since:?}"
    );
    let all = since.counts.all();
    let expected =
        format!("No verdict on {all} compared points: most have too few repeats, use --repeats 6.");
    assert_eq!(since.sentences, [expected]);
}

/// The same trials under other names: they are other metrics.
fn repeat_saturating_trials(bench: &mut Bench) {
    let saturate: Vec<Sample> =
        bench.store.samples.iter().filter(|of| of.trial == "saturate").cloned().collect();
    for copy in 0..9 {
        let trial = format!("saturate-{copy}");
        let copies = saturate.iter().map(|of| Sample { trial: trial.clone(), ..of.clone() });
        bench.store.samples.extend(copies);
    }
}

#[test]
fn there_are_seven_sentences_at_most_and_the_last_counts_the_others() {
    let set = ["groups=0,1", "rules=0,16", "frame=64"];
    let mut benches = [10e6, 8e6].map(|pps| executed(pps, &set, 6));
    benches.iter_mut().for_each(repeat_saturating_trials);
    let summary = compared(&benches[0], &benches[1]);
    let sentences = &of(&summary).sentences;
    assert_eq!(sentences.len(), BASELINE_SENTENCES_MAX, "{sentences:#?}");
    assert!(sentences[6].ends_with(" more changes: niclab compare lists them."), "{sentences:#?}");
}

#[test]
fn lost_capabilities_come_before_regressions() {
    let base = executed(10e6, &SMALL, 6);
    let nature = Nature {
        plateau_pps: 8e6,
        noise: 0.0,
        not_supported: vec!["latency"],
        ..Nature::default()
    };
    let summary = compared(&base, &executed_as(nature, &SMALL, 6));
    let sentences = &of(&summary).sentences;
    assert!(sentences[1].starts_with("simulated no longer measures "), "{sentences:#?}");
    assert!(sentences[1].contains("(not supported: latency)"), "{sentences:#?}");
    let is_slower = |text: &String| text.contains(" lower throughput_pps ");
    assert!(sentences[2..].iter().any(is_slower), "{sentences:#?}");
}

#[test]
fn machines_and_programs_that_differ_are_named_in_one_line() {
    let (base, now) = (executed(10e6, &SMALL, 6), executed(10e6, &SMALL, 6));
    let machine = |cpu: &str| Environment {
        facts: [("cpu", cpu), ("load average", cpu)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        ..Environment::default()
    };
    let [one, two] = ["one", "two"].map(machine);
    let mut run = now.run.clone();
    run.program = "niclab 9".into();
    let summary = compared_as(
        ReadRun { machine: Some(&one), ..read(&base) },
        &base,
        ReadRun { machine: Some(&two), run: &run, ..read(&now) },
        &now,
    );
    let since = of(&summary);
    assert_eq!(
        since.caution,
        "The two runs differ (earlier against now): program: niclab 0.1.0 against niclab \
         9; cpu: one against two."
    );
    assert_eq!(since.differences.len(), 2);
    let many: Vec<String> = (0..6).map(|at| format!("fact {at}")).collect();
    assert!(caution(&many).ends_with("fact 3; and 2 more."), "{}", caution(&many));
}

#[test]
fn a_device_that_only_the_earlier_run_has_is_named() {
    let natures = || ["one", "two"].map(|name| Nature { name, noise: 0.0, ..Nature::default() });
    let mut base = Bench::new(natures().to_vec(), &SMALL, 6);
    base.execute();
    let mut now = Bench::new(natures()[..1].to_vec(), &SMALL, 6);
    now.execute();
    let summary = compared(&base, &now);
    let last = of(&summary).sentences.last().unwrap();
    assert_eq!(last, "Only the earlier run measured two.");
}

#[test]
fn a_device_that_only_the_earlier_run_has_comes_before_any_number_of_changes() {
    let run = |pps: f64, names: &[&'static str]| {
        let nature = |&name| Nature { name, plateau_pps: pps, noise: 0.0, ..Nature::default() };
        let mut bench = Bench::new(names.iter().map(nature).collect(), &SMALL, 6);
        bench.execute();
        repeat_saturating_trials(&mut bench);
        bench
    };
    let summary = compared(&run(10e6, &["one", "two"]), &run(8e6, &["one"]));
    let sentences = &of(&summary).sentences;
    assert_eq!(sentences.len(), BASELINE_SENTENCES_MAX, "{sentences:#?}");
    assert_eq!(sentences[1], "Only the earlier run measured two.");
    assert!(sentences[6].ends_with(" more changes: niclab compare lists them."), "{sentences:#?}");
}

#[test]
fn an_earlier_device_that_measured_nothing_lends_its_name_to_no_other() {
    let natures =
        ["simulated", "older"].map(|name| Nature { name, noise: 0.0, ..Nature::default() });
    let mut base = Bench::new(natures.to_vec(), &SMALL, 6);
    base.execute();
    base.store.samples.retain(|sample| sample.device == "older");
    let now = executed(8e6, &SMALL, 6);
    let compared = compare_devices(&read(&base), &read(&now));
    let earlier = curves::earlier(&compared, &base.store.latencies).unwrap();
    let names: Vec<&str> = earlier.devices.iter().map(|device| device.device.as_str()).collect();
    assert_eq!(names, ["simulated"]);
}
