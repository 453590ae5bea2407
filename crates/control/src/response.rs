//! Every answer of a card: one JSON object a line.

use serde::{Deserialize, Serialize};

use crate::{CardCounters, FlowDone, TableState, Width};

/// What a card answers. `response` names the kind; the [requests](crate::Request) say which of them
/// each is answered by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "snake_case")]
pub enum Response {
    /// The applications.
    Applications {
        /// In the order of their names.
        applications: Vec<ApplicationStatus>,
    },
    /// A capture.
    Capture {
        /// The port.
        port: u16,
        /// How far it is; `None` where nothing is captured.
        capture: Option<CaptureState>,
    },
    /// A capture has begun.
    CaptureBegun {
        /// The port.
        port: u16,
        /// A core whose frames are not captured yet, for it has not come to look.
        waits_for: Option<u32>,
    },
    /// A counter of a program.
    Counter {
        /// Packets.
        packets: u64,
        /// Bytes.
        bytes: u64,
    },
    /// What the card has counted.
    Counters(CardCounters),
    /// Records that a program has reported. 1,000 at most; further ones wait for the next request.
    Digests {
        /// The fields of each, in their order.
        records: Vec<Vec<DigestField>>,
        /// Records that found no room so far.
        untold: u64,
    },
    /// Commands on tables were carried out.
    Done {
        /// How many, together.
        commands: u64,
    },
    /// The request was not carried out. Of commands on rules for several ports, those for the ports
    /// before the refused one stay.
    Error {
        /// Why, where, and what to do.
        reason: String,
    },
    /// Commands on rules were carried out.
    Flow {
        /// What each did.
        done: Vec<FlowDone>,
        /// A program decides about frames: the rules decide nothing until it is removed.
        is_idle: bool,
    },
    /// A part of a window, as numbers.
    Numbers {
        /// Where it begins, bytes.
        offset: u64,
        /// How wide each is.
        width: Width,
        /// The numbers.
        numbers: Vec<u64>,
    },
    /// How much the tables of a program have.
    Program {
        /// In the program's order; `None` where there is no program.
        tables: Option<Vec<TableState>>,
    },
    /// The program was replaced or removed.
    ProgramChanged {
        /// No frame meets the last program any more. Otherwise a core has not come to look yet:
        /// the last program decides there until it does.
        is_in_effect: bool,
    },
    /// A register of a program.
    Register {
        /// What it has.
        value: u64,
    },
    /// The tables that a file names have what it says.
    Replaced {
        /// How many tables.
        tables: u64,
        /// Entries that were not there.
        added: u64,
        /// Entries with another priority, place or action.
        changed: u64,
        /// Entries that are gone.
        deleted: u64,
        /// Entries that are as they were.
        kept: u64,
    },
    /// Entries that wait in a ring.
    Ring {
        /// Copies of the first ones, 64 at most, in hexadecimal digits.
        entries: Vec<String>,
        /// More wait behind them.
        has_more: bool,
    },
    /// The RSS of a port.
    Rss {
        /// The port.
        port: u16,
        /// Hash, key, level and types, as the action `rss` writes them.
        parameters: String,
        /// The queue of each entry of its table.
        indirection: Vec<u16>,
    },
    /// The RSS of a port has changed.
    RssChanged {
        /// The port.
        port: u16,
        /// Entries of its table that name another queue.
        moved_entries: u64,
        /// Nanoseconds until it was so for all frames; `None` where it is not so yet.
        settled_ns: Option<u64>,
        /// The core that frames wait for, where it is not so yet.
        waits_for: Option<u32>,
    },
    /// The card ends.
    Stopping {},
    /// All that a table has.
    Table {
        /// How much.
        table: TableState,
        /// The commands that put its entries and groups there; of a learner none.
        entries: Vec<String>,
    },
    /// How much tables have.
    Tables {
        /// In the program's order.
        tables: Vec<TableState>,
    },
    /// A file of tables.
    TablesFile {
        /// JSON, as a text.
        text: String,
    },
    /// A part of a window.
    Window {
        /// Where it begins, bytes.
        offset: u64,
        /// What is there, in hexadecimal digits.
        bytes: String,
    },
}

/// An application, and what it owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationStatus {
    /// Its name.
    pub name: String,
    /// Ports that its frames come by and that it may send by.
    pub ports: Vec<u16>,
    /// Queues that it may steer to.
    pub queues: Vec<u16>,
    /// Its share of the cores' time beside those of others.
    pub share: u32,
    /// Rings of its program.
    pub rings: Vec<RingShape>,
    /// Windows of its program.
    pub windows: Vec<WindowShape>,
}

/// Rings of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingShape {
    /// Their name.
    pub name: String,
    /// How many there are.
    pub count: u64,
    /// Entries of each.
    pub entries: u64,
    /// Bytes of an entry.
    pub entry_bytes: u64,
}

/// A window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowShape {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// How far a capture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureState {
    /// Frames in the trace.
    pub frames: u64,
    /// Frames that are not in it, for it was behind.
    pub missed: u64,
    /// It goes on.
    pub goes_on: bool,
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestField {
    /// Its name.
    pub name: String,
    /// Its value, hexadecimal behind `0x`.
    pub value: String,
}

impl Response {
    /// Reads a line, without its end; `None` where it is no answer of a card.
    pub fn read(line: &str) -> Option<Response> {
        serde_json::from_str(line).ok()
    }

    /// Writes it as a line, without its end.
    pub fn line(&self) -> String {
        // It has nothing that JSON cannot say.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// That a request was not carried out.
    pub fn error(reason: impl ToString) -> Response {
        Response::Error { reason: reason.to_string() }
    }
}
