//! `--baseline DIR`: a report beside an earlier run, and baselines that cannot be used.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::command::{Ended, call, copied, niclab, run, scratch, shared};
use crate::compare::{doctored, slower};
use crate::foreign::{look, modelled};

fn summary(directory: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(directory.join("summary.json")).unwrap()).unwrap()
}

/// The names of all curves of the baseline.
fn earlier_curves(summary: &Value) -> Vec<&str> {
    let experiments = summary["experiments"].as_array().unwrap().iter();
    let figures = experiments.flat_map(|of| of["figures"].as_array().unwrap());
    let series = figures.flat_map(|of| of["series"].as_array().unwrap());
    let earlier = series.filter(|of| of["origin"] == "baseline");
    earlier.map(|of| of["name"].as_str().unwrap()).collect()
}

fn report(directory: &Path, baseline: &Path) -> Ended {
    let [directory, baseline] = [directory, baseline].map(|path| path.to_str().unwrap());
    call(&["report", directory, "--baseline", baseline])
}

/// A finished run of a modelled card.
fn finished(name: &str) -> (TempDir, PathBuf) {
    let scratch = scratch();
    let path = scratch.path().join(name);
    run(modelled(&path)).with(0, &[]);
    (scratch, path)
}

#[test]
fn a_report_says_what_changed_since_an_earlier_run_and_draws_both() {
    let (_base, base) = doctored(|_| {});
    let (_slow, slow) = doctored(slower);
    let untouched = look(&base);
    let ended = report(&slow, &base);
    ended.with(0, &[]);
    let out = ended.prose();
    assert!(out.contains(&format!("since {}, started ", base.display())), "{ended:?}");
    assert!(out.contains("20 % lower throughput_pps on soft: 8."), "{ended:?}");
    let written = summary(&slow);
    let since = &written["baseline"];
    assert_eq!((&since["schema"], &since["tolerance"]), (&1.into(), &0.05.into()));
    assert_eq!(since["directory"], base.to_str().unwrap());
    assert!(since["counts"]["worse"].as_u64().unwrap() > 0, "{since}");
    assert_eq!(since["counts"]["better"], 0, "{since}");
    assert!(since["sentences"].as_array().unwrap().len() <= 7, "{since}");
    let curves = earlier_curves(&written);
    assert!(
        !curves.is_empty() && curves.iter().all(|name| name.contains(" before (")),
        "{curves:?}"
    );
    let page = fs::read_to_string(slow.join("report.html")).unwrap();
    let [changed, found] =
        ["Changes since the earlier run</h2>", "<h2 id=\"findings\">"].map(|of| page.find(of));
    assert!(changed.is_some() && changed < found);
    assert_eq!(look(&base), untouched, "the baseline was written to");
    // A regression is the business of `compare`; and without the option all is as before.
    call(&["report", slow.to_str().unwrap()]).with(0, &[]);
    let written = summary(&slow);
    assert!(written.get("baseline").is_none() && earlier_curves(&written).is_empty());
}

#[test]
fn a_run_keeps_its_baseline_and_opens_it_again_where_it_is_typed_or_trusted() {
    let (_base, base) = finished("base");
    let untouched = look(&base);
    let scratch = scratch();
    let path = scratch.path().join("run");
    let mut command = modelled(&path);
    command.arg("--baseline").arg(&base);
    let ended = run(command);
    ended.with(0, &["baseline: ", base.to_str().unwrap()]);
    assert!(ended.out.contains(&format!("since {}", base.display())), "{ended:?}");
    assert_eq!(summary(&path)["baseline"]["directory"], base.to_str().unwrap());
    let real = base.canonicalize().unwrap();
    let kept = format!("baseline = \"{}\"", real.display());
    assert!(fs::read_to_string(path.join("run.toml")).unwrap().contains(&kept));
    let page = fs::read_to_string(path.join("report.html")).unwrap();
    assert!(page.contains(&format!("niclab run --resume DIRECTORY --baseline {}", real.display())));
    // A report opens what is typed alone, and says how to have both.
    let name = path.to_str().unwrap();
    let both = format!("niclab report {name} --baseline {}", real.display());
    call(&["report", name])
        .with(0, &["the report leaves out the run's baseline; to include it: ", &both]);
    assert!(summary(&path).get("baseline").is_none());
    // So does a run that goes on, unless its directory is trusted.
    let listed = format!("baseline {}", real.display());
    call(&["run", "--resume", name]).with(4, &["not niclab's own", &listed, "--trust"]);
    for more in [&["--trust"][..], &["--baseline", base.to_str().unwrap()]] {
        call(&[&["run", "--resume", name], more].concat()).with(0, &["nothing is left to measure"]);
        assert!(summary(&path).get("baseline").is_some(), "{more:?}");
    }
    assert_eq!(look(&base), untouched, "the baseline was written to");
    // A baseline that is gone does not keep a run from its end.
    fs::remove_dir_all(&base).unwrap();
    let phrases = ["no comparison with the baseline: ", "does not exist", "--baseline DIR"];
    call(&["run", "--resume", name, "--trust"]).with(0, &phrases);
    assert!(summary(&path).get("baseline").is_none());
}

#[test]
fn a_baseline_that_cannot_be_used_is_refused_before_anything_is_measured() {
    let (_base, base) = finished("base");
    let scratch = scratch();
    let at = |name: &str| scratch.path().join(name);
    let copy = |name: &str| {
        let path = at(name);
        fs::create_dir(&path).unwrap();
        for (from, bytes) in look(&base) {
            fs::write(path.join(from.file_name().unwrap()), bytes.unwrap()).unwrap();
        }
        path
    };
    let edited = |name: &str, from: &str, to: &str| {
        let path = copy(name);
        let text = fs::read_to_string(path.join("run.toml")).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(path.join("run.toml"), text.replacen(from, to, 1)).unwrap();
        path
    };
    fs::write(at("file"), "").unwrap();
    fs::create_dir(at("empty")).unwrap();
    let unmeasured = copy("unmeasured");
    fs::write(unmeasured.join("samples.jsonl"), "").unwrap();
    let linked = copy("linked");
    fs::rename(linked.join("samples.jsonl"), at("samples")).unwrap();
    symlink(at("samples"), linked.join("samples.jsonl")).unwrap();
    let newer = edited("newer", "schema = 1", "schema = 999");
    let spoilt = edited("spoilt", "seed = ", "seeds = ");
    let apart = edited("apart", "name = \"occupancy\"", "name = \"other\"");
    let text = fs::read_to_string(apart.join("samples.jsonl")).unwrap();
    let text = text.replace("\"experiment\":\"occupancy\"", "\"experiment\":\"other\"");
    fs::write(apart.join("samples.jsonl"), text).unwrap();
    let has_other = "other saturate: ";
    let wants = "the run has devices: model:connectx-5; occupancy ";
    let cases: [(&Path, &[&str]); 8] = [
        (&at("none"), &["none does not exist", "give the directory that a run printed"]),
        (&at("file"), &["file is a file", "give a directory"]),
        (&at("empty"), &["empty is not a result directory (it has no run.toml)"]),
        (&unmeasured, &["unmeasured has no finished measurement", "run --resume"]),
        (&linked, &["samples.jsonl is a symbolic link, not a file"]),
        (&newer, &["run.toml has schema 999, this program reads 1"]),
        (&spoilt, &["run.toml", "missing field `seed`", "restore the file from a copy"]),
        (&apart, &["nothing in common", has_other, wants]),
    ];
    for (baseline, phrases) in cases {
        let path = at("run");
        let mut command = modelled(&path);
        command.arg("--baseline").arg(baseline);
        run(command).with(4, phrases);
        assert!(!path.exists(), "it was measured with {}", baseline.display());
    }
    let within = base.join("within");
    let mut command = modelled(&within);
    command.arg("--baseline").arg(&base);
    run(command).with(4, &["--output ", "lies in ", "choose another place"]);
    assert!(!within.exists());
    // Without --output the results lie below the working directory.
    let mut command = niclab(&["run", "occupancy", "--device", "model:connectx-5"]);
    command.args(["--set", "groups=0", "--set", "rules=0", "--set", "frame=64"]);
    command.args(["--baseline", "."]).current_dir(&base);
    run(command).with(4, &["--output results/DATE-TIME lies in .: choose another place"]);
    assert!(!base.join("results").exists());
    let mut shown = modelled(&at("shown"));
    shown.arg("--dry-run").arg("--baseline").arg(&base);
    let shown = run(shown);
    shown.with(0, &[]);
    assert!(shown.out.contains("baseline: ") && !at("shown").exists(), "{shown:?}");
}

#[test]
fn a_run_is_no_baseline_of_itself_by_whatever_name() {
    let (scratch, path) = copied();
    let link = scratch.path().join("link");
    symlink(&path, &link).unwrap();
    let before = look(&path);
    for baseline in [&path, &link] {
        report(&path, baseline).with(3, &["is named twice: name each once"]);
        let name = [&path, baseline].map(|path| path.to_str().unwrap());
        let resumed = call(&["run", "--resume", name[0], "--baseline", name[1]]);
        resumed.with(3, &["is named twice"]);
    }
    assert_eq!(look(&path), before);
    // A link to another run is that run.
    let other = &shared().0;
    let to_other = scratch.path().join("other");
    symlink(other, &to_other).unwrap();
    report(&path, &to_other).with(0, &[]);
    assert_eq!(summary(&path)["baseline"]["directory"], to_other.to_str().unwrap());
}
