//! `niclab analytics`: inputs that agree, and every wrong one with its message.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::command::{Ended, niclab, run, scratch};

/// Windows of 100 ms that slide by 50 ms.
const SHORT: [&str; 4] = ["--length-ms", "100", "--slide-ms", "50"];

fn analytics(directory: &Path, arguments: &[&str]) -> Ended {
    let mut started = niclab(&["analytics"]);
    started.args(arguments).current_dir(directory);
    run(started)
}

/// Tuples of the generator that has this seed.
fn generated(seed: &str) -> [&str; 6] {
    ["--tuples", "5000", "--seed", seed, "--keys", "50"]
}

/// Key counts of all windows together, with their order forgotten.
fn lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A command whose lines are read one by one; killed with its value.
pub struct Started {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    err: BufReader<std::process::ChildStderr>,
}

impl Started {
    pub fn new(arguments: &[&str]) -> Started {
        let mut command = niclab(&["analytics"]);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let err = BufReader::new(child.stderr.take().unwrap());
        Started { child, out, err }
    }

    /// The next line of standard output.
    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.out.read_line(&mut line).unwrap() > 0, "no line");
        line
    }

    fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// The word behind `before` in the first line that has it.
    pub fn word(&mut self, before: &str) -> String {
        let mut line = String::new();
        while !line.contains(before) {
            line.clear();
            assert!(self.err.read_line(&mut line).unwrap() > 0, "{before} is missing");
        }
        let rest = line.split_once(before).unwrap().1;
        rest.split([';', '/', ' ', '\n']).next().unwrap().to_owned()
    }

    /// Exit code, standard output, and the rest of standard error.
    pub fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.err.read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code(), out, err)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn udp_and_json_have_the_results_of_the_generator() {
    let place = scratch();
    let local = [&["--input", "generator"], &SHORT[..], &generated("3")].concat();
    let local = analytics(place.path(), &local);
    assert_eq!(local.code, Some(0), "{local:?}");
    let expected = lines(&local.out);
    assert_eq!(expected.len(), 10, "{local:?}");
    assert!(local.err.ends_with("5,000 tuples, 0 late; 10 windows\n"), "{local:?}");

    let mut udp =
        Started::new(&[&SHORT[..], &["--input", "udp:127.0.0.1:0", "--until-end"]].concat());
    let to = udp.word("tuples from udp:");
    let send = ["send", "--to", &to, "--source", "9", "--payload", "100"];
    let sent = analytics(place.path(), &[&send[..], &generated("3")].concat());
    sent.with(0, &["5,000 tuples safe in ", " sent again"]);
    let (code, out, err) = udp.end();
    assert_eq!((code, lines(&out)), (Some(0), expected.clone()), "{err}");
    assert!(err.contains("5,000 tuples, 0 late; ") && err.contains("0 malformed"), "{err}");

    // The same as lines of JSON: the counts of every window lead back to the tuples of its keys.
    let text: String = (0..5_000)
        .map(|at| format!("{{\"key\":{},\"time_ns\":{}}}\n", at % 7, at * 100_000))
        .collect();
    fs::write(place.path().join("a.jsonl"), &text).unwrap();
    let file = analytics(place.path(), &[&["--input", "json:a.jsonl"], &SHORT[..]].concat());
    let found = lines(&file.out);
    assert_eq!((file.code, found.len()), (Some(0), 10));
    assert_eq!(found[0]["top"][0]["count"], 143, "{file:?}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("json-tcp:{}", listener.local_addr().unwrap());
    let sending = thread::spawn(move || {
        listener.accept().unwrap().0.write_all(text.as_bytes()).unwrap();
    });
    let socket = analytics(place.path(), &[&["--input", &address], &SHORT[..]].concat());
    sending.join().unwrap();
    assert_eq!((socket.code, socket.out), (Some(0), file.out));
}

/// A file with free addresses for two processes.
fn write_hosts(path: &Path) {
    let free = |_| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let hosts: Vec<String> = (0..2).map(free).collect();
    fs::write(path, hosts.join("\n")).unwrap();
}

#[test]
fn processes_count_together() {
    let place = scratch();
    let path = place.path().join("hosts").display().to_string();
    write_hosts(Path::new(&path));
    let run = |process, seed| {
        let cluster = ["--hostfile", path.as_str(), "--process", process, "--input", "generator"];
        Started::new(&[&cluster[..], &SHORT[..], &generated(seed)].concat())
    };
    let (first, second) = (run("0", "1"), run("1", "1"));
    let ((code, out, err), other) = (first.end(), second.end());
    assert_eq!((code, other.0, &*other.1), (Some(0), Some(0), ""), "{err}{}", other.2);
    // Twice the same tuples: each count is twice as large.
    let alone = [&["--input", "generator"], &SHORT[..], &generated("1")].concat();
    let alone = lines(&analytics(place.path(), &alone).out);
    let together = lines(&out);
    assert_eq!(together.len(), alone.len());
    for (two, one) in together.iter().zip(&alone) {
        let counts = two["top"].as_array().unwrap().iter().zip(one["top"].as_array().unwrap());
        for (two, one) in counts {
            assert_eq!(two["key"], one["key"]);
            assert_eq!(two["count"].as_u64(), one["count"].as_u64().map(|count| 2 * count));
        }
    }
}

/// A program that sends lines to the one that connects, and its input as it is typed.
fn sender_of_lines() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let input = format!("json-tcp:{}", listener.local_addr().unwrap());
    (listener, input)
}

/// Two processes that have counted together for a while, and the programs that send lines to them.
fn cluster(path: &Path) -> [(Started, TcpStream); 2] {
    write_hosts(path);
    let mut processes = ["0", "1"].map(|process| {
        let (listener, input) = sender_of_lines();
        let cluster = ["--hostfile", path.to_str().unwrap(), "--process", process];
        let started = Started::new(&[&cluster[..], &SHORT[..], &["--input", &input]].concat());
        let mut lines = listener.accept().unwrap().0;
        for at in 0..20 {
            writeln!(lines, "{{\"key\": 1, \"time_ns\": {}}}", at * 50_000_000).unwrap();
        }
        (started, lines)
    });
    assert!(processes[0].0.line().starts_with("{\"window\":0,"));
    processes
}

#[test]
fn processes_with_other_options_are_refused_on_both_sides() {
    let place = scratch();
    let path = place.path().join("hosts").display().to_string();
    write_hosts(Path::new(&path));
    let run = |process, length| {
        let cluster = ["--hostfile", path.as_str(), "--process", process, "--input", "generator"];
        Started::new(&[&cluster[..], &["--length-ms", length, "--slide-ms", "50"]].concat())
    };
    let both = [run("0", "100"), run("1", "200")].map(Started::end);
    for ((code, out, err), wanted) in both.iter().zip([
        "--length-ms: 100 here, 200 in process 1; start all processes alike\n",
        "--length-ms: 200 here, 100 in process 0; start all processes alike\n",
    ]) {
        assert_eq!((*code, &**out), (Some(2), ""), "{err}");
        assert!(err.ends_with(wanted) && !err.contains("panicked"), "{err}");
    }
}

#[test]
fn a_process_that_is_stopped_ends_the_others() {
    let place = scratch();
    let [(first, _lines), (second, _others)] = cluster(&place.path().join("hosts"));
    second.interrupt();
    let (code, _, err) = second.end();
    assert!(code == Some(0) && err.contains("20 tuples, 0 late"), "{code:?} {err}");
    let (code, _, err) = first.end();
    assert_eq!(code, Some(9), "{err}");
    assert!(err.ends_with("connection with another process is lost; start all processes again\n"));
    assert!(!err.contains("panicked"), "{err}");
}

#[test]
fn a_process_with_a_wrong_line_ends_the_others() {
    let place = scratch();
    let [(first, _lines), (second, mut others)] = cluster(&place.path().join("hosts"));
    writeln!(others, "wrong").unwrap();
    let (code, _, err) = second.end();
    assert!(code == Some(3) && err.contains("line 21: expected value"), "{code:?} {err}");
    let (code, _, err) = first.end();
    assert_eq!(code, Some(9), "{err}");
    assert!(!err.contains("panicked"), "{err}");
}

#[test]
fn a_process_that_waits_for_others_can_be_stopped() {
    let place = scratch();
    let hosts = place.path().join("hosts");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    fs::write(&hosts, format!("127.0.0.1:1\n{free}\n")).unwrap();
    let cluster = ["--hostfile", hosts.to_str().unwrap(), "--process", "1"];
    let mut alone = Started::new(&[&cluster[..], &["--input", "udp:127.0.0.1:0"]].concat());
    alone.word("tuples from udp:");
    alone.interrupt();
    let (code, _, err) = alone.end();
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn lines_that_come_steadily_do_not_wait_for_more() {
    let (listener, input) = sender_of_lines();
    let mut counting = Started::new(&[&SHORT[..], &["--input", &input]].concat());
    let mut lines = listener.accept().unwrap().0;
    let (sent, enough) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !enough.load(Ordering::Relaxed) {
                let at = sent.fetch_add(1, Ordering::Relaxed);
                writeln!(lines, "{{\"key\": 1, \"time_ns\": {}}}", at * 50_000_000).unwrap();
                thread::sleep(Duration::from_millis(5));
            }
        });
        let line = counting.line();
        enough.store(true, Ordering::Relaxed);
        assert!(line.starts_with("{\"window\":0,"), "{line}");
    });
    let sent = sent.into_inner();
    assert!(sent < 250, "the first window came after {sent} lines");
}

/// Runs a command in a terminal of its own; `None` if none can be had here.
fn in_a_terminal(directory: &Path, arguments: &str) -> Option<Ended> {
    let mut command = Command::new("script");
    let call = format!("stty rows 24 cols 80; {} {arguments}", env!("CARGO_BIN_EXE_niclab"));
    command.args(["-qec", &call, "/dev/null"]).env("TERM", "xterm").current_dir(directory);
    let is_there = Command::new("script").arg("--version").output().is_ok();
    is_there.then(|| run(command))
}

#[test]
fn tuples_before_a_wrong_line_are_counted() {
    let place = scratch();
    let lines: String = (0..3_000_u64)
        .map(|at| format!("{{\"key\":1,\"time_ns\":{}}}\n", at * 1_000_000))
        .collect();
    fs::write(place.path().join("good.jsonl"), &lines).unwrap();
    fs::write(place.path().join("bad.jsonl"), lines + "wrong\n").unwrap();
    let good = analytics(place.path(), &[&["--input", "json:good.jsonl"], &SHORT[..]].concat());
    let bad = analytics(place.path(), &[&["--input", "json:bad.jsonl"], &SHORT[..]].concat());
    assert_eq!((bad.code, &bad.out), (Some(3), &good.out));
    assert!(bad.err.contains("3,000 tuples, 0 late; 60 windows\n"), "{bad:?}");
    assert!(bad.err.contains("line 3001: "), "{bad:?}");
}

#[test]
fn a_start_that_fails_leaves_no_file() {
    let place = scratch();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let call = ["--input", "generator", "-o", "out.jsonl"];
    let failed = analytics(place.path(), &[&call[..], &["--metrics", &port]].concat());
    failed.with(9, &["metrics"]);
    assert!(!place.path().join("out.jsonl").exists());
    let card = ["--mode", "rss", "--port", "packet:none9", "--address", "10.9.0.2/24"];
    let failed = analytics(place.path(), &[&card[..], &["-o", "out.jsonl"]].concat());
    assert_eq!(failed.code, Some(5), "{failed:?}");
    assert!(!place.path().join("out.jsonl").exists());
    analytics(place.path(), &call).with(0, &[]);
    analytics(place.path(), &call).with(4, &["out.jsonl cannot be written", "remove it"]);
}

#[test]
fn a_live_view_ends_with_the_error_of_its_input() {
    let place = scratch();
    let lines: String = (0..20_u64)
        .map(|at| format!("{{\"key\": 1, \"time_ns\": {}}}\n", at * 1_000_000_000))
        .collect();
    fs::write(place.path().join("bad.jsonl"), lines + "wrong\n").unwrap();
    let call = "analytics --live --input json:bad.jsonl --length-ms 1000";
    let Some(ended) = in_a_terminal(place.path(), call) else {
        println!("SKIP a live view: no script (apt-get install bsdutils)");
        return;
    };
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let (_, behind) = ended.out.rsplit_once("\u{1b}[?1049l").expect("the view is left");
    assert!(behind.contains("niclab: json:bad.jsonl: line 21: "), "{ended:?}");
}

#[test]
fn a_full_disk_is_reported_with_the_file() {
    let place = scratch();
    let mut bash = Command::new("bash");
    let call = "trap '' XFSZ; ulimit -f 1; exec \"$0\" analytics --input generator -o out.jsonl";
    bash.args(["-c", call, env!("CARGO_BIN_EXE_niclab")]).current_dir(place.path());
    run(bash).with(4, &["out.jsonl cannot be written: File too large"]);
}

#[test]
fn counters_are_served_to_prometheus() {
    let mut udp = Started::new(&["--input", "udp:127.0.0.1:0", "--metrics", "0"]);
    let metrics = udp.word("metrics at http://");
    let to = udp.word("tuples from udp:");
    let place = scratch();
    let send = ["send", "--to", &to, "--source", "9"];
    let sent = analytics(place.path(), &[&send[..], &generated("3")].concat());
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let read = || {
        let mut stream = TcpStream::connect(&metrics).unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: text/plain\r\n\r\n";
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    // The worker may take a while for what is safe already.
    let is_counted = |answer: &String| answer.contains("waiting{worker=\"0\"} 0\n");
    let answers = (0..1_000).map(|_| {
        thread::sleep(Duration::from_millis(10));
        read()
    });
    let answer = answers.into_iter().find(is_counted).unwrap_or_else(read);
    for line in [
        "niclab_analytics_tuples_total{outcome=\"taken\"} 5000",
        "niclab_analytics_frames_total{outcome=\"malformed\"} 0",
        "niclab_analytics_restarts_total 0",
        "niclab_analytics_waiting{worker=\"0\"} 0",
    ] {
        assert!(answer.lines().any(|of| of == line), "{line} is missing in:\n{answer}");
    }
}

#[test]
fn ctrl_c_ends_it_with_its_totals() {
    let mut udp = Started::new(&["--input", "udp:127.0.0.1:0"]);
    udp.word("tuples from udp:");
    udp.interrupt();
    let (code, out, err) = udp.end();
    assert_eq!((code, &*out), (Some(0), ""), "{err}");
    assert!(err.ends_with("0 tuples, 0 late; 0 windows\n"), "{err}");
}

#[test]
fn wrong_input_is_refused_with_a_remedy() {
    let place = scratch();
    let call = |arguments: &[&str]| analytics(place.path(), arguments);
    fs::write(place.path().join("bad.jsonl"), "{\"key\":1,\"time_ns\":5}\n{\"key\":1}\n").unwrap();
    fs::write(place.path().join("empty"), "\n").unwrap();
    fs::write(place.path().join("hosts"), "a:1\nb\n").unwrap();
    call(&["--input", "json:bad.jsonl"])
        .with(3, &["json:bad.jsonl: line 2: missing field `time_ns`", "write {\"stream\""]);
    call(&["--input", "json:none"]).with(3, &["--input json:none: ", "give a file"]);
    call(&["--input", "xml:none"]).with(2, &["write udp, udp:ADDRESS, json:FILE"]);
    call(&["--length-ms", "10", "--slide-ms", "3"]).with(2, &["the slide must divide the length"]);
    call(&["--slide-ms", "0"]).with(2, &["at least 1000 ns are needed"]);
    call(&["--input", "generator", "--zipf=-1"]).with(2, &["--zipf"]);
    call(&["--input", "generator", "--tuples", "9", "--interval-ns", "9223372036854775807"])
        .with(2, &["the last event time is 2^63 ns or more"]);
    call(&["--hostfile", "empty", "--process", "0"]).with(3, &["it names no process"]);
    call(&["--hostfile", "hosts", "--process", "0"]).with(3, &["line 2: `b`: write HOST:PORT"]);
    call(&["--input", "json:bad.jsonl", "-o", "hosts"]).with(4, &["hosts cannot be written"]);
    call(&["--cores", "9999"]).with(3, &["9999"]);
    call(&["--input", "generator", "--live"]).with(2, &["--live", "not a terminal"]);
    call(&["--input", "generator", "--until-end"]).with(2, &["--until-end is for --input udp"]);
    call(&["--input", "generator", "--zipf", "nan"]).with(2, &["give a number from 0 to 10"]);
    call(&["--port", "tap:ana9"]).with(2, &["give --mode rss, steer or dma"]);
    let card = ["--mode", "rss", "--port", "tap:ana9", "--address", "10.9.0.2/24"];
    call(&[&card[..], &["--input", "udp:10.9.0.3"]].concat()).with(2, &["--address is 10.9.0.2"]);
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = format!("udp:{}", taken.local_addr().unwrap());
    call(&["--input", &address]).with(9, &["choose another address"]);
    call(&["send", "--source", "1", "--input", "udp"]).with(2, &["send takes json:FILE"]);
}
