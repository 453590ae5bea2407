//! The longest prefix of a routing table, against DPDK's `rte_fib` and `rte_fib6`.
//!
//! Our side classifies frames: it reads their headers, jumps to the group of the routes, finds the
//! rule and fills in the queue. The peer gets the addresses read beforehand and gives a next hop.
//! Both must give the same for every address before anything is timed.

use std::collections::HashSet;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use niclab_nic::limits::BURST;
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, Operation, Worker};
use niclab_packet::BuildError;
use niclab_packet::key::{Key, field};
use niclab_packet::stack::{Layer, build_with_len};
use niclab_packet::wire::{IpProtocol, ethernet, ipv4, ipv6, udp};
use niclab_peer::Peer;

use crate::acl::{PACKETS, agree, built, peer_built};
use crate::frames::Frames;
use crate::sets::Draw;
use crate::{Bench, BenchError, Measured};

/// Addresses that a call of the peer looks up.
const PEER_BURST: usize = BURST;
/// Next hops that routes have, and queues.
const NEXT_HOPS: u16 = 256;
/// The group of the routes.
const GROUP: u32 = 1;
/// Rules that are created at a time.
const BULK: usize = 1_024;
/// Routes that are looked at for a shorter one, for another to lie inside of.
const OUTER_TRIES: usize = 8;
/// Steps of what is put off, at a time.
const HOUSEKEEPING_STEPS: usize = 1_000;

/// Whose addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// RFC 791.
    Ipv4,
    /// RFC 8200.
    Ipv6,
}

/// A prefix: the first bits of an address, the first of them the highest, and how many.
pub type Prefix = (u128, u8);

/// A length, and how many of 100,000 draws have it. A route that is there already is drawn anew.
type Share = (u8, u32);

/// Shares of IPv4 lengths; the rest has 24 bits.
const IPV4: [Share; 16] = [
    (8, 1),
    (9, 1),
    (10, 4),
    (11, 10),
    (12, 30),
    (13, 60),
    (14, 120),
    (15, 200),
    (16, 1_400),
    (17, 900),
    (18, 1_500),
    (19, 2_700),
    (20, 4_500),
    (21, 5_500),
    (22, 11_500),
    (23, 10_500),
];

/// Shares of IPv6 lengths; the rest has 48 bits.
const IPV6: [Share; 12] = [
    (20, 5),
    (24, 20),
    (28, 100),
    (29, 2_600),
    (30, 400),
    (32, 14_500),
    (34, 800),
    (36, 5_000),
    (40, 10_000),
    (44, 9_000),
    (46, 3_000),
    (47, 2_500),
];

impl Family {
    fn length(self, draw: u32) -> u8 {
        let (shares, rest): (&[Share], u8) = match self {
            Family::Ipv4 => (&IPV4, 24),
            Family::Ipv6 => (&IPV6, 48),
        };
        let mut end = 0;
        let found = shares.iter().find(|(_, share)| {
            end += share;
            draw < end
        });
        found.map_or(rest, |&(length, _)| length)
    }

    /// How many of ten draws are to lie inside of another route; of IPv4 many do by chance.
    fn inside_of_ten(self) -> u32 {
        if self == Family::Ipv4 { 1 } else { 7 }
    }

    /// An address of unicast.
    fn unicast(self, random: u128) -> u128 {
        match self {
            // From 1 to 223.
            Family::Ipv4 => (1 + (random >> 120) * 223 / 256) << 120 | random << 8 >> 8,
            // 2000::/3.
            Family::Ipv6 => 1 << 125 | random >> 3,
        }
    }

    fn address(self, bits: u128) -> IpAddr {
        match self {
            Family::Ipv4 => Ipv4Addr::from_bits((bits >> 96) as u32).into(),
            Family::Ipv6 => Ipv6Addr::from_bits(bits).into(),
        }
    }

    /// Who looks its addresses up.
    pub fn peer(self) -> &'static str {
        match self {
            Family::Ipv4 => "rte_fib",
            Family::Ipv6 => "rte_fib6",
        }
    }

    fn bits(self) -> u8 {
        if self == Family::Ipv4 { 32 } else { 128 }
    }

    /// As the peer reads addresses.
    fn digits(self, bits: u128) -> String {
        match self {
            Family::Ipv4 => format!("{:08x}", bits >> 96),
            Family::Ipv6 => format!("{bits:032x}"),
        }
    }
}

/// A table of `count` routes in the manner of the Internet's: more than half have 24 or 48 bits,
/// and more than half lie inside of another one. (Of IPv6's 221,747 at the end of 2024, 56.3 % lay
/// inside of another one, and the mean length was 42.9 bits: bgp.potaroo.net, AS131072.)
pub fn routes(family: Family, count: usize) -> Vec<Prefix> {
    let (mut draw, mut known) = (Draw::new(1), HashSet::new());
    let mut routes: Vec<Prefix> = Vec::with_capacity(count);
    while routes.len() < count {
        let length = family.length(draw.below(100_000));
        let mut bits = family.unicast(draw.bits());
        if !routes.is_empty() && draw.below(10) < family.inside_of_ten() {
            let mut outers =
                (0..OUTER_TRIES).map(|_| routes[draw.below(routes.len() as u32) as usize]);
            if let Some(outer) = outers.find(|outer| outer.1 < length) {
                bits = outer.0 | bits & ones_behind(outer.1);
            }
        }
        let route = (bits & !ones_behind(length), length);
        if known.insert(route) {
            routes.push(route);
        }
    }
    routes
}

/// Addresses in routes drawn uniformly.
fn addresses(family: Family, routes: &[Prefix], count: usize) -> Vec<u128> {
    let mut draw = Draw::new(7);
    let free = !ones_behind(family.bits());
    let mut address = || {
        let (bits, length) = routes[draw.below(routes.len() as u32) as usize];
        (bits | draw.bits() & ones_behind(length)) & free
    };
    (0..count).map(|_| address()).collect()
}

/// The bits behind the first `length`.
fn ones_behind(length: u8) -> u128 {
    u128::MAX.checked_shr(length.into()).unwrap_or(0)
}

/// The row: `count` routes and [`PACKETS`] packets that go round.
pub fn forward(bench: &Bench, family: Family, count: usize) -> Result<Measured, BenchError> {
    let routes = routes(family, count);
    let addresses = addresses(family, &routes, PACKETS);
    let mut card = RoutingCard::new(family, &routes, &addresses)?;
    let mut took = format!("{count} routes: {}", card.built);
    let peer = match peer(bench, family, &routes, &addresses) {
        Ok((mut peer, theirs)) => {
            agree(&card.find(), &mut peer)?;
            took += &format!("; {}: {theirs}", family.peer());
            Ok(peer)
        }
        Err(error) => Err(error),
    };
    let command = format!("look {PEER_BURST} {}", bench.slice_ms);
    let ours = || Ok(card.frames.classify(&mut card.worker, bench.slice_ms));
    let measured = bench.compare(bench.pairs, peer, ours, |peer| Ok(peer.ask(&command)?))?;
    Ok(measured.with(took))
}

/// What matches the addresses of a route.
fn pattern(family: Family, (bits, length): Prefix) -> Pattern {
    let whole = Pattern::any().dst(family.address(bits));
    let mut mask = whole.mask().to_bytes();
    let kept = (!ones_behind(length)).to_be_bytes();
    mask[field::DST_HEAD].copy_from_slice(&kept[..4]);
    if family == Family::Ipv6 {
        mask[field::DST_TAIL].copy_from_slice(&kept[4..]);
    }
    Pattern::masked(whole.value(), &Key::from_bytes(&mask))
}

fn frame(family: Family, address: u128) -> Result<Vec<u8>, BuildError> {
    let ethernet = Layer::Ethernet(ethernet::Repr::default());
    let (ip, len) = match family.address(address) {
        IpAddr::V4(dst) => {
            let protocol = IpProtocol::UDP;
            (Layer::Ipv4(ipv4::Repr { dst, protocol, ..ipv4::Repr::default() }), 64)
        }
        // The least that holds the headers and a frame check sequence.
        IpAddr::V6(dst) => (Layer::Ipv6(ipv6::Repr { dst, ..ipv6::Repr::default() }), 66),
    };
    build_with_len(&[ethernet, ip, Layer::Udp(udp::Repr::default())], len)
}

/// A card with the routes in a group, and the frames.
struct RoutingCard {
    worker: Worker,
    frames: Frames,
    _nic: Nic,
    /// What it took.
    built: String,
}

impl RoutingCard {
    fn new(
        family: Family,
        routes: &[Prefix],
        addresses: &[u128],
    ) -> Result<RoutingCard, BenchError> {
        let mut nic = Nic::new(&NicConfig { queues: NEXT_HOPS, seed: 42, ..NicConfig::default() })?;
        let actions = &[Action::Jump(GROUP)];
        nic.create(&Rule { group: 0, priority: 0, pattern: Pattern::any(), actions })?;
        let fates: Vec<_> = (0..NEXT_HOPS).map(|queue| [Action::Queue(queue)]).collect();
        let start = Instant::now();
        let (mut refused, mut rules) = (Ok(()), Vec::with_capacity(BULK));
        let routes: Vec<_> = routes.iter().zip(fates.iter().cycle()).collect();
        for routes in routes.chunks(BULK) {
            rules.clear();
            rules.extend(routes.iter().map(|&(&route, actions)| {
                let priority = u32::from(family.bits() - route.1);
                Rule { group: GROUP, priority, pattern: pattern(family, route), actions }
            }));
            let operations: Vec<_> = rules.iter().map(Operation::Create).collect();
            nic.run(&operations, |result| {
                if let Err(error) = result {
                    refused = Err(error);
                }
            });
        }
        refused?;
        // As a control loop does when no rule comes.
        while !nic.run_housekeeping(HOUSEKEEPING_STEPS) {}
        let took = start.elapsed().as_nanos() as u64;
        let built = built(took, nic.rule_bytes() as u64);
        let frames = addresses.iter().map(|&address| frame(family, address));
        let frames = Frames::of(&frames.collect::<Result<Vec<_>, _>>()?)?;
        Ok(RoutingCard { worker: nic.worker(), frames, _nic: nic, built })
    }

    /// The next hop of each packet: its queue, from 1.
    fn find(&mut self) -> Vec<u32> {
        for burst in self.frames.descs.chunks_mut(BURST) {
            self.worker.classify(&self.frames.region, burst);
        }
        self.frames.descs.iter().map(|desc| u32::from(desc.queue) + 1).collect()
    }
}

/// Starts the peer with the routes and addresses; what their addition took. Its next hops are our
/// queues from 1.
fn peer(
    bench: &Bench,
    family: Family,
    routes: &[Prefix],
    addresses: &[u128],
) -> Result<(Peer, String), BenchError> {
    let mut peer = bench.peer("rte_fib", &[])?;
    let mut text =
        format!("routes {} {}", if family == Family::Ipv4 { 4 } else { 6 }, routes.len());
    for (&(bits, length), next) in routes.iter().zip((1..=NEXT_HOPS).cycle()) {
        // A String takes whatever is written.
        let _ = write!(text, "\n{} {length} {next}", family.digits(bits));
    }
    let answer = peer.tell(&text)?;
    let took = peer_built(answer);
    let lines: Vec<String> = addresses.iter().map(|&address| family.digits(address)).collect();
    peer.tell(&format!("addresses {}\n{}", lines.len(), lines.join("\n")))?;
    Ok((peer, took))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Slices;

    const FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];

    /// The next hop of the longest prefix that an address has.
    fn scan(routes: &[Prefix], address: u128) -> Option<u32> {
        let has =
            |&(_, &(bits, length)): &(usize, &Prefix)| (address ^ bits) & !ones_behind(length) == 0;
        let found = routes.iter().enumerate().filter(has).max_by_key(|(_, (_, length))| *length);
        found.map(|(index, _)| (index % usize::from(NEXT_HOPS)) as u32 + 1)
    }

    #[test]
    fn the_card_finds_the_longest_prefix_that_a_scan_finds() {
        for family in FAMILIES {
            let routes = routes(family, 3_000);
            let addresses = addresses(family, &routes, 2_048);
            let mut card = RoutingCard::new(family, &routes, &addresses).unwrap();
            let expected = addresses.iter().map(|&address| scan(&routes, address));
            assert_eq!(card.find(), expected.map(Option::unwrap).collect::<Vec<_>>());
        }
    }

    #[test]
    fn tables_are_like_the_internets() {
        for (family, count, most, mean) in
            [(Family::Ipv4, 1_000_000, 24, 22.9), (Family::Ipv6, 200_000, 48, 42.9)]
        {
            let routes = routes(family, count);
            let known: HashSet<Prefix> = routes.iter().copied().collect();
            assert_eq!(known.len(), routes.len(), "no route twice");
            let share = |has: &dyn Fn(&Prefix) -> bool| {
                routes.iter().filter(|route| has(route)).count() as f64 / routes.len() as f64
            };
            let of_most = share(&|route| route.1 == most);
            assert!((0.5..0.65).contains(&of_most), "{of_most}");
            let inner = share(&|&(bits, length)| {
                (1..length).any(|outer| known.contains(&(bits & !ones_behind(outer), outer)))
            });
            assert!((0.5..0.7).contains(&inner), "{inner}");
            let sum: f64 = routes.iter().map(|&(_, length)| f64::from(length)).sum();
            let got = sum / count as f64;
            assert!((got - mean).abs() < 0.5, "{got}");
        }
    }

    /// Run where `benches/peers/build` has put the peer.
    #[test]
    fn the_peer_itself_finds_the_same_next_hops() {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
        let bench = Bench { core: 0, other: None, pairs: 2, peers, slice_ms: 1 };
        for family in FAMILIES {
            let measured = forward(&bench, family, 2_000).unwrap();
            if let Slices::Alone { missing, .. } = measured.slices {
                println!("SKIP the_peer_itself_finds_the_same_next_hops: {missing}");
            }
        }
    }
}
