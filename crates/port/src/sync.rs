//! The parts of a doorbell: atomics, and a file that wakes.
//!
//! `tests/wake.rs` has loom's under [`wake`](crate::wake), to try every order of threads.

pub(crate) use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
pub(crate) use std::sync::atomic::{AtomicBool, fence};

pub(crate) use rustix::event::eventfd;
pub(crate) use rustix::io::{read, write};
