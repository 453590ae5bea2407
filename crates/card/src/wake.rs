//! Cores that sleep while no frame comes, and those that wake them.
//!
//! A core that is about to sleep says so, and then looks once more whether there is anything to do;
//! whoever gives it something does so, and then looks whether it sleeps. Between the two steps of
//! each lies a sequentially consistent fence, so at least one of them sees what the other did: the
//! core does not sleep, or it is woken.

use std::io;
use std::sync::atomic::Ordering;

use rustix::event::EventfdFlags;

use crate::sync::{AsFd, AtomicBool, BorrowedFd, OwnedFd, eventfd, fence, read, write};

/// Wakes one core.
pub(crate) struct Bed {
    is_asleep: AtomicBool,
    event: OwnedFd,
}

impl Bed {
    pub(crate) fn new() -> io::Result<Bed> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bed { is_asleep: AtomicBool::new(false), event })
    }

    /// Wakes the core, if it sleeps, after it was given something.
    #[inline]
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) && self.is_asleep.swap(false, Ordering::Relaxed) {
            // Were the counter full, it would be readable as well.
            let _ = write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Lets the core sleep by `sleep`, which ends once what it is given is readable, unless
    /// `has_work` says that there is something to do.
    pub(crate) fn rest(&self, has_work: impl FnOnce() -> bool, sleep: impl FnOnce(BorrowedFd<'_>)) {
        self.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let sleeps = !has_work();
        if sleeps {
            sleep(self.event.as_fd());
        }
        // Who found it asleep may write only after this has read, when it has got up by itself: a
        // later sleep ends by that at once, and takes it away.
        if !self.is_asleep.swap(false, Ordering::Relaxed) || sleeps {
            let _ = read(&self.event, &mut [0; 8]);
        }
    }
}
