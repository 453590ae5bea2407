//! `niclab nic ctl`: tells a card that runs what to do, and prints what it says.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, ErrorKind, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use niclab_card::Counters;
use niclab_files::FileError;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::Value;

use super::{COMMAND_LEN_MAX, WORK, too_long};
use crate::failure::Failure;
use crate::files;
use crate::nic::{programmed, table};
use crate::output::stdout;

/// Tells a card that runs a command, and prints what it says. Files that the command names are
/// opened here, with the rights of who calls.
pub(in crate::nic) fn ctl(path: &Path, is_json: bool, words: &str) -> Result<(), Failure> {
    let command = programmed::sent(words, is_json)?;
    if command.len() > COMMAND_LEN_MAX {
        return Err(Failure::Refused { reason: too_long() });
    }
    let stream = UnixStream::connect(path).map_err(|error| no_card(path, &error))?;
    stream.set_read_timeout(Some(WORK))?;
    let capture = CaptureFile::of(words)?;
    // Where it has not been heard to its end, the answer says why.
    let said = say(&stream, &command.replace('\n', " "), capture.as_ref());
    let line = match heard(path, &stream) {
        Ok(line) if line.is_empty() => {
            said.map_err(|error| no_card(path, &error))?;
            return Err(odd(path));
        }
        heard => heard?,
    };
    let answer: Value = serde_json::from_str(&line).map_err(|_| odd(path))?;
    if let (false, Some(capture)) = (answer["error"].is_string(), capture) {
        capture.keep();
    }
    print(path, is_json, &line, answer)
}

/// Sends a command, and beside it the file that it names.
fn say(stream: &UnixStream, command: &str, capture: Option<&CaptureFile>) -> io::Result<()> {
    let Some(capture) = capture else { return writeln!(&*stream, "{command}") };
    let files = [capture.file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    beside.push(SendAncillaryMessage::ScmRights(&files));
    let line = format!("{command}\n");
    let sent = sendmsg(stream, &[IoSlice::new(line.as_bytes())], &mut beside, SendFlags::NOSIGNAL)?;
    (&*stream).write_all(&line.as_bytes()[sent..])
}

/// The line that a card answers.
fn heard(path: &Path, stream: &UnixStream) -> Result<String, Failure> {
    let mut line = String::new();
    let heard = BufReader::new(stream).read_line(&mut line);
    heard.map(|_| line).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => Failure::Control {
            path: path.to_path_buf(),
            reason: format!("no answer within {} s: the card is at work", WORK.as_secs()),
        },
        _ => no_card(path, &error),
    })
}

/// That nothing can be said to a card by this socket, and what to do.
fn no_card(path: &Path, error: &io::Error) -> Failure {
    let reason = match error.kind() {
        ErrorKind::PermissionDenied => format!("{error}: {}", files::who_may(path)),
        _ => format!("{error}; no card listens there: niclab nic --control {}", path.display()),
    };
    Failure::Control { path: path.to_path_buf(), reason }
}

/// That what answers is no card.
fn odd(path: &Path) -> Failure {
    let reason = "what listens there is no card".to_owned();
    Failure::Control { path: path.to_path_buf(), reason }
}

/// Prints an answer, or fails by it.
fn print(path: &Path, is_json: bool, line: &str, answer: Value) -> Result<(), Failure> {
    if is_json {
        write!(stdout(), "{line}")?;
    }
    if let Some(reason) = answer["error"].as_str() {
        return Err(Failure::Refused { reason: reason.to_owned() });
    }
    if is_json {
        return Ok(());
    }
    match answer["done"].as_array() {
        Some(lines) => {
            for line in lines.iter().filter_map(Value::as_str) {
                writeln!(stdout(), "{line}")?;
            }
        }
        // What tables have, as a file.
        None if answer["tables"].is_object() || answer["groups"].is_object() => {
            write!(stdout(), "{line}")?;
        }
        None => {
            let counters: Counters = serde_json::from_value(answer).map_err(|_| odd(path))?;
            write!(stdout(), "{}", table(&counters))?;
        }
    }
    Ok(())
}

/// A file that frames are to be captured into. What is in it stays until the card begins. A file
/// that was made for it goes with this, unless the card took it.
struct CaptureFile {
    file: File,
    path: PathBuf,
    /// It was not there before.
    is_new: bool,
}

impl CaptureFile {
    /// Opens the file of a `capture PORT FILE`; `None` for another command.
    fn of(words: &str) -> Result<Option<CaptureFile>, Failure> {
        let words: Vec<&str> = words.split_whitespace().collect();
        let (["capture", port, file] | ["capture", port, file, "count", _]) = words[..] else {
            return Ok(None);
        };
        if file == "off" || port.parse::<u16>().is_err() {
            return Ok(None);
        }
        let path = PathBuf::from(file);
        let (file, is_new) = CaptureFile::open(&path).map_err(|error| {
            let otherwise = "give the path of a file to be written";
            let reason = files::reason(&path, &error, otherwise);
            Failure::Refused { reason: format!("{}: {reason}", path.display()) }
        })?;
        Ok(Some(CaptureFile { file, path, is_new }))
    }

    fn open(path: &Path) -> Result<(File, bool), FileError> {
        match File::options().write(true).create_new(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                // A link to a file that is not there yet makes it.
                Ok((niclab_files::create(path)?, false))
            }
            made => Ok((made?, true)),
        }
    }

    /// The card took it.
    fn keep(mut self) {
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
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    #[test]
    fn a_file_that_the_card_does_not_take_does_not_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("seen.pcap");
        let words = format!("capture 0 {}", path.display());
        let made = || CaptureFile::of(&words).unwrap().unwrap();
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
        fs::remove_file(&path).unwrap();

        let socket = directory.path().join("card");
        let listener = UnixListener::bind(&socket).unwrap();
        let card = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            BufReader::new(stream).read_line(&mut String::new()).unwrap();
        });
        ctl(&socket, false, &words).unwrap_err();
        card.join().unwrap();
        assert!(!path.exists(), "the card gave no answer");
    }
}
