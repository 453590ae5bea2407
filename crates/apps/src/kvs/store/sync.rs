//! Atomics of the quiescence counters. `tests/quiescence.rs` puts those of loom in their place.

pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
