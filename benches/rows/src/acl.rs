//! Ternary rules in the root group against `rte_acl`: packets that lie in rules drawn uniformly.
//!
//! Our side classifies frames: it reads their headers, finds the rule and fills in the queue. The
//! peer gets the five fields of the same packets read beforehand, and says the number of the rule.
//! Both must find the same rule for every packet before anything is timed.

use std::ops::Range;
use std::time::Instant;

use niclab_nic::limits::BURST;
use niclab_nic::rule::{Action, Pattern, Rule as NicRule};
use niclab_nic::{Nic, NicConfig, Operation, RuleError, RuleId, Worker};
use niclab_packet::key::{Depth, Key, field};
use niclab_packet::wire::IpProtocol;
use niclab_peer::{Peer, PeerError};
use niclab_table::Span;

use crate::frames::Frames;
use crate::sets::{Draw, PacketValues, Rule};
use crate::{Bench, BenchError, Measured, Slices};

/// Packets that go round in the bar's rows.
pub const PACKETS: usize = 1 << 16;
/// Packets in a call of the peer; 16, 256 and 1,024 are as fast.
const PEER_BURST: usize = BURST;
/// Queues: two of their numbers name a rule.
const QUEUES: u32 = 256;
/// Steps of what is put off, at a time.
const HOUSEKEEPING_STEPS: usize = 1_000;
/// All protocols.
const ANY_PROTOCOL: Span = Span { low: 0, high: 0xff };

/// The row: a set of rules, the best first, and `count` packets that go round.
pub fn classify(bench: &Bench, rules: &[Rule], count: usize) -> Result<Measured, BenchError> {
    let packets = packets(rules, count);
    let mut root = match Root::new(rules, &packets)? {
        Ok(root) => root,
        Err(why) => return Ok(Measured::of(Slices::NotSupported(why))),
    };
    let mut built = format!("{} rules: {}", rules.len(), root.built);
    let peer = match peer(bench, rules, &packets) {
        Ok((mut peer, theirs)) => {
            agree(&root.find()?, &mut peer)?;
            built += &format!("; rte_acl: {theirs}");
            Ok(peer)
        }
        Err(error) => Err(error),
    };
    let command = format!("classify {PEER_BURST} {}", bench.slice_ms);
    let ours = || Ok(root.frames.classify(&mut root.worker, bench.slice_ms));
    let measured = bench.compare(bench.pairs, peer, ours, |peer| Ok(peer.ask(&command)?))?;
    Ok(measured.with(built))
}

/// Packets in rules drawn uniformly, whatever the protocol of the rule. One that may have any is
/// met by TCP or UDP.
pub fn packets(rules: &[Rule], count: usize) -> Vec<PacketValues> {
    let mut draw = Draw::new(7);
    let mut packet = || {
        let rule = &rules[draw.below(rules.len() as u32) as usize];
        let mut packet = rule.map(|span| draw.within(span));
        if rule[4] == ANY_PROTOCOL {
            packet[4] = [IpProtocol::TCP.0, IpProtocol::UDP.0][draw.below(2) as usize].into();
        }
        if !has_ports(packet[4]) {
            (packet[2], packet[3]) = (0, 0);
        }
        packet
    };
    (0..count).map(|_| packet()).collect()
}

/// Whether the key of a packet has something in the place of the ports: ICMP has its type, code and
/// checksum there.
fn has_ports(protocol: u32) -> bool {
    [IpProtocol::TCP, IpProtocol::UDP, IpProtocol::ICMP].iter().any(|p| u32::from(p.0) == protocol)
}

/// What matches a rule.
fn pattern([src, dst, sport, dport, protocol]: &Rule) -> Pattern {
    let (mut value, mut mask) = ([0; 64], [0; 64]);
    let mut put = |place: Range<usize>, bytes: &[u8], bits: &[u8]| {
        value[place.clone()].copy_from_slice(bytes);
        mask[place].copy_from_slice(bits);
    };
    // The bits that all values of a prefix have in common.
    let bits = |span: &Span| !(span.low ^ span.high);
    put(field::ETHER_TYPE, &[0x08, 0x00], &[0xff; 2]);
    put(field::DEPTH, &[Depth::Ip.bit()], &[Depth::Ip.bit()]);
    put(field::SRC_HEAD, &src.low.to_be_bytes(), &bits(src).to_be_bytes());
    put(field::DST_HEAD, &dst.low.to_be_bytes(), &bits(dst).to_be_bytes());
    put(field::PROTOCOL, &[protocol.low as u8], &[bits(protocol) as u8]);
    let ports = |span: &Span| span.low as u16..=span.high as u16;
    Pattern::masked(&Key::from_bytes(&value), &Key::from_bytes(&mask))
        .sport_range(ports(sport))
        .dport_range(ports(dport))
}

/// A card with the rules in its root group, and the frames.
pub(crate) struct Root {
    nic: Nic,
    pub(crate) worker: Worker,
    pub(crate) frames: Frames,
    rules: Vec<RuleId>,
    /// What it took.
    pub(crate) built: String,
}

impl Root {
    /// The inner error says what of the set is not supported.
    pub(crate) fn new(
        rules: &[Rule],
        packets: &[PacketValues],
    ) -> Result<Result<Root, String>, BenchError> {
        let patterns: Vec<Pattern> = rules.iter().map(pattern).collect();
        let actions = [Action::Queue(0)];
        let create = |(priority, pattern): (usize, &Pattern)| {
            let pattern = pattern.clone();
            let priority = priority as u32;
            NicRule { group: 0, priority, pattern, actions: &actions }
        };
        let rules: Vec<NicRule<'_>> = patterns.iter().enumerate().map(create).collect();
        let operations: Vec<Operation<'_>> = rules.iter().map(Operation::Create).collect();
        let config = NicConfig { queues: QUEUES as u16, seed: 42, ..NicConfig::default() };
        let mut nic = Nic::new(&config)?;
        let start = Instant::now();
        let mut results = Vec::with_capacity(rules.len());
        nic.run(&operations, |result| results.push(result));
        // As a control loop does when no rule comes.
        while !nic.run_housekeeping(HOUSEKEEPING_STEPS) {}
        let took = built(start.elapsed().as_nanos() as u64, nic.rule_bytes() as u64);
        let ids: Result<Vec<RuleId>, RuleError> = results.into_iter().collect();
        let ids = match ids {
            Err(why @ RuleError::MasksTooMany { .. }) => return Ok(Err(why.to_string())),
            ids => ids?,
        };
        let (worker, frames) = (nic.worker(), Frames::new(packets)?);
        Ok(Ok(Root { nic, worker, frames, rules: ids, built: took }))
    }

    /// The number of each packet's rule, from 1: what two queues say, one after the other.
    pub(crate) fn find(&mut self) -> Result<Vec<u32>, RuleError> {
        let mut found = vec![1; self.frames.descs.len()];
        for digit in [1, QUEUES] {
            for (number, &id) in self.rules.iter().enumerate() {
                let queue = number as u32 / digit % QUEUES;
                self.nic.update(id, &[Action::Queue(queue as u16)])?;
            }
            for burst in self.frames.descs.chunks_mut(BURST) {
                self.worker.classify(&self.frames.region, burst);
            }
            for (found, desc) in found.iter_mut().zip(&self.frames.descs) {
                *found += u32::from(desc.queue) * digit;
            }
        }
        Ok(found)
    }
}

/// Starts the peer with the rules and packets; what its build took.
fn peer(
    bench: &Bench,
    rules: &[Rule],
    packets: &[PacketValues],
) -> Result<(Peer, String), BenchError> {
    let mut peer = bench.peer("rte_acl", &[])?;
    let answer = peer.tell(&rules_command(rules))?;
    let took = peer_built(answer);
    let lines: String = packets.iter().map(line).collect();
    peer.tell(&format!("packets {}\n{}", packets.len(), lines.trim_end()))?;
    Ok((peer, took))
}

/// What a table took: time, memory.
pub(crate) fn built(ns: u64, bytes: u64) -> String {
    format!("{:.1} ms, {:.1} MB", ns as f64 / 1e6, bytes as f64 / 1e6)
}

/// What a peer says that its table took.
pub(crate) fn peer_built(answer: String) -> String {
    let numbers: Vec<u64> = answer.split(' ').filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [ns, bytes] => built(ns, bytes),
        _ => answer,
    }
}

fn rules_command(rules: &[Rule]) -> String {
    let mut text = format!("rules {}", rules.len());
    for [src, dst, sport, dport, protocol] in rules {
        let length = |span: &Span| (span.low ^ span.high).leading_zeros();
        let mask = if *protocol == ANY_PROTOCOL { 0 } else { 0xff };
        text += &format!("\n{} {} {} {} ", src.low, length(src), dst.low, length(dst));
        text += &format!("{} {} {} {} ", sport.low, sport.high, dport.low, dport.high);
        text += &format!("{} {mask}", protocol.low);
    }
    text
}

fn line([src, dst, sport, dport, protocol]: &PacketValues) -> String {
    format!("{src} {dst} {sport} {dport} {protocol}\n")
}

/// Both sides must find the same for each packet.
pub(crate) fn agree(found: &[u32], peer: &mut Peer) -> Result<(), BenchError> {
    let answer = peer.tell("match")?;
    let theirs = answer.split(' ').filter_map(|word| word.parse().ok());
    let theirs: Vec<u32> = theirs.collect();
    if theirs.len() != found.len() {
        let (command, answer) = ("match".to_owned(), format!("{} rules", theirs.len()));
        return Err(PeerError::Answer { peer: peer.name().to_owned(), command, answer }.into());
    }
    for (packet, (&ours, &theirs)) in found.iter().zip(&theirs).enumerate() {
        if ours != theirs {
            return Err(BenchError::Rules { packet, ours, theirs });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use niclab_table::Bits;

    use super::*;
    use crate::sets::generate;

    fn rules() -> Vec<Rule> {
        generate(300)
    }

    /// The number of the first rule that has the packet, from 1.
    fn scan(rules: &[Rule], packet: &PacketValues) -> u32 {
        let has = |span: &Span, value: u32| (span.low..=span.high).contains(&value);
        let found = rules.iter().position(|r| r.iter().zip(packet).all(|(s, &v)| has(s, v)));
        found.map_or(0, |at| at as u32 + 1)
    }

    /// A peer that takes rules and packets and says what is in the file `match`.
    fn script(directory: &Path, matches: &[u32]) -> Bench {
        let matches: Vec<String> = matches.iter().map(u32::to_string).collect();
        fs::write(directory.join("match"), format!("ok {}\n", matches.join(" "))).unwrap();
        let text = format!(
            "#!/bin/sh\necho ok\nwhile read -r command count rest; do case $command in\n\
             rules|packets) while [ $count -gt 0 ]; do read -r line; count=$((count - 1)); done\n\
             echo ok 2000000 3000000 ;;\nmatch) cat {}/match ;;\n*) echo 10 1000 ;; esac; done\n",
            directory.display()
        );
        let path = directory.join("rte_acl");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Bench { core: 0, other: None, pairs: 6, peers: directory.to_owned(), slice_ms: 1 }
    }

    #[test]
    fn the_card_finds_the_rules_that_a_scan_finds() {
        let rules = rules();
        let packets = packets(&rules, 2_048);
        let mut root = Root::new(&rules, &packets).unwrap().unwrap();
        let expected: Vec<u32> = packets.iter().map(|packet| scan(&rules, packet)).collect();
        assert!(expected.iter().all(|&rule| rule > 0), "every packet lies in a rule");
        assert!(expected.iter().any(|&rule| rule > 256 || rules.len() <= 256));
        assert_eq!(root.find().unwrap(), expected);
    }

    #[test]
    fn a_set_is_measured_where_both_find_the_same_rules() {
        let directory = tempfile::tempdir().unwrap();
        let rules = rules();
        let mut found: Vec<u32> =
            packets(&rules, 128).iter().map(|packet| scan(&rules, packet)).collect();
        let bench = script(directory.path(), &found);
        let measured = classify(&bench, &rules, 128).unwrap();
        assert!(matches!(measured.slices, Slices::Paired(pairs) if pairs.theirs == [1e7; 6]));
        assert!(measured.notes[0].ends_with("; rte_acl: 2.0 ms, 3.0 MB"), "{:?}", measured.notes);
        found[77] += 1;
        let error = classify(&script(directory.path(), &found), &rules, 128).unwrap_err();
        let [ours, theirs] = [found[77] - 1, found[77]];
        assert_eq!(
            error.to_string(),
            format!("packet 77: we found rule {ours}, the peer {theirs}: not the same work")
        );
        assert!(classify(&script(directory.path(), &found[1..]), &rules, 128).is_err());
    }

    /// Run where `benches/peers/build` has put the peer.
    #[test]
    fn the_peer_itself_finds_the_same_rules() {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
        let bench = Bench { core: 0, other: None, pairs: 2, peers, slice_ms: 1 };
        let measured = classify(&bench, &rules(), 1_024).unwrap();
        if let Slices::Alone { missing, .. } = measured.slices {
            println!("SKIP the_peer_itself_finds_the_same_rules: {missing}");
        }
    }

    #[test]
    fn what_the_card_refuses_is_a_result() {
        // Each has another mask.
        let rule = |number: u32| -> Rule {
            let prefix = |length| Span::prefix(Bits::ThirtyTwo, 1 << 31, length);
            let port = Span { low: 0, high: if number < 33 * 33 { 0 } else { 0xffff } };
            let [src, dst] = [prefix(number % 33), prefix(number / 33 % 33)];
            [src, dst, port, port, Span::one(17)]
        };
        let rules: Vec<Rule> = (0..2 * 33 * 33).map(rule).collect();
        let bench = Bench { pairs: 1, slice_ms: 1, ..Bench::default() };
        let slices = classify(&bench, &rules, 64).unwrap().slices;
        assert!(matches!(slices, Slices::NotSupported(why) if why.contains("2048 masks")));
    }
}
