//! The name of an experiment's implementation, as files write it: `kind = "update_rate"`.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use super::{ALL, Experiment};

/// One line of the registry. Several experiments may be of one kind, with other axes.
#[derive(Clone, Copy)]
pub struct ExperimentKind(&'static dyn Experiment);

impl ExperimentKind {
    /// The kind that files call `name`.
    pub(crate) fn named(name: &str) -> Option<ExperimentKind> {
        ExperimentKind::all().find(|kind| kind.of().name() == name)
    }

    /// All kinds, in the order of the registry.
    pub(crate) fn all() -> impl Iterator<Item = ExperimentKind> + Clone {
        ALL.iter().copied().map(ExperimentKind)
    }

    /// What the lab knows of it.
    pub(crate) fn of(self) -> &'static dyn Experiment {
        self.0
    }
}

impl PartialEq for ExperimentKind {
    fn eq(&self, other: &ExperimentKind) -> bool {
        self.0.name() == other.0.name()
    }
}

impl Eq for ExperimentKind {}

impl fmt::Debug for ExperimentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

impl Serialize for ExperimentKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl<'de> Deserialize<'de> for ExperimentKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ExperimentKind, D::Error> {
        let name = String::deserialize(deserializer)?;
        ExperimentKind::named(&name).ok_or_else(|| {
            let known: Vec<String> = ALL.iter().map(|of| format!("`{}`", of.name())).collect();
            de::Error::custom(format!(
                "unknown kind `{name}`, expected one of {}",
                known.join(", ")
            ))
        })
    }
}
