//! The experiments that are built in, and those that a user brings along.

use std::path::Path;

use crate::spec::{Spec, SpecError};

/// Kinds of devices, as `README.md` names them.
const MODEL: &str = "model:…";
const LINUX: &str = "linux:…";
const VETH: &str = "linux:veth";
const DPDK: &str = "dpdk:…";
const PEER: &str = "peer:…";

/// Kinds on which frames and few rules are measured.
const CARDS: &[&str] = &["soft", MODEL, LINUX, DPDK];

/// Name and text of every built-in experiment, and the kinds of devices on which something of it is
/// measured; in the order in which a run without names measures them all.
const EMBEDDED: [(&str, &str, &[&str]); 21] = [
    ("occupancy", include_str!("../../../experiments/occupancy.toml"), CARDS),
    ("update-batch", include_str!("../../../experiments/update-batch.toml"), &["soft", MODEL]),
    ("update-rate", include_str!("../../../experiments/update-rate.toml"), &["soft", MODEL]),
    ("rule-rate", include_str!("../../../experiments/rule-rate.toml"), &["soft", MODEL, LINUX]),
    ("rule-update", include_str!("../../../experiments/rule-update.toml"), &["soft", MODEL]),
    ("hash-skew", include_str!("../../../experiments/hash-skew.toml"), &["soft", MODEL, LINUX]),
    ("frame-size", include_str!("../../../experiments/frame-size.toml"), CARDS),
    ("queue-scaling", include_str!("../../../experiments/queue-scaling.toml"), &["soft", MODEL]),
    ("queue-overhead", include_str!("../../../experiments/queue-overhead.toml"), &["soft", MODEL]),
    ("queue-change", include_str!("../../../experiments/queue-change.toml"), &["soft"]),
    ("echo-size", include_str!("../../../experiments/echo-size.toml"), &[MODEL, VETH, PEER]),
    ("echo-batch", include_str!("../../../experiments/echo-batch.toml"), &[MODEL, VETH, PEER]),
    ("echo-features", include_str!("../../../experiments/echo-features.toml"), &[VETH]),
    ("echo-ledger", include_str!("../../../experiments/echo-ledger.toml"), &[MODEL, VETH, PEER]),
    ("stream", include_str!("../../../experiments/stream.toml"), &[VETH]),
    ("memcached", include_str!("../../../experiments/memcached.toml"), &[VETH, PEER]),
    ("redis", include_str!("../../../experiments/redis.toml"), &[VETH, PEER]),
    ("function", include_str!("../../../experiments/function.toml"), &[VETH, PEER]),
    ("core-scaling", include_str!("../../../experiments/core-scaling.toml"), &[VETH]),
    ("program-cost", include_str!("../../../experiments/program-cost.toml"), &["soft", "swx"]),
    ("kvs-steering", include_str!("../../../experiments/kvs-steering.toml"), &["soft"]),
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
    /// The kinds of devices that it measures something on.
    pub devices: &'static [&'static str],
}

/// Names of the built-in experiments: a run without names measures all of them.
pub fn names() -> impl Iterator<Item = &'static str> {
    EMBEDDED.iter().map(|(name, ..)| *name)
}

/// The built-in experiments.
pub fn list() -> Result<Vec<Listing>, SpecError> {
    let listing = |(name, text, devices)| {
        let spec = Spec::parse(name, text)?;
        let axes = spec.kind.axes().to_vec();
        Ok(Listing { name: spec.name, question: spec.question, axes, devices })
    };
    EMBEDDED.into_iter().map(listing).collect()
}

/// The experiment called `name`, or the one in the file at the path `name`.
pub fn spec(name: &str) -> Result<Spec, SpecError> {
    if let Some((name, text, _)) = EMBEDDED.iter().find(|(known, ..)| *known == name) {
        return Spec::parse(name, text);
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") && !path.exists() {
        let known = names().collect::<Vec<_>>().join(", ");
        return Err(SpecError::Unknown { name: name.to_string(), known });
    }
    let text = niclab_files::text(path, LEN_MAX)
        .map_err(|error| SpecError::Unreadable { path: path.to_path_buf(), source: error })?;
    Spec::parse(name, &text)
}

/// The text of a built-in experiment, to copy and change.
pub fn text(name: &str) -> Option<&'static str> {
    EMBEDDED.iter().find(|(known, ..)| *known == name).map(|(_, text, _)| *text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_embedded_experiment_is_legal_and_has_its_name() {
        for (name, ..) in EMBEDDED {
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
