//! The control socket of `niclab nic`: whose it is, who may have the card do what, and that a slow
//! client holds up nobody.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::command::{Ended, Running, call, capture, niclab, run, scratch, slow_capture, start};
use crate::pages::{blocks, missing};

/// A user and a group that own nothing here.
pub const OTHER: &str = "65534";
const GROUP: &str = "65533";

/// A card that plays a trace of hours, in a directory of its own.
struct Card {
    scratch: tempfile::TempDir,
    running: Running,
    socket: PathBuf,
}

/// Starts a card with two ports, by a shell with no umask at all.
fn card(options: &str) -> Card {
    let scratch = scratch();
    fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(scratch.path().join("slow.pcap"), slow_capture()).unwrap();
    let mut command = Command::new("sh");
    let ports = "--port pcap:in=slow.pcap --port pcap:out=out.pcap";
    let line = format!("umask 000; exec \"$NICLAB\" nic {ports} --control card {options}");
    command.args(["-c", &line]).current_dir(scratch.path());
    command.env("NICLAB", env!("CARGO_BIN_EXE_niclab"));
    let socket = scratch.path().join("card");
    let mut running = start(command);
    assert!(running.wait_until(|| UnixStream::connect(&socket).is_ok()));
    Card { scratch, running, socket }
}

impl Card {
    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// `niclab nic ctl` of this user.
    fn ctl(&self, words: &[&str]) -> Ended {
        let socket = self.socket.to_str().unwrap();
        call(&[&["nic", "ctl", "--control", socket], words].concat())
    }

    /// The same of another one, who is in a group or not.
    fn other(&self, group: &str, words: &[&str]) -> Ended {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", OTHER, "--regid", group, "--clear-groups"]);
        command.arg(env!("CARGO_BIN_EXE_niclab")).args(["nic", "ctl", "--control"]);
        command.arg(&self.socket).args(words).current_dir(self.scratch.path());
        run(command)
    }

    fn end(self) {
        self.ctl(&["stop"]).with(0, &[]);
        self.running.end().with(0, &[]);
    }
}

/// Whether other users can be had, and can run the command.
pub fn has_others(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {test}: needs root");
        return false;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", OTHER, "--regid", OTHER, "--clear-groups"]);
    let runs = command.args([env!("CARGO_BIN_EXE_niclab"), "--version"]).output();
    let runs = runs.is_ok_and(|ended| ended.status.success());
    if !runs {
        println!("SKIP {test}: no setpriv, or another user cannot run the command");
    }
    let is_open = |path: &std::path::Path| {
        std::fs::metadata(path).is_ok_and(|of| of.permissions().mode() & 0o001 != 0)
    };
    let is_reached = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).ancestors().all(is_open);
    if runs && !is_reached {
        println!("SKIP {test}: another user may not enter {}", env!("CARGO_TARGET_TMPDIR"));
    }
    runs && is_reached
}

#[test]
fn the_socket_is_its_owners_alone_whatever_the_umask() {
    let card = card("");
    let about = fs::symlink_metadata(&card.socket).unwrap();
    assert_eq!(about.mode() & 0o7777, 0o600);
    if has_others("the_socket_is_its_owners_alone_whatever_the_umask") {
        let rule = "flow create 0 ingress pattern eth / end actions drop / end";
        let words: Vec<&str> = rule.split(' ').collect();
        let whose = "owned by root, group root, with mode 0600";
        card.other(OTHER, &words).with(9, &["Permission denied", whose, "--control-group"]);
        card.other(OTHER, &["capture", "0", "theirs"]).with(9, &[whose]);
        assert!(!card.path("theirs").exists());
        fs::set_permissions(card.scratch.path(), PermissionsExt::from_mode(0o700)).unwrap();
        card.other(OTHER, &["counters"]).with(9, &["with mode 0700", "user nobody may enter"]);
    }
    card.end();
}

#[test]
fn a_group_that_is_named_may_use_the_card_with_rights_of_its_own() {
    if !has_others("a_group_that_is_named_may_use_the_card_with_rights_of_its_own") {
        return;
    }
    let card = card(&format!("--control-group {GROUP}"));
    let about = fs::symlink_metadata(&card.socket).unwrap();
    assert_eq!((about.mode() & 0o7777, about.gid().to_string()), (0o660, GROUP.to_owned()));
    card.other(OTHER, &["counters"]).with(9, &["Permission denied", "with mode 0660"]);
    card.other(GROUP, &["counters"]).with(0, &[]);
    // Frames go where the client may write, and nowhere else.
    let precious = card.path("precious");
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, card.path("link")).unwrap();
    fs::create_dir(card.path("theirs")).unwrap();
    let id = OTHER.parse().ok();
    std::os::unix::fs::chown(card.path("theirs"), id, None).unwrap();
    for path in ["precious", "link", "theirs/../precious", "new", "/etc/niclab-new"] {
        card.other(GROUP, &["capture", "0", path]).with(3, &["Permission denied"]);
        assert!(!Path::new("/etc/niclab-new").exists() && !card.path("new").exists());
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    card.other(GROUP, &["capture", "0", "theirs/frames"]).with(0, &[]);
    assert_eq!(fs::metadata(card.path("theirs/frames")).unwrap().uid().to_string(), OTHER);
    card.other(GROUP, &["capture", "0", "off"]).with(0, &[]);
    // What cannot be captured leaves no file.
    card.other(GROUP, &["capture", "7", "theirs/more"]).with(3, &["no port 7"]);
    assert!(!card.path("theirs/more").exists());
    card.end();
    let port = ["nic", "--port", "pcap:out=/dev/null", "--control", "/dev/null/card"];
    call(&[&port[..], &["--control-group", "no-such-group"]].concat())
        .with(9, &["--control-group no-such-group: no such group"]);
    // chown(2) takes this number for no change.
    call(&[&port[..], &["--control-group", "4294967295"]].concat())
        .with(9, &["--control-group 4294967295: no such group"]);
}

/// Says a line, with a file beside it; what is answered.
fn raw(socket: &Path, line: &str, file: Option<&File>) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    match file {
        None => writeln!(stream, "{line}").unwrap(),
        Some(file) => {
            let files = [file.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut beside = SendAncillaryBuffer::new(&mut space);
            beside.push(SendAncillaryMessage::ScmRights(&files));
            let line = format!("{line}\n");
            sendmsg(&stream, &[IoSlice::new(line.as_bytes())], &mut beside, SendFlags::empty())
                .unwrap();
        }
    }
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

#[test]
fn the_card_opens_no_file_for_a_client() {
    let card = card("");
    let path = card.path("frames");
    let line = r#"{"request":"capture_begin","port":0,"file":"frames"}"#;
    let answer = raw(&card.socket, line, None);
    assert!(answer.contains("the card opens no file for a client"), "{answer}");
    assert!(!path.exists());
    let file = File::create(&path).unwrap();
    let answer = raw(&card.socket, line, Some(&File::open(&path).unwrap()));
    assert!(answer.contains("open for reading alone"), "{answer}");
    let null = File::options().write(true).open("/dev/null").unwrap();
    let answer = raw(&card.socket, line, Some(&null));
    assert!(answer.contains("frames are captured into files"), "{answer}");
    let answer = raw(&card.socket, line, Some(&file));
    assert!(answer.contains("capture_begun"), "{answer}");
    card.ctl(&["capture", "0", "off"]).with(0, &[]);
    assert_eq!(fs::metadata(&path).unwrap().len(), 24, "the head of a trace");
    // Nobody reads the pipe, and nobody waits.
    let pipe = card.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let begun = Instant::now();
    card.ctl(&["capture", "0", pipe.to_str().unwrap()]).with(3, &["a named pipe, not a file"]);
    assert!(begun.elapsed() < Duration::from_secs(5));
    card.end();
}

/// The programs of the page that describes the socket, as they are written.
#[test]
fn the_page_speaks_with_a_card_in_python() {
    let test = "the_page_speaks_with_a_card_in_python";
    if let Some(reason) = missing(&["python3"]) {
        println!("SKIP {test}: {reason}");
        return;
    }
    let card = card("");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/nic-reference.md");
    let message: Vec<Ended> = blocks(&fs::read_to_string(page).unwrap())
        .into_iter()
        .filter(|(language, _)| language == "python")
        .map(|(_, text)| {
            let text = text.replace("/run/niclab/card.sock", "card");
            let mut command = Command::new("python3");
            command.args(["-c", &text]).current_dir(card.scratch.path());
            run(command)
        })
        .collect();
    let [asked, captured] = &message[..] else { panic!("{message:?}") };
    assert_eq!(asked.out, "rule 0 on pcap:in=slow.pcap\n", "{asked:?}");
    assert!(captured.out.starts_with(r#"{"response":"capture_begun","port":0"#), "{captured:?}");
    card.ctl(&["capture", "0", "off"]).with(0, &[]);
    assert_eq!(fs::metadata(card.path("seen.pcap")).unwrap().len(), 24, "the head of a trace");
    let listed = card.ctl(&["flow", "list", "0"]);
    assert!(listed.out.contains("ETH IPV4 => COUNT DROP"), "{listed:?}");
    card.end();
}

#[test]
fn each_command_has_help_of_its_own() {
    let socket = ["nic", "ctl", "--control", "card"];
    for (words, says) in [
        (&["--help"][..], "capture"),
        (&["flow", "--help"], "as testpmd writes it"),
        (&["capture", "--help"], "--count <N>"),
        (&["table", "load", "--help"], "--replace"),
        (&["program", "window", "--help"], "hexadecimal behind `0x`"),
        (&["application", "--help"], "[NAME]"),
    ] {
        let ended = call(&[&socket, words].concat());
        ended.with(0, &[]);
        assert!(ended.out.contains(says), "{words:?}: {ended:?}");
    }
}

#[test]
fn slow_clients_hold_up_nobody() {
    let card = card("");
    let mut slow: Vec<UnixStream> = Vec::new();
    for _ in 0..40 {
        let mut client = UnixStream::connect(&card.socket).unwrap();
        client.write_all(b"{\"request\":").unwrap();
        slow.push(client);
    }
    for _ in 0..5 {
        let begun = Instant::now();
        card.ctl(&["flow", "list", "0"]).with(0, &[]);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
    card.end();
}

#[test]
fn a_file_at_the_path_of_the_socket_stays() {
    let scratch = scratch();
    let [trace, link, victim] =
        ["slow.pcap", "card", "victim"].map(|name| scratch.path().join(name));
    fs::write(&trace, slow_capture()).unwrap();
    symlink(&victim, &link).unwrap();
    let port = format!("pcap:in={}", trace.display());
    let mut command = niclab(&["nic", "--port", &port, "--control"]);
    command.arg(&link);
    run(command).with(9, &["it is there already"]);
    assert!(!victim.exists() && fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn a_port_that_is_not_there_is_refused_with_those_that_are() {
    let card = card("");
    let rule = "flow create 2 ingress pattern eth / end actions drop / end";
    let words: Vec<&str> = rule.split(' ').collect();
    let there = "no port 2: the card has ports 0 (pcap:in=slow.pcap), 1 (pcap:out=out.pcap): write";
    card.ctl(&words).with(3, &[there]);
    card.end();
}

#[test]
fn files_that_are_pipes_or_too_long_are_refused_at_once() {
    let scratch = scratch();
    let [trace, pipe, long] = ["in.pcap", "pipe", "long"].map(|name| scratch.path().join(name));
    fs::write(&trace, capture(3, 60, 1)).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    File::create(&long).unwrap().set_len(2 << 30).unwrap();
    let port = format!("pcap:in={},speed=max", trace.display());
    let [pipe, long] = [&pipe, &long].map(|path| path.to_str().unwrap());
    let nic = |options: &[&str]| call(&[&["nic", "--port", &port], options].concat());
    for (option, limit) in
        [("--rules", "1 GiB"), ("--program", "4 MiB"), ("--application", "4 MiB")]
    {
        nic(&[option, long]).with(3, &[&format!("longer than {limit}")]);
    }
    nic(&["--balance", &format!("keys={long}")]).with(3, &["longer than 1 GiB"]);
    nic(&["--rules", pipe]).with(3, &["a named pipe, not a file"]);
    let from_pipe = ["nic", "--port", &format!("pcap:in={pipe}")].map(str::to_owned);
    call(&from_pipe).with(5, &["a named pipe, not a file"]);
    call(&["rules", "check", long]).with(3, &["longer than 1 GiB"]);
    // What a shell writes into a pipe is read.
    let mut command = Command::new("bash");
    let rule = "flow create 0 ingress pattern eth / end actions drop / end";
    command.args(["-c", &format!("\"$NICLAB\" rules check <(echo '{rule}')")]);
    command.env("NICLAB", env!("CARGO_BIN_EXE_niclab"));
    let ended = run(command);
    ended.with(0, &[]);
    assert!(ended.out.contains("1 rule"), "{ended:?}");
}

#[test]
fn the_owner_of_an_unreadable_file_is_named() {
    if !has_others("the_owner_of_an_unreadable_file_is_named") {
        return;
    }
    let scratch = scratch();
    fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let [rules, trace] = ["rules", "in.pcap"].map(|name| scratch.path().join(name));
    fs::write(&rules, "flow flush 0\n").unwrap();
    fs::write(&trace, capture(3, 60, 1)).unwrap();
    for path in [&rules, &trace] {
        fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
    }
    let [rules, trace] = [&rules, &trace].map(|path| path.to_str().unwrap());
    let other = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", OTHER, "--regid", OTHER, "--clear-groups"]);
        command.arg(env!("CARGO_BIN_EXE_niclab")).args(words).current_dir("/");
        run(command)
    };
    let port = format!("pcap:in={trace}");
    let open = "pcap:out=/dev/null";
    for (words, code) in [
        (&["rules", "check", rules][..], 3),
        (&["nic", "--port", open, "--rules", rules], 3),
        (&["nic", "--port", open, "--program", rules], 3),
        (&["nic", "--port", open, "--balance", &format!("keys={rules}")], 3),
        (&["nic", "--port", &port], 5),
        (&["run", "occupancy", "--device", "soft", "--trace", trace], 3),
        (&["run", rules, "--device", "soft"], 3),
        (&["run", "occupancy", "--device", "soft", "--rules", rules], 3),
        (&["advise", "--device", "model:connectx-5", "--workload", rules], 3),
        (&["profile", "check", rules], 3),
        (&["program", "check", rules], 3),
    ] {
        let ended = other(words);
        ended.with(code, &["Permission denied", "owned by root, group root, with mode 0600"]);
        assert!(!ended.err.contains("give "), "{words:?}: {ended:?}");
    }
}
