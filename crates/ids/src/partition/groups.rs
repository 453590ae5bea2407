//! Groups of rules that stay together.

use std::collections::{BTreeSet, HashMap};

use super::PartitionError;
use crate::ranges::{AddressSet, RangeSet};
use crate::region::{Region, Selector};
use crate::rule::{Action, FlowState, Rule, Transport, Transports};

/// Rules that stay together.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleGroup {
    /// Indexes of its rules.
    pub rules: Vec<usize>,
    /// Where it is.
    pub placement: Placement,
    /// The keyword by which it has state beyond one flow.
    pub wide_keyword: Option<String>,
    /// Work per packet that it concerns, in the unit of [`rule_cost`].
    pub(super) cost: f64,
    region: Region,
}

/// Where a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// On one core.
    Core(usize),
    /// On every core.
    Replicated(Reason),
}

/// Why a group is replicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A rule of it can concern any flow of its transport.
    AnyFlow,
    /// A rule of it is a `pass` rule.
    Pass,
}

impl RuleGroup {
    /// The flows that it can concern.
    pub fn region(&self) -> &Region {
        &self.region
    }
}

/// Work of a rule for a packet that it can concern, relative to [`PACKET_COST`]: each pattern and
/// each regular expression adds to it.
pub(super) fn rule_cost(rule: &Rule) -> f64 {
    let count = |name| rule.keywords.iter().filter(|keyword| keyword.name == name).count() as f64;
    1.0 + count("content") + 10.0 * count("pcre")
}

/// Work of a packet on a core with no rule: decoding, its flow and its stream.
pub(super) const PACKET_COST: f64 = 1000.0;

/// The groups, and the group of each rule. Groups that are to be placed are on core 0.
pub(super) fn of(rules: &[Rule]) -> Result<(Vec<RuleGroup>, Vec<usize>), PartitionError> {
    let regions: Vec<Region> = rules.iter().map(Region::of).collect();
    let states: Vec<Vec<FlowState>> =
        rules.iter().map(|rule| rule.keywords.iter().flat_map(|k| k.states()).collect()).collect();
    let mut joined = Joined::new(rules.len());
    let (mut by_state, mut by_region) = (HashMap::new(), HashMap::new());
    for (index, rule) in rules.iter().enumerate() {
        let of_flow = |state: &&FlowState| matches!(state, FlowState::Flow(_));
        for state in states[index].iter().filter(of_flow) {
            joined.join(index, *by_state.entry(state).or_insert(index));
        }
        // Rules of one region and kind cost less together than apart.
        let kind = (&regions[index], rule.action == Action::Pass, wide(&states[index], rule));
        joined.join(index, *by_region.entry(kind).or_insert(index));
    }
    let mut place_of = HashMap::new();
    let mut members: Vec<Vec<usize>> = Vec::new();
    let mut group_of = Vec::with_capacity(rules.len());
    for index in 0..rules.len() {
        let group = *place_of.entry(joined.root(index)).or_insert_with(|| {
            members.push(Vec::new());
            members.len() - 1
        });
        members[group].push(index);
        group_of.push(group);
    }
    let group = |members: Vec<usize>| group(members, rules, &regions, &states);
    let groups = members.into_iter().map(group).collect::<Result<_, _>>()?;
    Ok((groups, group_of))
}

/// The keyword by which a rule has state beyond the flow of its own packets.
fn wide<'a>(states: &'a [FlowState], rule: &'a Rule) -> Option<&'a str> {
    let keyword = states.iter().find_map(|state| match state {
        FlowState::Wider(keyword) => Some(keyword.as_str()),
        FlowState::Flow(_) => None,
    });
    keyword.or_else(|| needs_other_flows(rule, states))
}

/// The keyword by which a rule looks at flows that its own packets are not of: an error message of
/// ICMP is of the flow that it is about, and Suricata expects FTP's data from its commands.
fn needs_other_flows(rule: &Rule, states: &[FlowState]) -> Option<&'static str> {
    let is_icmp = rule.protocol.transports == Transports::of(&[Transport::Icmp]);
    if rule.protocol.name == "ftp-data" {
        Some("ftp-data")
    } else if is_icmp && !states.is_empty() {
        Some("flowbits")
    } else {
        (is_icmp && rule.value("flow").is_some()).then_some("flow")
    }
}

fn group(
    members: Vec<usize>,
    rules: &[Rule],
    regions: &[Region],
    states: &[Vec<FlowState>],
) -> Result<RuleGroup, PartitionError> {
    let wide_keyword = members.iter().find_map(|&at| wide(&states[at], &rules[at]));
    let pass = members.iter().find(|&&at| rules[at].action == Action::Pass);
    if let (Some(keyword), Some(&pass)) = (wide_keyword, pass) {
        return Err(PartitionError::WidePass { sid: rules[pass].sid, keyword: keyword.to_owned() });
    }
    let mut region = union(members.iter().map(|&at| &regions[at]));
    if members.iter().any(|&at| needs_other_flows(&rules[at], &states[at]).is_some()) {
        region = Region { transports: Transports::ALL, selector: Selector::Any };
    }
    let placement = match (pass, wide_keyword, &region.selector) {
        (Some(_), _, _) => Placement::Replicated(Reason::Pass),
        (None, None, Selector::Any) => Placement::Replicated(Reason::AnyFlow),
        _ => Placement::Core(0),
    };
    let cost = members.iter().map(|&at| rule_cost(&rules[at])).sum();
    let wide_keyword = wide_keyword.map(str::to_owned);
    Ok(RuleGroup { rules: members, placement, wide_keyword, cost, region })
}

/// The smallest region that a card can tell with all flows of some regions.
fn union<'a>(regions: impl Iterator<Item = &'a Region>) -> Region {
    let regions: BTreeSet<&Region> = regions.collect();
    let transports = regions.iter().map(|region| region.transports);
    let transports = transports.fold(Transports::default(), Transports::union);
    let (mut ports, mut addresses) = (RangeSet::default(), AddressSet::default());
    for region in regions {
        match &region.selector {
            Selector::Any => return Region { transports, selector: Selector::Any },
            Selector::Ports(set) => ports = ports.union(set),
            Selector::Addresses(set) => addresses = addresses.union(set),
        }
    }
    let selector = match (ports.is_empty(), addresses.is_empty()) {
        (false, true) => Selector::Ports(ports),
        (true, false) => Selector::Addresses(addresses),
        _ => Selector::Any,
    };
    Region { transports, selector }
}

/// Disjoint sets of indexes that grow together.
struct Joined(Vec<usize>);

impl Joined {
    fn new(len: usize) -> Joined {
        Joined((0..len).collect())
    }

    fn root(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}
