//! `niclab ids run`: a card with a Suricata on each core.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use niclab_packet::stack::{Layer, build};
use niclab_packet::trace::{Endian, Format, LINK_ETHERNET, Record, Resolution, Writer};
use niclab_packet::wire::{ethernet, ipv4, udp};

use crate::command::{cores, niclab, run, scratch};
use crate::pages::missing;

const RULES: &str = "alert udp any any -> any 5001 (msg:\"first\"; content:\"EVIL\"; sid:1;)\n\
                     alert udp any any -> any 5002 (msg:\"second\"; content:\"EVIL\"; sid:2;)\n";

const CONFIG: &str = "%YAML 1.1\n---\nvars:\n  address-groups:\n    HOME_NET: any\n";

/// Makes a program `suricata` in a directory; `false` if there is none here.
pub fn suricata(directory: &Path) -> bool {
    // Where ./test unpacks it.
    let unpacked = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/suricata/usr/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain([PathBuf::from(unpacked)]);
    let Some(program) = places.map(|place| place.join("suricata")).find(|path| path.exists())
    else {
        return false;
    };
    let libraries = format!("../lib/{}-linux-gnu", std::env::consts::ARCH);
    let libraries = program.parent().unwrap().join(libraries);
    let text = format!(
        "#!/bin/sh\nLD_LIBRARY_PATH={} exec {} -k none \"$@\"\n",
        libraries.display(),
        program.display()
    );
    let wrapper = directory.join("suricata");
    fs::write(&wrapper, text).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    true
}

/// Writes a trace of datagrams with an attack, to two ports in turn, one each `gap_us`.
pub fn trace(path: &Path, count: u16, gap_us: u64) {
    let format = Format::Pcap(Endian::Little, Resolution::Micro);
    let mut writer = Writer::new(fs::File::create(path).unwrap(), format).unwrap();
    for number in 0..count {
        // No source port is that of a rule or of a tunnel: a datagram is for one engine.
        let [src, dst] = ["192.168.1.2", "203.0.113.9"].map(|address| address.parse().unwrap());
        let ip = ipv4::Repr { src, dst, ttl: 64, ..Default::default() };
        let header = udp::Repr {
            src_port: 10_000 + number % 50_000,
            dst_port: 5001 + number % 2,
            ..Default::default()
        };
        let payload = Layer::Payload(b"EVIL".to_vec());
        let data =
            build(&[ethernet::Repr::default().into(), ip.into(), header.into(), payload]).unwrap();
        let timestamp_ns = 1_700_000_000_000_000_000 + u64::from(number) * gap_us * 1_000;
        let original_len = data.len() as u32;
        let record = Record { timestamp_ns, original_len, link_type: LINK_ETHERNET, data: &data };
        writer.write(&record).unwrap();
    }
    writer.finish().unwrap();
}

/// A directory with rules, a configuration, a trace and Suricata.
fn place(test: &str, packets: u16, gap_us: u64) -> Option<tempfile::TempDir> {
    let place = scratch();
    fs::write(place.path().join("local.rules"), RULES).unwrap();
    fs::write(place.path().join("suricata.yaml"), CONFIG).unwrap();
    trace(&place.path().join("in.pcap"), packets, gap_us);
    if !suricata(place.path()) {
        println!("SKIP {test}: Suricata is missing (./test unpacks it on Debian)");
        return None;
    }
    Some(place)
}

const SHOWN: [&str; 11] = [
    "ids",
    "run",
    "--rules",
    "local.rules",
    "--config",
    "suricata.yaml",
    "--suricata",
    "./suricata",
    "-o",
    "out",
    "--json",
];

#[test]
fn the_alerts_of_a_trace_come_to_one_file() {
    let Some(place) = place("the_alerts_of_a_trace_come_to_one_file", 100, 10) else { return };
    let _cores = cores();
    let mut command = niclab(&SHOWN);
    command.args(["--cores", "2", "--port", "pcap:in=in.pcap,speed=max"]);
    let ended = run({
        command.current_dir(place.path());
        command
    });
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let written = fs::read_to_string(place.path().join("out/detection.json")).unwrap();
    assert_eq!(document, serde_json::from_str::<serde_json::Value>(&written).unwrap());
    assert_eq!(document["packets"], 100);
    let engines = document["engines"].as_array().unwrap();
    assert_eq!(engines.len(), 2);
    let is_shared = engines[0]["cpu"] == engines[1]["cpu"];
    assert_eq!(ended.err.contains("2 engines share 1 CPU: "), is_shared, "{ended:?}");
    for (engine, alerts) in engines.iter().zip(document["alerts"].as_array().unwrap()) {
        assert_eq!((&engine["packets"], &engine["alerts"]), (&50.into(), &50.into()));
        assert_eq!(alerts["alerts"], 50);
    }
    let events = fs::read_to_string(place.path().join("out/eve.json")).unwrap();
    assert_eq!(events.lines().count(), 100);
    assert!(!place.path().join("out/engine-0/command.sock").exists());
}

#[test]
fn without_suricata_the_message_says_how_to_install_it() {
    let place = scratch();
    fs::write(place.path().join("local.rules"), RULES).unwrap();
    fs::write(place.path().join("suricata.yaml"), CONFIG).unwrap();
    let mut command =
        niclab(&["ids", "run", "--rules", "local.rules", "--config", "suricata.yaml"]);
    command.args(["--cores", "2", "--port", "pcap:in=in.pcap,speed=max", "-o", "out"]);
    command.current_dir(place.path()).env("PATH", place.path());
    let ended = run(command);
    assert_eq!(ended.code, Some(5), "{ended:?}");
    for part in ["apt install suricata;", "Debian 12", "apt install -t bookworm-backports suricata"]
    {
        assert!(ended.err.contains(part), "{part}: {ended:?}");
    }
    assert!(!place.path().join("out").exists());
}

#[test]
fn a_run_that_cannot_start_leaves_nothing() {
    let Some(place) = place("a_run_that_cannot_start_leaves_nothing", 1, 1) else { return };
    let write = |name: &str, text: &str| fs::write(place.path().join(name), text).unwrap();
    write("bad.rules", "alert udp any any -> any 5001 (pcre:\"/(/\"; sid:1;)\n");
    write("cut.pcap", "\u{a}\r\r\n");
    write("bad.yaml", "vars: [1\n");
    let fine = "pcap:in=in.pcap,speed=max";
    write("as.yaml", "%YAML 1.1\n---\nrun-as:\n  user: nobody\n");
    let refused: [(&[&str], i32, &str); 9] = [
        (&["--config", "as.yaml", "--port", fine], 3, "not supported: `run-as`"),
        (&["--port", "tap:foo"], 2, "--port tap:foo: packets come from xdp:INTERFACE"),
        (&["--suricata", "/bin/true", "--port", fine], 9, "engine 0: it ended: exit status 0"),
        (&["--suricata", "./none", "--port", fine], 5, "none: it cannot be started: No such file"),
        (&["--card-cores", "0,0", "--port", fine], 3, "core 0"),
        (
            &["--rules", "bad.rules", "--port", fine],
            3,
            "it refuses rules (1); leave this one out or change it: alert udp",
        ),
        (&["--port", "pcap:in=cut.pcap"], 5, "cut.pcap"),
        (&["--port", "xdp:no-such"], 5, "no-such"),
        (&["--config", "bad.yaml", "--port", fine], 3, "bad.yaml"),
    ];
    for (arguments, code, message) in refused {
        let mut command = niclab(&["ids", "run", "--cores", "2", "-o", "out"]);
        let mut set = |name: &str, value: &str| {
            if !arguments.contains(&name) {
                command.args([name, value]);
            }
        };
        set("--rules", "local.rules");
        set("--config", "suricata.yaml");
        set("--suricata", "./suricata");
        command.args(arguments).current_dir(place.path());
        let ended = run(command);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(message), "{message}: {ended:?}");
        assert!(!place.path().join("out").exists(), "{arguments:?}");
    }
}

/// Begins a script with two interfaces that are joined: frames that leave by one come by the other.
const INTERFACES: &str = r#"
set -e
started() {
    for _ in $(seq 600); do
        if grep -q "engines are ready" "$1"; then return; fi
        kill -0 "$2" || { cat "$1"; exit 1; }
        sleep 0.1
    done
    cat "$1"; exit 1
}
ip link add va type veth peer name vb
for end in va vb; do echo 1 >/proc/sys/net/ipv6/conf/$end/disable_ipv6; done
ip link set va up; ip link set vb up
"#;

/// Has a run on an interface, and one that is killed.
const LIVE: &str = r#"
niclab() { "$NICLAB" "$@"; }
said() {
    for _ in $(seq 600); do
        if grep -q "$2" "$1"; then return; fi
        sleep 0.1
    done
    cat "$1"; exit 1
}
send() { niclab nic --port pcap:in=in.pcap,speed=1 --port packet:vb --seconds 1 >sent; }
arguments="--rules local.rules --config suricata.yaml --cores 2 --port xdp:va --suricata ./suricata"
"$NICLAB" ids run $arguments -o one --json >one.json 2>one.err & run=$!
started one.err $run
ip -o link show ids0
ip -o -6 address show dev ids0
send
sed -i 's/msg:"first"/msg:"third"/' local.rules
kill -HUP $run
said one.err "the new rules hold"
send
echo "alert tpc" >>local.rules
kill -HUP $run
said one.err "the old rules hold: local.rules: line 3, column 7"
kill -INT $run
wait $run
cat one.json
cat one/core-*.rules
for name in first second third; do echo "$name: $(grep -c "\"$name\"" one/eve.json)"; done
ip -o link | grep -c ids || echo "no interface"
sed -i '$d' local.rules
"$NICLAB" ids run $arguments -o two 2>two.err & run=$!
started two.err $run
engines=$(pgrep -P $run)
echo "$(echo "$engines" | wc -l) engines"
kill -9 $run
for engine in $engines; do
    for _ in $(seq 100); do [ -d /proc/$engine ] || break; sleep 0.1; done
    [ ! -d /proc/$engine ] || echo "engine $engine is left"
done
ip -o link | grep -c ids || echo "killed: no interface"
"#;

/// Carries out a script in namespaces of its own.
fn script(text: &str, place: &Path) -> crate::command::Ended {
    let mut command = Command::new("unshare");
    command.args(["-n", "-m", "bash", "-c", text]).current_dir(place);
    command.env("NICLAB", env!("CARGO_BIN_EXE_niclab"));
    run(command)
}

fn assert_in_order(said: &str, phrases: &[&str]) {
    let mut rest = said;
    for phrase in phrases {
        let Some((_, after)) = rest.split_once(phrase) else { panic!("{phrase}: {said}") };
        rest = after;
    }
}

#[test]
fn an_interface_is_watched_and_nothing_is_left() {
    let test = "an_interface_is_watched_and_nothing_is_left";
    if let Some(reason) = missing(&["unshare", "ip", "pgrep"]) {
        println!("SKIP {test}: {reason}");
        return;
    }
    let Some(place) = place(test, 200, 1_000) else { return };
    let _cores = cores();
    let ended = script(&format!("{INTERFACES}{LIVE}"), place.path());
    let said = format!("{}{}", ended.out, ended.err);
    assert_in_order(
        &said,
        &[
            "NOARP",
            "\"packets\": 400",
            "\"packets_missed\": 0",
            "\"reloads\": 1",
            "msg:\"third\"",
            "first: 100",
            "second: 200",
            "third: 100",
            "no interface",
            "2 engines",
            "killed: no interface",
        ],
    );
    assert!(!said.contains("is left") && !said.contains("inet6"), "{said}");
}

/// Ends runs while or just after packets came.
const ENDED: &str = r#"
from="pcap:in=in.pcap,speed=1"
send() { "$NICLAB" nic --port $from --port packet:vb --seconds 2 >sent; }
arguments="--rules local.rules --config suricata.yaml --cores 2 --port packet:va"
arguments="$arguments --suricata ./suricata"
"$NICLAB" ids run $arguments -o at-once --json >at-once.json 2>err & run=$!
started err $run
send
kill -INT $run
wait $run
for name in killed dead; do
    "$NICLAB" ids run $arguments -o $name --json >$name.json 2>err & run=$!
    started err $run
    send
    # One engine is started again before the end, and one cannot be.
    [ $name = killed ] || mv suricata suricata.gone
    kill -9 $(pgrep -o -P $run)
    sleep 0.3
    [ $name = dead ] || send
    kill -INT $run
    wait $run
done
mv suricata.gone suricata
"$NICLAB" nic --port $from --port packet:vb >sent & sender=$!
"$NICLAB" ids run $arguments -o under-load --seconds 3 --json >under-load.json 2>err
kill -INT $sender
wait $sender
"#;

#[test]
fn packets_of_an_interface_add_up_when_a_run_ends() {
    let test = "packets_of_an_interface_add_up_when_a_run_ends";
    if let Some(reason) = missing(&["unshare", "ip", "pgrep"]) {
        println!("SKIP {test}: {reason}");
        return;
    }
    let Some(place) = place(test, 60_000, 1_000) else { return };
    let _cores = cores();
    let ended = script(&format!("{INTERFACES}{ENDED}"), place.path());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let names = ["at-once", "killed", "dead", "under-load"];
    let [at_once, killed, dead, under_load] = names.map(|name| {
        let text = fs::read_to_string(place.path().join(format!("{name}.json"))).unwrap();
        let result: serde_json::Value = serde_json::from_str(&text).unwrap();
        let engines = result["engines"].as_array().unwrap();
        let sum = |field: &str| -> u64 {
            engines.iter().map(|engine| engine[field].as_u64().expect(field)).sum()
        };
        // Every packet has an alert, and is for one engine.
        assert_eq!(result["packets"], sum("packets") + sum("packets_dropped"), "{name}: {text}");
        assert_eq!(result["packets_missed"], 0, "{name}: {text}");
        let inspected = sum("packets") - sum("packets_missed");
        if name == "killed" || name == "dead" {
            // What the killed engine had inspected and not counted is missed, too.
            assert!(sum("alerts") >= inspected, "{name}: {text}");
        } else {
            assert_eq!((sum("packets_missed"), sum("alerts")), (0, inspected), "{name}: {text}");
        }
        result
    });
    let packets = |result: &serde_json::Value| result["packets"].as_u64().unwrap();
    assert!((1_500..2_500).contains(&packets(&at_once)), "{at_once}");
    let missed = |engine: usize| killed["engines"][engine]["packets_missed"].as_u64().unwrap();
    assert!(missed(0) > 500 && missed(1) == 0, "{killed}");
    assert_eq!(dead["engines"][1]["packets_missed"], 0, "{dead}");
    // A packet each millisecond: those that came before and after the run are not counted.
    let seconds = under_load["seconds"].as_f64().unwrap();
    assert!((2.9..3.5).contains(&seconds), "{under_load}");
    let most = (seconds * 1e3) as u64 + 300;
    assert!((500..most).contains(&packets(&under_load)), "{under_load}");
}

/// A disk that is full for a while, and one that stays so.
const FULL: &str = r#"
set -e
arguments="--rules local.rules --config suricata.yaml --cores 2 --port pcap:in=in.pcap,speed=1"
mkdir disk
mount -t tmpfs -o size=600k none disk
"$NICLAB" ids run $arguments --suricata ./suricata -o disk/one 2>one.err >one.out & run=$!
for _ in $(seq 600); do
    if grep -q "events wait" one.err; then break; fi
    sleep 0.1
done
mount -o remount,size=64m disk
wait $run
cat one.err
echo "$(wc -l <disk/one/eve.json) events"
umount disk
mount -t tmpfs -o size=600k none disk
"$NICLAB" ids run $arguments --suricata ./suricata -o disk/two 2>two.err >two.out || echo "code $?"
cat two.err
umount disk
"#;

#[test]
fn events_wait_while_the_disk_is_full() {
    let test = "events_wait_while_the_disk_is_full";
    if let Some(reason) = missing(&["unshare", "mount"]) {
        println!("SKIP {test}: {reason}");
        return;
    }
    let Some(place) = place(test, 6_000, 1_000) else { return };
    let _cores = cores();
    let ended = script(FULL, place.path());
    let said = format!("{}{}", ended.out, ended.err);
    assert_in_order(
        &said,
        &[
            "events wait",
            "events are written again",
            "6000 events",
            "code 4",
            "events wait",
            "eve.json: No space left on device",
        ],
    );
}
