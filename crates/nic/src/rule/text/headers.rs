//! Headers that a text sets before actions use them: `set vxlan`, `set raw_encap` and the like.
//!
//! testpmd saves them outside of rules, one tunnel of each kind and eight raw ones, and an action
//! uses those that were set last. Where testpmd leaves the choice to the card: TTL and hop limit
//! are 64 unless `-tos-ttl` sets them, identification and flow label are 0.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::words::{Words, mac};
use super::{known, one_of};
use crate::limits::ENCAP_LEN_MAX;
use crate::rule::Action;
use crate::rule::item::{Field, FieldKind, IMAGE_LEN, Item, ItemMatch};
use crate::text::{Problem, TextError};

/// Number of raw headers to put in front, and number of raw headers to remove.
const RAW_COUNT: usize = 8;
/// TTL, or hop limit, of a tunnel.
const TTL: u8 = 64;

/// Headers to save, as they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers<'a> {
    /// `raw_decap`: as many bytes are removed.
    RawDecap {
        /// Which, 0 to 7.
        index: u8,
        /// The headers.
        items: &'a [ItemMatch],
    },
    /// `raw_encap`: they are put in front.
    RawEncap {
        /// Which, 0 to 7.
        index: u8,
        /// The headers.
        items: &'a [ItemMatch],
    },
    /// Those of a tunnel.
    Tunnel(Outer),
}

/// The outer headers of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// The tunnel.
    pub inside: Inside,
    /// Addresses of IP.
    pub addresses: Addresses,
    /// TCI of a VLAN tag, if there is one.
    pub vlan_tci: Option<u16>,
    /// Type of service (or traffic class) and TTL (or hop limit), where they were given.
    pub tos_ttl: Option<(u8, u8)>,
    /// Source address of Ethernet.
    pub eth_src: [u8; 6],
    /// Destination address of Ethernet.
    pub eth_dst: [u8; 6],
}

/// The headers after the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// NVGRE (RFC 7637).
    Nvgre {
        /// Network, 24 bits.
        tni: u32,
    },
    /// VXLAN (RFC 7348) over UDP without a checksum.
    Vxlan {
        /// Network, 24 bits.
        vni: u32,
        /// Source port.
        udp_src: u16,
        /// Destination port.
        udp_dst: u16,
    },
}

/// Source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "source and destination")]
pub enum Addresses {
    /// IPv4.
    V4 { src: Ipv4Addr, dst: Ipv4Addr },
    /// IPv6.
    V6 { src: Ipv6Addr, dst: Ipv6Addr },
}

impl Outer {
    /// The headers; lengths and the checksum are 0, because they depend on the packet.
    pub fn bytes(&self) -> Box<[u8]> {
        let mut bytes = [self.eth_dst, self.eth_src].concat();
        if let Some(tci) = self.vlan_tci {
            bytes.extend([0x81, 0x00]);
            bytes.extend(tci.to_be_bytes());
        }
        let (tos, ttl) = self.tos_ttl.unwrap_or((0, TTL));
        let protocol = match self.inside {
            Inside::Nvgre { .. } => 47,
            Inside::Vxlan { .. } => 17,
        };
        match self.addresses {
            Addresses::V4 { src, dst } => {
                bytes.extend([0x08, 0x00, 0x45, tos, 0, 0, 0, 0, 0, 0, ttl, protocol, 0, 0]);
                bytes.extend([src.octets(), dst.octets()].concat());
            }
            Addresses::V6 { src, dst } => {
                bytes.extend([0x86, 0xdd, 0x60 | tos >> 4, tos << 4, 0, 0, 0, 0, protocol, ttl]);
                bytes.extend([src.octets(), dst.octets()].concat());
            }
        }
        match self.inside {
            Inside::Nvgre { tni } => {
                bytes.extend([0x20, 0x00, 0x65, 0x58]);
                bytes.extend((tni << 8).to_be_bytes());
            }
            Inside::Vxlan { vni, udp_src, udp_dst } => {
                bytes.extend([udp_src.to_be_bytes(), udp_dst.to_be_bytes()].concat());
                bytes.extend([0, 0, 0, 0, 0x08, 0, 0, 0]);
                bytes.extend((vni << 8).to_be_bytes());
            }
        }
        bytes.into()
    }
}

/// The bytes of headers. A field that announces the next header is filled in if it is 0, as in
/// testpmd. A header without values has its item's default mask.
fn raw_bytes(items: &[ItemMatch]) -> Vec<u8> {
    let (mut bytes, mut behind) = (Vec::new(), 0);
    for item in items.iter().rev() {
        let says_nothing = item.spec == [0; IMAGE_LEN] && item.mask == [0; IMAGE_LEN];
        let mut image = if says_nothing { item.item.default_mask() } else { item.spec };
        let mut fill = |name: &str, value: u16| {
            let field = item.item.field(name).filter(|field| field.value(&image) == 0);
            field.into_iter().for_each(|field| field.put(&mut image, value.into()));
        };
        match item.item {
            Item::Eth => fill("type", behind),
            Item::Vlan => fill("inner_type", behind),
            Item::Ipv4 => {
                fill("version_ihl", 0x45);
                fill("proto", behind);
            }
            Item::Ipv6 => {
                fill("proto", behind);
                image[0] = 0x60 | image[0] & 0x0f;
            }
            // The flag of a network identifier.
            Item::Vxlan => image[0] = 0x08,
            _ => {}
        }
        behind = match item.item {
            Item::Vlan => 0x8100,
            Item::Ipv4 => 0x0800,
            Item::Ipv6 => 0x86dd,
            Item::Tcp => 6,
            Item::Udp => 17,
            Item::Gre => 47,
            _ => 0,
        };
        bytes.splice(..0, image[..item.item.header_len()].iter().copied());
    }
    bytes
}

/// The headers that were set.
#[derive(Clone, Debug, Default)]
pub(crate) struct SavedHeaders {
    nvgre: Option<Box<[u8]>>,
    vxlan: Option<Box<[u8]>>,
    encaps: [Option<Box<[u8]>>; RAW_COUNT],
    decaps: [Option<u16>; RAW_COUNT],
}

impl SavedHeaders {
    /// Saves headers with a valid index.
    pub(super) fn keep(&mut self, headers: &Headers<'_>) {
        match *headers {
            Headers::RawDecap { index, items } => {
                self.decaps[usize::from(index)] = Some(raw_bytes(items).len() as u16);
            }
            Headers::RawEncap { index, items } => {
                self.encaps[usize::from(index)] = Some(raw_bytes(items).into());
            }
            Headers::Tunnel(outer) => {
                let place = match outer.inside {
                    Inside::Nvgre { .. } => &mut self.nvgre,
                    Inside::Vxlan { .. } => &mut self.vxlan,
                };
                *place = Some(outer.bytes());
            }
        }
    }

    /// Reads the rest of an action that needs headers, up to the `/`; `None` if this word is no
    /// such action.
    pub(super) fn action(
        &self,
        words: &mut Words<'_>,
        word: &str,
    ) -> Result<Option<Action>, TextError> {
        let place = words.place();
        let action = match word {
            "nvgre_encap" => self.nvgre.clone().map(Action::NvgreEncap),
            "raw_decap" => self.decaps[index(words)?].map(Action::RawDecap),
            "raw_encap" => self.encaps[index(words)?].clone().map(Action::RawEncap),
            "vxlan_encap" => self.vxlan.clone().map(Action::VxlanEncap),
            _ => return Ok(None),
        };
        let name = word.strip_suffix("_encap").filter(|name| *name != "raw").unwrap_or(word);
        let unset = || {
            let reason = format!("no headers were set: put a line `set {name} …` before");
            TextError::new(words.line, words.text, place, Problem::Unfit { reason })
        };
        let action = action.ok_or_else(unset)?;
        if word.starts_with("raw") {
            return Ok(Some(action));
        }
        words.keyword("/").map(|()| Some(action))
    }
}

fn unfit(words: &Words<'_>, reason: String) -> TextError {
    words.error(Problem::Unfit { reason })
}

/// The index of raw headers, up to the `/`; 0 if none is given.
fn index(words: &mut Words<'_>) -> Result<usize, TextError> {
    let mut index = 0;
    loop {
        match words.next() {
            "/" => return Ok(index),
            "index" => index = words.number("index", RAW_COUNT as u128 - 1)? as usize,
            _ => return Err(words.unended(&["index"], "`index` or `/`".into())),
        }
    }
}

/// The words that may follow `set`.
pub(super) const NAMES: &[&str] = &[
    "nvgre",
    "nvgre-with-vlan",
    "raw_decap",
    "raw_encap",
    "vxlan",
    "vxlan-tos-ttl",
    "vxlan-with-vlan",
];

/// A line that begins with `set`.
pub(super) enum Begun {
    /// Raw headers of this index, to put in front or to remove; items follow, and the first word of
    /// them may have been read.
    Raw { encap: bool, index: u8, first: Option<String> },
    /// Headers of a tunnel, read to their end.
    Tunnel(Outer),
}

/// Reads the words after `set`, up to the items.
pub(super) fn begin(words: &mut Words<'_>) -> Result<Begun, TextError> {
    match words.next() {
        "nvgre" => outer(words, "tni", false, false),
        "nvgre-with-vlan" => outer(words, "tni", true, false),
        "vxlan" => outer(words, "vni", false, false),
        "vxlan-tos-ttl" => outer(words, "vni", false, true),
        "vxlan-with-vlan" => outer(words, "vni", true, false),
        word @ ("raw_decap" | "raw_encap") => {
            let (encap, first) = (word == "raw_encap", words.next());
            match first.bytes().next().is_some_and(|byte| byte.is_ascii_digit()) {
                true => {
                    let index = words.number_of(first, "index", RAW_COUNT as u128 - 1)? as u8;
                    Ok(Begun::Raw { encap, index, first: None })
                }
                false => Ok(Begun::Raw { encap, index: 0, first: Some(first.to_owned()) }),
            }
        }
        word => match known::refusal(known::SETS, word) {
            Some(refusal) => Err(words.not_supported(format!("set {refusal}"))),
            None => Err(words.unknown(NAMES, one_of(NAMES))),
        },
    }
}

/// Checks raw headers, once the last of them was read.
pub(super) fn check_raw(words: &Words<'_>, items: &[ItemMatch]) -> Result<(), TextError> {
    let is_odd = |item: &&ItemMatch| {
        !matches!(
            item.item,
            Item::Eth
                | Item::Vlan
                | Item::Ipv4
                | Item::Ipv6
                | Item::Tcp
                | Item::Udp
                | Item::Gre
                | Item::GreKey
                | Item::Vxlan
                | Item::Geneve
                | Item::Mpls
        )
    };
    if let Some(item) = items.iter().find(is_odd) {
        return Err(words.not_supported(format!("{} among raw headers", item.item.name())));
    }
    match raw_bytes(items).len() {
        1..=ENCAP_LEN_MAX => Ok(()),
        len => Err(unfit(words, format!("headers of {len} bytes: they have 1 to {ENCAP_LEN_MAX}"))),
    }
}

/// All parameters of a tunnel, in testpmd's order.
fn outer(
    words: &mut Words<'_>,
    network: &'static str,
    with_vlan: bool,
    with_tos_ttl: bool,
) -> Result<Begun, TextError> {
    words.keyword("ip-version")?;
    let is_v4 = match words.next() {
        "ipv4" => true,
        "ipv6" => false,
        _ => return Err(words.expected("`ipv4` or `ipv6`")),
    };
    let id = parameter(words, network, 0xff_ffff)? as u32;
    let inside = match network {
        "tni" => Inside::Nvgre { tni: id },
        _ => Inside::Vxlan {
            vni: id,
            udp_src: parameter(words, "udp-src", u16::MAX.into())? as u16,
            udp_dst: parameter(words, "udp-dst", u16::MAX.into())? as u16,
        },
    };
    let tos_ttl = match with_tos_ttl {
        true => {
            let tos = parameter(words, "ip-tos", u8::MAX.into())? as u8;
            Some((tos, parameter(words, "ip-ttl", u8::MAX.into())? as u8))
        }
        false => None,
    };
    let (kind, bits) = if is_v4 { (FieldKind::Ipv4, 32) } else { (FieldKind::Ipv6, 128) };
    let mut address = |name| {
        words.keyword(name)?;
        words.value(&Field { name, kind, bit_offset: 0, bits })
    };
    let (src, dst) = (address("ip-src")?, address("ip-dst")?);
    let addresses = match is_v4 {
        true => Addresses::V4 {
            src: Ipv4Addr::from_bits(src as u32),
            dst: Ipv4Addr::from_bits(dst as u32),
        },
        false => Addresses::V6 { src: Ipv6Addr::from_bits(src), dst: Ipv6Addr::from_bits(dst) },
    };
    let vlan_tci = match with_vlan {
        true => Some(parameter(words, "vlan-tci", u16::MAX.into())? as u16),
        false => None,
    };
    let mut address = |name: &'static str| {
        words.keyword(name)?;
        let bits = mac(words.next())
            .ok_or_else(|| words.expected("a MAC address, such as 02:00:00:00:00:01"))?;
        let [.., a, b, c, d, e, g] = bits.to_be_bytes();
        Ok([a, b, c, d, e, g])
    };
    let (eth_src, eth_dst) = (address("eth-src")?, address("eth-dst")?);
    words.end()?;
    Ok(Begun::Tunnel(Outer { inside, addresses, vlan_tci, tos_ttl, eth_src, eth_dst }))
}

fn parameter(words: &mut Words<'_>, name: &'static str, max: u128) -> Result<u128, TextError> {
    words.keyword(name)?;
    words.number(name, max)
}

impl fmt::Display for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, index, items) = match *self {
            Headers::RawDecap { index, items } => ("raw_decap", index, items),
            Headers::RawEncap { index, items } => ("raw_encap", index, items),
            Headers::Tunnel(outer) => return outer.fmt(f),
        };
        write!(f, "set {name} {index} ")?;
        items.iter().try_for_each(|item| write!(f, "{item} / "))?;
        f.write_str("end_set")
    }
}

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mac = |address: &[u8; 6]| address.map(|byte| format!("{byte:02x}")).join(":");
        let tunnel = if matches!(self.inside, Inside::Nvgre { .. }) { "nvgre" } else { "vxlan" };
        let more = match (self.vlan_tci, self.tos_ttl) {
            (Some(_), _) => "-with-vlan",
            (None, Some(_)) => "-tos-ttl",
            (None, None) => "",
        };
        let version = if matches!(self.addresses, Addresses::V4 { .. }) { 4 } else { 6 };
        write!(f, "set {tunnel}{more} ip-version ipv{version}")?;
        match self.inside {
            Inside::Nvgre { tni } => write!(f, " tni {tni}")?,
            Inside::Vxlan { vni, udp_src, udp_dst } => {
                write!(f, " vni {vni} udp-src {udp_src} udp-dst {udp_dst}")?;
            }
        }
        if let Some((tos, ttl)) = self.tos_ttl {
            write!(f, " ip-tos {tos} ip-ttl {ttl}")?;
        }
        match self.addresses {
            Addresses::V4 { src, dst } => write!(f, " ip-src {src} ip-dst {dst}")?,
            Addresses::V6 { src, dst } => write!(f, " ip-src {src} ip-dst {dst}")?,
        }
        if let Some(tci) = self.vlan_tci {
            write!(f, " vlan-tci {tci}")?;
        }
        write!(f, " eth-src {} eth-dst {}", mac(&self.eth_src), mac(&self.eth_dst))
    }
}
