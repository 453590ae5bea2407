//! Results as lines of JSON.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;

use niclab_analytics::definition::WindowResult;
use niclab_analytics::rank::KeyCount;
use niclab_analytics::window::Windows;
use serde::Serialize;

use super::InputCounters;
use crate::failure::Failure;
use crate::output::stdout;

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
    let reason = format!("cannot be written: {error}; choose another file with -o");
    Failure::Unwritten { path: path.to_owned(), reason }
}

/// Writes results.
pub struct ResultLines {
    to: LinesTo,
    windows: Windows,
}

impl ResultLines {
    /// Lines to a file, or to standard output; nowhere if a live view has that.
    pub fn open(
        path: Option<&Path>,
        is_live: bool,
        windows: Windows,
    ) -> Result<ResultLines, Failure> {
        let to = match path {
            Some(path) => {
                let file = File::create_new(path).map_err(|error| unwritten(path, error))?;
                LinesTo::File(path.to_owned(), BufWriter::new(file))
            }
            None if is_live => LinesTo::Nowhere,
            None => LinesTo::Terminal,
        };
        Ok(ResultLines { to, windows })
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
