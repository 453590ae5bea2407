//! Files that somebody names, read up to a limit: no file fills the memory.
//!
//! A regular file is read, and so is a pipe that a shell made (`<(…)`, `/dev/stdin`). A pipe of the
//! shell is read to its end, however long its writer takes; nothing else is waited for. `/dev/null`
//! is an empty file. A directory, another device, a socket and a named pipe are refused before
//! anything is read from them.
//!
//! ```
//! let directory = tempfile::tempdir()?;
//! let path = directory.path().join("card.toml");
//! std::fs::write(&path, "title = \"a card\"")?;
//! assert_eq!(niclab_files::text(&path, 1 << 20)?, "title = \"a card\"");
//! let error = niclab_files::text(&path, 4).unwrap_err();
//! assert_eq!(error.to_string(), "longer than 4 bytes, the limit for such a file; shorten it");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

use std::fs::{self, File, FileType, Metadata};
use std::io::{self, ErrorKind, Read, Seek};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Why a file is not read. The path is for the caller to add.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is something else than a file.
    #[error("{what}, not a file; give a regular file")]
    NotFile {
        /// What it is.
        what: &'static str,
    },
    /// It is not text.
    #[error("line {line} is not UTF-8; give a text file")]
    NotText {
        /// The line, from 1.
        line: usize,
    },
    /// It is longer than its reader takes.
    #[error("longer than {}, the limit for such a file; shorten it", size(*len_max))]
    TooLong {
        /// The most, bytes.
        len_max: u64,
    },
    /// The system refused.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> io::Error {
        match error {
            FileError::System(error) => error,
            FileError::TooLong { .. } => io::Error::new(ErrorKind::FileTooLarge, error),
            FileError::NotFile { .. } | FileError::NotText { .. } => {
                io::Error::new(ErrorKind::InvalidInput, error)
            }
        }
    }
}

/// A number of bytes as people write it: `64 MiB`.
pub fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fits = |(bits, _): &(u32, &str)| bytes >> bits > 0 && bytes.trailing_zeros() >= *bits;
    match units.into_iter().find(fits) {
        Some((bits, unit)) => format!("{} {unit}", bytes >> bits),
        None => format!("{bytes} bytes"),
    }
}

/// Name of a file type other than a regular file.
pub fn other_than_file(kind: FileType) -> Option<&'static str> {
    let kinds = [
        (kind.is_file(), None),
        (kind.is_dir(), Some("a directory")),
        (kind.is_symlink(), Some("a symbolic link")),
        (kind.is_fifo(), Some("a pipe")),
        (kind.is_socket(), Some("a socket")),
    ];
    let found = kinds.into_iter().find_map(|(is_it, what)| is_it.then_some(what));
    found.unwrap_or(Some("a device"))
}

/// Whether it is `/dev/null` (null(4)).
fn is_null(about: &Metadata) -> bool {
    about.file_type().is_char_device() && about.rdev() == rustix::fs::makedev(1, 3)
}

/// Opens a file to be read, `/dev/null` or a pipe that a shell made. Opening waits for nothing.
///
/// # Errors
/// [`FileError::NotFile`], [`FileError::System`].
pub fn open(path: &Path) -> Result<File, FileError> {
    let refuse = |about: &Metadata| match other_than_file(about.file_type()) {
        Some(what) if !about.file_type().is_fifo() && !is_null(about) => {
            Err(FileError::NotFile { what })
        }
        _ => Ok(()),
    };
    // To open a device is to use it already: it is looked at before.
    refuse(&fs::metadata(path)?)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from)?);
    let about = file.metadata()?;
    refuse(&about)?;
    refuse_named_pipe(&file, &about)?;
    wait_again(&file)?;
    Ok(file)
}

/// Opens a file to be written, or makes it where there is none: what is in it stays. A character
/// device such as `/dev/null` and a pipe that a shell made (`>(…)`, `/dev/stdout`) are opened too.
/// Opening waits for nothing.
///
/// # Errors
/// [`FileError::NotFile`], [`FileError::System`].
pub fn create(path: &Path) -> Result<File, FileError> {
    let refuse = |about: &Metadata| match other_than_file(about.file_type()) {
        Some(_) if about.file_type().is_fifo() || about.file_type().is_char_device() => Ok(()),
        Some(what) => Err(FileError::NotFile { what }),
        None => Ok(()),
    };
    // To open a device is to use it already: it is looked at before.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    if let Ok(place) = rustix::fs::open(path, flags, Mode::empty()).map(File::from) {
        let about = place.metadata()?;
        refuse(&about)?;
        refuse_named_pipe(&place, &about)?;
    }
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::from_raw_mode(0o666));
    let file = File::from(opened.map_err(io::Error::from)?);
    let about = file.metadata()?;
    refuse(&about)?;
    refuse_named_pipe(&file, &about)?;
    wait_again(&file)?;
    Ok(file)
}

/// Refuses a pipe with a name: its other end may never come.
fn refuse_named_pipe(file: &File, about: &Metadata) -> Result<(), FileError> {
    if !about.file_type().is_fifo() {
        return Ok(());
    }
    // A pipe without a name (proc_pid_fd(5)) has another end, which is awaited.
    let name = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    match name.to_string_lossy().starts_with("pipe:") {
        true => Ok(()),
        false => Err(FileError::NotFile { what: "a named pipe" }),
    }
}

/// Reading and writing wait again, as opening did not.
fn wait_again(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file.as_fd())?;
    Ok(rustix::fs::fcntl_setfl(file.as_fd(), flags - OFlags::NONBLOCK)?)
}

/// Reads what is left of `file`, which may be `len_max` bytes.
///
/// # Errors
/// [`FileError::TooLong`], after no more than that was read; [`FileError::System`].
pub fn rest(file: &File, len_max: u64) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    // A pipe has neither a length nor a place in it.
    let at = { file }.stream_position().unwrap_or(0);
    if file.metadata()?.len().saturating_sub(at) > len_max {
        return Err(FileError::TooLong { len_max });
    }
    file.take(len_max.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > len_max {
        true => Err(FileError::TooLong { len_max }),
        false => Ok(bytes),
    }
}

/// Reads a file of at most `len_max` bytes.
///
/// # Errors
/// [`FileError`], all but [`FileError::NotText`].
pub fn read(path: &Path, len_max: u64) -> Result<Vec<u8>, FileError> {
    rest(&open(path)?, len_max)
}

/// Reads a text of at most `len_max` bytes.
///
/// # Errors
/// [`FileError`].
pub fn text(path: &Path, len_max: u64) -> Result<String, FileError> {
    String::from_utf8(read(path, len_max)?).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        FileError::NotText { line: valid.iter().filter(|&&byte| byte == b'\n').count() + 1 }
    })
}

/// `true` where nobody else can have put or changed this program or directory: it and all
/// directories above it belong to root, to this user or to the owner of the running program, and
/// others may not write to them. Others may write to a directory such as `/tmp`, which lets nobody
/// rename what belongs to another (its sticky bit).
pub fn is_trusted(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    // Whoever could change the running program needs no other one.
    let owner = fs::metadata("/proc/self/exe").map_or(own, |program| program.uid());
    is_of(path, &[0, own, owner])
}

/// A path and what it leads to belong to these users alone.
fn is_of(path: &Path, users: &[u32]) -> bool {
    let Ok(real) = path.canonicalize() else { return false };
    let parts = path.ancestors().chain(real.ancestors());
    parts.filter(|part| !part.as_os_str().is_empty()).all(|part| {
        fs::symlink_metadata(part).is_ok_and(|found| {
            let (mode, uid, gid) = (found.mode(), found.uid(), found.gid());
            // A group of the user's own has his number.
            let by_group = mode & 0o020 != 0 && gid != uid;
            let by_others = by_group || mode & 0o002 != 0;
            let is_sticky = found.is_dir() && mode & 0o1000 != 0;
            users.contains(&uid) && (found.is_symlink() || !by_others || is_sticky)
        })
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::path::PathBuf;

    use super::*;

    fn said(path: &Path) -> String {
        read(path, 8).unwrap_err().to_string()
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "12345678").unwrap();
        assert_eq!(read(&path, 8).unwrap(), b"12345678");
        assert!(matches!(read(&path, 7), Err(FileError::TooLong { len_max: 7 })));
        fs::write(&path, b"one\ntwo\n\xff").unwrap();
        assert!(matches!(text(&path, 16), Err(FileError::NotText { line: 3 })));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(
            read(&link, 16).unwrap().len(),
            9,
            "a link to a file that was named is followed"
        );
    }

    #[test]
    fn a_program_is_trusted_where_nobody_else_can_have_put_it() {
        use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

        let root = tempfile::tempdir().unwrap();
        let (place, mode) = (root.path().join("servers"), |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        });
        let program = place.join("memcached");
        fs::create_dir(&place).unwrap();
        fs::write(&program, "").unwrap();
        mode(&place, 0o755);
        mode(&program, 0o755);
        assert!(is_trusted(&program), "below a directory with a sticky bit");
        assert!(!is_trusted(&place.join("absent")));
        for (path, is_wide) in [(&program, 0o757), (&place, 0o757), (&place, 0o777)] {
            mode(path, is_wide);
            assert!(!is_trusted(&program), "{} {is_wide:o}", path.display());
            mode(path, 0o755);
        }
        mode(&place, 0o1777);
        assert!(is_trusted(&program));
        mode(&place, 0o755);
        if !rustix::process::geteuid().is_root() {
            return println!("SKIP a_program_is_trusted: needs root for files of others");
        }
        const OTHER: u32 = 64_917;
        for path in [&program, &place] {
            chown(path, Some(OTHER), Some(OTHER)).unwrap();
            assert!(!is_trusted(&program), "{} is another's", path.display());
            assert!(is_of(&program, &[0, OTHER]));
            // A group of one's own is nobody else.
            mode(path, 0o775);
            assert!(is_of(&program, &[0, OTHER]));
            chown(path, Some(0), Some(OTHER)).unwrap();
            assert!(!is_trusted(&program), "{}: a group may write", path.display());
            chown(path, Some(0), Some(0)).unwrap();
            mode(path, 0o755);
        }
        let link = root.path().join("link");
        symlink(&place, &link).unwrap();
        assert!(is_trusted(&link.join("memcached")));
        lchown(&link, Some(OTHER), Some(OTHER)).unwrap();
        assert!(!is_trusted(&link.join("memcached")), "another's link");
    }

    #[test]
    fn what_is_no_file_is_refused_before_it_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert_eq!(said(&pipe), "a named pipe, not a file; give a regular file");
        // With a writer that says nothing, too.
        let _writer = File::options().read(true).write(true).open(&pipe).unwrap();
        assert_eq!(said(&pipe), "a named pipe, not a file; give a regular file");
        assert_eq!(said(directory.path()), "a directory, not a file; give a regular file");
        assert_eq!(said(Path::new("/dev/zero")), "a device, not a file; give a regular file");
        assert_eq!(read(Path::new("/dev/null"), 8).unwrap(), b"", "it stands for no file");
        let socket = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(said(&socket), "a socket, not a file; give a regular file");
        let none = read(&directory.path().join("none"), 8).unwrap_err();
        assert_eq!(io::Error::from(none).kind(), ErrorKind::NotFound);
    }

    #[test]
    fn what_is_no_file_is_refused_before_it_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let named = |name| directory.path().join(name);
        let refused = |path: &Path| create(path).unwrap_err().to_string();
        let pipe = named("pipe");
        let (kind, mode) = (rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        assert_eq!(refused(&pipe), "a named pipe, not a file; give a regular file");
        // With a reader, too.
        let _reader = File::options().read(true).write(true).open(&pipe).unwrap();
        assert_eq!(refused(&pipe), "a named pipe, not a file; give a regular file");
        assert_eq!(refused(directory.path()), "a directory, not a file; give a regular file");
        let socket = named("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(refused(&socket), "a socket, not a file; give a regular file");
        let none = io::Error::from(create(&named("none/file")).unwrap_err());
        assert_eq!(none.kind(), ErrorKind::NotFound);
        for path in ["/dev/null", "/dev/full"] {
            create(Path::new(path)).unwrap();
        }
        let (mut reader, writer) = io::pipe().unwrap();
        let writer = OwnedFd::from(writer);
        let path = PathBuf::from(format!("/proc/self/fd/{}", writer.as_raw_fd()));
        let mut shell = create(&path).unwrap();
        drop(writer);
        assert!(!rustix::fs::fcntl_getfl(&shell).unwrap().contains(OFlags::NONBLOCK));
        io::Write::write_all(&mut shell, b"said").unwrap();
        drop(shell);
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert_eq!(said, "said");
        let file = named("file");
        drop(create(&file).unwrap());
        fs::write(&file, "kept").unwrap();
        drop(create(&file).unwrap());
        assert_eq!(fs::read(&file).unwrap(), b"kept");
    }

    #[test]
    fn a_pipe_of_a_shell_is_read_when_its_writer_is_late() {
        let (reader, mut writer) = io::pipe().unwrap();
        let reader = OwnedFd::from(reader);
        let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        let late = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            io::Write::write_all(&mut writer, b"said")
        });
        assert_eq!(read(&path, 4).unwrap(), b"said");
        late.join().unwrap().unwrap();
    }

    #[test]
    fn sizes_read_as_people_write_them() {
        let sizes = [7, 1 << 10, 1_500, 64 << 20, 3 << 30];
        assert_eq!(sizes.map(size), ["7 bytes", "1 KiB", "1500 bytes", "64 MiB", "3 GiB"]);
    }
}
