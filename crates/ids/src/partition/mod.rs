//! Divides rules over cores, so that each packet meets few of them, and no alert is lost.
//!
//! Suricata's rules share state: bits of a flow (`flowbits`), counts of a host (`threshold`). So
//! rules form *groups* that stay together. Each group is
//!
//! - *replicated* on all cores, if it can concern any flow of its transport, or if it is of `pass`
//!   rules, which decide about all others;
//! - *placed* on one core, which gets all flows that the group can concern. This is so, too, for a
//!   group with state beyond one flow, however many flows it concerns.
//!
//! Every flow goes to all cores with a group that can concern it, or else to one that a hash
//! chooses. One of these cores is the flow's *reporter*: only its alerts of replicated rules count.

mod balance;
mod groups;
mod index;

use std::collections::HashMap;

use crate::frame::flow_of;
use crate::region::FlowEnds;
use crate::rule::Rule;

pub use groups::{Placement, Reason, RuleGroup};

use balance::Balance;
use index::RegionIndex;

/// The most cores.
pub const CORES_MAX: usize = 64;

/// Why rules cannot be divided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartitionError {
    /// There are no rules.
    #[error("there is no rule; give files with rules")]
    NoRules,
    /// No such number of cores is possible.
    #[error("cores is {0}; give 1 to 64")]
    Cores(usize),
    /// A `pass` rule shares state beyond one flow.
    #[error(
        "not supported: the pass rule {sid} has `{keyword}`: niclab cannot keep its state equal on \
         all cores; remove the keyword or the rule"
    )]
    WidePass {
        /// Its number.
        sid: u32,
        /// The keyword with such state.
        keyword: String,
    },
}

/// Packets, counted by flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    flows: HashMap<FlowEnds, u64>,
    others: u64,
}

impl Traffic {
    /// Adds an Ethernet frame (no FCS).
    pub fn add_frame(&mut self, frame: &[u8]) {
        match flow_of(frame) {
            Some(flow) => self.add(flow, 1),
            None => self.others += 1,
        }
    }

    /// Adds packets of a flow.
    pub fn add(&mut self, flow: FlowEnds, packets: u64) {
        *self.flows.entry(flow).or_default() += packets;
    }

    /// All packets.
    pub fn packets(&self) -> u64 {
        self.flows.values().sum::<u64>() + self.others
    }

    /// Packets that go to all cores ([`flow_of`]).
    pub fn others(&self) -> u64 {
        self.others
    }
}

/// A core's share of rules and traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreShare {
    /// Rules on this core alone.
    pub placed_rules: usize,
    /// Packets that it gets, as a share of all packets. The shares add up to more than 1, if some
    /// packets go to several cores.
    pub traffic_ratio: f64,
    /// Its work as a share of the work of one core that has all rules and all packets, in the
    /// model of cost.
    pub cost_ratio: f64,
}

/// Rules divided over cores.
#[derive(Clone, Debug)]
pub struct Partition {
    groups: Vec<RuleGroup>,
    /// The group of each rule.
    group_of: Vec<usize>,
    /// The groups that are placed.
    index: RegionIndex,
    shares: Vec<CoreShare>,
    /// Cores with the replicated rules.
    reporters: Vec<usize>,
}

impl Partition {
    /// Divides rules over `cores` cores.
    ///
    /// `traffic` says how much each group's packets weigh. Without any, all groups count as having
    /// the same number of packets, and as many packets as all groups together concern no group.
    ///
    /// # Errors
    /// There is no rule, the number of cores is not from 1 to [`CORES_MAX`], or a `pass` rule has
    /// state beyond one flow.
    pub fn new(
        rules: &[Rule],
        traffic: &Traffic,
        cores: usize,
    ) -> Result<Partition, PartitionError> {
        if rules.is_empty() {
            return Err(PartitionError::NoRules);
        }
        if !(1..=CORES_MAX).contains(&cores) {
            return Err(PartitionError::Cores(cores));
        }
        let (mut groups, group_of) = groups::of(rules)?;
        let classes = if traffic.packets() == 0 {
            balance::equal_classes(&groups)
        } else {
            balance::classes(&groups, traffic)
        };
        let balance = Balance::best(&groups, &classes, cores);
        let (core_of, reporters, shares) = balance.finish(traffic.others as f64);
        for (group, core) in groups.iter_mut().zip(core_of) {
            group.placement = core.map_or(group.placement, Placement::Core);
        }
        let index =
            RegionIndex::new(&groups, |group| matches!(group.placement, Placement::Core(_)));
        Ok(Partition { groups, group_of, index, shares, reporters })
    }

    /// How many cores there are.
    pub fn cores_count(&self) -> usize {
        self.shares.len()
    }

    /// The groups of rules.
    pub fn groups(&self) -> &[RuleGroup] {
        &self.groups
    }

    /// The group of a rule, by its index in the list that was divided.
    pub fn group_of(&self, rule: usize) -> &RuleGroup {
        &self.groups[self.group_of[rule]]
    }

    /// The share of each core.
    pub fn shares(&self) -> &[CoreShare] {
        &self.shares
    }

    /// Whether a core has a rule.
    pub fn has(&self, core: usize, rule: usize) -> bool {
        let group = self.group_of(rule);
        match group.placement {
            Placement::Core(owner) => owner == core,
            Placement::Replicated(Reason::Pass) => true,
            Placement::Replicated(_) => self.reporters.contains(&core),
        }
    }

    /// The cores that get a flow, as bits, and the one of them whose alerts of replicated rules
    /// count.
    pub fn route(&self, flow: &FlowEnds) -> Route {
        let mut cores = 0u64;
        for group in self.index.groups_of(&self.groups, flow) {
            if let Placement::Core(core) = self.groups[group].placement {
                cores |= 1 << core;
            }
        }
        Route::of(cores, &self.reporters, hash(flow))
    }
}

impl Partition {
    /// Where a frame goes whose flow only an engine can tell: to all cores.
    pub fn route_of_others(&self) -> Route {
        let cores = u64::MAX >> (CORES_MAX - self.cores_count());
        Route { cores, reporter: self.reporters[0] }
    }
}

/// Where a flow goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The cores that get it: core k is bit k.
    pub cores: u64,
    /// The core whose alerts of replicated rules count.
    pub reporter: usize,
}

impl Route {
    /// The route of a flow that rules of `cores` concern.
    fn of(cores: u64, reporters: &[usize], hash: u64) -> Route {
        match reporters.iter().find(|&&core| cores >> core & 1 == 1) {
            Some(&reporter) => Route { cores, reporter },
            None => {
                let reporter = reporters[hash as usize % reporters.len()];
                Route { cores: cores | 1 << reporter, reporter }
            }
        }
    }
}

/// A hash that both directions of a flow share.
fn hash(flow: &FlowEnds) -> u64 {
    let end = |(address, port): (std::net::IpAddr, u16)| {
        let bits = match address {
            std::net::IpAddr::V4(address) => u128::from(u32::from(address)),
            std::net::IpAddr::V6(address) => address.into(),
        };
        let folded = bits as u64 ^ (bits >> 64) as u64 ^ u64::from(port) << 48;
        // A step of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
        let mixed = (folded ^ folded >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
    };
    let sum = end(flow.source).wrapping_add(end(flow.destination));
    sum ^ sum >> 31
}

#[cfg(test)]
mod tests;
