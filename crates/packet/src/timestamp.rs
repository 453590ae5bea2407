//! Time stamps of frames: by which clock.

use serde::{Deserialize, Serialize};

/// The clock that frames are stamped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimestampClock {
    /// The card, by its own clock, at its end of the cable.
    #[default]
    Card,
    /// The kernel, by `CLOCK_REALTIME`: a sent frame when the driver hands it to the card, a
    /// received one when the driver hands it to the stack.
    Kernel,
}
