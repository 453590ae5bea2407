//! The sleep and wake handshake between an idle core and its producers.
//!
//! The core announces that it will wait, then looks for work once more. A producer hands work over,
//! then looks whether the core waits. A sequentially consistent fence lies between the two steps of
//! each, so at least one of them sees the other's step: the core does not wait, or it is woken.

use std::io;
use std::sync::atomic::Ordering;

use rustix::event::EventfdFlags;

use crate::sync::{AsFd, AtomicBool, BorrowedFd, OwnedFd, eventfd, fence, read, write};

/// Wakes a core that waits for work.
#[derive(Debug)]
pub struct Doorbell {
    waits: AtomicBool,
    event: OwnedFd,
}

impl Doorbell {
    /// A doorbell that no core waits for.
    ///
    /// # Errors
    /// The system's error for an eventfd, such as too many open files.
    pub fn new() -> io::Result<Doorbell> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Doorbell { waits: AtomicBool::new(false), event })
    }

    /// Wakes the core, if it waits. Called after work was handed over.
    #[inline]
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.waits.load(Ordering::Relaxed) && self.waits.swap(false, Ordering::Relaxed) {
            // Were the counter full, it would be readable as well.
            let _ = write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Announces that the core waits from now on; it looks for work once more before it does.
    #[inline]
    pub fn wait(&self) {
        self.waits.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Ends the wait. True where a producer has found the core waiting: the doorbell rings, or will
    /// ring yet, and has to be [cleared](Doorbell::clear).
    #[inline]
    pub fn is_rung(&self) -> bool {
        !self.waits.swap(false, Ordering::Relaxed)
    }

    /// Clears the ring. False where there was none yet: the producer will ring later, which ends
    /// the next wait at once.
    pub fn clear(&self) -> bool {
        read(&self.event, &mut [0; 8]).is_ok()
    }

    /// Sleeps by `sleep`, which has to end once the file that it gets is readable. Does not sleep
    /// if `has_work` says that there is work.
    pub fn sleep_unless(
        &self,
        has_work: impl FnOnce() -> bool,
        sleep: impl FnOnce(BorrowedFd<'_>),
    ) {
        self.wait();
        let sleeps = !has_work();
        if sleeps {
            sleep(self.event());
        }
        // The ring that ended this sleep may have been meant for an earlier one.
        if self.is_rung() || sleeps {
            self.clear();
        }
    }

    /// Readable while the doorbell rings.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
