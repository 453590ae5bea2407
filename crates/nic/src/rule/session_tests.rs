//! Texts, what they do, what is refused and where, and that nothing of a refused one is applied.

use niclab_packet::stack::walk;

use super::*;
use crate::NicConfig;
use crate::limits::ROOT_RULES_MAX;
use crate::memory::Region;
use crate::worker::Worker;

struct Bench {
    nic: Nic,
    worker: Worker,
    session: Session,
}

impl Bench {
    fn new() -> Bench {
        let mut nic = Nic::new(&NicConfig { queues: 4, ..NicConfig::default() }).unwrap();
        Bench { worker: nic.worker(), nic, session: Session::new(0) }
    }

    fn apply(&mut self, text: &str) -> Result<Vec<Record>, String> {
        self.session.apply(&mut self.nic, text.as_bytes()).map_err(|error| error.to_string())
    }

    fn queue(&mut self, dport: u16) -> Option<u16> {
        queue(&mut self.worker, dport)
    }
}

/// Queue of a UDP datagram to this port; `None` if it is dropped.
fn queue(worker: &mut Worker, dport: u16) -> Option<u16> {
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[23] = 17;
    frame[36..38].copy_from_slice(&dport.to_be_bytes());
    let (region, mut descs) = Region::new(1, 100).unwrap();
    region.slot_mut(&mut descs[0])[..60].copy_from_slice(&frame);
    region.set_len(&mut descs[0], 60);
    descs[0].queue = u16::MAX;
    let dropped = worker.classify(&region, &mut descs);
    (dropped == 0).then_some(descs[0].queue)
}

/// `flow create 0`, to this port with these actions.
fn create(port: u16, actions: &str) -> String {
    format!(
        "flow create 0 ingress pattern ipv4 / udp dst is {port} / end actions {actions} / end\n"
    )
}

/// The first line of what is said, of a text that is refused.
fn said(bench: &mut Bench, text: &str) -> String {
    bench.apply(text).unwrap_err().lines().next().unwrap_or_default().to_owned()
}

const UDP: &str = "udp / end actions drop / end\n";

#[test]
fn a_new_rule_has_the_number_behind_that_of_the_newest_as_in_testpmd() {
    let mut bench = Bench::new();
    let text: String = (0..3).map(|port| create(port, "drop")).collect();
    let created = [0, 1, 2].map(|rule| Record::Created { rule });
    assert_eq!(bench.apply(&text).unwrap(), created);
    let destroyed = [Record::Destroyed { rule: 2 }, Record::Destroyed { rule: 0 }];
    assert_eq!(bench.apply("flow destroy 0 rule 2 rule 0").unwrap(), destroyed);
    let created = [Record::Created { rule: 2 }];
    assert_eq!(bench.apply(&create(9, "drop")).unwrap(), created, "1 is the newest");
    let all = [Record::Flushed { rules_count: 2 }, Record::Created { rule: 0 }];
    assert_eq!(bench.apply(&format!("flow flush 0\n{}", create(9, "drop"))).unwrap(), all);
    assert_eq!((bench.session.len(), bench.nic.len()), (1, 1));
}

#[test]
fn every_command_does_what_it_says() {
    let mut bench = Bench::new();
    bench.apply(&create(53, "count / queue index 2")).unwrap();
    assert_eq!(bench.queue(53), Some(2));
    let counts = Counts { packets: 1, bytes: 64 };
    let counted = [Record::Counted { rule: 0, counts }];
    assert_eq!(bench.apply("flow query 0 0 count").unwrap(), counted);
    let updated = [Record::Updated { rule: 0 }];
    assert_eq!(bench.apply("flow update 0 0 actions queue index 3 / end").unwrap(), updated);
    assert_eq!(bench.queue(53), Some(3));
    let line = create(54, "drop").replace("create", "validate");
    assert_eq!(bench.apply(&line).unwrap(), [Record::Validated]);
    let rss = bench.queue(54);
    assert_eq!((rss.is_some(), bench.nic.len()), (true, 1), "RSS, and no new rule");
    bench.apply(&create(1, "drop").replace("ingress", "group 3 priority 7 ingress")).unwrap();
    let listed = [
        RuleSummary { rule: 0, group: 0, priority: 0, shape: "IPV4 UDP => QUEUE".into() },
        RuleSummary { rule: 1, group: 3, priority: 7, shape: "IPV4 UDP => DROP".into() },
    ];
    assert_eq!(bench.apply("flow list 0").unwrap(), [Record::Listed(listed.to_vec())]);
    assert_eq!(bench.apply("flow isolate 0 1").unwrap(), [Record::Isolated { on: true }]);
    assert_eq!((bench.queue(53), bench.queue(54)), (Some(3), None));
    assert!(bench.nic.is_isolated());
    bench.apply("flow isolate 0 0").unwrap();
    assert_eq!(bench.queue(54), rss);
    assert!(!bench.nic.is_isolated());
}

#[test]
fn aged_rules_are_listed_and_destroyed_when_that_is_asked_for() {
    let mut bench = Bench::new();
    let text: String = (0..3).map(|port| create(port, "age timeout 5 / queue index 1")).collect();
    bench.apply(&(text + &create(3, "drop"))).unwrap();
    bench.nic.set_time_ns(3_000_000_000);
    bench.queue(1);
    bench.nic.set_time_ns(7_000_000_000);
    let age = Age { idle_ns: 4_000_000_000, timeout_s: 5 };
    assert_eq!(bench.apply("flow query 0 1 age").unwrap(), [Record::Age { rule: 1, age }]);
    let aged = |destroyed| [Record::Aged { rules: vec![0, 2], destroyed }];
    assert_eq!(bench.apply("flow aged 0").unwrap(), aged(false));
    assert_eq!(bench.session.len(), 4, "they are told, and nothing else");
    bench.apply("flow aged 0 destroy\nflow fly 0").unwrap_err();
    assert_eq!(bench.session.len(), 4);
    assert_eq!(bench.apply("flow aged 0 destroy").unwrap(), aged(true));
    assert_eq!((bench.session.len(), bench.nic.len()), (2, 2));
    assert_eq!(bench.apply("flow query 0 1 age").unwrap(), [Record::Age { rule: 1, age }]);
    let problem = said(&mut bench, "flow query 0 3 age");
    assert!(problem.contains("rule 3 has no `age` among its actions"), "{problem}");
}

/// What a rule with these actions makes of a frame.
fn made(bench: &mut Bench, actions: &str, frame: &[u8]) -> Vec<u8> {
    let rule = format!("flow create 0 ingress pattern eth / end actions {actions} / drop / end");
    bench.apply(&format!("flow flush 0\n{rule}")).unwrap();
    let (region, mut descs) = Region::new(1, 300).unwrap();
    region.slot_mut(&mut descs[0])[..frame.len()].copy_from_slice(frame);
    region.set_len(&mut descs[0], frame.len() as u16);
    assert_eq!(bench.worker.classify(&region, &mut descs), 1);
    region.frame(&descs[0]).to_vec()
}

#[test]
fn a_packet_enters_a_tunnel_whose_headers_were_set_and_leaves_it() {
    let mut bench = Bench::new();
    let frame: Vec<u8> = (0..60).collect();
    for (set, action, raw) in [
        (
            "set vxlan ip-version ipv4 vni 4 udp-src 5 udp-dst 4789 ip-src 127.0.0.1 ip-dst \
             128.0.0.1 eth-src 11:11:11:11:11:11 eth-dst 22:22:22:22:22:22",
            "vxlan",
            "set raw_encap 1 eth src is 11:11:11:11:11:11 dst is 22:22:22:22:22:22 / ipv4 src is \
             127.0.0.1 dst is 128.0.0.1 ttl is 64 / udp src is 5 dst is 4789 / vxlan vni is 4 / \
             end_set",
        ),
        (
            "set vxlan-with-vlan ip-version ipv6 vni 4 udp-src 5 udp-dst 4789 ip-src ::1 ip-dst \
             ::2 vlan-tci 34 eth-src 11:11:11:11:11:11 eth-dst 22:22:22:22:22:22",
            "vxlan",
            "set raw_encap 1 eth src is 11:11:11:11:11:11 dst is 22:22:22:22:22:22 / vlan tci is \
             34 / ipv6 src is ::1 dst is ::2 hop is 64 / udp src is 5 dst is 4789 / vxlan vni is 4 \
             / end_set",
        ),
        (
            "set nvgre ip-version ipv4 tni 4 ip-src 127.0.0.1 ip-dst 128.0.0.1 eth-src \
             11:11:11:11:11:11 eth-dst 22:22:22:22:22:22",
            "nvgre",
            "set raw_encap 1 eth src is 11:11:11:11:11:11 dst is 22:22:22:22:22:22 / ipv4 src is \
             127.0.0.1 dst is 128.0.0.1 ttl is 64 / gre c_rsvd0_ver is 0x2000 protocol is 0x6558 / \
             gre_key value is 0x400 / end_set",
        ),
    ] {
        let lines = format!("{set}\n{raw}\n{}", raw.replace("encap 1", "decap 6"));
        assert_eq!(bench.apply(&lines).unwrap(), [Record::Set, Record::Set, Record::Set]);
        let outer = made(&mut bench, &format!("{action}_encap"), &frame);
        let stack = walk(&outer);
        assert_eq!((stack.missing_len(), stack.checksum_errors()), (0, vec![]), "{stack:?}");
        assert_eq!(made(&mut bench, "raw_encap index 1", &frame), outer, "{set}");
        assert_eq!(made(&mut bench, &format!("{action}_decap"), &outer), frame);
        assert_eq!(made(&mut bench, "raw_decap index 6", &outer), frame);
        let there = format!("{action}_encap / raw_decap index 6 / raw_encap index 1");
        assert_eq!(made(&mut bench, &there, &frame), outer);
    }
}

/// What `docs/rules.md` says of headers.
#[test]
fn the_headers_of_the_book_are_set_and_used() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules.md");
    let book = std::fs::read_to_string(path).unwrap();
    let section = book.split("\n## ").find(|section| section.starts_with("Headers\n")).unwrap();
    let example = section.split("```").nth(1).unwrap().strip_prefix("text\n").unwrap();
    let [one, other] = [0, 1].map(|rule| Record::Created { rule });
    let records = [Record::Set, one, Record::Set, Record::Set, other];
    assert_eq!(Bench::new().apply(example).unwrap(), records);
}

#[test]
fn headers_are_those_that_were_set_last_by_a_text_that_was_applied() {
    let mut bench = Bench::new();
    let set = |port| format!("set raw_encap udp src is {port} / end_set\n");
    bench.apply(&set(1)).unwrap();
    bench.apply(&(set(2) + "flow fly 0")).unwrap_err();
    assert_eq!(made(&mut bench, "raw_encap", &[9; 60])[..2], [0, 1]);
    let twice = set(3) + &create(7, "raw_encap / queue index 1") + &set(4);
    bench.apply(&twice).unwrap();
    assert_eq!(made(&mut bench, "raw_encap", &[9; 60])[..2], [0, 4]);
    let shape = "ETH => RAW_ENCAP DROP".to_owned();
    let listed = [RuleSummary { rule: 0, group: 0, priority: 0, shape }];
    assert_eq!(bench.apply("flow list 0").unwrap(), [Record::Listed(listed.to_vec())]);
}

#[test]
fn a_refused_text_leaves_everything_as_it_was() {
    let mut bench = Bench::new();
    let rss = bench.queue(3);
    bench.apply(&(create(1, "queue index 1") + &create(2, "queue index 2"))).unwrap();
    for last in ["flow destroy 0 rule 9\n", "flow fly 0\n", "flow list 1\n"] {
        let text = create(3, "drop")
            + "flow destroy 0 rule 0\nflow update 0 1 actions drop / end\nflow isolate 0 1\n"
            + last;
        bench.apply(&text).unwrap_err();
        let queues = [1, 2, 3].map(|port| bench.queue(port));
        assert_eq!(queues, [Some(1), Some(2), rss], "{last}");
        assert_eq!((bench.session.len(), bench.nic.len()), (2, 2), "{last}");
        assert!(!bench.nic.is_isolated());
    }
    let text =
        format!("flow flush 0\n{}flow create 1 ingress pattern ipv4 / {UDP}", create(7, "drop"));
    bench.apply(&text).unwrap_err();
    let listed = bench.apply("flow list 0").unwrap();
    let Record::Listed(rules) = &listed[0] else { panic!("{listed:?}") };
    let shapes: Vec<_> = rules.iter().map(|rule| (rule.rule, rule.shape.as_str())).collect();
    assert_eq!(shapes, [(0, "IPV4 UDP => QUEUE"), (1, "IPV4 UDP => QUEUE")]);
    assert_eq!(bench.apply(&create(8, "drop")).unwrap(), [Record::Created { rule: 2 }]);
}

#[test]
fn a_text_becomes_visible_at_one_instant() {
    let mut bench = Bench::new();
    bench.apply(&create(1, "queue index 1")).unwrap();
    let Bench { nic, worker, session } = &mut bench;
    let before = [1, 2, 3].map(|port| queue(worker, port));
    let text = create(2, "queue index 3") + "flow destroy 0 rule 0\nflow isolate 0 1\n";
    let mut transaction = nic.transaction();
    let records = session.apply_text(&mut transaction, text.as_bytes()).unwrap();
    assert_eq!(records.len(), 3);
    assert_eq!([1, 2, 3].map(|port| queue(worker, port)), before, "not committed");
    transaction.commit().unwrap();
    let after = [None, Some(3), None];
    assert_eq!([1, 2, 3].map(|port| queue(worker, port)), after);
    while !nic.run_housekeeping(64) {
        queue(worker, 1);
    }
    assert_eq!([1, 2, 3].map(|port| queue(worker, port)), after, "after housekeeping");
    let mut transaction = nic.transaction();
    transaction.isolate(false).unwrap();
    drop(transaction);
    assert_eq!(queue(worker, 1), None, "taken back");
}

/// What is refused when it is carried out: line, column, and why.
const REFUSED: &[(&str, &str)] = &[
    (
        "flow create 0 ingress pattern ipv4 / udp dst is 1 / end actions drop / end",
        "line 2, column 6: group 0 has this pattern with priority 0 already; update that rule: it \
         is rule 0, of line 1",
    ),
    (
        "flow validate 0 ingress pattern ipv4 / udp dst is 1 / end actions drop / end",
        "line 2, column 6: group 0 has this pattern with priority 0 already; update that rule: it \
         is rule 0, of line 1",
    ),
    (
        "flow create 0 ingress pattern eth / end actions count / end",
        "line 2, column 57: no fate among the actions; add queue, rss, drop, jump or \
         represented_port",
    ),
    (
        "flow create 0 group 2 ingress pattern eth / end actions count / jump group 2 / end",
        "line 2, column 76: jump from group 2 to group 2; a jump goes to a greater group",
    ),
    (
        "flow validate 0 ingress pattern eth / end actions queue index 4 / end",
        "line 2, column 63: no queue 4; this NIC has queues 0 to 3",
    ),
    (
        "flow create 0 ingress pattern eth / end actions queue index 0x7fff / end",
        "line 2, column 61: no queue 32767; this NIC has queues 0 to 3",
    ),
    (
        "flow create 0 ingress pattern eth / end actions rss level 1 queues 0 4 1 end / end",
        "line 2, column 70: no queue 4; this NIC has queues 0 to 3",
    ),
    (
        "flow create 0 ingress pattern eth / end actions port_id id 1 / end",
        "line 2, column 60: port 1; this NIC has ports 0 to 0",
    ),
    (
        "flow create 0 ingress pattern eth / end actions meter mtr_id 9 / drop / end",
        "line 2, column 62: no meter 9: a text makes none; a program that embeds the card does \
         (`Nic::create_meter`), before rules name them",
    ),
    (
        "flow update 0 0 actions drop / queue index 1 / end",
        "line 2, column 32: two fates: `drop` and `queue index 1`; a packet has one",
    ),
    (
        "flow create 0 priority 65536 ingress pattern eth / end actions drop / end",
        "line 2, column 24: 65536 is too great: priority is 0 to 65535",
    ),
    ("flow destroy 0 rule 0 rule 0", "line 2, column 28: no rule 0: port 0 has none"),
    (
        "flow update 0 7 actions drop / end",
        "line 2, column 15: no rule 7 on port 0: the newest is 0",
    ),
    ("flow query 0 0 count", "line 2, column 14: rule 0 has no `count` among its actions"),
    ("flow flush 3", "line 2, column 12: no port 3: this is port 0"),
    ("flow flush 256", "line 2, column 12: no port 256: ports are 0 to 255"),
    (
        "flow create 0 ingress pattern ipv4 / tcp / udp / end actions drop / end",
        "line 2, column 44: udp stands behind tcp; it belongs behind ipv4 or ipv6",
    ),
    (
        "flow create 0 ingress pattern eth type is 0x0806 / ipv4 / end actions drop / end",
        "line 2, column 52: the type before ipv4 is 0x0806; that of ipv4 is 0x0800",
    ),
    (
        "flow create 0 ingress pattern ipv4 / udp src spec 1 src mask 0x1ffff / end actions end",
        "line 2, column 62: 0x1ffff is too great: src is 0 to 65535",
    ),
];

#[test]
fn what_the_nic_refuses_is_said_with_its_place_and_nothing_is_applied() {
    for (line, expected) in REFUSED {
        let mut bench = Bench::new();
        let text = create(1, "drop") + line;
        assert_eq!(said(&mut bench, &text), *expected, "{line}");
        assert!(bench.nic.is_empty() && bench.session.is_empty(), "{line}");
    }
}

#[test]
fn a_rule_that_stands_twice_is_named_with_its_line_in_this_text() {
    let mut bench = Bench::new();
    let lines = ["# one", &create(1, "drop"), &create(2, "drop")].join("\n");
    let twice = said(&mut bench, &(lines.clone() + &create(2, "queue")));
    assert!(twice.ends_with("update that rule: it is rule 1, of line 4"), "{twice}");
    bench.apply(&lines).unwrap();
    let twice = said(&mut bench, &create(2, "queue"));
    assert!(twice.ends_with("update that rule: it is rule 1"), "of another text: {twice}");
    let twice = said(&mut bench, &format!("flow destroy 0 rule 1\n{0}{0}", create(3, "drop")));
    assert!(twice.ends_with("update that rule: it is rule 1, of line 2"), "{twice}");
}

#[test]
fn the_rule_that_is_one_too_many_for_the_root_is_named() {
    let mut bench = Bench::new();
    let rule = |at: u32| {
        let address = std::net::Ipv4Addr::from_bits(at);
        format!("flow create 0 group 0 ingress pattern ipv4 src is {address} / {UDP}")
    };
    let full: String = (0..ROOT_RULES_MAX).map(&rule).collect();
    let text = format!("{full}{}{}", rule(1 << 30), rule(1 << 31));
    let expected =
        "line 65537, column 21: group 0 is full: 65536 rules; destroy some or use another group";
    assert_eq!(said(&mut bench, &text), expected);
    assert!(bench.nic.is_empty());
    // What is destroyed later in the same text makes room.
    let text = format!("{full}{}flow destroy 0 rule 7\n", rule(1 << 30));
    bench.apply(&text).unwrap();
    assert_eq!(bench.nic.len(), ROOT_RULES_MAX);
    let line = rule(1 << 31).replace("create", "validate");
    assert!(said(&mut bench, &line).contains("group 0 is full"), "{}", said(&mut bench, &line));
}

#[test]
fn a_rule_behind_the_greatest_number_gets_the_smallest_free_one() {
    let mut bench = Bench::new();
    bench.apply(&create(1, "drop")).unwrap();
    let newest = bench.session.rules.remove(&0).unwrap();
    bench.session.rules.insert(u32::MAX, newest);
    for (port, number) in [(2, 0), (3, 1), (4, 2)] {
        let records = bench.apply(&create(port, "drop")).unwrap();
        assert_eq!(records, [Record::Created { rule: number }]);
    }
    bench.apply("flow destroy 0 rule 1\n").unwrap();
    assert_eq!(bench.apply(&create(3, "drop")).unwrap(), [Record::Created { rule: 1 }]);
    assert_eq!(bench.apply("flow flush 0\n").unwrap(), [Record::Flushed { rules_count: 4 }]);
    assert_eq!(bench.apply(&create(3, "drop")).unwrap(), [Record::Created { rule: 0 }]);
}

#[test]
fn a_shape_that_no_rule_has_any_more_is_forgotten() {
    let mut bench = Bench::new();
    let shapes = |bench: &Bench| bench.session.shapes.texts.len();
    bench.apply(&(create(1, "drop") + &create(2, "drop"))).unwrap();
    assert_eq!(shapes(&bench), 1);
    bench.apply("flow destroy 0 rule 0\n").unwrap();
    assert_eq!(shapes(&bench), 1);
    // One that is refused leaves none, and takes none away.
    let two =
        format!("flow destroy 0 rule 1\n{}flow destroy 0 rule 9\n", create(3, "count / drop"));
    bench.apply(&two).unwrap_err();
    assert_eq!(shapes(&bench), 1);
    bench.apply("flow update 0 1 actions count / queue index 1 / end\n").unwrap();
    assert_eq!(shapes(&bench), 1);
    bench.apply("flow destroy 0 rule 1\n").unwrap();
    assert_eq!(shapes(&bench), 0);
}
