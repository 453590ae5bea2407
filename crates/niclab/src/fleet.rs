//! `niclab fleet`: which hosts are unlike the others.

mod page;

use std::fs;
use std::path::{Path, PathBuf};

use niclab_lab::fleet::FleetValues;
use niclab_result::fleet::{FleetDocument, FleetFigure, FleetGroup};
use niclab_result::{REPORT, RUN};

use crate::arguments::FleetArguments;
use crate::compare::check_names;
use crate::export::rows_of;
use crate::failure::Failure;
use crate::output::{json, one_line, say, stdout};
use crate::rows_failure::RowsFailure;
use crate::tables;

/// Reads all results, compares the hosts, and prints those that are unlike the others; these are a
/// failure.
pub fn run(arguments: &FleetArguments) -> Result<(), Failure> {
    check_names(&arguments.sources)?;
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
    let hosts: Vec<String> =
        document.odd.iter().map(|of| document.hosts[of.host].host.clone()).collect();
    if hosts.is_empty() { Ok(()) } else { Err(RowsFailure::Odd { hosts }.into()) }
}

fn judged(sources: &[PathBuf]) -> Result<FleetDocument, Failure> {
    let (mut values, mut left_out) = (FleetValues::default(), Vec::new());
    let mut first = None;
    for source in sources {
        if source.is_file() {
            add_file(source, &mut values)?;
            continue;
        }
        for directory in results_in(source)? {
            match rows_of(&directory, &mut |row| Ok(values.add(row)?)) {
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
    let hosts = document.hosts.iter_mut().flat_map(|host| [&mut host.host, &mut host.firmware]);
    let odd = document.odd.iter_mut().map(|of| &mut of.firmware);
    for text in texts.chain(hosts).chain(odd) {
        *text = one_line(text);
    }
}

/// The result directory itself, or those that are in it, in the order of their names.
fn results_in(source: &Path) -> Result<Vec<PathBuf>, Failure> {
    let is_result = |path: &Path| path.join(RUN).symlink_metadata().is_ok();
    let inner = || -> std::io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(source)?.collect::<Result<Vec<_>, _>>()?;
        let paths = entries.into_iter().map(|entry| entry.path());
        let mut paths: Vec<PathBuf> = paths.filter(|path| is_result(path)).collect();
        paths.sort();
        Ok(paths)
    };
    if is_result(source) {
        return Ok(vec![source.to_owned()]);
    }
    let found = inner().map_err(|error| niclab_result::ResultError::of(source, error))?;
    // One without a result is refused in the words of all commands.
    Ok(if found.is_empty() { vec![source.to_owned()] } else { found })
}

#[cfg(feature = "parquet")]
fn add_file(path: &Path, values: &mut FleetValues) -> Result<(), Failure> {
    niclab_result::rows::parquet::read_rows(path, &mut |row| Ok(values.add(row)?))
}

#[cfg(not(feature = "parquet"))]
fn add_file(path: &Path, _: &mut FleetValues) -> Result<(), Failure> {
    Err(RowsFailure::NoParquet { path: path.to_owned() }.into())
}
