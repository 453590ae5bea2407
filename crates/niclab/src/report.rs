//! `niclab report`, and the end of every run: samples to summary to page.

use std::io::Write;
use std::path::{Path, PathBuf};

use niclab_lab::run::Run;
use niclab_lab::summary::summarize;
use niclab_report::ReportOptions;
use niclab_result::conform::ConformDocument;
use niclab_result::{REPORT, ReportWriter, Stored, Summary};

use crate::baseline::EarlierRun;
use crate::failure::Failure;
use crate::output::{one_line, quoted, stdout};
use crate::rules::plural;
use crate::{baseline, conform, stored, tables, trust};

/// Writes the report of a finished or unfinished run anew, compared with the run of `typed`; or
/// that of `niclab conform`, which is compared with nothing.
pub fn run(directory: &Path, typed: Option<&Path>) -> Result<(), Failure> {
    if let Some(document) = ConformDocument::read(directory)? {
        return match typed {
            None => conform::write_report(directory, &document),
            Some(_) => Err(Failure::OfRuns { option: "--baseline" }),
        };
    }
    let writer = ReportWriter::open(directory)?;
    let read = ReadResult::open(directory)?;
    let earlier = baseline::of_report(directory, &read.run, typed)?;
    let summary = read.write(&writer, earlier.as_ref())?;
    announce(&summary, directory)
}

/// Computes the summary of a result directory from its samples.
pub fn summary(stored: Stored) -> Result<Summary, Failure> {
    ReadResult::of(stored)?.summary()
}

/// A result directory that was read.
struct ReadResult {
    stored: Stored,
    run: Run,
    /// The text of the run.
    toml: String,
}

impl ReadResult {
    fn open(path: &Path) -> Result<ReadResult, Failure> {
        ReadResult::of(stored::open(path)?)
    }

    fn of(stored: Stored) -> Result<ReadResult, Failure> {
        let toml = stored.run_toml()?;
        let run = stored::run(&stored.path, &toml)?;
        Ok(ReadResult { stored, run, toml })
    }

    fn summary(&self) -> Result<Summary, Failure> {
        let latencies = stored::latencies(&self.stored)?;
        Ok(summarize(&self.run, &self.stored.samples, &latencies))
    }

    /// Writes summary and page, compared with an `earlier` run.
    fn write(
        &self,
        writer: &ReportWriter,
        earlier: Option<&EarlierRun>,
    ) -> Result<Summary, Failure> {
        let mut summary = self.summary()?;
        if let Some(earlier) = earlier {
            earlier.add_to(&mut summary, &self.run, &self.stored)?;
        }
        let options = ReportOptions { title: title(&summary), command: command(&self.run) };
        let machine = self.stored.environment()?.unwrap_or_default();
        let page = niclab_report::html(&summary, &machine, &self.toml, &options)?;
        writer.write_summary(&summary)?;
        writer.write_report(&page)?;
        Ok(summary)
    }
}

/// Writes summary and page into a result directory, compared with an `earlier` run.
pub fn write(path: &Path, earlier: Option<&EarlierRun>) -> Result<Summary, Failure> {
    // A run that writes there keeps everybody else out.
    write_by(&ReportWriter::open(path)?, path, earlier)
}

/// [`write()`] by a writer of this directory.
pub fn write_by(
    writer: &ReportWriter,
    path: &Path,
    earlier: Option<&EarlierRun>,
) -> Result<Summary, Failure> {
    ReadResult::open(path)?.write(writer, earlier)
}

/// The command that repeats the run.
fn command(run: &Run) -> String {
    match run.parts.is_empty() {
        true => trust::command(Path::new("DIRECTORY"), run),
        false => {
            let names: Vec<String> = run.parts.iter().map(|part| quoted(&part.name)).collect();
            format!("niclab merge {} --output DIRECTORY", names.join(" "))
        }
    }
}

/// Most experiments that a title names.
const TITLE_NAMES_MAX: usize = 4;

fn title(summary: &Summary) -> String {
    let names: Vec<&str> = summary.experiments.iter().map(|e| e.name.as_str()).collect();
    match names.len() {
        ..=TITLE_NAMES_MAX => format!("niclab: {}", names.join(", ")),
        count => format!("niclab: {count} experiments"),
    }
}

/// Warnings that are printed when a run ends, at most.
const WARNINGS_MAX: usize = 3;

/// Prints the worst warnings and the first findings, and where the rest is.
pub fn announce(summary: &Summary, directory: &Path) -> Result<(), Failure> {
    let mut out = stdout();
    let width = tables::width();
    for warning in summary.top_warnings(WARNINGS_MAX) {
        writeln!(out, "{}", tables::wrapped(&format!("warning: {warning}"), width))?;
    }
    if let Some(of) = &summary.baseline {
        writeln!(out, "{}", one_line(&format!("since {}, started {}:", of.directory, of.started)))?;
        let caution = Some(&of.caution).filter(|caution| !caution.is_empty());
        for sentence in of.sentences.iter().chain(caution) {
            writeln!(out, "{}", tables::wrapped(&format!("- {sentence}"), width))?;
        }
    }
    let top = summary.top_findings();
    if summary.baseline.is_some() && !top.is_empty() {
        writeln!(out, "findings:")?;
    }
    for finding in &top {
        writeln!(out, "{}", tables::wrapped(&format!("- {}", finding.sentence), width))?;
    }
    let more = [
        (summary.warnings.len().saturating_sub(WARNINGS_MAX), "warning", "warnings"),
        (summary.findings.len() - top.len(), "finding", "findings"),
    ];
    let more = more.into_iter().filter(|(count, _, _)| *count > 0);
    let more: Vec<String> = more.map(|(count, one, many)| plural(count, one, many)).collect();
    if !more.is_empty() {
        let show = format!("niclab show {}", quoted(&directory.to_string_lossy()));
        writeln!(out, "{} more: {show}", more.join(" and "))?;
    }
    let report: PathBuf = directory.join(REPORT);
    let report = report.canonicalize().unwrap_or(report);
    writeln!(out, "report: {}", report.display())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_a_shell() {
        let words = ["results/a-1", "", "a b", "x; rm -r ~", "it's", "$(x)"].map(quoted);
        let expected = ["results/a-1", "''", "'a b'", "'x; rm -r ~'", r"'it'\''s'", "'$(x)'"];
        assert_eq!(words, expected);
    }
}
