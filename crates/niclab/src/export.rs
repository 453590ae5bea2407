//! `niclab export`: results in other formats.

mod bencher;
mod textfile;

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use niclab_lab::origin::origins;
use niclab_lab::run::Run;
use niclab_result::rows::{CsvRows, DeviceOrigin, MetricRow, RowSource};
use niclab_result::{Environment, ResultError, write_csv};

use crate::arguments::ExportArguments;
use crate::compare::check_names;
use crate::failure::Failure;
use crate::files::NewFile;
use crate::output::{one_line, say, stdout};
use crate::rows_failure::RowsFailure;
use crate::stored;

/// Writes results in the format that was asked for.
pub fn run(arguments: &ExportArguments) -> Result<(), Failure> {
    let directories = &arguments.directories;
    check_names(directories)?;
    let format = &arguments.format;
    if format.rows {
        return match &arguments.output {
            None => to_stdout(|out| rows_as_csv(directories, out)),
            Some(path) => rows_to_file(directories, path),
        };
    }
    let [directory] = &directories[..] else {
        return Err(RowsFailure::OneDirectory { count: directories.len() }.into());
    };
    if let Some(place) = &format.textfile {
        return textfile::write(directory, place);
    }
    if format.bencher {
        return bencher::print(directory);
    }
    if !directory.exists() {
        return Err(Failure::Result(ResultError::Absent { path: directory.clone() }));
    }
    to_stdout(|out| {
        write_csv(directory, out)?.iter().for_each(|torn| say(&torn.to_string()));
        Ok(())
    })
}

/// Gives all rows of a result directory to `each`, and says which line was left out.
pub fn rows_of(
    directory: &Path,
    each: &mut dyn FnMut(&MetricRow<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let source = RowSource::open(directory)?;
    let run = stored::run(directory, &source.run_toml()?)?;
    let origins = named_origins(directory, &run, source.environment()?.as_ref());
    source.rows(&origins, each)?.iter().for_each(|torn| say(&torn.to_string()));
    Ok(())
}

/// The origin of each device of a run. A host that no result names has the name of its directory:
/// all such hosts would be one otherwise.
fn named_origins(
    directory: &Path,
    run: &Run,
    environment: Option<&Environment>,
) -> BTreeMap<String, DeviceOrigin> {
    let mut origins = origins(run, environment);
    let unnamed: Vec<_> = origins.values_mut().filter(|of| of.host.is_empty()).collect();
    if unnamed.is_empty() {
        return origins;
    }
    let real = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let name = real.file_name().unwrap_or(real.as_os_str()).to_string_lossy().into_owned();
    let path = directory.display();
    say(&format!("{path}: the host is not known: it is named `{}`", one_line(&name)));
    unnamed.into_iter().for_each(|of| of.host.clone_from(&name));
    origins
}

fn rows_as_csv(directories: &[PathBuf], out: &mut dyn Write) -> Result<(), Failure> {
    let mut rows = CsvRows::new(out)?;
    for directory in directories {
        rows_of(directory, &mut |row| Ok(rows.write(row)?))?;
    }
    Ok(rows.finish()?)
}

/// Writes a new file, whole or not at all; its ending says how.
fn rows_to_file(directories: &[PathBuf], path: &Path) -> Result<(), Failure> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    match ending {
        Some("csv") => {
            let mut file = NewFile::create(path)?;
            let mut out = BufWriter::new(&mut file);
            let written = rows_as_csv(directories, &mut out);
            let flushed = written.and_then(|()| Ok(out.flush()?));
            drop(out);
            file.finish(flushed)
        }
        Some("parquet") => rows_as_parquet(directories, path),
        _ => Err(RowsFailure::Ending { path: path.to_owned() }.into()),
    }
}

#[cfg(feature = "parquet")]
fn rows_as_parquet(directories: &[PathBuf], path: &Path) -> Result<(), Failure> {
    use niclab_result::rows::parquet::ParquetRows;
    let mut file = NewFile::create(path)?;
    let mut write = || -> Result<(), Failure> {
        let mut rows = ParquetRows::new(BufWriter::new(&mut file))?;
        for directory in directories {
            rows_of(directory, &mut |row| {
                Ok(rows.write(row).map_err(|error| of_directory(directory, error))?)
            })?;
        }
        Ok(rows.finish()?.flush()?)
    };
    let written = write();
    file.finish(written)
}

/// A row that does not fit is a fault of its directory.
#[cfg(feature = "parquet")]
fn of_directory(
    directory: &Path,
    error: niclab_result::rows::parquet::RowsFileError,
) -> RowsFailure {
    use niclab_result::rows::parquet::RowsFileError;
    match error {
        RowsFileError::Unfit { .. } => {
            RowsFailure::Unfit { directory: directory.to_owned(), error }
        }
        error => RowsFailure::File(error),
    }
}

#[cfg(not(feature = "parquet"))]
fn rows_as_parquet(_: &[PathBuf], path: &Path) -> Result<(), Failure> {
    Err(RowsFailure::NoParquet { path: path.to_owned() }.into())
}

/// Writes to standard output; if that ends, it is not the directory's fault.
fn to_stdout(write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut out = ErrorKeepingWriter { inner: BufWriter::new(stdout()), failed: None };
    let written = write(&mut out);
    match out.failed {
        Some(error) => Err(Failure::Output(error)),
        None => written,
    }
}

/// An output that keeps the reason why it failed.
struct ErrorKeepingWriter<W> {
    inner: W,
    failed: Option<io::Error>,
}

impl<W> ErrorKeepingWriter<W> {
    fn keep<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| {
            let kind = error.kind();
            self.failed = Some(error);
            kind.into()
        })
    }
}

impl<W: Write> Write for ErrorKeepingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.inner.write(bytes);
        self.keep(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.inner.flush();
        self.keep(done)
    }
}
