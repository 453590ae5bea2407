//! Variants of simulated devices, whose every answer is known.

use std::collections::{BTreeMap, BTreeSet};

use niclab_load::{Load, Rate};
use niclab_result::{ExperimentVerdict, Latencies, Outcome, Sample, Summary};

use super::*;
use crate::compare::{CompareOptions, ComparedDevice, UndecidedReason, Verdict, compare};
use crate::run::{Run, Visit};
use crate::runner::{RunEnd, SETUP};
use crate::simulated::{Bench, Nature, cell_at};
use crate::spec::{GridName, Overrides};
use crate::statistics::{Ends, repeats_for};
use crate::summary::summarize;
use crate::summary::variants::{Compared, SECTION, VariantRatio, compared};

/// One point, and its trials.
const ONE: [&str; 3] = ["groups=0", "rules=16", "frame=64"];

fn summary(bench: &Bench) -> Summary {
    summarize(&bench.run, &bench.store.samples, &Latencies::new())
}

fn ratios(bench: &Bench) -> Compared {
    compared(&bench.run, &bench.store.samples)
}

fn executed(nature: Nature, variants: &[&str], set: &[&str], of: (u32, u64)) -> Bench {
    let mut bench = Bench::with_variants(vec![nature], variants, set, of);
    assert_eq!(bench.execute(), RunEnd::Complete);
    bench
}

/// Samples of trials, in the order of measurement.
fn trials(bench: &Bench) -> Vec<&Sample> {
    bench.store.samples.iter().filter(|sample| sample.trial != SETUP).collect()
}

#[test]
fn names_and_numbers_of_variants_are_checked() {
    let read = |text: &str| text.parse::<Variant>();
    let of = read("irq-8_us=ethtool -C eth0 rx-usecs=8").unwrap();
    assert_eq!((of.name.as_str(), of.command.as_str()), ("irq-8_us", "ethtool -C eth0 rx-usecs=8"));
    for text in ["", "a", "a=", "a= ", "=true"] {
        let error = read(text).unwrap_err();
        let expected = matches!(error, VariantError::NoCommand { .. } | VariantError::Name { .. });
        assert!(expected, "{text}: {error:?}");
    }
    for name in ["a b", "a.b", "ä", "a[", "a/b", "a\n", &"a".repeat(NAME_LEN_MAX + 1)] {
        let error = read(&format!("{name}=true")).unwrap_err();
        assert_eq!(error, VariantError::Name { name: name.into() });
    }
    let long = format!("a={}", "x".repeat(COMMAND_LEN_MAX + 1));
    assert_eq!(read(&long), Err(VariantError::Command { name: "a".into() }));
    assert_eq!(read("a=x\0y"), Err(VariantError::Command { name: "a".into() }));
    let check = |names: &[&str], timeout_s| {
        let list = names.iter().map(|name| format!("{name}=true").parse().unwrap()).collect();
        Variants { timeout_s, list }.check()
    };
    assert_eq!(check(&[], 0), Ok(()));
    assert_eq!(check(&["a"], 1), Err(VariantError::Count { count: 1 }));
    assert_eq!(check(&["a", "b"], 1), Ok(()));
    assert_eq!(check(&["a", "b"], 0), Err(VariantError::Timeout { timeout_s: 0 }));
    assert_eq!(check(&["a", "b", "a"], 1), Err(VariantError::Twice { name: "a".into() }));
    let nine = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
    assert_eq!(check(&nine[..8], 1), Ok(()));
    assert_eq!(check(&nine, 1), Err(VariantError::Count { count: 9 }));
}

#[test]
fn a_run_with_variants_survives_its_file_and_another_one_is_refused() {
    let bench = executed(Nature::default(), &["a=1", "b=1"], &ONE, (2, 1));
    let text = bench.run.to_toml().unwrap();
    assert_eq!(Run::from_toml(&text).unwrap(), bench.run);
    assert_eq!((bench.run.asked(), bench.run.beds()), (vec!["simulated"], vec![0, 0]));
    let names: Vec<&str> = bench.run.devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["simulated [a]", "simulated [b]"]);
    for (from, to) in [
        ("name = \"simulated [a]\"", "name = \"soft\""),
        ("device = \"simulated\"", "device = \"soft\""),
        ("name = \"b\"", "name = \"a\""),
        ("name = \"b\"\ncommand", "name = \"b c\"\ncommand"),
        ("timeout_s = 10", "timeout_s = 0"),
    ] {
        assert!(text.contains(from), "{from} is not in {text}");
        let error = Run::from_toml(&text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with("run.toml: "), "{from}: {error}");
    }
}

#[test]
fn a_variant_that_is_slower_is_found_and_by_how_much() {
    let bench = executed(Nature::default(), &["fast=1", "slow=0.95"], &ONE, (12, 3));
    let all = ratios(&bench);
    let of = |metric: &str| all.ratios.iter().find(|of| of.metric == metric).unwrap();
    let throughput = of("throughput_pps");
    assert_eq!((throughput.verdict, throughput.ratio.repeats), (Verdict::Worse, 12));
    assert!(throughput.ratio.low < 0.95 && 0.95 < throughput.ratio.high, "{:?}", throughput.ratio);
    assert!(throughput.ratio.high - throughput.ratio.low < 0.09, "{:?}", throughput.ratio);
    // The device answers as soon at the same rate.
    assert!(!matches!(of("latency_ns_p50").verdict, Verdict::Better | Verdict::Worse));
    let summary = summary(&bench);
    let first = &summary.findings[0];
    assert_eq!(
        (first.experiment.as_str(), summary.experiments[0].name.as_str()),
        (SECTION, SECTION)
    );
    assert!(first.sentence.starts_with("slow is "), "{}", first.sentence);
    let slower = " % slower than fast by throughput_pps";
    assert!(first.sentence.contains(slower), "{}", first.sentence);
    assert_eq!(first.implication, "By this metric fast is the better setting.");
    assert_eq!(first.figure.as_deref(), Some("variants-ratios"));
    let (low, high) = first.interval.unwrap();
    assert!(0.0 < low && low < first.value.value && first.value.value < high && high < 10.0);
    assert_eq!(first.value.unit, "% slower");
    assert_eq!(summary.experiments[0].verdict, ExperimentVerdict::Answered);
    // Of three the first one is what the others are compared with.
    let three = executed(Nature::default(), &["a=1", "b=1.1", "c=0.9"], &ONE, (12, 3));
    let found = summary_of(&three);
    assert_eq!(found, ["b is 10 % faster than a", "c is 10 % slower than a"]);
}

/// The findings on variants up to the metric, with ratios to ten percent.
fn summary_of(bench: &Bench) -> Vec<String> {
    let summary = summary(bench);
    let of = summary.findings.iter().filter(|of| of.experiment == SECTION);
    of.map(|of| {
        let (number, _) = of.value.words(of.interval);
        let tens = format!(" {:.0} ", (of.value.value / 10.0).round() * 10.0);
        let head = of.sentence.split(" by ").next().unwrap();
        head.replacen(&format!(" {number} "), &tens, 1)
    })
    .collect()
}

#[test]
fn variants_that_do_nothing_are_called_different_in_one_of_twenty_runs_at_most() {
    let mut found = 0;
    for seed in 0..100 {
        let nature = Nature { noise: 0.2, tide: 0.3, ..Nature::default() };
        let bench = executed(nature, &["a=1", "b=1", "c=1"], &ONE, (10, seed));
        let all = ratios(&bench);
        assert!(all.ratios.iter().all(|of| of.ratio.ends == Ends::Interval));
        let is_found = |of: &VariantRatio| matches!(of.verdict, Verdict::Better | Verdict::Worse);
        let is_any_found = all.ratios.iter().any(is_found);
        found += usize::from(is_any_found);
        if is_any_found || seed < 3 {
            let summary = summary(&bench);
            let is_decided = |of: &VariantRatio| !matches!(of.verdict, Verdict::Undecided(_));
            let is_any_decided = all.ratios.iter().any(is_decided);
            let has = summary.findings.iter().any(|of| of.experiment == SECTION);
            let is_shown = summary.experiments[0].verdict == ExperimentVerdict::Answered;
            assert_eq!((has, is_shown), (is_any_decided, is_any_decided), "seed {seed}");
        }
    }
    // Five are expected at most; thirteen come about by chance in one of 700 draws.
    assert!(found <= 12, "{found} of 100");
}

#[test]
fn variants_that_differ_by_at_most_a_few_percent_are_called_the_same() {
    let quiet = Nature { noise: 0.01, ..Nature::default() };
    let bench = executed(quiet, &["a=1", "b=1"], &ONE, (12, 3));
    let of_throughput = |of: &&VariantRatio| of.metric == "throughput_pps";
    let all = ratios(&bench);
    assert_eq!(all.ratios.iter().find(of_throughput).unwrap().verdict, Verdict::Same);
    let summary = summary(&bench);
    assert_eq!(summary.experiments[0].verdict, ExperimentVerdict::Answered);
    let finding = summary.findings.iter().find(|of| of.id.ends_with("throughput_pps")).unwrap();
    assert_eq!(finding.implication, "They differ by at most 5 %, which is little.");
    let (low, high) = finding.interval.unwrap();
    assert!((0.95..=1.0).contains(&low) && (1.0..=1.05).contains(&high), "{low} to {high}");
}

#[test]
fn pairs_see_through_a_machine_that_is_slow_now_and_then() {
    let nature = Nature { tide: 0.6, ..Nature::default() };
    let bench = executed(nature, &["fast=1", "slow=0.85"], &ONE, (12, 5));
    let terms = CompareOptions { tolerance: 0.02, metrics: vec!["throughput_pps".into()] };
    fn side<'a>(run: &'a Run, samples: &'a [Sample], at: usize) -> ComparedDevice<'a> {
        ComparedDevice { run, samples, device: &run.devices[at].name }
    }
    let samples = &bench.store.samples[..];
    let verdict = |other: &Run| {
        let found = compare(&side(&bench.run, samples, 0), &side(other, samples, 1), &terms);
        let of = found.groups.iter().find(|group| group.trial == "saturate").unwrap();
        (of.rows[0].verdict, of.pairs.len())
    };
    assert_eq!(verdict(&bench.run), (Verdict::Worse, 12));
    // As two runs they are no pairs.
    let (unpaired, pairs) = verdict(&bench.run.clone());
    assert!(matches!(unpaired, Verdict::Undecided(_)) && pairs == 0, "{unpaired:?}");
}

#[test]
fn few_pairs_decide_nothing_and_it_is_said_how_many_do() {
    let bench = executed(Nature::default(), &["fast=1", "slow=0.5"], &ONE, (5, 1));
    let all = ratios(&bench);
    let few = Verdict::Undecided(UndecidedReason::FewRepeats);
    assert!(all.ratios.iter().all(|of| of.verdict == few && of.ratio.repeats == 5));
    let summary = summary(&bench);
    let least = repeats_for(all.ratios.len());
    let reason = format!("there are 5 pairs, and an interval needs {least}: use --repeats {least}");
    assert_eq!(summary.experiments[0].verdict, ExperimentVerdict::CannotTell { reason });
    assert!(summary.findings.iter().all(|of| of.experiment != SECTION));
    assert!(repeats_for(100) as u32 <= REPEATS_DEFAULT);
}

#[test]
fn variants_alternate_in_random_order_that_the_seed_decides_and_the_run_records() {
    let order = |seed| {
        let set = ["groups=0", "rules=0,16", "frame=64"];
        let natures = vec![Nature::default(), Nature { name: "second", ..Nature::default() }];
        let bench = Bench::with_variants(natures, &["a=1", "b=1", "c=1"], &set, (6, seed));
        bench.run.experiments[0].order.clone()
    };
    let visits = order(1);
    assert_eq!(visits, order(1));
    assert_ne!(visits, order(2));
    let mut observed: BTreeSet<(usize, usize, usize)> = BTreeSet::new();
    let mut orders: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    for round in visits.chunks(3) {
        let place = |visit: &Visit| (visit.repeat, visit.trials.clone(), visit.device / 3);
        assert!(round.iter().all(|visit| place(visit) == place(&round[0])), "{round:?}");
        assert_eq!(round[0].trials.len(), 1);
        let variants: Vec<usize> = round.iter().map(|visit| visit.device % 3).collect();
        assert_eq!(variants.iter().collect::<BTreeSet<_>>().len(), 3, "each variant once");
        *orders.entry(variants).or_default() += 1;
        let (repeat, trials, device) = place(&round[0]);
        assert!(observed.insert((repeat, trials[0], device)), "twice: {round:?}");
    }
    let rounds = visits.len() / 3;
    assert_eq!(orders.len(), 6, "all orders of three: {orders:?}");
    assert!(orders.values().all(|count| count * 3 < rounds), "{orders:?} of {rounds}");
    assert!(visits.iter().map(|visit| visit.repeat).is_sorted());
    // The samples come in this order, and their commands ran right before.
    let bench = executed(Nature::default(), &["a=1", "b=1"], &ONE, (4, 1));
    let planned = bench.run.experiments[0].order.iter();
    let planned: Vec<&str> = planned.map(|of| bench.run.devices[of.device].name.as_str()).collect();
    let made: Vec<&str> = trials(&bench).iter().map(|sample| sample.device.as_str()).collect();
    assert_eq!(made, planned);
    assert_eq!(bench.host.commands, planned.len());
    for sample in &bench.store.samples {
        let ran = sample.variant.as_ref().unwrap();
        assert_eq!(sample.device, format!("simulated [{}]", ran.name));
        assert_eq!((ran.exit_code, ran.duration_ns), (Some(0), 1_000_000));
        assert!(ran.started_unix_ns + ran.duration_ns <= sample.time_unix_ns);
        assert_eq!(ran.stdout, "out\n");
    }
    // Each trial is behind a set-up of its own.
    assert_eq!(bench.devices[0].setups as usize, planned.len());
}

#[test]
fn variants_are_offered_one_rate_of_the_slower_one() {
    let bench =
        executed(Nature { noise: 0.0, ..Nature::default() }, &["fast=1", "slow=0.5"], &ONE, (3, 1));
    let rates: BTreeSet<u64> = bench
        .samples("latency")
        .into_iter()
        .map(|sample| {
            let load: Load = serde_json::from_value(sample.load.clone()).unwrap();
            let Rate::Pps(pps) = load.rate else { panic!("{:?}", load.rate) };
            pps.round() as u64
        })
        .collect();
    assert_eq!(rates.into_iter().collect::<Vec<_>>(), [3_000_000]);
}

#[test]
fn a_command_that_fails_is_a_failed_trial_and_the_device_goes_on() {
    for (command, expected) in [
        ("exit 3", "the command of variant b ended with exit status 3: b on simulated"),
        ("kill 9", "the command of variant b was killed by signal 9: b on simulated"),
        ("late", "the command of variant b did not end within 10 s and was killed: b on simulated"),
    ] {
        let variants = ["a=1".to_owned(), format!("b={command}")];
        let variants: Vec<&str> = variants.iter().map(String::as_str).collect();
        let mut bench = Bench::with_variants(vec![Nature::default()], &variants, &ONE, (6, 1));
        assert_eq!(bench.execute(), RunEnd::Nothing, "there is no pair");
        let outcomes: Vec<&Outcome> = trials(&bench)
            .into_iter()
            .filter(|of| of.device.ends_with("[b]"))
            .map(|of| &of.outcome)
            .collect();
        let failed = |reason: &str, dropped| Outcome::Failed { reason: reason.into(), dropped };
        let last = format!("{expected} (3 times in a row)");
        let all = [failed(expected, false), failed(expected, false), failed(&last, true)];
        assert_eq!(outcomes, all.iter().collect::<Vec<_>>());
        assert_eq!(bench.host.dropped, [format!("simulated [b]: {last}")]);
        // Without pairs the other variant is not measured either.
        assert!(trials(&bench).len() < bench.run.experiments[0].order.len());
        let table = &summary(&bench).experiments[0].tables[0];
        assert_eq!(cell_at(table, &[("variant", "b")], "failed"), "3");
        assert_eq!(cell_at(table, &[("variant", "b")], "command"), command);
        assert_eq!(cell_at(table, &[("variant", "a")], "failed"), "0");
        // Its owner mends the command, and goes on.
        bench.run.variants.list[1].command = "0.9".into();
        (bench.host.done_ratio, bench.host.commands) = (0.0, 0);
        let measured = |bench: &Bench| {
            let is = |of: &&&Sample| of.outcome == Outcome::Measured;
            trials(bench).iter().filter(is).count()
        };
        let before = measured(&bench);
        assert_eq!(bench.execute(), RunEnd::Complete);
        assert_eq!(measured(&bench), bench.run.experiments[0].order.len());
        assert_eq!(bench.host.commands, measured(&bench) - before);
        assert!(!summary(&bench).partial);
    }
}

#[test]
fn a_run_that_is_cut_short_goes_on_with_its_pairs() {
    let mut bench = Bench::with_variants(vec![Nature::default()], &["a=1", "b=0.9"], &ONE, (12, 1));
    bench.host.samples_max = 21;
    assert_eq!(bench.execute(), RunEnd::Stopped);
    assert!(summary(&bench).partial);
    bench.host.samples_max = usize::MAX;
    bench.host.done_ratio = 0.0;
    assert_eq!(bench.execute(), RunEnd::Complete);
    let planned = bench.run.experiments[0].order.len();
    assert_eq!((trials(&bench).len(), bench.host.commands), (planned, planned));
    assert_eq!(summary_of(&bench), ["b is 10 % slower than a"]);
    let tables = &summary(&bench).experiments[0].tables;
    let commands = tables.iter().find(|table| table.id == "variants-commands").unwrap();
    let half = (planned / 2).to_string();
    assert_eq!(cell_at(commands, &[("variant", "b")], "ran"), half);
}

#[test]
fn searches_are_not_supported_and_it_is_said() {
    let bench = Bench::with_variants(vec![Nature::default()], &["a=1", "b=1"], &[], (1, 1));
    let experiment = &bench.run.experiments[0];
    assert!(experiment.knees.is_empty() && experiment.searches.is_empty());
    let words = experiment.plan_words();
    assert!(words.iter().any(|of| of.starts_with("not supported: ")), "{words:?}");
    assert!(words.iter().any(|of| of.ends_with(" with --variant")), "{words:?}");
    let full = Overrides { grid: GridName::Full, ..Overrides::default() };
    let list = vec!["a=1".parse().unwrap(), "b=1".parse().unwrap()];
    let variants = Variants { timeout_s: 1, list };
    let of = |overrides: &Overrides| {
        let devices = bench.devices.iter().map(|device| device.described()).collect();
        let spec = crate::experiments::spec("occupancy").unwrap();
        crate::run::resolve("x", &[spec], overrides, devices).unwrap().experiments.remove(0)
    };
    let (plain, under) = (of(&full), of(&Overrides { variants, ..full.clone() }));
    assert!(!plain.searches.is_empty() && under.searches.is_empty());
    assert_eq!(under.repeats, REPEATS_DEFAULT);
    assert_eq!(under.budget_s, None);
}
