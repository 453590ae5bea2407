//! Frames that show what a rule does: one that it must match, and one that it must not.
//!
//! A card may accept a rule and do something else, or nothing. So each kind of rule is tried with
//! both frames before a figure of it is believed ([`prove`]).

mod opaque;
mod prover;

use niclab_nic::rule::Pattern;
use niclab_nic::rule::compile;
use niclab_nic::rule::item::{Item, ItemMatch};
use niclab_packet::LayerKind;
use niclab_packet::stack::{Layer, build, walk};
use niclab_packet::wire::{
    EtherType, IpProtocol, MacAddress, arp, auth, ethernet, geneve, gre, icmp, icmpv6, ipv4, ipv6,
    ipv6_fragment, mpls, tcp, udp, vlan, vxlan,
};

use crate::face::ProofResult;

pub use prover::{fault, prove};

/// What the payload of a probe begins with: behind MPLS the first half byte is no version of IP.
const MAGIC: [u8; 8] = *b"\xf0nlprobe";

/// Length of the payload, bytes: the magic, the probe's number, its complement, and zeros. Every
/// probe is longer than the shortest frame.
const PAYLOAD_LEN: usize = 64;

/// Length of the magic, the number and its complement, bytes. Their sum in ones' complement is the
/// same for every number, so a frame keeps its checksums when it gets another one.
const NUMBERED_LEN: usize = MAGIC.len() + 2 * size_of::<u64>();

/// How often a kind of rule is tried before it is said to be wrong: it has to be every time.
const ATTEMPTS: usize = 3;

/// The probes of a rule, without FCS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probes {
    /// Its pattern matches this frame.
    pub hit: Vec<u8>,
    /// Its pattern does not match this one, which differs as little as possible; `None` where it
    /// matches every frame.
    pub miss: Option<Vec<u8>>,
}

impl Probes {
    /// The probes of a pattern of these items, numbered `number` and `number + 1`; `None` where
    /// niclab has no frame for it (fragments, or values that contradict each other).
    ///
    /// Those of Ethernet alone are packets of IP where its pattern matches one: frames of other
    /// protocols do not come through everywhere (`linux-tc:`).
    pub fn of(items: &[ItemMatch], number: u64) -> Option<Probes> {
        let pattern = compile::pattern(items).ok()?;
        if let [ethernet] = items
            && ethernet.item == Item::Eth
        {
            let items = [*ethernet, ItemMatch::any(Item::Ipv4), ItemMatch::any(Item::Udp)];
            let hit = frame(&items, &payload(number)).filter(|hit| pattern.matches(hit));
            if let Some(hit) = hit {
                return Some(Probes { hit, miss: miss(&pattern, &items, number + 1) });
            }
        }
        let hit = frame(items, &payload(number))?;
        if !pattern.matches(&hit) {
            return None;
        }
        let miss = miss(&pattern, items, number + 1);
        Some(Probes { hit, miss })
    }
}

/// The number of a probe; `None` of any other frame.
pub fn number(frame: &[u8]) -> Option<u64> {
    let numbered = frame.get(numbered(frame)?..)?;
    let number = u64::from_be_bytes(*numbered.get(MAGIC.len()..)?.first_chunk()?);
    let complement = u64::from_be_bytes(*numbered.get(MAGIC.len() + 8..)?.first_chunk()?);
    (complement == !number).then_some(number)
}

/// Gives a probe another number. Its checksums stay right, but that of SCTP. Other frames stay as
/// they are.
pub fn set_number(frame: &mut [u8], number: u64) {
    let Some(at) = numbered(frame) else { return };
    if let Some(place) = frame.get_mut(at..at + NUMBERED_LEN) {
        place.copy_from_slice(&numbered_bytes(number));
    }
}

/// Where the magic of a probe begins.
fn numbered(frame: &[u8]) -> Option<usize> {
    frame.windows(MAGIC.len()).position(|bytes| bytes == MAGIC)
}

/// The frame of a pattern: its headers with the values of the items, those that a tunnel stands on,
/// and the payload of probe `number`. `None` where niclab has none.
pub fn numbered_frame(items: &[ItemMatch], number: u64) -> Option<Vec<u8>> {
    frame(items, &payload(number))
}

/// Tries until the result is not "wrong", or was so every time. Frames that do not agree show
/// nothing.
///
/// `attempt` creates the rules anew each time. On a busy machine a late frame looks like one that
/// was dropped.
///
/// # Errors
/// The first of an attempt.
pub fn repeated<E>(mut attempt: impl FnMut() -> Result<ProofResult, E>) -> Result<ProofResult, E> {
    let mut wrong = None;
    for _ in 0..ATTEMPTS {
        match (attempt()?, wrong) {
            (ProofResult::Wrong(what), _) => wrong = Some(what),
            (result, None) => return Ok(result),
            (ProofResult::Right { .. }, Some(what)) => {
                let why = format!("frames do not agree: {what}, and once not");
                return Ok(ProofResult::NotTried(why));
            }
            (other, Some(_)) => return Ok(other),
        }
    }
    Ok(ProofResult::Wrong(wrong.unwrap_or_default()))
}

fn payload(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAYLOAD_LEN];
    bytes[..NUMBERED_LEN].copy_from_slice(&numbered_bytes(number));
    bytes
}

fn numbered_bytes(number: u64) -> [u8; NUMBERED_LEN] {
    let mut bytes = [0; NUMBERED_LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&number.to_be_bytes());
    bytes[16..].copy_from_slice(&(!number).to_be_bytes());
    bytes
}

/// A frame that differs from the hit in one bit that the pattern names, from the innermost header
/// outwards; where it names none, one of other headers.
fn miss(pattern: &Pattern, items: &[ItemMatch], number: u64) -> Option<Vec<u8>> {
    let payload = payload(number);
    for (at, item) in items.iter().enumerate().rev() {
        for byte in (0..item.item.header_len()).rev().filter(|byte| item.mask[*byte] != 0) {
            let mut changed = items.to_vec();
            changed[at].spec[byte] ^= 1 << item.mask[byte].trailing_zeros();
            match frame(&changed, &payload) {
                Some(frame) if !pattern.matches(&frame) => return Some(frame),
                _ => {}
            }
        }
    }
    let others = [&[Item::Eth, Item::Ipv6, Item::Udp][..], &[Item::Eth, Item::Ipv4, Item::Tcp]];
    others.into_iter().find_map(|headers| {
        let items: Vec<ItemMatch> = headers.iter().copied().map(ItemMatch::any).collect();
        let frame = frame(&items, &payload)?;
        (!pattern.matches(&frame)).then_some(frame)
    })
}

/// The frame of a pattern: its headers with the values of the items, and the payload. `None` where
/// there is none. A tunnel that is named alone comes with what it stands on.
fn frame(items: &[ItemMatch], payload: &[u8]) -> Option<Vec<u8>> {
    let opaque = items.iter().position(|item| opaque::is_opaque(item.item));
    let (outer, rest) = items.split_at(opaque.unwrap_or(items.len()));
    let mut layers = layers(outer)?;
    let payload = match rest.split_first() {
        None => payload.to_vec(),
        Some((header, inside)) => {
            opaque::announce(&mut layers, header.item);
            opaque::bytes(header, inside, payload)?
        }
    };
    layers.push(Layer::Payload(payload));
    Some(filled(&layers, outer)).filter(|frame| !frame.is_empty())
}

/// The headers of a pattern with usual values.
fn layers(items: &[ItemMatch]) -> Option<Vec<Layer>> {
    let mut layers = Vec::with_capacity(items.len() + 2);
    for (at, item) in items.iter().enumerate() {
        match (item.item, layers.last_mut()) {
            (Item::GreKey, Some(Layer::Gre(repr))) => repr.key = Some(1),
            (Item::GreKey | Item::Raw | Item::Meta | Item::Tag, _) => return None,
            (item, _) => layers.push(layer(item)),
        }
        let is_ip = |item: &ItemMatch| matches!(item.item, Item::Ipv4 | Item::Ipv6);
        if item.item == Item::Nvgre && items.get(at + 1).is_some_and(is_ip) {
            layers.push(layer(Item::Eth));
        }
    }
    matches!(layers.first(), Some(Layer::Ethernet(_))).then_some(layers)
}

fn layer(item: Item) -> Layer {
    match item {
        Item::Vlan => Layer::Vlan(vlan::Repr { id: 1, ..vlan::Repr::default() }),
        Item::Ipv4 => Layer::Ipv4(ipv4::Repr {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            ..ipv4::Repr::default()
        }),
        Item::Ipv6 => Layer::Ipv6(ipv6::Repr {
            src: [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(),
            dst: [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2].into(),
            ..ipv6::Repr::default()
        }),
        Item::Icmp => Layer::Icmp(icmp::Repr::echo_request(1, 1)),
        Item::Icmp6 => Layer::Icmpv6(icmpv6::Repr::echo_request(1, 1)),
        Item::Tcp => {
            Layer::Tcp(tcp::Repr { src_port: 1_025, dst_port: 80, ..tcp::Repr::default() })
        }
        Item::Udp => {
            Layer::Udp(udp::Repr { src_port: 1_025, dst_port: 1_026, ..udp::Repr::default() })
        }
        Item::Gre => Layer::Gre(gre::Repr::default()),
        Item::Nvgre => Layer::Gre(gre::Repr {
            protocol: EtherType::ETHERNET,
            key: Some(0x100),
            ..gre::Repr::default()
        }),
        Item::Ah => Layer::Auth(auth::Repr {
            // Nothing that anybody reads.
            next_header: IpProtocol(59),
            spi: 1,
            sequence: 1,
            check_value: vec![0; 12],
        }),
        Item::ArpEthIpv4 => Layer::Arp(arp::Repr {
            operation: arp::REQUEST,
            src_mac: MacAddress([2, 0, 0, 0, 0, 1]),
            src_ip: [10, 0, 0, 1].into(),
            dst_mac: MacAddress([0; 6]),
            dst_ip: [10, 0, 0, 2].into(),
        }),
        Item::Ipv6FragExt => Layer::Ipv6Fragment(ipv6_fragment::Repr {
            identification: 1,
            ..ipv6_fragment::Repr::default()
        }),
        Item::Vxlan => Layer::Vxlan(vxlan::Repr { vni: 1 }),
        Item::Geneve => Layer::Geneve(Box::new(geneve::Repr { vni: 1, ..Default::default() })),
        Item::Mpls => Layer::Mpls(mpls::Repr { label: 16, ..mpls::Repr::default() }),
        _ => Layer::Ethernet(ethernet::Repr {
            dst: MacAddress([2, 0, 0, 0, 0, 2]),
            src: MacAddress([2, 0, 0, 0, 0, 1]),
            ..ethernet::Repr::default()
        }),
    }
}

fn kind(item: Item) -> Option<LayerKind> {
    Some(match item {
        Item::Eth => LayerKind::Ethernet,
        Item::Vlan => LayerKind::Vlan,
        Item::Ipv4 => LayerKind::Ipv4,
        Item::Ipv6 => LayerKind::Ipv6,
        Item::Icmp => LayerKind::Icmp,
        Item::Icmp6 => LayerKind::Icmpv6,
        Item::Tcp => LayerKind::Tcp,
        Item::Udp => LayerKind::Udp,
        Item::Gre | Item::GreKey => LayerKind::Gre,
        Item::Nvgre => LayerKind::Gre,
        Item::Ah => LayerKind::Auth,
        Item::ArpEthIpv4 => LayerKind::Arp,
        Item::Ipv6FragExt => LayerKind::Ipv6Fragment,
        Item::Vxlan => LayerKind::Vxlan,
        Item::Geneve => LayerKind::Geneve,
        Item::Mpls => LayerKind::Mpls,
        _ => return None,
    })
}

/// The frame of these layers with the values of the items, and checksums that fit; empty where the
/// layers make none.
fn filled(layers: &[Layer], items: &[ItemMatch]) -> Vec<u8> {
    let Ok(mut frame) = build(layers) else { return Vec::new() };
    let spans = walk(&frame).spans().to_vec();
    let mut spans = spans.iter();
    let mut last = None;
    for item in items {
        let (span, offset) = match item.item {
            Item::GreKey => (last, 4),
            other => (spans.find(|span| Some(span.kind) == kind(other)), 0),
        };
        last = span.or(last);
        let Some(start) = span.map(|span| span.start + offset) else { continue };
        for at in 0..item.item.header_len() {
            let Some(byte) = frame.get_mut(start + at) else { break };
            *byte = *byte & !item.mask[at] | item.spec[at] & item.mask[at];
        }
    }
    // Values may make another stack of it: then its checksums are nobody's.
    let found = walk(&frame);
    build(&found.to_layers()).ok().filter(|whole| whole.len() == frame.len()).unwrap_or(frame)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io::BufReader;

    use niclab_nic::rule::text::{Command, Commands};

    use super::*;
    use crate::stack::Stack;

    fn items(pattern: &str) -> Vec<ItemMatch> {
        let text =
            format!("flow create 0 ingress pattern {pattern} / end actions queue index 0 / end\n");
        let mut commands = Commands::new(BufReader::new(text.as_bytes()));
        match commands.next_command().unwrap().unwrap().command {
            Command::Create { rule, .. } => rule.items.to_vec(),
            _ => panic!("{pattern}"),
        }
    }

    /// Both frames, checked with the definition of what a pattern matches.
    fn check(items: &[ItemMatch]) -> Probes {
        let pattern = compile::pattern(items).unwrap();
        let probes = Probes::of(items, 70).unwrap();
        assert!(pattern.matches(&probes.hit), "{items:?}");
        assert_eq!(number(&probes.hit), Some(70), "{items:?}");
        if let Some(miss) = &probes.miss {
            assert!(!pattern.matches(miss), "{items:?}");
            assert_eq!(number(miss), Some(71), "{items:?}");
            let errors = walk(miss).checksum_errors();
            assert_eq!(errors, [], "{items:?}");
        }
        assert_eq!(walk(&probes.hit).checksum_errors(), [], "{items:?}");
        probes
    }

    fn of(results: &[Option<&str>]) -> ProofResult {
        let mut results = results.iter();
        let repeated = repeated(|| match results.next().expect("tried too often") {
            None => Ok::<_, Infallible>(ProofResult::Right { late_ns: 0 }),
            Some(what) => Ok(ProofResult::Wrong((*what).into())),
        });
        repeated.unwrap()
    }

    #[test]
    fn a_card_is_accused_only_if_it_is_wrong_every_time() {
        assert_eq!(of(&[None]), ProofResult::Right { late_ns: 0 });
        assert_eq!(of(&[Some("a"), Some("b"), Some("c")]), ProofResult::Wrong("c".into()));
        let doubt = ProofResult::NotTried("frames do not agree: a, and once not".into());
        assert_eq!(of(&[Some("a"), None]), doubt);
    }

    #[test]
    fn a_probe_with_another_number_keeps_its_checksums() {
        let mut frame = Probes::of(&items("eth / ipv6 / tcp dst is 22"), 1).unwrap().hit;
        for other in [2, 0x1234_5678_9abc, u64::MAX] {
            set_number(&mut frame, other);
            assert_eq!(number(&frame), Some(other));
            assert_eq!(walk(&frame).checksum_errors(), []);
        }
        let mut other = vec![0; 60];
        set_number(&mut other, 3);
        assert_eq!((number(&other), &other), (None, &vec![0; 60]));
    }

    #[test]
    fn rules_of_every_stack_have_a_hit_and_a_miss() {
        for (name, stack) in Stack::ALL {
            let probes = check(&stack.items(12_345));
            assert!(probes.miss.is_some(), "{name}");
        }
    }

    #[test]
    fn patterns_that_users_write_have_probes() {
        for pattern in [
            "eth type is 0x88cc",
            "eth / vlan vid is 5 pcp is 3 / vlan vid is 9 / ipv6 dst is 2001:db8::9",
            "eth / ipv4 ttl is 3 tos is 0x20",
            "eth / ipv4 src spec 10.1.0.0 src mask 255.255.0.0 / tcp flags spec 2 flags mask 2",
            "eth / ipv4 / udp src spec 1000 src last 2000 src mask 0xffff",
            "eth / ipv4 / icmp type is 8 code is 0 ident is 7",
            "eth / ipv6 / icmp6 type is 135",
            "eth / ipv4 / gre / gre_key value is 9 / ipv4 dst is 10.9.9.9",
            "eth / mpls label is 77",
            "eth / ipv4 / udp / vxlan vni is 5 / eth dst is 02:00:00:00:00:09 / ipv4 / tcp",
            "eth / ipv4 / sctp dst is 2905 tag is 7",
            "eth / ipv6 / sctp src is 2905",
            "eth / ipv4 / esp spi is 0x1001",
            "eth / ipv6 / esp spi is 0x1001",
            "eth / vlan vid is 3 / ipv4 / ah spi is 9",
            "eth / arp_eth_ipv4 spa is 10.0.0.1 tpa is 10.0.0.2",
            "eth / arp_eth_ipv4 sha is 02:00:00:00:00:01",
            "eth / ipv6 / ipv6_frag_ext packet_id is 77",
            "eth / ipv6 / ipv6_frag_ext next_hdr is 17 / udp dst is 5",
            "eth / ipv6 / ipv6_frag_ext frag_data is 1",
            "eth / pppoes seid is 5",
            "eth / vlan / pppoes seid is 5 / ipv4 dst is 10.9.9.9 / udp dst is 7",
            "eth / pppoes / ipv6 / tcp",
            "eth / pppoed seid is 0",
            "eth / ipv4 / nvgre tni is 5",
            "eth / ipv4 / nvgre tni is 5 / eth dst is 02:00:00:00:00:09 / ipv4 / tcp dst is 22",
            "eth / ipv6 / nvgre / ipv4 src is 10.9.9.9",
            "eth / ipv4 / udp / vxlan-gpe vni is 5",
            "eth / ipv4 / udp / vxlan-gpe vni is 5 / eth / ipv6 / udp dst is 4",
            "eth / ipv4 / udp / vxlan-gpe / ipv4 dst is 10.9.9.9",
            "eth / ipv4 / udp / gtpu teid is 0x1234",
            "eth / ipv4 / udp / gtpu teid is 0x1234 / ipv4 dst is 10.9.9.9 / tcp dst is 22",
            "eth / ipv6 / udp / gtpu / gtp_psc qfi is 9 pdu_t is 1 / ipv6 / udp",
            "eth / ipv4 / udp / gtpu v_pt_rsv_flags is 0x32 msg_type is 255 / ipv4",
            "eth / ipv4 / udp / gtp msg_type is 1",
            "eth / ipv4 / udp / gtpc teid is 3 msg_type is 32",
        ] {
            assert!(check(&items(pattern)).miss.is_some(), "{pattern}");
        }
    }

    #[test]
    fn a_pattern_without_values_is_missed_by_other_headers_and_eth_by_none() {
        assert!(check(&items("eth / ipv4 / udp")).miss.is_some());
        assert!(check(&items("eth / ipv6")).miss.is_some());
        let ethernet = check(&items("eth"));
        assert_eq!(ethernet.miss, None);
        assert_eq!(ethernet.hit[12..14], [0x08, 0x00], "a packet of IP");
    }
}
