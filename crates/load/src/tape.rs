//! What is sent: generated flows or the records of a capture, one frame after another.

use niclab_packet::checksum::{self, fold, sum};
use niclab_packet::flow::{FiveTuple, FlowSet, IpVersion, Picker, Transport};
use niclab_packet::size::FCS_LEN;
use niclab_packet::stack::{Layer, build_with_len};
use niclab_packet::wire::{EtherType, MacAddress, ethernet, ipv4, ipv6, tcp, udp};

use crate::drive::LoadError;
use crate::spec::Load;
use crate::stamp::{STAMP_LEN, Stamp};

/// Ethernet header, bytes.
const ETHERNET_LEN: usize = 14;
/// Where the header checksum of an untagged IPv4 frame stands.
const IPV4_CHECKSUM_AT: usize = ETHERNET_LEN + 10;
/// Destination and source of generated frames: locally administered addresses (IEEE 802).
const MACS: [[u8; 6]; 2] = [[0x02, 0, 0, 0, 0, 2], [0x02, 0, 0, 0, 0, 1]];

/// An endless sequence of frames.
pub trait Tape {
    /// Writes the next frame into `slot` and returns its length, without FCS.
    fn write(&mut self, slot: &mut [u8], planned_ns: u64, late_ns: u64) -> u16;

    /// Passes over `count` frames; returns their bytes, with FCS.
    fn skip(&mut self, count: u64) -> u64;

    /// Number of flows a stamp can name.
    fn flows(&self) -> u32;
}

/// Frame sizes in their repeating order.
struct Sizes {
    /// With FCS.
    pattern: Vec<u16>,
    at: usize,
    pattern_bytes: u64,
}

impl Sizes {
    fn new(pattern: Vec<u16>) -> Sizes {
        let pattern_bytes = pattern.iter().map(|&b| u64::from(b)).sum();
        Sizes { pattern, at: 0, pattern_bytes }
    }

    #[inline]
    fn step(&mut self) -> usize {
        let at = self.at;
        self.at = if at + 1 == self.pattern.len() { 0 } else { at + 1 };
        at
    }

    fn skip(&mut self, count: u64) -> u64 {
        let whole = count / self.pattern.len() as u64;
        let rest = count % self.pattern.len() as u64;
        let mut rest_bytes = 0;
        for _ in 0..rest {
            let at = self.step();
            rest_bytes += u64::from(self.pattern[at]);
        }
        whole * self.pattern_bytes + rest_bytes
    }
}

/// Frames of seeded flows. `N` is the length of both addresses and both ports, which stand side by
/// side in a frame: 12 bytes in IPv4, 36 in IPv6.
///
/// A frame is the template of its size with the flow's addresses and ports, a stamp, and checksums
/// that were summed beforehand for template and flow: only the stamp is summed per frame.
pub struct FlowTape<const N: usize> {
    templates: Vec<Template>,
    sizes: Sizes,
    heads: Vec<Head<N>>,
    picker: Picker,
    sequences: Vec<u32>,
}

/// A flow's part of a frame.
#[repr(C)]
struct Head<const N: usize> {
    tuple: [u8; N],
    /// Partial sum of the addresses.
    address_sum: u16,
    /// Partial sum of addresses and ports.
    tuple_sum: u16,
}

/// The constant part of a frame of one size.
struct Template {
    bytes: Vec<u8>,
    /// Partial sum of the IPv4 header without addresses; unused in IPv6.
    ip_sum: u16,
    /// Partial sum of pseudo header, transport header and payload without addresses and ports.
    transport_sum: u16,
    /// Where the tuple starts.
    tuple_at: usize,
    /// Where the transport checksum stands.
    checksum_at: usize,
    /// The stamp starts at an odd distance from the transport header: its sum is turned by a byte.
    odd: bool,
    udp: bool,
}

impl Template {
    /// A frame of `size` bytes with FCS; addresses, ports, checksums and stamp are zero.
    fn new(size: u16, version: IpVersion, transport: Transport) -> Result<Template, LoadError> {
        let layers = headers(version, transport);
        let head_len: usize = layers.iter().map(Layer::buffer_len).sum();
        let size_min = (head_len + STAMP_LEN) as u16 + FCS_LEN;
        if size < size_min {
            return Err(LoadError::FrameTooSmall { size, size_min });
        }
        let mut bytes = build_with_len(&layers, size)
            .map_err(|error| LoadError::Size { size, reason: error.to_string() })?;
        let ip_len = layers[1].buffer_len();
        let transport_at = ETHERNET_LEN + ip_len;
        let udp = transport == Transport::Udp;
        let checksum_at = transport_at + if udp { 6 } else { 16 };
        // A checksum field is the complement of the sum of what it covers.
        let mut take = |at: usize| {
            let field = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            bytes[at..at + 2].fill(0);
            !field
        };
        let transport_sum = take(checksum_at);
        let v4 = version == IpVersion::V4;
        Ok(Template {
            ip_sum: if v4 { take(IPV4_CHECKSUM_AT) } else { 0 },
            transport_sum,
            tuple_at: transport_at - if v4 { 8 } else { 32 },
            checksum_at,
            odd: (bytes.len() - STAMP_LEN - transport_at) % 2 == 1,
            udp,
            bytes,
        })
    }
}

/// The headers of a generated frame, without addresses and ports.
fn headers(version: IpVersion, transport: Transport) -> [Layer; 3] {
    let [dst, src] = MACS.map(MacAddress);
    let ethernet = ethernet::Repr { dst, src, ether_type: EtherType::IPV4 };
    let protocol = transport.protocol();
    let ip = match version {
        IpVersion::V4 => Layer::Ipv4(ipv4::Repr { protocol, ..ipv4::Repr::default() }),
        IpVersion::V6 => {
            Layer::Ipv6(ipv6::Repr { next_header: protocol, ..ipv6::Repr::default() })
        }
    };
    let segment = match transport {
        Transport::Udp => Layer::Udp(udp::Repr::default()),
        Transport::Tcp => {
            Layer::Tcp(tcp::Repr { flags: tcp::Flags::ACK, window: u16::MAX, ..tcp::Repr::default() })
        }
    };
    [Layer::Ethernet(ethernet), ip, segment]
}

impl<const N: usize> FlowTape<N> {
    /// A tape of the load's flows and sizes.
    pub fn new(load: &Load, set: &FlowSet) -> Result<Self, LoadError> {
        let pattern = load.sizes.period().to_vec();
        let template = |&size: &u16| Template::new(size, load.flows.version, load.flows.proto);
        let count = load.flows.count;
        Ok(FlowTape {
            templates: pattern.iter().map(template).collect::<Result<_, _>>()?,
            sizes: Sizes::new(pattern),
            heads: (0..count).map(|flow| Head::new(&set.tuple(flow))).collect(),
            picker: set.picker(load.seed),
            sequences: vec![0; count as usize],
        })
    }
}

impl<const N: usize> Head<N> {
    fn new(tuple: &FiveTuple) -> Head<N> {
        let mut bytes = Vec::with_capacity(N);
        for address in [tuple.src, tuple.dst] {
            match address {
                std::net::IpAddr::V4(a) => bytes.extend(a.octets()),
                std::net::IpAddr::V6(a) => bytes.extend(a.octets()),
            }
        }
        let address_sum = fold(sum(&bytes));
        bytes.extend(tuple.sport.to_be_bytes());
        bytes.extend(tuple.dport.to_be_bytes());
        let tuple_sum = fold(sum(&bytes));
        let mut tuple = [0; N];
        tuple.copy_from_slice(&bytes);
        Head { tuple, address_sum, tuple_sum }
    }
}

/// Puts a flow and a stamp into a frame that is a copy of `template`, and its checksums right.
#[inline]
fn finish<const N: usize>(frame: &mut [u8], template: &Template, head: &Head<N>, stamp: Stamp) {
    let at = template.tuple_at;
    frame[at..at + N].copy_from_slice(&head.tuple);
    if N == 12 {
        let sum = u64::from(template.ip_sum) + u64::from(head.address_sum);
        frame[at - 2..at].copy_from_slice(&checksum::finish(sum).to_be_bytes());
    }
    let stamp = stamp.to_bytes();
    let stamp_at = frame.len() - STAMP_LEN;
    frame[stamp_at..].copy_from_slice(&stamp);
    let fixed = u64::from(template.transport_sum) + u64::from(head.tuple_sum);
    let sum = match template.odd {
        true => checksum::add_at_odd(fixed, sum(&stamp)),
        false => fixed + sum(&stamp),
    };
    let checksum = if template.udp { checksum::finish_udp(sum) } else { checksum::finish(sum) };
    frame[template.checksum_at..][..2].copy_from_slice(&checksum.to_be_bytes());
}

impl<const N: usize> Tape for FlowTape<N> {
    #[inline]
    fn write(&mut self, slot: &mut [u8], planned_ns: u64, late_ns: u64) -> u16 {
        let template = &self.templates[self.sizes.step()];
        let flow = self.picker.next();
        let sequence = self.sequences[flow as usize];
        self.sequences[flow as usize] = sequence.wrapping_add(1);
        let frame = &mut slot[..template.bytes.len()];
        frame.copy_from_slice(&template.bytes);
        let stamp = Stamp { flow, sequence, planned_ns, late_ns };
        finish(frame, template, &self.heads[flow as usize], stamp);
        template.bytes.len() as u16
    }

    fn skip(&mut self, count: u64) -> u64 {
        self.sizes.skip(count)
    }

    fn flows(&self) -> u32 {
        self.heads.len() as u32
    }
}
