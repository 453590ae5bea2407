//! Files that a command names: read whole, within limits, and who may read one that is refused.

use std::fs::{File, Metadata};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, OFlags, access};
use rustix::process::geteuid;

use crate::failure::Failure;

/// Bytes of the longest file of rules, of a program or of tables: two million rules.
pub const FILE_LEN_MAX: u64 = 256 << 20;

/// How long a pipe may be silent, and how long all of it may take.
const SILENCE: Duration = Duration::from_secs(10);
const TOGETHER: Duration = Duration::from_secs(60);

/// Reads a file, or a pipe until its end. A pipe that nobody writes to is not waited for without
/// end, and no more than [`FILE_LEN_MAX`] is kept.
///
/// # Errors
/// What the system says; a directory; a file that is too long; a pipe that is silent.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    let mut file = File::options().read(true).custom_flags(nonblocking).open(path)?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if about.len() > FILE_LEN_MAX {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    if about.is_file() {
        (&mut file).take(FILE_LEN_MAX + 1).read_to_end(&mut bytes)?;
    } else {
        read_pipe(&mut file, &mut bytes)?;
    }
    if bytes.len() as u64 > FILE_LEN_MAX { Err(too_long()) } else { Ok(bytes) }
}

fn too_long() -> Error {
    let reason = format!("longer than {} MiB: divide it into several", FILE_LEN_MAX >> 20);
    Error::new(ErrorKind::FileTooLarge, reason)
}

/// Reads until the end, or until there is more than a file may have.
fn read_pipe(file: &mut File, bytes: &mut Vec<u8>) -> Result<()> {
    let until = Instant::now() + TOGETHER;
    let mut piece = [0; 1 << 16];
    while bytes.len() as u64 <= FILE_LEN_MAX {
        let rest = SILENCE.min(until.saturating_duration_since(Instant::now()));
        let timeout = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: 0 };
        if poll(&mut [PollFd::new(&*file, PollFlags::IN)], Some(&timeout))? == 0 {
            let reason = format!(
                "a pipe that nobody wrote to for {} s, or that had no end after {} s: write to it, \
                 or give a file",
                SILENCE.as_secs(),
                TOGETHER.as_secs()
            );
            return Err(Error::new(ErrorKind::TimedOut, reason));
        }
        match file.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Why a file cannot be used, and what to do: where a right is missing, who has it.
pub fn reason(path: &Path, error: &Error, otherwise: &str) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => format!("{error}: {}", who_may(path)),
        ErrorKind::FileTooLarge | ErrorKind::TimedOut => error.to_string(),
        _ => format!("{error}; {otherwise}"),
    }
}

/// Refuses a file that others read whole, where it cannot be: no right, a pipe, too long. One that
/// is not there is for them to name.
pub fn check(path: &Path) -> std::result::Result<(), Failure> {
    let refused = |error: Error| Err(Failure::Unread { path: path.into(), error });
    let about = match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return refused(error),
        Err(_) => return Ok(()),
        Ok(about) => about,
    };
    if about.is_dir() {
        return Ok(());
    }
    if !about.is_file() {
        let reason = "a pipe or a device, and no file";
        return refused(Error::new(ErrorKind::InvalidInput, reason));
    }
    if about.len() > FILE_LEN_MAX {
        return refused(too_long());
    }
    File::open(path).map(drop).or_else(refused)
}

/// Whose something is, and what the owner can do, for who may not use it.
pub fn who_may(path: &Path) -> String {
    let about = match std::fs::metadata(path) {
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

/// Whose the directory is that nothing can be made in.
fn who_may_make(path: &Path) -> String {
    let above = directory_of(path);
    match std::fs::metadata(above) {
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

/// Whose the directory is that cannot be entered.
fn who_may_enter(path: &Path) -> String {
    let closed = path.ancestors().skip(1).find_map(|above| {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        let about = std::fs::metadata(above).ok()?;
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
    let named = std::fs::read_to_string(list).ok().and_then(|text| {
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
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_file_is_read_and_no_more_than_its_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rules");
        std::fs::write(&path, "flow flush 0\n").unwrap();
        assert_eq!(read(&path).unwrap(), b"flow flush 0\n");
        File::create(&path).unwrap().set_len(1 << 30).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("longer than 256 MiB"));
        let endless = read(Path::new("/dev/zero")).unwrap_err();
        assert!(endless.to_string().contains("longer than 256 MiB"), "{endless}");
        assert_eq!(read(Path::new("/dev/null")).unwrap(), b"");
        let error = read(directory.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
    }

    #[test]
    fn a_pipe_is_read_to_its_end_and_not_waited_for_without_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let begun = Instant::now();
        let silent = read(&path).unwrap_err().to_string();
        assert!(silent.contains("nobody wrote to for 10 s"), "{silent}");
        assert!(begun.elapsed() < 2 * SILENCE);
        // As `<(…)` of a shell.
        let mut echo = Command::new("sh")
            .args(["-c", "sleep 0.2; echo one; sleep 0.2; echo two"])
            .stdout(Stdio::from(File::options().read(true).write(true).open(&path).unwrap()))
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(read(&path).unwrap(), b"one\ntwo\n");
        echo.wait().unwrap();
    }

    #[test]
    fn who_may_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rules");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"x").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let said = reason(&path, &ErrorKind::PermissionDenied.into(), "give another");
        assert!(said.contains("with mode 0600") && !said.contains("give another"), "{said}");
        let said = reason(&path, &ErrorKind::NotFound.into(), "give another");
        assert!(said.ends_with("; give another"), "{said}");
        assert_eq!(name_of("/etc/passwd", 0), "root");
        assert_eq!(name_of("/etc/passwd", 4_000_000_000), "4000000000");
        assert_eq!((group("root"), group("12"), group("no such group")), (Some(0), Some(12), None));
    }
}
