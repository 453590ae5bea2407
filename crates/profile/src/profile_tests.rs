//! Profiles of cards: the values that are read, and the error of each slip.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::{names, read, text};

/// A whole profile, with each way to say something.
const GOOD: &str = r#"title = "A card"
source = "a test"
fitted_to = [
    "its series",
]

pcie = "unknown"
queues = "unknown"

[echo]
client_ns = { value = 3700, basis = "fitted", source = "a table" }
server_ns = { value = 3200, basis = "fitted", source = "a table" }
peer_client_ns = "unknown"
peer_server_ns = "unknown"
hardware_ns = { value = 15850, basis = "fitted", source = "a table" }
byte_ps = { value = 640, basis = "at least", source = "a rate" }

[port]
rate_gbps = { value = 100, basis = "stated", source = "its box" }
frame_rate_max = "unknown"
fifo_frames = { value = 256, basis = "fitted", source = "a figure" }

[root]
rules_max = { value = 65_536, basis = "stated", source = "its manual" }
frame_ns = { value = 12.5, basis = "fitted", source = "a figure" }
rule_ps = { value = 4e0, basis = "at most", source = "a figure" }
near_rules = { value = 56000, basis = "fitted", source = "a figure" }
far_ns = { value = 0, basis = "fitted", source = "a figure" }

[groups]
rules_max = { value = 4000000, basis = "stated", source = "a figure" }
table_ns = { value = 46.0, basis = "inherited", source = "another card" }
near_rules = { value = 1400, basis = "inherited", source = "another card" }
chain_ns = "unknown"

[host]
base_ns = { value = 17000, basis = "fitted", source = "a figure" }
wait_ns = { value = 28000, basis = "fitted", source = "a figure" }
frame_ns = { value = 122.1, basis = "fitted", source = "a figure" }
ring_frames = { value = 512, basis = "fitted", source = "a figure" }
burst_frames = { value = 32, basis = "stated", source = "usual" }

[driver]
ip_ns = "unknown"
ipv6_ns = "unknown"
vlan_ns = "unknown"
tunnel_ns = "unknown"
action_ns = "unknown"
modify_ns = "unknown"

[root_rules]
create_ns = { value = 3000, basis = "fitted", source = "a figure" }
first_ns = { value = 80000, basis = "fitted", source = "a figure" }
warm_rules = { value = 200, basis = "fitted", source = "a figure" }
ipv4_ns = "unknown"
far_ns = "unknown"
beside_ns = "unknown"
destroy_ns = "unknown"

[group_rules]
create_ns = { value = 1700, basis = "fitted", source = "a figure" }
first_ns = { value = 40000, basis = "fitted", source = "a figure" }
warm_rules = { value = 400, basis = "fitted", source = "a figure" }
near_rules = "unknown"
miss_ns = "unknown"
beside_ns = "unknown"
destroy_ns = "unknown"
update_ns = "unknown"

[injected]
gap_ns = 500
loss_ratio = { value = 0.25, basis = "injected", source = "a test" }
"#;

/// What is wrong with a text; the error says the file, line and key in this form.
#[track_caller]
fn error(text: &str) -> ProfileError {
    let error = Profile::parse("card.toml", text).expect_err("a profile with a slip");
    let ProfileError { line, key, reason, .. } = &error;
    assert_eq!(error.to_string(), format!("card.toml:{line}: {key}: {reason}"));
    error
}

/// Puts `to` in the place of `from`, and looks at the line, key and words of what is said.
#[track_caller]
fn refused_at(line: usize, from: &str, to: &str, key: &str, phrases: &[&str]) {
    assert!(GOOD.contains(from), "{from}");
    let error = error(&GOOD.replacen(from, to, 1));
    assert_eq!((error.line, error.key.as_str()), (line, key), "{error}");
    assert!(phrases.iter().all(|phrase| error.reason.contains(phrase)), "{error}");
}

/// As [`refused_at`]; the slip stands in the line that is replaced.
#[track_caller]
fn refused(from: &str, to: &str, key: &str, phrases: &[&str]) {
    refused_at(line_of(from), from, to, key, phrases);
}

fn line_of(part: &str) -> usize {
    let at = GOOD.find(part).expect("a part of it");
    1 + GOOD[..at].matches('\n').count()
}

const RATE: &str = r#"rate_gbps = { value = 100, basis = "stated", source = "its box" }"#;

#[test]
fn every_way_to_say_something_is_read() {
    let card = Profile::parse("card.toml", GOOD).unwrap();
    assert_eq!((card.title.as_str(), card.source.as_str()), ("A card", "a test"));
    assert_eq!(card.fitted_to, ["its series"]);
    let known = |value, basis, source: &str| Entry::Known { value, basis, source: source.into() };
    let entries = [
        ("port", "rate_gbps", known(100.0, Basis::Stated, "its box")),
        ("port", "frame_rate_max", Entry::Unknown),
        ("root", "rules_max", known(65_536.0, Basis::Stated, "its manual")),
        ("root", "frame_ns", known(12.5, Basis::Fitted, "a figure")),
        ("root", "rule_ps", known(4.0, Basis::AtMost, "a figure")),
        ("root", "far_ns", known(0.0, Basis::Fitted, "a figure")),
        ("groups", "table_ns", known(46.0, Basis::Inherited, "another card")),
        ("pcie", "frame_ns", Entry::Unknown),
        ("injected", "gap_ns", known(500.0, Basis::Injected, "injected")),
        ("injected", "loss_ratio", known(0.25, Basis::Injected, "a test")),
        ("injected", "stall_ns", Entry::Unknown),
    ];
    for (section, key, entry) in entries {
        assert_eq!(card.entry(section, key), &entry, "{section}.{key}");
    }
    assert_eq!(card.part("pcie"), &Part::Unknown);
    assert_eq!(card.number("driver", "ip_ns"), None);
    assert!(!card.lacks("groups"));
    let lacks = GOOD.replace("pcie =", "groups = \"none\"\ngroup_rules = \"none\"\npcie =");
    let lacks = without(&without(&lacks, "groups"), "group_rules");
    let card = Profile::parse("card.toml", &lacks).unwrap();
    assert!(card.lacks("groups") && card.lacks("group_rules") && !card.lacks("pcie"));
}

/// The text without a section.
fn without(text: &str, section: &str) -> String {
    let start = text.find(&format!("[{section}]")).expect("a section of it");
    let end = text[start..].find("\n\n").map_or(text.len(), |end| start + end + 2);
    format!("{}{}", &text[..start], &text[end..])
}

#[test]
fn a_profile_that_is_written_reads_back_the_same() {
    let good = Profile::parse("card.toml", GOOD).unwrap();
    let built_in = names().map(|name| read(name).unwrap());
    for profile in built_in.chain([good]) {
        let text = profile.text();
        let again = Profile::parse("card.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(again, profile, "{text}");
        assert_eq!(again.text(), text);
    }
}

/// The good card with a bus.
fn with_bus(generation: &str, lanes: &str) -> String {
    let number =
        |value: &str| format!("{{ value = {value}, basis = \"stated\", source = \"a box\" }}");
    let bus = format!(
        "[pcie]\ngeneration = {}\nlanes = {}\nframe_ns = \"unknown\"\nbyte_ps = \"unknown\"\n",
        number(generation),
        number(lanes)
    );
    format!("{}\n{bus}", GOOD.replace("pcie = \"unknown\"\n", ""))
}

#[test]
fn a_bus_is_read_with_its_source_and_is_one_that_there_is() {
    let card = Profile::parse("card.toml", &with_bus("3", "16")).unwrap();
    assert_eq!(card.bus(), PciExpress::new(3, 16));
    assert_eq!(card.unknown().iter().filter(|of| of.starts_with("pcie")).count(), 2);
    assert_eq!(Profile::parse("card.toml", GOOD).unwrap().bus(), None);
    for (generation, lanes, key, message) in [
        ("3", "12", "pcie.lanes", "use 1, 2, 4, 8, 16 or 32"),
        ("6", "16", "pcie.generation", "1 to 5"),
        ("2.5", "16", "pcie.generation", "whole"),
    ] {
        let error = error(&with_bus(generation, lanes));
        assert_eq!(error.key, key, "{error}");
        assert!(error.reason.contains(message), "{error}");
    }
    let half = with_bus("3", "16").replace("generation = {", "age = {");
    assert_eq!(error(&half).key, "pcie.age");
}

#[test]
fn a_text_of_its_own_needs_something_in_it() {
    let missing = &["missing", "give a text"];
    refused_at(1, "title = \"A card\"\n", "", "title", missing);
    refused_at(1, "source = \"a test\"\n", "", "source", missing);
    refused("title = \"A card\"", "title = \" \"", "title", &["give a text that says"]);
    refused("source = \"a test\"", "source = 7", "source", &["give a text that says"]);
    let list = "fitted_to = [\n    \"its series\",\n]\n";
    refused_at(1, list, "", "fitted_to", &["missing", "give a list", "or []"]);
    refused(list, "fitted_to = \"its series\"\n", "fitted_to", &["give a list of texts"]);
    refused("\"its series\"", "1", "fitted_to", &["give a list of texts"]);
    let empty = error("");
    assert_eq!((empty.line, empty.key.as_str()), (1, "title"), "{empty}");
}

#[test]
fn a_section_that_is_missing_unknown_or_no_section_is_reported() {
    for section in SECTIONS.iter().filter(|section| section.name != INJECTED) {
        let bare = format!("{} = \"unknown\"\n", section.name);
        let text = match GOOD.contains(&bare) {
            true => GOOD.replace(&bare, ""),
            false => without(GOOD, section.name),
        };
        let error = error(&text);
        assert_eq!((error.line, error.key.as_str()), (1, section.name), "{error}");
        let none = error.reason.contains("\"none\"");
        assert_eq!(none, section.may_lack, "{error}");
        assert!(error.reason.contains("give the section, \"unknown\""), "{error}");
    }
    refused("[port]", "[prot]", "prot", &["unknown; there are", "port", "group_rules"]);
    let pcie = "pcie = \"unknown\"";
    refused(pcie, "pcie = \"none\"", "pcie", &["give a table", "\"unknown\""]);
    refused(pcie, "pcie = 3", "pcie", &["give a table", "\"unknown\""]);
    refused(pcie, "pcie = \"\"", "pcie", &["give a table", "\"unknown\""]);
    let text = without(GOOD, "groups").replace(pcie, &format!("{pcie}\ngroups = \"no\""));
    let error = error(&text);
    assert_eq!((error.line, error.key.as_str()), (line_of(pcie) + 1, "groups"), "{error}");
    assert!(error.reason.contains("give a table, \"unknown\" or \"none\""), "{error}");
}

#[test]
fn a_key_that_is_missing_or_unknown_is_reported() {
    let line = line_of("[port]");
    let phrases = ["missing (line rate, Gbps L1)", "give { value, basis, source }", "\"unknown\""];
    refused_at(line, &format!("{RATE}\n"), "", "port.rate_gbps", &phrases);
    let line = line_of("[root]");
    let key = "far_ns = { value = 0, basis = \"fitted\", source = \"a figure\" }\n";
    refused_at(line, key, "", "root.far_ns", &["missing", "ns"]);
    let phrases = ["unknown; there are rate_gbps, frame_rate_max, fifo_frames"];
    refused("frame_rate_max", "frame_rate_most", "port.frame_rate_most", &phrases);
    let phrases = ["unknown; there are", "gap_ns", "noise_ratio"];
    refused("gap_ns = 500", "gap = 500", "injected.gap", &phrases);
}

#[test]
fn a_number_that_cannot_be_is_reported_with_its_range() {
    let range = ["use 0.001 to 10000 Gbps L1"];
    for number in ["-100", "0", "10_001", "nan", "-nan", "inf", "-inf", "1e300", "1e999"] {
        refused("value = 100", &format!("value = {number}"), "port.rate_gbps", &range);
    }
    let number = ["give a number of Gbps L1"];
    for other in ["\"100\"", "true", "[100]", "{}", "2026-01-01"] {
        refused("value = 100", &format!("value = {other}"), "port.rate_gbps", &number);
    }
    let range = ["1.5: use 0 to 1"];
    refused("value = 0.25", "value = 1.5", "injected.loss_ratio", &range);
    refused("gap_ns = 500", "gap_ns = -1", "injected.gap_ns", &["-1: use 0 to"]);
    refused("gap_ns = 500", "gap_ns = \"500\"", "injected.gap_ns", &["give { value"]);
}

/// What TOML allows is read as TOML means it, whichever digits it is written in.
#[test]
fn a_number_in_other_digits_is_the_same_number() {
    for number in ["64", "+64", "6_4", "64.0", "6.4e1", "0x40", "0o100", "0b100_0000"] {
        let text = GOOD.replacen("value = 100", &format!("value = {number}"), 1);
        let read = Profile::parse("card.toml", &text).map(|card| card.number("port", "rate_gbps"));
        assert_eq!(read, Ok(Some(64.0)), "{number}");
    }
}

#[test]
fn a_number_says_where_it_is_from() {
    let form = ["give { value = …, basis = \"…\", source = \"…\" } or \"unknown\""];
    let key = "port.rate_gbps";
    for entry in [
        "100",
        "\"none\"",
        "[]",
        "{ value = 100 }",
        r#"{ value = 100, basis = "stated" }"#,
        r#"{ value = 100, source = "its box" }"#,
        r#"{ basis = "stated", source = "its box" }"#,
    ] {
        refused(RATE, &format!("rate_gbps = {entry}"), key, &form);
    }
    let basis =
        ["basis `guessed`", "use one of stated, fitted, at most, at least, inherited, injected"];
    refused("\"stated\"", "\"guessed\"", key, &basis);
    refused("\"stated\"", "5", key, &["use one of stated"]);
    refused("\"its box\"", "\"\"", key, &["source: say where the number is from"]);
    refused("\"its box\"", "\"  \"", key, &["source: say where the number is from"]);
    refused("\"its box\"", "2021", key, &["source: say where the number is from"]);
    let field = format!("{key}.page");
    let fields = ["unknown; there are value, basis, source"];
    refused("value = 100", "value = 100, page = 3", &field, &fields);
}

#[test]
fn numbers_that_contradict_each_other_are_told() {
    let near = ["70000: contradicts root.rules_max = 65536", "use at most that"];
    refused("value = 56000", "value = 70000", "root.near_rules", &near);
    let first = ["2000: contradicts root_rules.create_ns = 3000", "takes no less"];
    refused("value = 80000", "value = 2000", "root_rules.first_ns", &first);
    let first = ["1000: contradicts group_rules.create_ns = 1700", "takes no less"];
    refused("value = 40000,", "value = 1000,", "group_rules.first_ns", &first);
    let burst = ["1024: contradicts host.ring_frames = 512", "use at most that"];
    refused("value = 32,", "value = 1024,", "host.burst_frames", &burst);
    for (one, other) in [("spike_ns", "spike_ratio"), ("spike_ratio", "spike_ns")] {
        let lack = format!("contradicts the lack of {other}; give both");
        let to = format!("{one} = 1");
        refused("gap_ns = 500", &to, &format!("injected.{one}"), &[&lack]);
    }
    let pcie = "pcie = \"unknown\"";
    for (lacking, other) in [("groups", "group_rules"), ("group_rules", "groups")] {
        let text = without(GOOD, lacking);
        let error = error(&text.replace(pcie, &format!("{pcie}\n{lacking} = \"none\"")));
        assert_eq!((error.line, error.key.as_str()), (line_of(pcie) + 1, lacking), "{error}");
        let message = format!("\"none\" contradicts {other}; both are \"none\", or neither");
        assert_eq!(error.reason, message);
    }
    // What is unknown contradicts nothing.
    let unknown = |line: &str| GOOD.replacen(line, "", 1);
    let text = unknown("value = 56000, basis = \"fitted\", source = \"a figure\"");
    let text = text.replace("near_rules = {  }", "near_rules = \"unknown\"");
    Profile::parse("card.toml", &text).unwrap();
}

#[test]
fn invalid_toml_is_reported_by_its_line() {
    refused("[port]", "[port", "profile", &[]);
    refused("title = \"A card\"", "title = \"A card", "profile", &[]);
    refused("frame_rate_max = ", "frame_rate_max ", "profile", &[]);
    let again = "frame_rate_max = \"unknown\"\nframe_rate_max = \"unknown\"";
    let line = line_of("frame_rate_max") + 1;
    refused_at(line, "frame_rate_max = \"unknown\"", again, "profile", &["duplicate"]);
    let open = error("title = \"A card\"\nfitted_to = [\n");
    assert!((1..=2).contains(&open.line), "{open}");
}

/// A text with one slip of a hand, mostly.
fn mutated(text: &str, random: &mut Xoshiro256PlusPlus) -> String {
    const SIGNS: &[char] = &[
        '0', '9', '-', '.', '"', '\'', '=', '{', '}', '[', ']', ',', '#', '\n', ' ', 'x', '\\',
        'é', '\0', '\r',
    ];
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (line, other) = (random.random_range(0..lines.len()), random.random_range(0..lines.len()));
    let at = random.random_range(0..text.len());
    let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let sign = SIGNS[random.random_range(0..SIGNS.len())];
    let behind = at + text[at..].chars().next().map_or(0, char::len_utf8);
    match random.random_range(0..7) {
        0 => return format!("{}{sign}{}", &text[..at], &text[at..]),
        1 => return format!("{}{sign}{}", &text[..at], &text[behind..]),
        2 => return format!("{}{}", &text[..at], &text[behind..]),
        3 => return text[..at].to_owned(),
        4 => drop(lines.remove(line)),
        5 => lines.swap(line, other),
        _ => lines.insert(line, lines[other]),
    }
    lines.concat()
}

#[test]
fn every_error_names_a_line_of_the_file() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut wrong = 0;
    for name in ["connectx-5", "connectx-4", "xl710"] {
        let (_, whole) = text(name).unwrap();
        for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            let Err(error) = Profile::parse("card.toml", &whole[..end]) else { continue };
            let lines = whole[..end].lines().count().max(1);
            assert!((1..=lines).contains(&error.line), "{error}: the first {end} bytes of {name}");
        }
        for _ in 0..3_000 {
            let mut text = mutated(&whole, &mut random);
            while random.random_range(0..3) == 0 && !text.is_empty() {
                text = mutated(&text, &mut random);
            }
            match Profile::parse("card.toml", &text) {
                // What is read is also written and read again.
                Ok(card) => {
                    let again = Profile::parse("card.toml", &card.text());
                    assert_eq!(again.as_ref(), Ok(&card), "{text}");
                }
                Err(error) => {
                    wrong += 1;
                    let lines = text.lines().count().max(1);
                    assert!((1..=lines).contains(&error.line), "{lines} lines: {error}\n{text}");
                    assert!(!error.key.is_empty() && !error.reason.is_empty(), "{error}\n{text}");
                }
            }
        }
    }
    assert!(wrong > 4_000, "{wrong}");
}
