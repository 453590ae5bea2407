//! The cost of features in the path of messages: its table and its figure.

use niclab_result::{Figure, ReportTable, Scale, Series};

use super::analysis::{PASSES, cells, cost, figure_id, id, rules, without};
use crate::hosts::{RTT, RTT_TAIL};
use crate::round_trips::words_at;
use crate::summary::Results;
use crate::summary::curves::{add_point, axis};
use crate::summary::tables::{marks_of, median, results_from, table as sheet, worded};
use crate::words;

/// What it costs, feature by feature; empty where nothing is compared.
pub(super) fn table(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for device in results.devices() {
        let all = cells(results, device);
        for cell in &all {
            let Some(base) = without(&all, cell) else { continue };
            let more = cost(cell, base);
            let each = rules(cell).filter(|rules| *rules > 0.0).and_then(|rules| {
                let more = more?.median / PASSES / rules;
                Some(format!("{} ns", words::significant(more)))
            });
            rows.push(vec![
                device.to_owned(),
                cell.word("feature"),
                words_at(cell, "transport"),
                cell.word("receive"),
                cell.number("size").map(words::whole).unwrap_or_default(),
                worded(base.estimate(RTT), words::time),
                worded(cell.estimate(RTT), words::time),
                median(cell, RTT_TAIL, words::time),
                worded(more, signed),
                each.unwrap_or_else(|| "-".to_owned()),
                marks_of(cell, RTT),
            ]);
        }
    }
    let columns = [
        "device",
        "in the path",
        "protocol",
        "receive",
        "bytes",
        "without it",
        "with it",
        "p99 with it",
        "cost",
        "each rule, one way",
        "marks",
    ];
    let title = "Features in the path at both hosts, and the time that they add to a round trip \
                 (repeat by repeat, interval)";
    results_from("without it", sheet(&id(results, "-costs"), title, &columns, rows))
}

/// A time that may be below nothing.
fn signed(ns: f64) -> String {
    match ns < 0.0 {
        true => format!("-{}", words::time(-ns)),
        false => words::time(ns),
    }
}

/// Round trips over the rules of a packet filter.
pub(super) fn figure(results: &Results<'_>) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    for device in results.devices() {
        for cell in cells(results, device) {
            let Some(rules) = rules(cell) else { continue };
            let words = ["transport", "receive", "size"].map(|axis| words_at(cell, axis));
            let name = format!("{device}, {}", words.join(", "));
            if let Some(point) = cell.mean(RTT, 1e-3, rules) {
                add_point(&mut series, name, device, point);
            }
        }
    }
    Figure {
        id: figure_id(results),
        title: "Round trip over the number of packet filter rules".into(),
        caption: "nftables rules in one chain of each host. Every packet is checked against all \
                  of them and matches none."
            .into(),
        x: axis("rules", "", Scale::Linear),
        y: axis("round trip", "us", Scale::Log),
        series,
        knees: Vec::new(),
    }
}
