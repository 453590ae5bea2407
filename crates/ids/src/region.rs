//! The flows that a rule can match, as a card can distinguish them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ranges::{AddressSet, RangeSet};
use crate::rule::{Rule, RuleEnd, Transport, Transports};

/// The most ports of a region that are fewer than all.
const PORTS_MAX: u128 = 4096;
/// The most IPv4 addresses, and the most prefixes, of a region that are fewer than all: a 256th of
/// the addresses.
const ADDRESSES_MAX: u128 = 1 << 24;
const RANGES_MAX: usize = 4096;

/// Ports or addresses of a region that are shown.
const PARTS_MAX: usize = 8;

/// Both ends of a flow, and its transport. Ports are 0 where the transport has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowEnds {
    /// The transport protocol.
    pub transport: Transport,
    /// One end.
    pub source: (IpAddr, u16),
    /// The other.
    pub destination: (IpAddr, u16),
}

/// A set of flows. A flow that has a packet in one direction in it has all its packets in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region {
    /// With one of these transports.
    pub transports: Transports,
    /// And these ends.
    pub selector: Selector,
}

/// Ends of flows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// Any ends.
    Any,
    /// One of the two ends has one of these ports.
    Ports(RangeSet),
    /// One of the two ends has one of these addresses.
    Addresses(AddressSet),
}

impl Region {
    /// The flows with packets that the rule's header matches, or more of them.
    ///
    /// A card looks at one property of a flow: the ports of one end of the rule if they are at most
    /// 4096, else the addresses of one end if the rule names them itself and they are at most a
    /// 256th of IPv4. Variables such as `$HOME_NET` have the addresses of most traffic.
    pub fn of(rule: &Rule) -> Region {
        let transports = rule.protocol.transports;
        let ends = [&rule.source, &rule.destination];
        let has_ports =
            !transports.contains(Transport::Icmp) && !transports.contains(Transport::Other);
        let ports = ends.iter().map(|end| &end.ports).filter(|ports| ports.count() <= PORTS_MAX);
        if let Some(ports) = ports.min_by_key(|ports| ports.count())
            && has_ports
        {
            return Region { transports, selector: Selector::Ports(ports.clone()) };
        }
        let few = ends.iter().filter(|end| has_few_addresses(end)).map(|end| &end.addresses);
        let selector = match few.min_by_key(|addresses| addresses.v4.count()) {
            Some(addresses) => Selector::Addresses(addresses.clone()),
            None => Selector::Any,
        };
        Region { transports, selector }
    }

    /// Whether a flow is in it.
    pub fn contains(&self, flow: &FlowEnds) -> bool {
        let ends = [flow.source, flow.destination];
        self.transports.contains(flow.transport)
            && match &self.selector {
                Selector::Any => true,
                Selector::Ports(ports) => ends.iter().any(|&(_, port)| ports.contains(port.into())),
                Selector::Addresses(set) => ends.iter().any(|&(address, _)| set.contains(address)),
            }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.selector {
            Selector::Any => write!(f, "{}, any ends", self.transports),
            Selector::Ports(ports) => {
                let (shown, more) = first(ports.ranges(), |&(low, high)| match low == high {
                    true => low.to_string(),
                    false => format!("{low}-{high}"),
                });
                write!(f, "{}, port {shown}{more}", self.transports)
            }
            Selector::Addresses(AddressSet { v4, v6 }) => {
                let four =
                    v4.ranges().iter().map(|&(low, _)| IpAddr::from(Ipv4Addr::from(low as u32)));
                let six = v6.ranges().iter().map(|&(low, _)| IpAddr::from(Ipv6Addr::from(low)));
                let starts: Vec<IpAddr> = four.chain(six).collect();
                let (shown, more) = first(&starts, ToString::to_string);
                write!(f, "{}, addresses from {shown}{more}", self.transports)
            }
        }
    }
}

/// The first parts, and how many more there are.
fn first<T>(parts: &[T], text: impl Fn(&T) -> String) -> (String, String) {
    let shown: Vec<String> = parts.iter().take(PARTS_MAX).map(text).collect();
    let more = parts.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (shown.join(", "), more)
}

fn has_few_addresses(end: &RuleEnd) -> bool {
    let AddressSet { v4, v6 } = &end.addresses;
    let ranges_count = v4.ranges().len() + v6.ranges().len();
    // The same share of IPv6.
    !end.has_address_variables
        && ranges_count <= RANGES_MAX
        && v4.count() <= ADDRESSES_MAX
        && v6.count() <= 1 << 120
}
