//! Files of rules: checked, converted, measured with.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::{Ended, call, cores, niclab, run, samples, scratch};

/// The second rule is shadowed by the first, and overlapped by nothing.
const RULES: &str = "\
flow create 0 ingress pattern ipv4 / udp / end actions count / queue index 1 / end
flow create 0 priority 1 ingress pattern ipv4 src is 1.2.3.4 / udp / end actions drop / end
flow create 0 priority 1 ingress pattern ipv4 / tcp / end actions drop / end
";

#[test]
fn several_files_are_checked_each_on_a_card_of_its_own() {
    let scratch = scratch();
    let [one, other] = ["one.flow", "other.flow"].map(|name| scratch.path().join(name));
    fs::write(&one, RULES).unwrap();
    fs::write(&other, "flow validate 0 ingress pattern eth / end actions drop / end\n").unwrap();
    let check = || call(&["rules".as_ref(), "check".as_ref(), one.as_os_str(), other.as_os_str()]);
    let ended = check();
    ended.with(0, &[]);
    let expected = format!(
        "{}: 3 rules\n  1 rule is shadowed:\n    line 2 never acts: the rule of line 1 has \
         precedence and matches all its packets\n\
         {}: 1 rule\n",
        one.display(),
        other.display()
    );
    assert_eq!(ended.out, expected);
    fs::write(&other, "flow destroy 0 rule 0\n").unwrap();
    check().with(3, &["other.flow: line 1, column 21: no rule 0: port 0 has none", "^"]);
}

#[test]
fn all_files_are_checked_where_some_are_wrong() {
    let scratch = scratch();
    let good = "flow create 0 ingress pattern eth / end actions drop / end\n";
    let files = [
        ("one.flow", format!("{good}{}", good.replace("eth /", "eth / udp /"))),
        ("two.flow", good.to_owned()),
        ("three.flow", "flow destroy 0 rule 0\nflow destroy 0 rule 1\n".to_owned()),
        ("amiss.flow", RULES.to_owned()),
    ];
    files.iter().for_each(|(name, text)| fs::write(scratch.path().join(name), text).unwrap());
    let check = |options: &[&str], names: &[&str]| {
        let paths: Vec<_> = names.iter().map(|name| scratch.path().join(name)).collect();
        let words = ["rules", "check"].iter().chain(options).map(OsStr::new);
        call(&words.chain(paths.iter().map(|path| path.as_os_str())).collect::<Vec<_>>())
    };
    let all = ["one.flow", "no.flow", "two.flow", "three.flow", "amiss.flow"];
    let wrong = [
        "one.flow: line 2, column 37: udp stands behind eth; put ipv4 or ipv6 between",
        "no.flow: No such file",
        "three.flow: line 1, column 21: no rule 0: port 0 has none",
    ];
    let ended = check(&[], &all);
    ended.with(3, &wrong);
    let message: Vec<_> = ended.err.lines().filter(|line| line.starts_with("niclab: ")).collect();
    let is_said = |(message, wrong): (&&str, &&str)| message.contains(wrong);
    assert!(message.len() == 3 && message.iter().zip(&wrong).all(is_said), "{message:?}");
    for good in ["two.flow: 1 rule\n", "amiss.flow: 3 rules\n"] {
        assert!(ended.out.contains(good), "{}", ended.out);
    }
    assert!(!ended.out.contains("one.flow"), "a file that is refused is not counted");
    // Warnings are reported as well, and the files that cannot be used decide the exit status.
    let ended = check(&["--strict"], &all);
    ended.with(3, &wrong);
    ended.with(3, &["niclab: --strict: fix the rules in ", "amiss.flow\n"]);
    check(&[], &["two.flow", "amiss.flow"]).with(0, &[]);
}

/// One of each kind of thing that there is to say of rules.
const AMISS: &str = "\
flow create 0 ingress pattern ipv4 / udp / end actions jump group 7 / end
flow create 0 ingress pattern ipv4 / udp dst is 53 / end actions drop / end
flow create 0 priority 1 ingress pattern ipv4 src is 10.0.0.1 / end actions drop / end
flow create 0 priority 2 ingress pattern ipv4 / end actions queue index 1 / end
flow create 0 group 5 ingress pattern ipv4 / end actions drop / end
flow create 0 group 5 ingress pattern ipv6 src spec ::1 / end actions drop / end
";

#[test]
fn a_strict_check_fails_where_there_is_something_to_say() {
    let scratch = scratch();
    let [amiss, clean] = ["amiss.flow", "clean.flow"].map(|name| scratch.path().join(name));
    fs::write(&amiss, AMISS).unwrap();
    // An exception is nothing to mend.
    let exception = RULES.lines().next().unwrap().to_owned()
        + "\nflow create 0 priority 1 ingress pattern ipv4 / end actions drop / end\n";
    fs::write(&clean, exception).unwrap();
    let check = |options: &[&str], files: &[&Path]| {
        let files = files.iter().map(|path| path.as_os_str());
        let words = ["rules", "check"].iter().chain(options).map(OsStr::new);
        call(&words.chain(files).collect::<Vec<_>>())
    };
    let ended = check(&["--strict"], &[&clean]);
    ended.with(0, &[]);
    let expected = "2 rules\n  1 rule is an exception to a wider rule of lower precedence\n";
    assert_eq!(ended.out, format!("{}: {expected}", clean.display()));
    check(&[], &[&amiss]).with(0, &[]);
    let ended = check(&["--strict"], &[&amiss, &clean]);
    ended.with(7, &["--strict: fix the rules in ", "amiss.flow\n"]);
    let expected = format!(
        "{}: 6 rules
  1 rule is shadowed:
    line 2 never acts: the rule of line 1 has precedence and matches all its packets
  1 rule is overlapped:
    line 3 loses some packets to the rule of line 1, which has precedence
  2 rules are exceptions to wider rules of lower precedence
  1 group is never reached:
    line 5: no packet is sent to group 5, whose 2 rules never act
  1 rule jumps to a group without rules; RSS spreads such packets, isolation drops them:
    line 1 jumps to group 7, which has no rule
  1 item has a spec without a mask and gets rte_flow's default mask; write `is`, or add a mask:
    line 6: ipv6 dst must be 0 by rte_flow's default mask
",
        amiss.display()
    );
    assert!(ended.out.starts_with(&expected), "{}", ended.out);
    assert!(ended.out.contains("clean.flow: 2 rules"), "all files are checked");
    // More than five of a kind are told where that is asked for.
    let line = |port: u16| {
        let pattern = format!("ipv4 / udp src spec {port}");
        format!("flow create 0 ingress pattern {pattern} / end actions drop / end\n")
    };
    fs::write(&amiss, (0..7).map(line).collect::<String>()).unwrap();
    let output =
        |ended: &Ended| ended.out.lines().filter(|line| line.contains("must be 0")).count();
    let ended = check(&[], &[&amiss]);
    assert_eq!(output(&ended), 5);
    assert!(ended.out.ends_with("    and 2 more: --all lists them\n"), "{}", ended.out);
    let ended = check(&["--all"], &[&amiss]);
    assert_eq!(output(&ended), 7);
    assert!(!ended.out.contains("more"), "{}", ended.out);
}

#[test]
fn a_strict_check_fails_where_a_range_was_not_compared() {
    let scratch = scratch();
    let path = scratch.path().join("ttl.flow");
    let rule = "flow create 0 ingress pattern ipv4 ttl is 3 ttl last 9 / end actions drop / end\n";
    let other = "flow create 0 ingress pattern ipv4 tos is 4 / end actions queue index 1 / end\n";
    fs::write(&path, format!("{rule}{other}")).unwrap();
    let call = |options: &[&str]| {
        let words = ["rules", "check"].iter().chain(options).map(OsStr::new);
        call(&words.chain([path.as_os_str()]).collect::<Vec<_>>())
    };
    let ended = call(&["--strict"]);
    ended.with(7, &["--strict: fix the rules in "]);
    let message = "2 rules\n  1 rule has a range that is not compared with other rules\n";
    assert_eq!(ended.out, format!("{}: {message}", path.display()));
    call(&[]).with(0, &[]);
}

#[test]
fn rules_of_others_are_converted_or_shown_where_they_cannot_be() {
    let scratch = scratch();
    let convert = |format: &str, text: &str| {
        let path = scratch.path().join(format);
        fs::write(&path, text).unwrap();
        call(&["rules".as_ref(), "convert".as_ref(), format.as_ref(), path.as_os_str()])
    };
    let classbench = "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t53 : 53\t0x11/0xFF\t0x0000/0x0000\t\n";
    let tc = "tc filter add dev eth0 ingress protocol ip prio 5 flower ip_proto tcp action drop";
    let ethtool = "ethtool -N eth0 flow-type udp4 dst-port 53 action 2";
    let table = [
        (
            "classbench",
            classbench,
            "flow create 0 group 0 priority 0 ingress pattern ipv4 src spec 10.0.0.0 src prefix 8 \
             / udp dst is 53 / end actions queue index 0 / end\n",
        ),
        (
            "tc",
            tc,
            "flow create 0 group 0 priority 5 ingress pattern eth type is 0x0800 / ipv4 proto is 6 \
             / end actions drop / end\n",
        ),
        (
            "ethtool",
            ethtool,
            "flow create 0 group 0 priority 0 ingress pattern ipv4 / udp dst is 53 / end actions \
             queue index 2 / end\n",
        ),
    ];
    for (format, text, expected) in table {
        let ended = convert(format, text);
        ended.with(0, &[]);
        assert_eq!(ended.out, expected);
        let path = scratch.path().join("converted.flow");
        fs::write(&path, ended.out).unwrap();
        call(&["rules".as_ref(), "check".as_ref(), path.as_os_str()]).with(0, &[]);
    }
    let ended = convert("ethtool", &format!("{ethtool}\nethtool -N eth0 flow-type ah4 action 1"));
    ended.with(3, &["ethtool: line 2, column 27: not supported: flow-type ah4", "^^^"]);
    assert_eq!(ended.out, "", "nothing is written");
    convert("p4", "").with(2, &["p4", "classbench"]);
}

/// Texts of others, and what a conversion says of them.
#[test]
fn texts_of_others_are_converted_as_their_tools_mean_them() {
    let scratch = scratch();
    let convert = |format: &str, text: &str| {
        let path = scratch.path().join(format);
        fs::write(&path, text).unwrap();
        call(&["rules".as_ref(), "convert".as_ref(), format.as_ref(), path.as_os_str()])
    };
    // The filter without a priority comes last.
    let prio = "\
tc filter add dev eth0 ingress protocol ip pref 100 flower dst_ip 10.0.0.0/8 action pass
tc filter add dev eth0 ingress protocol ip flower dst_ip 10.0.0.1 action drop
";
    let ended = convert("tc", prio);
    ended.with(0, &[]);
    let [pass, drop] = ["priority 100 ", "priority 49152 "].map(|part| ended.out.contains(part));
    assert!(pass && drop, "{}", ended.out);
    let batch = "qdisc add dev eth0 ingress\nfilter add dev eth0 ingress protocol ip pref 1 flower \
                 dst_mac 02:00:00:00:00:02 action drop\n";
    let ended = convert("tc", batch);
    ended.with(0, &[]);
    let rule = "flow create 0 group 0 priority 1 ingress pattern eth dst is 02:00:00:00:00:02 type \
                is 0x0800 / end actions drop / end\n";
    assert_eq!(ended.out, rule);
    let mirred = "filter protocol ip pref 49152 flower chain 0 \nfilter protocol ip pref 49152 \
                  flower chain 0 handle 0x1 \n  eth_type ipv4\n  ip_proto tcp\n  dst_port 80\n  \
                  not_in_hw\n\taction order 1: mirred (Egress Redirect to device veth1) stolen\n \
                  \tindex 1 ref 1 bind 1\n\n";
    let ended = convert("tc", mirred);
    ended.with(3, &["tc: line 7, column 18: not supported: action mirred"]);
    assert!(!ended.err.contains("shell"), "{}", ended.err);
    let ipv6 = "@2001:db8::/32\t2001:db8:1::/48\t0 : 65535\t53 : 53\t0x11/0xFF\t0x0000/0x0000\n";
    let ended = convert("classbench", ipv6);
    ended.with(0, &[]);
    assert!(ended.out.contains("ipv6 src spec 2001:db8:: src prefix 32"), "{}", ended.out);
    let hidden = "ethtool\u{a0}-N eth0 flow-type ip4 action 1\n";
    convert("ethtool", hidden)
        .with(3, &["found `ethtool<U+00A0>-N`\nethtool<U+00A0>-N eth0", "\n^^^^^^^^^^^^^^^^^"]);
}

/// A file for several ports, as `niclab nic --rules` takes it.
#[test]
fn a_file_for_several_ports_is_checked_port_by_port() {
    let scratch = scratch();
    let path = scratch.path().join("two.flow");
    let check = |text: &str| {
        fs::write(&path, text).unwrap();
        call(&["rules".as_ref(), "check".as_ref(), path.as_os_str()])
    };
    let two = "flow create 0 ingress pattern eth / end actions port_id id 1 / end\n\
               flow create 1 ingress pattern eth / end actions port_id id 0 / end\n";
    let ended = check(two);
    ended.with(0, &[]);
    assert_eq!(ended.out, format!("{}: 2 rules\n", path.display()));
    let more = format!(
        "{two}flow create 1 priority 1 ingress pattern ipv4 / end actions drop / end\n\
                        flow list 1\n"
    );
    let ended = check(&more);
    ended.with(0, &[]);
    for part in [
        "3 rules, 1 other command",
        "  port 1: rule 0: group 0 priority 0: ETH => REPRESENTED_PORT",
        "line 3 never acts: the rule of line 2 has precedence and matches all its packets",
    ] {
        assert!(ended.out.contains(part), "{part}: {}", ended.out);
    }
    // What is wrong with one port has the line of the file.
    check(&format!("{two}flow destroy 1 rule 5\n"))
        .with(3, &["two.flow: line 3, column 21: no rule 5"]);
    // The first line that is wrong, whichever port it is for.
    let wrong = "flow destroy 1 rule 0\nflow destroy 0 rule 0\n";
    check(wrong).with(3, &["line 1, column 21: no rule 0: port 1 has none"]);
    check("flow flush 256\n").with(3, &["line 1, column 12: no port 256"]);
    // All queues of the port.
    let all = "flow create 0 ingress pattern eth / ipv4 / udp / end actions rss types ipv4-udp \
               l3-src-only end key_len 0 queues end / end\n";
    check(all).with(0, &[]);
    let hidden = "flow create 0 ingress pattern\u{a0} eth / ipv4 / end actions drop / end\n";
    let place = " ".repeat(22) + "^^^^^^^^^^^^^^^\n";
    let found = "column 23: expected `group`, `ingress`, `pattern` or `priority`, found \
                 `pattern<U+00A0>`\nflow create 0 ingress pattern<U+00A0> eth";
    check(hidden).with(3, &[found, &place]);
}

/// A run of a moment with a file of rules.
fn measured(rules: &str, more: &[&str]) -> (Ended, Vec<Value>) {
    let _cores = cores();
    let scratch = scratch();
    let (file, path) = (scratch.path().join("my.flow"), scratch.path().join("run"));
    fs::write(&file, rules).unwrap();
    // Longer and more often than a quick run: on a busy machine a trial may show nothing.
    let mut command = niclab(&["run", "occupancy", "--repeats", "3", "--set", "duration_ms=50"]);
    command.args(["--set", "frame=64"]).args(more).arg("--rules").arg(&file).arg("-o").arg(&path);
    let ended = run(command);
    let samples = samples(&path);
    if ended.code == Some(0) {
        assert_eq!(fs::read_to_string(path.join("rules.flow")).unwrap(), rules);
        // As many rules and queues, and other ones.
        fs::write(&file, rules.replacen("actions ", "actions count / ", 1)).unwrap();
        let resumed =
            call(&["run".as_ref(), "--resume".as_ref(), path.as_os_str(), "--trust".as_ref()]);
        resumed.with(3, &["my.flow: the rules are not those of the run"]);
    }
    (ended, samples)
}

#[test]
fn a_run_installs_the_rules_of_a_file_and_its_packets_meet_them() {
    // Generated traffic comes from odd and from even addresses of 10.0.0.0/8.
    let rules = "flow create 0 ingress pattern ipv4 src spec 0.0.0.1 src mask 0.0.0.1 / udp / end \
                 actions drop / end\n\
                 flow create 0 ingress pattern ipv4 / tcp / end actions queue index 2 / end\n";
    let (ended, samples) = measured(rules, &["--device", "soft"]);
    ended.with(0, &["my.flow: 2 rules, 3 queues; 0.2 s of the traffic match 1"]);
    let prose = ended.prose();
    assert!(
        prose.contains("my.flow: the traffic matched 1 of its 2 rules within"),
        "{}",
        ended.out
    );
    // A machine that was busy all the time leaves nothing to say of the throughput.
    let is_said = [" Rules drop ", " processes "].iter().all(|part| prose.contains(part));
    assert!(is_said || prose.contains(" disturbed: the machine stalled in "), "{}", ended.out);
    let is = |trial: &'static str| samples.iter().filter(move |sample| sample["trial"] == trial);
    let setups: Vec<_> = is("setup").collect();
    assert!(!setups.is_empty());
    for setup in setups {
        let installed = setup["metrics"]["rules_installed"]["value"].as_f64();
        assert_eq!(installed, Some(2.0), "{setup}");
    }
    let value = |sample: &Value, metric: &str| sample["metrics"][metric]["value"].as_f64();
    let mut met = 0;
    for sample in is("saturate").filter(|sample| sample["outcome"] == "measured") {
        let device = &sample["counters"]["device"];
        assert_eq!(device["queues"].as_array().map(Vec::len), Some(3), "{sample}");
        let received = value(sample, "received_frames");
        met += u32::from(device["rule_drops"].as_u64() > Some(0) && received > Some(0.0));
        assert!(value(sample, "dropped_ratio") > Some(0.2), "{sample}");
        assert!(value(sample, "loss_ratio") < Some(0.1), "a rule's drop is no loss: {sample}");
    }
    assert!(met > 0, "no trial met the rules: {samples:?}");
}

#[test]
fn queues_that_rules_spread_over_are_the_cards() {
    let rules = "flow create 0 ingress pattern ipv4 / udp / end actions rss queues 2 7 end types \
                 ipv4-udp end / end\n";
    let (ended, samples) = measured(rules, &["--device", "soft", "--set", "flows=100"]);
    ended.with(0, &["my.flow: 1 rule, 8 queues; 0.2 s of the traffic match 1"]);
    let setup = samples.iter().find(|sample| sample["trial"] == "setup").unwrap();
    assert_eq!(setup["outcome"], "measured", "{setup}");
}

#[test]
fn a_file_that_cannot_be_used_and_axes_that_it_brings_are_refused() {
    let (ended, samples) = measured("flow destroy 0 rule 1\n", &["--device", "soft"]);
    ended.with(3, &["my.flow: line 1, column 21: no rule 1"]);
    assert!(samples.is_empty());
    let none = call(&["run", "occupancy", "--device", "soft", "--rules", "no.flow"]);
    none.with(3, &["no.flow: No such file", "give a file that can be read"]);
    let (ended, _) = measured(RULES, &["--device", "soft", "--set", "rules=5"]);
    ended.with(2, &["--set rules: the rules of --rules stand where the file says"]);
}

#[test]
fn a_device_without_rules_says_so_as_a_result() {
    let name = "a_device_without_rules_says_so_as_a_result";
    if let Err(error) = niclab_device::open("linux:veth") {
        println!("SKIP {name}: {error}");
        return;
    }
    let (ended, _) = measured(RULES, &["--device", "linux:veth"]);
    ended.with(6, &["nothing was measured", "linux:veth: not supported: ", "rules"]);
}
