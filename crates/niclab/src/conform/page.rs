//! The matrix of a device in the terminal: a character a cell, and a paragraph a fault.

use std::io::{self, Write};

use niclab_result::conform::{
    CellState, CellWords, ConformCell, ConformDocument, ConformFault, ConformPart,
    DeviceConformance, cell_name, distinct,
};

use crate::output::one_line;
use crate::rules::counted;
use crate::tables::wrapped;

/// Longest name of a row.
const ROW_WIDTH: usize = 14;

/// Frames longer than this are cut in the terminal, bytes.
const FRAME_LEN_MAX: usize = 64;

/// Rows of the same words that are named.
const PLACES_MAX: usize = 6;

/// Prints all devices.
pub fn print(document: &ConformDocument, width: usize, out: &mut impl Write) -> io::Result<()> {
    for (at, device) in document.devices.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        MatrixPage { device, width }.print(document.seed, out)?;
    }
    Ok(())
}

struct MatrixPage<'d> {
    device: &'d DeviceConformance,
    width: usize,
}

impl MatrixPage<'_> {
    fn line(&self, out: &mut impl Write, text: &str) -> io::Result<()> {
        writeln!(out, "{}", wrapped(text, self.width))
    }

    fn print(&self, seed: u64, out: &mut impl Write) -> io::Result<()> {
        let device = self.device;
        let name = one_line(&device.device);
        if let Some(why) = &device.not_tried {
            return self.line(out, &format!("{name}: {why}"));
        }
        let facts = device
            .facts
            .iter()
            .filter(|(name, _)| ["driver", "firmware", "port under test"].contains(&name.as_str()));
        let facts = facts.map(|(name, value)| format!("; {name} {value}")).collect::<String>();
        self.line(out, &format!("{name}{facts}"))?;
        self.line(
            out,
            &format!(
                "{}, {}, {}, seed {seed}, {:.1} s",
                counted(device.cases, "case", "cases"),
                counted(device.frames, "frame", "frames"),
                counted(device.queues.into(), "queue", "queues"),
                device.seconds
            ),
        )?;
        if let Some(why) = &device.failed {
            self.line(out, &format!("the device failed; the rest was not tried: {why}"))?;
        }
        self.patterns(out)?;
        self.actions(out)?;
        self.behaviours(out)?;
        self.limits(out)?;
        self.words(out)?;
        device.faults.iter().try_for_each(|fault| self.fault(fault, out))?;
        writeln!(out)?;
        self.legend(out)
    }

    fn cells(&self, part: ConformPart) -> Vec<&ConformCell> {
        self.device.cells.iter().filter(|cell| cell.part == part).collect()
    }

    fn patterns(&self, out: &mut impl Write) -> io::Result<()> {
        let cells = self.cells(ConformPart::Patterns);
        let columns = distinct(cells.iter().map(|cell| &cell.column[..]));
        if columns.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let heads: String = columns.iter().map(|column| format!(" {column:>6}")).collect();
        writeln!(out, "{:ROW_WIDTH$}{heads}", "items by masks")?;
        for row in distinct(cells.iter().map(|cell| &cell.row[..])) {
            let states: String = columns
                .iter()
                .map(|column| format!(" {:>6}", letter(&cells, row, column)))
                .collect();
            writeln!(out, "{row:ROW_WIDTH$}{}", states.trim_end())?;
        }
        Ok(())
    }

    /// A column is a letter, whose action stands below the matrix.
    fn actions(&self, out: &mut impl Write) -> io::Result<()> {
        let cells = self.cells(ConformPart::Actions);
        let mut columns = distinct(cells.iter().map(|cell| &cell.column[..]));
        columns.sort_by_key(|column| place(column));
        if columns.is_empty() {
            return Ok(());
        }
        let names: Vec<char> = ('a'..='z').chain('A'..='Z').take(columns.len()).collect();
        writeln!(out)?;
        let heads: String = names.iter().collect();
        writeln!(out, "{:ROW_WIDTH$} {heads}", "by actions")?;
        for row in distinct(cells.iter().map(|cell| &cell.row[..])) {
            let states: String = columns.iter().map(|column| letter(&cells, row, column)).collect();
            writeln!(out, "{row:ROW_WIDTH$} {}", states.trim_end())?;
        }
        let pairs: Vec<String> =
            names.iter().zip(&columns).map(|(name, column)| format!("{name} {column}")).collect();
        self.line(out, &format!("  {}", pairs.join("  ").replace("  ", ", ")))
    }

    fn behaviours(&self, out: &mut impl Write) -> io::Result<()> {
        let cells = self.cells(ConformPart::Behaviours);
        if cells.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nrules together, and in time")?;
        for cell in cells {
            writeln!(out, "{} {}{}", cell.state.letter(), cell.row, late(cell))?;
        }
        Ok(())
    }

    fn limits(&self, out: &mut impl Write) -> io::Result<()> {
        if self.device.limits.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nlimits")?;
        self.device.limits.iter().try_for_each(|limit| self.line(out, &limit.to_string()))
    }

    /// The words of cells that are not right, each once with its cells.
    fn words(&self, out: &mut impl Write) -> io::Result<()> {
        let said = self.device.words();
        if said.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        for CellWords { state, words, cells } in said {
            let text = format!("{}: {}: {words}", state.words(), listed(&cells));
            self.line(out, &text)?;
        }
        Ok(())
    }

    fn fault(&self, fault: &ConformFault, out: &mut impl Write) -> io::Result<()> {
        let places: Vec<String> =
            fault.cells.iter().map(|(row, column)| cell_name(row, column)).collect();
        writeln!(out)?;
        self.line(out, &format!("X {} ({})", fault.name, listed(&places)))?;
        fault.steps.iter().try_for_each(|step| self.line(out, &format!("  {step}")))?;
        if let Some(frame) = &fault.frame {
            let shown = frame.get(..2 * FRAME_LEN_MAX).unwrap_or(frame);
            let more = if shown.len() < frame.len() { "..." } else { "" };
            writeln!(out, "  frame {shown}{more}")?;
        }
        self.line(out, &format!("  {}", fault.difference))
    }

    fn legend(&self, out: &mut impl Write) -> io::Result<()> {
        let there = CellState::ALL.into_iter().filter(|state| self.device.count(*state) > 0);
        let words = there.map(|state| {
            format!("{} {} ({})", state.letter(), state.words(), self.device.count(state))
        });
        self.line(out, &words.collect::<Vec<_>>().join(", "))
    }
}

/// The place of an action among the columns.
fn place(column: &str) -> usize {
    niclab_conform::COLUMNS.iter().position(|known| *known == column).unwrap_or(usize::MAX)
}

fn letter(cells: &[&ConformCell], row: &str, column: &str) -> char {
    let cell = cells.iter().find(|cell| cell.row == row && cell.column == column);
    cell.map_or(' ', |cell| cell.state.letter())
}

fn listed(places: &[String]) -> String {
    let shown = places.iter().take(PLACES_MAX).cloned().collect::<Vec<_>>().join(", ");
    match places.len().saturating_sub(PLACES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn late(cell: &ConformCell) -> String {
    cell.late_ns.map_or(String::new(), |ns| format!(" ({:.1} ms late)", ns as f64 / 1e6))
}
