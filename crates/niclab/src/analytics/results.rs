//! Results as lines of JSON.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
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
    File(BufWriter<File>),
    Terminal,
    Nowhere,
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
        let unwritten = |path: &Path, error: io::Error| Failure::Unwritten {
            path: path.to_owned(),
            reason: format!("cannot be written: {error}; choose another file with -o"),
        };
        let to = match path {
            Some(path) => {
                let file = File::create_new(path).map_err(|error| unwritten(path, error))?;
                LinesTo::File(BufWriter::new(file))
            }
            None if is_live => LinesTo::Nowhere,
            None => LinesTo::Terminal,
        };
        Ok(ResultLines { to, windows })
    }

    /// Writes a result. Whoever reads the lines gets each at once.
    pub fn write(&mut self, result: &WindowResult) -> Result<(), Failure> {
        let (start_ns, end_ns) = self.windows.bounds_ns(result.window);
        let line = ResultLine { window: result.window, start_ns, end_ns, top: &result.top };
        let text = serde_json::to_string(&line).map_err(io::Error::from)?;
        match &mut self.to {
            LinesTo::File(file) => writeln!(file, "{text}").and_then(|()| file.flush())?,
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
