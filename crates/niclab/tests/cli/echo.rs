//! `serve echo` and `measure echo`: what they print, how they end, what they leave.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::command::{cores, niclab, run, samples, scratch};

/// A server on a free port of the loopback, killed with its value.
pub struct Server {
    pub child: Child,
    out: BufReader<ChildStdout>,
    pub address: String,
}

impl Server {
    fn start(options: &[&str]) -> Server {
        let mut command = niclab(&["serve", "echo", "--bind", "127.0.0.1:0"]);
        command.args(options);
        Server::of(command)
    }

    /// Starts it by this command.
    pub fn of(mut command: Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.split(" at ").nth(1).unwrap().split(';').next().unwrap().to_owned();
        Server { child, out, address }
    }

    /// Stops it as Ctrl-C does; what it said last.
    pub fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn measure(server: &str, options: &[&str]) -> Command {
    let mut command = niclab(&["measure", "echo", "--server", server]);
    command.args(["--duration-ms", "200", "--warmup-ms", "10"]).args(options);
    command
}

#[test]
fn a_server_is_measured_over_both_protocols_and_says_what_it_did() {
    let _cores = cores();
    let server = Server::start(&[]);
    for transport in ["udp", "tcp"] {
        for receive in ["blocking", "busy-poll", "epoll"] {
            let options = ["--transport", transport, "--receive", receive, "--json"];
            let ended = run(measure(&server.address, &options));
            ended.with(0, &[]);
            let observed: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
            let count = |name: &str| observed[name].as_u64().unwrap();
            assert!(count("answered") > 0, "{observed:#}");
            assert_eq!((count("lost"), count("foreign")), (0, 0), "{observed:#}");
            assert_eq!(observed["round_trips"]["echo"]["transport"], transport);
            assert!(observed["rtt_ns"]["p50"].as_u64() <= observed["rtt_ns"]["p99"].as_u64());
            assert_eq!(observed["ended"], serde_json::Value::Null);
        }
    }
    let ended = run(measure(&server.address, &["--rate", "1000", "--batch", "2"]));
    ended.with(0, &[]);
    for phrase in ["round trip", "service", "left late", "200 sent, 0 lost"] {
        assert!(ended.out.contains(phrase), "`{phrase}` is missing in:\n{}", ended.out);
    }
    let message = server.stop();
    assert!(message.contains("requests, ") && message.contains("0 other messages; 3 connections"));
}

#[test]
fn an_experiment_runs_against_a_peer() {
    let _cores = cores();
    let server = Server::start(&[]);
    let scratch = scratch();
    let path = scratch.path().join("run");
    let device = format!("peer:{}", server.address);
    let mut command = niclab(&["run", "echo-size", "--device", &device, "--repeats", "1"]);
    for set in ["size=64", "client=here,there", "family=ipv4,ipv6", "duration_ms=20"] {
        command.args(["--set", set]);
    }
    command.arg("-o").arg(&path);
    run(command).with(0, &[]);
    let outcome = |sample: &serde_json::Value| {
        let at = |axis: &str| sample["point"][axis].as_str().unwrap().to_owned();
        (at("client"), at("family"), sample["outcome"].as_str().unwrap().to_owned())
    };
    let outcomes: Vec<_> = samples(&path).iter().map(outcome).collect();
    assert!(!outcomes.is_empty());
    for (client, family, outcome) in outcomes {
        // The server is of IPv4, and niclab cannot start a client there.
        let wanted = match (client.as_str(), family.as_str()) {
            ("here", "ipv4") => "measured",
            _ => "not_supported",
        };
        assert_eq!(outcome, wanted, "{client}, {family}");
    }
    assert!(fs::read_to_string(path.join("report.html")).unwrap().contains("Round trip"));
}

#[test]
fn a_server_that_is_not_there_or_goes_away_has_an_exit_code_of_its_own() {
    let _cores = cores();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for transport in ["udp", "tcp"] {
        let ended = run(measure(&free, &["--transport", transport]));
        ended.with(9, &["niclab serve echo", &free]);
    }
    for transport in ["udp", "tcp"] {
        let mut server = Server::start(&["--transport", transport]);
        let mut command = niclab(&["measure", "echo", "--server", &server.address]);
        command.args(["--duration-ms", "60000", "--transport", transport]);
        let client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
        server.child.kill().unwrap();
        let ended = client.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(9), "{ended:?}");
        let message = String::from_utf8_lossy(&ended.stderr);
        assert!(message.contains("the server was lost after"), "{message}");
        let out = String::from_utf8_lossy(&ended.stdout);
        assert!(out.contains("round trip"), "what was measured is printed: {out}");
    }
}

#[test]
fn an_unservable_or_unsendable_option_is_refused_by_name() {
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    let serve = |bind: &str| run(niclab(&["serve", "echo", "--bind", bind]));
    serve(&taken).with(9, &[&taken, "is in use", "--bind"]);
    serve("192.0.2.1").with(9, &["192.0.2.1:17007 is not an address of this machine"]);
    serve("no such host").with(2, &["`no such host` is no address"]);
    let of = |options: &[&str]| run(measure(&taken, options));
    of(&["--size", "15"]).with(3, &["size = 15: use 16 to 65507 bytes"]);
    of(&["--batch", "1025"]).with(3, &["batch = 1025: use 1 to 1024"]);
    of(&["--rate", "0"]).with(3, &["rate = 0: use 1 to 1e9 messages a second"]);
    of(&["--transport", "sctp"]).with(2, &["use udp or tcp"]);
    of(&["--core", "4095"]).with(3, &["core 4095: choose one of the cores"]);
}

#[test]
fn clean_does_nothing_if_there_are_no_leftovers() {
    let test = "clean_does_nothing_if_there_are_no_leftovers";
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {test}: needs root");
        return;
    }
    let ended = run(niclab(&["doctor", "--clean"]));
    ended.with(0, &[]);
    assert_eq!(ended.out, "nothing was left over\n");
}

#[test]
fn two_hosts_in_this_machine_are_measured_and_gone() {
    let test = "two_hosts_in_this_machine_are_measured_and_gone";
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {test}: needs root");
        return;
    }
    let _cores = cores();
    let options = ["--duration-ms", "200", "--ipv6", "--reverse", "--transport", "tcp"];
    let mut command = niclab(&["measure", "echo"]);
    command.args(options);
    run(command).with(0, &[]);
    let links = fs::read_dir("/sys/class/net").unwrap();
    let left = links
        .filter(|link| link.as_ref().unwrap().file_name().to_string_lossy().starts_with("niclab-"));
    assert_eq!(left.count(), 0);
}

/// A socket that takes all messages and answers none, and its address.
fn silent() -> (UdpSocket, String) {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    (silent, address)
}

#[test]
fn messages_that_nobody_answers_have_no_quantiles_and_an_exit_code() {
    let _cores = cores();
    let (_silent, udp) = silent();
    // The kernel makes the connections; nobody takes them.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = listener.local_addr().unwrap().to_string();
    for (address, options) in [
        // The one of the warm-up is still waited for.
        (&udp, &[][..]),
        (&udp, &["--duration-ms", "1000"]),
        (&udp, &["--duration-ms", "4000"]),
        (&udp, &["--rate", "1000"]),
        (&udp, &["--rate", "1000", "--json"]),
        (&tcp, &["--transport", "tcp"]),
    ] {
        let mut command = niclab(&["measure", "echo", "--server", address, "--warmup-ms", "10"]);
        if !options.contains(&"--duration-ms") {
            command.args(["--duration-ms", "200"]);
        }
        command.args(options);
        let ended = run(command);
        ended.with(9, &[&format!("{address} answered nothing: start `niclab serve echo` there")]);
        assert_eq!(ended.out, "", "{options:?}");
    }
}

#[test]
fn trials_that_nobody_answers_are_failed() {
    let _cores = cores();
    let (_silent, address) = silent();
    let scratch = scratch();
    let path = scratch.path().join("run");
    let device = format!("peer:{address}");
    let mut command = niclab(&["run", "echo-size", "--device", &device, "--repeats", "1"]);
    command.args(["--set", "size=64", "--set", "duration_ms=20", "-o"]).arg(&path);
    let ended = run(command);
    ended.with(6, &["nothing was measured", "answered nothing: start `niclab serve echo`"]);
    assert!(!ended.err.contains("not supported"), "{}", ended.err);
    let samples = samples(&path);
    assert!(!samples.is_empty());
    for sample in samples.iter().filter(|sample| sample["trial"] != "setup") {
        let outcome = sample["outcome"].as_str().unwrap();
        assert!(["failed", "not_supported"].contains(&outcome), "{sample:#}");
    }
}

#[test]
fn addresses_that_cannot_be_reached_have_the_exit_code_of_absent_servers() {
    let _cores = cores();
    for transport in ["udp", "tcp"] {
        let ended = run(measure("255.255.255.255", &["--transport", transport]));
        ended.with(9, &["255.255.255.255:17007 cannot be reached (", "`ip route get 255"]);
    }
    run(measure("nosuch.invalid", &[])).with(2, &["the name nosuch.invalid cannot be resolved: "]);
    run(measure("fe80::1%", &[])).with(2, &["`fe80::1%`: name the interface behind %"]);
}

/// Two namespaces, joined by a pair of interfaces that have link-local addresses alone.
struct Joined(String);

impl Joined {
    fn new() -> Option<Joined> {
        let joined = Joined(format!("niclab-ll-{}", std::process::id()));
        let (a, b) = (joined.name("a"), joined.name("b"));
        let is_made = [
            format!("netns add {a}"),
            format!("netns add {b}"),
            format!("-n {a} link add lla type veth peer name llb netns {b}"),
            format!("-n {a} address add fe80::a/64 dev lla nodad"),
            format!("-n {b} address add fe80::b/64 dev llb nodad"),
            format!("-n {a} link set lla up"),
            format!("-n {b} link set llb up"),
        ]
        .iter()
        .all(|line| {
            let made = Command::new("ip").args(line.split(' ')).stderr(Stdio::null()).status();
            made.is_ok_and(|status| status.success())
        });
        is_made.then_some(joined)
    }

    fn name(&self, end: &str) -> String {
        format!("{}-{end}", self.0)
    }

    /// A command of niclab in one of the namespaces.
    fn niclab(&self, end: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(end)]);
        command.arg(niclab(arguments).get_program()).args(arguments);
        command
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        for end in ["a", "b"] {
            let deleted = Command::new("ip").args(["netns", "delete", &self.name(end)]).output();
            drop(deleted);
        }
    }
}

#[test]
fn a_link_local_address_names_its_interface() {
    let test = "a_link_local_address_names_its_interface";
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {test}: needs root");
        return;
    }
    let Some(joined) = Joined::new() else {
        println!("SKIP {test}: no namespaces of `ip` here");
        return;
    };
    let _cores = cores();
    let server = Server::of(joined.niclab("a", &["serve", "echo", "--bind", "fe80::a%lla"]));
    assert_eq!(server.address, "[fe80::a%lla]:17007");
    let mut listing = Command::new("ip");
    listing.args(["-n", &joined.name("b"), "-o", "link", "show", "llb"]);
    let listing = String::from_utf8(listing.output().unwrap().stdout).unwrap();
    let index = listing.split(':').next().unwrap();
    let measure = |to: &str| {
        let arguments = ["measure", "echo", "--duration-ms", "200", "--warmup-ms", "10"];
        run(joined.niclab("b", &[&arguments[..], &["--server", to]].concat()))
    };
    for to in ["fe80::a%llb", "[fe80::a%llb]", "[fe80::a%llb]:17007", "[fe80::a%25llb]:17007"] {
        let ended = measure(to);
        ended.with(0, &[]);
        assert!(ended.out.starts_with("peer:[fe80::a%llb]:17007: "), "{}", ended.out);
    }
    measure("fe80::dead%llb").with(9, &["[fe80::dead%llb]:17007 answered nothing: start"]);
    measure(&format!("fe80::a%{index}")).with(0, &[]);
    measure(&format!("[fe80::a%{index}]:17007")).with(0, &[]);
    measure("fe80::a%nowhere").with(2, &["--server", "no interface nowhere here", "ip link"]);
    measure("fe80::a").with(2, &["--server", "add its interface, for instance fe80::a%eth0"]);
    let scratch = scratch();
    let run_at = |device: &str| {
        let out = scratch.path().join("run");
        let arguments = ["run", "echo-size", "--device", device, "--repeats", "1", "-o"];
        let mut command = joined.niclab("b", &[&arguments[..], &[out.to_str().unwrap()]].concat());
        command.args(["--set", "size=64", "--set", "duration_ms=20", "--set", "family=ipv6"]);
        run(command)
    };
    run_at("peer:[fe80::a%llb]:17007").with(0, &[]);
    assert!(server.stop().contains(" 0 other messages"));
    let listen = |address: &str| run(joined.niclab("a", &["kvs", "--listen", address]));
    listen("[fe80::a%nowhere]:11211").with(2, &["--listen", "no interface nowhere here"]);
    listen("fe80::a").with(2, &["--listen", "add its interface"]);
    listen("fe80::77%lla").with(9, &["is not an address of this machine"]);
}
