//! What turns are counted by; `tests/turns.rs` has loom's, to try every order of threads.

pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
