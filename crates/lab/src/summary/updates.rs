//! How rules were changed, in words.

use serde_json::Value;

use crate::cells::Cell;
use crate::words;

/// `at once`, `32 between two bursts`, or `a tick at a time`.
pub(crate) fn pace_words(cell: &Cell<'_>) -> String {
    match (cell.number("slice"), cell.word("slice").as_str()) {
        (Some(count), _) => format!("{} between two bursts", words::whole(count)),
        (None, "tick") => "a tick at a time".into(),
        (None, _) => "at once".into(),
    }
}

pub(crate) fn calls_words(cell: &Cell<'_>) -> String {
    match cell.word("calls").as_str() {
        "single" => "single calls".into(),
        "queue" => "operation queue".into(),
        calls => calls.into(),
    }
}

/// Length of the trials of a cell, nanoseconds.
pub(crate) fn length(cell: &Cell<'_>) -> Option<u64> {
    cell.samples.first()?.load.pointer("/duration_ns").and_then(Value::as_u64)
}
