//! A pattern while its items are added: the bytes of header keys that it requires.

mod less_common;
mod range;
mod raw;

use std::ops::{Range, RangeInclusive};

use niclab_packet::key::{Depth, End, KEY_WORDS, Key, extra, field as place};

use super::CompileError;
use super::order::{header_after, header_before};
use crate::bounds::{Bound, Bounds};
use crate::raw::{RawBytes, RawWords};
use crate::rule::item::{Field, FieldKind, IMAGE_LEN, Item, ItemMatch};
use crate::rule::{EXTRA, INNER, MaskedKey, OUTER, Pattern, RAW};

const HEADER_KEY_LEN: usize = 64;
/// Header keys whose bytes have fixed places: all but the raw key.
const HEADER_KEYS: usize = RAW;

const TAG_TYPES: [u128; 2] = [0x8100, 0x88a8];
const MPLS_TYPES: [u128; 2] = [0x8847, 0x8848];
const ETHER_IPV4: u16 = 0x0800;
const ETHER_IPV6: u16 = 0x86dd;
const ETHER_BRIDGED: u16 = 0x6558;
const PORT_VXLAN: u16 = 4_789;
const PORT_GPE: u16 = 4_790;
const PORT_GENEVE: u16 = 6_081;
const PORT_MPLS: u16 = 6_635;
const GRE_KEY_BIT: u8 = 0x20;

/// Where the extra key has flags and fragment offset of IPv4, within the bytes of a level.
const FRAGMENT_OFFSET: usize = HEADER_KEY_LEN * EXTRA + extra::PACKET_ID + 2;

/// Where the bits of a header are: first bit in the image, and bytes of a header key.
type Places<'a> = &'a [(usize, Range<usize>)];

const IPV4: Places<'_> = &[
    (8, place::TOS),
    (64, place::TTL),
    (72, place::PROTOCOL),
    (96, place::SRC_HEAD),
    (128, place::DST_HEAD),
];
const IPV6: Places<'_> = &[
    (4, place::TOS),
    (48, place::PROTOCOL),
    (56, place::TTL),
    (64, place::SRC_HEAD),
    (96, place::SRC_TAIL),
    (192, place::DST_HEAD),
    (224, place::DST_TAIL),
];
const ETH: Places<'_> = &[(0, place::ETH_DST), (48, place::ETH_SRC)];
const VLAN: [Places<'_>; 2] = [&[(0, place::VLAN_OUTER)], &[(0, place::VLAN_INNER)]];
const UDP: Places<'_> = &[(0, place::SPORT), (16, place::DPORT)];
const TCP: Places<'_> = &[(0, place::SPORT), (16, place::DPORT), (104, place::TCP_FLAGS)];
const GRE: Places<'_> = &[(0, extra::GRE_FLAGS), (16, extra::TUNNEL_TYPE)];
const GRE_KEY: Places<'_> = &[(0, extra::TUNNEL_ID)];
const VXLAN: Places<'_> = &[(32, extra::TUNNEL_ID)];
const GENEVE: Places<'_> =
    &[(0, extra::GENEVE_FIRST), (16, extra::TUNNEL_TYPE), (32, extra::TUNNEL_ID)];
const MPLS: Places<'_> = &[(0, extra::MPLS)];
const META: Places<'_> = &[(0, extra::META)];

const BYTE: Field = Field { name: "", kind: FieldKind::Number, bit_offset: 0, bits: 8 };
/// The flags of a TCP header.
const FLAGS: Field = Field { bit_offset: 104, ..BYTE };
const HAS_FRAG_EXT: Field = Field { bit_offset: 327, bits: 1, ..BYTE };
const ICMP_IDENT: Field = Field { bit_offset: 32, bits: 16, ..BYTE };
const ICMP_SEQ: Field = Field { bit_offset: 48, bits: 16, ..BYTE };
const TAG_INDEX: Field = Field { bit_offset: 32, ..BYTE };

/// A pattern while its items are added. Bytes are counted through all header keys.
pub(super) struct Draft {
    index: usize,
    /// The headers that are named before and after the item.
    before: Option<Item>,
    after: Option<Item>,
    /// The key of the current headers: outer, or inner after a tunnel.
    level: usize,
    /// VLAN items so far on this level.
    tags: usize,
    value: [u8; HEADER_KEY_LEN * HEADER_KEYS],
    mask: [u8; HEADER_KEY_LEN * HEADER_KEYS],
    /// Ranges of source and destination port, outside of tunnels.
    ranges: [Option<RangeInclusive<u16>>; 2],
    /// Ranges of other fields.
    bounds: Vec<Bound>,
    /// `raw` bytes, and where the item before ends.
    raw: RawBytes,
    end: (End, i64),
}

impl Default for Draft {
    fn default() -> Draft {
        let bytes = [0; HEADER_KEY_LEN * HEADER_KEYS];
        Draft {
            index: 0,
            before: None,
            after: None,
            level: OUTER,
            tags: 0,
            value: bytes,
            mask: bytes,
            ranges: [None, None],
            bounds: Vec::new(),
            raw: RawBytes::new(),
            end: (End::Frame, 0),
        }
    }
}

impl Draft {
    /// Begins an item, whose order was checked.
    pub(super) fn begin(&mut self, items: &[ItemMatch], index: usize) -> Result<(), CompileError> {
        self.index = index;
        (self.before, self.after) = (header_before(items, index), header_after(items, index));
        let item = items[index].item;
        match (item, self.before) {
            (Item::Eth, Some(tunnel)) => self.enter(tunnel, item, &[ETHER_BRIDGED]),
            (Item::Ipv4, Some(tunnel)) => self.enter(tunnel, item, &[ETHER_IPV4, ETHER_BRIDGED]),
            (Item::Ipv6, Some(tunnel)) => self.enter(tunnel, item, &[ETHER_IPV6, ETHER_BRIDGED]),
            (item, _) if self.level == INNER && less_common::is_outer(item) => {
                Err(self.not_supported(item, "inside a tunnel"))
            }
            _ => Ok(()),
        }
    }

    /// Goes inside a tunnel, if the header before belongs to one; the next item is one of these
    /// types.
    fn enter(&mut self, tunnel: Item, item: Item, types: &[u16]) -> Result<(), CompileError> {
        if matches!(tunnel, Item::Eth | Item::Vlan) {
            return Ok(());
        }
        if self.level == INNER {
            return Err(self.not_supported(item, "behind a tunnel in a tunnel"));
        }
        match tunnel {
            Item::Ipv4 | Item::Ipv6 => {
                let protocol = if item == Item::Ipv4 { 4 } else { 41 };
                self.protocol(item, protocol)?;
            }
            Item::Gre | Item::GreKey => {
                self.carries(item, types)?;
                // The content of labels follows an `mpls` that no item names.
                self.extra(extra::TUNNELS.start, 0, extra::MPLS_LABEL)?;
            }
            Item::Geneve => self.carries(item, types)?,
            _ => {}
        }
        (self.level, self.tags) = (INNER, 0);
        Ok(())
    }

    /// Whether the type that GRE or GENEVE has to have may be one of these.
    fn carries(&self, item: Item, types: &[u16]) -> Result<(), CompileError> {
        let at = HEADER_KEY_LEN * EXTRA + extra::TUNNEL_TYPE.start;
        if types.iter().any(|&fit| self.allows(at, fit)) {
            return Ok(());
        }
        let tunnel = self.before.map_or("", Item::name);
        let reason = format!("{} cannot stand behind this protocol of {tunnel}", item.name());
        Err(CompileError::Contradiction { index: self.index, reason })
    }

    /// Whether two bytes may be this number, by the bits required so far.
    fn allows(&self, at: usize, number: u16) -> bool {
        number
            .to_be_bytes()
            .into_iter()
            .enumerate()
            .all(|(byte, value)| (self.value[at + byte] ^ value) & self.mask[at + byte] == 0)
    }

    /// Adds the item, and removes the processed bits from its mask.
    pub(super) fn item(&mut self, read: &mut ItemMatch) -> Result<(), CompileError> {
        match read.item {
            Item::Eth | Item::Vlan => self.link(read),
            Item::Ipv4 => self.ipv4(read),
            Item::Ipv6 => self.ipv6(read),
            Item::Icmp => self.icmp(read, 1),
            Item::Icmp6 => self.icmp(read, 58),
            Item::Tcp => {
                self.transport(read.item, 6)?;
                if FLAGS.value(&read.mask) != 0 {
                    self.reaches(Depth::TcpFlags);
                }
                self.fields(read, TCP, self.level)
            }
            Item::Udp => {
                self.transport(read.item, 17)?;
                self.fields(read, UDP, self.level)
            }
            Item::Gre => {
                self.protocol(read.item, 47)?;
                self.tunnel(read, extra::GRE, GRE)
            }
            Item::GreKey => {
                let flags = HEADER_KEY_LEN * EXTRA + extra::GRE_FLAGS.start;
                if self.mask[flags] & !self.value[flags] & GRE_KEY_BIT != 0 {
                    let reason = "gre_key stands behind a gre that is to have no key".to_owned();
                    return Err(CompileError::Contradiction { index: self.index, reason });
                }
                self.tunnel(read, extra::GRE_KEY, GRE_KEY)
            }
            Item::Vxlan => {
                self.port(read.item, PORT_VXLAN)?;
                self.tunnel(read, extra::VXLAN, VXLAN)
            }
            Item::Geneve => {
                self.port(read.item, PORT_GENEVE)?;
                self.tunnel(read, extra::GENEVE, GENEVE)
            }
            Item::Sctp | Item::Esp | Item::Ah => self.numbered(read),
            Item::ArpEthIpv4 => self.arp(read),
            Item::Ipv6FragExt => self.fragment_header(read),
            Item::Pppoed | Item::Pppoes => self.pppoe(read),
            Item::Nvgre => self.nvgre(read),
            Item::VxlanGpe => {
                self.port(read.item, PORT_GPE)?;
                self.tunnel(read, extra::VXLAN_GPE, VXLAN)
            }
            Item::Gtp | Item::Gtpc | Item::Gtpu | Item::GtpPsc => self.gtp(read),
            Item::Mpls => self.mpls(read),
            Item::Meta => self.fields(read, META, EXTRA),
            Item::Tag => self.tag(read),
            Item::Raw => self.raw(read),
        }
    }

    /// Ethernet or a VLAN tag.
    fn link(&mut self, read: &mut ItemMatch) -> Result<(), CompileError> {
        if read.item == Item::Eth {
            if read.mask != [0; IMAGE_LEN] || self.level == INNER {
                self.reaches(Depth::Ethernet);
            }
            self.fields(read, ETH, self.level)?;
            self.ether_type(read, "type")?;
            return self.more_tags(read, "has_vlan");
        }
        let Some(places) = VLAN.get(self.tags) else {
            let name = "a third vlan".to_owned();
            return Err(CompileError::NotSupported { index: self.index, name });
        };
        let bit = 1 << self.tags;
        self.level(place::VLANS.start, bit, bit, || {
            "vlan stands behind a header that is to have no tag".to_owned()
        })?;
        self.tags += 1;
        self.fields(read, places, self.level)?;
        self.ether_type(read, "inner_type")?;
        self.more_tags(read, "has_more_vlan")
    }

    fn ipv4(&mut self, read: &mut ItemMatch) -> Result<(), CompileError> {
        self.type_is(read.item, ETHER_IPV4)?;
        self.reaches(Depth::Ip);
        self.fields(read, IPV4, self.level)?;
        let (first, id) = (self.detail() + extra::VERSION_IHL, self.detail() + extra::PACKET_ID);
        self.fields(read, &[(0, first..first + 1), (32, id..id + 4)], EXTRA)?;
        let first = HEADER_KEY_LEN * EXTRA + first;
        let (value, mask) = (self.value[first], self.mask[first]);
        let reason = if (value ^ 0x40) & mask & 0xf0 != 0 {
            "the version in version_ihl is 4, as 0x45 has it: 6 is that of the item ipv6"
        } else if mask & 0xf == 0xf && value & 0xf < 5 {
            "the header's length in version_ihl is 5 words or more, as 0x45 has it"
        } else {
            return Ok(());
        };
        Err(CompileError::Contradiction { index: self.index, reason: reason.to_owned() })
    }

    fn ipv6(&mut self, read: &mut ItemMatch) -> Result<(), CompileError> {
        self.type_is(read.item, ETHER_IPV6)?;
        self.reaches(Depth::Ip);
        self.fields(read, IPV6, self.level)?;
        let flow = self.detail() + extra::FLOW;
        self.fields(read, &[(8, flow..flow + 3)], EXTRA)?;
        if HAS_FRAG_EXT.value(&read.mask) != 0 {
            let bit = extra::HAS_FRAGMENT_HEADER;
            let value = if HAS_FRAG_EXT.value(&read.spec) == 0 { 0 } else { bit };
            self.extra(self.detail() + extra::KNOWN, value, bit)?;
            HAS_FRAG_EXT.put(&mut read.mask, 0);
        }
        Ok(())
    }

    fn icmp(&mut self, read: &mut ItemMatch, protocol: u8) -> Result<(), CompileError> {
        if self.before.is_none() {
            // Each version of IP has its own.
            let is_v4 = read.item == Item::Icmp;
            self.type_is(read.item, if is_v4 { ETHER_IPV4 } else { ETHER_IPV6 })?;
        }
        self.transport(read.item, protocol)?;
        let fields = [(ICMP_IDENT, extra::HAS_IDENT), (ICMP_SEQ, extra::HAS_SEQ)];
        for (field, bit) in fields {
            if field.value(&read.mask) != 0 {
                self.extra(self.detail() + extra::KNOWN, bit, bit)?;
            }
        }
        let first = self.detail() + extra::ICMP_TYPE;
        let echo = if self.level == OUTER { extra::OUTER_ECHO } else { extra::INNER_ECHO };
        self.fields(read, &[(0, first..first + 2), (32, echo..echo + 4)], EXTRA)
    }

    fn mpls(&mut self, read: &mut ItemMatch) -> Result<(), CompileError> {
        match self.before {
            Some(Item::Udp) => self.port(read.item, PORT_MPLS)?,
            Some(Item::Gre | Item::GreKey) => {
                self.carries(read.item, &MPLS_TYPES.map(|number| number as u16))?;
            }
            _ => {
                // After Ethernet, and so not after IP.
                let at = HEADER_KEY_LEN * OUTER + place::ETHER_TYPE.start;
                if !MPLS_TYPES.iter().any(|&fit| self.allows(at, fit as u16)) {
                    let reason = "the type before mpls is none of mpls: use 0x8847".to_owned();
                    return Err(CompileError::Contradiction { index: self.index, reason });
                }
                self.level(place::DEPTH.start, 0, Depth::Ip.bit(), String::new)?;
            }
        }
        self.tunnel(read, extra::MPLS_LABEL, MPLS)
    }

    fn tag(&mut self, read: &mut ItemMatch) -> Result<(), CompileError> {
        let asks = read.mask[..4] != [0; 4] || TAG_INDEX.value(&read.mask) == TAG_INDEX.ones();
        let index = if asks { self.tag_index(read)? } else { 0 };
        TAG_INDEX.put(&mut read.mask, 0);
        let first = extra::TAGS.start + 4 * index;
        self.fields(read, &[(0, first..first + 4)], EXTRA)
    }

    /// A header of a tunnel, with its fields in the extra key.
    fn tunnel(
        &mut self,
        read: &mut ItemMatch,
        bit: u8,
        places: Places<'_>,
    ) -> Result<(), CompileError> {
        self.extra(extra::TUNNELS.start, bit, bit)?;
        self.fields(read, places, EXTRA)
    }

    /// Whether the destination port before a tunnel may be its port. The tunnel's bit requires that
    /// it is.
    fn port(&self, item: Item, port: u16) -> Result<(), CompileError> {
        let name = item.name();
        let is_in_range = self.ranges[1].as_ref().is_none_or(|range| range.contains(&port));
        match is_in_range && self.allows(HEADER_KEY_LEN * OUTER + place::DPORT.start, port) {
            true => Ok(()),
            false => Err(CompileError::Contradiction {
                index: self.index,
                reason: format!("the udp dst before {name} is not {port}, which {name} has"),
            }),
        }
    }

    /// Where the extra key has the fields that this level's key has no room for.
    fn detail(&self) -> usize {
        if self.level == OUTER { extra::OUTER } else { extra::INNER }
    }

    /// Adds fields that a header key has in network format.
    fn fields(
        &mut self,
        read: &mut ItemMatch,
        places: Places<'_>,
        key: usize,
    ) -> Result<(), CompileError> {
        let name = read.item.name();
        for (bit_offset, bytes) in places {
            for (at, byte) in bytes.clone().enumerate() {
                let bits = Field { bit_offset: bit_offset + at * 8, ..BYTE };
                let mask = bits.value(&read.mask) as u8;
                if mask == 0 {
                    continue;
                }
                let (value, byte) = (bits.value(&read.spec) as u8, key * HEADER_KEY_LEN + byte);
                self.set(byte, value, mask, || format!("{name} contradicts what stands before"))?;
                bits.put(&mut read.mask, 0);
            }
        }
        Ok(())
    }

    /// The type in an Ethernet header or a tag. The key has the type after all tags; the extra key
    /// has that of a tag, for the outer headers.
    fn ether_type(&mut self, read: &mut ItemMatch, name: &'static str) -> Result<(), CompileError> {
        let Some(field) = read.item.field(name) else { return Ok(()) };
        let (mask, tags) = (field.value(&read.mask), self.tags);
        let value = field.value(&read.spec) & mask;
        let fits = TAG_TYPES.map(|tag| tag & mask == value);
        let before_tag = self.after == Some(Item::Vlan);
        if mask == 0 {
            return Ok(());
        }
        if before_tag && fits == [false; 2] {
            let item = read.item.name();
            let reason = format!(
                "{item} {name} {value:#06x} stands before vlan: use 0x8100, or leave it out"
            );
            return Err(CompileError::Contradiction { index: self.index, reason });
        }
        let place = if tags < 2 && fits != [false; 2] {
            if before_tag && fits == [true; 2] {
                field.put(&mut read.mask, 0);
                return Ok(());
            }
            if self.level == INNER {
                // Inside a tunnel the type of a tag is not stored: refused with the rest of the
                // mask.
                return Ok(());
            }
            let place = if tags == 0 { extra::ETH_TYPE } else { extra::VLAN_TYPE };
            HEADER_KEY_LEN * EXTRA + place.start
        } else {
            HEADER_KEY_LEN * self.level + place::ETHER_TYPE.start
        };
        field.put(&mut read.mask, 0);
        if tags < 2 && fits == [false; 2] {
            self.level(place::VLANS.start, 0, 1 << tags, String::new)?;
        }
        for (at, shift) in [8, 0].into_iter().enumerate() {
            let (value, mask) = ((value >> shift) as u8, (mask >> shift) as u8);
            self.set(place + at, value, mask, String::new)?;
        }
        Ok(())
    }

    /// Whether a tag follows.
    fn more_tags(&mut self, read: &mut ItemMatch, name: &'static str) -> Result<(), CompileError> {
        let Some(field) = read.item.field(name) else { return Ok(()) };
        // The key has no third tag.
        if field.value(&read.mask) == 0 || self.tags >= 2 {
            return Ok(());
        }
        field.put(&mut read.mask, 0);
        let bit = 1 << self.tags;
        let value = if field.value(&read.spec) == 0 { 0 } else { bit };
        let item = read.item.name();
        self.level(place::VLANS.start, value, bit, || {
            format!("{item} {name} contradicts {item}'s type, which is no tag's")
        })
    }

    fn type_is(&mut self, item: Item, ether_type: u16) -> Result<(), CompileError> {
        let at = HEADER_KEY_LEN * self.level + place::ETHER_TYPE.start;
        let before = u16::from_be_bytes([self.value[at], self.value[at + 1]]);
        for (byte, value) in place::ETHER_TYPE.zip(ether_type.to_be_bytes()) {
            self.level(byte, value, 0xff, || {
                let name = item.name();
                format!(
                    "the type before {name} is {before:#06x}; that of {name} is {ether_type:#06x}"
                )
            })?;
        }
        Ok(())
    }

    /// A transport header, which a cut-off packet or a later fragment does not have.
    fn transport(&mut self, item: Item, protocol: u8) -> Result<(), CompileError> {
        self.reaches(Depth::Transport);
        self.protocol(item, protocol)
    }

    /// The protocol after IP.
    fn protocol(&mut self, item: Item, protocol: u8) -> Result<(), CompileError> {
        // Flags come before the offset. IPv6 has none there.
        let offset = self.detail() + FRAGMENT_OFFSET;
        let bits = [0, 1].map(|at| self.value[offset + at] & self.mask[offset + at]);
        if u16::from_be_bytes(bits) & 0x1fff != 0 {
            let reason = format!(
                "a later fragment has no {}: leave it out, and ask for `ipv4 proto`",
                item.name()
            );
            return Err(CompileError::Contradiction { index: self.index, reason });
        }
        let before = self.value[HEADER_KEY_LEN * self.level + place::PROTOCOL.start];
        self.level(place::PROTOCOL.start, protocol, 0xff, || {
            let name = item.name();
            format!("the proto before {name} is {before}; that of {name} is {protocol}")
        })
    }

    /// Requires a header: in a key, a missing header is zero, and a rule may match zeros.
    fn reaches(&mut self, depth: Depth) {
        let at = HEADER_KEY_LEN * self.level + place::DEPTH.start;
        self.value[at] |= depth.bit();
        self.mask[at] |= depth.bit();
    }

    /// Requires bits of a byte of the level's key.
    fn level(
        &mut self,
        byte: usize,
        value: u8,
        mask: u8,
        reason: impl FnOnce() -> String,
    ) -> Result<(), CompileError> {
        self.set(HEADER_KEY_LEN * self.level + byte, value, mask, reason)
    }

    /// Requires bits of a byte of the extra key.
    fn extra(&mut self, byte: usize, value: u8, mask: u8) -> Result<(), CompileError> {
        let reason = || "this header contradicts what stands before".to_owned();
        self.set(HEADER_KEY_LEN * EXTRA + byte, value, mask, reason)
    }

    /// Requires bits of a byte.
    fn set(
        &mut self,
        byte: usize,
        value: u8,
        mask: u8,
        reason: impl FnOnce() -> String,
    ) -> Result<(), CompileError> {
        let common = self.mask[byte] & mask;
        if (self.value[byte] ^ value) & common != 0 {
            return Err(CompileError::Contradiction { index: self.index, reason: reason() });
        }
        self.value[byte] |= value & mask;
        self.mask[byte] |= mask;
        Ok(())
    }

    pub(super) fn not_supported(&self, item: Item, what: &str) -> CompileError {
        let name = format!("{} {what}", item.name());
        CompileError::NotSupported { index: self.index, name }
    }

    /// The pattern, and its number of words; words that are too many are left out.
    pub(super) fn pattern(&self) -> (Pattern, usize) {
        let key = |bytes: &[u8; HEADER_KEY_LEN * HEADER_KEYS], at: usize| {
            let mut one = [0; HEADER_KEY_LEN];
            one.copy_from_slice(&bytes[HEADER_KEY_LEN * at..][..HEADER_KEY_LEN]);
            Key::from_bytes(&one)
        };
        let masked =
            |at: usize| MaskedKey { value: key(&self.value, at), mask: key(&self.mask, at) };
        let (raw, bytes, count) = RawWords::pack(&self.raw);
        // They were counted when they were added.
        let bounds = Bounds::new(&self.bounds).unwrap_or_default();
        let pattern =
            Pattern::of_keys(masked(OUTER), [masked(INNER), masked(EXTRA), bytes], (raw, bounds));
        let [sport, dport] = self.ranges.clone();
        let pattern = sport.into_iter().fold(pattern, Pattern::sport_range);
        let pattern = dport.into_iter().fold(pattern, Pattern::dport_range);
        let words = pattern.words() + count.saturating_sub(KEY_WORDS);
        (pattern, words)
    }
}
