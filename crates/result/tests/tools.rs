//! `latency.hlog` as HdrHistogram's own tools read it: its Python port and its C library.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use hdrhistogram::Histogram;
use niclab_result::{Directory, LATENCY, Outcome, SCHEMA, Sample};

/// When the samples' trials began, milliseconds since the Unix epoch; as in a merged result they
/// are not in order.
const STARTS_MS: [u64; 3] = [1_700_000_100_250, 1_700_000_050_000, 1_700_000_000_125];

/// Latencies of each, nanoseconds: a few, one, and many over seven decades.
fn values(at: usize) -> Vec<u64> {
    match at {
        0 => vec![1, 500, 1_000, 2_000_000],
        1 => vec![59_999_999_999],
        _ => (0..50_000).map(|n| 1 + n * n % 10_000_019).collect(),
    }
}

/// A measured sample, so much time after the Unix epoch.
fn sample(order: usize, start_ms: u64) -> Sample {
    let load = serde_json::json!({ "warmup_ns": 1_000_000, "duration_ns": 25_000_000 });
    // A message's load has its times one level further down.
    let load = if order == 1 { serde_json::json!({ "echo": load }) } else { load };
    Sample {
        schema: SCHEMA,
        order: order as u64,
        time_unix_ns: start_ms * 1_000_000,
        experiment: "occupancy".into(),
        device: "soft".into(),
        variant: None,
        point: Default::default(),
        trial: "latency".into(),
        repeat: 0,
        outcome: Outcome::Measured,
        metrics: Default::default(),
        marks: Vec::new(),
        load,
        counters: Default::default(),
        honesty: Default::default(),
        slices: Default::default(),
        control: Default::default(),
        search: Default::default(),
        latency_tag: Some(format!("p{order}-s{order}")),
    }
}

/// Writes a log, and what every tool has to say of it.
fn written(path: &Path) -> (PathBuf, Vec<String>) {
    let began_ms = STARTS_MS[2];
    let mut directory = Directory::create(path, Duration::from_millis(began_ms)).unwrap();
    directory.write_run("schema = 1\n").unwrap();
    let mut lines = Vec::new();
    for (at, start_ms) in STARTS_MS.into_iter().enumerate() {
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        values(at).iter().for_each(|ns| histogram.record(*ns).unwrap());
        directory.append(&sample(at, start_ms), Some(&histogram)).unwrap();
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| histogram.value_at_quantile(share));
        let count = histogram.len();
        lines.push(format!("p{at}-s{at} {start_ms} 25 {count} {p50} {p99} {max}"));
    }
    lines.push(format!("began {began_ms}"));
    (path.join(LATENCY), lines)
}

fn lines(output: Output) -> Vec<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).lines().map(String::from).collect()
}

/// A Python that has the port: the one that `./test` installs, or the system's.
fn python() -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    let above = own.ancestors().skip(1).take(3);
    let installed = above.map(|place| place.join("hdrhistogram/bin/python"));
    let has_port = |python: &PathBuf| {
        let asked = Command::new(python).args(["-c", "import hdrh.log"]).output();
        asked.is_ok_and(|output| output.status.success())
    };
    installed.chain(["python3".into()]).find(has_port)
}

#[test]
fn the_python_port_reads_the_histograms() {
    let Some(python) = python() else {
        println!(
            "SKIP the_python_port_reads_the_histograms: no Python with hdrhistogram; ./test \
             installs it"
        );
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let (log, expected) = written(&scratch.path().join("run"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/read_log.py");
    let output = Command::new(python).arg(script).arg(log).output().unwrap();
    assert_eq!(lines(output), expected);
}

#[test]
fn the_c_library_reads_the_histograms() {
    let scratch = tempfile::tempdir().unwrap();
    let program = scratch.path().join("read_log");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/read_log.c");
    let compiler = std::env::var("CC").unwrap_or("cc".into());
    let header = || Command::new(&compiler).args(["-E", "-o", "/dev/null"]).arg(&source).output();
    if !header().is_ok_and(|output| output.status.success()) {
        println!(
            "SKIP the_c_library_reads_the_histograms: no cc or no hdr/hdr_histogram_log.h \
             (libhdr-histogram-dev of Debian 13)"
        );
        return;
    }
    let mut compile = Command::new(&compiler);
    compile.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(&source);
    lines(compile.args(["-lhdr_histogram", "-lz", "-lm"]).output().unwrap());
    let (log, mut expected) = written(&scratch.path().join("run"));
    let all: usize = (0..STARTS_MS.len()).map(|at| values(at).len()).sum();
    expected.push(format!("all {all}"));
    assert_eq!(lines(Command::new(program).arg(log).output().unwrap()), expected);
}
