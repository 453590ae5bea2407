//! Profiles of modelled cards: their files, their schema, and the times that follow from them.
//!
//! `profile` reads a file, in which every number names its source; `schema` has the sections and
//! keys. `rule_costs` computes what an operation on a rule takes, `classifier` what a frame takes.
//! The crate opens no port and reads no clock.
#![forbid(unsafe_code)]

pub mod classifier;
pub mod pcie;
pub mod profile;
pub mod rule_costs;
pub mod schema;

use std::path;

use profile::{Profile, ProfileError};

/// The profiles that come with niclab, and their texts.
const PROFILES: &[(&str, &str)] = &[
    ("82599", include_str!("../../../profiles/82599.toml")),
    ("bluefield", include_str!("../../../profiles/bluefield.toml")),
    ("bluefield2", include_str!("../../../profiles/bluefield2.toml")),
    ("bluefield2-off-path", include_str!("../../../profiles/bluefield2-off-path.toml")),
    ("bluefield2-off-path-snic", include_str!("../../../profiles/bluefield2-off-path-snic.toml")),
    ("bluefield2-snic", include_str!("../../../profiles/bluefield2-snic.toml")),
    ("connectx-4", include_str!("../../../profiles/connectx-4.toml")),
    ("connectx-4lx", include_str!("../../../profiles/connectx-4lx.toml")),
    ("connectx-5", include_str!("../../../profiles/connectx-5.toml")),
    ("connectx-6", include_str!("../../../profiles/connectx-6.toml")),
    ("e810", include_str!("../../../profiles/e810.toml")),
    ("stingray", include_str!("../../../profiles/stingray.toml")),
    ("stingray-snic", include_str!("../../../profiles/stingray-snic.toml")),
    ("xl710", include_str!("../../../profiles/xl710.toml")),
];

/// Longest file of a profile; those that come with niclab have some kilobytes.
const LEN_MAX: u64 = 1 << 20;

/// Names of the profiles that come with niclab.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|(name, _)| *name)
}

/// Text of a profile: of one that comes with niclab by its name, of a file by its path. With it
/// comes what errors call it.
///
/// # Errors
/// What there is where there is no such profile.
pub fn text(name: &str) -> Result<(String, String), NoProfile> {
    if let Some((name, text)) = PROFILES.iter().find(|(known, _)| *known == name) {
        return Ok((format!("profiles/{name}.toml"), (*text).to_owned()));
    }
    let known = || names().collect::<Vec<_>>().join(", ");
    match niclab_files::text(path::Path::new(name), LEN_MAX) {
        Ok(text) => Ok((name.to_owned(), text)),
        Err(error) => Err(NoProfile { name: name.to_owned(), error, known: known() }),
    }
}

/// There is no such profile.
#[derive(Debug, thiserror::Error)]
#[error("profile `{name}`: {error}; give a file, or one of {known}")]
pub struct NoProfile {
    /// The given text.
    pub name: String,
    /// Why its file cannot be read.
    pub error: niclab_files::FileError,
    /// The available names.
    pub known: String,
}

/// Why a profile cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum UnreadProfile {
    /// It is not there.
    #[error(transparent)]
    Absent(#[from] NoProfile),
    /// It is wrong.
    #[error(transparent)]
    Bad(#[from] ProfileError),
}

/// Reads a profile: one that comes with niclab by its name, another by its path.
///
/// # Errors
/// What there is where there is no such profile; what is wrong with it.
pub fn read(name: &str) -> Result<Profile, UnreadProfile> {
    let (file, text) = text(name)?;
    Ok(Profile::parse(&file, &text)?)
}

/// A number that a computation needs is unknown in the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what needs {section}.{key}, which is unknown in the profile")]
pub struct UnknownNumber {
    /// Its section.
    pub section: &'static str,
    /// Its key.
    pub key: &'static str,
}

/// A number of a profile.
///
/// # Errors
/// [`UnknownNumber`] where the profile does not say it.
pub(crate) fn needed(
    profile: &Profile,
    section: &'static str,
    key: &'static str,
) -> Result<f64, UnknownNumber> {
    profile.number(section, key).ok_or(UnknownNumber { section, key })
}
