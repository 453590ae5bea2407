//! `kvs` in trouble: crowds, clients that stall, memory that is full, datagrams that are no
//! requests, and networks that nobody asked it to serve over UDP.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, geteuid, getrlimit, setrlimit};

use crate::command::{cores, run};
use crate::kvs::{Server, two_cores};

/// Far more than any answer takes, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

const MIB: usize = 1 << 20;

/// A connection of which no read takes for ever.
fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(&server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Says something and reads until the answer ends so.
#[track_caller]
fn ask(stream: &mut TcpStream, message: &[u8], end: &str) -> String {
    stream.write_all(message).unwrap();
    let (mut all, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    while !all.ends_with(end.as_bytes()) {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&piece[..count]);
    }
    String::from_utf8(all).unwrap()
}

/// A figure of `stats`.
#[track_caller]
fn figure(stream: &mut TcpStream, name: &str) -> usize {
    let output = ask(stream, b"stats\r\n", "END\r\n");
    let line = format!("STAT {name} ");
    let value = output.split("\r\n").find_map(|output| output.strip_prefix(&line)).unwrap();
    value.parse().unwrap()
}

/// Waits until a figure of `stats` is this.
#[track_caller]
fn wait_for(stream: &mut TcpStream, name: &str, wanted: usize) {
    let start = Instant::now();
    while figure(stream, name) != wanted {
        assert!(start.elapsed() < PATIENCE, "{name} is {}", figure(stream, name));
        sleep(Duration::from_millis(10));
    }
}

/// Memory of the server's own that is in use, bytes.
fn memory(server: &Server) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}

/// A request that comes in two halves.
struct Halves {
    whole: Vec<u8>,
    /// Bytes of the first half.
    cut: usize,
    /// How its answer begins, and its length.
    answer: (&'static [u8], usize),
}

/// Of one line, with a value, and of frames.
fn halves() -> [Halves; 5] {
    let of = |whole, cut, answer, len| Halves { whole, cut, answer: (answer, len) };
    let value = [b'v'; 100];
    let set = [&b"set some 0 0 100\r\n"[..], &value, b"\r\n"].concat();
    let meta = [&b"ms some 100\r\n"[..], &value, b"\r\n"].concat();
    let head = [0x80, 1, 0, 4, 8, 0, 0, 0, 0, 0, 0, 112];
    let frame = [&head[..], &[0; 20], b"some", &value].concat();
    let stored: &[u8] = &[0x81, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    [
        of(b"get something\r\n".to_vec(), 8, b"END\r\n", 5),
        of(set, 50, b"STORED\r\n", 8),
        of(meta, 11, b"HD\r\n", 4),
        of(frame.clone(), 11, stored, 24),
        of(frame, 30, stored, 24),
    ]
}

/// Room for so many descriptors in this process, which the tests beside it have some of.
fn may_open(test: &str, count: u64) -> bool {
    let limits = getrlimit(Resource::Nofile);
    let (needed, beside) = (Some(count + 1_000), limits.maximum);
    let is_wider = |limit: Option<u64>| limit.is_none_or(|limit| Some(limit) >= needed);
    let maximum = if is_wider(beside) { beside } else { needed };
    let can = is_wider(limits.current)
        || setrlimit(Resource::Nofile, Rlimit { current: needed, maximum }).is_ok();
    if !can {
        println!("SKIP {test}: needs {} open files (ulimit -n)", count + 1_000);
    }
    can
}

/// Each says half a request and waits; one more is refused for want of room; then all are
/// answered, and when they have gone, nothing of them is left.
#[test]
fn ten_thousand_connections_are_served_and_go() {
    const COUNT: usize = 10_000;
    if !may_open("ten_thousand_connections_are_served_and_go", COUNT as u64) {
        return;
    }
    let _cores = cores();
    let count = (COUNT + 1).to_string();
    let server = Server::start(&["--connections", &count, "--cores", &two_cores()]);
    let mut observer = connect(&server);
    assert_eq!(figure(&mut observer, "max_connections"), COUNT + 1);
    let (before, halves) = (memory(&server), halves());
    let mut clients: Vec<TcpStream> = (0..COUNT).map(|_| connect(&server)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let half = &halves[number % halves.len()];
        client.write_all(&half.whole[..half.cut]).unwrap();
    }
    wait_for(&mut observer, "curr_connections", COUNT + 1);
    let mut output = String::new();
    let _ = connect(&server).read_to_string(&mut output);
    assert_eq!(output, "ERROR Too many open connections\r\n");
    // Somebody else is served meanwhile, and a stalled connection takes little.
    assert_eq!(ask(&mut observer, b"set a 0 0 1\r\nx\r\nget a\r\n", "END\r\n").len(), 29);
    let held = memory(&server).saturating_sub(before);
    assert!(held < COUNT * 2048, "{held} bytes for {COUNT} connections");
    for (number, client) in clients.iter_mut().enumerate() {
        let half = &halves[number % halves.len()];
        client.write_all(&half.whole[half.cut..]).unwrap();
        let mut answer = vec![0; half.answer.1];
        client.read_exact(&mut answer).unwrap();
        assert!(answer.starts_with(half.answer.0), "{number}: {answer:?}");
    }
    drop(clients);
    wait_for(&mut observer, "curr_connections", 1);
    assert!(memory(&server) < before + 8 * MIB, "{before} before, {} after", memory(&server));
    let output = server.stop(Signal::TERM);
    assert!(output.contains("10,001 connections, 1 refused"), "{output}");
}

/// Who may not open as many files as he asks for connections hears so, and nobody is served.
#[test]
fn connections_that_cannot_be_had_are_refused_before_any_is_served() {
    let mut command = Command::new("prlimit");
    command.arg("--nofile=500:500");
    if geteuid().is_root() {
        // Without the right to go beyond the limit.
        command.args(["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource"]);
    }
    command.args([env!("CARGO_BIN_EXE_niclab"), "kvs", "--listen", "127.0.0.1:0"]);
    command.args(["--connections", "10000"]);
    let ended = run(command);
    ended.with(3, &["--connections 10000", "500 files", "raise `ulimit -n`, or ask for fewer"]);
    assert_eq!(ended.out, "");
}

/// Clients that stall in the middle of a value, and one that asks for much and reads nothing, hold
/// up nobody and no more memory than they may; who is silent for too long is gone.
#[test]
fn clients_that_stall_hold_up_nobody() {
    let options = ["--memory", "16MiB", "--buffers", "8MiB", "--idle-timeout", "3"];
    let server = Server::start(&options);
    let mut lively = connect(&server);
    let value = vec![b'v'; MIB];
    ask(&mut lively, &[&b"set l 0 0 1048576\r\n"[..], &value, b"\r\n"].concat(), "STORED\r\n");
    let before = memory(&server);
    let mut deaf = connect(&server);
    deaf.set_nonblocking(true).unwrap();
    let asked = b"get l\r\n".repeat(4_000);
    let mut stalled: Vec<TcpStream> = (0..50).map(|_| connect(&server)).collect();
    for client in &mut stalled {
        // Those for whom there is no room are disconnected while they speak.
        client.set_nonblocking(true).unwrap();
        let _ = client.write(b"set h 0 0 1048576\r\n");
        let _ = client.write(&value[..MIB / 2]);
    }
    // Of a third kind: half a request, and nothing any more.
    let mut silent = connect(&server);
    silent.write_all(b"get").unwrap();
    let start = Instant::now();
    while figure(&mut lively, "overrun_kicks") == 0 || figure(&mut lively, "idle_kicks") == 0 {
        assert!(start.elapsed() < PATIENCE, "nobody was disconnected");
        let _ = deaf.write(&asked);
        for client in &mut stalled {
            let _ = client.write(&value[..1000]);
        }
        assert_eq!(ask(&mut lively, b"set a 0 0 1\r\nx\r\n", "\r\n"), "STORED\r\n");
        let more = memory(&server).saturating_sub(before);
        assert!(more < 16 * MIB, "{more} bytes for those that stall");
        sleep(Duration::from_millis(50));
    }
    drop((stalled, deaf, silent));
    wait_for(&mut lively, "curr_connections", 1);
    assert_eq!(ask(&mut lively, b"get l\r\n", "END\r\n").len(), 19 + MIB + 7);
}

/// What the value of a key is, of many lengths.
fn value(number: usize) -> String {
    format!("{number}.").repeat(1 + number * 7 % 400)
}

/// Ten times as much as there is room for: whatever is there is whole, and no memory beyond it is
/// taken.
#[test]
fn memory_that_is_full_is_not_exceeded() {
    const COUNT: usize = 40_000;
    let server = Server::start(&["--memory", "4MiB", "--cores", &two_cores()]);
    let mut client = connect(&server);
    assert_eq!(figure(&mut client, "limit_maxbytes"), 4 * MIB);
    let before = memory(&server);
    for first in (0..COUNT).step_by(100) {
        let mut message = String::new();
        for number in first..first + 100 {
            let value = value(number);
            message += &format!("set k{number} 0 0 {}\r\n{value}\r\n", value.len());
        }
        let output = ask(&mut client, (message + "mn\r\n").as_bytes(), "MN\r\n");
        assert_eq!(output, "STORED\r\n".repeat(100) + "MN\r\n");
    }
    let mut found = 0;
    for number in 0..COUNT {
        let output = ask(&mut client, format!("get k{number}\r\n").as_bytes(), "END\r\n");
        if output != "END\r\n" {
            let value = value(number);
            let whole = format!("VALUE k{number} 0 {}\r\n{value}\r\nEND\r\n", value.len());
            assert_eq!(output, whole);
            found += 1;
        }
    }
    assert!(found > 500 && figure(&mut client, "evictions") == COUNT - found, "{found} are there");
    let taken = memory(&server).saturating_sub(before);
    assert!(taken < 6 * MIB, "{taken} bytes were taken for 4 MiB");
    // A value that no segment has room for is refused in either protocol, and the talk goes on.
    let large = "v".repeat(MIB);
    let message = format!("set l 0 0 {MIB}\r\n{large}\r\nms l {MIB}\r\n{large}\r\nget l\r\n");
    let none = "SERVER_ERROR out of memory storing object\r\n";
    assert_eq!(ask(&mut client, message.as_bytes(), "END\r\n"), format!("{none}{none}END\r\n"));
    let mut binary = connect(&server);
    let head = [&[0x80, 1, 0, 1, 8, 0, 0, 0, 0, 0x10, 0, 9][..], &[0; 20], b"l"].concat();
    binary.write_all(&[&head, large.as_bytes(), &[0x80, 0xa], &[0; 22]].concat()).unwrap();
    let mut answer = [0; 24 + 13 + 24];
    binary.read_exact(&mut answer).unwrap();
    assert_eq!((&answer[..2], &answer[6..8]), (&[0x81, 1][..], &[0, 0x82][..]));
    assert_eq!(answer[24 + 13..][..2], [0x81, 0xa]);
}

/// A socket that asks a server over UDP.
fn datagrams(port: &str) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(format!("127.0.0.1:{port}")).unwrap();
    socket
}

/// A datagram with memcached's frame header.
fn framed(words: [u16; 4], message: &[u8]) -> Vec<u8> {
    [words.map(u16::to_be_bytes).as_flattened(), message].concat()
}

#[test]
fn datagrams_that_are_no_requests_are_refused_or_not_answered() {
    let server = Server::start(&[]);
    let client = datagrams(server.port());
    // The request id of the next answer, and what it says.
    let hear = || {
        let mut room = [0; 2000];
        let len = client.recv(&mut room).unwrap();
        assert_eq!(room[2..8], [0, 0, 0, 1, 0, 0], "it is the one datagram of the answer");
        let id = u16::from_be_bytes([room[0], room[1]]);
        (id, String::from_utf8_lossy(&room[8..len]).into_owned())
    };
    let several = "SERVER_ERROR multi-packet request not supported\r\n";
    for words in [[7, 0, 2, 0], [7, 1, 2, 0], [7, 0, 0, 0], [7, 0, 65_535, 0]] {
        client.send(&framed(words, b"get a\r\n")).unwrap();
        assert_eq!(hear(), (7, several.to_owned()));
    }
    let half = "SERVER_ERROR incomplete request in a datagram\r\n";
    for message in [&b"get a"[..], b"set a 0 0 5\r\nab", &[0x80; 20], &[0x80]] {
        client.send(&framed([8, 0, 1, 0], message)).unwrap();
        assert_eq!(hear(), (8, half.to_owned()));
    }
    // The longest datagrams there are, of a line without an end; and those without a request.
    // None of them is answered, and what follows is.
    let (keys, line) = (b"get ".repeat(16_374), [b'x'; 65_499]);
    let long = [&keys[..], &line].map(|message| framed([9, 0, 1, 0], message));
    let none = [&b""[..], b"1234567", &framed([9, 0, 1, 0], b""), &[0xff; 8]];
    for message in long.iter().map(Vec::as_slice).chain(none) {
        client.send(message).unwrap();
        client.send(&framed([10, 0, 1, 0], b"mn\r\n")).unwrap();
        assert_eq!(hear(), (10, "MN\r\n".to_owned()));
    }
    let output = server.stop(Signal::INT);
    assert!(output.contains("20 datagrams"), "{output}");
}

/// An answer over UDP goes to whomever the request names: a network is served only where somebody
/// wants it.
#[test]
fn udp_is_off_where_others_could_ask_unless_it_is_asked_for() {
    let quiet = Server::at("0.0.0.0:0", &[]);
    assert!(quiet.line.starts_with("kvs over TCP at 0.0.0.0:"), "{}", quiet.line);
    let mut stream = TcpStream::connect(format!("127.0.0.1:{}", quiet.port())).unwrap();
    assert_eq!(ask(&mut stream, b"mn\r\n", "\r\n"), "MN\r\n");
    // Nobody has the port: the kernel refuses what is sent to it, and it can be had.
    let client = datagrams(quiet.port());
    client.send(&framed([1, 0, 1, 0], b"mn\r\n")).unwrap();
    let refused = client.recv(&mut [0; 100]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert!(UdpSocket::bind(format!("0.0.0.0:{}", quiet.port())).is_ok());
    let asked = Server::at("0.0.0.0:0", &["--udp", "on"]);
    assert!(asked.line.starts_with("kvs over TCP and UDP at 0.0.0.0:"), "{}", asked.line);
    let client = datagrams(asked.port());
    client.send(&framed([1, 0, 1, 0], b"mn\r\n")).unwrap();
    assert_eq!(client.recv(&mut [0; 100]).unwrap(), 12);
}
