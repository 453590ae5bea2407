//! Rows as Parquet files: written in groups of bounded size, read in batches of bounded size.
//!
//! A file may come from anybody. Its columns are checked before a row is read, the header of each
//! page before the page is (`pages`), and each text and number while it is read; the size of a row
//! group does not matter for the memory that a reader needs. Texts are dictionary-coded, pages are
//! compressed by Snappy.

mod fence;
mod pages;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use niclab_files::FileError;
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::{COLUMNS, MetricRow};
use fence::fenced;
use pages::CheckedPages;

/// Rows of a row group that is written.
const GROUP_ROWS: usize = 1 << 17;
/// Rows that a reader holds at a time: 17 MB of each column of texts at most.
const BATCH_ROWS: usize = 1 << 12;
/// Longest text of a cell, bytes.
pub const TEXT_LEN_MAX: usize = 4096;
/// Most rows of a file.
pub const ROWS_MAX: u64 = 1 << 28;
/// Largest description at the end of a file, bytes: each of at most 2048 row groups takes some two
/// kilobytes of it.
const FOOTER_LEN_MAX: u32 = 16 << 20;

/// Why a Parquet file cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowsFileError {
    /// The file cannot be opened.
    #[error("{}: {source}; give a file that `niclab export --rows` wrote", path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: FileError,
    },
    /// It is not such a file, or a part of one.
    #[error("{}: {reason}; write it again with `niclab export --rows`", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        reason: String,
    },
    /// A row that a file cannot have, because its reader would refuse it.
    #[error("{column}: {value}; a Parquet file has at most {limit}: write CSV (-o FILE.csv)")]
    Unfit {
        /// The column.
        column: &'static str,
        /// What it has.
        value: String,
        /// The limit.
        limit: u64,
    },
    /// More rows than a file can have.
    #[error(
        "more than {ROWS_MAX} rows: give fewer directories to a file, or write CSV (-o FILE.csv)"
    )]
    TooMany,
    /// It cannot be written.
    #[error("{0}")]
    Unwritten(#[from] io::Error),
}

/// Type of a column, by its place in [`COLUMNS`].
fn physical(column: usize) -> PhysicalType {
    match COLUMNS[column] {
        "started_unix_ns" => PhysicalType::INT64,
        "repeat" => PhysicalType::INT32,
        "value" => PhysicalType::DOUBLE,
        _ => PhysicalType::BYTE_ARRAY,
    }
}

fn schema() -> Result<TypePtr, ParquetError> {
    let column = |at: usize| {
        let of = physical(at);
        let is_text = of == PhysicalType::BYTE_ARRAY;
        Type::primitive_type_builder(COLUMNS[at], of)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(is_text.then_some(LogicalType::String))
            .build()
            .map(Arc::new)
    };
    let columns = (0..COLUMNS.len()).map(column).collect::<Result<_, _>>()?;
    Type::group_type_builder("row").with_fields(columns).build().map(Arc::new)
}

/// Writes rows to a Parquet file.
pub struct ParquetRows<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    /// Texts of the row group, each once.
    texts: HashMap<String, ByteArray>,
    columns: [Vec<ByteArray>; 11],
    started: Vec<i64>,
    repeats: Vec<i32>,
    values: Vec<f64>,
    /// Rows of the file.
    count: u64,
}

impl<W: Write + Send> ParquetRows<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// [`RowsFileError::Unwritten`]
    pub fn new(out: W) -> Result<ParquetRows<W>, RowsFileError> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_created_by(concat!("niclab ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer =
            SerializedFileWriter::new(out, schema().map_err(unwritten)?, properties.into());
        Ok(ParquetRows {
            writer: writer.map_err(unwritten)?,
            texts: HashMap::new(),
            columns: Default::default(),
            started: Vec::new(),
            repeats: Vec::new(),
            values: Vec::new(),
            count: 0,
        })
    }

    /// Writes a row. It refuses what [`read_rows`] would refuse.
    ///
    /// # Errors
    /// [`RowsFileError::Unfit`], [`RowsFileError::TooMany`], [`RowsFileError::Unwritten`]
    pub fn write(&mut self, row: &MetricRow<'_>) -> Result<(), RowsFileError> {
        check_row(row)?;
        if self.count == ROWS_MAX {
            return Err(RowsFileError::TooMany);
        }
        self.write_unchecked(row)
    }

    pub(super) fn write_unchecked(&mut self, row: &MetricRow<'_>) -> Result<(), RowsFileError> {
        for (column, (_, text)) in self.columns.iter_mut().zip(texts(row)) {
            // Of one allocation all cells with this text are views.
            let cell = match self.texts.get(text) {
                Some(cell) => cell.clone(),
                None => {
                    let cell = ByteArray::from(text.as_bytes().to_vec());
                    self.texts.insert(text.to_owned(), cell.clone());
                    cell
                }
            };
            column.push(cell);
        }
        self.started.push(row.started_unix_ns as i64);
        self.repeats.push(row.repeat as i32);
        self.values.push(row.value);
        self.count += 1;
        if self.values.len() == GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    /// Writes what is left, and the description at the end; returns the output.
    ///
    /// # Errors
    /// [`RowsFileError::Unwritten`]
    pub fn finish(mut self) -> Result<W, RowsFileError> {
        if !self.values.is_empty() {
            self.write_group()?;
        }
        self.writer.into_inner().map_err(unwritten)
    }

    fn write_group(&mut self) -> Result<(), RowsFileError> {
        let mut group = self.writer.next_row_group().map_err(unwritten)?;
        let mut texts = self.columns.iter();
        for name in COLUMNS {
            match name {
                "started_unix_ns" => write_column::<Int64Type, W>(&mut group, &self.started),
                "repeat" => write_column::<Int32Type, W>(&mut group, &self.repeats),
                "value" => write_column::<DoubleType, W>(&mut group, &self.values),
                _ => {
                    let cells = texts.next().map_or(&[][..], |cells| cells);
                    write_column::<ByteArrayType, W>(&mut group, cells)
                }
            }
            .map_err(unwritten)?;
        }
        group.close().map_err(unwritten)?;
        self.texts.clear();
        self.columns.iter_mut().for_each(Vec::clear);
        self.started.clear();
        self.repeats.clear();
        self.values.clear();
        Ok(())
    }
}

/// The texts of a row, by the names of their columns and in their order.
fn texts<'a>(row: &MetricRow<'a>) -> [(&'static str, &'a str); 11] {
    [
        ("host", row.host),
        ("device", row.device),
        ("firmware", row.firmware),
        ("driver", row.driver),
        ("pci_id", row.pci_id),
        ("experiment", row.experiment),
        ("point", row.point),
        ("trial", row.trial),
        ("metric", row.metric),
        ("unit", row.unit),
        ("marks", row.marks),
    ]
}

/// Checks what the reader checks.
fn check_row(row: &MetricRow<'_>) -> Result<(), RowsFileError> {
    let unfit = |column, value, limit| Err(RowsFileError::Unfit { column, value, limit });
    if let Some((column, text)) = texts(row).into_iter().find(|(_, of)| of.len() > TEXT_LEN_MAX) {
        return unfit(column, format!("a text of {} bytes", text.len()), TEXT_LEN_MAX as u64);
    }
    if row.repeat > i32::MAX as u32 {
        return unfit("repeat", row.repeat.to_string(), i32::MAX as u64);
    }
    Ok(())
}

fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    cells: &[T::T],
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<T>().write_batch(cells, None, None)?;
    column.close()
}

fn unwritten(error: ParquetError) -> RowsFileError {
    RowsFileError::Unwritten(match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    })
}

/// Gives all rows of a file to `each`, in their order.
///
/// # Errors
/// [`RowsFileError::Unread`]; [`RowsFileError::Damaged`] for another kind of file, other columns, a
/// file that was cut short, a text that is too long, and a value that is no finite number; those of
/// `each`.
pub fn read_rows<E: From<RowsFileError>>(
    path: &Path,
    each: &mut dyn FnMut(&MetricRow<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let damaged = |reason: String| RowsFileError::Damaged { path: path.to_owned(), reason };
    let unread = |source| RowsFileError::Unread { path: path.to_owned(), source };
    let file = niclab_files::open(path).map_err(unread)?;
    check_footer(&file).map_err(damaged)?;
    let copy = file.try_clone().map_err(|error| unread(error.into()))?;
    let file = Arc::new(file);
    let reader = fenced(|| SerializedFileReader::new(copy)).map_err(|e| damaged(e.to_string()))?;
    check_schema(&reader).map_err(damaged)?;
    let mut done = 0;
    for at in 0..reader.num_row_groups() {
        let group = fenced(|| GroupReader::open(&file, &reader, at));
        let mut group = group.map_err(|e| damaged(e.to_string()))?;
        loop {
            let count = fenced(|| group.read()).map_err(|e| damaged(e.to_string()))?;
            if count == 0 {
                break;
            }
            for place in 0..count {
                let number = done + place as u64 + 1;
                let row = group.row(place);
                each(&row.map_err(|reason| damaged(format!("row {number}: {reason}")))?)?;
            }
            done += count as u64;
        }
    }
    Ok(())
}

/// Checks the end of a file before its description is read.
fn check_footer(file: &File) -> Result<(), String> {
    use std::os::unix::fs::FileExt;
    let len = file.metadata().map_err(|e| e.to_string())?.len();
    let mut end = [0; 8];
    let start = len.checked_sub(end.len() as u64).ok_or("too short for a Parquet file")?;
    file.read_exact_at(&mut end, start).map_err(|e| e.to_string())?;
    let [a, b, c, d, magic @ ..] = end;
    let footer = u32::from_le_bytes([a, b, c, d]);
    if &magic != b"PAR1" {
        return Err("no Parquet file, or cut short".to_owned());
    }
    if footer > FOOTER_LEN_MAX || u64::from(footer) > start {
        return Err(format!("a description of {footer} bytes is too long"));
    }
    Ok(())
}

/// Checks names and types of the columns, and the number of rows.
fn check_schema(reader: &SerializedFileReader<File>) -> Result<(), String> {
    let file = reader.metadata().file_metadata();
    let columns = file.schema_descr().columns();
    if columns.len() != COLUMNS.len() {
        return Err(format!("number of columns: {} instead of {}", columns.len(), COLUMNS.len()));
    }
    for (at, (column, name)) in columns.iter().zip(COLUMNS).enumerate() {
        let is_plain = column.max_def_level() == 0 && column.max_rep_level() == 0;
        let is_same = column.path().string() == name && column.physical_type() == physical(at);
        if !is_same || !is_plain {
            return Err(format!("column {} is not `{name}` of rows", at + 1));
        }
    }
    let groups = reader.metadata().row_groups();
    let mut rows = 0u64;
    for group in groups {
        let of_group = u64::try_from(group.num_rows()).map_err(|_| "a negative number of rows")?;
        rows = rows.saturating_add(of_group);
    }
    if rows > ROWS_MAX { Err(format!("more than {ROWS_MAX} rows")) } else { Ok(()) }
}

/// The columns of a row group, read in step.
struct GroupReader {
    texts: Vec<(ColumnReaderImpl<ByteArrayType>, Vec<ByteArray>)>,
    started: (ColumnReaderImpl<Int64Type>, Vec<i64>),
    repeats: (ColumnReaderImpl<Int32Type>, Vec<i32>),
    values: (ColumnReaderImpl<DoubleType>, Vec<f64>),
    /// Rows that are still to be read.
    left: usize,
}

impl GroupReader {
    fn open(
        file: &Arc<File>,
        reader: &SerializedFileReader<File>,
        at: usize,
    ) -> Result<GroupReader, ParquetError> {
        let group = reader.metadata().row_group(at);
        let left = usize::try_from(group.num_rows()).unwrap_or_default();
        let columns = || (0..COLUMNS.len()).zip(group.columns());
        let texts = columns().filter(|(at, _)| physical(*at) == PhysicalType::BYTE_ARRAY);
        let texts = texts.map(|(_, column)| Ok((open_column(file, column, left)?, Vec::new())));
        let named = |name: &str| {
            let found = columns().find(|(at, _)| COLUMNS[*at] == name).map(|(_, column)| column);
            found.ok_or_else(|| ParquetError::General(format!("a row group has no `{name}`")))
        };
        Ok(GroupReader {
            texts: texts.collect::<Result<_, ParquetError>>()?,
            started: (open_column(file, named("started_unix_ns")?, left)?, Vec::new()),
            repeats: (open_column(file, named("repeat")?, left)?, Vec::new()),
            values: (open_column(file, named("value")?, left)?, Vec::new()),
            left,
        })
    }

    /// Reads a batch; the number of its rows, 0 at the end.
    fn read(&mut self) -> Result<usize, ParquetError> {
        let count = self.left.min(BATCH_ROWS);
        for (reader, cells) in &mut self.texts {
            read_cells(reader, cells, count)?;
        }
        read_cells(&mut self.started.0, &mut self.started.1, count)?;
        read_cells(&mut self.repeats.0, &mut self.repeats.1, count)?;
        read_cells(&mut self.values.0, &mut self.values.1, count)?;
        self.left -= count;
        Ok(count)
    }

    /// A row of the batch.
    fn row(&self, place: usize) -> Result<MetricRow<'_>, String> {
        let text = |column: usize| -> Result<&str, String> {
            let bytes = self.texts[column].1[place].data();
            if bytes.len() > TEXT_LEN_MAX {
                return Err(format!("a text of {} bytes is too long", bytes.len()));
            }
            std::str::from_utf8(bytes).map_err(|_| "a text is not UTF-8".to_owned())
        };
        let value = self.values.1[place];
        if !value.is_finite() {
            return Err(format!("value {value} is no finite number"));
        }
        let repeat = u32::try_from(self.repeats.1[place]);
        Ok(MetricRow {
            host: text(0)?,
            device: text(1)?,
            firmware: text(2)?,
            driver: text(3)?,
            pci_id: text(4)?,
            started_unix_ns: self.started.1[place] as u64,
            experiment: text(5)?,
            point: text(6)?,
            trial: text(7)?,
            repeat: repeat.map_err(|_| "a negative repeat".to_owned())?,
            metric: text(8)?,
            value,
            unit: text(9)?,
            marks: text(10)?,
        })
    }
}

/// A column of a row group.
fn open_column<T: DataType>(
    file: &Arc<File>,
    column: &ColumnChunkMetaData,
    rows: usize,
) -> Result<ColumnReaderImpl<T>, ParquetError> {
    let pages = CheckedPages::new(file, column, rows)?;
    Ok(ColumnReaderImpl::new(column.column_descr_ptr(), Box::new(pages)))
}

/// Reads `count` cells of a column in place of those before.
fn read_cells<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    cells: &mut Vec<T::T>,
    count: usize,
) -> Result<(), ParquetError> {
    cells.clear();
    while cells.len() < count {
        let (read, ..) = reader.read_records(count - cells.len(), None, None, cells)?;
        if read == 0 {
            return Err(ParquetError::General("a column has too few rows".to_owned()));
        }
    }
    Ok(())
}
