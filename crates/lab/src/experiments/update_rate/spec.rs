//! The axes of `update-rate`.

use serde::Deserialize;

use crate::run::Resolver;
use crate::spec::defaults::{flows_default, frame_default};
use crate::spec::{SpecError, TrialKind, axes, parts, set_all};
use crate::values::Values;

/// A product of axes of rule churn: the oldest of the rules goes and a new one comes, so many a
/// second, while packets flow.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleChurnSweep {
    /// The group that the rules stand in, 0 or 1; packets meet its default rule.
    pub group: Values,
    /// Rules that stand there, the default rule included.
    pub rules: Values,
    /// Rules replaced a second: a number, or a name of [`PRESETS`](super::trials::PRESETS); 0:
    /// none.
    pub per_s: Values,
    /// The core that does it: `same` or `distinct`.
    pub core: Values,
    /// How: `single` calls, or through an operation `queue`.
    pub calls: Values,
    /// Replacements between two bursts of packets at most; `all`: all that are due.
    pub slice: Values,
    /// Flows of the traffic.
    #[serde(default = "flows_default")]
    pub flows: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
    /// Which trials are made at each point beside `saturate`: `latency`.
    pub trials: Vec<TrialKind>,
}

axes!(RuleChurnSweep: group, rules, per_s, core, calls, slice, flows, frame);

/// Axes of `update-rate`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("group", "the group of the rules: 0 or 1"),
    ("rules", "installed rules, the default rule included"),
    ("per_s", "rules replaced a second, 0: none; hadoop, cache_follower, web_server"),
    ("core", "the core that replaces them: same or distinct"),
    ("calls", "kind of call: single or queue"),
    ("slice", "replacements between two bursts of packets at most, all, or tick"),
    ("flows", "flows of the traffic"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// Which rates of rule churn to measure.
        rule_churn: RuleChurnSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(self.rule_churn.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_churns(&self.rule_churn)
    }
}
