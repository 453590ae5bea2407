//! Files of rules and traces: they lie on the host that asks, and the agent needs them.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::protocol::FilePart;
use crate::Load;
use crate::face::{DeviceError, RuleBlock, Setup, Task};
use crate::scratch::Scratch;
use crate::two_hosts::HalfTask;

/// Bytes of a file that go into one request.
const PART_LEN: usize = 1 << 20;

/// The files that a set-up names.
pub(super) fn of_setup(setup: &Setup) -> impl Iterator<Item = &Path> {
    setup.rules.iter().filter_map(|block| match block {
        RuleBlock::File { path, .. } => Some(path.as_path()),
        RuleBlock::Any { .. } | RuleBlock::Stack { .. } | RuleBlock::FiveTuples { .. } => None,
    })
}

/// The file that a load names.
pub(super) fn of_load(load: &Load) -> Option<&Path> {
    load.trace.as_deref()
}

/// The file that a task names.
pub(super) fn of_task(task: &Task) -> Option<&Path> {
    match task {
        Task::Load { load, .. } => of_load(load),
        _ => None,
    }
}

/// Files that the agent has, as the side that asks knows it.
#[derive(Default)]
pub(super) struct SentFiles(HashSet<PathBuf>);

impl SentFiles {
    /// Hands over the parts of each file that the agent does not have yet.
    ///
    /// # Errors
    /// Of reading a file, with its path; those of `send`.
    pub(super) fn send<'a>(
        &mut self,
        paths: impl Iterator<Item = &'a Path>,
        mut send: impl FnMut(FilePart) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        for path in paths {
            if self.0.contains(path) {
                continue;
            }
            let failed = |error: io::Error| DeviceError::Absent {
                what: path.display().to_string(),
                remedy: format!("{error}; give a file that can be read"),
            };
            let mut file = File::open(path).map_err(failed)?;
            let mut is_first = true;
            loop {
                let mut content = Vec::with_capacity(PART_LEN);
                let part = (&mut file).take(PART_LEN as u64);
                { part }.read_to_end(&mut content).map_err(failed)?;
                if content.is_empty() && !is_first {
                    break;
                }
                let content = STANDARD.encode(&content);
                send(FilePart { path: path.to_owned(), is_first, content })?;
                is_first = false;
            }
            self.0.insert(path.to_owned());
        }
        Ok(())
    }
}

/// The agent's copies, gone with it.
#[derive(Default)]
pub(super) struct KeptFiles {
    place: Option<Scratch>,
    copies: HashMap<PathBuf, PathBuf>,
}

impl KeptFiles {
    /// Keeps a part.
    ///
    /// # Errors
    /// Of writing; a part that is no base64.
    pub(super) fn keep(&mut self, part: &FilePart) -> io::Result<()> {
        let content = STANDARD.decode(&part.content);
        let content = content.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        if part.is_first {
            let place = match &self.place {
                Some(place) => place,
                None => self.place.insert(Scratch::create("agent")?),
            };
            // Messages name the file, and files of two directories may have one name.
            let directory = place.path().join(self.copies.len().to_string());
            fs::create_dir_all(&directory)?;
            let name = part.path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            let copy = directory.join(name);
            fs::write(&copy, content)?;
            self.copies.insert(part.path.clone(), copy);
            return Ok(());
        }
        let copy = self.copies.get(&part.path).ok_or(io::ErrorKind::NotFound)?;
        OpenOptions::new().append(true).open(copy)?.write_all(&content)
    }

    /// Lets a set-up name the copies.
    pub(super) fn place_setup(&self, setup: &mut Setup) {
        for block in &mut setup.rules {
            if let RuleBlock::File { path, .. } = block {
                self.place(path);
            }
        }
    }

    /// Lets a task name the copy.
    pub(super) fn place_task(&self, task: &mut Task) {
        if let Task::Load { load, .. } = task
            && let Some(path) = &mut load.trace
        {
            self.place(path);
        }
    }

    /// The same of half a testbed.
    pub(super) fn place_half(&self, task: &mut HalfTask) {
        if let HalfTask::Offer { load, .. } | HalfTask::Serve { load, .. } = task
            && let Some(path) = &mut load.trace
        {
            self.place(path);
        }
    }

    fn place(&self, path: &mut PathBuf) {
        if let Some(copy) = self.copies.get(path.as_path()) {
            path.clone_from(copy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_arrives_whole_whatever_its_length_and_is_sent_once() {
        let directory = tempfile::tempdir().unwrap();
        for len in [0, 1, PART_LEN, PART_LEN + 1, 3 * PART_LEN] {
            let path = directory.path().join("rules");
            let content: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            fs::write(&path, &content).unwrap();
            let (mut sent, mut kept) = (SentFiles::default(), KeptFiles::default());
            let mut parts = 0;
            for _ in 0..2 {
                let keep = |part: FilePart| {
                    parts += 1;
                    kept.keep(&part).unwrap();
                    Ok(())
                };
                sent.send([path.as_path()].into_iter(), keep).unwrap();
            }
            assert_eq!(parts, len.div_ceil(PART_LEN).max(1));
            let copy = kept.copies[&path].clone();
            assert_eq!(fs::read(&copy).unwrap(), content);
            assert_eq!(copy.file_name(), path.file_name());
            drop(kept);
            assert!(!copy.exists());
        }
    }

    #[test]
    fn a_file_that_is_not_there_and_a_part_without_a_beginning_are_errors() {
        let mut sent = SentFiles::default();
        let path = Path::new("/nowhere/rules");
        let error = sent.send([path].into_iter(), |_| Ok(())).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/rules not found: No such file"), "{error}");
        let part = |is_first, content: &str| FilePart {
            path: path.to_owned(),
            is_first,
            content: content.to_owned(),
        };
        let mut kept = KeptFiles::default();
        assert!(kept.keep(&part(false, "AA==")).is_err());
        assert!(kept.keep(&part(true, "no base64")).is_err());
    }
}
