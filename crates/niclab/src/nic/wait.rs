//! Waits a limited time until all cores have applied a change.

use std::thread;
use std::time::{Duration, Instant};

/// How long at most.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_micros(20);

/// Waits until `look` says nothing any more; what it says even then, where patience ends first.
pub(super) fn wait<T, E>(mut look: impl FnMut() -> Result<Option<T>, E>) -> Result<Option<T>, E> {
    let until = Instant::now() + PATIENCE;
    loop {
        match look()? {
            Some(_) if Instant::now() < until => thread::sleep(LOOK),
            message => return Ok(message),
        }
    }
}
