//! Samples as comma-separated values (RFC 4180), for spreadsheets and statistics programs.
//!
//! One row a sample, one column an axis and a metric; the unit stands in the metric's name. The
//! samples are read twice, first for the columns, so that a run of any length takes no memory.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use crate::stored::{Line, Lines};
use crate::{Coordinate, Outcome, ResultError, Sample};

const FIXED: [&str; 9] = [
    "order",
    "time_unix_ns",
    "experiment",
    "device",
    "trial",
    "repeat",
    "outcome",
    "reason",
    "marks",
];

/// Writes the samples of the result directory `directory` to `out`.
pub fn write_csv(directory: &Path, out: &mut dyn Write) -> Result<(), ResultError> {
    let columns = columns(directory)?;
    let failed = |e: io::Error| ResultError::of(Path::new("the CSV output"), e);
    let head = FIXED.iter().map(|name| (*name).to_string());
    let head = head.chain(columns.axes.iter().chain(&columns.metrics).cloned());
    write_row(out, head).map_err(failed)?;
    for sample in samples(directory)? {
        write_row(out, cells(&sample?, &columns)).map_err(failed)?;
    }
    out.flush().map_err(failed)
}

struct Columns {
    axes: BTreeSet<String>,
    metrics: BTreeSet<String>,
}

fn columns(directory: &Path) -> Result<Columns, ResultError> {
    let mut columns = Columns { axes: BTreeSet::new(), metrics: BTreeSet::new() };
    for sample in samples(directory)? {
        let sample = sample?;
        columns.axes.extend(sample.point.into_keys());
        columns.metrics.extend(sample.metrics.into_keys());
    }
    Ok(columns)
}

fn samples(
    directory: &Path,
) -> Result<impl Iterator<Item = Result<Sample, ResultError>>, ResultError> {
    let lines = Lines::open(directory)?;
    Ok(lines.filter_map(|line| match line {
        Ok(Line::Whole(sample, _)) => Some(Ok(*sample)),
        Ok(Line::Torn) => None,
        Err(e) => Some(Err(e)),
    }))
}

fn cells(sample: &Sample, columns: &Columns) -> Vec<String> {
    let (outcome, reason) = match &sample.outcome {
        Outcome::Measured => ("measured", ""),
        Outcome::NotSupported { capability } => ("not_supported", capability.as_str()),
        Outcome::Refused { reason } => ("refused", reason.as_str()),
        Outcome::Failed { reason, .. } => ("failed", reason.as_str()),
    };
    let marks: Vec<String> = sample.marks.iter().map(|mark| mark.to_string()).collect();
    let mut cells = vec![
        sample.order.to_string(),
        sample.time_unix_ns.to_string(),
        sample.experiment.clone(),
        sample.device.clone(),
        sample.trial.clone(),
        sample.repeat.to_string(),
        outcome.to_string(),
        reason.to_string(),
        marks.join(" "),
    ];
    let axis = |name| sample.point.get(name).map(Coordinate::to_string).unwrap_or_default();
    let metric = |name| sample.metrics.get(name).map(|q| q.value.to_string()).unwrap_or_default();
    cells.extend(columns.axes.iter().map(axis));
    cells.extend(columns.metrics.iter().map(metric));
    cells
}

fn write_row(out: &mut dyn Write, cells: impl IntoIterator<Item = String>) -> io::Result<()> {
    let cells: Vec<String> = cells.into_iter().map(quoted).collect();
    writeln!(out, "{}", cells.join(","))
}

/// Quotes a cell that a reader would break otherwise.
fn quoted(cell: String) -> String {
    if cell.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::tests_support::sample;
    use crate::{Directory, Mark, Quantity};

    #[test]
    fn every_metric_and_axis_has_its_column_and_odd_words_are_quoted() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        let mut directory = Directory::create(&path).unwrap();
        directory.write_run("schema = 1\n").unwrap();
        let mut first = sample(0);
        first.point.insert("rules".into(), Coordinate::Number(65_536.0));
        let quantity = Quantity { value: 2.5, unit: "pps".into() };
        first.metrics.insert("throughput_pps".into(), quantity);
        first.marks = vec![Mark::Disturbed, Mark::GeneratorLimited];
        directory.append(&first, None).unwrap();
        let mut second = sample(1);
        second.device = "dpdk:--vdev=net_ring0,x=\"1\"".into();
        second.point.insert("frame".into(), Coordinate::Word("imix".into()));
        second.outcome = Outcome::NotSupported { capability: "rules".into() };
        directory.append(&second, None).unwrap();
        let mut out = Vec::new();
        write_csv(&path, &mut out).unwrap();
        let expected = "order,time_unix_ns,experiment,device,trial,repeat,outcome,reason,marks,\
            frame,rules,throughput_pps\n\
            0,1000,occupancy,soft,saturate,0,measured,,disturbed generator-limited,,65536,2.5\n\
            1,1001,occupancy,\"dpdk:--vdev=net_ring0,x=\"\"1\"\"\",saturate,0,not_supported,rules,\
            ,imix,,\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
