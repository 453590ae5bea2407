//! What the data of `occupancy` show, before it is worded or drawn.

use crate::spec::TrialKind;
use crate::summary::{FoundKnee, Results};
use crate::words;

/// Flows of the traffic where they are not swept: those of most points.
pub(crate) fn flows_common(results: &Results<'_>) -> f64 {
    let mut flows: Vec<f64> = results
        .cells
        .all()
        .iter()
        .filter(|cell| cell.trial == "saturate")
        .filter_map(|cell| cell.number("flows"))
        .collect();
    flows.sort_by(f64::total_cmp);
    let runs = flows.chunk_by(|a, b| a == b).map(|run| (run.len(), run[0]));
    runs.max_by_key(|(count, _)| *count).map_or(0.0, |(_, flows)| flows)
}

/// The rate of the trials of this kind: `60 % of the maximum`.
pub(crate) fn rate_words(results: &Results<'_>, kind: TrialKind) -> String {
    // Without such trials nothing is drawn of them.
    results.experiment.share(kind).map_or_else(String::new, words::of_maximum)
}

/// The figure that shows a knee.
pub(crate) fn knee_figure(knee: &FoundKnee) -> String {
    let groups = if knee.knee.spec.groups == 0 { "group0" } else { "groups" };
    format!("occupancy-throughput-{groups}-{}", knee.frame)
}
