//! The definition of what rules mean: a linear scan of them, written to be read rather than to be
//! fast.
//!
//! Where an engine differs from this definition, the engine is wrong. The definition shares no code
//! with the packet path: it reads frames byte by byte, and compares them with the items of a rule
//! as they were written. It follows DPDK's `rte_flow` (programmer's guide, "Generic flow API").
//! Where DPDK leaves the choice to the card, this is the card's choice:
//!
//! 1. *Headers.* A frame has the headers that lie whole in its bytes, from Ethernet on: 14 bytes of
//!    Ethernet, 4 of each VLAN tag, 20 of IPv4, 40 of IPv6, the first 4 of TCP, UDP, SCTP, ICMP or
//!    ICMPv6, 8 of ESP, 12 of AH. Nothing is read after ESP and AH. After Ethernet or a tag there
//!    may be ARP for Ethernet and IPv4 (28 bytes, of these types and lengths) or PPPoE (6 bytes of
//!    version and type 1). At most two tags (types 0x8100 and 0x88a8) and eight IPv6 extension
//!    headers (hop-by-hop, routing, fragment, destination) are read. The version field of an IPv4
//!    or IPv6 header has to agree with the type before it, and an IPv4 header has to have a length
//!    of 20 bytes or more. After these headers one tunnel is read: GRE (4 bytes, and 4 for its
//!    key), which is NVGRE if it has only a key and the type 0x6558; VXLAN (8 bytes, with the flag
//!    of a VNI) after UDP to port 4789; VXLAN-GPE (8 bytes, version 0, with the flag of a VNI)
//!    after UDP to port 4790; GENEVE (8 bytes, version 0) after UDP to port 6081; GTP (8 bytes,
//!    version 1 and protocol type 1) after UDP to port 2152, which is GTP-U, or 2123, which is
//!    GTP-C; PPPoE in a session; at most eight MPLS labels (4 bytes each) after Ethernet, GRE or
//!    UDP to port 6635; or IP in IP. The UDP header of a tunnel has to be whole (8 bytes). The
//!    content of a tunnel is read in the same way, from Ethernet or from IP on, but a second tunnel
//!    in it is not read. Nothing is read after GRE of another version than 0 or with a route. The
//!    content of MPLS labels is IPv4 or IPv6 if it begins as such, and so is that of GTP-U with
//!    message type 255, behind at most eight extension headers. The first PDU session container
//!    (type 0x85) among these is a header of its own. The content of VXLAN-GPE is named by its
//!    protocol, or Ethernet without the flag P; that of PPPoE with code 0 is IP, by the number of
//!    PPP's protocol.
//! 2. *Fragments.* A later fragment has no header after its IP header.
//! 3. *Lengths* of packets in headers are not checked, nor are checksums: the bytes of the frame
//!    count. But the length of a header says where the next header begins.
//! 4. *Items* name headers in their order. Some headers may be left out: Ethernet, VLAN tags after
//!    those that are named, extension headers, the key of GRE, the container of GTP-U, MPLS labels
//!    after the first, all headers after the last item, and the outermost IP header before `tcp`,
//!    `udp`, `sctp`, `icmp` or `icmp6` if that is the first item. No other header may be left out:
//!    `ipv4 / tcp` means the outer IPv4. An `eth` item that is first and has no fields matches
//!    every frame, as a pattern without items does.
//! 5. *Fields* are bits of the named header. All bits of a requested field have to lie in the
//!    frame, including bits outside the mask. `eth has_vlan` and `vlan has_more_vlan` say whether a
//!    tag follows. `ipv6 proto` is the number of the header after the last extension header that
//!    was read; `ipv6 has_frag_ext` says whether a fragment header was read, and `ipv6_frag_ext` is
//!    the first one of the outermost IPv6 packet. `meta data` and `tag
//!    data` are not in the frame: earlier rules on its way set them, and they are zero at first. A
//!    field with a `last` has to lie between spec and last, both included; the mask applies to all
//!    three.
//! 6. *Rules.* A frame begins in group 0. Of the group's rules that match the frame, the rule with
//!    the lowest priority number acts; if several have it, the one that was created first. If no
//!    rule of a group matches, the port's RSS decides (see the module `rss`); on an isolated port
//!    the frame is dropped instead.
//! 7. *Actions* of that rule are all carried out, in the order of the list, whatever its fate. A
//!    rule has exactly one fate, anywhere in the list: `queue`, `drop`, `represented_port` and
//!    `rss` decide, and `jump` goes on in another group. `rss` hashes the packet as the actions
//!    left it. `count` counts the frame once, as it came to the rule, with its 4 bytes of FCS. An
//!    action on a header that the frame lacks does nothing.
//! 8. *Set fields*, and `dec_ttl`: they change the outermost header that has the field; TTL 0 stays
//!    0. The checksums of IPv4, TCP, UDP and ICMPv6 that cover the field change with it (see
//!    `actions.rs`). A UDP checksum of 0 means none, and stays 0. `mac_swap` exchanges the
//!    addresses of Ethernet.
//! 9. *Tags.* `of_push_vlan` inserts a tag after the addresses, with the TCI of the outermost tag,
//!    or 0; `of_pop_vlan` removes the outermost tag.
//! 10. *Tunnels.* `vxlan_decap` removes everything up to and including a VXLAN header with flag I
//!     after UDP to port 4789. `nvgre_decap` removes everything up to and including a GRE header
//!     that has only a key and the type 0x6558. Neither applies to a fragment, or if less than 14
//!     bytes would be left. `raw_decap` removes bytes if the frame has more. `raw_encap` puts bytes
//!     in front. In the outermost IP header among them it fills in lengths and checksum, and in a
//!     UDP header after that the length.
//! 11. *Marks.* `flag` flags the frame. `mark` flags it too, and replaces its number. `set_meta`
//!     and `set_tag` set bits that only later groups match.
//! 12. *Ages.* A rule with `age` is aged if it was not hit for the time that the action says, or
//!     longer. The age is reported, and nothing else happens. A hit has the time that was set last
//!     before it. The age begins with the call that gives an `age` to a rule that had none.
//! 13. *Meters.* `meter` drops the frame at once if the frame exceeds the meter (see the module
//!     `meter`), by its length after the actions before it. No further action is then carried out.
//! 14. *Raw.* `raw` compares those bytes of the frame for which the mask has bits. The offset
//!     counts from the first byte of the frame, or with `relative` from the end of the item before,
//!     which may be a `raw` too; without an item before, it counts from the first byte. All these
//!     bytes have to lie in the frame. A header ends after its bytes in 1., but UDP and ICMP end
//!     after 8 and ICMPv6 after 4; AH ends before its check value. IPv4, TCP and GENEVE have the
//!     length that the header says. A TCP header with a length below 20, or without the byte of its
//!     length, has no end.

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
const ESP: u8 = 50;
const AH: u8 = 51;
const SCTP: u8 = 132;
const ETHER_ARP: u16 = 0x0806;
const ETHER_PPPOED: u16 = 0x8863;
const ETHER_PPPOES: u16 = 0x8864;
const PORT_GTPC: u16 = 2_123;
const PORT_GTPU: u16 = 2_152;
const PORT_GPE: u16 = 4_790;
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

/// The fate of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A rule discards it.
    Drop,
    /// A meter discards it.
    Exceed,
    /// A rule sends it by this port.
    Port(u16),
    /// A rule delivers it to this queue.
    Queue(u16),
    /// RSS delivers it to a queue.
    Rss {
        /// The hash.
        hash: u32,
        /// The queue.
        queue: u16,
    },
}

/// A rule as it was written, with its counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinedRule {
    /// Group of the rule.
    pub group: u32,
    /// Priority, 0 is the highest.
    pub priority: u32,
    /// The items of its pattern, outermost first.
    pub items: Vec<ItemMatch>,
    /// Its actions; one of them is a fate, and a jump goes to a greater group.
    pub actions: Vec<Action>,
    /// The port's RSS when the actions were written, for what an `rss` action leaves out.
    pub rss: Rss,
    /// Packets and bytes that it counted.
    pub counts: Counts,
    /// Its last hit, or when it got an `age`.
    pub last_hit_ns: u64,
}

impl DefinedRule {
    /// Replaces its actions at this time.
    pub fn set_actions(&mut self, actions: Vec<Action>, now_ns: u64) {
        if timeout(&self.actions).is_none() {
            self.last_hit_ns = now_ns;
        }
        self.actions = actions;
    }

    /// Time since its last hit, nanoseconds, and whether it is aged; `None` if it has no `age`.
    pub fn age(&self, now_ns: u64) -> Option<(u64, bool)> {
        let timeout = timeout(&self.actions)?;
        let idle_ns = now_ns - self.last_hit_ns;
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

/// The definition of what rules mean. It is given only rules that were created, and does not check
/// whether rules are legal.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    /// The rules, oldest first: push a rule to create it, remove it to destroy it.
    pub rules: Vec<DefinedRule>,
    /// Whether frames that no rule matches are dropped.
    pub isolated: bool,
    /// The port's RSS.
    pub rss: Rss,
    /// Receive queues.
    pub queues: u16,
    /// The time that was set last.
    pub now_ns: u64,
    /// Meters, by number.
    pub meters: BTreeMap<u32, DefinedMeter>,
    /// The time that was set last for meters.
    pub metered_ns: u64,
}

impl Definition {
    /// The fate of a packet, whose frame has no FCS. Rules on its way count it.
    pub fn classify(&mut self, packet: &mut Packet) -> Verdict {
        let mut marks = Marks::default();
        let (mut group, queues, now_ns) = (0, self.queues, self.now_ns);
        let metered_ns = self.metered_ns;
        while let Some(rule) = rule_for(&mut self.rules, group, &packet.frame, &marks) {
            rule.last_hit_ns = now_ns;
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
                    action => packet.apply(action),
                }
            }
            if let Some(rss) = spread {
                return rss::verdict(&rss, &packet.frame);
            }
            if let Some(verdict) = verdict {
                return verdict;
            }
        }
        match self.isolated {
            true => Verdict::Drop,
            false => rss::verdict(&self.rss, &packet.frame),
        }
    }
}

/// The image of the first header of a frame that an item names, and where the header begins;
/// `None` where the frame has none. An item that asks for the whole image matches the frame.
pub fn image_of(frame: &[u8], item: Item) -> Option<(Image, usize)> {
    let headers = headers(frame);
    let header = headers.iter().find(|header| header.is_called(item, frame))?;
    Some((header.as_item(item, frame).image, frame.len() - header.left))
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
    // Of rules with equal priority, this is the first.
    matching.min_by_key(|rule| rule.priority)
}

/// Data that rules attached to a frame.
#[derive(Default)]
struct Marks {
    meta: u32,
    tags: [u32; TAGS],
}

/// Sets the bits of a number that are in the mask to those of the data.
fn set_bits(number: &mut u32, data: u32, mask: u32) {
    for bit in 0..32 {
        if mask >> bit & 1 == 1 {
            *number = *number - (*number >> bit & 1) * (1 << bit) + (data >> bit & 1) * (1 << bit);
        }
    }
}

/// Tags that a frame has.
const TAGS: usize = 4;

/// Items that may come first: the IP header before them is left out.
const BEHIND_IP: [Item; 5] = [Item::Tcp, Item::Udp, Item::Sctp, Item::Icmp, Item::Icmp6];

/// Whether a frame with these headers and marks matches these items.
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
        let is_named = |header: &&Header| header.is_called(item.item, frame);
        let mut passes_ip = before.is_none() && BEHIND_IP.contains(&item.item);
        let named = rest.find(|header| {
            let is_ip = matches!(header.item, Item::Ipv4 | Item::Ipv6);
            let passes = header.passes(before) || is_ip && std::mem::take(&mut passes_ip);
            is_named(header) || !passes
        });
        before = Some(item.item);
        let named = named.filter(is_named).map(|header| header.as_item(item.item, frame));
        end = named.as_ref().and_then(|header| header.end(frame));
        named.is_some_and(|header| header.fits(item))
    })
}

/// Whether the frame has the bytes of a `raw`. `end` is the end of the item before, and becomes the
/// end of these bytes.
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
    /// Whether the data under the mask equal the spec.
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
    /// How many bytes of the frame there are from the header's first byte on.
    left: usize,
    /// The header's bytes, followed by its flags.
    image: Image,
    /// Ones for bits that the frame has.
    known: Image,
}

impl Header {
    /// A header whose bytes begin here. The bytes reach to the end of the frame, which may cut off
    /// the header.
    fn new(item: Item, bytes: &[u8]) -> Header {
        let (mut image, mut known) = ([0; IMAGE_LEN], [0; IMAGE_LEN]);
        let len = item.header_len().min(bytes.len());
        image[..len].copy_from_slice(&bytes[..len]);
        known[..len].fill(0xff);
        // The flags, which are no bytes of the frame.
        known[item.header_len()] = 1;
        Header { item, left: bytes.len(), image, known }
    }

    /// Whether an item names this header. GRE is also NVGRE if it begins as such; GTP-U and GTP-C
    /// are GTP.
    fn is_called(&self, item: Item, frame: &[u8]) -> bool {
        let bytes = &frame[frame.len() - self.left..];
        match (item, self.item) {
            (Item::Nvgre, Item::Gre) => bytes.len() >= 8 && bytes[..4] == [0x20, 0, 0x65, 0x58],
            (Item::Gtp, Item::Gtpu | Item::Gtpc) => true,
            (item, own) => item == own,
        }
    }

    /// The header as an item that names it has it.
    fn as_item(&self, item: Item, frame: &[u8]) -> Header {
        match item == self.item {
            true => Header { image: self.image, known: self.known, ..*self },
            false => Header::new(item, &frame[frame.len() - self.left..]),
        }
    }

    /// Where the header ends, counted from the first byte of the frame.
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

    /// Whether a pattern may leave out this header between two items.
    fn passes(&self, before: Option<Item>) -> bool {
        match self.item {
            Item::Eth | Item::Vlan | Item::GreKey | Item::Ipv6FragExt | Item::GtpPsc => true,
            Item::Mpls => before == Some(Item::Mpls),
            _ => false,
        }
    }

    /// Whether the frame has every bit that counts, and each equals the spec or the value is in the
    /// range.
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

/// The content of a header: the type in an Ethernet or tunnel header, or the number of a protocol.
#[derive(Clone, Copy)]
enum Kind {
    Type(u16),
    Protocol(u8),
}

/// Bytes that were not read yet.
type Rest<'f> = Option<(Kind, &'f [u8])>;

/// The headers of a frame, outermost first.
fn headers(frame: &[u8]) -> Vec<Header> {
    let mut headers = Vec::new();
    let rest = read_ethernet(frame, &mut headers);
    let outer = headers.len();
    match read_tunnel(rest, &mut headers) {
        Some((ETHER_BRIDGED, bytes)) => read_ethernet(bytes, &mut headers),
        Some((ether_type, bytes)) => read_packet(ether_type, bytes, &mut headers),
        None => None,
    };
    // Inside a tunnel a fragment header is no header of its own.
    let mut at = 0;
    headers.retain(|header| {
        at += 1;
        at <= outer || header.item != Item::Ipv6FragExt
    });
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
        // Set the flag of the header before: `has_vlan` or `has_more_vlan`.
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
        _ => {
            let is_pppoe = packet.len() >= 6 && packet[0] == 0x11;
            let item = match ether_type {
                ETHER_ARP if packet.len() >= 28 && packet[..6] == [0, 1, 8, 0, 6, 4] => {
                    Some(Item::ArpEthIpv4)
                }
                ETHER_PPPOED if is_pppoe => Some(Item::Pppoed),
                ETHER_PPPOES if is_pppoe => Some(Item::Pppoes),
                _ => None,
            };
            headers.extend(item.map(|item| Header::new(item, packet)));
            Some((Kind::Type(ether_type), packet))
        }
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
    ipv6.image[Item::Ipv6.header_len()] = u8::from(behind.fragment.is_some());
    headers.push(ipv6);
    headers.extend(behind.fragment.map(|bytes| Header::new(Item::Ipv6FragExt, bytes)));
    let segment = behind.segment?;
    match behind.number {
        ICMP6 => read_transport(Item::Icmp6, segment, headers),
        protocol => read_ports(protocol, segment, headers),
    }
    Some((Kind::Protocol(behind.number), segment))
}

/// Reads the headers of a tunnel; returns the type and the bytes of its content.
fn read_tunnel<'f>(rest: Rest<'f>, headers: &mut Vec<Header>) -> Option<(u16, &'f [u8])> {
    let (kind, bytes) = rest?;
    match kind {
        Kind::Type(ether_type) if ETHER_MPLS.contains(&ether_type) => read_labels(bytes, headers),
        Kind::Type(ETHER_PPPOES) => read_session(bytes, headers),
        Kind::Protocol(IPV4_IN_IP) => Some((ETHER_IPV4, bytes)),
        Kind::Protocol(IPV6_IN_IP) => Some((ETHER_IPV6, bytes)),
        Kind::Protocol(GRE) => read_gre(bytes, headers),
        Kind::Protocol(UDP) if bytes.len() >= 8 => match (be16(bytes, 2), &bytes[8..]) {
            (PORT_VXLAN, packet) => read_vxlan(packet, headers),
            (PORT_GPE, packet) => read_vxlan_gpe(packet, headers),
            (PORT_GTPU, packet) => read_gtp(Item::Gtpu, packet, headers),
            (PORT_GTPC, packet) => read_gtp(Item::Gtpc, packet, headers),
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

fn read_vxlan_gpe<'f>(packet: &'f [u8], headers: &mut Vec<Header>) -> Option<(u16, &'f [u8])> {
    let (flags, protocol) = (*packet.first()?, *packet.get(3)?);
    let (version, has_vni, names_protocol) = (flags / 16 % 4, flags / 8 % 2, flags / 4 % 2);
    if packet.len() < 8 || version != 0 || has_vni == 0 {
        return None;
    }
    headers.push(Header::new(Item::VxlanGpe, packet));
    let carried = match (names_protocol, protocol) {
        (0, _) | (1, 3) => ETHER_BRIDGED,
        (1, 1) => ETHER_IPV4,
        (1, 2) => ETHER_IPV6,
        _ => return None,
    };
    Some((carried, &packet[8..]))
}

/// GTP, whose optional bytes are there all together if one of three flags is set.
fn read_gtp<'f>(
    item: Item,
    packet: &'f [u8],
    headers: &mut Vec<Header>,
) -> Option<(u16, &'f [u8])> {
    if packet.len() < 8 || packet[0] / 16 != 3 {
        return None;
    }
    headers.push(Header::new(item, packet));
    if item == Item::Gtpc {
        return None;
    }
    let (flags, message_type) = (packet[0] % 8, packet[1]);
    let mut at = if flags == 0 { 8 } else { 12 };
    let mut next = if flags / 4 == 1 { *packet.get(11)? } else { 0 };
    packet.get(..at)?;
    let mut has_container = false;
    for _ in 0..8 {
        if next == 0 {
            break;
        }
        let len = 4 * usize::from(*packet.get(at)?);
        let extension = packet.get(at..at + len).filter(|extension| !extension.is_empty())?;
        if next == 0x85 && !has_container {
            headers.push(Header::new(Item::GtpPsc, &packet[at..]));
            has_container = true;
        }
        (next, at) = (extension[len - 1], at + len);
    }
    let carried = &packet[at..];
    match carried.first()? / 16 {
        _ if next != 0 || message_type != 255 => None,
        4 => Some((ETHER_IPV4, carried)),
        6 => Some((ETHER_IPV6, carried)),
        _ => None,
    }
}

/// The content of PPPoE, whose header was read.
fn read_session<'f>(packet: &'f [u8], headers: &[Header]) -> Option<(u16, &'f [u8])> {
    let is_read = headers.last().is_some_and(|header| header.item == Item::Pppoes);
    if !is_read || packet.len() < 8 || packet[1] != 0 {
        return None;
    }
    match be16(packet, 6) {
        0x0021 => Some((ETHER_IPV4, &packet[8..])),
        0x0057 => Some((ETHER_IPV6, &packet[8..])),
        _ => None,
    }
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

/// The result of reading IPv6 extension headers: the header after them.
struct Behind<'f> {
    /// Number of the header.
    number: u8,
    /// Bytes of the header.
    segment: Option<&'f [u8]>,
    /// Bytes of the first fragment header.
    fragment: Option<&'f [u8]>,
}

/// Reads extension headers. A later fragment has no header after them. If an extension header is
/// cut off, neither number nor bytes of the next header are known.
fn behind_extensions(first: u8, bytes: &[u8]) -> Behind<'_> {
    let (mut number, mut rest, mut fragment) = (first, bytes, None);
    for _ in 0..EXTENSIONS_MAX {
        if !EXTENSIONS.contains(&number) {
            break;
        }
        if rest.len() < 8 {
            return Behind { number, segment: None, fragment };
        }
        if number == FRAGMENT && fragment.is_none() {
            fragment = Some(rest);
        }
        if number == FRAGMENT && be16(rest, 2) >> 3 != 0 {
            return Behind { number: rest[0], segment: None, fragment };
        }
        let len = if number == FRAGMENT { 8 } else { 8 + 8 * usize::from(rest[1]) };
        if rest.len() < len {
            return Behind { number, segment: None, fragment };
        }
        (number, rest) = (rest[0], &rest[len..]);
    }
    Behind { number, segment: Some(rest), fragment }
}

fn read_ports(protocol: u8, segment: &[u8], headers: &mut Vec<Header>) {
    match protocol {
        TCP => read_transport(Item::Tcp, segment, headers),
        UDP => read_transport(Item::Udp, segment, headers),
        SCTP => read_transport(Item::Sctp, segment, headers),
        ESP if segment.len() >= 8 => headers.push(Header::new(Item::Esp, segment)),
        AH if segment.len() >= 12 => headers.push(Header::new(Item::Ah, segment)),
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
