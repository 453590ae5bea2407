//! Groups of rules that stay together.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use super::PartitionError;
use crate::ranges::{AddressSet, RangeSet};
use crate::region::{Region, Selector};
use crate::rule::{Action, Rule, SharedState, Transport, Transports, is_known};

/// Rules that stay together: they concern the same flows, or share state of more than one flow.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleGroup {
    /// Indexes of its rules.
    pub rules: Vec<usize>,
    /// Where it is.
    pub placement: Placement,
    /// A rule with state of more than one flow, if there is one.
    pub wide: Option<WideRule>,
    /// Work per packet that it concerns, in the unit of [`rule_cost`].
    pub(super) cost: f64,
    region: Region,
}

/// A rule with state of more than one flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WideRule {
    /// Its index.
    pub rule: usize,
    /// Why it has such state.
    pub reason: WideReason,
}

/// Why a rule has state of more than one flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WideReason {
    /// By this keyword.
    Keyword(String),
    /// This keyword is not known, so it may have such state.
    Unknown(String),
    /// An error message of ICMP is of the flow that it is about.
    IcmpError,
    /// FTP announces the flow of a file in another one.
    FtpData,
}

impl fmt::Display for WideReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WideReason::Keyword(name) => write!(f, "`{name}` has state of more than one flow"),
            WideReason::Unknown(name) => {
                write!(f, "`{name}` is unknown, and may have state of more than one flow")
            }
            WideReason::IcmpError => f.write_str("it depends on flows that ICMP errors are about"),
            WideReason::FtpData => {
                f.write_str("it can match files of FTP, which other flows announce")
            }
        }
    }
}

/// Where a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// On one core.
    Core(usize),
    /// On every reporter, or on every core.
    Replicated(Reason),
}

/// Why a group is replicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It can concern any flow of its transport.
    AnyFlow,
    /// Its rules decide whether others are tried: `pass`, `bypass`.
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

/// Keywords that look at files, which can be those of FTP.
const OF_FILES: [&str; 12] = [
    "file.data",
    "file_data",
    "file.magic",
    "file.name",
    "fileext",
    "filemagic",
    "filemd5",
    "filename",
    "filesha1",
    "filesha256",
    "filesize",
    "filestore",
];

/// The groups, and the group of each rule. Groups that are to be placed are on core 0.
pub(super) fn of(rules: &[Rule]) -> Result<(Vec<RuleGroup>, Vec<usize>), PartitionError> {
    let wide: Vec<Option<WideReason>> = rules.iter().map(wide_reason).collect();
    let mut joined = Joined::new(rules.len());
    let mut by_state = HashMap::new();
    for (index, rule) in rules.iter().enumerate() {
        for keyword in &rule.keywords {
            for state in keyword.states() {
                if let SharedState::Wide { name: Some(name) } = state {
                    joined.join(index, *by_state.entry(name).or_insert(index));
                }
            }
        }
    }
    let mut together: HashMap<usize, Vec<usize>> = HashMap::new();
    for index in 0..rules.len() {
        together.entry(joined.root(index)).or_default().push(index);
    }
    // Sets of rules that concern the same flows cost less together than apart.
    let mut groups: Vec<RuleGroup> = Vec::new();
    let (mut group_of, mut by_region) = (vec![0; rules.len()], HashMap::new());
    for index in 0..rules.len() {
        let Some(members) = together.remove(&index) else { continue };
        let group = group(members, rules, &wide)?;
        let key = (group.region.clone(), group.placement, group.wide.is_some());
        let at = *by_region.entry(key).or_insert(groups.len());
        group.rules.iter().for_each(|&rule| group_of[rule] = at);
        match groups.get_mut(at) {
            None => groups.push(group),
            Some(other) => {
                other.cost += group.cost;
                other.rules.extend(group.rules);
            }
        }
    }
    Ok((groups, group_of))
}

/// Why a rule has state beyond the flow of its own packets, if it has.
fn wide_reason(rule: &Rule) -> Option<WideReason> {
    let states = || rule.keywords.iter().map(|keyword| (keyword, keyword.states()));
    let is_wide = |states: &[SharedState]| {
        states.iter().any(|state| matches!(state, SharedState::Wide { .. }))
    };
    if let Some((keyword, _)) = states().find(|(_, states)| is_wide(states)) {
        let name = keyword.name.clone();
        return Some(match is_known(&name) {
            true => WideReason::Keyword(name),
            false => WideReason::Unknown(name),
        });
    }
    let has_state = states().any(|(_, states)| !states.is_empty());
    let of_icmp = rule.protocol.transports == Transports::of(&[Transport::Icmp]);
    if of_icmp && (has_state || rule.value("flow").is_some()) {
        return Some(WideReason::IcmpError);
    }
    let of_any = ["ip", "tcp", "tcp-pkt", "tcp-stream"].contains(&rule.protocol.name.as_str());
    let of_ftp_data = rule.protocol.name == "ftp-data"
        || rule.keywords.iter().any(|keyword| {
            let value = keyword.value.as_deref().unwrap_or_default();
            keyword.name == "ftpdata_command"
                || keyword.name == "app-layer-protocol" && value.contains("ftp-data")
                || of_any && OF_FILES.contains(&keyword.name.as_str())
        });
    of_ftp_data.then_some(WideReason::FtpData)
}

fn group(
    members: Vec<usize>,
    rules: &[Rule],
    wide: &[Option<WideReason>],
) -> Result<RuleGroup, PartitionError> {
    let of = |&rule: &usize| Some(WideRule { rule, reason: wide[rule].clone()? });
    let wide = members.iter().find_map(of);
    let decides = |&&at: &&usize| {
        rules[at].action == Action::Pass
            || rules[at].keywords.iter().any(|keyword| keyword.name == "bypass")
    };
    let pass = members.iter().find(decides);
    if let (Some(wide), Some(&pass)) = (&wide, pass) {
        let (sid, reason) = (rules[pass].sid, wide.reason.clone());
        return Err(PartitionError::WidePass { sid, reason });
    }
    let mut region = union(members.iter().map(|&at| Region::of(&rules[at])));
    match wide.as_ref().map(|wide| &wide.reason) {
        Some(WideReason::IcmpError) => {
            region = Region { transports: Transports::ALL, selector: Selector::Any };
        }
        Some(WideReason::FtpData) => region.selector = Selector::Any,
        _ => {}
    }
    let placement = match (pass, &wide, &region.selector) {
        (Some(_), _, _) => Placement::Replicated(Reason::Pass),
        (None, None, Selector::Any) => Placement::Replicated(Reason::AnyFlow),
        _ => Placement::Core(0),
    };
    let cost = members.iter().map(|&at| rule_cost(&rules[at])).sum();
    Ok(RuleGroup { rules: members, placement, wide, cost, region })
}

/// The smallest region that a card can tell with all flows of some regions.
fn union(regions: impl Iterator<Item = Region>) -> Region {
    let regions: BTreeSet<Region> = regions.collect();
    let transports = regions.iter().map(|region| region.transports);
    let transports = transports.fold(Transports::default(), Transports::union);
    let (mut ports, mut v4, mut v6) = (Vec::new(), Vec::new(), Vec::new());
    for region in &regions {
        match &region.selector {
            Selector::Any => return Region { transports, selector: Selector::Any },
            Selector::Ports(set) => ports.extend(set.ranges()),
            Selector::Addresses(set) => {
                v4.extend(set.v4.ranges());
                v6.extend(set.v6.ranges());
            }
        }
    }
    let addresses = AddressSet { v4: RangeSet::new(v4), v6: RangeSet::new(v6) };
    let selector = match (ports.is_empty(), addresses.is_empty()) {
        (false, true) => Selector::Ports(RangeSet::new(ports)),
        (true, false) => Selector::Addresses(addresses),
        _ => Selector::Any,
    };
    Region { transports, selector }
}

/// For each rule, the rules that change the state of a flow which it depends on, at once or through
/// others.
pub(super) struct Support {
    /// The rules that change each state.
    writers: HashMap<String, Vec<usize>>,
    /// The states that each rule depends on.
    reads: Vec<Vec<String>>,
}

impl Support {
    pub(super) fn of(rules: &[Rule]) -> Support {
        let (mut writers, mut reads) = (HashMap::<_, Vec<_>>::new(), vec![Vec::new(); rules.len()]);
        for (index, rule) in rules.iter().enumerate() {
            for state in rule.keywords.iter().flat_map(|keyword| keyword.states()) {
                let SharedState::Flow { name, reads: depends, writes } = state else { continue };
                if writes {
                    writers.entry(name.clone()).or_default().push(index);
                }
                if depends {
                    reads[index].push(name);
                }
            }
        }
        Support { writers, reads }
    }

    /// Adds to a set of rules all that they depend on.
    pub(super) fn close(&self, has: &mut [bool]) {
        let mut open: Vec<usize> = (0..has.len()).filter(|&rule| has[rule]).collect();
        let mut closed = BTreeSet::new();
        while let Some(rule) = open.pop() {
            for name in self.reads[rule].iter().filter(|name| closed.insert(name.as_str())) {
                for &writer in self.writers.get(name).into_iter().flatten() {
                    if !std::mem::replace(&mut has[writer], true) {
                        open.push(writer);
                    }
                }
            }
        }
    }
}

/// Disjoint sets of indexes that grow together. The root of a set is its smallest index.
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
