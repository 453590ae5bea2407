//! `nic top`: a frame of a card that runs, and the view on a terminal.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::command::{Running, call, niclab, scratch, slow_capture, start};

/// A card that plays a frame at once and the next one hours later, with a rule that counts it and
/// one that does not count. The path of its socket is too long for a line of 80 columns.
fn card() -> (tempfile::TempDir, Running, PathBuf) {
    let scratch = scratch();
    let directory = scratch.path().join("a-directory-with-a-long-name");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("slow.pcap"), slow_capture()).unwrap();
    let rules = "flow create 0 ingress pattern eth / ipv4 / end actions count / queue index 1 / \
                 end\nflow create 1 priority 3 ingress pattern eth / end actions drop / end\n";
    fs::write(directory.join("rules"), rules).unwrap();
    let ports = ["nic", "--port", "pcap:in=slow.pcap", "--port", "pcap:out=out.pcap"];
    let mut command = niclab(&ports);
    command.args(["--queues", "2", "--rules", "rules", "--control", "card"]);
    command.current_dir(&directory);
    let socket = directory.join("card");
    let mut running = start(command);
    assert!(running.wait_until(|| UnixStream::connect(&socket).is_ok()));
    let asks = ["nic", "ctl", "--control", socket.to_str().unwrap(), "counters"];
    assert!(running.wait_until(|| call(&asks).out.contains(": in 1 frame")));
    (scratch, running, socket)
}

/// The words of the line that has this word.
fn words<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let line = text.lines().find(|line| line.contains(word));
    line.unwrap_or_else(|| panic!("{word} is missing in:\n{text}")).split_whitespace().collect()
}

#[test]
fn a_frame_shows_what_a_card_knows_and_what_it_does_not() {
    let (_scratch, running, socket) = card();
    let top = ["nic", "top", "--control", socket.to_str().unwrap()];
    let ended = call(&[&top[..], &["--once", "--interval", "0.2"]].concat());
    ended.with(0, &[]);
    let text = &ended.out;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("rates over 0.2 s"), "{text}");
    let port = ["0", "pcap:in=slow.pc", "0", "0", "0", "0", "0", "0"];
    assert_eq!(words(text, "pcap:in")[2..], port[2..]);
    assert!(text.contains("Queues: 4") && text.contains("Cores: 1"), "{text}");
    assert!(text.contains("Rules: 2, by hits/s"), "{text}");
    let counts = words(text, "COUNT QUEUE");
    assert_eq!(counts[..7], ["0", "0", "0", "0", "0", "1", "ETH"], "{text}");
    let does_not = words(text, "ETH => DROP");
    assert_eq!(does_not[..8], ["1", "0", "0", "3", "not", "known", "not", "known"], "{text}");
    call(&top).with(2, &["nic top needs a terminal; --once prints one frame as text"]);
    call(&[&top[..], &["--interval", "0"]].concat()).with(2, &["write seconds from 0.1 to 3600"]);
    call(&["nic", "ctl", "--control", socket.to_str().unwrap(), "stop"]).with(0, &[]);
    running.end().with(0, &[]);
    call(&[&top[..], &["--once"]].concat()).with(9, &["no card listens there"]);
}

/// The terminal, which is gone after the test however it ends.
struct Script(Child);

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_view_takes_the_terminal_and_gives_it_back() {
    let test = "a_view_takes_the_terminal_and_gives_it_back";
    let (_scratch, running, socket) = card();
    let top = format!(
        "stty rows 24 cols 80; exec {} nic top --control {} --interval 0.1",
        env!("CARGO_BIN_EXE_niclab"),
        socket.display()
    );
    // It makes a terminal, types into it what comes, and prints what it shows.
    let mut command = Command::new("script");
    command.args(["-qec", &top, "/dev/null"]).env("TERM", "xterm");
    let Ok(child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        println!("SKIP {test}: no script (apt-get install bsdutils)");
        return;
    };
    let mut script = Script(child);
    let (mut keys, mut out) = (script.0.stdin.take().unwrap(), script.0.stdout.take().unwrap());
    let (to, pieces) = channel();
    thread::spawn(move || {
        let mut piece = [0; 4_096];
        while let Ok(len @ 1..) = out.read(&mut piece) {
            let _ = to.send(String::from_utf8_lossy(&piece[..len]).into_owned());
        }
    });
    let mut shown = String::new();
    // A view that never shows it is drawn anew all the time.
    let mut until = |phrase: &str| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !shown.contains(phrase) {
            let piece = pieces.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            shown += &piece.unwrap_or_else(|_| panic!("{phrase} is missing in:\n{shown}"));
        }
    };
    until("\u{1b}[?1049h");
    until("by hits/s");
    keys.write_all(b"p").unwrap();
    until("paused");
    keys.write_all(b"q").unwrap();
    until("\u{1b}[?1049l");
    assert!(script.0.wait().unwrap().success());
    call(&["nic", "ctl", "--control", socket.to_str().unwrap(), "stop"]).with(0, &[]);
    running.end().with(0, &[]);
}
