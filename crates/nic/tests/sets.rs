//! Sets of rules from files in ClassBench's format (Taylor and Turner, INFOCOM 2005), converted as
//! `niclab rules convert` does, against the definition.
//!
//! `NICLAB_CLASSBENCH` names a directory of them, `NICLAB_PACKETS` how many packets each set meets.

use std::path::PathBuf;

use niclab_nic::definition::{DefinedRule, Definition, Packet, Verdict};
use niclab_nic::limits::BURST;
use niclab_nic::memory::Region;
use niclab_nic::rss::Rss;
use niclab_nic::rule::item::{Item, ItemMatch};
use niclab_nic::rule::text::convert::{Format, convert};
use niclab_nic::rule::text::{Command, Parser};
use niclab_nic::rule::{Action, Rule, compile};
use niclab_nic::{Nic, NicConfig};

const QUEUES: u16 = 256;

/// Random numbers: splitmix64.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A value of a field that an item matches.
    fn value(&mut self, item: &ItemMatch, name: &str) -> u128 {
        let field = item.item.field(name).unwrap();
        let (spec, mask) = (field.value(&item.spec), field.value(&item.mask));
        if item.has_range(field) {
            let last = item.last.map_or(spec, |last| field.value(&last));
            return spec + u128::from(self.next()) % (last - spec + 1);
        }
        (spec & mask | u128::from(self.next()) & !mask) & field.ones()
    }
}

/// A frame that a rule matches.
fn frame(draw: &mut Draw, items: &[ItemMatch]) -> [u8; 60] {
    let mut frame = [0; 60];
    (frame[12], frame[14], frame[22]) = (8, 0x45, 64);
    let any = [ItemMatch::any(Item::Ipv4), ItemMatch::any(Item::Tcp)];
    let find = |items: &[ItemMatch], of: &[Item]| {
        items.iter().find(|item| of.contains(&item.item)).copied()
    };
    let ip = find(items, &[Item::Ipv4]).unwrap_or(any[0]);
    frame[26..30].copy_from_slice(&(draw.value(&ip, "src") as u32).to_be_bytes());
    frame[30..34].copy_from_slice(&(draw.value(&ip, "dst") as u32).to_be_bytes());
    let transport = find(items, &[Item::Icmp, Item::Tcp, Item::Udp]);
    frame[23] = match transport.map(|item| item.item) {
        Some(Item::Icmp) => 1,
        Some(Item::Tcp) => 6,
        Some(_) => 17,
        None => draw.value(&ip, "proto") as u8,
    };
    if let Some(icmp) = find(items, &[Item::Icmp]) {
        frame[34] = draw.value(&icmp, "type") as u8;
        frame[35] = draw.value(&icmp, "code") as u8;
        return frame;
    }
    let transport = find(items, &[Item::Tcp, Item::Udp]).unwrap_or(any[1]);
    frame[34..36].copy_from_slice(&(draw.value(&transport, "src") as u16).to_be_bytes());
    frame[36..38].copy_from_slice(&(draw.value(&transport, "dst") as u16).to_be_bytes());
    if transport.item == Item::Tcp {
        frame[47] = draw.value(&transport, "flags") as u8;
    }
    frame
}

/// How many packets of a set met a rule.
fn compare(text: &str, packets: usize) -> usize {
    let lines = convert(Format::ClassBench, text).unwrap();
    let mut nic = Nic::new(&NicConfig { queues: QUEUES, ..NicConfig::default() }).unwrap();
    let mut definition = Definition { queues: QUEUES, ..Definition::default() };
    let mut parser = Parser::default();
    for (line, number) in lines.lines().filter(|line| line.starts_with("flow")).zip(0_u64..) {
        let Command::Create { rule, .. } = parser.parse(1, line).unwrap().command else { panic!() };
        let (group, priority, items) = (rule.group, rule.priority, rule.items.to_vec());
        let actions = vec![Action::Queue((number % u64::from(QUEUES)) as u16)];
        let pattern = compile::pattern(&items).unwrap();
        // A set may have a rule twice; the second is refused.
        if nic.create(&Rule { group, priority, pattern, actions: &actions }).is_ok() {
            let rss = Rss::default();
            let rule =
                DefinedRule { group, priority, items, actions, rss, ..DefinedRule::default() };
            definition.rules.push(rule);
        }
    }
    let mut worker = nic.worker();
    let (region, mut descs) = Region::new(BURST, 60).unwrap();
    let (mut draw, mut hits) = (Draw(1), 0);
    for _ in 0..packets.div_ceil(BURST) {
        let mut frames = Vec::new();
        for desc in &mut descs {
            let at = draw.next() as usize % definition.rules.len();
            let frame = frame(&mut draw, &definition.rules[at].items);
            region.slot_mut(desc)[..60].copy_from_slice(&frame);
            region.set_len(desc, 60);
            frames.push(frame);
        }
        assert_eq!(worker.classify(&region, &mut descs), 0);
        for (desc, frame) in descs.iter().zip(frames) {
            if let Verdict::Queue(queue) = definition.classify(&mut Packet::new(&frame)) {
                hits += 1;
                assert_eq!(desc.queue, queue, "{frame:02x?}");
            }
        }
    }
    hits
}

/// Rules and ranges as the sets have them, few enough for every run.
const SAMPLE: &str = "\
@10.1.0.0/16\t192.168.7.9/32\t0 : 65535\t1024 : 65535\t0x06/0xFF\t0x0000/0x0000\t
@10.1.2.3/32\t192.168.0.0/16\t0 : 65535\t53 : 53\t0x11/0xFF\t0x0000/0x0000\t
@0.0.0.0/0\t192.168.7.0/24\t1000 : 2999\t80 : 8080\t0x06/0xFF\t0x1000/0x1000\t
@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x01/0xFF\t0x0000/0x0000\t
@10.1.0.0/17\t192.168.7.8/31\t7 : 7\t6789 : 6790\t0x11/0xFF\t0x0000/0x0000\t
@11.0.0.0/9\t0.0.0.0/1\t0 : 65535\t0 : 1023\t0x06/0xFF\t0x0000/0x0000\t
@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\t
";

#[test]
fn packets_of_a_sample_meet_the_rules_that_the_definition_finds() {
    assert!(compare(SAMPLE, 20_000) >= 20_000);
}

#[test]
fn packets_of_whole_sets_meet_the_rules_that_the_definition_finds() {
    let Some(directory) = std::env::var_os("NICLAB_CLASSBENCH").map(PathBuf::from) else {
        println!(
            "SKIP packets_of_whole_sets_meet_the_rules_that_the_definition_finds: \
             NICLAB_CLASSBENCH names no directory of rule sets"
        );
        return;
    };
    let packets = std::env::var("NICLAB_PACKETS").ok().and_then(|n| n.parse().ok());
    let packets = packets.unwrap_or(500);
    let mut sets: Vec<PathBuf> = directory.read_dir().unwrap().map(|e| e.unwrap().path()).collect();
    sets.sort();
    for set in sets {
        let hits = compare(&std::fs::read_to_string(&set).unwrap(), packets);
        println!("{}: {hits} packets met a rule", set.display());
        assert!(hits >= packets);
    }
}
