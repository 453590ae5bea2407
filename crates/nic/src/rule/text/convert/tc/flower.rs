//! The keys of flower, and the packets that a filter matches.
//!
//! After iproute2 6.1, `tc/f_flower.c`, for the words and the base of each number, and Linux 6.1,
//! `net/sched/cls_flower.c` and `net/core/flow_dissector.c`, for what they mean:
//!
//! - `protocol ip` is the type after the addresses, so it matches no tagged frame.
//! - Of fragments, the first included, flower reads no transport header: ports, TCP flags, and type
//!   and code of ICMP are 0. So a filter for another value matches no fragment, and a filter for
//!   zeros only matches all of them.
//! - `tcp_flags` are the 12 bits before the window.
//! - Inner headers of tunnels are ignored: all keys are for the outer headers.

use std::collections::BTreeMap;

use super::super::{Items, Tokens, ones, transport};
use super::Head;
use crate::rule::item::{Item, ItemMatch, RAW_BYTES, RAW_LEN};
use crate::text::TextError;

/// `protocol all`.
pub(super) const ETHER_ALL: u16 = 3;
/// The greatest number of a chain.
pub(super) const CHAIN_MAX: u128 = 0x0fff_ffff;

const TAG_TYPES: [u16; 2] = [0x8100, 0x88a8];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const MPLS_IN_IP: u8 = 137;
/// The bit "more fragments" and the offset, in the IPv4 field of flags and offset.
const FRAGMENT: u128 = 0x3fff;
const MORE_FRAGMENTS: u128 = 0x2000;
/// Bits of `ip_flags`.
const IS_FRAGMENT: u128 = 1;
const FIRST_FRAGMENT: u128 = 2;
/// The offset of the flags in a TCP header, and the number of its bytes that are matched.
const TCP_FLAGS_AT: usize = 12;
const TCP_LEN: usize = 14;

/// Keys, in the order in which tc tries abbreviations.
pub(super) const KEYS: &[&str] = &[
    "classid",
    "flowid",
    "hw_tc",
    "ip_flags",
    "verbose",
    "skip_hw",
    "skip_sw",
    "ct_state",
    "ct_zone",
    "ct_mark",
    "ct_label",
    "indev",
    "num_of_vlans",
    "vlan_id",
    "vlan_prio",
    "vlan_ethtype",
    "cvlan_id",
    "cvlan_prio",
    "cvlan_ethtype",
    "mpls",
    "mpls_label",
    "mpls_tc",
    "mpls_bos",
    "mpls_ttl",
    "dst_mac",
    "src_mac",
    "ip_proto",
    "ip_tos",
    "ip_ttl",
    "dst_ip",
    "src_ip",
    "dst_port",
    "src_port",
    "tcp_flags",
    "type",
    "code",
    "arp_tip",
    "arp_sip",
    "arp_op",
    "arp_tha",
    "arp_sha",
    "pppoe_sid",
    "ppp_proto",
    "enc_dst_ip",
    "enc_src_ip",
    "enc_key_id",
    "enc_dst_port",
    "enc_tos",
    "enc_ttl",
    "geneve_opts",
    "vxlan_opts",
    "erspan_opts",
    "gtp_opts",
    "action",
];
/// Keys that cannot be abbreviated.
const EXACT: &[&str] = &["num_of_vlans", "pppoe_sid", "ppp_proto", "gtp_opts"];

/// Words that tc prints among the keys but does not read.
pub(super) const SHOWN: &[&str] =
    &["eth_type", "icmp_type", "icmp_code", "handle", "in_hw", "not_in_hw", "in_hw_count"];

/// Names of Ethernet types, in upper or lower case, after `lib/ll_proto.c` of iproute2.
const TYPES: &[(&str, u16)] = &[
    ("ieeepup", 0x0a00),
    ("ieeepupat", 0x0a01),
    ("x25", 0x0805),
    ("bpq", 0x08ff),
    ("dec", 0x6000),
    ("dna_dl", 0x6001),
    ("dna_rc", 0x6002),
    ("dna_rt", 0x6003),
    ("lat", 0x6004),
    ("diag", 0x6005),
    ("cust", 0x6006),
    ("sca", 0x6007),
    ("ip", IPV4),
    ("ipv4", IPV4),
    ("arp", 0x0806),
    ("rarp", 0x8035),
    ("teb", 0x6558),
    ("atalk", 0x809b),
    ("aarp", 0x80f3),
    ("802.1q", 0x8100),
    ("ipx", 0x8137),
    ("ipv6", IPV6),
    ("mpls_uc", 0x8847),
    ("mpls_mc", 0x8848),
    ("atmmpoa", 0x884c),
    ("ppp_disc", 0x8863),
    ("ppp_ses", 0x8864),
    ("atmfate", 0x8884),
    ("profinet", 0x8892),
    ("aoe", 0x88a2),
    ("ethercat", 0x88a4),
    ("802.1ad", 0x88a8),
    ("tipc", 0x88ca),
    ("lldp", 0x88cc),
    ("all", ETHER_ALL),
];

/// Keys of the transport header; the last two are ranges.
const TRANSPORT_KEYS: [&str; 7] =
    ["src_port", "dst_port", "tcp_flags", "type", "code", "src_ports", "dst_ports"];

/// The fragments that a filter matches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fragments {
    /// None: only whole packets.
    None,
    All,
    First,
    /// A combination that no single rule can match.
    Other,
}

/// Values and masks by their key.
pub(super) type Keys = BTreeMap<&'static str, (u128, u128)>;

/// A complete filter.
pub(super) struct Rule {
    pub(super) items: Items,
    pub(super) action: String,
    /// The keys it matches, as the kernel compares filters.
    pub(super) keys: Keys,
    /// Options without effect here, shown as comments.
    pub(super) aside: Vec<String>,
}

/// A filter, while it is read.
#[derive(Default)]
pub(super) struct Filter {
    pub(super) keys: Keys,
    /// The word of each key, for error messages.
    places: BTreeMap<&'static str, usize>,
    /// The types in the Ethernet header and in the tags after it, as far as the filter names them.
    types: Vec<u16>,
    /// The protocol of IP, once it was read.
    protocol: Option<u8>,
    pub(super) chain: u32,
    pub(super) action: Option<String>,
    aside: Vec<String>,
}

/// The next word, an Ethernet type.
pub(super) fn ether_type(words: &mut Tokens<'_>, is_shown: bool) -> Result<u16, TextError> {
    let word = words.next();
    if let Some((_, found)) = TYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
        return Ok(*found);
    }
    // tc prints a type without a name as `[35020]`.
    let inside = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let number = inside.filter(|_| is_shown).unwrap_or(word);
    let found = words.c_number_of(number, 0, "protocol", u16::MAX.into())? as u16;
    match found {
        ETHER_ALL | 0x0600.. => Ok(found),
        _ => Err(words.not_supported(format!("protocol {found:#x}: it is no type of Ethernet"))),
    }
}

impl Filter {
    pub(super) fn new(head: &Head) -> Filter {
        let types = head.protocol.filter(|protocol| *protocol != ETHER_ALL);
        Filter { types: types.into_iter().collect(), chain: head.chain, ..Filter::default() }
    }

    /// Reads the words after a key.
    pub(super) fn key(
        &mut self,
        words: &mut Tokens<'_>,
        key: &'static str,
    ) -> Result<(), TextError> {
        if EXACT.contains(&key) && words.last() != key {
            return Err(words.expected(format!("`{key}`, written out")));
        }
        match key {
            "verbose" => return Ok(()),
            "skip_sw" | "skip_hw" => {
                self.aside.push(format!("{key} has no equivalent: rules are the card's"));
                return Ok(());
            }
            _ => {}
        }
        if self.places.insert(key, words.at - 1).is_some() {
            return Err(words.unfit(format!("{key} is given twice: tc takes the last alone")));
        }
        match key {
            "src_mac" | "dst_mac" => self.mac(words, key),
            "vlan_ethtype" => self.add_type(words, key, 1),
            "cvlan_ethtype" => self.add_type(words, key, 2),
            "vlan_id" | "cvlan_id" => self.tag(words, key, 0xfff),
            "vlan_prio" | "cvlan_prio" => self.tag(words, key, 7),
            "ip_flags" => self.ip_flags(words),
            "ip_proto" => self.ip_proto(words),
            "ip_tos" | "ip_ttl" => self.tos_ttl(words, key),
            "src_ip" | "dst_ip" => self.address(words, key),
            "src_port" | "dst_port" => self.port(words, key),
            "tcp_flags" => self.masked(words, key, (16, 16), 0xfff),
            "type" | "code" => {
                let (header, version) =
                    (self.protocol.and_then(|it| transport(it.into())), self.ip());
                match (header, version) {
                    (Some(Item::Icmp), Some(Item::Ipv4))
                    | (Some(Item::Icmp6), Some(Item::Ipv6)) => {}
                    _ => {
                        let reason =
                            format!("{key} needs `ip_proto icmp` (`icmpv6` of IPv6) before it");
                        return Err(words.unfit(reason));
                    }
                }
                self.masked(words, key, (10, 10), 0xff)
            }
            _ => Err(words.not_supported(key)),
        }
    }

    /// The type after all tags, which tc prints but does not read.
    pub(super) fn shown_type(&mut self, words: &mut Tokens<'_>) -> Result<(), TextError> {
        let word = words.next();
        let found = match TYPES.iter().find(|(name, _)| *name == word) {
            Some((_, found)) => *found,
            None => words.c_number_of(word, 16, "eth_type", u16::MAX.into())? as u16,
        };
        match self.types.last() {
            Some(last) if *last == found => Ok(()),
            _ => Err(words.unfit("the type does not fit `protocol`")),
        }
    }

    /// The IP version that the types name.
    fn ip(&self) -> Option<Item> {
        match self.types.last() {
            Some(&IPV4) => Some(Item::Ipv4),
            Some(&IPV6) => Some(Item::Ipv6),
            _ => None,
        }
    }

    fn needs_ip(&self, words: &Tokens<'_>) -> Result<Item, TextError> {
        self.ip().ok_or_else(|| {
            words.unfit(
                "neither IPv4 nor IPv6: say `protocol ip` or `ipv6`, or `vlan_ethtype` before it",
            )
        })
    }

    /// The type after this number of tags.
    fn add_type(
        &mut self,
        words: &mut Tokens<'_>,
        key: &'static str,
        tags: usize,
    ) -> Result<(), TextError> {
        let is_behind_tags = self.types.len() == tags && self.is_tag(tags - 1);
        let found = ether_type(words, true)?;
        if !is_behind_tags {
            let before = ["protocol 802.1Q", "vlan_ethtype 802.1Q"][tags - 1];
            return Err(words.unfit(format!("{key} needs `{before}` before it")));
        }
        if found == ETHER_ALL {
            return Err(words.not_supported("`all` behind a tag: leave it out"));
        }
        if tags == 2 && TAG_TYPES.contains(&found) {
            return Err(words.not_supported("a third tag"));
        }
        self.types.push(found);
        self.keys.insert(key, (found.into(), 0xffff));
        Ok(())
    }

    fn is_tag(&self, at: usize) -> bool {
        self.types.get(at).is_some_and(|it| TAG_TYPES.contains(it))
    }

    fn mac(&mut self, words: &mut Tokens<'_>, key: &'static str) -> Result<(), TextError> {
        let word = words.next();
        let (address, mask) = word.split_once('/').map_or((word, None), |(a, m)| (a, Some(m)));
        let value = words.mac_of(address, key)?;
        let mask = match mask {
            None => ones(48),
            Some(mask) if mask.contains(':') => words.mac_of(mask, "mask")?,
            Some(len) => {
                let len = words.c_number_of(len, 10, "mask: bits", 48)? as u32;
                if len == 0 {
                    let reason = format!(
                        "{key} of 0 bits: tc 6.1 makes the mask 00:00:ff:ff:ff:ff of it; leave it \
                         out"
                    );
                    return Err(words.unfit(reason));
                }
                ones(48) & !ones(48 - len)
            }
        };
        self.set(key, value, mask);
        Ok(())
    }

    /// A field of the outer tag, or of the inner one (`cvlan`).
    fn tag(
        &mut self,
        words: &mut Tokens<'_>,
        key: &'static str,
        max: u128,
    ) -> Result<(), TextError> {
        let place = usize::from(key.starts_with('c'));
        if !self.is_tag(place) {
            let before = ["protocol 802.1Q", "vlan_ethtype 802.1Q"][place];
            return Err(words.unfit(format!("{key} needs `{before}` before it")));
        }
        let value = words.c_number(key, 10, max)?;
        self.set(key, value, max);
        Ok(())
    }

    /// `frag`, `nofrag`, `firstfrag`, `nofirstfrag`, with slashes between.
    fn ip_flags(&mut self, words: &mut Tokens<'_>) -> Result<(), TextError> {
        let (mut value, mut mask) = (0, 0);
        for part in words.next().split('/').filter(|part| !part.is_empty()) {
            let (name, is_set) = part.strip_prefix("no").map_or((part, true), |rest| (rest, false));
            let bit = match name {
                "frag" => IS_FRAGMENT,
                "firstfrag" => FIRST_FRAGMENT,
                _ => {
                    let names = "ip_flags: `nofrag`, `frag`, `firstfrag` or `nofirstfrag`";
                    return Err(words.expected(names));
                }
            };
            value = if is_set { value | bit } else { value & !bit };
            mask |= bit;
        }
        if (value, mask) == (FIRST_FRAGMENT, IS_FRAGMENT | FIRST_FRAGMENT) {
            return Err(words.unfit("a first fragment is one: this matches nothing"));
        }
        self.set("ip_flags", value, mask);
        Ok(())
    }

    fn ip_proto(&mut self, words: &mut Tokens<'_>) -> Result<(), TextError> {
        let word = words.next();
        let ip = self.needs_ip(words)?;
        let names = [("tcp", 6), ("udp", 17), ("sctp", 132), ("icmp", 1), ("icmpv6", 58)];
        let named = names.into_iter().find(|(name, _)| !word.is_empty() && name.starts_with(word));
        let protocol = match (named, ip) {
            (Some(("icmp", _)), Item::Ipv6) | (Some(("icmpv6", _)), Item::Ipv4) => {
                return Err(words.unfit("icmp is of IPv4, and icmpv6 of IPv6"));
            }
            (Some((_, protocol)), _) => protocol,
            // tc reads a number here as hexadecimal.
            (None, _) => words.c_number_of(word, 16, "ip_proto", u8::MAX.into())? as u8,
        };
        if protocol == MPLS_IN_IP {
            let what = "ip_proto 0x89: flower takes such packets for MPLS, not for IP";
            return Err(words.not_supported(what));
        }
        self.protocol = Some(protocol);
        self.set("ip_proto", protocol.into(), 0xff);
        Ok(())
    }

    fn address(&mut self, words: &mut Tokens<'_>, key: &'static str) -> Result<(), TextError> {
        let word = words.next();
        let ip = self.needs_ip(words)?;
        if matches!(word, "any" | "all" | "default") {
            return Err(words.unfit(format!("{key} of any address: leave it out")));
        }
        let (address, len) = word.split_once('/').map_or((word, None), |(a, l)| (a, Some(l)));
        let bits = if ip == Item::Ipv6 { 128 } else { 32 };
        let value = match ip {
            Item::Ipv6 => words.ip(ip, address, key)?,
            _ => u128::from(
                ipv4(address).ok_or_else(|| words.expected(format!("{key}: an IPv4 address")))?,
            ),
        };
        let mask = match len {
            None => ones(bits),
            Some(len) => {
                let len = match len.contains(['.', ':']) {
                    true => ipv4(len).and_then(prefix_len).ok_or_else(|| {
                        let what = "a length, or an IPv4 mask of leading ones: tc takes no other";
                        words.expected(format!("{key}: {what}"))
                    })?,
                    false => {
                        let what = format!("{key}: length");
                        words.c_number_of(len, 0, &what, bits.into())? as u32
                    }
                };
                ones(bits) & !ones(bits).checked_shr(len).unwrap_or(0)
            }
        };
        self.set(key, value, mask);
        Ok(())
    }

    fn tos_ttl(&mut self, words: &mut Tokens<'_>, key: &'static str) -> Result<(), TextError> {
        // A number that is not decimal is read as hexadecimal.
        let value = words.peek().split('/').next().unwrap_or_default();
        let base = if super::super::c_number(value, 10).is_some() { 10 } else { 16 };
        self.masked(words, key, (base, 16), 0xff)
    }

    /// `80`, `1000-2000` or `256/0xff00`; both numbers of the last may be octal or hexadecimal.
    fn port(&mut self, words: &mut Tokens<'_>, key: &'static str) -> Result<(), TextError> {
        let header = self.protocol.and_then(|it| transport(it.into()));
        let word = words.next();
        if self.protocol == Some(132) {
            return Err(words.not_supported("ports of SCTP"));
        }
        if !matches!(header, Some(Item::Tcp | Item::Udp)) {
            return Err(words.unfit(format!("{key} needs `ip_proto tcp` or `udp` before it")));
        }
        let port = |text: &str, base| words.c_number_of(text, base, key, u16::MAX.into());
        let range = match key {
            "src_port" => "src_ports",
            _ => "dst_ports",
        };
        match (word.split_once('-'), word.split_once('/')) {
            (Some((first, last)), _) => {
                let (first, last) = (port(first, 10)?, port(last, 10)?);
                match first < last && first > 0 {
                    true => self.keys.insert(range, (first << 16 | last, u32::MAX.into())),
                    false => return Err(words.unfit(format!("{key}: a range is upwards, from 1"))),
                };
            }
            (None, Some((value, mask))) => self.set(key, port(value, 0)?, port(mask, 0)?),
            (None, None) => match port(word, 10)? {
                0 => return Err(words.unfit(format!("tc takes no {key} 0: write `0/0xffff`"))),
                value => self.set(key, value, 0xffff),
            },
        }
        Ok(())
    }

    /// A value and, after a slash, a mask, each in its base.
    fn masked(
        &mut self,
        words: &mut Tokens<'_>,
        key: &'static str,
        (base, mask_base): (u32, u32),
        max: u128,
    ) -> Result<(), TextError> {
        let word = words.next();
        let (value, mask) = word.split_once('/').map_or((word, None), |(v, m)| (v, Some(m)));
        let value = words.c_number_of(value, base, key, max)?;
        let mask = mask.map_or(Ok(max), |mask| words.c_number_of(mask, mask_base, key, max))?;
        self.set(key, value, mask);
        Ok(())
    }

    /// Matches bits of a key; a mask without bits has no effect.
    fn set(&mut self, key: &'static str, value: u128, mask: u128) {
        if mask != 0 {
            self.keys.insert(key, (value & mask, mask));
        }
    }

    /// The rule, when all words were read.
    pub(super) fn finish(mut self, words: &Tokens<'_>) -> Result<Rule, TextError> {
        let at = |key: &str| self.places.get(key).copied().unwrap_or(words.at);
        for key in ["ip_tos", "ip_ttl", "ip_flags"] {
            if self.keys.contains_key(key) && self.ip().is_none() {
                let reason = "neither IPv4 nor IPv6: say `protocol ip` or `ipv6`";
                return Err(words.unfit_at(at(key), reason));
            }
        }
        if self.keys.contains_key("tcp_flags") && self.protocol != Some(TCP) {
            let reason = "tcp_flags needs `ip_proto tcp`: without it the kernel passes over them";
            return Err(words.unfit_at(at("tcp_flags"), reason));
        }
        let is_address = |key: &&str| matches!(*key, "src_ip" | "dst_ip");
        if let Some((key, at)) = self.places.iter().find(|(key, _)| is_address(key))
            && !self.keys.keys().any(is_address)
        {
            let reason =
                format!("{key} of which no bit counts: flower matches nothing; leave it out");
            return Err(words.unfit_at(*at, &reason));
        }
        let action = match self.action.take() {
            Some(action) => action,
            None => return Err(words.unfit("no action: add `action drop`, or another")),
        };
        let mut items = Items::default();
        self.link(&mut items);
        if let Some(ip) = self.ip() {
            self.network(words, &mut items, ip)?;
            self.transport(words, &mut items, ip)?;
        }
        if items.0.is_empty() {
            items.item(Item::Eth, 0);
        }
        Ok(Rule { items, action, keys: self.keys, aside: self.aside })
    }

    /// Ethernet and its tags.
    fn link(&self, items: &mut Items) {
        for (key, field) in [("dst_mac", "dst"), ("src_mac", "src")] {
            self.copy(items, key, (Item::Eth, 0), field);
        }
        for (at, &found) in self.types.iter().enumerate() {
            match at {
                0 => items.is(Item::Eth, "type", found.into()),
                _ => items.set_at((Item::Vlan, at - 1), "inner_type", found.into(), 0xffff),
            }
            if TAG_TYPES.contains(&found) {
                items.item(Item::Vlan, at);
            }
        }
        for (key, place, field) in [
            ("vlan_id", 0, "vid"),
            ("vlan_prio", 0, "pcp"),
            ("cvlan_id", 1, "vid"),
            ("cvlan_prio", 1, "pcp"),
        ] {
            self.copy(items, key, (Item::Vlan, place), field);
        }
    }

    /// The fragments that the filter matches, if it limits them. A filter only for zeros of a
    /// transport header would match all fragments.
    fn fragments(&self, words: &Tokens<'_>) -> Result<Option<Fragments>, TextError> {
        let named = match self.keys.get("ip_flags") {
            None => None,
            Some((0, mask)) if mask & IS_FRAGMENT != 0 => Some(Fragments::None),
            Some((IS_FRAGMENT, IS_FRAGMENT)) => Some(Fragments::All),
            Some((value, _)) if value & FIRST_FRAGMENT != 0 => Some(Fragments::First),
            Some(_) => Some(Fragments::Other),
        };
        let mut asked = TRANSPORT_KEYS.iter().filter_map(|key| Some((key, self.keys.get(key)?)));
        let Some((first, _)) = asked.clone().next() else { return Ok(named) };
        let key = match *first {
            "src_ports" => "src_port",
            "dst_ports" => "dst_port",
            key => key,
        };
        let at = self.places.get(key).copied().unwrap_or(words.at);
        match named {
            Some(Fragments::None) => Ok(named),
            None if asked.any(|(_, (value, _))| *value != 0) => Ok(Some(Fragments::None)),
            None => {
                let reason = format!(
                    "{key} is to be 0, which flower finds in all fragments too: add `ip_flags \
                     nofrag`"
                );
                Err(words.unfit_at(at, &reason))
            }
            Some(_) => {
                let reason = format!(
                    "{key} with these ip_flags: flower reads no transport header of fragments; \
                     leave it out, or use `nofrag`"
                );
                Err(words.unfit_at(at, &reason))
            }
        }
    }

    fn network(&self, words: &Tokens<'_>, items: &mut Items, ip: Item) -> Result<(), TextError> {
        let is_v4 = ip == Item::Ipv4;
        let [tos, ttl] = if is_v4 { ["tos", "ttl"] } else { ["tc", "hop"] };
        for (key, field) in [("ip_tos", tos), ("ip_ttl", ttl), ("src_ip", "src"), ("dst_ip", "dst")]
        {
            self.copy(items, key, (ip, 0), field);
        }
        match (self.fragments(words)?, is_v4) {
            (None, _) => {}
            (Some(Fragments::None), true) => items.set(ip, "fragment_offset", 0, FRAGMENT),
            (Some(Fragments::None), false) => items.is(ip, "has_frag_ext", 0),
            (Some(Fragments::All), false) => items.is(ip, "has_frag_ext", 1),
            (Some(Fragments::First), true) => {
                items.set(ip, "fragment_offset", MORE_FRAGMENTS, FRAGMENT);
            }
            (Some(_), _) => {
                let what = if is_v4 { "`nofrag` or `firstfrag`" } else { "`nofrag` or `frag`" };
                let reason = format!("ip_flags: no one rule matches these; {what} can be matched");
                let at = self.places.get("ip_flags").copied().unwrap_or(words.at);
                return Err(words.unfit_at(at, &reason));
            }
        }
        Ok(())
    }

    /// The transport header. If no field of it is named, the rule matches the protocol in the IP
    /// header, which fragments have too.
    fn transport(
        &mut self,
        words: &Tokens<'_>,
        items: &mut Items,
        ip: Item,
    ) -> Result<(), TextError> {
        let Some(protocol) = self.protocol else { return Ok(()) };
        if self.keys.get("tcp_flags").is_some_and(|(_, mask)| mask >> 8 != 0) {
            return self.wide_flags(words, items, ip);
        }
        if let Some(header) = transport(protocol.into()) {
            for (key, field) in [
                ("src_port", "src"),
                ("dst_port", "dst"),
                ("tcp_flags", "flags"),
                ("type", "type"),
                ("code", "code"),
            ] {
                self.copy(items, key, (header, 0), field);
            }
            for (key, field) in [("src_ports", "src"), ("dst_ports", "dst")] {
                if let Some((ports, _)) = self.keys.get(key) {
                    items.range(header, field, (ports >> 16) as u16, *ports as u16);
                }
            }
            if items.0.iter().any(|item| item.item == header) {
                return Ok(());
            }
        }
        items.is(ip, "proto", protocol.into());
        Ok(())
    }

    /// TCP flags with more bits than the item `tcp` has: they are matched as bytes after the IP
    /// header, and so are the ports before them.
    fn wide_flags(
        &mut self,
        words: &Tokens<'_>,
        items: &mut Items,
        ip: Item,
    ) -> Result<(), TextError> {
        let has_range = ["src_ports", "dst_ports"].iter().any(|key| self.keys.contains_key(key));
        if ip == Item::Ipv6 || has_range {
            let at = self.places.get("tcp_flags").copied().unwrap_or(words.at);
            let reason = "tcp_flags without a mask are 12 bits, of which `tcp flags` has 8: give a \
                          mask, such as `2/ff`";
            return Err(words.unfit_at(at, reason));
        }
        items.is(ip, "proto", TCP.into());
        let mut raw = ItemMatch::any(Item::Raw);
        raw.spec[RAW_LEN] = TCP_LEN as u8;
        for (key, at) in [("src_port", 0), ("dst_port", 2), ("tcp_flags", TCP_FLAGS_AT)] {
            let (value, mask) = self.keys.get(key).copied().unwrap_or_default();
            raw.spec[RAW_BYTES + at..][..2].copy_from_slice(&(value as u16).to_be_bytes());
            raw.mask[RAW_BYTES + at..][..2].copy_from_slice(&(mask as u16).to_be_bytes());
        }
        if let Some(relative) = Item::Raw.field("relative") {
            relative.put(&mut raw.spec, 1);
            relative.put(&mut raw.mask, 1);
        }
        items.0.push(raw);
        self.aside.push(
            "12 bits of tcp_flags count, of which `tcp flags` has 8: they are matched as bytes"
                .to_owned(),
        );
        Ok(())
    }

    /// Matches a key's value and mask in a field.
    fn copy(&self, items: &mut Items, key: &str, place: (Item, usize), field: &str) {
        if let Some((value, mask)) = self.keys.get(key) {
            items.set_at(place, field, *value, *mask);
        }
    }
}

/// The length of a mask of leading ones (`mask2bits` in iproute2's `lib/utils.c`), which tc accepts
/// for IPv6 too.
fn prefix_len(mask: u32) -> Option<u32> {
    (mask.leading_ones() == mask.count_ones()).then_some(mask.count_ones())
}

/// An IPv4 address of one to four numbers, each decimal, octal or hexadecimal; missing numbers at
/// the end are 0 (`get_addr_ipv4` in iproute2's `lib/utils.c`).
fn ipv4(text: &str) -> Option<u32> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        match parts.next() {
            Some(part) => *octet = u8::try_from(super::super::c_number(part, 0)?).ok()?,
            None => break,
        }
    }
    parts.next().is_none().then_some(u32::from_be_bytes(octets))
}
