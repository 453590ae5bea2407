//! Changes to an experiment by the command line.

use std::path::PathBuf;

use niclab_load::TraceFrames;
use serde::{Deserialize, Serialize};

use super::ranges::{DURATION_MS_MAX, in_range};
use super::{ExperimentKind, Grid, GridName, Spec, SpecError};
use crate::placement::Placement;
use crate::published::PublishedCard;
use crate::values::Values;
use crate::variants::Variants;

/// Changes by the command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// `--set NAME=VALUES`, in the order given.
    pub set: Vec<Assignment>,
    /// `--repeats N`.
    pub repeats: Option<u32>,
    /// `--seed N`; 1 where it is not given.
    pub seed: Option<u64>,
    /// `--full`, `--grid published`.
    pub grid: GridName,
    /// `--trace FILE`: these frames in place of generated ones.
    pub trace: Option<Trace>,
    /// `--rules FILE`: these rules in place of generated ones.
    pub rules: Option<RulesFile>,
    /// `--card NAME`: whose published figures are drawn beside ours.
    pub card: PublishedCard,
    /// `--where`, `--there`, `--path`: where programs run.
    pub placement: Placement,
    /// Interrupt coalescing is off meanwhile.
    pub tune: bool,
    /// `--variant NAME=COMMAND`, twice or more.
    pub variants: Variants,
}

/// A capture that is sent in place of generated frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// The file.
    pub path: PathBuf,
    /// The frames of it that are sent.
    #[serde(flatten)]
    pub frames: TraceFrames,
}

/// A file of `flow` commands whose rules are installed in place of generated ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesFile {
    /// The file.
    pub path: PathBuf,
    /// Rules that it creates.
    pub rules_count: u32,
    /// Queues that its rules name, all below this number.
    pub queues: u16,
    /// Rules that decided about a frame of the run's traffic within a fifth of a second; `None`
    /// where nobody looked.
    #[serde(default)]
    pub rules_met: Option<u32>,
}

/// One `--set NAME=VALUES`.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Name of the axis.
    pub name: String,
    /// Its values.
    pub values: Values,
}

impl std::str::FromStr for Assignment {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Assignment, SpecError> {
        let (name, values) = text
            .split_once('=')
            .ok_or_else(|| SpecError::NoAssignment { text: text.to_string() })?;
        let values = Values::parse(values)
            .map_err(|source| SpecError::BadValues { name: name.to_string(), source })?;
        Ok(Assignment { name: name.trim().to_string(), values })
    }
}

impl Overrides {
    /// `grid` with what was set on the command line.
    pub(crate) fn applied(&self, kind: ExperimentKind, grid: &Grid) -> Result<Grid, SpecError> {
        let (of, mut grid) = (kind.of(), grid.clone());
        for Assignment { name, values } in &self.set {
            match name.as_str() {
                "match_percent" | "flows" | "zipf" | "frame" if self.trace.is_some() => {
                    return Err(SpecError::OfTrace { name: name.clone() });
                }
                name if self.rules.is_some() && of.axes_of_rules().contains(&name) => {
                    return Err(SpecError::OfRules { name: name.to_owned() });
                }
                "duration_ms" => {
                    grid.duration_ms = single("duration_ms", values)?;
                    grid.sweeps.set(name, values)?;
                }
                "warmup_ms" => grid.warmup_ms = single("warmup_ms", values)?,
                _ => grid.sweeps.set(name, values)?,
            }
        }
        grid.sweeps.overridden(self)?;
        in_range("duration_ms", grid.duration_ms, 1..=DURATION_MS_MAX)?;
        in_range("warmup_ms", grid.warmup_ms, 0..=DURATION_MS_MAX)?;
        grid.repeats = self.repeats.unwrap_or(grid.repeats);
        Ok(grid)
    }

    /// Refuses what is an axis of none of the experiments.
    pub(crate) fn check_axes(&self, specs: &[Spec]) -> Result<(), SpecError> {
        let mut known: Vec<&str> = Vec::new();
        for (name, _) in specs.iter().flat_map(|spec| spec.kind.of().axes()) {
            if !known.contains(name) {
                known.push(name);
            }
        }
        match self.set.iter().find(|set| !known.contains(&set.name.as_str())) {
            None => Ok(()),
            Some(Assignment { name, .. }) => {
                Err(SpecError::UnknownAxis { name: name.clone(), known: known.join(", ") })
            }
        }
    }
}

/// The one number of an axis.
pub(crate) fn single(axis: &'static str, values: &Values) -> Result<u64, SpecError> {
    match values.0.as_slice() {
        [niclab_result::Coordinate::Number(number)] => Ok(*number as u64),
        _ => Err(SpecError::OutOfRange {
            axis,
            value: values.to_string(),
            remedy: "give one number".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::occupancy::spec::Parts;
    use crate::experiments::update_batch::spec::Parts as Batches;

    #[test]
    fn an_assignment_is_read_or_refused_with_the_right_form() {
        let set: Assignment = "rules=0,1k".parse().unwrap();
        assert_eq!((set.name.as_str(), set.values.to_string().as_str()), ("rules", "0,1000"));
        let error = "rules".parse::<Assignment>().unwrap_err().to_string();
        assert!(error.contains("write NAME=VALUES"), "{error}");
        let error = "rules=[9-1]".parse::<Assignment>().unwrap_err().to_string();
        assert!(error.contains("--set rules: `[9-1]` is no range"), "{error}");
    }

    #[test]
    fn set_replaces_an_axis_and_refuses_an_unknown_one() {
        let spec = crate::experiments::spec("occupancy").unwrap();
        let set = |text: &str| Overrides {
            set: vec![text.parse().unwrap()],
            repeats: Some(2),
            ..Default::default()
        };
        let grid = set("rules=7").applied(spec.kind, &spec.reduced).unwrap();
        assert!(grid.of::<Parts>().sweep.iter().all(|sweep| sweep.rules == Values::number(7)));
        assert_eq!((grid.repeats, grid.of::<Parts>().knee.len()), (2, 0));
        let grid = set("flows=7").applied(spec.kind, &spec.reduced).unwrap();
        assert_eq!(grid.of::<Parts>().knee, spec.reduced.of::<Parts>().knee);
        assert_eq!(set("duration_ms=9").applied(spec.kind, &spec.reduced).unwrap().duration_ms, 9);
        let batches = crate::experiments::spec("update-batch").unwrap();
        let both = [spec.clone(), batches.clone()];
        let error = set("rulez=7").check_axes(&both).unwrap_err().to_string();
        assert!(error.contains("groups, rules, match_percent"), "{error}");
        assert_eq!(error.matches("frame").count(), 1, "{error}");
        assert!(
            set("batch=7").check_axes(&both).is_ok() && set("rules=7").check_axes(&both).is_ok()
        );
        assert!(set("batch=7").check_axes(&both[..1]).is_err());
        assert_eq!(
            set("batch=7").applied(spec.kind, &spec.reduced).unwrap().of::<Parts>().sweep,
            spec.reduced.of::<Parts>().sweep
        );
        let grid = set("batch=7").applied(batches.kind, &batches.reduced).unwrap();
        assert!(grid.of::<Batches>().batch.iter().all(|batch| batch.batch == Values::number(7)));
        let error =
            set("after_ms=3").applied(batches.kind, &batches.reduced).unwrap_err().to_string();
        assert!(error.contains("after_ms = 3: use 20 to 600000 milliseconds"), "{error}");
        for bad in ["duration_ms=0", "duration_ms=99999999999999", "warmup_ms=600001"] {
            let error = set(bad).applied(spec.kind, &spec.reduced).unwrap_err().to_string();
            assert!(error.contains("milliseconds"), "{error}");
        }
        let error =
            set("duration_ms=1,2").applied(spec.kind, &spec.reduced).unwrap_err().to_string();
        assert!(error.contains("give one number"), "{error}");
    }
}
