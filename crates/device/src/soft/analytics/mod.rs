//! Real-time analytics behind a card's queues: how much each mode saves the cores of the
//! workers.
//!
//! Workers, receiving sides and programs are those of `niclab analytics`. The card takes all frames
//! before anything is timed. Then the cores receive what it has given them, and after that the
//! workers count; both are timed by the time that their threads have on CPUs. With the program
//! `tuple-items` the card has written the tuples into the workers' rings, and acknowledged them:
//! only the workers still have work.
//!
//! Staged: this shows time and throughput, and no loss. The result of every window is compared with
//! a plain count.

mod expected;
mod gate;
mod host;
mod load;
mod pass;
mod serve;
mod workers;

pub use load::KEYS_MAX;
pub use niclab_analytics::tuple::{PAYLOAD_LEN_MAX, TUPLES_MAX as BATCH_MAX};
pub use serve::{PANES_MIN, RESULT_PANES, WARM_PANES, WORKERS_MAX};
pub(super) use serve::{count, places};

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
