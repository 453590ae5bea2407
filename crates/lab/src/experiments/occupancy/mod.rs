//! `occupancy`: throughput and latency over the number of rules and groups.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
pub(crate) mod tables;
pub(crate) mod trials;

use super::{CARDS, Experiment, in_its_files, named};

/// The experiment.
pub(crate) struct Occupancy;

impl Experiment for Occupancy {
    named!("occupancy", ("occupancy", "occupancy", CARDS));

    in_its_files!(published);

    fn takes_rules(&self) -> bool {
        true
    }

    /// The rules of the other experiments stand beside those of the file.
    fn axes_of_rules(&self) -> &'static [&'static str] {
        &["groups", "rules", "match_percent"]
    }

    fn terms(&self) -> &'static str {
        "Group 0 is the table that every frame meets first; its rules can send a frame on to other \
         groups. A frame passes chained groups one after the other."
    }

    fn published_load(&self) -> Option<&'static str> {
        Some("1500 B frames that match no rule")
    }

    /// Points stand at more rules than there are.
    fn asks_for_refusals(&self) -> bool {
        true
    }
}
