//! Filters of tc, converted, against the kernel and against tc itself.
//!
//! `flower.txt` has what a kernel said: frames, and for each filter a digit a frame, 1 where it
//! matched. `commands.txt` has the same filters with actions, and `shown.txt` what
//! `tc -s filter show` printed of them. `flower.py` made the three.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::{env, fs};

use niclab_nic::rule::text::convert::{Format, convert};
use niclab_nic::rule::text::{self, Parser};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tc");

fn file(name: &str) -> String {
    fs::read_to_string(Path::new(DIRECTORY).join(name)).unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// The digits of a filter: which frames the rules match that it is converted to.
fn matched(filter: &str, frames: &[(&str, Vec<u8>)]) -> String {
    let line = format!("tc filter add dev eth0 ingress pref 1 {filter} action drop");
    let rules = convert(Format::Tc, &line).unwrap_or_else(|error| panic!("{error}"));
    let mut digits = vec!['0'; frames.len()];
    for rule in rules.lines().filter(|line| !line.starts_with('#')) {
        let mut parser = Parser::default();
        let parsed = parser.parse(1, rule).unwrap_or_else(|error| panic!("{error}"));
        let text::Command::Create { rule, .. } = parsed.command else { panic!("{rules}") };
        let pattern = parsed.pattern(&rule).unwrap_or_else(|error| panic!("{error}"));
        for (digit, (_, frame)) in digits.iter_mut().zip(frames) {
            *digit = if pattern.matches(frame) { '1' } else { *digit };
        }
    }
    digits.into_iter().collect()
}

#[test]
fn a_converted_filter_matches_the_frames_that_the_kernel_matches() {
    let record = file("flower.txt");
    let words = |line: &'static str| {
        record.lines().filter_map(move |it| it.strip_prefix(line)?.trim_start().split_once(' '))
    };
    let frames: Vec<(&str, Vec<u8>)> =
        words("frame").map(|(name, hex)| (name, bytes(hex))).collect();
    let (mut filters, mut wrong) = (0, Vec::new());
    for (expected, filter) in words("filter") {
        filters += 1;
        let found = matched(filter, &frames);
        for (((name, _), kernel), ours) in frames.iter().zip(expected.chars()).zip(found.chars()) {
            if kernel != ours {
                wrong.push(format!("{filter}: {name}: the kernel {kernel}, ours {ours}"));
            }
        }
    }
    assert!(filters > 60 && frames.len() > 50, "{filters} filters, {} frames", frames.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Rules without the comments that name lines.
fn rules(text: &str) -> Vec<String> {
    let converted = convert(Format::Tc, text).unwrap_or_else(|error| panic!("{error}"));
    let rules = converted.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
    let mut rules: Vec<String> = rules.collect();
    // tc shows chains in the order of their first use, and of `goto`.
    rules.sort();
    rules
}

#[test]
fn what_tc_prints_of_filters_means_what_the_commands_mean() {
    let (commands, shown) = (rules(&file("commands.txt")), rules(&file("shown.txt")));
    assert!(commands.len() > 60, "{}", commands.len());
    assert_eq!(commands, shown);
    let script: String = file("commands.txt").lines().map(|it| format!("tc {it}\n")).collect();
    assert_eq!(commands, rules(&script));
}

/// Runs this in a network namespace of its own, as root.
fn in_a_namespace(command: &str, input: &str) -> Result<Output, String> {
    let mut started = Command::new("unshare")
        .args(["-n", "sh", "-c", command])
        .env("PATH", format!("/usr/sbin:/sbin:{}", env::var("PATH").unwrap_or_default()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("unshare: {error}"))?;
    let mut stdin = started.stdin.take().ok_or("no standard input")?;
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = started.wait_with_output().map_err(|error| error.to_string())?;
    writer.join().map_err(|_| "the writer panicked")?.map_err(|error| error.to_string())?;
    Ok(output)
}

#[test]
fn the_kernel_of_this_machine_says_what_was_recorded() {
    let test = "the_kernel_of_this_machine_says_what_was_recorded";
    let probe = "ip link set lo up && tc qdisc add dev lo clsact && python3 -c '' && \
                 tc filter add dev lo ingress flower action drop";
    match in_a_namespace(probe, "") {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            println!("SKIP {test}: {}", error.lines().next().unwrap_or_default());
            return;
        }
        Err(error) => {
            println!("SKIP {test}: {error}");
            return;
        }
    }
    let directory = env::temp_dir().join(format!("niclab-flower-{}", std::process::id()));
    fs::create_dir(&directory).unwrap();
    let command = format!("python3 {DIRECTORY}/flower.py {}", directory.display());
    let output = in_a_namespace(&command, "").unwrap();
    let found = fs::read_to_string(directory.join("flower.txt"));
    fs::remove_dir_all(&directory).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let of = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(of(&found.unwrap()), of(&file("flower.txt")));
}

/// The kernel of this machine may lack the classifier, and Debian's has it.
#[test]
fn debians_kernel_says_what_was_recorded() {
    let test = "debians_kernel_says_what_was_recorded";
    if env::var_os("NICLAB_TEST_ALL").is_none() {
        return println!("SKIP {test}: takes more than ten seconds: ./test --all");
    }
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/guest"));
    // The system's own Python starts in a tenth of the time that others need there.
    command.args(["env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]).arg(env::current_exe().unwrap());
    let inner = "the_kernel_of_this_machine_says_what_was_recorded";
    let ended = command.args(["--show-output", "--exact", inner]).output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    if ended.status.code() == Some(77) {
        return println!("SKIP {test}: {}", err.trim());
    }
    assert!(ended.status.success() && out.contains("1 passed"), "{out}{err}");
    let skip = format!("SKIP {inner}: ");
    if let Some(reason) = out.lines().find_map(|line| line.strip_prefix(&skip)) {
        assert!(reason.contains("python3"), "that kernel has what this one lacks: {reason}");
        println!("SKIP {test}: {reason}");
    }
}

/// Lines of which words are left out, doubled, exchanged, cut short or replaced.
fn damaged() -> Vec<String> {
    let whole = [
        "filter add dev lo ingress protocol ip pref 10 flower ip_proto tcp dst_ip 10.0.0.0/8 \
         src_port 80-90 tcp_flags 2/12 skip_hw action drop",
        "filter replace dev lo ingress protocol 802.1Q pref 010 chain 0x2 flower vlan_id 5 \
         vlan_ethtype ip ip_proto udp dst_port 010/0xff action skbedit queue_mapping 3 pass",
        "filter add dev lo ingress protocol ip flower ip_proto icmp type 8/15 code 0 ip_tos 20/fc \
         ip_ttl 0x40 ip_flags nofrag action goto chain 4",
        "filter add dev lo ingress protocol ipv6 handle 0x7 pref 3 flower dst_ip 2001:db8::/32 \
         dst_mac 02:00:00:00:00:01/40 ip_proto 3a type 128 action gact pass",
    ];
    let replacements = ["0x10", "08", "70000", "1.2.3", "5-4"];
    let mut lines = Vec::new();
    for line in whole {
        let words: Vec<&str> = line.split_whitespace().collect();
        lines.push(words.join(" "));
        // The command and the device are kept.
        for at in 4..words.len() {
            let mut change = |with: &[&str], skipped: usize| {
                lines.push([&words[..at], with, &words[at + skipped..]].concat().join(" "));
            };
            change(&[], 1);
            change(&[words[at], words[at]], 1);
            for end in [1, 3].into_iter().filter(|end| *end < words[at].len()) {
                change(&[&words[at][..end]], 1);
            }
            replacements.iter().for_each(|with| change(&[with], 1));
            if at + 1 < words.len() {
                change(&[words[at + 1], words[at]], 2);
            }
        }
    }
    lines
}

/// tc says nothing of the kernel where it does not understand a line itself.
#[test]
fn what_tc_does_not_read_is_not_converted() {
    let test = "what_tc_does_not_read_is_not_converted";
    let lines = damaged();
    let command = "ip link set lo up || exit 1; tc qdisc add dev lo clsact\n\
                   while read -r line; do\n\
                     if said=$(tc $line 2>&1); then echo 1; continue; fi\n\
                     case $said in *'talking to the kernel'*) echo 1;; *) echo 0;; esac\n\
                   done";
    let output = match in_a_namespace(command, &(lines.join("\n") + "\n")) {
        Ok(output) if output.status.success() => output,
        Ok(output) => {
            println!("SKIP {test}: {}", String::from_utf8_lossy(&output.stderr));
            return;
        }
        Err(error) => {
            println!("SKIP {test}: {error}");
            return;
        }
    };
    let answers = String::from_utf8_lossy(&output.stdout);
    let answers: Vec<bool> = answers.lines().map(|answer| answer == "1").collect();
    assert_eq!(answers.len(), lines.len());
    if !answers[0] {
        println!("SKIP {test}: tc does not read a filter of flower here");
        return;
    }
    let refused = answers.iter().filter(|known| !**known).count();
    assert!(refused > 150, "{refused} of {} lines", lines.len());
    let is_ours = |line: &&String| convert(Format::Tc, line).is_ok();
    let wrong: Vec<_> = lines
        .iter()
        .zip(&answers)
        .filter(|(line, known)| !**known && is_ours(line))
        .map(|(line, _)| line)
        .collect();
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), lines.len());
}
