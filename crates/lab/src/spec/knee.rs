//! The definition of a knee, and the range that is searched for it.

use serde::{Deserialize, Serialize};

/// A knee to search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KneeSpec {
    /// The limit that breaks there.
    pub kind: KneeKind,
    /// Non-root groups; 0 is group 0.
    pub groups: u32,
    /// Greatest number of rules to try.
    pub rules_max: u32,
    /// Smallest number of rules to try, and what the plateau of a throughput is measured with;
    /// at least the default rule of each group, which is meant where nothing is said. A group of
    /// no other rule is no table to search: with twice as many each group has one, and the knee is
    /// where tables get slow, not where the first one comes.
    #[serde(default)]
    pub rules_min: u32,
    /// Bracket at which the search ends, as a share of its middle.
    pub width: f64,
    /// Share of the traffic that matches a rule other than the default, equally often each: 0 to
    /// 100, of a throughput alone. The traffic has as many flows as it takes, so that plateau and
    /// probe differ in these too: `rules_min` says from where on that is to count.
    #[serde(default)]
    pub match_percent: u32,
    /// Throughput below this share of the plateau is behind the knee.
    #[serde(default = "share_default")]
    pub share: f64,
    /// Pairs of trials behind each decision; the median decides.
    #[serde(default = "pairs_default")]
    pub pairs: u32,
}

#[cfg(test)]
impl super::grid::DeclaresAxes for KneeSpec {}

fn share_default() -> f64 {
    0.8
}

fn pairs_default() -> u32 {
    3
}

/// The limit that breaks at a knee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KneeKind {
    /// The device refuses rules.
    Capacity,
    /// Throughput falls below a share of the plateau.
    Throughput,
}
