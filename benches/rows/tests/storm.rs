//! Apache Storm as a peer: its windows are those of a plain count, and nothing of a run remains.
//!
//! Run where `benches/peers/storm/build` has built it; `./test --all` does.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The longest that a run may take here.
const RUN_MAX: Duration = Duration::from_secs(180);

/// One run at a time, in a directory of its own.
struct Storm {
    jar: PathBuf,
    place: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// The output of a run, and its exit code.
struct Outcome {
    code: Option<i32>,
    lines: Vec<Value>,
    errors: String,
}

impl Storm {
    /// The peer; `None` after a line that says why it cannot run.
    fn find(test: &str) -> Option<Storm> {
        static ALONE: Mutex<()> = Mutex::new(());
        let jar = niclab_peer::peers().join("storm/storm.jar");
        let java = Command::new("java").arg("-version").stderr(Stdio::null()).status();
        let reason = if std::env::var_os("NICLAB_TEST_ALL").is_none() {
            "takes more than ten seconds: ./test --all"
        } else if !java.is_ok_and(|status| status.success()) {
            "java is missing (apt-get install default-jdk-headless)"
        } else if !jar.exists() {
            "storm.jar is not built; benches/peers/storm/build builds it, and needs Maven Central"
        } else {
            let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
            return Some(Storm { jar, place: tempfile::tempdir().unwrap(), _alone: alone });
        };
        println!("SKIP {test}: {reason}");
        None
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn start(&self, arguments: &[&str]) -> Child {
        let temporary = self.path("tmp");
        fs::create_dir_all(&temporary).unwrap();
        Command::new("java")
            .arg(format!("-Djava.io.tmpdir={}", temporary.display()))
            .arg("-jar")
            .arg(&self.jar)
            .args(arguments)
            .stdout(File::create(self.path("out")).unwrap())
            .stderr(File::create(self.path("err")).unwrap())
            .spawn()
            .unwrap()
    }

    /// Waits for the end of a run, which must leave no file behind.
    fn finish(&self, mut child: Child) -> Outcome {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if begin.elapsed() > RUN_MAX {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("no end within {RUN_MAX:?}: {}", self.read("err"));
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let remaining: Vec<_> = fs::read_dir(self.path("tmp")).unwrap().collect();
        assert!(remaining.is_empty(), "{remaining:?}");
        let out = self.read("out");
        let lines = out.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        Outcome { code: status.code(), lines, errors: self.read("err") }
    }

    /// The windows of a run that succeeds, and its figures.
    fn run(&self, arguments: &[&str]) -> (Vec<Value>, Value) {
        let mut outcome = self.finish(self.start(arguments));
        assert_eq!(outcome.code, Some(0), "{}", outcome.errors);
        let figures = outcome.lines.pop().expect("a line of figures");
        (outcome.lines, figures)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

/// Stream, key and event time in nanoseconds.
type Tuple = (u16, u64, u64);

/// Tuples in the order of their event times: few keys with many tuples, of the first and last there
/// are, equal times, times at the edge of windows, and an hour without tuples.
fn tuples() -> Vec<Tuple> {
    let mut random = 42_u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (random >> 33) % below
    };
    let mut time = 0;
    (0..6_000)
        .map(|i| {
            time += if i == 3_000 { 3_600_000_000_000 } else { draw(4) * 5_000_000 };
            let rank = draw(40).min(draw(40));
            let key = if rank % 2 == 0 { rank } else { u64::MAX - rank };
            (draw(3) as u16, key, time)
        })
        .collect()
}

fn write_lines(file: &Path, tuples: &[Tuple]) {
    let mut text = String::new();
    for (i, (stream, key, time)) in tuples.iter().enumerate() {
        let payload = if i % 2 == 0 { "16" } else { "\"bmljbGFi\"" };
        writeln!(
            text,
            r#"{{"stream":{stream},"key":{key},"sequence":{i},"time":{time},"payload":{payload}}}"#
        )
        .unwrap();
    }
    fs::write(file, text).unwrap();
}

/// The result of every window that has a tuple of a stream: each window is counted by itself.
fn windows(tuples: &[Tuple], stream: u16, length: u64, slide: u64, top: usize) -> Vec<Value> {
    let kept: Vec<_> = tuples.iter().filter(|tuple| tuple.0 == stream).collect();
    let covering =
        |time: u64| (0..=time / slide).rev().take_while(move |k| k * slide + length > time);
    let numbers: BTreeSet<u64> = kept.iter().flat_map(|tuple| covering(tuple.2)).collect();
    let of = |number: u64| {
        let span = number * slide..number * slide + length;
        let mut counts = BTreeMap::new();
        for tuple in kept.iter().filter(|tuple| span.contains(&tuple.2)) {
            *counts.entry(tuple.1).or_insert(0_u64) += 1;
        }
        let mut ranked: Vec<(u64, u64)> = counts.into_iter().collect();
        ranked.sort_by_key(|&(key, count)| (Reverse(count), key));
        ranked.truncate(top);
        let best: Vec<Value> = ranked
            .iter()
            .map(|(key, count)| serde_json::json!({"key": key, "count": count}))
            .collect();
        serde_json::json!({"window_start": span.start, "window_end": span.end, "top": best})
    };
    numbers.into_iter().map(of).collect()
}

#[test]
fn windows_are_those_of_a_plain_count() {
    let Some(storm) = Storm::find("windows_are_those_of_a_plain_count") else { return };
    let tuples = tuples();
    let file = storm.path("in.jsonl");
    write_lines(&file, &tuples);
    let job = [
        "--input",
        file.to_str().unwrap(),
        "--length-ns",
        "2000000000",
        "--slide-ns",
        "250000000",
        "--stream",
        "2",
        "--top",
        "7",
    ];
    let expected = windows(&tuples, 2, 2_000_000_000, 250_000_000, 7);
    assert!(expected.len() > 100);
    let tracked = "--sources 2 --filters 2 --workers 3 --ackers 2 --pending 50 --batch 8";
    let untracked = "--sources 3 --workers 2 --ackers 0 --processes 2";
    for (cluster, has_ackers) in [(tracked, true), (untracked, false)] {
        let cluster: Vec<&str> = cluster.split(' ').collect();
        let (found, figures) = storm.run(&[&job[..], &cluster].concat());
        let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
        assert_eq!(differs, None, "{cluster:?}");
        assert_eq!(found.len(), expected.len(), "{cluster:?}");
        assert_eq!(figures["total_offered_tuples"], 6_000, "{figures}");
        assert_eq!(figures["total_acked_tuples"], if has_ackers { 6_000 } else { 0 }, "{figures}");
        for name in ["total_failed_tuples", "total_late_tuples"] {
            assert_eq!(figures[name], 0, "{name}: {figures}");
        }
        let acker_ns = figures["cpu_group_ns"]["acker"].as_u64().unwrap();
        assert_eq!(acker_ns > 0, has_ackers, "{figures}");
    }
}

#[test]
fn every_generated_tuple_is_counted_and_the_figures_agree() {
    const TEST: &str = "every_generated_tuple_is_counted_and_the_figures_agree";
    let Some(storm) = Storm::find(TEST) else { return };
    let arguments = "--keys 5 --tuples 60000 --spacing-ns 1000000 --sources 2 --warm-up-s 0";
    let (windows, figures) = storm.run(&arguments.split(' ').collect::<Vec<_>>());
    // 30 s of event time, a tuple of each source every millisecond, all keys in the result.
    assert_eq!(windows.len(), 30);
    for (at, window) in windows.iter().enumerate() {
        let counts = window["top"].as_array().unwrap().iter().map(|of| of["count"].as_u64());
        let seconds = (30 - at as u64).min(10);
        assert_eq!(counts.map(Option::unwrap).sum::<u64>(), seconds * 2_000, "{window}");
        // Key 0 has 1 / (1 + 1/2 + 1/3 + 1/4 + 1/5) of the tuples.
        let best = &window["top"][0];
        let share = best["count"].as_f64().unwrap() / (seconds * 2_000) as f64;
        assert!(best["key"] == 0 && (share - 0.438).abs() < 0.06, "{window}");
    }
    let number = |name: &str| figures[name].as_f64().unwrap_or_else(|| panic!("{name}: {figures}"));
    assert_eq!(number("total_acked_tuples"), 60_000.0);
    let completed = number("dropped_tuples") + number("counted_tuples");
    let rate = completed * 1e9 / number("interval_ns");
    assert!((number("rate_tuples_per_s") / rate - 1.0).abs() < 1e-9, "{figures}");
    let groups = figures["cpu_group_ns"].as_object().unwrap();
    let sum: f64 = groups.values().map(|ns| ns.as_f64().unwrap()).sum();
    assert!((sum / number("cpu_ns") - 1.0).abs() < 0.2, "{figures}");
    for name in ["spout", "filter", "count", "rank", "top", "acker"] {
        assert!(groups[name].as_u64().unwrap() > 0, "{name}: {figures}");
    }
    let share = groups["acker"].as_f64().unwrap() / number("cpu_ns");
    assert!((number("acker_cpu_share") - share).abs() < 1e-9, "{figures}");
}

/// Where queues are full, Storm may keep the end of a batch until more tuples follow.
#[test]
fn a_run_with_batches_and_full_queues_ends() {
    let Some(storm) = Storm::find("a_run_with_batches_and_full_queues_ends") else { return };
    let arguments = "--ackers 0 --batch 100 --keys 1 --warm-up-s 1 --duration-s 2";
    let (windows, figures) = storm.run(&arguments.split(' ').collect::<Vec<_>>());
    // A million tuples in a second of event time.
    let offered = figures["total_offered_tuples"].as_u64().unwrap();
    let first = windows[0]["top"][0]["count"].as_u64();
    assert_eq!(first, Some(offered.min(10_000_000)), "{figures}");
    let last = windows[windows.len() - 1]["top"][0]["count"].as_u64();
    assert_eq!(last, Some((offered - 1) % 1_000_000 + 1), "{figures}");
}

#[test]
fn a_run_that_is_interrupted_leaves_nothing_behind() {
    const TEST: &str = "a_run_that_is_interrupted_leaves_nothing_behind";
    let Some(storm) = Storm::find(TEST) else { return };
    let child = storm.start(&["--duration-s", "600", "--spacing-ns", "1000000"]);
    let begin = Instant::now();
    while storm.read("out").is_empty() && begin.elapsed() < RUN_MAX {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!storm.read("out").is_empty(), "no window: {}", storm.read("err"));
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    let outcome = storm.finish(child);
    assert_ne!(outcome.code, Some(0));
}

#[test]
fn wrong_arguments_and_lines_are_refused_before_anything_starts() {
    const TEST: &str = "wrong_arguments_and_lines_are_refused_before_anything_starts";
    let Some(storm) = Storm::find(TEST) else { return };
    let file = storm.path("in.jsonl");
    let good = r#"{"stream":0,"key":1,"sequence":0,"time":5,"payload":0}"#;
    let line = |from: &str, to: &str| format!("{good}\n{}\n", good.replace(from, to));
    let cases = [
        (line("\"key\":1", "\"key\":-1"), ":2: key: a whole number from 0 to 18446744073709551615"),
        (line("\"stream\":0", "\"stream\":65536"), ":2: stream: a whole number from 0 to 65535"),
        (line("\"payload\":0", "\"payload\":\"?\""), ":2: payload: base64 or a number of bytes"),
        (line("}", ""), ":2: "),
        (String::new(), "it has no tuple"),
    ];
    let fails = |arguments: &[&str], message: &str| {
        let outcome = storm.finish(storm.start(arguments));
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {}", outcome.errors);
        assert!(outcome.errors.contains(message), "{message}: {}", outcome.errors);
        assert!(outcome.lines.is_empty());
    };
    for (text, message) in &cases {
        fs::write(&file, text).unwrap();
        fails(&["--input", file.to_str().unwrap()], message);
    }
    fails(&["--slide-ns", "3000"], "the slide must divide the length");
    fails(&["--ackers", "-1"], "--ackers -1: a whole number from 0 to 1024 is needed");
    fails(&["--batch", "2", "--processes", "2"], "set one of the two to 1");
    fails(&["--tuples", "5", "--input", "x"], "--tuples with --input");
    fails(&["--worker", "5"], "--worker: no such option");
}
