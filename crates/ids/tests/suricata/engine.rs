//! The engine reports what Suricata reports on the rules that it supports.

use std::collections::{BTreeMap, BTreeSet};

use niclab_ids::Variables;
use niclab_ids::engine::{self, Matcher, RuleEngine, Signature};

use super::random::{self, Random};
use super::{CONFIG, Suricata, traffic};

/// How often each rule (by `sid`) reported on each packet (from 1).
type Reports = BTreeMap<(u64, u64), usize>;

/// The alerts of the engine, and the packets that it did not inspect.
fn ours(
    signatures: Vec<Signature>,
    matcher: Matcher,
    frames: &[(u64, &[u8])],
) -> (Reports, Vec<u64>) {
    let engine = RuleEngine::with_matcher(signatures, matcher);
    let (mut scratch, mut reports, mut others) = (engine.scratch(), Reports::new(), Vec::new());
    for (number, (_, frame)) in (1..).zip(frames) {
        let inspected = engine.inspect(frame, &mut scratch, |alert| {
            *reports.entry((number, alert.sid.into())).or_default() += 1;
        });
        if inspected.is_err() {
            others.push(number);
        }
    }
    (reports, others)
}

fn theirs(suricata: &Suricata, name: &str, rules: &str, frames: &[(u64, &[u8])]) -> Reports {
    let mut reports = Reports::new();
    for alert in suricata.alerts(name, rules, frames) {
        // Packets that Suricata made, of fragments or in tunnels, have no number.
        let Some(number) = alert["pcap_cnt"].as_u64() else { continue };
        let sid = alert["alert"]["signature_id"].as_u64().unwrap();
        *reports.entry((number, sid)).or_default() += 1;
    }
    reports
}

/// Rules, as the engine reads them.
#[derive(Default)]
struct ReadRules {
    signatures: Vec<Signature>,
    supported: BTreeMap<u64, String>,
    /// Rules with a wrong value.
    wrong: Vec<String>,
}

fn read(rules: impl Iterator<Item = String>) -> ReadRules {
    let variables = Variables::from_config(CONFIG).unwrap();
    let mut all = ReadRules::default();
    for text in rules {
        match engine::read(&text, &variables) {
            Err(_) => all.wrong.push(text),
            Ok(read) => {
                for (rule, signature) in read {
                    if let Ok(signature) = signature {
                        all.signatures.push(signature);
                        all.supported.insert(rule.sid.into(), rule.text);
                    }
                }
            }
        }
    }
    all
}

/// Compares the alerts on the rules that the engine supports, and returns their number.
fn compare(suricata: &Suricata, name: &str, rules: ReadRules, frames: &[Vec<u8>]) -> usize {
    let at = |index: usize| 1_700_000_000_000_000_000 + index as u64 * 1_000_000;
    let frames: Vec<(u64, &[u8])> =
        frames.iter().enumerate().map(|(index, frame)| (at(index), &frame[..])).collect();
    let texts = &rules.supported;
    let lines: String = texts.values().map(|text| text.clone() + "\n").collect();
    let (ours, others) = ours(rules.signatures, Matcher::AhoCorasick, &frames);
    let mut theirs = theirs(suricata, name, &lines, &frames);
    theirs.retain(|(number, _), _| !others.contains(number));
    let differs = |a: &Reports, b: &Reports| -> Vec<(u64, u64)> {
        a.iter().filter(|(key, times)| b.get(key) != Some(times)).map(|(key, _)| *key).collect()
    };
    let (missing, added) = (differs(&theirs, &ours), differs(&ours, &theirs));
    for (what, keys) in [("missing", &missing), ("added", &added)] {
        for (number, sid) in keys.iter().take(5) {
            let frame = frames[*number as usize - 1].1;
            println!("{what}: packet {number}: {}\n{}", texts[sid], frame[14..].escape_ascii());
        }
    }
    let [missing, added] = [missing.len(), added.len()];
    assert!(missing + added == 0, "{name}: {missing} alerts are missing, {added} are added");
    let alerting: BTreeSet<u64> = ours.keys().map(|(_, sid)| *sid).collect();
    let (alerts, rules) = (ours.values().sum::<usize>(), texts.len());
    println!("{name}: {alerts} alerts of {} among {rules} rules", alerting.len());
    alerts
}

const RULES: &str = r#"
alert tcp-pkt any any -> any 80 (msg:"a packet"; content:"evil.php"; sid:1;)
alert tcp-pkt any any -> any [80,8080] (content:"GET "; startswith; content:"id="; distance:0; \
content:"1"; within:1; sid:2;)
alert tcp-pkt any [80,8080] -> any any (content:"Content-Length|3a 20|"; \
byte_test:1,=,6,0,relative,string,dec; content:"SECRET"; endswith; sid:3;)
alert tcp any any -> any 25 (flags:PA; dsize:>10; content:"EVIL"; nocase; sid:4;)
alert tcp any any -> $HOME_NET any (flags:SA; sid:5;)
alert tcp any any -> any 445 (dsize:12; byte_jump:4,0; isdataat:!1,relative; content:"SMB"; sid:6;)
alert udp any any -> any 53 (content:"|03|bad"; pcre:"/example\x00/R"; sid:7;)
alert udp any any -> any 161 (content:"EVIL"; offset:0; depth:4; isdataat:!100; sid:8;)
alert udp 203.0.113.66 any -> $HOME_NET any (dsize:<100; sid:9;)
alert icmp any any -> any any (content:"abcd"; startswith; sid:10;)
alert icmp any any -> any any (dsize:28; sid:11;)
alert ip any any -> any any (dsize:>100; sid:12;)
alert udp 2001:db8::/64 any <> any any (content:"evil"; nocase; content:!"old"; sid:13;)
pass tcp-pkt any any -> any 9999 (content:"evil"; sid:14;)
alert tcp-pkt any any -> any 9999 (content:"GET"; sid:15;)
drop tcp-pkt any any -> any 21 (content:"USER"; noalert; sid:16;)
alert tcp-pkt any any -> any 21 (content:"root"; sid:17;)
"#;

#[test]
fn the_engine_reports_what_suricata_does() {
    let test = "the_engine_reports_what_suricata_does";
    let Some(suricata) = Suricata::find(test) else { return };
    let rules = read(std::iter::once(RULES.to_owned()));
    assert_eq!(rules.supported.len(), 17);
    let alerts = compare(&suricata, "traffic", rules, &traffic::all(7));
    assert!(alerts > 100, "{alerts}");
}

#[test]
fn the_engine_agrees_with_suricata_on_random_rules() {
    let test = "the_engine_agrees_with_suricata_on_random_rules";
    let Some(suricata) = Suricata::find(test) else { return };
    // More seeds for a longer search: NICLAB_SEEDS_IDS=1000.
    let seeds = std::env::var("NICLAB_SEEDS_IDS").ok().and_then(|count| count.parse().ok());
    for seed in 0..seeds.unwrap_or(12) {
        let (rules, frames) = random_case(seed);
        let refused = suricata.refused(&format!("wrong-{seed}"), &rules.wrong.join("\n"));
        assert_eq!(refused, rules.wrong.len(), "Suricata refuses what the engine refuses");
        let alerts = compare(&suricata, &format!("seed-{seed}"), rules, &frames);
        assert!(alerts > 100, "{alerts}");
    }
}

/// Rules and frames from a seed.
fn random_case(seed: u64) -> (ReadRules, Vec<Vec<u8>>) {
    let mut random = Random::new(seed);
    let contents = random::contents(&mut random);
    let rules = read((1..=250).map(|sid| random::rule(&mut random, sid, &contents)));
    (rules, (0..500).map(|_| random::frame(&mut random, &contents)).collect())
}

/// Options behind a content, some of which Suricata refuses.
const VALUES: &str = r#"
priority:1; priority:0; priority:-1; priority:+1; priority:1.5; priority:0x1; priority:3a
priority:4294967296; priority:99999999999999999999; priority:01; priority:- 1
priority:4294967295; priority:2147483648; priority:"1"
isdataat:5; isdataat:+5; isdataat:-0; isdataat:-1; isdataat:05; isdataat:0x5; isdataat:5x
isdataat:65535; isdataat:65536; isdataat:! 5; isdataat:!!5; isdataat:!+5; isdataat:"5"
isdataat:5,relative; isdataat:5, relative; isdataat:5 ,relative; isdataat:5,Relative
isdataat:5,rawbytes; isdataat:5, rawbytes; isdataat:!5,rawbytes; isdataat:5,rawbytes,relative
isdataat:5,relative,rawbytes; isdataat:5 , relative , rawbytes; isdataat:5,relative,relative
isdataat:5,; isdataat:5,relative,; isdataat:5,,relative; isdataat:5 relative; isdataat:5,far
fast_pattern:0,1; fast_pattern: 0 , 1; fast_pattern:+0,1; fast_pattern:0,+1; fast_pattern:only
noalert; noalert:1; rawbytes; rawbytes:x; nocase:; nocase:x; depth:9; depth:+9; depth:-9; depth:0x9
byte_test:1,=,1,0,; byte_test:1,=,+1,+0; byte_jump:1,0,; byte_jump:+1,+0; byte_jump:1,0x1
byte_jump:1,0,multiplier +2; byte_jump:1,0,post_offset 0x2; dsize:+9; dsize:>+9; dsize:9<>+20
"#;

/// Options behind a content with `fast_pattern:only`.
const BEHIND_FAST: &str = r#"
content:"c"; distance:0 | content:"c"; within:5 | content:!"c"; within:5 | content:"c"
pcre:"/^c/R" | byte_test:1,=,99,0,relative | byte_jump:1,0,relative | isdataat:1,relative
isdataat:!1,relative | endswith | nocase | depth:10 | offset:1 | distance:0 | within:10 | startswith
byte_test:1,=,99,0; content:"c"; distance:0 | pcre:"/c/"; content:"c"; distance:0
content:"c"; content:"d"; distance:0 | fast_pattern | fast_pattern:only
"#;

#[test]
fn the_engine_refuses_the_values_that_suricata_refuses() {
    let test = "the_engine_refuses_the_values_that_suricata_refuses";
    let Some(suricata) = Suricata::find(test) else { return };
    let single = VALUES.split([';', '\n']).map(|option| format!("content:\"abcdefgh\"; {option}"));
    let behind = BEHIND_FAST.split(['|', '\n']);
    let behind = behind.map(|option| format!("content:\"ab\"; fast_pattern:only; {option}"));
    let options = single.chain(behind).map(|options| options.trim().to_owned());
    let rules: Vec<String> = options
        .filter(|options| !options.ends_with("; ") && !options.ends_with(';'))
        .zip(1..)
        .map(|(options, sid)| format!("alert udp any any -> any any ({options}; sid:{sid};)"))
        .collect();
    assert!(rules.len() > 80, "{}", rules.len());
    let (said, _) = suricata.run(&suricata.place("values", &rules.join("\n")), &["-T"]);
    let refused = |rule: &&String| said.contains(&format!("error parsing signature \"{rule}\""));
    let theirs: Vec<&String> = rules.iter().filter(refused).collect();
    let variables = Variables::from_config(CONFIG).unwrap();
    let ours: Vec<&String> =
        rules.iter().filter(|rule| engine::read(rule, &variables).is_err()).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn all_matchers_report_the_same() {
    if Matcher::ALL.len() == 1 {
        println!(
            "SKIP all_matchers_report_the_same: built without Vectorscan (--features vectorscan, \
             which needs libhs: libvectorscan-dev or libhyperscan-dev of Debian)"
        );
        return;
    }
    for seed in 0..30 {
        let (rules, frames) = random_case(seed);
        let frames: Vec<(u64, &[u8])> = frames.iter().map(|frame| (0, &frame[..])).collect();
        let report = |matcher: &Matcher| ours(rules.signatures.clone(), *matcher, &frames);
        let reports: Vec<_> = Matcher::ALL.iter().map(report).collect();
        assert!(reports.iter().all(|other| *other == reports[0]), "seed {seed}");
    }
}
