//! `--json`: one document, whose fields `docs/json.md` names; exit codes as without it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::command::{Ended, call, copied, samples, scratch, shared};

fn docs(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file)
}

/// The one document that a command prints.
#[track_caller]
fn document(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

fn with_paths(words: &[&str], paths: &[&Path]) -> Ended {
    let words = words.iter().map(OsStr::new);
    call(&words.chain(paths.iter().map(|path| path.as_os_str())).collect::<Vec<_>>())
}

/// Names of fields; of what the user names (axes) and of what other pages have only its own.
fn fields(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| fields(one, found)),
        Value::Object(all) => {
            for (name, value) in all {
                found.insert(name.clone());
                let is_open = ["point", "answers"].contains(&name.as_str())
                    || name == "points" && value.get(0).is_some_and(|of| of.get("ratio").is_none());
                if !is_open {
                    fields(value, found);
                }
            }
        }
        _ => {}
    }
}

/// All fields of a document stand in its section of `docs/json.md`.
#[track_caller]
fn is_documented(command: &str, document: &Value) {
    let page = fs::read_to_string(docs("json.md")).unwrap();
    let head = format!("\n## {command}\n");
    let section = page.split(&head).nth(1).unwrap().split("\n## ").next().unwrap();
    let spans = section.split('`').skip(1).step_by(2);
    let names: BTreeSet<&str> = spans.flat_map(|span| span.split(['.', '[', ']', '…'])).collect();
    let mut found = BTreeSet::new();
    fields(document, &mut found);
    let missing: Vec<_> = found.iter().filter(|name| !names.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "docs/json.md, {command}: {missing:?} are missing");
}

#[test]
fn json_of_list_and_doctor_is_documented() {
    for command in ["list", "doctor"] {
        let ended = call(&[command, "--json"]);
        ended.with(0, &[]);
        is_documented(command, &document(&ended));
    }
}

#[test]
fn json_of_rules_on_cores_is_documented() {
    let (place, rules) = (scratch(), "alert tcp any any -> any 80 (sid:1;)\n");
    std::fs::write(place.path().join("a.rules"), rules).unwrap();
    let path = |name: &str| place.path().join(name).display().to_string();
    let (rules, parts) = (path("a.rules"), path("parts"));
    let ended =
        call(&["ids", "partition", "--rules", &rules, "--cores", "13", "-o", &parts, "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    is_documented("ids partition", &document(&ended));
}

#[test]
fn a_comparison_has_all_points_their_medians_and_the_regressions() {
    let (base, _) = shared();
    let (_worse, worse) = copied();
    let changed: String = samples(&worse)
        .into_iter()
        .flat_map(|sample| (0..6_u32).map(move |repeat| (sample.clone(), repeat)))
        .map(|(mut sample, repeat)| {
            (sample["repeat"], sample["marks"]) = (repeat.into(), Value::Array(Vec::new()));
            if let Some(value) = sample["metrics"]["throughput_pps"]["value"].as_f64() {
                sample["metrics"]["throughput_pps"]["value"] =
                    (value * 0.5 * (1.0 + f64::from(repeat) * 1e-3)).into();
            }
            format!("{sample}\n")
        })
        .collect();
    fs::write(worse.join("samples.jsonl"), changed).unwrap();
    let ended = with_paths(&["compare", "--json"], &[base, &worse]);
    let compared = document(&ended);
    is_documented("compare", &compared);
    let is_regression = !compared["regressions"].as_array().unwrap().is_empty();
    assert_eq!(ended.code, Some(if is_regression { 8 } else { 0 }), "{ended:?}");
    let pair = &compared["pairs"][0];
    assert_eq!(pair["baseline"]["device"], "soft");
    assert_eq!(pair["compared"]["name"], worse.display().to_string());
    let metrics = pair["metrics"].as_array().unwrap();
    let is_throughput = |of: &&Value| of["trial"] == "saturate" && of["metric"] == "throughput_pps";
    let throughput = metrics.iter().find(is_throughput).unwrap();
    assert_eq!(throughput["better"], "higher");
    let points: Vec<&Value> =
        metrics.iter().flat_map(|of| of["points"].as_array().unwrap()).collect();
    let counts = pair["counts"].as_object().unwrap();
    let counted: u64 = counts.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(counted as usize, points.len());
    for point in throughput["points"].as_array().unwrap() {
        let median = |side: &str| point[side]["median"].as_f64().unwrap();
        assert_eq!(point["baseline"]["unit"], "pps");
        let ratio = median("compared") / median("baseline");
        assert!((ratio - point["ratio"].as_f64().unwrap()).abs() < 0.01, "{point}");
        assert!(point["baseline"]["words"].as_str().unwrap().ends_with("pps"), "{point}");
        assert_eq!(point["verdict"] == "open", point["reason"].is_string(), "{point}");
    }
}

#[test]
fn a_comparison_that_fails_prints_no_document() {
    let (base, _) = shared();
    let ended = with_paths(&["compare", "--json"], &[base, Path::new("/nowhere")]);
    ended.with(4, &["/nowhere does not exist"]);
    assert_eq!(ended.out, "");
}

#[test]
fn advice_has_every_layout_best_first() {
    for (card, offload) in [("connectx-5", Value::Bool(true)), ("xl710", Value::Null)] {
        let device = format!("model:{card}");
        let words = ["advise", "--json", "--device", &device, "--workload"];
        let ended = with_paths(&words, &[&docs("workloads/nat.toml")]);
        ended.with(0, &[]);
        let advice = document(&ended);
        is_documented("advise", &advice);
        assert_eq!((&advice["workload"], &advice["offload"]), (&"NAT".into(), &offload));
        let candidates = advice["candidates"].as_array().unwrap();
        assert_eq!(candidates.len(), 10);
        assert_eq!(candidates[0]["fits"], offload);
        for candidate in candidates {
            assert_ne!(candidate["reason"].is_null(), candidate["forecast"].is_null());
            let limits = candidate["forecast"]["limits"].as_array();
            let times = limits.into_iter().flatten().map(|of| of["times_workload"].as_f64());
            assert!(times.collect::<Vec<_>>().is_sorted(), "{candidate}");
        }
    }
}

#[test]
fn a_refused_program_stands_beside_those_that_are_none() {
    let scratch = scratch();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    let good = programs.join("l2-switch/l2-switch.spec");
    let bad = scratch.path().join("bad.spec");
    fs::write(&bad, "struct a {\n\tbit<x> b\n}\n").unwrap();
    let plain = with_paths(&["program", "check"], &[&bad, &good]);
    let ended = with_paths(&["program", "check", "--json"], &[&bad, &good]);
    assert_eq!((ended.code, &ended.err), (Some(3), &plain.err));
    let checked = document(&ended);
    is_documented("program check", &checked);
    let [bad, good] = [0, 1].map(|at| &checked["programs"][at]);
    assert!(bad["error"].as_str().unwrap().contains("line 2, column "), "{bad}");
    assert!(bad["program"].is_null() && good["error"].is_null(), "{checked}");
    let instructions = good["program"]["cost"]["instructions"].as_u64().unwrap();
    let line = plain.out.lines().find(|line| line.trim().starts_with("instructions ")).unwrap();
    assert_eq!(line.split_whitespace().last(), Some(instructions.to_string().as_str()));
}

#[test]
fn files_of_rules_have_every_rule_that_there_is_something_to_say_of() {
    let scratch = scratch();
    let [amiss, wrong] = ["amiss.flow", "wrong.flow"].map(|name| scratch.path().join(name));
    let shadowed = |port: u16| {
        let pattern = format!("ipv4 / udp dst is {port} / end");
        format!("flow create 0 priority 1 ingress pattern {pattern} actions drop / end\n")
    };
    let text = format!(
        "flow create 0 ingress pattern ipv4 / udp / end actions jump group 7 / end\n{}\
         flow create 0 group 5 ingress pattern ipv6 src spec ::1 / end actions drop / end\n\
         flow create 0 ingress pattern ipv4 src is 1.2.3.4 / end actions drop / end\n\
         flow list 0\n",
        (1..=7).map(shadowed).collect::<String>()
    );
    fs::write(&amiss, text).unwrap();
    fs::write(&wrong, "flow destroy 0 rule 0\n").unwrap();
    let plain = with_paths(&["rules", "check", "--strict"], &[&amiss, &wrong]);
    let ended = with_paths(&["rules", "check", "--strict", "--json"], &[&amiss, &wrong]);
    assert_eq!((ended.code, &ended.err), (Some(3), &plain.err));
    let checked = document(&ended);
    is_documented("rules check", &checked);
    let [amiss, wrong] = [0, 1].map(|at| &checked["files"][at]);
    assert!(wrong["error"].as_str().unwrap().contains("line 1, column 21"), "{wrong}");
    assert_eq!(amiss["error"], Value::Null);
    assert_eq!((&amiss["rules"], &amiss["other_commands"]), (&10.into(), &1.into()));
    assert_eq!(amiss["clean"], false);
    let port = &amiss["ports"][0];
    let lines = |kind: &str| port[kind].as_array().unwrap().len();
    assert_eq!(lines("shadowed"), 7, "all, not the first five: {port}");
    for kind in ["overlapped", "unreachable_groups", "dangling_jumps", "missing_masks"] {
        assert_eq!(lines(kind), 1, "{kind}: {port}");
    }
    assert_eq!(port["answers"][0]["rules"].as_array().unwrap().len(), 10, "{port}");
}
