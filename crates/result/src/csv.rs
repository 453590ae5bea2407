//! Samples as comma-separated values (RFC 4180), for spreadsheets and statistics programs.
//!
//! One row a measurement, one column an axis and a metric; the unit stands in the metric's name. A
//! run with variants has a column `variant`. Of two samples of one measurement the later one is
//! written. The samples are read twice, first for
//! the columns and for which samples count, so that a run of any length takes little memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use crate::folder::Folder;
use crate::lines::Torn;
use crate::stored::Lines;
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

/// Writes the samples of the result directory `directory` to `out`; the line that was left out
/// because it is torn.
///
/// # Errors
/// Those of [`Stored::open`](crate::Stored::open); [`ResultError::of`] an output that cannot be
/// written.
pub fn write_csv(directory: &Path, out: &mut dyn Write) -> Result<Option<Torn>, ResultError> {
    let folder = Folder::open(directory)?;
    let columns = columns(&folder)?;
    let failed = |e: io::Error| ResultError::of(Path::new("the CSV output"), e);
    let mut rows = csv::WriterBuilder::new().from_writer(out);
    let variant = columns.has_variants.then_some("variant");
    let head = FIXED.iter().copied().chain(variant).map(str::to_owned);
    let named = columns.axes.iter().chain(&columns.metrics).map(|name| text(name));
    rows.write_record(head.chain(named)).map_err(|e| failed(e.into()))?;
    let mut samples = Lines::of(&folder)?;
    for (place, sample) in samples.by_ref().enumerate() {
        let sample = sample?;
        if columns.counts.contains(&place) {
            rows.write_record(cells(&sample, &columns)).map_err(|e| failed(e.into()))?;
        }
    }
    rows.flush().map_err(failed)?;
    Ok(samples.torn)
}

struct Columns {
    axes: BTreeSet<String>,
    metrics: BTreeSet<String>,
    /// Some sample was measured under a variant.
    has_variants: bool,
    /// Places of the samples that count.
    counts: BTreeSet<usize>,
}

fn columns(folder: &Folder) -> Result<Columns, ResultError> {
    let (mut axes, mut metrics) = (BTreeSet::new(), BTreeSet::new());
    let (mut latest, mut has_variants) = (LatestSamples::default(), false);
    for (place, sample) in Lines::of(folder)?.enumerate() {
        let sample = sample?;
        latest.add(place, &sample);
        has_variants |= sample.variant.is_some();
        axes.extend(sample.point.into_keys());
        metrics.extend(sample.metrics.into_keys());
    }
    Ok(Columns { axes, metrics, has_variants, counts: latest.places() })
}

/// What makes two samples one measurement: experiment, device, trial, repeat and point.
type Measurement = (String, String, String, u32, String);

/// The last sample of each measurement.
#[derive(Default)]
pub(crate) struct LatestSamples(BTreeMap<Measurement, (usize, bool)>);

impl LatestSamples {
    /// Adds the sample at this place of the file.
    pub(crate) fn add(&mut self, place: usize, sample: &Sample) {
        let at: String = sample.point.iter().map(|(axis, at)| format!("{axis}={at} ")).collect();
        let Sample { experiment, device, trial, repeat, .. } = sample;
        let key = (experiment.clone(), device.clone(), trial.clone(), *repeat, at);
        // A device that went away has made no measurement again.
        let is_gone = matches!(sample.outcome, Outcome::Failed { dropped: true, .. });
        match self.0.get(&key) {
            Some((_, false)) if is_gone => {}
            _ => drop(self.0.insert(key, (place, is_gone))),
        }
    }

    /// Places of the samples that count.
    pub(crate) fn places(self) -> BTreeSet<usize> {
        self.0.into_values().map(|(place, _)| place).collect()
    }
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
        text(&sample.experiment),
        text(&sample.device),
        text(&sample.trial),
        sample.repeat.to_string(),
        outcome.to_string(),
        text(reason),
        marks.join(" "),
    ];
    if columns.has_variants {
        let name = sample.variant.as_ref().map(|variant| variant.name.as_str());
        cells.push(text(name.unwrap_or_default()));
    }
    let axis = |name| match sample.point.get(name) {
        Some(Coordinate::Number(number)) => number.to_string(),
        Some(Coordinate::Word(word)) => text(word),
        None => String::new(),
    };
    let metric = |name| sample.metrics.get(name).map(|q| q.value.to_string()).unwrap_or_default();
    cells.extend(columns.axes.iter().map(axis));
    cells.extend(columns.metrics.iter().map(metric));
    cells
}

/// What a spreadsheet takes for the beginning of a formula, full-width forms too (OWASP, "CSV
/// Injection"). It may look for it behind a tab or a line end.
const FORMULA: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

/// A cell of text; an apostrophe in front keeps a spreadsheet from carrying it out. A word that is
/// a number stays one.
pub(crate) fn text(cell: &str) -> String {
    let is_formula = cell.starts_with(FORMULA) && !is_number(cell);
    if is_formula { format!("'{cell}") } else { cell.to_owned() }
}

/// Whether all of a cell is a decimal number, such as `-1.5` or `-2e-3`.
fn is_number(cell: &str) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E');
    cell.chars().all(is_part) && cell.parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::directory::tests_support::sample;
    use crate::{Directory, Mark, Quantity, VariantRun};

    #[test]
    fn every_metric_and_axis_has_its_column_and_odd_words_are_quoted() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        let mut directory = Directory::create(&path, Duration::ZERO).unwrap();
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
        assert_eq!(write_csv(&path, &mut out).unwrap(), None);
        let expected = "order,time_unix_ns,experiment,device,trial,repeat,outcome,reason,marks,\
            frame,rules,throughput_pps\n\
            0,1000,occupancy,soft,saturate,0,measured,,disturbed generator-limited,,65536,2.5\n\
            1,1001,occupancy,\"dpdk:--vdev=net_ring0,x=\"\"1\"\"\",saturate,0,not_supported,rules,\
            ,imix,,\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_run_with_variants_has_a_column_of_their_names() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        let mut directory = Directory::create(&path, Duration::ZERO).unwrap();
        directory.write_run("schema = 1\n").unwrap();
        let mut first = sample(0);
        first.device = "soft [slow]".into();
        first.variant = Some(VariantRun { name: "slow".into(), ..VariantRun::default() });
        directory.append(&first, None).unwrap();
        // A device that is not there: no command ran.
        directory.append(&sample(1), None).unwrap();
        let mut out = Vec::new();
        assert_eq!(write_csv(&path, &mut out).unwrap(), None);
        let expected = "order,time_unix_ns,experiment,device,trial,repeat,outcome,reason,marks,\
            variant\n\
            0,1000,occupancy,soft [slow],saturate,0,measured,,,slow\n\
            1,1001,occupancy,soft,saturate,0,measured,,,\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn of_two_samples_of_one_measurement_the_later_one_is_written() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        let mut directory = Directory::create(&path, Duration::ZERO).unwrap();
        directory.write_run("schema = 1\n").unwrap();
        let failed = |dropped| Outcome::Failed { reason: "down".into(), dropped };
        let mut first = sample(0);
        first.outcome = failed(false);
        let mut gone = sample(2);
        gone.outcome = failed(true);
        let mut other = sample(3);
        other.repeat = 1;
        for one in [&first, &sample(1), &gone, &other] {
            directory.append(one, None).unwrap();
        }
        let mut out = Vec::new();
        assert_eq!(write_csv(&path, &mut out).unwrap(), None);
        let out = String::from_utf8(out).unwrap();
        let rows: Vec<&str> = out.lines().skip(1).map(|row| &row[..1]).collect();
        assert_eq!(rows, ["1", "3"], "{out}");
    }

    #[test]
    fn a_spreadsheet_carries_no_cell_out_and_numbers_stay_numbers() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        let mut directory = Directory::create(&path, Duration::ZERO).unwrap();
        directory.write_run("schema = 1\n").unwrap();
        let mut one = sample(0);
        one.device = "=HYPERLINK(\"x\")".into();
        one.experiment = "\t=1".into();
        one.trial = "＝1".into();
        one.outcome = Outcome::NotSupported { capability: "-2+cmd|' /C calc'!A0".into() };
        let words = [("a", "@SUM(A1)"), ("b", "-1.5"), ("c", "+3e-2"), ("d", "-inf"), ("e", "-")];
        let words = words.map(|(axis, word)| (axis.into(), Coordinate::Word(word.into())));
        one.point.extend(words);
        one.point.insert("f".into(), Coordinate::Number(-1.5));
        one.metrics.insert("+m".into(), Quantity { value: -2.5e-9, unit: "1".into() });
        directory.append(&one, None).unwrap();
        let mut out = Vec::new();
        assert_eq!(write_csv(&path, &mut out).unwrap(), None);
        let expected = "order,time_unix_ns,experiment,device,trial,repeat,outcome,reason,marks,\
            a,b,c,d,e,f,'+m\n\
            0,1000,'\t=1,\"'=HYPERLINK(\"\"x\"\")\",'＝1,0,not_supported,\
            '-2+cmd|' /C calc'!A0,,\
            '@SUM(A1),-1.5,+3e-2,'-inf,'-,-1.5,-0.0000000025\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
