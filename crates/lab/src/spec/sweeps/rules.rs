//! Sweeps over rules: how many there are, and what becomes of them while packets flow or do not.

use serde::Deserialize;

use super::{flows_default, frame_default, no_values, word, zero};
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
pub(crate) const OCCUPANCY_AXES: &[(&str, &str)] = &[
    ("groups", "non-root groups the rules are spread over; 0: all in group 0"),
    ("rules", "rules in these groups, the default rule of each included"),
    ("match_percent", "share of the traffic that matches an installed rule, percent"),
    ("flows", "flows of the traffic"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("rate", "frames a second of a trial at that rate, such as 10M; or max"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// A product of axes of batches: rules that are created while packets flow.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchSweep {
    /// What a batch is: names of [`WORKS`](crate::batch::WORKS).
    #[serde(default = "create")]
    pub work: Values,
    /// The group of the rules, 0 or 1; packets meet its default rule, or the rules that are
    /// changed.
    pub group: Values,
    /// Rules of the batch.
    pub batch: Values,
    /// The core that creates or changes them: `same` or `distinct`.
    pub core: Values,
    /// How: `single` calls, through an operation `queue`, or in one `transaction`.
    pub calls: Values,
    /// Operations between two bursts of packets; `all`: the batch is one call, and packets wait.
    pub slice: Values,
    /// Flows of the traffic.
    #[serde(default = "flows_default")]
    pub flows: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
    /// Measured part in front of the batch, milliseconds.
    pub before_ms: u64,
    /// Measured part from the start of the batch on, milliseconds.
    pub after_ms: u64,
}

impl BatchSweep {
    pub(crate) fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "work" => Some(&mut self.work),
            "group" => Some(&mut self.group),
            "batch" => Some(&mut self.batch),
            "core" => Some(&mut self.core),
            "calls" => Some(&mut self.calls),
            "slice" => Some(&mut self.slice),
            "flows" => Some(&mut self.flows),
            "frame" => Some(&mut self.frame),
            _ => None,
        }
    }
}

fn create() -> Values {
    word("create")
}

/// Axes of `update-batch`.
pub(crate) const BATCH_AXES: &[(&str, &str)] = &[
    ("work", "create: rules are; failover: as many IPv4 prefixes are re-pointed"),
    ("group", "the group of the rules: 0 or 1"),
    ("batch", "rules that are created, or prefixes that are re-pointed"),
    ("core", "the core that does it: same or distinct"),
    ("calls", "how: single, queue or transaction"),
    ("slice", "operations between two bursts of packets, or all"),
    ("flows", "flows of the traffic"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("before_ms", "measured part in front of the batch, one value"),
    ("after_ms", "measured part from the start of the batch on, one value"),
    ("duration_ms", "measured part of a saturating trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// A product of axes of renewals: the oldest of the rules goes and a new one comes, so many a
/// second, while packets flow.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenewalSweep {
    /// The group that the rules stand in, 0 or 1; packets meet its default rule.
    pub group: Values,
    /// Rules that stand there, the default rule included.
    pub rules: Values,
    /// Rules renewed a second: a number, or a name of [`PRESETS`](crate::renewal::PRESETS); 0:
    /// none.
    pub per_s: Values,
    /// The core that does it: `same` or `distinct`.
    pub core: Values,
    /// How: `single` calls, or through an operation `queue`.
    pub calls: Values,
    /// Renewals between two bursts of packets at most; `all`: all that are due.
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

impl RenewalSweep {
    pub(crate) fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "group" => Some(&mut self.group),
            "rules" => Some(&mut self.rules),
            "per_s" => Some(&mut self.per_s),
            "core" => Some(&mut self.core),
            "calls" => Some(&mut self.calls),
            "slice" => Some(&mut self.slice),
            "flows" => Some(&mut self.flows),
            "frame" => Some(&mut self.frame),
            _ => None,
        }
    }
}

/// Axes of `update-rate`.
pub(crate) const RENEWAL_AXES: &[(&str, &str)] = &[
    ("group", "the group that the rules stand in: 0 or 1"),
    ("rules", "rules that stand there, the default rule included"),
    ("per_s", "rules renewed a second, 0: none; hadoop, cache_follower, web_server"),
    ("core", "the core that renews them: same or distinct"),
    ("calls", "how: single or queue"),
    ("slice", "renewals between two bursts of packets at most, all, or tick"),
    ("flows", "flows of the traffic"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// A product of axes of rules that are created, and destroyed again, without packets.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InsertionSweep {
    /// The group that they go to, empty before.
    pub group: Values,
    /// Rules.
    pub rules: Values,
    /// What they match: names of [`Stack`](niclab_device::Stack).
    pub stack: Values,
    /// What they do: names of [`ACTIONS`](crate::insertion::ACTIONS).
    pub actions: Values,
    /// How: `single` calls, through an operation `queue`, or in one `transaction`.
    pub calls: Values,
    /// Control threads, each with an operation `queue` of its own; where nothing is said, the
    /// thread that has the card does everything.
    #[serde(default = "no_values")]
    pub threads: Values,
}

impl InsertionSweep {
    pub(crate) fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "group" => Some(&mut self.group),
            "rules" => Some(&mut self.rules),
            "stack" => Some(&mut self.stack),
            "actions" => Some(&mut self.actions),
            "calls" => Some(&mut self.calls),
            "threads" => Some(&mut self.threads),
            _ => None,
        }
    }
}

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

impl EffectSweep {
    /// Those of the rules that are probed; how many they are is not meant by `rules`.
    pub(crate) fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "group" => Some(&mut self.group),
            "per_s" => Some(&mut self.per_s),
            "core" => Some(&mut self.core),
            "frame" => Some(&mut self.frame),
            _ => None,
        }
    }
}

/// Axes of `rule-rate`.
pub(crate) const RULE_AXES: &[(&str, &str)] = &[
    ("group", "the group that the rules go to: 0 or 1"),
    ("rules", "rules that are created and destroyed"),
    ("stack", "what they match: eth, eth/ipv4, eth/ipv4/tcp, vxlan/ipv4/udp, …"),
    ("actions", "what they do: queue, mark+queue, mark+set_meta+queue, …"),
    ("calls", "how: single, queue or transaction"),
    ("threads", "control threads, each with an operation queue of its own"),
    ("per_s", "rules created a second while packets probe them"),
    ("core", "the core that creates those: same or distinct"),
    ("frame", "frame size of the probes in bytes with FCS, or imix"),
    ("duration_ms", "measured part of a saturating trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// A product of axes of rules that are changed, all of them once.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeSweep {
    /// The group that they stand in, 0 or 1.
    pub group: Values,
    /// Rules, each of a flow of the traffic.
    pub rules: Values,
    /// What is done to them: names of [`CHANGES`](crate::change::CHANGES).
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

impl ChangeSweep {
    pub(crate) fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "group" => Some(&mut self.group),
            "rules" => Some(&mut self.rules),
            "change" => Some(&mut self.change),
            "calls" => Some(&mut self.calls),
            "traffic" => Some(&mut self.traffic),
            "core" => Some(&mut self.core),
            "slice" => Some(&mut self.slice),
            "frame" => Some(&mut self.frame),
            _ => None,
        }
    }
}

/// Axes of `rule-update`.
pub(crate) const CHANGE_AXES: &[(&str, &str)] = &[
    ("group", "the group that the rules stand in: 0 or 1"),
    ("rules", "rules, all of which are changed"),
    ("change", "what of them: actions, values, mask, priority, or anew"),
    ("calls", "how: single, queue or transaction"),
    ("traffic", "none, or load: packets that meet the rules meanwhile"),
    ("core", "the core that changes them then: same or distinct"),
    ("slice", "changes between two bursts of packets, or all"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("before_ms", "measured part in front of the first change, one value"),
    ("after_ms", "measured part from there on, one value"),
    ("duration_ms", "measured part of a saturating trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];
