//! Packet traces: pcap and pcapng, record by record or as a whole in memory.
//!
//! A [`Reader`] takes either format in either byte order from any `std::io::Read`; a [`Writer`]
//! writes both. A file that ends early or turns unreadable gives an error with the record number
//! and the byte offset, after every record before it; a [`Trace`] then keeps those.

mod reader;
mod writer;

use std::io::Read;

use thiserror::Error;

pub use reader::Reader;
pub use writer::{Endian, Format, Resolution, Writer};

use crate::limits::{TRACE_LEN_MAX, TRACE_RECORDS_MAX};

/// Link type of Ethernet frames without FCS (`LINKTYPE_ETHERNET`).
pub const LINK_ETHERNET: u32 = 1;

/// One frame of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time of capture in nanoseconds since 1970-01-01 UTC; 0 where the file has none.
    pub timestamp_ns: u64,
    /// Length on the wire in bytes; at least that of `data`.
    pub original_len: u32,
    /// What the data is: [`LINK_ETHERNET`] or another number of the tcpdump.org list.
    pub link_type: u32,
    /// The bytes captured.
    pub data: &'a [u8],
}

/// What went wrong in a file, and where.
#[derive(Debug, Error)]
#[error("record {record} at byte {offset}: {kind}")]
pub struct TraceError {
    /// Number of the record that could not be read, from 0: as many came before it.
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
    /// Neither pcap nor pcapng.
    #[error("not a pcap or pcapng file (first bytes {first:02x?})")]
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
    #[error("link type {link_type} is not Ethernet (1); convert the file first")]
    LinkType {
        /// The type found.
        link_type: u32,
    },
    /// More than a [`Trace`] may hold.
    #[error(
        "over the limit of {len_max} bytes or {records_max} records; raise the limit or cut \
             the file"
    )]
    Limit {
        /// Bytes of frames it may hold.
        len_max: usize,
        /// Records it may hold.
        records_max: usize,
    },
    /// The file ends within a record.
    #[error("the file ends within it, {available_len} bytes after its start")]
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
struct Entry {
    timestamp_ns: u64,
    start: usize,
    captured_len: u32,
    original_len: u32,
}

/// Ethernet frames in memory: one arena, and where each lies in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    arena: Vec<u8>,
    entries: Vec<Entry>,
}

/// A trace that could not be read to its end.
#[derive(Debug, Error)]
#[error("{error}; {} records before it were read", .trace.len())]
pub struct Incomplete {
    /// What was read until then.
    pub trace: Trace,
    /// What went wrong.
    #[source]
    pub error: TraceError,
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
        let mut trace = Self::new();
        match Reader::new(reader).and_then(|mut reader| trace.extend(&mut reader, limits)) {
            Ok(()) => Ok(trace),
            Err(error) => Err(Box::new(Incomplete { trace, error })),
        }
    }

    /// Adds the records `reader` still has.
    ///
    /// # Errors
    /// Those of [`Trace::load`]; the records before are in the trace.
    pub fn extend<R: Read>(
        &mut self,
        reader: &mut Reader<R>,
        limits: TraceLimits,
    ) -> Result<(), TraceError> {
        loop {
            let (record, offset) = (reader.records_count(), reader.offset());
            let added = match reader.next_record()? {
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
        self.entries.push(Entry { timestamp_ns, start, captured_len, original_len });
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

    fn at(&self, entry: &Entry) -> Record<'_> {
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
