//! The specification of an experiment: its file, and the changes by the command line.
//!
//! Nothing here is resolved: a [`Spec`] is exactly what the file says, [`Overrides`] what the
//! command line says. [`crate::run::resolve`] makes a [`crate::run::Run`] of both.
//!
//! A file is of one [`ExperimentKind`] and has three grids ([`Grid`]), and a short one where it is
//! part of the default run. A grid says how thoroughly is measured and where: its sweeps are
//! products of axes, its trials ([`TrialKind`]) what is asked at each point, its knees
//! ([`KneeSpec`]) where something breaks. Numbers that cannot be are refused with their place in
//! the file (`ranges`).

pub(crate) mod defaults;
mod error;
pub(crate) mod grid;
mod knee;
mod overrides;
mod ranges;
mod trial;

use serde::Deserialize;

pub use crate::experiments::ExperimentKind;
pub(crate) use defaults::{flows_default, frame_default, zero};
pub use error::SpecError;
pub use grid::{Grid, GridName};
pub(crate) use grid::{GridLists, axes, parts, set_all};
pub use knee::{KneeKind, KneeSpec};
pub(crate) use overrides::single;
pub use overrides::{Assignment, Overrides, RulesFile, Trace};
pub(crate) use ranges::{DURATION_MS_MAX, InvalidValue, in_knee, in_range, whole};
pub use trial::{Hits, TrialKind};

/// An experiment as its file declares it.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its name, such as `occupancy`.
    pub name: String,
    /// The kind of the experiment.
    pub kind: ExperimentKind,
    /// One sentence: the question it asks.
    pub question: String,
    /// Rate of the `latency` trial, as a share of the measured maximum of its point.
    pub latency_share: f64,
    /// Rate of the `light` trial, as a share of the measured maximum of its point.
    pub light_share: f64,
    /// Rate of the `effect` trials, as a share of the measured maximum of their point.
    pub effect_share: f64,
    /// Rate of the `rest`, `batch` and `change` trials, as a share of the measured maximum of their
    /// point.
    pub batch_share: f64,
    /// What it adds to the default run, if it is part of that: half a minute.
    pub short: Option<Grid>,
    /// The grid of an experiment that is requested by name.
    pub reduced: Grid,
    /// The grid of `--full`.
    pub full: Grid,
    /// The grid of `--grid published`: the points of the published figures.
    pub published: Grid,
}

/// The file of an experiment whose grids have these lists.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound = "P: GridLists")]
struct WrittenFile<P> {
    name: String,
    kind: ExperimentKind,
    question: String,
    #[serde(default = "latency_share_default")]
    latency_share: f64,
    #[serde(default = "light_share_default")]
    light_share: f64,
    #[serde(default = "effect_share_default")]
    effect_share: f64,
    #[serde(default = "batch_share_default")]
    batch_share: f64,
    short: Option<grid::WrittenGrid<P>>,
    reduced: grid::WrittenGrid<P>,
    full: grid::WrittenGrid<P>,
    published: grid::WrittenGrid<P>,
}

/// The header of a file, which selects the lists of its grids.
#[derive(Deserialize)]
struct SpecHeader {
    kind: ExperimentKind,
}

/// Reads the file of an experiment whose grids have these lists.
pub(crate) fn read<P: GridLists>(text: &str) -> Result<Spec, toml::de::Error> {
    let written: WrittenFile<P> = toml::from_str(text)?;
    Ok(Spec {
        name: written.name,
        kind: written.kind,
        question: written.question,
        latency_share: written.latency_share,
        light_share: written.light_share,
        effect_share: written.effect_share,
        batch_share: written.batch_share,
        short: written.short.map(|short| short.0),
        reduced: written.reduced.0,
        full: written.full.0,
        published: written.published.0,
    })
}

fn latency_share_default() -> f64 {
    0.6
}

fn light_share_default() -> f64 {
    1.0 / 30.0
}

fn effect_share_default() -> f64 {
    0.25
}

fn batch_share_default() -> f64 {
    0.5
}

impl Spec {
    /// Reads the text of an experiment; `origin` names it in errors.
    ///
    /// # Errors
    /// [`SpecError::Syntax`], [`SpecError::Field`].
    pub fn parse(origin: &str, text: &str) -> Result<Spec, SpecError> {
        let head: Result<SpecHeader, toml::de::Error> = toml::from_str(text);
        let spec = head.and_then(|head| head.kind.of().read(text));
        let spec = spec.map_err(|source| SpecError::Syntax {
            origin: origin.to_string(),
            source: Box::new(source),
        })?;
        spec.check(origin)?;
        Ok(spec)
    }

    /// The grid of this name.
    ///
    /// # Errors
    /// [`SpecError::NotShort`].
    pub fn grid(&self, name: GridName) -> Result<&Grid, SpecError> {
        match name {
            GridName::Short => {
                let name = || SpecError::NotShort { experiment: self.name.clone() };
                self.short.as_ref().ok_or_else(name)
            }
            GridName::Reduced => Ok(&self.reduced),
            GridName::Full => Ok(&self.full),
            GridName::Published => Ok(&self.published),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_field_is_refused_with_its_place_and_the_fields_there_are() {
        let text = "name = \"x\"\nkind = \"occupancy\"\nquestoin = \"?\"\n";
        let error = Spec::parse("my.toml", text).unwrap_err().to_string();
        for part in ["my.toml", "line 3, column 1", "questoin", "`question`"] {
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
    }
}
