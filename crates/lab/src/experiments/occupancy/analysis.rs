//! What the data of `occupancy` show, before it is worded or drawn.

use crate::cells::Cell;
use crate::published::{self, PublishedCard};
use crate::spec::TrialKind;
use crate::summary::beside_published::PublishedPoint;
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

/// Throughput of 1500 B frames at the places of the published figures 2a and 2b.
pub(crate) fn published(
    results: &Results<'_>,
    device: &str,
    card: PublishedCard,
) -> Vec<PublishedPoint> {
    let flows = flows_common(results);
    let is_published = |cell: &&Cell<'_>| {
        cell.is_at(&[("match_percent", 0.0), ("flows", flows)])
            && cell.word("frame") == "1500"
            && !(cell.is_refused() || cell.is_generator_limited() || cell.is_disturbed())
    };
    let cells = results.cells.of(device, "saturate").filter(is_published);
    let point = |cell: &Cell<'_>| {
        let (groups, rules) = (cell.number("groups")?, cell.number("rules")?);
        let figure = if groups == 0.0 { "2a" } else { "2b" };
        let series = words::groups(groups).replace("group", "Table");
        let mut all = published::spreads(card, figure).into_iter();
        Some(PublishedPoint {
            place: format!("{} in {}", words::rules(rules), words::groups(groups)),
            unit: "Gbps",
            figure,
            here: cell.estimate("throughput_gbps_l2")?,
            published: all.find(|of| of.series == series && of.x == rules)?,
        })
    };
    cells.filter_map(point).collect()
}
