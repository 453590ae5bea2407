//! Atomics of the flow migration. `tests/models.rs` replaces them by loom's to try every order of
//! threads.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize};
