//! What changed since an earlier run, as `summary.json` has it.

use serde::{Deserialize, Serialize};

/// Version of [`BaselineSummary`].
pub const BASELINE_SCHEMA: u32 = 1;

/// The comparison of a run with an earlier one, its baseline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BaselineSummary {
    /// [`BASELINE_SCHEMA`].
    pub schema: u32,
    /// Result directory of the baseline, as it was given.
    pub directory: String,
    /// Name and version of the program that measured it.
    pub program: String,
    /// Its start, RFC 3339, UTC.
    pub started: String,
    /// How far a ratio may be from 1 where nothing changed: 0.05 is 5 %.
    pub tolerance: f64,
    /// Points with each verdict.
    pub counts: VerdictCounts,
    /// What changed, at most [`BASELINE_SENTENCES_MAX`] sentences, the most important first.
    pub sentences: Vec<String>,
    /// Why the comparison is in doubt, in one line; empty where both runs were made alike.
    pub caution: String,
    /// Every difference in how the two runs were made, a sentence each.
    pub differences: Vec<String>,
}

/// Sentences of a [`BaselineSummary`], at most.
pub const BASELINE_SENTENCES_MAX: usize = 7;

/// How many compared points have which verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictCounts {
    /// Worse by more than the tolerance.
    pub worse: usize,
    /// Better by more than the tolerance.
    pub better: usize,
    /// Within the tolerance.
    pub same: usize,
    /// Not decided.
    pub open: usize,
}

impl VerdictCounts {
    /// All compared points.
    pub fn all(&self) -> usize {
        self.worse + self.better + self.same + self.open
    }
}
