//! Files that a command names: their size limits, and the owner of an unreadable one.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{Error, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use niclab_device::model::NoProfile;
use niclab_files::FileError;
use rustix::fs::{Access, access};
use rustix::process::geteuid;

use crate::failure::Failure;
use crate::output::one_line;

/// Bytes of a program's text, and of an application's.
pub const PROGRAM_LEN_MAX: u64 = 4 << 20;
/// Bytes of a packet test: a hundred thousand packets.
pub const TEST_LEN_MAX: u64 = 64 << 20;
/// Bytes of a file of tables: some ten million entries.
pub const TABLES_LEN_MAX: u64 = 1 << 30;
/// Bytes of a file of rules: some four million rules.
pub const RULES_LEN_MAX: u64 = 1 << 30;

/// The bytes of a file.
///
/// # Errors
/// [`Failure::Unread`]
pub fn read(path: &Path, len_max: u64) -> Result<Vec<u8>, Failure> {
    niclab_files::read(path, len_max).map_err(|error| unread(path, error))
}

/// The text of a file.
///
/// # Errors
/// [`Failure::Unread`]
pub fn text(path: &Path, len_max: u64) -> Result<String, Failure> {
    niclab_files::text(path, len_max).map_err(|error| unread(path, error))
}

/// Checks that a file can be made here: the directory is there, and the name is free.
///
/// # Errors
/// [`Failure::Unwritten`]
pub fn check_new(path: &Path) -> Result<(), Failure> {
    let unwritten = |reason: String| Failure::Unwritten { path: path.into(), reason };
    if path.symlink_metadata().is_ok() {
        return Err(unwritten("exists already: choose another file with -o".to_owned()));
    }
    let is_named = path.file_name().is_some();
    match fs::metadata(directory_of(path)) {
        Ok(about) if about.is_dir() && is_named => Ok(()),
        Ok(_) => Err(unwritten("is no place for a file: choose another with -o".to_owned())),
        Err(error) => {
            let reason = reason_of_system(path, &error, "make its directory (mkdir -p) first");
            Err(unwritten(format!("cannot be written: {reason}")))
        }
    }
}

/// Writes a new file, whole or not at all.
///
/// # Errors
/// [`Failure::Unwritten`]
pub fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let mut file = NewFile::create(path)?;
    let written = file.write_all(text.as_bytes()).map_err(Failure::Output);
    file.finish(written)
}

/// Writes a file, whole or not at all, in place of the one that may be there. `remedy` is what a
/// user can do if the file cannot be written.
///
/// # Errors
/// [`Failure::Unwritten`]
pub fn replace(path: &Path, bytes: &[u8], remedy: &'static str) -> Result<(), Failure> {
    let mut file = NewFile::beside(path, remedy)?;
    let written = file.write_all(bytes).map_err(Failure::Output);
    file.finish(written)
}

/// The remedy if a new file cannot be written.
const OTHER_FILE: &str = "choose another file with -o";

/// A file that is written beside its place, and gets its name when it is whole.
pub struct NewFile {
    path: PathBuf,
    part: PathBuf,
    file: File,
    remedy: &'static str,
    /// The first error of writing.
    failed: Option<Error>,
}

impl NewFile {
    /// Begins a file whose name is free.
    ///
    /// # Errors
    /// [`Failure::Unwritten`]
    pub fn create(path: &Path) -> Result<NewFile, Failure> {
        check_new(path)?;
        NewFile::beside(path, OTHER_FILE)
    }

    fn beside(path: &Path, remedy: &'static str) -> Result<NewFile, Failure> {
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".part-{}", std::process::id()));
        let part = path.with_file_name(name);
        match File::create_new(&part) {
            Ok(file) => Ok(NewFile { path: path.to_owned(), part, file, remedy, failed: None }),
            Err(error) => Err(unwritten(path, &error, remedy)),
        }
    }

    /// Gives the file its name if `written` says that it is whole; removes it otherwise.
    ///
    /// # Errors
    /// [`Failure::Unwritten`] if the file could not be written; else that of `written`.
    pub fn finish(mut self, written: Result<(), Failure>) -> Result<(), Failure> {
        let written = match self.failed.take() {
            Some(error) => Err(unwritten(&self.path, &error, self.remedy)),
            None => written,
        };
        let named = written.and_then(|()| {
            let named = self.file.sync_all().and_then(|()| fs::rename(&self.part, &self.path));
            named.map_err(|error| unwritten(&self.path, &error, self.remedy))
        });
        if named.is_err() {
            let _ = fs::remove_file(&self.part);
        }
        named
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes).map_err(|error| {
            let kind = error.kind();
            if kind != ErrorKind::Interrupted {
                self.failed.get_or_insert(error);
            }
            kind.into()
        })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

fn unwritten(path: &Path, error: &Error, remedy: &str) -> Failure {
    let remedy = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            format!("free some space, or {remedy}")
        }
        _ => remedy.to_owned(),
    };
    let reason = reason_of_system(path, error, &remedy);
    Failure::Unwritten { path: path.into(), reason: format!("cannot be written: {reason}") }
}

fn unread(path: &Path, error: FileError) -> Failure {
    Failure::Unread { path: path.into(), error }
}

/// Why a file cannot be used, and what to do: where a right is missing, who has it.
pub fn reason(path: &Path, error: &FileError, otherwise: &str) -> String {
    match error {
        FileError::System(error) => reason_of_system(path, error, otherwise),
        // They name the remedy themselves.
        FileError::NotFile { .. } | FileError::NotText { .. } | FileError::TooLong { .. } => {
            error.to_string()
        }
    }
}

/// The same of a file about which the system said something.
pub fn reason_of_system(path: &Path, error: &Error, otherwise: &str) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => format!("{error}: {}", who_may(path)),
        _ => format!("{error}; {otherwise}"),
    }
}

/// Why there is no such profile.
pub fn reason_of_profile(absent: &NoProfile) -> String {
    let NoProfile { name, error, known } = absent;
    let reason = reason(Path::new(name), error, &format!("give a file, or one of {known}"));
    format!("profile `{}`: {reason}", one_line(name))
}

/// The owner of a file, and his remedy.
pub fn who_may(path: &Path) -> String {
    let about = match fs::metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == ErrorKind::NotFound => return who_may_make(path),
        Err(_) => return who_may_enter(path),
    };
    let remedy = match about.file_type().is_socket() {
        true => "run as its owner or as root, or start the card with --control-group",
        false => "run as its owner or as root, or have the owner change the mode (chmod)",
    };
    format!("it is {}: {remedy}", whose(&about))
}

/// The owner of a directory without the right to create files.
fn who_may_make(path: &Path) -> String {
    let above = directory_of(path);
    match fs::metadata(above) {
        Ok(about) => format!(
            "{} is {}: run as its owner or as root, or choose a path in a directory of your own",
            above.display(),
            whose(&about)
        ),
        Err(_) => who_may_enter(path),
    }
}

/// The directory that a path lies in.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => Path::new("/"),
    }
}

/// The owner of a directory that cannot be entered.
fn who_may_enter(path: &Path) -> String {
    // Of a closed working directory `.` tells nothing; its path does.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let closed = path.ancestors().skip(1).find_map(|above| {
        let about = fs::metadata(above).ok()?;
        access(above, Access::EXEC_OK).is_err().then(|| (above.to_owned(), about))
    });
    match closed {
        Some((above, about)) => format!(
            "{} is {}: run as its owner or as root, or choose a path in a directory that user {} \
             may enter",
            above.display(),
            whose(&about),
            name_of("/etc/passwd", geteuid().as_raw()),
        ),
        None => "run as root".to_owned(),
    }
}

/// The owner, the group and the mode.
fn whose(about: &Metadata) -> String {
    let owner = name_of("/etc/passwd", about.uid());
    let group = name_of("/etc/group", about.gid());
    format!("owned by {owner}, group {group}, with mode {:04o}", about.mode() & 0o7777)
}

/// The name of a user or a group, or its number where it has none.
fn name_of(list: &str, id: u32) -> String {
    let named = fs::read_to_string(list).ok().and_then(|text| {
        let named = text.lines().find(|line| line.split(':').nth(2) == Some(&id.to_string()));
        named.and_then(|line| line.split(':').next()).map(str::to_owned)
    });
    named.unwrap_or_else(|| id.to_string())
}

/// The number of a group.
pub fn group(name: &str) -> Option<u32> {
    let text = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let named = text.lines().find(|line| line.split(':').next() == Some(name));
    let number = named.and_then(|line| line.split(':').nth(2)).unwrap_or(name);
    // chown(2) takes the last one for no change.
    number.parse().ok().filter(|&number| number != u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    #[test]
    fn the_owner_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rules");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"x").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let of = |kind: ErrorKind| reason(&path, &FileError::System(kind.into()), "give another");
        let message = of(ErrorKind::PermissionDenied);
        assert!(
            message.contains("with mode 0600") && !message.contains("give another"),
            "{message}"
        );
        let message = of(ErrorKind::NotFound);
        assert!(message.ends_with("; give another"), "{message}");
        let message = reason(&path, &FileError::TooLong { len_max: 1 << 20 }, "give another");
        assert_eq!(message, "longer than 1 MiB, the limit for such a file; shorten it");
        assert_eq!(name_of("/etc/passwd", 0), "root");
        assert_eq!(name_of("/etc/passwd", 4_000_000_000), "4000000000");
        assert_eq!((group("root"), group("12"), group("no such group")), (Some(0), Some(12), None));
        assert_eq!((group("4294967294"), group("4294967295")), (Some(u32::MAX - 1), None));
    }
}
