//! `niclab nic`: a card that runs, is asked and told things, and ends, in a network namespace of
//! the test's own.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::command::{call, capture, cores, cut, run, scratch};

const SCRIPT: &str = r#"
set -u
cd "$SCRATCH"
ctl() { "$NICLAB" nic ctl --control card "$@"; }
until_there() {
    for _ in $(seq 400); do
        [ -S card ] && ctl counters >/dev/null 2>&1 && return
        sleep 0.05
    done
}
card() { "$NICLAB" nic --control card "$@" >live 2>errors & card=$!; until_there; }
ends() {
    wait $card
    echo "$1: $?, $(ls card 2>/dev/null | wc -l) sockets, $(ip -o link | grep -c nic0) interfaces"
}

echo 'flow create 0 ingress pattern eth type is 0x1234 / end actions drop / end' >rules
card --port tap:nic0 --queues 2 --rules rules
ip address add 10.7.0.1/24 dev nic0
echo hello >/dev/udp/10.7.0.2/9
for _ in $(seq 400); do ctl counters | grep -q ' in [1-9]' && break; sleep 0.05; done
ctl counters
ctl --json counters
ctl flow create 0 ingress pattern eth / ipv4 / udp / end actions count / queue index 1 / end
ctl flow list 0
ctl flow query 0 1 count
ctl flow destroy 0 rule 0
ctl flow create 0 ingress pattern eth / end actions queue index 7 / end; echo "no queue: $?"
ctl flow list 3; echo "no port: $?"
ctl jump; echo "no command: $?"
ctl capture 0 some.pcap
ctl capture 0 other.pcap; echo "captures already: $?"
for port in $(seq 20); do echo hello >/dev/udp/10.7.0.2/9; sleep 0.01; done
ctl capture 0
sleep 0.3
ctl capture 0 off
ctl capture 0 off; echo "no capture: $?"
ctl capture 0 /nowhere/few.pcap
ctl capture 0 few.pcap --count 1
ctl capture x; ctl capture 7 some; ctl capture 0 a --count 0
ping -c 3 -i 0.05 -W 0.05 10.7.0.2 >/dev/null 2>&1
"$NICLAB" nic --port pcap:in=some.pcap,speed=max --port pcap:out=again.pcap | grep "port 0"
ctl rss 0
ctl rss 0 queues 1 end func symmetric_toeplitz
ctl rss 0 reta '(3,0),(4,0)'
ctl --json rss 0 types ip end
ctl rss 0
ctl rss 0 queues 7 end; echo "no such queue: $?"
ctl rss 1 queues 0 end; echo "no port 1: $?"
ctl rss 0 quues 0 end; echo "no word: $?"
"$NICLAB" nic --port tap:nic9 --control card; echo "socket in use: $?"
"$NICLAB" nic --port tap:nic9 --control rules; echo "a file: $?, $(wc -l <rules) line"
"$NICLAB" nic --port tap:nic0; echo "port in use: $?"
"$NICLAB" nic --port xdp:none --seconds 1; echo "no interface: $?"
echo 'flow create 0 ingress pattern eth / end actions none / end' >wrong
"$NICLAB" nic --port tap:nic9 --rules wrong; echo "wrong rules: $?"
"$NICLAB" nic --port tap:nic9 --cores 4000; echo "no core: $?"
"$NICLAB" nic --port tap:nic9 --cores 0,0; echo "core twice: $?"
"$NICLAB" nic --port tap:nic7 --port tap:nic8 --port tap:nic9 --seconds 1; echo "three ports: $?"
ctl stop
ends stopped
ctl counters; echo "no card: $?"

card --port tap:nic0 --queues 2 --external-queue 0.1=door --balance save-cores
ctl counters
ls door
ctl stop
wait $card; ls door 2>/dev/null || echo "no door"
"$NICLAB" nic --port tap:nic0 --external-queue 0.1=door; echo "no such queue: $?"
"$NICLAB" nic --port tap:nic0 --balance keys=rules; echo "no keys: $?"

card --port tap:nic0 --json
kill -KILL $card
ends killed
card --port tap:nic0 --json
sleep 1.2
kill -INT $card
ends interrupted
sed -n 1p live
"$NICLAB" nic --port tap:nic0 --seconds 1; echo "by itself: $?"
"#;

/// What it says, in one place or another.
const SAID: &[&str] = &[
    "port 0 tap:nic0: in ",
    "queue 1 on core ",
    "\"name\":\"tap:nic0\"",
    "port 0: rule 1 created",
    "rule 1: group 0 priority 0: ETH IPV4 UDP => COUNT QUEUE",
    "port 0: rule 1: 0 packets, 0 bytes with FCS",
    "port 0: rule 0 destroyed",
    "no queue: 3",
    "no port 3",
    "no port: 3",
    "unrecognized subcommand 'jump'",
    "port 0: frames go into some.pcap\n",
    "port 0: a capture is under way; end it first",
    "captures already: 3",
    "frames captured so far, 0 missed",
    "frames captured in all, 0 missed",
    "port 0: nothing is captured",
    "no capture: 3",
    "/nowhere/few.pcap: No such file",
    "invalid value 'x' for '<PORT>'",
    "no port 7",
    "invalid value '0' for '--count <N>'",
    "port 0 pcap:in=some.pcap,speed=max: in ",
    "port 0: entries of the table: queue 0 256, queue 1 256",
    "port 0: 256 entries of the table changed; the new RSS state holds after ",
    "port 0: 2 entries of the table changed; the new RSS state holds after ",
    "\"moved_entries\":0,\"settled_ns\":",
    "port 0: rss types ipv4 ",
    "func symmetric_toeplitz level 1",
    "port 0: entries of the table: queue 0 2, queue 1 510",
    "port 0: no queue 7",
    "no such queue: 3",
    "no port 1; the card has ports 0 to 0",
    "no port 1: 3",
    "expected `func`, `key`, `key_len`, `level`, `queues`, `reta` or `types`",
    "no word: 3",
    "no command: 2",
    "card: it is there already",
    "socket in use: 9",
    "a file: 9, 1 line",
    "nic0 is the TAP interface of another program",
    "port in use: 5",
    "no interface none",
    "no interface: 5",
    "wrong: line 1",
    "wrong rules: 3",
    "core 4000",
    "no core: 3",
    "core twice: 3",
    "port 2 tap:nic9",
    "three ports: 0",
    "the card ends",
    "stopped: 0, 0 sockets, 0 interfaces",
    "no card: 9",
    "external queue 1 (awaited): 0 frames given",
    "\ndoor\n",
    "no door",
    "no such queue: 3",
    "no keys: 3",
    "killed: 137, 1 sockets, 0 interfaces",
    "interrupted: 0, 0 sockets, 0 interfaces",
    "by itself: 0",
];

#[test]
fn a_card_takes_commands_and_leaves_nothing() {
    let test = "a_card_takes_commands_and_leaves_nothing";
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {test}: needs root");
        return;
    }
    if !fs::exists("/dev/net/tun").unwrap() {
        println!("SKIP {test}: no /dev/net/tun: this kernel has no TAP interfaces");
        return;
    }
    let (_cores, scratch) = (cores(), scratch());
    let mut command = Command::new("unshare");
    command.args(["-n", "bash", "-c", SCRIPT]).env("SCRATCH", scratch.path());
    command.env("NICLAB", env!("CARGO_BIN_EXE_niclab"));
    let ended = run(command);
    let message = format!("{}{}", ended.out, ended.err);
    let live = fs::read_to_string(scratch.path().join("errors")).unwrap();
    for phrase in SAID {
        assert!(message.contains(phrase), "`{phrase}` is missing in: {message}\n{live}");
    }
    assert!(live.is_empty(), "{live}");
}

#[test]
fn a_capture_is_played_through_rules_into_another() {
    let scratch = scratch();
    let names = ["in.pcap", "out.pcap", "rules"];
    let [input, output, rules] = names.map(|name| scratch.path().join(name));
    fs::write(&input, capture(40, 100, 1)).unwrap();
    let actions = "actions count / queue index 1 / end";
    let rule = format!("flow create 0 ingress pattern eth / ipv4 / end {actions}");
    fs::write(&rules, rule).unwrap();
    let port = |key: &str, path: &std::path::Path| format!("pcap:{key}={}", path.display());
    let [from, to] = [port("in", &input) + ",speed=max", port("out", &output)];
    let rules_path = rules;
    let rules = rules_path.to_str().unwrap();
    let play = ["nic", "--port", &from, "--port", &to, "--queues", "2", "--rules", rules];
    let ended = call(&play);
    ended.with(0, &[]);
    assert!(ended.out.contains("queue 1 on core 0: 40 frames"), "{ended:?}");
    let counted = " missed\nport 0: rule 0: 40 packets, 4160 bytes with FCS\n";
    assert!(ended.out.ends_with(counted), "{ended:?}");
    let ended = call(&[&play[..], &["--json"]].concat());
    let last: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!(last["rules"], json!([{ "port": 0, "rule": 0, "packets": 40, "bytes": 4160 }]));
    assert!(fs::metadata(&output).unwrap().len() > 40 * 100);
    let full = ["nic", "--port", &from, "--port", "pcap:out=/dev/full"];
    call(&full).with(1, &["pcap:out=/dev/full", "No space left"]);
    fs::write(&rules_path, b"# \xff\n").unwrap();
    call(&play).with(3, &["line 1: not UTF-8"]);
    fs::write(&input, cut_short(&capture(40, 100, 1))).unwrap();
    fs::write(&rules_path, "").unwrap();
    call(&play).with(5, &["record 40 at byte", "the file ends within it"]);
    let full = ["nic", "--port", &from.replace("in=", "in=/nowhere"), "--port", &to];
    call(&full).with(5, &["No such file"]);
}

/// Opening a named pipe to write waits for its reader, and a signal does not end that.
#[test]
fn a_port_does_not_wait_for_the_reader_of_its_output() {
    let scratch = scratch();
    let [input, pipe] = ["in.pcap", "pipe"].map(|name| scratch.path().join(name));
    fs::write(&input, capture(40, 100, 1)).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let play = |output: &str| {
        call(&["nic", "--port", &format!("pcap:in={},out={output},speed=max", input.display())])
    };
    let message = "a named pipe, not a file; give a regular file";
    play(pipe.to_str().unwrap()).with(5, &[message]);
    play(scratch.path().to_str().unwrap()).with(5, &["a directory, not a file"]);
    for output in ["/dev/null", "/dev/stdout"] {
        play(output).with(0, &[]);
    }
}

#[test]
fn a_trace_is_played_as_it_was_or_refused() {
    let scratch = scratch();
    let [input, rules] = ["in.pcap", "rules"].map(|name| scratch.path().join(name));
    let port = format!("pcap:in={},speed=max", input.display());
    // Zeros in place of the missing bytes would be the port 0.
    let rule = "flow create 0 ingress pattern eth / ipv4 / udp dst is 0 / end actions drop / end";
    fs::write(&rules, rule).unwrap();
    fs::write(&input, cut(4, 60, 1)).unwrap();
    let play = ["nic", "--port", &port, "--rules", rules.to_str().unwrap()];
    let message = "record 2 at byte 100: a frame of 60 B, of which the file has the first 46 B";
    call(&play).with(5, &[message, "tcpdump -s 0"]);
    // Two words of 16 bits behind each frame are its FCS.
    fs::write(&input, capture(3, 64, 0x2400_0001)).unwrap();
    let ended = call(&play);
    ended.with(0, &[]);
    assert!(ended.out.contains(": in 3 frames (180 B)"), "{ended:?}");
    for (link_type, name) in [(101, "raw IP"), (113, "Linux cooked capture")] {
        fs::write(&input, capture(3, 60, link_type)).unwrap();
        call(&play).with(5, &[&format!("record 1 at byte 24: link type {link_type} ({name}")]);
    }
}

/// A file without its last byte.
fn cut_short(whole: &[u8]) -> &[u8] {
    &whole[..whole.len() - 1]
}

#[test]
fn an_invalid_port_is_refused() {
    call(&["nic", "--port", "veth0"])
        .with(2, &["write xdp:INTERFACE, packet:INTERFACE, tap:INTERFACE"]);
    call(&["nic"]).with(2, &["--port"]);
    let port = ["nic", "--port", "tap:nic0"];
    call(&[&port[..], &["--balance", "all"]].concat())
        .with(2, &["write moves, save-cores or keys=FILE"]);
    let scratch = scratch();
    let keys = scratch.path().join("keys");
    let by = format!("keys={}", keys.display());
    let balanced = [&port[..], &["--balance", &by]].concat();
    call(&balanced).with(3, &["keys: No such file"]);
    for (text, says) in [
        ("# none\n", "no key in it"),
        ("# one\n6d5\n", "line 2: a key has 40 to 64 bytes of two hexadecimal digits each"),
        ("6d5a", "line 1: a key has 40 to 64 bytes"),
    ] {
        fs::write(&keys, text).unwrap();
        call(&balanced).with(3, &[says]);
    }
    call(&["nic", "ctl", "--control", "nowhere", "stop"]).with(9, &["no card listens there"]);
    let folder = crate::command::scratch();
    let ask = || call(&["nic", "ctl", "--control", folder.path().to_str().unwrap(), "stop"]);
    ask().with(9, &["it is a directory, and has no socket; give the path of a card's socket"]);
    let _card = std::os::unix::net::UnixListener::bind(folder.path().join("card.sock")).unwrap();
    ask().with(9, &["it is a directory; give a socket in it: ", "/card.sock"]);
}
