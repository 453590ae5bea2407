//! `niclab fleet`: which cards are unlike the others.

mod page;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use niclab_lab::fleet::FleetValues;
use niclab_result::fleet::{FleetDocument, FleetFigure, FleetGroup};
use niclab_result::rows::MetricRow;
use niclab_result::{REPORT, RUN};

use crate::arguments::FleetArguments;
use crate::export::rows_of;
use crate::failure::Failure;
use crate::output::{json, one_line, say, stdout};
use crate::rows_failure::RowsFailure;
use crate::tables;

/// Most directories of a source.
const DIRECTORIES_MAX: usize = 100_000;

/// Reads all results, compares the cards, and prints the outliers. These are a failure, and so are
/// results that could not be compared.
pub fn run(arguments: &FleetArguments) -> Result<(), Failure> {
    if let Some(path) = &arguments.output {
        FleetDocument::make_place(path)?;
    }
    let judged = judged(&arguments.sources).and_then(|document| {
        if let Some(path) = &arguments.output {
            document.write(path, &niclab_report::fleet_html(&document)?)?;
        }
        Ok(document)
    });
    if let Some(path) = &arguments.output {
        // It is empty if nothing was written.
        let _ = fs::remove_dir(path);
    }
    let document = judged?;
    match arguments.json {
        true => json(&document)?,
        false => page::print(&document, tables::width(), &mut stdout())?,
    }
    if let Some(path) = &arguments.output {
        say(&format!("report: {}", path.join(REPORT).display()));
    }
    verdict(&document)
}

/// Outliers first: they are true, whatever could not be compared.
fn verdict(document: &FleetDocument) -> Result<(), Failure> {
    let name = |card: usize| {
        let card = &document.cards[card];
        format!("{} ({})", card.host, card.device)
    };
    let cards: Vec<String> = document.outliers.iter().map(|of| name(of.card)).collect();
    if !cards.is_empty() {
        return Err(RowsFailure::Outliers { cards }.into());
    }
    if document.comparisons == 0 {
        let why = |group: &FleetGroup| {
            group.unjudged.as_ref().map(|why| format!("{}: {why}", group.name))
        };
        let mut reasons: Vec<String> = document.groups.iter().filter_map(why).collect();
        if reasons.is_empty() {
            reasons.push("the sources have no finished measurement".to_owned());
        }
        return Err(RowsFailure::Uncompared { reasons }.into());
    }
    match document.left_out.len() {
        0 => Ok(()),
        count => Err(RowsFailure::LeftOut { count }.into()),
    }
}

fn judged(sources: &[PathBuf]) -> Result<FleetDocument, Failure> {
    let (mut values, mut left_out) = (FleetValues::default(), Vec::new());
    let (mut first, mut seen) = (None, HashSet::new());
    for source in sources {
        let is_file = source.is_file();
        let results = if is_file { vec![source.clone()] } else { results_in(source)? };
        for result in results {
            if !seen.insert(result.canonicalize().unwrap_or_else(|_| result.clone())) {
                say(&format!("counted once, though named twice: {}", result.display()));
                continue;
            }
            values.begin_source();
            if is_file {
                add_file(&result, &mut values)?;
                continue;
            }
            match rows_of(&result, &mut |row| add(&result, row, &mut values)) {
                Ok(()) => {}
                Err(failure @ Failure::Rows(_)) => return Err(failure),
                Err(failure) => {
                    let reason = one_line(&failure.to_string());
                    say(&format!("left out: {reason}"));
                    left_out.push(reason);
                    first.get_or_insert(failure);
                }
            }
        }
    }
    // Nothing of it could be used.
    if let (true, Some(failure)) = (values.is_empty(), first) {
        return Err(failure);
    }
    let program = format!("niclab {}", env!("CARGO_PKG_VERSION"));
    let mut document = FleetDocument { program, left_out, ..values.judge() };
    clean(&mut document);
    Ok(document)
}

/// Shows control characters and marks of direction in names as their numbers: they come from other
/// hosts, and go to a page.
fn clean(document: &mut FleetDocument) {
    let texts = document.groups.iter_mut().flat_map(|group| {
        let FleetGroup { name, figures, .. } = group;
        let figures = figures.iter_mut().flat_map(|figure| {
            let FleetFigure { experiment, trial, point, metric, unit, .. } = figure;
            [experiment, trial, point, metric, unit]
        });
        std::iter::once(name).chain(figures)
    });
    let cards = document.cards.iter_mut();
    let cards = cards.flat_map(|card| [&mut card.host, &mut card.device, &mut card.firmware]);
    let outliers = document.outliers.iter_mut().map(|of| &mut of.firmware);
    for text in texts.chain(cards).chain(outliers) {
        *text = one_line(text);
    }
}

/// The result directory itself, or those that are in it, in the order of their names.
fn results_in(source: &Path) -> Result<Vec<PathBuf>, Failure> {
    let is_result = |path: &Path| path.join(RUN).symlink_metadata().is_ok();
    if is_result(source) {
        return Ok(vec![source.to_owned()]);
    }
    let of = |error| niclab_result::ResultError::of_reading(source, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(source).map_err(of)? {
        let path = entry.map_err(of)?.path();
        if !is_result(&path) {
            continue;
        }
        if found.len() == DIRECTORIES_MAX {
            let (path, limit) = (source.to_owned(), DIRECTORIES_MAX);
            return Err(RowsFailure::Directories { path, limit }.into());
        }
        found.push(path);
    }
    found.sort();
    // One without a result is refused in the words of all commands.
    Ok(if found.is_empty() { vec![source.to_owned()] } else { found })
}

/// Takes in a row of this source.
fn add(path: &Path, row: &MetricRow<'_>, values: &mut FleetValues) -> Result<(), Failure> {
    let added = values.add(row);
    Ok(added.map_err(|error| RowsFailure::Fleet { path: path.to_owned(), error })?)
}

#[cfg(feature = "parquet")]
fn add_file(path: &Path, values: &mut FleetValues) -> Result<(), Failure> {
    niclab_result::rows::parquet::read_rows(path, &mut |row| add(path, row, values))
}

#[cfg(not(feature = "parquet"))]
fn add_file(path: &Path, _: &mut FleetValues) -> Result<(), Failure> {
    Err(RowsFailure::NoParquet { path: path.to_owned() }.into())
}
