//! Divides rules over cores, so that each packet meets few of them, and no alert is lost.
//!
//! Suricata's rules share state: bits of a flow (`flowbits`), counts of a host (`threshold`). Rules
//! that share state of more than one flow stay together, and so do rules that concern the same
//! flows: they form *groups*. A group is
//!
//! - *replicated*, if it can match any flow of its transport. It is on all *reporters*. These are
//!   all cores. If a placed group makes one core get all packets, they are that core alone, or all
//!   others, whichever makes less work;
//! - on every core, if its rules decide whether others are tried (`pass`, `bypass`);
//! - *placed* on one core otherwise, which gets all flows that the group can concern. So is a group
//!   with state of more than one flow, however many flows it concerns.
//!
//! A core also has copies of the rules that change the state of flows which its own rules depend
//! on. Alerts of such copies do not count.
//!
//! Every flow goes to all cores with a placed group that can concern it. If none of them is a
//! reporter, it also goes to one that a hash chooses. Alerts of replicated rules count only at the
//! first reporter of the flow.

mod balance;
mod groups;
mod index;

use std::collections::HashMap;
use std::net::IpAddr;

use crate::frame::flow_of;
use crate::region::FlowEnds;
use crate::rule::Rule;

pub use groups::{Placement, Reason, RuleGroup, WideReason, WideRule};

use balance::Balance;
use groups::Support;
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
    #[error("{0} cores are not possible; give 1 to 64")]
    Cores(usize),
    /// A `pass` rule has state of more than one flow.
    #[error(
        "not supported: the rule {sid} decides about others, and has or shares state of more than \
         one flow ({reason}), which niclab cannot keep equal on all cores; remove one of the two"
    )]
    WidePass {
        /// Its number.
        sid: u32,
        /// Why it has such state.
        reason: WideReason,
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
    /// Packets that it gets, as a share of all packets. The shares add up to more than 1, if some
    /// packets go to several cores.
    pub traffic_ratio: f64,
    /// Its work as a share of the work of one core that has all rules and all packets, in the
    /// model of cost. Copies of rules that others depend on are left out.
    pub cost_ratio: f64,
}

/// Rules divided over cores.
#[derive(Clone, Debug)]
pub struct Partition {
    groups: Vec<RuleGroup>,
    /// The group of each rule.
    group_of: Vec<usize>,
    /// Whether each core has each rule.
    has: Vec<Vec<bool>>,
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
        let support = Support::of(rules);
        let has = |core: usize| {
            let is_home = |&group: &usize| match groups[group].placement {
                Placement::Core(owner) => owner == core,
                Placement::Replicated(Reason::Pass) => true,
                Placement::Replicated(Reason::AnyFlow) => reporters.contains(&core),
            };
            let mut has: Vec<bool> = group_of.iter().map(is_home).collect();
            support.close(&mut has);
            has
        };
        let has = (0..cores).map(has).collect();
        Ok(Partition { groups, group_of, has, index, shares, reporters })
    }

    /// All rules on every core. A hash gives each flow to one of them, as RSS does. Each core keeps
    /// state of more than one flow, such as that of `threshold`, by itself.
    ///
    /// # Errors
    /// As [`Partition::new`].
    pub fn copies(rules: &[Rule], cores: usize) -> Result<Partition, PartitionError> {
        if rules.is_empty() {
            return Err(PartitionError::NoRules);
        }
        if !(1..=CORES_MAX).contains(&cores) {
            return Err(PartitionError::Cores(cores));
        }
        let (mut groups, group_of) = groups::of(rules)?;
        let is_placed = |group: &&mut RuleGroup| matches!(group.placement, Placement::Core(_));
        for group in groups.iter_mut().filter(is_placed) {
            group.placement = Placement::Replicated(Reason::AnyFlow);
        }
        let index = RegionIndex::new(&groups, |_| false);
        let share = 1.0 / cores as f64;
        let share = CoreShare { traffic_ratio: share, cost_ratio: share };
        let has = vec![vec![true; rules.len()]; cores];
        let (shares, reporters) = (vec![share; cores], (0..cores).collect());
        Ok(Partition { groups, group_of, has, index, shares, reporters })
    }

    /// How many cores there are.
    pub fn cores_count(&self) -> usize {
        self.shares.len()
    }

    /// The cores with the replicated rules, in the order in which they report.
    pub fn reporters(&self) -> &[usize] {
        &self.reporters
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

    /// Whether a core has a rule: for its alerts, or because others depend on it.
    pub fn has(&self, core: usize, rule: usize) -> bool {
        self.has[core][rule]
    }

    /// Whether the alerts of a rule count that a core reports of a flow with this route.
    pub fn counts(&self, core: usize, rule: usize, route: &Route) -> bool {
        match self.group_of(rule).placement {
            Placement::Core(owner) => owner == core,
            Placement::Replicated(_) => route.reporter == core,
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
        Route::of(cores, &self.reporters, bucket(flow))
    }

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
    fn of(cores: u64, reporters: &[usize], bucket: usize) -> Route {
        match reporters.iter().find(|&&core| cores >> core & 1 == 1) {
            Some(&reporter) => Route { cores, reporter },
            None => {
                let reporter = reporters[bucket % reporters.len()];
                Route { cores: cores | 1 << reporter, reporter }
            }
        }
    }
}

/// A number below 256 that both directions of a flow share: a byte of the CRC-32C of the folded
/// addresses and ports, as `programs/ids-steering` computes it.
fn bucket(flow: &FlowEnds) -> usize {
    let folded = |address| match address {
        IpAddr::V4(address) => u32::from(address),
        IpAddr::V6(address) => {
            let [a, b, c, d] = [96, 64, 32, 0].map(|at| (u128::from(address) >> at) as u32);
            a ^ b ^ c ^ d
        }
    };
    let addresses = folded(flow.source.0) ^ folded(flow.destination.0);
    let ports = flow.source.1 ^ flow.destination.1;
    let bytes = addresses.to_le_bytes().into_iter().chain(ports.to_le_bytes());
    (bytes.fold(0, crc32c) & 0xff) as usize
}

/// CRC-32C (RFC 3720, section 12.1) with one byte more, bit by bit.
fn crc32c(crc: u32, byte: u8) -> u32 {
    let step = |crc: u32, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    (0..8).fold(crc ^ u32::from(byte), step)
}

#[cfg(test)]
mod tests;
