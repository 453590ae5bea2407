//! The axes of `occupancy`: what can be typed.

use serde::Deserialize;

use crate::spec::defaults::{flows_default, frame_default, no_values, zero};
use crate::spec::{Hits, TrialKind};
use crate::values::Values;

/// A product of axes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Non-root groups the rules are spread over; 0 puts them into group 0.
    pub groups: Values,
    /// Rules in these groups, the default rule of each included.
    pub rules: Values,
    /// Share of the traffic that matches an installed rule other than the default.
    #[serde(default = "zero")]
    pub match_percent: Values,
    /// Over what the matching traffic is uniform.
    #[serde(default)]
    pub hits: Hits,
    /// Flows of the traffic.
    #[serde(default = "flows_default")]
    pub flows: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
    /// Rates of the `fixed` trials, frames a second, or `max`: that of the saturating trial.
    #[serde(default = "no_values")]
    pub rate: Values,
    /// Which trials are made at each point.
    pub trials: Vec<TrialKind>,
}

impl Sweep {
    pub(crate) fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "groups" => Some(&mut self.groups),
            "rules" => Some(&mut self.rules),
            "match_percent" => Some(&mut self.match_percent),
            "flows" => Some(&mut self.flows),
            "frame" => Some(&mut self.frame),
            "rate" => Some(&mut self.rate),
            _ => None,
        }
    }
}

/// Axes of `occupancy`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("groups", "non-root groups the rules are spread over; 0: all in group 0"),
    ("rules", "rules in these groups, the default rule of each included"),
    ("match_percent", "share of the traffic that matches an installed rule, percent"),
    ("flows", "flows of the traffic"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("rate", "frames a second of a trial at that rate, such as 10M; or max"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];
