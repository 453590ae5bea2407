//! Sleep and wake-up of an idle core.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Engine;
use crate::card::Receive;
use crate::core_service::CoreService;
use crate::external_queues::ExternalQueueEnd;
use crate::port_context::PortContext;

/// How long a core sleeps at most where nothing wakes it: changes wake it, too, so that
/// this is for cases that nobody thought of.
const SLEEP_MAX: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The same where somebody has to look whether a queue pair has room, or a frame.
const SLEEP_SHORT: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Waits until a queue pair has a frame or this is readable, or it is time to look.
fn wait(contexts: &[PortContext], has_external: bool, event: BorrowedFd<'_>) {
    let queue_pairs = || contexts.iter().filter_map(|context| context.queue_pair.as_deref());
    let has_to_look = has_external
        || queue_pairs().any(|queue_pair| queue_pair.poll_fd().is_none())
        || contexts.iter().any(|context| !context.transmit.is_empty());
    let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut fds: Vec<PollFd<'_>> =
        queue_pairs().filter_map(|queue_pair| queue_pair.poll_fd()).map(readable).collect();
    fds.push(readable(event));
    // Whatever it says, the queue pairs are looked at.
    let _ = poll(&mut fds, Some(if has_to_look { &SLEEP_SHORT } else { &SLEEP_MAX }));
}

impl Engine {
    /// Wakes the cores that were given something.
    #[inline]
    pub(super) fn wake(&mut self) {
        if self.receive == Receive::BusyPoll {
            return;
        }
        for (gave, doorbell) in self.cores_to_wake.iter_mut().zip(&self.doorbells[..]) {
            if std::mem::take(gave) {
                doorbell.ring();
            }
        }
    }

    /// Sleeps until a queue pair has a frame, another core gives one, or the control side wants
    /// something.
    #[cold]
    pub(super) fn sleep(&mut self) {
        if self.contexts.iter().any(|context| !context.migration.is_idle()) {
            // Others are at work on what it waits for.
            return std::thread::yield_now();
        }
        self.contexts.iter_mut().for_each(|context| context.worker.offline());
        self.program.instance.iter_mut().for_each(|instance| instance.rest());
        self.host.iter_mut().for_each(|host| host.offline());
        let has_work = || {
            self.notifications.load(Ordering::Acquire) != self.notifications_seen
                || self.progress.is_awaited()
                || self.inter_core.iter().any(|rings| !rings.is_empty())
                || self.host.as_ref().is_some_and(|host| host.has_frames())
                || self.service.as_ref().is_some_and(CoreService::has_work)
        };
        let has_external = self.external_queues.iter().any(ExternalQueueEnd::needs_polling);
        self.doorbells[self.place]
            .sleep_unless(has_work, |event| wait(&self.contexts, has_external, event));
        self.contexts.iter_mut().for_each(|context| context.worker.online());
        self.program.instance.iter_mut().for_each(|instance| instance.wake());
        self.host.iter_mut().for_each(|host| host.online());
    }
}
