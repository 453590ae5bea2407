//! Packet traces that are written, and the claims of those that are read: no file is both.
//!
//! To begin a file anew is to lose what is in it. So whoever reads one claims it, and one that is
//! to be written is opened as it is and compared with all claims of this process: by the file
//! itself, whatever its name. It is begun anew once frames may come: all ports have their claims
//! then.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use niclab_packet::trace::{Endian, Format, Resolution, Writer};

use crate::error::PortError;

/// The claimed files, the newest last.
static CLAIMED: Mutex<Vec<OpenFile>> = Mutex::new(Vec::new());

struct OpenFile {
    number: u64,
    /// Open, so that no other file gets its place on the disk.
    file: File,
    path: PathBuf,
    is_written: bool,
}

fn claimed() -> MutexGuard<'static, Vec<OpenFile>> {
    CLAIMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that frames are read from, or that this alone writes, until it is dropped.
pub(crate) struct Claim {
    number: u64,
}

impl Claim {
    /// Claims a file that frames are read from.
    ///
    /// # Errors
    /// [`PortError::FileTaken`] where somebody writes it.
    pub(crate) fn to_read(path: &Path, file: &File) -> Result<Claim, PortError> {
        Claim::make(path, file, false)
    }

    fn make(path: &Path, file: &File, is_written: bool) -> Result<Claim, PortError> {
        let bad = |source| PortError::File { path: path.to_owned(), source };
        let about = file.metadata().map_err(bad)?;
        let is_same = |other: &File| {
            let other = other.metadata();
            other.is_ok_and(|other| (other.dev(), other.ino()) == (about.dev(), about.ino()))
        };
        let mut claimed = claimed();
        // A device or a pipe has nothing that could be lost.
        let taken = claimed
            .iter()
            .find(|one| (is_written || one.is_written) && about.is_file() && is_same(&one.file));
        if let Some(taken) = taken {
            let (path, taken) = (path.to_owned(), taken.path.clone());
            return Err(PortError::FileTaken { path, taken });
        }
        let number = claimed.last().map_or(0, |last| last.number + 1);
        let file = file.try_clone().map_err(bad)?;
        claimed.push(OpenFile { number, file, path: path.to_owned(), is_written });
        Ok(Claim { number })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        claimed().retain(|one| one.number != self.number);
    }
}

/// A file that frames are written to, and nothing else of this process is.
pub struct Output {
    file: BufWriter<File>,
    _claim: Claim,
}

impl Output {
    /// Opens a file, or makes it where there is none. What is in it stays for now. A directory, a
    /// socket and a named pipe are refused at once.
    ///
    /// # Errors
    /// [`PortError::File`]; [`PortError::FileTaken`] where this process reads or writes the file.
    pub fn open(path: &Path) -> Result<Output, PortError> {
        let file = niclab_files::create(path)
            .map_err(|error| PortError::File { path: path.to_owned(), source: error.into() })?;
        Output::of(path, file)
    }

    /// Takes a file that is open for writing, whatever its name; `path` is what messages call it.
    ///
    /// # Errors
    /// [`PortError::FileTaken`] where this process reads or writes the file.
    pub fn of(path: &Path, file: File) -> Result<Output, PortError> {
        let claim = Claim::make(path, &file, true)?;
        Ok(Output { file: BufWriter::new(file), _claim: claim })
    }

    /// Begins the file anew, as a trace.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin(self) -> io::Result<Writer<Output>> {
        let file = self.file.get_ref();
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        let format = Format::Pcap(Endian::Little, Resolution::Nano);
        Writer::new(self, format).map_err(io::Error::other)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
