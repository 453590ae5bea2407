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
//!    Behind them one tunnel is read: GRE (4 bytes; its key 4 more), VXLAN (8, with the flag that
//!    says it has a VNI) behind UDP to port 4789, GENEVE (8, version 0) behind UDP to port 6081, at
//!    most eight MPLS labels (4 each) behind Ethernet, GRE or UDP to port 6635, or IP in IP; a UDP
//!    header that a tunnel stands behind is whole (8 bytes). What a tunnel carries is read as
//!    above, from Ethernet or from IP on, and a tunnel in it is not. Behind GRE that is not of
//!    version 0 or has a route nothing is read; what labels carry is IPv4 or IPv6 if it begins as
//!    one.
//! 2. *Fragments.* Behind the IP header of a later fragment there is no header.
//! 3. *Lengths* of packets that headers state are not looked at, nor are checksums: the bytes of
//!    the frame count. But the length of a header says where the next one begins.
//! 4. *Items* name headers in their order. What is not named is passed over: Ethernet, VLAN tags
//!    behind those that are named, extension headers, the key of GRE, MPLS labels behind the first,
//!    and all that stands behind the last item. Nothing else is: `ipv4 / tcp` means the outer IPv4.
//!    An `eth` item without fields that stands first, like a pattern without items, matches every
//!    frame.
//! 5. *Fields* are bits of the named header. All bits of a field that is asked for lie in the
//!    frame, those too that the mask leaves out. `eth has_vlan` and `vlan has_more_vlan` say
//!    whether a tag follows. `ipv6 proto` is the number of the header behind the last extension
//!    header that was read; `ipv6 has_frag_ext` says whether a fragment header was. `meta data` and
//!    `tag data` are not in the frame: they are what the rules on its way have set, and zero
//!    before. A field with a `last` lies between spec and last, both included, the mask put on all
//!    three.
//! 6. *Rules.* A frame begins in group 0. Of the group's rules that match it the one of the lowest
//!    priority number acts, of equal ones the one that was created first. In a group without such a
//!    rule, whichever it is, the port's RSS decides (see the module `rss`); where the port is
//!    isolated the frame is dropped instead.
//! 7. *Actions* of that rule are all carried out, in the order of the list, whatever its fate:
//!    `queue`, `drop`, `represented_port` and `rss` decide, `jump` goes on in another group,
//!    wherever they stand; a rule has one of the five, and the hash of `rss` is that of the packet
//!    as the actions left it. `count` counts the frame as it came to the rule, with its 4 bytes of
//!    FCS, once, wherever it stands. An action on a header that the frame lacks does nothing.
//! 8. *Fields* that are set, `dec_ttl` too, are those of the outermost header that has them; TTL 0
//!    stays 0. The checksums of IPv4, TCP, UDP and ICMPv6 that cover the field change with it (see
//!    `actions.rs`). A UDP checksum of 0 is none and stays.
//! 9. *Tags.* `of_push_vlan` puts a tag behind the addresses, with the TCI of the outermost tag, or
//!    0; `of_pop_vlan` takes the outermost tag away.
//! 10. *Tunnels.* `vxlan_decap` takes away what is up to and with the VXLAN header behind UDP to
//!     port 4789, whose flag I is set; `nvgre_decap` what is up to and with a GRE header that has a
//!     key alone and the type 0x6558; neither of a fragment, or where less than 14 bytes would be
//!     left. `raw_decap` takes bytes away where more are left. `raw_encap` puts bytes in front; in
//!     the outermost IP header among them lengths and checksum are filled in, in a UDP header
//!     behind it the length.
//! 11. *Marks.* `flag` flags the frame; `mark` does, and gives it a number in place of the one that
//!     it had. `set_meta` and `set_tag` set bits that later groups match and nobody else sees.
//! 12. *Ages.* A rule with `age` is aged when it has met no frame for the time that the action
//!     says, or longer; that is told and nothing else happens. A frame is met at the time that was
//!     told last before it. The first of these times is that of the call that gave the rule an
//!     `age`, which it had not before.
//! 13. *Meters.* `meter` drops the frame at once where it exceeds the meter (see the module
//!     `meter`), by its length as the actions before left it; then no further action sees it.
//! 14. *Raw.* `raw` compares bytes of the frame, those of which the mask has bits, at an offset
//!     from the first byte of the frame, or with `relative` from the end of the item before, `raw`
//!     included; where none is before, from the first byte too. Each of them lies in the frame. A
//!     header ends behind its bytes of 1., UDP and ICMP behind 8, ICMPv6 behind 4; the bytes of
//!     IPv4, TCP and GENEVE are as many as the header says, and a TCP header that says less than 20
//!     or lacks the byte that says it has no end.

mod actions;
mod meter;
mod rss;

use std::collections::BTreeMap;

use crate::rss::Rss;
use crate::rule::Action;
use crate::rule::item::{IMAGE_LEN, Image, Item, ItemMatch};
use crate::{Colour, Counts};

pub use actions::Packet;
pub use meter::DefinedMeter;

const FCS_LEN: u64 = 4;

const TAGS_MAX: usize = 2;
const EXTENSIONS_MAX: usize = 8;

const ETHER_IPV4: u16 = 0x0800;
const ETHER_IPV6: u16 = 0x86dd;
const ETHER_TAGS: [u16; 2] = [0x8100, 0x88a8];
const ETHER_MPLS: [u16; 2] = [0x8847, 0x8848];
/// Ethernet in a tunnel.
const ETHER_BRIDGED: u16 = 0x6558;
const ICMP: u8 = 1;
const IPV4_IN_IP: u8 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const ICMP6: u8 = 58;
const PORT_VXLAN: u16 = 4_789;
const PORT_GENEVE: u16 = 6_081;
const PORT_MPLS: u16 = 6_635;
const LABELS_MAX: usize = 8;
/// Hop-by-hop options, routing, fragment, destination options (RFC 8200, section 4).
const EXTENSIONS: [u8; 4] = [0, 43, FRAGMENT, 60];
const FRAGMENT: u8 = 44;

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A rule discards it.
    Drop,
    /// A meter discards it.
    Exceed,
    /// A rule lets it leave by this port.
    Port(u16),
    /// A rule delivers it to this queue.
    Queue(u16),
    /// RSS delivers it to a queue.
    Spread {
        /// What was hashed.
        hash: u32,
        /// The queue.
        queue: u16,
    },
}

/// A rule as it was written, with what it has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinedRule {
    /// Group it stands in.
    pub group: u32,
    /// Priority, 0 is the highest.
    pub priority: u32,
    /// The items of its pattern, outermost first.
    pub items: Vec<ItemMatch>,
    /// What it does; one of these is a fate, and a jump goes to a greater group.
    pub actions: Vec<Action>,
    /// The port's RSS when the actions were written: what an `rss` action leaves out is so.
    pub rss: Rss,
    /// Frames it has counted, and their bytes.
    pub counts: Counts,
    /// When it met its last frame, or was given an `age`.
    pub met_ns: u64,
}

impl DefinedRule {
    /// Gives it other actions at this time.
    pub fn act(&mut self, actions: Vec<Action>, now_ns: u64) {
        if timeout(&self.actions).is_none() {
            self.met_ns = now_ns;
        }
        self.actions = actions;
    }

    /// How long it has met no frame, and whether it is aged; `None` if it has no `age`.
    pub fn age(&self, now_ns: u64) -> Option<(u64, bool)> {
        let timeout = timeout(&self.actions)?;
        let idle_ns = now_ns - self.met_ns;
        Some((idle_ns, idle_ns / 1_000_000_000 >= timeout))
    }
}

/// The seconds of an `age`.
fn timeout(actions: &[Action]) -> Option<u64> {
    actions.iter().find_map(|action| match action {
        Action::Age(timeout) => Some(u64::from(*timeout)),
        _ => None,
    })
}

/// What rules mean. Which rules are legal is not its matter: it is given those that were created.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    /// The rules, oldest first: to create one is to push it, to destroy one to remove it.
    pub rules: Vec<DefinedRule>,
    /// Frames that no rule decides about are dropped.
    pub isolated: bool,
    /// The port's RSS.
    pub rss: Rss,
    /// Receive queues.
    pub queues: u16,
    /// The time that was told last.
    pub now_ns: u64,
    /// Meters, by number.
    pub meters: BTreeMap<u32, DefinedMeter>,
    /// The time that was told last for meters.
    pub metered_ns: u64,
}

impl Definition {
    /// What becomes of a packet, whose frame has no FCS. Rules on its way count it.
    pub fn decide(&mut self, packet: &mut Packet) -> Verdict {
        let mut marks = Marks::default();
        let (mut group, queues, now_ns) = (0, self.queues, self.now_ns);
        let metered_ns = self.metered_ns;
        while let Some(rule) = rule_for(&mut self.rules, group, &packet.frame, &marks) {
            rule.met_ns = now_ns;
            if rule.actions.contains(&Action::Count) {
                rule.counts.packets += 1;
                rule.counts.bytes += packet.frame.len() as u64 + FCS_LEN;
            }
            let (mut verdict, mut spread) = (None, None);
            for action in &rule.actions {
                match action {
                    Action::Queue(queue) => verdict = Some(Verdict::Queue(*queue)),
                    Action::Port(port) => verdict = Some(Verdict::Port(*port)),
                    Action::Drop => verdict = Some(Verdict::Drop),
                    Action::Jump(to) => group = *to,
                    Action::SetMeta { data, mask } => set_bits(&mut marks.meta, *data, *mask),
                    Action::SetTag { index, data, mask } => {
                        set_bits(&mut marks.tags[usize::from(*index)], *data, *mask);
                    }
                    Action::Meter(number) => {
                        let bytes = packet.frame.len() as u64 + FCS_LEN;
                        let meter = self.meters.get_mut(number);
                        let colour =
                            meter.map(|meter| meter.colour(bytes, Colour::Green, metered_ns));
                        if colour == Some(Colour::Red) {
                            return Verdict::Exceed;
                        }
                    }
                    Action::Rss(action) => spread = Some(rss::of_rule(action, &rule.rss, queues)),
                    action => packet.meet(action),
                }
            }
            if let Some(rss) = spread {
                return rss::decide(&rss, &packet.frame);
            }
            if let Some(verdict) = verdict {
                return verdict;
            }
        }
        match self.isolated {
            true => Verdict::Drop,
            false => rss::decide(&self.rss, &packet.frame),
        }
    }
}

/// The rule of a group that acts on a frame with these marks.
fn rule_for<'r>(
    rules: &'r mut [DefinedRule],
    group: u32,
    frame: &[u8],
    marks: &Marks,
) -> Option<&'r mut DefinedRule> {
    let headers = headers(frame);
    let of_group = rules.iter_mut().filter(|rule| rule.group == group);
    let matching = of_group.filter(|rule| matches(&rule.items, frame, &headers, marks));
    // Of equal ones this is the first.
    matching.min_by_key(|rule| rule.priority)
}

/// What rules have said about a frame.
#[derive(Default)]
struct Marks {
    meta: u32,
    tags: [u32; TAGS],
}

/// Those bits of a number that the mask has become those of the data.
fn set_bits(number: &mut u32, data: u32, mask: u32) {
    for bit in 0..32 {
        if mask >> bit & 1 == 1 {
            *number = *number - (*number >> bit & 1) * (1 << bit) + (data >> bit & 1) * (1 << bit);
        }
    }
}

/// Tags that a frame has.
const TAGS: usize = 4;

/// Whether a frame with these headers and marks matches a pattern of these items.
fn matches(items: &[ItemMatch], frame: &[u8], headers: &[Header], marks: &Marks) -> bool {
    let (mut rest, mut before, mut end) = (headers.iter(), None, Some(0));
    items.iter().all(|item| {
        let is_bare_eth = item.item == Item::Eth && item.mask == [0; IMAGE_LEN];
        match item.item {
            Item::Meta | Item::Tag => return marks.fit(item),
            Item::Raw => return has_bytes(frame, item, &mut end),
            Item::Eth if before.is_none() && is_bare_eth => {
                end = Some(14);
                return true;
            }
            _ => {}
        }
        let named = rest.find(|header| header.item == item.item || !header.passes(before));
        before = Some(item.item);
        end = named.and_then(|header| header.end(frame));
        named.is_some_and(|header| header.item == item.item && header.fits(item))
    })
}

/// Whether the bytes that a `raw` asks for are in the frame, the item before ending at `end`, which
/// is then where these bytes end.
fn has_bytes(frame: &[u8], raw: &ItemMatch, end: &mut Option<i64>) -> bool {
    let number = |at: usize, image: &Image| {
        i32::from_be_bytes([image[at], image[at + 1], image[at + 2], image[at + 3]])
    };
    let is_relative = raw.spec[0] & raw.mask[0] & 0x80 != 0;
    let base = if is_relative { *end } else { Some(0) };
    let Some(base) = base else { return false };
    let first = base + i64::from(number(1, &raw.spec) & number(1, &raw.mask));
    let count = i64::from(raw.spec[7]);
    *end = Some(first + count);
    (0..count).all(|at| {
        let byte = |image: &Image| image.get(8 + at as usize).copied().unwrap_or(0);
        let (value, mask) = (byte(&raw.spec), byte(&raw.mask));
        let inside = 0 <= first + at && first + at < frame.len() as i64;
        mask == 0 || inside && (frame[(first + at) as usize] ^ value) & mask == 0
    })
}

impl Marks {
    /// Whether the data that count are those of the spec.
    fn fit(&self, item: &ItemMatch) -> bool {
        let four = |image: &Image| u32::from_be_bytes([image[0], image[1], image[2], image[3]]);
        let [spec, mask] = [four(&item.spec), four(&item.mask)];
        let data = match item.item {
            // The byte behind the data is the index of the tag.
            Item::Tag => self.tags.get(usize::from(item.spec[4])).copied().unwrap_or(0),
            _ => self.meta,
        };
        let is_ranged = item.item.fields().first().is_some_and(|field| item.has_range(field));
        match item.last.as_ref().filter(|_| is_ranged) {
            Some(last) => (spec & mask..=four(last) & mask).contains(&(data & mask)),
            None => (data ^ spec) & mask == 0,
        }
    }
}

/// A header of a frame.
struct Header {
    item: Item,
    /// How many bytes of the frame there are from its first one on.
    left: usize,
    /// Its bytes, and its flags behind them.
    image: Image,
    /// Ones where the frame says what the image has.
    known: Image,
}

impl Header {
    /// A header whose bytes begin here and reach to the end of the frame, which may come before
    /// that of the header.
    fn new(item: Item, bytes: &[u8]) -> Header {
        let (mut image, mut known) = ([0; IMAGE_LEN], [0; IMAGE_LEN]);
        let len = item.header_len().min(bytes.len());
        image[..len].copy_from_slice(&bytes[..len]);
        known[..len].fill(0xff);
        // The flags, which no byte of the frame has.
        known[item.header_len()] = 1;
        Header { item, left: bytes.len(), image, known }
    }

    /// Where it ends, counted from the first byte of its frame.
    fn end(&self, frame: &[u8]) -> Option<i64> {
        let len = match self.item {
            Item::Ipv4 => i64::from(self.image[0] & 0xf) * 4,
            Item::Tcp if self.known[12] == 0 || self.image[12] >> 4 < 5 => return None,
            Item::Tcp => i64::from(self.image[12] >> 4) * 4,
            Item::Geneve => 8 + i64::from(self.image[0] & 0x3f) * 4,
            item => item.header_len() as i64,
        };
        Some((frame.len() - self.left) as i64 + len)
    }

    /// Whether this header need not be named between an item and the next.
    fn passes(&self, before: Option<Item>) -> bool {
        match self.item {
            Item::Eth | Item::Vlan | Item::GreKey => true,
            Item::Mpls => before == Some(Item::Mpls),
            _ => false,
        }
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
        let asked = item.item.fields().iter().filter(|field| field.value(&item.mask) != 0);
        let mut known = asked.map(|field| field.value(&self.known) == field.ones());
        let differs = |at: usize| (self.image[at] ^ item.spec[at]) & exact[at];
        known.all(|known| known) && (0..IMAGE_LEN).all(|at| differs(at) == 0)
    }
}

/// What a header carries: the type of an Ethernet header or a tunnel, or the number of a protocol.
#[derive(Clone, Copy)]
enum Kind {
    Type(u16),
    Protocol(u8),
}

/// What was not read yet.
type Rest<'f> = Option<(Kind, &'f [u8])>;

/// The headers of a frame, outermost first.
fn headers(frame: &[u8]) -> Vec<Header> {
    let mut headers = Vec::new();
    let rest = read_ethernet(frame, &mut headers);
    match read_tunnel(rest, &mut headers) {
        Some((ETHER_BRIDGED, bytes)) => read_ethernet(bytes, &mut headers),
        Some((ether_type, bytes)) => read_packet(ether_type, bytes, &mut headers),
        None => None,
    };
    headers
}

fn read_ethernet<'f>(frame: &'f [u8], headers: &mut Vec<Header>) -> Rest<'f> {
    if frame.len() < 14 {
        return None;
    }
    headers.push(Header::new(Item::Eth, frame));
    let (mut ether_type, mut rest) = (be16(frame, 12), &frame[14..]);
    for _ in 0..TAGS_MAX {
        if !ETHER_TAGS.contains(&ether_type) || rest.len() < 4 {
            break;
        }
        // The flag of the header before: `has_vlan` or `has_more_vlan`.
        if let Some(before) = headers.last_mut() {
            before.image[before.item.header_len()] = 1;
        }
        headers.push(Header::new(Item::Vlan, rest));
        (ether_type, rest) = (be16(rest, 2), &rest[4..]);
    }
    read_packet(ether_type, rest, headers)
}

fn read_packet<'f>(ether_type: u16, packet: &'f [u8], headers: &mut Vec<Header>) -> Rest<'f> {
    match ether_type {
        ETHER_IPV4 => read_ipv4(packet, headers),
        ETHER_IPV6 => read_ipv6(packet, headers),
        _ => Some((Kind::Type(ether_type), packet)),
    }
}

fn read_ipv4<'f>(packet: &'f [u8], headers: &mut Vec<Header>) -> Rest<'f> {
    if packet.len() < 20 || packet[0] >> 4 != 4 || packet[0] & 0xf < 5 {
        return None;
    }
    headers.push(Header::new(Item::Ipv4, packet));
    let header_len = usize::from(packet[0] & 0xf) * 4;
    let is_later_fragment = be16(packet, 6) & 0x1fff != 0;
    if is_later_fragment || packet.len() < header_len {
        return None;
    }
    let segment = &packet[header_len..];
    match packet[9] {
        ICMP => read_transport(Item::Icmp, segment, headers),
        protocol => read_ports(protocol, segment, headers),
    }
    Some((Kind::Protocol(packet[9]), segment))
}

fn read_ipv6<'f>(packet: &'f [u8], headers: &mut Vec<Header>) -> Rest<'f> {
    if packet.len() < 40 || packet[0] >> 4 != 6 {
        return None;
    }
    let mut ipv6 = Header::new(Item::Ipv6, packet);
    let behind = behind_extensions(packet[6], &packet[40..]);
    ipv6.image[6] = behind.number;
    ipv6.image[Item::Ipv6.header_len()] = u8::from(behind.is_fragment);
    headers.push(ipv6);
    let segment = behind.segment?;
    match behind.number {
        ICMP6 => read_transport(Item::Icmp6, segment, headers),
        protocol => read_ports(protocol, segment, headers),
    }
    Some((Kind::Protocol(behind.number), segment))
}

/// The headers of a tunnel; the type of what it carries, and its bytes.
fn read_tunnel<'f>(rest: Rest<'f>, headers: &mut Vec<Header>) -> Option<(u16, &'f [u8])> {
    let (kind, bytes) = rest?;
    match kind {
        Kind::Type(ether_type) if ETHER_MPLS.contains(&ether_type) => read_labels(bytes, headers),
        Kind::Protocol(IPV4_IN_IP) => Some((ETHER_IPV4, bytes)),
        Kind::Protocol(IPV6_IN_IP) => Some((ETHER_IPV6, bytes)),
        Kind::Protocol(GRE) => read_gre(bytes, headers),
        Kind::Protocol(UDP) if bytes.len() >= 8 => match (be16(bytes, 2), &bytes[8..]) {
            (PORT_VXLAN, packet) => read_vxlan(packet, headers),
            (PORT_GENEVE, packet) => read_geneve(packet, headers),
            (PORT_MPLS, packet) => read_labels(packet, headers),
            _ => None,
        },
        _ => None,
    }
}

fn read_gre<'f>(packet: &'f [u8], headers: &mut Vec<Header>) -> Option<(u16, &'f [u8])> {
    if packet.len() < 4 {
        return None;
    }
    headers.push(Header::new(Item::Gre, packet));
    let (flags, carried) = (be16(packet, 0), be16(packet, 2));
    let (has_route, version) = (flags & 0x4000 != 0, flags & 7);
    if has_route || version != 0 {
        return None;
    }
    let mut at = 4;
    // Checksum, key, sequence number: four bytes each, in this order.
    for flag in [0x8000, 0x2000, 0x1000] {
        if flags & flag == 0 {
            continue;
        }
        packet.get(at..at + 4)?;
        if flag == 0x2000 {
            headers.push(Header::new(Item::GreKey, &packet[at..]));
        }
        at += 4;
    }
    match carried {
        ETHER_BRIDGED | ETHER_IPV4 | ETHER_IPV6 => Some((carried, &packet[at..])),
        label if ETHER_MPLS.contains(&label) => read_labels(&packet[at..], headers),
        _ => None,
    }
}

fn read_vxlan<'f>(packet: &'f [u8], headers: &mut Vec<Header>) -> Option<(u16, &'f [u8])> {
    let has_vni = packet.len() >= 8 && packet[0] & 0x08 != 0;
    if !has_vni {
        return None;
    }
    headers.push(Header::new(Item::Vxlan, packet));
    Some((ETHER_BRIDGED, &packet[8..]))
}

fn read_geneve<'f>(packet: &'f [u8], headers: &mut Vec<Header>) -> Option<(u16, &'f [u8])> {
    if packet.len() < 8 || packet[0] >> 6 != 0 {
        return None;
    }
    headers.push(Header::new(Item::Geneve, packet));
    let (options_len, carried) = (usize::from(packet[0] & 0x3f) * 4, be16(packet, 2));
    let is_read = [ETHER_BRIDGED, ETHER_IPV4, ETHER_IPV6].contains(&carried);
    packet.get(8 + options_len..).filter(|_| is_read).map(|bytes| (carried, bytes))
}

fn read_labels<'f>(packet: &'f [u8], headers: &mut Vec<Header>) -> Option<(u16, &'f [u8])> {
    for at in 0..LABELS_MAX {
        let entry = packet.get(at * 4..at * 4 + 4)?;
        headers.push(Header::new(Item::Mpls, &packet[at * 4..]));
        let is_last = entry[2] & 1 == 1;
        if is_last {
            let carried = &packet[at * 4 + 4..];
            return match carried.first()? >> 4 {
                4 => Some((ETHER_IPV4, carried)),
                6 => Some((ETHER_IPV6, carried)),
                _ => None,
            };
        }
    }
    None
}

/// What stands behind the extension headers of IPv6.
struct Behind<'f> {
    /// Its number.
    number: u8,
    /// Its bytes.
    segment: Option<&'f [u8]>,
    /// Whether one of the extension headers was a fragment's.
    is_fragment: bool,
}

/// What is behind the extension headers. Behind a later fragment there is nothing, and of an
/// extension header that is cut off neither number nor bytes of the next are known.
fn behind_extensions(first: u8, bytes: &[u8]) -> Behind<'_> {
    let (mut number, mut rest, mut is_fragment) = (first, bytes, false);
    for _ in 0..EXTENSIONS_MAX {
        if !EXTENSIONS.contains(&number) {
            break;
        }
        if rest.len() < 8 {
            return Behind { number, segment: None, is_fragment };
        }
        is_fragment |= number == FRAGMENT;
        if number == FRAGMENT && be16(rest, 2) >> 3 != 0 {
            return Behind { number: rest[0], segment: None, is_fragment };
        }
        let len = if number == FRAGMENT { 8 } else { 8 + 8 * usize::from(rest[1]) };
        if rest.len() < len {
            return Behind { number, segment: None, is_fragment };
        }
        (number, rest) = (rest[0], &rest[len..]);
    }
    Behind { number, segment: Some(rest), is_fragment }
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
