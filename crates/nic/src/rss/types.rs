//! Hash types: which packets are hashed, and over which fields.
//!
//! They are those of DPDK 22.11 (`RTE_ETH_RSS_*` in `rte_ethdev.h`), with testpmd's names.
//! `docs/rules.md` says what this card does where DPDK leaves the choice to the card.

use std::fmt;
use std::ops::BitOr;

use serde::{Deserialize, Serialize};

/// A set of hash types.
///
/// A type names packets, or restricts the fields. If one of the two `only` types of a level
/// (addresses, ports) is set, the other field counts as zero; both together have no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HashTypes(u32);

const fn bit(number: u32) -> HashTypes {
    HashTypes(1 << number)
}

impl HashTypes {
    /// No packet: all packets have the hash 0.
    pub const NONE: HashTypes = HashTypes(0);
    /// IPv4 packets that no other type names: addresses.
    pub const IPV4: HashTypes = bit(0);
    /// Fragments, the first included: addresses.
    pub const IPV4_FRAG: HashTypes = bit(1);
    /// Whole packets of TCP: addresses and ports.
    pub const IPV4_TCP: HashTypes = bit(2);
    /// Whole packets of UDP: addresses and ports.
    pub const IPV4_UDP: HashTypes = bit(3);
    /// Whole packets of SCTP: addresses and ports.
    pub const IPV4_SCTP: HashTypes = bit(4);
    /// Whole packets of other protocols: addresses.
    pub const IPV4_OTHER: HashTypes = bit(5);
    /// IPv6 packets that no other type names: addresses.
    pub const IPV6: HashTypes = bit(8);
    /// Fragments, the first included: addresses.
    pub const IPV6_FRAG: HashTypes = bit(9);
    /// Whole packets of TCP: addresses and ports.
    pub const IPV6_TCP: HashTypes = bit(10);
    /// Whole packets of UDP: addresses and ports.
    pub const IPV6_UDP: HashTypes = bit(11);
    /// Whole packets of SCTP: addresses and ports.
    pub const IPV6_SCTP: HashTypes = bit(12);
    /// Whole packets of other protocols: addresses.
    pub const IPV6_OTHER: HashTypes = bit(13);
    /// Only the source address.
    pub const L3_SRC_ONLY: HashTypes = bit(16);
    /// Only the destination address.
    pub const L3_DST_ONLY: HashTypes = bit(17);
    /// Only the source port.
    pub const L4_SRC_ONLY: HashTypes = bit(18);
    /// Only the destination port.
    pub const L4_DST_ONLY: HashTypes = bit(19);
    /// Addresses of all IP packets (`RTE_ETH_RSS_IP`, but for `ipv6-ex`).
    pub const IP: HashTypes = HashTypes(0x2323);
    /// Both of TCP.
    pub const TCP: HashTypes = HashTypes(0x0404);
    /// Both of UDP.
    pub const UDP: HashTypes = HashTypes(0x0808);
    /// Both of SCTP.
    pub const SCTP: HashTypes = HashTypes(0x1010);

    /// The names; types of a single bit first.
    pub const NAMES: [(&str, HashTypes); 21] = [
        ("ipv4", HashTypes::IPV4),
        ("ipv4-frag", HashTypes::IPV4_FRAG),
        ("ipv4-tcp", HashTypes::IPV4_TCP),
        ("ipv4-udp", HashTypes::IPV4_UDP),
        ("ipv4-sctp", HashTypes::IPV4_SCTP),
        ("ipv4-other", HashTypes::IPV4_OTHER),
        ("ipv6", HashTypes::IPV6),
        ("ipv6-frag", HashTypes::IPV6_FRAG),
        ("ipv6-tcp", HashTypes::IPV6_TCP),
        ("ipv6-udp", HashTypes::IPV6_UDP),
        ("ipv6-sctp", HashTypes::IPV6_SCTP),
        ("ipv6-other", HashTypes::IPV6_OTHER),
        ("l3-src-only", HashTypes::L3_SRC_ONLY),
        ("l3-dst-only", HashTypes::L3_DST_ONLY),
        ("l4-src-only", HashTypes::L4_SRC_ONLY),
        ("l4-dst-only", HashTypes::L4_DST_ONLY),
        ("ip", HashTypes::IP),
        ("tcp", HashTypes::TCP),
        ("udp", HashTypes::UDP),
        ("sctp", HashTypes::SCTP),
        ("none", HashTypes::NONE),
    ];

    /// Every type that there is.
    pub const ALL: HashTypes = HashTypes(0xf_3f3f);

    /// The set with these bits; `None` if one of them is no type. [`HashTypes::bits`] has the
    /// numbers.
    pub fn from_bits(bits: u32) -> Option<HashTypes> {
        (bits & !HashTypes::ALL.0 == 0).then_some(HashTypes(bits))
    }

    /// The set as bits: IPv4 types from bit 0, in the order of the constants above, IPv6 types from
    /// bit 8, and restrictions of fields from bit 16.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The types of a name.
    pub fn from_name(name: &str) -> Option<HashTypes> {
        HashTypes::NAMES.iter().find(|(known, _)| *known == name).map(|(_, types)| *types)
    }

    /// Whether all of these types are set.
    pub const fn contains(self, types: HashTypes) -> bool {
        self.0 & types.0 == types.0
    }
}

impl BitOr for HashTypes {
    type Output = HashTypes;

    fn bitor(self, other: HashTypes) -> HashTypes {
        HashTypes(self.0 | other.0)
    }
}

/// The names, separated by spaces; `none` for the empty set.
impl fmt::Display for HashTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let single = |types: &HashTypes| types.0.is_power_of_two() && self.contains(*types);
        let mut before = "";
        for (name, _) in HashTypes::NAMES.iter().filter(|(_, types)| single(types)) {
            write!(f, "{before}{name}")?;
            before = " ";
        }
        if before.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

impl From<HashTypes> for String {
    fn from(types: HashTypes) -> String {
        types.to_string()
    }
}

impl TryFrom<String> for HashTypes {
    type Error = String;

    fn try_from(names: String) -> Result<HashTypes, String> {
        names.split_whitespace().try_fold(HashTypes::NONE, |types, name| {
            let named = HashTypes::from_name(name);
            Ok(types | named.ok_or_else(|| format!("not supported: hash type {name}"))?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_back_what_they_were_made_of() {
        let one_by_one = HashTypes::NAMES.iter().map(|(_, types)| *types);
        let sums = one_by_one.clone().scan(HashTypes::NONE, |sum, types| {
            *sum = *sum | types;
            Some(*sum)
        });
        for types in one_by_one.chain(sums) {
            assert_eq!(HashTypes::try_from(types.to_string()), Ok(types));
        }
        assert_eq!(HashTypes::NONE.to_string(), "none");
        assert_eq!(HashTypes::TCP.to_string(), "ipv4-tcp ipv6-tcp");
        let error = HashTypes::try_from("ip eth".to_owned()).unwrap_err();
        assert_eq!(error, "not supported: hash type eth");
    }

    #[test]
    fn sets_of_both_versions_are_what_dpdk_says_they_are() {
        let all = HashTypes::IPV4 | HashTypes::IPV4_FRAG | HashTypes::IPV4_OTHER;
        let all = all | HashTypes::IPV6 | HashTypes::IPV6_FRAG | HashTypes::IPV6_OTHER;
        assert_eq!(HashTypes::IP, all);
        assert_eq!(HashTypes::TCP, HashTypes::IPV4_TCP | HashTypes::IPV6_TCP);
        assert_eq!(HashTypes::UDP, HashTypes::IPV4_UDP | HashTypes::IPV6_UDP);
        assert_eq!(HashTypes::SCTP, HashTypes::IPV4_SCTP | HashTypes::IPV6_SCTP);
    }
}
