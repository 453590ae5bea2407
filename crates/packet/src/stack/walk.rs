//! From a frame to its layers.

use std::fmt;

use super::{Layer, LayerView, MPLS_PORT};
use crate::checksum;
use crate::error::{LayerKind, ParseError};
use crate::limits::{EXTENSIONS_MAX, LAYERS_MAX, TUNNELS_MAX};
use crate::wire::bytes::read_u16;
use crate::wire::{
    EtherType, IpProtocol, arp, auth, ethernet, geneve, gre, icmp, icmpv6, ipv4, ipv6, ipv6_ext,
    ipv6_fragment, mpls, tcp, udp, vlan, vxlan,
};

/// Where a layer lies in its frame; all in bytes from the frame's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which kind it is.
    pub kind: LayerKind,
    /// Its first byte.
    pub start: usize,
    /// Length of its header with options; for a payload, of all of it.
    pub header_len: usize,
    /// One past its last byte, payload included; padding of the frame is beyond it.
    pub end: usize,
}

/// Why a walk stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WalkEnd {
    /// The rest is part of a fragmented packet: it is not looked into, even in the first one.
    Fragment,
    /// One of [`LAYERS_MAX`], [`TUNNELS_MAX`], [`EXTENSIONS_MAX`] was met: more may follow.
    Limit,
    /// The next header is not what the one before announced.
    Malformed(ParseError),
    /// All known headers were read; the rest, if any, is payload.
    Payload,
}

/// A layer whose checksum is not what its bytes sum up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{layer} at byte {start}: wrong checksum")]
pub struct ChecksumError {
    /// The layer.
    pub layer: LayerKind,
    /// Its first byte in the frame.
    pub start: usize,
}

/// A frame and the layers found in it, in their order; the last may be the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack<'a> {
    frame: &'a [u8],
    spans: Vec<Span>,
    end: WalkEnd,
    missing_len: usize,
}

/// Walks an Ethernet frame (without FCS) from its first byte to its payload, through tunnels.
///
/// Bytes missing at the end, as in captures of frame heads, do not stop the walk as long as
/// headers are there: see [`Stack::missing_len`].
pub fn walk(frame: &[u8]) -> Stack<'_> {
    let mut walker = Walker {
        at: 0,
        extensions: 0,
        ip_v6: false,
        limit: frame.len(),
        tunnels: 0,
        stack: Stack { frame, spans: Vec::with_capacity(8), end: WalkEnd::Payload, missing_len: 0 },
    };
    walker.run();
    walker.stack
}

/// What a header says about what comes after it.
enum Next {
    EtherType(EtherType),
    Fragment,
    Ip(IpProtocol),
    Kind(LayerKind),
    Payload,
    /// As `EtherType`, in a tunnel: an Ethernet frame may follow.
    Tunnel(EtherType),
}

/// What a header says about itself.
struct Measure {
    header_len: usize,
    /// Header and payload as stated; `None` if the header states no length.
    stated_len: Option<usize>,
    next: Next,
}

impl Measure {
    fn new(header_len: usize, next: Next) -> Self {
        Self { header_len, stated_len: None, next }
    }

    fn stating(self, len: usize) -> Self {
        Self { stated_len: Some(len), ..self }
    }
}

struct Walker<'a> {
    /// First byte not yet read.
    at: usize,
    /// Extension headers since the last IP header.
    extensions: usize,
    /// Whether the last IP header was version 6.
    ip_v6: bool,
    /// One past the last byte of the innermost packet so far.
    limit: usize,
    tunnels: usize,
    stack: Stack<'a>,
}

impl Walker<'_> {
    fn run(&mut self) {
        let mut next = Some(LayerKind::Ethernet);
        while let Some(kind) = next {
            if self.is_over_limit(kind) {
                self.stack.end = WalkEnd::Limit;
                break;
            }
            match self.step(kind) {
                Ok(kind) => next = kind,
                Err(error) => {
                    self.stack.end = WalkEnd::Malformed(error);
                    break;
                }
            }
        }
        let (start, end) = (self.at, self.limit);
        if start < end {
            let span = Span { kind: LayerKind::Payload, start, header_len: end - start, end };
            self.stack.spans.push(span);
        }
    }

    fn is_over_limit(&mut self, kind: LayerKind) -> bool {
        match kind {
            LayerKind::Auth
            | LayerKind::Ipv6Destination
            | LayerKind::Ipv6Fragment
            | LayerKind::Ipv6HopByHop
            | LayerKind::Ipv6Routing => self.extensions += 1,
            LayerKind::Ipv4 | LayerKind::Ipv6 => {
                self.extensions = 0;
                self.tunnels += usize::from(self.is_in_ip());
            }
            LayerKind::Geneve | LayerKind::Gre | LayerKind::Vxlan => self.tunnels += 1,
            LayerKind::Mpls if !self.is_after(LayerKind::Mpls) => self.tunnels += 1,
            _ => {}
        }
        self.extensions > EXTENSIONS_MAX
            || self.tunnels > TUNNELS_MAX
            || self.stack.spans.len() + 1 >= LAYERS_MAX // one is kept for the payload
    }

    fn is_after(&self, kind: LayerKind) -> bool {
        self.stack.spans.last().is_some_and(|span| span.kind == kind)
    }

    /// Whether the layer to come stands directly in an IP packet.
    fn is_in_ip(&self) -> bool {
        self.is_after(LayerKind::Ipv4) || self.is_after(LayerKind::Ipv6) || self.extensions > 0
    }

    /// Reads one header, notes its span, and says which follows.
    fn step(&mut self, kind: LayerKind) -> Result<Option<LayerKind>, ParseError> {
        let start = self.at;
        let bytes = &self.stack.frame[start..self.limit];
        let measure = measure(kind, bytes)?;
        let stated_end = measure.stated_len.map_or(self.limit, |len| start + len);
        let missing_len = stated_end.saturating_sub(self.limit);
        self.stack.missing_len = self.stack.missing_len.max(missing_len);
        self.limit = self.limit.min(stated_end);
        let (header_len, end) = (measure.header_len, self.limit);
        self.stack.spans.push(Span { kind, start, header_len, end });
        self.at = start + header_len;
        match kind {
            LayerKind::Ipv4 => self.ip_v6 = false,
            LayerKind::Ipv6 => self.ip_v6 = true,
            _ => {}
        }
        Ok(self.resolve(measure.next))
    }

    fn resolve(&mut self, next: Next) -> Option<LayerKind> {
        match next {
            Next::EtherType(ether_type) => kind_of_ether_type(ether_type),
            Next::Fragment => {
                self.stack.end = WalkEnd::Fragment;
                None
            }
            Next::Ip(protocol) => kind_of_protocol(protocol, self.ip_v6),
            Next::Kind(kind) => Some(kind),
            Next::Payload => None,
            Next::Tunnel(EtherType::ETHERNET) => Some(LayerKind::Ethernet),
            Next::Tunnel(ether_type) => kind_of_ether_type(ether_type),
        }
    }
}

const fn kind_of_ether_type(ether_type: EtherType) -> Option<LayerKind> {
    match ether_type {
        EtherType::ARP => Some(LayerKind::Arp),
        EtherType::IPV4 => Some(LayerKind::Ipv4),
        EtherType::IPV6 => Some(LayerKind::Ipv6),
        EtherType::MPLS | EtherType::MPLS_UPSTREAM => Some(LayerKind::Mpls),
        EtherType::VLAN | EtherType::VLAN_OLD | EtherType::VLAN_SERVICE => Some(LayerKind::Vlan),
        _ => None,
    }
}

const fn kind_of_protocol(protocol: IpProtocol, v6: bool) -> Option<LayerKind> {
    match protocol {
        IpProtocol::AUTH => Some(LayerKind::Auth),
        IpProtocol::GRE => Some(LayerKind::Gre),
        IpProtocol::ICMP => Some(LayerKind::Icmp),
        IpProtocol::ICMPV6 => Some(LayerKind::Icmpv6),
        IpProtocol::IPV4 => Some(LayerKind::Ipv4),
        IpProtocol::IPV6 => Some(LayerKind::Ipv6),
        IpProtocol::MPLS => Some(LayerKind::Mpls),
        IpProtocol::TCP => Some(LayerKind::Tcp),
        IpProtocol::UDP => Some(LayerKind::Udp),
        IpProtocol::DESTINATION if v6 => Some(LayerKind::Ipv6Destination),
        IpProtocol::FRAGMENT if v6 => Some(LayerKind::Ipv6Fragment),
        IpProtocol::HOP_BY_HOP if v6 => Some(LayerKind::Ipv6HopByHop),
        IpProtocol::ROUTING if v6 => Some(LayerKind::Ipv6Routing),
        _ => None,
    }
}

fn measure(kind: LayerKind, bytes: &[u8]) -> Result<Measure, ParseError> {
    match kind {
        LayerKind::Ethernet => {
            let view = ethernet::Frame::new_checked(bytes)?;
            Ok(Measure::new(ethernet::HEADER_LEN, Next::EtherType(view.ether_type())))
        }
        LayerKind::Vlan => {
            let view = vlan::Tag::new_checked(bytes)?;
            Ok(Measure::new(vlan::HEADER_LEN, Next::EtherType(view.ether_type())))
        }
        LayerKind::Mpls => measure_mpls(bytes),
        LayerKind::Arp => {
            arp::Packet::new_checked(bytes)?;
            Ok(Measure::new(arp::HEADER_LEN, Next::Payload))
        }
        LayerKind::Ipv4 | LayerKind::Ipv6 => measure_ip(kind, bytes),
        LayerKind::Auth
        | LayerKind::Ipv6Destination
        | LayerKind::Ipv6Fragment
        | LayerKind::Ipv6HopByHop
        | LayerKind::Ipv6Routing => measure_extension(kind, bytes),
        LayerKind::Geneve | LayerKind::Gre | LayerKind::Vxlan => measure_tunnel(kind, bytes),
        LayerKind::Icmp | LayerKind::Icmpv6 | LayerKind::Tcp | LayerKind::Udp => {
            measure_transport(kind, bytes)
        }
        LayerKind::Payload => Ok(Measure::new(bytes.len(), Next::Payload)),
    }
}

/// What follows the bottom of a label stack is announced by two labels only (RFC 3032 §2.1).
/// Otherwise the first 4 bits tell IPv4 from IPv6 (RFC 4928 §3), which is a guess: it counts if
/// the header proves right.
fn measure_mpls(bytes: &[u8]) -> Result<Measure, ParseError> {
    let entry = mpls::Entry::new_checked(bytes)?;
    let inner = entry.payload();
    let next = if !entry.is_bottom() {
        Next::Kind(LayerKind::Mpls)
    } else if entry.label() == mpls::LABEL_IPV4 || ipv4::Packet::new_checked(inner).is_ok() {
        Next::Kind(LayerKind::Ipv4)
    } else if entry.label() == mpls::LABEL_IPV6 || ipv6::Packet::new_checked(inner).is_ok() {
        Next::Kind(LayerKind::Ipv6)
    } else {
        Next::Payload
    };
    Ok(Measure::new(mpls::HEADER_LEN, next))
}

fn measure_ip(kind: LayerKind, bytes: &[u8]) -> Result<Measure, ParseError> {
    if kind == LayerKind::Ipv6 {
        let view = ipv6::Packet::new_checked(bytes)?;
        let measure = Measure::new(ipv6::HEADER_LEN, Next::Ip(view.next_header()));
        return Ok(measure.stating(ipv6::HEADER_LEN + view.payload_len()));
    }
    let view = ipv4::Packet::new_checked(bytes)?;
    let next = if view.is_fragment() { Next::Fragment } else { Next::Ip(view.protocol()) };
    Ok(Measure::new(view.header_len(), next).stating(view.total_len()))
}

fn measure_extension(kind: LayerKind, bytes: &[u8]) -> Result<Measure, ParseError> {
    match kind {
        LayerKind::Auth => {
            let view = auth::Header::new_checked(bytes)?;
            Ok(Measure::new(view.header_len(), Next::Ip(view.next_header())))
        }
        LayerKind::Ipv6Fragment => {
            let view = ipv6_fragment::Header::new_checked(bytes)?;
            let whole = Next::Ip(view.next_header());
            let next = if view.is_fragment() { Next::Fragment } else { whole };
            Ok(Measure::new(ipv6_fragment::HEADER_LEN, next))
        }
        _ => {
            let view = ipv6_ext::Header::new_checked(bytes).map_err(|error| named(kind, error))?;
            Ok(Measure::new(view.header_len(), Next::Ip(view.next_header())))
        }
    }
}

/// Three kinds share one view, which cannot know which of them it was.
const fn named(layer: LayerKind, error: ParseError) -> ParseError {
    match error {
        ParseError::Truncated { needed_len, available_len, .. } => {
            ParseError::Truncated { layer, needed_len, available_len }
        }
        other => other,
    }
}

fn measure_tunnel(kind: LayerKind, bytes: &[u8]) -> Result<Measure, ParseError> {
    match kind {
        LayerKind::Geneve => {
            let view = geneve::Packet::new_checked(bytes)?;
            let next = match view.is_control() {
                true => Next::Payload,
                false => Next::Tunnel(view.protocol()),
            };
            Ok(Measure::new(view.header_len(), next))
        }
        LayerKind::Gre => {
            let view = gre::Packet::new_checked(bytes)?;
            Ok(Measure::new(view.header_len(), Next::Tunnel(view.protocol())))
        }
        _ => {
            vxlan::Packet::new_checked(bytes)?;
            Ok(Measure::new(vxlan::HEADER_LEN, Next::Kind(LayerKind::Ethernet)))
        }
    }
}

fn measure_transport(kind: LayerKind, bytes: &[u8]) -> Result<Measure, ParseError> {
    match kind {
        LayerKind::Icmp => {
            icmp::Message::new_checked(bytes)?;
            Ok(Measure::new(icmp::HEADER_LEN, Next::Payload))
        }
        LayerKind::Icmpv6 => {
            icmpv6::Message::new_checked(bytes)?;
            Ok(Measure::new(icmpv6::HEADER_LEN, Next::Payload))
        }
        LayerKind::Tcp => {
            let view = tcp::Segment::new_checked(bytes)?;
            Ok(Measure::new(view.header_len(), Next::Payload))
        }
        _ => {
            let view = udp::Datagram::new_checked(bytes)?;
            let next = match view.dst_port() {
                geneve::PORT => Next::Kind(LayerKind::Geneve),
                vxlan::PORT => Next::Kind(LayerKind::Vxlan),
                MPLS_PORT => Next::Kind(LayerKind::Mpls),
                _ => Next::Payload,
            };
            Ok(Measure::new(udp::HEADER_LEN, next).stating(view.length()))
        }
    }
}

impl<'a> Stack<'a> {
    /// The whole frame.
    pub fn frame(&self) -> &'a [u8] {
        self.frame
    }

    /// Where the layers lie, outermost first.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Why the walk stopped.
    pub fn end(&self) -> WalkEnd {
        self.end
    }

    /// Bytes that length fields state and the frame lacks; 0 for a whole frame.
    pub fn missing_len(&self) -> usize {
        self.missing_len
    }

    /// The layers as views, outermost first.
    pub fn views(&self) -> impl Iterator<Item = LayerView<'a>> + '_ {
        self.spans.iter().map(|span| self.view(span))
    }

    fn view(&self, span: &Span) -> LayerView<'a> {
        LayerView::new_unchecked(span.kind, &self.frame[span.start..span.end])
    }

    /// The bytes after the last header, without padding of the frame.
    pub fn payload(&self) -> &'a [u8] {
        match self.spans.last() {
            Some(span) if span.kind == LayerKind::Payload => &self.frame[span.start..span.end],
            _ => &[],
        }
    }

    /// The layers as values, outermost first.
    pub fn to_layers(&self) -> Vec<Layer> {
        self.spans.iter().filter_map(|span| self.layer(span).ok()).collect() // checked by walk
    }

    fn layer(&self, span: &Span) -> Result<Layer, ParseError> {
        Ok(match self.view(span) {
            LayerView::Arp(view) => arp::Repr::parse(&view)?.into(),
            LayerView::Auth(view) => auth::Repr::parse(&view)?.into(),
            LayerView::Ethernet(view) => ethernet::Repr::parse(&view)?.into(),
            LayerView::Geneve(view) => geneve::Repr::parse(&view)?.into(),
            LayerView::Gre(view) => gre::Repr::parse(&view)?.into(),
            LayerView::Icmp(view) => icmp::Repr::parse(&view)?.into(),
            LayerView::Icmpv6(view) => icmpv6::Repr::parse(&view)?.into(),
            LayerView::Ipv4(view) => ipv4::Repr::parse(&view)?.into(),
            LayerView::Ipv6(view) => ipv6::Repr::parse(&view)?.into(),
            LayerView::Ipv6Extension(kind, view) => ipv6_ext::Repr::parse(&view, kind)?.into(),
            LayerView::Ipv6Fragment(view) => ipv6_fragment::Repr::parse(&view)?.into(),
            LayerView::Mpls(view) => mpls::Repr::parse(&view)?.into(),
            LayerView::Payload(bytes) => bytes.to_vec().into(),
            LayerView::Tcp(view) => tcp::Repr::parse(&view)?.into(),
            LayerView::Udp(view) => udp::Repr::parse(&view)?.into(),
            LayerView::Vlan(view) => {
                // The type number that announced the tag ends where the tag starts.
                let tag_type = EtherType(read_u16(self.frame, span.start - 2..span.start));
                vlan::Repr::parse(&view, tag_type)?.into()
            }
            LayerView::Vxlan(view) => vxlan::Repr::parse(&view)?.into(),
        })
    }

    /// The layers whose checksum is wrong, outermost first.
    ///
    /// Not looked at: anything above IP when bytes are missing; TCP, UDP and ICMPv6 behind a
    /// routing header of unknown type with segments left; the payload of fragments.
    pub fn checksum_errors(&self) -> Vec<ChecksumError> {
        let wrong = |index: &usize| self.is_checksum_valid(*index) == Some(false);
        let error = |index: usize| {
            let span = self.spans[index];
            ChecksumError { layer: span.kind, start: span.start }
        };
        (0..self.spans.len()).filter(wrong).map(error).collect()
    }

    /// Whether the checksum of layer `index` is right; `None` if it has none or cannot be judged.
    pub fn is_checksum_valid(&self, index: usize) -> Option<bool> {
        let span = self.spans.get(index)?;
        let view = self.view(span);
        if let LayerView::Ipv4(view) = view {
            return Some(view.is_checksum_valid());
        }
        if self.missing_len > 0 {
            return None;
        }
        let len = span.end - span.start;
        let pseudo = |protocol| pseudo(self.frame, &self.spans[..index], protocol, len);
        match view {
            LayerView::Gre(view) => view.checksum().map(|_| view.is_checksum_valid()),
            LayerView::Icmp(view) => Some(view.is_checksum_valid()),
            LayerView::Icmpv6(view) => Some(view.is_checksum_valid(pseudo(IpProtocol::ICMPV6)?)),
            LayerView::Tcp(view) => Some(view.is_checksum_valid(pseudo(IpProtocol::TCP)?)),
            LayerView::Udp(view) if view.checksum() == 0 => None,
            LayerView::Udp(view) => Some(view.is_checksum_valid(pseudo(IpProtocol::UDP)?)),
            _ => None,
        }
    }
}

/// Partial of the pseudo header for a transport layer of `len` bytes behind the layers `outer`.
///
/// Behind a routing header with segments left the receiver is its last address, not that of the
/// IPv6 header (RFC 8200 §8.1). `None` if the routing type is unknown, or there is no IP layer.
pub(super) fn pseudo(
    frame: &[u8],
    outer: &[Span],
    protocol: IpProtocol,
    len: usize,
) -> Option<u64> {
    let mut receiver = None;
    for span in outer.iter().rev() {
        match LayerView::new_unchecked(span.kind, &frame[span.start..span.end]) {
            LayerView::Ipv4(view) => return Some(view.pseudo(protocol, len)),
            LayerView::Ipv6(view) => {
                let dst = receiver.unwrap_or(view.dst());
                return Some(checksum::pseudo_ipv6(view.src(), dst, protocol, len as u32));
            }
            LayerView::Ipv6Extension(ipv6_ext::ExtensionKind::Routing, view)
                if view.segments_left() > 0 =>
            {
                receiver = Some(view.last_segment()?);
            }
            _ => {}
        }
    }
    None
}

/// One line per layer with its first byte, then why the walk stopped if it was not the payload.
impl fmt::Display for Stack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for span in &self.spans {
            writeln!(f, "{:5} {}", span.start, self.view(span))?;
        }
        match self.end {
            WalkEnd::Fragment => writeln!(f, "      the rest is a fragment")?,
            WalkEnd::Limit => writeln!(f, "      too many layers")?,
            WalkEnd::Malformed(error) => writeln!(f, "      malformed: {error}")?,
            WalkEnd::Payload => {}
        }
        match self.missing_len {
            0 => Ok(()),
            missing => writeln!(f, "      {missing} bytes are missing"),
        }
    }
}
