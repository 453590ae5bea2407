//! `--tune`: interrupt coalescing of a TAP in a network namespace of the test's own.

use std::fs;
use std::process::Command;

use crate::command::{call, cores, run, scratch};

/// A TAP whose interrupts wait for 16 packets; what `ethtool` says of it is printed at each step.
const SCRIPT: &str = r#"
set -eu
ip link set lo up
ip tuntap add dev tap0 mode tap
ip address add 198.18.9.1/24 dev tap0
ip link set tap0 up
ethtool -C tap0 rx-frames 16
frames() { ethtool -c tap0 | sed -n 's/^rx-frames:[[:space:]]*//p'; }
say() { echo "$1: $(frames)"; }
until_is() {
    for _ in $(seq 400); do [ "$(frames)" = "$1" ] && return; sleep 0.05; done
    say stuck
}
serve() { "$NICLAB" serve echo --bind 198.18.9.1 "$@" >"$SCRATCH/served" 2>&1 & server=$!; }

serve --tune
until_is 1
say served
"$NICLAB" measure echo --server 198.18.9.1 --tune || echo "a second one: $?"
kill -INT $server
wait $server
say "after Ctrl-C"
sed -n 1p "$SCRATCH/served"

serve --tune
until_is 1
kill -KILL $server
wait $server || true
say "after a kill"
"$NICLAB" doctor --clean
say cleaned

serve
for _ in $(seq 400); do grep -q 'echo of' "$SCRATCH/served" && break; sleep 0.05; done
"$NICLAB" run echo-size --device peer:198.18.9.1 --tune -o "$SCRATCH/run" \
    --set transport=udp --set size=64 --set duration_ms=20 --set warmup_ms=1 --repeats 1 ||
    echo "run: $?"
say "after a run"
kill -INT $server
wait $server
[ ! -e /run/niclab ] || ls /run/niclab
"#;

#[test]
fn coalescing_is_as_it_was_after_a_server_a_run_and_a_kill() {
    let test = "coalescing_is_as_it_was_after_a_server_a_run_and_a_kill";
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {test}: needs root");
        return;
    }
    let makes_tap = "ip tuntap add dev tap0 mode tap && ethtool -C tap0 rx-frames 16";
    let can = Command::new("unshare").args(["-n", "sh", "-c", makes_tap]).output();
    if !can.is_ok_and(|can| can.status.success()) {
        println!("SKIP {test}: ip and ethtool make no TAP whose rx-frames can be set");
        return;
    }
    let _cores = cores();
    let scratch = scratch();
    let mut command = Command::new("unshare");
    command.args(["-n", "bash", "-c", SCRIPT]);
    command.env("NICLAB", env!("CARGO_BIN_EXE_niclab")).env("SCRATCH", scratch.path());
    let ended = run(command);
    ended.with(0, &["another process of niclab has turned its coalescing off"]);
    let expected = [
        "served: 1",
        "a second one: 5",
        "after Ctrl-C: 16",
        "interrupt coalescing of tap0 is off; it was: rx-frames 16",
        "after a kill: 1",
        "put in order: interface tap0: no coalescing, left by process",
        "cleaned: 16",
        "after a run: 16",
    ];
    let mut rest = ended.out.as_str();
    for phrase in expected {
        let at = rest.find(phrase).unwrap_or_else(|| panic!("`{phrase}` is missing: {ended:?}"));
        rest = &rest[at + phrase.len()..];
    }
    let stored = fs::read_to_string(scratch.path().join("run/run.toml")).unwrap();
    assert!(stored.contains("\ntune = true\n"), "{stored}");
    for (name, value) in [
        ("coalescing of tap0", "rx-frames 1"),
        ("coalescing of tap0 before it was turned off", "rx-frames 16"),
    ] {
        assert!(stored.contains(&format!("name = \"{name}\"\nvalue = \"{value}\"")), "{stored}");
    }
}

#[test]
fn an_interface_without_coalescing_is_reported() {
    let message = call(&["measure", "echo", "--server", "127.0.0.1:9", "--tune"]);
    message.with(9, &["lo has no coalescing that could be turned off", "answered nothing: start"]);
    call(&["serve", "echo", "--bind", "0.0.0.0:0", "--tune"])
        .with(2, &["no single interface has 0.0.0.0", "give the address"]);
    // To stamp, the one interface must be known as well.
    call(&["serve", "echo", "--bind", "0.0.0.0:0", "--stamps"])
        .with(9, &["a single interface with 0.0.0.0", "give the address that messages come to"]);
    call(&["measure", "echo", "--tune"]).with(2, &["--server"]);
}
