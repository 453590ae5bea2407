//! `niclab export`: samples in other formats.

use std::io::{self, BufWriter, Write};

use niclab_result::{ResultError, write_csv};

use crate::arguments::ExportArguments;
use crate::failure::Failure;
use crate::output::{say, stdout};

/// Writes one line a sample to standard output.
pub fn run(arguments: &ExportArguments) -> Result<(), Failure> {
    let path = &arguments.directory;
    if !path.exists() {
        return Err(Failure::Result(ResultError::Absent { path: path.clone() }));
    }
    let mut out = ErrorKeepingWriter { inner: BufWriter::new(stdout()), failed: None };
    let written = write_csv(path, &mut out);
    if let Ok(Some(torn)) = &written {
        say(&torn.to_string());
    }
    match out.failed {
        // Not the directory's fault: it is the output that ended.
        Some(error) => Err(Failure::Output(error)),
        None => Ok(written.map(drop)?),
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
