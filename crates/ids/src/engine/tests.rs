//! Each keyword, the order of alerts, and rules that the engine refuses.

use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{ethernet, ipv4, tcp, udp};

use super::*;

/// No alerts.
const NONE: [u32; 0] = [];

fn variables() -> Variables {
    let mut variables = Variables::default();
    variables.define_addresses("HOME_NET", "[192.168.0.0/16,!192.168.1.0/24]");
    variables.define_ports("MAIL", "[25,587]");
    variables
}

fn frame(source: &str, destination: &str, layers: Vec<Layer>) -> Vec<u8> {
    let [src, dst] = [source, destination].map(|address| address.parse().unwrap());
    let ip = ipv4::Repr { src, dst, ttl: 64, ..Default::default() };
    build(&[vec![ethernet::Repr::default().into(), ip.into()], layers].concat()).unwrap()
}

/// A datagram from 10.0.0.1 to 192.168.0.1, port 53.
fn datagram(payload: &[u8]) -> Vec<u8> {
    let header = udp::Repr { src_port: 4000, dst_port: 53, ..Default::default() };
    frame("10.0.0.1", "192.168.0.1", vec![header.into(), Layer::Payload(payload.to_vec())])
}

fn segment(flags: u8, payload: &[u8]) -> Vec<u8> {
    let flags = tcp::Flags(flags);
    let header = tcp::Repr { src_port: 4000, dst_port: 25, flags, ..Default::default() };
    frame("10.0.0.1", "192.168.0.1", vec![header.into(), Layer::Payload(payload.to_vec())])
}

/// The `sid` of each alert, in order.
#[track_caller]
fn alerts(rules: &str, frame: &[u8]) -> Vec<u32> {
    let rules = read(rules, &variables()).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let signatures = rules.into_iter().map(|(rule, signature)| {
        signature.unwrap_or_else(|lacks| panic!("{}: {}", rule.text, lacks[0]))
    });
    let engine = RuleEngine::new(signatures);
    let mut found = Vec::new();
    engine.inspect(frame, &mut engine.scratch(), |alert| found.push(alert.sid)).unwrap();
    found
}

/// Whether a datagram matches these options.
#[track_caller]
fn has(options: &str, payload: &[u8]) -> bool {
    let rule = format!("alert udp any any -> any any ({options} sid:1;)");
    !alerts(&rule, &datagram(payload)).is_empty()
}

#[test]
fn contents_are_found_at_their_places() {
    assert!(has("content:\"bc\";", b"abcd") && !has("content:\"bd\";", b"abcd"));
    assert!(has("content:\"BC\"; nocase;", b"abcd") && !has("content:\"BC\";", b"abcd"));
    assert!(has("content:\"|62 63|\"; rawbytes;", b"abcd"));
    assert!(has("content:\"ab\"; depth:2;", b"abab") && !has("content:\"b\"; depth:1;", b"ab"));
    assert!(
        has("content:\"ab\"; offset:2;", b"xxab") && !has("content:\"ab\"; offset:3;", b"xxab")
    );
    assert!(has("content:\"ab\"; offset:2; depth:2;", b"xxab"));
    assert!(!has("content:\"ab\"; offset:1; depth:2;", b"xxab"));
    assert!(
        has("content:\"ab\"; startswith;", b"ab") && !has("content:\"ab\"; startswith;", b"xab")
    );
    assert!(
        has("content:\"ab\"; endswith;", b"abxab") && !has("content:\"ab\"; endswith;", b"abx")
    );
}

#[test]
fn absent_contents_match() {
    assert!(has("content:!\"x\";", b"abc") && !has("content:!\"b\";", b"abc"));
    assert!(has("content:!\"c\"; depth:2;", b"abc") && !has("content:!\"b\"; depth:2;", b"abc"));
    assert!(has("content:\"a\"; content:!\"b\"; within:1;", b"acb"));
    assert!(!has("content:\"a\"; content:!\"b\"; within:1;", b"ab"));
    assert!(!has("content:!\"x\";", b""), "a packet without payload matches no content");
}

#[test]
fn relative_contents_follow_the_match_before() {
    let between = "content:\"a\"; content:\"b\"; distance:1; within:2;";
    assert!(has(between, b"a.b") && !has(between, b"ab") && !has(between, b"a....b"));
    assert!(has("content:\"ab\"; content:\"b\"; distance:-1;", b"ab"));
    assert!(has("content:\"a\"; content:\"b\"; within:1;", b"a.ab"), "the second `a`");
    assert!(
        has("content:\"a\"; pcre:\"/^b/R\";", b"a.ab")
            && !has("content:\"a\"; pcre:\"/^b/R\";", b"a.b")
    );
    assert!(has("pcre:\"/a./\"; content:\"c\"; within:1;", b"axbayc"));
    assert!(has("content:\"n=\"; byte_test:1,>,4,0,relative,string,dec;", b"n=3 n=7"));
    assert!(has("byte_jump:1,0; content:\"x\"; within:1;", b"\x02..x"));
    assert!(
        has("content:\"a\"; isdataat:2,relative;", b"abc")
            && !has("content:\"a\"; isdataat:3,relative;", b"abc")
    );
    assert!(
        has("content:\"c\"; isdataat:!1,relative;", b"cabc")
            && !has("content:\"a\"; isdataat:!1,relative;", b"ab")
    );
}

#[test]
fn the_fast_pattern_finds_candidates_and_changes_no_match() {
    for options in ["", "fast_pattern;", "fast_pattern:only;", "fast_pattern:1,2;"] {
        let options = format!("content:\"abcd\"; {options} content:\"xyzuvw\";");
        assert!(has(&options, b"xyzuvw abcd") && !has(&options, b"xyzuvw bc"), "{options}");
    }
    let placed = "content:\"abcd\"; offset:2; depth:4; fast_pattern:1,2;";
    assert!(has(placed, b"..abcd") && !has(placed, b".abcd") && !has(placed, b"...abcd"));
}

#[test]
fn sizes_and_flags_need_no_payload() {
    assert!(has("dsize:0;", b"") && has("dsize:1<>4;", b"ab") && !has("dsize:!2;", b"ab"));
    let rule = "alert tcp any any -> any $MAIL (flags:S; sid:1;)";
    assert_eq!(alerts(rule, &segment(0x02, b"")), [1]);
    assert_eq!(alerts(rule, &segment(0x12, b"")), NONE);
    assert_eq!(
        alerts("alert ip any any -> any any (dsize:2; flags:S; sid:1;)", &datagram(b"ab")),
        NONE
    );
}

#[test]
fn the_header_has_protocol_addresses_ports_and_direction() {
    let rule = |header: &str| {
        alerts(&format!("alert {header} (content:\"a\"; dsize:1; sid:1;)"), &datagram(b"a"))
    };
    for header in [
        "udp any any -> any any",
        "ip 10.0.0.0/8 any -> $HOME_NET 53",
        "udp [10.0.0.1,10.0.0.9] 4000 -> !10.0.0.0/8 [50:60,!54]",
        "udp any 53 <> 10.0.0.1 any",
        "ip4 any any -> any any",
    ] {
        assert_eq!(rule(header), [1], "{header}");
    }
    for header in [
        "tcp any any -> any any",
        "icmp any any -> any any",
        "ip6 any any -> any any",
        "udp $HOME_NET any -> any any",
        "udp any 53 -> any any",
        "udp any any -> any 54",
        "udp any 53 <> 10.0.0.2 any",
    ] {
        assert_eq!(rule(header), NONE, "{header}");
    }
    let ends_are_alike = "alert udp any any <> any any (content:\"a\"; sid:1;)";
    assert_eq!(alerts(ends_are_alike, &datagram(b"a")), [1]);
    let both = "alert udp any any <> any [53,4000] (content:\"a\"; sid:1;)";
    assert_eq!(alerts(both, &datagram(b"a")), [1, 1], "Suricata has two rules of it");
}

#[test]
fn a_packet_without_ports_matches_rules_with_any_alone() {
    let ping = frame("10.0.0.1", "192.168.0.1", {
        vec![
            niclab_packet::wire::icmp::Repr::echo_request(1, 1).into(),
            Layer::Payload(b"a".to_vec()),
        ]
    });
    assert_eq!(alerts("alert ip any any -> any any (dsize:1; sid:1;)", &ping), [1]);
    assert_eq!(alerts("alert ip any any -> any 0:65535 (dsize:1; sid:1;)", &ping), NONE);
}

#[test]
fn alerts_have_the_order_of_suricata() {
    let rules = "alert udp any any -> any any (content:\"a\"; sid:1;)\n\
                 alert udp any any -> any 53 (content:\"a\"; content:\"a\"; priority:1; sid:2;)\n\
                 drop udp any 4000 -> any any (dsize:1; sid:3;)\n\
                 reject udp any any -> any any (dsize:1; sid:5;)\n\
                 alert udp any any -> any any (pcre:\"/a/\"; noalert; sid:4;)\n";
    assert_eq!(alerts(rules, &datagram(b"a")), [3, 5, 2, 1]);
    let pass = "pass udp any any -> any any (content:\"a\"; sid:9;)\n";
    assert_eq!(alerts(&(rules.to_owned() + pass), &datagram(b"a")), NONE);
    assert_eq!(alerts(&(rules.to_owned() + &pass.replace("\"a", "\"b")), &datagram(b"a")).len(), 4);
}

#[test]
fn priorities_are_read_as_by_suricata() {
    let rule = |(sid, priority): (usize, &&str)| {
        format!("alert udp any any -> any any (dsize:1; priority:{priority}; sid:{sid};)\n")
    };
    // 32 bits of each count, and -1 is none.
    let ascending = [
        "2147483648",
        "4294967296",
        "4294967297; priority:2",
        "1; priority:9223372036854775807",
        "2; priority:4294967297",
        "99999999999999999999",
        "04",
    ];
    let rules: String = (1..=7).zip(ascending.iter().rev()).map(rule).collect();
    assert_eq!(alerts(&rules, &datagram(b"a")), [7, 6, 4, 5, 3, 2, 1]);
}

#[test]
fn a_packet_has_at_most_fifteen_alerts() {
    let rule = |sid| format!("alert udp any any -> any any (dsize:1; sid:{sid};)\n");
    let rules: String = (1..=20).rev().map(rule).collect();
    assert_eq!(alerts(&rules, &datagram(b"a")), (1..=15).collect::<Vec<u32>>());
}

/// The `sid` of each alert, how often the engine gave up, and its candidates.
#[track_caller]
fn inspected(rules: &str, frame: &[u8]) -> (Vec<u32>, u64, usize) {
    let rules = read(rules, &variables()).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let engine = RuleEngine::new(rules.into_iter().map(|(_, signature)| signature.unwrap()));
    let (mut scratch, mut found) = (engine.scratch(), Vec::new());
    engine.inspect(frame, &mut scratch, |alert| found.push(alert.sid)).unwrap();
    (found, scratch.given_up(), scratch.candidates.entries.len())
}

#[test]
fn a_signature_that_takes_too_much_work_does_not_match_and_is_counted() {
    // Without a limit, these take seconds to hours.
    let ends = "a".repeat(1000);
    let hostile = [
        ("content:\"a\"; pcre:\"/a.{600}x/sR\";", 1_400),
        ("content:\"a\"; pcre:\"/a.{600}x/sR\"; isdataat:1,relative;", 1_400),
        ("content:\"a\"; pcre:!\"/a.{600}x/sR\";", 60_000),
        ("content:\"a\"; pcre:\"/a.*x/sR\";", 60_000),
        ("pcre:\"/(a|aa){1,2000}x/\";", 60_000),
        (&format!("content:\"a\"; content:\"{ends}\"; within:65000; endswith;"), 60_000),
    ];
    for (options, len) in hostile {
        let rules = format!(
            "alert udp any any -> any any ({options} sid:1;)\n\
             alert udp any any -> any any (content:\"a\"; sid:2;)\n"
        );
        let payload = [&vec![b'a'; len][..], b"z"].concat();
        let (alerts, given_up, _) = inspected(&rules, &datagram(&payload));
        assert_eq!((alerts, given_up), (vec![2], 1), "{options}: others match");
    }
}

#[test]
fn work_that_a_packet_of_ethernet_needs_is_done() {
    let rule = "alert udp any any -> any any (content:\"a\"; pcre:\"/a.*x/sR\"; sid:1;)";
    let (alerts, given_up, _) = inspected(rule, &datagram(&[b'a'; 1400]));
    assert_eq!((alerts, given_up), (vec![], 0));
    let rule = "alert udp any any -> any any (pcre:\"/[^\\n]{1000}x/\"; sid:1;)";
    let (alerts, given_up, _) = inspected(rule, &datagram(&[&[b'a'; 1399][..], b"x"].concat()));
    assert_eq!((alerts, given_up), (vec![1], 0));
}

#[test]
fn long_contents_are_searched_within_the_limit_of_work() {
    let content = "a".repeat(7000) + "b";
    let rule = |sid| {
        format!(
            "alert udp any any -> any any (content:\"zz\"; fast_pattern; content:\"{content}\"; \
             nocase; sid:{sid};)\n"
        )
    };
    let rules: String = (1..=10).map(rule).collect();
    let (alerts, given_up, _) =
        inspected(&rules, &datagram(&[&b"zz"[..], &[b'A'; 60_000]].concat()));
    assert_eq!((alerts, given_up), (vec![], 0));
    let last = [&b"zz"[..], &[b'A'; 7001], b"B"].concat();
    assert_eq!(inspected(&rules, &datagram(&last)).0.len(), 10);
}

#[test]
fn a_signature_is_a_candidate_once_however_often_its_pattern_comes() {
    let rule = |sid| format!("alert udp any any -> 10.9.9.9 any (content:\"aa\"; sid:{sid};)\n");
    let rules: String = (1..=5000).map(rule).collect();
    let once = [&b"aa"[..], &[b'.'; 1398]].concat();
    for payload in [&once[..], &[b'a'; 1400]] {
        assert_eq!(inspected(&rules, &datagram(payload)).2, 5000);
    }
}

#[test]
fn places_of_a_shared_pattern_find_their_candidates() {
    // More places than a pattern has of its own.
    let rule = |sid| {
        format!(
            "alert udp any any -> any any (content:\"ab\"; offset:{sid}; depth:9; sid:{sid};)\n"
        )
    };
    let rules: String = (1..=100).map(rule).collect();
    for at in [0, 1, 5, 40, 99, 108, 110] {
        let found = alerts(&rules, &datagram(&[&vec![b'.'; at][..], b"ab"].concat()));
        let expected: Vec<u32> =
            (1..=100).filter(|sid| (*sid..=sid + 7).contains(&(at as u32))).collect();
        assert_eq!(found, expected, "at {at}");
    }
    let often: Vec<u8> = b"ab".repeat(100);
    let priority = |sid: u32| (1..=100).contains(&sid);
    assert!(alerts(&rules, &datagram(&often)).into_iter().all(priority));
}

#[test]
fn the_states_of_all_expressions_have_a_bound() {
    let rule = |sid| format!("alert udp any any -> any any (pcre:\"/a{{9000}}/\"; sid:{sid};)\n");
    let rules: String = (1..=4).map(rule).collect();
    let refused = |left: usize| -> Vec<Vec<Lack>> {
        let rules = read_within(left, &rules, &variables()).unwrap();
        rules.into_iter().filter_map(|(_, signature)| signature.err()).collect()
    };
    let (_, first) = read(&rules, &variables()).unwrap().remove(0);
    let one: usize = first.unwrap().expressions().map(Pcre::states_len).sum();
    assert!(one > 100_000 && refused(4 * one).is_empty());
    let lacks = refused(3 * one - 1);
    assert_eq!(lacks.len(), 2);
    assert_eq!(lacks[0][0].to_string(), "pcre: more than a gigabyte of states in a file");
}

#[test]
fn the_memory_of_a_thread_does_not_grow_with_the_number_of_expressions() {
    let bytes = |count: u32| {
        let rule = |sid| {
            format!("alert udp any any -> any any (pcre:\"/a.{{3000}}{sid}x/s\"; sid:{sid};)\n")
        };
        let rules = read(&(1..=count).map(rule).collect::<String>(), &variables()).unwrap();
        let engine = RuleEngine::new(rules.into_iter().map(|(_, signature)| signature.unwrap()));
        engine.scratch().memory_bytes()
    };
    let [one, many] = [1, 9].map(bytes);
    assert!(many < one + 1000, "{one} and {many}");
}

#[test]
fn a_hostile_payload_costs_a_bounded_number_of_tests() {
    let options = "content:\"a\"; content:\"c\"; within:1;";
    let payload = |count: usize| [&vec![b'a'; count][..], b"c"].concat();
    assert!(has(options, &payload(2998)) && !has(options, &payload(2999)), "Suricata stops, too");
    let deep = "content:\"a\"; ".to_owned() + &"content:\"a\"; within:60000; ".repeat(100);
    assert!(!has(&(deep + "content:\"b\"; within:9;"), &payload(1400)));
    assert!(!has("pcre:\"/(a|aa)+$/\"; content:\"x\";", &[b'a'; 1400]));
    assert!(!has("pcre:\"/(a|aa)+x$/E\";", &[b'a'; 1400]), "time is linear in the payload");
}

/// What the engine lacks for a rule.
fn lacks(rule: &str) -> Vec<String> {
    let (_, signature) = read(rule, &variables()).unwrap().remove(0);
    signature.unwrap_err().iter().map(Lack::to_string).collect()
}

#[test]
fn unsupported_rules_name_all_that_is_lacking() {
    let rule = "alert http any any -> any any (flow:to_server; http.uri; content:\"a\"; \
                pcre:\"/a(?=b)/\"; byte_test:1,=,1,0,dce; flow:established; sid:1;)";
    let expected = ["flow", "http.uri", "byte_test: dce", "pcre: look-around", "protocol http"];
    assert_eq!(lacks(rule), expected);
    assert_eq!(
        lacks("alert tcp any any -> any any (content:\"a\"; sid:1;)"),
        ["payload of a TCP stream"]
    );
    assert_eq!(
        lacks("alert ip any any -> any any (content:\"a\"; sid:1;)"),
        ["payload of a TCP stream"]
    );
    assert_eq!(lacks("alert udp any any -> any 53 (msg:\"a\"; sid:1;)"), ["a header alone"]);
    assert_eq!(
        lacks("alert tcp-stream any any -> any any (content:\"a\"; sid:1;)"),
        ["protocol tcp-stream"]
    );
    assert_eq!(lacks("config udp any any -> any any (content:\"a\"; sid:1;)"), ["action config"]);
    assert_eq!(
        lacks("alert udp any any -> any any (content:\"a\"; depth:x; sid:1;)"),
        ["depth: a variable"]
    );
}

#[track_caller]
fn refused(options: &str, message: &str) {
    let text = format!("# rules\nalert udp any any -> any any ({options} sid:1;)\n");
    let errors = read(&text, &variables()).unwrap_err();
    let first = errors[0].to_string();
    assert_eq!(
        first.lines().next(),
        Some(format!("line 2, column {message}").as_str()),
        "{options}"
    );
}

#[test]
fn wrong_values_have_a_place_and_a_remedy() {
    refused(
        "content:\"a|0|\";",
        "31: expected two hexadecimal digits per byte between bars: |0d 0a|",
    );
    refused(
        "msg:\"x\"; dsize:<0;",
        "40: expected a size such as 128, <128, >=16, !0 or 16<>32 (17 to 31)",
    );
    refused(
        "content:\"abc\\\"; nocase;",
        "31: expected one of `:`, `;`, `\\` and `\"` behind a `\\`",
    );
    refused("priority:-1;", "31: expected a number without a sign");
    refused(
        "isdataat:5,rawbytes;",
        "31: expected nothing, `relative` or `relative,rawbytes` behind the place",
    );
    refused(
        "content:\"ab\"; fast_pattern:only; content:\"c\"; distance:0;",
        "77: expected no content with fast_pattern:only before a relative content",
    );
    refused("nocase;", "31: expected a content before the modifier");
    refused("content:\"ab\"; depth:1;", "45: expected a depth of at least the content");
    refused("content:\"ab\"; dsize:1;", "45: expected a size that the contents fit into");
    refused("dsize:1; dsize:2;", "40: expected one dsize per rule");
    refused(
        "pcre:\"/a/R\";",
        "31: expected a content or an expression before a relative expression",
    );
    refused(
        "content:\"a\"; fast_pattern; content:\"b\"; fast_pattern;",
        "71: expected one fast_pattern per rule",
    );
    refused("content:\"a\"; nocase:1;", "44: expected no value");
    refused("byte_test:9,=,1,0;", "31: expected at most 8 bytes, or 23 with `string`");
}
