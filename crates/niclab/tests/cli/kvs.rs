//! `kvs`: memcached's own test programs as clients, and what no client should send.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::command::{call, cores, niclab};

/// A server on a free port, killed with its value.
pub struct Server {
    pub child: Child,
    out: BufReader<ChildStdout>,
    pub line: String,
    pub address: String,
}

impl Server {
    /// One at the loopback.
    pub fn start(options: &[&str]) -> Server {
        Server::at("127.0.0.1:0", options)
    }

    pub fn at(listen: &str, options: &[&str]) -> Server {
        let mut command = niclab(&["kvs", "--listen", listen]);
        command.args(options).stdout(Stdio::piped());
        Server::of(command)
    }

    fn of(mut command: Command) -> Server {
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address =
            line.split(" at ").nth(1).unwrap().split([';', ',']).next().unwrap().to_owned();
        Server { child, out, line, address }
    }

    pub fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }

    /// Stops it by a signal; what it said last.
    pub fn stop(mut self, signal: Signal) -> String {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        rest
    }

    fn answer(&self, message: &[u8]) -> String {
        answer(&self.address, message)
    }
}

/// What is answered to these bytes on a connection of their own.
fn answer(address: &str, message: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // Behind everything stands a question whose answer is known, unless the talk ends before. Who
    // has ended it may say so by a reset, and what came until then counts.
    let _ = stream.write_all(message);
    let _ = stream.write_all(b"\r\nmn\r\n");
    let _ = stream.shutdown(Shutdown::Write);
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first two cores that may be used, or the only one.
pub fn two_cores() -> String {
    let set = sched_getaffinity(None).unwrap();
    let there = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).take(2);
    there.map(|core| core.to_string()).collect::<Vec<_>>().join(",")
}

/// A program of Debian's libmemcached-tools, where it is installed.
pub fn tool(name: &str, test: &str) -> Option<Command> {
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
    let message = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{message}");
    assert!(message.contains("All tests passed"), "{message}");
    let passed = message.lines().filter(|line| line.ends_with("[pass]")).count();
    assert_eq!(passed, 54, "27 of the text protocol and 27 of the binary one:\n{message}");
}

#[test]
fn memcaslap_finds_what_it_has_stored() {
    let test = "memcaslap_finds_what_it_has_stored";
    let _cores = cores();
    for more in [&[][..], &["--binary"], &["--udp"]] {
        let Some(mut command) = tool("memcaslap", test) else { return };
        let server = Server::start(&["--memory", "1GiB", "--cores", &two_cores()]);
        command.args(["-s", &server.address, "-T", "1", "-c", "16", "-t", "4s", "-v", "1"]);
        command.args(["-X", "256"]).args(more);
        let ended = command.output().unwrap();
        let message = String::from_utf8_lossy(&ended.stdout);
        let figure = |name: &str| -> u64 {
            let value =
                message.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.unwrap_or_else(|| panic!("no {name} in {message}")).trim().parse().unwrap()
        };
        assert!(ended.status.success(), "{message}");
        assert!(figure("cmd_get") > 1000 && figure("cmd_set") > 100, "{more:?}: {message}");
        assert_eq!((figure("get_misses"), figure("verify_failed")), (0, 0), "{more:?}: {message}");
        assert_eq!(figure("verify_misses"), 0, "{more:?}: {message}");
        let text = server.stop(Signal::INT);
        assert!(text.contains(", 0 refused") && text.contains(", 0 evicted"), "{text}");
    }
}

/// Talks to which memcached and `kvs` answer the same, letter for letter. Left out is what hangs on
/// numbers that each gives by itself, what memcached's releases answer differently, and that an
/// error in a `get` makes memcached forget answers to what was said before.
const TALKS: [&str; 46] = [
    "set a 5 0 3|abc|get a|get a b a|append a 0 0 1|d|prepend a 0 0 1|_|get a",
    "add a 0 0 1|x|add a 0 0 1|y|replace a 0 0 1|z|replace b 0 0 1|z|get a b",
    "set a 0 -1 1|x|get a|set a 0 100 1|x|touch a 0|touch b 0|gat 5 a b",
    "cas a 0 0 1 1|x|set a 0 0 1|x|cas a 0 0 1 99999|y|get a",
    "set n 0 0 2|10|incr n 5|decr n 6|get n|decr n 100|get n|incr n 18446744073709551615|incr n 1",
    "set n 0 0 25|0000000000000000000000001|incr n 1|get n",
    "set t 0 0 3|abc|incr t 1|incr none 1|incr t x|incr t -1|incr t|incr t 1 2 3",
    "set a 0 0 1|x|delete a|delete a|delete a 0|delete a 5|delete a noreply|delete a b c",
    "set a 0 0 1 noreply|x|add a 0 0 1 noreply|y|incr a 1 noreply|touch a 1 noreply|get a",
    "flush_all|flush_all 0|flush_all -1|flush_all x|flush_all noreply|flush_all 0 noreply",
    "verbosity|verbosity 1|verbosity x|verbosity 1 2|verbosity 1 noreply",
    "get|gets|get |gat|gat x a|gat 0 none|touch|touch a|touch a x",
    "bogus|GET a|set|set a|set a 0 0|set a 0 0 1 noreply extra|cas a 0 0 1|x",
    "set a x 0 1|x|set a 0 x 1|x|set a 0 0 x|set a 0 0 -1|set a -1 0 1|x",
    "set a 0 0 2147483647|cas a 0 0 1 x|x|set a x 0 1 noreply|x",
    "set a 0 0 1|xyz|set a 0 0 3|x|get a|set a 0 0 0||get a",
    "delete K|incr K 1|touch K 0|set K 0 0 1|x",
    "set a 0 0 1048577|V|get a|add a 0 0 1048577|V|ms a 1048577|V",
    "  get a|get a |get  a  b |stats bogus|stats reset|stats sizes",
    "set a 5 0 3|abc|mg a|mg a v|mg a s v t f k Oq1|mg none|mg none v q|mg none k Oabc",
    "set a 5 0 3|abc|mg a h|mg a h|mg a u h|mg a v v|mg a !|mg a T|mg a Tx|mg a R|mg a N",
    "set a 0 0 1|x|mg a T50 t|mg a t|mg K|me K|md K|ma K",
    "mg a O1234567890123456789012345678901|mg a O12345678901234567890123456789012",
    "ms YmluMQ== 3 b F7 T100|bin|mg YmluMQ== b k v f t|mg bin1 k|get bin1|mg !!! b|mg Y b",
    "mg a N30 t v|mg a N30 t v|mg a v",
    "set x 0 100 1|x|mg x R200|mg x R200|mg x R20|set y 0 0 1|y|mg y R200",
    "ms a 2|hi|mg a v f t|ms a 2 F9 T90 k Oabc|hi|mg a v f t|ms a 2 q|ho|mg a v",
    "ms a x|ms a -1|ms a 2|hix|ms a|ms a 2 MX|hi",
    "ms a 2 ME|hi|ms a 2 ME|ho|ms a 2 ME q|ho|ms a 2 MR|ho|ms b 2 MR|ho|ms a 2 MS|hu|mg a v",
    "ms a 2 MA|hi|ms a 2|hi|ms a 2 MA|ho|ms a 1 MP|_|mg a v",
    "ms a 2 C1|hi|ms a 2|hi|ms a 2 C1|ho|ms a 2 C1 q|ho|mg a v",
    "ms a 2|hi|ms a 2 C1 I|ho|mg a v|mg a v|ms a 2|hi|mg a v",
    "ms !! 2 b|hi|ms a 2 v v|hi|ms a 2 ! |hi",
    "set a 0 0 1|x|md a|mg a|md a|md none q|set a 0 0 1|x|md a q|mg a",
    "set a 0 0 1|x|md a k Oabc|md none k Oabc|set a 0 0 1|x|md a C1|md a C1 q|mg a",
    "set a 0 0 3|abc|md a I|mg a v|mg a v|set a 0 0 1|x|mg a v",
    "set a 0 0 3|abc|md a I T30|mg a t|md a I|mg a t",
    "set n 0 0 2|10|ma n|ma n v|ma none|ma none q|ma n q|ma n D5 v|ma n MD D3 v",
    "set n 0 0 2|10|ma n MD D300 v|ma n M+ v|ma n M- v|ma n MI v|ma n MX v|ma n t v k Oabc",
    "ma n N90 J13 v t|ma n v t|ma n T30 t|ma n C1|ma n C1 q|ma n N90 v q",
    "set a 0 0 3|abc|ma a v|ma none k Oabc|me none|mn|mn x|m|mx a",
    "set a 0 0 1|x|get a|get b|set b 0 0 1|y|get a b|delete a|get a b",
    "set a 4294967295 0 1|x|get a|set a 0 2592000 1|x|mg a t|set a 0 3000000 1|x|get a",
    "set a 0 0 1|x|append a 7 -1 1|y|get a|prepend none 0 0 1|y|append none 0 0 1 noreply|y",
    "set a 0 0 5|a b c|get a|set b 0 0 4|\r\n\r\n|get b|set c 0 0 2|\0\0|get c",
    "set kéy 0 0 1|x|get kéy|set \u{1} 0 0 1|x|get \u{1}",
];

/// The real memcached, on a port that was free, killed with its value.
struct Memcached {
    child: Child,
    address: String,
}

impl Memcached {
    fn start(test: &str) -> Option<Memcached> {
        let version = Command::new("memcached").arg("-V").output();
        let version = version.map(|text| String::from_utf8_lossy(&text.stdout).into_owned());
        if !version.as_ref().is_ok_and(|text| text.contains("memcached 1.6.18")) {
            println!("SKIP {test}: needs memcached 1.6.18, found {version:?}");
            return None;
        }
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new("memcached");
        command.args(["-u", "nobody", "-l", "127.0.0.1", "-U", "0", "-t", "1", "-p"]);
        let child = command.arg(free.port().to_string()).spawn().unwrap();
        let memcached = Memcached { child, address: free.to_string() };
        let start = Instant::now();
        while TcpStream::connect(&memcached.address).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "memcached does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(memcached)
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn memcached_answers_the_same() {
    let Some(memcached) = Memcached::start("memcached_answers_the_same") else { return };
    let server = Server::start(&[]);
    let (key, value) = ("k".repeat(251), "v".repeat(1_048_577));
    let mut otherwise = String::new();
    for talk in TALKS {
        let message = talk.replace('K', &key).replace('V', &value).replace('|', "\r\n");
        let message = ["flush_all\r\n", &message].concat();
        let [ours, theirs] = [&server.address, &memcached.address]
            .map(|address| answer(address, message.as_bytes()));
        if ours != theirs {
            otherwise += &format!("{talk}\n  kvs       {ours:?}\n  memcached {theirs:?}\n");
        }
    }
    assert!(otherwise.is_empty(), "{otherwise}");
}

/// A request of the binary protocol.
fn frame(code: u8, extras: &[u8], key: &str, value: &str, cas: u64) -> Vec<u8> {
    let mut bytes = vec![0x80, code];
    bytes.extend_from_slice(&(key.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
    let body_len = extras.len() + key.len() + value.len();
    bytes.extend_from_slice(&(body_len as u32).to_be_bytes());
    bytes.extend_from_slice(&[1, 2, 3, code]);
    bytes.extend_from_slice(&cas.to_be_bytes());
    [&bytes, extras, key.as_bytes(), value.as_bytes()].concat()
}

/// What is answered to frames, each answer with the number of the item as whether it has one.
fn framed_answers(address: &str, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&frames.concat()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let (mut all, mut answers) = (Vec::new(), Vec::new());
    let _ = stream.read_to_end(&mut all);
    let mut rest = &all[..];
    while rest.len() >= 24 {
        let body_len = u32::from_be_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (answer, behind) = rest.split_at(24 + body_len);
        let mut answer = answer.to_vec();
        let has_cas = answer[16..24].iter().any(|byte| *byte != 0);
        answer.splice(16..24, [u8::from(has_cas)]);
        answers.push(answer);
        rest = behind;
    }
    answers
}

#[test]
fn memcached_answers_the_same_to_frames() {
    let Some(memcached) = Memcached::start("memcached_answers_the_same_to_frames") else { return };
    let server = Server::start(&[]);
    let (store, time) = ([0, 0, 0, 5, 0, 0, 0, 0], [0, 0, 0, 100]);
    let count = |code, delta: u64, initial: u64, time: u32, key| {
        let numbers = [delta, initial].map(u64::to_be_bytes).concat();
        frame(code, &[&numbers[..], &time.to_be_bytes()].concat(), key, "", 0)
    };
    let plain = |code, key| frame(code, b"", key, "", 0);
    let set = |code, key, value, cas| frame(code, &store, key, value, cas);
    let join = |code, key, cas| frame(code, b"", key, "x", cas);
    let reads = |key| [0, 9, 0xc, 0xd].map(|code| plain(code, key)).to_vec();
    let touches = |key| [0x1c, 0x1d, 0x1e, 0x23, 0x24].map(|code| frame(code, &time, key, "", 0));
    let (large, long) = ("v".repeat(1_048_577), "k".repeat(251));
    let talks: [Vec<Vec<u8>>; 12] = [
        [vec![set(1, "k", "v", 0)], reads("k"), reads("none"), vec![plain(0xa, "")]].concat(),
        [1, 2, 3, 0x11, 0x12, 0x13].map(|code| set(code, "k", "v", 0)).to_vec(),
        [3, 0x13, 2, 3].map(|code| set(code, "k", "v", 0)).to_vec(),
        [vec![set(1, "k", "v", 0)], [1, 2, 3, 0x11].map(|code| set(code, "k", "w", 99)).to_vec()]
            .concat(),
        [1, 2, 3].map(|code| set(code, "none", "w", 99)).to_vec(),
        [0xe, 0xf, 0x19, 0x1a].map(|code| join(code, "none", 0)).to_vec(),
        vec![set(1, "k", "", 0), join(0xe, "k", 0), join(0x1a, "k", 0), join(0xe, "k", 99)],
        vec![plain(4, "k"), plain(0x14, "k"), set(1, "k", "v", 0), frame(4, b"", "k", "", 99)],
        vec![
            count(5, 1, 7, u32::MAX, "n"),
            count(5, 1, 7, 0, "n"),
            count(6, 100, 0, 0, "n"),
            count(0x15, 1, 5, u32::MAX, "none"),
            count(0x16, 1, 5, 0, "m"),
            plain(0xc, "m"),
            set(1, "t", "text", 0),
            count(5, 1, 0, 0, "t"),
        ],
        [vec![set(1, "k", "v", 0)], touches("k").to_vec(), touches("none").to_vec()].concat(),
        vec![plain(8, ""), frame(8, &time, "", "", 0), plain(0x18, ""), plain(0x10, "bogus")],
        vec![set(1, "k", "v", 0), set(1, "k", &large, 0), plain(0, "k"), plain(0x20, "")],
    ];
    // Each of these is the last that is heard.
    let last = [
        plain(7, ""),
        plain(0x17, ""),
        plain(0, ""),
        plain(0xa, "k"),
        plain(0, &long),
        frame(0, b"x", "k", "", 0),
        frame(1, b"", "k", "v", 0),
        frame(5, b"12345678", "k", "", 0),
        frame(0x1c, b"", "k", "", 0),
    ];
    let last = last.map(|frame| vec![frame, plain(0xa, "")]);
    for talk in talks.iter().chain(&last) {
        let talk = [&[plain(8, "")], &talk[..]].concat();
        let [ours, theirs] =
            [&server.address, &memcached.address].map(|address| framed_answers(address, &talk));
        let shown: Vec<_> = talk.iter().map(|frame| &frame[..frame.len().min(60)]).collect();
        assert_eq!(ours, theirs, "{shown:?}");
    }
}

/// A hang-up ends neither: whoever has started it may log out.
#[test]
fn it_goes_on_when_who_started_it_hangs_up() {
    let server = Server::start(&[]);
    kill_process(Pid::from_child(&server.child), Signal::HUP).unwrap();
    assert_eq!(server.answer(b"set a 0 0 1\r\nx"), "STORED\r\nMN\r\n");
    let text = server.stop(Signal::TERM);
    assert!(text.contains("1 stored"), "{text}");
}

/// Names that `stats` and `stats settings` tell, each with a value of its kind: what the exporter
/// of Prometheus reads and has a meaning here, and what its other readers ask for.
const TOLD: [&str; 24] = [
    "pid",
    "uptime",
    "time",
    "version",
    "pointer_size",
    "rusage_user",
    "rusage_system",
    "max_connections",
    "curr_connections",
    "total_connections",
    "rejected_connections",
    "cmd_get",
    "cmd_set",
    "cmd_flush",
    "cmd_touch",
    "cmd_meta",
    "accepting_conns",
    "listen_disabled_num",
    "time_in_listen_disabled_us",
    "conn_yields",
    "limit_maxbytes",
    "bytes",
    "evictions",
    "reclaimed",
];

#[test]
fn statistics_are_those_of_the_process() {
    let server = Server::start(&["--memory", "8MiB", "--connections", "9"]);
    let figure = |message: &str, name: &str| {
        let line = format!("STAT {name} ");
        let value = message.lines().find_map(|text| text.strip_prefix(&line[..]));
        value.unwrap_or_else(|| panic!("no {name} in {message}")).to_owned()
    };
    // A long talk, of which the rest waits until others had their turn, takes time.
    let busy = ["set a 0 0 50000\r\n", &"v".repeat(50_000), "\r\n"].concat();
    let busy = [busy, "get a\r\n".repeat(2_000)].concat();
    assert!(server.answer(busy.as_bytes()).len() > 100_000_000);
    let message = server.answer(b"set b 0 0 1\r\nx\r\nget b\r\nmg b v\r\nstats");
    TOLD.iter().for_each(|name| assert!(!figure(&message, name).is_empty()));
    assert_eq!(figure(&message, "accepting_conns"), "1");
    assert_eq!(
        (figure(&message, "cmd_get"), figure(&message, "cmd_meta")),
        ("2002".into(), "1".into())
    );
    assert_ne!(figure(&message, "conn_yields"), "0");
    let seconds = |name| figure(&message, name).parse::<f64>().unwrap();
    assert!(seconds("rusage_user") + seconds("rusage_system") > 0.0, "{message}");
    assert_eq!(figure(&message, "rusage_user").split_once('.').unwrap().1.len(), 6);
    let message = server.answer(b"verbosity 9\r\nstats detail on\r\nstats settings");
    for (name, value) in [
        ("verbosity", "2"),
        ("detail_enabled", "yes"),
        ("domain_socket", "NULL"),
        ("inter", "127.0.0.1"),
        ("maxconns", "9"),
        ("maxbytes", "8388608"),
    ] {
        assert_eq!(figure(&message, name), value);
    }
    let lines = message.lines().filter(|line| line.starts_with("STAT "));
    assert!(lines.clone().count() > 20);
    // Readers split a line at its spaces.
    assert!(lines.clone().all(|line| line.split(' ').count() == 3), "{message}");
    let message = server.answer(b"stats items\r\nstats slabs");
    assert_eq!(figure(&message, "items:1:number"), "2");
    assert_eq!(figure(&message, "1:cmd_set"), "2");
    assert_eq!(figure(&message, "active_slabs"), "1");
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
    for (message, answered) in MALFORMED.into_iter().chain([(&long[..], bad)]) {
        // A line so long may be looked at before its end has come, and then the talk is over.
        let text = server.answer(message);
        let is_cut = message.len() > 2048 && text.is_empty();
        assert!(text == answered || is_cut, "{}: {text}", String::from_utf8_lossy(message));
    }
    let text = server.stop(Signal::TERM);
    assert!(text.contains("15 connections, 0 refused"), "{text}");
}

#[test]
fn it_says_where_it_listens_and_what_it_did() {
    let server = Server::start(&["--memory", "8MiB", "--connections", "1", "--idle-timeout", "60"]);
    assert!(server.line.starts_with("kvs over TCP and UDP at 127.0.0.1:"), "{}", server.line);
    assert!(server.line.contains("8 MiB of memory; Ctrl-C ends it"), "{}", server.line);
    let text = server.answer(b"set a 0 0 1\r\nx\r\nget a");
    assert_eq!(text, "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nMN\r\n");
    // What it says at its end is of all the time, as what it says of connections.
    assert_eq!(server.answer(b"stats reset"), "RESET\r\nMN\r\n");
    // A terminal and who started it may both hand on the same Ctrl-C.
    kill_process(Pid::from_child(&server.child), Signal::INT).unwrap();
    let text = server.stop(Signal::TERM);
    assert!(text.contains("1 key read, 1 found; 1 stored; 1 item there, 0 evicted"), "{text}");
    let quiet = Server::start(&["--udp", "off"]);
    assert!(quiet.line.starts_with("kvs over TCP at 127.0.0.1:"), "{}", quiet.line);
}

#[test]
fn an_unservable_option_is_refused_by_name() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    let of = |options: &[&str]| call(&[&["kvs"], options].concat());
    of(&["--listen", &taken]).with(9, &[&taken, "is in use: choose another port with --listen"]);
    of(&["--listen", "192.0.2.1"]).with(9, &["192.0.2.1:11211 is not an address of this machine"]);
    of(&["--listen", "nowhere"]).with(2, &["--listen: the name nowhere cannot be resolved: "]);
    of(&["--cores", "4095"]).with(3, &["core 4095: choose one of the cores"]);
    of(&["--cores", "0,0"]).with(3, &["core 0 is named twice"]);
    of(&["--memory", "1KiB"]).with(3, &["--memory 1024: use at least 262144 bytes"]);
    of(&["--memory", "64MB"]).with(2, &["`64MB` is no size: give one such as 64MiB"]);
    of(&["--connections", "0"]).with(2, &["0 is not in 1..=1048576"]);
    of(&["--idle-timeout", "0"]).with(2, &["0 is not in 1.."]);
    of(&["--udp", "perhaps"]).with(2, &["write on, off or a port"]);
    of(&["-p", "0"]).with(2, &["the store always serves TCP; write a port from 1 to 65535"]);
    of(&["-l", "127.0.0.1:11300", "-p", "11301"]).with(2, &["name two ports; give one"]);
    of(&["-l", "127.0.0.1,::1"]).with(2, &["give one address, or 0.0.0.0 for all"]);
    of(&["-m", "64", "--memory", "64MiB"]).with(2, &["cannot be used with", "-m <MIB>"]);
    of(&["-t", "1", "--cores", "0"]).with(2, &["cannot be used with", "--threads <N>"]);
    of(&["-d", "--listen", &taken]).with(9, &[&taken, "is in use: choose another port"]);
}

/// A port that TCP and UDP of the loopback address have free.
fn free_port() -> u16 {
    let free = |socket: &TcpListener| UdpSocket::bind(socket.local_addr().unwrap()).is_ok();
    let sockets = (0..32).map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    sockets.into_iter().find(free).unwrap().local_addr().unwrap().port()
}

#[test]
fn the_options_of_memcached_mean_the_same_here() {
    let [tcp, udp] = [(); 2].map(|()| free_port().to_string());
    let mut command = niclab(&["kvs", "-l", "127.0.0.1", "-p", &tcp, "-U", &udp]);
    command.args(["-m", "32", "-t", "2", "-c", "100"]).stdout(Stdio::piped());
    let server = Server::of(command);
    assert!(server.line.contains(&format!("TCP at 127.0.0.1:{tcp}, UDP at 127.0.0.1:{udp}; ")));
    let text = server.answer(b"stats settings");
    for (name, value) in [
        ("inter", "127.0.0.1"),
        ("maxbytes", "33554432"),
        ("maxconns", "100"),
        ("num_threads", "2"),
        ("tcpport", &*tcp),
        ("udpport", &*udp),
    ] {
        assert!(text.contains(&format!("STAT {name} {value}\r\n")), "{name}: {text}");
    }
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    client.connect(format!("127.0.0.1:{udp}")).unwrap();
    client.send(b"\0\x01\0\0\0\x01\0\0mn\r\n").unwrap();
    let mut answer = [0; 100];
    let len = client.recv(&mut answer).unwrap();
    assert!(answer[..len].ends_with(b"MN\r\n"), "{answer:?}");
}

#[test]
fn a_store_in_the_background_listens_when_the_command_returns() {
    let port = free_port().to_string();
    let ended = call(&["kvs", "-d", "-l", "127.0.0.1", "-p", &port]);
    ended.with(0, &[]);
    let address = format!("127.0.0.1:{port}");
    let text = answer(&address, b"stats");
    let pid = text.split("STAT pid ").nth(1).unwrap().split("\r\n").next().unwrap();
    assert!(ended.out.contains(&format!("; `kill {pid}` ends it\n")), "{ended:?}");
    // It has left the session, the terminal and the directory of the command.
    let link = |name: &str| std::fs::read_link(format!("/proc/{pid}/{name}")).unwrap();
    assert_eq!((link("cwd"), link("fd/1")), ("/".into(), "/dev/null".into()));
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::TERM).unwrap();
    let start = Instant::now();
    while TcpStream::connect(&address).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(20), "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}
