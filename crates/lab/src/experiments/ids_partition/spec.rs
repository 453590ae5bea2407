//! The axes of `ids-partition`.

use serde::Deserialize;

use crate::run::Resolver;
use crate::spec::{SpecError, axes, parts, set_all};
use crate::values::Values;

/// A product of axes of rules, of how cores have them, and of engines.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetectionSweep {
    /// What inspects: `niclab`, `suricata`, `suricata-ac`.
    pub engine: Values,
    /// The rules of a core: `copies`, `partitions`.
    pub mode: Values,
    /// What the rules name: `services`, `servers`, `any`.
    pub mix: Values,
    /// Rules.
    pub rules: Values,
    /// Cores that inspect.
    pub cores: Values,
}

axes!(DetectionSweep: engine, mode, mix, rules, cores);

/// Axes of `ids-partition`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("engine", "engine on each core: niclab, suricata, suricata-ac (with Aho-Corasick)"),
    ("mode", "rules of a core: copies (all), partitions (a part)"),
    ("mix", "what most rules name: services (a port), servers (an address), any (neither)"),
    ("rules", "rules"),
    ("cores", "cores that inspect"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// Which rules engines are to have.
        detection: DetectionSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(self.detection.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_detections(&self.detection)
    }
}
