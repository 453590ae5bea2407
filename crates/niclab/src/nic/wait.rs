//! Waits a limited time until all cores have applied a change.

use std::thread;
use std::time::{Duration, Instant};

/// Longest wait.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Time between two polls.
const POLL_INTERVAL: Duration = Duration::from_micros(20);

/// Waits until `poll` returns `None`; after the longest wait, returns what it returns then.
pub(super) fn wait<T, E>(mut poll: impl FnMut() -> Result<Option<T>, E>) -> Result<Option<T>, E> {
    let until = Instant::now() + WAIT_MAX;
    loop {
        match poll()? {
            Some(_) if Instant::now() < until => thread::sleep(POLL_INTERVAL),
            pending => return Ok(pending),
        }
    }
}
