//! `kvs --mode rss`, `steer` and `dma`: clients over UDP through a TAP port of the card, and
//! through an AF_XDP port on a pair of virtual interfaces, in a network namespace of the test's
//! own, which ends with it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::command::{call, cores, niclab, scratch, wants_long};
use crate::kvs::{tool, two_cores};

/// Set where this program runs in a namespace of its own.
const APART: &str = "NICLAB_QUEUES_APART";

const PATIENCE: Duration = Duration::from_secs(20);

/// `true` in a network namespace of its own, where the test is to be carried out; elsewhere it is
/// started there, and its end awaited.
fn is_apart(test: &str) -> bool {
    if std::env::var_os(APART).is_some() {
        return true;
    }
    if !geteuid().is_root() || !Path::new("/dev/net/tun").exists() {
        println!("SKIP {test}: needs root and /dev/net/tun");
        return false;
    }
    let probe = Command::new("unshare").args(["-n", "ip", "link"]).output();
    if !probe.is_ok_and(|ended| ended.status.success()) {
        println!("SKIP {test}: needs `unshare -n` and `ip`");
        return false;
    }
    let _cores = cores();
    let name = format!("queues::{test}");
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.arg("-n").arg(program).args(["--exact", &name, "--nocapture"]).env(APART, "1");
    let ended = command.output().unwrap();
    let message = format!(
        "{}{}",
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr)
    );
    message.lines().filter(|line| line.starts_with("SKIP ")).for_each(|line| println!("{line}"));
    assert!(ended.status.success() && message.contains("1 passed"), "{message}");
    false
}

#[track_caller]
fn system(line: &str) {
    let ended = Command::new("sh").args(["-c", line]).output().unwrap();
    assert!(ended.status.success(), "{line}: {}", String::from_utf8_lossy(&ended.stderr));
}

/// Ports of a card. The clients' side of each is the interface `kvs0`.
const PORTS: [&str; 2] = ["tap:kvs0", "xdp:kvs1"];

/// Makes the interfaces of a port, where it does not make its own: a queue for each core, as
/// AF_XDP needs, and sums computed by the kernel, for no card behind it does.
fn make_interfaces(port: &str, cores: usize) {
    if let Some(name) = port.strip_prefix("xdp:") {
        let many = format!("numrxqueues {cores} numtxqueues {cores}");
        system(&format!("ip link add kvs0 {many} type veth peer name {name} {many}"));
        system(&format!("ethtool -K kvs0 tx off >/dev/null && ip link set {name} up"));
    }
}

/// A store behind a card, killed with its value.
struct Store {
    child: Child,
    out: BufReader<ChildStdout>,
    /// Of UDP by the card.
    address: String,
    /// Of TCP by the system.
    tcp: String,
}

impl Store {
    fn start(port: &str, mode: &str, more: &[&str]) -> Store {
        system("ip link set lo up");
        let cores = two_cores();
        make_interfaces(port, cores.split(',').count());
        let mut command = niclab(&["kvs", "--listen", "127.0.0.1:0", "--mode", mode]);
        command.args(["--port", port, "--address", "10.9.0.2/24"]);
        command.args(["--cores", &cores, "--memory", "1GiB"]).args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut at = || {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            let rest = line.split(" at ").nth(1).unwrap_or_else(|| panic!("{line}"));
            (rest.split([';', ' ']).next().unwrap().to_owned(), line)
        };
        let (tcp, (address, message)) = (at().0, at());
        assert!(message.ends_with(&format!("; TCP at {tcp}\n")), "{message}");
        let store = Store { child, out, address, tcp };
        system("ip address add 10.9.0.1/24 dev kvs0 && ip link set kvs0 up");
        store
    }

    fn client(&self) -> UdpSocket {
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.connect(&self.address).unwrap();
        socket
    }

    fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        rest
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Gone already where the card has made it.
        let _ = Command::new("ip").args(["link", "del", "kvs0"]).stderr(Stdio::null()).status();
    }
}

/// A datagram with memcached's frame header.
fn framed(id: u16, count: u16, message: &[u8]) -> Vec<u8> {
    [[id, 0, count, 0].map(u16::to_be_bytes).as_flattened(), message].concat()
}

/// A request of the binary protocol.
fn request(code: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80, code, 0, key.len() as u8, extras.len() as u8, 0, 0, 0];
    let body_len = (extras.len() + key.len() + value.len()) as u32;
    bytes.extend_from_slice(&body_len.to_be_bytes());
    bytes.extend_from_slice(&[0; 12]);
    [&bytes[..], extras, key, value].concat()
}

/// What is answered to a datagram, put together of as many as there are.
#[track_caller]
fn ask(client: &UdpSocket, id: u16, message: &[u8]) -> Vec<u8> {
    client.send(&framed(id, 1, message)).unwrap();
    let mut parts: Vec<Option<Vec<u8>>> = Vec::new();
    let mut room = [0; 2048];
    loop {
        let len = client.recv(&mut room).unwrap();
        let word = |at: usize| u16::from_be_bytes([room[2 * at], room[2 * at + 1]]);
        assert!(len <= 1400 && word(0) == id && word(3) == 0);
        parts.resize(word(2).into(), None);
        parts[usize::from(word(1))] = Some(room[8..len].to_vec());
        if parts.iter().all(Option::is_some) {
            return parts.into_iter().flatten().flatten().collect();
        }
    }
}

/// What is answered to words over TCP.
fn ask_tcp(store: &Store, message: &[u8], len: usize) -> Vec<u8> {
    let mut stream = TcpStream::connect(&store.tcp).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(message).unwrap();
    let mut answer = vec![0; len];
    stream.read_exact(&mut answer).unwrap();
    answer
}

/// Each port in each mode.
fn everywhere() -> impl Iterator<Item = (&'static str, &'static str)> {
    PORTS.into_iter().flat_map(|port| ["rss", "steer", "dma"].map(|mode| (port, mode)))
}

/// Frames by queue, as the store says at its end; nothing was lost or malformed.
#[track_caller]
fn by_queue(report: &str) -> Vec<u64> {
    for none in [" 0 malformed", " 0 fragments", " 0 answers without a frame", " 0 missed"] {
        assert!(report.contains(none), "{report}");
    }
    let queues = report.split("by queue ").nth(1).unwrap().split(';').next().unwrap();
    queues.split(", ").map(|count| count.replace(',', "").parse().unwrap()).collect()
}

/// The number before these words in what the store says at its end.
#[track_caller]
fn figure(report: &str, words: &str) -> u64 {
    let before = report.split(words).next().filter(|before| before.len() < report.len());
    let before = before.unwrap_or_else(|| panic!("no {words} in {report}"));
    let number = before.split([' ', '\n']).next_back();
    number.unwrap().replace(',', "").parse().unwrap_or_else(|_| panic!("{words} in {report}"))
}

/// That all that came is what was answered or dropped; the datagrams, and their bytes.
#[track_caller]
fn balance(report: &str, mode: &str) -> [u64; 3] {
    let sum = |all: &[&str]| all.iter().map(|words| figure(report, words)).sum::<u64>();
    let frames = figure(report, " frames by the card");
    let answered = sum(&[" ARP", " echo", " TCP refused", " at other ports"]);
    let dropped = sum(&[" malformed", " fragments", " not to be answered", " for others"]);
    let others = answered + dropped;
    let datagrams = figure(report, " datagrams; ");
    if mode == "dma" {
        let received = frames + sum(&[" items and reported", " requested keys"]);
        assert_eq!(received, datagrams + others + figure(report, " events unfit"), "{report}");
        let missed = figure(report, " missed by queues");
        assert_eq!(figure(report, " frames passed unchanged"), frames + missed, "{report}");
    } else {
        assert_eq!(frames, datagrams + others, "{report}");
        assert_eq!(figure(report, " datagrams, "), datagrams, "{report}");
    }
    [datagrams, figure(report, " bytes in"), figure(report, " out\n")]
}

/// The queues that more than a few frames came by.
#[track_caller]
fn busy(report: &str) -> Vec<usize> {
    let queues = by_queue(report);
    (0..queues.len()).filter(|&queue| queues[queue] > 500).collect()
}

#[test]
fn memcaslap_finds_what_it_has_stored_by_the_card() {
    let test = "memcaslap_finds_what_it_has_stored_by_the_card";
    if !wants_long(test) {
        return;
    }
    if tool("memcaslap", test).is_none() || !is_apart(test) {
        return;
    }
    // Its requests are of the text protocol: with `--binary -U` it sends none, to no server.
    let modes = [("rss", [0, 1]), ("steer", [2, 3]), ("dma", [0, 1])];
    for (port, (mode, queues)) in PORTS.into_iter().flat_map(|port| modes.map(|mode| (port, mode)))
    {
        let store = Store::start(port, mode, &[]);
        let run = || {
            let mut command = tool("memcaslap", test).unwrap();
            command.args(["-s", &store.address, "-U", "-T", "1", "-c", "16", "-t", "4s"]);
            command.args(["-v", "1", "-X", "256"]).output().unwrap()
        };
        let mut ended = run();
        // A signal ends memcaslap by a fault of its own; the store answers whoever comes next.
        for _ in 0..3 {
            if ended.status.signal().is_some() {
                println!("memcaslap crashed, {}: it is run again", ended.status);
                ended = run();
            }
        }
        let message = String::from_utf8_lossy(&ended.stdout);
        let wrong = String::from_utf8_lossy(&ended.stderr);
        let figure = |name: &str| -> u64 {
            let value =
                message.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.unwrap_or_else(|| panic!("no {name} in {message}")).trim().parse().unwrap()
        };
        assert!(ended.status.success(), "{mode}, {}: {message}{wrong}", ended.status);
        assert!(figure("cmd_get") > 1000 && figure("cmd_set") > 100, "{mode}: {message}");
        for none in ["get_misses", "verify_misses", "verify_failed", "packet_drop"] {
            assert_eq!(figure(none), 0, "{mode}: {message}");
        }
        assert_eq!(busy(&store.stop()), queues, "{mode}");
    }
}

/// Sixteen clients of the binary protocol, each with keys of its own, at once: whatever one of them
/// reads is what it stored last.
#[test]
fn binary_clients_find_what_they_have_stored() {
    let test = "binary_clients_find_what_they_have_stored";
    if !is_apart(test) {
        return;
    }
    const CLIENTS: usize = 16;
    const KEYS: usize = 50;
    for (port, mode) in everywhere() {
        let store = Store::start(port, mode, &[]);
        let clients: Vec<UdpSocket> = (0..CLIENTS).map(|_| store.client()).collect();
        let mut stored = vec![[0_usize; KEYS]; CLIENTS];
        let (mut bytes_in, mut bytes_out, mut sets) = (0, 0, 0);
        let value = |client: usize, key: usize, round: usize| {
            format!("{client}.{key}.{round} ").repeat(1 + (key + round) % 40).into_bytes()
        };
        for round in 0..3_000 {
            let at = |client: usize| (client + round * 7) % KEYS;
            let is_set = |client: usize| round < 8 * KEYS || (client + round).is_multiple_of(10);
            for (number, client) in clients.iter().enumerate() {
                let key = format!("{number}:key:{}", at(number)).into_bytes();
                let asked = match is_set(number) {
                    true => {
                        stored[number][at(number)] = round;
                        request(1, &[0; 8], &key, &value(number, at(number), round))
                    }
                    false => request(0, b"", &key, b""),
                };
                bytes_in += client.send(&framed(round as u16, 1, &asked)).unwrap() as u64;
                sets += u64::from(is_set(number));
            }
            for (number, client) in clients.iter().enumerate() {
                let mut room = [0; 2048];
                let len = client.recv(&mut room).unwrap();
                assert_eq!(room[..2], (round as u16).to_be_bytes(), "{mode}");
                bytes_out += len as u64;
                let last = stored[number][at(number)];
                match is_set(number) {
                    true => assert_eq!(room[8..16], [0x81, 1, 0, 0, 0, 0, 0, 0]),
                    false => assert!(
                        room[8 + 28..len] == value(number, at(number), last)[..],
                        "{mode}, {number}, {round}: {}",
                        String::from_utf8_lossy(&room[8 + 28..len])
                    ),
                }
            }
        }
        let report = store.stop();
        let asked = (CLIENTS * 3_000) as u64;
        assert_eq!(balance(&report, mode), [asked, bytes_in, bytes_out], "{mode}: {report}");
        assert_eq!(figure(&report, " keys read"), asked - sets, "{report}");
        assert_eq!(figure(&report, " stored;"), sets, "{report}");
        if mode == "dma" {
            // By queues come ARP, and what met a segment that was full.
            let by_card =
                figure(&report, " items and reported") + figure(&report, " requested keys");
            let left = asked - by_card;
            assert!(left < 200, "{report}");
            assert!(by_queue(&report).iter().sum::<u64>() < left + 100, "{report}");
            assert!(report.contains(" 0 dropped; 0 events unfit"), "{report}");
            continue;
        }
        // In both modes both cores have work; a card that steers has found every key.
        assert_eq!(busy(&report), [0, 1], "{report}");
        assert_eq!(by_queue(&report).len(), if mode == "rss" { 2 } else { 4 });
    }
}

/// Every key is the same one, whichever way it is asked for.
#[test]
fn all_ways_lead_to_the_same_items() {
    let test = "all_ways_lead_to_the_same_items";
    if !is_apart(test) {
        return;
    }
    for (port, mode) in everywhere() {
        let store = Store::start(port, mode, &[]);
        let clients: Vec<UdpSocket> = (0..4).map(|_| store.client()).collect();
        for number in 0..200_u16 {
            let (key, value) = (format!("key:{number}"), format!("value {number}"));
            let (client, other) = (&clients[usize::from(number) % 4], &clients[3]);
            let set = request(1, &[0; 8], key.as_bytes(), value.as_bytes());
            assert_eq!(ask(client, number, &set)[..8], [0x81, 1, 0, 0, 0, 0, 0, 0]);
            let got = ask(other, number, &request(0, b"", key.as_bytes(), b""));
            assert_eq!(got[28..], *value.as_bytes(), "{mode}");
            let text = format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len()).into_bytes();
            let asked = format!("get {key}\r\n").into_bytes();
            assert_eq!(ask(other, number, &asked), text, "{mode}");
            assert_eq!(ask_tcp(&store, &asked, text.len()), text, "{mode}");
            // What TCP or the text protocol changes is seen by requests that are steered.
            let asked = format!("append {key} 0 0 1\r\n!\r\n").into_bytes();
            match number % 2 {
                0 => assert_eq!(ask_tcp(&store, &asked, 8), b"STORED\r\n"),
                _ => assert_eq!(ask(other, number, &asked), b"STORED\r\n"),
            }
            let got = ask(client, number, &request(0, b"", key.as_bytes(), b""));
            assert_eq!(got[28..], *format!("{value}!").as_bytes(), "{mode}");
        }
        let report = store.stop();
        balance(&report, mode);
        assert!(report.contains("200 stored") || report.contains("400 stored"), "{report}");
    }
}

/// Whoever asks at the card's address for TCP, or at another port, is refused by the client's own
/// system, and does not wait in vain.
#[track_caller]
fn reports_what_is_not_there(store: &Store) {
    let address: SocketAddr = store.address.parse().unwrap();
    let refused = TcpStream::connect_timeout(&address, PATIENCE).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{refused}");
    let other = store.client();
    other.connect((address.ip(), address.port() ^ 1)).unwrap();
    other.send(&framed(1, 1, b"mn\r\n")).unwrap();
    let refused = other.recv(&mut [0; 64]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{refused}");
}

#[test]
fn a_host_behind_a_card_answers_what_it_should_and_nothing_else() {
    let test = "a_host_behind_a_card_answers_what_it_should_and_nothing_else";
    if !is_apart(test) {
        return;
    }
    let receives = [("rss", "interrupt"), ("steer", "busy-poll"), ("dma", "interrupt")];
    let modes = receives.into_iter().chain([("dma", "busy-poll")]);
    let all = modes.flat_map(|mode| PORTS.map(|port| (port, mode)));
    for (port, (mode, receive)) in all {
        let store = Store::start(port, mode, &["--receive", receive]);
        let pinged =
            Command::new("ping").args(["-c", "3", "-i", "0.2", "-W", "5", "10.9.0.2"]).output();
        match pinged {
            Ok(ended) => {
                let message = String::from_utf8_lossy(&ended.stdout);
                assert!(message.contains("3 received"), "{message}");
            }
            Err(_) => println!("SKIP a part of {test}: no ping"),
        }
        let client = store.client();
        // A value of 100 KiB comes in as many datagrams as it takes.
        let value = vec![b'v'; 100 << 10];
        let message = [&b"set long 0 0 102400\r\n"[..], &value, b"\r\n"].concat();
        assert_eq!(ask_tcp(&store, &message, 8), b"STORED\r\n");
        let expected = [b"VALUE long 0 102400\r\n", &value[..], b"\r\nEND\r\n"].concat();
        assert!(ask(&client, 7, b"get long\r\n") == expected);
        assert!(ask(&client, 8, &request(0, b"", b"long", b""))[28..] == value[..]);
        // Several requests in a datagram; half ones; frame headers that are none.
        let message = ask(&client, 9, b"set a 0 0 1\r\nx\r\nget a\r\n");
        assert_eq!(message, b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
        let two = [request(0, b"", b"a", b""), request(0, b"", b"a", b"")].concat();
        assert_eq!(ask(&client, 10, &two).len(), 2 * 29);
        let half = b"SERVER_ERROR incomplete request in a datagram\r\n";
        for message in [&b"get a"[..], &request(0, b"", b"a", b"")[..24], &[0x80]] {
            assert_eq!(ask(&client, 11, message), half);
        }
        client.send(&framed(12, 2, b"get a\r\n")).unwrap();
        let mut room = [0; 2048];
        let len = client.recv(&mut room).unwrap();
        assert_eq!(room[8..len], *b"SERVER_ERROR multi-packet request not supported\r\n");
        // None of these has an answer, and what follows is answered.
        for message in [&b""[..], b"1234567", b"12345678", &framed(1, 1, b"")] {
            client.send(message).unwrap();
        }
        let long = vec![b'x'; 8000];
        client.send(&framed(13, 1, &long)).unwrap();
        assert_eq!(ask(&client, 14, b"mn\r\n"), b"MN\r\n");
        assert_eq!(ask(&client, 15, &request(0x7f, b"", b"a", b""))[6..8], [0, 0x81]);
        reports_what_is_not_there(&store);
        let report = store.stop();
        for refused in [" TCP refused", " at other ports"] {
            assert!((1..20).contains(&figure(&report, refused)), "{report}");
        }
        // A datagram of 8,000 bytes comes in fragments.
        assert!(!report.contains(" 0 fragments") && report.contains(" 0 malformed"), "{report}");
    }
}

#[test]
fn the_card_of_a_store_answers_queries_and_refuses_changes() {
    let test = "the_card_of_a_store_answers_queries_and_refuses_changes";
    if !is_apart(test) {
        return;
    }
    let scratch = scratch();
    let socket = scratch.path().join("card").display().to_string();
    let ctl = |words: &[&str]| call(&[&["nic", "ctl", "--control", &socket], words].concat());
    for mode in ["rss", "steer", "dma"] {
        let mut store = Store::start("tap:kvs0", mode, &["--control", &socket]);
        let set = request(1, &[0; 8], b"key", b"value");
        assert_eq!(ask(&store.client(), 1, &set)[..8], [0x81, 1, 0, 0, 0, 0, 0, 0]);
        let report = ctl(&["--json", "counters"]);
        let report: serde_json::Value = serde_json::from_str(&report.out).unwrap();
        assert!(report["ports"][0]["tx_frames"].as_u64() > Some(0), "{mode}: {report}");
        let shown = ctl(&["program", "show"]);
        assert_eq!(shown.out.starts_with("no program"), mode == "rss", "{shown:?}");
        if mode == "dma" {
            // A get that was told to a core is no drop.
            ask(&store.client(), 2, &request(0, b"", b"key", b""));
            let until = Instant::now() + PATIENCE;
            loop {
                // A core shows its counters when it has nothing else to do.
                let report = ctl(&["--json", "counters"]);
                let report: serde_json::Value = serde_json::from_str(&report.out).unwrap();
                let port = &report["ports"][0];
                assert_eq!(port["program_drops"], 0, "{report}");
                if port["program_reported"] == 1 {
                    break;
                }
                assert!(Instant::now() < until, "{report}");
            }
            let stored = ["0", "1"].map(|core| ctl(&["program", "counter", "stored", core]).out);
            assert!(stored.iter().any(|of| of.starts_with("1 packet,")), "{stored:?}");
        }
        ctl(&["flow", "flush", "0"]).with(3, &["this card serves a store", "can be asked: "]);
        ctl(&["program", "none"]).with(3, &["this card serves a store"]);
        assert_eq!(ctl(&["stop"]).out, "the card ends\n");
        assert!(store.child.wait().unwrap().success());
        ctl(&["counters"]).with(9, &["no card listens there"]);
    }
}

#[test]
fn a_card_on_an_interface_that_is_down_says_so_and_serves_once_it_is_up() {
    let test = "a_card_on_an_interface_that_is_down_says_so_and_serves_once_it_is_up";
    if !is_apart(test) {
        return;
    }
    system("ip link set lo up");
    let cores = two_cores();
    let first = cores.split(',').next().unwrap();
    let scratch = scratch();
    for port in ["xdp:kvs1", "packet:kvs1"] {
        system("ip link add kvs0 type veth peer name kvs1");
        system("ethtool -K kvs0 tx off >/dev/null");
        system("ip address add 10.9.0.1/24 dev kvs0 && ip link set kvs0 up");
        let line = format!(
            "niclab: {port}: the interface is down: switch it on by `ip link set dev kvs1 up`\n"
        );
        let nic = ["nic", "--port", port, "--seconds", "1"];
        let ended = call(&nic);
        assert_eq!((ended.code, &ended.err), (Some(0), &line), "{ended:?}");

        let mut command = niclab(&["kvs", "--listen", "127.0.0.1:0", "--mode", "rss"]);
        command.args(["--port", port, "--address", "10.9.0.2/24", "--cores", first]);
        let errors = scratch.path().join("errors");
        command.stderr(File::create(&errors).unwrap());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (address, tcp) = (String::new(), String::new());
        let mut store = Store { child, out, address, tcp };
        let second = store.out.by_ref().lines().nth(1).unwrap().unwrap();
        let message = fs::read_to_string(&errors).unwrap();
        assert_eq!(message, line);
        store.address = second.split(" at ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        // What it names is done, and the store is there.
        system(message.split('`').nth(1).unwrap());
        assert_eq!(ask(&store.client(), 1, b"mn\r\n"), b"MN\r\n", "{port}");
        store.child.kill().unwrap();
        store.child.wait().unwrap();
        // It is up, whether there is a carrier or not.
        system("ip link set kvs0 down");
        let ended = call(&nic);
        assert_eq!((ended.code, &ended.err[..]), (Some(0), ""));
    }
    // One that the card makes is up.
    let ended = call(&["nic", "--port", "tap:own0", "--seconds", "1"]);
    assert_eq!((ended.code, &ended.err[..]), (Some(0), ""));
}

#[test]
fn conflicting_options_are_refused() {
    let of_a_card = "--port, --address, --control and --receive are for --mode rss, steer and dma";
    call(&["kvs", "--control", "none"]).with(2, &[of_a_card]);
    call(&["kvs", "--receive", "busy-poll"]).with(2, &[of_a_card]);
    let card = ["kvs", "--port", "tap:none0", "--address", "10.9.0.2/24"];
    call(&card).with(2, &[of_a_card]);
    call(&["kvs", "--mode", "steer"]).with(2, &["--port", "--address"]);
    call(&["kvs", "--mode", "dma"]).with(2, &["--port", "--address"]);
    // For each core two segments, and a store beside them.
    let dma = [&card[..], &["--mode", "dma", "--memory", "2335KiB"]].concat();
    call(&dma).with(3, &["--memory 2391040: use at least 2392064 bytes for 1 partition"]);
    let with = |port: &str, address: &str| {
        call(&["kvs", "--mode", "rss", "--port", port, "--address", address])
    };
    with("tap:none0", "10.9.0.2").with(2, &["such as 10.9.0.2/24"]);
    with("tap:none0", "10.9.0.255/24").with(2, &["such as 10.9.0.2/24"]);
    with("pcap:in=a.pcap", "10.9.0.2/24").with(2, &["not supported"]);
    with("xdp:none0", "10.9.0.2/24").with(5, &["xdp:none0: no interface none0"]);
    with("packet:none0", "10.9.0.2/24").with(5, &["packet:none0: no interface none0"]);
    with("none0", "10.9.0.2/24").with(2, &["is no port"]);
}

#[test]
fn readiness_is_not_reported_before_the_port_is_open() {
    let name = "tap:longer-than-interfaces-are";
    let store = ["kvs", "--listen", "127.0.0.1:0", "--mode", "rss", "--address", "10.9.0.2/24"];
    let ended = call(&[&store[..], &["--port", name]].concat());
    ended.with(5, &["longer-than-interfaces-are` is no name of an interface"]);
    assert_eq!(ended.out, "");
}
