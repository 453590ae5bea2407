//! Writing pcap and pcapng.

use std::borrow::Cow;
use std::io::Write;
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapWriter, RawPcapPacket};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};

use super::{LINK_ETHERNET, Record, TraceError, TraceErrorKind};

/// Length beyond which a frame would be cut, as stated in files: none of ours is.
const SNAP_LEN: u32 = 262_144;

/// Byte order of a file's own fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endian {
    /// Big end first.
    Big,
    /// Little end first.
    #[default]
    Little,
}

/// Unit of a file's time stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolution {
    /// Microseconds; what is beyond is dropped.
    Micro,
    /// Nanoseconds.
    #[default]
    Nano,
}

impl Resolution {
    const fn unit_ns(self) -> u64 {
        match self {
            Self::Micro => 1000,
            Self::Nano => 1,
        }
    }
}

/// What kind of file to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcap; time stamps end in 2106.
    Pcap(Endian, Resolution),
    /// pcapng, one section with one interface.
    PcapNg(Endian, Resolution),
}

enum Inner<W: Write> {
    Pcap(PcapWriter<W>),
    PcapNg(PcapNgWriter<W>),
}

/// Writes Ethernet frames to a pcap or pcapng file. Give it a buffered `Write`, and
/// [`Writer::finish`] it.
pub struct Writer<W: Write> {
    inner: Inner<W>,
    resolution: Resolution,
    records_count: u64,
    offset: u64,
}

impl<W: Write> Writer<W> {
    /// Writes the head of a file.
    ///
    /// # Errors
    /// A failing `writer`.
    pub fn new(writer: W, format: Format) -> Result<Self, TraceError> {
        let (inner, resolution, offset) = match format {
            Format::Pcap(endian, resolution) => {
                (Inner::Pcap(open_pcap(writer, endian, resolution)?), resolution, 24)
            }
            Format::PcapNg(endian, resolution) => {
                let (writer, len) = open_pcapng(writer, endian, resolution)?;
                (Inner::PcapNg(writer), resolution, len)
            }
        };
        Ok(Self { inner, resolution, records_count: 0, offset })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// A link type other than Ethernet; a time stamp the format cannot hold; a failing writer.
    pub fn write(&mut self, record: &Record<'_>) -> Result<(), TraceError> {
        let written = match record.link_type {
            LINK_ETHERNET => self.write_ethernet(record),
            link_type => Err(TraceErrorKind::LinkType { link_type }),
        };
        let fail = |kind| TraceError { record: self.records_count, offset: self.offset, kind };
        let len = written.map_err(fail)?;
        self.offset += len as u64;
        self.records_count += 1;
        Ok(())
    }

    fn write_ethernet(&mut self, record: &Record<'_>) -> Result<usize, TraceErrorKind> {
        let ticks = record.timestamp_ns / self.resolution.unit_ns();
        let original_len = record.original_len.max(record.data.len() as u32);
        let len = match &mut self.inner {
            Inner::Pcap(writer) => {
                let per_second = 1_000_000_000 / self.resolution.unit_ns();
                let packet = RawPcapPacket {
                    ts_sec: seconds(ticks / per_second)?,
                    ts_frac: (ticks % per_second) as u32,
                    incl_len: record.data.len() as u32,
                    orig_len: original_len,
                    data: Cow::Borrowed(record.data),
                };
                writer.write_raw_packet(&packet).map_err(kind_of)?;
                16 + record.data.len()
            }
            Inner::PcapNg(writer) => {
                let block = EnhancedPacketBlock {
                    interface_id: 0,
                    timestamp: Duration::from_nanos(ticks), // the crate writes it as ticks
                    original_len,
                    data: Cow::Borrowed(record.data),
                    options: vec![],
                };
                writer.write_pcapng_block(block).map_err(kind_of)?
            }
        };
        Ok(len)
    }

    /// Records written so far.
    pub fn records_count(&self) -> u64 {
        self.records_count
    }

    /// Bytes written so far, the head of the file included.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Flushes, and gives the writer below back.
    ///
    /// # Errors
    /// A failing writer.
    pub fn finish(self) -> Result<W, TraceError> {
        let mut writer = match self.inner {
            Inner::Pcap(writer) => writer.into_writer(),
            Inner::PcapNg(writer) => writer.into_inner(),
        };
        let (record, offset) = (self.records_count, self.offset);
        match writer.flush() {
            Ok(()) => Ok(writer),
            Err(error) => Err(TraceError { record, offset, kind: error.into() }),
        }
    }
}

fn open_pcap<W: Write>(
    writer: W,
    endian: Endian,
    resolution: Resolution,
) -> Result<PcapWriter<W>, TraceError> {
    let header = PcapHeader {
        snaplen: SNAP_LEN,
        datalink: DataLink::ETHERNET,
        ts_resolution: match resolution {
            Resolution::Micro => TsResolution::MicroSecond,
            Resolution::Nano => TsResolution::NanoSecond,
        },
        endianness: endianness(endian),
        ..PcapHeader::default()
    };
    PcapWriter::with_header(writer, header).map_err(at_head)
}

/// The writer, and the bytes written so far.
fn open_pcapng<W: Write>(
    writer: W,
    endian: Endian,
    resolution: Resolution,
) -> Result<(PcapNgWriter<W>, u64), TraceError> {
    const SECTION_LEN: u64 = 28; // a section header block without options
    let mut writer = PcapNgWriter::with_endianness(writer, endianness(endian)).map_err(at_head)?;
    let exponent = match resolution {
        Resolution::Micro => 6,
        Resolution::Nano => 9,
    };
    let interface = InterfaceDescriptionBlock {
        linktype: DataLink::ETHERNET,
        snaplen: SNAP_LEN,
        options: vec![InterfaceDescriptionOption::IfTsResol(exponent)],
    };
    let len = writer.write_pcapng_block(interface).map_err(at_head)?;
    Ok((writer, SECTION_LEN + len as u64))
}

const fn endianness(endian: Endian) -> Endianness {
    match endian {
        Endian::Big => Endianness::Big,
        Endian::Little => Endianness::Little,
    }
}

fn seconds(seconds: u64) -> Result<u32, TraceErrorKind> {
    seconds.try_into().map_err(|_| TraceErrorKind::Invalid {
        reason: format!("{seconds} s since 1970 is after 2106; write pcapng"),
    })
}

fn kind_of(error: PcapError) -> TraceErrorKind {
    match error {
        PcapError::IoError(error) => error.into(),
        other => TraceErrorKind::Invalid { reason: other.to_string() },
    }
}

fn at_head(error: PcapError) -> TraceError {
    TraceError { record: 0, offset: 0, kind: kind_of(error) }
}
