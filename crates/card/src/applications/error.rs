//! Why an application cannot be had.

use super::{APPLICATIONS_MAX, SHARE_MAX};

/// Why an application cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ApplicationError {
    /// Too many.
    #[error("{count} applications: a card has {APPLICATIONS_MAX} at most")]
    TooMany {
        /// How many were asked for.
        count: usize,
    },
    /// Two of one name.
    #[error("there is another application {name}")]
    Twice {
        /// The name.
        name: String,
    },
    /// It owns a port or a queue that is not there.
    #[error("application {name}: the card has no {what} {number}")]
    Missing {
        /// The application.
        name: String,
        /// `port` or `queue`.
        what: &'static str,
        /// Its number.
        number: u16,
    },
    /// It has no flow or no port: no frame would ever be its own.
    #[error(
        "application {name}: give at least one flow, one port, and a share of 1 to {SHARE_MAX}"
    )]
    Nothing {
        /// The application.
        name: String,
    },
    /// A pattern that cannot be read, or that another application has.
    #[error("application {name}: flow `{flow}`: {reason}")]
    Flow {
        /// The application.
        name: String,
        /// The pattern.
        flow: String,
        /// The defect.
        reason: String,
    },
    /// Its program sends where it may not.
    #[error("application {name}: the program names {what} {number}, which the application has not")]
    Outside {
        /// The application.
        name: String,
        /// `port` or `queue`.
        what: &'static str,
        /// Its number.
        number: u64,
    },
    /// Its program asks for memory that it has not.
    #[error(
        "application {name}: {what} {memory}: its program takes {bytes} bytes, and it has {most}"
    )]
    Memory {
        /// The application.
        name: String,
        /// `window`, `ring`, or `memory`.
        what: &'static str,
        /// Which.
        memory: String,
        /// Memory that the program needs.
        bytes: u64,
        /// Memory that it may use.
        most: u64,
    },
    /// The last program has not come to all cores.
    #[error("application {name}: a core has not taken the last program yet: ask again")]
    UnderWay {
        /// The application.
        name: String,
    },
    /// There is none of this name.
    #[error("no application {name}; there are: {there}")]
    Unknown {
        /// The requested value.
        name: String,
        /// The names.
        there: String,
    },
}
