//! Axes of queues and of the flows that are spread over them, in words.

use crate::cells::Cell;
use crate::words;

pub(crate) fn number(cell: &Cell<'_>, axis: &str) -> f64 {
    cell.number(axis).unwrap_or(f64::MAX)
}

/// How often flows are picked: `all equally often`, `Zipf 1.1`, `as in the trace`.
pub(crate) fn popularity(cell: &Cell<'_>) -> String {
    match cell.number("zipf") {
        Some(0.0) => "all equally often".to_owned(),
        Some(exponent) => format!("Zipf {exponent}"),
        None => "as in the trace".to_owned(),
    }
}

/// The cores of the queues: `one core`, `8 cores`.
pub(crate) fn cores(cell: &Cell<'_>) -> String {
    match number(cell, "cores") {
        1.0 => "one core".to_owned(),
        cores => format!("{} cores", words::whole(cores)),
    }
}
