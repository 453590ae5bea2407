//! The two flow sets of the experiments: flows that are sent, and flows that never are.
//!
//! They differ in their source addresses, so that no packet ever hits a rule of the second set.

use std::net::{IpAddr, Ipv4Addr};

use niclab_device::prefixes_range;
use niclab_packet::flow::{AddressRange, FlowSpec};

/// The flows of the traffic: UDP over IPv4 from 10.0.0.0/8.
pub fn sent(count: u32, seed: u64) -> FlowSpec {
    from(10, count, seed)
}

/// Flows of which no packet is ever sent: from 11.0.0.0/8.
pub fn never_sent(count: u32, seed: u64) -> FlowSpec {
    from(11, count, seed)
}

/// Flows to the first prefixes of a routing table, all over their addresses.
pub fn to_prefixes(count: u32, prefixes: u32, seed: u64) -> FlowSpec {
    FlowSpec { dst: Some(prefixes_range(prefixes)), ..sent(count, seed) }
}

fn from(network: u8, count: u32, seed: u64) -> FlowSpec {
    let network = IpAddr::V4(Ipv4Addr::new(network, 0, 0, 0));
    let src = Some(AddressRange::prefix(network, 8));
    FlowSpec { count: count.max(1), src, seed, ..FlowSpec::default() }
}
