//! Files of programs, packet tests and tables, read within a limit.
//!
//! A file that is longer than its kind can be is refused before memory is taken for it, and one
//! that gives nothing, such as a FIFO that nobody writes, after [`IDLE_S`] seconds.

use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};

use crate::failure::Failure;

/// Bytes of a program's text: as many as its reader takes.
pub const PROGRAM_LEN_MAX: u64 = 4 << 20;
/// Bytes of a packet test: a hundred thousand packets.
pub const TEST_LEN_MAX: u64 = 64 << 20;
/// Bytes of a file of tables: some ten million entries.
pub const TABLES_LEN_MAX: u64 = 1 << 30;
/// Seconds that a file may take to give its next byte.
pub const IDLE_S: i64 = 10;

/// The text of a file of so many bytes at most.
///
/// # Errors
/// [`Failure::Unread`], with what is wrong.
pub fn text(path: &Path, len_max: u64) -> Result<String, Failure> {
    let unread = |error: Error| Failure::Unread { path: path.into(), error };
    let bytes = read(path, len_max).map_err(unread)?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|&&byte| byte == b'\n').count() + 1;
        unread(Error::new(ErrorKind::InvalidData, format!("line {line} is not text in UTF-8")))
    })
}

fn read(path: &Path, len_max: u64) -> Result<Vec<u8>, Error> {
    // Without it, a FIFO is opened when somebody writes to it, and not before.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    let too_long = || {
        let reason = format!("it has more than {} MiB, which is the limit", len_max >> 20);
        Error::new(ErrorKind::FileTooLarge, reason)
    };
    if file.metadata()?.len() > len_max {
        return Err(too_long());
    }
    wait(&file)?;
    let mut bytes = Vec::new();
    loop {
        let mut rest = (&file).take(len_max + 1 - bytes.len() as u64);
        match rest.read_to_end(&mut bytes) {
            Ok(_) if bytes.len() as u64 > len_max => return Err(too_long()),
            Ok(_) => return Ok(bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(&file)?,
            Err(error) => return Err(error),
        }
    }
}

/// Waits until there is something to read, or nobody writes any more.
fn wait(file: &File) -> Result<(), Error> {
    let mut fds = [PollFd::new(file, PollFlags::IN)];
    match poll(&mut fds, Some(&Timespec { tv_sec: IDLE_S, tv_nsec: 0 }))? {
        0 => {
            let reason = format!("it gave nothing for {IDLE_S} s");
            Err(Error::new(ErrorKind::TimedOut, reason))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_up_to_their_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for (len, is_read) in [(0, true), (1 << 20, true), ((1 << 20) + 1, false)] {
            std::fs::write(&path, vec![b'x'; len]).unwrap();
            let said = text(&path, 1 << 20).map(|text| text.len()).map_err(|e| e.to_string());
            let refused = "it has more than 1 MiB, which is the limit; give a file";
            match said {
                Ok(read) => assert!(is_read && read == len),
                Err(said) => assert!(!is_read && said.contains(refused), "{said}"),
            }
        }
        // Without a length of its own.
        let said = text(Path::new("/dev/zero"), 1 << 20).unwrap_err().to_string();
        assert!(said.contains("it has more than 1 MiB"), "{said}");
        std::fs::write(&path, b"a\nb\xff").unwrap();
        let said = text(&path, 1 << 20).unwrap_err().to_string();
        assert!(said.contains("line 2 is not text in UTF-8"), "{said}");
        assert!(text(directory.path(), 1 << 20).unwrap_err().to_string().contains("directory"));
    }
}
