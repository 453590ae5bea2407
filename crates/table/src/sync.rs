//! The atomics and locks of this crate: std's, or loom's when a model is checked.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex,
    atomic::{AtomicPtr, AtomicU64, AtomicUsize, fence},
};
pub(crate) use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex,
    atomic::{AtomicPtr, AtomicU64, AtomicUsize, fence},
};
