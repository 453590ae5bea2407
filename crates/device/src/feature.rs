//! Features in the path of messages between two hosts, beside the stack itself.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Most rules of a packet filter.
pub const RULES_MAX: u32 = 100_000;

/// Queueing disciplines that can be asked for, as tc(8) names them.
pub const QDISCS: [&str; 9] =
    ["pfifo_fast", "pfifo", "htb", "tbf", "fq_codel", "fq", "sfq", "netem", "cake"];

/// One thing in the path, at both hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Feature {
    /// Nothing.
    #[default]
    None,
    /// A chain of nftables that every packet which comes in goes through, with so many rules of
    /// which none matches (nft(8)); IPv4 alone.
    Nft {
        /// 0 to [`RULES_MAX`].
        rules: u32,
    },
    /// A tunnel: packets go in frames in UDP (RFC 7348).
    Vxlan,
    /// A queueing discipline of the interface, which never holds a packet back: one of [`QDISCS`].
    Qdisc {
        /// Its name.
        name: String,
    },
}

impl Feature {
    /// `true` where nothing was asked for.
    pub fn is_none(&self) -> bool {
        *self == Feature::None
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Feature::None => f.write_str("none"),
            Feature::Nft { rules } => write!(f, "nft-{rules}"),
            Feature::Vxlan => f.write_str("vxlan"),
            Feature::Qdisc { name } => f.write_str(name),
        }
    }
}

impl FromStr for Feature {
    type Err = String;

    fn from_str(text: &str) -> Result<Feature, String> {
        let rules = text.strip_prefix("nft-").map(|rules| rules.parse::<u32>());
        match (text, rules) {
            ("none", _) => Ok(Feature::None),
            ("vxlan", _) => Ok(Feature::Vxlan),
            (_, Some(Ok(rules))) if rules <= RULES_MAX => Ok(Feature::Nft { rules }),
            _ if QDISCS.contains(&text) => Ok(Feature::Qdisc { name: text.to_owned() }),
            _ => Err(format!(
                "use none, nft-RULES with 0 to {RULES_MAX} rules, vxlan, or a queueing discipline: \
                 {}",
                QDISCS.join(", ")
            )),
        }
    }
}

impl TryFrom<String> for Feature {
    type Error = String;

    fn try_from(text: String) -> Result<Feature, String> {
        text.parse()
    }
}

impl From<Feature> for String {
    fn from(feature: Feature) -> String {
        feature.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in ["none", "nft-0", "nft-10000", "vxlan", "fq_codel"] {
            assert_eq!(text.parse::<Feature>().unwrap().to_string(), text);
        }
        for text in ["", "nft", "nft-", "nft--1", "nft-100001", "codel", "VXLAN"] {
            assert!(text.parse::<Feature>().unwrap_err().starts_with("use none"), "{text}");
        }
    }
}
