//! Filters of tc's flower classifier as netlink messages.
//!
//! Source: `linux/pkt_cls.h`, `linux/rtnetlink.h`, `linux/tc_act/tc_gact.h` and `tc_skbedit.h` of
//! the kernel. A filter is made of the same [`Flow`] that n-tuple rules are; what a filter has no
//! words for beside that is refused by its name.

use super::super::ethtool::flow::{Fate, Fields, Flow, FlowKind};

pub(super) const RTM_NEWQDISC: u16 = 36;
pub(super) const RTM_DELQDISC: u16 = 37;
pub(super) const RTM_GETQDISC: u16 = 38;
pub(super) const RTM_NEWTFILTER: u16 = 44;
pub(super) const RTM_DELTFILTER: u16 = 45;
pub(super) const RTM_GETTFILTER: u16 = 46;

/// The parent of a clsact discipline, its handle, and the parent of filters of what comes in.
const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
pub(super) const INGRESS: u32 = 0xffff_fff2;
/// That of filters of what leaves.
pub(super) const EGRESS: u32 = 0xffff_fff3;

/// Attributes of a message, of a filter, of an action, of its statistics.
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
/// `gnet_stats_queue` in it.
const STATS_QUEUE: u16 = 3;
const FLOWER_ACT: u16 = 3;
const ETH_DST: u16 = 4;
const ETH_SRC: u16 = 6;
const ETH_TYPE: u16 = 8;
const IP_PROTO: u16 = 9;
const IPV4_SRC: u16 = 10;
const IPV4_DST: u16 = 12;
const IPV6_SRC: u16 = 14;
const IPV6_DST: u16 = 16;
const FLAGS: u16 = 22;
const VLAN_ID: u16 = 23;
const VLAN_PRIO: u16 = 24;
const VLAN_ETH_TYPE: u16 = 25;
const IP_TOS: u16 = 73;
const ACT_KIND: u16 = 1;
const ACT_OPTIONS: u16 = 2;
#[cfg(test)]
const ACT_STATS: u16 = 4;
/// Of both `gact` and `skbedit`.
const ACT_PARMS: u16 = 2;
const QUEUE_MAPPING: u16 = 4;
#[cfg(test)]
const STATS_BASIC: u16 = 1;

/// Attributes of ports, each way with its mask, by protocol.
const TCP_PORTS: [(u16, u16); 2] = [(18, 35), (19, 36)];
const UDP_PORTS: [(u16, u16); 2] = [(20, 37), (21, 38)];
const SCTP_PORTS: [(u16, u16); 2] = [(41, 39), (42, 40)];

const NESTED: u16 = 0x8000;

/// The card is to do it and the kernel is not (`TCA_CLS_FLAGS_SKIP_SW`); the reverse.
const SKIP_SW: u32 = 2;
const SKIP_HW: u32 = 1;

const ACT_SHOT: u32 = 2;
const ACT_PIPE: u32 = 3;

const PROTOCOL_ALL: u16 = 3;
const PROTOCOL_VLAN: u16 = 0x8100;
const PROTOCOL_IPV4: u16 = 0x0800;
const PROTOCOL_IPV6: u16 = 0x86dd;

/// The place at which filters work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterPlace {
    /// In the card alone.
    Card,
    /// In the kernel alone.
    Kernel,
}

/// A filter by what the kernel finds it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterId {
    /// Its preference; the lower is looked at first. All filters of one are of one protocol.
    pub preference: u16,
    /// The EtherType of its packets.
    pub protocol: u16,
    /// Its number among those.
    pub handle: u32,
}

/// A message without its header: its bytes, in which attributes are put.
pub(super) struct Message(pub Vec<u8>);

impl Message {
    /// `tcmsg` of an interface.
    fn of(index: u32, handle: u32, parent: u32, info: u32) -> Message {
        let mut bytes = vec![0; 4];
        [index, handle, parent, info].iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        Message(bytes)
    }

    /// An attribute with its value.
    fn put(&mut self, kind: u16, value: &[u8]) {
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// An attribute with what `fill` puts in it.
    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Message)) {
        let at = self.0.len();
        self.put(kind | NESTED, &[]);
        fill(self);
        let len = (self.0.len() - at) as u16;
        self.0[at..at + 2].copy_from_slice(&len.to_ne_bytes());
    }

    /// A value and its mask in the attribute behind, where any bit counts.
    fn masked(&mut self, kind: u16, value: &[u8], mask: &[u8]) {
        if mask.iter().any(|byte| *byte != 0) {
            self.put(kind, value);
            self.put(kind + 1, mask);
        }
    }

    /// A port, and its mask where not all bits count: without one they do.
    fn port(&mut self, (kind, of_mask): (u16, u16), value: [u8; 2], mask: [u8; 2]) {
        if mask != [0; 2] {
            self.put(kind, &value);
        }
        if ![[0; 2], [0xff; 2]].contains(&mask) {
            self.put(of_mask, &mask);
        }
    }
}

/// Puts a clsact discipline on an interface.
pub(super) fn clsact(index: u32) -> Vec<u8> {
    let mut message = Message::of(index, CLSACT_HANDLE, CLSACT, 0);
    message.put(TCA_KIND, b"clsact\0");
    message.0
}

/// The filter of this number, to be asked for or taken out.
pub(super) fn named(index: u32, id: FilterId) -> Vec<u8> {
    let mut message = Message::of(index, id.handle, INGRESS, info(id));
    message.put(TCA_KIND, b"flower\0");
    message.0
}

/// All filters of a parent, to be told of.
pub(super) fn all_at(index: u32, parent: u32) -> Vec<u8> {
    Message::of(index, 0, parent, 0).0
}

/// All filters of a preference, to be taken out.
pub(super) fn all_of(index: u32, preference: u16) -> Vec<u8> {
    Message::of(index, 0, INGRESS, u32::from(preference) << 16).0
}

fn info(id: FilterId) -> u32 {
    u32::from(id.preference) << 16 | u32::from(id.protocol.to_be())
}

/// The protocol that a filter is of; or what filters have no words for.
pub(super) fn protocol(flow: &Flow) -> Result<u16, &'static str> {
    let mask = &flow.mask;
    if mask.vlan_tci != [0; 2] {
        return Ok(PROTOCOL_VLAN);
    }
    Ok(match ether_type(flow)? {
        Some(ether_type) => ether_type,
        None => PROTOCOL_ALL,
    })
}

/// The EtherType behind the tags, if the rule matches it.
fn ether_type(flow: &Flow) -> Result<Option<u16>, &'static str> {
    match flow.kind {
        FlowKind::Ether => match flow.mask.ether_type {
            [0, 0] => Ok(None),
            [0xff, 0xff] => Ok(Some(u16::from_be_bytes(flow.value.ether_type))),
            _ => Err("a part of the Ethernet type"),
        },
        FlowKind::Ipv4 | FlowKind::Sctp4 | FlowKind::Tcp4 | FlowKind::Udp4 => {
            Ok(Some(PROTOCOL_IPV4))
        }
        FlowKind::Ipv6 | FlowKind::Sctp6 | FlowKind::Tcp6 | FlowKind::Udp6 => {
            Ok(Some(PROTOCOL_IPV6))
        }
    }
}

/// Puts a filter in; or what filters have no words for.
pub(super) fn filter(
    index: u32,
    id: FilterId,
    flow: &Flow,
    place: FilterPlace,
) -> Result<Vec<u8>, &'static str> {
    let (value, mask) = (&flow.value, &flow.mask);
    let ether_type = ether_type(flow)?;
    let tag = tag(value, mask)?;
    let protocol = match (flow.kind, mask.protocol) {
        (FlowKind::Tcp4 | FlowKind::Tcp6, _) => Some(6),
        (FlowKind::Udp4 | FlowKind::Udp6, _) => Some(17),
        (FlowKind::Sctp4 | FlowKind::Sctp6, _) => Some(132),
        (_, 0) => None,
        (_, 0xff) => Some(value.protocol),
        _ => return Err("a part of the protocol's number"),
    };
    let mut message = Message::of(index, id.handle, INGRESS, info(id));
    message.put(TCA_KIND, b"flower\0");
    message.nest(TCA_OPTIONS, |options| {
        options.masked(ETH_DST, &value.eth_dst, &mask.eth_dst);
        options.masked(ETH_SRC, &value.eth_src, &mask.eth_src);
        let first = if tag.is_some() { Some(PROTOCOL_VLAN) } else { ether_type };
        first.iter().for_each(|of| options.put(ETH_TYPE, &of.to_be_bytes()));
        if let Some((id, priority)) = tag {
            id.iter().for_each(|id| options.put(VLAN_ID, &id.to_ne_bytes()));
            priority.iter().for_each(|priority| options.put(VLAN_PRIO, &[*priority]));
            ether_type.iter().for_each(|of| options.put(VLAN_ETH_TYPE, &of.to_be_bytes()));
        }
        protocol.iter().for_each(|protocol| options.put(IP_PROTO, &[*protocol]));
        layers(options, flow.kind, value, mask);
        let flags = match place {
            FilterPlace::Card => SKIP_SW,
            FilterPlace::Kernel => SKIP_HW,
        };
        options.nest(FLOWER_ACT, |actions| actions.nest(1, |one| action(one, flow.fate)));
        options.put(FLAGS, &flags.to_ne_bytes());
    });
    Ok(message.0)
}

/// Fields of a VLAN tag: number and priority, each whole or not at all.
type Tag = (Option<u16>, Option<u8>);

fn tag(value: &Fields, mask: &Fields) -> Result<Option<Tag>, &'static str> {
    let [value, mask] = [value, mask].map(|fields| u16::from_be_bytes(fields.vlan_tci));
    let id = match mask & 0xfff {
        0 => None,
        0xfff => Some(value & 0xfff),
        _ => return Err("a part of the VLAN's number"),
    };
    let priority = match mask >> 13 {
        0 => None,
        7 => Some((value >> 13) as u8),
        _ => return Err("a part of the VLAN's priority"),
    };
    match mask & 0x1000 {
        0 => Ok((mask != 0).then_some((id, priority))),
        _ => Err("the drop-eligible bit of a VLAN tag"),
    }
}

fn layers(options: &mut Message, kind: FlowKind, value: &Fields, mask: &Fields) {
    let ports = match kind {
        FlowKind::Tcp4 | FlowKind::Tcp6 => TCP_PORTS,
        FlowKind::Udp4 | FlowKind::Udp6 => UDP_PORTS,
        FlowKind::Sctp4 | FlowKind::Sctp6 => SCTP_PORTS,
        FlowKind::Ether => return,
        FlowKind::Ipv4 | FlowKind::Ipv6 => [(0, 0); 2],
    };
    let (src, dst, len) = match kind {
        FlowKind::Ipv6 | FlowKind::Sctp6 | FlowKind::Tcp6 | FlowKind::Udp6 => {
            (IPV6_SRC, IPV6_DST, 16)
        }
        _ => (IPV4_SRC, IPV4_DST, 4),
    };
    options.masked(src, &value.src[..len], &mask.src[..len]);
    options.masked(dst, &value.dst[..len], &mask.dst[..len]);
    options.port(ports[0], value.sport, mask.sport);
    options.port(ports[1], value.dport, mask.dport);
    options.masked(IP_TOS, &[value.tos], &[mask.tos]);
}

/// `gact` drops, `skbedit` names the queue.
fn action(one: &mut Message, fate: Fate) {
    let (kind, verdict): (&[u8], u32) = match fate {
        Fate::Drop => (b"gact\0", ACT_SHOT),
        Fate::Queue(_) => (b"skbedit\0", ACT_PIPE),
    };
    one.put(ACT_KIND, kind);
    one.nest(ACT_OPTIONS, |options| {
        // `tc_gen`: index, capabilities, verdict, two counts of holders.
        let mut parameters = [0; 20];
        parameters[8..12].copy_from_slice(&verdict.to_ne_bytes());
        options.put(ACT_PARMS, &parameters);
        if let Fate::Queue(queue) = fate {
            options.put(QUEUE_MAPPING, &(queue as u16).to_ne_bytes());
        }
    });
}

/// Packets and bytes that a filter told of has met; `None` where it does not say.
#[cfg(test)]
pub(super) fn counts(message: &[u8]) -> Option<(u64, u64)> {
    let options = attribute(message.get(20..)?, TCA_OPTIONS)?;
    let action = attribute(attribute(options, FLOWER_ACT)?, 1)?;
    let basic = attribute(attribute(action, ACT_STATS)?, STATS_BASIC)?;
    let bytes = u64::from_ne_bytes(basic.get(..8)?.try_into().ok()?);
    let packets = u32::from_ne_bytes(basic.get(8..12)?.try_into().ok()?);
    Some((packets.into(), bytes))
}

/// Frames that a discipline told of has dropped, if it is the clsact of this interface.
pub(super) fn clsact_drops(message: &[u8], index: u32) -> Option<u32> {
    let word = |bytes: &[u8]| Some(u32::from_ne_bytes(*bytes.first_chunk()?));
    let is_it = word(message.get(4..)?)? == index && word(message.get(8..)?)? == CLSACT_HANDLE;
    let queue = attribute(attribute(message.get(20..)?, TCA_STATS2)?, STATS_QUEUE)?;
    // The length and the backlog stand before it.
    word(queue.get(8..)?).filter(|_| is_it)
}

/// The value of the first attribute of this kind.
pub(super) fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    while let [a, b, c, d, ..] = *bytes {
        let (len, of) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]) & !NESTED);
        let value = bytes.get(4..usize::from(len))?;
        if of == kind {
            return Some(value);
        }
        bytes = bytes.get(usize::from(len).next_multiple_of(4)..)?;
    }
    None
}
