//! Everything that a card can be asked: one JSON object a line.
//!
//! `request` names what is asked, and the other fields say of what. An unknown field is refused, so
//! that a slip in an optional one is not taken for its absence.

use serde::{Deserialize, Serialize};

use crate::ControlError;

/// What is asked. Without `application`, a request about a program is about the card's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Which applications there are, and what they own: [`Response::Applications`].
    ///
    /// [`Response::Applications`]: crate::Response::Applications
    Applications {
        /// Only this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Write the frames of a port into a trace from now on: [`Response::CaptureBegun`]. The file,
    /// open for writing, comes beside the request (`SCM_RIGHTS`, unix(7)).
    ///
    /// [`Response::CaptureBegun`]: crate::Response::CaptureBegun
    CaptureBegin {
        /// The port, from 0.
        port: u16,
        /// What messages call the file; the card does not open it.
        file: String,
        /// End by itself after so many frames, from 1; never where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<u64>,
    },
    /// End the capture of a port, and have its file whole: [`Response::Capture`].
    ///
    /// [`Response::Capture`]: crate::Response::Capture
    CaptureEnd {
        /// The port, from 0.
        port: u16,
    },
    /// How far the capture of a port is: [`Response::Capture`].
    ///
    /// [`Response::Capture`]: crate::Response::Capture
    CaptureState {
        /// The port, from 0.
        port: u16,
    },
    /// What the card has counted: [`Response::Counters`].
    ///
    /// [`Response::Counters`]: crate::Response::Counters
    Counters {},
    /// Carry out commands of the rule language, one a line: [`Response::Flow`].
    ///
    /// [`Response::Flow`]: crate::Response::Flow
    Flow {
        /// `flow create 0 ingress …`, or another `flow` or `set` command.
        command: String,
    },
    /// A counter of a program: [`Response::Counter`].
    ///
    /// [`Response::Counter`]: crate::Response::Counter
    ProgramCounter {
        /// Whose program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        application: Option<String>,
        /// Name of the `countarray`.
        array: String,
        /// Which of them, from 0.
        index: u64,
    },
    /// Take the records that a program has reported since the last time: [`Response::Digests`].
    ///
    /// [`Response::Digests`]: crate::Response::Digests
    ProgramDigests {
        /// Whose program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        application: Option<String>,
        /// Name of the `digest`.
        digest: String,
    },
    /// Replace the program, with its tables or with empty ones: [`Response::ProgramChanged`].
    ///
    /// [`Response::ProgramChanged`]: crate::Response::ProgramChanged
    ProgramLoad {
        /// Whose program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        application: Option<String>,
        /// The program.
        program: TextFile,
        /// Its tables, as JSON.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tables: Option<TextFile>,
    },
    /// Remove the program: [`Response::ProgramChanged`]. An application always has one.
    ///
    /// [`Response::ProgramChanged`]: crate::Response::ProgramChanged
    ProgramNone {
        /// Whose program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        application: Option<String>,
    },
    /// A register of a program: [`Response::Register`].
    ///
    /// [`Response::Register`]: crate::Response::Register
    ProgramRegister {
        /// Whose program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        application: Option<String>,
        /// Name of the `regarray`.
        array: String,
        /// Which of them, from 0.
        index: u64,
    },
    /// Copies of the entries that wait in a ring: [`Response::Ring`].
    ///
    /// [`Response::Ring`]: crate::Response::Ring
    ProgramRing {
        /// Whose program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        application: Option<String>,
        /// Name of the `ring`.
        ring: String,
        /// Which of them, from 0.
        index: u64,
    },
    /// How much the tables of a program have: [`Response::Program`].
    ///
    /// [`Response::Program`]: crate::Response::Program
    ProgramShow {
        /// Whose program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        application: Option<String>,
    },
    /// A copy of a part of a window: [`Response::Window`], or [`Response::Numbers`] where a width
    /// is given.
    ///
    /// [`Response::Window`]: crate::Response::Window
    /// [`Response::Numbers`]: crate::Response::Numbers
    ProgramWindow {
        /// Whose program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        application: Option<String>,
        /// Name of the `window`.
        window: String,
        /// First byte, from 0.
        offset: u64,
        /// Bytes, or numbers where a width is given; 4,096 bytes at most.
        count: u64,
        /// Read numbers in place of bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        width: Option<Width>,
    },
    /// The RSS of a port, [`Response::Rss`], or a change of it,
    /// [`Response::RssChanged`].
    ///
    /// [`Response::Rss`]: crate::Response::Rss
    /// [`Response::RssChanged`]: crate::Response::RssChanged
    Rss {
        /// The port, from 0.
        port: u16,
        /// Parameters of the action `rss`, such as `queues 0 1 end`, or `reta (ENTRY,QUEUE),…`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<String>,
    },
    /// End the card: [`Response::Stopping`].
    ///
    /// [`Response::Stopping`]: crate::Response::Stopping
    Stop {},
    /// Carry out one command on the tables of a program: [`Response::Done`].
    ///
    /// [`Response::Done`]: crate::Response::Done
    TableCommand {
        /// Whose program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        application: Option<String>,
        /// `add routes dst:10.0.0.0/8 out(port:2)`, or another command of packet tests.
        command: String,
    },
    /// What tables have, as a file that [`Request::TableLoad`] takes: [`Response::TablesFile`].
    ///
    /// [`Response::TablesFile`]: crate::Response::TablesFile
    TableFile {
        /// Whose program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        application: Option<String>,
        /// Only this table.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        table: Option<String>,
    },
    /// Carry out a file of tables: [`Response::Done`], or [`Response::Replaced`].
    ///
    /// [`Response::Done`]: crate::Response::Done
    /// [`Response::Replaced`]: crate::Response::Replaced
    TableLoad {
        /// Whose program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        application: Option<String>,
        /// The file: JSON, as a text.
        tables: String,
        /// The tables that the file names have nothing else afterwards.
        #[serde(default, skip_serializing_if = "is_false")]
        replace: bool,
    },
    /// How much all tables have, or all that one has: [`Response::Tables`], [`Response::Table`].
    ///
    /// [`Response::Tables`]: crate::Response::Tables
    /// [`Response::Table`]: crate::Response::Table
    TableShow {
        /// Whose program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        application: Option<String>,
        /// Only this table, with its entries.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        table: Option<String>,
    },
    /// Carry out commands on tables, all together or none: [`Response::Done`].
    ///
    /// [`Response::Done`]: crate::Response::Done
    TableTransaction {
        /// Whose program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        application: Option<String>,
        /// The commands, from one on.
        commands: Vec<String>,
    },
}

/// A text, and what messages call the file that it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextFile {
    /// What messages call it.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// Bits of a number in a window, whose last byte comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Width {
    /// One byte.
    U8,
    /// Two bytes.
    U16,
    /// Four bytes.
    U32,
    /// Eight bytes.
    U64,
}

impl Width {
    /// Bytes of a number.
    pub fn bytes(self) -> u64 {
        match self {
            Width::U8 => 1,
            Width::U16 => 2,
            Width::U32 => 4,
            Width::U64 => 8,
        }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Most characters of a reason that are reported: a request may be megabytes of a single wrong
/// word.
const REASON_LEN_MAX: usize = 1_000;

impl Request {
    /// Reads a line, without its end.
    ///
    /// # Errors
    /// [`ControlError::Request`]: no JSON object, an unknown request, or a field that is unknown,
    /// missing or of another type.
    pub fn read(line: &str) -> Result<Request, ControlError> {
        // Serde takes a list of values for an object.
        if !line.trim_start().starts_with('{') {
            let reason = r#"expected a JSON object, such as {"request":"counters"}"#.to_owned();
            return Err(ControlError::Request { reason });
        }
        serde_json::from_str(line).map_err(|error| {
            let whole = error.to_string();
            let mut reason: String = whole.chars().take(REASON_LEN_MAX).collect();
            if reason.len() < whole.len() {
                reason.push('…');
            }
            ControlError::Request { reason }
        })
    }

    /// Writes it as a line, without its end.
    pub fn line(&self) -> String {
        // It has nothing that JSON cannot say.
        serde_json::to_string(self).unwrap_or_default()
    }
}
