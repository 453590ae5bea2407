//! The table of latencies by time stamps, for every experiment that offers frames.

use niclab_result::ReportTable;

use crate::cells::Cell;
use crate::summary::Results;
use crate::summary::tables::{marks_of, median, results_from, table, worded};
use crate::words;

/// The clocks: the name of the metric, and the word of the table.
const CLOCKS: [(&str, &str); 2] = [("latency_card_ns", "card"), ("latency_kernel_ns", "kernel")];

/// Fewest frames of a repeat that have a p99 and a resolution.
const FRAMES_MIN: f64 = 100.0;

/// The table; `None` where no frame was stamped.
pub(crate) fn stamped_frames(results: &Results<'_>) -> Option<ReportTable> {
    let all = results.cells.all();
    let of = |cell: &Cell<'_>| clock(cell).is_some();
    let axes = varied(all.iter().filter(|cell| of(cell)));
    let rows = results.devices().flat_map(|device| {
        let cells = all.iter().filter(move |cell| cell.device == device);
        cells.filter_map(|cell| row(cell, &axes))
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let heads = [
        "clock",
        "port to port, p50 (interval)",
        "port to port, p99",
        "call to poll, p50",
        "call to poll, p99",
        "stamped frames",
        "resolution",
        "tester's core per stamped frame",
        "marks",
    ];
    let place = ["device", "trial"].into_iter().chain(axes.iter().map(|axis| &axis[..]));
    let columns: Vec<&str> = place.chain(heads).collect();
    let title = "Latency of sampled frames: port to port by time stamps, call to poll by niclab's \
                 clock (elsewhere: from when a frame was due)";
    let id = format!("{}-stamps", results.experiment.name);
    let table = results_from("clock", table(&id, title, &columns, rows));
    (!table.rows.is_empty()).then_some(table)
}

/// The clock of a cell whose frames were to be stamped. None of them may have been.
fn clock(cell: &Cell<'_>) -> Option<(&'static str, &'static str)> {
    let has = |(name, _): &(&str, &str)| !cell.values(&format!("{name}_p50")).is_empty();
    let is_asked = !cell.values("stamps_asked").is_empty();
    is_asked.then(|| CLOCKS.into_iter().find(has).unwrap_or(("latency_card_ns", "none")))
}

/// The axes that differ between cells, in alphabetical order.
fn varied<'a>(cells: impl Iterator<Item = &'a Cell<'a>> + Clone) -> Vec<String> {
    let Some(first) = cells.clone().next() else { return Vec::new() };
    let differs =
        |axis: &&String| cells.clone().any(|c| c.point.get(*axis) != first.point.get(*axis));
    first.point.keys().filter(differs).cloned().collect()
}

fn row(cell: &Cell<'_>, axes: &[String]) -> Option<Vec<String>> {
    let (metric, clock) = clock(cell)?;
    let main = format!("{metric}_p50");
    let place = [cell.device.to_owned(), cell.trial.to_owned()];
    let mut row: Vec<String> = place.into_iter().chain(axes.iter().map(|a| cell.word(a))).collect();
    let sum = |metric: &str| words::whole(cell.values(metric).iter().sum());
    row.extend([
        clock.to_owned(),
        worded(cell.estimate(&main), words::time),
        of_enough(cell, &format!("{metric}_p99")),
        median(cell, "latency_call_to_poll_ns_p50", words::time),
        of_enough(cell, "latency_call_to_poll_ns_p99"),
        format!("{} of {}", sum("stamped_frames"), sum("stamps_asked")),
        of_enough(cell, "stamp_resolution_ns"),
        median(cell, "stamp_cost_ns", words::time),
        marks_of(cell, &main),
    ]);
    Some(row)
}

/// The median of a time that only enough frames have; else whether they are too few.
fn of_enough(cell: &Cell<'_>, metric: &str) -> String {
    let frames = cell.values("stamped_frames").into_iter().fold(0.0, f64::max);
    match cell.estimate(metric) {
        None if frames > 0.0 && frames < FRAMES_MIN => {
            format!("fewer than {} frames per repeat", words::whole(FRAMES_MIN))
        }
        _ => median(cell, metric, words::time),
    }
}

#[cfg(test)]
mod tests {
    use niclab_device::{Latency, LoadObservation, StampedFrames};

    use super::*;
    use crate::measure;
    use crate::simulated::{Bench, Nature};
    use crate::summary::summarize;

    /// The row of a point, each repeat of which has so many stamped frames: its cells by column.
    fn stamped(frames: &[u64]) -> impl Fn(&str) -> String {
        let set = ["groups=0", "rules=1", "frame=64"];
        let mut bench = Bench::new(vec![Nature::default()], &set, frames.len() as u32);
        bench.execute();
        let mut samples = bench.store.samples.clone();
        for sample in samples.iter_mut().filter(|sample| sample.trial == "saturate") {
            let count = frames[sample.repeat as usize];
            let mut times = Latency::new();
            times.record_n(8_000, count);
            let of_enough = (count as f64 >= FRAMES_MIN).then_some(16);
            let stamped = StampedFrames {
                asked: count + 1,
                port: times.clone(),
                program: times,
                resolution_ns: of_enough,
                ..StampedFrames::default()
            };
            let observation =
                LoadObservation { stamped: Some(stamped), ..LoadObservation::default() };
            sample.metrics.extend(measure::metrics(&observation));
        }
        let summary = summarize(&bench.run, &samples, &bench.store.latencies);
        let mut tables = summary.experiments[0].tables.clone().into_iter();
        let table = tables.find(|table| table.id == "occupancy-stamps").unwrap();
        move |column| {
            let at = table.columns.iter().position(|head| head == column).unwrap();
            table.rows[0][at].clone()
        }
    }

    #[test]
    fn too_few_frames_are_why_there_is_no_tail_and_no_resolution() {
        let (few, enough) = (stamped(&[99, 50]), stamped(&[99, 100]));
        for column in ["port to port, p99", "call to poll, p99", "resolution"] {
            assert_eq!(few(column), "fewer than 100 frames per repeat", "{column}");
            assert!(enough(column).ends_with("ns") || enough(column).ends_with("us"), "{column}");
        }
        assert_eq!(few("call to poll, p50"), enough("call to poll, p50"));
        assert_eq!(stamped(&[0])("resolution"), "-", "the column of the frames says that");
    }
}
