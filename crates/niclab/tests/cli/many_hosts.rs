//! Many hosts: the classes of `contrib/reframe` on ReFrame's local, ssh and squeue back ends, and
//! the job array of `contrib/slurm`.
//!
//! The modelled card gives the same figures in each run, so most tests measure it. The commands
//! that the two READMEs show are run here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::command::{Ended, cores, run, scratch, start};
use crate::ssh_host::{NAMES, SshHost};

const NICLAB: &str = env!("CARGO_BIN_EXE_niclab");
/// A device without noise.
const MODEL: &str = "device=model:connectx-5";

/// A niclab whose result the Python of `$CHANGE` changes.
const CHANGED: &str = r#"#!/bin/sh
"$NICLAB" "$@" || exit
exec python3 - <<'END'
import json, os, pathlib
result = pathlib.Path("result")
summary = json.loads((result / "summary.json").read_text())
samples = [json.loads(line) for line in (result / "samples.jsonl").read_text().splitlines()]
points = [
    point
    for experiment in summary["experiments"]
    for figure in experiment["figures"]
    for series in figure["series"]
    for point in series["points"]
]
exec(os.environ["CHANGE"])
(result / "summary.json").write_text(json.dumps(summary))
(result / "samples.jsonl").write_text("".join(json.dumps(one) + "\n" for one in samples))
END
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A directory in which ReFrame works, with its files for a while.
struct Site {
    place: TempDir,
    reframe: PathBuf,
}

impl Site {
    /// Without ReFrame it prints why the test is skipped.
    fn new(test: &str) -> Option<Site> {
        let reframe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../reframe/bin/reframe");
        if !reframe.is_file() {
            println!("SKIP {test}: ReFrame is missing: ./test installs it");
            return None;
        }
        let place = scratch();
        fs::create_dir(place.path().join("tmp")).unwrap();
        Some(Site { place, reframe: reframe.canonicalize().unwrap() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn script(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    /// A program in this place that finds ReFrame, `niclab` and the classes.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let contrib = root().join("contrib/reframe");
        let programs = Path::new(NICLAB).parent().unwrap().display();
        let before = std::env::var("PATH").unwrap_or_default();
        command.current_dir(self.place.path());
        command.env("PATH", format!("{programs}:{before}")).env("HOME", self.place.path());
        command.env("TMPDIR", self.path("tmp")).env("RFM_COLORIZE", "n");
        command.env("PYTHONPATH", &contrib).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("RFM_CONFIG_FILES", contrib.join("settings.py"));
        command.env("RFM_CHECK_SEARCH_PATH", contrib.join("checks.py"));
        command.env("NICLAB", NICLAB);
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        command.env("CARGO_TARGET_DIR", target);
        command
    }

    /// `reframe` with the arguments that the README shows, and others.
    fn reframe(&self, shown: &str, more: &[&str]) -> Command {
        assert_shown("reframe", &format!("reframe {shown}"));
        // Python takes no notice of an interrupt that its parent ignores, as a shell does for a
        // command that it starts in the background.
        let mut command = self.command(Path::new("env"));
        command.arg("--default-signal=INT").arg(&self.reframe);
        command.args(shown.split(' ')).args(more);
        command
    }

    /// A run of `OneHost` on this host, on the modelled card.
    fn here(&self, more: &[&str]) -> Command {
        self.reframe("--system lab:here -n OneHost -r", &[&["-S", MODEL], more].concat())
    }

    /// Result directories that ReFrame has kept of tests that passed.
    fn results(&self) -> Vec<PathBuf> {
        self.results_in("output")
    }

    /// The same of `stage`, which has those of tests that failed.
    fn results_in(&self, place: &str) -> Vec<PathBuf> {
        let all = Command::new("find").arg(self.path(place)).args(["-name", "run.toml"]).output();
        let all = String::from_utf8(all.unwrap().stdout).unwrap();
        let mut all: Vec<_> =
            all.lines().map(|line| Path::new(line).parent().unwrap().to_owned()).collect();
        all.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
        all
    }
}

/// The page shows the command that is run here.
#[track_caller]
fn assert_shown(contrib: &str, command: &str) {
    let page = root().join("contrib").join(contrib).join("README.md");
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains(command), "`{command}` is not in {}", page.display());
}

/// It ended with `code`, and all the phrases are in its output.
#[track_caller]
fn assert_ended(ended: &Ended, code: i32, phrases: &[&str]) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    for phrase in phrases {
        let has = ended.out.contains(phrase) || ended.err.contains(phrase);
        assert!(has, "`{phrase}` is missing in: {}\n{}", ended.out, ended.err);
    }
    assert!(!ended.out.contains("Traceback"), "{}", ended.out);
}

#[test]
fn reframe_reports_figures_with_intervals_and_keeps_the_result() {
    let Some(site) = Site::new("reframe_reports_figures_with_intervals_and_keeps_the_result")
    else {
        return;
    };
    let ended = run(site.here(&[]));
    let figure = "P: frame-size-pps/4-queues-on-4-cores/64";
    let lines = [format!("{figure}: "), format!("{figure}/low: "), format!("{figure}/high: ")];
    assert_ended(&ended, 0, &[&lines[0], &lines[1], &lines[2], " Mpps", "Ran 1/1 test case(s)"]);
    assert!(!ended.out.contains("frame-size-gbps"), "not among its figures: {}", ended.out);
    let results = site.results();
    assert_eq!(results.len(), 1, "{results:?}");
    let host = rustix::system::uname();
    let host = host.nodename().to_str().unwrap();
    assert_eq!(results[0].file_name().unwrap(), host);
    assert!(results[0].join("report.html").is_file());
}

#[test]
fn reframe_fails_a_host_that_differs_from_the_references() {
    let name = "reframe_fails_a_host_that_differs_from_the_references";
    let Some(site) = Site::new(name) else { return };
    assert_ended(&run(site.here(&[])), 0, &[]);
    let shown = "niclab_references.py --test OneHost --scope lab:here";
    assert_shown("reframe", shown);
    let mut write = site.command(&root().join("contrib/reframe/niclab_references.py"));
    write.args(shown.split(' ').skip(1)).args(["--figures", "frame-size-pps/*"]);
    write.arg(&site.results()[0]);
    let written = run(write);
    assert_ended(&written, 0, &["\"frame-size-pps/64/high\": [", ", -0.05, null, \"Mpps\"]"]);

    let checks = "import reframe as rfm\nfrom niclab_reframe import NiclabExperiment\n\n\
                  @rfm.simple_test\nclass OneHost(NiclabExperiment):\n    \
                  experiment = 'frame-size'\n    arguments = '--repeats 6'\n    \
                  reference = {'$ref': 'references.yaml'}\n";
    let checks = site.script("own.py", checks);
    let with = |references: &str, more: &[&str]| {
        fs::write(site.path("references.yaml"), references).unwrap();
        run(site.here(&[&["-c", &checks], more].concat()))
    };
    let right = &written.out;
    assert_ended(&with(right, &[]), 0, &["(r:", "Ran 1/1"]);
    let faster = right.replace("64/high\": [8", "64/high\": [9");
    assert_ne!(&faster, right);
    assert_ended(
        &with(&faster, &[]),
        1,
        &["performance error", "frame-size-pps/64/high=8", "expected 9"],
    );
    // A test that fails leaves its result in `stage` alone.
    assert_eq!(site.results(), Vec::<PathBuf>::new());
    let host = rustix::system::uname();
    let failed = site.results_in("stage");
    assert_eq!(failed[0].file_name().unwrap(), host.nodename().to_str().unwrap());
    let slower = right.replace("64/low\": [8", "64/low\": [7");
    assert_ended(&with(&slower, &[]), 1, &["frame-size-pps/64/low=8"]);
    let other = right.replace("pps/64/", "pps/65/");
    assert_ended(
        &with(&other, &[]),
        1,
        &["frame-size-pps/65/high has a reference", "no such figure"],
    );
    let few = with(right, &["-S", "arguments=--repeats 2"]);
    assert_ended(&few, 1, &["has a reference", "no interval for it: --repeats 6 or more"]);
}

#[test]
fn reframe_judges_no_figure_with_a_mark() {
    let Some(site) = Site::new("reframe_judges_no_figure_with_a_mark") else { return };
    let changed = format!("niclab={}", site.script("changed", CHANGED));
    let with = |change: &str, more: &[&str]| {
        let mut command = site.here(&[&["-S", &changed], more].concat());
        command.env("CHANGE", change);
        run(command)
    };
    let mark = "for point in points: point['marks'] = ['disturbed'] if point['x'] == 64 else []";
    let marked = with(mark, &[]);
    assert_ended(&marked, 0, &["P: frame-size-pps/256: ", "P: marked-figures: "]);
    assert!(!marked.out.contains("P: frame-size-pps/64: "), "{}", marked.out);
    let checks = "import reframe as rfm\nfrom niclab_reframe import NiclabExperiment\n\n\
                  @rfm.simple_test\nclass OneHost(NiclabExperiment):\n    \
                  experiment = 'frame-size'\n    \
                  reference = {'lab:here': {'frame-size-pps/64': (8.2, -0.1, 0.1, 'Mpps')}}\n";
    let checks = site.script("own.py", checks);
    let refused = with(mark, &["-c", &checks, "--max-retries=2"]);
    let phrases = ["frame-size-pps/64 has a reference, but is marked disturbed", "(run: 3/3)"];
    assert_ended(&refused, 1, &phrases);
    let few = "for point in points: point['marks'] = ['few-samples']";
    let few = with(few, &["-c", &checks]);
    assert_ended(&few, 0, &["P: frame-size-pps/64: "]);
    assert!(!few.out.contains("/64/low"), "{}", few.out);
}

#[test]
fn reframe_names_the_host_and_the_reason_of_a_failure() {
    let Some(site) = Site::new("reframe_names_the_host_and_the_reason_of_a_failure") else {
        return;
    };
    let absent = run(site.here(&["-S", "niclab=no-such-niclab"]));
    assert_ended(&absent, 1, &["no-such-niclab is not on ", "install it there"]);
    let device = run(site.here(&["-S", "device=linux:no-0,no-1"]));
    assert_ended(&device, 1, &["niclab ended with exit code 5 on ", "interface no-0 not found"]);
    let point = run(site.here(&["-S", "arguments=--set frame=64"]));
    assert_ended(&point, 1, &["give an axis two values"]);
    let pattern = run(site.here(&["-S", "figures=nothing"]));
    assert_ended(&pattern, 1, &["no figure matches ['nothing']", "frame-size-pps/64"]);
    assert!(site.results().is_empty(), "a failed test keeps its files in its stage directory");
}

#[test]
fn reframe_fails_a_host_whose_result_is_not_whole() {
    let Some(site) = Site::new("reframe_fails_a_host_whose_result_is_not_whole") else { return };
    let changed = format!("niclab={}", site.script("changed", CHANGED));
    for (change, phrase) in [
        ("summary['partial'] = True", "the run was cut short"),
        ("summary['schema'] = 2", "has schema 2: use contrib/reframe of niclab "),
        (
            "samples[0].update(outcome='failed', reason='it burns')",
            "trials failed; the first: model",
        ),
        ("[one.update(outcome='not_supported') for one in samples]", "nothing was measured"),
        ("del summary['experiments']", "not as niclab writes it: KeyError('experiments')"),
        ("import shutil; shutil.rmtree(result); result.mkdir()", "niclab wrote no result"),
    ] {
        let exits = if change.contains("rmtree") { "; os._exit(0)" } else { "" };
        let mut command = site.here(&["-S", &changed]);
        command.env("CHANGE", format!("{change}{exits}"));
        assert_ended(&run(command), 1, &[phrase]);
    }
}

#[test]
fn reframe_measures_hosts_by_ssh_and_leaves_nothing_there() {
    let name = "reframe_measures_hosts_by_ssh_and_leaves_nothing_there";
    let Some(site) = Site::new(name) else { return };
    let mut host = match SshHost::start(true) {
        Ok(host) => host,
        Err(reason) => return println!("SKIP {name}: {reason}"),
    };
    // A login shell has a PATH of its own.
    let niclab = format!("niclab={NICLAB}");
    let ssh = |more: &[&str]| {
        let shown = "--system lab:ssh -n OneHost --distribute=all -r";
        let mut command = site.reframe(shown, more);
        command.env("PATH", host.path());
        command
    };
    let ended = run(ssh(&["-S", MODEL, "-S", &niclab]));
    assert_ended(&ended, 0, &["P: frame-size-pps/64/low: ", "Ran 2/2 test case(s)"]);
    let results = site.results();
    let hosts: Vec<_> =
        results.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(hosts, NAMES.split(' ').collect::<Vec<_>>());
    assert_eq!(host.left(), 0, "ReFrame's directories are gone");

    let absent = run(ssh(&["-S", "niclab=no-such-niclab"]));
    assert_ended(&absent, 1, &["no-such-niclab is not on host-a", "is not on host-b"]);
    assert_eq!(host.left(), 0, "those of a job that failed, too");
    host.stop();
    let unreachable = {
        let mut command = site.reframe("--system lab:ssh -n OneHost --distribute=all -r", &[]);
        command.env("PATH", host.path());
        run(command)
    };
    assert_ended(&unreachable, 1, &["Connection refused"]);
}

/// ReFrame calls no hook then. It waits for the jobs.
#[test]
fn reframe_that_is_interrupted_leaves_no_directory_on_a_host() {
    let name = "reframe_that_is_interrupted_leaves_no_directory_on_a_host";
    let Some(site) = Site::new(name) else { return };
    let host = match SshHost::start(true) {
        Ok(host) => host,
        Err(reason) => return println!("SKIP {name}: {reason}"),
    };
    let slow = format!("niclab={}", site.script("slow", "#!/bin/sh\nsleep 6\n"));
    let shown = "--system lab:ssh -n OneHost --distribute=all -r";
    let mut command = site.reframe(shown, &["-S", &slow]);
    command.env("PATH", host.path());
    let mut running = start(command);
    assert!(running.wait_until(|| host.left() == 2));
    std::thread::sleep(std::time::Duration::from_secs(1));
    running.signal(rustix::process::Signal::INT);
    assert_ended(&running.end(), 1, &["cancelled by user"]);
    assert_eq!(host.left(), 0);
}

/// A script of the shell on the cluster of `scripts/slurm-cluster`; prints why it is skipped.
fn on_cluster(site: &Site, test: &str, script: &str) -> Option<Ended> {
    let mut command = site.command(&root().join("scripts/slurm-cluster"));
    command.env("REFRAME", &site.reframe).env("ROOT", root());
    command.args(["bash", "-ec", script]);
    let ended = run(command);
    if ended.code == Some(77) {
        println!("SKIP {test}: {}", ended.err.trim());
        return None;
    }
    Some(ended)
}

#[test]
fn reframe_measures_the_nodes_of_a_slurm_cluster() {
    let name = "reframe_measures_the_nodes_of_a_slurm_cluster";
    let Some(site) = Site::new(name) else { return };
    let shown = "--system lab:slurm -n OneHost --distribute=all -r";
    assert_shown("reframe", &format!("reframe {shown}"));
    let script = format!(
        "$REFRAME {shown} -S {MODEL} --performance-report\n\
         ! $REFRAME --system lab:slurm -n OneHost -r -J nodelist=node2 -S niclab=no-such-niclab"
    );
    assert_shown("reframe", "-J nodelist=node2");
    let Some(ended) = on_cluster(&site, name, &script) else { return };
    let phrases = ["Ran 2/2 test case(s)", "node1", "Ran 1/1 test case(s)", "is not on node2"];
    assert_ended(&ended, 0, &phrases);
    let results = site.results();
    let hosts: Vec<_> = results.iter().map(|path| path.file_name().unwrap()).collect();
    assert_eq!(hosts, ["node1", "node2"]);
}

#[test]
fn reframe_measures_a_device_of_the_second_node_from_the_first() {
    let name = "reframe_measures_a_device_of_the_second_node_from_the_first";
    let Some(site) = Site::new(name) else { return };
    let _cores = cores();
    let shown = "--system lab:slurm -n TwoHosts -r";
    assert_shown("reframe", &format!("reframe {shown}"));
    let small = "-S 'arguments=--repeats 1 --set frame=64,128 --set queues=1 --set duration_ms=5'";
    let Some(ended) = on_cluster(&site, name, &format!("$REFRAME {shown} {small}")) else { return };
    // Stalls of the machine may mark every figure.
    assert_ended(&ended, 0, &["P: marked-figures: ", "Ran 1/1 test case(s)"]);
    let results = site.results();
    assert_eq!(results[0].file_name().unwrap(), "node1+node2");
    let environment = fs::read_to_string(results[0].join("environment.json")).unwrap();
    assert!(environment.contains("-w node2: kernel"), "{environment}");
}

#[test]
fn reframe_measures_between_two_nodes_that_are_cabled_to_each_other() {
    let name = "reframe_measures_between_two_nodes_that_are_cabled_to_each_other";
    let Some(site) = Site::new(name) else { return };
    let _cores = cores();
    let shown = "--system lab:slurm -n Cable -r";
    assert_shown("reframe", &format!("reframe {shown}"));
    let small = "-S 'arguments=--repeats 1 --set frame=64,128 --set queues=1 --set duration_ms=5'";
    let Some(ended) = on_cluster(&site, name, &format!("$REFRAME {shown} {small}")) else { return };
    assert_ended(&ended, 0, &["P: marked-figures: ", "Ran 1/1 test case(s)"]);
    let run = fs::read_to_string(site.results()[0].join("run.toml")).unwrap();
    assert!(run.contains("local=linux:eth1 -> exec:srun"), "{run}");
}

#[test]
fn a_job_array_measures_each_host_once_and_names_those_that_fail() {
    let name = "a_job_array_measures_each_host_once_and_names_those_that_fail";
    let site = Site { place: scratch(), reframe: PathBuf::new() };
    fs::create_dir(site.path("tmp")).unwrap();
    let shown = "niclab-array results frame-size --repeats 6 --device";
    assert_shown("slurm", shown);
    let script = format!(
        "array() {{ $ROOT/contrib/slurm/niclab-array \"$@\" || echo \"exit code $?\"; }}\n\
         $ROOT/contrib/slurm/{shown} model:connectx-5\n\
         niclab compare results/node1 results/node2\n\
         niclab report results/node1\n\
         array -p hosts -w node2 again frame-size --device linux:no-0,no-1\n\
         array results frame-size\n\
         scontrol update NodeName=node2 State=DOWN Reason=broken\n\
         array less frame-size --repeats 1 --device model:connectx-5\n\
         array -w node2 none frame-size"
    );
    for other in [
        "niclab compare results/node1 results/node2",
        "niclab report results/node1",
        "niclab-array -p hosts -w node2 again frame-size --device",
    ] {
        assert_shown("slurm", other);
    }
    let Some(ended) = on_cluster(&site, name, &script) else { return };
    for phrase in [
        "node1: ".to_owned() + &site.path("results/node1").display().to_string() + "\n",
        "node2: ".to_owned() + &site.path("results/node2").display().to_string() + "\n",
        "node2: failed: niclab: no device could be opened: interface no-0 not found".to_owned(),
        "results exists: name a new directory".to_owned(),
        "node2: not measured: it is down".to_owned(),
        "no such node is up".to_owned(),
    ] {
        assert_ended(&ended, 0, &[&phrase]);
    }
    let codes: Vec<_> = ended.out.lines().filter(|line| line.starts_with("exit code")).collect();
    assert_eq!(codes, ["exit code 1", "exit code 2", "exit code 1", "exit code 2"]);
    for node in ["results/node1", "results/node2", "less/node1"] {
        assert!(site.path(node).join("report.html").is_file(), "{node}");
    }
}

/// Commands of a Slurm of three nodes that answers as `$SLURM` says: `squeue` fails twice, or
/// `sbatch` takes no job.
const SLURM: [(&str, &str); 5] = [
    ("sinfo", "printf '%s\\n' 'node1 idle' 'node2 idle' 'node3 down'"),
    ("sbatch", "[ \"$SLURM\" != full ] || { echo 'sbatch: error: no' >&2; exit 1; }; echo 7"),
    ("scancel", "echo \"scancel $1\""),
    (
        "scontrol",
        "[ \"$1\" != show ] || { echo \"MaxArraySize            = ${MOST-1001}\"; exit; }\n\
         [ \"$1\" != release ] || mkdir \"$STATE\"",
    ),
    (
        "squeue",
        "for at in 1 2; do mkdir \"$STATE/$at\" 2>/dev/null || continue\n\
         echo 'slurm_load_jobs error: Socket timed out' >&2; exit 1; done\n\
         mkdir \"$STATE/3\" 2>/dev/null && echo 7 || true",
    ),
];

#[test]
fn a_job_array_waits_for_a_slurm_that_does_not_answer_and_leaves_no_empty_directory() {
    let site = Site { place: scratch(), reframe: PathBuf::new() };
    for name in ["bin", "tmp"] {
        fs::create_dir(site.path(name)).unwrap();
    }
    for (name, text) in SLURM {
        site.script(&format!("bin/{name}"), &format!("#!/bin/sh\n{text}\n"));
    }
    // Nobody waits here.
    site.script("bin/sleep", "#!/bin/sh\n");
    let array = |name: &str, variables: &[(&str, &str)]| {
        let mut command = site.command(&root().join("contrib/slurm/niclab-array"));
        let before = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{before}", site.path("bin").display()));
        command.env("STATE", site.path(&format!("{name}.state")));
        command.envs(variables.iter().copied()).args([name, "frame-size"]);
        run(command)
    };
    let ended = array("results", &[]);
    assert_ended(&ended, 1, &["node1: failed: it wrote no output", "node3: not measured"]);
    assert_eq!(ended.err.matches("Socket timed out: asking again in 10 s").count(), 2, "{ended:?}");
    assert!(site.path("results.state/3").exists(), "it did not wait for the end: {ended:?}");
    let ended = array("full", &[("SLURM", "full")]);
    assert_ended(&ended, 1, &["sbatch: error: no", "Slurm took no job: mend what sbatch says"]);
    let ended = array("small", &[("MOST", "2")]);
    assert_ended(&ended, 2, &["2 nodes, but Slurm takes arrays of at most 1 jobs (MaxArraySize)"]);
    for name in ["full", "full.log", "small", "small.log"] {
        assert!(!site.path(name).exists(), "{name} is left");
    }
}

#[test]
fn nothing_of_a_slurm_cluster_is_left_after_a_kill() {
    let name = "nothing_of_a_slurm_cluster_is_left_after_a_kill";
    let site = Site { place: scratch(), reframe: PathBuf::new() };
    fs::create_dir(site.path("tmp")).unwrap();
    let mark = site.path("is up").display().to_string();
    let mut command = site.command(&root().join("scripts/slurm-cluster"));
    command.args([
        "bash",
        "-c",
        "sbatch --wrap 'exec sleep 4321' && touch \"$0\" && exec sleep 4321",
    ]);
    command.arg(&mark);
    let mut running = start(command);
    if !running.wait_until(|| Path::new(&mark).exists()) {
        let ended = running.end();
        assert_eq!(ended.code, Some(77), "{ended:?}");
        return println!("SKIP {name}: {}", ended.err.trim());
    }
    running.signal(rustix::process::Signal::KILL);
    running.end();
    let is_left = |path: PathBuf| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        let place = site.place.path().display().to_string();
        let is_ours = environment.windows(place.len()).any(|part| part == place.as_bytes());
        !line.is_empty() && is_ours
    };
    let left =
        || fs::read_dir("/proc").unwrap().flatten().filter(|one| is_left(one.path())).count();
    let begun = std::time::Instant::now();
    while left() > 0 {
        assert!(begun.elapsed().as_secs() < 10, "processes of the cluster are left");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
