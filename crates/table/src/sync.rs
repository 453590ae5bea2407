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

#[cfg(loom)]
pub(crate) use modelled::OnceLock;
#[cfg(not(loom))]
pub(crate) use std::sync::OnceLock;

/// Std's `OnceLock` for one writer, in an order that loom knows: `set` is a release, `get` an
/// acquire.
#[cfg(loom)]
mod modelled {
    use super::{Acquire, AtomicUsize, Release};

    #[derive(Debug)]
    pub(crate) struct OnceLock<T> {
        is_set: AtomicUsize,
        content: std::sync::OnceLock<T>,
    }

    impl<T> OnceLock<T> {
        pub(crate) fn new() -> Self {
            Self { is_set: AtomicUsize::new(0), content: std::sync::OnceLock::new() }
        }

        pub(crate) fn set(&self, content: T) -> Result<(), T> {
            self.content.set(content)?;
            self.is_set.store(1, Release);
            Ok(())
        }

        pub(crate) fn get(&self) -> Option<&T> {
            self.content.get().filter(|_| self.is_set.load(Acquire) == 1)
        }
    }
}
