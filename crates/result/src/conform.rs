//! The document of `niclab conform`: what devices did with rules, cell by cell.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::directory::make_directory;
use crate::error::ResultError;
use crate::folder::Folder;
use crate::{CONFORM, REPORT};

/// The version of a [`ConformDocument`]; a reader refuses newer ones.
pub const CONFORM_SCHEMA: u32 = 1;

/// The content of `conform.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConformDocument {
    /// [`CONFORM_SCHEMA`] of the writer.
    pub schema: u32,
    /// The program that wrote it, and its version.
    pub program: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// The seed of rules and frames.
    pub seed: u64,
    /// In the order of the command line.
    pub devices: Vec<DeviceConformance>,
}

/// Longest `conform.json`: a device takes some hundred kilobytes.
const CONFORM_LEN_MAX: u64 = 64 << 20;

impl ConformDocument {
    /// Makes the directory for one, before anything is tried.
    ///
    /// # Errors
    /// [`ResultError::Exists`] and its like for a path that is taken; [`ResultError::NoRoom`],
    /// [`ResultError::ReadOnly`], [`ResultError::Disk`].
    pub fn make_place(path: &Path) -> Result<(), ResultError> {
        make_directory(path)
    }

    /// Writes it and its report into a directory ([`ConformDocument::make_place`]).
    ///
    /// # Errors
    /// [`ResultError::Absent`] and its like for the directory; [`ResultError::Full`],
    /// [`ResultError::ReadOnly`], [`ResultError::Disk`].
    pub fn write(&self, path: &Path, report: &str) -> Result<(), ResultError> {
        let folder = Folder::open(path)?;
        let damaged = |reason: serde_json::Error| ResultError::Damaged {
            path: folder.place(CONFORM),
            line: 0,
            reason: reason.to_string(),
        };
        let text = serde_json::to_string_pretty(self).map_err(damaged)?;
        folder.write_whole(CONFORM, text.as_bytes(), CONFORM_LEN_MAX)?;
        folder.write_whole(REPORT, report.as_bytes(), u64::MAX)
    }

    /// Reads that of a directory; none where it has none.
    ///
    /// # Errors
    /// [`ResultError::Absent`] and its like for the directory; [`ResultError::OtherSchema`] for a
    /// document of a later niclab; [`ResultError::Damaged`], [`ResultError::TooLong`],
    /// [`ResultError::NotFile`].
    pub fn read(path: &Path) -> Result<Option<ConformDocument>, ResultError> {
        let folder = Folder::open(path)?;
        let Some(text) = folder.text(CONFORM, CONFORM_LEN_MAX)? else { return Ok(None) };
        let damaged = |error: serde_json::Error| ResultError::Damaged {
            path: folder.place(CONFORM),
            line: error.line(),
            reason: error.to_string(),
        };
        let head: ConformHead = serde_json::from_str(&text).map_err(damaged)?;
        if head.schema > CONFORM_SCHEMA {
            let ConformHead { schema: found, program } = head;
            return Err(ResultError::OtherSchema { path: folder.place(CONFORM), found, program });
        }
        serde_json::from_str(&text).map(Some).map_err(damaged)
    }
}

/// What every version of the document has.
#[derive(Deserialize)]
struct ConformHead {
    schema: u32,
    #[serde(default)]
    program: String,
}

/// What one device did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceConformance {
    /// Its name, as it was asked for.
    pub device: String,
    /// Driver, firmware and the like: name and value.
    pub facts: Vec<(String, String)>,
    /// Why nothing could be tried, if so; everything else is empty then.
    pub not_tried: Option<String>,
    /// How the device failed, if it did: what was not tried until then is missing.
    #[serde(default)]
    pub failed: Option<String>,
    /// Queues that rules could name.
    pub queues: u16,
    /// Cases that were carried out, without repetitions.
    pub cases: u64,
    /// Frames of these cases.
    pub frames: u64,
    /// Seconds that it took.
    pub seconds: f64,
    /// In the order of the matrix.
    pub cells: Vec<ConformCell>,
    /// In the order in which they were found.
    pub faults: Vec<ConformFault>,
    /// Numbers that were found out.
    pub limits: Vec<ConformLimit>,
}

/// The part of the matrix that a cell belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConformPart {
    /// Items by the forms of their masks.
    Patterns,
    /// Items by actions.
    Actions,
    /// Rules beside each other, and rules in time.
    Behaviours,
}

/// A cell of the matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConformCell {
    /// Its part.
    pub part: ConformPart,
    /// Its row: an item, or a behaviour.
    pub row: String,
    /// Its column: a form of mask, an action, or nothing.
    pub column: String,
    /// Its state.
    pub state: CellState,
    /// Cases that it consists of.
    pub cases: u32,
    /// The driver's words, or the reason of its state, if it has one.
    pub words: Option<String>,
    /// The longest time until an effect, where it was late, nanoseconds.
    pub late_ns: Option<u64>,
}

/// The state of a cell: that of its worst case. The worst comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// Every frame was treated as rules mean it.
    Right,
    /// niclab could not try it.
    NotTried,
    /// niclab cannot ask this device for it.
    Unsaid,
    /// The device refuses it.
    Refused,
    /// The device refuses some cases; the others are right.
    PartlyRefused,
    /// Right, but some time after the call.
    Late,
    /// Some attempts were right, others wrong.
    Unsteady,
    /// The device accepts the rules and does something else, in every attempt.
    Wrong,
}

impl CellState {
    /// All of them, in their order.
    pub const ALL: [CellState; 8] = [
        CellState::Right,
        CellState::NotTried,
        CellState::Unsaid,
        CellState::Refused,
        CellState::PartlyRefused,
        CellState::Late,
        CellState::Unsteady,
        CellState::Wrong,
    ];

    /// One character, as the matrix shows it.
    pub fn letter(self) -> char {
        match self {
            CellState::Right => '.',
            CellState::NotTried => '/',
            CellState::Unsaid => 'n',
            CellState::Refused => '-',
            CellState::PartlyRefused => 'o',
            CellState::Late => 't',
            CellState::Unsteady => '?',
            CellState::Wrong => 'X',
        }
    }

    /// Its meaning in words.
    pub fn words(self) -> &'static str {
        match self {
            CellState::Right => "right",
            CellState::NotTried => "not tried",
            CellState::Unsaid => "niclab cannot ask for it",
            CellState::Refused => "refused",
            CellState::PartlyRefused => "partly refused",
            CellState::Late => "takes effect late",
            CellState::Unsteady => "wrong in some attempts only",
            CellState::Wrong => "accepted and wrong",
        }
    }
}

/// A fault, with the smallest case that shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConformFault {
    /// What the device does, in words.
    pub name: String,
    /// The cells that show it: row and column.
    pub cells: Vec<(String, String)>,
    /// The steps of the smallest case, one a line; rules in testpmd's syntax.
    pub steps: Vec<String>,
    /// The frame that differs, in hexadecimal, without FCS.
    pub frame: Option<String>,
    /// What had to happen, and what happened.
    pub difference: String,
}

/// A number that was found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConformLimit {
    /// Of what.
    pub name: String,
    /// The greatest value that was accepted; none if none was.
    pub value: Option<u64>,
    /// Greater ones were not tried.
    pub at_least: bool,
    /// The driver's words against the next one.
    pub words: Option<String>,
}

/// A cell that is not the same in two results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellChange {
    /// The part, the row and the column.
    pub part: ConformPart,
    /// Its row.
    pub row: String,
    /// Its column.
    pub column: String,
    /// Its state in the baseline; none where the baseline has no such cell.
    pub before: Option<CellState>,
    /// Its state in the other result.
    pub after: Option<CellState>,
    /// The words of the other result, or of the baseline where that has none.
    pub words: Option<String>,
}

impl CellChange {
    /// Whether it is worse than it was: wrong, unsteady, late or refused where it was better, or
    /// not tried any more where it was right.
    pub fn is_worse(&self) -> bool {
        let (Some(before), Some(after)) = (self.before, self.after) else { return false };
        let was_right = matches!(before, CellState::Right | CellState::Late);
        after > before && (after >= CellState::Refused || was_right)
    }
}

/// A limit that is not the same in two results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitChange {
    /// Of what.
    pub name: String,
    /// The greatest value that the baseline accepted; none if none was.
    pub before: Option<u64>,
    /// The greatest value that the other accepted.
    pub after: Option<u64>,
}

impl LimitChange {
    /// Whether the device accepts less than it did.
    pub fn is_worse(&self) -> bool {
        self.after < self.before
    }
}

/// The name of a cell: its row, and its column where it has one.
pub fn cell_name(row: &str, column: &str) -> String {
    if column.is_empty() { row.to_owned() } else { format!("{row}/{column}") }
}

/// Names in the order of their first use, each once.
pub fn distinct<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut all: Vec<&str> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// `rules of ipv4 src: at least 4096`; what the device says to more stands behind `then`.
impl fmt::Display for ConformLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        match (self.value, self.at_least) {
            (None, _) => f.write_str("none")?,
            (Some(value), true) => write!(f, "at least {value}")?,
            (Some(value), false) => write!(f, "{value}")?,
        }
        self.words.as_ref().map_or(Ok(()), |words| write!(f, "; then: {words}"))
    }
}

/// Words of a driver or of niclab, and the cells that they are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellWords<'a> {
    /// The state of these cells.
    pub state: CellState,
    /// The words.
    pub words: &'a str,
    /// The names of the cells.
    pub cells: Vec<String>,
}

impl DeviceConformance {
    /// The words of cells that are not wrong, each once, the worst state first. Faults have the
    /// words of those that are.
    pub fn words(&self) -> Vec<CellWords<'_>> {
        let mut all: Vec<CellWords<'_>> = Vec::new();
        for cell in self.cells.iter().filter(|cell| cell.state != CellState::Wrong) {
            let Some(words) = cell.words.as_deref() else { continue };
            let (state, name) = (cell.state, cell_name(&cell.row, &cell.column));
            match all.iter_mut().find(|known| known.state == state && known.words == words) {
                Some(known) => known.cells.push(name),
                None => all.push(CellWords { state, words, cells: vec![name] }),
            }
        }
        all.sort_by_key(|words| std::cmp::Reverse(words.state));
        all
    }

    /// How many cells have a state.
    pub fn count(&self, state: CellState) -> usize {
        self.cells.iter().filter(|cell| cell.state == state).count()
    }

    /// The limits that are not the same in another result; what one of them did not find is left
    /// out.
    pub fn limit_changes(&self, after: &DeviceConformance) -> Vec<LimitChange> {
        let of_both = self.limits.iter().filter_map(|old| {
            let new = after.limits.iter().find(|new| new.name == old.name)?;
            let (name, before, after) = (old.name.clone(), old.value, new.value);
            (before != after).then_some(LimitChange { name, before, after })
        });
        of_both.collect()
    }

    /// Rows that another result does not have: items that were tried here alone.
    pub fn own_rows<'a>(&'a self, other: &DeviceConformance) -> Vec<&'a str> {
        let is_own = |cell: &&ConformCell| other.cells.iter().all(|one| one.row != cell.row);
        distinct(self.cells.iter().filter(is_own).map(|cell| &cell.row[..]))
    }

    /// The cells that are not the same in another result, the worst change first: a cell that
    /// became wrong, then by how bad it is now and how good it was.
    pub fn changes(&self, after: &DeviceConformance) -> Vec<CellChange> {
        let place = |cell: &ConformCell| (cell.part, cell.row.clone(), cell.column.clone());
        let mut changes = Vec::new();
        for old in &self.cells {
            let new = after.cells.iter().find(|cell| place(cell) == place(old));
            if new.is_none_or(|new| new.state != old.state) {
                changes.push(change(Some(old), new));
            }
        }
        for new in &after.cells {
            if self.cells.iter().all(|cell| place(cell) != place(new)) {
                changes.push(change(None, Some(new)));
            }
        }
        changes.retain(|change| change.before != change.after);
        changes.sort_by_key(|change| {
            (!change.is_worse(), std::cmp::Reverse(change.after), change.before)
        });
        changes
    }
}

fn change(old: Option<&ConformCell>, new: Option<&ConformCell>) -> CellChange {
    let words = |cell: Option<&ConformCell>| cell.and_then(|cell| cell.words.clone());
    // One of them is there.
    let (part, row, column) = match (old, new) {
        (Some(cell), _) | (None, Some(cell)) => (cell.part, &cell.row[..], &cell.column[..]),
        (None, None) => (ConformPart::Patterns, "", ""),
    };
    CellChange {
        part,
        row: row.to_owned(),
        column: column.to_owned(),
        before: old.map(|cell| cell.state),
        after: new.map(|cell| cell.state),
        words: words(new).or_else(|| words(old)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn device(cells: &[(&str, CellState)]) -> DeviceConformance {
        let cell = |(row, state): &(&str, CellState)| ConformCell {
            part: ConformPart::Patterns,
            row: (*row).to_owned(),
            column: "whole".to_owned(),
            state: *state,
            cases: 1,
            words: None,
            late_ns: None,
        };
        let cells = cells.iter().map(cell).collect();
        DeviceConformance { cells, ..DeviceConformance::default() }
    }

    #[test]
    fn the_worst_change_comes_first_and_cells_that_stay_are_left_out() {
        use CellState::{Refused, Right, Wrong};
        let before = device(&[("eth", Right), ("ipv4", Wrong), ("udp", Right), ("tcp", Right)]);
        let after = device(&[("eth", Right), ("ipv4", Right), ("udp", Refused), ("tcp", Wrong)]);
        let changes = before.changes(&after);
        let rows: Vec<&str> = changes.iter().map(|change| change.row.as_str()).collect();
        assert_eq!(rows, ["tcp", "udp", "ipv4"]);
        let worse: Vec<bool> = changes.iter().map(CellChange::is_worse).collect();
        assert_eq!(worse, [true, true, false]);
        assert_eq!(before.changes(&before), []);
    }

    #[test]
    fn cells_that_only_one_side_has_are_changes_but_not_for_the_worse() {
        let before = device(&[("eth", CellState::Right)]);
        let after = device(&[("udp", CellState::Wrong)]);
        let changes = before.changes(&after);
        assert_eq!(changes.len(), 2);
        assert!(changes.iter().all(|change| !change.is_worse()));
    }

    #[test]
    fn limits_that_changed_and_rows_of_one_side_are_named() {
        let limit = |name: &str, value| ConformLimit {
            name: name.to_owned(),
            value,
            at_least: false,
            words: None,
        };
        let mut before = device(&[("eth", CellState::Right), ("udp", CellState::Right)]);
        before.limits = vec![limit("priority", Some(9)), limit("group", Some(3))];
        let mut after = device(&[("udp", CellState::Right)]);
        after.limits = vec![limit("priority", Some(7)), limit("group", Some(3))];
        let change = LimitChange { name: "priority".to_owned(), before: Some(9), after: Some(7) };
        assert_eq!(before.limit_changes(&after), std::slice::from_ref(&change));
        assert!(change.is_worse() && !after.limit_changes(&before)[0].is_worse());
        assert!(LimitChange { after: None, ..change }.is_worse());
        assert_eq!(before.own_rows(&after), ["eth"]);
        assert_eq!(after.own_rows(&before), [""; 0]);
    }

    #[test]
    fn a_document_is_read_as_it_was_written_and_a_later_one_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        let document = ConformDocument {
            schema: CONFORM_SCHEMA,
            program: "niclab 0.1.0".to_owned(),
            started: "2026-01-01T00:00:00Z".to_owned(),
            seed: 1,
            devices: vec![device(&[("eth", CellState::PartlyRefused)])],
        };
        ConformDocument::make_place(&path).unwrap();
        document.write(&path, "<p>").unwrap();
        assert_eq!(ConformDocument::read(&path).unwrap(), Some(document.clone()));
        assert_eq!(fs::read_to_string(path.join(REPORT)).unwrap(), "<p>");
        assert!(ConformDocument::make_place(&path).unwrap_err().is_taken());
        assert_eq!(ConformDocument::read(parent.path()).unwrap(), None);
        let later = r#"{"schema": 99, "program": "niclab 9"}"#;
        fs::write(path.join(CONFORM), later).unwrap();
        let error = ConformDocument::read(&path).unwrap_err();
        assert!(matches!(error, ResultError::OtherSchema { found: 99, .. }), "{error}");
        fs::write(path.join(CONFORM), "{").unwrap();
        let error = ConformDocument::read(&path).unwrap_err();
        assert!(matches!(error, ResultError::Damaged { line: 1, .. }), "{error}");
    }

    #[test]
    fn states_have_letters_of_their_own() {
        let mut letters = CellState::ALL.map(CellState::letter).to_vec();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), CellState::ALL.len());
    }
}
