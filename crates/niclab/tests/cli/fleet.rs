//! Results of many hosts: rows, Prometheus, Bencher, and outliers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::command::{Ended, call, scratch, shared};
use crate::pages::blocks;

/// Copies the shared run as that of `hosts` hosts with six repeats each; `factor` is what a host's
/// throughput has of the others'.
fn fleet(hosts: usize, factor: impl Fn(usize) -> f64) -> TempDir {
    let (run, _) = shared();
    let place = scratch();
    let text = fs::read_to_string(run.join("samples.jsonl")).unwrap();
    let samples: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let machine: Value =
        serde_json::from_slice(&fs::read(run.join("environment.json")).unwrap()).unwrap();
    for host in 0..hosts {
        let path = place.path().join(format!("h{host:02}"));
        fs::create_dir(&path).unwrap();
        fs::copy(run.join("run.toml"), path.join("run.toml")).unwrap();
        let mut machine = machine.clone();
        for fact in machine["facts"].as_array_mut().unwrap() {
            if fact[0] == "host" {
                fact[1] = format!("dut-{host:02}").into();
            }
        }
        fs::write(path.join("environment.json"), machine.to_string()).unwrap();
        let lines = (0..6).flat_map(|repeat| {
            samples.iter().map(move |sample| changed(sample, host, repeat)).collect::<Vec<_>>()
        });
        let lines = lines.map(|mut sample| {
            if let Some(value) = sample.pointer_mut("/metrics/throughput_pps/value") {
                *value = (value.as_f64().unwrap() * factor(host)).into();
            }
            sample.to_string() + "\n"
        });
        let reference = reference(&samples[0]);
        let lines = lines.chain([reference.to_string() + "\n"]);
        fs::write(path.join("samples.jsonl"), lines.collect::<String>()).unwrap();
    }
    place
}

/// A sample as one of a reference trial, which every run of 20 s has.
fn reference(sample: &Value) -> Value {
    let mut sample = sample.clone();
    for name in ["experiment", "device", "trial"] {
        sample[name] = "reference".into();
    }
    sample["point"] = serde_json::json!({});
    sample["metrics"] = serde_json::json!({"throughput_pps": {"value": 1e7, "unit": "pps"}});
    sample
}

/// A sample as another repeat on another host, without marks: every value differs by up to 1 %.
fn changed(sample: &Value, host: usize, repeat: usize) -> Value {
    let mut sample = sample.clone();
    sample["repeat"] = repeat.into();
    sample["marks"] = Value::Array(Vec::new());
    for of in sample["metrics"].as_object_mut().unwrap().values_mut() {
        let noise = 1.0 + ((host * 31 + repeat * 17) % 41) as f64 / 4_000.0;
        of["value"] = (of["value"].as_f64().unwrap() * noise).into();
    }
    sample
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// `niclab` with these words and then the directories in `place`.
fn of_all(place: &Path, words: &[&str]) -> Ended {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut arguments: Vec<&str> = words.to_vec();
    arguments.extend(paths.iter().map(|path| text(path)));
    call(&arguments)
}

#[test]
fn a_host_unlike_the_others_is_named_from_directories_and_from_a_file() {
    let place = fleet(12, |host| if host == 7 { 0.5 } else { 1.0 });
    let out = scratch();
    let page = out.path().join("outliers");
    let ended = call(&["fleet", text(place.path()), "-o", text(&page)]);
    ended.with(12, &["outliers: dut-07 (soft)", "report: "]);
    let prose = ended.prose();
    assert!(
        prose.contains("1 of 12 hosts is an outlier")
            && prose.contains("by chance about as a normal distribution does")
            && prose.contains("would be 5 %"),
        "{prose}"
    );
    assert!(prose.contains("throughput_pps -50"), "{prose}");
    let html = fs::read_to_string(page.join("report.html")).unwrap();
    assert!(html.contains("<h3>dut-07 (soft)</h3>"), "{html}");
    let rows = out.path().join("rows.parquet");
    of_all(place.path(), &["export", "--rows", "-o", text(&rows)]).with(0, &[]);
    let again = call(&["fleet", text(&rows)]);
    again.with(12, &["outliers: dut-07 (soft)"]);
    assert_eq!(again.out, ended.out);
    let json = call(&["fleet", text(&rows), "--json"]);
    let document: Value = serde_json::from_str(&json.out).unwrap();
    let written: Value =
        serde_json::from_slice(&fs::read(page.join("fleet.json")).unwrap()).unwrap();
    assert_eq!(document, written);
    assert_eq!(document["false_alarm_rate"], 0.05);
    // Reference trials are rows of their host, and no card of the fleet.
    let csv = of_all(place.path(), &["export", "--rows"]);
    csv.with(0, &[]);
    assert!(csv.out.contains("\ndut-07,reference,"), "{}", csv.out);
    assert_eq!(document["cards"].as_array().unwrap().len(), 12);
}

#[test]
fn equal_hosts_end_with_success_and_few_hosts_say_that_nothing_was_compared() {
    let place = fleet(12, |_| 1.0);
    let ended = call(&["fleet", text(place.path())]);
    ended.with(0, &[]);
    assert!(ended.prose().contains("0 of 12 hosts are outliers"), "{ended:?}");
    let place = fleet(2, |host| if host == 1 { 0.1 } else { 1.0 });
    let ended = call(&["fleet", text(place.path())]);
    ended.with(13, &["nothing was compared: soft", "2 cards are too few to find an outlier"]);
    assert!(ended.prose().contains("nothing was compared: 2 hosts"), "{ended:?}");
    for host in ["h00", "h01"] {
        fs::write(place.path().join(host).join("samples.jsonl"), "").unwrap();
    }
    call(&["fleet", text(place.path())])
        .with(13, &["nothing was compared: the sources have no finished measurement"]);
}

#[test]
fn card_models_are_groups_of_their_own_and_a_small_one_does_not_change_the_exit_code() {
    let place = fleet(14, |host| if host < 12 { 1.0 } else { 0.5 });
    for host in 0..14 {
        let path = place.path().join(format!("h{host:02}/run.toml"));
        let run = fs::read_to_string(&path).unwrap();
        let id = if host < 12 { "15b3:1017" } else { "15b3:1021" };
        let fact = format!("[[devices.about.facts]]\nname = \"PCI id\"\nvalue = \"{id}\"\n\n");
        let facts = "[[devices.about.facts]]";
        fs::write(&path, run.replacen(facts, &(fact + facts), 1)).unwrap();
    }
    let out = scratch();
    let rows = out.path().join("rows.parquet");
    of_all(place.path(), &["export", "--rows", "-o", text(&rows)]).with(0, &[]);
    for source in [place.path(), &rows] {
        let ended = call(&["fleet", text(source)]);
        ended.with(0, &[]);
        let prose = ended.prose();
        for line in [
            "15b3:1017: 12 cards, ",
            "15b3:1021: 2 cards are too few to find an outlier: measure at least 5",
            "not compared: 2 hosts: their group has too few cards",
            "0 of 14 hosts are outliers",
        ] {
            assert!(prose.contains(line), "{line}: {prose}");
        }
    }
}

#[test]
fn a_result_that_is_named_in_several_ways_counts_once() {
    let place = fleet(6, |_| 1.0);
    let comparisons = |sources: &[&str]| {
        let ended = call(&[&["fleet", "--json"], sources].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let document: Value = serde_json::from_str(&ended.out).unwrap();
        let repeated = document["repeated_rows"].as_u64().unwrap();
        (document["comparisons"].as_u64().unwrap(), repeated, ended)
    };
    let (once, none, _) = comparisons(&[text(place.path())]);
    assert_eq!(none, 0);
    let run = place.path().join("h00");
    let link = scratch();
    let link = link.path().join("link");
    std::os::unix::fs::symlink(&run, &link).unwrap();
    for again in [text(&run), text(place.path()), text(&link)] {
        let (count, repeated, ended) = comparisons(&[text(place.path()), again]);
        assert_eq!((count, repeated), (once, 0), "{again}");
        ended.with(0, &["counted once, though named twice: "]);
    }
    // The same runs in a file are known by their hosts and times.
    let rows = link.with_file_name("rows.parquet");
    of_all(place.path(), &["export", "--rows", "-o", text(&rows)]).with(0, &[]);
    let (count, repeated, _) = comparisons(&[text(place.path()), text(&rows)]);
    assert!(count == once && repeated > 0, "{count} {repeated}");
    // A copy of a directory is the same run, from directories and in one file.
    let copy = place.path().join("h01 copy");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(place.path().join("h01")).unwrap().flatten() {
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let twice = link.with_file_name("twice.parquet");
    of_all(place.path(), &["export", "--rows", "-o", text(&twice)]).with(0, &[]);
    for source in [place.path(), &twice] {
        let (count, repeated, _) = comparisons(&[text(source)]);
        assert!(count == once && repeated > 0, "{count} {repeated}");
    }
    let prose = call(&["fleet", text(&twice)]).prose();
    assert!(prose.contains("that repeat earlier ones: copies of a run count once"), "{prose}");
}

#[test]
fn a_host_without_a_name_has_that_of_its_directory() {
    let place = fleet(6, |_| 1.0);
    for host in ["h00", "h01"] {
        let machine = place.path().join(host).join("environment.json");
        let named = fs::read_to_string(&machine).unwrap();
        fs::write(&machine, named.replace("[\"host\",", "[\"no host\",")).unwrap();
    }
    let ended = call(&["fleet", text(place.path()), "--json"]);
    ended.with(0, &["h00: the host is not known: it is named `h00`"]);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    let hosts: Vec<&str> = document["cards"]
        .as_array()
        .unwrap()
        .iter()
        .map(|card| card["host"].as_str().unwrap())
        .collect();
    assert_eq!(hosts, ["dut-02", "dut-03", "dut-04", "dut-05", "h00", "h01"]);
}

#[test]
fn a_text_that_no_parquet_file_has_is_refused_by_its_directory() {
    let place = fleet(1, |_| 1.0);
    let machine = place.path().join("h00/environment.json");
    let named = fs::read_to_string(&machine).unwrap();
    fs::write(&machine, named.replace("dut-00", &"x".repeat(5000))).unwrap();
    let rows = place.path().join("rows.parquet");
    let run = place.path().join("h00");
    call(&["export", text(&run), "--rows", "-o", text(&rows)])
        .with(4, &["h00: host: a text of 5000 bytes; a Parquet file has at most 4096: write CSV"]);
    assert!(!rows.exists());
    call(&["export", text(&run), "--rows"]).with(0, &[]);
}

#[test]
fn a_damaged_directory_is_left_out_by_name_and_a_damaged_file_refused() {
    let place = fleet(12, |_| 1.0);
    let damaged = place.path().join("h03");
    fs::write(damaged.join("samples.jsonl"), "{\n{}\n").unwrap();
    let later = place.path().join("h04/run.toml");
    fs::write(&later, "schema = 99\nprogram = \"niclab 9\"\n").unwrap();
    let ended = call(&["fleet", text(place.path())]);
    let left_out = "no outlier among the rest, but 2 sources were left out";
    ended.with(
        13,
        &["left out: ", "h03/samples.jsonl, line 1", "h04/run.toml has schema 99", left_out],
    );
    let prose = ended.prose();
    assert!(
        prose.contains("0 of 10 hosts are outliers")
            && prose.contains("left out: 2 sources, see above"),
        "{prose}"
    );
    let out = scratch();
    let rows = out.path().join("rows.parquet");
    of_all(place.path(), &["export", "--rows", "-o", text(&rows)]).with(4, &["h03/samples.jsonl"]);
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0, "something half-written is left");
    let good = [place.path().join("h00"), place.path().join("h01")];
    let arguments = ["export", text(&good[0]), text(&good[1]), "--rows", "-o", text(&rows)];
    call(&arguments).with(0, &[]);
    let whole = fs::read(&rows).unwrap();
    fs::write(&rows, &whole[..whole.len() / 2]).unwrap();
    call(&["fleet", text(&rows)]).with(4, &["rows.parquet: no Parquet file, or cut short"]);
    call(&["fleet", text(&damaged)]).with(4, &["h03/samples.jsonl, line 1"]);
    call(&arguments).with(4, &["exists already"]);
    call(&["export", text(&good[0]), "--rows", "-o", "rows.xls"]).with(2, &[".csv or .parquet"]);
    call(&["export", text(&good[0]), text(&good[1]), "--csv"])
        .with(2, &["2 directories: --csv, --textfile and --bencher take one; use --rows"]);
}

#[test]
fn names_of_other_hosts_never_steer_the_terminal_or_a_spreadsheet() {
    let place = fleet(12, |host| if host == 7 { 0.5 } else { 1.0 });
    let machine = place.path().join("h07/environment.json");
    let named = fs::read_to_string(&machine).unwrap();
    fs::write(&machine, named.replace("dut-07", "=cmd|\\u001b[2J")).unwrap();
    let out = scratch();
    let page = out.path().join("outliers");
    let ended = call(&["fleet", text(place.path()), "-o", text(&page)]);
    ended.with(12, &["outliers: =cmd|\\u001b[2J"]);
    assert!(!ended.out.contains('\x1b') && !ended.err.contains('\x1b'));
    let html = fs::read_to_string(page.join("report.html")).unwrap();
    assert!(html.contains("=cmd|\\u001b[2J") && !html.contains('\x1b'));
    let csv = call(&["export", text(&place.path().join("h07")), "--rows"]);
    csv.with(0, &[]);
    let row = csv.out.lines().nth(1).unwrap();
    assert!(row.starts_with("'=cmd|\\u001b[2J,soft,"), "{row}");
}

/// A Python that has DuckDB: the one that `./test` installs, or the system's.
fn duckdb() -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    let places = own.ancestors().skip(1).take(3).map(|place| place.join("duckdb/bin/python"));
    let has = |python: &PathBuf| {
        let asked = Command::new(python).args(["-c", "import duckdb"]).output();
        asked.is_ok_and(|output| output.status.success())
    };
    places.chain(["python3".into()]).find(has)
}

#[test]
fn duckdb_answers_the_queries_of_the_book() {
    let Some(python) = duckdb() else {
        println!(
            "SKIP duckdb_answers_the_queries_of_the_book: no Python with duckdb; ./test installs it"
        );
        return;
    };
    let place = fleet(3, |_| 1.0);
    let out = scratch();
    let rows = out.path().join("fleet.parquet");
    of_all(place.path(), &["export", "--rows", "-o", text(&rows)]).with(0, &[]);
    let csv = out.path().join("fleet.csv");
    of_all(place.path(), &["export", "--rows", "-o", text(&csv)]).with(0, &[]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/fleet.md")).unwrap();
    let queries: Vec<String> =
        blocks(&page).into_iter().filter(|(info, _)| info == "sql").map(|(_, text)| text).collect();
    assert_eq!(queries.len(), 4);
    let script = "import duckdb, json, sys\n\
        for query in json.load(sys.stdin):\n    \
        print(json.dumps(duckdb.sql(query).fetchall(), default=str))\n";
    for query in &queries {
        // The same rows, in both formats.
        let as_csv = query.replace("'fleet.parquet'", "'fleet.csv'");
        let asked = out.path().join("queries.json");
        fs::write(&asked, serde_json::to_string(&[query, &as_csv]).unwrap()).unwrap();
        let output = Command::new(&python)
            .args(["-c", script])
            .stdin(fs::File::open(&asked).unwrap())
            .current_dir(out.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{query}\n{}", String::from_utf8_lossy(&output.stderr));
        let answers = String::from_utf8(output.stdout).unwrap();
        let [parquet, csv] = answers.lines().collect::<Vec<_>>()[..] else { panic!("{answers}") };
        assert!(parquet.len() > 10 && !parquet.contains("null, null"), "{query}\n{parquet}");
        if !query.contains("firmware") {
            assert!(
                ["dut-00", "dut-01", "dut-02"].iter().all(|host| parquet.contains(host)),
                "{parquet}"
            );
            assert_eq!(parquet.matches("dut-").count(), csv.matches("dut-").count(), "{query}");
        }
    }
}

/// promtool, of the system or unpacked by `./test`.
fn promtool() -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    let places = own.ancestors().skip(1).take(3);
    let places = places.map(|place| place.join("servers/usr/bin/promtool"));
    let runs = |path: &PathBuf| Command::new(path).arg("--version").output().is_ok();
    places.chain(["promtool".into()]).find(runs)
}

#[test]
fn medians_are_files_for_the_textfile_collector() {
    let place = fleet(1, |_| 1.0);
    let out = scratch();
    let run = place.path().join("h00");
    for _ in 0..2 {
        // A second export replaces the first.
        call(&["export", text(&run), "--textfile", text(out.path())]).with(0, &["textfile: "]);
    }
    let mut names: Vec<String> = fs::read_dir(out.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.contains(&"niclab_dut-00_occupancy.prom".to_owned()), "{names:?}");
    assert!(names.iter().all(|name| name.ends_with(".prom")), "{names:?}");
    let text_of = fs::read_to_string(out.path().join("niclab_dut-00_occupancy.prom")).unwrap();
    for statistic in ["median", "low", "high"] {
        let series = text_of.lines().find(|line| {
            line.starts_with("niclab_throughput_packets_per_second{host=\"dut-00\",device=\"soft\"")
                && line.contains(&format!("statistic=\"{statistic}\"}} "))
        });
        assert!(series.is_some(), "{statistic}: {text_of}");
    }
    let missing = out.path().join("missing");
    call(&["export", text(&run), "--textfile", text(&missing)])
        .with(4, &["--textfile ", "missing: ", "make the directory (mkdir -p), or give the one"]);
    assert!(!text_of.contains("marks="), "{text_of}");
    let marked = "niclab_marked{host=\"dut-00\",device=\"soft\"";
    let marked: Vec<&str> = text_of.lines().filter(|line| line.starts_with(marked)).collect();
    let family = "family=\"niclab_throughput_packets_per_second\"} 0";
    assert!(marked.iter().any(|line| line.ends_with(family)), "{text_of}");
    let Some(promtool) = promtool() else {
        println!(
            "SKIP medians_are_files_for_the_textfile_collector: no promtool (Debian: prometheus)"
        );
        return;
    };
    for name in names {
        let file = fs::File::open(out.path().join(&name)).unwrap();
        let checked =
            Command::new(&promtool).args(["check", "metrics"]).stdin(file).output().unwrap();
        assert!(checked.status.success() && checked.stderr.is_empty(), "{name}: {checked:?}");
    }
}

#[test]
fn medians_are_bencher_metrics() {
    let place = fleet(1, |_| 1.0);
    let ended = call(&["export", text(&place.path().join("h00")), "--bencher"]);
    ended.with(0, &[]);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    let benchmarks = document.as_object().unwrap();
    let (_, measures) =
        benchmarks.iter().find(|(name, _)| name.starts_with("soft occupancy saturate ")).unwrap();
    let of = &measures["throughput_pps"];
    let [value, low, high] = ["value", "lower_value", "upper_value"].map(|key| of[key].as_f64());
    assert!(low < value && value < high, "{of}");
}

/// Marks the samples of a run of which `is_marked` holds.
fn mark(run: &Path, mark: &str, is_marked: impl Fn(&Value) -> bool) {
    let path = run.join("samples.jsonl");
    let lines = fs::read_to_string(&path).unwrap();
    let changed = lines.lines().map(|line| {
        let mut sample: Value = serde_json::from_str(line).unwrap();
        if is_marked(&sample) {
            sample["marks"] = serde_json::json!([mark]);
        }
        sample.to_string() + "\n"
    });
    fs::write(&path, changed.collect::<String>()).unwrap();
}

#[test]
fn a_median_that_a_mark_puts_in_doubt_is_no_bencher_metric_and_a_gauge_of_prometheus() {
    let place = fleet(1, |_| 1.0);
    let run = place.path().join("h00");
    mark(&run, "machine-drift", |sample| sample["trial"] == "saturate");
    let ended = call(&["export", text(&run), "--bencher"]);
    ended.with(0, &["left out, because a mark puts them in doubt: ", " machine-drift, of "]);
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    let names: Vec<&String> = document.as_object().unwrap().keys().collect();
    assert!(names.iter().all(|name| !name.contains(" saturate ")), "{names:?}");
    assert!(!names.is_empty());
    let out = scratch();
    call(&["export", text(&run), "--textfile", text(out.path())]).with(0, &[]);
    let text_of = fs::read_to_string(out.path().join("niclab_dut-00_occupancy.prom")).unwrap();
    let marked = text_of
        .lines()
        .filter(|line| line.starts_with("niclab_marked{") && line.contains("trial=\"saturate\""));
    assert!(marked.clone().count() > 0 && marked.clone().all(|line| line.ends_with("} 1")));
    assert!(text_of.contains("\nniclab_throughput_packets_per_second{"), "{text_of}");
    mark(&run, "machine-drift", |_| true);
    call(&["export", text(&run), "--bencher"])
        .with(4, &["h00: a mark puts every median in doubt (", " machine-drift)"]);
}
