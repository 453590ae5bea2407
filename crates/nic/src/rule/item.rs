//! Items of a pattern: mostly one header each, with spec, last and mask as in `rte_flow`.
//!
//! A header is stored as its bytes on the wire, so that an item needs no type of its own and a
//! field is a run of bits. Names of items and fields are those of testpmd of DPDK 22.11
//! (`app/test-pmd/cmdline_flow.c`); default masks are those of its `rte_flow.h`.

use std::fmt;

/// A header that a pattern may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    /// Ethernet.
    Eth,
    /// A VLAN tag (802.1Q, 802.1ad).
    Vlan,
    /// IPv4 without its options.
    Ipv4,
    /// IPv6 without its extension headers.
    Ipv6,
    /// ICMP.
    Icmp,
    /// ICMPv6.
    Icmp6,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP, its common header.
    Sctp,
    /// ESP: SPI and sequence number.
    Esp,
    /// The authentication header, without its check value.
    Ah,
    /// ARP for Ethernet and IPv4.
    ArpEthIpv4,
    /// The fragment header of IPv6.
    Ipv6FragExt,
    /// PPPoE in its discovery stage.
    Pppoed,
    /// PPPoE in its session stage.
    Pppoes,
    /// GRE, its first four bytes.
    Gre,
    /// The key after a GRE header.
    GreKey,
    /// GRE as NVGRE has it, with its key: network and flow.
    Nvgre,
    /// VXLAN.
    Vxlan,
    /// VXLAN-GPE.
    VxlanGpe,
    /// GTP of version 1, on the port of GTP-U or GTP-C.
    Gtp,
    /// GTP-C of version 1.
    Gtpc,
    /// GTP-U.
    Gtpu,
    /// The PDU session container, an extension header of GTP-U.
    GtpPsc,
    /// GENEVE without its options.
    Geneve,
    /// One MPLS label.
    Mpls,
    /// Metadata that rules set on a packet. No header.
    Meta,
    /// A tag that rules set on a packet. No header.
    Tag,
    /// Bytes at an offset from the start of the frame, or from the end of the item before. No
    /// header.
    Raw,
}

/// Length of an [`Image`]: the longest header is IPv6 with 40 bytes, and one byte of flags follows
/// it.
pub const IMAGE_LEN: usize = 48;

/// The most bytes of one `raw` item.
pub const RAW_LEN_MAX: usize = IMAGE_LEN - RAW_BYTES;

/// Where an [`Image`] of `raw` has the number of its bytes, and the bytes.
pub(crate) const RAW_LEN: usize = RAW_BYTES - 1;
pub(crate) const RAW_BYTES: usize = 8;

/// A header as it is on the wire, from its first byte, and then zeros. A flag that is not a byte of
/// the header (`eth has_vlan`, `vlan has_more_vlan`, `ipv6 has_frag_ext`) is bit 0 of the byte
/// right after the header.
pub type Image = [u8; IMAGE_LEN];

/// How a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// `10.0.0.1`, or a number.
    Ipv4,
    /// `2001:db8::1`.
    Ipv6,
    /// `02:00:00:00:00:01`.
    Mac,
    /// Decimal, or hexadecimal with `0x`.
    Number,
    /// `0` or `1`, or testpmd's words for no and yes: `false`, `true`, `off`, `on` and others.
    Boolean,
    /// A number that testpmd only accepts after `is`.
    Index,
    /// A signed number, written as the unsigned 32-bit number with the same bits.
    Signed,
}

/// A field of a header: a run of bits in an [`Image`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Its name in testpmd.
    pub name: &'static str,
    /// How its values are written.
    pub kind: FieldKind,
    /// First bit, counted from the most significant bit of the first byte.
    pub bit_offset: usize,
    /// Length, 1 to 128 bits.
    pub bits: usize,
}

/// One item of a pattern: `rte_flow`'s spec, last and mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ItemMatch {
    /// The header.
    pub item: Item,
    /// Its values; bits outside the mask do not count.
    pub spec: Image,
    /// The greatest values, if given: a range from `spec` to here. A field of zeros has no range.
    /// [`ItemMatch::has_range`] says which fields have one.
    pub last: Option<Image>,
    /// Which bits count.
    pub mask: Image,
}

impl ItemMatch {
    /// Every header of this kind.
    pub fn any(item: Item) -> ItemMatch {
        ItemMatch { item, spec: [0; IMAGE_LEN], last: None, mask: [0; IMAGE_LEN] }
    }

    /// Whether a field has a range of more than one value. A field that consists of other fields
    /// has none; its parts have.
    pub fn has_range(&self, field: &Field) -> bool {
        let Some(last) = self.last.as_ref().filter(|_| !self.item.has_parts(field)) else {
            return false;
        };
        let mask = field.value(&self.mask);
        let last = field.value(last) & mask;
        last != 0 && last != field.value(&self.spec) & mask
    }
}

impl Field {
    /// All bits of the field, which is also its greatest value.
    pub const fn ones(&self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }

    /// The value of the field.
    pub fn value(&self, image: &Image) -> u128 {
        let end = self.bit_offset + self.bits;
        let bytes = &image[self.bit_offset / 8..end.div_ceil(8)];
        // At most 16 bytes: a field of 128 bits starts at a byte.
        let value = bytes.iter().fold(0, |value: u128, &byte| value << 8 | u128::from(byte));
        value >> (end.div_ceil(8) * 8 - end) & self.ones()
    }

    /// Sets the field to a value; bits that do not fit are dropped.
    pub fn put(&self, image: &mut Image, value: u128) {
        let end = self.bit_offset + self.bits;
        let shift = end.div_ceil(8) * 8 - end;
        let mut ones = self.ones() << shift;
        let mut value = value << shift & ones;
        for byte in image[self.bit_offset / 8..end.div_ceil(8)].iter_mut().rev() {
            *byte = *byte & !(ones as u8) | value as u8;
            (value, ones) = (value >> 8, ones >> 8);
        }
    }

    /// Whether all its bits are set.
    fn is_full(&self, image: &Image) -> bool {
        self.value(image) == self.ones()
    }

    /// Whether it shares bits with another field.
    pub(crate) fn overlaps(&self, other: &Field) -> bool {
        self.bit_offset < other.bit_offset + other.bits
            && other.bit_offset < self.bit_offset + self.bits
    }
}

const fn field(name: &'static str, kind: FieldKind, bit_offset: usize, bits: usize) -> Field {
    Field { name, kind, bit_offset, bits }
}

const fn number(name: &'static str, bit_offset: usize, bits: usize) -> Field {
    field(name, FieldKind::Number, bit_offset, bits)
}

const fn boolean(name: &'static str, bit_offset: usize) -> Field {
    field(name, FieldKind::Boolean, bit_offset, 1)
}

/// Bit 0 of the byte after a header.
const fn flag(name: &'static str, header_len: usize) -> Field {
    number(name, header_len * 8 + 7, 1)
}

const ETH: &[Field] = &[
    field("dst", FieldKind::Mac, 0, 48),
    field("src", FieldKind::Mac, 48, 48),
    number("type", 96, 16),
    flag("has_vlan", 14),
];
const VLAN: &[Field] = &[
    number("tci", 0, 16),
    number("pcp", 0, 3),
    number("dei", 3, 1),
    number("vid", 4, 12),
    number("inner_type", 16, 16),
    flag("has_more_vlan", 4),
];
const IPV4: &[Field] = &[
    number("version_ihl", 0, 8),
    number("tos", 8, 8),
    number("packet_id", 32, 16),
    number("fragment_offset", 48, 16),
    number("ttl", 64, 8),
    number("proto", 72, 8),
    field("src", FieldKind::Ipv4, 96, 32),
    field("dst", FieldKind::Ipv4, 128, 32),
];
const IPV6: &[Field] = &[
    number("tc", 4, 8),
    number("flow", 12, 20),
    number("proto", 48, 8),
    number("hop", 56, 8),
    field("src", FieldKind::Ipv6, 64, 128),
    field("dst", FieldKind::Ipv6, 192, 128),
    flag("has_frag_ext", 40),
];
const ICMP: &[Field] =
    &[number("type", 0, 8), number("code", 8, 8), number("ident", 32, 16), number("seq", 48, 16)];
const ICMP6: &[Field] = &[number("type", 0, 8), number("code", 8, 8)];
const TCP: &[Field] = &[number("src", 0, 16), number("dst", 16, 16), number("flags", 104, 8)];
const UDP: &[Field] = &[number("src", 0, 16), number("dst", 16, 16)];
const SCTP: &[Field] =
    &[number("src", 0, 16), number("dst", 16, 16), number("tag", 32, 32), number("cksum", 64, 32)];
const ESP: &[Field] = &[number("spi", 0, 32)];
const AH: &[Field] = &[number("spi", 32, 32)];
const ARP_ETH_IPV4: &[Field] = &[
    field("sha", FieldKind::Mac, 64, 48),
    field("spa", FieldKind::Ipv4, 112, 32),
    field("tha", FieldKind::Mac, 144, 48),
    field("tpa", FieldKind::Ipv4, 192, 32),
];
const IPV6_FRAG_EXT: &[Field] =
    &[number("next_hdr", 0, 8), number("frag_data", 16, 16), number("packet_id", 32, 32)];
const PPPOE: &[Field] = &[number("seid", 16, 16)];
const NVGRE: &[Field] = &[number("tni", 32, 24)];
const VXLAN_GPE: &[Field] = &[number("vni", 32, 24)];
const GTP: &[Field] =
    &[number("v_pt_rsv_flags", 0, 8), number("msg_type", 8, 8), number("teid", 32, 32)];
const GTP_PSC: &[Field] = &[number("qfi", 18, 6), number("pdu_t", 8, 4)];
const GRE: &[Field] = &[
    number("protocol", 16, 16),
    number("c_rsvd0_ver", 0, 16),
    boolean("c_bit", 0),
    boolean("k_bit", 2),
    boolean("s_bit", 3),
];
const GRE_KEY: &[Field] = &[number("value", 0, 32)];
const VXLAN: &[Field] = &[number("vni", 32, 24), number("last_rsvd", 56, 8)];
const GENEVE: &[Field] =
    &[number("vni", 32, 24), number("protocol", 16, 16), number("optlen", 2, 6)];
const META: &[Field] = &[number("data", 0, 32)];
const TAG: &[Field] = &[number("data", 0, 32), field("index", FieldKind::Index, 32, 8)];
const RAW: &[Field] = &[
    boolean("relative", 0),
    boolean("search", 1),
    field("offset", FieldKind::Signed, 8, 32),
    number("limit", 40, 16),
];
const MPLS: &[Field] = &[number("label", 0, 20), number("tc", 20, 3), number("s", 23, 1)];

impl Item {
    /// All of them. The C API names them by their places.
    pub const ALL: [Item; 29] = [
        Item::Eth,
        Item::Vlan,
        Item::Ipv4,
        Item::Ipv6,
        Item::Icmp,
        Item::Icmp6,
        Item::Tcp,
        Item::Udp,
        Item::Gre,
        Item::GreKey,
        Item::Vxlan,
        Item::Geneve,
        Item::Mpls,
        Item::Meta,
        Item::Tag,
        Item::Raw,
        Item::Sctp,
        Item::Esp,
        Item::Ah,
        Item::ArpEthIpv4,
        Item::Ipv6FragExt,
        Item::Pppoed,
        Item::Pppoes,
        Item::Nvgre,
        Item::VxlanGpe,
        Item::Gtp,
        Item::Gtpc,
        Item::Gtpu,
        Item::GtpPsc,
    ];

    /// Its name in testpmd.
    pub fn name(self) -> &'static str {
        match self {
            Item::Eth => "eth",
            Item::Vlan => "vlan",
            Item::Ipv4 => "ipv4",
            Item::Ipv6 => "ipv6",
            Item::Icmp => "icmp",
            Item::Icmp6 => "icmp6",
            Item::Tcp => "tcp",
            Item::Udp => "udp",
            Item::Gre => "gre",
            Item::GreKey => "gre_key",
            Item::Sctp => "sctp",
            Item::Esp => "esp",
            Item::Ah => "ah",
            Item::ArpEthIpv4 => "arp_eth_ipv4",
            Item::Ipv6FragExt => "ipv6_frag_ext",
            Item::Pppoed => "pppoed",
            Item::Pppoes => "pppoes",
            Item::Nvgre => "nvgre",
            Item::Vxlan => "vxlan",
            Item::VxlanGpe => "vxlan-gpe",
            Item::Gtp => "gtp",
            Item::Gtpc => "gtpc",
            Item::Gtpu => "gtpu",
            Item::GtpPsc => "gtp_psc",
            Item::Geneve => "geneve",
            Item::Mpls => "mpls",
            Item::Meta => "meta",
            Item::Tag => "tag",
            Item::Raw => "raw",
        }
    }

    /// The item of this name.
    pub fn from_name(name: &str) -> Option<Item> {
        Item::ALL.into_iter().find(|item| item.name() == name)
    }

    /// Whether it is a header of the frame, not bytes of the frame or data that rules set on the
    /// packet.
    pub fn is_header(self) -> bool {
        !matches!(self, Item::Meta | Item::Tag | Item::Raw)
    }

    /// Length of the header in an [`Image`].
    pub fn header_len(self) -> usize {
        match self {
            Item::Eth => 14,
            Item::Vlan | Item::Gre | Item::GreKey | Item::Icmp6 | Item::Mpls | Item::Meta => 4,
            Item::Tag => 5,
            Item::Raw => IMAGE_LEN,
            Item::Ipv4 | Item::Tcp => 20,
            Item::Ipv6 => 40,
            Item::GtpPsc => 3,
            Item::Pppoed | Item::Pppoes => 6,
            Item::Icmp | Item::Udp | Item::Vxlan | Item::Geneve => 8,
            Item::Esp | Item::Ipv6FragExt | Item::Nvgre | Item::VxlanGpe => 8,
            Item::Gtp | Item::Gtpc | Item::Gtpu => 8,
            Item::Sctp | Item::Ah => 12,
            Item::ArpEthIpv4 => 28,
        }
    }

    /// Its fields, in testpmd's order. Some are parts of others (`vlan vid` of `vlan tci`).
    pub fn fields(self) -> &'static [Field] {
        match self {
            Item::Eth => ETH,
            Item::Vlan => VLAN,
            Item::Ipv4 => IPV4,
            Item::Ipv6 => IPV6,
            Item::Icmp => ICMP,
            Item::Icmp6 => ICMP6,
            Item::Tcp => TCP,
            Item::Udp => UDP,
            Item::Gre => GRE,
            Item::GreKey => GRE_KEY,
            Item::Sctp => SCTP,
            Item::Esp => ESP,
            Item::Ah => AH,
            Item::ArpEthIpv4 => ARP_ETH_IPV4,
            Item::Ipv6FragExt => IPV6_FRAG_EXT,
            Item::Pppoed | Item::Pppoes => PPPOE,
            Item::Nvgre => NVGRE,
            Item::Vxlan => VXLAN,
            Item::VxlanGpe => VXLAN_GPE,
            Item::Gtp | Item::Gtpc | Item::Gtpu => GTP,
            Item::GtpPsc => GTP_PSC,
            Item::Geneve => GENEVE,
            Item::Mpls => MPLS,
            Item::Meta => META,
            Item::Tag => TAG,
            Item::Raw => RAW,
        }
    }

    /// Whether a field consists of other fields.
    fn has_parts(self, field: &Field) -> bool {
        let parts = self.fields().iter().filter(|part| part.bits < field.bits);
        let parts = parts.filter(|part| part.overlaps(field)).map(|part| part.bits);
        parts.sum::<usize>() == field.bits
    }

    /// The field that this one is a part of.
    pub(crate) fn whole_of(self, part: &Field) -> Option<&'static Field> {
        self.fields().iter().find(|field| field.bits > part.bits && field.overlaps(part))
    }

    /// The field of this name.
    pub fn field(self, name: &str) -> Option<&'static Field> {
        self.fields().iter().find(|field| field.name == name)
    }

    /// The mask of `rte_flow` if only a spec is given. It also covers fields that were not named:
    /// `ipv4 src spec 10.0.0.1` alone requires the destination 0.0.0.0.
    pub fn default_mask(self) -> Image {
        let names: &[&str] = match self {
            Item::Eth | Item::Ipv4 | Item::Ipv6 | Item::Tcp | Item::Udp | Item::Sctp => {
                &["src", "dst"]
            }
            Item::Vlan => &["vid"],
            Item::Icmp | Item::Icmp6 => &["type", "code"],
            Item::Gre => &["protocol"],
            Item::GreKey => &["value"],
            Item::Vxlan | Item::VxlanGpe | Item::Geneve => &["vni"],
            Item::Esp | Item::Ah => &["spi"],
            Item::ArpEthIpv4 => &["sha", "spa", "tha", "tpa"],
            // DPDK has no default mask for these.
            Item::Ipv6FragExt | Item::Pppoed | Item::Pppoes => &[],
            Item::Nvgre => &["tni"],
            Item::Gtp | Item::Gtpc | Item::Gtpu => &["teid"],
            Item::GtpPsc => &["qfi"],
            Item::Mpls => &["label"],
            Item::Meta => &["data"],
            Item::Tag => &["data", "index"],
            Item::Raw => &["relative", "search", "offset", "limit"],
        };
        let mut mask = [0; IMAGE_LEN];
        if self == Item::Raw {
            mask[RAW_BYTES..].fill(0xff);
        }
        for field in self.fields().iter().filter(|field| names.contains(&field.name)) {
            field.put(&mut mask, field.ones());
        }
        mask
    }
}

/// In testpmd's syntax, such as `ipv4 src is 10.0.0.1 ttl spec 64 ttl mask 0xf0`. Bits of no field
/// are left out.
impl fmt::Display for ItemMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.item.name())?;
        let fields = self.item.fields();
        for field in fields {
            // Either a field or its parts, whichever is shorter.
            let covered = match fields.iter().find(|o| o.name != field.name && o.overlaps(field)) {
                None => false,
                Some(whole) if whole.bits > field.bits => !self.is_said_by_parts(whole),
                Some(_) => self.is_said_by_parts(field),
            };
            if !covered {
                self.write_field(f, field)?;
            }
        }
        match self.item {
            Item::Raw => self.write_raw(f),
            _ => Ok(()),
        }
    }
}

impl ItemMatch {
    /// The bytes of a `raw` item, and their mask.
    pub fn raw_bytes(&self) -> (&[u8], &[u8]) {
        let bytes = RAW_BYTES..RAW_BYTES + usize::from(self.spec[RAW_LEN]).min(RAW_LEN_MAX);
        (&self.spec[bytes.clone()], &self.mask[bytes])
    }

    fn write_raw(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (spec, mask) = self.raw_bytes();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        match (spec, mask.iter().all(|byte| *byte == 0xff)) {
            ([], _) => Ok(()),
            (spec, true) => write!(f, " pattern_hex is {}", hex(spec)),
            (spec, false) => {
                write!(f, " pattern_hex spec {} pattern_hex mask {}", hex(spec), hex(mask))
            }
        }
    }

    /// Whether the parts of a field are enough to print it: each part is matched whole or not at
    /// all, and the field itself is not matched whole.
    fn is_said_by_parts(&self, whole: &Field) -> bool {
        if whole.is_full(&self.mask) {
            return false;
        }
        let mut rest = *self;
        for part in self.item.fields() {
            let said = part.is_full(&self.mask) || part.value(&self.mask) == 0;
            if part.bits < whole.bits && part.overlaps(whole) && said {
                part.put(&mut rest.mask, 0);
                part.put(&mut rest.spec, 0);
                rest.last.iter_mut().for_each(|last| part.put(last, 0));
            }
        }
        let last = rest.last.map_or(0, |last| whole.value(&last));
        whole.value(&rest.mask) | whole.value(&rest.spec) | last == 0
    }

    fn write_field(&self, f: &mut fmt::Formatter<'_>, field: &Field) -> fmt::Result {
        let (spec, mask) = (field.value(&self.spec), field.value(&self.mask));
        let last = self.last.map_or(0, |last| field.value(&last));
        if spec | mask | last == 0 {
            return Ok(());
        }
        let name = field.name;
        let [is, mask_text] = [spec, mask].map(|value| Written(field, value));
        let is_number = matches!(field.kind, FieldKind::Number | FieldKind::Signed);
        let prefix = prefix_len(mask, field.bits).filter(|_| !is_number);
        match (mask == field.ones() || field.kind == FieldKind::Index, prefix) {
            (true, _) => write!(f, " {name} is {is}")?,
            (_, Some(len)) => write!(f, " {name} spec {is} {name} prefix {len}")?,
            // testpmd accepts only 0 or 1 for a flag.
            (_, None) if is_number && field.bits > 1 => {
                write!(f, " {name} spec {is} {name} mask {mask:#x}")?;
            }
            (_, None) => write!(f, " {name} spec {is} {name} mask {mask_text}")?,
        }
        match last {
            0 => Ok(()),
            _ => write!(f, " {name} last {}", Written(field, last)),
        }
    }
}

/// Length of a mask of ones followed by zeros; `None` for any other mask.
fn prefix_len(mask: u128, bits: usize) -> Option<u32> {
    let aligned = mask << (128 - bits);
    let len = aligned.leading_ones();
    (len > 0 && aligned.count_ones() == len).then_some(len)
}

/// A value as its field is written.
pub(crate) struct Written<'a>(pub(crate) &'a Field, pub(crate) u128);

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Written(field, value) = *self;
        match field.kind {
            FieldKind::Ipv4 => std::net::Ipv4Addr::from_bits(value as u32).fmt(f),
            FieldKind::Ipv6 => std::net::Ipv6Addr::from_bits(value).fmt(f),
            FieldKind::Number if field.name.ends_with("type") && field.bits == 16 => {
                write!(f, "{value:#06x}")
            }
            FieldKind::Signed if value >> 31 == 1 => write!(f, "{value:#x}"),
            FieldKind::Boolean | FieldKind::Number | FieldKind::Index | FieldKind::Signed => {
                value.fmt(f)
            }
            FieldKind::Mac => {
                let [.., a, b, c, d, e, g] = value.to_be_bytes();
                write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
            }
        }
    }
}
