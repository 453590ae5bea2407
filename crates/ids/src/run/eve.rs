//! The file of events. If the disk is full, events wait until it has room again.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Name of the file.
pub const EVE: &str = "eve.json";

/// Bytes that wait at most. If there are more, nothing is read from the engines, which then have to
/// wait.
const WAITING_MAX: usize = 64 << 20;

/// Bytes that are written at once, unless time has passed.
const BLOCK: usize = 64 << 10;

/// How long to wait before writing is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The file of events.
pub(super) struct EveFile {
    file: File,
    path: PathBuf,
    waiting: Vec<u8>,
    /// Why nothing can be written, and when it is tried again.
    failure: Option<(io::Error, Instant)>,
}

impl EveFile {
    /// Makes the file, which must not exist.
    pub(super) fn create(directory: &Path) -> io::Result<EveFile> {
        let path = directory.join(EVE);
        let file = File::create_new(&path)?;
        Ok(EveFile { file, path, waiting: Vec::new(), failure: None })
    }

    /// Adds an event.
    pub(super) fn push(&mut self, line: &[u8]) {
        self.waiting.extend(line);
        self.waiting.push(b'\n');
        if self.waiting.len() >= BLOCK {
            self.flush();
        }
    }

    /// Writes what waits, as far as the disk has room.
    pub(super) fn flush(&mut self) {
        if self.failure.as_ref().is_some_and(|(_, until)| Instant::now() < *until) {
            return;
        }
        let mut written = 0;
        self.failure = loop {
            match self.file.write(&self.waiting[written..]) {
                _ if written == self.waiting.len() => break None,
                Ok(len) => written += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Some((error, Instant::now() + RETRY)),
            }
        };
        self.waiting.drain(..written);
    }

    /// Why nothing can be written.
    pub(super) fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref().map(|(error, _)| error)
    }

    /// Whether so much waits that no more should come.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= WAITING_MAX
    }

    /// Writes all.
    ///
    /// # Errors
    /// The path, and what the system says.
    pub(super) fn finish(&mut self) -> Result<(), (PathBuf, io::Error)> {
        let result = self.file.write_all(&self.waiting).and_then(|()| self.file.sync_all());
        result.map_err(|error| (self.path.clone(), error))
    }
}
