//! The page of a [`ConformDocument`]: matrices, and the smallest case of each fault.

use askama::Template;
use niclab_result::conform::{
    CellState, CellWords, ConformCell, ConformDocument, ConformFault, ConformLimit, ConformPart,
    DeviceConformance, cell_name, distinct,
};

use crate::ReportError;
use crate::words::count;

/// The whole page.
#[derive(Template)]
#[template(path = "conform.html")]
struct ConformPage<'a> {
    program: &'a str,
    started: &'a str,
    seed: u64,
    devices: Vec<DeviceView<'a>>,
    legend: Vec<(char, &'static str, &'static str)>,
    style: &'static str,
}

/// A device.
struct DeviceView<'a> {
    device: &'a DeviceConformance,
    anchor: String,
    lead: String,
    matrices: Vec<MatrixView<'a>>,
    limits: Vec<String>,
    said: Vec<SaidView<'a>>,
    faults: Vec<FaultView<'a>>,
}

/// A part of the matrix.
struct MatrixView<'a> {
    title: &'static str,
    columns: Vec<&'a str>,
    rows: Vec<(&'a str, Vec<CellView>)>,
}

/// A cell: nothing where the device was not asked for it.
struct CellView {
    letter: char,
    class: &'static str,
    title: String,
}

/// Words of a driver, and the cells that they are about.
struct SaidView<'a> {
    state: &'static str,
    words: &'a str,
    cells: String,
}

/// A fault.
struct FaultView<'a> {
    fault: &'a ConformFault,
    cells: String,
    steps: String,
}

/// The report of `niclab conform` as one HTML file.
///
/// # Errors
/// [`ReportError::Template`].
pub fn conform_html(document: &ConformDocument) -> Result<String, ReportError> {
    let devices = document.devices.iter().enumerate();
    let page = ConformPage {
        program: &document.program,
        started: &document.started,
        seed: document.seed,
        devices: devices.map(|(at, device)| view(at, device)).collect(),
        legend: CellState::ALL.map(|state| (state.letter(), class(state), state.words())).to_vec(),
        style: include_str!("../templates/style.css"),
    };
    Ok(page.render()?)
}

fn view(at: usize, device: &DeviceConformance) -> DeviceView<'_> {
    let DeviceConformance { cases, frames, queues, seconds, .. } = device;
    let wrong = device.count(CellState::Wrong);
    let right = device.count(CellState::Right);
    let all = device.cells.len();
    let failed = device.failed.as_ref().map_or(String::new(), |why| {
        format!(" The device failed, and the rest was not tried: {why}.")
    });
    DeviceView {
        device,
        anchor: format!("device-{at}"),
        lead: format!(
            "{right} of {} right, {wrong} accepted and wrong. {}, {}, {}, {seconds:.1} s.{failed}",
            count(all, "cell"),
            count(*cases as usize, "case"),
            count(*frames as usize, "frame"),
            count(usize::from(*queues), "queue")
        ),
        matrices: vec![
            matrix(device, ConformPart::Patterns, "Items by the form of their masks"),
            matrix(device, ConformPart::Actions, "Items by actions"),
            matrix(device, ConformPart::Behaviours, "Rules together, and in time"),
        ],
        limits: device.limits.iter().map(ConformLimit::to_string).collect(),
        said: said(device),
        faults: device.faults.iter().map(fault).collect(),
    }
}

fn matrix<'a>(
    device: &'a DeviceConformance,
    part: ConformPart,
    title: &'static str,
) -> MatrixView<'a> {
    let cells: Vec<&ConformCell> = device.cells.iter().filter(|cell| cell.part == part).collect();
    let columns = distinct(cells.iter().map(|cell| &cell.column[..]));
    let rows = distinct(cells.iter().map(|cell| &cell.row[..]));
    let of_row = |row: &'a str| {
        let of =
            |column: &&str| cells.iter().find(|cell| cell.row == row && cell.column == *column);
        (row, columns.iter().map(|column| cell_view(of(column).copied())).collect())
    };
    let rows = rows.into_iter().map(of_row).collect();
    MatrixView { title, columns, rows }
}

fn cell_view(cell: Option<&ConformCell>) -> CellView {
    let Some(cell) = cell else {
        return CellView { letter: ' ', class: "none", title: String::new() };
    };
    let words = cell.words.as_ref().map_or(String::new(), |words| format!(": {words}"));
    CellView {
        letter: cell.state.letter(),
        class: class(cell.state),
        title: format!("{}{words}", cell.state.words()),
    }
}

fn class(state: CellState) -> &'static str {
    match state {
        CellState::Right => "right",
        CellState::Wrong => "wrong",
        CellState::Late | CellState::Unsteady => "late",
        CellState::NotTried | CellState::Unsaid | CellState::Refused | CellState::PartlyRefused => {
            "refused"
        }
    }
}

fn said(device: &DeviceConformance) -> Vec<SaidView<'_>> {
    let view = |CellWords { state, words, cells }| SaidView {
        state: state.words(),
        words,
        cells: cells.join(", "),
    };
    device.words().into_iter().map(view).collect()
}

fn fault(fault: &ConformFault) -> FaultView<'_> {
    let cells: Vec<String> =
        fault.cells.iter().map(|(row, column)| cell_name(row, column)).collect();
    FaultView { fault, cells: cells.join(", "), steps: fault.steps.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_cells_and_faults_and_escapes_the_words_of_drivers() {
        let cell = |column: &str, state, words: Option<&str>| ConformCell {
            part: ConformPart::Patterns,
            row: "ipv4".to_owned(),
            column: column.to_owned(),
            state,
            cases: 1,
            words: words.map(str::to_owned),
            late_ns: None,
        };
        let cells = vec![
            cell("whole", CellState::Right, None),
            cell("bits", CellState::Wrong, Some("ignores the mask of ipv4 src")),
            cell("range", CellState::Refused, Some("<script>alert(1)</script>")),
        ];
        let fault = ConformFault {
            name: "ignores the mask of ipv4 src".to_owned(),
            cells: vec![("ipv4".to_owned(), "bits".to_owned())],
            steps: vec!["flow create 0 group 0".to_owned()],
            frame: Some("0200".to_owned()),
            difference: "the frame has to go to queue 1; it went to queue 0".to_owned(),
        };
        let device = DeviceConformance {
            device: "dpdk:a".to_owned(),
            cells,
            faults: vec![fault],
            ..DeviceConformance::default()
        };
        let document = ConformDocument {
            schema: 1,
            program: "niclab 0.1.0".to_owned(),
            started: "2026-01-01".to_owned(),
            seed: 7,
            devices: vec![device],
        };
        let page = conform_html(&document).unwrap();
        assert!(page.contains("1 of 3 cells right, 1 accepted and wrong"), "{page}");
        assert!(page.contains("ignores the mask of ipv4 src"));
        assert!(!page.contains("<script>"), "words of a driver are no script");
        assert!(!page.contains("http://") && !page.contains("src=\"http"), "it needs no network");
    }
}
