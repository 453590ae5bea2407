//! The tables of the program `programs/ids-steering`, by which a card routes frames as a
//! [`Partition`] does.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::frame::TUNNEL_PORTS;
use crate::partition::{Partition, Placement, RuleGroup};
use crate::ranges::RangeSet;
use crate::region::Selector;
use crate::rule::Transport;

/// The program.
pub const STEERING_PROGRAM: &str = include_str!("../../../programs/ids-steering/ids-steering.spec");

/// The most cores: a multicast group of the card stands for each set of them.
pub const STEERING_CORES_MAX: usize = 12;

/// Entries of each table of the program.
const ENTRIES_MAX: usize = 65_536;

/// Transports by their numbers in the program, with the array of their ports.
const TRANSPORTS: [(Transport, Option<&str>); 5] = [
    (Transport::Tcp, Some("tcp_ports")),
    (Transport::Udp, Some("udp_ports")),
    (Transport::Sctp, Some("sctp_ports")),
    (Transport::Icmp, None),
    (Transport::Other, None),
];

/// Why a card cannot route as a partition does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SteeringError {
    /// There are too many cores.
    #[error("not supported: {0} cores: niclab's program for the card has 12 at most")]
    Cores(usize),
    /// The rules name too many addresses.
    #[error(
        "not supported: {entries} entries of addresses: a table of niclab's program for the card \
         has {ENTRIES_MAX}; leave out rules with long lists of addresses"
    )]
    Entries {
        /// How many there are.
        entries: usize,
    },
}

/// Tables, registers and multicast groups, as `niclab nic --tables` reads them in JSON. The card
/// receives by port 0; the engine of core k is at port k + 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SteeringTables {
    tables: BTreeMap<&'static str, SteeringTable>,
    registers: BTreeMap<&'static str, BTreeMap<u64, u64>>,
    multicast: BTreeMap<u64, Vec<u64>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct SteeringTable {
    entries: Vec<SteeringEntry>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct SteeringEntry {
    key: BTreeMap<&'static str, String>,
    action: &'static str,
    arguments: BTreeMap<&'static str, u64>,
}

impl SteeringTables {
    /// Those of a partition.
    ///
    /// # Errors
    /// More cores than [`STEERING_CORES_MAX`], or more prefixes of addresses than a table has
    /// entries.
    pub fn of(partition: &Partition) -> Result<SteeringTables, SteeringError> {
        let cores = partition.cores_count();
        if cores > STEERING_CORES_MAX {
            return Err(SteeringError::Cores(cores));
        }
        let everyone = (1 << cores) - 1;
        let bits = |cores: &[usize]| cores.iter().fold(0, |bits, core| bits | 1 << core);
        let reporters = partition.reporters();
        let bucket = |at: u64| 1 << reporters[at as usize % reporters.len()];
        let mut registers = BTreeMap::from([
            ("everyone", BTreeMap::from([(0, everyone)])),
            ("reporters", BTreeMap::from([(0, bits(reporters))])),
            ("buckets", (0..256).map(|at| (at, bucket(at))).collect()),
            ("transports", transports(partition)),
        ]);
        for (transport, array) in TRANSPORTS {
            let Some(array) = array else { continue };
            let mut ports = ports(partition, transport);
            if transport == Transport::Udp {
                ports.extend(TUNNEL_PORTS.map(|port| (port.into(), everyone)));
            }
            registers.insert(array, ports);
        }
        let ports = |mask: u64| (0..cores as u64).filter(move |core| mask >> core & 1 == 1);
        let multicast =
            (1..=everyone).map(|mask| (mask, ports(mask).map(|core| core + 1).collect()));
        Ok(SteeringTables { tables: tables(partition)?, registers, multicast: multicast.collect() })
    }
}

/// The groups that are placed, each with its core as a bit.
fn placed(partition: &Partition) -> impl Iterator<Item = (&RuleGroup, u64)> {
    partition.groups().iter().filter_map(|group| match group.placement {
        Placement::Core(core) => Some((group, 1 << core)),
        Placement::Replicated(_) => None,
    })
}

/// Cores that get every packet, by the number of the transport.
fn transports(partition: &Partition) -> BTreeMap<u64, u64> {
    let mut masks = BTreeMap::new();
    for (group, bit) in placed(partition) {
        let region = group.region();
        for (number, (transport, _)) in (0..).zip(TRANSPORTS) {
            if region.selector == Selector::Any && region.transports.contains(transport) {
                *masks.entry(number).or_default() |= bit;
            }
        }
    }
    masks
}

/// Cores with rules on a port, by the port.
fn ports(partition: &Partition, transport: Transport) -> BTreeMap<u64, u64> {
    let mut masks = BTreeMap::new();
    for (group, bit) in placed(partition) {
        let region = group.region();
        if let Selector::Ports(ports) = &region.selector
            && region.transports.contains(transport)
        {
            for port in ports.ranges().iter().flat_map(|&(low, high)| low..=high) {
                *masks.entry(port as u64).or_default() |= bit;
            }
        }
    }
    masks
}

/// The tables of addresses.
fn tables(partition: &Partition) -> Result<BTreeMap<&'static str, SteeringTable>, SteeringError> {
    let mut tables = BTreeMap::new();
    for (bits, names) in [(32, ["sources4", "destinations4"]), (128, ["sources6", "destinations6"])]
    {
        let mut entries = Vec::new();
        for (number, (transport, _)) in (0u64..).zip(TRANSPORTS) {
            for (range, mask) in ranges(partition, transport, bits) {
                let prefixes = prefixes(range, bits).into_iter();
                entries.extend(prefixes.map(|prefix| (number, prefix, mask)));
                if entries.len() > ENTRIES_MAX {
                    return Err(SteeringError::Entries { entries: entries.len() });
                }
            }
        }
        for (name, field) in names.into_iter().zip(["src", "dst"]) {
            let entry = |(number, (start, len), mask): &(u64, (u128, u32), u64)| SteeringEntry {
                key: BTreeMap::from([
                    ("transport", number.to_string()),
                    (field, format!("{}/{len}", address(*start, bits))),
                ]),
                action: "cores",
                arguments: BTreeMap::from([("mask", *mask)]),
            };
            tables.insert(name, SteeringTable { entries: entries.iter().map(entry).collect() });
        }
    }
    Ok(tables)
}

fn address(number: u128, bits: u32) -> std::net::IpAddr {
    match bits {
        32 => std::net::Ipv4Addr::from(number as u32).into(),
        _ => std::net::Ipv6Addr::from(number).into(),
    }
}

/// Ranges of addresses that rules name, none of which overlap, each with its cores.
fn ranges(partition: &Partition, transport: Transport, bits: u32) -> Vec<((u128, u128), u64)> {
    let mut sets: BTreeMap<u64, RangeSet> = BTreeMap::new();
    for (group, bit) in placed(partition) {
        let region = group.region();
        if let Selector::Addresses(addresses) = &region.selector
            && region.transports.contains(transport)
        {
            let set = if bits == 32 { &addresses.v4 } else { &addresses.v6 };
            let all = sets.entry(bit).or_default();
            *all = all.union(set);
        }
    }
    let edges = sets.values().flat_map(RangeSet::ranges);
    // Each range ends before the next edge.
    let mut edges: Vec<u128> =
        edges.flat_map(|&(low, high)| [Some(low), high.checked_add(1)]).flatten().collect();
    edges.sort_unstable();
    edges.dedup();
    let last = if bits == 32 { u32::MAX.into() } else { u128::MAX };
    let ends = edges.iter().skip(1).map(|next| next - 1).chain([last]);
    let with_mask = |(&low, high): (&u128, u128)| {
        let mask = sets.iter().filter(|(_, set)| set.contains(low)).map(|(bit, _)| bit).sum();
        ((low, high), mask)
    };
    edges.iter().zip(ends).map(with_mask).filter(|&(_, mask)| mask != 0).collect()
}

/// The prefixes that make up a range, each as its start and the number of its bits.
fn prefixes((mut low, high): (u128, u128), bits: u32) -> Vec<(u128, u32)> {
    let mut prefixes = Vec::new();
    loop {
        // The largest block that begins here and does not reach beyond the end.
        let mut free = if low == 0 { bits } else { low.trailing_zeros().min(bits) };
        let last = |free: u32| low | u128::MAX.checked_shr(128 - free).unwrap_or(0);
        while last(free) > high {
            free -= 1;
        }
        prefixes.push((low, bits - free));
        match last(free).checked_add(1) {
            Some(next) if next <= high => low = next,
            _ => return prefixes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_make_up_the_range_and_nothing_else() {
        assert_eq!(prefixes((0, u32::MAX.into()), 32), [(0, 0)]);
        assert_eq!(prefixes((0, u128::MAX), 128), [(0, 0)]);
        assert_eq!(prefixes((u128::MAX, u128::MAX), 128), [(u128::MAX, 128)]);
        assert_eq!(prefixes((1, 6), 32), [(1, 32), (2, 31), (4, 31), (6, 32)]);
        for (low, high) in [(3, 3), (0, 9), (5, 64), (17, 200)] {
            let all: Vec<u128> = prefixes((low, high), 32)
                .into_iter()
                .flat_map(|(start, len)| start..start + (1 << (32 - len)))
                .collect();
            assert_eq!(all, (low..=high).collect::<Vec<_>>());
        }
    }
}
