//! A fence around the Parquet reader, which panics at some damaged files instead of refusing them.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use parquet::errors::ParquetError;

thread_local! {
    /// A panic of this thread is an answer, and prints nothing.
    static IS_FENCED: Cell<bool> = const { Cell::new(false) };
}

/// Does `read`; a panic in it is an error. What it has borrowed must not be used after one.
pub(super) fn fenced<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_FENCED.get() {
                before(info);
            }
        }));
    });
    IS_FENCED.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(read));
    IS_FENCED.set(false);
    result.unwrap_or_else(|_| Err(ParquetError::General("sizes that contradict each other".into())))
}
