//! Rules by the stack of headers that they match.

use std::net::{IpAddr, Ipv4Addr};

use niclab_nic::rule::Pattern;
use niclab_nic::rule::compile;
use niclab_nic::rule::item::{Item, ItemMatch};
use niclab_packet::flow::AddressRange;
use serde::{Deserialize, Serialize};

/// A stack of headers, and which fields of it a rule matches: those that are named here, each
/// exactly unless it says otherwise. Headers without a field are only to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stack {
    /// `eth dst`
    #[serde(rename = "eth")]
    Eth,
    /// `eth / ipv4 src dst`
    #[serde(rename = "eth/ipv4")]
    Ipv4,
    /// `eth / ipv4 dst`, a prefix of it: a routing table. None lies within another.
    #[serde(rename = "eth/ipv4-prefix")]
    Ipv4Prefix,
    /// `eth / ipv6 src dst`
    #[serde(rename = "eth/ipv6")]
    Ipv6,
    /// `eth / ipv4 src dst / tcp src dst`
    #[serde(rename = "eth/ipv4/tcp")]
    Ipv4Tcp,
    /// `eth / ipv6 src dst / tcp src dst`
    #[serde(rename = "eth/ipv6/tcp")]
    Ipv6Tcp,
    /// `eth / vlan vid / ipv4 src dst / tcp src dst`
    #[serde(rename = "eth/vlan/ipv4/tcp")]
    VlanIpv4Tcp,
    /// `eth / vlan vid / ipv6 src dst / tcp src dst`
    #[serde(rename = "eth/vlan/ipv6/tcp")]
    VlanIpv6Tcp,
    /// `eth / ipv4 / gre / ipv4 src dst / tcp src dst`
    #[serde(rename = "gre/ipv4/tcp")]
    GreIpv4Tcp,
    /// `eth / ipv4 / udp / vxlan vni / eth / ipv4 src dst / udp src dst`
    #[serde(rename = "vxlan/ipv4/udp")]
    VxlanIpv4Udp,
    /// `eth / ipv4 / udp / geneve vni / eth / ipv4 src dst / udp src dst`
    #[serde(rename = "geneve/ipv4/udp")]
    GeneveIpv4Udp,
}

/// The headers of a stack, outermost first, each with the fields that are matched.
type Headers = &'static [(Item, &'static [&'static str])];

const IPS: &[&str] = &["src", "dst"];

impl Stack {
    /// All of them, by their names.
    pub const ALL: [(&'static str, Stack); 11] = [
        ("eth", Stack::Eth),
        ("eth/ipv4", Stack::Ipv4),
        ("eth/ipv4-prefix", Stack::Ipv4Prefix),
        ("eth/ipv6", Stack::Ipv6),
        ("eth/ipv4/tcp", Stack::Ipv4Tcp),
        ("eth/ipv6/tcp", Stack::Ipv6Tcp),
        ("eth/vlan/ipv4/tcp", Stack::VlanIpv4Tcp),
        ("eth/vlan/ipv6/tcp", Stack::VlanIpv6Tcp),
        ("gre/ipv4/tcp", Stack::GreIpv4Tcp),
        ("vxlan/ipv4/udp", Stack::VxlanIpv4Udp),
        ("geneve/ipv4/udp", Stack::GeneveIpv4Udp),
    ];

    fn headers(self) -> Headers {
        use Item::{Eth, Geneve, Gre, Ipv4, Ipv6, Tcp, Udp, Vlan, Vxlan};
        match self {
            Stack::Eth => &[(Eth, &["dst"])],
            Stack::Ipv4 => &[(Eth, &[]), (Ipv4, IPS)],
            Stack::Ipv4Prefix => &[(Eth, &[]), (Ipv4, &["dst"])],
            Stack::Ipv6 => &[(Eth, &[]), (Ipv6, IPS)],
            Stack::Ipv4Tcp => &[(Eth, &[]), (Ipv4, IPS), (Tcp, IPS)],
            Stack::Ipv6Tcp => &[(Eth, &[]), (Ipv6, IPS), (Tcp, IPS)],
            Stack::VlanIpv4Tcp => &[(Eth, &[]), (Vlan, &["vid"]), (Ipv4, IPS), (Tcp, IPS)],
            Stack::VlanIpv6Tcp => &[(Eth, &[]), (Vlan, &["vid"]), (Ipv6, IPS), (Tcp, IPS)],
            Stack::GreIpv4Tcp => &[(Eth, &[]), (Ipv4, &[]), (Gre, &[]), (Ipv4, IPS), (Tcp, IPS)],
            Stack::VxlanIpv4Udp => &[
                (Eth, &[]),
                (Ipv4, &[]),
                (Udp, &[]),
                (Vxlan, &["vni"]),
                (Eth, &[]),
                (Ipv4, IPS),
                (Udp, IPS),
            ],
            Stack::GeneveIpv4Udp => &[
                (Eth, &[]),
                (Ipv4, &[]),
                (Udp, &[]),
                (Geneve, &["vni"]),
                (Eth, &[]),
                (Ipv4, IPS),
                (Udp, IPS),
            ],
        }
    }

    /// The pattern of rule `index`, another for each.
    ///
    /// | field | value |
    /// |---|---|
    /// | `eth dst` | 02:00:00:00:00:00 and the index |
    /// | `vlan vid` | 1 to 4,094 in turn |
    /// | `ipv4 src` | 11.0.0.0 and the last 24 bits of the index |
    /// | `ipv4 dst` | 12.0.0.0 and the others |
    /// | `ipv6 src`, `dst` | 2001:db8:1:: and the index, 2001:db8:2:: |
    /// | `tcp`, `udp` `src`, `dst` | 1,024 to 61,023 in turn, 443 |
    /// | `vxlan`, `geneve` `vni` | 1 to 4,096 in turn |
    ///
    /// The prefixes of a routing table are, of each /20 from 64.0.0.0 on, one /22, two /23 and
    /// eight /24, as in the Internet's most are.
    ///
    /// The pattern is made anew for each: take care not to time it.
    pub fn pattern(self, index: u32) -> Pattern {
        let items = self.items(index);
        compile::pattern(&items).expect("headers that follow each other, and fields that keys have")
    }

    /// The items of that pattern.
    pub fn items(self, index: u32) -> Vec<ItemMatch> {
        self.headers()
            .iter()
            .map(|(item, fields)| {
                let mut found = ItemMatch::any(*item);
                for field in fields.iter().filter_map(|name| item.field(name)) {
                    let (value, mask) = match self {
                        Stack::Ipv4Prefix => {
                            let (network, len) = prefix(index);
                            let mask = u32::MAX << (32 - len);
                            (u128::from(network.to_bits()), u128::from(mask))
                        }
                        _ => (value(*item, field.name, index), field.ones()),
                    };
                    field.put(&mut found.spec, value);
                    field.put(&mut found.mask, mask);
                }
                found
            })
            .collect()
    }
}

/// Prefixes of a /20: one /22, two /23, eight /24.
const PREFIXES: u32 = 11;

/// Blocks of a /20 in 64.0.0.0/2.
const BLOCKS: u32 = 1 << 18;

/// Prefixes of a routing table that [`prefixes_range`] knows the addresses of.
pub const PREFIXES_MAX: u32 = BLOCKS * PREFIXES;

/// Network and length of prefix `index` of a routing table. Most are a /24, as in the Internet's:
/// of each /20 from 64.0.0.0 on one /22, two /23 and eight /24. The [`PREFIXES_MAX`] that
/// 64.0.0.0/2 has room for are followed by single addresses from 128.0.0.0 on.
fn prefix(index: u32) -> (Ipv4Addr, u32) {
    let (block, at) = (index / PREFIXES, index % PREFIXES);
    if block >= BLOCKS {
        let address = (1 << 31) + (index - PREFIXES_MAX) % (1 << 31);
        return (Ipv4Addr::from_bits(address), 32);
    }
    // Where in the block, by addresses of a /24.
    let (offset, len) = match at {
        0 => (0, 22),
        1..=2 => (4 + 2 * (at - 1), 23),
        _ => (8 + at - 3, 24),
    };
    (Ipv4Addr::from_bits((1 << 30) + (block << 12) + (offset << 8)), len)
}

/// The addresses of the first `count` prefixes of a routing table, of at most [`PREFIXES_MAX`];
/// each lies in one of them.
pub fn prefixes_range(count: u32) -> AddressRange {
    let (network, len) = prefix(count.clamp(1, PREFIXES_MAX) - 1);
    let last = network.to_bits() | (u32::MAX >> len);
    let ends = [1 << 30, last].map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
    // The second is behind the first.
    AddressRange::new(ends[0], ends[1]).unwrap_or(AddressRange::prefix(ends[0], 2))
}

fn value(item: Item, field: &str, index: u32) -> u128 {
    const MAC: u128 = 0x0200_0000_0000;
    const SRC4: u128 = 11 << 24;
    const DST4: u128 = 12 << 24;
    const NET6: u128 = 0x2001_0db8 << 96;
    let wide = u128::from(index);
    match (item, field) {
        (Item::Eth, _) => MAC + wide,
        (Item::Vlan, _) => 1 + wide % 4_094,
        (Item::Ipv4, "src") => SRC4 + (wide & 0xff_ffff),
        (Item::Ipv4, _) => DST4 + (wide >> 24),
        (Item::Ipv6, "src") => NET6 + (1 << 80) + wide,
        (Item::Ipv6, _) => NET6 + (2 << 80),
        (Item::Vxlan | Item::Geneve, _) => 1 + wide % 4_096,
        (_, "src") => 1_024 + wide % 60_000,
        _ => 443,
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use niclab_nic::rule::session::Session;
    use niclab_nic::rule::{Action, Rule};
    use niclab_nic::{Nic, NicConfig, RuleError};

    use super::*;

    /// What rule 5 of each stack is in testpmd's words.
    const TEXTS: [&str; 11] = [
        "eth dst is 02:00:00:00:00:05",
        "eth / ipv4 src is 11.0.0.5 dst is 12.0.0.0",
        "eth / ipv4 dst spec 64.0.10.0 dst prefix 24",
        "eth / ipv6 src is 2001:db8:1::5 dst is 2001:db8:2::",
        "eth / ipv4 src is 11.0.0.5 dst is 12.0.0.0 / tcp src is 1029 dst is 443",
        "eth / ipv6 src is 2001:db8:1::5 dst is 2001:db8:2:: / tcp src is 1029 dst is 443",
        "eth / vlan vid is 6 / ipv4 src is 11.0.0.5 dst is 12.0.0.0 / tcp src is 1029 dst is 443",
        "eth / vlan vid is 6 / ipv6 src is 2001:db8:1::5 dst is 2001:db8:2:: / \
         tcp src is 1029 dst is 443",
        "eth / ipv4 / gre / ipv4 src is 11.0.0.5 dst is 12.0.0.0 / tcp src is 1029 dst is 443",
        "eth / ipv4 / udp / vxlan vni is 6 / eth / ipv4 src is 11.0.0.5 dst is 12.0.0.0 / \
         udp src is 1029 dst is 443",
        "eth / ipv4 / udp / geneve vni is 6 / eth / ipv4 src is 11.0.0.5 dst is 12.0.0.0 / \
         udp src is 1029 dst is 443",
    ];

    #[test]
    fn each_stack_is_what_it_is_in_words() {
        for ((name, stack), text) in Stack::ALL.into_iter().zip(TEXTS) {
            let mut nic = Nic::new(&NicConfig::default()).unwrap();
            let file =
                format!("flow create 0 ingress pattern {text} / end actions queue index 0 / end\n");
            Session::new(0).apply(&mut nic, BufReader::new(file.as_bytes())).unwrap();
            let mut create = |index| {
                let (pattern, actions) = (stack.pattern(index), &[Action::Queue(0)]);
                nic.create(&Rule { group: 0, priority: 0, pattern, actions })
            };
            let same = create(5).unwrap_err();
            assert!(matches!(same, RuleError::Duplicate { .. }), "{name}: {same}");
            create(6).unwrap();
            assert_eq!(serde_json::to_value(stack).unwrap(), name);
        }
    }

    #[test]
    fn prefixes_lie_one_behind_the_other_in_their_range() {
        let ends = |index| {
            let (network, len) = prefix(index);
            let first = network.to_bits();
            assert_eq!(first.trailing_zeros().min(32 - len), 32 - len, "{network}/{len}");
            (u64::from(first), u64::from(first) + (1 << (32 - len)))
        };
        let last = PREFIXES_MAX;
        for indices in [0..500, last - 500..last + 500] {
            let ends: Vec<_> = indices.map(ends).collect();
            assert!(ends.windows(2).all(|pair| pair[0].1 == pair[1].0), "one behind the other");
        }
        let lengths = |len| (0..PREFIXES).filter(|index| prefix(*index).1 == len).count();
        assert_eq!([22, 23, 24].map(lengths), [1, 2, 8]);
        let range = |count| prefixes_range(count).to_string();
        let known = ["64.0.0.0/22", "64.0.0.0/20", "64.0.0.0-64.0.19.255", "64.0.0.0/2"];
        assert_eq!([1, 11, 12, last].map(range), known);
    }

    #[test]
    fn many_rules_of_a_stack_differ() {
        let mut nic = Nic::new(&NicConfig::default()).unwrap();
        for (at, (name, stack)) in Stack::ALL.into_iter().enumerate() {
            // Both sides of where the last 24 bits of an index end, and of a period of the ports.
            for index in (0..200).chain(60_000..60_200).chain((1 << 24)..(1 << 24) + 200) {
                let (pattern, actions) = (stack.pattern(index), &[Action::Queue(0)]);
                let rule = Rule { group: at as u32 + 1, priority: 0, pattern, actions };
                nic.create(&rule).unwrap_or_else(|error| panic!("{name} {index}: {error}"));
            }
        }
    }
}
