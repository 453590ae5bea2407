//! What the data of `update-rate` show, before it is worded or drawn.

use niclab_result::Sample;

use crate::cells::{Cell, paired};
use crate::published::{self, PublishedCard};
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::summary::beside_published::PublishedPoint;
use crate::summary::updates::{calls_words, pace_words};
use crate::{statistics, words};

/// One rate at one place of one device: its trials.
pub(crate) struct Rated<'a> {
    /// The trial at full load.
    pub full: &'a Cell<'a>,
    /// The trial for the latency.
    pub latency: Option<&'a Cell<'a>>,
    /// The same without rule churn; themselves where no rule is replaced.
    pub rest: &'a Cell<'a>,
    pub rest_latency: Option<&'a Cell<'a>>,
}

/// All rates of a device, in reading order.
pub(crate) fn rated<'a>(results: &'a Results<'_>, device: &str) -> Vec<Rated<'a>> {
    let at = |trial: &'a str, point: &niclab_result::Point| {
        results.cells.of(device, trial).find(|cell| cell.point == point)
    };
    let rest = |cell: &Cell<'_>, trial: &'a str| {
        results.cells.of(device, trial).find(|rest| {
            let axes = ["group", "rules", "flows"];
            per_s(rest) == 0.0
                && axes.iter().all(|axis| rest.number(axis) == cell.number(axis))
                && rest.word("frame") == cell.word("frame")
        })
    };
    let all = results.cells.of(device, "saturate").filter_map(|full| {
        Some(Rated {
            full,
            latency: at("latency", full.point),
            rest: rest(full, "saturate")?,
            rest_latency: rest(full, "latency"),
        })
    });
    let mut all: Vec<Rated<'_>> = all.collect();
    all.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal));
    all
}

/// Group, rules, frame, core, calls, slice, rate: in the order in which they are read. `same`
/// comes before `distinct`.
pub(crate) fn place(rated: &Rated<'_>) -> (f64, f64, String, bool, String, f64, f64) {
    let cell = rated.full;
    let number = |axis| cell.number(axis).unwrap_or(0.0);
    let is_distinct = cell.word("core") == "distinct";
    let (frame, calls) = (cell.word("frame"), cell.word("calls"));
    (number("group"), number("rules"), frame, is_distinct, calls, number("slice"), per_s(cell))
}

/// Rules that are replaced a second.
pub(crate) fn per_s(cell: &Cell<'_>) -> f64 {
    cell.number("per_s").unwrap_or(0.0)
}

/// Rules a second that were replaced: of all operations a second those that were not refused.
pub(crate) fn done_per_s(cell: &Cell<'_>) -> Option<Estimate> {
    let of = |sample: &&Sample| {
        let value = |metric: &str| Some(sample.metrics.get(metric)?.value);
        let (done, refused) = (value("operations_done")?, value("operations_refused")?);
        Some(value("operations_per_s")? * done / (done + refused).max(1.0))
    };
    let values: Vec<f64> = cell.samples.iter().filter_map(of).collect();
    statistics::estimate(&values)
}

impl Rated<'_> {
    /// Throughput by that without rule churn.
    pub fn against_rest(&self) -> Option<Estimate> {
        against(self.full, self.rest, "throughput_pps")
    }

    /// Median latency by that without rule churn.
    pub fn latency_against_rest(&self) -> Option<Estimate> {
        against(self.latency?, self.rest_latency?, "latency_ns_p50")
    }
}

/// A metric by that without rule churn; `None` where nothing is renewed, and where the generator
/// may have set one of the two.
fn against(with: &Cell<'_>, without: &Cell<'_>, metric: &str) -> Option<Estimate> {
    let is_limited = with.is_generator_limited() || without.is_generator_limited();
    (per_s(with) > 0.0 && !is_limited).then(|| paired(with, without, metric)).flatten()
}

/// The figure of the throughput at a group and frame size.
pub(crate) fn throughput_id(cell: &Cell<'_>) -> String {
    id("throughput", cell.number("group").unwrap_or(0.0), &cell.word("frame"))
}

/// The figure of the latency at a group and frame size.
pub(crate) fn latency_id(cell: &Cell<'_>) -> String {
    id("latency", cell.number("group").unwrap_or(0.0), &cell.word("frame"))
}

pub(crate) fn id(what: &str, group: f64, frame: &str) -> String {
    format!("update-rate-{what}-group{group}-{frame}")
}

/// Who does it, and how: `same core, single calls, 32 between two bursts`.
pub(crate) fn way_words(cell: &Cell<'_>) -> String {
    format!("{} core, {}, {}", cell.word("core"), calls_words(cell), pace_words(cell))
}

/// Throughput of 1500 B frames at the places of the published figures 4a and 4b.
pub(crate) fn published(
    results: &Results<'_>,
    device: &str,
    card: PublishedCard,
) -> Vec<PublishedPoint> {
    let point = |rated: Rated<'_>| {
        let cell = rated.full;
        let (group, rules) = (cell.number("group")?, cell.number("rules")?);
        let figure = match (group, rules) {
            (0.0, 10_000.0) => "4a",
            (1.0, 64_000.0) => "4b",
            _ => return None,
        };
        let is_published = cell.word("frame") == "1500"
            && (cell.word("calls"), cell.word("slice")) == ("single".into(), "tick".into())
            && !(cell.is_generator_limited() || cell.is_disturbed());
        let series = if cell.word("core") == "same" { "Same Core" } else { "Distinct Cores" };
        let mut all = published::spreads(card, figure).into_iter().filter(|_| is_published);
        Some(PublishedPoint {
            place: format!(
                "{} rules a second replaced in {} ({} core)",
                words::whole(per_s(cell)),
                words::groups(group),
                cell.word("core")
            ),
            unit: "Gbps",
            figure,
            here: cell.estimate("throughput_gbps_l2")?,
            published: all.find(|of| of.series == series && of.x == per_s(cell))?,
        })
    };
    rated(results, device).into_iter().filter_map(point).collect()
}
