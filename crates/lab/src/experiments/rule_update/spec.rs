//! The axes of `rule-update`.

use serde::Deserialize;

use crate::run::Resolver;
use crate::spec::defaults::frame_default;
use crate::spec::{DURATION_MS_MAX, Overrides, SpecError, axes, in_range, parts, set_all, single};
use crate::values::Values;

/// A product of axes of rules that are changed, all of them once.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleUpdateSweep {
    /// The group that they stand in, 0 or 1.
    pub group: Values,
    /// Rules, each of a flow of the traffic.
    pub rules: Values,
    /// What is done to them: names of [`CHANGES`](super::trials::CHANGES).
    pub change: Values,
    /// How: `single` calls, through an operation `queue`, or in one `transaction`.
    pub calls: Values,
    /// `none`: without packets; `load`: while packets meet the rules.
    pub traffic: Values,
    /// The core that changes them while packets flow: `same` or `distinct`.
    pub core: Values,
    /// Changes between two bursts of packets; `all`: they are one call, and packets wait.
    pub slice: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
    /// Measured part in front of the first change, milliseconds.
    pub before_ms: u64,
    /// Measured part from there on, milliseconds.
    pub after_ms: u64,
}

axes!(RuleUpdateSweep: group, rules, change, calls, traffic, core, slice, frame);

/// Axes of `rule-update`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("group", "the group of the rules: 0 or 1"),
    ("rules", "rules, all of which are changed"),
    ("change", "the changed part: actions, values, mask, priority; anew: destroy and create"),
    ("calls", "kind of call: single, queue or transaction"),
    ("traffic", "none, or load: packets that match the rules at the same time"),
    ("core", "the core that changes the rules: same or distinct"),
    ("slice", "changes between two bursts of packets, or all"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("before_ms", "measured part in front of the first change, one value"),
    ("after_ms", "measured part from there on, one value"),
    ("duration_ms", "measured part of a saturating trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// Which changes to measure.
        change: RuleUpdateSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        for sweep in &mut self.change {
            match axis {
                "before_ms" => sweep.before_ms = single("before_ms", values)?,
                "after_ms" => sweep.after_ms = single("after_ms", values)?,
                _ => set_all(sweep.axis(axis), values),
            }
        }
        Ok(())
    }

    fn overridden(&mut self, _: &Overrides) -> Result<(), SpecError> {
        for sweep in &self.change {
            in_range("before_ms", sweep.before_ms, 20..=DURATION_MS_MAX)?;
            in_range("after_ms", sweep.after_ms, 20..=DURATION_MS_MAX)?;
        }
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_changes(&self.change)
    }
}
