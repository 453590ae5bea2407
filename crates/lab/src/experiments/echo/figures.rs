//! Figures and tables of the experiments on the echo.

use niclab_result::{Figure, Origin, ReportTable, Scale, Series};

use super::analysis::{WORDS, are_compared, cells, id, is_plain, rtt_figure};
use super::feature_figures;
use super::metrics::ANSWERED;
use crate::cells::Cell;
use crate::hosts::{RTT, RTT_TAIL};
use crate::placement::Cpu;
use crate::published::apsys22;
use crate::published::apsys22::RoundTrips;
use crate::round_trips::words_at;
use crate::summary::Results;
use crate::summary::curves::{add_point, axis};
use crate::summary::tables::{marks_of, median, results_from, table, worded};
use crate::words;

/// All tables, empty ones left out.
pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let mut tables =
        vec![feature_figures::table(results), round_trips(results), beside_published(results)];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn round_trips(results: &Results<'_>) -> ReportTable {
    let all: Vec<&Cell<'_>> = results.devices().flat_map(|device| cells(results, device)).collect();
    // What is the same in every row stands above them.
    let differs = |axis: &&str| all.iter().any(|cell| cell.word(axis) != all[0].word(axis));
    let (telling, same): (Vec<&str>, Vec<&str>) = WORDS.into_iter().partition(differs);
    let mut rows = Vec::new();
    for device in results.devices() {
        for cell in cells(results, device) {
            let place = telling.iter().map(|axis| words_at(cell, axis).replace("client ", ""));
            let numbers = ["size", "batch"]
                .map(|axis| cell.number(axis).map(words::whole).unwrap_or_default());
            let measured = [
                worded(cell.estimate(RTT), words::time),
                median(cell, RTT_TAIL, words::time),
                median(cell, "rtt_ns_p999", words::time),
                median(cell, ANSWERED, words::whole),
                median(cell, "payload_gbps", words::significant),
                median(cell, "loss_ratio", words::percent),
                marks_of(cell, RTT),
            ];
            let row = [device.to_owned()].into_iter().chain(place).chain(numbers).chain(measured);
            rows.push(row.collect());
        }
    }
    let heads = telling.iter().map(|axis| if *axis == "transport" { "protocol" } else { *axis });
    let columns = [
        "bytes",
        "batch",
        "round trip (interval)",
        "p99",
        "p99.9",
        "answered/s",
        "Gbps one way",
        "loss",
        "marks",
    ];
    let columns: Vec<&str> = ["device"].into_iter().chain(heads).chain(columns).collect();
    let same = all.first().map(|cell| same.iter().map(|axis| words_at(cell, axis)));
    let same = same.map(|words| words.collect::<Vec<_>>().join(", ")).unwrap_or_default();
    let title = format!(
        "Round trips over the kernel's stack, {same}: from the due time of a message (closed \
         loop: from the call that sends it) to its answer"
    );
    results_from("round trip (interval)", table(&id(results, ""), &title, &columns, rows))
}

/// The published rows, client on the listed CPU and in parentheses server on it, and ours below
/// them in the same form: client here, and in parentheses client there.
fn beside_published(results: &Results<'_>) -> ReportTable {
    let pair = |of: Option<(f64, Option<f64>, Option<f64>)>| {
        let us = |us: Option<f64>| us.map_or("-".to_owned(), |us| format!("{us:.2}"));
        of.map_or("-".to_owned(), |(_, client, server)| format!("{} ({})", us(client), us(server)))
    };
    let row = |card: &RoundTrips, source: &str| {
        let at = |size: f64| pair(card.points.iter().copied().find(|(at, ..)| *at == size));
        vec![card.name.clone(), at(64.0), at(1024.0), source.to_owned()]
    };
    let ours: Vec<RoundTrips> =
        results.devices().filter_map(|device| as_published(results, device)).collect();
    let mut rows = Vec::new();
    if !ours.is_empty() {
        rows.extend(ours.iter().map(|card| row(card, "measured")));
        rows.extend(apsys22::round_trips("udp_echo").iter().map(|card| row(card, "published")));
    }
    let columns = ["host", "64 B, us", "1024 B, us", "source"];
    let title = "Round trips of one message at a time over UDP: the client on this host and, in \
                 parentheses, the server on it (published: table 2 of the study)";
    table(&id(results, "-published"), title, &columns, rows)
}

/// What was measured of a device in the form of the published table.
fn as_published(results: &Results<'_>, device: &str) -> Option<RoundTrips> {
    let mut card = RoundTrips { name: device.to_owned(), points: Vec::new() };
    for size in [64.0, 1024.0] {
        let rtt_us = |client: &str| {
            let is_it = |cell: &&&Cell<'_>| {
                is_plain(cell) && cell.is_at(&[("size", size)]) && cell.word("client") == client
            };
            let cells = cells(results, device);
            let found = cells.iter().find(is_it)?.estimate(RTT)?;
            Some(found.median / 1e3)
        };
        let (here, there) = (rtt_us("here"), rtt_us("there"));
        if here.is_some() || there.is_some() {
            card.points.push((size, here, there));
        }
    }
    (!card.points.is_empty()).then_some(card)
}

/// Round trips over length and batch, and messages a second over the batch.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let mut figures = match are_compared(results) {
        true => vec![feature_figures::figure(results)],
        false => vec![rtt(results, "size"), rtt(results, "batch"), rate(results)],
    };
    figures.retain(|figure| {
        figure
            .series
            .iter()
            .any(|series| series.origin != Origin::Published && series.points.len() > 1)
    });
    figures
}

/// A metric over an axis: a curve for all that is the same but for it. Curves are named by what
/// tells them apart.
fn curves(results: &Results<'_>, x: &str, metric: &str, scale: f64) -> Vec<Series> {
    let other = if x == "size" { "batch" } else { "size" };
    let axes: Vec<&str> = WORDS.into_iter().chain([other]).collect();
    let mut all: Vec<(String, &Cell<'_>)> = Vec::new();
    for device in results.devices() {
        let here = cells(results, device);
        let is_same = |a: &Cell<'_>, b: &Cell<'_>| axes.iter().all(|at| a.word(at) == b.word(at));
        let is_varied = |cell: &&&Cell<'_>| {
            here.iter().any(|one| is_same(one, cell) && one.number(x) != cell.number(x))
        };
        all.extend(here.iter().filter(is_varied).map(|cell| (device.to_owned(), *cell)));
    }
    let tells = |axis: &&&str| all.iter().any(|(_, cell)| cell.word(axis) != all[0].1.word(axis));
    let telling: Vec<&str> = axes.iter().filter(tells).copied().collect();
    let mut series = Vec::new();
    for (device, cell) in &all {
        let words = telling.iter().map(|axis| words_at(cell, axis));
        let name = [device.clone()].into_iter().chain(words).collect::<Vec<_>>().join(", ");
        let Some(at) = cell.number(x) else { continue };
        if let Some(point) = cell.mean(metric, scale, at) {
            add_point(&mut series, name, device, point);
        }
    }
    series
}

/// `true` for a published row whose client ran on a CPU like this side's, which is a host's if the
/// run does not say otherwise. A card in another mode has the CPU of another row.
fn is_comparable(results: &Results<'_>, name: &str) -> bool {
    let cpu = match results.run.placement.here {
        Some(Cpu::Snic) => ", SNIC",
        _ => ", host",
    };
    name.contains(cpu) && !name.contains("mode")
}

fn rtt(results: &Results<'_>, x: &str) -> Figure {
    let mut series = curves(results, x, RTT, 1e-3);
    let (title, mut caption, label, unit) = match x {
        "size" => (
            "Round trip over the message length",
            "Median from the call that sends a message to its answer, one message at a time. A \
             message longer than a frame is sent in several frames."
                .to_owned(),
            "message",
            "B",
        ),
        _ => (
            "Round trip over the batch size",
            "Median from the due time of a message (closed loop: from the call that sends the \
             batch) to its answer. In a large batch most of this is waiting for the other \
             messages."
                .to_owned(),
            "messages sent together",
            "",
        ),
    };
    if x == "size" && !series.is_empty() {
        let published = apsys22::series("udp_echo").into_iter();
        series.extend(published.filter(|of| is_comparable(results, &of.name)));
        caption += " Published: two hosts with a card each and a cable, client on the named CPU; \
                    the table has the other rows of the study.";
    }
    Figure {
        id: rtt_figure(results, x),
        title: title.into(),
        caption,
        x: axis(label, unit, Scale::Log),
        y: axis("round trip", "us", Scale::Log),
        series,
        knees: Vec::new(),
    }
}

fn rate(results: &Results<'_>) -> Figure {
    Figure {
        id: id(results, "-rate-batch"),
        title: "Messages answered a second over the batch size".into(),
        caption:
            "Messages in each direction: as many as a closed loop carries, or as many of an open \
             loop's rate as come back."
                .into(),
        x: axis("messages sent together", "", Scale::Log),
        y: axis("answered", "k/s", Scale::Linear),
        series: curves(results, "batch", ANSWERED, 1e-3),
        knees: Vec::new(),
    }
}
