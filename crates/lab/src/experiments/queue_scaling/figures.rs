//! Figures and tables of the experiments `queue-scaling` and `queue-overhead`.

use niclab_result::{Figure, Origin, ReportTable, Scale, Series};

use super::analysis::{
    AGGREGATE, EACH, QUEUES, at_cores, cells, curve, figure_id, first, ideal, name, ports,
};
use super::metrics::{CORE_NS, CROSSED, PER_CORE};
use crate::published::presto10;
use crate::summary::Results;
use crate::summary::curves::{add_computed, add_point, axis};
use crate::summary::frames::frame_words;
use crate::summary::queues::number;
use crate::summary::tables::{marks_of, median, results_from, table, worded};
use crate::words;

/// The table, left out where it is empty.
pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let mut rows = Vec::new();
    for device in results.devices() {
        for cell in cells(results, device) {
            let count = |axis: &str| cell.number(axis).map(words::whole).unwrap_or_default();
            let pps = cell.estimate("throughput_pps");
            let of_ideal = ideal(results, cell).zip(pps).map(|(ideal, e)| e.median / ideal);
            rows.push(vec![
                device.to_owned(),
                cell.word("receive"),
                count("ports"),
                count("queues"),
                count("cores"),
                count("flows"),
                cell.word("frame"),
                worded(pps, words::pps),
                median(cell, PER_CORE, words::pps),
                of_ideal.map_or("-".into(), words::percent),
                median(cell, CORE_NS, words::time),
                median(cell, CROSSED, words::percent),
                marks_of(cell, "throughput_pps"),
            ]);
        }
    }
    let columns = [
        "device",
        "receive",
        "ports",
        "queues",
        "cores",
        "flows",
        "frame",
        "throughput (interval)",
        "per core",
        "of ideal",
        "core time per frame",
        "changed cores",
        "marks",
    ];
    let title = "Throughput of cores, queues and ports at full load, against an ideal card";
    let table = results_from(
        "throughput (interval)",
        table(&results.experiment.name, title, &columns, rows),
    );
    if table.rows.is_empty() { Vec::new() } else { vec![table] }
}

/// All together and per core, over cores; and over queues of the same cores.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let of = |device| {
        [
            over_cores(results, device, (AGGREGATE, "throughput_pps", 1.0)),
            over_cores(results, device, (EACH, PER_CORE, 0.0)),
        ]
    };
    let mut figures: Vec<Figure> = results.devices().flat_map(of).collect();
    figures.push(over_queues(results));
    figures.retain(|figure| {
        figure
            .series
            .iter()
            .any(|series| series.origin != Origin::Published && series.points.len() > 1)
    });
    figures
}

/// The curves of a device; `power` of the number of cores is what a rate of all is divided by to
/// the first and multiplied with again: 1 for all together, 0 for each.
fn curves(results: &Results<'_>, device: &str, metric: &str, power: f64) -> Vec<Series> {
    let mut series = Vec::new();
    let Some(like) = first(results, device) else { return series };
    let drawn = |pps: f64, cores: f64| pps / 1e6 * cores.powf(power - 1.0);
    for ports in ports(results, device) {
        let name = name(device, ports);
        let measured = curve(results, device, ("multi-queue", ports), like);
        for cell in &measured {
            if let Some(point) = cell.mean(metric, 1e-6, number(cell, "cores")) {
                add_point(&mut series, name.clone(), device, point);
            }
        }
        for cell in curve(results, device, ("serial", ports), like) {
            if let Some(point) = cell.mean(metric, 1e-6, number(cell, "cores")) {
                add_point(&mut series, format!("{name}, serial"), device, point);
            }
        }
        for cell in &measured {
            let Some(pps) = ideal(results, cell) else { continue };
            let x = number(cell, "cores");
            add_computed(&mut series, format!("{name}, ideal"), device, (x, drawn(pps, x)));
        }
    }
    series
}

const CURVES: &str = "Ideal: the throughput of one core times the number of cores, limited by the \
                      ports. Serial: one core receives and hands each frame to another. \
                      Published: 82599, PRESTO 2010.";

fn over_cores(results: &Results<'_>, device: &str, of: (&str, &str, f64)) -> Figure {
    let (id, metric, power) = of;
    let mut series = curves(results, device, metric, power);
    series.extend(presto10::scaling(power));
    let frame = first(results, device).map(|cell| frame_words(&cell.word("frame")));
    let frame = frame.unwrap_or_default();
    let (title, y) = match id {
        EACH => ("Throughput of each core", "throughput of each core"),
        _ => ("Throughput of all cores", "throughput"),
    };
    Figure {
        id: figure_id(results, id, device),
        title: format!("{title} over the number of cores: {device}"),
        caption: format!("A queue for each core, full load of {frame}. {CURVES}"),
        x: axis("cores", "", Scale::Log),
        y: axis(y, "Mpps", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}

fn over_queues(results: &Results<'_>) -> Figure {
    let mut series = Vec::new();
    let all = |axis: &str| -> Vec<String> {
        let cells = results.devices().flat_map(|device| at_cores(results, device)).flatten();
        let mut words: Vec<String> = cells.map(|cell| cell.word(axis)).collect();
        words.sort_unstable();
        words.dedup();
        words
    };
    let [differs_frame, differs_flows] = ["frame", "flows"].map(|axis| all(axis).len() > 1);
    for device in results.devices() {
        for cells in at_cores(results, device) {
            let (ports, cores) = (number(cells[0], "ports"), number(cells[0], "cores"));
            let noun = if cores == 1.0 { "core" } else { "cores" };
            let mut name = format!("{}, {cores} {noun}", name(device, ports));
            if differs_frame {
                name += &format!(", {}", frame_words(&cells[0].word("frame")));
            }
            if differs_flows {
                name += &format!(", {}", words::counted(number(cells[0], "flows"), "flow"));
            }
            for cell in cells {
                if let Some(point) = cell.mean("throughput_pps", 1e-6, number(cell, "queues")) {
                    add_point(&mut series, name.clone(), device, point);
                }
            }
        }
    }
    Figure {
        id: figure_id(results, QUEUES, "all"),
        title: "Throughput over queues of the same cores".into(),
        caption: "Full load; the cores poll their queues in turn.".into(),
        x: axis("queues of all ports", "", Scale::Log),
        y: axis("throughput", "Mpps", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}
