//! Who waits while there is nothing to do, and those that give him something.
//!
//! Who is about to wait says so, and then looks once more; whoever gives him something does so, and
//! then looks whether he waits. Between the two steps of each lies a sequentially consistent fence,
//! so at least one of them sees what the other did: he does not wait, or he is told.

use std::io;
use std::sync::atomic::Ordering;

use rustix::event::EventfdFlags;

use crate::sync::{AsFd, AtomicBool, BorrowedFd, OwnedFd, eventfd, fence, read, write};

/// Tells one that waits that there is something to do.
#[derive(Debug)]
pub struct Bell {
    waits: AtomicBool,
    event: OwnedFd,
}

impl Bell {
    /// One that nobody waits for.
    ///
    /// # Errors
    /// What the system says of an eventfd: too many open files.
    pub fn new() -> io::Result<Bell> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell { waits: AtomicBool::new(false), event })
    }

    /// Tells who waits, if anybody does, behind having given him something.
    #[inline]
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.waits.load(Ordering::Relaxed) && self.waits.swap(false, Ordering::Relaxed) {
            // Were the counter full, it would be readable as well.
            let _ = write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Says that one waits from now on; he looks once more before he does.
    #[inline]
    pub fn wait(&self) {
        self.waits.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that one waits no longer. True where somebody has found him waiting: the bell rings, or
    /// will yet, and is to be [hushed](Bell::hush).
    #[inline]
    pub fn is_rung(&self) -> bool {
        !self.waits.swap(false, Ordering::Relaxed)
    }

    /// Takes the ringing away. False where there was none: who found him waiting rings yet, and the
    /// next wait ends by that at once.
    pub fn hush(&self) -> bool {
        read(&self.event, &mut [0; 8]).is_ok()
    }

    /// Lets one sleep by `sleep`, which ends once what it is given is readable, unless `has_work`
    /// says that there is something to do.
    pub fn rest(&self, has_work: impl FnOnce() -> bool, sleep: impl FnOnce(BorrowedFd<'_>)) {
        self.wait();
        let sleeps = !has_work();
        if sleeps {
            sleep(self.event());
        }
        // What ended the sleep may have rung in an earlier one, too late for it.
        if self.is_rung() || sleeps {
            self.hush();
        }
    }

    /// Readable while the bell rings.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
