//! How a core sleeps while nothing comes, and what wakes it.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Engine;
use crate::card::Receive;
use crate::guests::Seat;
use crate::serving::Serving;
use crate::side::Side;

/// How long a core sleeps at most where nothing wakes it: what it is told wakes it, too, so that
/// this is for what nobody thought of.
const SLEEP_MAX: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The same where somebody has to look whether a lane has room, or a frame.
const SLEEP_SHORT: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Waits until a lane has a frame or this is readable, or it is time to look.
fn wait(sides: &[Side], has_guests: bool, event: BorrowedFd<'_>) {
    let lanes = || sides.iter().filter_map(|side| side.lane.as_deref());
    let has_to_look = has_guests
        || lanes().any(|lane| lane.waits_on().is_none())
        || sides.iter().any(|side| !side.leaving.is_empty());
    let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut fds: Vec<PollFd<'_>> =
        lanes().filter_map(|lane| lane.waits_on()).map(readable).collect();
    fds.push(readable(event));
    // Whatever it says, the lanes are looked at.
    let _ = poll(&mut fds, Some(if has_to_look { &SLEEP_SHORT } else { &SLEEP_MAX }));
}

impl Engine {
    /// Wakes the cores that were given something.
    #[inline]
    pub(super) fn wake(&mut self) {
        if self.receive == Receive::BusyPoll {
            return;
        }
        for (gave, bell) in self.gave.iter_mut().zip(&self.bells[..]) {
            if std::mem::take(gave) {
                bell.ring();
            }
        }
    }

    /// Sleeps until a lane has a frame, another core gives one, or the control side wants
    /// something.
    #[cold]
    pub(super) fn sleep(&mut self) {
        if self.sides.iter().any(|side| !side.moving.is_calm()) {
            // Others are at work on what it waits for.
            return std::thread::yield_now();
        }
        self.sides.iter_mut().for_each(|side| side.worker.offline());
        self.program.carried.iter_mut().for_each(|carried| carried.rest());
        self.host.iter_mut().for_each(|host| host.offline());
        let has_work = || {
            self.told.load(Ordering::Acquire) != self.has_heard
                || self.progress.is_awaited()
                || self.crossings.iter().any(|crossing| !crossing.is_empty())
                || self.host.as_ref().is_some_and(|host| host.is_given())
                || self.service.as_ref().is_some_and(Serving::has_work)
        };
        let has_guests = self.seats.iter().any(Seat::is_taken);
        self.bells[self.place].rest(has_work, |event| wait(&self.sides, has_guests, event));
        self.sides.iter_mut().for_each(|side| side.worker.online());
        self.program.carried.iter_mut().for_each(|carried| carried.wake());
        self.host.iter_mut().for_each(|host| host.online());
    }
}
