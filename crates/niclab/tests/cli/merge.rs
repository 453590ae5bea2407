//! `niclab merge`: results of several places as one, and what is refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use niclab_result::{Environment, Summary};
use tempfile::TempDir;

use crate::command::{Ended, call, niclab, run, samples, scratch};

/// A run of a modelled card's round trips, of seconds that take none.
fn card(directory: &Path, device: &str, labels: &[&str]) {
    let mut command = niclab(&["run", "echo-size", "--repeats", "6", "--set", "size=64,1024"]);
    command.args(["--grid", "published", "--device", device]).args(labels);
    run(command_into(command, directory)).with(0, &[]);
}

fn command_into(mut command: Command, directory: &Path) -> Command {
    command.arg("-o").arg(directory);
    command
}

/// A host's and a SmartNIC's result in a directory of their own.
fn two() -> (TempDir, PathBuf, PathBuf) {
    let scratch = scratch();
    let [host, snic] = ["host", "snic"].map(|name| scratch.path().join(name));
    let labels = |cpu| ["--where", cpu, "--there", "peer", "--path", "on"];
    card(&host, "model:bluefield2", &labels("host"));
    card(&snic, "model:bluefield2-snic", &labels("snic"));
    (scratch, host, snic)
}

fn merge(directories: &[&Path], output: &Path) -> Ended {
    let mut command = niclab(&["merge"]);
    command.args(directories);
    run(command_into(command, output))
}

/// Names and bytes of all files of a directory.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect();
    all.sort();
    all
}

#[test]
fn two_places_become_one_result_with_a_report_and_stay_as_they_are() {
    let (scratch, host, snic) = two();
    let before = [contents(&host), contents(&snic)];
    let output = scratch.path().join("a/b/both");
    let ended = merge(&[&host, &snic], &output);
    ended.with(0, &[]);
    assert!(ended.prose().contains(" of 2 places for the client of UDP echo: "), "{ended:?}");
    assert_eq!([contents(&host), contents(&snic)], before, "the parts were changed");
    assert_eq!(samples(&output).len(), samples(&host).len() + samples(&snic).len());
    let summary = fs::read_to_string(output.join("summary.json")).unwrap();
    let summary: Summary = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary.experiments[0].name, "placement");
    let page = fs::read_to_string(output.join("report.html")).unwrap();
    let stated = r#"39.15 <span class="ends">(45.80)</span>"#;
    for text in ["model:bluefield2-snic, SNIC, on-path", "server on peer", stated, "niclab merge "]
    {
        assert!(page.contains(text), "{text} is missing");
    }
    let environment = fs::read_to_string(output.join("environment.json")).unwrap();
    let environment: Environment = serde_json::from_str(&environment).unwrap();
    // Both were measured here: the machine is reported once.
    assert_eq!(environment.facts.iter().filter(|(name, _)| name.ends_with("kernel")).count(), 1);
    // Nothing is left beside it, and it reads as every result does.
    assert_eq!(fs::read_dir(output.parent().unwrap()).unwrap().count(), 1);
    for command in ["show", "report"] {
        call(&[command, output.to_str().unwrap()]).with(0, &[]);
    }
    call(&["export", output.to_str().unwrap(), "--csv"]).with(0, &[]);
    call(&["run", "--resume", output.to_str().unwrap()])
        .with(4, &["was merged of", "go on with those, and merge them again"]);
}

#[test]
fn an_empty_directory_is_filled_and_one_that_is_not_empty_is_kept() {
    let (scratch, host, snic) = two();
    let output = scratch.path().join("both");
    fs::create_dir(&output).unwrap();
    merge(&[&host, &snic], &output).with(0, &[]);
    let before = contents(&output);
    let ended = merge(&[&host, &snic], &output);
    ended.with(4, &["both exists already: choose another directory with -o"]);
    assert!(!ended.err.contains("--resume"), "{ended:?}");
    assert_eq!(contents(&output), before);
    let file = scratch.path().join("file");
    fs::write(&file, "mine").unwrap();
    merge(&[&host, &snic], &file).with(4, &["exists already and is not a result directory"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn unmergeable_results_are_refused_and_nothing_is_written() {
    let (scratch, host, snic) = two();
    let output = scratch.path().join("both");
    let refused = |directories: &[&Path], code: i32, phrases: &[&str]| {
        merge(directories, &output).with(code, phrases);
        assert!(!output.exists(), "{directories:?}");
        let hidden = |entry: std::io::Result<fs::DirEntry>| {
            entry.unwrap().file_name().to_string_lossy().starts_with('.')
        };
        assert!(!fs::read_dir(scratch.path()).unwrap().any(hidden), "something was left");
    };
    refused(&[&host], 2, &["2 values required"]);
    refused(&[&host, &host], 3, &["named twice"]);
    refused(&[&host, &scratch.path().join("none")], 4, &["none does not exist"]);
    let nothing = scratch.path().join("nothing");
    fs::create_dir(&nothing).unwrap();
    refused(&[&host, &nothing], 4, &["nothing is not a result directory", "no run.toml"]);

    let same = scratch.path().join("same");
    fs::create_dir(&same).unwrap();
    contents(&host).iter().for_each(|(path, bytes)| {
        fs::write(same.join(path.file_name().unwrap()), bytes).unwrap();
    });
    let label = "both have `model:bluefield2, host, on-path`";
    refused(&[&host, &same], 4, &[label, "--where, --there and --path"]);

    let toml = fs::read_to_string(same.join("run.toml")).unwrap();
    fs::write(same.join("run.toml"), toml.replacen("schema = 1", "schema = 0", 1)).unwrap();
    refused(&[&snic, &same], 4, &["has schema 0", "reads 1"]);
    fs::write(same.join("run.toml"), toml.replacen("schema = 1", "schema = 9", 1)).unwrap();
    refused(&[&snic, &same], 4, &["has schema 9", "reads 1"]);

    let inside = host.join("merged");
    merge(&[&host, &snic], &inside).with(4, &["lies in", "choose another place"]);
    assert!(!inside.exists());
}

#[test]
fn experiments_without_round_trips_are_left_out_and_it_is_said() {
    let (scratch, host, _snic) = two();
    let mixed = scratch.path().join("mixed");
    let mut command = niclab(&["run", "echo-size", "hash-skew", "--repeats", "1"]);
    command.args(["--grid", "published", "--device", "model:stingray", "--set", "size=64"]);
    run(command_into(command, &mixed)).with(0, &[]);
    let output = scratch.path().join("both");
    merge(&[&host, &mixed], &output).with(0, &["left out: hash-skew: it has no round trips"]);
    assert!(samples(&output).iter().all(|sample| sample["experiment"] == "echo-size"));
    // One that has none at all belongs to no merged result.
    let none = scratch.path().join("none");
    let mut command = niclab(&["run", "echo-size", "--repeats", "1", "--device", "model:stingray"]);
    command.args(["--set", "size=64", "--set", "transport=tcp"]);
    run(command_into(command, &none)).with(6, &[]);
    merge(&[&host, &none], &scratch.path().join("more")).with(4, &["no finished round trip"]);
}

/// A disk of 1 MiB of which 16 KiB are left; the program, its parts and the disk are arguments.
const FULL: &str = r#"
disk=$1
mount -t tmpfs -o size=1m tmpfs "$disk" || exit 77
head -c $((1008 * 1024)) /dev/zero > "$disk/fill"
"$2" merge "$3" "$4" --output "$disk/both"
code=$?
ls -A "$disk"
exit $code
"#;

#[test]
fn a_merge_onto_a_full_disk_writes_nothing() {
    let (scratch, host, snic) = two();
    let disk = scratch.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-r", "-m", "sh", "-c", FULL, "sh"]).arg(&disk);
    command.arg(env!("CARGO_BIN_EXE_niclab")).args([&host, &snic]);
    let before = [&host, &snic].map(|path| contents(path));
    let ended = run(command);
    if ended.err.contains("unshare") || ended.code == Some(77) {
        println!("SKIP a_merge_onto_a_full_disk_writes_nothing: `unshare -r -m` may not mount");
        return;
    }
    ended.with(4, &["both has no space left: nothing was written; the parts are unchanged"]);
    assert!(!ended.err.contains("--resume"), "{ended:?}");
    assert_eq!(ended.out, "fill\n");
    assert_eq!([&host, &snic].map(|path| contents(path)), before);
}
