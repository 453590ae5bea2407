//! Rows as Parquet files: written in groups of bounded size, read in batches of bounded size.
//!
//! A file may come from anybody. Its columns are checked before a row is read, and each text and
//! number while it is read; the size of a row group does not matter for the memory that a reader
//! needs. Texts are dictionary-coded, pages are compressed by Snappy.

mod fence;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use niclab_files::FileError;
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::column::reader::{ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::{COLUMNS, MetricRow};
use fence::fenced;

/// Rows of a row group that is written.
const GROUP_ROWS: usize = 1 << 17;
/// Rows that a reader holds at a time.
const BATCH_ROWS: usize = 1 << 14;
/// Longest text of a cell, bytes.
pub const TEXT_LEN_MAX: usize = 4096;
/// Most rows that are read from a file.
pub const ROWS_MAX: i64 = 1 << 28;
/// Largest description at the end of a file, bytes: each row group takes some two kilobytes of it.
const FOOTER_LEN_MAX: u32 = 64 << 20;

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
    columns: [Vec<ByteArray>; 10],
    started: Vec<i64>,
    repeats: Vec<i32>,
    values: Vec<f64>,
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
        })
    }

    /// Writes a row.
    ///
    /// # Errors
    /// [`RowsFileError::Unwritten`]
    pub fn write(&mut self, row: &MetricRow<'_>) -> Result<(), RowsFileError> {
        let texts = [
            row.host,
            row.device,
            row.firmware,
            row.driver,
            row.experiment,
            row.point,
            row.trial,
            row.metric,
            row.unit,
            row.marks,
        ];
        for (column, text) in self.columns.iter_mut().zip(texts) {
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
    let reader = fenced(|| SerializedFileReader::new(file)).map_err(|e| damaged(e.to_string()))?;
    check_schema(&reader).map_err(damaged)?;
    let mut done = 0;
    for at in 0..reader.num_row_groups() {
        let group = fenced(|| GroupReader::open(&reader, at));
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
        return Err(format!("{} columns instead of {}", columns.len(), COLUMNS.len()));
    }
    for (at, (column, name)) in columns.iter().zip(COLUMNS).enumerate() {
        let is_plain = column.max_def_level() == 0 && column.max_rep_level() == 0;
        let is_same = column.path().string() == name && column.physical_type() == physical(at);
        if !is_same || !is_plain {
            return Err(format!("column {} is not `{name}` of rows", at + 1));
        }
    }
    let groups = reader.metadata().row_groups();
    let rows: Option<i64> =
        groups.iter().try_fold(0i64, |all, of| all.checked_add(of.num_rows().max(0)));
    match rows {
        Some(rows) if rows <= ROWS_MAX && groups.iter().all(|of| of.num_rows() >= 0) => Ok(()),
        _ => Err(format!("more than {ROWS_MAX} rows")),
    }
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
    fn open(reader: &SerializedFileReader<File>, at: usize) -> Result<GroupReader, ParquetError> {
        let group = reader.get_row_group(at)?;
        let left = usize::try_from(group.metadata().num_rows()).unwrap_or_default();
        let place = |name: &str| COLUMNS.iter().position(|of| *of == name).unwrap_or_default();
        let mut texts = Vec::new();
        for column in (0..COLUMNS.len()).filter(|at| physical(*at) == PhysicalType::BYTE_ARRAY) {
            texts.push((get_typed_column_reader(group.get_column_reader(column)?), Vec::new()));
        }
        let reader = |name: &str| group.get_column_reader(place(name));
        Ok(GroupReader {
            texts,
            started: (get_typed_column_reader(reader("started_unix_ns")?), Vec::new()),
            repeats: (get_typed_column_reader(reader("repeat")?), Vec::new()),
            values: (get_typed_column_reader(reader("value")?), Vec::new()),
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
            started_unix_ns: self.started.1[place] as u64,
            experiment: text(4)?,
            point: text(5)?,
            trial: text(6)?,
            repeat: repeat.map_err(|_| "a negative repeat".to_owned())?,
            metric: text(7)?,
            value,
            unit: text(8)?,
            marks: text(9)?,
        })
    }
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
