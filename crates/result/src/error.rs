//! Why a result directory cannot be written or read, with the remedy.
//!
//! The messages name no option of a command: which it has, the command line says.

use std::io;
use std::path::{Path, PathBuf};

use crate::{RUN, SAMPLES};

/// Why a result directory cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// The directory a run was to make is there already, written by another run.
    #[error("{} exists already: choose another directory", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// Something else stands where a run was to make its directory.
    #[error(
        "{} exists already and is not a result directory: choose another directory",
        path.display()
    )]
    Occupied {
        /// What is there.
        path: PathBuf,
    },
    /// The place may not be written to.
    #[error("{} is read-only for this user: choose a writable directory", path.display())]
    ReadOnly {
        /// What could not be made or opened.
        path: PathBuf,
    },
    /// A directory that is there already may not be written to.
    #[error("{} is read-only for this user: make it writable, or copy it", path.display())]
    Fixed {
        /// What could not be written.
        path: PathBuf,
    },
    /// A directory or a document may not be read.
    #[error("{} may not be read by this user", path.display())]
    Unreadable {
        /// What could not be opened.
        path: PathBuf,
    },
    /// All names of temporary files for a document are taken.
    #[error(
        "{} cannot be written, its temporary names are all taken: remove the files {}*",
        path.display(), part.display()
    )]
    Parts {
        /// The document.
        path: PathBuf,
        /// What their names begin with.
        part: PathBuf,
    },
    /// A directory has the name of a document that is to be written.
    #[error("{} is a directory: remove it", path.display())]
    InTheWay {
        /// The document.
        path: PathBuf,
    },
    /// There is no such directory.
    #[error(
        "{} does not exist: give the directory that a run printed as its result",
        path.display()
    )]
    Absent {
        /// The directory.
        path: PathBuf,
    },
    /// A file where a directory is needed.
    #[error("{} is a file, or lies below one: give a directory", path.display())]
    NotDirectory {
        /// The path.
        path: PathBuf,
    },
    /// The directory was not written by a run.
    #[error(
        "{} is not a result directory (it has no {missing}): give the directory that a run \
         printed as its result",
        path.display()
    )]
    NotResult {
        /// The directory.
        path: PathBuf,
        /// The document that is missing.
        missing: &'static str,
    },
    /// A run made the directory and ended before it began to measure.
    #[error(
        "{} has no {RUN}: its run ended before it began; remove the directory and begin anew",
        path.display()
    )]
    NotBegun {
        /// The directory.
        path: PathBuf,
    },
    /// The file of the run has nothing in it.
    #[error("{} is empty: restore the file from a copy", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file of the run says no run.
    #[error("{}: {reason}; restore the file from a copy", path.display())]
    BadRun {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Something else has the name of a document.
    #[error("{} is {what}, not a file: put the file itself in its place", path.display())]
    NotFile {
        /// The document.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A file that is to grow has other names, which it would grow under too.
    #[error(
        "{} has more than one name (hard links), and all of them would change: put a copy in its \
         place",
        path.display()
    )]
    Shared {
        /// The file.
        path: PathBuf,
    },
    /// A document is longer than any that a run writes, or was to be.
    #[error(
        "{} may not be longer than {}: restore the file, or measure less in one run",
        path.display(), niclab_files::size(*len_max)
    )]
    TooLong {
        /// The document.
        path: PathBuf,
        /// The most, bytes.
        len_max: u64,
    },
    /// A line is longer than a reader takes.
    #[error(
        "a line of {} may not be longer than {}: measure less in one trial",
        path.display(), niclab_files::size(*len_max)
    )]
    LongLine {
        /// The file.
        path: PathBuf,
        /// The most, bytes.
        len_max: u64,
    },
    /// The samples of a run have no more room in their file.
    #[error(
        "{} may not grow longer than {}: begin anew in another directory",
        path.display(), niclab_files::size(*len_max)
    )]
    Grown {
        /// The file.
        path: PathBuf,
        /// The most, bytes.
        len_max: u64,
    },
    /// Another run writes into the directory.
    #[error(
        "another run is writing into {}: wait until it ends, or stop it, or choose another \
         directory",
        path.display()
    )]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// The documents are of another version of niclab.
    #[error(
        "{} has schema {found}, this program reads {known}: use {program}",
        path.display(), known = crate::SCHEMA
    )]
    OtherSchema {
        /// The document.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// What wrote it, where it says so.
        program: String,
    },
    /// A document is not what a run writes.
    #[error("{}, line {line}: {reason}; restore the file or remove the line", path.display())]
    Damaged {
        /// The document.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The disk is full.
    #[error("no space left for {}: free some", path.display())]
    Full {
        /// What could not be written.
        path: PathBuf,
    },
    /// The disk is full before a run has begun.
    #[error(
        "no space left for {}: free some and begin anew; the directory was removed again",
        path.display()
    )]
    NoRoom {
        /// What could not be written.
        path: PathBuf,
    },
    /// Any other failure of the disk.
    #[error("{}: {source}; check the disk", path.display())]
    Disk {
        /// What could not be read or written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl ResultError {
    /// Whether the path of a new directory is taken.
    pub fn is_taken(&self) -> bool {
        use ResultError::{Exists, NotBegun, Occupied};
        matches!(self, Exists { .. } | NotBegun { .. } | Occupied { .. })
    }

    /// Why no run can be written to `path`, where something is already: only a result directory
    /// can be gone on with.
    pub fn existing(path: &Path) -> ResultError {
        let path = path.to_path_buf();
        match [RUN, SAMPLES].map(|name| path.join(name).is_file()) {
            [true, true] => ResultError::Exists { path },
            [false, true] => ResultError::NotBegun { path },
            _ => ResultError::Occupied { path },
        }
    }

    /// The error that the system's answer means where something was to be read.
    pub fn of_reading(path: &Path, source: io::Error) -> ResultError {
        match ResultError::of(path, source) {
            ResultError::ReadOnly { path } => ResultError::Unreadable { path },
            other => other,
        }
    }

    /// The same where something in a directory was to be written that is there already.
    pub(crate) fn of_writing(path: &Path, source: io::Error) -> ResultError {
        match ResultError::of(path, source) {
            ResultError::ReadOnly { path } => ResultError::Fixed { path },
            other => other,
        }
    }

    /// The error that the system's answer for `path` means.
    pub fn of(path: &Path, source: io::Error) -> ResultError {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
                ResultError::existing(&path)
            }
            io::ErrorKind::NotFound => ResultError::Absent { path },
            io::ErrorKind::NotADirectory => ResultError::NotDirectory { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                ResultError::ReadOnly { path }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ResultError::Full { path },
            _ => ResultError::Disk { path, source },
        }
    }
}
