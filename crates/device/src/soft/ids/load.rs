//! Rules, and packets for them: all of it drawn from a seed.
//!
//! There are as many services, each with a port, as there are servers, each with an address. A
//! packet of a client goes to a service of a server, with text as its payload. Some packets have
//! the contents of a rule for them, and more have only its first one, as harmless requests have.

use std::net::Ipv4Addr;

use niclab_ids::Variables;
use niclab_ids::engine::{self, Signature};
use niclab_ids::rule::Rule;
use niclab_packet::BuildError;
use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{IpProtocol, ethernet, ipv4, tcp, udp};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::super::broken;
use crate::detecting::{DetectionWorkload, RuleMix};
use crate::face::DeviceError;

/// Most rules.
pub const RULES_MAX: u32 = 50_000;

/// Packets of a pass: several times what a second cache holds.
pub const PACKETS: usize = 16_384;

/// Services, and as many servers.
const PLACES: usize = 200;

/// Clients.
const CLIENTS: u32 = 4_096;

/// Percent of the rules that concern all packets, of the packets with an attack, and of those that
/// have the first content of a rule alone.
const ANYWHERE_PERCENT: u32 = 10;
const ATTACKS_PERCENT: u32 = 1;
const HARMLESS_PERCENT: u32 = 10;

/// Ports of services; clients have lower ones. Nothing that engines know is among them.
const SERVICE_PORTS: std::ops::Range<u16> = 20_000..60_000;
const CLIENT_PORTS: std::ops::Range<u16> = 10_000..20_000;

/// Bytes of payload: as often short as long.
const LENGTHS: [usize; 6] = [64, 128, 256, 512, 1_024, 1_400];

/// Rules with what the engine of niclab makes of them, and packets.
pub struct DetectionLoad {
    /// The rules.
    pub rules: Vec<Rule>,
    /// Of each rule.
    pub signatures: Vec<Signature>,
    /// Frames without FCS, in their order.
    pub frames: Vec<Vec<u8>>,
}

/// Where a packet goes, or which packets a rule concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RulePlace {
    Any,
    Service(usize),
    Server(usize),
}

/// A rule before it is written.
struct NewRule {
    place: RulePlace,
    is_tcp: bool,
    contents: [String; 2],
}

/// Services and servers.
struct Network {
    ports: Vec<u16>,
    addresses: Vec<Ipv4Addr>,
}

impl Network {
    fn new(random: &mut Xoshiro256PlusPlus) -> Network {
        let ports: Vec<u16> = SERVICE_PORTS.collect();
        let ports = ports.sample(random, PLACES).copied().collect();
        let address = |at: usize| Ipv4Addr::new(192, 168, random.random(), at as u8 + 1);
        Network { ports, addresses: (0..PLACES).map(address).collect() }
    }
}

/// Whether a service has TCP: every second one.
fn is_tcp(service: usize) -> bool {
    service % 2 == 1
}

fn word(random: &mut Xoshiro256PlusPlus, lengths: std::ops::RangeInclusive<usize>) -> String {
    let len = random.random_range(lengths);
    (0..len).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect()
}

/// The contents of a rule: a path, and what makes a request for it an attack.
fn contents(random: &mut Xoshiro256PlusPlus) -> [String; 2] {
    [word(random, 6..=16), word(random, 5..=12)]
}

impl DetectionLoad {
    /// Makes it.
    ///
    /// # Errors
    /// [`DeviceError::Broken`] if a rule or a frame cannot be made.
    pub fn new(workload: &DetectionWorkload) -> Result<DetectionLoad, DeviceError> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(workload.seed);
        let network = Network::new(&mut random);
        let new = new_rules(workload, &mut random);
        let text: String = (1..).zip(&new).map(|(sid, rule)| rule.text(sid, &network)).collect();
        let read = engine::read(&text, &Variables::default());
        let read = read.map_err(|errors| broken(&errors[0]))?;
        let (mut rules, mut signatures) = (Vec::new(), Vec::new());
        for (rule, signature) in read {
            let lacks = |lacks: Vec<engine::Lack>| broken(format!("{}: {}", rule.text, lacks[0]));
            signatures.push(signature.map_err(lacks)?);
            rules.push(rule);
        }
        let frames = frames(&new, &network, &mut random).map_err(broken)?;
        Ok(DetectionLoad { rules, signatures, frames })
    }
}

fn new_rules(workload: &DetectionWorkload, random: &mut Xoshiro256PlusPlus) -> Vec<NewRule> {
    let count = workload.rules as usize;
    // Every server has a rule against each of these.
    let attacks: Vec<[String; 2]> = (0..count.div_ceil(PLACES)).map(|_| contents(random)).collect();
    let rule = |at: usize| {
        let is_anywhere = random.random_range(0..100) < ANYWHERE_PERCENT;
        let place = match workload.mix {
            _ if is_anywhere => RulePlace::Any,
            RuleMix::Any => RulePlace::Any,
            RuleMix::Services => RulePlace::Service(random.random_range(0..PLACES)),
            RuleMix::Servers => RulePlace::Server(at % PLACES),
        };
        let is_tcp = match place {
            RulePlace::Service(service) => is_tcp(service),
            RulePlace::Any => random.random(),
            RulePlace::Server(_) => is_tcp(at / PLACES),
        };
        let contents = match place {
            RulePlace::Server(_) => attacks[at / PLACES].clone(),
            RulePlace::Any | RulePlace::Service(_) => contents(random),
        };
        NewRule { place, is_tcp, contents }
    };
    (0..count).map(rule).collect()
}

impl NewRule {
    fn text(&self, sid: u32, network: &Network) -> String {
        let protocol = if self.is_tcp { "tcp-pkt" } else { "udp" };
        let end = match self.place {
            RulePlace::Any => "any any".to_owned(),
            RulePlace::Service(service) => format!("any {}", network.ports[service]),
            RulePlace::Server(server) => format!("{} any", network.addresses[server]),
        };
        let [first, second] = &self.contents;
        format!(
            "alert {protocol} any any -> {end} (msg:\"rule {sid}\"; content:\"{first}\"; \
             fast_pattern; content:\"{second}\"; distance:0; sid:{sid};)\n"
        )
    }
}

/// The frames of all packets.
fn frames(
    rules: &[NewRule],
    network: &Network,
    random: &mut Xoshiro256PlusPlus,
) -> Result<Vec<Vec<u8>>, BuildError> {
    let of = |place: RulePlace, is_tcp: bool| {
        let is_of = |rule: &&NewRule| rule.place == place && rule.is_tcp == is_tcp;
        rules.iter().filter(is_of).collect::<Vec<&NewRule>>()
    };
    let anywhere = [false, true].map(|is_tcp| of(RulePlace::Any, is_tcp));
    let mut by_service: Vec<Vec<&NewRule>> = vec![Vec::new(); PLACES];
    let mut by_server: Vec<[Vec<&NewRule>; 2]> = vec![Default::default(); PLACES];
    for rule in rules {
        match rule.place {
            RulePlace::Any => {}
            RulePlace::Service(service) => by_service[service].push(rule),
            RulePlace::Server(server) => by_server[server][usize::from(rule.is_tcp)].push(rule),
        }
    }
    let frame = |_| {
        let [service, server] = [(); 2].map(|()| random.random_range(0..PLACES));
        let own = [&by_service[service], &by_server[server][usize::from(is_tcp(service))]];
        let own = own.into_iter().find(|rules| !rules.is_empty());
        let rule = own.unwrap_or(&anywhere[usize::from(is_tcp(service))]).choose(random);
        let payload = payload(rule.map(|rule| &rule.contents), random);
        packet(service, (network.addresses[server], network.ports[service]), payload, random)
    };
    (0..PACKETS).map(frame).collect()
}

/// Text, in some packets with contents of a rule.
fn payload(contents: Option<&[String; 2]>, random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let (kind, len) = (random.random_range(0..100), *LENGTHS.choose(random).unwrap_or(&64));
    let mut text = match contents {
        Some([first, second]) if kind < ATTACKS_PERCENT => format!("{first} {second} "),
        Some([first, _]) if kind < ATTACKS_PERCENT + HARMLESS_PERCENT => format!("{first} "),
        _ => String::new(),
    };
    while text.len() < len {
        text += &word(random, 2..=10);
        text.push(' ');
    }
    text.truncate(len);
    text.into_bytes()
}

/// A frame of a client.
fn packet(
    service: usize,
    (dst, dst_port): (Ipv4Addr, u16),
    payload: Vec<u8>,
    random: &mut Xoshiro256PlusPlus,
) -> Result<Vec<u8>, BuildError> {
    let src = Ipv4Addr::from(0x0a00_0001 + random.random_range(0..CLIENTS));
    let src_port = random.random_range(CLIENT_PORTS);
    let protocol = if is_tcp(service) { IpProtocol::TCP } else { IpProtocol::UDP };
    let sequence = random.random();
    let header: Layer = match is_tcp(service) {
        true => {
            let flags = tcp::Flags(0x18);
            tcp::Repr { src_port, dst_port, sequence, flags, ..tcp::Repr::default() }.into()
        }
        false => udp::Repr { src_port, dst_port, ..udp::Repr::default() }.into(),
    };
    build(&[
        ethernet::Repr::default().into(),
        ipv4::Repr { src, dst, protocol, ttl: 64, ..ipv4::Repr::default() }.into(),
        header,
        Layer::Payload(payload),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(mix: RuleMix, rules: u32, seed: u64) -> DetectionLoad {
        DetectionLoad::new(&DetectionWorkload { mix, rules, seed }).unwrap()
    }

    #[test]
    fn the_same_seed_makes_the_same_rules_and_packets() {
        for mix in [RuleMix::Services, RuleMix::Servers, RuleMix::Any] {
            let [one, same, other] = [1, 1, 2].map(|seed| load(mix, 500, seed));
            assert_eq!((one.rules.len(), one.frames.len()), (500, PACKETS));
            assert!(one.rules == same.rules && one.frames == same.frames);
            assert!(one.rules != other.rules && one.frames != other.frames);
        }
    }

    #[test]
    fn rules_name_what_their_mix_says_and_a_tenth_nothing() {
        let named = |mix| {
            let rules = load(mix, 2_000, 1).rules;
            let count = |of: fn(&Rule) -> bool| rules.iter().filter(|rule| of(rule)).count();
            let ports = count(|rule| rule.destination.names_ports);
            (ports, count(|rule| rule.text.contains("-> 192.168.")))
        };
        let (ports, addresses) = named(RuleMix::Services);
        assert!((1_750..1_850).contains(&ports) && addresses == 0, "{ports}");
        let (ports, addresses) = named(RuleMix::Servers);
        assert!((1_750..1_850).contains(&addresses) && ports == 0, "{addresses}");
        assert_eq!(named(RuleMix::Any), (0, 0));
    }
}
