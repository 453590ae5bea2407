//! Writes a report of made-up numbers: `cargo run --example sample_report -- report.html`.

#[path = "../tests/sample/mod.rs"]
mod sample;

use std::error::Error;

use niclab_report::ReportOptions;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: sample_report PATH")?;
    let options = ReportOptions {
        title: "Sample report (synthetic numbers)".to_owned(),
        ..ReportOptions::default()
    };
    let (summary, environment) = (sample::summary(), sample::environment());
    let page = niclab_report::html(&summary, &environment, sample::RUN_TOML, &options)?;
    std::fs::write(&path, page)?;
    Ok(())
}
