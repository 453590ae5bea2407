//! What moving flows are made of; `tests/models.rs` has loom's, to try every order of threads.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize};
