//! Results as lines of JSON.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;

use niclab_analytics::definition::WindowResult;
use niclab_analytics::rank::KeyCount;
use niclab_analytics::window::Windows;
use serde::Serialize;

use super::InputCounters;
use crate::failure::Failure;
use crate::output::{is_screen, stdout};

/// A window as a line.
#[derive(Serialize)]
struct ResultLine<'a> {
    window: u64,
    start_ns: u64,
    end_ns: u64,
    top: &'a [KeyCount],
}

/// Where lines go.
enum LinesTo {
    File(PathBuf, BufWriter<File>),
    Terminal,
    Nowhere,
}

fn unwritten(path: &Path, error: io::Error) -> Failure {
    let remedy = match error.kind() {
        io::ErrorKind::AlreadyExists => "remove it, or choose another file with -o",
        _ => "choose another file with -o",
    };
    let reason = format!("cannot be written: {error}; {remedy}");
    Failure::Unwritten { path: path.to_owned(), reason }
}

/// A new file that is removed when this goes: nothing was written into it.
pub struct UnusedFile(Option<PathBuf>);

impl UnusedFile {
    /// Keeps the file.
    pub fn keep(&mut self) {
        self.0 = None;
    }
}

impl Drop for UnusedFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // A file that stays is in the way of the next start, which says so.
            let _ = fs::remove_file(path);
        }
    }
}

/// Writes results.
pub struct ResultLines {
    to: LinesTo,
    windows: Windows,
}

impl ResultLines {
    /// Lines to a file, or to standard output; nowhere if a live view has that. The second part
    /// removes the file unless [`UnusedFile::keep`] was called.
    pub fn open(
        path: Option<&Path>,
        is_live: bool,
        windows: Windows,
    ) -> Result<(ResultLines, UnusedFile), Failure> {
        if is_live && !is_screen() {
            let reason = "--live: standard input and output are not a terminal; leave --live out";
            return Err(Failure::Address { reason: reason.to_owned() });
        }
        let to = match path {
            Some(path) => {
                let file = File::create_new(path).map_err(|error| unwritten(path, error))?;
                LinesTo::File(path.to_owned(), BufWriter::new(file))
            }
            None if is_live => LinesTo::Nowhere,
            None => LinesTo::Terminal,
        };
        let unused = UnusedFile(path.map(Path::to_owned));
        Ok((ResultLines { to, windows }, unused))
    }

    /// Writes a result, which a reader of the lines gets at once.
    pub fn write(&mut self, result: &WindowResult) -> Result<(), Failure> {
        let (start_ns, end_ns) = self.windows.bounds_ns(result.window);
        let line = ResultLine { window: result.window, start_ns, end_ns, top: &result.top };
        let text = serde_json::to_string(&line).map_err(io::Error::from)?;
        match &mut self.to {
            LinesTo::File(path, file) => {
                let written = writeln!(file, "{text}").and_then(|()| file.flush());
                written.map_err(|error| unwritten(path, error))?;
            }
            LinesTo::Terminal => {
                let mut out = stdout();
                writeln!(out, "{text}").and_then(|()| out.flush())?;
            }
            LinesTo::Nowhere => {}
        }
        Ok(())
    }

    /// Writes results until there are no more.
    pub fn write_all(
        &mut self,
        results: &Receiver<WindowResult>,
        counters: &InputCounters,
    ) -> Result<(), Failure> {
        for result in results {
            self.write(&result)?;
            counters.count_window();
        }
        Ok(())
    }
}
