//! Sweep points of rules and traffic: the content of the device's groups, and the flows that are
//! sent.
//!
//! Rules are counted with the default rule of each group, so that a table of 65,536 rules is full.
//!
//! | groups | what is installed |
//! |---|---|
//! | 0 | group 0: five-tuples at priority 0, `any -> queue 0` at priority 1; no rule at all for 0 |
//! | n | group 0: `any -> jump 1`; group i: its share of the five-tuples, `any -> jump i+1` |
//!
//! The last group of a chain holds `any -> queue 0`.
//!
//! Flows with rules stand first in the traffic's flow set; the rules that no packet is to hit come
//! from a flow set of other addresses, so that the two can never overlap by chance.

use niclab_device::{Action, Function, Receive, RuleBlock, Setup};
use niclab_packet::flow::FlowSpec;
use niclab_packet::limits::FLOWS_MAX;
use niclab_packet::size::FrameSizes;
use niclab_result::{Coordinate, Point};
use serde::{Deserialize, Serialize};

use crate::flows;
use crate::spec::{Hits, SpecError};

/// Priority of the five-tuple rules.
pub(crate) const PRIORITY_RULES: u32 = 0;
/// Priority of the default rules: the lowest.
const PRIORITY_DEFAULT: u32 = 1;
/// Frames up to this size fit every set-up, so that sizes share one.
pub(crate) const FRAME_LEN_COMMON: u16 = 1518;
/// Most rules one point may ask for: each is the rule of a flow.
pub(crate) const RULES_MAX: u32 = FLOWS_MAX;
/// Most groups in a chain.
const GROUPS_MAX: u32 = 1_024;

/// A point of the sweep: everything but the frame size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// Non-root groups in the chain; 0 is group 0 alone.
    pub groups: u32,
    /// Rules in the measured groups, default rules included.
    pub rules: u32,
    /// Share of the traffic that matches a rule other than a default.
    pub match_percent: u32,
    /// Over what the matching traffic is uniform.
    pub hits: Hits,
    /// Flows of the traffic as asked for; see [`RuleMix`].
    pub flows: u32,
}

/// How the rules and the flows of a place overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleMix {
    /// Flows of the traffic.
    pub flows: u32,
    /// Rules for the first of these flows.
    pub rules_hit: u32,
    /// Rules for flows that are never sent.
    pub rules_idle: u32,
}

impl SweepPoint {
    /// Traffic of these flows, and no rule.
    pub const fn without_rules(flows: u32) -> SweepPoint {
        SweepPoint { groups: 0, rules: 0, match_percent: 0, hits: Hits::Flows, flows }
    }

    /// Refuses what cannot be measured.
    pub fn check(&self) -> Result<(), SpecError> {
        let refuse = |axis, value: u64, remedy: String| {
            Err(SpecError::OutOfRange { axis, value: value.to_string(), remedy })
        };
        if self.groups > GROUPS_MAX {
            return refuse("groups", self.groups.into(), format!("use at most {GROUPS_MAX}"));
        }
        if self.rules > RULES_MAX {
            return refuse("rules", self.rules.into(), format!("use at most {RULES_MAX}"));
        }
        if self.match_percent > 100 {
            return refuse("match_percent", self.match_percent.into(), "use 0 to 100".into());
        }
        if self.flows == 0 || self.flows > FLOWS_MAX {
            return refuse("flows", self.flows.into(), format!("use 1 to {FLOWS_MAX}"));
        }
        if self.flows_wanted() > u64::from(FLOWS_MAX) {
            let remedy = format!(
                "hitting every one of {} rules takes {} flows; take a greater share, fewer rules, \
                 or hits = \"flows\"",
                self.rules,
                self.flows_wanted()
            );
            return refuse("match_percent", self.match_percent.into(), remedy);
        }
        Ok(())
    }

    /// Rules other than the defaults.
    fn five_tuples(&self) -> u32 {
        self.rules.saturating_sub(self.groups.max(1))
    }

    /// Flows it takes so that all five-tuple rules are hit by the asked share of them.
    fn flows_wanted(&self) -> u64 {
        match (self.hits, self.match_percent, self.five_tuples()) {
            (Hits::Flows, _, _) | (_, 0, _) | (_, _, 0) => u64::from(self.flows),
            (Hits::Rules, percent, rules) => u64::from(rules) * 100 / u64::from(percent),
        }
    }

    /// How rules and flows overlap. Where there are fewer rules than flows to be hit, the traffic
    /// has fewer flows than asked for, never a smaller share of hits.
    pub fn mix(&self) -> RuleMix {
        let rules = self.five_tuples();
        if rules == 0 || self.match_percent == 0 {
            return RuleMix { flows: self.flows, rules_hit: 0, rules_idle: rules };
        }
        let percent = u64::from(self.match_percent);
        let hit = (self.flows_wanted() * percent).div_ceil(100).max(1);
        if hit <= u64::from(rules) {
            let rules_hit = hit as u32;
            let flows = self.flows_wanted() as u32;
            return RuleMix { flows, rules_hit, rules_idle: rules - rules_hit };
        }
        let flows = (u64::from(rules) * 100 / percent) as u32;
        RuleMix { flows, rules_hit: rules, rules_idle: 0 }
    }

    /// The place with other rules.
    pub fn with_rules(self, rules: u32) -> SweepPoint {
        SweepPoint { rules, ..self }
    }

    /// Its coordinates, those of the frame size excepted.
    pub fn point(&self) -> Point {
        let mix = self.mix();
        let mut point = Point::new();
        let mut number = |name: &str, value: u32| {
            point.insert(name.to_string(), Coordinate::Number(f64::from(value)));
        };
        number("groups", self.groups);
        number("rules", self.rules);
        number("match_percent", if mix.rules_hit == 0 { 0 } else { self.match_percent });
        number("flows", mix.flows);
        if mix.rules_hit > 0 {
            let hits = if self.hits == Hits::Rules { "rules" } else { "flows" };
            point.insert("hits".into(), Coordinate::Word(hits.into()));
        }
        point
    }

    /// The flows that are sent.
    pub fn traffic(&self, seed: u64) -> FlowSpec {
        flows::sent(self.mix().flows, seed)
    }

    /// The state of the device.
    pub fn setup(&self, seed: u64, frame_len_max: u16) -> Setup {
        Setup {
            rules: self.blocks(seed),
            queues: 1,
            cores: 1,
            ports: 1,
            receive: Receive::Queues,
            function: Function::Forward,
            frame_len_max: frame_len_max.max(FRAME_LEN_COMMON),
        }
    }

    fn blocks(&self, seed: u64) -> Vec<RuleBlock> {
        let mut blocks = Vec::new();
        if self.groups > 0 {
            blocks.push(default_rule(0, Action::Jump(1)));
        } else if self.rules == 0 {
            return blocks;
        }
        let chain = self.groups.max(1);
        for place in 0..chain {
            let group = if self.groups == 0 { 0 } else { place + 1 };
            let (sent, idle) = (self.traffic(seed), flows::never_sent(self.mix().rules_idle, seed));
            blocks.extend(share(sent, self.mix().rules_hit, place, chain, group));
            blocks.extend(share(idle, self.mix().rules_idle, place, chain, group));
            let last = place + 1 == chain;
            let onward = if last { Action::Queue(0) } else { Action::Jump(group + 1) };
            blocks.push(default_rule(group, onward));
        }
        blocks
    }
}

fn default_rule(group: u32, action: Action) -> RuleBlock {
    RuleBlock::Any { group, priority: PRIORITY_DEFAULT, actions: vec![action] }
}

/// The part of `count` rules that stands in place `place` of a chain of `chain` groups.
fn share(flows: FlowSpec, count: u32, place: u32, chain: u32, group: u32) -> Option<RuleBlock> {
    let edge = |i: u32| (u64::from(count) * u64::from(i) / u64::from(chain)) as u32;
    let (first, end) = (edge(place), edge(place + 1));
    (end > first).then(|| RuleBlock::FiveTuples {
        group,
        priority: PRIORITY_RULES,
        flows,
        first,
        count: end - first,
        actions: vec![Action::Queue(0)],
    })
}

/// Reads a frame size: a number of bytes, or `imix`.
pub fn frame(coordinate: &Coordinate) -> Result<FrameSizes, SpecError> {
    let refuse = || SpecError::OutOfRange {
        axis: "frame",
        value: coordinate.to_string(),
        remedy: "use 64 to 9000 bytes with FCS, or imix".into(),
    };
    match coordinate {
        Coordinate::Number(bytes) if (64.0..=9_000.0).contains(bytes) => {
            Ok(FrameSizes::Fixed(*bytes as u16))
        }
        Coordinate::Word(word) if word == "imix" => Ok(FrameSizes::Imix),
        _ => Err(refuse()),
    }
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
