//! Packet traces: pcap and pcapng, record by record or as a whole in memory.
//!
//! A [`TraceReader`] takes either format in either byte order from any `std::io::Read`; a
//! [`Writer`] writes both. A file that ends early or turns unreadable gives an error with the
//! record number and the byte offset, after every record before it; a [`Trace`] then keeps those.
//!
//! Whoever sends the frames of a trace reads them by [`TraceReader::next_frame`] or
//! [`Trace::load_whole`], which refuse what cannot be sent as it was: frames of another link type
//! than Ethernet, frames that the capture cut, and frames without a whole header.

mod reader;
mod writer;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use niclab_files::FileError;
use thiserror::Error;

pub use reader::TraceReader;
pub use writer::{Endian, Format, Resolution, Writer};

use crate::limits::{TRACE_LEN_MAX, TRACE_RECORDS_MAX};

/// Link type of Ethernet frames without FCS (`LINKTYPE_ETHERNET`).
pub const LINK_ETHERNET: u32 = 1;

/// Bytes of an Ethernet header: two addresses and a type.
pub const ETHERNET_HEADER_LEN: usize = 14;

/// Names of link types that traces have in place of Ethernet, as of the list of tcpdump.org.
const LINK_NAMES: [(u32, &str); 18] = [
    (0, "BSD loopback"),
    (9, "PPP"),
    (10, "FDDI"),
    (12, "raw IP"),
    (14, "raw IP"),
    (101, "raw IP"),
    (105, "IEEE 802.11"),
    (108, "OpenBSD loopback"),
    (113, "Linux cooked capture, as of `tcpdump -i any`"),
    (127, "IEEE 802.11 with radiotap"),
    (189, "USB"),
    (195, "IEEE 802.15.4"),
    (220, "USB"),
    (228, "raw IPv4"),
    (229, "raw IPv6"),
    (239, "NFLOG"),
    (253, "netlink"),
    (276, "Linux cooked capture, as of `tcpdump -i any`"),
];

/// The name of a link type in parentheses, with a blank before it; nothing where it has none.
fn link_name(link_type: u32) -> String {
    let named = LINK_NAMES.iter().find(|(number, _)| *number == link_type);
    named.map_or_else(String::new, |(_, name)| format!(" ({name})"))
}

/// One frame of a trace, without its FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time of capture in nanoseconds since 1970-01-01 UTC; 0 where the file has none.
    pub timestamp_ns: u64,
    /// Length on the wire in bytes, without FCS; at least that of `data`.
    pub original_len: u32,
    /// What the data is: [`LINK_ETHERNET`] or another number of the tcpdump.org list.
    pub link_type: u32,
    /// The bytes captured, without those of the FCS and without what is beyond the original length.
    pub data: &'a [u8],
}

/// What went wrong in a file, and where.
#[derive(Debug, Error)]
#[error("record {} at byte {offset}: {kind}", record + 1)]
pub struct TraceError {
    /// Number of the record that could not be read, from 0: as many came before it. Messages count
    /// from 1, as capture tools do.
    pub record: u64,
    /// Offset of the block or record that could not be read, in bytes.
    pub offset: u64,
    /// What went wrong.
    pub kind: TraceErrorKind,
}

/// What can go wrong with a trace.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceErrorKind {
    /// A frame of which the file has the first part only.
    #[error(
        "a frame of {original_len} B, of which the file has the first {captured_len} B: capture \
         whole frames (tcpdump -s 0), or leave out those that were cut (tshark -r IN -Y \
         'frame.cap_len == frame.len' -w OUT)"
    )]
    Cut {
        /// Bytes in the file.
        captured_len: usize,
        /// Bytes on the wire.
        original_len: u32,
    },
    /// Neither pcap nor pcapng.
    #[error("not a pcap or pcapng file (first bytes {first:02x?}): give one")]
    Format {
        /// The first four bytes, fewer if there are not so many.
        first: Vec<u8>,
    },
    /// A field with a value it must not have.
    #[error("unreadable: {reason}")]
    Invalid {
        /// Which, and what of it.
        reason: String,
    },
    /// The reader or writer below failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Frames of another link type where Ethernet is needed.
    #[error(
        "link type {link_type}{} is not Ethernet (1): capture at an Ethernet interface",
        link_name(*link_type)
    )]
    LinkType {
        /// The type found.
        link_type: u32,
    },
    /// More than a [`Trace`] may hold.
    #[error(
        "over the limit of {len_max} bytes of frames or {records_max} records: divide the file \
         (editcap -c N IN OUT)"
    )]
    Limit {
        /// Bytes of frames it may hold.
        len_max: usize,
        /// Records it may hold.
        records_max: usize,
    },
    /// A frame without a whole Ethernet header.
    #[error(
        "a frame of {len} B is shorter than an Ethernet header ({ETHERNET_HEADER_LEN} B): \
         leave it out"
    )]
    Short {
        /// Its bytes.
        len: usize,
    },
    /// The file ends within a record.
    #[error(
        "the file ends within it, {available_len} bytes after its start: repair the file (editcap \
         IN OUT), or give another"
    )]
    Truncated {
        /// Bytes of the record that are there.
        available_len: usize,
    },
}

/// How much a [`Trace`] may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLimits {
    /// Bytes of all frames together.
    pub len_max: usize,
    /// Records.
    pub records_max: usize,
}

impl Default for TraceLimits {
    /// [`TRACE_LEN_MAX`] and [`TRACE_RECORDS_MAX`].
    fn default() -> Self {
        Self { len_max: TRACE_LEN_MAX, records_max: TRACE_RECORDS_MAX }
    }
}

/// Where a frame lies in the arena, and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ArenaFrame {
    timestamp_ns: u64,
    start: usize,
    captured_len: u32,
    original_len: u32,
}

/// Ethernet frames in memory: one arena, and where each lies in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    arena: Vec<u8>,
    entries: Vec<ArenaFrame>,
}

/// A trace that could not be read to its end.
#[derive(Debug, Error)]
#[error("{error} ({} records before it were read)", .trace.len())]
pub struct Incomplete {
    /// What was read until then.
    pub trace: Trace,
    /// What went wrong.
    #[source]
    pub error: TraceError,
}

/// Which records of a file are read, and which are refused.
type RecordReader<R> = for<'a> fn(&'a mut TraceReader<R>) -> Result<Option<Record<'a>>, TraceError>;

/// Opens a trace. A pipe is refused and not waited for: traces are read more than once.
///
/// # Errors
/// [`FileError::NotFile`], [`FileError::System`].
pub fn open(path: &Path) -> Result<BufReader<File>, FileError> {
    let file = niclab_files::open(path)?;
    match niclab_files::other_than_file(file.metadata()?.file_type()) {
        Some(what) => Err(FileError::NotFile { what }),
        None => Ok(BufReader::new(file)),
    }
}

impl Trace {
    /// An empty trace.
    pub const fn new() -> Self {
        Self { arena: Vec::new(), entries: Vec::new() }
    }

    /// Reads all records of a file.
    ///
    /// # Errors
    /// [`Incomplete`], which holds the records before the one that could not be read: the file
    /// ends early or is unreadable, a record is not Ethernet, a limit is met.
    pub fn load<R: Read>(reader: R, limits: TraceLimits) -> Result<Self, Box<Incomplete>> {
        Self::read(reader, limits, TraceReader::next_record)
    }

    /// Reads all frames of a file that is to be sent.
    ///
    /// # Errors
    /// Those of [`Trace::load`] and of [`TraceReader::next_frame`].
    pub fn load_whole<R: Read>(reader: R, limits: TraceLimits) -> Result<Self, Box<Incomplete>> {
        Self::read(reader, limits, TraceReader::next_frame)
    }

    fn read<R: Read>(
        reader: R,
        limits: TraceLimits,
        next: RecordReader<R>,
    ) -> Result<Self, Box<Incomplete>> {
        let mut trace = Self::new();
        match TraceReader::new(reader)
            .and_then(|mut reader| trace.extend(&mut reader, limits, next))
        {
            Ok(()) => Ok(trace),
            Err(error) => Err(Box::new(Incomplete { trace, error })),
        }
    }

    fn extend<R: Read>(
        &mut self,
        reader: &mut TraceReader<R>,
        limits: TraceLimits,
        next: RecordReader<R>,
    ) -> Result<(), TraceError> {
        loop {
            let (record, offset) = (reader.records_count(), reader.offset());
            let added = match next(reader)? {
                None => return Ok(()),
                Some(next) => self.push_within(next, limits),
            };
            added.map_err(|kind| TraceError { record, offset, kind })?;
        }
    }

    fn push_within(
        &mut self,
        record: Record<'_>,
        limits: TraceLimits,
    ) -> Result<(), TraceErrorKind> {
        let TraceLimits { len_max, records_max } = limits;
        if record.link_type != LINK_ETHERNET {
            return Err(TraceErrorKind::LinkType { link_type: record.link_type });
        }
        if self.arena.len() + record.data.len() > len_max || self.len() >= records_max {
            return Err(TraceErrorKind::Limit { len_max, records_max });
        }
        self.push(record.timestamp_ns, record.original_len, record.data);
        Ok(())
    }

    /// Adds a frame; an `original_len` below the data's is raised to it.
    pub fn push(&mut self, timestamp_ns: u64, original_len: u32, data: &[u8]) {
        let captured_len = data.len() as u32;
        let original_len = original_len.max(captured_len);
        let start = self.arena.len();
        self.arena.extend_from_slice(data);
        self.entries.push(ArenaFrame { timestamp_ns, start, captured_len, original_len });
    }

    /// Number of frames.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all frames together.
    pub fn bytes_len(&self) -> usize {
        self.arena.len()
    }

    /// Frame `index`, or `None` beyond the last.
    pub fn record(&self, index: usize) -> Option<Record<'_>> {
        self.entries.get(index).map(|entry| self.at(entry))
    }

    /// All frames, in their order.
    pub fn records(&self) -> impl ExactSizeIterator<Item = Record<'_>> {
        self.entries.iter().map(|entry| self.at(entry))
    }

    fn at(&self, entry: &ArenaFrame) -> Record<'_> {
        Record {
            timestamp_ns: entry.timestamp_ns,
            original_len: entry.original_len,
            link_type: LINK_ETHERNET,
            data: &self.arena[entry.start..][..entry.captured_len as usize],
        }
    }
}

#[cfg(test)]
mod tests;
