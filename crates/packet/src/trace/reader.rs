//! Reading pcap and pcapng.

use std::borrow::Cow;
use std::io::{ErrorKind, Read};

use pcap_file::pcap::{PcapHeader, PcapParser};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::packet::PacketOption;
use pcap_file::pcapng::{Block, PcapNgParser};
use pcap_file::{Endianness, PcapError, TsResolution};

use super::{ETHERNET_HEADER_LEN, LINK_ETHERNET, Record, TraceError, TraceErrorKind};
use crate::limits::RECORD_LEN_MAX;

/// Bytes asked of the reader below at a time.
const CHUNK_LEN: usize = 64 << 10;

/// First bytes of a pcapng file.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// First bytes of a pcap file: two byte orders, two resolutions.
const PCAP_MAGICS: [[u8; 4]; 4] = [
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
];

/// Reads the records of a pcap or pcapng file one by one.
///
/// A frame is given without its FCS where the file says that frames have one: by the link type of
/// pcap (`FCS len` and `P`, draft-ietf-opsawg-pcap), by `if_fcslen` or `epb_flags` of pcapng
/// (draft-ietf-opsawg-pcapng). Of a record with more bytes than its frame had on the wire, those
/// beyond the frame are left out.
///
/// Of pcapng, packets of all three kinds of packet block are records; other blocks are skipped.
/// An interface that states a time zone (`if_tzone`, which capture tools do not write) is taken for
/// unreadable by the parser beneath.
pub struct TraceReader<R: Read> {
    input: Input<R>,
    parser: Parser,
    records_count: u64,
    /// Set once the file proved unreadable: what follows cannot be told from noise.
    failed: bool,
}

enum Parser {
    Pcap(PcapParser),
    PcapNg(PcapNgParser),
}

/// What one step of a parser gave, free of the input's borrow: lengths instead of slices.
enum ParseProgress {
    /// A block that is no packet.
    Other,
    Packet(StoredPacket),
}

/// A packet whose data lies in the input.
struct StoredPacket {
    timestamp_ns: u64,
    original_len: u32,
    /// Bytes at the end of the frame that are its FCS.
    fcs_len: u32,
    link_type: u32,
    data_start: usize,
    data_len: usize,
}

/// Bytes of the file, as many as the record at hand needs.
struct Input<R: Read> {
    reader: R,
    buffer: Vec<u8>,
    /// First byte of the buffer not yet consumed.
    start: usize,
    /// Offset in the file of that byte.
    offset: u64,
    ended: bool,
}

impl<R: Read> Input<R> {
    fn rest(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    fn consume(&mut self, len: usize) {
        self.start += len;
        self.offset += len as u64;
    }

    /// Gets more bytes; false at the end of the file.
    fn grow(&mut self) -> std::io::Result<bool> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let len = self.buffer.len();
        // Doubling keeps a long record from being parsed again for every chunk of it.
        self.buffer.resize(len + CHUNK_LEN.max(len), 0);
        let got = loop {
            match self.reader.read(&mut self.buffer[len..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(len + *got.as_ref().unwrap_or(&0));
        self.ended = got? == 0;
        Ok(!self.ended)
    }

    /// Applies `parse` to the bytes until it has enough of them. It returns what is left and a
    /// value; the bytes used are *not* consumed but their number is returned.
    fn parse<O>(
        &mut self,
        mut parse: impl FnMut(&[u8]) -> Result<(usize, O), PcapError>,
    ) -> Result<(usize, O), TraceErrorKind> {
        loop {
            match parse(self.rest()) {
                Ok((rest_len, value)) => return Ok((self.rest().len() - rest_len, value)),
                Err(PcapError::IncompleteBuffer) => {}
                Err(PcapError::IoError(error)) => return Err(error.into()),
                Err(error) => {
                    return Err(TraceErrorKind::Invalid { reason: error.to_string() });
                }
            }
            let available_len = self.rest().len();
            if available_len > RECORD_LEN_MAX {
                let reason = format!("longer than {RECORD_LEN_MAX} bytes");
                return Err(TraceErrorKind::Invalid { reason });
            }
            if !self.grow()? {
                return Err(TraceErrorKind::Truncated { available_len });
            }
        }
    }

    /// Sees to it that there are 4 bytes, if the file has them.
    fn first_bytes(&mut self) -> Result<&[u8], TraceErrorKind> {
        while self.rest().len() < 4 && self.grow()? {}
        Ok(self.rest())
    }
}

impl<R: Read> TraceReader<R> {
    /// Reads the head of a file and tells which format it is.
    ///
    /// # Errors
    /// Neither format; a file that ends in its head; a failing reader.
    pub fn new(reader: R) -> Result<Self, TraceError> {
        let mut input = Input { reader, buffer: Vec::new(), start: 0, offset: 0, ended: false };
        match Self::open(&mut input) {
            Ok(parser) => Ok(Self { input, parser, records_count: 0, failed: false }),
            Err(kind) => Err(TraceError { record: 0, offset: 0, kind }),
        }
    }

    fn open(input: &mut Input<R>) -> Result<Parser, TraceErrorKind> {
        let first = input.first_bytes()?;
        let (used, parser) = if first.starts_with(&PCAPNG_MAGIC) {
            let parse =
                |bytes: &[u8]| PcapNgParser::new(bytes).map(|(rest, parser)| (rest.len(), parser));
            let (used, parser) = input.parse(parse)?;
            (used, Parser::PcapNg(parser))
        } else if PCAP_MAGICS.iter().any(|magic| first.starts_with(magic)) {
            let parse =
                |bytes: &[u8]| PcapParser::new(bytes).map(|(rest, parser)| (rest.len(), parser));
            let (used, parser) = input.parse(parse)?;
            (used, Parser::Pcap(parser))
        } else {
            let first = first[..first.len().min(4)].to_vec();
            return Err(TraceErrorKind::Format { first });
        };
        input.consume(used);
        Ok(parser)
    }

    /// Records read so far.
    pub fn records_count(&self) -> u64 {
        self.records_count
    }

    /// Offset in the file of the block or record to be read next, in bytes.
    pub fn offset(&self) -> u64 {
        self.input.offset
    }

    /// The next record, or `None` at the end of the file or after an error.
    ///
    /// # Errors
    /// A file that ends within a record or is unreadable; a failing reader.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, TraceError> {
        if self.failed {
            return Ok(None);
        }
        match self.next_packet() {
            Ok(None) => Ok(None),
            Ok(Some(packet)) => {
                self.records_count += 1;
                let StoredPacket { timestamp_ns, link_type, data_start, data_len, .. } = packet;
                let original_len = packet.original_len.saturating_sub(packet.fcs_len);
                let data_len = data_len.min(original_len as usize);
                let data = &self.input.buffer[data_start..data_start + data_len];
                Ok(Some(Record { timestamp_ns, original_len, link_type, data }))
            }
            Err(kind) => {
                self.failed = true;
                Err(TraceError { record: self.records_count, offset: self.offset(), kind })
            }
        }
    }

    /// The next frame of a trace that is to be sent, or `None` as [`TraceReader::next_record`].
    ///
    /// # Errors
    /// Those of [`TraceReader::next_record`]; a frame that is not of Ethernet, that was cut, or
    /// that has no whole header.
    pub fn next_frame(&mut self) -> Result<Option<Record<'_>>, TraceError> {
        let (number, offset) = (self.records_count, self.offset());
        let Some(record) = self.next_record()? else { return Ok(None) };
        let (captured_len, original_len) = (record.data.len(), record.original_len);
        let kind = if record.link_type != LINK_ETHERNET {
            TraceErrorKind::LinkType { link_type: record.link_type }
        } else if captured_len < original_len as usize {
            TraceErrorKind::Cut { captured_len, original_len }
        } else if captured_len < ETHERNET_HEADER_LEN {
            TraceErrorKind::Short { len: captured_len }
        } else {
            return Ok(Some(record));
        };
        Err(TraceError { record: number, offset, kind })
    }

    fn next_packet(&mut self) -> Result<Option<StoredPacket>, TraceErrorKind> {
        loop {
            if self.input.rest().is_empty() && !self.input.grow()? {
                return Ok(None);
            }
            let parser = &mut self.parser;
            let (used, step) = self.input.parse(|bytes| match parser {
                Parser::Pcap(parser) => pcap_step(parser, bytes),
                Parser::PcapNg(parser) => pcapng_step(parser, bytes),
            })?;
            let start = self.input.start;
            self.input.consume(used);
            if let ParseProgress::Packet(packet) = step {
                return Ok(Some(StoredPacket { data_start: start + packet.data_start, ..packet }));
            }
        }
    }
}

/// Where `part` lies in `bytes`.
fn position(bytes: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize)
}

/// The raw record is taken: the checked one refuses every frame longer than the snap length, that
/// is, just the frames that were cut by it.
fn pcap_step(parser: &PcapParser, bytes: &[u8]) -> Result<(usize, ParseProgress), PcapError> {
    let header = parser.header();
    let (rest, raw) = parser.next_raw_packet(bytes)?;
    let data = borrowed(&raw.data);
    let link = u32::from(header.datalink);
    let packet = StoredPacket {
        timestamp_ns: u64::from(raw.ts_sec) * 1_000_000_000 + fraction_ns(&header, raw.ts_frac),
        original_len: raw.orig_len,
        fcs_len: fcs_len(link),
        link_type: link & 0xffff, // the rest is about the FCS
        data_start: position(bytes, data),
        data_len: data.len(),
    };
    Ok((rest.len(), ParseProgress::Packet(packet)))
}

/// Bytes of FCS behind each frame, by the link type of a pcap file: where the bit `P` is set, the
/// highest four bits count them in words of 16 bits.
fn fcs_len(link: u32) -> u32 {
    const P: u32 = 1 << 26;
    if link & P == 0 { 0 } else { (link >> 28) * 2 }
}

fn fraction_ns(header: &PcapHeader, fraction: u32) -> u64 {
    match header.ts_resolution {
        TsResolution::MicroSecond => u64::from(fraction) * 1000,
        TsResolution::NanoSecond => u64::from(fraction),
    }
}

/// The parser lends slices of its input; an owned copy would lie elsewhere.
fn borrowed<'a>(data: &Cow<'a, [u8]>) -> &'a [u8] {
    match data {
        Cow::Borrowed(data) => data,
        Cow::Owned(_) => &[],
    }
}

fn pcapng_step(
    parser: &mut PcapNgParser,
    bytes: &[u8],
) -> Result<(usize, ParseProgress), PcapError> {
    let (rest, block) = parser.next_block(bytes)?;
    let (interface_id, ticks, original_len, data) = match &block {
        Block::EnhancedPacket(block) => {
            // The crate takes ticks for nanoseconds, whatever the interface says.
            let ticks = block.timestamp.as_nanos() as u64;
            (block.interface_id, ticks, block.original_len, borrowed(&block.data))
        }
        Block::Packet(block) => {
            // Two words, high first; the crate reads them as one number in the file's order.
            let ticks = match parser.section().endianness {
                Endianness::Big => block.timestamp,
                Endianness::Little => block.timestamp.rotate_left(32),
            };
            (block.interface_id.into(), ticks, block.original_len, borrowed(&block.data))
        }
        Block::SimplePacket(block) => (0, 0, block.original_len, borrowed(&block.data)),
        _ => return Ok((rest.len(), ParseProgress::Other)),
    };
    let interface = parser
        .interfaces()
        .get(interface_id as usize)
        .ok_or(PcapError::InvalidInterfaceId(interface_id))?;
    let fcs_len = match flags(&block) >> 5 & 0xf {
        0 => interface_fcs_len(interface)?,
        own => own,
    };
    let mut data_len = data.len();
    if matches!(block, Block::SimplePacket(_)) {
        data_len = simple_len(data_len, original_len, interface.snaplen);
    }
    let packet = StoredPacket {
        timestamp_ns: ticks_ns(ticks, interface),
        original_len,
        fcs_len,
        link_type: interface.linktype.into(),
        data_start: position(bytes, data),
        data_len,
    };
    Ok((rest.len(), ParseProgress::Packet(packet)))
}

/// The word of flags of a packet block, 0 where it has none.
fn flags(block: &Block<'_>) -> u32 {
    let flags = match block {
        Block::EnhancedPacket(block) => block.options.iter().find_map(|option| match option {
            EnhancedPacketOption::Flags(flags) => Some(*flags),
            _ => None,
        }),
        Block::Packet(block) => block.options.iter().find_map(|option| match option {
            PacketOption::Flags(flags) => Some(*flags),
            _ => None,
        }),
        _ => None,
    };
    flags.unwrap_or(0)
}

/// Bytes of FCS behind each frame of an interface. The draft counts them in bits and has 4 as its
/// example, which capture tools take for bytes: an Ethernet FCS is known by either number.
fn interface_fcs_len(interface: &InterfaceDescriptionBlock<'_>) -> Result<u32, PcapError> {
    if u32::from(interface.linktype) != LINK_ETHERNET {
        return Ok(0);
    }
    let fcs_len = interface.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfFcsLen(len) => Some(*len),
        _ => None,
    });
    match fcs_len {
        None | Some(0) => Ok(0),
        Some(4 | 32) => Ok(4),
        Some(_) => Err(PcapError::InvalidField("if_fcslen: an Ethernet FCS has 4 bytes")),
    }
}

/// A simple packet block does not say how much was captured: all there was, or the snap length
/// where there is one; its data is padded.
fn simple_len(padded_len: usize, original_len: u32, snap_len: u32) -> usize {
    let captured_len = match snap_len {
        0 => original_len,
        limit => original_len.min(limit),
    };
    padded_len.min(captured_len as usize)
}

/// Nanoseconds since 1970 of a time stamp in the interface's unit (`if_tsresol`, microseconds
/// where it is not given) and with its offset in seconds (`if_tsoffset`).
fn ticks_ns(ticks: u64, interface: &InterfaceDescriptionBlock<'_>) -> u64 {
    let (mut resolution, mut offset_s) = (6, 0);
    for option in &interface.options {
        match option {
            InterfaceDescriptionOption::IfTsResol(value) => resolution = *value,
            InterfaceDescriptionOption::IfTsOffset(value) => offset_s = *value as i64,
            _ => {}
        }
    }
    let ns = scale_ns(ticks, resolution);
    let ns = i128::from(ns) + i128::from(offset_s) * 1_000_000_000;
    ns.clamp(0, i128::from(u64::MAX)) as u64
}

/// `ticks` in nanoseconds: a unit is 10^-n seconds, or 2^-n where the highest bit is set.
fn scale_ns(ticks: u64, resolution: u8) -> u64 {
    let ticks = u128::from(ticks);
    let exponent = u32::from(resolution & 0x7f);
    let ns = match (resolution & 0x80, exponent) {
        (0, 0..=9) => ticks * 10u128.pow(9 - exponent),
        (0, _) => 10u128.checked_pow(exponent - 9).map_or(0, |unit| ticks / unit),
        (_, 0..=64) => (ticks * 1_000_000_000) >> exponent,
        (_, _) => 0,
    };
    ns.min(u64::MAX.into()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_time() {
        for (ticks, resolution, ns) in [
            (7, 0, 7_000_000_000),
            (7, 6, 7_000),
            (7, 9, 7),
            (7_999, 12, 7),
            (3, 0x81, 1_500_000_000),
            (1 << 32, 0xa0, 1_000_000_000),
            (u64::MAX, 0, u64::MAX),
            (u64::MAX, 127, 0),
            (u64::MAX, 255, 0),
        ] {
            assert_eq!(scale_ns(ticks, resolution), ns, "{ticks} {resolution:#x}");
        }
    }

    #[test]
    fn simple_packets_lose_their_padding() {
        assert_eq!(simple_len(64, 61, 0), 61);
        assert_eq!(simple_len(64, 1500, 62), 62);
        assert_eq!(simple_len(64, 1500, 0), 64);
    }
}
