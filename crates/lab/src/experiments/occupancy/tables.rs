//! Tables of the experiment `occupancy`.

use niclab_result::ReportTable;

use crate::knee::SearchResult;
use crate::runner::SETUP;
use crate::summary::Results;
use crate::summary::tables::{
    LOAD, columns, full_ring, marks, median, ordered, place, results_from, table, worded,
};
use crate::summary::throughput::searched;
use crate::{knee, words};

/// All tables, empty ones left out.
pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let mut tables = vec![
        throughput(results),
        searched(results),
        latency(results),
        rules(results),
        knees(results),
    ];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn throughput(results: &Results<'_>) -> ReportTable {
    let cells = ordered(results, &["saturate"]);
    let drops = cells.iter().any(|c| c.values("dropped_ratio").iter().any(|ratio| *ratio > 0.0));
    let rows = cells.into_iter().map(|cell| {
        let mut row = place(results, cell, &LOAD);
        row.push(worded(cell.estimate("throughput_pps"), words::pps));
        row.push(median(cell, "throughput_gbps_l1", words::significant));
        row.push(median(cell, "throughput_all_pps", words::pps));
        row.push(median(cell, "disturbed_ratio", words::percent));
        row.push(median(cell, crate::measure::DEVICE_TIME, words::time));
        if drops {
            row.push(median(cell, "dropped_ratio", words::percent));
        }
        row.push(median(cell, "loss_ratio", words::percent));
        row.push(full_ring(cell, "latency_ns_p50"));
        row.push(full_ring(cell, "latency_ns_p99"));
        row.push(marks(cell));
        row
    });
    let mut heads = vec![
        "throughput (interval)",
        "Gbps L1",
        "stalls included",
        "slices with stalls",
        "device time per frame",
    ];
    if drops {
        heads.push("dropped by rules");
    }
    heads.extend(["loss", "p50 at full load", "p99 at full load", "marks"]);
    let title = match drops {
        false => "Saturating load: throughput without stalls, and latency where the ring was full",
        true => {
            "Saturating load: throughput without stalls, dropped frames included; latency where \
             the ring was full"
        }
    };
    results_from(
        "throughput (interval)",
        table("occupancy-throughput", title, &columns(results, &LOAD, &heads), rows.collect()),
    )
}

fn latency(results: &Results<'_>) -> ReportTable {
    let cells = ordered(results, &["latency", "light", "fixed"]);
    // The rate that was asked for, of trials that have one.
    let rate = if cells.iter().any(|cell| cell.trial == "fixed") { &["rate"][..] } else { &[] };
    let load = [&LOAD[..], rate].concat();
    let rows = cells.into_iter().map(|cell| {
        let mut row = place(results, cell, &load);
        row.push(cell.trial.to_string());
        row.push(median(cell, "offered_pps", words::pps));
        row.push(worded(cell.estimate("latency_ns_p50"), words::time));
        let ends = ["p1", "p25", "p75", "p99", "p999", "mean", "max"];
        let of = |end| median(cell, &format!("latency_ns_{end}"), words::time);
        row.extend(ends.map(of));
        row.push(median(cell, "loss_ratio", words::percent));
        row.push(marks(cell));
        row
    });
    let heads = ["trial", "offered", "p50 (interval)", "p1", "p25", "p75", "p99", "p99.9", "mean"];
    let heads = [&heads[..], &["maximum", "loss", "marks"]].concat();
    let title = "Open loop: latency from the planned departure, medians of the repeats";
    results_from(
        "p50 (interval)",
        table("occupancy-latency", title, &columns(results, &load, &heads), rows.collect()),
    )
}

fn rules(results: &Results<'_>) -> ReportTable {
    let rows = ordered(results, &[SETUP]).into_iter().map(|cell| {
        let mut row = place(results, cell, &[]);
        row.push(median(cell, "rules_installed", words::whole));
        row.push(median(cell, "rules_refused", words::whole));
        row.push(worded(cell.estimate("install_rules_per_s"), words::significant));
        row.push(median(cell, "rule_bytes", words::bytes));
        row.push(median(cell, "rule_bytes_per_rule", words::significant));
        row
    });
    let heads = ["installed", "refused", "rules/s (interval)", "memory", "bytes per rule"];
    let columns = columns(results, &[], &heads);
    results_from(
        "installed",
        table("occupancy-rules", "Rules: installation and memory", &columns, rows.collect()),
    )
}

fn knees(results: &Results<'_>) -> ReportTable {
    let rows = results.knees.iter().map(|knee| {
        let found = match knee.found {
            // Neighbours: the last number in front of the knee is known exactly.
            SearchResult::Bracket { low, high } if high - low == 1 => words::whole(low.into()),
            SearchResult::Bracket { .. } => {
                let (x, width) = knee.found.middle_and_width().unwrap_or_default();
                format!("{} ± {}", words::whole(x), words::significant(width))
            }
            SearchResult::None { high } => format!("none up to {}", words::whole(high.into())),
            SearchResult::Below { low } => format!("below {}", words::whole(low.into())),
            SearchResult::Stopped => "not finished".into(),
        };
        let limited = if knee.is_generator_limited { "generator-limited" } else { "" };
        vec![
            knee.device.clone(),
            words::whole(knee.knee.spec.groups.into()),
            knee::label(&knee.knee.spec),
            found,
            limited.into(),
        ]
    });
    let columns = ["device", "groups", "knee", "rules", "marks"];
    results_from("rules", table("occupancy-knees", "Knees, by bisection", &columns, rows.collect()))
}
