//! Results as rows: one row a metric of a trial, the same shape for every experiment and host.
//!
//! [`RowSource`] reads the rows of a result directory, [`CsvRows`] writes rows as comma-separated
//! values, and `parquet` writes and reads Parquet files. All rows pass as [`MetricRow`], one at a
//! time, so that results of any number of hosts take little memory.

#[cfg(feature = "parquet")]
pub mod parquet;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use crate::csv::{LatestSamples, text};
use crate::folder::Folder;
use crate::lines::Torn;
use crate::stored::{self, Lines};
use crate::{Environment, ResultError, Sample};

/// Names of the columns, in their order.
pub const COLUMNS: [&str; 14] = [
    "host",
    "device",
    "firmware",
    "driver",
    "pci_id",
    "started_unix_ns",
    "experiment",
    "point",
    "trial",
    "repeat",
    "metric",
    "value",
    "unit",
    "marks",
];

/// One metric of one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricRow<'a> {
    /// Name of the host that has the device; empty if it is not known.
    pub host: &'a str,
    /// The device as in the command, such as `linux:eth0,eth1`.
    pub device: &'a str,
    /// Version of its firmware, in the words of its driver; empty if it has none.
    pub firmware: &'a str,
    /// Its driver; empty if it is not known.
    pub driver: &'a str,
    /// PCI id of its card, such as `15b3:1017 (subsystem 15b3:0020)`; empty if it has none, or if
    /// it is not known.
    pub pci_id: &'a str,
    /// Start of the first trial of the run, nanoseconds since the Unix epoch: two runs of one host
    /// have different ones.
    pub started_unix_ns: u64,
    /// The experiment.
    pub experiment: &'a str,
    /// The point of the sweep, a JSON object of its axes in the order of their names:
    /// `{"frame":64,"rules":1000}`.
    pub point: &'a str,
    /// The trial of the point.
    pub trial: &'a str,
    /// Repeat, from 0.
    pub repeat: u32,
    /// Name of the metric.
    pub metric: &'a str,
    /// Its value; never NaN or infinite.
    pub value: f64,
    /// Its unit.
    pub unit: &'a str,
    /// Marks of the trial, with a space between two.
    pub marks: &'a str,
}

/// Where the results of a device come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceOrigin {
    /// Name of its host.
    pub host: String,
    /// Version of its firmware.
    pub firmware: String,
    /// Its driver.
    pub driver: String,
    /// PCI id of its card.
    pub pci_id: String,
}

/// The rows of a result directory. It stays as it is.
#[derive(Debug)]
pub struct RowSource(Folder);

impl RowSource {
    /// Opens a directory; refuses one of a later version.
    ///
    /// # Errors
    /// Those of [`Stored::open`](crate::Stored::open) about `run.toml`.
    pub fn open(directory: &Path) -> Result<RowSource, ResultError> {
        let folder = Folder::open(directory)?;
        stored::check_run(&folder)?;
        Ok(RowSource(folder))
    }

    /// The resolved run, as text.
    ///
    /// # Errors
    /// Those of [`Stored::run_toml`](crate::Stored::run_toml).
    pub fn run_toml(&self) -> Result<String, ResultError> {
        stored::run_toml(&self.0)
    }

    /// The machine of the run, if the directory has it.
    ///
    /// # Errors
    /// Those of [`Stored::environment`](crate::Stored::environment).
    pub fn environment(&self) -> Result<Option<Environment>, ResultError> {
        stored::environment(&self.0)
    }

    /// Gives all rows to `each`, in the order of measurement. Of two samples of one measurement the
    /// later one counts. Returns the line that was left out because it is torn.
    ///
    /// # Errors
    /// [`ResultError::NotFile`], [`ResultError::TooLong`], [`ResultError::Damaged`],
    /// [`ResultError::OtherSchema`], [`ResultError::Disk`]; those of `each`.
    pub fn rows<E: From<ResultError>>(
        &self,
        origins: &BTreeMap<String, DeviceOrigin>,
        each: &mut dyn FnMut(&MetricRow<'_>) -> Result<(), E>,
    ) -> Result<Option<Torn>, E> {
        let (mut latest, mut started_unix_ns) = (LatestSamples::default(), u64::MAX);
        for (place, sample) in Lines::of(&self.0)?.enumerate() {
            let sample = sample?;
            latest.add(place, &sample);
            started_unix_ns = started_unix_ns.min(sample.time_unix_ns);
        }
        let counts = latest.places();
        let unknown = DeviceOrigin::default();
        let mut lines = Lines::of(&self.0)?;
        for (place, sample) in lines.by_ref().enumerate() {
            let sample = sample?;
            if counts.contains(&place) {
                let origin = origins.get(&sample.device).unwrap_or(&unknown);
                of_sample(&sample, origin, started_unix_ns, each)?;
            }
        }
        Ok(lines.torn)
    }
}

/// The rows of one sample.
fn of_sample<E>(
    sample: &Sample,
    origin: &DeviceOrigin,
    started_unix_ns: u64,
    each: &mut dyn FnMut(&MetricRow<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let point = point_text(&sample.point);
    let marks: Vec<String> = sample.marks.iter().map(|mark| mark.to_string()).collect();
    let marks = marks.join(" ");
    for (metric, quantity) in &sample.metrics {
        each(&MetricRow {
            host: &origin.host,
            device: &sample.device,
            firmware: &origin.firmware,
            driver: &origin.driver,
            pci_id: &origin.pci_id,
            started_unix_ns,
            experiment: &sample.experiment,
            point: &point,
            trial: &sample.trial,
            repeat: sample.repeat,
            metric,
            value: quantity.value,
            unit: &quantity.unit,
            marks: &marks,
        })?;
    }
    Ok(())
}

/// A point as [`MetricRow::point`] has it. A whole number is written without a fraction.
pub fn point_text(point: &crate::Point) -> String {
    let number = |number: f64| match number {
        whole if whole.fract() == 0.0 && whole.abs() < 9e15 => serde_json::json!(whole as i64),
        other => serde_json::json!(other),
    };
    let axis = |(name, at): (&String, &crate::Coordinate)| match at {
        crate::Coordinate::Number(at) => (name.clone(), number(*at)),
        crate::Coordinate::Word(word) => (name.clone(), word.as_str().into()),
    };
    serde_json::Value::Object(point.iter().map(axis).collect()).to_string()
}

/// Writes rows as comma-separated values (RFC 4180), the names of the columns first. A spreadsheet
/// takes no cell for a formula.
pub struct CsvRows<W: Write>(csv::Writer<W>);

impl<W: Write> CsvRows<W> {
    /// Writes the names of the columns.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W) -> io::Result<CsvRows<W>> {
        let mut rows = csv::WriterBuilder::new().from_writer(out);
        rows.write_record(COLUMNS)?;
        Ok(CsvRows(rows))
    }

    /// Writes a row.
    ///
    /// # Errors
    /// Those of the output.
    pub fn write(&mut self, row: &MetricRow<'_>) -> io::Result<()> {
        let cells = [
            text(row.host),
            text(row.device),
            text(row.firmware),
            text(row.driver),
            text(row.pci_id),
            row.started_unix_ns.to_string(),
            text(row.experiment),
            text(row.point),
            text(row.trial),
            row.repeat.to_string(),
            text(row.metric),
            row.value.to_string(),
            text(row.unit),
            text(row.marks),
        ];
        Ok(self.0.write_record(cells)?)
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
