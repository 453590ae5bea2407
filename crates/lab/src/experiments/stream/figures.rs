//! Figures and the table of the experiment on bulk data.

use niclab_result::{Figure, ReportTable, Scale};

use super::analysis::{AXES, bandwidth, bound, cells, figure_of, words_at};
use super::metrics::{CARRIED, CPU};
use crate::cells::Cell;
use crate::summary::Results;
use crate::summary::curves::{Axes, axis};
use crate::summary::tables::{marks_of, median, results_from, table, worded};
use crate::words;

const STREAMS: Axes = Axes { axes: AXES, cells, words_at };

/// The one table, or none.
pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let all: Vec<&Cell<'_>> = results.devices().flat_map(|device| cells(results, device)).collect();
    // What is the same in every row stands above them.
    let differs = |axis: &&str| all.iter().any(|cell| cell.word(axis) != all[0].word(axis));
    let (telling, same): (Vec<&str>, Vec<&str>) = AXES.iter().copied().partition(differs);
    let Some(first) = all.first() else { return Vec::new() };
    let mut rows = Vec::new();
    for cell in &all {
        let place = telling.iter().map(|axis| match (*axis, cell.number(axis)) {
            ("client", _) => cell.word("client"),
            ("batch", _) if cell.word("transport") == "tcp" => "-".to_owned(),
            (_, Some(number)) => words::whole(number),
            _ => words_at(cell, axis),
        });
        let of = |side: &str| {
            ["user", "system", "softirq"]
                .map(|part| median(cell, &format!("{side}_{part}_ratio"), words::percent))
                .join(" / ")
        };
        let measured = [
            worded(cell.estimate(CARRIED), bandwidth),
            median(cell, "loss_ratio", words::percent),
            median(cell, "retransmitted_segments", words::whole),
            of("sender"),
            of("receiver"),
            median(cell, CPU, words::time),
            bound(cell).words().to_owned(),
            marks_of(cell, CARRIED),
        ];
        let row = [cell.device.to_owned()].into_iter().chain(place).chain(measured);
        rows.push(row.collect());
    }
    let columns = [
        "arrived (interval)",
        "loss",
        "sent again",
        "sender: user / system / softirq",
        "receiver: user / system / softirq",
        "CPU per gigabit",
        "limited by",
        "marks",
    ];
    let heads = telling.iter().map(|axis| match *axis {
        "size" => "bytes",
        "transport" => "protocol",
        "batch" => "per call",
        axis => axis,
    });
    let columns: Vec<&str> = ["device"].into_iter().chain(heads).chain(columns).collect();
    let same: Vec<String> = same.iter().map(|axis| words_at(first, axis)).collect();
    let title = format!("Payload that arrived, and its cost on both sides: {}", same.join(", "));
    vec![results_from(
        "arrived (interval)",
        table(&results.experiment.name, &title, &columns, rows),
    )]
}

/// What arrived over size, batch, connections and cores, and the time of cores over size.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let mut figures = vec![
        carried(results, "size"),
        carried(results, "batch"),
        carried(results, "connections"),
        carried(results, "cores"),
        cpu(results),
    ];
    figures.retain(|figure| figure.series.iter().any(|series| series.points.len() > 1));
    figures
}

fn carried(results: &Results<'_>, x: &str) -> Figure {
    let (over, label, unit) = match x {
        "size" => ("the message size", "bytes given to the kernel at once", "B"),
        "batch" => ("the batch size", "datagrams sent by one call", ""),
        "connections" => ("the number of connections", "connections", ""),
        _ => ("the cores of each side", "cores of each side", ""),
    };
    let (series, same) = STREAMS.curves(results, x, CARRIED, 1e-9);
    Figure {
        id: figure_of(results, "carried", x),
        title: format!("Payload that arrived over {over}"),
        caption: format!(
            "Median payload that the receiver got, {same}. Lost payload does not count."
        ),
        x: axis(label, unit, Scale::Log),
        y: axis("arrived", "Gbps", if x == "size" { Scale::Log } else { Scale::Linear }),
        series,
        knees: Vec::new(),
    }
}

fn cpu(results: &Results<'_>) -> Figure {
    let (series, same) = STREAMS.curves(results, "size", CPU, 1e-9);
    Figure {
        id: figure_of(results, "cpu", "size"),
        title: "Core time of both sides per gigabit, over the message size".into(),
        caption: format!(
            "All busy time of the cores, {same}, in the kernel's ticks. It includes the time of \
             other programs on these cores."
        ),
        x: axis("bytes given to the kernel at once", "B", Scale::Log),
        y: axis("CPU per gigabit", "s", Scale::Log),
        series,
        knees: Vec::new(),
    }
}
