//! `kvs`: memcached's own test programs as clients, and what no client should send.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::command::{call, cores, niclab};

/// A server on a free port of the loopback, killed with its value.
struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    line: String,
    address: String,
}

impl Server {
    fn start(options: &[&str]) -> Server {
        let mut command = niclab(&["kvs", "--listen", "127.0.0.1:0"]);
        command.args(options).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.split(" at ").nth(1).unwrap().split(';').next().unwrap().to_owned();
        Server { child, out, line, address }
    }

    fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }

    /// Stops it by a signal; what it said last.
    fn stop(mut self, signal: Signal) -> String {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        rest
    }

    /// What is answered to these bytes until nothing has come for a while, or the end.
    fn answer(&self, said: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // Behind everything stands a question whose answer is known, unless the talk ends before.
        let _ = stream.write_all(said);
        let _ = stream.write_all(b"\r\nmn\r\n");
        let (mut all, mut piece) = (Vec::new(), [0; 4096]);
        while !all.ends_with(b"MN\r\n") {
            match stream.read(&mut piece) {
                Ok(count) if count > 0 => all.extend_from_slice(&piece[..count]),
                _ => break,
            }
        }
        String::from_utf8_lossy(&all).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program of Debian's libmemcached-tools, where it is installed.
fn tool(name: &str, test: &str) -> Option<Command> {
    let mut probe = Command::new(name);
    if probe.arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        println!("SKIP {test}: {name} is missing (apt-get install libmemcached-tools)");
        return None;
    }
    Some(Command::new(name))
}

#[test]
fn memccapable_passes_in_full() {
    let test = "memccapable_passes_in_full";
    let Some(mut command) = tool("memccapable", test) else { return };
    let server = Server::start(&[]);
    // Every protocol, each of its tests.
    let ended = command.args(["-h", "127.0.0.1", "-p", server.port()]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said}");
    assert!(said.contains("All tests passed"), "{said}");
    let passed = said.lines().filter(|line| line.ends_with("[pass]")).count();
    assert_eq!(passed, 54, "27 of the text protocol and 27 of the binary one:\n{said}");
}

#[test]
fn memcaslap_finds_what_it_has_stored() {
    let test = "memcaslap_finds_what_it_has_stored";
    let _cores = cores();
    for more in [&[][..], &["--binary"], &["--udp"]] {
        let Some(mut command) = tool("memcaslap", test) else { return };
        let server = Server::start(&["--memory", "1GiB"]);
        command.args(["-s", &server.address, "-T", "1", "-c", "16", "-t", "4s", "-v", "1"]);
        command.args(["-X", "256"]).args(more);
        let ended = command.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        let figure = |name: &str| -> u64 {
            let value = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.unwrap_or_else(|| panic!("no {name} in {said}")).trim().parse().unwrap()
        };
        assert!(ended.status.success(), "{said}");
        assert!(figure("cmd_get") > 1000 && figure("cmd_set") > 100, "{more:?}: {said}");
        assert_eq!((figure("get_misses"), figure("verify_failed")), (0, 0), "{more:?}: {said}");
        assert_eq!(figure("verify_misses"), 0, "{more:?}: {said}");
        let told = server.stop(Signal::INT);
        assert!(told.contains(", 0 refused") && told.contains(", 0 evicted"), "{told}");
    }
}

/// What memcached answers to it, `MN` being the question behind.
const MALFORMED: [(&[u8], &str); 14] = [
    (b"bogus", "ERROR\r\nMN\r\n"),
    (b"set a 0 0 -1", "CLIENT_ERROR bad command line format\r\nMN\r\n"),
    (b"set a 0 0 2147483647", "CLIENT_ERROR bad command line format\r\nMN\r\n"),
    (b"set a 0 0 1\r\nxyz", "CLIENT_ERROR bad data chunk\r\nERROR\r\nMN\r\n"),
    (b"incr a -1", "CLIENT_ERROR invalid numeric delta argument\r\nMN\r\n"),
    (b"touch a b", "CLIENT_ERROR invalid exptime argument\r\nMN\r\n"),
    (b"mg a v v", "CLIENT_ERROR duplicate flag\r\nMN\r\n"),
    (b"mg ! b", "CLIENT_ERROR error decoding key\r\nMN\r\n"),
    (b"ms a 2 MX\r\nhi", "CLIENT_ERROR invalid mode for ms M token\r\nMN\r\n"),
    (b"\0\0\0\0\0", "ERROR\r\nMN\r\n"),
    (b"\xff\xfe get a", "ERROR\r\nMN\r\n"),
    (&[b'x'; 3000], "ERROR\r\nMN\r\n"),
    (b"GET / HTTP/1.1", ""),
    (b"quit", ""),
];

#[test]
fn malformed_requests_are_answered_as_memcached_does() {
    let server = Server::start(&[]);
    let long = [&b"get "[..], &[b'k'; 251]].concat();
    let bad = "CLIENT_ERROR bad command line format\r\nMN\r\n";
    for (said, answered) in MALFORMED.into_iter().chain([(&long[..], bad)]) {
        // A line so long may be looked at before its end has come, and then the talk is over.
        let told = server.answer(said);
        let is_cut = said.len() > 2048 && told.is_empty();
        assert!(told == answered || is_cut, "{}: {told}", String::from_utf8_lossy(said));
    }
    let told = server.stop(Signal::TERM);
    assert!(told.contains("15 connections, 0 refused"), "{told}");
}

#[test]
fn it_says_where_it_listens_and_what_it_did() {
    let server = Server::start(&["--memory", "8MiB", "--connections", "1", "--idle-timeout", "60"]);
    assert!(server.line.starts_with("kvs over TCP and UDP at 127.0.0.1:"), "{}", server.line);
    assert!(server.line.contains("8 MiB of memory; Ctrl-C ends it"), "{}", server.line);
    let told = server.answer(b"set a 0 0 1\r\nx\r\nget a");
    assert_eq!(told, "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nMN\r\n");
    let told = server.stop(Signal::INT);
    assert!(told.contains("1 keys read, 1 found; 1 stored; 1 items there, 0 evicted"), "{told}");
    let quiet = Server::start(&["--udp", "off"]);
    assert!(quiet.line.starts_with("kvs over TCP at 127.0.0.1:"), "{}", quiet.line);
}

#[test]
fn what_cannot_be_served_is_refused_by_name() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    let of = |options: &[&str]| call(&[&["kvs"], options].concat());
    of(&["--listen", &taken]).with(9, &[&taken, "is in use: choose another port with --listen"]);
    of(&["--listen", "192.0.2.1"]).with(9, &["192.0.2.1:11211 is not an address of this machine"]);
    of(&["--listen", "nowhere"]).with(2, &["--listen nowhere: give an address such as"]);
    of(&["--cores", "4095"]).with(2, &["core 4095: choose one of the cores"]);
    of(&["--cores", "0,0"]).with(3, &["core 0 is named twice"]);
    of(&["--memory", "1KiB"]).with(3, &["--memory 1024: use at least 262144 bytes"]);
    of(&["--memory", "64MB"]).with(2, &["`64MB` is no size: give one such as 64MiB"]);
    of(&["--connections", "0"]).with(2, &["0 is not in 1..=1048576"]);
    of(&["--idle-timeout", "0"]).with(2, &["0 is not in 1.."]);
    of(&["--udp", "perhaps"]).with(2, &["possible values: on, off"]);
}
