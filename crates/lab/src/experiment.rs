//! The experiments that are built in, and those that a user brings along.

use std::path::Path;

use crate::spec::{Spec, SpecError};

/// Name and text of every built-in experiment, in the order in which a run without names measures
/// them all.
const EMBEDDED: [(&str, &str); 21] = [
    ("occupancy", include_str!("../../../experiments/occupancy.toml")),
    ("update-batch", include_str!("../../../experiments/update-batch.toml")),
    ("update-rate", include_str!("../../../experiments/update-rate.toml")),
    ("rule-rate", include_str!("../../../experiments/rule-rate.toml")),
    ("rule-update", include_str!("../../../experiments/rule-update.toml")),
    ("hash-skew", include_str!("../../../experiments/hash-skew.toml")),
    ("frame-size", include_str!("../../../experiments/frame-size.toml")),
    ("queue-scaling", include_str!("../../../experiments/queue-scaling.toml")),
    ("queue-overhead", include_str!("../../../experiments/queue-overhead.toml")),
    ("queue-change", include_str!("../../../experiments/queue-change.toml")),
    ("echo-size", include_str!("../../../experiments/echo-size.toml")),
    ("echo-batch", include_str!("../../../experiments/echo-batch.toml")),
    ("echo-features", include_str!("../../../experiments/echo-features.toml")),
    ("echo-ledger", include_str!("../../../experiments/echo-ledger.toml")),
    ("stream", include_str!("../../../experiments/stream.toml")),
    ("memcached", include_str!("../../../experiments/memcached.toml")),
    ("redis", include_str!("../../../experiments/redis.toml")),
    ("function", include_str!("../../../experiments/function.toml")),
    ("core-scaling", include_str!("../../../experiments/core-scaling.toml")),
    ("program-cost", include_str!("../../../experiments/program-cost.toml")),
    ("kvs-steering", include_str!("../../../experiments/kvs-steering.toml")),
];

/// Longest file of an experiment; those that are built in have some kilobytes.
const LEN_MAX: u64 = 1 << 20;

/// What `niclab list` says of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// Its name.
    pub name: String,
    /// The question it asks.
    pub question: String,
    /// Its axes: name and meaning.
    pub axes: Vec<(&'static str, &'static str)>,
}

/// Names of the built-in experiments: a run without names measures all of them.
pub fn names() -> impl Iterator<Item = &'static str> {
    EMBEDDED.iter().map(|(name, _)| *name)
}

/// The built-in experiments.
pub fn list() -> Result<Vec<Listing>, SpecError> {
    let listing = |(name, text): &(&str, &str)| {
        let spec = Spec::parse(name, text)?;
        let axes = spec.kind.axes().to_vec();
        Ok(Listing { name: spec.name, question: spec.question, axes })
    };
    EMBEDDED.iter().map(listing).collect()
}

/// The experiment called `name`, or the one in the file at the path `name`.
pub fn spec(name: &str) -> Result<Spec, SpecError> {
    if let Some((name, text)) = EMBEDDED.iter().find(|(known, _)| *known == name) {
        return Spec::parse(name, text);
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") && !path.exists() {
        let known = names().collect::<Vec<_>>().join(", ");
        return Err(SpecError::Unknown { name: name.to_string(), known });
    }
    let text = niclab_files::text(path, LEN_MAX).map_err(|error| SpecError::Unreadable {
        path: path.to_path_buf(),
        source: error.into(),
    })?;
    Spec::parse(name, &text)
}

/// The text of a built-in experiment, to copy and change.
pub fn text(name: &str) -> Option<&'static str> {
    EMBEDDED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_embedded_experiment_is_legal_and_has_its_name() {
        for (name, _) in EMBEDDED {
            assert_eq!(spec(name).unwrap().name, name);
        }
        assert!(list().unwrap().into_iter().map(|listing| listing.name).eq(names()));
    }

    #[test]
    fn a_file_is_an_experiment_too_and_an_unknown_name_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mine.toml");
        fs::write(
            &path,
            text("occupancy").unwrap().replace("\"occupancy\"\nkind", "\"mine\"\nkind"),
        )
        .unwrap();
        assert_eq!(spec(&path.to_string_lossy()).unwrap().name, "mine");
        let error = spec("ocupancy").unwrap_err().to_string();
        assert!(error.contains("no experiment `ocupancy`: there are occupancy"), "{error}");
        let error = spec("none.toml").unwrap_err();
        assert!(matches!(error, SpecError::Unreadable { .. }), "{error}");
    }
}
