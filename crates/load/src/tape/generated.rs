//! Frames of seeded flows, of any size, version and transport.

use niclab_packet::checksum::{self, fold, sum};
use niclab_packet::flow::{FiveTuple, FlowSet, IpVersion, Transport};
use niclab_packet::size::FCS_LEN;
use niclab_packet::stack::{Layer, build_with_len};
use niclab_packet::wire::{EtherType, MacAddress, ethernet, ipv4, ipv6, tcp, udp};

use super::flows::{FlowSequence, Flows};
use super::{Sizes, Tape};
use crate::drive::LoadError;
use crate::spec::Load;
use crate::stamp::{STAMP_LEN, Stamp};

/// Cache line, bytes.
const LINE: usize = 64;
/// Ethernet header, bytes.
const ETHERNET_LEN: usize = 14;
/// Offset of the header checksum of an untagged IPv4 frame.
const IPV4_CHECKSUM_AT: usize = ETHERNET_LEN + 10;
/// Destination and source of generated frames: locally administered addresses (IEEE 802).
const MACS: [[u8; 6]; 2] = [[0x02, 0, 0, 0, 0, 2], [0x02, 0, 0, 0, 0, 1]];

/// Frames of seeded flows. `N` is the length of both addresses and both ports, which stand side by
/// side in a frame: 12 bytes in IPv4, 36 in IPv6.
///
/// A frame is the template of its size with the flow's addresses and ports, a stamp, and checksums
/// that were summed beforehand for template and flow: only the stamp is summed per frame.
pub struct FlowTape<const N: usize> {
    templates: Vec<Template>,
    sizes: Sizes,
    flows: Flows<FlowHeader<N>>,
}

/// A flow's part of a frame.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct FlowHeader<const N: usize> {
    pub tuple: [u8; N],
    /// Partial sum of the addresses.
    pub address_sum: u16,
    /// Partial sum of addresses and ports.
    pub tuple_sum: u16,
}

impl<const N: usize> Default for FlowHeader<N> {
    fn default() -> FlowHeader<N> {
        FlowHeader { tuple: [0; N], address_sum: 0, tuple_sum: 0 }
    }
}

/// The constant part of a frame of one size.
///
/// Sums are in the order of memory (RFC 1071 §2(B)).
pub(super) struct Template {
    /// The frame, filled up with zeros to whole cache lines.
    pub bytes: Vec<u8>,
    /// Length of the frame.
    len: usize,
    /// Partial sum of the IPv4 header without addresses; unused in IPv6.
    ip_sum: u16,
    /// Partial sum of pseudo header, transport header and payload without addresses and ports.
    pub transport_sum: u16,
    /// Offset of the tuple.
    tuple_at: usize,
    /// Offset of the transport checksum.
    checksum_at: usize,
    /// The stamp starts at an odd distance from the transport header: its sum is turned by a byte.
    odd: bool,
    udp: bool,
}

impl Template {
    /// A frame of `size` bytes with FCS; addresses, ports, checksums and stamp are zero.
    pub(super) fn new(
        size: u16,
        version: IpVersion,
        transport: Transport,
    ) -> Result<Template, LoadError> {
        let layers = headers(version, transport);
        let head_len: usize = layers.iter().map(Layer::buffer_len).sum();
        let size_min = (head_len + STAMP_LEN) as u16 + FCS_LEN;
        if size < size_min {
            return Err(LoadError::FrameTooSmall { size, size_min });
        }
        let mut bytes = build_with_len(&layers, size)
            .map_err(|error| LoadError::Size { size, reason: error.to_string() })?;
        let (len, ip_len) = (bytes.len(), layers[1].buffer_len());
        let transport_at = ETHERNET_LEN + ip_len;
        let udp = transport == Transport::Udp;
        let checksum_at = transport_at + if udp { 6 } else { 16 };
        // A checksum field is the complement of the sum of what it covers.
        let mut take = |at: usize| {
            let field = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            bytes[at..at + 2].fill(0);
            (!field).to_be()
        };
        let transport_sum = take(checksum_at);
        let v4 = version == IpVersion::V4;
        Ok(Template {
            ip_sum: if v4 { take(IPV4_CHECKSUM_AT) } else { 0 },
            transport_sum,
            tuple_at: transport_at - if v4 { 8 } else { 32 },
            checksum_at,
            odd: (len - STAMP_LEN - transport_at) % 2 == 1,
            udp,
            len,
            bytes: {
                bytes.resize(len.next_multiple_of(LINE), 0);
                bytes
            },
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
        IpVersion::V6 => Layer::Ipv6(ipv6::Repr { next_header: protocol, ..ipv6::Repr::default() }),
    };
    let segment = match transport {
        Transport::Udp => Layer::Udp(udp::Repr::default()),
        Transport::Tcp => Layer::Tcp(tcp::Repr {
            flags: tcp::Flags::ACK,
            window: u16::MAX,
            ..tcp::Repr::default()
        }),
    };
    [Layer::Ethernet(ethernet), ip, segment]
}

impl<const N: usize> FlowTape<N> {
    /// A tape of the load's flows and sizes.
    ///
    /// # Errors
    /// A size that has no room for the headers and a stamp.
    pub fn new(load: &Load, set: &FlowSet, picks: FlowSequence) -> Result<Self, LoadError> {
        let pattern = load.sizes.period().to_vec();
        let template = |&size: &u16| Template::new(size, load.flows.version, load.flows.proto);
        let heads = set.tuples().map(|tuple| FlowHeader::new(&tuple)).collect();
        Ok(FlowTape {
            templates: pattern.iter().map(template).collect::<Result<_, _>>()?,
            sizes: Sizes::new(pattern),
            flows: Flows::new(heads, picks),
        })
    }
}

impl<const N: usize> FlowHeader<N> {
    pub(super) fn new(tuple: &FiveTuple) -> FlowHeader<N> {
        let mut bytes = Vec::with_capacity(N);
        for address in [tuple.src, tuple.dst] {
            match address {
                std::net::IpAddr::V4(a) => bytes.extend(a.octets()),
                std::net::IpAddr::V6(a) => bytes.extend(a.octets()),
            }
        }
        let address_sum = fold(sum(&bytes)).to_be();
        bytes.extend(tuple.sport.to_be_bytes());
        bytes.extend(tuple.dport.to_be_bytes());
        let tuple_sum = fold(sum(&bytes)).to_be();
        let mut tuple = [0; N];
        tuple.copy_from_slice(&bytes);
        FlowHeader { tuple, address_sum, tuple_sum }
    }
}

/// Puts a flow and a stamp into a frame that is a copy of `template`, and its checksums right.
#[inline]
pub(super) fn finish<const N: usize>(
    frame: &mut [u8],
    template: &Template,
    head: &FlowHeader<N>,
    stamp: Stamp,
) {
    let at = template.tuple_at;
    frame[at..at + N].copy_from_slice(&head.tuple);
    if N == 12 {
        let sum = u64::from(template.ip_sum) + u64::from(head.address_sum);
        frame[at - 2..at].copy_from_slice(&checksum::finish(sum).to_ne_bytes());
    }
    let stamp_at = frame.len() - STAMP_LEN;
    frame[stamp_at..].copy_from_slice(&stamp.to_bytes());
    let stamped = match template.odd {
        true => u64::from(fold(stamp.sum()).swap_bytes()),
        false => stamp.sum(),
    };
    let sum = u64::from(template.transport_sum) + u64::from(head.tuple_sum) + stamped;
    let checksum = if template.udp { checksum::finish_udp(sum) } else { checksum::finish(sum) };
    frame[template.checksum_at..][..2].copy_from_slice(&checksum.to_ne_bytes());
}

/// Copies a template to the start of a slot: whole cache lines where the slot has room for them,
/// which takes an instruction or two for the smallest frames.
#[inline]
fn copy_lines(slot: &mut [u8], template: &Template) {
    match slot.get_mut(..template.bytes.len()) {
        Some(lines) if lines.len() == LINE => lines.copy_from_slice(&template.bytes[..LINE]),
        Some(lines) => lines.copy_from_slice(&template.bytes),
        None => slot[..template.len].copy_from_slice(&template.bytes[..template.len]),
    }
}

impl<const N: usize> Tape for FlowTape<N> {
    #[inline]
    fn write(&mut self, slot: &mut [u8], planned_ns: u64, late_ns: u64) -> u16 {
        let template = &self.templates[self.sizes.step()];
        copy_lines(slot, template);
        let next = self.flows.next();
        let (flow, sequence) = (next.flow, next.sequence);
        let stamp = Stamp { flow, sequence, planned_ns, late_ns };
        finish(&mut slot[..template.len], template, &next.head, stamp);
        template.len as u16
    }

    fn skip(&mut self, count: u64) -> u64 {
        self.sizes.skip(count)
    }

    fn flows(&self) -> u32 {
        self.flows.len()
    }
}
