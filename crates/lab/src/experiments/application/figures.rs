//! Figures and tables of the experiments on applications.

use niclab_result::{Axis, Figure, ReportTable, Scale, Series};

use super::analysis::{
    TERMS, bound, cells, figure_of, id, is_back_to_back, place, published_name, words_at,
};
use super::metrics::{CLIENT_BUSY, ENERGY, LATENCY, LATENCY_TAIL, RATE, SERVER_TIME, WAITING};
use crate::breakdown::{PLAIN_RTT, RESIDUE, price, with_core};
use crate::cells::Cell;
use crate::hosts::RTT;
use crate::published::apsys22;
use crate::published::apsys22::RoundTrips;
use crate::summary::Results;
use crate::summary::curves::{add_point, axis};
use crate::summary::tables::{marks_of, median, results_from, table, worded};
use crate::words;

/// Axes that tell curves apart, in the order in which they are named.
const AXES: [&str; 11] = [
    "protocol",
    "family",
    "client",
    "path",
    "gets",
    "size",
    "keys",
    "rate",
    "connections",
    "depth",
    "cores",
];

/// A figure has so many colours.
const CURVES_MAX: usize = 7;

/// All tables, empty ones left out.
pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let mut tables =
        vec![requests(results), used(results), breakdowns(results), beside_published(results)];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// Every cell with what is asked there; what is the same of all stands apart.
fn asked<'a>(results: &'a Results<'_>) -> (Vec<(&'a Cell<'a>, String)>, String) {
    asked_where(results, |_| true)
}

/// Those of them that are wanted.
fn asked_where<'a>(
    results: &'a Results<'_>,
    is_wanted: impl Fn(&Cell<'_>) -> bool,
) -> (Vec<(&'a Cell<'a>, String)>, String) {
    let mut all: Vec<&Cell<'_>> =
        results.devices().flat_map(|device| cells(results, device)).collect();
    all.retain(|cell| is_wanted(cell));
    let Some(first) = all.first() else { return (Vec::new(), String::new()) };
    let differs = |axis: &&str| all.iter().any(|cell| cell.word(axis) != first.word(axis));
    let (telling, same): (Vec<&str>, Vec<&str>) = AXES.into_iter().partition(differs);
    let words = |cell: &Cell<'_>, axes: &[&str]| {
        let words = axes.iter().map(|axis| words_at(cell, axis));
        words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ")
    };
    let same = words(first, &same);
    (all.into_iter().map(|cell| (cell, words(cell, &telling))).collect(), same)
}

/// What clients saw.
fn requests(results: &Results<'_>) -> ReportTable {
    let (all, same) = asked(results);
    let row = |(cell, asked): &(&Cell<'_>, String)| {
        let lost = cell.estimate("loss_ratio").map_or(0.0, |lost| lost.median);
        vec![
            cell.device.to_owned(),
            asked.clone(),
            worded(cell.estimate(RATE), words::whole),
            worded(cell.estimate(LATENCY), words::time),
            median(cell, LATENCY_TAIL, words::time),
            median(cell, "request_ns_p999", words::time),
            median(cell, WAITING, words::significant),
            if lost > 0.0 { words::percent(lost) } else { "-".to_owned() },
            marks_of(cell, RATE),
        ]
    };
    let columns = [
        "device",
        "asked",
        "requests/s (interval)",
        "latency (interval)",
        "p99",
        "p99.9",
        "waiting",
        "lost",
        "marks",
    ];
    let title = format!(
        "Requests and their latency, {same}: from the due time of a request (closed loop: from \
         the call that sends it) to its answer; waiting: the mean number of requests in flight"
    );
    results_from(
        "requests/s (interval)",
        table(&id(results, ""), &title, &columns, all.iter().map(row).collect()),
    )
}

/// What was used meanwhile.
fn used(results: &Results<'_>) -> ReportTable {
    let (all, same) = asked(results);
    let gbps = |gbps: f64| format!("{} Gbps", words::significant(gbps));
    let millijoules = |joules: f64| format!("{} mJ", words::significant(joules * 1e3));
    let row = |(cell, asked): &(&Cell<'_>, String)| {
        let server = ["user", "system", "softirq"];
        let link = ["link_tx_gbps", "link_rx_gbps"];
        vec![
            cell.device.to_owned(),
            asked.clone(),
            server
                .map(|part| median(cell, &format!("server_{part}_ratio"), words::percent))
                .join(" / "),
            median(cell, CLIENT_BUSY, words::percent),
            link.map(|metric| median(cell, metric, gbps)).join(" / "),
            median(cell, SERVER_TIME, words::time),
            median(cell, ENERGY, millijoules),
            bound(cell).words().to_owned(),
        ]
    };
    let columns = [
        "device",
        "asked",
        "server: user / system / softirq",
        "clients' cores",
        "link: there / back",
        "server time per request",
        "energy per request",
        "limited by",
    ];
    let no_meter = all.iter().find_map(|(cell, _)| no_energy(cell));
    let no_meter = no_meter.map(|why| format!(" No energy: {why}.")).unwrap_or_default();
    let no_breakdown = all.iter().find_map(|(cell, _)| no_breakdown(cell));
    let no_breakdown = no_breakdown.map(|why| format!(" No breakdown: not supported: {why}."));
    let no_breakdown = no_breakdown.unwrap_or_default();
    let title = format!("Resources that the requests used, {same}.{no_meter}{no_breakdown}");
    results_from(
        "server: user / system / softirq",
        table(&id(results, "-used"), &title, &columns, all.iter().map(row).collect()),
    )
}

/// Where the time of a request goes.
fn breakdowns(results: &Results<'_>) -> ReportTable {
    let (all, same) = asked_where(results, |cell| cell.estimate(RESIDUE).is_some());
    let row = |(cell, asked): &(&Cell<'_>, String)| {
        let terms = TERMS.iter().map(|(name, _)| with_core(cell, name));
        let rest = [
            median(cell, RTT, words::time),
            median(cell, PLAIN_RTT, words::time),
            median(cell, RESIDUE, words::percent),
            worded(price(cell), |ns| format!("{ns:.0} ns")),
        ];
        [cell.device.to_owned(), asked.clone()].into_iter().chain(terms).chain(rest).collect()
    };
    let rows = all.iter().map(row).collect();
    let heads = TERMS.iter().map(|(_, head)| *head);
    let rest = ["request", "without probes", "residue", "per stamp (interval)"];
    let columns: Vec<&str> = ["device", "asked"].into_iter().chain(heads).chain(rest).collect();
    let title = format!(
        "Time of a request by part, {same}: means over the middle tenth of the requests, which \
         add up. The server's part is its stack and its program, from its interface and back."
    );
    table(&id(results, "-breakdown"), &title, &columns, rows)
}

/// Why a cell has no breakdown.
fn no_breakdown<'a>(cell: &'a Cell<'_>) -> Option<&'a str> {
    cell.samples.iter().find_map(|one| one.counters.get("no_breakdown")?.as_str())
}

/// Why the energy of a cell is not known.
fn no_energy<'a>(cell: &'a Cell<'_>) -> Option<&'a str> {
    cell.samples.iter().find_map(|one| one.counters.pointer("/energy/unknown/why")?.as_str())
}

/// The published rows, client on the listed CPU and in parentheses server on it, and ours above
/// them in the same form: client here, and in parentheses client there.
fn beside_published(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for workload in ["memcached", "redis", "openlambda"] {
        let ours: Vec<RoundTrips> = results
            .devices()
            .filter_map(|device| as_published(results, device, workload))
            .collect();
        if ours.is_empty() {
            continue;
        }
        let published = apsys22::round_trips(workload);
        rows.extend(ours.iter().map(|card| row(workload, card, "measured")));
        rows.extend(published.iter().map(|card| row(workload, card, "published")));
    }
    let columns = ["application", "host", "64 B, us", "1024 B, us", "source"];
    let title = "One request at a time: the client on this host and, in parentheses, the server on \
                 it (published: table 2 of the study; its function ran in OpenLambda)";
    table(&id(results, "-published"), title, &columns, rows)
}

fn row(workload: &str, card: &RoundTrips, source: &str) -> Vec<String> {
    let us = |us: Option<f64>| us.map_or("-".to_owned(), |us| format!("{us:.2}"));
    let at = |size: f64| {
        let found = card.points.iter().find(|(at, ..)| *at == size);
        found.map_or("-".to_owned(), |(_, client, server)| {
            format!("{} ({})", us(*client), us(*server))
        })
    };
    vec![workload.to_owned(), card.name.clone(), at(64.0), at(1024.0), source.to_owned()]
}

/// What was measured of a device in the form of the published table.
fn as_published(results: &Results<'_>, device: &str, workload: &str) -> Option<RoundTrips> {
    let mut card = RoundTrips { name: device.to_owned(), points: Vec::new() };
    let cells = cells(results, device);
    for size in [64.0, 1024.0] {
        let us = |client: &str| {
            let is_it = |cell: &&&Cell<'_>| {
                is_back_to_back(cell)
                    && published_name(cell) == Some(workload)
                    && cell.is_at(&[("size", size)])
                    && cell.word("family") == "ipv4"
                    && cell.word("client") == client
            };
            Some(cells.iter().find(is_it)?.estimate(LATENCY)?.median / 1e3)
        };
        let (here, there) = (us("here"), us("there"));
        if here.is_some() || there.is_some() {
            card.points.push((size, here, there));
        }
    }
    (!card.points.is_empty()).then_some(card)
}

/// Requests a second and latency over what is asked at once, over size, and over cores.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let mut figures = vec![
        rate(results, "parallel"),
        latency(results, "parallel"),
        rate(results, "size"),
        latency(results, "size"),
        rate(results, "cores"),
    ];
    figures.retain(|figure| figure.series.iter().any(|series| series.points.len() > 1));
    figures
}

/// A metric over an axis: a curve for all that is the same but for it.
fn curves(results: &Results<'_>, x: &str, (metric, what): (&str, &str), scale: f64) -> Vec<Series> {
    // Connections go with cores where there are so many for each.
    let varied: &[&str] = match x {
        "parallel" => &["connections", "depth"],
        "cores" => &["cores", "connections"],
        _ => &["size"],
    };
    let axes: Vec<&str> = AXES.into_iter().filter(|axis| !varied.contains(axis)).collect();
    let mut all: Vec<(String, &Cell<'_>)> = Vec::new();
    for device in results.devices() {
        let here = cells(results, device);
        let is_same = |a: &Cell<'_>, b: &Cell<'_>| axes.iter().all(|at| a.word(at) == b.word(at));
        let is_varied = |cell: &&&Cell<'_>| {
            let differs = |one: &&Cell<'_>| is_same(one, cell) && place(one, x) != place(cell, x);
            here.iter().any(differs)
        };
        all.extend(here.iter().filter(is_varied).map(|cell| (device.to_owned(), *cell)));
    }
    // Requests that wait behind each other on a connection make another curve than connections do.
    let apart = |axis: &&str| axes.contains(axis) || (x, *axis) == ("parallel", "depth");
    let tells = |axis: &&str| all.iter().any(|(_, cell)| cell.word(axis) != all[0].1.word(axis));
    let telling: Vec<&str> = AXES.into_iter().filter(apart).filter(tells).collect();
    let mut series = Vec::new();
    for (device, cell) in &all {
        let words = telling.iter().map(|axis| words_at(cell, axis));
        let words = words.filter(|words| !words.is_empty());
        let what = (!what.is_empty()).then(|| what.to_owned());
        let name = [device.clone()].into_iter().chain(words).chain(what);
        let Some(at) = place(cell, x) else { continue };
        if let Some(point) = cell.mean(metric, scale, at) {
            add_point(&mut series, name.collect::<Vec<_>>().join(", "), device, point);
        }
    }
    for series in &mut series {
        series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    series
}

fn x_axis(x: &str) -> Axis {
    match x {
        "parallel" => axis("requests in flight", "", Scale::Log),
        "cores" => axis("server cores", "", Scale::Linear),
        _ => axis("value", "B", Scale::Log),
    }
}

fn over(x: &str) -> &'static str {
    match x {
        "parallel" => "requests in flight",
        "cores" => "server cores",
        _ => "value size",
    }
}

fn rate(results: &Results<'_>, x: &str) -> Figure {
    let caption = match x {
        "cores" => "If the server has all cores, the clients share one of them.",
        _ => "Answered requests: in a closed loop, or of those due in an open loop.",
    };
    Figure {
        id: figure_of(results, "rate", x),
        title: format!("Requests a second over {}", over(x)),
        caption: caption.into(),
        x: x_axis(x),
        y: axis("answered", "k/s", Scale::Linear),
        series: curves(results, x, (RATE, ""), 1e-3),
        knees: Vec::new(),
    }
}

fn latency(results: &Results<'_>, x: &str) -> Figure {
    let mut series = curves(results, x, (LATENCY, "median"), 1e-3);
    // More curves than colours could not be told apart.
    if series.len() <= CURVES_MAX / 2 {
        series.extend(curves(results, x, (LATENCY_TAIL, "p99"), 1e-3));
    }
    Figure {
        id: figure_of(results, "latency", x),
        title: format!("Latency over {}", over(x)),
        caption:
            "From the due time of a request (closed loop: from the call that sends it) to its \
             answer. This includes the time in queues."
                .into(),
        x: x_axis(x),
        y: axis("latency", "us", Scale::Log),
        series,
        knees: Vec::new(),
    }
}
