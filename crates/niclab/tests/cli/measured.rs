//! A short run on the soft device, and everything that can be done with its result.

use std::fs;

use niclab_result::{Environment, Sample, Summary};
use serde_json::Value;

use crate::command::{call, capture, cores, niclab, quick, run, samples, scratch, shared};

#[test]
fn a_run_writes_every_document_and_says_where_the_report_is() {
    let (path, ended) = shared();
    ended.with(0, &["occupancy, update-batch on soft", "results: ", "100 %"]);
    let report = path.join("report.html").canonicalize().unwrap();
    assert!(ended.out.ends_with(&format!("report: {}\n", report.display())), "{ended:?}");
    let html = fs::read_to_string(report).unwrap();
    assert!(html.contains("occupancy") && html.trim_end().ends_with("</html>"));
    let text = |name: &str| fs::read_to_string(path.join(name)).unwrap();
    assert!(text("run.toml").contains(concat!("program = \"niclab ", env!("CARGO_PKG_VERSION"))));
    let environment: Environment = serde_json::from_str(&text("environment.json")).unwrap();
    assert!(environment.facts.iter().any(|(name, _)| name == "kernel"));
    let summary: Summary = serde_json::from_str(&text("summary.json")).unwrap();
    assert!(!summary.partial && summary.experiments.len() == 2);
    assert!(!summary.experiments[0].figures.is_empty());
    assert!(!summary.experiments[1].tables.is_empty());
    // A header of four lines, then a histogram a line.
    let tagged = samples(path).iter().filter(|sample| sample["latency_tag"].is_string()).count();
    let tags = text("latency.hlog").lines().filter(|line| line.starts_with("Tag=")).count();
    assert_eq!((tags, tagged > 0), (tagged, true));
    let mut names: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = "environment.json latency.hlog report.html run.toml samples.jsonl summary.json";
    assert_eq!(names.join(" "), expected);
}

/// Frames received or sent by all queues of one end of the wire, or another of its counters.
fn count(sample: &Value, end: &str, counter: &str) -> u64 {
    let end = &sample["counters"][end];
    let queues = end["queues"].as_array().unwrap().iter();
    let sum = queues.filter_map(|queue| queue[counter].as_u64()).sum::<u64>();
    sum + end[counter].as_u64().unwrap_or(0)
}

#[test]
fn every_sample_is_whole_and_its_counters_balance() {
    let (path, _) = shared();
    let text = fs::read_to_string(path.join("samples.jsonl")).unwrap();
    let typed: Vec<Sample> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(typed.iter().enumerate().all(|(at, sample)| sample.order == at as u64));
    let mut loads = 0;
    for sample in samples(path).iter().filter(|sample| sample["counters"].is_object()) {
        let count = |end, counter| count(sample, end, counter);
        let metric = |name: &str| sample["metrics"][name]["value"].as_f64().unwrap();
        loads += 1;
        let offered = count("generator", "tx_frames");
        assert_eq!(
            offered,
            count("device", "rx_frames") + count("device", "rx_missed"),
            "{sample}"
        );
        let dropped = count("device", "rule_drops") + count("device", "tx_dropped");
        assert_eq!(
            count("device", "rx_frames"),
            count("device", "tx_frames") + dropped,
            "{sample}"
        );
        assert_eq!(count("device", "tx_frames"), count("sink", "rx_frames"), "{sample}");
        let (offered, unsent) = (metric("offered_frames"), metric("unsent_frames"));
        assert_eq!(metric("planned_frames"), offered + unsent, "{sample}");
        let gone = metric("dropped_frames") + metric("lost_frames");
        assert_eq!(offered, metric("received_frames") + gone, "{sample}");
        let marks = sample["marks"].as_array().cloned().unwrap_or_default();
        assert!(!marks.contains(&"unbalanced".into()), "{sample}");
    }
    assert!(loads >= 20, "only {loads} loads were offered");
    let observed = |trial: &str| typed.iter().any(|sample| sample.trial == trial);
    assert!(["setup", "saturate", "latency", "light"].map(observed) == [true; 4]);
}

#[test]
fn full_size_frames_of_a_trace_are_measured_and_come_back_as_long_as_they_were() {
    let _cores = cores();
    let scratch = scratch();
    let (path, trace) = (scratch.path().join("run"), scratch.path().join("full.pcap"));
    fs::write(&trace, capture(32, 1_514, 1)).unwrap();
    // Longer and more often than a quick run: on a busy machine a trial may show nothing.
    let mut command = niclab(&["run", "occupancy", "--device", "soft", "--repeats", "3"]);
    for set in ["groups=0", "rules=0", "duration_ms=50"] {
        command.args(["--set", set]);
    }
    command.arg("--trace").arg(&trace).arg("-o").arg(&path);
    run(command).with(0, &[]);
    let samples = samples(&path);
    let is_saturated = |s: &&Value| s["trial"] == "saturate" && s["outcome"] == "measured";
    let measured: Vec<&Value> = samples.iter().filter(is_saturated).collect();
    assert!(!measured.is_empty(), "{samples:?}");
    for sample in &measured {
        let metric = |name: &str| sample["metrics"][name]["value"].as_f64();
        let of = |name: &str| metric(name).unwrap();
        // Checksums of a capture need not be right: stamps and lengths show what was damaged.
        assert_eq!((metric("checked_damaged_frames"), of("checked_frames")), (None, 0.0));
        assert_eq!((of("foreign_frames"), of("duplicated_frames")), (0.0, 0.0), "{sample}");
        assert!(!sample["marks"].as_array().unwrap().contains(&"unbalanced".into()), "{sample}");
        let frame_len = of("throughput_gbps_l2") * 1e9 / 8.0 / of("throughput_pps");
        // With the stamp behind it and FCS.
        assert!(of("received_frames") == 0.0 || (frame_len - 1_536.0).abs() < 1e-6, "{sample}");
    }
    let throughput = |sample: &&&Value| sample["metrics"]["throughput_pps"]["value"].as_f64();
    assert!(measured.iter().any(|sample| throughput(&sample) > Some(0.0)), "{measured:?}");
}

#[test]
fn a_reduction_to_fit_the_budget_is_reported_on_the_terminal_and_in_the_summary() {
    let _cores = cores();
    let scratch = scratch();
    let (path, mine) = (scratch.path().join("run"), scratch.path().join("mine.toml"));
    let text = call(&["list", "occupancy"]).out;
    fs::write(&mine, text.replacen("budget_s = 105", "budget_s = 1", 1)).unwrap();
    let mut command = niclab(&["run", mine.to_str().unwrap(), "--device", "soft"]);
    for set in ["groups=0", "rules=0", "frame=64", "duration_ms=5", "warmup_ms=1"] {
        command.args(["--set", set]);
    }
    command.arg("-o").arg(&path);
    let message = "occupancy: 3 of 6 repeats, to fit the budget of 1 s";
    run(command).with(0, &[message, "occupancy: will take ", " s, longer than its budget of 1 s"]);
    let text = fs::read_to_string(path.join("summary.json")).unwrap();
    let summary: Summary = serde_json::from_str(&text).unwrap();
    assert!(summary.warnings.contains(&format!("{message}.")), "{:?}", summary.warnings);
}

#[test]
fn show_prints_every_figure_and_table_as_wide_as_it_may() {
    let (path, _) = shared();
    let text = fs::read_to_string(path.join("summary.json")).unwrap();
    let summary: Summary = serde_json::from_str(&text).unwrap();
    for width in [60, 100, 160] {
        let mut command = niclab(&["show"]);
        command.arg(path).env("COLUMNS", width.to_string());
        let ended = run(command);
        ended.with(0, &[]);
        for experiment in &summary.experiments {
            let titles = experiment.figures.iter().map(|figure| &figure.title);
            for title in titles.chain(experiment.tables.iter().map(|table| &table.title)) {
                assert!(ended.out.lines().any(|line| line == title), "{title} is missing");
            }
        }
        let is_table = |line: &&str| line.starts_with([' ', '─', '═']);
        for line in ended.out.lines().filter(is_table) {
            assert!(line.chars().count() <= width, "wider than {width}: {line}");
        }
        // One of a single line, as on a machine that took the rest away, has no frame.
        assert!(ended.out.contains("════"), "{}", ended.out);
        let distribution = "Distribution of the latency, group 0 empty and full";
        if !ended.out.contains(distribution) {
            println!("SKIP of the distribution: the machine took the generator's core away");
            continue;
        }
        let mut below = ended.out.lines().skip_while(|line| *line != distribution);
        let head = below.nth(2).unwrap();
        assert!(head.contains("p50") && head.contains("p99.9"), "not percentiles: {head}");
        // Twice as many where latencies are so long that the table is in two parts.
        assert!(below.take_while(|line| !line.is_empty()).count() < 20, "{}", ended.out);
    }
}

#[test]
fn export_has_a_line_for_each_sample_under_one_head() {
    let (path, _) = shared();
    let ended = call(&["export", path.to_str().unwrap(), "--csv"]);
    ended.with(0, &[]);
    let mut lines = ended.out.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| head.iter().position(|column| *column == name).unwrap();
    let (order, trial, rate) = (at("order"), at("trial"), at("throughput_pps"));
    let stored = samples(path);
    assert_eq!(lines.clone().count(), stored.len());
    for (line, sample) in lines.zip(&stored).filter(|(line, _)| !line.contains('"')) {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), head.len(), "{line}");
        assert_eq!(cells[order], sample["order"].to_string());
        assert_eq!(cells[trial], sample["trial"].as_str().unwrap());
        let stored = sample["metrics"]["throughput_pps"]["value"].as_f64();
        assert_eq!(cells[rate].parse().ok(), stored, "{line}");
    }
}

#[test]
fn a_report_can_be_written_anew() {
    let (_scratch, path) = crate::command::copied();
    fs::remove_file(path.join("report.html")).unwrap();
    fs::remove_file(path.join("summary.json")).unwrap();
    let ended = call(&["report", path.to_str().unwrap()]);
    ended.with(0, &[]);
    assert!(ended.out.contains("report: "), "{ended:?}");
    let [anew, first] = [&path, &shared().0].map(|d| fs::read(d.join("summary.json")).unwrap());
    assert!(anew == first, "the same samples gave another summary");
    assert!(path.join("report.html").is_file());
}

#[test]
fn the_placement_of_programs_is_kept_and_is_in_the_report_header() {
    let scratch = scratch();
    let path = scratch.path().join("run");
    {
        let _cores = cores();
        let labels = ["--where", "snic", "--there", "peer", "--path", "on"];
        run(quick(&path, &labels)).with(0, &[]);
    }
    let toml = fs::read_to_string(path.join("run.toml")).unwrap();
    let labels = "[placement]\nwhere = \"snic\"\nthere = \"peer\"\npath = \"on\"\n";
    assert!(toml.contains(labels), "{toml}");
    let message = "this side on the SmartNIC's CPU, the other side on the peer";
    let page = fs::read_to_string(path.join("report.html")).unwrap();
    let head = &page[page.find("<header").unwrap()..page.find("</header>").unwrap()];
    assert!(head.replace("&#39;", "'").contains(message), "{head}");
    let shown = call(&["show", path.to_str().unwrap()]);
    assert!(shown.prose().contains(message), "{shown:?}");
    // Without options nothing is reported.
    let (plain, _) = shared();
    assert!(!fs::read_to_string(plain.join("run.toml")).unwrap().contains("[placement]"));
    assert!(!fs::read_to_string(plain.join("report.html")).unwrap().contains("this side on"));
}

#[test]
fn the_same_seed_plans_the_same_run_and_another_one_does_not() {
    let _cores = cores();
    let scratch = scratch();
    let plan = |seed: &str| {
        let path = scratch.path().join(seed.replace(' ', "-"));
        let one = ["--set", "groups=0", "--set", "rules=0", "--seed", seed.trim()];
        run(quick(&path, &one)).with(0, &[]);
        fs::read_to_string(path.join("run.toml")).unwrap()
    };
    let first = plan("7");
    assert_eq!(first, plan(" 7"));
    assert_ne!(first, plan("8"));
}
