//! Figures and tables of the experiment `echo-ledger`.

use niclab_result::{Axis, Figure, Mean, ReportTable, Scale, Series};

use super::analysis::{
    asks_for_sockets, cells, figure_id, is_published_place, plain, software_and_hardware,
};
use super::parts::parts;
use crate::breakdown::{PLAIN_RTT, RESIDUE, TERMS, price, stamps, with_core};
use crate::cells::Cell;
use crate::hosts::RTT;
use crate::published::apsys22;
use crate::round_trips::words_at;
use crate::summary::Results;
use crate::summary::curves::add_point;
use crate::summary::tables::{marks_of, median, results_from, table, worded};
use crate::words;

/// Axes that say where a ledger stands.
const AXES: [&str; 6] = ["transport", "family", "client", "receive", "size", "batch"];

/// A metric of a cell, microseconds.
fn us(cell: &Cell<'_>, metric: &str) -> Option<f64> {
    Some(cell.estimate(metric)?.median / 1e3)
}

fn us_words(us: Option<f64>) -> String {
    us.map_or("-".to_owned(), |us| format!("{us:.1}"))
}

/// All tables, empty ones left out.
pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let mut tables = vec![ledgers(results), breakdown(results), parts(results), prices(results)];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// Why the stamps of a cell are those of sockets, if they are.
fn by_sockets<'a>(cell: &'a Cell<'_>) -> Option<&'a str> {
    cell.samples.iter().find_map(|one| one.counters.get("by_sockets")?.as_str())
}

/// Where a ledger stands on an axis, and beside how its programs wait whose stamps it has.
fn place_words(cell: &Cell<'_>, axis: &str) -> String {
    let words = words_at(cell, axis).replace("client ", "");
    match axis {
        "receive" if by_sockets(cell).is_some() => format!("{words}, stamps of sockets"),
        _ => words,
    }
}

/// Term by term, and where each ran.
fn ledgers(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for device in results.devices() {
        for cell in plain(results, device) {
            let place = AXES[..5].iter().map(|axis| place_words(cell, axis));
            let times = TERMS.iter().map(|(name, _)| with_core(cell, name));
            let rest = [
                median(cell, "rtt_ns_p50", words::time),
                median(cell, RESIDUE, words::percent),
                marks_of(cell, "rtt_ns_p50"),
            ];
            rows.push(
                [device.to_owned()].into_iter().chain(place).chain(times).chain(rest).collect(),
            );
        }
    }
    let heads = TERMS.iter().map(|(_, head)| *head);
    let columns: Vec<&str> = ["device", "protocol", "family", "client", "receive", "bytes"]
        .into_iter()
        .chain(heads)
        .chain(["round trip", "residue", "marks"])
        .collect();
    let cells: Vec<&Cell<'_>> =
        results.devices().flat_map(|device| plain(results, device)).collect();
    let missing = cells.iter().filter(|cell| !asks_for_sockets(cell));
    let why = missing.filter_map(|cell| by_sockets(cell)).next();
    let why = why.map(|why| format!(". No probes: not supported: {why}")).unwrap_or_default();
    let title = format!(
        "Time of a round trip by part: means over the middle tenth of the messages, which add up; \
         in parentheses the core that each part ended on{why}"
    );
    results_from(TERMS[0].1, table("echo-ledger", &title, &columns, rows))
}

/// Ours in the form of the published table, and the published rows.
fn breakdown(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for device in results.devices() {
        let here = plain(results, device);
        for cell in here.iter().filter(|cell| is_published_place(cell)) {
            let [client, server, hardware] = software_and_hardware(cell);
            // In one machine what passes between the interfaces is no hardware.
            let hardware = hardware.filter(|_| !results.is_one_machine(device));
            let [client, server, hardware] =
                [client, server, hardware].map(|ns| us_words(ns.map(|ns| ns / 1e3)));
            rows.push(vec![
                device.to_owned(),
                words_at(cell, "client"),
                client,
                server,
                hardware,
                us_words(us(cell, "rtt_ns_p50")),
                "measured".to_owned(),
            ]);
        }
    }
    if !rows.is_empty() {
        rows.extend(apsys22::breakdowns().into_iter().map(|card| {
            let [client, server, hardware, rtt] = card.us.map(us_words);
            let side = if card.of_client { "client here" } else { "client there" };
            vec![card.name, side.to_owned(), client, server, hardware, rtt, "published".to_owned()]
        }));
    }
    let columns =
        ["host", "side", "client, us", "server, us", "hardware, us", "round trip", "source"];
    let title = "Software and hardware of a round trip of 1024 B over UDP, in the form of table 3 \
                 of the study";
    table("echo-ledger-published", title, &columns, rows)
}

/// What the probes cost.
fn prices(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for device in results.devices() {
        for cell in cells(results, device) {
            let place = AXES[..5].iter().map(|axis| place_words(cell, axis));
            let rest = [
                stamps(cell).map_or("-".to_owned(), words::whole),
                median(cell, PLAIN_RTT, words::time),
                median(cell, "rtt_ns_p50", words::time),
                worded(price(cell), |ns| format!("{ns:.0} ns")),
            ];
            rows.push([device.to_owned()].into_iter().chain(place).chain(rest).collect());
        }
    }
    let columns = [
        "device",
        "protocol",
        "family",
        "client",
        "receive",
        "bytes",
        "stamps",
        "without probes",
        "with probes",
        "per stamp (interval)",
    ];
    let title = "Cost of the probes: round trips of alternating slices with and without probes, \
                 and the median difference of neighbours per stamp";
    results_from("without probes", table("echo-ledger-price", title, &columns, rows))
}

/// The terms over the length of the message, one figure a protocol.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for device in results.devices() {
        for transport in ["udp", "tcp"] {
            let mut here = plain(results, device);
            here.retain(|cell| {
                cell.word("transport") == transport
                    && cell.word("client") == "here"
                    && cell.word("family") == "ipv4"
                    && cell.word("receive") == "blocking"
                    && !asks_for_sockets(cell)
            });
            figures.extend(stacked(device, transport, &here));
        }
    }
    figures
}

/// Each curve stands on the one below it: the uppermost is the round trip.
fn stacked(device: &str, transport: &str, cells: &[&Cell<'_>]) -> Option<Figure> {
    let mut series: Vec<Series> = Vec::new();
    for cell in cells {
        let (Some(x), mut below) = (cell.number("size"), 0.0) else { continue };
        for (name, head) in TERMS {
            below += us(cell, &format!("{name}_ns"))?;
            let repeats = cell.samples.len() as u32;
            let marks = cell.marks(RTT);
            let point = Mean { x, y: below, repeats, marks, ..Mean::default() };
            let name = if series_is_first(name) { head.to_owned() } else { format!("+ {head}") };
            add_point(&mut series, name, device, point);
        }
    }
    let is_curve = series.first().is_some_and(|series| series.points.len() > 1);
    is_curve.then(|| Figure {
        id: figure_id(device, transport),
        title: format!("Time of a round trip by part, {} on {device}", transport.to_uppercase()),
        caption:
            "Stacked curves: the distance between two is the time of one part, and the top curve \
             is the round trip. Medians of the repeats."
                .into(),
        x: Axis { label: "message".into(), unit: "B".into(), scale: Scale::Log },
        y: Axis { label: "time".into(), unit: "us".into(), scale: Scale::Linear },
        series,
        knees: Vec::new(),
    })
}

fn series_is_first(name: &str) -> bool {
    TERMS[0].0 == name
}
