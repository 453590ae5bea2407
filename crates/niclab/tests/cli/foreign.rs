//! Result directories and files that come from anybody: what they name is not opened, what they
//! hold does not fill the memory, and what they say does not steer the terminal.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::command::{Ended, call, copied, niclab, run, samples, scratch, start};

/// A run of a modelled card that takes a moment.
pub fn modelled(directory: &Path) -> Command {
    let mut command = niclab(&["run", "occupancy", "--device", "model:connectx-5", "-o"]);
    command.arg(directory).args(["--set", "groups=0", "--set", "rules=0", "--set", "frame=64"]);
    command
}

/// Every command that only reads a directory; `beside` is a sound one.
fn readers(path: &Path, beside: &Path, output: &Path) -> Vec<Vec<String>> {
    let [path, beside, output] = [path, beside, output].map(|path| path.display().to_string());
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    vec![
        words(&["show", &path]),
        words(&["report", &path]),
        words(&["export", &path, "--csv"]),
        words(&["compare", &beside, &path]),
        words(&["merge", &beside, &path, "--output", &output]),
        words(&["profile", "fit", &path]),
    ]
}

/// Names, kinds and contents of all that is in a directory.
pub fn look(directory: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mut all: Vec<_> = entries
        .map(|entry| {
            let is_file = entry.file_type().unwrap().is_file();
            (entry.path(), is_file.then(|| fs::read(entry.path()).unwrap()))
        })
        .collect();
    all.sort();
    all
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[test]
fn no_command_reads_or_writes_through_a_link_or_waits_at_a_pipe() {
    let (_scratch, path) = copied();
    let parent = path.parent().unwrap();
    let (victim, beside) = (parent.join("victim"), parent.join("beside"));
    fs::create_dir(&beside).unwrap();
    for (from, bytes) in look(&path) {
        fs::write(beside.join(from.file_name().unwrap()), bytes.unwrap()).unwrap();
    }
    fs::write(&victim, "precious\n").unwrap();
    for name in ["samples.jsonl", "latency.hlog", "run.toml"] {
        let kept = fs::read(path.join(name)).unwrap();
        for (what, target) in [("link", "../victim"), ("link", "../none"), ("pipe", "")] {
            fs::remove_file(path.join(name)).unwrap();
            match what {
                "link" => symlink(target, path.join(name)).unwrap(),
                _ => pipe(&path.join(name)),
            }
            let before = look(&path);
            let resume = vec!["run".into(), "--resume".into(), path.display().to_string()];
            for reader in
                readers(&path, &beside, &parent.join("merged")).into_iter().chain([resume])
            {
                let ended = call(&reader);
                // Some need no latencies, and samples alone can be exported.
                let looks = match name {
                    "latency.hlog" => !["export", "compare", "profile"].contains(&&reader[0][..]),
                    "run.toml" => reader[0] != "export",
                    _ => true,
                };
                let refusal =
                    format!("{name} is a {}", if what == "link" { "symbolic" } else { what });
                assert!(!looks || ended.err.contains(&refusal), "{reader:?}: {ended:?}");
                assert_eq!(look(&path), before, "{reader:?}");
                assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\n", "{reader:?}");
                assert!(!parent.join("none").exists(), "{reader:?}");
            }
            fs::remove_file(path.join(name)).unwrap();
            fs::write(path.join(name), &kept).unwrap();
        }
    }
    // A report is written in place of a link, not through it.
    for name in ["report.html", "summary.json", ".report.html.part0"] {
        let _ = fs::remove_file(path.join(name));
        symlink("../victim", path.join(name)).unwrap();
    }
    call(&["report".as_ref(), path.as_os_str()]).with(0, &[]);
    assert!(path.join("report.html").symlink_metadata().unwrap().is_file());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\n");
}

#[test]
fn a_whole_last_sample_without_a_line_end_is_kept_by_every_reader() {
    let (_scratch, path) = copied();
    let log = path.join("samples.jsonl");
    let (text, whole) = (fs::read_to_string(&log).unwrap(), samples(&path).len());
    fs::write(&log, text.trim_end()).unwrap();
    let exported = call(&["export".as_ref(), path.as_os_str(), "--csv".as_ref()]);
    exported.with(0, &[]);
    assert_eq!(exported.out.lines().count(), whole + 1);
    call(&["report".as_ref(), path.as_os_str()]).with(0, &[]);
    assert_eq!(fs::read_to_string(&log).unwrap(), text.trim_end());
    let resumed = call(&["run".as_ref(), "--resume".as_ref(), path.as_os_str()]);
    resumed.with(0, &["samples.jsonl: the last line had no line end, and got one"]);
    // What had failed is measured again.
    let log = fs::read_to_string(&log).unwrap();
    assert!(log.starts_with(&text) && samples(&path).len() >= whole, "{resumed:?}");
}

/// A program that leaves a note where it ran.
fn noting(directory: &Path, note: &Path) {
    fs::create_dir_all(directory).unwrap();
    let program = directory.join("spec");
    fs::write(&program, format!("#!/bin/sh\ntouch '{}'\n", note.display())).unwrap();
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn devices_of_a_directory_are_shown_and_opened_only_if_trusted() {
    let scratch = scratch();
    let (sound, note) = (scratch.path().join("sound"), scratch.path().join("note"));
    run(modelled(&sound)).with(0, &[]);
    let text = fs::read_to_string(sound.join("run.toml")).unwrap();
    let his = scratch.path().join("his");
    noting(&his, &note);
    noting(&scratch.path().join("target/peers"), &note);
    let swx = format!("swx:{}", his.display());
    for device in [
        swx.as_str(),
        "swx:his",
        "dpdk:--vdev=net_null0 -d /tmp/his.so",
        "model:/etc/hostname",
        "linux:none0,none1",
        "peer:127.0.0.1:9",
    ] {
        let ended = resumed(scratch.path(), &text, device, &[]);
        ended.with(
            4,
            &["names things that are not niclab's own", &format!("device {device}"), "--trust"],
        );
        assert!(!note.exists(), "{device} was run");
    }
    let name = format!("linux:x,y\\n\\n{FORGED}\\n  device soft");
    let listed = resumed(scratch.path(), &text, &name, &[]);
    listed.with(4, &[&format!("\n  device linux:x,y\\u000a\\u000a{FORGED}\\u000a  device soft\n")]);
    // The working directory is nobody's.
    let bare = resumed(scratch.path(), &text, "swx", &[]);
    assert!(!note.exists(), "{bare:?}");
    let trusted = resumed(scratch.path(), &text, &swx, &["--trust"]);
    assert!(note.exists(), "{trusted:?}");
    call(&["run", "--trust", "occupancy"]).with(2, &["cannot be used with"]);
    call(&["run", "--trust"]).with(2, &["--resume"]);
}

/// Goes on in `at` with a run whose device is another.
fn resumed(at: &Path, text: &str, device: &str, trust: &[&str]) -> Ended {
    let path = at.join("foreign");
    let _ = fs::remove_dir_all(&path);
    fs::create_dir(&path).unwrap();
    let named = text.replace("\"model:connectx-5\"", &format!("\"{device}\""));
    assert_ne!(named, text);
    fs::write(path.join("run.toml"), named).unwrap();
    let mut command = niclab(&["run", "--resume", "foreign"]);
    command.args(trust).current_dir(at);
    run(command)
}

#[test]
fn traces_and_rules_that_a_directory_names_need_trust() {
    let scratch = scratch();
    let sound = scratch.path().join("sound");
    run(modelled(&sound)).with(0, &[]);
    let text = fs::read_to_string(sound.join("run.toml")).unwrap();
    let path = scratch.path().join("foreign");
    fs::create_dir(&path).unwrap();
    let rules = "[rules]\npath = \"/etc/his.flow\"\nrules_count = 1\nqueues = 1\n\n[[devices]]";
    let load = text.find("[experiments.loads.flows]").or(text.find("[experiments.loads.sizes]"));
    let trace = text[..load.unwrap()].to_owned() + "trace = \"/etc/his.pcap\"\n";
    // Flows and sizes are not declared where a trace is.
    let after = text[load.unwrap()..].find("\n[[experiments").unwrap() + load.unwrap();
    for (named, said) in [
        (text.replacen("[[devices]]", rules, 1), "rules /etc/his.flow"),
        (trace + &text[after..], "trace /etc/his.pcap"),
    ] {
        fs::write(path.join("run.toml"), &named).unwrap();
        let ended = call(&["run".as_ref(), "--resume".as_ref(), path.as_os_str()]);
        ended.with(4, &["names things that are not niclab's own", said]);
        assert_eq!(look(&path).len(), 1, "something was made: {ended:?}");
    }
}

/// Escape sequences: the screen is cleared, a title set, lines go, in C0 and C1; letters turn
/// round.
const STEERING: &str = "\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}31m\r\u{8}\u{202e}";

/// Comes behind a line end in a name.
const FORGED: &str = "(nothing else; all verified)";

/// Nothing that was printed steers a terminal.
#[track_caller]
fn is_plain(ended: &Ended) {
    for text in [&ended.out, &ended.err] {
        let steers = |c: char| (c.is_control() && !"\n\t".contains(c)) || c == '\u{202e}';
        assert!(!text.contains(steers), "{ended:?}");
    }
    assert!(!ended.err.contains("panicked"), "{ended:?}");
}

#[test]
fn text_of_files_never_controls_the_terminal() {
    let (_scratch, path) = copied();
    let parent = path.parent().unwrap().to_path_buf();
    let beside = parent.join("beside");
    fs::create_dir(&beside).unwrap();
    for (from, bytes) in look(&path) {
        fs::write(beside.join(from.file_name().unwrap()), bytes.unwrap()).unwrap();
    }
    let json: String =
        STEERING.chars().map(|c| format!("\\u{:04x}", c as u32)).collect::<Vec<_>>().concat();
    let name = format!("soft{json}</script><b>\\n\\n{FORGED}\\n device soft");
    for file in ["run.toml", "samples.jsonl", "environment.json"] {
        let text = fs::read_to_string(path.join(file)).unwrap();
        let named = text
            .replace("\"soft\"", &format!("\"{name}\""))
            .replace("name = \"occupancy\"", &format!("name = \"{name}\""))
            .replace("\"experiment\":\"occupancy\"", &format!("\"experiment\":\"{name}\""));
        fs::write(path.join(file), named).unwrap();
    }
    let mut all = readers(&path, &beside, &parent.join("merged"));
    let resume = vec!["run".to_owned(), "--resume".into(), path.display().to_string()];
    all.extend([resume.clone(), [resume, vec!["--trust".into()]].concat()]);
    for arguments in &all {
        let ended = call(arguments);
        is_plain(&ended);
        let is_forged = |line: &str| line.trim() == FORGED;
        // The cells of CSV may have several lines (RFC 4180).
        let said = if arguments[0] == "export" { "" } else { &ended.out };
        let forged = said.lines().chain(ended.err.lines()).find(|line| is_forged(line));
        assert_eq!(forged, None, "a name made a line of its own: {ended:?}");
        assert!(ended.out.len() + ended.err.len() > 0, "{arguments:?}");
    }
    call(&["report".as_ref(), path.as_os_str()]).with(0, &[]);
    let html = fs::read_to_string(path.join("report.html")).unwrap();
    assert!(!html.contains("</script><b>"), "a name ends a script");
    // Errors that quote files, and names of files and arguments.
    let file = parent.join(format!("f{STEERING}.toml"));
    fs::write(&file, format!("title = \"{STEERING}\" {STEERING}\n")).unwrap();
    let file = file.to_str().unwrap();
    for arguments in [
        vec!["profile", "check", file],
        vec!["profile", "show", file],
        vec!["run", file],
        vec!["advise", "--device", "model:connectx-5", "--workload", file],
        vec!["rules", "check", file],
        vec!["rules", "convert", "--from", "tc", file],
        vec!["program", "check", file],
        vec!["show", file],
        vec!["run", "--device", STEERING],
        vec!["run", STEERING],
        vec![STEERING],
        vec!["run", "--seed", STEERING],
    ] {
        let ended = call(&arguments);
        is_plain(&ended);
        assert!(ended.out.len() + ended.err.len() > 0, "{arguments:?}");
    }
}

#[test]
fn files_that_are_no_files_or_too_long_are_refused_at_once() {
    let scratch = scratch();
    let (pipe_path, long) = (scratch.path().join("pipe.toml"), scratch.path().join("long.toml"));
    pipe(&pipe_path);
    // A writer that says nothing: whoever reads would wait for ever.
    let _writer = fs::File::options().read(true).write(true).open(&pipe_path).unwrap();
    fs::File::create(&long).unwrap().set_len(1 << 40).unwrap();
    for (path, said) in [
        (pipe_path.to_str().unwrap(), "a named pipe, not a file"),
        ("/dev/zero", "a device, not a file"),
        (scratch.path().to_str().unwrap(), "a directory, not a file"),
        (long.to_str().unwrap(), "longer than 1 MiB"),
    ] {
        let model = format!("model:{path}");
        for (arguments, code) in [
            (vec!["run", path], 3),
            (vec!["run", "--device", &model], 5),
            (vec!["profile", "check", path], 3),
            (vec!["advise", "--device", "model:connectx-5", "--workload", path], 3),
        ] {
            call(&arguments).with(code, &[said]);
        }
    }
    // What a shell makes of `<(…)` is a file.
    let card = call(&["profile", "show", "connectx-5"]).out;
    fs::write(scratch.path().join("card"), card).unwrap();
    let mut command = Command::new("sh");
    let script = "cat \"$2\" | \"$1\" profile check /dev/stdin";
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_niclab")]);
    command.arg(scratch.path().join("card"));
    run(command).with(0, &[]);
}

#[test]
fn runs_that_begin_in_one_second_have_a_directory_each() {
    let scratch = scratch();
    let begin = |card: &str| {
        let mut command = niclab(&["run", "occupancy", "--device", card]);
        command.args(["--set", "groups=0", "--set", "rules=0", "--set", "frame=64"]);
        command.current_dir(scratch.path());
        start(command)
    };
    let running =
        ["model:connectx-5", "model:connectx-6"].map(|card| [(); 2].map(|()| begin(card)));
    running.into_iter().flatten().for_each(|running| running.end().with(0, &[]));
    let results = look(&scratch.path().join("results"));
    assert_eq!(results.len(), 4, "{results:?}");
    assert!(results.iter().all(|(path, _)| path.join("report.html").is_file()));
}

/// Lets a run begin on disks that are full but for a few KiB, and sees what can be done then.
const FULL: &str = r#"
disk=$1
shift
mount -t tmpfs -o size=8m tmpfs "$disk" || exit 1
for left in 0 4 8 12 16 20 24 32 48 64; do
    head -c $((8192 * 1024 - left * 1024)) /dev/zero > "$disk/fill"
    "$@" -o "$disk/run" > /dev/null 2> "$disk.said" && echo "$left: not full"
    rm "$disk/fill"
    case $(cat "$disk.said") in
    *'begin anew; the directory was removed again'*)
        [ ! -e "$disk/run" ] || echo "$left: it is there"
        echo removed >&2
        "$@" -o "$disk/run" > /dev/null 2>&1 || echo "$left: the place is taken" ;;
    *'go on with --resume'*)
        echo kept >&2
        "$1" run --resume "$disk/run" > /dev/null 2>&1 || echo "$left: it does not go on" ;;
    *) echo "$left: $(cat "$disk.said")" ;;
    esac
    ls -A "$disk" | grep -v '^run$'
    rm -r "$disk/run"
done
exit 0
"#;

#[test]
fn a_disk_that_is_full_from_the_beginning_leaves_nothing_or_what_can_be_gone_on_with() {
    let name = "a_disk_that_is_full_from_the_beginning_leaves_nothing_or_what_can_be_gone_on_with";
    let scratch = scratch();
    let disk = scratch.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let in_its_own = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-r", "-m", "sh", "-c", script, "sh"]).arg(&disk);
        command
    };
    let mount = in_its_own("mount -t tmpfs tmpfs \"$1\"").output();
    if !mount.is_ok_and(|output| output.status.success()) {
        println!("SKIP {name}: `unshare -r -m` may not mount");
        return;
    }
    let asked = modelled(Path::new("there"));
    let arguments: Vec<_> = asked.get_args().filter(|a| *a != "-o" && *a != "there").collect();
    let mut command = in_its_own(FULL);
    command.arg(asked.get_program()).args(arguments);
    let ended = run(command);
    ended.with(0, &["removed", "kept"]);
    assert_eq!(ended.out, "");
}

#[test]
fn a_directory_whose_run_never_began_says_how_to_begin_anew() {
    let scratch = scratch();
    let path = scratch.path().join("run");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("samples.jsonl"), "").unwrap();
    let said = ["its run ended before it began", "remove the directory and begin anew"];
    call(&["run".as_ref(), "--resume".as_ref(), path.as_os_str()]).with(4, &said);
    call(&["show".as_ref(), path.as_os_str()]).with(4, &said);
    run(modelled(&path)).with(4, &said);
}
