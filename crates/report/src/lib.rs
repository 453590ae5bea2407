//! Result documents to one self-contained HTML file.
//!
//! [`html`] draws a [`Summary`]; [`vega_lite`] gives one figure as a Vega-Lite spec. The crate
//! reads the documents of `niclab-result`: it measures nothing, computes no statistics, touches no
//! file and no network, and the page it writes asks for nothing either.
//!
//! The rooms: `page` gathers what the templates show, `conform` does so for a `ConformDocument`,
//! `fleet` for a `FleetDocument`, `partition` for a `PartitionDocument`,
//! `spec` draws figures, `form` chooses curves
//! or bars, `legend` names their series, `axis` and `theme` say how they look, `baseline` mutes the
//! curves of an earlier run, `drawing` lays testbeds out, `words` words numbers and marks,
//! `reference` words the spread of the reference trials, `scripts` holds the drawing scripts and
//! their licences.
#![forbid(unsafe_code)]

mod axis;
mod baseline;
mod conform;
mod drawing;
mod fleet;
mod form;
mod legend;
mod page;
mod partition;
mod reference;
mod scripts;
mod spec;
mod theme;
mod words;

use std::collections::BTreeSet;

use niclab_result::{Environment, Figure, Quantity, SCHEMA, Summary};

pub use conform::conform_html;
pub use fleet::fleet_html;
pub use partition::partition_html;
pub use spec::vega_lite;
pub use theme::{Theme, config, dark_colours};

/// What the report says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportOptions {
    /// Heading of the page.
    pub title: String,
    /// The command that repeats the run, given the run's `run.toml`.
    pub command: String,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self { title: "niclab report".to_owned(), command: "niclab run run.toml".to_owned() }
    }
}

/// Why a summary cannot be shown. All of it is the doing of whatever wrote the summary.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// Two figures share a name, so that links to one would reach the other.
    #[error("two figures are called `{id}`; give each figure of the run a name of its own")]
    DuplicateFigure {
        /// The name.
        id: String,
    },
    /// The summary was written by a newer niclab.
    #[error("the summary has schema {found}, this niclab reads up to {SCHEMA}; use a newer niclab")]
    NewerSchema {
        /// The summary's version.
        found: u32,
    },
    /// A number is NaN or infinite.
    #[error("{place} holds a number that is not finite; leave the point out and say why")]
    NotFinite {
        /// The figure or finding.
        place: String,
    },
    /// A row of a table has more or fewer cells than the table has columns.
    #[error("table `{id}`, row {row}: {cells} cells under {columns} columns")]
    RaggedTable {
        /// Name of the table.
        id: String,
        /// The row, from 0.
        row: usize,
        /// Its cells.
        cells: usize,
        /// The table's columns.
        columns: usize,
    },
    /// The page could not be put together.
    #[error("the page could not be written: {0}")]
    Template(#[from] askama::Error),
}

/// Writes the report of a run: one HTML page with everything in it, scripts included.
///
/// `run_toml` is the resolved run as the result directory keeps it; it is shown, not read. Texts
/// from outside (device names, labels, the TOML) may hold anything: they are escaped.
///
/// # Errors
///
/// [`ReportError`] where the summary contradicts itself or comes from a newer niclab.
pub fn html(
    summary: &Summary,
    environment: &Environment,
    run_toml: &str,
    options: &ReportOptions,
) -> Result<String, ReportError> {
    check(summary)?;
    page::render(summary, environment, run_toml, options)
}

/// Refuses what cannot be shown truthfully.
fn check(summary: &Summary) -> Result<(), ReportError> {
    if summary.schema > SCHEMA {
        return Err(ReportError::NewerSchema { found: summary.schema });
    }
    for finding in &summary.findings {
        let Quantity { value, .. } = finding.value;
        let (low, high) = finding.interval.unwrap_or((value, value));
        if ![value, low, high].iter().all(|number| number.is_finite()) {
            return Err(ReportError::NotFinite { place: format!("finding `{}`", finding.id) });
        }
    }
    let mut seen = BTreeSet::new();
    for experiment in &summary.experiments {
        for figure in &experiment.figures {
            if !seen.insert(&figure.id) {
                return Err(ReportError::DuplicateFigure { id: figure.id.clone() });
            }
            if !finite(figure) {
                return Err(ReportError::NotFinite { place: format!("figure `{}`", figure.id) });
            }
        }
        for table in &experiment.tables {
            for (row, cells) in table.rows.iter().enumerate() {
                let (id, cells, columns) = (table.id.clone(), cells.len(), table.columns.len());
                if cells != columns {
                    return Err(ReportError::RaggedTable { id, row, cells, columns });
                }
            }
        }
    }
    Ok(())
}

/// `true` where every number of a figure can be drawn.
fn finite(figure: &Figure) -> bool {
    let points = figure.series.iter().flat_map(|series| &series.points);
    let mut numbers = points.flat_map(|point| {
        let ends = [point.low, point.high].into_iter().flatten();
        ends.chain(point.quartiles.into_iter().flatten()).chain([point.x, point.y])
    });
    let mut knees = figure.knees.iter().flat_map(|knee| [knee.x, knee.width]);
    numbers.all(f64::is_finite) && knees.all(f64::is_finite)
}
