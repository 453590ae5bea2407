//! Every way in which speaking with a card can fail.

use std::io;

use crate::LINE_LEN_MAX;

/// Why a request has no answer, or a line is no request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The card did not do what it was asked.
    #[error("{reason}")]
    Refused {
        /// The card's own words.
        reason: String,
    },
    /// A line is no request.
    #[error("no request: {reason}")]
    Request {
        /// Which field is wrong, and what is expected.
        reason: String,
    },
    /// A line is no text.
    #[error("a command is text in UTF-8")]
    NotText,
    /// A request finds no room.
    #[error(
        "command too long: a command, and all pending ones together, have at most {} MiB; split \
         it, or retry when others are done",
        LINE_LEN_MAX >> 20
    )]
    TooLong,
    /// Nothing can be sent to a card by this socket, or received from it.
    #[error("{0}")]
    Unreachable(#[source] io::Error),
    /// The card has not answered in time.
    #[error("no answer within {seconds} s: the card is at work")]
    Silent {
        /// How long the client waited.
        seconds: u64,
    },
    /// What answers does not speak as a card does.
    #[error("what listens there is no card")]
    NoCard,
}
