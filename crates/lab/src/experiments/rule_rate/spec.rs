//! The axes of `rule-rate`.

use serde::Deserialize;

use crate::run::Resolver;
use crate::spec::defaults::{frame_default, no_values};
use crate::spec::{SpecError, axes, parts, set_all};
use crate::values::Values;

/// A product of axes of rules that are created, and destroyed again, without packets.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleRateSweep {
    /// The group that they go to, empty before.
    pub group: Values,
    /// Rules.
    pub rules: Values,
    /// What they match: names of [`Stack`](niclab_device::Stack).
    pub stack: Values,
    /// What they do: names of [`ACTIONS`](crate::axes::ACTIONS).
    pub actions: Values,
    /// How: `single` calls, through an operation `queue`, or in one `transaction`.
    pub calls: Values,
    /// Control threads, each with an operation `queue` of its own; where nothing is said, the
    /// thread that has the card does everything.
    #[serde(default = "no_values")]
    pub threads: Values,
}

axes!(RuleRateSweep: group, rules, stack, actions, calls, threads);

/// A product of axes of rules that are created one by one while packets probe them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectSweep {
    /// The group that they go to, 0 or 1.
    pub group: Values,
    /// Rules, each of a flow of the traffic; at most [`FLOWS_PROBED_MAX`].
    ///
    /// [`FLOWS_PROBED_MAX`]: niclab_device::FLOWS_PROBED_MAX
    pub rules: Values,
    /// Rules created a second.
    pub per_s: Values,
    /// The core that creates them: `same` or `distinct`.
    pub core: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
}

// Those of the rules that are probed; how many they are is not meant by `rules`.
axes!(EffectSweep: group, per_s, core, frame);

/// Axes of `rule-rate`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("group", "the group that the rules go to: 0 or 1"),
    ("rules", "rules that are created and destroyed"),
    ("stack", "headers that the rules match: eth, eth/ipv4, eth/ipv4/tcp, vxlan/ipv4/udp, …"),
    ("actions", "actions of the rules: queue, mark+queue, mark+set_meta+queue, …"),
    ("calls", "kind of call: single, queue or transaction"),
    ("threads", "control threads, each with an operation queue of its own"),
    ("per_s", "rules created a second while packets probe them"),
    ("core", "the core that creates the rules: same or distinct"),
    ("frame", "frame size of the probes in bytes with FCS, or imix"),
    ("duration_ms", "measured part of a saturating trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// Which rules to create and destroy.
        insertion: RuleRateSweep,
        /// When rules take effect.
        effect: EffectSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(self.insertion.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        set_all(self.effect.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_created(&self.insertion)?;
        resolver.add_effects(&self.effect)
    }
}
