//! Applications of a card, read from files with their ports, queues and memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use niclab_card::{Application, Grant};
use serde::Deserialize;

use super::card_program;
use crate::failure::Failure;
use crate::files::{self, PROGRAM_LEN_MAX};

/// An application in a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplicationEntry {
    /// The name of the file where it is left out.
    name: Option<String>,
    program: PathBuf,
    tables: Option<PathBuf>,
    /// All of the card where they are left out.
    ports: Option<Vec<u16>>,
    #[serde(default)]
    queues: Vec<u16>,
    flows: Vec<String>,
    #[serde(default = "one")]
    share: u32,
    /// Bytes of each window that the program may have, and of each of its rings.
    #[serde(default)]
    windows: BTreeMap<String, u64>,
    #[serde(default)]
    rings: BTreeMap<String, u64>,
    /// Bytes of its arrays, learners and digests, on all cores.
    #[serde(default = "memory")]
    memory: u64,
}

fn memory() -> u64 {
    Grant::default().memory
}

fn one() -> u32 {
    1
}

/// Reads the file of an application for a card of so many ports and cores.
///
/// # Errors
/// [`Failure`]: what cannot be read, or a program that asks for more than the application has.
pub(super) fn open(path: &Path, ports: usize, cores: usize) -> Result<Application, Failure> {
    let refused = |reason: String| Failure::Application { path: path.into(), reason };
    let text = files::text(path, PROGRAM_LEN_MAX)?;
    let message: ApplicationEntry =
        serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
    let beside = |file: &Path| path.parent().unwrap_or(Path::new("")).join(file);
    let stem = || path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = message.name.clone().or_else(stem).unwrap_or_default();
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(refused(format!("the name `{name}`: write one word")));
    }
    let program = beside(&message.program);
    let read = card_program::read(&program)?;
    // Before memory is taken for it.
    let ApplicationEntry { windows, rings, memory, .. } = &message;
    let (windows, rings) = (windows.clone(), rings.clone());
    let grant = Grant { windows, rings, memory: *memory };
    grant.check(&name, &read, cores).map_err(|error| refused(error.to_string()))?;
    let tables = message.tables.as_deref().map(beside);
    let pipeline = card_program::load(&program, read, tables.as_deref())?;
    let ports = message.ports.unwrap_or_else(|| (0..ports as u16).collect());
    let ApplicationEntry { queues, flows, share, .. } = message;
    Ok(Application { name, pipeline, ports, queues, flows, share, grant })
}
