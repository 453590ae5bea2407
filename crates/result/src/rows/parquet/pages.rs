//! Pages of a column whose headers are checked before anything is decompressed.
//!
//! The Parquet reader allocates whatever size a header claims. So [`CheckedPages`] reads each
//! header first, and refuses one that this crate's writer would not write: other kinds of page,
//! other encodings, statistics, or sizes beyond those of rows. The layout of a header is that of
//! `parquet.thrift` (Apache Parquet, format 2), in Thrift's compact protocol.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::ReaderProperties;
use parquet::file::serialized_reader::SerializedPageReader;

use super::TEXT_LEN_MAX;

/// Largest page, bytes: the writer closes one at a mebibyte, or 1024 texts later.
const PAGE_LEN_MAX: u32 = 8 << 20;
/// Most entries of a dictionary: a mebibyte of numbers of four bytes.
const ENTRIES_MAX: u32 = 1 << 18;
/// Longest value of a page, bytes: a text with its length.
const VALUE_LEN_MAX: u64 = TEXT_LEN_MAX as u64 + 4;
/// Bytes of a page that are no values.
const SLACK_LEN: u64 = 64;
/// Longest header, bytes: one of the writer takes some 30.
const HEADER_LEN_MAX: usize = 128;

/// Kinds of page.
const DATA_PAGE: u32 = 0;
const DICTIONARY_PAGE: u32 = 2;
/// Encodings: plain, dictionary in the words of Parquet 1, and of Parquet 2.
const ENCODINGS: [u32; 3] = [0, 2, 8];

/// The pages of a column of a row group.
pub(super) struct CheckedPages {
    pages: SerializedPageReader<File>,
    file: Arc<File>,
    /// Where the next header is, and where the column ends.
    next: u64,
    end: u64,
}

impl CheckedPages {
    pub fn new(
        file: &Arc<File>,
        column: &ColumnChunkMetaData,
        rows: usize,
    ) -> Result<CheckedPages, ParquetError> {
        let (next, len) = column.byte_range();
        let properties = ReaderProperties::builder().set_read_page_statistics(false).build();
        let pages = SerializedPageReader::new_with_properties(
            Arc::clone(file),
            column,
            rows,
            None,
            properties.into(),
        )?;
        Ok(CheckedPages { pages, file: Arc::clone(file), next, end: next.saturating_add(len) })
    }

    /// Checks the next page, if there is one, and steps over it.
    fn check(&mut self) -> Result<(), ParquetError> {
        if self.next >= self.end {
            return Ok(());
        }
        let place = self.next;
        let wrong =
            |reason: String| ParquetError::General(format!("page at byte {place}: {reason}"));
        let mut bytes = [0; HEADER_LEN_MAX];
        let len = read_some(&self.file, &mut bytes, place).map_err(|e| wrong(e.to_string()))?;
        let header = PageHeader::read(&bytes[..len]).map_err(wrong)?;
        header.check().map_err(wrong)?;
        self.next += header.len as u64 + u64::from(header.stored_len);
        if self.next > self.end {
            return Err(wrong("longer than its column".to_owned()));
        }
        Ok(())
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        self.check()?;
        self.pages.get_next_page()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.check()?;
        self.pages.skip_next_page()
    }
}

/// Fills `bytes` as far as the file goes; their number.
fn read_some(file: &File, bytes: &mut [u8], place: u64) -> io::Result<usize> {
    let mut len = 0;
    while len < bytes.len() {
        match file.read_at(&mut bytes[len..], place + len as u64) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// What a header says.
#[derive(Debug, Default, PartialEq)]
struct PageHeader {
    kind: Option<u32>,
    /// Length of the page once decompressed, bytes.
    whole_len: Option<u32>,
    /// Its length in the file, bytes.
    stored_len: u32,
    /// Values of a data page, entries of a dictionary.
    values: Option<u32>,
    encoding: Option<u32>,
    /// Bytes of the header itself.
    len: usize,
}

impl PageHeader {
    fn read(bytes: &[u8]) -> Result<PageHeader, String> {
        let mut header = PageHeader::default();
        let mut compact = Compact { bytes, at: 0 };
        let mut inner = None;
        let mut field = 0;
        while let Some((id, kind)) = compact.field(field)? {
            field = id;
            match (id, kind) {
                (1, INTEGER) => header.kind = Some(compact.number()?),
                (2, INTEGER) => header.whole_len = Some(compact.number()?),
                (3, INTEGER) => header.stored_len = compact.number()?,
                // Of a data page, and of a dictionary.
                (5 | 7, STRUCTURE) if inner.is_none() => {
                    inner = Some(id);
                    header.read_inner(&mut compact)?;
                }
                _ => return Err(format!("field {id} of its header is not niclab's")),
            }
        }
        let expected = if header.kind == Some(DICTIONARY_PAGE) { 7 } else { 5 };
        if inner != Some(expected) {
            return Err("its header is of another kind of page".to_owned());
        }
        header.len = compact.at;
        Ok(header)
    }

    /// The part of one kind of page: values and encoding first in both.
    fn read_inner(&mut self, compact: &mut Compact<'_>) -> Result<(), String> {
        let mut field = 0;
        while let Some((id, kind)) = compact.field(field)? {
            field = id;
            match (id, kind) {
                (1, INTEGER) => self.values = Some(compact.number()?),
                (2, INTEGER) => self.encoding = Some(compact.number()?),
                // Encodings of levels, which rows have none of.
                (3 | 4, INTEGER) => _ = compact.number()?,
                // Whether a dictionary is sorted: the kind is the value.
                (3, TRUE | FALSE) => {}
                _ => return Err(format!("field {id} of its values is not niclab's")),
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let (Some(kind), Some(whole_len), Some(values), Some(encoding)) =
            (self.kind, self.whole_len, self.values, self.encoding)
        else {
            return Err("its header is incomplete".to_owned());
        };
        if ![DATA_PAGE, DICTIONARY_PAGE].contains(&kind) || !ENCODINGS.contains(&encoding) {
            return Err(format!("kind {kind} and encoding {encoding} are not niclab's"));
        }
        if whole_len > PAGE_LEN_MAX || self.stored_len > PAGE_LEN_MAX {
            let len = whole_len.max(self.stored_len);
            return Err(format!("{len} bytes are more than {PAGE_LEN_MAX}, the limit of a page"));
        }
        if u64::from(whole_len) > u64::from(values) * VALUE_LEN_MAX + SLACK_LEN {
            let values = if values == 1 { "1 value" } else { &format!("{values} values") };
            return Err(format!("{whole_len} bytes are too many for {values}"));
        }
        if kind == DICTIONARY_PAGE && values > ENTRIES_MAX {
            return Err(format!("{values} entries are more than {ENTRIES_MAX}, the limit"));
        }
        Ok(())
    }
}

/// Types of fields.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const INTEGER: u8 = 5;
const STRUCTURE: u8 = 12;

/// Thrift's compact protocol.
struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Compact<'_> {
    fn byte(&mut self) -> Result<u8, String> {
        let byte = self.bytes.get(self.at).ok_or("its header has no end")?;
        self.at += 1;
        Ok(*byte)
    }

    /// Number and type of the next field; none at the end of the structure. Fields ascend, and
    /// their distance fits in the byte of the type.
    fn field(&mut self, before: u8) -> Result<Option<(u8, u8)>, String> {
        match self.byte()? {
            0 => Ok(None),
            byte if byte >> 4 == 0 => Err("its header is not niclab's".to_owned()),
            byte => Ok(Some((before.saturating_add(byte >> 4), byte & 0xf))),
        }
    }

    /// A number that is not negative: seven bits a byte, the lowest first, times two.
    fn number(&mut self) -> Result<u32, String> {
        let mut number = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let half = number.is_multiple_of(2).then_some(number / 2);
                let fits = half.and_then(|half| u32::try_from(half).ok());
                return fits
                    .filter(|of| *of <= i32::MAX as u32)
                    .ok_or("a negative size".to_owned());
            }
        }
        Err("a size that is too long".to_owned())
    }
}
