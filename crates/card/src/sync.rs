//! What sleep and moving flows are made of: atomics, and a file that wakes.
//!
//! `tests/models.rs` has loom's under `wake` and `moving`, to try every order of threads.

pub(crate) use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};

pub(crate) use rustix::event::eventfd;
pub(crate) use rustix::io::{read, write};
