//! What rules mean: a linear scan of them, written to be read rather than to be fast.
//!
//! This is the definition of correct: where an engine differs from it, the engine is wrong. It
//! shares no code with the packet path. It reads frames by itself, byte by byte, and compares them
//! with the items of a rule as they were written. What it lays down is DPDK's `rte_flow`
//! (programmer's guide, "Generic flow API"); where that leaves the choice to the card, this one's:
//!
//! 1. *Headers.* A frame has the headers that lie whole in its bytes, from Ethernet on: 14 bytes of
//!    Ethernet, 4 of each VLAN tag, 20 of IPv4, 40 of IPv6, the first 4 of TCP, UDP, ICMP or
//!    ICMPv6. At most two tags (types 0x8100 and 0x88a8) and eight IPv6 extension headers
//!    (hop-by-hop, routing, fragment, destination) are read. An IPv4 or IPv6 header has the version
//!    that its type says, and an IPv4 header says that it has 20 bytes or more.
//! 2. *Fragments.* Behind the IP header of a later fragment there is no header.
//! 3. *Lengths* of packets that headers state are not looked at, nor are checksums: the bytes of
//!    the frame count. But the length of a header says where the next one begins.
//! 4. *Items* name headers in their order. What is not named is passed over: Ethernet, VLAN tags
//!    behind those that are named, extension headers, and all that stands behind the last item. An
//!    `eth` item without fields, like a pattern without items, matches every frame.
//! 5. *Fields* are bits of the named header, all of which lie in the frame. `eth has_vlan` and
//!    `vlan has_more_vlan` say whether a tag follows. `ipv6 proto` is the number of the header
//!    behind the last extension header that was read. A field with a `last` lies between spec and
//!    last, both included, the mask put on all three.
//! 6. *Rules.* A frame begins in group 0. Of the group's rules that match it the one of the lowest
//!    priority number acts, of equal ones the one that was created first. In a group without such a
//!    rule, whichever it is, RSS decides.
//! 7. *Actions* of that rule are all carried out. `count` counts the frame with its 4 bytes of FCS,
//!    once, wherever it stands. `queue` and `drop` decide, `jump` goes on in another group; a rule
//!    has one of the three.

use crate::Counts;
use crate::rule::Action;
use crate::rule::item::{IMAGE_LEN, Image, Item, ItemMatch};

const FCS_LEN: u64 = 4;

const TAGS_MAX: usize = 2;
const EXTENSIONS_MAX: usize = 8;

const ETHER_IPV4: u16 = 0x0800;
const ETHER_IPV6: u16 = 0x86dd;
const ETHER_TAGS: [u16; 2] = [0x8100, 0x88a8];
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;
/// Hop-by-hop options, routing, fragment, destination options (RFC 8200, section 4).
const EXTENSIONS: [u8; 4] = [0, 43, FRAGMENT, 60];
const FRAGMENT: u8 = 44;

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A rule discards it.
    Drop,
    /// A rule delivers it to this queue.
    Queue(u16),
    /// No rule decides.
    Rss,
}

/// A rule as it was written, with what it has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinedRule {
    /// Group it stands in.
    pub group: u32,
    /// Priority, 0 is the highest.
    pub priority: u32,
    /// The items of its pattern, outermost first.
    pub items: Vec<ItemMatch>,
    /// What it does; one of these is a fate, and a jump goes to a greater group.
    pub actions: Vec<Action>,
    /// Frames it has counted, and their bytes.
    pub counts: Counts,
}

/// What rules mean. Which rules are legal is not its matter: it is given those that were created.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    /// The rules, oldest first: to create one is to push it, to destroy one to remove it.
    pub rules: Vec<DefinedRule>,
}

impl Definition {
    /// What becomes of a frame, which has no FCS. Rules on its way count it.
    pub fn decide(&mut self, frame: &[u8]) -> Verdict {
        let headers = headers(frame);
        let mut group = 0;
        loop {
            let Some(rule) = self.rule_for(group, &headers) else { return Verdict::Rss };
            if rule.actions.contains(&Action::Count) {
                rule.counts.packets += 1;
                rule.counts.bytes += frame.len() as u64 + FCS_LEN;
            }
            match rule.actions.iter().find(|action| **action != Action::Count) {
                Some(Action::Queue(queue)) => return Verdict::Queue(*queue),
                Some(Action::Drop) => return Verdict::Drop,
                Some(Action::Jump(to)) => group = *to,
                Some(Action::Count) | None => return Verdict::Rss,
            }
        }
    }

    /// The rule of a group that acts on a frame with these headers.
    fn rule_for(&mut self, group: u32, headers: &[Header]) -> Option<&mut DefinedRule> {
        let of_group = self.rules.iter_mut().filter(|rule| rule.group == group);
        let matching = of_group.filter(|rule| matches(&rule.items, headers));
        // Of equal ones this is the first.
        matching.min_by_key(|rule| rule.priority)
    }
}

/// Whether a frame with these headers matches a pattern of these items.
fn matches(items: &[ItemMatch], headers: &[Header]) -> bool {
    let mut rest = headers.iter();
    items.iter().all(|item| {
        let is_bare_eth = item.item == Item::Eth && item.mask == [0; IMAGE_LEN];
        let mut named = || rest.find(|header| header.item == item.item);
        is_bare_eth || named().is_some_and(|header| header.fits(item))
    })
}

/// A header of a frame.
struct Header {
    item: Item,
    /// Its bytes, and its flags behind them.
    image: Image,
    /// Ones where the frame says what the image has.
    known: Image,
}

impl Header {
    /// A header whose bytes begin here; the frame may end before the header does.
    fn new(item: Item, bytes: &[u8]) -> Header {
        let (mut image, mut known) = ([0; IMAGE_LEN], [0; IMAGE_LEN]);
        let len = item.header_len().min(bytes.len());
        image[..len].copy_from_slice(&bytes[..len]);
        known[..len].fill(0xff);
        // The flags, which no byte of the frame has.
        known[item.header_len()] = 1;
        Header { item, image, known }
    }

    /// Whether every bit that counts is in the frame, and is that of the spec or makes a value of
    /// the range.
    fn fits(&self, item: &ItemMatch) -> bool {
        let mut exact = item.mask;
        for field in item.item.fields().iter().filter(|field| item.has_range(field)) {
            let under_mask = |image: &Image| field.value(image) & field.value(&item.mask);
            let last = item.last.as_ref().map_or(0, under_mask);
            let value = under_mask(&self.image);
            if value < under_mask(&item.spec) || value > last {
                return false;
            }
            field.put(&mut exact, 0);
        }
        let unknown = |at: usize| !self.known[at] & item.mask[at];
        let differs = |at: usize| (self.image[at] ^ item.spec[at]) & exact[at];
        (0..IMAGE_LEN).all(|at| unknown(at) | differs(at) == 0)
    }
}

/// The headers of a frame, outermost first.
fn headers(frame: &[u8]) -> Vec<Header> {
    let mut headers = Vec::new();
    if frame.len() < 14 {
        return headers;
    }
    headers.push(Header::new(Item::Eth, frame));
    let (mut ether_type, mut rest) = (be16(frame, 12), &frame[14..]);
    for before in 0..TAGS_MAX {
        if !ETHER_TAGS.contains(&ether_type) || rest.len() < 4 {
            break;
        }
        // The flag of the header before: `has_vlan` or `has_more_vlan`.
        let flags_at = headers[before].item.header_len();
        headers[before].image[flags_at] = 1;
        headers.push(Header::new(Item::Vlan, rest));
        (ether_type, rest) = (be16(rest, 2), &rest[4..]);
    }
    match ether_type {
        ETHER_IPV4 => read_ipv4(rest, &mut headers),
        ETHER_IPV6 => read_ipv6(rest, &mut headers),
        _ => {}
    }
    headers
}

fn read_ipv4(packet: &[u8], headers: &mut Vec<Header>) {
    if packet.len() < 20 || packet[0] >> 4 != 4 || packet[0] & 0xf < 5 {
        return;
    }
    headers.push(Header::new(Item::Ipv4, packet));
    let header_len = usize::from(packet[0] & 0xf) * 4;
    let is_later_fragment = be16(packet, 6) & 0x1fff != 0;
    if is_later_fragment || packet.len() < header_len {
        return;
    }
    let segment = &packet[header_len..];
    match packet[9] {
        ICMP => read_transport(Item::Icmp, segment, headers),
        protocol => read_ports(protocol, segment, headers),
    }
}

fn read_ipv6(packet: &[u8], headers: &mut Vec<Header>) {
    if packet.len() < 40 || packet[0] >> 4 != 6 {
        return;
    }
    let mut ipv6 = Header::new(Item::Ipv6, packet);
    let (protocol, segment) = behind_extensions(packet[6], &packet[40..]);
    ipv6.image[6] = protocol;
    headers.push(ipv6);
    let Some(segment) = segment else { return };
    match protocol {
        ICMP6 => read_transport(Item::Icmp6, segment, headers),
        protocol => read_ports(protocol, segment, headers),
    }
}

/// The number of the header behind the extension headers, and its bytes. A later fragment has none,
/// and of an extension header that is cut off neither number nor bytes of the next are known.
fn behind_extensions(first: u8, bytes: &[u8]) -> (u8, Option<&[u8]>) {
    let (mut number, mut rest) = (first, bytes);
    for _ in 0..EXTENSIONS_MAX {
        if !EXTENSIONS.contains(&number) {
            break;
        }
        if rest.len() < 8 {
            return (number, None);
        }
        if number == FRAGMENT && be16(rest, 2) >> 3 != 0 {
            return (rest[0], None);
        }
        let len = if number == FRAGMENT { 8 } else { 8 + 8 * usize::from(rest[1]) };
        if rest.len() < len {
            return (number, None);
        }
        (number, rest) = (rest[0], &rest[len..]);
    }
    (number, Some(rest))
}

fn read_ports(protocol: u8, segment: &[u8], headers: &mut Vec<Header>) {
    match protocol {
        TCP => read_transport(Item::Tcp, segment, headers),
        UDP => read_transport(Item::Udp, segment, headers),
        _ => {}
    }
}

fn read_transport(item: Item, segment: &[u8], headers: &mut Vec<Header>) {
    if segment.len() >= 4 {
        headers.push(Header::new(item, segment));
    }
}

/// Two bytes in network order.
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
