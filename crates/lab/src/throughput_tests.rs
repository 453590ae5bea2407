//! Searches for throughput from their text to their table, on devices whose throughput is known.

use niclab_result::{Mark, Outcome, ReportTable, Sample, Summary};

use crate::experiments;
use crate::mlr::{Regularity, SearchGoal};
use crate::run::{PlannedRate, Run, resolve};
use crate::runner::RunEnd;
use crate::runner::throughput::{SearchRecord, record};
use crate::simulated::{Bench, Nature, Simulated};
use crate::spec::{GridName, Overrides, Spec, TrialKind};
use crate::summary::summarize;
use crate::throughput::{Mode, Search};

/// A bench whose run is the full grid of the occupancy experiment, narrowed.
fn bench(nature: Nature, set: &[&str]) -> Bench {
    let spec = experiments::spec("occupancy").unwrap();
    let mut bench = Bench::new(vec![nature], &[], 1);
    bench.run = resolved(&bench, &spec, set);
    bench
}

fn resolved(bench: &Bench, spec: &Spec, set: &[&str]) -> Run {
    let set = set.iter().map(|text| text.parse().unwrap()).collect();
    let overrides =
        Overrides { set, repeats: Some(1), grid: GridName::Full, ..Overrides::default() };
    let devices = bench.devices.iter().map(Simulated::described).collect();
    resolve("niclab 0.1.0", std::slice::from_ref(spec), &overrides, devices).unwrap()
}

const ONE: [&str; 3] = ["groups=0", "rules=1", "frame=64"];

fn searched(bench: &Bench, mode: &str) -> Vec<(Sample, SearchRecord)> {
    let samples = bench.samples(mode).into_iter();
    samples.map(|sample| (sample.clone(), record(sample).unwrap())).collect()
}

fn summary(bench: &Bench) -> Summary {
    summarize(&bench.run, &bench.store.samples, &bench.store.latencies)
}

fn table<'a>(summary: &'a Summary, id: &str) -> &'a ReportTable {
    summary.experiments[0].tables.iter().find(|table| table.id == id).unwrap()
}

#[test]
fn a_search_is_resolved_with_the_trial_that_says_where_to_search() {
    let run = bench(Nature::default(), &ONE).run;
    let experiment = &run.experiments[0];
    let modes: Vec<&str> = experiment.searches.iter().map(|s| s.mode.name()).collect();
    assert_eq!(modes, ["mlrsearch", "rfc2544"], "equal places are searched once");
    for search in &experiment.searches {
        let trial = &experiment.trials[search.of];
        assert_eq!((trial.kind, trial.rate), (TrialKind::SATURATE, PlannedRate::Saturate));
    }
    let [mlrsearch, rfc2544] = &experiment.searches[..] else { panic!("two") };
    assert_eq!(mlrsearch.goals.iter().map(|g| g.loss_ratio).collect::<Vec<_>>(), [0.0, 0.005]);
    assert_eq!(rfc2544.goals[0].sum_ns, rfc2544.goals[0].final_ns);
    let input = mlrsearch.input(10e6);
    assert_eq!((input.min_load_pps, input.max_load_pps), (12_000, 12_000_000));
    assert_eq!(mlrsearch.input(1.0).min_load_pps, 1, "never above the greatest load");
    assert_eq!(Run::from_toml(&run.to_toml().unwrap()).unwrap(), run);
}

#[test]
fn a_search_without_a_throughput_to_start_from_says_why() {
    let mut bench = bench(Nature { loss_ratio: 1.0, ..Nature::default() }, &ONE);
    bench.execute();
    let samples = bench.samples("mlrsearch");
    let Outcome::Failed { reason, .. } = &samples[0].outcome else { panic!("{samples:?}") };
    let right = "no throughput to search below: of the `saturate` trial of this point, \
                 repeat 1 of 1 processed no frame";
    assert_eq!(reason, right);
}

#[test]
fn goals_that_cannot_be_searched_are_refused() {
    let text = experiments::text("occupancy").unwrap();
    let refused = |from: &str, to: &str, part: &str| {
        assert!(text.contains(from), "{from}");
        let spec = Spec::parse("mine", &text.replacen(from, to, 1)).unwrap();
        let overrides = Overrides { grid: GridName::Full, ..Overrides::default() };
        let bench = Bench::new(vec![Nature::default()], &[], 1);
        let devices = bench.devices.iter().map(Simulated::described).collect();
        let error = resolve("niclab 0.1.0", &[spec], &overrides, devices).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused("loss_ratio = 0.005", "loss_ratio = 1.0", "loss_ratio = 1");
    refused("exceed_ratio = 0.5", "exceed_ratio = -0.5", "exceed_ratio = -0.5");
    refused("initial_ms = 50", "initial_ms = 500", "initial_ms = 500: use 1 to 100");
    refused("sum_ms = 500", "sum_ms = 50", "sum_ms = 50: use 100 to");
    refused("trial_ms = 1_000\nwidth = 0.01", "trial_ms = 1_000\nwidth = 0.0", "width = 0");
    let rfc2544 = "name = \"RFC 2544\"\ntrial_ms = 1_000\n";
    refused(rfc2544, &format!("{rfc2544}loss_ratio = 0.1\n"), "use mode = \"mlrsearch\"");
    refused("name = \"PDR\"", "name = \"\"", "goal name = \"\": give it one");
    refused("name = \"PDR\"", "name = \"ndr\"", "goal name = ndr: its metrics would overwrite");
}

#[test]
fn goals_of_two_searches_at_one_place_have_metrics_of_their_own() {
    let goal = |name: &str, width| SearchGoal {
        name: name.into(),
        ..SearchGoal::rfc2544(1_000_000, width)
    };
    let add = |name: &str, width| {
        let search = |goal| Search { mode: Mode::Mlrsearch, of: 0, goals: vec![goal] };
        let mut searches = vec![search(goal("N D", 0.1))];
        let added = search(goal(name, width)).add_to(&mut searches);
        added.map(|()| searches[0].goals.len()).map_err(|error| error.to_string())
    };
    assert_eq!((add("N D", 0.1), add("PDR", 0.1)), (Ok(1), Ok(2)));
    for (name, width) in [("N D", 0.2), ("n-d", 0.1)] {
        let message = add(name, width).unwrap_err();
        assert!(message.contains("overwrite those of N D: both begin with n_d_"), "{message}");
    }
}

#[test]
fn a_search_finds_what_the_device_can_do_and_keeps_every_trial() {
    let mut bench = bench(Nature { noise: 0.0, ..Nature::default() }, &ONE);
    assert_eq!(bench.execute(), RunEnd::Complete);
    for (mode, goals) in [("mlrsearch", 2), ("rfc2544", 1)] {
        let [(sample, record)] = &searched(&bench, mode)[..] else { panic!("one of {mode}") };
        assert_eq!((record.results.len(), &sample.marks), (goals, &vec![]));
        for (goal, found) in record.input.goals.iter().zip(&record.results) {
            assert_eq!(found.regularity, Regularity::Regular, "{}", goal.name);
            let (lower, upper) = (found.lower_pps.unwrap(), found.upper_pps.unwrap());
            let truth_pps = (10e6 / (1.0 - goal.loss_ratio)) as u64;
            // Half a frame of a trial is rounded away.
            assert!((lower..=upper + 20).contains(&(truth_pps + 10)), "{lower} to {upper}");
        }
        let trials = &record.trials;
        let counts = [trials.duration_ns.len(), trials.loss_ratio.len(), trials.load_pps.len()];
        assert_eq!(counts.map(|count| count as f64), [sample.metrics["trials"].value; 3]);
    }
    let names = ["ndr_conditional_pps", "ndr_lower_pps", "pdr_upper_pps", "max_load_pps"];
    let [sample] = bench.samples("mlrsearch")[..] else { panic!("one") };
    assert!(names.iter().all(|name| sample.metrics.contains_key(*name)), "{:?}", sample.metrics);
    // What is there is not searched again.
    let before = bench.store.samples.len();
    bench.host.done_ratio = 0.0;
    assert_eq!(bench.execute(), RunEnd::Complete);
    assert_eq!(bench.store.samples.len(), before);
}

#[test]
fn stalls_of_the_machine_do_not_make_the_throughput_without_loss_zero() {
    let nature = Nature { noise: 0.0, stall_share: 0.000_5, ..Nature::default() };
    let mut bench = bench(nature, &ONE);
    assert_eq!(bench.execute(), RunEnd::Complete);
    let [(_, record)] = &searched(&bench, "mlrsearch")[..] else { panic!("one") };
    let ndr = record.results[0].conditional_pps.unwrap();
    assert!((ndr / 10e6 - 1.0).abs() < 0.015, "{ndr}");
    let trials = &record.trials;
    let hidden = trials.loss_ratio.iter().zip(&trials.loss_all_ratio).filter(|(a, b)| a < b);
    assert!(hidden.count() > 0, "the loss as counted stands beside it: {trials:?}");
}

#[test]
fn a_search_on_a_machine_that_is_always_disturbed_is_marked() {
    let nature = Nature { noise: 0.0, stall_every: 1, ..Nature::default() };
    let mut bench = bench(nature, &ONE);
    assert_eq!(bench.execute(), RunEnd::Complete);
    let [(sample, record)] = &searched(&bench, "mlrsearch")[..] else { panic!("one") };
    assert_eq!(sample.marks, [Mark::Disturbed]);
    let trials = &record.trials;
    assert_eq!(trials.disturbed, (0..trials.load_pps.len()).collect::<Vec<_>>());
    assert_eq!(sample.metrics["spoilt_trials"].value, 3.0 * trials.load_pps.len() as f64);
    let summary = summary(&bench);
    let rows = &table(&summary, "occupancy-searches").rows;
    assert!(rows.iter().all(|row| row.last().unwrap() == "disturbed"), "{rows:?}");
}

#[test]
fn a_limit_of_the_generator_is_not_called_the_devices() {
    let nature = Nature { noise: 0.0, generator_pps: 5e6, ..Nature::default() };
    let mut bench = bench(nature, &ONE);
    bench.execute();
    let [(sample, record)] = &searched(&bench, "mlrsearch")[..] else { panic!("one") };
    assert_eq!(record.generator_limited, [true, true]);
    assert_eq!(sample.marks, [Mark::GeneratorLimited]);
    let summary = summary(&bench);
    for row in &table(&summary, "occupancy-searches").rows {
        assert!(row.iter().any(|cell| cell.starts_with("at least 5.00")), "{row:?}");
        assert_eq!(row.last().unwrap(), "generator-limited");
    }
    let finding =
        summary.findings.iter().find(|f| f.id == "simulated-searched-throughput").unwrap();
    assert!(
        finding.sentence.contains("at least 5.00") && !finding.sentence.contains("saturating"),
        "{finding:?}"
    );
}

#[test]
fn a_search_that_was_not_made_is_missing_until_it_is() {
    let mut bench = bench(Nature::default(), &ONE);
    bench.host.samples_max = bench.run.experiments[0].trials.len() + 1;
    assert_eq!(bench.execute(), RunEnd::Stopped);
    assert_eq!(bench.samples("mlrsearch").len(), 0);
    assert!(summary(&bench).partial);
    bench.host.samples_max = usize::MAX;
    bench.host.done_ratio = 0.0;
    assert_eq!(bench.execute(), RunEnd::Complete);
    assert_eq!((bench.samples("mlrsearch").len(), bench.samples("rfc2544").len()), (1, 1));
    assert!(!summary(&bench).partial);
}

#[test]
fn the_table_tells_goals_bounds_and_shares_and_the_finding_the_headline() {
    let nature = Nature { noise: 0.0, loss_ratio: 0.001, ..Nature::default() };
    let mut bench = bench(nature, &ONE);
    bench.execute();
    let summary = summary(&bench);
    let table = table(&summary, "occupancy-searches");
    let column = |name: &str| table.columns.iter().position(|column| column == name).unwrap();
    let cell = |row: usize, name: &str| table.rows[row][column(name)].as_str();
    assert_eq!((table.rows.len(), cell(0, "goal"), cell(1, "goal")), (3, "NDR", "PDR"));
    assert_eq!(cell(0, "conditional throughput"), "-");
    assert!(
        cell(0, "marks").starts_with("irregular: 12.0 kpps, the smallest"),
        "{}",
        cell(0, "marks")
    );
    let asked = "0.5 % loss, trials of 100 ms, 500 ms in all, 50 % of it may exceed, width 1 %";
    assert_eq!((cell(1, "asked for"), cell(1, "marks")), (asked, ""));
    assert_eq!(cell(2, "asked for"), "0 % loss, one trial of 1.00 s (there: 60 s), width 1 %");
    let finding =
        summary.findings.iter().find(|f| f.id == "simulated-searched-throughput").unwrap();
    let message = ["by MLRsearch (RFC 9971)", "nothing without loss (NDR)", "at 0.5 % loss (PDR)"];
    assert!(message.iter().all(|part| finding.sentence.contains(part)), "{}", finding.sentence);
    assert!((finding.value.value / 9.99e6 - 1.0).abs() < 0.015, "{}", finding.value.value);
}

#[test]
fn a_search_that_stalls_or_wrong_sums_spoilt_is_no_finding() {
    let mut bench = bench(Nature { noise: 0.0, ..Nature::default() }, &ONE);
    bench.execute();
    let mut is_found = |mark: Option<Mark>| {
        let samples = bench.store.samples.iter_mut().filter(|sample| sample.trial == "mlrsearch");
        samples.for_each(|sample| sample.marks = mark.into_iter().collect());
        let findings = summary(&bench).findings;
        findings.iter().any(|finding| finding.id == "simulated-searched-throughput")
    };
    assert!(is_found(None));
    assert!(!is_found(Some(Mark::Disturbed)) && !is_found(Some(Mark::Unbalanced)));
}

#[test]
fn a_fixed_rate_is_offered_and_its_loss_and_latency_are_reported() {
    let set = [&ONE[..], &["match_percent=0", "flows=10k", "rate=4M,16M,max"]].concat();
    let mut bench = Bench::new(vec![Nature { noise: 0.0, ..Nature::default() }], &set, 1);
    assert_eq!(bench.execute(), RunEnd::Complete);
    let mut samples = bench.samples("fixed");
    samples.sort_by_key(|sample| sample.point["rate"].to_string().len());
    let of = |at: usize, metric: &str| samples[at].metrics[metric].value;
    assert_eq!(samples.len(), 2, "max is the saturating trial");
    assert_eq!(samples[0].load["rate"]["pps"], 4e6);
    assert_eq!((of(0, "offered_pps"), of(0, "loss_ratio")), (4e6, 0.0));
    assert!((of(1, "loss_ratio") - 0.375).abs() < 1e-3, "{}", of(1, "loss_ratio"));
    assert!(samples[0].metrics.contains_key("latency_ns_p99"));
    let summary = summary(&bench);
    let table = table(&summary, "occupancy-latency");
    let at = table.columns.iter().position(|column| column == "rate").unwrap();
    let fixed = table.rows.iter().filter(|row| row.contains(&"fixed".to_string()));
    let asked: Vec<&str> = fixed.map(|row| row[at].as_str()).collect();
    assert_eq!(asked, ["4,000,000", "16,000,000"]);
    let spec = experiments::spec("occupancy").unwrap();
    for bad in ["rate=0", "rate=fast", "rate=2000M"] {
        let overrides = Overrides { set: vec![bad.parse().unwrap()], ..Overrides::default() };
        let devices = bench.devices.iter().map(Simulated::described).collect();
        let error =
            resolve("x", std::slice::from_ref(&spec), &overrides, devices).unwrap_err().to_string();
        assert!(error.contains("rate = "), "{error}");
    }
}
