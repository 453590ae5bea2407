//! The file that frames are to be captured into.

use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use niclab_files::FileError;

use crate::failure::Failure;
use crate::files;

/// A file that frames are to be captured into. What is in it stays until the card begins. A file
/// that was made for it goes with this, unless the card took it.
pub(super) struct CaptureFile {
    file: File,
    path: PathBuf,
    /// It was not there before.
    is_new: bool,
}

impl CaptureFile {
    /// Opens the file, or makes it.
    pub(super) fn open(path: &Path) -> Result<CaptureFile, Failure> {
        let (file, is_new) = CaptureFile::made(path).map_err(|error| {
            let otherwise = "give the path of a file to be written";
            let reason = files::reason(path, &error, otherwise);
            Failure::Refused { reason: format!("{}: {reason}", path.display()) }
        })?;
        Ok(CaptureFile { file, path: path.to_path_buf(), is_new })
    }

    fn made(path: &Path) -> Result<(File, bool), FileError> {
        match File::options().write(true).create_new(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                // A link to a file that is not there yet makes it.
                Ok((niclab_files::create(path)?, false))
            }
            made => Ok((made?, true)),
        }
    }

    /// The file that is sent with the request.
    pub(super) fn attachment(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The card took it.
    pub(super) fn keep(mut self) {
        self.is_new = false;
    }
}

impl Drop for CaptureFile {
    fn drop(&mut self) {
        let identity = |about: Metadata| (about.dev(), about.ino());
        let there = fs::symlink_metadata(&self.path).map(identity).ok();
        // Not what another has put there since.
        if self.is_new && there.is_some() && there == self.file.metadata().map(identity).ok() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_the_card_does_not_take_does_not_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("seen.pcap");
        let made = || CaptureFile::open(&path).unwrap();
        drop(made());
        assert!(!path.exists());
        // Another file in its place stays.
        let capture = made();
        fs::rename(&path, directory.path().join("moved")).unwrap();
        fs::write(&path, "precious").unwrap();
        drop(capture);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        // One that was there before does, too.
        drop(made());
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
        made().keep();
        assert!(path.exists());
    }
}
