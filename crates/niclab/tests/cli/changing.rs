//! Two hosts talk through `niclab nic` by programs that everybody has, while the card is changed
//! all the time: `ping`, `iperf3` and `curl`, with rules and queues in their path.
//!
//! `NICLAB_TALK_SECONDS` says for how long, 10 where it is not set.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::command::{cores, run, scratch};

/// The hosts are network namespaces of sleeping processes; `va` is the card's side of the one, and
/// the other has the card's TAP interface.
const SCRIPT: &str = r#"
set -u
cd "$SCRATCH"
unshare --net sleep 1000 & a=$!
unshare --net sleep 1000 & b=$!
inside() { nsenter --net="/proc/$1/ns/net" "${@:2}"; }
ctl() { "$NICLAB" nic ctl --control card "$@"; }
trap 'kill $a $b $(jobs -p) 2>/dev/null' EXIT
for _ in $(seq 100); do
    [ "$(readlink /proc/$a/ns/net)" != "$(readlink /proc/$$/ns/net)" ] &&
        [ "$(readlink /proc/$b/ns/net)" != "$(readlink /proc/$$/ns/net)" ] && break
    sleep 0.02
done
many="numrxqueues 2 numtxqueues 2"
ip link add va $many type veth peer name vb $many netns $a
ip link set va up
inside $a sh -c 'ip link set lo up; ip address add 10.8.0.1/24 dev vb; ip link set vb up
    ethtool -K vb tx off >/dev/null'
"$NICLAB" nic --port xdp:va --port tap:nic0 --queues 4 --cores "$CORES" --control card \
    --receive interrupt >live 2>errors & card=$!
for _ in $(seq 400); do ctl counters >/dev/null 2>&1 && break; sleep 0.05; done
ip link set nic0 netns $b
inside $b sh -c 'ip link set lo up; ip address add 10.8.0.2/24 dev nic0; ip link set nic0 up'
head -c 200000 /dev/urandom >data
# In place of the shell, so that the trap ends them and not only the shell.
(exec nsenter --net=/proc/$b/ns/net iperf3 --server --one-off) >/dev/null 2>&1 &
(exec nsenter --net=/proc/$b/ns/net python3 -m http.server 8000) >/dev/null 2>&1 &
url=http://10.8.0.2:8000/data
for _ in $(seq 100); do inside $a curl -sf -m 2 -o /dev/null $url && break; sleep 0.1; done

inside $a ping -q -i 0.02 -w "$SECONDS_LONG" 10.8.0.2 >pinged & ping=$!
inside $a iperf3 --client 10.8.0.2 --time "$SECONDS_LONG" --bitrate 200M --json >streamed &
stream=$!
(until=$(($(date +%s) + SECONDS_LONG)) fetched=0 wrong=0
while [ "$(date +%s)" -lt $until ]; do
    inside $a curl -sf -m 5 -o got $url && cmp -s got data || wrong=$((wrong + 1))
    fetched=$((fetched + 1))
done
echo "curl: $fetched fetched, $wrong wrong") >fetched & fetch=$!

changes=0 refused=0
change() {
    if ctl "$@" >>told 2>>refused; then changes=$((changes + 1)); else refused=$((refused + 1)); fi
}
until=$(($(date +%s) + SECONDS_LONG))
while [ "$(date +%s)" -lt $until ]; do
    for port in 0 1; do
        change rss $port queues 0 end
        change rss $port queues 0 1 2 3 end
        change rss $port key "$(head -c 40 /dev/urandom | od -An -tx1 | tr -d ' \n')"
        change rss $port types ip end
        change rss $port func symmetric_toeplitz
        change rss $port "reta (0,3),($((RANDOM % 512)),2),($((RANDOM % 512)),1)"
        change rss $port types ip tcp udp end func toeplitz
        to="queue index $((RANDOM % 4))"
        change flow create $port ingress pattern eth / ipv4 / icmp / end actions count / $to / end
        to="rss queues 1 2 end"
        change flow create $port ingress pattern eth / ipv4 / tcp / end actions count / $to / end
        change flow flush $port
    done
done
wait $stream; echo "iperf3: $?"
wait $fetch; cat fetched
wait $ping; echo "ping: $?"
grep -E 'received' pinged
grep -oE '"(retransmits|bits_per_second)":\s*[0-9.e+]+' streamed | tail -n 3
echo "changes: $changes, refused: $refused"
cat refused
ctl --json counters
ctl stop
wait $card; echo "card: $?"
cat errors
"#;

#[test]
fn hosts_talk_through_a_card_that_changes() {
    let test = "hosts_talk_through_a_card_that_changes";
    if !rustix::process::geteuid().is_root() {
        println!("SKIP {test}: needs root");
        return;
    }
    let lacks = |program: &&str| {
        let asked = format!("command -v {program}");
        !Command::new("sh").args(["-c", &asked]).output().unwrap().status.success()
    };
    let programs = ["ping", "iperf3", "curl", "python3", "ethtool"];
    if let Some(program) = programs.into_iter().find(lacks) {
        println!("SKIP {test}: needs {program}");
        return;
    }
    if !fs::exists("/dev/net/tun").unwrap() {
        println!("SKIP {test}: no /dev/net/tun: this kernel has no TAP interfaces");
        return;
    }
    let (_cores, scratch) = (cores(), scratch());
    let there = niclab_device::cores::allowed();
    let two: Vec<String> = there.iter().take(2).map(u32::to_string).collect();
    let seconds = env::var("NICLAB_TALK_SECONDS").unwrap_or("10".to_owned());
    let mut command = Command::new("unshare");
    command.args(["-n", "bash", "-c", SCRIPT]).env("SCRATCH", scratch.path());
    command.env("NICLAB", env!("CARGO_BIN_EXE_niclab"));
    command.env("CORES", two.join(",")).env("SECONDS_LONG", &seconds);
    let ended = run(command);
    let message = format!("{}{}", ended.out, ended.err);
    println!("{message}");
    // They were killed a moment ago.
    let deadline = Instant::now() + Duration::from_secs(5);
    while !processes_in(scratch.path()).is_empty() && Instant::now() < deadline {
        sleep(Duration::from_millis(20));
    }
    assert_eq!(processes_in(scratch.path()), Vec::<String>::new(), "they outlived the script");
    for phrase in ["iperf3: 0", ", 0 wrong", "ping: 0", "refused: 0", "card: 0"] {
        assert!(message.contains(phrase), "`{phrase}` is missing in: {message}");
    }
    let number = |before: &str| -> f64 {
        let rest = message.split_once(before).map_or("", |(_, rest)| rest);
        let digits = rest.trim_start_matches([':', ' ']);
        digits.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap().parse().unwrap()
    };
    let long: f64 = seconds.parse().unwrap();
    assert!(number("curl") >= long, "a file a second: {message}");
    assert!(number("changes") >= 5.0 * long, "{message}");
    assert!(number("received,") < 2.0, "loss in percent: {message}");
    assert_eq!(number("\"held_drops\""), 0.0, "{message}");
}

/// The command lines of processes that work in a directory.
fn processes_in(directory: &Path) -> Vec<String> {
    let works_there = |process: &PathBuf| {
        fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(directory))
    };
    let all = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let command = |process: PathBuf| fs::read_to_string(process.join("cmdline")).ok();
    all.filter(works_there).filter_map(command).collect()
}
