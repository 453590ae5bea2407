//! `niclab ids`: files of rules for each core, and nothing where something is wrong.

use std::fs;
use std::path::Path;

use crate::command::{Ended, niclab, run, scratch};

const RULES: &str = "alert tcp any any -> any 25 (sid:1;)\nalert tcp any any -> any 445 (sid:2;)\n\
                     alert http any any -> any any (sid:3;)\n";

fn partition(directory: &Path, arguments: &[&str]) -> Ended {
    let mut started = niclab(&["ids", "partition"]);
    started.args(arguments).current_dir(directory);
    run(started)
}

#[test]
fn each_core_gets_its_part_of_the_rules() {
    let place = scratch();
    fs::write(place.path().join("a.rules"), RULES).unwrap();
    let arguments = ["--rules", "a.rules", "--cores", "2", "-o", "parts", "--json"];
    let ended = partition(place.path(), &arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<&str> = RULES.lines().collect();
    let mut placed = Vec::new();
    for core in 0..2 {
        let file = place.path().join(format!("parts/core-{core}.rules"));
        let text = fs::read_to_string(file).unwrap();
        let mut rules: Vec<&str> = text.lines().collect();
        assert_eq!(rules.pop(), Some(lines[2]), "a rule on any flow is on both");
        placed.extend(rules.into_iter().map(str::to_owned));
    }
    placed.sort();
    assert_eq!(placed, lines[..2]);
    let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let written = fs::read_to_string(place.path().join("parts/partition.json")).unwrap();
    assert_eq!(document, serde_json::from_str::<serde_json::Value>(&written).unwrap());
    assert!(place.path().join("parts/report.html").is_file());
    let mut check = niclab(&["program", "check"]);
    check.arg(place.path().join("parts/card.spec"));
    assert_eq!(run(check).code, Some(0));
    let tables = fs::read_to_string(place.path().join("parts/card.json")).unwrap();
    assert!(
        serde_json::from_str::<serde_json::Value>(&tables).unwrap()["multicast"]["3"].is_array()
    );
    let arguments = ["--rules", "a.rules", "--cores", "13", "-o", "many"];
    let ended = partition(place.path(), &arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("no program for the card: not supported: 13 cores"), "{ended:?}");
    assert!(!place.path().join("many/card.spec").exists());
}

#[test]
fn the_rule_that_takes_a_core_is_named() {
    let place = scratch();
    let rules = RULES.to_owned()
        + "alert http any any -> any any (xbits:set,a,track ip_src; sid:4;)\n\
           alert tcp any any -> any 80 (contnt:\"x\"; sid:5;)\n";
    fs::write(place.path().join("a.rules"), rules).unwrap();
    let ended = partition(place.path(), &["--rules", "a.rules", "--cores", "2", "-o", "parts"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let said = ended.out.replace("\n  ", " ");
    for words in [
        "rule 4: `xbits` has state of more than one flow",
        "rule 5: `contnt` is unknown, and may have state of more than one flow",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn wrong_input_is_refused_and_nothing_is_written() {
    let place = scratch();
    let write = |name: &str, text: &str| fs::write(place.path().join(name), text).unwrap();
    write("a.rules", RULES);
    write("again.rules", "\nalert udp any any -> any 53 (sid:2;)\n");
    write("bad.rules", "alert tpc any any -> any any (sid:9;)\nalert ip any any any\n");
    write("none.rules", "# none\n");
    write("house.rules", "alert ip $HOUSE any -> any any (sid:9;)\n");
    write("bad.yaml", "vars: [1\n");
    write("cut.pcap", "\u{a}\r\r\n");
    let header =
        [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0];
    fs::write(place.path().join("empty.pcap"), header).unwrap();
    let refused: [(&[&str], i32, &str); 8] = [
        (&["--rules", "a.rules", "--trace", "empty.pcap"], 3, "trace empty.pcap: it has no frame"),
        (&["--rules", "bad.rules"], 3, "bad.rules: line 1, column 7: expected a protocol"),
        (
            &["--rules", "a.rules", "again.rules"],
            3,
            "again.rules: line 2: the rule 2 is in a.rules (line 2), too: give each rule its own \
             sid, or leave one file out",
        ),
        (&["--rules", "none.rules"], 3, "--rules: the files have no rule; give others"),
        (&["--rules", "house.rules", "--config", "bad.yaml"], 3, "bad.yaml: not YAML with `vars`"),
        (&["--rules", "missing.rules"], 3, "missing.rules"),
        (&["--rules", "a.rules", "--trace", "cut.pcap"], 3, "trace cut.pcap: "),
        (&["--rules", "a.rules", "--cores", "65"], 2, "--cores 65: give 1 to 64"),
    ];
    for (arguments, code, message) in refused {
        let cores: &[&str] = if arguments.contains(&"--cores") { &[] } else { &["--cores", "2"] };
        let ended = partition(place.path(), &[arguments, cores, &["-o", "parts"]].concat());
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.err.contains(message), "{message}: {ended:?}");
        assert!(!place.path().join("parts").exists(), "{arguments:?}");
    }
    // Both rules of the file are named.
    let ended = partition(place.path(), &["--rules", "bad.rules", "--cores", "2", "-o", "parts"]);
    assert!(ended.err.contains("bad.rules: line 2, column "), "{ended:?}");
    // A rule that is there twice hides no error of another file.
    let files = ["--rules", "a.rules", "missing.rules", "bad.rules", "again.rules"];
    let ended = partition(place.path(), &[&files[..], &["--cores", "2", "-o", "parts"]].concat());
    for message in
        ["missing.rules", "bad.rules: line 1", "bad.rules: line 2", "again.rules: line 2"]
    {
        assert!(ended.err.contains(message), "{message}: {ended:?}");
    }
    fs::create_dir(place.path().join("parts")).unwrap();
    write("parts/mine", "");
    let ended = partition(place.path(), &["--rules", "a.rules", "--cores", "2", "-o", "parts"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(place.path().join("parts/mine").exists());
}

fn check(directory: &Path, arguments: &[&str]) -> Ended {
    let mut started = niclab(&["ids", "check"]);
    started.args(arguments).current_dir(directory);
    run(started)
}

#[test]
fn check_names_what_the_engine_lacks() {
    let place = scratch();
    let rules = "alert udp any any -> any 53 (content:\"a\"; sid:4;)\n\
                 alert tcp any any -> any 53 (content:\"a\"; flow:established; sid:5;)\n\
                 alert dns any any -> any any (dns.query; content:\"a\"; flow:to_server; sid:6;)\n";
    fs::write(place.path().join("a.rules"), RULES).unwrap();
    fs::write(place.path().join("b.rules"), rules).unwrap();
    let ended = check(place.path(), &["--rules", "a.rules", "b.rules", "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&document["rules"], &document["supported"]), (&6.into(), &1.into()));
    let lacks = document["lacks"].as_array().unwrap();
    let of = |name: &str| lacks.iter().find(|lack| lack["name"] == name).unwrap();
    assert_eq!(of("flow")["rules"], 2);
    assert_eq!((&of("flow")["path"], &of("flow")["line"]), (&"b.rules".into(), &2.into()));
    assert_eq!(
        (&of("a header alone")["rules"], &of("a header alone")["sid"]),
        (&2.into(), &1.into())
    );
    assert_eq!(of("protocol http")["rules"], 1);
    let ended = check(place.path(), &["--rules", "a.rules", "b.rules"]);
    assert!(ended.out.starts_with("6 rules; niclab's own engine supports 1 (17 %)"), "{ended:?}");
    assert!(ended.out.contains("b.rules:2"), "{ended:?}");
}

#[test]
fn check_says_all_only_of_all_rules() {
    let place = scratch();
    let rule = |sid| format!("alert udp any any -> any 53 (content:\"a\"; sid:{sid};)\n");
    let rules: String = (1..=1999).map(rule).collect();
    let other = "alert udp any any -> any 53 (content:\"a\"; flow:to_server; sid:2000;)\n";
    fs::write(place.path().join("all.rules"), &rules).unwrap();
    fs::write(place.path().join("most.rules"), rules + other).unwrap();
    let lead = |file: &str| check(place.path(), &["--rules", file]).out;
    let most = "2,000 rules; niclab's own engine supports 1,999 (more than 99 %)";
    assert!(lead("most.rules").starts_with(most), "{}", lead("most.rules"));
    let all = "1,999 rules; niclab's own engine supports 1,999 (100 %)";
    assert!(lead("all.rules").starts_with(all), "{}", lead("all.rules"));
}

#[test]
fn check_refuses_wrong_values() {
    let place = scratch();
    let rules = "# one\nalert udp any any -> any 53 (msg:\"a\"; dsize:<0; sid:4;)\n";
    fs::write(place.path().join("a.rules"), rules).unwrap();
    let ended = check(place.path(), &["--rules", "a.rules"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""), "{ended:?}");
    let message = "a.rules: line 2, column 39: expected a size such as 128";
    assert!(ended.err.contains(message), "{ended:?}");
}
