//! A directory that is held open: its files are reached by their names in it, never through a link.
//!
//! A result directory may come from anybody. What stands in it under the name of a document is read
//! and written only where it is a regular file; a link, a pipe or a device is refused by name.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use niclab_files::{FileError, other_than_file, rest};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, renameat, statat, unlinkat};

use crate::ResultError;

/// Files that are being written under one document's name at a time: reports are few.
const PARTS_MAX: u32 = 1_000;

/// The directory.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    handle: File,
}

impl Folder {
    /// Opens `path`, which whoever asks has named: a link to a directory is followed.
    pub(crate) fn open(path: &Path) -> Result<Folder, ResultError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        let handle = opened.map_err(|e| ResultError::of_reading(path, e.into()))?;
        Ok(Folder { path: path.to_path_buf(), handle: handle.into() })
    }

    /// The same directory once more, whatever has its path by now.
    pub(crate) fn again(&self) -> Result<Folder, ResultError> {
        let handle = self.handle.try_clone().map_err(|e| ResultError::of(&self.path, e))?;
        Ok(Folder { path: self.path.clone(), handle })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the file of this name is.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether anything has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Opens a file to be read; `None` where there is none.
    pub(crate) fn file(&self, name: &str) -> Result<Option<File>, ResultError> {
        match self.open_at(name, OFlags::RDONLY) {
            Ok(file) => Ok(Some(file)),
            Err(ResultError::Absent { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a file of at most `len_max` bytes; `None` where there is none.
    pub(crate) fn read(&self, name: &str, len_max: u64) -> Result<Option<Vec<u8>>, ResultError> {
        let Some(file) = self.file(name)? else { return Ok(None) };
        rest(&file, len_max).map(Some).map_err(|error| self.unread(name, error))
    }

    /// The same of a text.
    pub(crate) fn text(&self, name: &str, len_max: u64) -> Result<Option<String>, ResultError> {
        let Some(bytes) = self.read(name, len_max)? else { return Ok(None) };
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = valid.iter().filter(|&&byte| byte == b'\n').count() + 1;
            ResultError::Damaged { path: self.place(name), line, reason: "not UTF-8".into() }
        })?;
        Ok(Some(text))
    }

    /// Opens a file that only grows, and makes it where there is none.
    pub(crate) fn log(&self, name: &str) -> Result<File, ResultError> {
        let file = self.open_at(name, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE)?;
        let names = file.metadata().map_err(|e| ResultError::of(&self.place(name), e))?.nlink();
        match names {
            ..=1 => Ok(file),
            _ => Err(ResultError::Shared { path: self.place(name) }),
        }
    }

    /// Writes `name` so that a reader sees the old document or the new one, never a part. What had
    /// the name before, a link too, is replaced and not followed. A document is no longer than its
    /// reader takes.
    pub(crate) fn write_whole(
        &self,
        name: &str,
        bytes: &[u8],
        len_max: u64,
    ) -> Result<(), ResultError> {
        if bytes.len() as u64 > len_max {
            return Err(ResultError::TooLong { path: self.place(name), len_max });
        }
        let of = |error: io::Error| match error.kind() {
            io::ErrorKind::IsADirectory => ResultError::InTheWay { path: self.place(name) },
            // A new file takes its place: it is the directory that must be writable.
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                ResultError::of_writing(&self.path, error)
            }
            _ => ResultError::of(&self.place(name), error),
        };
        let (part, mut file) = self.part(name).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                ResultError::Parts { path: self.place(name), part: self.place(&part_of(name)) }
            }
            _ => of(error),
        })?;
        let mut write = || {
            file.write_all(bytes)?;
            file.sync_all()?;
            renameat(&self.handle, &part, &self.handle, name).map_err(io::Error::from)
        };
        if let Err(error) = write() {
            self.remove(&part);
            return Err(of(error));
        }
        self.sync()
    }

    /// A new file beside `name`, which nothing had the name of before.
    fn part(&self, name: &str) -> io::Result<(String, File)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut last = io::ErrorKind::AlreadyExists.into();
        for number in 0..PARTS_MAX {
            let part = format!("{}{number}", part_of(name));
            match openat(&self.handle, &part, flags, Mode::from_raw_mode(0o666)) {
                Ok(file) => return Ok((part, file.into())),
                Err(error) if error == rustix::io::Errno::EXIST => last = error.into(),
                Err(error) => return Err(error.into()),
            }
        }
        Err(last)
    }

    /// Removes what killed writers left beside the documents of these names.
    pub(crate) fn remove_parts(&self, names: &[&str]) -> Result<(), ResultError> {
        let of = |error: rustix::io::Errno| ResultError::of(&self.path, error.into());
        for entry in Dir::read_from(&self.handle).map_err(of)? {
            let entry = entry.map_err(of)?;
            let found = entry.file_name().to_string_lossy();
            if names.iter().any(|name| is_part_of(name, &found)) {
                self.remove(&found);
            }
        }
        Ok(())
    }

    /// Removes a file, as far as that can be done.
    pub(crate) fn remove(&self, name: &str) {
        // What cannot be removed does no harm, and is named where it is in the way.
        let _ = unlinkat(&self.handle, name, AtFlags::empty());
    }

    /// Waits until the names in the directory are on the disk.
    pub(crate) fn sync(&self) -> Result<(), ResultError> {
        self.handle.sync_all().map_err(|e| ResultError::of(&self.path, e))
    }

    pub(crate) fn unread(&self, name: &str, error: FileError) -> ResultError {
        let path = self.place(name);
        match error {
            FileError::TooLong { len_max } => ResultError::TooLong { path, len_max },
            FileError::NotFile { what } => ResultError::NotFile { path, what },
            other => ResultError::of(&path, other.into()),
        }
    }

    fn open_at(&self, name: &str, flags: OFlags) -> Result<File, ResultError> {
        let path = self.place(name);
        let not_file = |what| ResultError::NotFile { path: path.clone(), what };
        // To open a device is to use it already: it is looked at before.
        let kind = match statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
            Err(_) => None,
        };
        if let Some(what) = kind.and_then(named) {
            return Err(not_file(what));
        }
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let opened = openat(self.handle.as_fd(), name, flags, Mode::from_raw_mode(0o666));
        let file = File::from(opened.map_err(|error| match error {
            rustix::io::Errno::LOOP => not_file("a symbolic link"),
            other if flags.contains(OFlags::CREATE) => {
                // A file that is missing is made in the directory.
                let path = if kind.is_some() { &path } else { &self.path };
                ResultError::of_writing(path, other.into())
            }
            other => ResultError::of_reading(&path, other.into()),
        })?);
        let metadata = file.metadata().map_err(|e| ResultError::of(&path, e))?;
        match other_than_file(metadata.file_type()) {
            Some(what) => Err(not_file(what)),
            None => Ok(file),
        }
    }
}

/// What a kind of file is called that is no regular one.
fn named(kind: rustix::fs::FileType) -> Option<&'static str> {
    use rustix::fs::FileType;
    match kind {
        FileType::RegularFile => None,
        FileType::Directory => Some("a directory"),
        FileType::Symlink => Some("a symbolic link"),
        FileType::Fifo => Some("a pipe"),
        FileType::Socket => Some("a socket"),
        _ => Some("a device"),
    }
}

/// Whether `found` is the temporary file that a writer of the document makes.
fn is_part_of(name: &str, found: &str) -> bool {
    let number = found.strip_prefix(&part_of(name)).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Prefix of the temporary file for a document.
fn part_of(name: &str) -> String {
    format!(".{name}.part")
}
