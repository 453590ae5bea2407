//! Notes of an interface's settings before they were changed, from which they are restored.
//!
//! A note is a file that is written before anything is changed, and goes when it is set back. Who
//! has it locked is at work; a file that nobody has locked was left by a process that was killed.
//! The files lie where a reboot takes them away, as it does the settings.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::marker::PhantomData;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{link, refused};
use crate::face::DeviceError;

/// The directory of the notes.
const NOTES: &str = "/run/niclab";

/// A kind of note, by the word that its files begin with.
pub(super) struct NoteKind<T> {
    word: &'static str,
    of: PhantomData<T>,
}

/// The content of a note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NoteContent<T> {
    /// The interface.
    pub interface: String,
    /// The process that has changed it.
    pub process: u32,
    /// Its previous settings.
    pub before: T,
}

/// A note in this process's hands: nobody else changes the interface.
#[derive(Debug)]
pub(super) struct Note {
    file: File,
    path: PathBuf,
}

impl<T: Serialize + DeserializeOwned> NoteKind<T> {
    pub(super) const fn new(word: &'static str) -> NoteKind<T> {
        NoteKind { word, of: PhantomData }
    }

    /// Takes the note of an interface, and says what a killed process wrote on it, if any did;
    /// `None` where somebody is at work.
    pub(super) fn take(
        &self,
        interface: &str,
        index: u32,
    ) -> Result<Option<(Note, Option<T>)>, DeviceError> {
        let path = self.path(index).map_err(noting)?;
        let Some(file) = lock(&path).map_err(noting)? else {
            return Ok(None);
        };
        let mut note = Note { file, path };
        let left: Option<NoteContent<T>> = note.read().map_err(noting)?;
        let left = left.filter(|message| message.interface == interface);
        Ok(Some((note, left.map(|message| message.before))))
    }

    /// The notes of the calling thread's namespace that killed processes have left, with what they
    /// say and the interface's number; those without a word go.
    pub(super) fn left(&self) -> Result<Vec<(Note, NoteContent<T>, u32)>, DeviceError> {
        let entries = match fs::read_dir(NOTES) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(noting)?,
        };
        let namespace = namespace().map_err(noting)?;
        let mut left = Vec::new();
        for entry in entries {
            let path = entry.map_err(noting)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(index) = name.and_then(|name| self.index(name, namespace)) else {
                continue;
            };
            let Some(file) = lock(&path).map_err(noting)? else {
                continue;
            };
            let mut note = Note { file, path };
            match note.read().map_err(noting)? {
                // Of an interface that is another by now nobody has changed anything.
                Some(message) if is_there(&message, index)? => left.push((note, message, index)),
                _ => note.remove()?,
            }
        }
        Ok(left)
    }

    /// The path of an interface's note.
    pub(super) fn path(&self, index: u32) -> io::Result<PathBuf> {
        Ok(Path::new(NOTES).join(format!("{}-{}-{index}", self.word, namespace()?)))
    }

    /// The interface's number that the name of a note of this namespace has.
    fn index(&self, name: &str, namespace: u64) -> Option<u32> {
        let (of, index) = name.strip_prefix(self.word)?.strip_prefix('-')?.split_once('-')?;
        (of.parse::<u64>().ok()? == namespace).then(|| index.parse().ok()).flatten()
    }
}

impl Note {
    /// Writes down what an interface does, so that it outlives this process.
    pub(super) fn write<T: Serialize>(
        &mut self,
        interface: &str,
        before: &T,
    ) -> Result<(), DeviceError> {
        let message =
            NoteContent { interface: interface.into(), process: std::process::id(), before };
        self.put(&message).map_err(noting)
    }

    /// Removes it, and the directory with the last of them.
    pub(super) fn remove(self) -> Result<(), DeviceError> {
        fs::remove_file(&self.path).map_err(noting)?;
        // Where there are others it stays.
        let _ = fs::remove_dir(NOTES);
        Ok(())
    }

    /// Its content; `None` if it is still empty: then nothing was changed.
    fn read<T: DeserializeOwned>(&mut self) -> io::Result<Option<NoteContent<T>>> {
        let mut text = String::new();
        self.file.rewind()?;
        self.file.read_to_string(&mut text)?;
        Ok(serde_json::from_str(&text).ok())
    }

    fn put<T: Serialize>(&mut self, message: &NoteContent<T>) -> io::Result<()> {
        let text = serde_json::to_string(message)?;
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())?;
        self.file.sync_all()
    }
}

fn is_there<T>(message: &NoteContent<T>, index: u32) -> Result<bool, DeviceError> {
    let found = link::find(&message.interface).map_err(noting)?;
    Ok(found.is_some_and(|link| link.index == index))
}

fn noting(error: io::Error) -> DeviceError {
    refused(&format!("keeping a note in {NOTES}"), &error)
}

/// Number of the calling thread's network namespace.
fn namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/thread-self/ns/net")?.ino())
}

/// The file, locked, with its directory; `None` where somebody else has it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let number = |of: io::Result<fs::Metadata>| of.ok().map(|of| of.ino());
    loop {
        fs::create_dir_all(NOTES)?;
        let mut options = File::options();
        let file = match options.read(true).write(true).create(true).truncate(false).open(path) {
            // Somebody has removed the directory in between.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(e)) => return Err(e),
            Ok(()) => {}
        }
        // Who had it may have removed it meanwhile: then this is a file without a name.
        if number(fs::metadata(path)) == number(file.metadata()) {
            return Ok(Some(file));
        }
    }
}
