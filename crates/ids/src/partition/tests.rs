//! Rules are where they meet the flows that they concern.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::rule::{RuleEnd, Transport, read};
use crate::variables::Variables;

fn rules(text: &str) -> Vec<Rule> {
    let mut variables = Variables::default();
    variables.define_addresses("HOME_NET", "10.0.0.0/8");
    read(text, &variables).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

fn flow(transport: Transport, source: (&str, u16), destination: (&str, u16)) -> FlowEnds {
    let end = |(address, port): (&str, u16)| (address.parse::<IpAddr>().unwrap(), port);
    FlowEnds { transport, source: end(source), destination: end(destination) }
}

fn tcp(port: u16) -> FlowEnds {
    flow(Transport::Tcp, ("10.0.0.1", 40000), ("1.1.1.1", port))
}

fn placements(rules: &[Rule], partition: &Partition) -> Vec<Placement> {
    (0..rules.len()).map(|rule| partition.group_of(rule).placement).collect()
}

#[test]
fn rules_of_ports_are_placed_and_their_flows_follow() {
    let rules = rules(
        "alert tcp any any -> $HOME_NET 25 (sid:1;)\nalert tcp any any -> any 445 (sid:2;)\n\
         alert http any any -> any any (sid:3;)\nalert tcp $HOME_NET 25 -> any any (sid:4;)\n",
    );
    let partition = Partition::new(&rules, &Traffic::default(), 2).unwrap();
    let [mail, files, any, mail_too] = placements(&rules, &partition)[..] else { panic!() };
    assert_ne!(mail, files);
    assert_eq!((mail, any), (mail_too, Placement::Replicated(Reason::AnyFlow)));
    for (flow, placement) in [(tcp(25), mail), (tcp(445), files)] {
        let Placement::Core(core) = placement else { panic!() };
        assert_eq!(partition.route(&flow), Route { cores: 1 << core, reporter: core });
    }
    let Route { cores, reporter } = partition.route(&tcp(80));
    assert_eq!(cores, 1 << reporter, "a hash chose");
}

#[test]
fn a_flow_that_rules_of_two_cores_concern_goes_to_both() {
    let rules = rules(
        "alert tcp any any -> any 25 (sid:1;)\n\
         alert tcp any any -> any [25,80] (content:\"a\"; sid:2;)\n",
    );
    let partition = Partition::new(&rules, &Traffic::default(), 2).unwrap();
    assert_eq!(partition.route(&tcp(25)).cores, 0b11);
    assert_eq!(partition.route(&tcp(80)).cores.count_ones(), 1);
}

#[test]
fn a_core_has_the_rules_that_its_own_depend_on() {
    let rules = rules(
        "alert tcp any any -> any [25,80] (flowbits:isset,a; sid:1;)\n\
         alert tcp any any -> any 25 (flowbits:isset,b; flowbits:set,a; sid:2;)\n\
         alert http any any -> any any (flowbits:set,b; sid:3;)\n\
         alert tcp any any -> any 81 (flowbits:set,c; sid:4;)\n",
    );
    let partition = Partition::new(&rules, &Traffic::default(), 4).unwrap();
    let [Placement::Core(asks), Placement::Core(sets), any, Placement::Core(other)] =
        placements(&rules, &partition)[..]
    else {
        panic!()
    };
    assert_eq!(any, Placement::Replicated(Reason::AnyFlow));
    assert!((0..3).all(|rule| partition.has(asks, rule)), "at once, and by way of another");
    let route = partition.route(&tcp(25));
    assert_eq!(route.cores, 1 << asks | 1 << sets);
    assert!(partition.counts(asks, 0, &route) && !partition.counts(asks, 1, &route));
    assert!(partition.counts(sets, 1, &route) && !partition.has(other, 0));
}

#[test]
fn rules_that_share_wider_state_stay_together() {
    let pairs = [
        ["xbits:set,a,track ip_src", "xbits:isset,a,track ip_src"],
        ["hostbits:set,a,src", "hostbits:isset,a,src"],
        ["dataset:set,d,type string", "dataset:isset,d,type string"],
        ["lua:a.lua", "lua:b.lua"],
        ["unknown.one", "unknown.two"],
    ];
    for [first, second] in pairs {
        let rules = rules(&format!(
            "alert tcp any any -> any 25 ({first}; sid:1;)\n\
             alert tcp any any -> any 80 ({second}; sid:2;)\n\
             alert tcp any any -> any 80 (sid:3;)\n"
        ));
        let partition = Partition::new(&rules, &Traffic::default(), 2).unwrap();
        let [a, b, c] = placements(&rules, &partition)[..] else { panic!() };
        assert!(a == b && b != c, "{first}");
        let Placement::Core(core) = a else { panic!() };
        for port in [25, 80] {
            assert_eq!(partition.route(&tcp(port)).cores >> core & 1, 1, "{first}");
        }
    }
}

#[test]
fn a_rule_with_wider_state_takes_no_other_along() {
    let rules = rules(
        "alert http any any -> any any (flowbits:set,x; sid:1;)\n\
         alert http any any -> any any (sid:2;)\n\
         alert http any any -> any any (flowbits:isset,x; threshold:type limit, track by_src, \
         count 1, seconds 9; sid:3;)\n",
    );
    let partition = Partition::new(&rules, &Traffic::default(), 3).unwrap();
    let any = Placement::Replicated(Reason::AnyFlow);
    assert_eq!(placements(&rules, &partition), [any, any, Placement::Core(0)]);
    assert!(partition.has(0, 0), "the third depends on it");
    let route = partition.route(&tcp(80));
    assert!(route.cores & 1 == 1 && partition.counts(0, 2, &route));
}

#[test]
fn rules_that_decide_about_others_are_on_every_core() {
    for rule in ["pass tcp any any -> any 1 (", "alert tcp any any -> any 1 (bypass; "] {
        let rules = rules(&format!("{rule}sid:1;)\nalert tcp any any -> any 2 (sid:2;)\n"));
        let partition = Partition::new(&rules, &Traffic::default(), 3).unwrap();
        assert!((0..3).all(|core| partition.has(core, 0)), "{rule}");
    }
}

#[test]
fn files_of_ftp_need_the_flow_of_the_commands() {
    for rule in [
        "alert ftp-data any any -> any any (",
        "alert tcp any any -> any any (ftpdata_command:stor; ",
        "alert tcp any any -> any 9999 (filename:\"a\"; ",
    ] {
        let rules = rules(&format!("{rule}sid:1;)\nalert tcp any any -> any 2 (sid:2;)\n"));
        let partition = Partition::new(&rules, &Traffic::default(), 3).unwrap();
        assert_eq!(partition.group_of(0).wide.as_ref().unwrap().reason, WideReason::FtpData);
        assert_eq!(partition.route(&tcp(21)).cores & 1, 1, "{rule}");
    }
}

#[test]
fn state_beyond_a_flow_is_on_one_core() {
    let text = "alert tcp any any -> any any (threshold:type limit, track by_src, count 1, \
                seconds 9; sid:1;)\nalert http any any -> any any (sid:2;)\n\
                alert tcp any any -> any 25 (sid:3;)\npass ip 10.9.9.9 any -> any any (sid:4;)\n";
    let rules = rules(text);
    let partition = Partition::new(&rules, &Traffic::default(), 3).unwrap();
    assert_eq!(partition.group_of(0).placement, Placement::Core(0));
    let threshold = WideReason::Keyword("threshold".to_owned());
    assert_eq!(partition.group_of(0).wide, Some(WideRule { rule: 0, reason: threshold }));
    assert_eq!(partition.group_of(3).placement, Placement::Replicated(Reason::Pass));
    for flow in [tcp(25), tcp(80)] {
        let Route { cores, reporter } = partition.route(&flow);
        assert_eq!(cores & 1, 1, "the core with the counts gets all");
        assert!(partition.has(reporter, 1));
    }
    assert!((0..3).all(|core| partition.has(core, 3)));
}

#[test]
fn both_directions_have_one_route() {
    let rules =
        rules("alert tcp any any -> any 25 (sid:1;)\nalert ip 1.2.3.4 any -> any any (sid:2;)\n");
    let partition = Partition::new(&rules, &Traffic::default(), 4).unwrap();
    for there in [tcp(25), tcp(80), flow(Transport::Other, ("::1", 0), ("::2", 0))] {
        let back = FlowEnds { source: there.destination, destination: there.source, ..there };
        assert_eq!(partition.route(&there), partition.route(&back));
    }
    let listed = flow(Transport::Udp, ("9.9.9.9", 53), ("1.2.3.4", 9));
    let Placement::Core(core) = partition.group_of(1).placement else { panic!() };
    assert_eq!(partition.route(&listed).cores, 1 << core);
}

#[test]
fn traffic_decides_which_groups_share_a_core() {
    let rules = rules(
        "alert tcp any any -> any 1 (sid:1;)\nalert tcp any any -> any 2 (sid:2;)\n\
         alert tcp any any -> any 3 (sid:3;)\nalert tcp any any -> any 4 (sid:4;)\n",
    );
    let mut traffic = Traffic::default();
    for (port, packets) in [(1, 300), (2, 100), (3, 100), (4, 100)] {
        traffic.add(tcp(port), packets);
    }
    let partition = Partition::new(&rules, &traffic, 2).unwrap();
    let [first, rest @ ..] = &placements(&rules, &partition)[..] else { panic!() };
    assert!(rest.iter().all(|other| other != first));
    for share in partition.shares() {
        assert!((share.traffic_ratio - 0.5).abs() < 1e-9 && (share.cost_ratio - 0.5).abs() < 1e-9);
    }
}

#[test]
fn copies_have_all_rules_and_share_the_flows() {
    let rules = rules(
        "alert tcp any any -> any 25 (sid:1;)\nalert tcp any any -> any 80 (sid:2;)\n\
         alert ip any any -> any any (threshold:type limit, track by_src, count 1, seconds 1; \
         sid:3;)\n",
    );
    let partition = Partition::copies(&rules, 2).unwrap();
    assert!((0..2).all(|core| (0..3).all(|rule| partition.has(core, rule))));
    let mut flows = [0; 2];
    for port in 1_000..2_000 {
        let route = partition.route(&flow(Transport::Tcp, ("1.2.3.4", port), ("10.0.0.1", 80)));
        assert_eq!(route.cores, 1 << route.reporter);
        let counts = |rule| (0..2).filter(|&core| partition.counts(core, rule, &route)).count();
        assert!((0..3).all(|rule| counts(rule) == 1));
        flows[route.reporter] += 1;
    }
    assert!(flows.iter().all(|flows| (400..600).contains(flows)), "{flows:?}");
    assert!(partition.shares().iter().all(|share| share.cost_ratio == 0.5));
    assert_eq!(Partition::copies(&[], 2).unwrap_err(), PartitionError::NoRules);
    assert_eq!(Partition::copies(&rules, 65).unwrap_err(), PartitionError::Cores(65));
}

#[test]
fn wrong_input_is_refused() {
    let one = rules("alert tcp any any -> any 1 (sid:1;)\n");
    assert_eq!(Partition::new(&[], &Traffic::default(), 2).unwrap_err(), PartitionError::NoRules);
    for cores in [0, 65] {
        assert_eq!(
            Partition::new(&one, &Traffic::default(), cores).unwrap_err(),
            PartitionError::Cores(cores)
        );
    }
    let pass = rules("pass tcp any any -> any 1 (xbits:isset,a,track ip_src; sid:7;)\n");
    let error = Partition::new(&pass, &Traffic::default(), 2).unwrap_err().to_string();
    assert!(error.starts_with("not supported: the rule 7 decides about others"), "{error}");
}

/// Rules of random headers and shared state.
fn random_rules() -> impl Strategy<Value = String> {
    let header = prop_oneof![
        Just("tcp any any -> any 25"),
        Just("tcp any any -> any [25,80,443]"),
        Just("tcp any 80 -> $HOME_NET any"),
        Just("udp any any <> any 53"),
        Just("dns any any -> any any"),
        Just("ip [1.2.3.0/24,2001:db8::/32] any -> any any"),
        Just("tcp 1.2.3.4 any -> any any"),
        Just("icmp any any -> any any"),
        Just("ip any any -> any any"),
    ];
    let options = prop_oneof![
        Just(""),
        Just("flowbits:set,a; "),
        Just("flowbits:isset,a; "),
        Just("flowbits:isnotset,b; "),
        Just("threshold:type both, track by_src, count 5, seconds 1; "),
        Just("flow:to_server; "),
    ];
    let action = prop_oneof![9 => Just("alert"), 1 => Just("drop")];
    vec((action, header, options), 1..12).prop_map(|rules| {
        let rule = |(sid, (action, header, options)): (usize, (&str, &str, &str))| {
            format!("{action} {header} ({options}sid:{};)\n", sid + 1)
        };
        rules.into_iter().enumerate().map(rule).collect()
    })
}

/// Whether the header of a rule matches a packet of a flow, in either direction.
fn matches(rule: &Rule, flow: &FlowEnds) -> bool {
    let is = |end: &RuleEnd, (address, port): (IpAddr, u16)| {
        end.addresses.contains(address) && end.ports.contains(port.into())
    };
    let (one, other) = (flow.source, flow.destination);
    rule.protocol.transports.contains(flow.transport)
        && (is(&rule.source, one) && is(&rule.destination, other)
            || is(&rule.source, other) && is(&rule.destination, one))
}

proptest! {
    /// Each flow that a rule's header matches reaches a core with the rule, and with all rules that
    /// share its state. Replicated rules are where their alerts count.
    #[test]
    fn every_rule_meets_the_flows_that_it_concerns(text in random_rules(), cores in 1..9usize) {
        let rules = rules(&text);
        let partition = Partition::new(&rules, &Traffic::default(), cores).unwrap();
        let icmp = flow(Transport::Icmp, ("1.2.3.4", 0), ("10.0.0.1", 0));
        let six = flow(Transport::Udp, ("2001:db8::1", 1), ("2001:db8::2", 53));
        let listed = flow(Transport::Tcp, ("1.2.3.4", 25), ("10.0.0.1", 80));
        for flow in [tcp(25), tcp(80), tcp(9999), icmp, six, listed] {
            let Route { cores, reporter } = partition.route(&flow);
            prop_assert!(cores >> reporter & 1 == 1);
            for (at, rule) in rules.iter().enumerate() {
                let group = partition.group_of(at);
                let core = match group.placement {
                    Placement::Core(core) => core,
                    Placement::Replicated(_) => reporter,
                };
                if matches(rule, &flow) {
                    prop_assert!(cores >> core & 1 == 1, "{} {flow:?}", rule.text);
                    prop_assert!(group.rules.iter().all(|&other| partition.has(core, other)));
                    let route = partition.route(&flow);
                    let counts = (0..8).filter(|&core| partition.counts(core, at, &route));
                    prop_assert_eq!(counts.collect::<Vec<_>>(), [core]);
                }
            }
        }
    }
}
