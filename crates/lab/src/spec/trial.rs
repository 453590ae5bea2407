//! The kinds of trials at a point.

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use crate::experiments;

/// The name of a trial, which has a table in its experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct TrialKind(&'static str);

impl TrialKind {
    /// As much as the device takes: throughput, and the latency of a full ring.
    pub const SATURATE: TrialKind = TrialKind("saturate");
    /// Latency, open loop, at a share of the maximum.
    pub const LATENCY: TrialKind = TrialKind("latency");
    /// Latency of an almost idle device.
    pub const LIGHT: TrialKind = TrialKind("light");
    /// Loss and latency, open loop, at a rate that was asked for.
    pub const FIXED: TrialKind = TrialKind("fixed");

    /// The trial that an experiment has a table of.
    pub(crate) const fn new(name: &'static str) -> TrialKind {
        TrialKind(name)
    }

    /// Its name in samples.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl<'de> Deserialize<'de> for TrialKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TrialKind, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = experiments::trial(&name).map(|table| TrialKind(table.trial));
        known.ok_or_else(|| de::Error::custom(format!("unknown trial `{name}`")))
    }
}

/// Over what matching traffic is uniform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hits {
    /// The flows of the traffic: the first `match_percent` of them have rules, the other rules are
    /// never hit.
    #[default]
    Flows,
    /// The rules: the traffic has as many flows as it takes to hit every rule.
    Rules,
}
