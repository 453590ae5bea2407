//! Small inputs that once came to a wrong answer, each with its right value.
//!
//! The inputs lie in `tests/cases`; its README names the source of each right value.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{Ended, call, capture, scratch};

/// One of the inputs.
fn input(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)
}

/// Calls `niclab` with these words; those that begin with `@` name an input.
fn with_inputs(words: &[&str]) -> Ended {
    let word = |word: &&str| match word.strip_prefix('@') {
        Some(name) => input(name).into_os_string(),
        None => word.into(),
    };
    call(&words.iter().map(word).collect::<Vec<_>>())
}

/// The frames of a capture, each with its length on the wire.
fn frames(pcap: &[u8]) -> Vec<Vec<u8>> {
    let word = |at: usize| u32::from_le_bytes(pcap[at..at + 4].try_into().unwrap()) as usize;
    let mut frames = Vec::new();
    let mut at = 24;
    while at < pcap.len() {
        let len = word(at + 8);
        assert_eq!(len, word(at + 12), "a whole frame");
        frames.push(pcap[at + 16..at + 16 + len].to_vec());
        at += 16 + len;
    }
    frames
}

/// Plays a capture through the rules of a file; returns how that ended and what came out.
fn played(capture: &Path, rules: &Path) -> (Ended, Vec<Vec<u8>>) {
    let scratch = scratch();
    let out = scratch.path().join("out.pcap");
    let ports =
        [format!("pcap:in={},speed=max", capture.display()), format!("pcap:out={}", out.display())];
    let rules = rules.to_str().unwrap();
    let ended = call(&["nic", "--port", &ports[0], "--port", &ports[1], "--rules", rules]);
    (ended, fs::read(&out).map(|bytes| frames(&bytes)).unwrap_or_default())
}

#[test]
fn a_filter_without_a_preference_comes_after_those_that_have_one() {
    let scratch = scratch();
    let [rules, trace] = ["converted.flow", "in.pcap"].map(|name| scratch.path().join(name));
    let converted = with_inputs(&["rules", "convert", "tc", "@tc-auto-prio.txt"]);
    converted.with(0, &[]);
    fs::write(&rules, &converted.out).unwrap();
    let mut one = capture(1, 60, 1);
    // The destination of the only frame: 10.0.0.1, which both filters match.
    one[24 + 16 + 30..24 + 16 + 34].copy_from_slice(&[10, 0, 0, 1]);
    fs::write(&trace, &one).unwrap();
    let (ended, out) = played(&trace, &rules);
    ended.with(0, &[]);
    assert_eq!(out.len(), 1, "{}", converted.out);
}

#[test]
fn a_batch_file_of_tc_reads_as_if_tc_stood_in_front() {
    let ended = with_inputs(&["rules", "convert", "tc", "@tc-batch.txt"]);
    ended.with(0, &[]);
    let rules = ended.out.lines().filter(|line| line.starts_with("flow create"));
    let rules: Vec<_> = rules.collect();
    assert!(rules.len() == 1 && rules[0].contains("02:00:00:00:00:02"), "{}", ended.out);
}

#[test]
fn actions_that_a_listing_names_are_refused_by_their_name() {
    let ended = with_inputs(&["rules", "convert", "tc", "@tc-show-mirred.txt"]);
    ended.with(3, &["line 7"]);
    // The rest of the message shows the line itself.
    assert!(ended.err.lines().next().unwrap().contains("mirred"), "{}", ended.err);
    assert_eq!(ended.out, "");
}

#[test]
fn rules_that_a_card_of_that_size_takes_are_valid() {
    with_inputs(&["rules", "check", "@rss-queues-end.flow"]).with(0, &[]);
    with_inputs(&["rules", "check", "@two-ports.flow"]).with(0, &[]);
}

#[test]
fn a_message_shows_an_invisible_character_by_its_code_point() {
    let ended = with_inputs(&["rules", "check", "@no-break-space.flow"]);
    ended.with(3, &["line 1", "U+00A0"]);
    assert!(!ended.err.contains('\u{a0}'), "{ended:?}");
}

#[test]
fn a_filter_set_of_ipv6_is_read() {
    let ended = with_inputs(&["rules", "convert", "classbench", "@classbench-ipv6.txt"]);
    ended.with(0, &[]);
    for part in ["ipv6", "2001:db8::", "2001:db8:1::", "udp", "53"] {
        assert!(ended.out.contains(part), "`{part}` is missing in: {}", ended.out);
    }
}

#[test]
fn a_frame_that_was_cut_matches_nothing() {
    let rules = input("headers-only.flow");
    let (ended, out) = played(&input("headers-only-snaplen34.pcap"), &rules);
    ended.with(5, &["headers-only-snaplen34.pcap", "record 1", "the first 34 B"]);
    assert_eq!(out.len(), 0);
}

#[test]
fn a_frame_has_the_length_that_it_had_without_its_fcs() {
    let scratch = scratch();
    let rules = scratch.path().join("none.flow");
    fs::write(&rules, "").unwrap();
    for (name, len) in [("caplen-801-len-785.pcap", 785), ("linktype-1-with-fcs.pcap", 60)] {
        let (ended, out) = played(&input(name), &rules);
        ended.with(0, &[]);
        assert_eq!(out.iter().map(Vec::len).collect::<Vec<_>>(), [len], "{name}");
    }
}
