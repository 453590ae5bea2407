//! `niclab conform`: does a card do what its rules say?

pub mod compared;
mod page;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use niclab_conform::{ConformOptions, conform};
use niclab_device::Testbed;
use niclab_result::REPORT;
use niclab_result::conform::{CONFORM_SCHEMA, CellState, ConformDocument, DeviceConformance};

use crate::arguments::ConformArguments;
use crate::devices;
use crate::failure::Failure;
use crate::output::{is_terminal, json, one_line, say, stdout};
use crate::rules::plural;
use crate::tables;

/// How often a line says how far it is, where there is no terminal for a bar.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Tries each device and prints its matrix; a device that accepts rules and does something else is
/// a failure.
pub fn run(arguments: &ConformArguments) -> Result<(), Failure> {
    let names = devices::names(arguments.tester.as_deref(), &arguments.device)?;
    devices::check(&names)?;
    let options = options(arguments);
    let Some(path) = &arguments.output else { return try_all(arguments, &options) };
    ConformDocument::make_place(path)?;
    let tried = try_all(arguments, &options);
    // It is empty where nothing was written.
    let _ = fs::remove_dir(path);
    tried
}

fn try_all(arguments: &ConformArguments, options: &ConformOptions) -> Result<(), Failure> {
    let started = format!("{:.0}", Timestamp::now());
    let mut results = Vec::new();
    let names = devices::names(arguments.tester.as_deref(), &arguments.device)?;
    for (device, bed) in devices::open(&names, &devices::agents(arguments.deploy)?)? {
        if let Ok(mut bed) = bed {
            results.push(tried(&device.name, &mut *bed, options));
        }
    }
    let document = ConformDocument {
        schema: CONFORM_SCHEMA,
        program: format!("niclab {}", env!("CARGO_PKG_VERSION")),
        started,
        seed: options.seed,
        devices: results,
    };
    show(&document, arguments.json)?;
    if let Some(path) = &arguments.output {
        write_report(path, &document)?;
    }
    let wrong: Vec<String> = document.devices.iter().filter_map(accusation).collect();
    let untried: Vec<String> = document.devices.iter().filter_map(untried).collect();
    match (wrong.is_empty(), untried.is_empty()) {
        (false, _) => Err(Failure::NonConforming { devices: wrong }),
        (true, false) => Err(Failure::Untried { devices: untried }),
        (true, true) => Ok(()),
    }
}

/// Prints a result: its matrices, or JSON.
pub fn show(document: &ConformDocument, is_json: bool) -> Result<(), Failure> {
    match is_json {
        true => json(document),
        false => Ok(page::print(document, tables::width(), &mut stdout())?),
    }
}

/// Writes the report of a result again.
pub fn write_report(path: &Path, document: &ConformDocument) -> Result<(), Failure> {
    document.write(path, &niclab_report::conform_html(document)?)?;
    say(&format!("report: {}", path.join(REPORT).display()));
    Ok(())
}

/// How a device failed, or why nothing is known to be right of it; `None` where something is.
fn untried(device: &DeviceConformance) -> Option<String> {
    if let Some(why) = &device.failed {
        return Some(format!("{}: {}", one_line(&device.device), one_line(why)));
    }
    let has_right = [CellState::Right, CellState::Late].iter().any(|of| device.count(*of) > 0);
    let why = device.not_tried.clone().unwrap_or_else(|| "no cell is right".to_owned());
    (!has_right).then(|| format!("{}: {why}", one_line(&device.device)))
}

/// What a device has wrong, in a sentence.
fn accusation(device: &DeviceConformance) -> Option<String> {
    let wrong = device.count(CellState::Wrong);
    let faults = device.faults.len();
    let name = one_line(&device.device);
    (wrong > 0).then(|| {
        let all = plural(device.cells.len(), "cell", "cells");
        let are = if wrong == 1 { "is" } else { "are" };
        let faults = plural(faults, "fault", "faults");
        format!("{name}: {wrong} of {all} {are} accepted and wrong, by {faults}")
    })
}

fn options(arguments: &ConformArguments) -> ConformOptions {
    let mut options = ConformOptions { seed: arguments.seed, ..ConformOptions::default() };
    if let Some(items) = &arguments.items {
        options.items.clear();
        for item in items {
            if !options.items.contains(item) {
                options.items.push(*item);
            }
        }
    }
    options
}

/// `1 case`, `3 cases`.
fn cases(count: usize) -> String {
    plural(count, "case", "cases")
}

/// A device with its bar on the screen.
fn tried(name: &str, bed: &mut dyn Testbed, options: &ConformOptions) -> DeviceConformance {
    let bar = if is_terminal() { ProgressBar::new(1) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {wide_msg}") {
        bar.set_style(style);
    }
    let name = one_line(name);
    let mut told = Instant::now();
    let result = conform(bed, options, &mut |progress| {
        if !is_terminal() && told.elapsed() >= TOLD_EVERY {
            told = Instant::now();
            let (done, all) = (progress.done, plural(progress.all, "cell", "cells"));
            say(&format!("{name}: {done} of {all}, {} wrong", cases(progress.wrong)));
        }
        bar.set_length(progress.all as u64);
        bar.set_position(progress.done as u64);
        bar.set_message(format!("{name}: {}; {} wrong", progress.row, cases(progress.wrong)));
    });
    bar.finish_and_clear();
    result
}
