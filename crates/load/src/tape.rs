//! What is sent: generated flows or the records of a capture, one frame after another.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use niclab_packet::checksum::{self, fold, sum};
use niclab_packet::flow::{FiveTuple, FlowSet, IpVersion, Picker, Transport};
use niclab_packet::size::FCS_LEN;
use niclab_packet::stack::{Layer, build_with_len};
use niclab_packet::trace::{Trace, TraceLimits};
use niclab_packet::wire::{EtherType, MacAddress, ethernet, ipv4, ipv6, tcp, udp};

use crate::drive::LoadError;
use crate::spec::Load;
use crate::stamp::{STAMP_LEN, Stamp};

/// Cache line, bytes.
const LINE: usize = 64;
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
    staged: Staged<N>,
}

/// The flows of the next frames, fetched together: one after the other each would be waited for
/// (with the sink doing likewise, 64 B frames of 10 k flows: 27 to 51 Mpps, `soft_rate`).
struct Staged<const N: usize> {
    next: [Next<N>; STAGED],
    at: usize,
}

/// Flows that are fetched together.
const STAGED: usize = 64;

/// The flow of a frame to be sent.
#[derive(Clone, Copy)]
struct Next<const N: usize> {
    head: Head<N>,
    flow: u32,
    sequence: u32,
}

/// A flow's part of a frame.
#[derive(Clone, Copy)]
#[repr(C)]
struct Head<const N: usize> {
    tuple: [u8; N],
    /// Partial sum of the addresses.
    address_sum: u16,
    /// Partial sum of addresses and ports.
    tuple_sum: u16,
}

/// The constant part of a frame of one size.
///
/// Sums are in the order of memory (RFC 1071 §2(B)).
struct Template {
    /// The frame, filled up with zeros to whole cache lines.
    bytes: Vec<u8>,
    /// Length of the frame.
    len: usize,
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
            staged: Staged { next: [Next::none(); STAGED], at: STAGED },
        })
    }

    /// Picks the flows of the next frames.
    fn stage(&mut self) {
        let mut flows = [0; STAGED];
        self.picker.fill(&mut flows);
        for (next, &flow) in self.staged.next.iter_mut().zip(&flows) {
            next.flow = flow;
            next.head = self.heads[flow as usize];
        }
        for next in &mut self.staged.next {
            let sequence = &mut self.sequences[next.flow as usize];
            next.sequence = *sequence;
            *sequence = sequence.wrapping_add(1);
        }
        self.staged.at = 0;
    }
}

impl<const N: usize> Next<N> {
    fn none() -> Next<N> {
        let head = Head { tuple: [0; N], address_sum: 0, tuple_sum: 0 };
        Next { head, flow: 0, sequence: 0 }
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
        let address_sum = fold(sum(&bytes)).to_be();
        bytes.extend(tuple.sport.to_be_bytes());
        bytes.extend(tuple.dport.to_be_bytes());
        let tuple_sum = fold(sum(&bytes)).to_be();
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
        if self.staged.at == STAGED {
            self.stage();
        }
        let Next { head, flow, sequence } = &self.staged.next[self.staged.at];
        self.staged.at += 1;
        let template = &self.templates[self.sizes.step()];
        copy_lines(slot, template);
        let stamp = Stamp { flow: *flow, sequence: *sequence, planned_ns, late_ns };
        finish(&mut slot[..template.len], template, head, stamp);
        template.len as u16
    }

    fn skip(&mut self, count: u64) -> u64 {
        self.sizes.skip(count)
    }

    fn flows(&self) -> u32 {
        self.heads.len() as u32
    }
}

/// The records of a capture, in their order and over again.
///
/// A frame is sent as it was recorded, with its stamp behind it: an Ethernet trailer, which neither
/// cards nor stacks look at, so that headers, payload and checksums stay the recorded ones. Frames
/// therefore grow by [`STAMP_LEN`] bytes, short ones only to the smallest size. Each record is a
/// flow of its own: its frames are told apart by their round.
pub struct TraceTape {
    trace: Trace,
    sizes: Sizes,
    round: u32,
}

/// Shortest frame without FCS (IEEE 802.3 §4.4).
const FRAME_LEN_MIN: usize = 60;

impl TraceTape {
    /// Reads a capture.
    pub fn open(path: &Path) -> Result<TraceTape, LoadError> {
        let bad = |reason: String| LoadError::Trace { path: path.display().to_string(), reason };
        let file = File::open(path).map_err(|error| bad(error.to_string()))?;
        let trace = Trace::load(BufReader::new(file), TraceLimits::default())
            .map_err(|incomplete| bad(incomplete.to_string()))?;
        if trace.is_empty() {
            return Err(bad("it has no frame; give another".to_owned()));
        }
        let lens = trace.records().map(|record| u16::try_from(stamped_len(record.data)));
        let with_fcs = |len: u16| len.checked_add(FCS_LEN);
        let sizes: Option<Vec<u16>> = lens.map(|len| with_fcs(len.ok()?)).collect();
        let sizes = sizes.ok_or_else(|| bad("a frame is longer than 65 kB".to_owned()))?;
        Ok(TraceTape { trace, sizes: Sizes::new(sizes), round: 0 })
    }
}

/// Reads a capture through: the longest frame that a load with it offers, bytes with FCS.
///
/// # Errors
/// [`LoadError::Trace`]: unreadable, empty, cut short, a frame too long.
pub fn trace_frame_len_max(path: &Path) -> Result<u16, LoadError> {
    let tape = TraceTape::open(path)?;
    Ok(tape.sizes.pattern.iter().copied().max().unwrap_or_default())
}

/// Length of a recorded frame with its stamp, without FCS.
fn stamped_len(data: &[u8]) -> usize {
    (data.len() + STAMP_LEN).max(FRAME_LEN_MIN)
}

impl Tape for TraceTape {
    fn write(&mut self, slot: &mut [u8], planned_ns: u64, late_ns: u64) -> u16 {
        let at = self.sizes.step();
        let data = self.trace.record(at).map_or(&[][..], |record| record.data);
        let len = stamped_len(data);
        let (frame, stamp_at) = (&mut slot[..len], len - STAMP_LEN);
        frame[..data.len()].copy_from_slice(data);
        frame[data.len()..stamp_at].fill(0);
        let stamp = Stamp { flow: at as u32, sequence: self.round, planned_ns, late_ns };
        frame[stamp_at..].copy_from_slice(&stamp.to_bytes());
        if self.sizes.at == 0 {
            self.round = self.round.wrapping_add(1);
        }
        len as u16
    }

    fn skip(&mut self, count: u64) -> u64 {
        let (records, at) = (self.sizes.pattern.len() as u64, self.sizes.at as u64);
        self.round = self.round.wrapping_add(((at + count) / records) as u32);
        self.sizes.skip(count)
    }

    fn flows(&self) -> u32 {
        self.sizes.pattern.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use niclab_packet::flow::FlowSpec;
    use niclab_packet::size::FrameSizes;
    use niclab_packet::stack::walk;

    use super::*;
    use crate::spec::{Arrivals, Rate};

    fn load(flows: FlowSpec, sizes: FrameSizes) -> Load {
        Load {
            flows,
            sizes,
            rate: Rate::Saturate,
            arrivals: Arrivals::Constant,
            duration_ns: 1,
            warmup_ns: 0,
            seed: 5,
            trace: None,
        }
    }

    /// Every frame of a tape is whole, of its size, of the flow its stamp names, in its number.
    fn check<const N: usize>(flows: FlowSpec, sizes: FrameSizes) {
        let load = load(flows, sizes);
        let set = FlowSet::new(&load.flows).unwrap();
        let mut tape = FlowTape::<N>::new(&load, &set).unwrap();
        let mut next = vec![0; load.flows.count as usize];
        let mut slot = vec![0xff; 2_048];
        for k in 0..5_000 {
            let len = usize::from(tape.write(&mut slot, k * 1_000, k));
            let frame = &slot[..len];
            assert_eq!(len + 4, usize::from(sizes.size(k)));
            assert_eq!(walk(frame).checksum_errors(), [], "frame {k}");
            let stamp = Stamp::of_frame(frame).unwrap();
            assert_eq!((stamp.planned_ns, stamp.late_ns), (k * 1_000, k & !63));
            let tuple = set.tuple(stamp.flow);
            let key = niclab_packet::key::Key::parse(frame).to_bytes();
            let ports = [tuple.sport.to_be_bytes(), tuple.dport.to_be_bytes()].concat();
            assert_eq!(key[24..28], ports[..]);
            assert_eq!(stamp.sequence, next[stamp.flow as usize]);
            next[stamp.flow as usize] += 1;
        }
    }

    #[test]
    fn frames_are_whole_whatever_the_headers_and_the_size() {
        for proto in [Transport::Udp, Transport::Tcp] {
            for size in [84, 101, 128, 1_517, 1_518] {
                let v4 = FlowSpec { count: 100, proto, ..FlowSpec::default() };
                check::<12>(v4.clone(), FrameSizes::Fixed(size));
                let v6 = FlowSpec { version: IpVersion::V6, ..v4 };
                check::<36>(v6, FrameSizes::Fixed(size.max(96)));
            }
        }
        check::<12>(FlowSpec { count: 100, ..FlowSpec::default() }, FrameSizes::Imix);
    }

    #[test]
    fn skipping_counts_the_bytes_that_writing_would_have_sent() {
        let mut sizes = Sizes::new(FrameSizes::Imix.period().to_vec());
        let mut sent = 0;
        for count in [0, 1, 11, 12, 13, 1_000] {
            let written: u64 =
                (sent..sent + count).map(|k| u64::from(FrameSizes::Imix.size(k))).sum();
            assert_eq!(sizes.skip(count), written);
            sent += count;
        }
    }
}
