//! Converts rules of niclab into n-tuple rules of a card, or names the part that such a card lacks.
//!
//! An n-tuple rule has one header whose fields count, and a queue or nothing for its packets. What
//! it has no words for is refused by its name, and never left out: a rule that matches more than
//! was asked for would be another one.

use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_packet::key::{Depth, field};

use super::ethtool::flow::{ANYWHERE, Fate, Fields, Flow, FlowKind};

const ETHER_IPV4: [u8; 2] = [0x08, 0x00];
const ETHER_IPV6: [u8; 2] = [0x86, 0xdd];
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// Bytes of a key.
type KeyBytes = [u8; 64];

/// The rule of a card that does what this one does, its place left open; or what such rules have no
/// words for.
pub fn flow(rule: &Rule<'_>) -> Result<Flow, String> {
    if rule.group != 0 {
        return Err(format!("group {}", rule.group));
    }
    let fate = fate(rule.actions)?;
    let (kind, value, mask) = matched(&rule.pattern)?;
    Ok(Flow { kind, value, mask, fate, location: ANYWHERE })
}

/// The action on the packets: the only one.
fn fate(actions: &[Action]) -> Result<Fate, String> {
    match actions {
        [Action::Drop] => Ok(Fate::Drop),
        [Action::Queue(queue)] => Ok(Fate::Queue((*queue).into())),
        actions => {
            let has_fate = |action: &&Action| !matches!(action, Action::Drop | Action::Queue(_));
            let other = actions.iter().find(has_fate).map_or("two fates".into(), Action::to_string);
            Err(format!("action {other}"))
        }
    }
}

/// The header that counts, values and masks.
fn matched(pattern: &Pattern) -> Result<(FlowKind, Fields, Fields), String> {
    if !pattern.is_of_outer_bits() {
        return Err("headers inside a tunnel, ranges, or fields that few cards have".into());
    }
    let (value, mask) = (pattern.value().to_bytes(), pattern.mask().to_bytes());
    // Each by the name that a user of n-tuple rules would look for.
    for (name, place) in [
        ("the inner VLAN tag", field::VLAN_INNER),
        ("TTL or hop limit", field::TTL),
        ("TCP flags", field::TCP_FLAGS),
        ("fragments", field::FRAGMENT),
    ] {
        if mask[place].iter().any(|byte| *byte != 0) {
            return Err(name.into());
        }
    }
    let kind = kind(&value, &mask)?;
    tags(kind, &value, &mask)?;
    let (mut value, mut mask) = (fields(&value), fields(&mask));
    if kind != FlowKind::Ether {
        if mask.eth_src != [0; 6] {
            return Err("source MAC address beside IP".into());
        }
        // The kind says it.
        (value.ether_type, mask.ether_type) = ([0; 2], [0; 2]);
    }
    if !matches!(kind, FlowKind::Ipv4 | FlowKind::Ipv6) {
        (value.protocol, mask.protocol) = (0, 0);
    }
    Ok((kind, value, mask))
}

/// A VLAN tag counts by its fields: that there is one, whatever it says, cannot be asked for. That
/// there is none says the type in the Ethernet header.
fn tags(kind: FlowKind, value: &KeyBytes, mask: &KeyBytes) -> Result<(), String> {
    let (tags, asked) = (value[field::VLANS.start], mask[field::VLANS.start]);
    let has_fields = mask[field::VLAN_OUTER] != [0; 2];
    match (asked, asked & tags) {
        (0, _) if !has_fields => Ok(()),
        (1, 1) if has_fields => Ok(()),
        (1, 1) => Err("any VLAN tag".into()),
        (_, 0) if kind == FlowKind::Ether && mask[field::ETHER_TYPE] == [0xff; 2] => Ok(()),
        (_, 0) => Err("no VLAN tag".into()),
        _ => Err("two VLAN tags".into()),
    }
}

/// The header that a rule with these fields is of.
fn kind(value: &KeyBytes, mask: &KeyBytes) -> Result<FlowKind, String> {
    let ether_type = [value[field::ETHER_TYPE.start], value[field::ETHER_TYPE.start + 1]];
    let is_typed = mask[field::ETHER_TYPE] == [0xff; 2];
    let [v4, v6] = [ETHER_IPV4, ETHER_IPV6].map(|of| is_typed && of == ether_type);
    let depths = value[field::DEPTH.start] & mask[field::DEPTH.start];
    let (protocol, protocol_mask) = (value[field::PROTOCOL.start], mask[field::PROTOCOL.start]);
    let counts = |place: std::ops::Range<usize>| mask[place].iter().any(|byte| *byte != 0);
    let has_ports = counts(field::SPORT) || counts(field::DPORT);
    if !v4 && !v6 {
        let beyond = [field::SRC_HEAD, field::DST_HEAD, field::SRC_TAIL, field::DST_TAIL];
        let has_ip = has_ports || protocol_mask != 0 || beyond.into_iter().any(counts);
        return match has_ip || depths & !Depth::Ethernet.bit() != 0 {
            true => Err("IP of any version".into()),
            false => Ok(FlowKind::Ether),
        };
    }
    let of = |four, six| if v4 { four } else { six };
    match (protocol_mask, protocol) {
        (0xff, TCP) => Ok(of(FlowKind::Tcp4, FlowKind::Tcp6)),
        (0xff, UDP) => Ok(of(FlowKind::Udp4, FlowKind::Udp6)),
        (0xff, SCTP) => Ok(of(FlowKind::Sctp4, FlowKind::Sctp6)),
        _ if has_ports => Err("ports of any protocol".into()),
        (_, protocol) if depths & Depth::Transport.bit() != 0 => {
            Err(format!("the header of protocol {protocol}"))
        }
        _ => Ok(of(FlowKind::Ipv4, FlowKind::Ipv6)),
    }
}

/// The fields of a key, or of its mask.
fn fields(line: &KeyBytes) -> Fields {
    let bytes = |at: usize| line[at];
    let two = |place: std::ops::Range<usize>| [line[place.start], line[place.start + 1]];
    let six = |place: std::ops::Range<usize>| std::array::from_fn(|at| line[place.start + at]);
    let address = |head: std::ops::Range<usize>, tail: std::ops::Range<usize>| {
        std::array::from_fn(|at| match at.checked_sub(4) {
            None => line[head.start + at],
            Some(at) => line[tail.start + at],
        })
    };
    Fields {
        eth_dst: six(field::ETH_DST),
        eth_src: six(field::ETH_SRC),
        ether_type: two(field::ETHER_TYPE),
        src: address(field::SRC_HEAD, field::SRC_TAIL),
        dst: address(field::DST_HEAD, field::DST_TAIL),
        sport: two(field::SPORT),
        dport: two(field::DPORT),
        tos: bytes(field::TOS.start),
        protocol: bytes(field::PROTOCOL.start),
        vlan_tci: two(field::VLAN_OUTER),
    }
}

#[cfg(test)]
mod tests {
    use niclab_nic::rule::text::{Command, Parser};
    use niclab_packet::key::Key;

    use super::*;

    /// A rule in the words of testpmd's users, translated to those of ethtool.
    fn error(rule: &str) -> String {
        let mut parser = Parser::default();
        let text = format!("flow create 0 {rule}");
        let parsed = parser.parse(1, &text).unwrap();
        let Command::Create { rule, .. } = parsed.command else { panic!("{text}") };
        let pattern = parsed.pattern(&rule).unwrap();
        let (group, priority, actions) = (rule.group, rule.priority, rule.actions);
        let made = flow(&Rule { group, priority, pattern, actions });
        made.map_or_else(|why| format!("not supported: {why}"), |flow| flow.to_string())
    }

    #[test]
    fn rules_are_what_users_of_ethtool_would_write() {
        let mac = "m ff:ff:ff:ff:ff:ff";
        let (one, all) = ("m 255.255.255.255", "m 0xffff");
        let six = "m ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        for (pattern, expected) in [
            ("eth", "ether".to_owned()),
            ("eth dst is 02:00:00:00:00:01", format!("ether dst-mac 02:00:00:00:00:01 {mac}")),
            (
                "eth src is 02:00:00:00:00:02 type is 0x88f7",
                format!("ether src-mac 02:00:00:00:00:02 {mac} proto 35063 {all}"),
            ),
            ("eth / ipv4", "ip4".into()),
            ("eth / ipv6", "ip6".into()),
            (
                "eth dst is 02:00:00:00:00:01 / ipv4 src is 10.0.0.1",
                format!("ip4 dst-mac 02:00:00:00:00:01 {mac} src-ip 10.0.0.1 {one}"),
            ),
            (
                "eth / ipv4 dst spec 10.0.0.0 dst prefix 8 proto is 47 tos is 4",
                "ip4 dst-ip 10.0.0.0 m 255.0.0.0 l4proto 47 m 0xff tos 4 m 0xff".into(),
            ),
            (
                "eth / ipv4 src is 10.0.0.1 dst is 10.0.0.2 / udp src is 1024 dst is 53",
                format!(
                    "udp4 src-ip 10.0.0.1 {one} dst-ip 10.0.0.2 {one} src-port 1024 {all} dst-port \
                     53 {all}"
                ),
            ),
            ("eth / ipv4 / tcp", "tcp4".into()),
            ("eth / ipv4 / tcp dst spec 256 dst mask 0xff00", "tcp4 dst-port 256 m 0xff00".into()),
            (
                "eth / ipv6 src is 2001:db8::1 / tcp dst is 80",
                format!("tcp6 src-ip 2001:db8::1 {six} dst-port 80 {all}"),
            ),
            ("eth / ipv6 dst is 2001:db8::2 / udp", format!("udp6 dst-ip 2001:db8::2 {six}")),
            ("eth / ipv4 proto is 132", "sctp4".into()),
            ("eth / ipv6 proto is 58", "ip6 l4proto 58 m 0xff".into()),
            (
                "eth / vlan vid is 291 / ipv4 / tcp dst is 80",
                format!("tcp4 dst-port 80 {all} vlan 291 m 0xfff"),
            ),
        ] {
            let rule = format!("ingress pattern {pattern} / end actions queue index 3 / end");
            assert_eq!(error(&rule), format!("flow-type {expected} action 3"), "{pattern}");
        }
        let drop = "ingress pattern eth / ipv4 / udp / end actions drop / end";
        assert_eq!(error(drop), "flow-type udp4 action -1");
    }

    #[test]
    fn an_inexpressible_rule_is_refused_by_its_name() {
        for (pattern, expected) in [
            ("eth / vlan", "any VLAN tag"),
            ("eth has_vlan is 0", "no VLAN tag"),
            ("eth / vlan vid is 1 / vlan vid is 2", "the inner VLAN tag"),
            ("eth src is 02:00:00:00:00:02 / ipv4", "source MAC address beside IP"),
            ("eth / ipv4 ttl is 3", "TTL or hop limit"),
            ("eth / ipv4 / tcp flags is 2", "TCP flags"),
            ("eth / ipv4 / icmp", "the header of protocol 1"),
            (
                "eth / ipv4 / udp dst spec 5 dst last 9",
                "headers inside a tunnel, ranges, or fields that few cards have",
            ),
            (
                "eth / ipv4 / udp / vxlan vni is 7",
                "headers inside a tunnel, ranges, or fields that few cards have",
            ),
        ] {
            let rule = format!("ingress pattern {pattern} / end actions queue index 3 / end");
            assert_eq!(error(&rule), format!("not supported: {expected}"), "{pattern}");
        }
        let mut fragments = [0; 64];
        fragments[field::FRAGMENT].fill(1);
        let mask = Key::from_bytes(&fragments);
        let pattern = Pattern::masked(&mask, &mask);
        let rule = Rule { group: 0, priority: 0, pattern, actions: &[Action::Drop] };
        assert_eq!(flow(&rule), Err("fragments".into()));
        for (actions, expected) in [
            ("count / drop", "action count"),
            ("mark id 7 / queue index 0", "action mark id 7"),
            ("jump group 1", "action jump group 1"),
        ] {
            let rule = format!("ingress pattern eth / ipv4 / end actions {actions} / end");
            assert_eq!(error(&rule), format!("not supported: {expected}"), "{actions}");
        }
        let rule = "group 1 ingress pattern eth / ipv4 / end actions drop / end";
        assert_eq!(error(rule), "not supported: group 1");
    }
}
