//! The groups that can match a flow: those of ports by a table, all others by a scan.

use std::collections::HashMap;

use super::groups::RuleGroup;
use crate::region::{FlowEnds, Selector};
use crate::rule::{Transport, Transports};

/// Groups by the property that their regions look at.
#[derive(Clone, Debug)]
pub(super) struct RegionIndex {
    /// For each port, the groups with their transports.
    ports: HashMap<u16, Vec<(Transports, usize)>>,
    /// Groups that look at addresses, and those that look at nothing.
    others: Vec<usize>,
}

impl RegionIndex {
    /// Indexes the groups that `keep` accepts.
    pub(super) fn new(groups: &[RuleGroup], keep: impl Fn(&RuleGroup) -> bool) -> RegionIndex {
        let mut index = RegionIndex { ports: HashMap::new(), others: Vec::new() };
        for (at, group) in groups.iter().enumerate().filter(|(_, group)| keep(group)) {
            let region = group.region();
            let Selector::Ports(ports) = &region.selector else {
                index.others.push(at);
                continue;
            };
            for port in ports.ranges().iter().flat_map(|&(low, high)| low..=high) {
                let groups = index.ports.entry(port as u16).or_default();
                groups.push((region.transports, at));
            }
        }
        index
    }

    /// The groups that can concern a flow, sorted.
    pub(super) fn groups_of(&self, groups: &[RuleGroup], flow: &FlowEnds) -> Vec<usize> {
        let has_ports = matches!(flow.transport, Transport::Tcp | Transport::Udp | Transport::Sctp);
        let ends = [flow.source.1, flow.destination.1];
        let by_port = ends.iter().filter(|_| has_ports).filter_map(|port| self.ports.get(port));
        let by_port = by_port.flatten().filter(|(on, _)| on.contains(flow.transport));
        let others = self.others.iter().filter(|&&at| groups[at].region().contains(flow));
        let mut found: Vec<usize> = by_port.map(|&(_, at)| at).chain(others.copied()).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}
